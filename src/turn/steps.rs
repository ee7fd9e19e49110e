//! The steps of a turn, in their order.

use super::context::Turn;
use super::core::Core;
use super::input::Input;
use super::ready::Ready;
use crate::model::Now;
use crate::state::PREFETCH_BATCH;

/// Takes one turn.
pub fn turn(core: &mut Core, inputs: Vec<Input>, now: Now) -> Ready {
    let mut turn = Turn {
        core,
        now: now.wall,
        mono: now.mono,
        ready: Ready::default(),
        slice_end: 0,
    };
    turn.observe_clock(now);
    inputs
        .iter()
        .for_each(|input| turn.note_command_ends(input));
    let mut inputs = inputs.into_iter();
    while inputs.len() > 0 {
        let ahead = inputs.as_slice().iter().take(PREFETCH_BATCH);
        let works: Vec<_> = ahead.flat_map(Input::first_works).collect();
        turn.core.state.prefetch(&works);
        let batch = inputs.by_ref().take(PREFETCH_BATCH);
        batch.for_each(|input| turn.input(input));
    }
    turn.process_requests();
    if turn.core.state.is_old() {
        // Decisions based on a state that is older than what happened would do harm.
        turn.ready.orders.clear();
        // The views still show the hosts.
        turn.rebuild_hosts();
        return turn.ready;
    }
    turn.tick();
    turn.schedule();
    turn.renew_orders();
    turn.ready
}

impl Turn<'_> {
    fn input(&mut self, input: Input) {
        match input {
            Input::Request(request) => self.core.requests.push(*request),
            Input::RestoredShare { host, epoch, id } => self.note_restored_share(host, epoch, id),
            Input::Reports { .. } if self.core.state.is_old() => {}
            Input::Reports {
                host,
                part,
                reports,
                more,
            } => self.reports(&host, part, reports, more),
            Input::Load {
                host,
                doc,
                silent_ms,
            } => self.load(&host, *doc, silent_ms),
            Input::OrdersBlocked { host, why } => self.orders_blocked(&host, why),
            Input::ReportsDamaged {
                host,
                part,
                seq,
                at,
            } => self.reports_damaged(&host, (part, seq, at)),
            Input::Config(config) => self.configure(config),
        }
    }

    /// Does what is due by the passing of time.
    fn tick(&mut self) {
        self.judge_dependencies();
        self.fence_silent_hosts();
        self.check_preparations();
        self.review_failed_starts();
        self.review_exit_rates();
        self.review_hooks();
        self.release_held_ends();
        self.journal_share_history();
        self.end_overdue();
        self.release_retries();
        self.end_host_locks();
        self.clean_finished();
        self.fire_due_crons();
        self.expire_tokens();
        self.request_due_pass();
    }
}
