//! Options of `sbatch`, from its command line and from `#SBATCH` lines, as options of csub.

use super::conversion::{
    ConvertContext, ConvertedOptions, ForeignOption, job_name, mem_text, number,
};
use super::slurm_table::{self, NOT_IN_A_SCRIPT, Support, with_options};
use super::task_layout::{self, SlotRequest, TaskLayout};
use crate::client::cli::{Table, command};
use crate::client::exit::{Fail, Result};
use crate::config::WARN_SIGNALS;
use crate::model::{SlurmArray, WarnedProcesses};
use crate::text::names::HostSet;
use crate::text::slurm::{self, IndexList, PatternValues};
use std::fmt::Write as _;
use std::sync::LazyLock;

type Text<T> = std::result::Result<T, String>;

/// Time before the run limit at which `--signal` without a time warns, in seconds.
const SIGNAL_S: u32 = 60;

/// Why a job of several parts is refused.
pub(crate) const HETEROGENEOUS: &str = "a job of several parts with different requests is not \
                                        available: submit each part as a job of its own";

/// The options of one `#SBATCH` line.
///
/// # Errors
/// Names what is not an option, or an option that a script cannot give.
pub(super) fn line_options(words: &[String], at: &str) -> Result<Vec<ForeignOption>> {
    static TABLE: LazyLock<Table> =
        LazyLock::new(|| Table::getopt_long(with_options(command("sbatch", ""))));
    let wrong = |e: String| Fail::usage(format!("{at}{e}"));
    if let Some(word @ ("hetjob" | "packjob")) = words.first().map(String::as_str) {
        return Err(wrong(format!("{word}: {HETEROGENEOUS}")));
    }
    let split = TABLE.split(words).map_err(|e| wrong(e.0))?;
    if let Some(word) = split.operands.first() {
        let word = crate::text::width::escape(word);
        return Err(wrong(format!("'{word}' is not an option")));
    }
    let mut all = Vec::new();
    for given in split.given {
        let option = TABLE.id(&given).to_owned();
        let option = ForeignOption {
            option,
            value: given.value,
            location: at.to_owned(),
        };
        if NOT_IN_A_SCRIPT.contains(&option.option.as_str()) {
            return Err(option.refuse("it is an option of the command line"));
        }
        all.push(option);
    }
    Ok(all)
}

/// Options that count once: the last one applies.
struct SlurmRequest<'a> {
    list: Vec<&'a ForeignOption>,
}

impl<'a> SlurmRequest<'a> {
    fn get(&self, name: &str) -> Option<&'a ForeignOption> {
        let mut all = self.list.iter().rev();
        all.find(|option| option.option == name).copied()
    }

    /// All of an option that accumulates: those of the command line if it has any, else those of
    /// the script.
    fn of_last_place(&self, name: &'static str) -> impl Iterator<Item = &'a ForeignOption> {
        let on_line = self.get(name).is_some_and(|last| last.location.is_empty());
        let all = self.list.iter().copied();
        let same = all.filter(move |option| option.option == name);
        same.filter(move |option| option.location.is_empty() == on_line)
    }

    /// The parsed value of an option.
    fn read<T>(&self, option: &str, read: impl FnOnce(&str) -> Text<T>) -> Result<Option<T>> {
        let Some(option) = self.get(option) else {
            return Ok(None);
        };
        read(&option.value)
            .map(Some)
            .map_err(|why| option.refuse(&why))
    }

    fn text(&self, option: &str) -> Option<&'a str> {
        self.get(option).map(|option| option.value.as_str())
    }
}

