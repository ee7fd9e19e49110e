//! What a shell script runs and which variables it reads, as far as its text shows.
//!
//! Owns a reader of shell syntax that never fails: quotes, comments, here-documents, substitutions
//! and the words of simple commands. It expands nothing and runs nothing. What it does not
//! understand it skips.

use std::collections::BTreeSet;

/// How deep substitutions and groups are followed; beyond that the rest of the script is skipped.
const DEPTH_MAX: usize = 100;

/// A name at a place in the script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameAt {
    /// Line number, from 1.
    pub line: usize,
    pub name: String,
}

/// What was found in a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShellScript {
    /// Words in the place of a command, also after `time`, `exec` and similar words.
    pub commands: Vec<NameAt>,
    /// Variables that are read without a default and without having been tested.
    pub uses: Vec<NameAt>,
    /// Variables that the script sets, tests, or reads with a default.
    pub handled: BTreeSet<String>,
    /// Variables whose value is a command line: the variable and the first word of the value.
    pub command_variables: Vec<(String, NameAt)>,
    /// All variables that are read.
    pub read: BTreeSet<String>,
    /// Commands that the script defines, or whose presence it tests (`command -v`).
    pub known_commands: BTreeSet<String>,
}

impl ShellScript {
    /// Reads a script.
    ///
    /// ```
    /// use corral::text::shell::ShellScript;
    /// let script = ShellScript::read("cd $WORK && time ./a.out # $X\n");
    /// let names: Vec<&str> = script.commands.iter().map(|c| c.name.as_str()).collect();
    /// assert_eq!(names, ["cd", "./a.out"]);
    /// assert_eq!(script.uses.len(), 1);
    /// ```
    pub fn read(text: &str) -> ShellScript {
        let mut found = ShellScript::default();
        read_part(text, 1, 0, &mut found);
        let handled = std::mem::take(&mut found.handled);
        found.uses.retain(|used| !handled.contains(&used.name));
        found.handled = handled;
        found
    }
}

/// Words after which the word of a command follows.
const BEFORE_COMMANDS: &[&str] = &[
    "if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "coproc",
];
/// Commands that run the command in one of their words.
const WRAPPERS: &[&str] = &[
    "time", "exec", "nohup", "env", "command", "builtin", "nice", "ionice", "timeout", "stdbuf",
    "setsid", "strace", "taskset", "numactl", "xargs", "sudo", "parallel", "watch",
];
/// Commands whose words are names of commands that they look for.
const SEEKERS: &[&str] = &["which", "type", "hash", "whence", "where"];
/// Commands that give values to the variables in their words.
const SETTERS: &[&str] = &[
    "read",
    "readarray",
    "mapfile",
    "getopts",
    "unset",
    "setenv",
    "unsetenv",
    "set",
    "let",
    "@",
];
/// Commands that give a value to each variable with `=` in their words.
const DECLARATIONS: &[&str] = &["export", "declare", "typeset", "local", "readonly"];

fn read_part(text: &str, line: usize, depth: usize, found: &mut ShellScript) {
    let mut reader = Reader {
        chars: text.chars().collect(),
        at: 0,
        line,
        depth,
        documents: Vec::new(),
        found,
    };
    reader.list(None);
}

/// A word of a command as written, without its quotes.
#[derive(Default)]
struct Word {
    line: usize,
    text: String,
}

/// A here-document that begins on the next line.
struct Document {
    end: String,
    strip_tabs: bool,
    /// Variables in it are replaced.
    expanded: bool,
}

