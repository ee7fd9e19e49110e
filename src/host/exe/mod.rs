//! `cbexe`, the executor of a host: reads orders, starts tasks, reports their results.
//!
//! One thread owns the state (`exec`). The other threads only wait: for the fifo that shepherds
//! write to, for the spawner, for signals; and the watchdog of `fence`. A restart at any time harms
//! no task.

mod command_control;
mod commands;
mod cpus;
mod device_counts;
mod device_sample;
mod devices;
mod exec;
mod fence;
mod hints;
mod known_units;
mod late_usage;
mod launches;
mod ledger;
mod limits;
mod net_counts;
mod orders;
mod over_parts;
mod parts;
mod recovery;
mod report_queue;
mod reporting;
mod reports;
mod resize;
mod sample;
mod share_watch;
pub mod spawn;
mod spawners;
mod start_launches;
mod start_refusal;
mod starts;
mod table;
mod task_records;
mod tasklogs;
mod unit_check;
mod unit_names;
mod units;
mod warning;

use super::local::Local;
use super::setup::{self, HostSetup};
use crate::config::CgroupMode;
use crate::spool::polling::Polling;
use crate::sys::ipc::Bell;
use crate::sys::watch::Watcher;
use crate::sys::{child, clock, fs, service, signals, thread, users};
use crate::task::build;
use crate::task::spec::TaskIdentity;
use crossbeam::channel::{Receiver, bounded, never, select};
pub use exec::{Exec, TurnResult};
use std::time::Duration;

/// `poll_interval` if the configuration cannot be read, ms.
const POLL_MS: u64 = 1_000;
/// Pause between two looks at the share if nothing happens and changes raise events, ms.
const IDLE_WATCHED_MS: u64 = 5_000;
/// Minimum time between two turns, so that records are written in groups, ms.
const GROUP_MS: u64 = 2;
/// Pause between two looks at the configuration, ms.
const CONFIG_MS: u64 = 60_000;

/// Options of the command line.
#[derive(Clone, Default)]
pub struct Options {
    /// Do not use control groups, whatever the configuration says.
    pub no_cgroups: bool,
    /// Replaces the spawners in simulations.
    pub replacement: Option<spawn::StartReplacement>,
    /// Accept late orders of lower epochs: for simulations without the rule against them.
    pub follow_lower: bool,
}

/// Runs until a signal ends it; tasks continue.
///
/// # Errors
/// The reason why it could not start.
pub fn run(options: &Options) -> Result<(), setup::DaemonEnd> {
    let setup = HostSetup::find().map_err(setup::refused)?;
    crate::sys::logging::start("info");
    let term = signals::catch_term().map_err(|e| e.to_string())?;
    signals::ignore_hangup();
    signals::ignore_sigpipe();
    Ok(serve(setup, options, &term)?)
}

/// Runs at `setup` until `term` receives a signal.
///
/// # Errors
/// The reason why it could not start.
pub fn serve(setup: HostSetup, options: &Options, term: &Receiver<i32>) -> Result<(), String> {
    let config = setup.config();
    if let Err(e) = &config {
        tracing::warn!("{e}; defaults are used");
    }
    let _alone = setup.take_daemon_lock(&setup.local.exe_lock(), "cbexe")?;
    super::ls::act_as_owner(&setup)?;
    if !super::ls::is_name_unique(&setup, term)? {
        return Ok(());
    }
    setup::warn_of_mount(&setup);
    let mode = config
        .as_ref()
        .map_or(CgroupMode::Auto, |c| c.cluster.cgroup);
    let cgroups = !options.no_cgroups && mode != CgroupMode::Off;
    let mut exec = adopt(setup, cgroups, options)?;
    let note = exec.spawners.note();
    if mode == CgroupMode::Required && !note.is_empty() {
        return Err(format!("{note}, but cb.yaml says 'cgroup: required'"));
    }
    if let Ok(config) = &config {
        exec.hints = hints::Hints::open(&exec.setup, &config.cluster);
        exec.configure_units(config.clone());
    }
    fence::watch(&exec.setup.local)?;
    tracing::info!("cbexe of host {} started", exec.setup.site.host);
    let poll = config.map_or(POLL_MS, |c| c.cluster.poll_interval_ms);
    let end = take_turns(&mut exec, term, poll);
    service::stopping();
    end
}

