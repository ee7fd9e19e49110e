//! A replay of workload logs on one host through the book alone, compared with start times of an
//! independent simulator. At each instant all ends come first, then all submissions, then one pass.

use super::super::*;
use crate::model::SplitMix64;
use std::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Fcfs,
    Easy,
    Sjbf,
    Conservative,
    /// Every job that fits starts; nothing is reserved.
    FirstFit,
    /// Slot reservation for the first blocked job, without backfill.
    Hold,
}

/// Times in seconds or any other unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub id: u32,
    pub submit: i64,
    pub run: i64,
    pub estimate: i64,
    pub width: u32,
}

struct Slots {
    width: u32,
}

impl BookRequest for Slots {
    fn hosts(&self) -> &[u32] {
        &[0]
    }

    fn min(&self) -> u32 {
        self.width
    }

    fn bundle(&self, _: u32, slots: u32) -> Bundle {
        Bundle::of_slots(i64::from(slots))
    }
}

pub(super) struct Replay<'a> {
    jobs: &'a [Job],
    book: Book<u32>,
    starts: Vec<i64>,
    ends: BinaryHeap<Reverse<(i64, u32, ClaimId2)>>,
    /// Waiting jobs by position, in the order in which they are tried.
    queue: Vec<u32>,
    now: i64,
    pub scanned: u64,
    pub passes: u64,
}

type ClaimId2 = (u32,);

impl<'a> Replay<'a> {
    pub(super) fn new(jobs: &'a [Job], procs: u32, rules: BookSettings) -> Replay<'a> {
        let mut book = Book::new(rules);
        book.set_host(0, &Bundle::of_slots(i64::from(procs)));
        Replay {
            jobs,
            book,
            starts: vec![-1; jobs.len()],
            ends: BinaryHeap::new(),
            queue: Vec::new(),
            now: 0,
            scanned: 0,
            passes: 0,
        }
    }

    /// Start times by position.
    pub(super) fn run(mut self, policy: Policy) -> Replay<'a> {
        let mut next = 0;
        loop {
            let end = self.ends.peek().map(|Reverse((at, ..))| *at);
            let submit = self.jobs.get(next).map(|job| job.submit);
            let Some(now) = end.into_iter().chain(submit).min() else {
                return self;
            };
            self.now = now;
            let mut ended = false;
            while let Some(Reverse((at, _, (claim,)))) = self.ends.peek().copied()
                && at == now
            {
                self.ends.pop();
                self.book.release(ClaimId(claim), now);
                ended = true;
            }
            let first = next;
            while self.jobs.get(next).is_some_and(|job| job.submit == now) {
                next += 1;
            }
            self.passes += 1;
            let new = first as u32..next as u32;
            match policy {
                Policy::Fcfs => self.pass_fcfs(new),
                Policy::Easy | Policy::Sjbf => self.pass_easy(new, ended, policy == Policy::Sjbf),
                Policy::Conservative => self.pass_conservative(new),
                Policy::FirstFit => self.pass_plain(new, 0),
                Policy::Hold => self.pass_plain(new, 1),
            }
        }
    }

    fn end_of(&self, at: u32) -> i64 {
        end_of(self.now, self.jobs[at as usize].estimate)
    }

    fn start(&mut self, at: u32) {
        let job = self.jobs[at as usize];
        let until = self.end_of(at);
        let take = [(0, Bundle::of_slots(i64::from(job.width)))];
        let claim = self.book.claim(&take, self.now, until);
        self.starts[at as usize] = self.now;
        self.ends
            .push(Reverse((self.now + job.run.max(1), at, (claim.0,))));
    }

    fn terms(&self, at: u32, depth: usize) -> ReservationTerms {
        let duration = self.jobs[at as usize].estimate;
        ReservationTerms {
            duration,
            depth,
            hold_ms: None,
            free_first: false,
        }
    }

    fn fits(&mut self, at: u32) -> bool {
        let end = self.end_of(at);
        let width = i64::from(self.jobs[at as usize].width);
        width <= self.book.free_for(0, self.now, end, true).slots
    }

