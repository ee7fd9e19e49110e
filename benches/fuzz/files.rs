//! Files that daemons read, in a directory of their own: the journal with snapshots, what hosts
//! report, what hosts are ordered, what a host remembers. Each input is read by the function that
//! the daemon calls. Owns no mutation.

use super::scene::{Scene, config, sample};
use super::{Dice, Target, frames};
use corral::config::Config;
use corral::host::exe::spawn::{SpawnerEvent, Wire};
use corral::host::exe::{self, Exec};
use corral::host::local::Local;
use corral::host::setup::HostSetup;
use corral::journal::{self, History, Position, Writer, snapshot};
use corral::master::hosts::{HostSelection, Hosts};
use corral::model::{AttemptId, JobKey, Stamp};
use corral::record::event::Event;
use corral::record::header::{FileKind, Header};
use corral::record::leader::{ClusterDoc, EpochDoc, encode_fixed};
use corral::record::load;
use corral::record::order::Order;
use corral::record::report::Report;
use corral::spool::{Layout, Site};
use corral::state_loader::Loader;
use corral::sys::trust::Owners;
use corral::sys::{fs, users};
use corral::task::log::{AttemptRec, TaskRec, decode_tasks, encode_task};
use corral::task::spec::{FromSpawner, ToSpawner, split};
use crossbeam::channel::Sender;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory on a file system in memory, if there is one.
fn directory() -> tempfile::TempDir {
    let memory = tempfile::tempdir_in("/dev/shm");
    memory
        .or_else(|_| tempfile::tempdir())
        .expect("a directory for the files")
}

fn share(dir: &Path) -> Layout {
    let layout = Layout::new(dir.join("share"));
    std::fs::create_dir_all(layout.root()).expect("a directory");
    for (dir, _) in layout.directories() {
        std::fs::create_dir_all(dir).expect("a directory");
    }
    layout
}

fn json<T: serde::Serialize>(doc: &T) -> Vec<u8> {
    serde_json::to_vec(doc).expect("plain data")
}

/// A mutation of one of the files: of its records, of its bytes, or of both.
fn mutated(dice: &mut Dice, intact: &[u8], foreign: &[Vec<u8>]) -> Vec<u8> {
    let mut records = frames::split(intact);
    if dice.roll(4) > 0 {
        frames::records(dice, &mut records, foreign);
    }
    let mut bytes = frames::join(&records);
    if dice.roll(3) == 0 {
        frames::bytes(dice, &mut bytes);
    }
    bytes
}

fn shown(root: &Path, files: &[(PathBuf, Vec<u8>)]) -> Vec<(String, Vec<u8>)> {
    let name = |p: &Path| {
        p.strip_prefix(root)
            .unwrap_or(p)
            .to_string_lossy()
            .replace('/', "+")
    };
    files.iter().map(|(p, b)| (name(p), b.clone())).collect()
}

/// Three epochs with a snapshot, recovered by a fourth leader.
pub struct Journal {
    _dir: tempfile::TempDir,
    layout: Layout,
    config: Arc<Config>,
    intact: Vec<(PathBuf, Vec<u8>)>,
    foreign: Vec<Vec<u8>>,
    current: Vec<(PathBuf, Vec<u8>)>,
}

const EPOCHS: u64 = 3;

impl Journal {
    pub fn new() -> Journal {
        let dir = directory();
        let layout = share(dir.path());
        let config = config();
        let mut scene = Scene::new(&config);
        scene.live(&mut Dice(7));
        let each = scene.events.len() / EPOCHS as usize + 1;
        for (epoch, events) in (1..).zip(scene.events.chunks(each)) {
            write_epoch(&layout, epoch, events);
        }
        let mut intact = Vec::new();
        for epoch in 1..=EPOCHS {
            let numbers = 1..;
            let paths = numbers
                .map(|n| layout.journal(epoch, n))
                .take_while(|p| p.exists());
            intact.extend(paths);
        }
        for n in snapshot::numbers(&layout).expect("it was just written") {
            intact.push(snapshot::path_of(&layout, n));
        }
        let read = |p: PathBuf| (p.clone(), std::fs::read(p).expect("it was just written"));
        let intact: Vec<_> = intact.into_iter().map(read).collect();
        let foreign = intact.iter().flat_map(|(_, b)| frames::split(b)).collect();
        let current = intact.clone();
        Journal {
            _dir: dir,
            layout,
            config,
            intact,
            foreign,
            current,
        }
    }

