//! Every refusal and warning, by name, and how they are shown.

use super::super::*;
use super::{codes, os, read, warnings, with};

/// Rows of the bad-input matrix that concern cb.yaml, and every other kind of problem: text added
/// to a valid file, and the single refusal.
const REFUSED: &[(&str, &str)] = &[
    // yaml itself (rows 1-27; sizes are in `bombs_are_refused`)
    ("general: &a {clean_period: 5}", "anchor"),
    ("general: *a", "alias"),
    ("users: &a [*a]", "anchor alias"),
    ("general: !!python/object:x {clean_period: 5}", "tag"),
    ("hosts: [{name: h1, slots: !}]", "tag"),
    ("general: {<<: {clean_period: 5}}", "merge-key"),
    (
        "general: {clean_period: 5, clean_period: 6}",
        "duplicate-key",
    ),
    ("users: []\nusers: []", "duplicate-key"),
    (
        "hosts: [{name: h1, resources: {a: 1, a: 2}}]",
        "duplicate-key",
    ),
    ("general:\n\tclean_period: 5", "tab"),
    ("general: {default_project: \"a\\0b\"}", "nul"),
    ("general: {? [a, b] : 1}", "key"),
    ("---\ngeneral: {}", "documents"),
    ("general: {clean_period: 5", "syntax"),
    ("general: 'clean", "syntax"),
    ("general: clean_period: 5", "syntax"),
    // keys (11) and features that are not implemented
    ("queues: [{name: q, slotz: 4}]", "unknown-key"),
    ("queues: [{name: q, QJOB_LIMIT: 4}]", "unknown-key"),
    ("genral: {}", "unknown-key"),
    ("hosts: [{name: h1, on: yes}]", "unknown-key"),
    (
        "queues: [{name: q, capacity: 3, start_timeout: 4}]",
        "not-implemented not-implemented",
    ),
    ("usergroups: [{name: g, members: '!'}]", "not-implemented"),
    ("hostgroups: [{name: g, members: '!'}]", "not-implemented"),
    ("queues: [{name: q, run_limit: 10/h1}]", "not-implemented"),
    // numbers (12, 13)
    ("queues: [{name: q, slots: 010}]", "number"),
    ("queues: [{name: q, slots: -1}]", "range"),
    ("queues: [{name: q, slots: 4294967296}]", "range"),
    (
        "queues: [{name: q, slots: 99999999999999999999999}]",
        "range",
    ),
    ("queues: [{name: q, slots: 1e3}]", "number"),
    ("queues: [{name: q, slots: .nan}]", "number"),
    ("queues: [{name: q, slots: 0x10}]", "number"),
    ("queues: [{name: q, slots: 1.5}]", "number"),
    ("queues: [{name: q, slots: yes}]", "number"),
    ("queues: [{name: q, slots: ''}]", "number"),
    ("queues: [{name: q, slots: }]", "no-value"),
    ("queues: [{name: q, slots: {a: 1}}]", "type"),
    ("queues: [{name: q, priority: 0}]", "range"),
    ("queues: [{name: q, nice: 20}]", "range"),
    ("queues: [{name: q, proc_slots: -1}]", "range"),
    ("hosts: [{name: h1, slots: many}]", "number"),
    ("hosts: [{name: h1, slots: 010}]", "number"),
    ("hosts: [{name: h1, cpuf: 0}]", "range"),
    ("hosts: [{name: h1, cpuf: .inf}]", "range"),
    ("hosts: [{name: h1, resources: {lic: .nan}}]", "number"),
    ("hosts: [{name: h1, resources: {lic: 1e3}}]", "number"),
    ("hosts: [{name: h1, resources: {lic: 010}}]", "number"),
    ("hosts: [{name: h1, resources: {lic: yes}}]", "number"),
    ("hosts: [{name: h1, resources: {lic: [1]}}]", "type"),
    ("hosts: [{name: h1, resources: [lic]}]", "type"),
    // flags, choices, times, sizes (18)
    ("queues: [{name: q, exclusive: maybe}]", "flag"),
    ("queues: [{name: q, exclusive: 1}]", "flag"),
    ("queues: [{name: q, interactive: sometimes}]", "choice"),
    ("cluster: {administrators: u1, cgroup: perhaps}", "choice"),
    (
        "cluster: {administrators: u1, unit_for_limits: XB}",
        "choice",
    ),
    ("cluster: {administrators: u1, lease_timeout: 2}", "range"),
    ("cluster: {administrators: u1, lease_timeout: -5}", "time"),
    (
        "cluster: {administrators: u1, lease_timeout: 12:30:45}",
        "time",
    ),
    ("cluster: {administrators: u1, poll_interval: 5ms}", "range"),
    (
        "cluster: {administrators: u1, poll_interval: 10}",
        "conflict",
    ),
    ("cluster: {administrators: u1, hints: perhaps}", "choice"),
    ("cluster: {administrators: u1, hint_port: 0}", "range"),
    ("cluster: {administrators: u1, hint_port: 9-8}", "range"),
    ("cluster: {administrators: u1, hint_port: 70000}", "range"),
    ("general: {iso_timeout: 20}", "conflict"),
    ("general: {max_jobid: 10}", "range"),
    ("queues: [{name: q, run_limit: 1:60}]", "time"),
    ("queues: [{name: q, run_limit: 0}]", "time"),
    ("queues: [{name: q, run_limit: 10 5}]", "conflict"),
    ("queues: [{name: q, run_limit: 1 2 3}]", "number"),
    ("queues: [{name: q, mem_limit: 12Q}]", "size"),
    ("queues: [{name: q, mem_limit: 2G 1G}]", "conflict"),
    ("queues: [{name: q, process_limit: 0}]", "range"),
    ("queues: [{name: q, job_slots: 4 2}]", "conflict"),
    ("queues: [{name: q, job_slots: 1 2 3 4}]", "number"),
    ("queues: [{name: q, job_slots: 0}]", "range"),
    ("queues: [{name: q, job_slots: 4 8, slots: 2}]", "conflict"),
    ("queues: [{name: q, requeue_exit_values: 0}]", "number"),
    ("queues: [{name: q, requeue_exit_values: 256}]", "number"),
    ("queues: [{name: q, requeue_exit_values: 9-3}]", "number"),
    (
        "queues: [{name: q, requeue_exit_values: '30 EXCLUDE(3'}]",
        "number",
    ),
    ("queues: [{name: q, retries: 1001}]", "range"),
    ("queues: [{name: q, warn_time: 25h}]", "range"),
    (
        "queues: [{name: q, warn_time: 5m, warn_signal: KILL}]",
        "choice",
    ),
    ("queues: [{name: q, pre_exec: prolog}]", "program"),
    (
        "queues: [{name: q, post_exec: '/bin/sh -c \"id\"'}]",
        "program",
    ),
    ("queues: [{name: q, pre_exec: ''}]", "program"),
    (
        "queues: [{name: q, pre_exec: /a, pre_post_exec_user: 'a b'}]",
        "name",
    ),
    ("general: {container_runtime: dockr}", "choice"),
    ("queues: [{name: q, job_starter: ''}]", "program"),
    (
        "queues: [{name: q, job_controls: {suspend: SIGNOPE}}]",
        "choice",
    ),
    (
        "queues: [{name: q, job_controls: {resume: CHKPNT}}]",
        "choice",
    ),
    (
        "queues: [{name: q, job_controls: {resume: '/a; b'}}]",
        "program",
    ),
    (
        "queues: [{name: q, job_controls: {kill: INT}}]",
        "unknown-key",
    ),
    ("general: {pre_exec_timeout: 0}", "range"),
    ("general: {post_exec_timeout: 25h}", "range"),
    ("general: {pre_exec_retries: 1001}", "range"),
    ("general: {pre_exec_retry_action: kill}", "choice"),
    // resource requirements (42, 43)
    ("queues: [{name: q, res_req: 'select[mem>'}]", "res-req"),
    ("queues: [{name: q, res_req: 'selct[mem>1]'}]", "res-req"),
    ("queues: [{name: q, res_req: 'rusage[mem=-1]'}]", "res-req"),
    ("queues: [{name: q, res_req: 'span[hosts=0]'}]", "res-req"),
    (
        "queues: [{name: q, res_req: 'filter[far]'}]",
        "not-implemented",
    ),
    (
        "queues: [{name: q, res_req: '2{mem>1} 1{mem>2}'}]",
        "not-implemented",
    ),
    // names (28, 29, 32)
    ("queues: [{name: -rf}]", "name"),
    ("queues: [{name: ../x}]", "name"),
    ("queues: [{name: 'a b'}]", "name"),
    (
        "queues: [{name: a234567890b234567890c234567890d2345678901}]",
        "name",
    ),
    ("queues: [{name: lost_and_found}]", "reserved-name"),
    ("queues: [{priority: 3}]", "missing-key"),
    ("queues: [{name: q}, {name: q}]", "duplicate"),
    ("queues: [{name: q, users: ['CORP\\domain staff']}]", "name"),
    ("usergroups: [{name: g, members: [u1, 'u2 staff']}]", "name"),
    (
        "limits: [{name: l, projects: [a, 'b c'], slots: 1}]",
        "name",
    ),
    ("queues: [{name: q, hosts: h1 h9}]", "undefined"),
    ("queues: [{name: q, hosts: h1+2 none}]", "hosts"),
    ("queues: [{name: q, hosts: ~h1}]", "hosts"),
    ("queues: [{name: q, hosts: h1+99999999}]", "hosts"),
    ("queues: [{name: q, users: ~u1}]", "users"),
    ("queues: [{name: q, users: 'a;b'}]", "users"),
    ("queues: [{name: q, administrators: all}]", "administrator"),
    ("queues: []", "missing-section"),
    ("queues:", "missing-section"),
    ("queues: q", "type"),
    ("cluster:", "missing-section"),
    ("cluster: {name: c d, administrators: u1}", "name"),
    ("cluster: {administrators: u1, masters: h1 h1}", "duplicate"),
    ("cluster: {administrators: u1 ~u2}", "administrator"),
    ("general: {default_queue: r}", "undefined"),
    ("general: {default_queue: q q}", "duplicate"),
    ("hosts: [{names: 'n[1-1000000000]'}]", "range"),
    (
        "hosts: [{names: 'n[1-60000]'}, {names: 'm[1-60000]'}]",
        "range",
    ),
    ("hosts: [{names: 'n[5-1]'}]", "name"),
    ("hosts: [{name: h1}, {names: 'h[1-2]'}]", "duplicate"),
    ("hosts: [{name: h1, names: h2}]", "conflict"),
    ("hosts: [{name: 'h[1-2]'}]", "name"),
    ("hosts: [{slots: 4}]", "missing-key"),
    ("hosts: [{name: all}]", "reserved-name"),
    ("hosts: [{name: h1, open: yes}]", "misplaced-key"),
    ("hosts: [{name: h1, tags: [fs, fs]}]", "duplicate"),
    ("hosts: [{name: h1, tags: mem}]", "reserved-name"),
    ("hosts: [{name: h1, resources: {r15s: 1}}]", "reserved-name"),
    ("hosts: [{name: h1, resources: {'a[': 1}}]", "name"),
    (
        "hosts: [{name: h1, resources: {a: 1}}, {name: h2, resources: {a: '1'}}]",
        "conflict",
    ),
    (
        "hosts: [{name: h1, tags: a}, {name: h2, resources: {a: 1}}]",
        "conflict",
    ),
    (
        "hosttypes: [LINUX]\nhosts: [{name: h1, type: LINUZ}]",
        "undefined",
    ),
    (
        "hostmodels: [{name: epyc}]\nhosts: [{name: h1, model: epyk}]",
        "undefined",
    ),
    ("hosttypes: [A, A]", "duplicate"),
    ("hosttypes: [{a: 1}]", "type"),
    ("hostmodels: [{name: a}, {name: a}]", "duplicate"),
    ("hostgroups: [{name: g, members: h1 h7}]", "undefined"),
    ("hostgroups: [{name: g}]", "missing-key"),
    ("hostgroups: [{members: h1}]", "missing-key"),
    ("hostgroups: [{name: all, members: h1}]", "reserved-name"),
    ("hostgroups: [{name: h1, members: h2}]", "duplicate"),
    (
        "hostgroups: [{name: g, members: h1}, {name: g, members: h2}]",
        "duplicate",
    ),
    ("hostgroups: [{name: g, members: h1+2}]", "hosts"),
    ("hostgroups: [{name: g, members: others}]", "hosts"),
    ("hostgroups: [{name: g, members: g}]", "cycle"),
    (
        "hostgroups: [{name: g1, members: g2}, {name: g2, members: h1 g1}]",
        "cycle",
    ),
    (
        "usergroups:\n- {name: g1, members: g2}\n- {name: g2, members: g3 u1}\n\
         - {name: g3, members: all ~g1}",
        "cycle",
    ),
    ("usergroups: [{name: g}]", "missing-key"),
    (
        "usergroups: [{name: g, members: u1}, {name: g, members: u2}]",
        "duplicate",
    ),
    (
        "usergroups: [{name: default, members: u1}]",
        "reserved-name",
    ),
    (
        "usergroups: [{name: g, members: u1, administrator: all}]",
        "administrator",
    ),
    ("users: [{max_slots: 4}]", "missing-key"),
    ("users: [{name: u1, max_slots: 4}, {name: u1}]", "duplicate"),
    ("users: [{name: 'u 1', max_slots: 4}]", "name"),
    ("users: [{name: staff, max_slots: 4}]", "not-implemented"),
    ("users: {u1: 4}", "type"),
    ("general: [1]", "type"),
    ("queues: [{name: [a]}]", "type"),
    ("queues: [3]", "type"),
    ("queues: [{name: q, hosts: [h1, [h2]]}]", "type"),
    ("queues: [{name: q, users: ~}]", "no-value"),
    ("queues: [{name: q, users: [u1, ~]}]", "no-value"),
];

