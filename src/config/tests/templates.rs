//! Templates of applications: their allowed forms, and the results of values.

use super::super::template::{BilingualText, FilledTemplate, PathBase, PathKind, Template};
use super::super::{Problem, read_template};
use proptest::prelude::*;
use std::path::Path;

fn read(text: &str) -> Result<Template, Vec<Problem>> {
    read_template(format!("name: t\n{text}").as_bytes(), "t.yaml", "t")
}

fn good(text: &str) -> Template {
    read(text).unwrap_or_else(|p| {
        panic!("{}", p.iter().map(|p| format!("{p}\n")).collect::<String>());
    })
}

/// A directory `/w` that contains only the file `a file` and the directory `d`.
fn fill(template: &Template, given: &[(&str, &str)]) -> Result<FilledTemplate, String> {
    let given: Vec<(String, String)> = given
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let place = PathBase {
        cwd: Path::new("/w"),
        kind: &|path| match path.to_str() {
            Some("/w/a file") => PathKind::File,
            Some("/w/d" | "/w") => PathKind::Dir,
            Some("/dev/null") => PathKind::Other,
            _ => PathKind::Missing,
        },
    };
    template.fill(&given, &place).map_err(|e| e.join("; "))
}

fn one(param: &str, value: &str) -> Result<String, String> {
    let template = good(&format!("params: [{{name: P, {param}}}]\n"));
    fill(&template, &[("P", value)]).map(|filled| filled.values[0].1.clone())
}

#[test]
fn each_type_has_its_values_in_one_form() {
    for (param, value, want) in [
        ("type: string", "a b;c", "a b;c"),
        ("type: int", "-7", "-7"),
        ("type: float", "1.5e3", "1.5e3"),
        ("type: size", "2048", "2G"),
        ("type: size", "1.5g", "1536M"),
        ("type: duration", "90", "1h30m"),
        ("type: duration", "1:30", "1h30m"),
        ("type: bool", "ON", "yes"),
        ("type: choice, choices: [a, b]", "b", "b"),
        ("type: file", "./a file", "/w/a file"),
        ("type: dir", "d", "/w/d"),
        ("type: file, exists: no", "new", "/w/new"),
        ("pattern: '[a-c]+'", "abc", "abc"),
    ] {
        assert_eq!(one(param, value).as_deref(), Ok(want), "{param} {value}");
    }
    for (param, value, want) in [
        ("type: int", "1.5", "not a whole number"),
        ("type: int, min: 2", "1", "1 is below 2"),
        ("type: float, max: 0.5", "0.6", "0.6 is above 0.5"),
        ("type: float", "nan", "not a number"),
        ("type: size, max: 4G", "5000000", "above 4G"),
        ("type: duration, min: 1h", "30", "30 is below 1h"),
        ("type: bool", "maybe", "neither yes nor no"),
        ("type: choice, choices: [a, b]", "c", "not one of a, b"),
        ("type: file", "missing", "does not exist on this host"),
        ("type: file", "d", "is not a file"),
        ("type: file", "/dev/null", "is not a file"),
        ("type: dir", "a file", "is not a directory"),
        ("pattern: '[a-c]+'", "abcd", "does not match"),
        ("type: string", "a\u{1b}[2J", "control character"),
        ("type: string", "", "a value is required"),
    ] {
        let got = one(param, value).unwrap_err();
        assert!(got.contains(want), "{param} {value:?}: {got}");
    }
    assert!(one("type: string", &"x".repeat(5000)).is_err());
    assert_eq!(one("required: no", "").as_deref(), Ok(""));
}

