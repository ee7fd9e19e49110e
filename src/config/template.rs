//! Templates of applications: a form of typed parameters from which `csub -app NAME` creates a job.
//!
//! Owns what a template is and how values become variables and options. Reads no file: the caller
//! provides the properties of paths. Values never become text of a shell: the job finds them in
//! variables `CB_APP_<NAME>`, and an option gets them as one word.

use crate::language::{self, Language};
use crate::text::duration::{self, DefaultUnit};
use crate::text::size::{self, Unit};
use crate::text::yaml::Pos;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Prefix of the variables that contain a job's parameters.
pub const VARIABLE: &str = "CB_APP_";
/// Maximum length of a parameter's value, in bytes.
pub const VALUE_MAX: usize = 4096;
/// Maximum number of errors about parameters that are reported at once.
const WRONG_MAX: usize = 20;

/// A text for users, in English and in Chinese; either may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BilingualText {
    pub en: String,
    pub zh: String,
}

impl BilingualText {
    /// The text in the language of this process; what is missing in one is there in the other.
    pub fn localized(&self) -> &str {
        match (
            language::of_process(),
            self.zh.is_empty(),
            self.en.is_empty(),
        ) {
            (Language::Chinese, false, _) | (_, _, true) => &self.zh,
            _ => &self.en,
        }
    }
}

/// A template of an application.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Template {
    /// As in `csub -app NAME`; the file's name without `.yaml`.
    pub name: String,
    pub label: BilingualText,
    pub description: BilingualText,
    /// Several lines for the user who fills in the form.
    pub help: BilingualText,
    /// The application for which its jobs count, and whose profile of cb.yaml applies to them if
    /// there is one.
    pub profile: String,
    pub params: Vec<Param>,
    pub options: Vec<TemplateOption>,
    /// Variables of the job, in the order of the file; `${PARAM}` stands for a value.
    pub env: Vec<(String, String)>,
    pub run: TemplateCommand,
    /// Files beside the template that are inserted before the script's own lines.
    pub include: Vec<String>,
    /// Whether words after the parameters are passed to the script as `CB_APP_ARGS`.
    pub args: bool,
}

/// What a job of a template runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TemplateCommand {
    /// The command that follows the parameters.
    #[default]
    Own,
    Command(String),
    Script(String),
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Param {
    pub name: String,
    pub label: BilingualText,
    pub help: BilingualText,
    #[serde(rename = "type")]
    pub kind: ParamKind,
    /// As written; `None` = no default.
    pub default: Option<String>,
    /// The parameter has no default and must be given.
    pub required: bool,
    /// Of [`ParamKind::Choice`].
    pub choices: Vec<Choice>,
    /// As written: a number, size or time.
    pub min: Option<String>,
    pub max: Option<String>,
    /// A regular expression that the whole value must match.
    pub pattern: Option<String>,
    /// The file or directory must exist when the job is submitted.
    pub exists: bool,
}

/// The type of a parameter's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ParamKind {
    /// Any printable text.
    #[default]
    String,
    Int,
    Float,
    /// `4G`, `500M`; a plain number is in MB.
    Size,
    /// `90m`, `1h30m`, `1:30`; a plain number is in minutes.
    Duration,
    Bool,
    Choice,
    File,
    Dir,
}

impl ParamKind {
    pub const ALL: [(&'static str, ParamKind); 9] = [
        ("string", ParamKind::String),
        ("int", ParamKind::Int),
        ("float", ParamKind::Float),
        ("size", ParamKind::Size),
        ("duration", ParamKind::Duration),
        ("bool", ParamKind::Bool),
        ("choice", ParamKind::Choice),
        ("file", ParamKind::File),
        ("dir", ParamKind::Dir),
    ];

    /// The type's name in a template.
    pub fn word(self) -> &'static str {
        let row = ParamKind::ALL.iter().find(|(_, kind)| *kind == self);
        row.map_or("", |(word, _)| *word)
    }

    /// Whether values can contain characters with a special meaning to a shell.
    pub(super) fn is_free(self) -> bool {
        matches!(self, ParamKind::String | ParamKind::File | ParamKind::Dir)
    }

    /// Whether values can have a minimum and a maximum.
    pub(super) fn is_ordered(self) -> bool {
        use ParamKind::{Duration, Float, Int, Size};
        matches!(self, Int | Float | Size | Duration)
    }
}

/// A value of a choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    pub value: String,
    pub label: BilingualText,
}

/// An option of `csub` that a template sets for its jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TemplateOption {
    /// Without its dash.
    pub option: String,
    /// `${PARAM}` stands for a value.
    pub value: String,
    /// Set only if this condition is true.
    pub when: Option<ParamCondition>,
    #[serde(skip)]
    pub pos: Pos,
}

