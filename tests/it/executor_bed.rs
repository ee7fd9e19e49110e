//! A host for tests of `cbexe`: a share in a temporary directory, the leader played by the test.
//!
//! Owns the files that a leader would write, and the reading of what the host reports.

use crate::cluster::exists;
use crate::patience::{find, find_or, until, until_or};
use corral::host::local::Local;
use corral::model::{AttemptId, JobKey, Limits, Share, Spec, TermReason};
use corral::record::frame::{self, Reader};
use corral::record::header::{FileKind, Header};
use corral::record::leader::{ClusterDoc, EpochDoc, encode_fixed};
use corral::record::order::{Act, Order, StartOrder, TaskUnits};
use corral::record::report::{Ended, Report};
use corral::spool::Layout;
use corral::sys::append::Appender;
use corral::sys::cgroup::{self, Hierarchy};
use corral::sys::{clock, fs, lock, users};
use corral::task::log::{AttemptRec, TaskRec, encode_task};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Name of the host's ledger.
const LEDGER: &str = "0123456789abcdef";

pub struct Cluster {
    pub dir: tempfile::TempDir,
    pub layout: Layout,
    pub orders: Appender,
    pub seq: u64,
    pub part: u64,
    pub exe: Option<Child>,
}

pub fn attempt(id: u32) -> AttemptId {
    AttemptId {
        j: JobKey::job(id),
        at: 1,
    }
}

