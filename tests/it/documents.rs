//! Documents that name tests say the truth: what they name exists; no file has a leftover of a merge.
//! Owns no test of the product.

use crate::source;

/// The fault matrix and the security table name their tests: each name is a function (`file::name`,
/// the file without folder where it is in tests/it), a scenario of the lab or a script.
#[test]
fn tests_that_the_documents_name_exist() {
    let mut missing = Vec::new();
    let scenarios: String = source::files("tests/nfs", &["py"])
        .iter()
        .map(|file| source::read(file))
        .collect();
    let mut seen = 0;
    for row in source::read("docs/fault-matrix.md").lines() {
        let Some(shown) = row.strip_prefix("| ").and_then(|r| r.split(" | ").nth(3)) else {
            continue;
        };
        let mut kind = "";
        for word in shown.trim_end_matches(" |").split([' ', ',']) {
            let known = match word {
                "" | "*not" | "covered*" | "*manual*" | "shown" | "by" => continue,
                "[unit]" | "[e2e]" | "[sim]" | "[lab]" | "[script]" => {
                    kind = word;
                    continue;
                }
                name if kind == "[lab]" => scenarios.contains(&format!("\ndef {name}(c):")),
                script if kind == "[script]" => exists(script),
                name => named_test_exists(kind, name),
            };
            seen += 1;
            if !known {
                missing.push(word.to_owned());
            }
        }
    }
    assert!(seen >= 90, "the table was not understood: {seen} names");
    assert_eq!(missing, [] as [&str; 0], "named in docs/fault-matrix.md");
}

/// The damage matrix has a row for each kind of file that `cadmin fsck` knows, no other row, and
/// names tests that exist.
#[test]
fn the_damage_matrix_has_a_row_for_each_kind_of_file() {
    let patterns = |file: &str| -> Vec<String> {
        let text = source::read(file);
        let (_, table) = text.split_once("_FILES: &[").expect("a table");
        let (table, _) = table.split_once("];").expect("its end");
        let pairs = table.lines().filter_map(|line| line.split('"').nth(1));
        pairs.map(str::to_owned).collect()
    };
    let mut known = patterns("src/spool/share_files.rs");
    known.extend(patterns("src/host/local.rs"));
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for row in source::read("docs/damage-matrix.md").lines() {
        let Some((file, rest)) = row.strip_prefix("| `").and_then(|r| r.split_once("` |")) else {
            continue;
        };
        rows.push(file.to_owned());
        let shown = rest.rsplit(" | ").next().unwrap_or_default();
        let mut kind = "";
        for word in shown.trim_end_matches(" |").split([' ', ',']) {
            match word {
                "" | "*not" | "covered*" => {}
                "[unit]" | "[e2e]" => kind = word,
                name if named_test_exists(kind, name) => {}
                name => missing.push(name.to_owned()),
            }
        }
    }
    assert!(
        known.len() >= 40,
        "the tables were not understood: {known:?}"
    );
    assert_eq!(
        rows, known,
        "docs/damage-matrix.md has other files than the code"
    );
    assert_eq!(missing, [] as [&str; 0], "named in docs/damage-matrix.md");
}

/// A merge that was resolved in a hurry leaves such a line where no compiler looks.
#[test]
fn no_file_has_a_conflict_marker() {
    let mut files: Vec<String> = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
        .map(str::to_owned)
        .into();
    files.extend(source::files("docs", &["md"]));
    for dir in ["man", "sbin", "ress.d"] {
        files.extend(source::files(dir, &[]));
    }
    files.extend(source::files("etc", &["yaml", "yml", "conf"]));
    files.extend(source::files("src", &["rs", "po"]));
    files.extend(source::files("tests", &["rs", "txt", "sh", "py"]));
    let marks = ["<<<<<<<", "|||||||", ">>>>>>>"];
    let is_marker = |line: &str| {
        let mark = marks.iter().find_map(|mark| line.strip_prefix(mark));
        mark.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    assert!(is_marker("||||||| 5345e5c1") && !is_marker("|||||||||"));
    let mut found = Vec::new();
    for file in &files {
        let text = source::read(file);
        let lines = text.lines().enumerate();
        let marked = lines.filter(|(_, line)| is_marker(line));
        found.extend(marked.map(|(n, _)| format!("{file}:{}", n + 1)));
    }
    assert_eq!(found, [] as [&str; 0], "lines of an unresolved merge");
}

/// So does the list of expectations.
#[test]
fn tests_that_the_expectations_name_exist() {
    let (mut missing, mut seen) = (Vec::new(), 0);
    for row in source::read("docs/expectations.md").lines() {
        let cells: Vec<&str> = row.split(" | ").collect();
        let numbered = row.starts_with("| ") && !row.starts_with("| no.");
        let Some(shown) = cells.get(2).filter(|_| numbered) else {
            continue;
        };
        let mut kind = "";
        for word in shown.split([' ', ',']).filter(|word| !word.is_empty()) {
            if word.starts_with('[') {
                kind = word;
                continue;
            }
            seen += 1;
            let known = match kind {
                "[script]" => exists(word),
                "[unit]" | "[e2e]" => named_test_exists(kind, word),
                _ => false,
            };
            if !known {
                missing.push(word.to_owned());
            }
        }
    }
    assert!(seen >= 40, "the table was not understood: {seen} names");
    assert_eq!(missing, [] as [&str; 0], "named in docs/expectations.md");
}

fn named_test_exists(kind: &str, name: &str) -> bool {
    let Some((file, function)) = name.split_once("::") else {
        return false;
    };
    let file = match kind {
        "[e2e]" => format!("tests/it/{file}.rs"),
        "[sim]" => format!("src/faults/{file}.rs"),
        _ => format!("src/{file}.rs"),
    };
    exists(&file) && source::read(&file).contains(&format!("fn {function}("))
}

fn exists(name: &str) -> bool {
    source::root().join(name).is_file()
}

/// The words between backquotes.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// A newcomer follows this table with an editor.
#[test]
fn the_path_of_a_job_names_functions_where_they_are() {
    let (mut missing, mut seen) = (Vec::new(), 0);
    for row in source::read("docs/HACKING.md").lines() {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, step, files, functions, _] = cells[..] else {
            continue;
        };
        if !step.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let code: String = quoted(files).into_iter().map(source::read).collect();
        for name in quoted(functions) {
            seen += 1;
            let ends = |c: char| !c.is_alphanumeric() && c != '_';
            let defined = ["fn ", "struct "].iter().any(|word| {
                let whole = format!("{word}{name}");
                let mut all = code.match_indices(&whole);
                all.any(|(at, found)| code[at + found.len()..].starts_with(ends))
            });
            if !defined {
                missing.push(format!("{files}: {name}"));
            }
        }
    }
    assert!(seen > 25, "the table was not understood: {seen}");
    assert_eq!(missing, [] as [&str; 0], "named in docs/HACKING.md");
}
