//! `csub -app NAME PARAM=VALUE ...`: creates a job from an application template.
//!
//! Owns which words are parameters and which options a template may set. Values are passed to the
//! job as variables and single words, never as text for a shell.

use super::options::{self, JobOptions};
use super::script::{self, Payload};
use crate::client::cli::{Split, Table};
use crate::client::env::Site;
use crate::client::exit::{Fail, Result};
use crate::client::templates;
use crate::config::template::{FilledTemplate, PathBase, Template, TemplateCommand};
use crate::text::command::quote;
use clap::ArgAction;
use std::collections::BTreeMap;
use std::path::Path;

/// Options that a template cannot set, because they concern how csub itself works or ends.
const REFUSED_OPTIONS: &[&str] = &[
    "app", "K", "I", "Ip", "Is", "XF", "H", "key", "spec", "pack", "clone", "params", "env", "is",
    "wait", "dry-run", "jsonl", "verbose", "help", "version", "a",
];
/// Variable with the words after the parameters, quoted for a shell.
const ARGS: &str = "CB_APP_ARGS";

/// A job created from a template.
pub(super) struct TemplateJob {
    pub payload: Payload,
    pub options: JobOptions,
    /// Variables of the job.
    pub vars: BTreeMap<String, String>,
    /// The application for which the job counts.
    pub profile: String,
}

/// The job that the line requests if its `-app` names a template.
///
/// # Errors
/// A parameter or the template is invalid.
pub(super) fn from_command_line(
    table: &Table,
    split: &Split,
    own: &JobOptions,
    cwd: &Path,
) -> Result<Option<TemplateJob>> {
    let Some(name) = own.get("app") else {
        return Ok(None);
    };
    let site = Site::find()?;
    let Some((template, path)) = templates::find(&site, name)? else {
        return Ok(None);
    };
    if own.has("spec") {
        return Err(Fail::usage(format!(
            "-app: {name} is a template, which defines the job: -spec cannot be given"
        )));
    }
    let (given, rest) = parameters(&split.operands);
    let base = PathBase {
        cwd,
        kind: &templates::path_kind,
    };
    let filled = template
        .fill(&given, &base)
        .map_err(|wrong| wrong_parameters(name, &wrong))?;
    let script = templates::trusted_script(&site, &template, &path)?;
    let options = template_options(table, &filled, &path)?;
    let mut filled = TemplateJob {
        payload: template_payload(table, split, (&template, script), rest, &path)?,
        options,
        vars: filled.vars,
        profile: template.profile.clone(),
    };
    if template.args {
        let words: Vec<String> = rest.iter().map(|word| quote(word)).collect();
        filled.vars.insert(ARGS.to_owned(), words.join(" "));
    }
    if !matches!(template.run, TemplateCommand::Own) {
        // The command that cjobs shows; the job itself runs the template's text.
        let words = split.operands.iter().map(|word| quote(word));
        let words: Vec<String> = std::iter::once(name.to_owned()).chain(words).collect();
        if matches!(template.run, TemplateCommand::Script(_)) {
            filled.payload.command = words.join(" ");
        }
    }
    Ok(Some(filled))
}

/// The job that a form describes: the name of a template, the values of its parameters, and the
/// command or additional words if the template accepts them.
///
/// # Errors
/// There is no such template, or a parameter or the template is invalid.
pub(super) fn from_values(
    site: &Site,
    (name, values): (&str, &[(String, String)]),
    line: &str,
    cwd: &Path,
) -> Result<TemplateJob> {
    let Some((template, path)) = templates::find(site, name)? else {
        let shown = crate::text::width::escape(name);
        let text = format!("there is no template {shown}\nhint: capps");
        return Err(Fail::not_found(text));
    };
    let base = PathBase {
        cwd,
        kind: &templates::path_kind,
    };
    let filled = template.fill(values, &base);
    let filled = filled.map_err(|wrong| wrong_parameters(name, &wrong))?;
    let script = templates::trusted_script(site, &template, &path)?;
    let table = Table::new(options::csub());
    let takes = template.args || matches!(template.run, TemplateCommand::Own);
    if !takes && !line.is_empty() {
        let text = format!("-app {name}: the template defines the command: give none");
        return Err(Fail::usage(text));
    }
    let mut payload = match &template.run {
        TemplateCommand::Own => script::from_definition(&table, line, "")?,
        TemplateCommand::Command(command) => script::from_definition(&table, command, "")?,
        TemplateCommand::Script(_) => {
            script::from_text(&table, script, Some(&path.display().to_string()))?
        }
    };
    let words: Vec<String> = line.split_whitespace().map(quote).collect();
    if matches!(template.run, TemplateCommand::Script(_)) {
        // The command that cjobs shows.
        let given = values.iter().filter(|(_, value)| !value.is_empty());
        let given = given.map(|(name, value)| quote(&format!("{name}={value}")));
        let all = std::iter::once(name.to_owned()).chain(given);
        payload.command = all.chain(words.clone()).collect::<Vec<_>>().join(" ");
    }
    let mut filled = TemplateJob {
        options: template_options(&table, &filled, &path)?,
        payload,
        vars: filled.vars,
        profile: template.profile.clone(),
    };
    if template.args {
        filled.vars.insert(ARGS.to_owned(), words.join(" "));
    }
    Ok(filled)
}

