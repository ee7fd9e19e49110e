//! `cacct --advice`: compares what jobs requested with what similar jobs used, and recommends what
//! to request.
//!
//! Owns which jobs are similar and the rules of the advice. Jobs are similar if they belong to the
//! same user and queue and their names differ only in digits; without a name, the program is
//! compared instead. Reads no file.

use super::totals::Distribution;
use crate::model::TermReason;
use crate::record::acct::AttemptRecord;
use crate::show::cell::{self, Object};
use crate::text::width::{escape, pad_right};
use rustc_hash::FxHashMap;
use std::fmt::Write as _;

/// Number of jobs that must have ended with DONE before advice is given.
const RUNS_MIN: u64 = 5;
/// Maximum number of kinds of jobs that are distinguished; attempts of further kinds are only
/// counted.
const KINDS_MAX: usize = 100_000;
/// Maximum number of characters in the name of a kind.
const NAME_MAX: usize = 60;
/// A limit that killed at least one of this many jobs is too low.
const KILLED_ONE_OF: u64 = 20;
/// The advised value in percent of the maximum used: of memory, of run time.
const MEM_MARGIN: u64 = 125;
const RUN_MARGIN: u64 = 150;
/// A limit is left as it is unless the advice is below this percentage of it.
const WORTH_PERCENT: u64 = 80;
/// The advised value for a limit that is too low, in percent of it.
const RAISED_PERCENT: u64 = 150;
/// Run limits are advised in steps of this many seconds.
const RUN_STEP_S: u64 = 300;

/// The properties by which jobs count as similar.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
struct JobKind {
    user: String,
    queue: String,
    name: String,
}

/// What similar jobs requested and used. Memory in KB, run time in s, cores in thousandths.
#[derive(Clone, Default, Debug)]
struct KindUsage {
    mem_killed: u64,
    run_killed: u64,
    mem_asked: Distribution,
    mem_used: Distribution,
    run_asked: Distribution,
    run_used: Distribution,
    slots: Distribution,
    cores: Distribution,
    slot_ms: u128,
}

/// All kinds of jobs among the selected attempts.
#[derive(Clone, Default, Debug)]
pub(super) struct Advice {
    kinds: FxHashMap<JobKind, KindUsage>,
    /// Attempts of kinds beyond the maximum.
    left_out: u64,
}

impl Advice {
    /// Counts an attempt that ended with DONE or was killed by its memory or run limit, and was not
    /// requeued.
    pub(super) fn add(&mut self, record: &AttemptRecord<'_>) {
        let killed = |reason| record.reason == reason;
        let (by_mem, by_run) = (killed(TermReason::MemLimit), killed(TermReason::RunLimit));
        if record.requeued || !(record.is_done() || by_mem || by_run) {
            return;
        }
        let kind = kind_of(record);
        if self.kinds.len() >= KINDS_MAX && !self.kinds.contains_key(&kind) {
            self.left_out += 1;
            return;
        }
        self.kinds.entry(kind).or_default().add(record);
    }

    /// Adds the counts of another one.
    pub(super) fn merge(&mut self, other: &Advice) {
        self.left_out += other.left_out;
        for (kind, of) in &other.kinds {
            if self.kinds.len() >= KINDS_MAX && !self.kinds.contains_key(kind) {
                self.left_out += of.slots.count();
                continue;
            }
            self.kinds.entry(kind.clone()).or_default().merge(of);
        }
    }

    /// Kinds with enough jobs, those with the most slot time first.
    fn rows(&self) -> Vec<(&JobKind, &KindUsage)> {
        let enough = |(_, of): &(&JobKind, &KindUsage)| of.run_used.count() >= RUNS_MIN;
        let mut rows: Vec<_> = self.kinds.iter().filter(enough).collect();
        rows.sort_unstable_by(|a, b| b.1.slot_ms.cmp(&a.1.slot_ms).then(a.0.cmp(b.0)));
        rows
    }

