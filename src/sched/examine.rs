//! At which stage each host of the cluster is excluded for a waiting job, and which host comes
//! closest: the types, and the entry point of the pass that computes them.

use super::engine::Engine;
use super::hosts::HostTable;
use super::pass::Pass;
use crate::model::{PendReason, Stamp};
use crate::state::State;

/// What excludes a host from a job, in the order of the checks: a host counts once, for the first
/// check that fails.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stage {
    NotInQueue,
    NotAsked,
    NoServer,
    Closed,
    Locked,
    Unavailable,
    OtherType,
    Select,
    /// Too small even when idle; with the name of what it lacks.
    TooSmall,
    Window,
    Load,
    Exclusive,
    Slots,
    /// With the name of the resource.
    Amount,
    UserLimit,
    QueueLimit,
    TooSlow,
    Recent,
    Reserved,
    /// It fits alone, but not together with others as the job requires.
    Together,
}

impl Stage {
    /// A stable word for scripts.
    pub fn word(self) -> &'static str {
        match self {
            Stage::NotInQueue => "not_in_queue",
            Stage::NotAsked => "not_asked",
            Stage::NoServer => "no_server",
            Stage::Closed => "closed",
            Stage::Locked => "locked",
            Stage::Unavailable => "unavailable",
            Stage::OtherType => "other_type",
            Stage::Select => "select",
            Stage::TooSmall => "too_small",
            Stage::Window => "window",
            Stage::Load => "load",
            Stage::Exclusive => "exclusive",
            Stage::Slots => "slots",
            Stage::Amount => "amount",
            Stage::UserLimit => "user_limit",
            Stage::QueueLimit => "queue_limit",
            Stage::TooSlow => "too_slow",
            Stage::Recent => "recent",
            Stage::Reserved => "reserved",
            Stage::Together => "together",
        }
    }
}

/// Hosts excluded at one stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExcludedHosts {
    pub stage: Stage,
    /// The resource, if the stage is about one; else empty.
    pub resource: String,
    pub hosts: u32,
    /// The names of the first of them.
    pub first: Vec<String>,
}

/// What a host lacks: the words of the request, and the host's own value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnmetNeed {
    pub stage: Stage,
    /// `slots`, a resource, or empty.
    pub what: String,
    /// The amount with its unit, for users.
    pub need: String,
    pub available: String,
    /// The same in thousandths, if it is an amount.
    pub need_milli: i64,
    pub has_milli: i64,
}

/// The host that lacks the least.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NearestMiss {
    pub host: String,
    /// Has at least one entry.
    pub unmet: Vec<UnmetNeed>,
}

/// An amount of `rusage[]`, and how much of it the hosts have that meet all other conditions.
/// Thousandths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AmountRoom {
    pub resource: String,
    /// The minimum number of times that one host has to provide it: once for each of this many
    /// slots.
    pub times: u32,
    /// The most that any host has left.
    pub most_left: i64,
    /// The most that any host has when idle; `None`: unknown.
    pub most_idle: Option<i64>,
}

/// The hosts as a pass sees them for one class of jobs.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Examination {
    /// Number of hosts of the cluster.
    pub hosts: u32,
    /// Excluded hosts by stage, in the order of the stages.
    pub excluded: Vec<ExcludedHosts>,
    pub nearest: Option<NearestMiss>,
    /// Hosts that nothing excludes, taken alone.
    pub fitting: Vec<String>,
    /// Why the job can never start with its present options.
    pub never: Option<PendReason>,
    /// Free slots of the hosts that meet all other conditions: on the best one, on all.
    pub free_one: u32,
    pub free_all: u32,
    /// The same hosts' slots when idle: on the best one, on all.
    pub slots_one: u32,
    pub slots_all: u32,
    /// One entry for each amount in `rusage[]`.
    pub amounts: Vec<AmountRoom>,
    /// Resources of `rusage[]` that several hosts share.
    pub shared: Vec<String>,
}

impl Examination {
    /// Number of hosts excluded at a stage.
    pub fn excluded_at(&self, stage: Stage) -> u32 {
        let at = self.excluded.iter().filter(|lost| lost.stage == stage);
        at.map(|lost| lost.hosts).sum()
    }
}

impl Engine {
    /// Checks all hosts for a class of pending jobs, in the state that the last [`Engine::plan`]
    /// left. Returns `None` if no job of the class is pending.
    pub fn examine(
        &mut self,
        state: &State,
        table: &HostTable,
        now: Stamp,
        class: u32,
    ) -> Option<Examination> {
        Pass::new(&mut self.picture, &mut self.memory, state, table, now).examine(class)
    }
}
