//! Converts an order to the task's specification: program, environment, files, limits.
//!
//! Owns the variables that every job finds in its environment. Accounts, contents of blobs and the
//! paths of this host are arguments; nothing is looked up here.

use super::files::TaskFiles;
use super::spec::{
    DefaultOutput, Output, ReportFacts, ReportHeader, ResizeHook, TaskBase, TaskIdentity,
    TaskLimits, TaskSpec,
};
pub use super::variables::EEXEC_DATA;
use super::variables::{BASE_NAMES, HOST_FILES, TASK_NAMES};
use super::{checkpoints, containers, hooks, launch, params, pbs, slurm, units};
use crate::model::{JobKey, Limits, OomKill, Share, Spec};
use crate::record::order::{CheckpointOrder, StartOrder, TaskUnits};
use crate::text::command::quote;
use crate::text::exits::RequeueExits;
use crate::text::subst::subst;
use std::path::Path;

/// Maximum length of LSB_HOSTS; a longer list is omitted, LSB_MCPU_HOSTS has the same content.
const HOSTS_MAX: usize = 4096;

/// Maximum length of a name in a job report, in characters.
const NAME_MAX: usize = 200;

/// The search path for programs if the job's environment has no PATH.
pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The account of a job on this host.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Account {
    pub identity: TaskIdentity,
    pub name: String,
    pub home: String,
    /// Login shell; empty = /bin/sh.
    pub shell: String,
}

/// The properties of this host that a task gets.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct HostProperties {
    pub host: String,
    pub cluster: String,
    /// Directory of `cb.conf` and of the programs: a job may use the cluster's commands.
    pub envdir: String,
    pub bindir: String,
    /// Directory of the daemons and their files.
    pub serverdir: String,
    /// Directory of `eexec`; empty = none.
    pub esubdir: String,
    /// Uid that the host's daemons run as.
    pub uid: u32,
    /// Whether they may become other users.
    pub may_switch: bool,
    /// The share's owner, if the daemons are root and the share belongs to another account.
    pub service: Option<TaskIdentity>,
}

/// Builds the shared part. `env`: the submission's environment; `stdin_file`: local path of the
/// spooled input, if there is one.
///
/// # Errors
/// The reason why this host cannot run jobs of this specification.
pub fn base(
    spec: &Spec,
    nice: i32,
    env: &[(String, String)],
    account: &Account,
    properties: &HostProperties,
    stdin_file: Option<&str>,
) -> Result<TaskBase, String> {
    if !properties.may_switch && account.identity.uid != properties.uid {
        let (host, uid) = (&properties.host, account.identity.uid);
        return Err(format!(
            "host {host} runs without privilege and cannot become uid {uid}"
        ));
    }
    let stdout = match spec.stdout.is_empty() {
        true => Output {
            ours: true,
            over: false,
            path: String::new(),
        },
        false => Output {
            path: spec.stdout.clone(),
            over: spec.stdout_over,
            ours: false,
        },
    };
    let report = ReportFacts {
        cluster: properties.cluster.clone(),
        user: account.name.clone(),
        home: account.home.clone(),
        queue: spec.queue.clone(),
        sub_host: spec.sub_host.clone(),
    };
    Ok(TaskBase {
        env: base_env(spec, env, account, properties),
        user: properties.may_switch.then(|| account.identity.clone()),
        service: properties.service.clone(),
        cwd: spec.cwd.clone(),
        cwd_create: spec.cwd_create,
        image: image_path(spec),
        umask: spec.umask,
        nice,
        stdin: stdin_file.unwrap_or(&spec.stdin).to_owned(),
        stdin_ours: stdin_file.is_some(),
        stdout,
        stderr: Output {
            path: spec.stderr.clone(),
            over: spec.stderr_over,
            ours: false,
        },
        report: spec.wants_report().then_some(report),
        caller: None,
        sbatch: spec.slurm.is_some(),
        index_shift: spec.index_shift(),
    })
}

