//! The journal: every kept record of all epochs, and the state that results from it.

use super::finding::Finding;
use super::{CheckedCounts, Ctx};
use crate::admin::journal_damage::{self, ReadFinding};
use crate::journal::{self, Chain, Error};
use crate::model::{AttemptId, JobKey};
use crate::record::event::Event;
use crate::record::leader::{BeatDoc, FIXED_LEN, decode_fixed};
use crate::state::State;
use crate::state_loader::Loader;
use crate::sys;
use rustc_hash::{FxHashMap, FxHashSet};

/// Maximum number of attempts that are followed through the kept events; further ones are not
/// checked.
const ATTEMPTS_MAX: usize = 8_000_000;
/// Maximum number of findings of one kind.
const EACH_MAX: usize = 20;
/// Number of tries to read a journal that changes during the read.
const TRIES: usize = 5;

const DAMAGE: &str = "'cadmin fsck' lists all damage. Records before it are safe. Keep a copy of \
     the share, then let one 'cbsched --accept-loss' lead: it sets the damaged bytes aside in \
     lost+found and continues after them";

/// The phase of an attempt, according to the events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Bound,
    Started,
    /// Given up with its host: a success that the host reports later still counts.
    Lost,
    Over,
}

/// Follows the attempts through the kept events.
#[derive(Default)]
struct Attempts {
    phases: FxHashMap<AttemptId, Phase>,
    ids: FxHashSet<u32>,
    out_of_order: Vec<(AttemptId, &'static str)>,
}

impl Attempts {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Submitted(s) => self.submitted(s.id),
            Event::Dispatched { a, .. } => self.dispatched(*a),
            Event::Started { a, .. } => self.step(*a, Phase::Started),
            Event::Ended { e, requeue, .. } => {
                let lost = e.reason.is_given_up();
                match self.phases.get(&e.a) {
                    Some(Phase::Lost) if e.is_success() => self.step(e.a, Phase::Over),
                    Some(Phase::Lost) => self.out_of_order.push((e.a, "ended twice")),
                    _ if *requeue && lost => self.step(e.a, Phase::Lost),
                    _ => self.step(e.a, Phase::Over),
                }
            }
            Event::Unbound { a, .. } => match self.phases.insert(*a, Phase::Over) {
                Some(Phase::Started) => self.out_of_order.push((*a, "started, and was unbound")),
                Some(Phase::Over | Phase::Lost) => {
                    self.out_of_order.push((*a, "was over, and was unbound"));
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// After ids have rolled over, an id may be submitted again.
    fn submitted(&mut self, id: u32) {
        if !self.ids.insert(id) {
            self.phases.retain(|a, _| a.j.id != id);
        }
    }

    fn dispatched(&mut self, a: AttemptId) {
        let room = self.phases.len() < ATTEMPTS_MAX;
        if room && self.phases.insert(a, Phase::Bound).is_some() {
            self.out_of_order.push((a, "was dispatched twice"));
        }
    }

    fn step(&mut self, a: AttemptId, to: Phase) {
        let Some(phase) = self.phases.get_mut(&a) else {
            return;
        };
        match (*phase, to) {
            (Phase::Started, Phase::Started) => self.out_of_order.push((a, "started twice")),
            (Phase::Over | Phase::Lost, Phase::Started) => {
                self.out_of_order.push((a, "was over, and started"));
            }
            (Phase::Over, _) => self.out_of_order.push((a, "ended twice")),
            _ => {}
        }
        *phase = to;
    }
}

/// Reads every kept record and checks checksums, sequence, seals, and the phases of each attempt.
pub(super) fn history(ctx: &Ctx, counts: &mut CheckedCounts, out: &mut Vec<Finding>) {
    let mut walk = Walk::default();
    if let Err(e) = walk.all(ctx) {
        out.push(refused(ctx, &e));
    }
    (counts.epochs, counts.events) = (walk.epochs, walk.events);
    for (place, what) in walk.damage.into_iter().take(EACH_MAX) {
        out.push(Finding::broken("journal", place, what, DAMAGE));
    }
    for (a, what) in walk.attempts.out_of_order.iter().take(EACH_MAX) {
        let what = format!("{what}, according to the events of the journal");
        out.push(Finding::defect("journal", format!("attempt {a}"), what));
    }
}

/// The walk over all kept segments.
#[derive(Default)]
struct Walk {
    epochs: u64,
    events: u64,
    attempts: Attempts,
    /// The place and the description of each damage.
    damage: Vec<(String, String)>,
}

impl Walk {
    fn all(&mut self, ctx: &Ctx) -> Result<(), Error> {
        let chain = Chain::retained(&ctx.layout, &ctx.cluster.cluster)?;
        self.epochs = chain.end_epoch - chain.first;
        for place in journal_damage::unsealed(&chain, &ctx.layout) {
            self.damage.push((place.0.display().to_string(), place.2));
        }
        for epoch in chain.first..chain.end_epoch {
            journal_damage::read_epoch(&chain, epoch, &mut |met| self.add_finding(met))?;
        }
        Ok(())
    }

    fn add_finding(&mut self, met: ReadFinding) {
        match met {
            ReadFinding::Event(event) => {
                self.events += 1;
                self.attempts.event(&event);
            }
            ReadFinding::Damage { place, .. } => {
                let (path, offset, what) = place;
                self.damage
                    .push((format!("{}:{offset}", path.display()), what));
            }
            // The record is being written, or was never acknowledged.
            ReadFinding::Partial(..) => {}
        }
    }
}

fn refused(ctx: &Ctx, e: &Error) -> Finding {
    match e {
        Error::Io(e) => Finding::unreadable("journal", e),
        other => Finding::broken(
            "journal",
            ctx.layout.epochs().display(),
            format!(
                "no new leader can be elected: {}",
                first_part(&other.to_string())
            ),
            DAMAGE,
        ),
    }
}

/// The text of an error without its advice, which is in `do`.
fn first_part(text: &str) -> &str {
    text.split("; keep a copy of the share")
        .next()
        .unwrap_or(text)
}

/// The state as the next leader would recover it; `None` if it could not.
pub(super) fn replay(ctx: &Ctx, out: &mut Vec<Finding>) -> Option<State> {
    let led = led_epoch(ctx);
    let mut last = None;
    for attempt in 0..TRIES {
        if attempt > 0 {
            sys::clock::sleep_ms(100);
        }
        let newest = match Chain::newest(&ctx.layout) {
            Ok(newest) => newest,
            Err(e) => {
                last = Some(e);
                continue;
            }
        };
        let mut loader = Loader::default();
        let options = journal::Options {
            led_epoch: led,
            ..journal::Options::default()
        };
        let read = journal::recover(
            &ctx.layout,
            &ctx.cluster.cluster,
            newest + 1,
            options,
            &mut loader,
        );
        match read {
            // A leader that took over meanwhile has recorded the end of the epoch before.
            Ok(recovered) if Chain::newest(&ctx.layout).is_ok_and(|n| n == newest) => {
                warn_of_skipped(&recovered.skipped_snapshots, out);
                broken_state(&loader.state, out);
                return Some(loader.state);
            }
            Ok(_) => {}
            Err(e) => last = Some(e),
        }
    }
    out.push(match last {
        Some(e) => refused(ctx, &e),
        None => Finding::unknown(
            "journal",
            "",
            "leaders changed faster than it could be read",
        ),
    });
    None
}

/// The epoch whose leader has announced that it leads: its events must exist.
fn led_epoch(ctx: &Ctx) -> Option<u64> {
    let bytes = sys::fs::read_small(&ctx.layout.beat(), 2 * FIXED_LEN as u64).ok()?;
    let beat: BeatDoc = decode_fixed(&bytes).ok()?;
    beat.leading.then_some(beat.epoch)
}

fn warn_of_skipped(snapshots: &[String], out: &mut Vec<Finding>) {
    for note in snapshots {
        out.push(Finding::warning(
            "journal",
            "snapshot",
            note.clone(),
            "an older snapshot is used: recovery takes longer; see 'cadmin fsck'",
        ));
    }
}

fn broken_state(state: &State, out: &mut Vec<Finding>) {
    for text in state.check().into_iter().take(EACH_MAX) {
        out.push(Finding::defect("state", "journal", text));
    }
}

/// The work of an attempt, if that is the job's current or last attempt.
pub(super) fn work_of(state: &State, a: AttemptId) -> Option<&crate::state::Work> {
    state.work(a.j).filter(|w| w.attempt == a.at)
}

/// The highest job id ever assigned, plus one.
pub(super) fn next_id(state: &State) -> u32 {
    state.next_id(u32::MAX).unwrap_or(u32::MAX)
}

/// The first host of the last run of a job.
pub(super) fn first_host(state: &State, j: JobKey) -> Option<String> {
    let run = state.work(j)?.run.as_deref()?;
    run.hosts
        .first()
        .map(|(id, _)| state.host_name(*id).to_string())
}
