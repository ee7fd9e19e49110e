//! Tests the candidates for command lines, with names provided by the test and with a published
//! view; and that the options in completion are those of the commands.

use super::kinds::JobStates;
use super::*;
use crate::client::read::test_view::{TestView, job, row, spec};
use crate::client::{self, options};
use crate::language::Language;
use crate::model::{JobKey, JobStat};
use crate::record::view::{self, HostRow, Params, QueueRow, Row};
use std::cell::RefCell;

/// Names for each kind: e.g. two queues, two hosts and a job.
fn names(live: ClusterNames, word: &str) -> Vec<Candidate> {
    let all: &[(&str, &str)] = match live {
        ClusterNames::Queues => &[("normal", "For everything"), ("night", "Long jobs")],
        ClusterNames::Hosts => &[("h1", "ok, 4 slots"), ("h2", "ok, 4 slots")],
        ClusterNames::Jobs(_) => &[("12", "RUN sim"), ("103", "PEND sim"), ("12[3]", "RUN")],
        _ => &[("one", "")],
    };
    let all = all.iter().filter(|(name, _)| name.starts_with(word));
    all.map(|(name, about)| Candidate::new(*name, *about))
        .collect()
}

/// The words of a line; `_` represents an empty one.
fn words(line: &str) -> Vec<String> {
    let words = line.split(' ').map(|word| word.replace('_', ""));
    words.collect()
}

fn ask(shell: &str, line: &str) -> Vec<String> {
    let out = answer(shell, &words(line), &names);
    out.lines().map(str::to_owned).collect()
}

/// The candidates for a line, without their descriptions.
fn proposed(line: &str) -> Vec<String> {
    let lines = ask("zsh", line).into_iter().skip(1);
    let word = |line: String| line.split('\t').next().unwrap_or_default().to_owned();
    lines.map(word).collect()
}

/// The kind of name that was requested.
fn asked(line: &str) -> Option<ClusterNames> {
    let seen = RefCell::new(None);
    answer("zsh", &words(line), &|live, _| {
        *seen.borrow_mut() = Some(live);
        Vec::new()
    });
    seen.into_inner()
}

#[test]
fn commands_and_subcommands_are_proposed() {
    let all = proposed("cb _");
    assert!(all.contains(&"csub".to_owned()) && all.contains(&"cadmin".to_owned()));
    assert!(!all.iter().any(|word| word == "bsub"));
    assert_eq!(proposed("cb bsu"), ["bsub"]);
    assert_eq!(proposed("/usr/bin/cb cki"), ["ckill"]);
    assert_eq!(proposed("cadmin qo"), ["qopen"]);
    assert_eq!(proposed("cadmin dev u"), ["up"]);
    assert_eq!(proposed("ccron sh"), ["show"]);
    assert_eq!(proposed("aip cronjob sh"), ["show"]);
    assert_eq!(
        proposed("aip _"),
        ["cluster", "host", "queue", "job", "cronjob"]
    );
    assert_eq!(proposed("aip host _"), ["info", "res"]);
    assert_eq!(proposed("aip j i -noh"), ["-noheader"]);
    assert_eq!(asked("aip queue info _"), asked("cqueues _"));
    assert_eq!(proposed("badmin mb"), ["mbdrestart", "mbdhist"]);
    assert_eq!(proposed("cb sub -no-r"), ["-no-report"]);
    assert_eq!(ask("fish", "cb cqu"), ["words", "cqueues\tlist queues"]);
    assert_eq!(proposed("nonsense _"), [""; 0]);
}

#[test]
fn options_are_proposed_as_they_are_typed() {
    assert_eq!(proposed("cjobs -noh"), ["-noheader"]);
    assert_eq!(proposed("cjobs --noh"), ["--noheader"]);
    assert_eq!(proposed("cjobs -js"), ["-json", "-jsonl"]);
    let json = ask("zsh", "cjobs --json");
    assert!(
        json[1].starts_with("--json\tAlso --json: JSON Lines"),
        "{json:?}"
    );
    assert_eq!(proposed("cadmin dev up --ho"), ["--hosts"]);
    assert_eq!(proposed("cadmin dev up -ho"), [""; 0]);
    let all = ["-orphan", "-oom-kill", "-o", "-oo"];
    assert_eq!(proposed("csub -o"), all);
    // LSF options that are refused are not proposed.
    assert!(!proposed("cjobs -").contains(&"-sla".to_owned()));
    // The options after the command of a job belong to that command.
    assert_eq!(ask("zsh", "csub sleep -"), ["files"]);
    assert_eq!(proposed("csub -zzz -"), [""; 0]);
}

