//! Names and sets of names: users, hosts, queues, jobs.
//!
//! Owns which names are legal and the small set languages `all ~u001 g1` (users) and `h+2 g
//! others+1 ~h3` (hosts with preferences). Never knows the members of a group: the caller provides
//! a closure for that.

use std::fmt;

use super::{ErrorKind, ParseError, hostlist, width};

/// Maximum length of the name of a host, queue, group, resource or user, in bytes.
pub const MAX_NAME: usize = 64;
/// Maximum length of a job name, in bytes.
pub const MAX_JOB_NAME: usize = 511;
/// Maximum host preference.
pub const MAX_PREFERENCE: u32 = 65_535;

/// Maximum length of the name of a user or of a group of the system, in bytes.
pub const MAX_USER_NAME: usize = 256;

const MAX_TEXT: usize = 64 * 1024;
const NAME_HINT: &str = "a name has 1 to 64 of A-Z a-z 0-9 _ . - and starts with neither - nor .";
const USER_HINT: &str =
    "the name of a user or group has 1 to 256 bytes: letters, digits and _ . - @ \\ $ + ^";

/// Accepts names of hosts, queues, groups, models and resources: `[A-Za-z0-9_.-]{1,64}`, not
/// starting with `-` or `.`.
///
/// # Errors
/// Says which character is not allowed, or that the name is empty or too long.
pub fn check_name(name: &str) -> Result<(), ParseError> {
    check(name, (MAX_NAME, NAME_HINT), |c| {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
    })
}

/// Accepts names of users and groups of the system, also those of directory services: letters and
/// digits of any language, `_ . - @ \ $ +`, and `^`, which may stand for a blank there.
///
/// # Errors
/// As [`check_name`].
pub fn check_user(name: &str) -> Result<(), ParseError> {
    if name.starts_with(['$', '+', '@', '\\', '^']) {
        return Err(ParseError::new(
            0,
            1,
            "a user name starts with a letter, a digit or _",
        ));
    }
    check(name, (MAX_USER_NAME, USER_HINT), |c| {
        c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '@' | '\\' | '$' | '+' | '^')
    })
}

fn check(
    name: &str,
    (most, hint): (usize, &str),
    legal: impl Fn(char) -> bool,
) -> Result<(), ParseError> {
    if name.is_empty() {
        return Err(ParseError::new(0, 0, "a name is missing").hint(hint));
    }
    if name.len() > most {
        return Err(ParseError::too_long("name", most, name.len()).hint(hint));
    }
    if name.starts_with(['-', '.']) {
        return Err(ParseError::new(0, 1, "a name cannot start with this character").hint(hint));
    }
    match name.char_indices().find(|(_, c)| !legal(*c)) {
        None => Ok(()),
        Some((at, c)) => {
            let shown = width::escape(&name[at..at + c.len_utf8()]).into_owned();
            Err(ParseError::new(
                at,
                c.len_utf8(),
                format!("'{shown}' is not allowed in a name"),
            )
            .hint(hint))
        }
    }
}

/// Whether an environment variable of a job may have this name: the name of a shell variable, or
/// of a function that bash exports (`BASH_FUNC_module%%`).
///
/// ```
/// use corral::text::names::is_variable;
/// assert!(is_variable("HOME") && is_variable("BASH_FUNC_module%%"));
/// assert!(!is_variable("odd-name") && !is_variable("BASH_FUNC_%%") && !is_variable("1A"));
/// ```
pub fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    let is_shell_name = bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_shell_name || exported_function(name).is_some()
}

/// The name of the function that bash exports in a variable of this name. Bash allows almost any
/// character in it: `module`, `ml.list`.
pub fn exported_function(variable: &str) -> Option<&str> {
    let name = variable.strip_prefix("BASH_FUNC_")?.strip_suffix("%%")?;
    let plain = |c: char| c.is_ascii_graphic() && c != '=' && c != '%';
    (!name.is_empty() && name.chars().all(plain)).then_some(name)
}