#[test]
fn every_problem_has_its_refusal() {
    for (text, want) in REFUSED {
        let got = codes(&with(text));
        assert_eq!(got.join(" "), *want, "{text}");
    }
}

#[test]
fn every_refusal_says_where_and_mostly_what_to_do() {
    let mut hints = 0;
    for (text, _) in REFUSED {
        for p in read(&with(text)).unwrap_err() {
            assert!(p.line > 0 && p.col > 0, "{text}: {p}");
            assert!(!p.source.is_empty(), "{text}: {p}");
            assert!(
                p.col as usize <= p.source.chars().count() + 1,
                "{text}: {p}"
            );
            assert!(!p.message.ends_with('.'), "{p}");
            assert!(p.message.chars().count() < 200, "{p}");
            hints += usize::from(p.hint.is_some());
        }
    }
    assert!(hints * 3 > REFUSED.len() * 2, "only {hints} hints");
}

#[test]
fn whole_files_that_are_no_configuration_are_refused() {
    for (bytes, want) in [
        (&b""[..], "empty"),
        (b"# nothing\n", "empty"),
        (b"---\n", "empty"),
        (b"just text\n", "type"),
        (b"- a\n", "type"),
        (b"a: caf\xe9", "encoding"),
        (b"\xff\xfec\0l\0", "encoding"),
        (b"cluster: {name: a\0b}", "nul"),
        (b"cluster: {name: \x1b[31m}", "control"),
    ] {
        let p = load(bytes, "cb.yaml", &os()).unwrap_err();
        assert_eq!(p[0].code, want, "{bytes:?}");
        assert_eq!(p.len(), 1, "{p:?}");
    }
}

