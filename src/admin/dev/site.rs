//! The directory D of a development cluster: its layout, its settings, and the text of the files
//! created for it.

use crate::admin::{init, lsf_conf};
use crate::client::Fail;
use crate::config::{self, Starter};
use crate::language::tell;
use crate::spool::Layout;
use crate::sys::{clock, detach, fs, lock::Lock, users};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const SETTINGS_MAX: u64 = 64 << 10;
/// Number of directories above the programs that are searched for manual pages, and maximum number
/// of pages.
const MAN_ABOVE: usize = 4;
const PAGES_MAX: usize = 1000;
/// How long a command waits for another one that uses the same D, ms.
const LOCK_WAIT_MS: u64 = 120_000;

/// The settings with which a cluster was created.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub hosts: u32,
    pub slots: u32,
    pub masters: u32,
    pub lease_ms: u64,
    /// False: no control groups.
    pub cgroup: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            hosts: 4,
            slots: 4,
            masters: 2,
            lease_ms: 15_000,
            cgroup: true,
        }
    }
}

impl Settings {
    /// The settings as options of `cadmin dev up`.
    pub(crate) fn as_options(&self) -> String {
        let cgroup = if self.cgroup { "auto" } else { "off" };
        format!(
            "--hosts {} --slots {} --masters {} --lease {}s --cgroup {cgroup}",
            self.hosts,
            self.slots,
            self.masters,
            self.lease_ms as f64 / 1000.0
        )
    }

    /// The daemons of a cluster with these settings.
    pub(crate) fn daemons(&self) -> Vec<Daemon> {
        let mut all = Vec::new();
        for n in 0..self.masters {
            let host = host_name(n % self.hosts);
            let nth = n / self.hosts;
            // More candidates than hosts: several on one host, distinguished by a number.
            let name = match nth {
                0 => format!("cbsched.{host}"),
                _ => format!("cbsched.{host}.{}", nth + 1),
            };
            all.push(Daemon {
                role: "cbsched",
                host,
                name,
            });
        }
        for n in 0..self.hosts {
            for role in ["cbls", "cbexe"] {
                let host = host_name(n);
                let name = format!("{role}.{host}");
                all.push(Daemon { role, host, name });
            }
        }
        all
    }

    /// Names of the virtual hosts.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = String> {
        (0..self.hosts).map(host_name)
    }

    fn config(&self, admin: &str) -> String {
        let hosts: Vec<String> = self.hosts().collect();
        let masters = &hosts[..self.masters.min(self.hosts) as usize];
        let cgroup = if self.cgroup { "auto" } else { "off" };
        config::starter(&Starter {
            cluster: "dev",
            administrator: admin,
            hosts: &hosts,
            slots: Some(self.slots),
            masters,
            settings: &[
                format!("lease_timeout: {}ms", self.lease_ms),
                "allow_root_jobs: yes".to_string(),
                format!("cgroup: {cgroup}"),
            ],
        })
    }
}

fn host_name(n: u32) -> String {
    format!("h{}", n + 1)
}

/// One daemon of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Daemon {
    /// The program.
    pub role: &'static str,
    pub host: String,
    /// Unique within the cluster; used in the names of its log and its record.
    pub name: String,
}

/// An existing development cluster.
#[derive(Debug)]
pub(crate) struct Site {
    /// An absolute path without links: processes are attributed to the cluster by comparison with
    /// it.
    pub dir: PathBuf,
    pub settings: Settings,
}

impl Site {
    /// Opens the cluster in `dir`.
    ///
    /// # Errors
    /// There is no cluster in `dir`.
    pub(crate) fn open(dir: &Path) -> Result<Site, Fail> {
        match read_settings(dir)? {
            Some(settings) => Ok(Site {
                dir: fs::canonical(dir)?,
                settings,
            }),
            None => Err(Fail::not_found(format!(
                "{}: no development cluster there\nhint: `cadmin dev up --dir {0}` creates one",
                dir.display()
            ))),
        }
    }

