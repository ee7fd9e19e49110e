//! Settings of what runs around a job's command. Owns their keys and ranges, and that a program of
//! an administrator is named by its path, without a shell; never runs anything.

use super::policy::{HookRules, QueueHooks, RetryAction, WARN_SIGNALS};
use super::read::{Ctx, DAY, Fields, SECOND};
use crate::model::{RunWarning, WARN_BEFORE_MAX_S};
use crate::text::hook;

/// Most times that a job whose pre-exec fails is tried.
const MOST_RETRIES: u64 = 1_000;
/// Longest command of a queue, in bytes.
const MOST_COMMAND: usize = 4095;

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
    if let Some(n) = f.number(ctx, "pre_exec_retries", 0, MOST_RETRIES) {
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

/// Those of a queue.
pub(super) fn queue(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> QueueHooks {
    let out = QueueHooks {
        pre: program(ctx, f, "pre_exec"),
        post: program(ctx, f, "post_exec"),
        user: user(ctx, f),
    };
    if !out.user.is_empty() && out.pre.is_empty() && out.post.is_empty() {
        let key = "pre_post_exec_user";
        let message = format!("{key} has no effect without pre_exec or post_exec");
        ctx.warn(f.key_pos(key), "no-effect", message, None);
    }
    out
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
        signal: signal.unwrap_or(WARN_SIGNALS[0].1),
        before_s: ms / SECOND,
    })
}

/// A program by its absolute path, with plain arguments; empty = none.
fn program(ctx: &mut Ctx<'_>, f: &Fields<'_>, key: &str) -> String {
    let Some(w) = f.scalar(ctx, key) else {
        return String::new();
    };
    if w.text.len() > MOST_COMMAND {
        let message = format!("{key}: a command has at most {MOST_COMMAND} bytes");
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
