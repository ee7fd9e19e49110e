//! `csub --dry-run`: shows how the request was interpreted and what is known about its chances.
//! Sends nothing.
//!
//! Owns the output. The checks are the leader's own (`intake`), with cb.yaml on the share and the
//! published view; whether the job would start is found out by submitting it to a copy of the
//! cluster. What only the leader can check is listed as not checked.

mod trial;

use super::options::JobOptions;
use super::spec;
use crate::client::cluster_copy::{self, TrialResult};
use crate::client::env::Site;
use crate::client::exit::{Exit, Fail, Result};
use crate::client::read::{self, Source, os_groups};
use crate::config::template::VARIABLE;
use crate::config::{self, Config, require};
use crate::intake::{self, NameBudget, Requester};
use crate::language::{tell, translated};
use crate::model::{Session, Spec, Stamp, Submission, Terminal};
use crate::record::byte_text::ByteText;
use crate::record::host_status::HostStatus;
use crate::record::request::RequestHead;
use crate::record::view::{HostRow, Params, QueueRow};
use crate::show::cell::Object;
use crate::show::host_select;
use crate::state::State;
use crate::sys;
use crate::text::resreq::{Select, Span};
use crate::text::width::{escape, pad_right};
use std::fmt::Write as _;

/// Maximum number of hosts that are listed in the text; JSON lists all.
const HOSTS_SHOWN: usize = 10;
/// What only the leader can check.
const LEADER_ALONE: &str = "only the leader checks the jobs that -w names and numbers of pending \
                            jobs";
/// There is no estimate for a job that does not exist.
const NO_ESTIMATE: &str = "not known: the leader estimates it for jobs that wait (cjobs -l), and \
                           cbsim when predicts it";

/// Data about the cluster, read once.
pub(super) struct Cluster {
    params: Params,
    queues: Vec<QueueRow>,
    hosts: Vec<HostRow>,
    config: Config,
}

/// A matching host, with its free slots.
#[derive(Clone, PartialEq, Eq, Debug)]
struct FreeHost {
    host: String,
    free: u32,
}

/// How the hosts of a queue match a request.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct HostMatch {
    /// Numbers of hosts: those of the queue; of these, the ones that -m selects; of these, the ones
    /// with the type of the submission host (if it matters) that satisfy `select[]`.
    in_queue: usize,
    requested: usize,
    selected: usize,
    /// The hosts counted last that are in state `ok` with free slots, the most free slots first.
    ready: Vec<FreeHost>,
    /// The requirement has sections or alternatives: `select[]` was not evaluated.
    not_evaluated: bool,
    /// Enough slots are free; on a single host if all must be on one host.
    enough: bool,
}

/// The result of the checks.
struct Verdict {
    /// In the form that the leader would store; as requested if it is refused.
    spec: Spec,
    default_queue: bool,
    refused: Option<Fail>,
    hosts: Option<HostMatch>,
    /// Why jobs of the queue do not start now.
    blocked_by: Option<&'static str>,
    /// The result of the submission to a copy of the cluster.
    tried: Option<TrialResult>,
}

/// Whether the options request a dry run.
pub(super) fn is_requested(options: &JobOptions) -> Result<bool> {
    let dry = options.has("dry-run");
    match options.has("jsonl") && !dry {
        true => Err(Fail::usage("-jsonl (--json) is an option of -dry-run")),
        false => Ok(dry),
    }
}

/// The session of an interactive job in a dry run: no connection is expected.
pub(super) fn session(terminal: Terminal) -> Box<Session> {
    Box::new(Session {
        terminal,
        ..Session::default()
    })
}

/// What is known about the chances of a request, and whether it would be refused.
pub(super) struct DryRunResult {
    pub text: String,
    refused: Option<Fail>,
    /// cb.yaml on the share differs from the one that the leader uses.
    config_differs: bool,
}

