//! The health of the cluster: the leader and its standbys, alarms, and hosts that need attention.

use super::cell::{self, Object};
use super::dates::Dates;
use super::params::Leader;
use crate::language::translated;
use crate::record::host_status::HostStatus;
use crate::record::notices::AlertsDoc;
use crate::record::view::{HostRow, Params};
use crate::text::count::count;
use crate::text::{duration, width};
use std::fmt::Write as _;

/// Why a host takes no jobs now; `None` if it does, or if its administrator's comment tells why.
pub(crate) fn reason(h: &HostRow, dates: &Dates) -> Option<String> {
    let text = match h.status {
        HostStatus::Unavailable if h.load.t > 0 => {
            let mut last = String::new();
            dates.long(&mut last, h.load.t);
            format!("cbls is silent; last report {last}")
        }
        HostStatus::Unavailable => {
            "has never reported; start cbls and cbexe there and check that the share is \
                      mounted"
                .into()
        }
        HostStatus::Unreachable => format!(
            "cbls reports but cbexe is silent; see journalctl -u cbexe on {}",
            h.name
        ),
        HostStatus::Full => format!("{} of {} slots are in use", h.njobs, h.slots),
        HostStatus::Exclusive => "an exclusive job uses it".into(),
        HostStatus::Busy => "its load is over a threshold".into(),
        HostStatus::Failing => {
            "tasks cannot be started or fail there; it gets none for a while".into()
        }
        HostStatus::ClosedByWindow => "it is outside its dispatch window".into(),
        HostStatus::Locked => "an administrator locked it; cadmin lsunlock unlocks it".into(),
        HostStatus::ClosedByAdmin if h.closed_by.is_empty() && h.comment.is_empty() => {
            "cb.yaml configures it to run no jobs".into()
        }
        _ => return None,
    };
    Some(text)
}

/// Whether the host needs attention: it is down, or has warnings.
fn needs_attention(h: &HostRow) -> bool {
    h.status.is_silent() || !h.warnings.is_empty()
}

/// Why a host is shown that cb.yaml does not list.
const UNCONFIGURED: &str = "its cbls reports and cb.yaml does not list it under hosts: add it, \
                            then run 'cadmin reconfig'";

/// The data about the cluster's health.
pub(crate) struct HealthInput<'a> {
    pub params: &'a Params,
    pub hosts: &'a [HostRow],
    pub leader: &'a Leader,
    /// How long the leader has been silent, if longer than permitted, ms.
    pub silent_ms: Option<u64>,
    /// Hosts with standby candidates.
    pub standby: &'a [String],
    /// The data that the notifier has published.
    pub alerts: Option<&'a AlertsDoc>,
}

