//! A form for each template of an application, generated from its parameters; jobs that are
//! submitted again unchanged or in a form.
//!
//! Owns the form. Values are checked by the same code as those of `csub -app`; no text of a
//! template is used as HTML.

use super::frame::{Frame, page};
use super::jobs::in_path;
use super::submit::{CheckResult, answer};
use crate::error::WebError;
use crate::fields::Fields;
use crate::guard::{Caller, DisplaySettings};
use crate::rest::{RestQuery, key_of};
use crate::submission::JobForm;
use crate::translations::{Language, Translations};
use crate::{App, blocking};
use askama::Template as Page;
use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use corral::api::{BilingualText, Param, ParamKind, Template, TemplateCommand};
use corral::model::JobKey;
use corral::spool::view::ViewJob;
use corral::sys;
use corral::text::command::split_words;

/// Prefix of the names of fields that are parameters.
const PARAM: &str = "p.";
/// Fields of every form: the name, the key of the label.
const COMMON: &[(&str, &str)] = &[
    ("name", "submit.name"),
    ("array", "submit.array"),
    ("queue", "col.queue"),
    ("cwd", "submit.cwd"),
    ("options", "submit.options"),
];

fn localized(text: &BilingualText, w: Translations) -> &str {
    match (w.0, text.zh.is_empty(), text.en.is_empty()) {
        (Language::Chinese, false, _) | (_, _, true) => &text.zh,
        _ => &text.en,
    }
}

/// A text, or `otherwise` if it is empty.
fn localized_or(text: &BilingualText, w: Translations, otherwise: &str) -> String {
    match localized(text, w) {
        "" => otherwise.to_owned(),
        text => text.to_owned(),
    }
}

/// The field of a parameter.
struct ParamField {
    name: String,
    label: String,
    help: String,
    /// What is allowed: limits, pattern.
    hint: String,
    value: String,
    required: bool,
    /// For a choice or a boolean: value and label.
    choices: Vec<(String, String)>,
    is_number: bool,
}

impl ParamField {
    fn of(param: &Param, given: Option<&str>, w: Translations) -> ParamField {
        let default = param.default.clone().unwrap_or_default();
        let mut choices: Vec<(String, String)> = (param.choices.iter())
            .map(|choice| {
                (
                    choice.value.clone(),
                    localized_or(&choice.label, w, &choice.value),
                )
            })
            .collect();
        let value = given.map_or(default, str::to_owned);
        if param.kind == ParamKind::Bool {
            choices = vec![
                ("no".to_owned(), w.t("no").to_owned()),
                ("yes".to_owned(), w.t("yes").to_owned()),
            ];
        } else if param.kind == ParamKind::Choice && !param.choices.iter().any(|c| c.value == value)
        {
            choices.insert(0, (String::new(), w.t("apps.none").to_owned()));
        }
        let value = match (param.kind, value.as_str()) {
            (ParamKind::Bool, "true" | "on" | "1" | "y") => "yes".to_owned(),
            _ => value,
        };
        ParamField {
            label: localized_or(&param.label, w, &param.name),
            help: localized(&param.help, w).to_owned(),
            hint: hint(param, w),
            required: param.required,
            is_number: param.kind == ParamKind::Int,
            name: param.name.clone(),
            value,
            choices,
        }
    }
}

fn hint(param: &Param, w: Translations) -> String {
    let mut parts = Vec::new();
    if param.required {
        parts.push(w.t("apps.required").to_owned());
    }
    parts.extend(param.min.as_ref().map(|min| w.f("apps.from", min)));
    parts.extend(param.max.as_ref().map(|max| w.f("apps.to", max)));
    parts.extend(param.pattern.clone());
    parts.join(", ")
}

#[derive(Page)]
#[template(path = "app.html")]
struct AppPage {
    f: Frame,
    /// The name as part of a path.
    link: String,
    label: String,
    about: String,
    help: String,
    fields: Vec<ParamField>,
    common: Vec<(&'static str, &'static str, String)>,
    /// The label of the field for a command or more words, if the template takes them.
    words: Option<&'static str>,
    command: String,
    key: String,
    failure: Option<WebError>,
    answer: Option<Vec<(String, String)>>,
}

