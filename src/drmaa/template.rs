//! Job templates: their attributes, the allowed values, and the current values.
//!
//! A value is checked when it is set, as far as that is possible without the rest of the template.

use super::codes::{Code, Problem, Result};
use super::{categories, dates, paths};
use corral::api;
use corral::spool::Site;
use corral::sys::fs;
use corral::text::command::split_words;
use corral::text::names::check_job_name;
use jiff::Zoned;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) const COMMAND: &str = "drmaa_remote_command";
pub(crate) const STATE: &str = "drmaa_js_state";
pub(crate) const WORK_DIR: &str = "drmaa_wd";
pub(crate) const CATEGORY: &str = "drmaa_job_category";
pub(crate) const NATIVE: &str = "drmaa_native_specification";
pub(crate) const BLOCK_EMAIL: &str = "drmaa_block_email";
pub(crate) const START_TIME: &str = "drmaa_start_time";
pub(crate) const NAME: &str = "drmaa_job_name";
pub(crate) const INPUT: &str = "drmaa_input_path";
pub(crate) const OUTPUT: &str = "drmaa_output_path";
pub(crate) const ERROR: &str = "drmaa_error_path";
pub(crate) const JOIN: &str = "drmaa_join_files";
pub(crate) const DEADLINE: &str = "drmaa_deadline_time";
pub(crate) const RUN_LIMIT: &str = "drmaa_duration_hlimit";
pub(crate) const ARGUMENTS: &str = "drmaa_v_argv";
pub(crate) const ENVIRONMENT: &str = "drmaa_v_env";
pub(crate) const EMAIL: &str = "drmaa_v_email";

/// The attributes with one value.
pub(crate) const SCALARS: [&str; 14] = [
    COMMAND,
    STATE,
    WORK_DIR,
    CATEGORY,
    NATIVE,
    BLOCK_EMAIL,
    START_TIME,
    NAME,
    INPUT,
    OUTPUT,
    ERROR,
    JOIN,
    DEADLINE,
    RUN_LIMIT,
];
/// The attributes that are lists.
pub(crate) const VECTORS: [&str; 3] = [ARGUMENTS, ENVIRONMENT, EMAIL];

/// The words of [`STATE`].
pub(crate) const ON_HOLD: &str = "drmaa_hold";
const ACTIVE: &str = "drmaa_active";

/// Data of this host against which values are checked.
#[derive(Clone, Debug)]
pub(crate) struct HostContext {
    pub(crate) site: Site,
    /// The user's home directory.
    pub(crate) home: PathBuf,
}

/// The values that were set.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttributeValues {
    scalars: BTreeMap<&'static str, String>,
    vectors: BTreeMap<&'static str, Vec<String>>,
}

impl AttributeValues {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.scalars.get(name).map(String::as_str)
    }

    pub(crate) fn all(&self, name: &str) -> &[String] {
        self.vectors.get(name).map_or(&[], Vec::as_slice)
    }
}

/// A job template; several threads may use it.
#[derive(Debug)]
pub(crate) struct Template {
    host_context: HostContext,
    values: Mutex<AttributeValues>,
}

