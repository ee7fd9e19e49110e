//! Parses a sensor's document into resources. Every item of its list is read separately, so that an
//! invalid item costs one resource; every problem is reported with its line. Owns the attributes
//! and their limits; never knows which resources already exist.

mod unit_attributes;

pub use unit_attributes::UnitAttributes;
pub(super) use unit_attributes::names_of;

use super::RESOURCES_MAX;
use crate::record::load::{Sensed, SensedKind};
use crate::text::error::nearest;
use crate::text::resreq::{Direction, Kind, builtin, check_resource_name, left_to_sensors};
use crate::text::yaml::{self, Entry, Limits, Node, Value};
use crate::text::{names, units};

/// Maximum length of a text value, in bytes.
pub const VALUE_MAX: usize = 256;
/// Maximum length of a description, in characters.
pub const DESCRIPTION_MAX: usize = 512;
/// Maximum length of a locale, in bytes.
pub const LOCALE_MAX: usize = 4096;
/// Largest number: its thousandths are still exact enough for calculations.
pub const NUMBER_MAX: f64 = 1e15;

const LIMITS: Limits = Limits {
    bytes: super::document_splitter::DOCUMENT_MAX + super::document_splitter::LINE_MAX,
    depth: 8,
    nodes: 40_000,
    defects: 20,
};
const ATTRIBUTES: [&str; 14] = [
    "resource",
    "name",
    "description",
    "type",
    "direction",
    "release",
    "assign",
    "per_unit",
    "slotresource",
    "value",
    "locale",
    "devices",
    "processes",
    "use",
];

/// A resource in a document; it always has a value.
#[derive(Clone, Debug, PartialEq)]
pub struct SensorReading {
    pub name: String,
    pub sensed: Sensed,
    /// Information about each unit: only for this host.
    pub units: UnitAttributes,
    /// The line in which it begins.
    pub line: u64,
}

/// A problem of a document. Lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub line: u64,
    pub col: u32,
    /// The resource that is ignored because of it, as far as known.
    pub resource: String,
    pub message: String,
    pub hint: Option<String>,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: ", self.line, self.col)?;
        if !self.resource.is_empty() {
            write!(f, "resource {}: ", self.resource)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// The content of a document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    pub readings: Vec<SensorReading>,
    pub problems: Vec<Problem>,
}

/// Reads a document whose first line is number `line` of the sensor's output.
pub fn document(bytes: &[u8], line: u64) -> Parsed {
    let mut out = Parsed::default();
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => {
            let before = &bytes[..e.valid_up_to()];
            let ends = before.iter().filter(|b| **b == b'\n').count() as u64;
            let at = ItemPosition::of_line(line + ends);
            out.problems
                .push(at.problem("this is not UTF-8 text", None));
            return out;
        }
    };
    let lines: Vec<&str> = text.split('\n').collect();
    let first = lines.iter().find(|l| has_content(l));
    match first.map(|l| l.trim_start()) {
        None => {}
        Some(l) if is_dash(l) => items(&lines, line, &mut out),
        // A single map, or a list in brackets.
        Some(_) => parse_whole(text, line, &mut out),
    }
    remove_duplicates(&mut out);
    out
}

