//! The stream of jobs: so many a second, whatever the cluster does. Each job marks its run in a file
//! of its own; owns the list of what was submitted and what was promised.

use crate::cluster::Cluster;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Most commands that may wait for an answer at a time: each of them costs the machine.
const WAITING_MAX: u64 = 200;

/// One thing that was asked for: elements of it run one after the other in files of their own.
#[derive(Clone, Debug)]
pub struct SubmittedTestJob {
    pub n: u64,
    /// Elements 1 to this; 0: no array.
    pub elements: u32,
    /// The id that was promised; none when csub gave up.
    pub id: Option<u32>,
}

#[derive(Default)]
pub struct Load {
    pub asked: Mutex<Vec<SubmittedTestJob>>,
    pub stop: AtomicBool,
    /// Commands given up or not begun, because too many waited.
    pub failed: AtomicU64,
    pub skipped: AtomicU64,
    waiting: AtomicU64,
    /// Most commands that may wait for an answer at a time; 0: as many as is sensible.
    most: u64,
    /// Milliseconds that each csub took.
    pub took: Mutex<Vec<u64>>,
}

/// The file in which job `n` marks its runs, without the element.
pub fn mark(cluster: &Cluster, n: u64) -> PathBuf {
    cluster
        .work()
        .join(format!("m{}", n / 1000))
        .join(n.to_string())
}

/// What a job does: its mark, then some time.
fn command(n: u64) -> String {
    let seconds = match n % 50 {
        0 => "15",
        1..5 => "3",
        5..25 => "0.5",
        _ => "0.1",
    };
    let dir = n / 1000;
    format!("echo $LSB_JOBID $CB_ATTEMPT >> m{dir}/{n}.$LSB_JOBINDEX; sleep {seconds}")
}

impl Load {
    /// A load of which at most so many commands wait for an answer at a time.
    pub fn at_most(most: u64) -> Load {
        Load {
            most,
            ..Load::default()
        }
    }

    pub fn jobs(&self) -> u64 {
        let submitted = self.asked.lock().unwrap();
        submitted.iter().map(|a| u64::from(a.elements.max(1))).sum()
    }

    /// Submits `rate` jobs in each second until told to stop: an array, a pack, the rest singly.
    pub fn run(&self, cluster: &Cluster, rate: u64) {
        let (array, pack) = (rate * 2 / 5, rate * 3 / 10);
        let begin = Instant::now();
        let mut n = 0;
        std::thread::scope(|scope| {
            for second in 0.. {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                let singles = rate - array - pack;
                for part in 0..singles {
                    let due = begin + Duration::from_millis(second * 1000 + part * 1000 / singles);
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    self.one(scope, cluster, &mut n, 1, false);
                    if part == 0 && array > 0 {
                        self.one(scope, cluster, &mut n, array, true);
                    }
                    if part == 1 && pack > 0 {
                        self.one(scope, cluster, &mut n, pack, false);
                    }
                }
            }
        });
    }

    fn one<'s>(
        &'s self,
        scope: &'s std::thread::Scope<'s, '_>,
        cluster: &'s Cluster,
        next: &mut u64,
        jobs: u64,
        array: bool,
    ) {
        let most = if self.most > 0 {
            self.most
        } else {
            WAITING_MAX
        };
        if self.waiting.load(Ordering::Relaxed) >= most {
            self.skipped.fetch_add(jobs, Ordering::Relaxed);
            return;
        }
        let first = *next;
        *next += if array { 1 } else { jobs };
        std::fs::create_dir_all(mark(cluster, first).parent().unwrap()).unwrap();
        std::fs::create_dir_all(mark(cluster, *next).parent().unwrap()).unwrap();
        self.waiting.fetch_add(1, Ordering::Relaxed);
        scope.spawn(move || {
            let began = Instant::now();
            match (array, jobs) {
                (true, _) => self.single(cluster, first, jobs as u32),
                (_, 1) => self.single(cluster, first, 0),
                _ => self.pack(cluster, first, jobs),
            }
            self.took
                .lock()
                .unwrap()
                .push(began.elapsed().as_millis() as u64);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        });
    }

    fn csub(&self, cluster: &Cluster, words: &[&str]) -> String {
        let mut command = cluster.command("csub");
        command.env("CB_ASK_TIMEOUT", "120");
        let out = command.args(words).output().unwrap();
        if !out.status.success() {
            self.failed.fetch_add(1, Ordering::Relaxed);
            eprintln!("csub: {}", String::from_utf8_lossy(&out.stderr).trim());
        }
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    fn single(&self, cluster: &Cluster, n: u64, elements: u32) {
        let name = match elements {
            0 => format!("s{n}"),
            _ => format!("s{n}[1-{elements}]"),
        };
        let output = self.csub(cluster, &["-J", &name, "-oo", "/dev/null", &command(n)]);
        let id = crate::cluster::job_id(&output);
        self.asked
            .lock()
            .unwrap()
            .push(SubmittedTestJob { n, elements, id });
    }

    fn pack(&self, cluster: &Cluster, first: u64, jobs: u64) {
        let file = cluster.work().join(format!("pack{first}"));
        let all = first..first + jobs;
        let lines = all
            .clone()
            .map(|n| format!("-J s{n} -oo /dev/null '{}'\n", command(n)));
        std::fs::write(&file, lines.collect::<String>()).unwrap();
        let output = self.csub(cluster, &["-pack", file.to_str().unwrap()]);
        std::fs::remove_file(&file).unwrap();
        let mut ids = output.lines().flat_map(line_ids);
        let mut submitted = self.asked.lock().unwrap();
        submitted.extend(all.map(|n| SubmittedTestJob {
            n,
            elements: 0,
            id: ids.next(),
        }));
    }
}

/// The ids in `Line#1 Job <10> is submitted ...` and `Line#1-3 Jobs <10-12> are submitted ...`.
fn line_ids(line: &str) -> std::ops::RangeInclusive<u32> {
    let text = line
        .split('<')
        .nth(1)
        .and_then(|rest| rest.split('>').next());
    let text = text.unwrap_or_default();
    #[allow(clippy::reversed_empty_ranges)] // no ids
    const NONE: std::ops::RangeInclusive<u32> = 1..=0;
    let (a, b) = text.split_once('-').unwrap_or((text, text));
    match (line.starts_with("Line#"), a.parse(), b.parse()) {
        (true, Ok(a), Ok(b)) => a..=b,
        _ => NONE,
    }
}

/// Lines of mark files by element: (job id, attempt) of each run.
pub fn marks(cluster: &Cluster, submitted: &SubmittedTestJob) -> BTreeMap<u32, Vec<(u32, u32)>> {
    let base = mark(cluster, submitted.n);
    let elements = match submitted.elements {
        0 => 0..=0,
        n => 1..=n,
    };
    let runs = |element: u32| {
        let lines = crate::cluster::lines(&base.with_extension(element.to_string()));
        let word = |l: &String| {
            let (id, attempt) = l.split_once(' ')?;
            Some((id.parse().ok()?, attempt.parse().ok()?))
        };
        lines.iter().filter_map(word).collect()
    };
    elements.map(|e| (e, runs(e))).collect()
}
