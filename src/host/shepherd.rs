//! The shepherd of one task: starts the job, watches it, records its end. One process per task.
//!
//! Forked by the spawner without exec; outlives it and `cbexe`. Carries out what `task::machine`
//! decides. Writes the host's tasks log (one append per record) and the job's output files, and
//! nothing on the share except the default output.

mod checkpoints;
mod controls;
mod hook_watch;
mod hooks;
mod launching;
mod orphan;
mod session;
mod suspended;

use self::checkpoints::Helpers;
use self::hook_watch::{HookWatch, Phase};
use super::command_records;
use super::local::Local;
use super::outputs::{self, Files};
use super::relay::Relay;
use super::silence::Silence;
use super::spawner::group_limits;
use super::tmp_dirs;
use crate::model::{ControlAct, ControlOf, StartFault, TermReason};
use crate::record::report::{Ended, Usage};
use crate::sys::append::SharedAppender;
use crate::sys::cgroup::Group;
use crate::sys::ipc::Bell;
use crate::sys::launch::{self, ProcessIdentity, c_strings};
use crate::sys::locked_dir::LockedDir;
use crate::sys::supervise::{self, Reaped, WakeReason};
use crate::sys::{self, clock, failpoint, fs, proc, signals, statfs, userfile};
use crate::task::build;
use crate::task::ending::{self, EndFacts, TopEnd};
use crate::task::log::{TaskRec, encode_task};
use crate::task::machine::Machine;
use crate::task::sent_signal::sent_text;
use crate::task::spec::{
    NewLimits, Notice, TaskAct, TaskBase, TaskIdentity, TaskSpec, ToSpawner, split, unpack_act,
};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Pause before a failed write of a record is repeated (ms).
const RETRY_MS: u64 = 1_000;
/// Maximum size of a notice of added slots in bytes.
const NOTICE_MAX: u64 = 16 << 20;
/// Maximum size of a file of changed limits in bytes.
const LIMITS_MAX: u64 = 64 << 10;
/// Exit codes of a shepherd: its group can be reused; its group has other limits than the spawner
/// gave it, and it has no directory to be reused (3); it failed, and a task that it was sent may
/// not have run (101).
pub(super) const ENDED: i32 = 0;
pub(super) const ENDED_WITH_OTHER_LIMITS: i32 = 3;
/// As `ENDED`, but its directory for temporary files cannot be reused.
pub(super) const ENDED_WITHOUT_TMP: i32 = 4;
pub(super) const FAILED: i32 = 101;

/// A base with data that is derived from it once for all its tasks.
pub(super) struct Prepared {
    pub base: TaskBase,
    env: Vec<CString>,
    path: String,
    /// The submitter specified where temporary files go.
    pub names_tmp: bool,
    user: Option<ProcessIdentity>,
    service: Option<ProcessIdentity>,
}

impl Prepared {
    pub(super) fn new(base: TaskBase) -> Prepared {
        let who = |b: &TaskIdentity| ProcessIdentity {
            uid: b.uid,
            gid: b.gid,
            groups: b.groups.clone(),
        };
        let path = base.env.iter().find_map(|e| e.strip_prefix("PATH="));
        Prepared {
            env: base
                .env
                .iter()
                .filter_map(|e| CString::new(e.as_str()).ok())
                .collect(),
            path: path.unwrap_or(build::DEFAULT_PATH).to_owned(),
            names_tmp: base.names("TMPDIR"),
            user: base.user.as_ref().map(who),
            service: base.service.as_ref().map(who),
            base,
        }
    }
}

/// What a shepherd inherits from the spawner.
pub(super) struct Inherited {
    pub log: SharedAppender,
    pub bell: Bell,
    pub null: File,
    /// Kept open until the start is recorded: see `Local::spawner_lock`.
    pub start_lock: Option<File>,
    /// When the spawner was about to fork this process (boot-time clock).
    pub forked_at: u64,
    /// The spawner's process id.
    pub spawner: i32,
    pub host: String,
    pub boot: String,
    pub local: Local,
    /// Prefix of the names of directories for temporary files that no spawner gives.
    pub tmp_prefix: String,
    /// The directory that the spawner lends this task.
    pub tmp: Option<PathBuf>,
}

