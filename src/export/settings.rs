//! `export.yaml`: where documents go and how.
//!
//! Owns the keys, their defaults and limits. Files that it names are read when they are needed, so
//! a password can be changed while the program runs.

use corral::spool::Site;
use corral::sys;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Maximum size of `export.yaml`, and of a file with a password or certificates.
const FILE_MAX: u64 = 1 << 20;
/// The state directory of root's exporter if neither `state_dir` nor CB_LOCAL is set.
const ROOT_STATE: &str = "/var/lib/corral/export";

/// One address or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Urls {
    One(String),
    Several(Vec<String>),
}

/// The file as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsFile {
    url: Urls,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    password_file: Option<PathBuf>,
    #[serde(default)]
    api_key_file: Option<PathBuf>,
    #[serde(default)]
    ca_file: Option<PathBuf>,
    #[serde(default)]
    index_prefix: Option<String>,
    #[serde(default)]
    state_dir: Option<PathBuf>,
    #[serde(default)]
    send: Option<Vec<String>>,
    #[serde(default)]
    interval_s: Option<u64>,
    #[serde(default)]
    load_interval_s: Option<u64>,
    #[serde(default)]
    batch_documents: Option<u64>,
    #[serde(default)]
    batch_kb: Option<u64>,
    #[serde(default)]
    timeout_s: Option<u64>,
    #[serde(default)]
    pause_max_s: Option<u64>,
    #[serde(default)]
    rejected_max_mb: Option<u64>,
}

/// How the exporter identifies itself to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Login {
    Anonymous,
    /// A user and the file of the password.
    User(String, PathBuf),
    /// The file of an API key, encoded as Elasticsearch returns it.
    Key(PathBuf),
}

/// How to reach the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Connection {
    /// Without a slash at the end; at least one.
    pub urls: Vec<String>,
    pub login: Login,
    pub ca_file: Option<PathBuf>,
    pub timeout_s: u64,
}

/// Which kinds of documents are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds {
    pub events: bool,
    pub accounting: bool,
    pub hosts: bool,
}

/// All settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub connection: Connection,
    pub prefix: String,
    pub state_dir: PathBuf,
    pub kinds: Kinds,
    pub interval_s: u64,
    pub load_interval_s: u64,
    pub batch_documents: usize,
    pub batch_bytes: usize,
    pub pause_max_s: u64,
    pub rejected_max_bytes: u64,
}

/// The file beside cb.yaml, if no other one is given.
pub(super) fn default_path(site: &Site) -> PathBuf {
    site.layout().conf_dir().join("export.yaml")
}

