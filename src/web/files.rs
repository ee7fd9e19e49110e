//! Files of the requesting user: locations within URLs, pieces of limited size, downloads.
//!
//! Owns how a location is written in a URL and how a name is shown. Paths are bytes: in a URL they
//! are percent-encoded; on a page and in JSON a name is text with non-UTF-8 bytes written as
//! `\xff`. Nothing here opens a file; that is [`crate::identity::UserAccess::files`].

use crate::error::WebError;
use crate::guard::Caller;
use crate::identity::Identity;
use crate::{App, blocking};
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use corral::api::files::{FileAnswer, FileLocation, FileMark, FileRequest};
use corral::api::portal::Scope;
use futures_core::Stream;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Bytes of a file that a download reads at once, and the number of pieces that wait for a slow
/// reader: together the memory that a download needs.
const PIECE: usize = 1 << 20;
const WAITING: usize = 2;
/// Maximum time in which a reader takes a piece.
const READER_TIME: Duration = Duration::from_secs(120);
/// Maximum size of a query, bytes.
const QUERY_MAX: usize = 32 << 10;

/// Bytes that are not percent-encoded in a URL.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

/// The query of a request, whose values are bytes.
pub struct ByteQuery(Vec<(Vec<u8>, Vec<u8>)>);

impl ByteQuery {
    /// # Errors
    /// The query is too long.
    pub fn parse(query: Option<&str>) -> Result<ByteQuery, WebError> {
        let query = query.unwrap_or_default();
        if query.len() > QUERY_MAX {
            return Err(WebError::wrong(format!(
                "a query has at most {QUERY_MAX} bytes"
            )));
        }
        let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).collect();
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        };
        Ok(ByteQuery(pairs.map(pair).collect()))
    }

    /// The first value of a name; empty if there is none.
    pub fn get(&self, name: &str) -> &[u8] {
        let found = self.0.iter().find(|(known, _)| known == name.as_bytes());
        found.map_or(&[], |(_, value)| value)
    }

    pub fn is_yes(&self, name: &str) -> bool {
        matches!(self.get(name), b"yes" | b"true" | b"1" | b"on")
    }

    /// # Errors
    /// The value is not a number.
    pub fn number(&self, name: &str, otherwise: u64) -> Result<u64, WebError> {
        match self.get(name) {
            b"" => Ok(otherwise),
            text => {
                let number = std::str::from_utf8(text).ok().and_then(|n| n.parse().ok());
                number.ok_or_else(|| WebError::wrong(format!("{name}: not a number")))
            }
        }
    }
}

/// The location that a query names: `root` (default: the home directory) and `path` below it.
///
/// # Errors
/// The user is not served, or the caller may not access files.
pub fn location(app: &App, caller: &Caller, query: &ByteQuery) -> Result<FileLocation, WebError> {
    allow(caller)?;
    let root = match query.get("root") {
        b"" => {
            let reader = app.actor.reader(&caller.identity)?;
            reader.user().home.as_os_str().as_encoded_bytes().to_vec()
        }
        root => root.to_vec(),
    };
    Ok(FileLocation {
        root,
        path: query.get("path").to_vec(),
    })
}

/// A token that only reads the cluster opens no files: some of them are keys that give more rights.
///
/// # Errors
/// The token is for reading only.
pub fn allow(caller: &Caller) -> Result<(), WebError> {
    match caller.scope >= Scope::Submit {
        true => Ok(()),
        false => Err(WebError {
            hint: "ctoken create --scope submit".to_owned(),
            ..WebError::new(StatusCode::FORBIDDEN, "this token cannot open files")
        }),
    }
}

/// Percent-encodes bytes for a URL.
pub fn encoded(bytes: &[u8]) -> String {
    percent_encode(bytes, PLAIN).to_string()
}

/// The query of a location.
pub fn query(root: &[u8], path: &[u8]) -> String {
    format!("root={}&path={}", encoded(root), encoded(path))
}

/// A name below a path.
pub fn below(path: &[u8], name: &[u8]) -> Vec<u8> {
    match path {
        b"" => name.to_vec(),
        path => [path, b"/", name].concat(),
    }
}

