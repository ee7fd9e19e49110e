//! What people and administrators were told to be so from then on, beside jobs: a job's project,
//! priority, slots and queue, queues and hosts open or closed, the configuration in force.
//!
//! Each fact has one author, who asks for one thing at a time: from the moment of asking nobody can
//! say how it is, from an answer on every leader must have it so. After a question that was not
//! answered it is never judged again, since it may be carried out at any time.

use crate::state::State;
use std::collections::{BTreeMap, BTreeSet};

/// Something that can be told to be so.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Fact {
    Project(u32),
    Priority(u32),
    Slots(u32),
    JobQueue(u32),
    QueueOpen(String),
    QueueActive(String),
    HostClosed(String),
    /// The digest of cb.yaml.
    Config,
}

#[derive(Clone, Default)]
pub(super) struct Confirmed {
    told: BTreeMap<Fact, String>,
    /// Somebody asked for another value and was not answered.
    open: BTreeSet<Fact>,
    /// Asked for and not answered yet.
    asking: BTreeSet<Fact>,
    /// Something of the cluster was to be changed at some time.
    pub of_cluster: bool,
}

impl Confirmed {
    /// Somebody asks for a change.
    pub(super) fn asked(&mut self, fact: &Fact) {
        use Fact::{Config, HostClosed, QueueActive, QueueOpen};
        self.of_cluster |= matches!(fact, QueueOpen(_) | QueueActive(_) | HostClosed(_) | Config);
        self.told.remove(fact);
        self.asking.insert(fact.clone());
    }

    /// What came of it: the value that was confirmed, `Ok(None)` = it was refused.
    pub(super) fn answered(&mut self, fact: Fact, answer: Result<Option<String>, ()>) {
        self.asking.remove(&fact);
        match answer {
            Ok(Some(value)) if !self.open.contains(&fact) => drop(self.told.insert(fact, value)),
            Ok(_) => {}
            Err(()) => drop(self.open.insert(fact)),
        }
    }

    /// Everything is as it was earlier, but for what is being asked for.
    pub(super) fn go_back(&mut self, then: Confirmed) {
        self.told = then.told;
        self.told.retain(|fact, _| !self.asking.contains(fact));
        self.open.extend(then.asking);
    }

    /// An administrator was told that the host is closed.
    pub(super) fn is_closed(&self, host: &str) -> bool {
        let fact = Fact::HostClosed(host.to_owned());
        self.told.get(&fact).is_some_and(|value| value == "true")
    }

    /// What a leader has otherwise than people were told.
    pub(super) fn check(&self, epoch: u64, state: &State) -> Vec<String> {
        let differs = |(fact, told): (&Fact, &String)| {
            let has = value(fact, state)?;
            (has != *told).then(|| format!("epoch {epoch} has {fact:?} as {has}, told was {told}"))
        };
        self.told.iter().filter_map(differs).collect()
    }
}

fn value(fact: &Fact, state: &State) -> Option<String> {
    let spec = |id: &u32| state.spec_of(*id);
    Some(match fact {
        Fact::Project(id) => spec(id)?.project.clone(),
        Fact::Priority(id) => spec(id)?.priority.to_string(),
        Fact::Slots(id) => spec(id)?.min.to_string(),
        Fact::JobQueue(id) => spec(id)?.queue.clone(),
        Fact::QueueOpen(name) => state.queue_ctl(name).open.to_string(),
        Fact::QueueActive(name) => state.queue_ctl(name).active.to_string(),
        Fact::HostClosed(name) => state.host_ctl(name).closed.to_string(),
        Fact::Config => state.config_digest().to_owned(),
    })
}
