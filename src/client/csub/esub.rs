//! Programs of the site that see a submission before it is sent, and may change or refuse it.
//!
//! Owns the names of the parameters and the rule that a program that cannot be run, or fails,
//! refuses the job, so that a mandatory check is never skipped. The programs run as the submitting
//! user, who could send requests to the leader without them: they are a service, not a security
//! barrier.

use super::options::JobOptions;
use crate::client::env::{Site, cluster_of};
use crate::client::exit::{Fail, Result};
use crate::record::request::RequestHead;
use crate::spool;
use crate::sys::child::{self, LimitedEnd};
use crate::sys::{self, clock};
use crate::task::build::EEXEC_DATA;
use crate::text::command::split_words;
use crate::text::resreq::{self, AnyResource, Builtins};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Exit code with which a program refuses the job.
const ABORT: i32 = 97;
/// How long one program may run (ms), and the maximum size of a file that it may write.
const LIMIT_MS: u64 = 60_000;
const FILE_MAX: u64 = 64 << 10;
/// Maximum size of the data that programs may write for eexec.
const DATA_MAX: usize = 32 << 10;
/// Maximum number of programs of one submission.
const PROGRAMS_MAX: usize = 16;
/// The value that removes an option.
const RESET: &str = "SUB_RESET";

/// The parameters and the options that they represent: all may be changed.
const NAMES: &[(&str, &str)] = &[
    ("JOB_NAME", "J"),
    ("JOB_DESCRIPTION", "Jd"),
    ("QUEUE", "q"),
    ("PROJECT_NAME", "P"),
    ("USER_GROUP", "G"),
    ("APP", "app"),
    ("IN_FILE", "i"),
    ("OUT_FILE", "o"),
    ("ERR_FILE", "e"),
    ("EXCLUSIVE", "x"),
    ("RERUNNABLE", "r"),
    ("DEPEND_COND", "w"),
    ("RES_REQ", "R"),
    ("HOSTS", "m"),
    ("PRE_EXEC", "E"),
    ("POST_EXEC", "Ep"),
    ("LOGIN_SHELL", "L"),
    ("BEGIN_TIME", "b"),
    ("TERM_TIME", "t"),
    ("RLIMIT_CPU", "c"),
    ("RLIMIT_RUN", "W"),
    ("RLIMIT_RSS", "M"),
    ("RLIMIT_SWAP", "v"),
    ("RLIMIT_FSIZE", "F"),
    ("RLIMIT_DATA", "D"),
    ("RLIMIT_STACK", "S"),
    ("RLIMIT_CORE", "C"),
    ("RLIMIT_PROCESS", "p"),
    ("NUM_PROCESSORS", "n"),
    ("USER_PRIORITY", "sp"),
    ("CWD", "cwd"),
    ("NOTIFY_BEGIN", "B"),
    ("NOTIFY_END", "N"),
    ("MAIL_USER", "u"),
];
/// Those whose options take no value.
const FLAGS: &[&str] = &["x", "r", "B", "N"];
/// Parameters that are only shown, with the options that set them.
const INTERACTIVE: &[(&str, &[&str])] = &[
    ("INTERACTIVE", &["I", "Ip", "Is", "XF"]),
    ("PTY", &["Ip", "Is"]),
    ("PTY_SHELL", &["Is"]),
];

/// Runs the site's programs, if any: `esub`, then those that `-a` names. Returns the resulting
/// options, and what the programs wrote to their standard output for the `eexec` of the job's host.
///
/// # Errors
/// A program refuses the job, fails, or is not safe to run.
pub(super) fn run(
    site: &Site,
    mut options: JobOptions,
    command: &str,
) -> Result<(JobOptions, String)> {
    let mut data = String::new();
    let Some(dir) = &site.esubs else {
        return Ok((options, data));
    };
    let requested = options.get("a").unwrap_or_default().to_owned();
    let programs = programs(dir, &requested)?;
    if programs.is_empty() {
        return Ok((options, data));
    }
    let owners = spool::owners(&cluster_of(site)?);
    let base = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    let files = base.join(format!("csub.{}", clock::nonce(12)));
    sys::fs::mkdir(&files, 0o700)?;
    let mut all = || {
        for program in &programs {
            let safe = owners.safe_to_load(program, program);
            safe.map_err(|e| Fail::refused(format!("esub: {e}")))?;
            options = run_one(program, &files, std::mem::take(&mut options), command)?;
            data += &output_of(program, &files.join("output"))?;
        }
        match data.len() {
            0..=DATA_MAX => Ok(()),
            n => Err(Fail::refused(format!(
                "esub: {n} bytes for eexec exceed {DATA_MAX}"
            ))),
        }
    };
    let done: Result<()> = all();
    let removed = sys::fs::remove_tree(&files);
    done?;
    removed?;
    options.remove("a");
    Ok((options, data))
}

