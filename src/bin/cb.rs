//! cb: all commands in one executable, by the name of the link it was called by.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args_os()
        .map(|a| a.to_string_lossy().into_owned())
        .collect();
    let name = words
        .first()
        .map_or("cb", |w| w.rsplit('/').next().unwrap_or(w));
    let rest = words.get(1..).unwrap_or_default();
    let (name, rest) = match rest.split_first() {
        Some((first, rest)) if name == "cb" => (first.as_str(), rest),
        _ => (name, rest),
    };
    let code = match (name, rest.first().map(String::as_str)) {
        ("cadmin" | "csadmin", Some("dev")) => corral::client::dev::run(&rest[1..]),
        ("cadmin" | "csadmin", Some("init")) => corral::client::init::run(&rest[1..]),
        _ => {
            eprintln!("{name}: unknown command");
            2
        }
    };
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