/// The image of the job's container, if it is a path.
fn image_path(spec: &Spec) -> String {
    let image = spec.container.as_ref().map(|container| &container.image);
    let path = image.filter(|image| image.starts_with('/'));
    path.cloned().unwrap_or_default()
}

pub(super) fn base_env(
    spec: &Spec,
    env: &[(String, String)],
    account: &Account,
    properties: &HostProperties,
) -> Vec<String> {
    // A job that another job submits does not inherit its units or parameters.
    let ours = |n: &str| {
        let of_task = [units::PREFIX, units::PART_PREFIX, params::PREFIX];
        TASK_NAMES.contains(&n)
            || BASE_NAMES.contains(&n)
            || of_task.iter().any(|prefix| n.starts_with(prefix))
            || (spec.slurm.is_some() && slurm::NAMES.contains(&n))
            || (spec.pbs.is_some() && pbs::NAMES.contains(&n))
    };
    let sound = |n: &str, v: &str| !n.is_empty() && !n.contains(['=', '\0']) && !v.contains('\0');
    let mut out: Vec<String> = env
        .iter()
        .filter(|(n, v)| !ours(n) && sound(n, v))
        .map(|(n, v)| format!("{n}={v}"))
        .collect();
    let mut set = |name: &str, value: &str| {
        if !value.contains('\0') {
            out.push(format!("{name}={value}"));
        }
    };
    set("LSB_QUEUE", &spec.queue);
    set("CB_QUEUE", &spec.queue);
    set("LSB_SUB_HOST", &spec.sub_host);
    set("CB_SUB_HOST", &spec.sub_host);
    set("CB_EXEC_HOST", &properties.host);
    if spec.session.is_some() {
        set("LSB_INTERACTIVE", "Y");
        set("CB_INTERACTIVE", "Y");
    }
    for name in ["CB_ENVDIR", "LSF_ENVDIR"] {
        set(name, &properties.envdir);
    }
    for name in ["CB_BINDIR", "LSF_BINDIR"] {
        set(name, &properties.bindir);
    }
    for name in ["CB_SERVERDIR", "LSF_SERVERDIR"] {
        set(name, &properties.serverdir);
    }
    if let Some(prefix) = Path::new(&properties.bindir).parent() {
        set("LSF_LIBDIR", &prefix.join("lib").to_string_lossy());
    }
    // Variables that every program expects, also with `-env none`.
    let given = |name: &str| env.iter().any(|(n, v)| n == name && sound(n, v));
    let shell = match account.shell.as_str() {
        "" => "/bin/sh",
        shell => shell,
    };
    for (name, value) in [("PATH", DEFAULT_PATH), ("SHELL", shell)] {
        if !given(name) {
            set(name, value);
        }
    }
    set("LS_SUBCWD", &spec.cwd);
    set("PWD", &spec.cwd);
    for name in ["LSFUSER", "USER", "LOGNAME"] {
        set(name, &account.name);
    }
    set("HOME", &account.home);
    if spec.slurm.is_some() {
        out.push(format!("SLURM_CLUSTER_NAME={}", properties.cluster));
        slurm::put_shared(&mut out);
    }
    if spec.pbs.is_some() {
        pbs::put_shared(&mut out);
    }
    out
}

/// Builds one task's part.
pub fn task(order: &StartOrder, spec: &Spec, base: u32, files: &TaskFiles) -> TaskSpec {
    let array = order.index_end > 0 || order.a.j.idx > 0;
    let header = spec.wants_report().then(|| ReportHeader {
        name: one_line(shown_name(order)),
        command: order.command.clone(),
        hosts: order.hosts.iter().map(Share::to_string).collect(),
        submitted: order.t,
        success: order.success.clone(),
    });
    TaskSpec {
        a: order.a,
        mark: order.mark,
        base,
        argv: whole_argv(order, spec, files),
        env: task_env(order, spec, files),
        limits: TaskLimits {
            deadline: spec.deadline.map(|t| t.0),
            warn: order.warn,
            ..limits(&order.limits)
        },
        grace_ms: order.grace_ms,
        rerunnable: order.is_rerunnable(spec),
        array,
        out: DefaultOutput {
            path: match spec.stdout.as_str() {
                "" => files.default_output.clone(),
                _ => String::new(),
            },
            private: order.private,
        },
        scratch: files.script.clone(),
        hosts_file: files.hosts.clone(),
        resize: ResizeHook {
            notify: spec.notify.clone(),
            notice: files.notice.clone(),
        },
        hooks: None,
        header,
    }
}

