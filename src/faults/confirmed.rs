//! Settings that were confirmed to clients: a job's project, priority, slots, limits, queue and
//! messages, queues and hosts open or closed, limits of job groups, the configuration.
//!
//! Each setting is changed by one client, one request at a time: from the request on, its value is
//! unknown; from the answer on, every leader must have the new value. After an unanswered request
//! it is never checked again, because that request may be carried out at any time.

use crate::model::JobKey;
use crate::state::State;
use std::collections::{BTreeMap, BTreeSet};

/// A setting.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Setting {
    Project(u32),
    Priority(u32),
    Slots(u32),
    RunLimit(u32),
    Memory(u32),
    JobQueue(u32),
    /// The message of a job with this index.
    Message(JobKey, u32),
    QueueOpen(String),
    QueueActive(String),
    HostClosed(String),
    HostLocked(String),
    /// The limit of a job group; empty: there is no such group.
    JobGroup(String),
    /// The digest of cb.yaml.
    Config,
}

#[derive(Clone, Default)]
pub(super) struct ConfirmedSettings {
    values: BTreeMap<Setting, String>,
    /// Settings for which a change was requested but not answered.
    open: BTreeSet<Setting>,
    /// Settings for which a change was requested and the answer is still awaited.
    in_progress: BTreeSet<Setting>,
    /// Whether any change of the cluster was ever requested.
    pub of_cluster: bool,
}

impl ConfirmedSettings {
    /// Notes that a client requests a change.
    pub(super) fn note_request(&mut self, setting: &Setting) {
        use Setting::{Config, HostClosed, HostLocked, QueueActive, QueueOpen};
        self.of_cluster |= matches!(
            setting,
            QueueOpen(_) | QueueActive(_) | HostClosed(_) | HostLocked(_) | Config
        );
        self.values.remove(setting);
        self.in_progress.insert(setting.clone());
    }

    /// Notes the answer: the value that was confirmed; `Ok(None)` = the change was refused.
    pub(super) fn answered(&mut self, setting: Setting, answer: Result<Option<String>, ()>) {
        self.in_progress.remove(&setting);
        match answer {
            Ok(Some(value)) if !self.open.contains(&setting) => {
                drop(self.values.insert(setting, value))
            }
            Ok(_) => {}
            Err(()) => drop(self.open.insert(setting)),
        }
    }

    /// Reverts everything to an earlier state. A request that is in progress may get an answer from
    /// before the restore, out of a cache.
    pub(super) fn revert_to(&mut self, then: ConfirmedSettings) {
        self.values = then.values;
        self.open.extend(then.in_progress);
        self.open.extend(self.in_progress.iter().cloned());
        self.values
            .retain(|setting, _| !self.open.contains(setting));
    }

    /// Whether the administrator was answered that the host is closed or locked.
    pub(super) fn takes_no_jobs(&self, host: &str) -> bool {
        let settings = [
            Setting::HostClosed(host.into()),
            Setting::HostLocked(host.into()),
        ];
        let holds = |setting| {
            self.values
                .get(setting)
                .is_some_and(|value| value == "true")
        };
        settings.iter().any(holds)
    }

    /// Settings whose value in a leader's state differs from the confirmed one.
    pub(super) fn check(&self, epoch: u64, state: &State) -> Vec<String> {
        let differs = |(setting, confirmed): (&Setting, &String)| {
            let has = value(setting, state)?;
            (has != *confirmed).then(|| {
                format!("epoch {epoch} has {setting:?} as {has}, confirmed was {confirmed}")
            })
        };
        self.values.iter().filter_map(differs).collect()
    }
}

fn value(setting: &Setting, state: &State) -> Option<String> {
    let spec = |id: &u32| state.spec_of(*id);
    Some(match setting {
        Setting::Project(id) => spec(id)?.project.clone(),
        Setting::Priority(id) => spec(id)?.priority.to_string(),
        Setting::Slots(id) => spec(id)?.min.to_string(),
        Setting::RunLimit(id) => spec(id)?.limits.run_s.unwrap_or(0).to_string(),
        Setting::Memory(id) => spec(id)?.limits.mem_b.unwrap_or(0).to_string(),
        Setting::JobQueue(id) => spec(id)?.queue.clone(),
        Setting::Message(j, index) => {
            state.job(j.id)?;
            let mut messages = state.messages(*j).iter();
            let message = messages.find(|message| message.index == *index);
            message.map_or(String::new(), |message| message.text.clone())
        }
        Setting::QueueOpen(name) => state.queue_ctl(name).open.to_string(),
        Setting::QueueActive(name) => state.queue_ctl(name).active.to_string(),
        Setting::HostClosed(name) => state.host_ctl(name).closed.to_string(),
        Setting::HostLocked(name) => state.host_ctl(name).lock.is_some().to_string(),
        Setting::JobGroup(name) => {
            let limit = state.job_group(name).and_then(|group| group.limit);
            limit.map_or(String::new(), |limit| limit.to_string())
        }
        Setting::Config => state.config_digest().to_owned(),
    })
}
