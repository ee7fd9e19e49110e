//! Host lists: `node[01-64]`, `n[1-3,7]`, `r[1-2]n[01-16]`.
//!
//! Owns expanding and folding. Never knows which hosts exist.

use super::{ErrorKind, ParseError, names};

/// Maximum number of hosts in a list.
pub const MAX_HOSTS: usize = 100_000;

const MAX_TEXT: usize = 64 * 1024;
/// Maximum number of bracket groups in a word.
const MAX_GROUPS: usize = 8;
const HINT: &str = "write for example node[01-64] or n[1-3,7]";

/// Expands words separated by blanks or commas; a word without brackets is one host. Order and
/// duplicate names are kept.
///
/// ```
/// use corral::text::hostlist::{expand, fold};
/// let hosts = expand("n[08-10],gw").unwrap();
/// assert_eq!(hosts, ["n08", "n09", "n10", "gw"]);
/// assert_eq!(fold(&hosts), "n[08-10],gw");
/// ```
///
/// # Errors
/// A range is not closed or runs backwards, there is no host, or there are more than the limits
/// allow.
pub fn expand(text: &str) -> Result<Vec<String>, ParseError> {
    if text.len() > MAX_TEXT {
        return Err(ParseError::too_long("host list", MAX_TEXT, text.len()));
    }
    let mut hosts = Vec::new();
    for (at, word) in split(text) {
        expand_word(word, &mut hosts).map_err(|e| e.shifted(at))?;
    }
    if hosts.is_empty() {
        return Err(ParseError::new(0, text.len(), "a host name is missing").hint(HINT));
    }
    Ok(hosts)
}

/// Words of `text` with their byte offsets, separated by blanks and commas outside brackets.
pub fn split(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut start = None;
    let mut inside = false;
    for (at, c) in text.char_indices() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
        let parts = !inside && (c == ',' || c.is_ascii_whitespace());
        match (start, parts) {
            (None, false) => start = Some(at),
            (Some(from), true) => {
                words.push((from, &text[from..at]));
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        words.push((from, &text[from..]));
    }
    words
}

/// A piece of a word: literal text, or the numbers of one bracket as (low, high, width).
enum Piece<'a> {
    Plain(&'a str),
    Numbers(Vec<(u64, u64, usize)>),
}

impl Piece<'_> {
    fn count(&self) -> u64 {
        match self {
            Piece::Plain(_) => 1,
            Piece::Numbers(ranges) => ranges
                .iter()
                .fold(0, |n, (low, high, _)| n.saturating_add(high - low + 1)),
        }
    }
}

fn expand_word(word: &str, hosts: &mut Vec<String>) -> Result<(), ParseError> {
    let pieces = pieces(word)?;
    let count = pieces.iter().fold(1u64, |n, p| n.saturating_mul(p.count()));
    if count.saturating_add(hosts.len() as u64) > MAX_HOSTS as u64 {
        let message = format!("the list has more than {MAX_HOSTS} hosts");
        return Err(ParseError::new(0, word.len(), message).kind(ErrorKind::TooMany));
    }
    // Each name contains all of the literal text: check the length before creating a hundred
    // thousand names.
    let plain = pieces.iter().map(|p| match p {
        Piece::Plain(text) => text.len(),
        Piece::Numbers(_) => 0,
    });
    let plain: usize = plain.sum();
    if pieces.len() > 1 && plain > names::MAX_NAME {
        return Err(ParseError {
            len: word.len(),
            at: 0,
            ..ParseError::too_long("name", names::MAX_NAME, plain)
        });
    }
    let mut made = vec![String::new()];
    for piece in &pieces {
        match piece {
            Piece::Plain(text) => made.iter_mut().for_each(|m| m.push_str(text)),
            Piece::Numbers(ranges) => {
                let numbers = ranges.iter().flat_map(|&(low, high, width)| {
                    (low..=high).map(move |n| format!("{n:0width$}"))
                });
                let numbers: Vec<String> = numbers.collect();
                made = made
                    .iter()
                    .flat_map(|m| numbers.iter().map(move |n| format!("{m}{n}")))
                    .collect();
            }
        }
    }
    for name in made {
        names::check_name(&name).map_err(|mut e| {
            if pieces.len() > 1 {
                (e.at, e.len) = (0, word.len());
            }
            e
        })?;
        hosts.push(name);
    }
    Ok(())
}

