//! `sbin/install`: what it puts below a prefix works, is upgraded in place, and goes again.

use crate::cluster::text;
use crate::source;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of the built programs.
fn built() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_cb")).parent().unwrap().into()
}

/// Small programs in the place of the built ones, which are half a gigabyte; `cb` is the real one.
fn small(dir: &Path) -> PathBuf {
    let from = dir.join("small");
    std::fs::create_dir_all(&from).unwrap();
    let names = [
        "csub", "cbsim", "cbsched", "cbls", "cbexe", "cbtask", "cbgpu",
    ];
    for name in names {
        std::fs::write(from.join(name), "small").unwrap();
    }
    let cb = format!("#!/bin/sh\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_cb"));
    std::fs::write(from.join("cb"), cb).unwrap();
    std::fs::set_permissions(from.join("cb"), PermissionsExt::from_mode(0o755)).unwrap();
    from
}

fn install(from: &Path, args: &[&str]) -> Output {
    Command::new(source::root().join("sbin/install"))
        .arg("--from")
        .arg(from)
        .args(args)
        .output()
        .unwrap()
}

fn installed(from: &Path, args: &[&str]) -> String {
    let out = install(from, args);
    assert!(out.status.success(), "{args:?}: {}", text(&out));
    String::from_utf8(out.stdout).unwrap()
}

/// All names below a directory that are not directories.
fn names(dir: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => open.push(entry.path()),
                false => drop(found.insert(entry.path())),
            }
        }
    }
    found
}

/// A cluster of the installed programs alone: its daemons are in sbin, its links in bin.
fn runs_a_job(prefix: &Path, dir: &Path) {
    let cadmin = |words: &[&str]| {
        let mut command = Command::new(prefix.join("bin/cadmin"));
        let out = command
            .arg("dev")
            .args(words)
            .arg("--dir")
            .arg(dir)
            .output();
        let out = out.unwrap();
        assert!(out.status.success(), "{words:?}: {}", text(&out));
    };
    cadmin(&["up", "--hosts", "1", "--masters", "1", "--lease", "3"]);
    let exe = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .any(|process| {
            let exe = std::fs::read_link(process.path().join("exe"));
            exe.is_ok_and(|exe| exe == prefix.join("sbin/cbsched"))
        });
    let job = Command::new(prefix.join("bin/bsub"))
        .args(["-K", "exit 7"])
        .env("CB_ENVDIR", dir.join("etc"))
        .current_dir(dir)
        .output()
        .unwrap();
    cadmin(&["down", "--purge"]);
    assert!(exe, "the installed cbsched leads");
    assert_eq!(job.status.code(), Some(7), "{}", text(&job));
}

#[test]
fn what_is_installed_works_and_goes_without_a_trace() {
    let tmp = tempfile::tempdir().unwrap();
    // The path as processes show it.
    let root = tmp.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let root = root.canonicalize().unwrap();
    let small = small(tmp.path());
    let prefix = root.join("opt/corral");
    let own = prefix.join("bin/own");
    std::fs::create_dir_all(prefix.join("bin")).unwrap();
    std::fs::write(&own, "mine").unwrap();
    let to = prefix.to_str().unwrap();

    installed(&built(), &["--prefix", to]);
    let first = names(&prefix);
    for name in corral::commands::names().chain(corral::commands::lsf_names()) {
        let path = prefix.join("bin").join(name);
        match name {
            "csub" => assert!(path.is_file() && !path.is_symlink()),
            "bsub" => assert_eq!(std::fs::read_link(path).unwrap(), Path::new("csub")),
            _ => assert_eq!(std::fs::read_link(path).unwrap(), Path::new("cb")),
        }
    }
    for page in ["man1/bsub.1", "man5/cb.yaml.5", "man8/cadmin.8"] {
        assert!(
            first.contains(&prefix.join("share/man").join(page)),
            "{page}"
        );
    }
    let unit = std::fs::read_to_string(prefix.join("lib/systemd/system/cbexe.service")).unwrap();
    assert!(
        unit.contains(&format!("\nExecStart={to}/sbin/cbexe\n")),
        "{unit}"
    );
    runs_a_job(&prefix, &root.join("d"));

    // Again, without LSF's names and with a file that was edited here.
    let profile = prefix.join("share/corral/profile.corral.sh");
    std::fs::write(&profile, "edited").unwrap();
    let output = installed(&small, &["--prefix", to, "--links", "none"]);
    assert!(output.contains("profile.corral.sh.old"), "{output}");
    assert!(std::fs::read_to_string(&profile).unwrap().contains(to));
    assert_eq!(
        std::fs::read_to_string(profile.with_extension("sh.old")).unwrap(),
        "edited"
    );
    for gone in ["bin/bsub", "share/man/man1/bsub.1"] {
        assert!(!prefix.join(gone).exists(), "{gone}");
    }
    assert!(prefix.join("bin/csub").exists());
    assert_eq!(std::fs::read(prefix.join("sbin/cbls")).unwrap(), b"small");

    std::fs::write(prefix.join("share/corral/cb.yaml.example"), "changed").unwrap();
    let output = installed(&small, &["--prefix", to, "--uninstall"]);
    assert!(output.contains("cb.yaml.example was changed"), "{output}");
    let left = [
        own,
        prefix.join("share/corral/cb.yaml.example"),
        profile.with_extension("sh.old"),
    ];
    assert_eq!(names(&root), BTreeSet::from(left));
    assert!(!prefix.join("sbin").exists() && !prefix.join("share/man").exists());
    assert_eq!(
        install(&small, &["--prefix", to, "--uninstall"])
            .status
            .code(),
        Some(1)
    );
}

