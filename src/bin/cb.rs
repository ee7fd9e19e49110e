//! cb: all commands in one executable, selected by the name of the link.

#![allow(clippy::disallowed_methods)] // the one place of this program that ends the process

fn main() {
    let argv: Vec<std::ffi::OsString> = std::env::args_os().collect();
    std::process::exit(corral::commands::main(&argv));
}
