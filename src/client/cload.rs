//! `cload` (`lsload`): load indices of the hosts.

use super::cli::{self, Values, command, flag, operands, opt};
use super::exit::{Exit, Fail};
use super::read::table::{self, Listing};
use super::read::{self, Source};
use crate::language::tell;
use crate::record::view::{HostRow, Params};
use crate::show::balance::{self, Balance};
use crate::show::{load, load_units};
use clap::{ArgMatches, Command};
use std::collections::BTreeSet;
use std::ffi::OsString;

const LIST: Listing<HostRow> = Listing {
    command: "cload",
    records_key: "HOSTS",
    fields: load::FIELDS,
    json_default: load::JSON_DEFAULT,
    put_json: load::put_json,
};

const SUMMARY: Listing<Balance> = Listing {
    command: "cload",
    records_key: "INDICES",
    fields: balance::FIELDS,
    json_default: balance::JSON_DEFAULT,
    put_json: balance::put_json,
};

const NOT_BUILT: &[&str] = &["gpu", "a"];

/// The options of `cload`.
pub(super) fn options() -> Command {
    let cmd = command("cload", "List the load of hosts")
        .arg(flag("l", "Long: io as well, full names, units"))
        .arg(flag("w", "Wide: full names"))
        .arg(opt(
            "I",
            "INDEX[:INDEX]...",
            "Only these load indices and sensors' resources",
        ))
        .arg(opt(
            "n",
            "NUMBER",
            "Only this many hosts, the least loaded ones",
        ))
        .arg(flag(
            "N",
            "Run queues for each processor, divided by the host's CPU factor",
        ))
        .arg(flag("E", "Run queues for each processor"))
        .arg(flag("s", "Values of sensors; operands name resources"))
        .arg(flag(
            "gpuload",
            "GPUs of hosts: model, temperature, utilization, memory",
        ))
        .arg(flag(
            "summary",
            "Spread of the use of CPUs and GPUs between hosts",
        ))
        .arg(opt(
            "R",
            "REQ",
            "Hosts that satisfy this select[...] expression",
        ))
        .arg(operands(
            "names",
            "HOST",
            "Hosts or host groups; default: all",
        ));
    let hidden = |id: &'static str| flag(id, "not implemented").hide(true);
    let cmd = NOT_BUILT.iter().fold(cmd, |cmd, id| cmd.arg(hidden(id)));
    table::options(cmd)
}

/// Runs `cload`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let m = match cli::parse(options(), &read::split_json(args)) {
        Ok(m) => m,
        Err(code) => return code,
    };
    let answer = Source::open("cload").and_then(|source| {
        let (out, exit) = show(&m, &source)?;
        read::put(&out)?;
        Ok(exit)
    });
    read::end("cload", answer)
}

