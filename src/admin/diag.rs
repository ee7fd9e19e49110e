//! `cadmin diag`: one redacted bundle for a bug report.
//!
//! Owns the content of the bundle and its size limit. Only reads, and writes the one file that was
//! requested. `redact` decides what is hidden, and how.

mod redact;

use super::check;
use super::daemons::dev_site;
use crate::client::env::Site;
use crate::client::exit::{Exit, Fail, Result};
use crate::journal::{Chain, Flow, WalkItem};
use crate::language::answer;
use crate::record::leader::{CLUSTER_MAX, ClusterDoc};
use crate::record::load::{self, LOAD_MAX};
use crate::spool::Layout;
use crate::spool::beats::Beats;
use crate::spool::view::ViewReader;
use crate::sys;
use crate::text::count::count;
use clap::{Command, CommandFactory as _, Parser};
use flate2::Compression;
use flate2::write::GzEncoder;
use redact::Redactor;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Maximum size of one file in the bundle, and of all files before compression, in bytes.
const FILE_MAX: usize = 1 << 20;
const ALL_MAX: usize = 16 << 20;
/// Size of the end of a log that is included, in bytes.
const LOG_TAIL: u64 = 256 << 10;
const LOGS_MAX: usize = 200;
/// Number of events from the end of the journal.
const EVENTS: usize = 2_000;
const HOSTS_MAX: usize = 2_000;
/// Maximum number of names counted in one directory.
const NAMES_MAX: usize = 1_000_000;
/// Number of lines requested from the system log for each daemon.
const JOURNALD_LINES: &str = "2000";

const README: &str = "\
What 'cadmin diag' gathered about a Corral cluster.

Left out: environments, scripts, command lines, names and projects of jobs, outputs, requests,
comments and descriptions of cb.yaml, values of keys that look like secrets, hooks' command lines.
Replaced: names of users, user groups, hosts, host groups and the cluster by aliases (user1, host1,
...), the same throughout this bundle and different ones in the next; paths outside the share, this
host's local directory and the system by [path]. With --names, names are kept.
Please review it before you send it.

version     the program and the system        config.yaml  cb.yaml
check.txt   'cadmin check'                    leader.json  cluster, epoch, beat, claims
params.json what the leader published         hosts.json   the hosts' last samples
journal.txt the last events, without content  sizes.txt    the share by directory
mounts.txt  mounts and NFS settings           limits.txt   limits of processes and the kernel
logs/       the ends of the daemons' logs
";

/// Gathers a redacted bundle for a bug report.
#[derive(Parser, Debug)]
#[command(name = "cadmin diag", disable_version_flag = true)]
struct Args {
    /// The file to write; by default corral-diag-TIME.tar.gz in this directory.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Keep the names of users, groups and hosts.
    #[arg(long)]
    names: bool,
}

/// The options of `cadmin diag`.
pub(super) fn options() -> Command {
    Args::command()
}

/// Runs `cadmin diag` with its arguments; returns the exit code.
pub(crate) fn run(words: &[String]) -> i32 {
    let args = match crate::client::parsed::<Args>("cadmin diag", words) {
        Ok(args) => args,
        Err(e) => return crate::client::usage(&e),
    };
    match make(&args) {
        Ok(code) => code,
        Err(e) => e.report("cadmin diag"),
    }
}

fn make(args: &Args) -> Result<i32> {
    let now = sys::clock::wall_ms();
    let path = args
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("corral-diag-{}.tar.gz", now.div_euclid(1000))));
    if sys::fs::exists(&path) {
        return Err(Fail::refused(format!(
            "{}: it exists already\nhint: give another file with --out",
            path.display()
        )));
    }
    let site = Site::find()?;
    let bundle = gather(&site, args.names);
    let bytes = pack(&bundle, now).map_err(|e| Fail::system(format!("cannot pack: {e}")))?;
    sys::fs::publish_mode(&path, &bytes, 0o600)?;
    answer!(
        "{}: {}, {} KB. Review it before you send it (tar tzf, tar xzf).",
        path.display(),
        count(bundle.files.len(), "file"),
        bytes.len().div_ceil(1024)
    );
    Ok(Exit::Ok.code())
}