/// Converts all options, which are in increasing order of precedence.
///
/// # Errors
/// Names the option that is wrong or not supported, and its position.
pub(crate) fn translate(
    all: &[ForeignOption],
    context: &mut ConvertContext<'_>,
) -> Result<ConvertedOptions> {
    let mut out = ConvertedOptions::default();
    let mut request = SlurmRequest { list: Vec::new() };
    for option in all {
        match slurm_table::option(&option.option).map(|o| o.support) {
            Some(Support::Supported(_)) => request.list.push(option),
            Some(Support::NoEffect(why)) => out.note_no_effect(option, why),
            Some(Support::Refused(why)) => {
                return Err(option.refuse(&format!("it is not available here: {why}")));
            }
            // `help` and similar options.
            None => {}
        }
    }
    plain_options(&request, &mut out);
    mails(&request, &mut out)?;
    let slots = task_layout(&request, context.sbatch, &mut out)?;
    memory(&request, slots.as_ref(), &mut out)?;
    resources(&request, slots.as_ref(), &mut out)?;
    hosts(&request, &mut out)?;
    let array = name(&request, context, &mut out)?;
    files(&request, context, array, &mut out)?;
    times(&request, context, &mut out)?;
    environment(&request, context, &mut out)?;
    Ok(out)
}

/// --mail-type, together with --mail-user.
fn mails(request: &SlurmRequest<'_>, out: &mut ConvertedOptions) -> Result<()> {
    let mut events: Vec<&str> = Vec::new();
    for option in request.of_last_place("mail-type") {
        mail_events(&option.value, &mut events).map_err(|why| option.refuse(&why))?;
    }
    if !events.is_empty() {
        out.options.add("notify", &events.join(" "));
        if let Some(user) = request.text("mail-user").filter(|user| !user.is_empty()) {
            out.options.add("u", user);
        }
    }
    Ok(())
}

/// Adds the events of one --mail-type.
fn mail_events(text: &str, events: &mut Vec<&'static str>) -> Text<()> {
    for word in text.split(',').filter(|word| !word.is_empty()) {
        let more: &[&str] = match word.to_ascii_uppercase().as_str() {
            "NONE" => {
                events.clear();
                &[]
            }
            "BEGIN" => &["start"],
            "END" => &["done", "exit"],
            "FAIL" => &["exit"],
            "ALL" => &["start", "done", "exit"],
            _ => return Err("write BEGIN, END, FAIL, ALL or NONE".to_owned()),
        };
        for event in more {
            if !events.contains(event) {
                events.push(event);
            }
        }
    }
    Ok(())
}

/// Options whose value has the same form in csub.
fn plain_options(request: &SlurmRequest<'_>, out: &mut ConvertedOptions) {
    for (option, id) in [
        ("partition", "q"),
        ("account", "P"),
        ("comment", "Jd"),
        ("chdir", "cwd"),
        ("hold", "H"),
        ("wait", "K"),
    ] {
        if let Some(value) = request
            .text(option)
            .filter(|v| !v.is_empty() || id.len() == 1)
        {
            out.options.add(id, value);
        }
    }
    let of_rerun =
        |option: &&&ForeignOption| matches!(option.option.as_str(), "requeue" | "no-requeue");
    if let Some(last) = request.list.iter().rfind(of_rerun) {
        let id = if last.option == "requeue" { "r" } else { "rn" };
        out.options.add(id, "");
    }
}

fn task_layout(
    request: &SlurmRequest<'_>,
    sbatch: bool,
    out: &mut ConvertedOptions,
) -> Result<Option<SlotRequest>> {
    let mut shape = TaskLayout {
        tasks: request.read("ntasks", number)?,
        cpus: request.read("cpus-per-task", number)?,
        nodes: request.read("nodes", task_layout::hosts)?,
        per_node: request.read("ntasks-per-node", number)?,
    };
    let named = request.read("nodelist", host_count)?;
    // If several hosts are named, all of them are requested.
    if shape.nodes.is_none() && named.is_some_and(|n| n > 1) {
        shape.nodes = named;
    }
    if let Some(option) = request.get("exclusive") {
        match option.value.as_str() {
            "" => out.options.add("x", ""),
            _ => {
                return Err(
                    option.refuse("only whole hosts can be requested: --exclusive without a value")
                );
            }
        }
    }
    let slots = shape.slots().map_err(Fail::usage)?;
    if let (Some(named), Some(option)) = (named, request.get("nodelist"))
        && slots.hosts != Some(named)
    {
        return Err(option.refuse("name as many hosts as --nodes has: they are all used"));
    }
    if shape.is_empty() && !sbatch {
        return Ok(None);
    }
    out.options.add("n", &slots.slots.to_string());
    if let Some(span) = slots.span {
        out.options.add("R", &span.to_string());
    }
    out.facts.tasks = slots.tasks;
    out.facts.cpus = shape.cpus.unwrap_or(0);
    Ok(Some(slots))
}

