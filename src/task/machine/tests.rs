//! Tests of the machine: orders and time in, effects out.

use super::super::spec::TaskCheckpoint;
use super::*;
use crate::model::{ControlAct, Controls, WarnedProcesses};
use Effect::*;

#[test]
fn terminate_goes_through_int_term_and_kill() {
    let mut m = Machine::new(0, None, 100);
    let first = m.order(TaskAct::Terminate, TermReason::Owner, 1000, 5);
    assert_eq!(first, [Signal(2)]);
    assert_eq!(m.tick(1004), []);
    assert_eq!(m.tick(1005), [Signal(15)]);
    assert_eq!(m.tick(2005), [KillAll]);
    assert_eq!(m.next_at(2005), Some(2055));
    assert_eq!(m.tick(2055), [KillAll]);
    assert_eq!(m.next_at(2055), Some(2155));
    assert_eq!(m.reason(), TermReason::Owner);
}

#[test]
fn under_slurms_names_term_comes_first_and_wakes_what_a_signal_stopped() {
    let machine = || Machine::new(0, Some(500), 100).begins_with_term(true);
    let mut m = machine();
    let first = m.order(TaskAct::Terminate, TermReason::Owner, 1000, 5);
    assert_eq!(first, [Signal(15), Signal(18)]);
    assert_eq!((m.next_at(5), m.tick(1004)), (Some(1005), vec![]));
    assert_eq!(m.tick(1005), [KillAll]);
    let mut m = machine();
    assert_eq!(
        m.tick(500),
        [Signal(15), Signal(18)],
        "also at its run limit"
    );
    assert_eq!(m.tick(600), [KillAll]);
    let mut m = machine();
    m.order(TaskAct::Stop, TermReason::Owner, 0, 1);
    let first = m.order(TaskAct::Terminate, TermReason::Requeue, 1000, 5);
    assert_eq!(first, [Signal(15), Thaw]);
    // An action of the queue stands for the first signal, and TERM follows it.
    let mut m = machine().controlled(true);
    let first = m.order(TaskAct::Terminate, TermReason::Owner, 1000, 5);
    assert_eq!((first, m.end_signal()), (vec![Terminate], 15));
    assert_eq!(m.tick(1005), [Signal(15)]);
    assert_eq!(m.tick(2005), [KillAll]);
}

#[test]
fn a_signal_that_ends_nothing_is_remembered_with_its_sender() {
    let warning = RunWarning {
        to: WarnedProcesses::All,
        signal: 10,
        before_s: 2,
    };
    let mut m = Machine::new(0, Some(9000), 20).warned(Some(warning));
    assert_eq!(m.sent(10), None);
    m.tick(7000);
    let sent = |signal, warning, reason| {
        Some(SentSignal {
            signal,
            warning,
            reason,
        })
    };
    assert_eq!(m.sent(10), sent(10, true, TermReason::RunLimit));
    assert_eq!(
        m.order(TaskAct::Number(10), TermReason::Admin, 0, 7001),
        [Signal(10)]
    );
    assert_eq!(m.sent(10), sent(10, false, TermReason::Admin));
    m.order(TaskAct::Number(12), TermReason::Preempt, 0, 7002);
    assert_eq!(m.sent(12), sent(12, true, TermReason::Preempt));
    assert_eq!(m.reason(), TermReason::None, "nobody ended it");
}

#[test]
fn a_task_is_warned_before_its_termination_time_if_that_comes_first() {
    let warning = RunWarning {
        to: WarnedProcesses::All,
        signal: 10,
        before_s: 2,
    };
    let machine = || Machine::new(1000, Some(9000), 20).warned(Some(warning));
    let mut m = machine().ends_at(Some(7000));
    assert_eq!(m.next_at(1000), Some(5000));
    // The termination time also comes while it is suspended.
    m.order(TaskAct::Stop, TermReason::Owner, 0, 1500);
    assert_eq!(m.tick(5000), [Warn(10, 2000, TermReason::Deadline)]);
    assert_eq!(m.tick(7500), [], "the leader ends it");
    let mut m = machine().ends_at(Some(70_000));
    assert_eq!(m.tick(8000), [Warn(10, 2000, TermReason::RunLimit)]);
    let mut m = Machine::new(1000, None, 20).warned(Some(warning));
    m = m.ends_at(Some(7000));
    assert_eq!(m.tick(5001), [Warn(10, 1999, TermReason::Deadline)]);
}

