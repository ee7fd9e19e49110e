//! Parameters of the cluster (`cparams`) and its leader (`cid`).
//!
//! Owns the lines of both. The values are those that the leader currently uses, not those in
//! cb.yaml.

use super::cell::{self, Object};
use super::dates::Dates;
use crate::language::translated;
use crate::record::view::Params;
use crate::text::{duration, size, width};
use std::fmt::Write as _;

fn value<'p>(params: &'p Params, name: &str) -> Option<&'p str> {
    let found = params.params.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.as_str())
}

/// A duration parameter in milliseconds, formatted with blanks between its units: `1h 6m 40s`.
fn span(params: &Params, name: &str) -> Option<String> {
    let ms: u64 = value(params, name)?.parse().ok()?;
    let mut out = String::new();
    let mut unit_before = false;
    for c in exact_duration(ms).chars() {
        if unit_before && c.is_ascii_digit() {
            out.push(' ');
        }
        unit_before = !c.is_ascii_digit();
        out.push(c);
    }
    Some(out)
}

/// Appends the short form: the parameters that users need most often.
pub(crate) fn put(out: &mut String, params: &Params) {
    let mut line = |title: &str, value: &str| {
        let value = width::escape(value);
        writeln!(out, "{title:<36}{value}").expect("a string takes every write");
    };
    line("Default Queues:", &params.default_queues.join(" "));
    for (title, name) in [
        ("Finished jobs stay visible for:", "general.clean_period_ms"),
        ("History is kept for:", "general.journal_keep_ms"),
        ("Maximum scheduling interval:", "general.sched_interval_ms"),
        (
            "Interval between kill signals:",
            "general.job_terminate_interval_ms",
        ),
        ("Interval before KILL (sbatch):", "general.kill_wait_ms"),
        ("Failover timeout:", "cluster.lease_timeout_ms"),
    ] {
        if let Some(text) = span(params, name) {
            line(title, &text);
        }
    }
    if params.max_array_size > 0 {
        line(
            "Maximum job array size:",
            &params.max_array_size.to_string(),
        );
    }
    if let Some(unit) = unit(params) {
        line("Default unit of limits:", &unit);
    }
    line(
        "All users see all jobs:",
        if params.view_all_jobs { "yes" } else { "no" },
    );
}

/// Formats a unit: `MB` for 1048576.
fn unit(params: &Params) -> Option<String> {
    let bytes: u64 = value(params, "cluster.unit_for_limits")?.parse().ok()?;
    let text = size::exact(bytes);
    match text.strip_prefix('1') {
        Some("B") => Some("B".to_owned()),
        Some(letter) => Some(format!("{letter}B")),
        None => Some(text),
    }
}

/// A parameter with its name in cb.yaml: durations without the unit in their name. `text` formats a
/// value in milliseconds.
fn cb_yaml_setting<'p>(key: &'p str, value: &'p str, text: fn(u64) -> String) -> (&'p str, String) {
    let ms: Option<u64> = value.parse().ok();
    match (key.strip_suffix("_ms"), ms) {
        (Some(name), Some(ms)) => (name, text(ms)),
        (name, _) => (name.unwrap_or(key), value.to_owned()),
    }
}

/// Formats a duration as cb.yaml can read it: `1h6m40s`, `250ms`.
fn exact_duration(ms: u64) -> String {
    if ms.is_multiple_of(1000) {
        duration::exact(ms / 1000)
    } else {
        format!("{ms}ms")
    }
}

