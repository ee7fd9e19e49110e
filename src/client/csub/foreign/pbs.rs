//! `#PBS` lines of a script as options of csub: those of PBS and those of Torque.

use super::conversion::{
    ConvertContext, ConvertedOptions, ForeignOption, env_text, job_name, mem_text, number,
};
use super::task_layout::TaskLayout;
use crate::client::exit::{Fail, Result};
use crate::model::PbsJob;
use crate::text::slurm::{self, IndexList};
use std::collections::BTreeMap;

type Text<T> = std::result::Result<T, String>;

/// Options with a value, and those without.
const WITH_VALUE: &str = "AaCcdejJklmMNopPqrStuvW";
const FLAGS: &str = "hVzIXfx";

/// The options of one line.
///
/// # Errors
/// Names what is not an option.
pub(super) fn line_options(words: &[String], at: &str) -> Result<Vec<ForeignOption>> {
    let wrong = |text: &str, why: &str| {
        let text = crate::text::width::escape(text);
        Fail::usage(format!("{at}{text}: {why}"))
    };
    let mut all = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut chars = word.chars();
        let letter = match (chars.next(), chars.next()) {
            (Some('-'), Some(letter)) => letter,
            _ => return Err(wrong(word, "it is not an option")),
        };
        let attached = chars.as_str();
        let value = match (WITH_VALUE.contains(letter), attached) {
            (true, "") => {
                let next = words.next().cloned();
                next.ok_or_else(|| wrong(word, "its value is missing"))?
            }
            (true, attached) => attached.to_owned(),
            (false, "") if FLAGS.contains(letter) => String::new(),
            _ => return Err(wrong(word, "it is not an option")),
        };
        all.push(ForeignOption {
            option: letter.to_string(),
            value,
            location: at.to_owned(),
        });
    }
    Ok(all)
}

/// What `-l` and similar options request, collected from all lines.
#[derive(Default)]
struct PbsRequest {
    shape: TaskLayout,
    /// Each chunk on its own host; all chunks on one host.
    scatter: bool,
    pack: bool,
    memory: PbsMemory,
    /// GPUs of each chunk or host.
    gpus: Option<u32>,
    /// Which of the resources that divide a job into chunks were given: select, nodes, or neither
    /// of them.
    divided: Vec<&'static str>,
    /// Processes of a chunk, and threads of each.
    ranks: Option<u32>,
    threads: Option<u32>,
    walltime_s: Option<u64>,
    directory: bool,
    name: String,
    array: Option<IndexList>,
    files: PbsFiles,
    mail: PbsMail,
}

/// Requested memory in bytes.
#[derive(Default)]
struct PbsMemory {
    slot: Option<u64>,
    /// For the whole job.
    job: Option<u64>,
    chunk: Option<u64>,
}

/// `-o`, `-e`, `-j`.
#[derive(Default)]
struct PbsFiles {
    output: Option<String>,
    error: Option<String>,
    join: String,
}

/// `-m` and `-M`.
#[derive(Default)]
struct PbsMail {
    /// Words of csub's -notify; `None`: -m was not given.
    events: Option<String>,
    recipients: String,
}

/// All options of a script.
///
/// # Errors
/// Names the option that is wrong or not supported, with its line.
pub(super) fn translate(
    all: &[ForeignOption],
    context: &mut ConvertContext<'_>,
) -> Result<ConvertedOptions> {
    let mut out = ConvertedOptions::default();
    let mut request = PbsRequest::default();
    for option in all {
        apply_option(option, &mut request, context, &mut out).map_err(|why| option.refuse(&why))?;
    }
    slots_and_memory(&request, &mut out).map_err(Fail::usage)?;
    chunks(&request, &mut out);
    if request.name.is_empty() {
        context.name.clone_into(&mut request.name);
    }
    files(&request, context, &mut out);
    mails(&request, &mut out);
    if !request.name.is_empty() || request.array.is_some() {
        let text = job_name(&request.name, request.array.as_ref());
        out.options.add("J", &text.map_err(Fail::usage)?);
    }
    Ok(out)
}

/// The variables that tell a job about the submission. `value`: of a variable of the caller.
pub(crate) fn submission_variables(
    cwd: &str,
    value: &dyn Fn(&str) -> Option<String>,
) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let mut set = |name: &str, value: String| out.insert(format!("PBS_O_{name}"), value);
    for name in ["WORKDIR", "INITDIR"] {
        set(name, cwd.to_owned());
    }
    for name in ["HOME", "LOGNAME", "PATH", "SHELL", "LANG", "MAIL", "TZ"] {
        set(name, value(name).unwrap_or_default());
    }
    set("SYSTEM", "Linux".to_owned());
    out
}