/// The path without its last name, and that name.
pub fn split_last(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// A name in readable form.
pub fn shown(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        out.push_str(&corral::text::width::escape(chunk.valid()));
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// Bytes of a file, and the file's mark.
///
/// # Errors
/// The system refuses access.
pub fn read(
    app: &App,
    identity: &Identity,
    at: &FileLocation,
    offset: u64,
    most: usize,
) -> Result<(Vec<u8>, FileMark), WebError> {
    let ask = FileRequest::Read {
        at: at.clone(),
        offset,
        most,
    };
    match app.actor.files(identity, &ask)? {
        FileAnswer::Bytes { bytes, mark } => Ok((bytes, mark)),
        _ => Err(WebError::internal()),
    }
}

/// The media type of a picture that browsers display, by its first bytes. SVG is excluded because
/// it can contain scripts.
pub fn picture(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    }
}

/// The part of a file that a header `Range` requests: its start, and the offset after its end.
/// `None`: the whole file.
///
/// # Errors
/// The part begins after the end of the file.
fn range(text: &str, size: u64) -> Result<Option<(u64, u64)>, ()> {
    let one = text.strip_prefix("bytes=").filter(|one| !one.contains(','));
    let Some((from, to)) = one.and_then(|one| one.trim().split_once('-')) else {
        return Ok(None);
    };
    match (from.parse::<u64>(), to.parse::<u64>()) {
        (Ok(from), _) if from >= size => Err(()),
        (Ok(from), Ok(to)) if to >= from => Ok(Some((from, to.saturating_add(1).min(size)))),
        (Ok(from), Err(_)) if to.is_empty() => Ok(Some((from, size))),
        (Err(_), Ok(last)) if from.is_empty() && last > 0 && size > 0 => {
            Ok(Some((size.saturating_sub(last), size)))
        }
        (Err(_), Ok(_)) if from.is_empty() => Err(()),
        _ => Ok(None),
    }
}

/// The header that makes a browser save the file instead of displaying it.
fn disposition(name: &[u8]) -> String {
    let plain = |b: &u8| match b {
        b if b.is_ascii_alphanumeric() || b"._- ".contains(b) => char::from(*b),
        _ => '_',
    };
    let ascii: String = name.iter().map(plain).collect();
    let whole =
        percent_encode(String::from_utf8_lossy(name).as_bytes(), NON_ALPHANUMERIC).to_string();
    format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{whole}")
}

/// Pieces of a file on their way to one reader.
struct FileStream {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    _permit: OwnedSemaphorePermit,
}

impl Stream for FileStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.chunks.poll_recv(cx)
    }
}

/// How the bytes of a file are delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// To be saved: never with a type that a browser displays.
    Download,
    /// A picture, for a page of the portal.
    Picture,
}