    fn recover(&self, accept_loss: bool) -> Result<Loader, journal::Error> {
        let mut loader = Loader::default();
        let led = Some(EPOCHS);
        let options = journal::Options {
            accept_loss,
            led_epoch: led,
            unsealed: false,
        };
        journal::recover(&self.layout, "c", EPOCHS + 1, options, &mut loader)?;
        Ok(loader)
    }
}

/// Leads an epoch as a leader does: recovers, seals, journals; a snapshot in the second.
fn write_epoch(layout: &Layout, epoch: u64, events: &[Event]) {
    let mut loader = Loader::default();
    let options = journal::Options::default();
    let recovered = journal::recover(layout, "c", epoch, options, &mut loader);
    let seals = recovered.expect("what was written is intact").seals;
    let mut writer = Writer::create(layout, "c", epoch).expect("a file");
    if epoch == 1 {
        writer = writer.with_segment_bytes(8 << 10);
    }
    let (host, pid, t) = ("h".to_owned(), 1, Stamp(1));
    let first = Event::Epoch {
        epoch,
        host,
        pid,
        t,
    };
    let mut at = Position::default();
    for (n, event) in std::iter::once(&first)
        .chain(&seals)
        .chain(events)
        .enumerate()
    {
        writer.append(event).expect("room");
        loader.state.apply(event);
        if n % 20 == 0 {
            at = writer.commit().expect("room");
            if epoch == 2 && n == 20 {
                let mut snap =
                    snapshot::SnapshotWriter::create(layout, "c", at, 1).expect("a file");
                loader
                    .state
                    .snapshot()
                    .for_each(|r| snap.push(&r).expect("room"));
                snap.finish().expect("room");
            }
        }
    }
    let _ = at;
    writer.commit().expect("room");
}

impl Target for Journal {
    fn make(&mut self, dice: &mut Dice) {
        self.current.clone_from(&self.intact);
        for _ in 0..=dice.roll(2) {
            let at = dice.roll(self.current.len());
            match dice.roll(12) {
                0 => drop(self.current.remove(at)),
                1 => {
                    let other = dice.roll(self.current.len());
                    self.current[at].1 = self.current[other].1.clone();
                }
                _ => self.current[at].1 = mutated(dice, &self.intact[at].1, &self.foreign),
            }
            if self.current.is_empty() {
                return;
            }
        }
    }

    fn run(&mut self) {
        for (path, _) in &self.intact {
            let _ = std::fs::remove_file(path);
        }
        for (path, bytes) in &self.current {
            std::fs::write(path, bytes).expect("room for the file");
        }
        let strict = self.recover(false);
        let lossy = self.recover(true);
        for loader in [strict, lossy].into_iter().flatten() {
            // A leader that finds the state unsound refuses to lead.
            if loader.state.check().is_empty() {
                let mut scene = Scene::with(&self.config, loader.state, 2_000_000);
                scene.live_briefly();
            }
        }
        let mut seen = 0;
        let _ = History::new(&self.layout, "c").read(&mut |_| seen += 1);
        if let Ok(all) = std::fs::read_dir(self.layout.lost_found()) {
            all.flatten()
                .for_each(|e| drop(std::fs::remove_file(e.path())));
        }
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        shown(self.layout.root(), &self.current)
    }
}

