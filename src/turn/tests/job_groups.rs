//! Job groups: jobs belong to them, are selected by them, and change them while they wait.

use super::*;
use crate::model::PendReason;
use crate::record::job_group::JobGroupAct;
use crate::record::request::Changes;

fn act(name: &str, act: JobGroupAct) -> Verb {
    let name = name.to_owned();
    Verb::JobGroup { name, act }
}

/// `cgadd`.
pub(super) fn add(name: &str, limit: Option<u32>) -> Verb {
    act(name, JobGroupAct::Add(limit))
}

/// `cgmod`.
pub(super) fn limit(name: &str, limit: Option<u32>) -> Verb {
    act(name, JobGroupAct::Limit(limit))
}

fn remove(name: &str) -> Verb {
    act(name, JobGroupAct::Remove)
}

impl TestLeader {
    pub(super) fn submit_in(&mut self, uid: u32, group: &str) -> Ack {
        self.submit(uid, |job| job.spec.job_group = group.into())
    }

    /// The ids of the jobs that `ckill -g GROUP -u all 0` of root ends.
    fn killed_in(&mut self, group: &str) -> Vec<String> {
        let sel = Selector {
            group: group.into(),
            user: "all".into(),
            all: true,
            ..Selector::default()
        };
        let how = SignalAction::Kill;
        let ack = self.ask(0, vec![Verb::Signal { sel, how }]);
        let hit = ack.results.iter().filter(|r| r.code == Code::Ok);
        hit.map(|r| r.what.clone()).collect()
    }

    fn group_of(&self, id: u32) -> &str {
        &self
            .core
            .state
            .spec_of(id)
            .expect("the job is known")
            .job_group
    }

    fn answer(&mut self, uid: u32, verb: Verb) -> (Code, String) {
        let ack = self.ask(uid, vec![verb]);
        (ack.results[0].code, ack.results[0].text.clone())
    }

    /// The ids of the started jobs.
    fn started_ids(&self) -> Vec<u32> {
        let started = self.core.state.all_started();
        let mut ids: Vec<u32> = started.map(|j| j.id).collect();
        ids.sort_unstable();
        ids
    }

    fn regroup(&mut self, id: &str, group: &str) -> (Code, String) {
        let mut changes = Box::<Changes>::default();
        if group.is_empty() {
            changes.reset.push("g".into());
        } else {
            changes.set.push("g".into());
        }
        changes.job.spec.job_group = group.into();
        let sel = selector(&[id]);
        let ack = self.ask(5, vec![Verb::Modify { sel, changes }]);
        (ack.results[0].code, ack.results[0].text.clone())
    }
}

#[test]
fn a_group_selects_its_jobs_and_those_of_its_subgroups() {
    let mut b = TestLeader::new();
    for group in ["/a", "/a/b", "/ab", "", "/a/b/c"] {
        b.submit(5, |job| {
            // A waiting job ends at once.
            job.hold = true;
            job.spec.job_group = group.into();
        });
    }
    assert_eq!(b.killed_in("/a/b"), ["2", "5"]);
    assert_eq!(b.killed_in("/a"), ["1"], "the others have ended");
    assert!(b.killed_in("/b").is_empty());
    assert!(!b.core.state.stat(JobKey::job(3)).unwrap().is_finished());
}

#[test]
fn a_path_that_is_not_a_group_is_refused() {
    let mut b = TestLeader::new();
    for bad in ["a", "/", "/a/", "/a b", "/a\n"] {
        let ack = b.submit_in(5, bad);
        assert_eq!(ack.results[0].code, Code::Usage, "{bad}");
        assert!(ack.results[0].text.starts_with("-g: "), "{ack:?}");
    }
}

#[test]
fn the_group_of_a_waiting_job_changes_that_of_a_started_one_does_not() {
    let mut b = TestLeader::new();
    b.submit(5, |job| job.hold = true);
    assert_eq!(b.regroup("1", "/a/b").0, Code::Ok);
    assert_eq!(b.group_of(1), "/a/b");
    assert_eq!(b.regroup("1", "/a/b/").0, Code::Usage);
    assert_eq!(b.regroup("1", "").0, Code::Ok);
    assert_eq!(b.group_of(1), "");
    b.submit_in(5, "/a");
    let (code, text) = b.regroup("2", "/b");
    assert_eq!((code, b.group_of(2)), (Code::Refused, "/a"), "{text}");
}

