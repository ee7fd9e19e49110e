//! Converts a crontab to definitions of cron jobs, and reports the position of unsupported lines.
//!
//! Pure. Lines are not changed: a command runs as written, with `/bin/sh`.

use super::definition::RawDefinition;
use crate::client::exit::{Fail, Result};
use crate::client::job_description::Description;
use crate::record::cron::{CronDef, HISTORY_DEFAULT};
use crate::text::cron::{Schedule, Zone};
use std::fmt::Write as _;

/// Maximum number of lines of a crontab.
const LINES_MAX: usize = 10_000;
/// Maximum number of cron jobs of one crontab: as many as one user may have.
const JOBS_MAX: usize = 200;

/// The settings of the lines so far.
struct Settings {
    zone: String,
    env: Vec<(String, String)>,
}

/// Reads a crontab of one user. `stem`: the prefix of the names.
///
/// # Errors
/// Every line that is not supported, with line and column.
pub(super) fn read(text: &str, place: &str, stem: &str, zone: &str) -> Result<Vec<RawDefinition>> {
    let (mut out, mut wrong) = (Vec::new(), String::new());
    let mut settings = Settings {
        zone: zone.to_owned(),
        env: Vec::new(),
    };
    for (n, line) in text.lines().enumerate() {
        if n >= LINES_MAX || out.len() > JOBS_MAX {
            return Err(Fail::usage(format!(
                "{place}:{}: a crontab of more than {LINES_MAX} lines or {JOBS_MAX} jobs",
                n + 1
            )));
        }
        match one_line(line, &mut settings) {
            Ok(None) => {}
            Ok(Some((schedule, command))) => {
                let mut raw = RawDefinition {
                    def: CronDef {
                        name: format!("{stem}-{}", n + 1),
                        schedule,
                        zone: settings.zone.clone(),
                        history: HISTORY_DEFAULT,
                        ..CronDef::default()
                    },
                    ..RawDefinition::default()
                };
                raw.job = Description {
                    command,
                    location: format!("{place}:{}", n + 1),
                    named_options: settings.options(),
                    ..Description::default()
                };
                out.push(raw);
            }
            Err((at, why)) => {
                let column = line[..at.min(line.len())].chars().count() + 1;
                // Writing to a string cannot fail.
                let _ = writeln!(wrong, "{place}:{}:{column}: {why}", n + 1);
            }
        }
    }
    match wrong.trim_end() {
        "" => Ok(out),
        wrong => Err(Fail::usage(wrong)),
    }
}

impl Settings {
    /// The options of csub that set these variables in addition to the caller's environment.
    fn options(&self) -> Vec<(String, String)> {
        let set = self.env.iter();
        set.map(|(name, value)| ("env".to_owned(), format!("all,{name}={value}")))
            .collect()
    }
}

type LineError = (usize, String);

/// The schedule and command of a job; `None`: a line without a job.
fn one_line(
    line: &str,
    settings: &mut Settings,
) -> std::result::Result<Option<(String, String)>, LineError> {
    let start = line.len() - line.trim_start().len();
    let body = &line[start..];
    if body.is_empty() || body.starts_with('#') {
        return Ok(None);
    }
    if let Some((name, value)) = setting(body) {
        return set(name, &value, settings)
            .map(|()| None)
            .map_err(|why| (start, why));
    }
    let fields = if body.starts_with('@') { 1 } else { 5 };
    let mut rest = body;
    for _ in 0..fields {
        let word = rest.find(char::is_whitespace).unwrap_or(rest.len());
        rest = rest[word..].trim_start();
    }
    let at = line.len() - rest.len();
    let schedule = Schedule::parse(&line[start..at]).map_err(|e| (start + e.at, e.message))?;
    if rest.is_empty() {
        return Err((line.len(), "a command is missing".to_owned()));
    }
    let command = unescaped(rest).map_err(|i| {
        let why = "a % that ends the command and begins its standard input is not supported: write \
                   \\% for the character, or use a script";
        (at + i, why.to_owned())
    })?;
    Ok(Some((schedule.to_string(), command)))
}

/// `NAME = value`; the value may be quoted.
fn setting(body: &str) -> Option<(&str, String)> {
    let (name, value) = body.split_once('=')?;
    let name = name.trim_end();
    let mut letters = name.bytes();
    let first = letters
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if !first || !letters.all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return None;
    }
    let value = value.trim();
    let quoted = ['"', '\'']
        .into_iter()
        .find_map(|q| value.strip_prefix(q)?.strip_suffix(q));
    Some((name, quoted.unwrap_or(value).to_owned()))
}

