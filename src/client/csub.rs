//! `csub`: submits a job, an array or a pack of jobs.
//!
//! Everything that can be checked here is checked before anything is sent; the leader checks again.
//! Standard output contains the `Job <ID> is submitted ...` line and nothing else; for an
//! interactive job it belongs to the job.

mod clone;
mod container;
mod dry_run;
mod environ;
mod esub;
pub(crate) mod foreign;
mod gpus;
mod missing_files;
pub(crate) mod no_effect;
pub(crate) mod options;
mod pack;
mod params;
pub(crate) mod program_job;
pub(crate) mod restart;
mod retries;
pub(crate) mod sbatch_job;
mod script;
pub(crate) mod spec;
pub(crate) mod template;
#[cfg(test)]
mod tests;

use super::cli::{Split, Table, texts};
use super::definition_file;
use super::env::Site;
use super::exit::{self, Exit, Fail, Result};
use super::interactive::{self, InteractiveListener};
use super::job_description::{self, Description};
use super::limit_unit::limit_unit;
use super::quiet::{MessageKind, Quiet};
use super::requests::{self, NoAnswer, Outgoing};
use crate::language::{tell, translated};
use crate::model::{JobKey, Submission};
use crate::record::ack::{Ack, IdRun};
use crate::record::byte_text::ByteText;
use crate::record::request::{RequestHead, SCRIPT_MAX};
use crate::spool::view::ViewReader;
use crate::sys;
use crate::text::command::PBS;
use crate::text::size::Unit;
use foreign::ConvertedOptions;
use no_effect::NoEffect;
use options::JobOptions;
use pack::Pack;
use params::Params;
use script::Payload;
use spec::ParseContext;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The answer to a pack of more jobs than this is shown in ranges.
const LINES_SHOWN: usize = 20;
/// Variables that lead to a display and its cookie.
const DISPLAY_VARIABLES: [&str; 2] = ["DISPLAY", "XAUTHORITY"];

/// Runs `csub`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let table = Table::new(options::csub());
    let split = match texts(args).and_then(|words| table.split(&json_lines(&table, words))) {
        Ok(split) => split,
        Err(e) => return not_submitted("csub", &Fail::usage(format!("{e}\nhint: csub -h"))),
    };
    if split
        .given
        .iter()
        .any(|g| matches!(table.id(g), "help" | "version"))
    {
        return table.check(&split).err().unwrap_or(0);
    }
    let context = SubmitContext::now();
    match context.and_then(|context| submit(&table, &split, &context)) {
        Ok(code) => code,
        Err(fail) => not_submitted("csub", &fail),
    }
}

/// With --dry-run, `--json` among the options means JSON Lines as in other commands, not the file
/// that LSF's -json takes.
fn json_lines(table: &Table, words: Vec<String>) -> Vec<String> {
    let renamed: Vec<String> = words
        .iter()
        .map(|word| match word.as_str() {
            "--json" => "--jsonl".to_owned(),
            other => other.to_owned(),
        })
        .collect();
    let Ok(split) = table.split(&renamed) else {
        return words;
    };
    if !split.given.iter().any(|g| table.id(g) == "dry-run") {
        return words;
    }
    // Words after the command belong to the command.
    let options = words.len() - split.operands.len();
    let mut out = renamed;
    out.truncate(options);
    out.extend_from_slice(&words[options..]);
    out
}

/// Prints `csub: REASON. Job not submitted.`, then the other lines of the reason.
fn not_submitted(command: &str, fail: &Fail) -> i32 {
    let (first, rest) = fail.text.split_once('\n').unwrap_or((&fail.text, ""));
    // A question, "did you mean x?", gets no full stop.
    let stop = if first.ends_with('?') { "" } else { "." };
    let name = exit::lsf_name().unwrap_or(command);
    let first = format!("{first}{stop}");
    eprintln!(
        "{name}: {} {}",
        translated(&first),
        translated("Job not submitted.")
    );
    if !rest.is_empty() {
        tell!("{rest}");
    }
    fail.exit.code()
}

/// What this process takes from its environment.
struct SubmitContext {
    cwd: PathBuf,
    umask: u32,
    now_ms: i64,
    queue: String,
    project: String,
}

