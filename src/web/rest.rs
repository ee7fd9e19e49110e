//! The REST interface: the `--json` output of the commands, and their actions.
//!
//! Owns the shape of responses; members of objects are those of the commands. `routes` has the
//! table.

use crate::cluster::Cluster;
use crate::error::WebError;
use crate::fields::Fields;
use crate::guard::Caller;
use crate::identity::JobAction;
use crate::submission::JobForm;
use crate::{App, blocking, routes};
use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use corral::api::jobs::{JobQuery, ListedJob, job_key};
use corral::api::read::{OUTPUT_MAX, ReadCommand};
use corral::model::JobStat;
use corral::record::ack::Code;
use corral::sys;
use serde_json::{Value, json};

/// Default number of rows of a page.
pub const COUNT: usize = 100;

/// The result of a handler.
pub type RestResult = Result<Response, WebError>;
/// A query, with names that may occur more than once.
pub type RestQuery = Query<Vec<(String, String)>>;

fn object(value: &Value) -> Response {
    text(value.to_string())
}

fn text(json: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}

/// Wraps JSON lines as `{"items":[...]}`; they are not parsed, only joined.
fn list(lines: &str) -> Response {
    let mut out = String::with_capacity(lines.len() + 16);
    out.push_str("{\"items\":[");
    for (n, line) in lines.lines().filter(|line| !line.is_empty()).enumerate() {
        out.push_str(if n > 0 { ",\n" } else { "\n" });
        out.push_str(line);
    }
    out.push_str("\n]}\n");
    text(out)
}

pub(crate) async fn cluster(State(app): State<App>, _: Extension<Caller>) -> RestResult {
    let now = app.cluster.now();
    let head = &now.head;
    Ok(object(&json!({
        "cluster": head.cluster,
        "master": head.master,
        "epoch": head.epoch,
        "version": head.version,
        "silent_ms": head.silent_ms,
        "alarms": head.alarms,
        "default_queues": head.default_queues,
        "queues": now.queues.len(),
        "hosts": now.hosts.len(),
        "failure": now.failure,
    })))
}

/// Converts the query of a list of jobs.
pub fn job_query(fields: &Fields) -> JobQuery {
    let yes = |name: &str| routes::YES.contains(&fields.get(name));
    JobQuery {
        filter: fields.get("filter").to_owned(),
        own_only: yes("own"),
        finished: yes("finished"),
        sort: fields.get("sort").to_owned(),
        reverse: yes("reverse"),
        array: fields.get("array").parse().ok(),
        from: fields.number("from", 0),
        count: fields.number("count", COUNT),
    }
}

fn states(counts: &[(JobStat, u64)]) -> Value {
    let each = counts
        .iter()
        .map(|(stat, n)| (stat.word().to_owned(), json!(n)));
    Value::Object(each.collect())
}

fn listed(job: &ListedJob) -> Value {
    let moment = |ms: i64| if ms == 0 { Value::Null } else { json!(ms) };
    json!({
        "jobid": job.id,
        "user": job.user,
        "stat": job.stat.word(),
        "queue": job.queue,
        "name": job.name,
        "hosts": job.hosts,
        "slots": job.slots,
        "submit_ms": moment(job.submit),
        "start_ms": moment(job.start),
        "end_ms": moment(job.end),
        "time_ms": job.time_ms,
        "cpu_ms": job.cpu_ms,
        "mem_kb": job.mem_kb,
        "elements": match job.elements.is_empty() {
            true => Value::Null,
            false => states(&job.elements),
        },
    })
}

pub(crate) async fn jobs(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(fields): RestQuery,
) -> RestResult {
    let query = job_query(&Fields(fields));
    blocking(move || {
        let visible = Cluster::visible_jobs(&app.actor.reader(&caller.identity)?)?;
        let now = app.cluster.now();
        let page = now.jobs.page(&query, &visible, sys::clock::wall_ms())?;
        Ok(object(&json!({
            "items": page.rows.iter().map(listed).collect::<Vec<_>>(),
            "total": page.total,
            "from": page.from,
            "counts": states(&page.counts),
        })))
    })
    .await
}

/// A text of a path or query as an operand of a command: never as an option.
fn operand(text: &str) -> Result<&str, WebError> {
    match text.starts_with('-') {
        true => Err(WebError::wrong("a value cannot begin with a dash")),
        false => Ok(text),
    }
}

/// The job that a path names.
///
/// # Errors
/// The text is not a job id.
pub fn key_of(id: &str) -> Result<corral::model::JobKey, WebError> {
    job_key(id).ok_or_else(|| WebError::not_found("a job is named as 12, an element as 12[3]"))
}