/// The variables that describe the chunks of the job.
fn chunks(request: &PbsRequest, out: &mut ConvertedOptions) {
    let shape = request.shape;
    if let Some(seconds) = request.walltime_s {
        out.set_variable("PBS_WALLTIME", &seconds.to_string());
    }
    let Some(cpus) = shape.cpus else {
        return;
    };
    // PBS starts one process in a chunk if none are requested.
    out.pbs = PbsJob {
        cpus,
        ranks: request.ranks.unwrap_or(1),
    };
    out.set_variable("NCPUS", &cpus.to_string());
    let threads = request.threads.unwrap_or(cpus);
    out.set_variable("OMP_NUM_THREADS", &threads.to_string());
}

fn apply_option(
    option: &ForeignOption,
    request: &mut PbsRequest,
    context: &mut ConvertContext<'_>,
    out: &mut ConvertedOptions,
) -> Text<()> {
    let value = option.value.as_str();
    match option.option.as_str() {
        "N" => request.name = value.to_owned(),
        "q" if value.contains('@') => return Err("another server cannot be named".to_owned()),
        "q" => out.options.add("q", value),
        "A" => out.options.add("P", value),
        "l" => resources(value, request, out)?,
        "o" => request.files.output = Some(path(value)),
        "e" => request.files.error = Some(path(value)),
        "j" => request.files.join = value.to_owned(),
        "J" | "t" => request.array = Some(array(value)?),
        "W" => attributes(value, out)?,
        "V" => {}
        "v" => variables(value, out)?,
        "h" => out.options.add("H", ""),
        "r" => match value {
            "y" => out.options.add("r", ""),
            "n" => out.options.add("rn", ""),
            _ => return Err("write y or n".to_owned()),
        },
        "a" => {
            let zone = jiff::tz::TimeZone::system();
            out.begin = Some(slurm::pbs_moment(value, context.now_ms, &zone)?);
        }
        "S" => out.options.add("L", value),
        "d" => {
            out.options.add("cwd", value);
            request.directory = true;
        }
        "m" => request.mail.events = Some(mail_events(value)?),
        "M" => request.mail.recipients = value.to_owned(),
        "k" => out.note_no_effect(option, "output goes to its place while the job runs"),
        "p" => out.note_no_effect(option, "queues and shares decide the order of jobs"),
        "P" => out.note_no_effect(option, "-A names the project"),
        "z" | "f" | "X" => out.note_no_effect(option, "it is an option of the command line"),
        "C" => return Err("lines with another prefix are not read".to_owned()),
        "I" => return Err("csub -I makes a job interactive".to_owned()),
        "c" => return Err("csub -k saves the state of jobs".to_owned()),
        "u" => return Err("a job belongs to its submitter".to_owned()),
        _ => return Err("it is not available".to_owned()),
    }
    Ok(())
}

/// `-m abe`; `n` means no mail.
fn mail_events(value: &str) -> Text<String> {
    let mut words = Vec::new();
    for letter in value.chars() {
        match letter {
            'n' => {}
            'a' => words.push("exit"),
            'b' => words.push("start"),
            'e' => words.push("done exit"),
            _ => return Err("write a, b, e or n".to_owned()),
        }
    }
    Ok(words.join(" "))
}

/// An address alone requests mail about failures, as in PBS.
fn mails(request: &PbsRequest, out: &mut ConvertedOptions) {
    let events = match (&request.mail.events, request.mail.recipients.is_empty()) {
        (Some(events), _) => events,
        (None, true) => return,
        (None, false) => "exit",
    };
    if !events.is_empty() {
        out.options.add("notify", events);
        if !request.mail.recipients.is_empty() {
            out.options.add("u", &request.mail.recipients);
        }
    }
}

/// A path, possibly after a host name. The id of an element contains its index.
fn path(text: &str) -> String {
    let path = match text.split_once(':') {
        Some((host, path)) if !host.contains('/') => path,
        _ => text,
    };
    path.replace('%', "%%")
        .replace("$PBS_JOBID", "%J")
        .replace("${PBS_JOBID}", "%J")
        .replace("^array_index^", "%I")
}

fn array(text: &str) -> Text<IndexList> {
    let list = IndexList::parse(text)?;
    match list.shift {
        0 => Ok(list),
        _ => Err("csub counts from 1: there is no index 0".to_owned()),
    }
}

/// `-W name=value[,name=value]`.
fn attributes(text: &str, out: &mut ConvertedOptions) -> Text<()> {
    let mut all: Vec<String> = Vec::new();
    for part in text.split(',') {
        match all.last_mut() {
            // The values of an attribute are separated by commas, too.
            Some(last) if !part.contains('=') => {
                last.push(',');
                last.push_str(part);
            }
            _ => all.push(part.to_owned()),
        }
    }
    all.iter().try_for_each(|one| attribute(one, out))
}

