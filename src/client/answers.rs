//! The output of reading commands, for a program that is not one of them: the same options, the
//! same visibility rules, with the text returned instead of printed.
//!
//! Owns which commands can be called in this way. Their messages on standard error beside an answer
//! are not returned; a refusal is.

use super::cli::parse;
use super::exit::{Exit, Fail, Result};
use super::read::{Source, split_json};
use super::{cacct, ccron, chist, chosts, cinfo, cjobs, climits, cload, cqueues, cusers};
use std::ffi::OsString;

/// Maximum size of an answer from accounting, in bytes.
const TEXT_MAX: usize = 64 << 20;

/// A reading command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadCommand {
    Jobs,
    History,
    Queues,
    Hosts,
    Load,
    Limits,
    Users,
    Crons,
    Accounting,
    Cluster,
}

/// Returns what the command prints with these words on its command line; empty if it finds nothing.
///
/// # Errors
/// What the command would refuse.
pub(crate) fn answer(source: &Source, what: ReadCommand, words: &[&str]) -> Result<String> {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    let words = split_json(&words);
    let options = match what {
        ReadCommand::Jobs => cjobs::options(),
        ReadCommand::History => chist::options(),
        ReadCommand::Queues => cqueues::options(),
        ReadCommand::Hosts => chosts::options(),
        ReadCommand::Load => cload::options(),
        ReadCommand::Limits => climits::options(),
        ReadCommand::Users => cusers::options(),
        ReadCommand::Crons => ccron::show_options(),
        ReadCommand::Accounting => cacct::options(),
        ReadCommand::Cluster => cinfo::options(),
    };
    let m = parse(options, &words).map_err(|_| Fail::usage("these options are not understood"))?;
    let found = |(text, exit): (String, Exit)| match exit {
        Exit::NotFound if text.is_empty() => Err(Fail::not_found("there is no such thing")),
        _ => Ok(text),
    };
    match what {
        ReadCommand::Jobs => found(cjobs::text(&m, source)?),
        ReadCommand::History => Ok(chist::show(&m, source, &source.ctx())?.text),
        ReadCommand::Queues => found(cqueues::show(&m, source)?),
        ReadCommand::Hosts => found(chosts::show(&m, source)?),
        ReadCommand::Load => found(cload::show(&m, source)?),
        ReadCommand::Limits => found(climits::show(&m, source)?),
        ReadCommand::Users => found(cusers::show(&m, source)?),
        ReadCommand::Crons => found(ccron::pages(&m, source)?),
        ReadCommand::Cluster => found(cinfo::show(&m, source)?),
        ReadCommand::Accounting => {
            let mut text = String::new();
            let mut put = |part: &str| {
                if text.len() + part.len() > TEXT_MAX {
                    return Err(Fail::refused(format!(
                        "the answer has more than {TEXT_MAX} bytes\nhint: request a shorter \
                         period, or use cacct"
                    )));
                }
                text.push_str(part);
                Ok(())
            };
            cacct::show(&m, source, &source.ctx(), &mut put)?;
            Ok(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_cluster;

    #[test]
    fn commands_answer_as_they_print() {
        let bed = test_cluster::cluster();
        let source = bed.source("portal", 0);
        for (what, words, holds) in [
            (
                ReadCommand::Jobs,
                &["--json", "-u", "all"][..],
                "\"jobid\":",
            ),
            (ReadCommand::Queues, &["--json"], "\"normal\""),
            (ReadCommand::Hosts, &["--json"], "\"h1\""),
            (ReadCommand::Load, &["--json"], "\"h1\""),
            (ReadCommand::Limits, &["--json"], "\"resource\":"),
            (ReadCommand::Users, &["--json", "all"], "\"name\":"),
        ] {
            let text = answer(&source, what, words).unwrap();
            assert!(
                text.starts_with('{') && text.contains(holds),
                "{what:?} {text}"
            );
        }
        let none = answer(&source, ReadCommand::Jobs, &["--json", "999999"]).unwrap_err();
        assert_eq!(none.exit, Exit::NotFound);
        assert!(answer(&source, ReadCommand::Jobs, &["-sla", "x"]).is_err());
    }
}