/// What hosts write, read by a leader.
pub struct Reports {
    _dir: tempfile::TempDir,
    layout: Layout,
    config: Arc<Config>,
    scene: Scene,
    since: u32,
    /// Records of the report file of each host.
    own: Vec<(String, Vec<Vec<u8>>)>,
    foreign: Vec<Vec<u8>>,
    current: Vec<(PathBuf, Vec<u8>)>,
}

impl Reports {
    pub fn new() -> Reports {
        let dir = directory();
        let layout = share(dir.path());
        for host in ["h1", "h2", "h3"] {
            std::fs::create_dir_all(layout.host(host)).expect("a directory");
        }
        let config = config();
        let scene = Scene::new(&config);
        let (own, foreign) = (Vec::new(), Vec::new());
        let (since, current) = (0, Vec::new());
        Reports {
            _dir: dir,
            layout,
            config,
            scene,
            since,
            own,
            foreign,
            current,
        }
    }

    /// Another cluster at work; its true reports are what is mutated.
    fn renew(&mut self, dice: &mut Dice) {
        self.scene = Scene::new(&self.config);
        self.scene.live(dice);
        let boot = || "b".to_owned();
        let hello = Report::Hello {
            boot: boot(),
            version: "1".into(),
            t: 1,
            parts: true,
        };
        let mut own = Vec::new();
        self.scene.reports.entry("h1".into()).or_default();
        for (host, reports) in &self.scene.reports {
            let header = Header::new(FileKind::Reports, "c", 0, 1);
            let mut records = vec![json(&header), json(&hello)];
            records.extend(reports.iter().map(json));
            records.push(json(&Report::Complete { boot: boot() }));
            own.push((host.clone(), records));
        }
        let a = AttemptId {
            j: JobKey::job(1),
            at: 1,
        };
        let u = corral::record::report::Usage {
            cpu_ms: 5,
            mem_kb: 7,
            ..Default::default()
        };
        own.iter_mut()
            .for_each(|(_, all)| all.push(json(&Report::Usage { a, u: u.clone() })));
        self.foreign = own.iter().flat_map(|(_, r)| r.clone()).collect();
        self.own = own;
        self.since = 0;
    }
}

impl Target for Reports {
    fn make(&mut self, dice: &mut Dice) {
        if self.since.is_multiple_of(100) {
            self.renew(dice);
        }
        self.since += 1;
        let (host, records) = &self.own[dice.roll(self.own.len())];
        let intact = frames::join(records);
        let bytes = mutated(dice, &intact, &self.foreign);
        self.current = vec![(self.layout.reports(host, 1), bytes)];
        let mut doc = load::encode(&sample(host)).expect("it fits");
        if dice.roll(2) == 0 {
            doc = mutated_load(dice, host);
        }
        self.current.push((self.layout.load(host), doc));
    }

    fn run(&mut self) {
        for (path, bytes) in &self.current {
            std::fs::write(path, bytes).expect("room for the file");
        }
        let owners = Owners {
            uid: users::effective_uid(),
            gid: 0,
        };
        let mut hosts = Hosts::new(&self.layout, "c", owners);
        let mut inputs = Vec::new();
        hosts.read_all(
            (1, 1_000),
            HostSelection::All,
            1_000,
            &|_| false,
            &mut inputs,
        );
        hosts.read_all(
            (100_000, 100_000),
            HostSelection::All,
            1_000,
            &|_| false,
            &mut inputs,
        );
        self.scene.turn(inputs);
        self.scene.answer(&mut Dice(3));
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        shown(self.layout.root(), &self.current)
    }
}

/// A sample whose values are odd under a right checksum, or whose bytes are.
fn mutated_load(dice: &mut Dice, host: &str) -> Vec<u8> {
    let mut records = vec![json(&sample(host))];
    frames::records(dice, &mut records, &[]);
    let mut out = records.into_iter().next().unwrap_or_default();
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(format!(" #{crc:08x}").as_bytes());
    out.resize(out.len().max(load::LOAD_LEN - 1), b' ');
    out.push(b'\n');
    if dice.roll(4) == 0 {
        frames::bytes(dice, &mut out);
    }
    out
}

