//! At which stage hosts are excluded for a class, and what each lacks: for
//! [`Engine::examine`](crate::sched::Engine::examine). Decides nothing and changes nothing.

use super::Pass;
use super::nearest_miss::{compared, conditions, gap, has_text, part_text, total};
use crate::sched::compiled_request::{RequestPart, RusageItem, RusagePer, TrialUse};
use crate::sched::examine::{
    AmountRoom, Examination, ExcludedHosts, NearestMiss, Stage, UnmetNeed,
};
use crate::sched::hosts::Obstacle;
use crate::sched::pending_classes::PendingClass;
use crate::sched::resource_names::amount_text;
use crate::sched::shape::{HostQuery, Shape, UnmetCondition};
use crate::text::resreq::{HostFacts, SelectExpr};

/// Number of hosts of a stage that are named.
const NAMED: usize = 3;
/// Maximum number of unmet needs that are reported for a host.
const UNMET_MAX: usize = 4;
/// Weight of an unmet need that cannot be measured; it exceeds that of any measured one.
const HARD: f64 = 1e6;

/// What one host must at least provide to the job.
pub(super) struct MinimumNeed {
    slots: u32,
    /// Amounts in thousandths by the item of `rusage[]`.
    amounts: Vec<i64>,
}

/// The result for one host: the stage at which it is excluded, and the name of a resource.
pub(super) type Verdict = Option<(Stage, String)>;

