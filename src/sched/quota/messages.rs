//! Texts about limits: the rows of `climits` and the reasons of waiting jobs.
//!
//! Owns the naming of consumers. Counts nothing.

use super::{Blocked, Caps, Counter, Kind, Quantity, Quotas, Rule, UNLIMITED};
use crate::config::{Dimension, HostSet, Names, UserSet};
use crate::model::{PendReason, Stamp};
use jiff::tz::TimeZone;
use std::collections::BTreeSet;

/// Number of names of a set that are listed; the rest is only counted.
const LISTED: usize = 8;

/// One line of `climits`: one quantity of one counter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuotaRow {
    /// Position of the limit in cb.yaml.
    pub rule: u16,
    pub limit: String,
    /// `queue medium, host h1`; empty = everything.
    pub consumer: String,
    /// `slots`, `jobs` or the name of a resource.
    pub resource: String,
    /// In thousandths if `resource` is a resource; the same applies to the limit.
    pub used: i64,
    /// `None`: no limit at the moment.
    pub max: Option<i64>,
    /// The limit that cb.yaml states for each member; a member in use has its own row.
    pub each: bool,
}

impl Quotas {
    /// Counters in use, counters that exist only once, and the limits stated for each member, in
    /// the order of cb.yaml, with the limits that apply at `now`: [`Quotas::tick`] may not have
    /// been called since a window opened.
    pub fn rows(&self, now: Stamp, tz: &TimeZone) -> Vec<QuotaRow> {
        let mut out = Vec::new();
        let at_now = self.caps(now, tz);
        for family in self.family_ids.values() {
            if let Some(at) = self.families[*family as usize].counter
                && self.is_of_config(at)
            {
                self.rows_of(&self.counters[at as usize], &at_now, &mut out);
            }
        }
        for at in self.hosted.values() {
            self.rows_of(&self.counters[*at as usize], &at_now, &mut out);
        }
        let limits = self.rules.iter().filter(|rule| rule.kind == Kind::Limit);
        for (at, rule) in (0u16..).zip(limits) {
            let known = |family: &u32| self.families[*family as usize].rule == at;
            if rule.has_members() || !self.family_ids.values().any(known) {
                let fresh = Counter {
                    rule: at,
                    ..Counter::default()
                };
                let consumer = rule.consumer(&Default::default(), None);
                let caps = &at_now[usize::from(at)];
                rule.push_rows((&fresh, caps), consumer, rule.has_members(), &mut out);
            }
        }
        out.sort();
        out
    }

    /// Rows of counters that changed since the last call, and whether [`Quotas::rows`] now omits
    /// them. Changes are recorded from the first call on. `None`: they were not recorded so far,
    /// look at all rows.
    pub fn take_changed(&mut self, now: Stamp, tz: &TimeZone) -> Option<Vec<(QuotaRow, bool)>> {
        let mut changed = self.changed.replace(Vec::new())?;
        if changed.is_empty() {
            return Some(Vec::new());
        }
        let at_now = self.caps(now, tz);
        changed.sort_unstable();
        changed.dedup();
        let mut out = Vec::new();
        for at in changed {
            let counter = &self.counters[at as usize];
            let of_family = self.families[counter.family as usize].counter;
            let own = |host| self.hosted.get(&super::pair(counter.family, host)).copied();
            // The counter may have been dropped since.
            if counter.host.map_or(of_family, own) != Some(at) || !self.is_of_config(at) {
                continue;
            }
            let rule = &self.rules[usize::from(counter.rule)];
            let mut rows = Vec::new();
            let consumer = self.consumer(counter.family, counter.host);
            let caps = &at_now[usize::from(counter.rule)];
            rule.push_rows((counter, caps), consumer, false, &mut rows);
            let is_gone = rule.has_members() && counter.is_zero();
            out.extend(rows.into_iter().map(|row| (row, is_gone)));
        }
        Some(out)
    }

    /// Whether the counter belongs to a limit of cb.yaml.
    fn is_of_config(&self, counter: u32) -> bool {
        let rule = self.counters[counter as usize].rule;
        self.rules[usize::from(rule)].kind == Kind::Limit
    }

    /// The limits of every rule at `now`.
    fn caps(&self, now: Stamp, tz: &TimeZone) -> Vec<Caps> {
        let caps = |rule: &Rule| match rule.kind {
            Kind::Limit => rule.caps_at(now, tz),
            Kind::Pool { .. } | Kind::JobGroups => Caps::default(),
        };
        self.rules.iter().map(caps).collect()
    }

    fn rows_of(&self, counter: &Counter, at_now: &[Caps], out: &mut Vec<QuotaRow>) {
        let rule = &self.rules[usize::from(counter.rule)];
        if !rule.has_members() || !counter.is_zero() {
            let consumer = self.consumer(counter.family, counter.host);
            let caps = &at_now[usize::from(counter.rule)];
            rule.push_rows((counter, caps), consumer, false, out);
        }
    }

