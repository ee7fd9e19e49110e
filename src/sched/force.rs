//! Starts by an administrator's word (`crun`): limits, windows and policies do not count, slots may
//! be taken twice. Chooses hosts only; never books or stops anything.

use super::Start;
use super::engine::Engine;
use super::hosts::{HostTable, Obstacle};
use super::shape::Shape;
use crate::model::{JobKey, JobStat};
use crate::state::{HostId, State};

impl Engine {
    /// Where a waiting job is to start at once: on `hosts` in that order, or if none are named on
    /// those that suit it, the emptiest first. `closed`: hosts that an administrator closed will do
    /// (`crun -f`). The caller carries the start out; [`Engine::sync`] learns of it from the state.
    ///
    /// # Errors
    /// A sentence that says why it cannot start.
    pub fn force(
        &mut self,
        state: &State,
        table: &HostTable,
        j: JobKey,
        hosts: &[HostId],
        closed: bool,
    ) -> Result<Start, String> {
        match state.stat(j) {
            Some(JobStat::Pend | JobStat::Psusp) => {}
            Some(stat) => {
                return Err(format!(
                    "job {j} is {stat}, only a waiting job can be started"
                ));
            }
            None => return Err(format!("job {j} does not exist")),
        }
        let job = state
            .job(j.id)
            .ok_or_else(|| format!("job {j} does not exist"))?;
        if j.idx == 0 && job.array().is_some() {
            return Err(format!("job {j} is an array: name its elements"));
        }
        let spec = state.spec(job.spec).clone();
        let shape = Shape::new(
            &spec,
            self.config.as_deref().expect("it has one"),
            &mut self.names.clone(),
        );
        if let Some(why) = &shape.bad {
            return Err(format!("job {j} can never run here: {why}"));
        }
        let spots = match hosts {
            [] => self.chosen(table, &shape, closed),
            named => self.named(table, named, closed)?,
        };
        let need = shape.request.min.max(1);
        let hosts = self.deal(table, &shape, &spots, need);
        if hosts.is_empty() {
            return Err(format!(
                "job {j} needs {need} slots, no host that is up suits it"
            ));
        }
        Ok(Start { j, hosts, alt: 0 })
    }

    fn usable(table: &HostTable, at: usize, closed: bool) -> Result<(), String> {
        let host = table.at(at);
        match host.obstacle() {
            Some(Obstacle::Unavailable) => Err(format!("host {} is unavailable", host.name)),
            Some(Obstacle::Closed) if !host.entry.server => {
                Err(format!("host {} runs no jobs (server: no)", host.name))
            }
            Some(Obstacle::Closed) if !closed => Err(format!(
                "host {} is closed, crun -f starts jobs there",
                host.name
            )),
            _ => Ok(()),
        }
    }

    fn named(
        &self,
        table: &HostTable,
        hosts: &[HostId],
        closed: bool,
    ) -> Result<Vec<usize>, String> {
        let mut spots = Vec::new();
        for id in hosts {
            let at = table
                .position(*id)
                .ok_or("a host that is named is not in the cluster")?;
            Self::usable(table, at, closed)?;
            if !spots.contains(&at) {
                spots.push(at);
            }
        }
        Ok(spots)
    }

    /// Hosts that suit the request whatever is free on them, most free slots first.
    fn chosen(&self, table: &HostTable, shape: &Shape, closed: bool) -> Vec<usize> {
        let view = self.view(table);
        let mut spots: Vec<usize> = (0..self.books.len())
            .filter(|at| Self::usable(table, *at, closed).is_ok())
            .filter(|at| shape.fits_some(&view, *at))
            .collect();
        spots.sort_by_key(|at| (-self.books.get(*at).free(), *at));
        spots
    }

    /// What is free first, then the rest where the host has slots at all, then on the first host.
    fn deal(
        &self,
        table: &HostTable,
        shape: &Shape,
        spots: &[usize],
        need: u32,
    ) -> super::Placement {
        let spots = match shape.one_host() {
            true => &spots[..spots.len().min(1)],
            false => spots,
        };
        let tile = shape.tile().unwrap_or(u32::MAX);
        let mut shares = vec![0u32; spots.len()];
        let mut left = need;
        let free = |at: usize| u32::try_from(self.books.get(at).free().max(0)).unwrap_or(u32::MAX);
        let rounds: [&dyn Fn(usize) -> u32; 2] = [&free, &|at| table.at(at).slots];
        for most in rounds {
            for (share, at) in shares.iter_mut().zip(spots) {
                let take = most(*at).min(tile).saturating_sub(*share).min(left);
                *share += take;
                left -= take;
            }
        }
        if let Some(first) = shares.first_mut() {
            *first += left;
        }
        let dealt = spots.iter().zip(shares).filter(|(_, n)| *n > 0);
        dealt.map(|(at, n)| (table.at(*at).id, n)).collect()
    }
}
