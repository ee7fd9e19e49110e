//! How long `cacct` takes for a month of a million ended attempts, beside a bare read of the same
//! bytes, and how much memory it needs for it. The records are written as the leader writes them.

use crate::cluster::Cluster;
use crate::{line, quantile, timed};
use corral::model::{JobKey, TermReason, Units};
use corral::record::acct::{AttemptRecord, HostSlots};
use corral::record::frame;
use corral::record::header::{FileKind, Header};
use corral::record::leader::ClusterDoc;
use corral::spool::Layout;
use std::io::{BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const JOBS: u32 = 1_000_000;
/// Leaders of the month: each takes over with copies of the last ends of the one before.
const LEADERS: u32 = 2;
const COPIES: u32 = 2_000;
/// 2026-11-01 UTC, and the days that the month is filled with.
const BEGIN: i64 = 1_793_491_200_000;
const SPAN_MS: i64 = 29 * 86_400_000;
/// The project's own bounds: seconds, and KiB of memory.
const MOST_SECONDS: f64 = 3.0;
const MOST_KIB: f64 = 65_536.0;

/// The `n`th end of the month; every field that clusters fill is filled in some.
fn record(n: u32) -> AttemptRecord<'static> {
    // Scattered and repeatable.
    let mixed = n.wrapping_mul(2_654_435_761);
    let end = BEGIN + SPAN_MS / i64::from(JOBS) * i64::from(n);
    let run = i64::from(mixed % 7_200_000) + 1_000;
    let wait = i64::from(mixed % 600_000);
    let user = mixed % 300;
    let slots = 1 + mixed % 8;
    let failed = mixed.is_multiple_of(20);
    let gpu = Units {
        host: format!("node{:04}", mixed % 500).into(),
        res: "gpu".into(),
        names: vec!["0".into(), "1".into()].into(),
        ..Units::default()
    };
    AttemptRecord {
        j: match n % 4 {
            0 => JobKey::job(n + 1),
            _ => JobKey::element(n / 1000 + 1, n % 1000 + 1),
        },
        at: 1,
        mark: mixed,
        uid: 20_000 + user,
        user: format!("user{user:03}").into(),
        group: if n.is_multiple_of(3) { "research" } else { "" }.into(),
        project: format!("project{}", mixed % 40).into(),
        queue: format!("queue{}", mixed % 8).into(),
        name: if n.is_multiple_of(2) {
            "simulation"
        } else {
            ""
        }
        .into(),
        command: format!("./run.sh --case {n} --name \"step {}\"", mixed % 100).into(),
        submit: end - run - wait,
        dispatch: end - run - 200,
        start: end - run,
        end,
        hosts: vec![HostSlots(format!("node{:04}", mixed % 500).into(), slots)],
        code: (!failed).then_some(0),
        sig: if failed { 9 } else { 0 },
        reason: if failed {
            TermReason::MemLimit
        } else {
            TermReason::None
        },
        cpu_ms: u64::from(mixed % 7_200_000) * u64::from(slots) / 2,
        maxmem_kb: u64::from(mixed % 16_000_000),
        units: if n.is_multiple_of(10) {
            vec![gpu]
        } else {
            Vec::new()
        },
        res_req: "select[mem>1000] rusage[mem=2000]".into(),
        mem_b: Some(16 << 30),
        run_s: Some(86_400),
        ..AttemptRecord::default()
    }
}

/// Writes the month; gives its files.
fn write_month(share: &Path, cluster: &str) -> Vec<PathBuf> {
    let layout = Layout::new(share);
    let each = JOBS / LEADERS;
    let mut paths = Vec::new();
    for leader in 0..LEADERS {
        let epoch = 100 + u64::from(leader);
        let path = layout.acct_file("2026-11", epoch, 1);
        std::fs::create_dir_all(path.parent().expect("a month")).expect("the share is ours");
        let mut file = BufWriter::new(std::fs::File::create(&path).expect("a file"));
        let mut bytes = Vec::new();
        let header = Header::new(FileKind::Acct, cluster, epoch, 1);
        frame::write(&mut bytes, 0, &header).expect("JSON");
        let first = leader * each;
        let copies = first.saturating_sub(COPIES)..first;
        let records = copies.map(|n| (n, true));
        let records = records.chain((first..first + each).map(|n| (n, false)));
        for (seq, (n, again)) in (1..).zip(records) {
            let record = AttemptRecord { again, ..record(n) };
            frame::write(&mut bytes, seq, &record).expect("JSON");
            file.write_all(&bytes).expect("room");
            bytes.clear();
        }
        file.flush().expect("room");
        paths.push(path);
    }
    paths
}

/// Reads the files and looks at no byte of them.
fn bare_read(paths: &[PathBuf]) {
    let mut buf = vec![0; 1 << 20];
    for path in paths {
        let mut file = std::fs::File::open(path).expect("it was written");
        while file.read(&mut buf).expect("it can be read") > 0 {}
    }
}

/// Most resident KiB of all programs that this one started and that ended.
fn most_kib() -> f64 {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("it always answers");
    usage.max_rss() as f64
}

/// Runs `cacct`; what it said.
fn cacct(cluster: &Cluster, words: &[&str]) -> String {
    let mut command = cluster.command("cacct");
    command.args(["-u", "all"]).args(words).stdin(Stdio::null());
    let out = command.output().expect("cacct starts");
    assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    String::from_utf8(out.stdout).expect("text")
}

pub fn run() {
    let cluster = Cluster::up("--hosts 1 --slots 1 --masters 1 --cgroup off");
    let doc = std::fs::read(cluster.share().join("cluster")).expect("a cluster");
    let doc = ClusterDoc::decode(&doc).expect("its own file");
    let paths = write_month(&cluster.share(), &doc.cluster);
    let bare = timed(5, || bare_read(&paths));
    let bare = quantile(&bare, 0.5) / 1000.0;
    let expected = format!("{JOBS}");
    let forms: [(&str, &[&str]); 3] = [
        ("cacct_1m", &[]),
        ("cacct_1m_by_user", &["--by", "user"]),
        ("cacct_1m_by_host", &["--by", "host"]),
    ];
    for (name, words) in forms {
        let mut said = String::new();
        let all = timed(5, || said = cacct(&cluster, words));
        let seconds = quantile(&all, 0.5) / 1000.0;
        line(name, seconds, "s", MOST_SECONDS);
        line(&format!("{name}_beside_read"), seconds, "s", bare);
        if words.is_empty() {
            let jobs: u32 = said
                .split_whitespace()
                .skip_while(|word| *word != "jobs:")
                .filter_map(|word| word.parse::<u32>().ok())
                .take(2)
                .sum();
            assert_eq!(jobs.to_string(), expected, "{said}");
        }
    }
    line("cacct_1m_memory", most_kib(), "KiB", MOST_KIB);
}
