//! The beat of this host on the share: its name in `beats/`, renamed each time.
//!
//! A rename is one change at the server, regardless of what happens to the response, so the host
//! always has exactly one name there. This module never creates the directory: a leader that reads
//! beats creates it. If there is none, the heartbeat is in the load document of the host.

use crate::record::beat::Beat;
use crate::spool::Layout;
use crate::sys::{self, fs};
use std::path::PathBuf;

/// Maximum number of names that are looked at.
const NAMES_MAX: usize = 200_000;

/// The name that this host has in `beats/`.
#[derive(Debug)]
pub(super) struct Beats {
    dir: PathBuf,
    host: String,
    /// `None`: not known yet, or to be searched again.
    name: Option<String>,
    /// Another process beats as this host.
    rival: bool,
    /// The name no longer existed.
    name_lost: bool,
}

impl Beats {
    pub(super) fn new(layout: &Layout, host: &str) -> Beats {
        Beats {
            dir: layout.beats(),
            host: host.to_owned(),
            name: None,
            rival: false,
            name_lost: false,
        }
    }

    /// Whether another process took this host's name since the last call.
    pub(super) fn take_rival(&mut self) -> bool {
        std::mem::take(&mut self.rival)
    }

    /// Whether the name was missing since the last call: another process removed it, or an older
    /// copy of the share has taken its place.
    pub(super) fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.name_lost)
    }

    /// Writes a beat. `Ok(false)`: no leader reads beats here, or this host's name is too long for
    /// one.
    ///
    /// # Errors
    /// The share cannot be written.
    pub(super) fn beat(&mut self, beat: &Beat) -> sys::Result<bool> {
        let Some(name) = beat.name() else {
            return Ok(false);
        };
        let to = self.dir.join(&name);
        let known = self.name.take();
        if let Some(old) = &known {
            match fs::rename(&self.dir.join(old), &to) {
                Ok(()) => {
                    self.name = Some(name);
                    return Ok(true);
                }
                // The response to an earlier rename was lost, or the name was removed.
                Err(e) if e.is_not_found() => self.name_lost = true,
                Err(e) => return Err(e),
            }
        }
        let Some(found) = beats_of(&self.dir, &self.host)? else {
            return Ok(false);
        };
        self.rival |= known.is_some()
            && found
                .iter()
                .any(|found| found.incarnation != beat.incarnation);
        let names = found.into_iter().filter_map(|beat| beat.name());
        let mut own: Vec<String> = names.collect();
        match own.iter().position(|own| *own == name) {
            Some(at) => drop(own.swap_remove(at)),
            None => match own.pop() {
                Some(old) => fs::rename(&self.dir.join(old), &to)?,
                None => fs::ensure_file(&to, fs::FILE_MODE)?,
            },
        }
        for left in own {
            fs::remove(&self.dir.join(left))?;
        }
        self.name = Some(name);
        Ok(true)
    }
}

/// The beats of a host in `dir`; `None` if the directory does not exist.
///
/// # Errors
/// The directory cannot be listed.
pub(super) fn beats_of(dir: &std::path::Path, host: &str) -> sys::Result<Option<Vec<Beat>>> {
    match fs::names(dir, NAMES_MAX) {
        Ok(names) => {
            let all = names.iter().filter_map(|name| Beat::parse(name.to_str()?));
            Ok(Some(all.filter(|beat| beat.host == host).collect()))
        }
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::load::LoadDoc;

    fn beat(host: &str, n: u64) -> Beat {
        let doc = LoadDoc {
            host: host.into(),
            boot: "b".into(),
            incarnation: "i".into(),
            beat: n,
            ..LoadDoc::default()
        };
        Beat::of(&doc, (0, 0))
    }

    fn listed(layout: &Layout) -> Vec<String> {
        let all = fs::list_dir(&layout.beats(), 100).unwrap();
        all.iter().map(|e| e.text().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_host_has_one_name_whatever_became_of_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        let name = |n| beat("h1", n).name().unwrap();
        let mut beats = Beats::new(&layout, "h1");
        assert!(!beats.beat(&beat("h1", 1)).unwrap(), "no leader reads them");
        fs::mkdir(&layout.beats(), 0o755).unwrap();
        // Names that earlier processes of this host left, and the name of another host.
        let other = beat("h11", 7).name().unwrap();
        for left in [&name(800), &name(801), &other] {
            fs::publish(&layout.beats().join(left), b"").unwrap();
        }
        assert!(beats.beat(&beat("h1", 1)).unwrap());
        assert_eq!(listed(&layout), [name(1), other.clone()]);
        assert!(beats.beat(&beat("h1", 2)).unwrap());
        assert_eq!(listed(&layout), [name(2), other.clone()]);
        assert!(!beats.take_lost());
        // The rename succeeded but its response was lost; the second rename finds nothing.
        fs::rename(&layout.beats().join(name(2)), &layout.beats().join(name(3))).unwrap();
        assert!(beats.beat(&beat("h1", 3)).unwrap());
        assert_eq!(listed(&layout), [name(3), other.clone()]);
        assert!(beats.take_lost() && !beats.take_lost());
        fs::remove(&layout.beats().join(name(3))).unwrap();
        assert!(beats.beat(&beat("h1", 4)).unwrap());
        assert_eq!(listed(&layout), [name(4), other]);
        fs::remove_tree(&layout.beats()).unwrap();
        assert!(!beats.beat(&beat("h1", 5)).unwrap() && !beats.take_rival());
    }

    #[test]
    fn two_machines_of_one_name_find_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        fs::mkdir(&layout.beats(), 0o755).unwrap();
        let (mut one, mut two) = (Beats::new(&layout, "h1"), Beats::new(&layout, "h1"));
        let theirs = |n| {
            let mut theirs = beat("h1", n);
            theirs.incarnation = "j".into();
            theirs
        };
        for n in 1..4 {
            assert!(one.beat(&beat("h1", n)).unwrap());
            assert!(two.beat(&theirs(n)).unwrap());
        }
        assert!(one.take_rival() && two.take_rival());
        assert!(two.beat(&theirs(4)).unwrap() && !two.take_rival());
        assert_eq!(listed(&layout).len(), 1);
    }
}
