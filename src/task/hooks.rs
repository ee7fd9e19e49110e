//! Commands before and after a job's own: their users and environments, and what their ends mean
//! for the job. Owns the order queue, job, command, job, queue. Runs nothing.

use super::build::{Account, HostProperties, base_env, exact_command};
use super::containers;
use super::ending::{self, TopEnd};
use super::spec::{Hook, TaskHooks};
use crate::model::{
    AttemptId, ContainerRuntime, CopyWay, FileCopy, HookOf, JobKey, Spec, StartFault, TermReason,
};
use crate::record::order::HookOrder;
use crate::record::report::Ended;
use crate::text::hook::words;
use crate::text::subst::subst;

/// The search path and the working directory of hooks: `HOOK_DIR` of the shepherd is the same.
const PATH: &str = "/bin:/usr/bin:/sbin:/usr/sbin";
const DIR: &str = "/tmp";
/// How long `eexec` may take (ms).
const EEXEC_MS: u64 = 60_000;
/// How long the removal of a container may take (ms).
const REMOVE_MS: u64 = 60_000;
/// A pre-exec command that exits with this code ends its job.
const ABORT: i32 = 99;
/// The placeholder of the command in a starter.
const USER_COMMAND: &str = "%USRCMD";
/// Copies `$1` to `$2`, unless both are one file. Copies nothing if the job never ran.
const COPY: &str = "[ \"$LSB_JOBPEND\" = Y ] && exit 0; [ -f \"$1\" ] || exit 66; \
                    [ \"$1\" -ef \"$2\" ] || exec cp -- \"$1\" \"$2\"";
const APPEND: &str = "[ \"$LSB_JOBPEND\" = Y ] && exit 0; [ -f \"$1\" ] || exit 66; \
                      [ \"$1\" -ef \"$2\" ] || exec cat -- \"$1\" >>\"$2\"";

/// The hooks of a task. `queue`: the account that runs the queue's hooks.
pub fn of_task(
    key: JobKey,
    order: &HookOrder,
    spec: &Spec,
    job: &Account,
    queue: &Account,
    properties: &HostProperties,
) -> TaskHooks {
    let hook = |of: HookOf, command: &str, limit_ms: u64| {
        let argv = match of {
            HookOf::Queue => words(command),
            HookOf::Job => ["/bin/sh", "-c", command].map(str::to_owned).to_vec(),
        };
        (!command.is_empty()).then(|| Hook {
            of,
            argv,
            user: (properties.may_switch && of == HookOf::Queue).then(|| queue.identity.clone()),
            env: match of {
                HookOf::Queue => clean_env(spec, job, queue, properties),
                HookOf::Job => Vec::new(),
            },
            limit_ms,
            label: String::new(),
            input: String::new(),
            checked: String::new(),
        })
    };
    let ins = spec
        .files
        .iter()
        .filter_map(|f| copy_in(key, spec, f, order.pre_ms));
    let outs = spec
        .files
        .iter()
        .filter_map(|f| copy_out(key, spec, f, order.post_ms));
    let pre = [hook(HookOf::Queue, &order.pre, order.pre_ms)]
        .into_iter()
        .flatten();
    let own_pre = hook(HookOf::Job, &spec.hooks.pre, order.pre_ms);
    let own_post = hook(HookOf::Job, &spec.hooks.post, order.post_ms);
    let post = hook(HookOf::Queue, &order.post, order.post_ms);
    let remover = containers::remover(order.runtime).map(|argv| Hook {
        of: HookOf::Job,
        argv,
        user: None,
        env: Vec::new(),
        limit_ms: order.post_ms.min(REMOVE_MS),
        label: "the removal of its container".to_owned(),
        input: String::new(),
        checked: String::new(),
    });
    TaskHooks {
        pre: pre.chain(ins).chain(own_pre).collect(),
        post: remover
            .into_iter()
            .chain(own_post)
            .chain(outs)
            .chain(post)
            .collect(),
        daemon: order.runtime == ContainerRuntime::Docker,
        controls: order.controls.clone(),
        checkpoint: None,
    }
}

