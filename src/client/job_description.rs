//! Jobs described by keys and values, in a file or in the definition of a cron job.
//!
//! Owns the keys, each of which stands for an option of csub; the options define the allowed
//! values. Reads no file and submits nothing.

use super::definition_file::{Reader, entries};
use super::exit::Result;
use crate::text::command::quote;
use crate::text::yaml::{Entry, Node, Value};

/// The description of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Description {
    /// A command line, or a script file; the other field is empty.
    pub command: String,
    pub script: String,
    /// Options of csub, as one text.
    pub options: String,
    /// Options of csub that keys represent: name, value.
    pub named_options: Vec<(String, String)>,
    /// The position of the description, for messages.
    pub location: String,
}

/// Keys whose value is that of an option.
const TEXTS: [(&str, &str); 24] = [
    ("jobname", "J"),
    ("queue", "q"),
    ("application", "app"),
    ("project", "P"),
    ("usergroup", "G"),
    ("jobgroup", "g"),
    ("jobdescription", "Jd"),
    ("cwd", "cwd"),
    ("slots", "n"),
    ("begintime", "b"),
    ("deadline", "t"),
    ("maxruntime", "W"),
    ("starttimeout", "start-timeout"),
    ("infile", "i"),
    ("loginshell", "L"),
    ("containerimage", "di"),
    ("retries", "retries"),
    ("priority", "sp"),
    ("dependency", "w"),
    ("orphan", "orphan"),
    ("memory", "mem"),
    ("memlimit", "M"),
    ("launch", "launch"),
    ("params", "params"),
];
/// Keys with the value yes or no.
const FLAGS: [(&str, &str); 5] = [
    ("rerunnable", "r"),
    ("exclusive", "x"),
    ("hold", "H"),
    ("interactive", "I"),
    ("shellmode", "Is"),
];
/// Keys whose values have their own form.
const SPECIAL: [&str; 13] = [
    "command",
    "script",
    "options",
    "envs",
    "hosts",
    "minnumslots",
    "maxnumslots",
    "resource",
    "outfile",
    "errfile",
    "containeroptions",
    "hooks",
    "tasks",
];
/// Keys of other systems' descriptions that have no counterpart here.
const NOT_BUILT: [(&str, &str); 4] = [
    ("jobtype", "the type of a job follows from its other keys"),
    ("debug", "there is no such mode"),
    ("policies", "there are no policies for events of tasks"),
    ("preempt", "queues say what is preempted"),
];

/// Reads a description.
///
/// # Errors
/// Names the error and its position.
pub(super) fn read(node: &Node, place: &str) -> Result<Description> {
    let r = Reader { place };
    let mut out = Description {
        location: format!("{place}:{}", node.pos.line),
        ..Description::default()
    };
    let of = |key: &str| match key {
        "env" => "envs".to_owned(),
        "description" => "jobdescription".to_owned(),
        other => other.to_owned(),
    };
    let all = entries(node, "job", r, of)?;
    let mut slots = (None, None);
    let (mut resource, mut tasks) = (None, None);
    for (key, entry) in &all {
        let add = |out: &mut Description, option: &str, value: &str| {
            out.named_options
                .push((option.to_owned(), value.to_owned()));
        };
        if let Some((_, option)) = TEXTS.iter().find(|(name, _)| name == key) {
            add(&mut out, option, r.text(entry)?);
            continue;
        }
        if let Some((_, option)) = FLAGS.iter().find(|(name, _)| name == key) {
            if r.read_flag(entry)? {
                // An interactive shell implies interactive: its option covers both.
                out.named_options
                    .retain(|(id, _)| !(id == "I" && *option == "Is"));
                if !(*option == "I" && out.named_options.iter().any(|(id, _)| id == "Is")) {
                    add(&mut out, option, "");
                }
            }
            continue;
        }
        match key.as_str() {
            "command" => out.command = r.text(entry)?.to_owned(),
            "script" => out.script = r.text(entry)?.to_owned(),
            "options" => out.options = r.text(entry)?.to_owned(),
            "envs" => environment(entry, r, &mut out)?,
            "hosts" => add(&mut out, "m", &r.texts(entry)?.join(" ")),
            "minnumslots" => slots.0 = Some(r.small(entry)?),
            "maxnumslots" => slots.1 = Some(r.small(entry)?),
            "resource" => resource = Some(*entry),
            "tasks" => tasks = Some(*entry),
            "outfile" => output(entry, r, ["o", "oo"], &mut out)?,
            "errfile" => output(entry, r, ["e", "eo"], &mut out)?,
            "containeroptions" => {
                let words: Vec<String> = match &entry.value.value {
                    Value::List(_) => r.texts(entry)?.into_iter().map(quote).collect(),
                    _ => vec![r.text(entry)?.to_owned()],
                };
                add(&mut out, "do", &words.join(" "));
            }
            "hooks" => hooks(entry, r, &mut out)?,
            _ => return Err(unknown(entry, key, r)),
        }
    }
    let slots = match slots {
        (None, None) => None,
        (min, Some(max)) => Some(format!("{},{max}", min.unwrap_or(1))),
        (Some(min), None) => Some(min.to_string()),
    };
    out.named_options.extend(slots.map(|n| ("n".to_owned(), n)));
    request(&mut out, (resource, tasks), r)?;
    match (out.command.is_empty(), out.script.is_empty()) {
        (true, true) => Err(r.invalid(node.pos, "job: command or script is missing")),
        (false, false) => Err(r.invalid(node.pos, "job: give command or script, not both")),
        _ => Ok(out),
    }
}

