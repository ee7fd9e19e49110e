//! `csub -pack FILE`: one job per line, all of them in one request.
//!
//! An invalid line is listed and skipped; the others are submitted. Lines with the same options as
//! the previous line are sent without them.

use super::missing_files;
use super::no_effect::NoEffect;
use super::options::JobOptions;
use super::script::pack_words;
use super::spec::{self, ParseContext, command_line};
use crate::client::cli::{GivenOption, Table};
use crate::client::exit::{Fail, Result};
use crate::client::requests::Outgoing;
use crate::model::{Spec, Submission};
use crate::record::request::Verb;
use crate::sys;
use std::path::Path;

/// Maximum size of a pack file, in bytes.
const PACK_MAX: u64 = 64 << 20;
/// Options that apply to the whole pack, not to a line of it.
const NOT_IN_A_LINE: &[&str] = &[
    "K", "I", "Ip", "Is", "XF", "pack", "params", "clone", "spec", "env", "is", "wait", "verbose",
    "dry-run", "jsonl", "help", "version",
];

/// A pack that is being sent.
#[derive(Default)]
pub(super) struct Pack {
    /// Numbers of the lines that are sent, in order.
    pub lines: Vec<u32>,
    /// Numbers of the lines that are skipped, with the reason.
    pub skipped: Vec<(u32, String)>,
    /// Options without effect of csub and of the lines.
    pub no_effect: NoEffect,
    /// The first warning about something that this host lacks.
    pub missing: Option<String>,
}

/// Reads the file, `-` for standard input.
///
/// # Errors
/// The file cannot be read or is not text.
pub(super) fn read(name: &str) -> Result<String> {
    let bytes = if name == "-" {
        sys::caller::read_stdin(PACK_MAX)
    } else {
        sys::fs::read_small(Path::new(name), PACK_MAX)
    };
    let bytes = bytes.map_err(|e| Fail::usage(format!("-pack: {e}")))?;
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Fail::usage(format!("-pack: {name} is not UTF-8 text (byte {at})"))
    })
}

/// Adds a job to `request` for each line of `text`. `common` are the options of csub itself, which
/// a line's own options override.
///
/// # Errors
/// There is no line, or the request becomes too large. Invalid lines are in the returned pack.
pub(super) fn fill(
    text: &str,
    table: &Table,
    common: &JobOptions,
    context: &ParseContext<'_>,
    request: &mut Outgoing,
) -> Result<Pack> {
    let mut pack = Pack::default();
    let mut before = PreviousLine::default();
    before.no_effect.note(common);
    for (n, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match before.verb(n, line, table, common, context) {
            Ok(verb) => {
                request.push(&verb)?;
                pack.lines.push(n);
            }
            Err(fail) => pack.skipped.push((n, fail.text)),
        }
    }
    (pack.no_effect, pack.missing) = (before.no_effect, before.missing);
    if pack.lines.is_empty() && pack.skipped.is_empty() {
        return Err(Fail::usage("-pack: the file contains no job"));
    }
    Ok(pack)
}

/// The specification of the previous line, reused by a line with the same options.
#[derive(Default)]
struct PreviousLine {
    given: Vec<GivenOption>,
    job: Option<Submission>,
    /// The last specification that was sent.
    sent: Option<Spec>,
    no_effect: NoEffect,
    /// The first warning about something that this host lacks.
    missing: Option<String>,
}

impl PreviousLine {
    fn verb(
        &mut self,
        line: u32,
        text: &str,
        table: &Table,
        common: &JobOptions,
        context: &ParseContext<'_>,
    ) -> Result<Verb> {
        let split = table
            .split(&pack_words(text)?)
            .map_err(|e| Fail::usage(e.0))?;
        let command = command_line(&split);
        spec::check_command(&command)?;
        if self.job.is_none() || self.given != split.given {
            let own = JobOptions::from_split(table, &split);
            if let Some(id) = NOT_IN_A_LINE.iter().find(|id| own.has(id)) {
                let text =
                    format!("-{id} is not allowed in a line of a pack: give it to csub itself");
                return Err(Fail::usage(text));
            }
            self.no_effect.note(&own);
            let mut job = spec::submission(&own.overriding(common.clone()), context)?;
            let warning = missing_files::note(&mut job.spec);
            self.missing = self.missing.take().or(warning);
            self.job = Some(job);
            self.given = split.given;
        }
        let previous = self.job.as_ref().expect("set above");
        let same = self.sent.as_ref() == Some(&previous.spec);
        if !same {
            self.sent = Some(previous.spec.clone());
        }
        let job = Submission {
            spec: if same {
                Spec::default()
            } else {
                previous.spec.clone()
            },
            command,
            name: previous.name.clone(),
            array: previous.array.clone(),
            array_limit: previous.array_limit,
            hold: previous.hold,
            app_label: previous.app_label,
            key: previous.key.clone(),
            clone: None,
            restart: None,
        };
        let job = Box::new(job);
        Ok(Verb::Submit { line, same, job })
    }
}