impl Settings {
    /// Reads the file.
    pub(super) fn read(path: &Path, site: &Site) -> Result<Settings, String> {
        let bytes = sys::fs::read_small(path, FILE_MAX).map_err(|e| {
            let hint = match e.is_not_found() {
                true => {
                    "\nhint: create it, or name another one by --config; cb-export(8) has the keys"
                }
                false => "",
            };
            format!("{e}{hint}")
        })?;
        let text =
            String::from_utf8(bytes).map_err(|_| format!("{}: not UTF-8 text", path.display()))?;
        Settings::parse(&text, site).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// Reads the text of the file.
    pub(super) fn parse(text: &str, site: &Site) -> Result<Settings, String> {
        if text.trim().is_empty() {
            return Err("it is empty; url at least is needed".to_owned());
        }
        let w: SettingsFile = serde_yaml::from_str(text).map_err(|e| e.to_string())?;
        let bounded = |name, value: Option<u64>, default, least, most| match value {
            None => Ok(default),
            Some(n) if (least..=most).contains(&n) => Ok(n),
            Some(n) => Err(format!(
                "{name}: {n} is not a number from {least} to {most}"
            )),
        };
        let timeout_s = bounded("timeout_s", w.timeout_s, 60, 1, 3600)?;
        let batch_kb = bounded("batch_kb", w.batch_kb, 5000, 16, 100_000)?;
        let documents = bounded("batch_documents", w.batch_documents, 1000, 1, 100_000)?;
        let rejected_mb = bounded("rejected_max_mb", w.rejected_max_mb, 16, 1, 10_000)?;
        let login = login(w.user, w.password_file, w.api_key_file)?;
        let to_usize = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Ok(Settings {
            connection: Connection {
                urls: urls(w.url)?,
                login,
                ca_file: w.ca_file.map(|p| absolute("ca_file", p)).transpose()?,
                timeout_s,
            },
            prefix: prefix(w.index_prefix)?,
            state_dir: match w.state_dir {
                Some(dir) => absolute("state_dir", dir)?,
                None => default_state(site),
            },
            kinds: kinds(w.send)?,
            interval_s: bounded("interval_s", w.interval_s, 2, 1, 3600)?,
            load_interval_s: bounded("load_interval_s", w.load_interval_s, 60, 5, 86_400)?,
            batch_documents: to_usize(documents),
            batch_bytes: to_usize(batch_kb * 1024),
            pause_max_s: bounded("pause_max_s", w.pause_max_s, 60, 1, 3600)?,
            rejected_max_bytes: rejected_mb << 20,
        })
    }
}

fn default_state(site: &Site) -> PathBuf {
    match &site.local {
        Some(dir) => dir.join("export"),
        None => PathBuf::from(ROOT_STATE),
    }
}

fn absolute(key: &str, path: PathBuf) -> Result<PathBuf, String> {
    match path.is_absolute() {
        true => Ok(path),
        false => Err(format!(
            "{key}: '{}' is not an absolute path",
            path.display()
        )),
    }
}

fn urls(urls: Urls) -> Result<Vec<String>, String> {
    let urls = match urls {
        Urls::One(url) => vec![url],
        Urls::Several(urls) => urls,
    };
    if urls.is_empty() || urls.len() > 100 {
        return Err("url: 1 to 100 addresses are needed".to_owned());
    }
    let urls = urls.into_iter().map(|url| {
        let rest = url.strip_prefix("https://").or(url.strip_prefix("http://"));
        let Some(rest) = rest.filter(|rest| !rest.is_empty() && !rest.starts_with('/')) else {
            return Err(format!(
                "url: '{url}' does not begin with https://HOST or http://HOST"
            ));
        };
        if rest.contains(['@', '?', '#', ' ']) {
            return Err(format!(
                "url: '{url}' has more than host, port and path; user and password have their own \
                 keys"
            ));
        }
        Ok(url.trim_end_matches('/').to_owned())
    });
    urls.collect()
}

fn prefix(prefix: Option<String>) -> Result<String, String> {
    let prefix = prefix.unwrap_or_else(|| "corral".to_owned());
    let fits =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.');
    let begins = prefix
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    match begins && prefix.len() <= 100 && prefix.bytes().all(fits) {
        true => Ok(prefix),
        false => Err(format!(
            "index_prefix: '{prefix}' is not made of lower-case letters, digits and . _ -, \
             a letter or digit first, at most 100"
        )),
    }
}

fn kinds(send: Option<Vec<String>>) -> Result<Kinds, String> {
    let Some(send) = send else {
        return Ok(Kinds {
            events: true,
            accounting: true,
            hosts: true,
        });
    };
    let known = ["events", "accounting", "hosts"];
    if let Some(word) = send.iter().find(|word| !known.contains(&word.as_str())) {
        return Err(format!(
            "send: '{word}' is none of events, accounting, hosts"
        ));
    }
    if send.is_empty() {
        return Err("send: nothing is to be sent".to_owned());
    }
    let has = |word: &str| send.iter().any(|w| w == word);
    Ok(Kinds {
        events: has("events"),
        accounting: has("accounting"),
        hosts: has("hosts"),
    })
}

fn login(
    user: Option<String>,
    password_file: Option<PathBuf>,
    api_key_file: Option<PathBuf>,
) -> Result<Login, String> {
    match (user, password_file, api_key_file) {
        (None, None, None) => Ok(Login::Anonymous),
        (Some(user), Some(file), None) if !user.is_empty() && !user.contains(':') => {
            Ok(Login::User(user, absolute("password_file", file)?))
        }
        (None, None, Some(file)) => Ok(Login::Key(absolute("api_key_file", file)?)),
        _ => Err("give user and password_file, or api_key_file, or none of them".to_owned()),
    }
}

/// Reads a password or key: the first line of a file that only its owner can read.
pub(super) fn secret(path: &Path) -> Result<String, String> {
    let text = |e: sys::Error| e.to_string();
    let stat = sys::fs::stat(path).map_err(text)?;
    if let Some(stat) = stat.filter(|stat| stat.mode & 0o077 != 0) {
        return Err(format!(
            "{}: other users can read it (mode {:03o})\nhint: chmod 600",
            path.display(),
            stat.mode & 0o777
        ));
    }
    let bytes = sys::fs::read_small(path, FILE_MAX).map_err(text)?;
    let all = String::from_utf8(bytes).map_err(|_| format!("{}: not text", path.display()))?;
    match all.lines().next().map(str::trim_end) {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(format!("{}: its first line is empty", path.display())),
    }
}

/// Reads a file of certificates.
pub(super) fn certificates(path: &Path) -> Result<Vec<u8>, String> {
    sys::fs::read_small(path, FILE_MAX).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn site() -> Site {
        let conf = "CB_SHARE=/share\nCB_LOCAL=/local\n";
        Site::from_conf(Path::new("/e/cb.conf"), conf, None).unwrap()
    }

    #[test]
    fn defaults_are_filled_in() {
        let s = Settings::parse("url: https://es:9200/\n", &site()).unwrap();
        assert_eq!(s.connection.urls, ["https://es:9200"]);
        assert_eq!(
            (s.prefix.as_str(), s.connection.login),
            ("corral", Login::Anonymous)
        );
        assert_eq!(s.state_dir, Path::new("/local/export"));
        assert!(s.kinds.events && s.kinds.accounting && s.kinds.hosts);
        assert_eq!((s.batch_documents, s.batch_bytes), (1000, 5_120_000));
        let text = "url: [http://a, http://b/es]\nuser: u\npassword_file: /p\nsend: [events]\n";
        let s = Settings::parse(text, &site()).unwrap();
        assert_eq!(s.connection.urls, ["http://a", "http://b/es"]);
        assert_eq!(s.connection.login, Login::User("u".into(), "/p".into()));
        assert!(s.kinds.events && !s.kinds.hosts);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("", "url"),
            ("url: es:9200", "does not begin with https://HOST"),
            ("url: []", "1 to 100"),
            ("url: https://u:p@es", "their own keys"),
            ("url: http://a\nusr: x", "usr"),
            ("url: http://a\nuser: x", "password_file"),
            (
                "url: http://a\nuser: x\npassword_file: p",
                "not an absolute path",
            ),
            ("url: http://a\nindex_prefix: Cor", "index_prefix"),
            ("url: http://a\nsend: [loads]", "'loads' is none of"),
            ("url: http://a\nsend: []", "nothing is to be sent"),
            (
                "url: http://a\ninterval_s: 0",
                "interval_s: 0 is not a number from 1",
            ),
            ("url: http://a\nbatch_kb: many", "batch_kb"),
            ("url: http://a\nstate_dir: x", "state_dir"),
        ] {
            let why = Settings::parse(text, &site()).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_chinese() {
        let is_chinese = |c: char| ('\u{4e00}'..='\u{9fff}').contains(&c);
        for text in [
            "",
            "url: es:9200",
            "url: []",
            "url: https://u:p@es",
            "url: http://a\nuser: x",
            "url: http://a\nuser: x\npassword_file: p",
            "url: http://a\nindex_prefix: Cor",
            "url: http://a\nsend: [loads]",
            "url: http://a\nsend: []",
            "url: http://a\ninterval_s: 0",
            "url: http://a\nstate_dir: x",
        ] {
            let why = Settings::parse(text, &site()).expect_err(text);
            let why = format!("cb-export: /e/export.yaml: {why}");
            let translated = corral::api::Language::Chinese.translate(&why).into_owned();
            let rest = translated.strip_prefix("cb-export: /e/export.yaml: ");
            let rest = rest.unwrap_or_else(|| panic!("{translated}"));
            assert!(
                rest.contains(is_chinese) && !rest.contains(" is "),
                "{translated}"
            );
        }
    }

    #[test]
    fn a_secret_that_others_may_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "abc \nmore\n").unwrap();
        sys::fs::chmod(&path, 0o644).unwrap();
        assert!(secret(&path).unwrap_err().contains("chmod 600"));
        sys::fs::chmod(&path, 0o600).unwrap();
        assert_eq!(secret(&path), Ok("abc".into()));
        std::fs::write(&path, "\n").unwrap();
        assert!(secret(&path).is_err());
    }
}
