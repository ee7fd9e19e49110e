//! The portal for all users (`cbweb --service`) over a real cluster, with users of this system: who
//! is let in, as whom it acts, what one may not do for another, and that its HTTP process holds no
//! right. Only root can run it.

use crate::cluster::{build, exists, reachable, signal};
use crate::portal::{cookie, place, said, status};
use crate::portal_programs as programs;
use crate::security::{Account, Site};
use crate::source;
use corral::record::portal::{digest, login_name, secret_of};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub(crate) const FORM: &str = "Content-Type: application/x-www-form-urlencoded";
const JSON: &str = "Content-Type: application/json";

/// A service that a test has started; ended with it.
pub(crate) struct Service {
    pub(crate) child: Child,
    pub(crate) place: String,
}

/// The program.
pub(crate) fn cbweb() -> std::path::PathBuf {
    let programs = Path::new(env!("CARGO_BIN_EXE_cb")).parent().unwrap();
    programs.join("cbweb")
}

fn command(site: &Site) -> Command {
    // Beside it is what it starts as users.
    let dir = site.cluster.dir().parent().unwrap();
    reachable(dir, env!("CARGO_BIN_EXE_cb"));
    let mut command = Command::new(reachable(dir, cbweb().to_str().unwrap()));
    command.env("CB_ENVDIR", site.cluster.dir().join("etc"));
    command.env("OF_ROOT", "1").arg("--service");
    command
}

impl Service {
    fn start(site: &Site) -> Service {
        Service::spawn(site, command(site))
    }

    /// Starts it by a command that ends in its program's name and `--service`.
    pub(crate) fn spawn(site: &Site, mut command: Command) -> Service {
        command.args(["--user", &site.group_admin.name, "--listen", "127.0.0.1:0"]);
        let log = std::fs::File::create(site.cluster.dir().join("log/cbweb.log")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).unwrap();
        let log = std::fs::read_to_string(site.cluster.dir().join("log/cbweb.log"));
        assert!(!line.is_empty(), "it serves: {log:?}");
        let place = place(&line).to_owned();
        Service { child, place }
    }

    /// The process that speaks HTTP.
    pub(crate) fn http(&self) -> i32 {
        let all = corral::sys::proc::children(self.child.id() as i32);
        let name = |pid: &&i32| {
            let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            comm.trim() == "cbweb-http"
        };
        *all.iter().find(name).expect("the HTTP process")
    }

    fn log_in(&self, secret: &str, headers: &[&str]) -> String {
        let headers: Vec<&str> = headers.iter().copied().chain([FORM]).collect();
        said(
            &self.place,
            "POST /login",
            &headers,
            &format!("token={secret}"),
        )
    }

    /// A session of a user: the header with its cookie, and with the token of its forms.
    pub(crate) fn session(&self, site: &Site, who: &Account) -> (String, String) {
        let answer = self.log_in(&link(site, who), &[]);
        assert_eq!(status(&answer), 303, "{answer}");
        let cookie = cookie(&answer);
        let page = said(&self.place, "GET /", &[&cookie], "");
        let (_, rest) = page.split_once("data-csrf=\"").expect(&page);
        let csrf = rest.split('"').next().unwrap();
        (cookie, format!("X-CSRF-Token: {csrf}"))
    }

