//! Floor 1: documents on disk. Types, versions, framing and checksums; bytes <-> values, no I/O.
//!
//! Every file is one YAML sequence; each record is one line `- {json} #seq len crc`, so that any
//! YAML reader can load the file while replay takes the JSON fast path. See [`frame`].

pub mod acct;
pub mod ack;
pub mod beat;
pub mod byte_text;
pub mod connect;
pub mod cron;
pub mod device_use;
pub mod event;
pub mod figures;
pub mod frame;
pub mod header;
pub mod hint;
pub mod host_status;
pub mod host_units;
pub mod job_group;
pub mod launch;
pub mod leader;
pub mod load;
pub mod message;
pub mod notices;
pub mod order;
pub mod point;
pub mod portal;
pub mod report;
pub mod request;
pub mod running_hook;
pub mod samples;
pub mod saved_job;
pub mod sealed;
pub mod suspect;
pub mod view;

/// Version of every document this program writes. A reader refuses a higher one.
pub const FORMAT: u32 = 1;
