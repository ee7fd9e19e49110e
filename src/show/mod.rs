//! Floor 3: the output for users and scripts. Tables, long pages, JSON and `-o` formats, each made
//! from one registry of fields per kind of object.
//!
//! Owns the words, widths and order of everything that the reading commands print. Pure: values,
//! the time and the time zone are arguments, the result is text in a buffer; nothing here reads a
//! file or knows a terminal.

pub(crate) mod acct;
pub(crate) mod alert;
pub(crate) mod balance;
pub(crate) mod cell;
pub(crate) mod cron;
pub(crate) mod dates;
pub(crate) mod event;
pub(crate) mod event_json;
pub(crate) mod field;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod host;
pub(crate) mod host_select;
pub(crate) mod info;
pub(crate) mod job;
pub(crate) mod job_group;
pub(crate) mod job_json;
pub(crate) mod job_long;
pub(crate) mod job_select;
pub(crate) mod job_table;
pub(crate) mod job_tasks;
pub(crate) mod limit;
pub(crate) mod load;
pub(crate) mod load_units;
pub(crate) mod message;
pub(crate) mod metrics;
pub(crate) mod params;
pub(crate) mod perfmon;
pub(crate) mod queue;
pub(crate) mod share;
pub(crate) mod slots;
pub(crate) mod user;
pub(crate) mod wrap;

pub(crate) use dates::Dates;
pub(crate) use field::Table;
