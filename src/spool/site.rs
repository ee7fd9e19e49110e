//! Where the cluster of this command or daemon is: `$CB_ENVDIR/cb.conf` or `/etc/corral/cb.conf`.
//!
//! Reads that one file and the environment; never the share.

use super::Layout;
use crate::sys;
use std::path::{Path, PathBuf};

/// Directory of `cb.conf` if CB_ENVDIR is not set.
const DEFAULT_DIR: &str = "/etc/corral";
/// Directory for local state of root's daemons if CB_LOCAL is not set.
pub const ROOT_LOCAL: &str = "/var/lib/corral";
/// Maximum size of `cb.conf`.
const CONF_MAX: u64 = 64 << 10;

/// Why the cluster was not found: a sentence with a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteError(pub String);

impl std::fmt::Display for SiteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SiteError {}

/// The cluster as this host sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The file that was read.
    pub conf: PathBuf,
    pub share: PathBuf,
    /// This host's name in the cluster.
    pub host: String,
    /// CB_LOCAL: directory of this host's own state, if it is set.
    pub local: Option<PathBuf>,
    /// CB_UNSAFE_MOUNT=yes: a leader may work on a mount that endangers locks or data.
    pub unsafe_mount: bool,
    /// CB_SERVERDIR: directory of this host's sensors, if it is set; otherwise cbls uses that of
    /// its own program.
    pub servers: Option<PathBuf>,
    /// CB_ESUBDIR: directory of the programs that check submissions of this host.
    pub esubs: Option<PathBuf>,
}

impl Site {
    /// The file that states where the cluster is, whether it exists or not.
    pub fn conf_path() -> PathBuf {
        let dir = match std::env::var_os("CB_ENVDIR") {
            Some(dir) if !dir.is_empty() => PathBuf::from(dir),
            _ => PathBuf::from(DEFAULT_DIR),
        };
        dir.join("cb.conf")
    }

    /// Finds the cluster.
    ///
    /// # Errors
    /// The message names the file that is missing or wrong, and how to set it.
    pub fn find() -> Result<Site, SiteError> {
        let conf = Site::conf_path();
        let bytes = sys::fs::read_small(&conf, CONF_MAX).map_err(|e| {
            SiteError(format!(
                "{e}\nhint: CB_ENVDIR must name the directory of the cluster's cb.conf{}",
                if e.is_not_found() {
                    "; in a development cluster: eval \"$(cadmin dev env --dir DIR)\""
                } else {
                    ""
                }
            ))
        })?;
        let text = String::from_utf8(bytes)
            .map_err(|_| SiteError(format!("{} is not UTF-8 text", conf.display())))?;
        let host = std::env::var("CB_HOST").ok().filter(|h| !h.is_empty());
        Site::from_conf(&conf, &text, host)
    }

    /// Reads the text of a `cb.conf`; `host` is the host name that the environment sets.
    ///
    /// # Errors
    /// The message names the line that is wrong, or states that CB_SHARE is missing.
    pub fn from_conf(conf: &Path, text: &str, host: Option<String>) -> Result<Site, SiteError> {
        let (mut share, mut named, mut local, mut servers) = (None, None, None, None);
        let mut esubs = None;
        let mut unsafe_mount = false;
        for (n, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let place = || format!("{}:{}", conf.display(), n + 1);
            let Some((key, value)) = line.split_once('=') else {
                return Err(SiteError(format!("{}: not KEY=VALUE", place())));
            };
            let value = unquote(value.trim());
            match key.trim() {
                "CB_SHARE" => share = Some(absolute(value, &place())?),
                "CB_LOCAL" => local = Some(absolute(value, &place())?),
                "CB_SERVERDIR" => servers = Some(absolute(value, &place())?),
                "CB_ESUBDIR" => esubs = Some(absolute(value, &place())?),
                "CB_HOST" => named = Some(value.to_owned()),
                "CB_UNSAFE_MOUNT" => unsafe_mount = yes_or_no(value, &place())?,
                // Daemons and later versions have their own keys.
                _ => {}
            }
        }
        let share = share.ok_or_else(|| {
            SiteError(format!(
                "{} does not set CB_SHARE=/path/of/the/shared/directory",
                conf.display()
            ))
        })?;
        let host = host.or(named).unwrap_or_else(sys::host::hostname);
        Ok(Site {
            conf: conf.to_path_buf(),
            share,
            host,
            local,
            unsafe_mount,
            servers,
            esubs,
        })
    }

