//! Whether hosts are alive, and their load: one listing of `beats/` for all of them, and load
//! documents only if a name shows that there is new data, or if no name changes.
//!
//! Judged by this machine's monotonic clock; times from a host are only used for display, and for
//! the first look of a new leader. Reads nothing itself except the listing.

use crate::record::beat::{Beat, differs, short};
use crate::record::load::LoadDoc;
use crate::spool::Layout;
use crate::sys::fs;
use crate::sys::fs::FileMark;
use crate::sys::trust::Owners;
use crate::turn::SILENT_MS;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Maximum number of names of beats in one listing.
const NAMES_MAX: usize = 200_000;
/// Maximum number of names kept of one host.
const OWN_MAX: usize = 4;
/// At the first check, a beat that is this old by the host's own clock, in milliseconds, is
/// considered to be from long ago. The next change then shows that the host is alive.
const FRESH_MS: u64 = 15_000;
/// A name that does not change for this time, in milliseconds, may be left over from a host that
/// now beats by its load document.
const STILL_MS: u64 = 10_000;
/// How long until an unchanged sample is reported again, and that of a silent host, in
/// milliseconds.
const REPEAT_MS: u64 = 60_000;
const SILENT_AGAIN_MS: u64 = 5_000;
/// The limit of a silent host is valid for this time after its document was read, in milliseconds:
/// shorter than the leader waits above the limit.
const LIMIT_MS: u64 = 8_000;
/// Pause before a load document that could not be read, or does not exist yet, is read again, in
/// milliseconds.
const AGAIN_MS: u64 = 1_000;

/// The names in `beats/`.
#[derive(Debug)]
pub(super) struct BeatNames {
    dir: PathBuf,
    owners: Owners,
    mark: Option<FileMark>,
    /// The mark that the server returned just now, before this listing.
    server_mark: Option<FileMark>,
    /// The last listing failed: it is not known whose name changes.
    listing_failed: bool,
}

impl BeatNames {
    pub(super) fn new(layout: &Layout, owners: Owners) -> BeatNames {
        BeatNames {
            dir: layout.beats(),
            owners,
            mark: None,
            server_mark: None,
            listing_failed: false,
        }
    }

    /// Whether the server shows a change since the last listing: one request.
    pub(crate) fn changed(&mut self) -> bool {
        self.server_mark = fs::mark(&self.dir).ok();
        self.server_mark.is_some() && self.server_mark != self.mark
    }

    /// Whether the last listing failed, so that silence means nothing.
    pub(super) fn has_failed_listing(&self) -> bool {
        self.listing_failed
    }

    /// All beats by host.
    ///
    /// # Errors
    /// The directory is missing, cannot be read, or belongs to another account.
    pub(super) fn list(&mut self) -> crate::sys::Result<BTreeMap<String, Vec<Beat>>> {
        let mut all: BTreeMap<String, Vec<Beat>> = BTreeMap::new();
        let new_mark = self.server_mark.take();
        self.mark = new_mark.or_else(|| fs::mark(&self.dir).ok());
        self.listing_failed = true;
        if let Some(uid) = self.owners.untrusted_owner(&self.dir) {
            self.owners.check("believe", &self.dir, uid)?;
        }
        let names = fs::names(&self.dir, NAMES_MAX)?;
        self.listing_failed = false;
        for name in names {
            if let Some(beat) = name.to_str().and_then(Beat::parse) {
                let own = all.entry(beat.host.clone()).or_default();
                if own.len() < OWN_MAX {
                    own.push(beat);
                }
            }
        }
        Ok(all)
    }
}

/// What is known about whether one host is alive.
#[derive(Debug, Default)]
pub(super) struct HostLiveness {
    /// The names of the last listing that had any, and the one that changed last.
    names: Vec<Beat>,
    name: Option<Beat>,
    /// Beat of the load document that was last read.
    last_read: Option<(String, u64)>,
    /// When a name changed last, and when anything did, by the monotonic clock.
    named_at: Option<u64>,
    beat_at: Option<u64>,
    /// When this leader first saw something of the host.
    watched_at: Option<u64>,
    silent_ms: u64,
    /// The load document as it was read, updated by later names; and what was reported of it.
    doc: Option<LoadDoc>,
    reported: Option<(LoadDoc, u64)>,
    /// When the document may be read again after it lacked the expected content.
    retry_at: u64,
    /// When it was last due to be read, and whether it could not be.
    load_due_at: u64,
    unread: bool,
    /// A name changed or a document was read since the last evaluation.
    changed: bool,
}

