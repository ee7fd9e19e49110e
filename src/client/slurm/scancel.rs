//! `scancel`: ends jobs or sends them a signal.
//!
//! Selections other than by ids are resolved with the view; the leader gets ids and checks the
//! owner. Like Slurm's command, it prints nothing on success.

use super::command_line::{
    self, RefusedOption, both, comma_words, help_option, job_words, refusals, refuse, users_named,
    value_words,
};
use super::jobs::{self, ItemScope, SlurmItem};
use super::states::{State, states_of};
use crate::client::cli::{Values, command, flag, operands, opt};
use crate::client::csub::foreign::index_shift;
use crate::client::exit::{Exit, Fail, Result};
use crate::client::read::Source;
use crate::client::requests::{self, NoAnswer};
use crate::client::signal;
use crate::record::ack::{Ack, Code, Outcome};
use crate::record::request::{Selector, SignalAction, Verb};
use crate::show::job_select::Users;
use crate::spool::view::JobSet;
use crate::text::slurm::{SlurmJobId, host_words};
use clap::{ArgMatches, Command};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

const FINISHED: &str = "job has already finished";

const REFUSED: &[RefusedOption] = &[
    (
        "batch",
        'b',
        false,
        "a signal goes to all processes of a job",
    ),
    ("interactive", 'i', false, "name the jobs"),
    (
        "reservation",
        'R',
        true,
        "there are no reservations by name",
    ),
    ("qos", 'q', true, "there are no QOS"),
    ("wckey", ' ', true, "-A selects by project"),
    ("clusters", 'M', true, "there is one cluster"),
    ("sibling", ' ', true, "there is one cluster"),
    ("cron", ' ', false, "ccron remove ends a cron job"),
];

fn options() -> Command {
    let cmd = command(
        "scancel",
        "Cancel jobs or send them a signal, as Slurm's command does",
    )
    .disable_help_flag(true)
    .arg(help_option())
    .arg(both(opt("user", "USER", "Jobs of this user"), 'u'))
    .arg(flag("me", "Your own jobs"))
    .arg(both(opt("name", "NAME", "Jobs of this name"), 'n'))
    .arg(both(opt("partition", "QUEUE", "Jobs in this queue"), 'p'))
    .arg(both(
        opt(
            "state",
            "STATE",
            "Jobs in this state: PENDING, RUNNING or SUSPENDED",
        ),
        't',
    ))
    .arg(both(opt("account", "PROJECT", "Jobs of this project"), 'A'))
    .arg(both(
        opt("nodelist", "HOSTS", "Jobs on one of these hosts"),
        'w',
    ))
    .arg(both(
        opt(
            "signal",
            "SIGNAL",
            "Send this signal, by name or number, instead of ending the jobs",
        ),
        's',
    ))
    .arg(both(flag("verbose", "Report what is done"), 'v'))
    .arg(both(flag("quiet", "Do not report unknown jobs"), 'Q'))
    .arg(both(
        flag("full", "No effect: signals go to all processes").hide(true),
        'f',
    ))
    .arg(both(flag("hurry", "No effect").hide(true), 'H'))
    .arg(flag("ctld", "No effect").hide(true))
    .arg(operands(
        "jobs",
        "ID",
        "Jobs and elements: 12, 12_3, 12_[1-4]",
    ));
    refusals(cmd, REFUSED)
}

/// Runs `scancel`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    command_line::run("scancel", options(), args, cancel)
}

