//! `cbgpu`: the sensor of GPUs.

use corral::program;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let once = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--once"] => true,
        _ => return ExitCode::from(program::refuse("usage: cbgpu [--once]   (see cbgpu(8))")),
    };
    let sys = std::env::var_os("SYS").unwrap_or_else(|| "/sys".into());
    ExitCode::from(corral::host::gpu_sensor::run(once, sys.as_ref()))
}
