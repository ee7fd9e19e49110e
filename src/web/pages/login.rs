//! Logging in by a link of `clogin`, logging out, language and colours.
//!
//! A login always begins a new session under a new secret: what a browser brought before is ended,
//! never taken over.

use super::frame::page;
use crate::error::WebError;
use crate::fields::Fields;
use crate::guard::{Caller, LANGUAGE, Look, THEME, cookie, set_cookie};
use crate::identity::Proof;
use crate::sessions::ABSOLUTE_MS;
use crate::words::{Language, Words};
use crate::{App, blocking};
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use corral::sys;

/// How long a preference is kept, seconds.
const KEEP_S: i64 = 365 * 86_400;
/// Random bytes of a session's secret and of its CSRF token.
const SECRET: usize = 32;

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    w: Words,
    theme: &'static str,
    wrong: bool,
}

pub(super) async fn show(Extension(look): Extension<Look>) -> Result<Response, WebError> {
    page(&LoginPage {
        w: look.words,
        theme: look.theme,
        wrong: false,
    })
}

pub(super) async fn log_in(
    State(app): State<App>,
    Extension(look): Extension<Look>,
    Extension(form): Extension<Fields>,
    headers: HeaderMap,
) -> Result<Response, WebError> {
    let now = sys::clock::wall_ms();
    let counts = !app.actor.bounds_logins();
    if counts && !app.sessions().may_try(now) {
        let why = "too many wrong logins: wait a minute";
        return Err(WebError::new(StatusCode::TOO_MANY_REQUESTS, why));
    }
    let (actor, secret) = (app.actor.clone(), form.get("token").to_owned());
    let found = blocking(move || Ok(actor.log_in(&secret, now)?)).await?;
    let Some(mut who) = found else {
        app.sessions().count_wrong(now);
        let mut answer = page(&LoginPage {
            w: look.words,
            theme: look.theme,
            wrong: true,
        })?;
        *answer.status_mut() = StatusCode::FORBIDDEN;
        return Ok(answer);
    };
    tracing::info!("{} has logged in", who.name);
    // Who acts for users begins the session itself, and gives its secret; never the browser.
    let secret = match std::mem::take(&mut who.proof) {
        Proof(own) if own.is_empty() => sys::clock::nonce(SECRET),
        Proof(given) => given,
    };
    let csrf = sys::clock::nonce(SECRET);
    let name = &app.settings.cookie;
    if let Some(old) = cookie(&headers, name) {
        end(&app, old.to_owned()).await;
    }
    let mut sessions = app.sessions();
    sessions.begin(&secret, csrf, who, now);
    let set = AppendHeaders([set_cookie(name, &secret, Some(ABSOLUTE_MS / 1000))]);
    Ok((set, Redirect::to("/")).into_response())
}

pub(super) async fn log_out(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Response {
    end(&app, caller.secret).await;
    let gone = AppendHeaders([set_cookie(&app.settings.cookie, "", Some(0))]);
    (gone, Redirect::to("/login")).into_response()
}

async fn end(app: &App, secret: String) {
    app.sessions().end(&secret);
    app.apps.end_session(&secret);
    let actor = app.actor.clone();
    let _ = blocking(move || {
        actor.end_session(&secret);
        Ok(())
    })
    .await;
}

/// Sets language and colours.
pub(super) async fn set(Extension(form): Extension<Fields>) -> Response {
    let mut cookies = Vec::new();
    if let Some(language) = Language::parse(form.get("lang")) {
        cookies.push(set_cookie(LANGUAGE, language.tag(), Some(KEEP_S)));
    }
    match form.get("theme") {
        theme @ ("light" | "dark") => cookies.push(set_cookie(THEME, theme, Some(KEEP_S))),
        "system" => cookies.push(set_cookie(THEME, "", Some(0))),
        _ => {}
    }
    (
        AppendHeaders(cookies),
        Redirect::to(&way_back(form.get("back"))),
    )
        .into_response()
}

/// A place of this portal, whatever the form says.
fn way_back(text: &str) -> String {
    let is_place = text.starts_with('/') && !text.starts_with("//") && !text.contains('\\');
    let is_plain = text.bytes().all(|b| b.is_ascii_graphic());
    match is_place && is_plain {
        true => text.to_owned(),
        false => "/".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_leads_to_no_other_place() {
        assert_eq!(way_back("/jobs?own=yes"), "/jobs?own=yes");
        for bad in [
            "//evil",
            "/\\evil",
            "https://evil",
            "",
            "/a\r\nSet-Cookie: x",
            "/ü",
        ] {
            assert_eq!(way_back(bad), "/", "{bad}");
        }
    }
}