#[test]
fn a_queue_may_begin_the_end_in_its_own_way_and_the_rest_follows() {
    let mut m = Machine::new(0, None, 100).controlled(true);
    m.order(TaskAct::Stop, TermReason::Owner, 0, 1);
    let first = m.order(TaskAct::Terminate, TermReason::Owner, 1000, 5);
    assert_eq!((first, m.is_ending()), (vec![Terminate, Thaw], true));
    assert_eq!(m.tick(1005), [Signal(15)]);
    assert_eq!(m.tick(2005), [KillAll]);
    let mut m = Machine::new(0, None, 100).controlled(true);
    assert_eq!(m.order(TaskAct::Kill, TermReason::Force, 0, 5), [KillAll]);
}

fn with_checkpoints(controls: &Controls) -> Machine {
    let task = TaskCheckpoint {
        first_ms: 100,
        period_ms: 1000,
        limit_ms: 500,
        ..TaskCheckpoint::default()
    };
    Machine::new(0, None, 20).with_checkpoints(Some(Checkpoints::new(&task, controls, 0)))
}

#[test]
fn checkpoints_come_by_the_clock_and_when_asked_for_but_not_of_a_suspended_task() {
    let mut m = with_checkpoints(&Controls::default());
    assert_eq!((m.next_at(0), m.tick(99)), (Some(100), vec![]));
    assert_eq!(m.tick(100), [Checkpoint(false)]);
    assert_eq!((m.next_at(101), m.tick(5000)), (None, vec![]));
    assert_eq!(m.checkpoint_over(false, 5000), []);
    assert_eq!(m.tick(5000), [Checkpoint(false)]);
    // A suspension waits until the checkpoint is over.
    assert_eq!(m.order(TaskAct::Stop, TermReason::Owner, 0, 5001), []);
    assert_eq!(m.checkpoint_over(true, 5002), [Freeze]);
    assert_eq!((m.next_at(9000), m.tick(9000)), (None, vec![]));
    let act = |kill| {
        TaskAct::Checkpoint(CheckpointAct {
            kill,
            ..CheckpointAct::default()
        })
    };
    assert_eq!(m.order(act(false), TermReason::None, 0, 9001), []);
    m.order(TaskAct::Resume, TermReason::Owner, 0, 9002);
    assert_eq!(
        m.order(act(true), TermReason::None, 0, 9003),
        [Checkpoint(false)]
    );
    assert_eq!(
        m.checkpoint_over(false, 9004),
        [],
        "it is not ended unsaved"
    );
    assert_eq!(
        m.order(act(true), TermReason::None, 0, 9005),
        [Checkpoint(false)]
    );
    assert_eq!(m.checkpoint_over(true, 9006), [Signal(2)]);
    assert_eq!(m.reason(), TermReason::Checkpoint);
    let mut none = Machine::new(0, None, 20);
    assert_eq!(none.order(act(true), TermReason::None, 0, 1), []);
}

#[test]
fn a_task_that_migrates_ends_once_it_is_saved_unless_it_is_stopped_before() {
    let migrate = TaskAct::Checkpoint(CheckpointAct {
        kill: true,
        migrate: true,
        ..CheckpointAct::default()
    });
    let mut m = with_checkpoints(&Controls::default());
    assert_eq!(
        m.order(migrate, TermReason::None, 0, 1),
        [Checkpoint(false)]
    );
    assert_eq!(m.checkpoint_over(false, 2), [], "it runs on unsaved");
    assert!(!m.is_ending());
    m.order(migrate, TermReason::None, 0, 3);
    assert_eq!(m.checkpoint_over(true, 4), [Signal(2)]);
    assert_eq!(m.reason(), TermReason::Migrate);
    let mut m = with_checkpoints(&Controls::default());
    m.order(migrate, TermReason::None, 0, 1);
    m.order(TaskAct::Stop, TermReason::Owner, 0, 2);
    assert_eq!(m.checkpoint_over(true, 3), [Freeze]);
    assert_eq!(m.reason(), TermReason::None);
}

