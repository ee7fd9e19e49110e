//! Actions of clients on jobs and of administrators on the cluster, through the commands' requests:
//! kill, stop, resume, requeue, modify, switch, move and force jobs, open and close queues and
//! hosts, change cb.yaml. The answers go to `history` and `confirmed`; a request without the
//! necessary right must be refused.

use super::clients::{ANSWER_S, Client, SubmittedJob};
use super::configuration::{self, Settings};
use super::confirmed::{ConfirmedSettings, Setting};
use super::cron_checks::{CRON_NAME, SCHEDULE};
use super::world::WorldState;
use crate::client::requests::{NoAnswer, send_and_wait};
use crate::config::{self, OsNames};
use crate::model::JobKey;
use crate::record::ack::{Ack, Code};
use crate::record::cron::{CronDef, HISTORY_MAX, Overlap};
use crate::record::job_group::JobGroupAct;
use crate::record::request::{
    Changes, CronAct, CronPut, HostAct, QueueAct, Selector, SignalAction, Verb,
};
use crate::sys::{fs, users};
use std::collections::BTreeSet;

/// The actions of a client after a submission.
#[derive(Clone, Copy)]
enum ClientAction {
    Kill,
    KillElement,
    /// `ckill -r`: the job ends at once, and what it started is killed later.
    Remove,
    Stop,
    Requeue,
    Migrate,
    RequeueEnded,
    KillOfOtherUser,
    Modify,
    Switch,
    Move,
    Post,
    Run,
    Queue,
    Host,
    Reconfig,
    SilenceAlert,
    JobGroup,
}
use ClientAction::{
    Host, JobGroup, Kill, KillElement, KillOfOtherUser, Migrate, Modify, Move, Post, Queue,
    Reconfig, Remove, Requeue, RequeueEnded, Run, SilenceAlert, Stop, Switch,
};

/// How often a user takes each action, relative to the others.
const ACTIONS: &[(u64, ClientAction)] = &[
    (120, Kill),
    (40, KillElement),
    (40, Remove),
    (60, Stop),
    (60, Requeue),
    (60, Migrate),
    (40, RequeueEnded),
    (30, KillOfOtherUser),
    (100, Modify),
    (40, Switch),
    (30, Move),
    (30, Post),
    (20, Run),
    (15, Queue),
    (15, Host),
    (10, Reconfig),
];
/// How often the administrator takes each action.
const ADMIN_ACTIONS: &[(u64, ClientAction)] = &[
    (40, Kill),
    (40, Remove),
    (40, KillOfOtherUser),
    (40, Modify),
    (100, Run),
    (100, Queue),
    (100, Host),
    (100, Reconfig),
    (40, SilenceAlert),
    (40, JobGroup),
];

/// An unanswered request is carried out within this time (µs) after the last fault, or never.
const LATE_US: u64 = 30_000_000;
/// The second queue: it is the one that is closed and limited.
const OTHER: &str = "other";

