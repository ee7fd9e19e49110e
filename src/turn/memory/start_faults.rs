//! What failed starts tell about jobs and hosts: whether a job is tried again, and whether a host
//! gets no work for a while. Pure.
//!
//! A file that is missing may be missing everywhere or only on one host. A job that could not be
//! started goes elsewhere. If another host says the same, the job is at fault; if it runs there,
//! the first host is, and two different jobs that prove it close that host. So neither a user whose
//! jobs cannot be started anywhere closes hosts, nor does a host without a file system end many
//! jobs.

use super::hosts::Backoff;
use crate::model::{JobKey, Mono};
use std::collections::{BTreeMap, BTreeSet};

/// Number of jobs that must have run elsewhere until a host is closed.
const PROOFS: usize = 2;
/// Number of jobs, and of their users, whose starts failed on a host and that have run nowhere
/// since, until it is closed.
const OPEN_JOBS: usize = 3;
const OPEN_USERS: usize = 2;
/// Maximum number of jobs that are remembered for a host.
const JOBS_MAX: usize = 64;
/// Maximum number of tries of a job that no host could start, and on a host if it is the only one.
const TRIES_MAX: u32 = 6;
const TRIES_ALONE_MAX: u32 = 3;
/// A task that has run for so long has been started.
const PROOF_MS: u64 = 3_000;
/// Longest pause between two tries.
const PAUSE_MAX_S: u64 = 300;

/// The jobs for which a failed start on a host counts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::turn) enum FaultScope {
    /// The host could not open a file or find an account.
    AllJobs,
    /// The pre-exec command of this queue failed.
    Queue(String),
    /// The job's own pre-exec command failed, which says nothing about the host.
    OwnHook,
}

/// A start that failed.
#[derive(Clone, Debug)]
pub(in crate::turn) struct FailedStart {
    pub j: JobKey,
    pub uid: u32,
    pub host: String,
    pub scope: FaultScope,
    /// When, by the host's clock (ms).
    pub t: i64,
    pub text: String,
}

/// What becomes of a job that could not be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::turn) enum StartVerdict {
    /// It is tried again after this time.
    Again { after_s: u64 },
    /// It is at fault, for the reasons of all hosts that tried.
    OfJob(String),
}

/// See the head of this file.
#[derive(Default)]
pub(in crate::turn) struct StartFaults {
    jobs: BTreeMap<JobKey, JobFaults>,
    hosts: BTreeMap<(String, FaultScope), HostDoubts>,
}

/// A job that could not be started.
struct JobFaults {
    scope: FaultScope,
    tries: u32,
    /// The hosts that tried, with their reasons.
    hosts: Vec<(String, String)>,
    /// Since when another host has run it.
    runs: Option<(String, Mono)>,
}

/// A host on which starts failed.
#[derive(Default)]
struct HostDoubts {
    /// Jobs with their users that have run nowhere since.
    open: BTreeMap<JobKey, u32>,
    /// Jobs that ran elsewhere.
    proved: BTreeSet<JobKey>,
    /// When the last start failed, by the host's clock.
    last: i64,
    text: String,
    backoff: Option<Backoff>,
}

impl HostDoubts {
    fn is_doubtful(&self) -> bool {
        let users: BTreeSet<&u32> = self.open.values().collect();
        self.proved.len() >= PROOFS || (self.open.len() >= OPEN_JOBS && users.len() >= OPEN_USERS)
    }

    /// Closes the host if enough jobs speak against it. `again`: a start has just failed, after a
    /// pause if there was one.
    fn judge(&mut self, now: Mono, again: bool) {
        if !self.is_doubtful() {
            self.backoff = None;
        } else if again || self.backoff.is_none() {
            let backoff = self.backoff.get_or_insert_with(|| Backoff::new(now));
            backoff.failed(now);
        }
    }

    /// Whether jobs other than this one speak against the host.
    fn is_doubted_beside(&self, j: JobKey) -> bool {
        self.open
            .keys()
            .chain(&self.proved)
            .any(|known| *known != j)
    }
}

impl StartFaults {
    /// Notes a failed start.
    pub(crate) fn failed(&mut self, start: &FailedStart, now: Mono) {
        let new = JobFaults {
            scope: start.scope.clone(),
            tries: 0,
            hosts: Vec::new(),
            runs: None,
        };
        let job = self.jobs.entry(start.j).or_insert(new);
        job.tries += 1;
        (job.scope, job.runs) = (start.scope.clone(), None);
        job.hosts.retain(|(host, _)| *host != start.host);
        job.hosts.push((start.host.clone(), start.text.clone()));
        if start.scope == FaultScope::OwnHook {
            return;
        }
        let place = (start.host.clone(), start.scope.clone());
        let doubts = self.hosts.entry(place).or_default();
        doubts.last = doubts.last.max(start.t);
        doubts.text.clone_from(&start.text);
        if !doubts.proved.contains(&start.j) && doubts.open.len() < JOBS_MAX {
            doubts.open.insert(start.j, start.uid);
        }
        doubts.judge(now, true);
    }

