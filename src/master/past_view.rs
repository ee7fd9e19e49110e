//! The view of a past moment: what the leader published then, reconstructed from the journal in a
//! directory of the caller. For `cjobs --at` and similar options; only reads the share.
//!
//! What the journal does not contain is missing: load, alarms, and the moments of share trees that
//! are only in a leader's memory.

use super::publish::Publisher;
use super::{conf, core_of};
use crate::journal::{Flow, RecoveredPast, RestorePast, recover_past};
use crate::model::Stamp;
use crate::record::event::Event;
use crate::record::leader::{CLUSTER_MAX, ClusterDoc};
use crate::record::load::{self, LOAD_MAX, LoadDoc};
use crate::record::view;
use crate::show::event::time_of;
use crate::spool::Layout;
use crate::state::{SnapRecord, State};
use crate::sys::fs;
use crate::turn::{self, Core};
use std::collections::BTreeMap;
use std::path::Path;

/// Maximum number of events that are held back until a leader's time shows whether they come before
/// or after the moment.
const HELD_MAX: usize = 100_000;

/// Publishes the view of `moment` below `dir`. Returns notes for the reader.
///
/// # Errors
/// A sentence: nothing is kept of that time, the journal is damaged, `dir` cannot be written.
pub(crate) fn view_at(layout: &Layout, moment: Stamp, dir: &Path) -> Result<Vec<String>, String> {
    let bytes = fs::read_small(&layout.cluster(), CLUSTER_MAX).map_err(|e| e.to_string())?;
    let cluster =
        ClusterDoc::decode(&bytes).map_err(|e| format!("{}: {e}", layout.cluster().display()))?;
    let mut restorer = Restorer::new(moment);
    let restored = recover_past(layout, &cluster.cluster, moment.0, &mut restorer);
    let mut notes = match restored.map_err(|e| e.to_string())? {
        RecoveredPast::Restored { notes } => notes,
        RecoveredPast::TooEarly { oldest } => return Err(too_early(layout, oldest)),
    };
    if !restorer.has_begun {
        return Err("the cluster had no leader before that time".to_owned());
    }
    let core = core_at(layout, &cluster, restorer.state, &mut notes)?;
    publish(&core, &cluster, moment, dir).map_err(|e| e.to_string())?;
    Ok(notes)
}

fn too_early(layout: &Layout, oldest: Option<i64>) -> String {
    let since = oldest.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let since = since.map_or_else(String::new, |t| {
        let t = t.to_zoned(jiff::tz::TimeZone::system());
        format!(
            "; the oldest state that is kept is of {}",
            t.strftime("%Y-%m-%d %H:%M:%S")
        )
    });
    format!(
        "{}: no state of that time is kept{since}\nhint: history_keep and history_size of \
         cb.yaml say how much is kept",
        layout.root().display()
    )
}

/// The core that a leader had at that time.
fn core_at(
    layout: &Layout,
    cluster: &ClusterDoc,
    state: State,
    notes: &mut Vec<String>,
) -> Result<Core, String> {
    let digest = state.config_digest();
    let copy = conf::parse_file(&layout.past_config(digest));
    let read = match copy {
        Ok(read) => read,
        Err(_) => {
            let present =
                conf::parse_file(&layout.config()).map_err(|problems| problems.join("\n"))?;
            if present.digest != digest {
                let text = "no copy of the cb.yaml of that time is kept: queues, hosts and \
                    limits are those of the current one";
                notes.push(text.to_owned());
            }
            present
        }
    };
    let samples = samples(layout, &state);
    let mut core = core_of(state, (&read.config, Vec::new()), cluster.service_uid);
    core.hosts.rebuild(&read.config, &core.state, &samples);
    turn::refresh(&mut core);
    Ok(core)
}

/// The permanent facts known of each host: cores, memory, type. Its load at that time is not known.
fn samples(layout: &Layout, state: &State) -> BTreeMap<String, (LoadDoc, u64)> {
    let mut samples = BTreeMap::new();
    for (host, _) in state.known_hosts() {
        let bytes = fs::read_optional(&layout.load(host), LOAD_MAX as u64);
        let doc = bytes.ok().flatten().and_then(|b| load::decode(&b).ok());
        let now = doc.unwrap_or_default();
        let doc = LoadDoc {
            host: host.clone(),
            executor: true,
            ncpus: now.ncpus,
            maxmem: now.maxmem,
            maxswp: now.maxswp,
            maxtmp: now.maxtmp,
            ndisks: now.ndisks,
            host_type: now.host_type,
            model: now.model,
            ..LoadDoc::default()
        };
        samples.insert(host.clone(), (doc, 0));
    }
    samples
}

