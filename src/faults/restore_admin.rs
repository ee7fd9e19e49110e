//! The administrator who confirms that the share was restored, and releases held jobs when no
//! unknown tasks are running any more.

use super::clients::Client;
use super::plan::Role;
use super::world::WorldState;
use crate::client::requests::send_and_wait;
use crate::model::JobKey;
use crate::record::request::{Selector, SignalAction, Verb};

/// Longest wait for an answer, s.
const ANSWER_S: u64 = 60;

/// The administrator's observations.
struct AdminObservations {
    alarm: bool,
    /// Everything that follows from the restore has happened.
    restore_over: bool,
    /// Jobs to release.
    held_jobs: Vec<u32>,
    /// All other clients are done and all jobs have ended.
    done: bool,
}

/// The life of the administrator.
pub(super) fn run(client: &Client<'_>) -> String {
    loop {
        client.pause_randomly(3000);
        let observed = observe(client);
        if observed.alarm {
            client.pause_randomly(15_000);
            let answer = send_and_wait(client.site, "cadmin", &[Verb::Restored], ANSWER_S);
            let answer = answer.ok();
            let code = answer.and_then(|ack| ack.results.first().map(|r| r.code));
            let mut inner = client.os.world.lock();
            let text = || format!("cadmin restored: {code:?}");
            inner.kernel.trace("people", text);
        } else if observed.restore_over && observed.done {
            break;
        } else if observed.restore_over {
            release(client, &observed.held_jobs);
            client.pause_randomly(15_000);
        }
    }
    client.os.world.lock().cluster.slots[client.slot].done = true;
    "everything is released".into()
}

fn observe(client: &Client<'_>) -> AdminObservations {
    let inner = client.os.world.lock();
    let WorldState { kernel, cluster } = &*inner;
    let history = &cluster.history;
    let mut slots = cluster.slots.iter();
    let served = slots.all(|s| s.role != Role::Client || s.done);
    let restore_over = cluster.is_restore_over(kernel.now);
    let held_jobs = match restore_over && cluster.lost_runs().is_empty() {
        true => history.facts.open.keys().copied().collect(),
        false => Vec::new(),
    };
    AdminObservations {
        alarm: history.restored.is_alarm(),
        restore_over,
        held_jobs,
        done: served && history.all_ended(&cluster.tasks),
    }
}

/// Resumes held jobs, also those that ran between the copy and its return.
fn release(client: &Client<'_>, ids: &[u32]) {
    for id in ids {
        client
            .os
            .world
            .lock()
            .cluster
            .history
            .note_resume_request(*id);
        let sel = Selector {
            ids: vec![JobKey::job(*id).to_string()],
            ..Selector::default()
        };
        let how = SignalAction::Resume;
        let _ = send_and_wait(
            client.site,
            "cresume",
            &[Verb::Signal { sel, how }],
            ANSWER_S,
        );
    }
}
