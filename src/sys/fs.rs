//! Whole files and directories: durable writes, publishing, reading at an offset, listing.
//!
//! Owns the rules that make a file on a shared directory safe to read: written to a temporary file
//! and renamed, or overwritten in place in one write. Never keeps a descriptor open after a call
//! returns, and never retries an fsync: after a failed one, the state of the data is unknown.

use super::file::{self, File};
use super::file_types::OpenMode;
pub use super::file_types::{FileMark, FileOwner, Kind, Stat, parent};
use super::{Error, ErrorContext, Result, platform};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The permission bits of files created by `durable_write` and `publish` (before the umask).
pub const FILE_MODE: u32 = 0o644;

static ASIDE_COUNTER: AtomicU64 = AtomicU64::new(0);

/// A name beside `path`, in the same directory, that no other writer uses: hidden, with the process
/// id, a random number of the process and a counter, so that leftovers of a crash are recognised by
/// `is_aside`.
fn aside_name(path: &Path) -> PathBuf {
    static OF_PROCESS: OnceLock<String> = OnceLock::new();
    let (n, pid) = match platform::here() {
        Some(machine) => (machine.counter().to_string(), machine.pid()),
        None => {
            let n = ASIDE_COUNTER.fetch_add(1, Ordering::Relaxed);
            let drawn = OF_PROCESS.get_or_init(|| super::clock::nonce(8));
            (format!("{drawn}.{n}"), std::process::id())
        }
    };
    let base = path
        .file_name()
        .map(|s| s.to_string_lossy().into_owned())
        .unwrap_or_default();
    let host = super::host::short_tag();
    path.with_file_name(format!(".{base}.{host}.{pid}.{n}.tmp"))
}

/// Whether the name was created by an interrupted `durable_write`, `publish` or `link_exclusive`.
pub fn is_aside(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".tmp")
}

/// Reads a whole file of at most `limit` bytes; a longer one is an error (`InvalidData`).
pub fn read_small(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let file = File::open(path, OpenMode::READ).at("open", path)?;
    read_all_of(&file, path, limit)
}

/// [`read_small`], which also returns the owner of the file.
pub fn read_small_owned(path: &Path, limit: u64) -> Result<(Vec<u8>, u32)> {
    let file = File::open(path, OpenMode::LOOK).at("open", path)?;
    // A simulated machine has one user, and its calls are counted.
    let uid = match platform::simulated() {
        true => 0,
        false => {
            let stat = file.stat().at("stat", path)?;
            regular(&stat, path)?;
            stat.uid
        }
    };
    Ok((read_all_of(&file, path, limit)?, uid))
}

/// Rejects what is not a regular file: a pipe or device may return anything, or block without
/// limit.
fn regular(stat: &Stat, path: &Path) -> Result<()> {
    match stat.kind {
        Kind::File => Ok(()),
        _ => Err(Error::invalid("read", path, "it is not a regular file")),
    }
}

fn read_all_of(file: &File, path: &Path, limit: u64) -> Result<Vec<u8>> {
    let bytes = file.read_front(limit.saturating_add(1)).at("read", path)?;
    if bytes.len() as u64 > limit {
        return Err(Error::invalid(
            "read",
            path,
            format!("larger than the limit of {limit} bytes"),
        ));
    }
    Ok(bytes)
}

/// Like `read_small`, but returns `None` for a file that does not exist.
pub fn read_optional(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    match read_small(path, limit) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e),
    }
}

/// Part of a file as it was at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The bytes from the requested offset on, at most as many as requested.
    pub bytes: Vec<u8>,
    /// The length of the file when it was opened.
    pub file_len: u64,
    /// The inode, by which a reader detects that the file was replaced.
    pub ino: u64,
    /// The owner.
    pub uid: u32,
}

/// Reads at most `max` bytes at `offset` by open, read and close: on NFS this ensures fresh data,
/// while a descriptor that is kept open shows older data. Only a regular file is read.
pub fn read_from(path: &Path, offset: u64, max: usize) -> Result<Chunk> {
    let file = File::open(path, OpenMode::LOOK).at("open", path)?;
    read_open(&file, path, offset, max)
}