/// Determines what would be submitted.
///
/// # Errors
/// cb.yaml or the view cannot be read.
pub(super) fn result(
    site: &Site,
    job: &Submission,
    head: &RequestHead,
    (now_ms, json): (i64, bool),
) -> Result<DryRunResult> {
    let source = Source::of("csub", site.clone());
    let cluster = Cluster::read(&source)?;
    let who = Requester {
        uid: source.me.uid,
        user: source.me.name.clone(),
        groups: os_groups(&source.me.name),
    };
    let mut verdict = cluster.check(job, &who, Stamp(now_ms));
    if verdict.refused.is_none() {
        let mut copy = cluster_copy::read(&source, &cluster.params, Stamp(now_ms))?;
        copy.note_groups(&who.user, &who.groups);
        verdict.try_on(&mut copy, job);
    }
    Ok(DryRunResult {
        text: match json {
            true => json_text(job, head, &verdict),
            false => text(job, head, &verdict),
        },
        config_differs: cluster.config.digest() != cluster.params.config_digest,
        refused: verdict.refused,
    })
}

/// Prints what would be submitted; returns the exit code that csub would have for a refusal.
pub(super) fn run(
    site: &Site,
    job: &Submission,
    head: &RequestHead,
    how: (i64, bool),
) -> Result<i32> {
    let answer = result(site, job, head, how)?;
    read::put(&answer.text)?;
    if answer.config_differs {
        tell!(
            "csub: warning: cb.yaml on the share is not what the leader uses: it was changed \
             since, or is refused"
        );
    }
    match answer.refused {
        Some(fail) => Err(fail),
        None => Ok(Exit::Ok.code()),
    }
}

impl Cluster {
    fn read(source: &Source) -> Result<Cluster> {
        let path = source.layout.config();
        let bytes = sys::fs::read_small(&path, config::MAX_BYTES as u64)?;
        let os = config::OsNames {
            user: &|name| sys::users::by_name(name).is_some(),
            group: &|name| sys::users::group_by_name(name).is_some(),
        };
        let loaded = config::load(&bytes, &path.display().to_string(), &os);
        let loaded = loaded.map_err(|_| {
            Fail::system(format!(
                "-dry-run: {} has problems, so nothing can be checked with it\nhint: cadmin \
                 ckconfig",
                path.display()
            ))
        })?;
        Ok(Cluster {
            params: source.params()?,
            queues: source.counted_queues()?,
            hosts: source.counted_hosts()?,
            config: loaded.config,
        })
    }

    fn queue(&self, name: &str) -> Option<&QueueRow> {
        self.queues.iter().find(|q| q.name == name)
    }

    /// Whether the leader has closed the queue.
    fn is_closed(&self, name: &str) -> bool {
        self.queue(name).is_some_and(|q| !q.open)
    }

    /// The leader's checks that do not need its state.
    fn check(&self, job: &Submission, requester: &Requester, now: Stamp) -> Verdict {
        let mut submission = job.clone();
        // The leader checks the jobs in it.
        let depend = std::mem::take(&mut submission.spec.depend);
        let default_queue = submission.spec.queue.trim().is_empty();
        let refused = |spec: &Spec, fail: Fail| Verdict {
            spec: Spec {
                depend: depend.clone(),
                ..spec.clone()
            },
            default_queue,
            refused: Some(fail),
            hosts: None,
            blocked_by: None,
            tried: None,
        };
        match self.open_queues(&submission.spec.queue) {
            Ok(open) => submission.spec.queue = open,
            Err(fail) => return refused(&job.spec, fail),
        }
        let room = &mut NameBudget::default();
        let admitted = intake::admit(
            submission,
            requester,
            &self.config,
            &State::new(),
            now,
            room,
        );
        let mut spec = match admitted {
            Ok(admitted) => admitted.spec,
            Err(e) => return refused(&job.spec, Fail::new(Exit::of(e.code), e.text)),
        };
        let matched = match self.match_hosts(&spec) {
            Ok(matched) => matched,
            Err(why) => return refused(&spec, Fail::usage(why)),
        };
        spec.depend = depend;
        let blocked_by = self.queue(&spec.queue).and_then(|q| match q {
            q if !q.active => Some("the queue is inactive"),
            q if q.window_closed => Some("the queue's window is closed"),
            _ => None,
        });
        Verdict {
            default_queue,
            refused: None,
            hosts: Some(matched),
            blocked_by,
            tried: None,
            spec,
        }
    }