    fn submit(&self, headers: &[&str], body: &str) -> serde_json::Value {
        let headers: Vec<&str> = headers.iter().copied().chain([JSON]).collect();
        let answer = said(&self.place, "POST /api/v1/jobs", &headers, body);
        assert_eq!(status(&answer), 201, "{answer}");
        body_of(&answer)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn body_of(answer: &str) -> serde_json::Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {answer}"))
}

/// The secret of a link that `clogin` prints to a user.
fn link(site: &Site, who: &Account) -> String {
    let out = site.ok(who, "clogin", &[]);
    out.trim().split_once('#').expect("a link").1.to_owned()
}

#[test]
fn a_service_acts_for_each_user_with_their_rights_alone() {
    build("--bins");
    let Some(site) = Site::up() else { return };
    refusals(&site);
    let mut service = Service::start(&site);
    let http = service.http();
    holds_no_right(http, &site.group_admin);
    links(&site, &service);
    acts(&site, &service);
    tokens(&site, &service);
    terminals_and_programs(&site, &service);
    let place = site.cluster.share().join("portal");
    let owner = std::fs::metadata(&place).unwrap().uid();
    assert_eq!(
        owner, site.service.uid,
        "the share's owner says where it is"
    );
    signal(service.child.id() as i32, "-TERM");
    assert!(service.child.wait().unwrap().success());
    assert!(!exists(http) && !place.exists(), "all of it is gone");
    let none = site.run(&site.alice, "clogin", &[]);
    assert_eq!(none.status.code(), Some(1));
    encrypted_programs(&site);
}

/// Programs at names of a domain of their own, over TLS, with a certificate for all of these names.
fn encrypted_programs(site: &Site) {
    let dir = site.cluster.dir();
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    let mut make = Command::new("openssl");
    make.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
    ]);
    make.args(["-nodes", "-days", "2", "-subj", "/CN=portal"]);
    make.args([
        "-addext",
        "subjectAltName=IP:127.0.0.1,DNS:portal.corral.test,DNS:*.apps.corral.test",
    ]);
    make.arg("-keyout").arg(&key).arg("-out").arg(&cert);
    let made = make.output().expect("openssl is installed");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let mut command = command(site);
    command.args(["--apps-domain", "apps.corral.test"]);
    command.args(["--name", "portal.corral.test"]);
    command
        .arg("--tls-cert")
        .arg(&cert)
        .arg("--tls-key")
        .arg(&key);
    let mut service = Service::spawn(site, command);
    let (_, port) = service.place.rsplit_once(':').expect("a port");
    let relay = Relay::start(&format!("127.0.0.1:{port}"), &cert);
    let place = format!("127.0.0.1:{}", relay.port);
    let hers = programs::session(&place, &site.ok(&site.alice, "clogin", &[]));
    let home = site.home(&site.alice);
    let heard = home.join("heard-encrypted");
    let line = programs::program(&heard);
    let mut csub = site.command(&site.alice, "csub");
    csub.env("HOME", &home);
    let id = programs::begun(csub, &home, &["-n", "2", &line]);
    let name = format!("portal.corral.test:{}", relay.port);
    let at = programs::open_as(&place, &name, &hers.0, id);
    assert!(
        at.0.starts_with(&format!("j{id}.apps.corral.test")),
        "{at:?}"
    );
    programs::talk(("https", &place), &at, &heard);
    site.ok(&site.alice, "ckill", &[&id.to_string()]);
    signal(service.child.id() as i32, "-TERM");
    assert!(service.child.wait().unwrap().success());
}

/// What takes plain connections and passes them on, encrypted.
struct Relay {
    child: Child,
    port: String,
}

