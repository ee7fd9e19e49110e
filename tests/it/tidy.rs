//! What can be checked about the house is checked here: width, sizes, file headers, banned words,
//! strangers' paths, man pages, files that comments and documents name, the shape of the changelog.
//! Exceptions are named one by one and may only shrink.

use crate::source;
use std::sync::OnceLock;

const WIDTH: usize = 100;
const FILE_LINES: usize = 800;
const FN_LINES: usize = 70;

/// Functions that are still too long: file, name, code lines. Shrink it, never grow it.
const LONG_FUNCTIONS: &[(&str, &str, usize)] =
    &[("src/text/resreq/select.rs", "text_comparison", 71)];
/// Files that are still too long, with their lines.
const LONG_FILES: &[(&str, usize)] = &[];

/// Words that mark unfinished work, spelled so that this file does not contain them.
fn banned() -> Vec<String> {
    ["to_do!", "un_implemented!", "d_bg!", "FIX_ME", "XX_X"]
        .iter()
        .map(|w| w.replace('_', ""))
        .collect()
}

fn rust_files() -> Vec<String> {
    let mut all = source::files("src", &["rs"]);
    all.extend(source::files("tests", &["rs"]));
    all.extend(source::files("benches", &["rs"]));
    all
}

/// A file whose whole content is test code: by its name, or because its module is declared so.
pub fn is_test_file(name: &str) -> bool {
    static DECLARED: OnceLock<Vec<String>> = OnceLock::new();
    let declared = DECLARED.get_or_init(|| {
        let all = source::files("src", &["rs"]);
        all.iter().flat_map(|f| test_modules(f)).collect()
    });
    let stem = name.trim_end_matches(".rs").trim_end_matches("/mod");
    if declared.iter().any(|d| d == stem) {
        return true;
    }
    name.starts_with("tests/")
        || name.starts_with("benches/")
        || name.ends_with("/tests.rs")
        || name.contains("/tests/")
}

/// Paths, without `.rs`, of the modules that a file declares for tests only.
fn test_modules(file: &str) -> Vec<String> {
    let text = source::blank(&source::read(file));
    let dir = file.trim_end_matches(".rs").trim_end_matches("/mod");
    text.split("#[cfg(test)]")
        .skip(1)
        .filter_map(|rest| {
            let (head, _) = rest.split_once(';')?;
            let (before, name) = head.trim().split_once("mod ")?;
            let visibility = ["", "pub ", "pub(crate) ", "pub(super) "];
            visibility
                .contains(&before)
                .then(|| format!("{dir}/{name}"))
        })
        .collect()
}

fn report(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn lines_fit_in_the_width() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        let text = source::read(&file);
        let tests = source::test_ranges(&source::blank(&text));
        let mut at = 0;
        for (n, line) in text.split_inclusive('\n').enumerate() {
            let width = line.trim_end().chars().count();
            // Expected texts in tests read best as they are printed.
            let judged = !is_test_file(&file) && !tests.iter().any(|r| r.contains(&at));
            at += line.len();
            if judged && width > WIDTH {
                wrong.push(format!(
                    "{file}:{}: {width} columns, at most {WIDTH}",
                    n + 1
                ));
            }
        }
    }
    report(&wrong);
}

#[test]
fn files_fit_in_the_bound() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        let lines = source::read(&file).lines().count();
        let bound = LONG_FILES
            .iter()
            .find(|(f, _)| *f == file)
            .map_or(FILE_LINES, |(_, n)| *n);
        if lines > bound {
            wrong.push(format!("{file}: {lines} lines, at most {bound}: split it"));
        } else if bound > FILE_LINES && lines + 20 < bound {
            wrong.push(format!(
                "{file}: now {lines} lines: lower its exception of {bound}"
            ));
        }
    }
    report(&wrong);
}

#[test]
fn source_files_say_what_they_own() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        if !source::read(&file).starts_with("//! ") {
            wrong.push(format!("{file}: starts without a `//!` header"));
        }
    }
    report(&wrong);
}

