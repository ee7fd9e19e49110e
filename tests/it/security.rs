//! Attacks on a cluster of several users: root daemons, a share that a service account owns, and
//! users who forge what they can. One cluster serves all cases; docs/security.md names them.
//!
//! The users are accounts that every machine has (bin, games, ...): none is made for the tests, so
//! nothing of the machine changes. Only root can play several users; without, it says so.

use crate::cluster::{Cluster, job_id, reachable, text};
use crate::patience::{find_or, until_or};
use crate::{security_box, security_jobs, security_roles};
use corral::model::Token;
use corral::record::ack::Ack;
use corral::record::frame;
use corral::record::header::{FileKind, Header};
use corral::record::request::{RequestHead, Verb};
use std::cell::Cell;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// An account of this machine.
#[derive(Clone, Debug)]
pub struct Account {
    pub name: String,
    pub uid: u32,
}

/// A cluster of several users.
pub struct Site {
    pub cluster: Cluster,
    /// Owns the share.
    pub service: Account,
    pub alice: Account,
    pub bob: Account,
    pub group_admin: Account,
    pub queue_admin: Account,
    pub cluster_admin: Account,
    tokens: Cell<u128>,
}

pub type Case = (&'static str, fn(&Site));

/// Whether these tests can run; says why not.
pub fn is_root() -> bool {
    let root = corral::sys::users::may_switch();
    if !root {
        println!("skipped: only root can play several users");
    }
    root
}

/// Accounts of the system, which nobody works under.
fn accounts() -> Vec<Account> {
    let text = std::fs::read_to_string("/etc/passwd").unwrap();
    let mut out: Vec<Account> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(':').collect();
        let Some(uid) = words.get(2).and_then(|w| w.parse::<u32>().ok()) else {
            continue;
        };
        if (1..1000).contains(&uid) && out.iter().all(|a| a.uid != uid) {
            let name = words[0].to_string();
            out.push(Account { name, uid });
        }
    }
    out
}

const SHAPE: &str = r#"{"hosts":1,"slots":16,"masters":1,"lease_ms":15000,"cgroup":true}"#;

impl Site {
    /// Brings it up; none when it cannot be, said with the reason.
    pub fn up() -> Option<Site> {
        if !is_root() {
            return None;
        }
        let Ok(
            [
                service,
                alice,
                bob,
                group_admin,
                queue_admin,
                cluster_admin,
                ..,
            ],
        ) = <[Account; 6]>::try_from(accounts().into_iter().take(6).collect::<Vec<_>>())
        else {
            println!("skipped: /etc/passwd has fewer than six accounts below 1000");
            return None;
        };
        let config = format!(
            "cluster: {{name: dev, administrators: [{admin}], masters: h1, lease_timeout: 15s}}\n\
             general: {{default_queue: normal, job_terminate_interval: 1}}\n\
             hosts:\n- {{name: h1, slots: 16}}\n\
             usergroups:\n- {{name: g, members: {alice}, administrator: {group}}}\n\
             queues:\n- {{name: normal, priority: 30, administrators: {queue}}}\n\
             - {{name: other, priority: 20}}\n",
            admin = cluster_admin.name,
            alice = alice.name,
            group = group_admin.name,
            queue = queue_admin.name,
        );
        let prepare = |dir: &Path| {
            open(dir.parent().unwrap(), 0o755);
            std::fs::create_dir(dir.join("etc")).unwrap();
            std::fs::write(dir.join("etc/dev.json"), SHAPE).unwrap();
            // Made by the account that is to own it, in a directory that is then root's again.
            let share = dir.join("share");
            std::fs::create_dir(&share).unwrap();
            chown(&share, Some(service.uid), Some(service.uid)).unwrap();
            let file = dir.join("cb.yaml");
            std::fs::write(&file, &config).unwrap();
            let out = as_account(Command::new(reachable(tmp(dir), CB)), &service)
                .args(["cadmin", "init", "--name", "dev", "--config"])
                .args([&file, &share])
                .output()
                .unwrap();
            assert!(out.status.success(), "{}", text(&out));
        };
        let cluster = Cluster::prepared("", prepare);
        let site = Site {
            cluster,
            service,
            alice,
            bob,
            group_admin,
            queue_admin,
            cluster_admin,
            tokens: Cell::new(1),
        };
        for who in [&site.alice, &site.bob] {
            let home = site.home(who);
            std::fs::create_dir_all(&home).unwrap();
            chown(&home, Some(who.uid), Some(who.uid)).unwrap();
            site.csub(who, &["-o", "/dev/null", "true"]); // makes the drop box
        }
        Some(site)
    }