/// The same for a file that was just opened.
pub(super) fn read_open(file: &File, path: &Path, offset: u64, max: usize) -> Result<Chunk> {
    let stat = file.stat().at("stat", path)?;
    regular(&stat, path)?;
    let want = stat.len.saturating_sub(offset).min(max as u64) as usize;
    let mut bytes = vec![0u8; want];
    let mut filled = 0;
    while filled < want {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::new("read", path, e)),
        }
    }
    bytes.truncate(filled);
    Ok(Chunk {
        bytes,
        file_len: stat.len,
        ino: stat.ino,
        uid: stat.uid,
    })
}

/// Writes `bytes` to a temporary name in the directory of `path`; the caller renames or links it.
fn write_aside(path: &Path, bytes: &[u8], mode: u32, sync: bool) -> Result<PathBuf> {
    let temporary = aside_name(path);
    // An exclusive creation costs one more request on NFS, because of the times that it replaces.
    let how = OpenMode {
        exclusive: platform::simulated(),
        ..OpenMode::NEW.mode(mode)
    };
    write_new(&temporary, bytes, how, sync)?;
    Ok(temporary)
}

/// Writes a new file; if it cannot be written completely, it is removed again.
fn write_new(path: &Path, bytes: &[u8], mode: OpenMode, sync: bool) -> Result<()> {
    let how = OpenMode {
        no_link: true,
        ..mode
    };
    let file = File::open(path, how).at("create", path)?;
    let written = file
        .write_all_at(bytes, 0)
        .and_then(|()| file.send(0, bytes.len() as u64))
        .and_then(|()| if sync { file.sync_all() } else { Ok(()) });
    if let Err(e) = written {
        drop(file::unlink(path));
        return Err(Error::new("write", path, e));
    }
    Ok(())
}

/// Writes `path` in place. Readers may find it empty or cut off, so its content must state where it
/// ends. On NFS this takes three requests fewer than [`publish_mode`], which renames.
pub fn write_in_place(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let how = OpenMode {
        exclusive: false,
        ..OpenMode::NEW.mode(mode)
    };
    write_new(path, bytes, how, false)
}

fn rename_aside(temporary: &Path, path: &Path) -> Result<()> {
    file::rename(temporary, path).map_err(|e| {
        drop(file::unlink(temporary));
        Error::new("rename into place", path, e)
    })
}

/// Replaces `path` so that after a crash it has the old or the new content, and after the return
/// the new one: written to a temporary name, synced, renamed, directory synced.
pub fn durable_write(path: &Path, bytes: &[u8]) -> Result<()> {
    durable_write_mode(path, bytes, FILE_MODE)
}

/// `durable_write` with the permission bits of the new file.
pub fn durable_write_mode(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let temporary = write_aside(path, bytes, mode, true)?;
    rename_aside(&temporary, path)?;
    fsync_dir(parent(path))
}

/// Replaces `path` for readers in one step, without a guarantee after a crash of the machine.
pub fn publish(path: &Path, bytes: &[u8]) -> Result<()> {
    publish_mode(path, bytes, FILE_MODE)
}

/// `publish` with the permission bits of the new file.
pub fn publish_mode(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let temporary = write_aside(path, bytes, mode, false)?;
    rename_aside(&temporary, path)
}

/// `publish` with exactly these permission bits, regardless of the umask of this process.
pub fn publish_exact(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let temporary = write_aside(path, bytes, mode, false)?;
    if let Err(e) = chmod(&temporary, mode) {
        drop(file::unlink(&temporary));
        return Err(e);
    }
    rename_aside(&temporary, path)
}