/// Name, line and code lines of each function with a body in blanked text.
fn functions(blanked: &str) -> Vec<(String, usize, usize)> {
    let mut out = Vec::new();
    for (at, _) in blanked.match_indices("fn ") {
        if blanked[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &blanked[at + 3..];
        let name: String = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let Some(open) = rest.find(['{', ';']) else {
            continue;
        };
        if name.is_empty() || rest.as_bytes()[open] == b';' {
            continue;
        }
        let body = &blanked[at + 3 + open..source::body_end(blanked, at + 3 + open)];
        let code = body
            .lines()
            .skip(1)
            .filter(|l| !l.trim().is_empty())
            .count();
        // The line of the closing brace is not code.
        let code = code.saturating_sub(1);
        out.push((name, at, code));
    }
    out
}

#[test]
fn functions_fit_on_a_screen() {
    let mut wrong = Vec::new();
    for file in source::files("src", &["rs"])
        .iter()
        .filter(|f| !is_test_file(f))
    {
        let text = source::read(file);
        let blanked = source::blank(&text);
        let tests = source::test_ranges(&blanked);
        for (name, at, code) in functions(&blanked) {
            if tests.iter().any(|r| r.contains(&at)) {
                continue;
            }
            let line = source::line_of(&text, at);
            let bound = LONG_FUNCTIONS
                .iter()
                .find(|(f, n, _)| f == file && *n == name)
                .map_or(FN_LINES, |(_, _, b)| *b);
            if code > bound {
                wrong.push(format!(
                    "{file}:{line}: fn {name} has {code} code lines, at most {bound}"
                ));
            } else if bound > FN_LINES && code + 5 < bound {
                wrong.push(format!(
                    "{file}:{line}: fn {name} now has {code}: lower its exception"
                ));
            }
        }
    }
    report(&wrong);
}

#[test]
fn no_unfinished_or_panicking_shortcuts() {
    let mut wrong = Vec::new();
    let banned = banned();
    for file in rust_files() {
        let text = source::read(&file);
        for (n, line) in text.lines().enumerate() {
            for w in banned.iter().filter(|w| line.contains(w.as_str())) {
                wrong.push(format!("{file}:{}: {w}", n + 1));
            }
        }
        if is_test_file(&file) {
            continue;
        }
        let blanked = source::blank(&text);
        let tests = source::test_ranges(&blanked);
        for (at, _) in blanked.match_indices(".unwrap()") {
            if !tests.iter().any(|r| r.contains(&at)) {
                let line = source::line_of(&text, at);
                wrong.push(format!(
                    "{file}:{line}: unwrap outside tests: say why in an expect"
                ));
            }
        }
    }
    report(&wrong);
}

#[test]
fn nothing_names_a_private_machine() {
    // Built from parts, so that this list does not find itself.
    let private: Vec<String> = ["/wo rk/", "../sha red", "/ro ot/", "/ho me/"]
        .iter()
        .map(|w| w.replace(' ', ""))
        .collect();
    let mut wrong = Vec::new();
    for dir in [
        "src", "tests", "docs", "man", "sbin", "etc", ".ci", "ress.d",
    ] {
        for file in source::files(dir, &[]) {
            let Ok(text) = std::fs::read_to_string(source::root().join(&file)) else {
                continue;
            };
            for (n, line) in text.lines().enumerate() {
                for p in private.iter().filter(|p| line.contains(p.as_str())) {
                    wrong.push(format!("{file}:{}: {p}", n + 1));
                }
            }
        }
    }
    for file in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Cargo.toml"] {
        let text = source::read(file);
        wrong.extend(
            private
                .iter()
                .filter(|p| text.contains(p.as_str()))
                .map(|p| format!("{file}: {p}")),
        );
    }
    report(&wrong);
}

/// The section files under man/ that document `name`.
fn man_page(name: &str) -> Option<String> {
    ["1", "5", "7", "8"]
        .iter()
        .map(|s| format!("man/{name}.{s}"))
        .find(|f| source::root().join(f).is_file())
}

#[test]
fn every_program_has_a_man_page() {
    let mut wrong = Vec::new();
    for file in source::files("src/bin", &["rs"]) {
        let name = file.trim_start_matches("src/bin/").trim_end_matches(".rs");
        if man_page(name).is_none() {
            wrong.push(format!("{file}: no man/{name}.1 or .8"));
        }
    }
    let names = corral::commands::names()
        .chain(corral::commands::lsf_names())
        .chain(corral::commands::slurm_names());
    for name in names {
        if man_page(name).is_none() {
            wrong.push(format!("{name}: no man/{name}.1 or .8"));
        }
    }
    report(&wrong);
}

