//! Converts a start order to the message to the spawner: blobs, accounts, the shared part.
//!
//! Remembers which shared parts the current spawner knows. Reads blobs of the share and checks them
//! against their names.

use super::cpus::HostCpus;
use super::known_units::KnownUnits;
use super::launches::AttemptResources;
use super::start_refusal::{StartRefusal, account, hook_account, user_of};
use crate::host::local::Local;
use crate::model::{Session, Spec, StartFault, sha256_hex};
use crate::record::byte_text::ByteText;
use crate::record::launch::LaunchRequest;
use crate::record::order::StartOrder;
use crate::spool::Layout;
use crate::sys::{self, clock, fs, statfs};
use crate::task::build::{self, EEXEC_DATA, HostProperties};
use crate::task::files::TaskFiles;
use crate::task::spec::{TaskBase, TaskHooks, TaskSpec, ToSpawner, WaitingClient};
use crate::task::submitted_parts::{self, SubmittedParts};
use crate::task::{checkpoints, cpu_binding, hooks, launched_command, params};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum size of an environment or script in bytes.
const BLOB_MAX: u64 = 16 << 20;
/// Number of scripts and environments that are kept in memory, and their maximum size in bytes.
const KEPT_BLOBS: usize = 16;
const KEPT_BYTES: usize = 256 << 10;
/// Number of shared parts at which all are dropped, and the same for their bytes.
const BASES_MAX: usize = 1_000;
const BASES_BYTES: u64 = 16 << 20;

/// How long the lookup of a job's directory may take (ms).
const STAT_MS: u64 = 500;

/// Converts orders to tasks.
pub(super) struct Starter {
    layout: Layout,
    local: Local,
    host_properties: HostProperties,
    /// Epoch and part of the orders that contain these specifications.
    part: (u64, u64),
    specs: HashMap<u32, Box<Spec>>,
    /// Number of the shared part for a specification and niceness.
    bases: HashMap<(u32, i32), u32>,
    bases_bytes: u64,
    next: u32,
    /// Shared parts below this number are not needed once the current tasks were sent.
    forget: Option<u32>,
    /// Scripts and environments that were read last, by their hashes: the content of a hash never
    /// changes, and reading it costs requests to a file server.
    recent_blobs: VecDeque<(String, Arc<Vec<u8>>)>,
    pub(super) cpus: HostCpus,
    pub(super) units: KnownUnits,
}

impl Starter {
    pub(super) fn new(layout: &Layout, local: &Local, host_properties: HostProperties) -> Starter {
        Starter {
            layout: layout.clone(),
            local: local.clone(),
            host_properties,
            part: (0, 0),
            specs: HashMap::new(),
            bases: HashMap::new(),
            bases_bytes: 0,
            next: 1,
            forget: None,
            recent_blobs: VecDeque::new(),
            cpus: HostCpus::default(),
            units: KnownUnits::default(),
        }
    }

    /// The shared parts that the spawner is to drop. Sent after the tasks that refer to them.
    pub(super) fn forget_now(&mut self) -> Option<ToSpawner> {
        self.forget.take().map(|below| ToSpawner::Forget { below })
    }

    /// The current spawner knows no shared parts.
    pub(super) fn new_spawner(&mut self) {
        self.bases.clear();
        (self.bases_bytes, self.forget) = (0, None);
    }

    /// Stores a specification; if it changed under its number, its shared part is built again.
    pub(super) fn store_spec(&mut self, id: u32, spec: Box<Spec>) {
        if self.specs.get(&id) != Some(&spec) {
            self.bases.retain(|(s, _), _| *s != id);
            self.specs.insert(id, spec);
        }
    }

    /// The next orders are in this part. Each part defines the specifications that it names, so
    /// those of the previous part are dropped: otherwise they would accumulate while one leader
    /// leads, and another epoch restarts the numbers.
    pub(super) fn read_part(&mut self, part: (u64, u64)) {
        if part != self.part {
            self.part = part;
            self.specs.clear();
            self.drop_bases();
        }
    }

