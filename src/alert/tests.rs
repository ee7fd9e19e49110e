//! Tests rules in cb.yaml with metrics over time, as scripts: each line is a moment with its
//! metrics, then the expected messages.

use super::*;
use crate::config::{self, AlertRule, OsNames};
use crate::model::{JobKey, MailRequest};
use crate::record::notices::{Delivery, NotifierState, OUTBOX_MAX, Silence};
use crate::record::report::Ended;
use jiff::tz::TimeZone;
use std::fmt::Write as _;

const HEAD: &str = "cluster: {name: c, administrators: [root]}\nhosts:\n- {name: h1, slots: 1}\n\
                    queues:\n- {name: normal}\nreceivers:\n- {name: hook, webhook: http://h/x}\n\
                    - {name: other, program: /bin/true}\nalerts:\n";

fn rules(text: &str) -> Vec<AlertRule> {
    let text = format!("{HEAD}{text}");
    let loaded = config::load(text.as_bytes(), "cb.yaml", &OsNames::ANY);
    loaded
        .map_err(|all| all[0].to_string())
        .unwrap()
        .config
        .notices
        .alerts
}

/// `metric{label=value,...}=number`.
fn figure(word: &str) -> Figure {
    let (name, value) = word.rsplit_once('=').unwrap();
    let (metric, labels) = name.split_once('{').unwrap_or((name, ""));
    let labels = labels
        .trim_end_matches('}')
        .split(',')
        .filter(|l| !l.is_empty());
    let pair = |label: &str| {
        let (name, value) = label.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    };
    Figure {
        metric: metric.to_owned(),
        labels: labels.map(pair).collect(),
        value: value.parse().unwrap(),
    }
}

/// Runs a script; each line is a second and figures, or `silence ALERT UNTIL`. Returns the messages
/// by second.
fn play(rules: &[AlertRule], script: &str) -> String {
    let mut state = NotifierState::default();
    play_on(&mut state, rules, script)
}

/// A second of a script in ms since 1970; no script begins there.
fn moment(word: &str) -> i64 {
    (1_000_000 + word.parse::<i64>().unwrap()) * 1000
}

fn play_on(state: &mut NotifierState, rules: &[AlertRule], script: &str) -> String {
    let mut out = String::new();
    for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[0] == "silence" {
            let until = moment(words[2]);
            let one = Silence {
                rule: words[1].into(),
                until,
                ..Silence::default()
            };
            silence(state, one);
            continue;
        }
        let now = moment(words[0]);
        let figures: Vec<Figure> = words[1..].iter().map(|word| figure(word)).collect();
        let _ = observe(state, "c", rules, &figures, now);
        for delivery in std::mem::take(&mut state.outbox) {
            writeln!(out, "{} {}: {}", words[0], delivery.to, delivery.subject).unwrap();
        }
    }
    out
}

#[test]
fn an_alert_fires_once_after_its_time_and_recovers_once() {
    let hot =
        rules("- {name: hot, watch: resource, resource: gpu_temp, over: 85, for: 20, to: hook}\n");
    let messages = play(
        &hot,
        "0 corral_host_resource{host=a,resource=gpu_temp}=90
         10 corral_host_resource{host=a,resource=gpu_temp}=80
         20 corral_host_resource{host=a,resource=gpu_temp}=90
         39 corral_host_resource{host=a,resource=gpu_temp}=90
         40 corral_host_resource{host=a,resource=gpu_temp}=91
         45 corral_host_resource{host=a,resource=gpu_temp}=99
         50 corral_host_resource{host=a,resource=gpu_temp}=85
         55 corral_host_resource{host=a,resource=gpu_temp}=85",
    );
    assert_eq!(
        messages,
        "40 hook: [WARNING] hot: host=a resource=gpu_temp (c)\n\
         50 hook: [RESOLVED] hot: host=a resource=gpu_temp (c)\n"
    );
}