    /// Opens the cluster in `dir`; creates it first if there is none. `settings` returns its
    /// settings, given those of an existing cluster.
    ///
    /// # Errors
    /// `dir` contains something else, or the settings are refused.
    pub(crate) fn make(
        dir: &Path,
        settings: impl Fn(Option<&Settings>) -> Result<Settings, Fail>,
    ) -> Result<Site, Fail> {
        let old = read_settings(dir)?;
        let settings = settings(old.as_ref())?;
        if old.is_none() {
            refuse_foreign(dir)?;
            fs::mkdir_p(dir, 0o755)?;
        }
        let site = Site {
            dir: fs::canonical(dir)?,
            settings,
        };
        if old.is_none() {
            fs::mkdir_p(&site.etc(), 0o755)?;
            let text = serde_json::to_string_pretty(&site.settings)
                .map_err(|e| Fail::system(e.to_string()))?;
            fs::durable_write(&settings_file(&site.dir), text.as_bytes())?;
        }
        site.complete()?;
        Ok(site)
    }

    /// Creates what is missing in the directory, including what an interrupted earlier run left
    /// out.
    fn complete(&self) -> Result<(), Fail> {
        for dir in [
            self.logs(),
            self.bin(),
            self.records(),
            self.servers(),
            self.libs(),
        ] {
            fs::mkdir_p(&dir, 0o755)?;
        }
        fs::ensure_file(&self.lock_file(), 0o644)?;
        let layout = self.layout();
        if !fs::exists(&layout.cluster()) {
            init::make(
                &layout,
                "dev",
                &self.settings.config(&users::current_user().name),
            )?;
        }
        super::templates::copy(&layout)?;
        self.write_conf(&self.etc(), None)?;
        for n in 0..self.settings.hosts {
            let host = host_name(n);
            fs::mkdir_p(&self.host_etc(&host), 0o755)?;
            fs::mkdir_p(&self.local(&host), 0o755)?;
            self.write_conf(&self.host_etc(&host), Some(&host))?;
        }
        if let Err(e) = self.write_lsf_conf() {
            // The leader continues with the last valid configuration, and so do these files.
            tell!("warning: lsf.conf is not written: {}", e.text);
        }
        self.link_commands()?;
        self.link_completions()?;
        self.link_man_pages()
    }

    /// Creates a link to the completion files of a checkout.
    fn link_completions(&self) -> Result<(), Fail> {
        let programs = detach::own_directory()?;
        let above = programs.ancestors().take(MAN_ABOVE);
        let mut found = above.map(|dir| dir.join("etc/completions"));
        if let Some(dir) = found.find(|dir| fs::exists(&dir.join("bash/corral"))) {
            fs::symlink(&dir, &self.completions())?;
        }
        Ok(())
    }

    /// Creates links to the manual pages of a checkout or an installation where `man` finds them.
    fn link_man_pages(&self) -> Result<(), Fail> {
        let programs = detach::own_directory()?;
        for dir in programs
            .ancestors()
            .take(MAN_ABOVE)
            .map(|dir| dir.join("man"))
        {
            let pages = fs::names(&dir, PAGES_MAX).unwrap_or_default();
            let mut found = false;
            for page in pages.iter().filter_map(|name| name.to_str()) {
                let section = page.rsplit_once('.').map(|(_, section)| section);
                let Some(section @ ("1" | "5" | "7" | "8")) = section else {
                    continue;
                };
                let place = self.man().join(format!("man{section}"));
                fs::mkdir_p(&place, 0o755)?;
                fs::symlink(&dir.join(page), &place.join(page))?;
                found = true;
            }
            if found {
                break;
            }
        }
        Ok(())
    }

    fn write_conf(&self, etc: &Path, host: Option<&str>) -> Result<(), Fail> {
        let mut text = format!("CB_SHARE={}\n", self.layout().root().display());
        if let Some(host) = host {
            let _ = writeln!(
                text,
                "CB_HOST={host}\nCB_LOCAL={}\nCB_SERVERDIR={}",
                self.local(host).display(),
                self.servers().display()
            );
        }
        fs::publish(&etc.join("cb.conf"), text.as_bytes())?;
        Ok(())
    }

