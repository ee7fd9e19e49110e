//! The clock and the progress of work, with a plain rule that decides.

use super::*;
use crate::replay::workload::{Builder, JobRequest};
use std::collections::VecDeque;

fn begin(job: u32, slots: u32, limit_ms: Option<u64>) -> Decision {
    Decision::Start(Box::new(Start {
        job,
        parts: [(0, slots)].into_iter().collect(),
        cpuf: 1000,
        limit_ms,
        uses: Uses::new(),
    }))
}

/// First come, first served on one host, with a script of other acts by time.
#[derive(Default)]
struct Fifo {
    free: u32,
    width: Vec<u32>,
    limit: Vec<Option<u64>>,
    /// Its host is of factor 2.
    fast: bool,
    queue: VecDeque<u32>,
    script: Vec<(i64, Decision)>,
    seen: Vec<String>,
}

impl Decider for Fifo {
    fn submit(&mut self, job: u32, now_ms: i64) -> Result<(), String> {
        self.seen.push(format!("{now_ms} submit {job}"));
        if self.width[job as usize] > 99 {
            return Err("too wide".to_owned());
        }
        self.queue.push_back(job);
        Ok(())
    }

    fn end(&mut self, job: u32, now_ms: i64, killed: bool) {
        let how = if killed { "limit" } else { "end" };
        self.seen.push(format!("{now_ms} {how} {job}"));
        self.free += self.width[job as usize];
    }

    fn plan(&mut self, now_ms: i64, acts: &mut Vec<Decision>) -> PassOutcome {
        self.seen.push(format!("{now_ms} plan"));
        while let Some((_, act)) = self.script.first().filter(|(at, _)| *at <= now_ms) {
            acts.push(act.clone());
            self.script.remove(0);
        }
        while let Some(job) = self.queue.front().copied()
            && self.width[job as usize] <= self.free
        {
            self.queue.pop_front();
            let slots = self.width[job as usize];
            self.free -= slots;
            let mut act = begin(job, slots, self.limit[job as usize]);
            if let (Decision::Start(start), true) = (&mut act, self.fast) {
                (start.cpuf, start.parts) = (2000, [(0, 1)].into_iter().collect());
            }
            acts.push(act);
        }
        let wake_ms = self.script.first().map(|(at, _)| *at);
        PassOutcome {
            more: false,
            wake_ms,
        }
    }

    fn why(&self, job: u32) -> String {
        format!("{} slots are free", self.free.min(job + 99))
    }
}

/// Jobs as (submit, run, estimate, slots) in seconds.
fn replay(jobs: &[(i64, u64, u64, u32)], script: Vec<(i64, Decision)>) -> (Outcome, Vec<String>) {
    let mut b = Builder::default();
    for (id, (submit, run, est, slots)) in (1..).zip(jobs) {
        let job = Job {
            id,
            submit_ms: submit * 1000,
            run_ms: run * 1000,
            est_ms: Some(est * 1000),
            ..Job::default()
        };
        b.push(
            job,
            JobRequest {
                min: *slots,
                max: *slots,
                ..JobRequest::default()
            },
        )
        .unwrap();
    }
    let w = b.finish();
    let principals = vec![(0, 0); w.requests.len()];
    let width = w.jobs.iter().map(|j| w.request(j).min).collect();
    let limit = w.jobs.iter().map(|j| j.est_ms).collect();
    let mut fifo = Fifo {
        free: 10,
        width,
        limit,
        script,
        ..Fifo::default()
    };
    let out = Replay::new(&w, &principals, None).run(&mut fifo);
    (out, fifo.seen)
}

fn starts(out: &Outcome) -> Vec<i64> {
    out.starts
        .iter()
        .map(|s| s.map_or(-1, |ms| ms / 1000))
        .collect()
}

#[test]
fn ends_come_before_submissions_and_both_before_the_pass() {
    let (out, decisions) = replay(&[(0, 10, 10, 10), (10, 5, 5, 10), (10, 5, 5, 10)], vec![]);
    assert_eq!(starts(&out), [0, 10, 15]);
    let at_ten: Vec<&str> = decisions
        .iter()
        .filter(|s| s.starts_with("10000 "))
        .map(|s| &s[6..])
        .collect();
    assert_eq!(at_ten, ["end 0", "submit 1", "submit 2", "plan"]);
}

#[test]
fn the_head_of_the_line_blocks_the_others() {
    let jobs = [
        (0, 100, 100, 6),
        (1, 50, 50, 8),
        (2, 60, 60, 2),
        (3, 200, 200, 2),
        (4, 90, 90, 4),
    ];
    let (out, _) = replay(&jobs, vec![]);
    assert_eq!(starts(&out), [0, 100, 100, 150, 150]);
    assert_eq!((out.decisions, out.never_ended_count), (5, 0));
}

