//! Login to the portal by the password of the operating system, with the real PAM: right, wrong,
//! expired and locked, throttled; where the password is and is not; settings that are read again.
//!
//! `cbweb` runs in a mount namespace of its own, in which copies of /etc/shadow, /etc/group and
//! /etc/pam.d lie over the machine's: nothing of the machine changes. Only root can do that.

use crate::cluster::{build, signal};
use crate::portal::{cookie, said, status};
use crate::portal_service::{FORM, Service, cbweb};
use crate::security::{Account, Site};
use std::collections::BTreeSet;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The password of every account here, and what the system keeps of it.
const RIGHT: &str = "right-Pass%201";
const PLAIN: &str = "right-Pass 1";
const HASH: &str = "$5$rounds=1000$corraltest$KhkmZ2bPc90bI7MWe0gBSIhdoV3nRTHspfGvSfrckM7";
const WRONG: &str = "User or password is wrong";
/// How long the slow module of PAM takes, seconds: less than a try may, longer than a page does.
const SLOW_S: u64 = 15;
/// A group that nobody has.
const GROUP: u32 = 64_321;

/// Copies of the machine's files that lie over them where `cbweb` runs.
struct Etc {
    dir: PathBuf,
}

impl Etc {
    fn new(site: &Site) -> Etc {
        let dir = site.cluster.dir().join("accounts");
        std::fs::create_dir_all(dir.join("pam.d")).unwrap();
        let copy = |name: &str| {
            let text = std::fs::read_to_string(Path::new("/etc").join(name)).unwrap();
            std::fs::write(dir.join(name), &text).unwrap();
            text
        };
        copy("group");
        let shadow = copy("shadow");
        let etc = Etc { dir };
        let lines = shadow.lines().map(|line| etc.shadow_line(site, line));
        let lines: String = lines.map(|line| line + "\n").collect();
        std::fs::write(etc.dir.join("shadow"), lines).unwrap();
        let denied = etc.dir.join("denied");
        std::fs::write(&denied, format!("{}\n", site.cluster_admin.name)).unwrap();
        let account = format!(
            "account required pam_unix.so\n\
             account required pam_listfile.so item=user sense=deny file={} onerr=fail\n",
            denied.display()
        );
        let slow = etc.dir.join("slow");
        std::fs::write(&slow, format!("#!/bin/sh\nsleep {SLOW_S}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&slow, mode).unwrap();
        for (name, auth) in [
            ("corral", "auth required pam_unix.so".to_owned()),
            ("corral-open", "auth sufficient pam_rootok.so".to_owned()),
            (
                "corral-slow",
                format!(
                    "auth required pam_unix.so\nauth required pam_exec.so quiet {}",
                    slow.display()
                ),
            ),
        ] {
            let text = format!("{auth}\n{account}");
            std::fs::write(etc.dir.join("pam.d").join(name), text).unwrap();
        }
        etc
    }

    /// A line of /etc/shadow with what the account is to be.
    fn shadow_line(&self, site: &Site, line: &str) -> String {
        let name = line.split(':').next().unwrap_or_default();
        let is = |who: &Account| who.name == name;
        match name {
            "root" => format!("root:{HASH}:19000:0:99999:7:::"),
            _ if is(&site.alice) || is(&site.cluster_admin) => {
                format!("{name}:{HASH}:19000:0:99999:7:::")
            }
            // The password is older than it may be; the account has ended; it is locked.
            _ if is(&site.bob) => format!("{name}:{HASH}:100:0:10:7:::"),
            _ if is(&site.queue_admin) => format!("{name}:{HASH}:19000:0:99999:7::100:"),
            _ if is(&site.service) => format!("{name}:!{HASH}:19000:0:99999:7:::"),
            _ => line.to_owned(),
        }
    }

    /// The service in its namespace; none where there can be no such, said with the reason.
    fn service(&self, site: &Site) -> Option<Service> {
        let tried = Command::new("unshare").args(["--mount", "true"]).output();
        if !tried.is_ok_and(|out| out.status.success()) {
            println!("skipped: no mount namespace can be made here");
            return None;
        }
        let d = self.dir.display();
        let script = format!(
            "for f in shadow group pam.d; do mount --bind {d}/$f /etc/$f || exit 1; done\n\
             exec {} --service \"$@\"",
            cbweb().display()
        );
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            &script,
            "sh",
        ]);
        command.env("CB_ENVDIR", site.cluster.dir().join("etc"));
        Some(Service::spawn(site, command))
    }

