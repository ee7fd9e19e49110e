//! The languages of commands: that the catalogue has what the sources say, and nothing that they do
//! not; and what commands say in a real cluster, by locale.
//!
//! What is not in the catalogue is named here, with the reason. docs/languages.md has the rules.

use crate::cluster::{Cluster, text};
use crate::{source, tidy};
use corral::language::{Entry, Language, PatternPart, entries, pattern_parts};
use std::process::Output;

/// Where sentences that people read come from. The others write logs and files.
const SPEAK: &[&str] = &[
    "src/admin/",
    // Options of programs and why they do not start; the rest of the daemons is logged.
    "src/bin/",
    "src/cbsim.rs",
    "src/client/",
    "src/commands/",
    "src/commands.rs",
    "src/config/",
    "src/drmaa/",
    "src/export/",
    "src/faults/cli.rs",
    "src/host/exe/mod.rs",
    "src/host/ls.rs",
    "src/host/setup.rs",
    "src/intake/",
    // What the leader and the hosts warn of, as cid -l and cinfo -health show it.
    "src/journal/recover.rs",
    "src/journal/snapshot.rs",
    "src/master/accounting.rs",
    "src/master/alarms.rs",
    "src/master/disk_reserve.rs",
    "src/master/hosts.rs",
    "src/master/hosts/",
    "src/master/mod.rs",
    "src/master/inbox/directory.rs",
    "src/master/notifier.rs",
    "src/master/outbox.rs",
    "src/master/requests.rs",
    "src/master/snapshots.rs",
    "src/master/summary.rs",
    "src/model/",
    "src/notify/main.rs",
    "src/record/frame.rs",
    "src/replay/",
    "src/sched/",
    "src/show/alert.rs",
    "src/show/health.rs",
    "src/show/history.rs",
    "src/show/history/",
    "src/show/job_long.rs",
    "src/show/job_tasks.rs",
    "src/spool/",
    "src/text/",
    "src/turn/",
    "src/web/command.rs",
    "src/web/service.rs",
    "src/web/tls.rs",
];

/// Files that say nothing in Chinese.
const NOT_THESE: &[&str] = &[
    // Called by the names of others: programs read what they say.
    "src/client/slurm",
    "src/client/slurm.rs",
    "src/client/lsf_names.rs",
    "src/client/csub/sbatch_job.rs",
    "src/admin/badmin.rs",
    "src/admin/lsf_conf.rs",
    "src/admin/showconf.rs",
    // Half of it is the help of sbatch; what refuses a line of a script is in the catalogue.
    "src/client/csub/foreign/slurm_table.rs",
    // Tables in LSF's form.
    "src/client/cacct/print.rs",
    // Command lines; what they do is in the catalogue, see the test of the help.
    "src/client/examples.rs",
    // Texts of files.
    "src/admin/diag.rs",
    "src/admin/diag/",
    "src/config/shown.rs",
    "src/config/starter.rs",
    // Descriptions that are values of a table.
    "src/text/resreq/table.rs",
    "src/intake/roles.rs",
    // Started by cbexe, with options that only cbexe gives.
    "src/bin/cbtask.rs",
    // A drawing.
    "src/replay/plot.rs",
    // Internal: checks of the state, of identifiers.
    "src/model/id.rs",
    "src/model/slurm.rs",
    "src/sched/allocations.rs",
    "src/sched/units.rs",
];

