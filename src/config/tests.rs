//! The tables: what cb.yaml may say and what comes of it, and every refusal by name.

use super::*;

/// Users u1..u9 and root, groups staff and wheel.
fn os() -> OsNames<'static> {
    OsNames {
        user: &|n| n == "root" || n.len() == 2 && n.starts_with('u'),
        group: &|n| n == "staff" || n == "wheel",
    }
}

fn read(text: &str) -> Result<Loaded, Vec<Problem>> {
    load(text.as_bytes(), "cb.yaml", &os())
}

/// A text that is good but for what is added to it.
fn with(extra: &str) -> String {
    let mut out = String::new();
    for (section, text) in [
        ("cluster", "cluster: {name: c, administrators: [u1]}\n"),
        ("hosts", "hosts: [{names: 'h[1-4]'}]\n"),
        ("queues", "queues: [{name: q}]\n"),
    ] {
        if !extra.lines().any(|l| l.starts_with(&format!("{section}:"))) {
            out.push_str(text);
        }
    }
    out + extra
}

fn good(extra: &str) -> Config {
    match read(&with(extra)) {
        Ok(l) => l.config,
        Err(p) => panic!(
            "{extra}\n{}",
            p.iter().map(|p| format!("{p}\n")).collect::<String>()
        ),
    }
}

fn codes(text: &str) -> Vec<&'static str> {
    read(text)
        .err()
        .unwrap_or_default()
        .iter()
        .map(|p| p.code)
        .collect()
}

fn warnings(text: &str) -> Vec<&'static str> {
    read(text)
        .expect(text)
        .warnings
        .iter()
        .map(|p| p.code)
        .collect()
}

