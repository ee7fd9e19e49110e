//! Indices derived from the jobs: which jobs wait in which class, and usage by user.

use super::chunked_set::ChunkedSet;
use super::host_numbers::HostNumbers;
use super::job::{HostId, Run};
use super::table::Table;
use super::units::UnitsInUse;
use crate::model::{JobKey, JobStat, PendReason, Spec, Stamp};
use rustc_hash::FxHashMap;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The values that make two pending jobs equal for scheduling: a pass looks at classes, never at
/// single jobs.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ClassKey {
    pub queue: String,
    pub uid: u32,
    pub min: u32,
    pub max: u32,
    pub res_req: String,
    pub hosts: String,
    pub exclusive: bool,
    pub priority: u32,
    pub begin: Option<Stamp>,
    pub deadline: Option<Stamp>,
    pub sub_host: String,
    /// Limits depend on the project, backfill on the run limit.
    pub project: String,
    /// Requirements and limits depend on the application.
    pub app: String,
    /// The run limit, s, and the host or model for which it is stated.
    pub run_limit: Option<(u64, String)>,
    /// The user group, which decides the place in the share tree; the job group, which has limits.
    pub groups: (String, String),
}

impl ClassKey {
    pub fn of(spec: &Spec) -> ClassKey {
        ClassKey {
            queue: spec.queue.clone(),
            uid: spec.uid,
            min: spec.min,
            max: spec.max,
            res_req: spec.res_req.clone(),
            hosts: spec.hosts.clone(),
            exclusive: spec.exclusive,
            priority: spec.priority,
            begin: spec.begin,
            deadline: spec.deadline,
            project: spec.project.clone(),
            app: spec.app.clone(),
            groups: (spec.user_group.clone(), spec.job_group.clone()),
            run_limit: spec.limits.run_s.map(|s| (s, spec.run_on.clone())),
            // If types are not mentioned, a job runs on the type of its submission host.
            sub_host: spec.sub_host.clone(),
        }
    }
}

/// The pending jobs of one class, in order.
#[derive(Clone, Debug)]
pub struct Class {
    pub key: ClassKey,
    /// Any specification of the class (all are equal for scheduling).
    pub spec: Arc<Spec>,
    /// The number that it has, or had.
    pub spec_id: u32,
    /// Number of specifications in use that belong to the class.
    pub refs: u32,
    /// (order, key): the unstarted elements of an array appear once, with index 0.
    pub jobs: ChunkedSet<(i64, JobKey)>,
    /// Number of entries with index 0 that represent an array.
    pub arrays: u32,
    /// Why they wait, from the last pass.
    pub why: PendReason,
}

/// All pending jobs and elements, by class.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    classes: Table<Class>,
    by_key: HashMap<ClassKey, u32>,
    last: u32,
    dirty: BTreeSet<u32>,
    /// Classes whose jobs changed since the scheduler last asked; `None`: changes are not recorded.
    log: Option<Vec<u32>>,
    /// Number of changes.
    version: u64,
}

impl Pending {
    /// Classes that gained or lost jobs since the last call, in order, each once. Changes are
    /// recorded from the first call on. `None`: they were not recorded so far, look at all classes.
    pub fn take_changed(&mut self) -> Option<Vec<u32>> {
        let mut changed = self.log.replace(Vec::new())?;
        changed.sort_unstable();
        changed.dedup();
        Some(changed)
    }

    /// A number that changes whenever something is added or removed.
    pub fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn note(&mut self, id: u32) {
        self.version += 1;
        if let Some(log) = &mut self.log
            && log.last() != Some(&id)
        {
            log.push(id);
        }
    }

    pub fn classes(&self) -> impl Iterator<Item = (u32, &Class)> {
        self.classes.iter()
    }

    pub fn class(&self, id: u32) -> Option<&Class> {
        self.classes.get(id)
    }

