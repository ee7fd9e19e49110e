//! Circles of imports between the files of a room (a directory of `src/`): what `use` declarations
//! and paths in the code name, re-exports followed to the file that defines the item; and the number
//! of fields of one object and the names of public types. Test code does not count.

use crate::layering::split_top;
use crate::{source, tidy};
use std::collections::{BTreeMap, BTreeSet};

/// Most files of one circle.
const CIRCLE_MAX: usize = 4;

/// Most fields of one object. The fields of a document are keys of its format: they are not counted.
const FIELDS_MAX: usize = 15;
/// A module's path below the crate: `sched::quota::room` as its parts.
type Module = Vec<String>;
/// Blanked text of modules that are files.
type Files = BTreeMap<Module, String>;

/// All modules of the library that are files.
fn files() -> Files {
    let mut out = Files::new();
    for file in source::files("src", &["rs"]) {
        let stem = file.trim_start_matches("src/").trim_end_matches(".rs");
        let stem = stem.trim_end_matches("/mod");
        let module: Module = stem.split('/').map(str::to_owned).collect();
        if module[0] == "bin" || module[0] == "lib" || tidy::is_test_file(&file) {
            continue;
        }
        out.insert(module, without_tests(&source::blank(&source::read(&file))));
    }
    out
}

fn without_tests(blanked: &str) -> String {
    let mut text = blanked.to_owned();
    for range in source::test_ranges(blanked).into_iter().rev() {
        text.replace_range(range, "");
    }
    text
}

/// A path that a file names.
struct Named {
    path: Vec<String>,
    /// It is re-exported under this name.
    exported: Option<String>,
}

/// The paths of `use` declarations, and the text without them.
fn uses(text: &str) -> (Vec<Named>, String) {
    let (mut named, mut rest, mut at) = (Vec::new(), String::new(), 0);
    for line in text.split_inclusive('\n') {
        let start = line.as_ptr() as usize - text.as_ptr() as usize;
        let words = line.trim_start();
        let used = words.starts_with("use ")
            || words.starts_with("pub") && words.split_whitespace().nth(1) == Some("use");
        if start < at {
            continue;
        }
        if !used {
            rest.push_str(line);
            continue;
        }
        let end = text[start..].find(';').map_or(text.len(), |n| start + n);
        let whole = &text[start..end];
        let (_, tree) = whole.split_once("use ").expect("just found");
        let public = words.starts_with("pub");
        for (path, name) in expand(tree, &[]) {
            let exported = public.then_some(name);
            named.push(Named { path, exported });
        }
        at = end + 1;
    }
    (named, rest)
}

/// The paths of a use tree, each with the name under which it is known.
fn expand(tree: &str, prefix: &[String]) -> Vec<(Vec<String>, String)> {
    let tree = tree.trim();
    let parts = |text: &str| -> Vec<String> {
        let words = text.split("::").map(str::trim);
        words.filter(|w| !w.is_empty()).map(str::to_owned).collect()
    };
    if let (Some(open), Some(end)) = (tree.find('{'), tree.rfind('}')) {
        let head = [prefix, &parts(&tree[..open])].concat();
        let inner = split_top(&tree[open + 1..end]);
        return inner.into_iter().flat_map(|t| expand(t, &head)).collect();
    }
    let (path, name) = match tree.split_once(" as ") {
        Some((path, name)) => (path, Some(name.trim().to_owned())),
        None => (tree, None),
    };
    let path = [prefix, &parts(path)].concat();
    let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
    vec![(path, name)]
}

/// Paths of at least two parts in code.
fn paths(code: &str) -> Vec<Vec<String>> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(n) = code[at..].find(word) {
        let start = at + n;
        let end = code[start..]
            .find(|c: char| !word(c) && c != ':')
            .map_or(code.len(), |n| start + n);
        let before = code[..start].chars().next_back();
        let path = code[start..end].trim_end_matches(':');
        if path.contains("::") && !matches!(before, Some('.' | ':' | '$')) {
            out.push(path.split("::").map(str::to_owned).collect());
        }
        at = end;
    }
    out
}

