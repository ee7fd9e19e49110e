//! A set of array indices kept as ranges: `1-10:2,15`.
//!
//! Owns the compact form of the pending elements of job arrays: memory grows with the number of
//! ranges, not of elements, and every change costs O(log ranges).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::ParseError;

/// Maximum index of an array element.
pub const MAX_INDEX: u32 = i32::MAX.cast_unsigned();
/// Maximum total number of elements of stepped ranges that cross other ranges; such ranges are
/// split into single elements.
const MAX_CROSSED: u64 = 1_000_000;

/// Indices of one arithmetic sequence: first, first+step, ..., last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Smallest index.
    pub first: u32,
    /// Largest index, `first` plus a multiple of `step`.
    pub last: u32,
    /// At least 1.
    pub step: u32,
}

impl Range {
    fn new(first: u32, last: u32, step: u32) -> Range {
        let last = last - (last - first) % step;
        Range {
            first,
            last,
            step: if first == last { 1 } else { step },
        }
    }

    /// Number of indices, at least 1.
    pub fn count(&self) -> u64 {
        u64::from((self.last - self.first) / self.step) + 1
    }

    /// True if `index` is in the sequence.
    pub fn contains(&self, index: u32) -> bool {
        index >= self.first && index <= self.last && (index - self.first).is_multiple_of(self.step)
    }

    /// The indices in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<> {
        (self.first..=self.last).step_by(self.step as usize)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first == self.last, self.step) {
            (true, _) => write!(f, "{}", self.first),
            (false, 1) => write!(f, "{}-{}", self.first, self.last),
            (false, step) => write!(f, "{}-{}:{step}", self.first, self.last),
        }
    }
}

/// A set of indices.
///
/// ```
/// use corral::text::IndexSet;
/// let mut pending: IndexSet = "1-1000000".parse().unwrap();
/// assert_eq!(pending.pop_first(), Some(1));
/// pending.remove(500);
/// assert_eq!(pending.len(), 999_998);
/// assert_eq!(pending.to_string(), "2-499,501-1000000");
/// ```
#[derive(Clone, Default)]
pub struct IndexSet {
    /// First index of each range to its last index and step. The spans never overlap, and two
    /// ranges of step 1 never touch, so the same changes always give the same text.
    ranges: BTreeMap<u32, (u32, u32)>,
    len: u64,
}

impl IndexSet {
    /// The empty set.
    pub fn new() -> IndexSet {
        IndexSet::default()
    }

    /// The indices `first` to `last`.
    pub fn from_range(first: u32, last: u32) -> IndexSet {
        let mut set = IndexSet::new();
        if first <= last {
            set.put(Range::new(first, last, 1));
        }
        set
    }

