//! `cadmin showconf`: the settings that the leader currently uses.

use super::subcommand::{Subcommand, cmd, matches};
use crate::client::cli::operands;
use crate::client::env::Site;
use crate::client::exit::{Exit, Fail, Result};
use crate::client::job_requests::finish;
use crate::spool::view::ViewReader;
use clap::Command;

/// The options of `cadmin showconf`.
pub(super) fn options(s: &Subcommand) -> Command {
    // LSF asks for a daemon's settings: here all daemons read the same.
    cmd(s).arg(operands(
        "which",
        "WORD",
        "Accepted and ignored: mbd, sbd, lim",
    ))
}

/// Runs `cadmin showconf`; returns the exit code.
pub(super) fn run(s: &'static Subcommand, words: &[String]) -> i32 {
    match matches(options(s), words) {
        Ok(_) => finish("cadmin showconf", print_conf()),
        Err(code) => code,
    }
}

fn print_conf() -> Result<i32> {
    let site = Site::find()?;
    let params = ViewReader::new(&site.layout())
        .params()
        .map_err(|e| Fail::system(format!("{e}\nhint: settings are published by the leader")))?;
    println!("CB_SHARE = {}", site.share.display());
    println!("CB_HOST = {}", site.host);
    println!("CB_CONF = {}", site.conf.display());
    println!("LSF_CLUSTER_NAME = {}", params.cluster);
    println!(
        "LSF_UNIT_FOR_LIMITS = {}B",
        unit_letter(crate::client::limit_unit(&site))
    );
    for (name, value) in &params.params {
        println!("{name} = {value}");
    }
    Ok(Exit::Ok.code())
}

pub(super) fn unit_letter(unit: crate::text::size::Unit) -> &'static str {
    use crate::text::size::Unit;
    match unit {
        Unit::B => "",
        Unit::K => "K",
        Unit::M => "M",
        Unit::G => "G",
        Unit::T => "T",
        Unit::P => "P",
    }
}