#[test]
fn a_limit_holds_for_a_group_with_its_subgroups() {
    let mut b = TestLeader::new();
    assert_eq!(b.answer(5, add("/a", Some(2))).0, Code::Ok);
    for group in ["/a/b", "/a/c", "/a", "/ab", ""] {
        b.submit_in(5, group);
    }
    assert_eq!(b.started_ids(), [1, 2, 4, 5]);
    let class = b.core.state.class_of(b.core.state.job(3).unwrap().spec);
    let why = b.core.state.pending().class(class).unwrap().why.clone();
    let want = PendReason::JobGroup {
        group: "/a".into(),
        used: 2,
        max: 2,
    };
    assert_eq!(why, want);
    assert_eq!(why.to_string(), "job group /a: 2 of 2 jobs started");
    // What ends makes room.
    b.end("h1", 1, 1, 0);
    assert!(b.started_ids().contains(&3), "{:?}", b.started_ids());
}

#[test]
fn a_limit_counts_each_element_and_the_smallest_one_decides() {
    let mut b = TestLeader::new();
    b.answer(5, add("/a", Some(3)));
    b.answer(5, add("/a/b", Some(1)));
    b.submit(5, |job| {
        job.array = "1-4".into();
        job.spec.job_group = "/a/b".into();
    });
    assert_eq!(b.started_ids(), [1]);
    b.submit(5, |job| {
        job.array = "1-4".into();
        job.spec.job_group = "/a/c".into();
    });
    assert_eq!(b.started_ids(), [1, 2, 2]);
}

#[test]
fn a_limit_that_rises_lets_jobs_start_and_one_that_falls_stops_none() {
    let mut b = TestLeader::new();
    for _ in 0..2 {
        b.submit_in(5, "/a");
    }
    assert_eq!(b.started_ids(), [1, 2]);
    assert_eq!(b.answer(5, add("/a", Some(1))).0, Code::Ok);
    b.submit_in(5, "/a");
    assert_eq!(b.started_ids(), [1, 2]);
    assert_eq!(b.answer(5, limit("/a", Some(3))).0, Code::Ok);
    assert_eq!(b.started_ids(), [1, 2, 3]);
    b.answer(5, limit("/a", Some(0)));
    b.submit_in(5, "/a");
    assert_eq!(b.started_ids(), [1, 2, 3]);
    assert_eq!(b.answer(5, limit("/a", None)).0, Code::Ok);
    assert_eq!(b.started_ids(), [1, 2, 3, 4]);
}

#[test]
fn a_new_leader_knows_groups_and_their_limits() {
    let mut b = TestLeader::new();
    b.answer(5, add("/a", Some(1)));
    b.answer(5, add("/b", None));
    b.answer(5, add("/c", Some(9)));
    b.answer(5, limit("/c", Some(8)));
    b.answer(5, remove("/b"));
    b.submit_in(5, "/a");
    let known = |state: &State| {
        let groups = state.job_groups();
        let all = groups.map(|g| (g.name.clone(), g.uid, g.user.clone(), g.limit));
        all.collect::<Vec<_>>()
    };
    let want = [
        ("/a".to_owned(), 5, "u5".to_owned(), Some(1)),
        ("/c".to_owned(), 5, "u5".to_owned(), Some(8)),
    ];
    assert_eq!(known(&b.core.state), want);
    assert_eq!(known(&b.replayed()), want);
    let mut restored = State::new();
    b.core.state.snapshot().for_each(|r| restored.restore(r));
    assert_eq!(known(&restored), want);
    let config = b.core.config.clone();
    b.core = Core::new(restored, config.clone(), 1000);
    b.turn(vec![Input::Config(config)]);
    b.beat("h1");
    b.beat("h2");
    b.submit_in(5, "/a");
    b.submit_in(5, "/b");
    assert_eq!(b.started_ids(), [1, 3]);
}

