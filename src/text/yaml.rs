//! Parses YAML written by users into a tree of nodes, each with its line and column.
//!
//! Owns the only use of the YAML library. Accepts the part of YAML that configuration needs: block
//! and flow maps and lists, plain, quoted and block texts, comments. Refuses, each with its place:
//! anchors, aliases, tags, merge keys, directives, a second document, keys that are not words, NUL
//! and other control bytes, tabs in indentation, anything but UTF-8, and whatever exceeds the
//! limits, before it can cost time or memory. Never guesses types: a scalar stays text, the
//! schema that reads the tree decides what `010`, `yes` and `12:30` mean.

mod prequote;
mod prescan;

use prequote::Quoted;
use serde_yaml::granit_parser::{Event, Parser, ScalarStyle, ScanError, Span};
use std::collections::HashMap;

/// Place in the file: line and column (in characters), both from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pos {
    pub line: u32,
    pub col: u32,
}

impl Pos {
    pub fn new(line: u32, col: u32) -> Pos {
        Pos { line, col }
    }
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub pos: Pos,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// An empty value, or a lone `~`.
    Null,
    /// A scalar as written, with escapes resolved. `quoted`: in quotes or a block, so never a
    /// number or a flag by accident.
    Text {
        text: String,
        quoted: bool,
    },
    List(Vec<Node>),
    /// In the order of the file; of a duplicate key only the first is kept.
    Map(Vec<Entry>),
    /// A refused value, reported as a defect; readers ignore it.
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub key_pos: Pos,
    pub value: Node,
}

/// A reason why the text is not acceptable YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    pub pos: Pos,
    /// Stable short name: `syntax`, `tab`, `duplicate-key`, ...
    pub code: &'static str,
    pub message: String,
    pub hint: Option<String>,
}

impl Defect {
    fn new(pos: Pos, code: &'static str, message: impl Into<String>) -> Defect {
        Defect {
            pos,
            code,
            message: message.into(),
            hint: None,
        }
    }

    fn hint(mut self, hint: impl Into<String>) -> Defect {
        self.hint = Some(hint.into());
        self
    }
}

/// Limits of an input. An input beyond a limit causes a defect that names the limit; parsing ends
/// there.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub bytes: usize,
    pub depth: usize,
    /// Total number of scalars, lists and maps, including keys; also the maximum number of lines.
    pub nodes: usize,
    /// Number of defects after which parsing ends.
    pub defects: usize,
}

impl Limits {
    /// A document of at most `bytes` bytes with the usual depth (32), nodes and defects.
    pub const fn bytes(bytes: usize) -> Limits {
        Limits {
            bytes,
            depth: 32,
            nodes: 200_000,
            defects: 50,
        }
    }
}

/// The result of parsing: the valid part of the tree, and all defects found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// `None`: nothing could be read.
    pub root: Option<Node>,
    /// In the order of the file.
    pub defects: Vec<Defect>,
    /// Parts of the text were omitted from the tree because of a defect, so a missing name may be
    /// in one of them.
    pub partial: bool,
}

/// Parses a document.
///
/// `loose_keys`: keys whose unquoted values of bracket groups (`[mem,5000] [gpu, 2]`, not valid
/// YAML) are read as one text, as if quoted.
pub fn parse(bytes: &[u8], limits: &Limits, loose_keys: &[&str]) -> Document {
    match prescan::check(bytes, limits) {
        Err(defects) => Document {
            root: None,
            defects,
            partial: true,
        },
        Ok(scan) => Reader {
            limits,
            loose_keys,
            defects: Vec::new(),
        }
        .read(scan),
    }
}

/// Maximum number of syntax errors reported in one run; for each, the text is parsed again.
const MAX_ERRORS: usize = 8;

struct Reader<'a> {
    limits: &'a Limits,
    loose_keys: &'a [&'a str],
    defects: Vec<Defect>,
}

