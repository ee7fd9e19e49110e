//! Tests that the catalogue contains all help texts of every command.

use crate::admin;
use crate::client::options;
use crate::language::Language;
use clap::Command;

/// Texts that are names, or are printed by clap itself.
const NO_SENTENCES: &[&str] = &["not implemented"];

fn check(wrong: &mut Vec<String>, place: &str, text: &str) {
    if NO_SENTENCES.contains(&text) || text.trim().is_empty() {
        return;
    }
    if Language::Chinese.translate(text) == text {
        wrong.push(format!("{place}: {text}"));
    }
}

fn look(wrong: &mut Vec<String>, place: &str, cmd: &Command) {
    for about in [cmd.get_about(), cmd.get_long_about()]
        .into_iter()
        .flatten()
    {
        check(wrong, place, &about.to_string());
    }
    let after = cmd.get_after_help().map(ToString::to_string);
    for line in after.unwrap_or_default().lines() {
        let text = line.split_once("  # ").map_or(line, |(_, about)| about);
        check(wrong, place, text);
    }
    for arg in cmd.get_arguments().filter(|arg| !arg.is_hide_set()) {
        for help in [arg.get_help(), arg.get_long_help()].into_iter().flatten() {
            check(
                wrong,
                &format!("{place} {}", arg.get_id()),
                &help.to_string(),
            );
        }
    }
    for sub in cmd.get_subcommands() {
        look(wrong, &format!("{place} {}", sub.get_name()), sub);
    }
}

#[test]
fn the_help_of_every_command_is_in_the_catalogue() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for entry in admin::all_commands() {
        check(&mut wrong, entry.names[0], entry.about);
        if let Some(mut cmd) = options::of(entry.names[0]) {
            cmd.build();
            look(&mut wrong, entry.names[0], &cmd);
            seen += 1;
        }
    }
    for (name, mut cmd) in options::of_ccron() {
        cmd.build();
        look(&mut wrong, &format!("ccron {name}"), &cmd);
        seen += 1;
    }
    for sub in admin::subcommands("cadmin") {
        check(&mut wrong, sub.name, sub.about);
        let mut cmd = sub.options;
        cmd.build();
        look(&mut wrong, &format!("cadmin {}", sub.name), &cmd);
        seen += 1;
    }
    for line in super::overview()
        .lines()
        .filter(|line| !line.starts_with(' '))
    {
        check(&mut wrong, "cb", line);
    }
    assert!(seen > 60, "the commands were not found: {seen}");
    assert!(
        wrong.is_empty(),
        "src/language/zh_CN.po lacks\n{}",
        wrong.join("\n")
    );
}
