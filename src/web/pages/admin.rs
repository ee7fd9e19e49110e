//! Pages of administrators: problems of the cluster, opening and closing queues and hosts, the
//! checks of `cadmin check`, and cb.yaml, which can be read, checked and saved.
//!
//! Owns which buttons exist. [`UserAccess::administer`] and the leader check the user's rights; a
//! token for programs, which may have fewer rights than its owner, is refused here.
//!
//! [`UserAccess::administer`]: crate::identity::UserAccess::administer

use super::frame::{Frame, page};
use super::jobs::{ActedPage, action_result};
use crate::error::WebError;
use crate::fields::Fields;
use crate::guard::{Caller, DisplaySettings};
use crate::{App, blocking};
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use corral::api::admin::{
    AdminAction, AdminAnswer, COMMENT_MAX, ConfigSaved, ConfigText, ConfigVerdict, HostAct,
    QueueAct,
};
use corral::api::portal::Scope;
use corral::api::read::{HostKind, Reader};

/// Maximum number of names in one request.
const NAMES_MAX: usize = 1_000;
/// Maximum number of hosts on the page.
const HOSTS_MAX: usize = 500;

/// Actions on queues and hosts: the value of the button, the key of its words.
const QUEUE_ACTS: &[(&str, &str)] = &[
    ("open", "admin.open"),
    ("close", "admin.close"),
    ("activate", "admin.activate"),
    ("inactivate", "admin.inactivate"),
];
const HOST_ACTS: &[(&str, &str)] = &[("open", "admin.open"), ("close", "admin.close")];

/// A queue or a host on the page.
struct Line {
    name: String,
    status: String,
    class: &'static str,
    comment: String,
}

#[derive(Template)]
#[template(path = "admin.html")]
struct AdminPage {
    f: Frame,
    health: String,
    queues: Vec<Line>,
    hosts: Vec<Line>,
    /// The number of hosts that do not fit on the page.
    left_out: usize,
    queue_acts: &'static [(&'static str, &'static str)],
    host_acts: &'static [(&'static str, &'static str)],
    comment_max: usize,
    /// The output of `cadmin check`, if it was requested.
    check: Option<String>,
}

/// A token may have fewer rights than its owner.
fn allowed(caller: &Caller) -> Result<(), WebError> {
    match caller.scope >= Scope::Admin {
        true => Ok(()),
        false => Err(WebError {
            hint: "ctoken create --scope admin".to_owned(),
            ..WebError::new(
                StatusCode::FORBIDDEN,
                "this token is not for administration",
            )
        }),
    }
}

/// The output of a command; its error is returned as text, too, unless the caller has no right to
/// it.
fn text_of(app: &App, caller: &Caller, act: &AdminAction) -> Result<String, WebError> {
    match app.actor.administer(&caller.identity, act) {
        Ok(AdminAnswer::Text(text)) => Ok(text),
        Ok(_) => Err(WebError::internal()),
        Err(failure) if failure.kind == corral::api::FailureKind::Permission => Err(failure.into()),
        Err(failure) => Ok(failure.text),
    }
}

