//! `cbexe`: starts and monitors the tasks of a host.

use corral::host::exe::{self, Options};
use corral::program;
use std::process::ExitCode;

const USAGE: &str = "usage: cbexe [--no-cgroups]   (see cbexe(8))";

fn main() -> ExitCode {
    let mut options = Options::default();
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            "--no-cgroups" => options.no_cgroups = true,
            _ => return ExitCode::from(program::refuse(USAGE)),
        }
    }
    match exe::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            program::print_error(&format!("cbexe: {}", e.text));
            ExitCode::from(e.code())
        }
    }
}
