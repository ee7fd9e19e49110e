//! A job that another program describes by a function call (libdrmaa), not by a command line.
//!
//! Options are those of `csub`, parsed by the same parser; exact values from the caller are used
//! unchanged. Prints nothing, reads no standard input, does not change the umask.

use super::options::{self, JobOptions};
use super::script::{self, Payload};
use super::template::{self, TemplateJob};
use super::{NoEffect, SubmitContext, dry_run, environ, esub, spec};
use crate::client::cli::Table;
use crate::client::env::Site;
use crate::client::exit::{Fail, Result};
use crate::client::limit_unit::limit_unit;
use crate::model::{Stamp, Submission};
use crate::record::request::RequestHead;
use crate::sys;
use crate::task::build::exact_command;
use crate::text::size::Unit;
use std::collections::BTreeMap;
use std::path::Path;

/// Options that a function call does not accept, and why.
const REFUSED_OPTIONS: &[(&str, &str)] = &[
    ("I", "no command waits for the job"),
    ("Ip", "no command waits for the job"),
    ("Is", "no command waits for the job"),
    ("XF", "no command waits for the job"),
    ("K", "the program itself waits for the job"),
    ("pack", "one job is submitted"),
    ("params", "the call states the number of jobs"),
    ("spec", "the call describes the job"),
    ("clone", "the call describes the job"),
    (
        "wait",
        "CB_ASK_TIMEOUT in the environment sets how long an answer is awaited",
    ),
    ("verbose", "nothing is printed"),
    ("dry-run", "nothing is printed"),
    ("jsonl", "nothing is printed"),
    ("help", "nothing is printed"),
    ("version", "nothing is printed"),
];

/// See the top of this file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgramJob<'a> {
    /// Option words in the form of `csub`.
    pub options: &'a [String],
    /// The program and its arguments, which no shell interprets.
    pub command: &'a [String],
    /// Instead of `command`: a command line that a shell interprets.
    pub line: &'a str,
    /// Instead of both: the text of a script, whose option lines apply.
    pub script: &'a str,
    /// Instead of a program and a script: the name of a template and the values of its parameters.
    pub template: Option<(&'a str, &'a [(String, String)])>,
    /// Options that the caller gives by name: name, value.
    pub named_options: &'a [(&'static str, String)],
    /// Variables that override those of this process.
    pub env: &'a [(String, String)],
    /// Name of the job; empty: its command.
    pub name: &'a str,
    /// Index list of an array; empty: no array.
    pub array: &'a str,
    pub hold: bool,
    pub begin: Option<Stamp>,
    pub deadline: Option<Stamp>,
    pub run_limit_s: Option<u64>,
}

/// A description, prepared for sending.
#[derive(Clone, Debug)]
pub(crate) struct PreparedJob {
    pub job: Submission,
    pub head: RequestHead,
    /// Options that were accepted and have no effect.
    pub warning: Option<String>,
}

/// Why a description cannot be submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PrepareError {
    /// This option is given both as an option and by the caller.
    DuplicateOption(&'static str),
    Invalid(Fail),
}

impl From<Fail> for PrepareError {
    fn from(fail: Fail) -> PrepareError {
        PrepareError::Invalid(fail)
    }
}

impl From<sys::Error> for PrepareError {
    fn from(e: sys::Error) -> PrepareError {
        PrepareError::Invalid(e.into())
    }
}

/// The options of a line; refuses those that are meaningless in a call.
///
/// # Errors
/// Those of `csub` for a wrong option.
fn parse_options(words: &[String]) -> Result<JobOptions> {
    let table = Table::new(options::csub());
    let split = table.split(words).map_err(|e| Fail::usage(e.to_string()))?;
    if let Some(word) = split.operands.first() {
        let shown = crate::text::width::escape(word);
        return Err(Fail::usage(format!("'{shown}' is not an option")));
    }
    let options = JobOptions::from_split(&table, &split);
    refuse_unavailable(&options)?;
    options.check_implemented()?;
    Ok(options)
}

fn refuse_unavailable(options: &JobOptions) -> Result<()> {
    for (name, why) in REFUSED_OPTIONS {
        if options.has(name) {
            return Err(Fail::usage(format!("-{name} is not accepted here: {why}")));
        }
    }
    Ok(())
}

/// The command or script to run.
fn payload_of(what: &ProgramJob<'_>) -> Result<Payload> {
    if what.script.is_empty() {
        let command = match what.line {
            "" => exact_command(what.command),
            line => line.to_owned(),
        };
        return Ok(Payload {
            command,
            ..Payload::default()
        });
    }
    let payload = script::from_text(&Table::new(options::csub()), what.script.to_owned(), None)?;
    match payload.foreign_directives.is_empty() {
        true => Ok(payload),
        false => Err(Fail::usage(
            "the script has lines for another batch system, which are not read here: give the \
             options, or submit it with csub",
        )),
    }
}

