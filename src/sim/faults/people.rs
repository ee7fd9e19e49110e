//! The people of the simulated cluster, at the commands' own code: they submit jobs, arrays and
//! jobs of several hosts, kill, stop, resume and requeue them, try to kill what is not theirs, and
//! read the published view. What they were told goes to `history`.

use super::port::Port;
use super::world::Inner;
use crate::client::ask::{NoAnswer, Outgoing, ask, send};
use crate::model::{JobKey, Spec, Submission};
use crate::record::ack::{Ack, Code};
use crate::record::request::{RequestHead, Selector, SignalHow, Verb};
use crate::spool::Site;
use crate::spool::view::{ViewReader, Want};
use crate::sys::clock;
use std::time::Duration;

/// How long a person waits for an answer before asking anew, s.
const PATIENCE_S: u64 = 120;
/// Elements of an array.
const ELEMENTS: u32 = 3;

/// What a person does after a submission.
#[derive(Clone, Copy)]
enum Act {
    Nothing,
    Kill,
    KillElement,
    Stop,
    Requeue,
    KillAnothers,
}

/// Of 1000: how often.
const ACTS: &[(u64, Act)] = &[
    (120, Act::Kill),
    (40, Act::KillElement),
    (60, Act::Stop),
    (60, Act::Requeue),
    (30, Act::KillAnothers),
    (1000, Act::Nothing),
];

/// A job as it was submitted.
struct Made {
    id: u32,
    array: bool,
}

/// Who asks, from where.
struct Person<'a> {
    port: &'a Port,
    site: &'a Site,
    slot: usize,
}

/// The life of a person: some submissions, one after the other, and what comes with them.
pub fn person(port: &Port, site: &Site, slot: usize) -> String {
    let who = Person { port, site, slot };
    let requests = port.world.lock().scene.plan.requests;
    loop {
        let n = port.world.lock().scene.history.next_request(slot);
        if n > requests {
            break;
        }
        who.think(3000);
        if let Some(made) = who.submit(&format!("{}-{n}", site.host)) {
            who.act(&made);
        }
        if who.draw(250) {
            who.read();
        }
    }
    // Nobody leaves a job stopped for ever.
    while who.resume() {
        who.think(10_000);
    }
    port.world.lock().scene.slots[slot].done = true;
    "has submitted everything".into()
}

impl Person<'_> {
    fn draw(&self, permille: u64) -> bool {
        self.port.world.lock().core.rng.permille(permille)
    }

    fn think(&self, most_ms: u64) {
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
                let id = ack.ids[0].id;
                scene.history.told(core, name, id);
                Some(Made { id, array })
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
        let rerunnable = rng.permille(300);
        let array = match rng.permille(150) {
            true => format!("1-{ELEMENTS}"),
            false => String::new(),
        };
        // More slots than a host has: it starts when all its hosts are prepared.
        let wide = array.is_empty() && scene.plan.hosts > 1 && rng.permille(80);
        let slots = if wide { scene.plan.slots + 1 } else { 0 };
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

    fn act(&self, made: &Made) {
        let mut drawn = self.port.world.lock().core.rng.below(1000);
        let mut act = Act::Nothing;
        for (share, of) in ACTS {
            if drawn < *share {
                act = *of;
                break;
            }
            drawn -= share;
        }
        let whole = JobKey::job(made.id);
        match act {
            Act::Nothing => {}
            Act::Kill => self.kill(whole),
            Act::KillElement if made.array => self.kill(JobKey::element(made.id, 2)),
            Act::KillElement => self.kill(whole),
            Act::Stop => self.stop(made.id),
            Act::Requeue => {
                self.think(4000);
                self.port.world.lock().scene.history.requeue_asked(made.id);
                let _ = self.ask(
                    "crequeue",
                    Verb::Requeue {
                        sel: one(whole),
                        hold: false,
                        states: vec!["run".into()],
                    },
                );
            }
            Act::KillAnothers => self.kill_anothers(),
        }
    }

    fn ask(&self, command: &str, verb: Verb) -> Result<Ack, NoAnswer> {
        ask(self.site, command, &[verb], PATIENCE_S)
    }

    fn signal(&self, command: &str, j: JobKey, how: SignalHow) -> Option<Code> {
        let sel = one(j);
        let answer = self.ask(command, Verb::Signal { sel, how }).ok()?;
        answer.results.first().map(|outcome| outcome.code)
    }

    fn kill(&self, j: JobKey) {
        if self.draw(500) {
            self.think(2000);
        }
        if self.signal("ckill", j, SignalHow::Kill) == Some(Code::Ok) {
            let mut inner = self.port.world.lock();
            let Inner { core, scene } = &mut *inner;
            scene.history.kill_accepted(core, j);
        }
    }

    /// Another user's job cannot be killed.
    fn kill_anothers(&self) {
        let theirs = {
            let inner = self.port.world.lock();
            inner.scene.history.job_of_another(&self.site.host)
        };
        let Some((host, id)) = theirs else { return };
        let same_user = {
            let inner = self.port.world.lock();
            let of = |name: &str| {
                let known = inner.scene.machines.iter().position(|m| m.name == name);
                known.map(super::stage::uid_of_person)
            };
            of(&host) == of(&self.site.host)
        };
        let code = self.signal("ckill", JobKey::job(id), SignalHow::Number(0));
        if code == Some(Code::Ok) && !same_user {
            let mut inner = self.port.world.lock();
            let Inner { core, scene } = &mut *inner;
            let text = format!("{} may signal job {id} of {host}", self.site.host);
            scene.history.broken(core, text);
        }
    }

    fn stop(&self, id: u32) {
        {
            let mut inner = self.port.world.lock();
            let stopped = &mut inner.scene.history.stopped;
            stopped.entry(self.slot).or_default().insert(id);
        }
        self.think(2000);
        let _ = self.signal("cstop", JobKey::job(id), SignalHow::Stop);
        self.think(6000);
        let _ = self.signal("cresume", JobKey::job(id), SignalHow::Resume);
    }

    /// Resumes what this person ever stopped, since an unanswered request may be carried out late;
    /// false when all of it has ended.
    fn resume(&self) -> bool {
        let stopped = {
            let inner = self.port.world.lock();
            let of = inner.scene.history.stopped.get(&self.slot);
            of.cloned().unwrap_or_default()
        };
        for id in stopped {
            let code = self.signal("cresume", JobKey::job(id), SignalHow::Resume);
            if code == Some(Code::NotFound) {
                let mut inner = self.port.world.lock();
                if let Some(own) = inner.scene.history.stopped.get_mut(&self.slot) {
                    own.remove(&id);
                }
            }
        }
        let inner = self.port.world.lock();
        let left = inner.scene.history.stopped.get(&self.slot);
        left.is_some_and(|ids| !ids.is_empty())
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

fn one(j: JobKey) -> Selector {
    Selector {
        ids: vec![j.to_string()],
        ..Selector::default()
    }
}
