//! At which stage each host of the cluster is excluded for a waiting job, and which host comes
//! closest: the types, and the entry point of the pass that computes them.

use super::engine::Engine;
use super::hosts::HostTable;
use super::pass::Pass;
use crate::model::Stamp;
use crate::state::State;

/// What keeps a host from a job. In the order in which they are looked at: a host counts once, for
/// the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stage {
    NotInQueue,
    NotAsked,
    NoServer,
    Closed,
    Unavailable,
    OtherType,
    Select,
    /// Too small even when nothing runs there; with the name of what it lacks.
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
    /// It fits by itself, but not together with others as the job asks.
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

/// Hosts lost at one stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostHosts {
    pub stage: Stage,
    /// The resource, where the stage is about one; else empty.
    pub resource: String,
    pub hosts: u32,
    /// The first of them.
    pub first: Vec<String>,
}

/// What a host lacks: the words of the request, and what the host has instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lack {
    pub stage: Stage,
    /// `slots`, a resource, or empty.
    pub what: String,
    /// With units, as people write them.
    pub need: String,
    pub has: String,
    /// The same in thousandths, where it is an amount.
    pub need_milli: i64,
    pub has_milli: i64,
}

/// The host that lacks least.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NearestMiss {
    pub host: String,
    /// At least one.
    pub lacks: Vec<Lack>,
}

/// An amount of `rusage[]`, and what the hosts have that could serve if they had enough of it.
/// Thousandths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AmountRoom {
    pub resource: String,
    /// How often one host has to give it at least: once for each of so many slots.
    pub times: u32,
    /// The most that a host has left.
    pub left: i64,
    /// The most that a host has when nothing runs there; `None`: not known.
    pub all: Option<i64>,
}

/// What a pass sees of the hosts for one class of jobs.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Examination {
    /// Hosts of the cluster.
    pub hosts: u32,
    /// By stage, in their order.
    pub lost: Vec<LostHosts>,
    pub nearest: Option<NearestMiss>,
    /// Free slots of the hosts that could serve if they had enough: on the best one, on all.
    pub free_one: u32,
    pub free_all: u32,
    /// Likewise slots when nothing runs there.
    pub slots_one: u32,
    pub slots_all: u32,
    /// Of each amount in `rusage[]`.
    pub amounts: Vec<AmountRoom>,
    /// Resources of `rusage[]` that several hosts share.
    pub shared: Vec<String>,
}

impl Examination {
    /// Hosts lost at a stage.
    pub fn lost_at(&self, stage: Stage) -> u32 {
        let at = self.lost.iter().filter(|lost| lost.stage == stage);
        at.map(|lost| lost.hosts).sum()
    }
}

impl Engine {
    /// Looks at all hosts for the jobs of a class of pending jobs, as the last
    /// [`Engine::plan`] left them. `None`: no such class waits.
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