    /// The reason of a job that waits for room.
    pub fn reason(&self, blocked: &Blocked) -> PendReason {
        let rule = &self.rules[usize::from(blocked.rule)];
        let limit = rule.quota.name.clone();
        let consumer = self.consumer(blocked.family, blocked.host);
        let (need, used, max) = (blocked.need, blocked.used, blocked.limit);
        if rule.kind == Kind::JobGroups {
            let path = self.families[blocked.family as usize].members[0].as_deref();
            let group = path.unwrap_or_default().to_owned();
            return PendReason::JobGroup { group, used, max };
        }
        if let Kind::Pool { fixed } = rule.kind {
            return PendReason::SharedResource {
                resource: limit,
                need,
                used,
                max,
                never: fixed && need > max,
            };
        }
        if need > max && rule.until.is_none() {
            let unit = match blocked.quantity {
                Quantity::Resource(_) => 1,
                Quantity::Slots | Quantity::Jobs => 1000,
            };
            return PendReason::QuotaNever {
                limit,
                consumer,
                resource: rule.word(blocked.quantity).to_owned(),
                need: need.saturating_mul(unit),
                max: max.saturating_mul(unit),
            };
        }
        match blocked.quantity {
            Quantity::Slots => PendReason::QuotaSlots {
                limit,
                consumer,
                need,
                used,
                max,
            },
            Quantity::Jobs => PendReason::QuotaJobs {
                limit,
                consumer,
                used,
                max,
            },
            Quantity::Resource(_) => PendReason::QuotaResource {
                limit,
                consumer,
                resource: rule.word(blocked.quantity).to_owned(),
                need,
                used,
                max,
            },
        }
    }

    fn consumer(&self, family: u32, host: Option<u32>) -> String {
        let family = &self.families[family as usize];
        let host = host.and_then(|at| self.hosts.get(at as usize));
        self.rules[usize::from(family.rule)].consumer(&family.members, host.map(String::as_str))
    }
}

impl Rule {
    fn has_members(&self) -> bool {
        let quota = &self.quota;
        quota.queues.is_per()
            || quota.users.is_per()
            || quota.hosts.is_per()
            || quota.projects.is_per()
            || quota.apps.is_per()
    }

    fn word(&self, what: Quantity) -> &str {
        match what {
            Quantity::Slots => "slots",
            Quantity::Jobs => "jobs",
            Quantity::Resource(res) => {
                let at = self.res.iter().position(|own| *own == res);
                at.map_or("", |at| self.quota.resources[at].0.as_str())
            }
        }
    }

    fn consumer(&self, members: &super::Members, host: Option<&str>) -> String {
        let quota = &self.quota;
        let [queue, user, project, app] = members.each_ref().map(Option::as_deref);
        let parts = [
            part("queue", &quota.queues, queue, Names::words),
            part("user", &quota.users, user, UserSet::to_string),
            part("host", &quota.hosts, host, HostSet::words),
            part("project", &quota.projects, project, Names::words),
            part("app", &quota.apps, app, Names::words),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join(", ")
    }

    fn push_rows(
        &self,
        (counter, caps): (&Counter, &Caps),
        consumer: String,
        is_member_limit: bool,
        out: &mut Vec<QuotaRow>,
    ) {
        let mut push = |resource: &str, used: i64, max: i64| {
            out.push(QuotaRow {
                rule: counter.rule,
                limit: self.quota.name.clone(),
                consumer: consumer.clone(),
                resource: resource.to_owned(),
                used,
                max: (max != UNLIMITED).then_some(max),
                each: is_member_limit,
            });
        };
        if !self.quota.slots.is_empty() {
            push("slots", counter.slots, caps.slots);
        }
        if !self.quota.jobs.is_empty() {
            push("jobs", counter.jobs, caps.jobs);
        }
        for (at, (name, _)) in self.quota.resources.iter().enumerate() {
            let used = counter.amounts.get(at).copied().unwrap_or(0);
            push(name, used, caps.amounts[at]);
        }
    }
}

/// `user u001` for a member, `users g1 ~u001` for a set, nothing for all users.
fn part<S>(
    word: &str,
    dim: &Dimension<S>,
    member: Option<&str>,
    words: impl Fn(&S) -> String,
) -> Option<String> {
    match (dim, member) {
        (Dimension::Any, _) => None,
        (_, Some(name)) => Some(format!("{word} {name}")),
        (Dimension::Shared(set), None) => Some(format!("{word}s {}", words(set))),
        // For each member, but no particular one: the host is not known yet.
        (Dimension::Per(set), None) => Some(format!("each {word} of {}", words(set))),
    }
}

fn listed(all_but: bool, names: &BTreeSet<String>) -> String {
    let mut words: Vec<String> = Vec::new();
    if all_but {
        words.push("all".to_owned());
    }
    let sign = if all_but { "~" } else { "" };
    words.extend(
        names
            .iter()
            .take(LISTED)
            .map(|name| format!("{sign}{name}")),
    );
    match names.len().checked_sub(LISTED) {
        None | Some(0) => words.join(" "),
        Some(more) => format!("{} and {more} more", words.join(" ")),
    }
}

/// A set as a user would write it.
trait Words {
    fn words(&self) -> String;
}

impl Words for Names {
    fn words(&self) -> String {
        listed(self.all_but, &self.names)
    }
}

impl Words for HostSet {
    fn words(&self) -> String {
        listed(self.all_but, &self.names)
    }
}
