//! `cadmin init DIR`: creates the shared directory of a new cluster.
//!
//! Owns the initial content of the share: directories, the election's files, a first cb.yaml and,
//! as the last step, the file `cluster`, without which no daemon starts. Never touches a directory
//! with content that it did not create itself.

use crate::client::Fail;
use crate::config;
use crate::language::{answer, tell};
use crate::record::FORMAT;
use crate::record::leader::{BeatDoc, CLUSTER_MAX, ClusterDoc, EpochDoc, encode_fixed};
use crate::spool::{Layout, Site};
use crate::sys::{clock, fs, users};
use crate::text::width::escape;
use clap::{Command, CommandFactory as _, Parser};
use std::path::{Path, PathBuf};

/// Maximum number of names read to distinguish an unfinished share from a foreign directory.
const NAMES_MAX: usize = 1000;
const ID_BYTES: usize = 8;

/// Creates the shared directory of a new cluster.
#[derive(Parser, Debug)]
#[command(name = "cadmin init", disable_version_flag = true)]
struct Args {
    /// The directory to create; it must be new or empty.
    dir: PathBuf,
    /// The cluster's name.
    #[arg(long, default_value = "cluster1")]
    name: String,
    /// Use this file as the first cb.yaml.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Write cb.conf, too, so that this host's commands and daemons find the cluster.
    #[arg(long)]
    conf: bool,
}

/// The options of `cadmin init`.
pub(super) fn options() -> Command {
    Args::command()
}

/// Runs `cadmin init` with its arguments; returns the exit code.
pub(crate) fn run(words: &[String]) -> i32 {
    let args = match crate::client::parsed::<Args>("cadmin init", words) {
        Ok(args) => args,
        Err(e) => return crate::client::usage(&e),
    };
    crate::client::report(init(&args))
}

fn init(args: &Args) -> Result<(), Fail> {
    crate::text::names::check_name(&args.name)
        .map_err(|e| Fail::usage(format!("--name {}: {}", args.name, e.message)))?;
    let config = match &args.config {
        Some(path) => checked_config(path)?,
        None => config::minimal(&args.name, &users::current_user().name),
    };
    let layout = Layout::new(&args.dir);
    let conf = args.conf.then(Site::conf_path);
    if let Some(conf) = &conf {
        refuse_other(conf)?;
    }
    let doc = make(&layout, &args.name, &config)?;
    answer!(
        "Cluster {} ({}) created in {}.",
        doc.name,
        doc.cluster,
        args.dir.display()
    );
    if let Some(conf) = &conf {
        fs::mkdir_p(fs::parent(conf), 0o755)?;
        let share = fs::canonical(&args.dir)?;
        let text = format!("CB_SHARE={}\n", share.display());
        fs::durable_write(conf, text.as_bytes())?;
        answer!("{} names it.", conf.display());
    }
    answer!(
        "Edit {}, then start the daemons.",
        layout.config().display()
    );
    Ok(())
}

/// Refuses an existing `cb.conf`, because it may belong to another cluster.
fn refuse_other(conf: &Path) -> Result<(), Fail> {
    match fs::exists(conf) {
        false => Ok(()),
        true => Err(Fail::refused(format!(
            "{}: exists already; nothing was changed\nhint: without --conf the cluster is created \
             and that file is not touched",
            conf.display()
        ))),
    }
}

