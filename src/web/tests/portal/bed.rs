//! A published view in a temporary directory, and a portal with a simulated user: the requested
//! actions are recorded instead of carried out.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use corral::api::admin::{self, AdminAction, AdminAnswer};
use corral::api::attach::{AttachRequest, far_end};
use corral::api::files::{FileAnswer, FileLocation, FileRequest, carry_out};
use corral::api::portal::{PortalToken, Scope};
use corral::api::read::{JobOutput, JobTexts, Reader};
use corral::api::{Accepted, Failure, FailureKind, JobRequest};
use corral::model::{JobKey, JobStat, Share, Spec};
use corral::record::ack::{Code, Outcome};
use corral::record::frame;
use corral::record::header::{FileKind, Header};
use corral::record::view::{
    self, ArrayRow, HostRow, JobRow, Manifest, Params, QueueRow, Row, ShardInfo,
};
use corral::spool::Site;
use corral::spool::view::ViewJob;
use corral::sys::child::{AttendedCommand, AttendedProgram};
use corral::sys::users::UserFacts;
use corral::sys::{ipc, terminal};
use corral_web::broker::wire::{NewSession, PasswordRefusal, PasswordResult};
use corral_web::cluster::Cluster;
use corral_web::identity::{AttachedProgram, Identity, JobAction, UserAccess};
use corral_web::secret::Secret;
use corral_web::{App, PortalState, Settings, routes};
use serde::Serialize;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;
use tower::ServiceExt as _;

/// The user of the portal, and another one.
pub const ME: u32 = 4711;
pub const OTHER: u32 = 4712;
/// Secrets of the login link and of tokens.
pub const LINK: &str = "the-link";
pub const READ_TOKEN: &str = "read-token";
pub const SUBMIT_TOKEN: &str = "submit-token";
/// The right password of the test user.
pub const PASSWORD: &str = "right & <b>";
/// A name that a page must not interpret as HTML.
pub const EVIL: &str = "<script>alert(1)</script>\"'&";

/// The actions that the portal requested.
#[derive(Default)]
pub struct Recorded {
    pub acts: Vec<(JobAction, Vec<String>)>,
    pub jobs: Vec<JobRequest>,
    pub administered: Vec<AdminAction>,
    pub clones: Vec<(String, String)>,
    pub link_used: bool,
    /// Users whose passwords were to be checked, and the callers' addresses.
    pub tried: Vec<(String, Option<IpAddr>)>,
    pub attended: Vec<AttachRequest>,
    /// What job 1 has announced.
    pub announced: Vec<u8>,
}

struct FakeUserAccess {
    site: Site,
    done: Arc<Mutex<Recorded>>,
}

fn facts(uid: u32) -> UserFacts {
    UserFacts {
        uid,
        gid: uid,
        name: format!("u{uid}"),
        home: "/h/me".into(),
        shell: "/bin/sh".into(),
    }
}

fn me() -> Identity {
    Identity::new(ME, format!("u{ME}"))
}

impl UserAccess for FakeUserAccess {
    fn reader(&self, identity: &Identity) -> Result<Reader, Failure> {
        Ok(Reader::new(&self.site, facts(identity.uid)))
    }

    fn submit(&self, _: &Identity, job: &JobRequest) -> Result<Accepted, Failure> {
        if job.line == "refuse" {
            return Err(Failure {
                kind: FailureKind::Refused,
                text: "the queue is closed\nhint: take another".into(),
            });
        }
        if job.line == "full" {
            return Err(Failure {
                kind: FailureKind::TryLater { after_s: 60 },
                text: "the limit of 2 pending jobs is reached".into(),
            });
        }
        self.done.lock().unwrap().jobs.push(job.clone());
        Ok(Accepted {
            id: 1,
            queue: "normal".into(),
            accepted_ms: 5,
            warning: None,
        })
    }

    fn dry_run(&self, _: &Identity, _: &JobRequest) -> Result<String, Failure> {
        Ok("{\"accepted\":true,\"queue\":\"normal\",\"refused\":null}".into())
    }

    fn act(
        &self,
        _: &Identity,
        act: JobAction,
        jobs: Vec<String>,
    ) -> Result<Vec<Outcome>, Failure> {
        let outcome = |job: &String| Outcome {
            what: job.clone(),
            code: if job == "3" {
                Code::Permission
            } else {
                Code::Ok
            },
            text: "is being terminated".into(),
        };
        let outcomes = jobs.iter().map(outcome).collect();
        self.done.lock().unwrap().acts.push((act, jobs));
        Ok(outcomes)
    }