#[test]
fn descriptions_are_in_the_language_of_the_command() {
    let chinese = |line: &str| crate::language::in_chinese(|| ask("fish", line));
    assert_eq!(chinese("cb cqu"), ["words", "cqueues\t列出队列"]);
    assert_eq!(chinese("cjobs -noh"), ["words", "-noheader\t不输出表头"]);
    let verbs = chinese("aip job _");
    assert_eq!(verbs[2], "submit\t文件所描述的作业，同 csub --spec");
    for line in [
        "cadmin _",
        "cadmin dev _",
        "ccron _",
        "csub -",
        "cb _",
        "aip _",
    ] {
        let lines = chinese(line);
        let about = lines
            .iter()
            .skip(1)
            .filter_map(|line| line.split_once('\t'));
        let english: Vec<_> = about.filter(|(_, about)| about.is_ascii()).collect();
        assert!(lines.len() > 3 && english.is_empty(), "{line}: {english:?}");
    }
    // Names and words of the cluster are as they are.
    assert_eq!(chinese("csub -q ni"), ["words", "night\tLong jobs"]);
    let called = |line: &str| line::command_name(&words(line)).to_owned();
    assert_eq!(called("/usr/bin/csub -"), "csub");
    assert_eq!(called("cb bsub -"), "bsub");
    assert_eq!(called("cb bsu"), "cb");
    let spoken = |line: &str| crate::commands::language_of(&called(line), Language::Chinese);
    assert_eq!(spoken("cb csub -"), Language::Chinese);
    assert_eq!(spoken("cb _"), Language::Chinese);
    assert_eq!(spoken("bsub -"), Language::English);
    assert_eq!(spoken("cb bjobs -"), Language::English);
}

#[test]
fn values_follow_from_their_options() {
    assert_eq!(proposed("csub -q n"), ["normal", "night"]);
    assert_eq!(proposed("bsub -q ni"), ["night"]);
    assert_eq!(proposed("csub -qni"), ["-qnight"]);
    assert_eq!(proposed("csub --q"), [""; 0]);
    assert_eq!(proposed("cjobs -aq ni"), ["night"]);
    assert_eq!(proposed("cjobs -m h"), ["h1", "h2"]);
    assert_eq!(proposed("cjobs -m h1,h"), ["h1,h2"]);
    assert_eq!(proposed("ckill -s US"), ["USR1", "USR2"]);
    assert_eq!(
        proposed("cevents -e started,su"),
        ["started,submitted", "started,suspended"]
    );
    assert_eq!(proposed("cacct -by q"), ["queue"]);
    assert_eq!(proposed("cadmin dev up --cgroup a"), ["auto"]);
    assert_eq!(proposed("badmin showconf _"), ["mbd", "sbd", "lim"]);
    assert_eq!(proposed("cadmin alert _"), ["list", "silence", "unsilence"]);
    assert_eq!(proposed("ctoken _"), ["create", "list", "revoke"]);
    assert_eq!(proposed("ctoken revoke _"), [""; 0]);
    assert_eq!(ask("zsh", "csub -i _"), ["files"]);
    assert_eq!(ask("zsh", "csub -cwd _"), ["dirs"]);
    assert_eq!(ask("zsh", "cadmin init _"), ["dirs"]);
    assert_eq!(ask("zsh", "csub -n _"), ["words"]);
    for (line, live) in [
        ("csub -G _", ClusterNames::Groups),
        ("cjobs -u _", ClusterNames::Users),
        ("csub -P _", ClusterNames::Projects),
        ("csub -g _", ClusterNames::JobGroups),
        ("ckill -g _", ClusterNames::JobGroups),
        ("cjobs -J _", ClusterNames::JobNames),
        ("ccron show _", ClusterNames::CronJobs),
        ("climits -n _", ClusterNames::Limits),
        ("cqueues _", ClusterNames::Queues),
        ("chosts _", ClusterNames::Hosts),
        ("cadmin qclose _", ClusterNames::Queues),
        ("badmin hopen _", ClusterNames::Hosts),
        ("bmgroup _", ClusterNames::HostGroups),
        ("cmgroup _", ClusterNames::HostGroups),
        ("cugroup _", ClusterNames::Groups),
        ("ckill _", ClusterNames::Jobs(JobStates::Unfinished)),
        ("cresume _", ClusterNames::Jobs(JobStates::Suspended)),
        ("ctop _", ClusterNames::Jobs(JobStates::Waiting)),
        ("bpeek _", ClusterNames::Jobs(JobStates::Any)),
        ("cswitch _", ClusterNames::Queues),
        ("cswitch night _", ClusterNames::Jobs(JobStates::Waiting)),
        ("cadmin alert silence _", ClusterNames::Alerts),
    ] {
        assert_eq!(asked(line), Some(live), "{line}");
    }
    assert_eq!(asked("ctop 7 _"), None);
    assert_eq!(asked("cadmin alert silence one _"), None);
}

