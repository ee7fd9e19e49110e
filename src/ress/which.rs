//! Which files of the server directory are sensors, and for which host: `ress.master`, `ress.host`,
//! `ress.HOSTNAME`, and in its directory `ress.d` any number of `*.master`, `*.host`, `*.HOSTNAME`.

use std::cmp::Ordering;

/// Directory of further sensors next to the daemons.
pub const DIR: &str = "ress.d";
/// Most sensors that one host runs.
pub const SENSORS_MAX: usize = 64;

/// Where a sensor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// On the host of the leader.
    Master,
    /// On every host.
    Host,
    /// On the host it names.
    Named,
}

/// A sensor's file, by its name below the server directory. Those next to the daemons come first:
/// of two that name the same resource the first counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sensor {
    /// `ress.host`, `ress.d/gpu.host`.
    pub name: String,
    pub role: Role,
}

impl Ord for Sensor {
    fn cmp(&self, other: &Sensor) -> Ordering {
        let key = |s: &Sensor| (s.name.contains('/'), s.role);
        let by_name = || self.name.cmp(&other.name);
        key(self).cmp(&key(other)).then_with(by_name)
    }
}

impl PartialOrd for Sensor {
    fn partial_cmp(&self, other: &Sensor) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The sensor that a file is on `host`; `None`: none, or another host's. `within`: it lies in
/// [`DIR`].
pub fn sensor(file: &str, host: &str, within: bool) -> Option<Sensor> {
    // Host names have dots themselves: looked for from the end.
    let stem = |word: &str| file.strip_suffix(word)?.strip_suffix('.');
    let roles = [
        ("master", Role::Master),
        ("host", Role::Host),
        (host, Role::Named),
    ];
    let ours = |stem: &str| match within {
        true => !stem.is_empty() && !stem.starts_with('.'),
        false => stem == "ress",
    };
    let found = roles.iter().find(|(word, _)| stem(word).is_some_and(ours));
    let (_, role) = *found?;
    let name = match within {
        true => format!("{DIR}/{file}"),
        false => file.to_owned(),
    };
    Some(Sensor { name, role })
}