/// The options that a command's help lists, without dashes.
fn options_of(name: &str) -> Vec<String> {
    let cb = std::process::Command::new(env!("CARGO_BIN_EXE_cb"))
        .args([name, "-h"])
        .output();
    let out = cb.expect("cb runs");
    let help = String::from_utf8_lossy(&out.stdout).into_owned();
    let lines = help
        .lines()
        .filter(|l| l.starts_with("  ") && l.trim_start().starts_with('-'));
    lines
        .flat_map(|l| l.split_whitespace().take(2))
        .filter(|w| w.starts_with('-'))
        .map(|w| w.trim_matches(['-', ',', '.']).to_string())
        .filter(|w| !["h", "help", "V", "version"].contains(&w.as_str()))
        .collect()
}

#[test]
fn man_pages_name_every_option() {
    let mut wrong = Vec::new();
    for name in corral::commands::names() {
        let Some(page) = man_page(name).filter(|p| !source::read(p).starts_with(".so ")) else {
            continue;
        };
        let text = source::read(&page);
        for option in options_of(name) {
            let word = format!("\\-{}", option.replace('-', "\\-"));
            let named = text.match_indices(&word).any(|(at, _)| {
                !text[at + word.len()..].starts_with(|c: char| c.is_ascii_alphanumeric())
            });
            if !named {
                wrong.push(format!("{page}: says nothing of -{option}"));
            }
        }
    }
    report(&wrong);
}

#[test]
fn man_pages_have_the_sections_a_reader_looks_for() {
    let mut wrong = Vec::new();
    for file in source::files("man", &["1", "5", "7", "8"]) {
        let text = source::read(&file);
        if let Some(path) = text.strip_prefix(".so ") {
            let target = format!("man/{}", path.trim().rsplit('/').next().unwrap());
            if !source::root().join(&target).is_file() {
                wrong.push(format!("{file}: refers to {target}, which does not exist"));
            }
            continue;
        }
        for section in [".TH ", ".SH NAME", ".SH DESCRIPTION"] {
            if !text.contains(section) {
                wrong.push(format!("{file}: no {section}"));
            }
        }
    }
    report(&wrong);
}

#[test]
fn the_changelog_keeps_its_shape() {
    let text = source::read("CHANGELOG.md");
    let mut versions = text.lines().filter(|l| l.starts_with("## "));
    assert_eq!(
        versions.next(),
        Some("## Unreleased"),
        "CHANGELOG.md: first section"
    );
    for line in versions {
        let words: Vec<&str> = line.split(' ').collect();
        assert!(
            words.len() == 4 && words[2] == "-",
            "CHANGELOG.md: {line}: `## X.Y.Z - DATE`"
        );
    }
    let kinds = [
        "### Added",
        "### Changed",
        "### Fixed",
        "### Removed",
        "### Security",
    ];
    for line in text.lines().filter(|l| l.starts_with("### ")) {
        assert!(
            kinds.contains(&line),
            "CHANGELOG.md: {line}: not one of {kinds:?}"
        );
    }
}

#[test]
fn the_readme_names_scripts_that_exist() {
    let text = source::read("README.md");
    for word in text.split(|c: char| c.is_whitespace() || "`()".contains(c)) {
        let name = word
            .trim_start_matches("./")
            .trim_end_matches(['.', ',', ':']);
        if name.starts_with("sbin/") || name.starts_with("docs/") || name.starts_with("man/") {
            assert!(
                source::root().join(name).exists(),
                "README.md: {name} does not exist"
            );
        }
    }
}

/// Words of `text` that look like files with one of these extensions.
fn file_names<'a>(text: &'a str, ext: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let inside = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    text.split(move |c: char| !inside(c))
        .map(|word| word.trim_end_matches('.'))
        .filter(move |word| {
            let stem = |e: &&str| word.strip_suffix(e).is_some_and(|s| s.ends_with('.'));
            ext.iter().any(stem) && !word.starts_with('.')
        })
}

/// Whether `word`, written in `file`, names a file: from the root, from src, or from a folder of
/// `file`.
fn names_a_file(file: &str, word: &str) -> bool {
    let own = file.trim_end_matches(".rs");
    let folders = ["", "src"].into_iter().chain(
        own.match_indices('/')
            .map(|(at, _)| &own[..at])
            .chain([own]),
    );
    let root = source::root();
    folders
        .into_iter()
        .any(|f| root.join(f).join(word).is_file())
}