/// A condition on a parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ParamCondition {
    pub param: String,
    /// `None`: true if the parameter is neither empty nor `no` nor 0.
    pub is: Option<String>,
    /// Negates the condition.
    pub not: bool,
}

/// What a path is on the host where the job is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    Missing,
    File,
    Dir,
    Other,
}

/// The base of relative paths, and the properties of paths.
pub struct PathBase<'a> {
    pub cwd: &'a Path,
    pub kind: &'a dyn Fn(&Path) -> PathKind,
}

/// A template with values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilledTemplate {
    /// In the order of the template, canonical.
    pub values: Vec<(String, String)>,
    /// Options of `csub`: name, value, place in the template.
    pub options: Vec<(String, String, Pos)>,
    /// Variables of the job: those of the parameters and those of `env`.
    pub vars: BTreeMap<String, String>,
}

impl Template {
    /// The names of its parameters.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.params.iter().map(|param| param.name.as_str())
    }

    /// The template with these values, and the defaults of the others.
    ///
    /// # Errors
    /// A line for each parameter that is missing, unknown or wrong.
    pub fn fill(
        &self,
        given: &[(String, String)],
        base: &PathBase<'_>,
    ) -> Result<FilledTemplate, Vec<String>> {
        let mut wrong = Vec::new();
        for (at, (name, _)) in given.iter().enumerate() {
            if !self.names().any(|known| known == name) {
                let near = crate::text::error::did_you_mean(name, self.names());
                wrong.push(format!("it has no parameter {name}{near}"));
            } else if given[..at].iter().any(|(other, _)| other == name) {
                wrong.push(format!("{name} is given twice"));
            }
        }
        let mut out = FilledTemplate::default();
        for param in &self.params {
            let own = given.iter().find(|(name, _)| *name == param.name);
            let text = own.map(|(_, value)| value).or(param.default.as_ref());
            let value = match text.map(String::as_str) {
                None | Some("") if param.required => Err("a value is required".to_owned()),
                None | Some("") => Ok(String::new()),
                Some(text) => param.value(text, Some(base)),
            };
            match value {
                Ok(value) => out.values.push((param.name.clone(), value)),
                Err(why) => wrong.push(format!("{}: {why}", param.name)),
            }
        }
        wrong.truncate(WRONG_MAX);
        if !wrong.is_empty() {
            return Err(wrong);
        }
        self.apply(&mut out);
        Ok(out)
    }

    fn apply(&self, out: &mut FilledTemplate) {
        for (name, value) in &out.values {
            out.vars.insert(format!("{VARIABLE}{name}"), value.clone());
        }
        for (name, value) in &self.env {
            out.vars.insert(name.clone(), put(value, &out.values));
        }
        for option in &self.options {
            if option
                .when
                .as_ref()
                .is_none_or(|when| when.is_met(&out.values))
            {
                let value = put(&option.value, &out.values);
                out.options.push((option.option.clone(), value, option.pos));
            }
        }
    }
}

impl ParamCondition {
    /// `NAME`, `!NAME`, `NAME=VALUE` or `NAME!=VALUE`.
    pub(super) fn parse(text: &str) -> ParamCondition {
        let (not, text) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (name, is, unequal) = match text.split_once('=') {
            None => (text, None, false),
            Some((name, value)) => match name.strip_suffix('!') {
                Some(name) => (name, Some(value), true),
                None => (name, Some(value), false),
            },
        };
        ParamCondition {
            param: name.trim().to_owned(),
            is: is.map(|value| value.trim().to_owned()),
            not: not != unequal,
        }
    }

    fn is_met(&self, values: &[(String, String)]) -> bool {
        let value = value_of(&self.param, values);
        let holds = match &self.is {
            Some(is) => value == is,
            None => !matches!(value, "" | "no" | "0"),
        };
        holds != self.not
    }
}

fn value_of<'v>(name: &str, values: &'v [(String, String)]) -> &'v str {
    let found = values.iter().find(|(known, _)| known == name);
    found.map_or("", |(_, value)| value.as_str())
}

/// Replaces each `${NAME}` of a text by its value.
fn put(text: &str, values: &[(String, String)]) -> String {
    let mut out = String::new();
    for (literal, name) in parameter_parts(text) {
        out.push_str(literal);
        out.push_str(name.map_or("", |(_, name)| value_of(name, values)));
    }
    out
}

/// The parts of a text before each `${NAME}`, with the name and its offset; the last part has none.
pub(super) fn parameter_parts(text: &str) -> Vec<(&str, Option<(usize, &str)>)> {
    let mut out = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find("${").map(|at| from + at) {
        let Some(len) = text[at + 2..].find('}') else {
            break;
        };
        let end = at + 2 + len;
        out.push((&text[from..at], Some((at + 2, &text[at + 2..end]))));
        from = end + 1;
    }
    out.push((&text[from..], None));
    out
}

