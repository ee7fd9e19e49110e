//! Memory of this process.

/// The allocator of programs that hold the state of a cluster: many small objects, allocated and
/// freed in another order. A leader writes a third more starts a second with it than with the one
/// of the C library.
pub use mimalloc::MiMalloc as StateAllocator;

/// Gives freed memory back to the system: after a burst (a pack of 100,000 jobs) the allocators
/// would keep it for good. Of [`StateAllocator`] only what this thread allocated.
pub fn give_back() {
    // SAFETY: both only touch the state of their allocator, under its own rules.
    unsafe {
        libmimalloc_sys::mi_collect(true);
        #[cfg(target_env = "gnu")]
        libc::malloc_trim(0);
    }
}