/// The content of the bundle.
#[derive(Default)]
struct Bundle {
    files: Vec<(String, String)>,
    bytes: usize,
}

impl Bundle {
    /// Adds a file, cut to the available size.
    fn add(&mut self, name: &str, text: String) {
        let room = ALL_MAX.saturating_sub(self.bytes).min(FILE_MAX);
        let mut text = text;
        if text.len() > room {
            let mut end = room;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push_str("\n[cut here]\n");
        }
        self.bytes += text.len();
        self.files.push((name.to_owned(), text));
    }
}

fn gather(site: &Site, names: bool) -> Bundle {
    let layout = site.layout();
    let redactor = if names {
        Redactor::open()
    } else {
        Redactor::of(site, &layout)
    };
    let mut bundle = Bundle::default();
    let mut put = |name: &str, text: String| bundle.add(name, redactor.text(&text));
    put("README", README.to_owned());
    put("version", version());
    put("check.txt", checked());
    put("leader.json", leader(&layout));
    put("params.json", params(&layout));
    put("hosts.json", hosts(&layout));
    put("journal.txt", journal(&layout));
    put("sizes.txt", sizes(&layout));
    put("mounts.txt", mounts(&layout));
    put("limits.txt", limits());
    let config = sys::fs::read_small(&layout.config(), crate::config::MAX_BYTES as u64);
    let config = config.map_or_else(
        |e| format!("{e}\n"),
        |bytes| redactor.config(&String::from_utf8_lossy(&bytes)),
    );
    bundle.add("config.yaml", config);
    for (name, text) in logs(site) {
        bundle.add(
            &format!("logs/{}", redactor.text(&name)),
            redactor.text(&text),
        );
    }
    bundle
}

fn pack(bundle: &Bundle, now_ms: i64) -> std::io::Result<Vec<u8>> {
    let gz = GzEncoder::new(Vec::new(), Compression::default());
    let mut tar = tar::Builder::new(gz);
    for (name, text) in &bundle.files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(now_ms / 1000).unwrap_or(0));
        tar.append_data(&mut header, format!("corral-diag/{name}"), text.as_bytes())?;
    }
    tar.into_inner()?.finish()
}

/// A small file as text, or why it cannot be read.
fn file(path: &str) -> String {
    match sys::fs::read_small(Path::new(path), FILE_MAX as u64) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) => format!("{e}\n"),
    }
}

fn version() -> String {
    format!(
        "corral {}\n{}\n{}\nuptime {}load {}",
        env!("CARGO_PKG_VERSION"),
        file("/proc/version"),
        file("/etc/os-release"),
        file("/proc/uptime"),
        file("/proc/loadavg"),
    )
}

fn checked() -> String {
    match check::open(None) {
        Ok(ctx) => check::report_text(&check::run_checks(&ctx)),
        Err(e) => format!("{}\n", e.text),
    }
}

/// The leadership documents, unchanged: they contain host names and numbers.
fn leader(layout: &Layout) -> String {
    let mut out = String::new();
    for path in [layout.cluster(), layout.epoch(), layout.beat()] {
        out.push_str(file(&path.to_string_lossy()).trim());
        out.push('\n');
    }
    let claims = sys::fs::list_dir(&layout.claims_dir(), NAMES_MAX).unwrap_or_default();
    let mut claims: Vec<&str> = claims.iter().filter_map(|e| e.text()).collect();
    claims.sort_unstable();
    let _ = writeln!(out, "claims: {}", claims.join(" "));
    out
}

fn params(layout: &Layout) -> String {
    let params = match ViewReader::new(layout).params() {
        Ok(params) => params,
        Err(e) => return format!("{e}\n"),
    };
    let value = serde_json::json!({
        "version": params.version, "epoch": params.epoch, "since": params.since,
        "alarms": params.alarms, "config_problems": params.config_problems.len(),
        "config_digest": params.config_digest, "resources": params.resources.len(),
        "host_groups": params.host_groups.len(), "user_groups": params.user_groups.len(),
    });
    format!("{value:#}\n")
}

