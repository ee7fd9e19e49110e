//! How the shepherd acts on the processes of its task: signals, suspension, the kill, the warning
//! file; and the actions that the queue defines instead of suspending, resuming and terminating
//! (`job_controls`).
//!
//! A program of the queue runs as the job's user beside the job, from a file that no other user
//! could have written, for at most `job_terminate_interval`. If it cannot be run, the default
//! action is used instead.

use super::{Phase, Shepherd, Stdio};
use crate::model::{ControlAct, ControlOf, TermReason, WarnedProcesses};
use crate::sys::launch::c_strings;
use crate::sys::{clock, fs, proc, userfile};
use crate::task::controls;
use crate::task::machine::Effect;
use std::collections::HashSet;
use std::ffi::{CStr, CString};

/// Maximum time of one round of killing without a control group (ms).
const KILL_TREE_MS: u64 = 50;

impl Shepherd<'_> {
    pub(super) fn carry_out(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Signal(n) => self.signal_all(*n),
                Effect::KillAll => self.kill_all(),
                Effect::Freeze if self.control(ControlOf::Suspend) => {}
                Effect::Freeze => self.freeze(),
                Effect::Thaw => {
                    self.end_warning();
                    self.resume();
                }
                Effect::Terminate if self.control(ControlOf::Terminate) => {}
                Effect::Terminate => self.signal_all(self.machine.end_signal()),
                Effect::Checkpoint(force) => self.save(*force),
                Effect::Warn(signal, left_ms, why) => self.warn(*signal, *left_ms, *why),
            }
        }
    }

    /// Writes the file of the warning, then sends the signal.
    fn warn(&self, signal: i32, left_ms: u64, why: TermReason) {
        let why = match why {
            TermReason::Deadline => "deadline",
            TermReason::Load => "load",
            TermReason::Window => "window",
            _ => "run_limit",
        };
        let left_s = left_ms / 1000;
        let at = clock::wall_ms() / 1000 + left_s as i64;
        let text = format!("reason={why}\nat={at}\nseconds={left_s}\n");
        let local = &self.inherited.local;
        // The job's own umask might make the file unreadable for the job.
        userfile::set_umask(0o022);
        let scratch = fs::mkdir_p(&local.scratch_dir(), 0o711);
        let path = local.warning_file(self.task.a);
        let written = scratch.and_then(|()| fs::publish_mode(&path, text.as_bytes(), 0o644));
        userfile::set_umask(self.prepared.base.umask);
        if let Err(e) = written {
            eprintln!("cbtask: {e}: the job gets no warning file");
        }
        if signal > 0 {
            self.signal_warned(signal);
        }
    }

    /// Signals the processes that the warning of the job is for.
    fn signal_warned(&self, signal: i32) {
        let to = self.task.limits.warn.map_or(WarnedProcesses::All, |w| w.to);
        let shell = self.helpers.leader;
        let steps = |pids: Vec<i32>| pids.into_iter().filter(move |pid| *pid != shell);
        match to {
            WarnedProcesses::All => self.signal_all(signal),
            WarnedProcesses::Shell if shell > 1 => drop(proc::kill(shell, signal)),
            WarnedProcesses::Shell => {}
            WarnedProcesses::Steps => {
                steps(self.processes().0).for_each(|pid| drop(proc::kill(pid, signal)));
            }
        }
    }

    /// The task continues: a warning that it would be suspended is void.
    fn end_warning(&self) {
        if self.task.limits.warn.is_some() && !self.machine.is_warned() {
            let _ = fs::remove(&self.inherited.local.warning_file(self.task.a));
        }
    }

    pub(super) fn signal_all(&self, signal: i32) {
        match &self.group {
            Some(group) => drop(group.signal(signal)),
            None => own_tree(self.relay)
                .iter()
                .for_each(|pid| drop(proc::kill(*pid, signal))),
        }
    }

    fn kill_all(&self) {
        match &self.group {
            Some(group) => drop(group.kill_once()),
            None => kill_tree(self.relay),
        }
    }

    fn freeze(&mut self) {
        if !self
            .group
            .as_mut()
            .is_some_and(|g| g.freeze().unwrap_or(false))
        {
            self.stopped = true;
            self.signal_all(libc_stop());
        }
    }

    pub(super) fn thaw(&mut self) {
        if let Some(group) = self.group.as_mut() {
            let _ = group.thaw();
        }
        if std::mem::take(&mut self.stopped) || self.group.is_none() {
            self.signal_all(crate::sys::signals::number("CONT").unwrap_or(18));
        }
    }

    /// Lets the task continue. A task that is being ended gets the signal, not an action of the
    /// queue.
    fn resume(&mut self) {
        self.thaw();
        if !self.machine.is_ending() {
            self.control(ControlOf::Resume);
        }
    }

    /// Carries out the action that the queue defines instead of an act. Returns false if it defines
    /// none or the action failed.
    fn control(&mut self, of: ControlOf) -> bool {
        let all = self.task.hooks.as_deref().map(|hooks| &hooks.controls);
        let act = all.and_then(|all| all.get(of)).cloned();
        match act.filter(|_| self.hook.phase == Phase::Command) {
            None | Some(ControlAct::Checkpoint) => false,
            Some(ControlAct::Signal(number)) => {
                self.stopped |= of == ControlOf::Suspend;
                self.signal_all(number);
                true
            }
            Some(ControlAct::Program(words)) => match self.run_control(of, &words) {
                Ok(pid) => {
                    // Processes that the program stopped by signals need a signal when the job is
                    // resumed.
                    self.stopped |= of == ControlOf::Suspend;
                    let end = clock::boot_ms().saturating_add(self.task.grace_ms);
                    self.helpers.controls.push((pid, end));
                    true
                }
                Err(why) => {
                    eprintln!("cbtask: {}: job_controls: {why}", self.task.a);
                    false
                }
            },
        }
    }

    fn run_control(&mut self, of: ControlOf, words: &str) -> Result<i32, String> {
        let argv = crate::text::hook::words(words);
        let program = argv.first().ok_or("a program is missing")?;
        self.check_file(program, false)?;
        let (pids, groups) = self.processes();
        let set = c_strings(&controls::env(of, self.machine.reason(), &pids, &groups));
        let own = c_strings(&self.own_env());
        let old = self.prepared.env.iter().chain(&own);
        let env: Vec<&CStr> = old.chain(&set).map(CString::as_c_str).collect();
        let user = self.prepared.user.as_ref();
        let run = self.launch(&argv, &env, None, Stdio::Hook(user, None));
        run.map_err(|e| format!("{program}: {e}"))
    }

    /// The job's processes and their groups.
    pub(super) fn processes(&self) -> (Vec<i32>, Vec<i32>) {
        let pids = match &self.group {
            Some(group) => group.pids(),
            None => own_tree(self.relay),
        };
        let me = std::process::id() as i32;
        let pids: Vec<i32> = pids.into_iter().filter(|pid| *pid != me).collect();
        let groups = pids.iter().filter_map(|p| Some(proc::info(*p)?.pgrp));
        let groups = groups.collect();
        (pids, groups)
    }

    /// Ends programs of the queue whose time limit has passed.
    pub(super) fn end_late_controls(&mut self, now: u64) {
        let all = std::mem::take(&mut self.helpers.controls).into_iter();
        let (late, rest): (Vec<_>, Vec<_>) = all.partition(|(_, end)| now >= *end);
        self.helpers.controls = rest;
        for (pid, _) in late.into_iter().filter(|(pid, _)| *pid > 1) {
            eprintln!(
                "cbtask: {}: job_controls: a program is ended because its time limit has passed",
                self.task.a
            );
            let _ = proc::killpg(pid, crate::task::machine::signal::KILL);
        }
    }
}