fn cancel(m: &ArgMatches, source: &Source) -> Result<Exit> {
    refuse(m, REFUSED)?;
    let how = match m.last("signal") {
        None => SignalAction::Kill,
        Some(text) => match signal::signal_kind(Some(text), false)? {
            // The same as no signal: the job first gets INT and TERM, and counts as cancelled.
            SignalAction::Number(9) => SignalAction::Kill,
            how => how,
        },
    };
    let list = host_words(&m.all("jobs").join(" "));
    let list: Vec<String> = list.split_whitespace().map(str::to_owned).collect();
    let ids = job_words(&list)?;
    let filters = ["user", "name", "partition", "state", "account", "nodelist"];
    let filtered = m.has("me") || filters.iter().any(|id| m.last(id).is_some());
    if ids.is_empty() && !filtered {
        return Err(Fail::usage("No job identification provided"));
    }
    let targets = match filtered {
        true => selected(m, source, &ids)?,
        false => selected_ids(source, &ids)?,
    };
    if targets.is_empty() {
        return Ok(Exit::Ok);
    }
    if m.has("verbose") {
        for id in &targets {
            eprintln!("scancel: Terminating job {}", slurm_id(id));
        }
    }
    let sel = Selector {
        ids: targets,
        ..Selector::default()
    };
    let wait_s = requests::wait_s(None)?;
    match requests::send_and_wait(
        &source.site,
        "scancel",
        &[Verb::Signal { sel, how }],
        wait_s,
    ) {
        Err(NoAnswer::NotSent(fail)) => Err(fail),
        Err(NoAnswer::Silence(text) | NoAnswer::Interrupted(text)) => Err(Fail::system(text)),
        Ok(ack) => Ok(report(&ack, how, m)),
    }
}

/// The ids of the selected jobs in the form of the leader.
fn selected_ids(source: &Source, ids: &[SlurmJobId]) -> Result<Vec<String>> {
    let mut shifts = BTreeMap::new();
    let mut all = Vec::new();
    for word in ids {
        let shift = match (&word.elements, shifts.get(&word.id)) {
            (None, _) => 0,
            (_, Some(known)) => *known,
            _ => {
                let shift = index_shift(&source.view, word.id).map_err(Fail::system)?;
                shifts.insert(word.id, shift);
                shift
            }
        };
        all.push(word.corral_id(shift).map_err(Fail::not_found)?);
    }
    Ok(all)
}

/// The unfinished jobs that match all options.
fn selected(m: &ArgMatches, source: &Source, ids: &[SlurmJobId]) -> Result<Vec<String>> {
    let params = source.params()?;
    let requested = users_named(m, source, &params);
    let users = requested.unwrap_or_else(|| match source.me.uid {
        0 => Users::All,
        uid => Users::one(uid),
    });
    let states = value_words(m, "state");
    let states = match states.is_empty() {
        true => State::ALL.to_vec(),
        false => states_of(&states)?,
    };
    let (names, queues) = (comma_words(m, "name"), value_words(m, "partition"));
    let (projects, hosts) = (value_words(m, "account"), value_words(m, "nodelist"));
    let hosts = match hosts.is_empty() {
        true => Vec::new(),
        false => crate::text::hostlist::expand(&hosts.join(" "))
            .map_err(|e| Fail::usage(format!("--nodelist: {}", e.message)))?,
    };
    let want = JobSet {
        ids: ids.iter().map(|word| (word.id, word.id)).collect(),
        ..JobSet::default()
    };
    let one_of = |list: &[String], text: &str| list.is_empty() || list.iter().any(|w| w == text);
    let has = |item: &SlurmItem| {
        let spec = &item.spec;
        let on = item.row.hosts.iter().any(|host| hosts.contains(&host.0));
        states.contains(&item.state())
            && users.has(spec.uid, &spec.user, &spec.queue)
            && (ids.is_empty() || ids.iter().any(|word| item.is_named(word)))
            && one_of(&names, &item.name)
            && one_of(&queues, &spec.queue)
            && one_of(&projects, &spec.project)
            && (hosts.is_empty() || on)
    };
    let mut jobs = BTreeSet::new();
    let mut elements: BTreeMap<u32, crate::text::indexset::IndexSet> = BTreeMap::new();
    let mut each = Vec::new();
    for item in jobs::items(source, &want)? {
        item.push_each(&mut each);
    }
    for item in each.iter().filter(|item| has(item)) {
        match item.part {
            ItemScope::Element(idx) => drop(elements.entry(item.id()).or_default().insert(idx)),
            _ => drop(jobs.insert(item.id())),
        }
    }
    let mut all: Vec<String> = jobs.iter().map(u32::to_string).collect();
    all.extend(elements.iter().map(|(id, set)| format!("{id}[{set}]")));
    Ok(all)
}