#[test]
fn what_will_run_again_is_saved_before_it_is_ended_but_not_for_ever() {
    let mut m = with_checkpoints(&Controls::default());
    m.order(TaskAct::Stop, TermReason::Owner, 0, 1);
    let first = m.order(TaskAct::Terminate, TermReason::Preempt, 1000, 5);
    assert_eq!(first, [Thaw, Checkpoint(false)]);
    assert_eq!((m.next_at(6), m.is_ending()), (Some(505), true));
    assert_eq!(m.save_ends(), Some(505));
    assert_eq!(m.tick(505), [Signal(2)], "its time is over");
    assert_eq!(m.save_ends(), None);
    assert_eq!(m.checkpoint_over(true, 506), []);
    assert_eq!(m.tick(1505), [Signal(15)]);
    let mut m = with_checkpoints(&Controls::default());
    m.order(TaskAct::Terminate, TermReason::Requeue, 1000, 5);
    assert_eq!(m.checkpoint_over(true, 8), [Signal(2)]);
    assert_eq!((m.tick(1007), m.tick(1008)), (vec![], vec![Signal(15)]));
    let mut m = with_checkpoints(&Controls::default());
    assert_eq!(
        m.order(TaskAct::Terminate, TermReason::Owner, 1, 5),
        [Signal(2)]
    );
    let mut m = with_checkpoints(&Controls::default());
    m.order(TaskAct::Terminate, TermReason::Requeue, 1000, 5);
    assert_eq!(m.order(TaskAct::Kill, TermReason::Fenced, 0, 6), [KillAll]);
    assert_eq!(
        (m.checkpoint_over(false, 7), m.tick(56)),
        (vec![], vec![KillAll])
    );
}

#[test]
fn a_queue_may_have_a_checkpoint_made_before_each_stop_and_each_end() {
    let controls = Controls {
        suspend: Some(ControlAct::Checkpoint),
        terminate: Some(ControlAct::Checkpoint),
        ..Controls::default()
    };
    let mut m = with_checkpoints(&controls);
    let stop = |m: &mut Machine, at| m.order(TaskAct::Stop, TermReason::Owner, 0, at);
    assert_eq!(stop(&mut m, 5), [Checkpoint(false)]);
    assert_eq!(
        m.checkpoint_over(false, 6),
        [Freeze],
        "stopped all the same"
    );
    assert_eq!(stop(&mut m, 7), [Freeze]);
    m.order(TaskAct::Resume, TermReason::Owner, 0, 8);
    stop(&mut m, 9);
    m.order(TaskAct::Resume, TermReason::Owner, 0, 10);
    assert_eq!(m.checkpoint_over(true, 11), [], "resumed meanwhile");
    let first = m.order(TaskAct::Terminate, TermReason::Owner, 1000, 12);
    assert_eq!(first, [Checkpoint(false)]);
}

