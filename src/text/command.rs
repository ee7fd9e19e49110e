//! Command lines and job scripts: words, directives, and which commands need no shell.
//!
//! Owns word splitting as a shell does it without any expansion, `#CSUB`/`#BSUB` lines and the
//! choice between direct exec and `/bin/sh -c`. Never runs anything, never reads a file.

use super::{ParseError, here_documents};

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
    /// The whole line, trimmed.
    pub text: String,
}

/// A line that looks like one with options and that is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadLine {
    /// Line number in the script, from 1.
    pub line: usize,
    /// The whole line, trimmed.
    pub text: String,
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
/// The prefixes of directives of Moab, Grid Engine, OAR, Flux, Cobalt and PJM, and of Slurm before
/// it had its present one.
const OTHERS: &[&str] = &["#MSUB", "#$", "#OAR", "#FLUX:", "#COBALT", "#PJM", "#SLURM"];
/// The words of prefixes that are looked for in other spellings, too.
const PREFIX_WORDS: &[&str] = &["CSUB", "BSUB", "SBATCH", "PBS"];

/// The shebang and the directives of a job script.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    /// The text after `#!` of the first line that is not blank, trimmed; never empty.
    pub shebang: Option<String>,
    /// Directive lines in their order.
    pub directives: Vec<Directive>,
    /// Lines for other batch systems.
    pub foreign_directives: Vec<ForeignDirective>,
    /// Lines that only look like directives: `# BSUB -n 4`, `#bsub -n 4`, `#SBATCHx`.
    pub unread: Vec<UnreadLine>,
}

impl Script {
    /// Finds the shebang and the directives. A directive starts at column 1 with `#CSUB` or
    /// `#BSUB`, then a blank or at once the first option, and may be anywhere in the script but in
    /// a here-document. Errors point into `script`.
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
        let data = here_documents::lines(script);
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
            if data.contains(&(n + 1)) {
                at += raw.len() + 1;
                continue;
            }
            if let Some(options) = directive(line) {
                let skipped = raw.len() - options.len();
                let words = split_words(options).map_err(|e| e.shifted(at + skipped))?;
                let text = line.trim().to_owned();
                let line = n + 1;
                found.directives.push(Directive { line, words, text });
            } else if let Some(foreign) = foreign_directive(n + 1, line) {
                found.foreign_directives.push(foreign);
            } else if looks_like_directive(line) {
                let text = line.trim().to_owned();
                found.unread.push(UnreadLine { line: n + 1, text });
            }
            if found.lines() > MAX_DIRECTIVES {
                let message = format!("a script has more than {MAX_DIRECTIVES} directives");
                return Err(ParseError::new(at, raw.len(), message));
            }
            at += raw.len() + 1;
        }
        Ok(found)
    }

    /// How many lines were found.
    fn lines(&self) -> usize {
        self.directives.len() + self.foreign_directives.len() + self.unread.len()
    }
}

fn directive(line: &str) -> Option<&str> {
    options_after(line, "#CSUB").or_else(|| options_after(line, "#BSUB"))
}

/// What follows the prefix of a directive: nothing, a blank, or at once an option.
fn options_after<'a>(line: &'a str, prefix: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(prefix)?;
    (rest.is_empty() || rest.starts_with([' ', '\t', '\r', '-'])).then_some(rest)
}

/// A directive of Slurm or PBS may have anything after its prefix: what is not an option is refused
/// later. One of another system has an option; `#$HOME` in a comment is not one. PBS reads indented
/// lines, too.
fn foreign_directive(line: usize, text: &str) -> Option<ForeignDirective> {
    let of_slurm = options_after(text, SBATCH).map(|rest| (SBATCH, rest));
    let read = of_slurm.or_else(|| options_after(text.trim_start(), PBS).map(|rest| (PBS, rest)));
    let prefix = match read {
        Some((prefix, rest)) => {
            let rest = rest.trim_start();
            (!rest.is_empty() && !rest.starts_with('#')).then_some(prefix)
        }
        None => OTHERS.iter().copied().find(|mark| {
            let rest = text.strip_prefix(mark);
            rest.is_some_and(|r| r.starts_with([' ', '\t']) && r.trim_start().starts_with('-'))
        }),
    };
    prefix.map(|prefix| ForeignDirective {
        line,
        prefix,
        text: text.trim().to_owned(),
    })
}

