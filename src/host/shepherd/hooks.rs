//! The shepherd runs the hooks around the command: pre-exec and post-exec of queue and job, in the
//! task's group and under its limits, each with its own time limit. Owns which orders affect them;
//! `task::hooks` decides what their ends mean.

use super::{Phase, Shepherd, Stdio};
use crate::model::{HookOf, TermReason};
use crate::record::report::Ended;
use crate::sys::launch::{ProcessIdentity, c_strings};
use crate::sys::trust::Owners;
use crate::sys::{clock, ipc, userfile, users};
use crate::task::ending::TopEnd;
use crate::task::hooks::{self, HookEnd};
use crate::task::log::TaskRec;
use crate::task::machine::{Machine, signal};
use crate::task::spec::{Hook, TaskAct, TaskIdentity};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::path::Path;

impl Shepherd<'_> {
    /// Runs all pre-exec commands.
    ///
    /// # Errors
    /// The end of the job, which is not to be started, and the owner of the last hook.
    pub(super) fn run_pre_exec(&mut self) -> Result<(), (HookOf, Box<Ended>)> {
        let Some(all) = self.task.hooks.as_deref() else {
            return Ok(());
        };
        self.hook.phase = Phase::Pre;
        for hook in &all.pre {
            if self.is_fenced() {
                return Err((hook.of, Box::new(self.cut_off())));
            }
            let end = self.run_hook(hook, "pre-exec", &[]);
            let host = &self.inherited.host;
            if let Some(mut end) = hooks::pre_ended(self.task.a, hook, &end, host) {
                (end.start, end.t) = (self.times.start, clock::wall_ms());
                return Err((hook.of, Box::new(end)));
            }
            match self.machine.late_reason() {
                TermReason::None => self.follow_with(self.machine_of(None)),
                reason => return Err((hook.of, Box::new(self.ended_before(reason)))),
            }
        }
        self.begin_command();
        Ok(())
    }

    fn machine_of(&self, limit_ms: Option<u64>) -> Machine {
        let machine = Machine::new(clock::boot_ms(), limit_ms, self.task.grace_ms);
        machine.begins_with_term(self.prepared.base.sbatch)
    }

    /// This machine decides from now on. A suspension stays in force.
    fn follow_with(&mut self, machine: Machine) {
        let effects = self.machine.continue_with(machine, clock::boot_ms());
        self.carry_out(&effects);
    }

    /// The run limit counts from here.
    fn begin_command(&mut self) {
        let now = clock::boot_ms();
        let machine = Machine::new(now, self.limits.limits.run_ms, self.task.grace_ms);
        let machine = machine.warned(self.task.limits.warn);
        let machine = machine.begins_with_term(self.prepared.base.sbatch);
        let machine = machine.controlled(super::ends_by_program(self.task));
        let deadline = super::deadline_at(self.task, now, clock::wall_ms());
        let machine = machine.with_checkpoints(self.checkpoints(now));
        self.follow_with(machine.ends_at(deadline));
        (self.hook.phase, self.times.command_start) = (Phase::Command, clock::wall_ms());
    }

    /// Runs all post-exec commands that apply to this end. Returns the problems with them.
    /// `stopped_at`: the owner of the pre-exec after which the job was stopped, so that the command
    /// never ran.
    pub(super) fn run_post_exec(
        &mut self,
        end: &Ended,
        stopped_at: Option<HookOf>,
    ) -> Option<String> {
        let all = self.task.hooks.as_deref()?;
        let status = hooks::end_env(end, stopped_at.is_none());
        self.hook.phase = Phase::Post;
        if self.machine.is_suspended() {
            // A job that has ended is not resumed.
            self.thaw();
            self.machine = self.machine_of(None);
        }
        let mut wrong = Vec::new();
        for hook in &all.post {
            if !hooks::runs_after(hook, end, stopped_at) || self.is_fenced() {
                continue;
            }
            let over = self.run_hook(hook, "post-exec", &status);
            wrong.extend(hooks::hook_problem(hook, "post-exec", &over));
            if let HookEnd::Ended(_, TermReason::Force | TermReason::Fenced) = over {
                break;
            }
        }
        (!wrong.is_empty()).then(|| wrong.join("; "))
    }

    /// Runs one hook until all its processes have ended. `name`: of its kind.
    fn run_hook(&mut self, hook: &Hook, name: &str, status: &[String]) -> HookEnd {
        if let Err(reason) = self.until_resumed() {
            return HookEnd::Ended(TopEnd::Killed(signal::TERM, false), reason);
        }
        let limit_ms = self.hook.time_of(hook.limit_ms);
        self.machine = self.machine_of(Some(limit_ms));
        let started = self.check_program(hook).and_then(|()| {
            let input = (!hook.input.is_empty()).then(|| ipc::text_file(hook.input.as_bytes()));
            let input = input.transpose().map_err(|e| e.to_string())?;
            let started = self.launch_hook(hook, status, input);
            started.map_err(|e| format!("{}: {e}", hook.program()))
        });
        self.leave_group_of_task();
        match started {
            Err(why) => HookEnd::NotRun(why),
            Ok(top) => {
                self.hook.begins(hooks::hook_name(hook, name), limit_ms);
                let top = self.until_over(top, None);
                if self.hook.ends() {
                    let (a, hook) = (self.task.a, None);
                    self.record(&TaskRec::Hook { a, hook });
                }
                HookEnd::Ended(top, self.hook.reason(self.machine.reason()))
            }
        }
    }

    /// Reports the hook that runs, if it has taken long by now.
    pub(super) fn report_hook(&mut self, now: u64) {
        if let Some(hook) = self.hook.take_report(now) {
            let (a, hook) = (self.task.a, Some(Box::new(hook)));
            self.record(&TaskRec::Hook { a, hook });
        }
    }

    /// A person kills the job whose command is over.
    pub(super) fn end_post_exec(&mut self, reason: TermReason) {
        if let Some(limit_ms) = self.hook.ended_by(reason) {
            self.machine.set_run_limit(Some(limit_ms));
        }
    }

    /// A program that the administrator specifies runs only from a file that no other user could
    /// have written: with root's rights only from a file of root.
    fn check_program(&self, hook: &Hook) -> Result<(), String> {
        if hook.of == HookOf::Job {
            return Ok(());
        }
        let as_root = hook.user.as_ref().is_some_and(|user| user.uid == 0);
        self.check_file(hook.program(), as_root)
    }

    /// As `check_program`, for the file of a program.
    pub(super) fn check_file(&self, program: &str, as_root: bool) -> Result<(), String> {
        let owners = match &self.prepared.base.service {
            _ if as_root => Owners { uid: 0, gid: 0 },
            Some(TaskIdentity { uid, gid, .. }) => Owners {
                uid: *uid,
                gid: *gid,
            },
            None => Owners {
                uid: users::effective_uid(),
                gid: users::effective_gid(),
            },
        };
        let program = Path::new(program);
        let safe = owners.safe_to_load(program, program);
        safe.map_err(|e| e.to_string())
    }

    fn launch_hook(
        &mut self,
        hook: &Hook,
        status: &[String],
        input: Option<File>,
    ) -> Result<i32, crate::sys::launch::LaunchError> {
        let of_job = hook.of == HookOf::Job;
        if of_job {
            // Without room for temporary files, the command is not started after it.
            let _ = self.make_tmp();
        }
        let umask = if of_job {
            self.prepared.base.umask
        } else {
            0o022
        };
        userfile::set_umask(umask);
        let own = match of_job {
            true => self.own_env(),
            false => self.task.env.clone(),
        };
        let set: Vec<String> = hooks::own_env()
            .into_iter()
            .chain(status.to_vec())
            .collect();
        let (base, own, set) = (c_strings(&hook.env), c_strings(&own), c_strings(&set));
        let base: &[CString] = if of_job { &self.prepared.env } else { &base };
        let name = |e: &CStr| {
            e.to_bytes()
                .split(|b| *b == b'=')
                .next()
                .map(<[u8]>::to_vec)
        };
        let names: Vec<_> = set.iter().map(|e| name(e)).collect();
        let old = base.iter().chain(&own).map(CString::as_c_str);
        let old = old.filter(|e| !names.contains(&name(e)));
        let env: Vec<&CStr> = old.chain(set.iter().map(CString::as_c_str)).collect();
        let user = hook.user.as_ref().map(|b| ProcessIdentity {
            uid: b.uid,
            gid: b.gid,
            groups: b.groups.clone(),
        });
        let user = user.as_ref().or(self.prepared.user.as_ref());
        self.launch(&hook.argv, &env, None, Stdio::Hook(user, input.as_ref()))
    }

    /// Whether an order does not apply to what runs now. A job whose command is over has ended:
    /// users cannot stop what its queue runs after it, and end it only if it takes long.
    pub(super) fn ignores(&self, act: TaskAct, reason: TermReason) -> bool {
        if self.hook.phase == Phase::Command && self.machine.is_over() {
            return act == TaskAct::Stop;
        }
        let is_limit = matches!(
            reason,
            TermReason::MemLimit | TermReason::SwapLimit | TermReason::ProcessLimit
        );
        self.hook.phase == Phase::Post
            && match act {
                TaskAct::Terminate => !is_limit && !reason.is_of_person(),
                TaskAct::Stop | TaskAct::Number(_) | TaskAct::Checkpoint(_) => true,
                TaskAct::Kill | TaskAct::Resume | TaskAct::Resize | TaskAct::Limits => false,
            }
    }
}