#[test]
fn only_owners_of_a_path_and_administrators_change_a_group() {
    let mut b = TestLeader::new();
    b.answer(5, add("/a", Some(9)));
    b.answer(6, add("/a/b", None));
    let denied = Code::Permission;
    assert_eq!(b.answer(6, limit("/a", None)).0, denied);
    assert_eq!(b.answer(6, remove("/a")).0, denied);
    assert_eq!(b.answer(7, remove("/a/b")).0, denied);
    // The owner of the containing group, the owner, an administrator.
    for (n, uid) in (1..).zip([5, 6, 0]) {
        assert_eq!(b.answer(uid, limit("/a/b", Some(n))).0, Code::Ok);
    }
    let owner = |b: &TestLeader, name| b.core.state.job_group(name).map(|g| g.uid);
    assert_eq!(owner(&b, "/a/b"), Some(6), "a change keeps the owner");
    assert_eq!(b.answer(5, remove("/a")), (Code::Ok, "was deleted".into()));
    assert_eq!((owner(&b, "/a"), owner(&b, "/a/b")), (None, None));
}

#[test]
fn no_user_takes_a_group_of_others() {
    let mut b = TestLeader::new();
    b.submit_in(5, "/a/b");
    b.submit(6, |job| {
        job.hold = true;
        job.spec.job_group = "/w".into();
    });
    b.answer(7, add("/c/d", None));
    for name in ["/a", "/a/b", "/w", "/c"] {
        let (code, text) = b.answer(8, add(name, Some(0)));
        assert_eq!(code, Code::Permission, "{name}: {text}");
    }
    assert_eq!(b.answer(5, add("/a", Some(5))).0, Code::Ok);
    assert_eq!(b.answer(0, add("/w", Some(5))).0, Code::Ok);
    assert_eq!(b.answer(8, add("/a", None)).0, Code::Refused);
}

#[test]
fn a_group_with_unfinished_jobs_is_not_deleted() {
    let mut b = TestLeader::new();
    b.answer(5, add("/a", None));
    b.submit_in(5, "/a/b");
    let (code, text) = b.answer(5, remove("/a"));
    assert_eq!(
        (code, text.as_str()),
        (Code::Refused, "the group has unfinished jobs")
    );
    b.end("h1", 1, 1, 0);
    b.submit(5, |job| {
        job.hold = true;
        job.spec.job_group = "/a".into();
    });
    assert_eq!(b.answer(5, remove("/a")).0, Code::Refused);
    b.killed_in("/a");
    assert_eq!(b.answer(5, remove("/a")).0, Code::Ok);
    let (code, text) = b.answer(5, remove("/a"));
    assert_eq!(code, Code::NotFound, "{text}");
}

#[test]
fn limits_fit_those_of_groups_above_and_below() {
    let mut b = TestLeader::new();
    b.answer(5, add("/a/b", Some(4)));
    assert_eq!(b.answer(5, add("/a/b/c", Some(5))).0, Code::Refused);
    assert_eq!(b.answer(5, add("/a", Some(3))).0, Code::Refused);
    assert_eq!(b.answer(5, add("/a", Some(4))).0, Code::Ok);
    assert_eq!(b.answer(5, limit("/a/b", Some(5))).0, Code::Refused);
    assert_eq!(b.answer(5, add("/ab", Some(5))).0, Code::Ok);
    assert_eq!(b.answer(5, limit("/ab", Some(u32::MAX))).0, Code::Usage);
    assert_eq!(b.answer(5, add("a", None)).0, Code::Usage);
}

#[test]
fn the_number_of_groups_is_limited() {
    let mut b = TestLeader::new();
    for n in 0..1000 {
        b.answer(5, add(&format!("/g{n}"), None));
    }
    let (code, text) = b.answer(5, add("/more", None));
    assert_eq!(code, Code::Refused);
    assert_eq!(text, "user u5's limit of 1000 job groups is reached");
    assert_eq!(b.answer(6, add("/more", None)).0, Code::Ok);
}
