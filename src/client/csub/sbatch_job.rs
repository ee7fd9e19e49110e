//! Submits one batch job of `sbatch`: converts its options to csub's and reads its script.

use super::foreign::slurm::translate;
use super::foreign::{self, ConvertContext, ConvertedOptions, ForeignOption};
use super::no_effect::NoEffect;
use super::script::{self, Payload};
use super::{
    SubmitContext, check_script, esub, index_shift_of, missing_files, request_head, retries, spec,
    submitted_job, with_vars,
};
use crate::client::env::Site;
use crate::client::exit::{Fail, Result};
use crate::client::requests;
use crate::record::ack::IdRun;
use crate::sys;
use crate::text::command::SBATCH;
use std::path::Path;

/// The arguments of a call of `sbatch`.
#[derive(Default)]
pub(crate) struct BatchCall {
    /// Options of the environment and of the command line, in increasing order of precedence.
    pub environment_options: Vec<ForeignOption>,
    pub line_options: Vec<ForeignOption>,
    /// A command line instead of a script.
    pub wrap: Option<String>,
    /// The script's file; `None`: it is read from standard input.
    pub file: Option<String>,
    pub args: Vec<String>,
    pub quiet: bool,
}

/// A submitted job.
pub(crate) struct SubmittedBatch {
    pub site: Site,
    pub run: IdRun,
    /// `--wait`: the command waits for the end of the job.
    pub wait: bool,
}

/// Why no job was submitted.
pub(crate) enum BatchError {
    Fail(Fail),
    /// No answer came: the exit code; the reason has been printed.
    NoAnswer(i32),
}

impl From<Fail> for BatchError {
    fn from(fail: Fail) -> BatchError {
        BatchError::Fail(fail)
    }
}

/// Submits the job.
///
/// # Errors
/// The job is refused, or no answer comes.
pub(crate) fn submit(called: BatchCall) -> std::result::Result<SubmittedBatch, BatchError> {
    let context = SubmitContext::now()?;
    let payload = payload_of(&called)?;
    let mut foreign = options(&called, &payload, &context)?;
    foreign.facts.args = called.args;
    let checked = check_script(&payload, &foreign, &foreign.options)?;
    if !called.quiet {
        let place = "";
        let mail = NoEffect::of(&foreign.options).warning();
        let texts = [foreign.warning(place), mail];
        let of_script = payload.warnings.iter().chain(&checked);
        for text in of_script.chain(texts.iter().flatten()) {
            eprintln!("sbatch: {text}");
        }
    }
    let site = Site::find().map_err(Fail::from)?;
    let wait_s = requests::wait_s(None)?;
    let (job_options, data) = esub::run(&site, foreign.options.clone(), &payload.command)?;
    let unit = || crate::client::limit_unit(&site);
    let mut job = spec::submission(&job_options, &context.parse_context(&site, &unit))?;
    foreign.complete(&mut job, &job_options);
    spec::check_command(&payload.command)?;
    if let Some(text) = missing_files::note(&mut job.spec).filter(|_| !called.quiet) {
        eprintln!("sbatch: {text}");
    }
    job.spec.shell = script::interpreter(&payload, &job.spec.shell)?;
    job.spec.slurm = Some(Box::new(foreign.facts));
    job.command = payload.command;
    let head = request_head(&job_options, payload.script, &context.cwd)?;
    let head = esub::with_data(with_vars(head, foreign.variables), data);
    let ack = retries::send(&site, "sbatch", head, job, wait_s)?
        .map_err(|e| BatchError::NoAnswer(e.report("sbatch")))?;
    let run = submitted_job(&ack)?.clone();
    let wait = job_options.has("K");
    Ok(SubmittedBatch { site, run, wait })
}

/// The command or script to run.
fn payload_of(called: &BatchCall) -> Result<Payload> {
    let Some(command) = &called.wrap else {
        return script::from_batch_script(called.file.as_deref());
    };
    if called.file.is_some() {
        return Err(Fail::usage("Script arguments not permitted with --wrap"));
    }
    Ok(Payload {
        command: "wrap".to_owned(),
        shell: "/bin/sh".to_owned(),
        place: "--wrap".to_owned(),
        system: Some(SBATCH),
        script: format!("#!/bin/sh\n# Made by sbatch --wrap.\n\n{command}\n").into(),
        ..Payload::default()
    })
}

fn options(
    called: &BatchCall,
    payload: &Payload,
    context: &SubmitContext,
) -> Result<ConvertedOptions> {
    let mut all = Vec::new();
    for line in &payload.foreign_directives {
        all.extend(foreign::slurm_line(line, &payload.place)?);
    }
    all.extend(called.environment_options.iter().cloned());
    all.extend(called.line_options.iter().cloned());
    let file = called.file.as_deref().map(Path::new);
    let name = match (&called.wrap, file.and_then(Path::file_name)) {
        (Some(_), _) => "wrap".to_owned(),
        (None, Some(name)) => name.to_string_lossy().into_owned(),
        (None, None) => "sbatch".to_owned(),
    };
    let me = sys::users::current_user();
    let mut conversion = ConvertContext {
        now_ms: context.now_ms,
        user: &me.name,
        name: &name,
        given_name: "",
        is_directory: &|_| false,
        cwd: &context.cwd.to_string_lossy(),
        sbatch: true,
        index_shift: &mut index_shift_of,
    };
    translate(&all, &mut conversion)
}
