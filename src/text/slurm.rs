//! The values of options of Slurm and PBS: time limits, sizes, index lists, file patterns, ids.
//!
//! Owns these forms and their equivalents in Corral. Never reads a clock, never looks up a job.
//! Moments and dependencies are in separate files.

mod begin;
mod depend;

use super::indexset::{IndexSet, MAX_INDEX, Range};
use super::size::Unit;
use std::fmt::Write as _;

pub use begin::{begin, moment, pbs_moment};
pub use depend::{dependency, pbs_dependency};

/// Maximum length of a value.
pub const MAX_TEXT: usize = 64 * 1024;
/// Maximum time limit: ten years, as everywhere.
const MAX_S: u64 = super::duration::MAX_MS / 1000;
/// Maximum number of ranges of an index list.
const RANGES_MAX: usize = 10_000;

fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.len() <= 12 && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn shown(text: &str) -> String {
    let cut: String = text.chars().take(80).collect();
    super::width::escape(&cut).into_owned()
}

/// A time limit of Slurm's `--time` in seconds; `None`: unlimited.
///
/// ```
/// use corral::text::slurm::time_limit;
/// assert_eq!(time_limit("90"), Ok(Some(5400)));
/// assert_eq!(time_limit("1-12:30"), Ok(Some(131_400)));
/// assert_eq!(time_limit("UNLIMITED"), Ok(None));
/// ```
///
/// # Errors
/// The text has another form, or it is longer than ten years.
pub fn time_limit(text: &str) -> Result<Option<u64>, String> {
    let wrong = || {
        let text = shown(text);
        format!("'{text}' is not a time: write M, M:S, H:M:S, D-H, D-H:M, D-H:M:S or UNLIMITED")
    };
    if ["unlimited", "infinite"].contains(&text.to_ascii_lowercase().as_str()) || text == "-1" {
        return Ok(None);
    }
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(number(days).ok_or_else(wrong)?), rest),
        None => (None, text),
    };
    let fields: Option<Vec<u64>> = rest.split(':').map(number).collect();
    let s = match (days, fields.ok_or_else(wrong)?.as_slice()) {
        (None, [m]) => m * 60,
        (None, [m, s]) => m * 60 + s,
        (None, [h, m, s]) => h * 3600 + m * 60 + s,
        (Some(d), [h]) => d * 86_400 + h * 3600,
        (Some(d), [h, m]) => d * 86_400 + h * 3600 + m * 60,
        (Some(d), [h, m, s]) => d * 86_400 + h * 3600 + m * 60 + s,
        _ => return Err(wrong()),
    };
    match s {
        0 => Ok(None),
        1..=MAX_S => Ok(Some(s)),
        _ => Err(format!("'{}' is longer than ten years", shown(text))),
    }
}

/// A `walltime` of PBS in seconds: seconds, `M:S` or `H:M:S`.
///
/// # Errors
/// The text has another form, is 0 or longer than ten years.
pub fn walltime(text: &str) -> Result<u64, String> {
    let fields: Option<Vec<u64>> = text.split(':').map(number).collect();
    let s = match fields.as_deref() {
        Some([s]) => *s,
        Some([m, s]) => m * 60 + s,
        Some([h, m, s]) => h * 3600 + m * 60 + s,
        _ => 0,
    };
    match s {
        1..=MAX_S => Ok(s),
        _ => Err(format!(
            "'{}' is not a time: write seconds, M:S or H:M:S",
            shown(text)
        )),
    }
}

/// A size of Slurm's `--mem` in bytes; a plain number is in MB.
///
/// # Errors
/// The text is not a size.
pub fn memory(text: &str) -> Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_suffix('B').unwrap_or(&upper);
    let (digits, unit) = match bare.char_indices().next_back() {
        Some((at, 'K')) => (&bare[..at], Unit::K),
        Some((at, 'M')) => (&bare[..at], Unit::M),
        Some((at, 'G')) => (&bare[..at], Unit::G),
        Some((at, 'T')) => (&bare[..at], Unit::T),
        _ => (upper.as_str(), Unit::M),
    };
    let bytes = number(digits).and_then(|n| n.checked_mul(unit.bytes()));
    bytes.ok_or_else(|| format!("'{}' is not a size: write 4000, 4000M or 4G", shown(text)))
}

