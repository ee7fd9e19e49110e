//! How a path is mounted.
//!
//! Owns `/proc/self/mountinfo`. Never mounts anything and never judges; callers do.

use super::{Error, Result};
use std::path::{Path, PathBuf};

<<<<<<< HEAD
=======
/// What holds a path, as far as the protocol cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsKind {
    /// A file system of this machine: its own changes raise events and are seen at once.
    Local,
    /// NFS of any version: changes of other clients raise no events, caches apply.
    Nfs,
    /// Any other network or unknown file system: treated like NFS by careful callers.
    Other,
}

const LOCAL_MAGICS: &[i64] = &[
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0x794c_7630, // overlayfs
    0x2fc1_2fc1, // zfs
    0xf2f5_2010, // f2fs
    0x8584_58f6, // ramfs
    0x4d44,      // vfat
    0x3153_464a, // jfs
];
const NFS_MAGIC: i64 = 0x6969;
/// Most bytes of the mount table.
const TABLE_MAX: u64 = 16 << 20;

/// The kind of file system that holds `path`.
pub fn fs_kind(path: &Path) -> Result<FsKind> {
    if let Some(machine) = super::platform::here() {
        return Ok(machine.fs_kind(path));
    }
    if is_nfs_by_table(path) {
        return Ok(FsKind::Nfs);
    }
    let s = nix::sys::statfs::statfs(path).at("look up the file system of", path)?;
    Ok(kind_of(s.filesystem_type()))
}

/// Whether the mount table has the device of `path` as NFS: it answers without a request to the
/// file server, which `statfs` takes.
fn is_nfs_by_table(path: &Path) -> bool {
    // Disks have a driver's number.
    let device = super::file::device_cached(path).filter(|(major, _)| *major == 0);
    let Some(device) = device else {
        return false;
    };
    let table = super::fs::read_small(Path::new("/proc/self/mountinfo"), TABLE_MAX);
    table.is_ok_and(|table| has_nfs(&String::from_utf8_lossy(&table), device))
}

fn has_nfs(table: &str, (major, minor): (u32, u32)) -> bool {
    let device = format!("{major}:{minor}");
    table.lines().any(|line| {
        let mut halves = line.splitn(2, " - ");
        let of = halves.next().and_then(|words| words.split(' ').nth(2));
        let fstype = halves.next().and_then(|words| words.split(' ').next());
        of == Some(&device) && matches!(fstype, Some("nfs" | "nfs4"))
    })
}

/// The kind of file system that holds an open file of this machine.
pub(super) fn kind_of_file(file: &std::fs::File) -> std::io::Result<FsKind> {
    Ok(kind_of(nix::sys::statfs::fstatfs(file)?.filesystem_type()))
}

#[allow(clippy::unnecessary_cast)]
fn kind_of(fs: nix::sys::statfs::FsType) -> FsKind {
    // The type's width differs between machines; the low 32 bits are the magic number.
    let magic = (fs.0 as i64) & 0xffff_ffff;
    if magic == NFS_MAGIC {
        FsKind::Nfs
    } else if LOCAL_MAGICS.contains(&magic) {
        FsKind::Local
    } else {
        FsKind::Other
    }
}

/// Room on a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskFree {
    /// Size of the file system.
    pub total: u64,
    /// What an ordinary user may still fill.
    pub available: u64,
    /// Files that the file system can hold and may still take; 0 in all = it does not count them.
    pub inodes: u64,
    pub inodes_available: u64,
}

/// Room on the file system that holds `path`.
pub fn disk_free(path: &Path) -> Result<DiskFree> {
    if super::platform::simulated() {
        let e = std::io::ErrorKind::Unsupported.into();
        return Err(super::Error::new("look up the free space of", path, e));
    }
    let v = nix::sys::statvfs::statvfs(path).at("look up the free space of", path)?;
    let unit = v.fragment_size() as u64;
    Ok(DiskFree {
        total: v.blocks() as u64 * unit,
        available: v.blocks_available() as u64 * unit,
        inodes: v.files() as u64,
        inodes_available: v.files_available() as u64,
    })
}

>>>>>>> ae139d5 (nfs: fewer requests for a separate job and an idle host)
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

/// The mount that holds `path` (which must exist).
pub fn mount_of(path: &Path) -> Result<MountFacts> {
    let table = Path::new("/proc/self/mountinfo");
    let real = super::fs::canonical(path)?;
    let text = super::fs::read_small(table, TABLE_MAX)?;
    find_mount(&String::from_utf8_lossy(&text), &real)
        .ok_or_else(|| Error::invalid("find the mount of", path, "no line of mountinfo covers it"))
}

fn find_mount(table: &str, path: &Path) -> Option<MountFacts> {
    // A later line with an equally long point hides the earlier one, hence `max_by_key`.
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

/// Undoes the octal escapes of the kernel's tables (`\040` is a blank).
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
    fn the_table_tells_of_nfs_by_device() {
        let found = [(0, 50), (254, 0), (0, 5), (0, 500)].map(|device| has_nfs(TABLE, device));
        assert_eq!(found, [true, false, false, false]);
    }

    #[test]
    fn this_machine_has_a_root_mount() {
        assert!(!mount_of(Path::new("/")).unwrap().fstype.is_empty());
    }
}