#[test]
fn a_list_of_fields_goes_on_within_its_quotes() {
    let line = |last: &str| {
        let words = ["cjobs", "-o", last].map(str::to_owned);
        answer("bash", &words, &names)
    };
    assert_eq!(line("jobi"), "words\njobid\njobindex\n");
    assert_eq!(line("\"jobid stat que"), "words\njobid stat queue\n");
    assert_eq!(line("'stat jobid jobi"), "words\nstat jobid jobindex\n");
}

#[test]
fn a_job_is_proposed_once_and_as_its_shell_writes_it() {
    assert_eq!(
        ask("fish", "ckill 12 1")[1..],
        ["103\tPEND sim", "12[3]\tRUN"]
    );
    assert_eq!(ask("bash", "ckill 12[")[1..], ["12\\[3\\]"]);
    let list = ask("bash-list", "ckill 1");
    assert_eq!(
        list[1..],
        [
            "12       (RUN sim)",
            "103      (PEND sim)",
            "12\\[3\\]  (RUN)"
        ]
    );
    assert_eq!(ask("bash-list", "ckill 10")[1..], ["103"]);
}

#[test]
fn words_that_bash_took_apart_are_put_together() {
    assert_eq!(ask("bash", "csub --oo=x --wait = 5 -q ni")[1..], ["night"]);
    assert_eq!(ask("bash", "cjobs --q = ni"), ["words"]);
    assert_eq!(ask("bash", "csub -J a:b -q ni")[1..], ["night"]);
    assert_eq!(ask("bash", "cevents --after = x -q ni")[1..], ["night"]);
    let join = |line: &str| line::join_split_words(&words(line));
    assert_eq!(join("c --by = us"), (words("c --by=us"), 5));
    assert_eq!(join("c --by ="), (words("c --by="), 5));
    assert_eq!(join("c --by = _"), (words("c --by= _"), 0));
    assert_eq!(join("c a : b x"), (words("c a:b x"), 0));
    assert_eq!(ask("bash", "cacct --by = us")[1..], ["user"]);
}