impl Pass<'_> {
    pub(in crate::sched) fn examine(&mut self, class: u32) -> Option<Examination> {
        let pending = self.picture.classes.take_out(class)?;
        let found = self.examined(&pending);
        self.picture.classes.put(class, pending);
        Some(found)
    }

    fn examined(&self, pending: &PendingClass) -> Examination {
        let shape = self.shape(pending.shape);
        let part = &shape.alternatives[0].parts[0];
        let least = least(part);
        let mut out = Examination {
            hosts: self.table.count() as u32,
            amounts: self.no_amounts(part, least.slots),
            shared: self.shared_of(shape),
            never: self.never_starts(pending),
            ..Examination::default()
        };
        let mut best: Option<(f64, NearestMiss)> = None;
        for at in 0..self.table.count() {
            let verdict = self.verdict(pending, &least, at);
            let serves = verdict
                .as_ref()
                .is_none_or(|(stage, _)| *stage >= Stage::TooSmall);
            if serves {
                self.add_amounts(shape, part, at, &mut out);
                self.note_idle_amounts(at, &mut out);
            }
            let name = &self.table.at(at).name;
            let Some((stage, resource)) = verdict else {
                out.fitting.push(name.clone());
                continue;
            };
            note_excluded(&mut out.excluded, (stage, resource), name);
            if matches!(stage, Stage::NotInQueue | Stage::NotAsked | Stage::NoServer) {
                continue;
            }
            let (weight, unmet) = self.unmet_needs(pending, &least, at, stage);
            if best.as_ref().is_none_or(|(least, _)| weight < *least) {
                let host = name.clone();
                best = Some((weight, NearestMiss { host, unmet }));
            }
        }
        out.excluded
            .sort_by(|a, b| (a.stage, &a.resource).cmp(&(b.stage, &b.resource)));
        out.nearest = best
            .map(|(_, miss)| miss)
            .filter(|miss| !miss.unmet.is_empty());
        out
    }

    /// The first check that excludes the host from the job; `None`: none does.
    pub(super) fn verdict(
        &self,
        pending: &PendingClass,
        least: &MinimumNeed,
        at: usize,
    ) -> Verdict {
        let excluded = |stage| Some((stage, String::new()));
        let shape = self.shape(pending.shape);
        let (host, view) = (self.table.at(at), self.view());
        let unfit = shape.unmet((0, 0), &view, at);
        match (unfit, host.obstacle()) {
            (Some(UnmetCondition::NotInQueue), _) => return excluded(Stage::NotInQueue),
            (Some(UnmetCondition::NotAsked), _) => return excluded(Stage::NotAsked),
            (_, Some(Obstacle::NoServer)) => return excluded(Stage::NoServer),
            (_, Some(Obstacle::Closed)) => return excluded(Stage::Closed),
            (_, Some(Obstacle::Locked)) => return excluded(Stage::Locked),
            (_, Some(Obstacle::Unavailable)) => return excluded(Stage::Unavailable),
            (Some(UnmetCondition::Type), _) => return excluded(Stage::OtherType),
            (Some(UnmetCondition::Select), _) => return excluded(Stage::Select),
            (Some(UnmetCondition::Load) | None, None) => {}
        }
        if let Some(what) = self.too_small(shape, least, at) {
            return Some((Stage::TooSmall, what));
        }
        if self.picture.windows.is_closed(at) {
            return excluded(Stage::Window);
        }
        let expected = self.picture.usage.get(at).expected;
        if unfit == Some(UnmetCondition::Load) || self.picture.monitor.blocks(host, expected) {
            return excluded(Stage::Load);
        }
        self.busy(pending, least, at)
    }

    /// What excludes a host from the job as long as other jobs are there.
    fn busy(&self, pending: &PendingClass, least: &MinimumNeed, at: usize) -> Verdict {
        let excluded = |stage| Some((stage, String::new()));
        let shape = self.shape(pending.shape);
        let view = self.view();
        let (host, usage) = (view.table.at(at), view.usage.get(at));
        let trial_use = TrialUse::default();
        let query = HostQuery::new(0, 0, &trial_use);
        let used = usage.user_used(pending.user.uid);
        let limit = host.user_limit(pending.user.slots_per_core);
        if !shape.may_be_exclusive(0, usage) {
            return excluded(Stage::Exclusive);
        }
        if shape.free(usage) < i64::from(least.slots) {
            return excluded(Stage::Slots);
        }
        if shape.fit_amounts(&query, usage, least.slots) < least.slots {
            let items = shape.alternatives[0].parts[0]
                .rusage
                .iter()
                .zip(&least.amounts);
            let short = items
                .clone()
                .find(|(item, need)| self.unreserved_amount(item, at) < **need);
            let (item, _) = short.or_else(|| items.clone().next())?;
            let name = self.picture.resources.name(item.res).to_owned();
            return Some((Stage::Amount, name));
        }
        if limit.is_some_and(|limit| used + least.slots > limit) {
            return excluded(Stage::UserLimit);
        }
        if shape.fit(&query, &view, at) < least.slots {
            return excluded(Stage::QueueLimit);
        }
        if self.is_too_slow(pending, at) {
            return excluded(Stage::TooSlow);
        }
        if self.recent(shape, at) {
            return excluded(Stage::Recent);
        }
        if self.is_reserved(at) {
            return excluded(Stage::Reserved);
        }
        excluded(Stage::Together)
    }

    /// What the host never has enough of, even when idle.
    fn too_small(&self, shape: &Shape, least: &MinimumNeed, at: usize) -> Option<String> {
        let host = self.table.at(at);
        if host.slots < least.slots {
            return Some("slots".to_owned());
        }
        let items = shape.alternatives[0].parts[0]
            .rusage
            .iter()
            .zip(&least.amounts);
        let mut short = items.filter(|(item, need)| {
            let name = self.picture.resources.name(item.res);
            !self.picture.resources.is_shared(item.res)
                && self.is_reduced_by_reservations(name)
                && total(host, name, self.is_stated(name)).is_some_and(|all| all < **need)
        });
        let (item, _) = short.next()?;
        Some(self.picture.resources.name(item.res).to_owned())
    }

    /// Adds what the host could provide.
    fn add_amounts(&self, shape: &Shape, part: &RequestPart, at: usize, out: &mut Examination) {
        let usage = self.picture.usage.get(at);
        let free = u32::try_from(shape.free(usage).max(0)).unwrap_or(u32::MAX);
        out.free_one = out.free_one.max(free);
        out.free_all = out.free_all.saturating_add(free);
        for (item, room) in part.rusage.iter().zip(&mut out.amounts) {
            room.most_left = room.most_left.max(self.unreserved_amount(item, at));
        }
    }

    /// Adds what the host has when idle.
    fn note_idle_amounts(&self, at: usize, out: &mut Examination) {
        let host = self.table.at(at);
        out.slots_one = out.slots_one.max(host.slots);
        out.slots_all = out.slots_all.saturating_add(host.slots);
        for room in &mut out.amounts {
            let name = &room.resource;
            let all = total(host, name, self.is_stated(name))
                .filter(|_| self.is_reduced_by_reservations(name));
            room.most_idle = room.most_idle.max(all);
        }
    }

    fn no_amounts(&self, part: &RequestPart, slots: u32) -> Vec<AmountRoom> {
        let items = part.rusage.iter();
        let none = |item: &RusageItem| AmountRoom {
            resource: self.picture.resources.name(item.res).to_owned(),
            times: match item.per {
                RusagePer::Slot => slots,
                RusagePer::Host | RusagePer::Job => 1,
            },
            most_left: 0,
            most_idle: None,
        };
        items.map(none).collect()
    }

    fn shared_of(&self, shape: &Shape) -> Vec<String> {
        let names = &self.picture.resources;
        let items = shape.alternatives[0].rusage();
        let shared = items.filter(|item| names.is_shared(item.res));
        shared.map(|item| names.name(item.res).to_owned()).collect()
    }

    /// Everything that the host lacks, and by how much.
    fn unmet_needs(
        &self,
        pending: &PendingClass,
        least: &MinimumNeed,
        at: usize,
        stage: Stage,
    ) -> (f64, Vec<UnmetNeed>) {
        let shape = self.shape(pending.shape);
        let (host, usage) = (self.table.at(at), self.picture.usage.get(at));
        let (mut weight, mut out) = (0.0, Vec::new());
        let free = shape.free(usage).max(0);
        let measured = matches!(
            stage,
            Stage::TooSmall | Stage::Slots | Stage::Amount | Stage::Select
        );
        if !measured {
            weight += HARD;
            out.push(unmet_at(stage));
        }
        let facts = self.view().facts(shape, at);
        let select = shape.alternatives[0].parts[0].select.as_ref();
        for node in select.and_then(conditions).unwrap_or_default() {
            if !node.accepts(&facts) {
                weight += 1.0 + gap(node, &facts).min(1e3);
                out.push(unmet_select(node, &facts));
            }
        }
        let never = host.slots < least.slots;
        if free < i64::from(least.slots) {
            let has = if never { i64::from(host.slots) } else { free };
            weight += part_missing(i64::from(least.slots), has);
            let stage = if never { Stage::TooSmall } else { Stage::Slots };
            out.push(unmet_amount(
                stage,
                "slots",
                i64::from(least.slots) * 1000,
                has * 1000,
            ));
        }
        for (item, need) in shape.alternatives[0].parts[0]
            .rusage
            .iter()
            .zip(&least.amounts)
        {
            let name = self.picture.resources.name(item.res);
            let left = self.unreserved_amount(item, at).max(0);
            let all = total(host, name, self.is_stated(name))
                .filter(|_| self.is_reduced_by_reservations(name));
            let never = all.is_some_and(|all| all < *need);
            if left < *need {
                let (stage, has) = match (never, all) {
                    (true, Some(all)) => (Stage::TooSmall, all),
                    _ => (Stage::Amount, left),
                };
                weight += part_missing(*need, has);
                out.push(unmet_amount(stage, name, *need, has));
            }
        }
        out.truncate(UNMET_MAX);
        (weight, out)
    }
}

