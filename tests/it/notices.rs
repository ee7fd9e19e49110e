//! Alerts and mail of jobs: `cbnotify` beside a real leader, towards a webhook, a program and a
//! mail server of the test, which fail as long as they are told to.

use crate::cluster::{Cluster, build, kill_9, text};
use crate::patience::until_or;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What a server of the test has taken, and whether it refuses everything at present.
#[derive(Clone, Default)]
struct Sink {
    taken: Arc<Mutex<Vec<String>>>,
    refused: Arc<Mutex<Vec<String>>>,
    broken: Arc<AtomicBool>,
}

impl Sink {
    fn note(&self, what: String) -> bool {
        let broken = self.broken.load(Ordering::SeqCst);
        let list = if broken { &self.refused } else { &self.taken };
        list.lock().unwrap().push(what);
        !broken
    }

    fn all(&self) -> Vec<String> {
        self.taken.lock().unwrap().clone()
    }

    /// Serves each connection in a thread of its own; the port.
    fn serve(&self, one: fn(&Sink, TcpStream)) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let sink = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sink = sink.clone();
                std::thread::spawn(move || one(&sink, stream));
            }
        });
        port
    }
}

/// One POST: its body is noted.
fn http(sink: &Sink, stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
        let lower = line.to_ascii_lowercase();
        if let Some(n) = lower.strip_prefix("content-length:") {
            length = n.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let good = sink.note(String::from_utf8(body).unwrap());
    let status = if good { "204 No Content" } else { "500 Broken" };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let _ = (&stream).write_all(answer.as_bytes());
}

/// One SMTP session: the mail is noted with its receivers before it.
fn smtp(sink: &Sink, stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let say = |text: &str| drop((&stream).write_all(format!("{text}\r\n").as_bytes()));
    say("220 sink");
    let (mut line, mut mail) = (String::new(), String::new());
    while reader.read_line(&mut line).is_ok_and(|n| n > 0) {
        let word = line.to_ascii_uppercase();
        match word.split([' ', '\r']).next().unwrap_or_default() {
            "DATA" => {
                say("354 go on");
                loop {
                    line.clear();
                    if !reader.read_line(&mut line).is_ok_and(|n| n > 0) || line == ".\r\n" {
                        break;
                    }
                    mail.push_str(&line);
                }
                let good = sink.note(std::mem::take(&mut mail));
                say(if good { "250 taken" } else { "451 broken" });
            }
            "RCPT" => {
                mail.push_str(&line);
                say("250 yes");
            }
            "QUIT" => return say("221 bye"),
            _ => say("250 yes"),
        }
        line.clear();
    }
}

struct Bed {
    cluster: Cluster,
    hook: Sink,
    mail: Sink,
}

/// A cluster whose only alert fires while a job runs.
fn bed(options: &str) -> Bed {
    build("--bins");
    let cluster = Cluster::up(options);
    let (hook, mail) = (Sink::default(), Sink::default());
    let (http, smtp) = (hook.serve(http), mail.serve(smtp));
    let script = cluster.dir().join("tell");
    let out = cluster.dir().join("told");
    let lines = format!("#!/bin/sh\ncat >> {0}\necho >> {0}\n", out.display());
    std::fs::write(&script, lines).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    let path = cluster.share().join("conf/cb.yaml");
    let mut conf = std::fs::read_to_string(&path).unwrap();
    conf += &format!(
        "\nmail: {{smtp: '127.0.0.1:{smtp}', from: corral@x.org, domain: home.org}}\n\
         receivers:\n\
         - {{name: hook, webhook: 'http://127.0.0.1:{http}/secret'}}\n\
         - {{name: tell, program: {}}}\n\
         - {{name: ops, mail: [ops@x.org]}}\n\
         alerts:\n\
         - {{name: runs, watch: metric, metric: corral_jobs, match: {{state: run}}, over: 0, \
         to: [hook, tell, ops]}}\n\
         - {{name: idle, watch: no_open_hosts, to: hook}}\n",
        script.display()
    );
    std::fs::write(&path, conf).unwrap();
    cluster.ok("cadmin", &["reconfig"]);
    let bed = Bed {
        cluster,
        hook,
        mail,
    };
    // What happened before its first look is not told.
    bed.until("cbnotify looks", |bed| {
        let looks = bed.cluster.run("cadmin", &["alert", "list", "--json"]);
        looks.status.success() && bed.notifier().is_some()
    });
    bed
}

/// The newest epoch whose notifier has published.
fn newest_alerts(share: &Path) -> Option<String> {
    let names = std::fs::read_dir(share.join("notices")).ok()?.flatten();
    let names = names.filter_map(|e| e.file_name().into_string().ok());
    let epochs = names.filter_map(|name| {
        let epoch = name.strip_prefix("alerts.")?.split('.').next()?;
        epoch.parse::<u64>().ok()
    });
    epochs.max().map(|epoch| epoch.to_string())
}

impl Bed {
    /// Waits until `done`, and fails with what is known then.
    fn until(&self, what: &str, done: impl Fn(&Bed) -> bool) {
        let known = || {
            let list = text(&self.cluster.run("cadmin", &["alert", "list"]));
            let (hook, mail) = (self.hook.all(), self.mail.all());
            let logs = self.cluster.logs();
            format!("{what}\n{list}\nhook {hook:?}\nmail {mail:?}\n{logs}")
        };
        until_or(|| done(self), known);
    }

    /// Status and id of what the webhook was told of the alert `runs`.
    fn told(&self) -> Vec<(String, String)> {
        let all = self.hook.all().into_iter();
        let all = all.map(|body| serde_json::from_str::<Value>(&body).unwrap());
        all.filter(|message| message["rule"] == "runs")
            .map(|message| {
                let word = |key: &str| message[key].as_str().unwrap().to_owned();
                (word("status"), word("id"))
            })
            .collect()
    }

    /// The process of `cbnotify`, once it has published for the present epoch.
    fn notifier(&self) -> Option<i32> {
        let epoch = newest_alerts(&self.cluster.share())?;
        let leader = self.cluster.ps().into_iter().find(|p| p.leader)?.pid;
        let mine = |pid: &i32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = words.split(|b| *b == 0).collect();
            words[0].ends_with(b"/cbnotify") && words.get(2) == Some(&epoch.as_bytes())
        };
        // Each thread has its own list.
        let threads = std::fs::read_dir(format!("/proc/{leader}/task"))
            .ok()?
            .flatten();
        let lists = threads.map(|t| std::fs::read_to_string(t.path().join("children")));
        let lists: Vec<String> = lists.filter_map(Result::ok).collect();
        let children = lists.iter().flat_map(|list| list.split_whitespace());
        children.filter_map(|pid| pid.parse().ok()).find(mine)
    }

    /// Mails to an address whose text says this.
    fn mails(&self, to: &str, what: &str) -> Vec<String> {
        let to = format!("RCPT TO:<{to}>");
        let all = self.mail.all().into_iter();
        all.filter(|m| m.starts_with(&to) && m.contains(what))
            .collect()
    }

    fn listed(&self) -> Value {
        let output = self.cluster.ok("cadmin", &["alert", "list", "--json"]);
        serde_json::from_str(&output).unwrap()
    }

    fn statuses(&self) -> Vec<String> {
        self.told().into_iter().map(|(status, _)| status).collect()
    }
}

