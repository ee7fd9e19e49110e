//! Files of the pages: style sheet, script, icon, all compiled in. Their names are fixed, so the
//! path of a request is never the path of a file.

use crate::error::WebError;
use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use rust_embed::RustEmbed;

/// How long browsers cache the files, seconds.
const KEEP: &str = "max-age=600";

#[derive(RustEmbed)]
#[folder = "assets"]
struct Assets;

pub(super) async fn give(Path(name): Path<String>) -> Result<Response, WebError> {
    answer(&name, &name)
}

/// Third-party files; the licence of each is stored beside it.
pub(super) async fn give_vendored(Path(name): Path<String>) -> Result<Response, WebError> {
    answer(&name, &format!("vendor/{name}"))
}

fn answer(name: &str, path: &str) -> Result<Response, WebError> {
    let kind = match name.rsplit_once('.').map(|(_, kind)| kind) {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => return Err(WebError::not_found("")),
    };
    let file = Assets::get(path).ok_or_else(|| WebError::not_found(""))?;
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, KEEP)];
    Ok((headers, file.data.into_owned()).into_response())
}
