//! The bulk request of Elasticsearch and the result for each document in its response.
//!
//! Pure. Owns the rule that decides what is stored, what is sent again and what can never be
//! stored. A document whose id already exists counts as stored: documents never change, and a
//! request is repeated whenever its response was incomplete.

use serde::Deserialize;

/// A document and its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Document {
    pub index: String,
    /// The same id for the same document, regardless of who sends it and how often.
    pub id: String,
    /// A JSON object on one line.
    pub json: String,
}

impl Document {
    /// Approximate number of bytes that it takes in a request.
    pub(super) fn size(&self) -> usize {
        self.json.len() + self.index.len() + self.id.len() + 48
    }
}

/// An answer of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    /// The value of the header Retry-After, if it is a number.
    pub retry_after_s: Option<u64>,
}

/// The result for a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemResult {
    Stored,
    /// The server had it already.
    Present,
    /// Not stored now; with the reason.
    Retry(String),
    /// It can never be stored; with the reason.
    Rejected(u16, String),
}

/// The meaning of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// One for each document, in the order in which they were sent.
    Results(Vec<ItemResult>),
    /// The request must be smaller.
    TooLarge,
    /// Nothing was stored, or it is not known what was: the reason, and the pause that the server
    /// requests, in seconds.
    Retry(String, Option<u64>),
}

/// The parts of an answer that are requested; the rest is not sent.
pub(super) const FILTER: &str =
    "filter_path=errors,items.*.status,items.*.error.type,items.*.error.reason";

/// Maximum length of a reason that is kept, in bytes.
const REASON_MAX: usize = 1000;

/// Errors of status 400 that the document does not cause: the index cannot be created or written
/// now.
const NOT_OF_THE_DOCUMENT: &[&str] = &[
    "validation_exception",
    "index_closed_exception",
    "invalid_index_name_exception",
    "cluster_block_exception",
    "process_cluster_event_timeout_exception",
    "pipeline_missing_exception",
    "resource_already_exists_exception",
];

/// The body of a request: for each document a line with the action, then the document.
pub(super) fn encode(documents: &[&Document]) -> String {
    let size = documents.iter().map(|d| d.size()).sum();
    let mut out = String::with_capacity(size);
    for d in documents {
        let place = serde_json::json!({"create": {"_index": d.index, "_id": d.id}});
        out.push_str(&place.to_string());
        out.push('\n');
        out.push_str(&d.json);
        out.push('\n');
    }
    out
}

#[derive(Deserialize)]
struct Items {
    #[serde(default)]
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    create: Created,
}

#[derive(Deserialize)]
struct Created {
    status: u16,
    error: Option<ItemError>,
}

#[derive(Deserialize)]
struct ItemError {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    reason: Option<String>,
}

/// Evaluates the answer to a request with `sent` documents.
pub(super) fn judge(answer: &Answer, sent: usize) -> Verdict {
    let later = |why: String| Verdict::Retry(why, answer.retry_after_s);
    match answer.status {
        200 => {}
        413 => return Verdict::TooLarge,
        401 | 403 => {
            return later(format!(
                "the server answers {}: user, password or API key are wrong or may not write: {}",
                answer.status,
                excerpt(&answer.body)
            ));
        }
        status => {
            return later(format!(
                "the server answers {status}: {}",
                excerpt(&answer.body)
            ));
        }
    }
    let items: Items = match serde_json::from_slice(&answer.body) {
        Ok(items) => items,
        Err(e) => return later(format!("the answer is not that to a bulk request: {e}")),
    };
    if items.items.len() != sent {
        let item_count = items.items.len();
        return later(format!(
            "the answer is about {item_count} documents, but {sent} were sent"
        ));
    }
    Verdict::Results(
        items
            .items
            .iter()
            .map(|item| item_result(&item.create))
            .collect(),
    )
}

fn item_result(item: &Created) -> ItemResult {
    let (kind, reason) = match &item.error {
        Some(e) => (e.kind.as_str(), e.reason.as_deref().unwrap_or_default()),
        None => ("", ""),
    };
    let text = || cut(&format!("{kind}: {reason}"));
    match item.status {
        200 | 201 => ItemResult::Stored,
        409 => ItemResult::Present,
        400 if !NOT_OF_THE_DOCUMENT.contains(&kind) => ItemResult::Rejected(400, text()),
        413 => ItemResult::Rejected(413, text()),
        status => ItemResult::Retry(format!("{status}: {}", text())),
    }
}

