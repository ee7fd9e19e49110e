//! A share that is put back from a copy of an earlier moment, of the epoch that goes on: when it is
//! copied, when the copy takes its place, the administrator who confirms that, and what may be lost
//! with it.
//!
//! The promises that are checked: what hosts had been given and the copy does not know raises the
//! alarm; from the alarm to the administrator's word no request is answered and nothing new starts;
//! afterwards no id that hosts know is given again, and what runs and the journal does not know is
//! killed.

use super::clients::Person;
use super::cluster::{Happening, MS, Role, Scene};
use super::disk::Disk;
use super::history::{History, RunKey};
use super::world::{Core, Inner};
use crate::client::ask::ask;
use crate::model::JobKey;
use crate::record::request::{Selector, SignalHow, Verb};
use crate::state::State;
use std::collections::{BTreeMap, BTreeSet};

/// The copy is made so long after the begin, and takes the place of the share so long after that,
/// ms.
const COPY_MS: (u64, u64) = (4_000, 30_000);
const BACK_MS: (u64, u64) = (2_000, 40_000);
/// No leader runs for so long afterwards, ms: hosts beat first.
const PAUSE_MS: (u64, u64) = (12_000, 25_000);
/// What the journal does not know is killed within this time (µs) of the confirmation.
const KILL_US: u64 = 180_000_000;
/// What runs then and the copy does not know runs for so long unless it is killed (µs).
const LOST_US: u64 = 600_000_000;
/// How long a share that went back may stay without an alarm before that counts as none (µs).
const ALARM_US: u64 = 120_000_000;
/// Longest wait of the administrator for an answer, s.
const PATIENCE_S: u64 = 60;

/// A copy of the share, and what was true when it was made.
pub(super) struct Kept {
    disk: Disk,
    history: History,
}

/// What is known of a share that went back.
#[derive(Clone, Default)]
pub(super) struct Restore {
    /// When the copy took the place of the share (µs).
    pub back_at: Option<u64>,
    /// Runs that leaders had made by then, and those of them that the copy knows.
    before: BTreeSet<RunKey>,
    kept: BTreeSet<RunKey>,
    /// Jobs that people had been told since the copy was made, until a leader says what it knows.
    doubt: BTreeMap<String, u32>,
    /// Names of jobs that ran and that the copy does not know, by id.
    lost_names: BTreeMap<u32, String>,
    /// Names of all jobs that the copy knows, by id.
    known_names: BTreeMap<u32, String>,
    /// Hosts that know of a run which the copy does not know.
    pub remember: BTreeSet<usize>,
    /// A leader leads on the copy.
    pub led: bool,
    pub alarm_at: Option<u64>,
    pub confirmed_at: Option<u64>,
    /// The epochs of an earlier word that a share was restored.
    above: Option<u64>,
}

impl Restore {
    /// The run is one that leaders made after the copy.
    pub(super) fn is_lost(&self, run: &RunKey) -> bool {
        self.back_at.is_some() && self.before.contains(run) && !self.kept.contains(run)
    }

    /// Nothing may be started or answered: the alarm was given and nobody has confirmed it.
    fn is_alarm(&self) -> bool {
        self.alarm_at.is_some() && self.confirmed_at.is_none()
    }

    /// Something starts; what is wrong with that.
    pub(super) fn starts(&self, run: &RunKey, host: &str) -> Option<String> {
        let (a, _) = run;
        let new = self.back_at.is_some() && !self.before.contains(run);
        (new && self.is_alarm()).then(|| {
            let since = "although the share went back and nobody has confirmed it";
            format!("attempt {a} starts on {host}, {since}")
        })
    }

    /// Somebody is told a job; what is wrong with that.
    pub(super) fn tells(&mut self, name: &str, id: u32) -> Option<String> {
        if self.back_at.is_some() && !self.led {
            self.doubt.insert(name.to_owned(), id);
        }
        // The answer to what was accepted before the copy is given again.
        let known = self.known_names.get(&id).is_some_and(|known| known == name);
        (self.is_alarm() && !known).then(|| {
            format!(
                "{name} was told job {id}, although the share went back and nobody has confirmed it"
            )
        })
    }

