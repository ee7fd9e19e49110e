//! A verb that selects jobs, while it is carried out: its action on each job, and its progress.
//! Nothing is lost when a slice ends: the selection continues after the last job, and inside an
//! array after the last element.

use crate::intake::{Action, Refusal, Selection, SelectionItem};
use crate::model::JobStat;
use crate::record::request::{Changes, Selector, SignalAction, Verb};
use crate::state::{Body, Job, Work};

/// The action that is applied to each job.
#[derive(Clone)]
pub(super) enum JobAction {
    Signal(SignalAction),
    Requeue {
        hold: bool,
        wants: RequeueStates,
    },
    Migrate {
        hosts: String,
        force: bool,
    },
    Switch {
        queue: String,
        changes: Box<Changes>,
    },
    Modify(Box<Changes>),
    Post {
        index: u32,
        text: String,
    },
}

impl JobAction {
    pub(crate) fn action(&self) -> Action {
        match self {
            JobAction::Signal(how) => signal_action(*how),
            JobAction::Requeue { .. } => Action::Requeue,
            JobAction::Migrate { .. } => Action::Migrate,
            JobAction::Switch { .. } => Action::Switch,
            JobAction::Modify(_) => Action::Modify,
            JobAction::Post { .. } => Action::Post,
        }
    }

    /// Whether a search for the jobs of `sel` takes this one.
    pub(crate) fn takes(&self, job: &Job, sel: &Selector) -> bool {
        if !any_stat(job, |stat| sel.has_stat(stat)) {
            return false;
        }
        match self {
            JobAction::Signal(SignalAction::Resume) => is_stopped(job),
            JobAction::Requeue { wants, .. } => any_stat(job, |s| wants.stat(s)),
            JobAction::Migrate { .. } => any_stat(job, JobStat::is_started),
            JobAction::Post { .. } => true,
            _ => !job.is_finished(),
        }
    }
}

/// See the head of this file.
pub(super) struct JobVerb {
    pub action: JobAction,
    pub sel: Selector,
    pub selection: Option<Selection>,
    /// The job or elements to which it is currently applied.
    pub target: Option<SelectionItem>,
    /// The index in it at which to continue.
    pub next_index: u32,
    pub counts: WorkCounts,
}

impl JobVerb {
    /// The verb, if it selects jobs.
    pub(crate) fn of(verb: &Verb) -> Option<JobVerb> {
        let (doing, sel) = match verb {
            Verb::Signal { sel, how } => (JobAction::Signal(*how), sel),
            Verb::Requeue { sel, hold, states } => {
                let (hold, wants) = (*hold, RequeueStates::new(states));
                (JobAction::Requeue { hold, wants }, sel)
            }
            Verb::Migrate { sel, hosts, force } => {
                let (hosts, force) = (hosts.clone(), *force);
                (JobAction::Migrate { hosts, force }, sel)
            }
            Verb::Switch { sel, queue } => {
                let mut changes = Box::<Changes>::default();
                changes.job.spec.queue.clone_from(queue);
                changes.set.push("q".to_owned());
                let queue = queue.clone();
                (JobAction::Switch { queue, changes }, sel)
            }
            Verb::Modify { sel, changes } => (JobAction::Modify(changes.clone()), sel),
            Verb::Post { sel, index, text } => {
                let (index, text) = (*index, text.clone());
                (JobAction::Post { index, text }, sel)
            }
            _ => return None,
        };
        Some(JobVerb {
            action: doing,
            sel: sel.clone(),
            selection: None,
            target: None,
            next_index: 0,
            counts: WorkCounts::default(),
        })
    }

    /// How far it has advanced: in its selection, and in the current array.
    pub(crate) fn at(&self) -> (u32, u32) {
        let at = self.selection.as_ref().map_or(0, Selection::next_index);
        (at, self.next_index)
    }

    pub(crate) fn is_signal(&self) -> bool {
        matches!(self.action, JobAction::Signal(_))
    }
}

/// States to which a requeue applies.
#[derive(Clone, Copy)]
pub(super) struct RequeueStates {
    run: bool,
    done: bool,
    exit: bool,
}

impl RequeueStates {
    fn new(states: &[String]) -> RequeueStates {
        let has = |s: &str| states.iter().any(|x| x == s);
        RequeueStates {
            run: states.is_empty() || has("run"),
            done: has("done"),
            exit: has("exit"),
        }
    }

    pub(crate) fn stat(self, stat: JobStat) -> bool {
        match stat {
            JobStat::Done => self.done,
            JobStat::Exit => self.exit,
            stat => self.run && stat.is_started(),
        }
    }
}

/// Results for the jobs and elements of one operand so far.
#[derive(Default)]
pub(super) struct WorkCounts {
    /// Number of those that had not ended.
    pub live: u32,
    /// Of these, the number that an administrator stopped and that the requester may not resume.
    pub denied: u32,
    /// Number of those whose state the selector does not name.
    pub in_other_state: u32,
    /// Of the unfinished ones, the number that cannot be saved: without checkpoints, or not
    /// running.
    pub unsaved: u32,
    pub done: u32,
    /// Why the first one that cannot migrate is refused.
    pub refusal: Option<Refusal>,
    /// The host on which an attempt that `ckill -r` removed may still run.
    pub stray_host: Option<String>,
}

fn signal_action(action: SignalAction) -> Action {
    match action {
        SignalAction::Kill => Action::Kill,
        SignalAction::Force => Action::KillForce,
        SignalAction::Stop => Action::Stop,
        SignalAction::Resume => Action::Resume,
        SignalAction::Checkpoint(act) if act.kill => Action::Kill,
        SignalAction::Number(_) | SignalAction::Checkpoint(_) => Action::Signal,
    }
}

/// Whether a part of the job is held or suspended, or ordered to be: hosts report later than the
/// order was answered.
fn is_stopped(job: &Job) -> bool {
    let reached = |s| matches!(s, JobStat::Psusp | JobStat::Ususp | JobStat::Ssusp);
    let ordered = |work: &Work| {
        let run = work.run.as_deref();
        work.stat.is_started() && run.is_some_and(|run| run.user_stop.wanted)
    };
    let by_order = || match &job.body {
        Body::Single(work) => ordered(work),
        Body::Array(array) => array.work.values().any(ordered),
    };
    any_stat(job, reached) || by_order()
}

fn any_stat(job: &Job, wanted: impl Fn(JobStat) -> bool) -> bool {
    match &job.body {
        Body::Single(work) => wanted(work.stat),
        Body::Array(array) => {
            (!array.waiting.is_empty() && wanted(array.head))
                || JobStat::ALL
                    .iter()
                    .any(|s| array.count(*s) > 0 && wanted(*s))
        }
    }
}
