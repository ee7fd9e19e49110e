//! Tests of resource requirements.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

/// The built-in resources, a license counter, a tag and a text.
struct Site;

impl Resources for Site {
    fn find<'a>(&'a self, name: &'a str) -> Option<ResourceDef<'a>> {
        let (kind, direction) = match name {
            "lic" | "seats" => (Kind::Number, Direction::Decrease),
            "ultrix" => (Kind::Tag, Direction::None),
            "rack" => (Kind::Text, Direction::None),
            _ => return Builtins.find(name),
        };
        let reserve = kind == Kind::Number;
        Some(ResourceDef {
            name,
            kind,
            direction,
            reserve,
            steps: AmountSteps::Any,
            megabytes: false,
        })
    }

    fn names(&self) -> Vec<&str> {
        let mut names = Builtins.names();
        names.extend(["lic", "seats", "ultrix", "rack"]);
        names
    }
}

fn parse(text: &str) -> ResReq {
    ResReq::parse(text, &Site).unwrap_or_else(|e| panic!("{text}: {e}\n{}", e.caret(text)))
}

#[derive(Default)]
struct Host {
    numbers: HashMap<&'static str, f64>,
    texts: HashMap<&'static str, &'static str>,
    tags: Vec<&'static str>,
}

impl HostFacts for Host {
    fn number(&self, name: &str) -> Option<f64> {
        self.numbers.get(name).copied()
    }
    fn text(&self, name: &str) -> Option<&str> {
        self.texts.get(name).copied()
    }
    fn tag(&self, name: &str) -> bool {
        self.tags.contains(&name)
    }
    fn local(&self, name: &str) -> Option<&str> {
        (name == "type").then_some("X86_64")
    }
}

fn host() -> Host {
    Host {
        numbers: HashMap::from([("mem", 4096.0), ("ut", 0.25), ("r1m", 1.5), ("ncpus", 0.0)]),
        texts: HashMap::from([("type", "X86_64"), ("model", "Intel-5218")]),
        tags: vec!["ultrix"],
    }
}

fn accepts(text: &str) -> bool {
    let req = parse(text);
    req.simple()
        .and_then(|s| s.select.as_ref())
        .expect("has a select")
        .accepts(&host())
}

#[test]
fn select_is_true_on_the_host() {
    for text in [
        "mem>1000",
        "select[mem>=4G]",
        "mem > 1000 && ut < 0.5 || swp > 1",
        "mem - 96 == 4000",
        "mem / 2 + 2 * 3 > 2053",
        "-mem < 0",
        "(mem > 1) + (ut > 1) == 1",
        "type==any",
        "type == local",
        "type==X86_64 && model==Intel-5218",
        "\"X86_64\"==type",
        "model != 'other'",
        "model>Intel",
        "ultrix",
        "defined(mem) && !defined(swp)",
        "swp>1 || mem>1",
        "!server",
        "mem>9999, ut<1",
        "cpu<2",
        "mem=20:r1m=2:ultrix",
        "-server:mem=20",
        "-",
        "select[type=X86_64:mem=4G]",
        "select[-]",
        "ut",
    ] {
        assert!(accepts(text), "{text}");
    }
}

#[test]
fn select_is_not_true_on_the_host() {
    for text in [
        "mem>4G",
        "swp>1",
        "!(swp>1)",
        "swp>1 && mem>1",
        "swp - swp == 0",
        "mem / ncpus > 1",
        "!ultrix",
        "rack==any && mem<1",
        "rack!=r1",
        "model==local",
        "type!=any",
        "server || ncpus",
        "r1m=1",
        "mem=5000:ultrix",
        "-ultrix",
    ] {
        assert!(!accepts(text), "{text}");
    }
}

