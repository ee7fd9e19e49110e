//! Where and how often the state of a job is saved (`csub -k`, `chkpnt` of a queue), as data.

use super::JobKey;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum length of a directory, and of the name of a method, in bytes.
const DIR_MAX: usize = 4095;
const METHOD_MAX: usize = 63;
/// Maximum time between two checkpoints, and before the first one: 100 days in minutes.
const MINUTES_MAX: u64 = 144_000;

/// The content of `-k "DIR [init=MINUTES] [MINUTES] [method=NAME]"`.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Checkpoint {
    /// The job's own directory is created below it; %J and %I are not replaced yet.
    pub dir: String,
    /// Time from the start to the first checkpoint; 0 = one period.
    #[serde(skip_serializing_if = "is_zero")]
    pub init_s: u64,
    /// Time between checkpoints; 0 = only on request.
    #[serde(skip_serializing_if = "is_zero")]
    pub period_s: u64,
    /// The name of the directory, below `dir`, of a job from whose checkpoint this one continues
    /// (`crestart`); empty = it starts from the beginning.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// The method must restore it even if it would otherwise refuse.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// The method whose programs save and restore it; empty = `default`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub method: String,
}

impl Checkpoint {
    /// Parses the text of `-k`.
    ///
    /// # Errors
    /// The problem with the text.
    pub fn parse(text: &str) -> Result<Checkpoint, String> {
        let mut words = text.split_whitespace();
        let mut out = Checkpoint {
            dir: words.next().unwrap_or_default().to_owned(),
            ..Checkpoint::default()
        };
        let mut period = None;
        for word in words {
            match word.split_once('=') {
                Some(("init", minutes)) if out.init_s == 0 => out.init_s = seconds(minutes)?,
                Some(("method", name)) if out.method.is_empty() && !name.is_empty() => {
                    name.clone_into(&mut out.method);
                }
                None if period.is_none() => period = Some(seconds(word)?),
                _ => {
                    return Err(format!(
                        "{word:?} is not understood; write DIR [init=MINUTES] [MINUTES] \
                         [method=NAME]"
                    ));
                }
            }
        }
        out.period_s = period.unwrap_or(0);
        out.check().map(|()| out)
    }

    /// Checks values that our clients never send.
    ///
    /// # Errors
    /// The problem.
    pub fn check(&self) -> Result<(), String> {
        let blank = |c: char| c.is_control() || c.is_whitespace();
        if self.dir.is_empty() || self.dir.len() > DIR_MAX || self.dir.contains(blank) {
            return Err(format!(
                "a directory is a path of at most {DIR_MAX} bytes without blanks"
            ));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if self.method.len() > METHOD_MAX || !self.method.chars().all(plain) {
            return Err(format!(
                "a method has at most {METHOD_MAX} letters, digits, - and _"
            ));
        }
        if !self.from.is_empty() && Checkpoint::key_of(&self.from).is_none() {
            return Err(format!("{:?} is not the directory of a job", self.from));
        }
        if self.init_s.max(self.period_s) > MINUTES_MAX * 60 {
            return Err(format!("at most {MINUTES_MAX} minutes"));
        }
        Ok(())
    }

    /// The suffix of the method's programs after `echkpnt.` and `erestart.`.
    pub fn method(&self) -> &str {
        match self.method.as_str() {
            "" => "default",
            name => name,
        }
    }

    /// The name of a job's own directory below that of `-k`.
    pub fn dir_name(j: JobKey) -> String {
        match j.idx {
            0 => j.id.to_string(),
            idx => format!("{}.{idx}", j.id),
        }
    }

    /// The job whose directory has this name.
    pub fn key_of(name: &str) -> Option<JobKey> {
        let (id, idx) = name.split_once('.').unwrap_or((name, "0"));
        let key = JobKey {
            id: id.parse().ok()?,
            idx: idx.parse().ok()?,
        };
        (key.id > 0 && Checkpoint::dir_name(key) == name).then_some(key)
    }
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.dir)?;
        if self.init_s > 0 {
            write!(f, " init={}", self.init_s / 60)?;
        }
        if self.period_s > 0 {
            write!(f, " {}", self.period_s / 60)?;
        }
        if !self.method.is_empty() {
            write!(f, " method={}", self.method)?;
        }
        Ok(())
    }
}

/// What `cchkpnt` requests for a running job.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointAct {
    /// The job is ended once its state is saved.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub kill: bool,
    /// As `kill`; the job then runs again elsewhere (`cmig`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub migrate: bool,
    /// The method must save it even if it would otherwise refuse.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// A new time between checkpoints, in minutes; 0: no more periodic checkpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_min: Option<u32>,
}

impl CheckpointAct {
    /// Maximum time between checkpoints, in minutes.
    pub const PERIOD_MAX: u32 = MINUTES_MAX as u32;
}

fn seconds(minutes: &str) -> Result<u64, String> {
    let number = minutes.parse::<u64>().ok();
    number
        .filter(|n| (1..=MINUTES_MAX).contains(n))
        .map(|n| n * 60)
        .ok_or_else(|| format!("{minutes:?} is not a number of minutes, 1 to {MINUTES_MAX}"))
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_read_and_printed_in_one_form() {
        let read = |text: &str| Checkpoint::parse(text).unwrap();
        let all = read("/c  method=app 30 init=5");
        let fields = (all.dir.as_str(), all.init_s, all.period_s, all.method());
        assert_eq!(fields, ("/c", 300, 1800, "app"));
        assert_eq!(all.to_string(), "/c init=5 30 method=app");
        assert_eq!(read(&all.to_string()), all);
        let least = read("ck");
        let fields = (least.init_s, least.period_s, least.method());
        assert_eq!(fields, (0, 0, "default"));
        assert_eq!(Checkpoint::dir_name(JobKey::job(7)), "7");
        assert_eq!(Checkpoint::dir_name(JobKey::element(7, 2)), "7.2");
        assert_eq!(Checkpoint::key_of("7.2"), Some(JobKey::element(7, 2)));
        assert_eq!(Checkpoint::key_of("7"), Some(JobKey::job(7)));
        for bad in [
            "", "x", "07", "7.0", "7.", ".2", "7.2.3", "+7", "0", "../7", "7 ",
        ] {
            assert_eq!(Checkpoint::key_of(bad), None, "{bad:?}");
            let from = bad.to_owned();
            let sound = Checkpoint {
                from,
                ..all.clone()
            }
            .check()
            .is_ok();
            assert_eq!(sound, bad.is_empty(), "{bad:?}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for bad in [
            "",
            " ",
            "/c 0",
            "/c 5 6",
            "/c x",
            "/c init=x",
            "/c init=5 init=6",
            "/c method=",
            "/c method=a/b",
            "/c method=../x",
            "/c 999999999",
            "/c freq=5",
        ] {
            assert!(Checkpoint::parse(bad).is_err(), "{bad:?}");
        }
    }
}