    /// Writes the files that programs for LSF read, here and in the jobs of each host.
    fn write_lsf_conf(&self) -> Result<(), Fail> {
        let layout = self.layout();
        let hosts = self.settings.hosts().map(|host| self.host_etc(&host));
        for etc in std::iter::once(self.etc()).chain(hosts) {
            lsf_conf::write(&layout.config(), layout.root(), &etc, &self.bin())?;
        }
        Ok(())
    }

    /// Creates links for every command to the executables beside the running one.
    fn link_commands(&self) -> Result<(), Fail> {
        let programs = detach::own_directory()?;
        let sim = programs.join("cbsim");
        if fs::exists(&sim) {
            fs::symlink(&sim, &self.bin().join("cbsim"))?;
        }
        let (cb, csub) = (programs.join("cb"), programs.join("csub"));
        let has_csub = fs::exists(&csub);
        let names = crate::admin::command_names()
            .chain(crate::admin::lsf_names())
            .chain(crate::admin::slurm_names());
        for name in std::iter::once("cb").chain(names) {
            let submits = has_csub && crate::client::SUBMISSION_NAMES.contains(&name);
            let program = if submits { &csub } else { &cb };
            fs::symlink(program, &self.bin().join(name))?;
        }
        Ok(())
    }

    /// Takes the lock that prevents two commands from working on D at the same time.
    pub(crate) fn lock(&self) -> Result<Lock, Fail> {
        let end = clock::boot_ms() + LOCK_WAIT_MS;
        loop {
            if let Some(lock) = Lock::try_take(&self.lock_file())? {
                return Ok(lock);
            }
            if clock::boot_ms() > end {
                return Err(Fail::system(format!(
                    "{}: another cadmin dev is still at work after {} s",
                    self.dir.display(),
                    LOCK_WAIT_MS / 1000
                )));
            }
            clock::sleep_ms(50);
        }
    }

    /// Commands for a POSIX shell that point it at this cluster.
    pub(crate) fn shell_lines(&self) -> String {
        let (etc, bin) = (quote(&self.etc()), quote(&self.bin()));
        let mut lines = format!(
            "unset CB_HOST CB_LOCAL CB_SHARE CB_JOBID CB_JOBINDEX\n\
             export CB_ENVDIR={etc}\nexport PATH={bin}:\"$PATH\"\n\
             export LSF_ENVDIR={etc} LSF_BINDIR={bin} LSF_SERVERDIR={} LSF_LIBDIR={}\n",
            quote(&self.servers()),
            quote(&self.libs())
        );
        if fs::exists(&self.man()) {
            // An empty last part represents the pages of the system.
            let man = quote(&self.man());
            let _ = writeln!(lines, "export MANPATH={man}:\"${{MANPATH-}}\"");
        }
        let completion = self.completions().join("bash/corral");
        if fs::exists(&completion) {
            let file = quote(&completion);
            let _ = writeln!(lines, "[ -z \"${{BASH_VERSION-}}\" ] || . {file}");
        }
        lines
    }

    /// Directory of the completion files of shells.
    fn completions(&self) -> PathBuf {
        self.dir.join("completions")
    }

    /// Directory of the manual pages, by section.
    fn man(&self) -> PathBuf {
        self.dir.join("man")
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout::new(self.dir.join("share"))
    }

    pub(crate) fn etc(&self) -> PathBuf {
        self.dir.join("etc")
    }

    pub(crate) fn host_etc(&self, host: &str) -> PathBuf {
        self.etc().join("hosts").join(host)
    }

    pub(crate) fn local(&self, host: &str) -> PathBuf {
        self.dir.join("local").join(host)
    }

    pub(crate) fn bin(&self) -> PathBuf {
        self.dir.join("bin")
    }

    /// Directory of the sensors of all its hosts.
    pub(crate) fn servers(&self) -> PathBuf {
        self.dir.join("sbin")
    }

    /// The library directory that is given to programs for LSF; it contains no library.
    fn libs(&self) -> PathBuf {
        self.dir.join("lib")
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.dir.join("log")
    }

    pub(crate) fn log(&self, daemon: &Daemon) -> PathBuf {
        self.logs().join(format!("{}.log", daemon.name))
    }

