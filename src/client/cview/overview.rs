//! Sentences about the cluster as a whole: sums of hosts and queues, and the status line.
//!
//! Pure; owns the wording.

use super::app::App;
use crate::language::Language;
use crate::record::host_status::HostKind;
use crate::record::view::{HostRow, QueueRow};
use crate::text::duration;
use crate::text::width::width;

/// Width of the bar of slots in use.
const BAR_COLUMNS: usize = 30;

/// Returns e.g. `slots: 5 run 8 pend 1 susp`, summed over the queues.
pub(crate) fn slots(queues: &[QueueRow]) -> String {
    let sum = |of: fn(&QueueRow) -> u64| queues.iter().map(of).sum::<u64>();
    let (run, pend) = (sum(|q| q.counts.run), sum(|q| q.counts.pend));
    let susp = sum(|q| q.counts.ssusp + q.counts.ususp);
    format!("slots: {run} run {pend} pend {susp} susp")
}

/// The first line above the list of queues.
pub(crate) fn counts(hosts: &[HostRow], queues: &[QueueRow]) -> String {
    let (mut ok, mut closed, mut unavailable) = (0, 0, 0);
    for host in hosts {
        match host.status.kind() {
            HostKind::Open => ok += 1,
            HostKind::Closed => closed += 1,
            HostKind::Away => unavailable += 1,
        }
    }
    let pending: u64 = queues.iter().map(|q| q.counts.pend_jobs).sum();
    format!(
        "Hosts: {} ({ok} ok, {closed} closed, {unavailable} unavailable)  Jobs pending: {pending}",
        hosts.len()
    )
}

/// The second line: the fraction of slots in use.
pub(crate) fn bar(hosts: &[HostRow], language: Language, columns: usize) -> String {
    // Unavailable hosts cannot be used.
    let there = |host: &&HostRow| !host.status.is_silent();
    let slots: u64 = hosts.iter().filter(there).map(|h| u64::from(h.slots)).sum();
    let used: u64 = hosts.iter().filter(there).map(|h| u64::from(h.njobs)).sum();
    let percent = (used * 100).checked_div(slots).unwrap_or(0);
    let text = format!("Slots: {used} of {slots} in use ({percent} %)");
    let text = language.translate(&text);
    let room = columns.saturating_sub(width(&text) + 3).min(BAR_COLUMNS);
    let full = usize::try_from(percent).unwrap_or(100).min(100) * room / 100;
    format!("{text} [{}{}]", "#".repeat(full), ".".repeat(room - full))
}

/// The most important message, and whether it is about a problem. `hangs_s`: how long the share has
/// not responded, in seconds.
pub(crate) fn status(app: &App, hangs_s: Option<u64>, language: Language) -> (String, bool) {
    let (text, bad) = in_english(app, hangs_s);
    let text = language.translate(&text);
    match app.status.action.as_str() {
        of if !of.is_empty() && hangs_s.is_none() => {
            (format!("{}: {text}", language.translate(of)), bad)
        }
        _ => (text.into_owned(), bad),
    }
}

/// The number of the others, if one of `all` is shown.
pub(crate) fn and_others(all: usize) -> String {
    match all.saturating_sub(1) {
        0 => String::new(),
        others => format!(" (and {others} more)"),
    }
}

fn in_english(app: &App, hangs_s: Option<u64>) -> (String, bool) {
    let cluster = &app.cluster;
    if let Some(seconds) = hangs_s {
        return (format!("no answer from the share for {seconds} s"), true);
    }
    if !app.status.text.is_empty() {
        return (app.status.text.clone(), app.status.bad);
    }
    if let Some(action) = app.pending_actions.front() {
        let others = and_others(app.pending_actions.len());
        let text = format!(
            "{}: waiting for the leader's answer{others}",
            action.title()
        );
        return (text, false);
    }
    if let Some(why) = &cluster.failure {
        let line = why.lines().next().unwrap_or_default();
        return (line.to_owned(), true);
    }
    let Some(head) = &cluster.head else {
        return (String::new(), false);
    };
    if let Some(ms) = head.silent_ms {
        let time = duration::short(ms);
        return (
            format!("the leader has been silent for {time}: this may be out of date"),
            true,
        );
    }
    if let Some(warning) = head.warnings.first() {
        return (
            format!("damage: {warning}{}", and_others(head.warnings.len())),
            true,
        );
    }
    match head.alarms.first() {
        Some(alarm) => (
            format!("alarm: {alarm}{}", and_others(head.alarms.len())),
            true,
        ),
        None => (String::new(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::cview::actions::{Action, ActionKind};
    use crate::client::cview::app::Status;
    use crate::client::cview::keys::Screen;
    use crate::client::cview::view_data::ClusterSummary;

    #[test]
    fn the_bar_shows_the_share_of_slots_that_can_be_used() {
        let host = |status: &str, slots, njobs| HostRow {
            status: status.into(),
            slots,
            njobs,
            ..HostRow::default()
        };
        let hosts = [
            host("ok", 6, 1),
            host("closed_Adm", 4, 4),
            host("unavail", 90, 0),
        ];
        let second = bar(&hosts, Language::English, 80);
        assert_eq!(
            counts(&hosts, &[]),
            "Hosts: 3 (1 ok, 1 closed, 1 unavailable)  Jobs pending: 0"
        );
        let drawn = format!("[{}{}]", "#".repeat(15), ".".repeat(15));
        assert_eq!(second, format!("Slots: 5 of 10 in use (50 %) {drawn}"));
        assert!(bar(&[], Language::English, 20).ends_with("[]"));
        let chinese = bar(&hosts, Language::Chinese, 40);
        assert!(chinese.starts_with("槽位：") && width(&chinese) <= 40);
    }

    #[test]
    fn the_most_important_thing_is_said() {
        let status = |app: &App, hangs_s| status(app, hangs_s, Language::English);
        let mut app = App::new(Screen::Jobs, (80, 24));
        assert_eq!(status(&app, None), (String::new(), false));
        app.cluster.head = Some(ClusterSummary {
            alarms: vec!["a".into(), "b".into()],
            ..ClusterSummary::default()
        });
        assert_eq!(status(&app, None).0, "alarm: a (and 1 more)");
        if let Some(head) = &mut app.cluster.head {
            head.silent_ms = Some(61_000);
        }
        assert!(
            status(&app, None)
                .0
                .starts_with("the leader has been silent for 1m 1s")
        );
        app.fail("cannot read\nhint: x".into());
        assert_eq!(status(&app, None), ("cannot read".into(), true));
        app.pending_actions.push_back(Action {
            act: ActionKind::Kill,
            names: vec!["1".into()],
            count: 1,
            comment: String::new(),
        });
        assert_eq!(
            status(&app, None).0,
            "Kill 1 job: waiting for the leader's answer"
        );
        app.status = Status {
            action: "Kill 1 job".into(),
            text: "said".into(),
            bad: false,
        };
        assert_eq!(status(&app, None).0, "Kill 1 job: said");
        assert_eq!(
            status(&app, Some(7)),
            ("no answer from the share for 7 s".into(), true)
        );
    }
}