#[test]
fn what_fires_at_one_time_is_one_message_for_each_receiver() {
    let silent =
        rules("- {name: silent, watch: host_silent, severity: critical, to: [hook, other]}\n");
    let messages = play(
        &silent,
        "0 corral_host_status{host=a,status=ok}=1 corral_host_status{host=b,status=ok}=1
         5 corral_host_status{host=a,status=unavail}=1 corral_host_status{host=b,status=unreach}=1
         9 corral_host_status{host=a,status=ok}=1 corral_host_status{host=b,status=unavail}=1",
    );
    assert_eq!(
        messages,
        "5 hook: [CRITICAL] silent: host=a and 1 more (c)\n\
         5 other: [CRITICAL] silent: host=a and 1 more (c)\n\
         9 hook: [RESOLVED] silent: host=a (c)\n\
         9 other: [RESOLVED] silent: host=a (c)\n"
    );
}

/// After a takeover hosts have not reported yet: that is not a recovery.
#[test]
fn a_figure_that_is_gone_recovers_late_or_at_once_as_its_rule_says() {
    let both = rules(
        "- {name: tmp, watch: tmp_full, under: 1G, to: hook}\n\
         - {name: wait, watch: pending, over: 1h, queues: normal, to: hook}\n",
    );
    let messages = play(
        &both,
        "0 corral_host_tmp_free_bytes{host=a}=5 corral_pending_oldest_seconds{queue=normal}=3601
         10
         129
         131
         200 corral_pending_oldest_seconds{queue=other}=9999",
    );
    assert_eq!(
        messages,
        "0 hook: [WARNING] tmp: host=a (c)\n\
         0 hook: [WARNING] wait: queue=normal (c)\n\
         10 hook: [RESOLVED] wait: queue=normal (c)\n\
         131 hook: [RESOLVED] tmp: host=a (c)\n"
    );
}

#[test]
fn a_silenced_alert_is_told_when_it_still_fires_afterwards() {
    let full = rules("- {name: full, watch: share_full, under: 10%, to: hook}\n");
    let messages = play(
        &full,
        "silence full 100
         0 corral_share_free_ratio=0.05
         50 corral_share_free_ratio=0.5
         60 corral_share_free_ratio=0.05
         100 corral_share_free_ratio=0.05
         120 corral_share_free_ratio=0.5",
    );
    assert_eq!(
        messages,
        "100 hook: [WARNING] full: the cluster (c)\n\
         120 hook: [RESOLVED] full: the cluster (c)\n"
    );
}

#[test]
fn a_rule_that_is_removed_recovers_and_its_successor_goes_on() {
    let any = rules(
        "- {name: any, watch: metric, metric: corral_jobs, match: {state: 'pend|psusp'}, over: 5, \
         to: hook}\n",
    );
    let mut state = NotifierState::default();
    let line = "0 corral_jobs{queue=q,state=pend}=6 corral_jobs{queue=q,state=run}=9";
    let messages = play_on(&mut state, &any, line);
    assert_eq!(messages, "0 hook: [WARNING] any: queue=q state=pend (c)\n");
    // A new leader's notifier continues from the state: no message is sent twice.
    let text = serde_json::to_string(&state).unwrap();
    let mut next: NotifierState = serde_json::from_str(&text).unwrap();
    let again = "1 corral_jobs{queue=q,state=pend}=7";
    assert_eq!(play_on(&mut next, &any, again), "");
    let over = play_on(&mut next, &[], again);
    assert_eq!(over, "1 hook: [RESOLVED] any: queue=q state=pend (c)\n");
}

#[test]
fn a_rule_without_a_figure_says_so() {
    let any = rules("- {name: any, watch: metric, metric: corral_nothing, over: 5, to: hook}\n");
    let mut state = NotifierState::default();
    let troubles = observe(&mut state, "c", &any, &[figure("corral_jobs=1")], 0);
    assert!(
        troubles[0].contains("no figure corral_nothing"),
        "{troubles:?}"
    );
    assert!(observe(&mut state, "c", &any, &[figure("corral_nothing=1")], 0).is_empty());
}

