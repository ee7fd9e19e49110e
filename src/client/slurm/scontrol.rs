//! `scontrol`: shows jobs, nodes and partitions, holds and releases jobs, changes some of their
//! options, expands lists of hosts.
//!
//! Its words are those of Slurm's command; words for features that only Slurm has are refused.

use super::command_line::{self, both, job_words, without_h_flag};
use super::fields::Ctx;
use super::jobs::{self, SlurmItem};
use super::scontrol_show::{self as show, Block};
use super::sinfo_nodes::{Node, NodeState};
use super::states::State;
use crate::client::cli::{Values, flag, operands};
use crate::client::csub::foreign::index_shift;
use crate::client::csub::options::JobOptions;
use crate::client::exit::{Exit, Fail, Result};
use crate::client::read::{self, Source};
use crate::client::requests::{self, NoAnswer};
use crate::record::ack::Code;
use crate::record::request::{Selector, SignalAction, StateGroup, Verb};
use crate::show::job_select::Users;
use crate::spool::view::JobSet;
use crate::sys;
use crate::text::slurm::{SlurmJobId, dependency, host_words, time_limit};
use clap::{ArgMatches, Command};
use jiff::tz::TimeZone;
use std::ffi::OsString;

fn options() -> Command {
    without_h_flag(
        "scontrol",
        "Show and change jobs, nodes and partitions, as Slurm's command does",
    )
    .arg(both(flag("oneliner", "Each record on one line"), 'o'))
    .arg(both(flag("details", "No effect").hide(true), 'd'))
    .arg(both(flag("all", "No effect").hide(true), 'a'))
    .arg(both(flag("quiet", "No effect").hide(true), 'Q'))
    .arg(both(flag("verbose", "No effect").hide(true), 'v'))
    .arg(operands(
        "words",
        "WORD",
        "show job|node|partition [NAME]; show hostnames|hostlist LIST; hold|release|suspend|\
         resume|requeue|requeuehold ID...; update JobId=ID KEY=VALUE...",
    ))
}

/// Runs `scontrol`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    command_line::run("scontrol", options(), args, |m, source| {
        let words = m.all("words");
        let Some((verb, rest)) = words.split_first() else {
            return Err(Fail::usage("a word is missing: scontrol --help lists them"));
        };
        let at = (sys::clock::wall_ms(), TimeZone::system());
        match verb.to_ascii_lowercase().as_str() {
            "show" => {
                read::put(&show_output(m, source, rest, at)?)?;
                Ok(Exit::Ok)
            }
            "update" => update(source, rest),
            verb => run_verb(source, verb, rest),
        }
    })
}

/// The output of `show`.
fn show_output(
    m: &ArgMatches,
    source: &Source,
    words: &[String],
    (now, zone): (i64, TimeZone),
) -> Result<String> {
    let (what, names) = words.split_first().ok_or_else(|| {
        Fail::usage("show: give one of job, node, partition, hostnames, hostlist")
    })?;
    let blocks = match what.to_ascii_lowercase().as_str() {
        "job" | "jobs" => job_blocks(source, names, &ctx(source, now, zone))?,
        "node" | "nodes" => node_blocks(source, names)?,
        "partition" | "partitions" => partition_blocks(source, names)?,
        "hostname" | "hostnames" => return hostnames(names),
        "hostlist" | "hostlistsorted" => {
            let hosts = expanded(names)?;
            return Ok(format!("{}\n", jobs::fold(&hosts)));
        }
        other => {
            let other = crate::text::width::escape(other);
            return Err(Fail::usage(format!(
                "show {other} is not available: job, node, partition, hostnames and hostlist are"
            )));
        }
    };
    Ok(show::text(&blocks, m.has("oneliner")))
}

fn ctx(source: &Source, now: i64, zone: TimeZone) -> Ctx {
    let rows = source.view.estimates().unwrap_or_default();
    let found = rows.into_iter().filter_map(|row| Some((row.j, row.at?)));
    Ctx {
        now,
        zone,
        estimates: found.collect(),
    }
}

/// Prints one line for each host of a list; without a list, for each host of the job that runs this
/// command.
fn hostnames(names: &[String]) -> Result<String> {
    let hosts = match (names, std::env::var("SLURM_JOB_NODELIST")) {
        ([], Ok(list)) => expanded(&[list])?,
        _ => expanded(names)?,
    };
    Ok(hosts.iter().map(|host| format!("{host}\n")).collect())
}

