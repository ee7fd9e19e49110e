//! Job ids on the command line: `123`, `123[4]`, `123[1-5:2,7]`, `0`.
//!
//! Owns the written form. Never knows whether a job exists.

use std::fmt;

use super::indexset::{IndexSet, MAX_INDEX, index};
use super::{ParseError, width};

/// Maximum job id.
pub const MAX_ID: u32 = i32::MAX.cast_unsigned();

const MAX_TEXT: usize = 64 * 1024;
const HINT: &str =
    "write a job ID such as 123, an element 123[4], elements 123[1-5:2,7], or 0 for all";

/// The jobs that an operand names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobSel {
    /// `0`: all jobs that match the other selectors.
    All,
    /// A job, or a whole array.
    Job(u32),
    /// Elements of an array; never empty.
    Elements(u32, IndexSet),
}

impl JobSel {
    /// Parses one operand.
    ///
    /// ```
    /// use corral::text::jobids::JobSel;
    /// assert_eq!(JobSel::parse("123"), Ok(JobSel::Job(123)));
    /// let JobSel::Elements(7, set) = JobSel::parse("7[1-5:2,7]").unwrap() else { panic!() };
    /// assert_eq!(set.iter().collect::<Vec<_>>(), [1, 3, 5, 7]);
    /// assert!(JobSel::parse("007").is_err());
    /// ```
    ///
    /// # Errors
    /// The text is not a job id, with or without indices.
    pub fn parse(text: &str) -> Result<JobSel, ParseError> {
        if text.len() > MAX_TEXT {
            return Err(ParseError::too_long("job id", MAX_TEXT, text.len()));
        }
        JobSel::parse_stored(text)
    }

    /// As [`JobSel::parse`] for printed text: an index list may be longer than one that is typed,
    /// and its length is limited by the document that contains it.
    ///
    /// # Errors
    /// As [`JobSel::parse`].
    pub fn parse_stored(text: &str) -> Result<JobSel, ParseError> {
        let open = text.find('[').unwrap_or(text.len());
        let low = u32::from(open < text.len());
        let id = index(&text[..open], 0, low, MAX_ID).map_err(|e| {
            let shown = width::escape(width::truncate(text, 40).as_ref()).into_owned();
            // For a number, the message must state what is wrong with it; for a word it need not.
            let why = match text[..open].bytes().all(|b| b.is_ascii_digit()) {
                true => format!(": {}", e.message),
                false => String::new(),
            };
            ParseError {
                message: format!("'{shown}' is not a job ID{why}"),
                ..e
            }
            .hint(HINT)
        })?;
        if open == text.len() {
            return Ok(if id == 0 {
                JobSel::All
            } else {
                JobSel::Job(id)
            });
        }
        let Some(inside) = text[open + 1..].strip_suffix(']') else {
            return Err(ParseError::new(text.len(), 0, "']' is missing").hint(HINT));
        };
        if inside.is_empty() {
            return Err(ParseError::new(open, 2, "an array index is missing").hint(HINT));
        }
        let set = IndexSet::parse(inside, 1, MAX_INDEX).map_err(|e| e.shifted(open + 1))?;
        Ok(JobSel::Elements(id, set))
    }

    /// The job id; `None` for all jobs.
    pub fn id(&self) -> Option<u32> {
        match self {
            JobSel::All => None,
            JobSel::Job(id) | JobSel::Elements(id, _) => Some(*id),
        }
    }

    /// True if the operand means the element `idx` of job `id` (0 = not an array element).
    pub fn matches(&self, id: u32, idx: u32) -> bool {
        match self {
            JobSel::All => true,
            JobSel::Job(own) => *own == id,
            JobSel::Elements(own, set) => *own == id && set.contains(idx),
        }
    }
}

impl fmt::Display for JobSel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobSel::All => f.write_str("0"),
            JobSel::Job(id) => write!(f, "{id}"),
            JobSel::Elements(id, set) => write!(f, "{id}[{set}]"),
        }
    }
}

super::serde_by_text!(JobSel, JobSel::parse_stored);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wrong_ids_are_refused() {
        for bad in [
            "",
            "007",
            "1[2-",
            "-1",
            "18446744073709551616",
            "2147483648",
            "--",
            "1[]",
            "0[1]",
            "1[0]",
            "1]",
            "1[2]3",
            "a",
            "1 ",
            "1[2][3]",
            "[1]",
            "1[a]",
        ] {
            assert!(JobSel::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(JobSel::parse("12[1,x]").unwrap_err().at, 5);
        assert_eq!(JobSel::parse("2147483647"), Ok(JobSel::Job(MAX_ID)));
    }

    #[test]
    fn selection() {
        assert!(JobSel::All.matches(5, 0));
        let sel = JobSel::parse("5[2-3]").expect("parses");
        assert!(
            sel.matches(5, 3) && !sel.matches(5, 4) && !sel.matches(6, 3) && !sel.matches(5, 0)
        );
    }

    proptest! {
        #![proptest_config(super::super::cases())]
        #[test]
        fn printed_ids_read_back(id in 1u32..=MAX_ID, a in 1u32..100, n in 0u32..9, s in 1u32..4) {
            let sel = JobSel::parse(&format!("{id}[{a}-{}:{s},300]", a + n)).expect("parses");
            prop_assert_eq!(JobSel::parse(&sel.to_string()), Ok(sel));
        }

        #[test]
        fn never_panics(s in ".{0,40}", t in "[0-9\\[\\]:,-]{0,30}") {
            let _ = (JobSel::parse(&s), JobSel::parse(&t));
        }
    }
}