fn host_count(text: &str) -> Text<u32> {
    let set = host_set(text)?;
    u32::try_from(set.items.len()).map_err(|_| "too many hosts".to_owned())
}

fn host_set(text: &str) -> Text<HostSet> {
    let set = HostSet::parse(&slurm::host_words(text)).map_err(|e| e.message)?;
    match set.items.iter().any(|i| i.exclude || i.preference > 0) {
        true => Err("name hosts, n1,n2 or n[1-3]".to_owned()),
        false => Ok(set),
    }
}

fn hosts(request: &SlurmRequest<'_>, out: &mut ConvertedOptions) -> Result<()> {
    let wanted = request.read("nodelist", host_set)?;
    let left_out = request.read("exclude", host_set)?;
    if wanted.is_none() && left_out.is_none() {
        return Ok(());
    }
    let mut text = wanted.map_or_else(|| "all".to_owned(), |set| set.to_string());
    for item in left_out.iter().flat_map(|set| &set.items) {
        let _ = write!(text, " ~{}", item.name);
    }
    out.options.add("m", &text);
    Ok(())
}

/// Slots on each host, or the maximum on one host; the job has one slot if none are requested.
fn on_host(slots: Option<&SlotRequest>) -> Option<u32> {
    slots.map_or(Some(1), |slots| slots.on_host)
}

fn memory(
    request: &SlurmRequest<'_>,
    slots: Option<&SlotRequest>,
    out: &mut ConvertedOptions,
) -> Result<()> {
    let whole = |text: &str| match slurm::memory(text)? {
        0 => Err("0 is the whole memory of a host: write how much".to_owned()),
        n => Ok(n),
    };
    let per_host = request.read("mem", whole)?;
    let per_slot = request.read("mem-per-cpu", whole)?;
    match (per_host, per_slot) {
        (None, None) => {}
        (Some(_), Some(_)) => {
            let text = "--mem and --mem-per-cpu cannot be given together";
            return Err(Fail::usage(text));
        }
        (Some(bytes), None) => {
            let text = mem_text(bytes);
            out.set_variable("SLURM_MEM_PER_NODE", &megabytes(bytes));
            out.options.add("R", &format!("rusage[mem={text}/host]"));
            out.options.add("M", &text);
        }
        (None, Some(bytes)) => {
            out.set_variable("SLURM_MEM_PER_CPU", &megabytes(bytes));
            let text = format!("rusage[mem={}/task]", mem_text(bytes));
            out.options.add("R", &text);
            if let Some(n) = on_host(slots) {
                let limit = bytes.saturating_mul(u64::from(n));
                out.options.add("M", &mem_text(limit));
            }
        }
    }
    Ok(())
}

fn megabytes(bytes: u64) -> String {
    bytes.div_ceil(1 << 20).to_string()
}

/// `gpu:2`, `gpu`, `NAME:N`; a type of GPU (`gpu:a100:2`) has no counterpart.
fn gres(text: &str) -> Text<Vec<(String, u32)>> {
    let mut all = Vec::new();
    for part in text.split(',').filter(|part| *part != "none") {
        let part = part.strip_prefix("gres/").unwrap_or(part);
        let fields: Vec<&str> = part.split([':', '=']).collect();
        let (name, n) = match fields[..] {
            [name] => (name, 1),
            [name, n] => (name, number(n).map_err(|e| format!("{part}: {e}"))?),
            _ => {
                return Err(format!(
                    "{part}: a type cannot be named: request it with --constraint"
                ));
            }
        };
        crate::text::names::check_name(name).map_err(|e| format!("{part}: {}", e.message))?;
        all.push((name.to_owned(), n));
    }
    Ok(all)
}

