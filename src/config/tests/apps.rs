//! Section `apps`: its values, its refusals, and limits of applications.

use super::super::*;
use super::{codes, good, read, warnings, with};
use crate::model::Spec;

#[test]
fn an_application_says_what_its_jobs_get() {
    let c = good(
        "apps:\n- {name: cfd, description: flow, users: u1, job_slots: 2 4 16, run_limit: 60 120,\n\
         \x20  mem_limit: 4G, res_req: 'select[mem>1000] rusage[mem=500]', rerunnable: no,\n\
         \x20  requeue_exit_values: 30-32, retries: 2, warn_time: 5m, pre_exec: 'echo $HOME',\n\
         \x20  post_exec: ./tidy, job_starter: env A=1, chkpnt: /ck 10, max_requeue: 3,\n\
         \x20  success_exit_values: 3 7-9, env: {OMP_NUM_THREADS: '4', B: a b},\n\
         \x20  job_controls: {suspend: TSTP}}\n- {name: other}\n\
         general: {default_app: other}",
    );
    assert_eq!(c.general.default_app, "other");
    let app = c.app("cfd").unwrap();
    let slots = JobSlots {
        min: 2,
        default: 4,
        max: Some(16),
    };
    assert_eq!(app.job_slots, Some(slots));
    let run = app.limits.run_limit_ms;
    assert_eq!((run.default, run.max), (Some(3_600_000), Some(7_200_000)));
    assert_eq!(app.limits.mem_limit.max, Some(4 << 30));
    assert_eq!(
        app.res_req.as_deref(),
        Some("select[mem > 1000] rusage[mem=500]")
    );
    assert_eq!((app.rerunnable, app.retries), (Some(false), Some(2)));
    assert_eq!(app.pre_exec, "echo $HOME");
    let env: Vec<String> = app.env.iter().map(|(n, v)| format!("{n}={v}")).collect();
    assert_eq!(env, ["B=a b", "OMP_NUM_THREADS=4"]);
    assert_eq!(app.max_requeue, Some(3));
    assert!(app.success.as_ref().unwrap().holds(8) && app.controls.suspend.is_some());
    let shown: Vec<(String, String)> = app.settings();
    for (title, text) in [
        ("MAX_REQUEUE", "3"),
        ("SUCCESS_EXIT_VALUES", "3 7-9"),
        ("SUSPEND_CONTROL", "TSTP"),
        ("ENV", "OMP_NUM_THREADS=4"),
    ] {
        assert!(shown.contains(&(title.into(), text.into())), "{shown:?}");
    }
    assert!(!app.users.contains("u2", &[], &c.user_groups));
    assert_eq!(*c.app("other").unwrap(), AppProfile::named("other"));
    assert!(c.app("").is_none() && c.app("cdf").is_none());
    assert_eq!(good("").general.default_app, "");
}

#[test]
fn what_is_wrong_with_an_application_is_refused() {
    for (text, code) in [
        ("apps: {name: a}", "type"),
        ("apps: [{name: a}, {name: a}]", "duplicate"),
        ("apps: [{description: a}]", "missing-key"),
        ("apps: [{name: all}]", "reserved-name"),
        ("apps: [{name: a, hosts: h1}]", "unknown-key"),
        ("apps: [{name: a, preemptable: no}]", "not-implemented"),
        ("apps: [{name: a, env: x}]", "type"),
        ("apps: [{name: a, env: {1A: x}}]", "name"),
        ("apps: [{name: a, env: {A-B: x}}]", "name"),
        ("apps: [{name: a, env: {HOME: x}}]", "name"),
        ("apps: [{name: a, env: {LSB_QUEUE: x}}]", "name"),
        ("apps: [{name: a, env: {A: [x]}}]", "type"),
        ("apps: [{name: a, success_exit_values: 0}]", "number"),
        (
            "apps: [{name: a, success_exit_values: EXCLUDE(3)}]",
            "number",
        ),
        ("queues: [{name: q, success_exit_values: 256}]", "number"),
        ("apps: [{name: a, max_requeue: x}]", "number"),
        ("apps: [{name: a, job_controls: {suspend: x}}]", "choice"),
        ("apps: [{name: a, run_limit: 9 3}]", "conflict"),
        ("apps: [{name: a, job_slots: 3 2}]", "conflict"),
        ("apps: [{name: a, res_req: 'select[nonsense'}]", "res-req"),
        ("apps: [{name: a, res_req: '2{} 3{}'}]", "not-implemented"),
        ("apps: [{name: a, pre_exec: ''}]", "program"),
        ("apps: [{name: a, rerunnable: maybe}]", "flag"),
        ("general: {default_app: a}", "undefined"),
    ] {
        assert_eq!(codes(&with(text)), [code], "{text}");
    }
    let long = format!("apps: [{{name: a, env: {{A: {}}}}}]", "x".repeat(16_384));
    assert_eq!(codes(&with(&long)), ["range"]);
    let long = format!("apps: [{{name: {}}}]", "a".repeat(61));
    assert_eq!(codes(&with(&long)), ["name"]);
    let near = read(&with(
        "apps: [{name: fluent}]\ngeneral: {default_app: fluet}",
    ));
    let hint = near.unwrap_err()[0].hint.clone();
    assert_eq!(hint.as_deref(), Some("did you mean \"fluent\"?"));
}

#[test]
fn a_limit_that_names_no_profile_is_a_warning() {
    let apps = "apps: [{name: fluent}]\n";
    for (limit, want) in [
        ("apps: fluent", &[][..]),
        ("per_app: all", &[]),
        ("per_app: all ~fluent", &[]),
        ("apps: fluet", &["no-profile"]),
        ("per_app: fluent abaqus", &["no-profile"]),
    ] {
        let text = with(&format!("{apps}limits: [{{name: l, {limit}, jobs: 1}}]"));
        assert_eq!(warnings(&text), want, "{limit}");
    }
}

/// The job's string takes precedence over that of its application, this one over that of its queue.
#[test]
fn requirements_merge_in_three_steps() {
    let c = good(
        "queues: [{name: q, res_req: 'select[mem>1] order[ut] rusage[mem=1:swp=1] span[hosts=1]'}]\n\
         apps: [{name: a, res_req: 'select[mem>2] order[pg] rusage[mem=2:tmp=2]'}, {name: b}]",
    );
    let merged = |app: &str, own: &str| {
        let spec = Spec {
            app: app.into(),
            res_req: require::check_request(own, &c).unwrap(),
            ..Spec::default()
        };
        let queue = c.queue("q").unwrap().res_req.as_deref();
        require::Request::new(&spec, queue, &c)
            .unwrap()
            .req
            .to_string()
    };
    let of_queue = "select[mem > 1] order[ut] rusage[mem=1,swp=1] span[hosts=1]";
    assert_eq!(merged("", ""), of_queue);
    assert_eq!(merged("b", ""), of_queue);
    assert_eq!(merged("gone", ""), of_queue);
    assert_eq!(
        merged("a", ""),
        "select[mem > 2 && mem > 1] order[pg] rusage[mem=2,tmp=2,swp=1] span[hosts=1]"
    );
    assert_eq!(
        merged("a", "select[mem>3] rusage[mem=3] span[ptile=2]"),
        "select[mem > 3 && mem > 2 && mem > 1] order[pg] rusage[mem=3,tmp=2,swp=1] span[ptile=2]"
    );
}