impl SubmitContext {
    fn now() -> Result<SubmitContext> {
        let umask = sys::caller::umask(0o007);
        sys::caller::umask(umask);
        let var = |name: &str| std::env::var(name).unwrap_or_default();
        Ok(SubmitContext {
            cwd: sys::caller::working_directory()?,
            umask,
            now_ms: sys::clock::wall_ms(),
            queue: var("LSB_DEFAULTQUEUE"),
            project: var("LSB_DEFAULTPROJECT"),
        })
    }

    fn parse_context<'a>(&'a self, site: &'a Site, unit: &'a dyn Fn() -> Unit) -> ParseContext<'a> {
        self.parse_context_on(&site.host, unit)
    }

    fn parse_context_on<'a>(
        &'a self,
        host: &'a str,
        unit: &'a dyn Fn() -> Unit,
    ) -> ParseContext<'a> {
        ParseContext {
            now_ms: self.now_ms,
            cwd: &self.cwd,
            umask: self.umask,
            host,
            default_queue: &self.queue,
            default_project: &self.project,
            unit,
        }
    }
}

fn submit(table: &Table, split: &Split, context: &SubmitContext) -> Result<i32> {
    let own = JobOptions::from_split(table, split);
    own.check_implemented()?;
    let wait_s = requests::wait_s(own.get("wait"))?;
    if own.has("pack") {
        return submit_pack(table, split, &own, context, wait_s);
    }
    if own.has("clone") {
        return clone::submit(table, split, own, context, wait_s);
    }
    let requested = requested_job(table, split, &own, context)?;
    let (mut payload, mut vars) = (requested.payload, requested.vars);
    let names = [own.get("J"), requested.options.get("J")];
    let given_name = names.into_iter().flatten().next().unwrap_or_default();
    let foreign = convert_directives(&payload, context, "csub", given_name)?;
    vars.extend(foreign.variables.clone());
    let of_script = std::mem::take(&mut payload.options).overriding(foreign.options.clone());
    let options = own.overriding(requested.options.overriding(of_script));
    options.check_implemented()?;
    let wait_s = requests::wait_s(options.get("wait"))?;
    let warnings = check_script(&payload, &foreign, &options)?;
    print_warnings(payload.warnings.iter().chain(&warnings));
    let terminal = interactive::requested_terminal(&options)?;
    let site = Site::find()?;
    let (options, data) = esub::run(&site, options, &payload.command)?;
    NoEffect::of(&options).warn("csub");
    let unit = || limit_unit(&site);
    let mut job = spec::submission(&options, &context.parse_context(&site, &unit))?;
    foreign.complete(&mut job, &options);
    foreign.mark(&mut job, payload.system, &options);
    if let Some(profile) = requested.profile {
        (job.spec.app, job.app_label) = (profile, true);
    }
    check_files(&payload, &mut job)?;
    if options.has("K") && job.hold {
        return Err(Fail::usage("-K and -H cannot be given together"));
    }
    let params = Params::of(&options, &context.cwd)?;
    params.number(&mut job)?;
    job.spec.shell = script::interpreter(&payload, &job.spec.shell)?;
    job.command = payload.command;
    print_interpretation(&options, &job);
    if dry_run::is_requested(&options)? {
        job.spec.session = terminal.map(dry_run::session);
        let head = with_vars(request_head(&options, payload.script, &context.cwd)?, vars);
        let how = (context.now_ms, options.has("jsonl"));
        return dry_run::run(&site, &job, &head, how);
    }
    let listener = InteractiveListener::for_job(&site, &options, terminal)?;
    job.spec.session = listener.as_ref().map(|l| Box::new(l.session()));
    let by_default = job.spec.stdout.is_empty();
    let head = with_vars(request_head(&options, payload.script, &context.cwd)?, vars);
    let mut head = esub::with_data(head, data);
    head.params = params.table;
    let shown_key = job.key.clone();
    let ack = match retries::send_job(&site, "csub", head, job, wait_s)? {
        Ok(ack) => ack,
        Err(code) => return Ok(code),
    };
    let run = submitted_job(&ack)?;
    let line = job_line(run, context, options.has("q"));
    if let Some(listener) = listener {
        // Standard output belongs to the job. Programs look for this line.
        if Quiet::from_environment().shows(MessageKind::Submission) {
            eprintln!("{line}");
        }
        let output = site.layout().default_output(JobKey::job(run.id));
        return Ok(listener.serve(&site, run, by_default.then_some(output)));
    }
    let wait = options.has("K");
    Ok(report_submission(&site, run, &line, &shown_key, wait))
}