/// Accepts job names: any printable text of up to 511 bytes that is not only blanks. A name that
/// starts with `-` or climbs with `..` is refused, since users put names into paths and arguments.
///
/// # Errors
/// Says which character is not allowed, or that the name is blank or too long.
pub fn check_job_name(name: &str) -> Result<(), ParseError> {
    if name.trim().is_empty() {
        return Err(ParseError::new(0, name.len(), "a job name cannot be empty"));
    }
    if name.len() > MAX_JOB_NAME {
        return Err(ParseError::too_long("job name", MAX_JOB_NAME, name.len()));
    }
    if name.starts_with('-') {
        return Err(ParseError::new(0, 1, "a job name cannot start with -"));
    }
    if name.split('/').any(|part| part == "..") {
        let at = name.find("..").unwrap_or(0);
        return Err(ParseError::new(
            at,
            2,
            "a job name cannot contain the path element ..",
        ));
    }
    match name.char_indices().find(|(_, c)| width::is_hidden(*c)) {
        None => Ok(()),
        Some((at, c)) => {
            let shown = width::escape(&name[at..at + c.len_utf8()]).into_owned();
            Err(ParseError::new(
                at,
                c.len_utf8(),
                format!("'{shown}' is not allowed in a job name"),
            )
            .hint("leave out control characters and invisible marks"))
        }
    }
}

/// A set of users and groups: `all ~u001`, `u1 g1`, `none`.
///
/// ```
/// use corral::text::names::NameSet;
/// let set = NameSet::parse("all ~u001 ~g2").unwrap();
/// assert!(set.contains("u002", |_| false));
/// assert!(!set.contains("u001", |_| false));
/// assert!(!set.contains("u003", |group| group == "g2"));
/// assert_eq!(set.to_string(), "all ~u001 ~g2");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NameSet {
    /// The words in the order they were written.
    pub items: Vec<NameItem>,
}

/// One word of a [`NameSet`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameItem {
    /// Written with `~`: excluded from the set.
    pub exclude: bool,
    /// `all`, or the name of a user or group.
    pub name: String,
}

impl NameSet {
    /// Parses words separated by blanks or commas. The empty text and `none` are the empty set.
    ///
    /// # Errors
    /// Names the word that is wrong, with its column.
    pub fn parse(text: &str) -> Result<NameSet, ParseError> {
        check_length(text)?;
        NameSet::parse_stored(text)
    }

    /// As [`NameSet::parse`] for printed text, without its limit of length.
    ///
    /// # Errors
    /// As [`NameSet::parse`].
    pub fn parse_stored(text: &str) -> Result<NameSet, ParseError> {
        let mut set = NameSet::default();
        let words = hostlist::split(text);
        for (at, word) in &words {
            let (exclude, name, skip) = match word.strip_prefix('~') {
                Some(rest) => (true, rest, 1),
                None => (false, *word, 0),
            };
            // Groups are printed with a trailing slash, so it is accepted.
            let name = name.strip_suffix('/').unwrap_or(name);
            if name == "none" {
                only_none(words.len(), *at, word)?;
                return Ok(set);
            }
            check_user(name).map_err(|e| e.shifted(at + skip))?;
            if exclude && name == "all" {
                return Err(ParseError::new(*at, word.len(), "~all excludes everyone")
                    .hint("write none for the empty set"));
            }
            set.items.push(NameItem {
                exclude,
                name: name.to_owned(),
            });
        }
        only_excluded(words.first(), set.items.iter().all(|i| i.exclude))?;
        Ok(set)
    }

    /// True when the set is empty.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// True if `name` is in the set: listed itself or by a group or by `all`, and not excluded.
    /// `in_group` returns whether `name` is a member of a group; for unknown groups it returns
    /// false.
    pub fn contains(&self, name: &str, mut in_group: impl FnMut(&str) -> bool) -> bool {
        let mut found = false;
        for item in &self.items {
            let hit = item.name == "all" || item.name == name || in_group(&item.name);
            if hit && item.exclude {
                return false;
            }
            found |= hit;
        }
        found
    }
}

impl fmt::Display for NameSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.items.is_empty() {
            return f.write_str("none");
        }
        for (n, item) in self.items.iter().enumerate() {
            let blank = if n > 0 { " " } else { "" };
            let tilde = if item.exclude { "~" } else { "" };
            write!(f, "{blank}{tilde}{}", item.name)?;
        }
        Ok(())
    }
}

/// A set of hosts and host groups with preferences: `h+2 g others+1 ~h3`, `all`, `none`.
///
/// Host ranges `n[01-64]+2` are expanded when parsed and folded again when printed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostSet {
    /// The words in the order they were written.
    pub items: Vec<HostItem>,
}

/// One word of a [`HostSet`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostItem {
    /// Written with `~`: excluded from the set.
    pub exclude: bool,
    /// `all`, `others`, or the name of a host or group.
    pub name: String,
    /// The number after `+`; default 0. Hosts with a higher number are tried first.
    pub preference: u32,
}

