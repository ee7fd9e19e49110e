//! The long page of a job (`cjobs -l`, `-UF`): all information about it in chronological order.
//!
//! Owns the sentences of the page. Items are wrapped like in LSF unless `-UF` is given.

use super::cell::{self, Cut};
use super::job::{self, JobView};
use super::message;
use super::wrap;
use crate::config::warn_signal_name;
use crate::language::translated;
use crate::model::{JobStat, Spec, TermReason, Terminal};
use crate::record::device_use::DeviceUse;
use crate::text::count::count;
use crate::text::resreq::{AnyResource, Builtins, ResReq};
use crate::text::size;
use std::fmt::Write as _;

/// Appends the page of one job. `unfolded`: with `-UF`.
pub(crate) fn put(out: &mut String, v: &JobView<'_>, unfolded: bool) {
    let mut items: Vec<String> = Vec::with_capacity(8);
    items.push(head(v));
    items.push(submitted(v));
    items.extend(changes(v));
    out.push('\n');
    for item in &items {
        wrap::item(out, item, unfolded);
    }
    put_reasons(out, v, unfolded);
    put_limits(out, v);
    for item in events(v) {
        wrap::item(out, &item, unfolded);
    }
    put_memory(out, v);
    if !v.spec.description.is_empty() {
        out.push('\n');
        let text = format!(" JOB DESCRIPTION: {}", v.spec.description);
        wrap::item(out, &text, unfolded);
    }
    message::put_list(out, &v.row.messages, &v.ctx.dates);
    let combined = combined_request(v);
    if !combined.is_empty() {
        out.push_str("\n RESOURCE REQUIREMENT DETAILS:\n");
        wrap::item(out, &format!(" Combined: {combined}"), unfolded);
        wrap::item(out, &format!(" Effective: {combined}"), unfolded);
    }
}

/// The requirement of the job, merged with those of its application and its queue as in the
/// scheduler.
fn combined_request(v: &JobView<'_>) -> String {
    let own = &v.spec.res_req;
    let general = [
        v.ctx.app_requests.get(&v.spec.app),
        v.ctx.queue_requests.get(&v.spec.queue),
    ];
    let read = |text: &str| ResReq::parse_stored(text, &AnyResource(&Builtins)).ok();
    if general.iter().all(Option::is_none) {
        return own.clone();
    }
    let merge = |request: ResReq, text: &String| Some(request.over(read(text)?.simple()?));
    let merged = read(own).and_then(|own| general.into_iter().flatten().try_fold(own, merge));
    merged.map_or_else(|| own.clone(), |merged| merged.to_string())
}

macro_rules! add {
    ($out:expr, $($what:tt)*) => {
        write!($out, $($what)*).expect("a string takes every write")
    };
}

fn head(v: &JobView<'_>) -> String {
    let mut s = String::from("Job <");
    job::put_key(&mut s, v.key);
    add!(s, ">, Job Name <");
    v.put_name(&mut s);
    add!(s, ">, User <{}>", v.spec.user);
    if !v.spec.project.is_empty() {
        add!(s, ", Project <{}>", v.spec.project);
    }
    if !v.spec.app.is_empty() {
        add!(s, ", Application <{}>", v.spec.app);
    }
    if !v.spec.job_group.is_empty() {
        add!(s, ", Job Group <{}>", v.spec.job_group);
    }
    add!(s, ", Status <{}>, Queue <{}>", v.stat(), v.spec.queue);
    if v.spec.priority > 0 {
        add!(s, ", Job Priority <{}>", v.spec.priority);
    }
    add!(s, ", Command <{}>", v.command);
    if v.row.attempt > 1 {
        add!(s, ", Attempt <{}>", v.row.attempt);
    }
    if !v.row.key.is_empty() {
        add!(s, ", Submission Key <{}>", v.row.key);
    }
    if v.row.forced && !v.stat().is_waiting() {
        add!(s, ", {}", translated("started by force"));
    }
    if v.row.killing && !v.stat().is_finished() {
        add!(s, ", {}", translated("being killed"));
    }
    s
}

