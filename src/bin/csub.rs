//! csub: submits jobs, like `cb csub`.
//!
//! A program of its own, because scripts start it once per job: it has half the code of `cb`, so
//! the loader adjusts half as many addresses in each start.

#![allow(clippy::disallowed_methods)] // the one place of this program that ends the process

fn main() {
    let argv: Vec<std::ffi::OsString> = std::env::args_os().collect();
    std::process::exit(corral::commands::submit(&argv));
}