#[test]
fn a_suspended_job_does_not_progress() {
    let script = vec![
        (20_000, Decision::Suspend { job: 0 }),
        (30_000, Decision::Resume { job: 0 }),
    ];
    let (out, _) = replay(&[(0, 100, 100, 4)], script);
    let d = &out.done[0];
    assert_eq!((d.start_ms, d.end_ms, d.run_ms), (0, 110_000, 100_000));
}

#[test]
fn a_requeued_job_begins_anew_and_a_killed_one_ends() {
    let again = begin(0, 4, None);
    let script = vec![(20_000, Decision::Requeue { job: 0 }), (30_000, again)];
    let (out, _) = replay(&[(0, 100, 100, 4)], script);
    let d = &out.done[0];
    assert_eq!((d.start_ms, d.end_ms, d.run_ms), (0, 130_000, 100_000));
    let (out, _) = replay(&[(0, 100, 100, 4)], vec![(5000, Decision::Kill { job: 0 })]);
    assert_eq!((out.done[0].end_ms, out.done[0].run_ms), (5000, 5000));
}

#[test]
fn limits_end_jobs_and_more_slots_speed_them_up() {
    let (out, decisions) = replay(&[(0, 100, 60, 4)], vec![]);
    assert_eq!((out.done[0].end_ms, out.at_limit), (60_000, 1));
    assert!(decisions.contains(&"60000 limit 0".to_owned()));
    // Half is done after 50 s with 4 slots; with 8 slots the rest takes 25 s.
    let more = Decision::Grow {
        job: 0,
        parts: [(0, 4)].into_iter().collect(),
    };
    let (out, _) = replay(&[(0, 100, 100, 4)], vec![(50_000, more)]);
    assert_eq!((out.done[0].end_ms, out.done[0].slots), (75_000, 8));
}

#[test]
fn work_that_had_started_goes_on_from_where_it_was() {
    let mut b = Builder::default();
    let ask = JobRequest {
        min: 10,
        max: 10,
        ..JobRequest::default()
    };
    for (id, submit_ms) in [(1, -50_000), (2, -10_000)] {
        let job = Job {
            id,
            submit_ms,
            run_ms: 100_000,
            ..Job::default()
        };
        b.push(job, ask.clone()).unwrap();
    }
    let w = b.finish();
    let mut fifo = Fifo {
        width: vec![10, 10],
        limit: vec![None, None],
        ..Fifo::default()
    };
    let principals = [(0, 0)];
    let mut replay = Replay::new(&w, &principals, None);
    replay.begin_at(0);
    let begun = StartedProgress {
        start_ms: -40_000,
        worked_ms: 40_000,
        limit_ms: None,
        suspended: false,
    };
    replay.adopt(0, 10, 1000, begun);
    replay.end_after_starts(vec![1]);
    let out = replay.run(&mut fifo);
    assert_eq!(starts(&out), [-40, 60]);
    assert_eq!((out.done[0].end_ms, out.done[0].run_ms), (60_000, 100_000));
    assert_eq!(out.done.len(), 1);
}

#[test]
fn limits_are_by_the_clock_whatever_the_speed() {
    let mut b = Builder::default();
    for (id, by_clock) in [(1, false), (2, false), (3, true)] {
        let job = Job {
            id,
            run_ms: 100_000,
            by_clock,
            ..Job::default()
        };
        b.push(job, JobRequest::default()).unwrap();
    }
    let w = b.finish();
    // Work of 100 s takes 50 s at twice the speed; a limit of 40 s stays 40 s.
    let mut fifo = Fifo {
        width: vec![0; 3],
        limit: vec![Some(40_000), Some(60_000), Some(70_000)],
        fast: true,
        ..Fifo::default()
    };
    let out = Replay::new(&w, &[(0, 0)], None).run(&mut fifo);
    let ends: Vec<i64> = out.done.iter().map(|d| d.end_ms / 1000).collect();
    assert_eq!((ends, out.at_limit), (vec![40, 50, 70], 1));
}

#[test]
fn refused_jobs_are_counted_and_do_not_wait() {
    let (out, _) = replay(&[(0, 5, 5, 100), (1, 5, 5, 1)], vec![]);
    assert_eq!(
        (out.refused_jobs, out.never_ended_count, out.done.len()),
        (1, 0, 1)
    );
    assert_eq!(out.refused[0], (1, "too wide".to_owned()));
}

#[test]
fn jobs_that_never_start_are_named_with_the_reason() {
    let (out, _) = replay(&[(0, 5, 5, 11), (1, 5, 5, 1)], vec![]);
    assert_eq!((out.never_ended_count, out.done.len()), (2, 0));
    assert_eq!(out.never_ended[0], (1, "10 slots are free".to_owned()));
}