#[test]
fn options_follow_from_values() {
    let template = good(
        "params:\n- {name: N, type: int, default: 0}\n- {name: M, default: ''}\n\
         options:\n- n: '${N}'\n- M: ${M}\n- R: 'rusage[gpu=${N}]'\n  when: N\n\
         - q: long\n  when: '!N'\n- P: p${M}\n  when: M=x\n- G: g\n  when: M!=x\n\
         env: {ALL: '${N}/${M} $HOME'}\n",
    );
    let options = |given: &[(&str, &str)]| {
        let filled = fill(&template, given).unwrap();
        let all = filled.options.iter().map(|(o, v, _)| format!("{o}={v}"));
        all.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(options(&[]), "n=0 M= q=long G=g");
    assert_eq!(
        options(&[("N", "2"), ("M", "x")]),
        "n=2 M=x R=rusage[gpu=2] P=px"
    );
    let filled = fill(&template, &[("N", "2"), ("M", "${N}")]).unwrap();
    assert_eq!(filled.vars["ALL"], "2/${N} $HOME", "a value is put in once");
    assert_eq!(filled.vars["CB_APP_M"], "${N}");
    let wrong = fill(&template, &[("N", "1"), ("N", "2"), ("NN", "3")]).unwrap_err();
    assert!(wrong.contains("N is given twice"), "{wrong}");
    assert!(wrong.contains("no parameter NN"), "{wrong}");
}

#[test]
fn what_is_wrong_with_a_template_is_refused_with_its_place() {
    for (text, code) in [
        ("nonsense: 1", "unknown-key"),
        ("users: u1", "not-implemented"),
        ("params: [{type: int}]", "missing-key"),
        ("params: [{name: a}]", "name"),
        ("params: [{name: A}, {name: A}]", "duplicate"),
        ("params: [{name: A, type: number}]", "choice"),
        ("params: [{name: A, default: x, required: yes}]", "conflict"),
        ("params: [{name: A, min: 3}]", "conflict"),
        ("params: [{name: A, type: int, min: x}]", "number"),
        ("params: [{name: A, type: int, min: 3, max: 2}]", "conflict"),
        ("params: [{name: A, type: int, default: x}]", "default"),
        (
            "params: [{name: A, type: int, max: 3, default: 4}]",
            "default",
        ),
        ("params: [{name: A, pattern: '('}]", "pattern"),
        ("params: [{name: A, pattern: 'a', default: b}]", "default"),
        ("params: [{name: A, type: choice}]", "missing-key"),
        (
            "params: [{name: A, type: choice, choices: [a, a]}]",
            "duplicate",
        ),
        ("options: {n: 1}", "type"),
        ("options: [{n: 1, q: 2}]", "type"),
        ("options: [{n: '${A}'}]", "undefined"),
        ("options: [{n: 1, when: A}]", "undefined"),
        ("params: [{name: A}]\noptions: [{E: 'run ${A}'}]", "shell"),
        (
            "params: [{name: A, type: file}]\noptions: [{L: '${A}'}]",
            "shell",
        ),
        ("env: {CB_APP_X: 1}", "name"),
        ("env: [a]", "type"),
        ("command: a\nscript: b", "conflict"),
        ("script: ''", "no-value"),
        ("script: a\ninclude: ../x.sh", "name"),
        ("include: x.sh", "conflict"),
        ("args: yes", "conflict"),
    ] {
        let problems = read(text).unwrap_err();
        let codes: Vec<&str> = problems.iter().map(|p| p.code).collect();
        assert_eq!(codes, [code], "{text}");
        assert!(problems[0].line > 0 && problems[0].col > 0, "{text}");
    }
    let named = read_template(b"name: x", "t.yaml", "t").unwrap_err();
    assert_eq!(
        named[0].hint.as_deref(),
        Some("write t, or rename the file")
    );
    assert!(read_template(b"", "t.yaml", "t").is_err(), "no name");
    assert!(read_template(&vec![b'#'; 1 << 20], "t.yaml", "t").is_err());
    // Types whose values cannot contain shell metacharacters may be used in shell text.
    good("params: [{name: A, type: int}]\noptions: [{E: 'run ${A}'}]");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A value is passed unchanged in its variable, and as a single value in an option.
    #[test]
    fn values_stay_values(value in "[ -~é]{1,60}") {
        let template = good("params: [{name: A}]\noptions: [{J: 'j ${A}'}]\nscript: 'run'\n");
        let filled = fill(&template, &[("A", &value)]).unwrap();
        prop_assert_eq!(&filled.vars["CB_APP_A"], &value);
        prop_assert_eq!(filled.options.len(), 1);
        prop_assert_eq!(&filled.options[0].1, &format!("j {value}"));
    }

    #[test]
    fn nothing_written_makes_it_panic(text in "[ -~\n]{0,200}") {
        for text in [format!("params:\n- {text}"), format!("options:\n- n: {text}\n")] {
            let named = |p: Problem| p.file == "t.yaml";
            prop_assert!(read(&text).err().into_iter().flatten().all(named));
        }
    }
}

#[test]
fn a_text_is_shown_in_the_language_of_the_process_if_it_is_there() {
    let text = |en: &str, zh: &str| BilingualText {
        en: en.to_owned(),
        zh: zh.to_owned(),
    };
    let (both, en, zh) = (
        text("Solver", "求解器"),
        text("Solver", ""),
        text("", "求解器"),
    );
    for (text, english, chinese) in [
        (&both, "Solver", "求解器"),
        (&en, "Solver", "Solver"),
        (&zh, "求解器", "求解器"),
    ] {
        assert_eq!(text.localized(), english);
        crate::language::in_chinese(|| assert_eq!(text.localized(), chinese));
    }
}
