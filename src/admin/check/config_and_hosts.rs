//! The configuration, the hosts' beats and clocks, and the leader's alarms.

use super::Ctx;
use super::finding::Finding;
use super::state::sample;
use crate::config::Config;
use crate::record::leader::{EpochDoc, FIXED_LEN, decode_fixed};
use crate::record::load::LoadDoc;
use crate::spool::beats::Beats;
use crate::spool::view::ViewReader;
use crate::sys;
use crate::text::count::count;
use crate::text::duration::short;

/// A host whose file is older than this many of its beats is stale.
const BEATS: u64 = 4;
/// Differences between clocks above this are reported, ms.
pub(super) const SKEW_MS: u64 = 5_000;
/// Maximum number of hosts that are checked.
const HOSTS_MAX: usize = 100_000;

/// The current cb.yaml, if it is valid.
pub(super) fn config(ctx: &Ctx, out: &mut Vec<Finding>) -> Option<Config> {
    let path = ctx.layout.config();
    match crate::admin::config_file::load(&path) {
        Ok(loaded) => Some(loaded.config),
        Err(e) => {
            let first = e
                .text
                .lines()
                .find(|l| l.contains("error"))
                .unwrap_or(&e.text);
            let what = format!("it is not valid: {first}; a new leader uses the last valid one");
            let todo = "'cadmin ckconfig' lists every problem";
            out.push(Finding::broken("config", path.display(), what, todo));
            None
        }
    }
}

/// Checks that no host follows an epoch that is not claimed here.
fn check_epochs_of_hosts(ctx: &Ctx, hosts: &[(String, i64, LoadDoc)], out: &mut Vec<Finding>) {
    let Some((host, _, doc)) = hosts.iter().max_by_key(|(_, _, doc)| doc.epoch) else {
        return;
    };
    let claims = crate::spool::claims(&ctx.layout).unwrap_or_default();
    let newest = claims.into_iter().max().unwrap_or(0);
    if doc.epoch > newest {
        let what = format!(
            "it has followed epoch {}, but the newest epoch here is {newest}: the share was \
             restored to an earlier state",
            doc.epoch
        );
        let todo =
            "if it was restored from a backup: 'cadmin restored --confirm' continues from it";
        out.push(Finding::broken("hosts", format!("host {host}"), what, todo));
    }
}

/// Runs the checks that need no second pass.
pub(super) fn check_all(ctx: &Ctx) -> Vec<Finding> {
    let mut out = Vec::new();
    alarms(ctx, &mut out);
    beats(ctx, &mut out);
    out
}

/// The alarms that the leader publishes.
pub(super) fn alarms(ctx: &Ctx, out: &mut Vec<Finding>) {
    let Ok(params) = ViewReader::new(&ctx.layout).params() else {
        return;
    };
    for (n, alarm) in params.alarms.iter().enumerate() {
        let todo = leader_log(ctx);
        out.push(if n < params.grave_alarms {
            Finding::broken("leader", "alarm", alarm.clone(), todo.clone())
        } else {
            Finding::warning("leader", "alarm", alarm.clone(), todo.clone())
        });
    }
    let path = ctx.layout.config();
    if !params.config_problems.is_empty() {
        let n = count(params.config_problems.len(), "problem");
        let what = format!("the leader refused it ({n}); the previous one stays in force");
        let todo = "'cadmin ckconfig' lists every problem, 'cadmin reconfig' tries again";
        out.push(Finding::warning("config", path.display(), what, todo));
        return;
    }
    let mut ignored = Vec::new();
    if let Some(config) = config(ctx, &mut ignored)
        && config.digest() != params.config_digest
    {
        let what = "it was changed and is not yet in force";
        let todo = "'cadmin reconfig' applies it";
        out.push(Finding::warning("config", path.display(), what, todo));
    }
}

fn leader_log(ctx: &Ctx) -> String {
    let bytes = sys::fs::read_small(&ctx.layout.epoch(), FIXED_LEN as u64).ok();
    let leader = bytes.and_then(|bytes| decode_fixed::<EpochDoc>(&bytes).ok());
    let host = leader.map_or_else(|| "HOST".to_owned(), |doc| doc.host);
    format!("see the leader's log: {}", ctx.log_of("cbsched", &host))
}

/// Checks the beats by the file server's clock alone: the newest of all files counts as "now".
fn beats(ctx: &Ctx, out: &mut Vec<Finding>) {
    let names = sys::fs::list_dir(&ctx.layout.hosts(), HOSTS_MAX).unwrap_or_default();
    let written = |path: &std::path::Path| {
        let stat = sys::fs::stat(path).ok().flatten();
        stat.map(|s| s.mtime_ms)
    };
    let beats = Beats::list(&ctx.layout);
    let mut hosts: Vec<(String, i64, LoadDoc)> = Vec::new();
    for host in names.iter().filter_map(|e| e.text()) {
        let path = ctx.layout.load(host);
        if let Some(mut doc) = sample(ctx, host)
            && let Some(at) = written(&path)
        {
            // The document has a time of the host's clock, the file one of the server's clock;
            // their difference converts the time of a later beat to the server's clock.
            let ahead = doc.t.saturating_sub(at);
            beats.put_into(host, &mut doc);
            hosts.push((host.to_owned(), ahead, doc));
        }
    }
    check_epochs_of_hosts(ctx, &hosts, out);
    let beat_at = |ahead: i64, doc: &LoadDoc| doc.t.saturating_sub(ahead);
    let newest = hosts
        .iter()
        .map(|(_, ahead, doc)| beat_at(*ahead, doc))
        .max();
    let now = newest.max(written(&ctx.layout.beat())).unwrap_or(0);
    for (host, skew, doc) in &hosts {
        let place = format!("host {host}");
        let age = u64::try_from(now.saturating_sub(beat_at(*skew, doc))).unwrap_or(0);
        if age > BEATS * doc.every_ms.max(1000) {
            let what = format!("it has been silent for {}", short(age));
            let todo = match &ctx.development {
                Some(_) => format!(
                    "{}; its log: {}",
                    ctx.start_of("cbls"),
                    ctx.log_of("cbls", host)
                ),
                None => "check that the machine is up, the share is mounted there and cbls runs; \
                         if the host is dead for good: 'cadmin hlost --confirm'"
                    .to_owned(),
            };
            out.push(Finding::warning("hosts", &place, what, todo));
            continue;
        }
        if skew.unsigned_abs() > SKEW_MS {
            let word = if *skew > 0 { "ahead of" } else { "behind" };
            let what = format!(
                "its clock is {} {word} the file server's",
                short(skew.unsigned_abs())
            );
            let todo = "synchronize it with a time server; only the times of its jobs are wrong";
            out.push(Finding::warning("hosts", &place, what, todo));
        }
        if !doc.executor {
            let what = "cbls reports but cbexe is silent";
            let (start, log) = (ctx.start_of("cbexe"), ctx.log_of("cbexe", host));
            let todo = format!("{start}; its log: {log}");
            out.push(Finding::warning("hosts", &place, what, todo));
        }
        for note in &doc.notes {
            let todo = "see cbls(8) and cbexe(8)";
            out.push(Finding::warning("hosts", &place, note.clone(), todo));
        }
    }
}
