//! Golden help texts: what `-h` of every command and subcommand prints, in tests/golden/cli.
//!
//! A change of a text shows in the diff of its file. `BLESS=1 sbin/check golden` writes the files
//! again.

use crate::source;
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::Command;

const DIR: &str = "tests/golden/cli";

/// The help of a command, called by its link's name.
fn help(words: &[&str]) -> String {
    // Some of Slurm's commands have another option -h.
    let of_slurm = corral::commands::slurm_names().any(|name| name == words[0]);
    let out = Command::new(env!("CARGO_BIN_EXE_cb"))
        .arg0(words[0])
        .args(&words[1..])
        .arg(if of_slurm { "--help" } else { "-h" })
        .env_clear()
        .env("COLUMNS", "100")
        .output()
        .expect("cb runs");
    assert!(out.status.success(), "{words:?}: {out:?}");
    String::from_utf8(out.stdout).expect("help is text")
}

/// The subcommands that a help text lists: the first words of its indented lines, down to `end`.
fn listed<'h>(help: &'h str, from: &str, end: &str) -> Vec<&'h str> {
    let (_, rest) = help.split_once(from).unwrap_or_default();
    let lines = rest.lines().take_while(|line| *line != end);
    let entries = lines.filter_map(|line| line.strip_prefix("  "));
    let names = entries.filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()) && *name != "help")
        .collect()
}

/// File names and texts of all commands and subcommands.
fn all() -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut add = |words: &[&str]| {
        let text = help(words);
        all.insert(format!("{}.txt", words.join("-")), text.clone());
        text
    };
    add(&["cb"]);
    for name in corral::commands::slurm_names() {
        add(&[name]);
    }
    for name in corral::commands::names() {
        let text = add(&[name]);
        if !["cadmin", "ccron"].contains(&name) {
            continue;
        }
        for sub in listed(&text, "\n\n", "") {
            let text = add(&[name, sub]);
            for part in listed(&text, "Commands:\n", "") {
                add(&["cadmin", sub, part]);
            }
        }
    }
    all
}

#[test]
fn golden_help_texts_are_as_recorded() {
    let dir = source::root().join(DIR);
    let all = all();
    assert!(all.contains_key("cadmin-dev-up.txt") && all.contains_key("cadmin-hclose.txt"));
    let known = source::files(DIR, &["txt"]);
    let bless = std::env::var_os("BLESS").is_some();
    let mut wrong = Vec::new();
    for file in &known {
        let name = file.rsplit('/').next().expect("a path has a last part");
        if !all.contains_key(name) {
            match bless {
                true => std::fs::remove_file(source::root().join(file)).expect("stale file"),
                false => wrong.push(format!("{file}: there is no such command")),
            }
        }
    }
    for (name, text) in &all {
        let path = dir.join(name);
        if std::fs::read_to_string(&path).ok().as_ref() == Some(text) {
            continue;
        }
        match bless {
            true => std::fs::write(&path, text).expect("the golden file is written"),
            false => wrong.push(format!("{DIR}/{name} differs; the command prints:\n{text}")),
        }
    }
    let renew = "BLESS=1 sbin/check golden";
    assert!(wrong.is_empty(), "{}\nto accept: {renew}", wrong.join("\n"));
}