impl HostSet {
    /// Parses words separated by blanks or commas. The empty text and `none` are the empty set.
    ///
    /// ```
    /// use corral::text::names::HostSet;
    /// let set = HostSet::parse("n[1-3]+2 others ~n2").unwrap();
    /// assert_eq!(set.preference("n3", |_| false), Some(2));
    /// assert_eq!(set.preference("x", |_| false), Some(0));
    /// assert_eq!(set.preference("n2", |_| false), None);
    /// ```
    ///
    /// # Errors
    /// Names the word that is wrong, with its column.
    pub fn parse(text: &str) -> Result<HostSet, ParseError> {
        check_length(text)?;
        HostSet::parse_stored(text)
    }

    /// As [`HostSet::parse`] for printed text, in which ranges may be expanded and longer than
    /// users may write.
    ///
    /// # Errors
    /// As [`HostSet::parse`].
    pub fn parse_stored(text: &str) -> Result<HostSet, ParseError> {
        let mut set = HostSet::default();
        let words = hostlist::split(text);
        for (at, word) in &words {
            let (exclude, rest, skip) = match word.strip_prefix('~') {
                Some(rest) => (true, rest, 1),
                None => (false, *word, 0),
            };
            if rest == "none" {
                only_none(words.len(), *at, word)?;
                return Ok(set);
            }
            let (name, preference) = split_preference(rest, at + skip)?;
            let name = name.strip_suffix('/').unwrap_or(name);
            if exclude && (preference != 0 || matches!(name, "all" | "others")) {
                return Err(
                    ParseError::new(*at, word.len(), format!("{word} excludes nothing"))
                        .hint("write ~ before a host or group, without a preference"),
                );
            }
            for name in hostlist::expand(name).map_err(|e| e.shifted(at + skip))? {
                if set.items.len() == hostlist::MAX_HOSTS {
                    let message = format!("more than {} hosts", hostlist::MAX_HOSTS);
                    let error = ParseError::new(*at, word.len(), message);
                    return Err(error.kind(ErrorKind::TooMany));
                }
                set.items.push(HostItem {
                    exclude,
                    name,
                    preference,
                });
            }
        }
        only_excluded(words.first(), set.items.iter().all(|i| i.exclude))?;
        Ok(set)
    }

    /// True if no host is in the set.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The preference of `host`; `None` if it is not in the set. It is the highest of all words
    /// that name the host or one of its groups; `all` and `others` apply to hosts that no other
    /// word names. `in_group` returns whether `host` is a member of a group.
    pub fn preference(&self, host: &str, mut in_group: impl FnMut(&str) -> bool) -> Option<u32> {
        let mut named = None;
        let mut general = None;
        for item in &self.items {
            if matches!(item.name.as_str(), "all" | "others") {
                general = general.max(Some(item.preference));
            } else if item.name == host || in_group(&item.name) {
                if item.exclude {
                    return None;
                }
                named = named.max(Some(item.preference));
            }
        }
        named.or(general)
    }
}

impl fmt::Display for HostSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.items.is_empty() {
            return f.write_str("none");
        }
        let mut first = true;
        for chunk in self
            .items
            .chunk_by(|a, b| (a.exclude, a.preference) == (b.exclude, b.preference))
        {
            for name in hostlist::fold_words(chunk.iter().map(|i| i.name.as_str())) {
                let blank = if first { "" } else { " " };
                let tilde = if chunk[0].exclude { "~" } else { "" };
                write!(f, "{blank}{tilde}{name}")?;
                if chunk[0].preference > 0 {
                    write!(f, "+{}", chunk[0].preference)?;
                }
                first = false;
            }
        }
        Ok(())
    }
}

super::serde_by_text!(NameSet, NameSet::parse_stored);
super::serde_by_text!(HostSet, HostSet::parse_stored);

fn split_preference(word: &str, at: usize) -> Result<(&str, u32), ParseError> {
    let Some(plus) = word.find('+') else {
        return Ok((word, 0));
    };
    let (name, number) = (&word[..plus], &word[plus + 1..]);
    if number.is_empty() {
        return Ok((name, 1));
    }
    let value = number
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| number.parse::<u32>().ok())
        .flatten()
        .filter(|v| *v <= MAX_PREFERENCE);
    match value {
        Some(value) => Ok((name, value)),
        None => Err(
            ParseError::new(at + plus + 1, number.len(), "a preference is a number")
                .hint(format!("write 0 to {MAX_PREFERENCE}, for example {name}+2")),
        ),
    }
}

fn check_length(text: &str) -> Result<(), ParseError> {
    if text.len() > MAX_TEXT {
        return Err(ParseError::too_long("name list", MAX_TEXT, text.len()));
    }
    Ok(())
}

