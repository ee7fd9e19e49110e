//! Every action requested by every role through real requests: the answer is that of the table.

use super::*;
use crate::intake::Role;
use crate::intake::roles::{Action, Row, TABLE, allows};
use crate::record::request::{Changes, HostAct, QueueAct};

const ROLES: &str = "
cluster: {name: demo, administrators: [u1004]}
hosts:
- {name: h1, slots: 2}
- {name: h2, slots: 2}
usergroups:
- {name: g, members: u1001, administrator: u1002}
- {name: other, members: u1005 u1006, administrator: u1006}
queues:
- {name: normal, priority: 30, administrators: u1003}
- {name: high, priority: 40, administrators: u1007}
general: {default_queue: normal, clean_period: 100}
";
const OWNER: u32 = 1001;
/// Every role over the owner's job, with an account that has it; the last ones have a role
/// elsewhere.
const PEOPLE: &[(u32, Role)] = &[
    (OWNER, Role::Owner),
    (1002, Role::GroupAdmin),
    (1003, Role::QueueAdmin),
    (1004, Role::ClusterAdmin),
    (0, Role::System),
    (1000, Role::System),
    (1005, Role::Stranger),
    (1006, Role::Stranger),
    (1007, Role::Stranger),
];

fn signal(action: SignalAction) -> Verb {
    Verb::Signal {
        sel: selector(&["2"]),
        how: action,
    }
}

fn modify(option: &str) -> Verb {
    let mut changes = Changes::default();
    changes.job.command = "/bin/evil".into();
    changes.job.spec.cwd = "/tmp".into();
    changes.job.spec.priority = 5;
    changes.set = vec![option.into()];
    let changes = Box::new(changes);
    Verb::Modify {
        sel: selector(&["2"]),
        changes,
    }
}

/// A cluster with a pending job 1 of an unrelated user and a pending job 2 of the owner, both in
/// `normal`, and the request for the action.
#[allow(clippy::too_many_lines)] // a list
fn stage(action: Action) -> (TestLeader, Verb) {
    let mut b = TestLeader::with(ROLES);
    let later = Stamp(b.now + 1_000_000_000);
    for uid in [1005, OWNER] {
        let started = matches!(action, Action::Requeue | Action::Migrate) && uid == OWNER;
        b.submit(uid, |job| {
            job.spec.rerunnable = started;
            job.spec.begin = (!started).then_some(later);
        });
    }
    let verb = match action {
        Action::Submit => submission(|_| {}),
        Action::Kill => signal(SignalAction::Kill),
        Action::KillForce => signal(SignalAction::Force),
        Action::Stop => signal(SignalAction::Stop),
        Action::Resume => {
            b.ask(OWNER, vec![signal(SignalAction::Stop)]);
            signal(SignalAction::Resume)
        }
        Action::ResumeAdmins => {
            b.ask(1004, vec![signal(SignalAction::Stop)]);
            signal(SignalAction::Resume)
        }
        Action::Signal => signal(SignalAction::Number(10)),
        Action::Requeue => Verb::Requeue {
            sel: selector(&["2"]),
            hold: false,
            states: Vec::new(),
        },
        Action::Migrate => Verb::Migrate {
            sel: selector(&["2"]),
            hosts: String::new(),
            force: false,
        },
        Action::Switch => Verb::Switch {
            sel: selector(&["2"]),
            queue: "high".into(),
        },
        Action::Modify => modify("sp"),
        Action::Post => Verb::Post {
            sel: selector(&["2"]),
            index: 0,
            text: "here".into(),
        },
        Action::ModifyProgram => modify("Z"),
        Action::Move | Action::MoveAmongAll => Verb::Move {
            id: "2".into(),
            pos: 1,
            bottom: false,
        },
        Action::Run => Verb::Run {
            id: "2".into(),
            hosts: "h1".into(),
            closed: false,
        },
        Action::Cron => {
            b.ask(
                OWNER,
                vec![super::cron::put("c", |def| {
                    def.job.spec.queue = "normal".into()
                })],
            );
            Verb::Cron {
                name: "c".into(),
                user: format!("u{OWNER}"),
                act: crate::record::request::CronAct::Disable,
            }
        }
        Action::CronAs => {
            let Verb::CronPut(mut put) = super::cron::put("c", |_| {}) else {
                unreachable!("it is one");
            };
            put.user = "u1008".into();
            Verb::CronPut(put)
        }
        Action::JobGroup => {
            b.ask(OWNER, vec![super::job_groups::add("/g", None)]);
            super::job_groups::limit("/g", Some(1))
        }
        Action::Queue => Verb::Queue {
            names: vec!["normal".into()],
            act: QueueAct::Close,
            comment: String::new(),
        },
        Action::Host => Verb::Host {
            names: vec!["h1".into()],
            act: HostAct::Close,
            comment: String::new(),
        },
        Action::SilenceAlert => Verb::SilenceAlert {
            name: "hot".into(),
            for_ms: 60_000,
            why: "w".into(),
        },
        Action::HostLost => Verb::HostLost { host: "h1".into() },
        Action::Restored => {
            let host = "h2".to_owned();
            let (epoch, id) = (7, 1);
            b.turn(vec![Input::RestoredShare { host, epoch, id }]);
            Verb::Restored
        }
        Action::Reconfig => Verb::Reconfig,
    };
    (b, verb)
}

