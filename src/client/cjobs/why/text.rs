//! The sentences of `cjobs --why` about a waiting job. Pure.

use super::pending::{HelpEffect, HelpfulChange, JobsAhead, WaitingJob};
use crate::model::{Orphans, PendReason, Spec};
use crate::sched::{Examination, ExcludedHosts, NearestMiss, Stage, UnmetNeed};
use crate::text::count::count;
use std::fmt::Write as _;

/// What excludes hosts at a stage, in words.
pub(super) fn stage(excluded: &ExcludedHosts, spec: &Spec, hosts: &Examination) -> String {
    let resource = excluded.resource.as_str();
    let need = || need_of(hosts, resource);
    match excluded.stage {
        Stage::NotInQueue => format!("not used by queue {}", spec.queue),
        Stage::NotAsked => format!("not among the requested hosts (-m {})", spec.hosts),
        Stage::NoServer => "runs no jobs (server: no)".to_owned(),
        Stage::Closed => "closed by an administrator".to_owned(),
        Stage::Locked => "locked by an administrator".to_owned(),
        Stage::Unavailable => "unavailable".to_owned(),
        Stage::OtherType => "not of the submission host's type".to_owned(),
        Stage::Select => "select[] not satisfied".to_owned(),
        Stage::TooSmall if resource == "slots" => {
            "too small even when empty: not enough slots".to_owned()
        }
        Stage::TooSmall => format!("too small even when empty: {resource}{}", need()),
        Stage::Window => "dispatch window closed".to_owned(),
        Stage::Load => "load threshold exceeded".to_owned(),
        Stage::Exclusive => "exclusive use conflicts".to_owned(),
        Stage::Slots => "not enough free slots".to_owned(),
        Stage::Amount => format!("not enough {resource} left{}", need()),
        Stage::UserLimit => "user's slot limit on the host reached".to_owned(),
        Stage::QueueLimit => "queue's slot limit on the host reached".to_owned(),
        Stage::TooSlow => "too slow to finish in time".to_owned(),
        Stage::Recent => "another job started there within job_accept_interval".to_owned(),
        Stage::Reserved => "kept for a job with a reservation".to_owned(),
        Stage::Together => "fits by itself: the job waits for more, or for its turn".to_owned(),
    }
}

/// ` (needs 40G)`, if the amount is known.
fn need_of(hosts: &Examination, resource: &str) -> String {
    let unmet = hosts.nearest.iter().flat_map(|nearest| &nearest.unmet);
    let mut same = unmet.filter(|unmet_need| unmet_need.what == resource);
    same.next().map_or(String::new(), |unmet_need| {
        format!(" (needs {})", unmet_need.need)
    })
}

/// Describes one lack of a host.
pub(super) fn unmet_need_text(unmet_need: &UnmetNeed) -> String {
    let UnmetNeed {
        stage,
        what,
        need,
        available,
        ..
    } = unmet_need;
    let what = match (what.as_str(), need.as_str()) {
        ("slots", "1") => "slot",
        (what, _) => what,
    };
    match stage {
        Stage::Select if available.is_empty() => format!("select[{need}] does not hold"),
        Stage::Select => format!("select[{need}] does not hold: it has {available}"),
        Stage::TooSmall => format!("needs {need} {what}, it has {available} in all"),
        Stage::Slots => format!("needs {need} {what}, {available} free"),
        Stage::Amount => format!("needs {need} {what}, {available} left"),
        other => obstacle(*other).to_owned(),
    }
}

/// The sentence for an excluded host if no amount explains it.
fn obstacle(stage: Stage) -> &'static str {
    match stage {
        Stage::Closed => "it is closed by an administrator",
        Stage::Locked => "it is locked by an administrator",
        Stage::Unavailable => "it is unavailable",
        Stage::OtherType => "it is not of the submission host's type",
        Stage::Window => "its dispatch window is closed",
        Stage::Load => "its load exceeds a threshold",
        Stage::Exclusive => "exclusive use conflicts",
        Stage::UserLimit => "the user's slot limit there is reached",
        Stage::QueueLimit => "the queue's slot limit there is reached",
        Stage::TooSlow => "it is too slow to finish in time",
        Stage::Recent => "another job has just started there",
        Stage::Reserved => "free resources are kept for a job with a reservation",
        _ => "it fits, but the job also needs others, which are not free at the same time",
    }
}

pub(super) fn nearest_miss_text(miss: &NearestMiss) -> String {
    let unmet: Vec<String> = miss.unmet.iter().map(unmet_need_text).collect();
    format!("host {}: {}", miss.host, unmet.join("; "))
}

/// A sentence about what the job waits for.
pub(super) fn verdict(waiting: &WaitingJob) -> String {
    let Some(reason) = &waiting.reason else {
        return "no pending reason: it starts in one of the next passes of the scheduler"
            .to_owned();
    };
    let hosts = waiting.hosts.as_ref();
    let miss = hosts.and_then(|hosts| hosts.nearest.as_ref());
    match (reason, miss, hosts) {
        (PendReason::Hosts(_), Some(miss), Some(hosts)) => {
            let first = miss.unmet.first().map(unmet_need_text).unwrap_or_default();
            let all = count(u64::from(hosts.hosts), "host");
            format!("none of {all} fits now; nearest is {}: {first}", miss.host)
        }
        _ => reason.to_string(),
    }
}

/// The jobs that come first; empty: none.
pub(super) fn jobs_ahead_text(ahead: &JobsAhead) -> String {
    let mut out = String::new();
    if ahead.same > 0 {
        let jobs = count(ahead.same, "job");
        match ahead.by_order {
            true => write!(out, "{jobs} before it in its queue"),
            false => write!(
                out,
                "{jobs} more in its queue, which starts jobs by shares or in turn"
            ),
        }
        .expect("a string takes every write");
    }
    if ahead.higher > 0 {
        let sep = if out.is_empty() { "" } else { ", " };
        let jobs = count(ahead.higher, "job");
        write!(out, "{sep}{jobs} in queues of higher priority").expect("a string takes it");
    }
    out
}

/// What happens to a job whose dependency can never be met.
pub(super) fn orphans(policy: Orphans) -> &'static str {
    match policy {
        Orphans::Hold => "it waits until it is changed or killed",
        Orphans::Kill => "it ends",
        Orphans::Run => "it runs as if the dependency were met",
    }
}

/// The effect of a change.
pub(super) fn effect(help: &HelpfulChange) -> String {
    let about = &help.candidate.description;
    match &help.effect {
        HelpEffect::Starts(hosts) => {
            let shown = hosts.iter().take(3).cloned().collect::<Vec<_>>().join(" ");
            let more = match hosts.len().saturating_sub(3) {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            format!("{about}: starts now on {shown}{more}")
        }
        HelpEffect::Possible(None) => format!("{about}: it can run then"),
        HelpEffect::Possible(Some(why)) => format!("{about}: it can run then, and waits: {why}"),
    }
}