impl Reader<'_> {
    /// Parses; after a syntax error, omits the smallest removable part of the file around it and
    /// parses again, so that one run reports more than the first error.
    fn read(mut self, scan: prescan::Scan) -> Document {
        let prescan::Scan { mut lines, tabs } = scan;
        let mut partial = false;
        let mut next = 0;
        let mut errors = 0;
        for tab in tabs {
            let at = tab.pos.line as usize - 1;
            prescan::drop_part(&mut lines, at);
            self.defects.push(tab);
            partial = true;
        }
        let root = loop {
            let defects_before = self.defects.len();
            match self.tree(&lines) {
                Ok(root) => break root,
                Err(defect) => {
                    let at = (defect.pos.line as usize).saturating_sub(1);
                    let again = defect.code == "syntax" && at >= next && at < lines.len();
                    partial = true;
                    errors += 1;
                    if !again || errors > MAX_ERRORS {
                        self.defects.push(defect);
                        break None;
                    }
                    // The next pass finds the defects of this pass again.
                    self.defects.truncate(defects_before);
                    self.defects.push(defect);
                    next = prescan::drop_part(&mut lines, at);
                }
            }
        };
        let nothing = root.as_ref().is_none_or(|r| r.value == Value::Null);
        if nothing && self.defects.is_empty() {
            self.defects
                .push(Defect::new(Pos::new(1, 1), "empty", "the file is empty"));
        }
        self.defects.sort_by_key(|d| d.pos);
        Document {
            root,
            defects: self.defects,
            partial,
        }
    }

    /// One pass of the parser. `Err`: the pass could not continue.
    fn tree(&mut self, lines: &[String]) -> Result<Option<Node>, Defect> {
        let text = prequote::quote(lines, self.loose_keys);
        let options = serde_yaml::granit_parser::options! {
            disallow_directives: true,
            emit_unresolved_aliases: true,
            emit_comments: false,
            flow_nesting_limit: self.limits.depth,
            block_nesting_limit: self.limits.depth,
        };
        let mut tree = Tree {
            text: &text,
            limits: self.limits,
            defects: &mut self.defects,
            open: Vec::new(),
            root: None,
            nodes: 0,
            documents: 0,
        };
        for event in Parser::new_from_str_with_options(&text.text, options) {
            match event {
                Ok((event, span)) => tree.event(event, &span)?,
                Err(e) => return Err(tree.syntax(&e)),
            }
        }
        Ok(tree.root)
    }
}

/// A list or map that has not ended yet.
enum OpenNode {
    List(Pos, Vec<Node>),
    Map {
        pos: Pos,
        entries: Vec<Entry>,
        /// A key that waits for its value; `None` inside = a refused key whose value is dropped.
        key: Option<Option<(String, Pos)>>,
        first_lines: HashMap<String, u32>,
    },
}

struct Tree<'a> {
    text: &'a Quoted,
    limits: &'a Limits,
    defects: &'a mut Vec<Defect>,
    open: Vec<OpenNode>,
    root: Option<Node>,
    nodes: usize,
    documents: usize,
}