/// What a program wrote to its standard output.
fn output_of(program: &Path, path: &Path) -> Result<String> {
    let bytes = sys::fs::read_small(path, DATA_MAX as u64)
        .map_err(|e| Fail::refused(format!("{}: its output: {e}", program.display())))?;
    sys::fs::remove(path)?;
    let text = String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'));
    text.ok_or_else(|| {
        let name = program.display();
        Fail::refused(format!("{name}: its output, for eexec, is not UTF-8 text"))
    })
}

/// Sends the data with the job's environment, from which the job's host extracts them.
pub(super) fn with_data(mut head: RequestHead, data: String) -> RequestHead {
    head.env.remove(EEXEC_DATA);
    if !data.is_empty() {
        head.env.insert(EEXEC_DATA.to_owned(), data);
    }
    head
}

/// `esub` if it exists, and `esub.NAME` for each name.
fn programs(dir: &Path, names: &str) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    let general = dir.join("esub");
    if sys::fs::exists(&general) {
        all.push(general);
    }
    for name in names.split_whitespace() {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        let path = dir.join(format!("esub.{name}"));
        if !name.chars().all(plain) || !sys::fs::exists(&path) {
            let shown = crate::text::width::escape(name);
            return Err(Fail::usage(format!(
                "-a: there is no program esub.{shown} in {}",
                dir.display()
            )));
        }
        all.push(path);
    }
    match all.len() {
        0..=PROGRAMS_MAX => Ok(all),
        _ => Err(Fail::usage(format!("-a: at most {PROGRAMS_MAX} programs"))),
    }
}

fn run_one(program: &Path, files: &Path, options: JobOptions, command: &str) -> Result<JobOptions> {
    let parameters = files.join("parameters");
    let changes = files.join("changes");
    let variables = files.join("environment");
    sys::fs::publish_mode(
        &parameters,
        parameter_file(&options, command).as_bytes(),
        0o600,
    )?;
    let value = |path: &Path| path.to_string_lossy().into_owned();
    let env = [
        ("LSB_SUB_PARM_FILE".to_owned(), value(&parameters)),
        ("LSB_SUB_MODIFY_FILE".to_owned(), value(&changes)),
        ("LSB_SUB_MODIFY_ENVFILE".to_owned(), value(&variables)),
        ("LSB_SUB_ABORT_VALUE".to_owned(), ABORT.to_string()),
    ];
    let name = program.display();
    let output = files.join("output");
    let end = child::run_with(program, &env, (&output, DATA_MAX as u64), LIMIT_MS)?;
    let why = match end {
        LimitedEnd::Exited(0) => None,
        LimitedEnd::Exited(ABORT) => return Err(Fail::refused(format!("refused by {name}"))),
        LimitedEnd::Exited(code) => Some(format!("{name} failed: it exited with {code}")),
        LimitedEnd::Signalled => Some(format!("{name} failed: a signal ended it")),
        LimitedEnd::TimeLimit => {
            let s = LIMIT_MS / 1000;
            Some(format!(
                "{name} hangs: it was ended after {s} s; nothing is submitted; report it to an \
                 administrator"
            ))
        }
        LimitedEnd::OutputLimit => Some(format!(
            "{name} failed: it was ended after more than {DATA_MAX} bytes of output"
        )),
    };
    if let Some(why) = why {
        return Err(Fail::refused(why));
    }
    let text = |path: &Path| -> Result<String> {
        let bytes = sys::fs::read_optional(path, FILE_MAX)?.unwrap_or_default();
        let _ = sys::fs::remove(path);
        String::from_utf8(bytes)
            .map_err(|_| Fail::refused(format!("{name}: its output is not UTF-8 text")))
    };
    let wrong = |why: String| Fail::refused(format!("{name}: {why}"));
    let options = apply_changes(options, &text(&changes)?).map_err(wrong)?;
    with_variables(options, &text(&variables)?).map_err(wrong)
}