/// `CORP\domain users` is not `CORP\domain` and the system's group users.
#[test]
fn a_name_with_blanks_is_not_read_as_several() {
    let os = OsNames {
        user: &|_| false,
        group: &|n| n == "CORP\\domain users" || n == "users",
    };
    let problem = |users: &str| {
        let text = with(&format!("queues:\n- name: q\n  users: {users}\n"));
        let loaded = load(text.as_bytes(), "cb.yaml", &os);
        loaded
            .map(|_| ())
            .map_err(|all| (all[0].line, all[0].message.clone()))
    };
    let (line, said) = problem("'ann CORP\\domain users'").unwrap_err();
    assert_eq!(
        said,
        "\"CORP\\\\domain users\" would be read as several names"
    );
    let (in_list, said) = problem("['CORP\\domain users']").unwrap_err();
    assert_eq!(
        said,
        "the entry \"CORP\\\\domain users\" would be read as 2 names"
    );
    assert_eq!((line, in_list), (5, 5));
    for good in [
        "'CORP\\ann users'",
        "[CORP\\ann, users]",
        "corp\\domain^users",
        "müller",
    ] {
        assert_eq!(problem(good), Ok(()), "{good}");
    }
}

#[test]
fn bombs_are_refused() {
    let nested: String = (0..2000)
        .map(|i| format!("{}a:\n", " ".repeat(i)))
        .collect();
    let groups: String = (0..20_000)
        .map(|i| format!("- {{name: g{i}, members: g{}}}\n", i + 1))
        .collect();
    let wide: String = (0..40)
        .map(|i| {
            format!(
                "- {{name: g{i}a, members: all ~g{0}a ~g{0}b}}\n\
             - {{name: g{i}b, members: all ~g{0}a ~g{0}b}}\n",
                i + 1
            )
        })
        .collect();
    for (what, text) in [
        (
            "aliases",
            format!(
                "general: &a {}\nusers: [{}]",
                "x".repeat(100_000),
                "*a,".repeat(20_000)
            ),
        ),
        ("flow maps", "{a: ".repeat(20_000)),
        ("flow lists", "[".repeat(100_000)),
        ("block maps", nested),
        ("size", "x".repeat(20_000_000)),
        ("keys", (0..500_000).map(|i| format!("{i}: 1\n")).collect()),
        (
            "unknown keys",
            (0..50_000).map(|i| format!("k{i}: 1\n")).collect(),
        ),
        (
            "undefined hosts",
            with("queues: [{name: q, hosts: 'x[1-100000]'}]\nhosts: [{names: 'n[1-100000]'}]"),
        ),
        ("long chain", with(&format!("usergroups:\n{groups}"))),
        ("wide groups", with(&format!("usergroups:\n{wide}"))),
    ] {
        let most = if cfg!(debug_assertions) { 3000 } else { 100 };
        let began = crate::text::cpu_time();
        assert!(read(&text).is_err(), "{what}");
        let took = (crate::text::cpu_time() - began).as_millis();
        assert!(took < most, "{what} took {took} ms");
    }
}

