//! The simulated world's clock and its actors: threads of which exactly one runs at a time.
//!
//! An actor runs until it asks the world for something (a file operation, a sleep). The world then
//! says how long that takes, and hands the baton to whichever actor is due first. So a seed
//! decides everything, and an actor can be frozen, killed or overtaken between any two operations
//! although it runs the daemons' ordinary blocking code. Owns threads and time; knows no files.

use super::cluster::Scene;
use crate::model::SplitMix64;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Thread;

pub(super) type ActorId = usize;
pub(super) type ProcId = usize;

/// How long a thread may wait for a processor after its process was frozen, µs.
pub(super) const THAW_US: u64 = 30_000;

/// What a killed thread unwinds with.
pub(super) struct Gone;

/// One thread of a simulated process.
struct Actor {
    name: String,
    proc: ProcId,
    thread: Option<Thread>,
    go: Arc<AtomicBool>,
    /// Only the newest entry of an actor in the queue counts.
    turn: u64,
    ended: bool,
}

/// What waits for its time: an actor, or something that happens to the world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Due {
    Actor(ActorId, u64),
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
    /// Its threads go on within this time (µs) after it was frozen.
    pub thaw: u64,
    pub threads: usize,
}

/// Everything but the scene.
pub(super) struct Core {
    /// µs since the world began.
    pub now: u64,
    pub rng: SplitMix64,
    actors: Vec<Actor>,
    pub procs: Vec<Proc>,
    queue: BinaryHeap<Reverse<(u64, u64, Due)>>,
    order: u64,
    /// The run is over: everything unwinds.
    pub over: bool,
    running: usize,
    main: Option<Thread>,
    /// File operations so far.
    pub steps: u64,
    digest: u64,
    pub log: Option<Vec<String>>,
}

/// The whole simulated world; locked by the one thread that runs.
pub(super) struct Inner {
    pub core: Core,
    pub scene: Scene,
}

pub(super) struct World {
    inner: Mutex<Inner>,
    main_go: AtomicBool,
}

thread_local! {
    /// The world and actor that this thread plays.
    static ROLE: RefCell<Option<(Arc<World>, ActorId)>> = const { RefCell::new(None) };
}

/// The actor that this thread plays.
pub(super) fn me() -> ActorId {
    ROLE.with(|r| r.borrow().as_ref().map_or(0, |(_, me)| *me))
}

/// Adds a line to the trace of the world that this thread plays in, if any.
pub(super) fn note(text: &str) {
    let role = ROLE.with(|r| r.borrow().clone());
    if let Some((world, me)) = role
        && let Ok(mut inner) = world.inner.try_lock()
    {
        let name = inner.core.actors[me].name.clone();
        // Logged only in traced runs: not part of the digest.
        inner.core.keep(&name, || text.to_owned());
    }
}

impl Core {
    fn new(rng: SplitMix64, keep_log: bool) -> Core {
        Core {
            now: 0,
            rng,
            actors: Vec::new(),
            procs: Vec::new(),
            queue: BinaryHeap::new(),
            order: 0,
            over: false,
            running: 0,
            main: None,
            steps: 0,
            digest: 0xcbf2_9ce4_8422_2325,
            log: keep_log.then(Vec::new),
        }
    }

    fn push(&mut self, at: u64, due: Due) {
        self.order += 1;
        self.queue.push(Reverse((at, self.order, due)));
    }

    /// Something happens to the world at `at`; the scene knows what `n` means.
    pub(super) fn event_at(&mut self, at: u64, n: u64) {
        self.push(at.max(self.now), Due::Event(n));
    }

    fn wake_at(&mut self, actor: ActorId, at: u64) {
        let a = &mut self.actors[actor];
        a.turn += 1;
        let due = Due::Actor(actor, a.turn);
        self.push(at, due);
    }

