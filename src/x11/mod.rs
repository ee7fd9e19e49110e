//! Windows of interactive jobs: connections of X11 clients on a job's host, carried through its
//! channel to the display of its waiting command.
//!
//! Owns names of displays, cookie files, the first message of a client and the buffering of its
//! bytes. The host never has the cookie of the display: it gives the job another one, and the
//! waiting command accepts clients that present it.

mod authority;
mod display;
mod lanes;
mod server;
mod setup;
#[cfg(test)]
mod tests;
mod windows;

pub(crate) use authority::{Address, entry};
pub(crate) use lanes::{BUDGET, Lanes};
pub(crate) use server::Server;
pub(crate) use windows::Windows;

/// The port of display 0; that of display N is N higher.
pub(crate) const PORT: u16 = 6000;
