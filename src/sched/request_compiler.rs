//! Compiles a merged requirement: the ways to meet it, in the order in which they are tried.
//!
//! Owns the order and the number of ways: the number of a way is what the journal keeps, so the
//! order never changes. What a way takes on a host is in `compiled_request.rs`.

use super::compiled_request::{RequestPart, RusageItem, RusagePer, Spread, UnitUse, Way};
use super::resource_names::ResourceNames;
use super::units::UNIT;
use crate::config::Config;
use crate::config::require::Request;
use crate::text::resreq::{self, Body, Select, SelectExpr, Simple, Usage};
use smallvec::SmallVec;

/// Maximum number of ways of a requirement.
const MAX_WAYS: usize = 250;

/// Compiles a merged requirement.
///
/// # Errors
/// Returns a sentence if the requirement has too many ways.
pub(super) fn compile(
    request: &Request,
    config: &Config,
    names: &mut ResourceNames,
) -> Result<Vec<Way>, String> {
    let mut ways = Vec::new();
    for alternative in &request.req.alternatives {
        let after_ms = u64::from(alternative.delay_s.unwrap_or(0)) * 1000;
        let choices = choices(&alternative.body);
        let total = choices.iter().map(|n| *n as u128).product::<u128>();
        if total + ways.len() as u128 > MAX_WAYS as u128 {
            return Err(format!(
                "its alternatives make more than {MAX_WAYS} combinations"
            ));
        }
        for number in 0..total as usize {
            let mut pick = Pick {
                number,
                config,
                names,
            };
            let mut way = pick.way(&alternative.body, request);
            way.after_ms = after_ms;
            way.plain = way.is_plain();
            let mut units = way.cu.iter().chain(way.parts.iter().flat_map(|p| &p.cu));
            way.units_alone = units.any(|cu| cu.excl);
            let units = way.rusage().any(|item| names.has_units(item.res));
            way.units = units;
            (way.needs, way.adds_up) = (way.least(), way.adds_up());
            ways.push(way);
        }
    }
    Ok(ways)
}

/// For each choice of a way its number of alternatives, the slowest-changing first, in the order in
/// which [`Pick`] takes them.
fn choices(body: &Body) -> Vec<usize> {
    let of = |s: &Simple| {
        let selects = s.select.as_ref().map_or(1, |s| s.alternatives.len());
        [selects.max(1), s.rusage.len().max(1)]
    };
    match body {
        Body::Simple(simple) => of(simple).to_vec(),
        Body::Groups { groups, common } => {
            let parts = groups.iter().flat_map(|g| {
                let merged = g.req.over(&hosts_part(common));
                of(&merged)
            });
            parts.chain([common.rusage.len().max(1)]).collect()
        }
    }
}

/// What common sections say about the hosts of each part.
fn hosts_part(common: &Simple) -> Simple {
    Simple {
        select: common.select.clone(),
        order: common.order.clone(),
        span: common.span,
        ..Simple::default()
    }
}

/// Builds one way.
struct Pick<'a> {
    /// The alternatives still to be picked, as a number in mixed base. The last choice is taken
    /// first, so that the first one changes slowest.
    number: usize,
    config: &'a Config,
    names: &'a mut ResourceNames,
}