    /// The candidates of -q, or the default queues, except those that are closed.
    fn open_queues(&self, requested: &str) -> Result<String> {
        let candidates: Vec<&str> = match requested.trim() {
            "" => {
                let names = self.config.general.default_queue.iter();
                names.map(String::as_str).collect()
            }
            names => names.split_whitespace().collect(),
        };
        let open = candidates.iter().filter(|name| !self.is_closed(name));
        let open: Vec<&str> = open.copied().collect();
        match (open.is_empty(), candidates.first()) {
            (true, Some(name)) => Err(Fail::refused(format!("queue {name} is closed"))),
            _ => Ok(open.join(" ")),
        }
    }

    /// Counts the matching hosts of the queue.
    fn match_hosts(&self, spec: &Spec) -> std::result::Result<HostMatch, String> {
        let queue = self.queue(&spec.queue);
        let prefs = require::requested_hosts(&spec.hosts, &self.config)?;
        let of_queue = self.config.queue(&spec.queue);
        let defaults = of_queue.and_then(|q| q.res_req.as_deref());
        let request = require::Request::new(spec, defaults, &self.config)?;
        let simple = request.req.simple();
        let select = simple.and_then(|s| s.select.as_ref());
        let any_type = select.is_some_and(Select::mentions_text_or_tag);
        let local = self.hosts.iter().find(|h| h.name == spec.sub_host);
        let of_type =
            |h: &HostRow| any_type || local.is_none_or(|local| local.host_type == h.host_type);
        let mut matched = HostMatch {
            not_evaluated: simple.is_none() && !request.req.is_empty(),
            ..HostMatch::default()
        };
        for h in &self.hosts {
            if !queue.is_some_and(|q| q.hosts.contains(&h.name)) {
                continue;
            }
            matched.in_queue += 1;
            let named = prefs.as_ref();
            if named.is_some_and(|prefs| prefs.preference(&h.name).is_none()) {
                continue;
            }
            matched.requested += 1;
            if !of_type(h) || select.is_some_and(|select| !host_select::fits(h, select)) {
                continue;
            }
            matched.selected += 1;
            let free = h.slots.saturating_sub(h.njobs);
            if h.status == HostStatus::Ok && free > 0 && (!spec.exclusive || h.njobs == 0) {
                let host = h.name.clone();
                matched.ready.push(FreeHost { host, free });
            }
        }
        matched
            .ready
            .sort_by_key(|host| std::cmp::Reverse(host.free));
        let one_host = matches!(
            simple.and_then(|s| s.span.as_ref()),
            Some(Span::Hosts { max: 1, .. })
        );
        let free = matched.ready.iter().map(|host| host.free);
        let free = match one_host {
            true => free.max().unwrap_or_default(),
            false => free.fold(0, u32::saturating_add),
        };
        matched.enough = free >= spec.min.max(1);
        Ok(matched)
    }
}

/// A line of the page, in the language of the process.
macro_rules! line {
    ($out:expr, $($what:tt)*) => {
        // Writing to a string cannot fail.
        let _ = writeln!($out, "{}", translated(&format!($($what)*)));
    };
}