#[test]
fn a_task_is_warned_before_the_system_stops_it_and_not_by_its_owner() {
    let warning = RunWarning {
        to: WarnedProcesses::All,
        signal: 10,
        before_s: 2,
    };
    let stop = |m: &mut Machine, why, at| m.order(TaskAct::Stop, why, 10_000, at);
    let warned = || Machine::new(0, None, 20).warned(Some(warning));
    let mut m = warned();
    let first = stop(&mut m, TermReason::Load, 5);
    assert_eq!(first, [Warn(10, 2000, TermReason::Load)]);
    assert!(!m.is_suspended() && !m.is_warned());
    assert_eq!((m.next_at(6), m.tick(2004)), (Some(2005), vec![]));
    assert_eq!(stop(&mut m, TermReason::Load, 7), [], "ordered again");
    assert_eq!((m.tick(2005), m.is_suspended()), (vec![Freeze], true));
    assert_eq!(stop(&mut m, TermReason::Window, 2006), [Freeze]);
    let mut m = warned();
    stop(&mut m, TermReason::Window, 5);
    assert_eq!(m.order(TaskAct::Resume, TermReason::None, 0, 6), [Thaw]);
    assert_eq!((m.next_at(7), m.tick(9000)), (None, vec![]));
    stop(&mut m, TermReason::Load, 9001);
    assert_eq!(
        stop(&mut m, TermReason::None, 9002),
        [Freeze],
        "by its owner"
    );
    assert_eq!(stop(&mut warned(), TermReason::None, 5), [Freeze]);
    let mut m = Machine::new(0, None, 20);
    assert_eq!(stop(&mut m, TermReason::Load, 5), [Freeze]);
    // The time is at most that of an action, whatever -wt says.
    let mut m = warned();
    let first = m.order(TaskAct::Stop, TermReason::Load, 300, 5);
    assert_eq!(first, [Warn(10, 300, TermReason::Load)]);
}

#[test]
fn a_second_terminate_does_not_start_over() {
    let mut m = Machine::new(0, None, 100);
    m.order(TaskAct::Terminate, TermReason::Owner, 1000, 0);
    assert_eq!(
        m.order(TaskAct::Terminate, TermReason::Admin, 1000, 500),
        []
    );
    assert_eq!(m.tick(1000), [Signal(15)]);
    assert_eq!(m.reason(), TermReason::Owner);
}

#[test]
fn kill_overtakes_terminate() {
    let mut m = Machine::new(0, None, 100);
    m.order(TaskAct::Terminate, TermReason::Owner, 60_000, 0);
    assert_eq!(m.order(TaskAct::Kill, TermReason::Force, 0, 10), [KillAll]);
    assert_eq!(m.next_at(10), Some(60));
}

#[test]
fn the_run_limit_ends_the_task_and_suspended_time_is_not_counted() {
    let mut m = Machine::new(1000, Some(500), 20);
    assert_eq!(m.next_at(1000), Some(1500));
    assert_eq!(m.order(TaskAct::Stop, TermReason::Owner, 0, 1100), [Freeze]);
    assert_eq!((m.next_at(1200), m.tick(9999)), (None, vec![]));
    assert_eq!(m.order(TaskAct::Resume, TermReason::Owner, 0, 2100), [Thaw]);
    assert_eq!(m.next_at(2100), Some(2500));
    assert_eq!(m.tick(2499), []);
    assert_eq!(m.tick(2500), [Signal(2)]);
    assert_eq!(m.reason(), TermReason::RunLimit);
    assert_eq!(m.suspended_ms(3000), 1000);
}

#[test]
fn a_changed_run_limit_counts_from_the_start() {
    let mut m = Machine::new(1000, Some(500), 20);
    m.set_run_limit(Some(3000));
    assert_eq!((m.tick(1600), m.next_at(1600)), (vec![], Some(4000)));
    m.set_run_limit(None);
    assert_eq!((m.tick(9000), m.next_at(9000)), (vec![], None));
    m.set_run_limit(Some(100));
    assert_eq!(m.tick(9000), [Signal(2)], "it has run for longer");
    assert_eq!(m.reason(), TermReason::RunLimit);
}

#[test]
fn killing_a_suspended_task_thaws_it() {
    let mut m = Machine::new(0, None, 20);
    m.order(TaskAct::Stop, TermReason::Owner, 0, 1);
    assert_eq!(
        m.order(TaskAct::Terminate, TermReason::Owner, 9, 2),
        [Signal(2), Thaw]
    );
    assert_eq!(m.order(TaskAct::Stop, TermReason::Owner, 0, 3), []);
}

#[test]
fn leftovers_of_a_task_that_ended_are_killed_without_a_reason() {
    let mut m = Machine::new(0, None, 20);
    assert_eq!(m.top_ended(7), [KillAll]);
    assert_eq!(m.reason(), TermReason::None);
}

