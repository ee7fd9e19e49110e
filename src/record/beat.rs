//! A host's beat: a name in `beats/` that its cbls renames, so that one listing shows all hosts.
//!
//! The name is the complete record. It contains what changes at every beat, the number of the load
//! document and the position in the reports, so that a reader opens only files with new data.
//! Converts bytes to values and back, strictly: a name that does not round-trip is ignored.

use super::load::LoadDoc;

/// Maximum length of the name of a beat.
const NAME_MAX: usize = 255;
/// Number of characters of a boot id and of an incarnation in the name.
const SHORT: usize = 8;
/// Number of measured values in the name.
const SAMPLE: usize = 11;

/// The content of the name of a host's beat.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Beat {
    pub host: String,
    /// The first characters of the boot id and of the incarnation of cbls.
    pub boot: String,
    pub incarnation: String,
    /// Increases with each rename by one incarnation.
    pub beat: u64,
    /// The host's wall clock, seconds.
    pub t: u64,
    /// Number of the last load document of this incarnation; each attempt to write one has its own.
    pub doc: u64,
    /// Reports file that cbexe writes, and its length.
    pub part: u64,
    pub end: u64,
    sample: [u64; SAMPLE],
}

/// The first characters of an id, without separators of fields.
pub fn short(id: &str) -> String {
    let plain = id.chars().filter(char::is_ascii_alphanumeric);
    plain.take(SHORT).collect()
}

/// A measured value as a multiple of `1 / per`.
fn scaled(value: f64, per: f64) -> u64 {
    // Casts of floats saturate, and convert NaN to 0.
    (value * per).round() as u64
}

impl Beat {
    /// The beat for a sample.
    pub fn of(doc: &LoadDoc, (part, end): (u64, u64)) -> Beat {
        Beat {
            host: doc.host.clone(),
            boot: short(&doc.boot),
            incarnation: short(&doc.incarnation),
            beat: doc.beat,
            t: u64::try_from(doc.t / 1000).unwrap_or(0),
            doc: doc.written,
            part,
            end,
            sample: [
                scaled(doc.r15s, 1000.0),
                scaled(doc.r1m, 1000.0),
                scaled(doc.r15m, 1000.0),
                scaled(doc.ut, 1000.0),
                scaled(doc.pg, 10.0),
                scaled(doc.io, 1.0),
                scaled(doc.ls, 1.0),
                scaled(doc.it, 1.0),
                scaled(doc.tmp, 1.0),
                scaled(doc.swp, 1.0),
                scaled(doc.mem, 1.0),
            ],
        }
    }

    /// Copies the content of the name into the document that belongs to it.
    pub fn put_into(&self, doc: &mut LoadDoc) {
        let [r15s, r1m, r15m, ut, pg, io, ls, it, tmp, swp, mem] = self.sample.map(|n| n as f64);
        (doc.r15s, doc.r1m, doc.r15m) = (r15s / 1000.0, r1m / 1000.0, r15m / 1000.0);
        (doc.ut, doc.pg, doc.io) = (ut / 1000.0, pg / 10.0, io);
        (doc.ls, doc.it, doc.tmp, doc.swp, doc.mem) = (ls, it, tmp, swp, mem);
        doc.beat = self.beat;
        doc.t = i64::try_from(self.t)
            .unwrap_or(i64::MAX)
            .saturating_mul(1000);
    }

    /// Whether the cbls of this beat wrote the document, whatever its number.
    pub fn is_of(&self, doc: &LoadDoc) -> bool {
        short(&doc.incarnation) == self.incarnation
    }

    /// Whether this is the last document of the cbls of this beat. A later one is not accepted:
    /// this cbls may not have finished it, and writes it once more.
    pub fn matches_document(&self, doc: &LoadDoc) -> bool {
        self.is_of(doc) && doc.written == self.doc
    }

    /// The name; `None` if it is too long for a file.
    pub fn name(&self) -> Option<String> {
        let sample = self.sample.map(|n| n.to_string()).join("_");
        let name = format!(
            "{},{},{},{},{},{},{},{},{sample}",
            self.host,
            self.boot,
            self.incarnation,
            self.beat,
            self.t,
            self.doc,
            self.part,
            self.end
        );
        (name.len() <= NAME_MAX).then_some(name)
    }

    /// Reads a name; `None` if it is not the name of a beat.
    pub fn parse(name: &str) -> Option<Beat> {
        let mut words = name.rsplitn(9, ',');
        let mut sample = [0; SAMPLE];
        let mut numbers = words.next()?.split('_');
        for n in &mut sample {
            *n = numbers.next()?.parse().ok()?;
        }
        let mut number = || words.next()?.parse().ok();
        let (end, part, doc, t, beat) = (number()?, number()?, number()?, number()?, number()?);
        let mut word = || words.next().map(str::to_owned);
        let (incarnation, boot, host) = (word()?, word()?, word()?);
        let found = Beat {
            host,
            boot,
            incarnation,
            beat,
            t,
            doc,
            part,
            end,
            sample,
        };
        let plain = !found.host.is_empty() && !found.host.contains('/');
        // No host writes a name with signs, leading zeros or additional numbers.
        (plain && found.name().as_deref() == Some(name)).then_some(found)
    }
}

