//! A workload in memory: jobs in the order of their submission, with common data of equal jobs
//! stored once, and everything that a reader left out, counted and named. Owns no file and no
//! format; never decides anything about a job.

use std::collections::{BTreeMap, HashMap};

/// Maximum number of jobs in a workload: job numbers of the simulator have 32 bits.
pub const JOBS_MAX: usize = 20_000_000;
/// Number of bad lines that are quoted; all are counted.
const QUOTED_MAX: usize = 20;

/// A request. Many jobs share one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct JobRequest {
    pub user: String,
    pub group: String,
    pub project: String,
    /// Empty: the default queue.
    pub queue: String,
    /// Requested slots: at least `min`, at most `max`.
    pub min: u32,
    pub max: u32,
    /// Resource requirement string, or empty.
    pub res_req: String,
    /// Requested hosts, or empty.
    pub hosts: String,
    pub priority: u32,
    pub exclusive: bool,
}

/// One job. Times in milliseconds since the start of the workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Its number in the file it came from.
    pub id: u64,
    pub submit_ms: i64,
    /// How long it runs on a host of CPU factor 1 with `min` slots.
    pub run_ms: u64,
    /// Its run limit, which the scheduler also takes as its length.
    pub est_ms: Option<u64>,
    pub begin_ms: Option<i64>,
    pub deadline_ms: Option<i64>,
    /// It runs until its limit, or for `run_ms`, regardless of the speed of its host: nothing is
    /// known of its work.
    pub by_clock: bool,
    /// Index in [`Workload::requests`].
    pub request: u32,
    /// Dependency with job numbers of the file, or `None`.
    pub depends: Option<Box<str>>,
}

/// Jobs and what is known of them as a whole.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// Ordered by submission, then by number.
    pub jobs: Vec<Job>,
    pub requests: Vec<JobRequest>,
    /// Number of processors of the machine, if the file states it.
    pub procs: Option<u32>,
    /// When the workload starts, in milliseconds since the Unix epoch, if the file states it.
    pub start_ms: Option<i64>,
    pub left_out: LeftOut,
}

/// Users and groups by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Principals {
    pub users: Vec<String>,
    pub groups: Vec<String>,
    /// Numbers of user and group of each request.
    pub by_request: Vec<(u32, u32)>,
}

impl Principals {
    /// The users and groups of a workload, in the order of their first request. A job without a
    /// user belongs to `nobody`, one without a group to the group with an empty name.
    pub fn of(workload: &Workload) -> Principals {
        let mut out = Principals::default();
        let mut users: HashMap<&str, u32> = HashMap::new();
        let mut groups: HashMap<&str, u32> = HashMap::new();
        for ask in &workload.requests {
            let user = match ask.user.as_str() {
                "" => "nobody",
                user => user,
            };
            let user = *users.entry(user).or_insert_with(|| {
                out.users.push(user.to_owned());
                out.users.len() as u32 - 1
            });
            let group = *groups.entry(&ask.group).or_insert_with(|| {
                out.groups.push(ask.group.clone());
                out.groups.len() as u32 - 1
            });
            out.by_request.push((user, group));
        }
        out
    }
}

/// What a reader left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Jobs dropped by a rule, by the rule's words.
    pub by_rule: BTreeMap<&'static str, u64>,
    /// Lines that could not be read.
    pub bad: u64,
    /// The first of them: `file:line: problem`.
    pub quoted: Vec<String>,
    /// Values that a reader filled in, by the correction.
    pub corrected: BTreeMap<&'static str, u64>,
}

impl LeftOut {
    pub fn rule(&mut self, rule: &'static str) {
        *self.by_rule.entry(rule).or_default() += 1;
    }

    pub fn note_corrected(&mut self, what: &'static str) {
        *self.corrected.entry(what).or_default() += 1;
    }

    pub fn bad_line(&mut self, file: &str, line: u64, why: &str) {
        self.bad += 1;
        if self.quoted.len() < QUOTED_MAX {
            self.quoted.push(format!("{file}:{line}: {why}"));
        }
    }

    /// Notes a problem of a file that has no lines to count.
    pub fn bad_text(&mut self, text: String) {
        self.bad += 1;
        if self.quoted.len() < QUOTED_MAX {
            self.quoted.push(text);
        }
    }

    /// Everything left out, one sentence per line; empty if nothing was.
    pub fn sentences(&self) -> Vec<String> {
        let mut out = self.quoted.clone();
        let more = self.bad.saturating_sub(self.quoted.len() as u64);
        if more > 0 {
            out.push(format!("{more} more lines could not be read"));
        }
        let of = |n: u64| if n == 1 { "job" } else { "jobs" };
        for (rule, n) in &self.by_rule {
            out.push(format!("{n} {} left out: {rule}", of(*n)));
        }
        for (what, n) in &self.corrected {
            out.push(format!("{n} {}: {what}", of(*n)));
        }
        out
    }

    /// Number of jobs and lines left out.
    pub fn total(&self) -> u64 {
        self.bad + self.by_rule.values().sum::<u64>()
    }
}

/// Collects jobs in any order.
#[derive(Default)]
pub struct Builder {
    pub workload: Workload,
    request_numbers: HashMap<JobRequest, u32>,
}