/// Creates `path` with `bytes` unless it exists; `Ok(true)` if this call created it. `bytes` must
/// differ from those of any other claimant (contain a nonce): a LINK whose reply was lost answers
/// "exists" on the retry, so success is determined by the link count, then by the content.
pub fn link_exclusive(path: &Path, bytes: &[u8]) -> Result<bool> {
    let temporary = write_aside(path, bytes, FILE_MODE, true)?;
    let linked = file::link(&temporary, path);
    let count = file::stat(&temporary).map(|stat| stat.nlink);
    let won = match (linked, count) {
        (_, Ok(2)) => Ok(true),
        (Ok(()), _) => Ok(true),
        (Err(e), _) if e.kind() == io::ErrorKind::AlreadyExists => {
            read_small(path, bytes.len() as u64 + 1)
                .map(|found| found == bytes)
                .or(Ok(false))
        }
        (Err(e), _) => Err(Error::new("link into place", path, e)),
    };
    drop(file::unlink(&temporary));
    if let Ok(true) = won {
        fsync_dir(parent(path))?;
    }
    won
}

/// Overwrites an existing file from its start with one write and syncs it; never creates it. If the
/// old content is longer, it is cut off afterwards, so keep such files at a constant size if
/// readers matter.
pub fn overwrite_in_place(path: &Path, bytes: &[u8]) -> Result<()> {
    overwrite(path, bytes, true)
}

/// `overwrite_in_place` without the sync: for heartbeats, where the close is enough to send the
/// bytes to the server.
pub fn overwrite_unsynced(path: &Path, bytes: &[u8]) -> Result<()> {
    overwrite(path, bytes, false)
}

fn overwrite(path: &Path, bytes: &[u8], sync: bool) -> Result<()> {
    let file = open_both(path)?;
    let n = file.write_at(bytes, 0).at("overwrite", path)?;
    if n != bytes.len() {
        let why = format!("only {n} of {} bytes were written", bytes.len());
        return Err(Error::new(
            "overwrite",
            path,
            io::Error::new(io::ErrorKind::WriteZero, why),
        ));
    }
    if file.stat().at("stat", path)?.len > bytes.len() as u64 {
        file.set_len(bytes.len() as u64).at("truncate", path)?;
    }
    if sync {
        file.sync_all().at("sync", path)
    } else {
        Ok(())
    }
}

/// Makes the first `len` bytes of a file durable that another process wrote and perhaps did not
/// sync. `rewrite`: on a network file system a sync covers only this client's own writes, so the
/// same bytes are written again in place.
pub fn make_durable(path: &Path, len: u64, rewrite: bool) -> Result<()> {
    const CHUNK: u64 = 1 << 20;
    let file = open_both(path)?;
    let mut at = 0;
    while rewrite && at < len {
        let mut bytes = vec![0u8; CHUNK.min(len - at) as usize];
        let n = file.read_at(&mut bytes, at).at("read", path)?;
        if n == 0 {
            return Err(Error::invalid(
                "read",
                path,
                format!("it ends at {at} bytes"),
            ));
        }
        file.write_all_at(&bytes[..n], at).at("write again", path)?;
        let end = at + n as u64;
        file.send(at, end).at("write again", path)?;
        at = end;
    }
    file.sync_all().at("sync", path)
}

/// Opens an existing file for reading and writing; never creates it.
pub(super) fn open_both(path: &Path) -> Result<File> {
    File::open(path, OpenMode::READ_WRITE).at("open", path)
}

/// `open_both` for a file of this machine whose descriptor is needed.
pub fn open_rw(path: &Path) -> Result<fs::File> {
    fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .at("open", path)
}

/// Creates an empty file unless it exists.
pub fn ensure_file(path: &Path, mode: u32) -> Result<()> {
    let how = OpenMode {
        read: false,
        ..OpenMode::APPEND.create().mode(mode)
    };
    File::open(path, how).map(drop).at("create", path)
}

/// Creates `path`, which must not exist, with room for `len` bytes. A failure leaves nothing.
pub fn create_with_space(path: &Path, len: u64) -> Result<()> {
    let file = File::open(path, OpenMode::NEW.mode(FILE_MODE)).at("create", path)?;
    file.allocate(len).map_err(|e| {
        drop(file::unlink(path));
        Error::new("take room for", path, e)
    })
}

/// Renames; an existing file with the new name is replaced.
pub fn rename(from: &Path, to: &Path) -> Result<()> {
    file::rename(from, to).at("rename", from)
}

/// Removes a file; one that does not exist is not an error.
pub fn remove(path: &Path) -> Result<()> {
    match file::unlink(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.at("remove", path),
    }
}