#[test]
fn an_alert_fires_and_recovers_once_by_each_way_and_a_job_is_mailed_about() {
    let bed = bed("--hosts 1 --slots 2 --masters 1");
    // Both servers are away at first.
    bed.hook.broken.store(true, Ordering::SeqCst);
    bed.mail.broken.store(true, Ordering::SeqCst);
    let cluster = &bed.cluster;
    let go = cluster.work().join("go");
    let wait = format!("until [ -e {} ]; do sleep 0.2; done; exit 3", go.display());
    let job = cluster.csub(&["-B", "-N", "-u", "ann@x.org", "-o", "/dev/null", &wait]);
    bed.until("refused", |bed| {
        !bed.hook.refused.lock().unwrap().is_empty() && !bed.mail.refused.lock().unwrap().is_empty()
    });
    let health = cluster.run("cinfo", &["-health"]);
    assert_eq!(health.status.code(), Some(1), "{}", text(&health));
    let output = text(&health);
    assert!(output.contains("warning runs queue="), "{output}");
    // What the server says may be read by everybody, the path of the URL may not.
    assert!(!output.contains("secret"), "{output}");
    bed.hook.broken.store(false, Ordering::SeqCst);
    bed.mail.broken.store(false, Ordering::SeqCst);
    bed.until("firing", |bed| bed.statuses() == ["firing"]);
    std::fs::write(&go, "").unwrap();
    bed.until("resolved", |bed| bed.statuses() == ["firing", "resolved"]);
    // The start, the end, and ops about both sides of the alert.
    bed.until("four mails", |bed| bed.mail.all().len() == 4);
    let mails = bed.mail.all();
    let to = |whom: &str| mails.iter().filter(|m| m.contains(whom)).count();
    assert_eq!(
        (to("RCPT TO:<ann@x.org>"), to("RCPT TO:<ops@x.org>")),
        (2, 2),
        "{mails:?}"
    );
    let title = format!("Subject: Job {job}: <until [ -e");
    assert!(mails.iter().any(|m| m.contains(&title)), "{mails:?}");
    assert!(
        mails
            .iter()
            .any(|m| m.contains(&format!("Job {job} ended with exit code 3."))),
        "{mails:?}"
    );
    let delivered = std::fs::read_to_string(cluster.dir().join("told")).unwrap();
    let statuses: Vec<Value> = delivered
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let statuses: Vec<&str> = statuses
        .iter()
        .map(|v| v["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["firing", "resolved"]);
    let listed = bed.listed();
    assert_eq!(listed["messages_lost"], 0, "{listed}");
}

/// The leader dies between firing and delivery; the one after it delivers, once, what was fired.
/// Messages are switched on by `cadmin reconfig`: of what happens from then on nothing is missing,
/// although cbnotify starts seconds later.
#[test]
fn what_happens_right_after_mail_was_switched_on_is_told() {
    build("--bins");
    let cluster = Cluster::up("--hosts 1 --slots 4 --masters 1");
    let mail = Sink::default();
    let smtp = mail.serve(smtp);
    let path = cluster.share().join("conf/cb.yaml");
    let mut conf = std::fs::read_to_string(&path).unwrap();
    conf +=
        &format!("\nmail: {{smtp: '127.0.0.1:{smtp}', from: corral@x.org, domain: home.org}}\n");
    std::fs::write(&path, conf).unwrap();
    let out = ["-o", "/dev/null", "-N", "-u", "ann@x.org"];
    let submit = |command: &str| {
        let words: Vec<&str> = out.iter().copied().chain([command]).collect();
        cluster.csub(&words)
    };
    let before = submit("exit 7");
    cluster.wait(|s| s.get(&(before, 0)).is_some_and(|s| s == "EXIT"));
    cluster.ok("cadmin", &["reconfig"]);
    let after = [submit("exit 4"), submit("exit 5")];
    let said = |job: u32| {
        let all = mail.all();
        let mine = format!("Job {job} ended with");
        all.iter().filter(|m| m.contains(&mine)).count()
    };
    until_or(
        || after.iter().all(|job| said(*job) > 0),
        || format!("{:?}\n{}", mail.all(), cluster.logs()),
    );
    assert_eq!(said(before), 0, "mail was off then");
}

#[test]
fn a_new_leader_delivers_what_the_old_one_fired_and_fires_nothing_again() {
    let bed = bed("--hosts 1 --slots 2 --masters 2");
    bed.hook.broken.store(true, Ordering::SeqCst);
    let cluster = &bed.cluster;
    let go = cluster.work().join("go");
    let wait = format!("until [ -e {} ]; do sleep 0.2; done", go.display());
    cluster.csub(&["-o", "/dev/null", &wait]);
    bed.until("refused", |bed| {
        !bed.hook.refused.lock().unwrap().is_empty()
    });
    let leader = cluster.leader();
    kill_9(leader.pid);
    assert_ne!(cluster.leader().pid, leader.pid);
    bed.hook.broken.store(false, Ordering::SeqCst);
    bed.until("firing", |bed| bed.statuses() == ["firing"]);
    let first = bed.hook.refused.lock().unwrap()[0].clone();
    let first: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(first["id"].as_str(), Some(bed.told()[0].1.as_str()));
    // The program was told by the first one, and is not told again.
    let delivered = || std::fs::read_to_string(cluster.dir().join("told")).unwrap_or_default();
    assert_eq!(
        delivered().matches("\"status\":\"firing\"").count(),
        1,
        "{}",
        delivered()
    );
    std::fs::write(&go, "").unwrap();
    bed.until("resolved", |bed| bed.statuses() == ["firing", "resolved"]);
    bed.until("the program, too", |_| {
        delivered().matches("\"status\":\"resolved\"").count() == 1
    });
    assert_eq!(
        delivered().matches("\"status\":\"firing\"").count(),
        1,
        "{}",
        delivered()
    );
}

#[test]
fn a_silence_keeps_messages_back_and_csub_says_where_no_mail_is_sent() {
    let cluster = Cluster::up("--hosts 1 --slots 1 --masters 1");
    let out = cluster.run("csub", &["-N", "-o", "/dev/null", "true"]);
    assert!(
        text(&out).contains("-N has no effect here: no mail is sent"),
        "{}",
        text(&out)
    );
    drop(cluster);
    let bed = bed("--hosts 1 --slots 2 --masters 1");
    let silence = [
        "alert",
        "silence",
        "runs",
        "--for",
        "1h",
        "--because",
        "a test",
    ];
    let output = bed.cluster.ok("cadmin", &silence);
    assert!(output.contains("Alert <runs> is silenced"), "{output}");
    bed.until("silenced", |bed| {
        bed.listed()["silences"][0]["because"] == "a test"
    });
    let out = bed.cluster.run(
        "cadmin",
        &["alert", "silence", "run", "--for", "1h", "--because", "x"],
    );
    assert!(text(&out).contains("No such alert"), "{}", text(&out));
    let out = bed
        .cluster
        .run("csub", &["-N", "-u", "not an address@", "true"]);
    assert!(
        text(&out).contains("is neither a mail address"),
        "{}",
        text(&out)
    );
    bed.cluster.csub(&["-o", "/dev/null", "sleep 600"]);
    bed.until("it fires", |bed| {
        bed.listed()["alerts"][0]["state"] == "silenced"
    });
    assert_eq!(bed.listed()["alerts"][0]["announced"], false);
    let health = bed.cluster.run("cinfo", &["-health"]);
    assert!(text(&health).contains("silenced"), "{}", text(&health));
    assert!(bed.hook.all().is_empty());
    bed.cluster.ok("cadmin", &["alert", "unsilence", "runs"]);
    bed.until("told", |bed| bed.statuses() == ["firing"]);
}

/// Mail about jobs comes once each, whoever dies between: `cbnotify` when it is idle and when it
/// could not send, and the leader.
#[test]
fn each_mail_about_a_job_comes_once_over_deaths_of_cbnotify_and_of_the_leader() {
    let bed = bed("--hosts 1 --slots 4 --masters 2");
    let cluster = &bed.cluster;
    let go = cluster.work().join("go");
    let wait = format!("until [ -e {} ]; do sleep 0.2; done; exit 3", go.display());
    let out = ["-o", "/dev/null"];
    let with = |more: &[&str], command: &str| {
        let words: Vec<&str> = out.iter().chain(more).copied().chain([command]).collect();
        cluster.csub(&words)
    };
    let both = with(&["-B", "-N", "-u", "ann@x.org"], &wait);
    let begun = format!("Job {both} started at");
    bed.until("the start", |bed| bed.mails("ann@x.org", &begun).len() == 1);
    // The one that has sent it dies.
    let first = bed.notifier().unwrap();
    kill_9(first);
    bed.until("another cbnotify", |bed| {
        bed.notifier().is_some_and(|pid| pid != first)
    });
    // The end is known and cannot be sent: this one dies, and the leader with the one after it.
    bed.mail.broken.store(true, Ordering::SeqCst);
    std::fs::write(&go, "").unwrap();
    let ended = format!("Job {both} ended with exit code 3.");
    let refused = |n: usize| {
        move |bed: &Bed| {
            let refused = bed.mail.refused.lock().unwrap();
            refused.iter().filter(|m| m.contains(&ended)).count() >= n
        }
    };
    bed.until("refused", refused.clone()(1));
    let second = bed.notifier().unwrap();
    kill_9(second);
    bed.until("a third cbnotify", |bed| {
        bed.notifier().is_some_and(|pid| pid != second)
    });
    let leader = cluster.leader();
    kill_9(leader.pid);
    assert_ne!(cluster.leader().pid, leader.pid);
    bed.mail.broken.store(false, Ordering::SeqCst);
    bed.until("the end", |bed| {
        bed.mails("ann@x.org", "ended with").len() == 1
    });
    let report = bed.mails("ann@x.org", "Resources used:");
    let says = |what: &str| report.iter().all(|m| m.contains(what));
    assert!(
        report.len() == 1 && says("CPU time:") && says("Its output is in /dev/null"),
        "{report:?}"
    );
    let tried = bed.mail.refused.lock().unwrap().clone();
    let ids = |all: &[String]| -> Vec<String> {
        let ids = all.iter().filter(|m| m.contains("ended with exit code 3"));
        let line = |m: &String| {
            m.lines()
                .find(|l| l.starts_with("Message-ID:"))
                .map(str::to_owned)
        };
        let mut ids: Vec<String> = ids.filter_map(line).collect();
        ids.dedup();
        ids
    };
    assert_eq!(ids(&tried), ids(&report), "a repetition has the same id");

    // Later jobs: what was said is not said again.
    with(&["-Ne", "-u", "bob@x.org"], "true");
    with(&["-Ne", "-u", "bob@x.org"], "exit 4");
    with(&["-notify", "start", "-u", "eve@x.org"], "exit 5");
    with(&["-N"], "exit 6");
    let me = nix::unistd::User::from_uid(nix::unistd::getuid());
    let me = format!("{}@home.org", me.unwrap().unwrap().name);
    bed.until("the last one", |bed| {
        bed.mails(&me, "exit code 6").len() == 1
            && !bed.mails("eve@x.org", "started at").is_empty()
            && !bed.mails("bob@x.org", "").is_empty()
    });
    let n = |to: &str| bed.mails(to, "").len();
    assert_eq!(
        (n("ann@x.org"), n("bob@x.org"), n("eve@x.org"), n(&me)),
        (2, 1, 1, 1),
        "{:?}",
        bed.mail.all()
    );
    assert_eq!(bed.mails("bob@x.org", "exit code 4").len(), 1);
}
