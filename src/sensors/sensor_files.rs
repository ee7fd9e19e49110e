//! Which files of the server directory are sensors, and for which host: `ress.master`, `ress.host`,
//! `ress.HOSTNAME`, and in its directory `ress.d` any number of `*.master`, `*.host`, `*.HOSTNAME`.

use std::cmp::Ordering;

/// Directory of further sensors next to the daemons.
pub const DIR: &str = "ress.d";
/// Maximum number of sensors of one host.
pub const SENSORS_MAX: usize = 64;

/// The hosts on which a sensor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// On the host of the leader.
    Master,
    /// On every host.
    Host,
    /// On the host in its name.
    Named,
}

/// A sensor's file, by its name below the server directory. Files next to the daemons come first:
/// if two define the same resource, the first one counts.
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

/// The sensor of a file on `host`; `None`: it is not a sensor, or is another host's. `within`: the
/// file is in [`DIR`].
pub fn sensor(file: &str, host: &str, within: bool) -> Option<Sensor> {
    // Host names may contain dots, so the suffix is searched from the end.
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
