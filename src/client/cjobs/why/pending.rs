//! Why a job waits and what would help: examined and tried on a copy of the cluster. Pure.
//!
//! Owns the order of the explanation and which trials count as help. Prints nothing.

use super::candidates::{CANDIDATES_MAX, Candidate, CandidateContext, Remedy, candidates};
use crate::client::cluster_copy::{ClusterCopy, TrialAction, TrialResult};
use crate::client::cmod;
use crate::client::csub::spec::ParseContext;
use crate::config::Policy;
use crate::intake;
use crate::model::{JobKey, Orphans, PendReason, Spec};
use crate::sched::Examination;
use crate::text::size::Unit;
use std::path::Path;

/// Maximum number of changes that are shown for one job.
const HELPS_MAX: usize = 6;

/// What is known of a waiting job.
pub(super) struct WaitingJob {
    /// The reason according to the scheduler of the copy. `None`: the job can start.
    pub reason: Option<PendReason>,
    /// The job can never run without a change.
    pub can_never_run: bool,
    pub hosts: Option<Examination>,
    pub ahead: JobsAhead,
    /// What happens to the job if its dependency can never be met.
    pub orphans: Option<Orphans>,
    pub helpful_changes: Vec<HelpfulChange>,
    /// Number of changes that were tried, which is less than the number of candidates if time ran
    /// out.
    pub tried: usize,
    pub out_of_time: bool,
}

/// Pending jobs that are considered before this one.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct JobsAhead {
    /// In queues of higher priority.
    pub higher: u64,
    /// In its own queue, or one of equal priority.
    pub same: u64,
    /// The queue starts jobs in submission order; else `same` counts all its pending jobs.
    pub by_order: bool,
}

/// A change that helps.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct HelpfulChange {
    pub candidate: Candidate,
    pub effect: HelpEffect,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum HelpEffect {
    /// The job starts at once on these hosts.
    Starts(Vec<String>),
    /// The job still waits, but for something that can end.
    Possible(Option<PendReason>),
}

/// Whether a job with this reason can never run without a change.
pub(super) fn can_never_run(why: &PendReason) -> bool {
    matches!(
        why,
        PendReason::NeverFits { .. }
            | PendReason::SlotsNever { .. }
            | PendReason::QuotaNever { .. }
            | PendReason::DependencyNever { .. }
            | PendReason::SharedResource { never: true, .. }
    )
}

/// Explains a waiting job; changes are tried as long as `go_on` returns true.
pub(super) fn explain(
    copy: &mut ClusterCopy,
    j: JobKey,
    go_on: &mut dyn FnMut() -> bool,
) -> WaitingJob {
    let mut reason = copy.reason(j);
    let hosts = reason.as_ref().and_then(|_| copy.examine(j));
    // What can never be is said first, also of a job that waits for something else at present.
    if let Some(never) = hosts.as_ref().and_then(|hosts| hosts.never.clone()) {
        reason = Some(never);
    }
    let mut out = WaitingJob {
        can_never_run: reason.as_ref().is_some_and(can_never_run),
        ahead: jobs_ahead(copy, j),
        orphans: orphans(copy, j, reason.as_ref()),
        reason,
        hosts,
        helpful_changes: Vec::new(),
        tried: 0,
        out_of_time: false,
    };
    let spec = copy.state.spec_of(j.id).cloned();
    if let (Some(reason), Some(spec)) = (&out.reason, spec) {
        let case = CandidateContext {
            copy,
            j,
            spec: &spec,
            reason,
            hosts: out.hosts.as_ref(),
        };
        let list = candidates(&case);
        debug_assert!(list.len() <= CANDIDATES_MAX);
        try_candidates(copy, (j, &spec), list, &mut out, go_on);
    }
    out
}

fn orphans(copy: &ClusterCopy, j: JobKey, reason: Option<&PendReason>) -> Option<Orphans> {
    let never = matches!(reason, Some(PendReason::DependencyNever { .. }));
    let spec = copy.state.spec_of(j.id).filter(|_| never)?;
    Some(spec.orphans(copy.config.general.orphans))
}

