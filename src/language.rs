//! The language in which a command prints messages: English, or Chinese by a catalogue.
//!
//! Journals, answers and code are in English. A text for a user goes through [`translated`], which
//! looks it up in the catalogue if the language is Chinese, and otherwise returns it unchanged.
//! Owns the meaning of a locale and the language of this process; never reads the environment and
//! never prints. In English, the catalogue is not read.

mod catalogue;

pub use catalogue::{CATALOGUE, Entry, PatternPart, entries, pattern_parts};

use std::borrow::Cow;
use std::sync::OnceLock;

/// A language of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Language {
    #[default]
    English,
    Chinese,
}

/// The language of this process; unset: English.
static PROCESS_LANGUAGE: OnceLock<Language> = OnceLock::new();

/// Sets the language of this process. Later calls have no effect.
pub fn choose(language: Language) {
    PROCESS_LANGUAGE.get_or_init(|| language);
}

/// The language of this process.
pub fn of_process() -> Language {
    #[cfg(test)]
    if let Some(language) = tests::spoken_by_this_thread() {
        return language;
    }
    PROCESS_LANGUAGE.get().copied().unwrap_or_default()
}

/// Runs a part of a test as in a process whose language is Chinese.
#[cfg(test)]
pub(crate) fn in_chinese<T>(part: impl FnOnce() -> T) -> T {
    tests::in_chinese(part)
}

/// The text in the language of this process.
pub fn translated(text: &str) -> Cow<'_, str> {
    of_process().translate(text)
}

impl Language {
    /// The language of a locale. `value` gives an environment variable: of LC_ALL, LC_MESSAGES and
    /// LANG, the first that is not empty names the locale; unless that is C, the first supported
    /// language of LANGUAGE applies, as in GNU gettext. Chinese requires UTF-8.
    ///
    /// ```
    /// use corral::language::Language;
    /// let lang = |name: &str| (name == "LANG").then(|| "zh_CN.UTF-8".to_owned());
    /// assert_eq!(Language::of_locale(lang), Language::Chinese);
    /// ```
    pub fn of_locale(value: impl Fn(&str) -> Option<String>) -> Language {
        let set = |name| value(name).filter(|text| !text.is_empty());
        let Some(locale) = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(set) else {
            return Language::English;
        };
        let (name, codeset) = locale.split_once('.').unwrap_or((&locale, ""));
        let codeset = codeset.split('@').next().unwrap_or_default();
        let utf8 = ["utf-8", "utf8"].contains(&codeset.to_ascii_lowercase().as_str());
        if !utf8 || ["C", "POSIX"].contains(&name) {
            return Language::English;
        }
        let wished = set("LANGUAGE").unwrap_or_default();
        let wished = wished.split(':').find_map(Language::from_name);
        wished
            .or_else(|| Language::from_name(name))
            .unwrap_or_default()
    }

    /// The language of a name such as `zh_CN`; `None`: not supported. `zh_TW`, with traditional
    /// characters, does not select simplified Chinese.
    fn from_name(name: &str) -> Option<Language> {
        let name = name.split(['.', '@']).next().unwrap_or_default();
        match name {
            "zh" | "zh_CN" | "zh_SG" | "zh_Hans" | "zh_Hans_CN" => Some(Language::Chinese),
            "C" | "POSIX" | "en" => Some(Language::English),
            name if name.starts_with("en_") => Some(Language::English),
            _ => None,
        }
    }

    /// Translates a text line by line. Lines without an entry in the catalogue stay English.
    pub fn translate(self, text: &str) -> Cow<'_, str> {
        match self {
            Language::English => Cow::Borrowed(text),
            Language::Chinese => catalogue::translate(text),
        }
    }
}

/// Prints a line to standard error in the language of this process.
macro_rules! tell {
    ($($text:tt)*) => {
        eprintln!("{}", $crate::language::translated(&format!($($text)*)))
    };
}

/// Prints a line to standard output in the language of this process: for sentences that no program
/// parses.
macro_rules! answer {
    ($($text:tt)*) => {
        println!("{}", $crate::language::translated(&format!($($text)*)))
    };
}

pub(crate) use answer;
pub(crate) use tell;

#[cfg(test)]
mod tests;