#[test]
fn files_named_in_comments_exist() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        for (n, line) in source::read(&file).lines().enumerate() {
            let Some((before, comment)) = line.split_once("//") else {
                continue;
            };
            // A path or address in a literal is no comment.
            if !before.trim().is_empty() && !before.ends_with(' ') {
                continue;
            }
            for word in file_names(comment, &["rs", "md", "case", "sh", "py"]) {
                if !names_a_file(&file, word) {
                    wrong.push(format!("{file}:{}: {word} does not exist", n + 1));
                }
            }
        }
    }
    report(&wrong);
}

#[test]
fn files_named_in_documents_exist() {
    let mut wrong = Vec::new();
    let mut documents = source::files("docs", &["md"]);
    documents.extend(["README.md", "CONTRIBUTING.md"].map(str::to_owned));
    for file in documents {
        let text = source::read(&file);
        let folder = file.rsplit_once('/').map_or("", |(f, _)| f);
        for quoted in text.split('`').skip(1).step_by(2) {
            let path = quoted.split(' ').next().unwrap_or_default();
            let ours = ["src/", "docs/", "tests/", "sbin/", "benches/", "ress.d/"];
            let plain = !path.contains(|c: char| "*<{".contains(c));
            if plain && ours.iter().any(|p| path.starts_with(p)) && !on_disk(path) {
                wrong.push(format!("{file}: {path} does not exist"));
            }
        }
        for link in text.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap_or_default();
            let beside = std::path::Path::new(folder).join(target);
            let elsewhere = target.is_empty() || target.contains(':');
            if !elsewhere && !source::root().join(&beside).exists() {
                wrong.push(format!("{file}: the link to {target} leads nowhere"));
            }
        }
    }
    report(&wrong);
}

fn on_disk(path: &str) -> bool {
    source::root().join(path).exists()
}

/// Names and lines that are parsed, in variables that are called like messages: file and the text
/// or the name of the value that is searched for.
const PARSED: &[(&str, &str)] = &[
    ("src/admin/config_file.rs", "prefix"),
    ("src/commands/complete/live.rs", "word"),
    ("src/host/exe/mod.rs", "orders."),
    ("src/host/shepherd.rs", "PATH="),
    ("src/sys/load.rs", "p"),
    ("src/task/build.rs", "prefix"),
    ("src/task/hooks.rs", "n"),
];

/// What holds a message, a state or an error: the last word before `.contains("...")`.
const MESSAGES: &[&str] = &[
    "message",
    "status",
    "why",
    "error",
    "reason",
    "said",
    "note",
    "notes",
    "what",
    "e",
    "n",
    "s",
    "outcome.text",
    "e.text",
    "to_string()",
];

/// Whether this argument of a call is the name of a constant or variable with a text. The argument
/// of `contains` may also be an element of a set: only a constant counts.
fn names_a_text(call: &str, argument: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let is_name =
        argument.starts_with(|c: char| c.is_ascii_alphabetic()) && argument.chars().all(is_part);
    is_name && (call != "contains(" || !argument.contains(|c: char| c.is_ascii_lowercase()))
}

/// Texts by which this file judges a message, or the names of constants and variables that hold
/// them, with their offsets.
fn judged_by_text(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for call in ["contains(", "starts_with(", "ends_with(", "strip_prefix("] {
        for (at, _) in text.match_indices(&format!(".{call}")) {
            let inside = |c: char| c.is_alphanumeric() || "_.()".contains(c);
            let before = text[..at].trim_end();
            let receiver = before.rsplit(|c| !inside(c)).next().unwrap_or_default();
            let judged = MESSAGES.iter().any(|m| {
                receiver
                    .strip_suffix(m)
                    .is_some_and(|r| r.is_empty() || r.ends_with('.'))
            });
            let given = text[at + 1 + call.len()..].trim_start_matches('&');
            let searched = match given.strip_prefix('"') {
                Some(literal) => &literal[..literal.find('"').unwrap_or(0)],
                None => &given[..given.find(')').unwrap_or(0)],
            };
            let is_text = given.starts_with('"') && searched.len() > 1;
            if judged && (is_text || names_a_text(call, searched)) {
                found.push((at, searched));
            }
        }
    }
    found
}