    /// Lets an actor that waits go on at `at`.
    pub(super) fn wake(&mut self, actor: ActorId, at: u64) {
        if !self.actors[actor].ended {
            self.wake_at(actor, at.max(self.now));
        }
    }

    /// Adds to the trace, if one is kept; that it was called is digested always.
    pub(super) fn say(&mut self, who: &str, what: impl FnOnce() -> String) {
        for b in who.bytes() {
            self.digest = (self.digest ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
        }
        self.mark(self.now);
        self.keep(who, what);
    }

    fn keep(&mut self, who: &str, what: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            let text = what();
            let (s, us) = (self.now / 1_000_000, self.now % 1_000_000);
            log.push(format!("{s:4}.{us:06} {who:<12} {text}"));
        }
    }

    /// Digests a number: what a run did, in little.
    pub(super) fn mark(&mut self, n: u64) {
        self.digest = (self.digest ^ n).wrapping_mul(0x0100_0000_01b3);
    }

    /// A number that differs when two runs differ.
    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    /// Ends a process: its threads unwind the next time they would run.
    pub(super) fn kill(&mut self, proc: ProcId) {
        self.procs[proc].alive = false;
        let now = self.now;
        for id in 0..self.actors.len() {
            if self.actors[id].proc == proc && !self.actors[id].ended {
                self.wake_at(id, now);
            }
        }
    }
}

impl World {
    pub(super) fn new(seed: u64, scene: Scene, keep_log: bool) -> Arc<World> {
        let core = Core::new(super::rng::rng(seed), keep_log);
        Arc::new(World {
            inner: Mutex::new(Inner { core, scene }),
            main_go: AtomicBool::new(false),
        })
    }

    /// The world, for the thread that runs.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Starts a thread of a process; it runs from `at` on.
    pub(super) fn start(
        self: &Arc<World>,
        inner: &mut Inner,
        proc: ProcId,
        name: String,
        at: u64,
        body: Box<dyn FnOnce() + Send>,
    ) {
        let id = inner.core.actors.len();
        let go = Arc::new(AtomicBool::new(false));
        inner.core.actors.push(Actor {
            name,
            proc,
            thread: None,
            go: go.clone(),
            turn: 0,
            ended: false,
        });
        inner.core.procs[proc].threads += 1;
        inner.core.running += 1;
        let world = self.clone();
        let run = move || world.play(id, &go, body);
        let thread = std::thread::Builder::new()
            .stack_size(1 << 20)
            .spawn(run)
            .expect("a simulation needs threads");
        inner.core.actors[id].thread = Some(thread.thread().clone());
        inner.core.wake_at(id, at);
    }