/// Whether a line has content: not blank and not a comment.
fn has_content(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

fn is_dash(line: &str) -> bool {
    let rest = line.strip_prefix('-');
    rest.is_some_and(|r| r.trim_end().is_empty() || r.starts_with([' ', '\t']))
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// The location of an item, for problems: its first line, and how far that line was moved to the
/// left.
#[derive(Clone, Copy)]
struct ItemPosition {
    line: u64,
    line_offset: i64,
}

impl ItemPosition {
    fn of_line(line: u64) -> ItemPosition {
        ItemPosition {
            line,
            line_offset: 0,
        }
    }

    fn problem(self, message: impl Into<String>, hint: Option<&str>) -> Problem {
        Problem {
            line: self.line,
            col: 1,
            resource: String::new(),
            message: message.into(),
            hint: hint.map(str::to_owned),
        }
    }

    fn at(self, pos: yaml::Pos, message: impl Into<String>, hint: Option<String>) -> Problem {
        let moved = if pos.line == 1 { self.line_offset } else { 0 };
        Problem {
            line: self.line + u64::from(pos.line.max(1)) - 1,
            col: u32::try_from(i64::from(pos.col) + moved)
                .unwrap_or(1)
                .max(1),
            resource: String::new(),
            message: message.into(),
            hint,
        }
    }
}

/// A list in block style, each item parsed alone. Its keys need not be aligned with the first one,
/// as long as they are aligned with each other and to the right of the dash.
fn items(lines: &[&str], line: u64, out: &mut Parsed) {
    let is_first = |l: &&str| has_content(l);
    let depth = lines.iter().copied().find(is_first).map_or(0, indent);
    let begins = |l: &str| indent(l) == depth && is_dash(l.trim_start());
    let mut starts: Vec<usize> = (0..lines.len()).filter(|n| begins(lines[*n])).collect();
    if starts.len() > RESOURCES_MAX {
        let at = ItemPosition::of_line(line + starts[RESOURCES_MAX] as u64);
        let text = format!("more than {RESOURCES_MAX} resources in one document");
        out.problems.push(at.problem(text, None));
        starts.truncate(RESOURCES_MAX + 1);
    }
    let last = starts.len().min(RESOURCES_MAX);
    for n in 0..last {
        let end = starts.get(n + 1).copied().unwrap_or(lines.len());
        item(&lines[starts[n]..end], depth, line + starts[n] as u64, out);
    }
}

fn item(lines: &[&str], depth: usize, line: u64, out: &mut Parsed) {
    let below = |l: &&&str| has_content(l);
    let stray = lines[1..]
        .iter()
        .position(|l| has_content(l) && indent(l) <= depth);
    if let Some(n) = stray {
        let at = ItemPosition::of_line(line + 1 + n as u64);
        let text = "this line is not indented more than its item's -";
        let hint = "indent it like the other attributes";
        let resource = probable_name(lines);
        let problem = at.problem(text, Some(hint));
        return out.problems.push(Problem {
            resource,
            ..problem
        });
    }
    let dash = &lines[0][depth + 1..];
    let word = dash.trim_start_matches([' ', '\t']);
    let key = depth + 1 + dash.len() - word.len();
    let column = lines[1..].iter().filter(below).map(|l| indent(l)).min();
    let column = if has_content(word) {
        column.unwrap_or(key)
    } else {
        key
    };
    let mut text = " ".repeat(column);
    text.push_str(word);
    for l in &lines[1..] {
        text.push('\n');
        text.push_str(l);
    }
    let line_offset = key as i64 - column as i64;
    let position = ItemPosition { line, line_offset };
    if !text.lines().any(has_content) {
        out.problems.push(position.problem("an empty item", None));
        return;
    }
    let read = yaml::parse(text.as_bytes(), &LIMITS, &[]);
    match read.root {
        Some(root) if read.defects.is_empty() => parse_item(&root, position, out),
        _ => {
            let resource = probable_name(lines);
            let problems = read.defects.into_iter().map(|d| Problem {
                resource: resource.clone(),
                ..position.at(d.pos, d.message, d.hint)
            });
            out.problems.extend(problems);
        }
    }
}

/// The probable name of an item that cannot be parsed.
fn probable_name(lines: &[&str]) -> String {
    let key = |l: &str| {
        let l = l.trim_start_matches([' ', '-', '\t']);
        let rest = l.strip_prefix("resource:").or(l.strip_prefix("name:"))?;
        let word = rest.trim();
        check_resource_name(word).is_ok().then(|| word.to_owned())
    };
    lines.iter().find_map(|l| key(l)).unwrap_or_default()
}

fn parse_whole(text: &str, line: u64, out: &mut Parsed) {
    let position = ItemPosition::of_line(line);
    let read = yaml::parse(text.as_bytes(), &LIMITS, &[]);
    if !read.defects.is_empty() {
        let problems = read.defects.into_iter();
        let problems = problems.map(|d| position.at(d.pos, d.message, d.hint));
        return out.problems.extend(problems);
    }
    match read.root {
        Some(Node {
            value: Value::List(list),
            ..
        }) => {
            if let Some(extra) = list.get(RESOURCES_MAX) {
                let text = format!("more than {RESOURCES_MAX} resources in one document");
                out.problems.push(position.at(extra.pos, text, None));
            }
            for node in list.iter().take(RESOURCES_MAX) {
                parse_item(node, position, out);
            }
        }
        Some(root) => parse_item(&root, position, out),
        None => {}
    }
}

fn parse_item(node: &Node, position: ItemPosition, out: &mut Parsed) {
    match Item::read(node, position) {
        Ok(reading) => out.readings.push(reading),
        Err(problem) => out.problems.push(problem),
    }
}

/// If a document names a resource twice, only the first entry counts.
fn remove_duplicates(out: &mut Parsed) {
    let mut seen = std::collections::BTreeSet::new();
    let Parsed { readings, problems } = out;
    readings.retain(|r| {
        let fresh = seen.insert(r.name.clone());
        if !fresh {
            problems.push(Problem {
                line: r.line,
                col: 1,
                resource: r.name.clone(),
                message: "it is in the document twice: the first one is used".into(),
                hint: None,
            });
        }
        fresh
    });
}

/// One item's attributes.
struct Item<'a> {
    entries: &'a [Entry],
    node: &'a Node,
    position: ItemPosition,
    name: String,
}

impl<'a> Item<'a> {
    fn read(node: &'a Node, position: ItemPosition) -> Result<SensorReading, Problem> {
        let Value::Map(entries) = &node.value else {
            let hint = "write - resource: NAME and its attributes below it";
            return Err(position.at(
                node.pos,
                "an item must be attributes with values",
                Some(hint.into()),
            ));
        };
        let mut item = Item {
            entries,
            node,
            position,
            name: String::new(),
        };
        item.name = item.find_name()?;
        let sensed = item.sensed().map_err(|problem| Problem {
            resource: item.name.clone(),
            ..problem
        })?;
        let value = sensed.value.as_deref().unwrap_or_default();
        let assign = sensed.assign && sensed.per_unit.is_empty();
        let units = item.of_units(assign, value).map_err(|problem| Problem {
            resource: item.name.clone(),
            ..problem
        })?;
        let line = position.at(node.pos, "", None).line;
        Ok(SensorReading {
            name: item.name,
            sensed,
            units,
            line,
        })
    }

    fn describe(&self, entry: &Entry, message: impl Into<String>, hint: Option<&str>) -> Problem {
        let hint = hint.map(str::to_owned);
        self.position.at(entry.value.pos, message, hint)
    }

    fn entry(&self, key: &str) -> Option<&'a Entry> {
        self.entries.iter().find(|e| e.key == key)
    }

    /// The text of an attribute; `None`: it is missing.
    fn text(&self, key: &str) -> Result<Option<(&'a str, &'a Entry)>, Problem> {
        let Some(entry) = self.entry(key) else {
            return Ok(None);
        };
        match &entry.value.value {
            Value::Text { text, .. } => Ok(Some((text.trim(), entry))),
            Value::Null => Err(self.describe(entry, format!("{key} has no value"), None)),
            _ => Err(self.describe(entry, format!("{key} takes one word or text"), None)),
        }
    }

    fn find_name(&self) -> Result<String, Problem> {
        let both = (self.entry("resource"), self.entry("name"));
        if let (Some(_), Some(second)) = both {
            let text = "resource and name are the same attribute, given twice";
            return Err(self.describe(second, text, Some("leave one out")));
        }
        let key = if both.1.is_some() { "name" } else { "resource" };
        let Some((name, entry)) = self.text(key)? else {
            let hint = "write resource: NAME".to_owned();
            let text = "the resource has no name";
            return Err(self.position.at(self.node.pos, text, Some(hint)));
        };
        if builtin(name).is_some() && !left_to_sensors(name) {
            let text = format!("{name} is measured by Corral itself");
            return Err(self.describe(entry, text, Some("choose another name")));
        }
        if !left_to_sensors(name)
            && let Err(e) = check_resource_name(name)
        {
            return Err(self.describe(entry, e.message, e.hint.as_deref()));
        }
        Ok(name.to_owned())
    }

    fn sensed(&self) -> Result<Sensed, Problem> {
        for e in self.entries {
            if !ATTRIBUTES.contains(&e.key.as_str()) {
                let hint = nearest(&e.key, ATTRIBUTES)
                    .map_or(format!("attributes are {}", ATTRIBUTES.join(", ")), |n| {
                        format!("did you mean {n}?")
                    });
                let message = format!("there is no attribute {:?}", e.key);
                return Err(self.position.at(e.key_pos, message, Some(hint)));
            }
        }
        let kinds = [
            ("number", SensedKind::Number),
            ("text", SensedKind::Text),
            ("tag", SensedKind::Tag),
        ];
        let kind = self.choice("type", &kinds)?;
        let directions = [("increase", true), ("decrease", false)];
        let direction = self.choice("direction", &directions)?;
        let mut out = Sensed {
            kind: kind.unwrap_or_else(|| default_kind(&self.name)),
            increase: direction.unwrap_or(false),
            release: self.flag("release")?.unwrap_or(false),
            slot: self.flag("slotresource")?.unwrap_or(false),
            assign: self.flag("assign")?.unwrap_or(self.name == "gpu"),
            per_unit: self
                .text("per_unit")?
                .map_or_else(String::new, |(t, _)| t.to_owned()),
            about: self.description()?,
            locale: self.locale()?,
            value: None,
        };
        if out.kind != SensedKind::Number {
            let set = [
                ("direction", direction.is_some()),
                ("release", out.release),
                ("slotresource", out.slot),
                ("assign", self.flag("assign")? == Some(true)),
                ("per_unit", !out.per_unit.is_empty()),
            ];
            if let Some((key, _)) = set.iter().find(|(_, set)| *set) {
                let entry = self.entry(key).expect("it is set");
                let text = format!("{key} is only valid for numbers");
                return Err(self.describe(entry, text, Some("write type: number")));
            }
        }
        self.as_built_in(&mut out, direction)?;
        out.value = Some(match (out.assign, out.per_unit.is_empty()) {
            (_, false) => self.sizes(&out)?,
            (true, true) => self.units(&out)?,
            (false, true) => self.value(out.kind)?,
        });
        Ok(out)
    }

    /// The value of a resource of units: one amount for each unit, or a list of amounts.
    fn sizes(&self, sensed: &Sensed) -> Result<String, Problem> {
        let per_unit = self.entry("per_unit").expect("it is set");
        if check_resource_name(&sensed.per_unit).is_err() && sensed.per_unit != "gpu" {
            let text = format!("per_unit: {:?} has no units", sensed.per_unit);
            return Err(self.describe(per_unit, text, Some("name gpu, or one with assign: yes")));
        }
        let set = ["direction", "release", "assign", "slotresource", "locale"];
        if let Some(entry) = set.iter().find_map(|key| self.entry(key)) {
            let text = format!(
                "per_unit excludes {}: it is counted as its units are",
                entry.key
            );
            return Err(self.describe(entry, text, Some("leave it out")));
        }
        let list = match self.entry("value").map(|entry| (entry, &entry.value.value)) {
            Some((entry, Value::List(list))) => (entry, list),
            _ => return self.value(SensedKind::Number),
        };
        let (entry, list) = list;
        let size = |node: &Node| match &node.value {
            Value::Text { text, .. } => number(text.trim()),
            _ => None,
        };
        let sizes: Option<Vec<f64>> = list.iter().map(size).collect();
        match sizes {
            Some(sizes) if !sizes.is_empty() && sizes.len() <= units::UNITS_MAX => {
                Ok(units::join_sizes(&sizes))
            }
            _ => {
                let max = units::UNITS_MAX;
                let text = format!("an amount of each unit is a number, of at most {max} units");
                Err(self.describe(entry, text, Some("write value: [NUMBER, NUMBER]")))
            }
        }
    }

    /// The value of a resource whose units are assigned: their number, or their names.
    fn units(&self, sensed: &Sensed) -> Result<String, Problem> {
        let entry_of = |key: &str| self.entry(key).expect("it is set");
        if sensed.release {
            let text = "units stay with a suspended job: assign: yes excludes release: yes";
            return Err(self.describe(entry_of("release"), text, Some("leave release out")));
        }
        if sensed.increase {
            let text = "units do not grow with the load: assign: yes excludes direction: increase";
            return Err(self.describe(entry_of("direction"), text, Some("leave direction out")));
        }
        if !sensed.locale.is_empty() {
            let text = "units of one host only: assign: yes excludes locale";
            let hint =
                "run the sensor on the host that has them, or count an amount without assign";
            return Err(self.describe(entry_of("locale"), text, Some(hint)));
        }
        let Some(entry) = self.entry("value") else {
            let hint = Some("write value: [NAME, NAME] or a number".to_owned());
            return Err(self.position.at(self.node.pos, "it has no value", hint));
        };
        let list: &[Node] = match &entry.value.value {
            Value::List(list) => list,
            // An empty list is parsed as an empty text in brackets.
            Value::Text { text, quoted } if text == "[]" && !quoted => &[],
            _ => {
                let text = self.value(SensedKind::Number)?;
                let n = number(&text).unwrap_or(0.0);
                if n.fract() != 0.0 || n > units::UNITS_MAX as f64 {
                    let max = units::UNITS_MAX;
                    let text = format!("{text} is not a number of units from 0 to {max}");
                    return Err(self.describe(entry, text, None));
                }
                return Ok(text);
            }
        };
        let word = |node: &'a Node| match &node.value {
            Value::Text { text, .. } => Ok(text.trim()),
            _ => Err(self.describe(entry, "the name of a unit is one word", None)),
        };
        let names: Vec<&str> = list.iter().map(word).collect::<Result<_, _>>()?;
        match units::check_list(names.iter().copied()) {
            Ok(()) => Ok(units::join(&names)),
            Err(text) => Err(self.describe(entry, text, None)),
        }
    }

    /// Keeps the definition of a built-in resource: a sensor only provides its value.
    fn as_built_in(&self, out: &mut Sensed, direction: Option<bool>) -> Result<(), Problem> {
        let Some(b) = builtin(&self.name) else {
            return Ok(());
        };
        let kind = kind_of(b.kind);
        let increase = b.direction == Direction::Increase;
        let wrong = match () {
            () if out.kind != kind => "type",
            () if direction.is_some_and(|d| d != increase) => "direction",
            () if self.flag("release")?.is_some_and(|r| r != increase) => "release",
            () if out.slot => "slotresource",
            () if out.assign != (self.name == "gpu") => "assign",
            () => {
                (out.increase, out.release) = (increase, increase);
                return Ok(());
            }
        };
        let at = self.entry(wrong).map_or(self.node.pos, |e| e.value.pos);
        let text = format!("{wrong} differs from that of the built-in {}", self.name);
        let hint = format!("leave {wrong} out, or choose another name");
        Err(self.position.at(at, text, Some(hint)))
    }

    fn choice<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, Problem> {
        let Some((text, entry)) = self.text(key)? else {
            return Ok(None);
        };
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                let hint = format!("{key} is one of {}", known.join(", "));
                Err(self.describe(entry, format!("{key} cannot be {text:?}"), Some(&hint)))
            }
        }
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, Problem> {
        let Some((text, entry)) = self.text(key)? else {
            return Ok(None);
        };
        match boolean(text) {
            Some(flag) => Ok(Some(flag)),
            None => Err(self.describe(entry, format!("{key} is yes or no, not {text:?}"), None)),
        }
    }

    fn description(&self) -> Result<String, Problem> {
        let Some((text, entry)) = self.text("description")? else {
            return Ok(String::new());
        };
        if text.chars().count() > DESCRIPTION_MAX {
            let text = format!("a description has at most {DESCRIPTION_MAX} characters");
            return Err(self.describe(entry, text, None));
        }
        // The description is shown on one line of a table.
        Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// Words separated by single blanks; empty: the host of the sensor.
    fn locale(&self) -> Result<String, Problem> {
        let Some(entry) = self.entry("locale") else {
            return Ok(String::new());
        };
        let words: Vec<&str> = match &entry.value.value {
            Value::Text { text, .. } => text.split([' ', ',', '\t', '\n']).collect(),
            Value::List(list) => {
                let word = |n: &'a Node| match &n.value {
                    Value::Text { text, .. } => Ok(text.as_str()),
                    _ => Err(self.describe(entry, "locale must be a list of host names", None)),
                };
                list.iter().map(word).collect::<Result<_, _>>()?
            }
            _ => {
                return Err(self.describe(
                    entry,
                    "locale must be a list of host names, or all",
                    None,
                ));
            }
        };
        let words: Vec<&str> = words.into_iter().filter(|w| !w.is_empty()).collect();
        if words.is_empty() {
            return Err(self.describe(entry, "locale names no host", Some("leave it out")));
        }
        if let Some(bad) = words.iter().find(|w| names::check_name(w).is_err()) {
            let text = format!("{bad:?} is not a host name");
            return Err(self.describe(entry, text, Some("write locale: host1 host2, or all")));
        }
        let text = words.join(" ");
        if text.len() > LOCALE_MAX {
            let text = format!("a locale has at most {LOCALE_MAX} bytes");
            return Err(self.describe(entry, text, Some("name a host group of cb.yaml")));
        }
        Ok(text)
    }

    fn value(&self, kind: SensedKind) -> Result<String, Problem> {
        if kind == SensedKind::Tag && self.entry("value").is_none() {
            return Ok("yes".to_owned());
        }
        let Some((text, entry)) = self.text("value")? else {
            let hint = Some("write value: ...".to_owned());
            return Err(self.position.at(self.node.pos, "it has no value", hint));
        };
        match kind {
            SensedKind::Number => match number(text) {
                Some(n) => Ok(((n * 1e6).round() / 1e6).to_string()),
                None => {
                    let text = format!("{:.40} is not a usable number", text);
                    let hint = format!("write a decimal number from 0 to {NUMBER_MAX:e}");
                    Err(self.describe(entry, text, Some(&hint)))
                }
            },
            SensedKind::Tag => match boolean(text).or(match text {
                "1" => Some(true),
                "0" => Some(false),
                _ => None,
            }) {
                Some(true) => Ok("yes".to_owned()),
                Some(false) => Ok("no".to_owned()),
                None => {
                    Err(self.describe(entry, format!("a tag is yes or no, not {text:.40}"), None))
                }
            },
            SensedKind::Text | SensedKind::Unknown => {
                if text.is_empty() || text.len() > VALUE_MAX || text.contains('\n') {
                    let text = format!("a text is one line of at most {VALUE_MAX} bytes");
                    return Err(self.describe(entry, text, None));
                }
                Ok(text.to_owned())
            }
        }
    }
}

fn kind_of(kind: Kind) -> SensedKind {
    match kind {
        Kind::Number => SensedKind::Number,
        Kind::Text => SensedKind::Text,
        Kind::Tag => SensedKind::Tag,
        Kind::Unknown => SensedKind::Unknown,
    }
}

fn default_kind(name: &str) -> SensedKind {
    builtin(name).map_or(SensedKind::Number, |b| kind_of(b.kind))
}

/// A flag in common spellings; YAML 1.2 knows only true and false.
fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "y" | "on" | "true" => Some(true),
        "no" | "n" | "off" | "false" => Some(false),
        _ => None,
    }
}

/// A decimal number, leading zeros allowed (`date +%S` prints `07`), not negative.
pub fn number(text: &str) -> Option<f64> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((m, e)) => (m, e.strip_prefix(['+', '-']).unwrap_or(e)),
        None => (text, "0"),
    };
    let (int, frac) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    let plain = digits(int.strip_prefix('+').unwrap_or(int)) && digits(frac) && digits(exponent);
    if !plain || text.len() > 40 {
        return None;
    }
    let n: f64 = text.parse().ok()?;
    (n.is_finite() && n <= NUMBER_MAX).then_some(n)
}