fn wrong_parameters(name: &str, wrong: &[String]) -> Fail {
    let mut lines: Vec<String> = wrong.to_vec();
    let first = lines.remove(0);
    let more: String = lines.iter().map(|line| format!("\n{line}")).collect();
    Fail::usage(format!(
        "-app {name}: {first}{more}\nhint: capps show {name}"
    ))
}

/// The words `NAME=VALUE` at the beginning, and the rest. A name has capital letters only.
fn parameters(rest: &[String]) -> (Vec<(String, String)>, &[String]) {
    let named = |word: &String| {
        let (name, value) = word.split_once('=')?;
        let plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
        let good = name.starts_with(|c: char| c.is_ascii_uppercase()) && name.bytes().all(plain);
        good.then(|| (name.to_owned(), value.to_owned()))
    };
    let given: Vec<(String, String)> = rest.iter().map_while(named).collect();
    let rest = &rest[given.len()..];
    (given, rest)
}

fn template_payload(
    table: &Table,
    split: &Split,
    (template, script): (&Template, String),
    rest: &[String],
    path: &Path,
) -> Result<Payload> {
    let name = &template.name;
    let takes = template.args || matches!(template.run, TemplateCommand::Own);
    if let Some(word) = rest.first().filter(|_| !takes) {
        return Err(Fail::usage(format!(
            "-app {name}: '{word}' is not a parameter: write NAME=VALUE; the template defines the \
             command\nhint: capps show {name}"
        )));
    }
    match &template.run {
        TemplateCommand::Own => script::from_operands(
            table,
            &Split {
                operands: rest.to_vec(),
                ..split.clone()
            },
        ),
        TemplateCommand::Command(command) => script::from_definition(table, command, ""),
        TemplateCommand::Script(_) => {
            script::from_text(table, script, Some(&path.display().to_string()))
        }
    }
}

/// The options of a filled template.
fn template_options(table: &Table, filled: &FilledTemplate, path: &Path) -> Result<JobOptions> {
    let mut out = JobOptions::default();
    for (option, value, pos) in &filled.options {
        let added = add(&mut out, table, option, value);
        added.map_err(|why| {
            let path = path.display();
            Fail::usage(format!("{path}:{}:{}: {why}", pos.line, pos.col))
        })?;
    }
    Ok(out)
}

/// Adds an option of a template. An empty value omits the option.
fn add(
    out: &mut JobOptions,
    table: &Table,
    option: &str,
    value: &str,
) -> std::result::Result<(), String> {
    let mut all = table.command().get_arguments();
    let known = all.find(|arg| arg.get_long() == Some(option) || is_short(arg, option));
    let Some(arg) = known.filter(|arg| !arg.is_hide_set()) else {
        return Err(format!("csub has no option -{option}"));
    };
    let id = arg.get_id().as_str();
    if REFUSED_OPTIONS.contains(&id) || options::is_unimplemented(id) {
        return Err(format!("a template cannot give -{option}"));
    }
    if arg.get_action().takes_values() {
        if !value.is_empty() {
            out.add(id, value);
        }
        return Ok(());
    }
    debug_assert!(matches!(arg.get_action(), ArgAction::SetTrue));
    match value {
        "yes" | "true" => out.add(id, ""),
        "no" | "false" | "" => {}
        other => {
            return Err(format!(
                "-{option} takes no value: write yes or no, not {other:?}"
            ));
        }
    }
    Ok(())
}

