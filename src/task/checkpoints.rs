//! Checkpoints of one task: when they are due, what follows after one, which programs make and
//! restore them. Runs nothing, and never reads a checkpoint.

use super::build::{Account, HostProperties};
use super::hooks::clean_env;
use super::spec::{Hook, TaskCheckpoint, TaskHooks};
use crate::model::{
    AttemptId, Checkpoint, CheckpointAct, ControlAct, Controls, HookOf, JobKey, Spec, TermReason,
};
use crate::record::order::{CheckpointOrder, StartOrder};
use crate::text::subst::subst;

/// The file in which a method's `erestart` leaves the command that continues the job.
const RESTART_FILE: &str = ".restart_cmd";

/// `$1` directory; then the program that saves the job, with its arguments. The input is the text
/// from which the job can be submitted again.
const SAVE: &str = "dir=$1; shift; umask 077; mkdir -p -- \"$dir\" && cd -- \"$dir\" || exit 66; \
                    \"$@\" </dev/null >echkpnt.out 2>&1 && cat >.job.new && mv -f .job.new .job && \
                    : >.checkpoint";
/// `$1` directory, `$2` program, `$3` its option. A job that was never saved starts from the
/// beginning.
const RESTORE: &str = "[ -e \"$1/.checkpoint\" ] || exit 0; cd -- \"$1\" || exit 66; umask 077; \
                       rm -f .restart_cmd; \"$2\" $3 \"$1\" >erestart.out 2>&1";
/// Precedes `RESTORE` for a job that continues from the directory `$4`, which becomes its own. If
/// there is no checkpoint, the job does not start.
const TAKE_UP: &str = "if [ -e \"$4/.checkpoint\" ]; then [ ! -e \"$1\" ] || exit 73; \
                       mv -- \"$4\" \"$1\" || exit 66; fi; [ -e \"$1/.checkpoint\" ] || exit 66; ";
/// `$1` file; then the job's own command, which is run if the file contains none.
const RESTARTED: &str = "f=$1; shift; cmd=; if [ -r \"$f\" ]; then while IFS= read -r line; do \
                         case $line in LSB_RESTART_CMD=*) cmd=${line#*=};; esac; done <\"$f\"; \
                         fi; [ -z \"$cmd\" ] && exec \"$@\"; exec /bin/sh -c \"$cmd\"";

/// The directory of a job's checkpoints.
pub fn dir(checkpoint: &Checkpoint, key: JobKey, cwd: &str) -> String {
    named_dir(checkpoint, key, cwd, &Checkpoint::dir_name(key))
}

fn named_dir(checkpoint: &Checkpoint, key: JobKey, cwd: &str, name: &str) -> String {
    // The directory of `crestart` is used unchanged.
    let below = match checkpoint.from.is_empty() {
        true => subst(&checkpoint.dir, key.id, key.idx),
        false => checkpoint.dir.clone(),
    };
    match below.starts_with('/') {
        true => format!("{}/{name}", below.trim_end_matches('/')),
        false => format!("{cwd}/{}/{name}", below.trim_end_matches('/')),
    }
}

/// Whether an attempt continues from a checkpoint, if there is one.
pub fn continues(a: AttemptId, order: &CheckpointOrder) -> bool {
    a.at > 1 || !order.what.from.is_empty()
}

/// A program of the method, `echkpnt` or `erestart`.
fn program(order: &CheckpointOrder, kind: &str, properties: &HostProperties) -> String {
    let dir = match order.methods.as_str() {
        "" => &properties.serverdir,
        dir => dir,
    };
    format!("{dir}/{kind}.{}", order.what.method())
}

/// As [`continues`], for a start order.
pub(super) fn start_continues(order: &StartOrder) -> bool {
    let hooks = order.hooks.as_deref();
    let checkpoint = hooks.and_then(|hooks| hooks.checkpoint.as_ref());
    checkpoint.is_some_and(|of| continues(order.a, of))
}

/// The data that a task needs for its checkpoints.
fn of_task(
    key: JobKey,
    order: &CheckpointOrder,
    spec: &Spec,
    job: &Account,
    properties: &HostProperties,
) -> TaskCheckpoint {
    let ms = |s: u64| s.saturating_mul(1000);
    let period_ms = ms(order.what.period_s);
    TaskCheckpoint {
        dir: dir(&order.what, key, &spec.cwd),
        program: program(order, "echkpnt", properties),
        env: clean_env(spec, job, job, properties),
        first_ms: match order.what.init_s {
            0 => period_ms,
            init => ms(init),
        },
        period_ms,
        limit_ms: order.limit_ms,
        job: String::new(),
    }
}

/// Adds checkpoints to the hooks of a task. A task that runs again is restored after the pre-exec
/// programs of the queue and before its own.
pub fn add(
    hooks: &mut TaskHooks,
    a: AttemptId,
    order: &CheckpointOrder,
    spec: &Spec,
    job: &Account,
    properties: &HostProperties,
) {
    let task = of_task(a.j, order, spec, job, properties);
    if continues(a, order) {
        let of_queue = |hook: &&Hook| hook.of == HookOf::Queue;
        let at = hooks.pre.iter().take_while(of_queue).count();
        hooks
            .pre
            .insert(at, restore(a.j, order, spec, &task, properties));
    }
    hooks.checkpoint = Some(task);
}

