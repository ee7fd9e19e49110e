//! `crun`: an administrator starts a pending job on chosen hosts, regardless of limits, windows,
//! reservations or dependencies. Never starts on a host that does not answer.

use super::answer::Answer;
use super::context::Turn;
use crate::intake::{Action, ActionObject, Refusal, Requester};
use crate::model::{JobKey, JobStat, Share};
use crate::record::ack::Code;
use crate::sched::plan_applier;
use crate::state::Body;
use crate::text::error::did_you_mean;
use crate::text::jobids::JobSel;

/// Maximum number of names with which a mistyped one is compared.
const MAX_GUESSED: usize = 2000;
/// Maximum length of a list of hosts, in bytes.
const HOSTS_MAX: usize = 64 << 10;

impl Turn<'_> {
    pub(super) fn run_now(
        &mut self,
        requester: &Requester,
        id: &str,
        (hosts, closed): (&str, bool),
        answer: &mut Answer,
    ) {
        match self.try_run_now(requester, id, hosts, closed) {
            Ok(text) => answer.add_result(id, Code::Ok, text),
            Err(refusal) => answer.refuse(id, refusal),
        }
    }

    fn try_run_now(
        &mut self,
        requester: &Requester,
        id: &str,
        hosts: &str,
        closed: bool,
    ) -> Result<String, Refusal> {
        let j = one_job(id)?;
        let core = &*self.core;
        // Only administrators of the cluster get the answer that a job does not exist.
        if !self.may_act(requester, Action::Run, j.id)
            && !requester.may(
                Action::Run,
                ActionObject::Cluster,
                &core.config,
                core.inputs.service_uid,
            )
        {
            return Err(Refusal::permission(
                "permission denied: only an administrator may force a start",
            ));
        }
        let missing = || Refusal::new(Code::NotFound, "no matching job found");
        let job = core.state.job(j.id).ok_or_else(missing)?;
        if j.idx == 0 && matches!(job.body, Body::Array(_)) {
            return Err(Refusal::usage("name one element of the array, as 12[3]"));
        }
        let stat = core.state.stat(j).ok_or_else(missing)?;
        if !stat.is_waiting() {
            return Err(match stat {
                JobStat::Done | JobStat::Exit => Refusal::not_found("job has already finished"),
                _ => Refusal::refused("job has already started"),
            });
        }
        let spec = core.state.spec(job.spec);
        let (min, max) = (spec.min.max(1), spec.max.max(spec.min).max(1));
        let shares = self.shares_on(hosts, closed, min, max)?;
        let names: Vec<String> = shares.iter().map(Share::to_string).collect();
        self.rebuild_hosts();
        let core = &mut *self.core;
        core.engine.sync(&mut core.state, &mut core.hosts);
        let units = core.engine.units_on(&core.state, &core.hosts, j, &shares);
        let units = units.map_err(Refusal::refused)?;
        let now = self.now;
        plan_applier::bind(self, j, (shares, units), (0, true), now);
        self.core.pass.needed = true;
        Ok(format!("is being forced to run on <{}>", names.join(" ")))
    }

    fn no_such_host(&self, name: &str) -> Refusal {
        let known = self.core.config.host_names();
        let hint = did_you_mean(name, known.take(MAX_GUESSED));
        Refusal::not_found(format!("-m: there is no host {name:?}{hint}"))
    }

    /// The slots on each host: as given after `#`, otherwise as many as the hosts have, in order;
    /// the last host takes the rest.
    fn shares_on(
        &self,
        text: &str,
        closed: bool,
        min: u32,
        max: u32,
    ) -> Result<Vec<Share>, Refusal> {
        if text.len() > HOSTS_MAX {
            return Err(Refusal::usage(format!(
                "-m: at most {HOSTS_MAX} bytes of host names"
            )));
        }
        let mut requested: Vec<(String, u32, Option<u32>)> = Vec::new();
        for word in text.split_whitespace() {
            let (name, slots) = match word.split_once('#') {
                None => (word, None),
                Some((name, n)) => (name, Some(slots(word, n)?)),
            };
            let bad = |why: &str| Refusal::refused(format!("-m: host {name} {why}"));
            let host = self.core.hosts.find_by_name(name);
            let host = host.ok_or_else(|| self.no_such_host(name))?;
            if !host.ctl.up || !host.load.executor {
                return Err(bad("does not answer"));
            }
            if !host.entry.server {
                return Err(bad("runs no jobs (server: no)"));
            }
            if host.ctl.closed && !closed {
                return Err(bad("is closed; crun -f starts jobs there"));
            }
            if host.ctl.lock.is_some() && !closed {
                return Err(bad("is locked; crun -f starts jobs there"));
            }
            if requested.iter().any(|(known, ..)| known == name) {
                return Err(bad("is named twice"));
            }
            requested.push((name.to_owned(), host.slots, slots));
        }
        let given: u64 = requested.iter().filter_map(|a| a.2).map(u64::from).sum();
        let mut left = u64::from(min).saturating_sub(given);
        let unspecified = requested.iter().filter(|a| a.2.is_none()).count();
        if requested.is_empty() || given > u64::from(max) || (unspecified == 0 && left > 0) {
            let n = if max > min {
                format!("{min} to {max}")
            } else {
                min.to_string()
            };
            return Err(Refusal::usage(format!(
                "-m: the job needs {n} slots, but the hosts are given {given}"
            )));
        }
        let mut shares = Vec::new();
        let mut seen = 0;
        for (name, has, slots) in requested {
            let n = slots.unwrap_or_else(|| {
                seen += 1;
                let most = if seen == unspecified {
                    left
                } else {
                    left.min(u64::from(has))
                };
                left -= most;
                u32::try_from(most).unwrap_or(u32::MAX)
            });
            if n > 0 {
                shares.push(Share(name, n));
            }
        }
        Ok(shares)
    }
}

fn slots(word: &str, text: &str) -> Result<u32, Refusal> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let n = text.parse::<u32>().ok().filter(|n| digits && *n > 0);
    n.ok_or_else(|| Refusal::usage(format!("-m: {word:?} does not end with a number of slots")))
}

fn one_job(id: &str) -> Result<JobKey, Refusal> {
    match JobSel::parse(id) {
        Ok(JobSel::Job(id)) => Ok(JobKey::job(id)),
        Ok(JobSel::Elements(id, set)) if set.len() == 1 => {
            Ok(JobKey::element(id, set.iter().next().unwrap_or(0)))
        }
        Ok(_) => Err(Refusal::usage("name one job, or one element as 12[3]")),
        Err(e) => Err(Refusal::usage(e.to_string())),
    }
}