    pub(super) fn print(&self, out: &mut String) {
        let rows = self.rows();
        if rows.is_empty() {
            let _ = writeln!(
                out,
                "There are no {RUNS_MIN} similar jobs that ended as DONE in the selection."
            );
            return;
        }
        let _ = writeln!(
            out,
            "{:<12} {:<12} {:<24} {:>7} {:>6} {:>9} {:>9} {:>9} {:>9} {:>5} {:>6}  ADVICE",
            "USER",
            "QUEUE",
            "JOBS",
            "RUNS",
            "KILLED",
            "MEM_LIMIT",
            "MEM_MOST",
            "RUN_LIMIT",
            "RUN_MOST",
            "SLOTS",
            "CORES"
        );
        for (kind, of) in rows {
            let cut = |text: &str, n| pad_right(&escape(text), n);
            let mut cores = String::new();
            cell::fraction(&mut cores, of.cores.percentile(95), 1);
            let _ = writeln!(
                out,
                "{} {} {} {:>7} {:>6} {:>9} {:>9} {:>9} {:>9} {:>5} {:>6}  {}",
                cut(&kind.user, 12),
                cut(&kind.queue, 12),
                cut(&kind.name, 24),
                of.run_used.count(),
                of.mem_killed + of.run_killed,
                of.mem_asked.median().map_or("-".into(), mem_text),
                mem_text(of.mem_used.max()),
                of.run_asked.median().map_or("-".into(), run_text),
                run_text(of.run_used.max()),
                of.slots.percentile(50),
                cores,
                advice_text(&of.advice()),
            );
        }
        if self.left_out > 0 {
            let n = self.left_out;
            let _ = writeln!(out, "\n{n} attempts of further kinds are not shown");
        }
    }

    /// The same as JSON Lines, without the values that only repeat others for readers.
    pub(super) fn json(&self, out: &mut String) {
        for (kind, of) in self.rows() {
            let mut o = Object::begin(out);
            o.text("user", &kind.user);
            o.text("queue", &kind.queue);
            o.text("jobs", &kind.name);
            o.int("runs", of.run_used.count());
            o.int("killed_by_memory_limit", of.mem_killed);
            o.int("killed_by_run_limit", of.run_killed);
            o.opt("mem_limit_kb", of.mem_asked.median());
            o.int("mem_most_kb", of.mem_used.max());
            o.opt("run_limit_s", of.run_asked.median());
            o.int("run_most_s", of.run_used.max());
            o.int("slots", of.slots.percentile(50));
            o.float("cores_p95", of.cores.percentile(95) as f64 / 1000.0);
            let RequestAdvice {
                mem_mb,
                run_s,
                slots,
            } = of.advice();
            o.opt("advised_mem_limit_mb", mem_mb);
            o.opt("advised_run_limit_s", run_s);
            o.opt("advised_slots", slots);
            o.end();
            out.push('\n');
        }
    }
}

fn kind_of(record: &AttemptRecord<'_>) -> JobKind {
    let name = match &*record.name {
        "" => {
            let program = record.command.split_whitespace().next().unwrap_or_default();
            program.rsplit('/').next().unwrap_or_default()
        }
        name => name,
    };
    JobKind {
        user: record.user.to_string(),
        queue: record.queue.to_string(),
        name: without_digits(name),
    }
}

/// Replaces each sequence of digits by `#`.
fn without_digits(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars().take(NAME_MAX) {
        match c.is_ascii_digit() {
            false => out.push(c),
            true if out.ends_with('#') => {}
            true => out.push('#'),
        }
    }
    out
}

/// The advice; `None`: leave the value as it is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct RequestAdvice {
    mem_mb: Option<u64>,
    run_s: Option<u64>,
    slots: Option<u64>,
}