fn resources(
    request: &SlurmRequest<'_>,
    slots: Option<&SlotRequest>,
    out: &mut ConvertedOptions,
) -> Result<()> {
    let reserve = |out: &mut ConvertedOptions, name: &str, n: u32| {
        out.options.add("R", &format!("rusage[{name}={n}/host]"));
    };
    for (name, n) in request.read("gres", gres)?.into_iter().flatten() {
        reserve(out, &name, n);
    }
    if let Some(n) = request.read("gpus-per-node", number)? {
        reserve(out, "gpu", n);
    }
    let known = slots.map_or(Some(1), |slots| slots.hosts);
    let each = |all: u32| match known {
        Some(hosts) if all.is_multiple_of(hosts) => Ok(all / hosts),
        _ => Err("give --nodes: the hosts share them evenly".to_owned()),
    };
    if let Some(n) = request.read("gpus", |text| each(number(text)?))? {
        reserve(out, "gpu", n);
    }
    let tasks = slots.map_or(1, |slots| slots.tasks);
    let of_tasks = |text: &str| {
        let all = number(text)?.checked_mul(tasks);
        each(all.ok_or("too many")?)
    };
    if let Some(n) = request.read("gpus-per-task", of_tasks)? {
        reserve(out, "gpu", n);
    }
    let condition = |text: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_.&|()".contains(c);
        match !text.is_empty() && text.chars().all(plain) {
            true => Ok(text.replace('&', " && ").replace('|', " || ")),
            false => Err("write names joined by & and |".to_owned()),
        }
    };
    if let Some(text) = request.read("constraint", condition)? {
        out.options.add("R", &format!("select[{text}]"));
    }
    Ok(())
}

/// The name with the array. Returns true for an array.
fn name(
    request: &SlurmRequest<'_>,
    context: &ConvertContext<'_>,
    out: &mut ConvertedOptions,
) -> Result<bool> {
    let array = request.read("array", |text| {
        let list = IndexList::parse(text)?;
        match list.shift > 0 && !context.sbatch {
            true => Err("csub counts from 1: sbatch takes the index 0".to_owned()),
            false => Ok(list),
        }
    })?;
    let name = request.text("job-name").unwrap_or(context.name);
    if let Some(list) = &array {
        let back = |index: Option<u32>| index.unwrap_or(0) - list.shift;
        out.facts.array = Some(SlurmArray {
            min: back(list.indices.first()),
            max: back(list.indices.last()),
            step: list.indices.ranges().next().map_or(1, |range| range.step),
            count: u32::try_from(list.indices.len()).unwrap_or(u32::MAX),
            shift: list.shift,
        });
    }
    if !name.is_empty() || array.is_some() {
        let text = job_name(name, array.as_ref());
        let text = text.map_err(|why| match request.get("job-name") {
            Some(option) => option.refuse(&why),
            None => Fail::usage(why),
        })?;
        out.options.add("J", &text);
    }
    Ok(array.is_some())
}

fn files(
    request: &SlurmRequest<'_>,
    context: &ConvertContext<'_>,
    array: bool,
    out: &mut ConvertedOptions,
) -> Result<()> {
    let append = request.read("open-mode", |mode| match mode {
        "a" | "append" => Ok(true),
        "t" | "truncate" => Ok(false),
        _ => Err("write append or truncate".to_owned()),
    })?;
    let append = append.unwrap_or(false);
    let marks = PatternValues {
        name: request.text("job-name").unwrap_or(context.name),
        user: context.user,
        array,
    };
    let pattern = |text: &str| slurm::file_pattern(text, marks);
    let default = match (context.sbatch, array) {
        (false, _) => None,
        (true, false) => Some("slurm-%J.out".to_owned()),
        (true, true) => Some("slurm-%J_%I.out".to_owned()),
    };
    let output = request.read("output", pattern)?.or(default);
    let error = request.read("error", pattern)?;
    if let Some(path) = error.filter(|error| output.as_ref() != Some(error)) {
        out.options.add(if append { "e" } else { "eo" }, &path);
    }
    if let Some(path) = output {
        out.options.add(if append { "o" } else { "oo" }, &path);
    }
    if let Some(path) = request.read("input", pattern)? {
        out.options.add("i", &path);
    }
    Ok(())
}

