//! How a job is connected to the terminal of its waiting submitter.

use super::Token;
use serde::{Deserialize, Serialize};

/// The standard input and output of the job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Terminal {
    /// `-I`: three streams, no terminal.
    #[default]
    Streams,
    /// `-Ip`: a terminal of its own; the waiting command handles the keys that send signals.
    Pty,
    /// `-Is`: a terminal of its own that gets every key.
    Shell,
}

impl Terminal {
    /// Whether the job has a terminal of its own.
    pub fn is_pty(self) -> bool {
        self != Terminal::Streams
    }
}

/// The connection of an interactive job. The token is a name, not a secret: it identifies the file
/// with the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    pub terminal: Terminal,
    pub token: Token,
}