/// Restores the state of earlier processes and takes over their tasks.
///
/// # Errors
/// The ledger cannot be read or rewritten, or the logs of tasks cannot be opened.
pub fn adopt(setup: HostSetup, cgroups: bool, options: &Options) -> Result<Exec, String> {
    let text = |e: crate::sys::Error| e.to_string();
    let remembered = ledger::read(&setup.local).map_err(text)?;
    for (at, why) in &remembered.bad {
        let path = setup.local.attempts();
        tracing::error!(
            "{} at byte {at}: {why}; this record is lost",
            path.display()
        );
    }
    if options.replacement.is_none() {
        // Opened before any shepherd can ring it.
        Bell::open(&setup.local.bell()).map_err(text)?;
    }
    let (host, cluster) = (setup.site.host.clone(), setup.cluster.cluster.clone());
    let properties = host_properties(&setup, options);
    let share = remembered.share;
    let fresh = remembered.identity.is_none();
    let identity = remembered
        .identity
        .unwrap_or_else(|| ledger::LedgerIdentity {
            id: clock::nonce(8),
            predates_names: false,
        });
    let table = &remembered.table;
    let ledger = ledger::Ledger::create(&setup.local, &cluster, identity.clone(), table, &share);
    let ledger = ledger.map_err(text)?;
    super::ls::write_id(&setup.local.exe_id(), &identity.id);
    let how = spawn::SpawnMode {
        program: child::sibling("cbtask"),
        host: host.clone(),
        cgroups,
        privileged: properties.service.is_some(),
        replacement: options.replacement.clone(),
    };
    let orders = orders_of(&setup, identity, share.epoch, options);
    let starter = starts::Starter::new(&setup.layout, &setup.local, properties);
    let logs = tasklogs::TaskLogs::new(&setup.local).map_err(text)?;
    let spawners = spawners::Spawners::new(how, logs);
    let remembered = (remembered.table, ledger);
    let mut exec = Exec::new(setup, remembered, (orders, starter), spawners, share);
    if options.replacement.is_none() {
        exec.samples.devices.read(&exec.setup.local);
    }
    begin(&mut exec, fresh);
    Ok(exec)
}

/// Has a spawner started, and removes what earlier processes left.
fn begin(exec: &mut Exec, fresh: bool) {
    // The first look-up of an account loads libraries; this must not delay the first job.
    users::groups_of(&users::current_user());
    if let Err(e) = super::command_records::prepare(&exec.setup.local) {
        tracing::error!("{e}: commands that jobs start here cannot begin");
    }
    exec.respawn();
    if fresh {
        exec.clear_away();
    }
    exec.rewrite();
    exec.sweep_scratch();
}

/// The properties of this host that its tasks get.
fn host_properties(setup: &HostSetup, options: &Options) -> build::HostProperties {
    let root = users::may_switch();
    let (uid, gid) = (setup.cluster.service_uid, setup.cluster.service_gid);
    let text = |dir: &std::path::Path| dir.to_string_lossy().into_owned();
    build::HostProperties {
        host: setup.site.host.clone(),
        cluster: setup.cluster.name.clone(),
        envdir: text(fs::parent(&setup.site.conf)),
        bindir: text(&bindir(fs::parent(&setup.site.conf))),
        serverdir: match &setup.site.servers {
            Some(dir) => text(dir),
            None => text(fs::parent(&child::sibling("cbexe"))),
        },
        esubdir: setup.site.esubs.as_deref().map_or(String::new(), text),
        uid: users::effective_uid(),
        // The simulated spawner sets its own user.
        may_switch: root || options.replacement.is_some(),
        service: (root && uid != 0).then(|| TaskIdentity {
            uid,
            gid,
            groups: vec![gid],
        }),
    }
}

