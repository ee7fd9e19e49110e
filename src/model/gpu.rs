//! A GPU as reported by a sensor. Unknown fields are empty.

use super::DeviceNode;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A GPU, or a part of one (MIG) that programs use as if it were one.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Gpu {
    /// The name by which programs select it: `GPU-...`, `MIG-...`.
    pub unit: String,
    pub model: String,
    /// It is a part of a GPU.
    pub part: bool,
    /// Memory, MB.
    pub memory_mb: Option<u64>,
    /// Nodes that only programs that use it need.
    pub devices: Vec<DeviceNode>,
    /// Utilization, percent.
    pub busy: Option<u32>,
    /// Degrees Celsius.
    pub celsius: Option<u32>,
    /// Processes that compute on it.
    pub processes: Option<Vec<ProcessUse>>,
}

/// The use of a unit by a process. A sensor writes `PID:UTIL:MB`, with `-` for unknown values.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessUse {
    #[serde(rename = "p")]
    pub pid: u32,
    /// Utilization, percent.
    #[serde(rename = "u", skip_serializing_if = "Option::is_none")]
    pub util: Option<u32>,
    /// Memory of the unit, MB.
    #[serde(rename = "m", skip_serializing_if = "Option::is_none")]
    pub mem_mb: Option<u64>,
}

impl ProcessUse {
    /// Maximum accepted amount of a unit's memory, MB.
    const MEM_MAX: u64 = 1 << 30;

    /// A process of which only the id is known.
    pub fn of(pid: u32) -> ProcessUse {
        ProcessUse {
            pid,
            ..ProcessUse::default()
        }
    }

    /// Whether more than the id is known.
    pub fn says_more(&self) -> bool {
        self.util.is_some() || self.mem_mb.is_some()
    }
}

impl fmt::Display for ProcessUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_dash = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let util = or_dash(self.util.map(u64::from));
        write!(f, "{}:{util}:{}", self.pid, or_dash(self.mem_mb))
    }
}

impl FromStr for ProcessUse {
    type Err = ();

    fn from_str(text: &str) -> Result<ProcessUse, ()> {
        let number = |text: &str, most: u64| match text {
            "-" => Ok(None),
            _ => match text.parse() {
                Ok(n) if n <= most => Ok(Some(n)),
                _ => Err(()),
            },
        };
        let (pid, rest) = text.split_once(':').ok_or(())?;
        let (util, mem) = rest.split_once(':').ok_or(())?;
        let util = number(util, 100)?.and_then(|n| u32::try_from(n).ok());
        Ok(ProcessUse {
            pid: pid.parse().ok().filter(|pid| *pid > 0).ok_or(())?,
            util,
            mem_mb: number(mem, ProcessUse::MEM_MAX)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_uses_is_written_and_read_and_nonsense_is_refused() {
        for text in ["866:97:714", "1:-:5", "1:0:-", "7:-:-"] {
            assert_eq!(text.parse::<ProcessUse>().unwrap().to_string(), text);
        }
        let bad = [
            "",
            "1",
            "1:2",
            "0:1:1",
            "a:1:1",
            "1:101:1",
            "1:-1:1",
            "1:1:1073741825",
            "1:1:1:1",
        ];
        for text in bad {
            assert_eq!(text.parse::<ProcessUse>(), Err(()), "{text}");
        }
        assert!(!ProcessUse::of(7).says_more());
    }
}