    fn pass_fcfs(&mut self, new: std::ops::Range<u32>) {
        self.queue.extend(new);
        self.book.open(self.now);
        let mut done = 0;
        while let Some(at) = self.queue.get(done).copied()
            && self.fits(at)
        {
            self.start(at);
            done += 1;
        }
        self.queue.drain(..done);
        self.book.close(true);
    }

    /// All jobs in order, without backfill.
    fn pass_plain(&mut self, new: std::ops::Range<u32>, depth: usize) {
        self.queue.extend(new);
        self.book.open(self.now);
        for at in std::mem::take(&mut self.queue) {
            let width = self.jobs[at as usize].width;
            let end = self.end_of(at);
            let tried = self.book.begin_turn(at) == BookTurn::Try;
            if tried && i64::from(width) <= self.book.free_for(0, self.now, end, false).slots {
                self.book.started(at);
                self.start(at);
                continue;
            }
            if tried {
                let hold = Some(1_000_000);
                let terms = ReservationTerms {
                    hold_ms: hold,
                    ..self.terms(at, depth)
                };
                self.book.reserve(at, &Slots { width }, &terms);
            }
            self.queue.push(at);
        }
        self.book.close(true);
    }

    fn pass_easy(&mut self, new: std::ops::Range<u32>, ended: bool, shortest: bool) {
        let mut from = self.queue.len();
        self.queue.extend(new);
        self.book.open(self.now);
        let mut heads = 0;
        while let Some(at) = self.queue.get(heads).copied() {
            if self.book.begin_turn(at) == BookTurn::Keep {
                break;
            }
            if !self.fits(at) {
                let width = self.jobs[at as usize].width;
                let terms = self.terms(at, 1);
                self.book.reserve(at, &Slots { width }, &terms);
                break;
            }
            self.book.started(at);
            self.start(at);
            heads += 1;
        }
        self.queue.drain(..heads);
        from = from.saturating_sub(heads).max(1);
        if ended || heads > 0 {
            from = 1;
        }
        self.backfill(from, shortest);
        self.book.close(true);
    }

    /// Tries the jobs after the first, from a position on. The test of one job is two comparisons.
    fn backfill(&mut self, from: usize, shortest: bool) {
        let mut order: Vec<u32> = Vec::new();
        let scan: &[u32] = if shortest && from < self.queue.len() {
            order.extend_from_slice(&self.queue[from..]);
            order.sort_by_key(|at| self.jobs[*at as usize].estimate);
            &order
        } else {
            self.queue.get(from..).unwrap_or_default()
        };
        let mut started: Vec<u32> = Vec::new();
        let mut at = 0;
        while at < scan.len() {
            let stairs = self.book.decreasing_steps(0, self.now);
            let (free, shadow, extra) = match stairs {
                [now] => (now.room.slots, i64::MAX, 0),
                [now, later] => (now.room.slots, later.from, later.room.slots),
                _ => panic!("one reservation makes one step"),
            };
            if free <= 0 {
                break;
            }
            let found = scan[at..].iter().position(|at| {
                let job = &self.jobs[*at as usize];
                let width = i64::from(job.width);
                width <= free && (end_of(self.now, job.estimate) <= shadow || width <= extra)
            });
            let Some(found) = found else {
                self.scanned += (scan.len() - at) as u64;
                break;
            };
            self.scanned += found as u64 + 1;
            started.push(scan[at + found]);
            at += found + 1;
            let job = scan[at - 1];
            // The borrow of `scan` ends where the book is changed.
            let jobs = self.jobs;
            let until = end_of(self.now, jobs[job as usize].estimate);
            let width = i64::from(jobs[job as usize].width);
            let claim = self
                .book
                .claim(&[(0, Bundle::of_slots(width))], self.now, until);
            self.starts[job as usize] = self.now;
            let end = self.now + jobs[job as usize].run.max(1);
            self.ends.push(Reverse((end, job, (claim.0,))));
        }
        if !started.is_empty() {
            started.sort_unstable();
            self.queue.retain(|at| started.binary_search(at).is_err());
        }
    }

