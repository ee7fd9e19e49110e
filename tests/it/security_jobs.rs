//! What jobs of a user can reach: files, other processes, the environment of what runs as root.

use crate::cluster::text;
use crate::security::{Case, Site, open};
use std::os::unix::fs::{MetadataExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

pub const CASES: &[Case] = &[
    ("S3 output through a link", output_through_link),
    (
        "S7 a script rewritten after it was accepted",
        script_rewritten,
    ),
    ("S10 all groups of the user and no others", groups),
    ("S13 names that load code", loading_names),
    ("S15 texts that a shell would run", texts_with_commands),
    (
        "S17 files that others can write are not loaded",
        open_configuration,
    ),
    ("S22 a job kills what runs it", kills_its_shepherd),
    ("S23 a job leaves its control group", leaves_its_group),
    ("S24 a job leaves processes behind", leaves_processes),
    ("S25 a job forks without end", forks_without_end),
    ("S27 S28 descriptors of a job", descriptors),
    ("S29 root submits", root_submits),
    ("S30 a user without an account", no_account),
    (
        "default output is its user's, also when it runs again",
        default_output,
    ),
];

fn output_through_link(site: &Site) {
    let home = site.home(&site.alice);
    let closed = site.cluster.dir().join("closed");
    std::fs::create_dir(&closed).unwrap();
    open(&closed, 0o700);
    let secret = closed.join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let mut ids = Vec::new();
    for (name, target) in [("link1", &secret), ("link2", &closed.join("new"))] {
        let link = home.join(name);
        symlink(target, &link).unwrap();
        for option in ["-o", "-oo", "-e", "-eo", "-i"] {
            let args = [option, link.to_str().unwrap(), "echo gotcha"];
            ids.push(site.csub(&site.alice, &args));
        }
    }
    for id in ids {
        assert_eq!(site.ended(id), "EXIT");
        let output = site.ok(&site.alice, "cjobs", &["-l", &id.to_string()]);
        assert!(output.contains("denied"), "{output}");
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
    assert_eq!(std::fs::read_dir(&closed).unwrap().count(), 1);
    // The hidden file beside an output that already has something in it.
    let out = home.join("filled");
    std::fs::write(&out, "before\n").unwrap();
    chown(&out, Some(site.alice.uid), None).unwrap();
    let id = site.csub(
        &site.alice,
        &["-H", "-o", out.to_str().unwrap(), "echo mine"],
    );
    let hidden = home.join(format!(".filled.{id}"));
    let _ = symlink(&secret, &hidden);
    site.ok(&site.alice, "cresume", &[&id.to_string()]);
    site.ended(id);
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
}

fn script_rewritten(site: &Site) {
    let home = site.home(&site.alice);
    let (script, mark) = (home.join("s.sh"), home.join("s.mark"));
    let write = |word: &str| {
        let text = format!("#!/bin/sh\necho {word} > {}\n", mark.display());
        std::fs::write(&script, text).unwrap();
    };
    write("accepted");
    let mut csub = site.command(&site.alice, "csub");
    let out = csub.args(["-H", "-o", "/dev/null"]);
    let out = out.stdin(std::fs::File::open(&script).unwrap()).output();
    let out = out.unwrap();
    let id = crate::cluster::job_id(&String::from_utf8_lossy(&out.stdout));
    let id = id.unwrap_or_else(|| panic!("{}", text(&out)));
    write("rewritten");
    site.ok(&site.alice, "cresume", &[&id.to_string()]);
    assert_eq!(site.ended(id), "DONE");
    assert_eq!(std::fs::read_to_string(&mark).unwrap(), "accepted\n");
}

fn groups(site: &Site) {
    let (_, wrote) = site.job(&site.alice, &[], "id -G; id -u; id -ru; id -g");
    let out = Command::new("id")
        .args(["-G", &site.alice.name])
        .output()
        .unwrap();
    let sorted = |s: &str| {
        let mut all: Vec<u32> = s.split_whitespace().map(|w| w.parse().unwrap()).collect();
        all.sort_unstable();
        all
    };
    let known = String::from_utf8(out.stdout).unwrap();
    let lines: Vec<&str> = wrote.lines().collect();
    assert_eq!(sorted(lines[0]), sorted(&known), "{wrote}");
    assert!(
        lines[1..3].iter().all(|l| *l == site.alice.uid.to_string()),
        "{wrote}"
    );
}

/// What the loader and interpreters take from the environment reaches the job, as it asked for,
/// and nothing that runs with another identity.
fn loading_names(site: &Site) {
    const NAMES: [&str; 6] = [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "BASH_ENV",
        "ENV",
        "PYTHONPATH",
        "GCONV_PATH",
    ];
    let home = site.home(&site.alice);
    let evil = home.join("evil.so");
    let (pids, log) = (home.join("pids"), home.join("log"));
    let mut csub = site.command(&site.alice, "csub");
    for name in NAMES {
        csub.env(name, &evil);
    }
    let script = format!(
        "env > {}; echo $PPID > {}; sleep 600",
        log.display(),
        pids.display()
    );
    let out = csub.args(["-o", "/dev/null", &script]).output().unwrap();
    let id = crate::cluster::job_id(&String::from_utf8_lossy(&out.stdout));
    let id = id.unwrap_or_else(|| panic!("{}", text(&out)));
    let pid = || {
        std::fs::read_to_string(&pids)
            .unwrap_or_default()
            .trim()
            .parse::<u32>()
    };
    site.until("the job runs", || pid().is_ok());
    let seen = std::fs::read_to_string(&log).unwrap();
    for name in NAMES {
        let line = format!("{name}={}", evil.display());
        assert!(
            seen.lines().any(|l| l == line),
            "{name} is the job's: {seen}"
        );
    }
    let mut of = vec![pid().unwrap() as i32];
    of.extend(site.cluster.ps().iter().map(|p| p.pid));
    for pid in of {
        let env = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
        let env = String::from_utf8_lossy(&env).into_owned();
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        assert!(
            !env.contains("evil.so") && !maps.contains("evil.so"),
            "{pid}"
        );
    }
    // Nobody of that user looks into what supervises it.
    let shepherd = pid().unwrap();
    let look = Command::new("cat")
        .arg(format!("/proc/{shepherd}/environ"))
        .uid(site.alice.uid)
        .output()
        .unwrap();
    assert!(!look.status.success());
    site.ok(&site.alice, "ckill", &[&id.to_string()]);
}

fn texts_with_commands(site: &Site) {
    let home = site.home(&site.alice);
    let bad = home.join("pwned");
    let touch = format!("$(touch {0});`touch {0}`; touch {0}", bad.display());
    let out = home.join("$(touch pwned)%J");
    // A slash is no part of a job's name.
    let name = "$(touch pwned);`touch pwned`";
    let args = [
        "-J",
        name,
        "-Jd",
        &touch,
        "-o",
        out.to_str().unwrap(),
        "true",
    ];
    let id = site.csub(&site.alice, &args);
    assert_eq!(site.ended(id), "DONE");
    site.ok(&site.alice, "cpeek", &[&id.to_string()]);
    assert!(!bad.exists() && !Path::new("/pwned").exists());
    assert!(home.join(format!("$(touch pwned){id}")).exists());
}

/// One directory or file after the other is opened to everybody, and the path is named each time.
fn open_configuration(site: &Site) {
    let admin = &site.cluster_admin;
    let share = site.cluster.share();
    let conf = share.join("conf/cb.yaml");
    site.ok(admin, "cadmin", &["reconfig"]);
    for path in [&conf, &share.join("conf"), &share] {
        let before = std::fs::metadata(path).unwrap().mode() & 0o7777;
        open(path, before | 0o002);
        let out = site.run(admin, "cadmin", &["reconfig"]);
        let output = text(&out);
        open(path, before);
        assert!(!out.status.success(), "{}: {output}", path.display());
        assert!(output.contains(&format!("{}", path.display())), "{output}");
        assert!(output.contains("may write"), "{output}");
    }
    chown(&conf, Some(site.bob.uid), None).unwrap();
    let output = text(&site.run(admin, "cadmin", &["reconfig"]));
    chown(&conf, Some(site.service.uid), None).unwrap();
    assert!(
        output.contains(&format!("uid {}", site.bob.uid)),
        "{output}"
    );
    site.ok(admin, "cadmin", &["reconfig"]);
    // The same at the start of a daemon, for what sends it to the share.
    let etc = site.cluster.dir().join("etc/hosts/h1");
    open(&etc.join("cb.conf"), 0o646);
    for daemon in ["cbsched", "cbls", "cbexe"] {
        let program = Path::new(env!("CARGO_BIN_EXE_cb")).with_file_name(daemon);
        let out = Command::new(program)
            .env("CB_ENVDIR", &etc)
            .output()
            .unwrap();
        let output = text(&out);
        assert!(
            !out.status.success() && output.contains("cb.conf"),
            "{daemon}: {output}"
        );
    }
    open(&etc.join("cb.conf"), 0o644);
}

fn kills_its_shepherd(site: &Site) {
    let daemons: Vec<String> = site
        .cluster
        .ps()
        .iter()
        .map(|p| p.pid.to_string())
        .collect();
    let script = format!(
        "for p in $PPID {}; do kill -9 $p && echo killed $p; done; \
         kill -STOP $PPID && echo stopped; echo lives",
        daemons.join(" ")
    );
    let (state, wrote) = site.job(&site.alice, &[], &script);
    assert_eq!(state, "DONE");
    assert!(wrote.contains("lives"), "{wrote}");
    assert!(
        !wrote.contains("killed") && !wrote.contains("stopped"),
        "{wrote}"
    );
}

fn leaves_its_group(site: &Site) {
    let script = "for f in $(cut -d: -f3 /proc/self/cgroup | sort -u); do \
         find /sys/fs/cgroup -path \"*$f/cgroup.procs\" 2>/dev/null; done; \
         find /sys/fs/cgroup -maxdepth 2 -name cgroup.procs 2>/dev/null";
    let (_, places) = site.job(&site.alice, &[], script);
    let mut tried = 0;
    let mut script = String::new();
    for place in places.lines().filter(|l| l.starts_with("/sys/fs/cgroup")) {
        tried += 1;
        script += &format!("(echo $$ > {place}) 2>/dev/null && echo into {place}\n");
    }
    if tried == 0 {
        println!("  skipped: no control groups here");
        return;
    }
    script += "(mkdir /sys/fs/cgroup/mine) 2>/dev/null && echo made; echo tried";
    let (_, wrote) = site.job(&site.alice, &[], &script);
    assert_eq!(wrote.trim(), "tried");
}

/// Processes whose command line holds a mark.
fn marked(mark: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|e| std::fs::read(e.path().join("cmdline")).ok());
    let lines = lines.map(|l| String::from_utf8_lossy(&l).replace('\0', " "));
    lines
        .filter(|l| l.starts_with("sleep") && l.contains(mark))
        .count()
}

fn leaves_processes(site: &Site) {
    let script = "setsid sleep 60.0314 & (setsid nohup sleep 60.0314 >/dev/null 2>&1 &) & \
        (trap '' TERM INT HUP; sleep 60.0314 & sleep 60.0314) & sleep 0.3; exit 3";
    let (state, _) = site.job(&site.alice, &[], script);
    assert_eq!(state, "EXIT");
    site.until("nothing is left", || marked("60.0314") == 0);
}

fn forks_without_end(site: &Site) {
    let script = "i=0; while [ $i -lt 60 ]; do sleep 60.0315 & i=$((i+1)); done; sleep 60.0315";
    let out = site.home(&site.alice).join("forks");
    let limited = ["-p", "10", "-oo", out.to_str().unwrap(), script];
    let id = site.csub(&site.alice, &limited);
    let mut most = 0;
    site.until("the job runs into its limit", || {
        most = most.max(marked("60.0315"));
        let output = std::fs::read_to_string(&out).unwrap_or_default();
        let over = site
            .cluster
            .states()
            .get(&(id, 0))
            .is_some_and(|s| s == "EXIT");
        over || output.contains("fork")
    });
    assert!(most <= 10, "{most} processes");
    site.run(&site.alice, "ckill", &[&id.to_string()]); // unless it has ended
    site.ended(id);
    site.until("nothing is left", || marked("60.0315") == 0);
}

fn descriptors(site: &Site) {
    for options in [&[][..], &["-i", "/dev/null"], &["-n", "2"]] {
        let script = "for f in /proc/$$/fd/*; do echo ${f##*/}; done";
        let (_, wrote) = site.job(&site.alice, options, script);
        let open: Vec<&str> = wrote.lines().collect();
        // The shell's own list of the directory may be among them.
        assert!(
            open.starts_with(&["0", "1", "2"]) && open.len() <= 4,
            "{wrote}"
        );
        let locks = "cat /proc/locks | grep -c \" $$ \" ; true";
        let (_, wrote) = site.job(&site.alice, options, locks);
        assert_eq!(wrote.trim(), "0");
    }
}

fn root_submits(site: &Site) {
    let out = site.cluster.run("csub", &["-o", "/dev/null", "true"]);
    let output = text(&out);
    assert!(
        !out.status.success() && output.contains("allow_root_jobs"),
        "{output}"
    );
}

fn no_account(site: &Site) {
    let ghost = crate::security::Account {
        name: "nobody-at-all".into(),
        uid: 54_321,
    };
    let out = site.run(&ghost, "csub", &["-o", "/dev/null", "-cwd", "/", "true"]);
    let output = text(&out);
    assert!(
        !out.status.success() && output.contains("54321"),
        "{output}"
    );
    assert!(output.contains("no account"), "{output}");
}

fn default_output(site: &Site) {
    let id = site.csub(&site.alice, &["id -u"]);
    assert_eq!(site.ended(id), "DONE");
    let out = site
        .cluster
        .share()
        .join(format!("jobs/{}/{id}/0.out", id / 1000));
    let whose = |out: &Path| std::fs::metadata(out).map(|m| m.uid()).ok();
    assert_eq!(whose(&out), Some(site.alice.uid));
    // What cjobs does not show to others, the file does not either, nor other commands.
    let mode = std::fs::metadata(&out).map(|m| m.mode() & 0o777).ok();
    assert_eq!(mode, Some(0o600));
    for words in [
        ["cpeek", &id.to_string()][..].to_vec(),
        vec!["cadmin", "journal"],
    ] {
        let seen = site.run(&site.bob, words[0], &words[1..]);
        let output = text(&seen);
        assert_eq!(seen.status.code(), Some(3), "{words:?}: {output}");
        assert!(output.contains("your own jobs only"), "{output}");
    }
    let own = site.ok(&site.alice, "cadmin", &["journal", &id.to_string()]);
    assert!(own.contains(&format!("{id}")), "{own}");
    let silent = site.csub(&site.alice, &["true"]);
    site.ended(silent);
    let output = text(&site.run(&site.alice, "cpeek", &[&silent.to_string()]));
    assert!(output.contains("has written no output"), "{output}");
    site.ok(&site.alice, "crequeue", &["-d", &id.to_string()]);
    let attempt = ["-a", "-noheader", "-o", "attempt:", &id.to_string()];
    site.until("it runs again", || {
        site.ok(&site.alice, "cjobs", &attempt).trim() == "2"
    });
    let state = site.ended(id);
    let output = site.ok(&site.alice, "cjobs", &["-l", &id.to_string()]);
    assert_eq!(state, "DONE", "{output}\n{}", site.cluster.logs());
    assert_eq!(whose(&out), Some(site.alice.uid));
}