fn publish(core: &Core, cluster: &ClusterDoc, moment: Stamp, dir: &Path) -> crate::sys::Result<()> {
    let layout = Layout::new(dir);
    fs::mkdir_p(&layout.view(), 0o700)?;
    let mut publisher = Publisher::new(&layout, &cluster.cluster, core.state.epoch())?;
    publisher.finish(&core.state)?;
    // The journal contains which host led; no command that looks at the past shows it.
    let params = turn::params(core, &cluster.cluster, "-", moment);
    publisher.document(view::PARAMS, &[params])?;
    publisher.document(view::HOSTS, &turn::host_rows(core))?;
    publisher.document(view::QUEUES, &turn::queue_rows(core))?;
    publisher.document(view::USERS, &turn::user_rows(core))?;
    publisher.document(view::LIMITS, &turn::limit_rows(core, moment))?;
    publisher.document(view::SHARES, &turn::share_rows(core, moment))?;
    publisher.document(view::ESTIMATES, &turn::estimate_rows(core))?;
    let crons: Vec<_> = core.state.crons().collect();
    publisher.document(view::CRONS, &crons)?;
    let groups: Vec<_> = core.state.job_groups().collect();
    publisher.document(view::JOB_GROUPS, &groups)
}

/// Applies events up to a moment.
///
/// The order of the journal counts. Leaders assign the times of most events, hosts those of starts
/// and ends. A host's clock may be wrong, so an event that it dates after the moment is held back
/// until the next event of a leader shows whether the moment has passed.
struct Restorer {
    state: State,
    moment: Stamp,
    buffered: Vec<Event>,
    /// Events of the running cluster were found.
    has_begun: bool,
}

impl Restorer {
    fn new(moment: Stamp) -> Restorer {
        Restorer {
            state: State::new(),
            moment,
            buffered: Vec::new(),
            has_begun: false,
        }
    }

    fn apply(&mut self, event: &Event) {
        self.has_begun = true;
        self.state.apply(event);
    }
}

impl RestorePast for Restorer {
    fn reset(&mut self) {
        *self = Restorer::new(self.moment);
    }

    fn record(&mut self, json: &[u8]) -> Result<(), String> {
        self.has_begun = true;
        self.state.restore(SnapRecord::decode(json)?);
        Ok(())
    }

    fn event(&mut self, event: Event) -> Flow {
        let time = time_of(&event);
        let late = time.is_some_and(|t| t > self.moment);
        if time.is_some() && !is_of_host(&event) {
            if late {
                return Flow::Stop;
            }
            for buffered in std::mem::take(&mut self.buffered) {
                self.apply(&buffered);
            }
            self.apply(&event);
        } else if late || !self.buffered.is_empty() {
            self.buffered.push(event);
            // Among so many events there was none with a leader's time: the moment has long passed.
            if self.buffered.len() >= HELD_MAX {
                return Flow::Stop;
            }
        } else {
            self.apply(&event);
        }
        Flow::Continue
    }
}

/// Whether a host assigned its time.
fn is_of_host(event: &Event) -> bool {
    matches!(
        event,
        Event::Started { .. }
            | Event::Ended { .. }
            | Event::PartBound { .. }
            | Event::PartUsed { .. }
            | Event::Unbound { .. }
            | Event::Suspended { .. }
            | Event::Checkpointed { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AttemptId, JobKey};

    fn started(id: u32, t: i64) -> Event {
        Event::Started {
            a: AttemptId {
                j: JobKey::job(id),
                at: 1,
            },
            pid: 1,
            t: Stamp(t),
            bind: None,
        }
    }

    fn config(digest: &str, t: i64) -> Event {
        Event::Config {
            digest: digest.to_owned(),
            t: Stamp(t),
        }
    }

    fn read(moment: i64, events: &[Event]) -> (usize, String, usize) {
        let mut restorer = Restorer::new(Stamp(moment));
        let mut given = events.iter().cloned();
        let taken = given.position(|event| restorer.event(event) == Flow::Stop);
        let digest = restorer.state.config_digest().to_owned();
        (
            taken.unwrap_or(events.len()),
            digest,
            restorer.buffered.len(),
        )
    }

    #[test]
    fn a_leaders_event_after_the_moment_ends_it() {
        let events = [config("a", 5), config("b", 10), config("c", 11)];
        assert_eq!(read(10, &events), (2, "b".to_owned(), 0));
    }

    #[test]
    fn a_host_with_a_clock_ahead_does_not_end_the_moment() {
        let events = [
            config("a", 5),
            started(1, 900),
            config("b", 9),
            config("c", 11),
        ];
        assert_eq!(read(10, &events), (3, "b".to_owned(), 0));
    }

    #[test]
    fn what_hosts_report_after_the_moment_is_left_out() {
        let events = [config("a", 5), started(1, 11), started(2, 9)];
        // In the order of the journal: later events may depend on it.
        assert_eq!(read(10, &events), (3, "a".to_owned(), 2));
        let events = [config("a", 5), started(1, 11), config("b", 12)];
        assert_eq!(read(10, &events), (2, "a".to_owned(), 1));
    }
}
