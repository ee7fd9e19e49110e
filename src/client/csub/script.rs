//! The job's script: from standard input or from the file that is the only word of the command.

use super::foreign;
use super::no_effect;
use super::options::JobOptions;
use crate::client::cli::{Split, Table, UsageError};
use crate::client::exit::{self, Fail, Result};
use crate::record::byte_text::ByteText;
use crate::record::request::SCRIPT_MAX;
use crate::sys;
use crate::text::command::{ForeignDirective, SBATCH, Script, UnreadLine, split_words};
use std::path::Path;

/// Maximum length of the text shown as the command of a script.
const SHOWN_MAX: usize = 4000;
/// What some editors of Windows write at the head of UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How a script on standard input is called.
pub(super) const STANDARD_INPUT: &str = "standard input";

/// Options that specify what is submitted instead of a job's own command; a description of a job
/// cannot have them.
pub(super) const COMMAND_SOURCES: [&str; 3] = ["pack", "spec", "clone"];

/// The command or script of a job.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Payload {
    /// The command line, or the text shown for a script.
    pub command: String,
    /// The script; empty if the job is a command line.
    pub script: ByteText,
    /// Interpreter line of the script; empty: none.
    pub shell: String,
    /// Options given by the script.
    pub options: JobOptions,
    /// Lines for Slurm or PBS that apply, and the script's name.
    pub foreign_directives: Vec<ForeignDirective>,
    pub place: String,
    /// The system for which the script is written: the prefix of its lines.
    pub system: Option<&'static str>,
    /// Warnings about lines of the script whose options have no effect.
    pub warnings: Vec<String>,
}

/// Determines from the operands of csub what to run.
///
/// # Errors
/// There is nothing to run, or the script cannot be read or parsed.
pub(super) fn from_operands(table: &Table, split: &Split) -> Result<Payload> {
    match split.operands.as_slice() {
        [] => from_stdin(table),
        [one] if is_script(one) => from_file(table, one),
        _ => Ok(Payload {
            command: super::spec::command_line(split),
            ..Payload::default()
        }),
    }
}

/// What a definition runs: a command line, or a script file, which is read now.
///
/// # Errors
/// The script cannot be read or parsed.
pub(super) fn from_definition(table: &Table, command: &str, file: &str) -> Result<Payload> {
    match file {
        "" => Ok(Payload {
            command: command.to_owned(),
            ..Payload::default()
        }),
        file => from_file(table, file),
    }
}

/// A script given as text: of a template, which has a path, or of a program.
///
/// # Errors
/// The script cannot be parsed.
pub(super) fn from_text(table: &Table, text: String, place: Option<&str>) -> Result<Payload> {
    let refuse = |why: String| {
        let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
        Err(Fail::usage(format!("{place}the script {why}")))
    };
    if text.len() > SCRIPT_MAX {
        return refuse(format!("is longer than {SCRIPT_MAX} bytes"));
    }
    if text.contains('\0') {
        return refuse("contains a NUL byte".to_owned());
    }
    read_script(table, text.into(), place)
}

fn from_stdin(table: &Table) -> Result<Payload> {
    if sys::caller::stdin_is_terminal() {
        eprint!("{}> ", exit::lsf_name().unwrap_or("csub"));
    }
    let bytes = sys::caller::read_stdin(SCRIPT_MAX as u64)
        .map_err(|e| Fail::usage(format!("the script on standard input: {e}")))?;
    if bytes.is_empty() {
        return Err(Fail::usage("no command is specified"));
    }
    let script = script_text(bytes, "the script on standard input")?;
    read_script(table, script, None)
}

fn from_file(table: &Table, name: &str) -> Result<Payload> {
    let bytes = sys::fs::read_small(Path::new(name), SCRIPT_MAX as u64)
        .map_err(|e| Fail::usage(e.to_string()))?;
    let script = script_text(bytes, name)?;
    read_script(table, script, Some(name))
}

/// Whether the only operand is a script to submit: a regular text file. A bare word that the shell
/// would find as a program is a command.
fn is_script(word: &str) -> bool {
    let path = Path::new(word);
    let Some((len, _)) = sys::caller::regular_file(path) else {
        return false;
    };
    if !word.contains('/') && is_program(word) {
        return false;
    }
    // The first bytes of a program's binary are not text; a long text is still a script and is
    // refused for its length when it is read.
    let head = sys::fs::read_from(path, 0, 4096).map(|c| c.bytes);
    len > 0 && head.is_ok_and(|bytes| !bytes.contains(&0) && !bytes.starts_with(b"\x7fELF"))
}

