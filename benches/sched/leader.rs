//! Jobs a second through a real leader: `cbsched` with its journal and its syncs, 1,000 simulated
//! hosts. Owns the hosts' side: they follow their orders files, and report each job as started and
//! ended at once. Never starts a process of a job: that is not the leader's work.

use corral::record::frame::{self, Reader};
use corral::record::header::{FileKind, Header};
use corral::record::leader::ClusterDoc;
use corral::record::load::{self, LoadDoc};
use corral::record::order::Order;
use corral::record::report::{Ended, Report};
use corral::spool::Layout;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

const HOSTS: usize = 1000;
const SLOTS: u32 = 50;
const ARRAYS: u32 = 2;
const ELEMENTS: u32 = 100_000;
/// Threads that play the hosts.
const THREADS: usize = 2;
const EVERY_MS: u64 = 4000;
const CHUNK: usize = 256 << 10;
const BOOT: &str = "boot";

/// Ends the leader however the measurement ends.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.expect("a clock after 1970").as_millis() as i64
}

/// One simulated host.
struct Host {
    name: String,
    load: File,
    beat: u64,
    part: u64,
    orders: Option<File>,
    offset: u64,
    /// Sequence number due next in the orders.
    due: u64,
    reports: File,
    seq: u64,
    out: Vec<u8>,
}

impl Host {
    fn new(layout: &Layout, cluster: &str, n: usize) -> Host {
        let name = format!("n{n:04}");
        std::fs::create_dir_all(layout.host(&name)).expect("the host's directory");
        let mut host = Host {
            load: File::create(layout.load(&name)).expect("load"),
            reports: File::create(layout.reports(&name, 1)).expect("reports"),
            name,
            beat: 0,
            part: 1,
            orders: None,
            offset: 0,
            due: 0,
            seq: 0,
            out: Vec::new(),
        };
        let header = Header::new(FileKind::Reports, cluster, 0, 1);
        frame::write(&mut host.out, 0, &header).expect("plain data");
        host.seq = 1;
        let (boot, version, t) = (BOOT.to_owned(), "bench".to_owned(), wall_ms());
        // Its jobs have one host: no part of one is ever over.
        let parts = false;
        host.say(&Report::Hello {
            boot,
            version,
            t,
            parts,
        });
        let boot = BOOT.to_owned();
        host.say(&Report::Complete { boot });
        host.flush();
        host.alive();
        host
    }

    fn say(&mut self, report: &Report) {
        frame::write(&mut self.out, self.seq, report).expect("plain data");
        self.seq += 1;
    }

    fn flush(&mut self) {
        self.reports.write_all(&self.out).expect("reports");
        self.out.clear();
    }

    fn alive(&mut self) {
        self.beat += 1;
        let doc = LoadDoc {
            host: self.name.clone(),
            boot: BOOT.to_owned(),
            incarnation: "bench".to_owned(),
            beat: self.beat,
            t: wall_ms(),
            every_ms: EVERY_MS,
            executor: true,
            ncpus: SLOTS,
            host_type: "X".to_owned(),
            ..LoadDoc::default()
        };
        let bytes = load::encode(&doc).expect("a short document");
        self.load.write_all_at(&bytes, 0).expect("load");
    }

    /// Follows what is new; how many jobs it started.
    fn look(&mut self, layout: &Layout, buf: &mut [u8]) -> u32 {
        if self.orders.is_none() {
            let path = layout.orders(&self.name, 1, self.part);
            self.orders = File::open(path).ok();
        }
        let Some(file) = &self.orders else { return 0 };
        let n = file.read_at(buf, self.offset).expect("orders");
        let mut reader = Reader::resume(&buf[..n], self.offset, self.due);
        let (mut started, mut next) = (0, None);
        // A torn line is one that is being written or that ends behind the buffer.
        while let Ok(Some(line)) = reader.next_line() {
            if line.seq == 0 {
                continue;
            }
            match line.decode::<Order>().expect("an order") {
                Order::Start(start) => {
                    let (a, t) = (start.a, wall_ms());
                    self.say(&Report::Started {
                        a,
                        pid: 1,
                        t,
                        bind: None,
                    });
                    let (start, code) = (t, Some(0));
                    self.say(&Report::Ended(Box::new(Ended {
                        a,
                        start,
                        t,
                        code,
                        ..Ended::default()
                    })));
                    started += 1;
                }
                Order::Next { part } => next = Some(part),
                _ => {}
            }
        }
        (self.offset, self.due) = (reader.offset(), reader.next_seq());
        if let Some(part) = next {
            (self.part, self.orders, self.offset, self.due) = (part, None, 0, 0);
        }
        if started > 0 {
            self.flush();
        }
        started
    }
}