    fn output(
        &self,
        identity: &Identity,
        job: &ViewJob,
        most: usize,
    ) -> Result<Vec<JobOutput>, Failure> {
        Ok(self.reader(identity)?.output(job, most))
    }

    fn administer(&self, identity: &Identity, act: &AdminAction) -> Result<AdminAnswer, Failure> {
        let outcome = |name: &String| Outcome {
            what: name.clone(),
            code: Code::Ok,
            text: "is done".into(),
        };
        self.done.lock().unwrap().administered.push(act.clone());
        match act {
            AdminAction::Queues { names, .. } | AdminAction::Hosts { names, .. } => {
                Ok(AdminAnswer::Outcomes(names.iter().map(outcome).collect()))
            }
            act => admin::administer(&self.reader(identity)?, act),
        }
    }

    /// With the rights of the user who runs the test; the user's home directory is a directory of
    /// the bed.
    fn files(&self, _: &Identity, ask: &FileRequest) -> Result<FileAnswer, Failure> {
        let mut ask = ask.clone();
        let (FileRequest::List { at, .. }
        | FileRequest::Read { at, .. }
        | FileRequest::Received { at }
        | FileRequest::Write { at, .. }
        | FileRequest::MakeDir { at }
        | FileRequest::Rename { at, .. }
        | FileRequest::Remove { at }) = &mut ask;
        if at.root == b"/h/me" {
            *at = FileLocation {
                root: home(&self.site.share)
                    .as_os_str()
                    .as_encoded_bytes()
                    .to_vec(),
                path: std::mem::take(&mut at.path),
            };
        }
        carry_out(&ask)
    }

    fn clone_job(&self, _: &Identity, job: &str, key: &str) -> Result<Accepted, Failure> {
        let mut done = self.done.lock().unwrap();
        done.clones.push((job.to_owned(), key.to_owned()));
        Ok(Accepted {
            id: 9,
            queue: "normal".into(),
            accepted_ms: 5,
            warning: None,
        })
    }

    fn texts(&self, identity: &Identity, job: &ViewJob) -> Result<JobTexts, Failure> {
        Ok(self.reader(identity)?.texts(job))
    }

    /// A shell of the user who runs the test, or the other end of a tunnel in a thread.
    fn attend(&self, _: &Identity, ask: &AttachRequest) -> Result<AttachedProgram, Failure> {
        let mut done = self.done.lock().unwrap();
        done.attended.push(ask.clone());
        let announced = done.announced.clone();
        drop(done);
        match ask {
            AttachRequest::Terminal { queue, .. } if queue == "refuse" => Err(Failure {
                kind: FailureKind::Refused,
                text: "the queue is closed".into(),
            }),
            AttachRequest::Terminal { rows, cols, .. } => {
                let (master, slave) = terminal::open_pair(*rows, *cols).unwrap();
                let how = AttendedCommand {
                    program: Path::new("/bin/sh"),
                    args: &[],
                    env: &[("PS1", "$ ".into())],
                    dir: Path::new("/"),
                    dies_with_parent: false,
                };
                let attended = AttendedProgram::begin(&how, slave, true).unwrap();
                Ok(AttachedProgram::new(master, attended))
            }
            AttachRequest::Tunnel { id, .. } => {
                let (mine, other) = ipc::pair().unwrap();
                let id = *id;
                std::thread::spawn(move || far_end(other, &announced, id));
                Ok(AttachedProgram::new(mine, ()))
            }
        }
    }

    fn log_in(&self, secret: &str, _: i64) -> Result<Option<Identity>, Failure> {
        let mut done = self.done.lock().unwrap();
        let good = secret == LINK && !done.link_used;
        done.link_used |= good;
        Ok(good.then(me))
    }

    fn log_in_by_password(
        &self,
        user: &str,
        password: &Secret,
        from: Option<IpAddr>,
    ) -> Result<PasswordResult, Failure> {
        self.done
            .lock()
            .unwrap()
            .tried
            .push((user.to_owned(), from));
        Ok(match (user, password.reveal()) {
            ("me", PASSWORD) => PasswordResult::Begun(NewSession {
                uid: ME,
                name: format!("u{ME}"),
                session: "session-of-the-broker".into(),
            }),
            ("old", PASSWORD) => PasswordResult::Refused(PasswordRefusal::PasswordExpired),
            ("gone", PASSWORD) => PasswordResult::Refused(PasswordRefusal::AccountExpired),
            ("denied", PASSWORD) => PasswordResult::Refused(PasswordRefusal::Denied),
            ("often", _) => PasswordResult::Wait(17),
            ("many", _) => PasswordResult::Busy,
            ("broken", _) => PasswordResult::Unchecked,
            _ => PasswordResult::Wrong,
        })
    }