fn libc_stop() -> i32 {
    crate::sys::signals::number("STOP").unwrap_or(19)
}

/// Kills the descendants of this process except one child, each as soon as it is found: its
/// children then become children of this process and are found in the next round.
fn kill_tree(but: i32) {
    let me = std::process::id() as i32;
    let (begin, mut known) = (clock::boot_ms(), HashSet::new());
    loop {
        let mut found = Vec::new();
        let mut kill = |parent: i32, found: &mut Vec<i32>| {
            let mut new = false;
            let children = proc::children(parent).into_iter();
            for pid in children.filter(|p| *p > 1 && *p != but) {
                let _ = proc::kill(pid, crate::task::machine::signal::KILL);
                new |= known.insert(pid);
                found.push(pid);
            }
            new
        };
        let mut new = kill(me, &mut found);
        let mut next = 0;
        while next < found.len() {
            new |= kill(found[next], &mut found);
            next += 1;
        }
        if !new || clock::boot_ms().saturating_sub(begin) > KILL_TREE_MS {
            return;
        }
    }
}

/// All descendants of this process except one child and its descendants.
fn own_tree(but: i32) -> Vec<i32> {
    let mut found = proc::children(std::process::id() as i32);
    found.retain(|pid| *pid != but);
    let mut next = 0;
    while next < found.len() {
        let more = proc::children(found[next]);
        found.extend(more.into_iter().filter(|p| *p > 1));
        next += 1;
    }
    found
}