fn put_orphans(s: &mut String, spec: &Spec) {
    if spec.end_orphan {
        add!(
            s,
            ", {}",
            translated("Ends if its dependency can never be satisfied")
        );
    }
    if let Some(orphan) = spec.orphan {
        add!(s, ", Orphan Policy <{}>", orphan.word());
    }
}

fn submitted(v: &JobView<'_>) -> String {
    let spec = v.spec;
    let mut s = String::new();
    v.ctx.dates.long(&mut s, v.row.submit);
    let text = format!("Submitted from host <{}>", spec.sub_host);
    add!(s, ": {}, CWD <{}>", translated(&text), spec.cwd);
    if spec.exclusive {
        s.push_str(", Exclusive Execution");
    }
    if spec.rerunnable {
        s.push_str(", Re-runnable");
    }
    put_orphans(&mut s, spec);
    if spec.no_report {
        s.push_str(", No Job Report");
    }
    for (title, file, over) in [
        ("Input File", &spec.stdin, false),
        ("Output File", &spec.stdout, spec.stdout_over),
        ("Error File", &spec.stderr, spec.stderr_over),
    ] {
        if !file.is_empty() {
            let how = if over { " (overwrite)" } else { "" };
            add!(s, ", {title}{how} <{file}>");
        }
    }
    if !spec.stdin_blob.is_empty() {
        s.push_str(", Copied Input File");
    }
    if spec.max > spec.min {
        let range = translated(&format!("{} to {}", spec.min, spec.max)).into_owned();
        add!(s, ", {range} Slot(s) Requested");
    } else if spec.min > 1 {
        add!(s, ", {} Slot(s) Requested", spec.min);
    }
    for (title, text) in [
        ("Mail", &mail(spec)),
        ("Dependency Condition", &spec.depend),
        ("Requested Resources", &spec.res_req),
        ("Specified Hosts", &spec.hosts),
        ("User Group", &spec.user_group),
        ("Resize Notification Command", &spec.notify),
        ("Pre-execute Command", &spec.hooks.pre),
        ("Post-execute Command", &spec.hooks.post),
        ("Requeue Exit Values", &spec.again.exits),
        ("Login Shell", &spec.shell),
    ] {
        if !text.is_empty() {
            add!(s, ", {title} <{text}>");
        }
    }
    mode(&mut s, spec);
    put_task_settings(&mut s, spec);
    if let Some(n) = spec.again.retries {
        add!(s, ", Retries <{n}>");
    }
    for (title, at) in [
        ("Specified Start Time", spec.begin),
        ("Specified Termination Time", spec.deadline),
        ("Ends Unless Started By", spec.start_by),
    ] {
        if let Some(at) = at {
            add!(s, ", {title} <");
            v.ctx.dates.long(&mut s, at.0);
            s.push('>');
        }
    }
    s.push(';');
    s
}

/// At which events mail is sent and to whom; empty for none.
fn mail(spec: &Spec) -> String {
    let (at, to) = (spec.mail.words(), spec.mail.to.as_str());
    match (at.is_empty(), to.is_empty()) {
        (true, _) => String::new(),
        (false, true) => at,
        (false, false) => format!("{at} to {to}"),
    }
}

/// Appends whether and how the job is interactive.
fn mode(s: &mut String, spec: &Spec) {
    let how = match spec.session.as_ref().map(|session| session.terminal) {
        None => return,
        Some(Terminal::Streams) => "Interactive mode",
        Some(Terminal::Pty) => "Interactive pseudo-terminal mode",
        Some(Terminal::Shell) => "Interactive pseudo-terminal shell mode",
    };
    add!(s, ", {}", translated(how));
}

