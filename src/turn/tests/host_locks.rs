//! Locks of hosts (`cadmin lslock`): no new jobs, independent of whether the host is closed, until
//! an administrator unlocks the host or the time of the lock is over.

use super::*;
use crate::record::request::HostAct;
use crate::turn::host_rows;

impl TestLeader {
    fn host_order(&mut self, act: HostAct) -> String {
        let (names, comment) = (vec!["h1".to_owned()], String::new());
        let ack = self.ask(
            0,
            vec![Verb::Host {
                names,
                act,
                comment,
            }],
        );
        ack.results[0].text.clone()
    }

    fn host_status(&self) -> &'static str {
        host_rows(&self.core)[0].status.word()
    }

    fn on_h1(&mut self) -> Vec<(String, String)> {
        self.submit(5, |j| j.spec.hosts = "h1".into());
        self.starts()
    }

    fn reason(&self, id: u32) -> String {
        let class = self
            .core
            .state
            .class_of(self.core.state.job(id).unwrap().spec);
        let class = self.core.state.pending().class(class).unwrap();
        class.why.to_string()
    }
}

const ENDLESS: HostAct = HostAct::Lock { for_s: 0 };

#[test]
fn a_locked_host_takes_no_new_jobs_and_its_jobs_run_on() {
    let mut b = TestLeader::new();
    assert_eq!(b.on_h1().len(), 1);
    b.host_runs("h1", attempt(1, 1));
    assert_eq!(b.host_order(ENDLESS), "is locked");
    assert_eq!(b.host_status(), "closed_Lock");
    assert!(b.on_h1().is_empty());
    assert_eq!((b.stat(1), b.stat(2)), (JobStat::Run, JobStat::Pend));
    let why = b.reason(2);
    assert!(why.contains("locked by an administrator: 1 host"), "{why}");
    assert_eq!(b.host_order(HostAct::Unlock), "is unlocked");
    assert_eq!(b.starts().len(), 1, "the job that waited starts");
    assert_eq!(b.host_status(), "closed_Full");
}

#[test]
fn a_lock_is_independent_of_closing() {
    let mut b = TestLeader::new();
    b.host_order(ENDLESS);
    b.host_order(HostAct::Close);
    assert_eq!(b.host_status(), "closed_Adm");
    b.host_order(HostAct::Open);
    assert_eq!(b.host_status(), "closed_Lock", "hopen does not unlock");
    assert!(b.on_h1().is_empty());
    b.host_order(HostAct::Close);
    b.host_order(HostAct::Unlock);
    assert_eq!(b.host_status(), "closed_Adm", "lsunlock does not open");
    b.host_order(HostAct::Open);
    assert_eq!(b.starts().len(), 1);
}

#[test]
fn repeated_orders_change_nothing() {
    let mut b = TestLeader::new();
    for (act, text) in [(ENDLESS, "is locked"), (HostAct::Unlock, "is unlocked")] {
        b.host_order(act);
        assert!(!b.last.events.is_empty());
        assert_eq!(b.host_order(act), text);
        assert!(b.last.events.is_empty(), "{act:?}");
    }
    // A lock with a time replaces one without, and a later time an earlier one.
    b.host_order(ENDLESS);
    b.host_order(HostAct::Lock { for_s: 60 });
    let first = b.core.state.host_ctl("h1").lock.unwrap();
    assert_eq!(
        (first.until, first.by.as_str()),
        (Stamp(b.now + 60_000), "u0")
    );
    b.host_order(HostAct::Lock { for_s: 90 });
    let until = b.core.state.host_ctl("h1").lock.unwrap().until;
    assert_eq!(until, Stamp(b.now + 90_000));
}

#[test]
fn a_lock_with_a_time_ends_by_itself_also_under_the_next_leader() {
    for next_leader in [false, true] {
        let mut b = TestLeader::new();
        b.host_order(HostAct::Lock { for_s: 60 });
        assert!(b.on_h1().is_empty());
        if next_leader {
            // The next leader reads a snapshot, as it stands in a file.
            let mut state = State::new();
            for record in b.replayed().snapshot() {
                let json = serde_json::to_vec(&record).unwrap();
                state.restore(SnapRecord::decode(&json).unwrap());
            }
            b.core = Core::new(state, b.core.config.clone(), 1000);
            let config = b.core.config.clone();
            b.turn(vec![Input::Config(config)]);
            b.beat("h1");
        }
        b.now += 58_000;
        b.beat("h1");
        assert_eq!((b.starts().len(), b.host_status()), (0, "closed_Lock"));
        b.now += 2_000;
        b.beat("h1");
        assert_eq!(b.starts().len(), 1, "next leader: {next_leader}");
        assert_eq!(b.host_status(), "ok");
        assert_eq!(b.replayed().host_ctl("h1").lock, None);
        b.now += 2_000;
        b.beat("h1");
        assert!(b.last.events.is_empty(), "it ends once");
    }
}

#[test]
fn crun_needs_an_option_for_a_locked_host() {
    let mut b = TestLeader::new();
    b.host_order(ENDLESS);
    b.on_h1();
    let mut run = |closed| {
        let verb = Verb::Run {
            id: "1".into(),
            hosts: "h1".into(),
            closed,
        };
        b.ask(0, vec![verb]).results[0].clone()
    };
    let refused = run(false);
    assert_eq!(refused.code, Code::Refused);
    assert!(refused.text.contains("h1 is locked"), "{}", refused.text);
    assert_eq!(run(true).code, Code::Ok);
}

#[test]
fn records_from_before_locks_are_read() {
    let old = br#"{"k":"host","name":"h1","ctl":{"closed":true,"by":"a","comment":"","t":5,"up":true,"boot":"b"}}"#;
    let mut state = State::new();
    state.restore(SnapRecord::decode(old).unwrap());
    let ctl = state.host_ctl("h1");
    assert_eq!((ctl.closed, ctl.lock), (true, None));
    let acts = [
        ("\"close\"", HostAct::Close),
        ("{\"lock\":{\"for_s\":9}}", HostAct::Lock { for_s: 9 }),
    ];
    for (json, act) in acts {
        assert_eq!(serde_json::from_str::<HostAct>(json).unwrap(), act);
    }
}

/// `cjobs --why` computes with a copy of the state that is made from published rows.
#[test]
fn an_opened_host_is_open_in_a_copy_from_rows() {
    let mut b = TestLeader::new();
    let closed_in_copy = |b: &TestLeader| {
        let mut copy = crate::state::RowGatherer::default();
        copy.host(&host_rows(&b.core)[0]);
        copy.state().host_ctl("h1").closed
    };
    b.host_order(HostAct::Close);
    assert!(closed_in_copy(&b));
    b.host_order(HostAct::Open);
    assert!(!closed_in_copy(&b));
}
