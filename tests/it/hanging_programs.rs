//! Programs of administrators and of users that hang, fail or flood: whom they hold up, and for how
//! long.

use crate::executor_bed::{Cluster, attempt};
use crate::patience;
use corral::model::TermReason;
use corral::record::order::{Act, HookOrder};
use corral::record::report::Report;
use corral::record::running_hook::RunningHook;
use corral::sys::{clock, fs, users};
use std::path::Path;
use std::process::Command;

/// A program of the administrator: a script below the test's directory.
fn program(dir: &Path, name: &str, script: &str) -> String {
    let path = dir.join(name);
    let text = format!("#!/bin/sh\n{script}\n");
    fs::publish_mode(&path, text.as_bytes(), 0o755).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The last hook of job 1 that the host has reported, if it has reported any.
fn reported(c: &Cluster) -> Option<RunningHook> {
    let (_, reports) = c.reports();
    let hook = |report: Report| match report {
        Report::Usage { a, u } if a == attempt(1) => u.hook,
        _ => None,
    };
    let mut hooks = reports.into_iter().rev().map(|(_, r)| r);
    hooks.find_map(hook).map(|hook| *hook)
}

/// The end of its command stands, whoever ends the command after it.
#[test]
fn a_post_exec_that_hangs_is_reported_and_ended_by_a_kill_of_its_job() {
    let mut c = Cluster::new();
    let post = program(
        c.dir.path(),
        "hang",
        "trap '' INT TERM\nwhile :; do sleep 1; done",
    );
    let hooks = Some(Box::new(HookOrder {
        post,
        post_ms: 600_000,
        ..HookOrder::default()
    }));
    c.start_with(1, "exit 3", |o| o.hooks = hooks);
    c.start_exe();
    let began = clock::boot_ms();
    let hook = patience::find("its hook is reported", || reported(&c));
    let waited = clock::boot_ms() - began;
    assert!(waited > 9_000, "a quick one is not reported: {waited}");
    assert_eq!(
        (hook.what.as_str(), hook.after),
        ("post-exec of the queue", true)
    );
    assert_eq!(hook.until - hook.since, 600_000);
    c.signal(1, Act::Terminate, 1);
    let end = c.end(1);
    assert_eq!((end.code, end.reason), (Some(3), TermReason::None));
    assert!(end.post_failed);
    assert_eq!(
        end.text,
        "post-exec of the queue was ended by the job's owner"
    );
    assert_eq!(end.u.hook, None);
}

/// The executor with a /tmp of its own, which is full. The cluster may be below /tmp.
const WITHOUT_TMP: &str = "set -e; d=$1; shift; mount --bind \"$d\" /mnt; \
    mount -t tmpfs -o size=64k tmpfs /tmp; mkdir -p \"$d\"; mount --bind /mnt \"$d\"; \
    dd if=/dev/zero of=/tmp/filler bs=4k 2>/dev/null || true; exec \"$@\"";

/// The job goes elsewhere, and the leader counts the failure against the host.
#[test]
fn a_job_is_not_started_where_temporary_files_have_no_room() {
    let mounts = || {
        let script = ["-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"];
        let status = Command::new("unshare").args(script).status();
        status.is_ok_and(|status| status.success())
    };
    if !users::may_switch() || !mounts() {
        println!("skipped: cannot mount");
        return;
    }
    let mut c = Cluster::new();
    let ran = c.mark(1);
    c.start_with(1, &ran, |_| {});
    let mut exe = Command::new("unshare");
    exe.args(["-m", "sh", "-c", WITHOUT_TMP, "sh"]);
    exe.arg(c.dir.path()).arg(env!("CARGO_BIN_EXE_cbexe"));
    c.start_by(exe);
    let end = c.end(1);
    assert_eq!((end.reason, end.elsewhere), (TermReason::StartFailed, true));
    assert!(
        end.text.contains("/tmp") && end.text.contains("No space"),
        "{}",
        end.text
    );
    assert_eq!(c.marks(), "");
}