    /// Checks that only root can have written `cb.conf`, because a privileged daemon trusts the
    /// paths in it.
    ///
    /// # Errors
    /// The message names the file or directory that others can write.
    pub fn check_for_daemon(&self) -> Result<(), String> {
        if !sys::users::may_switch() {
            return Ok(());
        }
        let root = sys::trust::Owners { uid: 0, gid: 0 };
        root.safe_to_load(&self.conf, sys::fs::parent(&self.conf))
            .map_err(|e| e.to_string())
    }

    pub fn layout(&self) -> Layout {
        Layout::new(&self.share)
    }

    /// The file in which this host's `cbexe` keeps a copy of `leader/epoch` for commands; see
    /// [`super::leader_copy`].
    pub fn leader_copy(&self) -> PathBuf {
        match &self.local {
            Some(dir) => dir.join("leader"),
            None => Path::new(ROOT_LOCAL).join(format!("{}.leader", self.host)),
        }
    }

    /// The problem of the share if something in it is missing: for messages after a failure.
    pub fn diagnose(&self) -> String {
        let share = self.share.display();
        let conf = self.conf.display();
        match sys::fs::stat(&self.share) {
            Err(e) => format!("{e} (CB_SHARE in {conf})"),
            Ok(None) => format!(
                "the shared directory {share} does not exist on this host: it is probably not \
                 mounted (CB_SHARE in {conf})"
            ),
            Ok(Some(_)) if !sys::fs::exists(&self.layout().cluster()) => format!(
                "no cluster in {share}: the share is probably not mounted on this host \
                 (CB_SHARE in {conf})"
            ),
            Ok(Some(_)) => format!("the cluster in {share} is incomplete (CB_SHARE in {conf})"),
        }
    }
}

fn unquote(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = value
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote))
        {
            return inner;
        }
    }
    value
}

fn absolute(value: &str, place: &str) -> Result<PathBuf, SiteError> {
    let path = PathBuf::from(value);
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(SiteError(format!(
            "{place}: '{value}' is not an absolute path"
        )))
    }
}

fn yes_or_no(value: &str, place: &str) -> Result<bool, SiteError> {
    match value {
        "yes" | "y" | "1" => Ok(true),
        "no" | "n" | "0" => Ok(false),
        _ => Err(SiteError(format!(
            "{place}: '{value}' is neither yes nor no"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, host: Option<&str>) -> Result<Site, SiteError> {
        Site::from_conf(Path::new("/e/cb.conf"), text, host.map(str::to_owned))
    }

    #[test]
    fn the_environment_names_the_host_before_the_file() {
        let text = "# c\n\nCB_SHARE = \"/s p\"\nCB_HOST=h1\nCB_LOCAL=/l\nX=1\n";
        let site = read(text, None).unwrap();
        assert_eq!(site.share, Path::new("/s p"));
        assert_eq!((site.host.as_str(), site.local), ("h1", Some("/l".into())));
        assert_eq!(read(text, Some("h2")).unwrap().host, "h2");
        assert!(!read("CB_SHARE=/s", None).unwrap().host.is_empty());
        assert!(!read(text, None).unwrap().unsafe_mount);
        assert_eq!(read(text, None).unwrap().servers, None);
        let with = read("CB_SHARE=/s\nCB_SERVERDIR=/opt/sbin\n", None).unwrap();
        assert_eq!(with.servers, Some("/opt/sbin".into()));
        let with = read("CB_SHARE=/s\nCB_ESUBDIR=/site/esub\n", None).unwrap();
        assert_eq!(with.esubs, Some("/site/esub".into()));
        let insists = "CB_SHARE=/s\nCB_UNSAFE_MOUNT=yes\n";
        assert!(read(insists, None).unwrap().unsafe_mount);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        assert!(read("", None).unwrap_err().0.contains("CB_SHARE="));
        assert!(
            read("\nfoo", None)
                .unwrap_err()
                .0
                .starts_with("/e/cb.conf:2")
        );
        assert!(
            read("CB_SHARE=rel", None)
                .unwrap_err()
                .0
                .contains("not an absolute")
        );
    }

    #[test]
    fn a_share_that_is_not_there_is_told_from_one_that_is_no_cluster() {
        let d = tempfile::tempdir().unwrap();
        let mut site = read("CB_SHARE=/nonexistent-share", None).unwrap();
        assert!(site.diagnose().contains("does not exist"));
        site.share = d.path().to_path_buf();
        assert!(site.diagnose().contains("no cluster in "));
    }
}
