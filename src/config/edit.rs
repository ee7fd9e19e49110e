//! Adds hosts to a cb.yaml or removes them, as changes of its text: comments, order and form of
//! everything else stay.
//!
//! Pure: text in, text out. Each step is parsed again and must give exactly the intended tree. If
//! the text does not allow this, the change is refused with the place, to be made by hand. Never
//! judges the configuration: [`super::load`] does so afterwards.

mod splice;

use super::load::{LOOSE_KEYS, MAX_BYTES};
use crate::text::names::{self, HostSet};
use crate::text::yaml::{self, Entry, Node, Pos, Value};
use crate::text::{hostlist, width};
use splice::{Source, scalar_text};
use std::fmt;

/// Names that do not mean a single host.
const RESERVED: &[&str] = &["default", "all", "others", "none"];
/// Settings that a new host may have, and whether each is a list.
const SETTINGS: &[(&str, bool)] = &[
    ("slots", false),
    ("user_slots", false),
    ("type", false),
    ("model", false),
    ("unit", false),
    ("tags", true),
];
/// Keys that name hosts outside the sections `hosts` and `hostgroups`.
const NAMING: &[&str] = &[
    "masters",
    "hosts",
    "per_host",
    "default_host_spec",
    "locale",
];
/// Maximum number of places that a refusal lists.
const PLACES_MAX: usize = 20;

/// A host to add.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewHost {
    name: String,
    /// Key, words, and whether the value is written as a list.
    settings: Vec<(&'static str, Vec<String>, bool)>,
    groups: Vec<String>,
}

impl NewHost {
    /// Parses `slots=4`, `groups=g1,g2` and the like.
    ///
    /// # Errors
    /// An invalid name, or an unknown or repeated setting.
    pub fn parse(name: &str, words: &[String]) -> Result<NewHost, String> {
        check_host(name)?;
        let mut out = NewHost {
            name: name.to_owned(),
            ..NewHost::default()
        };
        for word in words {
            let shown = width::escape(word);
            let (key, value) = word.split_once('=').ok_or_else(|| {
                format!("{shown}: a setting is written KEY=VALUE, for example slots=4")
            })?;
            let values: Vec<String> = value.split(',').map(str::to_owned).collect();
            if values.iter().any(|v| v.trim().is_empty()) {
                return Err(format!("{shown}: a value is missing"));
            }
            if value.chars().any(char::is_control) {
                return Err(format!("{shown}: a control character in the value"));
            }
            if key == "groups" {
                for group in &values {
                    names::check_name(group).map_err(|e| format!("{shown}: {}", e.message))?;
                }
                out.groups.extend(values);
                continue;
            }
            let Some(&(key, list)) = SETTINGS.iter().find(|(known, _)| *known == key) else {
                let known: Vec<&str> = SETTINGS.iter().map(|(key, _)| *key).collect();
                return Err(format!(
                    "{shown}: unknown setting\nhint: there are {} and groups; for others edit \
                     cb.yaml",
                    known.join(", ")
                ));
            };
            if !list && values.len() > 1 {
                return Err(format!("{shown}: {key} takes one value"));
            }
            if out.settings.iter().any(|(k, ..)| *k == key) {
                return Err(format!("{key} is given twice"));
            }
            out.settings.push((key, values, list));
        }
        Ok(out)
    }

    /// The host as an item of a list.
    fn item(&self) -> String {
        let mut out = format!("{{name: {}", scalar_text(&self.name));
        for (key, values, list) in &self.settings {
            let words: Vec<String> = values.iter().map(|v| scalar_text(v)).collect();
            out += &match list {
                true => format!(", {key}: [{}]", words.join(", ")),
                false => format!(", {key}: {}", words.join(" ")),
            };
        }
        out.push('}');
        out
    }
}

/// Whether `name` can be the name of one host.
///
/// # Errors
/// Why not.
pub fn check_host(name: &str) -> Result<(), String> {
    let shown = width::escape(name);
    if RESERVED.contains(&name) {
        return Err(format!("{shown} is a reserved word and cannot be a host"));
    }
    names::check_name(name).map_err(|e| format!("host {shown}: {}", e.message))
}

