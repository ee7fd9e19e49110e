//! `crestart`: which parts of a saved job are copied, and which jobs are refused.

use super::*;
use crate::model::{Checkpoint, Restart};

fn restart_of(b: &TestLeader, id: u32, set: &[&str]) -> Restart {
    let job = b.core.state.job(id).unwrap();
    let mut old = Spec::clone(b.core.state.spec_of(id).unwrap());
    old.chkpnt = Some(Box::new(Checkpoint {
        from: id.to_string(),
        ..Checkpoint::parse("/ck 5 method=app").unwrap()
    }));
    Restart {
        j: JobKey::job(id),
        t: job.submit,
        old,
        set: set.iter().map(|o| (*o).to_owned()).collect(),
    }
}

fn ask(b: &mut TestLeader, uid: u32, of: Restart, fill: impl FnOnce(&mut Submission)) -> Ack {
    let mut job = Box::new(Submission {
        command: "work".into(),
        restart: Some(Box::new(of)),
        ..Submission::default()
    });
    fill(&mut job);
    let (line, same) = (0, false);
    b.ask(uid, vec![Verb::Submit { line, same, job }])
}

fn kill(b: &mut TestLeader, id: &str) {
    let (sel, how) = (selector(&[id]), SignalAction::Force);
    b.ask(5, vec![Verb::Signal { sel, how }]);
}

#[test]
fn a_job_that_has_not_ended_is_not_taken_up() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    let of = restart_of(&b, 1, &[]);
    let ack = ask(&mut b, 5, of.clone(), |_| {});
    assert_eq!(ack.results[0].code, Code::Refused, "{ack:?}");
    assert!(ack.results[0].text.contains("job 1 has not ended"));
    // A later job with the same id, or a job of another user, is unrelated.
    let mut other = of.clone();
    other.t = Stamp(of.t.0 + 1);
    assert_eq!(ask(&mut b, 5, other, |_| {}).ids.len(), 1);
    assert_eq!(ask(&mut b, 6, of, |_| {}).ids.len(), 1);
}

#[test]
fn it_has_the_options_that_were_saved_but_for_those_given() {
    let mut b = TestLeader::new();
    b.submit(5, |job| {
        job.spec.limits.run_s = Some(600);
        job.spec.description = "why".into();
        job.spec.begin = Some(Stamp(1));
        job.spec.deadline = Some(Stamp(i64::MAX / 2));
        job.spec.env = "old".into();
    });
    let mut of = restart_of(&b, 1, &["W"]);
    // A user who edits the file does not become another user.
    (of.old.uid, of.old.user) = (0, "root".into());
    kill(&mut b, "1");
    let ack = ask(&mut b, 5, of, |job| {
        job.spec.limits.run_s = Some(60);
        job.spec.description = "not named, so not taken".into();
    });
    let spec = b.core.state.spec_of(ack.ids[0].id).unwrap();
    assert_eq!((spec.uid, spec.user.as_str()), (5, "u5"));
    assert_eq!(spec.limits.run_s, Some(60));
    assert_eq!((spec.description.as_str(), spec.env.as_str()), ("why", ""));
    assert_eq!((spec.begin, spec.deadline), (None, None));
    let chkpnt = spec.chkpnt.as_deref().unwrap();
    assert_eq!((chkpnt.from.as_str(), chkpnt.period_s), ("1", 300));
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

#[test]
fn a_repeated_job_begins_from_its_start_and_a_directory_stays() {
    let mut b = TestLeader::new();
    b.submit(5, |job| {
        let from = "7".to_owned();
        let chkpnt = Checkpoint::parse("/ck").unwrap();
        job.spec.chkpnt = Some(Box::new(Checkpoint { from, ..chkpnt }));
        job.hold = true;
    });
    let of = crate::model::CloneOf {
        id: 1,
        ..Default::default()
    };
    let job = Box::new(Submission {
        clone: Some(Box::new(of)),
        ..Submission::default()
    });
    let (line, same) = (0, false);
    let ack = b.ask(5, vec![Verb::Submit { line, same, job }]);
    let spec = b.core.state.spec_of(ack.ids[0].id).unwrap();
    assert_eq!(spec.chkpnt.as_deref().unwrap().from, "");
    let mut changes = crate::record::request::Changes {
        set: vec!["k".into()],
        ..Default::default()
    };
    changes.job.spec.chkpnt = Some(Box::new(Checkpoint::parse("/other").unwrap()));
    let (sel, changes) = (selector(&["1"]), Box::new(changes));
    let ack = b.ask(5, vec![Verb::Modify { sel, changes }]);
    assert!(
        ack.results[0].text.contains("continues from a checkpoint"),
        "{ack:?}"
    );
}