/// Converts `12[3-4]` to `12_[3-4]`.
fn slurm_id(id: &str) -> String {
    id.replacen('[', "_[", 1)
}

fn report(ack: &Ack, action: SignalAction, m: &ArgMatches) -> Exit {
    let mut exit = Exit::Ok;
    for outcome in &ack.results {
        let Some(text) = message(outcome, action) else {
            continue;
        };
        exit = exit.worst(Exit::of(outcome.code));
        if !m.has("quiet") || outcome.code != Code::NotFound {
            eprintln!("scancel: error: {text}");
        }
    }
    if !ack.ok {
        eprintln!("scancel: error: {}", ack.error);
        exit = exit.worst(Exit::Refused);
    }
    exit
}

/// The message for a job; none if it is killed, or had ended already.
fn message(outcome: &Outcome, action: SignalAction) -> Option<String> {
    let id = slurm_id(&outcome.what);
    let why = match (outcome.code, outcome.text.as_str()) {
        (Code::Ok, _) => return None,
        (_, FINISHED) if action == SignalAction::Kill => return None,
        (_, FINISHED) => "Job/step already completing or completed",
        (Code::NotFound, _) => "Invalid job id specified",
        (Code::Permission, _) => "Access/permission denied",
        (_, text) => text,
    };
    Some(match action {
        SignalAction::Kill => format!("Kill job error on job id {id}: {why}"),
        _ => format!("Signal job error on job id {id}: {why}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_cluster;

    fn targets(line: &[&str]) -> Vec<String> {
        let bed = test_cluster::cluster();
        let m = command_line::parsed(options(), line);
        let ids = job_words(&m.all("jobs")).unwrap();
        selected(&m, &bed.source("scancel", 10), &ids).unwrap()
    }

    #[test]
    fn options_select_jobs_that_have_not_ended() {
        assert_eq!(targets(&["-u", "u20"]), ["2"]);
        assert_eq!(targets(&["--me", "-t", "PENDING"]), ["1", "4[3-5]"]);
        assert_eq!(targets(&["--me", "-t", "R"]), ["6", "4[2]"]);
        assert_eq!(targets(&["-n", "job4", "4_[1-3]"]), ["4[2-3]"]);
        assert_eq!(targets(&["-p", "other"]), [""; 0]);
        assert_eq!(targets(&["-w", "h2", "-A", "weather"]), ["6"]);
    }

    #[test]
    fn only_what_went_wrong_is_said() {
        let outcome = |code, text: &str| Outcome {
            what: "12[3]".into(),
            code,
            text: text.into(),
        };
        let kill = |code, text| message(&outcome(code, text), SignalAction::Kill);
        assert_eq!(kill(Code::Ok, "is being terminated"), None);
        assert_eq!(kill(Code::NotFound, FINISHED), None);
        assert_eq!(
            kill(Code::NotFound, "no matching job found").unwrap(),
            "Kill job error on job id 12_[3]: Invalid job id specified"
        );
        assert_eq!(
            message(&outcome(Code::NotFound, FINISHED), SignalAction::Number(10)).unwrap(),
            "Signal job error on job id 12_[3]: Job/step already completing or completed"
        );
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let bed = test_cluster::cluster();
        let fail = |words: &[&str]| {
            let m = command_line::parsed(options(), words);
            cancel(&m, &bed.source("scancel", 10)).unwrap_err().text
        };
        assert_eq!(fail(&[]), "No job identification provided");
        assert!(fail(&["-b", "1"]).contains("--batch is not available"));
        assert!(fail(&["x"]).contains("Invalid job id x"));
        assert!(fail(&["-s", "NOSIG", "1"]).contains("is not a signal"));
    }
}
