//! `cslots` (`bslots`): slots on which a job could start now, and for how long, without the
//! reservations for waiting jobs.
//!
//! Owns the choice of what is shown. Sends no request to the leader: the scheduler runs on a copy
//! of the published cluster, as for `cjobs --why`.

use super::cli::{self, Values, command, flag, opt};
use super::cluster_copy::{self, ClusterCopy};
use super::exit::{Exit, Fail};
use super::read::table::{self, Listing};
use super::read::{self, Source};
use crate::config::require;
use crate::language::tell;
use crate::model::{Share, Spec};
use crate::record::view::Params;
use crate::sched::Opening;
use crate::show::slots::{self, SlotWindow};
use crate::text::duration;
use crate::text::names::HostSet;
use clap::{ArgMatches, Command};
use std::ffi::OsString;

const LIST: Listing<SlotWindow> = Listing {
    command: "cslots",
    what: "WINDOWS",
    fields: slots::FIELDS,
    json_default: slots::JSON_DEFAULT,
    put_json: slots::put_json,
};

/// Its options.
pub(super) fn options() -> Command {
    let about = "Show the slots that a job could begin on now, and for how long";
    let cmd = command("cslots", about)
        .arg(flag("l", "Long: the hosts, too"))
        .arg(opt("n", "SLOTS", "At least so many slots"))
        .arg(opt(
            "R",
            "REQ",
            "For a job with this requirement: select[], rusage[], span[]",
        ))
        .arg(opt("W", "TIME", "At least for so long: [HOURS:]MINUTES"))
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

/// What it prints, and how it ends.
///
/// # Errors
/// An option's value is wrong, the view or cb.yaml cannot be read.
pub(super) fn show(m: &ArgMatches, source: &Source) -> Result<(String, Exit), Fail> {
    let least = least(m)?;
    let params = source.params()?;
    source.banner(&params);
    let now = source.ctx().now;
    let mut copy = cluster_copy::read(source, &params, now)?;
    let job = probe(m, source, &params, &copy)?;
    let openings = copy.openings(&job);
    let mut windows = windows(&openings, now.0);
    windows.retain(|window| least.holds(window));
    if windows.is_empty() {
        tell!("No slots are free for such a job now");
        return Ok((String::new(), Exit::Ok));
    }
    let rows: Vec<&SlotWindow> = windows.iter().collect();
    if m.has("l") && !Listing::<SlotWindow>::is_asked(m) {
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

/// What a window must have at least.
struct Least {
    slots: u64,
    run_s: u64,
}

impl Least {
    fn holds(&self, window: &SlotWindow) -> bool {
        window.slots >= self.slots && window.run_s.is_none_or(|s| s >= self.run_s)
    }
}

fn least(m: &ArgMatches) -> Result<Least, Fail> {
    let slots = m.last("n").map(|text| {
        let number = text.parse::<u64>().ok().filter(|n| *n > 0);
        number.ok_or_else(|| {
            let shown = crate::text::width::escape(text);
            Fail::usage(format!("-n: '{shown}' is not a number of slots"))
        })
    });
    let run_s = m.last("W").map(|text| {
        let limit = duration::limit(text).map_err(|e| wrong("W", text, &e))?;
        match limit.on {
            None => Ok(limit.seconds),
            Some(_) => Err(Fail::usage("-W: give [HOURS:]MINUTES, without a host")),
        }
    });
    Ok(Least {
        slots: slots.transpose()?.unwrap_or(1),
        run_s: run_s.transpose()?.unwrap_or(0),
    })
}

fn wrong(option: &str, value: &str, e: &crate::text::ParseError) -> Fail {
    super::csub::spec::wrong(option, value, e)
}

/// The job of one slot that the question is about.
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
            let set = HostSet::parse(hosts).map_err(|e| wrong("m", hosts, &e))?;
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

/// One window for each time at which hosts are wanted by others; the shortest, with the most
/// slots, first.
fn windows(openings: &[Opening], now: i64) -> Vec<SlotWindow> {
    let steps = openings.iter().flat_map(|opening| &opening.steps);
    // No end comes last.
    let mut ends: Vec<i64> = steps.map(|s| s.until.unwrap_or(i64::MAX)).collect();
    ends.sort_unstable();
    ends.dedup();
    let mut out: Vec<SlotWindow> = Vec::new();
    for end in ends {
        let share = |opening: &Opening| {
            let lasts = |until: Option<i64>| until.is_none_or(|until| until >= end);
            let step = opening.steps.iter().find(|step| lasts(step.until))?;
            Some(Share(opening.host.clone(), step.slots))
        };
        let hosts: Vec<Share> = openings.iter().filter_map(share).collect();
        let slots = hosts.iter().map(|Share(_, n)| u64::from(*n)).sum();
        let left = (end.saturating_sub(now)).max(0).unsigned_abs() / 1000;
        let window = SlotWindow {
            slots,
            run_s: (end < i64::MAX).then_some(left),
            hosts,
        };
        match out.last_mut() {
            // As many for longer.
            Some(last) if last.slots == slots => *last = window,
            _ if slots > 0 && window.run_s != Some(0) => out.push(window),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::OpeningStep;

    fn opening(host: &str, steps: &[(Option<i64>, u32)]) -> Opening {
        let step = |(until, slots): &(Option<i64>, u32)| OpeningStep {
            until: *until,
            slots: *slots,
        };
        Opening {
            host: host.to_owned(),
            steps: steps.iter().map(step).collect(),
        }
    }

    #[test]
    fn windows_are_what_all_hosts_have_until_some_time() {
        let openings = [
            opening("h1", &[(Some(61_000), 4), (None, 1)]),
            opening("h2", &[(Some(31_000), 2)]),
            opening("h3", &[(None, 3)]),
        ];
        let got = windows(&openings, 1000);
        let got: Vec<_> = got.iter().map(|w| (w.slots, w.run_s)).collect();
        assert_eq!(got, [(9, Some(30)), (7, Some(60)), (4, None)]);
        assert!(windows(&[], 0).is_empty());
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
