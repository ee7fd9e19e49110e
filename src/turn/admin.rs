//! Administrators' verbs: queues, hosts, configuration, lost hosts.

use super::answer::Answer;
use super::context::Turn;
use crate::config::{Config, SILENCE_MAX_MS, SILENCE_MIN_MS};
use crate::intake::{Action, ActionObject, Requester};
use crate::model::Stamp;
use crate::record::ack::Code;
use crate::record::event::Event;
use crate::record::request::{HostAct, QueueAct};
use crate::state::HostCtl;
use crate::text::count::count;
use crate::text::error::did_you_mean;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum length of a comment, in bytes (as in LSF).
const COMMENT_MAX: usize = 511;
/// Maximum number of hosts that an answer to a new configuration names.
const HOSTS_NAMED: usize = 100;

/// The refusal of an unknown name, with the most similar known one.
fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    format!("no such {what}{}", did_you_mean(name, known))
}

/// Names of hosts and host groups.
fn host_and_group_names(config: &Config) -> impl Iterator<Item = &str> {
    let groups = config.host_groups.keys();
    groups.map(String::as_str).chain(config.host_names())
}

/// Whether an order about a host changes something, and the text that answers it.
fn effect(ctl: &HostCtl, act: HostAct, comment: &str) -> (bool, &'static str) {
    match act {
        HostAct::Open => (ctl.closed || !comment.is_empty(), "is opened"),
        HostAct::Close => (!ctl.closed || !comment.is_empty(), "is closed"),
        HostAct::Lock { for_s } => {
            let lock = ctl.lock.as_ref();
            let endless = lock.is_some_and(|lock| lock.until == Stamp(0));
            (for_s > 0 || !endless, "is locked")
        }
        HostAct::Unlock => (ctl.lock.is_some(), "is unlocked"),
    }
}