    fn token(&self, secret: &str, _: i64) -> Option<(Identity, PortalToken)> {
        let scope = match secret {
            READ_TOKEN => Scope::Read,
            SUBMIT_TOKEN => Scope::Submit,
            _ => return None,
        };
        let token = PortalToken {
            id: "0".into(),
            scope,
            created: 0,
            ends: i64::MAX,
            note: String::new(),
        };
        Some((me(), token))
    }
}

/// The home directory of the test user.
fn home(share: &Path) -> PathBuf {
    std::fs::canonicalize(share).unwrap().join("home")
}

/// A response with its whole body.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The body; bytes that are not UTF-8 are replaced.
    pub text: String,
    pub bytes: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).map(|value| value.to_str().unwrap());
        value.unwrap_or_default()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }
}

/// A login: the cookie and the token of its forms.
#[derive(Clone, Default)]
pub struct Login {
    pub cookie: String,
    pub csrf: String,
}

pub struct TestPortal {
    dir: tempfile::TempDir,
    site: Site,
    pub app: App,
    pub done: Arc<Mutex<Recorded>>,
    pub router: Router,
    _end: watch::Sender<bool>,
}

impl TestPortal {
    /// A view with a few jobs of both users.
    pub fn new() -> TestPortal {
        TestPortal::with(true, jobs())
    }

    /// A view with these rows of jobs; `all`: every user may see all jobs.
    pub fn with(all: bool, rows: Vec<Row<'static>>) -> TestPortal {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("view")).unwrap();
        std::fs::create_dir(dir.path().join("home")).unwrap();
        publish(dir.path(), all, &rows);
        let site = Site {
            conf: "/etc/cb.conf".into(),
            share: dir.path().to_path_buf(),
            host: "h1".into(),
            local: None,
            unsafe_mount: false,
            servers: None,
            esubs: None,
        };
        let done = Arc::new(Mutex::new(Recorded::default()));
        let actor = Arc::new(FakeUserAccess {
            site: site.clone(),
            done: done.clone(),
        });
        let settings = Settings {
            cookie: "corral_1".into(),
            ..Settings::default()
        };
        let (end, ending) = watch::channel(false);
        let app = PortalState::new(settings, Cluster::new(&site), actor, ending);
        app.cluster.refresh(true);
        TestPortal {
            dir,
            site,
            router: routes::router(app.clone()),
            app,
            done,
            _end: end,
        }
    }

    /// The home directory of the test user.
    pub fn home(&self) -> PathBuf {
        home(self.dir.path())
    }

    /// The share.
    pub fn share(&self) -> &Path {
        self.dir.path()
    }

    /// The same portal, started with these settings.
    pub fn with_settings(self, settings: Settings) -> TestPortal {
        let (site, done) = (self.site.clone(), self.done.clone());
        let actor = Arc::new(FakeUserAccess { site, done });
        let (end, ending) = watch::channel(false);
        let app = PortalState::new(settings, Cluster::new(&self.site), actor, ending);
        app.cluster.refresh(true);
        TestPortal {
            router: routes::router(app.clone()),
            app,
            _end: end,
            ..self
        }
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, 64 << 20).await.unwrap();
        Answer {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8_lossy(&bytes).into_owned(),
            bytes: bytes.to_vec(),
        }
    }

    /// The page at a path, requested with these headers.
    pub async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::get(path).header("host", "localhost:1");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Body::empty()).unwrap()).await
    }

    pub async fn post(&self, path: &str, body: &str, headers: &[(&str, &str)]) -> Answer {
        self.post_bytes(path, body.as_bytes(), headers).await
    }

    pub async fn post_bytes(&self, path: &str, body: &[u8], headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::post(path).header("host", "localhost:1");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Body::from(body.to_owned())).unwrap())
            .await
    }

    /// Sends a form.
    pub async fn form(&self, path: &str, body: &str, headers: &[(&str, &str)]) -> Answer {
        let kind = ("content-type", "application/x-www-form-urlencoded");
        let headers: Vec<_> = headers.iter().copied().chain([kind]).collect();
        self.post(path, body, &headers).await
    }

    /// Logs in by the link.
    pub async fn login(&self) -> Login {
        let answer = self.form("/login", &format!("token={LINK}"), &[]).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
        let cookie = answer
            .header("set-cookie")
            .split(';')
            .next()
            .unwrap()
            .to_owned();
        let page = self.get("/", &[("cookie", &cookie)]).await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.text);
        let (_, rest) = page.text.split_once("data-csrf=\"").unwrap();
        let csrf = rest.split('"').next().unwrap().to_owned();
        Login { cookie, csrf }
    }
}

