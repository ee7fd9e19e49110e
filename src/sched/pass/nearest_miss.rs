//! What a job lacks on the host that comes closest, and what no host of the cluster will ever have.
//! Texts for pending reasons; decides nothing.

use super::Pass;
use crate::config::ResourceValue;
use crate::model::{NearestHost, SelectMiss};
use crate::sched::compiled_request::{RequestPart, RusageItem, RusagePer, UnitUse};
use crate::sched::hosts::HostInfo;
use crate::sched::resource_names::{amount_text, is_size};
use crate::sched::shape::{Shape, UnmetCondition};
use crate::sched::units::UNIT;
use crate::text::resreq::{Direction, HostFacts, Op, Resources as _, Select, SelectExpr};

/// Maximum number of conditions of `select[]` that a reason repeats, and their total length.
const PARTS_MAX: usize = 3;
const PARTS_BYTES: usize = 200;

/// A measured value with two digits, so that a reason does not change with every sample.
fn value_text(resource: &str, value: f64) -> String {
    // Not by `log10`: all commands would load the library of mathematics at each start.
    let rounded: f64 = format!("{value:.1e}").parse().unwrap_or(value);
    match is_size(resource) {
        true => amount_text(resource, (rounded * 1000.0) as i64),
        false => ((rounded * 1000.0).round() / 1000.0).to_string(),
    }
}

