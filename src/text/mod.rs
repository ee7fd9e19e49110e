//! Converts text from users to values and back: parsers and printers, one small language per file.
//!
//! Owns the grammar of all strings that users and administrators write (durations, sizes, names,
//! index lists, dependency and resource expressions, time windows) and the width rules of printed
//! text. Everything here is pure: no clock, no files, no environment; a parser is linear in its
//! input, limited in length and depth, and returns a [`ParseError`] that points at the byte.

/// Serializes a type as its printed text and reads it back with its parser.
macro_rules! serde_by_text {
    ($type:ty, $parse:expr) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                $parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}
use serde_by_text;

pub mod error;
pub mod width;

mod scan;

pub mod arrayspec;
pub mod command;
pub mod count;
pub mod cron;
pub mod depend;
pub mod duration;
pub mod exits;
pub mod glob;
pub mod here_documents;
pub mod hook;
pub mod hostlist;
pub mod indexset;
pub mod job_group;
pub mod jobids;
pub mod names;
pub mod net;
pub mod resreq;
pub mod shell;
pub mod size;
pub mod slurm;
pub mod subst;
pub mod units;
pub mod window;
pub mod yaml;

pub use error::{ErrorKind, ParseError};
pub use indexset::IndexSet;

/// Settings of the property tests: few enough cases that each test takes well under a second.
#[cfg(test)]
pub(crate) fn cases() -> proptest::test_runner::Config {
    proptest::test_runner::Config {
        cases: 128,
        failure_persistence: None,
        ..proptest::test_runner::Config::default()
    }
}

/// CPU time used by this thread: tests can limit it regardless of the load of the machine.
#[cfg(test)]
#[allow(clippy::disallowed_methods)] // tests measure
pub(crate) fn cpu_time() -> std::time::Duration {
    let stat =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel counts it");
    let ns = stat.split(' ').next().and_then(|ns| ns.parse().ok());
    std::time::Duration::from_nanos(ns.expect("nanoseconds come first"))
}
