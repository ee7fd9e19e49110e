//! `cbexe`, the executor of a host: reads orders, has tasks started, reports what became of them.
//!
//! One thread owns the state (`exec`); others only listen: to the bell that shepherds ring, to the
//! spawner, to signals, and the watchdog of `fence`. Restarting it at any moment harms no task.

mod exec;
mod fence;
mod ledger;
mod orders;
mod parts;
mod reports;
mod resize;
mod sample;
mod settle;
pub mod spawn;
mod starts;
mod table;
mod tasklogs;
mod tell;

use super::local::Local;
use super::setup::{self, Place};
use super::silence;
use crate::config::CgroupMode;
use crate::sys::ipc::Bell;
use crate::sys::watch::Watcher;
use crate::sys::{child, clock, fs, signals, thread, users};
use crate::task::build;
use crate::task::spec::Become;
use crossbeam::channel::{Receiver, bounded, never, select};
pub use exec::{Did, Exec};
use std::time::Duration;

/// `poll_interval` where the configuration cannot be read, ms.
const POLL_MS: u64 = 1_000;
/// Pause between two looks at the share when nothing happens but changes raise events, ms.
const IDLE_WATCHED_MS: u64 = 5_000;
/// Shortest pause between two looks, ms.
const BUSY_MS: u64 = 10;
/// Turns closer together than this wait for each other, so that records go in groups, ms.
const GROUP_MS: u64 = 2;
/// Pause between two looks at the configuration, ms.
const CONFIG_MS: u64 = 60_000;

/// Options of the command line.
#[derive(Clone, Default)]
pub struct Options {
    /// Do without control groups, whatever the configuration says.
    pub no_cgroups: bool,
    /// What stands for spawners: in simulations.
    pub stand: Option<spawn::Stand>,
    /// Takes late orders of lower epochs: a rule that simulations take away.
    pub follow_lower: bool,
}

/// Runs until it is told to end; tasks go on.
///
/// # Errors
/// What kept it from starting.
pub fn run(options: &Options) -> Result<(), String> {
    let place = Place::find()?;
    setup::log("info");
    let term = signals::catch_term().map_err(|e| e.to_string())?;
    signals::ignore_hangup();
    signals::ignore_sigpipe();
    serve(place, options, &term)
}

/// Runs at `place` until `term` speaks.
///
/// # Errors
/// What kept it from starting.
pub fn serve(place: Place, options: &Options, term: &Receiver<i32>) -> Result<(), String> {
    let config = place.config();
    if let Err(e) = &config {
        tracing::warn!("{e}; defaults are used");
    }
    let _alone = place.alone(&place.local.exe_lock(), "cbexe")?;
    super::ls::act_as_owner(&place)?;
    if !super::ls::is_alone(&place, term)? {
        return Ok(());
    }
    let mode = config
        .as_ref()
        .map_or(CgroupMode::Auto, |c| c.cluster.cgroup);
    let cgroups = !options.no_cgroups && mode != CgroupMode::Off;
    let mut exec = adopt(place, cgroups, options)?;
    if mode == CgroupMode::Required && !exec.note.is_empty() {
        return Err(format!(
            "{}, but cb.yaml says 'cgroup: required'",
            exec.note
        ));
    }
    if let Ok(config) = &config {
        silence::set_limit(&exec.place.local, config.general.iso_timeout_ms);
    }
    fence::watch(&exec.place.local)?;
    tracing::info!("cbexe of host {} started", exec.place.site.host);
    let poll = config.map_or(POLL_MS, |c| c.cluster.poll_interval_ms);
    take_turns(&mut exec, term, poll)
}

/// Remembers what earlier processes did and takes their tasks up again.
pub fn adopt(place: Place, cgroups: bool, options: &Options) -> Result<Exec, String> {
    let text = |e: crate::sys::Error| e.to_string();
    let remembered = ledger::read(&place.local).map_err(text)?;
    for (at, why) in &remembered.bad {
        let path = place.local.attempts();
        tracing::error!(
            "{} at byte {at}: {why}; this record is lost",
            path.display()
        );
    }
    if options.stand.is_none() {
        // Opened before any shepherd can ring it.
        Bell::open(&place.local.bell()).map_err(text)?;
    }
    let (host, cluster) = (place.site.host.clone(), place.cluster.cluster.clone());
    let root = users::may_switch();
    let service = place.cluster.service_uid;
    let disguised = root && service != 0;
    let about = build::Place {
        host: host.clone(),
        cluster: place.cluster.name.clone(),
        envdir: fs::parent(&place.site.conf).to_string_lossy().into_owned(),
        bindir: fs::parent(&child::sibling("cb"))
            .to_string_lossy()
            .into_owned(),
        uid: users::effective_uid(),
        // What stands for a spawner becomes whoever it is told to.
        may_switch: root || options.stand.is_some(),
        service: disguised.then(|| Become {
            uid: service,
            gid: place.cluster.service_gid,
            groups: vec![place.cluster.service_gid],
        }),
    };
    let epoch = remembered.epoch;
    let fresh = remembered.identity.is_none();
    let identity = remembered.identity.unwrap_or_else(|| ledger::Identity {
        id: clock::nonce(8),
        kept: false,
    });
    let table = &remembered.table;
    let ledger = ledger::Ledger::create(&place.local, &cluster, identity.clone(), table, epoch);
    let ledger = ledger.map_err(text)?;
    super::ls::write_id(&place.local.exe_id(), &identity.id);
    let how = spawn::How {
        program: child::sibling("cbtask"),
        host: host.clone(),
        cgroups,
        privileged: disguised,
        stand: options.stand.clone(),
    };
    let orders = orders_of(&place, identity, epoch, options);
    let mut exec = Exec {
        table: remembered.table,
        parts: Default::default(),
        resized: Default::default(),
        ledger,
        logs: tasklogs::TaskLogs::new(&place.local),
        orders,
        reports: None,
        starter: starts::Starter::new(&place.layout, &place.local, about),
        spawner: None,
        retired: Vec::new(),
        note: String::new(),
        epoch,
        sampled_at: 0,
        beat_at: 0,
        ends: false,
        reports_at: 0,
        said: String::new(),
        foreign_at: 0,
        welcome: false,
        how,
        place,
    };
    // The first look-up of an account loads libraries: not in the way of the first job.
    users::groups_of(&users::me());
    exec.respawn();
    if fresh {
        exec.clear_away();
    }
    exec.rewrite();
    exec.sweep_scratch();
    Ok(exec)
}