/// Appends the warning signal, checkpoints, container, file copies and tasks.
fn put_task_settings(s: &mut String, spec: &Spec) {
    if let Some(warn) = spec.warn {
        let (name, before) = (warn_signal_name(warn.signal), warn.before_s);
        let text = format!("Warning <{name}> {before} seconds before its run limit");
        add!(s, ", {}", translated(&text));
    }
    if let Some(checkpoint) = spec.chkpnt.as_deref() {
        add!(s, ", Checkpoints <{checkpoint}>");
    }
    if let Some(container) = spec.container.as_deref() {
        add!(s, ", Container <{}>", container.image);
        if !container.options.is_empty() {
            add!(s, ", Container Options <{}>", container.options.join(" "));
        }
    }
    for f in &spec.files {
        add!(
            s,
            ", Copy Files <{} {} {}>",
            f.local,
            f.operator(),
            f.remote
        );
    }
    let Some(launch) = spec.launch.as_deref() else {
        return;
    };
    add!(s, ", Launch <{}>", launch.kind.word());
    for section in &launch.sections {
        match section.command.as_str() {
            "" => add!(s, ", Section <{}>", section.name),
            command => add!(s, ", Section <{}={command}>", section.name),
        }
    }
}

/// The data about failed earlier attempts.
fn changes(v: &JobView<'_>) -> Option<String> {
    let row = v.row;
    if row.stat.is_waiting() && !row.text.is_empty() {
        return Some(format!(
            "{};",
            translated(&format!("Last attempt: {}", row.text))
        ));
    }
    None
}

fn put_reasons(out: &mut String, v: &JobView<'_>, unfolded: bool) {
    let text = if v.stat().is_waiting() {
        out.push_str(" PENDING REASONS:\n");
        let why = match v.why {
            Some(why) => format!(" {};", translated(&why.to_string())),
            None => format!(" {};", translated(super::job_table::NEW)),
        };
        why + &estimate(v)
    } else if v.stat().is_started() && v.stat() != JobStat::Run {
        out.push_str(" SUSPENDING REASONS:\n");
        let mut why = String::new();
        job::put_suspend(&mut why, v);
        format!(" {};", translated(&why))
    } else if let Some(s) = job::warned_s(v) {
        out.push_str(" WARNED:\n");
        format!(
            " {};",
            translated(&format!("will be preempted in {s} seconds"))
        )
    } else if let Some(hook) = job::running_hook(v.row, &v.ctx.dates) {
        out.push_str(" WAITS FOR:\n");
        format!(" {};", translated(&hook))
    } else {
        return;
    };
    wrap::item(out, &text, unfolded);
}

/// The estimated start, if there is an estimate.
fn estimate(v: &JobView<'_>) -> String {
    let Some(row) = job::estimate(v) else {
        return String::new();
    };
    let text = match row.at {
        Some(at) => {
            let mut date = String::new();
            v.ctx.dates.long(&mut date, at);
            format!("estimated start {date}")
        }
        None => {
            let others = count(row.unlimited, "running job");
            format!("no estimate: waits for {others} without a run limit")
        }
    };
    format!(" {};", translated(&text))
}

fn put_limits(out: &mut String, v: &JobView<'_>) {
    let limits = &v.spec.limits;
    let minutes = |s: u64| {
        let mut text = String::new();
        cell::fraction(&mut text, s * 1000 / 60, 1);
        text + " min"
    };
    let of = |time: String, on: &str| match on {
        "" => time,
        on => format!("{time} of {on}"),
    };
    let run = limits.run_s.map(|s| of(minutes(s), &v.spec.run_on));
    let cpu = limits.cpu_s.map(|s| of(minutes(s), &v.spec.cpu_on));
    let rows = [
        ("RUNLIMIT", run),
        ("CPULIMIT", cpu),
        ("MEMLIMIT", limits.mem_b.map(size::human)),
        ("SWAPLIMIT", limits.swap_b.map(size::human)),
        ("PROCESSLIMIT", limits.procs.map(|n| n.to_string())),
        ("FILELIMIT", limits.file_b.map(size::human)),
        ("DATALIMIT", limits.data_b.map(size::human)),
        ("STACKLIMIT", limits.stack_b.map(size::human)),
        ("CORELIMIT", limits.core_b.map(size::human)),
        ("OOM_KILL", limits.oom_kill.map(|act| act.word().to_owned())),
    ];
    for (title, value) in rows {
        if let Some(value) = value {
            add!(out, "\n {title}\n {value}\n");
        }
    }
    if rows_any(limits) {
        out.push('\n');
    }
}

fn rows_any(limits: &crate::model::Limits) -> bool {
    *limits != crate::model::Limits::default()
}

