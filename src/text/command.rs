//! Command lines and job scripts: words, directives, and which commands need no shell.
//!
//! Owns word splitting as a shell does it without any expansion, `#CSUB`/`#BSUB` lines and the
//! choice between direct exec and `/bin/sh -c`. Never runs anything, never reads a file.

use super::ParseError;

/// Maximum length of a line that is split into words.
pub const MAX_LINE: usize = 64 * 1024;
/// Maximum length of a script that is searched for directives.
pub const MAX_SCRIPT: usize = 1024 * 1024;
/// Maximum number of words of a line.
const MAX_WORDS: usize = 4096;
/// Maximum number of directive lines of a script.
const MAX_DIRECTIVES: usize = 1000;

/// Splits a line into words at blanks. `'...'` is literal; in `"..."` a backslash quotes `"`, `\`,
/// `$` and a backtick, elsewhere it quotes any character; a `#` at the start of a word starts a
/// comment. There is no expansion.
///
/// ```
/// use corral::text::command::split_words;
/// let words = split_words(r#"-J "my job" -o out\ 1 # note"#).unwrap();
/// assert_eq!(words, ["-J", "my job", "-o", "out 1"]);
/// ```
///
/// # Errors
/// A quote that is not closed, a backslash with nothing after it, or a line beyond the limits.
pub fn split_words(line: &str) -> Result<Vec<String>, ParseError> {
    if line.len() > MAX_LINE {
        return Err(ParseError::too_long("line", MAX_LINE, line.len()));
    }
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take()),
            '#' if word.is_none() => break,
            '\'' => {
                let word = word.get_or_insert_default();
                single_quoted(&mut chars, at, word)?;
            }
            '"' => {
                let word = word.get_or_insert_default();
                double_quoted(&mut chars, at, word)?;
            }
            '\\' => match chars.next() {
                Some((_, next)) => word.get_or_insert_default().push(next),
                None => {
                    return Err(ParseError::new(at, 1, "nothing follows the backslash")
                        .hint("a directive or pack line cannot continue on the next line"));
                }
            },
            c => word.get_or_insert_default().push(c),
        }
        if words.len() > MAX_WORDS {
            return Err(ParseError::new(
                at,
                0,
                format!("a line has more than {MAX_WORDS} words"),
            ));
        }
    }
    words.extend(word);
    Ok(words)
}

type Chars<'a> = std::str::CharIndices<'a>;

fn single_quoted(chars: &mut Chars<'_>, at: usize, word: &mut String) -> Result<(), ParseError> {
    for (_, c) in chars {
        if c == '\'' {
            return Ok(());
        }
        word.push(c);
    }
    Err(ParseError::new(at, 1, "the quote ' is not closed"))
}

fn double_quoted(chars: &mut Chars<'_>, at: usize, word: &mut String) -> Result<(), ParseError> {
    while let Some((_, c)) = chars.next() {
        match c {
            '"' => return Ok(()),
            '\\' => match chars.next() {
                Some((_, next @ ('"' | '\\' | '$' | '`'))) => word.push(next),
                Some((_, next)) => {
                    word.push('\\');
                    word.push(next);
                }
                None => break,
            },
            c => word.push(c),
        }
    }
    Err(ParseError::new(at, 1, "the quote \" is not closed"))
}

/// `word` in quotes, so that [`split_words`] and a shell read it as one word.
///
/// ```
/// assert_eq!(corral::text::command::quote("it's"), r"'it'\''s'");
/// assert_eq!(corral::text::command::quote("plain-1.txt"), "plain-1.txt");
/// ```
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// One `#CSUB` or `#BSUB` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// Line number in the script, from 1.
    pub line: usize,
    /// The options, split into words.
    pub words: Vec<String>,
}

/// A line with options for another batch system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignDirective {
    /// Line number in the script, from 1.
    pub line: usize,
    /// The word that marks such lines, `#SBATCH`.
    pub prefix: &'static str,
    /// The whole line, trimmed.
    pub text: String,
}

/// The prefixes of directives of Slurm, and of PBS and Torque.
pub const SBATCH: &str = "#SBATCH";
pub const PBS: &str = "#PBS";
/// The prefixes of directives of Slurm, PBS and Torque, Moab, Grid Engine, OAR, Flux and Cobalt.
const FOREIGN: &[&str] = &[
    SBATCH, PBS, "#MSUB", "#$", "#OAR", "#FLUX:", "#COBALT", "#PJM",
];

/// The shebang and the directives of a job script.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    /// The text after `#!` of the first line that is not blank, trimmed; never empty.
    pub shebang: Option<String>,
    /// Directive lines in their order.
    pub directives: Vec<Directive>,
    /// Lines for other batch systems, which have no effect. At most as many as directives.
    pub foreign_directives: Vec<ForeignDirective>,
}

