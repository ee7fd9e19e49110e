//! What users put into drop boxes, and what they would put into the rest of the share.

use crate::cluster::{kill_9, text};
use crate::patience::PATIENCE;
use crate::security::{Case, Site, open};
use corral::model::{AttemptId, JobKey, Submission};
use corral::record::frame;
use corral::record::header::{FileKind, Header};
use corral::record::report::{Ended, Report};
use corral::record::request::Verb;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::stat::{Mode, SFlag, mknod};
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[
    ("S1 a link as a request", link_as_request),
    ("S2 a link as a drop box", link_as_box),
    (
        "S4 a pipe, a device, a socket, a directory as a request",
        no_file_as_request,
    ),
    ("S5 a second name of another's file", hard_link),
    ("S6 names exchanged while they are read", |s| {
        rename_race(s, Duration::from_secs(2));
    }),
    ("S8 a request cut off", cut_request),
    ("S9 another's identity in a request", claimed_identity),
    ("S11 a flood of files", |s| flood(s, 2_000)),
    (
        "S12 names that write on terminals and logs",
        names_with_controls,
    ),
    ("S20 forged reports", forged_reports),
    ("S37 other users' secrets", secrets),
    ("a drop box made by somebody else", squatting),
    (
        "nobody writes to the share but into drop boxes",
        share_is_closed,
    ),
];

fn submission(command: &str) -> Verb {
    let mut job = Submission {
        command: command.into(),
        ..Submission::default()
    };
    job.spec.cwd = "/".into();
    job.spec.stdout = "/dev/null".into();
    let job = Box::new(job);
    Verb::Submit {
        line: 0,
        same: false,
        job,
    }
}

fn gone(site: &Site, path: &Path) {
    site.until(&format!("{} is taken away", path.display()), || {
        path.symlink_metadata().is_err()
    });
}

fn link_as_request(site: &Site) {
    let before = std::fs::metadata("/etc/shadow").unwrap();
    for target in ["/etc/shadow", "/dev/zero"] {
        let token = site.token();
        let path = site.own_box(&site.alice).join(format!("r.{token}"));
        symlink(target, &path).unwrap();
        let ack = site.answer(token);
        assert!(!ack.ok && ack.error.contains("not a plain file"), "{ack:?}");
        gone(site, &path);
        let told = format!("inbox/{}/r.{token}", site.alice.uid);
        assert!(site.log().contains(&told), "{}", site.cluster.logs());
    }
    let after = std::fs::metadata("/etc/shadow").unwrap();
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());
    assert_eq!(before.permissions(), after.permissions());
}

fn link_as_box(site: &Site) {
    // Something that must not move, in places that a link could lead to.
    let victim = site.cluster.dir().join("victim");
    std::fs::create_dir(&victim).unwrap();
    std::fs::write(victim.join("precious"), "x").unwrap();
    open(&victim, 0o777);
    let epoch = newest(&site.cluster.share().join("epoch"));
    let own = site.own_box(&site.alice);
    for target in [&victim, &epoch, &site.own_box(&site.bob)] {
        let before = names(target);
        std::fs::rename(&own, site.cluster.dir().join("away")).unwrap();
        symlink(target, &own).unwrap();
        // Unless the leader was faster.
        let _ = lchown(&own, Some(site.alice.uid), Some(site.alice.uid));
        gone(site, &own);
        assert_eq!(names(target), before, "{}", target.display());
        std::fs::rename(site.cluster.dir().join("away"), &own).unwrap();
    }
    site.csub(&site.alice, &["-o", "/dev/null", "true"]);
}

