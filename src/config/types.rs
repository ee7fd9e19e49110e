//! The configuration of a cluster as plain values: the content of cb.yaml with all defaults filled
//! in.
//! Owns no parsing and no lookups (see `read_*` and `query`), and never touches a file or a clock.
//!
//! Units: times in milliseconds unless the name ends in `_s`, sizes in bytes, `None` = unlimited.

use super::notices::Notices;
use super::policy::{
    Ageing, Backfill, FairFactors, HookRules, HostSpec, Packing, Policy, Preemption, QueueHooks,
    Quota, Shares, Threshold, ThresholdAction,
};
use super::portal::Portal;
use super::sets::{HostPrefs, HostSet, UserSet};
use crate::model::{
    Charge, Checkpoint, ContainerRuntime, Controls, CpuBind, OomKill, Orphans, RunWarning,
    UnitCheck,
};
use crate::text::exits::{RequeueExits, SuccessExits};
use crate::text::window::Windows;
use serde::Serialize;
use std::collections::BTreeMap;

/// All settings of cb.yaml. Immutable once loaded: share it as `Arc<Config>`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Config {
    pub cluster: Cluster,
    pub general: General,
    pub hosts: HostTable,
    /// Names declared in `hosttypes`; empty = any type may appear.
    pub host_types: Vec<String>,
    pub host_models: BTreeMap<String, HostModel>,
    pub host_groups: BTreeMap<String, HostGroup>,
    pub users: Vec<UserEntry>,
    pub user_groups: BTreeMap<String, UserGroup>,
    /// In the order of the file: the first is the default queue if none is named.
    pub queues: Vec<Queue>,
    /// Section `apps`, in the order of the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub apps: Vec<AppProfile>,
    /// Section `limits`, in the order of the file; a job counts for every limit that it matches.
    pub limits: Vec<Quota>,
    /// Section `charge`; without it, usage costs nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charge: Option<Charge>,
    /// Alerts and mail.
    #[serde(skip_serializing_if = "Notices::is_absent")]
    pub notices: Notices,
    /// Settings of the portal for all users.
    #[serde(skip_serializing_if = "Portal::is_default")]
    pub portal: Portal,
}

/// Section `cluster`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cluster {
    pub name: String,
    /// Users and user groups with all rights. `root` always has them. The first name is the primary
    /// administrator.
    pub administrators: UserSet,
    /// Hosts allowed to lead, in order; empty = see `Config::may_lead`.
    pub masters: Vec<String>,
    /// A leader silent for this long is replaced.
    pub lease_timeout_ms: u64,
    /// Maximum wait of the leader between two checks of a share whose changes raise no events;
    /// hosts wait half as long again.
    pub poll_interval_ms: u64,
    pub allow_root_jobs: bool,
    pub cgroup: CgroupMode,
    pub hints: HintsMode,
    /// UDP ports for hints, first and last; 0 = any free one.
    pub hint_port: (u16, u16),
    /// Unit of a bare number in a size limit, in bytes (`MB` = 1048576).
    pub unit_for_limits: u64,
}

/// Whether commands, hosts and the leader send each other datagrams that suggest a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HintsMode {
    /// Only if changes of the share raise no events.
    Auto,
    Yes,
    No,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupMode {
    /// Use what the host offers; warn if it offers nothing.
    Auto,
    Off,
    /// A host without usable cgroups accepts no jobs.
    Required,
}

