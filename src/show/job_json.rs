//! `cjobs --json`: one JSON object per line with typed values, the stable interface for programs.
//!
//! Owns the names and types of the members: members are added, never changed. A member is always
//! present; `null` means unknown or not applicable. Times are seconds since the epoch, each with a
//! member in milliseconds. The part that comes from the specification is formatted once per
//! specification, because a hundred thousand jobs often share a few of them.

use super::cell::{self, Object};
use super::job::{self, JobView};
use super::job_table::ArrayCounts;
use super::message;
use crate::model::{Binding, JobStat, OomKill, Orphans, Spec, Terminal, Units};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Maximum number of specifications whose text is kept.
const KEPT_MAX: usize = 10_000;

/// Writes job objects; keeps the text of recent specifications.
#[derive(Default)]
pub(crate) struct JsonJobs {
    cache: HashMap<usize, (Arc<Spec>, String)>,
}

impl JsonJobs {
    /// Appends the object of `v` and a newline. `spec` must be the specification of `v`.
    pub(crate) fn put(&mut self, out: &mut String, v: &JobView<'_>, spec: &Arc<Spec>) {
        let at = Arc::as_ptr(spec).addr();
        if self.cache.len() >= KEPT_MAX && !self.cache.contains_key(&at) {
            self.cache.clear();
        }
        // The kept Arc pins the address: no other specification can take it meanwhile.
        let (_, ready) = self.cache.entry(at).or_insert_with(|| {
            let mut text = String::new();
            spec_members(&mut text, spec);
            (spec.clone(), text)
        });
        let mut o = Object::begin(out);
        job_members(&mut o, v);
        o.members(ready);
        o.end();
        out.push('\n');
    }
}

/// A time in seconds and in milliseconds; 0 = never.
fn moment(o: &mut Object<'_>, seconds: &str, millis: &str, ms: i64) {
    if ms == 0 {
        o.null(seconds);
        o.null(millis);
    } else {
        o.int(seconds, ms.div_euclid(1000));
        o.int(millis, ms);
    }
}

/// Units with the amount that the job has of each.
fn put_units(out: &mut String, units: &[Units]) {
    cell::list(out, units, |out, units| {
        let mut inner = Object::begin(out);
        inner.text("host", &units.host);
        inner.text("resource", &units.res);
        let held_units = units.held();
        let names: Vec<String> = held_units.iter().map(|unit| unit.name.to_owned()).collect();
        inner.texts("names", &names);
        if units.part > 0 {
            let parts: Vec<f64> = held_units
                .iter()
                .map(|of| f64::from(of.part) / 1000.0)
                .collect();
            cell::list(inner.key("parts"), &parts, |out, part| {
                write!(out, "{part}").expect("a string takes every write");
            });
        }
        if !units.amounts.is_empty() {
            let mut each = Object::begin(inner.key("per_unit"));
            for (name, milli) in &units.amounts {
                each.float(name, *milli as f64 / 1000.0);
            }
            each.end();
        }
        inner.end();
    });
}

fn job_members(o: &mut Object<'_>, v: &JobView<'_>) {
    let row = v.row;
    o.int("id", v.key.id);
    o.int("index", v.key.idx);
    let out = o.key("jobid");
    out.push('"');
    job::put_key(out, v.key);
    out.push('"');
    o.text("stat", v.stat().word());
    o.text("name", v.name);
    o.text("command", v.command);
    moment(o, "submit_time", "submit_ms", row.submit);
    moment(o, "dispatch_time", "dispatch_ms", row.dispatch);
    moment(o, "start_time", "start_ms", row.start);
    moment(o, "end_time", "end_ms", row.end);
    let out = o.key("exec_hosts");
    cell::list(out, &row.hosts, |out, host| {
        out.push_str("{\"host\":");
        cell::json_str(out, &host.0);
        out.push_str(",\"slots\":");
        cell::int(out, host.1);
        if let Some(bind) = row.bind_on(&host.0) {
            put_bind(out, bind);
        }
        out.push('}');
    });
    o.int("slots", v.slots());
    let bind = row.bind.as_deref();
    let cpus = bind.map_or(String::new(), |bind| bind.cpus.to_string());
    o.some_text("bound_cpus", &cpus);
    o.some_text("unbound", bind.map_or("", |bind| &bind.why));
    put_units(o.key("units"), &row.units);
    o.opt("exit_code", row.code);
    o.opt("signal", (row.sig != 0).then_some(row.sig));
    o.opt("exit_status", v.exit_status());
    o.flag("core", row.core);
    o.flag("oom", row.oom);
    let finished = row.stat.is_finished();
    o.some_text("term_reason", if finished { row.reason.word() } else { "" });
    o.some_text("text", &row.text);
    reason(o, v);
    warned(o, v);
    o.int("attempt", row.attempt);
    o.int("order", row.order);
    o.opt("run_ms", v.run_ms());
    o.int("suspended_ms", row.suspended_ms);
    o.flag("killing", row.killing && !finished);
    o.some_text("key", &row.key);
    if !row.messages.is_empty() {
        cell::list(o.key("messages"), &row.messages, |out, message| {
            message::put_json(out, None, message);
        });
    }
    let estimate = job::estimate(v).and_then(|row| row.at);
    moment(
        o,
        "estimated_start_time",
        "estimated_start_ms",
        estimate.unwrap_or(0),
    );
    usage(o, v);
}