/// The directory with the names of the commands: the directory of the programs, or the directory
/// with links to them that a cluster has above its `cb.conf`.
fn bindir(envdir: &std::path::Path) -> std::path::PathBuf {
    let programs = fs::parent(&child::sibling("cb")).to_path_buf();
    let has_all = |dir: &std::path::PathBuf| fs::exists(&dir.join("claunch"));
    let links = envdir.ancestors().take(4).map(|dir| dir.join("bin"));
    let mut places = std::iter::once(programs.clone()).chain(links);
    places.find(has_all).unwrap_or(programs)
}

fn orders_of(
    setup: &HostSetup,
    identity: ledger::LedgerIdentity,
    epoch: u64,
    options: &Options,
) -> orders::OrderReader {
    let (host, cluster) = (&setup.site.host, &setup.cluster.cluster);
    let mut reader = orders::OrderReader::new(&setup.layout, host, cluster, identity, epoch);
    reader.follow_only(crate::spool::owners(&setup.cluster));
    reader.follow_lower = options.follow_lower;
    if !setup.share_is_local {
        reader.prefetch_attributes();
    }
    reader
}

/// Sends a message for each ring of the shepherds' bell.
fn listen(local: &Local) -> Result<Receiver<()>, String> {
    let bell = Bell::open(&local.bell()).map_err(|e| e.to_string())?;
    let (tx, rx) = bounded(1);
    let body = move || {
        loop {
            if bell.wait(None) && matches!(tx.try_send(()), Err(e) if e.is_disconnected()) {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new()
        .name("bell".to_owned())
        .stack_size(128 << 10);
    thread
        .spawn(body)
        .map_err(|e| format!("cannot start a thread: {e}"))?;
    Ok(rx)
}

/// Longest pause between two looks at the share that no hint requests, ms: with two requests per
/// look, 1.5 times `poll_interval` stays below two operations per second by default.
fn idle_ms(events: bool, poll_ms: u64) -> u64 {
    if events {
        IDLE_WATCHED_MS
    } else {
        poll_ms.saturating_mul(3) / 2
    }
}

/// Reports that the first turn is done, if there was none at `last`.
fn log_first_turn(last: u64) {
    if last == 0 {
        service::ready("follows orders");
    }
}

fn take_turns(exec: &mut Exec, term: &Receiver<i32>, poll_ms: u64) -> Result<(), String> {
    // A simulation has no pipes: its turns are triggered by time alone.
    let bell = match exec.spawners.is_simulated() {
        false => listen(&exec.setup.local)?,
        true => never(),
    };
    let own = |p: &std::path::Path| {
        p.file_name()
            .and_then(|n| n.to_str())
            .is_some_and(|n| n.starts_with("orders."))
    };
    let mut watcher = Watcher::filtered(own);
    let dir = exec.setup.layout.host(&exec.setup.site.host);
    fs::mkdir_p(&dir, 0o755).map_err(|e| e.to_string())?;
    let events = exec.setup.share_is_local && watcher.add(&dir);
    let mut polling = Polling::new(idle_ms(events, poll_ms));
    polling.expect(clock::boot_ms());
    let (mut config_at, mut last) = (clock::boot_ms(), 0);
    // A hint by an event of this machine, or by a datagram.
    let (mut hinted, mut heard_hint) = (true, false);
    let mut presumed = false;
    loop {
        let now = clock::boot_ms();
        if now < last + GROUP_MS {
            clock::sleep_ms(1);
        }
        let poll_orders = hinted || heard_hint || polling.is_due(now);
        exec.orders.set_hinted(heard_hint);
        let did = exec.turn(poll_orders);
        log_first_turn(last);
        last = clock::boot_ms();
        if heard_hint && !did.orders {
            exec.hints.note_futile_hint();
        }
        if poll_orders {
            adjust_pace(&mut polling, did, last, (hinted || heard_hint, events));
        }
        if !presumed && exec.hints.address().is_some() && exec.orders.leader().is_some() {
            presumed = true;
            polling.presume_hints();
        }
        if last.saturating_sub(config_at) > CONFIG_MS {
            config_at = last;
            if let Some(poll_ms) = reconfigure(exec) {
                polling.set_slow(idle_ms(events, poll_ms));
            }
        }
        let due = exec.reports.due_ms().unwrap_or(u64::MAX);
        let wait = polling.due_ms().min(due);
        let wait = wait.saturating_sub(clock::boot_ms());
        let wait = wait.min(exec.parts_due_ms());
        if exec.spawners.is_simulated() {
            if thread::recv_timeout(term, wait).is_ok() {
                return Ok(());
            }
            continue;
        }
        let wait = Duration::from_millis(wait);
        let silent = never();
        let heard = exec.spawners.channel().unwrap_or(&silent);
        (hinted, heard_hint) = (false, false);
        select! {
            recv(bell) -> _ => {}
            recv(watcher.hints()) -> _ => hinted = true,
            recv(exec.hints.receiver()) -> what => heard_hint = exec.receive_hints(what.ok()),
            recv(heard) -> h => exec.handle_spawner_event(h.ok()),
            recv(term) -> _ => {
                tracing::info!("cbexe ends; its tasks continue");
                return Ok(());
            }
            default(wait) => {}
        }
    }
}

/// Adjusts the pace of the next looks to the result of a look.
fn adjust_pace(polling: &mut Polling, did: TurnResult, now: u64, (hinted, events): (bool, bool)) {
    polling.note_poll(now, did.orders, hinted);
    match (did.more, did.did_work) {
        (true, _) => polling.make_due(now),
        // What was done here may cause more orders.
        (false, true) => polling.expect(now),
        // With events, an idle share needs no frequent looks.
        (false, false) if events => polling.wait_for_hint(now),
        (false, false) => {}
    }
}

/// Applies changed settings. Returns the new `poll_interval` in ms.
fn reconfigure(exec: &mut Exec) -> Option<u64> {
    match exec.setup.config() {
        Ok(config) => {
            let poll_ms = config.cluster.poll_interval_ms;
            exec.configure_units(config);
            Some(poll_ms)
        }
        Err(e) => {
            tracing::warn!("{e}; the settings are not changed");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    mod cpus;
    mod damaged;
    mod fencing;
    mod growth;
    mod late_usage;
    mod limits;
    mod over_parts;
    mod recovery;
    mod restored;
    mod unit_check;
    mod units;
    mod warning;

    use super::*;
    use crate::model::first_attempt as first;
    use crate::model::{AttemptId, Share, Spec};
    use crate::record::order::Order;
    use crate::record::{frame, header, leader};

    #[test]
    fn poll_interval_sets_the_pause_where_no_events_come() {
        assert_eq!((idle_ms(false, 1_000), idle_ms(false, 200)), (1_500, 300));
        assert_eq!(idle_ms(true, 200), IDLE_WATCHED_MS);
    }

    /// A spawner that dies when it is sent the first task.
    struct DyingSpawner {
        _says: crossbeam::channel::Sender<spawn::SpawnerEvent>,
    }

    impl spawn::Wire for DyingSpawner {
        fn pid(&self) -> i32 {
            0
        }
        fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
            match bytes.windows(4).any(|w| w == b"/tmp") {
                true => Err(std::io::ErrorKind::BrokenPipe.into()),
                false => Ok(()),
            }
        }
        fn close(&mut self) {}
        fn has_ended(&mut self) -> bool {
            true
        }
        fn kill(&mut self) {}
    }

    /// An executor of host h1 below `dir` whose spawners die with the first task.
    fn deaf_executor(dir: &std::path::Path) -> Exec {
        let start_replacement =
            |_: &Local, _: u64, says: crossbeam::channel::Sender<spawn::SpawnerEvent>| {
                let (pid, cgroups, unheld) = (0, String::new(), Default::default());
                let ready = crate::task::spec::FromSpawner::Ready {
                    pid,
                    cgroups,
                    unheld,
                };
                says.send(spawn::SpawnerEvent::Message(ready)).unwrap();
                Ok(Box::new(DyingSpawner { _says: says }) as Box<dyn spawn::Wire>)
            };
        executor_with(dir, std::sync::Arc::new(start_replacement))
    }

    /// An executor of host h1 below `dir` with these spawners.
    fn executor_with(dir: &std::path::Path, spawners: spawn::StartReplacement) -> Exec {
        let layout = crate::spool::Layout::new(dir.join("share"));
        for dir in [layout.host("h1"), layout.leader_dir()] {
            fs::mkdir_p(&dir, 0o755).unwrap();
        }
        let local = Local::at(&dir.join("local"));
        fs::mkdir_p(local.dir(), 0o755).unwrap();
        let site = crate::spool::Site {
            conf: dir.join("etc/cb.conf"),
            share: layout.root().to_path_buf(),
            host: "h1".into(),
            local: None,
            unsafe_mount: false,
            servers: None,
            esubs: None,
        };
        let cluster = crate::record::leader::ClusterDoc {
            cluster: "c".into(),
            name: "demo".into(),
            format: crate::record::FORMAT,
            service_uid: users::effective_uid(),
            service_gid: users::current_user().gid,
        };
        let options = Options {
            replacement: Some(spawners),
            ..Options::default()
        };
        let share_is_local = true;
        let setup = HostSetup {
            site,
            layout,
            cluster,
            local,
            share_is_local,
        };
        adopt(setup, false, &options).unwrap()
    }

    /// A ledger of an earlier executor below `dir` that gave job 1 to the spawner of log `l`.
    fn given(dir: &std::path::Path, l: u64) -> Local {
        let local = Local::at(&dir.join("local"));
        fs::mkdir_p(local.dir(), 0o755).unwrap();
        let mut out = Vec::new();
        let head = header::Header::new(header::FileKind::Local, "c", 0, 0);
        frame::write(&mut out, 0, &head).unwrap();
        let (a, b) = (first(1), crate::sys::proc::boot_id().to_owned());
        let (e, p, r, m) = (1, 1, false, 0);
        let given = crate::task::log::AttemptRec::Given {
            a,
            e,
            p,
            l,
            r,
            b,
            m,
            f: 0,
            c: None,
            u: Vec::new(),
        };
        frame::write(&mut out, 1, &given).unwrap();
        fs::publish(&local.attempts(), &out).unwrap();
        local
    }

    #[test]
    fn a_ledger_may_name_any_log() {
        let dir = tempfile::tempdir().unwrap();
        given(dir.path(), u64::MAX);
        let exec = deaf_executor(dir.path());
        assert!(exec.spawners.is_ready() && exec.table.get(first(1)).is_some());
    }

    #[test]
    fn what_may_stand_on_a_log_that_cannot_be_read_is_not_taken_for_never_started() {
        let dir = tempfile::tempdir().unwrap();
        let (local, a) = (given(dir.path(), 1), first(1));
        // A directory can be opened but not read.
        fs::mkdir(&local.tasks(1), 0o755).unwrap();
        let mut exec = deaf_executor(dir.path());
        let is_given = |e: &Exec| e.table.get(a).unwrap().status == table::Status::Sent(1);
        assert!(is_given(&exec) && exec.spawners.unrecovered);
        let pid = i32::try_from(std::process::id()).unwrap();
        let died = crate::task::spec::FromSpawner::Died { a, pid };
        exec.handle_spawner_event(Some(spawn::SpawnerEvent::Message(died)));
        exec.recover(2);
        assert!(is_given(&exec) && exec.spawners.died == [(a, pid)]);
        exec.spawners.died.clear();
        // The log can be read again: the task runs.
        fs::remove_dir(&local.tasks(1)).unwrap();
        let start = crate::task::log::TaskRec::Start {
            a,
            pid,
            born: crate::sys::proc::own_birth_ms(),
            boot: crate::sys::proc::boot_id().to_owned(),
            group: String::new(),
            t: 1,
            cpus: Default::default(),
        };
        let mut log = crate::sys::append::SharedAppender::open(&local.tasks(1)).unwrap();
        log.append(&crate::task::log::encode_task(&start, 0).unwrap())
            .unwrap();
        exec.recover(2);
        assert!(!exec.spawners.unrecovered);
        let running = matches!(exec.table.get(a).unwrap().status, table::Status::Running(_));
        assert!(running);
    }

    fn start(id: u32) -> Order {
        let hosts = [Share("h1".into(), 1)];
        let order = serde_json::json!({
            "k": "start", "j": first(id).j, "at": 1, "s": id, "c": "true", "hosts": hosts,
            "limits": {}, "grace_ms": 0, "t": 0
        });
        serde_json::from_value(order).unwrap()
    }

    fn spec(id: u32) -> Order {
        let me = users::current_user();
        let (user, cwd, project) = (me.name.clone(), "/tmp".into(), format!("p{id}"));
        let spec = Box::new(Spec {
            uid: me.uid,
            user,
            cwd,
            project,
            ..Spec::default()
        });
        Order::Spec { id, spec }
    }

    /// Writes a part of the orders of epoch 1, beginning with this executor's ledger.
    fn publish(exec: &Exec, part: u64, orders: &[Order]) {
        publish_in(1, exec, part, orders);
    }

    /// As [`publish`], in another epoch.
    fn publish_in(epoch: u64, exec: &Exec, part: u64, orders: &[Order]) {
        let layout = &exec.setup.layout;
        let mut out = Vec::new();
        let head = header::Header::new(header::FileKind::Orders, "c", epoch, part);
        frame::write(&mut out, 0, &head).unwrap();
        let id = exec.ledger.identity.id.clone();
        frame::write(&mut out, 1, &Order::Ledger { id }).unwrap();
        for (seq, order) in (2..).zip(orders) {
            frame::write(&mut out, seq, order).unwrap();
        }
        fs::publish(&layout.orders("h1", epoch, part), &out).unwrap();
        let doc = leader::EpochDoc {
            epoch,
            ..Default::default()
        };
        fs::publish(&layout.epoch(), &leader::encode_fixed(&doc).unwrap()).unwrap();
    }

    #[test]
    fn what_is_started_and_cancelled_in_the_same_orders_never_starts() {
        let dir = tempfile::tempdir().unwrap();
        let mut exec = deaf_executor(dir.path());
        let cancel = |id| Order::Cancel { a: first(id) };
        publish(&exec, 1, &[]);
        exec.turn(true);
        // The next part exists already: its orders belong to this batch.
        let next = Order::Next { part: 2 };
        publish(&exec, 2, &[cancel(2)]);
        let orders = [spec(1), spec(2), start(1), start(2), cancel(1), next];
        publish(&exec, 1, &orders);
        exec.turn(true);
        // The spawner would have died with either task.
        assert!(exec.spawners.is_ready());
        for id in [1, 2] {
            let entry = exec.table.get(first(id)).expect("its order was read");
            let never = matches!(entry.status, table::Status::NeverStarts(_));
            assert!(never, "job {id}: {:?}", entry.status);
        }
    }

    #[test]
    fn nothing_is_started_before_the_host_spoke_in_this_boot() {
        let dir = tempfile::tempdir().unwrap();
        let mut exec = deaf_executor(dir.path());
        publish(&exec, 1, &[spec(1), start(1)]);
        let local = exec.setup.local.clone();
        crate::host::iso_limit::force(&local, 60_000);
        let beat = |text: String| super::super::ls::write_beat(&local.ls_beat(), &text);
        let now = clock::boot_ms();
        beat(format!("{now} of-another-boot"));
        exec.turn(true);
        assert!(exec.share.error.contains("since this host was started"));
        assert!(exec.spawners.is_ready() && exec.table.get(first(1)).is_some());
        beat(format!("{now} {}", crate::sys::proc::boot_id()));
        exec.turn(true);
        assert!(!exec.spawners.is_ready(), "it dies of the first task");
    }

    #[test]
    fn a_job_whose_order_comes_when_the_spawner_just_died_is_not_failed() {
        let dir = tempfile::tempdir().unwrap();
        let mut exec = deaf_executor(dir.path());
        publish(&exec, 1, &[]);
        exec.turn(true);
        publish(&exec, 2, &[spec(2), start(2)]);
        let next = Order::Next { part: 2 };
        publish(&exec, 1, &[spec(1), start(1), next]);
        // The spawner dies with the first task; another one is started in the next turn.
        exec.turn(true);
        exec.turn(true);
        for id in [1, 2] {
            let entry = exec.table.get(first(id)).expect("its order was read");
            let failed = matches!(entry.status, table::Status::Ended(_));
            assert!(!failed, "job {id}: {:?}", entry.status);
        }
    }

    #[test]
    fn an_order_goes_to_the_shepherd_and_not_to_a_later_process_of_its_id() {
        use crate::task::spec::TaskAct;
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let began = crate::sys::proc::info(pid).unwrap().start;
        let mut shepherd = table::Shepherd {
            pid,
            started_ms: began * 1000 / crate::sys::proc::ticks_per_second() - 60_000,
            boot: crate::sys::proc::boot_id().to_owned(),
            group: String::new(),
            t: 1,
            log: 1,
        };
        let kill = |s: &table::Shepherd| {
            exec::deliver(s, TaskAct::Kill, crate::model::TermReason::None, 0)
        };
        kill(&shepherd);
        clock::sleep_ms(50);
        assert!(child.try_wait().unwrap().is_none(), "it is another process");
        shepherd.started_ms += 60_000;
        kill(&shepherd);
        // The signal of an order ends a process that does not expect it.
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_kill_does_not_wait_for_a_full_disk() {
        let dir = tempfile::tempdir().unwrap();
        let mut exec = deaf_executor(dir.path());
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let began = crate::sys::proc::info(pid).unwrap().start;
        let a = first(1);
        let shepherd = table::Shepherd {
            pid,
            started_ms: began * 1000 / crate::sys::proc::ticks_per_second(),
            boot: crate::sys::proc::boot_id().to_owned(),
            group: String::new(),
            t: 1,
            log: 1,
        };
        let running = table::Status::Running(shepherd);
        exec.table
            .insert(a, table::Entry::new(running, (1, 1), false));
        exec.ledger.on_full_disk();
        let (act, reason) = (
            crate::record::order::Act::Kill,
            crate::model::TermReason::None,
        );
        let (grace_ms, n) = (0, 1);
        let kill = Order::Signal {
            a,
            act,
            reason,
            grace_ms,
            n,
            mark: 0,
        };
        publish(&exec, 1, &[spec(2), start(2), kill]);
        exec.turn(true);
        assert!(
            exec.share.error.contains("local directory"),
            "{}",
            exec.share.error
        );
        assert!(exec.table.get(first(2)).is_none() && exec.spawners.deferred.is_empty());
        let full = exec.ledger.error.as_deref();
        let beat = exec.share.beat(2, "a note", full);
        assert!(
            beat.contains(" !starts no tasks: ") && beat.ends_with("; a note"),
            "{beat}"
        );
        assert_eq!(exec.table.get(a).unwrap().signals, 1);
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn groups_that_hold_no_limit_are_told_and_do_for_no_host_that_requires_them() {
        let note = |cgroups: &str, memory, procs| {
            spawners::note(
                cgroups.to_owned(),
                crate::task::spec::UnenforcedLimits {
                    memory,
                    procs,
                    devices: false,
                },
            )
        };
        assert_eq!(note("cgroup v1 (memory, pids)", false, false), "");
        assert!(note("cgroup v1 (pids)", true, false).contains("cannot limit memory:"));
        assert_eq!(note("no cgroups: x", true, true), "no cgroups: x");
    }

    #[test]
    fn looks_slow_down_while_nothing_happens_and_follow_work_at_once() {
        let mut p = Polling::new(1000);
        p.expect(0);
        let (quiet, did_work) = (TurnResult::default(), true);
        let after = |p: &mut Polling, did: TurnResult, events: bool| {
            adjust_pace(p, did, 0, (false, events));
            p.due_ms()
        };
        let paces: Vec<u64> = (0..50).map(|_| after(&mut p, quiet, false)).collect();
        assert!(paces.is_sorted() && paces[0] < 20);
        assert_eq!(paces[49], 1000);
        let busy = TurnResult { did_work, ..quiet };
        assert!(after(&mut p, busy, false) < 20);
        let more = true;
        assert_eq!(after(&mut p, TurnResult { more, ..busy }, false), 0);
        assert_eq!(after(&mut p, quiet, true), 1000, "events come first");
    }
}
