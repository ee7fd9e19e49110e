//! Tests what edits of a text leave unchanged, and what they refuse.

use super::*;

fn host(name: &str, words: &str) -> NewHost {
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    NewHost::parse(name, &words).unwrap()
}

/// The text after a host was added.
fn added(text: &str, name: &str, words: &str) -> String {
    add_host(text, &host(name, words)).unwrap().text
}

fn removed(text: &str, name: &str) -> String {
    remove_host(text, name).unwrap().text
}

#[test]
fn a_host_comes_after_the_last_one_of_a_block_list() {
    let text = "\
# Head.
hosts:
# What others do not say.
- {name: default, slots: '!'}   # cores
- names: 'node[01-04]'
  model: epyc
  # The rack.
  resources: {site: a1,
    licenses: 4}

# Groups of hosts.
hostgroups:
- {name: small, members: 'node[01-02]'}
";
    let after = added(text, "big01", "slots=8 type=X86_64 tags=fs,gpu");
    let line = "- {name: big01, slots: 8, type: X86_64, tags: [fs, gpu]}\n";
    let want = text.replace("    licenses: 4}\n", &format!("    licenses: 4}}\n{line}"));
    assert_eq!(after, want);
    assert_eq!(removed(&after, "big01"), text, "and back");
}

#[test]
fn indentation_comments_and_a_missing_last_line_end_are_kept() {
    let text = "hosts:\n  - name: a\n    slots: 2\n    #unit: r1\n  # End.";
    let after = added(text, "b", "");
    assert_eq!(
        after,
        "hosts:\n  - name: a\n    slots: 2\n    #unit: r1\n  - {name: b}\n  # End."
    );
    assert_eq!(removed(&after, "a"), "hosts:\n  - {name: b}\n  # End.");
    assert_eq!(
        added("hosts:\n- name: a", "b", ""),
        "hosts:\n- name: a\n- {name: b}\n"
    );
}

#[test]
fn lines_that_end_as_on_windows_stay_so() {
    let text = "hosts:\r\n- {name: a}\r\nqueues:\r\n- name: q\r\n";
    let want = "hosts:\r\n- {name: a}\r\n- {name: b}\r\nqueues:\r\n- name: q\r\n";
    assert_eq!(added(text, "b", ""), want);
}

#[test]
fn an_empty_or_missing_section_is_filled() {
    let tail = "queues:\n- name: q\n";
    for (before, after) in [
        (
            "hosts:   # none yet\n",
            "hosts:   # none yet\n- {name: a}\n",
        ),
        (
            "hosts: []  # none yet\n",
            "hosts: [{name: a}]  # none yet\n",
        ),
        ("hosts:\n# later\n\n", "hosts:\n- {name: a}\n# later\n\n"),
    ] {
        let text = format!("{before}{tail}");
        assert_eq!(added(&text, "a", ""), format!("{after}{tail}"));
        let emptied = removed(&format!("{after}{tail}"), "a");
        assert_eq!(emptied, text);
    }
    let want = format!("{tail}\nhosts:\n- {{name: a}}\n");
    assert_eq!(added(tail, "a", ""), want);
}

#[test]
fn flow_lists_on_one_line_and_on_many() {
    let text = "hosts: [{name: a, tags: ['x]', \"y}\"]}, {name: b}]  # two\n";
    let after = added(text, "c", "slots=1");
    let want = "hosts: [{name: a, tags: ['x]', \"y}\"]}, {name: b}, {name: c, slots: 1}]  # two\n";
    assert_eq!(after, want);
    assert_eq!(removed(&after, "c"), text);
    assert_eq!(
        removed("hosts: [{name: a}, {name: b}]\n", "a"),
        "hosts: [{name: b}]\n"
    );

    let text = "hosts: [\n  {name: a},  # first\n  {name: b}  # it's second\n]\nqueues: []\n";
    let after = added(text, "c", "");
    let want = "hosts: [\n  {name: a},  # first\n  {name: b},  # it's second\n  {name: c}\n]\n\
                queues: []\n";
    assert_eq!(after, want);
    assert_eq!(
        removed(&after, "a"),
        want.replace("  {name: a},  # first\n", "")
    );
    let trailing = "hosts: [\n  {name: a},\n]\n";
    assert_eq!(
        added(trailing, "b", ""),
        "hosts: [\n  {name: a},\n  {name: b},\n]\n"
    );
}

#[test]
fn a_host_of_a_range_leaves_the_others() {
    let text = "hosts:\n- names: 'n[01-04]'  # rack 1\n- names: [x1, 'x[2-3]']\n- names: y1 y2\n";
    let after = removed(&removed(&removed(text, "n02"), "x1"), "y2");
    assert_eq!(
        after,
        "hosts:\n- names: 'n[01,03-04]'  # rack 1\n- names: ['x[2-3]']\n- names: y1\n"
    );
    assert_eq!(removed(&after, "y1"), after.replace("- names: y1\n", ""));
}

