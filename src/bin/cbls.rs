//! `cbls`: load indices and heartbeat of a host.

use corral::program;
use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().len() > 1 {
        return ExitCode::from(program::refuse("usage: cbls   (no arguments; see cbls(8))"));
    }
    match corral::host::ls::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            program::print_error(&format!("cbls: {}", e.text));
            ExitCode::from(e.code())
        }
    }
}
