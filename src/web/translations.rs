//! The texts of the portal in each language: the catalogue `words.yaml`.
//!
//! Owns which languages there are and which one a request gets. Every visible word of a page goes
//! through [`Translations::t`]; a test compares the catalogue with the keys that templates and
//! sources name.

use std::collections::HashMap;
use std::sync::OnceLock;

/// A language of the portal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Language {
    #[default]
    English,
    Chinese,
}

impl Language {
    pub const ALL: [Language; 2] = [Language::English, Language::Chinese];

    /// The library's name of this language: for its sentences, such as pending reasons.
    fn of_library(self) -> corral::api::Language {
        match self {
            Language::English => corral::api::Language::English,
            Language::Chinese => corral::api::Language::Chinese,
        }
    }

    /// The value of the attribute `lang` and of the cookie.
    pub fn tag(self) -> &'static str {
        match self {
            Language::English => "en",
            Language::Chinese => "zh-CN",
        }
    }

    /// The language with this tag.
    pub fn parse(tag: &str) -> Option<Language> {
        Language::ALL.into_iter().find(|l| l.tag() == tag)
    }

    /// The language that a header `Accept-Language` prefers.
    pub fn accepted(header: &str) -> Language {
        let mut best = (0u32, Language::English);
        for part in header.split(',').take(20) {
            let (tag, rest) = part.split_once(';').unwrap_or((part, ""));
            let quality: f32 = match rest.trim().strip_prefix("q=") {
                Some(text) => text.trim().parse().unwrap_or(0.0),
                None => 1.0,
            };
            let tag = tag.trim().to_ascii_lowercase();
            let language = match tag.split('-').next() {
                Some("en") => Language::English,
                Some("zh") => Language::Chinese,
                _ => continue,
            };
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it is within
            let quality = (quality.clamp(0.0, 1.0) * 1000.0) as u32;
            if quality > best.0 {
                best = (quality, language);
            }
        }
        best.1
    }
}

type Catalogue = HashMap<String, [String; 2]>;

/// The text of the catalogue.
pub const CATALOGUE: &str = include_str!("words.yaml");

/// Parses the catalogue: a key, then its words in English and in Chinese.
fn catalogue() -> &'static Catalogue {
    static ALL: OnceLock<Catalogue> = OnceLock::new();
    ALL.get_or_init(|| serde_yaml::from_str(CATALOGUE).unwrap_or_default())
}

/// The words of one language.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Translations(pub Language);

impl Translations {
    /// The words of a key; an unknown key, which a test refuses, is returned as it is.
    pub fn t(self, key: &'static str) -> &'static str {
        self.find(key).unwrap_or(key)
    }

    /// Translates a sentence of the cluster: a reason, a refusal.
    pub fn translated(self, text: &str) -> std::borrow::Cow<'_, str> {
        self.0.of_library().translate(text)
    }

    /// The words of a key that is composed of parts, or `otherwise` if there are none.
    pub fn t_or(self, key: &str, otherwise: &str) -> String {
        self.find(key).unwrap_or(otherwise).to_owned()
    }

    /// The words of a key with a number or name in place of `{}`.
    pub fn f(self, key: &'static str, value: impl std::fmt::Display) -> String {
        self.t(key).replace("{}", &value.to_string())
    }

    fn find(self, key: &str) -> Option<&'static str> {
        let [english, chinese] = catalogue().get(key)?;
        Some(match self.0 {
            Language::English => english,
            Language::Chinese => chinese,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_language_wins() {
        for (header, want) in [
            ("", Language::English),
            ("fr", Language::English),
            ("zh-CN,zh;q=0.9,en;q=0.8", Language::Chinese),
            ("en;q=0.5, zh;q=0.4", Language::English),
            ("en;q=0.1, zh-TW;q=x, zh;q=0.4", Language::Chinese),
        ] {
            assert_eq!(Language::accepted(header), want, "{header}");
        }
        assert_eq!(Language::parse("zh-CN"), Some(Language::Chinese));
        assert_eq!(Language::parse("../x"), None);
    }

    #[test]
    fn every_key_has_words_in_each_language() {
        let all = catalogue();
        assert!(all.len() > 100, "the catalogue is not read: {}", all.len());
        for (key, words) in all {
            for text in words {
                assert!(!text.trim().is_empty(), "{key}");
            }
            let places = words.each_ref().map(|text| text.matches("{}").count());
            assert_eq!(places[0], places[1], "{key}");
        }
    }
}