fn only_none(count: usize, at: usize, word: &str) -> Result<(), ParseError> {
    if count == 1 && word == "none" {
        return Ok(());
    }
    Err(
        ParseError::new(at, word.len(), "none cannot be combined with other names")
            .hint("leave out the other names"),
    )
}

fn only_excluded(first: Option<&(usize, &str)>, all_excluded: bool) -> Result<(), ParseError> {
    match first {
        Some((at, word)) if all_excluded => {
            Err(
                ParseError::new(*at, word.len(), "~ has nothing to exclude from")
                    .hint(format!("write all {word}")),
            )
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names() {
        for good in ["a", "node-1.lan", "_x", "9", &"a".repeat(64)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "-rf",
            ".x",
            "../x",
            "a b",
            "a\n",
            "é",
            "a/b",
            &"a".repeat(65),
        ] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        for good in [
            "DOM\\joe@corp",
            "corp\\domain^users",
            "jürgen.müller",
            "用户",
            &"a".repeat(256),
        ] {
            assert!(check_user(good).is_ok(), "{good}");
        }
        for bad in [
            "$x",
            "^x",
            "domain users",
            "a,b",
            "a/b",
            "a\u{202e}b",
            &"a".repeat(257),
        ] {
            assert!(check_user(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn job_names() {
        for good in [
            "作业 一",
            "sleep 10",
            "a[b",
            "a/b",
            "x..y",
            &"a".repeat(511),
        ] {
            assert!(check_job_name(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "  ",
            "a\nb",
            "../x",
            "-rf",
            "a\u{202e}",
            "\0",
            &"a".repeat(512),
        ] {
            assert!(check_job_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn name_sets() {
        assert!(NameSet::parse("none").expect("parses").is_empty());
        assert!(NameSet::parse("").expect("parses").is_empty());
        let set = NameSet::parse("u1, g1/").expect("parses");
        assert!(set.contains("u9", |g| g == "g1") && !set.contains("u9", |_| false));
        for bad in ["~u1", "none u1", "all ~all", "u1 ~", "all ~none", "a*"] {
            assert!(NameSet::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(NameSet::parse("all ~a*").unwrap_err().at, 6);
    }

    #[test]
    fn host_sets() {
        let set = HostSet::parse("h+2 g others+1 ~h3").expect("parses");
        let in_g = |host: &'static str| move |g: &str| g == "g" && host == "m";
        assert_eq!(set.preference("h", in_g("h")), Some(2));
        assert_eq!(set.preference("m", in_g("m")), Some(0));
        assert_eq!(set.preference("z", in_g("z")), Some(1));
        assert_eq!(set.preference("h3", in_g("h3")), None);
        assert_eq!(HostSet::parse("h+").expect("parses").items[0].preference, 1);
        for bad in [
            "~h",
            "h+x",
            "h+99999",
            "~h+1 all",
            "none h",
            "n[1-",
            "all ~others",
            "h+-1",
        ] {
            assert!(HostSet::parse(bad).is_err(), "{bad}");
        }
        let folded = HostSet::parse("n[01-03]+2,n05+2 x").expect("parses");
        assert_eq!(folded.to_string(), "n[01-03,05]+2 x");
    }

    #[test]
    fn a_stored_set_may_be_longer_than_a_typed_one() {
        let set = HostSet::parse("n[1-20000]r1").expect("parses");
        let json = serde_json::to_string(&set).expect("serializes");
        assert!(json.len() > MAX_TEXT);
        assert_eq!(serde_json::from_str::<HostSet>(&json).expect("reads"), set);
    }

    proptest! {
        #![proptest_config(super::super::cases())]
        #[test]
        fn printed_sets_read_back(s in "(all |others |g[1-3] )?(~?[a-c][0-9]{0,2}(\\+[0-9])? ?){0,6}") {
            if let Ok(set) = HostSet::parse(&s) {
                prop_assert_eq!(HostSet::parse(&set.to_string()), Ok(set));
            }
            if let Ok(set) = NameSet::parse(&s) {
                prop_assert_eq!(NameSet::parse(&set.to_string()), Ok(set));
            }
        }

        #[test]
        fn never_panics(s in ".{0,60}", t in "[~a-c0-9+\\[\\], -]{0,30}") {
            for text in [&s, &t] {
                let _ = (NameSet::parse(text), HostSet::parse(text));
                let _ = (check_name(text), check_user(text), check_job_name(text));
            }
        }
    }
}