impl Param {
    /// The canonical form of a value. `base`: with `None`, paths are neither changed nor checked.
    ///
    /// # Errors
    /// Why this value is not valid for the parameter.
    pub fn value(&self, text: &str, base: Option<&PathBase<'_>>) -> Result<String, String> {
        if text.len() > VALUE_MAX {
            return Err(format!("more than {VALUE_MAX} bytes"));
        }
        if text.contains(char::is_control) {
            return Err("the value has a control character".to_owned());
        }
        let value = self.canonical(text, base)?;
        if self.kind.is_ordered() {
            self.check_range(text)?;
        }
        match &self.pattern {
            Some(pattern) if !full_match(pattern, text) => {
                Err(format!("{text:?} does not match {pattern}"))
            }
            _ => Ok(value),
        }
    }

    fn canonical(&self, text: &str, base: Option<&PathBase<'_>>) -> Result<String, String> {
        let word = self.kind.word();
        match self.kind {
            ParamKind::String => Ok(text.to_owned()),
            ParamKind::Int => match text.parse::<i64>() {
                Ok(n) => Ok(n.to_string()),
                Err(_) => Err(format!("{text:?} is not a whole number")),
            },
            ParamKind::Float | ParamKind::Size | ParamKind::Duration => {
                let n = amount(self.kind, text)?;
                Ok(match self.kind {
                    ParamKind::Size => size::exact(n as u64),
                    ParamKind::Duration => duration::exact(n as u64),
                    _ => text.to_owned(),
                })
            }
            ParamKind::Bool => match super::read::boolean(text) {
                Some(true) => Ok("yes".to_owned()),
                Some(false) => Ok("no".to_owned()),
                None => Err(format!("{text:?} is neither yes nor no")),
            },
            ParamKind::Choice => match self.choices.iter().any(|choice| choice.value == text) {
                true => Ok(text.to_owned()),
                false => {
                    let all: Vec<&str> = self.choices.iter().map(|c| c.value.as_str()).collect();
                    Err(format!("{text:?} is not one of {}", all.join(", ")))
                }
            },
            ParamKind::File | ParamKind::Dir => match base {
                None => Ok(text.to_owned()),
                Some(base) => self.path(text, base).map_err(|why| format!("{word} {why}")),
            },
        }
    }

    /// An absolute path, without `.` in it.
    fn path(&self, text: &str, base: &PathBase<'_>) -> Result<String, String> {
        let mut path = PathBuf::new();
        for part in base.cwd.join(text).components() {
            if part != Component::CurDir {
                path.push(part);
            }
        }
        let shown = path
            .to_str()
            .ok_or_else(|| format!("{text:?}: the path is not UTF-8 text"))?;
        if !self.exists {
            return Ok(shown.to_owned());
        }
        match ((base.kind)(&path), self.kind) {
            (PathKind::Missing, _) => Err(format!("{shown} does not exist on this host")),
            (PathKind::File, ParamKind::File) | (PathKind::Dir, ParamKind::Dir) => {
                Ok(shown.to_owned())
            }
            (_, ParamKind::Dir) => Err(format!("{shown} is not a directory")),
            _ => Err(format!("{shown} is not a file")),
        }
    }

    fn check_range(&self, text: &str) -> Result<(), String> {
        let value = amount(self.kind, text)?;
        let bound = |text: &Option<String>| {
            let text = text.as_ref()?;
            Some((amount(self.kind, text).ok()?, text.clone()))
        };
        match (bound(&self.min), bound(&self.max)) {
            (Some((min, shown)), _) if value < min => Err(format!("{text} is below {shown}")),
            (_, Some((max, shown))) if value > max => Err(format!("{text} is above {shown}")),
            _ => Ok(()),
        }
    }
}

/// A number, a size in bytes or a time in seconds.
pub(super) fn amount(kind: ParamKind, text: &str) -> Result<f64, String> {
    match kind {
        ParamKind::Size => size::parse(text, Unit::M)
            .map(|n| n as f64)
            .map_err(|e| e.message),
        ParamKind::Duration => duration::parse_ms_from(text, DefaultUnit::Minutes, 1)
            .map(|ms| (ms / 1000) as f64)
            .map_err(|e| e.message),
        _ => {
            let plain = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
            let number = text.parse::<f64>().ok().filter(|n| n.is_finite());
            number
                .filter(|_| text.chars().all(plain))
                .ok_or_else(|| format!("{text:?} is not a number"))
        }
    }
}

/// Whether a pattern, which was checked when the template was read, matches the whole text.
fn full_match(pattern: &str, text: &str) -> bool {
    regex_lite::Regex::new(&whole_pattern(pattern)).is_ok_and(|re| re.is_match(text))
}

pub(super) fn whole_pattern(pattern: &str) -> String {
    format!("^(?:{pattern})$")
}
