//! Tests of cutting streams and parsing documents.

use crate::record::load::SensedKind;
use crate::sensors::document_splitter::{
    DOCUMENT_MAX, ExceededLimit, LINE_MAX, PAUSE_MS, Splitter, StreamPart, all,
};
use crate::sensors::parse::{Parsed, VALUE_MAX, document, number};
use proptest::prelude::*;

/// The output of the example in the manual, byte for byte.
const CLKSND: &str = "- resource: clksnd\n description: The second value of the current clock\n \
                      type: number\n direction: increase\n value: 07\n \
                      locale: master node01\n---\n";

fn read(text: &str) -> Parsed {
    document(text.as_bytes(), 1)
}

fn problem(text: &str) -> String {
    let parsed = read(text);
    assert_eq!(parsed.problems.len(), 1, "{parsed:?}");
    parsed.problems[0].to_string()
}

fn document_of(piece: &StreamPart) -> (&str, u64) {
    match piece {
        StreamPart::Document { bytes, line } => (std::str::from_utf8(bytes).unwrap(), *line),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_example_with_one_blank_is_read_as_it_is_meant() {
    let pieces = all(CLKSND.as_bytes());
    let [piece] = &pieces[..] else {
        panic!("{pieces:?}")
    };
    let parsed = read(document_of(piece).0);
    assert_eq!(parsed.problems, []);
    let [r] = &parsed.readings[..] else {
        panic!("{parsed:?}")
    };
    let s = &r.sensed;
    assert_eq!((r.name.as_str(), s.value.as_deref()), ("clksnd", Some("7")));
    assert_eq!((s.kind, s.increase), (SensedKind::Number, true));
    assert_eq!(s.locale, "master node01");
    assert_eq!(s.about, "The second value of the current clock");
}

#[test]
fn a_bad_item_costs_one_resource_and_is_named_with_its_line() {
    let text = "- resource: a\n  value: 1\n- resource: b\n  value: [\n- resource: c\n  value: 3\n";
    let parsed = document(text.as_bytes(), 100);
    let names: Vec<_> = parsed
        .readings
        .iter()
        .map(|r| (r.name.as_str(), r.line))
        .collect();
    assert_eq!(names, [("a", 100), ("c", 104)]);
    assert!(!parsed.problems.is_empty());
    let p = &parsed.problems[0];
    assert_eq!((p.line, p.resource.as_str()), (103, "b"), "{p}");
}

#[test]
fn what_cannot_be_taken_says_why_and_where() {
    for (text, line, words) in [
        (
            "- resource: a\n  value: abc\n",
            2,
            "abc is not a usable number",
        ),
        ("- resource: a\n  value: inf\n", 2, "not a usable number"),
        ("- resource: a\n  value: .nan\n", 2, "not a usable number"),
        ("- resource: a\n  value: -1\n", 2, "not a usable number"),
        ("- resource: a\n  value: 1e99\n", 2, "not a usable number"),
        ("- resource: a\n  value:\n", 2, "value has no value"),
        ("- resource: a\n", 1, "it has no value"),
        ("- value: 1\n", 1, "no name"),
        (
            "- resource: mem\n  value: 1\n",
            1,
            "measured by Corral itself",
        ),
        (
            "- resource: 'a b'\n  value: 1\n",
            1,
            "is not allowed in a name",
        ),
        ("- resource: any\n  value: 1\n", 1, "built-in name"),
        (
            "- resource: a\n  type: int\n  value: 1\n",
            2,
            "type cannot be \"int\"",
        ),
        ("- resource: a\n  valeu: 1\n", 2, "did you mean value?"),
        (
            "- resource: a\n  type: text\n  release: yes\n  value: x\n",
            3,
            "valid for numbers",
        ),
        (
            "- resource: a\n  release: maybe\n  value: 1\n",
            2,
            "yes or no",
        ),
        (
            "- resource: a\n  value: 1\n  locale: ../x\n",
            3,
            "not a host name",
        ),
        (
            "- resource: a\n  value: 1\n  locale: ''\n",
            3,
            "names no host",
        ),
        ("- resource: a\nvalue: 1\n", 2, "not indented more"),
        ("- resource: a\n  value: &x 1\n", 2, "anchor"),
        ("- resource: a\n  value: !!int 1\n", 2, "tags"),
        (
            "- resource: a\n  value: 1\n  value: 2\n",
            3,
            "already on line",
        ),
        ("- resource: a\n  name: b\n  value: 1\n", 2, "given twice"),
        (
            "- resource: gpu\n  type: text\n  value: x\n",
            2,
            "differs from that of the built-in",
        ),
        (
            "- resource: gpu\n  slotresource: yes\n  value: 2\n",
            2,
            "differs from that of the built-in",
        ),
        ("- a\n", 1, "attributes with values"),
        ("some words\n", 1, "attributes with values"),
        ("- resource: a\n  value: \u{1}\n", 2, "control"),
    ] {
        refused(text, line, words);
    }
    let parsed = document(b"- resource: a\n  value: \xff\n", 1);
    assert!(
        parsed.problems[0]
            .to_string()
            .starts_with("2:1: this is not UTF-8")
    );
}

fn refused(text: &str, line: u32, words: &str) {
    let message = problem(text);
    assert!(
        message.starts_with(&format!("{line}:")) && message.contains(words),
        "{text:?}: {message}"
    );
    assert!(read(text).readings.is_empty(), "{text:?}");
}

#[test]
fn what_are_no_units_is_refused() {
    for (text, line, words) in [
        (
            "- resource: a\n  assign: yes\n  type: text\n  value: x\n",
            2,
            "assign is only valid for numbers",
        ),
        (
            "- resource: a\n  assign: yes\n  release: yes\n  value: 1\n",
            3,
            "excludes release",
        ),
        (
            "- resource: a\n  assign: yes\n  direction: increase\n  value: 1\n",
            3,
            "excludes direction",
        ),
        (
            "- resource: a\n  assign: yes\n  locale: all\n  value: 1\n",
            3,
            "excludes locale",
        ),
        (
            "- resource: a\n  assign: yes\n  value: 1.5\n",
            3,
            "not a number of units",
        ),
        (
            "- resource: a\n  assign: yes\n  value: 1025\n",
            3,
            "not a number of units",
        ),
        (
            "- resource: a\n  assign: yes\n  value: [x, y, x]\n",
            3,
            "unit x is named twice",
        ),
        (
            "- resource: a\n  assign: yes\n  value: ['x y']\n",
            3,
            "not the name of a unit",
        ),
        (
            "- resource: a\n  assign: yes\n  value: [[x]]\n",
            3,
            "the name of a unit is one word",
        ),
        ("- resource: a\n  value: [x]\n", 2, "one word or text"),
        (
            "- resource: gpu\n  assign: no\n  value: 2\n",
            2,
            "assign differs from that of the built-in",
        ),
        (
            "- resource: gpu\n  value: 1.5\n",
            2,
            "not a number of units",
        ),
        (
            "- resource: a\n  per_unit: 1x\n  value: 1\n",
            2,
            "has no units",
        ),
        (
            "- resource: a\n  per_unit: gpu\n  locale: all\n  value: 1\n",
            3,
            "per_unit excludes locale",
        ),
        (
            "- resource: a\n  per_unit: gpu\n  type: text\n  value: x\n",
            2,
            "per_unit is only valid for numbers",
        ),
        (
            "- resource: a\n  per_unit: gpu\n  value: [1, x]\n",
            3,
            "an amount of each unit is a number",
        ),
    ] {
        refused(text, line, words);
    }
}

#[test]
fn units_are_a_number_or_a_list_of_names() {
    let value = |attributes: &str| {
        let parsed = read(&format!("- resource: {attributes}\n"));
        assert_eq!(parsed.problems, [], "{attributes}");
        let sensed = parsed.readings[0].sensed.clone();
        (sensed.assign, sensed.value.expect("it has one"))
    };
    let units = |text: &str| (true, text.to_owned());
    let sizes = |text: &str| (false, text.to_owned());
    assert_eq!(
        value("gpu_mem\n  per_unit: gpu\n  value: 40960"),
        sizes("40960")
    );
    assert_eq!(
        value("gpu_mem\n  per_unit: gpu\n  value: [40960, 81920]"),
        sizes("{40960,81920}")
    );
    assert_eq!(value("fpga\n  assign: yes\n  value: 2"), units("2"));
    assert_eq!(
        value("port\n  assign: yes\n  value: [9000, 9001]"),
        units("[9000,9001]")
    );
    assert_eq!(value("port\n  assign: yes\n  value: []"), units("[]"));
    assert_eq!(
        value("port\n  assign: yes\n  value:\n  - a\n  - b"),
        units("[a,b]")
    );
    // A GPU is a unit, whatever the document states.
    assert_eq!(
        value("gpu\n  value: [GPU-1, GPU-2]"),
        units("[GPU-1,GPU-2]")
    );
    assert_eq!(value("gpu\n  value: 08"), units("8"));
    assert_eq!(
        value("lic\n  assign: no\n  value: 3"),
        (false, "3".to_owned())
    );
}

#[test]
fn every_way_to_write_a_list_is_read() {
    for text in [
        "- resource: a\n  value: 1\n- resource: b\n  value: 2\n",
        "-\n  resource: a\n  value: 1\n-\n  resource: b\n  value: 2\n",
        "  - resource: a\n    value: 1\n  - resource: b\n    value: 2\n",
        "-   resource: a\n    value: 1\n-   resource: b\n    value: 2\n",
        "- {resource: a, value: 1}\n- {name: b,\n value: 2}\n",
        "[{\"resource\": \"a\", \"value\": 1}, {\"resource\": \"b\", \"value\": 2.0}]\n",
        "# words\n\n- resource: a\r\n  value: '01'\r\n- resource: b # c\r\n  value: 2e0\r\n",
    ] {
        let parsed = read(text);
        assert_eq!(parsed.problems, [], "{text:?}");
        let all: Vec<_> = parsed.readings.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(all, ["a", "b"], "{text:?}");
        let values: Vec<_> = parsed
            .readings
            .iter()
            .filter_map(|r| r.sensed.value.clone())
            .collect();
        assert_eq!(values, ["1", "2"], "{text:?}");
    }
    let one = read("resource: a\nvalue: 1\nlocale:\n  - h1\n  - h2\n");
    assert_eq!(one.readings[0].sensed.locale, "h1 h2", "{one:?}");
    let twice = read("- resource: a\n  value: 1\n- resource: a\n  value: 2\n");
    assert_eq!((twice.readings.len(), twice.problems[0].line), (1, 3));
}

#[test]
fn texts_tags_and_built_in_ones_have_their_kinds() {
    let text = "- resource: os\n  value: Debian 12\n- resource: t\n  type: tag\n- resource: u\n  \
                type: tag\n  value: off\n- resource: gpu\n  value: 2\n- resource: netio\n  \
                value: 3.5\n";
    let parsed = read(text);
    assert_eq!(parsed.problems, []);
    let get = |n: usize| {
        (
            parsed.readings[n].sensed.kind,
            parsed.readings[n].sensed.value.clone(),
        )
    };
    assert_eq!(get(0), (SensedKind::Text, Some("Debian 12".into())));
    assert_eq!(get(1), (SensedKind::Tag, Some("yes".into())));
    assert_eq!(get(2), (SensedKind::Tag, Some("no".into())));
    assert_eq!(get(3), (SensedKind::Number, Some("2".into())));
    assert!(parsed.readings[4].sensed.increase);
    let long = format!(
        "- resource: a\n  type: text\n  value: {}\n",
        "x".repeat(VALUE_MAX + 1)
    );
    assert!(problem(&long).contains("at most 256 bytes"));
}

#[test]
fn a_document_has_at_most_a_thousand_resources() {
    let text: String = (0..1003)
        .map(|n| format!("- resource: r{n}\n  value: {n}\n"))
        .collect();
    let parsed = read(&text);
    assert_eq!(parsed.readings.len(), 1000);
    assert_eq!(parsed.problems[0].line, 2001);
    let flow: Vec<String> = (0..1003)
        .map(|n| format!("{{name: r{n}, value: 1}}"))
        .collect();
    let parsed = read(&format!("[{}]", flow.join(",\n")));
    assert_eq!((parsed.readings.len(), parsed.problems.len()), (1000, 1));
}

#[test]
fn numbers_are_decimal_and_finite() {
    for (text, value) in [
        ("07", 7.0),
        ("+1.50", 1.5),
        ("0", 0.0),
        ("2e3", 2000.0),
        ("1E-2", 0.01),
    ] {
        assert_eq!(number(text), Some(value), "{text}");
    }
    for text in [
        "", "-1", "0x10", "1_000", "1.", ".5", "1e", "inf", "NaN", "1 2", "1e400", "１",
    ] {
        assert_eq!(number(text), None, "{text}");
    }
    let tiny = read("- resource: a\n  value: 1e-300\n");
    assert_eq!(tiny.readings[0].sensed.value.as_deref(), Some("0"));
}

#[test]
fn documents_end_at_a_line_a_pause_and_the_end() {
    let (mut s, mut out) = (Splitter::new(), Vec::new());
    s.push(b"- a: 1\n- b", 100, &mut out);
    s.pause(100 + PAUSE_MS, &mut out);
    assert_eq!(out, []);
    s.pause(101 + PAUSE_MS, &mut out);
    assert_eq!(document_of(&out[0]), ("- a: 1\n- b\n", 1));
    s.push(b"--- # next\nx\n...\n\n# nothing\n--", 5000, &mut out);
    assert_eq!(document_of(&out[1]), ("x\n", 4));
    s.push(b"-\n---x\n", 5000, &mut out);
    assert_eq!(out.len(), 2, "{out:?}");
    s.end(&mut out);
    assert_eq!(document_of(&out[2]), ("---x\n", 9));
    s.end(&mut out);
    assert_eq!(out.len(), 3);
}

#[test]
fn what_breaks_a_limit_is_dropped_to_the_next_line_that_ends_a_document() {
    let mut text = vec![b'x'; LINE_MAX + 1];
    text.extend_from_slice(b"\nmore\n---\ngood\n---\n");
    let out = all(&text);
    assert_eq!(
        out[0],
        StreamPart::Dropped {
            line: 1,
            why: ExceededLimit::Line
        }
    );
    assert_eq!((document_of(&out[1]), out.len()), (("good\n", 4), 2));
    let line = format!("{}\n", "y".repeat(999));
    let many = line.repeat(DOCUMENT_MAX / 1000 + 2) + "---\ngood\n";
    let out = all(many.as_bytes());
    assert_eq!(
        out[0],
        StreamPart::Dropped {
            line: 66,
            why: ExceededLimit::Document
        }
    );
    assert_eq!((document_of(&out[1]).0, out.len()), ("good\n", 2));
}

#[test]
fn a_flood_without_a_line_costs_no_memory() {
    let (mut s, mut out) = (Splitter::new(), Vec::new());
    let block = vec![b'z'; 64 << 10];
    for n in 0..10_000 {
        s.push(&block, n, &mut out);
    }
    assert_eq!(
        out,
        [StreamPart::Dropped {
            line: 1,
            why: ExceededLimit::Line
        }]
    );
    s.push(b"\n---\nok\n---\n", 10_001, &mut out);
    assert_eq!(document_of(&out[1]), ("ok\n", 3));
}

proptest! {
    /// However a stream is divided, the same documents result.
    #[test]
    fn the_same_documents_come_out_however_the_stream_is_cut(
        lines in prop::collection::vec(prop_oneof![
            Just("---".to_owned()), Just("- resource: a".to_owned()), Just("  value: 1".to_owned()),
            Just("x".repeat(LINE_MAX + 5)), Just("y".repeat(LINE_MAX)), "[ -~]{0,40}",
        ], 0..40),
        cuts in prop::collection::vec(1usize..5000, 0..60),
    ) {
        let text = lines.join("\n").into_bytes();
        let whole = all(&text);
        let (mut s, mut out) = (Splitter::new(), Vec::new());
        let mut rest = &text[..];
        for cut in cuts {
            let (now, later) = rest.split_at(cut.min(rest.len()));
            s.push(now, 0, &mut out);
            rest = later;
        }
        s.push(rest, 0, &mut out);
        s.end(&mut out);
        prop_assert_eq!(&out, &whole);
        for piece in &out {
            if let StreamPart::Document { bytes, .. } = piece {
                prop_assert!(bytes.len() <= DOCUMENT_MAX + LINE_MAX);
            }
        }
    }

    /// Whatever is printed, parsing ends, and accepted values are within the limits.
    #[test]
    fn any_text_is_read_or_refused(text in "[ \\-a-z0-9:#'\"\\[\\]{},|>&*!%\n\u{e9}]{0,400}") {
        let parsed = read(&text);
        for r in &parsed.readings {
            let value = r.sensed.value.as_deref().unwrap_or("");
            prop_assert!(!value.is_empty() && value.len() <= VALUE_MAX);
        }
        for p in &parsed.problems {
            prop_assert!(p.line >= 1 && p.line <= text.lines().count().max(1) as u64 + 1, "{}", p);
        }
    }

    /// A resource is read whatever the indentation of its attributes.
    #[test]
    fn indentation_does_not_matter(blanks in 1usize..9, dash in 0usize..4, value in 0u32..100_000) {
        let (d, b) = (" ".repeat(dash), " ".repeat(dash + blanks));
        let text = format!("{d}- resource: r\n{b}type: number\n{b}value: {value:07}\n");
        let parsed = read(&text);
        prop_assert_eq!(&parsed.problems, &[]);
        prop_assert_eq!(parsed.readings[0].sensed.value.clone(), Some(value.to_string()));
    }
}
