//! Files as a server holds them: inodes, directories, stable and unstable data, locks.
//!
//! One `Disk` is the shared file system, others are the local disks of hosts. Pure: no latency, no
//! caches (these belong to the clients, in `simulated_os`), no randomness. Paths are relative to
//! its root.

use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) type Ino = u64;
pub(super) const ROOT: Ino = 1;

/// An open file of some process, for locks.
pub(super) type HandleId = u64;

/// A file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub data: Arc<Vec<u8>>,
    /// The content as of the last sync.
    pub stable: Arc<Vec<u8>>,
    /// Writes since then: machine, offset, data.
    pub unsynced: Vec<(usize, u64, Arc<Vec<u8>>)>,
    pub names: u64,
    pub mode: u32,
    pub uid: u32,
    pub mtime_ms: i64,
    pub version: u64,
    /// A directory's entries.
    pub entries: Option<BTreeMap<String, Ino>>,
    /// The handle that holds the lock.
    pub lock: Option<HandleId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Disk {
    nodes: BTreeMap<Ino, Node>,
    next: Ino,
}

/// `errno` values.
pub(super) type Errno = i32;

impl Default for Disk {
    fn default() -> Disk {
        let mut disk = Disk {
            nodes: BTreeMap::new(),
            next: ROOT,
        };
        disk.new_node(0o755, 0, 0, true);
        disk
    }
}

impl Disk {
    fn new_node(&mut self, mode: u32, uid: u32, now_ms: i64, dir: bool) -> Ino {
        let ino = self.next;
        self.next += 1;
        let node = Node {
            data: Arc::default(),
            stable: Arc::default(),
            unsynced: Vec::new(),
            names: 1,
            mode,
            uid,
            mtime_ms: now_ms,
            version: 0,
            entries: dir.then(BTreeMap::new),
            lock: None,
        };
        self.nodes.insert(ino, node);
        ino
    }

    /// Every path with its content, `None` for a directory; parents come first.
    pub(super) fn all(&self) -> Vec<(String, Option<&[u8]>)> {
        let mut all = Vec::new();
        let mut left = vec![(String::new(), ROOT)];
        while let Some((path, ino)) = left.pop() {
            let Some(node) = self.nodes.get(&ino) else {
                continue;
            };
            for (name, ino) in node.entries.iter().flatten() {
                left.push((format!("{path}/{name}"), *ino));
            }
            let is_dir = node.entries.is_some();
            all.push((path, (!is_dir).then(|| node.data.as_slice())));
        }
        all
    }

    pub(super) fn node(&self, ino: Ino) -> Result<&Node, Errno> {
        self.nodes.get(&ino).ok_or(libc::ESTALE)
    }

