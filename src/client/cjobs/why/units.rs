//! Sizes in a requirement as users write them: `mem > 97.7T`, not `mem > 102445875.2`. Pure.
//!
//! Owns which resources are sizes in MB and how a printed requirement is rewritten. Never changes
//! its meaning: a number without an exact short size stays as it is.

use crate::text::size::{self, Unit};

/// Resources whose amounts are in megabytes.
pub(super) const SIZES: &[&str] = &[
    "mem", "swp", "swap", "tmp", "maxmem", "maxswp", "maxtmp", "gpu_mem",
];
const MB: f64 = 1_048_576.0;

/// A printed requirement with short sizes instead of megabytes.
pub(super) fn with_units(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let len = match c.is_ascii_alphanumeric() || c == '_' {
            true => word_end(rest),
            false => c.len_utf8(),
        };
        let (word, after) = rest.split_at(len);
        out.push_str(word);
        rest = after;
        if SIZES.contains(&word)
            && let Some((sign, number, after)) = compared(rest)
            && let Some(size) = as_size(number)
        {
            out.push_str(sign);
            out.push_str(&size);
            rest = after;
        }
    }
    out
}

fn word_end(text: &str) -> usize {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.find(|c| !word(c)).unwrap_or(text.len())
}

/// A comparison sign with its blanks, the number after it, and the rest.
fn compared(text: &str) -> Option<(&str, &str, &str)> {
    let sign = text
        .find(|c: char| !" =<>!".contains(c))
        .filter(|n| *n > 0)?;
    let (sign, rest) = text.split_at(sign);
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let (number, after) = rest.split_at(end);
    let goes_on = after
        .chars()
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic());
    (!number.is_empty() && !goes_on).then_some((sign, number, after))
}

/// A number of megabytes as a short size of equal value.
fn as_size(number: &str) -> Option<String> {
    let bytes = number.parse::<f64>().ok()? * MB;
    if !(MB..1e18).contains(&bytes) {
        return None;
    }
    let short = size::human(bytes as u64);
    let read = size::parse(&short, Unit::M).ok()?;
    ((read as f64 - bytes).abs() < MB).then_some(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn megabytes_become_sizes() {
        for (text, want) in [
            ("rusage[mem=24576]", "rusage[mem=24G]"),
            ("rusage[mem=24577]", "rusage[mem=24577]"),
            ("rusage[mem=512,gpu=2]", "rusage[mem=512M,gpu=2]"),
            ("rusage[mem=1024/host]", "rusage[mem=1G/host]"),
            (
                "select[fast && mem > 102445875.2]",
                "select[fast && mem > 97.7T]",
            ),
            (
                "select[maxmem>=2048 || type == any]",
                "select[maxmem>=2G || type == any]",
            ),
            ("select[mem > swp]", "select[mem > swp]"),
            ("select[premem>2048]", "select[premem>2048]"),
            ("select[mem>2G]", "select[mem>2G]"),
            ("order[mem]", "order[mem]"),
            ("", ""),
        ] {
            assert_eq!(with_units(text), want);
        }
    }
}
