//! The names in the cluster, from the published view.
//!
//! Sends no request to the leader, writes nothing and reports no errors: if something cannot be
//! read, there are no names.

use super::kinds::{Candidate, ClusterNames, JobStates};
use crate::client::read::Source;
use crate::client::templates;
use crate::language::translated;
use crate::model::JobStat;
use crate::spool::view::{JobSet, ViewJob};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of names of one kind.
const NAMES_MAX: usize = 2000;
/// Maximum number of jobs, the newest ones.
const JOBS_MAX: usize = 50;

/// The names of a kind that begin with `word`.
pub(super) fn names(live: ClusterNames, word: &str) -> Vec<Candidate> {
    match Source::open("cb") {
        Ok(source) => of_source(&source, live, word),
        Err(_) => Vec::new(),
    }
}

pub(super) fn of_source(source: &Source, live: ClusterNames, word: &str) -> Vec<Candidate> {
    let mut found = match live {
        ClusterNames::Queues => queues(source),
        ClusterNames::Hosts => {
            let mut all = hosts(source);
            all.extend(host_groups(source));
            all
        }
        ClusterNames::HostGroups => host_groups(source),
        ClusterNames::Users => users(source),
        ClusterNames::Groups => groups(source),
        ClusterNames::Projects => projects(source),
        ClusterNames::JobGroups => job_groups(source),
        ClusterNames::Apps => apps(source),
        ClusterNames::AppParams => return app_params(source, word),
        ClusterNames::Jobs(states) => return jobs(source, states, word),
        ClusterNames::JobNames => job_names(source),
        ClusterNames::Limits => limits(source),
        ClusterNames::Resources => resources(source),
        ClusterNames::CronJobs => cron_jobs(source),
        ClusterNames::Alerts => alerts(source),
    };
    found.retain(|c| c.word.starts_with(word));
    found.truncate(NAMES_MAX);
    found
}

fn queues(source: &Source) -> Vec<Candidate> {
    let queues = source.queues().unwrap_or_default().into_iter();
    let about = |open: bool, description: String| match open {
        true => description,
        false => format!("{}; {description}", translated("closed")),
    };
    queues
        .map(|q| Candidate::new(q.name, about(q.open, q.description)))
        .collect()
}

fn hosts(source: &Source) -> Vec<Candidate> {
    let hosts = source.hosts().unwrap_or_default().into_iter();
    let about = |status: &str, slots: u32| format!("{status}, {slots} slots");
    hosts
        .map(|h| {
            let about = about(h.status.word(), h.slots);
            Candidate::described(h.name, &about)
        })
        .collect()
}

fn host_groups(source: &Source) -> Vec<Candidate> {
    let groups = source.params().unwrap_or_default().host_groups.into_iter();
    groups
        .map(|(name, _)| Candidate::described(name, "host group"))
        .collect()
}

/// Users with jobs or limits, the groups, and the caller.
fn users(source: &Source) -> Vec<Candidate> {
    let rows = source.view.users().unwrap_or_default().into_iter();
    let mut all: BTreeMap<String, &str> = rows
        .filter(|u| !u.group)
        .map(|u| (u.name, "user"))
        .collect();
    all.insert(source.me.name.clone(), "you");
    all.insert("all".to_owned(), "every user");
    let mut all: Vec<Candidate> = all
        .into_iter()
        .map(|(name, about)| Candidate::described(name, about))
        .collect();
    all.extend(groups(source));
    all
}

fn groups(source: &Source) -> Vec<Candidate> {
    let groups = source.params().unwrap_or_default().user_groups.into_iter();
    groups
        .map(|(name, ..)| Candidate::described(name, "user group"))
        .collect()
}

fn alerts(source: &Source) -> Vec<Candidate> {
    let rules = source.params().unwrap_or_default().alert_rules.into_iter();
    rules.map(|name| Candidate::new(name, "")).collect()
}

/// Profiles of cb.yaml and templates.
fn apps(source: &Source) -> Vec<Candidate> {
    let profiles = source.params().unwrap_or_default().apps.into_iter();
    let mut all: BTreeMap<String, String> =
        profiles.map(|app| (app.name, app.description)).collect();
    let found = templates::all(&source.site).unwrap_or_default();
    for (name, read) in found.into_iter().map(|found| (found.name, found.read)) {
        if let Ok(template) = read {
            all.insert(name, template.label.localized().to_owned());
        }
    }
    all.into_iter()
        .map(|(name, about)| Candidate::new(name, about))
        .collect()
}

