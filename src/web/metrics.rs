//! `/metrics`: the text of `cadmin metrics`, in the format that the client requests.
//!
//! Owns the two formats; the metrics come from `corral::api`.

use crate::guard::Caller;
use crate::rest::RestResult;
use crate::{App, blocking};
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse as _;

/// In this format, help and type of a counter have the name of its samples.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The figures that the caller sees; with `--metrics-open`, those that this process's user sees.
pub(crate) async fn metrics(
    State(app): State<App>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
) -> RestResult {
    let open = asks_for_open_metrics(&headers);
    blocking(move || {
        let page = match caller {
            Some(Extension(caller)) => app.actor.reader(&caller.identity)?.metrics()?,
            None => app.cluster.metrics()?,
        };
        let (kind, page) = match open {
            true => (OPEN_METRICS, as_open_metrics(&page)),
            false => (PROMETHEUS, page),
        };
        Ok(([(header::CONTENT_TYPE, kind)], page).into_response())
    })
    .await
}

/// Prometheus requests this format if it can read it; other readers do not name it.
fn asks_for_open_metrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut accepted = accepted.filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.contains("application/openmetrics-text"))
}

/// Converts the figures to OpenMetrics 1.0: help and type of a counter have its name without
/// `_total`.
fn as_open_metrics(page: &str) -> String {
    let counters: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut out = String::with_capacity(page.len());
    for line in page.lines() {
        let family = ["# HELP ", "# TYPE "].iter().find_map(|word| {
            let (name, rest) = line.strip_prefix(word)?.split_once(' ')?;
            let base = name.strip_suffix("_total")?;
            counters.contains(&name).then_some((*word, base, rest))
        });
        match family {
            Some((word, base, rest)) => out.extend([word, base, " ", rest]),
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_lose_their_suffix_and_gauges_keep_theirs() {
        let page = "# HELP jobs_total All.\n# TYPE jobs_total counter\njobs_total 1\n\
                    # HELP slots_total Of hosts.\n# TYPE slots_total gauge\nslots_total 4\n# EOF\n";
        let open = "# HELP jobs All.\n# TYPE jobs counter\njobs_total 1\n\
                    # HELP slots_total Of hosts.\n# TYPE slots_total gauge\nslots_total 4\n# EOF\n";
        assert_eq!(as_open_metrics(page), open);
    }

    #[test]
    fn the_form_is_what_the_reader_accepts() {
        let with = |accept: &str| HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]);
        assert!(!asks_for_open_metrics(&HeaderMap::new()));
        assert!(!asks_for_open_metrics(&with("text/plain;version=0.0.4")));
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;q=0.5";
        assert!(asks_for_open_metrics(&with(prometheus)));
    }
}