/// The events since the submission, one item each.
fn events(v: &JobView<'_>) -> Vec<String> {
    let row = v.row;
    let mut items = Vec::new();
    if row.stat.is_waiting() {
        return items;
    }
    let dated = |ms: i64| {
        let mut s = String::new();
        v.ctx.dates.long(&mut s, ms);
        s.push_str(": ");
        s
    };
    if row.dispatch > 0 && v.slots() > 0 {
        let start = if row.start > 0 {
            row.start
        } else {
            row.dispatch
        };
        let slots = v.slots();
        let is_started = row.start > 0 && row.reason != TermReason::StartFailed;
        let mut text = match is_started {
            true => format!("Started {slots} Slot(s) on Host(s)"),
            false => format!("Dispatched {slots} Slot(s) on Host(s)"),
        };
        for host in &row.hosts {
            add!(text, " <{host}>");
        }
        let mut s = dated(start) + &translated(&text);
        for units in &row.units {
            add!(s, ", Units <{units}>");
        }
        add!(s, ", Execution CWD <{}>", v.spec.cwd);
        if let Some(bind) = &row.bind {
            add!(s, ", {}", translated(&bind.to_string()));
        }
        for part in &row.part_binds {
            let bound = translated(&part.bind.to_string()).into_owned();
            add!(s, ", {bound} on <{}>", part.host);
        }
        s.push(';');
        items.push(s);
    }
    if row.start > 0 && !row.stat.is_finished() {
        items.push(dated(v.ctx.now.0) + &usage(v));
    }
    if row.suspended_ms >= 1000 {
        let seconds = row.suspended_ms / 1000;
        let text = format!("It was suspended for {seconds} seconds so far");
        items.push(format!(" {};", translated(&text)));
    }
    if row.stat.is_finished() {
        items.push(dated(row.end) + &translated(&ending(v)));
        // If the job was not started, the sentence itself gives the reason.
        let in_end = row.reason == TermReason::StartFailed;
        if !in_end && (row.reason != TermReason::None || row.oom) {
            let mut why = String::new();
            v.put_term(&mut why);
            // Programs look for these two words of LSF.
            let word = match row.stat {
                JobStat::Done => "done",
                _ => "exit",
            };
            items.push(dated(row.end) + &format!("Completed <{word}>; {};", translated(&why)));
        }
        if !in_end && row.reason == TermReason::None && !row.text.is_empty() {
            // Other problems: with its report, or a post-exec command.
            items.push(dated(row.end) + &translated(&row.text) + ";");
        }
    }
    items
}

fn usage(v: &JobView<'_>) -> String {
    let u = &v.row.usage;
    let mut text = String::from("Resource usage collected. The CPU time used is ");
    cell::fraction(&mut text, u.cpu_ms, 1);
    text.push_str(" seconds.");
    let mut s = translated(&text).into_owned();
    let (mem, swap) = (u.mem_kb / 1024, u.swap_kb / 1024);
    add!(s, " MEM: {mem} Mbytes; SWAP: {swap} Mbytes");
    if u.threads > 0 {
        add!(s, "; NTHREAD: {}", u.threads);
    }
    if u.read_kb + u.write_kb > 0 {
        add!(
            s,
            "; READ: {} Kbytes; WRITTEN: {} Kbytes",
            u.read_kb,
            u.write_kb
        );
    }
    put_devices(&mut s, u.devices());
    if !u.pids.is_empty() {
        s.push_str("; PIDs:");
        for pid in &u.pids {
            add!(s, " {pid}");
        }
    }
    if !u.wrong_units.is_empty() {
        add!(s, "; NOT ITS OWN: {}", u.wrong_units.join(", "));
    }
    s.push(';');
    s
}

/// GPU usage and network traffic, if there was any.
fn put_devices(s: &mut String, u: DeviceUse) {
    if u.gpu_util + u.gpu_mem_mb > 0 {
        add!(s, "; GPU: {}%, {} Mbytes", u.gpu_util, u.gpu_mem_mb);
    }
    if u.net_in_kb + u.net_out_kb > 0 {
        add!(
            s,
            "; NET IN: {} Kbytes; OUT: {} Kbytes",
            u.net_in_kb,
            u.net_out_kb
        );
    }
}

