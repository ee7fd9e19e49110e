//! cbsim: the simulator; see `corral::sim`.

#![allow(clippy::disallowed_methods)] // the one place of this program that ends the process

fn main() {
    let argv: Vec<std::ffi::OsString> = std::env::args_os().collect();
    corral::sys::signals::default_sigpipe();
    std::process::exit(corral::sim::cli::main(&argv));
}