fn newest(dir: &Path) -> PathBuf {
    dir.join(names(dir).last().unwrap())
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn no_file_as_request(site: &Site) {
    let own = site.own_box(&site.alice);
    let all = Mode::from_bits_truncate(0o666);
    let put = |make: &dyn Fn(&Path)| {
        let token = site.token();
        let path = own.join(format!("r.{token}"));
        make(&path);
        let uid = Some(site.alice.uid);
        let _ = lchown(&path, uid, uid); // unless the leader was faster
        let ack = site.answer(token);
        assert!(!ack.ok, "{ack:?}");
    };
    let special = |kind: SFlag, dev| {
        move |path: &Path| match mknod(path, kind, all, dev) {
            Ok(()) => {}
            // Containers may not make devices: something else that is no file then.
            Err(_) => std::fs::create_dir(path).unwrap(),
        }
    };
    put(&special(SFlag::S_IFIFO, 0));
    put(&special(SFlag::S_IFCHR, nix::sys::stat::makedev(1, 5)));
    put(&|path| drop(std::os::unix::net::UnixListener::bind(path).unwrap()));
    put(&|path| {
        // Neither to be moved by the service account nor to be removed: passed over from now on.
        let aside = path.with_file_name(".full");
        std::fs::create_dir(&aside).unwrap();
        std::fs::write(aside.join("x"), "x").unwrap();
        std::fs::rename(&aside, path).unwrap();
    });
    let begin = Instant::now();
    site.csub(&site.bob, &["-o", "/dev/null", "true"]);
    let took = begin.elapsed();
    assert!(took < PATIENCE, "{took:?}\n{}", site.cluster.logs());
    let acks = || {
        let acks = newest(&site.cluster.share().join("epoch")).join("acks.yaml");
        std::fs::metadata(acks).unwrap().len()
    };
    let (before, wait) = (acks(), Duration::from_millis(500));
    std::thread::sleep(wait);
    assert_eq!(acks(), before, "what cannot be removed is answered once");
    for name in names(&own) {
        let _ = std::fs::remove_dir_all(own.join(name));
    }
}

fn hard_link(site: &Site) {
    let foreign = site.request(&[submission("true")]);
    let token = site.put(&site.alice, site.bob.uid, &foreign);
    let ack = site.answer(token);
    assert!(!ack.ok && ack.error.contains("owned by uid"), "{ack:?}");
    let file = site.cluster.dir().join("linked");
    std::fs::write(&file, site.request(&[submission("true")])).unwrap();
    chown(&file, Some(site.alice.uid), Some(site.service.uid)).unwrap();
    let token = site.token();
    std::fs::hard_link(&file, site.own_box(&site.alice).join(format!("r.{token}"))).unwrap();
    let ack = site.answer(token);
    assert!(
        !ack.ok && ack.error.contains("names instead of one"),
        "{ack:?}"
    );
    assert!(file.exists());
}

/// A drop box and a request in it change places with links all the time: by Alice's own hand, so
/// that only a daemon could touch what the links lead to.
pub fn rename_race(site: &Site, how_long: Duration) {
    let service = Some(site.service.uid);
    let victim = site.cluster.share().join("race");
    std::fs::create_dir(&victim).unwrap();
    let precious = victim.join(format!("r.{}", site.token()));
    std::fs::write(&precious, "precious").unwrap();
    std::fs::write(victim.join("junk"), "precious").unwrap();
    for path in [&victim, &precious, &victim.join("junk")] {
        chown(path, service, service).unwrap();
    }
    let before = names(&victim);
    let requests: Vec<_> = (0..200)
        .map(|_| {
            let bytes = site.request(&[submission("true")]);
            (site.token(), bytes)
        })
        .collect();
    let (own, home) = (site.own_box(&site.alice), site.home(&site.alice));
    let (link, bait) = (home.join("race.link"), home.join("race.bait"));
    let uid = site.alice.uid;
    let race = || {
        // SAFETY: raw calls change this thread only; the thread ends with the race.
        unsafe {
            assert_eq!(libc::syscall(libc::SYS_setgroups, 0, 0), 0);
            assert_eq!(libc::syscall(libc::SYS_setresgid, uid, uid, uid), 0);
            assert_eq!(libc::syscall(libc::SYS_setresuid, uid, uid, uid), 0);
        }
        let swap = |a: &Path, b: &Path| {
            let flags = RenameFlags::RENAME_EXCHANGE;
            u64::from(renameat2(AT_FDCWD, a, AT_FDCWD, b, flags).is_ok())
        };
        let end = Instant::now() + how_long;
        let mut swaps = 0;
        for (token, bytes) in requests.iter().cycle() {
            if Instant::now() > end {
                break;
            }
            let request = own.join(format!("r.{token}"));
            let _ = std::fs::create_dir(&own);
            let _ = symlink(&victim, &link);
            let _ = symlink("/etc/shadow", &bait);
            let _ = std::fs::write(&request, bytes);
            swaps += swap(&request, &bait);
            swaps += swap(&own, &link);
            swaps += swap(&own, &link);
            swaps += swap(&request, &bait);
        }
        swaps
    };
    let swaps = std::thread::scope(|scope| scope.spawn(race).join().unwrap());
    println!("  {swaps} exchanges");
    assert!(swaps > 100, "{swaps}");
    assert_eq!(names(&victim), before);
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    for place in [&own, &link] {
        match place.symlink_metadata().map(|m| m.is_dir()) {
            Ok(true) => std::fs::remove_dir_all(place).unwrap(),
            _ => drop(std::fs::remove_file(place)),
        }
    }
    let _ = std::fs::remove_file(&bait);
    site.csub(&site.alice, &["-o", "/dev/null", "true"]);
}

fn cut_request(site: &Site) {
    let whole = site.request(&[submission("true")]);
    for len in [0, whole.len() / 2, whole.len() - 1] {
        let token = site.put(&site.alice, site.alice.uid, &whole[..len]);
        let ack = site.answer(token);
        assert!(!ack.ok && !ack.error.is_empty(), "{len}: {ack:?}");
    }
    let mut flipped = site.request(&[submission("true")]);
    let at = flipped.len() / 2;
    flipped[at] ^= 1;
    let token = site.put(&site.alice, site.alice.uid, &flipped);
    assert!(!site.answer(token).ok);
}

fn claimed_identity(site: &Site) {
    let mark = site.home(&site.alice).join("whoami");
    let mut verb = submission(&format!("id -u > {}", mark.display()));
    if let Verb::Submit { job, .. } = &mut verb {
        (job.spec.uid, job.spec.user) = (0, "root".into());
    }
    let bytes = site.request(&[verb]);
    let token = site.put(&site.alice, site.alice.uid, &bytes);
    let ack = site.answer(token);
    assert_eq!(site.ended(ack.ids[0].id), "DONE", "{ack:?}");
    let ran = std::fs::read_to_string(&mark).unwrap();
    assert_eq!(ran.trim(), site.alice.uid.to_string());
    // A group that is not his, with its shares.
    let mut verb = submission("true");
    if let Verb::Submit { job, .. } = &mut verb {
        job.spec.user_group = "g".into();
    }
    let bytes = site.request(&[verb]);
    let token = site.put(&site.bob, site.bob.uid, &bytes);
    let ack = site.answer(token);
    assert!(ack.ids.is_empty(), "{ack:?}");
}

/// One user's files by the thousand; the other's submissions are timed.
pub fn flood(site: &Site, files: u32) {
    let time = || {
        let mut all: Vec<u128> = (0..5)
            .map(|_| {
                let begin = Instant::now();
                site.csub(&site.bob, &["-H", "-o", "/dev/null", "true"]);
                begin.elapsed().as_millis()
            })
            .collect();
        all.sort_unstable();
        all[2]
    };
    let quiet = time();
    let own = site.own_box(&site.alice);
    let full = site.inbox().join(".full");
    std::fs::create_dir(&full).unwrap();
    for n in 0..files {
        let name = match n % 2 {
            0 => format!("r.{n:032x}"),
            _ => format!("junk{n}"),
        };
        let path = full.join(name);
        std::fs::write(&path, "rubbish\n").unwrap();
        chown(&path, Some(site.alice.uid), None).unwrap();
    }
    chown(&full, Some(site.alice.uid), Some(site.service.uid)).unwrap();
    open(&full, 0o2770);
    std::fs::remove_dir_all(&own).unwrap();
    std::fs::rename(&full, &own).unwrap();
    let busy = time();
    let left = names(&own).len();
    println!("  csub of another user: {quiet} ms before, {busy} ms with {left} files left");
    let kept = names(&site.cluster.share().join("lost+found"));
    assert!(kept.len() < 1000, "{} files kept", kept.len());
    assert!(busy < 4 * quiet + 4000, "{busy} ms against {quiet} ms");
    let end = Instant::now() + PATIENCE * (1 + files / 5_000);
    while !names(&own).is_empty() {
        assert!(Instant::now() < end, "{} left", names(&own).len());
        std::thread::sleep(Duration::from_millis(100));
    }
    site.ok(&site.bob, "ckill", &["0"]);
}

fn names_with_controls(site: &Site) {
    let own = site.own_box(&site.alice);
    let line = "a\n2026-01-01T00:00:00Z ERROR forged line";
    for name in [line, "\u{1b}[2J\u{1b}[31mred", "\u{202e}gpj"] {
        let path = own.join(name);
        std::fs::write(&path, "x").unwrap();
        let _ = chown(&path, Some(site.alice.uid), None); // unless the leader was faster
        gone(site, &path);
    }
    let log = site.log();
    assert!(
        !log.lines()
            .any(|l| l.ends_with("forged line") && l.starts_with("2026-01-01"))
    );
    assert!(!log.contains('\u{1b}') && !log.contains('\u{202e}'));
    let id = site.csub(
        &site.alice,
        &["-H", "-Jd", "a\u{1b}[31mb", "echo \u{1b}[31m\u{202e}"],
    );
    let id = id.to_string();
    for option in ["-l", "-w", "-json"] {
        let output = text(&site.run(&site.alice, "cjobs", &[option, &id]));
        assert!(!output.contains('\u{1b}'), "{output:?}");
        // JSON is for programs: they get what is there.
        assert!(
            option == "-json" || !output.contains('\u{202e}'),
            "{output:?}"
        );
    }
    site.ok(&site.alice, "ckill", &[&id]);
}

/// If a directory of the share were open: what a user leaves there says nothing.
fn forged_reports(site: &Site) {
    let id = site.csub(&site.alice, &["-o", "/dev/null", "sleep 600"]);
    let runs = |s: &str| site.cluster.states().get(&(id, 0)).is_some_and(|x| x == s);
    site.until("the job runs", || runs("RUN"));
    let share = site.cluster.share();
    let cluster: serde_json::Value =
        serde_json::from_slice(&std::fs::read(share.join("cluster")).unwrap()).unwrap();
    let part = 999_999;
    let header = Header::new(
        FileKind::Reports,
        cluster["cluster"].as_str().unwrap(),
        0,
        part,
    );
    let ended = Ended {
        a: AttemptId {
            j: JobKey::job(id),
            at: 1,
        },
        code: Some(0),
        ..Ended::default()
    };
    let mut bytes = Vec::new();
    frame::write(&mut bytes, 0, &header).unwrap();
    frame::write(&mut bytes, 1, &Report::Ended(Box::new(ended))).unwrap();
    let path = share.join(format!("hosts/h1/reports.{part:06}.yaml"));
    let aside = share.join("hosts/h1/.forged");
    std::fs::write(&aside, bytes).unwrap();
    chown(&aside, Some(site.bob.uid), Some(site.bob.uid)).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    site.until("the leader says whose file it is", || {
        let log = site.log();
        log.contains("reports.999999.yaml") && log.contains(&format!("uid {}", site.bob.uid))
    });
    assert!(runs("RUN"), "{}", site.cluster.logs());
    std::fs::remove_file(&path).unwrap();
    // The host's own reports are read all the same.
    site.ok(&site.alice, "ckill", &[&id.to_string()]);
    assert_eq!(site.ended(id), "EXIT");
}

fn secrets(site: &Site) {
    let secret = "hunter2-in-the-environment";
    let script = "#!/bin/sh\n# hunter2-in-the-script\nsleep 600\n";
    let file = site.home(&site.alice).join("script");
    std::fs::write(&file, script).unwrap();
    open(&file, 0o600);
    chown(&file, Some(site.alice.uid), None).unwrap();
    let submit = |hold: bool| {
        let mut csub = site.command(&site.alice, "csub");
        if hold {
            csub.arg("-H");
        }
        csub.args(["-i", "/dev/null"]).env("API_KEY", secret);
        let input = std::fs::File::open(&file).unwrap();
        let out = csub.stdin(input).output().unwrap();
        crate::cluster::job_id(&String::from_utf8_lossy(&out.stdout))
            .unwrap_or_else(|| panic!("{}", text(&out)))
    };
    let ids = [submit(true), submit(false)];
    let running = ids[1];
    let runs = || {
        site.cluster
            .states()
            .get(&(running, 0))
            .is_some_and(|x| x == "RUN")
    };
    site.until("the job runs", runs);
    let places = ["share", "local", "log", "run", "etc"].map(|d| site.cluster.dir().join(d));
    let found = |pattern: &str, who: &str| {
        let mut grep = Command::new("setpriv");
        grep.args(["--reuid", who, "--regid", who, "--clear-groups", "grep"]);
        grep.args(["-rlsa", pattern]).args(&places);
        String::from_utf8_lossy(&grep.output().unwrap().stdout).into_owned()
    };
    assert!(found("hunter2", "0").contains("blobs"), "root finds it");
    let bob = site.bob.uid.to_string();
    assert_eq!(found("hunter2", &bob), "");
    // Its name stands in the command line of the job's shell, which everybody can read.
    let mut copy = None;
    site.until("the script's copy is named in /proc", || {
        let dirs = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = dirs.filter_map(|dir| std::fs::read(dir.path().join("cmdline")).ok());
        let mut words = lines.flat_map(|line| {
            let words = String::from_utf8_lossy(&line).into_owned();
            words.split('\0').map(str::to_owned).collect::<Vec<_>>()
        });
        copy = words.find(|word| word.contains(&format!("/scratch/{running}.0.")));
        copy.is_some()
    });
    let copy = copy.unwrap();
    let mut cat = Command::new("setpriv");
    cat.args([
        "--reuid",
        &bob,
        "--regid",
        &bob,
        "--clear-groups",
        "cat",
        &copy,
    ]);
    let out = cat.output().unwrap();
    assert!(text(&out).contains("Permission denied"), "{}", text(&out));
    for id in ids.map(|id| id.to_string()) {
        for args in [["-l", &id], ["-json", &id], ["-u", "all"]] {
            let output = text(&site.run(&site.bob, "cjobs", &args));
            assert!(!output.contains("hunter2"), "{output}");
        }
        let output = text(&site.run(&site.bob, "cjobs", &["-a", "-u", "all", "-noheader"]));
        let lists = output
            .lines()
            .any(|l| l.split_whitespace().next() == Some(&id));
        assert!(!lists, "user_view_alljobs: no\n{output}");
        let whole: [&[&str]; 2] = [&["--after", "0"], &["--after", "0", "-u", "all"]];
        for args in whole {
            let output = site.ok(&site.bob, "cevents", args);
            let of_job = format!("\"job_id\":{id},");
            assert!(!output.contains(&of_job), "user_view_alljobs: no\n{output}");
        }
        site.ok(&site.alice, "ckill", &[&id]);
    }
}

/// Somebody makes the drop box of a user who has none yet: he gets it nevertheless, and nothing
/// of his goes into a foreign hand.
fn squatting(site: &Site) {
    let victim = &site.queue_admin;
    let own = site.own_box(victim);
    assert!(!own.exists());
    // The leader may clear it before its mode is set: what counts is that it was made.
    let out = Command::new("setpriv")
        .args([
            "--reuid",
            &site.bob.uid.to_string(),
            "--clear-groups",
            "mkdir",
            "-m",
            "777",
        ])
        .arg(&own)
        .output()
        .unwrap();
    let cleared = text(&out).contains("cannot change permissions");
    assert!(out.status.success() || cleared, "{}", text(&out));
    let out = site.run(victim, "csub", &["-o", "/dev/null", "-cwd", "/", "true"]);
    if !out.status.success() {
        let output = text(&out);
        assert!(
            output.contains(&format!("belongs to uid {}", site.bob.uid)),
            "{output}"
        );
    }
    site.until("the box of a stranger is cleared", || {
        std::fs::metadata(&own).map_or(true, |m| uid(&m) != site.bob.uid)
    });
    site.csub(victim, &["-o", "/dev/null", "-cwd", "/", "true"]);
    assert_eq!(uid(&std::fs::metadata(&own).unwrap()), victim.uid);
}

fn uid(of: &std::fs::Metadata) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    of.uid()
}