impl HealthInput<'_> {
    /// Whether everything is healthy. Warnings of working hosts do not count, because a site may
    /// accept some of them.
    pub(crate) fn is_healthy(&self) -> bool {
        let params = self.params;
        let reports = [
            &params.alarms,
            &params.config_problems,
            &params.unconfigured_hosts,
        ];
        self.leader.epoch > 0
            && self.silent_ms.is_none()
            && missing(params, &self.leader.host, self.standby).is_empty()
            && reports.iter().all(|list| list.is_empty())
            && !self.hosts.iter().any(|h| h.status.is_silent())
            && self.fired() == 0
    }

    /// Number of firing alerts, including silenced ones.
    fn fired(&self) -> usize {
        let alerts = self.alerts.iter().flat_map(|doc| &doc.alerts);
        alerts.filter(|alert| alert.fired > 0).count()
    }

    /// Appends the alerts, if there are rules.
    fn put_alerts(&self, out: &mut String, dates: &Dates) {
        let Some(doc) = self
            .alerts
            .filter(|doc| !doc.rules.is_empty() || self.fired() > 0)
        else {
            return;
        };
        match self.fired() {
            0 => line(out, "ALERTS: none fires"),
            n => line(out, &format!("ALERTS: {n}")),
        }
        super::alert::put_fired(out, doc, dates);
        for text in &doc.troubles {
            put(
                out,
                format_args!("  {}\n", width::escape(&translated(text))),
            );
        }
    }

    fn put_leader(&self, out: &mut String) {
        let (host, epoch) = (width::escape(&self.leader.host), self.leader.epoch);
        let text = match (epoch, self.silent_ms) {
            (0, _) => "none has been elected; start cbsched on a master host".to_owned(),
            (_, None) => format!("{host}, epoch {epoch}"),
            (_, Some(ms)) => {
                let time = duration::short(ms);
                format!("{host}, epoch {epoch}, has been silent for {time}")
            }
        };
        line(out, &format!("LEADER: {text}"));
    }

    /// Appends the page of `cinfo -health`.
    pub(crate) fn put(&self, out: &mut String, dates: &Dates) {
        let HealthInput { params, hosts, .. } = self;
        self.put_leader(out);
        let _ = put_standby(out, params, &self.leader.host, self.standby);
        match params.alarms.len() {
            0 => line(out, "ALARMS: none"),
            n => line(out, &format!("ALARMS: {n}")),
        }
        for alarm in &params.alarms {
            put(
                out,
                format_args!("  {}\n", width::escape(&translated(alarm))),
            );
        }
        self.put_alerts(out, dates);
        if !params.config_problems.is_empty() {
            let n = count(params.config_problems.len(), "problem");
            let text = format!(
                "CONFIGURATION: {n}, the previous cb.yaml stays in force; see cadmin ckconfig"
            );
            line(out, &text);
        }
        let trouble: Vec<&HostRow> = hosts.iter().filter(|h| needs_attention(h)).collect();
        let others = params.unconfigured_hosts.len();
        let (n, all) = (trouble.len() + others, hosts.len() + others);
        let need = if n == 1 { "needs" } else { "need" };
        line(out, &format!("HOSTS: {n} of {all} {need} attention"));
        for h in trouble {
            let mut what: Vec<String> = reason(h, dates).into_iter().collect();
            what.extend(h.warnings.iter().cloned());
            what.iter()
                .for_each(|text| put_host(out, &h.name, h.status.word(), text));
        }
        for host in &params.unconfigured_hosts {
            put_host(out, host, "unlisted", UNCONFIGURED);
        }
    }

    /// Appends members of the JSON object of `cinfo -health`.
    pub(crate) fn put_json(&self, o: &mut Object<'_>) {
        let mut leader = Object::begin(o.key("leader"));
        leader.text("host", &self.leader.host);
        leader.int("epoch", self.leader.epoch);
        match self.silent_ms {
            Some(ms) => leader.int("silent_ms", ms),
            None => leader.null("silent_ms"),
        }
        leader.end();
        o.texts("standby", self.standby);
        let missing = missing(self.params, &self.leader.host, self.standby);
        o.texts("standby_missing", &missing);
        o.texts("config_problems", &self.params.config_problems);
        if let Some(doc) = self.alerts {
            super::alert::put_json(o, doc);
        }
        o.flag("well", self.is_healthy());
    }
}

fn put(out: &mut String, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("a string takes every write");
}

/// Appends a line in the language of the process.
fn line(out: &mut String, text: &str) {
    put(out, format_args!("{}\n", translated(text)));
}

fn put_host(out: &mut String, name: &str, status: &str, text: &str) {
    let text = translated(text);
    let (name, status, text) = (
        width::pad_right(&width::escape(name), 18),
        width::pad_right(&width::escape(status), 12),
        width::escape(&text),
    );
    put(out, format_args!("  {name} {status} {text}\n"));
}

/// Hosts that may lead according to cb.yaml, but neither lead nor stand by.
pub(super) fn missing(params: &Params, leader: &str, standby: &[String]) -> Vec<String> {
    let masters = params.setting("cluster.masters").unwrap_or_default();
    let masters = masters.split_whitespace().map(str::to_owned);
    masters
        .filter(|host| host != leader && !standby.contains(host))
        .collect()
}