pub(crate) async fn job(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> RestResult {
    blocking(move || {
        let reader = app.actor.reader(&caller.identity)?;
        let job = reader.job(key_of(&id)?)?;
        let is_array = job.row.arr.is_some() && !id.contains('[');
        let words: &[&str] = if is_array {
            &["-A", "--json", &id]
        } else {
            &["--json", &id]
        };
        let lines = reader.answer(ReadCommand::Jobs, words)?;
        let first = lines.lines().next().unwrap_or("{}");
        Ok(text(first.to_owned()))
    })
    .await
}

pub(crate) async fn history(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> RestResult {
    blocking(move || {
        let reader = app.actor.reader(&caller.identity)?;
        reader.job(key_of(&id)?)?;
        Ok(list(
            &reader.answer(ReadCommand::History, &["--json", &id])?,
        ))
    })
    .await
}

pub(crate) async fn output(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> RestResult {
    blocking(move || {
        let job = app.actor.reader(&caller.identity)?.job(key_of(&id)?)?;
        let files = app.actor.output(&caller.identity, &job, OUTPUT_MAX)?;
        let each = files.iter().map(|file| match &file.bytes {
            Ok(bytes) => json!({
                "path": file.path.to_string_lossy(),
                "text": String::from_utf8_lossy(bytes),
            }),
            Err(why) => json!({"path": file.path.to_string_lossy(), "error": why}),
        });
        Ok(object(&json!({"files": each.collect::<Vec<_>>()})))
    })
    .await
}

/// The output of a reading command, as a list.
async fn reading(app: App, caller: Caller, what: ReadCommand, words: Vec<String>) -> RestResult {
    blocking(move || {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let reader = app.actor.reader(&caller.identity)?;
        Ok(list(&reader.answer(what, &words)?))
    })
    .await
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

pub(crate) async fn queues(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> RestResult {
    reading(app, caller, ReadCommand::Queues, words(["--json"])).await
}

pub(crate) async fn hosts(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> RestResult {
    reading(app, caller, ReadCommand::Hosts, words(["--json"])).await
}

pub(crate) async fn load(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> RestResult {
    reading(app, caller, ReadCommand::Load, words(["--json"])).await
}

pub(crate) async fn limits(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> RestResult {
    reading(app, caller, ReadCommand::Limits, words(["--json"])).await
}

pub(crate) async fn users(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> RestResult {
    reading(app, caller, ReadCommand::Users, words(["--json", "all"])).await
}

pub(crate) async fn crons(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> RestResult {
    reading(app, caller, ReadCommand::Crons, words(["--json"])).await
}

pub(crate) async fn acct(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(fields): RestQuery,
) -> RestResult {
    let fields = Fields(fields);
    let mut line = words(["--json"]);
    for (name, option) in [("user", "-u"), ("queue", "-q"), ("ended", "-C")] {
        if fields.has(name) {
            line.extend(words([option, operand(fields.get(name))?]));
        }
    }
    reading(app, caller, ReadCommand::Accounting, line).await
}

/// The job in a JSON body, with the key of the header.
fn job_of(headers: &HeaderMap, body: &Bytes) -> Result<JobForm, WebError> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|v| v.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("application/json")) {
        let why = "the body must be application/json";
        return Err(WebError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    let mut form: JobForm =
        serde_json::from_slice(body).map_err(|e| WebError::wrong(e.to_string()))?;
    if let Some(key) = headers.get("idempotency-key") {
        let key = key
            .to_str()
            .map_err(|_| WebError::wrong("Idempotency-Key: not plain text"))?;
        let other = form.stated.insert("key".to_owned(), json!(key));
        if other.is_some_and(|other| other != json!(key)) {
            return Err(WebError::wrong("Idempotency-Key and key differ"));
        }
    }
    Ok(form)
}

pub(crate) async fn submit(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> RestResult {
    let form = job_of(&headers, &body)?;
    blocking(move || {
        let home = app.actor.reader(&caller.identity)?.user().home.clone();
        let job = form.request(&home.to_string_lossy())?;
        let accepted = app.actor.submit(&caller.identity, &job)?;
        app.cluster.refresh(true);
        let answer = json!({
            "jobid": accepted.id.to_string(),
            "id": accepted.id,
            "queue": accepted.queue,
            "accepted_ms": accepted.accepted_ms,
            "warning": accepted.warning,
        });
        let location = format!("{}/jobs/{}", routes::API, accepted.id);
        let mut response = object(&answer);
        *response.status_mut() = StatusCode::CREATED;
        if let Ok(location) = location.parse() {
            response.headers_mut().insert(header::LOCATION, location);
        }
        Ok(response)
    })
    .await
}

pub(crate) async fn dry_run(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> RestResult {
    let form = job_of(&headers, &body)?;
    blocking(move || {
        let home = app.actor.reader(&caller.identity)?.user().home.clone();
        let job = form.request(&home.to_string_lossy())?;
        Ok(text(app.actor.dry_run(&caller.identity, &job)?))
    })
    .await
}

async fn act(app: App, caller: Caller, id: String, act: JobAction) -> RestResult {
    blocking(move || {
        key_of(&id)?;
        let outcomes = app.actor.act(&caller.identity, act, vec![id])?;
        app.cluster.refresh(true);
        if let [only] = outcomes.as_slice()
            && only.code != Code::Ok
        {
            return Err(corral::api::failure_of(only).into());
        }
        let each = outcomes.iter().map(|outcome| {
            json!({"jobid": outcome.what, "ok": outcome.code == Code::Ok, "text": outcome.text})
        });
        Ok(object(&json!({"results": each.collect::<Vec<_>>()})))
    })
    .await
}

pub(crate) async fn kill(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> RestResult {
    act(app, caller, id, JobAction::Kill).await
}

pub(crate) async fn stop(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> RestResult {
    act(app, caller, id, JobAction::Stop).await
}

pub(crate) async fn resume(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> RestResult {
    act(app, caller, id, JobAction::Resume).await
}

pub(crate) async fn requeue(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> RestResult {
    act(app, caller, id, JobAction::Requeue).await
}

pub(crate) async fn openapi() -> Response {
    object(&routes::openapi())
}
