//! Nothing of a task is started while it is suspended. In a frozen group, the new process would
//! stop before its program, and this process, which waits for that, could accept no order; without
//! a group, the new process would simply run.

use super::Shepherd;
use crate::model::TermReason;
use crate::record::report::Ended;
use crate::sys::clock;
use crate::sys::supervise::{self, Reaped, WakeReason};

/// Longest wait for an order (ms).
const POLL_MS: u64 = 60_000;

impl Shepherd<'_> {
    /// Accepts orders until the task may continue.
    ///
    /// # Errors
    /// The reason why it is ended instead.
    pub(super) fn until_resumed(&mut self) -> Result<(), TermReason> {
        if !self.machine.is_suspended() {
            return Ok(());
        }
        while self.machine.is_suspended() {
            if self.is_fenced() {
                return Err(TermReason::Fenced);
            }
            let now = clock::boot_ms();
            let effects = self.machine.tick(now);
            self.carry_out(&effects);
            let next = self
                .machine
                .next_at(now)
                .map_or(POLL_MS, |at| at.saturating_sub(now));
            let look = self
                .silence
                .as_ref()
                .map_or(POLL_MS, |silence| silence.pause());
            match supervise::wait_signal(Some(next.min(look))) {
                WakeReason::Order(value, uid) => self.order(value, uid, None),
                WakeReason::Child => self.check_client(),
                WakeReason::Timeout => {}
            }
        }
        match self.machine.is_ending() {
            true => Err(self.machine.reason()),
            false => Ok(()),
        }
    }

    fn check_client(&mut self) {
        while let Reaped::Child(pid, _) = supervise::reap() {
            if pid == self.relay {
                self.client_lost();
            }
        }
    }

    /// The end of a task that was ended before its command could begin.
    pub(super) fn ended_before(&self, reason: TermReason) -> Ended {
        let mut end = match reason {
            TermReason::Fenced => self.cut_off(),
            _ => self.failed(None, Default::default()),
        };
        end.reason = reason;
        end
    }
}
