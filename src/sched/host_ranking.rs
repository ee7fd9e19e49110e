//! Hosts that could serve one part of a request, best first: preference, the keys of `order[]`,
//! packing or spreading, the order of cb.yaml. Kept fresh from the log of changed hosts; never
//! changes usage.

use super::host_usage::ClusterUsage;
use crate::state::PREFETCH_BATCH;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A host that could serve a request; the greatest is tried first. It is kept small, because
/// rankings move many of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    /// Values of the keys of `order[]`, smaller is better; `None` without `order[]`.
    pub keys: Option<Box<[i64]>>,
    pub fullness: i64,
    pub preference: u32,
    /// The last tie-break: the order of cb.yaml.
    pub position: u32,
    pub version: u32,
}

impl Candidate {
    pub(super) fn host(&self) -> usize {
        self.position as usize
    }

    /// Which host is better, even if the hosts have changed since.
    #[inline]
    pub(super) fn compare(&self, other: &Candidate) -> Ordering {
        let keys = || match (&self.keys, &other.keys) {
            (None, None) => Ordering::Equal,
            (own, theirs) => theirs.cmp(own),
        };
        let preference = self.preference.cmp(&other.preference).then_with(keys);
        let fullness = || self.fullness.cmp(&other.fullness);
        preference
            .then_with(fullness)
            .then_with(|| other.position.cmp(&self.position))
    }
}

impl Ord for Candidate {
    #[inline]
    fn cmp(&self, other: &Candidate) -> Ordering {
        self.compare(other).then(self.version.cmp(&other.version))
    }
}

impl PartialOrd for Candidate {
    #[inline]
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The part of a request's evaluation of a host that changes only with the host itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StaticFit {
    /// The versions of the host and of the types of all hosts for which it is valid (0: not
    /// computed).
    pub versions: (u32, u32),
    pub serves: bool,
    pub preference: u32,
}

/// Hosts that could serve a part, best first. Entries of hosts that changed since are stale and
/// ignored; fresh ones are added from the log of changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranking {
    /// Entries that were added together, the best at the end.
    run: Vec<Candidate>,
    /// Entries that were added one by one.
    heap: BinaryHeap<Candidate>,
    /// One more entry, usually the host that was used last: it has changed, and it often is the
    /// best again.
    last: Option<Candidate>,
    /// Entries that were taken out; those of unchanged hosts are put back.
    taken_out: Vec<Candidate>,
    /// Position in the log of changed hosts up to which the ranking is fresh.
    refreshed_to: Option<u64>,
    /// Hosts that limits deny to these jobs until something is freed, and since when.
    limited_hosts: Vec<u32>,
    limited_since: u64,
    /// The version of the demand for which it was made.
    demand_version: u64,
    /// By host: the last refresh that evaluated it. A host that changed often is evaluated once.
    last_refresh: Vec<u32>,
    round: u32,
    /// By host.
    static_fits: Vec<StaticFit>,
    /// A buffer, kept to avoid allocations.
    evaluated: Vec<Candidate>,
}

/// From this number of entries on, they are sorted together.
const MANY: usize = 64;

/// Where an entry of a ranking is.
#[derive(Clone, Copy)]
enum EntryPlace {
    Run,
    Heap,
    Last,
}

/// The jobs to which a ranking applies: those with the same limits on hosts (0 = without such
/// limits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LimitGroup {
    pub on_hosts: u32,
    /// When one of these limits was last eased, in positions of the log of changed hosts.
    pub eased_at: u64,
}

/// How one part of a request evaluates hosts.
pub(super) trait HostJudge {
    /// The part of the host's fitness that changes only with the host itself.
    fn static_fit(&self, at: usize) -> StaticFit;
    /// The host as an entry of the ranking; `None`: it cannot be used now.
    fn candidate(&self, at: usize, lasting: &StaticFit) -> Option<Candidate>;
}