impl Client<'_> {
    fn administers(&self) -> bool {
        let inner = self.os.lock();
        inner.cluster.plan.administers(self.os.machine)
    }

    pub(super) fn act_on_job(&self, job: &SubmittedJob) {
        let table = match self.administers() {
            true => ADMIN_ACTIONS,
            false => ACTIONS,
        };
        let mut drawn = self.random_below(table.iter().map(|(n, _)| n).sum());
        let mut action = Kill;
        for (share, of) in table {
            if drawn < *share {
                action = *of;
                break;
            }
            drawn -= share;
        }
        let whole = JobKey::job(job.id);
        match action {
            Kill => self.kill(whole, SignalAction::Kill),
            KillElement if job.array => {
                self.kill(JobKey::element(job.id, 2), SignalAction::Kill);
            }
            KillElement => self.kill(whole, SignalAction::Kill),
            Remove => self.kill(whole, SignalAction::Force),
            Stop => self.stop(job.id),
            Requeue => self.requeue(job.id, &["run"]),
            Migrate => self.migrate(job.id),
            RequeueEnded => {
                self.pause_randomly(8000);
                self.requeue(job.id, &["done", "exit"]);
            }
            KillOfOtherUser => self.kill_job_of_another_user(),
            Modify => self.modify(job.id),
            Switch => self.switch(job.id),
            Move => self.move_job(job.id),
            Post => self.post_message(job),
            Run => self.run_now(job),
            Queue => self.queue(),
            Host => self.host(),
            Reconfig => self.reconfig(),
            SilenceAlert => self.silence_alert(),
            JobGroup => self.job_group(),
        }
    }

    fn send_verb(&self, command: &str, verb: Verb) -> Result<Ack, NoAnswer> {
        send_and_wait(self.site, command, &[verb], ANSWER_S)
    }

    /// The code of the first result.
    fn code(&self, command: &str, verb: Verb) -> Result<Code, ()> {
        let answer = self.send_verb(command, verb).map_err(drop)?;
        // A request that is refused as a whole was not carried out.
        Ok(answer.results.first().map_or(Code::Refused, |o| o.code))
    }

    // ---- jobs ----

    fn signal(&self, command: &str, j: JobKey, action: SignalAction) -> Option<Code> {
        let sel = select_job(j);
        let answer = self
            .send_verb(command, Verb::Signal { sel, how: action })
            .ok()?;
        answer.results.first().map(|outcome| outcome.code)
    }

    fn kill(&self, j: JobKey, action: SignalAction) {
        if self.draw(500) {
            self.pause_randomly(2000);
        }
        if self.signal("ckill", j, action) == Some(Code::Ok) {
            let mut inner = self.os.lock();
            let WorldState { kernel, cluster } = &mut *inner;
            cluster.history.kill_accepted(kernel, j);
        }
    }

    fn requeue(&self, id: u32, states: &[&str]) {
        self.pause_randomly(4000);
        self.os.lock().cluster.history.note_requeue_request(id);
        let verb = Verb::Requeue {
            sel: select_job(JobKey::job(id)),
            hold: false,
            states: states.iter().map(|s| (*s).to_owned()).collect(),
        };
        if self.send_verb("crequeue", verb).is_err() {
            self.os.lock().cluster.history.requeue_unanswered(id);
        }
    }

    /// Migrates a job: what was saved, or may be run again, continues elsewhere.
    fn migrate(&self, id: u32) {
        self.pause_randomly(4000);
        self.os.lock().cluster.history.note_migration_request(id);
        let verb = Verb::Migrate {
            sel: select_job(JobKey::job(id)),
            hosts: String::new(),
            force: false,
        };
        // Whether it was answered or not, each run of it is checked.
        let _ = self.send_verb("cmig", verb);
    }

    /// Signals a job of another user, which only an administrator may do.
    fn kill_job_of_another_user(&self) {
        let history = |inner: &WorldState| inner.cluster.history.job_of_another(&self.site.host);
        let Some((host, id)) = history(&self.os.lock()) else {
            return;
        };
        let may = self.administers() || {
            let inner = self.os.lock();
            let of = |name: &str| {
                let known = inner.cluster.machines.iter().position(|m| m.name == name);
                known.map(|m| configuration::uid_of_client(&inner.cluster.plan, m))
            };
            of(&host) == of(&self.site.host)
        };
        let code = self.signal("ckill", JobKey::job(id), SignalAction::Number(0));
        if code == Some(Code::Ok) && !may {
            self.broken(format!("{} may signal job {id} of {host}", self.site.host));
        }
    }

    fn broken(&self, text: String) {
        let mut inner = self.os.lock();
        let WorldState { kernel, cluster } = &mut *inner;
        cluster.history.broken(kernel, text);
    }

    fn stop(&self, id: u32) {
        self.with_stopped(|own| own.insert(id));
        self.pause_randomly(2000);
        let _ = self.signal("cstop", JobKey::job(id), SignalAction::Stop);
        self.pause_randomly(6000);
        self.os.lock().cluster.history.note_resume_request(id);
        let _ = self.signal("cresume", JobKey::job(id), SignalAction::Resume);
    }

    /// Resumes every job that this client ever stopped, since an unanswered request may be carried
    /// out late. Returns false when all of them have ended.
    pub(super) fn resume(&self) -> bool {
        let stopped = self.with_stopped(|own| own.clone());
        for id in stopped {
            self.os.lock().cluster.history.note_resume_request(id);
            let code = self.signal("cresume", JobKey::job(id), SignalAction::Resume);
            if code == Some(Code::NotFound) {
                self.with_stopped(|own| own.remove(&id));
            }
        }
        self.with_stopped(|own| !own.is_empty())
    }

    /// Calls `work` with the jobs that this client stopped.
    fn with_stopped<T>(&self, work: impl FnOnce(&mut BTreeSet<u32>) -> T) -> T {
        let clients = &mut self.os.lock().cluster.history.clients;
        work(clients.stopped.entry(self.slot).or_default())
    }

    /// Requests a change that is permanent from its answer on.
    fn change_setting(&self, command: &str, setting: Setting, value: &str, verb: Verb) {
        self.confirm(|known| known.note_request(&setting));
        let answer = self.code(command, verb);
        let answer = answer.map(|code| (code == Code::Ok).then(|| value.to_owned()));
        self.confirm(|known| known.answered(setting, answer));
    }

    fn confirm(&self, change: impl FnOnce(&mut ConfirmedSettings)) {
        change(&mut self.os.lock().cluster.history.confirmed);
    }

    fn modify(&self, id: u32) {
        self.pause_randomly(2000);
        let mut changes = Changes::default();
        let n = 1 + self.random_below(9) as u32;
        let spec = &mut changes.job.spec;
        let (setting, value, option) = match self.random_below(5) {
            0 => {
                spec.project = format!("p{n}");
                (Setting::Project(id), spec.project.clone(), "P")
            }
            1 => {
                spec.priority = n;
                (Setting::Priority(id), n.to_string(), "sp")
            }
            2 => {
                // Far above the time that any task takes: it only matters that the limit arrives.
                spec.limits.run_s = Some(86_400 + u64::from(n));
                (Setting::RunLimit(id), (86_400 + n).to_string(), "W")
            }
            3 => {
                spec.limits.mem_b = Some(u64::from(n) << 40);
                (Setting::Memory(id), (u64::from(n) << 40).to_string(), "M")
            }
            _ => {
                (spec.min, spec.max) = (1 + n % 2, 1 + n % 2);
                (Setting::Slots(id), spec.min.to_string(), "n")
            }
        };
        changes.set.push(option.to_owned());
        let (sel, changes) = (select_job(JobKey::job(id)), Box::new(changes));
        self.change_setting("cmod", setting, &value, Verb::Modify { sel, changes });
    }

    fn switch(&self, id: u32) {
        let queue = ["normal", OTHER][self.random_below(2) as usize].to_owned();
        let (sel, value) = (select_job(JobKey::job(id)), queue.clone());
        let verb = Verb::Switch { sel, queue };
        self.change_setting("cswitch", Setting::JobQueue(id), &value, verb);
    }

    fn move_job(&self, id: u32) {
        let (pos, bottom) = (1 + self.random_below(3) as u32, self.draw(500));
        let id = id.to_string();
        let _ = self.send_verb("ctop", Verb::Move { id, pos, bottom });
    }

    /// Leaves a message with a job, or with an element, which may still wait with its array.
    fn post_message(&self, job: &SubmittedJob) {
        let j = match job.array && self.draw(500) {
            true => JobKey::element(job.id, 3),
            false => JobKey::job(job.id),
        };
        let (index, text) = (
            self.random_below(2) as u32,
            self.random_below(1000).to_string(),
        );
        let (sel, setting) = (select_job(j), Setting::Message(j, index));
        let value = text.clone();
        self.change_setting("cpost", setting, &value, Verb::Post { sel, index, text });
    }

    // ---- the cluster ----

    /// Checks that only the administrator may do it.
    fn only_admin(&self, what: &str, code: Result<Code, ()>) {
        if code == Ok(Code::Ok) && !self.administers() {
            self.broken(format!("{} may {what}", self.site.host));
        }
    }

    fn run_now(&self, job: &SubmittedJob) {
        let hosts = {
            let n = self.os.lock().cluster.plan.sizes.hosts as u64;
            format!("h{}", 1 + self.random_below(n))
        };
        let id = match job.array {
            true => format!("{}[3]", job.id),
            false => job.id.to_string(),
        };
        let closed = self.draw(300);
        let code = self.code("crun", Verb::Run { id, hosts, closed });
        self.only_admin("force starts", code);
    }

    fn queue(&self) {
        let act = [QueueAct::Close, QueueAct::Inactivate][self.random_below(2) as usize];
        self.queue_to(act);
        self.pause_randomly(8000);
        if self.draw(500) {
            self.queue_to(match act {
                QueueAct::Close => QueueAct::Open,
                _ => QueueAct::Activate,
            });
        }
    }

    fn queue_to(&self, act: QueueAct) {
        let name = OTHER.to_owned();
        let (setting, value) = match act {
            QueueAct::Open => (Setting::QueueOpen(name), "true"),
            QueueAct::Close => (Setting::QueueOpen(name), "false"),
            QueueAct::Activate => (Setting::QueueActive(name), "true"),
            QueueAct::Inactivate => (Setting::QueueActive(name), "false"),
        };
        let (names, comment) = (vec![OTHER.to_owned()], String::new());
        self.command(
            "change queues",
            setting,
            value,
            Verb::Queue {
                names,
                act,
                comment,
            },
        );
    }

    /// Sends a request of the administrator; the same request of another user must be refused.
    fn command(&self, what: &str, setting: Setting, value: &str, verb: Verb) {
        match self.administers() {
            true => self.change_setting("cadmin", setting, value, verb),
            false => {
                let code = self.code("cadmin", verb);
                self.only_admin(what, code);
            }
        }
    }

    fn host(&self) {
        let n = self.os.lock().cluster.plan.sizes.hosts as u64;
        let name = format!("h{}", 1 + self.random_below(n));
        let (ends, begins) = match self.draw(300) {
            true => (HostAct::Unlock, HostAct::Lock { for_s: 0 }),
            false => (HostAct::Open, HostAct::Close),
        };
        self.host_to(&name, begins);
        self.pause_randomly(8000);
        if self.draw(700) {
            self.host_to(&name, ends);
        }
    }

    fn host_to(&self, name: &str, act: HostAct) {
        let (setting, on) = match act {
            HostAct::Open | HostAct::Close => {
                (Setting::HostClosed(name.to_owned()), act == HostAct::Close)
            }
            HostAct::Lock { .. } | HostAct::Unlock => {
                (Setting::HostLocked(name.to_owned()), act != HostAct::Unlock)
            }
        };
        let value = on.to_string();
        let (names, comment) = (vec![name.to_owned()], String::new());
        self.command(
            "change hosts",
            setting,
            &value,
            Verb::Host {
                names,
                act,
                comment,
            },
        );
    }

    fn reconfig(&self) {
        let first = Settings::first(&self.os.lock().cluster.plan);
        let settings = Settings {
            hosts: first.hosts - (self.random_below(2) as usize).min(first.hosts - 1),
            limit: self.draw(500).then_some(2),
            ..first
        };
        self.put_in_force(settings);
    }

    /// Silences an alert: after the answer, the journal must contain the silence once.
    fn silence_alert(&self) {
        let why = {
            let inner = self.os.lock();
            let n = inner.cluster.history.clients.silences.len() as u64 + inner.kernel.now;
            format!("{}-{n}", self.site.host)
        };
        let verb = Verb::SilenceAlert {
            name: configuration::ALERT.to_owned(),
            for_ms: 60_000,
            why: why.clone(),
        };
        if self.code("cadmin", verb) == Ok(Code::Ok) {
            self.os.lock().cluster.history.clients.silences.insert(why);
        }
    }

    /// Creates, limits or deletes a job group: every later leader must know it as it was answered.
    fn job_group(&self) {
        let (name, limit) = ("/sim".to_owned(), 1 + self.random_below(9) as u32);
        let (act, value) = match self.random_below(3) {
            0 => (JobGroupAct::Add(Some(limit)), limit.to_string()),
            1 => (JobGroupAct::Limit(Some(limit)), limit.to_string()),
            _ => (JobGroupAct::Remove, String::new()),
        };
        let setting = Setting::JobGroup(name.clone());
        self.change_setting("cgmod", setting, &value, Verb::JobGroup { name, act });
    }

    /// Writes cb.yaml, if this client may, and requests a reconfiguration.
    fn put_in_force(&self, settings: Settings) {
        let text = configuration::text(&self.os.lock().cluster.plan, settings);
        if !self.administers() {
            let code = self.code("cadmin", Verb::Reconfig);
            return self.only_admin("reconfigure", code);
        }
        self.confirm(|known| known.note_request(&Setting::Config));
        let path = self.site.layout().config();
        if let Err(e) = fs::durable_write(&path, text.as_bytes()) {
            // The content of the file is now unknown.
            tracing::warn!("{e}");
            return self.confirm(|known| known.answered(Setting::Config, Err(())));
        }
        match digest(&text) {
            Ok(value) => self.change_setting("cadmin", Setting::Config, &value, Verb::Reconfig),
            Err(e) => self.broken(format!("the cb.yaml of the simulation is invalid: {e}")),
        }
    }

    fn cron_name(&self) -> String {
        // Only characters that a name may have.
        format!("cron-{}", self.site.host)
    }

    /// Defines this client's cron job, once: repeats until it is answered.
    pub(super) fn define_cron(&self) {
        let wanted = |inner: &WorldState| {
            let (plan, history) = (&inner.cluster.plan, &inner.cluster.history);
            plan.crons && !history.clients.crons.defined.contains(&self.slot)
        };
        while wanted(&self.os.lock()) {
            let mut def = CronDef {
                name: self.cron_name(),
                schedule: SCHEDULE.to_owned(),
                zone: "UTC".to_owned(),
                overlap: Overlap::Run,
                history: HISTORY_MAX,
                ..CronDef::default()
            };
            def.job.command = "true".to_owned();
            def.job.name = format!("{CRON_NAME}{}", self.site.host);
            def.job.spec.cwd = "/local".to_owned();
            match self.slot % 3 {
                0 => {}
                1 => def.job.array = "1-2".to_owned(),
                _ => def.more = vec![def.job.clone(); 2],
            }
            let create = true;
            let put = CronPut {
                def,
                create,
                ..CronPut::default()
            };
            if self.code("ccron", Verb::CronPut(Box::new(put))).is_ok() {
                let clients = &mut self.os.lock().cluster.history.clients;
                clients.crons.defined.insert(self.slot);
            }
        }
    }

    /// Removes it, until no earlier request can define it any more: otherwise nothing would end.
    pub(super) fn remove_cron(&self) {
        while self.os.lock().cluster.plan.crons {
            let calm = {
                let inner = self.os.lock();
                let (now, cluster) = (inner.kernel.now, &inner.cluster);
                cluster.faults_end_at.is_some_and(|at| now - at > LATE_US)
            };
            let (name, user, act) = (self.cron_name(), String::new(), CronAct::Remove);
            let removed = self.code("ccron", Verb::Cron { name, user, act });
            if calm && removed == Ok(Code::NotFound) {
                return;
            }
            self.pause_randomly(20_000);
        }
    }

    /// Makes the administrator leave nothing closed, even if requests are carried out late: the
    /// last requests are sent when the faults, and a restore of the share, have been over for a
    /// while.
    pub(super) fn reset_cluster(&self) {
        let (first, changed) = {
            let cluster = &self.os.lock().cluster;
            let changed = cluster.history.confirmed.of_cluster;
            (Settings::first(&cluster.plan), changed)
        };
        if !changed || !self.administers() {
            return;
        }
        loop {
            // A restore of the share reverts what was opened.
            let calm = {
                let inner = self.os.lock();
                let (now, cluster) = (inner.kernel.now, &inner.cluster);
                let since = cluster.faults_end_at.map(|at| now - at);
                since.is_some_and(|us| us > LATE_US) && cluster.is_restore_over(now)
            };
            self.put_in_force(first);
            self.queue_to(QueueAct::Open);
            self.queue_to(QueueAct::Activate);
            for n in 1..=first.hosts {
                self.host_to(&format!("h{n}"), HostAct::Open);
                self.host_to(&format!("h{n}"), HostAct::Unlock);
            }
            if calm {
                return;
            }
            self.pause_randomly(20_000);
        }
    }
}

/// The digest of a cb.yaml.
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

fn select_job(j: JobKey) -> Selector {
    Selector {
        ids: vec![j.to_string()],
        ..Selector::default()
    }
}
