//! A workload from Corral's own journal: the submitted jobs and their run times. Owns the pairing
//! of submissions with starts and ends; `journal` and `record` own files and frames. Only reads.

use super::live_cluster::{cluster_id, number};
use super::workload::{Builder, Job, JobRequest, LeftOut, Workload};
use crate::journal::{History, HistoryEntry, decode_event};
use crate::model::{JobKey, Spec, Stamp};
use crate::record::event::Event;
use crate::record::frame::parse_line;
use crate::spool::Layout;
use crate::sys;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Collects events.
#[derive(Default)]
struct JournalReader {
    specs: HashMap<u32, Spec>,
    jobs: BTreeMap<u32, Submission>,
    runs: BTreeMap<JobKey, JobAttempts>,
    left_out: LeftOut,
}

struct Submission {
    spec: u32,
    t: Stamp,
    array: bool,
}

/// The attempts of one job so far.
#[derive(Default)]
struct JobAttempts {
    start: Option<Stamp>,
    stopped: Option<Stamp>,
    suspended_ms: u64,
    /// How long the last attempt that was not repeated ran.
    run_ms: Option<u64>,
}

impl JournalReader {
    fn event(&mut self, event: Event) {
        match event {
            Event::Spec { id, spec } => {
                self.specs.insert(id, *spec);
            }
            Event::Submitted(s) => {
                let array = !s.array.is_empty();
                self.jobs.insert(
                    s.id,
                    Submission {
                        spec: s.s,
                        t: s.t,
                        array,
                    },
                );
            }
            Event::Changed { j, s, .. } => {
                if let Some(job) = self.jobs.get_mut(&j.id) {
                    job.spec = s;
                }
            }
            Event::Started { a, t, .. } => {
                let run = self.runs.entry(a.j).or_default();
                (run.start, run.stopped, run.suspended_ms) = (Some(t), None, 0);
            }
            Event::Suspended { a, on, t } => {
                let run = self.runs.entry(a.j).or_default();
                match (on, run.stopped) {
                    (true, None) => run.stopped = Some(t),
                    (false, Some(since)) => {
                        run.suspended_ms += t.since_ms(since);
                        run.stopped = None;
                    }
                    _ => {}
                }
            }
            Event::Ended { e, requeue, .. } => {
                let run = self.runs.entry(e.a.j).or_default();
                let start = match e.start {
                    0 => run.start,
                    start => Some(Stamp(start)),
                };
                if let (Some(start), false) = (start, requeue) {
                    let end = Stamp(e.t);
                    // It may have ended while it was suspended.
                    let open = run.stopped.take().map_or(0, |since| end.since_ms(since));
                    let idle = run.suspended_ms.saturating_add(open);
                    run.run_ms = Some(end.since_ms(start).saturating_sub(idle));
                }
            }
            _ => {}
        }
    }

    fn finish(mut self, file: &str) -> Result<Workload, String> {
        let mut builder = Builder::default();
        let first = self.jobs.values().map(|job| job.t.0).min().unwrap_or(0);
        let mut left_out = std::mem::take(&mut self.left_out);
        for (j, run) in &self.runs {
            let Some(job) = self.jobs.get(&j.id) else {
                left_out.rule("its submission is no longer in the journal");
                continue;
            };
            let Some(spec) = self.specs.get(&job.spec) else {
                left_out.rule("its options are no longer in the journal");
                continue;
            };
            let Some(run_ms) = run.run_ms else {
                left_out.rule("it had not ended");
                continue;
            };
            let depends = self.dependency(spec, &mut left_out);
            let made = Job {
                id: number(*j),
                submit_ms: job.t.0 - first,
                run_ms: run_ms.max(1),
                est_ms: spec.limits.run_s.map(|s| s * 1000),
                begin_ms: spec.begin.map(|at| (at.0 - first).max(0)),
                depends,
                ..Job::default()
            };
            builder.push(made, job_request(spec))?;
        }
        for (id, job) in &self.jobs {
            if !job.array && !self.runs.contains_key(&JobKey::job(*id)) {
                left_out.rule("it never started");
            }
        }
        builder.workload.start_ms = Some(first);
        builder.workload.left_out = left_out;
        let workload = builder.finish();
        if workload.jobs.is_empty() {
            return Err(format!("{file} has no job that ran to its end"));
        }
        Ok(workload)
    }

    /// A dependency on jobs that are also in the workload. Conditions on arrays have no meaning
    /// here, where each element is a job.
    fn dependency(&self, spec: &Spec, left_out: &mut LeftOut) -> Option<Box<str>> {
        use crate::text::depend::{Expr, JobRef};
        if spec.depend.is_empty() {
            return None;
        }
        let expr = Expr::parse_stored(&spec.depend).ok()?;
        let known = |id: u32| {
            self.runs
                .get(&JobKey::job(id))
                .is_some_and(|r| r.run_ms.is_some())
        };
        let all = expr
            .conditions()
            .into_iter()
            .all(|cond| match cond.target.job {
                JobRef::Id(id) => known(id),
                JobRef::Name(_) => false,
            });
        if !all {
            left_out.note_corrected(
                "without their dependency, which names jobs that are not in the journal",
            );
            return None;
        }
        Some(spec.depend.as_str().into())
    }
}

