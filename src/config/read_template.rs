//! Converts the bytes of a template of `apps.d` to a [`Template`], or to all its problems, each
//! with file, line and column. Checks only the file itself; the reader in `csub` checks whether
//! `csub` knows its options.

use super::keys;
use super::problem::Problem;
use super::read::{Ctx, Fields, OsNames, Words};
use super::read_apps::MAX_NAME;
use super::read_env;
use super::template::{
    BilingualText, Choice, Param, ParamCondition, ParamKind, Template, TemplateCommand,
    TemplateOption, VARIABLE, amount, parameter_parts, whole_pattern,
};
use crate::text::yaml::{self, Node, Pos, Value};

/// Maximum size of a template, in bytes.
pub const TEMPLATE_MAX: usize = 256 << 10;
/// Maximum length of a text for users, and of a pattern, in bytes.
const MAX_TEXT: usize = 16 << 10;
const MAX_PATTERN: usize = 1000;
/// Maximum length of the name of a parameter or variable.
const MAX_WORD: usize = 40;
const MAX_PARAMS: usize = 200;
const MAX_CHOICES: usize = 500;
const MAX_OPTIONS: usize = 200;
const MAX_INCLUDES: usize = 10;
/// Options whose values a shell interprets: they must not contain text of users.
const OF_SHELL: [&str; 4] = ["E", "Ep", "rnc", "L"];

/// Reads a template. `file`: its name in messages; `name`: the name that it must state.
///
/// # Errors
/// All problems found, in the order of the file; never empty.
pub fn read_template(bytes: &[u8], file: &str, name: &str) -> Result<Template, Vec<Problem>> {
    let doc = yaml::parse(bytes, &yaml::Limits::bytes(TEMPLATE_MAX), &[]);
    let text = String::from_utf8_lossy(if bytes.len() > TEMPLATE_MAX {
        &[]
    } else {
        bytes
    });
    let mut ctx = Ctx {
        file,
        lines: text.split('\n').collect(),
        problems: Vec::new(),
        warnings: Vec::new(),
        left_out: false,
        os: &OsNames::ANY,
        partial: doc.partial,
    };
    for defect in &doc.defects {
        match &defect.hint {
            Some(hint) => ctx.problem_hint(defect.pos, defect.code, &*defect.message, &**hint),
            None => ctx.problem(defect.pos, defect.code, &*defect.message),
        }
    }
    if doc.root.is_none() && ctx.problems.is_empty() {
        ctx.problem(Pos::new(1, 1), "missing-key", "the template is empty");
    }
    let template = doc
        .root
        .as_ref()
        .and_then(|root| template(&mut ctx, root, name));
    let more = ctx.left_out.then(|| ctx.more_problems());
    let mut problems = ctx.problems;
    problems.sort_by_key(|p| (p.line, p.col));
    problems.extend(more);
    match template {
        Some(template) if problems.is_empty() => Ok(template),
        _ => Err(problems),
    }
}

fn template(ctx: &mut Ctx<'_>, root: &Node, name: &str) -> Option<Template> {
    let f = Fields::new(ctx, root, keys::TEMPLATE, "the template")?;
    let given = f.scalar(ctx, "name");
    match &given {
        Some(w) if !ctx.check_name(w) => {}
        Some(w) if w.text != name => {
            let message = format!("the name {:?} is not that of the file", w.text);
            ctx.problem_hint(
                w.pos,
                "name",
                message,
                format!("write {name}, or rename the file"),
            );
        }
        Some(w) if w.text.chars().count() > MAX_NAME => {
            let message = format!("the name of a template has at most {MAX_NAME} characters");
            ctx.problem(w.pos, "name", message);
        }
        None if !f.has("name") => ctx.problem(f.pos, "missing-key", "a template without a name"),
        _ => {}
    }
    let params = params(ctx, &f);
    let profile = match f.scalar(ctx, "profile") {
        Some(w) if ctx.check_name(&w) => w.text,
        _ => name.to_owned(),
    };
    let out = Template {
        name: name.to_owned(),
        label: text(ctx, &f, ["label", "label_zh"]),
        description: text(ctx, &f, ["description", "description_zh"]),
        help: text(ctx, &f, ["help", "help_zh"]),
        profile,
        options: options(ctx, &f, &params),
        env: env(ctx, &f, &params),
        run: run(ctx, &f),
        include: include(ctx, &f),
        args: f.flag(ctx, "args", false),
        params,
    };
    let script = matches!(out.run, TemplateCommand::Script(_));
    for (key, given) in [("include", !out.include.is_empty()), ("args", out.args)] {
        if given && !script {
            let message = format!("{key} has no effect without script");
            ctx.problem(f.key_pos(key), "conflict", message);
        }
    }
    Some(out)
}