    /// Changes the groups, in the file that is mounted.
    fn join(&self, who: &Account) {
        let path = self.dir.join("group");
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str(&format!("portaltest:x:{GROUP}:{}\n", who.name));
        std::fs::write(&path, text).unwrap();
    }
}

/// Changes section `portal` and has the leader and the portal take it.
fn set(site: &Site, service: &Service, section: &str) {
    let path = site.cluster.share().join("conf/cb.yaml");
    let whole = std::fs::read_to_string(&path).unwrap();
    let other_lines = whole.lines().filter(|line| !line.starts_with("portal:"));
    let mut changed: String = other_lines.map(|line| format!("{line}\n")).collect();
    changed.push_str(&format!("portal: {section}\n"));
    std::fs::write(&path, changed).unwrap();
    site.cluster.ok("cadmin", &["reconfig"]);
    let in_force = site.cluster.share().join("conf/last-good.yaml");
    site.until("the section is in force", || {
        std::fs::read_to_string(&in_force).is_ok_and(|text| text.contains(section))
    });
    signal(service.child.id() as i32, "-HUP");
}

/// A browser that has loaded the form: its cookie and the form's token.
fn form(service: &Service) -> Option<(String, String)> {
    let page = said(&service.place, "GET /login", &[], "");
    let (_, rest) = page.split_once("name=\"csrf\" value=\"")?;
    let csrf = rest.split('"').next()?.to_owned();
    Some((cookie(&page), csrf))
}

/// Tries a password from an address, which a proxy that is trusted tells.
fn try_from(service: &Service, from: &str, user: &str, password: &str) -> String {
    let (cookie, csrf) = form(service).expect("the form is there");
    let from = format!("X-Forwarded-For: {from}");
    let body = format!("csrf={csrf}&user={user}&password={password}");
    said(
        &service.place,
        "POST /login",
        &[&cookie, &from, FORM],
        &body,
    )
}

/// What a page says to who tried.
fn alert(answer: &str) -> &str {
    let (_, rest) = answer.split_once("role=\"alert\">").unwrap_or(("", answer));
    rest.split('<').next().unwrap_or_default()
}

#[test]
fn users_log_in_by_the_password_of_the_system() {
    build("--bins");
    let Some(site) = Site::up() else { return };
    if corral::sys::pam::can_be_asked().is_err() {
        println!("skipped: there is no PAM here");
        return;
    }
    let etc = Etc::new(&site);
    let Some(service) = etc.service(&site) else {
        return;
    };
    assert!(form(&service).is_none(), "nobody has asked for it");
    let none = said(&service.place, "POST /login", &[FORM], "user=a&password=b");
    assert_eq!(status(&none), 403, "{none}");
    set(&site, &service, "{pam: yes, trust_proxy: [127.0.0.1]}");
    site.until("the form is there", || form(&service).is_some());
    // Each half reads the section for itself.
    site.until("the broker has it, too", || {
        let answer = try_from(&service, "192.0.2.9", &site.queue_admin.name, RIGHT);
        if status(&answer) == 503 {
            let log = std::fs::read_to_string(site.cluster.dir().join("log/cbweb.log"));
            println!("{}: {log:?}", alert(&answer));
        }
        status(&answer) != 503
    });
    let session = right_and_wrong(&site, &service);
    groups_are_fresh(&site, &etc, &service, &session);
    forms(&site, &service);
    throttled(&site, &service);
    nobody_keeps_it(&site, &service);
    set(
        &site,
        &service,
        "{pam: yes, pam_service: corral-slow, trust_proxy: [127.0.0.1]}",
    );
    nobody_waits(&site, &service, &session);
    set(
        &site,
        &service,
        "{pam: yes, pam_service: corral-open, trust_proxy: [127.0.0.1]}",
    );
    // Of a user without wrong attempts: the other one has to wait the longer, the slower the machine.
    let user = &site.queue_admin.name;
    let open = || try_from(&service, "198.51.100.9", user, "nonsense");
    site.until("a service that asks nothing lets nobody in", || {
        let answer = open();
        assert_ne!(status(&answer), 303, "{answer}");
        status(&answer) == 503
    });
}