fn job_request(spec: &Spec) -> JobRequest {
    JobRequest {
        user: spec.user.clone(),
        group: String::new(),
        project: spec.project.clone(),
        queue: spec.queue.clone(),
        min: spec.min,
        max: spec.max,
        res_req: spec.res_req.clone(),
        hosts: spec.hosts.clone(),
        priority: spec.priority,
        exclusive: spec.exclusive,
    }
}

/// Reads the journal of a share, or one file of it.
///
/// # Errors
/// It cannot be read, or no job in it ran to its end. Damaged lines are counted and named.
pub fn read(path: &Path) -> Result<Workload, String> {
    let name = path.display().to_string();
    let mut past = JournalReader::default();
    match sys::caller::regular_file(path) {
        Some(_) => segment(path, &name, &mut past)?,
        None => {
            let layout = Layout::new(path);
            let cluster = cluster_id(&layout)?;
            let mut history = History::new(&layout, &cluster);
            let read = history.read(&mut |entry| match entry {
                HistoryEntry::Event { event, .. } => past.event(event),
                HistoryEntry::Problem(text) => past.left_out.bad_text(text),
            });
            read.map_err(|e| e.to_string())?;
        }
    }
    past.finish(&name)
}

/// Reads one file of a journal, line by line.
fn segment(path: &Path, name: &str, past: &mut JournalReader) -> Result<(), String> {
    let bytes = super::files::read(path)?;
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    for (n, line) in (1u64..).zip(bytes.split(|b| *b == b'\n')) {
        let event = parse_line(line).and_then(|line| match n {
            // The header only identifies the file.
            1 => Ok(None),
            _ => decode_event(&line).map(Some),
        });
        match event {
            Ok(event) => event.into_iter().for_each(|event| past.event(event)),
            Err(damage) => past.left_out.bad_line(name, n, &damage.to_string()),
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::model::{AttemptId, Limits};
    use crate::record::event::Submitted;
    use crate::record::frame;
    use crate::record::report::Ended;

    /// Specification 1: two slots, with this run limit.
    pub(crate) fn spec(run_s: u64) -> Event {
        let limits = Limits {
            run_s: Some(run_s),
            ..Limits::default()
        };
        let spec = Box::new(Spec {
            user: "ann".into(),
            min: 2,
            max: 2,
            limits,
            ..Spec::default()
        });
        Event::Spec { id: 1, spec }
    }

    /// A job of specification 1.
    pub(crate) fn submitted(id: u32, array: &str, t: i64) -> Event {
        Event::Submitted(Box::new(Submitted {
            id,
            s: 1,
            t: Stamp(t),
            command: "x".into(),
            array: array.into(),
            ..Submitted::default()
        }))
    }

    fn events() -> Vec<Event> {
        let a = |j, at| AttemptId { j, at };
        let ended = |a, t, requeue| Event::Ended {
            e: Box::new(Ended {
                a,
                t,
                code: Some(0),
                ..Ended::default()
            }),
            requeue,
            hold: false,
        };
        let (one, two) = (JobKey::job(4), JobKey::element(5, 2));
        vec![
            spec(60),
            submitted(4, "", 1000),
            submitted(5, "1-2", 3000),
            submitted(6, "", 4000),
            Event::Started {
                a: a(one, 1),
                pid: 1,
                t: Stamp(5000),
                bind: None,
            },
            ended(a(one, 1), 6000, true),
            Event::Started {
                a: a(one, 2),
                pid: 1,
                t: Stamp(7000),
                bind: None,
            },
            Event::Suspended {
                a: a(one, 2),
                on: true,
                t: Stamp(8000),
            },
            Event::Suspended {
                a: a(one, 2),
                on: false,
                t: Stamp(9000),
            },
            Event::Started {
                a: a(two, 1),
                pid: 1,
                t: Stamp(7000),
                bind: None,
            },
            Event::Suspended {
                a: a(one, 2),
                on: true,
                t: Stamp(16_000),
            },
            ended(a(one, 2), 17_000, false),
        ]
    }

    #[test]
    fn a_segment_becomes_a_workload_of_what_ran() {
        let mut bytes = Vec::new();
        frame::write_json(&mut bytes, 0, b"{\"k\":\"header\"}");
        for (seq, event) in (1..).zip(events()) {
            frame::write(&mut bytes, seq, &event).unwrap();
        }
        bytes.extend_from_slice(b"- {broken\n");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.0001.yaml");
        std::fs::write(&path, bytes).unwrap();
        let w = read(&path).unwrap();
        assert_eq!(w.jobs.len(), 1);
        let job = &w.jobs[0];
        // The run that was requeued does not count, nor do the two seconds of suspension.
        assert_eq!(
            (job.id, job.submit_ms, job.run_ms, job.est_ms),
            (4, 0, 8000, Some(60_000))
        );
        assert_eq!(
            (w.request(job).user.as_str(), w.start_ms),
            ("ann", Some(1000))
        );
        let sentences = w.left_out.sentences();
        assert!(
            sentences[0].contains("journal.0001.yaml:14: "),
            "{sentences:?}"
        );
        assert!(
            sentences.contains(&"1 job left out: it had not ended".to_owned()),
            "{sentences:?}"
        );
        assert!(
            sentences.contains(&"1 job left out: it never started".to_owned()),
            "{sentences:?}"
        );
    }
}