#[test]
fn printed_form() {
    for (text, printed) in [
        ("", ""),
        ("mem>10", "select[mem > 10]"),
        ("swap=12:-ultrix", "select[swp >= 12 && !ultrix]"),
        ("r15m=1.5:mem=20", "select[r15m <= 1.5 && mem >= 20]"),
        ("-server=0", "select[!(server <= 0)]"),
        ("a<1".replace('a', "ut").as_str(), "select[ut < 1]"),
        (
            "select[(mem+1)*2>3&&(ut>1||ut<0)]",
            "select[(mem + 1) * 2 > 3 && (ut > 1 || ut < 0)]",
        ),
        ("select[1-(2-3)>0]", "select[1 - (2 - 3) > 0]"),
        ("select[!(mem>1)]", "select[!(mem > 1)]"),
        ("select[lic==seats]", "select[lic == (seats)]"),
        ("select[model=='a b']", "select[model==\"a b\"]"),
        ("order[-ut:mem]", "order[-ut:mem]"),
        ("order[!slots:cpu]", "order[!slots:r1m]"),
        (
            "rusage[mem=50:duration=100:decay=1]",
            "rusage[mem=50:duration=1h40m:decay=1]",
        ),
        ("rusage[mem=1.5G/job, lic=1]", "rusage[mem=1536/job,lic=1]"),
        (
            "rusage[mem=100:swp=5,duration=90s]",
            "rusage[mem=100:duration=1m30s,swp=5:duration=1m30s]",
        ),
        (
            "rusage[duration=90s,mem=100:swp=5]",
            "rusage[mem=100:duration=1m30s,swp=5:duration=1m30s]",
        ),
        (
            "rusage[duration=90s:decay=1,mem=100:duration=60s,swp=5]",
            "rusage[mem=100:duration=1m:decay=1,swp=5:duration=1m30s:decay=1]",
        ),
        ("rusage[mem=1:decay=1]", "rusage[mem=1]"),
        ("rusage[lic=1||seats=2]", "rusage[lic=1 || seats=2]"),
        ("span[ptile='!']", "span[ptile='!']"),
        (
            "span[hosts=2,4] same[type:model]",
            "span[hosts=2,4] same[type:model]",
        ),
        ("span[hosts=-1]", "span[hosts=-1]"),
        (
            "cu[type=rack:maxcus=1:pref=maxavail:excl]",
            "cu[type=rack:maxcus=1:pref=maxavail:excl]",
        ),
        ("filter[f1:f2]", "filter[f1:f2]"),
        (
            "4{mem>10} 5{rusage[gpu=1]}",
            "4{select[mem > 10]} 5{rusage[gpu=1]}",
        ),
        (
            "4*{mem>10}+5*{} span[hosts=1]",
            "4{select[mem > 10]} 5{} span[hosts=1]",
        ),
        (
            "{mem>10} || {4{} 2{ut<1}}@120",
            "{select[mem > 10]} || {4{} 2{select[ut < 1]}}@120",
        ),
        ("{mem>10}", "select[mem > 10]"),
        (
            "mem>1 || ut<1 rusage[mem=1]",
            "select[mem > 1 || ut < 1] rusage[mem=1]",
        ),
    ] {
        let req = parse(text);
        assert_eq!(req.to_string(), printed, "{text}");
        assert_eq!(ResReq::parse(printed, &Site), Ok(req.clone()), "{printed}");
        assert_eq!(ResReq::parse_stored(printed, &Site), Ok(req), "{printed}");
    }
}

#[test]
fn wrong_strings_are_refused_at_their_place() {
    for (text, at) in [
        ("select[mem>", 11),
        ("select[mem>]", 11),
        ("select[]", 7),
        ("select[foo>1]", 7),
        ("select[mem>1", 12),
        ("select [mem>1]", 0),
        ("selct[mem>1]", 0),
        ("mem=>1", 3),
        ("mem > 1 : ut < 2", 8),
        ("1 < mem < 2", 8),
        ("model", 0),
        ("model > 1 + ", 10),
        ("mem > 1e999", 7),
        ("mem > 10x", 8),
        ("mem > 499999999999t", 6),
        ("mem > 0.0000000001", 6),
        ("mem > 0.000001k", 6),
        ("(mem > 1", 8),
        ("mem & ut", 4),
        ("mem>1 foo[1]", 6),
        ("mem>1 select[ut<1]", 6),
        ("order[]", 6),
        ("order[ut:-mem:foo]", 14),
        ("order[type]", 6),
        ("rusage[]", 7),
        ("rusage[mem=-1]", 11),
        ("rusage[mem=1e999]", 12),
        ("rusage[gpu=1.5]", 11),
        ("rusage[gpu=1G]", 11),
        ("rusage[mem]", 10),
        ("rusage[mem=1,mem=2]", 13),
        ("rusage[slots=1]", 7),
        ("rusage[type=1]", 7),
        ("rusage[mem=1/node]", 13),
        ("rusage[mem=1:decay=2]", 19),
        ("rusage[mem=1:duration=0]", 22),
        ("rusage[duration=5]", 17),
        ("span[hosts=0]", 11),
        ("span[hosts=3]", 11),
        ("span[hosts=3,2]", 11),
        ("span[hosts=-2]", 12),
        ("span[tile=1]", 5),
        ("span[ptile=0]", 11),
        ("same[]", 5),
        ("same[foo]", 5),
        ("same[type:type]", 10),
        ("cu[]", 3),
        ("cu[pref=x]", 8),
        ("filter[]", 7),
        ("4{mem>10} 0{ut<1}", 10),
        ("4{", 2),
        ("4{} +", 5),
        ("4{} mem>1", 4),
        ("4{}}", 3),
        ("{mem>1} || ut<1", 11),
        ("mem>1}", 5),
        ("{mem>1}@x", 8),
        ("99999999999{}", 0),
    ] {
        let e = ResReq::parse(text, &Site).expect_err(text);
        assert_eq!(e.at, at, "{text}: {e}");
    }
}

