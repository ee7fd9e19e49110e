//! `drmaa_control` and `drmaa_job_ps`: the allowed actions for each state of a job, and the names
//! of the states. The leader decides whether a job may be changed at all.

use super::codes::{Code, Problem, Result};
use super::session::Session;
use corral::api;
use corral::model::{JobKey, JobStat};
use corral::record::ack::Code as Fared;
use corral::record::request::SignalAction;
use corral::text::IndexSet;
use std::collections::BTreeMap;

/// Maximum number of ids in one request.
const IDS_MAX: usize = 5_000;

/// The actions of the standard on a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Suspend,
    Resume,
    Hold,
    Release,
    Terminate,
}

/// Actions by their numbers.
const ACTIONS: [Action; 5] = [
    Action::Suspend,
    Action::Resume,
    Action::Hold,
    Action::Release,
    Action::Terminate,
];

impl Action {
    /// # Errors
    /// There is no action with that number.
    pub(crate) fn of(number: i32) -> Result<Action> {
        let found = usize::try_from(number).ok().and_then(|n| ACTIONS.get(n));
        found
            .copied()
            .ok_or_else(|| Problem::argument(format!("there is no action {number}")))
    }

    /// Whether the action applies to a job in this state.
    fn applies_to(self, stat: JobStat) -> bool {
        match self {
            Action::Suspend => stat == JobStat::Run,
            Action::Resume => stat == JobStat::Ususp,
            Action::Hold => stat == JobStat::Pend,
            Action::Release => stat == JobStat::Psusp,
            Action::Terminate => !stat.is_finished(),
        }
    }

    /// The error if it does not.
    fn refusal(self) -> Code {
        match self {
            Action::Suspend => Code::SuspendInconsistentState,
            Action::Resume => Code::ResumeInconsistentState,
            Action::Hold => Code::HoldInconsistentState,
            Action::Release => Code::ReleaseInconsistentState,
            Action::Terminate => Code::InvalidJob,
        }
    }

    fn signal(self) -> SignalAction {
        match self {
            Action::Suspend | Action::Hold => SignalAction::Stop,
            Action::Resume | Action::Release => SignalAction::Resume,
            Action::Terminate => SignalAction::Kill,
        }
    }
}

/// Applies the action to one job.
///
/// # Errors
/// There is no such job, its state does not allow it, or the leader refuses.
pub(crate) fn control_job(session: &Session, key: JobKey, action: Action) -> Result<()> {
    let stat = session.stat(key, 0)?;
    if !action.applies_to(stat) {
        return Err(unsuitable(&format!("job {key} is {stat}"), action));
    }
    send(session, &[key], action, false)
}

/// Applies the action to every job of the session that has not ended.
///
/// # Errors
/// The leader refuses; or the state of some jobs did not allow it, after the action was applied to
/// the others.
pub(crate) fn all(session: &Session, action: Action) -> Result<()> {
    session.update(0)?;
    let open: Vec<(JobKey, JobStat)> = {
        let jobs = session.jobs();
        let open = jobs.of_session().filter(|(_, job)| job.end.is_none());
        open.map(|(key, job)| (key, job.stat)).collect()
    };
    let suits = |(_, stat): &&(JobKey, JobStat)| action.applies_to(*stat);
    let keys: Vec<JobKey> = open.iter().filter(suits).map(|(key, _)| *key).collect();
    send(session, &keys, action, true)?;
    match open.len() - keys.len() {
        0 => Ok(()),
        n => Err(unsuitable(
            &format!("{n} of {} jobs are in another state", open.len()),
            action,
        )),
    }
}

fn unsuitable(what: &str, action: Action) -> Problem {
    let plain = Problem::plain(action.refusal());
    Problem::new(plain.code, format!("{what}: {}", plain.text))
}

/// Sends the request to the leader. `many`: it is not a failure if one of the jobs has ended
/// meanwhile.
fn send(session: &Session, keys: &[JobKey], action: Action, many: bool) -> Result<()> {
    let mut worst = Ok(());
    for ids in selections(keys).chunks(IDS_MAX) {
        let outcomes = api::signal(&session.host_context.site, ids.to_vec(), action.signal())?;
        let failed = outcomes.iter().find(|outcome| match outcome.code {
            Fared::Ok => false,
            Fared::NotFound => !many,
            _ => true,
        });
        if let Some(outcome) = failed {
            let mut failure = api::failure_of(outcome);
            failure.text = format!("job {}: {}", outcome.what, failure.text);
            worst = Err(failure.into());
        }
    }
    session.discard_view();
    worst
}

/// Keys in the form of a request, the elements of an array in one word.
fn selections(keys: &[JobKey]) -> Vec<String> {
    let mut single = Vec::new();
    let mut arrays: BTreeMap<u32, IndexSet> = BTreeMap::new();
    for key in keys {
        match key.idx {
            0 => single.push(key.to_string()),
            idx => drop(arrays.entry(key.id).or_default().insert(idx)),
        }
    }
    let arrays = arrays.iter().map(|(id, set)| format!("{id}[{set}]"));
    single.extend(arrays);
    single
}

/// The number of a state in the standard.
pub(crate) fn state_number(stat: JobStat) -> i32 {
    match stat {
        JobStat::Unkwn => 0x00,
        JobStat::Pend => 0x10,
        JobStat::Psusp => 0x12,
        JobStat::Run => 0x20,
        JobStat::Ssusp => 0x21,
        JobStat::Ususp => 0x22,
        JobStat::Done => 0x30,
        JobStat::Exit => 0x40,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_suits_the_states_that_it_changes() {
        for (number, suits) in [
            (0, vec![JobStat::Run]),
            (1, vec![JobStat::Ususp]),
            (2, vec![JobStat::Pend]),
            (3, vec![JobStat::Psusp]),
        ] {
            let action = Action::of(number).unwrap();
            let found: Vec<JobStat> = JobStat::ALL
                .into_iter()
                .filter(|stat| action.applies_to(*stat))
                .collect();
            assert_eq!(found, suits, "{action:?}");
        }
        assert!(
            !Action::Terminate.applies_to(JobStat::Done)
                && Action::Terminate.applies_to(JobStat::Unkwn)
        );
        assert!(Action::of(5).is_err() && Action::of(-1).is_err());
    }

    #[test]
    fn elements_of_an_array_are_named_together() {
        let keys = [(7, 0), (9, 1), (9, 2), (9, 3), (9, 7), (12, 4)];
        let keys = keys.map(|(id, idx)| JobKey { id, idx });
        assert_eq!(selections(&keys), ["7", "9[1-3,7]", "12[4]"]);
    }
}