/// The request, one line for each specified item: title, value.
fn lines(job: &Submission, head: &RequestHead, verdict: &Verdict) -> Vec<(&'static str, String)> {
    let spec = &verdict.spec;
    let mut out = vec![("command", job.command.clone())];
    let mut some = |title: &'static str, value: &str| {
        if !value.is_empty() {
            out.push((title, value.to_owned()));
        }
    };
    some("name", &job.name);
    some("array", &array(job));
    let by_default = match verdict.default_queue {
        true => format!(" {}", translated("(default)")),
        false => String::new(),
    };
    some("queue", &format!("{}{by_default}", spec.queue));
    some("application", &spec.app);
    some("project", &spec.project);
    some("user group", &spec.user_group);
    some("job group", &spec.job_group);
    some("slots", &slots(spec));
    let exclusive = if spec.exclusive {
        translated("yes")
    } else {
        "".into()
    };
    some("exclusive", &exclusive);
    some("hosts", &spec.hosts);
    let held_until = if job.hold {
        translated("yes, until cresume")
    } else {
        "".into()
    };
    some("held", &held_until);
    some("input", &spec.stdin);
    some("output", &spec.stdout);
    some("error output", &spec.stderr);
    for file in &spec.files {
        some(
            "file",
            &format!("{} {} {}", file.local, file.operator(), file.remote),
        );
    }
    let spooled = |what: &ByteText| match what.len() {
        0 => String::new(),
        n => translated(&format!("{n} bytes")).into_owned(),
    };
    some("script", &spooled(&head.script));
    some("copied input", &spooled(&head.stdin));
    some(
        "environment",
        &translated(&format!("{} variables", head.env.len())),
    );
    for (name, value) in &head.env {
        if let Some(name) = name.strip_prefix(VARIABLE) {
            some("parameter", &format!("{name} = {value}"));
        }
    }
    out
}

fn array(job: &Submission) -> String {
    match (job.array.as_str(), job.array_limit) {
        ("", _) => String::new(),
        (set, 0) => set.to_owned(),
        (set, limit) => format!("{set}, {}", translated(&format!("{limit} at a time"))),
    }
}

fn slots(spec: &Spec) -> String {
    match (spec.min, spec.max) {
        (0, 0) => String::new(),
        (min, max) if max <= min => min.to_string(),
        (min, max) => translated(&format!("{min} to {max}")).into_owned(),
    }
}

fn text(job: &Submission, head: &RequestHead, verdict: &Verdict) -> String {
    let mut out = String::new();
    line!(out, "Nothing was submitted. The job as interpreted:");
    for (title, value) in lines(job, head, verdict) {
        let title = pad_right(&translated(title), 18);
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {title} {}", escape(&value));
    }
    for line in spec::interpretation(&verdict.spec) {
        let _ = writeln!(out, "  {}", escape(&line));
    }
    let Some(matched) = &verdict.hosts else {
        return out;
    };
    let queue = escape(&verdict.spec.queue);
    line!(out, "Queue {queue} accepts it.");
    line!(
        out,
        "Hosts of the queue: {}; of these selected by -m: {}; satisfying select[]: {}{}",
        matched.in_queue,
        matched.requested,
        matched.selected,
        if matched.not_evaluated {
            " (sections and alternatives are not evaluated here)"
        } else {
            ""
        }
    );
    let shown = matched.ready.iter().take(HOSTS_SHOWN);
    let shown: Vec<String> = shown.map(|p| format!("{} ({})", p.host, p.free)).collect();
    let more = match matched.ready.len().saturating_sub(HOSTS_SHOWN) {
        0 => String::new(),
        n => format!(" {}", translated(&format!("and {n} more"))),
    };
    let shown = match shown.is_empty() {
        true => translated("none").into_owned(),
        false => shown.join(" ") + &more,
    };
    line!(out, "Hosts that fit now (free slots): {}", escape(&shown));
    let enough = if matched.enough { "yes" } else { "no" };
    line!(out, "Enough slots are free now: {enough}");
    if let Some(why) = verdict.blocked_by {
        line!(out, "Jobs do not start now: {why}");
    }
    if let Some(start) = verdict.start() {
        let start = translated(&start);
        if verdict.spec.depend.is_empty() && !job.hold {
            line!(out, "Tried on a copy of the cluster: {start}");
        } else {
            line!(
                out,
                "Tried on a copy of the cluster without -w and -H: {start}"
            );
        }
    }
    line!(out, "Estimated start: {NO_ESTIMATE}");
    line!(out, "Not checked: {LEADER_ALONE}");
    out
}

