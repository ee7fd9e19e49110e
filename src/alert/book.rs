//! Compares metrics with alert rules: which alerts are pending, fire and recover.
//!
//! An alert is a rule for one set of labels. It is pending while the metric is beyond the
//! threshold, fires when this has lasted for the rule's time, and recovers when the metric is back.
//! All alerts of a rule that fire or recover at the same time make one message.

use super::messages::alert_message;
use super::outbox::push;
use crate::config::AlertRule;
use crate::record::notices::{ALERTS_MAX, Alert, NotifierState, Silence};
use crate::text::glob::Glob;
use std::collections::{BTreeMap, BTreeSet};

/// One number that rules watch.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Figure {
    pub metric: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// Rule and labels.
type Key = (String, BTreeMap<String, String>);

/// Checks all rules against all figures at `now` (ms since 1970). Returns the obstacles, one
/// sentence each.
pub(crate) fn observe(
    state: &mut NotifierState,
    cluster: &str,
    rules: &[AlertRule],
    figures: &[Figure],
    now: i64,
) -> Vec<String> {
    state.silences.retain(|silence| silence.until > now);
    let mut troubles = Vec::new();
    let mut known: BTreeMap<Key, Alert> = BTreeMap::new();
    for alert in std::mem::take(&mut state.alerts) {
        known.insert((alert.rule.clone(), alert.labels.clone()), alert);
    }
    let mut over = Vec::new();
    for rule in rules {
        let values = values(rule, figures);
        // Whether a figure with a name given by the site exists is only known once it is seen; the
        // figures of the other words do exist.
        if values.is_none() && rule.watch == "metric" {
            troubles.push(format!(
                "alert {}: there is no figure {} at present",
                rule.name, rule.metric
            ));
        }
        let values = values.unwrap_or_default();
        let no_room = note_passed(&mut known, rule, &values, now);
        if no_room {
            troubles.push(format!(
                "alert {}: more than {ALERTS_MAX} alerts, further ones are ignored",
                rule.name
            ));
        }
        over.extend(recovered(&mut known, rule, &values, now));
    }
    let names: BTreeSet<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
    let orphans: Vec<Key> = known
        .keys()
        .filter(|(rule, _)| !names.contains(rule.as_str()))
        .cloned()
        .collect();
    over.extend(orphans.iter().filter_map(|key| known.remove(key)));
    create_messages(state, cluster, known, over, now);
    troubles
}

/// The values for a rule by labels; `None`: there is no figure with its name.
fn values(rule: &AlertRule, figures: &[Figure]) -> Option<BTreeMap<BTreeMap<String, String>, f64>> {
    let mut named = figures
        .iter()
        .filter(|f| f.metric == rule.metric)
        .peekable();
    named.peek()?;
    let mut out = BTreeMap::new();
    // A value that is not a number does not pass a threshold.
    for figure in named.filter(|f| f.value.is_finite() && fits(rule, &f.labels)) {
        let (mut labels, mut value) = (figure.labels.clone(), figure.value);
        if let Some((label, words)) = &rule.state {
            let is = labels.remove(label);
            let is_one = is.is_some_and(|is| words.contains(&is));
            value = if is_one { 1.0 } else { 0.0 };
        }
        out.insert(labels, value);
    }
    Some(out)
}

fn fits(rule: &AlertRule, labels: &BTreeMap<String, String>) -> bool {
    rule.matches.iter().all(|(label, words)| {
        let is = labels.get(label).map_or("", String::as_str);
        words.iter().any(|word| Glob::new(word).matches(is))
    })
}

/// Records a figure that passes the threshold. Returns true if there was no room for some.
fn note_passed(
    known: &mut BTreeMap<Key, Alert>,
    rule: &AlertRule,
    values: &BTreeMap<BTreeMap<String, String>, f64>,
    now: i64,
) -> bool {
    let mut no_room = false;
    for (labels, value) in values.iter().filter(|(_, v)| rule.mark.is_passed(**v)) {
        let key = (rule.name.clone(), labels.clone());
        if known.len() >= ALERTS_MAX && !known.contains_key(&key) {
            no_room = true;
            continue;
        }
        let alert = known.entry(key).or_insert_with(|| Alert {
            rule: rule.name.clone(),
            labels: labels.clone(),
            since: now,
            ..Alert::default()
        });
        alert.value = *value;
        alert.gone = 0;
        // The rule may have been changed since.
        alert.severity = rule.severity.word().to_owned();
        alert.metric.clone_from(&rule.metric);
        alert.extra.clone_from(&rule.labels);
        alert.to.clone_from(&rule.to);
        let for_ms = i64::try_from(rule.for_ms).unwrap_or(i64::MAX);
        if alert.fired == 0 && now.saturating_sub(alert.since) >= for_ms {
            alert.fired = now;
        }
    }
    no_room
}

/// Removes the alerts of a rule whose figure has recovered.
fn recovered(
    known: &mut BTreeMap<Key, Alert>,
    rule: &AlertRule,
    values: &BTreeMap<BTreeMap<String, String>, f64>,
    now: i64,
) -> Vec<Alert> {
    let from = (rule.name.clone(), BTreeMap::new());
    let of_rule = known.range_mut(from..);
    let of_rule = of_rule.take_while(|((name, _), _)| *name == rule.name);
    let mut over = Vec::new();
    for (key, alert) in of_rule {
        match values.get(&key.1) {
            Some(value) if rule.mark.is_passed(*value) => {}
            Some(value) => {
                alert.value = *value;
                over.push(key.clone());
            }
            None => {
                if alert.gone == 0 {
                    alert.gone = now;
                }
                let gone_ms = i64::try_from(rule.gone_ms).unwrap_or(i64::MAX);
                if now.saturating_sub(alert.gone) >= gone_ms {
                    over.push(key.clone());
                }
            }
        }
    }
    over.iter().filter_map(|key| known.remove(key)).collect()
}

/// Creates the messages, and keeps the remaining alerts.
fn create_messages(
    state: &mut NotifierState,
    cluster: &str,
    known: BTreeMap<Key, Alert>,
    over: Vec<Alert>,
    now: i64,
) {
    let mut by_rule: BTreeMap<(String, bool), Vec<Alert>> = BTreeMap::new();
    // A receiver that got no message about the alert needs none about its end.
    for alert in over.into_iter().filter(|alert| alert.announced) {
        let key = (alert.rule.clone(), false);
        by_rule.entry(key).or_default().push(alert);
    }
    state.alerts = known.into_values().collect();
    for alert in &mut state.alerts {
        let silent = state.silences.iter().any(|s| s.rule == alert.rule);
        if alert.fired > 0 && !alert.announced && !silent {
            alert.announced = true;
            let key = (alert.rule.clone(), true);
            by_rule.entry(key).or_default().push(alert.clone());
        }
    }
    for ((rule, firing), alerts) in by_rule {
        let to: BTreeSet<&String> = alerts.iter().flat_map(|alert| &alert.to).collect();
        for receiver in to {
            let mine = |alert: &&Alert| alert.to.contains(receiver);
            let mine: Vec<&Alert> = alerts.iter().filter(mine).collect();
            push(
                state,
                alert_message(cluster, &rule, firing, &mine, receiver, now),
            );
        }
    }
}

/// Starts, changes or ends a silence (it ends if `until` is not in the future).
pub(crate) fn silence(state: &mut NotifierState, silence: Silence) {
    state.silences.retain(|old| old.rule != silence.rule);
    state.silences.push(silence);
}
