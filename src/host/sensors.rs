//! The sensors of a host, run by `cbls` in a separate thread: found in the server directory,
//! started, read, restarted, ended. Accesses no file of the share, so a hanging share stops no
//! sensor, and a hanging sensor stops no heartbeat.

use super::setup::HostSetup;
use super::units_file::UnitsFile;
use crate::record::load::Sensed;
use crate::sensors::cluster_resources::LINGER_MS;
use crate::sensors::document_splitter::{Splitter, StreamPart};
use crate::sensors::log_throttle::LogThrottle;
use crate::sensors::parse::document;
use crate::sensors::sensor_files::{DIR, Role, SENSORS_MAX, Sensor, sensor};
use crate::sensors::sensor_lifecycle::{ABSENT_TRIES, NOTHING_HERE, SensorLifecycle};
use crate::sensors::sensor_values::SensorValues;
use crate::sys::fs::Kind;
use crate::sys::sensor::{self, Running, Stream};
use crate::sys::thread::{self, Thread};
use crate::sys::trust::Owners;
use crate::sys::{clock, fs};
use crossbeam::channel::{Receiver, Sender, unbounded};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// How often the server directory is scanned.
const SCAN_MS: u64 = 5_000;
/// Longest wait while no sensor prints anything.
const TICK_MS: u64 = 250;
/// Minimum time between two reports of the sensors' values.
const REPORT_MS: u64 = 500;
/// Time between the signal that asks a sensor to end and its kill.
const GRACE_MS: u64 = 2_000;
/// Bytes per second that a sensor may print, and the size of a burst; output beyond that is
/// delayed.
const RATE: u64 = 64 << 10;
const BURST: u64 = 256 << 10;
/// Maximum number of names read in one directory.
const NAMES_MAX: usize = 10_000;
const STACK: usize = 1 << 20;
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
/// Variables that a sensor gets from its daemon; the rest of its environment is fixed.
const KEPT_VARIABLES: [&str; 5] = ["CB_ENVDIR", "CB_DEV", "CB_DEV_NAME", "LANG", "TZ"];

enum SensorOrder {
    /// Whether the leader runs on this host.
    LeadingChanged(bool),
    Stop,
}

/// Holds the latest values until they are read: the main thread may hang in the share for days.
type Mailbox = Arc<Mutex<Option<SensorMessage>>>;

struct SensorMessage {
    report: BTreeMap<String, Sensed>,
    /// There are sensors that run only on the leader's host.
    for_leader: bool,
}

/// The thread, as seen by `cbls`.
pub(super) struct Sensors {
    orders: Sender<SensorOrder>,
    mailbox: Mailbox,
    thread: Option<Thread>,
    last: SensorMessage,
}

impl Sensors {
    /// Runs the sensors of `setup`; without a server directory there are none.
    pub(super) fn start(setup: &HostSetup) -> Sensors {
        let (orders, theirs) = unbounded();
        let mailbox = Mailbox::default();
        let worker = setup.site.servers.as_deref();
        let worker = worker.map(|dir| Worker::new(setup, dir, theirs, mailbox.clone()));
        let run = worker.map(|w| thread::spawn("sensors", STACK, move || w.run()));
        if let Some(Err(e)) = &run {
            tracing::error!("no sensor is run: their thread cannot be started: {e}");
        }
        Sensors {
            orders,
            mailbox,
            thread: run.and_then(Result::ok),
            last: SensorMessage {
                report: BTreeMap::new(),
                for_leader: false,
            },
        }
    }

    /// The current values of the sensors.
    pub(super) fn report(&mut self) -> &BTreeMap<String, Sensed> {
        self.handle_messages();
        &self.last.report
    }

    /// Whether a sensor needs to know if the leader is on this host.
    pub(super) fn for_leader(&mut self) -> bool {
        self.handle_messages();
        self.last.for_leader
    }

    fn handle_messages(&mut self) {
        let mut slot = self.mailbox.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(newest) = slot.take() {
            self.last = newest;
        }
    }

    /// Reports whether the leader runs on this host.
    pub(super) fn set_leading(&self, leads: bool) {
        let _ = self.orders.send(SensorOrder::LeadingChanged(leads));
    }

    /// Ends all sensors and waits for their end.
    pub(super) fn stop(mut self) {
        let _ = self.orders.send(SensorOrder::Stop);
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
    }
}