fn json_text(job: &Submission, head: &RequestHead, verdict: &Verdict) -> String {
    let spec = &verdict.spec;
    let mut out = String::new();
    let mut o = Object::begin(&mut out);
    o.flag("accepted", verdict.refused.is_none());
    let why = verdict.refused.as_ref().map_or("", |fail| &fail.text);
    o.some_text("refused", why);
    o.text("command", &job.command);
    o.some_text("name", &job.name);
    o.some_text("array", &job.array);
    o.opt(
        "array_limit",
        (job.array_limit > 0).then_some(job.array_limit),
    );
    o.some_text("queue", &spec.queue);
    o.flag("default_queue", verdict.default_queue);
    o.some_text("app", &spec.app);
    o.some_text("project", &spec.project);
    o.some_text("user_group", &spec.user_group);
    o.some_text("job_group", &spec.job_group);
    o.int("slots_min", spec.min);
    o.int("slots_max", spec.max);
    o.flag("exclusive", spec.exclusive);
    o.some_text("hosts", &spec.hosts);
    o.some_text("requirement", &spec.res_req);
    o.some_text("dependency", &spec.depend);
    o.opt("begin_ms", spec.begin.map(|t| t.0));
    o.opt("deadline_ms", spec.deadline.map(|t| t.0));
    o.flag("held", job.hold);
    put_limits(&mut o, spec);
    o.text("cwd", &spec.cwd);
    o.some_text("input", &spec.stdin);
    o.some_text("output", &spec.stdout);
    o.some_text("error_output", &spec.stderr);
    o.int("script_bytes", head.script.len());
    o.int("environment_variables", head.env.len());
    if let Some(matched) = &verdict.hosts {
        o.int("hosts_of_queue", matched.in_queue);
        o.int("hosts_chosen", matched.requested);
        o.opt(
            "hosts_selected",
            (!matched.not_evaluated).then_some(matched.selected),
        );
        put_free_hosts(o.key("fit_now"), &matched.ready);
        o.flag("enough_free_slots", matched.enough);
    }
    o.some_text("held_up", verdict.blocked_by.unwrap_or_default());
    o.some_text("start", &verdict.start().unwrap_or_default());
    o.null("estimated_start_ms");
    o.text("not_checked", LEADER_ALONE);
    o.end();
    out.push('\n');
    out
}

/// The limits that apply in the queue, in seconds and bytes.
fn put_limits(o: &mut Object<'_>, spec: &Spec) {
    let limits = &spec.limits;
    for (name, value) in [
        ("run_limit_s", limits.run_s),
        ("cpu_limit_s", limits.cpu_s),
        ("mem_limit_bytes", limits.mem_b),
        ("swap_limit_bytes", limits.swap_b),
        ("process_limit", limits.procs),
        ("file_limit_bytes", limits.file_b),
        ("data_limit_bytes", limits.data_b),
        ("stack_limit_bytes", limits.stack_b),
        ("core_limit_bytes", limits.core_b),
    ] {
        o.opt(name, value);
    }
}

