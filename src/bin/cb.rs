//! cb: all commands in one executable, chosen by the name it is called by.

#![allow(clippy::disallowed_methods)] // the one place of this program that ends the process

fn main() {
    let argv: Vec<std::ffi::OsString> = std::env::args_os().collect();
    std::process::exit(corral::commands::main(&argv));
}