    /// Tasks that are built from now on use no known shared part.
    fn drop_bases(&mut self) {
        self.bases.clear();
        (self.bases_bytes, self.forget) = (0, Some(self.next));
    }

    pub(super) fn spec(&self, id: u32) -> Option<&Spec> {
        self.specs.get(&id).map(|s| &**s)
    }

    /// The number of stored specifications.
    #[cfg(test)]
    pub(super) fn spec_count(&self) -> usize {
        self.specs.len()
    }

    /// Builds the task. Messages that must precede it are passed to `send`.
    ///
    /// # Errors
    /// The reason why it cannot be started here, for its owner.
    pub(super) fn task(
        &mut self,
        order: &StartOrder,
        send: &mut dyn FnMut(&ToSpawner) -> Result<(), String>,
    ) -> Result<TaskSpec, StartRefusal> {
        let Some(spec) = self.specs.get(&order.s).cloned() else {
            let text = format!("specification {} is missing in the orders", order.s);
            return Err(text.into());
        };
        // Its shepherd could record nothing, and would wait.
        statfs::check_room(self.local.dir())?;
        // A shared part that is known may be older than the removal of its user.
        user_of(&spec, &self.host_properties)?;
        let base = self.base(order, &spec, send)?;
        let files = TaskFiles {
            script: self.script(order, &spec)?,
            default_output: path_text(self.layout.default_output(order.a.j)),
            hosts: self.hosts_file(order, &spec)?,
            notice: match spec.notify.is_empty() && order.units.list.is_empty() {
                true => String::new(),
                false => path_text(self.local.notice(order.a)),
            },
            warning: path_text(self.local.warning_file(order.a)),
            bindir: self.host_properties.bindir.clone(),
        };
        let mut task = build::task(order, &spec, base, &files);
        task.hooks = self.hooks(order, &spec)?;
        task.env.extend(self.variables_of_app(order, &spec)?);
        if !spec.params.is_empty() {
            let table = self.blob(&spec.params)?;
            task.env.extend(params::variables(&table, order.a.j.idx)?);
        }
        Ok(task)
    }

    /// Variables of the job's application that its environment does not have.
    fn variables_of_app(
        &mut self,
        order: &StartOrder,
        spec: &Spec,
    ) -> Result<Vec<String>, StartRefusal> {
        let Some(hooks) = order.hooks.as_deref().filter(|hooks| !hooks.env.is_empty()) else {
            return Ok(Vec::new());
        };
        let own = match spec.env.is_empty() {
            true => BTreeMap::new(),
            false => self.environment(spec)?,
        };
        Ok(submitted_parts::variables_of_app(&hooks.env, &own))
    }

    /// Builds the task of a command that a user starts beside a running job of specification `s`.
    ///
    /// # Errors
    /// The reason why it cannot be started here.
    pub(super) fn launch(
        &mut self,
        launch: &LaunchRequest,
        (s, own): (u32, &AttemptResources),
        send: &mut dyn FnMut(&ToSpawner) -> Result<(), String>,
    ) -> Result<TaskSpec, StartRefusal> {
        let Some(spec) = self.specs.get(&s).cloned() else {
            return Err(format!("specification {s} is missing in the orders").into());
        };
        let account = account(&spec, &self.host_properties)?;
        let hosts_file = self.write_host_list(launch)?;
        let n = self.next;
        let mut task =
            launched_command::launched(launch, (&own.limits, &own.units), n, &hosts_file);
        task.rerunnable = spec.rerunnable;
        if let Some(binding) = own.binding.as_deref() {
            cpu_binding::put(&mut task, binding);
        }
        let of_launch = launched_command::launch_spec(&spec, launch);
        let env = launched_command::shared_env(launch, &task.env);
        let mut base = build::base(&of_launch, 0, &env, &account, &self.host_properties, None)?;
        let session = Session {
            token: launch.session,
            ..Session::default()
        };
        base.caller = Some(Box::new(WaitingClient {
            session,
            file: path_text(self.layout.session(spec.uid, launch.session)),
            task: launch.task,
        }));
        if self.bases_bytes >= BASES_BYTES {
            self.drop_bases();
        }
        self.next += 1;
        self.bases_bytes += base.env.iter().map(|line| line.len() as u64).sum::<u64>();
        send(&ToSpawner::Base {
            n,
            base: Box::new(base),
        })?;
        Ok(task)
    }