/// The name of a job, or its command if it has no name.
fn shown_name(order: &StartOrder) -> &str {
    if order.name.is_empty() {
        &order.command
    } else {
        &order.name
    }
}

/// The first line, cut to the length of a line of the report.
fn one_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(NAME_MAX)
        .collect()
}

/// A job's limits in the form for a shepherd.
pub fn limits(l: &Limits) -> TaskLimits {
    TaskLimits {
        run_ms: l.run_s.map(|s| s.saturating_mul(1000)),
        cpu_s: l.cpu_s,
        mem_b: l.mem_b,
        swap_b: l.swap_b,
        procs: l.procs,
        file_b: l.file_b,
        data_b: l.data_b,
        stack_b: l.stack_b,
        core_b: l.core_b,
        oom_ignored: l.oom_kill == Some(OomKill::Ignore),
        deadline: None,
        warn: None,
        cpus: None,
        changes: 0,
        devices: Vec::new(),
    }
}

/// The variables with which a job is informed about itself.
pub fn task_env(order: &StartOrder, spec: &Spec, files: &TaskFiles) -> Vec<String> {
    let mut out = Vec::with_capacity(24);
    let JobKey { id, idx } = order.a.j;
    both(&mut out, "JOBID", &id.to_string());
    both(&mut out, "JOBINDEX", &idx.to_string());
    both(&mut out, "JOBNAME", shown_name(order));
    if order.index_end > 0 {
        out.push(format!("LSB_JOBINDEX_END={}", order.index_end));
        out.push(format!("LSB_JOBINDEX_STEP={}", order.index_step));
    }
    host_env(&mut out, &order.hosts);
    launch::put(&mut out, spec, &order.hosts);
    units::put(&mut out, &order.units);
    slurm::put(&mut out, order, spec, (shown_name(order), files));
    pbs::put(&mut out, order, spec, (shown_name(order), files));
    out.push(format!("CB_ATTEMPT={}", order.a.at));
    if order.a.at > 1 || checkpoints::start_continues(order) {
        out.push("LSB_RESTART=Y".to_owned());
    }
    if let Some(saved) = saved(order) {
        checkpoints::put(&mut out, saved, order.a.j, &spec.cwd);
    }
    if let Some(values) = requeue_values(&order.requeue) {
        out.push(format!("LSB_EXIT_REQUEUE={values}"));
    }
    let index = spec.submitters_index(idx);
    if !spec.stdout.is_empty() {
        both(&mut out, "OUTPUTFILE", &subst(&spec.stdout, id, index));
    }
    if !spec.stderr.is_empty() {
        both(&mut out, "ERRORFILE", &subst(&spec.stderr, id, index));
    }
    if !files.script.is_empty() {
        out.push(format!("LSB_JOBFILENAME={}", files.script));
    }
    if !files.hosts.is_empty() {
        out.extend(HOST_FILES.map(|name| format!("{name}={}", files.hosts)));
    }
    if !files.warning.is_empty() {
        out.push(format!("CB_WARNING_FILE={}", files.warning));
    }
    out.retain(|e| !e.contains('\0'));
    out
}