impl Pass<'_> {
    /// Among the hosts that take jobs but lack a resource of `rusage[]`, the one that has the most
    /// of it.
    pub(super) fn nearest(&self, shape: &Shape, which: (usize, usize)) -> Option<NearestHost> {
        let view = self.view();
        let open = |at: &usize| {
            self.table.at(*at).obstacle().is_none() && shape.unmet(which, &view, *at).is_none()
        };
        let open: Vec<usize> = (0..self.table.count()).filter(open).collect();
        let mut items = shape.alternatives[which.0].parts[which.1].rusage.iter();
        items.find_map(|item| {
            // The first of equal hosts.
            let by_left = open
                .iter()
                .map(|at| (self.unreserved_amount(item, *at), *at));
            let (most, at) = by_left.max_by_key(|(n, at)| (*n, usize::MAX - at))?;
            let name = self.picture.resources.name(item.res);
            let text = |n: i64| amount_text(name, n);
            let need = of_one(item);
            (most < need).then(|| NearestHost {
                host: self.table.at(at).name.clone(),
                resource: name.to_owned(),
                need: text(need),
                left: text(most.max(0)),
            })
        })
    }

    /// What other jobs have not reserved of a resource on a host, in thousandths; of units those
    /// that are completely free, or the largest free part of one, as the request needs.
    pub(super) fn unreserved_amount(&self, item: &RusageItem, at: usize) -> i64 {
        let usage = self.picture.usage.get(at);
        let units = usage.units();
        match (item.unit, units) {
            (UnitUse::No, _) | (_, None) => usage.free_amount(item.res),
            (UnitUse::Units(_), Some(units)) if item.amount < UNIT => {
                units.free_of(item.res).max().unwrap_or(0)
            }
            (UnitUse::Units(_), Some(units)) => {
                let left = units.free_of(item.res);
                left.filter(|left| *left == UNIT).sum()
            }
            (UnitUse::OfEach(_), Some(units)) => units.largest_free(item.res).0,
        }
    }

    /// Whether reservations of the resource are subtracted from the host's amount.
    pub(super) fn is_reduced_by_reservations(&self, name: &str) -> bool {
        let def = self.config().find(name);
        def.is_some_and(|def| def.direction != Direction::Increase)
    }

    /// Why no host has what the request reserves, even when idle; `None`: some host may have it, by
    /// some alternative of the request.
    pub(super) fn never_enough(&self, shape: &Shape) -> Option<String> {
        let mut first = None;
        for (alt, compiled) in shape.alternatives.iter().enumerate() {
            let mut parts = compiled.parts.iter().enumerate();
            let why = parts.find_map(|(at, part)| self.never_on_any_host(shape, (alt, at), part));
            first.get_or_insert(why?);
        }
        first
    }

    fn never_on_any_host(
        &self,
        shape: &Shape,
        which: (usize, usize),
        part: &RequestPart,
    ) -> Option<String> {
        let mut items = part.rusage.iter();
        items.find_map(|item| self.missing_on_all_hosts(shape, which, (part, item)))
    }

    fn missing_on_all_hosts(
        &self,
        shape: &Shape,
        which: (usize, usize),
        (part, item): (&RequestPart, &RusageItem),
    ) -> Option<String> {
        let name = self.picture.resources.name(item.res);
        if !self.is_reduced_by_reservations(name) {
            return None;
        }
        // Slots that one host has to take together.
        let slots = match (item.per, part.spread.hosts_max, part.spread.tile) {
            (RusagePer::Slot, 1, _) => part.min.max(1),
            (RusagePer::Slot, _, tile) if tile > 0 => tile.min(part.min).max(1),
            _ => 1,
        };
        let slots = match item.unit {
            UnitUse::OfEach(_) => 1,
            UnitUse::Units(_) if item.amount < UNIT => 1,
            UnitUse::No | UnitUse::Units(_) => slots,
        };
        let need = of_one(item).saturating_mul(i64::from(slots));
        let view = self.view();
        let stated = self.is_stated(name);
        let mut largest: Option<(i64, usize)> = None;
        for (at, host) in self.table.iter().enumerate() {
            let unfit = shape.unmet(which, &view, at);
            let serves = !matches!(
                unfit,
                Some(UnmetCondition::NotInQueue | UnmetCondition::NotAsked)
            );
            if !serves || !host.entry.server {
                continue;
            }
            let total = total(host, name, stated)?;
            if total >= need {
                return None;
            }
            if largest.is_none_or(|(most, _)| total > most) {
                largest = Some((total, at));
            }
        }
        let (most, at) = largest?;
        let (need, most) = (amount_text(name, of_one(item)), amount_text(name, most));
        let together = match slots {
            1 => String::new(),
            n => format!(" for {n} slots on one host"),
        };
        let host = &self.table.at(at).name;
        Some(format!(
            "rusage[{name}={need}]{together}: no host has that much (largest {host}: {most})"
        ))
    }

    /// Whether cb.yaml states this resource for some host.
    pub(super) fn is_stated(&self, name: &str) -> bool {
        let mut hosts = self.table.iter();
        hosts.any(|host| host.entry.resources.contains_key(name))
    }

    /// Among the hosts that do not meet `select[]`, the one that comes nearest, and what it lacks.
    pub(super) fn nearest_select(
        &self,
        shape: &Shape,
        which: (usize, usize),
    ) -> Option<SelectMiss> {
        let select = shape.alternatives[which.0].parts[which.1].select.as_ref()?;
        let parts = conditions(select)?;
        let view = self.view();
        let mut best: Option<(usize, f64, usize)> = None;
        for at in 0..self.table.count() {
            let failing = shape.unmet(which, &view, at) == Some(UnmetCondition::Select)
                && self.table.at(at).obstacle().is_none();
            if !failing {
                continue;
            }
            let facts = view.facts(shape, at);
            let missed = parts.iter().filter(|part| !part.accepts(&facts));
            let (n, gap) = missed.fold((0, 0.0), |(n, sum), part| (n + 1, sum + gap(part, &facts)));
            let better = |(m, g, _): &(usize, f64, usize)| n < *m || n == *m && gap < *g;
            if best.as_ref().is_none_or(better) {
                best = Some((n, gap, at));
            }
        }
        let (_, _, at) = best?;
        let facts = view.facts(shape, at);
        let missed: Vec<&SelectExpr> = parts.into_iter().filter(|p| !p.accepts(&facts)).collect();
        let shown = missed.iter().take(PARTS_MAX);
        let mut part = shown
            .clone()
            .map(|p| part_text(p))
            .collect::<Vec<_>>()
            .join(" && ");
        if missed.len() > PARTS_MAX || part.len() > PARTS_BYTES {
            let end = (0..=PARTS_BYTES.min(part.len())).rev();
            part.truncate(
                end.into_iter()
                    .find(|n| part.is_char_boundary(*n))
                    .unwrap_or(0),
            );
            part.push_str(" ...");
        }
        let has: Vec<String> = shown.filter_map(|p| has_text(p, &facts)).collect();
        Some(SelectMiss {
            host: self.table.at(at).name.clone(),
            part,
            has: has.join(", "),
        })
    }
}

