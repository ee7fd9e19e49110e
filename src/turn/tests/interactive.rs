//! Interactive jobs in the leader: which queues accept them, what they cannot have, that they run
//! once.

use super::*;
use crate::model::{Session, Terminal};
use crate::record::ack::Code;

const QUEUES: &str = "
cluster: {name: demo, administrators: [root]}
hosts:
- {name: h1, slots: 2}
- {name: h2, slots: 2}
queues:
- {name: normal, priority: 30, requeue_exit_values: '7', rerunnable: yes}
- {name: batch, priority: 20, interactive: no}
- {name: desk, priority: 20, interactive: only}
general: {default_queue: normal, clean_period: 100}
";

fn at(terminal: Terminal) -> Option<Box<Session>> {
    let token = Token(5);
    Some(Box::new(Session { terminal, token }))
}

fn error(ack: &Ack) -> String {
    let refused = ack.results.iter().find(|r| r.code != Code::Ok);
    refused.map_or(String::new(), |r| r.text.clone())
}

#[test]
fn a_queue_takes_interactive_jobs_or_no_others_as_it_says() {
    for (queue, interactive, why) in [
        ("normal", true, ""),
        ("normal", false, ""),
        ("batch", true, "accepts no interactive jobs"),
        ("batch", false, ""),
        ("desk", true, ""),
        ("desk", false, "accepts only interactive jobs"),
    ] {
        let mut b = TestLeader::with(QUEUES);
        let ack = b.submit(5, |j| {
            j.spec.queue = queue.into();
            j.spec.session = at(Terminal::Streams).filter(|_| interactive);
        });
        let output = error(&ack);
        assert!(
            output.contains(why) && output.is_empty() == why.is_empty(),
            "{queue}: {output}"
        );
    }
}

#[test]
fn what_has_a_terminal_for_one_run_has_no_files_and_no_second_run() {
    let refused = |change: &dyn Fn(&mut Submission)| {
        let mut b = TestLeader::with(QUEUES);
        error(&b.submit(5, |j| {
            j.spec.session = at(Terminal::Shell);
            change(j);
        }))
    };
    assert_eq!(refused(&|_| {}), "");
    assert!(refused(&|j| j.array = "1-3".into()).contains("index list"));
    assert!(refused(&|j| j.hold = true).contains("-H"));
    assert!(refused(&|j| j.spec.rerunnable = true).contains("runs once"));
    assert!(refused(&|j| j.spec.again.exits = "3".into()).contains("runs once"));
    assert!(refused(&|j| j.spec.again.retries = Some(1)).contains("runs once"));
    assert!(refused(&|j| j.spec.stdout = "o".into()).contains("terminal of its own"));
    let streams = |j: &mut Submission| {
        (j.spec.session, j.spec.stdout) = (at(Terminal::Streams), "o".into());
    };
    assert_eq!(refused(&streams), "");
}

#[test]
fn an_interactive_job_is_over_whatever_its_queue_makes_of_its_exit_value() {
    for (interactive, stat) in [(true, JobStat::Exit), (false, JobStat::Run)] {
        let mut b = TestLeader::with(QUEUES);
        b.submit(5, |j| {
            j.spec.session = at(Terminal::Streams).filter(|_| interactive);
        });
        let spec = b.core.state.spec_of(1).unwrap();
        assert_eq!(
            spec.rerunnable, !interactive,
            "the queue's word does not count"
        );
        let run = b.core.state.work(JobKey::job(1)).unwrap().run.as_ref();
        let host = b.core.state.host_name(run.unwrap().hosts[0].0).to_string();
        let end = Report::Ended(Box::new(Ended {
            a: AttemptId {
                j: JobKey::job(1),
                at: 1,
            },
            start: 1,
            t: 2,
            code: Some(7),
            ..Ended::default()
        }));
        b.report(&host, vec![end]);
        b.turn(Vec::new());
        assert_eq!(b.core.state.stat(JobKey::job(1)), Some(stat));
    }
}

#[test]
fn an_interactive_job_is_not_requeued() {
    for (interactive, why) in [(true, "runs only once"), (false, "")] {
        let mut b = TestLeader::with(QUEUES);
        b.submit(5, |j| {
            j.spec.session = at(Terminal::Streams).filter(|_| interactive);
        });
        let sel = selector(&["1"]);
        let (hold, states) = (false, Vec::new());
        let ack = b.ask(5, vec![Verb::Requeue { sel, hold, states }]);
        let output = error(&ack);
        assert!(
            output.contains(why) && output.is_empty() == why.is_empty(),
            "{output}"
        );
        let run = b.core.state.work(JobKey::job(1)).unwrap().run.as_ref();
        assert_eq!(run.unwrap().killing.is_none(), interactive);
    }
}