/// The result of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    pub text: String,
    /// The changes, one sentence each; empty: the text is unchanged.
    pub done: Vec<String>,
}

/// Why a text was not edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub pos: Pos,
    pub message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.pos.line, self.message)
    }
}

fn refuse<T>(pos: Pos, message: impl Into<String>) -> Result<T, Refusal> {
    let message = message.into();
    Err(Refusal { pos, message })
}

/// A step to a node of the tree.
#[derive(Clone, Copy, Debug)]
enum Step {
    Key(&'static str),
    Item(usize),
}

const HOSTS: &[Step] = &[Step::Key("hosts")];
const GROUPS: &[Step] = &[Step::Key("hostgroups")];

/// Adds a host to `hosts` and to its groups.
///
/// # Errors
/// The host is listed with other settings, a group is unknown, or the text cannot be edited safely.
pub fn add_host(text: &str, host: &NewHost) -> Result<Edited, Refusal> {
    let mut edit = Edit::new(text)?;
    let listed = edit.index_of_host(&host.name);
    if let Some(found) = listed {
        edit.agrees(found, host)?;
    }
    // Groups first: a refusal names lines of the original text.
    for group in &host.groups {
        edit.add_to_group(group, &host.name)?;
    }
    if listed.is_none() {
        edit.insert(host)?;
    }
    Ok(edit.done())
}

/// Removes a host from `hosts` and from the groups that name it.
///
/// # Errors
/// A group would become empty, or the text cannot be edited safely.
pub fn remove_host(text: &str, name: &str) -> Result<Edited, Refusal> {
    let mut edit = Edit::new(text)?;
    // From the last group to the first: a refusal names lines of the original text.
    for at in (0..edit.items(GROUPS).len()).rev() {
        edit.leave(at, name)?;
    }
    if let Some(at) = edit.index_of_host(name) {
        edit.drop_entry(at, name)?;
    }
    Ok(edit.done())
}

/// Whether section `hosts` lists the host.
///
/// # Errors
/// The text is not YAML.
pub fn lists_host(text: &str, name: &str) -> Result<bool, Refusal> {
    Ok(Edit::new(text)?.index_of_host(name).is_some())
}

/// Places outside `hosts` and `hostgroups` that name the host: `line 12: hosts of queues`.
///
/// # Errors
/// The text is not YAML.
pub fn other_mentions(text: &str, name: &str) -> Result<Vec<String>, Refusal> {
    let edit = Edit::new(text)?;
    let mut out = Vec::new();
    for section in entries(&edit.root) {
        if !["hosts", "hostgroups"].contains(&section.key.as_str()) {
            mentions(&section.key, &section.value, name, &mut out);
        }
    }
    Ok(out)
}

fn mentions(section: &str, node: &Node, name: &str, out: &mut Vec<String>) {
    match &node.value {
        Value::List(items) => items.iter().for_each(|i| mentions(section, i, name, out)),
        Value::Map(map) => {
            for entry in map {
                if NAMING.contains(&entry.key.as_str()) {
                    if names_host(&entry.value, name) && out.len() < PLACES_MAX {
                        let line = entry.value.pos.line;
                        out.push(format!("line {line}: {} of {section}", entry.key));
                    }
                } else {
                    mentions(section, &entry.value, name, out);
                }
            }
        }
        _ => {}
    }
}

/// Whether a set of hosts, in any notation, names the host itself.
fn names_host(node: &Node, name: &str) -> bool {
    let texts = |text: &str| {
        let single = |c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c));
        let ranges = hostlist::split(text);
        let ranges = ranges.iter().map(|(_, word)| word.trim_start_matches('~'));
        text.split(single).any(|word| word == name)
            || ranges
                .map(|word| word.split('+').next().unwrap_or_default())
                .any(|word| hostlist::expand(word).is_ok_and(|all| all.iter().any(|h| h == name)))
    };
    match &node.value {
        Value::Text { text, .. } => texts(text),
        Value::List(items) => items.iter().any(|i| names_host(i, name)),
        Value::Map(map) => map.iter().any(|e| names_host(&e.value, name)),
        _ => false,
    }
}

fn entries(node: &Node) -> &[Entry] {
    match &node.value {
        Value::Map(entries) => entries,
        _ => &[],
    }
}