#[test]
fn byte_order_mark_and_carriage_returns_change_nothing() {
    let text = with("queues: [{name: q, slots: 3, bad: 1}]");
    let dos = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    assert_eq!(read(&dos), read(&text));
}

proptest::proptest! {
    #![proptest_config(crate::text::cases())]

    /// Any text is loaded to its end, and each problem can be shown.
    #[test]
    fn nothing_written_makes_it_panic(
        parts in proptest::collection::vec(0..PIECES.len(), 0..40),
        cut in 0usize..200,
    ) {
        let mut text: String = parts.into_iter().map(|i| PIECES[i]).collect();
        text.truncate(text.floor_char_boundary(text.len().saturating_sub(cut)));
        if let Err(problems) = read(&text) {
            proptest::prop_assert!(!problems.is_empty());
            for p in problems {
                proptest::prop_assert!(!p.to_string().is_empty());
            }
        }
    }
}

/// Pieces of cb.yaml, whole and broken.
const PIECES: &[&str] = &[
    "cluster:\n",
    "  name: c\n",
    "  administrators: [u1]\n",
    "queues:\n",
    "- name: q\n",
    "  slots: ",
    "[2 1:8:0] [5]",
    "'",
    "\"",
    "[",
    "]",
    "{",
    "}",
    ",",
    ": ",
    "- ",
    "\n",
    "\t",
    "  ",
    "#",
    "| \n",
    "> ",
    "~",
    "!",
    "*",
    "&",
    "h1+2",
    "h[1-3]",
    "~u1",
    "all",
    "名",
    "\u{202e}",
    "\\",
    "010",
    "9999999999",
    "hosts:\n",
    "  - {name: h1, slots: ",
    "usergroups: [{name: g, members: g}]\n",
    "hostgroups:\n- name: g\n  members: ",
    "g",
    "general: {",
    "default_queue: q",
    "}\n",
    "---\n",
    "...\n",
    "%",
    "? ",
    "<<: ",
    "\r\n",
    "EXCLUDE(",
    "  requeue_exit_values: ",
    "  run_limit: ",
    "1:30",
    "/h1",
    "\u{85}",
    "\u{feff}",
];