#[test]
fn the_exporter_is_installed_where_it_was_built() {
    let tmp = tempfile::tempdir().unwrap();
    let (small, dest) = (small(tmp.path()), tmp.path().join("dest"));
    let args = ["--prefix", "/usr", "--destdir", dest.to_str().unwrap()];
    let files = [
        "usr/sbin/cb-export",
        "usr/lib/systemd/system/cb-export.service",
        "usr/share/corral/elasticsearch/events.json",
        "usr/share/man/man8/cb-export.8",
    ];
    let there = || files.map(|file| dest.join(file).exists());
    installed(&small, &args);
    assert_eq!(there(), [false; 4]);
    let program = small.join("cb-export");
    std::fs::write(&program, "small").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    installed(&small, &args);
    assert_eq!(there(), [true; 4]);
    let unit = std::fs::read_to_string(dest.join(files[1])).unwrap();
    assert!(unit.contains("\nExecStart=/usr/sbin/cb-export\n"), "{unit}");
    std::fs::remove_file(&program).unwrap();
    installed(&small, &args);
    assert_eq!(there(), [false; 4]);
}

#[test]
fn nothing_of_others_is_replaced_and_packages_have_the_prefix_inside() {
    let tmp = tempfile::tempdir().unwrap();
    let small = small(tmp.path());
    let (dest, foreign) = (
        tmp.path().join("dest"),
        tmp.path().join("dest/usr/bin/csub"),
    );
    std::fs::create_dir_all(foreign.parent().unwrap()).unwrap();
    std::fs::write(&foreign, "another program").unwrap();
    let to = dest.to_str().unwrap();
    let args = ["--prefix", "/usr", "--destdir", to];
    let refused = install(&small, &args);
    assert_eq!(refused.status.code(), Some(1));
    let output = text(&refused);
    assert!(
        output.contains("csub is there and belongs to something else"),
        "{output}"
    );
    assert_eq!(names(&dest), BTreeSet::from([foreign.clone()]));

    std::fs::remove_file(&foreign).unwrap();
    installed(&small, &args);
    let unit = dest.join("usr/lib/systemd/system/cbls.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    assert!(unit.contains("\nExecStart=/usr/sbin/cbls\n"), "{unit}");
    installed(
        &small,
        &["--uninstall", "--prefix", "/usr", "--destdir", to],
    );
    assert_eq!(names(&dest), BTreeSet::new());

    for wrong in [
        &["--prefix", "usr"][..],
        &["--prefix", "/"],
        &["--prefix", "/a b"],
        &["--links", "pbs"],
        &["--speed"],
        &["--prefix"],
    ] {
        assert_eq!(install(&small, wrong).status.code(), Some(2), "{wrong:?}");
    }
}
