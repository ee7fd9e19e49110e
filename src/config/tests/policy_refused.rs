//! Every refusal of scheduling settings: its kind, and the place in the line to which it points.

use super::super::*;
use super::{os, read, with};

const QUEUES: &str = "queues: [{name: hi, priority: 9, preemption: {@}}, {name: lo}, {name: up, \
                      priority: 9}]";

/// Text added to a valid file, the kind of the only problem, and the text at its caret.
const REFUSED: &[(&str, &str, &str)] = &[
    // order and shares
    ("queues: [{name: q, policy: lifo}]", "choice", "lifo"),
    (
        "queues: [{name: q, policy: 'external:/x'}]",
        "not-implemented",
        "'external",
    ),
    (
        "queues: [{name: q, policy: external}]",
        "not-implemented",
        "external",
    ),
    ("queues: [{name: q, policy: [fifo]}]", "type", "[fifo]"),
    ("queues: [{name: q, round_robin: maybe}]", "flag", "maybe"),
    (
        "queues: [{name: q, policy: drf, round_robin: yes}]",
        "conflict",
        "round_robin",
    ),
    (
        "queues: [{name: q, fairshare: '[u1,1]', round_robin: yes}]",
        "conflict",
        "round_robin",
    ),
    (
        "queues: [{name: q, policy: fifo, fairshare: '[u1,1]'}]",
        "conflict",
        "fairshare",
    ),
    ("queues: [{name: q, fairshare: u1}]", "fairshare", "u1"),
    ("queues: [{name: q, fairshare: ''}]", "fairshare", "'}"),
    (
        "queues: [{name: q, fairshare: '[u1,1] u2'}]",
        "fairshare",
        "u2'",
    ),
    (
        "queues: [{name: q, fairshare: '[u1,1'}]",
        "fairshare",
        "'}]",
    ),
    ("queues: [{name: q, fairshare: '[u1]'}]", "fairshare", "u1]"),
    (
        "queues: [{name: q, fairshare: [u1,1] [u2]}]",
        "fairshare",
        "u2]",
    ),
    ("queues: [{name: q, fairshare: '[u1,0]'}]", "range", "0]"),
    (
        "queues: [{name: q, fairshare: '[u1, 1000001]'}]",
        "range",
        "1000001]",
    ),
    (
        "queues: [{name: q, fairshare: [u1,1] [u2,1.5]}]",
        "number",
        "1.5]",
    ),
    ("queues: [{name: q, fairshare: '[u1,-1]'}]", "range", "-1]"),
    (
        "queues: [{name: q, fairshare: '[u1,1] [u1,2]'}]",
        "duplicate",
        "u1,2]",
    ),
    (
        "queues: [{name: q, fairshare: '[default,1] [default,2]'}]",
        "duplicate",
        "default,2]",
    ),
    (
        "queues: [{name: q, fairshare: '[all,1]'}]",
        "fairshare",
        "all,1]",
    ),
    (
        "queues: [{name: q, fairshare: '[u1,1] [a;b,1]'}]",
        "name",
        ";b,1]",
    ),
    ("queues: [{name: q, fairshare: '[,1]'}]", "name", ",1]"),
    ("queues: [{name: q, fairshare: [[u1,1]]}]", "type", "[[u1"),
    (
        "usergroups: [{name: g, members: u1, fairshare: '[u1,x]'}]",
        "number",
        "x]",
    ),
    (
        "usergroups: [{name: g, members: all, fairshare: '[g,1]'}]",
        "cycle",
        "g,",
    ),
    (
        "usergroups:\n- {name: g1, members: all, fairshare: '[g2,1]'}\n\
         - {name: g2, members: all, fairshare: '[g1,1] [default,1]'}",
        "cycle",
        "g1,",
    ),
    ("general: {cpu_time_factor: -1}", "number", "-1"),
    ("general: {run_time_factor: 1e3}", "number", "1e3"),
    ("general: {run_job_factor: 1000001}", "range", "1000001"),
    ("general: {gpu_time_factor: 0.0001}", "number", "0.0001"),
    ("general: {hist_hours: 87601}", "range", "87601"),
    ("queues: [{name: q, hist_hours: 05}]", "number", "05"),
    (
        "queues: [{name: q, run_job_factor: .nan}]",
        "number",
        ".nan",
    ),
    // reservation, backfill, preemption
    ("queues: [{name: q, strict: 2}]", "flag", "2"),
    ("queues: [{name: q, backfill: some}]", "choice", "some"),
    ("queues: [{name: q, backfill: -1}]", "range", "-1"),
    ("queues: [{name: q, backfill: 010}]", "number", "010"),
    (
        "queues: [{name: q, backfill: yes, backfill_order: longest}]",
        "choice",
        "longest",
    ),
    (
        "queues: [{name: q, backfill: yes, backfill_hosts: all}]",
        "choice",
        "all",
    ),
    ("queues: [{name: q, slot_reserve: 0}]", "range", "0"),
    ("queues: [{name: q, slot_reserve: yes}]", "time", "yes"),
    ("queues: [{name: q, slot_reserve: 5y}]", "time", "y}"),
    ("queues: [{name: q, elastic: much}]", "flag", "much"),
    ("queues: [{name: q, packing: tight}]", "choice", "tight"),
    ("queues: [{name: q, cpu_bind: cores}]", "choice", "cores"),
    ("queues: [{name: q, cpu_bind: yes}]", "choice", "yes"),
    ("queues: [{name: q, preemption: lo}]", "type", "lo"),
    ("@preempt: lo, methd: suspend", "unknown-key", "methd"),
    ("@method: suspend", "missing-key", "{method"),
    ("@preempt: ''", "missing-key", "''"),
    ("@preempt: low", "undefined", "low"),
    ("@preempt: lo up", "conflict", "up"),
    ("@preempt: hi", "conflict", "hi"),
    ("@preempt: lo lo+2", "duplicate", "lo+2"),
    ("@preempt: lo+x", "number", "x}"),
    ("@preempt: lo, method: kill", "choice", "kill"),
    (
        "@preempt: lo, method: checkpoint",
        "not-implemented",
        "checkpoint",
    ),
    ("@preempt: lo, delay: 5", "not-implemented", "delay"),
    ("@preempt: lo, grace: -5", "time", "-5"),
    ("@preempt: lo, grace: 2d", "range", "2d"),
    ("@preempt: lo, order: oldest", "choice", "oldest"),
    ("@preempt: lo, max_victims: 0", "range", "0"),
    // thresholds and conditions
    ("queues: [{name: q, thresholds: r1m}]", "type", "r1m"),
    (
        "queues: [{name: q, thresholds: {9x: 1}}]",
        "undefined",
        "9x",
    ),
    (
        "queues: [{name: q, thresholds: {model: 1}}]",
        "threshold",
        "model",
    ),
    (
        "queues: [{name: q, thresholds: {rexpri: 1}}]",
        "threshold",
        "rexpri",
    ),
    ("queues: [{name: q, thresholds: {r1m: [1]}}]", "type", "[1]"),
    (
        "queues: [{name: q, thresholds: {r1m: much}}]",
        "threshold",
        "much",
    ),
    (
        "queues: [{name: q, thresholds: {r1m: '1/x'}}]",
        "threshold",
        "x'",
    ),
    (
        "queues: [{name: q, thresholds: {r1m: '1/2/3'}}]",
        "threshold",
        "2/3'",
    ),
    (
        "queues: [{name: q, thresholds: {r1m: '1/'}}]",
        "threshold",
        "'}}",
    ),
    (
        "queues: [{name: q, thresholds: {r1m: '-/-'}}]",
        "threshold",
        "-/-'",
    ),
    (
        "queues: [{name: q, thresholds: {r1m: '2/1'}}]",
        "threshold",
        "2/1",
    ),
    (
        "queues: [{name: q, thresholds: {mem: '10/100'}}]",
        "threshold",
        "10/100",
    ),
    (
        "queues: [{name: q, thresholds: {ut: 1G}}]",
        "threshold",
        "1G",
    ),
    (
        "queues: [{name: q, thresholds: {mem: 1Q}}]",
        "threshold",
        "Q}",
    ),
    (
        "queues: [{name: q, thresholds: {swp: 1, swap: 2}}]",
        "duplicate",
        "swap",
    ),
    (
        "hosts: [{name: default, thresholds: {mem: 1/2}}, {name: h1}, {name: h2}]",
        "threshold",
        "1/2",
    ),
    (
        "queues: [{name: q, threshold_action: panic}]",
        "choice",
        "panic",
    ),
    (
        "queues: [{name: q, stop_cond: 'select[mem>'}]",
        "res-req",
        "'}]",
    ),
    (
        "queues: [{name: q, resume_cond: 'order[ut]'}]",
        "res-req",
        "'order",
    ),
    ("queues: [{name: q, stop_cond: ''}]", "res-req", "''"),
    (
        "queues: [{name: q, stop_cond: 'select[mem<1] rusage[mem=1]'}]",
        "res-req",
        "'select",
    ),
    // windows (row 50)
    (
        "queues: [{name: q, run_window: '25:00-1:00'}]",
        "window",
        "25:00",
    ),
    ("queues: [{name: q, run_window: '8-8'}]", "window", "8-8"),
    (
        "queues: [{name: q, run_window: '1:9:0-1:8:0'}]",
        "window",
        "1:9:0",
    ),
    (
        "queues: [{name: q, run_window: '1:8:0-18:0'}]",
        "window",
        "1:8:0",
    ),
    (
        "queues: [{name: q, dispatch_window: '9-18 nine'}]",
        "window",
        "'}]",
    ),
    (
        "queues: [{name: q, dispatch_window: [9-18, 9-25]}]",
        "window",
        "25]",
    ),
    ("queues: [{name: q, dispatch_window: ''}]", "window", "'}"),
    (
        "queues: [{name: q, run_window: }]",
        "no-value",
        "run_window",
    ),
    (
        "hosts: [{name: h1, dispatch_window: 9-9:61}]",
        "window",
        "61}",
    ),
    (
        "queues: [{name: q, window_action: panic}]",
        "choice",
        "panic",
    ),
    ("queues: [{name: q, ignore_deadline: 1}]", "flag", "1"),
    // general
    ("general: {packing: fast}", "choice", "fast"),
    ("general: {job_accept_interval: 2h}", "range", "2h"),
    ("general: {new_job_sched_delay: soon}", "time", "soon"),
    ("general: {job_check_interval: 0}", "range", "0"),
    ("general: {pg_susp_it: 2d}", "range", "2d"),
    ("general: {job_priority_over_time: 3}", "number", "3"),
    ("general: {job_priority_over_time: 0/5}", "range", "0/5"),
    ("general: {job_priority_over_time: 3/x}", "number", "x"),
    ("general: {job_priority_over_time: 3/0}", "range", "0}"),
    ("general: {resource_reserve_per_task: 2}", "flag", "2"),
    ("general: {default_host_spec: epyc}", "undefined", "epyc"),
    // hosts and resources (row 45)
    ("hosts: [{name: h1, unit: 'a b'}]", "name", " b'"),
    ("hosts: [{name: h1, unit: a, rack: b}]", "conflict", "rack"),
    ("hosts: [{name: h1, resources: {gpu: x}}]", "number", "x}"),
    (
        "hosts: [{name: h1, resources: {gpu: 1.5}}]",
        "number",
        "1.5",
    ),
    ("hosts: [{name: h1, resources: {gpu: -1}}]", "range", "-1"),
    ("hosts: [{name: h1, tags: gpu}]", "reserved-name", "gpu"),
    ("resources: [{name: mem}]", "reserved-name", "mem"),
    ("resources: [{name: gpu}]", "reserved-name", "gpu"),
    (
        "resources: [{name: r15s, type: text}]",
        "reserved-name",
        "r15s",
    ),
    ("resources: [{name: 'a['}]", "name", "['}"),
    ("resources: [{name: 9a}]", "name", "9a"),
    ("resources: [{name: a-b}]", "name", "a-b"),
    ("resources: [{type: number}]", "missing-key", "{type"),
    ("resources: [{name: a}, {name: a}]", "duplicate", "a}]"),
    ("resources: [{name: a, type: float}]", "choice", "float"),
    ("resources: [{name: a, direction: up}]", "choice", "up"),
    (
        "resources: [{name: a, type: tag, release: yes}]",
        "conflict",
        "release",
    ),
    (
        "resources: [{name: a, type: text, direction: increase}]",
        "conflict",
        "direction",
    ),
    (
        "resources: [{name: a, assign: yes, release: yes}]",
        "conflict",
        "release",
    ),
    (
        "resources: [{name: a, assign: yes, direction: increase}]",
        "conflict",
        "direction",
    ),
    (
        "resources: [{name: a, type: text, assign: yes}]",
        "conflict",
        "assign",
    ),
    ("resources: [{name: a, assign: 2}]", "flag", "2}"),
    (
        "resources: [{name: a, per_unit: b}, {name: b}]",
        "conflict",
        "b}, ",
    ),
    (
        "resources: [{name: a, type: text, per_unit: gpu}]",
        "conflict",
        "per_unit",
    ),
    (
        "resources: [{name: a, per_unit: gpu, slotresource: yes}]",
        "conflict",
        "slotresource",
    ),
    ("resources: [{name: a, locale: all}]", "conflict", "locale"),
    ("resources: [{name: a, value: 3}]", "conflict", "value"),
    (
        "resources: [{name: a, locale: all, value: x}]",
        "number",
        "x}]",
    ),
    (
        "resources: [{name: a, locale: nowhere, value: 1}]",
        "undefined",
        "nowhere",
    ),
    (
        "resources: [{name: a, locale: all, value: 1, assign: yes}]",
        "conflict",
        "assign",
    ),
    (
        "resources: [{name: a, locale: all, value: 1}]\nhosts: [{name: h1, resources: {a: 2}}]",
        "conflict",
        "locale",
    ),
    (
        "hosts: [{name: h1, resources: {gpu_mem: [1, x]}}]",
        "number",
        "x]",
    ),
    (
        "hosts: [{name: h1, resources: {gpu_mem: [[1]]}}]",
        "type",
        "[1]",
    ),
    (
        "resources: [{name: a}]\nhosts: [{name: h1, resources: {a: [x]}}]",
        "type",
        "[x]",
    ),
    (
        "resources: [{name: a, assign: yes}]\nhosts: [{name: h1, resources: {a: 1.5}}]",
        "number",
        "1.5",
    ),
    (
        "resources: [{name: a, assign: yes}]\nhosts: [{name: h1, resources: {a: 1025}}]",
        "range",
        "1025",
    ),
    (
        "hosts: [{name: h1, resources: {gpu: [a, a]}}]",
        "units",
        "[a, a]",
    ),
    (
        "hosts: [{name: h1, resources: {gpu: [a, 'b c']}}]",
        "units",
        "[a, 'b",
    ),
    (
        "hosts: [{name: h1, resources: {gpu: [a, [b]]}}]",
        "type",
        "[b]",
    ),
    ("queues: [{name: q, gpu_env: names}]", "choice", "names"),
    ("queues: [{name: q, gpu_check: end}]", "choice", "end"),
    ("queues: [{name: q, oom_kill: no}]", "choice", "no"),
    (
        "resources: [{name: x, assign: yes, devices: nvidia0}]",
        "type",
        "nvidia0",
    ),
    (
        "resources: [{name: x, devices: /dev/x%u}]",
        "conflict",
        "devices",
    ),
    (
        "hosts: [{name: h1, resources: {gpu: 2}}]\n\
         queues: [{name: q, res_req: 'rusage[gpu=1:duration=5m]'}]",
        "not-implemented",
        "rusage",
    ),
    (
        "resources: [{name: a, interval: 5}]",
        "not-implemented",
        "interval",
    ),
    ("resources: {a: number}", "type", "{a"),
    ("resources: '[a]'", "type", "'[a]"),
    (
        "resources: [{name: a}]\nhosts: [{name: h1, resources: {a: east}}]",
        "conflict",
        "a: east",
    ),
    (
        "resources: [{name: a}]\nhosts: [{name: h1, tags: a}]",
        "conflict",
        "a}]",
    ),
    // limits (rows 29, 30, 50)
    ("limits: [{slots: 3}]", "missing-key", "{slots"),
    ("limits: [{name: 'a b', slots: 3}]", "name", " b'"),
    (
        "limits: [{name: l, slots: 3}, {name: l, slots: 4}]",
        "duplicate",
        "l, slots: 4",
    ),
    ("limits: [{name: l}]", "missing-key", "{name: l"),
    ("limits: [{name: l, users: u1}]", "missing-key", "{name: l"),
    (
        "limits: [{name: l, slotz: 1, jobs: 1}]",
        "unknown-key",
        "slotz",
    ),
    (
        "limits: [{name: l, USERS: u1, jobs: 1}]",
        "unknown-key",
        "USERS",
    ),
    ("limits: {l: 3}", "type", "{l"),
    (
        "limits: [{name: l, queues: q, per_queue: q, jobs: 1}]",
        "conflict",
        "per_queue",
    ),
    (
        "limits: [{name: l, apps: a, per_app: a, jobs: 1}]",
        "conflict",
        "per_app",
    ),
    (
        "limits: [{name: l, queues: q r, jobs: 1}]",
        "undefined",
        "r, jobs",
    ),
    (
        "limits: [{name: l, per_queue: all ~r, jobs: 1}]",
        "undefined",
        "~r",
    ),
    ("limits: [{name: l, queues: ~q, jobs: 1}]", "name", "~q"),
    (
        "limits: [{name: l, hosts: h1 h9, jobs: 1}]",
        "undefined",
        "h9",
    ),
    (
        "limits: [{name: l, per_host: h1+2, jobs: 1}]",
        "hosts",
        "h1+2",
    ),
    (
        "limits: [{name: l, per_host: others, jobs: 1}]",
        "hosts",
        "others",
    ),
    (
        "limits: [{name: l, users: 'u1;u2', jobs: 1}]",
        "users",
        ";u2",
    ),
    ("limits: [{name: l, users: ~u1, jobs: 1}]", "users", "~u1"),
    (
        "limits: [{name: l, projects: 'a/b', jobs: 1}]",
        "name",
        "/b'",
    ),
    ("limits: [{name: l, users: , jobs: 1}]", "no-value", "users"),
    ("limits: [{name: l, slots: many}]", "number", "many"),
    ("limits: [{name: l, slots: -1}]", "range", "-1"),
    ("limits: [{name: l, slots: 010}]", "number", "010"),
    ("limits: [{name: l, slots: 2 9-17}]", "number", "2 9"),
    ("limits: [{name: l, slots: '[2 9-17] 5'}]", "number", "5'"),
    ("limits: [{name: l, slots: '[2 9-17'}]", "number", "'}]"),
    ("limits: [{name: l, slots: '[]'}]", "number", "]'"),
    ("limits: [{name: l, slots: '[9-17]'}]", "number", "9-17"),
    (
        "limits: [{name: l, slots: [2 9-17] [x 18-20]}]",
        "number",
        "x 18",
    ),
    (
        "limits: [{name: l, slots: '[2 9-17] [5 25:00-1:00]'}]",
        "window",
        "25:00",
    ),
    (
        "limits: [{name: l, slots: [2 9-17] [5 8-8]}]",
        "window",
        "8-8",
    ),
    ("limits: [{name: l, slots: '[2,9-17]'}]", "number", "2,9"),
    ("limits: [{name: l, resources: mem}]", "number", "mem"),
    ("limits: [{name: l, resources: '[mem]'}]", "number", "mem]"),
    ("limits: [{name: l, resources: '[mem,]'}]", "number", "]'"),
    ("limits: [{name: l, resources: '[mem,-5]'}]", "number", "-5"),
    (
        "limits: [{name: l, resources: '[model,3]'}]",
        "resource",
        "model",
    ),
    (
        "limits: [{name: l, resources: '[slots,3]'}]",
        "resource",
        "slots",
    ),
    ("limits: [{name: l, resources: '[gpu,1G]'}]", "number", "1G"),
    (
        "limits: [{name: l, resources: '[gpu,5 9:00-9:00]'}]",
        "window",
        "9:00-9:00",
    ),
    (
        "limits: [{name: l, resources: [mem,5] [gpu, x 9-10]}]",
        "number",
        "x 9-10",
    ),
    ("limits: [{name: l, resources: {mem: 5}}]", "type", "{mem"),
    (
        "limits: [{name: l, resources: [[mem, 5]]}]",
        "type",
        "[[mem",
    ),
];

