//! Names of the units of a resource (GPU numbers or UUIDs, ports, licence seats) and a list of them
//! as one word, `[9000,9001]`. Owns the form and its limits; never knows a host.

use std::borrow::Cow;

/// Maximum number of units of a resource on a host.
pub const UNITS_MAX: usize = 1024;
/// Maximum length of the name of a unit, in characters.
pub const NAME_MAX: usize = 64;

/// Accepts the name of a unit: printable ASCII without blanks and commas.
///
/// # Errors
/// A sentence with the reason.
pub fn check_name(name: &str) -> Result<(), String> {
    let sound = |b: u8| b.is_ascii_graphic() && b != b',';
    match name.len() {
        0 => Err("a unit has no name".to_owned()),
        1..=NAME_MAX if name.bytes().all(sound) => Ok(()),
        1..=NAME_MAX => Err(format!(
            "{name:?} is not the name of a unit: printable ASCII without blanks and commas"
        )),
        _ => Err(format!(
            "{name:.20}... is too long: the name of a unit has at most {NAME_MAX} characters"
        )),
    }
}

/// Accepts a list of names: all valid, no duplicates, at most [`UNITS_MAX`].
///
/// # Errors
/// A sentence with the reason.
pub fn check_list<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    let mut known = std::collections::BTreeSet::new();
    for name in names {
        check_name(name)?;
        if !known.insert(name) {
            return Err(format!("unit {name} is named twice"));
        }
        if known.len() > UNITS_MAX {
            return Err(format!(
                "a host has at most {UNITS_MAX} units of a resource"
            ));
        }
    }
    Ok(())
}

/// A list as one word.
pub fn join<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    format!("[{}]", names.join(","))
}

/// The names of a list in the form of [`join`]; `None`: the text has another form.
///
/// ```
/// let names = corral::text::units::split("[9000,9001]");
/// assert_eq!(names, Some(vec!["9000", "9001"]));
/// ```
pub fn split(text: &str) -> Option<Vec<&str>> {
    let inside = text.strip_prefix('[')?.strip_suffix(']')?;
    Some(match inside {
        "" => Vec::new(),
        inside => inside.split(',').collect(),
    })
}

/// Amounts of units, in the order of the units, as one word, `{81920,40960}`.
pub fn join_sizes(sizes: &[f64]) -> String {
    let sizes: Vec<String> = sizes.iter().map(f64::to_string).collect();
    format!("{{{}}}", sizes.join(","))
}

/// The amounts of a list in the form of [`join_sizes`]; `None`: the text has another form.
///
/// ```
/// assert_eq!(corral::text::units::sizes("{81920,40960}"), Some(vec![81920.0, 40960.0]));
/// ```
pub fn sizes(text: &str) -> Option<Vec<f64>> {
    let inside = text.strip_prefix('{')?.strip_suffix('}')?;
    let number = |word: &str| {
        word.parse()
            .ok()
            .filter(|n: &f64| n.is_finite() && *n >= 0.0)
    };
    inside.split(',').take(UNITS_MAX + 1).map(number).collect()
}

/// The amount of a value: a decimal number, the number of units in a list, or the largest amount of
/// a list of amounts.
pub fn amount(value: &str) -> Option<f64> {
    match (split(value), sizes(value)) {
        (Some(names), _) => Some(names.len() as f64),
        (None, Some(sizes)) => sizes.into_iter().reduce(f64::max),
        (None, None) => value.parse().ok().filter(|n: &f64| n.is_finite()),
    }
}

/// The value as a table shows it: for a list of units, their number.
pub fn shown(value: &str) -> Cow<'_, str> {
    match (split(value), value.strip_prefix('{')) {
        (Some(names), _) => Cow::Owned(names.len().to_string()),
        (None, Some(sizes)) => Cow::Borrowed(sizes.trim_end_matches('}')),
        (None, None) => Cow::Borrowed(value),
    }
}

/// A number of units as an integer: rounded down, within the limit.
pub fn count(n: f64) -> usize {
    // A number below zero, or NaN, becomes 0.
    (n as usize).min(UNITS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded() {
        let long = "x".repeat(NAME_MAX);
        for good in ["0", "GPU-5ca1ab1e", "MIG-GPU-1/2/3", "a[1]", long.as_str()] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["", "a b", "a,b", "ä", "\u{7f}", &"x".repeat(NAME_MAX + 1)] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        assert!(check_list(["a", "b", "a"]).unwrap_err().contains("twice"));
        let many: Vec<String> = (0..=UNITS_MAX).map(|n| n.to_string()).collect();
        let list = |n: usize| check_list(many[..n].iter().map(String::as_str));
        assert_eq!(list(UNITS_MAX), Ok(()));
        assert!(list(UNITS_MAX + 1).unwrap_err().contains("at most 1024"));
    }

    #[test]
    fn a_list_is_one_word() {
        for list in [&[][..], &["0"], &["9000", "[x]"]] {
            assert_eq!(split(&join(list)).as_deref(), Some(list));
        }
        assert_eq!((split("4"), split("[4"), split("")), (None, None, None));
        assert_eq!((count(2.9), count(-1.0), count(f64::NAN)), (2, 0, 0));
        assert_eq!(count(1e15), UNITS_MAX);
        let sizes_text = join_sizes(&[81920.0, 0.5]);
        assert_eq!(
            (sizes_text.as_str(), &*shown(&sizes_text)),
            ("{81920,0.5}", "81920,0.5")
        );
        assert_eq!(
            (amount(&sizes_text), amount("[a,b]"), amount("7")),
            (Some(81920.0), Some(2.0), Some(7.0))
        );
        assert_eq!(
            (sizes("{}"), sizes("{-1}"), sizes("{inf}"), sizes("4")),
            (None, None, None, None)
        );
    }
}