impl Ranking {
    /// Brings the ranking of a part up to date. `demand_version`: version of the demand that the
    /// judge uses.
    pub(super) fn refresh(
        &mut self,
        judge: &impl HostJudge,
        usage: &ClusterUsage,
        demand_version: u64,
        eased_at: u64,
    ) {
        let end = usage.log_end();
        if std::mem::replace(&mut self.demand_version, demand_version) != demand_version {
            self.refreshed_to = None;
        }
        let changed = self
            .refreshed_to
            .and_then(|position| usage.changed(position));
        let hosts = usage.len();
        let small = self.heap.len() + self.run.len() <= 4 * hosts + 64;
        self.static_fits.resize(hosts, StaticFit::default());
        let mut evaluate = |ranking: &mut Ranking, at: u32| {
            let at = at as usize;
            let versions = (usage.get(at).host_version, usage.types_version());
            let mut lasting = ranking.static_fits[at];
            if lasting.versions != versions {
                lasting = judge.static_fit(at);
                lasting.versions = versions;
                ranking.static_fits[at] = lasting;
            }
            judge.candidate(at, &lasting)
        };
        match changed {
            Some(changed) if small && changed.len() <= hosts => {
                let mut out = std::mem::take(&mut self.taken_out);
                out.drain(..).for_each(|old| {
                    if usage.get(old.host()).version == old.version {
                        self.insert(old);
                    }
                });
                self.taken_out = out;
                self.evaluate_changed(changed, usage, &mut evaluate);
                if eased_at > self.limited_since {
                    for at in std::mem::take(&mut self.limited_hosts) {
                        if let Some(new) = evaluate(self, at) {
                            self.insert(new);
                        }
                    }
                }
            }
            _ => {
                self.taken_out.clear();
                self.limited_hosts.clear();
                self.last = None;
                self.heap.clear();
                let all = (0..hosts as u32).filter_map(|at| evaluate(self, at));
                self.run = all.collect();
                self.run.sort_unstable();
            }
        }
        self.refreshed_to = Some(end);
    }

    fn evaluate_changed(
        &mut self,
        changed: &[u32],
        usage: &ClusterUsage,
        evaluate: &mut impl FnMut(&mut Ranking, u32) -> Option<Candidate>,
    ) {
        if let [at] = changed {
            if let Some(new) = evaluate(self, *at) {
                self.insert(new);
            }
            return;
        }
        self.last_refresh.resize(usage.len(), 0);
        self.round += 1;
        let mut all = std::mem::take(&mut self.evaluated);
        for some in changed.chunks(PREFETCH_BATCH) {
            // Their records are far apart in memory: all are read first, so that the reads overlap.
            let version = |at: &u32| usage.get(*at as usize).version;
            std::hint::black_box(some.iter().map(version).fold(0, |sum, n| sum ^ n));
            for at in some {
                let looked = &mut self.last_refresh[*at as usize];
                if std::mem::replace(looked, self.round) != self.round {
                    all.extend(evaluate(self, *at));
                }
            }
        }
        self.insert_all(&mut all, usage);
        self.evaluated = all;
    }

    /// Sorts many new entries once, unless far more are sorted already.
    fn insert_all(&mut self, all: &mut Vec<Candidate>, usage: &ClusterUsage) {
        if all.len() < MANY || all.len() * 2 < self.run.len() {
            all.drain(..).for_each(|new| self.insert(new));
            return;
        }
        self.run
            .retain(|old| usage.get(old.host()).version == old.version);
        self.run.append(all);
        self.run.sort_unstable();
    }

    fn insert(&mut self, mut new: Candidate) {
        match &mut self.last {
            None => self.last = Some(new),
            Some(last) => {
                if new > *last {
                    std::mem::swap(last, &mut new);
                }
                self.heap.push(new);
            }
        }
    }

    /// Where the best of all entries is.
    fn best(&self) -> Option<(&Candidate, EntryPlace)> {
        let run = self.run.last().map(|c| (c, EntryPlace::Run));
        let heap = self.heap.peek().map(|c| (c, EntryPlace::Heap));
        let last = self.last.as_ref().map(|c| (c, EntryPlace::Last));
        let better = |a: Option<(_, _)>, b: Option<(_, _)>| match (&a, &b) {
            (Some((x, _)), Some((y, _))) if x < y => b,
            (None, _) => b,
            _ => a,
        };
        better(better(last, run), heap)
    }

    fn remove_best(&mut self, from: EntryPlace) -> Option<Candidate> {
        match from {
            EntryPlace::Run => self.run.pop(),
            EntryPlace::Heap => self.heap.pop(),
            EntryPlace::Last => self.last.take(),
        }
    }

    /// Takes out the best host. Drops stale and repeated entries.
    pub(super) fn pop(&mut self, usage: &ClusterUsage) -> Option<Candidate> {
        while let Some((_, from)) = self.best() {
            let best = self.remove_best(from)?;
            if usage.get(best.host()).version == best.version {
                // A host that changed twice between two looks has two fresh entries.
                while let Some((again, from)) = self.best()
                    && *again == best
                {
                    self.remove_best(from);
                }
                return Some(best);
            }
        }
        None
    }

    /// Notes that limits deny this host to these jobs for now.
    pub(super) fn note_limited(&mut self, at: usize, usage: &ClusterUsage) {
        if self.limited_hosts.is_empty() {
            self.limited_since = usage.log_end();
        }
        self.limited_hosts.push(at as u32);
    }

    /// Puts back the entries that were taken out, for the next refresh.
    pub(super) fn put_back(&mut self, candidates: impl IntoIterator<Item = Candidate>) {
        self.taken_out.extend(candidates);
    }
}
