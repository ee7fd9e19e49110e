//! `cbweb`: the portal.

use std::process::ExitCode;

fn main() -> ExitCode {
    corral_web::command::main()
}
