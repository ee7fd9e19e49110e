//! `--clone JOB`: a new job with the command, options, script and environment of an existing one.
//!
//! Owns which options of the command line change the copy. The leader knows the original job.

use super::options::{JobOptions, replacement_group};
use super::program_job::PreparedJob;
use super::script::{self, Payload};
use super::spec::{self, invalid_value};
use super::{
    NoEffect, Params, SubmitContext, job_line, report_submission, request_head, retries,
    submitted_job,
};
use crate::client::cli::{Split, Table};
use crate::client::csub::no_effect::has_no_effect;
use crate::client::env::Site;
use crate::client::exit::{Fail, Result};
use crate::client::limit_unit::limit_unit;
use crate::language::tell;
use crate::model::CloneOf;
use crate::record::byte_text::ByteText;
use crate::sys;
use crate::text::jobids::JobSel;

/// Options that cannot be combined with `--clone`.
const EXCLUDED: [&str; 8] = ["pack", "spec", "I", "Ip", "Is", "XF", "dry-run", "jsonl"];
/// Options that concern the submission, not the job.
const SUBMISSION_OPTIONS: [&str; 7] = ["clone", "wait", "verbose", "K", "H", "key", "env"];

pub(super) fn submit(
    table: &Table,
    split: &Split,
    own: JobOptions,
    context: &SubmitContext,
    wait_s: u64,
) -> Result<i32> {
    let mut of = original_job(own.get("clone").unwrap_or_default())?;
    let mut payload = match split.operands.is_empty() {
        true => None,
        false => Some(script::from_operands(table, split)?),
    };
    if let Some(script) = payload
        .as_ref()
        .filter(|payload| !payload.foreign_directives.is_empty())
    {
        return Err(Fail::usage(format!(
            "--clone: lines of {} for another batch system are not read: give the options",
            script.place
        )));
    }
    for text in payload.iter().flat_map(|payload| &payload.warnings) {
        tell!("csub: {text}");
    }
    let script_options = payload
        .as_mut()
        .map(|payload| std::mem::take(&mut payload.options));
    let options = own.overriding(script_options.unwrap_or_default());
    options.check_implemented()?;
    // This includes options from lines of the script.
    if let Some(id) = EXCLUDED.iter().find(|id| options.has(id)) {
        let text = format!("--clone and -{id} cannot be given together");
        return Err(Fail::usage(text));
    }
    NoEffect::of(&options).warn("csub");
    let options = &*spec::whole_hosts(&options)?;
    let given = changing_options(options, &mut of.set);
    if payload.is_some() {
        of.set.push("Z".to_owned());
    }
    let site = Site::find()?;
    refuse_unchecked(&site, "--clone", &of.set)?;
    let unit = || limit_unit(&site);
    let mut parsing = context.parse_context(&site, &unit);
    // The original job provides queue and project.
    (parsing.default_queue, parsing.default_project) = ("", "");
    let mut job = spec::submission(&given, &parsing)?;
    if options.has("K") && job.hold {
        return Err(Fail::usage("-K and -H cannot be given together"));
    }
    let params = Params::of(options, &context.cwd)?;
    params.number(&mut job)?;
    let Payload {
        command, script, ..
    } = match payload {
        None => Payload::default(),
        Some(payload) => {
            spec::check_command(&payload.command)?;
            job.spec.shell = script::interpreter(&payload, &job.spec.shell)?;
            payload
        }
    };
    job.command = command;
    job.clone = Some(Box::new(of));
    let mut head = request_head(options, script, &context.cwd)?;
    head.params = params.table;
    if !options.has("env") {
        // The environment of the original job is used.
        head.env.clear();
    }
    let key = job.key.clone();
    let ack = match retries::send_job(&site, "csub", head, job, wait_s)? {
        Ok(ack) => ack,
        Err(code) => return Ok(code),
    };
    let run = submitted_job(&ack)?;
    let line = job_line(run, context, true);
    Ok(report_submission(&site, run, &line, &key, options.has("K")))
}