/// Orders through an executor whose spawner swallows everything.
pub struct Orders {
    dir: tempfile::TempDir,
    layout: Layout,
    exec: Exec,
    /// True orders, without the header.
    records: Vec<Vec<u8>>,
    foreign: Vec<Vec<u8>>,
    epoch: u64,
    current: Vec<(PathBuf, Vec<u8>)>,
}

/// A spawner that takes what it is sent.
struct Sink {
    /// Held: a channel without a sender means that the spawner is gone.
    _says: Sender<SpawnerEvent>,
}

impl Wire for Sink {
    fn pid(&self) -> i32 {
        0
    }

    fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let mut rest = bytes;
        while let Some((message, used)) = split(rest).expect("whole messages") {
            let read = serde_json::from_slice::<ToSpawner>(message);
            read.expect("the spawner reads what it is sent");
            rest = &rest[used..];
        }
        Ok(())
    }

    fn close(&mut self) {}

    fn has_ended(&mut self) -> bool {
        true
    }

    fn kill(&mut self) {}
}

/// An executor of host h1 below `dir`.
fn executor(dir: &Path, layout: &Layout) -> Exec {
    let local = Local::at(&dir.join("local"));
    std::fs::create_dir_all(local.dir()).expect("a directory");
    let conf = dir.join("etc/cb.conf");
    let (share, host) = (layout.root().to_path_buf(), "h1".to_owned());
    let site = Site {
        conf,
        share,
        host,
        local: Some(local.dir().to_path_buf()),
        unsafe_mount: false,
        servers: None,
        esubs: None,
    };
    let (service_uid, service_gid) = (users::effective_uid(), users::current_user().gid);
    let cluster = ClusterDoc {
        cluster: "c".into(),
        name: "demo".into(),
        format: corral::record::FORMAT,
        service_uid,
        service_gid,
    };
    let layout = layout.clone();
    let place = HostSetup {
        site,
        layout,
        cluster,
        local,
        share_is_local: true,
    };
    let stand = |_: &Local, _: u64, says: Sender<SpawnerEvent>| -> Result<Box<dyn Wire>, String> {
        let (pid, cgroups) = (0, String::new());
        let unheld = Default::default();
        let ready = FromSpawner::Ready {
            pid,
            cgroups,
            unheld,
        };
        says.send(SpawnerEvent::Message(ready))
            .expect("the executor listens");
        Ok(Box::new(Sink { _says: says }))
    };
    let options = exe::Options {
        replacement: Some(Arc::new(stand)),
        ..exe::Options::default()
    };
    exe::adopt(place, false, &options).expect("an executor starts on any memory")
}

impl Orders {
    pub fn new() -> Orders {
        let dir = directory();
        let layout = share(dir.path());
        std::fs::create_dir_all(layout.host("h1")).expect("a directory");
        let mut scene = Scene::new(&config());
        scene.live(&mut Dice(11));
        let records = scene.orders["h1"].iter().map(json).collect();
        let foreign = scene.orders.values().flatten().map(json).collect();
        let exec = executor(dir.path(), &layout);
        let (epoch, current) = (0, Vec::new());
        Orders {
            dir,
            layout,
            exec,
            records,
            foreign,
            epoch,
            current,
        }
    }
}

