//! All that a state stands for, as texts by name: the same for two states that number hosts and
//! classes differently. Every struct is taken apart completely, so that a field that is added must
//! be named here, either as a fact or as something that is derived or not kept.

use crate::state::job::{Array, Body, Job, Run, RunExtras, Work};
use crate::state::parts::{
    AssignedNumbers, Changes, Dependencies, Hosts, JobGroups, JobTimes, Leaders, Queues, Requests,
};
use crate::state::{SpecEntry, State};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

pub(super) type Facts = BTreeMap<String, String>;

fn text(value: &impl Debug) -> String {
    format!("{value:?}")
}

/// Entries of a map in order.
fn sorted<K: Ord + Debug, V: Debug>(entries: impl IntoIterator<Item = (K, V)>) -> String {
    let all: BTreeMap<K, String> = entries.into_iter().map(|(k, v)| (k, text(&v))).collect();
    text(&all)
}

/// See the head of this file.
pub(super) fn facts(state: &State) -> Facts {
    let State {
        leaders,
        jobs,
        specs,
        numbers,
        requests,
        queues,
        hosts,
        // `State::check` computes these from the jobs.
        pending: _,
        used: _,
        backlog: _,
        dependencies,
        times,
        changes,
        crons,
        detached,
    } = state;
    let mut facts = Facts::new();
    facts_of_cluster(&mut facts, leaders, queues);
    facts_of_requests(&mut facts, numbers, requests);
    facts_of_dependencies(&mut facts, state, dependencies);
    let Hosts { ctl, numbers: _ } = hosts;
    facts.insert("hosts".into(), text(ctl));
    for (id, entry) in specs {
        let SpecEntry {
            spec,
            refs,
            waiting,
            traits,
            class: _,
            owner: _,
        } = entry;
        facts.insert(format!("spec {id}"), text(&(spec, refs, waiting, traits)));
    }
    for job in jobs.values() {
        facts.insert(format!("job {}", job.id), job_facts(state, job));
    }
    let JobTimes {
        finished,
        deadlines,
        retries,
    } = times;
    facts.insert("times".into(), text(&(finished, deadlines, retries)));
    // Not kept: a new leader writes the whole view, and accounting has its own records.
    let Changes {
        rows: _,
        specs: _,
        changed_work: _,
        ends: _,
    } = changes;
    facts.insert("crons".into(), crons.facts());
    facts.insert("detached".into(), detached.facts());
    facts
}

fn facts_of_cluster(facts: &mut Facts, leaders: &Leaders, queues: &Queues) {
    let Leaders {
        epoch,
        ends,
        config_digest,
        restored_share,
        restored,
    } = leaders;
    let all = (epoch, ends, config_digest, restored_share, restored);
    facts.insert("leaders".into(), text(&all));
    let Queues {
        ctl,
        share_histories,
        groups: JobGroups { groups, version: _ },
    } = queues;
    facts.insert("queues".into(), text(&(ctl, share_histories, groups)));
}

fn facts_of_requests(facts: &mut Facts, numbers: &AssignedNumbers, requests: &Requests) {
    let AssignedNumbers {
        last_job,
        last_spec,
        by_spec,
    } = numbers;
    let by_spec: BTreeSet<u32> = by_spec.values().copied().collect();
    let all = (last_job, last_spec, by_spec);
    facts.insert("numbers".into(), text(&all));
    let Requests {
        tokens,
        keys,
        partial,
    } = requests;
    let all = [sorted(tokens), sorted(keys), sorted(partial)];
    facts.insert("requests".into(), text(&all));
}

fn facts_of_dependencies(facts: &mut Facts, state: &State, dependencies: &Dependencies) {
    let Dependencies {
        // Checked by `State::check`.
        names: _,
        watchers,
        // What is not judged yet: after a restore, all that is watched.
        changed: _,
    } = dependencies;
    // Others watch as well: those whose condition was met meanwhile, and elements that wait again
    // while others of their array never stopped.
    let certain = |id: &u32| {
        let job = state.job(*id);
        job.is_some_and(|job| job.array().is_none() && job.may_be_gated())
    };
    for (on, waiting) in watchers {
        let waiting: BTreeSet<&u32> = waiting.iter().filter(|id| certain(id)).collect();
        if !waiting.is_empty() {
            facts.insert(format!("watchers of {on}"), text(&waiting));
        }
    }
}

fn job_facts(state: &State, job: &Job) -> String {
    let Job {
        id,
        spec,
        submit,
        order,
        name,
        command,
        key,
        gated,
        // Never stored on disk.
        deferred: _,
        body,
    } = job;
    let body = match body {
        Body::Single(work) => work_facts(state, work),
        Body::Array(array) => {
            let Array {
                all,
                waiting,
                head,
                why,
                limit,
                work,
                counts,
            } = array.as_ref();
            let work = work.iter().map(|(idx, w)| (idx, work_facts(state, w)));
            let head = (head, why, limit, counts);
            text(&(all.to_string(), waiting.to_string(), head, sorted(work)))
        }
    };
    let mark = |idx| state.mark(crate::model::JobKey::element(*id, idx));
    let marks = [mark(0), mark(1)];
    let of_submission = (spec, submit, order, name, command, key);
    text(&(of_submission, gated, marks, body))
}

fn work_facts(state: &State, work: &Work) -> String {
    let Work {
        stat,
        attempt,
        why,
        run,
    } = work;
    let run = run.as_deref().map(|run| run_facts(state, run));
    text(&(stat, attempt, why, run))
}

fn run_facts(state: &State, run: &Run) -> String {
    let Run {
        hosts,
        dispatch,
        start,
        pid,
        killing,
        user_stop,
        suspension,
        orders,
        preparing,
        rerun,
        alt,
        forced,
        usage,
        end,
        extras,
    } = run;
    let hosts: Vec<_> = hosts
        .iter()
        .map(|(h, n)| (state.host_name(*h), n))
        .collect();
    let extras = extras.as_deref().cloned().unwrap_or_default();
    let RunExtras {
        units,
        preempt_at,
        warn_signal,
        bind,
        saved_at,
        migrating,
        part_binds,
        part_use,
        put_back,
    } = extras;
    let begin = (hosts, dispatch, start, pid, preparing, rerun, alt, forced);
    let wishes = (killing, user_stop, suspension, orders);
    let more = (
        (units, preempt_at, warn_signal, bind),
        (saved_at, migrating, put_back),
    );
    text(&(begin, wishes, more, part_binds, part_use, usage, end))
}