/// Appends members about the binding of a job on a host, after others.
fn put_bind(out: &mut String, bind: &Binding) {
    let (name, value) = match bind.cpus.is_empty() {
        true => ("unbound", bind.why.clone()),
        false => ("bound_cpus", bind.cpus.to_string()),
    };
    for part in [",\"", name, "\":"] {
        out.push_str(part);
    }
    cell::json_str(out, &value);
}

fn reason(o: &mut Object<'_>, v: &JobView<'_>) {
    use std::fmt::Write as _;
    let stat = v.stat();
    if let Some(why) = v.why.filter(|_| stat.is_waiting()) {
        let out = o.key("reason");
        out.push_str("{\"code\":");
        cell::int(out, why.code());
        out.push_str(",\"text\":");
        let from = out.len();
        write!(out, "{why}").expect("a string takes every write");
        cell::json_quote_from(out, from);
        out.push('}');
    } else if stat.is_started() && stat != JobStat::Run {
        let out = o.key("reason");
        out.push_str("{\"code\":");
        match v.row.halt.as_deref() {
            Some(why) => cell::int(out, why.code()),
            None => out.push_str("null"),
        }
        out.push_str(",\"text\":");
        let from = out.len();
        job::put_suspend(out, v);
        cell::json_quote_from(out, from);
        out.push('}');
    } else {
        o.null("reason");
    }
}

fn warned(o: &mut Object<'_>, v: &JobView<'_>) {
    let Some(left_s) = job::warned_s(v) else {
        return o.null("warned");
    };
    let mut inner = Object::begin(o.key("warned"));
    moment(&mut inner, "preempt_time", "preempt_ms", v.row.warned);
    inner.int("left_s", left_s);
    inner.end();
}

fn usage(o: &mut Object<'_>, v: &JobView<'_>) {
    let u = &v.row.usage;
    if v.row.start == 0 {
        o.null("usage");
        return;
    }
    let mut inner = Object::begin(o.key("usage"));
    inner.int("cpu_ms", u.cpu_ms);
    inner.int("mem_kb", u.mem_kb);
    inner.int("max_mem_kb", u.maxmem_kb);
    inner.int("swap_kb", u.swap_kb);
    inner.int("max_swap_kb", u.maxswap_kb);
    inner.int("procs", u.procs);
    inner.int("threads", u.threads);
    inner.int("read_kb", u.read_kb);
    inner.int("write_kb", u.write_kb);
    let devices = u.devices();
    inner.int("gpu_util", devices.gpu_util);
    inner.int("gpu_mem_mb", devices.gpu_mem_mb);
    inner.int("max_gpu_mem_mb", devices.max_gpu_mem_mb);
    inner.int("gpu_ms", devices.gpu_ms);
    inner.int("net_in_kb", devices.net_in_kb);
    inner.int("net_out_kb", devices.net_out_kb);
    if let Some(hook) = &u.hook {
        let mut one = Object::begin(inner.key("hook"));
        one.text("what", &hook.what);
        one.flag("after", hook.after);
        one.int("since_ms", hook.since);
        one.int("until_ms", hook.until);
        one.end();
    }
    if !u.wrong_units.is_empty() {
        let put = |out: &mut String, unit: &String| cell::json_str(out, unit);
        cell::list(inner.key("wrong_units"), &u.wrong_units, put);
    }
    cell::list(inner.key("pids"), &u.pids, |out, pid| cell::int(out, *pid));
    cell::list(inner.key("tasks"), &u.tasks, |out, task| {
        let mut one = Object::begin(out);
        one.int("rank", task.rank);
        one.text("section", &task.section);
        one.int("replica", task.replica);
        one.text("host", &task.host);
        one.int("pid", task.pid);
        one.int("cpu_ms", task.cpu_ms);
        one.int("mem_kb", task.mem_kb);
        one.flag("ended", task.ended);
        one.end();
    });
    inner.end();
}