fn is_short(arg: &clap::Arg, option: &str) -> bool {
    let mut letters = option.chars();
    arg.get_short().is_some() && arg.get_short() == letters.next() && letters.next().is_none()
}

/// The problems of a template beside its form: options that csub does not have, missing files,
/// lines of its script that are not options. `path`: its file.
pub(crate) fn problems(template: &Template, path: &Path) -> Vec<String> {
    let table = Table::new(options::csub());
    let mut out = Vec::new();
    for option in &template.options {
        // The value of a parameter is checked when it is given.
        let value = match option.value.contains("${") {
            true => "yes",
            false => option.value.as_str(),
        };
        if let Err(why) = add(&mut JobOptions::default(), &table, &option.option, value) {
            let (line, col) = (option.pos.line, option.pos.col);
            out.push(format!("{}:{line}:{col}: {why}", path.display()));
        }
    }
    let script = templates::script(template, path).and_then(|text| match text.is_empty() {
        true => Ok(()),
        false => script::from_text(&table, text, Some(&path.display().to_string())).map(drop),
    });
    out.extend(script.err().map(|fail| fail.text));
    out
}

#[cfg(test)]
mod tests {
    use super::super::spec::{ParseContext, submission};
    use super::*;
    use crate::config::read_template;
    use crate::config::template::PathKind;
    use crate::task::launch::section_slots;
    use crate::text::size::Unit;