fn attribute(text: &str, out: &mut ConvertedOptions) -> Text<()> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    match name {
        "depend" => out.options.add("w", &slurm::pbs_dependency(value)?),
        "group_list" => out.options.add("G", value),
        "umask" | "sandbox" | "block" | "stagein" | "stageout" => {
            return Err(format!("{name} is not available"));
        }
        _ => {
            let name = crate::text::width::escape(name);
            return Err(format!("{name} is not available; depend is"));
        }
    }
    Ok(())
}

/// The parts of a list at its commas; a value in quotes may contain commas.
fn outside_quotes(text: &str) -> impl Iterator<Item = &str> {
    let mut quote = None;
    text.split(move |c: char| {
        match quote {
            Some(open) if open == c => quote = None,
            None if c == '"' || c == '\'' => quote = Some(c),
            Some(_) | None => {}
        }
        c == ',' && quote.is_none()
    })
}

fn variables(text: &str, out: &mut ConvertedOptions) -> Text<()> {
    for word in outside_quotes(text).filter(|word| !word.is_empty()) {
        // A plain name needs no entry: all variables are sent anyway.
        let Some((name, value)) = word.split_once('=') else {
            continue;
        };
        let text = env_text(name.trim(), value.trim_matches(['"', '\'']));
        out.options.add("env", &text.ok_or("both kinds of quotes")?);
    }
    Ok(())
}

/// `-l name=value[,name=value]`.
fn resources(text: &str, request: &mut PbsRequest, out: &mut ConvertedOptions) -> Text<()> {
    for part in text.split(',') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match name {
            "walltime" => {
                let seconds = slurm::walltime(value)?;
                request.walltime_s = Some(seconds);
                out.options.add("W", &format!("{seconds}s"));
            }
            "cput" => {
                let seconds = slurm::walltime(value)?;
                out.options.add("c", &format!("{seconds}s"));
            }
            "select" => {
                divide(request, "select")?;
                select(value, request, out)?;
            }
            "nodes" => {
                divide(request, "nodes")?;
                nodes(value, request)?;
            }
            "procs" => {
                divide(request, "procs")?;
                request.shape.tasks = Some(number(value)?);
            }
            "ncpus" => {
                divide(request, "ncpus")?;
                request.shape.cpus = Some(number(value)?);
            }
            "ngpus" | "gpus" => request.gpus = Some(number(value)?),
            "mem" => request.memory.job = Some(slurm::pbs_size(value)?),
            "pmem" => request.memory.slot = Some(slurm::pbs_size(value)?),
            "vmem" => out.options.add("v", &mem_text(slurm::pbs_size(value)?)),
            "file" => out.options.add("F", &mem_text(slurm::pbs_size(value)?)),
            "place" => place(value, request, out)?,
            _ => {
                let name = crate::text::width::escape(name);
                return Err(format!("{name} is not available"));
            }
        }
    }
    Ok(())
}

/// Notes what divides the job: one request, since several would have to be merged.
fn divide(request: &mut PbsRequest, name: &'static str) -> Text<()> {
    match request.divided.first() {
        Some(first) if *first == name => Err(format!("{name} is given twice: give one of them")),
        Some(first) => Err(format!(
            "{name} is given beside {first}: give only one of them"
        )),
        None => {
            request.divided.push(name);
            Ok(())
        }
    }
}

/// `N:ncpus=C:mpiprocs=M:mem=S:ngpus=G`.
fn select(text: &str, request: &mut PbsRequest, out: &mut ConvertedOptions) -> Text<()> {
    if text.contains('+') {
        return Err("select: chunks of several kinds are not available".to_owned());
    }
    let mut parts = text.split(':').peekable();
    let chunks = parts.next_if(|part| !part.contains('='));
    let chunks = chunks.map_or(Ok(1), number)?;
    let mut cpus = 1;
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match name {
            "ncpus" => cpus = number(value)?,
            // The slots of a chunk are given by ncpus.
            "mpiprocs" => request.ranks = Some(number(value)?),
            "ompthreads" => request.threads = Some(number(value)?),
            "mem" => request.memory.chunk = Some(slurm::pbs_size(value)?),
            "ngpus" => request.gpus = Some(number(value)?),
            "host" | "vnode" if chunks == 1 => out.options.add("m", value),
            _ => {
                let name = crate::text::width::escape(name);
                return Err(format!("select: {name} is not available"));
            }
        }
    }
    request.shape.tasks = Some(chunks);
    request.shape.cpus = Some(cpus);
    Ok(())
}