/// Literals that are no sentences: command lines, usage, names of columns, what is made of parts
/// whose whole is in the catalogue, and what stays English for the programs that read it.
const NOT_THIS: &[&str] = &[
    // Programs look for these lines.
    "Job <{}> is submitted to {default}queue <{}>.",
    "job <{}> is submitted to queue <{}>",
    "#{line} Job <{id}> is",
    "#{}-{last} Jobs {ids} are",
    "Line{jobs} submitted to {default}queue <{}>.",
    "My cluster name is {}",
    "Portal: {}/login#{secret}",
    "(valid for a minute; `cb login` prints another link)",
    // Of sbatch.
    "Unable to open file {name}: {e}",
    "This does not look like a batch script.  The first",
    "line must start with #! followed by the path to an interpreter.",
    "For instance: #!/bin/sh",
    // Titles in LSF's form.
    "Summary of time in seconds spent in various states:",
    "Summary of time in seconds spent in various states by",
    // Keys, which a person presses.
    "Up Down k j",
    "Home End g G",
    // Columns.
    "name kind users description",
    "ID            SCOPE   UNTIL         NOTE",
    // Usage.
    "[show|check|tunnel] APPLICATION",
    "[show|check] APPLICATION",
    "aip host res [OPTIONS]",
    "aip job submit FILE [OPTIONS]",
    "aip cronjob create|edit|info|list|show|enable|disable|start|kill|remove|next|import ...",
    "[HOST] COMMAND",
    "FILE OP FILE",
    "DIR [init=MIN] [MIN] [method=NAME]",
    "JOB... | CONDITION",
    "JOB [POSITION]",
    "cswitch [OPTIONS] QUEUE JOB...",
    "QUEUE JOB",
    "CHKPNT_DIR [JOB]",
    "[-C COMMENT] [QUEUE...|all]",
    "[-C COMMENT] [HOST...|all]",
    "[-l SECONDS] [HOST...|all]",
    "add|remove NAME ...",
    "list | silence ALERT --for TIME --because TEXT | unsilence ALERT",
    "view [-json] | start [SECONDS] | stop | setperiod SECONDS",
    "--confirm HOST",
    "[--file FILE]",
    "[-q] [--json] [DIR]",
    "[--out FILE] [--names]",
    "[-f] [-n N] [--json] [JOB...]",
    "done exit",
    "queues: {}, hosts: {}",
    "users: {}, queues: {}",
    "watch: metric",
    "watch: resource",
    "startdeadline (minutes)",
    "document at line {line}:",
    "number, increase",
    "number, decrease",
    ", per unit of {}",
    "leaves the cluster (cadmin host remove)",
    // Settings of a development cluster.
    "--hosts {} --slots {} --masters {} --lease {}s --cgroup {cgroup}",
    "lease_timeout: {}ms",
    "allow_root_jobs: yes",
    // The name of a subcommand before what it says.
    "cadmin check: {}",
    "cadmin host add",
    "cadmin host remove",
    "cadmin journal export",
    "cadmin reconfig: {}",
    // What an alarm is remembered by; an act before the path of an error.
    "inbox names",
    "encode for",
    // What cbsim writes into configurations and workloads.
    "cluster: {name: aleang, administrators: [root]}",
    "- {name: cluster, type: text}",
    "- {name: default, slots: 1}",
    "- {names: '{names}', resources: {cluster: {name}}}",
    "- {name: {name}, members: '{}'}",
    "general: {hist_hours: {ALEANG_HIST_HOURS}}",
    "- {name: {}, members: '{}', fairshare: '{}'}",
    "backfill_hosts: free",
    "- {name: {kind}_{name}, {key}: {name}, slots: {most}}",
    "cluster: {name: openb, administrators: [root]}",
    "- {name: vcpu, type: number, direction: decrease}",
    "- {name: ram, type: number, direction: decrease}",
    "- {name: {name}, slots: 1000, resources: {vcpu: {}, ram: {ram}{units}}{model}}",
    "- {name: normal, packing: {packing}}",
    "backfill_order: shortest",
    "name: sim",
    "administrators: [root]",
    "- {name: sim, slots: {procs}}",
    "- name: normal",
    "; Computer: synthetic, made by cbsim generate",
    // Logged, or shown by systemd.
    "looks for the server",
    "serving all users",
    "follows orders",
    "reports the load",
    "events up to {}; {} documents stored, {} were there, {} rejected, {} requests repeated, {} \
     gaps, {} damaged places, {} samples missed",
    // In the file of what Elasticsearch has rejected.
    "larger than the server accepts",
    // The name that DRMAA asks for.
    "libdrmaa of Corral",
    // Of a defect of the program.
    "slots are given back that were never taken",
    // Parts.
    ", of the speed of {on}",
    "from a sensor",
    "declared in cb.yaml",
    "what fits has units",
];

/// A sentence of ours: two words with a blank between them, not counting what varies.
fn is_sentence(text: &str) -> bool {
    let mut own = String::new();
    for piece in pattern_parts(text) {
        own.push_str(match piece {
            PatternPart::Text(text) => text,
            PatternPart::Value(..) => "\0",
        });
    }
    let word = |word: &&str| {
        let mut run = 0;
        word.chars().any(|c| {
            run = if c.is_ascii_alphabetic() { run + 1 } else { 0 };
            run > 1
        })
    };
    own.split(' ').filter(word).count() > 1
}