fn value<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let entry = entries(node).iter().find(|e| e.key == key)?;
    Some(&entry.value)
}

/// The words of a scalar or of a list of scalars.
fn scalar_words(node: &Node) -> Vec<&str> {
    match &node.value {
        Value::Text { text, .. } => hostlist::split(text).into_iter().map(|w| w.1).collect(),
        Value::List(items) => items.iter().flat_map(scalar_words).collect(),
        _ => Vec::new(),
    }
}

/// The words without a host; `None` if they do not name it.
fn without_host(text: &str, name: &str) -> Option<String> {
    let mut found = false;
    let mut left = Vec::new();
    for (_, word) in hostlist::split(text) {
        let (sign, bare) = match word.strip_prefix('~') {
            Some(bare) => ("~", bare),
            None => ("", word),
        };
        let all = hostlist::expand(bare).unwrap_or_default();
        if !all.iter().any(|host| host == name) {
            left.push(word.to_owned());
            continue;
        }
        found = true;
        let rest: Vec<String> = all.into_iter().filter(|host| host != name).collect();
        let folded = hostlist::fold(&rest);
        let remaining = hostlist::split(&folded);
        left.extend(remaining.iter().map(|(_, word)| format!("{sign}{word}")));
    }
    found.then(|| left.join(" "))
}

/// Whether two nodes are equal, ignoring places and quotes.
fn equal_nodes(a: &Node, b: &Node) -> bool {
    match (&a.value, &b.value) {
        (Value::Text { text: a, .. }, Value::Text { text: b, .. }) => a == b,
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal_nodes(a, b))
        }
        (Value::Map(a), Value::Map(b)) => {
            let pairs = || a.iter().zip(b);
            a.len() == b.len()
                && pairs().all(|(a, b)| a.key == b.key && equal_nodes(&a.value, &b.value))
        }
        (a, b) => *a == Value::Null && *b == Value::Null,
    }
}

fn parse(text: &str) -> Result<Node, Refusal> {
    let limits = yaml::Limits::bytes(MAX_BYTES);
    let document = yaml::parse(text.as_bytes(), &limits, LOOSE_KEYS);
    if let Some(defect) = document.defects.first() {
        return refuse(defect.pos, defect.message.clone());
    }
    match document.root {
        Some(root) => Ok(root),
        None => refuse(Pos::new(1, 1), "nothing can be read"),
    }
}

/// A text that is being edited, and its tree.
struct Edit {
    text: String,
    root: Node,
    done: Vec<String>,
}

impl Edit {
    fn new(text: &str) -> Result<Edit, Refusal> {
        Ok(Edit {
            text: text.to_owned(),
            root: parse(text)?,
            done: Vec::new(),
        })
    }

    fn done(self) -> Edited {
        Edited {
            text: self.text,
            done: self.done,
        }
    }

    fn node(&self, path: &[Step]) -> Option<&Node> {
        path.iter().try_fold(&self.root, |node, step| match step {
            Step::Key(key) => value(node, key),
            Step::Item(n) => match &node.value {
                Value::List(items) => items.get(*n),
                _ => None,
            },
        })
    }

    fn items(&self, path: &[Step]) -> &[Node] {
        match self.node(path).map(|n| &n.value) {
            Some(Value::List(items)) => items,
            _ => &[],
        }
    }

    /// Accepts a new text if its tree is the current tree with `change` applied at `path`.
    fn accept_text(
        &mut self,
        pos: Pos,
        text: Option<String>,
        path: &[Step],
        change: impl FnOnce(&mut Node),
    ) -> Result<(), Refusal> {
        let mut expected_tree = self.root.clone();
        let place = path.iter().try_fold(&mut expected_tree, |node, step| {
            match (step, &mut node.value) {
                (Step::Key(key), Value::Map(map)) => {
                    map.iter_mut().find(|e| e.key == *key).map(|e| &mut e.value)
                }
                (Step::Item(n), Value::List(items)) => items.get_mut(*n),
                _ => None,
            }
        });
        if let (Some(text), Some(place)) = (text, place) {
            change(place);
            if let Ok(root) = parse(&text)
                && equal_nodes(&root, &expected_tree)
            {
                self.text = text;
                self.root = root;
                return Ok(());
            }
        }
        refuse(
            pos,
            "this part is written in a form that a program cannot change safely; edit it by hand",
        )
    }