impl Template {
    pub(crate) fn new(host_context: HostContext) -> Template {
        Template {
            host_context,
            values: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, AttributeValues> {
        // Values are consistent between any two steps.
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn values(&self) -> AttributeValues {
        self.lock().clone()
    }

    /// Sets an attribute with one value.
    pub(crate) fn set(&self, name: &str, value: String) -> Result<()> {
        let name = known_attribute(&SCALARS, name)?;
        check(name, &value, &self.host_context)?;
        self.lock().scalars.insert(name, value);
        Ok(())
    }

    /// Sets an attribute that is a list.
    pub(crate) fn set_all(&self, name: &str, values: Vec<String>) -> Result<()> {
        let name = known_attribute(&VECTORS, name)?;
        if name == ENVIRONMENT {
            for value in &values {
                variable(value)?;
            }
        }
        self.lock().vectors.insert(name, values);
        Ok(())
    }

    pub(crate) fn get(&self, name: &str) -> Result<String> {
        let name = known_attribute(&SCALARS, name)?;
        let value = self.lock().scalars.get(name).cloned();
        value.ok_or_else(|| not_set(name))
    }

    pub(crate) fn get_all(&self, name: &str) -> Result<Vec<String>> {
        let name = known_attribute(&VECTORS, name)?;
        let values = self.lock().vectors.get(name).cloned();
        values.ok_or_else(|| not_set(name))
    }
}

fn not_set(name: &str) -> Problem {
    Problem::new(Code::InvalidAttributeValue, format!("{name} is not set"))
}

fn known_attribute(names: &[&'static str], name: &str) -> Result<&'static str> {
    let found = names.iter().find(|known| **known == name);
    found.copied().ok_or_else(|| {
        let other = SCALARS.contains(&name) || VECTORS.contains(&name);
        Problem::argument(match other {
            true => {
                format!("{name}: single values and lists have separate functions: use the other")
            }
            false => format!("there is no attribute {name}"),
        })
    })
}

fn format(text: impl Into<String>) -> Problem {
    Problem::new(Code::InvalidAttributeFormat, text)
}

fn value(text: impl Into<String>) -> Problem {
    Problem::new(Code::InvalidAttributeValue, text)
}

fn check_choice(name: &str, given: &str, words: [&str; 2]) -> Result<()> {
    match words.contains(&given) {
        true => Ok(()),
        false => Err(value(format!(
            "{name}: '{given}' is neither {} nor {}",
            words[0], words[1]
        ))),
    }
}

/// Checks the value of an attribute.
fn check(name: &str, given: &str, context: &HostContext) -> Result<()> {
    match name {
        COMMAND if given.trim().is_empty() => Err(value(format!("{name} is empty"))),
        STATE => check_choice(name, given, [ON_HOLD, ACTIVE]),
        JOIN => check_choice(name, given, ["y", "n"]),
        BLOCK_EMAIL => check_choice(name, given, ["0", "1"]),
        WORK_DIR => {
            let dir = paths::working_directory(given, &context.home);
            dir.map(drop).map_err(|e| value(format!("{name}: {e}")))
        }
        INPUT | OUTPUT | ERROR => {
            let (host, _) = paths::split(given).map_err(|e| format(format!("{name}: {e}")))?;
            paths::check_host(host, &context.site.host).map_err(|e| value(format!("{name}: {e}")))
        }
        START_TIME | DEADLINE => {
            let t = dates::moment(given, &now_here());
            t.map(drop).map_err(|e| format(format!("{name}: {e}")))
        }
        RUN_LIMIT => {
            let s = dates::length_s(given);
            s.map(drop).map_err(|e| format(format!("{name}: {e}")))
        }
        NAME => {
            // With an index list the name would be that of an array.
            if given.contains(['[', ']', '%']) {
                return Err(value(format!("{name}: '{given}' contains one of [ ] %")));
            }
            check_job_name(given).map_err(|e| value(format!("{name}: {}", e.message)))
        }
        NATIVE => {
            let words = native_words(given)?;
            Ok(api::check_options(&words, &context.site.host)?)
        }
        CATEGORY => category_words(context, given).map(drop),
        _ => Ok(()),
    }
}

/// The words of a native specification. Programs that were written for the commands of LSF start it
/// with the command's name.
pub(crate) fn native_words(text: &str) -> Result<Vec<String>> {
    let words = split_words(text).map_err(|e| {
        let caret = e.caret(text);
        format(format!("{NATIVE}: {}\n{}", e.message, caret.trim_end()))
    })?;
    let named = words.first().is_some_and(|w| w == "csub" || w == "bsub");
    Ok(words.into_iter().skip(usize::from(named)).collect())
}

/// The options of a job category.
pub(crate) fn category_words(context: &HostContext, name: &str) -> Result<Vec<String>> {
    let words = categories::options(&context.site.conf, name);
    words.map_err(|e| value(format!("{CATEGORY}: {e}")))
}

/// Name and value of `NAME=VALUE`.
pub(crate) fn variable(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format(format!("{ENVIRONMENT}: '{text}' is not NAME=VALUE"))),
    }
}

/// Whether something is a directory now.
pub(crate) fn is_directory(path: &std::path::Path) -> bool {
    fs::canonical(path)
        .and_then(|path| fs::stat(&path))
        .is_ok_and(|stat| stat.is_some_and(|s| s.kind == fs::Kind::Dir))
}

/// The current moment in the time zone of this process.
pub(crate) fn now_here() -> Zoned {
    let now = jiff::Timestamp::from_millisecond(corral::sys::clock::wall_ms());
    let zone = jiff::tz::TimeZone::system();
    now.unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_zoned(zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> Template {
        let conf = "/e/cb.conf".as_ref();
        let site = Site::from_conf(conf, "CB_SHARE=/none", Some("h1".into())).unwrap();
        Template::new(HostContext {
            site,
            home: "/u/a".into(),
        })
    }

    #[test]
    fn values_are_checked_when_they_are_set() {
        use Code::{InvalidArgument, InvalidAttributeFormat, InvalidAttributeValue};
        let t = template();
        for (name, value, want) in [
            (COMMAND, " ", InvalidAttributeValue),
            (STATE, "held", InvalidAttributeValue),
            (JOIN, "yes", InvalidAttributeValue),
            (BLOCK_EMAIL, "2", InvalidAttributeValue),
            (WORK_DIR, "/w/$drmaa_incr_ph$", InvalidAttributeValue),
            (OUTPUT, "/tmp/x", InvalidAttributeFormat),
            (OUTPUT, "far:/tmp/x", InvalidAttributeValue),
            (START_TIME, "soon", InvalidAttributeFormat),
            (DEADLINE, "25:00", InvalidAttributeFormat),
            (RUN_LIMIT, "1:99", InvalidAttributeFormat),
            (NAME, "a[1-2]", InvalidAttributeValue),
            (NATIVE, "-J 'x", InvalidAttributeFormat),
            (NATIVE, "-freq 2", InvalidAttributeValue),
            (NATIVE, "-K", InvalidAttributeValue),
            (CATEGORY, "x", InvalidAttributeValue),
            ("drmaa_wct_hlimit", "10", InvalidArgument),
            ("drmaa_v_argv", "10", InvalidArgument),
            ("nonsense", "10", InvalidArgument),
        ] {
            let problem = t.set(name, value.to_owned()).expect_err(name);
            assert_eq!(problem.code, want, "{name}={value}: {}", problem.text);
            assert!(!problem.text.is_empty());
        }
        let problem = t.set_all(ENVIRONMENT, vec!["A=1".into(), "B".into()]);
        assert_eq!(problem.unwrap_err().code, InvalidAttributeFormat);
    }

    #[test]
    fn what_was_set_is_what_is_got() {
        let t = template();
        for (name, value) in [
            (COMMAND, "/bin/true"),
            (STATE, "drmaa_hold"),
            (WORK_DIR, "$drmaa_hd_ph$/x"),
            (OUTPUT, "h1:$drmaa_hd_ph$/x"),
            (START_TIME, "2027/01/02 03:04"),
            (RUN_LIMIT, "1:30:00"),
            (NAME, "my_job"),
            (NATIVE, "bsub -q night -R \"span[hosts=1]\""),
        ] {
            assert_eq!(t.get(name).unwrap_err().code, Code::InvalidAttributeValue);
            t.set(name, value.to_owned()).unwrap();
            assert_eq!(t.get(name).unwrap(), value);
        }
        t.set_all(ARGUMENTS, vec!["a b".into(), String::new()])
            .unwrap();
        assert_eq!(t.get_all(ARGUMENTS).unwrap(), ["a b", ""]);
        assert_eq!(native_words("bsub -n 2").unwrap(), ["-n", "2"]);
    }
}
