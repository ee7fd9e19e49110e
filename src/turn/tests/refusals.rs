//! What submitters are refused, in their own units, and with one code for each kind of mistake.

use super::*;
use crate::model::Limits;
use crate::record::request::{HostAct, QueueAct};

const LIMITED: &str = "
cluster: {name: demo, administrators: [root]}
hosts:
- {name: node1, slots: 2}
queues:
- {name: medium, priority: 30, run_limit: 120, mem_limit: 4G, process_limit: 8}
general: {default_queue: medium}
";

fn refused(change: impl FnOnce(&mut Submission)) -> (Code, String) {
    let mut b = TestLeader::with(LIMITED);
    let ack = b.submit(5, change);
    let outcome = ack.results.first().expect("it is refused").clone();
    (outcome.code, outcome.text)
}

#[test]
fn a_limit_above_the_queues_is_refused_in_the_units_of_its_option() {
    for (change, want) in [
        (
            Limits {
                run_s: Some(300 * 60),
                ..Limits::default()
            },
            "-W: 300 min exceeds 120 min of queue medium",
        ),
        (
            Limits {
                run_s: Some(7201),
                ..Limits::default()
            },
            "-W: 2h1s exceeds 120 min of queue medium",
        ),
        (
            Limits {
                mem_b: Some(6 << 30),
                ..Limits::default()
            },
            "-M: 6G exceeds 4G of queue medium",
        ),
        (
            Limits {
                procs: Some(9),
                ..Limits::default()
            },
            "-p: 9 exceeds 8 of queue medium",
        ),
    ] {
        let got = refused(|j| j.spec.limits = change);
        assert_eq!(got, (Code::Refused, want.to_owned()));
    }
}

#[test]
fn a_name_that_does_not_exist_has_one_code_everywhere() {
    let (code, text) = refused(|j| j.spec.queue = "medum".into());
    let want = "there is no queue \"medum\"; did you mean \"medium\"?";
    assert_eq!((code, text.as_str()), (Code::NotFound, want));
    let (code, text) = refused(|j| j.spec.hosts = "nod1".into());
    let want = "-m: there is no host or host group \"nod1\"; did you mean \"node1\"?";
    assert_eq!((code, text.as_str()), (Code::NotFound, want));
    let (code, _) = refused(|j| j.spec.user_group = "nobodies".into());
    assert_eq!(code, Code::NotFound);
    let (code, _) = refused(|j| j.spec.run_on = "nowhere".into());
    assert_eq!(code, Code::NotFound);
}

#[test]
fn a_new_configuration_names_removed_hosts_that_still_run_jobs() {
    let mut b = TestLeader::new();
    b.submit(5, |j| j.spec.hosts = "h2".into());
    assert_eq!(b.stat(1), JobStat::Run);
    let smaller = CONFIG.replace("- {name: h2, slots: 2}\n", "");
    let loaded = crate::config::load(smaller.as_bytes(), "cb.yaml", &crate::config::OsNames::ANY);
    let config = Arc::new(loaded.unwrap_or_else(|p| panic!("{}", p[0])).config);
    let request = RequestIn {
        others: Vec::new(),
        requester: Requester::default(),
        head: RequestHead::default(),
        verbs: vec![Verb::Reconfig],
        config: Some(Ok(config)),
        location: 0,
    };
    b.turn(vec![Input::Request(Box::new(request))]);
    let ack = b.last.acks[0].clone();
    let output: Vec<_> = ack
        .results
        .iter()
        .map(|o| (o.what.as_str(), o.code))
        .collect();
    assert_eq!(output, [("reconfig", Code::Ok), ("h2", Code::Ok)]);
    let text = &ack.results[1].text;
    assert!(text.contains("still runs 1 job:"), "{text}");
}

/// A leader may start with a configuration that is older than the bad file.
#[test]
fn what_is_wrong_with_cb_yaml_is_shown_until_a_good_one_is_read() {
    let mut b = TestLeader::new();
    let bad = vec!["cb.yaml:1:1: no such key".to_owned()];
    b.core.config_problems = bad.clone();
    let config = b.core.config.clone();
    b.turn(vec![Input::Config(config.clone())]);
    assert_eq!(b.core.config_problems, bad);
    let request = RequestIn {
        others: Vec::new(),
        requester: Requester::default(),
        head: RequestHead::default(),
        verbs: vec![Verb::Reconfig],
        config: Some(Ok(config)),
        location: 0,
    };
    b.turn(vec![Input::Request(Box::new(request))]);
    assert_eq!(b.core.config_problems, [""; 0]);
}

#[test]
fn an_administrator_who_mistypes_a_name_is_shown_the_nearest() {
    let mut b = TestLeader::with(LIMITED);
    let queue = Verb::Queue {
        names: vec!["medum".into()],
        act: QueueAct::Close,
        comment: String::new(),
    };
    let host = Verb::Host {
        names: vec!["nod1".into()],
        act: HostAct::Close,
        comment: String::new(),
    };
    let lost = Verb::HostLost {
        host: "node11".into(),
    };
    for (verb, want) in [
        (queue, "no such queue; did you mean \"medium\"?"),
        (host, "no such host or host group; did you mean \"node1\"?"),
        (lost, "no such host; did you mean \"node1\"?"),
    ] {
        let ack = b.ask(0, vec![verb]);
        let outcome = ack.results.first().expect("it is refused");
        assert_eq!(
            (outcome.code, outcome.text.as_str()),
            (Code::NotFound, want)
        );
    }
}

/// A command may send a job again that was refused because of others that are pending, but not one
/// that will never fit.
#[test]
fn what_may_be_accepted_later_says_when_to_try_again() {
    let config = format!("{LIMITED}  max_pend_jobs: 2\n").replace(
        "general: {default_queue: medium}",
        "general:\n  default_queue: medium\n  sub_try_interval: 90",
    );
    let mut b = TestLeader::with(&config);
    let array = |list: &'static str| move |j: &mut Submission| j.array = list.into();
    assert_eq!(b.submit(5, array("1-3")).retry_s, 0, "never fits");
    assert_eq!(b.submit(5, |j| j.hold = true).retry_s, 0);
    let ack = b.submit(5, array("1-2"));
    assert_eq!((ack.retry_s, ack.ids.len()), (90, 0));
    assert_eq!(ack.results[0].code, Code::Refused);
}