#[test]
fn a_problem_shows_line_caret_and_hint() {
    let text = "cluster: {name: c, administrators: [u1]}\nhosts:\n- name: h1\n\
                queues:\n- name: q\n  slotz: 4\n";
    let p = &read(text).unwrap_err()[0];
    assert_eq!(
        p.to_string(),
        "cb.yaml:6:3: unknown key \"slotz\" in queue \"q\"\n \
         6 |   slotz: 4\n   |   ^\nhint: did you mean slots?"
    );
}

#[test]
fn a_cycle_is_named() {
    let text = with("hostgroups: [{name: g1, members: g2}, {name: g2, members: h1 g1}]");
    let p = &read(&text).unwrap_err()[0];
    assert_eq!(
        p.message,
        "host group \"g1\" is a member of itself: g1 -> g2 -> g1"
    );
}

#[test]
fn what_steers_a_terminal_is_shown_escaped() {
    let text = with("queues: [{name: q, users: \"a\u{202e}b \\e[31m\"}]");
    let shown = read(&text).unwrap_err()[0].to_string();
    assert!(
        shown.contains("\\u{202e}") && !shown.contains('\u{202e}'),
        "{shown}"
    );
    assert!(!shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn long_lines_are_cut_around_the_caret() {
    let text = with(&format!(
        "queues: [{{name: q, description: {}, slots: x, nice: 1}}]",
        "y".repeat(600)
    ));
    let shown = read(&text).unwrap_err().last().unwrap().to_string();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines.iter().all(|l| l.len() < 130), "{shown}");
    let caret = lines[2].find('^').unwrap();
    assert_eq!(&lines[1][caret..=caret], "x", "{shown}");
}

#[test]
fn all_problems_come_in_one_run_in_order() {
    let text = "cluster: {nam: c}\nhosts:\n- {name: h1, slots: x}\n\tbad\n\
                - {name: h2}\ngeneral: a: b\n\
                queues:\n- {name: q, slots: 010, hosts: h7}\n- {name: q, priority: 0}\n";
    let got: Vec<(u32, &str)> = read(text)
        .unwrap_err()
        .iter()
        .map(|p| (p.line, p.code))
        .collect();
    assert_eq!(
        got,
        [
            (1, "unknown-key"),
            (4, "tab"),
            (6, "syntax"),
            (8, "number"),
            (9, "duplicate"),
            (9, "range")
        ]
    );
}

#[test]
fn a_flood_of_problems_is_cut_and_says_so() {
    let keys: String = (0..500).map(|i| format!("  k{i}: 1\n")).collect();
    let problems = read(&with(&format!("general:\n{keys}"))).unwrap_err();
    assert_eq!(problems.len(), 101);
    let last = problems.last().unwrap().to_string();
    assert_eq!(
        last,
        "cb.yaml: more than 100 problems: the rest are not shown"
    );
}

#[test]
fn problems_inside_a_value_point_into_it() {
    let at = |text: &str| {
        let p = &read(&with(text)).unwrap_err()[0];
        p.source
            .chars()
            .skip(p.col as usize - 1)
            .collect::<String>()
    };
    assert_eq!(at("queues: [{name: q, hosts: h1 h99+1 h2}]"), "h99+1 h2}]");
    assert_eq!(at("queues: [{name: q, hosts: [h1, 'h99']}]"), "h99']}]");
    assert_eq!(at("queues: [{name: q, run_limit: '10 1:75'}]"), "75'}]");
    assert_eq!(at("queues: [{name: q, hosts: 'h10 h1'}]"), "h10 h1'}]");
    assert_eq!(at("queues: [{name: q, users: \"u1 u;2\"}]"), ";2\"}]");
}

#[test]
fn names_of_the_system_that_are_unknown_are_warnings() {
    for (extra, want) in [
        ("cluster: {administrators: [nobody_knows]}", "unknown-user"),
        ("cluster: {administrators: []}", "no-administrator"),
        ("cluster: {name: c}", "no-administrator"),
        ("queues: [{name: q, users: zoe staff u1}]", "unknown-user"),
        ("users: [{name: zoe, max_slots: 3}]", "unknown-user"),
        ("usergroups: [{name: u1, members: u2}]", "hides-user"),
        ("queues: [{name: q, slots: 0}]", "no-start"),
        ("queues: [{name: q, users: none}]", "no-start"),
        ("queues: [{name: q, hosts: none}]", "no-start"),
        ("queues: [{name: q, slots: 4, user_slots: 5}]", "no-effect"),
        (
            "cluster: {administrators: u1, masters: h1 m1}",
            "unlisted-master",
        ),
        ("hosts: []", "no-hosts"),
    ] {
        assert_eq!(warnings(&with(extra)).join(" "), want, "{extra}");
    }
    assert_eq!(warnings(&with("")), [""; 0]);
}