fn app_params(source: &Source, app: &str) -> Vec<Candidate> {
    let Ok(Some((template, _))) = templates::find(&source.site, app) else {
        return Vec::new();
    };
    let params = template.params.into_iter();
    params
        .map(|p| Candidate::new(format!("{}=", p.name), p.label.localized()))
        .collect()
}

/// The projects of the caller's own jobs.
fn projects(source: &Source) -> Vec<Candidate> {
    let mut all: BTreeSet<String> = BTreeSet::new();
    for job in own_jobs(source, true) {
        if !job.spec.project.is_empty() && all.len() < NAMES_MAX {
            all.insert(job.spec.project.to_string());
        }
    }
    all.into_iter().map(|p| Candidate::new(p, "")).collect()
}

/// The groups that were created, and those of the caller's own jobs.
fn job_groups(source: &Source) -> Vec<Candidate> {
    let explicit = source.view.job_groups().unwrap_or_default();
    let explicit = explicit.into_iter().map(|group| group.name);
    let mut all: BTreeSet<String> = explicit.take(NAMES_MAX).collect();
    for job in own_jobs(source, true) {
        if !job.spec.job_group.is_empty() && all.len() < NAMES_MAX {
            all.insert(job.spec.job_group.to_string());
        }
    }
    all.into_iter()
        .map(|group| Candidate::new(group, ""))
        .collect()
}

fn job_names(source: &Source) -> Vec<Candidate> {
    let mut all: BTreeSet<String> = BTreeSet::new();
    for job in own_jobs(source, true) {
        if !job.row.name.is_empty() && all.len() < NAMES_MAX {
            all.insert(job.row.name.to_string());
        }
    }
    all.into_iter().map(|n| Candidate::new(n, "")).collect()
}

fn own_jobs(source: &Source, finished: bool) -> Vec<ViewJob> {
    let want = JobSet {
        uids: vec![source.me.uid],
        finished,
        ..JobSet::default()
    };
    let read = source.view.collect(&want);
    read.map(|(jobs, _)| jobs).unwrap_or_default()
}

/// The newest jobs whose ids begin with `word`; elements of arrays once a bracket has been typed.
fn jobs(source: &Source, states: JobStates, word: &str) -> Vec<Candidate> {
    let elements = word.contains('[');
    let mut all = own_jobs(source, states == JobStates::Any);
    all.retain(|job| {
        (job.row.j.idx != 0) == elements
            && fits(states, job.row.stat)
            && job.row.j.to_string().starts_with(word)
    });
    all.sort_by_key(|job| (std::cmp::Reverse(job.row.j.id), job.row.j.idx));
    all.truncate(JOBS_MAX);
    let about = |job: &ViewJob| format!("{} {}", job.row.stat.word(), job.row.name);
    all.iter()
        .map(|job| Candidate::new(job.row.j.to_string(), about(job).trim_end()))
        .collect()
}

fn fits(states: JobStates, stat: JobStat) -> bool {
    match states {
        JobStates::Any => true,
        JobStates::Unfinished => !stat.is_finished(),
        JobStates::Waiting => stat.is_waiting(),
        JobStates::Suspended => matches!(stat, JobStat::Psusp | JobStat::Ususp | JobStat::Ssusp),
    }
}

fn limits(source: &Source) -> Vec<Candidate> {
    let rows = source.view.limits().unwrap_or_default().into_iter();
    let names: BTreeSet<String> = rows.map(|row| row.name).collect();
    names.into_iter().map(|n| Candidate::new(n, "")).collect()
}

fn resources(source: &Source) -> Vec<Candidate> {
    let all = source.params().unwrap_or_default().resources.into_iter();
    all.map(|(name, _, _, about)| Candidate::new(name, about))
        .collect()
}

/// The caller's own cron jobs.
fn cron_jobs(source: &Source) -> Vec<Candidate> {
    let all = source.view.crons().unwrap_or_default().into_iter();
    let own = all.filter(|cron| cron.uid == source.me.uid);
    own.map(|cron| Candidate::new(cron.def.name, cron.def.schedule))
        .collect()
}