fn hosts(layout: &Layout) -> String {
    let mut out = String::new();
    let names = sys::fs::list_dir(&layout.hosts(), NAMES_MAX).unwrap_or_default();
    let mut names: Vec<&str> = names.iter().filter_map(|e| e.text()).collect();
    names.sort_unstable();
    let beats = Beats::list(layout);
    for host in names.into_iter().take(HOSTS_MAX) {
        let bytes = sys::fs::read_optional(&layout.load(host), LOAD_MAX as u64);
        let doc = bytes.ok().flatten().map(|bytes| load::decode(&bytes));
        let text = match doc {
            Some(Ok(mut doc)) => {
                beats.put_into(host, &mut doc);
                // Sensor values are private to the site.
                doc.values.clear();
                doc.sensors.clear();
                doc.shared.clear();
                serde_json::to_string(&doc).unwrap_or_default()
            }
            Some(Err(e)) => format!("{host}: {e}"),
            None => format!("{host}: no sample"),
        };
        let _ = writeln!(out, "{text}");
    }
    out
}

/// The last events: kind, place, attempt, times and numbers, without texts written by users.
fn journal(layout: &Layout) -> String {
    let mut last: VecDeque<String> = VecDeque::new();
    let read = walk(layout, &mut last);
    let mut out = String::new();
    if let Err(e) = read {
        let _ = writeln!(out, "{e}");
    }
    last.iter().for_each(|line| {
        let _ = writeln!(out, "{line}");
    });
    out
}