/// The submission that repeats a job unchanged, for a program other than `csub`.
pub(super) fn unchanged(
    site: &Site,
    context: &SubmitContext,
    job: &str,
    key: &str,
) -> Result<PreparedJob> {
    let of = original_job(job)?;
    let unit = || limit_unit(site);
    let mut parsing = context.parse_context(site, &unit);
    // The original job provides queue and project.
    (parsing.default_queue, parsing.default_project) = ("", "");
    let mut given = JobOptions::default();
    if !key.is_empty() {
        given.add("key", key);
    }
    let mut job = spec::submission(&given, &parsing)?;
    job.clone = Some(Box::new(of));
    let mut head = request_head(&given, ByteText::default(), &context.cwd)?;
    // The environment of the original job is used.
    head.env.clear();
    Ok(PreparedJob {
        job,
        head,
        warning: None,
    })
}

fn original_job(text: &str) -> Result<CloneOf> {
    let (id, elements) = match JobSel::parse(text).map_err(|e| invalid_value("-clone", text, &e))? {
        JobSel::Job(id) => (id, String::new()),
        JobSel::Elements(id, set) => (id, set.to_string()),
        JobSel::All => return Err(Fail::usage("--clone: give the ID of one job")),
    };
    Ok(CloneOf {
        id,
        elements,
        set: Vec::new(),
    })
}

/// The options of the submission; adds the names of those that change the job to `set`.
pub(super) fn changing_options(options: &JobOptions, set: &mut Vec<String>) -> JobOptions {
    let mut given = JobOptions::default();
    let mut note = |option: &str| {
        if !set.iter().any(|known| known == option) {
            set.push(option.to_owned());
        }
    };
    for (id, value) in options.iter() {
        if has_no_effect(id) {
            continue;
        }
        given.add(id, value);
        match id {
            _ if SUBMISSION_OPTIONS.contains(&id) => {}
            // The values are in the table of the request.
            "params" => {}
            "mem" => {
                note("M");
                note("R");
            }
            "gpu" => note("R"),
            "section" => note("launch"),
            "do" | "So" | "Sb" => note("di"),
            "is" => {}
            id => note(replacement_group(id)),
        }
    }
    given
}

/// Refuses changed options if the site has a program that checks them: it has only seen the
/// original job.
pub(super) fn refuse_unchecked(site: &Site, what: &str, set: &[String]) -> Result<()> {
    let Some(dir) = site.esubs.as_deref().filter(|_| !set.is_empty()) else {
        return Ok(());
    };
    let program = dir.join("esub");
    if !sys::fs::exists(&program) {
        return Ok(());
    }
    Err(Fail::refused(format!(
        "{what}: {} checks the options of every job of this site: submit the job with all its \
         options",
        program.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::super::options;
    use super::*;

    fn set(words: &[&str]) -> Vec<String> {
        let table = Table::new(options::csub());
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        let split = table.split(&words).unwrap_or_else(|e| panic!("{e}"));
        let mut names = Vec::new();
        changing_options(&JobOptions::from_split(&table, &split), &mut names);
        names
    }

    #[test]
    fn options_of_the_job_are_changes() {
        assert!(set(&["-clone", "7", "-K", "-key", "k", "-env", "A=1"]).is_empty());
        assert_eq!(
            set(&[
                "-clone", "7", "-q", "x", "-oo", "f", "-mem", "1G", "-n", "2"
            ]),
            ["q", "o", "M", "R", "n"]
        );
        assert_eq!(set(&["-section", "a", "-do", "x", "-Zs"]), ["launch", "di"]);
    }

    #[test]
    fn a_program_repeats_a_job_as_it_is() {
        let conf = ("/e/cb.conf".as_ref(), "CB_SHARE=/none", Some("h1".into()));
        let site = Site::from_conf(conf.0, conf.1, conf.2).unwrap();
        let prepared = super::super::program_job::prepare_clone(&site, "12", "k1").unwrap();
        let of = prepared.job.clone.unwrap();
        assert_eq!(
            (of.id, of.set.len(), prepared.job.key.as_str()),
            (12, 0, "k1")
        );
        assert!(prepared.head.env.is_empty() && prepared.job.spec.queue.is_empty());
        assert!(super::super::program_job::prepare_clone(&site, "x", "").is_err());
    }

    #[test]
    fn the_job_is_named_by_its_id() {
        assert_eq!(original_job("12[2-4]").unwrap().elements, "2-4");
        for wrong in ["0", "x", "", "12[0]"] {
            assert!(original_job(wrong).is_err(), "{wrong}");
        }
    }
}