impl Relay {
    fn start(place: &str, cert: &Path) -> Relay {
        let mut command = Command::new("python3");
        command.arg(source::root().join("tests/portal/tls_relay.py"));
        command.arg(place).arg(cert);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = child.stdout.take().expect("a pipe");
        let mut port = String::new();
        BufReader::new(out).read_line(&mut port).unwrap();
        Relay {
            child,
            port: port.trim().to_owned(),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Programs of one's own job and shells in pages are the user's alone, and end with the session.
fn terminals_and_programs(site: &Site, service: &Service) {
    let (alice, bob) = (&site.alice, &site.bob);
    let place = &service.place;
    let hers = programs::session(place, &site.ok(alice, "clogin", &[]));
    let his = programs::session(place, &site.ok(bob, "clogin", &[]));
    // The shell of a system's account says that there is none, or is one.
    let mut at = programs::terminal(place, &hers);
    programs::until(&mut at, "Starting on h1");
    let of_alice = |name: &str| {
        let all = corral::sys::proc::all().into_iter().map(|found| found.pid);
        let own = all.filter(|pid| {
            let line = corral::sys::proc::command_line(*pid);
            let meta = std::fs::metadata(format!("/proc/{pid}"));
            line.contains(name) && meta.is_ok_and(|meta| meta.uid() == alice.uid)
        });
        own.count()
    };
    let home = site.home(alice);
    let heard = home.join("heard");
    let line = programs::program(&heard);
    let mut csub = site.command(alice, "csub");
    csub.env("HOME", &home);
    let id = programs::begun(csub, &home, &["-n", "2", &line]);
    programs::talk(("http", place), &programs::open(place, &hers.0, id), &heard);
    assert_eq!(of_alice("tunnel"), 1, "the near end is alice's");
    let path = format!("GET /apps/{id}");
    assert_eq!(
        status(&said(place, &path, &[&his.0], "")),
        403,
        "bob is not let in"
    );
    let token = site.ok(
        alice,
        "ctoken",
        &["create", "--scope", "submit", "--expires", "1h"],
    );
    let auth = format!("Authorization: Bearer {}", token.trim());
    assert_eq!(
        status(&said(place, &path, &[&auth], "")),
        403,
        "nor a token"
    );
    said(
        place,
        "POST /logout",
        &[&hers.0, FORM],
        &format!("csrf={}", hers.1),
    );
    site.until("what alice has open ends with her session", || {
        of_alice("tunnel") + of_alice("far-end") + of_alice("csub") == 0
    });
    site.ok(alice, "ckill", &[&id.to_string()]);
}

/// What is no service is refused at the start.
fn refusals(site: &Site) {
    let refused = |args: &[&str], word: &str| {
        let out = command(site).args(args).output().unwrap();
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(
            out.status.code() == Some(2) && text.contains(word),
            "{text}"
        );
    };
    refused(&["--user", "root"], "must not be root");
    refused(&["--user", &site.service.name], "the owner of the share");
    refused(&["--user", "no-such-account"], "useradd");
    let alice = &site.alice.name;
    refused(&["--user", alice, "--listen", "0.0.0.0:0"], "not encrypted");
}

fn holds_no_right(http: i32, account: &Account) {
    let text = std::fs::read_to_string(format!("/proc/{http}/status")).unwrap();
    let line = |name: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(name));
        found
            .unwrap_or_default()
            .split_whitespace()
            .collect::<Vec<_>>()
    };
    let uid = account.uid.to_string();
    assert_eq!(line("Uid:"), vec![uid.as_str(); 4]);
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(line(set), ["0000000000000000"], "{set}");
    }
    assert_eq!(line("NoNewPrivs:"), ["1"]);
    assert_eq!(line("Groups:"), Vec::<&str>::new());
    // Closed to other processes of the account.
    let memory = std::fs::metadata(format!("/proc/{http}/mem")).unwrap();
    assert_eq!(memory.uid(), 0);
    let files = std::fs::read_dir(format!("/proc/{http}/fd")).unwrap();
    let boxes = site_files(files);
    assert!(
        boxes.is_empty(),
        "no file of the share is left open: {boxes:?}"
    );
}

fn site_files(files: std::fs::ReadDir) -> Vec<std::path::PathBuf> {
    let of = |file: std::io::Result<std::fs::DirEntry>| std::fs::read_link(file.ok()?.path()).ok();
    let paths = files.filter_map(of);
    paths
        .filter(|path| path.components().any(|c| c.as_os_str() == "inbox"))
        .collect()
}

/// A link lets its owner in, once; nobody makes one for somebody else.
fn links(site: &Site, service: &Service) {
    let (alice, bob) = (&site.alice, &site.bob);
    let secret = link(site, alice);
    // A session that somebody else has planted is not taken over.
    let planted = "Cookie: corral_1=planted";
    let first = service.log_in(&secret, &[planted]);
    assert_eq!(status(&first), 303, "{first}");
    assert!(!cookie(&first).contains("planted"));
    assert_eq!(status(&service.log_in(&secret, &[])), 403, "it is used up");
    let page = said(&service.place, "GET /jobs", &[planted], "");
    assert_eq!(status(&page), 303, "to the login");
    // Bob leaves a file for a secret that claims to be alice's, in every place that he can write.
    let forged = secret_of(alice.uid, &[7; 32]);
    let ends = corral::sys::clock::wall_ms() + 50_000;
    let name = login_name(&digest(&forged), ends);
    let own = site.own_box(bob).join(".portal");
    link(site, bob);
    let file = own.join(&name);
    std::fs::write(&file, "").unwrap();
    chown(&file, Some(bob.uid), Some(bob.uid)).unwrap();
    assert_eq!(status(&service.log_in(&forged, &[])), 403);
    let moved = site.own_box(alice).join(".portal").join(&name);
    std::fs::rename(&file, &moved).unwrap();
    assert_eq!(
        status(&service.log_in(&forged, &[])),
        403,
        "its owner is bob"
    );
    for secret in [
        "",
        "x",
        "0-0",
        &secret_of(0, &[1; 32]),
        &secret_of(4_000_000_000, &[1; 32]),
    ] {
        assert_eq!(status(&service.log_in(secret, &[])), 403, "{secret}");
    }
}

