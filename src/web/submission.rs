//! A job as described by a form or a program: names and values, which become options of `csub` and
//! are parsed by the same parser.
//!
//! Owns the names. Repeats no check of csub.

use crate::error::WebError;
use corral::api::{JobRequest, TemplateValues};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Maximum length of a job's name that is accepted, bytes; the leader has its own limits.
const NAME_MAX: usize = 4096;

/// Members that are options of csub: name, option, meaning.
pub const OPTIONS: &[(&str, &str, &str)] = &[
    ("queue", "q", "csub -q"),
    ("slots", "n", "csub -n"),
    ("memory", "M", "csub -M"),
    ("requirement", "R", "csub -R"),
    ("hosts", "m", "csub -m"),
    ("project", "P", "csub -P"),
    ("cwd", "cwd", "its directory; the home directory without it"),
    ("output", "o", "csub -o"),
    ("error", "e", "csub -e"),
    ("run_limit", "W", "csub -W"),
    ("dependency", "w", "csub -w"),
    ("key", "key", "csub --key: the same key names the same job"),
];

/// The option of `csub` with this name, if a description can contain it.
pub fn option_named(name: &str) -> Option<&'static str> {
    let mut options = OPTIONS.iter().map(|(_, option, _)| *option);
    options.find(|option| *option == name)
}

/// The members of a job. Empty ones count as absent.
#[derive(Clone, Default, PartialEq, Eq, Debug, Deserialize)]
#[serde(default)]
pub struct JobForm {
    /// A command line for a shell, or the text of a script.
    pub command: String,
    pub script: String,
    pub name: String,
    /// Indices of an array: `1-10`.
    pub array: String,
    pub hold: bool,
    /// More options of csub, word by word.
    pub options: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// The name of an application's template, and the values of its parameters. The command is only
    /// for templates that take one.
    pub app: String,
    pub params: BTreeMap<String, Value>,
    /// Members of [`OPTIONS`]: texts or numbers.
    #[serde(flatten)]
    pub stated: BTreeMap<String, Value>,
}

impl JobForm {
    /// The value of a member of [`OPTIONS`]; empty if it is absent.
    ///
    /// # Errors
    /// The value is neither a text nor a number.
    fn value(&self, name: &str) -> Result<String, WebError> {
        match self.stated.get(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.trim().to_owned()),
            Some(Value::Number(number)) => Ok(number.to_string()),
            Some(_) => Err(WebError::wrong(format!("{name}: give a text"))),
        }
    }

    /// The options that are present.
    fn named(&self) -> Result<Vec<(&'static str, String)>, WebError> {
        let known = |name: &str| OPTIONS.iter().any(|(known, ..)| *known == name);
        if let Some(name) = self.stated.keys().find(|name| !known(name)) {
            let name = corral::text::width::escape(name);
            let all: Vec<&str> = OPTIONS.iter().map(|(name, ..)| *name).collect();
            let own = "command script name array hold options env app params";
            return Err(WebError::wrong(format!(
                "{name}: a job has no such member; it has: {own} {}",
                all.join(" ")
            )));
        }
        let mut named = Vec::new();
        for (name, option, _) in OPTIONS {
            let value = self.value(name)?;
            if !value.is_empty() {
                named.push((*option, value));
            }
        }
        Ok(named)
    }

    /// The template and its values.
    fn template(&self) -> Result<Option<TemplateValues>, WebError> {
        if self.app.is_empty() {
            return match self.params.is_empty() {
                true => Ok(None),
                false => Err(WebError::wrong("params: name the template by app")),
            };
        }
        let value = |(name, value): (&String, &Value)| match value {
            Value::String(text) => Ok((name.clone(), text.clone())),
            Value::Number(number) => Ok((name.clone(), number.to_string())),
            Value::Bool(yes) => Ok((name.clone(), if *yes { "yes" } else { "no" }.to_owned())),
            _ => {
                let name = corral::text::width::escape(name);
                Err(WebError::wrong(format!("params: {name}: give a text")))
            }
        };
        let values: Result<Vec<_>, WebError> = self.params.iter().map(value).collect();
        Ok(Some(TemplateValues {
            name: self.app.clone(),
            values: values?,
        }))
    }

    /// Converts the description to a request. `home`: the working directory if none is given.
    ///
    /// # Errors
    /// There is no command or more than one, or a member is unknown.
    pub fn request(&self, home: &str) -> Result<JobRequest, WebError> {
        let has = |text: &str| !text.trim().is_empty();
        let (line, script) = match (has(&self.command), has(&self.script)) {
            (true, true) => return Err(WebError::wrong("give a command or a script, not both")),
            (false, false) if self.app.is_empty() => {
                return Err(WebError::wrong("there is no command and no script"));
            }
            (false, false) => (String::new(), String::new()),
            (true, false) => (self.command.trim().to_owned(), String::new()),
            // Forms send lines that end with CR LF.
            (false, true) => (String::new(), self.script.replace("\r\n", "\n")),
        };
        if self.name.len() > NAME_MAX {
            let why = format!("its name has more than {NAME_MAX} bytes");
            return Err(WebError::wrong(why));
        }
        let mut named_options = self.named()?;
        let sets_cwd = |word: &String| word.trim_start_matches('-').starts_with("cwd");
        let has_cwd = named_options.iter().any(|(option, _)| *option == "cwd");
        if !has_cwd && !self.options.iter().any(sets_cwd) {
            named_options.push(("cwd", home.to_owned()));
        }
        Ok(JobRequest {
            line,
            script,
            name: self.name.trim().to_owned(),
            array: self.array.trim().to_owned(),
            hold: self.hold,
            template: self.template()?,
            options: self.options.clone(),
            env: self.env.clone().into_iter().collect(),
            named_options,
            ..JobRequest::default()
        })
    }
}