/// What all hosts have seen.
#[derive(Default)]
struct Seen {
    started: AtomicU32,
    span: Mutex<Option<(Instant, Instant)>>,
    over: AtomicBool,
}

fn play(hosts: &mut [Host], layout: &Layout, seen: &Seen) {
    let mut buf = vec![0; CHUNK];
    let mut beaten = Instant::now();
    while !seen.over.load(Ordering::Relaxed) {
        let mut found = 0;
        for host in hosts.iter_mut() {
            found += host.look(layout, &mut buf);
        }
        let now = Instant::now();
        if found > 0 {
            let mut span = seen.span.lock().expect("no thread panics with it");
            span.get_or_insert((now, now)).1 = now;
            seen.started.fetch_add(found, Ordering::Relaxed);
        } else {
            std::thread::sleep(Duration::from_millis(2));
        }
        if beaten.elapsed() > Duration::from_millis(EVERY_MS) {
            beaten = now;
            hosts.iter_mut().for_each(Host::alive);
        }
    }
}

fn cb(dir: &Path, words: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cb"));
    command.args(words).env("CB_ENVDIR", dir).current_dir(dir);
    let out = command.output().expect("cb");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{words:?}: {said}");
}

/// Waits until `done` holds.
fn until(what: &str, seconds: u64, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(seconds);
    while !done() {
        assert!(Instant::now() < end, "{what} takes more than {seconds} s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Jobs a second, from the first start that a host read to the last.
pub fn rate() -> f64 {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path();
    let share = dir.join("share");
    let layout = Layout::new(&share);
    let yaml = format!(
        "cluster: {{name: bench, administrators: [root], allow_root_jobs: yes, cgroup: off}}\n\
         hosts:\n- {{name: default, slots: {SLOTS}}}\n- {{names: 'n[0000-{:04}]'}}\n\
         queues:\n- {{name: normal}}\n",
        HOSTS - 1
    );
    let conf = format!(
        "CB_SHARE={}\nCB_HOST=n0000\nCB_LOCAL={}\n",
        share.display(),
        dir.join("local").display()
    );
    std::fs::create_dir(dir.join("local")).expect("a directory");
    std::fs::write(dir.join("cb.conf"), conf).expect("cb.conf");
    std::fs::write(dir.join("cb.yaml"), yaml).expect("cb.yaml");
    let (at, from) = (share.to_str(), dir.join("cb.yaml"));
    let at = at.expect("plain characters");
    cb(
        dir,
        &[
            "cadmin",
            "init",
            at,
            "--name",
            "bench",
            "--config",
            from.to_str().expect("plain"),
        ],
    );
    let doc = std::fs::read(layout.cluster()).expect("the cluster's file");
    let doc: ClusterDoc = serde_json::from_slice(&doc).expect("a cluster");
    let mut hosts: Vec<Host> = (0..HOSTS)
        .map(|n| Host::new(&layout, &doc.cluster, n))
        .collect();
    let log = File::create(dir.join("log")).expect("a log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cbsched"));
    command
        .env("CB_ENVDIR", dir)
        .stdout(Stdio::null())
        .stderr(log);
    let _leader = Daemon(command.spawn().expect("cbsched"));
    // Orders files are made when a host is first given an order.
    until("the election", 60, || layout.journal(1, 1).exists());
    let seen = Seen::default();
    std::thread::scope(|scope| {
        for part in hosts.chunks_mut(HOSTS / THREADS) {
            scope.spawn(|| play(part, &layout, &seen));
        }
        let all = std::panic::catch_unwind(|| {
            let array = format!("a[1-{ELEMENTS}]");
            for _ in 0..ARRAYS {
                cb(dir, &["csub", "-J", &array, "-o", "/dev/null", "true"]);
            }
            until("starting all jobs", 120, || {
                seen.started.load(Ordering::Relaxed) >= ARRAYS * ELEMENTS
            });
        });
        seen.over.store(true, Ordering::Relaxed);
        if all.is_err() {
            let log = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
            let n = seen.started.load(Ordering::Relaxed);
            panic!("{n} jobs started; the leader said: {log}");
        }
    });
    let span = seen.span.lock().expect("no thread panics with it");
    let (first, last) = span.expect("jobs were started");
    f64::from(ARRAYS * ELEMENTS) / (last - first).as_secs_f64()
}