/// The pause after `failures` failures in a row, ms: it starts at half a second and doubles each
/// time, up to `most`; if the server requests a longer one, that is used, up to ten times `most`.
/// `random` of 65,536 subtracts up to a half, so that several exporters do not send at the same
/// time.
pub(super) fn pause_ms(failures: u32, most: u64, asked_s: Option<u64>, random: u16) -> u64 {
    let doubled = 500u64.saturating_mul(1 << failures.saturating_sub(1).min(20));
    let longest = doubled.min(most);
    let own = longest - longest / 2 * u64::from(random) / 65_536;
    let requested_ms = asked_s.unwrap_or(0).saturating_mul(1000);
    own.max(requested_ms.min(most.saturating_mul(10)))
}

/// The beginning of an answer as one line.
pub(super) fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(300)]);
    match text.trim() {
        "" => "nothing more".to_owned(),
        text => text.replace(char::is_control, " "),
    }
}

fn cut(text: &str) -> String {
    let fits = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=REASON_MAX.min(text.len())).rev().find(fits);
    text[..end.unwrap_or(0)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer {
            status,
            body: body.as_bytes().to_vec(),
            retry_after_s: Some(7),
        }
    }

    #[test]
    fn a_request_has_two_lines_for_each_document_and_an_end() {
        let d = Document {
            index: "i".into(),
            id: "a\"b".into(),
            json: "{\"x\":1}".into(),
        };
        let want = "{\"create\":{\"_id\":\"a\\\"b\",\"_index\":\"i\"}}\n{\"x\":1}\n";
        assert_eq!(encode(&[&d]), want);
        assert!(d.size() >= want.len());
    }

    #[test]
    fn each_document_is_judged_by_its_own_status() {
        let item = |status: u16, kind: &str| {
            format!(
                "{{\"create\":{{\"status\":{status},\"error\":{{\"type\":\"{kind}\",\"reason\":\"r\"}}}}}}"
            )
        };
        let body = format!(
            "{{\"errors\":true,\"items\":[{{\"create\":{{\"status\":201}}}},{},{},{},{},{},{}]}}",
            item(409, "version_conflict_engine_exception"),
            item(429, "es_rejected_execution_exception"),
            item(400, "document_parsing_exception"),
            item(400, "validation_exception"),
            item(403, "cluster_block_exception"),
            item(404, "index_not_found_exception"),
        );
        let Verdict::Results(results) = judge(&answer(200, &body), 7) else {
            panic!("{body}");
        };
        let rejected = ItemResult::Rejected(400, "document_parsing_exception: r".into());
        assert_eq!(
            results[..2]
                .iter()
                .chain(&results[3..4])
                .collect::<Vec<_>>(),
            [&ItemResult::Stored, &ItemResult::Present, &rejected]
        );
        for n in [2, 4, 5, 6] {
            assert!(
                matches!(results[n], ItemResult::Retry(_)),
                "{:?}",
                results[n]
            );
        }
    }

    #[test]
    fn an_answer_that_is_not_whole_says_nothing() {
        let whole = "{\"errors\":false,\"items\":[{\"create\":{\"status\":201}}]}";
        for end in 0..whole.len() {
            let verdict = judge(&answer(200, &whole[..end]), 1);
            assert!(matches!(verdict, Verdict::Retry(..)), "{end}: {verdict:?}");
        }
        assert!(matches!(judge(&answer(200, whole), 2), Verdict::Retry(..)));
        assert!(matches!(judge(&answer(200, whole), 1), Verdict::Results(_)));
        assert_eq!(judge(&answer(413, ""), 1), Verdict::TooLarge);
        for status in [301, 400, 401, 404, 429, 500, 502, 503, 504] {
            let verdict = judge(&answer(status, whole), 1);
            assert!(
                matches!(verdict, Verdict::Retry(_, Some(7))),
                "{status}: {verdict:?}"
            );
        }
    }

    #[test]
    fn pauses_grow_up_to_their_bound() {
        let plain: Vec<u64> = (1..9).map(|n| pause_ms(n, 60_000, None, 0)).collect();
        assert_eq!(plain, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000]);
        assert_eq!(pause_ms(u32::MAX, 60_000, None, 0), 60_000);
        assert!((30_000..=60_000).contains(&pause_ms(50, 60_000, None, u16::MAX)));
        assert_eq!(pause_ms(1, 60_000, Some(90), 0), 90_000);
        assert_eq!(pause_ms(1, 60_000, Some(86_400), 0), 600_000);
    }
}
