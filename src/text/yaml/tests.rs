//! Tests what the reader accepts, refuses and tolerates.

use super::*;

fn limits() -> Limits {
    Limits::bytes(4 << 20)
}

fn read(text: &str) -> Document {
    parse(
        text.as_bytes(),
        &limits(),
        &["slots", "jobs", "resources", "fairshare"],
    )
}

/// The tree in one line: texts bare or in quotes, `~` null, `?` refused.
fn show(node: &Node) -> String {
    match &node.value {
        Value::Null => "~".into(),
        Value::Refused => "?".into(),
        Value::Text {
            text,
            quoted: false,
        } => text.clone(),
        Value::Text { text, quoted: true } => format!("{text:?}"),
        Value::List(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(" ")),
        Value::Map(entries) => {
            let all: Vec<_> = entries
                .iter()
                .map(|e| format!("{}={}", e.key, show(&e.value)))
                .collect();
            format!("{{{}}}", all.join(" "))
        }
    }
}

fn tree(text: &str) -> String {
    let doc = read(text);
    assert_eq!(doc.defects, [], "{text}");
    show(&doc.root.expect("no defects"))
}

fn codes(doc: &Document) -> Vec<(&'static str, u32)> {
    doc.defects.iter().map(|d| (d.code, d.pos.line)).collect()
}

#[test]
fn scalars_stay_text() {
    assert_eq!(
        tree("a: 010\nb: yes\nc: 12:30:45\nd: '7'\ne: .nan\nf: no"),
        "{a=010 b=yes c=12:30:45 d=\"7\" e=.nan f=no}"
    );
}

#[test]
fn maps_keep_order_and_lists_nest() {
    assert_eq!(
        tree("z: [1, {b: 2}]\na:\n- x\n- - y\n"),
        "{z=[1 {b=2}] a=[x [y]]}"
    );
}

#[test]
fn null_is_nothing_or_a_lone_tilde() {
    assert_eq!(
        tree("a:\nb: ~\nc: ''\nd: all ~u1\ne: ~u1 all"),
        "{a=~ b=~ c=\"\" d=all ~u1 e=~u1 all}"
    );
}

#[test]
fn every_node_knows_its_place() {
    let doc = read("a: 1\nlist:\n  - {k: v,\n     名: w}\n");
    let Value::Map(top) = doc.root.unwrap().value else {
        panic!()
    };
    assert_eq!(
        (top[0].key_pos, top[0].value.pos),
        (Pos::new(1, 1), Pos::new(1, 4))
    );
    let Value::List(items) = &top[1].value.value else {
        panic!()
    };
    let Value::Map(inner) = &items[0].value else {
        panic!()
    };
    assert_eq!(items[0].pos, Pos::new(3, 5));
    assert_eq!(inner[0].value.pos, Pos::new(3, 9));
    assert_eq!(
        (inner[1].key_pos, inner[1].value.pos),
        (Pos::new(4, 6), Pos::new(4, 9))
    );
}

#[test]
fn byte_order_mark_and_carriage_returns_are_accepted() {
    assert_eq!(tree("\u{feff}a: 1\r\nb:\r\n  - x\r\n"), "{a=1 b=[x]}");
}

#[test]
fn bracket_groups_side_by_side_are_one_text() {
    assert_eq!(
        tree("resources: [mem,5000] [gpu, 2]  # both\nslots: [2 1:8:0-5:18:0] [5 5:18:01-1:7:59]"),
        "{resources=\"[mem,5000] [gpu, 2]\" slots=\"[2 1:8:0-5:18:0] [5 5:18:01-1:7:59]\"}"
    );
    assert_eq!(
        tree("- {name: l3, fairshare: [g1,2] [g3,1], jobs: [a], z: [1, 2]}"),
        "[{name=l3 fairshare=\"[g1,2] [g3,1]\" jobs=\"[a]\" z=[1 2]}]"
    );
}

