//! Virtual time, random numbers, processes with their threads in the order in which they are due,
//! and the trace and digest of a run. Decides which thread is next; runs none (`world` does), and
//! knows no files.

use crate::model::SplitMix64;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

pub(super) type ThreadId = usize;
pub(super) type ProcId = usize;

/// Microseconds in a millisecond and in a second of virtual time.
pub(super) const MS: u64 = 1000;
pub(super) const S: u64 = 1_000_000;

/// Wall clock of the server when a run begins, ms: a time in the year 2026.
pub(super) const BEGIN_MS: i64 = 1_795_000_000_000;
/// Maximum time that a thread waits for a processor after its process was frozen, µs.
const THAW_US: u64 = 30_000;

/// One thread of a simulated process.
struct SimThread {
    name: String,
    proc: ProcId,
    real: Option<Thread>,
    may_run: Arc<AtomicBool>,
    /// Only the newest entry of a thread in the queue counts.
    queue_version: u64,
    ended: bool,
}

/// What waits for its time: a thread, or an event of the cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum DueItem {
    Thread(ThreadId, u64),
    Event(u64),
}

/// What comes next.
pub(super) enum NextItem {
    Run(ThreadId),
    Event(u64),
}

/// A simulated process.
#[derive(Clone, Debug)]
pub(super) struct Proc {
    pub name: String,
    pub machine: usize,
    pub alive: bool,
    /// Nothing of it runs before this time (µs).
    pub frozen_until: u64,
    /// Its threads continue within this time (µs) after it was frozen.
    pub thaw: u64,
    pub threads: usize,
}

/// The random numbers of a seed: the only source of randomness in a run.
pub(super) fn random_numbers(seed: u64) -> SplitMix64 {
    // Recorded seeds depend on this start of the stream.
    SplitMix64::new(seed ^ 0x9e37_79b9_7f4a_7c15)
}

/// See the head of this file.
pub(super) struct Kernel {
    /// µs since the run began.
    pub now: u64,
    pub rng: SplitMix64,
    threads: Vec<SimThread>,
    pub procs: Vec<Proc>,
    queue: BinaryHeap<Reverse<(u64, u64, DueItem)>>,
    order: u64,
    /// The run is over: everything unwinds.
    pub is_over: bool,
    running: usize,
    /// File operations so far.
    pub steps: u64,
    digest: u64,
    /// The trace, if it is kept.
    pub log: Option<Vec<String>>,
}

impl Kernel {
    pub(super) fn new(seed: u64, keep_log: bool) -> Kernel {
        Kernel {
            now: 0,
            rng: random_numbers(seed),
            threads: Vec::new(),
            procs: Vec::new(),
            queue: BinaryHeap::new(),
            order: 0,
            is_over: false,
            running: 0,
            steps: 0,
            digest: 0xcbf2_9ce4_8422_2325,
            log: keep_log.then(Vec::new),
        }
    }

    /// Wall clock of the server, ms.
    pub(super) fn server_ms(&self) -> i64 {
        BEGIN_MS + (self.now / MS) as i64
    }

    fn push(&mut self, at: u64, due: DueItem) {
        self.order += 1;
        self.queue.push(Reverse((at, self.order, due)));
    }

    /// Event `n` of the cluster is due at `at`.
    pub(super) fn event_at(&mut self, at: u64, n: u64) {
        self.push(at.max(self.now), DueItem::Event(n));
    }

    pub(super) fn wake_at(&mut self, thread: ThreadId, at: u64) {
        let t = &mut self.threads[thread];
        t.queue_version += 1;
        let due = DueItem::Thread(thread, t.queue_version);
        self.push(at, due);
    }

    /// Lets a waiting thread continue at `at`.
    pub(super) fn wake(&mut self, thread: ThreadId, at: u64) {
        if !self.threads[thread].ended {
            self.wake_at(thread, at.max(self.now));
        }
    }

    /// Lets all threads continue now; with a process, only those of that process.
    pub(super) fn wake_all(&mut self, of: Option<ProcId>) {
        for id in 0..self.threads.len() {
            if of.is_none_or(|proc| self.threads[id].proc == proc) {
                self.wake(id, self.now);
            }
        }
    }

