//! Compares the catalogue of words with the keys that templates and sources name.

use std::collections::BTreeSet;
use std::path::Path;

fn texts(dir: &str, ending: &str, out: &mut String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().ends_with(ending) {
            out.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

/// Every quoted text that looks like a key.
fn quoted(text: &str) -> BTreeSet<String> {
    let is_key = |word: &&str| {
        let letters = word
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b == b'_' || b == b'.');
        letters && !word.is_empty()
    };
    text.split('"').filter(is_key).map(str::to_owned).collect()
}

#[test]
fn no_key_is_missing_and_none_is_unused() {
    let mut text = String::new();
    texts("templates", ".html", &mut text);
    texts("pages", ".rs", &mut text);
    texts(".", ".rs", &mut text);
    let named = quoted(&text);
    let all: std::collections::BTreeMap<String, [String; 2]> =
        serde_yaml::from_str(corral_web::translations::CATALOGUE).unwrap();
    // Keys that are composed: of actions, and of the members of the dry run's answer.
    let made = |key: &str| key.starts_with("act.") || key.starts_with("check.");
    let unused: Vec<&String> = all
        .keys()
        .filter(|k| !named.contains(*k) && !made(k))
        .collect();
    assert!(unused.is_empty(), "unused: {unused:?}");
    let rooms: BTreeSet<&str> = all
        .keys()
        .filter_map(|key| Some(key.split_once('.')?.0))
        .collect();
    let is_word = |key: &&String| {
        let room = key.split_once('.').map(|(room, _)| room);
        room.is_some_and(|room| rooms.contains(room)) && !key.ends_with(".html")
    };
    let missing: Vec<&String> = named
        .iter()
        .filter(is_word)
        .filter(|k| !all.contains_key(*k))
        .collect();
    assert!(missing.is_empty(), "missing: {missing:?}");
    for act in corral_web::identity::JobAction::ALL {
        assert!(all.contains_key(&format!("act.{}", act.word())), "{act:?}");
    }
}

/// Words that a template contains itself would not be translated.
#[test]
fn templates_hold_no_words_of_their_own() {
    let mut text = String::new();
    texts("templates", ".html", &mut text);
    let mut plain = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find(['<', '{']) {
        plain.push_str(&rest[..at]);
        let end = match &rest[at..] {
            part if part.starts_with("{{") => part.find("}}").map(|e| e + 2),
            part if part.starts_with("{%") => part.find("%}").map(|e| e + 2),
            part => part.find('>').map(|e| e + 1),
        };
        rest = &rest[at + end.unwrap_or(1)..];
        plain.push('\n');
    }
    plain.push_str(rest);
    // Names of programs, units and resources are the same in each language.
    let same = ["Corral", "cb", "login", "PID", "r1m", "ut"];
    for word in plain
        .split(|c: char| !c.is_alphanumeric())
        .filter(|w| w.len() > 1)
    {
        let is_number = word.bytes().all(|b| b.is_ascii_digit());
        assert!(same.contains(&word) || is_number, "{word}");
    }
}
