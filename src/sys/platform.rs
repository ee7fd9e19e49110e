//! The machine to which a thread's calls go: this one, or a simulated one that a thread has
//! entered.
//!
//! Owns the traits that a simulated machine implements and the thread's choice. A thread that
//! entered nothing (every thread of every daemon and command) gets the operating system; `sys`
//! checks this at each call, which costs one relaxed read of a flag that is never set there.
//! Decides nothing else: code built on the calls (temporary files, renaming, verifying a link by
//! its count) is the same on both sides.

use super::file_types::{FsKind, Handle, OpenMode, Stat};
use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a simulated machine does instead of the operating system.
pub trait Machine: Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, mode: &OpenMode) -> io::Result<Box<dyn Handle>>;
    /// `lstat`.
    fn stat(&self, path: &Path) -> io::Result<Stat>;
    /// `lstat` that bypasses the caches of this machine.
    fn stat_now(&self, path: &Path) -> io::Result<Stat>;
    /// Renames; an existing file with the new name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a name of a file.
    fn unlink(&self, path: &Path) -> io::Result<()>;
    /// Creates one directory.
    fn mkdir(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// Removes an empty directory.
    fn rmdir(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, and whether each is a directory.
    fn list(&self, path: &Path) -> io::Result<Vec<(OsString, bool)>>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// The kind of file system that contains a path.
    fn fs_kind(&self, path: &Path) -> FsKind;

    /// Wall clock, ms since the Unix epoch.
    fn wall_ms(&self) -> i64;
    /// Boot-time clock, ns.
    fn boot_ns(&self) -> u128;
    /// Sleeps.
    fn sleep_us(&self, us: u64);
    /// Fills `buf` with the random bytes of the simulation.
    fn random(&self, buf: &mut [u8]);

    /// The user that this process runs as.
    fn uid(&self) -> u32;
    /// The process to which this thread belongs.
    fn pid(&self) -> u32;
    /// The id of this boot of the machine.
    fn boot_id(&self) -> &'static str;
    /// A number that no other call in this process returns.
    fn counter(&self) -> u64;
    /// The machine's name.
    fn name(&self) -> &'static str;
    /// Starts a thread in this process.
    fn spawn(&self, name: &str, f: Box<dyn FnOnce() + Send>);
    /// Ends this process with all its threads, at once.
    fn exit(&self, code: i32) -> !;
    /// Whether the process `pid`, which began at `started_ms` (boot-time ms), is alive.
    fn began_at(&self, pid: i32, started_ms: u64) -> bool;
    /// Sends an order to a shepherd. Returns false if it is gone.
    fn send_order(&self, pid: i32, value: u64) -> bool;
}

static ENTERED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CURRENT_MACHINE: RefCell<Option<Arc<dyn Machine>>> = const { RefCell::new(None) };
}

/// Directs this thread's calls to `machine` from now on.
pub fn enter(machine: Arc<dyn Machine>) {
    ENTERED.store(true, Ordering::Relaxed);
    CURRENT_MACHINE.with(|here| *here.borrow_mut() = Some(machine));
}

/// Directs this thread's calls to the operating system again.
pub fn leave() {
    CURRENT_MACHINE.with(|here| here.borrow_mut().take());
}

/// The simulated machine of this thread, if any.
#[inline]
pub(super) fn here() -> Option<Arc<dyn Machine>> {
    if !ENTERED.load(Ordering::Relaxed) {
        return None;
    }
    CURRENT_MACHINE.with(|here| here.borrow().clone())
}

/// True when this thread is in a simulation: for things that have no meaning there (a terminal, a
/// watch).
pub fn simulated() -> bool {
    here().is_some()
}
