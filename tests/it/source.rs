//! Reads the project's own files for the tests that judge them: a list of files, their text, and
//! that text with comments and literals blanked so that braces and words can be counted.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// The package's root directory.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a file named relative to the root.
pub fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// All files under `dir` (relative to the root, sorted) with one of the extensions; all if none.
pub fn files(dir: &str, ext: &[&str]) -> Vec<String> {
    let mut out = Vec::new();
    walk(&root().join(dir), &mut out);
    let root = root();
    let mut names: Vec<String> = out
        .iter()
        .filter(|p| ext.is_empty() || p.extension().is_some_and(|e| ext.iter().any(|x| e == *x)))
        .map(|p| p.strip_prefix(&root).unwrap().to_str().unwrap().to_string())
        .collect();
    names.sort();
    names
}

fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, out);
        } else {
            out.push(path);
        }
    }
}

/// `text` with the inside of comments, strings and character literals replaced by spaces, byte
/// for byte, so that offsets and line numbers stay.
pub fn blank(text: &str) -> String {
    let b = text.as_bytes();
    let mut out = b.to_vec();
    let mut i = 0;
    while i < b.len() {
        let end = match b[i] {
            b'/' if b[i..].starts_with(b"//") => find(b, i, b"\n"),
            b'/' if b[i..].starts_with(b"/*") => block_comment(b, i),
            b'"' => string(b, i),
            b'r' if !ident_before(b, i) && raw_hashes(b, i).is_some() => raw_string(b, i),
            b'\'' => char_literal(b, i),
            _ => i,
        };
        for c in &mut out[i..end] {
            if *c != b'\n' {
                *c = b' ';
            }
        }
        i = end.max(i + 1);
    }
    String::from_utf8(out).expect("only whole literals are blanked")
}

/// The string literals of a source outside comments, each with its offset, as the program has them:
/// escapes read, continued lines joined.
pub fn literals(text: &str) -> Vec<(usize, String)> {
    let b = text.as_bytes();
    let (mut out, mut i) = (Vec::new(), 0);
    while i < b.len() {
        let end = match b[i] {
            b'/' if b[i..].starts_with(b"//") => find(b, i, b"\n"),
            b'/' if b[i..].starts_with(b"/*") => block_comment(b, i),
            b'"' => {
                let end = string(b, i);
                out.push((i, unescaped(&text[i + 1..end - 1])));
                end
            }
            b'r' if !ident_before(b, i) && raw_hashes(b, i).is_some() => {
                let hashes = raw_hashes(b, i).expect("it was looked at");
                let end = raw_string(b, i);
                out.push((i, text[i + hashes + 2..end - hashes - 1].to_owned()));
                end
            }
            b'\'' => char_literal(b, i),
            _ => i,
        };
        i = end.max(i + 1);
    }
    out
}

fn unescaped(text: &str) -> String {
    let (mut out, mut chars) = (String::new(), text.chars().peekable());
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some('t')) => out.push('\t'),
            ('\\', Some('\n')) => {
                while chars.peek().is_some_and(|c| c.is_whitespace()) {
                    chars.next();
                }
                continue;
            }
            ('\\', Some(other)) => out.push(*other),
            _ => {
                out.push(c);
                continue;
            }
        }
        chars.next();
    }
    out
}

fn ident_before(b: &[u8], i: usize) -> bool {
    i > 0 && (b[i - 1].is_ascii_alphanumeric() && b[i - 1] != b'b' || b[i - 1] == b'_')
}

fn find(b: &[u8], from: usize, what: &[u8]) -> usize {
    (from..b.len())
        .find(|&i| b[i..].starts_with(what))
        .unwrap_or(b.len())
}

fn block_comment(b: &[u8], start: usize) -> usize {
    let (mut i, mut depth) = (start, 0);
    while i < b.len() {
        if b[i..].starts_with(b"/*") {
            depth += 1;
            i += 2;
        } else if b[i..].starts_with(b"*/") {
            depth -= 1;
            i += 2;
            if depth == 0 {
                return i;
            }
        } else {
            i += 1;
        }
    }
    b.len()
}

fn string(b: &[u8], start: usize) -> usize {
    let mut i = start + 1;
    while i < b.len() && b[i] != b'"' {
        i += if b[i] == b'\\' { 2 } else { 1 };
    }
    (i + 1).min(b.len())
}

fn raw_hashes(b: &[u8], start: usize) -> Option<usize> {
    let n = b[start + 1..].iter().take_while(|c| **c == b'#').count();
    (b.get(start + 1 + n) == Some(&b'"')).then_some(n)
}

fn raw_string(b: &[u8], start: usize) -> usize {
    let n = raw_hashes(b, start).expect("the caller looked");
    let close = [b"\"".as_slice(), "#".repeat(n).as_bytes()].concat();
    (find(b, start + n + 2, &close) + close.len()).min(b.len())
}

/// The end of a character literal, or `start` when the quote opens a lifetime.
fn char_literal(b: &[u8], start: usize) -> usize {
    if b.get(start + 1) == Some(&b'\\') {
        return (find(b, start + 3, b"'") + 1).min(b.len());
    }
    let rest = String::from_utf8_lossy(&b[start + 1..(start + 6).min(b.len())]).into_owned();
    let mut chars = rest.chars();
    match (chars.next(), chars.next()) {
        (Some(c), Some('\'')) => start + 1 + c.len_utf8() + 1,
        _ => start,
    }
}

/// The byte ranges of `#[cfg(test)]` items with a body, in blanked text.
pub fn test_ranges(blanked: &str) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    for (at, mark) in blanked.match_indices("#[cfg(test)]") {
        let rest = &blanked[at + mark.len()..];
        // A field of a struct has no body: its struct ends first.
        let Some(open) = rest.find(['{', ';', '}']) else {
            continue;
        };
        if rest.as_bytes()[open] == b'{' {
            let start = at + mark.len() + open;
            out.push(at..body_end(blanked, start));
        }
    }
    out
}

/// The offset behind the brace that closes the one at `open`.
pub fn body_end(blanked: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (i, c) in blanked.as_bytes()[open..].iter().enumerate() {
        match c {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return open + i + 1;
                }
            }
            _ => {}
        }
    }
    blanked.len()
}

/// Line number (from 1) of a byte offset.
pub fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset]
        .iter()
        .filter(|c| **c == b'\n')
        .count()
        + 1
}

#[test]
fn blanking_keeps_code_and_drops_literals() {
    let src = "let a = \"x{\\\"\"; // }\nlet c = '{'; fn f<'a>() { r#\"}\"# }";
    let out = blank(src);
    assert_eq!(out.len(), src.len());
    assert_eq!(out.matches('{').count(), 1, "{out}");
    assert_eq!(out.matches('}').count(), 1, "{out}");
    assert!(out.contains("fn f<'a>()"), "{out}");
}

#[test]
fn literals_are_read_as_the_program_has_them() {
    let src = "// \"no\"\nf(\"a \\\n     b\\n{}\", 'x', r#\"c\"d\"#); /* \"no\" */";
    let texts: Vec<String> = literals(src).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["a b\n{}", "c\"d"]);
}

#[test]
fn a_test_module_is_found_whole() {
    let src = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { {} } }\nfn c() {}";
    let ranges = test_ranges(&blank(src));
    assert_eq!(ranges.len(), 1);
    assert!(src[ranges[0].clone()].ends_with("{} } }"));
}