fn expanded(names: &[String]) -> Result<Vec<String>> {
    crate::text::hostlist::expand(&host_words(&names.join(","))).map_err(|e| Fail::usage(e.message))
}

fn job_blocks(source: &Source, names: &[String], ctx: &Ctx) -> Result<Vec<Block>> {
    let params = source.params()?;
    let words = job_words(names)?;
    let users = source.allowed(&params, Users::All);
    let want = JobSet {
        ids: words.iter().map(|word| (word.id, word.id)).collect(),
        finished: true,
        ..JobSet::default()
    };
    let is_visible = |item: &SlurmItem| users.has(item.spec.uid, &item.spec.user, &item.spec.queue);
    let named = |item: &SlurmItem| words.is_empty() || words.iter().any(|word| item.is_named(word));
    let mut items = jobs::items(source, &want)?;
    items.retain(|item| is_visible(item) && named(item));
    items.sort_by_key(|item| (item.key().id, item.key().idx));
    if items.is_empty() && !words.is_empty() {
        return Err(Fail::not_found("Invalid job id specified"));
    }
    Ok(items.iter().map(|item| show::job(item, ctx)).collect())
}

fn node_blocks(source: &Source, names: &[String]) -> Result<Vec<Block>> {
    let wanted = match names {
        [] => None,
        names => Some(expanded(names)?),
    };
    let (hosts, queues) = (source.counted_hosts()?, source.queues()?);
    let mut blocks = Vec::new();
    for host in &hosts {
        if wanted
            .as_ref()
            .is_some_and(|list| !list.contains(&host.name))
        {
            continue;
        }
        let state = NodeState::of(host);
        let mine = queues.iter().filter(|q| q.hosts.contains(&host.name));
        let mine: Vec<_> = mine.collect();
        blocks.push(show::node(&Node { host, state }, &mine));
    }
    if let Some(list) = wanted
        && let Some(name) = list
            .iter()
            .find(|name| !hosts.iter().any(|h| h.name == **name))
    {
        let name = crate::text::width::escape(name);
        return Err(Fail::not_found(format!("Node {name} not found")));
    }
    Ok(blocks)
}

fn partition_blocks(source: &Source, names: &[String]) -> Result<Vec<Block>> {
    let (hosts, queues) = (source.counted_hosts()?, source.queues()?);
    if let Some(name) = names
        .iter()
        .find(|name| !queues.iter().any(|q| q.name == **name))
    {
        let name = crate::text::width::escape(name);
        return Err(Fail::not_found(format!("Partition {name} not found")));
    }
    let nodes: Vec<Node<'_>> = hosts
        .iter()
        .map(|host| Node {
            host,
            state: NodeState::of(host),
        })
        .collect();
    let wanted = queues
        .iter()
        .filter(|q| names.is_empty() || names.contains(&q.name));
    let blocks = wanted.map(|queue| {
        let mine = nodes.iter().filter(|n| queue.hosts.contains(&n.host.name));
        show::partition(queue, mine.collect())
    });
    Ok(blocks.collect())
}

/// Ids in the form of the leader.
fn leader_ids(source: &Source, words: &[SlurmJobId]) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for word in words {
        let shift = match word.elements {
            None => 0,
            Some(_) => index_shift(&source.view, word.id).map_err(Fail::system)?,
        };
        all.push(word.corral_id(shift).map_err(Fail::not_found)?);
    }
    Ok(all)
}

/// Parses `12,13` and `12 13`, possibly after `JobId=`.
fn ids_of(words: &[String]) -> Result<Vec<SlurmJobId>> {
    let bare = |word: &String| {
        let (key, value) = word.split_once('=').unwrap_or(("jobid", word));
        match key.eq_ignore_ascii_case("jobid") || key.eq_ignore_ascii_case("job") {
            true => Ok(value.to_owned()),
            false => Err(Fail::usage(format!(
                "{}: only job ids are accepted here",
                crate::text::width::escape(word)
            ))),
        }
    };
    let words: Result<Vec<String>> = words.iter().map(bare).collect();
    let list = host_words(&words?.join(","));
    let list: Vec<String> = list.split_whitespace().map(str::to_owned).collect();
    match list.is_empty() {
        true => Err(Fail::usage("a job id is missing")),
        false => job_words(&list),
    }
}

