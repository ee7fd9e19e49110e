//! The options of every command, for code that needs them without running it: completion.
//!
//! Owns which command accepts which options; each command describes its own. Runs nothing.

use super::{
    cacct, capps, ccron, cdeps, cevents, checkpoint, chist, chosts, cid, cinfo, cjobs, claunch,
    climits, cload, clogin, cparams, cpeek, cqueues, crun, cslots, csub, ctasks, ctoken, cusers,
    cview, cwait, groups, job_groups, lsf_names, messages, migrate, reorder, requeue, signal,
    switch,
};
use clap::Command;

/// The options of the command with this name of Corral's or LSF's; none for a command that has
/// subcommands.
pub(crate) fn of(name: &str) -> Option<Command> {
    let options = match name {
        "csub" => csub::options::csub,
        "ckill" => signal::ckill_options,
        "cstop" => signal::cstop_options,
        "cresume" => signal::cresume_options,
        "cchkpnt" => checkpoint::options,
        "crestart" => csub::options::crestart,
        "crequeue" => requeue::options,
        "cmig" => migrate::options,
        "cmod" => csub::options::cmod,
        "cswitch" => switch::options,
        "ctop" => reorder::ctop_options,
        "cbot" => reorder::cbot_options,
        "crun" => crun::options,
        "cpost" => messages::cpost_options,
        "cread" => messages::cread_options,
        "cpeek" => cpeek::options,
        "claunch" | "blaunch" => claunch::options,
        "cwait" => cwait::options,
        "ctasks" => ctasks::options,
        "cgadd" => job_groups::cgadd_options,
        "cgmod" => job_groups::cgmod_options,
        "cgdel" => job_groups::cgdel_options,
        "cjgroup" => job_groups::options,
        "cjobs" => cjobs::options,
        "cdeps" => cdeps::options,
        "cevents" => cevents::options,
        "chist" => chist::options,
        "cacct" => cacct::options,
        "capps" => capps::options,
        "cqueues" => cqueues::options,
        "chosts" => chosts::options,
        "cload" => cload::options,
        "cinfo" | "lshosts" => cinfo::options,
        "climits" => climits::options,
        "cslots" => cslots::options,
        "cusers" => cusers::options,
        "cugroup" => groups::cugroup_options,
        "cmgroup" => groups::cmgroup_options,
        "cparams" => cparams::options,
        "cview" => cview::options,
        "clogin" => clogin::options,
        "ctoken" => ctoken::options,
        "cid" => cid::options,
        other => return lsf_names::options(other),
    };
    Some(options())
}

/// The subcommands of ccron with their options.
pub(crate) fn of_ccron() -> impl Iterator<Item = (&'static str, Command)> {
    ccron::subcommands()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::cli::Table;
    use crate::client::examples::{EXAMPLES, text};
    use crate::client::read::split_json;
    use crate::text::command::split_words;
    use std::collections::HashSet;
    use std::ffi::OsString;

    /// Width of a plain terminal.
    const COLUMNS: usize = 79;

    fn options_of(name: &str) -> Command {
        let ccron = || of_ccron().find(|(sub, _)| name == format!("ccron {sub}"));
        let found = of(name).or_else(|| ccron().map(|(_, options)| options));
        found.unwrap_or_else(|| panic!("{name} has no options"))
    }

    /// Parses an example as its command would.
    fn read(name: &str, line: &str) -> Result<(), String> {
        let words = split_words(line).map_err(|e| e.to_string())?;
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let words: Vec<String> = split_json(&words)
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        let table = Table::new(options_of(name));
        let split = table.split(&words).map_err(|e| e.0)?;
        for given in &split.given {
            let mut args = table.command().get_arguments();
            let arg = args.find(|arg| arg.get_id() == table.id(given));
            if arg.is_none_or(clap::Arg::is_hide_set) {
                return Err(format!("-{} is not implemented", table.id(given)));
            }
        }
        let read = table.check(&split);
        read.map(drop).map_err(|code| format!("exit code {code}"))
    }

    #[test]
    fn every_example_is_a_line_that_its_command_understands() {
        for (name, examples) in EXAMPLES {
            assert!((1..=4).contains(&examples.len()), "{name}");
            for (line, about) in *examples {
                assert_eq!(read(name, line), Ok(()), "{name} {line}");
                assert!(!about.is_empty(), "{name} {line}");
            }
            for shown in text(name, name).unwrap().lines() {
                assert!(shown.len() <= COLUMNS, "{shown}");
            }
        }
        assert!(read("csub", "-nonsense x").is_err(), "not -n with a value");
        assert!(read("cjobs", "-nonsense").is_err());
        assert!(read("cjobs", "-sla").is_err(), "known and not implemented");
    }

    #[test]
    fn every_command_has_examples() {
        let named: HashSet<&str> = EXAMPLES.iter().map(|(name, _)| *name).collect();
        assert_eq!(named.len(), EXAMPLES.len());
        for entry in crate::client::COMMANDS {
            // Their examples are in their own help; ccron's subcommands have theirs.
            if !["ccron", "aip"].contains(&entry.names[0]) {
                assert!(named.contains(entry.names[0]), "{}", entry.names[0]);
            }
        }
        for (sub, _) in of_ccron() {
            assert!(named.contains(format!("ccron {sub}").as_str()), "{sub}");
        }
    }
}