/// One sensor's file and process.
struct Run {
    path: PathBuf,
    /// Identifies the version of the file.
    stamp: (u64, i64, u64),
    lifecycle: SensorLifecycle,
    running: Option<Running>,
    splitter: Splitter,
    log_throttle: LogThrottle,
    /// Bytes that it may still print, and the time of this calculation.
    budget: (u64, u64),
    slowed: bool,
    /// It was asked to end, and is killed at this time.
    kill_at: Option<u64>,
    /// Its file was removed or must not be run any more.
    unwanted: bool,
}

impl Run {
    fn new(path: PathBuf, stamp: (u64, i64, u64), now: u64) -> Run {
        Run {
            path,
            stamp,
            lifecycle: SensorLifecycle::new(now),
            running: None,
            splitter: Splitter::new(),
            log_throttle: LogThrottle::default(),
            budget: (BURST, now),
            slowed: false,
            kill_at: None,
            unwanted: false,
        }
    }

    /// Asks it to end; it is killed later if it does not.
    fn terminate(&mut self, now: u64) {
        if let (Some(running), None) = (&self.running, self.kill_at) {
            running.kill(SIGTERM);
            self.kill_at = Some(now + GRACE_MS);
        }
    }

    /// The number of bytes that it may print now.
    fn refill(&mut self, now: u64) -> u64 {
        let (left, at) = self.budget;
        let more = now.saturating_sub(at).saturating_mul(RATE) / 1000;
        // Fractions of a byte are not lost: the time is only updated if it was worth at least one
        // byte.
        if more > 0 {
            self.budget = ((left + more).min(BURST), now);
        }
        self.budget.0
    }
}

/// The destinations of the sensors' values.
struct ValueSinks {
    mailbox: Mailbox,
    units: UnitsFile,
}

struct Worker {
    dir: PathBuf,
    host: String,
    owners: Owners,
    env: Vec<(String, OsString)>,
    /// Value of the environment variable that marks all sensors.
    mark: String,
    orders: Receiver<SensorOrder>,
    sinks: ValueSinks,
    values: SensorValues,
    runs: BTreeMap<Sensor, Run>,
    leads: bool,
    for_leader: bool,
    scanned: Option<u64>,
    reported: u64,
    /// The problem of each file, by its name; logged once.
    file_problems: BTreeMap<String, String>,
    stop: bool,
}