/// Label and link of each application's form; empty if the applications cannot be read.
pub(super) fn links(app: &App, caller: &Caller, w: Translations) -> Vec<(String, String)> {
    let reader = app.actor.reader(&caller.identity);
    let all = reader
        .and_then(|reader| reader.templates())
        .unwrap_or_default();
    let link = |template: &Template| {
        let label = localized_or(&template.label, w, &template.name);
        (label, format!("/submit/app/{}", in_path(&template.name)))
    };
    all.iter().map(link).collect()
}

fn find(app: &App, caller: &Caller, name: &str) -> Result<Template, WebError> {
    let all = app.actor.reader(&caller.identity)?.templates()?;
    let found = all.into_iter().find(|template| template.name == name);
    found.ok_or_else(|| WebError::not_found("there is no form of this name"))
}

fn form_page(
    app: &App,
    display: DisplaySettings,
    caller: &Caller,
    template: &Template,
    (asked, checked): (&Fields, Option<CheckResult>),
) -> Result<Response, WebError> {
    let w = display.words;
    let (failure, answer) = match checked {
        None => (None, None),
        Some(Ok(answer)) => (None, Some(answer)),
        Some(Err(failure)) => (Some(failure), None),
    };
    let status = failure.as_ref().map(|failure| failure.status);
    let given = |param: &Param| {
        let name = format!("{PARAM}{}", param.name);
        let all = asked.0.iter().find(|(known, _)| *known == name);
        all.map(|(_, value)| value.as_str())
    };
    let fields = template.params.iter();
    let link = in_path(&template.name);
    let now = app.cluster.now();
    let mut response = page(&AppPage {
        label: localized_or(&template.label, w, &template.name),
        about: localized(&template.description, w).to_owned(),
        help: localized(&template.help, w).to_owned(),
        fields: fields
            .map(|param| ParamField::of(param, given(param), w))
            .collect(),
        common: (COMMON.iter())
            .map(|(name, key)| (*name, w.t(key), asked.get(name).to_owned()))
            .collect(),
        words: match (&template.run, template.args) {
            (TemplateCommand::Own, _) => Some(w.t("submit.command")),
            (_, true) => Some(w.t("apps.words")),
            _ => None,
        },
        command: asked.get("command").to_owned(),
        key: match asked.get("key") {
            "" => format!("portal-{}", sys::clock::nonce(12)),
            key => key.to_owned(),
        },
        failure,
        answer,
        f: Frame::new(
            display,
            caller,
            &now,
            "/submit",
            format!("/submit/app/{link}"),
        ),
        link,
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
    Path(name): Path<String>,
    Query(asked): RestQuery,
) -> Result<Response, WebError> {
    blocking(move || {
        let template = find(&app, &caller, &name)?;
        form_page(&app, display, &caller, &template, (&Fields(asked), None))
    })
    .await
}

/// The job that the form describes.
fn job_of(name: &str, form: &Fields) -> JobForm {
    let text = |name: &str| form.get(name).to_owned();
    let params = form.0.iter().filter_map(|(name, value)| {
        let name = name.strip_prefix(PARAM)?;
        Some((name.to_owned(), value.clone().into()))
    });
    let stated = ["queue", "cwd", "key"].into_iter().filter(|n| form.has(n));
    JobForm {
        app: name.to_owned(),
        params: params.collect(),
        command: text("command"),
        name: text("name"),
        array: text("array"),
        options: form
            .get("options")
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
        stated: stated.map(|n| (n.to_owned(), text(n).into())).collect(),
        ..JobForm::default()
    }
}

pub(super) async fn submit(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Extension(form): Extension<Fields>,
) -> Result<Response, WebError> {
    blocking(move || {
        let template = find(&app, &caller, &name)?;
        let accepted = (|| {
            let home = app.actor.reader(&caller.identity)?.user().home.clone();
            let job = job_of(&name, &form).request(&home.to_string_lossy())?;
            Ok(app.actor.submit(&caller.identity, &job)?)
        })();
        match accepted {
            Ok(accepted) => {
                app.cluster.refresh(true);
                Ok(Redirect::to(&format!("/jobs/{}", accepted.id)).into_response())
            }
            Err(failure) => form_page(
                &app,
                display,
                &caller,
                &template,
                (&form, Some(Err(failure))),
            ),
        }
    })
    .await
}

pub(super) async fn check(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Extension(form): Extension<Fields>,
) -> Result<Response, WebError> {
    blocking(move || {
        let template = find(&app, &caller, &name)?;
        let checked = (|| {
            let home = app.actor.reader(&caller.identity)?.user().home.clone();
            let job = job_of(&name, &form).request(&home.to_string_lossy())?;
            let text = app.actor.dry_run(&caller.identity, &job)?;
            Ok(answer(&text, display.words))
        })();
        form_page(&app, display, &caller, &template, (&form, Some(checked)))
    })
    .await
}

/// Submits an unchanged copy of a job and shows the new job.
pub(super) async fn clone_job(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Extension(form): Extension<Fields>,
) -> Result<Response, WebError> {
    blocking(move || {
        key_of(&id)?;
        let accepted = app
            .actor
            .clone_job(&caller.identity, &id, form.get("key"))?;
        app.cluster.refresh(true);
        Ok(Redirect::to(&format!("/jobs/{}", accepted.id)).into_response())
    })
    .await
}

/// The form that was used to submit a job, filled with its values; if there is none, the plain
/// form.
pub(super) async fn form_of_job(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, WebError> {
    blocking(move || {
        let reader = app.actor.reader(&caller.identity)?;
        let mut job = reader.job(key_of(&id)?)?;
        if job.row.j.idx > 0 && job.row.command.is_empty() {
            job = reader.job(JobKey::job(job.row.j.id))?;
        }
        let templates = reader.templates().unwrap_or_default();
        let script = match app.actor.texts(&caller.identity, &job)?.script {
            Some(Ok(script)) => script,
            _ => String::new(),
        };
        Ok(Redirect::to(&filled(&templates, &job, script)).into_response())
    })
    .await
}

/// Maximum size of a script that is put into a link, bytes; a longer one is omitted because the
/// head of a request is limited.
const SCRIPT_MAX: usize = 8 << 10;

fn filled(templates: &[Template], job: &ViewJob, script: String) -> String {
    let (row, spec) = (&job.row, &job.spec);
    let mut all = vec![
        ("name".to_owned(), row.name.to_string()),
        ("queue".to_owned(), spec.queue.clone()),
        ("cwd".to_owned(), spec.cwd.clone()),
    ];
    let words = split_words(&row.command).unwrap_or_default();
    let template = words.split_first().and_then(|(name, words)| {
        let found = templates.iter().find(|known| known.name == *name)?;
        (found.profile == spec.app && matches!(found.run, TemplateCommand::Script(_)))
            .then_some((found, words))
    });
    if let Some((template, words)) = template {
        let named = |word: &String| {
            let (name, value) = word.split_once('=')?;
            let known = template.names().any(|known| known == name);
            known.then(|| (format!("{PARAM}{name}"), value.to_owned()))
        };
        let params: Vec<(String, String)> = words.iter().map_while(named).collect();
        let rest = words[params.len()..].join(" ");
        all.extend(params);
        all.push(("command".to_owned(), rest));
        return link(&format!("/submit/app/{}", in_path(&template.name)), all);
    }
    let slots = match (spec.min, spec.max) {
        (min, max) if min == max => min.to_string(),
        (min, max) => format!("{min},{max}"),
    };
    all.push(("slots".to_owned(), slots));
    all.push(("project".to_owned(), spec.project.clone()));
    all.push(("requirement".to_owned(), spec.res_req.clone()));
    match script.is_empty() || script.len() > SCRIPT_MAX {
        true => all.push(("command".to_owned(), row.command.to_string())),
        false => all.push(("script".to_owned(), script)),
    }
    link("/submit", all)
}

fn link(path: &str, mut fields: Vec<(String, String)>) -> String {
    fields.retain(|(_, value)| !value.is_empty());
    format!("{path}?{}", Fields(fields).with("", ""))
}
