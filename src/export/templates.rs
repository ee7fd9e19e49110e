//! The index templates: the type of each field.
//!
//! Owns the files of etc/monitoring/elasticsearch, which are compiled in. Their mappings are
//! strict: a field that no template names is an error of this program and is not guessed by the
//! server.

use super::http::{Client, success};

/// The kinds of documents and their templates.
pub(super) const ALL: [(&str, &str); 3] = [
    (
        "events",
        include_str!("../../etc/monitoring/elasticsearch/events.json"),
    ),
    (
        "accounting",
        include_str!("../../etc/monitoring/elasticsearch/accounting.json"),
    ),
    (
        "hosts",
        include_str!("../../etc/monitoring/elasticsearch/hosts.json"),
    ),
];

/// Name of a template on the server.
pub(super) fn name(prefix: &str, kind: &str) -> String {
    format!("{prefix}-{kind}")
}

/// A template for indices with this prefix.
pub(super) fn text(prefix: &str, kind: &str, template: &str) -> String {
    template.replace(
        &format!("\"corral-{kind}-*\""),
        &format!("\"{prefix}-{kind}-*\""),
    )
}

/// Puts all templates on the server.
pub(super) fn put(client: &mut Client, prefix: &str) -> Result<(), String> {
    for (kind, template) in ALL {
        let name = name(prefix, kind);
        let answer = client.put(
            &format!("/_index_template/{name}"),
            &text(prefix, kind, template),
        )?;
        success(&format!("cannot put the index template {name}"), answer)?;
    }
    Ok(())
}

/// Names of the templates that the server lacks; `None`: it does not tell.
pub(super) fn missing(client: &mut Client, prefix: &str) -> Result<Option<Vec<String>>, String> {
    let mut missing = Vec::new();
    for (kind, _) in ALL {
        let name = name(prefix, kind);
        let answer = client.get(&format!("/_index_template/{name}"))?;
        match answer.status {
            200 => {}
            404 => missing.push(name),
            // A key that may only write documents need not see templates.
            401 | 403 => return Ok(None),
            _ => drop(success("cannot ask for index templates", answer)?),
        }
    }
    Ok(Some(missing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn fields(kind: &str) -> Vec<String> {
        let (_, text) = ALL.iter().find(|(k, _)| *k == kind).unwrap();
        let doc: Value = serde_json::from_str(text).unwrap();
        let mappings = &doc["template"]["mappings"];
        assert_eq!(mappings["dynamic"], "strict", "{kind}");
        let all = mappings["properties"].as_object().unwrap();
        all.keys().cloned().collect()
    }

    /// Names that a source text gives to members of the outermost object, by these calls.
    fn members(source: &str, calls: &[&str]) -> Vec<String> {
        let mut names = Vec::new();
        for call in calls {
            for (at, _) in source.match_indices(call) {
                let rest = source[at + call.len()..].trim_start();
                let quoted = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
                names.extend(quoted.map(|(name, _)| name.to_owned()));
            }
        }
        names
    }

    const REQUESTS: [&str; 9] = [
        "o.text(",
        "o.some_text(",
        "o.int(",
        "o.opt(",
        "o.flag(",
        "o.real(",
        "o.key(",
        "o.null(",
        "o.texts(",
    ];

    #[test]
    fn every_member_of_a_document_is_in_its_template() {
        let events = include_str!("../show/event_json.rs").split("#[cfg(test)]");
        let mut of_events = members(events.clone().next().unwrap(), &REQUESTS);
        of_events.extend(members(events.clone().next().unwrap(), &["commented(o,"]));
        let of_accounting = members(include_str!("../client/cacct/print.rs"), &REQUESTS);
        let load = include_str!("../show/load.rs");
        let sample = load.split("pub(crate) fn sample").nth(1).unwrap();
        let sample = sample.split("pub(crate) fn put_json").next().unwrap();
        let of_hosts = members(sample, &[&REQUESTS[..], &["        ("]].concat());
        // cacct computes the cost from the current prices.
        let left_out = ["cost", "currency"];
        for (kind, names, least) in [
            ("events", of_events, 40),
            ("accounting", of_accounting, 30),
            ("hosts", of_hosts, 14),
        ] {
            assert!(names.len() >= least, "{kind}: {names:?}");
            let fields = fields(kind);
            let missing: Vec<&String> = names
                .iter()
                .filter(|name| !left_out.contains(&name.as_str()) && !fields.contains(name))
                .collect();
            assert!(missing.is_empty(), "{kind}: {missing:?}");
        }
        for index in [
            "r15s", "r1m", "r15m", "ut", "pg", "io", "ls", "it", "tmp", "swp", "mem",
        ] {
            assert!(fields("hosts").contains(&index.to_owned()), "{index}");
        }
    }

    #[test]
    fn a_template_is_for_the_indices_of_its_prefix() {
        for (kind, template) in ALL {
            let doc: Value = serde_json::from_str(&text("x.y", kind, template)).unwrap();
            assert_eq!(doc["index_patterns"][0], format!("x.y-{kind}-*"));
        }
    }
}