/// The answer, and what the journal contains of the requester.
fn answered(b: &mut TestLeader, uid: u32, verb: Verb) -> (Vec<Code>, bool) {
    let ack = b.ask(uid, vec![verb]);
    let codes = ack.results.iter().map(|r| r.code).collect();
    let by = format!("\"by\":\"u{uid}\"");
    let left = |e: &Event| serde_json::to_string(e).unwrap().contains(&by);
    (codes, b.last.events.iter().any(left))
}

fn check(row: &Row, uid: u32, role: Role) -> Result<(), String> {
    let (mut b, verb) = stage(row.action);
    let before = b.core.state.job(2).unwrap().order;
    let (codes, left) = answered(&mut b, uid, verb);
    let output = format!("{:?} by u{uid} ({role:?}): {codes:?}", row.action);
    let expected = match row.action {
        // Not refused, but limited: the job moves before all others, or only before the user's own.
        Action::MoveAmongAll => {
            let stranger = b.core.state.job(1).unwrap().order;
            let order = b.core.state.job(2).unwrap().order;
            return match (order < stranger) == allows(row, role) {
                true => Ok(()),
                false => Err(format!("{output}: {before} is now {order}")),
            };
        }
        Action::Submit if uid == 0 => false,
        _ => allows(row, role),
    };
    let denied = codes.contains(&Code::Permission);
    match (expected, denied) {
        (true, false) if codes.iter().all(|c| *c != Code::Usage) => Ok(()),
        (false, true) if codes.len() == 1 && !left => Ok(()),
        _ => Err(format!("{output}, expected {expected}, journalled {left}")),
    }
}