/// Whether a line that is not a directive was probably meant to be one: an indented prefix, a blank
/// after the `#`, small letters, or something else than a blank after the prefix. `##SBATCH` is a
/// comment, and so are `# bsub -q long < FILE` and `#PBS_JOBID=1`.
fn looks_like_directive(line: &str) -> bool {
    let Some(after) = line.trim_start().strip_prefix('#') else {
        return false;
    };
    let word = after.trim_start();
    let at_once = line.starts_with('#') && word.len() == after.len();
    let is = |name: &&&str| {
        let own = word.get(..name.len());
        own.is_some_and(|own| own.eq_ignore_ascii_case(name))
    };
    let Some(name) = PREFIX_WORDS.iter().find(is) else {
        return false;
    };
    let (own, rest) = word.split_at(name.len());
    let has_option = options_after(rest, "").is_some() && rest.trim_start().starts_with('-');
    match (at_once, own == *name) {
        (true, true) => options_after(rest, "").is_none() && !rest.starts_with(['_', '=']),
        (false, false) => false,
        (true, false) | (false, true) => has_option,
    }
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
        let text = "\n\n#!/usr/bin/python3 -u\r\n#BSUB -q long # why\r\nx\n #CSUB -n 9\n#CSUBX -n 9\n#CSUB\n#CSUB-n 2";
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
    fn lines_of_a_here_document_are_data() {
        let text = "#BSUB -n 2\ncat > job.sh <<EOF\n#!/bin/sh\n#BSUB -n 99\n#SBATCH -n 9\n# BSUB -q x\n\
                    EOF\n#BSUB -q night\n#BSUB -J 'open";
        let e = Script::parse(text).unwrap_err();
        assert_eq!(e.line_column(text), (9, 10));
        let script = Script::parse(&text[..text.len() - 5]).expect("parses");
        let lines: Vec<usize> = script.directives.iter().map(|d| d.line).collect();
        assert_eq!(lines, [1, 8, 9]);
        assert!(script.foreign_directives.is_empty() && script.unread.is_empty());
    }

    #[test]
    fn directives_of_other_systems_are_found() {
        let text = "#SBATCH --time=5\r\n#SBATCH--mem=1G\n #PBS -l x\n#$ -cwd\n#$ price\n#PBS-q q\n\
                    #SBATCH hetjob\n#SBATCH # -n 4\n#PBS\n##SBATCH -n 1\n#SLURM -n 2\n#SLURM is\n";
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
                (2, "#SBATCH", "#SBATCH--mem=1G"),
                (3, "#PBS", "#PBS -l x"),
                (4, "#$", "#$ -cwd"),
                (6, "#PBS", "#PBS-q q"),
                (7, "#SBATCH", "#SBATCH hetjob"),
                (11, "#SLURM", "#SLURM -n 2"),
            ]
        );
        assert_eq!(script.unread, []);
    }

    #[test]
    fn what_was_meant_as_a_directive_is_found() {
        for line in [
            "#BSUBX -n 9",
            "#SBATCHn 4",
            "#CSUB\u{a0}-n 4",
            "#PBS:-q q",
            "#bsub -n 4",
            "#Sbatch\t--mem=1G",
            "#pbs-q q",
            "# BSUB -n 4",
            "#  SBATCH --mem=1G",
            "# PBS -l x",
            " #BSUB -n 4",
            "\t#SBATCH -n 4",
        ] {
            let text = format!("#!/bin/sh\n{line}\nrun\n");
            let found = Script::parse(&text).expect(line);
            assert_eq!(
                (found.directives.len(), found.unread.len()),
                (0, 1),
                "{line}"
            );
            assert_eq!(found.unread[0].line, 2, "{line}");
            assert_eq!(found.foreign_directives, [], "{line}");
        }
        for line in [
            "##BSUB -n 4",
            "# #SBATCH -n 4",
            "#PBS_JOBID=12",
            "#SBATCH",
            "# bsub -q long < job.sh",
            "# sbatch --mem=1G job.sh",
            "# PBS needs a name",
            "#bsub < job.sh",
            " #BSUB lines follow",
            "#\u{e4}SUB -n 4",
        ] {
            let found = Script::parse(line).expect(line);
            assert_eq!(
                (found.unread.len(), found.directives.len()),
                (0, 0),
                "{line}"
            );
        }
        let many = "#SBATCH -n 1\n".repeat(MAX_DIRECTIVES + 1);
        assert!(Script::parse(&many).is_err());
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
