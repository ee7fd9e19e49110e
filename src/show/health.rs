//! The health of the cluster: alarms, and hosts that need attention.

use super::cell::{self, Object};
use super::dates::Dates;
use crate::record::view::{HostRow, Params};
use crate::text::count::count;
use crate::text::width;
use std::fmt::Write as _;

/// Why a host takes no job now; `None` when it does, or its administrator's comment says it.
pub(crate) fn reason(h: &HostRow, dates: &Dates) -> Option<String> {
    let text = match h.status.as_str() {
        "unavail" if h.load.t > 0 => {
            let mut text = "cbls is silent; last report ".to_owned();
            dates.long(&mut text, h.load.t);
            text
        }
        "unavail" => "has never reported; start cbls and cbexe there and check that the share is \
                      mounted"
            .into(),
        "unreach" => format!(
            "cbls reports but cbexe is silent; see journalctl -u cbexe on {}",
            h.name
        ),
        "closed_Full" => format!("{} of {} slots are in use", h.njobs, h.slots),
        "closed_Excl" => "an exclusive job uses it".into(),
        "closed_Busy" => "its load is over a threshold".into(),
        "closed_Wind" => "it is outside its dispatch window".into(),
        "closed_Adm" if h.closed_by.is_empty() && h.comment.is_empty() => {
            "cb.yaml configures it to run no jobs".into()
        }
        _ => return None,
    };
    Some(text)
}

/// Needs attention: silent, without cbexe, or with warnings.
fn in_trouble(h: &HostRow) -> bool {
    matches!(h.status.as_str(), "unavail" | "unreach") || !h.warnings.is_empty()
}

/// Appends the page of `cinfo -health`.
pub(crate) fn put(out: &mut String, params: &Params, hosts: &[HostRow], dates: &Dates) {
    let put = |out: &mut String, args: std::fmt::Arguments<'_>| {
        out.write_fmt(args).expect("a string takes every write");
    };
    match params.alarms.len() {
        0 => out.push_str("ALARMS: none\n"),
        n => put(out, format_args!("ALARMS: {n}\n")),
    }
    for alarm in &params.alarms {
        put(out, format_args!("  {}\n", width::escape(alarm)));
    }
    if !params.config_problems.is_empty() {
        let n = count(params.config_problems.len(), "problem");
        put(
            out,
            format_args!(
                "CONFIGURATION: {n}, the previous cb.yaml stays in force; see cadmin ckconfig\n"
            ),
        );
    }
    let trouble: Vec<&HostRow> = hosts.iter().filter(|h| in_trouble(h)).collect();
    let (n, all) = (trouble.len(), hosts.len());
    let need = if n == 1 { "needs" } else { "need" };
    put(out, format_args!("HOSTS: {n} of {all} {need} attention\n"));
    for h in trouble {
        let (name, status) = (width::escape(&h.name), width::escape(&h.status));
        let mut what: Vec<String> = reason(h, dates).into_iter().collect();
        what.extend(h.warnings.iter().cloned());
        for text in what {
            put(
                out,
                format_args!("  {name:<18} {status:<12} {}\n", width::escape(&text)),
            );
        }
    }
}

/// Appends the members of the JSON object of `cinfo`.
pub(crate) fn put_json(o: &mut Object<'_>, params: &Params, hosts: &[HostRow], dates: &Dates) {
    o.texts("alarms", &params.alarms);
    let trouble: Vec<&HostRow> = hosts.iter().filter(|h| in_trouble(h)).collect();
    cell::list(o.key("hosts_in_trouble"), &trouble, |out, h| {
        let mut one = Object::begin(out);
        one.text("name", &h.name);
        one.text("status", &h.status);
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
        let mut gone = host("h3", "unavail", &[]);
        gone.load.t = 1_795_230_429_000;
        let hosts = [
            host("h1", "ok", &[]),
            host("h2", "ok", &["its clock is 10m ahead of the file server's"]),
            gone,
            host("h4", "unreach", &[]),
        ];
        let params = Params {
            alarms: vec!["DISK FULL: 1 MB free".into()],
            ..Params::default()
        };
        let dates = Dates::new(TimeZone::UTC);
        let mut out = String::new();
        put(&mut out, &params, &hosts, &dates);
        let want = "\
ALARMS: 1
  DISK FULL: 1 MB free
HOSTS: 3 of 4 need attention
  h2                 ok           its clock is 10m ahead of the file server's
  h3                 unavail      cbls is silent; last report Sat Nov 21 03:07:09
  h4                 unreach      cbls reports but cbexe is silent; see journalctl -u cbexe on h4
";
        assert_eq!(out, want);
        let full = HostRow {
            njobs: 4,
            slots: 4,
            ..host("h", "closed_Full", &[])
        };
        assert_eq!(reason(&full, &dates).unwrap(), "4 of 4 slots are in use");
        assert_eq!(reason(&host("h", "ok", &[]), &dates), None);
    }
}