/// Formats a duration in seconds, as in LSF's parameters.
fn seconds(ms: u64) -> String {
    let text = format!("{}.{:03}", ms / 1000, ms % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Appends every parameter: `section.name = value` (`-l`).
pub(crate) fn put_long(out: &mut String, params: &Params) {
    for (key, value) in &params.params {
        let (key, value) = cb_yaml_setting(key, value, exact_duration);
        let (key, value) = (width::escape(key), width::escape(&value));
        writeln!(out, "{key} = {value}").expect("a string takes every write");
    }
}

/// Appends every parameter under its name in capitals, durations in seconds, and those that
/// programs written for LSF need (`-a`).
pub(crate) fn put_all(out: &mut String, params: &Params) {
    let reserve = "general.resource_reserve_per_task";
    for (key, value) in params.params.iter().filter(|(key, _)| key != reserve) {
        let (key, value) = cb_yaml_setting(key, value, seconds);
        if value.is_empty() {
            // Programs split each line at " = ", some of them after trimming it.
            continue;
        }
        let name = key.rsplit('.').next().unwrap_or(key).to_uppercase();
        let (name, value) = (width::escape(&name), width::escape(&value));
        writeln!(out, "{name} = {value}").expect("a string takes every write");
    }
    let queues = params.default_queues.join(" ");
    writeln!(out, "DEFAULT_QUEUES = {}", width::escape(&queues))
        .expect("a string takes every write");
    if let Some(unit) = unit(params) {
        writeln!(out, "LSF_UNIT_FOR_LIMITS = {unit}").expect("a string takes every write");
    }
    // Slots and tasks are the same here: an rusage outside braces counts for each of them, or per
    // host.
    let per = match value(params, reserve) {
        Some("yes") => 'Y',
        _ => 'N',
    };
    writeln!(
        out,
        "RESOURCE_RESERVE_PER_TASK = {per}\nRESOURCE_RESERVE_PER_SLOT = {per}"
    )
    .expect("a string takes every write");
}

/// Appends the JSON object of the parameters.
pub(crate) fn put_json(out: &mut String, params: &Params) {
    let mut o = Object::begin(out);
    o.text("cluster", &params.cluster);
    o.texts("default_queues", &params.default_queues);
    o.texts("administrators", &params.administrators);
    o.flag("view_all_jobs", params.view_all_jobs);
    o.int("max_array_size", params.max_array_size);
    match unit(params) {
        Some(unit) => o.text("unit_for_limits", &unit),
        None => o.null("unit_for_limits"),
    }
    let mut inner = Object::begin(o.key("params"));
    for (key, value) in &params.params {
        cell::json_str(inner.free_key(key), value);
    }
    inner.end();
    o.texts("config_problems", &params.config_problems);
    o.text("config_digest", &params.config_digest);
    o.end();
    out.push('\n');
}

/// The leader, as found by `cid`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leader {
    pub host: String,
    pub epoch: u64,
    /// Milliseconds since its last sign of life; `None`: there has never been one.
    pub quiet_ms: Option<u64>,
}

/// Appends the lines of `cid`: the cluster's name, then the host of the leader.
pub(crate) fn put_id(out: &mut String, cluster: &str, leader: &Leader) {
    let (cluster, host) = (width::escape(cluster), width::escape(&leader.host));
    writeln!(
        out,
        "My cluster name is {cluster}\nMy master name is {host}"
    )
    .expect("a string takes every write");
}

/// Appends the additional lines of `cid -l`.
pub(crate) fn put_id_long(out: &mut String, params: &Params, leader: &Leader, dates: &Dates) {
    writeln!(
        out,
        "Cluster id {}, epoch {}",
        params.cluster_id, leader.epoch
    )
    .expect("a string takes every write");
    if params.since > 0 {
        out.push_str("Leading since ");
        dates.long(out, params.since);
        out.push('\n');
    }
    writeln!(out, "Version {}", params.version).expect("a string takes every write");
    let admins = params.administrators.join(" ");
    writeln!(out, "Administrators: {}", width::escape(&admins))
        .expect("a string takes every write");
    for alarm in &params.alarms {
        let alarm = translated(&format!("Alarm: {alarm}")).into_owned();
        writeln!(out, "{}", width::escape(&alarm)).expect("a string takes every write");
    }
    for problem in &params.config_problems {
        let problem = translated(&format!("Refused configuration: {problem}")).into_owned();
        writeln!(out, "{}", width::escape(&problem)).expect("a string takes every write");
    }
    for host in &params.unconfigured_hosts {
        let text = format!("Host {host} reports and is not listed in cb.yaml");
        writeln!(out, "{}", width::escape(&translated(&text))).expect("a string takes every write");
    }
}

/// Appends the JSON object of `cid`.
pub(crate) fn put_id_json(out: &mut String, cluster: &str, params: &Params, leader: &Leader) {
    let mut o = Object::begin(out);
    o.text("cluster", cluster);
    o.some_text("cluster_id", &params.cluster_id);
    o.some_text("master", &leader.host);
    o.int("epoch", leader.epoch);
    o.opt("since_ms", (params.since > 0).then_some(params.since));
    o.opt("quiet_ms", leader.quiet_ms);
    o.some_text("version", &params.version);
    o.texts("administrators", &params.administrators);
    o.texts("alarms", &params.alarms);
    o.texts("config_problems", &params.config_problems);
    o.end();
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    fn params() -> Params {
        let pairs = [
            ("cluster.name", "c1"),
            ("cluster.unit_for_limits", "1048576"),
            ("general.clean_period_ms", "3600000"),
            ("general.max_jobid", "9999999"),
        ];
        Params {
            cluster: "c1".into(),
            cluster_id: "abc".into(),
            default_queues: vec!["normal".into()],
            view_all_jobs: true,
            max_array_size: 1000,
            since: 1_795_230_429_000,
            version: "0.1.0".into(),
            administrators: vec!["boss".into()],
            params: pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            ..Params::default()
        }
    }

    #[test]
    fn the_short_form() {
        let mut out = String::new();
        put(&mut out, &params());
        let want = "\
Default Queues:                     normal
Finished jobs stay visible for:     1h
Maximum job array size:             1000
Default unit of limits:             MB
All users see all jobs:             yes
";
        assert_eq!(out, want);
    }

    #[test]
    fn all_parameters_and_those_of_lsf_clients() {
        let mut out = String::new();
        put_all(&mut out, &params());
        assert!(out.lines().all(|l| l.contains(" = ")), "{out}");
        assert!(out.contains("\nLSF_UNIT_FOR_LIMITS = MB\n"));
        assert!(out.contains("\nMAX_JOBID = 9999999\n"));
        assert!(out.contains("\nCLEAN_PERIOD = 3600\n"), "{out}");
        assert!(out.ends_with("RESOURCE_RESERVE_PER_TASK = N\nRESOURCE_RESERVE_PER_SLOT = N\n"));
        let mut per_slot = params();
        let pair = ("general.resource_reserve_per_task", "yes");
        per_slot.params.push((pair.0.to_owned(), pair.1.to_owned()));
        let mut out = String::new();
        put_all(&mut out, &per_slot);
        assert!(out.contains("\nRESOURCE_RESERVE_PER_TASK = Y\n"), "{out}");
        assert_eq!(out.matches("RESERVE_PER_TASK").count(), 1, "{out}");
        let mut out = String::new();
        put_long(&mut out, &params());
        assert!(out.starts_with("cluster.name = c1\n"));
        assert!(out.contains("\ngeneral.clean_period = 1h\n"), "{out}");
    }

    #[test]
    fn who_leads() {
        let leader = Leader {
            host: "h1".into(),
            epoch: 7,
            quiet_ms: Some(300),
        };
        let mut out = String::new();
        put_id(&mut out, "c1", &leader);
        assert_eq!(out, "My cluster name is c1\nMy master name is h1\n");
        put_id_long(&mut out, &params(), &leader, &Dates::new(TimeZone::UTC));
        assert!(out.contains("Cluster id abc, epoch 7\nLeading since Sat Nov 21 03:07:09\n"));
        let mut out = String::new();
        put_id_json(&mut out, "c1", &params(), &leader);
        let v: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&v["master"], &v["epoch"]), (&"h1".into(), &7.into()));
    }

    #[test]
    fn json_holds_everything() {
        let mut out = String::new();
        put_json(&mut out, &params());
        let v: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(v["params"]["cluster.name"], "c1");
        assert_eq!(v["unit_for_limits"], "MB");
    }

    #[test]
    fn warnings_of_cid_are_in_the_language_of_the_person_and_json_is_not() {
        let facts = Params {
            alarms: vec![
                "the user database does not answer or is slow: users that this leader \
                          has not seen yet wait"
                    .into(),
            ],
            unconfigured_hosts: vec!["h9".into()],
            ..params()
        };
        let dates = Dates::new(TimeZone::UTC).now(0);
        let long = || {
            let mut out = String::new();
            put_id_long(&mut out, &facts, &Leader::default(), &dates);
            out
        };
        let json = || {
            let mut out = String::new();
            put_id_json(&mut out, "c1", &facts, &Leader::default());
            out
        };
        let page = crate::language::in_chinese(long);
        let want = "告警：用户数据库没有响应或很慢：主调度器还没有见过的用户要等待\n\
                    主机 h9 有汇报，但 cb.yaml 没有列出它\n";
        assert!(page.ends_with(want), "{page}");
        assert!(long().contains("\nAlarm: the user database"));
        assert_eq!(crate::language::in_chinese(json), json());
    }
}
