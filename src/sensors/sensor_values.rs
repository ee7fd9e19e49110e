//! The current values of one host's sensors with their age, the definition with which each sensor
//! began, and what is reported once. Owns expiry; never runs anything.

use super::RESOURCES_MAX;
use super::parse::{Parsed, SensorReading, UnitAttributes, names_of};
use super::sensor_files::Sensor;
use crate::record::host_units::UnitDoc;
use crate::record::load::Sensed;
use crate::text::units;
use std::collections::{BTreeMap, BTreeSet};

/// Number of periods for which a value is used.
pub const PERIODS: u64 = 3;
/// Shortest and longest accepted period, in milliseconds.
pub const PERIOD_MS: (u64, u64) = (5_000, 600_000);
/// The period of a resource that was printed only once.
pub const FIRST_PERIOD_MS: u64 = 60_000;
/// How long a resource stays defined after it was last printed, ms.
pub const DEFINED_MS: u64 = 3_600_000;
/// Room for all sensors of a host in its load report, in bytes.
pub const REPORT_MAX: usize = 64 << 10;
/// Bytes that a resource takes there in addition to its texts.
const REPORT_EACH: usize = 96;
/// Maximum number of messages that are remembered as reported.
const REPORTED_MAX: usize = 1000;

/// A resource as last printed by its sensor.
#[derive(Clone, Debug)]
struct CurrentValue {
    sensed: Sensed,
    /// The information about each unit in the last value.
    units: UnitAttributes,
    read_at: u64,
    /// The last two gaps between its values.
    gaps: [Option<u64>; 2],
    /// Its sensor was restarted: the next value may change the definition.
    redefine: bool,
    /// The resource is removed at this time.
    until: u64,
}

impl CurrentValue {
    fn period(&self) -> Option<u64> {
        let longest = self.gaps.iter().flatten().max()?;
        Some((*longest).clamp(PERIOD_MS.0, PERIOD_MS.1))
    }

    fn is_outdated(&self, now: u64) -> bool {
        let period = self.period().unwrap_or(FIRST_PERIOD_MS);
        now.saturating_sub(self.read_at) > PERIODS * period
    }
}

/// All sensors of a host.
#[derive(Clone, Debug, Default)]
pub struct SensorValues {
    sensors: BTreeMap<Sensor, BTreeMap<String, CurrentValue>>,
    reported: BTreeSet<String>,
}

impl SensorValues {
    pub fn new() -> SensorValues {
        SensorValues::default()
    }

    /// Takes the content of a document of `sensor`. Returns sentences for the log.
    pub fn take_document(&mut self, sensor: &Sensor, parsed: Parsed, now: u64) -> Vec<String> {
        let mut messages = Vec::new();
        for p in &parsed.problems {
            // The key has no line number, so the same mistake in every document is reported once.
            let key = format!("{}: {}: {}", sensor.name, p.resource, p.message);
            self.report_once(key, format!("{}:{p}", sensor.name), &mut messages);
        }
        for reading in parsed.readings {
            self.reading(sensor, reading, now, &mut messages);
        }
        messages
    }

    fn reading(&mut self, sensor: &Sensor, r: SensorReading, now: u64, messages: &mut Vec<String>) {
        let count: usize = self.sensors.values().map(BTreeMap::len).sum();
        let all = self.sensors.entry(sensor.clone()).or_default();
        let Some(current) = all.get_mut(&r.name) else {
            if count >= RESOURCES_MAX {
                let text = format!(
                    "{}: resource {} is left out: the sensors of this host have more than \
                     {RESOURCES_MAX}",
                    sensor.name, r.name
                );
                return self.report_once(format!("{}: too many", sensor.name), text, messages);
            }
            let current = CurrentValue {
                sensed: r.sensed,
                units: r.units,
                read_at: now,
                gaps: [None; 2],
                redefine: false,
                until: u64::MAX,
            };
            all.insert(r.name, current);
            return;
        };
        current.units = r.units;
        let (old, new) = (&current.sensed, &r.sensed);
        let same = |a: &Sensed, b: &Sensed| {
            (a.kind, a.increase, a.release, a.slot, a.assign, &a.per_unit)
                == (b.kind, b.increase, b.release, b.slot, b.assign, &b.per_unit)
        };
        if !current.redefine && !same(old, new) {
            let text = format!(
                "{}: the definition of resource {} has changed: type, direction, release, \
                 slotresource, assign and per_unit keep their values until the sensor is \
                 restarted",
                sensor.name, r.name
            );
            let retyped = old.kind != new.kind;
            if !retyped {
                current.update(r.sensed, now, true);
            }
            return self.report_once(text.clone(), text, messages);
        }
        current.update(r.sensed, now, false);
    }

    /// The sensor was restarted: it may change the definitions of its resources.
    pub fn restarted(&mut self, sensor: &Sensor) {
        for current in self
            .sensors
            .get_mut(sensor)
            .into_iter()
            .flat_map(BTreeMap::values_mut)
        {
            current.redefine = true;
        }
    }

