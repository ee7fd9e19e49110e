//! New directories, renames, removal, and files that arrive in parts.
//!
//! A file that arrives in parts grows in a hidden file beside its place, which is its only state:
//! the upload can continue after a restart of either side. The last name of a path is never
//! followed.

use super::{PathBelow, failed, find_above, invalid, refused};
use crate::sys::{Error, Result, caller, users};
use nix::fcntl::{AtFlags, OFlag, RenameFlags, openat, renameat, renameat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// Written data is synced to disk each time this many more bytes have been written.
const SYNC_BYTES: u64 = 64 << 20;
const UPLOAD: &str = "upload";

fn stat_of(dir: &OwnedFd, name: &OsStr) -> io::Result<Option<FileStat>> {
    match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(nix::Error::ENOENT) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

fn is(stat: &FileStat, kind: SFlag) -> bool {
    stat.st_mode & SFlag::S_IFMT.bits() == kind.bits()
}

/// Creates a directory.
pub fn make_dir(path: PathBelow<'_>) -> Result<()> {
    let (dir, name) = find_above("make the directory", path)?;
    let mode = Mode::from_bits_truncate(0o777);
    mkdirat(&dir, name, mode).map_err(|e| failed("make the directory", path, e.into()))
}

/// Removes a file, a link or an empty directory.
pub fn remove(path: PathBelow<'_>) -> Result<()> {
    let (dir, name) = find_above("remove", path)?;
    let removed = match unlinkat(&dir, name, UnlinkatFlags::NoRemoveDir) {
        Err(nix::Error::EISDIR | nix::Error::EPERM) => {
            unlinkat(&dir, name, UnlinkatFlags::RemoveDir)
        }
        other => other,
    };
    removed.map_err(|e| {
        let why = match e {
            nix::Error::ENOTEMPTY | nix::Error::EEXIST => {
                invalid("it is not empty: remove what is in it first")
            }
            e => e.into(),
        };
        failed("remove", path, why)
    })
}

/// Renames below the same directory; an existing file with the new name is not replaced.
pub fn rename(path: PathBelow<'_>, to: PathBelow<'_>) -> Result<()> {
    let (from_dir, from) = find_above("rename", path)?;
    let (to_dir, name) = find_above("rename to", to)?;
    let renamed = move_new((&from_dir, from), (&to_dir, name));
    renamed.map_err(|e| failed("rename to", to, e))
}

/// Renames without replacing. NFS has no such call, so there a file first gets its second name.
fn move_new(from: (&OwnedFd, &OsStr), to: (&OwnedFd, &OsStr)) -> io::Result<()> {
    match renameat2(from.0, from.1, to.0, to.1, RenameFlags::RENAME_NOREPLACE) {
        Err(nix::Error::EINVAL | nix::Error::ENOSYS) => {}
        other => return Ok(other?),
    }
    let stat = stat_of(from.0, from.1)?.ok_or(nix::Error::ENOENT)?;
    if is(&stat, SFlag::S_IFREG) {
        linkat(from.0, from.1, to.0, to.1, AtFlags::empty())?;
        return Ok(unlinkat(from.0, from.1, UnlinkatFlags::NoRemoveDir)?);
    }
    if stat_of(to.0, to.1)?.is_some() {
        return Err(nix::Error::EEXIST.into());
    }
    Ok(renameat(from.0, from.1, to.0, to.1)?)
}

/// The part of a file that is to be written.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    pub offset: u64,
    pub bytes: &'a [u8],
}

fn part_name(name: &OsStr) -> OsString {
    let mut out = OsString::from(".");
    out.push(name);
    out.push(".cbpart");
    out
}

/// The file of the parts received so far, locked; `None`: there is none.
fn open_part(dir: &OwnedFd, name: &OsStr, make: bool) -> io::Result<Option<File>> {
    let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let flags = if make { flags | OFlag::O_CREAT } else { flags };
    let mode = Mode::from_bits_truncate(0o600);
    let file = match openat(dir, part_name(name).as_os_str(), flags, mode) {
        Ok(fd) => File::from(fd),
        Err(nix::Error::ENOENT) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let stat = fstat(&file)?;
    let mine = stat.st_uid == users::effective_uid() && stat.st_nlink == 1;
    if !mine || !is(&stat, SFlag::S_IFREG) {
        return Err(refused(
            "the file of the received parts is not a regular file that only this \
            user has",
        ));
    }
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(_) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another upload with this name is in progress",
        )),
    }
}