struct Shepherd<'a> {
    task: &'a TaskSpec,
    prepared: &'a Prepared,
    group: Option<Group>,
    inherited: &'a mut Inherited,
    machine: Machine,
    times: Times,
    /// Suspended by signals, because there is no freezer.
    stopped: bool,
    /// This process is still in the task's group.
    inside: bool,
    /// Number of the last resize of which the job was notified.
    resized: u32,
    /// The limits in force now, with the number of their last change.
    limits: NewLimits,
    helpers: Helpers,
    /// For a rerunnable task: the leader starts it elsewhere if this host is silent for too long.
    silence: Option<Silence>,
    /// The job's own directory for temporary files, if its submitter specified none.
    tmp: Option<LockedDir>,
    hook: HookWatch,
    /// The process that connects the job to a waiting command: a child that is not part of the job.
    /// 0: none.
    relay: i32,
}

/// Wall clock, ms.
#[derive(Clone, Copy)]
struct Times {
    start: i64,
    /// When the command began: later than `start` by the time of the hooks before it.
    command_start: i64,
}

/// The input and output of a program.
enum Stdio<'a> {
    /// The job's, with the job's user and working directory.
    Job(&'a Files),
    /// None except perhaps an input, with this user and in the directory of hooks.
    Hook(Option<&'a ProcessIdentity>, Option<&'a File>),
}

/// When the leader ends the task (boot-time clock), as specified at its start.
fn deadline_at(task: &TaskSpec, now: u64, wall: i64) -> Option<u64> {
    let left = task.limits.deadline?.saturating_sub(wall).max(0);
    Some(now.saturating_add(left.unsigned_abs()))
}

/// Whether the queue defines how the task is terminated.
fn ends_by_program(task: &TaskSpec) -> bool {
    let hooks = task.hooks.as_deref();
    let act = hooks.and_then(|hooks| hooks.controls.get(ControlOf::Terminate));
    act.is_some_and(|act| *act != ControlAct::Checkpoint)
}

/// Waits in its group for the base and the task that come on `stream`, then runs the task. Returns
/// the exit code of this process.
pub(super) fn wait_and_run(stream: &File, group: Group, inherited: &mut Inherited) -> i32 {
    let started_ms = proc::forked_birth_ms(inherited.forked_at);
    supervise::become_supervisor();
    if group.enter().is_err() {
        return FAILED;
    }
    let mut buf: Vec<u8> = Vec::new();
    let mut prepared = None;
    loop {
        if userfile::read_more(stream, &mut buf, 16 << 10).unwrap_or(0) == 0 {
            // The spawner ended and had no task for this process.
            return match buf.is_empty() && prepared.is_none() {
                true => ENDED,
                false => FAILED,
            };
        }
        let mut used = 0;
        while let Ok(Some((json, n))) = split(&buf[used..]) {
            used += n;
            match (serde_json::from_slice(json), &prepared) {
                (Ok(ToSpawner::Base { base, .. }), _) => prepared = Some(Prepared::new(*base)),
                (Ok(ToSpawner::Start(task)), Some(p)) => {
                    return run_task(&task, p, Some(group), inherited, started_ms, true);
                }
                _ => return FAILED,
            }
        }
        buf.drain(..used);
    }
}

/// Runs the task from start to end. Called in the forked process, which then ends with this exit
/// code.
pub(super) fn run(
    task: &TaskSpec,
    prepared: &Prepared,
    group: Option<Group>,
    inherited: &mut Inherited,
) -> i32 {
    let started_ms = proc::forked_birth_ms(inherited.forked_at);
    supervise::become_supervisor();
    run_task(task, prepared, group, inherited, started_ms, false)
}

/// The task's group. What a container daemon starts for the task is counted by the group alone.
fn group_of_task(task: &TaskSpec, mut group: Option<Group>) -> Option<Group> {
    if let (Some(hooks), Some(group)) = (&task.hooks, &mut group)
        && hooks.daemon
    {
        group.count_below();
    }
    group
}

