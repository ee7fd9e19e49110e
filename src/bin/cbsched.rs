//! cbsched: a master candidate; see `corral::master`.

#![allow(clippy::disallowed_methods)] // the one place of this program that ends the process

use clap::Parser;
use corral::sys::memory::StateAllocator;

#[global_allocator]
static ALLOCATOR: StateAllocator = StateAllocator;

/// Master candidate of a Corral cluster: takes part in elections and schedules while it leads.
#[derive(Parser)]
#[command(name = "cbsched", version)]
struct Args {
    /// Lead in spite of damage in the journal; damaged bytes are set aside in lost+found.
    #[arg(long)]
    accept_loss: bool,
}

fn main() {
    let args = Args::parse();
    corral::sys::logging::start("info");
    std::process::exit(corral::master::run(args.accept_loss));
}