fn outputs(out: &mut String, spec: &Spec) {
    let mut files = Object::begin(out);
    files.some_text("stdout", &spec.stdout);
    files.flag("stdout_overwrite", spec.stdout_over);
    files.some_text("stderr", &spec.stderr);
    files.flag("stderr_overwrite", spec.stderr_over);
    if spec.no_report {
        files.flag("no_report", true);
    }
    files.end();
}

/// The members that come from the specification, without braces.
fn spec_members(out: &mut String, spec: &Spec) {
    let from = out.len();
    let mut o = Object::begin(out);
    o.text("user", &spec.user);
    o.int("uid", spec.uid);
    o.text("queue", &spec.queue);
    o.some_text("project", &spec.project);
    o.some_text("app", &spec.app);
    o.some_text("job_group", &spec.job_group);
    o.int("min_slots", spec.min);
    o.int("max_slots", spec.max);
    o.text("from_host", &spec.sub_host);
    o.text("cwd", &spec.cwd);
    o.some_text("stdin", &spec.stdin);
    outputs(o.key("outputs"), spec);
    o.some_text("res_req", &spec.res_req);
    o.some_text("asked_hosts", &spec.hosts);
    o.some_text("dependency", &spec.depend);
    o.flag("exclusive", spec.exclusive);
    o.flag("rerunnable", spec.rerunnable);
    if spec.end_orphan {
        o.flag("end_orphan", true);
    }
    o.some_text("orphan", spec.orphan.map_or("", Orphans::word));
    o.int("priority", spec.priority);
    moment(
        &mut o,
        "begin_time",
        "begin_ms",
        spec.begin.map_or(0, |t| t.0),
    );
    moment(
        &mut o,
        "deadline_time",
        "deadline_ms",
        spec.deadline.map_or(0, |t| t.0),
    );
    moment(
        &mut o,
        "start_by_time",
        "start_by_ms",
        spec.start_by.map_or(0, |t| t.0),
    );
    limits(&mut o, spec);
    o.some_text("description", &spec.description);
    o.some_text("user_group", &spec.user_group);
    o.some_text("mail_at", &spec.mail.words());
    o.some_text("mail_to", &spec.mail.to);
    o.some_text("resize_command", &spec.notify);
    o.some_text("requeue_exit_values", &spec.again.exits);
    o.opt("retries", spec.again.retries);
    if let Some(session) = &spec.session {
        o.text(
            "interactive",
            match session.terminal {
                Terminal::Streams => "streams",
                Terminal::Pty => "pty",
                Terminal::Shell => "shell",
            },
        );
    }
    o.opt("warn_before_s", spec.warn.map(|warn| warn.before_s));
    o.opt("warn_signal", spec.warn.map(|warn| warn.signal));
    o.some_text("pre_exec_command", &spec.hooks.pre);
    o.some_text("post_exec_command", &spec.hooks.post);
    task_settings(&mut o, spec);
    o.end();
    // Only the members are kept.
    out.pop();
    out.remove(from);
}

/// Members about file copies, tasks, checkpoints and the container.
fn task_settings(o: &mut Object<'_>, spec: &Spec) {
    cell::list(o.key("file_copies"), &spec.files, |out, file| {
        let mut one = Object::begin(out);
        one.text("local", &file.local);
        one.text("operator", file.operator());
        one.text("remote", &file.remote);
        one.end();
    });
    launch(o, spec);
    let checkpoint = spec
        .chkpnt
        .as_deref()
        .map(|checkpoint| checkpoint.to_string());
    o.some_text("checkpoints", checkpoint.as_deref().unwrap_or(""));
    let container = spec.container.as_deref();
    o.some_text("container_image", container.map_or("", |c| &c.image));
    o.some_text(
        "container_options",
        &container.map_or(String::new(), |c| c.options.join(" ")),
    );
}

fn launch(o: &mut Object<'_>, spec: &Spec) {
    let Some(launch) = spec.launch.as_deref() else {
        return o.null("launch");
    };
    let mut inner = Object::begin(o.key("launch"));
    inner.text("kind", launch.kind.word());
    cell::list(inner.key("sections"), &launch.sections, |out, section| {
        let mut one = Object::begin(out);
        one.text("name", &section.name);
        one.some_text("command", &section.command);
        one.end();
    });
    inner.end();
}