fn unknown(entry: &Entry, key: &str, r: Reader<'_>) -> super::exit::Fail {
    if let Some((_, why)) = NOT_BUILT.iter().find(|(name, _)| *name == key) {
        let text = format!("{} is not implemented in this version: {why}", entry.key);
        return r.invalid(entry.key_pos, text);
    }
    let texts = TEXTS.iter().chain(&FLAGS).map(|(name, _)| *name);
    r.unknown(entry, texts.chain(SPECIAL))
}

/// A value in the form of `-env`, a list of `NAME=VALUE`, or a map.
fn environment(entry: &Entry, r: Reader<'_>, out: &mut Description) -> Result<()> {
    let mut put = |text: String| out.named_options.push(("env".to_owned(), text));
    match &entry.value.value {
        Value::Map(entries) => {
            for variable in entries {
                put(setting(&variable.key, r.text(variable)?, variable, r)?);
            }
        }
        Value::List(_) => {
            for text in r.texts(entry)? {
                match text.split_once('=') {
                    Some((name, value)) => put(setting(name, value, entry, r)?),
                    None => put(text.to_owned()),
                }
            }
        }
        _ => put(r.text(entry)?.to_owned()),
    }
    Ok(())
}

/// One variable in the form of `-env`, in which commas separate variables.
fn setting(name: &str, value: &str, entry: &Entry, r: Reader<'_>) -> Result<String> {
    if !value.contains(',') && !value.starts_with(['\'', '"']) {
        return Ok(format!("{name}={value}"));
    }
    match ['\'', '"']
        .into_iter()
        .find(|quote| !value.contains(*quote))
    {
        Some(quote) => Ok(format!("{name}={quote}{value}{quote}")),
        None => {
            let text = format!("{name}: a value with a comma cannot have both kinds of quotes");
            Err(r.invalid(entry.value.pos, text))
        }
    }
}

/// A path, or `{name: PATH, overwrite: yes}`. `options`: the options to append and to overwrite.
fn output(entry: &Entry, r: Reader<'_>, options: [&str; 2], out: &mut Description) -> Result<()> {
    let (mut path, mut over) = (None, false);
    match &entry.value.value {
        Value::Map(_) => {
            for (key, inner) in entries(&entry.value, &entry.key, r, str::to_owned)? {
                match key.as_str() {
                    "name" => path = Some(r.text(inner)?),
                    "overwrite" => over = r.read_flag(inner)?,
                    _ => return Err(r.unknown(inner, ["name", "overwrite"].into_iter())),
                }
            }
        }
        _ => path = Some(r.text(entry)?),
    }
    let Some(path) = path else {
        return Err(r.invalid(entry.value.pos, format!("{}: name is missing", entry.key)));
    };
    let option = options[usize::from(over)].to_owned();
    out.named_options.push((option, path.to_owned()));
    Ok(())
}

fn hooks(entry: &Entry, r: Reader<'_>, out: &mut Description) -> Result<()> {
    for (key, inner) in entries(&entry.value, &entry.key, r, str::to_owned)? {
        let option = match key.as_str() {
            "pre" => "E",
            "post" => "Ep",
            _ => return Err(r.unknown(inner, ["pre", "post"].into_iter())),
        };
        out.named_options
            .push((option.to_owned(), r.text(inner)?.to_owned()));
    }
    Ok(())
}

/// Parts of a requirement: those that a section may have, and those that apply to all hosts
/// together.
#[derive(Default)]
struct RequirementParts {
    sections: Vec<String>,
    span: Option<String>,
}

impl RequirementParts {
    fn text(self) -> String {
        let parts: Vec<String> = self.sections.into_iter().chain(self.span).collect();
        parts.join(" ")
    }
}