#[test]
fn misspelt_names_get_a_hint() {
    let hint = |text| ResReq::parse(text, &Site).expect_err(text).hint;
    assert_eq!(hint("select[nem>1]").as_deref(), Some("did you mean mem?"));
    assert_eq!(
        hint("ruseage[mem=1]").as_deref(),
        Some("did you mean rusage?")
    );
    assert_eq!(
        hint("rusage[seat=1]").as_deref(),
        Some("did you mean seats?")
    );
}

#[test]
fn affinity_is_refused_by_name_and_leads_to_the_key_of_queues() {
    for text in ["affinity[core(2)]", "select[mem>5] affinity[thread]"] {
        let e = ResReq::parse(text, &AnyResource(&Builtins)).unwrap_err();
        let e = format!("{e:?}");
        assert!(e.contains("'affinity' is not a section"), "{e}");
        assert!(e.contains("cpu_bind of cb.yaml"), "{e}");
    }
}

#[test]
fn hostile_strings_are_refused_quickly() {
    for text in [
        "(".repeat(10_000),
        "!".repeat(10_000),
        format!("select[{}", "-(".repeat(5_000)),
        "x".repeat(100_000),
        "1{}".repeat(1_000),
        "{}||".repeat(1_000),
        "mem+".repeat(16_000),
        format!("rusage[{}]", "mem=1||".repeat(5_000)),
        format!("{}mem", "mem:".repeat(16_000)),
        "4{".repeat(10_000),
    ] {
        let _ = ResReq::parse(&text, &Site).map(|r| r.to_string());
    }
    assert!(ResReq::parse(&"(".repeat(10_000), &Site).is_err());
    assert!(ResReq::parse(&"1{}".repeat(1_000), &Site).is_err());
    let deep = format!("{}mem{}", "(".repeat(32), ")".repeat(32));
    assert!(ResReq::parse(&deep, &Site).is_ok());
}

#[test]
fn several_strings_are_joined() {
    let join = |texts: &[&str]| merge_all(texts, &Site).map(|r| r.to_string());
    assert_eq!(
        join(&[
            "mem>1||ut<1",
            "rusage[mem=1] order[ut]",
            "select[ultrix] rusage[swp=2/job]"
        ]),
        Ok("select[(mem > 1 || ut < 1) && ultrix] order[ut] rusage[mem=1,swp=2/job]".to_owned())
    );
    assert_eq!(
        join(&["mem>1, ut<1", "ultrix"]),
        Ok("select[mem > 1 && ultrix, ut < 1 && ultrix]".to_owned())
    );
    assert_eq!(join(&["", "4{}", ""]), Ok("4{}".to_owned()));
    assert_eq!(join(&[]), Ok(String::new()));
    for bad in [
        &["order[ut]", "order[mem]"],
        &["rusage[mem=1]", "rusage[mem=2]"],
        &["4{}", "mem>1"],
    ] {
        assert_eq!(join(bad).map_err(|(n, _)| n), Err(1), "{bad:?}");
    }
    assert_eq!(
        join(&["mem>1", "mem>"]).map_err(|(n, e)| (n, e.at)),
        Err((1, 4))
    );
}

#[test]
fn the_job_goes_over_its_queue() {
    let over = |job: &str, queue: &str| {
        parse(job)
            .over(parse(queue).simple().expect("simple"))
            .to_string()
    };
    assert_eq!(over("mem>1", "ut<1"), "select[mem > 1 && ut < 1]");
    assert_eq!(over("mem>1,ut<1", "ultrix"), "select[mem > 1, ut < 1]");
    assert_eq!(over("mem>1", "mem>2,ut<1"), "select[mem > 1]");
    assert_eq!(
        over("order[ut]", "order[mem] span[hosts=1]"),
        "order[ut] span[hosts=1]"
    );
    assert_eq!(over("span[hosts=-1]", "span[hosts=1]"), "span[hosts=-1]");
    assert_eq!(
        over(
            "rusage[mem=1:duration=60]",
            "rusage[mem=9:duration=30:decay=1,swp=2]"
        ),
        "rusage[mem=1:duration=30m:decay=1,swp=2]"
    );
    assert_eq!(
        over("2{mem>1} 3{}", "ut<1"),
        "2{select[mem > 1]} 3{} select[ut < 1]"
    );
}

