//! Every route of the portal. The routes of the REST interface are in one table, from which the
//! router and the OpenAPI document are made: neither can have a route that the other lacks.

use crate::error::WebError;
use crate::guard::guard;
use crate::{App, apps, live, metrics, pages, rest, rest_files, submission, terminal};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use corral::api::portal::Scope;
use serde_json::{Value, json};

/// The prefix of the REST interface.
pub const API: &str = "/api/v1";

/// The kind of a route's response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResponseKind {
    /// One JSON object.
    Object,
    /// An object with a list `items`.
    List,
    /// Server-sent events.
    Events,
    /// The bytes of a file.
    Bytes,
}

/// A route of the REST interface.
pub struct Route {
    pub method: &'static str,
    /// The path below [`API`].
    pub path: &'static str,
    pub scope: Scope,
    pub about: &'static str,
    /// Parameters of the query: name and meaning.
    pub query: &'static [(&'static str, &'static str)],
    /// The name of the body's schema.
    pub body: Option<&'static str>,
    pub answer: ResponseKind,
    handler: fn() -> MethodRouter<App>,
}

const fn read(
    path: &'static str,
    about: &'static str,
    query: &'static [(&'static str, &'static str)],
    answer: ResponseKind,
    handler: fn() -> MethodRouter<App>,
) -> Route {
    Route {
        method: "get",
        path,
        scope: Scope::Read,
        about,
        query,
        body: None,
        answer,
        handler,
    }
}

const fn change(
    path: &'static str,
    about: &'static str,
    body: Option<&'static str>,
    handler: fn() -> MethodRouter<App>,
) -> Route {
    Route {
        method: "post",
        path,
        scope: Scope::Submit,
        about,
        query: &[],
        body,
        answer: ResponseKind::Object,
        handler,
    }
}

/// A route that accesses the user's files or secrets, even if it only reads.
const fn file(
    (method, path): (&'static str, &'static str),
    about: &'static str,
    query: &'static [(&'static str, &'static str)],
    answer: ResponseKind,
    handler: fn() -> MethodRouter<App>,
) -> Route {
    Route {
        method,
        path,
        scope: Scope::Submit,
        about,
        query,
        body: None,
        answer,
        handler,
    }
}

const ROOT: (&str, &str) = (
    "root",
    "a directory, absolute; without it the home directory",
);
const PATH: (&str, &str) = ("path", "below root; percent-encoded bytes");

const LIST_QUERY: &[(&str, &str)] = &[
    ROOT,
    PATH,
    ("from", "names before the page"),
    ("count", "names of the page, at most 1000"),
];

const UPLOAD_QUERY: &[(&str, &str)] = &[
    ROOT,
    PATH,
    ("offset", "where the part begins; 0 begins again"),
    ("size", "bytes of the whole file"),
    ("replace", "yes: a file of that name is replaced"),
];

const JOBS_QUERY: &[(&str, &str)] = &[
    ("filter", "words as in cview: user:u1 state:run weather"),
    ("own", "yes: only the caller's jobs"),
    ("finished", "yes: finished jobs too"),
    ("array", "the elements of the array with this ID"),
    (
        "sort",
        "id user stat queue slots host time cpu mem submit name",
    ),
    ("reverse", "yes: in reverse order"),
    ("from", "rows before the page"),
    ("count", "rows of the page, at most 500"),
];

const ACCT_QUERY: &[(&str, &str)] = &[
    ("user", "of this user or group; all"),
    ("queue", "in this queue"),
    ("ended", "ended in this range of time, as cacct -C"),
];