/// `N:ppn=P:gpus=G`.
fn nodes(text: &str, request: &mut PbsRequest) -> Text<()> {
    if text.contains('+') {
        return Err("nodes: hosts of several kinds are not available".to_owned());
    }
    let mut parts = text.split(':');
    request.shape.nodes = Some(number(parts.next().unwrap_or_default())?);
    for part in parts {
        match part.split_once('=') {
            Some(("ppn", n)) => request.shape.per_node = Some(number(n)?),
            Some(("gpus", n)) => request.gpus = Some(number(n)?),
            _ => {
                let part = crate::text::width::escape(part);
                return Err(format!("nodes: {part} is not available"));
            }
        }
    }
    Ok(())
}

fn place(text: &str, request: &mut PbsRequest, out: &mut ConvertedOptions) -> Text<()> {
    for word in text.split(':') {
        match word {
            "free" | "shared" => {}
            "scatter" => request.scatter = true,
            "pack" => request.pack = true,
            "excl" | "exclhost" => out.options.add("x", ""),
            _ => {
                let word = crate::text::width::escape(word);
                return Err(format!("place: {word} is not available"));
            }
        }
    }
    Ok(())
}

/// Slots, memory and GPUs.
fn slots_and_memory(request: &PbsRequest, out: &mut ConvertedOptions) -> Text<()> {
    let mut shape = request.shape;
    if request.scatter && shape.nodes.is_none() {
        shape.nodes = shape.tasks;
    }
    if request.pack {
        shape.nodes = Some(1);
    }
    let slots = shape.slots()?;
    if !shape.is_empty() {
        out.options.add("n", &slots.slots.to_string());
        if let Some(span) = slots.span {
            out.options.add("R", &span.to_string());
        }
    }
    let cpus = u64::from(shape.cpus.unwrap_or(1));
    let all = u64::from(slots.slots);
    if request.memory.chunk.is_some() && request.memory.job.is_some() {
        return Err(
            "-l mem is given beside the memory of the chunks: give it in select".to_owned(),
        );
    }
    // For each slot, since chunks may be on one host or on several.
    let per_slot = match (
        request.memory.slot,
        request.memory.chunk,
        request.memory.job,
    ) {
        (Some(bytes), ..) => Some(bytes),
        (None, Some(bytes), _) => Some(bytes.div_ceil(cpus)),
        (None, None, Some(bytes)) => Some(bytes.div_ceil(all)),
        _ => None,
    };
    if let Some(bytes) = per_slot.filter(|bytes| *bytes > 0) {
        let text = format!("rusage[mem={}/task]", mem_text(bytes));
        out.options.add("R", &text);
        if let Some(n) = slots.on_host {
            let limit = bytes.saturating_mul(u64::from(n));
            out.options.add("M", &mem_text(limit));
        }
    }
    if let Some(n) = request.gpus {
        if slots.hosts.is_none() {
            return Err("GPUs of chunks need place=scatter or place=pack".to_owned());
        }
        let n = match request.pack {
            true => n.saturating_mul(slots.tasks),
            false => n,
        };
        out.options.add("R", &format!("rusage[gpu={n}/host]"));
    }
    Ok(())
}

/// `-o`, `-e` and `-j`: the output is always in files, as PBS makes them.
fn files(request: &PbsRequest, context: &ConvertContext<'_>, out: &mut ConvertedOptions) {
    let path = |given: &Option<String>, letter: char| file(request, context, given, letter);
    let (output, error) = match request.files.join.as_str() {
        "oe" => (path(&request.files.output, 'o'), None),
        "eo" => (path(&request.files.error, 'e'), None),
        _ => (
            path(&request.files.output, 'o'),
            Some(path(&request.files.error, 'e')),
        ),
    };
    out.options.add("oo", &output);
    if let Some(path) = error {
        out.options.add("eo", &path);
    }
}

/// The path of an output file: `NAME.oID` if only its directory is given, or nothing. The files of
/// the elements of an array differ.
fn file(
    request: &PbsRequest,
    context: &ConvertContext<'_>,
    given: &Option<String>,
    letter: char,
) -> String {
    let name = match context.given_name {
        "" => request.name.as_str(),
        given => given,
    };
    let index = if request.array.is_some() { ".%I" } else { "" };
    let name = name.replace('/', "_").replace('%', "%%");
    let own = format!("{name}.{letter}%J{index}");
    let path = match given.as_deref() {
        None => own,
        Some(path) if path.ends_with('/') => format!("{path}{own}"),
        Some(path) if (context.is_directory)(&path.replace("%%", "%")) => format!("{path}/{own}"),
        Some(path) if path == "/dev/null" || path.contains("%I") => path.to_owned(),
        Some(path) => format!("{path}{index}"),
    };
    // A path is that of the submission, also if the job runs elsewhere.
    match request.directory && !path.starts_with('/') {
        true => format!("{}/{path}", context.cwd.replace('%', "%%")),
        false => path,
    }
}
