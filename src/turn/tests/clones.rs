//! `csub --clone`: which parts of a job are copied, by whom, and what is refused.

use super::*;
use crate::model::{CloneOf, Limits, Spec};

/// A time after everything that a test does.
const LATER: Stamp = Stamp(9_000_000);

impl TestLeader {
    fn clone_of(&mut self, uid: u32, of: CloneOf, fill: impl FnOnce(&mut Submission)) -> Ack {
        let job = Submission {
            clone: Some(Box::new(of)),
            ..Submission::default()
        };
        let mut job = Box::new(job);
        fill(&mut job);
        let (line, same) = (0, false);
        self.ask(uid, vec![Verb::Submit { line, same, job }])
    }

    fn spec_of(&self, id: u32) -> &Spec {
        self.core.state.spec_of(id).expect("the job is known")
    }
}

fn whole(id: u32, set: &[&str]) -> CloneOf {
    CloneOf {
        id,
        elements: String::new(),
        set: set.iter().map(|o| (*o).to_owned()).collect(),
    }
}

fn refusal(ack: &Ack) -> (Code, &str) {
    assert!(ack.ids.is_empty(), "{ack:?}");
    (ack.results[0].code, ack.results[0].text.as_str())
}

#[test]
fn a_clone_has_the_options_but_for_those_given() {
    let mut b = TestLeader::new();
    b.submit(5, |job| {
        job.name = "first".into();
        job.command = "work".into();
        job.spec.limits.run_s = Some(600);
        job.spec.description = "why".into();
    });
    let ack = b.clone_of(5, whole(1, &["W", "J"]), |job| {
        job.name = "second".into();
        job.spec.limits = Limits {
            run_s: Some(60),
            mem_b: Some(1),
            ..Limits::default()
        };
        job.spec.description = "not named, so not taken".into();
    });
    assert_eq!(ack.ids[0].id, 2);
    let spec = b.spec_of(2);
    assert_eq!((spec.limits.run_s, spec.limits.mem_b), (Some(60), None));
    assert_eq!(spec.description, "why");
    let job = b.core.state.job(2).expect("it is known");
    assert_eq!(
        (job.name.as_deref(), &*job.command),
        (Some("second"), "work")
    );
}

#[test]
fn only_the_owner_clones_a_job_that_is_known() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    let ack = b.clone_of(6, whole(1, &[]), |_| {});
    assert_eq!(refusal(&ack).0, Code::Permission);
    let ack = b.clone_of(0, whole(1, &[]), |_| {});
    assert_eq!(
        refusal(&ack).0,
        Code::Permission,
        "root's job would run as root"
    );
    let ack = b.clone_of(5, whole(9, &[]), |_| {});
    assert_eq!(refusal(&ack).0, Code::NotFound);
}

#[test]
fn what_held_back_a_job_that_has_started_does_not_hold_its_clone() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    b.submit(5, |job| {
        job.spec.begin = Some(LATER);
        job.spec.depend = "ended(1)".into();
    });
    // It is pending, and so is its clone.
    let ack = b.clone_of(5, whole(2, &[]), |_| {});
    assert_eq!(b.spec_of(ack.ids[0].id).depend, "ended(1)");
    let mut c = TestLeader::new();
    c.submit(5, |job| job.spec.start_by = Some(LATER));
    c.host_runs("h1", attempt(1, 1));
    let ack = c.clone_of(5, whole(1, &[]), |_| {});
    assert_eq!(c.spec_of(ack.ids[0].id).start_by, None);
}

#[test]
fn elements_of_an_array_are_cloned_by_their_indices() {
    let mut b = TestLeader::new();
    b.submit(5, |job| {
        job.array = "1-9:2".into();
        job.array_limit = 3;
    });
    let some = |elements: &str| CloneOf {
        elements: elements.into(),
        ..whole(1, &[])
    };
    let all_of = |b: &TestLeader, id: u32| {
        let array = b.core.state.job(id).and_then(|job| job.array());
        array.map(|array| (array.all.to_string(), array.limit))
    };
    let ack = b.clone_of(5, some("3,7"), |_| {});
    assert_eq!(all_of(&b, ack.ids[0].id), Some(("3,7".into(), 3)));
    let ack = b.clone_of(5, whole(1, &[]), |_| {});
    assert_eq!(all_of(&b, ack.ids[0].id), Some(("1-9:2".into(), 3)));
    for wrong in ["2", "1-9", "11", "x"] {
        let ack = b.clone_of(5, some(wrong), |_| {});
        assert_eq!(refusal(&ack).0, Code::NotFound, "{wrong}");
    }
}

#[test]
fn parameters_are_for_arrays() {
    let mut b = TestLeader::new();
    let head = |token| RequestHead {
        token: Token(token),
        params: "[\"a\"]\n[\"1\"]\n".into(),
        ..RequestHead::default()
    };
    let ack = b.ask_with(5, head(1), vec![submission(|_| {})]);
    assert_eq!(refusal(&ack), (Code::Usage, "--params is for arrays"));
    let array = submission(|job| job.array = "1".into());
    let ack = b.ask_with(5, head(2), vec![array]);
    assert_eq!(b.spec_of(ack.ids[0].id).params.len(), 64);
}
