//! The unit of limits without unit, as published by the cluster. Never writes.

use super::env::Site;
use crate::spool::view::ViewReader;
use crate::text::size::Unit;

/// The unit of plain numbers in -M and -v: the cluster's `unit_for_limits`, else MB.
pub(crate) fn limit_unit(site: &Site) -> Unit {
    let params = ViewReader::new(&site.layout()).params().ok();
    let value = params.and_then(|p| {
        let mut all = p.params.into_iter();
        all.find(|(name, _)| name == "cluster.unit_for_limits")
    });
    value
        .and_then(|(_, text)| unit_of(&text))
        .unwrap_or(Unit::M)
}

/// Parses a unit as the parameters show it: in bytes, or as its suffix.
fn unit_of(text: &str) -> Option<Unit> {
    let units = [Unit::B, Unit::K, Unit::M, Unit::G, Unit::T, Unit::P];
    match text.parse::<u64>() {
        Ok(bytes) => units.into_iter().find(|u| u.bytes() == bytes),
        Err(_) => Unit::from_suffix(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_of_limits_is_read_as_published() {
        assert_eq!(unit_of("1048576"), Some(Unit::M));
        assert_eq!(unit_of("KB"), Some(Unit::K));
        assert_eq!(unit_of("7"), None);
    }
}