/// The hook that restores a task from its last checkpoint.
fn restore(
    key: JobKey,
    order: &CheckpointOrder,
    spec: &Spec,
    task: &TaskCheckpoint,
    properties: &HostProperties,
) -> Hook {
    let (dir, program) = (&task.dir, program(order, "erestart", properties));
    let what = &order.what;
    let from = named_dir(what, key, &spec.cwd, &what.from);
    let (label, script) = match what.from.is_empty() {
        true => (
            format!("the restart from {dir} by {program}"),
            RESTORE.to_owned(),
        ),
        false => (
            format!("the restart from {from}, renamed to {dir}, by {program}"),
            format!("{TAKE_UP}{RESTORE}"),
        ),
    };
    let option = if what.force { "-f" } else { "" };
    let words = [
        "/bin/sh", "-c", &script, "erestart", dir, &program, option, &from,
    ];
    Hook {
        of: HookOf::Queue,
        argv: words.map(str::to_owned).to_vec(),
        user: None,
        env: task.env.clone(),
        limit_ms: order.limit_ms,
        label,
        input: String::new(),
        checked: program,
    }
}

/// The command of a job that runs again: the one from its method, otherwise its own.
pub fn restarted(dir: &str, argv: Vec<String>) -> Vec<String> {
    let file = format!("{dir}/{RESTART_FILE}");
    let words = ["/bin/sh", "-c", RESTARTED, "restart", &file].map(str::to_owned);
    words.into_iter().chain(argv).collect()
}

/// Adds the job's variables about checkpoints. `key`: of the job.
pub(super) fn put(out: &mut Vec<String>, order: &CheckpointOrder, key: JobKey, cwd: &str) {
    super::build::both(out, "CHKPNT_DIR", &dir(&order.what, key, cwd));
    if order.what.period_s > 0 {
        out.push(format!("LSB_CHKPNT_PERIOD={}", order.what.period_s / 60));
    }
}

/// The program that saves a job whose first process leads group `leader`, with its arguments.
pub fn save_argv(task: &TaskCheckpoint, force: bool, leader: i32) -> Vec<String> {
    let leader = leader.to_string();
    let words = ["/bin/sh", "-c", SAVE, "echkpnt", &task.dir, &task.program];
    let own = [
        force.then_some("-f"),
        Some("-d"),
        Some(&task.dir),
        Some(&leader),
    ];
    let words = words.into_iter().chain(own.into_iter().flatten());
    words.map(str::to_owned).collect()
}

/// What follows when a checkpoint is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterCheckpoint {
    GoOn,
    /// The job is suspended, whatever the result.
    Stop,
    /// The job is ended if the checkpoint was made.
    End,
    /// As `End`; the job then runs again elsewhere.
    Migrate,
}

/// When the checkpoints of a task are due. Times in ms of the boot-time clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checkpoints {
    next_at: Option<u64>,
    period_ms: u64,
    pub(super) limit_ms: u64,
    /// The queue requires one before each suspension, and before each end.
    pub(super) before_stop: bool,
    before_end: bool,
    /// The checkpoint that is being made, with what follows.
    pub(super) now: Option<AfterCheckpoint>,
}

impl Checkpoints {
    /// The checkpoints of a task that begins at `now`.
    pub fn new(task: &TaskCheckpoint, controls: &Controls, now: u64) -> Checkpoints {
        let by_queue = |act: &Option<ControlAct>| *act == Some(ControlAct::Checkpoint);
        Checkpoints {
            next_at: (task.first_ms > 0).then(|| now.saturating_add(task.first_ms)),
            period_ms: task.period_ms,
            limit_ms: task.limit_ms,
            before_stop: by_queue(&controls.suspend),
            before_end: by_queue(&controls.terminate),
            now: None,
        }
    }

