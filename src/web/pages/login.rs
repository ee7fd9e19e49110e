//! Login by a link of `clogin` or by password, logout, language and colours.
//!
//! A login always begins a new session with a new secret: a session that the browser had before is
//! ended, never reused. The password form has its own token, which the browser got with the page,
//! so that another site cannot log a user in.

use super::frame::page;
use crate::broker::wire::{NewSession, PasswordRefusal, PasswordResult};
use crate::error::WebError;
use crate::fields::Fields;
use crate::guard::{Caller, DisplaySettings, LANGUAGE, THEME, cookie, set_cookie};
use crate::identity::{Identity, Proof};
use crate::peer::Origin;
use crate::secret::Secret;
use crate::sessions::is_same;
use crate::translations::{Language, Translations};
use crate::{App, blocking};
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use corral::sys;

/// How long a preference is stored, seconds.
const KEEP_S: i64 = 365 * 86_400;
/// Random bytes of a session's secret and of its CSRF token, and the number of letters that encode
/// them.
const SECRET: usize = 32;
const LETTERS: usize = 2 * SECRET;

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    w: Translations,
    theme: &'static str,
    /// Why the last attempt failed; empty: there was none.
    wrong: String,
    /// The token of the password form; empty: there is no such form.
    csrf: String,
    /// The user name that was typed before.
    user: String,
}

/// The name of the cookie with the token of the password form.
fn form_cookie(app: &App) -> String {
    format!("{}_login", app.settings.cookie)
}

/// The token of this browser's password form.
fn form_token<'h>(app: &App, headers: &'h HeaderMap) -> Option<&'h str> {
    let token = cookie(headers, &form_cookie(app))?;
    let is_one = token.len() == LETTERS && token.bytes().all(|b| b.is_ascii_alphanumeric());
    is_one.then_some(token)
}

/// The login page; `wrong`: why the last attempt failed.
fn login_page(
    app: &App,
    display: DisplaySettings,
    headers: &HeaderMap,
    (wrong, user): (String, &str),
) -> Result<Response, WebError> {
    let known = form_token(app, headers).map(str::to_owned);
    let csrf = match app.portal().pam {
        true => known.clone().unwrap_or_else(|| sys::clock::nonce(SECRET)),
        false => String::new(),
    };
    let answer = page(&LoginPage {
        w: display.words,
        theme: display.theme,
        wrong,
        csrf: csrf.clone(),
        user: user.to_owned(),
    })?;
    Ok(match csrf.is_empty() || known.is_some() {
        true => answer,
        false => (
            AppendHeaders([set_cookie(&form_cookie(app), &csrf, None)]),
            answer,
        )
            .into_response(),
    })
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    headers: HeaderMap,
) -> Result<Response, WebError> {
    login_page(&app, display, &headers, (String::new(), ""))
}

pub(super) async fn log_in(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(from): Extension<Origin>,
    Extension(form): Extension<Fields>,
    Extension(password): Extension<Secret>,
    headers: HeaderMap,
) -> Result<Response, WebError> {
    if form.has("user") || !password.reveal().is_empty() {
        return by_password(&app, display, (&from, &headers), &form, password).await;
    }
    let now = sys::clock::wall_ms();
    let counts = !app.actor.bounds_logins();
    if counts && !app.sessions().may_try(now) {
        let why = "too many wrong logins: wait a minute";
        return Err(WebError::new(StatusCode::TOO_MANY_REQUESTS, why));
    }
    let (actor, secret) = (app.actor.clone(), form.get("token").to_owned());
    let found = blocking(move || Ok(actor.log_in(&secret, now)?)).await?;
    let Some(who) = found else {
        app.sessions().count_wrong(now);
        let wrong = display.words.t("login.wrong").to_owned();
        let mut answer = login_page(&app, display, &headers, (wrong, ""))?;
        *answer.status_mut() = StatusCode::FORBIDDEN;
        return Ok(answer);
    };
    Ok(begin(&app, &headers, who, &from).await)
}