    /// Takes a reference to the class of `spec`; creates the class if needed.
    pub(super) fn take_class(&mut self, spec: &Arc<Spec>, spec_id: u32) -> u32 {
        let key = ClassKey::of(spec);
        let id = match self.by_key.get(&key) {
            Some(id) => *id,
            None => {
                // After the highest number, numbering continues from 1.
                self.last = self.last.checked_add(1).unwrap_or(1);
                while self.classes.contains_key(self.last) {
                    self.last = self.last.checked_add(1).unwrap_or(1);
                }
                let class = Class {
                    key: key.clone(),
                    spec: spec.clone(),
                    spec_id,
                    refs: 0,
                    jobs: ChunkedSet::default(),
                    arrays: 0,
                    why: PendReason::New,
                };
                self.classes.insert(self.last, class);
                self.by_key.insert(key, self.last);
                self.dirty.insert(self.last);
                self.last
            }
        };
        self.classes.get_mut(id).expect("just found or made").refs += 1;
        id
    }

    /// Drops a reference; the last one removes the class.
    pub(super) fn leave(&mut self, id: u32) {
        let class = self.classes.get_mut(id).expect("a reference is held");
        class.refs -= 1;
        if class.refs == 0 {
            assert!(
                class.jobs.is_empty(),
                "class {id} is dropped with pending jobs"
            );
            let class = self.classes.remove(id).expect("present");
            self.by_key.remove(&class.key);
            self.dirty.remove(&id);
            self.note(id);
        }
    }

    /// `array`: the job is an array.
    pub(super) fn put(&mut self, id: u32, order: i64, j: JobKey, array: bool) {
        let class = self.classes.get_mut(id).expect("the spec holds its class");
        // Views drop the reason of a class without jobs.
        if class.jobs.is_empty() {
            self.dirty.insert(id);
        }
        if class.jobs.insert((order, j)) && array && j.idx == 0 {
            class.arrays += 1;
        }
        self.note(id);
    }

    pub(super) fn take(&mut self, id: u32, order: i64, j: JobKey, array: bool) {
        if let Some(class) = self.classes.get_mut(id)
            && class.jobs.remove((order, j))
            && array
            && j.idx == 0
        {
            class.arrays -= 1;
        }
        self.note(id);
    }

    /// Records why the jobs of a class wait. Returns true if the reason changed.
    pub fn set_why(&mut self, id: u32, why: PendReason) -> bool {
        let Some(class) = self.classes.get_mut(id) else {
            return false;
        };
        if class.why == why {
            return false;
        }
        class.why = why;
        self.dirty.insert(id);
        true
    }

    /// Classes whose reason changed since the last call.
    pub fn take_dirty(&mut self) -> Vec<(u32, PendReason)> {
        let ids = std::mem::take(&mut self.dirty);
        ids.into_iter()
            .filter_map(|id| Some((id, self.classes.get(id)?.why.clone())))
            .collect()
    }
}

/// Slots in use by a host, queue or user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InUse {
    pub run: u32,
    pub ssusp: u32,
    pub ususp: u32,
}

impl InUse {
    pub fn total(self) -> u32 {
        self.run + self.ssusp + self.ususp
    }

    fn add(&mut self, stat: JobStat, slots: u32, plus: bool) {
        let field = match stat {
            JobStat::Ssusp => &mut self.ssusp,
            JobStat::Ususp => &mut self.ususp,
            _ => &mut self.run,
        };
        *field = if plus { *field + slots } else { *field - slots };
    }
}

/// The owners of what started jobs hold; queues by number.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsageOwner {
    pub queue: u32,
    pub uid: u32,
}

/// What started jobs use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartedUsage {
    /// By host: started jobs and elements with their slots, sorted.
    by_host: Vec<Vec<(JobKey, u32)>>,
    host: Vec<InUse>,
    /// By number.
    queue: Vec<InUse>,
    /// Numbers of queues, one for each queue that ever had jobs.
    queue_ids: FxHashMap<String, u32>,
    user: FxHashMap<u32, InUse>,
    pub(super) units: UnitsInUse,
}

impl StartedUsage {
    /// Makes room for `hosts` hosts.
    pub(super) fn grow(&mut self, hosts: usize) {
        self.by_host.resize_with(hosts, Vec::new);
        self.host.resize_with(hosts, InUse::default);
        self.units.grow(hosts);
    }