#[test]
fn a_stop_outlasts_the_kill_of_what_the_top_process_left() {
    let stop = |m: &mut Machine, at| m.order(TaskAct::Stop, TermReason::None, 0, at);
    let mut m = Machine::new(0, None, 20);
    stop(&mut m, 1);
    assert_eq!(m.top_ended(7), [KillAll, Thaw]);
    assert!(m.is_suspended());
    assert_eq!((m.tick(57), m.is_suspended()), (vec![KillAll], true));
    assert_eq!(m.order(TaskAct::Resume, TermReason::None, 0, 60), [Thaw]);
    assert!(!m.is_suspended());
    assert_eq!(stop(&mut m, 61), [], "what is being killed is not stopped");
    assert!(m.is_suspended());
    let mut next = m.clone();
    assert_eq!(next.continue_with(Machine::new(62, None, 20), 62), [Freeze]);
    assert!(next.is_suspended() && !next.is_ending());
    next.order(TaskAct::Resume, TermReason::None, 0, 63);
    assert_eq!(next.continue_with(Machine::new(64, None, 20), 64), []);
    assert!(!next.is_suspended());
    m.order(TaskAct::Terminate, TermReason::Owner, 9, 62);
    assert_eq!(
        (m.is_suspended(), m.late_reason(), m.reason()),
        (false, TermReason::Owner, TermReason::None)
    );
    stop(&mut m, 63);
    assert!(!m.is_suspended(), "nothing comes after it");
}

#[test]
fn an_order_that_comes_after_the_top_process_ended_is_not_why_it_ended() {
    let mut m = Machine::new(0, None, 20);
    m.top_ended(7);
    assert_eq!(m.order(TaskAct::Kill, TermReason::Fenced, 0, 9), [KillAll]);
    assert_eq!(m.reason(), TermReason::None);
}

#[test]
fn a_plain_signal_is_passed_on_once() {
    let mut m = Machine::new(0, None, 20);
    assert_eq!(
        m.order(TaskAct::Number(10), TermReason::Owner, 0, 1),
        [Signal(10)]
    );
    assert_eq!((m.reason(), m.next_at(2)), (TermReason::None, None));
}

#[test]
fn a_task_is_warned_once_before_its_limit_and_again_before_another_one() {
    let warning = RunWarning {
        to: WarnedProcesses::All,
        signal: 10,
        before_s: 2,
    };
    let mut m = Machine::new(1000, Some(5000), 20).warned(Some(warning));
    assert_eq!((m.next_at(1000), m.tick(3999)), (Some(4000), vec![]));
    assert_eq!(m.tick(4010), [Warn(10, 1990, TermReason::RunLimit)]);
    assert_eq!((m.tick(4020), m.next_at(4020)), (vec![], Some(6000)));
    assert!(m.set_run_limit(Some(9000)), "it was warned for nothing");
    assert_eq!((m.tick(4030), m.next_at(4030)), (vec![], Some(8000)));
    // While it is suspended, the limit does not approach.
    m.order(TaskAct::Stop, TermReason::Owner, 0, 5000);
    assert_eq!((m.tick(9500), m.next_at(9500)), (vec![], None));
    m.order(TaskAct::Resume, TermReason::Owner, 0, 10_000);
    assert_eq!(m.next_at(10_000), Some(13_000));
    assert_eq!(m.tick(13_000), [Warn(10, 2000, TermReason::RunLimit)]);
    assert_eq!(m.tick(15_000), [Signal(2)]);
    // A limit shorter than the warning's time warns at once.
    let mut m = Machine::new(1000, Some(500), 20).warned(Some(warning));
    assert_eq!(m.tick(1000), [Warn(10, 500, TermReason::RunLimit)]);
    assert!(!m.set_run_limit(None) || m.next_at(1001).is_none());
    let mut m = Machine::new(0, None, 20).warned(Some(warning));
    assert_eq!((m.tick(9000), m.next_at(9000)), (vec![], None));
}
