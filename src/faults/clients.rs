//! The clients of the simulated cluster, which run the commands' own code: they submit jobs, arrays
//! and jobs on several hosts, act on them (`client_actions`) and read the published view. The last
//! client administers the cluster. The answers go to `history`.

use super::licence_checks::WITH_LICENCE;
use super::simulated_os::SimulatedOs;
use super::unit_checks::REQUESTS;
use super::world::WorldState;
use crate::client::cwait::watch_until_end;
use crate::client::requests::{Outgoing, send};
use crate::model::{Checkpoint, Orphans, Spec, Submission};
use crate::record::byte_text::ByteText;
use crate::record::leader::{FIXED_LEN, decode_fixed};
use crate::record::request::{RequestHead, Verb};
use crate::spool::view::{JobSet, ViewReader};
use crate::spool::{Site, leader_copy};
use crate::sys::{clock, fs};
use std::time::Duration;

/// How long a client waits for an answer before it gives up, in seconds.
pub(super) const ANSWER_S: u64 = 120;
/// Elements of an array.
const ELEMENTS: u32 = 3;

/// A job that was submitted.
pub(super) struct SubmittedJob {
    pub id: u32,
    /// When the leader accepted it, according to its answer.
    accepted_at: i64,
    pub array: bool,
}

/// A client on its machine.
pub(super) struct Client<'a> {
    pub os: &'a SimulatedOs,
    pub site: &'a Site,
    pub slot: usize,
}