impl Pick<'_> {
    fn one_of(&mut self, n: usize) -> usize {
        let n = n.max(1);
        let at = self.number % n;
        self.number /= n;
        at
    }

    fn way(&mut self, body: &Body, request: &Request) -> Way {
        match body {
            Body::Simple(simple) => {
                let mut part = self.part(simple, resreq::Per::Default);
                part.min = request.min.max(1);
                part.max = request.max.max(part.min);
                if part.max == 1 || part.spread.one_host() {
                    // On one host, per job and per host are the same, and the search is shorter.
                    let once = part.rusage.iter_mut().filter(|w| w.per == RusagePer::Job);
                    once.for_each(|item| item.per = RusagePer::Host);
                }
                Way {
                    parts: SmallVec::from_iter([part]),
                    ..Way::default()
                }
            }
            Body::Groups { groups, common } => {
                let which = self.one_of(common.rusage.len());
                let usages = common.rusage.get(which).map_or(&[][..], Vec::as_slice);
                let hosts = hosts_part(common);
                let mut parts: SmallVec<[RequestPart; 1]> = SmallVec::new();
                // Backwards, so that the choices of the first section change slowest.
                for group in groups.iter().rev() {
                    let merged = group.req.over(&hosts);
                    let mut part = self.part(&merged, resreq::Per::Task);
                    (part.min, part.max) = (group.slots, group.slots);
                    part.text = group.req.to_string();
                    parts.push(part);
                }
                parts.reverse();
                let mut way = Way {
                    parts,
                    same: common.same.clone(),
                    cu: common.cu.clone(),
                    ..Way::default()
                };
                self.common(&mut way, usages);
                way
            }
        }
    }

    fn part(&mut self, simple: &Simple, default: resreq::Per) -> RequestPart {
        let which = self.one_of(simple.rusage.len());
        let usages = simple.rusage.get(which).map_or(&[][..], Vec::as_slice);
        let node: Option<SelectExpr> = simple.select.as_ref().map(|select| {
            let at = self.one_of(select.alternatives.len());
            select.alternatives[at].clone()
        });
        let any_type = simple
            .select
            .as_ref()
            .is_some_and(Select::mentions_text_or_tag);
        RequestPart {
            any_type,
            select: node.map(|node| Select {
                alternatives: vec![node],
            }),
            order: simple.order.clone(),
            rusage: self.rusage_items(usages, default).into_iter().collect(),
            spread: Spread::of(simple.span),
            same: simple.same.clone(),
            cu: simple.cu.clone(),
            text: simple.to_string(),
            ..RequestPart::default()
        }
    }

    /// Amounts of the sections that apply to all parts; a part's own amount of a resource takes
    /// precedence.
    fn common(&mut self, way: &mut Way, usages: &[Usage]) {
        for item in self.rusage_items(usages, resreq::Per::Default) {
            // Resources of units go where the units go.
            let with = self.names.per_unit(item.res);
            let other = |own: &RusageItem| own.res != item.res && Some(own.res) != with;
            let free = |part: &&mut RequestPart| part.rusage.iter().all(other);
            let parts = way.parts.iter_mut().filter(free);
            match item.per {
                RusagePer::Slot => parts.for_each(|part| part.rusage.push(item)),
                RusagePer::Job => parts.take(1).for_each(|part| part.rusage.push(item)),
                RusagePer::Host => {
                    let bit = 1u64 << way.common.len().min(63);
                    parts.for_each(|part| part.common |= bit);
                    way.common.push(item);
                }
            }
        }
    }

    /// The amounts of one list; resources of units stay with the units.
    fn rusage_items(&mut self, usages: &[Usage], default: resreq::Per) -> Vec<RusageItem> {
        let usages = usages.iter().filter(|u| u.amount > 0);
        let mut items: Vec<RusageItem> = usages.map(|u| self.rusage_item(u, default)).collect();
        for at in 0..items.len() {
            let Some(unit) = self.names.per_unit(items[at].res) else {
                continue;
            };
            let (own, each) = (items[at].res, items[at].amount);
            let Some(of) = items.iter_mut().find(|item| item.res == unit) else {
                continue;
            };
            if let UnitUse::Units(beside) = &mut of.unit
                && let Some(free) = beside.iter_mut().find(|(_, n)| *n == 0)
            {
                *free = (own, each);
            }
            let (per, n) = (of.per, (of.amount / UNIT).max(1));
            let item = &mut items[at];
            (item.per, item.amount) = (per, each.saturating_mul(n));
            (item.life_ms, item.decay) = (None, false);
            item.unit = UnitUse::OfEach(each);
        }
        items
    }

    fn rusage_item(&mut self, usage: &Usage, default: resreq::Per) -> RusageItem {
        let per_slot = self.config.general.resource_reserve_per_task
            || self
                .config
                .hosts
                .resource(&usage.name)
                .is_some_and(|decl| decl.slotresource);
        let res = self.names.intern(&usage.name, self.config);
        let per = match (usage.per, default) {
            (resreq::Per::Default, resreq::Per::Task) => resreq::Per::Task,
            _ => usage.scope(per_slot, self.names.is_shared(res)),
        };
        // Units belong to the job until it ends.
        let ends = !self.names.has_units(res);
        RusageItem {
            res,
            amount: i64::try_from(usage.amount).unwrap_or(i64::MAX),
            per: match per {
                resreq::Per::Task => RusagePer::Slot,
                resreq::Per::Job => RusagePer::Job,
                resreq::Per::Host | resreq::Per::Default => RusagePer::Host,
            },
            life_ms: usage
                .duration_s
                .filter(|_| ends)
                .map(|s| u64::from(s) * 1000),
            decay: usage.decay && ends,
            unit: match ends {
                true => UnitUse::No,
                false => UnitUse::Units(Default::default()),
            },
        }
    }
}
