//! Checkpoints of the running job: the shepherd runs the method's program as the job's user beside
//! the job, from a file that no other user could have written, in a clean environment and for at
//! most `checkpoint_timeout`, and records the result. `task::machine` decides when a checkpoint is
//! taken and what follows.

use super::{Phase, Shepherd, Stdio};
use crate::sys::launch::c_strings;
use crate::sys::{clock, ipc, proc, supervise};
use crate::task::checkpoints::{self, Checkpoints};
use crate::task::log::TaskRec;
use crate::task::{controls, hooks, machine};
use std::ffi::{CStr, CString};

/// Replaces the time limit of a program that was killed because it had passed.
const KILLED: u64 = u64::MAX;

/// Programs that run beside the job.
#[derive(Default)]
pub(super) struct Helpers {
    /// Programs of the queue that act on the job, with the time limit of each (boot-time clock).
    pub controls: Vec<(i32, u64)>,
    /// The program that saves the job, with its time limit.
    pub save: Option<(i32, u64)>,
    /// The job's first process, which leads its own group.
    pub leader: i32,
}

impl Shepherd<'_> {
    /// The checkpoints of the command that begins at `now`.
    pub(super) fn checkpoints(&self, now: u64) -> Option<Checkpoints> {
        let hooks = self.task.hooks.as_deref()?;
        let task = hooks.checkpoint.as_ref()?;
        Some(Checkpoints::new(task, &hooks.controls, now))
    }

    /// Begins a checkpoint. If that fails, it is reported as failed.
    pub(super) fn save(&mut self, force: bool) {
        match self.launch_save(force) {
            Ok(running) => self.helpers.save = Some(running),
            Err(why) => self.saved(Some(why)),
        }
    }

    fn launch_save(&self, force: bool) -> Result<(i32, u64), String> {
        let hooks = self.task.hooks.as_deref();
        let task = hooks.and_then(|hooks| hooks.checkpoint.as_ref());
        let task = task.ok_or("it has no checkpoints")?;
        self.check_file(&task.program, false)?;
        let argv = checkpoints::save_argv(task, force, self.helpers.leader);
        let (pids, groups) = self.processes();
        let mut set = hooks::own_env().to_vec();
        set.extend(controls::processes(&pids, &groups));
        let own = self.task.env.iter().chain(&task.env).chain(&set);
        let own = c_strings(&own.cloned().collect::<Vec<_>>());
        let env: Vec<&CStr> = own.iter().map(CString::as_c_str).collect();
        let input = ipc::text_file(task.job.as_bytes()).map_err(|e| e.to_string())?;
        let stdio = Stdio::Hook(self.prepared.user.as_ref(), Some(&input));
        let pid = self.launch(&argv, &env, None, stdio);
        let pid = pid.map_err(|e| format!("{}: {e}", task.program))?;
        Ok((pid, clock::boot_ms().saturating_add(task.limit_ms)))
    }

    /// Handles the end of a program that ran beside the job.
    pub(super) fn helper_ended(&mut self, pid: i32, how: supervise::Ended) {
        if self.helpers.save.is_some_and(|(save, _)| save == pid) {
            let end = self.helpers.save.take().map(|(_, end)| end);
            let late = end == Some(KILLED);
            let killed = matches!(how, supervise::Ended::Killed(machine::signal::KILL, _));
            if killed && !late && self.machine.is_over() {
                // It ended with the job, before it could make a checkpoint.
                return;
            }
            return self.saved(match how {
                supervise::Ended::Exited(0) => None,
                _ if late => Some("its time limit (checkpoint_timeout) had passed".to_owned()),
                supervise::Ended::Exited(code) => Some(format!(
                    "the method exited with {code}; its output is echkpnt.out in the job's \
                     checkpoint directory"
                )),
                supervise::Ended::Killed(signal, _) => {
                    Some(format!("the method was killed by signal {signal}"))
                }
            });
        }
        self.helpers.controls.retain(|(control, _)| *control != pid);
    }

    /// A checkpoint is over: it was made, or not for the reason `why`.
    fn saved(&mut self, why: Option<String>) {
        let made = why.is_none();
        if self.hook.phase == Phase::Command {
            let (a, t) = (self.task.a, clock::wall_ms());
            let why = why.unwrap_or_default();
            self.record(&TaskRec::Saved { a, t, why });
        }
        let effects = self.machine.checkpoint_over(made, clock::boot_ms());
        self.carry_out(&effects);
    }

    /// Ends programs beside the job whose time limit has passed.
    pub(super) fn end_late_helpers(&mut self, now: u64) {
        // It must end before the job gets the signal of its termination.
        let before_end = self.machine.save_ends().unwrap_or(u64::MAX);
        if let Some((pid, end)) = &mut self.helpers.save
            && now >= before_end.min(*end)
        {
            *end = KILLED;
            let _ = proc::killpg(*pid, machine::signal::KILL);
        }
        self.end_late_controls(now);
    }

    /// The next time limit of these programs.
    pub(super) fn helper_ends(&self) -> Option<u64> {
        let save = self.helpers.save.iter();
        let all = self.helpers.controls.iter().chain(save);
        all.map(|(_, at)| *at).filter(|at| *at != KILLED).min()
    }
}
