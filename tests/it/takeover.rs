//! A leader that is killed is replaced in time, and work goes on. `tests/takeover.sh` measures how
//! long no job starts, and where that time goes.

use crate::cluster::{Cluster, kill_9, lines, signal};
use crate::patience::{self, until_or};
use crate::soak::load::{Load, SubmittedTestJob, marks};
use crate::soak::procs;
use crate::soak::watch::{TaskLogs, line};
use corral::record::leader::{EpochDoc, decode_fixed};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[test]
fn with_a_lease_of_three_seconds_work_goes_on_within_ten() {
    let cluster = Cluster::up("--hosts 2 --slots 2 --masters 2 --lease 3");
    let before = cluster.csub(&["until [ -e go ]; do sleep 0.1; done; echo kept > kept"]);
    // How long the same takes where nobody died: a busy machine is no slower leader.
    let begin = Instant::now();
    let quiet = cluster.csub(&["true"]);
    cluster.wait_for(quiet, &["DONE"]);
    let usual = begin.elapsed();
    let leader = cluster
        .ps()
        .into_iter()
        .find(|p| p.leader)
        .expect("a leader");
    let begin = Instant::now();
    kill_9(leader.pid);
    // Nobody restarts it: the other candidate takes over.
    let after = cluster.csub(&["true"]);
    cluster.wait_for(after, &["DONE"]);
    let took = begin.elapsed();
    assert!(
        took < Duration::from_secs(10) + usual * 2,
        "{took:?}, {usual:?} before"
    );
    std::fs::write(cluster.work().join("go"), "").unwrap();
    let heir = cluster
        .ps()
        .into_iter()
        .find(|p| p.leader)
        .expect("a new leader");
    assert_ne!(heir.pid, leader.pid);
    // What ran meanwhile ran on.
    cluster.wait(|s| s.get(&(before, 0)).is_some_and(|s| s == "DONE"));
    assert!(cluster.work().join("kept").exists());
    let id = cluster.ok("cid", &[]);
    assert!(id.contains(&heir.host), "{id}");
}

/// The beat is one or two operations of a thread of its own: a share on which each takes a tenth of
/// 2T/3 is no reason for a change of leader, whatever else the leader has to write.
#[test]
fn a_short_lease_bears_slow_operations_and_says_when_it_cannot() {
    let cluster = Cluster::up_armed("--hosts 1 --slots 2 --masters 2 --lease 6");
    let before = epoch(&cluster);
    cluster.arm("sys.any@/share=delay:400ms");
    let id = cluster.csub(&["true"]);
    std::thread::sleep(Duration::from_secs(12));
    assert_eq!(epoch(&cluster), before, "{}", cluster.logs());
    cluster.wait(|s| s.get(&(id, 0)).is_some_and(|s| s == "DONE"));
    assert_eq!(epoch(&cluster), before, "{}", cluster.logs());
    // Reading one of the two files takes longer than T/3: whoever led would not lead for long.
    cluster.arm("sys.any@/share=delay:1200ms");
    let leader = cluster.leader();
    kill_9(leader.pid);
    let slow = || cluster.logs().contains("not leading: reading 512 bytes");
    until_or(slow, || cluster.logs());
    assert_eq!(epoch(&cluster), before, "{}", cluster.logs());
    cluster.arm("");
    assert_ne!(cluster.leader().pid, leader.pid);
}

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|v| v.parse().ok()).unwrap_or(default)
}

fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// A cluster that starts short jobs all the time, and what it says about itself.
struct Stream {
    cluster: Cluster,
    dir: PathBuf,
    locals: Vec<(String, PathBuf)>,
    logs: TaskLogs,
}

impl Stream {
    fn new(lease: &str) -> Stream {
        let options = format!("--hosts 2 --slots 4 --masters 3 --lease {lease}");
        let cluster = Cluster::up(&options);
        let dir = cluster.dir().canonicalize().unwrap();
        let locals = ["h1", "h2"].map(|h| (h.to_owned(), cluster.local(h)));
        let (locals, logs) = (locals.to_vec(), TaskLogs::default());
        cluster.csub(&["-J", "stream[1-100000]", "-oo", "/dev/null", "sleep 0.3"]);
        Stream {
            cluster,
            dir,
            locals,
            logs,
        }
    }