fn print_warnings<'a>(warnings: impl Iterator<Item = &'a String>) {
    for text in warnings {
        tell!("csub: {text}");
    }
}

/// What `-verbose` prints.
fn print_interpretation(options: &JobOptions, job: &Submission) {
    if options.has("verbose") {
        for line in spec::interpretation(&job.spec) {
            eprintln!("csub: {line}");
        }
    }
}

/// What a command line requests beside its own options.
#[derive(Default)]
struct RequestedJob {
    payload: Payload,
    /// Options from a description or template.
    options: JobOptions,
    /// Variables from a template.
    vars: BTreeMap<String, String>,
    /// The application of a job from a template.
    profile: Option<String>,
}

fn requested_job(
    table: &Table,
    split: &Split,
    own: &JobOptions,
    context: &SubmitContext,
) -> Result<RequestedJob> {
    if let Some(filled) = template::from_command_line(table, split, own, &context.cwd)? {
        return Ok(RequestedJob {
            payload: filled.payload,
            options: filled.options,
            vars: filled.vars,
            profile: Some(filled.profile),
        });
    }
    let (payload, described) = match own.get("spec") {
        Some(file) => from_spec_file(table, split, file)?,
        None => (script::from_operands(table, split)?, JobOptions::default()),
    };
    Ok(RequestedJob {
        payload,
        options: described,
        ..RequestedJob::default()
    })
}

/// Checks the command and warns of files that this host does not have.
fn check_files(payload: &Payload, job: &mut Submission) -> Result<()> {
    spec::check_command(&payload.command)?;
    warn_of(missing_files::note(&mut job.spec));
    Ok(())
}

/// Prints a warning.
fn warn_of(text: Option<String>) {
    if let Some(text) = text {
        tell!("{}: {text}", exit::lsf_name().unwrap_or("csub"));
    }
}

fn with_vars(mut head: RequestHead, vars: BTreeMap<String, String>) -> RequestHead {
    head.env.extend(vars);
    head
}

/// Shows a submitted job and, with `-K`, waits for its end. `key`: the value of `--key`.
fn report_submission(site: &Site, run: &IdRun, line: &str, key: &str, wait: bool) -> i32 {
    if Quiet::from_environment().shows(MessageKind::Submission) {
        println!("{line}");
    }
    if run.known {
        tell!("csub: the key '{key}' already identifies this job; no new job was created");
    }
    match wait {
        true => super::cwait::until_end(site, run.id, run.t),
        false => Exit::Ok.code(),
    }
}

/// `--spec`: the content of the file, with the command of the command line if that has one.
fn from_spec_file(table: &Table, split: &Split, file: &str) -> Result<(Payload, JobOptions)> {
    let most = definition_file::FILE_MAX as u64;
    let bytes = match file {
        "-" => sys::caller::read_stdin(most),
        file => sys::fs::read_small(Path::new(file), most),
    };
    let bytes = bytes.map_err(|e| Fail::usage(format!("--spec: {e}")))?;
    let place = if file == "-" { "standard input" } else { file };
    let what = job_description::read(&definition_file::tree(&bytes, place)?, place)?;
    let at = |fail: Fail| Fail::new(fail.exit, format!("{place}: {}", fail.text));
    let options = definition_options(table, &what).map_err(at)?;
    let mut refused = script::COMMAND_SOURCES.iter().chain(&["wait"]);
    if let Some(id) = refused.find(|id| options.has(id)) {
        let text = format!("{place}: options: -{id} belongs on the command line");
        return Err(Fail::usage(text));
    }
    let payload = match split.operands.is_empty() {
        true => script::from_definition(table, &what.command, &what.script).map_err(at)?,
        false => script::from_operands(table, split)?,
    };
    Ok((payload, options))
}