    /// Nobody can say yet whether the job of that name is known.
    pub(super) fn is_doubtful(&self, name: &str) -> bool {
        self.doubt.contains_key(name)
    }

    /// A leader knows a job; what is wrong with that.
    pub(super) fn names(&self, id: u32, name: &str) -> Option<String> {
        let lost = self.lost_names.get(&id).filter(|lost| *lost != name)?;
        Some(format!("job {id} is {name}, hosts know it as {lost}"))
    }
}

impl History {
    /// The copy takes the place of the share: what happened since counts as lost, until a leader
    /// says that it knows it.
    fn went_back(&mut self, core: &mut Core, then: History) {
        let restore = Restore {
            back_at: Some(core.now),
            before: self.runs.keys().copied().collect(),
            kept: then.runs.keys().copied().collect(),
            doubt: self.acked_since(&then),
            above: self.restore.above,
            ..Restore::default()
        };
        self.restore = restore;
        for (run, started) in &self.starts {
            if self.restore.is_lost(run) && !started.forgotten {
                self.restore.remember.insert(started.machine);
                let name = self.runs.get(run).cloned().unwrap_or_default();
                self.restore.lost_names.insert(run.0.j.id, name);
            }
        }
        // An id that the copy knows by that name was given before.
        let known: BTreeMap<u32, &String> =
            then.runs.iter().map(|(run, n)| (run.0.j.id, n)).collect();
        let lost = &mut self.restore.lost_names;
        lost.retain(|id, name| known.get(id).is_none_or(|n| *n != name));
        self.forget_since(then);
    }

    /// A leader has recovered what there is.
    pub(super) fn recovered_copy(&mut self, state: &State) {
        if self.restore.back_at.is_none() || std::mem::replace(&mut self.restore.led, true) {
            return;
        }
        let named = |job: &crate::state::Job| Some((job.id, job.name.as_deref()?.to_owned()));
        self.restore.known_names = state.jobs().filter_map(named).collect();
        for (name, id) in std::mem::take(&mut self.restore.doubt) {
            let known = state.job(id).and_then(|job| job.name.as_deref());
            if known == Some(name.as_str()) {
                self.acked.insert(name, id);
            }
        }
    }

    /// What a leader says of the share.
    pub(super) fn hear_of_restore(&mut self, core: &mut Core, state: &State) {
        let above = state.restored().map(|(above, _)| above);
        if self.restore.back_at.is_none() {
            self.restore.above = above;
            return;
        }
        if state.back().is_some() && self.restore.alarm_at.is_none() {
            core.say("check", || "the share went back, says a leader".into());
            self.restore.alarm_at = Some(core.now);
        }
        if above > self.restore.above && self.restore.confirmed_at.is_none() {
            core.say("check", || "an administrator has confirmed it".into());
            self.restore.confirmed_at = Some(core.now);
        }
    }
}

impl Scene {
    /// Lets the share be copied and the copy be put back some time.
    pub(super) fn plan_restore(&mut self, core: &mut Core) {
        if self.plan.restore {
            let at = core.now + core.rng.between(COPY_MS.0, COPY_MS.1) * MS;
            self.plan_at(core, at, Happening::Copy);
        }
    }

    /// Copies the share as the server has it.
    pub(super) fn copy_share(&mut self, core: &mut Core) {
        core.say("fault", || "the share is copied".into());
        self.kept = Some(Box::new(Kept {
            disk: self.share.clone(),
            history: self.history.clone(),
        }));
        let at = core.now + core.rng.between(BACK_MS.0, BACK_MS.1) * MS;
        self.plan_at(core, at, Happening::PutBack);
    }

    /// Stops all leaders and puts the copy in the place of the share; hosts and people live on.
    pub(super) fn put_back(&mut self, core: &mut Core) {
        let Some(kept) = self.kept.take() else {
            return;
        };
        *self.faults.entry("restore").or_default() += 1;
        core.say("fault", || "the copy takes the place of the share".into());
        let leads = |s: &&super::cluster::Slot| s.role == Role::Leader;
        let procs: Vec<_> = self
            .slots
            .iter()
            .filter(leads)
            .filter_map(|s| s.proc)
            .collect();
        procs.into_iter().for_each(|proc| core.kill(proc));
        self.leaders_from = core.now + core.rng.between(PAUSE_MS.0, PAUSE_MS.1) * MS;
        let detached = core.rng.permille(500);
        self.share.put_back(kept.disk, detached);
        for m in &mut self.machines {
            m.lists.clear();
            m.missing.clear();
        }
        self.history.went_back(core, kept.history);
        // Long enough that they end by nothing but the leader's order.
        let lost = |run: &RunKey| self.history.restore.is_lost(run);
        self.tasks.prolong(core, LOST_US, lost);
    }

