//! `ctoken` (`cb token`): tokens with which programs use the portal's REST interface as their
//! owner.
//!
//! Owns the command line. The secret is printed once and stored nowhere.

use super::cli::{Values, command, flag, operands, opt, parse};
use super::env::Site;
use super::exit::{Exit, Fail, Result};
use super::job_requests::finish;
use super::portal;
use crate::language::{answer, tell};
use crate::record::portal::{PortalToken, Scope};
use crate::show::Dates;
use crate::sys;
use crate::text::duration::{self, DefaultUnit};
use crate::text::width::escape;
use clap::{ArgMatches, Command};
use jiff::tz::TimeZone;
use std::ffi::OsString;
use std::fmt::Write as _;

/// How long a token is valid by default.
const DEFAULT_LIFETIME: &str = "30d";

/// The options of `ctoken`.
pub(super) fn options() -> Command {
    command(
        "ctoken",
        "Create, list and revoke tokens for programs that use the portal as you",
    )
    .arg(opt(
        "scope",
        "SCOPE",
        "With create: read, submit or admin; each includes the one before [read]",
    ))
    .arg(opt(
        "expires",
        "TIME",
        "With create: validity period, such as 12h or 30d [30d]; at most 366d",
    ))
    .arg(opt("note", "TEXT", "With create: a note on its purpose"))
    .arg(flag(
        "jsonl",
        "With list, also --json: one JSON object a line",
    ))
    .arg(operands(
        "what",
        "WORD",
        "create, list, or revoke and the ID of a token",
    ))
}

/// Runs `ctoken`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    match parse(options(), &super::read::split_json(args)) {
        Ok(m) => finish("ctoken", run_command(&m)),
        Err(code) => code,
    }
}

fn run_command(m: &ArgMatches) -> Result<i32> {
    let words = m.all("what");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let of_create = ["scope", "expires", "note"];
    let given = of_create.iter().find(|id| m.last(id).is_some());
    if let Some(option) = given.filter(|_| words.first() != Some(&"create")) {
        return Err(Fail::usage(format!(
            "-{option} can only be given with create"
        )));
    }
    if m.has("jsonl") && words.first() != Some(&"list") {
        return Err(Fail::usage("--json can only be given with list"));
    }
    let site = || Site::find().map_err(Fail::from);
    match words.as_slice() {
        ["create"] => create(m, &site()?),
        ["list"] => {
            let tokens = portal::tokens(&site()?.layout())?;
            print!(
                "{}",
                token_table(&tokens, m.has("jsonl"), sys::clock::wall_ms())?
            );
            Ok(Exit::Ok.code())
        }
        ["revoke", id] => match portal::revoke_token(&site()?.layout(), id)? {
            true => {
                answer!("Token {} is revoked.", escape(id));
                Ok(Exit::Ok.code())
            }
            false => Err(Fail::not_found(format!(
                "{}: no such token\nhint: ctoken list shows them",
                escape(id)
            ))),
        },
        _ => Err(Fail::usage("write create, list, or revoke ID")),
    }
}

fn create(m: &ArgMatches, site: &Site) -> Result<i32> {
    let (scope, for_ms) = requested_scope(m)?;
    let note = m.last("note").unwrap_or_default();
    let times = (sys::clock::wall_ms(), for_ms);
    let (token, secret) = portal::make_token(site, scope, times, note)?;
    println!("{secret}");
    tell!(
        "Token {} ({}) is valid until {}. It is not shown again.",
        token.id,
        scope.word(),
        duration::date_long(token.ends, &TimeZone::system())
    );
    Ok(Exit::Ok.code())
}

/// The scope of the token, and how long it is valid, ms.
fn requested_scope(m: &ArgMatches) -> Result<(Scope, i64)> {
    let word = m.last("scope").unwrap_or("read");
    let scope = Scope::parse(word).ok_or_else(|| {
        let word = escape(word);
        Fail::usage(format!("--scope: {word} is not one of read, submit, admin"))
    })?;
    let text = m.last("expires").unwrap_or(DEFAULT_LIFETIME);
    let for_ms = duration::parse_ms(text, DefaultUnit::Seconds)
        .map_err(|e| Fail::usage(format!("--expires: {}\n{}", e.message, e.caret(text))))?;
    Ok((scope, i64::try_from(for_ms).unwrap_or(i64::MAX)))
}

fn token_table(tokens: &[PortalToken], json: bool, now: i64) -> Result<String> {
    let mut out = String::new();
    if json {
        for token in tokens {
            let line = serde_json::to_string(token).map_err(|e| Fail::system(e.to_string()))?;
            out.push_str(&line);
            out.push('\n');
        }
        return Ok(out);
    }
    if tokens.is_empty() {
        return Ok("You have no tokens.\n".to_owned());
    }
    out.push_str("ID            SCOPE   UNTIL         NOTE\n");
    let dates = Dates::new(TimeZone::system()).now(now);
    for token in tokens {
        let mut until = String::new();
        match token.ends > now {
            true => dates.short(&mut until, token.ends),
            false => until.push_str("expired"),
        }
        let (id, note) = (escape(&token.id), escape(&token.note));
        writeln!(out, "{id:<13} {:<7} {until:<13} {note}", token.scope.word())
            .expect("a string takes every write");
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_view::NOW;

    fn parse_line(words: &[&str]) -> Result<(Scope, i64)> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        requested_scope(&parse(options(), &words).unwrap())
    }

    #[test]
    fn scope_and_time_are_read() {
        assert_eq!(
            parse_line(&["create"]).unwrap(),
            (Scope::Read, 30 * 86_400_000)
        );
        let parsed = parse_line(&["create", "--scope", "admin", "--expires", "90"]).unwrap();
        assert_eq!(parsed, (Scope::Admin, 90_000));
        for bad in [["--scope", "all"], ["--expires", "x"]] {
            assert!(parse_line(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_list_shows_no_secret_and_no_control_characters() {
        let token = |ends| PortalToken {
            id: "0123456789ab".into(),
            scope: Scope::Read,
            created: NOW,
            ends,
            note: "a\u{1b}b".into(),
        };
        let text = token_table(&[token(NOW + 1000), token(NOW)], false, NOW).unwrap();
        assert!(
            text.contains("expired") && !text.contains('\u{1b}'),
            "{text}"
        );
        let lines = token_table(&[token(NOW)], true, NOW).unwrap();
        assert!(lines.starts_with("{\"id\":\"0123456789ab\",\"scope\":\"read\""));
        assert_eq!(
            token_table(&[], false, NOW).unwrap(),
            "You have no tokens.\n"
        );
    }
}
