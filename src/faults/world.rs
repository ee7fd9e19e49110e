//! The simulated world: threads of the daemons, of which exactly one runs at a time.
//!
//! A thread runs until it makes a call to the world (a file operation, a sleep). The world then
//! decides how long the call takes, and resumes the thread that is due first. Therefore a seed
//! decides everything, and a thread can be frozen, killed or overtaken between any two operations
//! although it runs the daemons' ordinary blocking code. Owns the real threads; `kernel` owns what
//! is due, the caller what happens to the cluster.

use super::cluster::Cluster;
use super::kernel::{Kernel, NextItem, ProcId, ThreadId};
use crate::sys::platform;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Thread;

/// The payload with which a killed thread unwinds.
pub(super) struct ProcessEnded;

/// The whole simulated world; locked by the only thread that runs.
pub(super) struct WorldState {
    pub kernel: Kernel,
    pub cluster: Cluster,
}

/// Functions that the world calls for everything that is not one of its threads.
pub(super) struct Handlers {
    /// An event of the cluster, by its number.
    pub event: fn(&Arc<World>, &mut WorldState, u64),
    /// The last thread of a process has ended.
    pub process_ended: fn(&mut WorldState, ProcId),
}

pub(super) struct World {
    inner: Mutex<WorldState>,
    handlers: Handlers,
    /// The thread that waits for the end of the run.
    main: Thread,
    main_go: AtomicBool,
}

thread_local! {
    /// The world and the simulated thread that this real thread represents.
    static CURRENT_THREAD: RefCell<Option<(Arc<World>, ThreadId)>> = const { RefCell::new(None) };
}

/// The simulated thread that this real thread represents.
pub(super) fn current() -> ThreadId {
    CURRENT_THREAD.with(|r| r.borrow().as_ref().map_or(0, |(_, id)| *id))
}

/// Adds a log line of the daemons to the trace of the world in which this thread runs, if any.
pub(super) fn trace_log_line(text: &str) {
    let known = CURRENT_THREAD.with(|r| r.borrow().clone());
    if let Some((world, id)) = known
        && let Ok(mut inner) = world.inner.try_lock()
    {
        let name = inner.kernel.thread_name(id);
        // It is only logged in traced runs, so it is not part of the digest.
        inner.kernel.trace_only(&name, || text.to_owned());
    }
}

impl World {
    /// Creates a world, to be run by this thread with [`World::run`].
    pub(super) fn new(
        seed: u64,
        cluster: Cluster,
        keep_log: bool,
        handlers: Handlers,
    ) -> Arc<World> {
        let kernel = Kernel::new(seed, keep_log);
        Arc::new(World {
            inner: Mutex::new(WorldState { kernel, cluster }),
            handlers,
            main: std::thread::current(),
            main_go: AtomicBool::new(false),
        })
    }

    /// Locks the world, for the thread that runs.
    pub(super) fn lock(&self) -> MutexGuard<'_, WorldState> {
        self.inner
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Starts a thread of a process; it runs from `at` on.
    pub(super) fn start(
        self: &Arc<World>,
        inner: &mut WorldState,
        proc: ProcId,
        name: String,
        at: u64,
        body: Box<dyn FnOnce() + Send>,
    ) {
        let (id, go) = inner.kernel.add_thread(proc, name);
        let world = self.clone();
        let run = move || world.run_thread(id, &go, body);
        let thread = std::thread::Builder::new()
            .stack_size(1 << 20)
            .spawn(run)
            .expect("a simulation needs threads");
        inner.kernel.set_real_thread(id, thread.thread().clone());
        inner.kernel.wake_at(id, at);
    }

    /// The life of a simulated thread.
    fn run_thread(self: Arc<World>, id: ThreadId, go: &AtomicBool, body: Box<dyn FnOnce() + Send>) {
        CURRENT_THREAD.with(|r| *r.borrow_mut() = Some((self.clone(), id)));
        await_go(go);
        let unwind = self.lock().kernel.must_unwind(id);
        let ended = match unwind {
            true => Ok(()),
            false => std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)),
        };
        platform::leave();
        let mut inner = self.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        if let Err(payload) = ended
            && !payload.is::<ProcessEnded>()
        {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            let why = text.unwrap_or_else(|| "without a message".to_owned());
            let name = kernel.thread_name(id);
            let text = format!("{name} panicked: {why}");
            cluster.history.broken(kernel, text);
        }
        if let Some(proc) = kernel.thread_ended(id) {
            (self.handlers.process_ended)(&mut inner, proc);
        }
        CURRENT_THREAD.with(|r| r.borrow_mut().take());
        self.resume_next(inner);
    }

    /// Resumes the thread that is due next. The caller does not run afterwards.
    fn resume_next(self: &Arc<World>, mut inner: MutexGuard<'_, WorldState>) {
        if inner.kernel.is_finished() {
            self.main_go.store(true, Ordering::Release);
            drop(inner);
            self.main.unpark();
            return;
        }
        let next = self.next(&mut inner);
        let resume = inner.kernel.resume(next);
        drop(inner);
        resume();
    }

    /// The next thread to run; events that are due earlier are carried out here.
    fn next(self: &Arc<World>, inner: &mut WorldState) -> ThreadId {
        loop {
            match inner.kernel.next() {
                NextItem::Run(id) => return id,
                NextItem::Event(n) => (self.handlers.event)(self, inner, n),
            }
            if inner.kernel.is_over {
                inner.kernel.wake_all(None);
            }
        }
    }

    /// Lets this thread wait for `us` while others run. Unwinds if its process was ended meanwhile.
    pub(super) fn pause(self: &Arc<World>, us: u64) {
        let known = CURRENT_THREAD.with(|r| r.borrow().as_ref().map(|(_, id)| *id));
        let Some(id) = known.filter(|_| !std::thread::panicking()) else {
            return;
        };
        let mut inner = self.lock();
        let at = inner.kernel.now.saturating_add(us);
        inner.kernel.wake_at(id, at);
        let next = self.next(&mut inner);
        if next != id {
            let go = inner.kernel.run_flag(id);
            let resume = inner.kernel.resume(next);
            drop(inner);
            resume();
            await_go(&go);
            inner = self.lock();
        }
        let unwind = inner.kernel.must_unwind(id);
        drop(inner);
        if unwind {
            std::panic::resume_unwind(Box::new(ProcessEnded));
        }
    }

    /// Runs the world until it is over. `begin` starts the first processes.
    pub(super) fn run(self: &Arc<World>, begin: impl FnOnce(&Arc<World>, &mut WorldState)) {
        let mut inner = self.lock();
        begin(self, &mut inner);
        self.resume_next(inner);
        await_go(&self.main_go);
    }
}

fn await_go(go: &AtomicBool) {
    while !go.swap(false, Ordering::Acquire) {
        std::thread::park();
    }
}
