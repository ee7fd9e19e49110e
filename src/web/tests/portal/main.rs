//! The portal's real router over a small published view: pages, REST interface, safety.

#![allow(clippy::disallowed_methods)] // tests touch files and clocks
#![allow(unreachable_pub)] // nothing uses a test from outside

mod admin;
mod apps;
mod bed;
mod broker;
mod callers;
mod catalogue;
mod charts;
mod encrypted;
mod files;
mod forms;
mod hostile;
mod live;
mod pages;
mod rest;
mod safety;
mod speed;
mod terminal;