pub(super) fn is_program(word: &str) -> bool {
    if word.contains('/') {
        return sys::caller::regular_file(Path::new(word)).is_some_and(|(_, x)| x);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|dir| dir.is_absolute())
        .any(|dir| sys::caller::regular_file(&dir.join(word)).is_some_and(|(_, x)| x))
}

/// The content of a script, without a byte order mark at its head, which would hide the first line
/// from the kernel.
///
/// # Errors
/// A shell cannot run it: it contains a NUL byte, or lines end as those of DOS.
fn script_text(mut bytes: Vec<u8>, name: &str) -> Result<ByteText> {
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    if let Some(at) = bytes.iter().position(|b| *b == 0) {
        return Err(Fail::usage(format!(
            "{name} contains a NUL byte at byte {at}"
        )));
    }
    let mut lines = bytes.split(|b| *b == b'\n');
    if let Some(line) = lines.position(|line| line.ends_with(b"\r")) {
        let line = line + 1;
        return Err(Fail::usage(format!(
            "{name}:{line}: the line ends with a DOS line break (\\r\\n), which a shell takes for \
             a part of the line\nhint: sed -i 's/\\r$//' FILE"
        )));
    }
    Ok(bytes.into())
}

/// Refuses options in bytes that are not UTF-8: names of files would not be those that were meant.
fn check_encoding(script: &ByteText, found: &Script, place: &str) -> Result<()> {
    if script.is_utf8() {
        return Ok(());
    }
    let own = found.directives.iter().map(|directive| directive.line);
    let foreign = found.foreign_directives.iter().map(|line| line.line);
    let lines: Vec<usize> = own.chain(foreign).collect();
    let mut all = script.as_bytes().split(|b| *b == b'\n').zip(1..);
    match all.find(|(line, n)| lines.contains(n) && std::str::from_utf8(line).is_err()) {
        None => Ok(()),
        Some((_, line)) => Err(Fail::usage(format!(
            "{place}:{line}: the options are not UTF-8 text\n\
             hint: iconv -f ISO-8859-1 -t UTF-8 FILE"
        ))),
    }
}

/// Parses a script; `name` is its file, `None` for standard input.
///
/// # Errors
/// An invalid directive, with a caret.
fn read_script(table: &Table, script: ByteText, name: Option<&str>) -> Result<Payload> {
    let place = name.unwrap_or(STANDARD_INPUT);
    let text = script.text();
    let found = Script::parse(&text).map_err(|e| {
        let (line, column) = e.line_column(&text);
        Fail::usage(format!(
            "{place}:{line}:{column}: {}\n{}",
            e.message,
            e.caret(&text).trim_end_matches('\n')
        ))
    })?;
    check_encoding(&script, &found, place)?;
    let mut options = JobOptions::default();
    for directive in &found.directives {
        let at = |e: UsageError| Fail::usage(format!("{place}:{}: {e}", directive.line));
        let split = table.split(&directive.words).map_err(at)?;
        if let Some(word) = split.operands.first() {
            return Err(Fail::usage(format!(
                "{place}:{}: '{word}' is not an option",
                directive.line
            )));
        }
        let own_options = JobOptions::from_split(table, &split);
        if let Some(id) = COMMAND_SOURCES.iter().find(|id| own_options.has(id)) {
            return Err(Fail::usage(format!(
                "{place}:{}: -{id} is not allowed in a script",
                directive.line
            )));
        }
        options.append(own_options);
    }
    let command = match name {
        Some(name) => name.to_owned(),
        None => displayed_command(&text),
    };
    if command.is_empty() {
        return Err(Fail::usage(format!("{place}: no command is specified")));
    }
    let first = foreign::first_command(&text);
    let (applicable, others) = match found.directives.is_empty() {
        true => foreign::applicable_lines(&found.foreign_directives, first),
        false => (Vec::new(), found.foreign_directives),
    };
    let is_foreign = found.directives.is_empty();
    Ok(Payload {
        command,
        system: is_foreign
            .then(|| foreign::system_of(&applicable, &others))
            .flatten(),
        shell: found.shebang.unwrap_or_default(),
        place: place.to_owned(),
        warnings: warnings_about(place, &others, &found.unread),
        foreign_directives: applicable,
        script,
        options,
    })
}

