//! The form that submits a job, and the result of its dry run.

use super::frame::{Frame, page};
use crate::error::WebError;
use crate::fields::Fields;
use crate::guard::{Caller, DisplaySettings};
use crate::rest::RestQuery;
use crate::submission::{JobForm, OPTIONS};
use crate::translations::Translations;
use crate::{App, blocking};
use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use corral::sys;
use serde_json::Value;

/// Single-line fields: the name, and the key of the label in the catalogue.
const BASIC: &[(&str, &str)] = &[
    ("name", "submit.name"),
    ("slots", "submit.slots"),
    ("memory", "submit.memory"),
    ("run_limit", "submit.run_limit"),
];
const MORE: &[(&str, &str)] = &[
    ("array", "submit.array"),
    ("requirement", "submit.requirement"),
    ("hosts", "submit.hosts"),
    ("project", "submit.project"),
    ("cwd", "submit.cwd"),
    ("output", "submit.output"),
    ("error", "submit.error"),
    ("dependency", "submit.dependency"),
    ("options", "submit.options"),
];

/// A field with its value.
struct Field {
    name: &'static str,
    label: &'static str,
    value: String,
}

#[derive(Template)]
#[template(path = "submit.html")]
struct SubmitPage {
    f: Frame,
    queues: Vec<String>,
    /// Applications with a form: label and link.
    apps: Vec<(String, String)>,
    asked: Fields,
    basic: Vec<Field>,
    more: Vec<Field>,
    /// At least one of these fields has a value.
    is_more: bool,
    /// A form that is sent twice submits one job.
    key: String,
    failure: Option<WebError>,
    /// The result of the dry run, line by line.
    answer: Option<Vec<(String, String)>>,
}

fn fields(list: &'static [(&str, &str)], given: &Fields, w: Translations) -> Vec<Field> {
    let field = |(name, key): &(&'static str, &'static str)| Field {
        name,
        label: w.t(key),
        value: given.get(name).to_owned(),
    };
    list.iter().map(field).collect()
}

pub(super) type CheckResult = Result<Vec<(String, String)>, WebError>;

fn form_page(
    app: &App,
    display: DisplaySettings,
    caller: &Caller,
    given: Fields,
    checked: Option<CheckResult>,
) -> Result<Response, WebError> {
    let now = app.cluster.now();
    let (failure, answer) = match checked {
        None => (None, None),
        Some(Ok(answer)) => (None, Some(answer)),
        Some(Err(failure)) => (Some(failure), None),
    };
    let status = failure.as_ref().map(|failure| failure.status);
    let key = match given.get("key") {
        "" => format!("portal-{}", sys::clock::nonce(12)),
        key => key.to_owned(),
    };
    let mut response = page(&SubmitPage {
        queues: now.queues.iter().map(|q| q.name.clone()).collect(),
        apps: super::apps::links(app, caller, display.words),
        basic: fields(BASIC, &given, display.words),
        is_more: MORE.iter().any(|(name, _)| given.has(name)),
        more: fields(MORE, &given, display.words),
        key,
        failure,
        answer,
        f: Frame::new(display, caller, &now, "/submit", "/submit".to_owned()),
        asked: given,
    })?;
    if let Some(status) = status {
        *response.status_mut() = status;
    }
    Ok(response)
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
    Query(given): RestQuery,
) -> Result<Response, WebError> {
    form_page(&app, display, &caller, Fields(given), None)
}

/// The job that the form describes.
fn job_of(form: &Fields) -> JobForm {
    let text = |name: &str| form.get(name).to_owned();
    let stated = OPTIONS.iter().filter(|(name, ..)| form.has(name));
    JobForm {
        command: text("command"),
        script: text("script"),
        name: text("name"),
        array: text("array"),
        hold: form.has("hold"),
        options: form
            .get("options")
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
        stated: stated
            .map(|(name, ..)| ((*name).to_owned(), text(name).into()))
            .collect(),
        ..JobForm::default()
    }
}

pub(super) async fn submit(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
    Extension(form): Extension<Fields>,
) -> Result<Response, WebError> {
    blocking(move || {
        let accepted = (|| {
            let home = app.actor.reader(&caller.identity)?.user().home.clone();
            let job = job_of(&form).request(&home.to_string_lossy())?;
            Ok(app.actor.submit(&caller.identity, &job)?)
        })();
        match accepted {
            Ok(accepted) => {
                app.cluster.refresh(true);
                Ok(Redirect::to(&format!("/jobs/{}", accepted.id)).into_response())
            }
            Err(failure) => form_page(&app, display, &caller, form, Some(Err(failure))),
        }
    })
    .await
}

pub(super) async fn check(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
    Extension(form): Extension<Fields>,
) -> Result<Response, WebError> {
    blocking(move || {
        let checked = (|| {
            let home = app.actor.reader(&caller.identity)?.user().home.clone();
            let job = job_of(&form).request(&home.to_string_lossy())?;
            let text = app.actor.dry_run(&caller.identity, &job)?;
            Ok(answer(&text, display.words))
        })();
        form_page(&app, display, &caller, form, Some(checked))
    })
    .await
}

/// The members of the dry run's answer that are not empty, in their order, with their names.
pub(super) fn answer(text: &str, w: Translations) -> Vec<(String, String)> {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let members = value.as_object().into_iter().flatten();
    let has_value = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
    let mut all: Vec<(String, String)> = members
        .filter(|(name, value)| has_value(value) || name.as_str() == "accepted")
        .map(|(name, value)| {
            let label = w.t_or(&format!("check.{name}"), &name.replace('_', " "));
            (label, words_of(value, w))
        })
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let verdict = w.t("check.accepted");
    all.sort_by_key(|(label, _)| label != verdict);
    all
}

fn words_of(value: &Value, w: Translations) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => w.t("yes").to_owned(),
        Value::Bool(false) => w.t("no").to_owned(),
        Value::Array(list) => {
            let each = list.iter().map(|value| words_of(value, w));
            each.collect::<Vec<_>>().join(", ")
        }
        Value::Object(members) => {
            let each = members.values().map(|value| words_of(value, w));
            each.collect::<Vec<_>>().join(" ")
        }
        Value::Null => String::new(),
        Value::Number(number) => number.to_string(),
    }
}