    /// The life of an actor's thread.
    fn play(self: Arc<World>, id: ActorId, go: &AtomicBool, body: Box<dyn FnOnce() + Send>) {
        ROLE.with(|r| *r.borrow_mut() = Some((self.clone(), id)));
        await_go(go);
        let stop = {
            let inner = self.lock();
            inner.core.over || !inner.core.procs[inner.core.actors[id].proc].alive
        };
        let ended = match stop {
            true => Ok(()),
            false => std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)),
        };
        crate::sys::platform::leave();
        let mut inner = self.lock();
        let proc = inner.core.actors[id].proc;
        if let Err(payload) = ended
            && !payload.is::<Gone>()
        {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            let name = inner.core.actors[id].name.clone();
            let why = text.unwrap_or_else(|| "without a word".to_owned());
            let Inner { core, scene } = &mut *inner;
            scene
                .history
                .broken(core, format!("{name} panicked: {why}"));
        }
        inner.core.actors[id].ended = true;
        inner.core.running -= 1;
        inner.core.procs[proc].threads -= 1;
        if inner.core.procs[proc].threads == 0 && !inner.core.over {
            super::processes::ended(&mut inner, proc);
        }
        ROLE.with(|r| r.borrow_mut().take());
        self.pass_on(inner);
    }

    /// Gives the baton to whoever is due next. The caller does not run afterwards.
    fn pass_on(self: &Arc<World>, mut inner: MutexGuard<'_, Inner>) {
        if inner.core.running == 0 && inner.core.over {
            let main = inner.core.main.take();
            self.main_go.store(true, Ordering::Release);
            drop(inner);
            if let Some(main) = main {
                main.unpark();
            }
            return;
        }
        let next = self.next(&mut inner);
        let (go, thread) = {
            let a = &inner.core.actors[next];
            (a.go.clone(), a.thread.clone())
        };
        drop(inner);
        go.store(true, Ordering::Release);
        if let Some(thread) = thread {
            thread.unpark();
        }
    }

    /// The next actor to run; what happens to the world before is done here.
    fn next(self: &Arc<World>, inner: &mut MutexGuard<'_, Inner>) -> ActorId {
        loop {
            let Some(Reverse((at, _, due))) = inner.core.queue.pop() else {
                // Nothing is due: let whoever is left unwind.
                inner.core.over = true;
                let left = inner.core.actors.iter().position(|a| !a.ended);
                return left.expect("the last actor ends the run");
            };
            if !inner.core.over {
                inner.core.now = inner.core.now.max(at);
            }
            match due {
                Due::Event(n) => {
                    if !inner.core.over {
                        Scene::happen(self, inner, n);
                        if inner.core.over {
                            self.wake_all(inner);
                        }
                    }
                }
                Due::Actor(id, turn) => {
                    let a = &inner.core.actors[id];
                    if a.ended || a.turn != turn {
                        continue;
                    }
                    let proc = &inner.core.procs[a.proc];
                    let frozen = proc.frozen_until;
                    if proc.alive && frozen > inner.core.now && !inner.core.over {
                        // Threads of a thawed process go on in any order, not all at once.
                        let thaw = proc.thaw;
                        let late = inner.core.rng.below(thaw);
                        inner.core.wake_at(id, frozen + late);
                        continue;
                    }
                    return id;
                }
            }
        }
    }

    fn wake_all(&self, inner: &mut Inner) {
        let now = inner.core.now;
        for id in 0..inner.core.actors.len() {
            if !inner.core.actors[id].ended {
                inner.core.wake_at(id, now);
            }
        }
    }

    /// Lets this thread's actor wait for `us` while others run. Unwinds when its process was ended
    /// meanwhile.
    pub(super) fn pause(self: &Arc<World>, us: u64) {
        let me = ROLE.with(|r| r.borrow().as_ref().map(|(_, me)| *me));
        let Some(me) = me.filter(|_| !std::thread::panicking()) else {
            return;
        };
        let mut inner = self.lock();
        let at = inner.core.now.saturating_add(us);
        inner.core.wake_at(me, at);
        let next = self.next(&mut inner);
        if next != me {
            let go = inner.core.actors[me].go.clone();
            let (other, thread) = {
                let a = &inner.core.actors[next];
                (a.go.clone(), a.thread.clone())
            };
            drop(inner);
            other.store(true, Ordering::Release);
            if let Some(thread) = thread {
                thread.unpark();
            }
            await_go(&go);
            inner = self.lock();
        }
        let dead = inner.core.over || !inner.core.procs[inner.core.actors[me].proc].alive;
        drop(inner);
        if dead {
            std::panic::resume_unwind(Box::new(Gone));
        }
    }

    /// Runs the world until it is over. `begin` starts the first processes.
    pub(super) fn run(self: &Arc<World>, begin: impl FnOnce(&Arc<World>, &mut Inner)) {
        let mut inner = self.lock();
        inner.core.main = Some(std::thread::current());
        begin(self, &mut inner);
        self.pass_on(inner);
        await_go(&self.main_go);
    }
}

fn await_go(go: &AtomicBool) {
    while !go.swap(false, Ordering::Acquire) {
        std::thread::park();
    }
}
