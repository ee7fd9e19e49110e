//! The file system of a path: its kind and its free space.
//!
//! Owns `statfs`. Never judges; callers do.

use super::file::statx;
pub use super::file_types::FsKind;
use super::{ErrorContext, Result};
use std::io::Read;
use std::path::Path;

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
/// Maximum size in bytes of the mount table that is read.
const TABLE_MAX: u64 = 16 << 20;

/// The kind of file system that contains `path`.
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

/// Whether the mount table lists the device of `path` as NFS: it answers without a request to the
/// file server, which `statfs` needs.
fn is_nfs_by_table(path: &Path) -> bool {
    // Disks have the number of a driver.
    let device = device_cached(path).filter(|(major, _)| *major == 0);
    let Some(device) = device else {
        return false;
    };
    let mut table = Vec::new();
    let read = std::fs::File::open("/proc/self/mountinfo")
        .and_then(|file| file.take(TABLE_MAX).read_to_end(&mut table));
    read.is_ok() && has_nfs(&String::from_utf8_lossy(&table), device)
}

/// Major and minor number of the device that contains `path`, as cached by this machine: no request
/// to a file server.
fn device_cached(path: &Path) -> Option<(u32, u32)> {
    let flags = libc::AT_STATX_DONT_SYNC | libc::AT_NO_AUTOMOUNT;
    let out = statx(libc::AT_FDCWD, path, flags, 0).ok()?;
    Some((out.stx_dev_major, out.stx_dev_minor))
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

/// The kind of file system that contains an open file of this machine.
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
    /// Space that an unprivileged user may still fill.
    pub available: u64,
    /// Number of files that the file system can contain, and of those that can still be added; 0 in
    /// total = it does not count them.
    pub inodes: u64,
    pub inodes_available: u64,
}

/// Minimum room in which a program can work, in bytes.
const ROOM_MIN: u64 = 64 << 10;

impl DiskFree {
    /// Whether files can be created and written. A file system without a size has room.
    pub fn has_room(&self) -> bool {
        let bytes = self.total == 0 || self.available >= ROOM_MIN;
        bytes && (self.inodes == 0 || self.inodes_available > 0)
    }
}

/// Checks that files can be created and written in `dir`, as far as is known.
///
/// # Errors
/// There is no room.
pub fn check_room(dir: &Path) -> Result<()> {
    match disk_free(dir) {
        Ok(free) if !free.has_room() => Err(super::Error::no_space("create a file in", dir)),
        _ => Ok(()),
    }
}

/// Room on the file system that contains `path`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_room() {
        let d = disk_free(Path::new("/tmp")).unwrap();
        assert!(d.total >= d.available && d.total > 0);
    }

    #[test]
    fn a_disk_without_bytes_or_files_has_no_room() {
        let free = |total, available, inodes, inodes_available| DiskFree {
            total,
            available,
            inodes,
            inodes_available,
        };
        let all = [
            free(1 << 30, 1 << 20, 100, 1),
            free(0, 0, 0, 0),
            free(1 << 30, 4096, 100, 50),
            free(1 << 30, 1 << 20, 100, 0),
        ];
        assert_eq!(all.map(|free| free.has_room()), [true, true, false, false]);
    }

    #[test]
    fn the_table_tells_of_nfs_by_device() {
        let table = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
            40 22 0:50 / /mnt/my\\040share rw,noatime - nfs4 srv:/x rw,soft\n";
        let found = [(0, 50), (254, 0), (0, 5), (0, 500)].map(|device| has_nfs(table, device));
        assert_eq!(found, [true, false, false, false]);
        assert_eq!(device_cached(Path::new("/proc")).map(|d| d.0), Some(0));
    }

    #[test]
    fn proc_is_neither_local_nor_nfs() {
        assert_eq!(fs_kind(Path::new("/proc")).unwrap(), FsKind::Other);
    }
}
