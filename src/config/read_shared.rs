//! Amounts that several hosts share, as defined in section `resources` by `locale` and `value`.
//! Owns which hosts show the value; never counts usage.

use super::read::{Ctx, Words, decimal, text_of};
use super::read_hosts::host_set;
use super::types::{HostGroup, HostTable, ResourceValue};
use crate::text::yaml::{Entry, Node, Value};
use std::collections::BTreeMap;

/// Amounts that several hosts share according to cb.yaml: each of the hosts shows the value.
pub(super) fn shared(
    ctx: &mut Ctx<'_>,
    node: Option<&Node>,
    hosts: &mut HostTable,
    groups: &BTreeMap<String, HostGroup>,
) {
    let Some(Node {
        value: Value::List(items),
        ..
    }) = node
    else {
        return;
    };
    for item in items {
        let Value::Map(entries) = &item.value else {
            continue;
        };
        let entry = |key: &str| entries.iter().find(|e| e.key == key);
        let (Some(locale), Some(value)) = (entry("locale"), entry("value")) else {
            continue;
        };
        let Some(name) = text_of(item, "name") else {
            continue;
        };
        let (Some(w), Some(v)) = (one_text(ctx, locale), one_text(ctx, value)) else {
            continue;
        };
        let Some(amount) = decimal(&v.text).filter(|n| (0.0..=1e15).contains(n)) else {
            let message = format!("value {:?} is not a number from 0 to 1e15", v.text);
            ctx.problem(v.pos, "number", message);
            continue;
        };
        let Some(set) = host_set(ctx, &w, hosts, groups) else {
            continue;
        };
        let mut stated = None;
        for host in hosts
            .entries
            .iter_mut()
            .filter(|host| set.contains(&host.name))
        {
            if host.resources.contains_key(name) {
                stated.get_or_insert_with(|| host.name.clone());
            }
            let value = ResourceValue::Number(amount);
            host.resources.insert(name.to_owned(), value);
        }
        if set.all_but {
            let value = ResourceValue::Number(amount);
            hosts.default.resources.insert(name.to_owned(), value);
        }
        if let Some(host) = stated {
            let message = format!("resource {name:?} is stated for host {host}, too");
            let hint = "state it for single hosts, or with locale and value for all of them";
            ctx.problem_hint(locale.key_pos, "conflict", message, hint);
        }
    }
}

/// The text of a key that takes a single text.
fn one_text(ctx: &mut Ctx<'_>, entry: &Entry) -> Option<Words> {
    match &entry.value.value {
        Value::Text { text, quoted } => Some(Words::one_word(text, entry.value.pos, *quoted)),
        _ => {
            let message = format!("{} must be one text", entry.key);
            ctx.problem(entry.value.pos, "type", message);
            None
        }
    }
}