/// Section `general`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct General {
    /// Candidates in order for a job that names no queue; never empty, all defined.
    pub default_queue: Vec<String>,
    pub default_project: String,
    /// The application of a job that names none; empty = no application.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub default_app: String,
    /// A finished job stays visible in `cjobs` this long.
    pub clean_period_ms: u64,
    /// Journal segments that a snapshot covers stay readable for `chist` this long.
    pub journal_keep_ms: u64,
    /// Past states back to this time can be reconstructed (`cjobs --at`); 0 = only those that are
    /// not covered by a snapshot for recovery.
    pub history_keep_ms: u64,
    /// Maximum size of these files, bytes.
    pub history_bytes: u64,
    /// Wait between two signals of a kill (INT, TERM, KILL).
    pub job_terminate_interval_ms: u64,
    /// Wait between TERM and KILL for jobs that were submitted under Slurm's names.
    pub kill_wait_ms: u64,
    /// Maximum time between two scheduling passes while jobs are pending.
    pub sched_interval_ms: u64,
    /// A host that cannot write to the share for this long kills its rerunnable jobs; 0 = never.
    pub iso_timeout_ms: u64,
    /// `csub --key`: how long the same key returns the same job.
    pub key_keep_ms: u64,
    /// Time after which a command submits a job again that was refused by a limit of pending jobs.
    pub sub_try_interval_ms: u64,
    /// Number of failed jobs that close a host on which many more fail than elsewhere; `None` =
    /// never.
    pub exit_rate: Option<u32>,
    /// For how long a failed job counts.
    pub exit_rate_duration_ms: u64,
    /// Maximum number of elements of an array.
    pub max_array_size: u32,
    /// Maximum job id; after it, ids start again at 1.
    pub max_jobid: u32,
    /// Maximum number of pending jobs of the cluster, counting elements; `None` = unlimited.
    pub max_pend_jobs: Option<u32>,
    /// Maximum of `csub -sp`.
    pub max_user_priority: u32,
    /// Maximum number of jobs in a `csub -pack` request.
    pub pack_max: u32,
    /// What happens to jobs whose dependency can never be satisfied.
    pub orphans: Orphans,
    /// The program that runs the containers of `csub -di`.
    pub container_runtime: ContainerRuntime,
    /// `yes`: everyone sees all jobs; `no`: users see their own jobs, administrators those that
    /// they administer.
    pub user_view_alljobs: bool,
    /// Default of queues; already copied into each queue.
    #[serde(flatten)]
    pub fair: FairFactors,
    /// Likewise.
    pub packing: Packing,
    /// Likewise.
    pub job_accept_interval_ms: u64,
    /// Likewise.
    pub new_job_sched_delay_ms: u64,
    /// Maximum time between two checks of thresholds and windows.
    pub job_check_interval_ms: u64,
    /// A job suspended for paging resumes when the host has been idle this long.
    pub pg_susp_it_ms: u64,
    pub job_priority_over_time: Option<Ageing>,
    /// An rusage amount without a unit (/job, /host, /task) counts per slot instead of per host.
    pub resource_reserve_per_task: bool,
    /// The host or model for which `-c` is stated if the job names neither.
    pub default_host_spec: Option<HostSpec>,
    #[serde(flatten)]
    pub hooks: HookRules,
}

/// Section `hosts`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostTable {
    /// The entry `default`, completed with built-in values.
    pub default: HostEntry,
    /// `open: yes` on the default entry: a host not listed may join under the default entry.
    pub open: bool,
    /// Listed hosts in the order of the file, completed from model and `default`.
    pub entries: Vec<HostEntry>,
    /// Resources that section `resources` declares or a host has, each with its kind.
    pub resources: BTreeMap<String, ResourceDecl>,
    /// Resources that only sensors report: known to a leader, not stated in any file.
    #[serde(skip)]
    pub sensed: BTreeMap<String, ResourceDecl>,
    /// Name to position in `entries`.
    #[serde(skip)]
    pub index: BTreeMap<String, usize>,
}

impl HostTable {
    /// The declaration of a resource by cb.yaml or a sensor; cb.yaml takes precedence.
    pub fn resource(&self, name: &str) -> Option<&ResourceDecl> {
        self.resources.get(name).or_else(|| self.sensed.get(name))
    }

    /// Whether jobs get individual units of it, by name: GPUs, and resources declared in this way.
    pub fn has_units(&self, name: &str) -> bool {
        name == "gpu" || self.resource(name).is_some_and(|decl| decl.assign)
    }

    /// Whether several hosts share one amount of it, according to cb.yaml or a sensor.
    pub fn is_shared(&self, name: &str) -> bool {
        let of = |all: &BTreeMap<String, ResourceDecl>| all.get(name).is_some_and(|d| d.shared);
        of(&self.resources) || of(&self.sensed)
    }

    /// The resource of which each unit has an amount of this one.
    pub fn per_unit(&self, name: &str) -> Option<&str> {
        self.resource(name)?.per_unit.as_deref()
    }

    /// All declared resources by name.
    pub fn declared(&self) -> impl Iterator<Item = (&String, &ResourceDecl)> {
        let more = self.sensed.iter();
        let more = more.filter(|(name, _)| !self.resources.contains_key(*name));
        self.resources.iter().chain(more)
    }
}