    /// The owners for which the jobs of a specification count.
    pub(super) fn usage_owner(&mut self, spec: &Spec) -> UsageOwner {
        let uid = spec.uid;
        if let Some(queue) = self.queue_ids.get(&spec.queue) {
            return UsageOwner { queue: *queue, uid };
        }
        let queue = self.queue.len() as u32;
        self.queue.push(InUse::default());
        self.queue_ids.insert(spec.queue.clone(), queue);
        UsageOwner { queue, uid }
    }

    /// Prefetches the counters of a host.
    pub(super) fn prefetch(&self, host: HostId) -> usize {
        let at = host.0 as usize;
        let run = self.host.get(at).map_or(0, |n| n.run as usize);
        self.by_host.get(at).map_or(0, Vec::len) ^ run
    }

    /// Prefetches the list of jobs on a host by reading one entry of each `line` bytes.
    pub(super) fn prefetch_work(&self, host: HostId, line: usize) -> usize {
        let step = (line / std::mem::size_of::<(JobKey, u32)>()).max(1);
        let work = self
            .by_host
            .get(host.0 as usize)
            .map_or(&[][..], |work| work);
        let (mut sum, mut at) = (0, 0);
        while let Some((_, n)) = work.get(at) {
            sum ^= *n as usize;
            at += step;
        }
        sum
    }

    /// The same hosts and queues, with nothing in use.
    pub(super) fn unused(&self) -> StartedUsage {
        let mut used = StartedUsage {
            queue: vec![InUse::default(); self.queue.len()],
            queue_ids: self.queue_ids.clone(),
            ..StartedUsage::default()
        };
        used.grow(self.host.len());
        used
    }

    /// Adds or removes everything that `run` of `j` holds in state `stat`.
    pub(super) fn charge(
        &mut self,
        j: JobKey,
        owner: UsageOwner,
        run: &Run,
        stat: JobStat,
        plus: bool,
        numbers: &HostNumbers,
    ) {
        let mut all = 0;
        for (host, slots) in &run.hosts {
            all += slots;
            let at = host.0 as usize;
            self.host[at].add(stat, *slots, plus);
            let started = &mut self.by_host[at];
            match (started.binary_search_by_key(&j, |(j, _)| *j), plus) {
                (Ok(at), true) => started[at].1 += slots,
                (Err(at), true) => started.insert(at, (j, *slots)),
                (Ok(at), false) => drop(started.remove(at)),
                (Err(_), false) => {}
            }
        }
        self.queue[owner.queue as usize].add(stat, all, plus);
        let user = self.user.entry(owner.uid).or_default();
        user.add(stat, all, plus);
        for units in run.units() {
            // A job has units only on hosts where it has slots; usually that is one host.
            let host = match run.hosts[..] {
                [(host, _)] if **numbers.name(host) == *units.host => Some(host),
                _ => numbers.id(&units.host),
            };
            if let Some(host) = host {
                self.units.charge(j, host, units, plus);
            }
        }
    }

    /// Units of resources with `assign` that started jobs have.
    pub fn units(&self) -> &UnitsInUse {
        &self.units
    }

    pub fn started_on(&self, host: HostId) -> impl Iterator<Item = (JobKey, u32)> {
        self.by_host[host.0 as usize].iter().copied()
    }

    /// All started jobs and elements, in order.
    pub fn all_work(&self) -> impl Iterator<Item = JobKey> {
        let mut all: Vec<JobKey> = self.by_host.iter().flatten().map(|(j, _)| *j).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter()
    }

    pub fn host(&self, host: HostId) -> InUse {
        self.host[host.0 as usize]
    }

    pub fn queue(&self, queue: &str) -> InUse {
        let number = self.queue_number(queue);
        number.map_or(InUse::default(), |n| self.queue[n as usize])
    }

    /// The number of a queue that ever had jobs.
    pub(super) fn queue_number(&self, queue: &str) -> Option<u32> {
        self.queue_ids.get(queue).copied()
    }

    /// Whether the user has started jobs, or had some.
    pub(super) fn knows_user(&self, uid: u32) -> bool {
        self.user.contains_key(&uid)
    }

    pub fn user(&self, uid: u32) -> InUse {
        self.user.get(&uid).copied().unwrap_or_default()
    }

    /// Removes counters that are zero, so that two equal states compare equal.
    pub(super) fn tidy(&mut self) {
        self.user.retain(|_, n| n.total() > 0);
    }
}
