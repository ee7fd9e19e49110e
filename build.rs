//! Links the compiler's support library into the programs instead of loading it at their start.
//!
//! It owns the one linker script that it writes. It never fails a build: where the static library
//! is not at hand, the programs load the shared one as Rust programs usually do.
//!
//! A command of Corral lives for a few milliseconds. The dynamic linker needs 0.11 of the 0.79 ms
//! that the start of `cb` takes to find, map and relocate libgcc_s.so.1, of which only the stack
//! unwinder is used.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_gnu = |name, value| env::var(name).is_ok_and(|v| v == value);
    if !is_gnu("CARGO_CFG_TARGET_OS", "linux") || !is_gnu("CARGO_CFG_TARGET_ENV", "gnu") {
        return;
    }
    // Only the compiler of this machine is asked: another one's files may be of another kind.
    let native = env::var("HOST").ok() == env::var("TARGET").ok();
    let Some(out) = env::var_os("OUT_DIR").map(PathBuf::from) else {
        return;
    };
    if native && has_static_unwinder() && write_script(&out).is_ok() {
        println!("cargo::rustc-link-search=native={}", out.display());
    }
}

/// Whether the C compiler, which links Rust programs, has the unwinder as a static library.
fn has_static_unwinder() -> bool {
    let cc = Command::new("cc")
        .arg("-print-file-name=libgcc_eh.a")
        .output();
    // A file that it does not have is printed as it was asked for.
    cc.is_ok_and(|out| Path::new(String::from_utf8_lossy(&out.stdout).trim()).is_absolute())
}

/// The linker looks for `-lgcc_s` here first, and finds what to take instead.
#[allow(clippy::disallowed_methods)] // the library's modules do not exist yet
fn write_script(dir: &Path) -> io::Result<()> {
    fs::write(dir.join("libgcc_s.so"), "INPUT(-lgcc_eh -lgcc)\n")
}