    /// When jobs started, by the hosts' own records (ms), in order.
    fn starts(&mut self) -> Vec<i64> {
        self.logs.read(&self.locals);
        let mut all = self.logs.times.clone();
        all.sort_unstable();
        all
    }

    fn leader(&self) -> Option<(String, i32)> {
        procs::leader(&self.dir.join("share"))
    }

    /// Times (ms) of lines of the daemons' logs that hold `words`, from `from` on.
    fn said(&self, words: &str, from: i64) -> Option<i64> {
        let logs = std::fs::read_dir(self.dir.join("log"))
            .into_iter()
            .flatten()
            .flatten();
        let all = logs.flat_map(|e| lines(&e.path()));
        let times = all.filter(|l| l.contains(words)).filter_map(|l| {
            let at: Timestamp = l.split_whitespace().next()?.parse().ok()?;
            Some(at.as_millisecond())
        });
        times.filter(|t| *t >= from).min()
    }
}

/// The longest pause between two starts that touches the time from `at` on.
fn gap(starts: &[i64], at: i64, until: i64) -> Option<(i64, i64)> {
    let pairs = starts.windows(2).map(|w| (w[0], w[1]));
    let touching = pairs.filter(|(a, b)| *b >= at && *a <= until);
    touching.max_by_key(|(a, b)| b - a)
}

#[test]
fn the_longest_pause_between_starts_is_found() {
    assert_eq!(
        gap(&[0, 10, 20, 500, 510, 1500], 15, 600),
        Some((510, 1500))
    );
    assert_eq!(gap(&[0, 10, 20, 500, 510, 1500], 15, 505), Some((20, 500)));
    assert_eq!(gap(&[1], 0, 10), None);
}

/// Parts of one takeover, in ms from the kill on: claim, leading, recovered, in force, first start.
fn parts(stream: &Stream, at: i64, first_start: i64) -> Option<[i64; 5]> {
    let marks = [
        "claiming epoch",
        "leading epoch",
        "recovered ",
        "is in force",
    ];
    let mut out = [0; 5];
    let mut before = at;
    for (n, words) in marks.iter().enumerate() {
        let then = stream.said(words, before)?;
        (out[n], before) = (then - before, then);
    }
    out[4] = first_start - before;
    Some(out)
}

fn percentile(values: &[i64], of_100: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let at = (sorted.len() * of_100).div_ceil(100).max(1) - 1;
    sorted.get(at).map_or(0.0, |v| *v as f64)
}

#[test]
#[ignore = "tests/takeover.sh runs it: minutes of killing"]
fn pauses() {
    let kills = setting("CORRAL_TAKEOVER_KILLS", 30);
    let stops = std::env::var("CORRAL_TAKEOVER_HOW").is_ok_and(|how| how == "stop");
    let lease = setting("CORRAL_TAKEOVER_LEASE", 3);
    let mut stream = Stream::new(&lease.to_string());
    std::thread::sleep(Duration::from_secs(3));
    let (mut gaps, mut all) = (Vec::new(), BTreeMap::<usize, Vec<i64>>::new());
    for n in 0..kills {
        let (host, pid) = stream.leader().expect("a leader");
        let at = now_ms();
        match stops {
            true => signal(pid, "-STOP"),
            false => kill_9(pid),
        }
        let end = patience::deadline();
        let (mut found, mut settled) = (None, false);
        while !settled && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(100));
            let later = stream
                .said("is in force", at)
                .is_some_and(|t| now_ms() > t + 1500);
            let starts = stream.starts();
            settled = later && starts.last().is_some_and(|t| *t > now_ms() - 1000);
            found = gap(&starts, at, at + 60_000);
        }
        assert!(settled, "no takeover in time\n{}", stream.cluster.logs());
        let (from, to) = found.expect("jobs started");
        let part = parts(&stream, at, to);
        eprintln!("{n} {host}: no start for {} ms, parts {part:?}", to - from);
        gaps.push(to - from);
        for (n, ms) in part.into_iter().flatten().enumerate() {
            all.entry(n).or_default().push(ms);
        }
        if stops {
            signal(pid, "-CONT");
        }
        std::thread::sleep(Duration::from_millis(500));
        stream.cluster.dev_up("--no-wait");
        std::thread::sleep(Duration::from_millis(2500));
    }
    let names = [
        "detect",
        "claim_and_wait",
        "replay",
        "first_turn",
        "first_start",
    ];
    line("takeover_kills", gaps.len() as f64, "times");
    for (n, name) in names.iter().enumerate() {
        let values = all.get(&n).map_or(&[][..], Vec::as_slice);
        line(
            &format!("takeover_{name}_p50"),
            percentile(values, 50),
            "ms",
        );
        line(
            &format!("takeover_{name}_p99"),
            percentile(values, 99),
            "ms",
        );
    }
    line("takeover_gap_p50", percentile(&gaps, 50), "ms");
    line("takeover_gap_p99", percentile(&gaps, 99), "ms");
    line("takeover_gap_max", percentile(&gaps, 100), "ms");
    let bound = if stops { lease * 1000 + 7000 } else { 10_000 };
    assert!(percentile(&gaps, 99) <= bound as f64);
}