/// The requests of `#SBATCH` or `#PBS` lines. Reports those that have no effect.
fn convert_directives(
    payload: &Payload,
    context: &SubmitContext,
    command: &str,
    given_name: &str,
) -> Result<ConvertedOptions> {
    let Some(system) = payload.system else {
        return Ok(ConvertedOptions::default());
    };
    let cwd = context.cwd.to_string_lossy();
    let mut name = "";
    let mut variables = BTreeMap::new();
    if system == PBS {
        name = Path::new(&payload.place)
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default();
        if payload.place == script::STANDARD_INPUT {
            name = "STDIN";
        }
        variables = foreign::pbs::submission_variables(&cwd, &|name| std::env::var(name).ok());
    }
    let me = sys::users::current_user();
    let mut conversion = foreign::ConvertContext {
        now_ms: context.now_ms,
        user: &me.name,
        name,
        given_name: given_name.split('[').next().unwrap_or_default(),
        cwd: &cwd,
        sbatch: false,
        is_directory: &|path| sys::fs::exists(&context.cwd.join(path).join(".")),
        index_shift: &mut index_shift_of,
    };
    let mut found =
        foreign::convert_lines(&payload.foreign_directives, &payload.place, &mut conversion)?;
    found.facts.of_csub = true;
    found.facts.submit_dir = cwd.clone().into_owned();
    found.variables.extend(variables);
    if let Some(text) = found.warning(&payload.place) {
        tell!("{}: {text}", exit::lsf_name().unwrap_or(command));
    }
    Ok(found)
}

/// Checks what the script of a job runs and reads; returns warnings.
///
/// # Errors
/// Names the line that would silently do nothing.
fn check_script(
    payload: &Payload,
    foreign: &ConvertedOptions,
    options: &JobOptions,
) -> Result<Vec<String>> {
    let values: Vec<&str> = options.all("env").collect();
    let env = environ::environ(std::env::vars_os(), &values)?.vars;
    let has = |name: &str| env.contains_key(name) || foreign.variables.contains_key(name);
    foreign::script_check::check(&foreign::script_check::ScriptUse {
        place: &payload.place,
        text: &payload.script.text(),
        shell: &payload.shell,
        system: payload.system,
        has_variable: &has,
        has_program: &script::is_program,
    })
}

/// The amount by which the indices of a job were raised.
fn index_shift_of(id: u32) -> std::result::Result<u32, String> {
    let site = Site::find().map_err(|e| e.0)?;
    foreign::index_shift(&ViewReader::new(&site.layout()), id)
}

/// Options that are meaningless for a job that is submitted repeatedly, and why.
const REFUSED_IN_DEFINITIONS: &[(&str, &str)] = &[
    ("I", "no command waits for the job"),
    ("Ip", "no command waits for the job"),
    ("Is", "no command waits for the job"),
    ("XF", "no command waits for the job"),
    ("K", "no command waits for the job"),
    ("H", "disable the cron job instead"),
    ("pack", "write a list of jobs"),
    ("params", "give an index list, as -J name[1-10]"),
    ("clone", "write down its options"),
    ("spec", "write its keys here"),
    ("key", "each run is a separate job"),
    ("b", "the schedule determines when it starts"),
    ("t", "it is a single time; use maxruntime"),
    ("start-timeout", "use startdeadline"),
    ("wait", "it is an option of ccron"),
    ("verbose", "it is not accepted here"),
    ("dry-run", "ccron create checks a definition"),
    ("jsonl", "it belongs to -dry-run"),
];

/// The options of a description.
fn definition_options(table: &Table, what: &Description) -> Result<JobOptions> {
    let wrong = |e: super::cli::UsageError| Fail::usage(e.to_string());
    let split = table
        .split(&script::pack_words(&what.options)?)
        .map_err(wrong)?;
    if let Some(word) = split.operands.first() {
        return Err(Fail::usage(format!("options: '{word}' is not an option")));
    }
    let mut own = JobOptions::from_split(table, &split);
    for (name, value) in &what.named_options {
        if !options::accumulates(name) && own.has(name) {
            return Err(Fail::usage(format!(
                "-{name} is given twice, by keys or by a key and in options"
            )));
        }
        own.add(name, value);
    }
    Ok(own)
}