fn orders_of(
    place: &Place,
    identity: ledger::Identity,
    epoch: u64,
    options: &Options,
) -> orders::OrderReader {
    let (host, cluster) = (&place.site.host, &place.cluster.cluster);
    let mut reader = orders::OrderReader::new(&place.layout, host, cluster, identity, epoch);
    reader.follow_lower = options.follow_lower;
    reader
}

/// Turns bells into messages.
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

/// How long until the next look at the share: short after work, then longer and longer.
#[derive(Debug)]
struct Pace {
    pause: u64,
    idle: u64,
    due: u64,
}

impl Pace {
    fn new(idle: u64) -> Pace {
        Pace {
            pause: BUSY_MS,
            idle,
            due: 0,
        }
    }

    fn after(&mut self, did: Did, now: u64) {
        self.pause = match (did.more, did.work) {
            (true, _) => 0,
            (false, true) => BUSY_MS,
            (false, false) => (self.pause.max(BUSY_MS) * 3 / 2).min(self.idle),
        };
        self.due = now + self.pause;
    }
}

/// Pause between two looks at the share when nothing happens, ms: with two files per look, half as
/// long again as `poll_interval` stays below two operations a second by default.
fn idle_ms(events: bool, poll_ms: u64) -> u64 {
    if events {
        IDLE_WATCHED_MS
    } else {
        poll_ms.saturating_mul(3) / 2
    }
}

fn take_turns(exec: &mut Exec, term: &Receiver<i32>, poll_ms: u64) -> Result<(), String> {
    // A simulation has no pipes: its turns come by time alone.
    let bell = match exec.how.stand {
        None => listen(&exec.place.local)?,
        Some(_) => never(),
    };
    let own = |p: &std::path::Path| {
        p.file_name()
            .and_then(|n| n.to_str())
            .is_some_and(|n| n.starts_with("orders."))
    };
    let mut watcher = Watcher::filtered(own);
    let dir = exec.place.layout.host(&exec.place.site.host);
    fs::mkdir_p(&dir, 0o755).map_err(|e| e.to_string())?;
    let events = watcher.add(&dir) && exec.place.share_is_local;
    let mut pace = Pace::new(idle_ms(events, poll_ms));
    let (mut config_at, mut last) = (clock::boot_ms(), 0);
    let mut hinted = true;
    loop {
        let now = clock::boot_ms();
        if now < last + GROUP_MS {
            clock::sleep_ms(1);
        }
        let look = hinted || now >= pace.due;
        let did = exec.turn(look);
        last = clock::boot_ms();
        if look {
            // With events a silent share needs no frequent looks.
            pace.after(did, last);
            if events && !did.more && !did.work {
                pace.due = last + pace.idle;
            }
        }
        if last.saturating_sub(config_at) > CONFIG_MS {
            config_at = last;
            if let Some(poll_ms) = reconfigure(exec) {
                pace.idle = idle_ms(events, poll_ms);
            }
        }
        let wait = pace.due.saturating_sub(clock::boot_ms());
        if exec.how.stand.is_some() {
            if thread::recv_timeout(term, wait).is_ok() {
                return Ok(());
            }
            continue;
        }
        let wait = Duration::from_millis(wait);
        let silent = never();
        let heard = exec.spawner.as_ref().map_or(&silent, |s| &s.heard);
        hinted = false;
        select! {
            recv(bell) -> _ => {}
            recv(watcher.hints()) -> _ => hinted = true,
            recv(heard) -> h => exec.heard(h.ok()),
            recv(term) -> _ => {
                tracing::info!("cbexe ends; its tasks go on");
                return Ok(());
            }
            default(wait) => {}
        }
    }
}

/// Puts changed settings into use; the new `poll_interval` in ms.
fn reconfigure(exec: &Exec) -> Option<u64> {
    match exec.place.config() {
        Ok(config) => {
            silence::set_limit(&exec.place.local, config.general.iso_timeout_ms);
            Some(config.cluster.poll_interval_ms)
        }
        Err(e) => {
            tracing::warn!("{e}; the settings in use stay");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poll_interval_sets_the_pause_where_no_events_come() {
        assert_eq!((idle_ms(false, 1_000), idle_ms(false, 200)), (1_500, 300));
        assert_eq!(idle_ms(true, 200), IDLE_WATCHED_MS);
    }

    #[test]
    fn looks_become_rarer_until_something_happens() {
        let mut p = Pace::new(1000);
        let quiet = Did::default();
        for _ in 0..50 {
            p.after(quiet, 0);
        }
        assert_eq!(p.due, 1000);
        p.after(
            Did {
                work: true,
                more: false,
            },
            0,
        );
        assert_eq!(p.due, BUSY_MS);
        p.after(
            Did {
                work: true,
                more: true,
            },
            7,
        );
        assert_eq!(p.due, 7);
    }
}
