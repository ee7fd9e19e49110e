//! `cpost`: a message is in the journal before it is answered, replaces one with the same index, and
//! stays with its job until the job is removed; the number of messages of a user is limited.

use super::*;
use crate::record::message::{JobMessage, MESSAGES_MAX, OF_OWNER_MAX};

fn post(id: &str, index: u32, text: &str) -> Verb {
    Verb::Post {
        sel: selector(&[id]),
        index,
        text: text.into(),
    }
}

fn texts(state: &State, j: JobKey) -> Vec<(u32, String)> {
    let messages = state.messages(j).iter();
    messages.map(|m| (m.index, m.text.clone())).collect()
}

fn said(ack: &Ack) -> Vec<(Code, String)> {
    let results = ack.results.iter();
    results.map(|o| (o.code, o.text.clone())).collect()
}

fn array(b: &mut TestLeader) {
    let far = Stamp(b.now + 1_000_000_000);
    b.submit(5, |job| {
        job.array = "1-3".into();
        job.spec.begin = Some(far);
    });
}

#[test]
fn a_message_replaces_one_with_its_index_and_survives_a_change_of_leader() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    for (index, text) in [(3, "later"), (0, "http://h1:8888"), (3, "step 3")] {
        let ack = b.ask(5, vec![post("1", index, text)]);
        assert_eq!(said(&ack), [(Code::Ok, format!("has message {index}"))]);
    }
    let want = [(0, "http://h1:8888".to_owned()), (3, "step 3".to_owned())];
    let mut restored = State::new();
    b.core.state.snapshot().for_each(|r| restored.restore(r));
    for state in [&b.core.state, &b.replayed(), &restored] {
        assert_eq!(texts(state, JobKey::job(1)), want);
        assert_eq!(state.messages_of(5), 2);
        assert_eq!(state.check(), [""; 0]);
    }
    let row = b.core.state.row(JobKey::job(1)).unwrap();
    assert_eq!(row.messages[1].by, "u5");
    assert!(
        b.last
            .events
            .iter()
            .any(|e| matches!(e, Event::Handled { .. }))
    );
}

#[test]
fn a_request_that_is_repeated_posts_once() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    b.ask_token(5, vec![post("1", 0, "first")], Token(70));
    b.ask(5, vec![post("1", 0, "second")]);
    b.ask_token(5, vec![post("1", 0, "first")], Token(70));
    assert!(b.last.events.is_empty());
    assert_eq!(texts(&b.core.state, JobKey::job(1)), [(0, "second".into())]);
}

#[test]
fn an_element_that_waits_with_its_array_gets_a_row_for_its_message() {
    let mut b = TestLeader::new();
    array(&mut b);
    b.ask(5, vec![post("1[2]", 0, "mine"), post("1", 0, "of all")]);
    let element = JobKey::element(1, 2);
    assert_eq!(texts(&b.core.state, element), [(0, "mine".into())]);
    let row = b.core.state.row(element).expect("it has a row");
    assert_eq!((row.stat, row.messages.len()), (JobStat::Pend, 1));
    assert!(b.core.state.row(JobKey::element(1, 1)).is_none());
    let array = b.core.state.row(JobKey::job(1)).unwrap();
    assert_eq!(array.messages[0].text, "of all");
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
    let ack = b.ask(5, vec![post("1[7]", 0, "x"), post("9", 0, "x")]);
    let codes: Vec<Code> = ack.results.iter().map(|o| o.code).collect();
    assert_eq!(codes, [Code::NotFound, Code::NotFound]);
}

#[test]
fn messages_of_an_ended_job_are_kept_until_it_is_removed() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    b.host_runs("h1", attempt(1, 1));
    b.end("h1", 1, 1, 0);
    let ack = b.ask(5, vec![post("1", 0, "its results")]);
    assert_eq!(ack.results[0].code, Code::Ok);
    assert_eq!(texts(&b.core.state, JobKey::job(1)).len(), 1);
    array(&mut b);
    b.ask(5, vec![post("2[1-2]", 1, "of elements")]);
    assert_eq!(b.core.state.messages_of(5), 3);
    b.now += 200_000;
    b.turn(Vec::new());
    assert!(b.core.state.job(1).is_none(), "it was removed");
    assert!(b.core.state.messages(JobKey::job(1)).is_empty());
    assert_eq!(b.core.state.messages_of(5), 2);
}

#[test]
fn limits_are_named_and_nothing_is_journalled_beyond_them() {
    let mut b = TestLeader::new();
    b.submit(5, |_| {});
    for (index, text, says) in [
        (MESSAGES_MAX, "x".to_owned(), "message indexes are 0 to 127"),
        (0, "x".repeat(513), "has 513 characters, at most 512"),
    ] {
        let ack = b.ask(5, vec![post("1", index, &text)]);
        assert_eq!(ack.results[0].code, Code::Usage);
        assert!(
            ack.results[0].text.contains(says),
            "{}",
            ack.results[0].text
        );
        assert!(b.last.events.is_empty());
    }
    let t = Stamp(b.now);
    let message = |index| JobMessage {
        index,
        by: "u5".into(),
        t,
        text: "x".into(),
    };
    for index in 1..=OF_OWNER_MAX {
        let (j, message) = (JobKey::job(1), message(index));
        b.core.state.apply(&Event::Posted { j, message });
    }
    let ack = b.ask(5, vec![post("1", 0, "one more")]);
    let text = &ack.results[0].text;
    assert!(text.contains("u5 have 10000 messages"), "{text}");
    let ack = b.ask(5, vec![post("1", 7, "replaces one")]);
    assert_eq!(ack.results[0].code, Code::Ok);
}