fn whole(text: &str) -> String {
    match text.strip_prefix('@') {
        Some(keys) => with(&QUEUES.replace('@', keys)),
        None => with(text),
    }
}

#[test]
fn every_problem_has_its_refusal_and_its_place() {
    let mut wrong = String::new();
    for (text, want, place) in REFUSED {
        let problems = read(&whole(text)).err().unwrap_or_default();
        let codes: Vec<&str> = problems.iter().map(|p| p.code).collect();
        let Some(p) = problems.first().filter(|_| codes.join(" ") == *want) else {
            wrong += &format!("{text}\n  {codes:?}, not {want}\n{problems:#?}\n");
            continue;
        };
        let caret: String = p.source.chars().skip(p.col as usize - 1).collect();
        if !caret.starts_with(place) {
            wrong += &format!("{text}\n  points to {caret:?}, not to {place:?}\n");
        }
        let long = p.message.ends_with('.') || p.message.chars().count() >= 200;
        assert!(p.line > 0 && !long, "{p}");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn slips_are_answered_with_what_was_meant() {
    for (text, hint) in [
        (
            "queues: [{name: q, FAIRSHARE: '[u1,1]'}]",
            "did you mean fairshare?",
        ),
        (
            "queues: [{name: low}]\nlimits: [{name: l, queues: lwo, jobs: 1}]",
            "did you mean \"low\"?",
        ),
        (
            "limits: [{name: l, per_hosts: all, jobs: 1}]",
            "did you mean per_host?",
        ),
        (
            "resources: [{name: a, slot_resource: yes}]",
            "did you mean slotresource?",
        ),
        (
            "hostmodels: [{name: epyc}]\ngeneral: {default_host_spec: epic}",
            "did you mean \"epyc\"?",
        ),
        (
            "queues: [{name: hi, priority: 9, preemption: {preempt: lo1}}, {name: lo}]",
            "did you mean \"lo\"?",
        ),
        (
            "queues: [{name: q, thresholds: {mem: '1/2'}}]",
            "more mem is better: write the higher value first",
        ),
        (
            "queues: [{name: q, backfill: some}]",
            "write no, yes, all or the number of jobs that have a reservation",
        ),
    ] {
        let problems = read(&with(text)).unwrap_err();
        let hints: Vec<&str> = problems.iter().filter_map(|p| p.hint.as_deref()).collect();
        assert_eq!(hints, [hint], "{text}\n{}", problems[0]);
    }
}

/// A sensor may report it: until then, a warning names it and what may have been meant.
#[test]
fn a_resource_that_nobody_knows_so_far_is_a_warning() {
    for (text, name, near) in [
        ("queues: [{name: q, thresholds: {r1n: 1}}]", "r1n", "r1m"),
        ("limits: [{name: l, resources: '[mme,1]'}]", "mme", "mem"),
        (
            "queues: [{name: q, res_req: 'select[mme>1]'}]",
            "mme",
            "mem",
        ),
    ] {
        let loaded = read(&with(text)).unwrap();
        let output: Vec<&str> = loaded.warnings.iter().map(|w| w.message.as_str()).collect();
        let words = [format!("{name:?}"), format!("did you mean {near:?}?")];
        let named = words.iter().all(|word| output[0].contains(word.as_str()));
        assert!(output.len() == 1 && named, "{text}: {output:?}");
    }
    let text = "queues: [{name: q, thresholds: {lic: 5/2, hot: 2/5, cold: 1}}]";
    let config = read(&with(text)).unwrap().config;
    let rises: Vec<bool> = config.queues[0]
        .thresholds
        .iter()
        .map(|t| t.increase)
        .collect();
    assert_eq!(rises, [false, true, false]);
}

#[test]
fn a_problem_inside_an_unquoted_value_points_into_the_file() {
    let text = "cluster: {administrators: u1}\nhosts: [{name: h1}]\nqueues: [{name: low}]\n\
                limits:\n- name: l\n  slots: [2 1:8:0-5:18:0] [5 5:18:61-1:7:59] # note\n";
    let p = &read(text).unwrap_err()[0];
    assert_eq!(
        p.to_string(),
        "cb.yaml:6:35: minute '61' is not in 0 to 59\n \
         6 |   slots: [2 1:8:0-5:18:0] [5 5:18:61-1:7:59] # note\n   \
         |                                   ^\n\
         hint: write hour[:minute]-hour[:minute], or day:hour:minute-day:hour:minute with days 0 \
         (Sunday) to 6"
    );
}

#[test]
fn a_part_that_cannot_be_read_raises_no_false_alarm() {
    // The declaration of fpga is lost with its line; uses of fpga are not reported.
    let text = "cluster: {administrators: u1}\nhosts: [{name: h1}]\nqueues:\n\
                - {name: q, thresholds: {fpga: 3}}\nlimits:\n\
                - {name: l, queues: r, resources: '[fpga,1]'}\nresources: a: b\n";
    let codes: Vec<&str> = read(text).unwrap_err().iter().map(|p| p.code).collect();
    assert_eq!(codes, ["syntax"]);
}

#[test]
fn floods_are_cut() {
    let time = std::time::Duration::from_secs(20);
    for (what, text) in [
        (
            "shares",
            format!(
                "queues: [{{name: q, fairshare: '{}'}}]",
                "[u1,1]".repeat(10_001)
            ),
        ),
        (
            "windows",
            format!(
                "queues: [{{name: q, run_window: '{}'}}]",
                "1-2 ".repeat(1000)
            ),
        ),
        (
            "brackets",
            format!("limits: [{{name: l, slots: '{}'}}]", "[1 1-2]".repeat(101)),
        ),
        (
            "resources",
            format!(
                "resources:\n{}",
                (0..1001)
                    .map(|i| format!("- name: a{i}\n"))
                    .collect::<String>()
            ),
        ),
        (
            "undefined queues",
            format!(
                "limits: [{{name: l, jobs: 1, queues: '{}'}}]",
                "zz ".repeat(20_000)
            ),
        ),
    ] {
        let begin = crate::text::cpu_time();
        let problems = read(&with(&text)).unwrap_err();
        assert!(problems.len() <= 101, "{what}");
        let took = crate::text::cpu_time() - begin;
        assert!(took < time, "{what} took {took:?}");
    }
}

mod texts {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(crate::text::cases())]
        #[test]
        fn any_value_is_read_or_refused(
            key in proptest::sample::select(vec![
                "limits: [{name: l, slots: '", "limits: [{name: l, resources: '",
                "limits: [{name: l, jobs: 1, users: '", "queues: [{name: q, fairshare: '",
                "queues: [{name: q, run_window: '", "queues: [{name: q, stop_cond: '",
                "queues: [{name: q, thresholds: {mem: '", "general: {hist_hours: '",
            ]),
            value in r"[\[\]a-u0-9,:/ ~.-]{0,40}",
        ) {
            let close = match key {
                k if k.starts_with("general") => "'}",
                k if k.contains('{') && k.ends_with("{mem: '") => "'}}]",
                _ => "'}]",
            };
            let text = with(&format!("{key}{value}{close}"));
            if let Err(problems) = load(text.as_bytes(), "cb.yaml", &os()) {
                for p in problems {
                    prop_assert!(p.line > 0 && !p.to_string().is_empty());
                    prop_assert!(p.code != "syntax", "{}", p);
                }
            }
        }
    }
}