    /// Writes the job's list of hosts on this host; the job's own list is on its first host.
    fn write_host_list(&self, launch: &LaunchRequest) -> Result<String, StartRefusal> {
        let path = self.local.hosts_file(launch.a);
        if !fs::exists(&path) {
            fs::mkdir_p(&self.local.scratch_dir(), 0o711)?;
            fs::publish_mode(
                &path,
                launched_command::hosts_text(launch).as_bytes(),
                0o644,
            )?;
        }
        Ok(path_text(path))
    }

    /// Whether the user of specification `s` has no account on this host.
    pub(super) fn lacks_account(&self, s: u32) -> bool {
        let spec = self.specs.get(&s);
        let found = spec.map(|spec| account(spec, &self.host_properties));
        // An account that could not be looked up may exist.
        matches!(found, Some(Err(refused)) if refused.fault == StartFault::Unclear)
    }

    /// Checks that a job of specification `s` could run here: its account, its directory.
    ///
    /// # Errors
    /// The reason why it could not, for its owner.
    pub(super) fn check(&self, s: u32) -> Result<(), String> {
        let Some(spec) = self.specs.get(&s) else {
            return Err(format!("specification {s} is missing in the orders"));
        };
        let who = account(spec, &self.host_properties).map_err(|refused| refused.text)?;
        let who = who.identity;
        if !self.host_properties.may_switch && who.uid != self.host_properties.uid {
            let (host, uid) = (&self.host_properties.host, who.uid);
            return Err(format!(
                "host {host} runs without privilege and cannot become uid {uid}"
            ));
        }
        // The user may have access where this process has none. This process serves all jobs of the
        // host and must not wait for one user's directory.
        match sys::slow_stat::stat(spec.cwd.as_ref(), STAT_MS) {
            None => Err(format!("{} does not answer on this host", spec.cwd)),
            Some(Ok(None)) if !spec.cwd_create => {
                Err(format!("there is no directory {} on this host", spec.cwd))
            }
            Some(Ok(Some(found))) if found.kind == fs::Kind::File => {
                Err(format!("{} is not a directory", spec.cwd))
            }
            Some(_) => Ok(()),
        }
    }

    fn base(
        &mut self,
        order: &StartOrder,
        spec: &Spec,
        send: &mut dyn FnMut(&ToSpawner) -> Result<(), String>,
    ) -> Result<u32, StartRefusal> {
        let key = (order.s, order.nice);
        if let Some(known) = self.bases.get(&key) {
            return Ok(*known);
        }
        if self.bases.len() >= BASES_MAX || self.bases_bytes >= BASES_BYTES {
            self.drop_bases();
        }
        let n = self.next;
        self.next += 1;
        // A specification that fails is tried again with the next order: the cause may have been
        // removed.
        let base = self.build_base(spec, order.nice)?;
        self.bases_bytes += base.env.iter().map(|line| line.len() as u64).sum::<u64>();
        send(&ToSpawner::Base {
            n,
            base: Box::new(base),
        })?;
        self.bases.insert(key, n);
        Ok(n)
    }

    fn build_base(&mut self, spec: &Spec, nice: i32) -> Result<TaskBase, StartRefusal> {
        let account = account(spec, &self.host_properties)?;
        let env: Vec<(String, String)> = match spec.env.is_empty() {
            true => Vec::new(),
            false => self.environment(spec)?.into_iter().collect(),
        };
        let stdin = match spec.stdin_blob.is_empty() {
            true => None,
            false => Some(path_text(self.layout.blob(&spec.stdin_blob))),
        };
        let mut base = build::base(
            spec,
            nice,
            &env,
            &account,
            &self.host_properties,
            stdin.as_deref(),
        )?;
        base.caller = spec.session.as_deref().map(|session| {
            let file = path_text(self.layout.session(spec.uid, session.token));
            let session = *session;
            Box::new(WaitingClient {
                session,
                file,
                task: 0,
            })
        });
        Ok(base)
    }

