//! One mistake has one exit code in every command, that of the table in cb(1), and the answer names
//! what was meant. The commands are those that `cb -h` lists: a new one cannot be forgotten.

use crate::cluster::Cluster;
use std::collections::BTreeSet;
use std::process::Output;

/// Users' commands that take no job, or none without more: of each of the others a job that does
/// not exist is asked.
const NO_JOBS: &[&str] = &[
    "csub", "cslots", "claunch", "ctasks", "capps", "cqueues", "chosts", "cload", "cinfo",
    "climits", "cusers", "cugroup", "cmgroup", "cparams", "cid", "cadmin", "ccron", "aip", "cview",
    "clogin", "ctoken", "cgadd", "cgmod", "cgdel", "cjgroup",
];

/// What stands before the job.
fn before_job(command: &str) -> &'static [&'static str] {
    match command {
        "cmod" => &["-W", "5"],
        "cswitch" => &["normal"],
        "crestart" => &["/nowhere"],
        "crun" => &["-m", "h1"],
        _ => &[],
    }
}

/// What a command needs beside the option that selects.
fn operands(command: &str) -> &'static [&'static str] {
    match command {
        "ckill" | "cstop" | "cresume" | "crequeue" | "cchkpnt" | "cmig" => &["0"],
        "cswitch" => &["normal", "0"],
        "cmod" | "crun" => &["1"],
        "csub" => &["true"],
        _ => &[],
    }
}

/// Options that take a name, a mistyped one, and what was meant.
const NAMES: &[(&str, &str, &str)] = &[
    ("q", "normla", "normal"),
    ("m", "hh1", "h1"),
    ("u", "rooot", "root"),
];

/// Where such an option takes no name, or not one that must exist.
const OTHER_MEANING: &[(&str, &str)] = &[
    // A flag: the hosts of each resource.
    ("cinfo", "m"),
    // Addresses of mail, accepted without effect; csub and cmod name no other user.
    ("csub", "u"),
    ("cmod", "u"),
    // The checkpoint is looked for first.
    ("crestart", "q"),
    ("crestart", "m"),
    // A file of hosts.
    ("claunch", "u"),
];

/// Operands and values that name something.
const OPERANDS: &[(&str, &str)] = &[
    ("cqueues normla", "normal"),
    ("capps fluet", "fluent"),
    ("capps check fluet", "fluent"),
    ("chosts hh1", "h1"),
    ("cload hh1", "h1"),
    ("cusers rooot", "root"),
    ("cinfo meem", "mem"),
    ("cload -I meem", "mem"),
    ("cswitch normla 1", "normal"),
    ("cadmin qclose normla", "normal"),
    ("cadmin hclose hh1", "h1"),
    ("cview -once -screen host hh1", "h1"),
];

/// Values above a limit of the cluster, or that a queue does not take.
const ABOVE: &[(&str, &str)] = &[
    ("csub -sp 101 true", "largest user priority 100"),
    ("csub -J a[1-200000] true", "max_array_size"),
    ("csub -x true", "exclusive"),
];

struct Bed {
    cluster: Cluster,
    wrong: String,
}

impl Bed {
    fn check(&mut self, words: &[&str], code: i32, says: &[&str]) {
        let got: Output = self.cluster.run(words[0], &words[1..]);
        let err = String::from_utf8_lossy(&got.stderr);
        let all = says.iter().all(|part| err.contains(part));
        if got.status.code() != Some(code) || !all {
            let (line, status) = (words.join(" "), got.status);
            self.wrong += &format!("\n{line}: {status}, not {code} with {says:?}: {err}");
        }
    }
}

/// The first name of each command.
fn commands(cluster: &Cluster) -> Vec<String> {
    let help = cluster.run("cb", &["-h"]);
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    let rows = text.lines().skip_while(|line| !line.starts_with("  csub"));
    let rows = rows.take_while(|line| !line.is_empty());
    let first = rows.filter_map(|row| row.split_whitespace().next());
    first
        .map(|name| name.trim_end_matches(',').to_owned())
        .collect()
}

/// The letters of the options that take a value, as the command's help lists them.
fn letters(cluster: &Cluster, command: &str) -> BTreeSet<String> {
    let help = cluster.run(command, &["-h"]);
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    let word = |line: &str| {
        let mut words = line.trim_start().strip_prefix('-')?.split_whitespace();
        let letter = words.next().filter(|word| word.len() == 1)?;
        words.next().filter(|value| value.starts_with('<'))?;
        Some(letter.to_owned())
    };
    text.lines().filter_map(word).collect()
}

#[test]
fn one_mistake_has_one_exit_code_in_every_command() {
    let cluster = Cluster::up("--hosts 2 --slots 2 --masters 1");
    let held = cluster.run("csub", &["-H", "true"]);
    assert!(held.status.success());
    let commands = commands(&cluster);
    assert!(commands.len() > 25, "{commands:?}");
    let mut bed = Bed {
        cluster,
        wrong: String::new(),
    };
    let mut named = 0;
    for command in commands.iter().map(String::as_str) {
        if command != "cadmin" {
            bed.check(&[command, "-Xyzzy"], 2, &["unknown option '-Xyzzy'"]);
        }
        if !NO_JOBS.contains(&command) {
            let line = [&[command], before_job(command), &["99"]].concat();
            bed.check(&line, 1, &["99"]);
            let line = [&[command], before_job(command), &["1x"]].concat();
            bed.check(&line, 2, &["1x"]);
        }
        let letters = letters(&bed.cluster, command);
        for (letter, name, meant) in NAMES {
            if !letters.contains(*letter) || OTHER_MEANING.contains(&(command, letter)) {
                continue;
            }
            let option = format!("-{letter}");
            let line = [&[command, &option, name], operands(command)].concat();
            let hint = format!("did you mean \"{meant}\"?");
            bed.check(&line, 1, &[name, &hint]);
            named += 1;
        }
    }
    assert!(named > 25, "{named} options that take a name were tried");
    for (line, meant) in OPERANDS {
        let words: Vec<&str> = line.split(' ').collect();
        bed.check(&words, 1, &[&format!("did you mean \"{meant}\"?")]);
    }
    for (line, says) in ABOVE {
        let words: Vec<&str> = line.split(' ').collect();
        bed.check(&words, 4, &[says]);
    }
    let job = |id| ["cview", "-once", "-screen", "job", id];
    bed.check(&job("99"), 1, &["Job <99> is not found"]);
    bed.check(&job("1x"), 2, &["1x"]);
    bed.check(&["cadmin", "qclos"], 2, &["did you mean \"qclose\"?"]);
    bed.check(&["cjobs", "-nohaeder"], 2, &["did you mean -noheader?"]);
    bed.check(
        &["csub", "-R", "select[meem>1]", "true"],
        2,
        &["did you mean mem?"],
    );
    bed.check(
        &["cparams", "extra"],
        2,
        &["cparams: unexpected argument 'extra'"],
    );
    for line in [
        "csub -pack /none",
        "csub -is /none true",
        "claunch -u /none true",
        "cadmin ckconfig /none",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        bed.check(&words, 2, &["cannot open /none: No such file"]);
    }
    assert!(bed.wrong.is_empty(), "{}", bed.wrong);
}