impl Tree<'_> {
    fn pos(&self, span: &Span) -> Pos {
        self.text.original(span.start.line(), span.start.col())
    }

    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), Defect> {
        let pos = self.pos(span);
        let mut tagged = false;
        if event.is_node() {
            self.count(pos)?;
            tagged = self.refuse_extras(&event, pos)?;
        }
        match event {
            Event::DocumentStart(..) => self.document(pos),
            Event::Scalar(text, style, ..) => {
                let value = if tagged {
                    Value::Refused
                } else {
                    scalar(&text, style)
                };
                if matches!(&value, Value::Text { text, .. } if text.contains('\0')) {
                    self.defect(Defect::new(pos, "nul", "NUL in a text"))?;
                    return self.put(Node {
                        pos,
                        value: Value::Refused,
                    });
                }
                self.put(Node { pos, value })
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                self.defect(
                    Defect::new(pos, "alias", "aliases (*name) are not allowed")
                        .hint("write the value again, or quote a text that begins with *"),
                )?;
                self.put(Node {
                    pos,
                    value: Value::Refused,
                })
            }
            Event::SequenceStart(..) => {
                self.deeper(pos)?;
                self.open.push(OpenNode::List(pos, Vec::new()));
                Ok(())
            }
            Event::MappingStart(..) => {
                self.deeper(pos)?;
                let (entries, first_lines) = (Vec::new(), HashMap::new());
                self.open.push(OpenNode::Map {
                    pos,
                    entries,
                    key: None,
                    first_lines,
                });
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(OpenNode::List(pos, items)) => self.put(Node {
                    pos,
                    value: Value::List(items),
                }),
                Some(OpenNode::Map { pos, entries, .. }) => self.put(Node {
                    pos,
                    value: Value::Map(entries),
                }),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn document(&mut self, pos: Pos) -> Result<(), Defect> {
        self.documents += 1;
        if self.documents > 1 {
            return Err(
                Defect::new(pos, "documents", "a second document begins here")
                    .hint("only one is allowed: remove the line ---"),
            );
        }
        Ok(())
    }

    fn count(&mut self, pos: Pos) -> Result<(), Defect> {
        self.nodes += 1;
        if self.nodes > self.limits.nodes {
            let message = format!("more than {} values", self.limits.nodes);
            return Err(Defect::new(pos, "too-many", message));
        }
        Ok(())
    }

    fn deeper(&mut self, pos: Pos) -> Result<(), Defect> {
        if self.open.len() >= self.limits.depth {
            let message = format!("nested deeper than {} levels", self.limits.depth);
            return Err(Defect::new(pos, "too-deep", message));
        }
        Ok(())
    }

    /// Records a defect and continues, up to the limit.
    fn defect(&mut self, defect: Defect) -> Result<(), Defect> {
        if self.defects.len() + 1 >= self.limits.defects {
            return Err(Defect::new(defect.pos, "too-many-problems", defect.message)
                .hint("there may be more after this one"));
        }
        self.defects.push(defect);
        Ok(())
    }

    /// Whether the node has a tag, which makes the meaning of its value unknown.
    fn refuse_extras(&mut self, event: &Event<'_>, pos: Pos) -> Result<bool, Defect> {
        if event.anchor_id().is_some() {
            self.defect(
                Defect::new(pos, "anchor", "anchors (&name) are not allowed")
                    .hint("write the value where it is used, or quote a text that begins with &"),
            )?;
        }
        if let Some(tag) = event.tag() {
            let message = format!("tags ({}) are not allowed", tag.original());
            self.defect(
                Defect::new(pos, "tag", message).hint("quote a text that begins with !: '!'"),
            )?;
        }
        Ok(event.tag().is_some())
    }

    /// Adds a finished node to the open list or map.
    fn put(&mut self, node: Node) -> Result<(), Defect> {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(OpenNode::List(_, items)) => items.push(node),
            Some(OpenNode::Map {
                key: slot @ Some(_),
                entries,
                ..
            }) => {
                if let Some(Some((key, key_pos))) = slot.take() {
                    entries.push(Entry {
                        key,
                        key_pos,
                        value: node,
                    });
                }
            }
            Some(OpenNode::Map {
                key: slot @ None,
                first_lines,
                ..
            }) => {
                let (found, defect) = take_key(node, first_lines);
                *slot = Some(found);
                if let Some(d) = defect {
                    self.defect(d)?;
                }
            }
        }
        Ok(())
    }

    fn syntax(&self, e: &ScanError) -> Defect {
        use serde_yaml::granit_parser::ErrorKind as K;
        let at = e.marker();
        let pos = self.text.original(at.line(), at.col());
        if matches!(e.kind(), K::RecursionLimitExceeded) {
            let message = format!("nested deeper than {} levels", self.limits.depth);
            return Defect::new(pos, "too-deep", message);
        }
        let (message, hint) = plain_words(e);
        let mut defect = Defect::new(pos, "syntax", message);
        defect.hint = hint.map(str::to_string);
        defect
    }
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    let quoted = style != ScalarStyle::Plain;
    match text {
        "" | "~" if !quoted => Value::Null,
        _ => Value::Text {
            text: text.to_string(),
            quoted,
        },
    }
}

/// The key of a map entry, or `None` and the reason why its value is dropped.
fn take_key(
    node: Node,
    first_lines: &mut HashMap<String, u32>,
) -> (Option<(String, Pos)>, Option<Defect>) {
    let pos = node.pos;
    let Value::Text { text, quoted } = node.value else {
        let refused = node.value == Value::Refused;
        let defect = Defect::new(pos, "key", "a key must be a word");
        return (None, (!refused).then_some(defect));
    };
    if text == "<<" && !quoted {
        let defect = Defect::new(pos, "merge-key", "merge keys (<<) are not allowed");
        return (
            None,
            Some(defect.hint("write the keys where they are used")),
        );
    }
    if let Some(line) = first_lines.get(&text) {
        let message = format!("key {text:?} is already on line {line}");
        let defect = Defect::new(pos, "duplicate-key", message);
        return (None, Some(defect.hint("keep one of the two")));
    }
    first_lines.insert(text.clone(), pos.line);
    (Some((text, pos)), None)
}

/// The library's message in the terms of the manual page, and a common solution.
fn plain_words(e: &ScanError) -> (String, Option<&'static str>) {
    use serde_yaml::granit_parser::ErrorKind as K;
    let (message, hint) = match e.kind() {
        K::MappingValueNotAllowed => (
            "a second ': ' on the line, or wrong indentation",
            "quote a value that contains ': ', and align the keys of one map",
        ),
        K::UnexpectedEofFlowSequence | K::UnexpectedEofFlowMapping | K::UnexpectedEof => (
            "the file ends inside a list or map",
            "close the bracket, or restore the lost end",
        ),
        K::UnclosedFlowCollection { open: '{' } => ("this { is never closed", "add the }"),
        K::UnclosedFlowCollection { .. } => ("this [ is never closed", "add the ]"),
        K::UnclosedQuotedScalar => (
            "this quote is never closed",
            "close it; a ' inside '...' is written ''",
        ),
        K::ExpectedFlowSequenceSeparator => (
            "expected , or ] here",
            "quote a value that contains brackets or braces",
        ),
        K::ExpectedFlowMappingSeparator => (
            "expected , or } here",
            "quote a value that contains brackets or braces: 'node[01-04]'",
        ),
        K::ExpectedBlockMappingKey | K::InvalidIndentation | K::ExpectedBlockSequenceEntry => (
            "the indentation matches nothing above",
            "align it with the keys or items it belongs to",
        ),
        K::SimpleKeyExpected | K::InvalidSimpleKey => (
            "expected \"key: value\"",
            "a key needs a colon followed by a blank",
        ),
        K::DirectiveDisallowed => (
            "directives (%...) are not allowed",
            "quote a text that begins with %",
        ),
        K::TabNotAllowed | K::TabInBlockIndentation | K::TabInIndentation => (
            "a tab where YAML requires blanks",
            "replace the tab with blanks",
        ),
        K::MismatchedFlowCollectionEnd { .. } | K::MisplacedFlowCollectionEnd => (
            "this bracket has no opening bracket",
            "remove it, or open it before",
        ),
        K::BlockSequenceEntryNotAllowed | K::BlockEntryInFlowCollection => (
            "a list item (-) is not allowed here",
            "put it on its own line under its key",
        ),
        K::UnexpectedCharacter { .. } => (
            "a value cannot begin with this character",
            "put the value in quotes",
        ),
        _ => return (e.info(), None),
    };
    (message.to_string(), Some(hint))
}

#[cfg(test)]
mod tests;