/// The REST interface.
pub const ROUTES: &[Route] = &[
    read(
        "/cluster",
        "the cluster as a whole",
        &[],
        ResponseKind::Object,
        || get(rest::cluster),
    ),
    read(
        "/jobs",
        "a page of the list of jobs",
        JOBS_QUERY,
        ResponseKind::List,
        || get(rest::jobs),
    ),
    change(
        "/jobs",
        "submit a job; Idempotency-Key is csub's --key",
        Some("Job"),
        || post(rest::submit),
    ),
    change(
        "/dry-run",
        "the result of a dry run; nothing is submitted",
        Some("Job"),
        || post(rest::dry_run),
    ),
    read(
        "/jobs/{id}",
        "a job, an element, or an array",
        &[],
        ResponseKind::Object,
        || get(rest::job),
    ),
    read(
        "/jobs/{id}/history",
        "its history, as chist --json",
        &[],
        ResponseKind::List,
        || get(rest::history),
    ),
    read(
        "/jobs/{id}/output",
        "the end of its output",
        &[],
        ResponseKind::Object,
        || get(rest::output),
    ),
    change("/jobs/{id}/kill", "kill it", None, || post(rest::kill)),
    change("/jobs/{id}/stop", "stop it", None, || post(rest::stop)),
    change("/jobs/{id}/resume", "resume it", None, || {
        post(rest::resume)
    }),
    change("/jobs/{id}/requeue", "put it back to pending", None, || {
        post(rest::requeue)
    }),
    change(
        "/jobs/{id}/clone",
        "submit a job like it; Idempotency-Key is csub's --key",
        None,
        || post(rest_files::clone_job),
    ),
    file(
        ("get", "/jobs/{id}/texts"),
        "script and environment, for its user",
        &[],
        ResponseKind::Object,
        || get(rest_files::texts),
    ),
    file(
        ("get", "/files"),
        "the names of a directory",
        LIST_QUERY,
        ResponseKind::List,
        || get(rest_files::list),
    ),
    file(
        ("get", "/files/content"),
        "the bytes of a file; Range gives a part",
        &[ROOT, PATH],
        ResponseKind::Bytes,
        || get(rest_files::content),
    ),
    file(
        ("get", "/files/upload"),
        "the number of bytes received of an upload",
        &[ROOT, PATH],
        ResponseKind::Object,
        || get(rest_files::received),
    ),
    Route {
        body: Some("Bytes"),
        ..file(
            ("post", "/files/upload"),
            "a part of a file, at most 4 MiB; the last one ends it",
            UPLOAD_QUERY,
            ResponseKind::Object,
            || post(rest_files::upload),
        )
    },
    file(
        ("post", "/files/mkdir"),
        "make a directory",
        &[ROOT, PATH],
        ResponseKind::Object,
        || post(rest_files::make_dir),
    ),
    file(
        ("post", "/files/rename"),
        "rename; nothing is replaced",
        &[ROOT, PATH, ("to", "the new path below root")],
        ResponseKind::Object,
        || post(rest_files::rename),
    ),
    file(
        ("post", "/files/remove"),
        "remove a file, a link or an empty directory",
        &[ROOT, PATH],
        ResponseKind::Object,
        || post(rest_files::remove),
    ),
    read(
        "/queues",
        "as cqueues --json",
        &[],
        ResponseKind::List,
        || get(rest::queues),
    ),
    read(
        "/hosts",
        "as chosts --json",
        &[],
        ResponseKind::List,
        || get(rest::hosts),
    ),
    read("/load", "as cload --json", &[], ResponseKind::List, || {
        get(rest::load)
    }),
    read(
        "/limits",
        "as climits --json",
        &[],
        ResponseKind::List,
        || get(rest::limits),
    ),
    read(
        "/users",
        "as cusers --json all",
        &[],
        ResponseKind::List,
        || get(rest::users),
    ),
    read(
        "/cron",
        "as ccron show --json",
        &[],
        ResponseKind::List,
        || get(rest::crons),
    ),
    read(
        "/acct",
        "as cacct --json",
        ACCT_QUERY,
        ResponseKind::List,
        || get(rest::acct),
    ),
    read(
        "/events",
        "the documents of cevents after the position in Last-Event-ID or in the parameter after",
        &[("after", "a position; 0: all that are kept")],
        ResponseKind::Events,
        || get(live::events),
    ),
];

/// Paths that require no login. `/metrics` has its own rule.
pub fn is_open(path: &str) -> bool {
    path == "/login"
        || path == "/settings"
        || path.starts_with("/assets/")
        || path == "/api/v1/openapi.json"
}

/// All routes, protected by the guard.
pub fn router(app: App) -> Router {
    let mut router = pages::routes()
        .route("/live/view", get(live::view))
        .route("/live/jobs/{id}/log", get(live::log))
        .route("/terminal/{name}/ws", get(terminal::socket))
        .route("/apps/{id}", get(apps::open))
        .route("/metrics", get(metrics::metrics))
        .route("/api/v1/openapi.json", get(rest::openapi));
    for route in ROUTES {
        let known = move |request: Request, next: Next| check_query(route, request, next);
        let handler = (route.handler)().route_layer(from_fn(known));
        router = router.route(&format!("{API}{}", route.path), handler);
    }
    router
        // The guard limits bodies to `BODY_MAX`.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(app.clone(), guard))
        // First of all: a request to a job's program is not a request to the portal.
        .layer(from_fn_with_state(app.clone(), apps::route_by_name))
        .with_state(app)
}