impl Script {
    /// Finds the shebang and the directives. A directive starts at column 1 with `#CSUB` or `#BSUB`
    /// and a blank, and may be anywhere in the script. Errors point into `script`.
    ///
    /// ```
    /// use corral::text::command::Script;
    /// let script = Script::parse("#!/bin/bash\n#CSUB -n 4 -J 'a b'\necho hi\n").unwrap();
    /// assert_eq!(script.shebang.as_deref(), Some("/bin/bash"));
    /// assert_eq!(script.directives[0].words, ["-n", "4", "-J", "a b"]);
    /// assert_eq!(script.directives[0].line, 2);
    /// ```
    ///
    /// # Errors
    /// A directive whose words cannot be split, or a script beyond the limits.
    pub fn parse(script: &str) -> Result<Script, ParseError> {
        if script.len() > MAX_SCRIPT {
            return Err(ParseError::too_long("script", MAX_SCRIPT, script.len()));
        }
        let mut found = Script::default();
        let mut first_text = true;
        let mut at = 0;
        for (n, raw) in script.split('\n').enumerate() {
            let line = if n == 0 {
                raw.trim_start_matches('\u{feff}')
            } else {
                raw
            };
            if first_text && !line.trim().is_empty() {
                first_text = false;
                let shell = line.strip_prefix("#!").map(str::trim);
                found.shebang = shell.filter(|s| !s.is_empty()).map(str::to_owned);
            }
            if let Some(options) = directive(line) {
                let skipped = raw.len() - options.len();
                let words = split_words(options).map_err(|e| e.shifted(at + skipped))?;
                if found.directives.len() == MAX_DIRECTIVES {
                    let message = format!("a script has more than {MAX_DIRECTIVES} directives");
                    return Err(ParseError::new(at, raw.len(), message));
                }
                found.directives.push(Directive { line: n + 1, words });
            } else if found.foreign_directives.len() < MAX_DIRECTIVES {
                found
                    .foreign_directives
                    .extend(foreign_directive(n + 1, line));
            }
            at += raw.len() + 1;
        }
        Ok(found)
    }
}

fn directive(line: &str) -> Option<&str> {
    let rest = line
        .strip_prefix("#CSUB")
        .or_else(|| line.strip_prefix("#BSUB"))?;
    (rest.is_empty() || rest.starts_with([' ', '\t', '\r'])).then_some(rest)
}

/// A foreign directive has an option after its prefix; `#$HOME` in a comment is not one.
fn foreign_directive(line: usize, text: &str) -> Option<ForeignDirective> {
    let (prefix, rest) = FOREIGN
        .iter()
        .find_map(|mark| Some((*mark, text.strip_prefix(mark)?)))?;
    let option = rest.trim_start().starts_with('-');
    (rest.starts_with([' ', '\t']) && option).then(|| ForeignDirective {
        line,
        prefix,
        text: text.trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_with_quotes_and_comments() {
        let words = |s: &str| split_words(s).expect(s);
        assert_eq!(words(r#"a'b c'"d e"f"#), ["ab cd ef"]);
        assert_eq!(
            words(r#""a\"b\n" '\' '' a#b #c"#),
            [r#"a"b\n"#, "\\", "", "a#b"]
        );
        assert!(words("  \t # x").is_empty());
        assert_eq!(words("作业 'n 名'"), ["作业", "n 名"]);
    }

    #[test]
    fn open_quotes_are_refused_where_they_start() {
        assert_eq!(split_words("ab 'cd").unwrap_err().at, 3);
        assert_eq!(split_words("ab \"cd\\\"").unwrap_err().at, 3);
        assert!(split_words("a \\").is_err());
        assert!(split_words(&"a".repeat(MAX_LINE + 1)).is_err());
        assert!(split_words(&"a ".repeat(MAX_WORDS + 2)).is_err());
    }

    #[test]
    fn directives_anywhere_at_column_one() {
        let text = "\n\n#!/usr/bin/python3 -u\r\n#BSUB -q long # why\r\nx\n #CSUB -n 9\n#CSUBX -n 9\n#CSUB\n#CSUB -n 2";
        let script = Script::parse(text).expect("parses");
        assert_eq!(script.shebang.as_deref(), Some("/usr/bin/python3 -u"));
        assert_eq!(
            script
                .directives
                .iter()
                .flat_map(|d| &d.words)
                .collect::<Vec<_>>(),
            ["-q", "long", "-n", "2"]
        );
        assert_eq!(
            script.directives.iter().map(|d| d.line).collect::<Vec<_>>(),
            [4, 8, 9]
        );
        assert_eq!(
            Script::parse("echo\n#!/bin/sh").expect("parses").shebang,
            None
        );
    }

    #[test]
    fn directives_of_other_systems_are_found() {
        let text = "#SBATCH --time=5\r\n#SBATCHX -n 1\n #PBS -l x\n#$ -cwd\n#$ price\n#PBS -q q\n";
        let script = Script::parse(text).expect("parses");
        let found: Vec<_> = script
            .foreign_directives
            .iter()
            .map(|f| (f.line, f.prefix, f.text.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                (1, "#SBATCH", "#SBATCH --time=5"),
                (4, "#$", "#$ -cwd"),
                (6, "#PBS", "#PBS -q q")
            ]
        );
    }

    #[test]
    fn directive_errors_point_into_the_script() {
        let text = "#!/bin/sh\n#CSUB -J 'open\n";
        let e = Script::parse(text).unwrap_err();
        assert_eq!((e.at, e.line_column(text)), (19, (2, 10)));
    }

    proptest! {
        #![proptest_config(super::super::cases())]
        #[test]
        fn quoted_words_read_back(words in proptest::collection::vec(".{0,8}", 0..6)) {
            let line: Vec<String> = words.iter().map(|w| quote(w)).collect();
            prop_assert_eq!(split_words(&line.join(" ")).expect("parses"), words);
        }

        #[test]
        fn never_panics(s in ".{0,60}", t in "[a #'\"\\\\\n!CSUB]{0,40}") {
            for text in [&s, &t] {
                let _ = (split_words(text), Script::parse(text));
            }
        }
    }
}