fn try_candidates(
    copy: &mut ClusterCopy,
    (j, spec): (JobKey, &Spec),
    list: Vec<Candidate>,
    out: &mut WaitingJob,
    go_on: &mut dyn FnMut() -> bool,
) {
    let mut possible = Vec::new();
    let mut tried_actions: Vec<TrialAction> = Vec::new();
    for candidate in list {
        if out.helpful_changes.len() >= HELPS_MAX {
            break;
        }
        if !go_on() {
            out.out_of_time = true;
            break;
        }
        let Some(action) = trial_action(copy, (j, spec), &candidate.remedy) else {
            continue;
        };
        if tried_actions.contains(&action) {
            continue;
        }
        let tried = copy.try_changes(j, std::slice::from_ref(&action));
        tried_actions.push(action);
        out.tried += 1;
        match tried {
            TrialResult::Starts(hosts) => out.helpful_changes.push(HelpfulChange {
                candidate,
                effect: HelpEffect::Starts(hosts),
            }),
            TrialResult::StillWaiting(why) => {
                let better = !why.as_ref().is_none_or(can_never_run);
                let is_release = matches!(candidate.remedy, Remedy::Release);
                if better && (out.can_never_run || is_release) {
                    possible.push(HelpfulChange {
                        candidate,
                        effect: HelpEffect::Possible(why),
                    });
                }
            }
        }
    }
    // The trials have cleared the reasons of the job's class.
    copy.run_scheduler();
    let room = HELPS_MAX.saturating_sub(out.helpful_changes.len());
    out.helpful_changes.extend(possible.into_iter().take(room));
}

/// The effect of the command, checked as the leader would. `None`: the command would be refused or
/// would change nothing.
pub(super) fn trial_action(
    copy: &ClusterCopy,
    (j, spec): (JobKey, &Spec),
    remedy: &Remedy,
) -> Option<TrialAction> {
    match remedy {
        Remedy::Modify(words) => {
            let new = modified(copy, j, spec, words)?;
            (new != *spec).then(|| TrialAction::Spec(Box::new(new)))
        }
        Remedy::Release => Some(TrialAction::Release),
        Remedy::ArrayLimit(n) => Some(TrialAction::ArrayLimit(*n)),
        Remedy::OpenHost(host) => Some(TrialAction::OpenHost(host.clone())),
        Remedy::UnlockHost(host) => Some(TrialAction::UnlockHost(host.clone())),
        Remedy::ActivateQueue(queue) => Some(TrialAction::ActivateQueue(queue.clone())),
    }
}

/// The specification after `cmod` with these options.
fn modified(copy: &ClusterCopy, j: JobKey, spec: &Spec, words: &[String]) -> Option<Spec> {
    let parse_context = ParseContext {
        now_ms: copy.now.0,
        cwd: Path::new("/"),
        umask: 0,
        host: &spec.sub_host,
        default_queue: "",
        default_project: "",
        unit: &|| Unit::M,
    };
    let changes = cmod::changes_of_words(words, &parse_context).ok()?;
    let started = copy.state.job(j.id)?.array();
    if started.is_some_and(|array| array.started() > 0) {
        intake::check_started(spec, &changes).ok()?;
    }
    let owner = copy.owner(spec);
    intake::modify(spec, &changes, &owner, &copy.config, &copy.state, copy.now).ok()
}

fn jobs_ahead(copy: &ClusterCopy, j: JobKey) -> JobsAhead {
    let mut out = JobsAhead::default();
    let Some(job) = copy.state.job(j.id) else {
        return out;
    };
    let spec = copy.state.spec(job.spec);
    let queue = |name: &str| copy.config.queues.iter().find(|q| q.name == name);
    let Some(own) = queue(&spec.queue) else {
        return out;
    };
    out.by_order = own.policy == Policy::Fifo;
    let place = |priority: u32, order: i64| (std::cmp::Reverse(priority), order);
    let mine = place(spec.priority, job.order);
    for (_, class) in copy.state.pending().classes() {
        let Some(theirs) = queue(&class.key.queue) else {
            continue;
        };
        let later = class.key.begin.is_some_and(|at| at > copy.now);
        if theirs.priority < own.priority || later {
            continue;
        }
        for (order, other) in class.jobs.iter() {
            let first = place(class.key.priority, order) < mine;
            if theirs.priority > own.priority {
                out.higher += jobs_at(copy, other);
            } else if other.id != j.id && (first || !out.by_order) {
                out.same += jobs_at(copy, other);
            }
        }
    }
    out
}

/// The number of elements that an entry of the pending order represents.
fn jobs_at(copy: &ClusterCopy, j: JobKey) -> u64 {
    let array = copy.state.job(j.id).and_then(|job| job.array());
    match array {
        Some(array) if j.idx == 0 => array.waiting.len(),
        _ => 1,
    }
}
