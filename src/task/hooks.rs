//! Commands around a job's own: who runs them with which environment, and what their ends mean for
//! the job. Owns the order queue, job, command, job, queue. Runs nothing.

use super::build::{Account, Place, base_env};
use super::ending::{self, Top};
use super::spec::{Hook, TaskHooks};
use crate::model::{AttemptId, HookOf, Spec, TermReason};
use crate::record::order::HookOrder;
use crate::record::report::Ended;
use crate::text::hook::words;

/// Where hooks look for programs, and where they run: `Launch::dir` of the shepherd is the same.
const PATH: &str = "/bin:/usr/bin:/sbin:/usr/sbin";
const DIR: &str = "/tmp";
/// A pre-exec command that exits with this ends its job.
const ABORT: i32 = 99;

/// The hooks of a task. `queue`: the account that runs those of the queue.
pub fn of_task(
    order: &HookOrder,
    spec: &Spec,
    job: &Account,
    queue: &Account,
    place: &Place,
) -> TaskHooks {
    let hook = |of: HookOf, command: &str, limit_ms: u64| {
        let argv = match of {
            HookOf::Queue => words(command),
            HookOf::Job => ["/bin/sh", "-c", command].map(str::to_owned).to_vec(),
        };
        (!command.is_empty()).then(|| Hook {
            of,
            argv,
            user: (place.may_switch && of == HookOf::Queue).then(|| queue.who.clone()),
            env: match of {
                HookOf::Queue => clean_env(spec, job, queue, place),
                HookOf::Job => Vec::new(),
            },
            limit_ms,
        })
    };
    let pre = [
        hook(HookOf::Queue, &order.pre, order.pre_ms),
        hook(HookOf::Job, &spec.hooks.pre, order.pre_ms),
    ];
    let post = [
        hook(HookOf::Job, &spec.hooks.post, order.post_ms),
        hook(HookOf::Queue, &order.post, order.post_ms),
    ];
    TaskHooks {
        pre: pre.into_iter().flatten().collect(),
        post: post.into_iter().flatten().collect(),
    }
}

/// Nothing of the submitter's environment: an administrator's program must not be led by it.
fn clean_env(spec: &Spec, job: &Account, queue: &Account, place: &Place) -> Vec<String> {
    let mut env = base_env(spec, &[], queue, place);
    env.retain(|e| {
        !["PATH=", "PWD=", "LSFUSER="]
            .iter()
            .any(|n| e.starts_with(n))
    });
    env.push(format!("LSFUSER={}", job.name));
    env
}

/// What every hook has in its environment, in the place of what the job has under these names.
pub fn own_env() -> [String; 3] {
    [
        format!("PATH={PATH}"),
        format!("PWD={DIR}"),
        format!("LSB_EXIT_PRE_ABORT={ABORT}"),
    ]
}

/// What a post-exec command learns of the end: the wait status, or that the command never ran.
pub fn end_env(end: &Ended, ran: bool) -> Vec<String> {
    let mut out = Vec::new();
    let mut both = |name: &str, value: String| {
        out.push(format!("LSB_{name}={value}"));
        out.push(format!("CB_{name}={value}"));
    };
    if !ran || end.reason == TermReason::StartFailed {
        both("JOBPEND", "Y".into());
    } else if end.sig > 0 {
        both(
            "JOBEXIT_STAT",
            (end.sig | i32::from(end.core) << 7).to_string(),
        );
    } else if let Some(code) = end.code {
        both("JOBEXIT_STAT", ((code & 0xff) << 8).to_string());
    }
    out
}

/// How a hook ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HookEnd {
    /// Its status, and why it was being ended (`RunLimit`: its own time limit).
    Ended(Top, TermReason),
    /// It could not be run, and why.
    NotRun(String),
}

/// What went wrong with a hook; `None`: nothing.
pub fn trouble(hook: &Hook, name: &str, end: &HookEnd) -> Option<String> {
    let how = match end {
        HookEnd::Ended(Top::Exited(0), TermReason::None) => return None,
        HookEnd::Ended(_, TermReason::RunLimit) => {
            format!(
                "was ended after its time limit of {} s",
                hook.limit_ms / 1000
            )
        }
        HookEnd::Ended(_, reason) if *reason != TermReason::None => "was ended".to_owned(),
        HookEnd::Ended(Top::Exited(code), _) => format!("exited with {code}"),
        HookEnd::Ended(Top::Killed(signal, _), _) => format!("was killed by signal {signal}"),
        HookEnd::NotRun(why) => format!("could not be run: {why}"),
    };
    let whose = match hook.of {
        HookOf::Queue => "of the queue",
        HookOf::Job => "of the job",
    };
    Some(format!("{name} {whose} {how}"))
}

/// The job's end when its pre-exec command ended so; `None`: the job goes on. `host`: this one.
pub fn pre_ended(a: AttemptId, hook: &Hook, end: &HookEnd, host: &str) -> Option<Ended> {
    let text = trouble(hook, "pre-exec", end)?;
    // No code, whatever the hook made of the signal: a job that never ran has not succeeded.
    let mut out = ending::not_started(a, None, format!("{text} on host {host}"));
    match end {
        HookEnd::Ended(_, reason) if !matches!(reason, TermReason::None | TermReason::RunLimit) => {
            out.reason = *reason;
        }
        HookEnd::Ended(Top::Exited(ABORT), _) => out.code = Some(ABORT),
        _ => {
            out.pre_failed = Some(hook.of);
            // What the queue looks for on a host may be there on another one.
            out.elsewhere = hook.of == HookOf::Queue;
        }
    }
    Some(out)
}

