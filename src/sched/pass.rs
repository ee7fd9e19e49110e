//! One pass of the scheduler: the picture, the state and the host table that it reads, the plan
//! that it makes, and its scratch data. Each policy has a file of its own below; the order in which
//! they are called is in `pass/walk.rs`.

mod backfill;
mod demand;
mod elastic;
mod find_hosts;
mod job_limits;
mod nearest_miss;
mod openings;
mod pending_reasons;
mod preempt;
mod run_windows;
mod rusage_decay;
mod stages;
mod start;
mod start_conditions;
mod suspend;
mod units;
mod vetoes;
mod walk;

use super::fragmentation::Demand;
use super::hosts::HostTable;
use super::pending_classes::PendingClass;
use super::picture::Picture;
use super::plan::Plan;
use super::preemption_search::PreemptionSearch;
use super::quota::Blocked;
use super::shape::{ClusterView, Shape};
use super::start_vetoes::StartVetoes;
use crate::config::Config;
use crate::model::Stamp;
use crate::state::State;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::collections::HashMap;

/// What one pass passes on to the next.
#[derive(Default)]
pub(super) struct PassMemory {
    /// Slots and lengths for which no hosts were found, by family; a request for more cannot
    /// succeed either.
    failed_sizes: FxHashMap<u32, SmallVec<[(u32, i64); 4]>>,
    /// Position in the log of changed hosts for which `failed_sizes` is valid.
    failed_sizes_at: u64,
    /// When every class was last considered to update the reasons.
    reasons_updated_at: Stamp,
    /// The common kinds of jobs, for queues whose packing depends on them.
    demand: Demand,
    pub preemption: PreemptionSearch,
    pub vetoes: StartVetoes,
    /// Pending reasons are not needed.
    pub skip_reasons: bool,
}

impl PassMemory {
    /// The memory for a rebuilt picture.
    pub(super) fn renewed(self) -> PassMemory {
        PassMemory {
            preemption: self.preemption.renewed(),
            vetoes: self.vetoes,
            skip_reasons: self.skip_reasons,
            ..PassMemory::default()
        }
    }

    /// Notes that the wall clock was set forward or back by `by_ms`.
    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        self.preemption.shift(by_ms);
        self.vetoes.shift(by_ms);
        self.reasons_updated_at = Stamp(0);
    }
}

/// See the head of this file.
pub(super) struct Pass<'a> {
    picture: &'a mut Picture,
    memory: &'a mut PassMemory,
    state: &'a State,
    table: &'a HostTable,
    now: Stamp,
    plan: Plan,
    /// `exhausted`: queues that have nothing left to try in this pass; `active`: active queues.
    exhausted: Vec<bool>,
    active: Vec<bool>,
    /// Every class is considered, to update the reasons.
    all_classes: bool,
    /// Number of array elements that this pass has decided to start.
    array_started: HashMap<u32, u32>,
    /// How long the job under consideration has waited.
    waited_ms: u64,
    /// The limit on a host that last prevented a start.
    over_limit: Option<Blocked>,
    /// Positions of the hosts that the job under consideration avoids.
    avoided: SmallVec<[u32; 4]>,
    /// Number of jobs that were skipped because they wait for another host.
    passed: u32,
    /// Classes for which this pass has found out why they wait.
    explained: FxHashSet<u32>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        picture: &'a mut Picture,
        memory: &'a mut PassMemory,
        state: &'a State,
        table: &'a HostTable,
        now: Stamp,
    ) -> Pass<'a> {
        picture.now = now;
        picture.allocations.clear_planned();
        Pass {
            picture,
            memory,
            state,
            table,
            now,
            plan: Plan::default(),
            exhausted: Vec::new(),
            active: Vec::new(),
            all_classes: false,
            array_started: HashMap::new(),
            waited_ms: 0,
            over_limit: None,
            avoided: SmallVec::new(),
            passed: 0,
            explained: FxHashSet::default(),
        }
    }

    fn config(&self) -> &Config {
        &self.picture.config
    }

    fn shape(&self, id: u32) -> &Shape {
        self.picture.requests.shape(id)
    }

    fn class(&self, id: u32) -> &PendingClass {
        let class = self.picture.classes.get(id);
        class.expect("pending classes have a record")
    }

    fn view(&self) -> ClusterView<'_> {
        ClusterView {
            config: &self.picture.config,
            table: self.table,
            usage: &self.picture.usage,
            names: &self.picture.resources,
            demand: &self.memory.demand,
        }
    }
}
