//! The types of the conversion: an option of another system, its context, and the result.

use crate::client::csub::options::JobOptions;
use crate::client::exit::Fail;
use crate::model::{SlurmJob, Stamp, Submission};
use std::fmt::Write as _;

/// An option as given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ForeignOption {
    /// Its long name; in PBS its letter.
    pub option: String,
    pub value: String,
    /// `SCRIPT:3: `; empty for the command line.
    pub location: String,
}

impl ForeignOption {
    /// A failure that refuses the option.
    pub(crate) fn refuse(&self, why: &str) -> Fail {
        let dash = if self.option.len() == 1 { "-" } else { "--" };
        Fail::usage(format!("{}{dash}{}: {why}", self.location, self.option))
    }
}

/// The context in which options are converted.
pub(crate) struct ConvertContext<'a> {
    pub now_ms: i64,
    pub user: &'a str,
    /// The name of the job if none is given; empty: no name.
    pub name: &'a str,
    pub cwd: &'a str,
    /// The job is submitted by `sbatch`: defaults are those of Slurm.
    pub sbatch: bool,
    /// Returns by how much the indices of a job were raised.
    pub index_shift: &'a mut dyn FnMut(u32) -> std::result::Result<u32, String>,
}

/// Options of another system, converted to those of csub.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct ConvertedOptions {
    pub options: JobOptions,
    /// The earliest start, ms since the epoch, because `-b` has no seconds.
    pub begin: Option<i64>,
    /// Values for the environment of an `sbatch` job.
    pub facts: SlurmJob,
    /// Options that change nothing, and why.
    pub no_effect: Vec<(String, String)>,
}

impl ConvertedOptions {
    /// Sets values for which csub has no option. `options`: all options of the job.
    pub(crate) fn complete(&self, job: &mut Submission, options: &JobOptions) {
        if !options.has("b") {
            job.spec.begin = self.begin.map(Stamp).or(job.spec.begin);
        }
    }

    pub(crate) fn note_no_effect(&mut self, option: &ForeignOption, why: &str) {
        let dash = if option.option.len() == 1 { "-" } else { "--" };
        let name = format!("{dash}{}", option.option);
        if !self.no_effect.iter().any(|(old, _)| *old == name) {
            self.no_effect.push((name, why.to_owned()));
        }
    }

    /// The warning about options that change nothing, without the command's name.
    pub(crate) fn warning(&self, place: &str) -> Option<String> {
        let names: Vec<&str> = self
            .no_effect
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        let (last, first) = names.split_last()?;
        let (list, verb) = match first {
            [] => ((*last).to_owned(), "has"),
            _ => (format!("{} and {last}", first.join(", ")), "have"),
        };
        let mut reasons: Vec<&str> = Vec::new();
        for (_, why) in &self.no_effect {
            if !reasons.contains(&why.as_str()) {
                reasons.push(why);
            }
        }
        let place = match place {
            "" => String::new(),
            place => format!("{place}: "),
        };
        let mut out = String::new();
        let _ = write!(
            out,
            "warning: {place}{list} {verb} no effect here: {}",
            reasons.join("; ")
        );
        Some(out)
    }
}

/// A number of 1 or more.
pub(super) fn number(text: &str) -> std::result::Result<u32, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse::<u32>() {
        Ok(n) if digits && n > 0 => Ok(n),
        _ => {
            let shown = crate::text::width::escape(text);
            Err(format!("'{shown}' is not a number of 1 or more"))
        }
    }
}

/// `NAME[INDICES]%LIMIT` for `-J`.
pub(super) fn job_name(
    name: &str,
    array: Option<&crate::text::slurm::IndexList>,
) -> std::result::Result<String, String> {
    if name.contains('[') {
        return Err("a job name cannot contain '['".to_owned());
    }
    Ok(match array {
        None => name.to_owned(),
        Some(list) => {
            let limit = list.limit.map_or(String::new(), |n| format!("%{n}"));
            format!("{name}[{}]{limit}", list.indices)
        }
    })
}

/// Memory in the form of `-R` and `-M`.
pub(super) fn mem_text(bytes: u64) -> String {
    format!("{}M", bytes.div_ceil(1 << 20))
}

/// `VAR=VALUE` for `-env`, quoted.
pub(super) fn env_text(name: &str, value: &str) -> Option<String> {
    let quote = ['\'', '"'].into_iter().find(|q| !value.contains(*q))?;
    Some(format!("{name}={quote}{value}{quote}"))
}