/// Begins a session for a user that has logged in, and ends the previous session of the browser.
async fn begin(app: &App, headers: &HeaderMap, mut identity: Identity, from: &Origin) -> Response {
    let now = sys::clock::wall_ms();
    tracing::info!("{} has logged in from {from}", identity.name);
    // A broker begins the session itself and returns its secret; the secret never comes from the
    // browser.
    let secret = match std::mem::take(&mut identity.proof) {
        Proof(own) if own.is_empty() => sys::clock::nonce(SECRET),
        Proof(given) => given,
    };
    let csrf = sys::clock::nonce(SECRET);
    let name = &app.settings.cookie;
    if let Some(old) = cookie(headers, name) {
        end(app, old.to_owned()).await;
    }
    let mut sessions = app.sessions();
    sessions.begin(&secret, csrf, identity, now);
    let age_s = sessions.limits().absolute / 1000;
    drop(sessions);
    let mut set = vec![set_cookie(name, &secret, Some(age_s))];
    if form_token(app, headers).is_some() {
        set.push(set_cookie(&form_cookie(app), "", Some(0)));
    }
    let mut answer = Redirect::to("/").into_response();
    for (name, value) in set {
        if let Ok(value) = value.parse() {
            answer.headers_mut().append(name, value);
        }
    }
    answer
}

/// Login by the password of the operating system.
async fn by_password(
    app: &App,
    display: DisplaySettings,
    (from, headers): (&Origin, &HeaderMap),
    form: &Fields,
    password: Secret,
) -> Result<Response, WebError> {
    if !app.portal().pam {
        return Err(WebError {
            hint: "cb login".to_owned(),
            ..WebError::new(StatusCode::FORBIDDEN, "there is no login by password here")
        });
    }
    let token = form_token(app, headers).unwrap_or_default();
    if token.is_empty() || !is_same(token, form.get("csrf")) {
        return Err(WebError {
            hint: "load the page again; the browser must keep cookies".to_owned(),
            ..WebError::new(
                StatusCode::FORBIDDEN,
                "the form does not belong to this browser",
            )
        });
    }
    let user = form.get("user");
    let (actor, name, address) = (app.actor.clone(), user.to_owned(), from.address);
    let outcome =
        blocking(move || Ok(actor.log_in_by_password(&name, &password, address)?)).await?;
    let w = display.words;
    let t = |key: &'static str| w.t(key).to_owned();
    let (status, wrong) = match &outcome {
        PasswordResult::Begun(NewSession { uid, name, session }) => {
            let who = Identity {
                proof: Proof(session.clone()),
                ..Identity::new(*uid, name.clone())
            };
            return Ok(begin(app, headers, who, from).await);
        }
        PasswordResult::Wrong => (StatusCode::FORBIDDEN, t("login.bad")),
        PasswordResult::Wait(s) => (StatusCode::TOO_MANY_REQUESTS, w.f("login.wait", s)),
        PasswordResult::Refused(PasswordRefusal::PasswordExpired) => {
            (StatusCode::FORBIDDEN, t("login.expired"))
        }
        PasswordResult::Refused(PasswordRefusal::AccountExpired) => {
            (StatusCode::FORBIDDEN, t("login.account"))
        }
        PasswordResult::Refused(PasswordRefusal::Denied) => {
            (StatusCode::FORBIDDEN, t("login.denied"))
        }
        PasswordResult::Unchecked => (StatusCode::SERVICE_UNAVAILABLE, t("login.unchecked")),
        PasswordResult::Busy => (StatusCode::SERVICE_UNAVAILABLE, t("login.busy")),
    };
    let mut answer = login_page(app, display, headers, (wrong, user))?;
    *answer.status_mut() = status;
    if let PasswordResult::Wait(s) = outcome {
        answer.headers_mut().insert(header::RETRY_AFTER, s.into());
    }
    Ok(answer)
}

pub(super) async fn log_out(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Response {
    end(&app, caller.secret).await;
    let expired_cookie = AppendHeaders([set_cookie(&app.settings.cookie, "", Some(0))]);
    (expired_cookie, Redirect::to("/login")).into_response()
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

/// Sets language and theme.
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
        Redirect::to(&return_path(form.get("back"))),
    )
        .into_response()
}

/// A path of this portal, whatever the form contains.
fn return_path(text: &str) -> String {
    let is_path = text.starts_with('/') && !text.starts_with("//") && !text.contains('\\');
    let is_plain = text.bytes().all(|b| b.is_ascii_graphic());
    match is_path && is_plain {
        true => text.to_owned(),
        false => "/".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_leads_to_no_other_place() {
        assert_eq!(return_path("/jobs?own=yes"), "/jobs?own=yes");
        for bad in [
            "//evil",
            "/\\evil",
            "https://evil",
            "",
            "/a\r\nSet-Cookie: x",
            "/ü",
        ] {
            assert_eq!(return_path(bad), "/", "{bad}");
        }
    }
}
