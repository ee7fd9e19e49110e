//! `cmig`: moves started jobs to other hosts, where they continue from a checkpoint or start again.

use super::cli::{Values, command, flag, parse};
use super::env::Site;
use super::exit::{Fail, Result};
use super::job_requests::{
    filters_but_host, finish, ids, job_phrase, send_and_report, with_selectors_beside, with_wait,
};
use super::read::Source;
use crate::record::request::{Selector, Verb};
use crate::text::names::HostSet;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::ffi::OsString;

/// The options of `cmig`. `-m` names hosts to go to, not those that jobs are on.
pub(super) fn options() -> Command {
    let about = "Migrate started jobs: save them or run them again, on other hosts";
    let hosts = Arg::new("hosts")
        .short('m')
        .action(ArgAction::Append)
        .value_name("HOSTS")
        .help("To one of these hosts or host groups, as csub -m names them");
    let cmd = with_wait(command("cmig", about))
        .arg(flag(
            "f",
            "Force: passed on to the checkpoint method, which saves despite obstacles",
        ))
        .arg(hosts);
    with_selectors_beside(cmd, |cmd| cmd)
}

/// Runs the command; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    match parse(options(), args) {
        Ok(m) => finish("cmig", migrate(&m)),
        Err(code) => code,
    }
}

fn migrate(m: &ArgMatches) -> Result<i32> {
    let verb = verb(m)?;
    if let Verb::Migrate { hosts, .. } = &verb {
        check_hosts(hosts)?;
    }
    send_and_report("cmig", m, &[verb], job_phrase)
}

/// Reports a mistyped host before a job is stopped for it. If the view cannot be read, no host is
/// refused, because the leader checks them as well.
fn check_hosts(hosts: &str) -> Result<()> {
    let source = Source::of("cmig", Site::find()?);
    let (Ok(set), Ok(params), Ok(_)) = (
        HostSet::parse_stored(hosts),
        source.params(),
        source.hosts(),
    ) else {
        return Ok(());
    };
    let names = set.items.into_iter().map(|item| item.name);
    let names: Vec<String> = names.filter(|name| name != "others").collect();
    source.host_names(&names, &params).map(drop)
}

fn verb(m: &ArgMatches) -> Result<Verb> {
    let Selector { ids, all, .. } = ids(&m.all("jobs"))?;
    let sel = Selector {
        ids,
        all,
        ..filters_but_host(m)?
    };
    let hosts = m.last("hosts").map(|text| {
        let set =
            HostSet::parse(text).map_err(|e| super::csub::spec::invalid_value("m", text, &e))?;
        match set.items.is_empty() {
            true => Err(Fail::usage("-m: name the hosts that the jobs are to go to")),
            false => Ok(set),
        }
    });
    Ok(Verb::Migrate {
        sel,
        hosts: hosts.transpose()?.map_or(String::new(), |s| s.to_string()),
        force: m.has("f"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::exit::Exit;

    fn of(words: &[&str]) -> Result<Verb> {
        let words: Vec<OsString> = words.iter().map(Into::into).collect();
        verb(&parse(options(), &words).unwrap())
    }

    #[test]
    fn m_names_where_to_go() {
        let verb = of(&["-f", "-m", "h2 h3", "-q", "low", "0"]).unwrap();
        let Verb::Migrate { sel, hosts, force } = verb else {
            panic!("{verb:?}");
        };
        assert_eq!((hosts.as_str(), force), ("h[2-3]", true));
        assert_eq!(
            (sel.queue.as_str(), sel.host.as_str(), sel.all),
            ("low", "", true)
        );
        for bad in [["-m", ""], ["-m", "a/b c*"], ["-q", "a b"]] {
            assert_eq!(of(&bad).unwrap_err().exit, Exit::Usage, "{bad:?}");
        }
    }
}
