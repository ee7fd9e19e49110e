//! Floor 3: what users and scripts see. Tables, long pages, JSON and `-o` formats, each made from
//! one registry of fields per kind of thing.
//!
//! Owns the words, widths and order of everything the reading commands print. Pure: values, the
//! time and the time zone are arguments, the result is text in a buffer; nothing here reads a file
//! or knows a terminal.

pub mod cell;
pub mod dates;
pub mod event;
pub mod field;
pub mod health;
pub mod history;
pub mod host;
pub mod host_select;
pub mod info;
pub mod job;
pub mod job_json;
pub mod job_long;
pub mod job_select;
pub mod job_table;
pub mod limit;
pub mod load;
pub mod params;
pub mod queue;
pub mod share;
pub mod user;
pub mod wrap;

pub use dates::Dates;
pub use field::Table;