/// What a user can write below the share: his own drop box and the name of it, nothing else.
fn share_is_closed(site: &Site) {
    let bob = site.bob.uid.to_string();
    let (share, dir) = (site.cluster.share(), site.cluster.dir());
    let find = |test: &str| {
        let mut find = Command::new("setpriv");
        find.args(["--reuid", &bob, "--regid", &bob, "--clear-groups", "find"]);
        find.args([
            &share,
            &dir.join("local"),
            &dir.join("etc"),
            &dir.join("log"),
        ]);
        find.args([test, "-not", "-type", "l", "-print"]);
        let out = find.output().unwrap();
        let stdout = String::from_utf8(out.stdout).unwrap();
        stdout.lines().map(PathBuf::from).collect::<Vec<_>>()
    };
    let own = site.own_box(&site.bob);
    let allowed = |p: &PathBuf| *p == site.inbox() || p.starts_with(&own);
    let open: Vec<PathBuf> = find("-writable")
        .into_iter()
        .filter(|p| !allowed(p))
        .collect();
    let jobs = share.join("jobs");
    // Outputs of his own.
    let open: Vec<_> = open.into_iter().filter(|p| !p.starts_with(&jobs)).collect();
    assert!(open.is_empty(), "{open:?}");
    let read = find("-readable");
    // `acct` holds nothing of others that the journal and the view do not show to everybody.
    for closed in ["blobs", "snapshot", "lost+found", "inbox"] {
        let closed = share.join(closed);
        let inside: Vec<_> = read.iter().filter(|p| p.starts_with(&closed)).collect();
        let inside: Vec<_> = inside
            .into_iter()
            .filter(|p| !p.starts_with(&own))
            .collect();
        assert!(inside.is_empty(), "{inside:?}");
    }
}