fn size(file: &File) -> io::Result<u64> {
    Ok(u64::try_from(fstat(file)?.st_size).unwrap_or(0))
}

/// Number of bytes of a file that were received so far.
pub fn part_size(path: PathBelow<'_>) -> Result<u64> {
    let (dir, name) = find_above(UPLOAD, path)?;
    let size = open_part(&dir, name, false).and_then(|file| file.as_ref().map_or(Ok(0), size));
    size.map_err(|e| failed(UPLOAD, path, e))
}

/// Appends a part at the end of the last one and returns the number of bytes received. With another
/// offset nothing is added; 0 starts again.
pub fn write_part(path: PathBelow<'_>, part: Part<'_>) -> Result<u64> {
    let (dir, name) = find_above(UPLOAD, path)?;
    let written: io::Result<u64> = (|| {
        refuse_target(&dir, name)?;
        let file = open_part(&dir, name, true)?.ok_or(nix::Error::ENOENT)?;
        let has = size(&file)?;
        if part.offset == 0 && has > 0 {
            file.set_len(0)?;
        } else if part.offset != has {
            return Ok(has);
        }
        file.write_all_at(part.bytes, part.offset)?;
        let end = part.offset + part.bytes.len() as u64;
        if end / SYNC_BYTES > part.offset / SYNC_BYTES {
            file.sync_data()?;
        }
        Ok(end)
    })();
    written.map_err(|e| failed(UPLOAD, path, e))
}

/// Checks that only a regular file is replaced. Returns its permission bits.
fn refuse_target(dir: &OwnedFd, name: &OsStr) -> io::Result<Option<u32>> {
    match stat_of(dir, name)? {
        None => Ok(None),
        Some(stat) if is(&stat, SFlag::S_IFREG) => Ok(Some(stat.st_mode & 0o777)),
        Some(_) => Err(refused("an entry with this name is not a regular file")),
    }
}

/// Gives the file its name when all `size` bytes were received. `replace`: replaces a file with
/// that name.
pub fn finish_part(path: PathBelow<'_>, expected: u64, replace: bool) -> Result<()> {
    let (dir, name) = find_above(UPLOAD, path)?;
    let finished: io::Result<()> = (|| {
        let there = refuse_target(&dir, name)?;
        if there.is_some() && !replace {
            return Err(nix::Error::EEXIST.into());
        }
        let file = open_part(&dir, name, false)?.ok_or(nix::Error::ENOENT)?;
        if size(&file)? != expected {
            return Err(invalid("the upload is not complete"));
        }
        let mode = there.unwrap_or(0o666 & !caller::umask_seen());
        fchmod(&file, Mode::from_bits_truncate(mode))?;
        file.sync_all()?;
        let part = part_name(name);
        match replace {
            true => renameat(&dir, part.as_os_str(), &dir, name)?,
            false => move_new((&dir, &part), (&dir, name))?,
        }
        Ok(())
    })();
    finished.map_err(|e| failed(UPLOAD, path, e))
}

/// Checks before the first part whether an upload may end under this name.
pub fn check_upload(path: PathBelow<'_>, replace: bool) -> Result<()> {
    let (dir, name) = find_above(UPLOAD, path)?;
    let there = refuse_target(&dir, name).map_err(|e| failed(UPLOAD, path, e))?;
    match there.is_some() && !replace {
        true => Err(Error::new(
            UPLOAD,
            &path.full_path(),
            nix::Error::EEXIST.into(),
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
pub(super) fn part_name_of(name: &str) -> OsString {
    part_name(OsStr::new(name))
}
