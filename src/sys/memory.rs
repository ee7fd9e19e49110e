//! Memory of this process.

/// Gives freed memory back to the system: after a burst (a pack of 100,000 jobs) the C library
/// would keep it for good.
pub fn give_back() {
    // SAFETY: malloc_trim only touches the allocator's own state, under its own locks.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
