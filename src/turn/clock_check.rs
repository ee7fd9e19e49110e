//! The leader's clock in a turn: its steps are taken into account, and it is periodically compared
//! with the hosts' clocks.

use super::context::Turn;
use super::core::Core;
use super::host_loss::SILENT_MS;
use crate::model::Now;
use crate::text::duration::short;

impl Turn<'_> {
    /// Records the current time, before anything else in the turn.
    pub(super) fn observe_clock(&mut self, now: Now) {
        let core = &mut *self.core;
        let step = core.clock.observe(now);
        if step != 0 {
            tracing::warn!(
                "the clock of this host was set {} by {}",
                if step > 0 { "forward" } else { "back" },
                short(step.unsigned_abs())
            );
        }
        if core.clock.compare_due(now.mono, step != 0) {
            let loads = core.inputs.loads.values();
            let alive = loads.filter(|(_, silent_ms)| *silent_ms < SILENT_MS);
            let hosts = alive.filter_map(|(doc, _)| doc.clock_ahead_ms);
            self.ready.publish |= core.clock.compare(hosts);
        }
        let (agreed, step) = core.clock.agree();
        self.now = agreed;
        if step != 0 {
            core.engine.clock_stepped(step);
            core.pass.needed = true;
        }
    }
}

impl Core {
    /// Notes by how many milliseconds the leader's clock is ahead of the file server's at `now`.
    pub fn note_server_clock(&mut self, now: Now, ahead_ms: i64) {
        self.clock.note_server(now, ahead_ms);
    }

    /// The alarm in the views if the leader's clock is doubted.
    pub fn clock_alarm(&self) -> Option<String> {
        let ahead = self.clock.ahead_ms();
        let by = short(ahead.unsigned_abs() / 1000 * 1000);
        let what = match ahead {
            0 => return None,
            1.. => "ahead of",
            _ => "behind",
        };
        Some(format!(
            "the clock of this leader is {by} {what} most hosts' clocks: the leader uses the \
             hosts' time; set the clock"
        ))
    }
}