/// Moves an entry at `path` that is not a regular file to a hidden name beside it, so that a file
/// can take its place. `Ok(false)`: there was no such entry.
pub fn clear_name(path: &Path) -> Result<bool> {
    match stat(path)? {
        Some(found) if found.kind != Kind::File => {
            let hidden = format!(".foreign.{}", super::clock::nonce(8));
            rename(path, &path.with_file_name(hidden)).map(|()| true)
        }
        _ => Ok(false),
    }
}

/// [`publish`] at a path that belongs to this writer: a directory or a pipe at that path is first
/// moved out of the way.
pub fn publish_over(path: &Path, bytes: &[u8]) -> Result<()> {
    match publish(path, bytes) {
        Err(e) if !e.is_no_space() && clear_name(path)? => {
            tracing::warn!("{e}: the entry at this path was renamed to a hidden name");
            publish(path, bytes)
        }
        other => other,
    }
}

/// Removes an empty directory; one that does not exist is not an error.
pub fn remove_dir(path: &Path) -> Result<()> {
    match file::rmdir(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.at("remove the directory", path),
    }
}

/// Removes a directory and all below it, without following links.
pub fn remove_tree(path: &Path) -> Result<()> {
    match file::remove_tree(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.at("remove the tree", path),
    }
}

/// The directory for temporary files: `$TMPDIR`, else `/tmp`.
pub fn temporary() -> PathBuf {
    std::env::temp_dir()
}

/// Creates `path` and its missing parents with `mode` (before the umask); existing ones stay
/// unchanged.
pub fn mkdir_p(path: &Path, mode: u32) -> Result<()> {
    file::mkdir_p(path, mode).at("make the directory", path)
}

/// Creates one directory; `Ok(false)` if it existed.
pub fn mkdir(path: &Path, mode: u32) -> Result<bool> {
    match file::mkdir(path, mode) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(Error::new("make the directory", path, e)),
    }
}

/// Sets the permission bits, regardless of the umask.
pub fn chmod(path: &Path, mode: u32) -> Result<()> {
    if platform::simulated() {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).at("change the mode of", path)
}

/// Changes the owner of a file or directory; links are followed.
pub fn chown(path: &Path, uid: u32, gid: u32) -> Result<()> {
    std::os::unix::fs::chown(path, Some(uid), Some(gid)).at("change the owner of", path)
}

/// Creates a symbolic link at `path` that points to `target`, and replaces an existing one.
pub fn symlink(target: &Path, path: &Path) -> Result<()> {
    let temporary = aside_name(path);
    std::os::unix::fs::symlink(target, &temporary).at("make the link", &temporary)?;
    rename_aside(&temporary, path)
}

/// Makes the names in `dir` durable.
pub fn fsync_dir(dir: &Path) -> Result<()> {
    file::sync_dir(dir).at("sync the directory", dir)
}

/// The absolute path with links resolved.
pub fn canonical(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).at("resolve", path)
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The name, which a user may have created from any bytes.
    pub name: OsString,
    /// True for a directory.
    pub is_dir: bool,
}

impl Entry {
    /// The name as text; `None` when it is not UTF-8.
    pub fn text(&self) -> Option<&str> {
        self.name.to_str()
    }
}

/// Lists at most `max` names, sorted, each once, without dot files (which include `.nfs*` and
/// temporary files that are being written). NFS may return a name twice or miss one during renames:
/// callers scan again at the next poll.
pub fn list_dir(path: &Path, max: usize) -> Result<Vec<Entry>> {
    list_others(path, max, |_| false)
}

/// [`list_dir`] without names that are `known`: finding out the type of a name may cost a request.
pub fn list_others(path: &Path, max: usize, known: impl Fn(&str) -> bool) -> Result<Vec<Entry>> {
    let mut out = Vec::new();
    let mut count = 0;
    file::list(path, |name, is_dir| {
        if std::os::unix::ffi::OsStrExt::as_bytes(name.as_os_str()).first() != Some(&b'.') {
            count += 1;
            if !name.to_str().is_some_and(&known) {
                let is_dir = is_dir();
                out.push(Entry { name, is_dir });
            }
        }
        count < max
    })
    .at("list", path)?;
    out.sort();
    out.dedup_by(|a, b| a.name == b.name);
    Ok(out)
}