impl Worker {
    fn new(setup: &HostSetup, dir: &Path, orders: Receiver<SensorOrder>, tell: Mailbox) -> Worker {
        let mut env: Vec<(String, OsString)> = KEPT_VARIABLES
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), std::env::var_os(name)?)))
            .collect();
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        env.push(("PATH".into(), path.into()));
        env.push(("CB_HOST".into(), setup.site.host.clone().into()));
        let mark = setup.local.dir().display().to_string();
        env.push(("CB_SENSORS".into(), mark.clone().into()));
        Worker {
            dir: dir.to_path_buf(),
            host: setup.site.host.clone(),
            owners: crate::spool::owners(&setup.cluster),
            env,
            mark,
            orders,
            sinks: ValueSinks {
                mailbox: tell,
                units: UnitsFile::new(&setup.local, clock::boot_ms()),
            },
            values: SensorValues::new(),
            runs: BTreeMap::new(),
            leads: false,
            for_leader: false,
            scanned: None,
            reported: 0,
            file_problems: BTreeMap::new(),
            stop: false,
        }
    }

    fn run(mut self) {
        // Processes of a killed cbls.
        let old = sensor::kill_marked(&format!("CB_SENSORS={}", self.mark));
        if old > 0 {
            tracing::warn!("{old} processes of sensors of an earlier cbls were killed");
        }
        while !self.stop {
            let now = clock::boot_ms();
            if self.scanned.is_none_or(|at| now >= at + SCAN_MS) {
                self.scanned = Some(now);
                self.scan(now);
            }
            self.run_due(now);
            if now >= self.reported + REPORT_MS {
                self.reported = now;
                self.publish_report(now);
            }
            self.wait(now);
        }
        self.end_all();
    }

    /// Waits for output to read or work to do.
    fn wait(&mut self, now: u64) {
        let due = self
            .runs
            .values()
            .filter_map(|r| r.lifecycle.due_at())
            .min();
        let scan = self.scanned.unwrap_or(now) + SCAN_MS;
        let next = due.unwrap_or(scan).min(scan);
        if self.runs.values().all(|r| r.running.is_none()) {
            let ms = next.saturating_sub(now).clamp(1, SCAN_MS);
            if let Ok(order) = thread::recv_timeout(&self.orders, ms) {
                self.order(order);
            }
        } else {
            let ready = |r: &'_ Run| r.budget.0 > 0;
            let running = self
                .runs
                .values()
                .filter_map(|r| Some((r, r.running.as_ref()?)));
            let streams = running.flat_map(|(r, running)| {
                let both = [(running, Stream::Output), (running, Stream::Errors)];
                both.into_iter().filter(move |_| ready(r))
            });
            let ms = next.saturating_sub(now).clamp(1, TICK_MS);
            sensor::wait_any(streams, ms);
        }
        while let Ok(order) = self.orders.try_recv() {
            self.order(order);
        }
    }

    fn order(&mut self, order: SensorOrder) {
        match order {
            SensorOrder::Stop => self.stop = true,
            SensorOrder::LeadingChanged(leads) => {
                if self.leads != leads {
                    self.scanned = None;
                }
                self.leads = leads;
            }
        }
    }

    /// Lists the sensors, and ends those whose file was removed.
    fn scan(&mut self, now: u64) {
        let mut found = BTreeMap::new();
        self.for_leader = false;
        for (sensor, path) in self.files() {
            self.for_leader |= sensor.role == Role::Master;
            if sensor.role == Role::Master && !self.leads {
                continue;
            }
            match self.check_file(&path) {
                Ok(stamp) => {
                    self.file_problems.remove(&sensor.name);
                    found.insert(sensor, (path, stamp));
                }
                Err(why) => {
                    if self.file_problems.get(&sensor.name) != Some(&why) {
                        tracing::error!("sensor {} is not run: {why}", sensor.name);
                        self.file_problems.insert(sensor.name, why);
                    }
                }
            }
        }
        for (sensor, run) in &mut self.runs {
            let same = found
                .get(sensor)
                .is_some_and(|(_, stamp)| *stamp == run.stamp);
            if same || run.unwanted {
                continue;
            }
            run.unwanted = true;
            run.terminate(now);
            let moves = sensor.role == Role::Master && !self.leads;
            self.values
                .forget(sensor, if moves { LINGER_MS } else { 0 }, now);
        }
        self.runs
            .retain(|_, run| !run.unwanted || run.running.is_some());
        for (sensor, (path, stamp)) in found {
            let fresh = !self.runs.contains_key(&sensor);
            if fresh && self.runs.len() < SENSORS_MAX {
                tracing::info!("sensor {} of {}", sensor.name, self.dir.display());
                self.runs.insert(sensor, Run::new(path, stamp, now));
            } else if fresh && !self.file_problems.contains_key(&sensor.name) {
                let why = format!("a host runs at most {SENSORS_MAX} sensors");
                tracing::error!("sensor {} is not run: {why}", sensor.name);
                self.file_problems.insert(sensor.name, why);
            }
        }
    }

    /// Files of the server directory whose names make them sensors of this host.
    fn files(&self) -> BTreeMap<Sensor, PathBuf> {
        let mut out = BTreeMap::new();
        for (dir, within) in [(self.dir.clone(), false), (self.dir.join(DIR), true)] {
            for entry in fs::list_dir(&dir, NAMES_MAX).unwrap_or_default() {
                let found = entry
                    .text()
                    .and_then(|file| sensor(file, &self.host, within));
                if let Some(sensor) = found.filter(|_| !entry.is_dir) {
                    out.insert(sensor, dir.join(&entry.name));
                }
            }
        }
        out
    }

    /// A stamp that identifies this version of the file.
    ///
    /// # Errors
    /// The reason why it must not be run.
    fn check_file(&self, path: &Path) -> Result<(u64, i64, u64), String> {
        self.owners
            .safe_to_load(path, &self.dir)
            .map_err(|e| e.to_string())?;
        let real = fs::canonical(path).map_err(|e| e.to_string())?;
        let stat = fs::stat(&real).map_err(|e| e.to_string())?;
        match stat.filter(|s| s.kind == Kind::File) {
            None => Err(format!("{} is not a file", path.display())),
            Some(s) if s.mode & 0o111 == 0 => {
                Err(format!("{} is not executable: chmod +x it", path.display()))
            }
            Some(s) => Ok((s.ino, s.mtime_ms, s.len)),
        }
    }

    /// Starts sensors that are due, reads their output, ends hanging ones and collects ended ones.
    fn run_due(&mut self, now: u64) {
        let all: Vec<Sensor> = self.runs.keys().cloned().collect();
        for sensor in all {
            let Some(mut run) = self.runs.remove(&sensor) else {
                continue;
            };
            if run.running.is_none() && run.lifecycle.is_due(now) && !run.unwanted {
                self.launch(&sensor, &mut run, now);
            }
            if run.running.is_some() {
                self.read(&sensor, &mut run, now);
                self.check_sensor(&sensor, &mut run, now);
            }
            if !run.unwanted || run.running.is_some() {
                self.runs.insert(sensor, run);
            } else {
                // Its file may exist again by now, or another one.
                self.scanned = None;
            }
        }
    }

    fn launch(&mut self, sensor: &Sensor, run: &mut Run, now: u64) {
        let started = self.check_file(&run.path).and_then(|_| {
            let mut env = self.env.clone();
            env.push(("CB_SENSOR".into(), self.mark_of(sensor).into()));
            sensor::start(&run.path, &env).map_err(|e| e.to_string())
        });
        match started {
            Ok(running) => {
                tracing::info!("sensor {} started (pid {})", sensor.name, running.pid());
                run.lifecycle.started(now);
                run.running = Some(running);
                run.splitter = Splitter::new();
                (run.kill_at, run.slowed) = (None, false);
                self.values.restarted(sensor);
            }
            Err(e) => {
                let pause = run.lifecycle.ended(now);
                let s = pause.div_ceil(1000);
                tracing::error!("sensor {}: {e}; tried again in {s} s", sensor.name);
            }
        }
    }

    fn mark_of(&self, sensor: &Sensor) -> String {
        format!("{}:{}", self.mark, sensor.name)
    }

    /// Reads its output, within its budget.
    fn read(&mut self, sensor: &Sensor, run: &mut Run, now: u64) {
        let budget = run.refill(now);
        let Some(running) = &mut run.running else {
            return;
        };
        let mut buf = [0; 16 << 10];
        let mut pieces = Vec::new();
        let mut left = budget;
        while left > 0 {
            let most = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let n = running.read(Stream::Output, &mut buf[..most]);
            if n == 0 {
                break;
            }
            left -= n as u64;
            run.splitter.push(&buf[..n], now, &mut pieces);
        }
        let most = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let n = running.read(Stream::Errors, &mut buf[..most]);
        for line in run.log_throttle.push(&buf[..n], now) {
            tracing::warn!("sensor {}: {line}", sensor.name);
        }
        left -= n as u64;
        run.budget.0 = left;
        if left == 0 && !std::mem::replace(&mut run.slowed, true) {
            tracing::warn!(
                "sensor {} prints more than {} KB a second: its output is delayed",
                sensor.name,
                RATE >> 10
            );
        }
        run.splitter.pause(now, &mut pieces);
        self.take_output(sensor, run, pieces, now);
    }

    fn take_output(&mut self, sensor: &Sensor, run: &mut Run, pieces: Vec<StreamPart>, now: u64) {
        if run.unwanted {
            return;
        }
        for piece in pieces {
            match piece {
                StreamPart::Document { bytes, line } => {
                    let parsed = document(&bytes, line);
                    if !parsed.readings.is_empty() {
                        run.lifecycle.document_received(now);
                    }
                    for text in self.values.take_document(sensor, parsed, now) {
                        tracing::warn!("sensor {text}");
                    }
                }
                StreamPart::Dropped { line, why } => {
                    let why = why.text();
                    tracing::error!("sensor {}:{line}: {why}; it is ended", sensor.name);
                    run.terminate(now);
                }
            }
        }
    }

    /// Ends it if it hangs, and handles its end.
    fn check_sensor(&mut self, sensor: &Sensor, run: &mut Run, now: u64) {
        let period = self.values.period(sensor);
        if run.kill_at.is_none() && run.lifecycle.is_hanging(period, now) {
            tracing::error!(
                "sensor {} printed no valid line for too long: it is ended",
                sensor.name
            );
            run.terminate(now);
        }
        let Some(running) = &mut run.running else {
            return;
        };
        if run.kill_at.is_some_and(|at| now >= at) {
            running.kill(SIGKILL);
        }
        let Some((how, code)) = running.has_ended() else {
            return;
        };
        // Processes that it started must not survive or keep its pipes open.
        sensor::kill_marked(&format!("CB_SENSOR={}", self.mark_of(sensor)));
        self.read(sensor, run, now);
        let mut pieces = Vec::new();
        run.splitter.end(&mut pieces);
        self.take_output(sensor, run, pieces, now);
        run.running = None;
        if code == Some(NOTHING_HERE) {
            return handle_nothing_to_measure(sensor, run, now);
        }
        let pause = run.lifecycle.ended(now);
        if !run.unwanted {
            let s = pause.div_ceil(1000);
            tracing::warn!(
                "sensor {} ended ({how}); started again in {s} s",
                sensor.name
            );
        }
    }

    fn publish_report(&mut self, now: u64) {
        let (report, messages) = self.values.report(now);
        for text in messages {
            tracing::warn!("sensor {text}");
        }
        self.sinks.units.write(self.values.units(), now);
        let for_leader = self.for_leader;
        let mut slot = self
            .sinks
            .mailbox
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *slot = Some(SensorMessage { report, for_leader });
    }

    /// Ends all sensors: asks them first, then kills them with everything that they started.
    fn end_all(&mut self) {
        let began = clock::boot_ms();
        for run in self.runs.values_mut() {
            run.terminate(began);
        }
        let mut left: Vec<&mut Running> = self
            .runs
            .values_mut()
            .filter_map(|r| r.running.as_mut())
            .collect();
        while !left.is_empty() && clock::boot_ms() < began + GRACE_MS {
            left.retain_mut(|r| r.has_ended().is_none());
            clock::sleep_ms(20);
        }
        for running in left {
            running.kill(SIGKILL);
            while running.has_ended().is_none() && clock::boot_ms() < began + 2 * GRACE_MS {
                clock::sleep_ms(20);
            }
        }
        sensor::kill_marked(&format!("CB_SENSORS={}", self.mark));
    }
}