    fn pass_conservative(&mut self, new: std::ops::Range<u32>) {
        let old = self.queue.len();
        self.queue.extend(new);
        self.book.open(self.now);
        let mut from = 0;
        if self.book.idle() {
            self.book.confirm_all();
            from = old;
        }
        let mut kept = from;
        for i in from..self.queue.len() {
            let at = self.queue[i];
            self.queue[kept] = at;
            kept += 1;
            self.scanned += 1;
            if self.book.begin_turn(at) == BookTurn::Keep {
                continue;
            }
            let ask = Slots {
                width: self.jobs[at as usize].width,
            };
            let terms = self.terms(at, usize::MAX);
            let made = self
                .book
                .reserve(at, &ask, &terms)
                .expect("it fits some day");
            if made.start <= self.now {
                self.book.started(at);
                self.start(at);
                kept -= 1;
            }
        }
        self.queue.truncate(kept);
        self.book.close(true);
    }
}

pub(super) fn starts(jobs: &[Job], procs: u32, policy: Policy) -> Vec<(u32, i64)> {
    let replay = Replay::new(jobs, procs, BookSettings::default()).run(policy);
    let pairs = replay.starts.iter().zip(jobs);
    pairs.map(|(start, job)| (job.id, *start)).collect()
}

fn unpack(path: &str) -> String {
    let out = std::process::Command::new("gzip")
        .args(["-dc", path])
        .output();
    let out = out.expect("gzip is there");
    assert!(out.status.success(), "gzip -dc {path} failed");
    String::from_utf8(out.stdout).expect("logs are text")
}

/// The clean rules: no jobs without run time or that are too wide; the run is capped at the
/// estimate.
fn read_swf(text: &str, procs: u32) -> Vec<Job> {
    let line = |line: &str| {
        let n: Vec<i64> = line
            .split_whitespace()
            .map(|w| w.parse().unwrap_or(-1))
            .collect();
        let (id, submit, run, allocated, asked, limit) = (n[0], n[1], n[3], n[4], n[7], n[8]);
        let width = if asked > 0 { asked } else { allocated };
        let estimate = if limit > 0 { limit } else { run };
        let ok = run > 0 && width > 0 && width <= i64::from(procs);
        ok.then(|| Job {
            id: id as u32,
            submit,
            run: run.min(estimate),
            estimate,
            width: width as u32,
        })
    };
    let lines = text
        .lines()
        .filter(|l| !l.trim().is_empty() && !l.starts_with(';'));
    let mut jobs: Vec<Job> = lines.filter_map(line).collect();
    jobs.sort_by_key(|job| (job.submit, job.id));
    jobs
}

fn traces() -> Option<String> {
    let dir = std::env::var("CORRAL_TRACES").ok();
    if dir.is_none() {
        println!("skipped: CORRAL_TRACES does not name the folder of traces");
    }
    dir
}

fn hold_against(log: &str, procs: u32) {
    let Some(dir) = traces() else {
        return;
    };
    let jobs = read_swf(&unpack(&format!("{dir}/swf/{log}.swf.gz")), procs);
    for (name, policy) in [
        ("fcfs", Policy::Fcfs),
        ("easy", Policy::Easy),
        ("sjbf", Policy::Sjbf),
        ("consp", Policy::Conservative),
    ] {
        let text = unpack(&format!("{dir}/reference/{log}.{name}.starts.gz"));
        let pair = |line: &str| {
            let (id, start) = line.split_once(' ').expect("two columns");
            (
                id.parse::<u32>().expect("an id"),
                start.trim().parse::<i64>().expect("a time"),
            )
        };
        let mut wanted: Vec<(u32, i64)> = text.lines().map(pair).collect();
        wanted.sort_unstable();
        let clock = Instant::now();
        let mut got = starts(&jobs, procs, policy);
        let took = clock.elapsed();
        got.sort_unstable();
        assert_eq!(got.len(), wanted.len(), "{log} {name}: number of jobs");
        let differ: Vec<_> = got.iter().zip(&wanted).filter(|(a, b)| a != b).collect();
        println!(
            "{log} {name}: {} jobs, {} differ, {took:?}",
            got.len(),
            differ.len()
        );
        assert!(differ.is_empty(), "{log} {name}: first {:?}", differ[0]);
    }
}