    /// What becomes of a job that could not be started because of a file, a directory or an
    /// account. `lacked_before`: it was missing on the host of the submission, too.
    pub(crate) fn verdict(&self, j: JobKey, lacked_before: bool) -> StartVerdict {
        let Some(job) = self.jobs.get(&j) else {
            return StartVerdict::Again { after_s: 0 };
        };
        let on_one_host = job.hosts.len() < 2;
        let trusted = |(host, _): &(String, String)| {
            let doubts = self.hosts.get(&(host.clone(), job.scope.clone()));
            doubts.is_none_or(|doubts| !doubts.is_doubted_beside(j))
        };
        let is_jobs = match on_one_host {
            true => lacked_before || job.tries >= TRIES_ALONE_MAX,
            false => job.tries >= TRIES_MAX || job.hosts.iter().any(trusted),
        };
        match is_jobs {
            true => StartVerdict::OfJob(job.reasons()),
            false if on_one_host => StartVerdict::Again {
                after_s: pause_s(job.tries - 1),
            },
            false => StartVerdict::Again { after_s: 0 },
        }
    }

    /// What becomes of a job whose pre-exec command failed, which may fail `most` times.
    pub(crate) fn pre_exec_verdict(&self, j: JobKey, most: u32) -> StartVerdict {
        match self.jobs.get(&j) {
            Some(job) if job.tries > most => StartVerdict::OfJob(job.last_reason()),
            Some(job) => StartVerdict::Again {
                after_s: pause_s(job.tries),
            },
            None => StartVerdict::Again { after_s: 0 },
        }
    }

    /// Hosts that could not start a job.
    pub(crate) fn hosts_of(&self, j: JobKey) -> impl Iterator<Item = &str> {
        let hosts = self.jobs.get(&j).map_or(&[][..], |job| &job.hosts);
        hosts.iter().map(|(host, _)| host.as_str())
    }

    /// The job is at fault, or is gone: it does not speak against hosts.
    pub(crate) fn acquit_hosts(&mut self, j: JobKey) {
        let Some(job) = self.jobs.remove(&j) else {
            return;
        };
        for (host, _) in job.hosts {
            let place = (host, job.scope.clone());
            if let Some(doubts) = self.hosts.get_mut(&place) {
                doubts.open.remove(&j);
                doubts.proved.remove(&j);
                if !doubts.is_doubtful() {
                    doubts.backoff = None;
                }
                if doubts.open.is_empty() && doubts.proved.is_empty() {
                    self.hosts.remove(&place);
                }
            }
        }
    }

    /// A host reports that it runs the task of a job.
    pub(crate) fn began(&mut self, j: JobKey, host: &str, now: Mono) {
        if let Some(job) = self.jobs.get_mut(&j) {
            job.runs = Some((host.to_owned(), now));
        }
    }

    /// Jobs that have run elsewhere for long enough, with their hosts.
    pub(crate) fn proved(&self, now: Mono) -> Vec<(JobKey, String)> {
        let ripe = |since: Mono| now >= since.plus_ms(PROOF_MS);
        let all = self.jobs.iter().filter_map(|(j, job)| {
            let (host, since) = job.runs.as_ref()?;
            ripe(*since).then(|| (*j, host.clone()))
        });
        all.collect()
    }

    /// The command of a job of `queue` ran on `host`, started at `start` by the host's clock.
    pub(crate) fn ran(&mut self, j: JobKey, queue: &str, (host, start): (&str, i64), now: Mono) {
        let cleared = |(at, scope): &(String, FaultScope), doubts: &HostDoubts| {
            let concerned = match scope {
                FaultScope::AllJobs => true,
                FaultScope::Queue(name) => name == queue,
                FaultScope::OwnHook => false,
            };
            at == host && concerned && start >= doubts.last
        };
        self.hosts.retain(|place, doubts| !cleared(place, doubts));
        let Some(job) = self.jobs.remove(&j) else {
            return;
        };
        for (failed_on, _) in job.hosts.iter().filter(|(failed_on, _)| failed_on != host) {
            let place = (failed_on.clone(), job.scope.clone());
            if let Some(doubts) = self.hosts.get_mut(&place) {
                doubts.open.remove(&j);
                if doubts.proved.len() < JOBS_MAX {
                    doubts.proved.insert(j);
                }
                doubts.judge(now, false);
            }
        }
    }

    /// An administrator opens a host: what failed there is forgotten.
    pub(crate) fn forget_host(&mut self, host: &str) {
        self.hosts.retain(|(name, _), _| name != host);
    }

