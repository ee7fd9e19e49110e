//! Reading ahead: what events about many pieces of work are going to need, brought into the cache
//! together. Each of them finds its job, its run and its host far away in memory, one behind the
//! other; many at a time wait for memory only once. Changes nothing and decides nothing.

use super::State;
use super::job::{HostId, Job, Run};
use crate::model::JobKey;
use std::hint::black_box;

/// Pieces of work that are best brought near together: enough to keep memory busy, few enough to
/// stay until they are used.
pub const TOGETHER: usize = 64;

/// Bytes that come together.
const LINE: usize = 64;

impl State {
    /// Brings near what events about these pieces of work read, at best [`TOGETHER`] of them right
    /// before the events. `Some` host: where the work is about to start; `None`: where it runs.
    pub fn bring_near(&self, works: &[(JobKey, Option<HostId>)]) {
        let host = |(j, host): &(JobKey, Option<HostId>)| {
            host.or_else(|| self.run(j)?.hosts.first().map(|(host, _)| *host))
        };
        for some in works.chunks(TOGETHER) {
            let mut sum = self.skim_works(some.iter().map(|(j, _)| j));
            for work in some {
                sum ^= host(work).map_or(0, |host| self.used.skim(host));
                sum ^= self.skim_start(work).unwrap_or(0);
            }
            for work in some {
                sum ^= host(work).map_or(0, |host| self.used.skim_work(host, LINE));
            }
            black_box(sum);
        }
    }

    /// Brings near what these pieces of work are like.
    pub fn bring_works_near(&self, works: &[JobKey]) {
        for some in works.chunks(TOGETHER) {
            black_box(self.skim_works(some.iter()));
        }
    }

    /// Step by step, so that in each step all wait together. What is read does not matter.
    fn skim_works<'a>(&self, works: impl Iterator<Item = &'a JobKey> + Clone) -> usize {
        let mut sum = 0usize;
        for j in works.clone() {
            sum ^= self.jobs.place(j.id);
        }
        for j in works.clone() {
            sum ^= self.jobs.get(j.id).map_or(0, Job::skim);
        }
        for j in works {
            sum ^= self.run(j).map_or(0, Run::skim);
        }
        sum
    }

    /// What a start reads beside: events call hosts by name, and the job leaves its class.
    fn skim_start(&self, (j, host): &(JobKey, Option<HostId>)) -> Option<usize> {
        let id = self.host_ids.get(self.host_name((*host)?))?;
        let entry = self.specs.get(&self.jobs.get(j.id)?.spec)?;
        let (order, _) = self.pending.class(entry.class)?.jobs.first()?;
        Some(id.0 as usize ^ order as usize)
    }

    fn run(&self, j: &JobKey) -> Option<&Run> {
        self.work(*j)?.run.as_deref()
    }
}