fn set(name: &str, value: &str, settings: &mut Settings) -> std::result::Result<(), String> {
    match name {
        "MAILTO" | "MAILFROM" if value.is_empty() => Ok(()),
        "MAILTO" | "MAILFROM" => Err(format!(
            "{name}: no mail is sent; write {name}=\"\" to accept that"
        )),
        "SHELL" if value == "/bin/sh" => Ok(()),
        "SHELL" => Err(format!("SHELL: commands run with /bin/sh, not {value}")),
        "CRON_TZ" => {
            Zone::named(value)?;
            value.clone_into(&mut settings.zone);
            Ok(())
        }
        "RANDOM_DELAY" => Err("RANDOM_DELAY is not supported".to_owned()),
        _ if value.contains(',') => {
            Err(format!("{name}: a value with a comma cannot be passed on"))
        }
        _ => {
            settings.env.retain(|(known, _)| known != name);
            settings.env.push((name.to_owned(), value.to_owned()));
            Ok(())
        }
    }
}

/// The command with `\%` replaced by `%`. `Err`: the position of an unescaped one.
fn unescaped(command: &str) -> std::result::Result<String, usize> {
    let mut out = String::with_capacity(command.len());
    let mut chars = command.char_indices().peekable();
    while let Some((i, c)) = chars.next() {
        match c {
            '\\' if chars.peek().is_some_and(|(_, next)| *next == '%') => {
                out.push('%');
                chars.next();
            }
            '%' => return Err(i),
            c => out.push(c),
        }
    }
    Ok(out)
}

/// The definitions in the form of a file for `ccron create`.
pub(super) fn printed(all: &[RawDefinition]) -> String {
    let mut out = String::new();
    let quote = |text: &str| format!("'{}'", text.replace('\'', "''"));
    for raw in all {
        let def = &raw.def;
        // Writing to a string cannot fail.
        let _ = writeln!(out, "- name: {}", def.name);
        let _ = writeln!(out, "  schedule: {}", quote(&def.schedule));
        let _ = writeln!(out, "  timezone: {}", quote(&def.zone));
        let _ = writeln!(out, "  job:\n    command: {}", quote(&raw.job.command));
        let env: Vec<&str> = raw
            .job
            .named_options
            .iter()
            .map(|(_, value)| value.as_str())
            .collect();
        if !env.is_empty() {
            let _ = writeln!(out, "    env: {}", quote(&env.join(",")));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_settings_and_escapes() {
        let text = "# daily\nPATH = \"/usr/bin:/bin\"\nMAILTO=\"\"\n\n0 5 * * 1 tar zcf a-$(date +\\%F).tgz 'b c'\n\
                    CRON_TZ=Asia/Tokyo\n@hourly  echo hi\n";
        let jobs = read(text, "tab", "tab", "UTC").unwrap();
        let shown: Vec<(&str, &str, &str, &str)> = jobs
            .iter()
            .map(|w| {
                (
                    w.def.name.as_str(),
                    w.def.schedule.as_str(),
                    w.def.zone.as_str(),
                    w.job.command.as_str(),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                (
                    "tab-5",
                    "0 5 * * 1",
                    "UTC",
                    "tar zcf a-$(date +%F).tgz 'b c'"
                ),
                ("tab-7", "0 * * * *", "Asia/Tokyo", "echo hi"),
            ]
        );
        assert_eq!(
            jobs[0].job.named_options,
            [("env".to_owned(), "all,PATH=/usr/bin:/bin".to_owned())]
        );
        let file = |_: &str| Err(Fail::usage("none"));
        let again =
            super::super::definition::read(printed(&jobs).as_bytes(), "x", "UTC", &file).unwrap();
        assert_eq!(again[0].def, jobs[0].def);
        assert_eq!(
            (again[0].job.command.as_str(), &again[0].job.named_options),
            (jobs[0].job.command.as_str(), &jobs[0].job.named_options)
        );
    }

    #[test]
    fn lines_that_cannot_be_honoured_are_all_named() {
        let text = "@reboot x\n61 * * * * x\n  0 * * * *\n0 * * * * mail me%Hello\nMAILTO=root\nSHELL=/bin/bash\n* * * x\n";
        let fail = read(text, "tab", "tab", "UTC").unwrap_err();
        let starts: Vec<&str> = fail
            .text
            .lines()
            .map(|l| l.split(": ").next().unwrap())
            .collect();
        assert_eq!(
            starts,
            [
                "tab:1:1", "tab:2:1", "tab:3:12", "tab:4:18", "tab:5:1", "tab:6:1", "tab:7:1"
            ]
        );
    }
}
