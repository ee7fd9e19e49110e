//! What people do to jobs and administrators to the cluster, through the commands' requests: kill,
//! stop, resume, requeue, change, switch, move, force; queues and hosts opened and closed, cb.yaml
//! changed. What they were told to be so goes to `history` and `words`; who may not, must hear so.

use super::clients::{Made, PATIENCE_S, Person};
use super::confirmed::Fact;
use super::processes::{self, Settings};
use super::world::Inner;
use crate::client::ask::{NoAnswer, ask};
use crate::config::{self, OsNames};
use crate::model::JobKey;
use crate::record::ack::{Ack, Code};
use crate::record::request::{Changes, HostAct, QueueAct, Selector, SignalHow, Verb};
use crate::sys::{fs, users};

/// What a person does after a submission.
#[derive(Clone, Copy)]
enum Act {
    Kill,
    KillElement,
    Stop,
    Requeue,
    RequeueEnded,
    KillAnothers,
    Modify,
    Switch,
    Move,
    Run,
    Queue,
    Host,
    Reconfig,
}

/// How often, beside the others.
const ACTS: &[(u64, Act)] = &[
    (120, Act::Kill),
    (40, Act::KillElement),
    (60, Act::Stop),
    (60, Act::Requeue),
    (40, Act::RequeueEnded),
    (30, Act::KillAnothers),
    (100, Act::Modify),
    (40, Act::Switch),
    (30, Act::Move),
    (20, Act::Run),
    (15, Act::Queue),
    (15, Act::Host),
    (10, Act::Reconfig),
];
/// For whoever administers the cluster.
const ADMIN_ACTS: &[(u64, Act)] = &[
    (40, Act::Kill),
    (40, Act::KillAnothers),
    (40, Act::Modify),
    (100, Act::Run),
    (100, Act::Queue),
    (100, Act::Host),
    (100, Act::Reconfig),
];

/// What was not answered is carried out so long (µs) after the last fault, or never.
const LATE_US: u64 = 30_000_000;
/// The second queue: what is closed and limited is this one.
const OTHER: &str = "other";