/// A script of `sbatch`: from its file, or from standard input. Its `#SBATCH` lines apply.
///
/// # Errors
/// The script cannot be read, or names no interpreter.
pub(super) fn from_batch_script(file: Option<&str>) -> Result<Payload> {
    let place = file.unwrap_or(STANDARD_INPUT);
    let bytes = match file {
        Some(name) => sys::fs::read_small(Path::new(name), SCRIPT_MAX as u64)
            .map_err(|e| Fail::usage(format!("Unable to open file {name}: {e}")))?,
        None => sys::caller::read_stdin(SCRIPT_MAX as u64)
            .map_err(|e| Fail::usage(format!("the script on standard input: {e}")))?,
    };
    let script = script_text(bytes, place)?;
    let text = script.text();
    let found = Script::parse(&text).map_err(|e| {
        let (line, column) = e.line_column(&text);
        Fail::usage(format!("{place}:{line}:{column}: {}", e.message))
    })?;
    check_encoding(&script, &found, place)?;
    let Some(shell) = found.shebang.filter(|_| text.starts_with("#!")) else {
        return Err(Fail::usage(
            "This does not look like a batch script.  The first\n\
             line must start with #! followed by the path to an interpreter.\n\
             For instance: #!/bin/sh",
        ));
    };
    let first = foreign::first_command(&text);
    let applicable = |l: &ForeignDirective| l.prefix == SBATCH && l.line < first;
    let (applicable, others): (Vec<_>, Vec<_>) =
        found.foreign_directives.into_iter().partition(applicable);
    let mut warnings = warnings_about(place, &others, &found.unread);
    warnings.extend(no_effect::lines_of_csub(place, &found.directives));
    Ok(Payload {
        command: file.map_or_else(|| displayed_command(&text), str::to_owned),
        shell,
        place: place.to_owned(),
        system: Some(SBATCH),
        warnings,
        foreign_directives: applicable,
        script,
        options: JobOptions::default(),
    })
}

/// The warnings about lines of which nothing is read.
fn warnings_about(place: &str, others: &[ForeignDirective], unread: &[UnreadLine]) -> Vec<String> {
    let ignored = no_effect::ignored_lines(place, others);
    let both = [ignored, no_effect::unread_lines(place, unread)];
    both.into_iter().flatten().collect()
}

/// A script in one line: its commands separated by `;`, without comments.
fn displayed_command(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if !out.is_empty() {
            out.push(';');
        }
        if out.len() + line.len() > SHOWN_MAX {
            out.push_str("...");
            break;
        }
        out.push_str(line);
    }
    out
}

/// The interpreter of a job: `-L` requests a shell, the script's first line names one.
///
/// # Errors
/// The two contradict each other.
pub(super) fn interpreter(payload: &Payload, login: &str) -> Result<String> {
    if payload.shell.is_empty() || login.is_empty() {
        let either = if login.is_empty() {
            &payload.shell
        } else {
            login
        };
        return Ok(either.to_owned());
    }
    let program = |line: &str| line.split_whitespace().next().map(str::to_owned);
    if program(&payload.shell) == program(login) {
        return Ok(login.to_owned());
    }
    Err(Fail::usage(format!(
        "-L contradicts the first line of the script, '#!{}'",
        payload.shell
    )))
}