/// A line for a shell.
fn is_shell_line(text: &str) -> bool {
    const BUILTINS: &[&str] = &[
        "cd", "echo", "eval", "exec", "export", "for", "seq", "unset",
    ];
    let Some((first, rest)) = text.split_once(' ') else {
        return false;
    };
    let has_marks = rest.contains(['$', '=', '&']);
    BUILTINS.contains(&first) && (has_marks || !rest.contains(|c: char| c.is_ascii_lowercase()))
}

/// A label or title in LSF's form, or columns: each word of its own begins with a capital letter.
fn is_label(file: &str, text: &str) -> bool {
    let is_page = file.starts_with("src/show/") || file.starts_with("src/client/cacct/");
    let is_title = |word: &str| {
        let word =
            word.trim_start_matches(|c: char| !c.is_ascii_alphabetic() && c != '<' && c != '{');
        !word.starts_with(|c: char| c.is_ascii_lowercase())
    };
    is_page && text.split(' ').all(is_title)
}

/// Words of command lines, one after the other.
fn is_command_line(text: &str) -> bool {
    let mut quotes = text.split('\'').step_by(2);
    let bare: String = match text.starts_with('\'') {
        true => text.to_owned(),
        false => quotes.by_ref().collect(),
    };
    bare.split("; ").all(|line| {
        let line = line.trim_end();
        corral::commands::names().any(|name| name == line) || is_one_command_line(line)
    })
}

/// Words of a command line: the name of a command, then what it is given.
fn is_one_command_line(text: &str) -> bool {
    let Some((first, rest)) = text.split_once(' ') else {
        return false;
    };
    let rest_is_given = rest.split(' ').all(|word| {
        let start = word.trim_start_matches(['\'', '"', '[']);
        !start.starts_with(|c: char| c.is_ascii_lowercase()) || word.contains('=')
    });
    let sub = rest.split(' ').next().unwrap_or_default();
    let is_sub = !rest.contains(' ') || rest.split(' ').nth(1).is_some_and(|w| w.starts_with('{'));
    corral::commands::names().any(|name| name == first)
        && (rest_is_given || is_sub && sub.bytes().all(|c| c.is_ascii_lowercase() || c == b'-'))
}

/// The literals of a file that people may read, line by line, each with its line number.
fn said_by(file: &str) -> Vec<(usize, String)> {
    let text = source::read(file);
    let blanked = source::blank(&text);
    let tests = source::test_ranges(&blanked);
    let silent = |at: usize| {
        let before = &text[..at];
        let before = before.trim_end_matches(|c: char| c.is_whitespace());
        let calls = [
            "expect(",
            "debug!(",
            "info!(",
            "warn!(",
            "error!(",
            "trace!(",
            "panic!(",
            "unreachable!(",
            "hit(",
            "assert!(",
        ];
        let attribute = before
            .rfind("#[")
            .is_some_and(|open| !before[open..].contains(']'));
        calls.iter().any(|call| before.ends_with(call)) || attribute
    };
    let mut out = Vec::new();
    for (at, literal) in source::literals(&text) {
        if silent(at) || tests.iter().any(|range| range.contains(&at)) {
            continue;
        }
        let line = source::line_of(&text, at);
        let literal = literal.replace("{{", "{").replace("}}", "}");
        let lines = literal
            .lines()
            .map(str::trim)
            .filter(|line| is_sentence(line));
        out.extend(lines.map(|part| (line, part.to_owned())));
    }
    out
}

/// The comments of a file that clap prints as help, each with its line number: those of a program,
/// of options, subcommands and values.
fn helped_by(file: &str) -> Vec<(usize, String)> {
    let text = source::read(file);
    let blanked = source::blank(&text);
    let tests = source::test_ranges(&blanked);
    let mut out = Vec::new();
    for (at, mark) in blanked.match_indices("#[derive(") {
        let list = &blanked[at + mark.len()..];
        let list = &list[..list.find(')').unwrap_or(list.len())];
        let derives = |name: &str| list.split([',', ' ', ':']).any(|word| word == name);
        if !["Parser", "Args", "Subcommand", "ValueEnum"]
            .iter()
            .any(|name| derives(name))
            || tests.iter().any(|range| range.contains(&at))
        {
            continue;
        }
        let open = at + blanked[at..].find('{').expect("a type has a body");
        let first = source::line_of(&text, open);
        let last = source::line_of(&text, source::body_end(&blanked, open));
        let above: Vec<&str> = text[..at].lines().collect();
        let comment = above
            .iter()
            .rev()
            .take_while(|line| is_comment(line))
            .count();
        let lines: Vec<&str> = text.lines().collect();
        if derives("Parser") {
            paragraphs(&lines, above.len() - comment, above.len(), &mut out);
        }
        paragraphs(&lines, first, last, &mut out);
    }
    out
}

