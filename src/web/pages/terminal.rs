//! Terminals: the form that starts one, the open ones, and the page of one.

use super::frame::{Frame, page};
use crate::error::WebError;
use crate::fields::Fields;
use crate::guard::{Caller, DisplaySettings, session_only};
use crate::translations::Translations;
use crate::{App, blocking, terminal};
use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use corral::api::attach::AttachRequest;

/// The menu entry of the page.
const PATH: &str = "/terminal";
/// The size of the screen until the page reports its own.
const SCREEN: (u16, u16) = (24, 80);

#[derive(Template)]
#[template(path = "terminals.html")]
struct TerminalsPage {
    f: Frame,
    queues: Vec<String>,
    /// Name and label.
    open: Vec<(String, String)>,
    asked: Fields,
    failure: Option<WebError>,
}

#[derive(Template)]
#[template(path = "terminal.html")]
struct TerminalPage {
    f: Frame,
    name: String,
    label: String,
}

fn form(
    app: &App,
    display: DisplaySettings,
    caller: &Caller,
    fields: Fields,
    failure: Option<WebError>,
) -> Result<Response, WebError> {
    let now = app.cluster.now();
    let status = failure.as_ref().map(|failure| failure.status);
    let mut response = page(&TerminalsPage {
        queues: now.queues.iter().map(|queue| queue.name.clone()).collect(),
        open: app.terminals.of_session(&caller.secret),
        f: Frame::new(display, caller, &now, PATH, PATH.to_owned()),
        asked: fields,
        failure,
    })?;
    if let Some(status) = status {
        *response.status_mut() = status;
    }
    Ok(response)
}

pub(super) async fn list(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, WebError> {
    session_only(&caller)?;
    form(&app, display, &caller, Fields::default(), None)
}

/// The terminal that the form requests.
fn ask_of(form: &Fields, w: Translations) -> Result<AttachRequest, WebError> {
    let slots = match form.get("slots") {
        "" => Ok(1),
        text => text.parse(),
    };
    let slots = slots.map_err(|_| WebError::wrong(w.f("terminal.wrong", form.get("slots"))))?;
    Ok(AttachRequest::Terminal {
        queue: form.get("queue").to_owned(),
        slots,
        run_limit: form.get("run_limit").to_owned(),
        rows: SCREEN.0,
        cols: SCREEN.1,
    })
}

fn label_of(form: &Fields, w: Translations) -> String {
    let slots = if form.has("slots") {
        form.get("slots")
    } else {
        "1"
    };
    let parts = [
        (w.t("col.queue"), form.get("queue")),
        (w.t("col.slots"), slots),
        (w.t("terminal.limit"), form.get("run_limit")),
    ];
    let parts = parts.iter().filter(|(_, value)| !value.is_empty());
    let words: Vec<String> = parts
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    words.join(", ")
}

pub(super) async fn begin(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
    Extension(fields): Extension<Fields>,
) -> Result<Response, WebError> {
    session_only(&caller)?;
    let begun = async {
        let ask = ask_of(&fields, display.words)?;
        app.terminals.check_room(caller.identity.uid)?;
        let (actor, who) = (app.actor.clone(), caller.identity.clone());
        let program = blocking(move || Ok(actor.attend(&who, &ask)?)).await?;
        terminal::begin(&app, &caller, label_of(&fields, display.words), program)
    };
    match begun.await {
        Ok(name) => Ok(Redirect::to(&format!("{PATH}/{name}")).into_response()),
        Err(failure) => form(&app, display, &caller, fields, Some(failure)),
    }
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Response, WebError> {
    session_only(&caller)?;
    let Some(label) = app.terminals.label(&caller, &name) else {
        // The terminal has ended.
        return Ok(Redirect::to(PATH).into_response());
    };
    let url = format!("{PATH}/{name}");
    page(&TerminalPage {
        f: Frame::new(display, &caller, &app.cluster.now(), PATH, url),
        name,
        label,
    })
}

pub(super) async fn close(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Response, WebError> {
    session_only(&caller)?;
    app.terminals.end(&caller, &name);
    Ok(Redirect::to(PATH).into_response())
}