fn note_excluded(
    excluded: &mut Vec<ExcludedHosts>,
    (stage, resource): (Stage, String),
    host: &str,
) {
    let same = |known: &&mut ExcludedHosts| known.stage == stage && known.resource == resource;
    match excluded.iter_mut().find(same) {
        Some(known) => {
            known.hosts += 1;
            if known.first.len() < NAMED {
                known.first.push(host.to_owned());
            }
        }
        None => excluded.push(ExcludedHosts {
            stage,
            resource,
            hosts: 1,
            first: vec![host.to_owned()],
        }),
    }
}

/// The smallest share of the job that a single host has to provide.
pub(super) fn least(part: &RequestPart) -> MinimumNeed {
    let slots = match (part.spread.one_host(), part.spread.tile) {
        (true, _) => part.min.max(1),
        (false, tile) if tile > 0 => tile.min(part.min).max(1),
        _ => 1,
    };
    let amount = |item: &RusageItem| match item.per {
        RusagePer::Slot => item.amount.saturating_mul(i64::from(slots)),
        RusagePer::Host | RusagePer::Job => item.amount,
    };
    MinimumNeed {
        slots,
        amounts: part.rusage.iter().map(amount).collect(),
    }
}

/// The fraction of the need that is missing.
fn part_missing(need: i64, has: i64) -> f64 {
    1.0 + (need - has) as f64 / (need.max(1)) as f64
}

fn unmet_at(stage: Stage) -> UnmetNeed {
    UnmetNeed {
        stage,
        what: String::new(),
        need: String::new(),
        available: String::new(),
        need_milli: 0,
        has_milli: 0,
    }
}

fn unmet_amount(stage: Stage, what: &str, need: i64, has: i64) -> UnmetNeed {
    let (mut needs, mut has_text) = (amount_text(what, need), amount_text(what, has));
    if needs == has_text {
        // Rounded, they would look the same.
        (needs, has_text) = (format!("{}M", need / 1000), format!("{}M", has / 1000));
    }
    UnmetNeed {
        stage,
        what: what.to_owned(),
        need: needs,
        available: has_text,
        need_milli: need,
        has_milli: has,
    }
}

/// The host's exact value of the resource that a condition compares, not rounded.
fn has_exactly(node: &SelectExpr, facts: &impl HostFacts) -> Option<String> {
    match compared(node).and_then(|(name, ..)| Some((name, facts.number(name)?))) {
        Some((name, has)) => Some(format!(
            "{name} {}",
            amount_text(name, (has * 1000.0) as i64)
        )),
        None => has_text(node, facts),
    }
}

fn unmet_select(node: &SelectExpr, facts: &impl HostFacts) -> UnmetNeed {
    UnmetNeed {
        need: part_text(node),
        available: has_exactly(node, facts).unwrap_or_default(),
        ..unmet_at(Stage::Select)
    }
}