/// Opens and closes a directory. A network file system then asks the server whether it changed, and
/// drops cached negative entries below it; otherwise these may persist for a minute.
pub fn revalidate(dir: &Path) {
    let _ = file::list(dir, |_, _| false);
}

/// Every name in a directory, including hidden ones, at most `max`.
pub fn names(path: &Path, max: usize) -> Result<Vec<OsString>> {
    let mut out = Vec::new();
    file::list(path, |name, _| {
        out.push(name);
        out.len() < max
    })
    .at("list", path)?;
    out.truncate(max);
    Ok(out)
}

/// Removes files left by interrupted writers: dot files ending in `.tmp` older than `older_ms`.
/// Returns their number. The age must exceed any writer's own time limit.
pub fn sweep_asides(dir: &Path, now_ms: i64, older_ms: u64) -> Result<usize> {
    let mut ours = Vec::new();
    file::list(dir, |name, _| {
        if name.to_str().is_some_and(is_aside) {
            ours.push(dir.join(name));
        }
        true
    })
    .at("list", dir)?;
    let mut removed = 0;
    for path in ours {
        let old = |s: Stat| now_ms.saturating_sub(s.mtime_ms) > older_ms as i64;
        if file::stat(&path).is_ok_and(old) && file::unlink(&path).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}

/// `lstat`; `None` if there is nothing. Links are not followed.
pub fn stat(path: &Path) -> Result<Option<Stat>> {
    match file::stat(path) {
        Ok(stat) => Ok(Some(stat)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::new("stat", path, e)),
    }
}

/// Kind, owner and mode of `path`, links not followed; `None` if there is nothing. On a network
/// file system this machine's cache answers: the owner of the entry is correct, its mode may be as
/// old as the cache.
pub fn owner(path: &Path) -> Result<Option<FileOwner>> {
    let found = match platform::here() {
        Some(machine) => machine.stat(path).map(|found| FileOwner {
            kind: found.kind,
            uid: found.uid,
            mode: found.mode,
        }),
        None => file::cached_owner(libc::AT_FDCWD, path),
    };
    match found {
        Ok(owner) => Ok(Some(owner)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::new("stat", path, e)),
    }
}

/// The mark of `path` as the file server has it now, links not followed: one request on a network
/// file system, where `stat` may answer from a cache and opening a file takes two or three. It only
/// tells whether opening is worthwhile: only an open makes data fresh.
pub fn mark(path: &Path) -> Result<FileMark> {
    file::mark(path).at("stat", path)
}

/// `fstat` of an open file; `path` is for the message only.
pub fn stat_file(file: &fs::File, path: &Path) -> Result<Stat> {
    let meta = file.metadata().at("stat", path)?;
    Ok(file::stat_of(&meta))
}

/// Whether there is something at `path` (errors count as nothing).
pub fn exists(path: &Path) -> bool {
    matches!(stat(path), Ok(Some(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::tempdir;

    #[test]
    fn durable_write_replaces_and_leaves_no_aside() {
        let d = tempdir().unwrap();
        let p = d.path().join("f");
        durable_write(&p, b"one").unwrap();
        durable_write(&p, b"two").unwrap();
        assert_eq!(read_small(&p, 10).unwrap(), b"two");
        assert_eq!(fs::read_dir(d.path()).unwrap().count(), 1);
    }

    #[test]
    fn read_small_refuses_a_larger_file_and_names_it() {
        let d = tempdir().unwrap();
        let p = d.path().join("big");
        publish(&p, &[7; 11]).unwrap();
        assert_eq!(read_small(&p, 11).unwrap().len(), 11);
        let e = read_small(&p, 10).unwrap_err();
        assert!(
            e.to_string().contains("big") && e.to_string().contains("10 bytes"),
            "{e}"
        );
    }

    #[test]
    fn link_exclusive_has_one_winner() {
        let d = tempdir().unwrap();
        let p = d.path().join("claim");
        assert!(link_exclusive(&p, b"nonce-a").unwrap());
        assert!(!link_exclusive(&p, b"nonce-b").unwrap());
        assert_eq!(read_small(&p, 100).unwrap(), b"nonce-a");
        assert_eq!(fs::read_dir(d.path()).unwrap().count(), 1);
    }

    #[test]
    fn link_exclusive_counts_an_own_claim_found_as_success() {
        let d = tempdir().unwrap();
        let p = d.path().join("claim");
        publish(&p, b"nonce-a").unwrap();
        assert!(link_exclusive(&p, b"nonce-a").unwrap());
    }

    #[test]
    fn overwrite_in_place_keeps_the_inode_and_never_creates() {
        let d = tempdir().unwrap();
        let p = d.path().join("beat");
        assert!(overwrite_in_place(&p, b"x").unwrap_err().is_not_found());
        publish(&p, b"a long first line").unwrap();
        let before = stat(&p).unwrap().unwrap().ino;
        overwrite_in_place(&p, b"short").unwrap();
        assert_eq!(stat(&p).unwrap().unwrap().ino, before);
        assert_eq!(read_small(&p, 100).unwrap(), b"short");
    }

    #[test]
    fn read_from_returns_the_tail_and_the_length() {
        let d = tempdir().unwrap();
        let p = d.path().join("log");
        publish(&p, b"0123456789").unwrap();
        let c = read_from(&p, 4, 3).unwrap();
        assert_eq!((c.bytes.as_slice(), c.file_len), (b"456".as_slice(), 10));
        assert!(read_from(&p, 50, 3).unwrap().bytes.is_empty());
    }

    #[test]
    fn a_mark_changes_with_the_file_and_with_the_names_in_a_directory() {
        let d = tempdir().unwrap();
        let p = d.path().join("log");
        assert!(mark(&p).unwrap_err().is_not_found());
        publish(&p, b"0123").unwrap();
        let (file, dir) = (mark(&p).unwrap(), mark(d.path()).unwrap());
        assert_eq!((file.len, file), (4, mark(&p).unwrap()));
        super::super::clock::sleep_ms(20);
        publish(&p, b"4567").unwrap();
        assert_ne!(mark(&p).unwrap(), file);
        assert_ne!(mark(d.path()).unwrap(), dir);
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_holds_nobody() {
        let d = tempdir().unwrap();
        let p = d.path().join("pipe");
        nix::unistd::mkfifo(&p, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let e = read_from(&p, 0, 10).unwrap_err();
        assert!(e.to_string().contains("not a regular file"), "{e}");
        assert!(read_small_owned(&p, 10).is_err());
        assert!(read_from(d.path(), 0, 10).is_err());
    }

    #[test]
    fn list_dir_skips_dot_files_and_sorts() {
        let d = tempdir().unwrap();
        for n in ["b", ".nfs0001", "a", ".x.tmp"] {
            publish(&d.path().join(n), b"").unwrap();
        }
        mkdir(&d.path().join("c"), 0o755).unwrap();
        let got: Vec<_> = list_dir(d.path(), 100).unwrap();
        let names: Vec<_> = got.iter().map(|e| e.text().unwrap()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(got[2].is_dir && !got[0].is_dir);
    }

    #[test]
    fn sweep_removes_only_old_asides() {
        let d = tempdir().unwrap();
        publish(&d.path().join(".x.h.1.0.tmp"), b"").unwrap();
        publish(&d.path().join("keep"), b"").unwrap();
        let now = super::super::clock::wall_ms();
        assert_eq!(sweep_asides(d.path(), now, 60_000).unwrap(), 0);
        assert_eq!(sweep_asides(d.path(), now + 120_000, 60_000).unwrap(), 1);
        assert!(exists(&d.path().join("keep")));
    }

    #[test]
    fn mkdir_says_whether_it_made_the_directory() {
        let d = tempdir().unwrap();
        let p = d.path().join("x");
        assert!(mkdir(&p, 0o750).unwrap());
        assert!(!mkdir(&p, 0o750).unwrap());
    }
}