fn is_comment(line: &str) -> bool {
    line.trim().starts_with("///")
}

/// The paragraphs of the comments between two lines, as clap joins their lines.
fn paragraphs(lines: &[&str], from: usize, to: usize, out: &mut Vec<(usize, String)>) {
    let mut open = String::new();
    for (n, line) in lines.iter().enumerate().take(to).skip(from) {
        let words = line.trim().strip_prefix("///").unwrap_or_default().trim();
        if !words.is_empty() {
            let blank = if open.is_empty() { "" } else { " " };
            open.push_str(blank);
            open.push_str(words);
        } else if !open.is_empty() {
            let text = std::mem::take(&mut open);
            out.push((n, text.trim_end_matches('.').to_owned()));
        }
    }
}

fn speaking_files() -> Vec<String> {
    let mut all = source::files("src", &["rs"]);
    all.retain(|file| {
        SPEAK.iter().any(|dir| file.starts_with(dir))
            && !NOT_THESE.iter().any(|not| file.starts_with(not))
            && !tidy::is_test_file(file)
            && !file.contains("test_")
    });
    all
}

/// The catalogue has the text: as a sentence, or as a part of a pattern.
fn is_known(text: &str, patterns: &str) -> bool {
    let text = ["hint: ", "warning: "]
        .iter()
        .fold(text, |t, start| t.strip_prefix(start).unwrap_or(t));
    if patterns.contains(text) || patterns.contains(text.trim_matches([' ', ';', ':', ',', '.'])) {
        return true;
    }
    let output = Language::Chinese.translate(text);
    output
        .chars()
        .any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c))
}

#[test]
fn the_catalogue_has_every_sentence_that_people_read() {
    let all: Vec<String> = entries().into_iter().map(|entry| entry.english).collect();
    let patterns = all.join("\n");
    let (mut wrong, mut seen) = (Vec::new(), 0);
    let mut excused: Vec<&str> = Vec::new();
    for file in speaking_files() {
        for (line, part) in said_by(&file) {
            seen += 1;
            if let Some(known) = NOT_THIS.iter().find(|known| **known == part) {
                excused.push(known);
            } else if !is_command_line(part.trim_start_matches("hint: ").trim_matches('\''))
                && !is_shell_line(&part)
                && !is_label(&file, &part)
                && !is_known(&part, &patterns)
            {
                wrong.push(format!("{file}:{line}: {part}"));
            }
        }
    }
    let mut helped = 0;
    for file in source::files("src", &["rs"]) {
        for (line, text) in helped_by(&file) {
            helped += 1;
            if Language::Chinese.translate(&text) == text {
                wrong.push(format!("{file}:{line}: {text}"));
            }
        }
    }
    assert!(seen > 1500, "the sources were not understood: {seen}");
    assert!(helped > 80, "the help was not understood: {helped}");
    assert!(
        wrong.is_empty(),
        "src/language/zh_CN.po lacks (docs/languages.md)\n{}",
        wrong.join("\n")
    );
    let unused: Vec<_> = NOT_THIS
        .iter()
        .filter(|known| !excused.contains(known))
        .collect();
    assert!(
        unused.is_empty(),
        "exceptions that nothing needs: {unused:?}"
    );
}

/// All that the sources say, comments that become help included.
fn haystack() -> String {
    let mut out = String::new();
    for file in source::files("src", &["rs"]) {
        if file.starts_with("src/language") || tidy::is_test_file(&file) {
            continue;
        }
        let text = source::read(&file);
        for (_, literal) in source::literals(&text) {
            out.push_str(&literal.replace("{{", "{").replace("}}", "}"));
            out.push('\n');
        }
        for line in text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("///"))
        {
            out.push_str(line.trim());
            out.push('\n');
        }
        for (_, text) in helped_by(&file) {
            out.push_str(&text);
            out.push('\n');
        }
    }
    out
}