impl Cluster {
    pub fn new() -> Cluster {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().join("share"));
        for (d, _) in layout.directories() {
            fs::mkdir_p(&d, 0o755).unwrap();
        }
        let cluster = ClusterDoc {
            cluster: "c".into(),
            name: "c".into(),
            format: 1,
            service_uid: users::effective_uid(),
            service_gid: users::effective_gid(),
        };
        fs::publish(&layout.cluster(), &serde_json::to_vec(&cluster).unwrap()).unwrap();
        fs::mkdir_p(&layout.host("h1"), 0o755).unwrap();
        let etc = dir.path().join("etc");
        fs::mkdir_p(&etc, 0o755).unwrap();
        let conf = format!(
            "CB_SHARE={}\nCB_HOST=h1\nCB_LOCAL={}\n",
            layout.root().display(),
            dir.path().join("local").display()
        );
        fs::publish(&etc.join("cb.conf"), conf.as_bytes()).unwrap();
        Cluster::remember(&dir.path().join("local"));
        let orders = Cluster::file(&layout, 1, 1);
        let mut c = Cluster {
            dir,
            layout,
            orders,
            seq: 2,
            part: 1,
            exe: None,
        };
        let uid = users::effective_uid();
        let cwd = c.path("").to_str().unwrap().to_owned();
        let spec = Spec {
            uid,
            min: 1,
            max: 1,
            cwd,
            stdout: "/dev/null".into(),
            ..Spec::default()
        };
        c.order(&[Order::Spec {
            id: 1,
            spec: Box::new(spec),
        }]);
        c.epoch(1);
        c
    }

    pub fn file(layout: &Layout, epoch: u64, part: u64) -> Appender {
        let mut f = Appender::create_new(&layout.orders("h1", epoch, part)).unwrap();
        let mut bytes = Vec::new();
        frame::write(
            &mut bytes,
            0,
            &Header::new(FileKind::Orders, "c", epoch, part),
        )
        .unwrap();
        let id = LEDGER.to_owned();
        frame::write(&mut bytes, 1, &Order::Ledger { id }).unwrap();
        f.append(&bytes).unwrap();
        f
    }

    /// The ledger that orders are for: of a host without tasks that the leader knows.
    pub fn remember(local: &std::path::Path) {
        let mut bytes = Vec::new();
        frame::write(&mut bytes, 0, &Header::new(FileKind::Local, "c", 0, 1)).unwrap();
        let (id, predates_names) = (LEDGER.to_owned(), false);
        frame::write(
            &mut bytes,
            1,
            &AttemptRec::Ledger {
                id,
                kept: predates_names,
            },
        )
        .unwrap();
        fs::mkdir_p(local, 0o711).unwrap();
        fs::publish(&local.join("attempts.log"), &bytes).unwrap();
    }

    pub fn epoch(&self, epoch: u64) {
        let doc = EpochDoc {
            epoch,
            ..EpochDoc::default()
        };
        fs::publish(&self.layout.epoch(), &encode_fixed(&doc).unwrap()).unwrap();
    }

    pub fn order(&mut self, orders: &[Order]) {
        let mut bytes = Vec::new();
        for o in orders {
            frame::write(&mut bytes, self.seq, o).unwrap();
            self.seq += 1;
        }
        self.orders.append(&bytes).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A limit of silence of 6 s is in force on the host, as `cbls` notes it.
    pub fn limit_of_6s(&self) {
        fs::mkdir_p(&self.path("local"), 0o755).unwrap();
        fs::publish(&self.path("local/iso"), b"6000 6000").unwrap();
    }

    /// What `cbls` leaves behind when it has written to the share.
    pub fn beat(&self) {
        fs::mkdir_p(&self.path("local"), 0o755).unwrap();
        let now = clock::boot_ms().to_string();
        fs::publish(&self.path("local/cbls.beat"), now.as_bytes()).unwrap();
    }

    pub fn start_exe(&mut self) {
        self.start_by(Command::new(env!("CARGO_BIN_EXE_cbexe")));
    }

    /// Starts the executor by a command of its own: another copy, or with options.
    pub fn start_by(&mut self, mut command: Command) {
        let exe = command
            .env("CB_ENVDIR", self.path("etc"))
            .env_remove("CB_HOST")
            .stdout(Stdio::null())
            .spawn();
        self.exe = Some(exe.unwrap());
    }

    /// Defines specification `id`: a job of this process's user in the test's directory.
    pub fn spec(&mut self, id: u32, change: impl FnOnce(&mut Spec)) {
        let mut spec = Spec {
            uid: users::effective_uid(),
            cwd: self.path("").to_str().unwrap().to_owned(),
            stdout: "/dev/null".into(),
            ..Spec::default()
        };
        change(&mut spec);
        let spec = Box::new(spec);
        self.order(&[Order::Spec { id, spec }]);
    }

    /// Orders the start of a command with specification `s`.
    pub fn start_of(&mut self, id: u32, s: u32, command: &str) {
        self.start_with(id, command, |o| o.s = s);
    }

    pub fn start_with(&mut self, id: u32, command: &str, change: impl FnOnce(&mut StartOrder)) {
        let mut order = Cluster::start(id, command);
        if let Order::Start(o) = &mut order {
            change(o);
        }
        self.order(&[order]);
    }

    pub fn signal(&mut self, id: u32, act: Act, n: u32) {
        self.signal_in(id, act, n, 200);
    }

    /// The same with a pause between the signals that end a job: for those that heed the first one.
    pub fn signal_in(&mut self, id: u32, act: Act, n: u32, grace_ms: u64) {
        let (a, reason) = (attempt(id), TermReason::Owner);
        self.order(&[Order::Signal {
            a,
            act,
            reason,
            grace_ms,
            n,
            mark: 0,
        }]);
    }

    /// Kills what runs, on its owner's word, and waits for its end.
    pub fn kill(&mut self, id: u32) -> Ended {
        self.signal(id, Act::Kill, 1);
        self.end(id)
    }

    /// Writes a tasks log, as shepherds of an earlier spawner would have.
    pub fn write_tasks(&self, n: u64, recs: &[TaskRec]) {
        let bytes: Vec<u8> = recs
            .iter()
            .flat_map(|r| encode_task(r, 0).unwrap())
            .collect();
        let path = self.path("local").join(format!("tasks.{n:06}.log"));
        fs::publish(&path, &bytes).unwrap();
    }

    /// Adds to what the host remembers.
    pub fn remember_also(&self, recs: &[AttemptRec]) {
        let path = self.path("local/attempts.log");
        let mut bytes = fs::read_small(&path, 1 << 20).unwrap();
        let seq = bytes.iter().filter(|b| **b == b'\n').count() as u64;
        for (n, rec) in recs.iter().enumerate() {
            frame::write(&mut bytes, seq + n as u64, rec).unwrap();
        }
        fs::publish(&path, &bytes).unwrap();
    }

    /// Waits until a file has content.
    pub fn wait_file(&self, name: &str) -> String {
        find(&format!("no file {name}"), || {
            let bytes = fs::read_optional(&self.path(name), 1 << 20).unwrap();
            let text = String::from_utf8(bytes.unwrap_or_default()).unwrap();
            text.ends_with('\n').then_some(text)
        })
    }

    pub fn kill_exe(&mut self) {
        let mut exe = self.exe.take().unwrap();
        exe.kill().unwrap();
        exe.wait().unwrap();
    }

    /// Kills what runs in control groups, and removes them: those that were killed could not.
    fn remove_groups(&self) {
        let local = Local::at(&self.path("local"));
        let Ok(lock) = fs::open_rw(&local.spawner_lock()) else {
            return;
        };
        let _ended = lock::wait_for(&lock, 10_000);
        let all = Hierarchy::detect(&cgroup::tag("h1", local.dir()));
        for name in all.names() {
            match all.find(&name) {
                Some(mut group) => {
                    group.kill_until_empty(2_000);
                    group.remove();
                }
                None => all.remove_rest(&name),
            }
        }
        all.remove_parents();
    }

    /// Another executor in the place of one that was killed.
    pub fn restart_exe(&mut self) {
        self.kill_exe();
        self.start_exe();
    }

    pub fn start(id: u32, command: &str) -> Order {
        Order::Start(Box::new(StartOrder {
            a: attempt(id),
            s: 1,
            command: command.into(),
            name: "n".into(),
            hosts: vec![Share("h1".into(), 1)],
            resizes: 0,
            limit_changes: 0,
            limits: Limits::default(),
            index_end: 0,
            index_step: 0,
            t: 1,
            nice: 0,
            grace_ms: 300,
            rerunnable: None,
            mark: 0,
            ran: false,
            hooks: None,
            success: String::new(),
            requeue: String::new(),
            warn: None,
            private: false,
            bind: Default::default(),
            part_binds: Vec::new(),
            units: TaskUnits::default(),
        }))
    }

    /// All reports of the newest file.
    pub fn reports(&self) -> (u64, Vec<(u64, Report)>) {
        let names = fs::list_dir(&self.layout.host("h1"), 1000).unwrap();
        let numbers = names
            .iter()
            .filter_map(|e| Layout::parse_reports_name(e.text()?));
        let Some(n) = numbers.max() else {
            return (0, Vec::new());
        };
        let bytes = fs::read_small(&self.layout.reports("h1", n), 1 << 30).unwrap();
        let mut reader = Reader::new(&bytes);
        let mut out = Vec::new();
        if let Ok(Some(_)) = Header::read(&mut reader, FileKind::Reports, Some("c")) {
            while let Ok(Some(line)) = reader.next_line() {
                out.push((line.seq, line.decode().unwrap()));
            }
        }
        (n, out)
    }

    pub fn wait_for<T>(&self, what: &str, get: impl Fn(&Report) -> Option<T>) -> T {
        let look = || self.reports().1.iter().find_map(|(_, r)| get(r));
        find_or(look, || format!("no {what} in {:#?}", self.reports()))
    }

    pub fn end(&self, id: u32) -> Ended {
        self.wait_for(&format!("end of {id}"), |r| match r {
            Report::Ended(e) if e.a == attempt(id) => Some((**e).clone()),
            _ => None,
        })
    }

    pub fn started(&self, id: u32) -> i32 {
        self.wait_for(&format!("start of {id}"), |r| match r {
            Report::Started { a, pid, .. } if *a == attempt(id) => Some(*pid as i32),
            _ => None,
        })
    }

    pub fn never(&self, id: u32) {
        self.wait_for(&format!("refusal of {id}"), |r| match r {
            Report::Never { a, .. } if *a == attempt(id) => Some(()),
            _ => None,
        });
    }

    /// Waits until the jobs' file of marks holds this.
    pub fn wait_mark(&self, text: &str) {
        let so = || self.marks().contains(text);
        until_or(so, || format!("no mark {text}: {}", self.marks()));
    }

    pub fn marks(&self) -> String {
        let bytes = fs::read_optional(&self.path("marks"), 1 << 20).unwrap();
        String::from_utf8(bytes.unwrap_or_default()).unwrap()
    }

    pub fn mark(&self, id: u32) -> String {
        format!("echo {id} >> {}", self.path("marks").display())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.exe.is_some() {
            self.kill_exe();
        }
        self.remove_groups();
    }
}

/// Waits until no process of that id runs.
pub fn wait_gone(pid: i32) {
    until(&format!("the end of process {pid}"), || !exists(pid));
}
