//! Job names with an array: `name[1-10:2,15]%3`.
//!
//! Owns splitting the argument of `-J` into name, indices and limit. The maximum size of an array
//! is an argument.

use std::fmt;

use super::indexset::{self, IndexSet, MAX_INDEX};
use super::{ParseError, names};

const MAX_TEXT: usize = 64 * 1024;
const HINT: &str = "write name[1-10:2,15]%3, where %3 lets at most 3 elements run at a time";

/// The parts of an argument of `-J`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArraySpec {
    /// The name; empty when only an index list was given.
    pub name: String,
    /// The elements; never empty.
    pub indices: Option<IndexSet>,
    /// Maximum number of elements that run at a time, at least 1.
    pub limit: Option<u32>,
}

impl ArraySpec {
    /// Parses the argument of `-J`; an array may have up to `max_size` elements.
    ///
    /// ```
    /// use corral::text::arrayspec::ArraySpec;
    /// let spec = ArraySpec::parse("sim[1-10:2,15]%3", 1000).unwrap();
    /// assert_eq!((spec.name.as_str(), spec.limit), ("sim", Some(3)));
    /// assert_eq!(spec.indices.unwrap().len(), 6);
    /// assert_eq!(ArraySpec::parse("plain", 1000).unwrap().indices, None);
    /// assert!(ArraySpec::parse("big[1-100000000]", 1000).is_err());
    /// ```
    ///
    /// # Errors
    /// Names the index, range or limit that is wrong, with its column.
    pub fn parse(text: &str, max_size: u64) -> Result<ArraySpec, ParseError> {
        if text.len() > MAX_TEXT {
            return Err(ParseError::too_long("array", MAX_TEXT, text.len()));
        }
        let Some(open) = text.find('[') else {
            names::check_job_name(text)?;
            return Ok(ArraySpec {
                name: text.to_owned(),
                indices: None,
                limit: None,
            });
        };
        let name = &text[..open];
        if !name.is_empty() {
            names::check_job_name(name)?;
        }
        let Some(close) = text[open..].find(']').map(|n| open + n) else {
            return Err(ParseError::new(text.len(), 0, "']' is missing").hint(HINT));
        };
        let list = &text[open + 1..close];
        if list.is_empty() {
            return Err(ParseError::new(open, 2, "an index list is missing").hint(HINT));
        }
        let indices = IndexSet::parse(list, 1, MAX_INDEX).map_err(|e| e.shifted(open + 1))?;
        if indices.len() > max_size {
            let message = format!(
                "the array has {} elements, at most {max_size} are allowed",
                indices.len()
            );
            return Err(ParseError::new(open + 1, list.len(), message)
                .hint("the setting max_array_size holds the limit"));
        }
        let limit = limit(&text[close + 1..]).map_err(|e| e.shifted(close + 1))?;
        Ok(ArraySpec {
            name: name.to_owned(),
            indices: Some(indices),
            limit,
        })
    }
}

fn limit(text: &str) -> Result<Option<u32>, ParseError> {
    if text.is_empty() {
        return Ok(None);
    }
    let Some(number) = text.strip_prefix('%') else {
        return Err(ParseError::new(0, text.len(), "only %limit may follow ']'").hint(HINT));
    };
    indexset::index(number, 1, 1, MAX_INDEX)
        .map(Some)
        .map_err(|e| e.hint(HINT))
}

impl fmt::Display for ArraySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(indices) = &self.indices {
            write!(f, "[{indices}]")?;
        }
        match self.limit {
            Some(limit) => write!(f, "%{limit}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wrong_arrays_are_refused() {
        for bad in [
            "a[",
            "a[]",
            "a[1-",
            "a[1]x",
            "a[1]%0",
            "a[1]%",
            "a[1]%-1",
            "a[0-3]",
            "a[5-1]",
            "a[1-5:0]",
            "a[1][2]",
            "",
            " ",
            "a\n[1]",
            "-a[1]",
            "a[1]%3%4",
            "a[1-1001]",
            "a[1",
        ] {
            assert!(ArraySpec::parse(bad, 1000).is_err(), "{bad}");
        }
        assert_eq!(ArraySpec::parse("ab[1-5:0]", 1000).unwrap_err().at, 7);
    }

    #[test]
    fn size_counts_elements() {
        let spec = ArraySpec::parse("[1-1000000]", 1_000_000).expect("parses");
        assert_eq!(
            (spec.name.as_str(), spec.indices.map(|i| i.range_count())),
            ("", Some(1))
        );
    }

    proptest! {
        #![proptest_config(super::super::cases())]
        #[test]
        fn printed_arrays_read_back(s in "[a-c ]{0,3}(\\[[1-9](-[1-9]{2}(:[1-3])?)?(,[5-9])?\\](%[1-9])?)?") {
            if let Ok(spec) = ArraySpec::parse(&s, 1000) {
                prop_assert_eq!(ArraySpec::parse(&spec.to_string(), 1000), Ok(spec));
            }
        }

        #[test]
        fn never_panics(s in ".{0,40}", t in "[a-b0-9%:,\\[\\]-]{0,20}") {
            let _ = (ArraySpec::parse(&s, 10), ArraySpec::parse(&t, 10));
        }
    }
}