#[test]
fn bracket_groups_elsewhere_are_left_alone() {
    assert_eq!(tree("slots: '[1] [2]'"), "{slots=\"[1] [2]\"}");
    assert_eq!(
        tree("d: |\n  slots: [1] [2]\ne: x"),
        "{d=\"slots: [1] [2]\\n\" e=x}"
    );
    assert_eq!(tree("d: 'slots: [1] [2]'"), "{d=\"slots: [1] [2]\"}");
    assert_eq!(
        tree("resources: {a: 1}\n# slots: [1] [2]\n"),
        "{resources={a=1}}"
    );
    assert_eq!(tree("xslots: [1]"), "{xslots=[1]}");
    assert_eq!(
        tree("d: don't\nslots: [1] [2]"),
        "{d=don't slots=\"[1] [2]\"}"
    );
}

#[test]
fn columns_behind_added_quotes_are_those_of_the_file() {
    let doc = read("- {slots: [1] [2], name: x}");
    let Value::List(items) = doc.root.unwrap().value else {
        panic!()
    };
    let Value::Map(entries) = &items[0].value else {
        panic!()
    };
    assert_eq!(entries[0].value.pos, Pos::new(1, 11));
    assert_eq!(
        (entries[1].key_pos, entries[1].value.pos),
        (Pos::new(1, 20), Pos::new(1, 26))
    );
}

#[test]
fn each_unwanted_form_is_named_and_the_rest_is_read() {
    for (text, want, left) in [
        ("a: 1\na: 2\nb: 3", "duplicate-key", "{a=1 b=3}"),
        ("a: &x 1\nb: 3", "anchor", "{a=1 b=3}"),
        ("a: *x\nb: 3", "alias", "{a=? b=3}"),
        ("a: !!python/object x\nb: 3", "tag", "{a=? b=3}"),
        ("a: !\nb: 3", "tag", "{a=? b=3}"),
        ("<<: {c: 1}\nb: 3", "merge-key", "{b=3}"),
        ("? [a, b]\n: 1\nb: 3", "key", "{b=3}"),
        ("a: \"x\\0y\"\nb: 3", "nul", "{a=? b=3}"),
    ] {
        let doc = read(text);
        assert_eq!(
            doc.defects.iter().map(|d| d.code).collect::<Vec<_>>(),
            [want],
            "{text}"
        );
        assert_eq!(show(doc.root.as_ref().unwrap()), left, "{text}");
    }
}

#[test]
fn nothing_is_read_from_what_is_no_text() {
    for (bytes, want) in [
        (&b"a: b\0c"[..], "nul"),
        (b"a: \x1b[31m", "control"),
        (b"a: caf\xe9\n", "encoding"),
        (b"\xff\xfea\0:\0", "encoding"),
        (b"", "empty"),
        (b"\n  \n# only a comment\n", "empty"),
        (b"---\n", "empty"),
        (b"---\n...\n", "empty"),
    ] {
        let doc = parse(bytes, &limits(), &[]);
        assert_eq!(doc.defects.first().map(|d| d.code), Some(want), "{bytes:?}");
        assert!(
            doc.root.is_none() || show(doc.root.as_ref().unwrap()) == "~",
            "{bytes:?}"
        );
    }
    let doc = parse(b"a: 1\nb: caf\xe9\n", &limits(), &[]);
    assert_eq!(doc.defects[0].pos, Pos::new(2, 7));
}

#[test]
fn two_documents_and_directives_are_refused() {
    assert_eq!(codes(&read("a: 1\n---\nb: 2\n")), [("documents", 2)]);
    assert_eq!(codes(&read("%YAML 1.2\n---\nb: 2\n")), [("syntax", 1)]);
    assert_eq!(tree("---\nb: 2\n...\n"), "{b=2}");
}