impl Client<'_> {
    /// The life of a client: several submissions in sequence, and actions after some of them.
    pub(super) fn run(&self) -> String {
        let (requests, actions, waits) = {
            let plan = &self.os.lock().cluster.plan;
            let waits = if plan.restore { 250 } else { 0 };
            (plan.workload.requests, plan.workload.actions, waits)
        };
        self.define_cron();
        loop {
            let n = self.os.lock().cluster.history.next_request(self.slot);
            if n > requests {
                break;
            }
            self.pause_randomly(3000);
            let name = format!("{}-{n}", self.site.host);
            if let Some(job) = self.submit(&name) {
                if self.draw(actions) {
                    self.act_on_job(&job);
                }
                if self.draw(waits) {
                    self.wait_for(&name, &job);
                }
            }
            if self.draw(250) {
                self.read();
            }
        }
        // No job must stay stopped permanently.
        while self.resume() {
            self.pause_randomly(10_000);
        }
        self.remove_cron();
        self.reset_cluster();
        self.os.lock().cluster.slots[self.slot].done = true;
        "has submitted everything".into()
    }

    pub(super) fn draw(&self, permille: u64) -> bool {
        self.os.lock().kernel.rng.permille(permille)
    }

    pub(super) fn random_below(&self, n: u64) -> u64 {
        self.os.lock().kernel.rng.below(n)
    }

    pub(super) fn pause_randomly(&self, most_ms: u64) {
        let ms = self.os.lock().kernel.rng.between(10, most_ms);
        clock::sleep_ms(ms);
    }

    /// Submits a job with that name. Returns the job if the submission is answered.
    fn submit(&self, name: &str) -> Option<SubmittedJob> {
        let (head, job) = self.submission(name);
        let array = !job.array.is_empty();
        if self.draw(200) {
            self.copy_leader();
        }
        let mut request = Outgoing::new(self.site, head).ok()?;
        let verb = Verb::Submit {
            line: 0,
            same: false,
            job: Box::new(job),
        };
        request.push(&verb).ok()?;
        let (began, led) = {
            let inner = self.os.lock();
            (inner.kernel.now, inner.cluster.history.takeovers > 0)
        };
        let answer = send(self.site, "csub", request, ANSWER_S);
        let mut inner = self.os.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        let waited = Duration::from_micros(kernel.now - began).as_millis() as u64;
        if led {
            let longest = &mut cluster.history.clients.longest_ms;
            *longest = waited.max(*longest);
        }
        match answer {
            Ok(ack) if ack.ok && !ack.ids.is_empty() => {
                let (id, accepted_at) = (ack.ids[0].id, ack.ids[0].t);
                cluster.history.acknowledged(kernel, name, id);
                Some(SubmittedJob {
                    id,
                    accepted_at,
                    array,
                })
            }
            Ok(ack) => {
                kernel.trace("people", || format!("{name} was refused: {ack:?}"));
                None
            }
            Err(e) => {
                kernel.trace("people", || format!("{name}: no answer: {e:?}"));
                None
            }
        }
    }

    /// Writes a copy of the leader's document to this machine's disk, as an executor does; the copy
    /// is soon outdated.
    fn copy_leader(&self) {
        let read = fs::read_small(&self.site.layout().epoch(), 2 * FIXED_LEN as u64);
        if let Some(doc) = read.ok().and_then(|bytes| decode_fixed(&bytes).ok()) {
            // A power loss may have destroyed the directory: then there is no copy.
            let _ = leader_copy::write(&self.site.leader_copy(), &doc, clock::boot_ms());
        }
    }

    /// Waits for the end of the job, as `csub -K` does.
    fn wait_for(&self, name: &str, job: &SubmittedJob) {
        let code = watch_until_end(self.site, job.id, job.accepted_at, &mut |_, _| {});
        let mut inner = self.os.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        cluster.history.waited(kernel, name, job.id, code);
    }

    fn submission(&self, name: &str) -> (RequestHead, Submission) {
        let mut inner = self.os.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        let rng = &mut kernel.rng;
        let head = RequestHead {
            script: match rng.permille(300) {
                true => format!("echo {name}\n").into(),
                false => ByteText::default(),
            },
            ..RequestHead::default()
        };
        let rerunnable = rng.permille(cluster.plan.workload.rerunnable);
        let array = match rng.permille(150) {
            true => format!("1-{ELEMENTS}"),
            false => String::new(),
        };
        // It needs more slots than a host has: it starts when all its hosts are prepared.
        let wide = array.is_empty()
            && cluster.plan.sizes.hosts > 1
            && rng.permille(cluster.plan.workload.wide);
        let plan = &cluster.plan;
        let most = plan.workload.gang.min(plan.sizes.hosts as u64);
        let slots = match wide {
            true => cluster.plan.sizes.slots * (rng.between(2, most) as u32 - 1) + 1,
            false => 0,
        };
        let request = match rng.permille(400) {
            true => {
                let n = rng.between(0, REQUESTS.len() as u64 - 1) as usize;
                cluster
                    .history
                    .clients
                    .with_units
                    .insert(name.to_owned(), n);
                REQUESTS[n].0
            }
            false if cluster.plan.workload.licences && rng.permille(500) => WITH_LICENCE,
            false => "",
        };
        let saved = rng.permille(200).then(|| Checkpoint {
            dir: "/ck".to_owned(),
            ..Checkpoint::default()
        });
        let after = cluster.history.facts.acked.values().next_back().copied();
        let after = after.filter(|_| !cluster.plan.restore && rng.permille(100));
        let orphan = match rng.permille(500) {
            true => Orphans::Kill,
            false => Orphans::Run,
        };
        if let Some(id) = after.filter(|_| orphan == Orphans::Kill) {
            let dependent = &mut cluster.history.clients.dependent;
            dependent.insert(name.to_owned(), id);
        }
        let job = Submission {
            spec: Spec {
                depend: after.map_or(String::new(), |id| format!("done({id})")),
                orphan: after.map(|_| orphan),
                chkpnt: saved.map(Box::new),
                res_req: request.to_owned(),
                cwd: "/local".into(),
                rerunnable,
                min: slots,
                max: slots,
                sub_host: self.site.host.clone(),
                ..Spec::default()
            },
            command: "true".into(),
            name: name.to_owned(),
            array,
            ..Submission::default()
        };
        (head, job)
    }

    /// Reads all jobs, as `cjobs -u all -a` does.
    fn read(&self) {
        let view = ViewReader::new(&self.site.layout());
        let began = self.os.lock().kernel.now;
        let found = view.collect(&JobSet::all());
        let mut inner = self.os.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        let who = &kernel.procs[self.os.proc].name.clone();
        match found {
            Ok((jobs, reading)) => {
                // A client whose opens are answered from an old cache may see parts from two
                // different times.
                let warnings = match cluster.plan.caches.open_stale_ms {
                    0 => reading.warnings,
                    _ => Vec::new(),
                };
                cluster
                    .history
                    .view_read(kernel, (who, began), &jobs, &warnings);
            }
            Err(e) => kernel.trace(who, || format!("cannot read the view: {e}")),
        }
    }
}