    /// Number of indices.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The ranges in ascending order.
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = Range> + '_ {
        self.ranges
            .iter()
            .map(|(&first, &(last, step))| Range { first, last, step })
    }

    /// Number of ranges: the cost of the set.
    pub fn range_count(&self) -> usize {
        self.ranges.len()
    }

    /// The indices in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges().flat_map(|r| r.iter())
    }

    /// The smallest index.
    pub fn first(&self) -> Option<u32> {
        self.ranges.first_key_value().map(|(first, _)| *first)
    }

    /// The largest index.
    pub fn last(&self) -> Option<u32> {
        self.ranges.last_key_value().map(|(_, (last, _))| *last)
    }

    /// The smallest index that is at least `from`.
    pub fn first_from(&self, from: u32) -> Option<u32> {
        if let Some(r) = self.range_at(from)
            && from <= r.last
        {
            let steps = (from - r.first).div_ceil(r.step);
            return Some(r.first + steps * r.step);
        }
        self.ranges.range(from..).next().map(|(first, _)| *first)
    }

    /// True if `index` is in the set.
    pub fn contains(&self, index: u32) -> bool {
        self.range_at(index).is_some_and(|r| r.contains(index))
    }

    /// Adds `index`; false if it was in the set.
    pub fn insert(&mut self, index: u32) -> bool {
        let Some(r) = self.range_at(index).filter(|r| index <= r.last) else {
            self.put(Range::new(index, index, 1));
            return true;
        };
        if r.contains(index) {
            return false;
        }
        let below = index - (index - r.first) % r.step;
        self.drop_range(r);
        self.put(Range::new(r.first, below, r.step));
        self.put(Range::new(below + r.step, r.last, r.step));
        self.put(Range::new(index, index, 1));
        true
    }

    /// Removes `index`; false if it was not in the set.
    pub fn remove(&mut self, index: u32) -> bool {
        let Some(r) = self.range_at(index).filter(|r| r.contains(index)) else {
            return false;
        };
        self.drop_range(r);
        if index > r.first {
            self.put(Range::new(r.first, index - r.step, r.step));
        }
        if index < r.last {
            self.put(Range::new(index + r.step, r.last, r.step));
        }
        true
    }

    /// Removes and returns the smallest index.
    pub fn pop_first(&mut self) -> Option<u32> {
        let first = self.first()?;
        self.remove(first);
        Some(first)
    }

    /// Removes all indices of `first..=last`; the cost depends on the number of affected ranges.
    pub fn remove_range(&mut self, first: u32, last: u32) {
        if first > last {
            return;
        }
        let from = self.range_at(first).map_or(first, |r| r.first);
        let touched: Vec<Range> = self
            .ranges
            .range(from..=last)
            .map(|(&first, &(last, step))| Range { first, last, step })
            .filter(|r| r.last >= first)
            .collect();
        for r in touched {
            self.drop_range(r);
            if r.first < first {
                self.put(Range::new(r.first, first - 1, r.step));
            }
            if r.last > last {
                let steps = (last + 1).saturating_sub(r.first).div_ceil(r.step);
                self.put(Range::new(r.first + steps * r.step, r.last, r.step));
            }
        }
    }

    /// Adds the indices of `other`.
    pub fn union(&mut self, other: &IndexSet) {
        for r in other.ranges() {
            self.insert_range(r);
        }
    }

    /// Removes the indices of `other`.
    pub fn subtract(&mut self, other: &IndexSet) {
        for r in other.ranges() {
            if r.step == 1 {
                self.remove_range(r.first, r.last);
            } else {
                r.iter().for_each(|i| {
                    self.remove(i);
                });
            }
        }
    }

    /// The indices that are in both sets.
    pub fn intersection(&self, other: &IndexSet) -> IndexSet {
        let mut outside = self.clone();
        outside.subtract(other);
        let mut both = self.clone();
        both.subtract(&outside);
        both
    }

    /// Adds a sequence of indices.
    pub fn insert_range(&mut self, r: Range) {
        if !self.crosses(r) {
            self.put(r);
        } else if r.step == 1 {
            self.remove_range(r.first, r.last);
            self.put(r);
        } else {
            for index in r.iter() {
                self.insert(index);
            }
        }
    }

    /// Parses `1-10:2,15` with indices from `low` to `high`; the empty text is the empty set.
    /// Linear in the text; ranges may come in any order and overlap.
    ///
    /// # Errors
    /// Names the index or range that is wrong or out of bounds, with its column.
    pub fn parse(text: &str, low: u32, high: u32) -> Result<IndexSet, ParseError> {
        const HINT: &str = "write for example 1-10:2,15";
        let mut set = IndexSet::new();
        let mut crossed = 0u64;
        let mut at = 0;
        if text.is_empty() {
            return Ok(set);
        }
        for part in text.split(',') {
            let r = parse_range(part, low, high).map_err(|e| e.shifted(at))?;
            if r.step > 1 && set.crosses(r) {
                crossed += r.count();
                if crossed > MAX_CROSSED {
                    let message = "too many elements in stepped ranges that overlap";
                    return Err(ParseError::new(at, part.len(), message).hint(HINT));
                }
            }
            set.insert_range(r);
            at += part.len() + 1;
        }
        Ok(set)
    }

    /// The range with the largest first index that is at most `index`.
    fn range_at(&self, index: u32) -> Option<Range> {
        let (&first, &(last, step)) = self.ranges.range(..=index).next_back()?;
        Some(Range { first, last, step })
    }

    /// True if the span of `r` overlaps the span of a range of the set.
    fn crosses(&self, r: Range) -> bool {
        self.range_at(r.last)
            .is_some_and(|other| other.last >= r.first)
    }

    fn drop_range(&mut self, r: Range) {
        self.ranges.remove(&r.first);
        self.len -= r.count();
    }

    /// Adds a range whose span is free; joins it with adjacent ranges of step 1.
    fn put(&mut self, mut r: Range) {
        if r.step == 1 {
            if let Some(below) = r.first.checked_sub(1).and_then(|i| self.range_at(i))
                && below.step == 1
                && below.last + 1 == r.first
            {
                self.drop_range(below);
                r.first = below.first;
            }
            if let Some(next) = r.last.checked_add(1)
                && let Some(&(last, 1)) = self.ranges.get(&next)
            {
                self.drop_range(Range {
                    first: next,
                    last,
                    step: 1,
                });
                r.last = last;
            }
        }
        self.ranges.insert(r.first, (r.last, r.step));
        self.len += r.count();
    }
}