/// A path that `module` names, from the crate's root; `None`: of another crate or of its own file.
fn absolute(files: &Files, module: &Module, path: &[String]) -> Option<Module> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([module, rest].concat()),
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            let base = module.len().checked_sub(ups)?;
            Some([&module[..base], &path[ups..]].concat())
        }
        _ => {
            let child = [&module[..], std::slice::from_ref(first)].concat();
            files.contains_key(&child).then(|| [module, path].concat())
        }
    }
}

/// The file that defines what a path names.
fn defining(files: &Files, exports: &BTreeMap<Module, Module>, path: &[String]) -> Option<Module> {
    let mut path = path.to_vec();
    for _ in 0..8 {
        let known = (1..=path.len()).rev().find(|n| {
            let module = path[..*n].to_vec();
            files.contains_key(&module)
        })?;
        let item = path.get(..known + 1).and_then(|item| exports.get(item));
        match item {
            Some(target) => path = [target, &path[known + 1..]].concat(),
            None => return Some(path[..known].to_vec()),
        }
    }
    None
}

/// The files that each file imports within its room.
fn imports(files: &Files) -> BTreeMap<&Module, BTreeSet<Module>> {
    let read: Vec<_> = files.iter().map(|(m, text)| (m, uses(text))).collect();
    let mut exports = BTreeMap::new();
    for (module, (named, _)) in &read {
        for one in named {
            let target = absolute(files, module, &one.path);
            if let (Some(name), Some(target)) = (&one.exported, target) {
                exports.insert([&module[..], std::slice::from_ref(name)].concat(), target);
            }
        }
    }
    let mut out = BTreeMap::new();
    for (module, (named, code)) in &read {
        // A re-export shows what lies below; it needs nothing of it.
        let named = named.iter().filter(|one| one.exported.is_none());
        let all = named.map(|one| one.path.clone()).chain(paths(code));
        let targets = all.filter_map(|path| absolute(files, module, &path));
        let targets = targets.filter_map(|path| defining(files, &exports, &path));
        let own = targets.filter(|to| to != *module && to[0] == module[0]);
        out.insert(*module, own.collect::<BTreeSet<_>>());
    }
    out
}