/// `started_ms`: when this process began; `inside`: it is in the task's group and must leave it.
fn run_task(
    task: &TaskSpec,
    prepared: &Prepared,
    group: Option<Group>,
    inherited: &mut Inherited,
    started_ms: u64,
    inside: bool,
) -> i32 {
    let begin = clock::boot_ms();
    supervise::name_supervisor();
    let silence = task.rerunnable.then(|| Silence::new(&inherited.local));
    let start = clock::wall_ms();
    let machine = Machine::new(begin, task.limits.run_ms, task.grace_ms)
        .warned(task.limits.warn)
        .begins_with_term(prepared.base.sbatch)
        .controlled(ends_by_program(task))
        .ends_at(deadline_at(task, begin, start));
    let mut s = Shepherd {
        task,
        prepared,
        group: group_of_task(task, group),
        inherited,
        machine,
        times: Times {
            start,
            command_start: start,
        },
        stopped: false,
        inside,
        resized: 0,
        limits: NewLimits {
            n: task.limits.changes,
            limits: task.limits.clone(),
        },
        helpers: Helpers::default(),
        silence,
        tmp: None,
        hook: HookWatch::default(),
        relay: 0,
    };
    failpoint::hit("shepherd.before_start");
    s.record(&TaskRec::Start {
        a: task.a,
        pid: std::process::id() as i32,
        born: started_ms,
        boot: s.inherited.boot.clone(),
        group: s
            .group
            .as_ref()
            .map_or(String::new(), |g| g.name().to_owned()),
        t: start,
        cpus: task.limits.cpus.clone().unwrap_or_default(),
    });
    s.inherited.start_lock = None;
    let mut relay = None;
    let (stopped_at, mut end) = match s.run_pre_exec() {
        Ok(()) => (None, s.command(&mut relay)),
        Err((of, end)) => (Some(of), *end),
    };
    let trouble = s.run_post_exec(&end, stopped_at);
    end.post_failed = trouble.is_some();
    end.text = join_texts(end.text, trouble);
    s.remove_files();
    // Its group denies other devices than the spawner set, or has other limits.
    let changed = s.limits.n > task.limits.changes || s.resized > 0;
    let tmp = s.leave_tmp(!changed);
    failpoint::hit("shepherd.before_end");
    let finish = relay.is_some().then(|| session::finish_of(&end));
    s.record_end(end);
    failpoint::hit("shepherd.after_end");
    if let (Some(relay), Some(finish)) = (relay, finish) {
        relay.finish(finish, s.relay > 0);
    }
    s.leave_group();
    match (changed, tmp) {
        (false, true) => ENDED,
        (false, false) => ENDED_WITHOUT_TMP,
        (true, _) => ENDED_WITH_OTHER_LIMITS,
    }
}

