//! `cbls`: load indices and heartbeat of a host.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().len() > 1 {
        eprintln!("usage: cbls   (no arguments; see cbls(8))");
        return ExitCode::from(2);
    }
    match corral::host::ls::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("cbls: {}", e.text);
            ExitCode::from(e.code())
        }
    }
}