    /// The submission's environment.
    fn environment(&mut self, spec: &Spec) -> Result<BTreeMap<String, String>, StartRefusal> {
        let bytes = self.blob(&spec.env)?;
        serde_json::from_slice(&bytes)
            .map_err(|e| format!("the environment of the job is damaged: {e}").into())
    }

    /// The programs that run around the command, and their users.
    fn hooks(
        &mut self,
        order: &StartOrder,
        spec: &Spec,
    ) -> Result<Option<Box<TaskHooks>>, StartRefusal> {
        let mut all = self.ordered_hooks(order, spec)?;
        if let Some(task) = all.as_mut().and_then(|all| all.checkpoint.as_mut()) {
            task.job = self.saved_job(order, spec)?;
        }
        let eexec = format!("{}/eexec", self.host_properties.esubdir);
        if !self.host_properties.esubdir.is_empty() && fs::exists(eexec.as_ref()) {
            let job = account(spec, &self.host_properties)?;
            let data = match spec.env.is_empty() {
                true => String::new(),
                false => self
                    .environment(spec)?
                    .remove(EEXEC_DATA)
                    .unwrap_or_default(),
            };
            let hooks = all.get_or_insert_default();
            hooks::add_eexec(hooks, spec, &job, &self.host_properties, &data);
        }
        Ok(all)
    }

    /// The data that is stored with each checkpoint of a job.
    fn saved_job(&mut self, order: &StartOrder, spec: &Spec) -> Result<String, StartRefusal> {
        let hooks = order.hooks.as_deref();
        let Some(order_of) = hooks.and_then(|hooks| hooks.checkpoint.as_ref()) else {
            return Ok(String::new());
        };
        let mut bytes = |sha: &str| -> Result<ByteText, StartRefusal> {
            match sha {
                "" => Ok(ByteText::default()),
                sha => Ok(self.blob(sha)?.to_vec().into()),
            }
        };
        let submitted = SubmittedParts {
            script: bytes(&spec.script)?,
            stdin: bytes(&spec.stdin_blob)?,
            params: bytes(&spec.params)?.text().into_owned(),
            env: match spec.env.is_empty() {
                true => BTreeMap::new(),
                false => self.environment(spec)?,
            },
        };
        Ok(submitted_parts::saved_job(
            order,
            &order_of.what,
            spec,
            submitted,
        ))
    }

    fn ordered_hooks(
        &self,
        order: &StartOrder,
        spec: &Spec,
    ) -> Result<Option<Box<TaskHooks>>, StartRefusal> {
        let Some(hooks) = order.hooks.as_deref() else {
            return Ok(None);
        };
        let job = account(spec, &self.host_properties)?;
        let queue = match hooks.user.as_str() {
            "" => job.clone(),
            name => hook_account(name, &self.host_properties)?,
        };
        let mut all = hooks::of_task(order.a.j, hooks, spec, &job, &queue, &self.host_properties);
        if let Some(saved) = &hooks.checkpoint {
            checkpoints::add(&mut all, order.a, saved, spec, &job, &self.host_properties);
            self.check_methods(&all, saved.what.method())?;
        }
        Ok(Some(Box::new(all)))
    }

    /// Refuses a job whose checkpoints could never be made.
    fn check_methods(&self, all: &TaskHooks, method: &str) -> Result<(), StartRefusal> {
        let of_task = all.checkpoint.as_ref().map(|task| task.program.as_str());
        let restore = all.pre.iter().map(|hook| hook.checked.as_str());
        let mut named = of_task
            .into_iter()
            .chain(restore.filter(|file| !file.is_empty()));
        match named.find(|file| !fs::exists(file.as_ref())) {
            None => Ok(()),
            Some(file) => {
                let host = &self.host_properties.host;
                let why = format!("host {host} has no checkpoint method {method}: no file {file}");
                Err(StartRefusal::unclear(why))
            }
        }
    }