impl Shepherd<'_> {
    /// Runs the command with its files. `relay`: receives its connection to a waiting command.
    fn command(&mut self, relay: &mut Option<Relay>) -> Ended {
        let (task, base) = (self.task, &self.prepared.base);
        let (user, service) = (self.prepared.user.as_ref(), self.prepared.service.as_ref());
        let files = outputs::hand_script(task, user)
            .and_then(|()| outputs::open(task, base, user, service, &self.inherited.host));
        let mut files = match files {
            Err(e) => return self.failed(None, (e.to_string(), e.start_fault())),
            Ok(files) => files,
        };
        // The files may be on the share, and opening them may have taken long.
        if self.is_fenced() {
            return self.cut_off();
        }
        if let Err(e) = self.make_tmp() {
            let fault = match e.is_over_quota() {
                true => StartFault::Unclear,
                false => StartFault::Host,
            };
            return self.failed(None, (e.to_string(), fault));
        }
        let mut end = match self.connect(&mut files) {
            Err(end) => *end,
            Ok(connected) => {
                *relay = connected;
                self.run_to_end(&mut files, relay.as_ref())
            }
        };
        let host = &self.inherited.host;
        let trouble = files.finish(task, base, user, service, host, &end);
        end.text = join_texts(end.text, trouble);
        end
    }

    /// Appends a record, however long the disk stays full: no other process has the information.
    fn record(&mut self, rec: &TaskRec) {
        if self.prepared.base.is_beside() {
            let pid = std::process::id() as i32;
            while command_records::write(&self.inherited.local, pid, rec).is_err() {
                clock::sleep_ms(RETRY_MS);
            }
            return self.inherited.bell.ring();
        }
        let line = encode_task(rec, self.task.mark).expect("a record of plain data becomes JSON");
        while self.inherited.log.append(&line).is_err() {
            clock::sleep_ms(RETRY_MS);
        }
        self.inherited.bell.ring();
    }

    fn record_end(&mut self, end: Ended) {
        let ends_job = self.prepared.base.is_beside() && end.reason.ends_job_of_command();
        self.record(&TaskRec::End(Box::new(end)));
        if ends_job {
            // Its job may end as soon as the waiting command does: the reason is reported before.
            let pid = std::process::id() as i32;
            command_records::wait_until_read(&self.inherited.local, self.task.a, pid);
        }
    }

    fn failed(&self, code: Option<i32>, why: (String, StartFault)) -> Ended {
        let mut end = ending::not_started(self.task.a, code, why);
        (end.start, end.t) = (self.times.start, clock::wall_ms());
        end
    }

    fn cut_off(&self) -> Ended {
        let why = "cut off from the share before it could start".to_owned();
        let mut end = self.failed(None, (why, StartFault::Job));
        end.reason = TermReason::Fenced;
        end
    }

    fn not_launched(&self, e: &launch::LaunchError, text: String) -> Ended {
        self.failed(e.shell_code(), (text, e.fault()))
    }

    /// Runs the program until its last process has ended.
    fn run_to_end(&mut self, files: &mut Files, relay: Option<&Relay>) -> Ended {
        if let Err(reason) = self.until_resumed() {
            return self.ended_before(reason);
        }
        let env = relay.map_or(&[][..], |relay| &relay.env);
        let top = match self.start(files, env) {
            Ok(pid) => pid,
            Err(e) => {
                let program = self.task.argv.first().map_or("", String::as_str);
                let text = format!("{program}: {e}");
                files.write_error(&text);
                self.leave_group_of_task();
                return self.not_launched(&e, text);
            }
        };
        self.leave_group_of_task();
        self.helpers.leader = top;
        files.close_connected_files();
        if let Some(relay) = relay {
            relay.begun(top);
        }
        let top = self.until_over(top, Some(&*files));
        self.ended(top)
    }

    /// Carries out orders and enforces limits until no process that process `top` started is left.
    /// `files`: those of the job, while its command runs.
    fn until_over(&mut self, top: i32, files: Option<&Files>) -> TopEnd {
        let mut status = None;
        loop {
            // First of all: what ended by itself was not ended by a limit or an order that is
            // handled now.
            if self.collect(top, &mut status) {
                break;
            }
            let now = clock::boot_ms();
            self.end_late_helpers(now);
            let before = self.machine.is_suspended();
            let effects = self.machine.tick(now);
            self.carry_out(&effects);
            self.note_suspension(before);
            self.report_hook(now);
            if self.is_fenced() {
                self.silence = None;
                let (act, reason) = (TaskAct::Kill, TermReason::Fenced);
                let effects = self.machine.order(act, reason, 0, now);
                self.carry_out(&effects);
            }
            let now = clock::boot_ms();
            let wait = self
                .machine
                .next_at(now)
                .map(|at| at.saturating_sub(now).min(60_000));
            let ends = self.helper_ends().into_iter().chain(self.hook.report_at());
            let ends = ends.map(|at| at.saturating_sub(now));
            let wait = ends.chain(wait).min();
            let look = self.silence.as_ref().map(Silence::pause);
            let wait = look.map_or(wait, |look| Some(wait.map_or(look, |wait| wait.min(look))));
            match supervise::wait_signal(wait) {
                WakeReason::Order(..) if self.collect(top, &mut status) => break,
                WakeReason::Order(value, uid) => self.order(value, uid, files),
                WakeReason::Child | WakeReason::Timeout => {}
            }
        }
        match status.expect("the loop ends only after the top process") {
            supervise::Ended::Exited(code) => TopEnd::Exited(code),
            supervise::Ended::Killed(signal, core) => TopEnd::Killed(signal, core),
        }
    }

    /// Whether the host has been silent for so long that the task may run elsewhere by now.
    fn is_fenced(&mut self) -> bool {
        self.silence.as_mut().is_some_and(Silence::exceeded_limit)
    }

    /// Leaves the task's group, once the job has inherited it.
    fn leave_group_of_task(&mut self) {
        if std::mem::take(&mut self.inside)
            && let Some(Err(e)) = self.group.as_ref().map(Group::leave)
        {
            // Processes in the group get the task's signals: follow the task by descent instead.
            self.group = None;
            eprintln!("cbtask: {e}");
        }
    }

    /// Collects ended children. Returns true if no process of the task is left.
    fn collect(&mut self, top: i32, status: &mut Option<supervise::Ended>) -> bool {
        loop {
            match supervise::reap() {
                Reaped::Child(pid, how) if pid == top => {
                    *status = Some(how);
                    // The usual task leaves no processes: check before killing.
                    let left = match supervise::reap() {
                        Reaped::Running => !self.has_relay_only(),
                        Reaped::Child(pid, how) => {
                            self.helper_ended(pid, how);
                            true
                        }
                        Reaped::None => false,
                    };
                    if !left && self.is_empty() {
                        return true;
                    }
                    let effects = self.machine.top_ended(clock::boot_ms());
                    self.carry_out(&effects);
                }
                Reaped::Child(pid, _) if pid == self.relay => self.client_lost(),
                Reaped::Child(pid, how) => self.helper_ended(pid, how),
                Reaped::Running if status.is_some() && self.has_relay_only() => {
                    return self.is_empty();
                }
                Reaped::Running => return false,
                Reaped::None => return status.is_some() && self.is_empty(),
            }
        }
    }

    /// Every descendant becomes a child of this process in the end, so only a process that joined
    /// the group from elsewhere could be left.
    fn is_empty(&self) -> bool {
        self.group.as_ref().is_none_or(Group::is_empty)
    }

    fn ended(&self, top: TopEnd) -> Ended {
        let mut used = supervise::child_usage();
        let mut limit_hits = 0;
        if let Some(all) = self.group.as_ref().and_then(Group::used_below) {
            used.cpu_us = used.cpu_us.max(all.cpu_us);
            used.maxrss_kb = used.maxrss_kb.max(all.most_kb);
            limit_hits = all.limit_hits;
        }
        let facts = EndFacts {
            top,
            ordered: self.machine.reason(),
            sent: ending::killed_by(top).and_then(|signal| self.machine.sent(signal)),
            oom_kills: self.group.as_ref().map_or(0, Group::oom_kills),
            limit_hits,
            refused_processes: match (&self.group, self.limits.limits.procs) {
                (Some(group), Some(_)) => group.refused_processes(),
                _ => 0,
            },
            cpu_ms: used.cpu_us / 1000,
        };
        let mut end = ending::ended(self.task.a, &facts, &self.limits.limits);
        if end.reason == TermReason::None
            && let Some(sent) = facts.sent
        {
            end.text = sent_text(sent, &signals::name(sent.signal));
        }
        (end.start, end.t) = (self.times.start, clock::wall_ms());
        end.u = Usage {
            cpu_ms: used.cpu_us / 1000,
            maxmem_kb: used.maxrss_kb,
            read_kb: used.read_kb,
            write_kb: used.write_kb,
            // The samples of `cbexe` are better for tasks that run long enough to be sampled.
            procs: 1,
            threads: 1,
            ..Usage::default()
        };
        end
    }

    /// Makes the job's own directory for temporary files, once, if it needs one.
    ///
    /// # Errors
    /// There is no room for temporary files.
    fn make_tmp(&mut self) -> sys::Result<()> {
        // A job with windows has their cookie there.
        let windows = self
            .prepared
            .base
            .caller
            .as_ref()
            .is_some_and(|c| c.task == 0);
        if self.prepared.names_tmp && !windows {
            return Ok(());
        }
        if self.tmp.is_none() {
            let Inherited {
                tmp, tmp_prefix, ..
            } = &*self.inherited;
            self.tmp = tmp_dirs::make(tmp.as_deref(), tmp_prefix, self.prepared.user.as_ref())?;
        }
        statfs::check_room(Path::new(tmp_dirs::TMP))
    }

    /// Empties a directory that the spawner lent and returns true; removes any other. `reuse`:
    /// whether the spawner takes it back.
    fn leave_tmp(&mut self, reuse: bool) -> bool {
        let (tmp, user) = (self.tmp.take(), self.prepared.user.as_ref());
        let Some(tmp) = tmp else {
            return false;
        };
        let is_borrowed = self.inherited.tmp.as_deref() == Some(tmp.path()) && !self.is_orphan();
        if reuse && is_borrowed && tmp_dirs::clear(&tmp, user).is_ok() {
            return true;
        }
        tmp_dirs::remove(tmp, user);
        false
    }

    /// Opens the devices of added units, and runs the command of `-rnc` beside the job, in its
    /// group and with its files, once for each notice.
    fn notify_resize(&mut self, files: &Files) {
        let path = Path::new(&self.task.resize.notice);
        let notice = fs::read_small(path, NOTICE_MAX).ok();
        let notice = notice.and_then(|b| serde_json::from_slice::<Notice>(&b).ok());
        let Some(notice) = notice.filter(|n| n.n > self.resized) else {
            return;
        };
        self.resized = notice.n;
        let allowed = self.group.as_mut().map(|g| g.allow(&notice.devices));
        if let Some(Err(e)) = allowed {
            eprintln!("cbtask: {e}");
        }
        if self.task.resize.notify.is_empty() {
            return;
        }
        let name = |e: &[u8]| e.split(|b| *b == b'=').next().map(<[u8]>::to_vec);
        let names: Vec<_> = notice.env.iter().map(|e| name(e.as_bytes())).collect();
        let (own, new) = (c_strings(&self.own_env()), c_strings(&notice.env));
        let old = self.prepared.env.iter().chain(&own);
        let old = old.filter(|e| !names.contains(&name(e.to_bytes())));
        let env: Vec<&CStr> = old.chain(&new).map(CString::as_c_str).collect();
        let argv = ["/bin/sh", "-c", &self.task.resize.notify].map(str::to_owned);
        if let Err(e) = self.launch(&argv, &env, None, Stdio::Job(files)) {
            files.write_error(&format!("-rnc {}: {e}", self.task.resize.notify));
        }
    }

    /// Removes the task's files in the local directory.
    fn remove_files(&self) {
        let task = self.task;
        for path in [&task.scratch, &task.hosts_file, &task.resize.notice] {
            if !path.is_empty() {
                let _ = fs::remove(Path::new(path));
            }
        }
        if task.limits.cpus.is_some() && !self.prepared.base.is_beside() {
            let _ = fs::remove(&self.inherited.local.cpus_file(task.a));
        }
        if task.limits.warn.is_some() {
            let _ = fs::remove(&self.inherited.local.warning_file(task.a));
        }
        // The limits file of commands is shared by everything that the attempt has started here.
        if self.limits.n > 0 && !self.prepared.base.is_beside() {
            let _ = fs::remove(&self.inherited.local.limits_file(task.a));
        }
    }

    /// Applies changed limits: the run limit counts from the start, the control group gets the
    /// others. If a lower limit cannot be set because the usage exceeds it, the task is ended.
    /// Commands that a job starts by `claunch` have no run limit of their own.
    fn take_limits(&mut self) {
        let (local, is_beside) = (&self.inherited.local, self.prepared.base.is_beside());
        let path = match is_beside {
            true => local.part_limits_file(self.task.a),
            false => local.limits_file(self.task.a),
        };
        let text = fs::read_small(&path, LIMITS_MAX).ok();
        let new = text.and_then(|b| serde_json::from_slice::<NewLimits>(&b).ok());
        let Some(new) = new.filter(|new| new.n > self.limits.n) else {
            return;
        };
        self.limits = new;
        if self.hook.phase == Phase::Command && !is_beside {
            let void = self.machine.set_run_limit(self.limits.limits.run_ms);
            if void {
                let _ = fs::remove(&self.inherited.local.warning_file(self.task.a));
            }
        }
        let limits = group_limits(&self.limits.limits);
        if let Some(Err(e)) = self.group.as_mut().map(|group| group.change(&limits)) {
            eprintln!("cbtask: {e}");
            if e.is_busy() {
                let (act, reason) = (TaskAct::Terminate, TermReason::MemLimit);
                let (grace, now) = (self.task.grace_ms, clock::boot_ms());
                let effects = self.machine.order(act, reason, grace, now);
                self.carry_out(&effects);
            }
        }
    }

    fn order(&mut self, value: u64, uid: u32, files: Option<&Files>) {
        // Without privilege any process of the same user may signal a shepherd; a privileged
        // shepherd accepts orders only from root's processes.
        let me = crate::sys::users::effective_uid();
        let Some((act, reason, grace)) = unpack_act(value).filter(|_| uid == 0 || uid == me) else {
            return;
        };
        if self.ignores(act, reason) {
            return;
        }
        match act {
            // Only the command is notified.
            TaskAct::Resize => return files.map_or((), |files| self.notify_resize(files)),
            TaskAct::Limits => return self.take_limits(),
            TaskAct::Terminate if self.hook.phase == Phase::Post && reason.is_of_person() => {
                return self.end_post_exec(reason);
            }
            _ => {}
        }
        let before = self.machine.is_suspended();
        let effects = self.machine.order(act, reason, grace, clock::boot_ms());
        self.carry_out(&effects);
        self.note_suspension(before);
    }

    /// Records a change between suspended and running.
    fn note_suspension(&mut self, before: bool) {
        let on = self.machine.is_suspended();
        if on != before {
            let (a, t) = (self.task.a, clock::wall_ms());
            self.record(&TaskRec::Susp { a, on, t });
        }
    }
}

/// Joins two texts about one end.
fn join_texts(text: String, more: Option<String>) -> String {
    match more {
        Some(more) if text.is_empty() => more,
        Some(more) => format!("{text}; {more}"),
        None => text,
    }
}
