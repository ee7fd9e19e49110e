//! `cslots` (`bslots`): slots on which a job could start now by all limits, and for how long,
//! without the reservations for waiting jobs.
//!
//! Owns the choice of what is shown. Sends no request to the leader: the scheduler runs on a copy
//! of the published cluster, as for `cjobs --why`.

use super::cli::{self, Values, command, flag, opt};
use super::cluster_copy::{self, ClusterCopy};
use super::exit::{Exit, Fail};
use super::read::table::{self, Listing};
use super::read::{self, Source, os_groups};
use crate::config::require;
use crate::intake::{self, NameBudget, Requester};
use crate::language::tell;
use crate::model::{Limits, Share, Spec, Submission};
use crate::record::view::Params;
use crate::sched::Opening;
use crate::show::slots::{self, SlotWindow};
use crate::text::duration;
use crate::text::names::HostSet;
use clap::{ArgMatches, Command};
use std::ffi::OsString;

const LIST: Listing<SlotWindow> = Listing {
    command: "cslots",
    records_key: "WINDOWS",
    fields: slots::FIELDS,
    json_default: slots::JSON_DEFAULT,
    put_json: slots::put_json,
};

/// Its options.
pub(super) fn options() -> Command {
    let about = "Show the slots on which a job can start now, and for how long";
    let cmd = command("cslots", about)
        .arg(flag("l", "Long: the hosts, too"))
        .arg(opt("n", "SLOTS", "At least this many slots"))
        .arg(opt(
            "R",
            "REQ",
            "For a job with this requirement: select[], rusage[], span[]",
        ))
        .arg(opt("W", "TIME", "At least for this time: [HOURS:]MINUTES"))
        .arg(opt("m", "HOST", "On these hosts or host groups"))
        .arg(opt(
            "q",
            "QUEUE",
            "For a job of this queue [the default queue]",
        ));
    table::options(cmd)
}

/// Runs `cslots`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let m = match cli::parse(options(), &read::split_json(args)) {
        Ok(m) => m,
        Err(code) => return code,
    };
    let answer = Source::open("cslots").and_then(|source| {
        let (out, exit) = show(&m, &source)?;
        read::put(&out)?;
        Ok(exit)
    });
    read::end("cslots", answer)
}

/// Its output and its exit code.
///
/// # Errors
/// An option's value is wrong, the view or cb.yaml cannot be read.
pub(super) fn show(m: &ArgMatches, source: &Source) -> Result<(String, Exit), Fail> {
    let mut least = least(m)?;
    let params = source.params()?;
    source.banner(&params);
    let now = source.ctx().now;
    let mut copy = cluster_copy::read(source, &params, now)?;
    let job = probe(m, source, &params, &copy)?;
    let mut windows = match admitted(job, &least, source, &copy) {
        Ok((job, min)) => {
            least.slots = least.slots.max(u64::from(min));
            copy.note_groups(&job.user, &os_groups(&job.user));
            windows(copy.openings(&job), now.0)
        }
        Err(why) => {
            tell!("Such a job would be refused: {why}");
            return Ok((String::new(), Exit::Ok));
        }
    };
    windows.retain(|window| least.admits(window));
    if windows.is_empty() {
        tell!("No slots are free for such a job now");
        return Ok((String::new(), Exit::Ok));
    }
    let rows: Vec<&SlotWindow> = windows.iter().collect();
    if m.has("l") && !Listing::<SlotWindow>::wants_table(m) {
        let mut out = String::new();
        for (n, row) in rows.iter().enumerate() {
            if n > 0 {
                out.push('\n');
            }
            slots::put_long(&mut out, row);
        }
        return Ok((out, Exit::Ok));
    }
    Ok((LIST.render(m, &rows, slots::table)?, Exit::Ok))
}

/// The minimum that a window must have.
struct MinimumWindow {
    slots: u64,
    /// The value of `-n`.
    requested_slots: Option<u64>,
    run_s: u64,
}

impl MinimumWindow {
    fn admits(&self, window: &SlotWindow) -> bool {
        window.slots >= self.slots && window.run_s.is_none_or(|s| s >= self.run_s)
    }
}

fn least(m: &ArgMatches) -> Result<MinimumWindow, Fail> {
    let slots = m.last("n").map(|text| {
        let number = text.parse::<u64>().ok().filter(|n| *n > 0);
        number.ok_or_else(|| {
            let shown = crate::text::width::escape(text);
            Fail::usage(format!("-n: '{shown}' is not a number of slots"))
        })
    });
    let run_s = m.last("W").map(|text| {
        let limit = duration::limit(text).map_err(|e| invalid("W", text, &e))?;
        match limit.on {
            None => Ok(limit.seconds),
            Some(_) => Err(Fail::usage("-W: give [HOURS:]MINUTES, without a host")),
        }
    });
    let requested_slots = slots.transpose()?;
    Ok(MinimumWindow {
        slots: requested_slots.unwrap_or(1),
        requested_slots,
        run_s: run_s.transpose()?.unwrap_or(0),
    })
}

fn invalid(option: &str, value: &str, e: &crate::text::ParseError) -> Fail {
    super::csub::spec::invalid_value(option, value, e)
}

