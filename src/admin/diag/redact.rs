//! Redaction of a bundle: names become aliases, foreign paths and secrets are removed.
//!
//! Knows the names of users, groups, hosts and the cluster from the view, cb.yaml and the share.
//! Removes all free text that users wrote (comments, descriptions, commands).

use crate::client::env::Site;
use crate::config;
use crate::spool::Layout;
use crate::spool::view::ViewReader;
use crate::sys;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// Keys of cb.yaml whose values are never shown.
const SECRET: &[&str] = &[
    "password",
    "passwd",
    "secret",
    "token",
    "credential",
    "api_key",
];
/// Keys of cb.yaml whose values are commands or texts of the site.
const OWN_WORDS: &[&str] = &[
    "description",
    "command",
    "cmd",
    "script",
    "exec",
    "mail",
    "interface",
    "program",
    "starter",
    "hook",
];
/// Directories below which paths are shown.
const OPEN_PATHS: &[&str] = &[
    "/proc",
    "/sys",
    "/dev",
    "/etc/corral",
    "/usr/lib/systemd",
    "/run/systemd",
];
/// Fields of an event that contain no free text.
const EVENT_FIELDS: &[&str] = &[
    "k",
    "j",
    "at",
    "t",
    "id",
    "s",
    "e",
    "epoch",
    "segment",
    "bytes",
    "next_seq",
    "pid",
    "hosts",
    "alt",
    "forced",
    "code",
    "sig",
    "core",
    "oom",
    "reason",
    "start",
    "requeue",
    "hold",
    "held",
    "admin",
    "act",
    "on",
    "up",
    "boot",
    "array",
    "array_limit",
    "above",
    "order",
    "line",
    "ids",
    "digest",
    "cpu_ms",
    "mem_kb",
    "maxmem_kb",
];
/// Names that occur in every cluster and need no alias.
const COMMON: &[&str] = &[
    "all",
    "default",
    "none",
    "others",
    "root",
    "localhost",
    "-",
    "",
];

/// Replaces what must not leave the site.
#[derive(Default)]
pub(super) struct Redactor {
    names: HashMap<String, String>,
    /// Paths below these are kept, others become `[path]`; empty: all are kept.
    open: Vec<String>,
}

impl Redactor {
    /// A redactor that hides no names: `--names`. Secrets and free text are removed in any case.
    pub(super) fn open() -> Redactor {
        Redactor::default()
    }