    const FORM: &str = "name: t\nparams:\n- {name: CASE, type: file, exists: no}\n\
        - {name: N, type: int, default: 2, min: 1}\n- {name: GPU, type: bool, default: no}\n\
        options:\n- n: ${N}\n- R: 'rusage[gpu=1]'\n  when: GPU\n- x: ${GPU}\n- J: t ${N}\n\
        env: {MODE: 'm${N}'}\nscript: |\n  #!/bin/bash\n  #CSUB -P flow\n  run \"$CB_APP_CASE\"\n";

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|w| (*w).to_owned()).collect()
    }

    fn fill(line: &[&str]) -> std::result::Result<FilledTemplate, Vec<String>> {
        let template = read_template(FORM.as_bytes(), "t.yaml", "t").unwrap();
        let line = words(line);
        let (given, rest) = parameters(&line);
        assert!(rest.is_empty());
        let place = PathBase {
            cwd: Path::new("/w"),
            kind: &templates::path_kind,
        };
        template.fill(&given, &place)
    }

    #[test]
    fn parameters_come_before_other_words() {
        let line = words(&["A=1", "B_2=x=y", "./run", "C=3"]);
        let (given, rest) = parameters(&line);
        let given: Vec<String> = given.iter().map(|(n, v)| format!("{n}:{v}")).collect();
        assert_eq!(given, ["A:1", "B_2:x=y"]);
        assert_eq!(rest, ["./run", "C=3"]);
        assert!(parameters(&words(&["a=1"])).0.is_empty());
        assert!(parameters(&words(&["2A=1"])).0.is_empty());
    }

    #[test]
    fn a_template_gives_options_and_variables() {
        let table = Table::new(options::csub());
        let filled = fill(&["CASE=a b.cas", "N=4", "GPU=yes"]).unwrap();
        let options = template_options(&table, &filled, Path::new("t.yaml")).unwrap();
        let all: Vec<(&str, &str)> = options.iter().collect();
        let want = [("n", "4"), ("R", "rusage[gpu=1]"), ("x", ""), ("J", "t 4")];
        assert_eq!(all, want);
        assert_eq!(filled.vars["CB_APP_CASE"], "/w/a b.cas");
        assert_eq!(filled.vars["MODE"], "m4");
        let filled = fill(&["CASE=;rm -rf x"]).unwrap();
        assert_eq!(filled.vars["CB_APP_CASE"], "/w/;rm -rf x", "a plain value");
        assert_eq!(filled.options.len(), 3, "no GPU is asked for");
        let wrong = fill(&["N=0", "CAES=x"]).unwrap_err().join("; ");
        assert!(wrong.contains("no parameter CAES; did you mean"), "{wrong}");
        assert!(wrong.contains("CASE: a value is required"), "{wrong}");
        assert!(wrong.contains("N: 0 is below 1"), "{wrong}");
    }

    #[test]
    fn what_a_template_may_not_give_is_named_with_its_place() {
        for (options, want) in [
            ("- K: yes", "t.yaml:3:3: a template cannot give -K"),
            ("- nonsense: 1", "t.yaml:3:3: csub has no option -nonsense"),
            ("- x: 4", "-x takes no value"),
            ("- freq: 1", "csub has no option -freq"),
        ] {
            let text = format!("name: t\noptions:\n{options}\n");
            let template = read_template(text.as_bytes(), "t.yaml", "t").unwrap();
            let found = problems(&template, Path::new("t.yaml"));
            assert!(found.len() == 1 && found[0].contains(want), "{found:?}");
        }
        let template = read_template(FORM.as_bytes(), "t.yaml", "t").unwrap();
        assert_eq!(
            problems(&template, Path::new("t.yaml")),
            Vec::<String>::new()
        );
        let bad = FORM.replace("-P flow", "--nonsense");
        let template = read_template(bad.as_bytes(), "t.yaml", "t").unwrap();
        let found = problems(&template, Path::new("t.yaml"));
        assert!(found[0].contains("unknown option"), "{found:?}");
    }

    /// A value for a parameter that has to be given: the first of these that it accepts.
    const VALUES: &[&str] = &["/w/a", "/w/a.inp", "/w/a.sim", "/w/a.spck", "/w/dir"];

    /// The job that a template of the source tree makes if only what is required and `more` are
    /// given.
    fn shipped(template: &Template, more: &[(&str, &str)]) -> crate::model::Spec {
        let kind = |path: &Path| match path.ends_with("w") || path.ends_with("dir") {
            true => PathKind::Dir,
            false => PathKind::File,
        };
        let (cwd, name) = (Path::new("/w"), &template.name);
        let place = PathBase { cwd, kind: &kind };
        let mut given: Vec<(String, String)> = Vec::new();
        let known = more
            .iter()
            .filter(|(n, _)| template.params.iter().any(|p| p.name == *n));
        given.extend(known.map(|(n, v)| ((*n).to_owned(), (*v).to_owned())));
        let accepts = |param: &str, value: &str| {
            let all = template.fill(&[(param.to_owned(), value.to_owned())], &place);
            let wrong = all.err().unwrap_or_default();
            !wrong
                .iter()
                .any(|line| line.starts_with(&format!("{param}:")))
        };
        for param in template.params.iter().filter(|p| p.required) {
            let value = VALUES.iter().find(|value| accepts(&param.name, value));
            let value = value.unwrap_or_else(|| panic!("{name}: no value for {}", param.name));
            given.push((param.name.clone(), (*value).to_owned()));
        }
        let filled = template
            .fill(&given, &place)
            .unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let table = Table::new(options::csub());
        let options = template_options(&table, &filled, Path::new(name)).unwrap();
        let parse_context = ParseContext {
            now_ms: 1_800_000_000_000,
            cwd,
            umask: 0o22,
            host: "h1",
            default_queue: "",
            default_project: "",
            unit: &|| Unit::M,
        };
        let filled = submission(&options, &parse_context);
        filled.unwrap_or_else(|e| panic!("{name}: {}", e.text)).spec
    }

    #[test]
    fn every_template_that_is_shipped_makes_a_job_with_and_without_gpus() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/etc/apps.d");
        let mut slots = BTreeMap::new();
        for name in crate::sys::fs::names(Path::new(dir), 1000).unwrap() {
            let file = Path::new(dir).join(&name);
            let stem = file.file_stem().and_then(|stem| stem.to_str());
            let (Some(name), Some("yaml")) = (stem, file.extension().and_then(|e| e.to_str()))
            else {
                continue;
            };
            let template = templates::read_file(&file, name).unwrap();
            let spec = shipped(&template, &[]);
            slots.insert(name.to_owned(), spec.min);
            let with = shipped(&template, &[("GPUS", "2")]);
            let takes = template.params.iter().any(|p| p.name == "GPUS");
            assert_eq!(with.res_req.contains("gpu=2"), takes, "{name}: {with:?}");
        }
        assert!(slots.len() >= 20, "{slots:?}");
        let file = Path::new(dir).join("mxnet.yaml");
        let template = templates::read_file(&file, "mxnet").unwrap();
        let spec = shipped(&template, &[("SERVERS", "2"), ("WORKERS", "3")]);
        let sizes = section_slots(&spec.res_req, spec.min.max(1)).unwrap();
        assert_eq!(sizes, [1, 2, 3]);
    }
}
