//! Units of this host in the form in which attempts are compared and the ledger stores them. Owns
//! this form.

use crate::model::{UnitCheck, WHOLE_UNIT};
use crate::record::order::TaskUnits;

/// Units in the form in which attempts are compared: `gpu 0`, or thousandths of a unit, `gpu 0
/// 250`, with amounts of its other resources, `gpu 0 250 gpu_mem=10240000`.
pub(super) fn names_of(units: &TaskUnits) -> Vec<String> {
    let mut out = Vec::new();
    for units in &units.list {
        for unit in units.held() {
            let name = unit.name;
            let mut text = match unit.part {
                WHOLE_UNIT.. if units.amounts.is_empty() => format!("{} {name}", units.res),
                part => format!("{} {name} {part}", units.res),
            };
            for (own, amount) in &units.amounts {
                let amount = amount.saturating_mul(i64::from(unit.times));
                text.push_str(&format!(" {own}={amount}"));
            }
            out.push(text);
        }
    }
    out
}

/// Resource and name of a unit, and thousandths of it. Neither contains a blank.
pub(super) fn read(unit: &str) -> (&str, &str, u32) {
    let mut words = unit.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (res, name, part) = (word(), word(), word());
    (res, name, part.parse().unwrap_or(WHOLE_UNIT))
}

/// The amounts of a unit's own resources, in thousandths.
pub(super) fn amounts(unit: &str) -> impl Iterator<Item = (&str, i64)> {
    let amount = |word: &'_ str| -> Option<i64> { word.parse().ok() };
    let words = unit.split(' ').skip(3);
    words.filter_map(move |word| {
        let (own, n) = word.split_once('=')?;
        Some((own, amount(n)?))
    })
}

/// Units that an attempt, or its part, has on this host.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnUnits<'a> {
    pub names: &'a [String],
    /// What happens if it uses other units.
    pub check: UnitCheck,
}

impl OwnUnits<'_> {
    /// Whether the unit is one of them (`gpu 0`).
    pub(super) fn has(self, unit: &str) -> bool {
        self.names.iter().any(|name| is_unit(name, unit))
    }
}

/// Whether a unit of an attempt (`gpu 0 250`) is this one (`gpu 0`).
fn is_unit(unit_name: &str, unit: &str) -> bool {
    let (res, name, _) = read(unit_name);
    unit.split_once(' ') == Some((res, name))
}