/// The exit values that put a job back to pending, each as a number; `None`: there are none.
fn requeue_values(text: &str) -> Option<String> {
    let exits = RequeueExits::parse(text).ok()?;
    let all = (1..=u8::MAX).filter(|code| exits.requeues(*code));
    let words: Vec<String> = all.map(|code| code.to_string()).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

pub(super) fn both(out: &mut Vec<String>, name: &str, value: &str) {
    out.push(format!("LSB_{name}={value}"));
    out.push(format!("CB_{name}={value}"));
}

fn host_env(out: &mut Vec<String>, hosts: &[Share]) {
    let slots: u32 = hosts.iter().map(|s| s.1).sum();
    let mut each = String::new();
    let mut counted = String::new();
    for Share(host, n) in hosts {
        for _ in 0..*n {
            if each.len() < HOSTS_MAX {
                push_word(&mut each, host);
            }
        }
        push_word(&mut counted, host);
        push_word(&mut counted, &n.to_string());
    }
    if each.len() < HOSTS_MAX {
        both(out, "HOSTS", &each);
    }
    both(out, "MCPU_HOSTS", &counted);
    out.push(format!("CB_SLOTS={slots}"));
    out.push(format!("LSB_DJOB_NUMPROC={slots}"));
    out.push(format!("LSB_MAX_NUM_PROCESSORS={slots}"));
}

/// Whether a job gets a file with its hosts: it has several slots, or may get some, or its script
/// has lines for PBS.
pub fn has_hosts_file(hosts: &[Share], spec: &Spec) -> bool {
    spec.pbs.is_some() || spec.max > 1 || hosts.iter().map(|s| s.1).sum::<u32>() > 1
}

/// The list of hosts as a file: a line for each slot, or for each rank that PBS would have.
pub fn hosts_text(hosts: &[Share], spec: &Spec) -> String {
    let lines = |n: u32| spec.pbs.as_ref().map_or(n, |pbs| pbs.lines_of(n));
    let each = hosts
        .iter()
        .flat_map(|Share(h, n)| (0..lines(*n)).map(move |_| h));
    each.map(|h| format!("{h}\n")).collect()
}

/// The variables for the command of `-rnc` in addition to the job's. `before`: the content of the
/// file with the earlier list of hosts.
pub fn resize_env(before: &str, hosts: &[Share], units: &TaskUnits) -> Vec<String> {
    let mut old: std::collections::BTreeMap<&str, u32> = Default::default();
    for host in before.lines() {
        *old.entry(host).or_default() += 1;
    }
    let slots: u32 = old.values().sum();
    let mut added = String::new();
    for Share(host, n) in hosts {
        let known = old.entry(host).or_default();
        let more = n.saturating_sub(*known);
        *known = known.saturating_sub(*n);
        if more > 0 {
            push_word(&mut added, host);
            push_word(&mut added, &more.to_string());
        }
    }
    let mut out = Vec::new();
    host_env(&mut out, hosts);
    units::put(&mut out, units);
    out.push(format!("CB_OLD_SLOTS={slots}"));
    out.push(format!("CB_ADDED_HOSTS={added}"));
    out.push("LSB_RESIZE_EVENT=grow".to_owned());
    out.push(format!("LSB_RESIZE_HOSTS={added}"));
    out
}

fn push_word(out: &mut String, word: &str) {
    if !out.is_empty() {
        out.push(' ');
    }
    out.push_str(word);
}

/// Program and arguments together with what starts them: `ctasks`, the queue's starter.
fn whole_argv(order: &StartOrder, spec: &Spec, files: &TaskFiles) -> Vec<String> {
    let own = argv(&order.command, spec, &files.script);
    let own = match saved(order).filter(|_| checkpoints::start_continues(order)) {
        Some(saved) => {
            checkpoints::restarted(&checkpoints::dir(&saved.what, order.a.j, &spec.cwd), own)
        }
        None => own,
    };
    let own = match (&spec.container, order.hooks.as_deref()) {
        (Some(container), Some(hooks)) => {
            containers::wrapped(hooks.runtime, container, &spec.cwd, &files.script, own)
        }
        _ => own,
    };
    let all = launch::wrapped(spec, &files.bindir, own);
    let starter = order.hooks.as_deref().map_or("", |hooks| &hooks.starter);
    let changed =
        spec.launch.is_some() || spec.container.is_some() || checkpoints::start_continues(order);
    let plain = files.script.is_empty() && spec.shell.is_empty() && !changed;
    hooks::started_by(starter, plain.then_some(order.command.as_str()), all)
}

/// The order for the job's checkpoints, if it has any.
fn saved(order: &StartOrder) -> Option<&CheckpointOrder> {
    order.hooks.as_deref()?.checkpoint.as_ref()
}

/// Program and arguments of a job.
fn argv(command: &str, spec: &Spec, script: &str) -> Vec<String> {
    let shell: Vec<String> = spec.shell.split_whitespace().map(str::to_owned).collect();
    let shell = if shell.is_empty() {
        vec!["/bin/sh".to_owned()]
    } else {
        shell
    };
    if !script.is_empty() {
        let args = spec.slurm.as_ref().map_or(&[][..], |slurm| &slurm.args);
        return [&shell, &[script.to_owned()][..], args].concat();
    }
    if spec.shell.is_empty()
        && let Some(words) = plain_words(command)
    {
        return words;
    }
    [shell, vec!["-c".to_owned(), command.to_owned()]].concat()
}

/// Words that the shell does not look up in PATH, or that do more than a program with this name.
const SHELL_WORDS: &[&str] = &[
    ".", ":", "[", "alias", "bg", "break", "case", "cd", "command", "continue", "do", "done",
    "echo", "elif", "else", "esac", "eval", "exec", "exit", "export", "false", "fc", "fg", "fi",
    "for", "function", "getopts", "hash", "if", "in", "jobs", "kill", "let", "local", "newgrp",
    "printf", "pwd", "read", "readonly", "return", "select", "set", "shift", "source", "test",
    "then", "time", "times", "trap", "true", "type", "ulimit", "umask", "unalias", "unset",
    "until", "wait", "while",
];

/// The words of a command that the shell would run unchanged, without expansion, redirection or a
/// builtin: such a command needs no shell. A word may be in single quotes, and a quoted program
/// name is always a program: `csub --` writes it so. `None` for any other command.
pub fn plain_words(command: &str) -> Option<Vec<String>> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./,:+@%=".contains(c);
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' => words.extend(word.take()),
            '\'' => {
                let text = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => text.push(c),
                    }
                }
            }
            '\\' if chars.as_str().starts_with('\'') => {
                chars.next();
                word.get_or_insert_default().push('\'');
            }
            c if plain(c) => word.get_or_insert_default().push(c),
            _ => return None,
        }
    }
    words.extend(word);
    let first = words.first()?;
    let shell = first.contains('=') || SHELL_WORDS.contains(&first.as_str());
    let quoted = command.trim_start_matches(' ').starts_with('\'');
    if first.is_empty() || (!quoted && (shell || first.starts_with('-'))) {
        return None;
    }
    Some(words)
}

