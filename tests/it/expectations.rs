//! Expectations of docs/expectations.md that no other test shows: a pipe that closes under a long
//! list, what a list of one's own jobs costs among many, colours, wide letters, thirty broken
//! cb.yaml.

use crate::patience::until;
use corral::model::{JobKey, JobStat, Spec};
use corral::record::frame;
use corral::record::header::{FileKind, Header};
use corral::record::view::{self, JobRow, Manifest, Params, Row, ShardInfo};
use serde::Serialize;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Jobs of one shard of the view.
const SHARD: u32 = view::SHARD_JOBS;
const MANY: u32 = 100_000;
const OTHERS: u32 = 4711;

/// The published view of a cluster that has stopped: many jobs of another user, ten of this one.
struct Share {
    dir: tempfile::TempDir,
    /// Of each job; empty: one of its own.
    name: &'static str,
}

impl Share {
    fn of(jobs: u32) -> Share {
        Share::named(jobs, "")
    }

    fn named(jobs: u32, name: &'static str) -> Share {
        let dir = tempfile::tempdir().expect("a directory");
        let share = Share { dir, name };
        let path = share.dir.path();
        std::fs::create_dir_all(path.join("share/view")).expect("it is made");
        let conf = format!("CB_SHARE={}\nCB_HOST=h1\n", path.join("share").display());
        std::fs::write(path.join("cb.conf"), conf).expect("it is written");
        let me = corral::sys::users::effective_uid();
        let cluster = format!(
            "{{\"format\":1,\"cluster\":\"c\",\"name\":\"c1\",\"service_uid\":{me},\"service_gid\":0}}"
        );
        std::fs::write(path.join("share/cluster"), cluster).expect("it is written");
        let params = Params {
            cluster: "c1".into(),
            view_all_jobs: true,
            ..Params::default()
        };
        share.put(view::PARAMS, &[params]);
        let mut shards = Vec::new();
        for n in 0..jobs.div_ceil(SHARD) {
            let from = n * SHARD + 1;
            let of_others: Vec<u32> = (from..=jobs.min(from + SHARD - 1)).collect();
            shards.push(share.shard(n, &of_others, OTHERS));
        }
        let own: Vec<u32> = (jobs + SHARD..jobs + SHARD + 10).collect();
        shards.push(share.shard(jobs / SHARD + 2, &own, me));
        let manifest = Manifest {
            epoch: 1,
            shards,
            ..Manifest::default()
        };
        share.put(view::MANIFEST, &[manifest]);
        share
    }

    fn shard(&self, n: u32, ids: &[u32], uid: u32) -> ShardInfo {
        let spec = Spec {
            uid,
            user: format!("u{uid}"),
            queue: "normal".into(),
            sub_host: "h1".into(),
            min: 1,
            max: 1,
            ..Spec::default()
        };
        let spec = Row::Spec {
            id: n + 1,
            spec: Box::new(spec),
        };
        let job = |id: &u32| {
            Row::Job(Box::new(JobRow {
                j: JobKey::job(*id),
                s: n + 1,
                stat: JobStat::Pend,
                submit: 1_795_230_000_000,
                name: match self.name {
                    "" => format!("job{id}").into(),
                    name => name.into(),
                },
                command: "true".into(),
                ..JobRow::default()
            }))
        };
        let rows: Vec<Row<'_>> = std::iter::once(spec).chain(ids.iter().map(job)).collect();
        let file = format!("j{n}");
        self.put(&file, &rows);
        ShardInfo {
            file,
            min: ids.first().copied().unwrap_or(0),
            max: ids.last().copied().unwrap_or(0),
            live: ids.len() as u32,
            finished: 0,
            uids: vec![uid],
        }
    }

    fn put<T: Serialize>(&self, name: &str, rows: &[T]) {
        let mut out = Vec::new();
        frame::write(&mut out, 0, &Header::new(FileKind::View, "c", 1, 0)).expect("plain data");
        for (n, row) in rows.iter().enumerate() {
            frame::write(&mut out, n as u64 + 1, row).expect("plain data");
        }
        let path = self.dir.path().join("share/view").join(name);
        std::fs::write(path, out).expect("it is written");
    }