#[test]
fn groups_get_and_lose_the_host() {
    let text = "hosts:\n- {name: a}\nhostgroups:\n- {name: g, members: a}   # one\n\
                - name: h\n  members: [a]\n- name: i\n  members:\n  - a\n- {name: all1, members: 'all'}\n";
    let after = added(text, "b", "groups=g,h,i,all1");
    let want = text
        .replace("- {name: a}\n", "- {name: a}\n- {name: b}\n")
        .replace("members: a}", "members: a b}")
        .replace("[a]", "[a, b]")
        .replace("  - a\n", "  - a\n  - b\n");
    assert_eq!(after, want);
    assert_eq!(removed(&after, "b"), text);
    let alone = "hosts:\n- {name: a}\n- {name: b}\nhostgroups:\n- {name: g, members: b}\n";
    let refused = remove_host(alone, "b").unwrap_err();
    assert_eq!(refused.pos.line, 5);
    assert!(refused.message.contains("is named here"), "{refused}");
    assert!(add_host(text, &host("b", "groups=nowhere")).is_err());
    let out = "hosts: []\nhostgroups:\n- {name: g, members: all ~b}\n";
    assert!(add_host(out, &host("b", "groups=g")).is_err());
}

#[test]
fn what_is_so_already_changes_nothing() {
    let text = "hosts:\n- {name: a, slots: 4, tags: [x, y]}\n- names: 'n[1-3]'\n";
    for (name, words) in [("a", ""), ("a", "slots=4 tags=x,y"), ("n2", "")] {
        let edited = add_host(text, &host(name, words)).unwrap();
        assert_eq!((edited.text.as_str(), edited.done.len()), (text, 0));
    }
    let refused = add_host(text, &host("a", "slots=8")).unwrap_err();
    assert!(refused.message.contains("slots is 4"), "{refused}");
    let refused = add_host(text, &host("n2", "type=T")).unwrap_err();
    assert!(refused.message.contains("type is not set"), "{refused}");
    assert_eq!(remove_host(text, "b").unwrap().done.len(), 0);
}

#[test]
fn what_cannot_be_changed_safely_is_refused() {
    // A plain scalar of two lines, whose end only the parser knows.
    let text = "hosts:\n- names: n1\n    n2\n";
    assert!(remove_host(text, "n2").is_err());
    // The whole file is in braces: a section cannot be appended.
    assert!(add_host("{queues: [{name: q}]}\n", &host("a", "")).is_err());
    assert!(add_host("hosts: 7\n", &host("a", "")).is_err());
    assert!(add_host("hosts: [\n", &host("a", "")).is_err(), "no YAML");
    assert!(add_host("hosts: ~\n", &host("a", "")).is_err());
}

#[test]
fn settings_are_checked() {
    let parse = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        NewHost::parse("h", &words)
    };
    for wrong in [
        "slots",
        "slots=",
        "slots=1,2",
        "speed=3",
        "groups=a b",
        "unit=\u{1b}",
    ] {
        assert!(parse(&[wrong]).is_err(), "{wrong}");
    }
    assert!(parse(&["slots=1", "slots=2"]).is_err());
    assert!(NewHost::parse("default", &[]).is_err());
    assert!(NewHost::parse("a b", &[]).is_err());
    let odd = added("hosts: []\n", "h", "unit=r:1 slots=!");
    assert_eq!(odd, "hosts: [{name: h, unit: 'r:1', slots: '!'}]\n");
}

#[test]
fn mentions_elsewhere_are_found_in_every_notation() {
    let text = "\
cluster: {masters: m1 m2}
general: {default_host_spec: m1}
hosts:
- names: 'n[01-09]'
queues:
- name: q
  description: n05 is not meant here
  hosts: n[01-03]+2 others
- {name: r, hosts: [all, ~n04]}
limits:
- {name: l, per_host: 'n06', slots: 1}
resources:
- {name: lic, locale: '3@[n07 n08]', value: 1}
";
    let found = |name: &str| other_mentions(text, name).unwrap();
    assert_eq!(
        found("m1"),
        [
            "line 1: masters of cluster",
            "line 2: default_host_spec of general"
        ]
    );
    assert_eq!(found("n02"), ["line 8: hosts of queues"]);
    assert_eq!(found("n04"), ["line 9: hosts of queues"]);
    assert_eq!(found("n06"), ["line 11: per_host of limits"]);
    assert_eq!(found("n08"), ["line 13: locale of resources"]);
    assert!(found("n05").is_empty());
}

#[test]
fn the_example_stays_as_it_is_around_the_change() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/etc/cb.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let after = added(&text, "new01", "slots=4 groups=small");
    assert_eq!(after.lines().count(), text.lines().count() + 1);
    assert_eq!(
        removed(&after, "new01").lines().count(),
        text.lines().count()
    );
    let os = super::super::OsNames {
        user: &|_| true,
        group: &|_| true,
    };
    let loaded = super::super::load(after.as_bytes(), "cb.yaml", &os).unwrap();
    assert!(loaded.config.host_groups["small"].hosts.contains("new01"));
}