    /// Whether anything is remembered.
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.hosts.is_empty()
    }

    /// Hosts on which starts failed, and when the last of them did, by the host's clock.
    pub(crate) fn doubtful_hosts(&self) -> Vec<(String, i64)> {
        let doubts = self.hosts.iter();
        doubts
            .map(|((host, _), doubts)| (host.clone(), doubts.last))
            .collect()
    }

    /// Jobs that could not be started.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = JobKey> {
        self.jobs.keys().copied()
    }

    /// What holds for a host now: for whose jobs it is or was closed, whether it is now, and why.
    pub(crate) fn closures(&self, host: &str, now: Mono) -> Vec<(&FaultScope, bool, String)> {
        let from = (host.to_owned(), FaultScope::AllJobs);
        let own = self.hosts.range(from..);
        let own = own.take_while(|((name, _), _)| name.as_str() == host);
        let closed = own.filter_map(|((_, scope), doubts)| {
            let backoff = doubts.backoff.as_ref()?;
            let text = closed_text(scope, backoff.count, doubts);
            Some((scope, backoff.is_pausing(now), text))
        });
        closed.collect()
    }
}

impl JobFaults {
    /// The reasons of all hosts that tried.
    fn reasons(&self) -> String {
        match &self.hosts[..] {
            [(host, text)] if text.contains(host.as_str()) => text.clone(),
            all => {
                let texts = all
                    .iter()
                    .map(|(host, text)| format!("host {host}: {text}"));
                texts.collect::<Vec<_>>().join("; ")
            }
        }
    }

    fn last_reason(&self) -> String {
        self.hosts
            .last()
            .map_or(String::new(), |(_, text)| text.clone())
    }
}

/// The note on a host that is closed, for administrators.
fn closed_text(scope: &FaultScope, count: u32, doubts: &HostDoubts) -> String {
    let jobs: Vec<String> = doubts
        .proved
        .iter()
        .chain(doubts.open.keys())
        .take(3)
        .map(JobKey::to_string)
        .collect();
    let (jobs, text) = (jobs.join(", "), &doubts.text);
    match scope {
        FaultScope::Queue(queue) => format!(
            "gets no jobs of queue {queue} for a while ({count} in a row): its pre-exec command \
             fails here for jobs {jobs}: {text}"
        ),
        FaultScope::AllJobs | FaultScope::OwnHook => format!(
            "cannot start tasks ({count} in a row) that run elsewhere, such as jobs {jobs}: {text}"
        ),
    }
}

