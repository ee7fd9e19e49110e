//! Beats of hosts, for programs that read load documents periodically: newer values from their
//! names in `beats/`. Never judges which host is alive: the leader does.

use super::Layout;
use crate::record::beat::Beat;
use crate::record::load::LoadDoc;
use crate::sys::fs;
use std::collections::BTreeMap;

/// Maximum number of names that are checked.
const NAMES_MAX: usize = 200_000;

/// The beats found by one listing; empty if no host beats by name.
#[derive(Debug, Default)]
pub struct Beats {
    by_host: BTreeMap<String, Vec<Beat>>,
}

impl Beats {
    pub fn list(layout: &Layout) -> Beats {
        let mut by_host: BTreeMap<String, Vec<Beat>> = BTreeMap::new();
        let names = fs::names(&layout.beats(), NAMES_MAX).unwrap_or_default();
        for beat in names.iter().filter_map(|name| Beat::parse(name.to_str()?)) {
            by_host.entry(beat.host.clone()).or_default().push(beat);
        }
        Beats { by_host }
    }

    /// Adds what the host has reported since to its load document.
    pub fn put_into(&self, host: &str, doc: &mut LoadDoc) {
        let all = self.by_host.get(host).into_iter().flatten();
        let later = all.filter(|beat| beat.is_of(doc) && beat.beat > doc.beat);
        if let Some(beat) = later.max_by_key(|beat| beat.beat) {
            beat.put_into(doc);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_beat_of_the_same_process_counts() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        let doc = |incarnation: &str, beat, r1m| LoadDoc {
            host: "h1".into(),
            boot: "b".into(),
            incarnation: incarnation.into(),
            beat,
            r1m,
            ..LoadDoc::default()
        };
        let mut read = doc("one", 5, 0.5);
        Beats::list(&layout).put_into("h1", &mut read);
        assert_eq!(read.beat, 5, "no host beats by name");
        fs::mkdir(&layout.beats(), 0o755).unwrap();
        for beat in [doc("one", 4, 4.0), doc("one", 7, 7.0), doc("two", 9, 9.0)] {
            let name = Beat::of(&beat, (0, 0)).name().unwrap();
            fs::publish(&layout.beats().join(name), b"").unwrap();
        }
        Beats::list(&layout).put_into("h1", &mut read);
        assert_eq!((read.beat, read.r1m), (7, 7.0));
        let mut other = doc("one", 1, 1.0);
        Beats::list(&layout).put_into("h2", &mut other);
        assert_eq!(other.beat, 1);
    }
}