#[test]
fn the_catalogue_has_no_sentence_that_nothing_says() {
    let output = haystack();
    let mut wrong = Vec::new();
    for Entry { english, flag, .. } in entries() {
        // What clap and the operating system say is not in our sources.
        if ["clap", "system"].contains(&flag) {
            continue;
        }
        let texts: Vec<&str> = pattern_parts(&english)
            .into_iter()
            .filter_map(|piece| match piece {
                PatternPart::Text(text) => Some(text.trim()),
                PatternPart::Value(..) => None,
            })
            .collect();
        let missing = |text: &&&str| !output.contains(**text);
        let part = match flag {
            // Put together of parts: their words must be there.
            "joint" | "count" => texts
                .iter()
                .flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric()))
                .map(|word| {
                    if flag == "count" {
                        word.trim_end_matches("es").trim_end_matches('s')
                    } else {
                        word
                    }
                })
                .filter(|word| word.len() > 2)
                .find(|word| !output.contains(word))
                .map(str::to_owned),
            _ => texts.iter().find(missing).map(|text| (*text).to_owned()),
        };
        if let Some(part) = part {
            wrong.push(format!("{english}: nothing says {part:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs a command with a locale.
fn run(cluster: &Cluster, locale: &[(&str, &str)], name: &str, args: &[&str]) -> Output {
    let mut command = cluster.command(name);
    for variable in ["LC_ALL", "LC_MESSAGES", "LANG", "LANGUAGE"] {
        command.env_remove(variable);
    }
    command.envs(locale.iter().copied()).args(args);
    command.output().unwrap()
}

const ZH: &[(&str, &str)] = &[("LANG", "zh_CN.UTF-8")];
const C: &[(&str, &str)] = &[("LANG", "zh_CN.UTF-8"), ("LC_ALL", "C")];

#[test]
fn commands_speak_the_language_of_the_locale() {
    let cluster = Cluster::up("--hosts 1 --slots 1 --masters 1");
    let out = |locale, name, args: &[&str]| {
        let out = run(&cluster, locale, name, args);
        (
            String::from_utf8(out.stdout).unwrap(),
            String::from_utf8(out.stderr).unwrap(),
        )
    };
    // A refusal of the leader, found here; in the C locale, and by a name of LSF's, English.
    let wrong = ["-q", "nrmal", "true"];
    let (_, output) = out(ZH, "csub", &wrong);
    assert_eq!(
        output,
        "csub: 没有队列 \"nrmal\"；是不是 \"normal\"？ 作业没有提交。\n"
    );
    let english = "there is no queue \"nrmal\"; did you mean \"normal\"? Job not submitted.\n";
    assert_eq!(out(C, "csub", &wrong).1, format!("csub: {english}"));
    assert_eq!(out(ZH, "bsub", &wrong).1, format!("bsub: {english}"));
    // What programs read is the same everywhere.
    let (line, _) = out(ZH, "csub", &["-J", "作业一", "-H", "sleep", "1"]);
    assert_eq!(line, "Job <1> is submitted to default queue <normal>.\n");
    out(ZH, "csub", &["-w", "done(1)", "true"]);
    let header = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let (table, _) = out(ZH, "cjobs", &["-p"]);
    assert_eq!(header(&table), header(&out(C, "cjobs", &["-p"]).0));
    assert!(table.contains("\n 等待依赖条件 done(1);\n"), "{table}");
    assert!(
        out(ZH, "cjobs", &["-l", "1"])
            .0
            .contains("\n 被属主保持;\n")
    );
    for (name, args) in [
        ("cjobs", &["-json", "1"][..]),
        ("cjobs", &["-o", "pend_reason", "2"]),
        ("cjobs", &["--json", "1"]),
        ("bjobs", &["-p", "2"]),
        ("squeue", &[]),
    ] {
        assert_eq!(out(ZH, name, args), out(C, name, args), "{name} {args:?}");
    }
    // An answer, and the language of the leader's clients is not that of what is on the share.
    assert_eq!(out(ZH, "ckill", &["1"]).0, "作业 <1> 正在终止\n");
    let (journal, _) = out(C, "cadmin", &["journal"]);
    assert!(!journal.contains("终止"), "{journal}");
    let all = run(&cluster, ZH, "cadmin", &["check"]);
    let stdout = String::from_utf8_lossy(&all.stdout).into_owned();
    assert!(stdout.contains("没有发现问题"), "{}", text(&all));
}

#[test]
fn pages_are_chinese_and_what_programs_read_is_not() {
    let cluster = Cluster::up("--hosts 1 --slots 1 --masters 1");
    let out = |locale, name: &str, args: &[&str]| {
        let out = run(&cluster, locale, name, args);
        String::from_utf8(out.stdout).unwrap()
    };
    cluster.run("csub", &["-K", "exit 3"]);
    let holds = |name: &str, args: &[&str], parts: &[&str]| {
        let page = out(ZH, name, args);
        for part in parts {
            assert!(page.contains(part), "{name} {args:?} {part}\n{page}");
        }
    };
    for (name, args, parts) in [
        (
            "csub",
            &["--dry-run", "true"][..],
            &["没有提交任何作业", "  命令 ", "队列 normal 接受它。"][..],
        ),
        (
            "chist",
            &["-l", "1"],
            &["Job <1>, Job Name <exit 3>", "派发到主机 <h1>，1 个槽位;"],
        ),
        (
            "cjobs",
            &["-l", "1"],
            &["Status <EXIT>", "退出，退出码 3。所用 CPU 时间为"],
        ),
        ("cacct", &["-l", "1"], &["Completed <exit>; 退出码 3."]),
        ("cinfo", &["-health"], &["主调度器：h1，任期 1", "告警：无"]),
        (
            "cview",
            &["-once", "-a", "-f"],
            &["[3 作业]", "JOBID", "?:帮助"],
        ),
    ] {
        holds(name, args, parts);
    }
    let path = cluster.share().join("conf/cb.yaml");
    let config = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, config + "nonsense: 1\n").unwrap();
    holds("cadmin", &["check"], &["损坏 ", "        处理："]);
    for (name, args) in [
        ("bhist", &["-l", "1"][..]),
        ("bjobs", &["-l", "1"]),
        ("bacct", &["-l", "1"]),
        ("chist", &["--json", "-l", "1"]),
        ("cacct", &["--json", "1"]),
    ] {
        // The moment of asking stands in some of them.
        let steady = |text: String| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.contains("states by"));
            lines.map(str::to_owned).collect()
        };
        let (zh, c) = (out(ZH, name, args), out(C, name, args));
        assert!(!zh.is_empty(), "{name} {args:?}");
        assert_eq!(steady(zh), steady(c), "{name} {args:?}");
    }
}