impl Target for Orders {
    fn make(&mut self, dice: &mut Dice) {
        self.epoch += 1;
        for (path, _) in &self.current {
            let _ = std::fs::remove_file(path);
        }
        if self.epoch.is_multiple_of(50) {
            // As after a restart: with what it remembers, or with nothing.
            if dice.roll(2) == 0 {
                let _ = std::fs::remove_dir_all(self.dir.path().join("local"));
            }
            self.exec = executor(self.dir.path(), &self.layout);
        }
        let doc = EpochDoc {
            epoch: self.epoch,
            ..EpochDoc::default()
        };
        let epoch = encode_fixed(&doc).expect("it fits");
        let path = self.layout.orders("h1", self.epoch, 1);
        let id = self.exec.ledger_id().to_owned();
        let mut records = vec![json(&Header::new(FileKind::Orders, "c", self.epoch, 1))];
        records.push(json(&Order::Ledger { id }));
        records.extend(self.records.iter().cloned());
        let orders = mutated(dice, &frames::join(&records), &self.foreign);
        self.current = vec![(self.layout.epoch(), epoch), (path, orders)];
    }

    fn run(&mut self) {
        for (path, bytes) in &self.current {
            std::fs::write(path, bytes).expect("room for the file");
        }
        while self.exec.turn(true).more {}
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        shown(self.layout.root(), &self.current)
    }
}

/// What a host remembers: its attempts, read when `cbexe` starts, and what shepherds wrote.
pub struct Memory {
    dir: tempfile::TempDir,
    layout: Layout,
    attempts: Vec<Vec<u8>>,
    tasks: Vec<u8>,
    current: Vec<(PathBuf, Vec<u8>)>,
    lines: Vec<u8>,
}

impl Memory {
    pub fn new() -> Memory {
        let dir = directory();
        let layout = share(dir.path());
        let (mut attempts, mut tasks) = (Vec::new(), Vec::new());
        attempts.push(json(&Header::new(FileKind::Local, "c", 0, 0)));
        attempts.push(json(&AttemptRec::Epoch { e: 3, top: 3, r: 2 }));
        for id in 1..5 {
            let a = AttemptId {
                j: JobKey::element(id, 1),
                at: 1,
            };
            let (e, p, why) = (3, 1, "no".to_owned());
            attempts.push(json(&AttemptRec::Given {
                a,
                e,
                p,
                l: 1,
                r: true,
                b: "b".into(),
                m: 9,
                f: 0,
                c: None,
                u: Vec::new(),
            }));
            attempts.push(json(&AttemptRec::Refused { a, e, p }));
            attempts.push(json(&AttemptRec::Signalled { a, n: 1 }));
            attempts.push(json(&AttemptRec::Resized { a, n: 1 }));
            attempts.push(json(&AttemptRec::Never { a, e, p, why }));
            attempts.push(json(&AttemptRec::Acked { a }));
            let end = Box::new(corral::record::report::Ended {
                a,
                ..Default::default()
            });
            attempts.push(json(&AttemptRec::Concluded(end.clone())));
            let on = TaskRec::Susp { a, on: true, t: 1 };
            for rec in [TaskRec::End(end), on] {
                tasks.extend(encode_task(&rec, 5).expect("plain data"));
            }
        }
        let (current, lines) = (Vec::new(), Vec::new());
        Memory {
            dir,
            layout,
            attempts,
            tasks,
            current,
            lines,
        }
    }
}

impl Target for Memory {
    fn make(&mut self, dice: &mut Dice) {
        let intact = frames::join(&self.attempts);
        let path = Local::at(&self.dir.path().join("local")).attempts();
        self.current = vec![(path, mutated(dice, &intact, &self.attempts))];
        self.lines.clone_from(&self.tasks);
        frames::bytes(dice, &mut self.lines);
    }

    fn run(&mut self) {
        let (path, bytes) = &self.current[0];
        std::fs::create_dir_all(fs::parent(path)).expect("a directory");
        std::fs::write(path, bytes).expect("room for the file");
        let mut exec = executor(self.dir.path(), &self.layout);
        exec.turn(true);
        let lines = decode_tasks(&self.lines);
        assert!(lines.end <= self.lines.len());
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut out = shown(self.dir.path(), &self.current);
        out.push(("tasks.log".into(), self.lines.clone()));
        out
    }
}