/// Adds the site's `eexec`, which runs as the job's user after the pre-exec programs of the queue
/// and before the job's own, and again after the job's post-exec. `data`: what esub programs left
/// for it.
pub fn add_eexec(
    hooks: &mut TaskHooks,
    spec: &Spec,
    job: &Account,
    properties: &HostProperties,
    data: &str,
) {
    let program = format!("{}/eexec", properties.esubdir);
    let at = |when: &str| {
        let mut env = clean_env(spec, job, job, properties);
        env.push(format!("LS_EXEC_T={when}"));
        Hook {
            of: HookOf::Queue,
            argv: vec![program.clone()],
            user: None,
            env,
            limit_ms: EEXEC_MS,
            label: format!("{program} ({when})"),
            input: data.to_owned(),
            checked: String::new(),
        }
    };
    let of_queue = |list: &[Hook]| list.iter().take_while(|h| h.of == HookOf::Queue).count();
    let before = of_queue(&hooks.pre);
    hooks.pre.insert(before, at("START"));
    let after = hooks.post.iter().filter(|h| h.of == HookOf::Job).count();
    hooks.post.insert(after, at("END"));
}

/// Program and arguments of a job whose queue has a starter: the starter's words with the command
/// in place of %USRCMD, or after them. `text`: the command as submitted, if it is a line.
pub(super) fn started_by(starter: &str, text: Option<&str>, argv: Vec<String>) -> Vec<String> {
    if starter.is_empty() {
        return argv;
    }
    let command = text.map_or_else(|| exact_command(&argv), str::to_owned);
    let line = match starter.contains(USER_COMMAND) {
        true => starter.replace(USER_COMMAND, &command),
        false => format!("{starter} {command}"),
    };
    vec!["/bin/sh".to_owned(), "-c".to_owned(), line]
}

/// Both ends of a copy: on the submission host and on this host.
fn ends(key: JobKey, spec: &Spec, file: &FileCopy) -> [String; 2] {
    let place = |path: &str| subst(path, key.id, key.idx);
    let remote = place(&file.remote);
    let remote = match remote.starts_with('/') {
        true => remote,
        false => format!("{}/{remote}", spec.cwd),
    };
    [place(&file.local), remote]
}

fn copy_in(key: JobKey, spec: &Spec, file: &FileCopy, limit_ms: u64) -> Option<Hook> {
    let [local, remote] = ends(key, spec, file);
    let wanted = matches!(file.way, CopyWay::In | CopyWay::Both);
    wanted.then(|| copy(COPY, local, remote, limit_ms))
}

fn copy_out(key: JobKey, spec: &Spec, file: &FileCopy, limit_ms: u64) -> Option<Hook> {
    let [local, remote] = ends(key, spec, file);
    let script = match file.way {
        CopyWay::In => return None,
        CopyWay::Append => APPEND,
        CopyWay::Out | CopyWay::Both => COPY,
    };
    Some(copy(script, remote, local, limit_ms))
}

/// A hook that copies a file as the job's user.
fn copy(script: &str, from: String, to: String, limit_ms: u64) -> Hook {
    let label = format!("the copy of {from} to {to} (csub -f)");
    let shell = ["/bin/sh", "-c", script, "csub-f"].map(str::to_owned);
    Hook {
        of: HookOf::Job,
        argv: shell.into_iter().chain([from, to]).collect(),
        user: None,
        env: Vec::new(),
        limit_ms,
        label,
        input: String::new(),
        checked: String::new(),
    }
}

/// An environment without the submitter's variables, which must not influence an administrator's
/// program.
pub(super) fn clean_env(
    spec: &Spec,
    job: &Account,
    queue: &Account,
    properties: &HostProperties,
) -> Vec<String> {
    let mut env = base_env(spec, &[], queue, properties);
    env.retain(|e| {
        !["PATH=", "PWD=", "LSFUSER="]
            .iter()
            .any(|n| e.starts_with(n))
    });
    env.push(format!("LSFUSER={}", job.name));
    env
}

/// Variables that every hook gets instead of the job's variables with these names.
pub fn own_env() -> [String; 3] {
    [
        format!("PATH={PATH}"),
        format!("PWD={DIR}"),
        format!("LSB_EXIT_PRE_ABORT={ABORT}"),
    ]
}

/// The variables that inform a post-exec command about the end: the wait status, or that the
/// command never ran.
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
    /// Its status, and the reason why it was ended (`RunLimit`: its own time limit).
    Ended(TopEnd, TermReason),
    /// It could not be run, with the reason.
    NotRun(String),
}

