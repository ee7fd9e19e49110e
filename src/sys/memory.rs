//! Memory of this process.

use std::sync::OnceLock;

/// How this program's own allocator, if it has one, returns freed memory.
static COLLECT: OnceLock<fn()> = OnceLock::new();

/// Sets the function by which the program's own allocator returns what the calling thread allocated
/// and freed. Only the programs that hold the state of a cluster link such an allocator: one in
/// this library would be linked into all programs, and its set-up would take a tenth of the start
/// time of a command. A second call changes nothing.
pub fn collect_with(collect: fn()) {
    let _ = COLLECT.set(collect);
}

/// Returns freed memory to the system: after a burst (a pack of 100,000 jobs) the allocators would
/// keep it permanently.
pub fn release_freed() {
    if let Some(collect) = COLLECT.get() {
        collect();
    }
    #[cfg(target_env = "gnu")]
    // SAFETY: it only uses the state of the C library's allocator, under that allocator's own
    // locks.
    unsafe {
        libc::malloc_trim(0);
    }
}
