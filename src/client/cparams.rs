//! `cparams` (`bparams`): the parameters that the leader currently uses.

use super::cli::{self, Values, command, flag};
use super::exit::{Exit, Fail};
use super::read::{self, Source};
use crate::record::view::Params;
use crate::show::params;
use clap::{ArgMatches, Command};
use std::ffi::OsString;

/// The options of `cparams`.
pub(super) fn options() -> Command {
    let cmd = command("cparams", "Show the parameters of the cluster")
        .arg(flag("l", "Every parameter as section.name = value"))
        .arg(flag(
            "a",
            "Every parameter as NAME = value, for programs written for LSF",
        ));
    read::json_options(cmd)
}

/// Runs `cparams`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let m = match cli::parse(options(), &read::split_json(args)) {
        Ok(m) => m,
        Err(code) => return code,
    };
    let answer = Source::open("cparams").and_then(|source| show(&source, &m));
    read::end("cparams", answer)
}

fn show(source: &Source, m: &ArgMatches) -> Result<Exit, Fail> {
    let params = source.params()?;
    source.banner(&params);
    read::put(&text(m, &params))?;
    Ok(Exit::Ok)
}

fn text(m: &ArgMatches, values: &Params) -> String {
    let mut out = String::new();
    if m.has("json") || m.has("jsonl") {
        params::put_json(&mut out, values);
    } else if m.has("a") {
        params::put_all(&mut out, values);
    } else if m.has("l") {
        params::put_long(&mut out, values);
    } else {
        params::put(&mut out, values);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_chosen() {
        let values = Params {
            params: vec![("general.x_ms".into(), "5".into())],
            ..Params::default()
        };
        let ask = |word: &str| {
            let args = read::split_json(&[OsString::from(word)]);
            text(&cli::parse(options(), &args).unwrap(), &values)
        };
        assert!(ask("-l").starts_with("general.x = 5ms\n"));
        assert!(ask("-a").starts_with("X = 0.005\n"));
        assert!(ask("--json").starts_with('{') && ask("-json").starts_with('{'));
    }

    #[test]
    fn golden_output() {
        use crate::client::read::test_cluster;
        let bed = test_cluster::cluster();
        test_cluster::compare("cparams", &["", "-l", "-a"], |words| {
            let m = test_cluster::parse(options(), words);
            text(&m, &bed.source("cparams", 10).params().expect("parameters"))
        });
    }
}