/// Splits a pack line into words.
///
/// # Errors
/// An invalid quote, with a caret into the line.
pub(super) fn pack_words(line: &str) -> Result<Vec<String>> {
    split_words(line).map_err(|e| {
        Fail::usage(format!(
            "{}\n{}",
            e.message,
            e.caret(line).trim_end_matches('\n')
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::super::options;
    use super::*;

    fn read(text: &str) -> Result<Payload> {
        read_script(&Table::new(options::csub()), text.to_owned().into(), None)
    }

    #[test]
    fn directives_become_options_and_the_rest_is_shown() {
        let payload =
            read("#!/bin/bash -e\n#BSUB -J 'a b'\n\n#CSUB -n 2 -q long # why\ncd x\n\nrun it\n")
                .unwrap();
        assert_eq!(payload.command, "cd x;run it");
        assert_eq!(payload.shell, "/bin/bash -e");
        assert_eq!(payload.options.get("J"), Some("a b"));
        assert_eq!(payload.options.get("q"), Some("long"));
    }

    #[test]
    fn lines_are_read_like_one_command_line() {
        let words = [
            "-R rusage[mem=1G] -f \"a > b\" -env A=1 -q s -o f -r",
            "-R span[hosts=1] -f \"c < d\" -env B=2 -q t -oo g -section x=y",
            "-R select[mem>100] -section z -rn",
        ];
        let lines: Vec<String> = words.iter().map(|w| format!("#BSUB {w}\n")).collect();
        let apart = read(&format!("{}run\n", lines.concat())).unwrap().options;
        let line = read(&format!("#BSUB {}\nrun\n", words.join(" ")));
        assert_eq!(apart, line.unwrap().options);
        let all = |id: &str| apart.all(id).collect::<Vec<_>>();
        assert_eq!(all("R").len(), 3);
        assert_eq!(all("f"), ["a > b", "c < d"]);
        assert_eq!(all("section"), ["x=y", "z"]);
        assert_eq!((all("env"), all("q")), (vec!["A=1", "B=2"], vec!["t"]));
        assert_eq!((apart.get("o"), apart.get("oo")), (None, Some("g")));
        assert!(apart.has("rn") && !apart.has("r"));
    }

    #[test]
    fn wrong_directives_name_their_line() {
        let text = |s: &str| read(s).unwrap_err().text;
        assert!(text("#!/bin/sh\n#CSUB -J 'x\nrun").contains(":2:"));
        assert!(text("\n\n#CSUB --nonsense\nrun").contains(":3: unknown option"));
        assert!(text("#CSUB -n 1 word\nrun").contains("'word' is not an option"));
        for option in ["-pack f", "--spec f", "--clone 7"] {
            let message = text(&format!("#CSUB {option}\nrun"));
            assert!(message.contains("is not allowed in a script"), "{message}");
        }
        assert!(text("# only a comment\n").contains("no command"));
    }

    #[test]
    fn text_is_checked() {
        let read = |bytes: &[u8]| script_text(bytes.to_vec(), "f");
        assert!(read(b"a\0").unwrap_err().text.contains("NUL"));
        let dos = read(b"#!/bin/sh\necho a\r\necho b\r\n").unwrap_err().text;
        assert!(
            dos.starts_with("f:2: the line ends with a DOS line break"),
            "{dos}"
        );
        assert_eq!(
            read(b"\xef\xbb\xbf#!/bin/sh\n").unwrap().as_bytes(),
            b"#!/bin/sh\n"
        );
    }

    #[test]
    fn bytes_in_another_encoding_reach_the_job_but_are_no_options() {
        let table = Table::new(options::csub());
        let read = |bytes: &[u8]| read_script(&table, bytes.to_vec().into(), None);
        let script = b"#!/bin/sh\n# K\xf8r\n#BSUB -J old\necho '\xf8'\n";
        let payload = read(script).unwrap();
        assert_eq!(payload.script.as_bytes(), script);
        assert_eq!(payload.options.get("J"), Some("old"));
        assert_eq!(payload.command, "echo '\u{f8}'");
        for line in [&b"#BSUB -o K\xf8r"[..], b"#SBATCH -o K\xf8r"] {
            let text = [b"#!/bin/sh\n", line, b"\ntrue\n"].concat();
            let why = read(&text).unwrap_err().text;
            assert!(why.contains(":2: the options are not UTF-8"), "{why}");
        }
    }

    #[test]
    fn a_login_shell_must_agree_with_the_script() {
        let payload = Payload {
            shell: "/bin/bash -e".into(),
            ..Payload::default()
        };
        assert_eq!(interpreter(&payload, "").unwrap(), "/bin/bash -e");
        assert_eq!(
            interpreter(&payload, "/bin/bash -l").unwrap(),
            "/bin/bash -l"
        );
        assert!(interpreter(&payload, "/bin/zsh -l").is_err());
        assert_eq!(
            interpreter(&Payload::default(), "/bin/zsh -l").unwrap(),
            "/bin/zsh -l"
        );
    }

    #[test]
    fn only_files_of_text_are_scripts() {
        let d = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = d.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path.to_str().unwrap().to_owned()
        };
        assert!(is_script(&file("s", b"echo hi\n")));
        assert!(!is_script(&file("b", b"\x7fELF\0")));
        assert!(!is_script(&file("e", b"")));
        assert!(!is_script(d.path().to_str().unwrap()));
        assert!(!is_script("sleep 10"));
    }
}