/// The submission that a description defines, and the content that is sent with it. The options are
/// those of `csub`, read by the same parser, including `#CSUB` lines of a script. `for_user`: the
/// user as whom the job runs; empty = the caller.
///
/// # Errors
/// What `csub` would refuse, and options that are meaningless here.
pub(super) fn from_definition(
    site: &Site,
    what: &Description,
    for_user: &str,
) -> Result<(Submission, RequestHead)> {
    let table = Table::new(options::csub());
    let own = definition_options(&table, what)?;
    let mut payload = script::from_definition(&table, &what.command, &what.script)?;
    let mut context = SubmitContext::now()?;
    let given_name = own.get("J").unwrap_or_default();
    let foreign = convert_directives(&payload, &context, "ccron", given_name)?;
    let of_script = std::mem::take(&mut payload.options).overriding(foreign.options.clone());
    let options = own.overriding(of_script);
    options.check_implemented()?;
    for (name, why) in REFUSED_IN_DEFINITIONS {
        if options.has(name) {
            return Err(Fail::usage(format!(
                "-{name} is not accepted in a cron job: {why}"
            )));
        }
    }
    for text in payload
        .warnings
        .iter()
        .chain(&check_script(&payload, &foreign, &options)?)
    {
        tell!("ccron: {text}");
    }
    if foreign.begin.is_some() {
        let text = "a begin time is not accepted in a cron job: the schedule determines when it \
            starts";
        return Err(Fail::usage(text));
    }
    if !for_user.is_empty() {
        let facts = sys::users::by_name(for_user).ok_or_else(|| {
            Fail::not_found(format!(
                "user: user {for_user:?} does not exist on \
                this host"
            ))
        })?;
        context.cwd = facts.home;
    }
    let (options, data) = esub::run(site, options, &payload.command)?;
    NoEffect::of(&options).warn("ccron");
    let unit = || limit_unit(site);
    let mut job = spec::submission(&options, &context.parse_context(site, &unit))?;
    foreign.mark(&mut job, payload.system, &options);
    spec::check_command(&payload.command)?;
    job.spec.shell = script::interpreter(&payload, &job.spec.shell)?;
    job.command = payload.command;
    let mut head = request_head(&options, payload.script, &context.cwd)?;
    if !for_user.is_empty() {
        // The caller's variables do not belong to the other user.
        let values: Vec<&str> = options.all("env").collect();
        head.env = environ::environ(std::iter::empty(), &values)?.vars;
    }
    let head = with_vars(head, foreign.variables);
    Ok((job, esub::with_data(head, data)))
}

/// The environment, script and input that are sent with the jobs of a request.
fn request_head(options: &JobOptions, script: ByteText, cwd: &Path) -> Result<RequestHead> {
    let values: Vec<&str> = options.all("env").collect();
    let mut env = environ::environ(std::env::vars_os(), &values)?;
    if options.has("XF") {
        // The display belongs to this command; the job's host sets its own.
        env.vars
            .retain(|name, _| !DISPLAY_VARIABLES.contains(&name.as_str()));
    }
    if !env.omitted.is_empty() && options.has("verbose") {
        let names = env.omitted.join(" ");
        tell!("csub: left out of the environment, by name or bytes: {names}");
    }
    let stdin = match options.get("is") {
        None => ByteText::default(),
        Some(name) => spooled_input(name, cwd)?,
    };
    Ok(RequestHead {
        env: env.vars,
        script,
        stdin,
        ..RequestHead::default()
    })
}

/// The content of the file of `-is`.
fn spooled_input(name: &str, cwd: &Path) -> Result<ByteText> {
    let path = cwd.join(name);
    let bytes = sys::fs::read_small(&path, SCRIPT_MAX as u64)
        .map_err(|e| Fail::usage(format!("-is: {e}\nhint: -i reads it where the job runs")))?;
    Ok(bytes.into())
}

fn no_answer(command: &str, e: &NoAnswer) -> i32 {
    match e {
        NoAnswer::NotSent(fail) => not_submitted(command, fail),
        other => other.report(command),
    }
}

/// The single job of an answer, or why there is none.
fn submitted_job(ack: &Ack) -> Result<&IdRun> {
    if let Some(run) = ack.ids.first() {
        return Ok(run);
    }
    match ack.results.first() {
        Some(outcome) => Err(Fail::new(Exit::of(outcome.code), outcome.text.clone())),
        None if ack.error.is_empty() => Err(Fail::system("the leader returned no job ID")),
        None => Err(Fail::refused(ack.error.clone())),
    }
}

/// The line that programs parse. A queue from LSB_DEFAULTQUEUE counts as default.
fn job_line(run: &IdRun, context: &SubmitContext, named: bool) -> String {
    let default = run.default || (!named && !context.queue.is_empty());
    let default = if default { "default " } else { "" };
    format!(
        "Job <{}> is submitted to {default}queue <{}>.",
        run.id, run.queue
    )
}