#[test]
fn the_id_is_of_what_happened_alone() {
    let full = rules("- {name: full, watch: share_full, under: 10%, to: hook}\n");
    let id = |now| {
        let mut state = NotifierState::default();
        observe(
            &mut state,
            "c",
            &full,
            &[figure("corral_share_free_ratio=0")],
            now,
        );
        state.outbox[0].id.clone()
    };
    assert_eq!(id(7), id(7));
    assert_ne!(id(7), id(8));
}

fn delivery(id: &str, to: &str, now: i64) -> Delivery {
    Delivery {
        id: id.into(),
        to: to.into(),
        subject: format!("about {id}"),
        made: now,
        next: now,
        ..Delivery::default()
    }
}

#[test]
fn a_failed_delivery_is_tried_ever_later_and_given_up_after_a_day() {
    let mut state = NotifierState::default();
    push(&mut state, delivery("a", "hook", 0));
    let mut now = 0;
    let mut pauses = Vec::new();
    loop {
        let failed = Outcome::Failed("no".into());
        if let Some(text) = record_outcome(&mut state, "a", ("hook", ""), failed, now) {
            assert!(text.contains("given up: no"), "{text}");
            break;
        }
        assert_eq!(due(&state, state.outbox[0].next - 1).count(), 0);
        pauses.push((state.outbox[0].next - now) / 1000);
        now = state.outbox[0].next;
    }
    assert_eq!(pauses[..5], [5, 10, 20, 40, 80]);
    assert_eq!(pauses.last(), Some(&900));
    assert!((24 * 3_600_000..25 * 3_600_000).contains(&now), "{now}");
    assert_eq!((state.lost, state.outbox.len()), (1, 0));
}

#[test]
fn what_was_delivered_goes_and_what_was_refused_is_lost() {
    let mut state = NotifierState::default();
    push(&mut state, delivery("a", "hook", 0));
    push(&mut state, delivery("a", "other", 0));
    assert_eq!(
        record_outcome(&mut state, "a", ("other", ""), Outcome::Delivered, 0),
        None
    );
    assert_eq!(state.outbox[0].to, "hook");
    let refused = Outcome::Refused("gone".into());
    assert!(record_outcome(&mut state, "a", ("hook", ""), refused, 0).is_some());
    assert_eq!(state.lost, 1);
}

#[test]
fn mails_over_the_hourly_number_come_as_one() {
    let mut state = NotifierState::default();
    for n in 0..7 {
        hold_or_send(&mut state, delivery(&n.to_string(), "a@x", 0), 3, n);
    }
    assert_eq!(state.outbox.len(), 3);
    let list =
        |whom: &str, quota: &crate::record::notices::MailQuota| held_mail("c", whom, quota, 9);
    release_held(&mut state, 3_599_999, &list);
    assert_eq!(state.outbox.len(), 3);
    release_held(&mut state, 3_600_000, &list);
    let one = state.outbox.last().unwrap();
    assert_eq!(
        (one.to.as_str(), one.subject.as_str()),
        ("a@x", "4 messages about jobs in cluster c")
    );
    assert!(
        one.text.contains("  about 3\n") && one.text.contains("  about 6\n"),
        "{}",
        one.text
    );
    // The next hour has begun with that mail.
    hold_or_send(&mut state, delivery("8", "a@x", 0), 2, 3_600_001);
    hold_or_send(&mut state, delivery("9", "a@x", 0), 2, 3_600_002);
    assert_eq!(state.outbox.len(), 5);
}

fn job(at: &str, to: &str) -> JobFacts {
    let mut mail_request = MailRequest::default();
    mail_request.add(at).unwrap();
    mail_request.to = to.into();
    JobFacts {
        mail_request,
        user: "ann".into(),
        queue: "normal".into(),
        command: "sim \x1b[31m --big".into(),
        sub_host: "login1".into(),
        submit: 1_795_230_000_000,
        hosts: "h1*2".into(),
        ..JobFacts::default()
    }
}