fn ending(v: &JobView<'_>) -> String {
    let row = v.row;
    if row.reason == TermReason::StartFailed {
        return match row.text.as_str() {
            "" => "Not started.".to_owned(),
            why => format!("Not started: {why}."),
        };
    }
    let mut s = match (row.stat, row.code, row.sig) {
        (JobStat::Done, Some(code), _) if code != 0 => {
            format!("Done successfully with exit code {code}.")
        }
        (JobStat::Done, ..) => "Done successfully.".to_owned(),
        (_, Some(code), _) => format!("Exited with exit code {code}."),
        (_, None, 0) if row.start == 0 => "Exited before it started.".to_owned(),
        (_, None, 0) => "Exited; how it ended is unknown.".to_owned(),
        (_, None, sig) => format!("Exited by signal {sig}."),
    };
    if row.core {
        s.push_str(" It left a core dump.");
    }
    if row.start > 0 {
        s.push_str(" The CPU time used is ");
        cell::fraction(&mut s, row.usage.cpu_ms, 1);
        s.push_str(" seconds.");
    }
    s
}

fn put_memory(out: &mut String, v: &JobView<'_>) {
    let u = &v.row.usage;
    if u.maxmem_kb > 0 {
        let from = out.len();
        add!(out, "\n MAX MEM: {} Mbytes;", u.maxmem_kb.div_ceil(1024));
        if u.maxswap_kb > 0 {
            add!(out, "  MAX SWAP: {} Mbytes;", u.maxswap_kb.div_ceil(1024));
        }
        let used = u.devices();
        if used.max_gpu_mem_mb > 0 {
            add!(out, "  MAX GPU MEM: {} Mbytes;", used.max_gpu_mem_mb);
        }
        if used.gpu_ms > 0 {
            out.push_str("  GPU TIME: ");
            cell::fraction(out, used.gpu_ms, 1);
            out.push_str(" seconds;");
        }
        cell::escape_and_cut(out, from + 1, None, Cut::Never);
        out.push('\n');
    }
}

/// The line between two long pages.
pub(crate) const RULE: &str =
    "------------------------------------------------------------------------------\n";

#[cfg(test)]
mod tests {
    use super::super::job::samples::*;
    use super::*;
    use crate::model::{Binding, CpuSet, PartBinding};

    fn page(row: &crate::record::view::JobRow<'static>) -> String {
        let (ctx, why) = (ctx(), why());
        let mut spec = spec();
        spec.limits = limits();
        spec.min = 5;
        spec.max = 5;
        spec.res_req = "span[ptile=4]".into();
        let mut out = String::new();
        put(&mut out, &view(&ctx, &spec, row, Some(&why)), false);
        out
    }

    #[test]
    fn a_warned_job_says_how_long_it_has() {
        let row = crate::record::view::JobRow {
            warned: NOW + 24_500,
            ..running()
        };
        assert!(page(&row).contains("\n WARNED:\n will be preempted in 25 seconds;\n"));
    }

    #[test]
    fn a_bound_job_says_where_it_runs_and_another_why_it_is_not_bound() {
        let bind = |cpus: &str, why: &str| {
            let cpus = CpuSet::parse(cpus).expect("a list");
            let why = why.to_owned();
            let bind = Some(Box::new(Binding {
                cpus,
                why,
                ..Binding::default()
            }));
            // Joined into one line.
            let text = page(&crate::record::view::JobRow { bind, ..running() });
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(bind("0-3", "").contains("Execution CWD </data/run>, bound to CPUs 0-3;"));
        let part = PartBinding {
            host: "node07".into(),
            bind: Binding {
                cpus: CpuSet::parse("4-5").expect("a list"),
                ..Binding::default()
            },
        };
        let part_binds = vec![part];
        let text = page(&crate::record::view::JobRow {
            part_binds,
            ..running()
        });
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.contains("</data/run>, bound to CPUs 4-5 on <node07>;"),
            "{text}"
        );
        let why = "not bound to CPUs: it has 4 slots, and 1 of 2 cores are free;";
        assert!(bind("", "it has 4 slots, and 1 of 2 cores are free").contains(why));
    }

