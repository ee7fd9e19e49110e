//! Memory of this process.

/// The allocator of programs that hold the state of a cluster: many small objects, allocated and
/// freed in another order. A leader writes a third more starts a second with it than with the one
/// of the C library.
pub use mimalloc::MiMalloc as StateAllocator;

/// Gives freed memory back to the system: after a burst (a pack of 100,000 jobs) the C library
/// would keep it for good. [`StateAllocator`] gives back what it has by itself.
pub fn give_back() {
    // SAFETY: malloc_trim only touches the allocator's own state, under its own locks.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