    /// The index of the entry of `hosts` that names the host.
    fn index_of_host(&self, name: &str) -> Option<usize> {
        self.items(HOSTS).iter().position(|entry| {
            let named = ["name", "names"].iter().filter_map(|key| value(entry, key));
            named
                .flat_map(scalar_words)
                .any(|word| hostlist::expand(word).is_ok_and(|all| all.iter().any(|h| h == name)))
        })
    }

    /// Refuses settings that differ from those of the entry.
    fn agrees(&self, at: usize, host: &NewHost) -> Result<(), Refusal> {
        let entry = &self.items(HOSTS)[at];
        for (key, values, _) in &host.settings {
            let has = value(entry, key).map(|node| scalar_words(node).join(","));
            if has.as_deref() != Some(values.join(",").as_str()) {
                let has = has.unwrap_or_else(|| "not set".into());
                let message = format!(
                    "host {} is listed already and its {key} is {has}; edit the entry, then \
                     'cadmin reconfig'",
                    host.name
                );
                return refuse(entry.pos, message);
            }
        }
        Ok(())
    }

    fn insert(&mut self, host: &NewHost) -> Result<(), Refusal> {
        let item = host.item();
        let new = parse(&item)?;
        let source = Source::new(&self.text);
        let eol = source.eol();
        let section = entries(&self.root).iter().find(|e| e.key == "hosts");
        match section {
            None => {
                let text = source.at_the_end(&format!("{eol}hosts:{eol}- {item}"));
                let hosts = Entry {
                    key: "hosts".into(),
                    key_pos: Pos::default(),
                    value: list_of(new),
                };
                let pos = self.root.pos;
                self.accept_text(pos, Some(text), &[], |root| {
                    if let Value::Map(sections) = &mut root.value {
                        sections.push(hosts);
                    }
                })?;
            }
            Some(entry) => match &entry.value.value {
                Value::Null => {
                    let text = source.insert_below(entry.key_pos, &format!("- {item}"));
                    self.accept_text(entry.key_pos, Some(text), HOSTS, |n| *n = list_of(new))?;
                }
                Value::List(_) => {
                    let text = source.append(&entry.value, &item);
                    self.accept_text(entry.value.pos, text, HOSTS, |n| push(n, new))?;
                }
                _ => return refuse(entry.value.pos, "hosts must be a list"),
            },
        }
        self.done
            .insert(0, format!("Host <{}> is added", host.name));
        Ok(())
    }

    /// Adds a host to a group.
    fn add_to_group(&mut self, group: &str, name: &str) -> Result<(), Refusal> {
        let named = |item: &Node| value(item, "name").map(scalar_words) == Some(vec![group]);
        let Some(at) = self.items(GROUPS).iter().position(named) else {
            let message = format!("host group {group} is not defined; add it to hostgroups first");
            return refuse(self.root.pos, message);
        };
        let path = [GROUPS[0], Step::Item(at), Step::Key("members")];
        let Some(members) = self.node(&path) else {
            return refuse(self.items(GROUPS)[at].pos, "the group has no members");
        };
        let pos = members.pos;
        let set = HostSet::parse_stored(&scalar_words(members).join(" "));
        let set = set.or_else(|e| refuse(pos, e.message))?;
        if set.items.iter().any(|i| i.exclude && i.name == name) {
            return refuse(pos, format!("group {group} excludes host {name}"));
        }
        if set.preference(name, |_| false).is_some() {
            return Ok(());
        }
        let source = Source::new(&self.text);
        let (text, change) = match &members.value {
            Value::List(_) => {
                let item = scalar_text(name);
                (source.append(members, &item), None)
            }
            Value::Text { text, .. } if set.is_empty() || text.trim().is_empty() => {
                (source.replace(members, name), Some(name.to_owned()))
            }
            Value::Text { text, .. } => {
                let all = format!("{} {name}", text.trim_end());
                (source.replace(members, &all), Some(all))
            }
            _ => return refuse(pos, "members must be a set of hosts"),
        };
        self.accept_text(pos, text, &path, |node| match change {
            Some(text) => set_text(node, text),
            None => push(node, text_node(name)),
        })?;
        self.done
            .push(format!("Host <{name}> is added to group <{group}>"));
        Ok(())
    }