    #[test]
    fn a_waiting_job_says_why() {
        let want = "
Job <101>, Job Name <a_rather_long_name>, User <user0001>, Project <default>, \n\
\x20                    Status <PEND>, Queue <normal>, Command <sleep 100>
Sat Nov 21 02:07:09: Submitted from host <login-host-long>, CWD </data/run>, 5 \n\
\x20                    Slot(s) Requested, Requested Resources <span[ptile=4]>;
 PENDING REASONS:
 user user0001 has reached the limit of 4 slots;

 RUNLIMIT
 20.0 min

 MEMLIMIT
 1G

\n RESOURCE REQUIREMENT DETAILS:
 Combined: span[ptile=4]
 Effective: span[ptile=4]
";
        assert_eq!(page(&pending()), want);
    }

    #[test]
    fn the_requirement_of_the_queue_is_part_of_the_combined_one() {
        let mut ctx = ctx();
        let queue = (
            "normal".to_owned(),
            "select[mem>100] rusage[mem=50]".to_owned(),
        );
        ctx.queue_requests = std::sync::Arc::new(std::iter::once(queue).collect());
        let mut spec = spec();
        (spec.queue, spec.res_req) = ("normal".into(), "select[ut<0.5]".into());
        let row = pending();
        let text = combined_request(&view(&ctx, &spec, &row, None));
        for part in ["mem>100", "ut<0.5", "rusage[mem=50"] {
            assert!(text.replace(' ', "").contains(part), "{part}: {text}");
        }
        spec.queue = "other".into();
        assert_eq!(
            combined_request(&view(&ctx, &spec, &row, None)),
            "select[ut<0.5]"
        );
    }

    #[test]
    fn a_running_job_shows_its_use() {
        let text = page(&running());
        for part in [
            "Job <102[7]>, Job Name <sweep[7]>,",
            "Sat Nov 21 02:57:10: Started 5 Slot(s) on Host(s) <4*h1> <h2>, Execution CWD ",
            "Sat Nov 21 03:07:09: Resource usage collected. The CPU time used is 61.0 ",
            "NTHREAD: 3; PIDs: ",
            " MAX MEM: 3072 Mbytes;\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn an_end_has_its_reason() {
        let text = page(&killed());
        let want = "\
Sat Nov 21 03:02:09: Exited by signal 9. The CPU time used is 0.0 seconds.
Sat Nov 21 03:02:09: Completed <exit>; TERM_RUNLIMIT: killed: it reached its \n\
\x20                    run limit;
";
        assert!(text.contains(want), "{text}");
        assert!(text.contains("Command <./模拟 \"x\">") && !text.contains('\u{1b}'));
        let mut failed = killed();
        (failed.sig, failed.code, failed.reason) = (0, Some(3), TermReason::None);
        let text = page(&failed);
        assert!(text.contains("Exited with exit code 3.") && !text.contains("Completed"));
        // A handler that exits with 0, and a kill for memory that its queue ignores: one result.
        let mut one = killed();
        (one.sig, one.code, one.reason) = (0, Some(0), TermReason::Owner);
        let text = page(&one);
        assert!(text.contains("Exited with exit code 0.") && text.contains("<exit>; TERM_OWNER"));
        assert!(!text.contains("Done"), "{text}");
        (one.stat, one.oom, one.reason) = (JobStat::Done, true, TermReason::None);
        let text = page(&one);
        assert!(text.contains("Done successfully.") && text.contains("Completed <done>; one of"));
        assert!(!text.contains("xit"), "{text}");
        (failed.code, failed.reason) = (None, TermReason::StartFailed);
        failed.text = "no such directory: /x".into();
        let text = page(&failed);
        let once = text.matches("/x").count() == 1 && !text.contains("Exited");
        assert!(once && text.contains(": Not started: no such directory: /x."));
        assert!(
            !text.contains("Started 1") && text.contains("Dispatched 1"),
            "{text}"
        );
    }
}