#[test]
fn tabs_are_told_with_their_lines_and_the_rest_is_read() {
    let doc = read(
        "a:\n\tb: 1\nc: 2\nd:\n  - e: 1\n  \tf: 2\n  - g: 3\nh: |\n  x\n  \ttab is text here\n",
    );
    assert_eq!(codes(&doc), [("tab", 2), ("tab", 6)]);
    assert!(doc.partial);
    assert_eq!(
        show(&doc.root.unwrap()),
        "{c=2 d=[{g=3}] h=\"x\\n\\ttab is text here\\n\"}"
    );
}

#[test]
fn a_block_text_in_a_list_may_hold_tabs_and_bracket_groups() {
    assert_eq!(
        tree("- |\n  a\n  \tb\n  slots: [1] [2]\n- x"),
        "[\"a\\n\\tb\\nslots: [1] [2]\\n\" x]"
    );
}

#[test]
fn one_run_shows_more_than_one_syntax_error() {
    let doc = read("a: b: c\nqueues:\n- name: x\n  users: a: b\n- name: y\nz: 1\n");
    assert_eq!(codes(&doc), [("syntax", 1), ("syntax", 4)]);
    assert_eq!(show(&doc.root.unwrap()), "{queues=[{name=y}] z=1}");
}

#[test]
fn a_text_cut_in_the_middle_is_refused() {
    for text in ["a: [1, 2", "a: {b: 1", "a: 'x", "a: \"x", "a: 1\nb"] {
        let doc = read(text);
        assert_eq!(
            doc.defects.first().map(|d| d.code),
            Some("syntax"),
            "{text}"
        );
    }
}

#[test]
fn bombs_are_refused_quickly() {
    let laughs: String = (0..9)
        .map(|i| {
            format!(
                "{}: &{} [{}]\n",
                (b'a' + i) as char,
                (b'a' + i) as char,
                vec![
                    if i == 0 {
                        "lol".into()
                    } else {
                        format!("*{}", (b'a' + i - 1) as char)
                    };
                    9
                ]
                .join(",")
            )
        })
        .collect();
    let bombs = [
        ("nine times nine aliases", laughs, "alias"),
        (
            "many aliases",
            format!(
                "a: &a {}\nb: [{}]",
                "x".repeat(100_000),
                "*a,".repeat(20_000)
            ),
            "alias",
        ),
        ("flow maps", "{a: ".repeat(20_000), "too-deep"),
        ("flow lists", "[".repeat(100_000), "too-deep"),
        (
            "block maps",
            (0..2000)
                .map(|i| format!("{}a:\n", " ".repeat(i)))
                .collect(),
            "too-deep",
        ),
        ("block lists", "- ".repeat(50_000), "too-deep"),
        ("own member", "&a [*a]".into(), "anchor"),
        ("large", "x".repeat(20_000_000), "too-large"),
        (
            "many lines",
            (0..500_000).map(|i| format!("{i}: 1\n")).collect(),
            "too-",
        ),
        (
            "many keys",
            format!("{{{}}}", "a,".repeat(500_000)),
            "too-many",
        ),
        ("one long line", "x".repeat(4_000_000), ""),
        (
            "quotes",
            "a: '".to_string() + &"''".repeat(1_000_000),
            "syntax",
        ),
        (
            "groups",
            "slots: ".to_string() + &"[1] ".repeat(500_000),
            "",
        ),
        (
            "many groups",
            format!("{{{}}}", "slots: [1],".repeat(300_000)),
            "too-many",
        ),
        ("brackets", "slots: [".repeat(100_000), ""),
    ];
    for (name, text, want) in bombs {
        let most = if cfg!(debug_assertions) { 1000 } else { 50 };
        let began = crate::text::cpu_time();
        let doc = parse(text.as_bytes(), &limits(), &["slots"]);
        let took = (crate::text::cpu_time() - began).as_millis();
        if !want.is_empty() {
            assert!(
                doc.defects.iter().any(|d| d.code.starts_with(want)),
                "{name}: {:?}",
                doc.defects.first()
            );
        }
        assert!(took < most, "{name} took {took} ms");
    }
}
