//! `capps` (`bapp`): the applications of cb.yaml and of `apps.d`, the parameters of their
//! templates, and the errors in a template.
//!
//! Owns what is printed; `tunnel` and `tunnel_server` are the two ends of the connection to a
//! program of a job, which are used by programs. Profiles come from the published view, templates
//! from the share.

mod tunnel;
mod tunnel_server;

pub(crate) use tunnel_server::TunnelServer;

use super::cli::{self, Values, command, flag, operands};
use super::csub::template;
use super::exit::{Exit, Fail};
use super::read::table::{self, Listing};
use super::read::{self, Source};
use super::templates::{self, FoundTemplate};
use crate::config::template::{BilingualText, Param, ParamKind, Template, TemplateCommand};
use crate::language::{tell, translated};
use crate::record::view::AppRow;
use crate::show::cell::Cut;
use crate::show::field::{Field, Get, Table, left};
use crate::text::command::quote;
use crate::text::error::did_you_mean;
use crate::text::width::escape;
use clap::{ArgMatches, Command};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Columns in which the text of a page begins.
const INDENT: &str = "  ";

/// An application: its profile in cb.yaml, its template, or both.
#[derive(Default)]
struct Application {
    name: String,
    profile: Option<AppRow>,
    template: Option<FoundTemplate>,
}

impl Application {
    fn kind(&self) -> &'static str {
        match (&self.profile, &self.template) {
            (Some(_), Some(_)) => "both",
            (_, Some(_)) => "template",
            _ => "profile",
        }
    }

    fn parsed_template(&self) -> Option<&Template> {
        self.template.as_ref()?.read.as_ref().ok()
    }

    fn description(&self) -> &str {
        let profile = self.profile.as_ref().map(|p| p.description.as_str());
        match &self.template {
            Some(FoundTemplate { read: Err(_), .. }) => "the template is wrong, see capps check",
            Some(FoundTemplate {
                read: Ok(template), ..
            }) => match template.label.en.as_str() {
                "" => first_line(&template.description.en),
                label => label,
            },
            None => first_line(profile.unwrap_or_default()),
        }
    }

    fn users(&self) -> &str {
        self.profile.as_ref().map_or("all", |p| p.users.as_str())
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

static FIELDS: &[Field<Get<Application>>] = &[
    left("name", &[], "NAME", 16, |a, out| out.push_str(&a.name)),
    left("kind", &[], "KIND", 9, |a, out| out.push_str(a.kind())),
    left("users", &[], "USERS", 12, |a, out| out.push_str(a.users())),
    left("description", &[], "DESCRIPTION", 40, |a, out| {
        out.push_str(a.description());
    }),
];

fn list_table() -> Table<Get<Application>> {
    let columns = [
        ("name", 16, Cut::Never),
        ("kind", 9, Cut::Never),
        ("users", 12, Cut::Never),
        ("description", 40, Cut::Never),
    ];
    Table::fixed(FIELDS, &columns)
}

const LIST: Listing<Application> = Listing {
    command: "capps",
    records_key: "APPLICATIONS",
    fields: FIELDS,
    json_default: "name kind users description",
    put_json,
};

fn put_json(out: &mut String, app: &Application) {
    let mut object = serde_json::Map::new();
    object.insert("name".into(), app.name.clone().into());
    object.insert("kind".into(), app.kind().into());
    let values = [
        ("profile", serde_json::to_value(&app.profile)),
        ("template", serde_json::to_value(app.parsed_template())),
    ];
    for (key, value) in values {
        if let Ok(value) = value
            && !value.is_null()
        {
            object.insert(key.into(), value);
        }
    }
    let _ = writeln!(out, "{}", serde_json::Value::Object(object));
}

/// Its options.
pub(super) fn options() -> Command {
    let about = "List applications, show the parameters of a template, or check templates";
    let cmd = command("capps", about)
        .arg(flag("l", "Long: the page of each application"))
        .arg(flag("w", "Wide: no value is cut"))
        .arg(operands(
            "names",
            "[show|check|tunnel] APPLICATION",
            "Only these; show: their pages; check: problems of these templates or files; tunnel \
             JOB: run by the portal to reach a program of a job",
        ));
    table::options(cmd)
}

/// Runs `capps`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let m = match cli::parse(options(), &read::split_json(args)) {
        Ok(m) => m,
        Err(code) => return code,
    };
    let names = m.all("names");
    let answer = match names.split_first() {
        Some((verb, files)) if verb == "check" => check(files),
        Some((verb, job)) if verb == "tunnel" => return tunnel::run(job),
        Some((verb, [])) if verb == "far-end" => return tunnel_server::run(),
        _ => Source::open("capps").and_then(|source| {
            let (out, exit) = show(&m, &source)?;
            read::put(&out)?;
            Ok(exit)
        }),
    };
    read::end("capps", answer)
}

