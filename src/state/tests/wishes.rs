//! Kills, requeues and holds of jobs, whichever came first.

use crate::model::{AttemptId, JobKey, JobStat, PendReason, Share, Spec, Stamp, TermReason, Token};
use crate::record::event::{Event, SignalAct, Submitted};
use crate::state::{DepVerdict, State};

const J: JobKey = JobKey { id: 1, idx: 0 };
const A: AttemptId = AttemptId { j: J, at: 1 };

fn submitted(id: u32, s: u32, hold: bool) -> Event {
    Event::Submitted(Box::new(Submitted {
        id,
        s,
        t: Stamp(1),
        command: "true".into(),
        hold,
        tok: Token(u128::from(id)),
        ..Submitted::default()
    }))
}

/// Job 1 runs.
fn running() -> State {
    let mut state = State::new();
    let spec = Box::new(Spec {
        user: "u".into(),
        queue: "q".into(),
        ..Spec::default()
    });
    state.apply(&Event::Spec { id: 1, spec });
    state.apply(&submitted(1, 1, false));
    state.apply(&Event::Dispatched {
        a: A,
        t: Stamp(2),
        hosts: vec![Share("h1".into(), 1)],
        alt: 0,
        forced: false,
        units: Vec::new(),
    });
    state
}

fn signalled(state: &mut State, act: SignalAct) {
    let (by, t) = ("u".to_owned(), Stamp(3));
    state.apply(&Event::Signalled { j: J, act, by, t });
}

const KILL: SignalAct = SignalAct::Kill(TermReason::Owner);
const REQUEUE: SignalAct = SignalAct::Requeue {
    hold: false,
    why: TermReason::None,
};

#[test]
fn an_accepted_kill_takes_precedence_over_a_requeue_before_or_after_it() {
    for order in [[KILL, REQUEUE], [REQUEUE, KILL]] {
        let mut state = running();
        order.iter().for_each(|act| signalled(&mut state, *act));
        let killing = |state: &State| state.work(J).unwrap().run.as_ref().unwrap().killing;
        assert_eq!(killing(&state), Some(KILL), "{order:?}");
        // Its host never started it.
        state.apply(&Event::Unbound {
            a: A,
            why: "w".into(),
            t: Stamp(4),
            host: String::new(),
        });
        assert_eq!(state.stat(J), Some(JobStat::Exit), "{order:?}");
    }
    let mut state = running();
    signalled(&mut state, REQUEUE);
    state.apply(&Event::Unbound {
        a: A,
        why: "w".into(),
        t: Stamp(4),
        host: String::new(),
    });
    assert_eq!(state.stat(J), Some(JobStat::Pend));
}

/// A hold and a condition exclude a job independently of each other.
#[test]
fn a_held_job_waits_for_its_condition_as_well() {
    let mut state = running();
    let spec = Box::new(Spec {
        queue: "q".into(),
        depend: "done(1)".into(),
        ..Spec::default()
    });
    state.apply(&Event::Spec { id: 2, spec });
    state.apply(&submitted(2, 2, true));
    let j = JobKey::job(2);
    let held = |state: &mut State, held| {
        let (admin, by, t) = (false, "u".to_owned(), Stamp(5));
        state.apply(&Event::Held {
            j,
            held,
            admin,
            by,
            t,
        });
    };
    let listed = |state: &State| {
        let mut classes = state.pending().classes();
        classes.any(|(_, class)| class.jobs.iter().any(|(_, key)| key == j))
    };
    let not_yet = || {
        DepVerdict::NotYet(PendReason::Dependency {
            on: "done(1)".into(),
        })
    };
    state.set_dependency(2, not_yet());
    let why = |state: &State| state.job(2).unwrap().own_reason(0).cloned();
    assert_eq!(why(&state), Some(PendReason::HeldByOwner));
    held(&mut state, false);
    assert!(!listed(&state) && state.job(2).unwrap().gated);
    held(&mut state, true);
    // The condition is met while it is held, then no longer.
    state.set_dependency(2, DepVerdict::Met);
    assert_eq!(why(&state), Some(PendReason::HeldByOwner));
    assert!(!listed(&state) && !state.job(2).unwrap().gated);
    state.set_dependency(2, not_yet());
    assert!(state.job(2).unwrap().gated);
    state.set_dependency(2, DepVerdict::Met);
    held(&mut state, false);
    assert!(listed(&state));
    state.set_dependency(2, not_yet());
    assert!(!listed(&state));
    assert_eq!(
        why(&state),
        Some(PendReason::Dependency {
            on: "done(1)".into()
        })
    );
    assert_eq!(state.check(), [""; 0]);
}

#[test]
fn a_job_is_kept_for_as_long_as_another_waits_for_it() {
    let mut state = running();
    let spec = Box::new(Spec {
        queue: "q".into(),
        depend: "done(1)".into(),
        ..Spec::default()
    });
    state.apply(&Event::Spec { id: 2, spec });
    state.apply(&submitted(2, 2, false));
    let e = Box::new(crate::record::report::Ended {
        a: A,
        t: 5,
        code: Some(0),
        ..Default::default()
    });
    let (requeue, hold) = (false, false);
    state.apply(&Event::Ended { e, requeue, hold });
    let old = |state: &State| state.finished_before(Stamp(99)).collect::<Vec<_>>();
    assert_eq!(old(&state), [0u32; 0]);
    let (j, by, t) = (JobKey::job(2), "u".to_owned(), Stamp(6));
    let reason = TermReason::Owner;
    state.apply(&Event::Cancelled { j, by, reason, t });
    assert_eq!(old(&state), [1, 2]);
}