    /// Reads a blob and checks it against its name.
    fn blob(&mut self, sha: &str) -> Result<Arc<Vec<u8>>, StartRefusal> {
        if let Some((_, bytes)) = self.recent_blobs.iter().find(|(known, _)| known == sha) {
            return Ok(bytes.clone());
        }
        let bytes = Arc::new(self.read_blob(sha)?);
        if bytes.len() <= KEPT_BYTES {
            self.recent_blobs.truncate(KEPT_BLOBS - 1);
            self.recent_blobs
                .push_front((sha.to_owned(), bytes.clone()));
        }
        Ok(bytes)
    }

    fn read_blob(&self, sha: &str) -> Result<Vec<u8>, StartRefusal> {
        let path = self.layout.blob(sha);
        let bytes = fs::read_small(&path, BLOB_MAX)?;
        match sha256_hex(&bytes) == sha {
            true => Ok(bytes),
            false => {
                let text = format!("{} does not match the hash in its name", path.display());
                Err(StartRefusal::unclear(text))
            }
        }
    }

    /// Writes the list of hosts of a job with several slots.
    fn hosts_file(&self, order: &StartOrder, spec: &Spec) -> Result<String, StartRefusal> {
        if !build::has_hosts_file(&order.hosts, spec) {
            return Ok(String::new());
        }
        fs::mkdir_p(&self.local.scratch_dir(), 0o711)?;
        let path = self.local.hosts_file(order.a);
        let text = build::hosts_text(&order.hosts, spec);
        fs::publish_mode(&path, text.as_bytes(), 0o644)?;
        Ok(path_text(path))
    }

    /// Copies the script to this host. No other user can read it: the shepherd, which is root until
    /// the program starts, gives it to the job's user.
    fn script(&mut self, order: &StartOrder, spec: &Spec) -> Result<String, StartRefusal> {
        if spec.script.is_empty() {
            return Ok(String::new());
        }
        let bytes = self.blob(&spec.script)?;
        let dir = self.local.scratch_dir();
        fs::mkdir_p(&dir, 0o711)?;
        let name = Local::scratch_prefix(order.a) + &clock::nonce(8);
        let path = dir.join(name);
        fs::publish_mode(&path, &bytes, 0o600)?;
        Ok(path_text(path))
    }
}

