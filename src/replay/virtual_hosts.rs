//! The hosts of a virtual cluster: those that a cb.yaml lists, up and without other load, with what
//! it says they have. Owns the made-up load samples; never changes them while a replay runs.

use crate::config::{Config, HostEntry, ResourceValue};
use crate::record::load::LoadDoc;
use std::collections::BTreeMap;

/// Memory, swap and temporary space of a host whose entry does not state them, in megabytes: more
/// than any job requests.
const UNLIMITED_MB: u64 = 1 << 40;

/// See the head of this file.
pub struct Hosts {
    names: Vec<String>,
    samples: BTreeMap<String, (LoadDoc, u64)>,
}

impl Hosts {
    /// `cores`: for hosts that have as many slots as cores.
    pub fn new(config: &Config, cores: u32) -> Hosts {
        let mut out = Hosts {
            names: Vec::new(),
            samples: BTreeMap::new(),
        };
        for name in config.host_names() {
            let Some(entry) = config.host(name) else {
                continue;
            };
            out.names.push(name.to_owned());
            out.samples
                .insert(name.to_owned(), (sample(name, entry, cores), 0));
        }
        out
    }

    /// The hosts of a cluster whose samples are known; others of `config` are made up.
    pub fn from_samples(
        config: &Config,
        cores: u32,
        samples: BTreeMap<String, (LoadDoc, u64)>,
    ) -> Hosts {
        let mut out = Hosts::new(config, cores);
        for (name, sample) in samples {
            if config.host(&name).is_some() {
                out.samples.insert(name, sample);
            }
        }
        out
    }

    /// In the order of cb.yaml.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Load samples by name, with the milliseconds since they changed.
    pub fn samples(&self) -> &BTreeMap<String, (LoadDoc, u64)> {
        &self.samples
    }
}

fn sample(name: &str, entry: &HostEntry, cores: u32) -> LoadDoc {
    let number = |names: [&str; 2]| {
        names
            .iter()
            .find_map(|name| match entry.resources.get(*name) {
                Some(ResourceValue::Number(n)) => Some(*n as u64),
                _ => None,
            })
    };
    let size = |names| number(names).unwrap_or(UNLIMITED_MB);
    let (mem, swp, tmp) = (
        size(["maxmem", "mem"]),
        size(["maxswp", "swp"]),
        size(["maxtmp", "tmp"]),
    );
    let ncpus = match entry.slots.count(0) {
        0 => cores,
        slots => slots,
    };
    LoadDoc {
        host: name.to_owned(),
        boot: "sim".to_owned(),
        executor: true,
        ncpus: number(["ncpus", "cores"]).map_or(ncpus, |n| n as u32),
        maxmem: mem,
        maxswp: swp,
        maxtmp: tmp,
        ndisks: 1,
        host_type: "SIM".to_owned(),
        model: "SIM".to_owned(),
        it: 1440.0,
        tmp: tmp as f64,
        swp: swp as f64,
        mem: mem as f64,
        ..LoadDoc::default()
    }
}