fn run_of(state: &State) -> &crate::state::Run {
    state.work(J).unwrap().run.as_deref().unwrap()
}

fn signalled_by(state: &mut State, act: SignalAct, by: &str) {
    let (by, t) = (by.to_owned(), Stamp(3));
    state.apply(&Event::Signalled { j: J, act, by, t });
}

#[test]
fn it_is_known_who_stopped_a_job_until_it_is_resumed() {
    let mut state = running();
    let stop = |state: &State| {
        let stop = &run_of(state).user_stop;
        (stop.wanted, stop.by_other)
    };
    signalled_by(&mut state, SignalAct::Stop, "admin");
    signalled_by(&mut state, SignalAct::Stop, "u");
    assert_eq!(
        stop(&state),
        (true, true),
        "the owner's stop changes nothing"
    );
    signalled_by(&mut state, SignalAct::Resume, "admin");
    assert_eq!(stop(&state), (false, false));
    signalled_by(&mut state, SignalAct::Stop, "u");
    assert_eq!(stop(&state), (true, false));
}

#[test]
fn a_warning_ends_with_what_it_warns_of_and_with_the_job() {
    let warned = || {
        let mut state = running();
        let (at, signal, t) = (Stamp(9), 23, Stamp(3));
        state.apply(&Event::Warned {
            j: J,
            at,
            signal,
            t,
        });
        assert_eq!(run_of(&state).warned(), Some((at, signal)));
        state
    };
    for act in [KILL, REQUEUE] {
        let mut state = warned();
        signalled(&mut state, act);
        assert_eq!(run_of(&state).warned(), None, "{act:?}");
    }
    let mut state = warned();
    let why = crate::model::SuspReason::Preempted { by: JobKey::job(2) };
    state.apply(&Event::Halted {
        j: J,
        why,
        t: Stamp(4),
    });
    assert_eq!(run_of(&state).warned(), None);
}

#[test]
fn a_job_that_is_stopped_does_not_migrate() {
    let halt = Event::Halted {
        j: J,
        why: crate::model::SuspReason::Preempted { by: JobKey::job(2) },
        t: Stamp(4),
    };
    let (by, t) = ("u".to_owned(), Stamp(4));
    let act = SignalAct::Stop;
    for stop in [halt, Event::Signalled { j: J, act, by, t }] {
        let mut state = running();
        signalled(&mut state, SignalAct::Migrate { force: false });
        assert_eq!(run_of(&state).migrating(), Some(false));
        state.apply(&stop);
        assert_eq!(run_of(&state).migrating(), None, "{stop:?}");
    }
}

#[test]
fn a_job_of_a_silent_host_stays_unknown_whatever_is_requested() {
    let mut state = running();
    let seen = |state: &mut State, up| {
        let (name, boot, t) = ("h1".to_owned(), "b".to_owned(), Stamp(5));
        state.apply(&Event::HostSeen { name, up, boot, t });
    };
    seen(&mut state, false);
    signalled(&mut state, SignalAct::Stop);
    assert_eq!(state.stat(J), Some(JobStat::Unkwn));
    seen(&mut state, true);
    assert_ne!(state.stat(J), Some(JobStat::Unkwn));
}

#[test]
fn after_a_restore_of_the_share_orders_have_numbers_that_no_host_knows() {
    let mut state = running();
    let before = run_of(&state).orders.clone();
    state.apply(&Event::Restored {
        above: 3,
        id: 1,
        by: "root".into(),
        t: Stamp(6),
    });
    let after = &run_of(&state).orders;
    assert!(after.signals > before.signals + 1000);
    assert!(after.limits > before.limits + 1000);
}

fn seen(state: &mut State, up: bool, boot: &str) {
    let (name, boot, t) = ("h1".to_owned(), boot.to_owned(), Stamp(9));
    state.apply(&Event::HostSeen { name, up, boot, t });
}

#[test]
fn a_host_that_was_silent_still_has_its_boot_and_its_jobs_are_what_they_were() {
    for (stop, stat) in [(false, JobStat::Run), (true, JobStat::Ususp)] {
        let mut state = running();
        let (pid, t) = (7, Stamp(4));
        let bind = None;
        state.apply(&Event::Started { a: A, pid, t, bind });
        if stop {
            signalled(&mut state, SignalAct::Stop);
            state.apply(&Event::Suspended { a: A, on: true, t });
        }
        seen(&mut state, true, "b1");
        seen(&mut state, false, "");
        assert_eq!(state.stat(J), Some(JobStat::Unkwn));
        assert_eq!(state.host_ctl("h1").boot, "b1", "a restart must be noticed");
        seen(&mut state, true, "");
        assert_eq!(state.stat(J), Some(stat));
    }
}
