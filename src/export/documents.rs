//! Converts cluster data to documents with index and id.
//!
//! Pure. Owns the names of indices and ids: both are derived only from the record, so that the same
//! record, sent again by any exporter, is the same document in the same index.

use super::bulk::Document;
use corral::api::accounting::RecordLine;
use corral::api::events::{ClusterIdentity, EventLine};
use corral::api::hosts::HostLine;
use corral::record::acct::month_of;

/// The destinations of a cluster's documents.
pub(super) struct Naming {
    prefix: String,
    cluster: ClusterIdentity,
    /// The name of the cluster as a JSON text.
    name: String,
}

impl Naming {
    pub(super) fn new(prefix: &str, cluster: &ClusterIdentity) -> Naming {
        Naming {
            prefix: prefix.to_owned(),
            cluster: cluster.clone(),
            name: serde_json::Value::from(cluster.name.as_str()).to_string(),
        }
    }

    pub(super) fn event(&self, event: &EventLine) -> Document {
        self.document("events", &event.position, event.time_ms, &event.json)
    }

    pub(super) fn record(&self, record: &RecordLine) -> Document {
        self.document("accounting", &record.key, record.end_ms, &record.json)
    }

    /// A sample of the time `at_ms`.
    pub(super) fn sample(&self, host: &HostLine, at_ms: i64) -> Document {
        let id = format!("{}-{at_ms}", host.host);
        self.document("hosts", &id, at_ms, &host.json)
    }

    fn document(&self, kind: &str, id: &str, at_ms: i64, json: &str) -> Document {
        let month = month_of(at_ms).replace('-', ".");
        let members = json.strip_prefix('{').unwrap_or("}");
        Document {
            index: format!("{}-{kind}-{month}", self.prefix),
            id: format!("{}-{id}", self.cluster.id),
            json: format!(
                "{{\"@timestamp\":{at_ms},\"cluster\":{},{members}",
                self.name
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_and_id_follow_from_the_record() {
        let cluster = ClusterIdentity {
            id: "c0ffee".into(),
            name: "a\"b".into(),
        };
        let naming = Naming::new("corral", &cluster);
        let event = EventLine {
            position: "7.1.3".into(),
            time_ms: 1_795_000_000_000,
            json: "{\"position\":\"7.1.3\"}".into(),
        };
        let d = naming.event(&event);
        assert_eq!(
            (d.index.as_str(), d.id.as_str()),
            ("corral-events-2026.11", "c0ffee-7.1.3")
        );
        let doc: serde_json::Value = serde_json::from_str(&d.json).unwrap();
        assert_eq!(doc["@timestamp"], 1_795_000_000_000i64);
        assert_eq!(
            (&doc["cluster"], &doc["position"]),
            (&"a\"b".into(), &"7.1.3".into())
        );
        let host = HostLine {
            host: "h1".into(),
            json: "{\"host\":\"h1\"}".into(),
        };
        assert_eq!(naming.sample(&host, 60_000).id, "c0ffee-h1-60000");
        assert_eq!(naming.sample(&host, 60_000).index, "corral-hosts-1970.01");
    }
}