fn admin_page(
    app: &App,
    display: DisplaySettings,
    caller: &Caller,
    check: Option<String>,
) -> Result<Response, WebError> {
    let health = text_of(app, caller, &AdminAction::Health)?;
    let now = app.cluster.now();
    let queues = now.queues.iter().map(|q| {
        let status = Reader::queue_status(q);
        Line {
            name: q.name.clone(),
            status: status.to_owned(),
            class: match status {
                "Open:Active" => "run",
                _ => "wait",
            },
            comment: q.comment.clone(),
        }
    });
    let hosts = now.hosts.iter().take(HOSTS_MAX).map(|h| Line {
        name: h.name.clone(),
        status: h.status.to_string(),
        class: match Reader::host_kind(h) {
            HostKind::Open => "run",
            HostKind::Closed => "wait",
            HostKind::Away => "bad",
        },
        comment: h.comment.clone(),
    });
    page(&AdminPage {
        health,
        queues: queues.collect(),
        hosts: hosts.collect(),
        left_out: now.hosts.len().saturating_sub(HOSTS_MAX),
        queue_acts: QUEUE_ACTS,
        host_acts: HOST_ACTS,
        comment_max: COMMENT_MAX,
        check,
        f: Frame::new(display, caller, &now, "/admin", "/admin".to_owned()),
    })
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, WebError> {
    allowed(&caller)?;
    blocking(move || admin_page(&app, display, &caller, None)).await
}

pub(super) async fn check(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, WebError> {
    allowed(&caller)?;
    blocking(move || {
        let text = text_of(&app, &caller, &AdminAction::CheckCluster)?;
        admin_page(&app, display, &caller, Some(text))
    })
    .await
}

/// The action that a form requests.
fn act_of(form: &Fields) -> Result<AdminAction, WebError> {
    let (names, comment) = (form.all("name"), form.get("comment").to_owned());
    if names.len() > NAMES_MAX {
        let why = format!("at most {NAMES_MAX} queues or hosts at once");
        return Err(WebError::wrong(why));
    }
    let queue = |act| AdminAction::Queues {
        names: names.clone(),
        act,
        comment: comment.clone(),
    };
    let host = |act| AdminAction::Hosts {
        names: names.clone(),
        act,
        comment: comment.clone(),
    };
    match (form.get("what"), form.get("act")) {
        ("queues", "open") => Ok(queue(QueueAct::Open)),
        ("queues", "close") => Ok(queue(QueueAct::Close)),
        ("queues", "activate") => Ok(queue(QueueAct::Activate)),
        ("queues", "inactivate") => Ok(queue(QueueAct::Inactivate)),
        ("hosts", "open") => Ok(host(HostAct::Open)),
        ("hosts", "close") => Ok(host(HostAct::Close)),
        _ => Err(WebError::wrong("no such action")),
    }
}

pub(super) async fn act(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
    Extension(form): Extension<Fields>,
) -> Result<Response, WebError> {
    allowed(&caller)?;
    let act = act_of(&form)?;
    if form.all("name").is_empty() {
        return Err(WebError::wrong(display.words.t("admin.none_marked")));
    }
    blocking(move || {
        let AdminAnswer::Outcomes(outcomes) = app.actor.administer(&caller.identity, &act)? else {
            return Err(WebError::internal());
        };
        app.cluster.refresh(true);
        let now = app.cluster.now();
        page(&ActedPage {
            results: outcomes.iter().map(action_result).collect(),
            back: "/admin".to_owned(),
            f: Frame::new(display, &caller, &now, "/admin", "/admin".to_owned()),
        })
    })
    .await
}

#[derive(Template)]
#[template(path = "admin_config.html")]
struct ConfigPage {
    f: Frame,
    path: String,
    /// The digest of the text on which the shown text is based.
    base: String,
    text: String,
    verdict: Option<ConfigVerdict>,
    saved: Option<ConfigSaved>,
    failure: Option<WebError>,
}

impl ConfigPage {
    fn of(app: &App, display: DisplaySettings, caller: &Caller, config: ConfigText) -> ConfigPage {
        let (now, url) = (app.cluster.now(), "/admin/config".to_owned());
        ConfigPage {
            path: config.path,
            base: config.digest,
            text: config.text,
            verdict: None,
            saved: None,
            failure: None,
            f: Frame::new(display, caller, &now, "/admin", url),
        }
    }
}

fn config_now(app: &App, caller: &Caller) -> Result<ConfigText, WebError> {
    match app
        .actor
        .administer(&caller.identity, &AdminAction::Config)?
    {
        AdminAnswer::Config(config) => Ok(config),
        _ => Err(WebError::internal()),
    }
}

/// The text of the form in the format of files: browsers end lines with CR LF.
fn text_in(form: &Fields) -> String {
    let all = form.all("text");
    let text = all.first().map_or("", String::as_str);
    text.replace("\r\n", "\n")
}

pub(super) async fn config(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, WebError> {
    allowed(&caller)?;
    blocking(move || {
        let config = config_now(&app, &caller)?;
        page(&ConfigPage::of(&app, display, &caller, config))
    })
    .await
}

pub(super) async fn check_config(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
    Extension(form): Extension<Fields>,
) -> Result<Response, WebError> {
    allowed(&caller)?;
    blocking(move || {
        let text = text_in(&form);
        let act = AdminAction::CheckConfig { text: text.clone() };
        let AdminAnswer::Checked(verdict) = app.actor.administer(&caller.identity, &act)? else {
            return Err(WebError::internal());
        };
        let now = config_now(&app, &caller)?;
        let mut shown = ConfigPage::of(&app, display, &caller, now);
        shown.base = form.get("base").to_owned();
        (shown.text, shown.verdict) = (text, Some(verdict));
        page(&shown)
    })
    .await
}

pub(super) async fn save_config(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
    Extension(form): Extension<Fields>,
) -> Result<Response, WebError> {
    allowed(&caller)?;
    blocking(move || {
        let (text, base) = (text_in(&form), form.get("base").to_owned());
        let act = AdminAction::SaveConfig {
            base: base.clone(),
            text: text.clone(),
        };
        let answer = app.actor.administer(&caller.identity, &act);
        app.cluster.refresh(true);
        let mut shown = ConfigPage::of(&app, display, &caller, config_now(&app, &caller)?);
        match answer {
            Ok(AdminAnswer::Saved(saved)) => shown.saved = Some(saved),
            Ok(_) => return Err(WebError::internal()),
            Err(failure) => {
                // The text that was typed is kept.
                (shown.text, shown.base) = (text, base);
                shown.failure = Some(failure.into());
            }
        }
        let status = shown.failure.as_ref().map(|failure| failure.status);
        let mut response = page(&shown)?;
        if let Some(status) = status {
            *response.status_mut() = status;
        }
        Ok(response)
    })
    .await
}