    fn cjobs(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cb"));
        command.arg("cjobs").args(args);
        command.env("CB_ENVDIR", self.dir.path()).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        command
    }

    /// Lists jobs, which are so many; `best` is how long that took at best.
    fn listed(&self, args: &[&str], due: usize, best: &mut Duration) {
        let began = Instant::now();
        let out = self.cjobs(args).output().expect("cb runs");
        *best = began.elapsed().min(*best);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{args:?}: {stderr}");
        let lines = out.stdout.iter().filter(|b| **b == b'\n').count();
        assert_eq!(lines, due, "{args:?}");
    }
}

#[test]
fn a_reader_that_goes_ends_a_list_of_100_000_jobs_silently() {
    let share = Share::of(MANY);
    let mut child = share.cjobs(&["-a", "-u", "all"]).spawn().expect("cb runs");
    let mut out = child.stdout.take().expect("a pipe");
    let mut first = [0; 80];
    out.read_exact(&mut first).expect("a line comes");
    assert!(first.starts_with(b"JOBID"), "{first:?}");
    drop(out);
    let end = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&end.stderr).into_owned();
    assert_eq!(stderr, "");
    use std::os::unix::process::ExitStatusExt as _;
    let silent = end.status.success() || end.status.signal() == Some(libc::SIGPIPE);
    assert!(silent, "{:?}", end.status);
}

/// At a terminal there are colours, unless it says NO_COLOR; in a pipe there are none.
#[test]
fn colours_are_for_terminals_only() {
    let share = Share::of(3);
    let line = format!("{} cjobs -u all", env!("CARGO_BIN_EXE_cb"));
    let at_terminal = |no_color: &str| {
        // script(1) runs it at a terminal of its own.
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]);
        command
            .env("CB_ENVDIR", share.dir.path())
            .env("TERM", "xterm");
        command.env("NO_COLOR", no_color).stdin(Stdio::null());
        let out = command.output().expect("script(1) runs");
        let stdout = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(stdout.contains("job1"), "{stdout}");
        stdout
    };
    assert!(at_terminal("").contains('\u{1b}'));
    assert!(!at_terminal("1").contains('\u{1b}'));
    let out = share.cjobs(&["-u", "all"]).output().expect("cb runs");
    assert!(!out.stdout.contains(&0x1b), "{out:?}");
}

/// Columns end where they would with narrow letters.
#[test]
fn names_in_chinese_keep_columns_straight() {
    let share = Share::named(1, "\u{4f5c}\u{4e1a}\u{4e00}");
    let out = share.cjobs(&["-w", "-u", "all"]).output().expect("cb runs");
    let stdout = String::from_utf8(out.stdout).expect("UTF-8");
    let lines: Vec<&str> = stdout.lines().collect();
    let column = |line: &str, word: &str| {
        let at = line.find(word).expect(word);
        corral::text::width::width(&line[..at])
    };
    let title = column(lines[0], "SUBMIT_TIME");
    let moment = lines[1]
        .rsplit_once("  ")
        .map_or(0, |_| column(lines[1], "Nov"));
    assert_eq!(moment, title, "{stdout}");
    let out = share
        .cjobs(&["--json", "-u", "all"])
        .output()
        .expect("cb runs");
    let stdout = String::from_utf8(out.stdout).expect("UTF-8");
    assert!(stdout.contains("\u{4f5c}\u{4e1a}\u{4e00}"), "{stdout}");
}

/// Not by the clock: a machine may be slow, or busy for a while. Only the shards with one's own jobs
/// are read.
#[test]
fn a_list_of_ten_own_jobs_costs_a_small_part_of_one_of_all() {
    let share = Share::of(MANY);
    let few = Share::of(SHARD);
    let [mut of_all, mut of_own, mut of_few] = [Duration::MAX; 3];
    until("ten own jobs cost less", || {
        let all = ["-noheader", "-a", "-u", "all"];
        share.listed(&all, MANY as usize + 10, &mut of_all);
        share.listed(&["-noheader"], 10, &mut of_own);
        few.listed(&["-noheader"], 10, &mut of_few);
        println!("{of_own:?} for 10 among many, {of_few:?} among few, {of_all:?} for all");
        // Starting a process is most of it.
        let most = of_few * 4 + Duration::from_millis(20);
        of_own * 4 < of_all && of_own < most
    });
}

