//! The user's files: the list of a directory, the text or picture of a file, creating directories,
//! renaming, removing. The page's script uploads files through the REST interface.
//!
//! Owns which part of a file is shown. Names and texts appear in a page only as text.

use super::frame::{Frame, page};
use super::text::moment;
use crate::error::WebError;
use crate::fields::Fields;
use crate::files::{self, ByteQuery, Delivery, below, query, shown, split_last};
use crate::guard::{Caller, DisplaySettings};
use crate::{App, blocking};
use askama::Template;
use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use corral::api::files::{FileAnswer, FileEntry, FileKind, FileLocation, FileRequest};
use corral::sys;
use corral::text::size;

/// Maximum number of names on a page.
const COUNT: usize = 500;
/// Maximum size of the beginning of a file that is shown as text, bytes.
const SHOWN: usize = 256 << 10;

/// An entry of a directory as it is shown.
struct NameRow {
    name: String,
    /// The page of the entry: the list of a directory, the content of anything else.
    link: String,
    /// The page for changing the entry.
    change: String,
    kind: FileKind,
    size: String,
    time: String,
    mode: String,
    /// For a symbolic link: its target as it is written, and the page of an absolute target.
    target: String,
    target_link: String,
}

impl NameRow {
    fn of(at: &FileLocation, entry: &FileEntry, now: i64) -> NameRow {
        let path = below(&at.path, &entry.name);
        let link = query(&at.root, &path);
        let target = entry.target.as_deref().unwrap_or_default();
        NameRow {
            name: shown(&entry.name),
            link: match entry.kind {
                FileKind::Dir | FileKind::Link => format!("/files?{link}"),
                FileKind::File | FileKind::Other => format!("/files/view?{link}"),
            },
            change: format!("/files/view?{link}"),
            kind: entry.kind,
            size: match entry.kind {
                FileKind::File => size::human(entry.size),
                _ => String::new(),
            },
            time: moment(entry.mtime_ms, now),
            mode: format!("{:04o}", entry.mode),
            target: shown(target),
            target_link: match target.first() {
                Some(b'/') => format!("/files?{}", query(target, b"")),
                _ => String::new(),
            },
        }
    }

    fn is_link(&self) -> bool {
        self.kind == FileKind::Link
    }

    /// Whether the browser can download it.
    fn is_file(&self) -> bool {
        self.kind == FileKind::File
    }
}

/// The directories above a location, starting with the selected root: name and link.
fn trail(at: &FileLocation) -> Vec<(String, String)> {
    let mut out = vec![(shown(&at.root), format!("/files?{}", query(&at.root, b"")))];
    let mut path = Vec::new();
    for name in at
        .path
        .split(|b| *b == b'/')
        .filter(|name| !name.is_empty())
    {
        path = below(&path, name);
        out.push((shown(name), format!("/files?{}", query(&at.root, &path))));
    }
    out
}

#[derive(Template)]
#[template(path = "files.html")]
struct FilesPage {
    f: Frame,
    trail: Vec<(String, String)>,
    root: String,
    /// The location as a query of a URL.
    here: String,
    rows: Vec<NameRow>,
    first: usize,
    last: usize,
    total: usize,
    is_cut: bool,
    before: Option<String>,
    after: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
    RawQuery(byte_query): RawQuery,
) -> Result<Response, WebError> {
    blocking(move || {
        let byte_query = ByteQuery::parse(byte_query.as_deref())?;
        let at = files::location(&app, &caller, &byte_query)?;
        let from = usize::try_from(byte_query.number("from", 0)?).unwrap_or(usize::MAX);
        let ask = FileRequest::List {
            at: at.clone(),
            from,
            count: COUNT,
        };
        let url = query(&at.root, &at.path);
        let result = app
            .actor
            .files(&caller.identity, &ask)
            .map_err(WebError::from);
        let result = match result {
            // The location may be a link to a file.
            Err(e) if e.status == StatusCode::BAD_REQUEST && !at.path.is_empty() => {
                return Ok(Redirect::to(&format!("/files/view?{url}")).into_response());
            }
            other => other?,
        };
        let FileAnswer::Listed {
            entries,
            total,
            is_cut,
        } = result
        else {
            return Err(WebError::internal());
        };
        let (now, moment) = (app.cluster.now(), sys::clock::wall_ms());
        let to = |from: usize| format!("/files?{url}&from={from}");
        let last = from.saturating_add(entries.len());
        page(&FilesPage {
            f: Frame::new(display, &caller, &now, "/files", format!("/files?{url}")),
            trail: trail(&at),
            root: String::from_utf8_lossy(&at.root).into_owned(),
            rows: entries
                .iter()
                .map(|entry| NameRow::of(&at, entry, moment))
                .collect(),
            first: from.saturating_add(usize::from(!entries.is_empty())),
            last,
            total,
            is_cut,
            before: (from > 0).then(|| to(from.saturating_sub(COUNT))),
            after: (last < total).then(|| to(last)),
            here: url,
        })
    })
    .await
}

#[derive(Template)]
#[template(path = "file.html")]
struct FilePage {
    f: Frame,
    trail: Vec<(String, String)>,
    name: String,
    here: String,
    /// Why the content is not shown.
    failure: Option<String>,
    is_picture: bool,
    is_text: bool,
    text: String,
    size: String,
    /// Only the beginning is shown.
    is_cut: bool,
    /// The default for a new name.
    rename: String,
}