struct Reader<'a> {
    chars: Vec<char>,
    at: usize,
    line: usize,
    depth: usize,
    documents: Vec<Document>,
    found: &'a mut ShellScript,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek(0)?;
        self.at += 1;
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    /// Reads commands up to the end, or to the character that ends a substitution or group.
    fn list(&mut self, close: Option<char>) {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            self.at = self.chars.len();
        }
        let mut words: Vec<Word> = Vec::new();
        let mut uses = self.found.uses.len();
        while let Some(c) = self.peek(0) {
            match c {
                c if c.is_whitespace() && c != '\n' => drop(self.next()),
                '\\' if self.peek(1) == Some('\n') => {
                    self.next();
                    self.next();
                }
                '#' => self.comment(),
                c if Some(c) == close => {
                    self.next();
                    break;
                }
                '\n' | ';' | '&' | '|' => {
                    self.next();
                    self.command(&mut words, &mut uses);
                    if c == '\n' {
                        self.documents();
                    }
                }
                '(' => self.group(&mut words, &mut uses),
                ')' => {
                    // The pattern of a case.
                    self.next();
                    if words.len() > 1 {
                        self.command(&mut words, &mut uses);
                    }
                    words.clear();
                }
                '<' | '>' => self.redirection(close),
                _ => {
                    let word = self.word(close);
                    words.push(word);
                }
            }
        }
        self.command(&mut words, &mut uses);
        self.depth -= 1;
    }

    fn comment(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.next();
        }
    }

    /// `name()` defines a command; otherwise a subshell or a list of values.
    fn group(&mut self, words: &mut Vec<Word>, uses: &mut usize) {
        self.next();
        if self.peek(0) == Some(')') {
            self.next();
            if let Some(word) = words.pop() {
                self.found.known_commands.insert(word.text);
            }
            words.clear();
            return;
        }
        if words
            .iter()
            .all(|w| BEFORE_COMMANDS.contains(&w.text.as_str()))
        {
            words.clear();
            *uses = self.found.uses.len();
        }
        self.list(Some(')'));
    }

    fn redirection(&mut self, close: Option<char>) {
        let c = self.next();
        if c == Some('<') && self.peek(0) == Some('<') && self.peek(1) != Some('<') {
            self.next();
            let strip_tabs = self.peek(0) == Some('-');
            if strip_tabs {
                self.next();
            }
            self.blanks();
            let start = self.at;
            let end = self.word(close).text;
            let expanded = !self.chars[start..self.at]
                .iter()
                .any(|c| ['\'', '"', '\\'].contains(c));
            self.documents.push(Document {
                end,
                strip_tabs,
                expanded,
            });
            return;
        }
        while matches!(self.peek(0), Some('<' | '>' | '&' | '|')) {
            self.next();
        }
        if self.peek(0) == Some('(') {
            return;
        }
        self.blanks();
        // The file, which is not a word of the command.
        if self.peek(0).is_some_and(|c| !"\n;&|()#".contains(c)) {
            self.word(close);
        }
    }

    fn blanks(&mut self) {
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.next();
        }
    }

    /// The here-documents of the line that has ended.
    fn documents(&mut self) {
        for document in std::mem::take(&mut self.documents) {
            while self.at < self.chars.len() {
                let rest = &self.chars[self.at..];
                let len = rest.iter().position(|c| *c == '\n').unwrap_or(rest.len());
                let text: String = rest[..len].iter().collect();
                let shown = match document.strip_tabs {
                    true => text.trim_start_matches('\t'),
                    false => &text,
                };
                let is_end = shown.trim_end_matches('\r') == document.end;
                if document.expanded && !is_end {
                    self.expansions(&text);
                }
                self.at = (self.at + len + 1).min(self.chars.len());
                self.line += 1;
                if is_end {
                    break;
                }
            }
        }
    }

    /// The substitutions in a text that is otherwise literal.
    fn expansions(&mut self, text: &str) {
        let mut inner = Reader {
            chars: text.chars().collect(),
            at: 0,
            line: self.line,
            depth: self.depth,
            documents: Vec::new(),
            found: self.found,
        };
        let mut out = String::new();
        while let Some(c) = inner.next() {
            match c {
                '\\' => drop(inner.next()),
                '$' => inner.dollar(&mut out),
                '`' => inner.list(Some('`')),
                _ => {}
            }
        }
    }

    fn word(&mut self, close: Option<char>) -> Word {
        let mut word = Word {
            line: self.line,
            text: String::new(),
        };
        while let Some(c) = self.peek(0) {
            if c.is_whitespace() || ";&|()<>".contains(c) || Some(c) == close {
                break;
            }
            self.next();
            match c {
                '\\' => word.text.extend(self.next().filter(|c| *c != '\n')),
                '\'' => {
                    while let Some(c) = self.next().filter(|c| *c != '\'') {
                        word.text.push(c);
                    }
                }
                '"' => self.quoted(&mut word.text),
                '$' => self.dollar(&mut word.text),
                '`' => {
                    word.text.push(c);
                    self.list(Some('`'));
                }
                c => word.text.push(c),
            }
        }
        word
    }

    fn quoted(&mut self, out: &mut String) {
        while let Some(c) = self.next() {
            match c {
                '"' => return,
                '\\' => out.extend(self.next()),
                '$' => self.dollar(out),
                '`' => self.list(Some('`')),
                c => out.push(c),
            }
        }
    }

    /// What follows a dollar.
    fn dollar(&mut self, out: &mut String) {
        out.push('$');
        match (self.peek(0), self.peek(1)) {
            (Some('('), Some('(')) => self.arithmetic(),
            (Some('('), _) => {
                self.next();
                self.list(Some(')'));
            }
            (Some('{'), _) => {
                self.next();
                self.braces(out);
            }
            // Whether the variable exists, in csh.
            (Some('?'), Some(c)) if is_name_start(c) => {
                self.next();
                let name = self.name();
                self.found.handled.insert(name);
            }
            (Some(c), _) if is_name_start(c) => {
                let name = self.name();
                out.push_str(&name);
                self.note_use(name);
            }
            _ => {}
        }
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self
            .peek(0)
            .filter(|c| is_name_start(*c) || c.is_ascii_digit())
        {
            name.push(c);
            self.next();
        }
        name
    }

    fn note_use(&mut self, name: String) {
        self.found.read.insert(name.clone());
        let line = self.line;
        self.found.uses.push(NameAt { line, name });
    }

    /// `$(( ... ))`: plain names are variables, too.
    fn arithmetic(&mut self) {
        let mut open = 0;
        while let Some(c) = self.peek(0) {
            if is_name_start(c) {
                let name = self.name();
                self.note_use(name);
                continue;
            }
            self.next();
            match c {
                '(' => open += 1,
                ')' if open == 1 => return,
                ')' => open -= 1,
                '$' if self.peek(0) == Some('{') => {
                    self.next();
                    self.braces(&mut String::new());
                }
                _ => {}
            }
        }
    }

    /// `${...}` after the brace.
    fn braces(&mut self, out: &mut String) {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            self.at = self.chars.len();
        }
        out.push('{');
        if matches!(self.peek(0), Some('#' | '!')) {
            self.next();
        }
        let name = self.name();
        out.push_str(&name);
        out.push('}');
        let has_default = match (self.peek(0), self.peek(1)) {
            (Some('-' | '=' | '+' | '?'), _) => true,
            (Some(':'), Some(c)) => "-=+?".contains(c),
            _ => false,
        };
        if has_default {
            self.found.read.insert(name.clone());
            self.found.handled.insert(name);
        } else if !name.is_empty() {
            self.note_use(name);
        }
        let mut rest = String::new();
        while let Some(c) = self.next() {
            match c {
                '}' => break,
                '\\' => drop(self.next()),
                '"' => self.quoted(&mut rest),
                '$' => self.dollar(&mut rest),
                '`' => self.list(Some('`')),
                _ => {}
            }
        }
        self.depth -= 1;
    }

    /// A simple command has ended. `uses`: the number of uses before it.
    fn command(&mut self, words: &mut Vec<Word>, uses: &mut usize) {
        let words = std::mem::take(words);
        let before = std::mem::replace(uses, self.found.uses.len());
        let mut words = words.as_slice();
        while let [first, rest @ ..] = words {
            match assignment(&first.text) {
                Some((name, value)) => self.note_value(name, value, first.line),
                None if BEFORE_COMMANDS.contains(&first.text.as_str()) => {}
                None => break,
            }
            words = rest;
        }
        let ends_test = |word: &Word| matches!(word.text.as_str(), "]" | "]]");
        let Some((first, rest)) = words.split_first() else {
            return;
        };
        let name = first.text.rsplit('/').next().unwrap_or_default();
        match name {
            "test" | "[" | "[[" | "case" => self.tested(before),
            "for" | "select" | "foreach" => self.handled(&rest[..rest.len().min(1)]),
            "function" | "alias" => self.defined(rest),
            _ if rest.last().is_some_and(ends_test) => self.tested(before),
            _ if SEEKERS.contains(&name) => self.defined(rest),
            "command" if rest.iter().any(|w| w.text == "-v" || w.text == "-V") => {
                self.defined(rest);
            }
            _ if SETTERS.contains(&name) => self.handled(rest),
            "printf" if rest.first().is_some_and(|w| w.text == "-v") => self.handled(rest),
            _ if DECLARATIONS.contains(&name) => {
                for word in rest {
                    if let Some((name, value)) = assignment(&word.text) {
                        self.note_value(name, value, word.line);
                    }
                }
            }
            "eval" => self.nested(rest),
            _ if WRAPPERS.contains(&name) => self.wrapped(rest),
            _ => {
                self.note_command(first);
                if name.ends_with("sh")
                    && let Some(at) = rest
                        .iter()
                        .position(|w| w.text.ends_with('c') && w.text.starts_with('-'))
                {
                    self.nested(&rest[at + 1..rest.len().min(at + 2)]);
                }
            }
        }
    }

    fn note_command(&mut self, word: &Word) {
        let (line, name) = (word.line, word.text.clone());
        self.found.commands.push(NameAt { line, name });
    }

    /// Each word may be the command that another command runs.
    fn wrapped(&mut self, words: &[Word]) {
        for (n, word) in words.iter().enumerate() {
            if let Some((name, value)) = assignment(&word.text) {
                self.note_value(name, value, word.line);
            } else if word.text.contains(char::is_whitespace) {
                self.nested(&words[n..=n]);
            } else if !word.text.starts_with('-') {
                self.note_command(word);
            }
        }
    }

    /// Words that together are read as commands again.
    fn nested(&mut self, words: &[Word]) {
        let Some(first) = words.first().filter(|_| self.depth < DEPTH_MAX) else {
            return;
        };
        let texts: Vec<&str> = words.iter().map(|w| w.text.as_str()).collect();
        let (line, depth) = (first.line, self.depth + 1);
        read_part(&texts.join(" "), line, depth, self.found);
    }

    fn note_value(&mut self, name: &str, value: &str, line: usize) {
        self.found.handled.insert(name.to_owned());
        if let Some(word) = value.split_whitespace().next() {
            let first = NameAt {
                line,
                name: word.to_owned(),
            };
            self.found.command_variables.push((name.to_owned(), first));
        }
    }

    /// The variables that were read since then are tested.
    fn tested(&mut self, before: usize) {
        let uses = self.found.uses.get(before..).unwrap_or_default();
        let names: Vec<String> = uses.iter().map(|used| used.name.clone()).collect();
        self.found.handled.extend(names);
    }

    fn handled(&mut self, words: &[Word]) {
        for word in words {
            let end = word.text.find(['=', '[', '+']).unwrap_or(word.text.len());
            self.found.handled.insert(word.text[..end].to_owned());
        }
    }

    fn defined(&mut self, words: &[Word]) {
        for word in words {
            let name = word.text.split(['=', '(']).next().unwrap_or_default();
            self.found.known_commands.insert(name.to_owned());
        }
    }
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// `NAME=VALUE` or `NAME+=VALUE`.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    let plain = |c: char| is_name_start(c) || c.is_ascii_digit();
    (name.starts_with(is_name_start) && name.chars().all(plain)).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn commands(text: &str) -> Vec<String> {
        let found = ShellScript::read(text).commands;
        found
            .iter()
            .map(|c| format!("{}:{}", c.line, c.name))
            .collect()
    }

    fn uses(text: &str) -> Vec<String> {
        let found = ShellScript::read(text).uses;
        found
            .iter()
            .map(|c| format!("{}:{}", c.line, c.name))
            .collect()
    }

    #[test]
    fn words_in_the_place_of_a_command_are_found() {
        for text in [
            "srun x",
            "a=1 srun x",
            "time srun x",
            "exec srun",
            "timeout -s KILL 10 srun x",
            "if srun x; then y; fi",
            "while ! srun x; do y; done",
            "x && srun y",
            "x || srun y",
            "x | srun y",
            "x; srun y",
            "(cd a; srun x)",
            "{ srun x; }",
            "y=$(srun x)",
            "y=`srun x`",
            "echo \"$(srun x)\"",
            "bash -c 'srun x'",
            "eval \"srun x\"",
            "parallel -j 2 \"srun x {}\" ::: 1 2",
            "cat <(srun x)",
            "for i in 1 2; do srun x & done; wait",
            "case $x in a) srun x;; esac",
            "f() { srun x; }",
            "x \\\n && srun y",
            "cat <<E | srun x\nE\n",
            "/usr/bin/time -v srun x",
            "nohup srun x > out 2>&1 &",
            "cat <<E\n$(srun x)\nE\n",
            "x > $F; srun y",
        ] {
            let found = commands(text);
            assert!(
                found.iter().any(|c| c.ends_with(":srun")),
                "{text}: {found:?}"
            );
        }
        for text in [
            "# srun x",
            "echo srun x",
            "echo 'srun x'",
            "x # srun",
            "cat <<E\nsrun x\nE\n",
            "cat <<'E'\n$(srun x)\nE\n",
            "cat <<-E\n\tsrun x\n\tE\n",
            "case $x in srun) y;; esac",
            "x > srun",
            "srun=1",
            "x=\"; srun\"",
            "command -v srun",
            "module load srun",
            "srun() { y; }",
        ] {
            let found = commands(text);
            assert!(
                !found.iter().any(|c| c.ends_with(":srun")),
                "{text}: {found:?}"
            );
        }
        assert_eq!(commands("a\n\nb \\\n c; d\n"), ["1:a", "3:b", "4:d"]);
        let known = |text: &str| ShellScript::read(text).known_commands.contains("srun");
        for text in [
            "srun() { :; }",
            "function srun { :; }",
            "alias srun='x'",
            "if command -v srun >/dev/null; then srun x; fi",
            "p=$(which srun)",
            "type srun || exit 1",
        ] {
            assert!(known(text), "{text}");
        }
        let set = ShellScript::read("L=\"srun -n 4\"\n$L x\n");
        assert_eq!(set.command_variables[0].1.name, "srun");
        assert!(set.read.contains("L"));
    }

    #[test]
    fn variables_that_a_script_reads_without_care_are_found() {
        for (text, want) in [
            ("rm -rf $W/$P", "1:W 1:P"),
            ("cd \"$P/x\"\necho ${P}", "1:P 2:P"),
            ("echo ${#P} ${P%.*}", "1:P 1:P"),
            ("x=$((P + 1))", "1:P"),
            ("cat <<E\n$P\nE", "2:P"),
            ("echo `echo $P`", "1:P"),
            ("bash -c 'echo $P'", "1:P"),
            ("echo '$P' \\$P # $P", ""),
            ("echo ${P:-1} $P", ""),
            ("echo ${P-1}; echo $P", ""),
            ("[ -n \"$P\" ] && cd $P", ""),
            ("if [[ a && -z $P ]]; then x; fi; cd $P", ""),
            ("test -d \"$P\" && cd $P", ""),
            ("case $P in x) cd $P;; esac", ""),
            ("P=1; cd $P", ""),
            ("export P=1\ncd $P", ""),
            ("export P\ncd $P", "2:P"),
            ("for P in 1 2; do cd $P; done", ""),
            ("read P; cd $P", ""),
            ("cat <<'E'\n$P\nE\n", ""),
            ("if ( $?P ) then\ncd $P\nendif", ""),
            ("setenv P 1\ncd $P", ""),
        ] {
            assert_eq!(uses(text).join(" "), want, "{text}");
        }
    }

    proptest! {
        #![proptest_config(super::super::cases())]
        #[test]
        fn reading_ends(s in ".{0,60}", t in "[a $(){}<>'\"`\\\\\n;&|#=E\\[\\]-]{0,60}") {
            for text in [&s, &t] {
                let _ = ShellScript::read(text);
            }
        }
    }

    #[test]
    fn deep_nesting_is_bounded() {
        for piece in ["(", "$(", "${", "`", "{ ", "\"$(", "eval \"", "sh -c '"] {
            let _ = ShellScript::read(&piece.repeat(50_000));
        }
    }
}
