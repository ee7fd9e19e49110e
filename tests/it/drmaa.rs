//! libdrmaa: built as its own package, called by a C program (`tests/drmaa`) against a real
//! cluster.

use crate::cluster::{Cluster, build, signal, text};
use crate::source;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The profile's directory, in which the programs are.
fn built() -> PathBuf {
    let cb = Path::new(env!("CARGO_BIN_EXE_cb"));
    cb.parent()
        .expect("a program is in a directory")
        .to_path_buf()
}

/// Compiles a program of `tests/drmaa`; `None` without a C compiler.
fn compiled(dir: &Path, name: &str) -> Option<PathBuf> {
    let found = |cc: &&str| Command::new(cc).arg("--version").output().is_ok();
    let cc = ["cc", "gcc", "clang"].into_iter().find(found)?;
    build("--lib");
    let root = source::root();
    let program = dir.join(name);
    let done = Command::new(cc)
        .args(["-Wall", "-Wextra", "-Werror", "-pthread", "-I"])
        .arg(root.join("src/drmaa/include"))
        .arg(root.join(format!("tests/drmaa/{name}.c")))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(built())
        .arg("-ldrmaa")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{cc}: {stderr}");
    Some(program)
}

/// Runs such a program in the cluster's environment; gives all that it said.
fn run(cluster: &Cluster, program: &Path, what: &str) -> String {
    let done = Command::new(program)
        .arg(cluster.work())
        .arg(what)
        .env("CB_ENVDIR", cluster.dir().join("etc"))
        .env("CB_ASK_TIMEOUT", if what == "silent" { "1" } else { "180" })
        .env("LD_LIBRARY_PATH", built())
        .current_dir(cluster.work())
        .output();
    text(&done.unwrap())
}

#[test]
fn a_c_program_finds_every_call_as_the_standard_says() {
    let cluster = Cluster::up("--hosts 2 --slots 8");
    let work = cluster.work();
    let Some(program) = compiled(&work, "calls") else {
        println!("skipped: no C compiler");
        return;
    };
    let foreign = cluster.csub(&["true"]);
    cluster.ok("cwait", &["--timeout", "180s", &foreign.to_string()]);
    let output = run(&cluster, &program, &foreign.to_string());
    assert!(
        output.contains("all as expected"),
        "{output}\n{}",
        cluster.logs()
    );
    // What it asked for is there as `csub` would have asked for it.
    let page = cluster.ok("cjobs", &["-a", "-UF", "-J", "one_job"]);
    for part in ["No Job Report", "a c call", "Exited with exit code 7"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let left = cluster.states();
    let left: Vec<_> = left
        .values()
        .filter(|s| *s != "DONE" && *s != "EXIT")
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A leader that does not answer gets no job later: a program that sees the failure tries again.
#[test]
fn a_submission_without_an_answer_is_withdrawn() {
    let cluster = Cluster::up("--hosts 1 --masters 1 --lease 60");
    let Some(program) = compiled(&cluster.work(), "calls") else {
        println!("skipped: no C compiler");
        return;
    };
    let first = cluster.csub(&["true"]);
    let leader = cluster.leader();
    signal(leader.pid, "-STOP");
    let output = run(&cluster, &program, "silent");
    signal(leader.pid, "-CONT");
    assert!(
        output.contains("all as expected"),
        "{output}\n{}",
        cluster.logs()
    );
    assert_eq!(cluster.csub(&["true"]), first + 1);
    assert_eq!(cluster.states().len(), 2);
}

/// A limit of pending jobs is not a denial: a program may submit the same job again.
#[test]
fn too_many_pending_jobs_are_a_reason_to_try_later() {
    let cluster = Cluster::up("--hosts 1 --masters 1");
    let Some(program) = compiled(&cluster.work(), "calls") else {
        println!("skipped: no C compiler");
        return;
    };
    let path = cluster.share().join("conf/cb.yaml");
    let general = std::fs::read_to_string(&path).unwrap() + "\ngeneral:\n  max_pend_jobs: 1\n";
    std::fs::write(&path, general).unwrap();
    cluster.ok("cadmin", &["reconfig"]);
    cluster.csub(&["-H", "true"]);
    let output = run(&cluster, &program, "full");
    assert!(
        output.contains("all as expected"),
        "{output}\n{}",
        cluster.logs()
    );
    assert_eq!(cluster.states().len(), 1);
}

/// The header names what the library has, and the manual names every attribute.
#[test]
fn header_and_manual_name_what_there_is() {
    let header = source::read("src/drmaa/include/drmaa.h");
    let manual = source::read("man/drmaa.7");
    let mut seen = 0;
    for file in source::files("src/drmaa", &["rs"]) {
        let text = source::read(&file);
        for part in text.split("extern \"C\" fn drmaa_").skip(1) {
            let name = part.split('(').next().expect("a part");
            seen += 1;
            assert!(header.contains(&format!("drmaa_{name}(")), "drmaa_{name}");
        }
    }
    assert_eq!(seen, 36, "exported functions");
    let template = source::read("src/drmaa/template.rs");
    for line in template.lines() {
        let Some((_, value)) = line.split_once(": &str = \"drmaa_") else {
            continue;
        };
        let name = format!("drmaa_{}", value.trim_end_matches("\";"));
        let (short, quoted) = (name.replace('_', "\\_"), format!("\"{name}\""));
        assert!(header.contains(&quoted), "drmaa.h: {name}");
        assert!(
            manual.contains(&name) || manual.contains(&short),
            "drmaa.7: {name}"
        );
    }
}
