//! `cadmin lsf-conf`: writes the files that programs for LSF read: `lsf.conf` and
//! `lsbatch/CLUSTER/configdir/lsb.params`.
//!
//! Owns both files and which settings they contain. All settings come from cb.yaml; Corral itself
//! reads neither file, so a change in them has no effect on Corral.

use super::config_file::load;
use crate::client::env::Site;
use crate::client::exit::Result;
use crate::config::Config;
use crate::record::view::Params;
use crate::sys::{detach, fs};
use crate::text::size;
use clap::{Command, CommandFactory as _, Parser};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The values in the files.
pub(super) struct LsfConfValues {
    cluster: String,
    share: PathBuf,
    dir: PathBuf,
    unit: String,
    queues: Vec<String>,
    per_task: bool,
}

impl LsfConfValues {
    /// The values of cb.yaml; the files will be in `dir`.
    pub(super) fn of_config(config: &Config, share: &Path, dir: &Path) -> LsfConfValues {
        LsfConfValues {
            cluster: config.cluster.name.clone(),
            share: share.to_path_buf(),
            dir: dir.to_path_buf(),
            unit: unit(config.cluster.unit_for_limits),
            queues: config.general.default_queue.clone(),
            per_task: config.general.resource_reserve_per_task,
        }
    }

    /// The values that the leader currently uses.
    pub(super) fn of_params(params: &Params, share: &Path, dir: &Path) -> LsfConfValues {
        let value = |name: &str| {
            let found = params.params.iter().find(|(key, _)| key == name);
            found.map_or("", |(_, value)| value.as_str())
        };
        let bytes = value("cluster.unit_for_limits").parse();
        LsfConfValues {
            cluster: params.cluster.clone(),
            share: share.to_path_buf(),
            dir: dir.to_path_buf(),
            unit: unit(bytes.unwrap_or(1 << 20)),
            queues: params.default_queues.clone(),
            per_task: value("general.resource_reserve_per_task") == "yes",
        }
    }

    /// The settings of lsf.conf.
    pub(super) fn conf(&self) -> Vec<(&'static str, String)> {
        let dir = self.dir.display().to_string();
        vec![
            ("LSF_CONFDIR", dir.clone()),
            ("LSF_ENVDIR", dir.clone()),
            ("LSB_CONFDIR", format!("{dir}/lsbatch")),
            ("LSB_SHAREDIR", self.share.display().to_string()),
            ("LSF_UNIT_FOR_LIMITS", self.unit.clone()),
            ("RESOURCE_RESERVE_PER_TASK", self.per_task().to_owned()),
        ]
    }

    fn per_task(&self) -> &'static str {
        if self.per_task { "Y" } else { "N" }
    }

    fn conf_text(&self, programs: Option<&Path>) -> String {
        let mut out = String::from(HEAD);
        for (key, value) in self.conf() {
            let _ = writeln!(out, "{key}={value}");
        }
        if let Some(dir) = programs {
            let _ = writeln!(out, "LSF_BINDIR={}", dir.display());
        }
        out
    }

    fn params_text(&self) -> String {
        let mut out = format!("{HEAD}Begin Parameters\n");
        if !self.queues.is_empty() {
            let _ = writeln!(out, "DEFAULT_QUEUE={}", self.queues.join(" "));
        }
        let _ = writeln!(out, "RESOURCE_RESERVE_PER_TASK={}", self.per_task());
        out.push_str("End Parameters\n");
        out
    }

    fn params_file(&self) -> PathBuf {
        let cluster = self.dir.join("lsbatch").join(&self.cluster);
        cluster.join("configdir").join("lsb.params")
    }

    /// Writes both files; `programs` is the directory of the links to `cb`.
    ///
    /// # Errors
    /// Names the file that could not be written.
    pub(super) fn write(&self, programs: Option<&Path>) -> Result<()> {
        let params = self.params_file();
        fs::mkdir_p(fs::parent(&params), 0o755)?;
        fs::publish(&params, self.params_text().as_bytes())?;
        fs::publish(
            &self.dir.join("lsf.conf"),
            self.conf_text(programs).as_bytes(),
        )?;
        Ok(())
    }
}

const HEAD: &str = "# Made by cadmin lsf-conf from cb.yaml, for programs that read LSF's files.\n\
                    # Change cb.yaml and run it again: Corral does not read this file.\n";

/// Formats a unit: `MB` for 1048576.
fn unit(bytes: u64) -> String {
    let text = size::exact(bytes);
    match text.strip_prefix('1') {
        Some("B") => "B".to_owned(),
        Some(letter) => format!("{letter}B"),
        None => text,
    }
}

/// Writes the files of the cluster with this configuration into `dir`.
///
/// # Errors
/// cb.yaml is invalid, or a file could not be written.
pub(super) fn write(config: &Path, share: &Path, dir: &Path, programs: &Path) -> Result<()> {
    let loaded = load(config)?;
    LsfConfValues::of_config(&loaded.config, share, dir).write(Some(programs))
}

/// Writes lsf.conf and lsb.params from cb.yaml.
#[derive(Parser, Debug)]
#[command(name = "cadmin lsf-conf", disable_version_flag = true)]
struct Args {
    /// Directory for the files; by default that of cb.conf.
    dir: Option<PathBuf>,
}

/// The options of `cadmin lsf-conf`.
pub(super) fn options() -> Command {
    Args::command()
}

/// Runs `cadmin lsf-conf` with its arguments; returns the exit code.
pub(super) fn run(words: &[String]) -> i32 {
    match crate::client::parsed::<Args>("cadmin lsf-conf", words) {
        Ok(args) => crate::client::report(make(args.dir)),
        Err(e) => crate::client::usage(&e),
    }
}

fn make(dir: Option<PathBuf>) -> Result<()> {
    let site = Site::find()?;
    let dir = dir.unwrap_or_else(|| fs::parent(&site.conf).to_path_buf());
    fs::mkdir_p(&dir, 0o755)?;
    let dir = fs::canonical(&dir)?;
    write(
        &site.layout().config(),
        &site.share,
        &dir,
        &detach::own_directory()?,
    )?;
    println!("LSF_ENVDIR={}", dir.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(dir: &Path) -> LsfConfValues {
        LsfConfValues {
            cluster: "c1".into(),
            share: "/s".into(),
            dir: dir.to_path_buf(),
            unit: unit(1 << 20),
            queues: vec!["normal".into()],
            per_task: false,
        }
    }

    #[test]
    fn both_files_are_written() {
        let d = tempfile::tempdir().unwrap();
        facts(d.path()).write(Some(Path::new("/b"))).unwrap();
        let conf = std::fs::read_to_string(d.path().join("lsf.conf")).unwrap();
        assert!(conf.contains("\nLSF_UNIT_FOR_LIMITS=MB\n"), "{conf}");
        assert!(conf.contains("\nLSB_SHAREDIR=/s\n") && conf.ends_with("\nLSF_BINDIR=/b\n"));
        let params = d.path().join("lsbatch/c1/configdir/lsb.params");
        let params = std::fs::read_to_string(params).unwrap();
        assert!(params.contains("\nDEFAULT_QUEUE=normal\n"), "{params}");
    }

    #[test]
    fn no_setting_is_empty() {
        let facts = LsfConfValues::of_params(&Params::default(), Path::new("/s"), Path::new("/e"));
        assert!(facts.conf().iter().all(|(_, value)| !value.is_empty()));
        assert_eq!(unit(1), "B");
        assert_eq!(unit(1 << 30), "GB");
    }
}