    /// Removes the host from its entry, and the entry from the list if it has no other hosts.
    fn drop_entry(&mut self, at: usize, name: &str) -> Result<(), Refusal> {
        let entry = &self.items(HOSTS)[at];
        let key = match value(entry, "name") {
            Some(_) => "name",
            None => "names",
        };
        let all: Vec<&str> = value(entry, key).map(scalar_words).unwrap_or_default();
        let more = all.len() > 1 || all.iter().any(|word| *word != name);
        if more {
            let path = [HOSTS[0], Step::Item(at), Step::Key(key)];
            self.drop_name(&path, name)?;
        } else {
            let pos = entry.pos;
            self.drop_item(pos, HOSTS, at)?;
        }
        self.done.insert(0, format!("Host <{name}> is removed"));
        Ok(())
    }

    fn drop_item(&mut self, pos: Pos, path: &[Step], at: usize) -> Result<(), Refusal> {
        let Some(list) = self.node(path) else {
            return refuse(pos, "the list is gone");
        };
        let source = Source::new(&self.text);
        let (text, flow) = (source.remove(list, at), source.is_flow(list));
        self.accept_text(pos, text, path, |node| {
            if let Value::List(items) = &mut node.value {
                items.remove(at);
                // A block list without items would be read as null.
                if items.is_empty() && !flow {
                    node.value = Value::Null;
                }
            }
        })
    }

    /// Removes a host from a scalar or a list of scalars, which must not become empty.
    fn drop_name(&mut self, path: &[Step], name: &str) -> Result<(), Refusal> {
        let Some(node) = self.node(path) else {
            return Ok(());
        };
        let pos = node.pos;
        let (path, place) = match &node.value {
            Value::List(items) => {
                let names = |n: &Node| {
                    scalar_words(n)
                        .iter()
                        .any(|w| without_host(w, name).is_some())
                };
                let Some(at) = items.iter().position(names) else {
                    return Ok(());
                };
                let left =
                    without_host(&scalar_words(&items[at]).join(" "), name).unwrap_or_default();
                if left.is_empty() && items.len() > 1 {
                    let pos = items[at].pos;
                    return self.drop_item(pos, path, at);
                }
                ([path, &[Step::Item(at)]].concat(), &items[at])
            }
            _ => (path.to_vec(), node),
        };
        let Value::Text { text, .. } = &place.value else {
            return refuse(pos, "a set of hosts must be here");
        };
        let Some(left) = without_host(text, name) else {
            return Ok(());
        };
        if left.is_empty() {
            return refuse(
                pos,
                format!("only host {name} is named here; edit it by hand"),
            );
        }
        let text = Source::new(&self.text).replace(place, &left);
        self.accept_text(pos, text, &path, |node| set_text(node, left))
    }

    /// Removes the host from the group at index `at`.
    fn leave(&mut self, at: usize, name: &str) -> Result<(), Refusal> {
        let path = [GROUPS[0], Step::Item(at), Step::Key("members")];
        let Some(members) = self.node(&path) else {
            return Ok(());
        };
        if !scalar_words(members)
            .iter()
            .any(|w| without_host(w, name).is_some())
        {
            return Ok(());
        }
        let group = value(&self.items(GROUPS)[at], "name").map(|n| scalar_words(n).join(" "));
        let group = group.unwrap_or_default();
        self.drop_name(&path, name)?;
        self.done
            .push(format!("Host <{name}> is removed from group <{group}>"));
        Ok(())
    }
}

fn list_of(item: Node) -> Node {
    Node {
        pos: item.pos,
        value: Value::List(vec![item]),
    }
}

fn text_node(text: &str) -> Node {
    Node {
        pos: Pos::default(),
        value: Value::Text {
            text: text.to_owned(),
            quoted: false,
        },
    }
}

fn push(list: &mut Node, item: Node) {
    if let Value::List(items) = &mut list.value {
        items.push(item);
    }
}

fn set_text(node: &mut Node, text: String) {
    node.value = Value::Text { text, quoted: true };
}

#[cfg(test)]
mod tests;