    /// The next thread to run, or the event that comes before it.
    pub(super) fn next(&mut self) -> NextItem {
        loop {
            let Some(Reverse((at, _, due))) = self.queue.pop() else {
                // Nothing is due: all remaining threads unwind.
                self.is_over = true;
                let left = self.threads.iter().position(|t| !t.ended);
                return NextItem::Run(left.expect("the last thread ends the run"));
            };
            if !self.is_over {
                self.now = self.now.max(at);
            }
            match due {
                DueItem::Event(n) if !self.is_over => return NextItem::Event(n),
                DueItem::Event(_) => {}
                DueItem::Thread(id, turn) => {
                    let thread = &self.threads[id];
                    if thread.ended || thread.queue_version != turn {
                        continue;
                    }
                    let proc = &self.procs[thread.proc];
                    let frozen = proc.frozen_until;
                    if proc.alive && frozen > self.now && !self.is_over {
                        // Threads of a thawed process continue in any order, not all at once.
                        let late = self.rng.below(proc.thaw);
                        self.wake_at(id, frozen + late);
                        continue;
                    }
                    return NextItem::Run(id);
                }
            }
        }
    }

    /// Adds a process without threads; nothing of it runs before `frozen_until`.
    pub(super) fn add_proc(&mut self, machine: usize, name: String, frozen_until: u64) -> ProcId {
        self.procs.push(Proc {
            name,
            machine,
            alive: true,
            frozen_until,
            thaw: THAW_US,
            threads: 0,
        });
        self.procs.len() - 1
    }

    /// Adds a thread of a process. Returns it with the flag that lets it run.
    pub(super) fn add_thread(&mut self, proc: ProcId, name: String) -> (ThreadId, Arc<AtomicBool>) {
        let go = Arc::new(AtomicBool::new(false));
        self.threads.push(SimThread {
            name,
            proc,
            real: None,
            may_run: go.clone(),
            queue_version: 0,
            ended: false,
        });
        self.procs[proc].threads += 1;
        self.running += 1;
        (self.threads.len() - 1, go)
    }

    pub(super) fn set_real_thread(&mut self, id: ThreadId, real: Thread) {
        self.threads[id].real = Some(real);
    }

    /// The flag that lets a thread run.
    pub(super) fn run_flag(&self, id: ThreadId) -> Arc<AtomicBool> {
        self.threads[id].may_run.clone()
    }

    /// A function that lets a thread run, to be called when the world is no longer locked.
    pub(super) fn resume(&self, id: ThreadId) -> impl FnOnce() + use<> {
        let thread = &self.threads[id];
        let (go, real) = (thread.may_run.clone(), thread.real.clone());
        move || {
            go.store(true, Ordering::Release);
            if let Some(real) = real {
                real.unpark();
            }
        }
    }

    pub(super) fn thread_name(&self, id: ThreadId) -> String {
        self.threads[id].name.clone()
    }

    /// Whether the thread must unwind: its process is gone, or the run is over.
    pub(super) fn must_unwind(&self, id: ThreadId) -> bool {
        self.is_over || !self.procs[self.threads[id].proc].alive
    }

    /// Notes that a thread has ended. Returns its process, if that ended with it and the run
    /// continues.
    pub(super) fn thread_ended(&mut self, id: ThreadId) -> Option<ProcId> {
        self.threads[id].ended = true;
        self.running -= 1;
        let id = self.threads[id].proc;
        let proc = &mut self.procs[id];
        proc.threads -= 1;
        (proc.threads == 0 && !self.is_over).then_some(id)
    }

    /// Whether the run is over and its last thread has ended.
    pub(super) fn is_finished(&self) -> bool {
        self.running == 0 && self.is_over
    }

    /// Ends a process: its threads unwind when they would next run.
    pub(super) fn kill(&mut self, proc: ProcId) {
        self.procs[proc].alive = false;
        self.wake_all(Some(proc));
    }

    /// Stops a process until then; its threads continue within `thaw` (µs) afterwards.
    pub(super) fn freeze(&mut self, proc: ProcId, until: u64, thaw: u64) {
        self.procs[proc].frozen_until = until;
        self.procs[proc].thaw = thaw;
    }

    /// Adds to the trace, if one is kept; the call itself is always included in the digest.
    pub(super) fn trace(&mut self, who: &str, what: impl FnOnce() -> String) {
        for b in who.bytes() {
            self.mix(u64::from(b));
        }
        self.mix(self.now);
        self.trace_only(who, what);
    }

    /// Adds to the trace but not to the digest.
    pub(super) fn trace_only(&mut self, who: &str, what: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            let text = what();
            let (s, us) = (self.now / S, self.now % S);
            log.push(format!("{s:4}.{us:06} {who:<12} {text}"));
        }
    }

    /// Adds a number to the digest.
    pub(super) fn mix(&mut self, n: u64) {
        self.digest = (self.digest ^ n).wrapping_mul(0x0100_0000_01b3);
    }

    /// A number that differs if two runs differ.
    pub(super) fn digest(&self) -> u64 {
        self.digest
    }
}