    pub(crate) fn records(&self) -> PathBuf {
        self.dir.join("run")
    }

    fn lock_file(&self) -> PathBuf {
        self.records().join("lock")
    }
}

/// The directory of the development cluster whose share is `share`; `None` for a real one.
pub(crate) fn development(share: &Path) -> Option<PathBuf> {
    let dir = fs::parent(share);
    (share.ends_with("share") && fs::exists(&settings_file(dir))).then(|| dir.to_path_buf())
}

fn settings_file(dir: &Path) -> PathBuf {
    dir.join("etc").join("dev.json")
}

fn read_settings(dir: &Path) -> Result<Option<Settings>, Fail> {
    let path = settings_file(dir);
    let Some(bytes) = fs::read_optional(&path, SETTINGS_MAX)? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|e| {
        Fail::system(format!(
            "{}: not the settings of a cluster: {e}",
            path.display()
        ))
    })
}

/// Refuses a directory that is not empty, because `down --purge` will remove it completely.
fn refuse_foreign(dir: &Path) -> Result<(), Fail> {
    match fs::names(dir, 2) {
        Err(e) if e.is_not_found() => Ok(()),
        Err(e) => Err(e.into()),
        // A run that was interrupted before it wrote the settings leaves only this.
        Ok(names) if names.iter().all(|name| name == "etc") => Ok(()),
        Ok(_) => Err(Fail::refused(format!(
            "{}: not empty and not a development cluster\nhint: give a new or empty directory",
            dir.display()
        ))),
    }
}

/// A path as one word of a POSIX shell.
fn quote(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_beyond_the_hosts_share_one() {
        let s = Settings {
            hosts: 1,
            masters: 2,
            ..Settings::default()
        };
        let names: Vec<String> = s.daemons().into_iter().map(|d| d.name).collect();
        assert_eq!(names, ["cbsched.h1", "cbsched.h1.2", "cbls.h1", "cbexe.h1"]);
    }

    #[test]
    fn the_configuration_says_what_the_options_said() {
        let s = Settings {
            hosts: 3,
            slots: 7,
            masters: 2,
            lease_ms: 3500,
            cgroup: false,
        };
        let text = s.config("root");
        let os = crate::config::OsNames::ANY;
        let loaded = crate::config::load(text.as_bytes(), "cb.yaml", &os).unwrap();
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        let config = loaded.config;
        assert_eq!(config.host_names().collect::<Vec<_>>(), ["h1", "h2", "h3"]);
        assert!(config.may_lead("h2") && !config.may_lead("h3"));
        assert_eq!(config.cluster.lease_timeout_ms, 3500);
        assert_eq!(config.cluster.cgroup, crate::config::CgroupMode::Off);
        assert_eq!(
            config.host("h1").unwrap().slots,
            crate::config::SlotSpec::Count(7)
        );
    }

    #[test]
    fn a_cluster_is_made_once_and_completed_later() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path().join("d");
        let made = Site::make(&dir, |old| {
            assert!(old.is_none());
            Ok(Settings {
                hosts: 2,
                ..Settings::default()
            })
        });
        let site = made.unwrap();
        std::fs::remove_dir_all(site.host_etc("h2")).unwrap();
        Site::make(&dir, |old| Ok(old.unwrap().clone())).unwrap();
        let conf = std::fs::read_to_string(site.host_etc("h2").join("cb.conf")).unwrap();
        assert!(conf.contains("CB_HOST=h2\n"), "{conf}");
        assert_eq!(Site::open(&dir).unwrap().settings.hosts, 2);
    }

    #[test]
    fn a_foreign_directory_is_refused_and_left_alone() {
        let tmp = tempfile::tempdir().unwrap();
        std::fs::write(tmp.path().join(".profile"), "x").unwrap();
        let made = Site::make(tmp.path(), |_| Ok(Settings::default()));
        assert_eq!(made.unwrap_err().exit.code(), 4);
        assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 1);
    }

    #[test]
    fn shell_words_survive_quotes() {
        assert_eq!(quote(Path::new("/a'b c")), "'/a'\\''b c'");
    }
}