/// The requirement, including the sections of a job with several kinds of tasks.
fn request(
    out: &mut Description,
    (resource, tasks): (Option<&Entry>, Option<&Entry>),
    r: Reader<'_>,
) -> Result<()> {
    let whole = resource.map(|entry| resource_of(entry, r)).transpose()?;
    let Some(tasks) = tasks else {
        let text = whole
            .map(RequirementParts::text)
            .filter(|text| !text.is_empty());
        out.named_options
            .extend(text.map(|text| ("R".to_owned(), text)));
        return Ok(());
    };
    let Value::List(nodes) = &tasks.value.value else {
        return Err(r.invalid(tasks.value.pos, "tasks: give a list"));
    };
    let whole = whole.unwrap_or_default();
    if let Some(entry) = resource.filter(|_| !whole.sections.is_empty()) {
        let text = "resource: with tasks it may only have colocate and max_per_host; give the rest \
                    to the tasks";
        return Err(r.invalid(entry.value.pos, text));
    }
    let mut parts = Vec::new();
    for node in nodes {
        parts.push(task(node, out, r)?);
    }
    parts.extend(whole.span);
    out.named_options.push(("R".to_owned(), parts.join(" ")));
    Ok(())
}

/// One kind of tasks; returns its section of the requirement.
fn task(node: &Node, out: &mut Description, r: Reader<'_>) -> Result<String> {
    const KEYS: [&str; 4] = ["name", "replicas", "resource", "command"];
    let (mut name, mut replicas, mut request, mut command) =
        ("", 1, RequirementParts::default(), "");
    for (key, entry) in entries(node, "a task", r, str::to_owned)? {
        match key.as_str() {
            "name" => name = r.text(entry)?,
            "replicas" => replicas = r.small(entry)?,
            "resource" => request = resource_of(entry, r)?,
            "command" => command = r.text(entry)?,
            "main" | "policies" => {
                let text = format!("{} is not implemented in this version", entry.key);
                return Err(r.invalid(entry.key_pos, text));
            }
            _ => return Err(r.unknown(entry, KEYS.into_iter())),
        }
    }
    if name.is_empty() {
        return Err(r.invalid(node.pos, "the name of this task is missing"));
    }
    let section = match command {
        "" => name.to_owned(),
        command => format!("{name}={command}"),
    };
    out.named_options.push(("section".to_owned(), section));
    if out.command.is_empty() && out.script.is_empty() {
        // Each section has its own command; that of the first is used for the job.
        out.command = command.to_owned();
    }
    Ok(format!("{replicas}{{{}}}", request.text()))
}