    /// When the next periodic one is due.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.next_at.filter(|_| self.now.is_none())
    }

    /// Begins a checkpoint. Returns false if one is being made already; `then` follows after that
    /// one.
    pub(super) fn begin(&mut self, then: AfterCheckpoint, now: u64) -> bool {
        let period = self.period_ms;
        self.next_at = (period > 0).then(|| now.saturating_add(period));
        match &mut self.now {
            None => {
                self.now = Some(then);
                true
            }
            Some(old) => {
                if then != AfterCheckpoint::GoOn {
                    *old = then;
                }
                false
            }
        }
    }

    /// Sets another period from now on, if the act contains one.
    pub(super) fn set_period(&mut self, act: CheckpointAct, now: u64) {
        if let Some(minutes) = act.period_min {
            self.period_ms = u64::from(minutes) * 60_000;
            self.next_at = (minutes > 0).then(|| now.saturating_add(self.period_ms));
        }
    }

    /// Whether a checkpoint is made before the task is ended for this reason: because the job will
    /// run again, or because the queue requires it. A task that exceeds its memory is not saved:
    /// another program would not help.
    pub(super) fn comes_before(&self, reason: TermReason) -> bool {
        match reason {
            TermReason::Requeue
            | TermReason::Migrate
            | TermReason::Preempt
            | TermReason::Load
            | TermReason::Window => true,
            TermReason::MemLimit | TermReason::SwapLimit | TermReason::ProcessLimit => false,
            _ => self.before_end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> CheckpointOrder {
        CheckpointOrder {
            what: Checkpoint::parse("ck/%I init=1 5 method=app").unwrap(),
            methods: String::new(),
            limit_ms: 9,
        }
    }

    #[test]
    fn each_job_has_a_directory_of_its_own_and_the_programs_come_from_the_administrator() {
        let (key, properties) = (
            JobKey::element(7, 2),
            HostProperties {
                serverdir: "/opt/sbin".into(),
                ..HostProperties::default()
            },
        );
        let spec = Spec {
            cwd: "/w".into(),
            ..Spec::default()
        };
        let job = Account::default();
        let task = of_task(key, &order(), &spec, &job, &properties);
        assert_eq!(task.dir, "/w/ck/2/7.2");
        assert_eq!(task.program, "/opt/sbin/echkpnt.app");
        assert_eq!((task.first_ms, task.period_ms), (60_000, 300_000));
        assert!(!task.env.iter().any(|e| e.starts_with("PATH=")));
        let own = CheckpointOrder {
            methods: "/site".into(),
            ..order()
        };
        let hook = restore(key, &own, &spec, &task, &properties);
        assert_eq!(hook.checked, "/site/erestart.app");
        let words = ["/w/ck/2/7.2", "/site/erestart.app", ""];
        assert_eq!(hook.argv[4..7], words);
        assert_eq!((hook.of, hook.limit_ms), (HookOf::Queue, 9));
        let mut hooks = TaskHooks::default();
        let again = |at| AttemptId { j: key, at };
        add(&mut hooks, again(1), &own, &spec, &job, &properties);
        assert!(hooks.pre.is_empty() && hooks.checkpoint.is_some());
        add(&mut hooks, again(2), &own, &spec, &job, &properties);
        assert_eq!(hooks.pre, [hook]);
        let words = save_argv(&task, true, 55);
        assert_eq!(words[4..7], ["/w/ck/2/7.2", "/opt/sbin/echkpnt.app", "-f"]);
        assert_eq!(words[7..], ["-d", "/w/ck/2/7.2", "55"]);
        let absolute = Checkpoint::parse("/c/").unwrap();
        assert_eq!(dir(&absolute, JobKey::job(3), "/w"), "/c/3");
    }

    #[test]
    fn a_job_of_crestart_takes_up_a_directory_at_its_first_start() {
        let mut order = order();
        order.what = Checkpoint {
            dir: "/ck/%J".into(),
            from: "3".into(),
            force: true,
            ..order.what
        };
        let (spec, job, properties) = (
            Spec::default(),
            Account::default(),
            HostProperties::default(),
        );
        let a = AttemptId {
            j: JobKey::job(7),
            at: 1,
        };
        let mut hooks = TaskHooks::default();
        add(&mut hooks, a, &order, &spec, &job, &properties);
        let hook = &hooks.pre[0];
        assert!(hook.argv[2].starts_with("if [ -e "), "{:?}", hook.argv);
        assert_eq!(hook.argv[4], "/ck/%J/7");
        assert_eq!(hook.argv[6..], ["-f", "/ck/%J/3"]);
    }

    #[test]
    fn one_is_due_after_the_first_time_and_then_after_each_period() {
        let task = TaskCheckpoint {
            first_ms: 10,
            period_ms: 100,
            limit_ms: 5,
            ..TaskCheckpoint::default()
        };
        let mut all = Checkpoints::new(&task, &Controls::default(), 1000);
        assert_eq!(all.next_at(), Some(1010));
        assert!(all.begin(AfterCheckpoint::GoOn, 1010) && !all.begin(AfterCheckpoint::Stop, 1011));
        assert_eq!(
            (all.now, all.next_at()),
            (Some(AfterCheckpoint::Stop), None)
        );
        all.now = None;
        assert_eq!(all.next_at(), Some(1111));
        let act = |period_min| CheckpointAct {
            period_min,
            ..CheckpointAct::default()
        };
        all.set_period(act(None), 2000);
        assert_eq!(all.next_at(), Some(1111));
        all.set_period(act(Some(1)), 2000);
        assert_eq!(all.next_at(), Some(62_000));
        all.set_period(act(Some(0)), 2000);
        assert_eq!(all.next_at(), None);
        assert!(all.comes_before(TermReason::Preempt) && !all.comes_before(TermReason::Owner));
        let controls = Controls {
            terminate: Some(ControlAct::Checkpoint),
            ..Controls::default()
        };
        let all = Checkpoints::new(&task, &controls, 0);
        assert!(all.comes_before(TermReason::Owner) && !all.comes_before(TermReason::MemLimit));
    }
}
