//! The message that a waiting command leaves for a host in the drop box of its user: two small
//! files that only the user can read. Owns their lifetime: created before the job is submitted,
//! touched while it waits, removed with the value.

use crate::channel::{ConnectFailure, RENDEZVOUS_MAX, Rendezvous};
use crate::client::exit::{Fail, Result};
use crate::language::tell;
use crate::model::Token;
use crate::spool::Layout;
use crate::sys::fs::Kind;
use crate::sys::{self, clock, fs};
use std::cell::Cell;
use std::path::{Path, PathBuf};

/// Interval at which the files are rewritten to show that their command still runs, and the age at
/// which others remove them (ms).
const TOUCH_MS: u64 = 3_600_000;
const OLD_MS: i64 = 3 * 24 * 3_600_000;
/// Maximum number of names that are read in a search for old files.
const NAMES_MAX: usize = 1_000;

/// The two files.
pub(super) struct RendezvousFiles {
    file: PathBuf,
    failure_file: PathBuf,
    content: Vec<u8>,
    touched: Cell<u64>,
    /// The request to a host to start something; that host removes it.
    request: Option<PathBuf>,
}

impl RendezvousFiles {
    /// Creates the files, and the user's directories if missing.
    pub(super) fn create(
        layout: &Layout,
        token: Token,
        rendezvous: &Rendezvous,
    ) -> Result<RendezvousFiles> {
        let uid = sys::users::effective_uid();
        let umask = sys::caller::umask(0o007);
        let made = fs::mkdir(&layout.inbox_of(uid), 0o770);
        sys::caller::umask(umask);
        let own = layout.inbox_of(uid);
        made.map_err(|e| unwritable(&e))?;
        check_owner(&own, uid, 0o007)?;
        let dir = layout.sessions_of(uid);
        fs::mkdir(&dir, 0o700).map_err(|e| unwritable(&e))?;
        check_owner(&dir, uid, 0o077)?;
        let file = layout.session(uid, token);
        let files = RendezvousFiles {
            failure_file: Layout::session_word(&file),
            file,
            content: rendezvous.to_bytes(),
            touched: Cell::new(clock::boot_ms()),
            request: None,
        };
        files.remove_stale(&dir);
        for (path, content) in [
            (&files.failure_file, &b""[..]),
            (&files.file, &files.content),
        ] {
            fs::publish_mode(path, content, 0o600).map_err(|e| unwritable(&e))?;
        }
        Ok(files)
    }

    /// Leaves a request for a host, which reads it with the service account.
    pub(super) fn ask_host(
        &mut self,
        layout: &Layout,
        host: &str,
        token: Token,
        request: &[u8],
    ) -> Result<()> {
        let uid = sys::users::effective_uid();
        let dir = layout.launches_of(uid);
        let umask = sys::caller::umask(0o007);
        let made = fs::mkdir(&dir, 0o770).map_err(|e| unwritable(&e));
        let path = dir.join(Layout::launch_name(host, token));
        let made = made
            .and_then(|_| check_owner(&dir, uid, 0o007))
            .and_then(|()| fs::publish_mode(&path, request, 0o660).map_err(|e| unwritable(&e)));
        sys::caller::umask(umask);
        self.request = Some(path);
        made
    }

    /// The message of a host that could not connect. Also rewrites the files at intervals.
    pub(super) fn connect_failure(&self, now: u64) -> Option<ConnectFailure> {
        if now.saturating_sub(self.touched.get()) >= TOUCH_MS {
            self.touched.set(now);
            let _ = fs::overwrite_unsynced(&self.file, &self.content);
        }
        let bytes = fs::read_small(&self.failure_file, RENDEZVOUS_MAX).ok()?;
        ConnectFailure::from_bytes(&bytes)
    }

    /// Tells that host that the command reads the output file: from then on the key is void.
    pub(super) fn void_key(&self) {
        if let Err(e) = fs::overwrite_unsynced(&self.file, b"") {
            tell!("csub: {e}");
        }
    }

    /// Removes files left by killed commands.
    fn remove_stale(&self, dir: &Path) {
        for entry in fs::list_dir(dir, NAMES_MAX).unwrap_or_default() {
            let path = dir.join(&entry.name);
            let old = |stat: fs::Stat| clock::wall_ms().saturating_sub(stat.mtime_ms) > OLD_MS;
            if fs::stat(&path).ok().flatten().is_some_and(old) {
                let _ = fs::remove(&path);
            }
        }
    }
}

impl Drop for RendezvousFiles {
    fn drop(&mut self) {
        for path in [&self.file, &self.failure_file]
            .into_iter()
            .chain(&self.request)
        {
            let _ = fs::remove(path);
        }
    }
}

fn unwritable(e: &sys::Error) -> Fail {
    Fail::system(format!("{e}: the job was not submitted"))
}

/// Refuses a directory in which others could read or replace the key.
fn check_owner(dir: &Path, uid: u32, closed: u32) -> Result<()> {
    let found = fs::owner(dir).map_err(|e| unwritable(&e))?;
    match found {
        Some(f) if f.kind == Kind::Dir && f.uid == uid && f.mode & closed == 0 => Ok(()),
        _ => Err(Fail::system(format!(
            "{} is not a directory that only you can use: the key of an interactive job is not \
             written there",
            dir.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Key;
    use std::os::unix::fs::PermissionsExt as _;

    fn connect_failure() -> Rendezvous {
        Rendezvous {
            addresses: Vec::new(),
            key: Key::new([9; 32]),
        }
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_key_lies_where_its_user_alone_reads_and_goes_with_the_command() {
        let d = tempfile::tempdir().unwrap();
        let layout = Layout::new(d.path());
        fs::mkdir_p(&layout.inbox(), 0o755).unwrap();
        let uid = sys::users::effective_uid();
        let files = RendezvousFiles::create(&layout, Token(5), &connect_failure()).unwrap();
        let file = layout.session(uid, Token(5));
        assert_eq!((mode(&file), mode(&files.failure_file)), (0o600, 0o600));
        assert_eq!(mode(&layout.sessions_of(uid)), 0o700);
        let read = Rendezvous::from_bytes(&fs::read_small(&file, 9_999).unwrap());
        assert_eq!(read, Ok(connect_failure()));
        assert_eq!(files.connect_failure(0), None);
        let failure = ConnectFailure {
            host: "h1".into(),
            why: "no route".into(),
        };
        fs::overwrite_unsynced(&files.failure_file, &failure.to_bytes()).unwrap();
        assert_eq!(files.connect_failure(0), Some(failure));
        files.void_key();
        assert_eq!(fs::read_small(&file, 9_999).unwrap(), b"");
        drop(files);
        let left = fs::list_dir(&layout.sessions_of(uid), 9).unwrap();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn a_place_that_others_can_read_gets_no_key() {
        let d = tempfile::tempdir().unwrap();
        let layout = Layout::new(d.path());
        let uid = sys::users::effective_uid();
        for (dir, open) in [
            (layout.inbox_of(uid), 0o777),
            (layout.sessions_of(uid), 0o750),
        ] {
            fs::mkdir_p(&dir, 0o700).unwrap();
            fs::chmod(&dir, open).unwrap();
            let refused = RendezvousFiles::create(&layout, Token(5), &connect_failure())
                .err()
                .unwrap();
            assert!(
                refused.text.contains("only you can use"),
                "{}",
                refused.text
            );
            fs::chmod(&dir, 0o700).unwrap();
        }
        assert!(!fs::exists(&layout.session(uid, Token(5))));
    }
}