/// A requirement given as text or by its parts.
fn resource_of(entry: &Entry, r: Reader<'_>) -> Result<RequirementParts> {
    const KEYS: [&str; 5] = ["select", "need", "sort", "colocate", "maxperhost"];
    let mut out = RequirementParts::default();
    if !matches!(entry.value.value, Value::Map(_)) {
        out.sections.push(r.text(entry)?.to_owned());
        return Ok(out);
    }
    for (key, part) in entries(&entry.value, &entry.key, r, str::to_owned)? {
        match key.as_str() {
            "select" => out.sections.push(format!("select[{}]", r.text(part)?)),
            "need" => out.sections.push(format!("rusage[{}]", r.text(part)?)),
            "sort" => out.sections.push(format!("order[{}]", r.text(part)?)),
            "colocate" if !r.read_flag(part)? => {}
            "colocate" | "maxperhost" => {
                let span = match key.as_str() {
                    "colocate" => "span[hosts=1]".to_owned(),
                    _ => format!("span[ptile={}]", r.small(part)?),
                };
                if out.span.replace(span).is_some() {
                    let text = "colocate and max_per_host exclude each other";
                    return Err(r.invalid(part.key_pos, text));
                }
            }
            _ => return Err(r.unknown(part, KEYS.into_iter())),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::definition_file::tree;
    use super::*;

    fn read_text(text: &str) -> Result<Description> {
        read(&tree(text.as_bytes(), "j.json")?, "j.json")
    }

    fn options(text: &str) -> Vec<String> {
        let read = read_text(text).unwrap_or_else(|fail| panic!("{text}: {}", fail.text));
        let shown = |(id, value): (String, String)| match value.as_str() {
            "" => format!("-{id}"),
            value => format!("-{id} {value}"),
        };
        read.named_options.into_iter().map(shown).collect()
    }

    #[test]
    fn the_form_of_the_portal_is_read() {
        let read = read_text(
            "{\"Command\": \"mpirun mympi\", \"Interactive\": false, \"MinNumSlots\": 8}",
        );
        let read = read.unwrap();
        assert_eq!(read.command, "mpirun mympi");
        assert_eq!(read.named_options, [("n".to_owned(), "8".to_owned())]);
    }

    #[test]
    fn keys_are_options() {
        for (text, want) in [
            ("MaxNumSlots: 4", &["-n 1,4"][..]),
            ("{min_num_slots: 2, MaxNumSlots: 4}", &["-n 2,4"]),
            ("Hosts: [a, b]", &["-m a b"]),
            ("Envs: ['A=1', 'B=x y']", &["-env A=1", "-env B=x y"]),
            ("env: {A: 1}", &["-env A=1"]),
            ("env: {A: \"1,'2'\"}", &["-env A=\"1,'2'\""]),
            ("env: [all, 'A=1,2']", &["-env all", "-env A='1,2'"]),
            ("env: 'none, A=1'", &["-env none, A=1"]),
            ("OutFile: {Name: o, Overwrite: true}", &["-oo o"]),
            ("{OutFile: {Name: o}, ErrFile: e}", &["-o o", "-e e"]),
            (
                "Resource: {Select: 'mem > 5', Need: 'mem=5G', Sort: mem, MaxPerHost: 2}",
                &["-R select[mem > 5] rusage[mem=5G] order[mem] span[ptile=2]"],
            ),
            ("Resource: {Colocate: true}", &["-R span[hosts=1]"]),
            ("Resource: {Colocate: false}", &[]),
            ("Resource: 'rusage[mem=1]'", &["-R rusage[mem=1]"]),
            ("{Interactive: true, ShellMode: true}", &["-Is"]),
            ("{ShellMode: true, Interactive: true}", &["-Is"]),
            ("ContainerOptions: [--net, 'a b']", &["-do --net 'a b'"]),
            ("Hooks: {Pre: ./in, Post: ./out}", &["-E ./in", "-Ep ./out"]),
            ("{Queue: null, Project: p}", &["-P p"]),
            (
                "Tasks: [{Name: ps, Resource: {Need: mem=8G}}, {Name: w, Replicas: 4, Command: ./w}]",
                &["-section ps", "-section w=./w", "-R 1{rusage[mem=8G]} 4{}"],
            ),
            (
                "{Tasks: [{Name: a}], Resource: {Colocate: yes}}",
                &["-section a", "-R 1{} span[hosts=1]"],
            ),
        ] {
            let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
            let whole = format!("{{Command: x, {}}}", inner.unwrap_or(text));
            assert_eq!(options(&whole), want, "{whole}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named_with_its_place() {
        for (text, want) in [
            ("{Comand: x}", "j.json:1:2: no key is named 'Comand' here"),
            (
                "{Queue: q}",
                "j.json:1:1: job: command or script is missing",
            ),
            (
                "{Command: x, Script: y}",
                "j.json:1:1: job: give command or",
            ),
            (
                "{Command: x, command: y}",
                "j.json:1:14: command: it was given",
            ),
            (
                "{Command: x, env: A=1, Envs: B=1}",
                "j.json:1:24: Envs: it was",
            ),
            (
                "{Command: x, env: {A: \"',\\\"\"}}",
                "j.json:1:23: A: a value with",
            ),
            (
                "{Command: x, Preempt: g}",
                "j.json:1:14: Preempt is not impl",
            ),
            (
                "{Command: x, Interactive: maybe}",
                "j.json:1:27: Interactive: w",
            ),
            (
                "{Command: x, MinNumSlots: many}",
                "j.json:1:27: MinNumSlots: 'm",
            ),
            (
                "{Command: x, Resource: {Need: a, Nead: b}}",
                "j.json:1:34: no key",
            ),
            (
                "{Command: x, Resource: {Colocate: yes, MaxPerHost: 2}}",
                "j.json:1:40: colocate and max_per_host exclude",
            ),
            (
                "{Command: x, OutFile: {Overwrite: yes}}",
                "j.json:1:23: OutFile: na",
            ),
            (
                "{Command: x, Tasks: [{Replicas: 2}]}",
                "j.json:1:22: the name of t",
            ),
            (
                "{Command: x, Tasks: [{Name: a}], Resource: {Need: m=1}}",
                "j.json:1:44: resource: with tasks",
            ),
            ("[1]", "j.json:1:1: job: give a map"),
            ("", "j.json:1:1: the file is empty"),
        ] {
            let fail = read_text(text).expect_err(text);
            assert!(fail.text.starts_with(want), "{text}: {}", fail.text);
        }
    }
}