#[test]
fn what_is_too_long_or_no_text_has_no_answer() {
    assert_eq!(answer("bash", &[], &names), "");
    assert_eq!(line::unquoted(r#"a\ b"c\"d"'e\f'"#), r#"a bc"de\f"#);
}

fn bed() -> TestView {
    let bed = TestView::new();
    bed.put(
        view::PARAMS,
        &[Params {
            host_groups: vec![("rack1".into(), vec!["h1".into()])],
            user_groups: vec![("dev".into(), vec!["u10".into()], String::new())],
            alert_rules: vec!["low_disk".into()],
            ..Params::default()
        }],
    );
    bed.put(
        view::QUEUES,
        &[QueueRow {
            name: "night".into(),
            description: "Long jobs".into(),
            ..QueueRow::default()
        }],
    );
    bed.put(
        view::HOSTS,
        &[HostRow {
            name: "h1".into(),
            status: "ok".into(),
            slots: 4,
            ..HostRow::default()
        }],
    );
    let mut rows = vec![spec(1, 10), spec(2, 20)];
    for id in 1..=60 {
        rows.push(job(JobKey::job(id), 1, JobStat::Run));
    }
    let mut held = row(JobKey::job(61), 1, JobStat::Psusp);
    held.name = "held".into();
    rows.push(Row::Job(Box::new(held)));
    rows.push(job(JobKey::job(62), 1, JobStat::Done));
    rows.push(job(JobKey::element(61, 2), 1, JobStat::Pend));
    rows.push(job(JobKey::job(70), 2, JobStat::Run));
    bed.publish(&[("j0", rows)]);
    bed
}

#[test]
fn names_come_from_the_published_view() {
    let bed = bed();
    let source = bed.source("cb", 10);
    let names = |live, word: &str| live::of_source(&source, live, word);
    let one = |word: &str, about: &str| vec![Candidate::new(word, about)];
    assert_eq!(
        names(ClusterNames::Queues, ""),
        one("night", "closed; Long jobs")
    );
    assert_eq!(names(ClusterNames::Hosts, "h"), one("h1", "ok, 4 slots"));
    assert_eq!(names(ClusterNames::Hosts, "r"), one("rack1", "host group"));
    assert_eq!(names(ClusterNames::Users, "u"), one("u10", "you"));
    assert_eq!(names(ClusterNames::Groups, ""), one("dev", "user group"));
    assert_eq!(names(ClusterNames::Limits, ""), []);
    assert_eq!(names(ClusterNames::Alerts, "low"), one("low_disk", ""));
    let jobs = names(ClusterNames::Jobs(JobStates::Unfinished), "");
    assert_eq!(jobs.len(), 50);
    assert_eq!(jobs[0], Candidate::new("61", "PSUSP held"));
    assert!(!jobs.iter().any(|c| c.word == "70"), "of another user");
    assert_eq!(names(ClusterNames::Jobs(JobStates::Any), "62").len(), 1);
    assert_eq!(names(ClusterNames::Jobs(JobStates::Unfinished), "62"), []);
    assert_eq!(names(ClusterNames::Jobs(JobStates::Suspended), "").len(), 1);
    assert_eq!(
        names(ClusterNames::Jobs(JobStates::Any), "61["),
        one("61[2]", "PEND")
    );
    assert_eq!(names(ClusterNames::JobNames, "he"), one("held", ""));
}

/// The help of a table of options, as the command itself prints it.
fn help(mut options: clap::Command) -> String {
    options = options.term_width(100);
    options.render_help().to_string()
}

fn golden(name: &str) -> String {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/cli");
    std::fs::read_to_string(format!("{dir}/{name}.txt")).unwrap()
}

#[test]
fn the_options_of_completion_are_those_that_each_command_reads() {
    let mut seen = 0;
    for name in client::COMMANDS.iter().flat_map(|e| e.names) {
        if !["ccron", "aip"].contains(name) {
            let options = options::of(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(help(options).trim(), golden(name).trim(), "{name}");
            seen += 1;
        }
    }
    for (name, options) in options::of_ccron() {
        assert_eq!(
            help(options).trim(),
            golden(&format!("ccron-{name}")).trim()
        );
        seen += 1;
    }
    for sub in crate::admin::subcommands("cadmin") {
        let name = format!("cadmin-{}", sub.name);
        assert_eq!(help(sub.options).trim(), golden(&name).trim(), "{name}");
        seen += 1;
    }
    assert!(seen > 60, "{seen}");
}

#[test]
fn the_files_of_the_shells_name_every_command() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/etc/completions");
    for file in ["bash/corral", "zsh/_corral", "fish/corral.fish"] {
        let text = std::fs::read_to_string(format!("{dir}/{file}")).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        let all = std::iter::once("cb").chain(crate::commands::names());
        for name in all.chain(crate::commands::lsf_names()) {
            assert!(words.contains(&name), "{file} lacks {name}");
        }
    }
}
