//! The effect of a change of cb.yaml: the settings that differ between two configurations, by their
//! place, including defaults and derived values.
//!
//! Pure. Never judges a change: [`super::load`] has found no problem in either of the two.

use super::Config;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum length of a value that is shown, characters.
const SHOWN: usize = 200;

/// A setting that differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConfigChange {
    /// `queues[night].priority`.
    pub place: String,
    /// As JSON; `None`: the setting did not exist, or will not exist.
    pub before: Option<String>,
    pub after: Option<String>,
}

/// The settings that differ, in the order of their places. Adding or removing a whole entry, such
/// as a queue, is one change.
pub fn changes(before: &Config, after: &Config) -> Vec<ConfigChange> {
    let tree = |config| serde_json::to_value(config).unwrap_or_default();
    let mut out = Vec::new();
    compare("", Some(&tree(before)), Some(&tree(after)), &mut out);
    out
}

fn compare(
    place: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    out: &mut Vec<ConfigChange>,
) {
    if before == after {
        return;
    }
    if let (Some(Value::Object(b)), Some(Value::Object(a))) = (before, after) {
        let keys: BTreeSet<&String> = b.keys().chain(a.keys()).collect();
        for key in keys {
            let inner = match place {
                "" => key.clone(),
                place => format!("{place}.{key}"),
            };
            compare(&inner, b.get(key), a.get(key), out);
        }
        return;
    }
    if let (Some(b), Some(a)) = (
        before.and_then(members_by_name),
        after.and_then(members_by_name),
    ) {
        let names: BTreeSet<&str> = b.keys().chain(a.keys()).copied().collect();
        let known = out.len();
        for name in names {
            let inner = format!("{place}[{name}]");
            compare(&inner, b.get(name).copied(), a.get(name).copied(), out);
        }
        // A change of the order of queues or limits is a change, too.
        if out.len() > known {
            return;
        }
    }
    out.push(ConfigChange {
        place: place.to_owned(),
        before: before.map(value_text),
        after: after.map(value_text),
    });
}

/// The members of a list by name, if each has its own name.
fn members_by_name(value: &Value) -> Option<BTreeMap<&str, &Value>> {
    let list = value.as_array()?;
    let each = list.iter();
    let all: Option<BTreeMap<&str, &Value>> = each
        .map(|member| Some((member.get("name")?.as_str()?, member)))
        .collect();
    all.filter(|all| all.len() == list.len() && !list.is_empty())
}

fn value_text(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        // A whole entry is identified by its place.
        Value::Object(members) if members.contains_key("name") => "...".to_owned(),
        Value::Array(list) if members_by_name(value).is_some() => {
            let names = list.iter().filter_map(|member| member["name"].as_str());
            names.collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    };
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OsNames, load};
    use super::*;

    fn config(queues: &str) -> Config {
        let text = format!(
            "cluster: {{name: c, administrators: [root]}}\nhosts: [{{name: h1, slots: 4}}]\n\
             queues:\n{queues}"
        );
        let os = OsNames {
            user: &|_| true,
            group: &|_| false,
        };
        load(text.as_bytes(), "cb.yaml", &os)
            .expect("it is sound")
            .config
    }

    fn differing(before: &str, after: &str) -> Vec<(String, Option<String>, Option<String>)> {
        let all = changes(&config(before), &config(after));
        all.into_iter()
            .map(|c| (c.place, c.before, c.after))
            .collect()
    }

    #[test]
    fn a_setting_is_named_with_both_values() {
        let some = |text: &str| Some(text.to_owned());
        let (old, new) = ("- {name: q, priority: 10}\n", "- {name: q, priority: 20}\n");
        assert_eq!(
            differing(old, new),
            [("queues[q].priority".into(), some("10"), some("20"))]
        );
        assert_eq!(differing(old, old), []);
    }

    #[test]
    fn what_comes_or_goes_is_one_change() {
        let (one, two) = ("- name: q\n", "- name: q\n- name: r\n");
        assert_eq!(
            differing(one, two),
            [("queues[r]".into(), None, Some("...".into()))]
        );
        assert_eq!(
            differing(two, one),
            [("queues[r]".into(), Some("...".into()), None)]
        );
    }

    #[test]
    fn another_order_is_a_change() {
        let (one, two) = ("- name: q\n- name: r\n", "- name: r\n- name: q\n");
        // The first one is also the default queue.
        let all = differing(one, two);
        let queues = ("queues".into(), Some("q r".into()), Some("r q".into()));
        assert_eq!(all.last(), Some(&queues));
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        let text = value_text(&Value::String("ü".repeat(SHOWN + 5)));
        assert_eq!(text.chars().count(), SHOWN + 3);
    }
}