/// Handles a sensor that has nothing to measure on this host. Logged the first and the last time.
fn handle_nothing_to_measure(sensor: &Sensor, run: &mut Run, now: u64) {
    let (name, pause) = (&sensor.name, run.lifecycle.ended_without_data(now));
    match pause.map(|ms| ms / 60_000) {
        Some(_) if run.lifecycle.had_nothing_to_measure() => {}
        Some(minutes) => tracing::warn!(
            "sensor {name} has nothing to measure here; tried again every {minutes} minutes, \
             {ABSENT_TRIES} times"
        ),
        None => tracing::warn!(
            "sensor {name} has nothing to measure here; not started again unless its file changes"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::local::Local;
    use crate::record::leader::ClusterDoc;
    use crate::spool::{Layout, Site};

    #[test]
    fn only_the_last_news_wait_for_a_main_thread_that_hangs() {
        let d = tempfile::tempdir().unwrap();
        let setup = HostSetup {
            site: Site {
                conf: d.path().join("cb.conf"),
                share: d.path().to_path_buf(),
                host: "h1".into(),
                local: None,
                unsafe_mount: false,
                servers: None,
                esubs: None,
            },
            layout: Layout::new(d.path()),
            cluster: ClusterDoc {
                cluster: "c".into(),
                name: "demo".into(),
                format: crate::record::FORMAT,
                service_uid: 0,
                service_gid: 0,
            },
            local: Local::at(d.path()),
            share_is_local: true,
        };
        let mut sensors = Sensors::start(&setup);
        let (_orders, theirs) = unbounded();
        let mut worker = Worker::new(&setup, d.path(), theirs, sensors.mailbox.clone());
        for n in 0..3 {
            worker.for_leader = n == 2;
            worker.publish_report(n * REPORT_MS);
        }
        assert!(sensors.for_leader());
        assert!(
            sensors.mailbox.lock().unwrap().is_none(),
            "nothing else was kept"
        );
    }
}
