//! Processors by number, the kinds of binding of a queue, and the binding of an attempt.
//!
//! Only values and their text. `sys::cpus` reads the processors of a host, `task::cpu_binding`
//! chooses.

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;
use std::fmt;

/// Processor numbers are below this (as in the kernel).
pub const CPUS_MAX: u32 = 8192;

/// A set of processors (hardware threads) by the kernel's numbers; as text `0-3,8`.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CpuSet(BTreeSet<u32>);

impl CpuSet {
    /// Reads the kernel's list form: `0-3,8`; the empty text is the empty set. `None`: not such a
    /// list, or a number of `CPUS_MAX` or more.
    pub fn parse(text: &str) -> Option<CpuSet> {
        let mut set = BTreeSet::new();
        for word in text.trim().split(',').filter(|word| !word.is_empty()) {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last >= CPUS_MAX {
                return None;
            }
            set.extend(first..=last);
        }
        Some(CpuSet(set))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of processors.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// The numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    pub fn extend(&mut self, more: &CpuSet) {
        self.0.extend(more.iter());
    }

    /// Whether a processor is in both sets.
    pub fn meets(&self, other: &CpuSet) -> bool {
        !self.0.is_disjoint(&other.0)
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(all: I) -> CpuSet {
        CpuSet(all.into_iter().collect())
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = rest.next() {
            let mut last = first;
            while rest.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CpuSet, D::Error> {
        let text = String::deserialize(deserializer)?;
        let refused = || serde::de::Error::custom(format!("{text:?} is not a list of processors"));
        CpuSet::parse(&text).ok_or_else(refused)
    }
}

/// A processor with its position in the host.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Cpu {
    pub id: u32,
    /// The lowest number among the hardware threads of its core.
    pub core: u32,
    pub socket: u32,
    /// NUMA node.
    pub node: u32,
}

/// `cpu_bind` of a queue: what each of its jobs gets for itself.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CpuBind {
    #[default]
    None,
    /// A core for each slot.
    Core,
    /// Whole sockets with at least a core for each slot.
    Socket,
    /// Whole NUMA nodes with at least a core for each slot.
    Numa,
}

impl CpuBind {
    pub const ALL: [(&'static str, CpuBind); 4] = [
        ("none", CpuBind::None),
        ("core", CpuBind::Core),
        ("socket", CpuBind::Socket),
        ("numa", CpuBind::Numa),
    ];

    pub fn is_none(&self) -> bool {
        *self == CpuBind::None
    }

    /// The word in cb.yaml.
    pub fn word(self) -> &'static str {
        let row = CpuBind::ALL.iter().find(|(_, bind)| *bind == self);
        row.map_or("", |(word, _)| *word)
    }
}

/// The processors to which a host has bound an attempt.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Binding {
    /// Empty = it runs unbound.
    #[serde(skip_serializing_if = "CpuSet::is_empty")]
    pub cpus: CpuSet,
    /// Why it is not bound; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The share of each slot in `cpus`; empty = not known.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "slots")]
    pub slots: Vec<SlotCpus>,
}

/// The processors of one slot of a bound attempt, and their NUMA nodes.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct SlotCpus {
    #[serde(rename = "c")]
    pub cpus: CpuSet,
    #[serde(rename = "n")]
    pub nodes: Vec<u32>,
}

/// Reads the processors of slots, all together at most as many as a host can have: a host reports
/// them, and `0-8191` is short.
fn slots<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SlotCpus>, D::Error> {
    struct Slots;
    impl<'de> Visitor<'de> for Slots {
        type Value = Vec<SlotCpus>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the processors of each slot")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<SlotCpus>, A::Error> {
            let (mut all, mut left) = (Vec::new(), CPUS_MAX as usize);
            while let Some(slot) = seq.next_element::<SlotCpus>()? {
                let too_many = || serde::de::Error::custom("more processors than a host can have");
                let size = slot.cpus.len().max(slot.nodes.len()).max(1);
                left = left.checked_sub(size).ok_or_else(too_many)?;
                all.push(slot);
            }
            Ok(all)
        }
    }
    deserializer.deserialize_seq(Slots)
}

/// The binding of a part by a host that is not the attempt's first.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct PartBinding {
    #[serde(rename = "h")]
    pub host: String,
    #[serde(flatten)]
    pub bind: Binding,
}

impl PartBinding {
    /// Whether both state the same processors of the same host. A host that was restarted no longer
    /// knows their division into slots.
    pub fn has_the_cpus_of(&self, other: &PartBinding) -> bool {
        let (own, theirs) = (&self.bind, &other.bind);
        self.host == other.host && own.cpus == theirs.cpus && own.why == theirs.why
    }
}

impl Binding {
    /// The same without the division into slots.
    pub fn without_slots(&self) -> Binding {
        Binding {
            slots: Vec::new(),
            ..self.clone()
        }
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cpus.is_empty() {
            true => write!(f, "not bound to CPUs: {}", self.why),
            false => write!(f, "bound to CPUs {}", self.cpus),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read_and_printed_as_the_kernel_does() {
        for text in ["", "0", "0-3", "0-1,4,6-7", "8191"] {
            assert_eq!(CpuSet::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(CpuSet::parse("3,1-2,0\n").unwrap().to_string(), "0-3");
        for bad in ["a", "3-1", "0-8192", "-1", "1-", "0x3", "4294967296"] {
            assert_eq!(CpuSet::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_binding_is_short_in_json_and_a_bad_list_is_refused() {
        let cpus = CpuSet::parse("2-3").unwrap();
        let bound = Binding {
            cpus,
            ..Binding::default()
        };
        let json = serde_json::to_string(&bound).unwrap();
        assert_eq!(json, r#"{"cpus":"2-3"}"#);
        assert_eq!(serde_json::from_str::<Binding>(&json).unwrap(), bound);
        assert!(serde_json::from_str::<Binding>(r#"{"cpus":"all"}"#).is_err());
    }
    #[test]
    fn the_processors_of_slots_are_bounded() {
        let read = |slots: usize, cpus: &str| {
            let slot = format!(r#"{{"c":"{cpus}","n":[0]}}"#);
            let json = format!(r#"{{"slots":[{}]}}"#, vec![slot; slots].join(","));
            serde_json::from_str::<Binding>(&json).map(|bound| bound.slots.len())
        };
        assert_eq!(read(2, "0-4095").unwrap(), 2);
        assert!(read(3, "0-4095").is_err() && read(8193, "").is_err());
    }
}