/// Parses one `start[-end[:step]]`.
fn parse_range(text: &str, low: u32, high: u32) -> Result<Range, ParseError> {
    const HINT: &str = "write start, start-end or start-end:step";
    let (span, step) = match text.split_once(':') {
        Some((span, step)) => (span, Some(step)),
        None => (text, None),
    };
    let (first, last) = match span.split_once('-') {
        Some((first, last)) => (first, Some(last)),
        None => (span, None),
    };
    if let (Some(_), None) = (step, last) {
        return Err(ParseError::new(span.len(), 1, "a step needs a range").hint(HINT));
    }
    let first_index = index(first, 0, low, high).map_err(|e| e.hint(HINT))?;
    let last_index = match last {
        None => first_index,
        Some(last) => index(last, first.len() + 1, low, high).map_err(|e| e.hint(HINT))?,
    };
    let step = match step {
        None => 1,
        Some(step) => index(step, span.len() + 1, 1, MAX_INDEX).map_err(|e| e.hint(HINT))?,
    };
    if last_index < first_index {
        return Err(
            ParseError::new(0, span.len(), format!("{span} is a descending range"))
                .hint(format!("write {last_index}-{first_index}")),
        );
    }
    Ok(Range::new(first_index, last_index, step))
}

/// A decimal number between `low` and `high`; `at` is its position, for the error.
pub(super) fn index(text: &str, at: usize, low: u32, high: u32) -> Result<u32, ParseError> {
    if text.is_empty() {
        return Err(ParseError::new(at, 0, "a number is missing"));
    }
    if let Some(bad) = text.find(|c: char| !c.is_ascii_digit()) {
        let len = text[bad..].chars().next().map_or(0, char::len_utf8);
        let shown = super::width::escape(&text[bad..bad + len]).into_owned();
        return Err(ParseError::new(
            at + bad,
            len,
            format!("'{shown}' is not a digit"),
        ));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(ParseError::new(
            at,
            text.len(),
            "a number has no leading zeros",
        ));
    }
    let value = text
        .parse::<u32>()
        .ok()
        .filter(|v| (low..=high).contains(v));
    value.ok_or_else(|| {
        let shown = &text[..text.len().min(24)];
        ParseError::new(at, text.len(), format!("{shown} is not in {low} to {high}"))
    })
}

impl PartialEq for IndexSet {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && (self.ranges == other.ranges || self.iter().eq(other.iter()))
    }
}

impl Eq for IndexSet {}

impl fmt::Display for IndexSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, r) in self.ranges().enumerate() {
            if n > 0 {
                f.write_str(",")?;
            }
            write!(f, "{r}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for IndexSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexSet({self})")
    }
}

impl FromStr for IndexSet {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        IndexSet::parse(text, 0, MAX_INDEX)
    }
}

impl FromIterator<u32> for IndexSet {
    fn from_iter<I: IntoIterator<Item = u32>>(indices: I) -> Self {
        let mut set = IndexSet::new();
        for index in indices {
            set.insert(index);
        }
        set
    }
}