/// The largest circle of each room that has one.
fn largest_circles(files: &Files) -> BTreeMap<String, Vec<String>> {
    let imports = imports(files);
    let reach = |from: &Module| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = next.pop() {
            for to in imports.get(&module).into_iter().flatten() {
                if seen.insert(to.clone()) {
                    next.push(to.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&Module, BTreeSet<Module>> =
        imports.keys().map(|m| (*m, reach(m))).collect();
    let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (module, to) in &reached {
        let back = |other: &&Module| reached.get(other).is_some_and(|to| to.contains(*module));
        let circle: Vec<String> = to.iter().filter(back).map(|m| m.join("/")).collect();
        let known = out.entry(module[0].clone()).or_default();
        if circle.len() > known.len() {
            *known = circle;
        }
    }
    out.retain(|_, circle| !circle.is_empty());
    out
}

#[test]
fn circles_of_imports_are_small() {
    let circles = largest_circles(&files());
    let mut wrong = Vec::new();
    for (room, circle) in circles
        .iter()
        .filter(|(_, circle)| circle.len() > CIRCLE_MAX)
    {
        let (n, files) = (circle.len(), circle.join(" "));
        wrong.push(format!(
            "src/{room}: {n} files import each other in a circle, at most {CIRCLE_MAX}: {files}"
        ));
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn a_circle_is_seen() {
    let of = |files: &[(&str, &str)]| -> Files {
        let module = |path: &str| path.split('/').map(str::to_owned).collect();
        let one = |(path, text): &(&str, &str)| (module(path), (*text).to_owned());
        files.iter().map(one).collect()
    };
    let mut files = of(&[
        ("room", "mod a;\nmod b;\nmod c;\npub use a::A;\n"),
        ("room/a", "use super::b::{self, B};\nuse std::fmt;\n"),
        ("room/b", "use super::c::C as D;\n"),
        ("room/c", "fn c() { crate::room::leaf(super::A::new()) }\n"),
        ("room/d", "use super::A;\n"),
        ("other", "use crate::room::A;\n"),
    ]);
    let found = largest_circles(&files);
    // The re-exporting file is no part of it, nor is what nothing imports.
    assert_eq!(found["room"], ["room/a", "room/b", "room/c"]);
    assert_eq!(found.len(), 1);
    files.insert(
        ["room", "c"].map(str::to_owned).to_vec(),
        "fn c() { fmt::x() }\n".to_owned(),
    );
    assert_eq!(largest_circles(&files).len(), 0);
}

/// Names of the structs in blanked text that are not documents, with the number of their fields.
fn objects(blanked: &str) -> Vec<(String, usize)> {
    let mut out = Vec::new();
    for (at, _) in blanked.match_indices("struct ") {
        let rest = &blanked[at + "struct ".len()..];
        let end = rest.find(['{', ';', '(']).unwrap_or(rest.len());
        if !rest[end..].starts_with('{') || is_document(&blanked[..at]) {
            continue;
        }
        let name = rest[..end].split(['<', ' ']).next().unwrap_or_default();
        let body = &rest[end + 1..source::body_end(rest, end).saturating_sub(1)];
        let field = |line: &&str| line.contains(": ") && line.starts_with("    ");
        let fields = body
            .lines()
            .filter(field)
            .filter(|l| !l.starts_with("     "));
        out.push((name.to_owned(), fields.count()));
    }
    out
}

/// Whether the item after this text is read from or written to a file.
fn is_document(before: &str) -> bool {
    let attribute = |line: &&str| line.starts_with("#[");
    let above = before.lines().rev().skip(1).map(str::trim);
    let mut attributes = above.take_while(|line| attribute(line));
    attributes.any(|line| line.contains("erialize"))
}

#[test]
fn documents_are_not_objects() {
    let text = "#[derive(Debug, Serialize)]\n#[x]\npub struct A {\n    b: u8,\n}\nstruct C {\n    d: u8,\n}\n";
    assert_eq!(objects(text), [("C".to_owned(), 1)]);
}

#[test]
fn objects_have_few_fields() {
    let mut wrong = Vec::new();
    for (module, text) in &files() {
        for (name, n) in objects(text).into_iter().filter(|(_, n)| *n > FIELDS_MAX) {
            let file = module.join("/");
            wrong.push(format!(
                "src/{file}: {name} has {n} fields, at most {FIELDS_MAX}: group them"
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// Names of the public types in blanked text.
fn public_types(blanked: &str) -> Vec<String> {
    let mut out = Vec::new();
    for line in blanked.lines().map(str::trim_start) {
        let mut words = line.split_whitespace();
        let public = words.next().is_some_and(|word| word.starts_with("pub"));
        // `pub(in crate::sched)` is two words.
        let kind = words.find(|word| !word.ends_with(')'));
        let kinds = ["struct", "enum", "trait", "type"];
        if public && kind.is_some_and(|kind| kinds.contains(&kind)) {
            let name = words.next().unwrap_or_default();
            let end = name.find(|c: char| !c.is_alphanumeric());
            out.push(name[..end.unwrap_or(name.len())].to_owned());
        }
    }
    out
}

#[test]
fn public_types_have_names_of_their_own() {
    let mut seen: BTreeMap<(String, String), String> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (module, text) in &files() {
        for name in public_types(text) {
            let file = module.join("/");
            let other = seen.insert((module[0].clone(), name.clone()), file.clone());
            if let Some(other) = other {
                wrong.push(format!("src/{file}: {name} is also a type of src/{other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn public_types_are_seen() {
    let text = "pub struct A<T> {}\n    pub(in crate::x) type B = u8;\nstruct C;\npub fn d() {}\n";
    assert_eq!(public_types(text), ["A", "B"]);
}

#[test]
fn fields_are_counted() {
    let text = "struct A<'a> {\n    pub b: u8,\n    c: (u8, u8),\n}\nstruct D(u8);\nstruct E {}\n";
    let found = objects(text);
    assert_eq!(found, [("A".to_owned(), 2), ("E".to_owned(), 0)]);
}