fn put<T: Serialize>(share: &Path, name: &str, rows: &[T]) {
    let mut out = Vec::new();
    frame::write(&mut out, 0, &Header::new(FileKind::View, "c", 1, 0)).unwrap();
    for (n, row) in rows.iter().enumerate() {
        frame::write(&mut out, n as u64 + 1, row).unwrap();
    }
    std::fs::write(share.join("view").join(name), out).unwrap();
}

fn publish(share: &Path, all: bool, rows: &[Row<'static>]) {
    let params = Params {
        cluster: "c1".into(),
        view_all_jobs: all,
        administrators: if all { vec![format!("u{ME}")] } else { vec![] },
        ..Params::default()
    };
    put(share, view::PARAMS, &[params]);
    let queue = QueueRow {
        name: "normal".into(),
        description: EVIL.into(),
        open: true,
        active: true,
        ..QueueRow::default()
    };
    put(share, view::QUEUES, &[queue]);
    let host = |name: &str, status: &str| HostRow {
        name: name.into(),
        status: status.into(),
        slots: 4,
        njobs: 1,
        comment: EVIL.into(),
        ..HostRow::default()
    };
    put(
        share,
        view::HOSTS,
        &[host("h1", "ok"), host("h2", "closed_Adm")],
    );
    for name in [
        view::USERS,
        view::LIMITS,
        view::SHARES,
        view::ESTIMATES,
        view::CRONS,
    ] {
        put::<HostRow>(share, name, &[]);
    }
    put(share, "s1", rows);
    let ids = || {
        rows.iter().filter_map(|row| match row {
            Row::Job(job) => Some(job.j.id),
            _ => None,
        })
    };
    let shard = ShardInfo {
        file: "s1".into(),
        min: ids().min().unwrap_or(0),
        max: ids().max().unwrap_or(0),
        live: ids().count() as u32,
        finished: 1,
        uids: vec![],
    };
    let manifest = Manifest {
        epoch: 1,
        shards: vec![shard],
        ..Manifest::default()
    };
    put(share, view::MANIFEST, &[manifest]);
}

pub fn spec(id: u32, uid: u32) -> Row<'static> {
    let spec = Spec {
        uid,
        user: format!("u{uid}"),
        queue: "normal".into(),
        sub_host: "h1".into(),
        min: 1,
        max: 1,
        ..Spec::default()
    };
    Row::Spec {
        id,
        spec: Box::new(spec),
    }
}

pub fn job(id: u32, s: u32, stat: JobStat, name: &str) -> JobRow<'static> {
    let started = !stat.is_waiting();
    JobRow {
        j: JobKey::job(id),
        s,
        stat,
        submit: 1_795_230_000_000,
        name: name.to_owned().into(),
        command: format!("echo {name}").into(),
        hosts: if started {
            vec![Share("h1".into(), 1)]
        } else {
            vec![]
        },
        dispatch: if started { 1_795_230_001_000 } else { 0 },
        start: if started { 1_795_230_002_000 } else { 0 },
        ..JobRow::default()
    }
}

fn jobs() -> Vec<Row<'static>> {
    let one = |row: JobRow<'static>| Row::Job(Box::new(row));
    let array = JobRow {
        arr: Some(Box::new(ArrayRow {
            all: "1-5".into(),
            waiting: "2-5".into(),
            counts: [("RUN".to_owned(), 1)].into(),
            ..ArrayRow::default()
        })),
        ..job(4, 1, JobStat::Pend, "sweep")
    };
    let element = JobRow {
        j: JobKey::element(4, 1),
        name: "".into(),
        command: "".into(),
        ..job(4, 1, JobStat::Run, "")
    };
    vec![
        spec(1, ME),
        spec(2, OTHER),
        one(job(1, 1, JobStat::Run, EVIL)),
        one(job(2, 1, JobStat::Pend, "waits")),
        one(job(3, 2, JobStat::Run, "secret-of-other")),
        one(array),
        one(element),
    ]
}
