//! The types of the conversion: an option of another system, its context, and the result.

use crate::client::csub::options::JobOptions;
use crate::client::exit::Fail;
use crate::model::{PbsJob, SlurmArray, SlurmJob, Stamp, Submission};
use crate::text::command::{PBS, SBATCH};
use crate::text::indexset::IndexSet;
use std::collections::BTreeMap;
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
    /// The name that options of higher precedence give; empty: none.
    pub given_name: &'a str,
    pub cwd: &'a str,
    /// The job is submitted by `sbatch`: defaults are those of Slurm.
    pub sbatch: bool,
    /// Whether a path is a directory here.
    pub is_directory: &'a dyn Fn(&str) -> bool,
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
    /// The chunks of a job with lines for PBS.
    pub pbs: PbsJob,
    /// Variables of the other system that only the submission knows.
    pub variables: BTreeMap<String, String>,
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

    /// Gives the job the variables of the system for which its script is written: the prefix of its
    /// lines. `options`: all options of the job; they may set another number of slots.
    pub(crate) fn mark(&self, job: &mut Submission, system: Option<&str>, options: &JobOptions) {
        let own_slots = options.get("n") != self.options.get("n");
        if system == Some(PBS) {
            let own = PbsJob::default();
            let chunks = if own_slots { own } else { self.pbs.clone() };
            job.spec.pbs = Some(Box::new(chunks));
        }
        if system == Some(SBATCH) {
            let mut facts = self.facts.clone();
            facts.array = array_of(&job.array);
            if own_slots {
                (facts.tasks, facts.cpus) = (0, 0);
            }
            job.spec.slurm = Some(Box::new(facts));
        }
    }

    pub(crate) fn set_variable(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
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

/// What an index list says about an array.
fn array_of(list: &str) -> Option<SlurmArray> {
    let set = IndexSet::parse(list, 1, u32::MAX).ok()?;
    Some(SlurmArray {
        min: set.first()?,
        max: set.last()?,
        step: set.ranges().next().map_or(1, |range| range.step),
        count: u32::try_from(set.len()).unwrap_or(u32::MAX),
        shift: 0,
    })
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