/// Rows of the bad-input matrix that concern cb.yaml, and every other kind of problem: text added
/// to a good file, and the one refusal it gets.
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
    // keys (11) and features that are not built
    ("queues: [{name: q, slotz: 4}]", "unknown-key"),
    ("queues: [{name: q, QJOB_LIMIT: 4}]", "unknown-key"),
    ("genral: {}", "unknown-key"),
    ("hosts: [{name: h1, on: yes}]", "unknown-key"),
    (
        "limits: [{name: l, slots: [2 1:8:0-5:18:0] [5 5:18:01-1:7:59]}]",
        "not-implemented",
    ),
    (
        "queues: [{name: q, fairshare: [g1,2] [g3,1]}]",
        "not-implemented",
    ),
    (
        "queues: [{name: q, run_window: '18:00-8:00', backfill: no}]",
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
    // flags, choices, times, sizes (14)
    ("queues: [{name: q, exclusive: maybe}]", "flag"),
    ("queues: [{name: q, exclusive: 1}]", "flag"),
    ("queues: [{name: q, interactive: sometimes}]", "choice"),
    ("cluster: {administrators: u1, cgroup: perhaps}", "choice"),
    ("cluster: {administrators: u1, log_level: loud}", "choice"),
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
    ("cluster: {administrators: u1, cgroup_root: a/b}", "path"),
    (
        "cluster: {administrators: u1, cgroup_root: /a/../b}",
        "path",
    ),
    (
        "cluster: {administrators: u1, poll_interval: 10}",
        "conflict",
    ),
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
        "queues: [{name: q, requeue_exit_values: 'EXCLUDE(3'}]",
        "number",
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
        "usergroups: [{name: g1, members: g2}, {name: g2, members: g3 u1}, {name: g3, members: all ~g1}]",
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

#[test]
fn bombs_are_refused() {
    let nested: String = (0..2000)
        .map(|i| format!("{}a:\n", " ".repeat(i)))
        .collect();
    let groups: String = (0..20_000)
        .map(|i| format!("- {{name: g{i}, members: g{}}}\n", i + 1))
        .collect();
    let wide: String = (0..40)
        .map(|i| format!("- {{name: g{i}a, members: all ~g{0}a ~g{0}b}}\n- {{name: g{i}b, members: all ~g{0}a ~g{0}b}}\n", i + 1))
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
        let began = std::time::Instant::now();
        let result = read(&text);
        let took = began.elapsed().as_millis();
        assert!(result.is_err(), "{what}");
        let most = if cfg!(debug_assertions) { 2000 } else { 50 };
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

    /// Whatever is written, loading ends, and each problem can be shown.
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

/// What cb.yaml is made of, whole and broken.
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
    let text = "cluster: {name: c, administrators: [u1]}\nhosts:\n- name: h1\nqueues:\n- name: q\n  slotz: 4\n";
    let p = &read(text).unwrap_err()[0];
    assert_eq!(
        p.to_string(),
        "cb.yaml:6:3: unknown key \"slotz\" in queue \"q\"\n 6 |   slotz: 4\n   |   ^\nhint: did you mean slots?"
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
    let text = "cluster: {nam: c}\nhosts:\n- {name: h1, slots: x}\n\tbad\n- {name: h2}\ngeneral: a: b\n\
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

#[test]
fn defaults_fill_what_is_not_said() {
    let c = good("");
    assert_eq!(c.cluster.lease_timeout_ms, 15_000);
    assert_eq!(c.general.default_queue, ["q"]);
    assert_eq!(c.general.max_jobid, 2_147_483_647);
    let q = c.queue("q").unwrap();
    assert_eq!((q.priority, q.slots, q.job_slots), (1, None, JobSlots::ANY));
    assert!(q.users.is_all() && q.hosts.contains("any"));
    let h = c.host("h3").unwrap();
    assert_eq!((h.slots, h.cpuf, h.server), (SlotSpec::Cores, 1.0, true));
    assert!(c.host("h5").is_none());
}

#[test]
fn words_keep_their_kind() {
    let c = good(
        "queues: [{name: no}, {name: 007}, {name: 'y'}]\nusers: [{name: default, max_slots: 9}]",
    );
    let names: Vec<&str> = c.queues.iter().map(|q| q.name.as_str()).collect();
    assert_eq!(names, ["no", "007", "y"]);
    let flags = [
        ("yes", true),
        ("Y", true),
        ("on", true),
        ("true", true),
        ("'yes'", true),
        ("no", false),
        ("N", false),
        ("off", false),
        ("false", false),
    ];
    for (word, want) in flags {
        let c = good(&format!("general: {{user_view_alljobs: {word}}}"));
        assert_eq!(c.general.user_view_alljobs, want, "{word}");
    }
}

#[test]
fn values_are_read_as_documented() {
    let c = good(
        "cluster:\n  administrators: u1 staff\n  lease_timeout: 3\n  poll_interval: 250ms\n  unit_for_limits: KB\n\
         general: {clean_period: 1h30m, default_queue: low high, max_pend_jobs: unlimited, iso_timeout: 60}\n\
         queues:\n\
         - {name: high, job_slots: 2 4 8, run_limit: '30 1:30', mem_limit: '512 2G', requeue_exit_values: '30 40-42 EXCLUDE(20 21)'}\n\
         - {name: low, job_slots: 8, run_limit: 90s, requeue_exit_values: all ~9, proc_slots: 0.5, interactive: only, nice: 19}\n",
    );
    assert_eq!(
        (c.cluster.lease_timeout_ms, c.cluster.poll_interval_ms),
        (3000, 250)
    );
    assert_eq!(c.general.clean_period_ms, 5_400_000);
    assert_eq!(c.general.default_queue, ["low", "high"]);
    let (high, low) = (&c.queues[0], &c.queues[1]);
    assert_eq!(
        high.job_slots,
        JobSlots {
            min: 2,
            default: 4,
            max: Some(8)
        }
    );
    assert_eq!(
        low.job_slots,
        JobSlots {
            min: 1,
            default: 1,
            max: Some(8)
        }
    );
    assert_eq!(
        high.run_limit_ms,
        LimitPair {
            default: Some(1_800_000),
            max: Some(5_400_000)
        }
    );
    assert_eq!(
        low.run_limit_ms,
        LimitPair {
            default: None,
            max: Some(90_000)
        }
    );
    assert_eq!(
        high.mem_limit,
        LimitPair {
            default: Some(512 << 10),
            max: Some(2 << 30)
        }
    );
    assert_eq!(high.requeue.rule(41), RequeueRule::Requeue);
    assert_eq!(high.requeue.rule(21), RequeueRule::RequeueElsewhere);
    assert_eq!(high.requeue.rule(43), RequeueRule::Keep);
    assert_eq!(
        (low.requeue.rule(9), low.requeue.rule(255)),
        (RequeueRule::Keep, RequeueRule::Requeue)
    );
    assert_eq!(
        (low.proc_slots_milli, low.interactive, low.nice),
        (Some(500), Interactive::Only, 19)
    );
}

#[test]
fn a_limit_is_resolved_against_its_maximum() {
    let pair = LimitPair {
        default: Some(5),
        max: Some(9),
    };
    assert_eq!(pair.resolve(None), Ok(Some(5)));
    assert_eq!(pair.resolve(Some(9)), Ok(Some(9)));
    assert_eq!(pair.resolve(Some(10)), Err(9));
    assert_eq!(
        LimitPair {
            default: None,
            max: Some(9)
        }
        .resolve(None),
        Ok(Some(9))
    );
}

#[test]
fn host_beats_model_beats_default() {
    let c = good(
        "hostmodels: [{name: epyc, cpuf: 2.5}, {name: old}]\n\
         hosts:\n- {name: h2, model: epyc}\n- {name: h3, model: epyc, cpuf: 3, slots: '!', tags: []}\n\
         - {name: h4, resources: {lic: 7, site: 'b'}}\n\
         - {name: default, slots: 4, tags: fs, cpuf: 1.5, resources: {lic: 2, rack: r1}}\n",
    );
    let [h2, h3, h4] = ["h2", "h3", "h4"].map(|n| c.host(n).unwrap());
    assert_eq!((h2.cpuf, h3.cpuf, h4.cpuf), (2.5, 3.0, 1.5));
    assert_eq!((h2.slots, h3.slots), (SlotSpec::Count(4), SlotSpec::Cores));
    assert_eq!((h2.tags.len(), h3.tags.len()), (1, 0));
    assert_eq!(h4.resources["lic"], ResourceValue::Number(7.0));
    assert_eq!(h4.resources["rack"], ResourceValue::Text("r1".into()));
    assert_eq!(h2.resources["lic"], ResourceValue::Number(2.0));
}

#[test]
fn an_open_cluster_takes_any_host() {
    let c = good(
        "hosts: [{name: default, open: yes, slots: 2}]\nqueues: [{name: q, hosts: x1 others}]",
    );
    assert_eq!(c.host("anything").unwrap().slots, SlotSpec::Count(2));
    assert!(c.may_lead("anything"));
}

#[test]
fn masters_or_the_first_two_hosts_may_lead() {
    let c = good("");
    assert_eq!(
        ["h1", "h2", "h3"].map(|h| c.may_lead(h)),
        [true, true, false]
    );
    let c = good("cluster: {administrators: u1, masters: 'h[3-4]'}");
    assert_eq!(
        ["h1", "h3", "h4"].map(|h| c.may_lead(h)),
        [false, true, true]
    );
}

#[test]
fn host_groups_nest_and_exclude() {
    let c = good(
        "hostgroups:\n- {name: front, members: 'all ~back'}\n- {name: back, members: 'h[3-4]'}\n\
         - {name: both, members: front h3}\n- {name: nobody, members: none}\n",
    );
    let of = |g: &str| {
        c.expand(&c.hosts_named(g).unwrap())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(of("front"), "h1 h2");
    assert_eq!(of("both"), "h1 h2 h3");
    assert_eq!(of("nobody"), "");
    assert_eq!(of("all"), "h1 h2 h3 h4");
    assert_eq!(of("h2"), "h2");
    assert!(c.hosts_named("h9").is_none());
    assert_eq!(c.groups_of_host("h3").collect::<Vec<_>>(), ["back", "both"]);
}

#[test]
fn queue_hosts_have_preferences() {
    let c = good(
        "hostgroups: [{name: g, members: h2 h3}]\n\
         queues: [{name: q, hosts: h1+2 g others+1 ~h3}, {name: r, hosts: g}]",
    );
    let q = &c.queue("q").unwrap().hosts;
    assert_eq!(
        ["h1", "h2", "h3", "h4"].map(|h| q.preference(h)),
        [Some(2), Some(0), None, Some(1)]
    );
    let r = &c.queue("r").unwrap().hosts;
    assert_eq!(["h1", "h2"].map(|h| r.contains(h)), [false, true]);
}

#[test]
fn user_groups_nest_and_exclude_and_know_the_system() {
    let c = good(
        "usergroups:\n- {name: g1, members: u1 g2 staff, administrator: u3}\n- {name: g2, members: u4}\n\
         - {name: g3, members: '@system', administrator: [u5, g2]}\n\
         queues: [{name: q, users: g1 ~u4}, {name: r, users: all ~g1, administrators: u7}]\n",
    );
    let q = c.queue("q").unwrap();
    let staff = ["staff".to_string()];
    assert!(c.queue_accepts(q, "u1", &[]) && c.queue_accepts(q, "u9", &staff));
    assert!(!c.queue_accepts(q, "u4", &[]) && !c.queue_accepts(q, "u9", &[]));
    let r = c.queue("r").unwrap();
    assert!(c.queue_accepts(r, "u9", &[]) && !c.queue_accepts(r, "u4", &[]));
    assert!(c.is_queue_admin("u7", &[], "r") && !c.is_queue_admin("u7", &[], "q"));
    assert!(c.is_queue_admin("u1", &[], "q") && c.is_cluster_admin("root", &[]));
    assert!(c.is_group_admin_of(("u3", &[]), ("u4", &[])));
    assert!(!c.is_group_admin_of(("u3", &[]), ("u8", &[])));
    assert!(c.is_group_admin_of(("u4", &[]), ("u8", &[])));
    assert_eq!(
        c.default_queue_for("u4", &[]).map(|q| q.name.as_str()),
        None
    );
    assert_eq!(
        c.default_queue_for("u1", &[]).map(|q| q.name.as_str()),
        Some("q")
    );
}

#[test]
fn user_limits_are_own_or_default_and_totals_of_groups() {
    let c = good(
        "usergroups: [{name: g, members: u1 u2}]\n\
         users:\n- {name: default, max_slots: 5}\n- {name: u1, max_slots: 8, max_pend_jobs: 100}\n\
         - {name: g@, max_slots: 6}\n- {name: g, max_slots: 20}\n- {name: staff, max_slots: 30}\n",
    );
    let u1 = c.user_limits("u1", &[]);
    assert_eq!(
        (u1.max_slots, u1.max_pend_jobs, u1.totals),
        (Some(6), Some(100), vec![3])
    );
    let u9 = c.user_limits("u9", &["staff".into()]);
    assert_eq!(
        (u9.max_slots, u9.max_pend_jobs, u9.totals),
        (Some(5), None, vec![4])
    );
}

#[test]
fn the_digest_follows_the_meaning_only() {
    let one = good("queues: [{name: q, slots: 4}]").digest();
    let same = good("# note\nqueues:\n- name: q\n  slots: '4'\n").digest();
    let other = good("queues: [{name: q, slots: 5}]").digest();
    assert_eq!(one, same);
    assert_ne!(one, other);
    assert_eq!(one.len(), 64);
}

#[test]
fn the_starter_loads_without_a_word() {
    let loaded = read(&minimal("dev", "u1")).unwrap();
    assert_eq!(loaded.warnings, []);
    assert!(loaded.config.hosts.open);
    let hosts = ["h1".to_string(), "h2".to_string(), "gw".to_string()];
    let settings = ["lease_timeout: 3".to_string()];
    let text = starter(&Starter {
        cluster: "dev",
        administrator: "u1",
        hosts: &hosts,
        slots: Some(64),
        masters: &hosts[..2],
        settings: &settings,
    });
    let loaded = read(&text).unwrap();
    assert_eq!(loaded.warnings, []);
    assert_eq!(
        loaded.config.host_names().collect::<Vec<_>>(),
        ["h1", "h2", "gw"]
    );
    assert_eq!(loaded.config.host("gw").unwrap().slots, SlotSpec::Count(64));
    assert_eq!(loaded.config.cluster.masters, ["h1", "h2"]);
}

#[test]
fn the_shipped_example_loads_without_a_word() {
    let text = include_str!("../../etc/cb.yaml");
    let loaded = load(text.as_bytes(), "etc/cb.yaml", &OsNames::ANY)
        .unwrap_or_else(|p| panic!("{}", p.iter().map(|p| format!("{p}\n")).collect::<String>()));
    assert_eq!(loaded.warnings, []);
}