/// Who is let in, and what the others are told; gives the cookie of a session.
fn right_and_wrong(site: &Site, service: &Service) -> String {
    let alice = &site.alice.name;
    let good = try_from(service, "192.0.2.1", alice, RIGHT);
    assert_eq!(status(&good), 303, "{good}");
    let session = cookie(&good);
    let page = said(&service.place, "GET /", &[&session], "");
    assert!(
        status(&page) == 200 && page.contains(alice.as_str()),
        "{page}"
    );
    // Strangers learn neither from what is said nor from the time it takes.
    let begun = Instant::now();
    let wrong = try_from(service, "192.0.2.2", alice, "nonsense");
    let took_wrong = begun.elapsed();
    let begun = Instant::now();
    let unknown = try_from(service, "192.0.2.3", "no-such-user", "nonsense");
    let took_unknown = begun.elapsed();
    for (answer, took) in [(&wrong, took_wrong), (&unknown, took_unknown)] {
        assert_eq!(status(answer), 403, "{answer}");
        assert!(alert(answer).starts_with(WRONG), "{answer}");
        assert!(took >= Duration::from_millis(1_900), "{took:?}");
    }
    assert_eq!(alert(&wrong), alert(&unknown));
    let locked = try_from(service, "192.0.2.4", &site.service.name, RIGHT);
    assert_eq!(
        alert(&locked),
        alert(&wrong),
        "a locked account has no password"
    );
    let root = try_from(service, "192.0.2.5", "root", RIGHT);
    assert_eq!(alert(&root), alert(&wrong), "nobody acts for root");
    let empty = try_from(service, "192.0.2.6", &site.cluster_admin.name, "");
    assert_eq!(alert(&empty), alert(&wrong));
    // Who knows the password is told why it does not do; who does not is not.
    for (who, part) in [
        (&site.bob, "expired. Change it"),
        (&site.queue_admin, "account has expired"),
        (&site.cluster_admin, "may not log in here"),
    ] {
        let refused = try_from(service, "192.0.2.7", &who.name, RIGHT);
        assert_eq!(status(&refused), 403, "{refused}");
        assert!(
            alert(&refused).contains(part),
            "{}: {}",
            who.name,
            alert(&refused)
        );
        assert!(!refused.contains("set-cookie: corral_"), "{refused}");
        let guessed = try_from(service, "192.0.2.8", &who.name, "nonsense");
        assert_eq!(alert(&guessed), alert(&wrong), "{}", who.name);
    }
    session
}

/// A process that acts for a user has the groups that the user has by then.
fn groups_are_fresh(site: &Site, etc: &Etc, service: &Service, session: &str) {
    let dir = site.cluster.dir().join("of-the-group");
    std::fs::create_dir(&dir).unwrap();
    std::os::unix::fs::chown(&dir, Some(0), Some(GROUP)).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o750);
    std::fs::set_permissions(&dir, mode).unwrap();
    let path = format!("GET /api/v1/files?root={}", dir.display());
    let list = || said(&service.place, &path, &[session], "");
    let before = list();
    assert_ne!(status(&before), 200, "alice is not in the group: {before}");
    etc.join(&site.alice);
    let after = list();
    assert_eq!(
        status(&after),
        200,
        "the same session, in the group now: {after}"
    );
}

