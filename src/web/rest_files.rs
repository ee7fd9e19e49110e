//! Files, clones and the texts of jobs in the REST interface.
//!
//! Owns the shape of their responses. Locations are in the query of every request: `root` (default:
//! the home directory) and `path` below it, both percent-encoded.

use crate::error::WebError;
use crate::files::{self, ByteQuery, Delivery, encoded, shown};
use crate::guard::Caller;
use crate::rest::{RestResult, key_of};
use crate::{App, blocking, routes};
use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use corral::api::files::{FileAnswer, FileEntry, FileLocation, FileRequest};
use serde_json::{Value, json};

/// Default number of entries of a page.
pub const COUNT: u64 = 500;

fn object(value: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, value.to_string()).into_response()
}

fn entry(entry: &FileEntry) -> Value {
    json!({
        "name": shown(&entry.name),
        "encoded": encoded(&entry.name),
        "kind": entry.kind.word(),
        "size": entry.size,
        "mtime_ms": entry.mtime_ms,
        "mode": format!("{:04o}", entry.mode),
        "uid": entry.uid,
        "target": entry.target.as_deref().map(shown),
    })
}

/// Carries out a request for files with the user's rights; returns the result as JSON.
async fn answer(
    app: App,
    caller: Caller,
    query: Option<String>,
    ask: impl FnOnce(FileLocation, &ByteQuery) -> Result<FileRequest, WebError> + Send + 'static,
) -> RestResult {
    blocking(move || {
        let byte_query = ByteQuery::parse(query.as_deref())?;
        let at = files::location(&app, &caller, &byte_query)?;
        let root = shown(&at.root);
        let result = app.actor.files(&caller.identity, &ask(at, &byte_query)?)?;
        Ok(match result {
            FileAnswer::Listed {
                entries,
                total,
                is_cut,
            } => object(&json!({
                "root": root,
                "items": entries.iter().map(entry).collect::<Vec<_>>(),
                "total": total,
                "cut": is_cut,
            })),
            FileAnswer::Received { bytes, taken, done } => {
                object(&json!({"received": bytes, "taken": taken, "done": done}))
            }
            FileAnswer::Done => object(&json!({"done": true})),
            FileAnswer::Bytes { .. } => return Err(WebError::internal()),
        })
    })
    .await
}

pub(crate) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> RestResult {
    answer(app, caller, query, |at, byte_query| {
        let number = |name, otherwise| {
            let n = byte_query.number(name, otherwise)?;
            usize::try_from(n).map_err(|_| WebError::wrong(format!("{name}: too large")))
        };
        Ok(FileRequest::List {
            at,
            from: number("from", 0)?,
            count: number("count", COUNT)?,
        })
    })
    .await
}

pub(crate) async fn content(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> RestResult {
    let byte_query = ByteQuery::parse(query.as_deref())?;
    let (app_copy, of) = (app.clone(), caller.clone());
    let at = blocking(move || files::location(&app_copy, &of, &byte_query)).await?;
    files::send_file(app, caller, at, &headers, Delivery::Download).await
}

pub(crate) async fn received(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> RestResult {
    answer(app, caller, query, |at, _| Ok(FileRequest::Received { at })).await
}

pub(crate) async fn upload(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> RestResult {
    answer(app, caller, query, move |at, byte_query| {
        if byte_query.get("size").is_empty() {
            return Err(WebError::wrong("size: give the bytes of the whole file"));
        }
        Ok(FileRequest::Write {
            at,
            offset: byte_query.number("offset", 0)?,
            bytes: body.to_vec(),
            size: byte_query.number("size", 0)?,
            replace: byte_query.is_yes("replace"),
        })
    })
    .await
}

pub(crate) async fn make_dir(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> RestResult {
    answer(app, caller, query, |at, _| Ok(FileRequest::MakeDir { at })).await
}

pub(crate) async fn rename(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> RestResult {
    answer(app, caller, query, |at, byte_query| {
        Ok(FileRequest::Rename {
            at,
            to: byte_query.get("to").to_vec(),
        })
    })
    .await
}

pub(crate) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> RestResult {
    answer(app, caller, query, |at, _| Ok(FileRequest::Remove { at })).await
}

pub(crate) async fn clone_job(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> RestResult {
    let key = headers.get("idempotency-key").map(|key| key.to_str());
    let key = key.transpose();
    let key = key.map_err(|_| WebError::wrong("Idempotency-Key: not plain text"))?;
    let key = key.unwrap_or_default().to_owned();
    blocking(move || {
        key_of(&id)?;
        let accepted = app.actor.clone_job(&caller.identity, &id, &key)?;
        app.cluster.refresh(true);
        let mut response = object(&json!({
            "jobid": accepted.id.to_string(),
            "id": accepted.id,
            "queue": accepted.queue,
            "accepted_ms": accepted.accepted_ms,
        }));
        *response.status_mut() = StatusCode::CREATED;
        if let Ok(location) = format!("{}/jobs/{}", routes::API, accepted.id).parse() {
            response.headers_mut().insert(header::LOCATION, location);
        }
        Ok(response)
    })
    .await
}

/// Script and environment: only for the job's user, and not for a token that only reads.
pub(crate) async fn texts(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> RestResult {
    blocking(move || {
        files::allow(&caller)?;
        let job = app.actor.reader(&caller.identity)?.job(key_of(&id)?)?;
        let texts = app.actor.texts(&caller.identity, &job)?;
        let script = texts.script.map(|script| match script {
            Ok(text) => json!({"text": text}),
            Err(why) => json!({"error": why}),
        });
        let env = match texts.env {
            Ok(vars) => {
                let each = vars.into_iter().map(|(name, value)| (name, json!(value)));
                json!({"variables": Value::Object(each.collect())})
            }
            Err(why) => json!({"error": why}),
        };
        Ok(object(&json!({"script": script, "env": env})))
    })
    .await
}