impl HostLiveness {
    /// Takes the host's names in `beats/`; none if a listing missed them.
    pub(super) fn note_beats(&mut self, listed: Vec<Beat>, now: u64, wall_ms: i64) {
        if listed.is_empty() {
            return;
        }
        let first = self.names.is_empty();
        let moved = listed.iter().filter(|beat| !self.names.contains(beat));
        let moved = moved.max_by_key(|beat| (beat.t, beat.beat)).cloned();
        self.names = listed;
        let Some(beat) = moved else {
            return;
        };
        let t = i64::try_from(beat.t)
            .unwrap_or(i64::MAX)
            .saturating_mul(1000);
        if !first || wall_ms.abs_diff(t) <= FRESH_MS {
            (self.named_at, self.beat_at) = (Some(now), Some(now));
        } else {
            self.named_at = Some(now);
        }
        self.watched_at.get_or_insert(now);
        if let Some(doc) = self.doc.as_mut().filter(|doc| beat.matches_document(doc)) {
            beat.put_into(doc);
        }
        self.name = Some(beat);
        self.changed = true;
    }

    /// Whether names show that this host beats.
    pub(super) fn is_named(&self, now: u64) -> bool {
        let moves = |at| now.saturating_sub(at) < STILL_MS;
        self.name.is_some() && self.named_at.is_some_and(moves)
    }

    /// Whether its name announces a load document that was not read yet.
    pub(super) fn has_document(&self, now: u64) -> bool {
        let read = |beat: &Beat| {
            self.doc
                .as_ref()
                .is_some_and(|doc| beat.matches_document(doc))
        };
        now >= self.retry_at && self.name.as_ref().is_some_and(|beat| !read(beat))
    }

    /// Whether only its load document can show that the host is alive, because no name does: if it
    /// was alive a short time ago, or has jobs (`works`). It may run an older version, or find no
    /// `beats/`.
    pub(super) fn lives_by_document(&self, now: u64, works: bool) -> bool {
        let lives = self.beat_at.is_some() && self.silent_ms < SILENT_MS;
        !self.is_named(now) && (lives || works)
    }

    /// When its document was last due to be read.
    pub(super) fn load_due_at(&self) -> u64 {
        self.load_due_at
    }

    /// Whether nothing of it was read yet.
    pub(super) fn is_unknown(&self) -> bool {
        self.doc.is_none()
    }

    /// Whether it beats.
    pub(super) fn is_beating(&self) -> bool {
        self.silent_ms < SILENT_MS && self.doc.is_some() && self.beat_at.is_some()
    }

    /// Whether it is not known to be up, or has no executor.
    pub(super) fn is_inactive(&self) -> bool {
        self.silent_ms >= SILENT_MS || self.doc.as_ref().is_none_or(|doc| !doc.executor)
    }

    /// Its reports as its name announces them: number and length of the file.
    pub(super) fn reports(&self) -> Option<(u64, u64)> {
        let name = self.name.as_ref().filter(|name| name.part > 0)?;
        Some((name.part, name.end))
    }

    /// Takes its load document; `None`: it cannot be read, which does not count as a beat.
    pub(super) fn read(&mut self, doc: Option<LoadDoc>, now: u64, wall_ms: i64) {
        (self.load_due_at, self.unread, self.changed) = (now, doc.is_none(), true);
        let Some(mut doc) = doc else {
            self.retry_at = now + AGAIN_MS;
            return;
        };
        let beat = Some((doc.incarnation.clone(), doc.beat));
        if self.last_read.is_none() {
            let limit = doc.every_ms.max(1000).saturating_mul(3);
            let fresh = wall_ms.abs_diff(doc.t) <= limit;
            if self.name.is_none() && fresh {
                // Otherwise it is an old file, or the clock is far off: the next change shows
                // whether the host is alive.
                self.beat_at = Some(now);
            }
        } else if self.last_read != beat && !self.is_named(now) && !self.has_announced(&doc) {
            // The host now beats by its document; a name may follow.
            (self.beat_at, self.name) = (Some(now), None);
        }
        self.last_read = beat;
        self.watched_at.get_or_insert(now);
        match &self.name {
            Some(beat) if !beat.matches_document(&doc) => self.retry_at = now + AGAIN_MS,
            Some(beat) if beat.beat >= doc.beat => beat.put_into(&mut doc),
            _ => {}
        }
        self.doc = Some(doc);
    }