fn pieces(word: &str) -> Result<Vec<Piece<'_>>, ParseError> {
    let mut pieces = Vec::new();
    let mut at = 0;
    let mut groups = 0;
    while at < word.len() {
        let rest = &word[at..];
        let open = rest.find(['[', ']']).unwrap_or(rest.len());
        if open > 0 {
            pieces.push(Piece::Plain(&rest[..open]));
            at += open;
            continue;
        }
        if rest.starts_with(']') {
            return Err(ParseError::new(at, 1, "']' without '['").hint(HINT));
        }
        groups += 1;
        if groups > MAX_GROUPS {
            let error = ParseError::new(at, 1, format!("more than {MAX_GROUPS} brackets"));
            return Err(error.kind(ErrorKind::TooMany));
        }
        let close = rest
            .find(']')
            .ok_or_else(|| ParseError::new(word.len(), 0, "']' is missing").hint(HINT))?;
        pieces.push(Piece::Numbers(
            numbers(&rest[1..close]).map_err(|e| e.shifted(at + 1))?,
        ));
        at += close + 1;
    }
    Ok(pieces)
}

fn numbers(text: &str) -> Result<Vec<(u64, u64, usize)>, ParseError> {
    let mut ranges = Vec::new();
    let mut at = 0;
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let low_number = number(low, at)?;
        let high_number = number(high, at + part.len() - high.len())?;
        if low_number > high_number {
            return Err(
                ParseError::new(at, part.len(), format!("{part} is a descending range"))
                    .hint(format!("write {high}-{low}")),
            );
        }
        let padded = low.starts_with('0') || high.starts_with('0');
        if padded && low.len() != high.len() {
            return Err(ParseError::new(
                at,
                part.len(),
                "both ends need the same number of digits",
            )
            .hint(format!("write {low_number:0w$}-{high}", w = high.len())));
        }
        ranges.push((low_number, high_number, if padded { low.len() } else { 0 }));
        at += part.len() + 1;
    }
    Ok(ranges)
}

fn number(text: &str, at: usize) -> Result<u64, ParseError> {
    let fits = (1..=18).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| fits).ok_or_else(|| {
        ParseError::new(at, text.len(), "a number of 1 to 18 digits is needed").hint(HINT)
    })
}

/// Folds names into one list separated by commas; neighbours that differ only in the last number
/// share a bracket. The order of the names is kept: sort them first for the shortest text.
pub fn fold<S: AsRef<str>>(names: &[S]) -> String {
    fold_words(names.iter().map(AsRef::as_ref)).join(",")
}

/// As [`fold`], one string per word.
pub(super) fn fold_words<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut words = Vec::new();
    let mut open: Option<Folding<'a>> = None;
    for name in names {
        let split = split_number(name);
        if let (Some(folding), Some(part)) = (&mut open, split)
            && folding.takes(part)
        {
            continue;
        }
        words.extend(open.take().map(Folding::close));
        match split {
            Some(part) => open = Some(Folding::new(part)),
            None => words.push(name.to_owned()),
        }
    }
    words.extend(open.take().map(Folding::close));
    words
}

/// A name as (text before, digits, text after) around its last run of digits.
type Split<'a> = (&'a str, &'a str, &'a str);

fn split_number(name: &str) -> Option<Split<'_>> {
    let end = name.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = name[..end]
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |at| {
            at + name[at..].chars().next().map_or(0, char::len_utf8)
        });
    let digits = &name[start..end];
    (digits.len() <= 18).then_some((&name[..start], digits, &name[end..]))
}

struct Folding<'a> {
    before: &'a str,
    after: &'a str,
    ranges: Vec<(&'a str, &'a str)>,
}