    /// Whether a run that the copy does not know still runs somewhere.
    fn lost_runs(&self) -> Vec<RunKey> {
        let alive = self.tasks.table.values().filter(|t| t.alive);
        let runs = alive.map(|t| (t.a, t.mark));
        runs.filter(|run| self.history.restore.is_lost(run))
            .collect()
    }

    /// What must have happened by now after a share was restored; called in the calm.
    pub(super) fn judge_restore(&mut self, core: &mut Core) {
        let restore = &self.history.restore;
        let Some(back_at) = restore.back_at else {
            return;
        };
        let since = |at: u64| {
            core.now
                .saturating_sub(at.max(self.calm_at.unwrap_or(core.now)))
        };
        let mut wrong = Vec::new();
        if restore.alarm_at.is_none() && !restore.remember.is_empty() && since(back_at) > ALARM_US {
            wrong.push("the share went back, hosts know it, and no leader has said so".to_owned());
        }
        if let Some(at) = restore.confirmed_at.filter(|at| since(*at) > KILL_US) {
            let runs = self.lost_runs();
            let s = since(at) / 1_000_000;
            wrong.extend(runs.iter().map(|(a, _)| {
                format!(
                    "attempt {a}, which the restored share does not know, runs {s} s after the word"
                )
            }));
        }
        self.history.all_broken(core, wrong);
    }

    /// Nothing more is to come of a restored share.
    pub(super) fn is_restore_over(&self, now: u64) -> bool {
        if !self.plan.restore {
            return true;
        }
        let restore = &self.history.restore;
        let quiet = |at: u64| now > at + ALARM_US && restore.alarm_at.is_none();
        restore.confirmed_at.is_some() || restore.back_at.is_some_and(quiet)
    }
}

/// The life of the administrator who confirms that the share was restored, and lets go what is held
/// when nothing unknown runs any more.
pub(super) fn administer(who: &Person<'_>) -> String {
    loop {
        who.think(3000);
        let (alarm, over, waiting, done) = {
            let inner = who.port.world.lock();
            let Inner { core, scene } = &*inner;
            let served = |s: &super::cluster::Slot| s.role != Role::Person || s.done;
            let people = scene.slots.iter().all(served);
            let over = scene.is_restore_over(core.now);
            let settled = over && scene.lost_runs().is_empty();
            let waiting = match settled {
                true => scene.history.open_jobs(),
                false => Vec::new(),
            };
            let ended = scene.history.all_ended(&scene.tasks);
            (
                scene.history.restore.is_alarm(),
                over,
                waiting,
                people && ended,
            )
        };
        if alarm {
            who.think(15_000);
            let answer = ask(who.site, "cadmin", &[Verb::Restored], PATIENCE_S);
            let code = answer
                .ok()
                .and_then(|ack| ack.results.first().map(|r| r.code));
            let mut inner = who.port.world.lock();
            inner
                .core
                .say("people", || format!("cadmin restored: {code:?}"));
        } else if over && done {
            break;
        } else if over {
            who.let_go(&waiting);
            who.think(15_000);
        }
    }
    who.port.world.lock().scene.slots[who.slot].done = true;
    "has put everything right".into()
}

impl Person<'_> {
    /// Has held jobs run, also those that ran between the copy and its return.
    fn let_go(&self, ids: &[u32]) {
        for id in ids {
            let mut inner = self.port.world.lock();
            inner.scene.history.may_run_again(*id);
            drop(inner);
            let sel = Selector {
                ids: vec![JobKey::job(*id).to_string()],
                ..Selector::default()
            };
            let how = SignalHow::Resume;
            let _ = ask(
                self.site,
                "cresume",
                &[Verb::Signal { sel, how }],
                PATIENCE_S,
            );
        }
    }
}