    pub fn home(&self, who: &Account) -> PathBuf {
        self.cluster.work().join(&who.name)
    }

    /// A command of the cluster as one of its users.
    pub fn command(&self, who: &Account, name: &str) -> Command {
        let program = if name == "cbsim" { CBSIM } else { CB };
        let mut command = as_account(
            Command::new(reachable(tmp(self.cluster.dir()), program)),
            who,
        );
        if program == CB {
            command.arg(name);
        }
        command.env("CB_ENVDIR", self.cluster.dir().join("etc"));
        let home = self.home(who);
        command.current_dir(if home.exists() { &home } else { Path::new("/") });
        command
    }

    pub fn run(&self, who: &Account, name: &str, args: &[&str]) -> Output {
        self.command(who, name).args(args).output().unwrap()
    }

    /// Runs a command that must succeed; gives what it said.
    pub fn ok(&self, who: &Account, name: &str, args: &[&str]) -> String {
        let out = self.run(who, name, args);
        let output = || format!("{name} {args:?}: {}\n{}", text(&out), self.cluster.logs());
        assert!(out.status.success(), "{}", output());
        String::from_utf8(out.stdout.clone()).unwrap()
    }

    pub fn csub(&self, who: &Account, args: &[&str]) -> u32 {
        let output = self.ok(who, "csub", args);
        job_id(&output).unwrap_or_else(|| panic!("no job id in {output:?}"))
    }

    /// Runs a shell command as a job to its end; gives its state and what it wrote.
    pub fn job(&self, who: &Account, options: &[&str], script: &str) -> (String, String) {
        let out = self.home(who).join(format!("out.{}", self.token()));
        let mut args = vec!["-oo", out.to_str().unwrap()];
        args.extend(options);
        args.push(script);
        let id = self.csub(who, &args);
        let state = self.ended(id);
        let wrote = std::fs::read_to_string(&out).unwrap_or_default();
        let body = wrote.split("follows:\n\n").nth(1).unwrap_or(&wrote);
        (state, body.to_string())
    }

    /// Waits for the end of a job; gives its last state.
    pub fn ended(&self, id: u32) -> String {
        let over = |s: &String| s == "DONE" || s == "EXIT";
        let states = self
            .cluster
            .wait(|states| states.get(&(id, 0)).is_some_and(over));
        states[&(id, 0)].clone()
    }

    pub fn inbox(&self) -> PathBuf {
        self.cluster.share().join("inbox")
    }

    pub fn own_box(&self, who: &Account) -> PathBuf {
        self.inbox().join(who.uid.to_string())
    }

    /// A token that no other request has.
    pub fn token(&self) -> Token {
        self.tokens.set(self.tokens.get() + 1);
        Token((0xfeed << 64) + self.tokens.get())
    }

    /// Puts a file of `owner` into the drop box of `who` under the name of a request.
    pub fn put(&self, who: &Account, owner: u32, bytes: &[u8]) -> Token {
        let token = self.token();
        let aside = self.cluster.dir().join("aside");
        std::fs::write(&aside, bytes).unwrap();
        open(&aside, 0o640);
        chown(&aside, Some(owner), Some(self.service.uid)).unwrap();
        std::fs::rename(&aside, self.own_box(who).join(format!("r.{token}"))).unwrap();
        token
    }

    /// The bytes of a request, with the token that [`Site::put`] will give it.
    pub fn request(&self, verbs: &[Verb]) -> Vec<u8> {
        let head = RequestHead {
            token: Token((0xfeed << 64) + self.tokens.get() + 1),
            ..RequestHead::default()
        };
        let mut bytes = Vec::new();
        frame::write(&mut bytes, 0, &Header::new(FileKind::Request, "", 0, 0)).unwrap();
        frame::write(&mut bytes, 1, &head).unwrap();
        for (n, verb) in verbs.iter().enumerate() {
            frame::write(&mut bytes, 2 + n as u64, verb).unwrap();
        }
        bytes
    }

    /// The leader's answer to a token.
    pub fn answer(&self, token: Token) -> Ack {
        let none = || format!("no answer to {token}\n{}", self.cluster.logs());
        find_or(|| self.find_answer(token), none)
    }