/// The content of the parameter file: a line for each option that was given.
fn parameter_file(options: &JobOptions, command: &str) -> String {
    let mut out = String::new();
    let mut put = |name: &str, value: &str| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        let value = value.replace('\n', " ");
        writeln!(out, "LSB_SUB_{name}=\"{value}\"").expect("a string takes every write");
    };
    for (name, id) in NAMES {
        let all: Vec<&str> = options.all(id).collect();
        match (FLAGS.contains(id), all.as_slice()) {
            (_, []) => {}
            (true, _) => put(name, "Y"),
            (false, all) if *id == "R" => put(name, &one_requirement(all)),
            (false, all) => put(name, &all.join(" ")),
        }
    }
    for (name, ids) in INTERACTIVE {
        if ids.iter().any(|id| options.has(id)) {
            put(name, "Y");
        }
    }
    let mut checkpoint = options.get("k").unwrap_or_default().split_whitespace();
    if let Some(dir) = checkpoint.next() {
        put("CHKPNT_DIR", dir);
        if let Some(minutes) = checkpoint.find(|word| word.bytes().all(|b| b.is_ascii_digit())) {
            put("CHKPNT_PERIOD", minutes);
        }
    }
    if let Some(names) = options.get("a") {
        put("ADDITIONAL", names);
    }
    for (n, file) in options.all("f").enumerate() {
        put(&format!("OTHER_FILES_{n}"), file);
    }
    put("COMMAND_LINE", command);
    out
}

/// All `-R` as one requirement, which a program may change and write back. What cannot be joined
/// is refused later, after the programs.
fn one_requirement(texts: &[&str]) -> String {
    match texts {
        [only] => (*only).to_owned(),
        _ => resreq::merge_all(texts, &AnyResource(&Builtins))
            .map_or_else(|_| texts.join(" "), |merged| merged.to_string()),
    }
}

/// The options after the changes written by a program.
fn apply_changes(mut options: JobOptions, text: &str) -> std::result::Result<JobOptions, String> {
    let mut required = false;
    for line in lines(text) {
        let (name, value) = line?;
        let known = name.strip_prefix("LSB_SUB_").and_then(|name| {
            let row = NAMES.iter().find(|(known, _)| *known == name);
            row.map(|(_, id)| *id)
        });
        let Some(id) = known else {
            return Err(format!("{name} is not a parameter that may be changed"));
        };
        if id == "R" && std::mem::replace(&mut required, true) {
            return Err(format!("{name} is written twice: write one requirement"));
        }
        options.remove(id);
        let flag = FLAGS.contains(&id);
        if value == RESET || value.is_empty() || (flag && value == "N") {
            continue;
        }
        match (flag, value.as_str()) {
            (true, "Y") => options.add(id, ""),
            (true, _) => return Err(format!("{name} is Y or {RESET}")),
            (false, value) => options.add(id, value),
        }
    }
    Ok(options)
}

/// The options with variables for the job's environment.
fn with_variables(mut options: JobOptions, text: &str) -> std::result::Result<JobOptions, String> {
    for line in lines(text) {
        let (name, value) = line?;
        let quote = match (value.contains('\''), value.contains('"')) {
            (false, _) => '\'',
            (true, false) => '"',
            (true, true) => return Err(format!("the value of {name} has both kinds of quotes")),
        };
        options.add("env", &format!("{name}={quote}{value}{quote}"));
    }
    Ok(options)
}

/// The lines `NAME=VALUE`; a value may be quoted as in a shell.
fn lines(text: &str) -> impl Iterator<Item = std::result::Result<(String, String), String>> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let Some((name, value)) = line.split_once('=') else {
            return Err(format!("'{line}' is not NAME=VALUE"));
        };
        let quoted = value.starts_with(['"', '\'']);
        let words = quoted.then(|| split_words(value));
        let value = match words.map(|words| words.map(|words| words.concat())) {
            Some(Ok(value)) => value,
            Some(Err(e)) => return Err(format!("'{line}': {}", e.message)),
            None => value.to_owned(),
        };
        Ok((name.trim().to_owned(), value))
    })
}

#[cfg(test)]
mod tests {
    use super::super::options;
    use super::*;
    use crate::client::cli::Table;

