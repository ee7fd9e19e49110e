//! The shepherd of an interactive job: connects its input and output to the waiting command before
//! the job starts, and ends the job when that command is gone. Owns the meaning of orders until
//! then; the relay handles the bytes (`host::relay`).

use super::{Phase, Shepherd, supervise};
use crate::channel::Finish;
use crate::host::outputs::Files;
use crate::host::relay::{self, Relay, RelayMessage, RelayRequest};
use crate::model::{StartFault, TermReason};
use crate::record::report::Ended;
use crate::sys::locked_dir::LockedDir;
use crate::sys::{self, clock, proc};
use crate::task::machine::signal;
use crate::task::spec::{TaskAct, WaitingClient};

/// How long to wait for the relay before orders are handled (ms).
const LISTEN_MS: u64 = 20;
/// The exit code that the waiting command shows for a job that was ended and exited with 0.
const ENDED_CODE: i32 = 1;
/// SIGHUP and SIGCONT.
const HANG_UP: i32 = 1;
const CONTINUE: i32 = 18;

impl Shepherd<'_> {
    /// Connects the job's input and output to the command that waits for it, if there is one.
    ///
    /// # Errors
    /// The end of the job, which is not to be started.
    pub(super) fn connect(&mut self, files: &mut Files) -> Result<Option<Relay>, Box<Ended>> {
        let Some(caller) = self.prepared.base.caller.as_deref() else {
            return Ok(None);
        };
        // Processes in the group get the task's signals.
        self.leave_group_of_task();
        let failed =
            |s: &Self, e: &sys::Error| Box::new(s.failed(None, (e.to_string(), e.start_fault())));
        let begun = relay::begin(&self.relay_request(caller));
        let (mut relay, ends) = begun.map_err(|e| failed(self, &e))?;
        self.relay = relay.pid;
        match self.until_reached(&mut relay)? {
            RelayMessage::Connected(env) => {
                relay.env = env;
                files.use_connected_files([ends.stdin, ends.stdout, ends.stderr], ends.is_pty);
                Ok(Some(relay))
            }
            RelayMessage::Files(_) => {
                self.relay = 0;
                let base = &self.prepared.base;
                let (user, service) = (self.prepared.user.as_ref(), self.prepared.service.as_ref());
                let opened = files.open_default(self.task, base, user, service);
                opened.map_err(|e| failed(self, &e))?;
                Ok(None)
            }
            RelayMessage::Gone(why) => {
                self.relay = 0;
                Err(Box::new(
                    self.failed(None, (why.to_string(), StartFault::Job)),
                ))
            }
        }
    }

    fn relay_request<'a>(&'a self, caller: &'a WaitingClient) -> RelayRequest<'a> {
        let base = &self.prepared.base;
        RelayRequest {
            a: self.task.a,
            host: &self.inherited.host,
            caller,
            user: self.prepared.user.as_ref(),
            own_files: [
                !base.stdin.is_empty(),
                !base.stdout.path.is_empty(),
                !base.stderr.path.is_empty(),
            ],
            dir: self.tmp.as_ref().map(LockedDir::path),
        }
    }

    /// Waits for the relay and carries out orders meanwhile.
    ///
    /// # Errors
    /// The job is ended before its command could begin.
    fn until_reached(&mut self, relay: &mut Relay) -> Result<RelayMessage, Box<Ended>> {
        loop {
            if let Some(reached) = relay.wait_for_result(LISTEN_MS) {
                return Ok(reached);
            }
            let effects = self.machine.tick(clock::boot_ms());
            self.carry_out(&effects);
            loop {
                match supervise::wait_signal(Some(0)) {
                    supervise::WakeReason::Order(value, uid) => self.order(value, uid, None),
                    supervise::WakeReason::Child => {}
                    supervise::WakeReason::Timeout => break,
                }
            }
            let reason = self.machine.reason();
            let fenced = self.is_fenced();
            if reason == TermReason::None && !fenced {
                continue;
            }
            self.relay = 0;
            let _ = proc::kill(relay.pid, signal::KILL);
            let reason = if fenced { TermReason::Fenced } else { reason };
            return Err(Box::new(self.ended_before(reason)));
        }
    }

    /// The relay ended before the job did: the waiting command has ended. The job gets the signals
    /// of a terminal that hangs up, and is ended as by an order.
    pub(super) fn client_lost(&mut self) {
        self.relay = 0;
        if self.hook.phase != Phase::Command {
            return;
        }
        let (grace, now) = (self.task.grace_ms, clock::boot_ms());
        let act = TaskAct::Terminate;
        let effects = self.machine.order(act, TermReason::Owner, grace, now);
        self.signal_all(HANG_UP);
        // A stopped process would not receive it.
        self.thaw();
        self.signal_all(CONTINUE);
        self.carry_out(&effects);
    }

    /// Whether the relay is the only remaining child of this process.
    pub(super) fn has_relay_only(&self) -> bool {
        let children = proc::children(std::process::id() as i32);
        self.relay > 0 && children.iter().all(|pid| *pid == self.relay)
    }
}

/// The end as reported to the waiting command.
pub(super) fn finish_of(end: &Ended) -> Finish {
    let text = match (end.reason, end.text.as_str()) {
        (TermReason::None, text) => text.to_owned(),
        (reason, "") => format!("{reason}: {}", reason.sentence()),
        (reason, text) => format!("{reason}: {text}"),
    };
    // The exit code of a handler is not that of the command.
    let ended = end.code == Some(0) && !end.reason.allows_success();
    Finish {
        code: if ended { Some(ENDED_CODE) } else { end.code },
        sig: end.sig,
        text,
    }
}