#[test]
fn nothing_is_judged_by_its_text() {
    let (mut wrong, mut seen) = (Vec::new(), Vec::new());
    for file in source::files("src", &["rs"])
        .iter()
        .filter(|f| !is_test_file(f))
    {
        let text = source::read(file);
        let tests = source::test_ranges(&source::blank(&text));
        for (at, literal) in judged_by_text(&text) {
            let here = (file.as_str(), literal);
            if tests.iter().any(|r| r.contains(&at)) {
                continue;
            }
            match PARSED.iter().find(|known| **known == here) {
                Some(known) => seen.push(known),
                None => wrong.push(format!(
                    "{file}:{}: judges by the text {literal:?}: make a type of it",
                    source::line_of(&text, at)
                )),
            }
        }
    }
    let gone = PARSED.iter().filter(|known| !seen.contains(known));
    wrong.extend(gone.map(|(file, text)| format!("{file}: {text:?} is gone: unlist it")));
    report(&wrong);
}

#[test]
fn judging_by_a_text_is_seen() {
    let found = |text| {
        judged_by_text(text)
            .into_iter()
            .map(|(_, t)| t)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found("bad.iter().all(|(_, why)| why.contains(\"Torn\"))"),
        ["Torn"]
    );
    assert_eq!(found("e.message.starts_with(\"more\")"), ["more"]);
    assert_eq!(
        found("all.any(|start| message.starts_with(start))"),
        ["start"]
    );
    assert_eq!(found("why.starts_with(NEWER)"), ["NEWER"]);
    assert_eq!(found("why.contains(NEWER)"), ["NEWER"]);
    assert_eq!(found("notes.contains(&note)"), [] as [&str; 0]);
    assert_eq!(found("e.text.contains(char::is_control)"), [] as [&str; 0]);
    assert_eq!(found("line.strip_prefix(\"#CSUB\")"), [] as [&str; 0]);
}

/// Rooms whose language was mended: a prefix of a path, or an ending after `*`. Add a room once the
/// test passes for it.
const PLAIN_ROOMS: &[&str] = &[
    "src/channel/",
    "src/config/",
    "src/text/",
    "src/model/",
    "src/sensors/",
    "src/sys/",
    "src/state/",
    "src/spool/",
    "src/task/",
    "src/record/",
    "src/journal/",
    "src/lease/",
    "src/host/",
    "src/master/",
    "src/turn/",
    "src/sched/",
    "src/intake/",
    "src/alert/",
    "src/notify/",
    "src/export/",
    "src/drmaa/",
    "src/x11/",
    "src/web/",
    "src/faults/",
    "src/replay/",
    "src/client/",
    "src/admin/",
    "src/api/",
    "src/api.rs",
    "src/show/",
    "src/notifier/",
    "src/language/",
    "src/language.rs",
    "src/program.rs",
    "src/commands/",
    "src/commands.rs",
    "src/bin/",
    "src/cbsim.rs",
    "src/lib.rs",
    "src/state_loader.rs",
    "docs/",
    "etc/",
    "man/",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
];

/// Words that made sentences odd: name the subject, say "after", "reported", "again", "separated
/// by", "ignored", "the user", "which is the maximum", "use --mem", "the result of". A name of a test
/// in quotes may have them.
const ODD_WORDS: &[&str] = &[
    "somebody",
    "whoever",
    "nobody",
    "anew",
    "told",
    "behind",
    "passed over",
    "passes over",
    "pass over",
    "parted by",
    "himself",
    "his",
    "he",
    "the most there may be",
    "say it with",
    "what came of",
    "what became of",
    "in spite of obstacles",
    "as it stands",
];

/// Phrases that were taken out of the documents and manual pages: say "at growing intervals",
/// "what happens to", "cannot be combined with", "still", "reconstructed", "current", "all users".
const ODD_IN_DOCUMENTS: &[&str] = &[
    "ever more rarely",
    "ever more slowly",
    "what becomes of",
    "not together with",
    "all the same",
    "made again",
    "of now",
    "on record",
    "parted",
    "everybody",
    "whatever",
];

/// Whether a file is one of the texts that users, administrators and developers read.
fn is_document(file: &str) -> bool {
    let rooms = ["docs/", "man/", "README.md", "CONTRIBUTING.md"];
    rooms.iter().any(|room| file.starts_with(room))
}