    fn find_answer(&self, token: Token) -> Option<Ack> {
        let epochs = std::fs::read_dir(self.cluster.share().join("epoch")).ok()?;
        for epoch in epochs.flatten() {
            let acks = std::fs::read(epoch.path().join("acks.yaml")).unwrap_or_default();
            let lines = acks.split(|b| *b == b'\n');
            let acks = lines.filter_map(|l| frame::parse_line(l).ok()?.decode::<Ack>().ok());
            if let Some(ack) = acks.into_iter().find(|ack| ack.tok == token) {
                return Some(ack);
            }
        }
        None
    }

    /// Waits until something holds.
    pub fn until(&self, what: &str, holds: impl FnMut() -> bool) {
        until_or(holds, || format!("{what}\n{}", self.cluster.logs()));
    }

    /// The whole log of the leader.
    pub fn log(&self) -> String {
        let path = self.cluster.dir().join("log/cbsched.h1.log");
        String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
    }
}

/// Sets permission bits.
pub fn open(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn as_account(mut command: Command, who: &Account) -> Command {
    command.uid(who.uid).gid(who.uid);
    command.env_remove("CB_HOST").env("PWD", "/");
    command
}

/// The directory around a cluster's, which all users may enter.
fn tmp(dir: &Path) -> &Path {
    dir.parent().expect("a cluster lies in a directory")
}

const CB: &str = env!("CARGO_BIN_EXE_cb");
const CBSIM: &str = env!("CARGO_BIN_EXE_cbsim");

/// Runs all cases on one cluster, whatever the first ones say.
#[test]
fn users_attack_each_other_and_the_daemons() {
    let Some(site) = Site::up() else { return };
    let mut daemons = site.cluster.ps();
    daemons.retain(|p| p.role != "cbtask");
    let mut failed = Vec::new();
    let cases = [
        security_box::CASES,
        security_jobs::CASES,
        security_roles::CASES,
    ];
    for (name, case) in cases.into_iter().flatten() {
        let begin = Instant::now();
        let passed = catch_unwind(AssertUnwindSafe(|| case(&site))).is_ok();
        let ms = begin.elapsed().as_millis();
        println!(
            "{name}: {} ({ms} ms)",
            if passed { "held" } else { "FAILED" }
        );
        if !passed {
            failed.push(*name);
        }
    }
    let left = site.cluster.ps();
    for p in &daemons {
        let lives = left.iter().any(|q| q.pid == p.pid);
        assert!(lives, "{p:?} did not survive\n{}", site.cluster.logs());
    }
    assert!(failed.is_empty(), "{failed:?}");
    security_box::forged_epoch(site);
}

/// S39: what is built is what was looked at.
#[test]
fn every_dependency_is_pinned_by_its_checksum() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for package in ["", "src/drmaa/", "src/export/", "src/notify/", "src/web/"] {
        let script = format!("{package}build.rs");
        assert!(!root.join(script).exists(), "a build script of ours");
    }
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).unwrap();
    let packages: Vec<&str> = lock.split("[[package]]").skip(1).collect();
    assert!(packages.len() > 50, "{}", packages.len());
    let ours = |p: &&&str| {
        let ours = [
            "corral",
            "corral-drmaa",
            "corral-export",
            "corral-notify",
            "corral-web",
        ];
        let mut names = ours.into_iter();
        names.any(|name| p.contains(&format!("\nname = \"{name}\"\n")))
    };
    for package in packages.iter().filter(|p| !ours(p)) {
        let registry = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
        assert!(package.contains(registry), "{package}");
        assert!(package.contains("checksum = \""), "{package}");
    }
    let check = std::fs::read_to_string(root.join("sbin/check")).unwrap();
    for line in check
        .lines()
        .filter(|l| l.contains("cargo test") || l.contains("clippy"))
    {
        assert!(line.contains("--locked") || line.starts_with('#'), "{line}");
    }
}

/// S6 as long as the matrix asks for.
#[test]
#[ignore = "60 s of renaming"]
fn renaming_for_a_minute_leads_nowhere() {
    let Some(site) = Site::up() else { return };
    security_box::rename_race(&site, Duration::from_secs(60));
}

/// S11 as large as the matrix asks for.
#[test]
#[ignore = "100,000 files: minutes"]
fn a_flood_of_100_000_files_leaves_the_others_served() {
    let Some(site) = Site::up() else { return };
    security_box::flood(&site, 100_000);
}
