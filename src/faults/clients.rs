//! The people of the simulated cluster, at the commands' own code: they submit jobs, arrays and
//! jobs of several hosts, do something to them (`deeds`) and read the published view. The last one
//! administers the cluster. What they were told goes to `history`.

use super::simulated_os::Port;
use super::world::Inner;
use crate::client::ask::{Outgoing, send};
use crate::client::cwait::watch;
use crate::model::{Spec, Submission};
use crate::record::request::{RequestHead, Verb};
use crate::spool::Site;
use crate::spool::view::{ViewReader, Want};
use crate::sys::clock;
use std::time::Duration;

/// How long a person waits for an answer before asking anew, s.
pub(super) const PATIENCE_S: u64 = 120;
/// Elements of an array.
const ELEMENTS: u32 = 3;

/// A job as it was submitted.
pub(super) struct Made {
    pub id: u32,
    /// When the leader took it, as it said.
    taken: i64,
    pub array: bool,
}

/// Who asks, from where.
pub(super) struct Person<'a> {
    pub port: &'a Port,
    pub site: &'a Site,
    pub slot: usize,
}

/// The life of a person: some submissions, one after the other, and what comes with them.
pub(super) fn person(port: &Port, site: &Site, slot: usize) -> String {
    let who = Person { port, site, slot };
    let (requests, acts, waits) = {
        let plan = &port.world.lock().scene.plan;
        (plan.requests, plan.acts, if plan.restore { 250 } else { 0 })
    };
    loop {
        let n = port.world.lock().scene.history.next_request(slot);
        if n > requests {
            break;
        }
        who.think(3000);
        let name = format!("{}-{n}", site.host);
        if let Some(made) = who.submit(&name) {
            if who.draw(acts) {
                who.act(&made);
            }
            if who.draw(waits) {
                who.wait_for(&name, &made);
            }
        }
        if who.draw(250) {
            who.read();
        }
    }
    // Nobody leaves a job stopped for ever.
    while who.resume() {
        who.think(10_000);
    }
    who.put_right();
    port.world.lock().scene.slots[slot].done = true;
    "has submitted everything".into()
}

impl Person<'_> {
    pub(super) fn draw(&self, permille: u64) -> bool {
        self.port.world.lock().core.rng.permille(permille)
    }

    pub(super) fn think(&self, most_ms: u64) {
        let ms = self.port.world.lock().core.rng.between(10, most_ms);
        clock::sleep_ms(ms);
    }

    /// Submits a job of that name, if somebody answers.
    fn submit(&self, name: &str) -> Option<Made> {
        let (head, job) = self.submission(name);
        let array = !job.array.is_empty();
        let mut request = Outgoing::new(self.site, head).ok()?;
        let verb = Verb::Submit {
            line: 0,
            same: false,
            job: Box::new(job),
        };
        request.push(&verb).ok()?;
        let (began, led) = {
            let inner = self.port.world.lock();
            (inner.core.now, inner.scene.history.takeovers > 0)
        };
        let answer = send(self.site, "csub", request, PATIENCE_S);
        let mut inner = self.port.world.lock();
        let Inner { core, scene } = &mut *inner;
        let waited = Duration::from_micros(core.now - began).as_millis() as u64;
        if led {
            scene.history.longest_ms = scene.history.longest_ms.max(waited);
        }
        match answer {
            Ok(ack) if ack.ok && !ack.ids.is_empty() => {
                let (id, taken) = (ack.ids[0].id, ack.ids[0].t);
                scene.history.told(core, name, id);
                Some(Made { id, taken, array })
            }
            Ok(ack) => {
                core.say("people", || format!("{name} was refused: {ack:?}"));
                None
            }
            Err(e) => {
                core.say("people", || format!("{name}: no answer: {e:?}"));
                None
            }
        }
    }

    /// Waits for the end of the job, as `csub -K` does.
    fn wait_for(&self, name: &str, made: &Made) {
        let code = watch(self.site, made.id, made.taken, &mut |_| {});
        let mut inner = self.port.world.lock();
        let Inner { core, scene } = &mut *inner;
        scene.history.waited(core, name, made.id, code);
    }

    fn submission(&self, name: &str) -> (RequestHead, Submission) {
        let mut inner = self.port.world.lock();
        let Inner { core, scene } = &mut *inner;
        scene.history.sent += 1;
        let rng = &mut core.rng;
        let head = RequestHead {
            script: match rng.permille(300) {
                true => format!("echo {name}\n"),
                false => String::new(),
            },
            ..RequestHead::default()
        };
        let rerunnable = rng.permille(scene.plan.rerunnable);
        let array = match rng.permille(150) {
            true => format!("1-{ELEMENTS}"),
            false => String::new(),
        };
        // More slots than a host has: it starts when all its hosts are prepared.
        let wide = array.is_empty() && scene.plan.hosts > 1 && rng.permille(scene.plan.wide);
        let most = scene.plan.gang.min(scene.plan.hosts as u64);
        let slots = match wide {
            true => scene.plan.slots * (rng.between(2, most) as u32 - 1) + 1,
            false => 0,
        };
        let job = Submission {
            spec: Spec {
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

    /// Looks at all jobs, as `cjobs -u all -a` does.
    fn read(&self) {
        let view = ViewReader::new(&self.site.layout());
        let found = view.collect(&Want::all());
        let mut inner = self.port.world.lock();
        let Inner { core, scene } = &mut *inner;
        let who = &core.procs[self.port.proc].name.clone();
        match found {
            Ok((jobs, reading)) => {
                // A client whose opens are answered from an old cache may see parts of two times.
                let warnings = match scene.plan.lax_ms {
                    0 => reading.warnings,
                    _ => Vec::new(),
                };
                scene.history.read(core, who, &jobs, &warnings);
            }
            Err(e) => core.say(who, || format!("cannot read the view: {e}")),
        }
    }
}
