//! The portal of a development cluster: started beside the daemons and stopped with them.
//!
//! Owns its start and the link that is printed. The portal is a program of a separate package.

use super::processes;
use super::site::{Daemon, Site};
use super::up;
use crate::client::Fail;
use crate::client::env;
use crate::client::portal;
use crate::sys::{clock, detach, fs, proc};

/// Time limit for its start, ms.
const START_MS: u64 = 20_000;
const POLL_MS: u64 = 50;

/// Starts the portal unless it is running, and prints a login link.
///
/// # Errors
/// It has not been built, or does not serve in time.
pub(super) fn up(site: &Site) -> Result<(), Fail> {
    let host = site.settings.hosts().next().unwrap_or_default();
    let daemon = Daemon {
        role: "cbweb",
        name: format!("cbweb.{host}"),
        host,
    };
    let layout = site.layout();
    let mut child = None;
    if processes::find(site).daemon(&daemon).is_none() {
        let bin = detach::own_directory()?;
        let program = up::program(&bin, daemon.role);
        if !fs::exists(&program) {
            return Err(Fail::not_found(format!(
                "{} is not built\nhint: cargo build -p corral-web --bins",
                program.display()
            )));
        }
        portal::forget_address(&layout)?;
        child = Some(up::start(site, &bin, &daemon)?);
    }
    let end = clock::boot_ms() + START_MS;
    let address = loop {
        if let Some(address) = portal::address(&layout).filter(|a| is_running(a.pid)) {
            break address;
        }
        let ended = child
            .as_mut()
            .is_some_and(|c| matches!(c.try_wait(), Ok(Some(_))));
        if ended || clock::boot_ms() > end {
            return Err(Fail::system(format!(
                "the portal does not serve\nhint: its log is {}",
                site.log(&daemon).display()
            )));
        }
        clock::sleep_ms(POLL_MS);
    };
    let conf = site.etc().join("cb.conf");
    let text = format!("CB_SHARE={}", layout.root().display());
    let own = env::Site::from_conf(&conf, &text, None).map_err(|e| Fail::system(e.to_string()))?;
    let secret = portal::make_login(&own, clock::wall_ms())?;
    println!(
        "Portal: {}/login#{secret}\n(valid for a minute; `cb login` prints another link)",
        address.url
    );
    Ok(())
}

fn is_running(pid: u32) -> bool {
    i32::try_from(pid).is_ok_and(|pid| proc::start_ticks(pid).is_some())
}