/// The text of a configuration file without problems.
fn checked_config(path: &Path) -> Result<String, Fail> {
    let bytes = fs::read_small(path, config::MAX_BYTES as u64)?;
    let name = path.display().to_string();
    let os = config::OsNames {
        user: &|name| users::by_name(name).is_some(),
        group: &|name| users::group_by_name(name).is_some(),
    };
    match config::load(&bytes, &name, &os) {
        Ok(loaded) => {
            loaded.warnings.iter().for_each(|w| tell!("{w}"));
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
        Err(problems) => {
            let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Err(Fail::refused(all.join("\n")))
        }
    }
}

/// Creates the share of a new cluster. The file `cluster` is written last, so that an incomplete
/// share is never taken for a complete one and can be created again.
///
/// # Errors
/// The directory is a cluster already, contains anything else, or cannot be written.
pub(crate) fn make(layout: &Layout, name: &str, config: &str) -> Result<ClusterDoc, Fail> {
    refuse_foreign(layout)?;
    crate::sys::caller::umask(0o022);
    fs::mkdir_p(layout.root(), 0o755)?;
    for (dir, mode) in layout.directories() {
        fs::mkdir(&dir, mode)?;
        // The umask removed bits from the mode of mkdir.
        fs::chmod(&dir, mode)?;
    }
    fs::ensure_file(&layout.lock(), 0o644)?;
    let fixed = |e| Fail::system(format!("cannot create the leader's files: {e}"));
    fs::durable_write(
        &layout.epoch(),
        &encode_fixed(&EpochDoc::default()).map_err(fixed)?,
    )?;
    fs::durable_write(
        &layout.beat(),
        &encode_fixed(&BeatDoc::default()).map_err(fixed)?,
    )?;
    fs::durable_write(&layout.config(), config.as_bytes())?;
    for dir in [layout.leader_dir(), layout.conf_dir()] {
        fs::fsync_dir(&dir)?;
    }
    let me = users::current_user();
    let doc = ClusterDoc {
        cluster: clock::nonce(ID_BYTES),
        name: name.to_string(),
        format: FORMAT,
        service_uid: me.uid,
        service_gid: me.gid,
    };
    let text = doc.encode().map_err(|e| Fail::system(e.to_string()))?;
    fs::durable_write(&layout.cluster(), &text)?;
    fs::fsync_dir(layout.root())?;
    Ok(doc)
}

/// Refuses a directory with a cluster or with names that `make` does not create.
fn refuse_foreign(layout: &Layout) -> Result<(), Fail> {
    let root = layout.root();
    let names = match fs::names(root, NAMES_MAX) {
        Ok(names) => names,
        Err(e) if e.is_not_found() => return Ok(()),
        Err(e) => return Err(e.into()),
    };
    if fs::exists(&layout.cluster()) {
        let doc = fs::read_small(&layout.cluster(), CLUSTER_MAX).ok();
        let doc = doc.and_then(|bytes| ClusterDoc::decode(&bytes).ok());
        let name = doc.map_or(String::new(), |doc| format!(" {}", escape(&doc.name)));
        return Err(Fail::refused(format!(
            "{}: already holds cluster{name}; nothing was changed\n\
             hint: to use it, set CB_SHARE={0} in cb.conf",
            root.display()
        )));
    }
    let own: Vec<PathBuf> = layout
        .directories()
        .into_iter()
        .map(|(dir, _)| dir)
        .collect();
    for name in names {
        let path = root.join(&name);
        // A new file system contains one of these names, and an incomplete share the others.
        let leftover = own.contains(&path) || fs::is_aside(&name.to_string_lossy());
        if !leftover {
            return Err(Fail::refused(format!(
                "{}: not empty, contains {}\nhint: give a new or empty directory",
                root.display(),
                name.to_string_lossy()
            )));
        }
    }
    if !fs::list_dir(&layout.epochs(), 1)
        .unwrap_or_default()
        .is_empty()
    {
        return Err(Fail::refused(format!(
            "{}: contains journals but no cluster file: this is a damaged cluster, not a new one\n\
             hint: keep it as it is; 'cadmin fsck {0}' lists what is missing and damaged",
            root.display()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_made_once_and_never_over_something_else() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("share");
        let layout = Layout::new(&root);
        let doc = make(&layout, "c1", "x: 1\n").unwrap();
        assert_eq!(doc.cluster.len(), ID_BYTES * 2);
        let again = make(&layout, "c1", "x: 1\n").unwrap_err();
        assert!(
            again.text.contains("already holds cluster c1; nothing"),
            "{}",
            again.text
        );

        let foreign = dir.path().join("home");
        std::fs::create_dir(&foreign).unwrap();
        std::fs::write(foreign.join("letter"), "x").unwrap();
        let refused = make(&Layout::new(&foreign), "c1", "").unwrap_err();
        assert!(refused.text.contains("contains letter"), "{}", refused.text);
        assert_eq!(std::fs::read_dir(&foreign).unwrap().count(), 1);
    }

    #[test]
    fn a_half_made_share_is_completed_but_journals_without_a_cluster_file_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().join("s"));
        make(&layout, "c1", "").unwrap();
        std::fs::remove_file(layout.cluster()).unwrap();
        make(&layout, "c1", "").unwrap();
        std::fs::remove_file(layout.cluster()).unwrap();
        std::fs::create_dir(layout.epoch_dir(1)).unwrap();
        let refused = make(&layout, "c1", "").unwrap_err();
        assert!(refused.text.contains("damaged cluster"), "{}", refused.text);
    }

    #[test]
    fn a_cb_conf_that_is_there_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("cb.conf");
        refuse_other(&conf).unwrap();
        std::fs::write(&conf, "CB_SHARE=/elsewhere\n").unwrap();
        let refused = refuse_other(&conf).unwrap_err();
        assert!(refused.text.contains("exists already"), "{}", refused.text);
    }
}
