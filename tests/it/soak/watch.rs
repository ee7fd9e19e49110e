//! What is measured while a soak runs: resident memory by kind of daemon, bytes on disk, and the
//! records of starts in the hosts' own logs, which hosts remove once all is acknowledged.

use super::procs::{self, Proc};
use corral::model::AttemptId;
use corral::task::log::{TaskRec, decode_tasks};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Samples of a process younger than this say nothing: it still warms up.
const WARM_S: f64 = 20.0;
/// Shorter lives give no slope.
const LIFE_S: f64 = 40.0;

/// Resident kilobytes over time, by process.
#[derive(Default)]
pub struct Memory {
    /// Role and samples (second, KB).
    all: BTreeMap<(i32, String), Vec<(f64, f64)>>,
}

/// A straight line through samples of one process.
#[derive(Clone, Debug)]
pub struct Slope {
    pub role: String,
    pub seconds: f64,
    pub kb_a_minute: f64,
    pub last_kb: f64,
}

impl Memory {
    pub fn sample(&mut self, at: f64, members: &[Proc]) {
        for p in members.iter().filter(|p| p.role != "shepherd") {
            let Some(kb) = procs::resident(p.pid) else {
                continue;
            };
            let key = (p.pid, p.role.clone());
            self.all.entry(key).or_default().push((at, kb as f64));
        }
    }

    /// For each kind the process that lived longest.
    pub fn slopes(&self) -> Vec<Slope> {
        let mut best: BTreeMap<&str, Slope> = BTreeMap::new();
        for ((_, role), samples) in &self.all {
            let Some(slope) = slope(role, samples) else {
                continue;
            };
            let old = best.entry(role).or_insert_with(|| slope.clone());
            if old.seconds < slope.seconds {
                *old = slope;
            }
        }
        best.into_values().collect()
    }
}

/// Least squares over the samples behind the warm-up.
fn slope(role: &str, samples: &[(f64, f64)]) -> Option<Slope> {
    let (begin, end) = (samples.first()?.0, samples.last()?.0);
    let kept: Vec<_> = samples
        .iter()
        .filter(|(t, _)| t - begin >= WARM_S)
        .collect();
    if end - begin < LIFE_S || kept.len() < 4 {
        return None;
    }
    let n = kept.len() as f64;
    let (mt, mk) = (
        kept.iter().map(|s| s.0).sum::<f64>() / n,
        kept.iter().map(|s| s.1).sum::<f64>() / n,
    );
    let up: f64 = kept.iter().map(|s| (s.0 - mt) * (s.1 - mk)).sum();
    let down: f64 = kept.iter().map(|s| (s.0 - mt) * (s.0 - mt)).sum();
    Some(Slope {
        role: role.to_owned(),
        seconds: end - begin,
        kb_a_minute: up / down * 60.0,
        last_kb: kept.last()?.1,
    })
}

#[test]
fn the_slope_of_a_line_is_found() {
    let line: Vec<_> = (0..30)
        .map(|i| (f64::from(i) * 5.0, 1000.0 + f64::from(i)))
        .collect();
    let found = slope("x", &line).unwrap();
    assert!((found.kb_a_minute - 12.0).abs() < 1e-6, "{found:?}");
    assert!(slope("x", &line[..5]).is_none());
}

/// The hosts' logs of tasks, each held open so that its removal loses nothing.
#[derive(Default)]
pub struct TaskLogs {
    open: BTreeMap<PathBuf, (File, Vec<u8>)>,
    /// Start records by attempt: host, of every host.
    pub starts: BTreeMap<AttemptId, Vec<String>>,
    pub ends: BTreeMap<AttemptId, u32>,
    /// Wall clock of each start (ms).
    pub times: Vec<i64>,
    /// Lines that a killed writer tore.
    pub bad: usize,
}

impl TaskLogs {
    /// Reads what is new. `locals`: the hosts' own directories by name.
    pub fn read(&mut self, locals: &[(String, PathBuf)]) {
        for (host, dir) in locals {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = entry.path();
                if name.starts_with("tasks.")
                    && !self.open.contains_key(&path)
                    && let Ok(file) = File::open(&path)
                {
                    self.open.insert(path, (file, Vec::new()));
                }
            }
            for (_, (file, rest)) in self.open.iter_mut().filter(|(p, _)| p.starts_with(dir)) {
                drop(file.read_to_end(rest));
                let lines = decode_tasks(rest);
                self.bad += lines.bad.len();
                for task in lines.recs {
                    match task.rec {
                        TaskRec::Start { a, t, .. } => {
                            self.times.push(t);
                            self.starts.entry(a).or_default().push(host.clone());
                        }
                        TaskRec::End(end) => *self.ends.entry(end.a).or_default() += 1,
                        TaskRec::Susp { .. } | TaskRec::Saved { .. } | TaskRec::Hook { .. } => {}
                    }
                }
                rest.drain(..lines.end);
            }
        }
    }
}

/// Bytes below a directory.
pub fn size(dir: &Path) -> u64 {
    let all = std::fs::read_dir(dir).into_iter().flatten().flatten();
    all.map(|e| match e.metadata() {
        Ok(m) if m.is_dir() => size(&e.path()),
        Ok(m) => m.len(),
        Err(_) => 0,
    })
    .sum()
}

/// Bytes of the parts of the share and of the hosts' directories, in KB.
pub fn disk(share: &Path, locals: &[(String, PathBuf)]) -> BTreeMap<String, u64> {
    let entries = std::fs::read_dir(share).into_iter().flatten().flatten();
    let mut out: BTreeMap<String, u64> = entries
        .map(|e| {
            (
                e.file_name().to_string_lossy().into_owned(),
                size(&e.path()) >> 10,
            )
        })
        .collect();
    out.insert(
        "local".into(),
        locals.iter().map(|(_, d)| size(d)).sum::<u64>() >> 10,
    );
    out
}

/// One printed line, in the form of the benchmarks.
pub fn line(name: &str, value: f64, unit: &str) {
    let value = (value * 100.0).round() / 100.0;
    println!("{}", json!({"name": name, "value": value, "unit": unit}));
}
