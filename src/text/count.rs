//! Numbers with their unit: `1 host`, `3 hosts`.
//!
//! Owns the plural of units. Units are regular English nouns in the singular.

/// A number and its unit, in the plural unless it is one.
///
/// ```
/// use corral::text::count::count;
/// assert_eq!(count(1, "epoch"), "1 epoch");
/// assert_eq!(count(0, "host"), "0 hosts");
/// ```
pub fn count(n: impl ToString, unit: &str) -> String {
    let n = n.to_string();
    let s = if n == "1" { "" } else { "s" };
    format!("{n} {unit}{s}")
}