    pub(super) fn node_mut(&mut self, ino: Ino) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&ino).ok_or(libc::ESTALE)
    }

    /// All files with their inodes.
    pub(super) fn nodes_mut(&mut self) -> impl Iterator<Item = (Ino, &mut Node)> {
        self.nodes.iter_mut().map(|(ino, node)| (*ino, node))
    }

    /// The directory that contains `path`, and the last name. The root has an empty name.
    pub(super) fn parent<'p>(&self, path: &'p str) -> Result<(Ino, &'p str), Errno> {
        let mut dir = ROOT;
        let path = path.trim_matches('/');
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        for part in above.split('/').filter(|p| !p.is_empty()) {
            dir = self.child(dir, part)?;
        }
        match self.node(dir)?.entries {
            Some(_) => Ok((dir, name)),
            None => Err(libc::ENOTDIR),
        }
    }

    pub(super) fn child(&self, dir: Ino, name: &str) -> Result<Ino, Errno> {
        let entries = self.node(dir)?.entries.as_ref().ok_or(libc::ENOTDIR)?;
        entries.get(name).copied().ok_or(libc::ENOENT)
    }

    pub(super) fn find(&self, path: &str) -> Result<Ino, Errno> {
        match self.parent(path)? {
            (dir, "") => Ok(dir),
            (dir, name) => self.child(dir, name),
        }
    }

    fn entries(&mut self, dir: Ino, now_ms: i64) -> Result<&mut BTreeMap<String, Ino>, Errno> {
        let node = self.node_mut(dir)?;
        node.version += 1;
        node.mtime_ms = now_ms;
        node.entries.as_mut().ok_or(libc::ENOTDIR)
    }

    /// Creates a file; an existing name is an error.
    pub(super) fn create(
        &mut self,
        dir: Ino,
        name: &str,
        mode: u32,
        uid: u32,
        now_ms: i64,
    ) -> Result<Ino, Errno> {
        self.add(dir, name, (mode, uid, false), now_ms)
    }

    pub(super) fn mkdir(
        &mut self,
        dir: Ino,
        name: &str,
        mode: u32,
        uid: u32,
        now_ms: i64,
    ) -> Result<(), Errno> {
        self.add(dir, name, (mode, uid, true), now_ms).map(drop)
    }

    /// Creates a file or directory under a name that does not exist yet.
    fn add(
        &mut self,
        dir: Ino,
        name: &str,
        (mode, uid, is_dir): (u32, u32, bool),
        now_ms: i64,
    ) -> Result<Ino, Errno> {
        // An empty name is that of the root.
        if name.is_empty() || self.child(dir, name).is_ok() {
            return Err(libc::EEXIST);
        }
        let ino = self.new_node(mode, uid, now_ms, is_dir);
        self.entries(dir, now_ms)?.insert(name.to_owned(), ino);
        Ok(ino)
    }

    /// Removes a name; the node is removed with its last name (an open one stays until `forget`).
    fn drop_name(&mut self, ino: Ino) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.names = node.names.saturating_sub(1);
        }
    }

    pub(super) fn unlink(&mut self, dir: Ino, name: &str, now_ms: i64) -> Result<(), Errno> {
        let ino = self.child(dir, name)?;
        if self.node(ino)?.entries.is_some() {
            return Err(libc::EISDIR);
        }
        self.entries(dir, now_ms)?.remove(name);
        self.drop_name(ino);
        Ok(())
    }

    pub(super) fn rmdir(&mut self, dir: Ino, name: &str, now_ms: i64) -> Result<(), Errno> {
        let ino = self.child(dir, name)?;
        match &self.node(ino)?.entries {
            None => return Err(libc::ENOTDIR),
            Some(entries) if !entries.is_empty() => return Err(libc::ENOTEMPTY),
            Some(_) => {}
        }
        self.entries(dir, now_ms)?.remove(name);
        self.nodes.remove(&ino);
        Ok(())
    }

    pub(super) fn link(
        &mut self,
        from: Ino,
        dir: Ino,
        name: &str,
        now_ms: i64,
    ) -> Result<(), Errno> {
        if self.child(dir, name).is_ok() {
            return Err(libc::EEXIST);
        }
        self.node_mut(from)?.names += 1;
        self.entries(dir, now_ms)?.insert(name.to_owned(), from);
        Ok(())
    }

    pub(super) fn rename(
        &mut self,
        (from_dir, from): (Ino, &str),
        (to_dir, to): (Ino, &str),
        now_ms: i64,
    ) -> Result<(), Errno> {
        let ino = self.child(from_dir, from)?;
        if let Ok(old) = self.child(to_dir, to) {
            if old == ino {
                return Ok(());
            }
            if self.node(old)?.entries.is_some() {
                return Err(libc::EISDIR);
            }
            self.drop_name(old);
        }
        self.entries(from_dir, now_ms)?.remove(from);
        self.entries(to_dir, now_ms)?.insert(to.to_owned(), ino);
        Ok(())
    }

    /// Writes at an offset; a gap reads as zeros. Only stable after `sync`.
    pub(super) fn write(
        &mut self,
        ino: Ino,
        machine: usize,
        offset: u64,
        bytes: &[u8],
        now_ms: i64,
    ) -> Result<(), Errno> {
        let node = self.node_mut(ino)?;
        put(Arc::make_mut(&mut node.data), offset, bytes);
        let copy = Arc::new(bytes.to_vec());
        node.unsynced.push((machine, offset, copy));
        node.version += 1;
        node.mtime_ms = now_ms;
        Ok(())
    }

    pub(super) fn set_len(&mut self, ino: Ino, len: u64, now_ms: i64) -> Result<(), Errno> {
        let node = self.node_mut(ino)?;
        Arc::make_mut(&mut node.data).resize(len as usize, 0);
        node.version += 1;
        node.mtime_ms = now_ms;
        Ok(())
    }

    pub(super) fn sync(&mut self, ino: Ino) -> Result<(), Errno> {
        let node = self.node_mut(ino)?;
        node.stable = node.data.clone();
        node.unsynced.clear();
        Ok(())
    }

    /// Replaces the whole by an earlier copy. `keep`: processes with open files of the earlier
    /// state continue to use them, unseen by others; otherwise these files are gone.
    pub(super) fn put_back(&mut self, copy: Disk, keep: bool) {
        let shift = self.next;
        let version = self.nodes.get(&ROOT).map_or(0, |root| root.version);
        if !keep {
            self.nodes.clear();
        }
        for (ino, mut node) in copy.nodes {
            node.lock = None;
            node.unsynced.clear();
            node.stable = node.data.clone();
            let entries = node.entries.iter_mut().flat_map(BTreeMap::values_mut);
            entries.for_each(|ino| *ino += shift);
            let ino = match ino {
                ROOT => ROOT,
                other => other + shift,
            };
            node.version += version;
            self.nodes.insert(ino, node);
        }
        self.next = shift + copy.next;
    }

    /// Handles the stop of the disk's machine: unsynced data are lost, except the writes that
    /// `kept_writes` selects (in order, by machine; `kept_writes` may also shorten them).
    pub(super) fn lose_unsynced(&mut self, mut kept_writes: impl FnMut(usize, usize) -> usize) {
        for node in self.nodes.values_mut() {
            node.lock = None;
            if node.unsynced.is_empty() {
                continue;
            }
            let mut data = (*node.stable).clone();
            for (machine, offset, bytes) in std::mem::take(&mut node.unsynced) {
                let n = kept_writes(machine, bytes.len()).min(bytes.len());
                put(&mut data, offset, &bytes[..n]);
                if n < bytes.len() {
                    break;
                }
            }
            node.data = Arc::new(data);
            node.stable = node.data.clone();
            node.version += 1;
        }
    }
}

