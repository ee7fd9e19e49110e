//! The leader and the standby candidates, read from the files below `leader/`, because the view may
//! be out of date. Never writes.

use super::exit::Fail;
use super::read::Source;
use crate::record::leader::{EpochDoc, FIXED_LEN, decode_fixed};
use crate::record::view::Params;
use crate::show::params::Leader;
use crate::spool::Layout;
use crate::sys::{clock, fs};

/// Number of reads of the epoch file before a torn one counts as damage.
const READS: u32 = 5;
/// A standby candidate writes every 30 s; if its file is older than this (ms), it is gone.
const STANDBY_MS: i64 = 90_000;
/// Maximum number of names that are read in the leader's directory.
const NAMES_MAX: usize = 10_000;
/// Pause between two looks at a beat that seems to be late (ms).
const POLL_MS: u64 = 200;

/// The leader according to the epoch file.
///
/// # Errors
/// The file is damaged or cannot be read.
pub(crate) fn leader(source: &Source, params: &Params) -> Result<Leader, Fail> {
    let path = source.layout.epoch();
    let mut last = String::new();
    for _ in 0..READS {
        let Some(bytes) = fs::read_optional(&path, FIXED_LEN as u64 * 2)? else {
            return Ok(Leader::default());
        };
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Leader::default());
        }
        match decode_fixed::<EpochDoc>(&bytes) {
            Ok(doc) => {
                let host = if doc.host.is_empty() {
                    params.master.clone()
                } else {
                    doc.host
                };
                return Ok(Leader {
                    host,
                    epoch: doc.epoch,
                    quiet_ms: source.quiet_ms(),
                });
            }
            Err(e) => last = e,
        }
        clock::sleep_ms(5);
    }
    Err(Fail::system(format!("{}: {last}", path.display())))
}

/// How long the leader has been silent (ms), if that is longer than the time until a takeover
/// begins. The clocks of the file server and of this host may differ: a beat that seems late is
/// watched for as long as a leader may take until its next beat.
pub(crate) fn silence(source: &Source, params: &Params) -> Option<u64> {
    let lease = params.lease_ms();
    let beat = || {
        let path = source.layout.beat();
        fs::read_optional(&path, 4096).ok().flatten()
    };
    let first = source.quiet_ms().filter(|quiet| *quiet > lease)?;
    let (first_beat, until) = (beat(), clock::boot_ms() + lease / 2);
    while clock::boot_ms() < until {
        clock::sleep_ms(POLL_MS);
        if beat() != first_beat {
            return None;
        }
    }
    Some(source.quiet_ms().unwrap_or(first))
}

/// Hosts with standby candidates, sorted.
pub(crate) fn standby(layout: &Layout, leader: &str) -> Vec<String> {
    let entries = fs::list_dir(&layout.leader_dir(), NAMES_MAX).unwrap_or_default();
    let written = |path: &std::path::Path| Some(fs::stat(path).ok().flatten()?.mtime_ms);
    let hosts = entries
        .iter()
        .filter_map(|e| Layout::parse_standby_name(e.text()?));
    let times: Vec<(&str, i64)> = hosts
        .filter_map(|host| Some((host, written(&layout.standby(host))?)))
        .collect();
    // All times are by the clock of the file server: the newest one, or that of the beat, counts as
    // now.
    let beat = written(&layout.beat());
    let newest = times.iter().map(|(_, t)| *t).chain(beat).max();
    let lives = |t: i64| newest.is_some_and(|now| now.saturating_sub(t) < STANDBY_MS);
    let alive = times
        .iter()
        .filter(|(host, t)| *host != leader && lives(*t));
    alive.map(|(host, _)| (*host).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_view::TestView;
    use std::time::{Duration, SystemTime};

    fn write(layout: &Layout, path: &std::path::Path, age_s: u64) {
        std::fs::create_dir_all(layout.leader_dir()).unwrap();
        let file = std::fs::File::create(path).unwrap();
        let when = SystemTime::now() - Duration::from_secs(age_s);
        file.set_modified(when).unwrap();
    }

    #[test]
    fn candidates_that_wrote_lately_stand_by_and_the_leader_does_not() {
        let bed = TestView::new();
        let layout = Layout::new(bed.dir.path());
        assert!(standby(&layout, "m1").is_empty());
        for (host, age_s) in [("m1", 1), ("m2", 20), ("m3", 200)] {
            write(&layout, &layout.standby(host), age_s);
        }
        assert_eq!(standby(&layout, "m1"), ["m2"]);
        // Nothing is written any more, so the last candidates are not known to be gone.
        for (host, age_s) in [("m1", 1000), ("m2", 1020), ("m3", 1200)] {
            write(&layout, &layout.standby(host), age_s);
        }
        assert_eq!(standby(&layout, "m1"), ["m2"]);
    }

    #[test]
    fn a_beat_that_does_not_move_is_a_silent_leader_and_one_that_moves_is_not() {
        let bed = TestView::new();
        let layout = Layout::new(bed.dir.path());
        let source = bed.source("cid", 10);
        let params = Params {
            params: vec![("cluster.lease_timeout_ms".into(), "2000".into())],
            ..Params::default()
        };
        write(&layout, &layout.beat(), 0);
        assert_eq!(silence(&source, &params), None);
        write(&layout, &layout.beat(), 60);
        assert!(silence(&source, &params).is_some_and(|ms| ms > 50_000));
        // The clock of the file server lags the clock of this host.
        std::thread::scope(|s| {
            s.spawn(|| {
                clock::sleep_ms(300);
                std::fs::write(layout.beat(), "next").unwrap();
            });
            assert_eq!(silence(&source, &params), None);
        });
    }
}