pub(super) fn path_text(path: PathBuf) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AttemptId, CpuBind, JobKey, Limits, Share};
    use crate::record::order::TaskUnits;
    use crate::sys::users;

    fn order() -> StartOrder {
        StartOrder {
            a: AttemptId {
                j: JobKey::job(7),
                at: 1,
            },
            s: 1,
            command: "/bin/true".into(),
            name: String::new(),
            hosts: vec![Share("h1".into(), 1)],
            resizes: 0,
            limit_changes: 0,
            limits: Limits::default(),
            index_end: 0,
            index_step: 0,
            t: 0,
            nice: 0,
            grace_ms: 10,
            rerunnable: None,
            mark: 0,
            ran: false,
            success: String::new(),
            requeue: String::new(),
            hooks: None,
            warn: None,
            private: false,
            bind: CpuBind::None,
            part_binds: Vec::new(),
            units: TaskUnits::default(),
        }
    }

    fn put(layout: &Layout, bytes: &[u8]) -> String {
        let sha = sha256_hex(bytes);
        let path = layout.blob(&sha);
        fs::mkdir_p(fs::parent(&path), 0o755).unwrap();
        fs::publish(&path, bytes).unwrap();
        sha
    }

    #[test]
    fn the_shared_part_is_sent_once_and_blobs_are_checked() {
        let d = tempfile::tempdir().unwrap();
        let layout = Layout::new(d.path());
        let local = Local::at(&d.path().join("l"));
        let properties = HostProperties {
            uid: users::effective_uid(),
            may_switch: users::may_switch(),
            ..HostProperties::default()
        };
        let uid = properties.uid;
        let mut s = Starter::new(&layout, &local, properties);
        let mut sent = Vec::new();
        let mut send = |m: &ToSpawner| {
            sent.push(m.clone());
            Ok(())
        };
        let missing = s.task(&order(), &mut send).unwrap_err();
        assert!(missing.text.contains("missing"));
        let env = put(&layout, br#"{"A":"1"}"#);
        let script = put(&layout, b"echo hi");
        let spec = Spec {
            uid,
            env: env.clone(),
            script,
            ..Spec::default()
        };
        s.store_spec(1, Box::new(spec.clone()));
        let one = s.task(&order(), &mut send).unwrap();
        let two = s.task(&order(), &mut send).unwrap();
        assert_eq!(one.base, two.base);
        assert_eq!(
            fs::read_small(one.scratch.as_ref(), 99).unwrap(),
            b"echo hi"
        );
        assert_eq!(fs::stat(one.scratch.as_ref()).unwrap().unwrap().mode, 0o600);
        assert_ne!(one.scratch, two.scratch);
        let env = put(&layout, br#"{"A":"2"}"#);
        fs::publish(&layout.blob(&env), b"{}").unwrap();
        s.store_spec(1, Box::new(Spec { env, ..spec }));
        let damaged = s.task(&order(), &mut send).unwrap_err();
        assert!(damaged.text.contains("hash in its name"));
        assert_eq!(damaged.fault, StartFault::Unclear);
        assert_eq!(sent.len(), 1);
        assert!(matches!(&sent[0], ToSpawner::Base { base, .. } if base.env[0] == "A=1"));
    }

    #[test]
    fn what_many_jobs_bring_along_is_read_from_the_share_once() {
        let d = tempfile::tempdir().unwrap();
        let mut s = starter(d.path());
        let layout = s.layout.clone();
        let (env, script) = (put(&layout, b"{}"), put(&layout, b"echo hi"));
        let mut start = |id: u32| {
            let spec = Spec {
                uid: users::effective_uid(),
                cwd: format!("/{id}"),
                env: env.clone(),
                script: script.clone(),
                ..Spec::default()
            };
            s.store_spec(id, Box::new(spec));
            let order = StartOrder { s: id, ..order() };
            s.task(&order, &mut |_| Ok(())).map(drop)
        };
        start(1).unwrap();
        fs::remove(&layout.blob(&env)).unwrap();
        fs::remove(&layout.blob(&script)).unwrap();
        start(2).unwrap();
        let spec = |n: u32| put(&s.layout, n.to_string().as_bytes());
        let many: Vec<String> = (0..40).map(spec).collect();
        for sha in &many {
            s.blob(sha).unwrap();
        }
        assert_eq!(s.recent_blobs.len(), KEPT_BLOBS);
    }

    fn starter(dir: &std::path::Path) -> Starter {
        let properties = HostProperties {
            uid: users::effective_uid(),
            may_switch: users::may_switch(),
            ..HostProperties::default()
        };
        Starter::new(&Layout::new(dir), &Local::at(&dir.join("l")), properties)
    }

    #[test]
    fn a_disk_or_share_that_fails_is_no_fault_of_the_job() {
        let d = tempfile::tempdir().unwrap();
        let mut s = starter(d.path());
        let spec = |script: &str, env: &str| Spec {
            uid: users::effective_uid(),
            script: script.into(),
            env: env.into(),
            ..Spec::default()
        };
        let refused = |s: &mut Starter, spec| {
            s.store_spec(1, Box::new(spec));
            s.task(&order(), &mut |_| Ok(())).unwrap_err().fault
        };
        let script = put(&s.layout, b"echo hi");
        // What is missing on the share may be missing for all hosts.
        let missing = refused(&mut s, spec(&"0".repeat(64), ""));
        assert_eq!(missing, StartFault::Unclear);
        let missing = refused(&mut s, spec(&script, &"0".repeat(64)));
        assert_eq!(missing, StartFault::Unclear);
        // Nothing can be written below a file.
        fs::publish(s.local.dir(), b"").unwrap();
        assert_eq!(refused(&mut s, spec(&script, "")), StartFault::Host);
        let mut gang = order();
        gang.hosts.push(Share("h2".into(), 1));
        s.store_spec(1, Box::new(spec("", "")));
        let refused = s.task(&gang, &mut |_| Ok(())).unwrap_err();
        assert_eq!(refused.fault, StartFault::Host);
    }

    #[test]
    fn a_user_database_that_does_not_answer_is_the_hosts_fault() {
        use users::tests::AWAY;
        let d = tempfile::tempdir().unwrap();
        let mut s = starter(d.path());
        let uid = 4_000_000_004;
        let spec = Spec {
            uid,
            ..Spec::default()
        };
        s.store_spec(1, Box::new(spec));
        let fault = |s: &mut Starter| s.task(&order(), &mut |_| Ok(())).unwrap_err().fault;
        AWAY.set(true);
        assert_eq!(fault(&mut s), StartFault::Host);
        assert!(!s.lacks_account(1));
        AWAY.set(false);
        assert_eq!(fault(&mut s), StartFault::Unclear);
        assert!(s.lacks_account(1));
    }

    /// Although the host knows the specification.
    #[test]
    fn a_user_who_was_removed_starts_nothing_more() {
        let d = tempfile::tempdir().unwrap();
        let mut s = starter(d.path());
        s.host_properties.may_switch = true;
        let uid = 4_000_000_007;
        let facts = users::UserFacts {
            uid,
            ..users::current_user()
        };
        s.store_spec(
            1,
            Box::new(Spec {
                uid,
                ..Spec::default()
            }),
        );
        users::tests::set_answer(uid, Some(facts));
        s.task(&order(), &mut |_| Ok(())).unwrap();
        users::tests::set_answer(uid, None);
        let refused = s.task(&order(), &mut |_| Ok(())).unwrap_err();
        assert!(refused.text.contains("has no account"), "{}", refused.text);
        assert!(s.lacks_account(1));
    }

    #[test]
    fn shared_parts_are_bounded_by_their_bytes() {
        let d = tempfile::tempdir().unwrap();
        let mut s = starter(d.path());
        let long = "x".repeat(3 << 20);
        let env = serde_json::json!({ "LONG": long }).to_string();
        let env = put(&s.layout, env.as_bytes());
        let mut forgotten = 0;
        for id in 1..=12 {
            let (uid, env) = (users::effective_uid(), env.clone());
            let spec = Spec {
                uid,
                env,
                ..Spec::default()
            };
            s.store_spec(id, Box::new(spec));
            let order = StartOrder { s: id, ..order() };
            s.task(&order, &mut |_| Ok(())).unwrap();
            forgotten += u32::from(s.forget_now().is_some());
            assert!(s.bases.len() <= 6, "{} of 3 MB each", s.bases.len());
        }
        assert_eq!(forgotten, 1);
    }

    #[test]
    fn shared_parts_are_forgotten_behind_the_tasks_that_name_them() {
        let d = tempfile::tempdir().unwrap();
        let mut s = starter(d.path());
        let mut sent = Vec::new();
        for id in 1..=BASES_MAX as u32 + 1 {
            let uid = users::effective_uid();
            let spec = Spec {
                uid,
                ..Spec::default()
            };
            s.store_spec(id, Box::new(spec));
            let order = StartOrder { s: id, ..order() };
            let send = &mut |m: &ToSpawner| {
                sent.push(matches!(m, ToSpawner::Base { .. }));
                Ok(())
            };
            s.task(&order, send).unwrap();
        }
        assert_eq!(sent, vec![true; BASES_MAX + 1]);
        let below = BASES_MAX as u32 + 1;
        assert_eq!(s.forget_now(), Some(ToSpawner::Forget { below }));
        assert_eq!(s.forget_now(), None);
    }
}
