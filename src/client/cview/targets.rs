//! The targets of an action: the marked rows, else the row at the cursor, or the job or host of the
//! page.
//!
//! Marked rows that no longer exist are left out. Changes nothing.

use super::actions::{Action, ActionKind};
use super::app::App;
use super::keys::Screen;
use super::view_data::{JobItem, Subject};
use crate::model::{JobKey, JobStat};
use std::collections::BTreeSet;

pub(crate) fn selected_job(app: &App) -> Option<JobKey> {
    app.jobs.selected().map(|line| line.key(&app.cluster.jobs))
}

pub(crate) fn selected_host(app: &App) -> Option<String> {
    let at = app.hosts.selected()? as usize;
    app.cluster.hosts.get(at).map(|host| host.name.clone())
}

pub(crate) fn selected_queue(app: &App) -> Option<String> {
    let at = app.queues.selected()? as usize;
    app.cluster.queues.get(at).map(|queue| queue.name.clone())
}

/// The id or name at the cursor.
pub(crate) fn selected_name(app: &App) -> Option<String> {
    match app.screen() {
        Screen::Queues => selected_queue(app),
        Screen::Hosts => selected_host(app),
        Screen::Jobs => selected_job(app).map(|key| key.to_string()),
        Screen::Job | Screen::Host => None,
    }
}

/// The action on the targets on the screen.
///
/// # Errors
/// Says why the targets do not permit the action.
pub(crate) fn action(app: &App, act: ActionKind) -> Result<Action, String> {
    match (app.screen(), &app.page.subject) {
        (Screen::Job, Some(Subject::Job(key))) => action_on_jobs(app, act, &[*key]),
        (Screen::Host, Some(Subject::Host(name))) => action_on_names(act, vec![name.clone()]),
        (Screen::Hosts, _) => {
            let known = |name: &str| app.cluster.hosts.iter().any(|host| host.name == name);
            action_on_names(
                act,
                target_names(&app.hosts.marks, known, selected_host(app)),
            )
        }
        (Screen::Queues, _) => {
            let known = |name: &str| app.cluster.queues.iter().any(|queue| queue.name == name);
            action_on_names(
                act,
                target_names(&app.queues.marks, known, selected_queue(app)),
            )
        }
        _ => {
            let marks = app.jobs.marks.iter().filter_map(|text| text.parse().ok());
            let mut keys: Vec<JobKey> = marks.filter(|key| item_of(app, *key).is_some()).collect();
            if keys.is_empty() {
                keys.extend(selected_job(app));
            }
            action_on_jobs(app, act, &keys)
        }
    }
}

fn target_names(
    marks: &BTreeSet<String>,
    known: impl Fn(&str) -> bool,
    selected: Option<String>,
) -> Vec<String> {
    let names: Vec<String> = marks.iter().filter(|name| known(name)).cloned().collect();
    match names.is_empty() {
        true => selected.into_iter().collect(),
        false => names,
    }
}

fn action_on_names(act: ActionKind, names: Vec<String>) -> Result<Action, String> {
    if names.is_empty() {
        return Err("nothing is selected".to_owned());
    }
    Ok(Action {
        act,
        count: names.len() as u64,
        names,
        comment: String::new(),
    })
}

/// The row of a job; for an element that has not started, that of its array.
fn item_of(app: &App, key: JobKey) -> Option<&JobItem> {
    let jobs = &app.cluster.jobs;
    jobs.find(key).or_else(|| {
        let array = jobs.find(JobKey::job(key.id))?;
        let waiting = &array.array.as_ref()?.waiting;
        waiting.contains(key.idx).then_some(array)
    })
}

fn action_on_jobs(app: &App, act: ActionKind, keys: &[JobKey]) -> Result<Action, String> {
    // Sorted as in the list; a move keeps this order.
    let mut keys = keys.to_vec();
    keys.sort_by_key(|key| (item_of(app, *key).map(JobItem::order), *key));
    keys.dedup();
    let whole: BTreeSet<u32> = keys.iter().filter(|k| k.idx == 0).map(|k| k.id).collect();
    // An array includes its elements.
    keys.retain(|key| key.idx == 0 || !whole.contains(&key.id));
    if keys.is_empty() {
        return Err("no job is selected".to_owned());
    }
    if act.is_move()
        && let Some(element) = keys.iter().find(|key| key.idx > 0)
    {
        return Err(format!(
            "{element} is an element: only a whole job or array has a place in the order"
        ));
    }
    Ok(Action {
        act,
        names: keys.iter().map(JobKey::to_string).collect(),
        count: keys.iter().map(|key| jobs_of(app, act, *key)).sum(),
        comment: String::new(),
    })
}

/// The number of jobs of a key: for an array, the elements to which the action can apply.
fn jobs_of(app: &App, act: ActionKind, key: JobKey) -> u64 {
    let item = app.cluster.jobs.find(key);
    let Some(array) = item.and_then(|item| item.array.as_ref()) else {
        return 1;
    };
    let n = match act {
        ActionKind::Requeue => {
            array.total() - array.count(JobStat::Pend) - array.count(JobStat::Psusp)
        }
        act if act.is_move() => 1,
        _ => array.unfinished(),
    };
    n.max(1)
}
