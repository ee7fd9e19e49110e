//! Starting a program that outlives its starter, and finding it again by its environment.
//!
//! The child gets its own session, an environment that contains only the given variables, a log for
//! its output and no other descriptor: a daemon that keeps its starter's pipe open would hang the
//! reader of that pipe.

use super::{ErrorContext, Result};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Maximum size in bytes of an environment that is read from `/proc`.
const ENVIRON_LIMIT: u64 = 4 << 20;

/// A program to start in the background.
#[derive(Debug, Clone)]
pub struct Background {
    /// The executable.
    pub program: PathBuf,
    /// Its complete environment.
    pub env: Vec<(String, OsString)>,
    /// Its working directory.
    pub dir: PathBuf,
    /// The file to which its output is appended.
    pub log: PathBuf,
}

impl Background {
    /// Starts it. The handle must be kept and polled while the caller lives, or a child that ends
    /// stays a zombie until then.
    ///
    /// # Errors
    /// The log or the program that could not be opened or started.
    pub fn start(&self) -> Result<Child> {
        let log = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o644)
            .open(&self.log)
            .at("open", &self.log)?;
        let errors = log.try_clone().at("open", &self.log)?;
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .envs(self.env.iter().map(|(k, v)| (k, v)))
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors);
        // SAFETY: only async-signal-safe calls with integer arguments between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                // All other descriptors close at exec; if the kernel lacks the call, those of this
                // program have that flag already.
                libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 4u32);
                Ok(())
            });
        }
        command.spawn().at("start", &self.program)
    }
}

/// The name of the running program of a process, cut to 15 bytes; `None` if the process is gone.
pub fn program_name(pid: i32) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_end().to_string())
}

/// The environment with which a process was started; empty if it is gone or belongs to another
/// user.
pub fn environment(pid: i32) -> Vec<(String, OsString)> {
    let mut bytes = Vec::new();
    let read = File::open(format!("/proc/{pid}/environ"))
        .and_then(|f| f.take(ENVIRON_LIMIT).read_to_end(&mut bytes));
    match read {
        Ok(_) => bytes.split(|b| *b == 0).filter_map(variable).collect(),
        Err(_) => Vec::new(),
    }
}

fn variable(entry: &[u8]) -> Option<(String, OsString)> {
    let at = entry.iter().position(|b| *b == b'=')?;
    let name = String::from_utf8(entry[..at].to_vec()).ok()?;
    Some((name, OsString::from_vec(entry[at + 1..].to_vec())))
}

/// The directory of the running executable, with links resolved: its sibling programs are there,
/// too.
///
/// # Errors
/// The system does not tell, or the executable was removed meanwhile.
pub fn own_directory() -> Result<PathBuf> {
    let exe = std::env::current_exe().at("find", Path::new("the running executable"))?;
    let exe = super::fs::canonical(&exe)?;
    Ok(super::fs::parent(&exe).to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_background_program_has_its_own_session_and_only_the_given_environment() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let program = dir.path().join("prog");
        // The shell stays itself: the environment of a process that executes another program cannot
        // be read for a moment.
        let script = "#!/bin/sh\necho \"$A-$HOME\"\nwhile :; do sleep 0.1; done\n";
        std::fs::write(&program, script).unwrap();
        super::super::fs::chmod(&program, 0o755).unwrap();
        let start = Background {
            program,
            env: vec![
                ("A".into(), "x y".into()),
                ("PATH".into(), "/usr/bin:/bin".into()),
            ],
            dir: dir.path().to_path_buf(),
            log: log.clone(),
        };
        let mut child = start.start().unwrap();
        let pid = child.id() as i32;
        let text = || std::fs::read_to_string(&log).unwrap();
        for _ in 0..6_000 {
            if !text().is_empty() {
                break;
            }
            super::super::clock::sleep_ms(10);
        }
        assert_eq!(text(), "x y-\n");
        assert_eq!(super::super::proc::info(pid).unwrap().session, pid);
        let env = environment(pid);
        assert!(env.contains(&("A".to_string(), "x y".into())), "{env:?}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