fn all(source: &Source) -> Result<Vec<Application>, Fail> {
    let mut apps: BTreeMap<String, Application> = BTreeMap::new();
    for found in templates::all(&source.site)? {
        let app = apps.entry(found.name.clone()).or_default();
        app.name.clone_from(&found.name);
        app.template = Some(found);
    }
    for profile in source.params()?.apps {
        let app = apps.entry(profile.name.clone()).or_default();
        app.name.clone_from(&profile.name);
        app.profile = Some(profile);
    }
    Ok(apps.into_values().collect())
}

fn show(m: &ArgMatches, source: &Source) -> Result<(String, Exit), Fail> {
    let apps = all(source)?;
    let mut names = m.all("names");
    let shows = names.first().is_some_and(|verb| verb == "show");
    let pages = m.has("l") || shows;
    if shows {
        names.remove(0);
        if names.is_empty() {
            return Err(Fail::usage("show: name an application"));
        }
    }
    let (rows, exit) = read::rows_by_name("application", &apps, |app| &app.name, &names);
    if pages && !Listing::<Application>::wants_table(m) {
        let mut out = String::new();
        for (n, app) in rows.iter().enumerate() {
            if n > 0 {
                out.push('\n');
            }
            page(&mut out, app);
        }
        return Ok((out, exit));
    }
    if rows.is_empty() && exit == Exit::Ok {
        tell!("No application: neither section apps of cb.yaml nor a template in apps.d");
    }
    Ok((LIST.render(m, &rows, list_table)?, exit))
}

/// Everything about one application.
fn page(out: &mut String, app: &Application) {
    let title = match app
        .parsed_template()
        .map_or("", |template| template.label.localized())
    {
        "" => String::new(),
        label => format!(" -- {}", escape(label)),
    };
    let _ = writeln!(out, "APPLICATION: {}{title}", escape(&app.name));
    if let Some(template) = app.parsed_template() {
        put_text(out, &template.description);
        parameters(out, template);
        if !template.help.en.is_empty() || !template.help.zh.is_empty() {
            out.push_str("\nHELP\n");
            put_text(out, &template.help);
        }
        let _ = writeln!(out, "\nEXAMPLE\n{INDENT}{}", example(template));
    }
    match &app.template {
        Some(FoundTemplate {
            read: Err(problems),
            path,
            ..
        }) => {
            let _ = writeln!(out, "\nThe template {} is wrong:", path.display());
            problems.iter().for_each(|p| _ = writeln!(out, "{p}"));
        }
        Some(found) => {
            let _ = writeln!(out, "\nTEMPLATE\n{INDENT}{}", found.path.display());
        }
        None => {}
    }
    if let Some(profile) = &app.profile {
        out.push_str("\nPROFILE\n");
        if !profile.description.is_empty() && app.template.is_none() {
            let _ = writeln!(out, "{INDENT}{}", escape(&profile.description));
        }
        let mut line = |title: &str, value: &str| {
            let _ = writeln!(out, "{INDENT}{title:<22} {}", escape(value));
        };
        line("USERS", &profile.users);
        if !profile.res_req.is_empty() {
            line("RES_REQ", &profile.res_req);
        }
        for (title, value) in &profile.settings {
            line(title, value);
        }
    }
}

fn put_text(out: &mut String, text: &BilingualText) {
    for line in text.en.lines().chain(text.zh.lines()) {
        let _ = writeln!(out, "{INDENT}{}", escape(line));
    }
}

fn parameters(out: &mut String, template: &Template) {
    if template.params.is_empty() {
        return;
    }
    out.push_str("\nPARAMETERS\n");
    let width = template.names().map(str::len).max().unwrap_or_default();
    for param in &template.params {
        let about = match (param.label.localized(), param.help.localized()) {
            (label, "") => label.to_owned(),
            ("", help) => help.to_owned(),
            (label, help) => format!("{label}: {help}"),
        };
        let about = about.replace('\n', " ");
        let _ = writeln!(
            out,
            "{INDENT}{:<width$}  {}",
            param.name,
            param_summary(param)
        );
        if !about.trim().is_empty() {
            let _ = writeln!(out, "{INDENT}{:<width$}  {}", "", escape(about.trim()));
        }
    }
}

/// `int 1 to 64, default 4`.
fn param_summary(param: &Param) -> String {
    let mut out = param.kind.word().to_owned();
    match (&param.min, &param.max) {
        (Some(min), Some(max)) => _ = write!(out, " {min} to {max}"),
        (Some(min), None) => _ = write!(out, " from {min}"),
        (None, Some(max)) => _ = write!(out, " up to {max}"),
        (None, None) => {}
    }
    if param.kind == ParamKind::Choice {
        let all: Vec<&str> = param.choices.iter().map(|c| c.value.as_str()).collect();
        let _ = write!(out, " of {}", escape(&all.join(", ")));
    }
    if let Some(pattern) = &param.pattern {
        let _ = write!(out, " like {}", escape(pattern));
    }
    match &param.default {
        Some(text) if !text.is_empty() => _ = write!(out, ", default {}", escape(text)),
        _ if param.required => out.push_str(", required"),
        _ => out.push_str(", optional"),
    }
    out
}