/// The pause after the `n`th failure: it doubles.
fn pause_s(n: u32) -> u64 {
    match n {
        0 => 0,
        n => 1u64.checked_shl(n - 1).unwrap_or(u64::MAX).min(PAUSE_MAX_S),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(id: u32, uid: u32, host: &str) -> FailedStart {
        FailedStart {
            j: JobKey::job(id),
            uid,
            host: host.into(),
            scope: FaultScope::AllJobs,
            t: 50,
            text: format!("no directory for {id}"),
        }
    }

    fn failed(faults: &mut StartFaults, id: u32, host: &str) -> StartVerdict {
        faults.failed(&start(id, 5, host), Mono(0));
        faults.verdict(JobKey::job(id), false)
    }

    fn ran(faults: &mut StartFaults, id: u32, host: &str, at: i64) {
        faults.ran(JobKey::job(id), "q", (host, at), Mono(0));
    }

    fn closed(faults: &StartFaults, host: &str) -> bool {
        faults
            .closures(host, Mono(1))
            .iter()
            .any(|(_, now, _)| *now)
    }

    #[test]
    fn a_second_host_that_says_the_same_shows_that_the_job_is_at_fault() {
        let mut faults = StartFaults::default();
        assert_eq!(
            failed(&mut faults, 1, "a"),
            StartVerdict::Again { after_s: 0 }
        );
        let StartVerdict::OfJob(text) = failed(&mut faults, 1, "b") else {
            panic!("it is tried again");
        };
        assert_eq!(
            text,
            "host a: no directory for 1; host b: no directory for 1"
        );
        faults.acquit_hosts(JobKey::job(1));
        assert!(faults.is_empty());
    }

    #[test]
    fn two_jobs_that_run_elsewhere_close_the_host_until_one_runs_there() {
        let mut faults = StartFaults::default();
        failed(&mut faults, 1, "a");
        ran(&mut faults, 1, "b", 9);
        assert!(!closed(&faults, "a"), "one job may have had bad luck");
        failed(&mut faults, 2, "a");
        ran(&mut faults, 2, "b", 9);
        assert!(closed(&faults, "a") && !closed(&faults, "b"));
        ran(&mut faults, 3, "a", 49);
        assert!(closed(&faults, "a"), "it began before the last one failed");
        ran(&mut faults, 3, "a", 50);
        assert!(faults.is_empty());
    }

    /// Otherwise one user with a wrong path takes all hosts from everybody.
    #[test]
    fn jobs_of_one_user_that_run_nowhere_close_no_host() {
        let mut faults = StartFaults::default();
        for id in 1..=50 {
            failed(&mut faults, id, "a");
        }
        assert!(!closed(&faults, "a"));
        faults.failed(&start(51, 6, "a"), Mono(0));
        assert!(closed(&faults, "a"), "those of two users do");
        faults.acquit_hosts(JobKey::job(51));
        assert!(
            !closed(&faults, "a"),
            "the second one turned out to be wrong"
        );
    }

    /// Two hosts may lose a file system at the same time.
    #[test]
    fn the_word_of_hosts_on_which_other_jobs_fail_does_not_count() {
        let mut faults = StartFaults::default();
        for host in ["a", "b"] {
            failed(&mut faults, 7, host);
            faults.acquit_hosts(JobKey::job(7));
        }
        for (id, host) in [(8, "a"), (9, "b")] {
            failed(&mut faults, id, host);
        }
        for host in ["a", "b"] {
            let again = StartVerdict::Again { after_s: 0 };
            assert_eq!(failed(&mut faults, 1, host), again, "{host}");
        }
        let end = failed(&mut faults, 1, "c");
        assert!(matches!(end, StartVerdict::OfJob(_)), "c is not doubted");
        // With as many hosts as one likes, the number of tries is limited.
        let mut faults = StartFaults::default();
        let hosts: Vec<String> = (0..9).map(|n| format!("h{n}")).collect();
        for host in &hosts {
            failed(&mut faults, 2, host);
        }
        let mut tries = 0;
        while matches!(
            failed(&mut faults, 3, &hosts[tries]),
            StartVerdict::Again { .. }
        ) {
            tries += 1;
        }
        assert_eq!(tries, TRIES_MAX as usize - 1);
    }

    #[test]
    fn a_job_with_a_single_host_ends_soon() {
        let mut faults = StartFaults::default();
        let all: Vec<StartVerdict> = (0..3).map(|_| failed(&mut faults, 1, "a")).collect();
        assert_eq!(all[0], StartVerdict::Again { after_s: 0 });
        assert_eq!(all[1], StartVerdict::Again { after_s: 1 });
        assert_eq!(
            all[2],
            StartVerdict::OfJob("host a: no directory for 1".into())
        );
        let mut faults = StartFaults::default();
        faults.failed(&start(1, 5, "a"), Mono(0));
        let verdict = faults.verdict(JobKey::job(1), true);
        assert!(
            matches!(verdict, StartVerdict::OfJob(_)),
            "it was missing everywhere"
        );
    }

    #[test]
    fn a_pre_exec_command_of_a_queue_closes_the_host_for_that_queue_only() {
        let mut faults = StartFaults::default();
        for id in [1, 2] {
            let of_queue = FailedStart {
                scope: FaultScope::Queue("q".into()),
                ..start(id, 5, "a")
            };
            faults.failed(&of_queue, Mono(0));
            ran(&mut faults, id, "b", 9);
        }
        let closures = faults.closures("a", Mono(1));
        let scopes: Vec<_> = closures.iter().map(|closed| closed.0.clone()).collect();
        assert_eq!(scopes, [FaultScope::Queue("q".into())]);
        faults.ran(JobKey::job(9), "other", ("a", 60), Mono(0));
        assert!(
            closed(&faults, "a"),
            "a job of another queue proves nothing"
        );
        faults.ran(JobKey::job(9), "q", ("a", 60), Mono(0));
        assert!(!closed(&faults, "a"));
        // The job's own command says nothing about a host.
        for id in [1, 2] {
            let own = FailedStart {
                scope: FaultScope::OwnHook,
                ..start(id, 5, "a")
            };
            faults.failed(&own, Mono(0));
            ran(&mut faults, id, "b", 9);
        }
        assert!(faults.is_empty());
    }

    #[test]
    fn a_pre_exec_command_is_tried_again_after_growing_pauses() {
        let mut faults = StartFaults::default();
        let j = JobKey::job(1);
        let again = |faults: &mut StartFaults| {
            faults.failed(&start(1, 5, "a"), Mono(0));
            faults.pre_exec_verdict(j, 3)
        };
        for after_s in [1, 2, 4] {
            assert_eq!(again(&mut faults), StartVerdict::Again { after_s });
        }
        let text = "no directory for 1".to_owned();
        assert_eq!(again(&mut faults), StartVerdict::OfJob(text));
        assert_eq!(pause_s(64), PAUSE_MAX_S);
    }
}