/// The command or script to run, from a template if one is named.
fn filled_template(
    site: &Site,
    what: &ProgramJob<'_>,
    own: &JobOptions,
    context: &SubmitContext,
) -> Result<TemplateJob> {
    let Some((name, values)) = what.template else {
        return Ok(TemplateJob {
            payload: payload_of(what)?,
            options: JobOptions::default(),
            vars: BTreeMap::new(),
            profile: String::new(),
        });
    };
    if !what.script.is_empty() || !what.command.is_empty() {
        let text = format!("-app: the template {name} defines the job: give no script");
        return Err(Fail::usage(text));
    }
    if own.has("app") {
        let text = "-app cannot be given with a template, which names the application of the job";
        return Err(Fail::usage(text));
    }
    let cwd = own.get("cwd").map(Path::new);
    let cwd = cwd.filter(|cwd| cwd.is_absolute()).unwrap_or(&context.cwd);
    let filled = template::from_values(site, (name, values), what.line, cwd)?;
    match filled.payload.foreign_directives.is_empty() {
        true => Ok(filled),
        false => Err(Fail::usage(format!(
            "-app: the template {name} has lines for another batch system, which are not read \
             here: submit it with csub"
        ))),
    }
}

/// The submission that repeats a job unchanged.
///
/// # Errors
/// The text is not a job ID.
pub(crate) fn prepare_clone(site: &Site, job: &str, key: &str) -> Result<PreparedJob> {
    super::clone::unchanged(site, &SubmitContext::without_umask_change()?, job, key)
}

/// Checks options as far as possible without the cluster.
///
/// # Errors
/// Those of `csub` for a wrong option.
pub(crate) fn check(words: &[String], host: &str) -> Result<()> {
    let options = parse_options(words)?;
    let context = SubmitContext::without_umask_change()?;
    spec::submission(&options, &context.parse_context_on(host, &|| Unit::M)).map(drop)
}

/// The submission that a description defines.
///
/// # Errors
/// What `csub` would refuse, and options that are given twice.
pub(crate) fn prepare(
    site: &Site,
    what: &ProgramJob<'_>,
) -> std::result::Result<PreparedJob, PrepareError> {
    let mut own = parse_options(what.options)?;
    for (name, value) in what.named_options {
        refuse_duplicate(&own, name)?;
        own.add(name, value);
    }
    let stated = [
        ("J", !what.name.is_empty()),
        ("b", what.begin.is_some()),
        ("t", what.deadline.is_some()),
        ("W", what.run_limit_s.is_some()),
    ];
    for (name, _) in stated.iter().filter(|(_, is)| *is) {
        refuse_duplicate(&own, name)?;
    }
    let context = SubmitContext::without_umask_change()?;
    let filled = filled_template(site, what, &own, &context)?;
    let payload = filled.payload;
    let own = own.overriding(filled.options.overriding(payload.options.clone()));
    own.check_implemented()?;
    refuse_unavailable(&own)?;
    spec::check_command(&payload.command)?;
    let (options, data) = esub::run(site, own, &payload.command)?;
    let mut warnings = payload.warnings.clone();
    warnings.extend(NoEffect::of(&options).warning());
    let warning = (!warnings.is_empty()).then(|| warnings.join("\n"));
    let unit = || limit_unit(site);
    let mut job = spec::submission(&options, &context.parse_context(site, &unit))?;
    if what.template.is_some() {
        (job.spec.app, job.app_label) = (filled.profile, true);
    }
    if !job.array.is_empty() {
        return Err(Fail::usage("-J: an index list is not accepted here").into());
    }
    job.array = what.array.to_owned();
    if !what.name.is_empty() {
        job.name = what.name.to_owned();
    }
    job.hold |= what.hold;
    job.spec.begin = what.begin.or(job.spec.begin);
    job.spec.deadline = what.deadline.or(job.spec.deadline);
    job.spec.limits.run_s = what.run_limit_s.or(job.spec.limits.run_s);
    job.spec.shell = script::interpreter(&payload, &job.spec.shell)?;
    job.command = payload.command;
    let mut head = super::request_head(&options, payload.script, &context.cwd)?;
    head.env.extend(filled.vars);
    head.env.extend(what.env.iter().cloned());
    environ::check_size(&head.env)?;
    let head = esub::with_data(head, data);
    Ok(PreparedJob { job, head, warning })
}

/// What is known of the chances of a submission, as in `csub --dry-run --json`.
///
/// # Errors
/// cb.yaml or the view cannot be read.
pub(crate) fn dry_run_json(site: &Site, prepared: &PreparedJob) -> Result<String> {
    let how = (sys::clock::wall_ms(), true);
    dry_run::result(site, &prepared.job, &prepared.head, how).map(|answer| answer.text)
}