super::serde_by_text!(IndexSet, str::parse::<IndexSet>);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn set(text: &str) -> IndexSet {
        text.parse().expect(text)
    }

    #[test]
    fn overlapping_input_is_a_set() {
        assert_eq!(set("1-9:2,2-10:2").to_string(), "1-10");
        assert_eq!(set("5,1-3,2-4").to_string(), "1-5");
        assert_eq!(set("1-10:20").to_string(), "1");
        assert_eq!(set("3-10:3").to_string(), "3-9:3");
    }

    #[test]
    fn wrong_ranges_are_refused() {
        for bad in [
            "5-1",
            "1-5:0",
            "1:2",
            "-1",
            "1-",
            "a",
            "1,,2",
            ",",
            "007",
            "1-2-3",
            "4294967296",
            "1-5:",
            "2147483648",
            "1-3:2:1",
            " 1",
        ] {
            assert!(bad.parse::<IndexSet>().is_err(), "{bad}");
        }
        assert!(IndexSet::parse("0", 1, 9).is_err() && IndexSet::parse("10", 1, 9).is_err());
        let crossing = "1-2147483647:2,2-2147483646:2";
        assert!(crossing.parse::<IndexSet>().is_err());
    }

    #[test]
    fn a_million_elements_stay_one_range() {
        let mut s = set("1-1000000");
        for expect in 1..=200_000 {
            assert_eq!(s.pop_first(), Some(expect));
        }
        assert_eq!((s.range_count(), s.len()), (1, 800_000));
        s.insert(7);
        s.union(&set("1-6,8-200000"));
        assert_eq!(s.to_string(), "1-1000000");
        s.subtract(&set("10-19,100-199:9"));
        assert_eq!(s.len(), 1_000_000 - 10 - 12);
        assert_eq!(s.intersection(&set("9-21")).to_string(), "9,20-21");
        assert_eq!(
            (s.first_from(10), s.first_from(2_000_000)),
            (Some(20), None)
        );
        assert_eq!(set("5-25:10").first_from(6), Some(15));
    }

    #[test]
    fn serde_uses_the_text() {
        let s = set("1-10:2,15");
        let json = serde_json::to_string(&s).expect("serializes");
        assert_eq!(json, "\"1-10:2,15\"".replace("10:2", "9:2"));
        assert_eq!(serde_json::from_str::<IndexSet>(&json).expect("reads"), s);
        assert_eq!(
            serde_json::from_str::<IndexSet>("\"\"").expect("reads"),
            IndexSet::new()
        );
    }

    #[derive(Debug, Clone)]
    enum Operation {
        Insert(u32),
        Remove(u32),
        RemoveRange(u32, u32),
        Row(u32, u32, u32),
        Pop,
    }

    fn act() -> impl Strategy<Value = Operation> {
        prop_oneof![
            (0u32..60).prop_map(Operation::Insert),
            (0u32..60).prop_map(Operation::Remove),
            (0u32..60, 0u32..20).prop_map(|(a, n)| Operation::RemoveRange(a, a + n)),
            (0u32..60, 0u32..30, 1u32..5).prop_map(|(a, n, s)| Operation::Row(a, a + n, s)),
            Just(Operation::Pop),
        ]
    }

    proptest! {
        #![proptest_config(super::super::cases())]
        #[test]
        fn behaves_like_a_plain_set(acts in proptest::collection::vec(act(), 0..40)) {
            let mut set = IndexSet::new();
            let mut plain = BTreeSet::new();
            for a in acts {
                match a {
                    Operation::Insert(i) => prop_assert_eq!(set.insert(i), plain.insert(i)),
                    Operation::Remove(i) => prop_assert_eq!(set.remove(i), plain.remove(&i)),
                    Operation::RemoveRange(a, b) => {
                        set.remove_range(a, b);
                        plain.retain(|i| *i < a || *i > b);
                    }
                    Operation::Row(a, b, s) => {
                        set.insert_range(Range::new(a, b, s));
                        plain.extend((a..=b).step_by(s as usize));
                    }
                    Operation::Pop => prop_assert_eq!(set.pop_first(), plain.pop_first()),
                }
                prop_assert!(set.iter().eq(plain.iter().copied()));
                prop_assert_eq!(set.len(), plain.len() as u64);
                prop_assert_eq!(set.last(), plain.last().copied());
                for i in 0..95 {
                    prop_assert_eq!(set.contains(i), plain.contains(&i));
                    prop_assert_eq!(set.first_from(i), plain.range(i..).next().copied());
                }
                // The text restores exactly the same ranges: a restart changes nothing.
                let text = set.to_string();
                let read: IndexSet = text.parse().expect("prints what it reads");
                prop_assert_eq!(read.ranges, set.ranges.clone());
            }
        }

        #[test]
        fn never_panics(s in ".{0,40}", t in "[0-9:,-]{0,30}") {
            let _ = s.parse::<IndexSet>();
            let _ = IndexSet::parse(&t, 1, 1000);
        }
    }
}