    /// A redactor that knows the names of a cluster.
    pub(super) fn of(site: &Site, layout: &Layout) -> Redactor {
        let mut kinds: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let mut add = |kind: &'static str, name: &str| {
            let name = name.trim_end_matches('/');
            if !COMMON.contains(&name) {
                kinds.entry(kind).or_default().insert(name.to_owned());
            }
        };
        add("user", &sys::users::current_user().name);
        add("host", &sys::host::hostname());
        add("host", &site.host);
        let hosts = sys::fs::list_dir(&layout.hosts(), 100_000).unwrap_or_default();
        hosts
            .iter()
            .filter_map(|e| e.text())
            .for_each(|h| add("host", h));
        let view = ViewReader::new(layout);
        if let Ok(params) = view.params() {
            add("cluster", &params.cluster);
            params.administrators.iter().for_each(|u| add("user", u));
            for (group, members, _) in &params.user_groups {
                add("group", group);
                members.iter().for_each(|u| add("user", u));
            }
            params
                .host_groups
                .iter()
                .for_each(|(g, _)| add("hostgroup", g));
        }
        for user in view.users().unwrap_or_default() {
            add(if user.group { "group" } else { "user" }, &user.name);
        }
        for uid in sys::fs::list_dir(&layout.inbox(), 100_000).unwrap_or_default() {
            let uid = uid.text().and_then(|t| t.parse().ok());
            if let Some(user) = uid.and_then(sys::users::by_uid) {
                add("user", &user.name);
            }
        }
        if let Ok(bytes) = sys::fs::read_small(&layout.config(), config::MAX_BYTES as u64)
            && let Ok(loaded) = config::load(&bytes, "cb.yaml", &config::OsNames::ANY)
        {
            loaded.config.host_names().for_each(|h| add("host", h));
            add("cluster", &loaded.config.cluster.name);
        }
        let share = layout.root().display().to_string();
        let mut open: Vec<String> = OPEN_PATHS.iter().map(|p| (*p).to_owned()).collect();
        open.push(share);
        open.extend(site.local.iter().map(|p| p.display().to_string()));
        Redactor::new(kinds, open)
    }

    fn new(kinds: BTreeMap<&str, BTreeSet<String>>, open: Vec<String>) -> Redactor {
        let mut names = HashMap::new();
        // A name gets a single alias: that of the first kind in which it occurs.
        for (kind, all) in kinds {
            for (n, name) in all.into_iter().enumerate() {
                names
                    .entry(name)
                    .or_insert_with(|| format!("{kind}{}", n + 1));
            }
        }
        Redactor { names, open }
    }

    /// A text with names replaced by aliases, and without foreign paths.
    pub(super) fn text(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if c == '/' && !self.open.is_empty() {
                let end = rest.find(ends_path).unwrap_or(rest.len());
                self.path(&rest[..end], &mut out);
                rest = &rest[end..];
            } else if in_word(c) {
                let end = rest.find(|c| !in_word(c)).unwrap_or(rest.len());
                self.redact_word(&rest[..end], &mut out);
                rest = &rest[end..];
            } else {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        out
    }

    fn path(&self, path: &str, out: &mut String) {
        let below = |root: &String| Path::new(path).starts_with(root);
        match self.open.iter().find(|root| below(root)) {
            _ if path.len() < 2 || !path[1..].contains('/') && path.len() < 6 => out.push_str(path),
            Some(root) => {
                // Names of hosts and users occur below the share.
                let mut rest = path;
                if !OPEN_PATHS.contains(&root.as_str()) {
                    out.push_str("[share]");
                    // Compared by parts, because either path may contain redundant slashes.
                    let below = Path::new(path).strip_prefix(root);
                    rest = below.ok().and_then(Path::to_str).unwrap_or_default();
                    out.push_str(if rest.is_empty() { "" } else { "/" });
                }
                for (n, part) in rest.split('/').enumerate() {
                    if n > 0 {
                        out.push('/');
                    }
                    self.redact_word(part, out);
                }
            }
            None => out.push_str("[path]"),
        }
    }

    /// Appends a word, or its parts between dots and dashes: `cbexe.h1.log`, `h1.example.com`.
    fn redact_word(&self, word: &str, out: &mut String) {
        if let Some(alias) = self.names.get(word) {
            return out.push_str(alias);
        }
        let mut rest = word;
        while !rest.is_empty() {
            let end = rest.find(['.', '-', '@', ':']).unwrap_or(rest.len());
            let part = &rest[..end];
            out.push_str(self.names.get(part).map_or(part, String::as_str));
            rest = &rest[end..];
            if let Some(c) = rest.chars().next() {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }

    /// cb.yaml without comments, secrets, free texts and commands.
    pub(super) fn config(&self, text: &str) -> String {
        let mut out = String::new();
        // Lines indented more than this belong to a removed value.
        let mut hidden: Option<usize> = None;
        for line in text.lines() {
            let bare = line.trim_start();
            let depth = line.len() - bare.len();
            if bare.is_empty() || bare.starts_with('#') {
                continue;
            }
            if hidden.is_some_and(|at| depth > at) {
                continue;
            }
            hidden = None;
            // Removes a comment after a value; for a # inside quotes this only removes the rest of
            // the line.
            let line = line.split(" #").next().unwrap_or(line);
            match private_key(line) {
                Some(at) => {
                    hidden = Some(depth);
                    out.push_str(&self.text(&line[..at]));
                    out.push_str(": [removed]\n");
                }
                None => {
                    out.push_str(&self.text(line));
                    out.push('\n');
                }
            }
        }
        out
    }
}

/// The end of the key in a line whose value must not be shown; also inside `{key: value}`.
fn private_key(line: &str) -> Option<usize> {
    for (at, _) in line.match_indices(':') {
        let key = line[..at].trim_end_matches(['"', '\'']);
        let from = key
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
            .map_or(0, |n| n + 1);
        let key = key[from..].to_lowercase();
        let private = SECRET.iter().any(|s| key.contains(s))
            || OWN_WORDS
                .iter()
                .any(|w| key.split('_').any(|part| part == *w));
        if private {
            return Some(at);
        }
    }
    None
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '@')
}

fn ends_path(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';' | ')' | '(' | ']' | '}' | ':')
}