/// The schema of a job's description.
pub fn schema() -> Value {
    let own = [
        ("command", "a command line that a shell reads"),
        ("script", "or the text of a script"),
        ("name", "its name"),
        ("array", "indices of an array, such as 1-10"),
        (
            "app",
            "a template of an application (capps), instead of a script",
        ),
    ];
    let options = OPTIONS.iter().map(|(name, _, about)| (*name, *about));
    let text = |(name, about): (&str, &str)| {
        let schema = json!({"type": ["string", "number"], "description": about});
        (name.to_owned(), schema)
    };
    let mut members: Map<String, Value> = own.into_iter().chain(options).map(text).collect();
    members.insert("hold".into(), json!({"type": "boolean"}));
    let words = json!({"type": "array", "items": {"type": "string"}});
    members.insert("options".into(), words);
    let env = json!({"type": "object", "additionalProperties": {"type": "string"}});
    members.insert("env".into(), env);
    let value = json!({"type": ["string", "number", "boolean"]});
    let params = json!({"type": "object", "additionalProperties": value,
        "description": "values of the template's parameters"});
    members.insert("params".into(), params);
    json!({"type": "object", "additionalProperties": false, "properties": members})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<JobRequest, WebError> {
        let form: JobForm = serde_json::from_str(text).expect("a form");
        form.request("/h/u")
    }

    #[test]
    fn members_become_options() {
        let job = read(r#"{"script":"a\r\nb\r\n","slots":4,"array":"1-3"}"#).unwrap();
        assert_eq!((job.script.as_str(), job.line.as_str()), ("a\nb\n", ""));
        let home = ("cwd", "/h/u".to_owned());
        assert_eq!(job.named_options, [("n", "4".to_owned()), home.clone()]);
        assert_eq!(job.array, "1-3");
        let elsewhere = read(r#"{"command":"x","cwd":"/w"}"#).unwrap();
        assert_eq!(elsewhere.named_options, [("cwd", "/w".to_owned())]);
        let by_option = read(r#"{"command":"x","options":["-cwd","/w"]}"#).unwrap();
        assert!(!by_option.named_options.contains(&home));
    }

    #[test]
    fn a_template_gets_its_values_as_texts() {
        let job = read(r#"{"app":"solver","params":{"N":4,"CASE":"a b","GPU":true}}"#).unwrap();
        let template = job.template.unwrap();
        let values: Vec<(&str, &str)> = (template.values.iter())
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(template.name, "solver");
        assert_eq!(values, [("CASE", "a b"), ("GPU", "yes"), ("N", "4")]);
        for bad in [
            r#"{"command":"x","params":{"N":1}}"#,
            r#"{"app":"a","params":{"N":[]}}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for bad in [
            "{}",
            r#"{"command":"x","script":"y"}"#,
            r#"{"command":"x","slotz":"2"}"#,
            r#"{"command":"x","slots":[2]}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