/// The amount of a resource that one slot, host or unit must have.
fn of_one(item: &RusageItem) -> i64 {
    match item.unit {
        UnitUse::OfEach(each) => each,
        UnitUse::No | UnitUse::Units(_) => item.amount,
    }
}

/// The whole amount of a resource that an idle host has, in thousandths. `None`: unknown. `stated`:
/// cb.yaml states the resource for some host.
pub(super) fn total(host: &HostInfo, name: &str, stated: bool) -> Option<i64> {
    let milli = |n: f64| (n * 1000.0).round() as i64;
    match host.entry.resources.get(name) {
        Some(ResourceValue::Number(n)) => return Some(milli(*n)),
        Some(ResourceValue::Units(names)) => return Some(milli(names.len() as f64)),
        Some(ResourceValue::Sizes(_)) => return host.number(name).map(milli),
        Some(ResourceValue::Text(_)) | None => {}
    }
    let load = &host.load;
    let whole = |n: u64| (load.ncpus > 0 && n > 0).then(|| milli(n as f64));
    match name {
        "mem" => whole(load.maxmem),
        "swp" | "swap" => whole(load.maxswp),
        "tmp" => whole(load.maxtmp),
        _ => {
            // Neither cb.yaml nor a sensor gives a value for this host.
            let absent = load.ncpus > 0 && host.number(name).is_none();
            (absent && stated).then_some(0)
        }
    }
}

/// The conditions that must all hold; `None` if one of several lists is enough.
pub(super) fn conditions(select: &Select) -> Option<Vec<&SelectExpr>> {
    match &select.alternatives[..] {
        [SelectExpr::And(parts)] => Some(parts.iter().collect()),
        [one] => Some(vec![one]),
        _ => None,
    }
}

/// A comparison of a resource with a number.
pub(super) fn compared(node: &SelectExpr) -> Option<(&str, Op, f64)> {
    let SelectExpr::Compare(left, op, right) = node else {
        return None;
    };
    match (&**left, &**right) {
        (SelectExpr::Value(name), SelectExpr::Number(n)) => Some((name, *op, *n)),
        _ => None,
    }
}

/// How far a condition is from being met, as a fraction of the requested value.
pub(super) fn gap(node: &SelectExpr, facts: &impl HostFacts) -> f64 {
    let value = compared(node).and_then(|(name, _, n)| Some((facts.number(name)?, n)));
    value.map_or(1e9, |(has, n)| (has - n).abs() / n.abs().max(1e-9))
}

pub(super) fn part_text(node: &SelectExpr) -> String {
    match compared(node) {
        Some((name, op, n)) if is_size(name) => {
            format!(
                "{name} {} {}",
                op.sign(),
                amount_text(name, (n * 1000.0) as i64)
            )
        }
        _ => node.to_string(),
    }
}

/// The host's value of the resource that a condition requests.
pub(super) fn has_text(node: &SelectExpr, facts: &impl HostFacts) -> Option<String> {
    if let Some((name, ..)) = compared(node) {
        return Some(match facts.number(name) {
            Some(has) => format!("{name} {}", value_text(name, has)),
            None => format!("no {name}"),
        });
    }
    match node {
        SelectExpr::Text { name, .. } => Some(match facts.text(name) {
            Some(has) => format!("{name} {has}"),
            None => format!("no {name}"),
        }),
        SelectExpr::Tag(name) | SelectExpr::Defined(name) | SelectExpr::Value(name) => {
            Some(format!("no {name}"))
        }
        _ => None,
    }
}
