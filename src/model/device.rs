//! A device node by its numbers, as used by control groups. Owns its text form: `195:0`, preceded
//! by `b` for a block device.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Maximum number of nodes of the units of one host, from which rules are built.
pub const DEVICES_MAX: usize = 1024;

/// A device node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DeviceNode {
    pub block: bool,
    pub major: u32,
    pub minor: u32,
}

impl fmt::Display for DeviceNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.block { "b" } else { "" };
        write!(f, "{kind}{}:{}", self.major, self.minor)
    }
}

/// Largest numbers that the kernel assigns.
const MAJOR_MAX: u32 = (1 << 12) - 1;
const MINOR_MAX: u32 = (1 << 20) - 1;

impl FromStr for DeviceNode {
    type Err = ();

    fn from_str(text: &str) -> Result<DeviceNode, ()> {
        let (block, numbers) = match text.strip_prefix('b') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (major, minor) = numbers.split_once(':').ok_or(())?;
        let digits = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
        let number = |word: &str, max: u32| match word.parse::<u32>() {
            Ok(n) if n <= max && digits(word) => Ok(n),
            _ => Err(()),
        };
        Ok(DeviceNode {
            block,
            major: number(major, MAJOR_MAX)?,
            minor: number(minor, MINOR_MAX)?,
        })
    }
}

impl Serialize for DeviceNode {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DeviceNode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<DeviceNode, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = |()| serde::de::Error::custom(format!("{text:?} is not a device"));
        text.parse().map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_read_as_it_is_written() {
        for text in ["195:0", "b8:16", "4095:1048575"] {
            assert_eq!(text.parse::<DeviceNode>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "195",
            "195:",
            ":0",
            "c195:0",
            "4096:0",
            "1:1048576",
            "+1:0",
            "1:-1",
            "/dev/x",
        ] {
            assert_eq!(text.parse::<DeviceNode>(), Err(()), "{text}");
        }
    }
}