fn run_verb(source: &Source, verb: &str, rest: &[String]) -> Result<Exit> {
    let known = [
        "hold",
        "uhold",
        "release",
        "suspend",
        "resume",
        "requeue",
        "requeuehold",
    ];
    if !known.contains(&verb) {
        let verb = crate::text::width::escape(verb);
        return Err(Fail::usage(format!(
            "{verb} is not available: show, update, {} are",
            known.join(", ")
        )));
    }
    let words = ids_of(rest)?;
    let states = wanted_states(verb);
    let unfit = match states {
        Some(states) => state_errors(source, states, &words)?,
        None => StateErrors::default(),
    };
    if unfit.is_all && !unfit.texts.is_empty() {
        return Err(Fail::refused(unfit.texts.join("\nscontrol: error: ")));
    }
    let sel = Selector {
        ids: leader_ids(source, &words)?,
        states: states.into_iter().collect(),
        ..Selector::default()
    };
    let verb = match verb {
        "hold" | "uhold" | "suspend" => Verb::Signal {
            sel,
            how: SignalAction::Stop,
        },
        "release" | "resume" => Verb::Signal {
            sel,
            how: SignalAction::Resume,
        },
        verb => Verb::Requeue {
            sel,
            hold: verb == "requeuehold",
            states: ["run", "done", "exit"].map(str::to_owned).into(),
        },
    };
    let exit = send(source, verb)?;
    for text in &unfit.texts {
        eprintln!("scontrol: error: {text}");
    }
    Ok(match unfit.texts.is_empty() {
        true => exit,
        false => exit.worst(Exit::Refused),
    })
}

/// The states to which a verb applies, because the leader's stop and resume apply to waiting and
/// running jobs, but each verb of scontrol only to one kind.
fn wanted_states(verb: &str) -> Option<StateGroup> {
    match verb {
        "hold" | "uhold" | "release" => Some(StateGroup::Waiting),
        "suspend" | "resume" => Some(StateGroup::Started),
        _ => None,
    }
}

/// The jobs and elements to which a verb does not apply.
#[derive(Default)]
struct StateErrors {
    texts: Vec<String>,
    /// It applies to no other either.
    is_all: bool,
}

fn state_errors(source: &Source, states: StateGroup, words: &[SlurmJobId]) -> Result<StateErrors> {
    let waiting = states == StateGroup::Waiting;
    let want = JobSet {
        ids: words.iter().map(|word| (word.id, word.id)).collect(),
        ..JobSet::default()
    };
    let mut items = jobs::items(source, &want)?;
    items.retain(|item| words.iter().any(|word| item.is_named(word)));
    let all = items.len();
    items.retain(|item| (item.state() == State::Pending) != waiting);
    let why = match waiting {
        true => "Job is no longer pending execution",
        false => "Job is pending execution",
    };
    Ok(StateErrors {
        is_all: items.len() == all,
        texts: items
            .iter()
            .map(|item| format!("{why} for job {}", item.text()))
            .collect(),
    })
}

fn send(source: &Source, verb: Verb) -> Result<Exit> {
    let wait_s = requests::wait_s(None)?;
    let ack = match requests::send_and_wait(&source.site, "scontrol", &[verb], wait_s) {
        Ok(ack) => ack,
        Err(NoAnswer::NotSent(fail)) => return Err(fail),
        Err(NoAnswer::Silence(text) | NoAnswer::Interrupted(text)) => {
            return Err(Fail::system(text));
        }
    };
    let mut exit = Exit::Ok;
    for outcome in ack.results.iter().filter(|o| o.code != Code::Ok) {
        let id = outcome.what.replacen('[', "_[", 1);
        eprintln!("scontrol: error: {} for job {id}", outcome.text);
        exit = exit.worst(Exit::of(outcome.code));
    }
    if !ack.ok {
        return Err(Fail::refused(ack.error));
    }
    Ok(exit)
}

/// Carries out `JobId=ID KEY=VALUE...` as changes.
fn update(source: &Source, words: &[String]) -> Result<Exit> {
    let of_job = |word: &&String| word.to_ascii_lowercase().starts_with("job");
    let ids: Vec<String> = words
        .iter()
        .filter(|word| of_job(word) && !word.to_ascii_lowercase().starts_with("jobname"))
        .cloned()
        .collect();
    let words_of_ids = ids_of(&ids)?;
    let mut shift = |id: u32| index_shift(&source.view, id);
    let changes = words.iter().filter(|word| !ids.contains(word));
    let options = changed(changes, &mut shift)?;
    let changes = crate::client::cmod::changes_of(&options, &source.site)?;
    let sel = Selector {
        ids: leader_ids(source, &words_of_ids)?,
        ..Selector::default()
    };
    let changes = Box::new(changes);
    send(source, Verb::Modify { sel, changes })
}