/// Whether a post-exec command runs after this end: that of the job only when its own pre-exec had
/// its turn, none on a host that is cut off, since the job may run elsewhere by now. `stopped_at`:
/// whose pre-exec was the last, and the command never ran.
pub fn runs_after(hook: &Hook, end: &Ended, stopped_at: Option<HookOf>) -> bool {
    let before_its_turn = stopped_at == Some(HookOf::Queue) && hook.of == HookOf::Job;
    !before_its_turn && end.reason != TermReason::Fenced
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Hooks;

    fn spec() -> Spec {
        Spec {
            hooks: Hooks {
                pre: "test -d /data".into(),
                post: "echo $LSB_JOBEXIT_STAT".into(),
            },
            ..Spec::default()
        }
    }

    fn order() -> HookOrder {
        HookOrder {
            pre: "/site/prolog -v".into(),
            post: "/site/epilog".into(),
            pre_ms: 5,
            post_ms: 7,
            ..HookOrder::default()
        }
    }

    fn tasks() -> TaskHooks {
        let place = Place {
            may_switch: true,
            ..Place::default()
        };
        let account = |name: &str, uid| Account {
            who: super::super::spec::Become {
                uid,
                ..Default::default()
            },
            name: name.into(),
            ..Account::default()
        };
        let (ann, site) = (account("ann", 1001), account("site", 7));
        of_task(&order(), &spec(), &ann, &site, &place)
    }

    #[test]
    fn hooks_stand_in_their_order_and_only_the_queues_have_another_user() {
        let hooks = tasks();
        let of = |list: &[Hook]| -> Vec<_> { list.iter().map(|h| (h.of, h.limit_ms)).collect() };
        assert_eq!(of(&hooks.pre), [(HookOf::Queue, 5), (HookOf::Job, 5)]);
        assert_eq!(of(&hooks.post), [(HookOf::Job, 7), (HookOf::Queue, 7)]);
        assert_eq!(hooks.pre[0].argv, ["/site/prolog", "-v"]);
        assert_eq!(hooks.pre[1].argv[..2], ["/bin/sh", "-c"]);
        let uid = |h: &Hook| h.user.as_ref().map(|u| u.uid);
        assert_eq!((uid(&hooks.pre[0]), uid(&hooks.pre[1])), (Some(7), None));
        assert_eq!((uid(&hooks.post[0]), uid(&hooks.post[1])), (None, Some(7)));
        let env = &hooks.pre[0].env;
        assert!(env.contains(&"USER=site".into()) && env.contains(&"LSFUSER=ann".into()));
        assert!(!env.iter().any(|e| e.starts_with("PATH=")));
    }

    #[test]
    fn a_pre_exec_that_fails_never_lets_the_job_succeed() {
        let hooks = tasks();
        let (queue, job) = (&hooks.pre[0], &hooks.pre[1]);
        let a = AttemptId::default();
        let of = |hook: &Hook, top, reason| pre_ended(a, hook, &HookEnd::Ended(top, reason), "h1");
        assert_eq!(of(job, Top::Exited(0), TermReason::None), None);
        let e = of(queue, Top::Exited(3), TermReason::None).unwrap();
        assert_eq!((e.pre_failed, e.elsewhere), (Some(HookOf::Queue), true));
        assert_eq!(e.text, "pre-exec of the queue exited with 3 on host h1");
        let e = of(job, Top::Killed(11, false), TermReason::None).unwrap();
        assert_eq!((e.pre_failed, e.elsewhere), (Some(HookOf::Job), false));
        let e = of(job, Top::Exited(0), TermReason::RunLimit).unwrap();
        assert_eq!((e.pre_failed, e.code), (Some(HookOf::Job), None));
        let e = of(job, Top::Exited(0), TermReason::Owner).unwrap();
        assert_eq!((e.pre_failed, e.code), (None, None), "killed, so not done");
        assert_eq!(e.reason, TermReason::Owner);
        let e = of(job, Top::Exited(99), TermReason::None).unwrap();
        assert_eq!((e.pre_failed, e.code), (None, Some(99)));
        let e = pre_ended(a, queue, &HookEnd::NotRun("why".into()), "h1").unwrap();
        assert_eq!(e.pre_failed, Some(HookOf::Queue));
    }

    #[test]
    fn post_exec_learns_the_wait_status_or_that_nothing_ran() {
        let mut end = Ended {
            code: Some(3),
            ..Ended::default()
        };
        assert_eq!(end_env(&end, true)[0], "LSB_JOBEXIT_STAT=768");
        (end.code, end.sig, end.core) = (None, 9, true);
        assert_eq!(end_env(&end, true)[1], "CB_JOBEXIT_STAT=137");
        assert_eq!(end_env(&end, false)[0], "LSB_JOBPEND=Y");
    }

    #[test]
    fn the_jobs_own_post_exec_waits_for_the_turn_of_its_pre_exec() {
        let hooks = tasks();
        let mut end = Ended::default();
        let runs = |end: &Ended, at| -> Vec<_> {
            hooks.post.iter().map(|h| runs_after(h, end, at)).collect()
        };
        assert_eq!(runs(&end, None), [true, true]);
        assert_eq!(runs(&end, Some(HookOf::Queue)), [false, true]);
        assert_eq!(runs(&end, Some(HookOf::Job)), [true, true]);
        end.reason = TermReason::Fenced;
        assert_eq!(runs(&end, None), [false, false]);
    }
}