#[test]
fn kth_starts_are_those_of_the_reference() {
    hold_against("KTH-SP2-1996-2.1-cln", 100);
}

#[test]
fn nasa_starts_are_those_of_the_reference() {
    hold_against("NASA-iPSC-1993-3.1-cln", 128);
}

#[test]
fn lublin_starts_are_those_of_the_reference() {
    hold_against("lublin_256", 256);
}

/// Evenly distributed over the powers of e between two bounds.
fn log_between(rng: &mut SplitMix64, low: f64, high: f64) -> f64 {
    let unit = (rng.draw() >> 11) as f64 / (1u64 << 53) as f64;
    (low.ln() + unit * (high.ln() - low.ln())).exp()
}

/// A log of jobs from one core to a third of the machine, of seconds to a day, whose estimates are
/// up to ten times too long; arrivals produce the given load, in percent, with daily waves.
pub(super) fn synthetic(jobs: u32, procs: u32, load: u64, seed: u64) -> Vec<Job> {
    let mut rng = SplitMix64::new(seed);
    let mut list: Vec<Job> = Vec::new();
    let mut area = 0u64;
    for id in 1..=jobs {
        let width = match rng.below(10) {
            0..4 => log_between(&mut rng, 1.0, 64.0),
            4..9 => log_between(&mut rng, 16.0, f64::from(procs) / 32.0),
            _ => log_between(&mut rng, 256.0, f64::from(procs) / 3.0),
        } as u32;
        let run = log_between(&mut rng, 10.0, 86_400.0) as i64;
        let factor = log_between(&mut rng, 1.0, 10.0);
        let estimate = ((run as f64 * factor) as i64 / 300 + 1) * 300;
        area += u64::from(width) * run as u64;
        list.push(Job {
            id,
            submit: 0,
            run,
            estimate,
            width,
        });
    }
    let span = area * 100 / (u64::from(procs) * load);
    let mut times: Vec<i64> = Vec::new();
    while times.len() < list.len() {
        let t = rng.below(span);
        let hour = t % 86_400 / 3600;
        if (8..20).contains(&hour) || rng.below(4) == 0 {
            times.push(t as i64);
        }
    }
    times.sort_unstable();
    for (job, submit) in list.iter_mut().zip(times) {
        job.submit = submit;
    }
    list
}

fn mean_wait(jobs: &[Job], replay: &Replay<'_>) -> i64 {
    let waits = replay
        .starts
        .iter()
        .zip(jobs)
        .map(|(start, job)| start - job.submit);
    waits.sum::<i64>() / jobs.len() as i64
}

#[test]
#[ignore = "a measurement"]
fn speed_of_a_large_log() {
    let number = |name: &str, or: u32| {
        std::env::var(name)
            .ok()
            .and_then(|n| n.parse().ok())
            .unwrap_or(or)
    };
    let count = number("JOBS", 300_000);
    for load in [70, 90, 95] {
        let jobs = synthetic(count, 93_312, load, 1);
        for policy in [
            Policy::Fcfs,
            Policy::Easy,
            Policy::Sjbf,
            Policy::Conservative,
        ] {
            let clock = Instant::now();
            let replay = Replay::new(&jobs, 93_312, BookSettings::default()).run(policy);
            let took = clock.elapsed();
            let (passes, scanned) = (replay.passes, replay.scanned);
            let wait = mean_wait(&jobs, &replay);
            print!("load {load} {policy:?}: {took:?}, {passes} passes, {scanned} scanned, ");
            println!("mean wait {wait}");
        }
    }
}