/// The problem with a hook; `None`: there is none.
pub fn hook_problem(hook: &Hook, name: &str, end: &HookEnd) -> Option<String> {
    let how = match end {
        HookEnd::Ended(TopEnd::Exited(0), TermReason::None) => return None,
        HookEnd::Ended(_, TermReason::RunLimit) => {
            format!(
                "was ended after its time limit of {} s",
                hook.limit_ms / 1000
            )
        }
        HookEnd::Ended(_, TermReason::Owner) => "was ended by the job's owner".to_owned(),
        HookEnd::Ended(_, TermReason::Admin) => "was ended by an administrator".to_owned(),
        HookEnd::Ended(_, reason) if *reason != TermReason::None => "was ended".to_owned(),
        HookEnd::Ended(TopEnd::Exited(code), _) => format!("exited with {code}"),
        HookEnd::Ended(TopEnd::Killed(signal, _), _) => format!("was killed by signal {signal}"),
        HookEnd::NotRun(why) => format!("could not be run: {why}"),
    };
    Some(format!("{} {how}", hook_name(hook, name)))
}

/// What a hook is called; `name`: its kind.
pub fn hook_name(hook: &Hook, name: &str) -> String {
    match (hook.label.as_str(), hook.of) {
        ("", HookOf::Queue) => format!("{name} of the queue"),
        ("", HookOf::Job) => format!("{name} of the job"),
        (label, _) => label.to_owned(),
    }
}

/// The job's end after its pre-exec command ended like this; `None`: the job continues. `host`:
/// this host.
pub fn pre_ended(a: AttemptId, hook: &Hook, end: &HookEnd, host: &str) -> Option<Ended> {
    let text = hook_problem(hook, "pre-exec", end)?;
    // No code, whatever the hook made of the signal: a job that never ran has not succeeded.
    let failed = (format!("{text} on host {host}"), StartFault::Job);
    let mut out = ending::not_started(a, None, failed);
    match end {
        HookEnd::Ended(_, reason) if !matches!(reason, TermReason::None | TermReason::RunLimit) => {
            out.reason = *reason;
        }
        HookEnd::Ended(TopEnd::Exited(ABORT), _) => out.code = Some(ABORT),
        _ => {
            out.pre_failed = Some(hook.of);
            // What the program did not find on this host may exist on another one.
            out.set_fault(StartFault::Unclear);
        }
    }
    Some(out)
}