/// Writes into a byte array and extends it if needed.
pub(super) fn put(data: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let end = offset as usize + bytes.len();
    if data.len() < end {
        data.resize(end, 0);
    }
    data[offset as usize..end].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_synced_can_be_lost_and_nothing_else() {
        let mut d = Disk::default();
        d.mkdir(ROOT, "a", 0o755, 0, 0).unwrap();
        let (dir, name) = d.parent("a/f").unwrap();
        let f = d.create(dir, name, 0o644, 7, 0).unwrap();
        d.write(f, 0, 0, b"abc", 1).unwrap();
        d.sync(f).unwrap();
        d.write(f, 0, 3, b"def", 2).unwrap();
        let mut other = d.clone();
        d.lose_unsynced(|_, _| 0);
        assert_eq!(d.node(f).unwrap().data.as_slice(), b"abc");
        other.lose_unsynced(|_, _| 2);
        assert_eq!(other.node(f).unwrap().data.as_slice(), b"abcde");
    }

    #[test]
    fn a_copy_that_takes_its_place_has_other_files_of_the_same_names() {
        for keep in [true, false] {
            let mut d = Disk::default();
            d.mkdir(ROOT, "a", 0o755, 0, 0).unwrap();
            let (dir, name) = d.parent("a/f").unwrap();
            let f = d.create(dir, name, 0o644, 7, 0).unwrap();
            d.write(f, 0, 0, b"old", 1).unwrap();
            let copy = d.clone();
            d.write(f, 0, 0, b"new", 2).unwrap();
            d.put_back(copy, keep);
            let now = d.find("a/f").unwrap();
            assert_ne!(now, f);
            assert_eq!(d.node(now).unwrap().data.as_slice(), b"old");
            assert_eq!(d.node(f).is_ok(), keep);
        }
    }

    #[test]
    fn names_move_and_replace() {
        let mut d = Disk::default();
        let a = d.create(ROOT, "a", 0o644, 0, 0).unwrap();
        let b = d.create(ROOT, "b", 0o644, 0, 0).unwrap();
        d.link(a, ROOT, "c", 0).unwrap();
        assert_eq!(d.node(a).unwrap().names, 2);
        assert_eq!(d.link(a, ROOT, "b", 0), Err(libc::EEXIST));
        d.rename((ROOT, "c"), (ROOT, "b"), 0).unwrap();
        assert_eq!(d.find("b"), Ok(a));
        assert_eq!(d.node(b).unwrap().names, 0);
        assert_eq!(d.unlink(ROOT, "c", 0), Err(libc::ENOENT));
    }
}