/// A form counts only in the browser that got it, and begins a session of its own.
fn forms(site: &Site, service: &Service) {
    let alice = &site.alice.name;
    let (own, csrf) = form(service).unwrap();
    let (other, _) = form(service).unwrap();
    let body = format!("user={alice}&password={RIGHT}&csrf={csrf}");
    for (headers, body) in [
        (vec![FORM], body.clone()),
        (vec![FORM, &other], body.clone()),
        (vec![FORM, &own], format!("user={alice}&password={RIGHT}")),
        (
            vec![FORM, &own, "Origin: http://evil.example"],
            body.clone(),
        ),
        (vec![FORM, &own, "Sec-Fetch-Site: cross-site"], body.clone()),
    ] {
        let answer = said(&service.place, "POST /login", &headers, &body);
        assert_eq!(status(&answer), 403, "{headers:?} {answer}");
        assert!(
            alert(&answer).is_empty() || !answer.contains(WRONG),
            "PAM is not asked"
        );
    }
    let port = service.place.rsplit(':').next().unwrap();
    let planted = format!("Cookie: corral_{port}=planted");
    let good = said(
        &service.place,
        "POST /login",
        &[FORM, &own, &planted],
        &body,
    );
    assert_eq!(status(&good), 303, "{good}");
    assert!(!cookie(&good).contains("planted"), "{good}");
    let page = said(&service.place, "GET /jobs", &[&planted], "");
    assert_eq!(status(&page), 303, "to the login");
    // Nothing of a login stands in an address: the query is no form.
    let by_query = format!("POST /login?user={alice}&password={RIGHT}&csrf={csrf}");
    let answer = said(&service.place, &by_query, &[FORM, &own], "");
    assert_eq!(status(&answer), 403, "{answer}");
}

