//! Files that are copied before and after a job's command (`csub -f`), as data. Copies nothing.

use serde::{Deserialize, Serialize};

/// Maximum number of copies of one job.
pub const FILE_COPIES_MAX: usize = 64;
/// Maximum length of a path in bytes.
const PATH_MAX: usize = 4095;

/// The direction and time of a copy.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyWay {
    /// To the execution host, before the command.
    #[default]
    In,
    /// Back, after the command.
    Out,
    /// Back, after the command, appended to the file.
    Append,
    /// To the execution host before the command, and back after it.
    Both,
}

/// All ways by their operators; the first operator of a way is shown.
const OPERATORS: &[(&str, CopyWay)] = &[
    (">", CopyWay::In),
    ("<", CopyWay::Out),
    ("<<", CopyWay::Append),
    ("><", CopyWay::Both),
    ("<>", CopyWay::Both),
];

/// One file.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileCopy {
    /// Absolute path on the submission host.
    pub local: String,
    pub way: CopyWay,
    /// Path on the execution host, relative to the job's working directory unless absolute.
    pub remote: String,
}

impl FileCopy {
    /// Parses `LOCAL OPERATOR [REMOTE]`, separated by blanks. `local` stays as written.
    ///
    /// # Errors
    /// The problem with the text.
    pub fn parse(text: &str) -> Result<FileCopy, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (local, operator, remote) = match words[..] {
            [local, operator] => (local, operator, local),
            [local, operator, remote] => (local, operator, remote),
            _ => return Err("write LOCAL OPERATOR [REMOTE], separated by blanks".into()),
        };
        let Some((_, copy_way)) = OPERATORS.iter().find(|(word, _)| *word == operator) else {
            let all: Vec<&str> = OPERATORS.iter().map(|(word, _)| *word).collect();
            return Err(format!("'{operator}' is not one of {}", all.join(" ")));
        };
        let copy = FileCopy {
            local: local.to_owned(),
            way: *copy_way,
            remote: remote.to_owned(),
        };
        copy.check().map(|()| copy)
    }

    /// Checks values that our parsers never produce.
    ///
    /// # Errors
    /// The problem.
    pub fn check(&self) -> Result<(), String> {
        for path in [&self.local, &self.remote] {
            if path.is_empty() || path.len() > PATH_MAX || path.contains(char::is_control) {
                return Err(format!("a path has 1 to {PATH_MAX} printable bytes"));
            }
            if path.ends_with('/') {
                return Err(format!("{path} names a directory, only files are copied"));
            }
        }
        Ok(())
    }

    pub fn operator(&self) -> &'static str {
        let row = OPERATORS.iter().find(|(_, copy_way)| *copy_way == self.way);
        row.map_or(">", |(word, _)| word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_says_what_is_copied_when() {
        let of = |text: &str| {
            let copy = FileCopy::parse(text).unwrap();
            (copy.local.clone(), copy.operator(), copy.remote)
        };
        assert_eq!(of("a > b"), ("a".into(), ">", "b".into()));
        assert_eq!(of("/x/a <"), ("/x/a".into(), "<", "/x/a".into()));
        assert_eq!(of(" a  << b "), ("a".into(), "<<", "b".into()));
        assert_eq!(of("a <> b").1, "><");
        for wrong in ["", "a", "a>b", "a >> b", "a > b c", "a > d/", "a b c"] {
            assert!(FileCopy::parse(wrong).is_err(), "{wrong}");
        }
        let mut copy = FileCopy::parse("a > b").unwrap();
        copy.remote = "b\0".into();
        assert!(copy.check().is_err());
    }
}