fn submit_pack(
    table: &Table,
    split: &Split,
    own: &JobOptions,
    context: &SubmitContext,
    wait_s: u64,
) -> Result<i32> {
    if !split.operands.is_empty() {
        return Err(Fail::usage("-pack and a command cannot be given together"));
    }
    for refused in [
        "K", "I", "Ip", "Is", "XF", "is", "J", "key", "params", "spec", "clone", "dry-run", "jsonl",
    ] {
        if own.has(refused) {
            let text = format!("-pack and -{refused} cannot be given together");
            return Err(Fail::usage(text));
        }
    }
    let site = Site::find()?;
    if let Some(dir) = site
        .esubs
        .as_deref()
        .filter(|dir| sys::fs::exists(&dir.join("esub")))
    {
        return Err(Fail::refused(format!(
            "-pack: {} checks every job of this site separately: submit the lines one by one",
            dir.join("esub").display()
        )));
    }
    let text = pack::read(own.get("pack").unwrap_or_default())?;
    let unit = CachedUnit::new(&site);
    let unit = || unit.get();
    let parsing = context.parse_context(&site, &unit);
    let mut request = Outgoing::new(&site, request_head(own, ByteText::default(), &context.cwd)?)?;
    let pack = pack::fill(&text, table, own, &parsing, &mut request)?;
    drop(text);
    pack.no_effect.warn("csub");
    warn_of(pack.missing.clone());
    let ack = if request.is_empty() {
        None
    } else {
        match requests::send(&site, "csub", request, wait_s) {
            Ok(ack) => Some(ack),
            Err(e) => return Ok(no_answer("csub", &e)),
        }
    };
    let verbose = own.has("verbose");
    let report = report_pack(&pack, ack.as_ref(), verbose);
    if Quiet::from_environment().shows(MessageKind::Submission) {
        print!("{}", report.out);
    }
    eprint!("{}", translated(&report.err));
    Ok(report.exit.code())
}

/// The unit of limits without unit, looked up at most once.
struct CachedUnit<'a> {
    site: &'a Site,
    unit: std::cell::OnceCell<Unit>,
}

impl<'a> CachedUnit<'a> {
    fn new(site: &'a Site) -> CachedUnit<'a> {
        let unit = std::cell::OnceCell::new();
        CachedUnit { site, unit }
    }

    fn get(&self) -> Unit {
        *self.unit.get_or_init(|| limit_unit(self.site))
    }
}

/// The output for a pack.
struct PackReport {
    out: String,
    err: String,
    exit: Exit,
}

/// One line for each job, or for each range of jobs if there are many.
fn report_pack(pack: &Pack, ack: Option<&Ack>, verbose: bool) -> PackReport {
    let mut out = String::new();
    let mut err = String::new();
    let mut exit = Exit::Ok;
    for run in ack.map_or(&[][..], |a| &a.ids) {
        let from = pack.lines.binary_search(&run.line).unwrap_or(0);
        let mut lines = pack.lines[from..].iter().take(run.n as usize);
        if verbose || pack.lines.len() <= LINES_SHOWN || run.n == 1 {
            for (id, line) in (run.id..).zip(lines) {
                add_job_line(&mut out, &format!("#{line} Job <{id}> is"), run);
            }
        } else if let Some(last) = lines.next_back() {
            let ids = format!("<{}-{}>", run.id, run.id + (run.n - 1));
            add_job_line(
                &mut out,
                &format!("#{}-{last} Jobs {ids} are", run.line),
                run,
            );
        }
    }
    for (line, why) in &pack.skipped {
        exit = exit.worst(Exit::Usage);
        let (first, rest) = why.split_once('\n').unwrap_or((why, ""));
        let _ = writeln!(err, "Line#{line}: {first}. Job not submitted.");
        if !rest.is_empty() {
            let _ = writeln!(err, "{rest}");
        }
    }
    if let Some(ack) = ack {
        for outcome in &ack.results {
            let end = Exit::of(outcome.code);
            if end == Exit::Ok {
                continue;
            }
            exit = exit.worst(end);
            let line = outcome.what.trim_start_matches("line").trim();
            let _ = writeln!(err, "Line#{line}: {}. Job not submitted.", outcome.text);
        }
        if ack.more > 0 {
            let _ = writeln!(err, "csub: {} further lines were refused", ack.more);
        }
        if !ack.ok {
            exit = exit.worst(Exit::Refused);
            let (why, end) = (translated(&ack.error), translated("Jobs not submitted."));
            let _ = writeln!(err, "csub: {why}. {end}");
        }
    }
    PackReport { out, err, exit }
}

fn add_job_line(out: &mut String, jobs: &str, run: &IdRun) {
    let default = if run.default { "default " } else { "" };
    let _ = writeln!(
        out,
        "Line{jobs} submitted to {default}queue <{}>.",
        run.queue
    );
}