/// Appends a line about the candidates for a takeover, if the cluster has or should have any;
/// returns false if a master does not stand by.
pub(crate) fn put_standby(
    out: &mut String,
    params: &Params,
    leader: &str,
    standby: &[String],
) -> bool {
    let missing = missing(params, leader, standby).join(" ");
    let hosts = match standby {
        [] => "none".to_owned(),
        some => some.join(" "),
    };
    match (standby.is_empty(), missing.is_empty()) {
        (true, true) => {}
        (false, true) => line(out, &format!("STANDBY: {}", width::escape(&hosts))),
        (_, false) => {
            let (hosts, missing) = (width::escape(&hosts), width::escape(&missing));
            let text = format!("STANDBY: {hosts}; no standby cbsched runs on {missing}");
            line(out, &text);
        }
    }
    missing.is_empty()
}

/// Appends the members of the JSON object of `cinfo`.
pub(crate) fn put_json(o: &mut Object<'_>, params: &Params, hosts: &[HostRow], dates: &Dates) {
    o.texts("alarms", &params.alarms);
    o.texts("unconfigured_hosts", &params.unconfigured_hosts);
    let trouble: Vec<&HostRow> = hosts.iter().filter(|h| needs_attention(h)).collect();
    cell::list(o.key("hosts_in_trouble"), &trouble, |out, h| {
        let mut one = Object::begin(out);
        one.text("name", &h.name);
        one.text("status", h.status.word());
        one.some_text("reason", &reason(h, dates).unwrap_or_default());
        one.texts("warnings", &h.warnings);
        one.end();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    #[test]
    fn alarms_and_hosts_that_need_attention() {
        let host = |name: &str, status: &str, warnings: &[&str]| HostRow {
            name: name.into(),
            status: status.into(),
            warnings: warnings.iter().map(|w| (*w).to_owned()).collect(),
            ..HostRow::default()
        };
        let mut unavailable = host("h3", "unavail", &[]);
        unavailable.load.t = 1_795_230_429_000;
        let hosts = [
            host("h1", "ok", &[]),
            host("h2", "ok", &["its clock is 10m ahead of the file server's"]),
            unavailable,
            host("h4", "unreach", &[]),
        ];
        let params = Params {
            alarms: vec!["DISK FULL: 1 MB free".into()],
            unconfigured_hosts: vec!["h9".into()],
            params: vec![("cluster.masters".into(), "m1 m2 m3".into())],
            ..Params::default()
        };
        let dates = Dates::new(TimeZone::UTC);
        let leader = Leader {
            host: "m1".into(),
            epoch: 3,
            quiet_ms: None,
        };
        let health = HealthInput {
            params: &params,
            hosts: &hosts,
            leader: &leader,
            silent_ms: Some(23_000),
            standby: &["m2".to_owned()],
            alerts: None,
        };
        let mut out = String::new();
        health.put(&mut out, &dates);
        let want = "\
LEADER: m1, epoch 3, has been silent for 23s
STANDBY: m2; no standby cbsched runs on m3
ALARMS: 1
  DISK FULL: 1 MB free
HOSTS: 4 of 5 need attention
  h2                 ok           its clock is 10m ahead of the file server's
  h3                 unavail      cbls is silent; last report Sat Nov 21 03:07:09
  h4                 unreach      cbls reports but cbexe is silent; see journalctl -u cbexe on h4
  h9                 unlisted     its cbls reports and cb.yaml does not list it under hosts: add it, \
then run 'cadmin reconfig'
";
        assert_eq!(out, want);
        assert!(!health.is_healthy());
        let well = HealthInput {
            params: &Params::default(),
            hosts: &hosts[..2],
            silent_ms: None,
            ..health
        };
        assert!(well.is_healthy());
        let no_leader = Leader::default();
        let leader = &no_leader;
        assert!(!HealthInput { leader, ..well }.is_healthy());
        let full = HostRow {
            njobs: 4,
            slots: 4,
            ..host("h", "closed_Full", &[])
        };
        assert_eq!(reason(&full, &dates).unwrap(), "4 of 4 slots are in use");
        assert_eq!(reason(&host("h", "ok", &[]), &dates), None);
    }
}