    fn parsed_options(words: &[&str]) -> JobOptions {
        let table = Table::new(options::csub());
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        JobOptions::from_split(&table, &table.split(&words).unwrap())
    }

    #[test]
    fn parameters_show_what_was_given() {
        let text = parameter_file(
            &parsed_options(&["-q", "a", "-x", "-R", "mem>1", "-R", "ut<1", "-f", "a > b"]),
            "x \"y\"",
        );
        let wanted = "LSB_SUB_QUEUE=\"a\"\nLSB_SUB_EXCLUSIVE=\"Y\"\n\
                      LSB_SUB_RES_REQ=\"select[mem > 1 && ut < 1]\"\n\
                      LSB_SUB_OTHER_FILES_0=\"a > b\"\nLSB_SUB_COMMAND_LINE=\"x \\\"y\\\"\"\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn parameters_show_mail_terminals_and_checkpoints() {
        let text = |words: &[&str]| parameter_file(&parsed_options(words), "x");
        assert_eq!(
            text(&["-B", "-u", "a@b", "-k", "/d init=2 10 method=m"]),
            "LSB_SUB_NOTIFY_BEGIN=\"Y\"\nLSB_SUB_MAIL_USER=\"a@b\"\nLSB_SUB_CHKPNT_DIR=\"/d\"\n\
             LSB_SUB_CHKPNT_PERIOD=\"10\"\nLSB_SUB_COMMAND_LINE=\"x\"\n"
        );
        let shell = text(&["-Is"]);
        for name in ["INTERACTIVE", "PTY", "PTY_SHELL"] {
            assert!(shell.contains(&format!("LSB_SUB_{name}=\"Y\"")), "{shell}");
        }
        assert!(!text(&["-I"]).contains("PTY") && text(&["-I"]).contains("INTERACTIVE"));
        let after = apply_changes(
            parsed_options(&["-B"]),
            "LSB_SUB_NOTIFY_BEGIN=SUB_RESET\nLSB_SUB_NOTIFY_END=Y",
        );
        let after = after.unwrap();
        assert!(!after.has("B") && after.has("N"));
        assert!(apply_changes(parsed_options(&["-I"]), "LSB_SUB_INTERACTIVE=SUB_RESET").is_err());
    }

    #[test]
    fn what_a_program_writes_replaces_adds_and_takes_away() {
        let before = parsed_options(&["-q", "a", "-x", "-P", "p"]);
        let text = "# note\nLSB_SUB_QUEUE=\"night\"\nLSB_SUB_EXCLUSIVE=SUB_RESET\n\
                    LSB_SUB_RLIMIT_RUN=30\nLSB_SUB_RERUNNABLE=Y\n";
        let after = apply_changes(before.clone(), text).unwrap();
        let get = |id: &str| after.get(id);
        assert_eq!(
            (get("q"), get("P"), get("W")),
            (Some("night"), Some("p"), Some("30"))
        );
        assert!(!after.has("x") && after.has("r"));
        for wrong in [
            "LSB_SUB_NOPE=1",
            "QUEUE=1",
            "x",
            "LSB_SUB_EXCLUSIVE=7",
            "LSB_SUB_QUEUE=\"a",
            "LSB_SUB_RES_REQ=mem>1\nLSB_SUB_RES_REQ=span[hosts=1]",
        ] {
            assert!(apply_changes(before.clone(), wrong).is_err(), "{wrong}");
        }
        let with = with_variables(before, "A=1\nB=\"x,y\"\n").unwrap();
        let env: Vec<&str> = with.all("env").collect();
        assert_eq!(env, ["A='1'", "B='x,y'"]);
    }

    #[test]
    fn names_of_programs_lead_nowhere_else() {
        let d = tempfile::tempdir().unwrap();
        sys::fs::publish(&d.path().join("esub.fluent"), b"").unwrap();
        assert_eq!(programs(d.path(), "").unwrap(), Vec::<PathBuf>::new());
        assert_eq!(
            programs(d.path(), "fluent").unwrap(),
            [d.path().join("esub.fluent")]
        );
        sys::fs::publish(&d.path().join("esub"), b"").unwrap();
        assert_eq!(
            programs(d.path(), "fluent").unwrap()[0],
            d.path().join("esub")
        );
        for wrong in ["nope", "../x", "fluent/../../x"] {
            assert!(programs(d.path(), wrong).is_err(), "{wrong}");
        }
    }
}