/// A size of PBS in bytes: `4gb`, `500mb`; a plain number is in bytes.
///
/// # Errors
/// The text is not a size, or a size in machine words.
pub fn pbs_size(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let units = [
        ("kb", Unit::K),
        ("mb", Unit::M),
        ("gb", Unit::G),
        ("tb", Unit::T),
        ("b", Unit::B),
        ("", Unit::B),
    ];
    let found = units
        .into_iter()
        .find_map(|(suffix, unit)| Some((lower.strip_suffix(suffix)?, unit)));
    let bytes = found.and_then(|(digits, unit)| number(digits)?.checked_mul(unit.bytes()));
    bytes.ok_or_else(|| format!("'{}' is not a size: write 4gb or 500mb", shown(text)))
}

/// An index list of Slurm or PBS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexList {
    /// The indices in Corral: those of the list plus `shift`.
    pub indices: IndexSet,
    /// 1 if the list contains the index 0, which Corral's arrays do not have.
    pub shift: u32,
    /// Maximum number of elements that run at a time.
    pub limit: Option<u32>,
}

impl IndexList {
    /// Parses `0-9`, `1-10:2%4`, `1,3,7-9`.
    ///
    /// ```
    /// use corral::text::slurm::IndexList;
    /// let list = IndexList::parse("0-6:2,9%3").unwrap();
    /// assert_eq!((list.indices.to_string().as_str(), list.shift), ("1-7:2,10", 1));
    /// assert_eq!(list.limit, Some(3));
    /// ```
    ///
    /// # Errors
    /// Names the part that is wrong.
    pub fn parse(text: &str) -> Result<IndexList, String> {
        let wrong = |part: &str| {
            let part = shown(part);
            format!("'{part}' is not an index list: write 1-10, 1-10:2%4 or 1,3,7")
        };
        let (list, limit) = match text.split_once('%') {
            None => (text, None),
            Some((list, limit)) => {
                let n = number(limit).and_then(|n| u32::try_from(n).ok());
                (list, Some(n.filter(|n| *n > 0).ok_or_else(|| wrong(text))?))
            }
        };
        let mut ranges = Vec::new();
        for part in list.split(',') {
            let (range, step) = part.split_once(':').unwrap_or((part, "1"));
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let field = |text: &str| number(text).filter(|n| *n < u64::from(MAX_INDEX));
            let (Some(first), Some(last), Some(step)) = (field(first), field(last), field(step))
            else {
                return Err(wrong(part));
            };
            if last < first || step == 0 || ranges.len() == RANGES_MAX {
                return Err(wrong(part));
            }
            ranges.push((first, last, step));
        }
        let shift = u64::from(ranges.iter().any(|(first, ..)| *first == 0));
        let mut shifted = String::new();
        for (first, last, step) in ranges {
            let comma = if shifted.is_empty() { "" } else { "," };
            let (first, last) = (first + shift, last + shift);
            let _ = match step {
                1 => write!(shifted, "{comma}{first}-{last}"),
                step => write!(shifted, "{comma}{first}-{last}:{step}"),
            };
        }
        let indices = IndexSet::parse(&shifted, 1, MAX_INDEX).map_err(|_| wrong(list))?;
        Ok(IndexList {
            indices,
            shift: u32::from(shift > 0),
            limit,
        })
    }
}

/// The values of the placeholders of a file pattern.
#[derive(Debug, Clone, Copy, Default)]
pub struct PatternValues<'a> {
    pub name: &'a str,
    pub user: &'a str,
    /// Whether the job is an array.
    pub array: bool,
}

