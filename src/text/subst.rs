//! `%J` and `%I` in the paths of input and output files.
//!
//! Owns the substitution only. Never looks at the file system.

use std::fmt::Write as _;

/// `text` with `%J` replaced by the job id, `%I` by the array index (0 for a job that is not an
/// array element) and `%%` by `%`. Any other `%` stays as it is.
///
/// ```
/// use corral::text::subst::subst;
/// assert_eq!(subst("out.%J.%I", 12, 3), "out.12.3");
/// assert_eq!(subst("100%%_%J%", 12, 0), "100%_12%");
/// ```
pub fn subst(text: &str, job: u32, index: u32) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let number = match rest.as_bytes().get(at + 1) {
            Some(b'J') => Some(job),
            Some(b'I') => Some(index),
            _ => None,
        };
        let mut used = 2;
        match (number, rest.as_bytes().get(at + 1)) {
            (Some(n), _) => write!(out, "{n}").expect("a string takes every write"),
            (None, Some(b'%')) => out.push('%'),
            _ => {
                out.push('%');
                used = 1;
            }
        }
        rest = &rest[at + used..];
    }
    out.push_str(rest);
    out
}

/// True if the path differs between elements: it contains `%I`.
pub fn has_index(text: &str) -> bool {
    subst(text, 1, 1) != subst(text, 1, 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_known_marks_are_replaced() {
        assert_eq!(subst("%%J %j %作 %I%J%", 7, 0), "%J %j %作 07%");
        assert!(has_index("a%I") && !has_index("a%%I") && !has_index("%J"));
    }

    proptest! {
        #![proptest_config(super::super::cases())]
        #[test]
        fn text_without_percent_is_kept(s in "[^%]{0,30}", t in ".{0,30}") {
            prop_assert_eq!(subst(&s, 1, 2), s);
            let _ = subst(&t, u32::MAX, 0);
        }
    }
}