fn example(template: &Template) -> String {
    let mut out = format!("csub -app {}", quote(&template.name));
    for param in template.params.iter().filter(|p| p.required) {
        let _ = write!(out, " {}=...", param.name);
    }
    match template.run {
        TemplateCommand::Own => out.push_str(" COMMAND"),
        _ if template.args => out.push_str(" [WORDS]"),
        _ => {}
    }
    out
}

/// `capps check`: problems of the named templates or files; of all with `all` or without a name.
fn check(names: &[String]) -> Result<Exit, Fail> {
    let mut files: Vec<PathBuf> = Vec::new();
    for name in names {
        // A file of any place, before it is installed.
        if name.contains('/') || name.ends_with(".yaml") {
            files.push(PathBuf::from(name));
        }
    }
    let named: Vec<&String> = names
        .iter()
        .filter(|name| !files.iter().any(|file| file.as_path() == Path::new(name)))
        .collect();
    if !named.is_empty() || names.is_empty() {
        let site = super::env::Site::find()?;
        let found = templates::all(&site)?;
        let every = named.is_empty() || named.iter().any(|name| *name == "all");
        for name in named.iter().filter(|name| **name != "all") {
            if !found.iter().any(|one| one.name == **name) {
                let near = did_you_mean(name, found.iter().map(|one| one.name.as_str()));
                let dir = site.layout().apps_dir();
                let text = format!("{}: no template {name:?}{near}", dir.display());
                return Err(Fail::not_found(text));
            }
        }
        let wanted = found
            .into_iter()
            .filter(|one| every || named.iter().any(|name| **name == one.name));
        files.extend(wanted.map(|one| one.path));
    }
    let mut wrong = 0;
    for file in &files {
        let problems = problems_of(file);
        wrong += usize::from(!problems.is_empty());
        problems.iter().for_each(|problem| tell!("{problem}"));
    }
    match (wrong, files.len()) {
        (0, n) => {
            read::put(&translated(&format!("{n} templates are fine\n")))?;
            Ok(Exit::Ok)
        }
        (wrong, n) => Err(Fail::usage(format!("{wrong} of {n} templates are wrong"))),
    }
}

/// Everything that is wrong with a template, a text for each.
fn problems_of(file: &Path) -> Vec<String> {
    let name = file.file_stem().and_then(|name| name.to_str());
    match templates::read_file(file, name.unwrap_or_default()) {
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
        Ok(template) => template::problems(&template, file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_cluster;

    #[test]
    fn the_templates_that_are_shipped_are_fine() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/etc/apps.d");
        let names = crate::sys::fs::names(Path::new(dir), 1000).unwrap();
        let mut count = 0;
        for name in names {
            let file = Path::new(dir).join(&name);
            if file.extension().is_some_and(|end| end == "yaml") {
                assert_eq!(problems_of(&file), Vec::<String>::new());
                let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap();
                let template = templates::read_file(&file, stem).unwrap();
                for text in [&template.label, &template.description] {
                    assert!(!text.en.is_empty() && !text.zh.is_empty(), "{stem}");
                }
                for param in &template.params {
                    assert!(!param.label.en.is_empty(), "{stem} {}", param.name);
                    assert!(!param.label.zh.is_empty(), "{stem} {}", param.name);
                }
                count += 1;
            }
        }
        assert!(count >= 20, "only {count} templates");
    }

    #[test]
    fn golden_output() {
        let lines = ["", "show cfd", "-o 'name kind'"];
        test_cluster::compare("capps", &lines, |words| {
            let m = test_cluster::parse(options(), words);
            let bed = test_cluster::cluster();
            let dir = bed.source("capps", 10).layout.apps_dir();
            crate::sys::fs::mkdir_p(&dir, 0o755).unwrap();
            let template = "name: cfd\nlabel: Flow\nlabel_zh: 流体\ndescription: A solver\n\
                params:\n- {name: CASE, type: file, label: Case, help: of the solver}\n\
                - {name: N, type: int, default: 4, min: 1, max: 64, label: Slots}\n\
                - {name: MODE, type: choice, choices: [fast, exact], default: fast}\n\
                options:\n- n: ${N}\nscript: run \"$CB_APP_CASE\"\n";
            crate::sys::fs::durable_write(&dir.join("cfd.yaml"), template.as_bytes()).unwrap();
            let (out, _) = show(&m, &bed.source("capps", 10)).unwrap();
            out.replace(&dir.display().to_string(), "APPS.D")
        });
    }
}