fn bounded(ctx: &mut Ctx<'_>, f: &Fields<'_>, key: &str) -> String {
    let Some(w) = f.scalar(ctx, key) else {
        return String::new();
    };
    if w.text.len() > MAX_TEXT {
        let message = format!("{key}: more than {MAX_TEXT} bytes");
        ctx.problem(w.pos, "range", message);
    }
    w.text.trim_end().to_owned()
}

fn text(ctx: &mut Ctx<'_>, f: &Fields<'_>, [en, zh]: [&str; 2]) -> BilingualText {
    BilingualText {
        en: bounded(ctx, f, en),
        zh: bounded(ctx, f, zh),
    }
}

/// `[A-Z][A-Z0-9_]*`.
fn is_param_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    name.len() <= MAX_WORD
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.bytes().all(plain)
}

fn params(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Vec<Param> {
    let mut out: Vec<Param> = Vec::new();
    let Some(node) = f.node("params") else {
        return out;
    };
    for item in ctx.list(node, "params") {
        let what = super::read::text_of(item, "name")
            .map_or("a parameter".to_owned(), |name| format!("parameter {name}"));
        let Some(p) = Fields::new(ctx, item, keys::PARAM, &what) else {
            continue;
        };
        if out.len() == MAX_PARAMS {
            ctx.problem(p.pos, "range", format!("more than {MAX_PARAMS} parameters"));
            return out;
        }
        let Some(w) = p.scalar(ctx, "name") else {
            if !p.has("name") {
                ctx.problem(p.pos, "missing-key", "a parameter without a name");
            }
            continue;
        };
        if !is_param_name(&w.text) {
            let message = format!("{:?} cannot be the name of a parameter", w.text);
            let hint = format!("write capital letters, digits and _, at most {MAX_WORD}");
            ctx.problem_hint(w.pos, "name", message, hint);
        } else if out.iter().any(|known| known.name == w.text) {
            ctx.problem(
                w.pos,
                "duplicate",
                format!("parameter {} is defined twice", w.text),
            );
        } else {
            let param = param(ctx, &p, w.text);
            out.push(param);
        }
    }
    out
}

fn param(ctx: &mut Ctx<'_>, f: &Fields<'_>, name: String) -> Param {
    let kind = f.choice(ctx, "type", &ParamKind::ALL).unwrap_or_default();
    let default = f.scalar(ctx, "default");
    let required = f.flag(ctx, "required", default.is_none());
    if required && default.is_some() {
        let message = "a parameter that has a default is not required";
        ctx.problem(f.key_pos("required"), "conflict", message);
    }
    let path = matches!(kind, ParamKind::File | ParamKind::Dir);
    let out = Param {
        name,
        label: text(ctx, f, ["label", "label_zh"]),
        help: text(ctx, f, ["help", "help_zh"]),
        kind,
        default: default.as_ref().map(|w| w.text.clone()),
        required,
        choices: choices(ctx, f),
        min: bound(ctx, f, "min", kind),
        max: bound(ctx, f, "max", kind),
        pattern: pattern(ctx, f),
        exists: f.flag(ctx, "exists", path) && path,
    };
    for (key, fits) in [
        ("choices", kind == ParamKind::Choice),
        ("min", kind.is_ordered()),
        ("max", kind.is_ordered()),
        ("pattern", kind.is_free()),
        ("exists", path),
    ] {
        if f.has(key) && !fits {
            let message = format!("{key} is not for parameters of type {}", kind.word());
            ctx.problem(f.key_pos(key), "conflict", message);
        }
    }
    if kind == ParamKind::Choice && out.choices.is_empty() {
        ctx.problem(f.pos, "missing-key", "a choice without choices");
    }
    if let (Some(min), Some(max)) = (&out.min, &out.max)
        && amount(kind, min).ok() > amount(kind, max).ok()
    {
        let message = format!("min {min} is above max {max}");
        ctx.problem(f.key_pos("min"), "conflict", message);
    }
    if let Some(w) = default.filter(|w| !w.text.is_empty())
        && let Err(why) = out.value(&w.text, None)
    {
        ctx.problem(w.pos, "default", format!("default: {why}"));
    }
    out
}

fn bound(ctx: &mut Ctx<'_>, f: &Fields<'_>, key: &str, kind: ParamKind) -> Option<String> {
    let w = f.scalar(ctx, key)?;
    if kind.is_ordered()
        && let Err(why) = amount(kind, &w.text)
    {
        ctx.problem(w.pos, "number", format!("{key}: {why}"));
        return None;
    }
    Some(w.text)
}

fn pattern(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Option<String> {
    let w = f.scalar(ctx, "pattern")?;
    if w.text.len() > MAX_PATTERN {
        let message = format!("pattern: more than {MAX_PATTERN} bytes");
        ctx.problem(w.pos, "range", message);
        return None;
    }
    if let Err(e) = regex_lite::Regex::new(&whole_pattern(&w.text)) {
        ctx.problem(w.pos, "pattern", format!("pattern: {e}"));
        return None;
    }
    Some(w.text)
}

/// `[a, b]`, or a list of `{value: a, label: A}`.
fn choices(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Vec<Choice> {
    let mut out: Vec<Choice> = Vec::new();
    let Some(node) = f.node("choices") else {
        return out;
    };
    for item in ctx.list(node, "choices") {
        let choice = match &item.value {
            Value::Text { text, .. } => Some(Choice {
                value: text.clone(),
                label: BilingualText::default(),
            }),
            _ => Fields::new(ctx, item, keys::CHOICE, "a choice").and_then(|c| {
                Some(Choice {
                    value: c.scalar(ctx, "value")?.text,
                    label: text(ctx, &c, ["label", "label_zh"]),
                })
            }),
        };
        let Some(choice) = choice else { continue };
        if out.len() == MAX_CHOICES {
            ctx.problem(
                item.pos,
                "range",
                format!("more than {MAX_CHOICES} choices"),
            );
            break;
        }
        if choice.value.is_empty() || choice.value.contains(char::is_control) {
            ctx.problem(item.pos, "choice", "a choice is a printable text");
        } else if out.iter().any(|known| known.value == choice.value) {
            let message = format!("{:?} is listed twice", choice.value);
            ctx.problem(item.pos, "duplicate", message);
        } else {
            out.push(choice);
        }
    }
    out
}

/// A list of `OPTION: VALUE`, each with or without `when`.
fn options(ctx: &mut Ctx<'_>, f: &Fields<'_>, params: &[Param]) -> Vec<TemplateOption> {
    let mut out = Vec::new();
    let Some(node) = f.node("options") else {
        return out;
    };
    for item in ctx.list(node, "options") {
        let Value::Map(entries) = &item.value else {
            let hint = "write - OPTION: VALUE";
            ctx.problem_hint(item.pos, "type", "an option is a key and a value", hint);
            continue;
        };
        if out.len() == MAX_OPTIONS {
            ctx.problem(
                item.pos,
                "range",
                format!("more than {MAX_OPTIONS} options"),
            );
            break;
        }
        let (when, of): (Vec<_>, Vec<_>) = entries.iter().partition(|e| e.key == "when");
        let [entry] = of.as_slice() else {
            let message = "each entry is one option, with or without when";
            ctx.problem(item.pos, "type", message);
            continue;
        };
        let Some(w) = scalar(ctx, &entry.value, &entry.key) else {
            continue;
        };
        check_names(ctx, &w, params);
        if OF_SHELL.contains(&entry.key.as_str()) {
            shell_reads(ctx, &w, &entry.key, params);
        }
        let when = when.first().and_then(|e| {
            let w = scalar(ctx, &e.value, "when")?;
            Some(condition(ctx, &w, params))
        });
        out.push(TemplateOption {
            option: entry.key.clone(),
            value: w.text.clone(),
            when,
            pos: entry.key_pos,
        });
    }
    out
}

pub(super) fn scalar(ctx: &mut Ctx<'_>, node: &Node, key: &str) -> Option<Words> {
    match &node.value {
        Value::Text { text, quoted } => Some(Words::one_word(text, node.pos, *quoted)),
        Value::Refused => None,
        _ => {
            ctx.problem(node.pos, "type", format!("{key} takes one value"));
            None
        }
    }
}

fn condition(ctx: &mut Ctx<'_>, w: &Words, params: &[Param]) -> ParamCondition {
    let when = ParamCondition::parse(&w.text);
    if !params.iter().any(|p| p.name == when.param) {
        let known = params.iter().map(|p| p.name.as_str());
        ctx.undefined(w.pos, "parameter", &when.param, known);
    }
    when
}

/// Every `${NAME}` is a parameter.
fn check_names(ctx: &mut Ctx<'_>, w: &Words, params: &[Param]) {
    for (_, name) in parameter_parts(&w.text) {
        let Some((at, name)) = name else { continue };
        if !params.iter().any(|p| p.name == name) {
            let pos = w.pos_at(at, ctx);
            ctx.undefined(
                pos,
                "parameter",
                name,
                params.iter().map(|p| p.name.as_str()),
            );
        }
    }
}

fn shell_reads(ctx: &mut Ctx<'_>, w: &Words, option: &str, params: &[Param]) {
    for (_, name) in parameter_parts(&w.text) {
        let Some((at, name)) = name else { continue };
        if params.iter().any(|p| p.name == name && p.kind.is_free()) {
            let pos: Pos = w.pos_at(at, ctx);
            let message = format!(
                "a shell interprets -{option}: the text of {name} must not become part \
                    of it"
            );
            let hint = format!("write \"${VARIABLE}{name}\"");
            ctx.problem_hint(pos, "shell", message, hint);
        }
    }
}

fn env(ctx: &mut Ctx<'_>, f: &Fields<'_>, params: &[Param]) -> Vec<(String, String)> {
    let taken = |name: &str| (name.starts_with(VARIABLE) || name.len() > MAX_WORD).then_some("");
    let all = read_env::env(ctx, f, MAX_OPTIONS, taken);
    for (_, value) in &all {
        check_names(ctx, value, params);
    }
    all.into_iter().map(|(name, w)| (name, w.text)).collect()
}

fn run(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> TemplateCommand {
    if f.has("command") && f.has("script") {
        let message = "a template has either command or script";
        ctx.problem(f.key_pos("script"), "conflict", message);
    }
    let mut body = |key: &str| {
        let w = f.scalar(ctx, key)?;
        if w.text.trim().is_empty() {
            ctx.problem(w.pos, "no-value", format!("{key} is empty"));
        }
        Some(w.text)
    };
    match (body("command"), body("script")) {
        (Some(command), _) => TemplateCommand::Command(command.trim_end().to_owned()),
        (None, Some(script)) => TemplateCommand::Script(script),
        (None, None) => TemplateCommand::Own,
    }
}

fn include(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> Vec<String> {
    let Some(w) = f.read_words(ctx, "include") else {
        return Vec::new();
    };
    let names: Vec<String> = w.text.split_whitespace().map(str::to_owned).collect();
    let bad = names
        .iter()
        .find(|name| name.contains('/') || !name.ends_with(".sh") || name.starts_with('.'));
    if let Some(name) = bad {
        let pos = w.pos_of(name, ctx);
        let hint = "name a file of the same directory that ends in .sh";
        ctx.problem_hint(pos, "name", format!("include: {name:?} is refused"), hint);
    }
    if names.len() > MAX_INCLUDES {
        ctx.problem(
            w.pos,
            "range",
            format!("include: more than {MAX_INCLUDES} files"),
        );
    }
    names
}
