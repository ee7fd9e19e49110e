//! How a path is mounted.
//!
//! Owns `/proc/self/mountinfo`. Never mounts anything and never judges; callers do.

use super::{Error, Result};
use std::path::{Path, PathBuf};

/// One line of the mount table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountFacts {
    /// Where it is mounted.
    pub point: PathBuf,
    /// File system type: `ext4`, `nfs4`.
    pub fstype: String,
    /// Device or `server:/export`.
    pub source: String,
    /// Options of the mount and of the file system, comma separated.
    pub options: String,
}

impl MountFacts {
    /// True when the option is set, either bare (`soft`) or with a value (`acregmax=60`).
    pub fn has(&self, option: &str) -> bool {
        self.value(option).is_some()
    }

    /// The value of an option; an empty text for a bare one.
    pub fn value(&self, option: &str) -> Option<&str> {
        self.options
            .split(',')
            .find_map(|o| match o.split_once('=') {
                Some((name, value)) => (name == option).then_some(value),
                None => (o == option).then_some(""),
            })
    }
}

/// The mount that contains `path` (which must exist).
pub fn mount_of(path: &Path) -> Result<MountFacts> {
    let table = Path::new("/proc/self/mountinfo");
    let real = super::fs::canonical(path)?;
    let text = super::fs::read_small(table, 16 << 20)?;
    find_mount(&String::from_utf8_lossy(&text), &real)
        .ok_or_else(|| Error::invalid("find the mount of", path, "no line of mountinfo covers it"))
}

fn find_mount(table: &str, path: &Path) -> Option<MountFacts> {
    // A later line with an equally long mount point hides the earlier one, hence `max_by_key`.
    table
        .lines()
        .filter_map(parse_line)
        .filter(|m| path.starts_with(&m.point))
        .max_by_key(|m| m.point.as_os_str().len())
}

fn parse_line(line: &str) -> Option<MountFacts> {
    let (left, right) = line.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let right: Vec<&str> = right.split(' ').collect();
    Some(MountFacts {
        point: PathBuf::from(unescape(left.get(4)?)),
        fstype: right.first()?.to_string(),
        source: unescape(right.get(1)?),
        options: format!("{},{}", left.get(5)?, right.get(2).unwrap_or(&"")),
    })
}

/// Decodes the octal escapes of the kernel's tables (`\040` is a space).
fn unescape(s: &str) -> String {
    let b = s.as_bytes();
    let mut out = Vec::with_capacity(b.len());
    let mut i = 0;
    while i < b.len() {
        let code = b
            .get(i + 1..i + 4)
            .and_then(|d| std::str::from_utf8(d).ok());
        match (b[i], code.and_then(|d| u8::from_str_radix(d, 8).ok())) {
            (b'\\', Some(byte)) => {
                out.push(byte);
                i += 4;
            }
            (byte, _) => {
                out.push(byte);
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
        40 22 0:50 / /mnt/my\\040share rw,noatime - nfs4 srv:/x rw,soft,acregmax=60\n";

    #[test]
    fn the_longest_mount_point_wins_and_escapes_are_undone() {
        let m = find_mount(TABLE, Path::new("/mnt/my share/a/b")).unwrap();
        assert_eq!((m.fstype.as_str(), m.source.as_str()), ("nfs4", "srv:/x"));
        assert!(m.has("soft") && m.value("acregmax") == Some("60") && !m.has("hard"));
        assert_eq!(
            find_mount(TABLE, Path::new("/mnt/my")).unwrap().fstype,
            "ext4"
        );
    }

    #[test]
    fn this_machine_has_a_root_mount() {
        assert!(!mount_of(Path::new("/")).unwrap().fstype.is_empty());
    }
}