/// Refuses a query with a parameter that the route does not have, or has once, or whose value it
/// cannot read: the result of another query would be taken for the requested one.
async fn check_query(route: &'static Route, request: Request, next: Next) -> Response {
    let query = request.uri().query().unwrap_or_default();
    match wrong_parameter(route, query) {
        None => next.run(request).await,
        Some(why) => {
            let known: Vec<&str> = route.query.iter().map(|(name, _)| *name).collect();
            let hint = match known.is_empty() {
                true => "this path has no parameters".to_owned(),
                false => format!("the parameters of this path: {}", known.join(", ")),
            };
            let mut error = WebError::wrong(why);
            error.hint = hint;
            error.into_response()
        }
    }
}

/// The sentence about the first parameter that is wrong, if one is.
fn wrong_parameter(route: &Route, query: &str) -> Option<String> {
    let Ok(all) = serde_urlencoded::from_str::<Vec<(String, String)>>(query) else {
        return Some("the query cannot be read".to_owned());
    };
    let mut seen = Vec::new();
    for (name, value) in all {
        let shown = short(&name);
        if !route.query.iter().any(|(known, _)| **known == *name) {
            return Some(format!("there is no parameter '{shown}'"));
        }
        if seen.contains(&name) {
            return Some(format!("the parameter '{shown}' is given twice"));
        }
        let value = value.trim();
        let readable = match name.as_str() {
            _ if value.is_empty() => true,
            "from" | "count" | "offset" | "size" | "array" => value.parse::<u64>().is_ok(),
            "own" | "finished" | "reverse" | "replace" => {
                YES.contains(&value) || NO.contains(&value)
            }
            _ => true,
        };
        if !readable {
            return Some(format!("{shown}: '{}' is not understood", short(value)));
        }
        seen.push(name);
    }
    None
}

/// The values of parameters that are on or off.
pub const YES: [&str; 4] = ["yes", "true", "1", "on"];
const NO: [&str; 4] = ["no", "false", "0", "off"];
/// Maximum length of quoted names and values in a refusal, in characters.
const QUOTED_MAX: usize = 60;

fn short(text: &str) -> String {
    let plain = text.chars().filter(|c| !c.is_control());
    plain.take(QUOTED_MAX).collect()
}

/// The OpenAPI document of the table.
pub fn openapi() -> Value {
    let mut paths = serde_json::Map::new();
    for route in ROUTES {
        let path = format!("{API}{}", route.path);
        let entry = paths.entry(path).or_insert_with(|| json!({}));
        entry[route.method] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Corral",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Objects have the members of the commands' --json.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Job": submission::schema(),
                "Bytes": {"type": "string", "format": "binary"},
                "Problem": problem_schema(),
            },
        },
    })
}

fn operation(route: &Route) -> Value {
    let mut parameters = Vec::new();
    if route.path.contains("{id}") {
        parameters.push(json!({
            "name": "id", "in": "path", "required": true,
            "description": "12, or 12[3] for an element",
            "schema": {"type": "string"},
        }));
    }
    for (name, about) in route.query {
        parameters.push(json!({
            "name": name, "in": "query", "description": about, "schema": {"type": "string"},
        }));
    }
    let kind = match route.answer {
        ResponseKind::Events => "text/event-stream",
        ResponseKind::Bytes => "application/octet-stream",
        ResponseKind::Object | ResponseKind::List => "application/json",
    };
    let schema = match route.answer {
        ResponseKind::List => json!({
            "type": "object", "required": ["items"],
            "properties": {"items": {"type": "array", "items": {"type": "object"}}},
        }),
        ResponseKind::Object => json!({"type": "object"}),
        ResponseKind::Events => json!({"type": "string"}),
        ResponseKind::Bytes => json!({"type": "string", "format": "binary"}),
    };
    let problem = json!({"$ref": "#/components/schemas/Problem"});
    let mut operation = json!({
        "summary": route.about,
        "description": format!("Needs a token of scope {}.", route.scope.word()),
        "parameters": parameters,
        "responses": {
            "200": {"description": "the answer", "content": {kind: {"schema": schema}}},
            "default": {
                "description": "why not",
                "content": {"application/problem+json": {"schema": problem}},
            },
        },
    });
    if let Some(body) = route.body {
        let schema = json!({"$ref": format!("#/components/schemas/{body}")});
        let kind = match body {
            "Bytes" => "application/octet-stream",
            _ => "application/json",
        };
        operation["requestBody"] = json!({
            "required": true, "content": {kind: {"schema": schema}},
        });
    }
    operation
}

fn problem_schema() -> Value {
    json!({
        "type": "object",
        "required": ["title", "status"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "hint": {"type": "string"},
        },
    })
}