impl KindUsage {
    fn add(&mut self, record: &AttemptRecord<'_>) {
        if let Some(bytes) = record.mem_b {
            self.mem_asked.add(bytes >> 10);
        }
        if let Some(seconds) = record.run_s {
            self.run_asked.add(seconds);
        }
        if !record.is_done() {
            let by_mem = record.reason == TermReason::MemLimit;
            self.mem_killed += u64::from(by_mem);
            self.run_killed += u64::from(!by_mem);
            return;
        }
        let run_ms = record.run_ms();
        self.mem_used.add(record.host_mem_kb());
        self.run_used.add(run_ms.div_ceil(1000));
        self.slots.add(record.slots());
        let cores = u128::from(record.cpu_ms) * 1000 / u128::from(run_ms.max(1));
        self.cores.add(u64::try_from(cores).unwrap_or(u64::MAX));
        self.slot_ms += u128::from(run_ms) * u128::from(record.slots());
    }

    fn merge(&mut self, other: &KindUsage) {
        self.mem_killed += other.mem_killed;
        self.run_killed += other.run_killed;
        self.slot_ms += other.slot_ms;
        for (mine, theirs) in [
            (&mut self.mem_asked, &other.mem_asked),
            (&mut self.mem_used, &other.mem_used),
            (&mut self.run_asked, &other.run_asked),
            (&mut self.run_used, &other.run_used),
            (&mut self.slots, &other.slots),
            (&mut self.cores, &other.cores),
        ] {
            mine.merge(theirs);
        }
    }

    fn advice(&self) -> RequestAdvice {
        let runs = self.run_used.count();
        let too_low = |killed: u64| killed > 0 && killed * KILLED_ONE_OF >= runs + killed;
        let limit = |requested: &Distribution, used: &Distribution, killed: u64, margin: u64| {
            let requested = requested.median()?;
            if too_low(killed) {
                return Some(requested.saturating_mul(RAISED_PERCENT) / 100);
            }
            let enough = used.max().saturating_mul(margin).div_ceil(100).max(1);
            let worth = enough < requested.saturating_mul(WORTH_PERCENT) / 100;
            worth.then_some(enough)
        };
        let mem = limit(&self.mem_asked, &self.mem_used, self.mem_killed, MEM_MARGIN);
        let run = limit(&self.run_asked, &self.run_used, self.run_killed, RUN_MARGIN);
        let slots = self.slots.percentile(50);
        let busy = self.cores.percentile(95).div_ceil(1000).max(1);
        RequestAdvice {
            mem_mb: mem.map(|kb| rounded_mb(kb.div_ceil(1024))),
            run_s: run.map(|s| s.div_ceil(RUN_STEP_S) * RUN_STEP_S),
            slots: Some(busy).filter(|busy| *busy < slots),
        }
    }
}

/// The next amount with two significant digits.
fn rounded_mb(mb: u64) -> u64 {
    let mut step = 10;
    while mb / step >= 100 {
        step *= 10;
    }
    mb.div_ceil(step).saturating_mul(step)
}

fn mem_text(kb: u64) -> String {
    format!("{}M", kb.div_ceil(1024))
}

/// `H:MM`, rounded up, in the form of `-W`.
fn run_text(seconds: u64) -> String {
    let minutes = seconds.div_ceil(60);
    format!("{}:{:02}", minutes / 60, minutes % 60)
}

