//! Memory of this process.

use std::sync::OnceLock;

/// How the allocator of this program gives freed memory back, where it has one of its own.
static COLLECT: OnceLock<fn()> = OnceLock::new();

/// Names the function by which the program's own allocator gives back what the calling thread
/// allocated and freed. Only the programs that hold the state of a cluster link such an allocator:
/// one in this library would be linked into all of them, and its set-up takes a command a tenth of
/// its start. A second call changes nothing.
pub fn collect_with(collect: fn()) {
    let _ = COLLECT.set(collect);
}

/// Gives freed memory back to the system: after a burst (a pack of 100,000 jobs) the allocators
/// would keep it for good.
pub fn give_back() {
    if let Some(collect) = COLLECT.get() {
        collect();
    }
    #[cfg(target_env = "gnu")]
    // SAFETY: it only touches the state of the C library's allocator, under its own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}