impl Builder {
    /// Adds a job with the request `request`.
    ///
    /// # Errors
    /// More than [`JOBS_MAX`] jobs.
    pub fn push(&mut self, mut job: Job, request: JobRequest) -> Result<(), String> {
        if self.workload.jobs.len() >= JOBS_MAX {
            return Err(format!("more than {JOBS_MAX} jobs: split the workload"));
        }
        job.request = match self.request_numbers.get(&request) {
            Some(at) => *at,
            None => {
                let at = self.workload.requests.len() as u32;
                self.workload.requests.push(request.clone());
                self.request_numbers.insert(request, at);
                at
            }
        };
        self.workload.jobs.push(job);
        Ok(())
    }

    /// The workload with its jobs in order.
    pub fn finish(mut self) -> Workload {
        self.workload.jobs.sort_by_key(|j| (j.submit_ms, j.id));
        self.workload
    }
}

impl Workload {
    pub fn request(&self, job: &Job) -> &JobRequest {
        &self.requests[job.request as usize]
    }

    /// Drops jobs that cannot start on `procs` processors, and notes that.
    pub fn drop_oversized(&mut self, procs: u32) {
        let asks = &self.requests;
        let before = self.jobs.len();
        self.jobs.retain(|j| asks[j.request as usize].min <= procs);
        let removed = (before - self.jobs.len()) as u64;
        if removed > 0 {
            let rule = "wider than the machine";
            *self.left_out.by_rule.entry(rule).or_default() += removed;
        }
    }
}

/// Milliseconds from a decimal number of seconds, without the use of binary fractions: `1.5` is
/// 1500; digits after the third are dropped.
pub fn seconds(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || !all_digits(part) {
        return None;
    }
    let whole: i64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let mut milli = 0;
    for i in 0..3 {
        milli = milli * 10 + i64::from(part.as_bytes().get(i).map_or(0, |b| b - b'0'));
    }
    let most = 100 * 366 * 86_400;
    (whole <= most).then(|| sign * (whole * 1000 + milli))
}

/// A job's number as it is printed: elements of arrays have theirs in the upper half.
pub fn print_id(id: u64) -> String {
    match id >> 32 {
        0 => id.to_string(),
        idx => format!("{}[{idx}]", id & u64::from(u32::MAX)),
    }
}

/// Milliseconds as seconds: `1500` is `1.5`, `2000` is `2`.
pub fn print_seconds(ms: i64) -> String {
    let sign = if ms < 0 { "-" } else { "" };
    let ms = ms.unsigned_abs();
    match ms % 1000 {
        0 => format!("{sign}{}", ms / 1000),
        part => {
            let digits = format!("{part:03}");
            format!("{sign}{}.{}", ms / 1000, digits.trim_end_matches('0'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_read_and_printed_exactly() {
        for (text, ms) in [
            ("0", 0),
            ("-1", -1000),
            ("1.5", 1500),
            (".25", 250),
            ("7.1239", 7123),
        ] {
            assert_eq!(seconds(text), Some(ms), "{text}");
        }
        for bad in ["", ".", "-", "1e3", "nan", "1.2.3", "99999999999999999999"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
        for (ms, text) in [(0, "0"), (1500, "1.5"), (-1000, "-1"), (2050, "2.05")] {
            assert_eq!(print_seconds(ms), text);
        }
    }

    #[test]
    fn jobs_are_ordered_by_submission_then_number_and_share_what_they_ask() {
        let mut b = Builder::default();
        let ask = JobRequest {
            min: 1,
            max: 1,
            ..JobRequest::default()
        };
        for (id, submit_ms) in [(3, 10), (2, 10), (9, 5)] {
            b.push(
                Job {
                    id,
                    submit_ms,
                    ..Job::default()
                },
                ask.clone(),
            )
            .unwrap();
        }
        let w = b.finish();
        assert_eq!(w.jobs.iter().map(|j| j.id).collect::<Vec<_>>(), [9, 2, 3]);
        assert_eq!(w.requests.len(), 1);
    }

    #[test]
    fn jobs_wider_than_the_machine_are_counted() {
        let mut b = Builder::default();
        for min in [1, 4, 5] {
            b.push(
                Job::default(),
                JobRequest {
                    min,
                    max: min,
                    ..JobRequest::default()
                },
            )
            .unwrap();
        }
        let mut w = b.finish();
        w.drop_oversized(4);
        assert_eq!((w.jobs.len(), w.left_out.total()), (2, 1));
        assert_eq!(
            w.left_out.sentences(),
            ["1 job left out: wider than the machine"]
        );
    }

    #[test]
    fn users_and_groups_are_numbered_once() {
        let ask = |user: &str, group: &str| JobRequest {
            user: user.to_owned(),
            group: group.to_owned(),
            ..JobRequest::default()
        };
        let asks = vec![ask("u", "g"), ask("", ""), ask("u", "h"), ask("v", "g")];
        let principals = Principals::of(&Workload {
            requests: asks,
            ..Workload::default()
        });
        assert_eq!(principals.users, ["u", "nobody", "v"]);
        assert_eq!(principals.groups, ["g", "", "h"]);
        assert_eq!(principals.by_request, [(0, 0), (1, 1), (0, 2), (2, 0)]);
    }

    #[test]
    fn bad_lines_are_quoted_up_to_a_bound_and_all_counted() {
        let mut out = LeftOut::default();
        for line in 1..=25 {
            out.bad_line("x.swf", line, "not a number");
        }
        assert_eq!((out.bad, out.quoted.len()), (25, 20));
        assert_eq!(out.sentences()[0], "x.swf:1: not a number");
        assert_eq!(out.sentences()[20], "5 more lines could not be read");
    }
}
