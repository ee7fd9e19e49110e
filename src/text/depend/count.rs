//! Conditions on how many elements of an array are in a state: `numdone(7, >= 10)`.
//!
//! Owns the states that are counted, and the comparison of a number of elements.

use super::{ElementStates, Op};

/// States in which elements are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// Ended with success.
    Done,
    /// Ended.
    Ended,
    /// Ended without success.
    Exit,
    /// Held before the start.
    Hold,
    /// Pending.
    Pend,
    /// Running.
    Run,
    /// Running or suspended.
    Start,
}

/// The value with which a number of elements is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountValue {
    /// `*`: the number of all elements.
    All,
    /// A number.
    Number(Op, u32),
    /// A percentage of all elements; `80%` alone means at least this percentage.
    Percent(Op, u32),
}

/// Functions and what they count.
pub(super) const COUNTS: [(&str, Count); 7] = [
    ("numdone", Count::Done),
    ("numended", Count::Ended),
    ("numexit", Count::Exit),
    ("numhold", Count::Hold),
    ("numpend", Count::Pend),
    ("numrun", Count::Run),
    ("numstart", Count::Start),
];

impl Count {
    /// The number of elements that are counted now, and its possible minimum and maximum in the
    /// future.
    pub(super) fn range(self, states: &ElementStates) -> (u64, u64, u64) {
        let open = states.total() - states.ended();
        let (now, most) = match self {
            Count::Done => (states.done, states.total() - states.exit),
            Count::Ended => (states.ended(), states.total()),
            Count::Exit => (states.exit, states.total() - states.done),
            Count::Hold => (states.hold, open),
            Count::Pend => (states.pend, open),
            Count::Run => (states.run, open),
            Count::Start => (states.run + states.susp, open),
        };
        // The number of ended elements only grows; the other counts may fall again.
        let grows = matches!(self, Count::Done | Count::Ended | Count::Exit);
        (now, if grows { now } else { 0 }, most)
    }
}

impl CountValue {
    /// Whether `now` of `total` elements satisfy the comparison, and whether any number from
    /// `least` to `most` does.
    pub(super) fn holds(self, now: u64, (least, most): (u64, u64), total: u64) -> (bool, bool) {
        let (scale, op, n) = match self {
            CountValue::All => (1, Op::Eq, total),
            CountValue::Number(op, n) => (1, op, n.into()),
            CountValue::Percent(op, n) => (100, op, total * u64::from(n)),
        };
        let reachable = reachable(op, n, (least, most), scale);
        (op.holds(now * scale, n), reachable)
    }
}

/// True if a number from `least` to `most`, times `scale`, satisfies `op` with `n`.
fn reachable(op: Op, n: u64, (least, most): (u64, u64), scale: u64) -> bool {
    let (low, high) = (least * scale, most * scale);
    match op {
        Op::Lt | Op::Le => op.holds(low, n),
        Op::Gt | Op::Ge => op.holds(high, n),
        Op::Eq => (low..=high).contains(&n) && n.is_multiple_of(scale),
        Op::Ne => low != n || high != n,
    }
}