fn limits(o: &mut Object<'_>, spec: &Spec) {
    let l = &spec.limits;
    let mut inner = Object::begin(o.key("limits"));
    inner.opt("run_s", l.run_s);
    inner.opt("cpu_s", l.cpu_s);
    inner.opt("mem_b", l.mem_b);
    inner.opt("swap_b", l.swap_b);
    inner.opt("procs", l.procs);
    inner.opt("file_b", l.file_b);
    inner.opt("data_b", l.data_b);
    inner.opt("stack_b", l.stack_b);
    inner.opt("core_b", l.core_b);
    inner.some_text("oom_kill", l.oom_kill.map_or("", OomKill::word));
    inner.some_text("run_of_host", &spec.run_on);
    inner.some_text("cpu_of_host", &spec.cpu_on);
    inner.end();
}

/// Appends the object of an array for `cjobs -A --json`; nothing for other jobs.
pub(crate) fn put_array(out: &mut String, v: &JobView<'_>) {
    let (Some(counts), Some(arr)) = (ArrayCounts::of(v), v.row.arr.as_deref()) else {
        return;
    };
    let mut o = Object::begin(out);
    o.int("id", v.key.id);
    o.text("name", v.name);
    o.text("indices", &arr.all);
    o.text("not_started", &arr.waiting);
    o.opt("limit", (arr.limit > 0).then_some(arr.limit));
    o.text("user", &v.spec.user);
    o.int("uid", v.spec.uid);
    o.text("queue", &v.spec.queue);
    o.int("njobs", counts.njobs);
    let mut inner = Object::begin(o.key("counts"));
    for stat in JobStat::ALL {
        inner.int(stat.word(), counts.get(stat));
    }
    inner.end();
    moment(&mut o, "submit_time", "submit_ms", v.row.submit);
    o.end();
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::job::samples::*;
    use super::*;
    use serde_json::{Value, json};

    fn object(row: &crate::record::view::JobRow<'static>) -> Value {
        let (ctx, why, spec) = (ctx(), why(), Arc::new(spec()));
        let mut out = String::new();
        let mut writer = JsonJobs::default();
        writer.put(&mut out, &view(&ctx, &spec, row, Some(&why)), &spec);
        let first: Value = serde_json::from_str(&out).unwrap();
        let len = out.len();
        writer.put(&mut out, &view(&ctx, &spec, row, Some(&why)), &spec);
        assert_eq!(out[..len], out[len..], "the kept text is the same");
        first
    }

    #[test]
    fn a_waiting_job() {
        let o = object(&pending());
        assert_eq!(o["jobid"], "101");
        assert_eq!(o["submit_time"], (NOW - 3_600_000) / 1000);
        assert_eq!(o["submit_ms"], NOW - 3_600_000);
        assert_eq!(
            o["reason"],
            json!({"code": 30, "text": "user user0001 has reached the limit of 4 slots"})
        );
        for none in [
            "start_time",
            "exit_code",
            "usage",
            "run_ms",
            "key",
            "term_reason",
        ] {
            assert_eq!(o[none], Value::Null, "{none}");
        }
        assert_eq!(o["exec_hosts"], json!([]));
        assert_eq!(
            (&o["bound_cpus"], &o["unbound"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(o["outputs"]["stdout"], Value::Null);
    }

    #[test]
    fn a_running_element() {
        let o = object(&running());
        assert_eq!((&o["id"], &o["index"]), (&json!(102), &json!(7)));
        assert_eq!(
            o["exec_hosts"],
            json!([{"host":"h1","slots":4},{"host":"h2","slots":1}])
        );
        assert_eq!(o["usage"]["max_mem_kb"], 3 << 20);
        assert_eq!(o["usage"]["pids"], json!([4711, 4712]));
        assert_eq!(o["run_ms"], 599_000);
        assert_eq!(o["warned"], Value::Null);
        let o = object(&crate::record::view::JobRow {
            warned: NOW + 24_500,
            ..running()
        });
        let at = NOW + 24_500;
        let warned = json!({"preempt_time": at / 1000, "preempt_ms": at, "left_s": 25});
        assert_eq!(o["warned"], warned);
    }

    #[test]
    fn a_killed_job_keeps_its_text_raw() {
        let o = object(&killed());
        assert_eq!(o["name"], "模拟\u{1b}[31m");
        assert_eq!((&o["signal"], &o["exit_status"]), (&json!(9), &json!(137)));
        assert_eq!(o["exit_code"], Value::Null);
        assert_eq!(o["term_reason"], "TERM_RUNLIMIT");
    }

    #[test]
    fn an_array() {
        let (ctx, spec) = (ctx(), spec());
        let row = array();
        let mut out = String::new();
        put_array(&mut out, &view(&ctx, &spec, &row, None));
        let o: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(o["counts"]["PEND"], 3);
        assert_eq!(o["counts"]["DONE"], 6);
        assert_eq!((&o["njobs"], &o["limit"]), (&json!(10), &Value::Null));
    }
}
