//! How much of a sensor's standard error is written to the log: a limited number of lines per
//! minute, each truncated, and the number of the omitted lines.

/// Maximum number of lines passed on in each [`EVERY_MS`].
pub const LINES: u32 = 10;
pub const EVERY_MS: u64 = 60_000;
/// Maximum length of a line that is passed on, in bytes.
pub const LINE_MAX: usize = 300;

/// Input that was not passed on yet.
#[derive(Clone, Debug, Default)]
pub struct LogThrottle {
    line: Vec<u8>,
    /// When the current minute began; number of lines passed on in it; number of omitted lines.
    since: u64,
    passed: u32,
    left_out: u64,
}

impl LogThrottle {
    /// Takes input at `now`. Returns the lines for the log.
    pub fn push(&mut self, bytes: &[u8], now: u64) -> Vec<String> {
        let mut out = self.tick(now);
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            let (text, ends) = match part.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (part, false),
            };
            let room = LINE_MAX - self.line.len();
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if ends {
                out.extend(self.line_ends());
            }
        }
        out
    }

    /// Begins the next minute if it is due. Returns the message about lines omitted in the last
    /// one.
    pub fn tick(&mut self, now: u64) -> Vec<String> {
        if now.saturating_sub(self.since) < EVERY_MS && self.since != 0 {
            return Vec::new();
        }
        (self.since, self.passed) = (now.max(1), 0);
        match std::mem::take(&mut self.left_out) {
            0 => Vec::new(),
            n => vec![format!("... and {n} more lines")],
        }
    }

    fn line_ends(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        if line.trim_ascii().is_empty() {
            return None;
        }
        if self.passed == LINES {
            self.left_out += 1;
            return None;
        }
        self.passed += 1;
        let text = String::from_utf8_lossy(&line);
        let tame = |c: char| if c.is_control() { '?' } else { c };
        Some(text.trim_end().chars().map(tame).collect())
    }
}