/// `words` as a command line that [`plain_words`] reads back, whatever a shell would make of them:
/// a program with the name of a builtin is quoted.
pub fn exact_command(words: &[String]) -> String {
    let mut out = String::new();
    for word in words {
        let quoted = quote(word);
        let builtin = out.is_empty()
            && !quoted.starts_with('\'')
            && (quoted.starts_with('-') || SHELL_WORDS.contains(&word.as_str()));
        let quoted = match builtin {
            true => format!("'{word}'"),
            false => quoted,
        };
        push_word(&mut out, &quoted);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::AttemptId;

    fn order(command: &str) -> StartOrder {
        StartOrder {
            a: AttemptId {
                j: JobKey::element(12, 3),
                at: 2,
            },
            s: 1,
            command: command.into(),
            name: "arr".into(),
            hosts: vec![Share("h1".into(), 2), Share("h2".into(), 1)],
            resizes: 0,
            limit_changes: 0,
            limits: Limits {
                run_s: Some(60),
                ..Limits::default()
            },
            index_end: 10,
            index_step: 1,
            t: 5,
            nice: 0,
            grace_ms: 10,
            rerunnable: None,
            mark: 0,
            ran: false,
            hooks: None,
            success: String::new(),
            requeue: String::new(),
            warn: None,
            private: false,
            bind: Default::default(),
            part_binds: Vec::new(),
            units: TaskUnits::default(),
        }
    }

    #[test]
    fn a_job_knows_the_exit_values_that_put_it_back() {
        let of = |text| requeue_values(text);
        assert_eq!(of("30-32 EXCLUDE(7)").unwrap(), "7 30 31 32");
        assert_eq!((of(""), of("0")), (None, None));
        let order = StartOrder {
            requeue: "30".into(),
            ..order("true")
        };
        let env = task_env(&order, &Spec::default(), &TaskFiles::default());
        assert!(env.contains(&"LSB_EXIT_REQUEUE=30".to_owned()), "{env:?}");
    }

    #[test]
    fn a_plain_command_needs_no_shell_and_others_do() {
        assert_eq!(plain_words("/bin/sleep  10").unwrap(), ["/bin/sleep", "10"]);
        assert_eq!(plain_words("gzip -9 a.b --x=1").unwrap().len(), 4);
        for c in [
            "echo a", "a > b", "A=1 b", "a; b", "a $b", "~/x", "a *", "a 'b", "a\tb", "", "''",
            "a \"b\"", "a \\b",
        ] {
            assert_eq!(plain_words(c), None, "{c}");
        }
    }

    #[test]
    fn exact_words_are_read_back_as_they_are() {
        for words in [
            &["echo", "a  b", "$HOME", "*", "it's", "", "a\nb\\n"][..],
            &["A=1", "x=y"],
            &["-x"],
            &["./it's"],
            &["/bin/sleep", "10"],
        ] {
            let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            let line = exact_command(&words);
            assert_eq!(plain_words(&line).as_ref(), Some(&words), "{line}");
        }
        assert_eq!(exact_command(&["prog".into(), "a b".into()]), "prog 'a b'");
        assert_eq!(exact_command(&["echo".into()]), "'echo'");
    }

    #[test]
    fn an_empty_environment_has_what_programs_expect() {
        let properties = HostProperties {
            may_switch: true,
            bindir: "/opt/bin".into(),
            serverdir: "/opt/sbin".into(),
            ..HostProperties::default()
        };
        let account = Account {
            name: "ann".into(),
            home: "/users/ann".into(),
            shell: "/bin/zsh".into(),
            ..Account::default()
        };
        let b = base(&Spec::default(), 0, &[], &account, &properties, None).unwrap();
        for e in [
            "PATH=/usr/local/bin:/usr/bin:/bin",
            "HOME=/users/ann",
            "SHELL=/bin/zsh",
            "USER=ann",
            "LSF_SERVERDIR=/opt/sbin",
            "LSF_LIBDIR=/opt/lib",
        ] {
            assert!(b.env.iter().any(|x| x == e), "{e}: {:?}", b.env);
        }
        let given = [("TMPDIR".to_owned(), "/scratch".to_owned())];
        let b = base(&Spec::default(), 0, &given, &account, &properties, None).unwrap();
        assert!(b.env.iter().any(|e| e == "TMPDIR=/scratch"));
    }

    #[test]
    fn the_deadline_is_the_earlier_of_run_limit_and_termination_time() {
        let mut t = task(&order("x"), &Spec::default(), 1, &TaskFiles::default());
        assert_eq!(t.deadline_env(5_000).as_deref(), Some("CB_DEADLINE=65"));
        t.limits.deadline = Some(20_000);
        assert_eq!(t.deadline_env(5_000).as_deref(), Some("CB_DEADLINE=20"));
        (t.limits.run_ms, t.limits.deadline) = (None, None);
        assert_eq!(t.deadline_env(5_000), None);
    }

    #[test]
    fn the_shell_gets_the_command_as_one_word() {
        let spec = Spec::default();
        assert_eq!(argv("echo a; b", &spec, ""), ["/bin/sh", "-c", "echo a; b"]);
        let spec = Spec {
            shell: "/bin/bash -e".into(),
            ..Spec::default()
        };
        assert_eq!(argv("x", &spec, "/l/s"), ["/bin/bash", "-e", "/l/s"]);
        assert_eq!(argv("x", &spec, ""), ["/bin/bash", "-e", "-c", "x"]);
    }

    #[test]
    fn a_task_knows_its_place() {
        let spec = Spec {
            stdout: "o.%J.%I".into(),
            ..Spec::default()
        };
        let t = task(&order("x"), &spec, 4, &TaskFiles::default());
        let has = |e: &str| assert!(t.env.iter().any(|x| x == e), "{e}: {:?}", t.env);
        has("LSB_JOBID=12");
        has("CB_JOBINDEX=3");
        has("LSB_HOSTS=h1 h1 h2");
        has("CB_MCPU_HOSTS=h1 2 h2 1");
        has("LSB_OUTPUTFILE=o.12.3");
        has("LSB_RESTART=Y");
        has("CB_SLOTS=3");
        assert_eq!((t.limits.run_ms, t.array, t.base), (Some(60_000), true, 4));
        let named = t.env.iter().map(|e| e.split('=').next().unwrap());
        assert!(named.into_iter().all(|n| TASK_NAMES.contains(&n)));
    }

    #[test]
    fn a_resize_tells_what_came() {
        let hosts = [Share("h1".into(), 3), Share("h2".into(), 1)];
        assert_eq!(hosts_text(&hosts, &Spec::default()), "h1\nh1\nh1\nh2\n");
        let env = resize_env("h1\nh1\n", &hosts, &TaskUnits::default());
        for e in [
            "CB_OLD_SLOTS=2",
            "CB_SLOTS=4",
            "CB_ADDED_HOSTS=h1 1 h2 1",
            "LSB_DJOB_NUMPROC=4",
            "CB_MCPU_HOSTS=h1 3 h2 1",
        ] {
            assert!(env.iter().any(|x| x == e), "{e}: {env:?}");
        }
    }

    #[test]
    fn the_submitted_environment_cannot_pretend() {
        let env = [
            ("LSB_JOBID".to_string(), "1".to_string()),
            ("A".to_string(), "b=c".to_string()),
            ("BAD=".to_string(), "x".to_string()),
            ("NUL".to_string(), "a\0b".to_string()),
        ];
        let properties = HostProperties {
            may_switch: true,
            ..HostProperties::default()
        };
        let account = Account {
            name: "ann".into(),
            ..Account::default()
        };
        let b = base(&Spec::default(), 0, &env, &account, &properties, None).unwrap();
        assert!(b.env.contains(&"A=b=c".to_string()) && b.env.contains(&"USER=ann".to_string()));
        assert!(
            !b.env
                .iter()
                .any(|e| e.starts_with("LSB_JOBID") || e.starts_with("BAD"))
        );
        assert!(!b.env.iter().any(|e| e.starts_with("NUL")));
    }

    #[test]
    fn without_privilege_only_own_jobs_run() {
        let properties = HostProperties {
            uid: 1000,
            ..HostProperties::default()
        };
        let mut account = Account::default();
        account.identity.uid = 1000;
        assert!(
            base(&Spec::default(), 0, &[], &account, &properties, None)
                .unwrap()
                .user
                .is_none()
        );
        account.identity.uid = 1001;
        assert!(base(&Spec::default(), 0, &[], &account, &properties, None).is_err());
    }

    #[test]
    fn units_of_the_submitting_job_are_not_those_of_the_submitted_one() {
        let env = [
            ("CB_ASSIGN_PORT", "1"),
            ("CB_PART_GPU", "0.5"),
            ("CUDA_VISIBLE_DEVICES", "1"),
        ];
        let env = env.map(|(n, v)| (n.to_owned(), v.to_owned()));
        let out = base_env(
            &Spec::default(),
            &env,
            &Account::default(),
            &HostProperties::default(),
        );
        assert!(
            !out.iter()
                .any(|line| line.starts_with("CB_ASSIGN_") || line.starts_with("CB_PART_")),
            "{out:?}"
        );
        assert!(out.contains(&"CUDA_VISIBLE_DEVICES=1".to_owned()));
    }
}
