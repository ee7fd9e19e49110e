//! Failpoints: named places at which a test makes a program die, stop, slow down or fail.
//!
//! Owns the names and the parsing of the variable that arms them (docs/HACKING.md). They exist only
//! in builds with debug assertions: in a release build [`pass`] is empty and the variable is
//! ignored. Never acts in a simulation, and only a test may arm one.

use std::io;
use std::path::Path;

/// Every point, and what it precedes or follows.
pub const POINTS: &[&str] = &[
    // The leader's journal: the write of a group, its sync, a further segment.
    "journal.before_write",
    "journal.after_write",
    "journal.after_sync",
    "journal.next_segment",
    // A winner of the election reads the journal.
    "leader.recovering",
    // After the sync and the check of the epoch; around the answers and the orders.
    "leader.after_check",
    "leader.before_ack",
    "leader.after_ack",
    "leader.before_orders",
    "leader.after_orders",
    // A snapshot is due when this point fails.
    "snapshot.due",
    // Its child: some records are written; complete, but not renamed.
    "snapshot.writing",
    "snapshot.before_rename",
    // Accounting records: in a file; durable, but the mark is not moved yet.
    "acct.written",
    "acct.synced",
    // The executor: the attempts are recorded, the spawner does not know them yet.
    "exe.after_ledger",
    // The spawner: before the fork of a shepherd that gets its task through it.
    "spawner.before_fork",
    // The shepherd: forked, nothing is recorded; around the record of the end.
    "shepherd.before_start",
    "shepherd.before_end",
    "shepherd.after_end",
    // A command: its request is in the drop box, but it has not looked for an answer.
    "ask.after_publish",
    // Single calls on files, each with its path.
    "sys.any",
    "sys.open",
    "sys.read",
    "sys.write",
    "sys.sync",
    "sys.rename",
    "sys.link",
    "sys.unlink",
    "sys.list",
    "sys.stat",
];

/// Variables that a started daemon must inherit for the points to be armed in it.
#[cfg(debug_assertions)]
pub const VARIABLES: &[&str] = &[armed::VARIABLE];
#[cfg(not(debug_assertions))]
pub const VARIABLES: &[&str] = &[];

/// Passes a point.
///
/// # Errors
/// The error with which the point is armed; the caller treats it as a failure of its next action.
#[inline]
pub fn pass(name: &str) -> io::Result<()> {
    pass_at(name, None)
}

/// Passes a point where nothing can fail.
#[inline]
pub fn hit(name: &str) {
    drop(pass(name));
}

/// Passes a point that concerns a file.
///
/// # Errors
/// As [`pass`].
#[inline]
#[cfg(debug_assertions)]
pub fn pass_at(name: &str, path: Option<&Path>) -> io::Result<()> {
    armed::pass(name, path)
}