#[test]
fn every_role_may_what_the_table_says_and_nothing_else() {
    let mut wrong = Vec::new();
    for row in TABLE {
        for (uid, role) in PEOPLE {
            wrong.extend(check(row, *uid, *role).err());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// CVE-2025-43904: the existing roles follow from cb.yaml alone. Regardless of what a group's
/// administrator requests, the configuration is the same afterwards.
#[test]
fn nobodys_request_changes_a_role() {
    for row in TABLE.iter().filter(|r| r.action != Action::Reconfig) {
        for (uid, _) in PEOPLE {
            let (mut b, verb) = stage(row.action);
            let before = b.core.config.digest();
            b.ask(*uid, vec![verb]);
            assert_eq!(b.core.config.digest(), before, "{:?}", row.action);
        }
    }
}

#[test]
fn running_work_that_an_administrator_stopped_is_not_resumed_by_its_owner() {
    let mut b = TestLeader::with(ROLES);
    b.submit(1005, |_| {});
    b.submit(OWNER, |_| {});
    let started = |b: &TestLeader| b.core.state.stat(JobKey::job(2)).unwrap().is_started();
    assert!(started(&b));
    let stop = |b: &TestLeader| {
        let run = b.core.state.work(JobKey::job(2)).unwrap().run.clone();
        run.is_some_and(|run| run.user_stop.wanted)
    };
    let deny = vec![Code::Permission];
    b.ask(OWNER, vec![signal(SignalAction::Stop)]);
    assert_eq!(
        answered(&mut b, OWNER, signal(SignalAction::Resume)).0,
        [Code::Ok]
    );
    assert!(!stop(&b));
    b.ask(1004, vec![signal(SignalAction::Stop)]);
    // Not by stopping it beforehand either.
    b.ask(OWNER, vec![signal(SignalAction::Stop)]);
    assert_eq!(
        answered(&mut b, OWNER, signal(SignalAction::Resume)).0,
        deny
    );
    assert!(stop(&b));
    assert_eq!(
        answered(&mut b, 1002, signal(SignalAction::Resume)).0,
        [Code::Ok]
    );
    assert!(!stop(&b));
}

#[test]
fn every_option_that_says_what_runs_as_the_owner_is_his_alone() {
    let (mut b, _) = stage(Action::Modify);
    for option in [
        "Z", "L", "rnc", "E", "Ep", "f", "di", "do", "k", "cwd", "i", "o", "oo", "e", "eo",
    ] {
        for admin in [1002, 1003, 1004] {
            let (codes, left) = answered(&mut b, admin, modify(option));
            assert_eq!((codes, left), (vec![Code::Permission], false), "{option}");
        }
    }
    let mixed = Verb::Modify {
        sel: selector(&["2"]),
        changes: Box::new(Changes {
            reset: vec!["sp".into(), "rnc".into()],
            ..Changes::default()
        }),
    };
    assert_eq!(answered(&mut b, 1004, mixed).0, [Code::Permission]);
}

/// Turns a valid submission into an invalid one.
type Spoil<'a> = Box<dyn Fn(&mut Submission) + 'a>;

/// The same checks for a change as for a submission (GE-3761: `qalter` was forgotten).
#[test]
fn a_change_is_checked_as_a_submission_is() {
    let bad: Vec<(&str, Spoil<'_>)> = vec![
        ("J", Box::new(|job| job.name = "a\nb".into())),
        ("J", Box::new(|job| job.name = "x".repeat(10_000))),
        ("J", Box::new(|job| job.name = "../x".into())),
        ("Z", Box::new(|job| job.command = "a\0b".into())),
        ("Z", Box::new(|job| job.command = " ".into())),
        ("Z", Box::new(|job| job.command = "x".repeat(1 << 20))),
        ("L", Box::new(|job| job.spec.shell = "/bin/sh\n".into())),
        ("L", Box::new(|job| job.spec.shell = "x".repeat(1 << 20))),
        ("o", Box::new(|job| job.spec.stdout = "x".repeat(1 << 20))),
        (
            "Jd",
            Box::new(|job| job.spec.description = "x".repeat(1 << 20)),
        ),
        ("env", Box::new(|job| job.spec.env = "00".into())),
        ("uid", Box::new(|job| job.spec.uid = 0)),
    ];
    for (option, spoil) in &bad {
        let (mut b, _) = stage(Action::Modify);
        let mut changes = Changes::default();
        spoil(&mut changes.job);
        changes.set = vec![(*option).into()];
        let verb = Verb::Modify {
            sel: selector(&["2"]),
            changes: Box::new(changes),
        };
        let (codes, left) = answered(&mut b, OWNER, verb);
        assert_eq!((codes, left), (vec![Code::Usage], false), "{option}");
        if ["env", "uid"].contains(option) {
            continue;
        }
        let before = b.core.state.job_count();
        let ack = b.submit(OWNER, |job| spoil(job));
        assert!(
            ack.ids.is_empty() && ack.results[0].code == Code::Usage,
            "{option}"
        );
        assert_eq!(b.core.state.job_count(), before);
    }
}

/// A record longer than a reader accepts would keep every later leader from recovering.
#[test]
fn no_request_makes_a_record_too_long_to_be_read_back() {
    let huge = "x".repeat(20 << 20);
    let spoil: Vec<Spoil<'_>> = vec![
        Box::new(|job| job.spec.sub_host = huge.clone()),
        Box::new(|job| job.spec.shell = huge.clone()),
        Box::new(|job| job.spec.queue = huge.clone()),
        Box::new(|job| job.spec.hosts = huge.clone()),
        Box::new(|job| job.spec.res_req = huge.clone()),
        Box::new(|job| job.spec.depend = huge.clone()),
        Box::new(|job| job.spec.notify = huge.clone()),
        Box::new(|job| job.spec.project = huge.clone()),
        Box::new(|job| job.spec.user_group = huge.clone()),
        Box::new(|job| job.spec.run_on = huge.clone()),
        Box::new(|job| job.name = huge.clone()),
        Box::new(|job| job.command = huge.clone()),
        Box::new(|job| job.key = huge.clone()),
        Box::new(|job| job.array = huge.clone()),
    ];
    let mut b = TestLeader::with(ROLES);
    let long = |b: &TestLeader| {
        let events = b
            .last
            .events
            .iter()
            .map(|e| serde_json::to_string(e).unwrap());
        let acks = b
            .last
            .acks
            .iter()
            .map(|a| serde_json::to_string(a).unwrap());
        events.chain(acks).map(|s| s.len()).max().unwrap_or(0)
    };
    for (n, spoil) in spoil.iter().enumerate() {
        let ack = b.submit(OWNER, |job| spoil(job));
        assert!(ack.ids.is_empty(), "field {n}");
        assert!(long(&b) < 1 << 20, "field {n}: {}", long(&b));
    }
    b.submit(OWNER, |job| job.spec.begin = Some(Stamp(1 << 50)));
    let changes = Changes {
        set: vec!["sp".into(); 5_000_000],
        ..Changes::default()
    };
    let verb = Verb::Modify {
        sel: selector(&["1"]),
        changes: Box::new(changes),
    };
    b.ask(OWNER, vec![verb]);
    assert!(long(&b) < 1 << 20, "{}", long(&b));
    let verb = Verb::Queue {
        names: vec![huge.clone()],
        act: QueueAct::Close,
        comment: String::new(),
    };
    b.ask(1004, vec![verb]);
    assert!(long(&b) < 1 << 20, "{}", long(&b));
}