#[test]
fn groups_take_the_common_sections_and_count_per_task() {
    let req =
        parse("4{mem>10 rusage[mem=5]} 5{rusage[gpu=1/host]} span[hosts=1] rusage[mem=1,swp=1]");
    let body = &req.alternatives[0].body;
    assert_eq!(body.slots(), Some(9));
    let shown: Vec<String> = body
        .effective()
        .iter()
        .map(|(n, s)| format!("{n:?} {s}"))
        .collect();
    assert_eq!(
        shown,
        [
            "Some(4) select[mem > 10] rusage[mem=5/task,swp=1] span[hosts=1]",
            "Some(5) rusage[gpu=1/host,mem=1,swp=1] span[hosts=1]",
        ]
    );
}

#[test]
fn scope_of_amounts() {
    let usage = |text| parse(text).simple().expect("simple").rusage[0][0].clone();
    assert_eq!(
        usage("rusage[mem=1]").scope(false, false),
        AmountScope::Host
    );
    assert_eq!(usage("rusage[lic=1]").scope(false, true), AmountScope::Job);
    assert_eq!(usage("rusage[gpu=1]").scope(true, false), AmountScope::Task);
    assert_eq!(
        usage("rusage[gpu=1/host]").scope(true, false),
        AmountScope::Host
    );
    assert_eq!(usage("rusage[mem=1K]").amount, 1);
}

#[test]
fn undeclared_names_read_again() {
    let text = "select[was_tag && was_text==abc && was_number > 3] rusage[was_lic=2]";
    let req = ResReq::parse_stored(text, &Builtins).expect("reads");
    assert_eq!(req.to_string(), text);
}

#[test]
fn default_type_depends_on_the_select() {
    let mentions = |text| {
        parse(text)
            .simple()
            .and_then(|s| s.select.as_ref())
            .expect("select")
            .mentions_text_or_tag()
    };
    assert!(mentions("mem>1 && ultrix") && mentions("!(model==x)") && !mentions("mem>1 && ut<1"));
}

#[test]
fn builtin_table_is_consistent() {
    let mut names: Vec<&str> = BUILTINS.iter().map(|b| b.name).collect();
    assert!(
        names
            .iter()
            .all(|n| crate::text::names::check_name(n).is_ok())
    );
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), BUILTINS.len());
    assert!(
        builtin("r15s").is_some_and(|b| b.release) && builtin("mem").is_some_and(|b| !b.release)
    );
    for bad in ["mem", "1a", "a-b", "any", "", "swap", "a[", "a\n"] {
        assert!(check_resource_name(bad).is_err(), "{bad}");
    }
    assert!(check_resource_name("lic.x_1").is_ok());
}

fn any_select() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        "[0-9]{1,3}(\\.[0-9]{1,3})?(G|k)?",
        Just("mem".to_owned()),
        Just("lic".to_owned()),
        Just("ultrix".to_owned()),
        Just("defined(swap)".to_owned()),
        Just("(type==any)".to_owned()),
        Just("(model != 'a b')".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        let op = proptest::sample::select(vec!["||", "&&", ">", "<=", "!=", "+", "-", "*", "/"]);
        prop_oneof![
            inner.clone().prop_map(|e| format!("!({e})")),
            inner.clone().prop_map(|e| format!("-({e})")),
            (inner.clone(), op.clone(), inner.clone())
                .prop_map(|(a, op, b)| format!("({a}) {op} ({b})")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("{a} + {b}")),
        ]
    })
}

proptest! {
    #![proptest_config(crate::text::cases())]
    #[test]
    fn printed_requirements_read_back(
        select in any_select(),
        amount in 0u64..100_000,
        ptile in 1u32..50,
    ) {
        let usage = super::amount(amount);
        let text = format!("3{{select[{select}]}} 1{{}} rusage[mem={usage}] span[ptile={ptile}]");
        if let Ok(req) = ResReq::parse(&text, &Site) {
            prop_assert_eq!(ResReq::parse(&req.to_string(), &Site), Ok(req.clone()));
            let bodies = req.alternatives[0].body.effective();
            prop_assert_eq!(bodies[0].1.rusage[0][0].amount, amount);
            let simple = bodies[0].1.select.as_ref().expect("given");
            let _ = simple.accepts(&host());
        }
    }

    #[test]
    fn never_panics(
        s in ".{0,50}",
        t in "(select|rusage|span|same|cu|order|mem|ut|type|[0-9]|[\\[\\]{}()|&=<>!:,.@*+/ -]){0,25}"
    ) {
        for text in [&s, &t] {
            if let Ok(req) = ResReq::parse(text, &Site) {
                prop_assert_eq!(ResReq::parse(&req.to_string(), &Site), Ok(req));
            }
            let _ = ResReq::parse_stored(text, &Builtins);
            let _ = merge_all(&["mem>1", text], &Site);
        }
    }
}