    /// The sensor was removed: its values become invalid at once, its definitions after `linger`
    /// ms.
    pub fn forget(&mut self, sensor: &Sensor, linger: u64, now: u64) {
        let begins = format!("{}:", sensor.name);
        self.reported.retain(|key| !key.starts_with(&begins));
        if linger == 0 {
            self.sensors.remove(sensor);
        }
        for current in self
            .sensors
            .get_mut(sensor)
            .into_iter()
            .flat_map(BTreeMap::values_mut)
        {
            current.sensed.value = None;
            current.until = current.until.min(now + linger);
        }
    }

    /// The longest known period of the sensor's resources.
    pub fn period(&self, sensor: &Sensor) -> Option<u64> {
        let all = self.sensors.get(sensor)?;
        all.values().filter_map(CurrentValue::period).max()
    }

    /// The host's report at `now`, and sentences for the log.
    pub fn report(&mut self, now: u64) -> (BTreeMap<String, Sensed>, Vec<String>) {
        let (mut out, mut messages) = (BTreeMap::new(), Vec::new());
        let mut room = REPORT_MAX;
        let mut later = Vec::new();
        for (sensor, all) in &mut self.sensors {
            all.retain(|_, h| now < h.until && now.saturating_sub(h.read_at) <= DEFINED_MS);
            for (name, current) in all {
                if current.sensed.value.is_some() && current.is_outdated(now) {
                    current.sensed.value = None;
                    let age = now.saturating_sub(current.read_at) / 1000;
                    messages.push(format!(
                        "{}: the value of {name} is {age} s old and no longer used",
                        sensor.name
                    ));
                }
                let s = &current.sensed;
                let value = s.value.as_ref().map_or(0, String::len);
                let bytes = REPORT_EACH + name.len() + s.about.len() + s.locale.len() + value;
                let text = match () {
                    () if out.contains_key(name) => "another sensor of this host reports it too",
                    () if bytes > room => "the load report has no room for it",
                    () => {
                        room -= bytes;
                        out.insert(name.clone(), s.clone());
                        continue;
                    }
                };
                later.push(format!(
                    "{}: resource {name} is left out: {text}",
                    sensor.name
                ));
            }
        }
        self.sensors.retain(|_, all| !all.is_empty());
        for text in later {
            self.report_once(text.clone(), text, &mut messages);
        }
        (out, messages)
    }

    /// The sensors' information about the units of this host besides their names, by resource.
    /// Devices are kept while the resource is defined; processes are valid as long as a value is.
    pub fn units(&self) -> BTreeMap<String, Vec<UnitDoc>> {
        let mut out: BTreeMap<String, Vec<UnitDoc>> = BTreeMap::new();
        let all = || self.sensors.values().flatten();
        for (name, current) in all().filter(|(_, current)| current.sensed.assign) {
            let value = current.sensed.value.as_deref();
            let names = match current.units.is_empty() {
                true => value.map(names_of).unwrap_or_default(),
                false => current.units.names.clone(),
            };
            if names.is_empty() || out.contains_key(name) {
                continue;
            }
            let of = |at: usize| UnitDoc {
                devices: current.units.devices.get(at).cloned().unwrap_or_default(),
                processes: match value {
                    Some(_) => current.units.processes.get(at).cloned().unwrap_or_default(),
                    None => Vec::new(),
                },
                used: match value {
                    Some(_) => current.units.used.get(at).cloned().unwrap_or_default(),
                    None => Vec::new(),
                },
                seen: if current.units.has_no_processes() {
                    0
                } else {
                    current.read_at
                },
                ..UnitDoc::default()
            };
            let named = names.into_iter().enumerate();
            let units = named.map(|(at, name)| UnitDoc { name, ..of(at) });
            out.insert(name.clone(), units.collect());
        }
        for (own, current) in all().filter(|(_, current)| !current.sensed.per_unit.is_empty()) {
            if let (Some(units), Some(value)) =
                (out.get_mut(&current.sensed.per_unit), &current.sensed.value)
            {
                put_sizes(units, own, value);
            }
        }
        out.retain(|_, units| units.iter().any(|unit| *unit != UnitDoc::named(&unit.name)));
        out
    }

    fn report_once(&mut self, key: String, text: String, messages: &mut Vec<String>) {
        if self.reported.len() < REPORTED_MAX && self.reported.insert(key) {
            messages.push(text);
        }
    }
}

/// Stores the amount of `own` of each unit.
fn put_sizes(all: &mut [UnitDoc], own: &str, value: &str) {
    let sizes = units::sizes(value);
    let one = units::amount(value);
    for (at, unit) in all.iter_mut().enumerate() {
        let size = match &sizes {
            Some(sizes) => sizes.get(at).copied(),
            None => one,
        };
        if let Some(size) = size {
            let size = (size * 1000.0).round() as i64;
            unit.sizes.entry(own.to_owned()).or_insert(size);
        }
    }
}

impl CurrentValue {
    /// Takes a new value; `keep`: the definition does not change.
    fn update(&mut self, new: Sensed, now: u64, keep: bool) {
        let gap = now.saturating_sub(self.read_at);
        self.gaps = [self.gaps[1], Some(gap)];
        self.read_at = now;
        self.until = u64::MAX;
        if keep {
            (self.sensed.value, self.sensed.locale) = (new.value, new.locale);
        } else {
            self.sensed = new;
            self.redefine = false;
        }
    }
}
