//! A job as a form or a program describes it: names and values, which become options of `csub` and
//! are read by the same parser.
//!
//! Owns the names. Checks nothing that csub checks.

use crate::error::WebError;
use corral::api::JobRequest;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Longest name of a job or key that is taken over, bytes; the leader has limits of its own.
const TEXT_MAX: usize = 4096;

/// The fields of a job. Empty ones are not stated.
#[derive(Clone, Default, PartialEq, Eq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobForm {
    /// A command line that a shell reads, or the text of a script.
    pub command: String,
    pub script: String,
    pub name: String,
    /// Indices of an array: `1-10`.
    pub array: String,
    pub queue: String,
    pub slots: String,
    pub memory: String,
    /// `-R`
    pub requirement: String,
    pub hosts: String,
    pub project: String,
    pub cwd: String,
    pub output: String,
    pub error: String,
    pub run_limit: String,
    pub dependency: String,
    pub hold: bool,
    /// More options of csub, word by word.
    pub options: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// As `--key`: the same key names the same job.
    pub key: String,
}

impl JobForm {
    /// Fields that are options, with these.
    fn named(&self) -> [(&'static str, &str); 12] {
        [
            ("q", &self.queue),
            ("n", &self.slots),
            ("M", &self.memory),
            ("R", &self.requirement),
            ("m", &self.hosts),
            ("P", &self.project),
            ("cwd", &self.cwd),
            ("o", &self.output),
            ("e", &self.error),
            ("W", &self.run_limit),
            ("w", &self.dependency),
            ("key", &self.key),
        ]
    }

    /// The request. `home`: where it runs when no directory is given.
    ///
    /// # Errors
    /// Nothing or two things are to run.
    pub fn request(&self, home: &str) -> Result<JobRequest, WebError> {
        let has = |text: &str| !text.trim().is_empty();
        match (has(&self.command), has(&self.script)) {
            (true, true) => return Err(WebError::wrong("give a command or a script, not both")),
            (false, false) => return Err(WebError::wrong("there is no command and no script")),
            _ => {}
        }
        if self.name.len() > TEXT_MAX || self.key.len() > TEXT_MAX {
            return Err(WebError::wrong(format!(
                "a name or key has more than {TEXT_MAX} bytes"
            )));
        }
        let stated = self.named().into_iter().filter(|(_, value)| has(value));
        let stated = stated.map(|(name, value)| (name, value.trim().to_owned()));
        let mut named: Vec<(&'static str, String)> = stated.collect();
        let elsewhere = has(&self.cwd) || self.options.iter().any(|word| word.contains("cwd"));
        if !elsewhere {
            named.push(("cwd", home.to_owned()));
        }
        Ok(JobRequest {
            line: match has(&self.script) {
                true => String::new(),
                false => self.command.trim().to_owned(),
            },
            // Lines of a form end with CR LF.
            script: match has(&self.script) {
                true => self.script.replace("\r\n", "\n"),
                false => String::new(),
            },
            name: self.name.trim().to_owned(),
            array: self.array.trim().to_owned(),
            hold: self.hold,
            options: self.options.clone(),
            env: self.env.clone().into_iter().collect(),
            named,
            ..JobRequest::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_options() {
        let form = JobForm {
            script: "a\r\nb\r\n".into(),
            slots: " 4 ".into(),
            array: "1-3".into(),
            ..JobForm::default()
        };
        let job = form.request("/home/u").unwrap();
        assert_eq!((job.script.as_str(), job.line.as_str()), ("a\nb\n", ""));
        assert_eq!(
            job.named,
            [("n", "4".to_owned()), ("cwd", "/home/u".to_owned())]
        );
        assert_eq!(job.array, "1-3");
        assert!(JobForm::default().request("/").is_err());
        let both = JobForm {
            command: "x".into(),
            ..form
        };
        assert!(both.request("/").is_err());
    }

    #[test]
    fn an_unknown_field_is_refused() {
        let read = |text: &str| serde_json::from_str::<JobForm>(text);
        assert!(read(r#"{"command":"true","slots":"2"}"#).is_ok());
        assert!(read(r#"{"command":"true","slotz":"2"}"#).is_err());
    }
}