/// The options of cmod for the keys.
fn changed<'w>(
    words: impl Iterator<Item = &'w String>,
    shift: &mut dyn FnMut(u32) -> std::result::Result<u32, String>,
) -> Result<JobOptions> {
    let mut options = JobOptions::default();
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let wrong = |why: String| Fail::usage(format!("{key}: {why}"));
        match key.to_ascii_lowercase().as_str() {
            "timelimit" => match time_limit(value).map_err(wrong)? {
                Some(seconds) => options.add("W", &format!("{seconds}s")),
                None => options.add("Wn", ""),
            },
            "partition" => options.add("q", value),
            "jobname" | "name" => options.add("J", value),
            "account" => options.add("P", value),
            "comment" => options.add("Jd", value),
            "arraytaskthrottle" => options.add("J", &format!("%{value}")),
            "dependency" if value.is_empty() => options.add("wn", ""),
            "dependency" => options.add("w", &dependency(value, shift).map_err(wrong)?),
            _ => {
                let key = crate::text::width::escape(key);
                return Err(Fail::usage(format!(
                    "{key} is not available: TimeLimit, Partition, JobName, Account, Comment, \
                     Dependency and ArrayTaskThrottle are"
                )));
            }
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_cluster;
    use crate::client::read::test_view::NOW;

    fn run_line(words: &[&str]) -> Result<String> {
        let bed = test_cluster::cluster();
        let m = command_line::parsed(options(), words);
        let words = m.all("words");
        show_output(
            &m,
            &bed.source("scontrol", 10),
            &words[1..],
            (NOW, TimeZone::UTC),
        )
    }

    #[test]
    fn golden_output() {
        let lines = [
            "show job 6",
            "-o show job 4_1",
            "-o show job 4",
            "show node h1,h3",
            "-o show node h2",
            "show partition normal",
            "show hostnames 'n[1-3],gw'",
            "show hostlist n3,n1,n2",
        ];
        test_cluster::compare("scontrol", &lines, |words| {
            // Groups depend on the machine.
            let out = run_line(words).unwrap();
            let lines = out.lines().map(|line| match line.split_once("GroupId=") {
                None => line.to_owned(),
                Some((front, rest)) => {
                    let rest = rest.split_once(' ').map_or("", |(_, rest)| rest);
                    format!("{front}GroupId=... {rest}")
                }
            });
            lines.map(|line| line + "\n").collect()
        });
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let fail = |words: &[&str]| run_line(words).unwrap_err().text;
        assert_eq!(fail(&["show", "job", "99"]), "Invalid job id specified");
        assert_eq!(fail(&["show", "node", "h9"]), "Node h9 not found");
        assert_eq!(fail(&["show", "partition", "x"]), "Partition x not found");
        assert!(fail(&["show", "config"]).contains("show config is not available"));
        let bed = test_cluster::cluster();
        let source = bed.source("scontrol", 10);
        let act =
            |verb: &str, id: &str| run_verb(&source, verb, &[id.to_owned()]).unwrap_err().text;
        assert!(act("shutdown", "1").contains("shutdown is not available"));
        assert_eq!(
            act("hold", "6"),
            "Job is no longer pending execution for job 6"
        );
        assert_eq!(act("suspend", "1"), "Job is pending execution for job 1");
        assert!(act("hold", "Name=x").contains("only job ids"));
        let mixed = |word: &str| {
            let ids = [SlurmJobId::parse(word).unwrap()];
            let unfit = state_errors(&source, StateGroup::Waiting, &ids).unwrap();
            (unfit.is_all, unfit.texts)
        };
        let running = "Job is no longer pending execution for job 4_2".to_owned();
        assert_eq!(mixed("4"), (false, vec![running.clone()]));
        assert_eq!(mixed("4_2"), (true, vec![running]));
        assert_eq!(mixed("1"), (false, vec![]));
    }

    #[test]
    fn keys_are_options_of_cmod() {
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            let options = changed(words.iter(), &mut |_| Ok(0));
            options.map(|options| {
                let words = options.iter().map(|(id, value)| format!("-{id} {value}"));
                words.collect::<Vec<_>>().join("; ")
            })
        };
        assert_eq!(
            read(&["TimeLimit=1:00:00", "partition=q", "Dependency=afterok:12"]),
            Ok("-W 3600s; -q q; -w done(12)".into())
        );
        assert_eq!(read(&["ArrayTaskThrottle=3"]), Ok("-J %3".into()));
        assert!(
            read(&["Nice=3"])
                .unwrap_err()
                .text
                .contains("Nice is not available")
        );
    }
}
