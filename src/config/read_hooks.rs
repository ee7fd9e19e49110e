//! Settings of the programs that run around a job's command. Owns their keys and ranges, and the
//! rule that an administrator's program is named by its path, without a shell; never runs anything.

use super::keys::CONTROLS;
use super::policy::{CONTROL_SIGNALS, HookRules, QueueHooks, RetryAction, WARN_SIGNALS};
use super::read::{Ctx, DAY, Fields, SECOND};
use crate::model::{
    Checkpoint, ControlAct, Controls, RunWarning, WARN_BEFORE_MAX_S, WarnedProcesses,
};
use crate::text::hook;

/// Maximum number of attempts of a job whose pre-exec fails.
const MAX_RETRIES: u64 = 1_000;
/// Maximum length of a command of a queue, in bytes.
const MAX_COMMAND: usize = 4095;

/// The settings of section `general`.
pub(super) fn general(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> HookRules {
    let mut out = HookRules::default();
    let mut time = |key, slot: &mut u64| {
        if let Some(t) = f.time(ctx, key, SECOND, DAY) {
            *slot = t;
        }
    };
    time("pre_exec_timeout", &mut out.pre_exec_timeout_ms);
    time("post_exec_timeout", &mut out.post_exec_timeout_ms);
    time("checkpoint_timeout", &mut out.checkpoint_timeout_ms);
    out.checkpoint_methods = directory(ctx, f, "checkpoint_methods");
    if let Some(n) = f.number(ctx, "pre_exec_retries", 0, MAX_RETRIES) {
        out.pre_exec_retries = n as u32;
    }
    let actions = [
        ("suspend", RetryAction::Suspend),
        ("exit", RetryAction::Exit),
    ];
    if let Some(action) = f.choice(ctx, "pre_exec_retry_action", &actions) {
        out.pre_exec_retry_action = action;
    }
    out
}

/// The settings of a queue.
pub(super) fn queue(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> QueueHooks {
    let out = QueueHooks {
        pre: program(ctx, f, "pre_exec"),
        post: program(ctx, f, "post_exec"),
        user: user(ctx, f),
        starter: command_line(ctx, f, "job_starter"),
        controls: controls(ctx, f),
        checkpoint: checkpoint(ctx, f),
    };
    if !out.user.is_empty() && out.pre.is_empty() && out.post.is_empty() {
        let key = "pre_post_exec_user";
        let message = format!("{key} has no effect without pre_exec or post_exec");
        ctx.warn(f.key_pos(key), "no-effect", message, None);
    }
    out
}

/// The absolute path of a directory; empty = none.
fn directory(ctx: &mut Ctx<'_>, f: &Fields<'_>, key: &str) -> String {
    let Some(w) = f.scalar(ctx, key) else {
        return String::new();
    };
    let path = w.text.trim_end_matches('/');
    if !path.starts_with('/') || path.len() > MAX_COMMAND || path.contains(char::is_control) {
        let message = format!(
            "{key}: {:?} is not the absolute path of a directory",
            w.text
        );
        ctx.problem(w.pos, "program", message);
        return String::new();
    }
    path.to_owned()
}

/// `chkpnt: DIR [init=MINUTES] [MINUTES] [method=NAME]`.
pub(super) fn checkpoint(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Option<Checkpoint> {
    let w = f.scalar(ctx, "chkpnt")?;
    let read = Checkpoint::parse(&w.text).and_then(|what| match what.dir.starts_with('/') {
        true => Ok(what),
        false => Err(format!(
            "{:?} is not the absolute path of a directory",
            what.dir
        )),
    });
    match read {
        Ok(what) => Some(what),
        Err(why) => {
            let hint = "write /DIR [init=MINUTES] [MINUTES] [method=NAME]";
            ctx.problem_hint(w.pos, "program", format!("chkpnt: {why}"), hint);
            None
        }
    }
}

/// Shell words, run as the job's user: `job_starter`, the hooks of an application.
pub(super) fn command_line(ctx: &mut Ctx<'_>, f: &Fields<'_>, key: &str) -> String {
    let Some(w) = f.scalar(ctx, key) else {
        return String::new();
    };
    if w.text.len() > MAX_COMMAND || w.text.contains(char::is_control) {
        let message = format!("{key}: one line of at most {MAX_COMMAND} bytes");
        ctx.problem(w.pos, "range", message);
        return String::new();
    }
    if w.text.trim().is_empty() {
        let hint = match key {
            "job_starter" => "leave the key out, or write the words that start a job",
            _ => "leave the key out, or write a command",
        };
        ctx.problem_hint(w.pos, "program", format!("{key} is empty"), hint);
        return String::new();
    }
    w.text
}

/// `job_controls: {suspend: SIGNAL or PROGRAM, ...}`.
pub(super) fn controls(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Controls {
    let node = f.node("job_controls");
    let fields = node.and_then(|node| Fields::new(ctx, node, CONTROLS, "job_controls"));
    let Some(f) = fields else {
        return Controls::default();
    };
    Controls {
        suspend: control(ctx, &f, "suspend"),
        resume: control(ctx, &f, "resume"),
        terminate: control(ctx, &f, "terminate"),
    }
}

fn control(ctx: &mut Ctx<'_>, f: &Fields<'_>, key: &str) -> Option<ControlAct> {
    let w = f.scalar(ctx, key)?;
    let bare = w.text.strip_prefix("SIG").unwrap_or(&w.text);
    if let Some((_, number)) = CONTROL_SIGNALS.iter().find(|(name, _)| *name == bare) {
        return Some(ControlAct::Signal(*number));
    }
    if w.text == "CHKPNT" && key != "resume" {
        return Some(ControlAct::Checkpoint);
    }
    if !w.text.starts_with('/') {
        let names: Vec<&str> = CONTROL_SIGNALS.iter().map(|(name, _)| *name).collect();
        let message = format!("{key}: {:?} is neither a signal nor a program", w.text);
        let hint = match w.text.as_str() {
            "CHKPNT" => "a checkpoint comes before suspend or terminate".to_owned(),
            _ => format!(
                "write one of {}, CHKPNT, or /PATH/TO/PROGRAM ARGUMENTS",
                names.join(" ")
            ),
        };
        ctx.problem_hint(w.pos, "choice", message, hint);
        return None;
    }
    let words = program(ctx, f, key);
    (!words.is_empty()).then_some(ControlAct::Program(words))
}

/// `warn_time` and `warn_signal`.
pub(super) fn warning(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Option<RunWarning> {
    let signal = f.choice(ctx, "warn_signal", &WARN_SIGNALS);
    let Some(ms) = f.time(ctx, "warn_time", SECOND, WARN_BEFORE_MAX_S * SECOND) else {
        if f.has("warn_signal") && !f.has("warn_time") {
            let message = "warn_signal has no effect without warn_time";
            ctx.warn(f.key_pos("warn_signal"), "no-effect", message, None);
        }
        return None;
    };
    Some(RunWarning {
        to: WarnedProcesses::All,
        signal: signal.unwrap_or(WARN_SIGNALS[0].1),
        before_s: ms / SECOND,
    })
}

/// A program by its absolute path, with plain arguments; empty = none.
fn program(ctx: &mut Ctx<'_>, f: &Fields<'_>, key: &str) -> String {
    let Some(w) = f.scalar(ctx, key) else {
        return String::new();
    };
    if w.text.len() > MAX_COMMAND {
        let message = format!("{key}: a command has at most {MAX_COMMAND} bytes");
        ctx.problem(w.pos, "range", message);
        return String::new();
    }
    if let Err(why) = hook::check_program(&w.text) {
        let hint = "write /PATH/TO/PROGRAM ARGUMENTS; put what needs a shell into a script";
        ctx.problem_hint(w.pos, "program", format!("{key}: {why}"), hint);
        return String::new();
    }
    w.text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn user(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> String {
    match f.scalar(ctx, "pre_post_exec_user") {
        Some(w) if ctx.check_name(&w) => w.text,
        _ => String::new(),
    }
}
