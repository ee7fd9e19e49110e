//! Here-documents of a shell script: which of its lines are data.
//!
//! Knows no quoting: a `<<WORD` anywhere but in a comment counts if a later line consists of WORD.

use std::collections::{BTreeSet, HashMap};

/// The numbers, from 1, of the lines inside here-documents and of those that end them.
///
/// ```
/// let lines = corral::text::here_documents::lines("cat <<E\n#BSUB -n 4\nE\necho\n");
/// assert_eq!(lines.into_iter().collect::<Vec<_>>(), [2, 3]);
/// ```
pub fn lines(script: &str) -> BTreeSet<usize> {
    let mut inside = BTreeSet::new();
    if !script.contains("<<") {
        return inside;
    }
    let lines: Vec<&str> = script.split('\n').collect();
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, line) in lines.iter().enumerate() {
        places
            .entry(line.trim_start_matches('\t'))
            .or_default()
            .push(at);
    }
    let mut at = 0;
    while at < lines.len() {
        let opening = at;
        for (word, tabs) in opened(lines[opening]) {
            let ends = places.get(word.as_str()).map_or(&[][..], Vec::as_slice);
            let later = &ends[ends.partition_point(|end| *end <= at)..];
            let end = later.iter().find(|end| tabs || lines[**end] == word);
            if let Some(end) = end {
                inside.extend(at + 2..=end + 1);
                at = *end;
            }
        }
        at += 1;
    }
    inside
}

/// The words that end the here-documents which a line opens, and whether tabs may precede them.
fn opened(line: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut rest = line;
    let mut blank_before = true;
    while let Some(c) = rest.chars().next() {
        if c == '#' && blank_before {
            break;
        }
        blank_before = c.is_whitespace() || c == ';';
        if let Some(after) = rest.strip_prefix("<<<") {
            rest = after;
        } else if let Some(after) = rest.strip_prefix("<<") {
            let tabs = after.starts_with('-');
            let after = after.strip_prefix('-').unwrap_or(after);
            let (word, next) = end_word(after.trim_start_matches([' ', '\t']));
            if !word.is_empty() {
                found.push((word, tabs));
            }
            rest = next;
        } else {
            rest = &rest[c.len_utf8()..];
        }
    }
    found
}

/// A word without its quotes, and what follows it.
fn end_word(text: &str) -> (String, &str) {
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        return match text[1..].split_once(quote) {
            Some((word, next)) => (word.to_owned(), next),
            None => (String::new(), &text[1..]),
        };
    }
    let text = text.strip_prefix('\\').unwrap_or(text);
    let part = |c: char| c.is_alphanumeric() || "_.-%@!+".contains(c);
    let end = text.find(|c| !part(c)).unwrap_or(text.len());
    let (word, next) = text.split_at(end);
    // A shift by a number does not begin a here-document.
    match word.starts_with(|c: char| c.is_ascii_digit()) {
        true => (String::new(), next),
        false => (word.to_owned(), next),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(script: &str) -> Vec<usize> {
        lines(script).into_iter().collect()
    }

    #[test]
    fn every_form_of_the_word_is_known() {
        for open in [
            "<<E", "<< E", "<<'E'", "<<\"E\"", "<<\\E", "<<E|sh", "(<<E)", "x<<E >f",
        ] {
            assert_eq!(
                found(&format!("cat {open}\na\n\tE\nE\nb")),
                [2, 3, 4],
                "{open}"
            );
        }
        assert_eq!(found("cat <<-E\na\n\tE\nE\nb"), [2, 3]);
        assert_eq!(found("cat <<A <<B\na\nB\nA\nb\nB\nc"), [2, 3, 4, 5, 6]);
        assert_eq!(found("cat <<'two words'\na\ntwo words\n"), [2, 3]);
        assert_eq!(found("cat <<A\n<<B\nA\nB\n"), [2, 3]);
    }

    #[test]
    fn what_opens_none_hides_no_line() {
        for line in [
            "cat <<<E",
            "# cat <<E",
            "n=$((1 << 4))",
            "cat <<F",
            "cat <<",
            "cat <<'E",
            "ls # <<E",
        ] {
            assert_eq!(found(&format!("{line}\na\nE\nb")), [0; 0], "{line}");
        }
        assert_eq!(found("E\ncat <<E\n"), [0; 0]);
    }
}