fn advice_text(advice: &RequestAdvice) -> String {
    let parts = [
        advice.mem_mb.map(|mb| format!("-M {mb}M")),
        advice.run_s.map(|s| format!("-W {}", run_text(s))),
        advice.slots.map(|n| format!("-n {n}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => "-".to_owned(),
        false => parts.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::acct::HostSlots;

    fn record(name: &str, mem_mb: u64, run_s: i64) -> AttemptRecord<'static> {
        AttemptRecord {
            user: "ada".into(),
            queue: "q".into(),
            name: name.to_owned().into(),
            command: "/opt/x/solve --in 5".into(),
            start: 1,
            end: 1 + run_s * 1000,
            hosts: vec![HostSlots("h1".into(), 4)],
            code: Some(0),
            maxmem_kb: mem_mb << 10,
            cpu_ms: (run_s * 1500).unsigned_abs(),
            mem_b: Some(8 << 30),
            run_s: Some(36_000),
            ..AttemptRecord::default()
        }
    }

    fn advice(records: &[AttemptRecord<'_>]) -> Option<RequestAdvice> {
        let mut advice = Advice::default();
        records.iter().for_each(|r| advice.add(r));
        let rows = advice.rows();
        rows.first().map(|(_, of)| of.advice())
    }

    #[test]
    fn what_is_too_much_comes_down_with_a_margin() {
        let all: Vec<_> = (0..5).map(|n| record("run_1", 1000 + n, 600)).collect();
        let want = RequestAdvice {
            // 1,004 MB plus a quarter; 10 minutes plus a half; 1.5 cores of four.
            mem_mb: Some(1300),
            run_s: Some(900),
            slots: Some(2),
        };
        assert_eq!(advice(&all), Some(want));
        assert_eq!(advice_text(&want), "-M 1300M -W 0:15 -n 2");
        assert_eq!(advice(&all[1..]), None);
    }

    #[test]
    fn what_fits_is_left_and_what_killed_goes_up() {
        let busy = AttemptRecord {
            cpu_ms: 4 * 25_000_000,
            ..record("x", 7000, 25_000)
        };
        let mut all = vec![busy; 9];
        assert_eq!(advice(&all), Some(RequestAdvice::default()));
        all.push(AttemptRecord {
            code: None,
            sig: 9,
            reason: TermReason::MemLimit,
            ..record("x", 8192, 10)
        });
        let want = RequestAdvice {
            mem_mb: Some(13_000),
            ..RequestAdvice::default()
        };
        assert_eq!(advice(&all), Some(want));
        // An end for another reason tells nothing about the limits.
        all.pop();
        all.push(AttemptRecord {
            code: Some(1),
            ..record("x", 8192, 10)
        });
        assert_eq!(advice(&all), Some(RequestAdvice::default()));
    }

    #[test]
    fn names_that_differ_in_digits_are_of_one_kind_and_parts_add_up() {
        assert_eq!(without_digits("case_012_b3"), "case_#_b#");
        let all: Vec<_> = (0..8).map(|n| record(&format!("r{n}"), 100, 60)).collect();
        let (mut whole, mut parts) = (Advice::default(), Advice::default());
        all.iter().for_each(|r| whole.add(r));
        for half in all.chunks(3) {
            let mut part = Advice::default();
            half.iter().for_each(|r| part.add(r));
            parts.merge(&part);
        }
        let shown = |advice: &Advice| {
            let (mut text, mut json) = (String::new(), String::new());
            advice.print(&mut text);
            advice.json(&mut json);
            (text, json)
        };
        assert_eq!(shown(&whole), shown(&parts));
        let (text, json) = shown(&whole);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(
            text.contains(" r# ") && json.contains("\"runs\":8"),
            "{text}{json}"
        );
        assert_eq!(kind_of(&record("", 1, 1)).name, "solve");
    }

    /// The memory limit applies to each host.
    #[test]
    fn memory_of_several_hosts_is_not_summed() {
        let on_four = |n: u64| AttemptRecord {
            host_maxmem_kb: 1000 << 10,
            ..record("mpi", 4000 + n, 600)
        };
        let all: Vec<_> = (0..5).map(on_four).collect();
        assert_eq!(advice(&all).unwrap().mem_mb, Some(1300));
    }

    #[test]
    fn amounts_have_two_digits() {
        assert_eq!(
            [1, 11, 999, 1255, 12_550].map(rounded_mb),
            [10, 20, 1000, 1300, 13_000]
        );
        assert_eq!([1, 3600, 3601].map(run_text), ["0:01", "1:00", "1:01"]);
    }
}