fn put_free_hosts(out: &mut String, hosts: &[FreeHost]) {
    out.push('[');
    for (n, host) in hosts.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        let mut o = Object::begin(out);
        o.text("host", &host.host);
        o.int("free_slots", host.free);
        o.end();
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::cluster_copy::{ClusterCopy, Samples};
    use crate::record::event::Event;
    use crate::record::load::LoadDoc;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn cluster() -> Cluster {
        let text = config::minimal("c1", "root").replace(
            "priority: 40",
            "priority: 40\n  run_limit: 60\n  job_slots: 8",
        );
        let os = config::OsNames {
            user: &|_| true,
            group: &|_| true,
        };
        let loaded = config::load(text.as_bytes(), "cb.yaml", &os).unwrap();
        let host = |name: &str, status: &str, kind: &str, used| HostRow {
            name: name.into(),
            status: status.into(),
            slots: 4,
            njobs: used,
            host_type: kind.into(),
            ..HostRow::default()
        };
        let queue = |name: &str, open| QueueRow {
            name: name.into(),
            open,
            active: true,
            hosts: ["h1", "h2", "h3", "h4"].map(str::to_owned).into(),
            ..QueueRow::default()
        };
        Cluster {
            params: Params::default(),
            queues: vec![queue("normal", true), queue("low", false)],
            hosts: vec![
                host("h1", "ok", "A", 1),
                host("h2", "ok", "A", 0),
                host("h3", "unavail", "A", 0),
                host("h4", "ok", "B", 0),
                host("h5", "ok", "A", 0),
            ],
            config: loaded.config,
        }
    }

    fn job(change: impl FnOnce(&mut Spec)) -> Submission {
        let mut job = Submission {
            command: "true".into(),
            ..Submission::default()
        };
        job.spec.cwd = "/".into();
        job.spec.sub_host = "h1".into();
        change(&mut job.spec);
        job
    }

    fn checked(job: &Submission) -> Verdict {
        let who = Requester {
            uid: 7,
            user: "u7".into(),
            groups: Vec::new(),
        };
        cluster().check(job, &who, Stamp(1_000_000))
    }

    fn refusal(change: impl FnOnce(&mut Spec)) -> (Exit, String) {
        let fail = checked(&job(change)).refused.expect("it is refused");
        (fail.exit, fail.text)
    }

    #[test]
    fn hosts_are_counted_by_queue_options_and_state() {
        let verdict = checked(&job(|_| {}));
        assert_eq!(verdict.refused, None);
        let matched = verdict.hosts.unwrap();
        // h5 does not belong to the queue, h4 has another type, h3 does not respond.
        assert_eq!(
            (matched.in_queue, matched.requested, matched.selected),
            (4, 4, 3)
        );
        let hosts: Vec<(&str, u32)> = matched
            .ready
            .iter()
            .map(|p| (p.host.as_str(), p.free))
            .collect();
        assert_eq!(hosts, [("h2", 4), ("h1", 3)]);
        assert!(matched.enough);
        let matched = |change: fn(&mut Spec)| checked(&job(change)).hosts.unwrap();
        assert_eq!(matched(|s| s.exclusive = false).ready.len(), 2);
        assert_eq!(matched(|s| s.hosts = "h1".into()).requested, 1);
        assert_eq!(
            matched(|s| s.res_req = "select[type==any]".into()).selected,
            4
        );
        let spread = |s: &mut Spec| (s.min, s.max) = (7, 7);
        assert!(matched(spread).enough);
        assert!(
            !matched(|s| {
                (s.min, s.max) = (7, 7);
                s.res_req = "span[hosts=1]".into();
            })
            .enough
        );
        assert!(matched(|s| s.res_req = "{select[mem>1]} || {select[mem>2]}".into()).not_evaluated);
    }

    #[test]
    fn what_the_leader_would_refuse_is_refused() {
        let (exit, text) = refusal(|s| s.queue = "nrmal".into());
        assert_eq!(exit, Exit::NotFound);
        assert!(text.contains("did you mean \"normal\""), "{text}");
        let (exit, text) = refusal(|s| s.queue = "low".into());
        assert_eq!(
            (exit, text.as_str()),
            (Exit::Refused, "queue low is closed")
        );
        let (exit, text) = refusal(|s| s.limits.run_s = Some(7200));
        assert_eq!(exit, Exit::Refused);
        assert!(text.contains("exceeds"), "{text}");
        let (exit, _) = refusal(|s| s.max = 9);
        assert_eq!(exit, Exit::Refused);
        // A closed queue does not matter if there is another candidate.
        let verdict = checked(&job(|s| s.queue = "low normal".into()));
        assert_eq!(verdict.spec.queue, "normal");
        assert!(!verdict.default_queue);
    }

    #[test]
    fn the_text_says_what_is_not_known() {
        let job = job(|s| s.depend = "done(7)".into());
        let verdict = checked(&job);
        assert_eq!(verdict.spec.depend, "done(7)");
        let out = text(&job, &RequestHead::default(), &verdict);
        for part in [
            "queue              normal (default)\n",
            "  run limit 1h\n",
            "  dependency done(7)\n",
            "Hosts that fit now (free slots): h2 (4) h1 (3)\n",
            "Estimated start: not known",
            "Not checked: only the leader checks",
        ] {
            assert!(out.contains(part), "{part}{out}");
        }
        let in_chinese = |part: &dyn Fn() -> String| crate::language::in_chinese(part);
        let out = in_chinese(&|| text(&job, &RequestHead::default(), &verdict));
        for part in [
            "  命令               true\n",
            "  队列               normal （默认）\n",
            "  运行时限 1h\n",
            "现在符合的主机（空闲槽位）：h2 (4) h1 (3)\n",
            "没有检查：只有主调度器才检查",
        ] {
            assert!(out.contains(part), "{part}{out}");
        }
        let json = json_text(&job, &RequestHead::default(), &verdict);
        let chinese = in_chinese(&|| json_text(&job, &RequestHead::default(), &verdict));
        assert_eq!(json, chinese);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["run_limit_s"], 3600);
        assert_eq!(json["fit_now"][0]["free_slots"], 4);
        assert_eq!(json["refused"], serde_json::Value::Null);
    }

    /// What is said of the start is what a scheduler did.
    #[test]
    fn hosts_without_the_memory_do_not_fit() {
        let text = "cluster: {name: c1, administrators: [root]}\n\
                    hosts:\n- {names: 'h[1-2]', slots: 4}\nqueues:\n- {name: normal}\n";
        let loaded = config::load(text.as_bytes(), "cb.yaml", &config::OsNames::ANY);
        let config = Arc::new(loaded.unwrap().config);
        let (mut state, mut samples) = (State::new(), Samples::new());
        for name in config.host_names() {
            let (name, up, boot, t) = (name.to_owned(), true, String::new(), Stamp(1));
            let load = LoadDoc {
                executor: true,
                ncpus: 4,
                maxmem: 8000,
                mem: 8000.0,
                host_type: "A".into(),
                ..LoadDoc::default()
            };
            samples.insert(name.clone(), (load, 0));
            state.apply(&Event::HostSeen { name, up, boot, t });
        }
        let copy = || {
            let (state, samples) = (state.clone(), samples.clone());
            let zone = jiff::tz::TimeZone::UTC;
            ClusterCopy::new(
                state,
                config.clone(),
                samples,
                BTreeMap::new(),
                zone,
                Stamp(2),
            )
        };
        let tried = |res_req: &str| {
            let job = job(|s| s.res_req = res_req.into());
            let mut verdict = checked(&job);
            verdict.try_on(&mut copy(), &job);
            (verdict.start().unwrap(), verdict.hosts.unwrap())
        };
        let (start, matched) = tried("rusage[mem=500T]");
        assert!(start.contains("no host has that much"), "{start}");
        assert!(!matched.enough && matched.ready.is_empty());
        let (start, matched) = tried("rusage[mem=1G]");
        assert!(start.starts_with("it would start at once on "), "{start}");
        assert!(matched.enough);
    }

    #[test]
    fn json_is_meant_for_the_dry_run_only_before_the_command() {
        use crate::client::cli::Table;
        let table = Table::new(super::super::options::csub());
        let read = |line: &str| {
            let words = line.split(' ').map(str::to_owned).collect();
            super::super::json_lines(&table, words).join(" ")
        };
        let line = "-dry-run --json -n 2 x --json";
        assert_eq!(read(line), "-dry-run --jsonl -n 2 x --json");
        assert_eq!(read("--json f -n 2 x"), "--json f -n 2 x");
    }
}
