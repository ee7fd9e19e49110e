//! cbnotify: watches metrics and events of a cluster and sends notices; see `corral::notifier`.
//!
//! Started by the leader, under its account. Provides HTTP and SMTP; decides nothing.

#![allow(clippy::disallowed_methods)] // the one place of this program that ends the process

mod mail;
mod roots;
mod webhook;

use clap::Parser;
use corral::notifier::{MailMessage, SendResult, Transport, WebhookRequest, run};
use corral::program;

/// Sends notices of a Corral cluster: alerts, and mails about jobs. Started by cbsched.
#[derive(Parser)]
#[command(name = "cbnotify", version)]
struct Args {
    /// The epoch of the leader that it belongs to.
    #[arg(long)]
    epoch: u64,
    /// Alerts and mails were switched on after this record of the journal
    #[arg(long, value_name = "EPOCH.SEGMENT.NUMBER", value_parser = record)]
    since: Option<(u64, u64, u64)>,
}

/// Reads the number of a record of the journal.
fn record(text: &str) -> Result<(u64, u64, u64), String> {
    let numbers: Vec<u64> = text.split('.').filter_map(|n| n.parse().ok()).collect();
    match numbers[..] {
        [epoch, segment, number] if text.matches('.').count() == 2 => Ok((epoch, segment, number)),
        _ => Err("expected EPOCH.SEGMENT.NUMBER".to_owned()),
    }
}

struct Network;

impl Transport for Network {
    fn post(&self, post: &WebhookRequest) -> SendResult {
        webhook::send(post)
    }

    fn mail(&self, letter: &MailMessage) -> SendResult {
        mail::send(letter)
    }
}

fn main() {
    let argv: Vec<std::ffi::OsString> = std::env::args_os().collect();
    let args: Args = match program::options(&argv) {
        Ok(args) => args,
        Err(code) => std::process::exit(code.into()),
    };
    corral::sys::logging::start("info");
    std::process::exit(run(args.epoch, args.since, &Network));
}