/// An event without texts written by users.
pub(super) fn event(json: &[u8]) -> String {
    let Ok(Value::Object(all)) = serde_json::from_slice::<Value>(json) else {
        return "{}".to_owned();
    };
    let known = |name: &String| EVENT_FIELDS.contains(&name.as_str());
    let keep: Map<String, Value> = all.into_iter().filter(|(name, _)| known(name)).collect();
    // A specification contains a user's request, so it is removed.
    let keep = match keep.get("k").and_then(Value::as_str) {
        Some("spec") => keep
            .into_iter()
            .filter(|(n, _)| n == "k" || n == "id")
            .collect(),
        _ => keep,
    };
    Value::Object(keep).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor() -> Redactor {
        let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        let kinds = BTreeMap::from([
            ("user", set(&["alice", "bob"])),
            ("host", set(&["h1", "node7"])),
        ]);
        Redactor::new(kinds, vec!["/mnt/share".to_owned(), "/proc".to_owned()])
    }

    #[test]
    fn names_become_aliases_wherever_they_stand() {
        let h = redactor();
        assert_eq!(
            h.text("alice on node7.example.com, bob@h1: alices bobby"),
            "user1 on host2.example.com, user2@host1: alices bobby"
        );
        assert_eq!(h.text("cbexe.h1.log"), "cbexe.host1.log");
        assert_eq!(
            h.text("cannot open /data/alice/x: and /mnt/share/hosts/h1/load.yaml:12 /proc/1/stat"),
            "cannot open [path]: and [share]/hosts/host1/load.yaml:12 /proc/1/stat"
        );
        assert_eq!(
            Redactor::open().text("alice /data/alice"),
            "alice /data/alice"
        );
    }

    #[test]
    fn a_share_written_with_more_slashes_is_the_same_share() {
        for share in ["/mnt/share/", "/mnt//share", "/mnt/share/."] {
            let h = Redactor::new(BTreeMap::new(), vec![share.to_owned()]);
            assert_eq!(h.text("/mnt/share"), "[share]", "{share}");
            assert_eq!(h.text("/mnt/share/"), "[share]", "{share}");
            assert_eq!(h.text("/mnt/share//jobs/x"), "[share]/jobs/x", "{share}");
            assert_eq!(h.text("/mnt/shared/jobs"), "[path]", "{share}");
        }
    }

    #[test]
    fn secrets_sentences_commands_and_comments_leave_the_configuration() {
        let text = "\
# the boss is alice
cluster:
  name: c1  # ours
  administrators: alice
queues:
  - name: normal
    description: for the people of Acme
    pre_exec: /opt/acme/pre --key 1
    hosts: h1 node7
  - {name: q2, description: 'x', slots: 4}
web:
  api_token:
    - abc
    - def
  port: 80
";
        let want = "\
cluster:
  name: c1
  administrators: user1
queues:
  - name: normal
    description: [removed]
    pre_exec: [removed]
    hosts: host1 host2
  - {name: q2, description: [removed]
web:
  api_token: [removed]
  port: 80
";
        let redacted = redactor().config(text);
        let redacted: Vec<&str> = redacted.lines().map(str::trim_end).collect();
        assert_eq!(redacted, want.lines().collect::<Vec<_>>());
    }

    #[test]
    fn events_keep_numbers_and_lose_words() {
        let line = br#"{"k":"submitted","id":3,"s":1,"t":9,"c":"secret --x","n":"acme","key":"k"}"#;
        let redacted = event(line);
        assert!(
            redacted.contains("\"id\":3")
                && !redacted.contains("secret")
                && !redacted.contains("acme")
        );
        let line = br#"{"k":"spec","id":1,"spec":{"user":"alice","cwd":"/data/alice"}}"#;
        assert!(!event(line).contains("alice"));
        assert_eq!(event(b"junk"), "{}");
    }
}