/// Passes nothing: there are no failpoints in a release build.
///
/// # Errors
/// None.
#[inline]
#[cfg(not(debug_assertions))]
pub fn pass_at(_: &str, _: Option<&Path>) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
thread_local! {
    static CALLS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Number of calls by this thread so far that name a file: each is at least one request on a
/// network file system.
#[cfg(test)]
pub fn calls() -> u64 {
    CALLS.with(std::cell::Cell::get)
}

/// A call that names a file: passes `name` and `sys.any`.
#[inline]
pub(super) fn on_path(name: &str, path: &Path) -> io::Result<()> {
    #[cfg(test)]
    CALLS.with(|calls| calls.set(calls.get() + 1));
    pass_at("sys.any", Some(path))?;
    pass_at(name, Some(path))
}

/// A call on an open file: passes `name` and `sys.any`.
#[inline]
#[cfg(debug_assertions)]
pub(super) fn on_file(name: &str, file: &std::fs::File) -> io::Result<()> {
    match armed::is_armed() {
        true => on_path(name, &armed::path_of(file)),
        false => Ok(()),
    }
}

#[inline]
#[cfg(not(debug_assertions))]
pub(super) fn on_file(_: &str, _: &std::fs::File) -> io::Result<()> {
    Ok(())
}

#[cfg(debug_assertions)]
mod armed {
    use super::POINTS;
    use std::collections::HashMap;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::path::{Path, PathBuf};
    use std::sync::{Mutex, OnceLock};
    use std::time::Duration;

    pub(super) const VARIABLE: &str = "CORRAL_FAIL";

    /// What an armed point does.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(super) enum Act {
        Kill,
        /// Stops all threads; they continue after this many ms, or with SIGCONT.
        Stop(Option<u64>),
        Delay(u64),
        Error(i32),
        /// The thread panics.
        Panic,
        /// Stays in the kernel until the test opens this pipe for writing.
        Hang(String),
    }

    /// One armed point.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(super) struct Rule {
        pid: Option<u32>,
        name: String,
        /// Part of the path to which it applies.
        part: Option<String>,
        /// Acts from this pass on...
        first_pass: u64,
        /// ...to this one.
        to: u64,
        act: Act,
        /// The text from which it was parsed; its passes are counted by it.
        text: String,
    }

    fn source() -> Option<&'static str> {
        static TEXT: OnceLock<Option<String>> = OnceLock::new();
        TEXT.get_or_init(|| std::env::var(VARIABLE).ok()).as_deref()
    }

    pub(super) fn is_armed() -> bool {
        source().is_some()
    }

    /// The rules in force: those of the variable, or of the file that it names, which is read at
    /// each pass.
    fn rules() -> Vec<Rule> {
        let Some(text) = source() else {
            return Vec::new();
        };
        let read = match text.strip_prefix('@') {
            Some(path) => parse(&std::fs::read_to_string(path).unwrap_or_default()),
            None => parse(text),
        };
        // A misspelt point would never act, and its test would never fail.
        read.unwrap_or_else(|e| {
            eprintln!("{VARIABLE}: {e}");
            std::process::exit(2)
        })
    }

    /// Reads `[PID:]POINT[@PART][#N[+]]=ACT` separated by semicolons or line ends.
    pub(super) fn parse(text: &str) -> Result<Vec<Rule>, String> {
        text.split([';', '\n'])
            .map(str::trim)
            .filter(|t| !t.is_empty())
            .map(|t| one(t).ok_or_else(|| format!("'{t}' arms no failpoint")))
            .collect()
    }

    fn one(text: &str) -> Option<Rule> {
        let (place, act) = text.rsplit_once('=')?;
        let (place, count) = match place.rsplit_once('#') {
            Some((place, count)) => (place, Some(count)),
            None => (place, None),
        };
        let (first_pass, to) = match count {
            None => (1, u64::MAX),
            Some(n) => match n.strip_suffix('+') {
                Some(n) => (n.parse().ok()?, u64::MAX),
                None => (n.parse().ok()?, n.parse().ok()?),
            },
        };
        let (pid, place) = match place.split_once(':') {
            Some((pid, place)) => (Some(pid.parse().ok()?), place),
            None => (None, place),
        };
        let (name, part) = match place.split_once('@') {
            Some((name, part)) => (name, Some(part.to_owned())),
            None => (place, None),
        };
        let known = POINTS.contains(&name);
        known.then_some(())?;
        Some(Rule {
            pid,
            name: name.to_owned(),
            part,
            first_pass,
            to,
            act: act_of(act)?,
            text: text.to_owned(),
        })
    }

    fn act_of(text: &str) -> Option<Act> {
        let (word, value) = text
            .split_once(':')
            .map_or((text, None), |(w, v)| (w, Some(v)));
        let ms = |v: &str| v.strip_suffix("ms").unwrap_or(v).parse().ok();
        Some(match (word, value) {
            ("kill", None) => Act::Kill,
            ("panic", None) => Act::Panic,
            ("stop", None) => Act::Stop(None),
            ("stop", Some(v)) => Act::Stop(Some(ms(v)?)),
            ("delay", Some(v)) => Act::Delay(ms(v)?),
            ("error", Some(v)) => Act::Error(errno(v)?),
            ("hang", Some(v)) => Act::Hang(v.to_owned()),
            _ => return None,
        })
    }

    fn errno(name: &str) -> Option<i32> {
        Some(match name {
            "EIO" => libc::EIO,
            "ENOSPC" => libc::ENOSPC,
            "EDQUOT" => libc::EDQUOT,
            "EROFS" => libc::EROFS,
            "ESTALE" => libc::ESTALE,
            "EAGAIN" => libc::EAGAIN,
            "ENOMEM" => libc::ENOMEM,
            "EACCES" => libc::EACCES,
            _ => return None,
        })
    }

    /// Counts a pass of the rule. Returns true if it acts. After a fork of a process with threads
    /// the counter may stay locked, so no process waits long for it.
    fn due(rule: &Rule) -> bool {
        if (rule.first_pass, rule.to) == (1, u64::MAX) {
            return true;
        }
        static PASSES: Mutex<Option<HashMap<String, u64>>> = Mutex::new(None);
        for _ in 0..1000 {
            if let Ok(mut passes) = PASSES.try_lock() {
                let n = passes
                    .get_or_insert_with(HashMap::new)
                    .entry(rule.text.clone())
                    .or_default();
                *n += 1;
                return (rule.first_pass..=rule.to).contains(n);
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        false
    }

    pub(super) fn pass(name: &str, path: Option<&Path>) -> io::Result<()> {
        if !is_armed() || crate::sys::platform::simulated() {
            return Ok(());
        }
        let own = std::process::id();
        for rule in rules() {
            let is_named = rule.name == name && rule.pid.is_none_or(|pid| pid == own);
            let about = rule.part.as_ref().is_none_or(|part| {
                path.is_some_and(|p| p.as_os_str().to_string_lossy().contains(part.as_str()))
            });
            if is_named && about && due(&rule) {
                act(&rule)?;
            }
        }
        Ok(())
    }

    fn act(rule: &Rule) -> io::Result<()> {
        if !matches!(rule.act, Act::Delay(_)) {
            eprintln!("failpoint {}", rule.text);
        }
        match &rule.act {
            Act::Kill => stop_with(libc::SIGKILL),
            Act::Stop(None) => stop_with(libc::SIGSTOP),
            Act::Stop(Some(ms)) => {
                wake_after(*ms);
                stop_with(libc::SIGSTOP);
            }
            Act::Delay(ms) => std::thread::sleep(Duration::from_millis(*ms)),
            Act::Panic => panic!("failpoint {}", rule.text),
            Act::Error(errno) => return Err(io::Error::from_raw_os_error(*errno)),
            Act::Hang(pipe) => drop(std::fs::File::open(pipe)),
        }
        Ok(())
    }

    fn stop_with(signal: i32) {
        // SAFETY: a signal to this process.
        unsafe { libc::kill(libc::getpid(), signal) };
    }

    /// Forks a child that wakes this process: all threads of the process are stopped.
    fn wake_after(ms: u64) {
        // SAFETY: the child only makes calls that are allowed after a fork of a process with
        // threads.
        unsafe {
            let parent = libc::getpid();
            if libc::fork() == 0 {
                let time = libc::timespec {
                    tv_sec: (ms / 1000) as libc::time_t,
                    tv_nsec: ((ms % 1000) * 1_000_000) as libc::c_long,
                };
                libc::nanosleep(&time, std::ptr::null_mut());
                libc::kill(parent, libc::SIGCONT);
                libc::_exit(0);
            }
        }
    }

    pub(super) fn path_of(file: &std::fs::File) -> PathBuf {
        std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn rules_name_process_point_path_and_pass() {
            let read = parse("12:sys.any@/share#3+=delay:200ms; journal.after_write=kill").unwrap();
            assert_eq!(read.len(), 2);
            let first = &read[0];
            assert_eq!((first.pid, first.name.as_str()), (Some(12), "sys.any"));
            assert_eq!((first.first_pass, first.to), (3, u64::MAX));
            assert_eq!(first.part.as_deref(), Some("/share"));
            assert_eq!(first.act, Act::Delay(200));
            assert_eq!((read[1].first_pass, &read[1].act), (1, &Act::Kill));
            assert_eq!(parse("sys.sync#2=error:EIO").unwrap()[0].to, 2);
            assert_eq!(parse("\n").unwrap(), []);
        }

        #[test]
        fn what_would_never_act_is_refused() {
            for bad in [
                "journal.nowhere=kill",
                "sys.any=error:EWHAT",
                "sys.any",
                "x:sys.any=kill",
            ] {
                assert!(parse(bad).is_err(), "{bad}");
            }
        }

        #[test]
        fn passes_are_counted_by_rule() {
            let rule = &parse("sys.link@counted#2=error:EIO").unwrap()[0];
            assert_eq!([due(rule), due(rule), due(rule)], [false, true, false]);
        }
    }
}
