//! `clogin` (`cb login`): prints a link that logs the caller in to the portal.
//!
//! Leaves the proof in the caller's drop box and prints the link. Connects to no server: the caller
//! is logged in because the portal can read the file, whose owner is the caller.

use super::cli::{command, parse};
use super::env::Site;
use super::exit::{Exit, Fail, Result};
use super::job_requests::finish;
use super::portal;
use crate::record::portal::{LOGIN_MS, PortalAddress};
use crate::sys;
use clap::Command;
use std::ffi::OsString;

/// The options of `clogin`.
pub(super) fn options() -> Command {
    command(
        "clogin",
        "Print a link that logs you in to the portal, once and within a minute",
    )
}

/// Runs `clogin`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    match parse(options(), args) {
        Ok(_) => finish("clogin", login()),
        Err(code) => code,
    }
}

fn login() -> Result<i32> {
    let site = Site::find()?;
    let this_host = sys::host::node_name();
    let runs = |found: &PortalAddress| found.host != this_host || is_running(found.pid);
    // The user's own portal takes precedence over the one for all users.
    let own = portal::address(&site.layout());
    let service = || portal::service_address(&site.layout());
    let Some(address) = own.clone().filter(runs).or_else(service).or(own) else {
        return Err(Fail::not_found(
            "no portal runs on this cluster, neither one of yours nor one for all users\n\
             hint: start one with cbweb, or with cadmin dev up --web in a development cluster",
        ));
    };
    if !runs(&address) {
        return Err(Fail::not_found(format!(
            "the portal at {} is no longer running (process {})\nhint: start it again with cbweb",
            address.url, address.pid
        )));
    }
    let secret = portal::make_login(&site, sys::clock::wall_ms())?;
    println!("{}/login#{secret}", address.url);
    eprint!("{}", instructions(&address, &this_host));
    Ok(Exit::Ok.code())
}

fn is_running(pid: u32) -> bool {
    // Signalling a process of another user fails, but the process exists.
    let exists = |pid| pid > 1 && sys::proc::kill(pid, 0).unwrap_or(true);
    i32::try_from(pid).is_ok_and(exists)
}

/// Instructions for the use of the link.
fn instructions(address: &PortalAddress, host: &str) -> String {
    let mut out = format!(
        "The link is valid for {} seconds and one login.\n",
        LOGIN_MS / 1000
    );
    // An encrypted portal has a name under which browsers reach it.
    if address.url.starts_with("https://") {
        return out;
    }
    let port = address.url.rsplit_once(':').map_or("", |(_, port)| port);
    let there = &address.host;
    if !address.socket.is_empty() {
        out.push_str(&format!(
            "The portal listens on a socket. From where your browser runs: \
             ssh -L {port}:{} {there}\n",
            address.socket
        ));
    } else if there != host {
        out.push_str(&format!(
            "The portal runs on {there}. From where your browser runs: \
             ssh -L {port}:127.0.0.1:{port} {there}\n"
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_elsewhere_is_told_the_way() {
        let mut address = PortalAddress {
            url: "http://127.0.0.1:8080".into(),
            socket: String::new(),
            host: "h1".into(),
            pid: 1,
            since: 0,
        };
        assert!(!instructions(&address, "h1").contains("ssh"));
        assert!(instructions(&address, "h2").contains("ssh -L 8080:127.0.0.1:8080 h1"));
        address.url = "https://portal".into();
        assert!(!instructions(&address, "h2").contains("ssh"));
        address.url = "http://127.0.0.1:8080".into();
        address.socket = "/run/p".into();
        assert!(instructions(&address, "h1").contains("ssh -L 8080:/run/p h1"));
    }
}
