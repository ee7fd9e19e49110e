//! `cinfo` (`lsinfo`): resources, host types and models of the cluster; `cinfo -H` (`lshosts`):
//! static facts of hosts.

use super::alerts;
use super::cli::{self, Values, command, flag, operands, opt};
use super::exit::{Exit, Fail};
use super::leadership;
use super::read::table::{self, Listing};
use super::read::{self, Source};
use crate::language::tell;
use crate::record::view::{HostRow, Params};
use crate::show::cell::Object;
use crate::show::health::{self, HealthInput};
use crate::show::info::{self, InfoTables};
use clap::{ArgMatches, Command};
use std::ffi::OsString;

const HOSTS: Listing<HostRow> = Listing {
    command: "cinfo",
    records_key: "HOSTS",
    fields: info::HOST_FIELDS,
    json_default: info::HOST_JSON_DEFAULT,
    put_json: info::put_host_json,
};

/// The options of `cinfo`.
pub(super) fn options() -> Command {
    let cmd = command(
        "cinfo",
        "List resources, host types and host models of the cluster",
    )
    .arg(flag("r", "Resources"))
    .arg(flag("t", "Host types"))
    .arg(flag("m", "Host models"))
    .arg(flag("M", "Host models"))
    .arg(flag(
        "H",
        "Static facts of hosts instead; operands are hosts or host groups",
    ))
    .arg(flag("l", "Long"))
    .arg(flag(
        "health",
        "Problems: leader, standbys, alarms, hosts; exit code 1 if there are any",
    ))
    .arg(flag("w", "Wide: full values (with -H)"))
    .arg(opt(
        "R",
        "REQ",
        "With -H: hosts that satisfy this select[...] expression",
    ))
    .arg(operands(
        "names",
        "NAME",
        "Resources, or with -H hosts; default: all",
    ));
    table::options(cmd)
}

/// Runs `cinfo`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let m = match cli::parse(options(), &read::split_json(args)) {
        Ok(m) => m,
        Err(code) => return code,
    };
    let answer = Source::open("cinfo").and_then(|source| {
        let (out, exit) = show(&m, &source)?;
        read::put(&out)?;
        Ok(exit)
    });
    read::end("cinfo", answer)
}

pub(super) fn show(m: &ArgMatches, source: &Source) -> Result<(String, Exit), Fail> {
    let mut params = source.params()?;
    let names = m.all("names");
    source.banner(&params);
    let hosts = source.hosts()?;
    complete(&mut params, &hosts);
    if m.has("health") {
        return health(m, source, &params, &hosts);
    }
    if m.has("H") {
        let (mut rows, exit) = source.hosts_named(&hosts, &names, &params);
        read::require(m, &mut rows, &params)?;
        if m.has("l") && !Listing::<HostRow>::wants_table(m) {
            let mut out = String::new();
            rows.iter().for_each(|h| info::put_host_long(&mut out, h));
            return Ok((out, exit));
        }
        return Ok((
            HOSTS.render(m, &rows, || info::host_table(m.has("w")))?,
            exit,
        ));
    }
    if let Some(id) = ["o", "R"].iter().find(|id| m.last(id).is_some()) {
        return Err(Fail::usage(format!("-{id} requires -H")));
    }
    let mut exit = Exit::Ok;
    for name in names
        .iter()
        .filter(|n| !params.resources.iter().any(|r| r.0 == **n))
    {
        let known = params.resources.iter().map(|r| r.0.as_str());
        tell!("{}", read::unknown("resource", name, known).text);
        exit = Exit::NotFound;
    }
    let mut out = String::new();
    if m.has("json") || m.has("jsonl") {
        info::put_json(&mut out, &params, &hosts, &source.ctx().dates);
    } else if m.has("l") {
        info::put_long(&mut out, &params, &names);
    } else {
        let models = m.has("m") || m.has("M");
        let none = !m.has("r") && !m.has("t") && !models;
        let parts = InfoTables {
            resources: none || m.has("r"),
            types: none || m.has("t"),
            models: none || models,
        };
        info::put(&mut out, &params, parts, &names);
    }
    Ok((out, exit))
}

