//! Cuts the output of a sensor into documents: at each line `---`, at a pause, and at its end. Owns
//! the limits of lines and documents, so that no sensor can use more memory than these allow; never
//! looks into a document.

/// Maximum length of a line, in bytes.
pub const LINE_MAX: usize = 8 << 10;
/// Maximum length of a document, in bytes.
pub const DOCUMENT_MAX: usize = 64 << 10;
/// After this time without output (ms) the text so far is treated as a whole document.
pub const PAUSE_MS: u64 = 2_000;

/// A piece of a stream. Lines count from 1 at the start of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamPart {
    /// A document and the number of its first line.
    Document { bytes: Vec<u8>, line: u64 },
    /// A document that exceeded a limit in this line; the rest of it is ignored.
    Dropped { line: u64, why: ExceededLimit },
}

/// The limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceededLimit {
    /// A line is longer than [`LINE_MAX`].
    Line,
    /// A document is longer than [`DOCUMENT_MAX`].
    Document,
}

impl ExceededLimit {
    /// The limit in words.
    pub fn text(self) -> String {
        match self {
            ExceededLimit::Line => format!("a line is longer than {LINE_MAX} bytes"),
            ExceededLimit::Document => {
                format!("a document is longer than {DOCUMENT_MAX} bytes: end each with a line ---")
            }
        }
    }
}

/// The part of a stream that has not ended yet.
#[derive(Clone, Debug, Default)]
pub struct Splitter {
    /// Whole lines of the current document.
    document: Vec<u8>,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// Part of the current line has arrived, even if it was dropped.
    line_begun: bool,
    /// Number of lines that ended so far, and of those before the current document.
    lines: u64,
    lines_before: u64,
    /// The current document exceeded a limit.
    discarding: bool,
    /// When input last arrived.
    at_ms: u64,
}

impl Splitter {
    pub fn new() -> Splitter {
        Splitter::default()
    }

    /// Takes input that arrived at `now_ms`.
    pub fn push(&mut self, bytes: &[u8], now_ms: u64, out: &mut Vec<StreamPart>) {
        if bytes.is_empty() {
            return;
        }
        self.at_ms = now_ms;
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|b| *b == b'\n') {
            self.extend_line(&rest[..end], out);
            self.line_ends(out);
            rest = &rest[end + 1..];
        }
        self.extend_line(rest, out);
    }

    /// Treats the text so far as a document if nothing arrived for [`PAUSE_MS`].
    pub fn pause(&mut self, now_ms: u64, out: &mut Vec<StreamPart>) {
        if now_ms.saturating_sub(self.at_ms) > PAUSE_MS {
            self.end(out);
        }
    }

    /// Treats the text so far as a document: no more input is expected soon.
    pub fn end(&mut self, out: &mut Vec<StreamPart>) {
        if self.line_begun {
            self.line_ends(out);
        }
        self.document_ends(out);
    }

    fn extend_line(&mut self, bytes: &[u8], out: &mut Vec<StreamPart>) {
        self.line_begun |= !bytes.is_empty();
        let room = LINE_MAX - self.line.len();
        // Only the beginning of a line that is too long is kept: a line `---` does not begin like
        // that.
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room {
            self.drop_document(ExceededLimit::Line, out);
        }
    }

    fn line_ends(&mut self, out: &mut Vec<StreamPart>) {
        self.lines += 1;
        self.line_begun = false;
        if is_separator(&self.line) {
            self.line.clear();
            return self.document_ends(out);
        }
        if !self.discarding {
            if self.document.len() + self.line.len() >= DOCUMENT_MAX {
                self.lines -= 1;
                self.drop_document(ExceededLimit::Document, out);
                self.lines += 1;
            } else {
                self.document.extend_from_slice(&self.line);
                self.document.push(b'\n');
            }
        }
        self.line.clear();
    }

    fn drop_document(&mut self, why: ExceededLimit, out: &mut Vec<StreamPart>) {
        if !std::mem::replace(&mut self.discarding, true) {
            self.document = Vec::new();
            let line = self.lines + 1;
            out.push(StreamPart::Dropped { line, why });
        }
    }

    fn document_ends(&mut self, out: &mut Vec<StreamPart>) {
        let line = std::mem::replace(&mut self.lines_before, self.lines) + 1;
        let bytes = std::mem::take(&mut self.document);
        let dropped = std::mem::take(&mut self.discarding);
        let says = |l: &[u8]| !l.trim_ascii().is_empty() && !l.trim_ascii().starts_with(b"#");
        if !dropped && bytes.split(|b| *b == b'\n').any(says) {
            out.push(StreamPart::Document { bytes, line });
        }
    }
}

/// `---` or `...`, alone or before a comment.
fn is_separator(line: &[u8]) -> bool {
    let rest = line.strip_prefix(b"---").or(line.strip_prefix(b"..."));
    let Some(rest) = rest else { return false };
    let blank = rest.is_empty() || rest[0].is_ascii_whitespace();
    let rest = rest.trim_ascii();
    blank && (rest.is_empty() || rest.starts_with(b"#"))
}

/// All documents in a complete text.
pub fn all(bytes: &[u8]) -> Vec<StreamPart> {
    let (mut splitter, mut out) = (Splitter::new(), Vec::new());
    splitter.push(bytes, 0, &mut out);
    splitter.end(&mut out);
    out
}
