//! cbsim: the simulator; see `corral::cbsim`.

#![allow(clippy::disallowed_methods)] // the one place of this program that ends the process

use corral::sys::memory::StateAllocator;

#[global_allocator]
static ALLOCATOR: StateAllocator = StateAllocator;

fn main() {
    let argv: Vec<std::ffi::OsString> = std::env::args_os().collect();
    corral::sys::signals::default_sigpipe();
    std::process::exit(corral::cbsim::main(&argv));
}