/// Columns of a line up to the text.
fn column_of(line: &str, text: &str) -> usize {
    let before = line
        .split_once(text)
        .unwrap_or_else(|| panic!("{text}: {line}"))
        .0;
    before
        .chars()
        .map(|c| if c.is_ascii() { 1 } else { 2 })
        .sum()
}

#[test]
fn columns_are_aligned_beside_chinese_names() {
    let cluster = Cluster::up("--hosts 1 --slots 1 --masters 1");
    cluster.ok("csub", &["-J", "plain", "-H", "true"]);
    for name in ["作业一", "一个名字很长的作业"] {
        cluster.ok("csub", &["-J", name, "-w", "done(1)", "true"]);
    }
    for options in [&[][..], &["-p"]] {
        let out = run(&cluster, ZH, "cjobs", options);
        let table = String::from_utf8(out.stdout).unwrap();
        let mut rows = table.lines().filter(|line| !line.starts_with(' '));
        let at = column_of(rows.next().unwrap(), "SUBMIT_TIME");
        // Of a moment only the first letter of its month is known here.
        for row in rows {
            let month = row.split_whitespace().rev().nth(2).unwrap();
            assert_eq!(column_of(row, month), at, "{table}");
        }
    }
}

#[test]
fn help_is_chinese_where_the_locale_is() {
    let help = |words: &[&str], lang: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_cb"));
        let out = command
            .args(words)
            .arg("-h")
            .env_clear()
            .env("COLUMNS", "100")
            .env("LANG", lang);
        String::from_utf8(out.output().unwrap().stdout).unwrap()
    };
    for words in [
        &["csub"][..],
        &["cjobs"],
        &["ccron", "list"],
        &["cadmin", "dev"],
        &["cadmin", "dev", "up"],
        &["cadmin", "hclose"],
        &["cadmin"],
        &[],
    ] {
        let (zh, en) = (help(words, "zh_CN.UTF-8"), help(words, "C.UTF-8"));
        assert!(en.contains("Usage: ") && en.is_ascii(), "{words:?}\n{en}");
        assert!(
            zh.contains("用法：") && !zh.contains("Usage"),
            "{words:?}\n{zh}"
        );
        for title in [
            "Options:",
            "Arguments:",
            "Commands:",
            "Examples:",
            "Print help",
        ] {
            assert!(!zh.contains(title), "{title}: {words:?}\n{zh}");
        }
        let wide = |line: &&str| {
            let columns: usize = line.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum();
            columns > 110
        };
        let wide: Vec<&str> = zh.lines().filter(wide).collect();
        assert!(wide.is_empty(), "{words:?}: {wide:?}");
    }
}
