//! `cbsim`: the simulator; see `corral::cbsim`.

#![allow(clippy::disallowed_methods)] // the one place of this program that ends the process

use mimalloc::MiMalloc;

/// The same allocator as in `cbsched`.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() {
    let argv: Vec<std::ffi::OsString> = std::env::args_os().collect();
    corral::sys::signals::default_sigpipe();
    std::process::exit(corral::cbsim::main(&argv));
}