/// What is done is done as who asked, and only what they may do.
fn acts(site: &Site, service: &Service) {
    let (alice, bob) = (&site.alice, &site.bob);
    let (cookie, csrf) = service.session(site, alice);
    let out = site.home(alice).join("by-portal");
    let body = format!(
        r#"{{"command":"umask 077; id -u; env","cwd":"/tmp","options":["-oo","{}"]}}"#,
        out.display()
    );
    let job = service.submit(&[&cookie, &csrf], &body);
    let id = u32::try_from(job["id"].as_u64().unwrap()).unwrap();
    assert_eq!(site.ended(id), "DONE");
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(
        text.lines().any(|line| line == alice.uid.to_string()),
        "{text}"
    );
    assert!(
        !text.contains("OF_ROOT="),
        "root's environment is not passed on: {text}"
    );
    assert_eq!(std::fs::metadata(&out).unwrap().uid(), alice.uid);
    // Without the token of its forms nothing is changed.
    let forged = said(&service.place, "POST /api/v1/jobs", &[&cookie, JSON], &body);
    assert_eq!(status(&forged), 403);
    let secret = site.home(bob).join("secret");
    let args = [
        "-oo",
        secret.to_str().unwrap(),
        "umask 077; echo hidden; sleep 300",
    ];
    let of_bob = site.csub(bob, &args);
    let shown = || {
        std::fs::read_to_string(&secret)
            .unwrap_or_default()
            .contains("hidden")
    };
    site.until("bob's job has begun", shown);
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let path = format!("GET /api/v1/jobs/{of_bob}/output");
    let log = said(&service.place, &path, &[&cookie], "");
    assert!(!log.contains("hidden"), "{log}");
    let (his, _) = service.session(site, bob);
    let log = said(&service.place, &path, &[&his], "");
    assert!(log.contains("hidden"), "{log}");
    let kill = format!("POST /api/v1/jobs/{of_bob}/kill");
    let refused = said(&service.place, &kill, &[&cookie, &csrf], "");
    assert_eq!(status(&refused), 403, "{refused}");
    let mixed = said(&service.place, &kill, &[&his, &csrf], "");
    assert_eq!(status(&mixed), 403, "alice's forms are not bob's: {mixed}");
    // After the logout the session is nothing, for the broker, too.
    let gone = said(&service.place, "POST /logout", &[&cookie, &csrf, FORM], "");
    assert_eq!(status(&gone), 303, "{gone}");
    let late = said(&service.place, "GET /api/v1/jobs", &[&cookie], "");
    assert_eq!(status(&late), 401);
}

/// A token is its owner's, within its scope, until it is revoked.
fn tokens(site: &Site, service: &Service) {
    let bob = &site.bob;
    let make = |scope: &str| {
        let args = ["create", "--scope", scope, "--expires", "1h"];
        let token = site.ok(bob, "ctoken", &args);
        format!("Authorization: Bearer {}", token.trim())
    };
    let (read, submit) = (make("read"), make("submit"));
    let body = r#"{"command":"true","cwd":"/tmp","output":"/dev/null"}"#;
    let refused = said(&service.place, "POST /api/v1/jobs", &[&read, JSON], body);
    assert_eq!(status(&refused), 403);
    let job = service.submit(&[&submit], body);
    let path = format!("GET /api/v1/jobs/{}", job["id"]);
    let row = body_of(&said(&service.place, &path, &[&read], ""));
    assert_eq!(row["user"], bob.name.as_str());
    // A secret that claims another user finds nothing there.
    let (_, random) = submit.rsplit_once('-').unwrap();
    let claimed = format!("Authorization: Bearer {}-{random}", site.alice.uid);
    assert_eq!(
        status(&said(&service.place, "GET /api/v1/jobs", &[&claimed], "")),
        401
    );
    let list = site.ok(bob, "ctoken", &["list", "--json"]);
    for line in list.lines() {
        let token: serde_json::Value = serde_json::from_str(line).unwrap();
        site.ok(bob, "ctoken", &["revoke", token["id"].as_str().unwrap()]);
    }
    assert_eq!(status(&said(&service.place, &path, &[&read], "")), 401);
}