/// Converts a file pattern of Slurm (`%j %A %a %x %u`) into a path with `%J` and `%I`. `%j` of an
/// array becomes `JOB_INDEX`, because elements have no ids of their own.
///
/// # Errors
/// Names the placeholder that has no equivalent.
pub fn file_pattern(text: &str, marks: PatternValues<'_>) -> Result<String, String> {
    if text.eq_ignore_ascii_case("none") {
        return Ok("/dev/null".to_owned());
    }
    // A backslash makes the whole name literal.
    if text.contains('\\') {
        return Ok(text.replace('\\', "").replace('%', "%%"));
    }
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('j' | 'J') if marks.array => out.push_str("%J_%I"),
            Some('j' | 'J' | 'A') => out.push_str("%J"),
            Some('a') => out.push_str("%I"),
            Some('x') => out.push_str(&marks.name.replace('%', "%%")),
            Some('u') => out.push_str(&marks.user.replace('%', "%%")),
            Some('n' | 't') => out.push('0'),
            Some('s') => out.push_str("batch"),
            Some('%') | None => out.push_str("%%"),
            Some(c) => {
                let mark = shown(&c.to_string());
                return Err(format!(
                    "%{mark} in a file name has no counterpart: %A %a %j %x %u have"
                ));
            }
        }
    }
    Ok(out)
}

/// The hosts of a list with blanks in place of the commas outside of brackets: `n[1-3,5],gw`
/// becomes `n[1-3,5] gw`.
pub fn host_words(list: &str) -> String {
    let mut depth = 0_usize;
    list.chars()
        .map(|c| {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if c == ',' && depth == 0 { ' ' } else { c }
        })
        .collect()
}

/// A job, or some of its elements, as Slurm names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlurmJobId {
    pub id: u32,
    /// `12_3`, `12_[1-4]`: the indices as in Slurm; `None`: the whole job.
    pub elements: Option<IndexList>,
}

impl SlurmJobId {
    /// Parses `12`, `12_3`, `12_[1-4,7]`, each with an optional step (`12.batch`).
    ///
    /// # Errors
    /// The text is not an id.
    pub fn parse(text: &str) -> Result<SlurmJobId, String> {
        let wrong = || format!("Invalid job id {}", shown(text));
        let text = text.split_once('.').map_or(text, |(job, _)| job);
        let (job, element) = match text.split_once('_') {
            Some((job, element)) => (job, Some(element)),
            None => (text, None),
        };
        let id = number(job).and_then(|n| u32::try_from(n).ok());
        let id = id.filter(|id| *id > 0).ok_or_else(wrong)?;
        let elements = element.map(|element| {
            let list = element.strip_prefix('[').and_then(|e| e.strip_suffix(']'));
            IndexList::parse(list.unwrap_or(element)).map_err(|_| wrong())
        });
        let elements = elements.transpose()?;
        Ok(SlurmJobId { id, elements })
    }

    /// The id with the indices of the elements in Corral, for a job whose indices were increased by
    /// `shift`: `12[4]`.
    ///
    /// # Errors
    /// The index 0 of a job that does not have it.
    pub fn corral_id(&self, shift: u32) -> Result<String, String> {
        let Some(list) = &self.elements else {
            return Ok(self.id.to_string());
        };
        let mut set = IndexSet::new();
        for range in list.indices.ranges() {
            // The indices of the list were increased so that none is 0.
            let first = (range.first + shift).checked_sub(list.shift);
            let first = first.filter(|first| *first > 0);
            let first = first.ok_or_else(|| format!("{}_0: there is no such element", self.id))?;
            let last = first + (range.last - range.first);
            let step = range.step;
            set.insert_range(Range { first, last, step });
        }
        Ok(format!("{}[{set}]", self.id))
    }
}

/// Seconds in Slurm's form of times: `5:03`, `1:00:00` or `2-03:04:05`.
pub fn clock(s: u64) -> String {
    let (d, h, m, s) = (s / 86_400, s / 3600 % 24, s / 60 % 60, s % 60);
    match (d, h) {
        (0, 0) => format!("{m}:{s:02}"),
        (0, h) => format!("{h}:{m:02}:{s:02}"),
        (d, h) => format!("{d}-{h:02}:{m:02}:{s:02}"),
    }
}

/// The same with all fields: `00:05:03`, `2-03:04:05`.
pub fn long_clock(s: u64) -> String {
    let (d, h, m, s) = (s / 86_400, s / 3600 % 24, s / 60 % 60, s % 60);
    match d {
        0 => format!("{h:02}:{m:02}:{s:02}"),
        d => format!("{d}-{h:02}:{m:02}:{s:02}"),
    }
}

#[cfg(test)]
mod tests;
