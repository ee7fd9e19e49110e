//! Corral: a batch workload scheduler whose only server is a shared directory.
//!
//! Modules are arranged in floors and import only from lower ones; `tests/it/layering.rs` has the
//! table. Start with `docs/HACKING.md` and `docs/architecture.md`.

// Unit tests make their own files and clocks; the code they test may not.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

// floor 0
pub mod model;
// floor 1
pub mod channel;
pub mod language;
pub mod record;
pub mod sys;
pub mod text;
// floor 2
pub mod config;
pub mod journal;
pub mod spool;
pub mod state;
pub(crate) mod x11;
// floor 3
pub(crate) mod alert;
pub mod intake;
pub mod lease;
pub mod sched;
pub mod sensors;
pub(crate) mod show;
pub mod state_loader;
pub mod task;
// floor 4
pub mod turn;
// floor 5
pub(crate) mod client;
pub mod host;
pub mod master;
// floor 6
pub(crate) mod admin;
pub mod api;
pub mod notifier;
pub mod program;
// floor 7
pub mod commands;
pub(crate) mod faults;
pub mod replay;
// floor 8
pub mod cbsim;