/// The epoch that is in force.
fn epoch(cluster: &Cluster) -> u64 {
    let bytes = std::fs::read(cluster.share().join("leader/epoch")).unwrap();
    let doc = decode_fixed::<EpochDoc>(&bytes);
    doc.map_or(0, |doc| doc.epoch)
}

#[test]
#[ignore = "tests/slow.sh runs it: ten minutes of slowness"]
fn no_takeover_while_operations_are_slow() {
    let seconds = setting("CORRAL_SLOW_SECONDS", 600);
    let lease = setting("CORRAL_SLOW_LEASE", 15);
    let ms = setting("CORRAL_SLOW_MS", 200);
    let rate = setting("CORRAL_SLOW_RATE", 20);
    let cluster = Cluster::up_armed(&format!("--hosts 4 --slots 12 --masters 3 --lease {lease}"));
    let before = epoch(&cluster);
    cluster.arm(&format!("sys.any@/share=delay:{ms}ms"));
    // What this share can take is soon found out; more would only fill the machine with waiters.
    let load = Load::at_most(60);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| load.run(&cluster, rate));
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(seconds) {
            std::thread::sleep(Duration::from_secs(5));
            let (at, epoch) = (begin.elapsed().as_secs(), epoch(&cluster));
            eprintln!("{at:5} s: epoch {epoch}, {} jobs asked for", load.jobs());
        }
        load.stop.store(true, Ordering::Relaxed);
        running.join().unwrap();
    });
    let takeovers = epoch(&cluster) - before;
    let submitted = load.asked.lock().unwrap().clone();
    let ran = |a: &SubmittedTestJob| marks(&cluster, a).values().map(Vec::len).sum::<usize>();
    let started: usize = submitted.iter().map(ran).sum();
    cluster.arm("");
    let all: usize = submitted
        .iter()
        .filter(|a| a.id.is_some())
        .map(|a| a.elements.max(1) as usize)
        .sum();
    line("slow_operation", ms as f64, "ms");
    line("slow_t", lease as f64, "s");
    line("slow_takeovers", takeovers as f64, "times");
    line("slow_accepted_rate", all as f64 / seconds as f64, "jobs/s");
    line(
        "slow_started_rate",
        started as f64 / seconds as f64,
        "jobs/s",
    );
    line(
        "slow_not_submitted",
        load.skipped.load(Ordering::Relaxed) as f64,
        "jobs",
    );
    line(
        "slow_csub_gave_up",
        load.failed.load(Ordering::Relaxed) as f64,
        "commands",
    );
    let took: Vec<i64> = load
        .took
        .lock()
        .unwrap()
        .iter()
        .map(|ms| *ms as i64)
        .collect();
    line("slow_csub_p50", percentile(&took, 50), "ms");
    line("slow_csub_p99", percentile(&took, 99), "ms");
    // All that was promised runs, once, when the share is itself again.
    let end = patience::deadline() + patience::PATIENCE;
    let promised: Vec<&SubmittedTestJob> = submitted.iter().filter(|a| a.id.is_some()).collect();
    while promised.iter().map(|a| ran(a)).sum::<usize>() < all && Instant::now() < end {
        std::thread::sleep(Duration::from_secs(1));
    }
    for one in promised {
        let runs = marks(&cluster, one);
        assert!(
            runs.values().all(|r| r.len() == 1),
            "{one:?} ran as {runs:?}"
        );
    }
    assert!(
        takeovers == 0 || lease < 15,
        "{takeovers} takeovers\n{}",
        cluster.logs()
    );
}