/// Whether a measured value has changed by more than the noise: a fraction of the larger value, and
/// at least a floor.
fn has_changed(old: f64, new: f64, floor: f64) -> bool {
    (old - new).abs() > floor.max(old.abs().max(new.abs()) / 20.0)
}

/// Whether a sample differs from the previous one in a way that matters to the scheduler: any
/// change of values that are not measured, and changes of measured values above the noise.
pub fn differs(old: &LoadDoc, new: &LoadDoc) -> bool {
    let noisy = [
        has_changed(old.r15s, new.r15s, 0.1),
        has_changed(old.r1m, new.r1m, 0.05),
        has_changed(old.r15m, new.r15m, 0.05),
        has_changed(old.ut, new.ut, 0.02),
        has_changed(old.pg, new.pg, 1.0),
        has_changed(old.io, new.io, 20.0),
        has_changed(old.ls, new.ls, 0.0),
        has_changed(old.it, new.it, 0.0),
        has_changed(old.tmp, new.tmp, 16.0),
        has_changed(old.swp, new.swp, 16.0),
        has_changed(old.mem, new.mem, 16.0),
    ];
    noisy.contains(&true) || material(old, new)
}

/// Whether anything has changed that is not in the name of the beat.
pub fn material(old: &LoadDoc, new: &LoadDoc) -> bool {
    let mut same = new.clone();
    Beat::of(old, (0, 0)).put_into(&mut same);
    let mut old_same = old.clone();
    Beat::of(old, (0, 0)).put_into(&mut old_same);
    (same.written, old_same.written) = (0, 0);
    same != old_same
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doc() -> LoadDoc {
        LoadDoc {
            host: "node7,b.example".into(),
            boot: "0a1b2c3d-4e5f".into(),
            incarnation: "feedbeefcafe".into(),
            beat: 12,
            t: 1_700_000_000_500,
            written: 3,
            r1m: 1.25,
            mem: 4096.0,
            pg: -1.0,
            ut: f64::NAN,
            ..LoadDoc::default()
        }
    }

    #[test]
    fn a_name_reads_back_and_gives_its_sample() {
        let beat = Beat::of(&doc(), (2, 812));
        let name = beat.name().unwrap();
        assert_eq!(Beat::parse(&name), Some(beat.clone()));
        assert!(beat.matches_document(&doc()));
        let mut other = LoadDoc {
            boot: doc().boot,
            ..LoadDoc::default()
        };
        assert!(!beat.matches_document(&other));
        beat.put_into(&mut other);
        assert_eq!((other.r1m, other.mem, other.beat), (1.25, 4096.0, 12));
        assert_eq!((other.t, other.pg, other.ut), (1_700_000_000_000, 0.0, 0.0));
    }

    #[test]
    fn what_nobody_writes_is_no_beat() {
        let name = Beat::of(&doc(), (2, 812)).name().unwrap();
        for bad in [
            String::new(),
            "node7".into(),
            name.replace(",12,", ",012,"),
            name.replace(",12,", ",+12,"),
            name.replace(",12,", ",-1,"),
            name.replace(",12,", ",99999999999999999999,"),
            name.replace("node7,b.example", ""),
            name.replace("node7", "../node7"),
            format!("{name}_1"),
            format!("{name},1"),
            name.rsplit_once('_').unwrap().0.to_owned(),
        ] {
            assert_eq!(Beat::parse(&bad), None, "{bad}");
        }
        let long = LoadDoc {
            host: "x".repeat(250),
            ..doc()
        };
        assert_eq!(Beat::of(&long, (0, 0)).name(), None);
    }

    #[test]
    fn noise_is_told_from_news() {
        let old = doc();
        let change = |f: &dyn Fn(&mut LoadDoc)| {
            let mut new = doc();
            new.ut = 0.0;
            f(&mut new);
            let old = LoadDoc {
                ut: 0.0,
                ..old.clone()
            };
            (differs(&old, &new), material(&old, &new))
        };
        assert_eq!(change(&|_| ()), (false, false));
        assert_eq!(
            change(&|d| (d.beat, d.t, d.written) = (13, 5, 4)),
            (false, false)
        );
        assert_eq!(change(&|d| d.r1m += 0.03), (false, false));
        assert_eq!(change(&|d| d.r1m += 0.3), (true, false));
        assert_eq!(change(&|d| d.mem -= 100.0), (false, false));
        assert_eq!(change(&|d| d.mem -= 500.0), (true, false));
        assert_eq!(change(&|d| d.executor = true), (true, true));
        assert_eq!(change(&|d| d.top = 5), (true, true));
    }
}