fn ended(code: Option<i32>, sig: i32) -> Ended {
    let mut e = Ended {
        start: 1_795_230_010_000,
        t: 1_795_230_070_000,
        code,
        sig,
        ..Ended::default()
    };
    e.a.at = 2;
    e.u.cpu_ms = 1_500;
    e
}

#[test]
fn a_job_is_told_of_what_it_asked_for() {
    let now = (0, &TimeZone::UTC);
    let messages = |at: &str, what: &JobNotice<'_>| {
        job_message("c", JobKey::element(7, 3), &job(at, ""), what, now).map(|d| d.subject)
    };
    let (done, failed) = (ended(Some(0), 0), ended(Some(3), 0));
    let title = |word: &str| {
        Some(format!(
            "Job 7[3]: <sim \\x1b[31m --big> {word} in cluster c"
        ))
    };
    assert_eq!(messages("done", &JobNotice::Ended(&done)), title("done"));
    assert_eq!(messages("exit", &JobNotice::Ended(&done)), None);
    assert_eq!(
        messages("exit", &JobNotice::Ended(&failed)),
        title("exited")
    );
    assert_eq!(
        messages("start", &JobNotice::Started { at: 1, t: 5 }),
        title("started")
    );
    assert_eq!(
        messages("start", &JobNotice::Suspended { at: 1, t: 5 }),
        None
    );
    let cancelled = JobNotice::Cancelled { by: "root", t: 5 };
    assert_eq!(messages("exit", &cancelled), title("exited"));
}

#[test]
fn the_report_of_a_job_says_how_it_ended_and_what_it_used() {
    let end = ended(None, 9);
    let happening = JobNotice::Ended(&end);
    let delivery = job_message(
        "c",
        JobKey::job(7),
        &job("exit", ""),
        &happening,
        (0, &TimeZone::UTC),
    );
    let delivery = delivery.unwrap();
    assert_eq!(delivery.id, "c.7.2.exit");
    for line in [
        "Job 7 was ended by signal 9.",
        "Hosts:         h1*2",
        "Submitted:     Sat Nov 21 03:00:00 2026 from login1",
        "  CPU time:      1.50 s",
        "  Run time:      1m",
        "'cpeek 7' prints its output.",
    ] {
        assert!(
            delivery.text.lines().any(|l| l.starts_with(line)),
            "{line}\n{}",
            delivery.text
        );
    }
    assert!(!delivery.text.contains('\x1b'));
    let json: serde_json::Value = serde_json::from_str(&delivery.json).unwrap();
    assert_eq!(
        (&json["event"], &json["signal"]),
        (&"exit".into(), &9.into())
    );
}

#[test]
fn a_message_goes_to_each_that_is_named_or_to_the_owner() {
    let one = delivery("a", "", 0);
    let whom = |to: &str| {
        let all = copies(&one, &job("exit", to)).into_iter();
        all.map(|d| format!("{}|{}", d.to, d.user))
            .collect::<Vec<_>>()
    };
    assert_eq!(whom(""), ["|ann"]);
    assert_eq!(whom("x@y,bob"), ["x@y|", "|bob"]);
}

/// A receiver that does not answer for long takes no room of the others.
#[test]
fn the_messages_of_one_receiver_leave_room_for_others() {
    let mut state = NotifierState::default();
    for n in 0..OUTBOX_MAX {
        outbox::push(&mut state, delivery(&n.to_string(), "hook", 0));
    }
    assert_eq!((state.outbox.len(), state.lost), (OUTBOX_MAX / 2, 5_000));
    for (n, to) in ["other", "a@b.c", "a@b.d"].into_iter().enumerate() {
        outbox::push(&mut state, delivery(&n.to_string(), to, 0));
    }
    assert_eq!(state.outbox.len(), OUTBOX_MAX / 2 + 3);
}
