//! What holds a path: the kind of its file system and how much room is left there.
//!
//! Owns `statfs`. Never judges; callers do.

pub use super::file_types::FsKind;
use super::{At, Result};
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

/// The kind of file system that holds `path`.
pub fn fs_kind(path: &Path) -> Result<FsKind> {
    if let Some(machine) = super::platform::here() {
        return Ok(machine.fs_kind(path));
    }
    let s = nix::sys::statfs::statfs(path).at("look up the file system of", path)?;
    Ok(kind_of(s.filesystem_type()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_room() {
        let d = disk_free(Path::new("/tmp")).unwrap();
        assert!(d.total >= d.available && d.total > 0);
    }

    #[test]
    fn proc_is_neither_local_nor_nfs() {
        assert_eq!(fs_kind(Path::new("/proc")).unwrap(), FsKind::Other);
    }
}
