//! Memory prefetch: reads what the next events need, for many of them at a time. Each event finds
//! its job, run and host by a chain of cache misses; the misses of many events overlap. Changes
//! nothing and decides nothing.

use super::State;
use super::job::{HostId, Job, Run};
use crate::model::JobKey;
use std::hint::black_box;

/// Best number of jobs or elements to prefetch at a time: enough to keep the memory busy, few
/// enough to stay in the cache until they are used.
pub const PREFETCH_BATCH: usize = 64;

/// Size of a cache line (bytes).
const LINE: usize = 64;

impl State {
    /// Prefetches what events about these jobs or elements read; best called for [`PREFETCH_BATCH`]
    /// of them right before the events. `Some`: the host where it is about to start; `None`: where
    /// it runs.
    pub fn prefetch(&self, works: &[(JobKey, Option<HostId>)]) {
        let host = |(j, host): &(JobKey, Option<HostId>)| {
            host.or_else(|| self.run(j)?.hosts.first().map(|(host, _)| *host))
        };
        for some in works.chunks(PREFETCH_BATCH) {
            let mut sum = self.prefetch_records(some.iter().map(|(j, _)| j));
            for work in some {
                sum ^= host(work).map_or(0, |host| self.used.prefetch(host));
                sum ^= self.prefetch_entry(work).unwrap_or(0);
            }
            for work in some {
                sum ^= host(work).map_or(0, |host| self.used.prefetch_work(host, LINE));
            }
            for (j, start) in some {
                sum ^= start.map_or_else(|| self.prefetch_units(j).unwrap_or(0), |_| 0);
            }
            black_box(sum);
        }
    }

    /// Prefetches only the records of these jobs or elements.
    pub fn prefetch_works(&self, works: &[JobKey]) {
        for some in works.chunks(PREFETCH_BATCH) {
            black_box(self.prefetch_records(some.iter()));
        }
    }

    /// Reads one level of the chain at a time, so that the misses of a level overlap. The sum only
    /// prevents the compiler from removing the reads.
    fn prefetch_records<'a>(&self, works: impl Iterator<Item = &'a JobKey> + Clone) -> usize {
        let mut sum = 0usize;
        for j in works.clone() {
            sum ^= self.jobs.locate(j.id);
        }
        for j in works.clone() {
            sum ^= self.jobs.get(j.id).map_or(0, Job::prefetch);
        }
        for j in works {
            sum ^= self.run(j).map_or(0, Run::prefetch);
        }
        sum
    }

    /// Prefetches the entry of a job's specification, and what a start reads in addition: the host
    /// by its name, and the class that the job leaves.
    fn prefetch_entry(&self, (j, host): &(JobKey, Option<HostId>)) -> Option<usize> {
        let entry = self.specs.get(&self.jobs.get(j.id)?.spec)?;
        let sum = entry.waiting as usize ^ entry.traits.min as usize;
        let Some(host) = host else {
            return Some(sum);
        };
        let id = self.hosts.numbers.id(self.host_name(*host))?;
        let (order, _) = self.pending.class(entry.class)?.jobs.first()?;
        Some(sum ^ id.0 as usize ^ order as usize)
    }

    /// Prefetches the units in use on the host of a started job that has some of them.
    fn prefetch_units(&self, j: &JobKey) -> Option<usize> {
        let run = self.run(j).filter(|run| !run.units().is_empty())?;
        Some(self.used.units().prefetch(run.hosts.first()?.0))
    }

    fn run(&self, j: &JobKey) -> Option<&Run> {
        self.work(*j)?.run.as_deref()
    }
}
