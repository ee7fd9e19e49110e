//! Submits one batch job of `sbatch`: converts its options to csub's and reads its script.

use super::foreign::slurm::translate;
use super::foreign::{self, Context, Foreign, ForeignOption};
use super::no_effect::NoEffect;
use super::script::{self, Work};
use super::{SubmitContext, answered, esub, head, shift_of, spec, tries};
use crate::client::env::Site;
use crate::client::exit::{Fail, Result};
use crate::client::requests;
use crate::record::ack::IdRun;
use crate::sys;
use std::path::Path;

/// The arguments of a call of `sbatch`.
#[derive(Default)]
pub(crate) struct BatchCall {
    /// Options of the environment and of the command line, in increasing order of precedence.
    pub weak: Vec<ForeignOption>,
    pub strong: Vec<ForeignOption>,
    /// A command line instead of a script.
    pub wrap: Option<String>,
    /// The script's file; `None`: it is read from standard input.
    pub file: Option<String>,
    pub args: Vec<String>,
    pub quiet: bool,
}

/// A submitted job.
pub(crate) struct Sent {
    pub site: Site,
    pub run: IdRun,
    /// `--wait`: the command waits for the end of the job.
    pub wait: bool,
}

/// Why no job was submitted.
pub(crate) enum NotSent {
    Fail(Fail),
    /// No answer came: the exit code; the reason has been printed.
    NoAnswer(i32),
}

impl From<Fail> for NotSent {
    fn from(fail: Fail) -> NotSent {
        NotSent::Fail(fail)
    }
}

/// Submits the job.
///
/// # Errors
/// The job is refused, or no answer comes.
pub(crate) fn submit(called: BatchCall) -> std::result::Result<Sent, NotSent> {
    let told = SubmitContext::now()?;
    let work = work(&called)?;
    let mut foreign = options(&called, &work, &told)?;
    foreign.facts.args = called.args;
    foreign.facts.submit_dir = told.cwd.to_string_lossy().into_owned();
    if !called.quiet {
        let place = "";
        let mail = NoEffect::of(&foreign.chosen).warning();
        let texts = [work.warning.clone(), foreign.warning(place), mail];
        for text in texts.into_iter().flatten() {
            eprintln!("sbatch: {text}");
        }
    }
    let site = Site::find().map_err(Fail::from)?;
    let wait_s = requests::wait_s(None)?;
    let (chosen, data) = esub::run(&site, foreign.chosen.clone(), &work.command)?;
    let unit = || crate::client::limit_unit(&site);
    let mut job = spec::submission(&chosen, &told.here(&site, &unit))?;
    foreign.complete(&mut job, &chosen);
    spec::check_command(&work.command)?;
    job.spec.shell = script::interpreter(&work, &job.spec.shell)?;
    job.spec.slurm = Some(Box::new(foreign.facts));
    job.command = work.command;
    let head = esub::with_data(head(&chosen, work.script, &told.cwd)?, data);
    let ack = tries::send(&site, "sbatch", head, job, wait_s)?
        .map_err(|e| NotSent::NoAnswer(e.report("sbatch")))?;
    let run = answered(&ack)?.clone();
    let wait = chosen.has("K");
    Ok(Sent { site, run, wait })
}

/// The command or script to run.
fn work(called: &BatchCall) -> Result<Work> {
    let Some(command) = &called.wrap else {
        return script::batch(called.file.as_deref());
    };
    if called.file.is_some() {
        return Err(Fail::usage("Script arguments not permitted with --wrap"));
    }
    Ok(Work {
        command: "wrap".to_owned(),
        shell: "/bin/sh".to_owned(),
        script: format!("#!/bin/sh\n# Made by sbatch --wrap.\n\n{command}\n"),
        ..Work::default()
    })
}

fn options(called: &BatchCall, work: &Work, told: &SubmitContext) -> Result<Foreign> {
    let mut all = Vec::new();
    for line in &work.foreign {
        all.extend(foreign::slurm_line(line, &work.place)?);
    }
    all.extend(called.weak.iter().cloned());
    all.extend(called.strong.iter().cloned());
    let file = called.file.as_deref().map(Path::new);
    let name = match (&called.wrap, file.and_then(Path::file_name)) {
        (Some(_), _) => "wrap".to_owned(),
        (None, Some(name)) => name.to_string_lossy().into_owned(),
        (None, None) => "sbatch".to_owned(),
    };
    let me = sys::users::current_user();
    let mut context = Context {
        now_ms: told.now_ms,
        user: &me.name,
        name: &name,
        cwd: &told.cwd.to_string_lossy(),
        sbatch: true,
        shift: &mut shift_of,
    };
    translate(&all, &mut context)
}
