//! Tests of the dependency conditions.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

struct Table(HashMap<u32, (ElementStates, i32)>);

impl DependencyFacts for Table {
    fn element_states(&self, target: &Target) -> Option<ElementStates> {
        match target.job {
            JobRef::Id(id) => self.0.get(&id).map(|(seen, _)| *seen),
            JobRef::Name(_) => None,
        }
    }

    fn exit_code(&self, target: &Target, test: &dyn Fn(i32) -> bool) -> bool {
        match target.job {
            JobRef::Id(id) => self
                .0
                .get(&id)
                .is_some_and(|(s, code)| s.exit > 0 && test(*code)),
            JobRef::Name(_) => false,
        }
    }

    /// Post-exec failures of job 2 and of one element of job 5.
    fn post_failed(&self, target: &Target) -> u64 {
        u64::from(matches!(target.job, JobRef::Id(2 | 5)))
    }

    fn external(&self, _: &Target, word: &str) -> bool {
        word == "go"
    }
}

fn table() -> Table {
    let one = |f: fn(&mut ElementStates)| {
        let mut seen = ElementStates::default();
        f(&mut seen);
        seen
    };
    Table(HashMap::from([
        (1, (one(|s| s.done = 1), 0)),
        (2, (one(|s| s.exit = 1), 3)),
        (3, (one(|s| s.run = 1), 0)),
        (4, (one(|s| s.pend = 1), 0)),
        (
            5,
            (one(|s| (s.pend, s.run, s.done, s.exit) = (4, 3, 2, 1)), 9),
        ),
    ]))
}

#[test]
fn conditions_on_post_exec_commands_wait_for_the_end_or_the_first_failure() {
    use Answer::{False, Never, True};
    let facts = table();
    for (text, answer) in [
        ("post_done(1) && post_err(2)", True),
        ("post_done(2)", Never),
        ("post_err(1)", Never),
        ("post_done(3) || post_err(3)", False),
        ("post_err(5)", True),
        ("post_done(5)", Never),
    ] {
        let expr = Expr::parse(text).expect("parses");
        assert_eq!(expr.eval(&facts), answer, "{text}");
    }
    let never = Expr::parse("done(3) && done(2)").expect("parses");
    assert_eq!(
        never.never(&facts).map(Cond::to_string).as_deref(),
        Some("done(2)")
    );
}

#[test]
fn judgements() {
    use Answer::{False, Never, True};
    let facts = table();
    for (text, answer) in [
        ("1", True),
        ("done(2)", Never),
        ("done(3)", False),
        ("ended(2)", True),
        ("exit(2)", True),
        ("exit(2,3)", True),
        ("exit(2,>3)", Never),
        ("exit(1)", Never),
        ("exit(3)", False),
        ("started(3) && started(1)", True),
        ("started(4)", False),
        ("external(4,'go')", True),
        ("external(4,'stop')", False),
        ("done(99)", Never),
        ("!done(1)", Never),
        ("!done(3)", True),
        ("!done(2)", True),
        ("done(2) || done(3)", False),
        ("done(2) || done(99)", Never),
        ("done(3) && done(2)", Never),
        ("done(2) || 1", True),
        ("numdone(5,>=2)", True),
        ("numdone(5,>=9)", False),
        ("numdone(5,>=10)", Never),
        ("numdone(5,*)", Never),
        ("numended(5,*)", False),
        ("numexit(5,<1)", Never),
        ("numrun(5,3)", True),
        ("numpend(5,==0)", False),
        ("numpend(1,>0)", Never),
        ("numstart(5,>2)", True),
        ("!numrun(5,3)", False),
        // Of ten elements two are done, one failed.
        ("numdone(5,20%)", True),
        ("numdone(5,21%)", False),
        ("numdone(5,90%)", False),
        ("numdone(5,91%)", Never),
        ("numended(5,100%)", False),
        ("numexit(5,<20%)", True),
        ("numexit(5,<10%)", Never),
        ("numdone(5,==45%)", Never),
        ("numdone(5,==40%)", False),
        ("numdone(1,100%)", True),
        ("numdone(2,1%)", Never),
    ] {
        assert_eq!(
            Expr::parse(text).expect(text).eval(&facts),
            answer,
            "{text}"
        );
    }
}

