//! The portal's real router over a small published view: pages, REST interface, safety.

mod bed;
mod catalogue;
mod pages;
mod rest;
mod safety;
mod speed;