/// The odd words of a line, and "is no X" where "is not an X" is meant.
fn odd_words(line: &str) -> Vec<&'static str> {
    let line = format!(" {} ", line.to_lowercase());
    let whole = |at: usize, len: usize| {
        let edge = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        edge(line[..at].chars().next_back()) && edge(line[at + len..].chars().next())
    };
    // A word alone in quotes is a name: the account "nobody".
    let name = |at: usize, len: usize| {
        line[..at].ends_with(['"', '`']) && line[at + len..].starts_with(['"', '`'])
    };
    let has = |word: &str| {
        let mut found = line.match_indices(word);
        found.any(|(at, w)| whole(at, w.len()) && !name(at, w.len()))
    };
    // A clock is ahead of another one or behind it.
    let of_clocks = |word: &str| word == "behind" && has("ahead of");
    let odd = ODD_WORDS.iter().copied();
    let mut found: Vec<_> = odd.filter(|w| has(w) && !of_clocks(w)).collect();
    for phrase in ["is no", "are no"] {
        let odd = line.match_indices(phrase).any(|(at, p)| {
            let (before, after) = (&line[..at], line[at + p.len()..].trim_start());
            let comparison = ["longer", "more", "less"]
                .iter()
                .any(|w| after.starts_with(w));
            let there = before.trim_end().ends_with("there");
            whole(at, p.len()) && !there && !comparison && !after.is_empty()
        });
        found.extend(odd.then_some(phrase));
    }
    found
}

#[test]
fn odd_phrases_do_not_come_back() {
    let mut wrong = Vec::new();
    let mut files = source::files("src", &["rs"]);
    for dir in ["docs", "etc", "man"] {
        files.extend(source::files(dir, &[]));
    }
    files.extend(["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(str::to_owned));
    let is_plain = |f: &String| {
        let listed = |room: &&str| match room.strip_prefix('*') {
            Some(ending) => f.ends_with(ending),
            None => f.starts_with(*room),
        };
        PLAIN_ROOMS.iter().any(listed) && !is_test_file(f)
    };
    for file in files.iter().filter(|f| is_plain(f)) {
        for (n, line) in source::read(file).lines().enumerate() {
            // Documents quote names of tests, which change with the tests.
            let quoted = |line: &str| line.split(['`', '"']).step_by(2).collect::<String>();
            let output = match file.ends_with(".md") {
                true => quoted(line),
                // Names of fields in files are for programs, and stay.
                false if line.trim_start().starts_with("#[serde(") => String::new(),
                false => line.to_owned(),
            };
            let lower = output.to_lowercase();
            let odd = ODD_IN_DOCUMENTS.iter().copied();
            let odd = odd.filter(|w| is_document(file) && lower.contains(w));
            for word in odd_words(&output).into_iter().chain(odd) {
                wrong.push(format!(
                    "{file}:{}: \"{word}\" reads oddly: {}",
                    n + 1,
                    line.trim()
                ));
            }
        }
    }
    report(&wrong);
}

#[test]
fn an_odd_phrase_is_seen() {
    assert_eq!(odd_words("'x' is no number, he said"), ["he", "is no"]);
    assert_eq!(
        odd_words("there is no queue; it is no longer open"),
        [] as [&str; 0]
    );
    assert_eq!(odd_words("history of the_told thing"), [] as [&str; 0]);
    assert_eq!(odd_words("the account \"nobody\""), [] as [&str; 0]);
}

#[test]
fn a_file_that_does_not_exist_is_seen() {
    let words: Vec<&str> = file_names(
        "see `pass.rs`, docs/faults.md. Not e.g. this",
        &["rs", "md"],
    )
    .collect();
    assert_eq!(words, ["pass.rs", "docs/faults.md"]);
    assert!(names_a_file("src/sched/engine.rs", "pass.rs"));
    assert!(!names_a_file("src/lib.rs", "tests/layering.rs"));
}

#[test]
fn a_long_function_is_seen() {
    let body = "    let x = 1;\n".repeat(71);
    let text =
        format!("fn long(a: u32) -> u32\nwhere\n    u32: Copy,\n{{\n{body}}}\nfn short() {{}}\n");
    let found = functions(&source::blank(&text));
    assert_eq!(found[0].0, "long");
    assert!(found[0].2 > FN_LINES, "{found:?}");
    assert_eq!(found[1].2, 0);
}