/// A host. `type_name` or `model` `None` = as the host reports it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostEntry {
    pub name: String,
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    pub model: Option<String>,
    /// Speed relative to the slowest model; > 0.
    pub cpuf: f64,
    pub slots: SlotSpec,
    /// Maximum number of slots of one user on the host.
    pub user_slots: Option<u32>,
    /// Names of `tag` resources that the host has.
    pub tags: Vec<String>,
    /// Static resources.
    pub resources: BTreeMap<String, ResourceValue>,
    /// False (`server: no`): the host is only for commands and never runs jobs.
    pub server: bool,
    /// Rack or switch of the host, for `cu[]`.
    pub unit: Option<String>,
    /// When the host takes new jobs; `None` = always.
    pub dispatch_window: Option<Windows>,
    /// At most one per index; those of the queue apply, too.
    pub thresholds: Vec<Threshold>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SlotSpec {
    /// The number of cores of the host (`!` or `cores`).
    Cores,
    Count(u32),
}

impl SlotSpec {
    /// Number of slots of a host that reports `cores`.
    pub fn count(self, cores: u32) -> u32 {
        match self {
            SlotSpec::Cores => cores,
            SlotSpec::Count(n) => n,
        }
    }
}

/// The declaration of a resource in cb.yaml.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResourceDecl {
    pub kind: ResourceKind,
    /// A number that grows with the load: lower is better.
    pub increase: bool,
    /// Released while the job is suspended.
    pub release: bool,
    /// An rusage amount counts for each slot of the job, otherwise once (per host).
    pub slotresource: bool,
    /// A number of units that the scheduler assigns individually, by name.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub assign: bool,
    /// The resource of which each unit has an amount of this one: `gpu` for `gpu_mem`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_unit: Option<String>,
    /// The device nodes of each of its units: paths or numbers with `%u` for the unit's name and
    /// `%n` for its place; empty = as a sensor reports them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    pub description: String,
    /// Several hosts share one amount of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
}

impl ResourceDecl {
    /// A resource with only a kind.
    pub fn plain(kind: ResourceKind) -> ResourceDecl {
        ResourceDecl {
            kind,
            increase: false,
            release: false,
            slotresource: false,
            assign: false,
            per_unit: None,
            devices: Vec::new(),
            description: String::new(),
            shared: false,
        }
    }
}