impl Person<'_> {
    fn below(&self, n: u64) -> u64 {
        self.port.world.lock().core.rng.below(n)
    }

    fn administers(&self) -> bool {
        let inner = self.port.world.lock();
        processes::administers(&inner.scene.plan, self.port.machine)
    }

    pub(super) fn act(&self, made: &Made) {
        let table = match self.administers() {
            true => ADMIN_ACTS,
            false => ACTS,
        };
        let mut drawn = self.below(table.iter().map(|(n, _)| n).sum());
        let mut act = Act::Kill;
        for (share, of) in table {
            if drawn < *share {
                act = *of;
                break;
            }
            drawn -= share;
        }
        let whole = JobKey::job(made.id);
        match act {
            Act::Kill => self.kill(whole),
            Act::KillElement if made.array => self.kill(JobKey::element(made.id, 2)),
            Act::KillElement => self.kill(whole),
            Act::Stop => self.stop(made.id),
            Act::Requeue => self.requeue(made.id, &["run"]),
            Act::RequeueEnded => {
                self.think(8000);
                self.requeue(made.id, &["done", "exit"]);
            }
            Act::KillAnothers => self.kill_anothers(),
            Act::Modify => self.modify(made.id),
            Act::Switch => self.switch(made.id),
            Act::Move => self.move_job(made.id),
            Act::Run => self.run_now(made),
            Act::Queue => self.queue(),
            Act::Host => self.host(),
            Act::Reconfig => self.reconfig(),
        }
    }

    fn ask(&self, command: &str, verb: Verb) -> Result<Ack, NoAnswer> {
        ask(self.site, command, &[verb], PATIENCE_S)
    }

    /// The code of the first result.
    fn code(&self, command: &str, verb: Verb) -> Result<Code, ()> {
        let answer = self.ask(command, verb).map_err(drop)?;
        // What is refused as a whole was not done.
        Ok(answer.results.first().map_or(Code::Refused, |o| o.code))
    }

    // ---- jobs ----

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

    fn requeue(&self, id: u32, states: &[&str]) {
        self.think(4000);
        self.port.world.lock().scene.history.requeue_asked(id);
        let verb = Verb::Requeue {
            sel: one(JobKey::job(id)),
            hold: false,
            states: states.iter().map(|s| (*s).to_owned()).collect(),
        };
        if self.ask("crequeue", verb).is_err() {
            self.port.world.lock().scene.history.requeue_unanswered(id);
        }
    }

    /// Another user's job cannot be killed, but by an administrator.
    fn kill_anothers(&self) {
        let theirs = {
            let inner = self.port.world.lock();
            inner.scene.history.job_of_another(&self.site.host)
        };
        let Some((host, id)) = theirs else { return };
        let may = self.administers() || {
            let inner = self.port.world.lock();
            let of = |name: &str| {
                let known = inner.scene.machines.iter().position(|m| m.name == name);
                known.map(|m| processes::uid_of_person(&inner.scene.plan, m))
            };
            of(&host) == of(&self.site.host)
        };
        let code = self.signal("ckill", JobKey::job(id), SignalHow::Number(0));
        if code == Some(Code::Ok) && !may {
            self.broken(format!("{} may signal job {id} of {host}", self.site.host));
        }
    }

    fn broken(&self, text: String) {
        let mut inner = self.port.world.lock();
        let Inner { core, scene } = &mut *inner;
        scene.history.broken(core, text);
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
    pub(super) fn resume(&self) -> bool {
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

    /// Asks for something that is to be so from then on.
    fn settle(&self, command: &str, fact: Fact, value: &str, verb: Verb) {
        self.words(|words| words.asked(&fact));
        let answer = self.code(command, verb);
        let answer = answer.map(|code| (code == Code::Ok).then(|| value.to_owned()));
        self.words(|words| words.answered(fact, answer));
    }

    fn words(&self, tell: impl FnOnce(&mut super::confirmed::Words)) {
        tell(&mut self.port.world.lock().scene.history.words);
    }

    fn modify(&self, id: u32) {
        self.think(2000);
        let mut changes = Changes::default();
        let n = 1 + self.below(9) as u32;
        let spec = &mut changes.job.spec;
        let (fact, value, option) = match self.below(3) {
            0 => {
                spec.project = format!("p{n}");
                (Fact::Project(id), spec.project.clone(), "P")
            }
            1 => {
                spec.priority = n;
                (Fact::Priority(id), n.to_string(), "sp")
            }
            _ => {
                (spec.min, spec.max) = (1 + n % 2, 1 + n % 2);
                (Fact::Slots(id), spec.min.to_string(), "n")
            }
        };
        changes.set.push(option.to_owned());
        let (sel, changes) = (one(JobKey::job(id)), Box::new(changes));
        self.settle("cmod", fact, &value, Verb::Modify { sel, changes });
    }

    fn switch(&self, id: u32) {
        let queue = ["normal", OTHER][self.below(2) as usize].to_owned();
        let (sel, value) = (one(JobKey::job(id)), queue.clone());
        let verb = Verb::Switch { sel, queue };
        self.settle("cswitch", Fact::JobQueue(id), &value, verb);
    }

    fn move_job(&self, id: u32) {
        let (pos, bottom) = (1 + self.below(3) as u32, self.draw(500));
        let id = id.to_string();
        let _ = self.ask("ctop", Verb::Move { id, pos, bottom });
    }

    // ---- the cluster ----

    /// Holds that only an administrator may do it.
    fn only_admin(&self, what: &str, code: Result<Code, ()>) {
        if code == Ok(Code::Ok) && !self.administers() {
            self.broken(format!("{} may {what}", self.site.host));
        }
    }

    fn run_now(&self, made: &Made) {
        let hosts = {
            let n = self.port.world.lock().scene.plan.hosts as u64;
            format!("h{}", 1 + self.below(n))
        };
        let id = match made.array {
            true => format!("{}[3]", made.id),
            false => made.id.to_string(),
        };
        let closed = self.draw(300);
        let code = self.code("crun", Verb::Run { id, hosts, closed });
        self.only_admin("force starts", code);
    }

    fn queue(&self) {
        let act = [QueueAct::Close, QueueAct::Inactivate][self.below(2) as usize];
        self.queue_to(act);
        self.think(8000);
        if self.draw(500) {
            self.queue_to(match act {
                QueueAct::Close => QueueAct::Open,
                _ => QueueAct::Activate,
            });
        }
    }

    fn queue_to(&self, act: QueueAct) {
        let name = OTHER.to_owned();
        let (fact, value) = match act {
            QueueAct::Open => (Fact::QueueOpen(name), "true"),
            QueueAct::Close => (Fact::QueueOpen(name), "false"),
            QueueAct::Activate => (Fact::QueueActive(name), "true"),
            QueueAct::Inactivate => (Fact::QueueActive(name), "false"),
        };
        let (names, comment) = (vec![OTHER.to_owned()], String::new());
        self.command(
            "change queues",
            fact,
            value,
            Verb::Queue {
                names,
                act,
                comment,
            },
        );
    }

    /// An administrator's request; anybody else's must be refused.
    fn command(&self, what: &str, fact: Fact, value: &str, verb: Verb) {
        match self.administers() {
            true => self.settle("cadmin", fact, value, verb),
            false => {
                let code = self.code("cadmin", verb);
                self.only_admin(what, code);
            }
        }
    }

    fn host(&self) {
        let n = self.port.world.lock().scene.plan.hosts as u64;
        let name = format!("h{}", 1 + self.below(n));
        self.host_to(&name, HostAct::Close);
        self.think(8000);
        if self.draw(700) {
            self.host_to(&name, HostAct::Open);
        }
    }

    fn host_to(&self, name: &str, act: HostAct) {
        let fact = Fact::HostClosed(name.to_owned());
        let value = (act == HostAct::Close).to_string();
        let (names, comment) = (vec![name.to_owned()], String::new());
        self.command(
            "change hosts",
            fact,
            &value,
            Verb::Host {
                names,
                act,
                comment,
            },
        );
    }

    fn reconfig(&self) {
        let first = processes::first_settings(&self.port.world.lock().scene.plan);
        let settings = Settings {
            hosts: first.hosts - (self.below(2) as usize).min(first.hosts - 1),
            limit: self.draw(500).then_some(2),
            ..first
        };
        self.put_in_force(settings);
    }

    /// Writes cb.yaml, if one may, and has it read.
    fn put_in_force(&self, settings: Settings) {
        let text = processes::configuration(&self.port.world.lock().scene.plan, settings);
        if !self.administers() {
            let code = self.code("cadmin", Verb::Reconfig);
            return self.only_admin("reconfigure", code);
        }
        self.words(|words| words.asked(&Fact::Config));
        let path = self.site.layout().config();
        if let Err(e) = fs::durable_write(&path, text.as_bytes()) {
            // Who knows what stands there now.
            tracing::warn!("{e}");
            return self.words(|words| words.answered(Fact::Config, Err(())));
        }
        match digest(&text) {
            Ok(value) => self.settle("cadmin", Fact::Config, &value, Verb::Reconfig),
            Err(e) => self.broken(format!("the simulation's own cb.yaml is wrong: {e}")),
        }
    }

    /// An administrator leaves nothing closed, whatever is carried out late: the last word is said
    /// when the faults are over for a while.
    pub(super) fn put_right(&self) {
        let (first, changed) = {
            let scene = &self.port.world.lock().scene;
            let changed = scene.history.words.of_cluster;
            (processes::first_settings(&scene.plan), changed)
        };
        if !changed || !self.administers() {
            return;
        }
        loop {
            self.put_in_force(first);
            self.queue_to(QueueAct::Open);
            self.queue_to(QueueAct::Activate);
            for n in 1..=first.hosts {
                self.host_to(&format!("h{n}"), HostAct::Open);
            }
            let calm = {
                let inner = self.port.world.lock();
                let since = inner.scene.calm_at.map(|at| inner.core.now - at);
                since.is_some_and(|us| us > LATE_US)
            };
            if calm {
                return;
            }
            self.think(20_000);
        }
    }
}

/// What tells one cb.yaml from another.
fn digest(text: &str) -> Result<String, String> {
    let user = |name: &str| users::by_name(name).is_some();
    let group = |name: &str| users::group_by_name(name).is_some();
    let os = OsNames {
        user: &user,
        group: &group,
    };
    let loaded = config::load(text.as_bytes(), "cb.yaml", &os);
    loaded
        .map(|l| l.config.digest())
        .map_err(|p| format!("{p:?}"))
}

fn one(j: JobKey) -> Selector {
    Selector {
        ids: vec![j.to_string()],
        ..Selector::default()
    }
}
