//! `climits` (`blimits`): the limits of cb.yaml and what is used of them.

use super::cli::{self, Values, command, opt};
use super::exit::{Exit, Fail};
use super::read::table::{self, Listing};
use super::read::{self, Source};
use crate::record::view::LimitRow;
use crate::show::limit;
use clap::{ArgMatches, Command};
use std::ffi::OsString;

const LIST: Listing<LimitRow> = Listing {
    command: "climits",
    what: "LIMITS",
    fields: limit::FIELDS,
    json_default: limit::JSON_DEFAULT,
    put_json: limit::put_json,
};

/// Options that choose by consumer, and the consumer's kind.
const KINDS: [(&str, &str); 5] = [
    ("u", "user"),
    ("q", "queue"),
    ("m", "host"),
    ("P", "project"),
    ("app", "app"),
];

fn options() -> Command {
    let cmd = command("climits", "List limits and what is used of them")
        .arg(opt("n", "NAME", "The limit of this name"))
        .arg(opt(
            "u",
            "USER",
            "Limits that concern this user or user group",
        ))
        .arg(opt("q", "QUEUE", "Limits that concern this queue"))
        .arg(opt(
            "m",
            "HOST",
            "Limits that concern this host or host group",
        ))
        .arg(opt("P", "PROJECT", "Limits that concern this project"))
        .arg(opt("app", "APP", "Limits that concern this application"));
    table::options(cmd)
}

/// Runs `climits`; gives the exit code.
pub fn run(args: &[OsString]) -> i32 {
    let m = match cli::parse(options(), &read::split_json(args)) {
        Ok(m) => m,
        Err(code) => return code,
    };
    let answer = Source::open("climits").and_then(|source| {
        let (out, exit) = show(&m, &source)?;
        read::put(&out)?;
        Ok(exit)
    });
    read::end("climits", answer)
}

fn show(m: &ArgMatches, source: &Source) -> Result<(String, Exit), Fail> {
    let params = source.params()?;
    let limits = source.view.limits().map_err(|e| source.failed(e))?;
    source.banner(&params);
    let wanted = |row: &&LimitRow| {
        m.last("n").is_none_or(|name| name == row.name)
            && KINDS.iter().all(|(option, kind)| {
                m.last(option)
                    .is_none_or(|name| limit::concerns(row, kind, name))
            })
    };
    let rows: Vec<&LimitRow> = limits.iter().filter(wanted).collect();
    let exit = match (m.last("n"), rows.is_empty()) {
        (Some(name), true) if !limits.iter().any(|row| row.name == name) => {
            let name = crate::text::width::escape(name);
            eprintln!("{name}: no counter of such a limit");
            Exit::NotFound
        }
        (_, true) => {
            eprintln!("No matching limit found");
            Exit::Ok
        }
        _ => Exit::Ok,
    };
    Ok((LIST.render(m, &rows, limit::table)?, exit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::bed::Bed;
    use crate::record::view;

    fn ask(line: &[&str]) -> (String, Exit) {
        let bed = Bed::new();
        let row = |name: &str, consumer: &str| LimitRow {
            name: name.into(),
            consumer: consumer.into(),
            resource: "slots".into(),
            used: 3.0,
            limit: Some(8.0),
        };
        bed.put(
            view::LIMITS,
            &[row("a", ""), row("b", "user ann"), row("b", "user bob")],
        );
        let args: Vec<OsString> = line.iter().map(OsString::from).collect();
        let m = cli::parse(options(), &read::split_json(&args)).unwrap();
        show(&m, &bed.source("climits", 10)).unwrap()
    }

    #[test]
    fn rows_by_name_and_consumer() {
        let format = ["-noheader", "-o", "name: used: limit:"];
        let with = |more: &[&'static str]| [&format[..], more].concat();
        assert_eq!(ask(&format).0.lines().count(), 3);
        assert_eq!(ask(&with(&["-n", "b", "-u", "ann"])).0, "b 3 8\n");
        assert_eq!(ask(&with(&["-u", "ann"])).0, "a 3 8\nb 3 8\n");
        assert_eq!(ask(&["-n", "zz"]).1, Exit::NotFound);
        assert_eq!(ask(&["--json", "-u", "bob"]).0.lines().count(), 2);
    }
}