/// The kind of a declared resource's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ResourceKind {
    Number,
    Text,
    Tag,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ResourceValue {
    /// Finite.
    Number(f64),
    Text(String),
    /// Names of units.
    Units(Vec<String>),
    /// Amounts of the units of another resource, in their order.
    Sizes(Vec<f64>),
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostModel {
    pub name: String,
    pub cpuf: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostGroup {
    pub name: String,
    /// As written, for display.
    pub members: String,
    /// Nested groups resolved.
    pub hosts: HostSet,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UserGroup {
    pub name: String,
    /// As written, for display.
    pub members: String,
    pub set: UserSet,
    pub administrators: UserSet,
    /// The share tree below the group's node; `None` = one share for each user of the group.
    pub fairshare: Option<Shares>,
}

/// One entry of section `users`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UserEntry {
    pub subject: UserSubject,
    pub max_slots: Option<u32>,
    pub max_pend_jobs: Option<u32>,
    /// Maximum number of slots on a host for each of its cores, in thousandths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots_per_cpu_milli: Option<u64>,
    /// Maximum of `-sp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_cap: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum UserSubject {
    /// Every user without an entry of their own.
    Default,
    User(String),
    /// Each member of the group (`group@`).
    GroupEach(String),
}

/// One queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Queue {
    pub name: String,
    pub description: String,
    /// Larger first.
    pub priority: u32,
    pub nice: i32,
    pub administrators: UserSet,
    pub users: UserSet,
    pub hosts: HostPrefs,
    /// Maximum number of slots of the queue.
    pub slots: Option<u32>,
    /// Maximum number of slots of one user in the queue.
    pub user_slots: Option<u32>,
    /// Maximum number of slots of the queue on one host.
    pub host_slots: Option<u32>,
    /// Maximum number of slots of the queue per core of a host, in thousandths.
    pub proc_slots_milli: Option<u64>,
    pub job_slots: JobSlots,
    pub run_limit_ms: LimitPair,
    pub cpu_limit_ms: LimitPair,
    pub mem_limit: LimitPair,
    pub swap_limit: LimitPair,
    pub file_limit: LimitPair,
    pub stack_limit: LimitPair,
    pub core_limit: LimitPair,
    pub process_limit: LimitPair,
    /// Resource requirement that is merged under the job's own, in canonical form.
    pub res_req: Option<String>,
    /// `csub -x` is allowed.
    pub exclusive: bool,
    pub interactive: Interactive,
    pub rerunnable: bool,
    pub requeue: RequeueExits,
    /// Number of requeues by exit value before the job stays EXIT.
    pub max_requeue: Option<u32>,
    /// Exit values other than 0 that count as success.
    pub success: SuccessExits,
    /// How its jobs are warned before their run limit, unless a job specifies it.
    pub warn: Option<RunWarning>,
    /// How often a failed job is run again, unless the job specifies it.
    pub retries: u32,
    pub policy: Policy,
    pub fair: FairFactors,
    /// A job that cannot start blocks all later jobs, in this queue and in those of lower priority.
    pub strict: bool,
    pub backfill: Backfill,
    /// A job of several slots that cannot start reserves slots that become free, for at most this
    /// time; `None` = it reserves none.
    pub slot_reserve_ms: Option<u64>,
    pub preemption: Option<Preemption>,
    /// At most one per index; those of the host apply, too.
    pub thresholds: Vec<Threshold>,
    /// What happens to running jobs when a threshold is passed or `stop_cond` is true.
    pub threshold_action: ThresholdAction,
    /// `select[...]` in canonical form: running jobs are stopped on hosts where it is true.
    pub stop_cond: Option<String>,
    /// Likewise: stopped jobs are resumed where it is true.
    pub resume_cond: Option<String>,
    /// When jobs run; `None` = always.
    pub run_window: Option<Windows>,
    /// When jobs start; `None` = always.
    pub dispatch_window: Option<Windows>,
    /// What happens to running jobs when `run_window` closes.
    pub window_action: ThresholdAction,
    /// Jobs start even if they cannot end before their deadline or before the run window closes.
    pub ignore_deadline: bool,
    pub packing: Packing,
    /// Jobs see their GPUs by index, even if the GPUs have other names (`gpu_env: index`).
    pub gpu_by_place: bool,
    /// What happens to jobs that use GPUs that are not assigned to them.
    pub gpu_check: UnitCheck,
    /// What happens to a job of which a process is killed for lack of memory.
    pub oom_kill: OomKill,
    /// Jobs with `-n min,max` may grow while they run.
    pub elastic: bool,
    /// Time between two starts on one host.
    pub job_accept_interval_ms: u64,
    /// Time between a submission and the first consideration of the job.
    pub new_job_sched_delay_ms: u64,
    /// What is bound exclusively to each job on the host that runs its command.
    pub cpu_bind: CpuBind,
    /// What runs before and after the command of each job.
    pub hooks: QueueHooks,
}

impl Queue {
    /// The limits of single jobs of the queue.
    pub fn job_limits(&self) -> AppLimits {
        AppLimits {
            run_limit_ms: self.run_limit_ms,
            cpu_limit_ms: self.cpu_limit_ms,
            mem_limit: self.mem_limit,
            swap_limit: self.swap_limit,
            file_limit: self.file_limit,
            stack_limit: self.stack_limit,
            core_limit: self.core_limit,
            process_limit: self.process_limit,
        }
    }

    /// A queue with only a name.
    pub fn named(name: impl Into<String>) -> Queue {
        Queue {
            name: name.into(),
            description: String::new(),
            priority: 1,
            nice: 0,
            administrators: UserSet::default(),
            users: UserSet::all(),
            hosts: HostPrefs::all(),
            slots: None,
            user_slots: None,
            host_slots: None,
            proc_slots_milli: None,
            job_slots: JobSlots::ANY,
            run_limit_ms: LimitPair::default(),
            cpu_limit_ms: LimitPair::default(),
            mem_limit: LimitPair::default(),
            swap_limit: LimitPair::default(),
            file_limit: LimitPair::default(),
            stack_limit: LimitPair::default(),
            core_limit: LimitPair::default(),
            process_limit: LimitPair::default(),
            res_req: None,
            exclusive: false,
            interactive: Interactive::Yes,
            rerunnable: false,
            requeue: RequeueExits::default(),
            max_requeue: None,
            success: SuccessExits::default(),
            warn: None,
            retries: 0,
            policy: Policy::default(),
            fair: FairFactors::default(),
            strict: false,
            backfill: Backfill::default(),
            slot_reserve_ms: None,
            preemption: None,
            thresholds: Vec::new(),
            threshold_action: ThresholdAction::default(),
            stop_cond: None,
            resume_cond: None,
            run_window: None,
            dispatch_window: None,
            window_action: ThresholdAction::default(),
            ignore_deadline: false,
            packing: Packing::default(),
            gpu_by_place: false,
            gpu_check: UnitCheck::Off,
            oom_kill: OomKill::Fail,
            elastic: false,
            job_accept_interval_ms: 0,
            new_job_sched_delay_ms: 0,
            cpu_bind: CpuBind::None,
            hooks: QueueHooks::default(),
        }
    }
}

/// Common settings of the jobs of one application (section `apps`). A job's own options take
/// precedence, then these, then those of its queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AppProfile {
    pub name: String,
    pub description: String,
    /// Users who may submit jobs of the application.
    pub users: UserSet,
    /// Must be satisfied together with that of the queue.
    pub job_slots: Option<JobSlots>,
    #[serde(flatten)]
    pub limits: AppLimits,
    /// Merged under the job's own requirement and over its queue's, in canonical form.
    pub res_req: Option<String>,
    pub rerunnable: Option<bool>,
    pub requeue: Option<RequeueExits>,
    /// Read when a job of the application ends; [`AppProfile::UNLIMITED`] = no limit.
    pub max_requeue: Option<u32>,
    /// Likewise.
    pub success: Option<SuccessExits>,
    pub retries: Option<u32>,
    pub warn: Option<RunWarning>,
    /// As `-E`, `-Ep` and the `job_starter` of a queue; empty = nothing.
    pub pre_exec: String,
    pub post_exec: String,
    pub job_starter: String,
    /// Each of the three replaces that of the queue.
    pub controls: Controls,
    /// Variables that are set for jobs whose environment lacks them.
    pub env: BTreeMap<String, String>,
    pub chkpnt: Option<Checkpoint>,
    /// Whether its jobs make room for jobs of queues that preempt.
    pub preemptable: bool,
}