/// A thousand wrong passwords: few are looked at, the right one has to wait, others do not.
fn throttled(site: &Site, service: &Service) {
    let alice = &site.alice.name;
    let (own, csrf) = form(service).unwrap();
    let ask = |from: &str, user: &str, password: &str| {
        let body = format!("csrf={csrf}&user={user}&password={password}");
        let from = format!("X-Forwarded-For: {from}");
        said(&service.place, "POST /login", &[FORM, &own, &from], &body)
    };
    let memory = || rss(service.child.id());
    let (before, begun) = (memory(), Instant::now());
    let (mut looked, mut waits) = (0, 0);
    for n in 0..1_000 {
        let answer = ask(
            &format!("10.0.{}.{}", n / 250, n % 250),
            alice,
            &format!("wrong{n}"),
        );
        match status(&answer) {
            403 => looked += 1,
            429 => waits += 1,
            other => panic!("{other}: {answer}"),
        }
    }
    let seconds = begun.elapsed().as_secs();
    // Four at once, then after 1, 2, 4, ... seconds.
    let most = 4 + u64::from((seconds + 2).ilog2());
    println!("{looked} of 1,000 wrong passwords were looked at in {seconds} s");
    assert!(
        (4..=most).contains(&looked),
        "{looked} in {seconds} s, {waits} had to wait"
    );
    let late = ask("203.0.113.1", alice, RIGHT);
    assert_eq!(status(&late), 429, "the right one waits, too: {late}");
    let seconds = late
        .lines()
        .find_map(|line| line.strip_prefix("retry-after: "));
    assert!(seconds.unwrap().trim().parse::<u64>().unwrap() > 0);
    assert!(late.contains("Wait "), "{}", alert(&late));
    let capital = ask("203.0.113.2", &alice.to_uppercase(), RIGHT);
    assert_eq!(status(&capital), 429, "capitals are no other user");
    // Users that there are not, from one address, several at once.
    let looked: usize = std::thread::scope(|scope| {
        let some = |first: usize| {
            let looked = |n: &usize| {
                let answer = ask("203.0.113.3", &format!("nobody{n}"), "x");
                assert!(status(&answer) != 303, "{answer}");
                status(&answer) == 403
            };
            (first..first + 5).filter(looked).count()
        };
        let all: Vec<_> = (0..6).map(|n| scope.spawn(move || some(n * 5))).collect();
        all.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert!((10..20).contains(&looked), "{looked} of 30");
    // A login by a link does not wait, and somebody else's password is judged.
    service.session(site, &site.alice);
    let other = ask("203.0.113.4", &site.bob.name, RIGHT);
    assert!(alert(&other).contains("expired"), "{}", alert(&other));
    let grown = memory().saturating_sub(before);
    assert!(grown < 4_096, "the broker has grown by {grown} KiB");
}

fn rss(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let words = line.unwrap_or_default().split_whitespace().next();
    words.unwrap_or_default().parse().unwrap()
}

/// The password is in no log, no command line, not in the broker and in no process that is left.
fn nobody_keeps_it(site: &Site, service: &Service) {
    let log = std::fs::read_to_string(site.cluster.dir().join("log/cbweb.log")).unwrap();
    assert!(
        log.contains("login by password: user="),
        "there is an audit: {log}"
    );
    for part in [": right", ": wrong", ": must wait", "from=192.0.2.1"] {
        assert!(log.contains(part), "{part}");
    }
    for password in [RIGHT, PLAIN, "nonsense", "wrong0"] {
        assert!(!log.contains(password), "{password} is in the log");
    }
    let broker = service.child.id() as i32;
    let all = corral::sys::proc::children(broker);
    let others: BTreeSet<i32> = all
        .into_iter()
        .filter(|pid| *pid != service.http())
        .collect();
    assert!(
        others.len() <= 1,
        "the processes that asked have ended: {others:?}"
    );
    assert!(!memory_has(broker, PLAIN), "the broker never had it");
    println!(
        "memory of the HTTP process has it: {}",
        memory_has(service.http(), PLAIN)
    );
    for pid in [broker, service.http()] {
        for file in ["cmdline", "environ"] {
            let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains(PLAIN), "{file}");
        }
    }
}

/// Whether a text stands anywhere in the memory of a process that it can write.
fn memory_has(pid: i32, text: &str) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let place = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        rest.starts_with("rw").then_some((hex(from)?, hex(to)?))
    };
    maps.lines().filter_map(place).any(|(from, to)| {
        let mut bytes = vec![0; (to - from) as usize];
        let whole =
            memory.seek(SeekFrom::Start(from)).is_ok() && memory.read_exact(&mut bytes).is_ok();
        whole
            && bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
    })
}

/// While a module of PAM blocks, others are served.
fn nobody_waits(site: &Site, service: &Service, session: &str) {
    let admin = &site.queue_admin.name;
    // The change of the section is seen when a try takes its time.
    site.until("the slow service counts", || {
        let begun = Instant::now();
        let answer = try_from(service, "198.51.100.1", admin, RIGHT);
        assert_eq!(status(&answer), 403, "{answer}");
        begun.elapsed() >= Duration::from_secs(SLOW_S)
    });
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| try_from(service, "198.51.100.2", admin, RIGHT));
        std::thread::sleep(Duration::from_secs(1));
        let begun = Instant::now();
        let page = said(&service.place, "GET /files", &[session], "");
        assert!(status(&page) < 500, "{page}");
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(SLOW_S), "{took:?}");
        assert!(!slow.is_finished(), "the module still blocks");
        let answer = slow.join().unwrap();
        assert!(
            alert(&answer).contains("account has expired"),
            "{}",
            alert(&answer)
        );
    });
}
