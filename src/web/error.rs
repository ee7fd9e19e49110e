//! The form of a refusal: what failed, why, what to do. A page or a problem document (RFC 9457),
//! depending on the requested path.
//!
//! Handlers return a [`WebError`]; the guard, which knows path and language, formats it.

use crate::translations::Translations;
use askama::Template;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use corral::api::{Failure, FailureKind};

/// A refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebError {
    pub status: StatusCode,
    /// Why, in one sentence; empty: the title is enough.
    pub why: String,
    /// What to do, one suggestion per line; may be empty.
    pub hint: String,
    /// After how many seconds the same request may succeed; 0: that is not known.
    pub retry_s: u32,
}

impl WebError {
    pub fn new(status: StatusCode, why: impl Into<String>) -> WebError {
        WebError {
            status,
            why: why.into(),
            hint: String::new(),
            retry_s: 0,
        }
    }

    pub fn wrong(why: impl Into<String>) -> WebError {
        WebError::new(StatusCode::BAD_REQUEST, why)
    }

    pub fn not_found(why: impl Into<String>) -> WebError {
        WebError::new(StatusCode::NOT_FOUND, why)
    }

    /// A defect of the portal.
    pub fn internal() -> WebError {
        WebError::new(StatusCode::INTERNAL_SERVER_ERROR, "")
    }

    /// The key of the title in the catalogue of words.
    pub fn title(&self) -> &'static str {
        match self.status.as_u16() {
            400 | 422 => "error.wrong",
            401 => "error.login",
            403 => "error.forbidden",
            404 => "error.missing",
            405 => "error.method",
            408 => "error.slow",
            409 => "error.refused",
            413 => "error.large",
            415 => "error.type",
            429 => "error.often",
            502 => "error.program",
            503 => "error.cluster",
            _ => "error.internal",
        }
    }

    /// Renders the refusal as a problem document or as a page.
    pub fn render(&self, words: Translations, as_json: bool, theme: &str) -> Response {
        let mut response = match as_json {
            true => self.problem(words),
            false => self.page(words, theme),
        };
        *response.status_mut() = self.status;
        if self.retry_s > 0 {
            let after = self.retry_s.into();
            response.headers_mut().insert(header::RETRY_AFTER, after);
        }
        response
    }

    fn problem(&self, words: Translations) -> Response {
        let mut problem = serde_json::json!({
            "type": "about:blank",
            "title": words.t(self.title()),
            "status": self.status.as_u16(),
        });
        for (name, text) in [("detail", &self.why), ("hint", &self.hint)] {
            if !text.is_empty() {
                problem[name] = text.as_str().into();
            }
        }
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        (kind, problem.to_string()).into_response()
    }

    fn page(&self, words: Translations, theme: &str) -> Response {
        let page = ErrorPage {
            w: words,
            theme,
            title: words.t(self.title()),
            error: self,
        };
        match page.render() {
            Ok(text) => Html(text).into_response(),
            Err(_) => self.why.clone().into_response(),
        }
    }
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    w: Translations,
    theme: &'a str,
    title: &'static str,
    error: &'a WebError,
}

impl From<Failure> for WebError {
    fn from(failure: Failure) -> WebError {
        let status = match failure.kind {
            FailureKind::Wrong | FailureKind::Twice => StatusCode::BAD_REQUEST,
            FailureKind::NotFound => StatusCode::NOT_FOUND,
            FailureKind::Permission => StatusCode::FORBIDDEN,
            FailureKind::Refused => StatusCode::CONFLICT,
            FailureKind::TryLater { .. } => StatusCode::TOO_MANY_REQUESTS,
            FailureKind::System => StatusCode::SERVICE_UNAVAILABLE,
        };
        let (why, hint) = match failure.text.split_once("\nhint: ") {
            Some((why, hint)) => (why.to_owned(), hint.to_owned()),
            None => (failure.text, String::new()),
        };
        let retry_s = match failure.kind {
            FailureKind::TryLater { after_s } => after_s,
            _ => 0,
        };
        WebError {
            status,
            why,
            hint,
            retry_s,
        }
    }
}

impl From<askama::Error> for WebError {
    fn from(_: askama::Error) -> WebError {
        WebError::internal()
    }
}

impl IntoResponse for WebError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_keeps_its_kind_and_its_hint() {
        let failure = Failure {
            kind: FailureKind::NotFound,
            text: "Job <7> is not found\nhint: look".into(),
        };
        let error = WebError::from(failure);
        assert_eq!(error.status, StatusCode::NOT_FOUND);
        assert_eq!(
            (error.why.as_str(), error.hint.as_str()),
            ("Job <7> is not found", "look")
        );
    }
}