/// S21: forged claims and journals, found by the next leader.
pub fn forged_epoch(site: Site) {
    let share = site.cluster.share();
    let bob = Some(site.bob.uid);
    let forged = [
        share.join("leader/claims/000050"),
        share.join("epoch/000050"),
        share.join("snapshot/00000000000000000050.yaml"),
    ];
    std::fs::write(&forged[0], "x").unwrap();
    std::fs::create_dir(&forged[1]).unwrap();
    std::fs::write(forged[1].join("journal.0001.yaml"), "x").unwrap();
    std::fs::write(&forged[2], "x").unwrap();
    forged.iter().for_each(|p| chown(p, bob, bob).unwrap());
    let leader = site.cluster.ps().into_iter().find(|p| p.leader).unwrap();
    kill_9(leader.pid);
    site.cluster.dev_up("");
    let id = site.csub(&site.alice, &["-o", "/dev/null", "true"]);
    assert_eq!(site.ended(id), "DONE");
    for path in &forged {
        assert!(!path.exists(), "{}", path.display());
        let output = site.log();
        assert!(output.contains(path.to_str().unwrap()), "{output}");
    }
    site.until("cid shows the alarm", || {
        text(&site.run(&site.alice, "cid", &["-l"])).contains("epoch/000050")
    });
}
