//! The sensor `cbgpu`: periodically prints type and usage of the host's GPUs, for `cbls`.

use crate::sensors::gpus::document;
use crate::sensors::sensor_lifecycle::NOTHING_HERE;
use crate::sys::clock;
use crate::sys::gpus::Gpus;
use std::io::Write;
use std::path::Path;

/// Pause between two documents, ms.
const EVERY_MS: u64 = 15_000;

/// Runs until its output is closed; `once`: prints one document. `sys`: the root of sysfs. Returns
/// the exit code; prints a message on standard error if it is not 0.
pub fn run(once: bool, sys: &Path) -> u8 {
    let gpus = match Gpus::open() {
        Ok(gpus) => gpus,
        Err(e) => return complain(&e, 1),
    };
    loop {
        let all = match gpus.list(sys) {
            Ok(all) => all,
            Err(e) => return complain(&e, 1),
        };
        if all.is_empty() {
            let text = "no GPU found: the NVIDIA driver reports none, and /sys/class/drm lists \
                none of AMD";
            return complain(text, NOTHING_HERE as u8);
        }
        let mut out = std::io::stdout().lock();
        let printed = out.write_all(document(&all).as_bytes());
        if printed.and_then(|()| out.flush()).is_err() || once {
            return 0;
        }
        clock::sleep_ms(EVERY_MS);
    }
}

fn complain(text: &str, code: u8) -> u8 {
    eprintln!("cbgpu: {text}");
    code
}