fn times(
    request: &SlurmRequest<'_>,
    context: &mut ConvertContext<'_>,
    out: &mut ConvertedOptions,
) -> Result<()> {
    if let Some(seconds) = request.read("time", slurm::time_limit)?.flatten() {
        out.options.add("W", &format!("{seconds}s"));
    }
    let zone = jiff::tz::TimeZone::system();
    let now_ms = context.now_ms;
    out.begin = request.read("begin", |text| slurm::begin(text, now_ms, &zone))?;
    let shift = &mut *context.index_shift;
    if let Some(text) = request.read("dependency", |text| slurm::dependency(text, shift))? {
        out.options.add("w", &text);
    }
    let orphan = request.read("kill-on-invalid-dep", |text| match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("write yes or no".to_owned()),
    })?;
    if orphan == Some(true) {
        out.options.add("ti", "");
    }
    if let Some(text) = request.read("signal", signal)? {
        out.options.add("signal", &text);
    }
    Ok(())
}

/// `[B:]SIG[@SECONDS]` with the processes that get it: the shell of the script, or by default what
/// it started.
fn signal(text: &str) -> Text<String> {
    let (how, rest) = match text.split_once(':') {
        None => ("", text),
        Some((how, rest)) => (how, rest),
    };
    let to = match how {
        "" => WarnedProcesses::Steps,
        "B" => WarnedProcesses::Shell,
        _ => return Err(format!("{how}: is not available; B: is")),
    };
    let (signal, seconds) = match rest.split_once('@') {
        None => (rest, SIGNAL_S),
        Some((signal, seconds)) => (signal, number(seconds)?),
    };
    let bare = signal.strip_prefix("SIG").unwrap_or(signal);
    let is = |(name, n): &&(&str, i32)| *name == bare || n.to_string() == bare;
    match WARN_SIGNALS.iter().find(is) {
        Some((name, _)) => Ok(format!("{}{name}@{seconds}", to.prefix())),
        None => {
            let names: Vec<&str> = WARN_SIGNALS.iter().map(|(name, _)| *name).collect();
            Err(format!("give one of {}", names.join(" ")))
        }
    }
}

/// `ALL,A=1` in the form of `-env`.
fn export(text: &str) -> Text<String> {
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut quote = None;
        let end = rest.find(|c: char| {
            match quote {
                Some(open) if open == c => quote = None,
                None if c == '"' || c == '\'' => quote = Some(c),
                _ => {}
            }
            c == ',' && quote.is_none()
        });
        let (word, next) = rest.split_at(end.unwrap_or(rest.len()));
        words.push(match word {
            "ALL" => "all".to_owned(),
            "NONE" | "NIL" => "none".to_owned(),
            // csub would read the lower-case word as a keyword.
            "all" | "none" => return Err(format!("write {} in capitals", word)),
            word => word.to_owned(),
        });
        rest = next.strip_prefix(',').unwrap_or(next);
    }
    if !words.iter().any(|word| word == "all") {
        words.insert(0, "none".to_owned());
    }
    Ok(words.join(","))
}

fn environment(
    request: &SlurmRequest<'_>,
    context: &ConvertContext<'_>,
    out: &mut ConvertedOptions,
) -> Result<()> {
    if let Some(text) = request.read("export", export)? {
        out.options.add("env", &text);
    }
    (out.facts.of_csub, out.facts.submit_dir) = (!context.sbatch, context.cwd.to_owned());
    for (option, name) in [
        ("ntasks-per-node", "SLURM_NTASKS_PER_NODE"),
        ("gpus", "SLURM_GPUS"),
        ("gpus-per-node", "SLURM_GPUS_PER_NODE"),
        ("gpus-per-task", "SLURM_GPUS_PER_TASK"),
        ("dependency", "SLURM_JOB_DEPENDENCY"),
    ] {
        if let Some(value) = request.text(option) {
            out.set_variable(name, value);
        }
    }
    Ok(())
}
