//! What a cb.yaml would change, for `cadmin ckconfig -v`: settings that differ from those in force,
//! and hosts that queues lose while jobs run there.
//!
//! Owns the comparison. Changes nothing and judges nothing.

use crate::client::env::Site;
use crate::client::exit::{Fail, Result};
use crate::config::{Config, changes};
use crate::language::translated;
use crate::spool::view::{JobSet, ViewJob, ViewReader};
use crate::text::width::escape;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Maximum number of settings that are listed.
const SHOWN: usize = 200;
/// Maximum number of hosts that are named for one queue.
const HOSTS_NAMED: usize = 10;

/// The lines for the file `after`, compared with the configuration in force; empty if no leader has
/// put one in force yet.
///
/// # Errors
/// The published view cannot be read, although a queue loses hosts.
pub(super) fn effects_text(site: &Site, after: &Config) -> Result<String> {
    let layout = site.layout();
    let in_force = crate::master::config_in_force_path(&layout);
    let Ok(before) = super::config_file::load(&in_force) else {
        return Ok(String::new());
    };
    let lost = lost_hosts(&before.config, after);
    let mut out = settings(&before.config, after);
    if lost.is_empty() {
        return Ok(out);
    }
    let running = JobSet {
        finished: false,
        ..JobSet::all()
    };
    let (jobs, _) = ViewReader::new(&layout)
        .collect(&running)
        .map_err(|e| Fail::system(e.to_string()))?;
    put_lost(&mut out, &lost, |queue, hosts| {
        let runs = |job: &&ViewJob| runs_in(job, queue, hosts);
        jobs.iter().filter(runs).count()
    });
    Ok(out)
}

fn runs_in(job: &ViewJob, queue: &str, hosts: &BTreeSet<&str>) -> bool {
    let row = &job.row;
    let there = row.hosts.iter().any(|share| hosts.contains(&*share.0));
    row.stat.is_started() && job.spec.queue == queue && there
}

/// The settings that differ: `+` and `-` for what comes and goes.
fn settings(before: &Config, after: &Config) -> String {
    let all = changes(before, after);
    let mut out = String::new();
    let mut put = |text: &str| writeln!(out, "{text}").expect("a string takes every write");
    put(&translated(match all.is_empty() {
        true => "Same settings as in force.",
        false => "Changes of the settings in force:",
    }));
    for change in all.iter().take(SHOWN) {
        let place = escape(&change.place);
        put(&match (&change.before, &change.after) {
            (Some(old), Some(new)) => format!("  {place}: {} -> {}", escape(old), escape(new)),
            (Some(old), None) => format!("- {place}: {}", escape(old)),
            (None, new) => format!("+ {place}: {}", escape(new.as_deref().unwrap_or_default())),
        });
    }
    if all.len() > SHOWN {
        put(&translated(&format!("and {} more", all.len() - SHOWN)));
    }
    out
}

/// The hosts that each queue has now and would lose. A queue that goes loses all of them.
fn lost_hosts<'c>(before: &'c Config, after: &Config) -> BTreeMap<&'c str, BTreeSet<&'c str>> {
    let mut all = BTreeMap::new();
    let listed: BTreeSet<&str> = after.host_names().collect();
    for queue in &before.queues {
        let new = after.queues.iter().find(|q| q.name == queue.name);
        let keeps =
            |host: &&str| listed.contains(host) && new.is_some_and(|q| q.hosts.contains(host));
        let hosts = before.host_names().filter(|h| queue.hosts.contains(h));
        let hosts: BTreeSet<&str> = hosts.filter(|host| !keeps(host)).collect();
        if !hosts.is_empty() {
            all.insert(queue.name.as_str(), hosts);
        }
    }
    all
}

/// A line for each queue. `jobs`: how many jobs of a queue run on any of the hosts.
fn put_lost(
    out: &mut String,
    lost: &BTreeMap<&str, BTreeSet<&str>>,
    jobs: impl Fn(&str, &BTreeSet<&str>) -> usize,
) {
    for (queue, hosts) in lost {
        let mut names: Vec<&str> = hosts.iter().copied().take(HOSTS_NAMED).collect();
        if names.len() < hosts.len() {
            names.push("...");
        }
        let (n, names) = (hosts.len(), names.join(" "));
        let run = jobs(queue, hosts);
        let line = format!("queue {queue} loses hosts: {n} ({names}); jobs running there: {run}");
        writeln!(out, "{}", translated(&line)).expect("a string takes every write");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{OsNames, load};

    fn config(hosts: &str, queues: &str) -> Config {
        let text = format!(
            "cluster: {{name: c, administrators: [root]}}\nhosts: {hosts}\nqueues:\n{queues}"
        );
        let os = OsNames {
            user: &|_| true,
            group: &|_| false,
        };
        let loaded = load(text.as_bytes(), "cb.yaml", &os);
        loaded.expect("it is sound").config
    }

    #[test]
    fn hosts_that_queues_lose_are_listed_with_the_jobs_there() {
        let before = config(
            "[{names: 'h[1-3]'}]",
            "- {name: a, priority: 1}\n- {name: b, hosts: h1 h2}\n- {name: c, hosts: h1}\n",
        );
        let after = config(
            "[{names: 'h[1-2]'}]",
            "- {name: a, priority: 5}\n- {name: b, hosts: h2}\n",
        );
        let lost = lost_hosts(&before, &after);
        let mut out = String::new();
        put_lost(&mut out, &lost, |queue, _| usize::from(queue == "a") * 3);
        assert_eq!(
            out,
            "queue a loses hosts: 1 (h3); jobs running there: 3\n\
             queue b loses hosts: 1 (h1); jobs running there: 0\n\
             queue c loses hosts: 1 (h1); jobs running there: 0\n"
        );
        let many: Vec<String> = (10..30).map(|n| format!("h{n}")).collect();
        let many: BTreeSet<&str> = many.iter().map(String::as_str).collect();
        let mut out = String::new();
        put_lost(&mut out, &BTreeMap::from([("q", many)]), |_, hosts| {
            hosts.len()
        });
        assert!(out.contains("20 (h10 ") && out.ends_with("h19 ...); jobs running there: 20\n"));
        let effects = settings(&before, &after);
        for line in [
            "  queues[a].priority: 1 -> 5",
            "- hosts.entries[h3]: ",
            "- queues[c]: ",
        ] {
            assert!(
                effects.lines().any(|l| l.starts_with(line)),
                "{line}: {effects}"
            );
        }
        assert_eq!(settings(&after, &after), "Same settings as in force.\n");
    }
}
