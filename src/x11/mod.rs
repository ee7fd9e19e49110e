//! Windows of interactive jobs: connections of X11 clients at a job's host, carried through its
//! channel to the display at which its command waits.
//!
//! Owns names of displays, files of cookies, the first words of a client and what waits of its
//! bytes. The host never has the cookie of the display: it gives the job another one, and the
//! waiting command lets in who brings that.

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