    /// Whether a name has announced the beat with which the document was written.
    fn has_announced(&self, doc: &LoadDoc) -> bool {
        let has =
            |beat: &Beat| beat.incarnation == short(&doc.incarnation) && beat.beat >= doc.beat;
        self.name.as_ref().is_some_and(has)
    }

    /// Whether the document contains another position of the journal than the previous one.
    pub(super) fn remembers_other(&self, doc: &LoadDoc) -> bool {
        match &self.doc {
            Some(known) => known.journal != doc.journal,
            None => doc.journal != LoadDoc::default().journal,
        }
    }

    /// What the turn receives: the sample, and how long the host has been silent. The `iso_timeout`
    /// of the host is unknown if its last document was not read, or if it is silent and was not
    /// checked a short time ago; with `listing_failed`, also if names cannot be read.
    pub(super) fn evaluate(&mut self, now: u64, listing_failed: bool) -> Option<(LoadDoc, u64)> {
        let doc = self.doc.as_ref()?;
        let watched_at = *self.watched_at.get_or_insert(now);
        let silent_ms = match self.beat_at {
            Some(at) => now.saturating_sub(at),
            None => now.saturating_sub(watched_at).max(SILENT_MS),
        };
        let turned = (self.silent_ms < SILENT_MS) != (silent_ms < SILENT_MS);
        self.silent_ms = silent_ms;
        let is_silent = silent_ms >= SILENT_MS;
        let again_ms = if is_silent {
            SILENT_AGAIN_MS
        } else {
            REPEAT_MS
        };
        let is_due = match &self.reported {
            None => true,
            Some((last, at)) => {
                let again = is_silent || last.beat != doc.beat;
                turned || (again && now.saturating_sub(*at) >= again_ms)
            }
        };
        let changed = std::mem::take(&mut self.changed);
        if !(is_due || changed) {
            return None;
        }
        let outdated = self
            .name
            .as_ref()
            .is_some_and(|beat| !beat.matches_document(doc));
        let unseen = is_silent && now.saturating_sub(self.load_due_at) > LIMIT_MS;
        let mut doc = doc.clone();
        if outdated || unseen || self.unread || (listing_failed && self.name.is_some()) {
            doc.iso_ms = None;
        }
        let same = |(last, _): &(LoadDoc, u64)| {
            last.incarnation == doc.incarnation && !differs(last, &doc)
        };
        if !is_due && self.reported.as_ref().is_some_and(same) {
            return None;
        }
        self.reported = Some((doc.clone(), now));
        Some((doc, silent_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doc(beat: u64, written: u64) -> LoadDoc {
        LoadDoc {
            host: "h1".into(),
            boot: "b".into(),
            incarnation: "i".into(),
            beat,
            written,
            every_ms: 5000,
            executor: true,
            ..LoadDoc::default()
        }
    }

    fn name(beat: u64, written: u64) -> Beat {
        Beat::of(&doc(beat, written), (1, 80))
    }

    /// The leader's clock shows 40 s, the host's the epoch: nothing seems fresh at the first check.
    const WALL: i64 = 40_000;

    #[test]
    fn a_name_that_moves_is_life_and_one_that_stands_is_none() {
        let mut liveness = HostLiveness::default();
        liveness.note_beats(vec![name(7, 1)], 1_000, WALL);
        assert!(liveness.has_document(1_000) && liveness.evaluate(1_000, false).is_none());
        liveness.read(Some(doc(7, 1)), 1_000, WALL);
        assert_eq!(
            liveness.evaluate(1_000, false).unwrap().1,
            SILENT_MS,
            "may be left over"
        );
        liveness.note_beats(vec![name(8, 1)], 6_000, WALL);
        assert!(!liveness.has_document(6_000) && liveness.is_named(6_000));
        let (load, silent) = liveness.evaluate(6_000, false).unwrap();
        assert_eq!((load.beat, silent), (8, 0));
        liveness.note_beats(vec![name(9, 1)], 11_000, WALL);
        assert!(liveness.evaluate(11_000, false).is_none(), "no news");
        for now in [16_000, 30_000] {
            liveness.note_beats(vec![name(9, 1)], now, WALL);
            liveness.note_beats(Vec::new(), now, WALL);
            assert!(liveness.evaluate(now, false).is_none());
        }
        liveness.note_beats(vec![name(9, 1)], 31_000, WALL);
        assert_eq!(liveness.evaluate(31_000, false).unwrap().1, 20_000);
    }

    #[test]
    fn of_two_names_the_one_that_moves_counts_and_a_dead_one_does_not_revive() {
        let mut liveness = HostLiveness::default();
        liveness.read(Some(doc(7, 1)), 0, WALL);
        // The left-over document has a later time.
        let mut left = name(900, 1);
        left.t = 99;
        liveness.note_beats(vec![left.clone(), name(7, 1)], 1_000, WALL);
        for n in 8..10 {
            liveness.note_beats(vec![left.clone(), name(n, 1)], n * 1000, WALL);
            assert_eq!(liveness.name, Some(name(n, 1)));
        }
        for now in [10_000, 20_000, 30_000] {
            liveness.note_beats(vec![left.clone(), name(9, 1)], now, WALL);
        }
        assert_eq!(liveness.evaluate(30_000, false).unwrap().1, 21_000);
    }

    #[test]
    fn a_document_is_read_when_its_number_grows_and_again_until_it_has_it() {
        let mut liveness = HostLiveness::default();
        liveness.note_beats(vec![name(1, 1)], 1_000, 0);
        liveness.read(Some(doc(1, 1)), 1_000, 0);
        liveness.evaluate(1_000, false);
        liveness.note_beats(vec![name(2, 2)], 6_000, 0);
        assert!(liveness.has_document(6_000));
        liveness.read(Some(doc(1, 1)), 6_000, 0);
        assert!(!liveness.has_document(6_500) && liveness.has_document(7_000));
        liveness.read(None, 7_000, 0);
        assert!(liveness.has_document(8_000));
        let changed = LoadDoc {
            executor: false,
            ..doc(2, 2)
        };
        liveness.read(Some(changed), 8_000, 0);
        assert!(!liveness.has_document(60_000));
        let (load, silent) = liveness.evaluate(8_000, false).unwrap();
        assert_eq!((load.executor, silent), (false, 2_000));
        assert!(liveness.is_inactive());
    }

    #[test]
    fn a_host_that_goes_back_to_an_older_version_lives_by_its_document() {
        let mut liveness = HostLiveness::default();
        liveness.note_beats(vec![name(1, 1)], 1_000, 0);
        liveness.read(Some(doc(1, 1)), 1_000, 0);
        liveness.evaluate(1_000, false);
        assert!(!liveness.lives_by_document(10_000, true));
        assert!(
            liveness.lives_by_document(11_000, false),
            "its name stands still"
        );
        for n in 1..9 {
            liveness.read(
                Some(LoadDoc {
                    incarnation: "old".into(),
                    ..doc(n, 0)
                }),
                11_000 + n,
                0,
            );
        }
        let (_, silent) = liveness.evaluate(20_000, false).unwrap();
        assert_eq!(silent, 20_000 - 11_008);
    }

    #[test]
    fn the_limit_of_a_document_that_is_not_the_last_one_is_not_known() {
        let limited = |beat, written, ms| LoadDoc {
            iso_ms: Some(ms),
            ..doc(beat, written)
        };
        let mut liveness = HostLiveness::default();
        liveness.note_beats(vec![name(1, 1)], 0, WALL);
        liveness.read(Some(limited(1, 1, 20_000)), 0, WALL);
        let limit = |liveness: &mut HostLiveness, now, listing_failed| {
            liveness.evaluate(now, listing_failed).unwrap().0.iso_ms
        };
        assert_eq!(limit(&mut liveness, 30_000, false), None, "not looked at");
        liveness.read(Some(limited(1, 1, 20_000)), 36_000, WALL);
        assert_eq!(limit(&mut liveness, 36_000, false), Some(20_000));
        assert_eq!(
            limit(&mut liveness, 42_000, true),
            None,
            "its name may move"
        );
        liveness.read(Some(limited(1, 2, 10_000)), 48_000, WALL);
        let text = "one that it could not finish, perhaps";
        assert_eq!(limit(&mut liveness, 48_000, false), None, "{text}");
        liveness.note_beats(vec![name(2, 3)], 50_000, WALL);
        assert_eq!(
            limit(&mut liveness, 60_000, false),
            None,
            "it wrote another"
        );
        liveness.read(Some(limited(2, 3, 60_000)), 60_000, WALL);
        assert_eq!(limit(&mut liveness, 61_000, false), Some(60_000));
        liveness.read(None, 62_000, WALL);
        assert_eq!(limit(&mut liveness, 63_000, false), None);
    }
}