#[test]
fn printed_form() {
    for (text, printed) in [
        ("12", "done(12)"),
        ("prep*", "done(\"prep*\")"),
        (
            "done('a b[*]')&&ended(3[1-5:2])",
            "done(\"a b[*]\") && ended(3[1-5:2])",
        ),
        (
            "a && (b && c) || d",
            "(done(\"a\") && done(\"b\") && done(\"c\")) || done(\"d\")",
        ),
        ("!(1||2)", "!(done(1) || done(2))"),
        ("numdone( 7 , >= 10 )", "numdone(7,>=10)"),
        ("numdone(7, 80%)", "numdone(7,>=80%)"),
        ("numexit(7,<5%)", "numexit(7,<5%)"),
        ("exit(7,3)", "exit(7,==3)"),
        ("external(7,'say \"hi\"')", "external(7,'say \"hi\"')"),
        ("作业", "done(\"作业\")"),
    ] {
        assert_eq!(Expr::parse(text).expect(text).to_string(), printed);
    }
}

#[test]
fn wrong_expressions_are_refused_at_their_place() {
    for (text, at) in [
        ("", 0),
        ("done(", 5),
        ("done()", 5),
        ("done(12", 7),
        ("done(12))", 8),
        ("12 12", 3),
        ("12 &&", 5),
        ("12 & 13", 3),
        ("finished(12)", 0),
        ("done(0)", 5),
        ("done(12x)", 7),
        ("done(007)", 5),
        ("done(4294967296)", 5),
        ("done(1[0])", 7),
        ("done(\"a*b\")", 7),
        ("done(\"a)", 5),
        ("numdone(1)", 9),
        ("numdone(1,>)", 11),
        ("numdone(1,101%)", 10),
        ("exit(1,256)", 7),
        ("external(1,go)", 11),
        ("()", 1),
    ] {
        let e = Expr::parse(text).expect_err(text);
        assert_eq!(e.at, at, "{text}: {e}");
    }
    let hint = Expr::parse("numdon(1,*)").unwrap_err().hint;
    assert_eq!(hint.as_deref(), Some("did you mean numdone?"));
}

#[test]
fn depth_and_length_are_bounded() {
    assert!(Expr::parse(&"(".repeat(10_000)).is_err());
    assert!(Expr::parse(&"!".repeat(10_000)).is_err());
    assert!(Expr::parse(&format!("{}1{}", "(".repeat(30), ")".repeat(30))).is_ok());
    assert!(Expr::parse(&vec!["1"; 2000].join("&&")).is_err());
}

#[test]
fn names_become_ids() {
    let expr = Expr::parse("done(x[*]) && !ended(y) && 3").expect("parses");
    let mut ids = |name: &str| match name {
        "x" => Ok(vec![1, 2]),
        "y" => Ok(vec![7]),
        other => Err(other.to_owned()),
    };
    let resolved = expr.resolve(&mut ids).expect("known names");
    assert_eq!(
        resolved.to_string(),
        "done(1[*]) && done(2[*]) && !ended(7) && done(3)"
    );
    assert_eq!(
        Expr::parse("z").expect("parses").resolve(&mut ids),
        Err("z".to_owned())
    );
}

#[test]
fn serde_uses_the_text() {
    let expr = Expr::parse("1 || 2").expect("parses");
    let json = serde_json::to_string(&expr).expect("serializes");
    assert_eq!(json, "\"done(1) || done(2)\"");
    assert_eq!(serde_json::from_str::<Expr>(&json).expect("reads"), expr);
}

#[test]
fn a_resolved_expression_reads_back() {
    let expr = Expr::parse(&format!("{}name", "!".repeat(31))).expect("parses");
    let ids = &mut |_: &str| Ok::<_, ()>((1..=50_000).collect());
    let resolved = expr.resolve(ids).expect("known name");
    let text = resolved.to_string();
    assert!(Expr::parse(&text).is_err());
    assert_eq!(Expr::parse_stored(&text), Ok(resolved));
}

fn any_expr() -> impl Strategy<Value = String> {
    let target = prop_oneof![
        "[1-9][0-9]{0,3}",
        "[a-c]{1,3}\\*?",
        "\"[a-c ]{0,2}x\"",
        "7\\[\\*\\]"
    ];
    let leaf = prop_oneof![
        target.clone(),
        target.clone().prop_map(|t| format!("ended({t})")),
        target.clone().prop_map(|t| format!("numdone({t}, >= 3)")),
        target.prop_map(|t| format!("exit({t},!=1)")),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|e| format!("!({e})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} && ({b})")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("({a} || {b})")),
        ]
    })
}

proptest! {
    #![proptest_config(crate::text::cases())]
    #[test]
    fn printed_expressions_read_back(s in any_expr()) {
        let expr = Expr::parse(&s).expect("generated to be right");
        prop_assert_eq!(Expr::parse(&expr.to_string()), Ok(expr));
    }

    #[test]
    fn never_panics(s in ".{0,40}", t in "(done|exit|num|[a-b1-3()!&|,\"'*\\[\\] ]){0,20}") {
        let _ = (Expr::parse(&s), Expr::parse(&t));
    }
}
