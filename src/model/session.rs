//! How a job is connected to the terminal of its waiting submitter.

use super::Token;
use serde::{Deserialize, Serialize};

/// What the job has as standard input and output.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Terminal {
    /// `-I`: three streams, no terminal.
    #[default]
    Streams,
    /// `-Ip`: a terminal of its own; the keys that send signals are the waiting command's.
    Pty,
    /// `-Is`: a terminal of its own that gets every key.
    Shell,
}

impl Terminal {
    /// The job has a terminal of its own.
    pub fn is_pty(self) -> bool {
        self != Terminal::Streams
    }
}

/// The connection of an interactive job. The token is a name, not a secret: it names the file with
/// the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    pub terminal: Terminal,
    pub token: Token,
}