/// What follows a good beginning of cb.yaml.
const BROKEN: [&str; 30] = [
    "queues:\n- {name: q, slotz: 3}\n",
    "queues:\n- {name: q, slots: -1}\n",
    "queues:\n- {name: q, slots: many}\n",
    "queues:\n- {name: q, hosts: nowhere}\n",
    "queues:\n- {name: q, users: '~'}\n",
    "queues:\n- {name: q}\n- {name: q}\n",
    "queues:\n- {priority: 3}\n",
    "queues:\n- {name: 'a b'}\n",
    "queues:\n- {name: q, priority: high}\n",
    "queues:\n- {name: q, backfill: some}\n",
    "queues:\n- {name: q, run_limit: forever}\n",
    "queues:\n- {name: q, dispatch_window: '25:00-26:00'}\n",
    "queues:\n- {name: q, res_req: 'select[mem>'}\n",
    "queues:\n- {name: q, fairshare: '[u1'}\n",
    "queues:\n- {name: q, preemption: {preempt: nowhere}}\n",
    "queues:\n- {name: q, thresholds: {mem: '1/2'}}\n",
    "queues:\n\t- {name: q}\n",
    "queues: [\n",
    "queues: &a [*a]\n",
    "queues: !!python/object:os.system [x]\n",
    "queues: q\n",
    "quues:\n- {name: q}\n",
    "usergroups:\n- {name: g1, members: g2}\n- {name: g2, members: g1}\n",
    "hostgroups:\n- {name: g, members: nowhere}\n",
    "hosts:\n- {name: h1, slots: x}\n",
    "hosts:\n- {name: h1}\n- {name: h1}\n",
    "general: {default_queue: nosuch}\n",
    "general: {clean_period: soon}\n",
    "limits:\n- {name: l, slots: 3, per_hosts: all}\n",
    "limits:\n- {name: l, queues: nosuch, jobs: 1}\n",
];

fn ckconfig(path: &Path) -> (Option<i32>, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_cb"))
        .args(["cadmin", "ckconfig"])
        .arg(path)
        .output();
    let out = out.expect("cb runs");
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    (
        out.status.code(),
        stderr + &String::from_utf8_lossy(&out.stdout),
    )
}

/// `cb.yaml:6:3: `, a line of the file and a caret below it.
fn has_place_line_and_caret(output: &str) -> bool {
    let place = output.split("cb.yaml:").nth(1).is_some_and(|rest| {
        let mut parts = rest.split(':');
        let mut number = || {
            let part = parts.next().unwrap_or_default();
            part.parse::<u32>().is_ok_and(|n| n > 0)
        };
        number() && number()
    });
    let caret = output.lines().any(|line| {
        let mark = line.trim_start().strip_prefix('|').unwrap_or_default();
        mark.trim().starts_with('^')
    });
    place && caret
}

#[test]
fn thirty_broken_configurations_are_named_by_place_line_and_caret() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("cb.yaml");
    let good = "cluster: {name: c, administrators: root}\n";
    let mut wrong = Vec::new();
    for bad in BROKEN {
        let queues = match bad.contains("queues:\n") || bad.starts_with('q') {
            true => "",
            false => "queues:\n- {name: q}\n",
        };
        std::fs::write(&path, format!("{good}{queues}{bad}")).expect("it is written");
        let (code, output) = ckconfig(&path);
        if code != Some(2) || !has_place_line_and_caret(&output) {
            wrong.push(format!("{bad:?}: {code:?}: {output}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // All that is wrong is said in one run.
    let three = "queues:\n- {name: q, slotz: 3}\n- {name: r, nice: x}\n- {name: s, hosts: away}\n";
    std::fs::write(&path, format!("{good}{three}")).expect("it is written");
    let (code, output) = ckconfig(&path);
    let named = ["slotz", "nice", "away"].iter().all(|w| output.contains(w));
    assert!(code == Some(2) && named, "{output}");
    assert!(output.contains("did you mean slots?"), "{output}");
}
