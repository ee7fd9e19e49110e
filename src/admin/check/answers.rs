//! Compares the acknowledgements of the newest epochs with the journal.

use super::Ctx;
use super::finding::Finding;
use super::journal::next_id;
use crate::journal::{Chain, LineError, Lines};
use crate::model::Token;
use crate::record::ack::{Ack, IdRun};
use crate::record::frame::{Damage, Damaged};
use crate::record::header::FileKind;
use crate::state::State;
use std::path::Path;

/// Number of epochs whose acknowledgements are read, newest first.
const EPOCHS: u64 = 3;
/// Maximum number of acknowledgements compared with the journal.
const ACKS_MAX: usize = 2_000_000;
const EACH_MAX: usize = 20;

/// Acknowledged jobs.
pub(super) struct AcknowledgedJobs {
    jobs: Vec<(u64, Token, IdRun)>,
}

impl AcknowledgedJobs {
    /// Reads the newest acknowledgements.
    pub(super) fn read(ctx: &Ctx, out: &mut Vec<Finding>) -> AcknowledgedJobs {
        let mut acknowledged = AcknowledgedJobs { jobs: Vec::new() };
        let newest = Chain::newest(&ctx.layout).unwrap_or(0);
        for epoch in (1..=newest).rev().take(EPOCHS as usize) {
            for path in [ctx.layout.acks(epoch), ctx.layout.acks_before(epoch)] {
                acknowledged.file(epoch, &path, out);
            }
        }
        acknowledged
    }

    fn file(&mut self, epoch: u64, path: &Path, out: &mut Vec<Finding>) {
        let mut lines = Lines::new(path, u64::MAX);
        let mut header = true;
        loop {
            match lines.next_line() {
                Ok(None) => return,
                Ok(Some(_)) if std::mem::take(&mut header) => {}
                Ok(Some(step)) => {
                    if let Ok(ack) = step.line.decode::<Ack>()
                        && self.jobs.len() < ACKS_MAX
                    {
                        let runs = ack.ids.into_iter().filter(|r| !r.known);
                        self.jobs.extend(runs.map(|r| (epoch, ack.tok, r)));
                    }
                }
                Err(LineError::Io(e)) if e.is_not_found() => return,
                Err(LineError::Io(e)) => return out.push(Finding::unreadable("answers", &e)),
                Err(LineError::Damaged(d)) => {
                    let due = lines.next_seq();
                    match lines.skip() {
                        // A record that was cut because the share was full is repeated completely
                        // after it.
                        Ok(s) if s.repeats(FileKind::Acks, due, lines.next_seq()) => continue,
                        _ => return damaged(path, &d, out),
                    }
                }
            }
        }
    }

    /// Checks that every acknowledged job is in the journal.
    pub(super) fn check_against(&self, state: &State, out: &mut Vec<Finding>) {
        let next = next_id(state);
        let lost = self.jobs.iter().filter(|(_, tok, run)| {
            run.id >= next && state.job(run.id).is_none() && state.known_answer(*tok).is_none()
        });
        for (epoch, _, run) in lost.take(EACH_MAX) {
            out.push(Finding::broken(
                "answers",
                format!("job {}", run.id),
                format!(
                    "it was acknowledged in epoch {epoch}, but the journal does not contain it: \
                     an accepted job is lost"
                ),
                "was the share restored from a backup, or damage accepted? Submit it again",
            ));
        }
    }
}

/// Damage, unless the record is still being written. It costs answers but no job.
fn damaged(path: &Path, d: &Damaged, out: &mut Vec<Finding>) {
    if d.damage != Damage::Torn {
        out.push(Finding::broken(
            "answers",
            format!("{}:{}", path.display(), d.offset),
            d.damage.to_string(),
            "commands that wait for these answers repeat their requests; check the disk of the \
             share",
        ));
    }
}