pub(super) fn show(m: &ArgMatches, source: &Source) -> Result<(String, Exit), Fail> {
    read::refuse_unbuilt(m, NOT_BUILT, "cload")?;
    if m.has("N") && m.has("E") {
        return Err(Fail::usage("-N and -E exclude each other"));
    }
    let count = count(m)?;
    let params = source.params()?;
    let mut hosts = source.hosts()?;
    let (indices, sensors) = indices(m, &hosts, &params)?;
    source.banner(&params);
    let operands = m.all("names");
    if m.has("s") {
        let all: Vec<&HostRow> = hosts.iter().collect();
        let put = |out: &mut String, names: &[String]| load::put_shared(out, &all, names);
        let out = read::resources_table("cload", load::SHARED_HEADER, &operands, put);
        return Ok((out, Exit::Ok));
    }
    if m.has("N") || m.has("E") {
        hosts
            .iter_mut()
            .for_each(|h| load::normalize(h, m.has("N")));
    }
    let (mut rows, exit) = source.hosts_named(&hosts, &operands, &params);
    read::require(m, &mut rows, &params)?;
    if let Some(count) = count {
        let busy = |h: &HostRow| (!load::is_known(h), h.load.r15s);
        rows.sort_by(|a, b| {
            let (a, b) = (busy(a), busy(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        rows.truncate(count);
    }
    if m.has("summary") {
        return Ok((summary(m, &rows)?, exit));
    }
    if m.has("gpuload") {
        if Listing::<HostRow>::wants_table(m) {
            return Err(Fail::usage(
                "-gpuload has columns of its own, without -o and JSON",
            ));
        }
        let mut out = String::new();
        load_units::put_gpus(&mut out, &rows);
        return Ok((out, exit));
    }
    let sensors: Vec<&str> = sensors.iter().map(String::as_str).collect();
    let mut only: Vec<&str> = indices.iter().map(String::as_str).collect();
    if only.is_empty() && !sensors.is_empty() {
        // Only sensors were named: an empty entry keeps the table from showing all load indices.
        only.push("");
    }
    let table = || load::table(m.has("l"), m.has("w"), &only);
    if !sensors.is_empty() && !Listing::<HostRow>::wants_table(m) {
        let columns = read::columns().filter(|_| !m.has("w"));
        let table = table().colored(read::colors()).fitting(columns);
        let header = !m.has("noheader");
        let out = load::with_sensors(&table, &rows, &sensors, header);
        return Ok((out, exit));
    }
    let mut out = LIST.render(m, &rows, table)?;
    if m.has("l") && !Listing::<HostRow>::wants_table(m) {
        load_units::put(&mut out, &rows);
    }
    Ok((out, exit))
}

/// How evenly the hosts are used.
fn summary(m: &ArgMatches, rows: &[&HostRow]) -> Result<String, Fail> {
    let all = balance::of(rows);
    if all.is_empty() {
        tell!("No host reports its load");
    }
    let all: Vec<&Balance> = all.iter().collect();
    SUMMARY.render(m, &all, balance::table)
}

/// The load indices and the sensors' resources that `-I` names.
fn indices(
    m: &ArgMatches,
    hosts: &[HostRow],
    params: &Params,
) -> Result<(Vec<String>, Vec<String>), Fail> {
    let values = hosts.iter().flat_map(|h| h.load.values.keys());
    let configured = params.resources.iter().map(|(name, ..)| name);
    let sensors: BTreeSet<&str> = values.chain(configured).map(String::as_str).collect();
    let (mut names, mut wanted) = (Vec::new(), Vec::new());
    for word in m.last("I").unwrap_or_default().split([':', ' ', ',']) {
        if word.is_empty() {
            continue;
        }
        if load::index_names().any(|n| n == word) {
            names.push(word.to_owned());
        } else if sensors.contains(word) {
            wanted.push(word.to_owned());
        } else {
            let mut known: Vec<&str> = load::index_names().collect();
            known.extend(sensors.iter().copied());
            let known = known.into_iter();
            return Err(read::unknown("load index or resource", word, known));
        }
    }
    Ok((names, wanted))
}

fn count(m: &ArgMatches) -> Result<Option<usize>, Fail> {
    let Some(text) = m.last("n") else {
        return Ok(None);
    };
    match text.parse() {
        Ok(n) if n > 0 => Ok(Some(n)),
        _ => Err(Fail::usage(format!(
            "-n: '{}' is not a number of hosts",
            crate::text::width::escape(text)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::chosts::tests::bed;

    fn run_line(line: &[&str]) -> Result<(String, Exit), Fail> {
        let args: Vec<OsString> = line.iter().map(OsString::from).collect();
        let m = cli::parse(options(), &read::split_json(&args)).unwrap();
        show(&m, &bed().source("cload", 10))
    }

    #[test]
    fn all_forms() {
        let (out, exit) = run_line(&[]).unwrap();
        assert_eq!((out.lines().count(), exit), (4, Exit::Ok));
        assert!(
            out.lines()
                .nth(1)
                .is_some_and(|l| l.starts_with("h1              unavail"))
        );
        let (out, _) = run_line(&["-I", "r1m:mem", "h2"]).unwrap();
        assert_eq!(
            out.lines().next(),
            Some("HOST_NAME       status   r1m   mem")
        );
        assert_eq!(run_line(&["--json"]).unwrap().0.lines().count(), 3);
        let known = "HOST_NAME status r15s r1m r15m ut pg io ls it tmp swp mem delimiter='|'";
        let (out, _) = run_line(&["-o", known]).unwrap();
        assert!(out.lines().all(|l| l.split('|').count() == 13), "{out}");
    }

    #[test]
    fn the_least_loaded_hosts_are_known_ones() {
        let (out, _) = run_line(&["-n", "2", "-noheader", "-o", "host_name:"]).unwrap();
        assert_eq!(out, "h2\nh10\n");
    }

    #[test]
    fn wrong_values_are_refused() {
        for line in [["-n", "0"], ["-N", "-E"]] {
            assert_eq!(run_line(&line).unwrap_err().exit, Exit::Usage, "{line:?}");
        }
        let unknown = run_line(&["-I", "r1n"]).unwrap_err();
        assert_eq!(unknown.exit, Exit::NotFound, "{}", unknown.text);
    }

    #[test]
    fn golden_output() {
        use crate::client::read::test_cluster;
        let bed = test_cluster::cluster();
        let lines = [
            "",
            "-l",
            "-I r1m:mem",
            "-N",
            "-s",
            "-summary",
            "-summary --json",
            "-summary -json",
            "-summary h3",
        ];
        test_cluster::compare("cload", &lines, |words| {
            let m = test_cluster::parse(options(), words);
            show(&m, &bed.source("cload", 10)).expect("it answers").0
        });
    }
}
