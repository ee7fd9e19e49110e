//! Converts the job options of other batch systems (`#SBATCH` and `#PBS` lines of a script, the
//! command line of `sbatch`) to options of csub.
//!
//! A script uses one kind of lines: its `#CSUB` and `#BSUB` lines if it has any, else its `#SBATCH`
//! lines, else its `#PBS` lines. An option that changes a job and is not supported is refused with
//! its line; options that change nothing are named in one warning.

pub(crate) mod conversion;
pub(crate) mod pbs;
pub(crate) mod script_check;
pub(crate) mod slurm;
pub(crate) mod slurm_table;
pub(crate) mod task_layout;
#[cfg(test)]
mod tests;

use crate::client::exit::{Fail, Result};
use crate::spool::view::{JobSet, ViewItem, ViewReader};
use crate::text::command::{ForeignDirective, PBS, SBATCH, split_words};
pub(crate) use conversion::{ConvertContext, ConvertedOptions, ForeignOption};

/// The lines of a script that apply, all of one system, and those that do not.
pub(crate) fn applicable_lines(
    lines: &[ForeignDirective],
    first_command: usize,
) -> (Vec<ForeignDirective>, Vec<ForeignDirective>) {
    let early = |l: &ForeignDirective, prefix: &str| l.prefix == prefix && l.line < first_command;
    let directives = [SBATCH, PBS]
        .into_iter()
        .find(|prefix| lines.iter().any(|l| early(l, prefix)));
    let applicable = |l: &&ForeignDirective| directives.is_some_and(|prefix| early(l, prefix));
    (
        lines.iter().filter(applicable).cloned().collect(),
        lines.iter().filter(|l| !applicable(l)).cloned().collect(),
    )
}

/// The system for which a script without lines for csub is written: whose lines apply, or stand
/// anywhere.
pub(crate) fn system_of(
    applicable: &[ForeignDirective],
    others: &[ForeignDirective],
) -> Option<&'static str> {
    let lines = || applicable.iter().chain(others);
    let mut all = [SBATCH, PBS].into_iter();
    match applicable.first() {
        Some(line) => Some(line.prefix),
        None => all.find(|prefix| lines().any(|line| line.prefix == *prefix)),
    }
}

/// The number of the first line of a script that is neither blank nor a comment: Slurm and PBS read
/// no options after it.
pub(crate) fn first_command(text: &str) -> usize {
    let blank = |line: &str| {
        let line = line.trim_start();
        line.is_empty() || line.starts_with('#')
    };
    let found = text.lines().position(|line| !blank(line));
    found.map_or(usize::MAX, |n| n + 1)
}

/// The words after the prefix of a line.
fn directive_words(line: &ForeignDirective, place: &str) -> Result<Vec<String>> {
    let rest = line.text.strip_prefix(line.prefix).unwrap_or_default();
    split_words(rest).map_err(|e| {
        let text = e.caret(rest);
        Fail::usage(format!(
            "{place}:{}: {}\n{}",
            line.line,
            e.message,
            text.trim_end_matches('\n')
        ))
    })
}

/// The options of lines of one system. `place`: the script's name.
///
/// # Errors
/// Names the line and the option that is wrong or not supported.
pub(crate) fn convert_lines(
    lines: &[ForeignDirective],
    place: &str,
    context: &mut ConvertContext<'_>,
) -> Result<ConvertedOptions> {
    let Some(first) = lines.first() else {
        return Ok(ConvertedOptions::default());
    };
    if first.prefix == SBATCH {
        let mut all = Vec::new();
        for line in lines {
            all.extend(slurm_line(line, place)?);
        }
        return slurm::translate(&all, context);
    }
    let mut all = Vec::new();
    for line in lines {
        all.extend(pbs::line_options(
            &directive_words(line, place)?,
            &location_of(line, place),
        )?);
    }
    pbs::translate(&all, context)
}

/// The options of one `#SBATCH` line.
///
/// # Errors
/// Names what is not an option.
pub(crate) fn slurm_line(line: &ForeignDirective, place: &str) -> Result<Vec<ForeignOption>> {
    slurm::line_options(&directive_words(line, place)?, &location_of(line, place))
}

fn location_of(line: &ForeignDirective, place: &str) -> String {
    format!("{place}:{}: ", line.line)
}

/// The amount by which the indices of a job were raised, from the view; 0 for an unknown job.
///
/// # Errors
/// The view cannot be read.
pub(crate) fn index_shift(view: &ViewReader, id: u32) -> std::result::Result<u32, String> {
    let want = JobSet {
        ids: vec![(id, id)],
        finished: true,
        ..JobSet::default()
    };
    let mut shift = 0;
    let mut sink = |piece: ViewItem<'_>| {
        if let ViewItem::Job { spec, .. } = piece {
            shift = spec.index_shift();
        }
    };
    view.stream(&want, &mut sink).map_err(|e| e.to_string())?;
    Ok(shift)
}