/// Whether a post-exec command runs after this end: the job's only if its own pre-exec was reached,
/// none on a host that is cut off, since the job may run elsewhere by now. `stopped_at`: the owner
/// of the pre-exec after which the job was stopped, so that the command never ran.
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
        let properties = HostProperties {
            may_switch: true,
            ..HostProperties::default()
        };
        let account = |name: &str, uid| Account {
            identity: super::super::spec::TaskIdentity {
                uid,
                ..Default::default()
            },
            name: name.into(),
            ..Account::default()
        };
        let (ann, site) = (account("ann", 1001), account("site", 7));
        of_task(JobKey::job(1), &order(), &spec(), &ann, &site, &properties)
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
    fn what_podman_keeps_of_a_container_is_removed_first_and_after_a_kill_too() {
        let order = HookOrder {
            runtime: crate::model::ContainerRuntime::Podman,
            ..order()
        };
        let (job, properties) = (Account::default(), HostProperties::default());
        let hooks = of_task(JobKey::job(1), &order, &spec(), &job, &job, &properties);
        let remover = &hooks.post[0];
        let own = containers::remover(order.runtime).unwrap();
        assert_eq!((&remover.argv, remover.of), (&own, HookOf::Job));
        assert!(remover.user.is_none(), "it has the job's user");
        assert_eq!(remover.limit_ms, 7, "the queue's limit of post-exec");
        for reason in [TermReason::Owner, TermReason::Force, TermReason::MemLimit] {
            let mut end = ending::not_started(AttemptId::default(), None, Default::default());
            (end.reason, end.sig) = (reason, 9);
            assert!(runs_after(remover, &end, None), "{reason:?}");
        }
        assert_eq!((tasks().post.len(), hooks.post.len()), (2, 3));
    }

    #[test]
    fn a_starter_stands_before_or_around_the_command() {
        let argv = || vec!["/bin/sh".to_owned(), "/l/a b".to_owned()];
        let line = |starter: &str, text| started_by(starter, text, argv()).remove(2);
        assert_eq!(started_by("", Some("x; y"), argv()), argv());
        assert_eq!(line("nice -n 5", Some("x; y")), "nice -n 5 x; y");
        assert_eq!(line("csh -c \"%USRCMD;z\"", Some("x")), "csh -c \"x;z\"");
        assert_eq!(line("env A=1", None), "env A=1 /bin/sh '/l/a b'");
    }

    #[test]
    fn files_are_copied_between_the_hooks_of_queue_and_job() {
        let mut spec = spec();
        spec.cwd = "/run".into();
        let files = [
            "/data/in.%I > in",
            "/data/out <",
            "/data/log << /s/log",
            "/data/x >< x",
        ];
        spec.files = files.map(|text| FileCopy::parse(text).unwrap()).to_vec();
        let (job, properties) = (Account::default(), HostProperties::default());
        let key = JobKey { id: 7, idx: 3 };
        let all = of_task(key, &order(), &spec, &job, &job, &properties);
        let list = |hooks: &[Hook]| {
            let each = hooks.iter().map(|h| match h.label.as_str() {
                "" => h.argv[0].clone(),
                _ => h.argv[4..].join(" "),
            });
            each.collect::<Vec<_>>()
        };
        let pre = [
            "/site/prolog",
            "/data/in.3 /run/in",
            "/data/x /run/x",
            "/bin/sh",
        ];
        assert_eq!(list(&all.pre), pre);
        let post = [
            "/bin/sh",
            "/data/out /data/out",
            "/s/log /data/log",
            "/run/x /data/x",
        ];
        assert_eq!(list(&all.post), [&post[..], &["/site/epilog"]].concat());
        assert!(all.post[2].argv[2].contains("cat --") && all.post[2].limit_ms == 7);
        let end = HookEnd::Ended(TopEnd::Exited(66), TermReason::None);
        let text = hook_problem(&all.pre[1], "pre-exec", &end).unwrap();
        assert_eq!(
            text,
            "the copy of /data/in.3 to /run/in (csub -f) exited with 66"
        );
    }

    #[test]
    fn eexec_stands_between_what_queue_and_job_run() {
        let properties = HostProperties {
            esubdir: "/site".into(),
            ..HostProperties::default()
        };
        let mut hooks = tasks();
        let job = Account::default();
        add_eexec(&mut hooks, &spec(), &job, &properties, "ticket");
        let list = |all: &[Hook]| -> Vec<String> {
            all.iter().map(|h| h.argv.last().unwrap().clone()).collect()
        };
        assert_eq!(list(&hooks.pre), ["-v", "/site/eexec", "test -d /data"]);
        let post = ["echo $LSB_JOBEXIT_STAT", "/site/eexec", "/site/epilog"];
        assert_eq!(list(&hooks.post), post);
        let first = &hooks.pre[1];
        assert_eq!(
            (first.input.as_str(), first.user.as_ref()),
            ("ticket", None)
        );
        assert!(first.env.contains(&"LS_EXEC_T=START".to_owned()));
        assert!(hooks.post[1].env.contains(&"LS_EXEC_T=END".to_owned()));
    }

    #[test]
    fn a_pre_exec_that_fails_never_lets_the_job_succeed() {
        let hooks = tasks();
        let (queue, job) = (&hooks.pre[0], &hooks.pre[1]);
        let a = AttemptId::default();
        let of = |hook: &Hook, top, reason| pre_ended(a, hook, &HookEnd::Ended(top, reason), "h1");
        assert_eq!(of(job, TopEnd::Exited(0), TermReason::None), None);
        let e = of(queue, TopEnd::Exited(3), TermReason::None).unwrap();
        assert_eq!(
            (e.pre_failed, e.fault()),
            (Some(HookOf::Queue), StartFault::Unclear)
        );
        assert_eq!(e.text, "pre-exec of the queue exited with 3 on host h1");
        let e = of(job, TopEnd::Killed(11, false), TermReason::None).unwrap();
        assert_eq!(
            (e.pre_failed, e.fault()),
            (Some(HookOf::Job), StartFault::Unclear)
        );
        let e = of(job, TopEnd::Exited(0), TermReason::RunLimit).unwrap();
        assert_eq!((e.pre_failed, e.code), (Some(HookOf::Job), None));
        let e = of(job, TopEnd::Exited(0), TermReason::Owner).unwrap();
        assert_eq!((e.pre_failed, e.code), (None, None), "killed, so not done");
        assert_eq!(e.reason, TermReason::Owner);
        let e = of(job, TopEnd::Exited(99), TermReason::None).unwrap();
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