impl<'a> Folding<'a> {
    fn new((before, digits, after): Split<'a>) -> Self {
        Folding {
            before,
            after,
            ranges: vec![(digits, digits)],
        }
    }

    /// Adds the name to the open bracket if only its number differs.
    fn takes(&mut self, (before, digits, after): Split<'a>) -> bool {
        if (before, after) != (self.before, self.after) {
            return false;
        }
        let last = self.ranges.last_mut().expect("made with one range");
        let next = last.1.parse::<u64>().map_or(0, |n| n + 1);
        let width = if last.0.starts_with('0') {
            last.0.len()
        } else {
            0
        };
        let unpadded = width == 0 && !digits.starts_with('0');
        if (unpadded || digits.len() == width) && format!("{next:0width$}") == digits {
            last.1 = digits;
        } else {
            self.ranges.push((digits, digits));
        }
        true
    }

    fn close(self) -> String {
        let Folding {
            before,
            after,
            ranges,
        } = self;
        if let [(low, high)] = ranges[..]
            && low == high
        {
            return format!("{before}{low}{after}");
        }
        let inside: Vec<String> = ranges
            .iter()
            .map(|(low, high)| {
                if low == high {
                    (*low).to_owned()
                } else {
                    format!("{low}-{high}")
                }
            })
            .collect();
        format!("{before}[{}]{after}", inside.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn expands_brackets_everywhere() {
        assert_eq!(
            expand("r[1-2]n[1,3].x").expect("parses"),
            ["r1n1.x", "r1n3.x", "r2n1.x", "r2n3.x"]
        );
        assert_eq!(expand("a b, c").expect("parses"), ["a", "b", "c"]);
        assert_eq!(expand("n[9-11]").expect("parses"), ["n9", "n10", "n11"]);
    }

    #[test]
    fn wrong_lists_are_refused() {
        for bad in [
            "",
            ",",
            "n[1-",
            "n]",
            "n[]",
            "n[3-1]",
            "n[01-3]",
            "n[a]",
            "n[1-2-3]",
            "[1-2",
            "-a[1-2]",
            "n[1-1000000000]",
            "n[1-1000]m[1-1000]",
            "n[1-9999999999999999999]",
            "n[-1]",
            "n[1,,2]",
            "n[[1]]",
            "n[1]/",
        ] {
            assert!(expand(bad).is_err(), "{bad}");
        }
        assert!(expand(&"n[1],".repeat(20_000)).is_err());
        assert_eq!(expand("a n[1-x]").unwrap_err().at, 6);
    }

    /// It fails by running out of memory: the names would take 6 GB before the first is found too
    /// long.
    #[test]
    fn long_names_are_refused_before_they_are_made() {
        let long = format!("n[1-99999]{}", "x".repeat(60_000));
        let e = expand(&long).unwrap_err();
        assert!(e.message.contains("at most 64"), "{}", e.message);
        assert_eq!((e.at, e.len), (0, long.len()));
    }

    #[test]
    fn folds_neighbours_and_keeps_order() {
        assert_eq!(fold(&["n1", "n2", "n3", "n7", "x", "n8"]), "n[1-3,7],x,n8");
        assert_eq!(fold(&["n09", "n10", "n011"]), "n[09-10,011]");
        assert_eq!(fold(&["n9", "n10"]), "n[9-10]");
        assert_eq!(fold(&["n2", "n1", "n1"]), "n[2,1,1]");
        assert_eq!(fold(&["gw"]), "gw");
        assert_eq!(fold::<&str>(&[]), "");
    }

    proptest! {
        #![proptest_config(super::super::cases())]
        #[test]
        fn folded_names_expand_back(
            names in proptest::collection::vec("[a-c]([0-9]{1,3}|[0-9]-[0-9]{1,2}[a-b]?)?", 1..20)
        ) {
            prop_assert_eq!(expand(&fold(&names)).expect("parses"), names);
        }

        #[test]
        fn never_panics(s in ".{0,60}", t in "[a-b0-9\\[\\],-]{0,20}") {
            let _ = (expand(&s), expand(&t), fold(&[&s, &t, &s]));
        }
    }
}