/// The file, or the part of it that the headers request, piece by piece.
///
/// # Errors
/// The system refuses access, or too many streams are open.
pub async fn send_file(
    app: App,
    caller: Caller,
    at: FileLocation,
    headers: &HeaderMap,
    delivery: Delivery,
) -> Result<Response, WebError> {
    let (app_copy, of, who) = (app.clone(), at.clone(), caller.identity.clone());
    let first = blocking(move || read(&app_copy, &who, &of, 0, 16)).await?;
    let (head, mark) = first;
    let kind = match delivery {
        Delivery::Download => "application/octet-stream",
        Delivery::Picture => {
            picture(&head).ok_or_else(|| WebError::wrong("it is not a picture"))?
        }
    };
    let tag = format!("\"{:x}-{:x}-{:x}\"", mark.ino, mark.size, mark.mtime_ns);
    let text = |name| headers.get(name).and_then(|v| v.to_str().ok());
    let same = text(header::IF_RANGE).is_none_or(|known| known == tag);
    let range_header = text(header::RANGE).filter(|_| same).unwrap_or_default();
    let Ok(part) = range(range_header, mark.size) else {
        let size = [(header::CONTENT_RANGE, format!("bytes */{}", mark.size))];
        return Ok((StatusCode::RANGE_NOT_SATISFIABLE, size).into_response());
    };
    let permit = app.streams.clone().try_acquire_owned().map_err(|_| {
        let why = format!(
            "{} streams are open, which is the maximum",
            crate::STREAMS_MAX
        );
        WebError::new(StatusCode::TOO_MANY_REQUESTS, why)
    })?;
    let (from, end) = part.unwrap_or((0, mark.size));
    let (to, pieces) = mpsc::channel(WAITING);
    let name = split_last(&at.path).1.to_vec();
    tokio::spawn(send(app, caller.identity, (at, mark), (from, end), to));
    let body = Body::from_stream(FileStream {
        chunks: pieces,
        _permit: permit,
    });
    let mut response = body.into_response();
    let mut set = |name, value: String| {
        if let Ok(value) = value.parse() {
            response.headers_mut().insert(name, value);
        }
    };
    set(header::CONTENT_TYPE, kind.to_owned());
    set(header::CONTENT_LENGTH, (end - from).to_string());
    set(header::ACCEPT_RANGES, "bytes".to_owned());
    set(header::ETAG, tag);
    if delivery == Delivery::Download {
        set(header::CONTENT_DISPOSITION, disposition(&name));
    }
    if part.is_some() {
        let whole = mark.size;
        set(
            header::CONTENT_RANGE,
            format!("bytes {from}-{}/{whole}", end.max(1) - 1),
        );
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

/// Reads piece after piece. If the file is replaced or shortened meanwhile, the response is cut
/// off: a mixture of two versions must not look complete.
async fn send(
    app: App,
    identity: Identity,
    (at, mark): (FileLocation, FileMark),
    (mut from, end): (u64, u64),
    to: mpsc::Sender<io::Result<Bytes>>,
) {
    while from < end {
        let most = usize::try_from(end - from).unwrap_or(PIECE).min(PIECE);
        let (app, who, of) = (app.clone(), identity.clone(), at.clone());
        let piece = blocking(move || read(&app, &who, &of, from, most)).await;
        let piece = match piece {
            Ok((bytes, now)) if now == mark && !bytes.is_empty() => Ok(Bytes::from(bytes)),
            Ok(_) => Err(io::Error::other("the file changed while it was read")),
            Err(e) => Err(io::Error::other(e.why)),
        };
        from += piece.as_ref().map_or(end, |bytes| bytes.len() as u64);
        if to.send_timeout(piece, READER_TIME).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bytes_in_a_url_and_text_for_people() {
        let name = b"a b\xff<\x1b&+";
        let link = query(b"/h/\xe4", name);
        assert_eq!(link, "root=/h/%E4&path=a%20b%FF%3C%1B%26%2B");
        let byte_query = ByteQuery::parse(Some(&link)).unwrap();
        assert_eq!(
            (byte_query.get("root"), byte_query.get("path")),
            (&b"/h/\xe4"[..], &name[..])
        );
        assert_eq!(shown(name), "a b\\xff<\\x1b&+");
        assert_eq!(shown("作业\u{202e}".as_bytes()), "作业\\u{202e}");
        assert!(ByteQuery::parse(Some(&"a".repeat(QUERY_MAX + 1))).is_err());
        assert!(
            ByteQuery::parse(Some("n=x"))
                .unwrap()
                .number("n", 1)
                .is_err()
        );
        assert_eq!(split_last(b"a/b/c"), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(
            (below(b"", b"x"), below(b"a", b"x")),
            (b"x".to_vec(), b"a/x".to_vec())
        );
    }

    #[test]
    fn ranges_are_parts_of_the_file() {
        for (text, want) in [
            ("", Ok(None)),
            ("bytes=0-3", Ok(Some((0, 4)))),
            ("bytes=4-", Ok(Some((4, 10)))),
            ("bytes=-3", Ok(Some((7, 10)))),
            ("bytes=-99", Ok(Some((0, 10)))),
            ("bytes=5-999", Ok(Some((5, 10)))),
            ("bytes=10-", Err(())),
            ("bytes=-0", Err(())),
            ("bytes=5-3", Ok(None)),
            ("bytes=0-1,4-5", Ok(None)),
            ("lines=1-2", Ok(None)),
        ] {
            assert_eq!(range(text, 10), want, "{text}");
        }
        assert_eq!(range("bytes=-1", 0), Err(()));
    }

    #[test]
    fn a_download_is_kept_under_a_harmless_name() {
        let header = disposition(b"a\"b\r\n<x>.html");
        assert_eq!(
            header,
            "attachment; filename=\"a_b___x_.html\"; filename*=UTF-8''a%22b%0D%0A%3Cx%3E%2Ehtml"
        );
        assert_eq!(picture(b"<svg xmlns"), None);
        assert_eq!(picture(b"\x89PNG\r\n"), Some("image/png"));
    }
}
