//! A person at a terminal, for tests: runs a command in a pseudo-terminal, types, and waits for
//! what appears there.

use crate::patience::deadline;
use corral::sys::terminal;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A command at a terminal of its own.
pub struct Screen {
    master: File,
    child: Child,
    /// What appeared and was not waited for yet.
    pub rest: String,
}

impl Screen {
    /// Runs `command` in a terminal of so many rows and columns.
    pub fn run(mut command: Command, rows: u16, cols: u16) -> Screen {
        let (master, slave) = terminal::open_pair(rows, cols).unwrap();
        terminal::set_nonblocking(&master).unwrap();
        command
            .stdin(slave.try_clone().unwrap())
            .stdout(slave.try_clone().unwrap())
            .stderr(slave);
        // SAFETY: two system calls between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        // Its copies of the slave: the terminal is closed when the child's are.
        drop(command);
        Screen {
            master,
            child,
            rest: String::new(),
        }
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Presses these keys.
    pub fn keys(&mut self, keys: &str) {
        (&self.master).write_all(keys.as_bytes()).unwrap();
    }

    /// This side of the terminal.
    pub fn master(&self) -> &File {
        &self.master
    }

    pub fn resize(&mut self, rows: u16, cols: u16) {
        terminal::set_size(&self.master, rows, cols);
    }

    fn read(&mut self) -> bool {
        let mut buf = [0; 4096];
        match terminal::read_now(&self.master, &mut buf) {
            Ok(Some(n)) if n > 0 => {
                self.rest.push_str(&String::from_utf8_lossy(&buf[..n]));
                true
            }
            _ => false,
        }
    }

    /// Waits until `text` appears; what comes after it is kept.
    pub fn until(&mut self, text: &str) {
        let end = deadline();
        loop {
            if let Some(at) = self.rest.find(text) {
                self.rest.drain(..at + text.len());
                return;
            }
            assert!(
                Instant::now() < end,
                "{text:?} did not appear, but {:?}",
                self.rest
            );
            if !self.read() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Waits for the command's end; its exit code, or 1000 and the signal.
    pub fn code(&mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt as _;
        let end = deadline();
        loop {
            while self.read() {}
            if let Some(status) = self.child.try_wait().unwrap() {
                while self.read() {}
                return status.code().unwrap_or(1000 + status.signal().unwrap_or(0));
            }
            assert!(Instant::now() < end, "it does not end: {:?}", self.rest);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