fn refuse_duplicate(
    options: &JobOptions,
    name: &'static str,
) -> std::result::Result<(), PrepareError> {
    let same = |(given, _): (&str, &str)| {
        options::replacement_group(given) == options::replacement_group(name)
    };
    match options.iter().any(same) {
        true => Err(PrepareError::DuplicateOption(name)),
        false => Ok(()),
    }
}

impl SubmitContext {
    /// Like [`SubmitContext::now`], but does not change the umask, which all threads of a process
    /// share.
    fn without_umask_change() -> Result<SubmitContext> {
        let var = |name: &str| std::env::var(name).unwrap_or_default();
        Ok(SubmitContext {
            cwd: sys::caller::working_directory()?,
            umask: sys::caller::umask_seen(),
            now_ms: sys::clock::wall_ms(),
            queue: var("LSB_DEFAULTQUEUE"),
            project: var("LSB_DEFAULTPROJECT"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn site() -> Site {
        Site::from_conf("/e/cb.conf".as_ref(), "CB_SHARE=/none", Some("h1".into())).unwrap()
    }

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_description_becomes_a_submission_that_no_shell_reads() {
        let (options, command) = (words("-q night -n 2"), words("prog $HOME a;b"));
        let named = [("o", "out.%J".to_owned()), ("no-report", String::new())];
        let env = [("A".to_owned(), "1,'2\"".to_owned())];
        let what = ProgramJob {
            options: &options,
            command: &command,
            named_options: &named,
            env: &env,
            name: "sweep",
            array: "1-9:2",
            hold: true,
            begin: Some(Stamp(77)),
            run_limit_s: Some(61),
            ..ProgramJob::default()
        };
        let PreparedJob { job, head, warning } = prepare(&site(), &what).unwrap();
        assert_eq!(job.command, "prog '$HOME' 'a;b'");
        assert_eq!((job.name.as_str(), job.array.as_str()), ("sweep", "1-9:2"));
        assert!(job.hold && job.spec.no_report);
        assert_eq!((job.spec.queue.as_str(), job.spec.min), ("night", 2));
        assert_eq!(job.spec.limits.run_s, Some(61));
        assert_eq!(job.spec.begin, Some(Stamp(77)));
        assert_eq!(head.env.get("A").map(String::as_str), Some("1,'2\""));
        assert_eq!(warning, None);
    }

    #[test]
    fn a_line_is_read_by_a_shell_and_a_script_brings_its_options() {
        let of = |line: &str, script: &str| {
            let what = ProgramJob {
                line,
                script,
                ..ProgramJob::default()
            };
            prepare(&site(), &what)
        };
        assert_eq!(
            of("echo $HOME | wc", "").unwrap().job.command,
            "echo $HOME | wc"
        );
        let script = "#!/bin/bash\n#CSUB -n 3\necho a\n";
        let PreparedJob { job, head, .. } = of("", script).unwrap();
        assert_eq!((job.spec.min, job.command.as_str()), (3, "echo a"));
        assert_eq!(
            (job.spec.shell.as_str(), head.script.text().as_ref()),
            ("/bin/bash", script)
        );
        for bad in [
            "#CSUB -K\ntrue\n",
            "#SBATCH -n 2\ntrue\n",
            "a\0b",
            "# nothing\n",
        ] {
            assert!(of("", bad).is_err(), "{bad:?}");
        }
        assert!(of("", "").is_err(), "there is nothing to run");
    }

    #[test]
    fn what_makes_no_sense_in_a_call_is_refused_by_name() {
        for (line, want) in [
            ("-K", "-K is not accepted here"),
            ("-h", "-help is not accepted here"),
            ("-pack f", "-pack is not accepted here"),
            ("word", "'word' is not an option"),
            ("-freq x", "-freq is not implemented"),
            ("-n x", "-n: 'x' is not a number"),
            ("--nonsense", "unknown option"),
        ] {
            let text = check(&words(line), "h1").expect_err(line).text;
            assert!(text.contains(want), "{line}: {text}");
        }
        assert!(check(&words("-n 2 -R span[hosts=1]"), "h1").is_ok());
    }

    #[test]
    fn what_is_said_twice_is_refused() {
        let (options, command) = (words("-oo x -W 5"), words("prog"));
        let named = [("o", "y".to_owned())];
        let mut what = ProgramJob {
            options: &options,
            command: &command,
            named_options: &named,
            ..ProgramJob::default()
        };
        assert_eq!(
            prepare(&site(), &what).unwrap_err(),
            PrepareError::DuplicateOption("o")
        );
        (what.named_options, what.run_limit_s) = (&[], Some(5));
        assert_eq!(
            prepare(&site(), &what).unwrap_err(),
            PrepareError::DuplicateOption("W")
        );
        let options = words("-J a[1-3]");
        let what = ProgramJob {
            options: &options,
            command: &command,
            ..ProgramJob::default()
        };
        let Err(PrepareError::Invalid(fail)) = prepare(&site(), &what) else {
            panic!("an index list is not a name");
        };
        assert!(fail.text.contains("index list"), "{}", fail.text);
    }
}
