//! Compiles a merged requirement: its alternatives, in the order in which they are tried.
//!
//! Owns the order and the number of alternatives: the number of an alternative is what the journal
//! keeps, so the order never changes. What an alternative takes on a host is in
//! `compiled_request.rs`.

use super::compiled_request::{Alternative, RequestPart, RusageItem, RusagePer, Spread, UnitUse};
use super::resource_names::ResourceNames;
use super::units::UNIT;
use crate::config::Config;
use crate::config::require::Request;
use crate::text::resreq::{self, Body, Select, SelectExpr, Simple, Usage};
use smallvec::SmallVec;

/// Maximum number of alternatives of a requirement.
const MAX_ALTERNATIVES: usize = 250;

/// Compiles a merged requirement.
///
/// # Errors
/// Returns a sentence if the requirement has too many alternatives.
pub(super) fn compile(
    request: &Request,
    config: &Config,
    names: &mut ResourceNames,
) -> Result<Vec<Alternative>, String> {
    let mut alternatives = Vec::new();
    for written in &request.req.alternatives {
        let after_ms = u64::from(written.delay_s.unwrap_or(0)) * 1000;
        let choices = choices(&written.body);
        let total = choices.iter().map(|n| *n as u128).product::<u128>();
        if total + alternatives.len() as u128 > MAX_ALTERNATIVES as u128 {
            return Err(format!(
                "its alternatives make more than {MAX_ALTERNATIVES} combinations"
            ));
        }
        for number in 0..total as usize {
            let mut builder = AlternativeBuilder {
                number,
                config,
                names,
            };
            let mut alternative = builder.alternative(&written.body, request);
            alternative.after_ms = after_ms;
            alternative.is_plain = alternative.is_plain();
            let mut units = alternative
                .cu
                .iter()
                .chain(alternative.parts.iter().flat_map(|p| &p.cu));
            alternative.compute_units_alone = units.any(|cu| cu.excl);
            let units = alternative.rusage().any(|item| names.has_units(item.res));
            alternative.units = units;
            (alternative.needs, alternative.adds_up) =
                (alternative.least(), alternative.may_add_up());
            alternatives.push(alternative);
        }
    }
    Ok(alternatives)
}

/// For each choice that an alternative makes its number of options, the slowest-changing first, in
/// the order in which [`AlternativeBuilder`] takes them.
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

/// Builds one alternative.
struct AlternativeBuilder<'a> {
    /// The options still to be picked, as a number in mixed base. The last choice is taken
    /// first, so that the first one changes slowest.
    number: usize,
    config: &'a Config,
    names: &'a mut ResourceNames,
}

impl AlternativeBuilder<'_> {
    fn one_of(&mut self, n: usize) -> usize {
        let n = n.max(1);
        let at = self.number % n;
        self.number /= n;
        at
    }

    fn alternative(&mut self, body: &Body, request: &Request) -> Alternative {
        match body {
            Body::Simple(simple) => {
                let mut part = self.part(simple, resreq::AmountScope::Default);
                part.min = request.min.max(1);
                part.max = request.max.max(part.min);
                if part.max == 1 || part.spread.one_host() {
                    // On one host, per job and per host are the same, and the search is shorter.
                    let once = part.rusage.iter_mut().filter(|w| w.per == RusagePer::Job);
                    once.for_each(|item| item.per = RusagePer::Host);
                }
                Alternative {
                    parts: SmallVec::from_iter([part]),
                    ..Alternative::default()
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
                    let mut part = self.part(&merged, resreq::AmountScope::Task);
                    (part.min, part.max) = (group.slots, group.slots);
                    part.text = group.req.to_string();
                    parts.push(part);
                }
                parts.reverse();
                let mut alternative = Alternative {
                    parts,
                    same: common.same.clone(),
                    cu: common.cu.clone(),
                    ..Alternative::default()
                };
                self.common(&mut alternative, usages);
                alternative
            }
        }
    }

    fn part(&mut self, simple: &Simple, default: resreq::AmountScope) -> RequestPart {
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
    fn common(&mut self, alternative: &mut Alternative, usages: &[Usage]) {
        for item in self.rusage_items(usages, resreq::AmountScope::Default) {
            // Resources of units go where the units go.
            let with = self.names.per_unit(item.res);
            let other = |own: &RusageItem| own.res != item.res && Some(own.res) != with;
            let free = |part: &&mut RequestPart| part.rusage.iter().all(other);
            let parts = alternative.parts.iter_mut().filter(free);
            match item.per {
                RusagePer::Slot => parts.for_each(|part| part.rusage.push(item)),
                RusagePer::Job => parts.take(1).for_each(|part| part.rusage.push(item)),
                RusagePer::Host => {
                    let bit = 1u64 << alternative.common.len().min(63);
                    parts.for_each(|part| part.common |= bit);
                    alternative.common.push(item);
                }
            }
        }
    }

    /// The amounts of one list; resources of units stay with the units.
    fn rusage_items(&mut self, usages: &[Usage], default: resreq::AmountScope) -> Vec<RusageItem> {
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
            if let UnitUse::Units(amounts) = &mut of.unit
                && let Some(free) = amounts.iter_mut().find(|(_, n)| *n == 0)
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

    fn rusage_item(&mut self, usage: &Usage, default: resreq::AmountScope) -> RusageItem {
        let per_slot = self.config.general.resource_reserve_per_task
            || self
                .config
                .hosts
                .resource(&usage.name)
                .is_some_and(|decl| decl.slotresource);
        let res = self.names.intern(&usage.name, self.config);
        let per = match (usage.per, default) {
            (resreq::AmountScope::Default, resreq::AmountScope::Task) => resreq::AmountScope::Task,
            _ => usage.scope(per_slot, self.names.is_shared(res)),
        };
        // Units belong to the job until it ends.
        let ends = !self.names.has_units(res);
        RusageItem {
            res,
            amount: i64::try_from(usage.amount).unwrap_or(i64::MAX),
            per: match per {
                resreq::AmountScope::Task => RusagePer::Slot,
                resreq::AmountScope::Job => RusagePer::Job,
                resreq::AmountScope::Host | resreq::AmountScope::Default => RusagePer::Host,
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