fn walk(layout: &Layout, last: &mut VecDeque<String>) -> std::result::Result<(), String> {
    let bytes = sys::fs::read_small(&layout.cluster(), CLUSTER_MAX).map_err(|e| e.to_string())?;
    let doc = ClusterDoc::decode(&bytes)?;
    let newest = Chain::newest(layout).map_err(|e| e.to_string())?;
    let first = newest.saturating_sub(2).max(1);
    let chain = Chain::read(layout, &doc.cluster, first, newest + 1).map_err(|e| e.to_string())?;
    let mut put = |line: String| {
        if last.len() == EVENTS {
            last.pop_front();
        }
        last.push_back(line);
    };
    for epoch in first..=newest {
        let from = chain.lowest(epoch).map_err(|e| e.to_string())?;
        let walked = chain.walk(epoch, from, false, &mut |item| {
            match item {
                WalkItem::Record {
                    at: position, line, ..
                } => put(format!("{position} {}", redact::event(line.json))),
                WalkItem::Damage { path, damaged, .. } => {
                    put(format!("!! {} {damaged}", path.display()));
                }
                WalkItem::Missing { path, why } => put(format!("!! {} {why}", path.display())),
                WalkItem::Torn { path, from, bytes } => {
                    put(format!("!! {}:{from} {bytes} bytes torn", path.display()));
                }
            }
            Ok(Flow::Continue)
        });
        walked.map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Number of names and bytes of each directory of the share, one level deep.
fn sizes(layout: &Layout) -> String {
    let mut out = String::new();
    let mut dirs: Vec<PathBuf> = layout
        .directories()
        .into_iter()
        .map(|(dir, _)| dir)
        .collect();
    for parent in [layout.epochs(), layout.hosts()] {
        let names = sys::fs::list_dir(&parent, NAMES_MAX).unwrap_or_default();
        dirs.extend(names.iter().take(HOSTS_MAX).map(|e| parent.join(&e.name)));
    }
    for dir in dirs {
        let names = match sys::fs::list_dir(&dir, NAMES_MAX) {
            Ok(names) => names,
            Err(e) => {
                let _ = writeln!(out, "{e}");
                continue;
            }
        };
        let stats = names.iter().take(10_000);
        let len = |e: &sys::fs::Entry| {
            let stat = sys::fs::stat(&dir.join(&e.name)).ok().flatten();
            stat.map_or(0, |s| s.len)
        };
        let bytes: u64 = stats.map(len).sum();
        let mode = sys::fs::stat(&dir).ok().flatten();
        let (mode, uid) = mode.map_or((0, 0), |s| (s.mode & 0o7777, s.uid));
        let n = names.len();
        let _ = writeln!(
            out,
            "{n:>8} names {bytes:>14} bytes {mode:04o} {uid} {}",
            dir.display()
        );
    }
    match sys::statfs::disk_free(layout.root()) {
        Ok(free) => {
            let _ = writeln!(out, "{free:?}");
        }
        Err(e) => {
            let _ = writeln!(out, "{e}");
        }
    }
    out
}

fn mounts(layout: &Layout) -> String {
    let mut out = String::new();
    match sys::mount::mount_of(layout.root()) {
        Ok(m) => {
            let point = m.point.display();
            let _ = writeln!(out, "share: {} {point} {}", m.fstype, m.options);
        }
        Err(e) => {
            let _ = writeln!(out, "{e}");
        }
    }
    for hazard in crate::spool::hazards(layout) {
        let _ = writeln!(out, "danger: {}", hazard.text);
    }
    for name in [
        "recover_lost_locks",
        "nfs4_disable_idmapping",
        "callback_tcpport",
    ] {
        let path = format!("/sys/module/nfs/parameters/{name}");
        if sys::fs::exists(Path::new(&path)) {
            let _ = writeln!(out, "nfs.{name} = {}", file(&path).trim());
        }
    }
    let cgroups = file("/proc/self/mountinfo");
    let cgroups = cgroups.lines().filter(|l| l.contains(" - cgroup"));
    cgroups.for_each(|line| {
        let _ = writeln!(out, "{line}");
    });
    out
}

fn limits() -> String {
    let mut out = file("/proc/self/limits");
    for name in [
        "kernel/pid_max",
        "kernel/threads-max",
        "fs/file-max",
        "fs/inotify/max_user_watches",
        "fs/inotify/max_user_instances",
        "fs/protected_hardlinks",
        "vm/overcommit_memory",
    ] {
        let value = file(&format!("/proc/sys/{name}"));
        let _ = writeln!(out, "{name} = {}", value.trim());
    }
    out
}

/// The ends of the daemons' logs: files of a development cluster, else the system log.
fn logs(site: &Site) -> Vec<(String, String)> {
    let Some(dev) = dev_site(&site.conf) else {
        return ["cbsched", "cbls", "cbexe"].map(system_log).to_vec();
    };
    let names = sys::fs::list_dir(&dev.logs(), LOGS_MAX).unwrap_or_default();
    let mut names: Vec<&str> = names.iter().filter_map(|e| e.text()).collect();
    names.sort_unstable();
    let tail = |name: &str| {
        let path = dev.logs().join(name);
        let len = sys::fs::stat(&path).ok().flatten().map_or(0, |s| s.len);
        let from = len.saturating_sub(LOG_TAIL);
        let bytes = sys::fs::read_from(&path, from, LOG_TAIL as usize).map(|c| c.bytes);
        bytes.map_or_else(
            |e| format!("{e}\n"),
            |b| String::from_utf8_lossy(&b).into_owned(),
        )
    };
    names
        .into_iter()
        .map(|name| (name.to_owned(), tail(name)))
        .collect()
}

fn system_log(unit: &str) -> (String, String) {
    let args = [
        "-u",
        unit,
        "-n",
        JOURNALD_LINES,
        "--no-pager",
        "-o",
        "short-iso",
    ];
    let text = sys::child::output(Path::new("journalctl"), &args, 2 * LOG_TAIL as usize);
    let text = text.unwrap_or_else(|e| {
        format!("{e}\nplease add the log of {unit} manually, from wherever this host keeps it\n")
    });
    (format!("{unit}.log"), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_is_bounded_and_reads_back() {
        let mut bundle = Bundle::default();
        for n in 0..20 {
            bundle.add(&format!("f{n}"), "\u{e4}".repeat(FILE_MAX));
        }
        assert!(bundle.bytes <= ALL_MAX + 20 * 20, "{}", bundle.bytes);
        assert!(bundle.files[0].1.ends_with("[cut here]\n"));
        let bytes = pack(&bundle, 1_000_000).unwrap();
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let names: Vec<PathBuf> = tar
            .entries()
            .unwrap()
            .map(|e| e.unwrap().path().unwrap().into_owned())
            .collect();
        assert_eq!(names.len(), 20);
        assert_eq!(names[3], Path::new("corral-diag/f3"));
    }
}