impl Turn<'_> {
    /// Whether `requester` may do something to a queue or to the cluster.
    pub(super) fn may(
        &self,
        requester: &Requester,
        action: Action,
        over: ActionObject<'_>,
    ) -> bool {
        requester.may(
            action,
            over,
            &self.core.config,
            self.core.inputs.service_uid,
        )
    }

    pub(super) fn queue_act(
        &mut self,
        requester: &Requester,
        names: &[String],
        act: QueueAct,
        comment: &str,
        answer: &mut Answer,
    ) {
        if comment.len() > COMMENT_MAX {
            return answer.add_result("-C", Code::Usage, format!("at most {COMMENT_MAX} bytes"));
        }
        let config = self.core.config.clone();
        let all = || {
            config
                .queues
                .iter()
                .map(|q| q.name.clone())
                .collect::<Vec<_>>()
        };
        let names: Vec<String> = match names {
            [] => config.general.default_queue.clone(),
            [one] if one == "all" => all(),
            names => names.to_vec(),
        };
        for name in names {
            if config.queue(&name).is_none() {
                let known = config.queues.iter().map(|q| q.name.as_str());
                answer.add_result(&name, Code::NotFound, unknown("queue", &name, known));
                continue;
            }
            if !self.may(requester, Action::Queue, ActionObject::Queue(&name)) {
                answer.add_result(&name, Code::Permission, "permission denied");
                continue;
            }
            let before = self.core.state.queue_ctl(&name);
            let (same, text) = match act {
                QueueAct::Open => (before.open, "is opened"),
                QueueAct::Close => (!before.open, "is closed"),
                QueueAct::Activate => (before.active, "is activated"),
                QueueAct::Inactivate => (!before.active, "is inactivated"),
            };
            if !same || !comment.is_empty() {
                let (by, comment) = (requester.user.clone(), comment.to_owned());
                self.emit(Event::Queue {
                    name: name.clone(),
                    act,
                    by,
                    comment,
                    t: self.now,
                });
            }
            answer.add_result(&name, Code::Ok, text);
        }
        self.core.pass.needed = true;
        self.ready.publish = true;
    }

    pub(super) fn host_act(
        &mut self,
        requester: &Requester,
        names: &[String],
        act: HostAct,
        comment: &str,
        answer: &mut Answer,
    ) {
        if comment.len() > COMMENT_MAX {
            return answer.add_result("-C", Code::Usage, format!("at most {COMMENT_MAX} bytes"));
        }
        if !self.may(requester, Action::Host, ActionObject::Cluster) {
            return answer.add_result("hosts", Code::Permission, "permission denied");
        }
        let config = self.core.config.clone();
        for word in names {
            let Some(set) = config.hosts_named(word) else {
                let text = unknown("host or host group", word, host_and_group_names(&config));
                answer.add_result(word, Code::NotFound, text);
                continue;
            };
            let joined = self
                .core
                .inputs
                .loads
                .keys()
                .filter(|h| !config.hosts.index.contains_key(*h));
            let joined: Vec<String> = joined.filter(|h| set.contains(h)).cloned().collect();
            let listed: Vec<String> = config.expand(&set).map(str::to_owned).collect();
            for name in listed.into_iter().chain(joined) {
                let ctl = self.core.state.host_ctl(&name);
                let (changes, text) = effect(&ctl, act, comment);
                if act == HostAct::Open {
                    self.forget_failures_on(&name);
                }
                if changes {
                    let (by, comment) = (requester.user.clone(), comment.to_owned());
                    self.emit(Event::Host {
                        name: name.clone(),
                        act,
                        by,
                        comment,
                        t: self.now,
                    });
                }
                answer.add_result(name, Code::Ok, text);
            }
        }
        self.core.hosts_changed();
        self.ready.publish = true;
    }

    /// Silences an alert or ends a silence. The notifier reads it in the journal.
    pub(super) fn silence_alert(
        &mut self,
        requester: &Requester,
        name: &str,
        (for_ms, why): (u64, String),
        answer: &mut Answer,
    ) {
        if !self.may(requester, Action::SilenceAlert, ActionObject::Cluster) {
            return answer.add_result(name, Code::Permission, "permission denied");
        }
        let rules = &self.core.config.notices.alerts;
        // A silence may outlive its rule; it can still be ended.
        if for_ms > 0 && rules.iter().all(|rule| rule.name != name) {
            let known = rules.iter().map(|rule| rule.name.as_str());
            let text = unknown("alert", name, known);
            return answer.add_result(name, Code::NotFound, text);
        }
        let lasts = for_ms == 0 || (SILENCE_MIN_MS..=SILENCE_MAX_MS).contains(&for_ms);
        if !lasts || why.len() > COMMENT_MAX {
            let text =
                format!("at most 30 days, at least a minute, and {COMMENT_MAX} bytes of reason");
            return answer.add_result(name, Code::Usage, text);
        }
        let (text, until) = match for_ms {
            0 => ("is no longer silenced", Stamp(0)),
            ms => ("is silenced", self.now.plus_ms(ms)),
        };
        self.emit(Event::AlertSilenced {
            name: name.to_owned(),
            until,
            by: requester.user.clone(),
            why,
            t: self.now,
        });
        answer.add_result(name, Code::Ok, text);
    }

    /// Handles a reconfiguration: the driver has read cb.yaml; a bad one changes nothing.
    pub(super) fn reconfig(
        &mut self,
        requester: &Requester,
        config: Option<Result<Arc<Config>, Vec<String>>>,
        answer: &mut Answer,
    ) {
        if !self.may(requester, Action::Reconfig, ActionObject::Cluster) {
            return answer.add_result("reconfig", Code::Permission, "permission denied");
        }
        match config {
            Some(Ok(config)) => {
                let before = self.core.config.clone();
                self.configure(config);
                self.core.config_problems.clear();
                answer.add_result("reconfig", Code::Ok, "the new configuration is in force");
                self.name_removed_hosts(&before, answer);
            }
            Some(Err(problems)) => {
                for problem in &problems {
                    answer.add_result("cb.yaml", Code::Refused, problem.clone());
                }
                let text = "the old configuration stays in force";
                answer.add_result("reconfig", Code::Refused, text);
                self.core.config_problems = problems;
                self.ready.publish = true;
            }
            None => answer.add_result("reconfig", Code::Refused, "cb.yaml could not be read"),
        }
    }

    /// Adds to the answer which hosts that are no longer listed still run jobs.
    fn name_removed_hosts(&self, before: &Config, answer: &mut Answer) {
        let after: BTreeSet<&str> = self.core.config.host_names().collect();
        let removed = before.host_names().filter(|host| !after.contains(host));
        for host in removed.take(HOSTS_NAMED) {
            let id = self.core.state.host_id(host).into_iter();
            let running = id
                .flat_map(|id| self.core.state.used().started_on(id))
                .count();
            if running > 0 {
                let jobs = count(running, "job");
                let text = format!(
                    "host {host} is no longer listed but still runs {jobs}: list it again and \
                     close it with 'cadmin hclose' until they have ended"
                );
                answer.add_result(host, Code::Ok, text);
            }
        }
    }

    pub(super) fn host_lost(&mut self, requester: &Requester, host: &str, answer: &mut Answer) {
        if !self.may(requester, Action::HostLost, ActionObject::Cluster) {
            return answer.add_result(host, Code::Permission, "permission denied");
        }
        if self.core.state.host_id(host).is_none() {
            let text = unknown("host", host, host_and_group_names(&self.core.config));
            return answer.add_result(host, Code::NotFound, text);
        }
        if self.core.state.host_ctl(host).up {
            let text = "its daemons still report: stop them first, or wait until the host is \
                unavailable";
            return answer.add_result(host, Code::Refused, text);
        }
        let n = self.end_all_on(host);
        answer.add_result(host, Code::Ok, format!("{n} jobs on it are ended as lost"));
    }
}