/// The one-slot job for which openings are computed.
fn probe(
    m: &ArgMatches,
    source: &Source,
    params: &Params,
    copy: &ClusterCopy,
) -> Result<Spec, Fail> {
    let queues = &copy.config.queues;
    let queue = match m.last("q") {
        Some(name) if copy.config.queue(name).is_some() => name.to_owned(),
        Some(name) => {
            let known = queues.iter().map(|q| q.name.as_str());
            return Err(read::unknown("queue", name, known));
        }
        None => {
            let known = |name: &&String| copy.config.queue(name).is_some();
            let default = params.default_queues.iter().find(known).cloned();
            let any = || queues.first().map(|q| q.name.clone());
            default.or_else(any).unwrap_or_default()
        }
    };
    let hosts = m.last("m").unwrap_or_default();
    let hosts = match hosts.is_empty() {
        true => String::new(),
        false => {
            let set = HostSet::parse(hosts).map_err(|e| invalid("m", hosts, &e))?;
            set.to_string()
        }
    };
    if let Some(unknown) = require::unknown_host(&hosts, &copy.config) {
        return Err(Fail::not_found(format!("-m: {unknown}")));
    }
    let res_req = m.last("R").unwrap_or_default();
    Ok(Spec {
        uid: source.me.uid,
        user: source.me.name.clone(),
        queue,
        min: 1,
        max: 1,
        sub_host: source.site.host.clone(),
        res_req: require::check_request(res_req, &copy.config).map_err(Fail::usage)?,
        hosts,
        cwd: "/".to_owned(),
        ..Spec::default()
    })
}

/// The job as the leader would accept it, with one slot, and the fewest slots of a job of its
/// queue.
///
/// # Errors
/// Why the leader would refuse it.
fn admitted(
    job: Spec,
    least: &MinimumWindow,
    source: &Source,
    copy: &ClusterCopy,
) -> Result<(Spec, u32), String> {
    let who = Requester {
        uid: job.uid,
        user: job.user.clone(),
        groups: os_groups(&job.user),
    };
    let mut submission = Submission {
        command: "cslots".to_owned(),
        spec: job.clone(),
        ..Submission::default()
    };
    let slots = u32::try_from(least.requested_slots.unwrap_or(0)).unwrap_or(u32::MAX);
    (submission.spec.min, submission.spec.max) = (slots, slots);
    submission.spec.limits.run_s = (least.run_s > 0).then_some(least.run_s);
    // Root may query clusters in which it may not have jobs.
    let mut spec = match who.uid {
        0 => job,
        _ => {
            let (config, state, room) = (&copy.config, &copy.state, &mut NameBudget::default());
            let now = source.ctx().now;
            let admitted = intake::admit(submission, &who, config, state, now, room);
            admitted.map_err(|e| e.text)?.spec
        }
    };
    let queue = copy.config.queue(&spec.queue);
    let min = queue.map_or(1, |queue| queue.job_slots.min);
    (spec.min, spec.max, spec.limits) = (1, 1, Limits::default());
    Ok((spec, min))
}

/// The openings as windows, the shortest, with the most slots, first.
fn windows(openings: Vec<Opening>, now: i64) -> Vec<SlotWindow> {
    let mut out: Vec<SlotWindow> = Vec::new();
    for Opening { until, hosts } in openings {
        let slots = hosts.iter().map(|Share(_, n)| u64::from(*n)).sum();
        let left = |end: i64| (end.saturating_sub(now)).max(0).unsigned_abs() / 1000;
        let window = SlotWindow {
            slots,
            run_s: until.map(left),
            hosts,
        };
        match out.last_mut() {
            // The same number of slots for longer.
            Some(last) if last.slots == slots => *last = window,
            _ if window.run_s != Some(0) => out.push(window),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openings_with_as_many_slots_for_longer_are_one_window() {
        let opening = |until, slots| Opening {
            until,
            hosts: vec![Share("h1".to_owned(), slots)],
        };
        let openings = [(Some(1500), 9), (Some(31_000), 7), (Some(61_000), 7)];
        let openings = openings.into_iter().chain([(None, 4)]);
        let openings = openings.map(|(until, slots)| opening(until, slots));
        let found = windows(openings.collect(), 1000);
        let found: Vec<_> = found.iter().map(|w| (w.slots, w.run_s)).collect();
        assert_eq!(found, [(7, Some(60)), (4, None)]);
        assert!(windows(Vec::new(), 0).is_empty());
    }

    const CONFIG: &str = "cluster: {name: c1, administrators: [boss]}\n\
        hosts: [{name: h1, slots: 8}, {name: h2, slots: 8}, {name: h3, slots: 8}]\n\
        queues: [{name: normal, priority: 30, backfill: yes}, {name: night, priority: 5}]\n";

    #[test]
    fn golden_output() {
        use crate::client::read::test_cluster;
        let bed = test_cluster::cluster();
        std::fs::create_dir(bed.dir.path().join("conf")).unwrap();
        std::fs::write(bed.dir.path().join("conf/cb.yaml"), CONFIG).unwrap();
        let lines = ["", "-l", "-n 100", "-m h1 -l", "-q night", "--json"];
        test_cluster::compare("cslots", &lines, |words| {
            let m = test_cluster::parse(options(), words);
            show(&m, &bed.source("cslots", 10)).expect("it answers").0
        });
    }

    #[test]
    fn values_that_are_no_numbers_are_refused() {
        let of = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(Into::into).collect();
            least(&cli::parse(options(), &words).unwrap()).map(|l| (l.slots, l.run_s))
        };
        assert_eq!(of(&["-n", "4", "-W", "1:30"]).unwrap(), (4, 5400));
        for bad in [["-n", "0"], ["-n", "x"], ["-W", "x"], ["-W", "10/h1"]] {
            assert_eq!(of(&bad).unwrap_err().exit, Exit::Usage, "{bad:?}");
        }
    }
}