impl AppProfile {
    /// In place of a number: no limit, whatever the queue states.
    pub const UNLIMITED: u32 = u32::MAX;

    /// A profile with only a name.
    pub fn named(name: impl Into<String>) -> AppProfile {
        AppProfile {
            name: name.into(),
            description: String::new(),
            users: UserSet::all(),
            job_slots: None,
            limits: AppLimits::default(),
            res_req: None,
            rerunnable: None,
            requeue: None,
            max_requeue: None,
            success: None,
            retries: None,
            warn: None,
            pre_exec: String::new(),
            post_exec: String::new(),
            job_starter: String::new(),
            controls: Controls::default(),
            env: BTreeMap::new(),
            chkpnt: None,
            preemptable: true,
        }
    }
}

/// Limits of the jobs of an application, as those of a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AppLimits {
    pub run_limit_ms: LimitPair,
    pub cpu_limit_ms: LimitPair,
    pub mem_limit: LimitPair,
    pub swap_limit: LimitPair,
    pub file_limit: LimitPair,
    pub stack_limit: LimitPair,
    pub core_limit: LimitPair,
    pub process_limit: LimitPair,
}

/// Slots per job: a number outside `min..=max` is refused; without `-n` a job gets `default`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct JobSlots {
    pub min: u32,
    pub default: u32,
    pub max: Option<u32>,
}

impl JobSlots {
    pub const ANY: JobSlots = JobSlots {
        min: 1,
        default: 1,
        max: None,
    };
}

/// A limit of a job: `default` for a job that requests none, `max` for the largest request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LimitPair {
    pub default: Option<u64>,
    pub max: Option<u64>,
}

impl LimitPair {
    /// The limit of a job that requested `requested`.
    ///
    /// # Errors
    /// The maximum, if `requested` is above it.
    pub fn resolve(&self, requested: Option<u64>) -> Result<Option<u64>, u64> {
        match (requested, self.max) {
            (Some(a), Some(m)) if a > m => Err(m),
            (Some(a), _) => Ok(Some(a)),
            (None, max) => Ok(self.default.or(max)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Interactive {
    Yes,
    No,
    Only,
}