pub(super) async fn view(
    State(app): State<App>,
    Extension(display): Extension<DisplaySettings>,
    Extension(caller): Extension<Caller>,
    RawQuery(byte_query): RawQuery,
) -> Result<Response, WebError> {
    blocking(move || {
        let byte_query = ByteQuery::parse(byte_query.as_deref())?;
        let at = files::location(&app, &caller, &byte_query)?;
        let read = files::read(&app, &caller.identity, &at, 0, SHOWN);
        let now = app.cluster.now();
        let url = query(&at.root, &at.path);
        let name = split_last(&at.path).1;
        let mut trail = trail(&at);
        trail.pop();
        let mut out = FilePage {
            f: Frame::new(
                display,
                &caller,
                &now,
                "/files",
                format!("/files/view?{url}"),
            ),
            trail,
            name: shown(name),
            here: url,
            failure: None,
            is_picture: false,
            is_text: false,
            text: String::new(),
            size: String::new(),
            is_cut: false,
            rename: String::from_utf8_lossy(name).into_owned(),
        };
        match read {
            Ok((bytes, mark)) => {
                out.size = size::human(mark.size);
                out.is_picture = files::picture(&bytes).is_some();
                out.is_text = !out.is_picture && !bytes.contains(&0);
                if out.is_text {
                    out.text = text(&bytes);
                    out.is_cut = mark.size > bytes.len() as u64;
                }
            }
            Err(e) if e.status == StatusCode::NOT_FOUND => return Err(e),
            // A directory, a pipe, a file of another user: it can still be renamed.
            Err(e) => out.failure = Some(e.why),
        }
        page(&out)
    })
    .await
}

/// Makes hidden characters visible: text that is copied from a page may be pasted into a terminal.
fn text(bytes: &[u8]) -> String {
    let all = String::from_utf8_lossy(bytes);
    let line = |line: &str| {
        let parts = line.split('\t').map(corral::text::width::escape);
        parts.collect::<Vec<_>>().join("\t")
    };
    all.lines().map(line).collect::<Vec<_>>().join("\n")
}

async fn give(
    app: App,
    caller: Caller,
    query: Option<String>,
    headers: HeaderMap,
    delivery: Delivery,
) -> Result<Response, WebError> {
    let query = ByteQuery::parse(query.as_deref())?;
    let (app_copy, of) = (app.clone(), caller.clone());
    let at = blocking(move || files::location(&app_copy, &of, &query)).await?;
    files::send_file(app, caller, at, &headers, delivery).await
}

pub(super) async fn download(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, WebError> {
    give(app, caller, query, headers, Delivery::Download).await
}

pub(super) async fn picture(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, WebError> {
    give(app, caller, query, headers, Delivery::Picture).await
}

/// The name that was typed: a single name, not a path.
fn typed(form: &Fields) -> Result<Vec<u8>, WebError> {
    let name = form.get("name");
    let wrong = name.is_empty() || name.contains('/') || matches!(name, "." | "..");
    match wrong {
        true => Err(WebError::wrong("give one name, without /")),
        false => Ok(name.as_bytes().to_vec()),
    }
}

/// Changes a file and shows the directory that contains it.
async fn change(
    app: App,
    caller: Caller,
    byte_query: Option<String>,
    ask: impl FnOnce(&FileLocation) -> Result<(FileRequest, Vec<u8>), WebError> + Send + 'static,
) -> Result<Response, WebError> {
    blocking(move || {
        let byte_query = ByteQuery::parse(byte_query.as_deref())?;
        let at = files::location(&app, &caller, &byte_query)?;
        let (ask, dir) = ask(&at)?;
        app.actor.files(&caller.identity, &ask)?;
        let back = format!("/files?{}", query(&at.root, &dir));
        Ok(Redirect::to(&back).into_response())
    })
    .await
}

pub(super) async fn make_dir(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(form): Extension<Fields>,
    RawQuery(query): RawQuery,
) -> Result<Response, WebError> {
    change(app, caller, query, move |dir| {
        let at = FileLocation {
            root: dir.root.clone(),
            path: below(&dir.path, &typed(&form)?),
        };
        Ok((FileRequest::MakeDir { at }, dir.path.clone()))
    })
    .await
}

pub(super) async fn rename(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(form): Extension<Fields>,
    RawQuery(query): RawQuery,
) -> Result<Response, WebError> {
    change(app, caller, query, move |at| {
        let dir = split_last(&at.path).0.to_vec();
        let to = below(&dir, &typed(&form)?);
        Ok((FileRequest::Rename { at: at.clone(), to }, dir))
    })
    .await
}

pub(super) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Response, WebError> {
    change(app, caller, query, |at| {
        let dir = split_last(&at.path).0.to_vec();
        Ok((FileRequest::Remove { at: at.clone() }, dir))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_file_hides_nothing() {
        assert_eq!(text(b"a\tb\r\n\x1b[31mc\n"), "a\tb\n\\x1b[31mc");
        assert_eq!(text("x\u{202e}y".as_bytes()), "x\\u{202e}y");
    }

    #[test]
    fn the_trail_leads_from_the_chosen_directory_down() {
        let at = FileLocation {
            root: b"/h".to_vec(),
            path: b"a/<b>".to_vec(),
        };
        let all = trail(&at);
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["/h", "a", "<b>"]);
        assert_eq!(all[2].1, "/files?root=/h&path=a/%3Cb%3E");
    }
}
