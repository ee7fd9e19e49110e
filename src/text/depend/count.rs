//! Conditions on how many elements of an array are in a state: `numdone(7, >= 10)`.
//!
//! Owns the states that are counted and how a number of elements is compared.

use super::{Op, Seen};

/// States that elements are counted in.
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

/// With what a number of elements is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// `*`: it is that of all elements.
    All,
    /// With a number.
    Number(Op, u32),
    /// With so many of a hundred elements; `80%` alone asks for at least these.
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
    /// How many elements are counted now, and how many at least and at most may come to be.
    pub(super) fn range(self, seen: &Seen) -> (u64, u64, u64) {
        let open = seen.total() - seen.ended();
        let (now, most) = match self {
            Count::Done => (seen.done, seen.total() - seen.exit),
            Count::Ended => (seen.ended(), seen.total()),
            Count::Exit => (seen.exit, seen.total() - seen.done),
            Count::Hold => (seen.hold, open),
            Count::Pend => (seen.pend, open),
            Count::Run => (seen.run, open),
            Count::Start => (seen.run + seen.susp, open),
        };
        // Ends only add up, the other counts may fall again.
        let grows = matches!(self, Count::Done | Count::Ended | Count::Exit);
        (now, if grows { now } else { 0 }, most)
    }
}

impl Wanted {
    /// Whether `now` of `total` elements are as wanted, and whether any number from `least` to
    /// `most` is.
    pub(super) fn holds(self, now: u64, (least, most): (u64, u64), total: u64) -> (bool, bool) {
        let (scale, op, n) = match self {
            Wanted::All => (1, Op::Eq, total),
            Wanted::Number(op, n) => (1, op, n.into()),
            Wanted::Percent(op, n) => (100, op, total * u64::from(n)),
        };
        let reachable = reachable(op, n, (least, most), scale);
        (op.holds(now * scale, n), reachable)
    }
}

/// True when a number from `least` to `most`, times `scale`, compares to `n` as `op` says.
fn reachable(op: Op, n: u64, (least, most): (u64, u64), scale: u64) -> bool {
    let (low, high) = (least * scale, most * scale);
    match op {
        Op::Lt | Op::Le => op.holds(low, n),
        Op::Gt | Op::Ge => op.holds(high, n),
        Op::Eq => (low..=high).contains(&n) && n.is_multiple_of(scale),
        Op::Ne => low != n || high != n,
    }
}