/// `cinfo -health`; the exit code tells whether everything is healthy.
fn health(
    m: &ArgMatches,
    source: &Source,
    params: &Params,
    hosts: &[HostRow],
) -> Result<(String, Exit), Fail> {
    let leader = leadership::leader(source, params)?;
    let standby = leadership::standby(&source.layout, &leader.host);
    // The other checks are still useful without alerts.
    let alerts = alerts::newest(source, params).unwrap_or_else(|e| {
        source.warn(&[e.text]);
        None
    });
    let health = HealthInput {
        params,
        hosts,
        leader: &leader,
        silent_ms: leadership::silence(source, params),
        standby: &standby,
        alerts: alerts.as_ref(),
    };
    let mut out = String::new();
    if m.has("json") || m.has("jsonl") {
        let mut o = Object::begin(&mut out);
        o.text("cluster", &params.cluster);
        health.put_json(&mut o);
        health::put_json(&mut o, params, hosts, &source.ctx().dates);
        o.end();
        out.push('\n');
    } else {
        health.put(&mut out, &source.ctx().dates);
    }
    let exit = if health.is_healthy() {
        Exit::Ok
    } else {
        Exit::NotFound
    };
    Ok((out, exit))
}

/// Adds the types and models that hosts report without being declared.
fn complete(params: &mut Params, hosts: &[HostRow]) {
    for h in hosts {
        if !h.host_type.is_empty() && !params.types.contains(&h.host_type) {
            params.types.push(h.host_type.clone());
        }
        if !h.model.is_empty() && !params.models.iter().any(|(name, _)| *name == h.model) {
            params.models.push((h.model.clone(), h.cpuf));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::chosts::tests::bed;

    fn run_line(line: &[&str]) -> (String, Exit) {
        let args: Vec<OsString> = line.iter().map(OsString::from).collect();
        let m = cli::parse(options(), &read::split_json(&args)).unwrap();
        show(&m, &bed().source("cinfo", 10)).unwrap()
    }

    #[test]
    fn parts_and_hosts() {
        assert!(
            run_line(&[]).0.contains("RESOURCE_NAME") && run_line(&[]).0.contains("MODEL_NAME")
        );
        assert_eq!(run_line(&["-t"]).0, "TYPE_NAME\n");
        assert_eq!(run_line(&["nix"]).1, Exit::NotFound);
        assert!(run_line(&["-H"]).0.starts_with("HOST_NAME      type"));
        assert_eq!(run_line(&["-H", "--json", "g"]).0.lines().count(), 2);
        assert_eq!(run_line(&["-json"]).0.lines().count(), 1);
        let (health, exit) = run_line(&["-health"]);
        assert!(health.contains("ALARMS: none\nHOSTS: 1 of 3 needs attention\n  h1"));
        assert!(health.starts_with("LEADER: none") && exit == Exit::NotFound);
        let (json, _) = run_line(&["-health", "-json"]);
        let (page, chinese) = crate::language::in_chinese(|| {
            (run_line(&["-health"]).0, run_line(&["-health", "-json"]).0)
        });
        assert_eq!(chinese, json, "JSON is for programs");
        assert!(page.starts_with("主调度器：还没有选出；请在主控主机上启动 cbsched\n"));
        assert!(
            page.contains("告警：无\n主机：3 台中有 1 台需要处理\n  h1"),
            "{page}"
        );
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["well"], false);
        assert_eq!(json["leader"]["epoch"], 0);
    }

    #[test]
    fn golden_output() {
        use crate::client::read::test_cluster;
        let bed = test_cluster::cluster();
        test_cluster::compare(
            "cinfo",
            &["", "-l fast", "-H", "-H -l h1", "-health"],
            |words| {
                let m = test_cluster::parse(options(), words);
                show(&m, &bed.source("cinfo", 10)).expect("it answers").0
            },
        );
    }
}
