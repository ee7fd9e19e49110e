//! Options that csub and cmod accept from scripts of other systems although they have no effect.
//!
//! Owns the list of LSF options without which a job computes the same, the one warning that names
//! them, and the warning about directives of other batch systems. An option that changes what a job
//! does or gets is never on this list: it is refused by name (`options::UNBUILT`).

use super::options::JobOptions;
use crate::client::env::Site;
use crate::client::exit::lsf_name;
use crate::language::tell;
use crate::spool::view::ViewReader;
use crate::text::command::{Directive, ForeignDirective, PBS, SBATCH, UnreadLine};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

/// Accepted options: name, whether it takes a value, why it has no effect.
pub(super) const HARMLESS: &[(&str, bool, &str)] = &[
    ("A", true, LABEL),
    ("a", true, "no esub programs are run"),
    ("alloc_flags", true, CSM),
    ("core_isolation", true, CSM),
    ("csm", true, CSM),
    ("jsm", true, CSM),
    ("Lp", true, LABEL),
    ("U", true, "there are no advance reservations"),
    ("Zs", false, "a script is always copied"),
];

/// Options that have an effect if cb.yaml has section `mail` or a receiver of job notices.
pub(super) const MAIL_OPTIONS: [&str; 5] = ["B", "N", "Ne", "notify", "u"];
const MAIL: &str = "no mail is sent, this cluster has no mail server in cb.yaml";
const CSM: &str = "there is no Cluster System Manager";
const LABEL: &str = "-P names the project";

/// Maximum number of directives that a warning shows.
const SHOWN: usize = 3;
/// Maximum number of further lines whose numbers a warning shows.
const NUMBERS_SHOWN: usize = 20;
/// Maximum length of the part of a directive that a warning shows, in characters.
const SHOWN_LENGTH: usize = 40;

fn no_effect_reason(id: &str) -> Option<&'static str> {
    // A pack calls this for each option of each line.
    static REASONS: LazyLock<HashMap<&str, &str>> =
        LazyLock::new(|| HARMLESS.iter().map(|(id, _, why)| (*id, *why)).collect());
    REASONS.get(id).copied()
}

/// Whether the option is accepted without effect.
pub(crate) fn has_no_effect(id: &str) -> bool {
    no_effect_reason(id).is_some()
}

/// Collects the options without effect of one request.
#[derive(Default)]
pub(crate) struct NoEffect {
    ids: Vec<String>,
}

impl NoEffect {
    pub(crate) fn of(options: &JobOptions) -> NoEffect {
        let mut found = NoEffect::default();
        found.note(options);
        found
    }

    /// Adds the options of another line; each option is named once.
    pub(crate) fn note(&mut self, options: &JobOptions) {
        for (id, _) in options.iter() {
            if (has_no_effect(id) || MAIL_OPTIONS.contains(&id))
                && !self.ids.iter().any(|old| old == id)
            {
                self.ids.push(id.to_owned());
            }
        }
    }

    /// The warning, without the command's name; `None` if there is nothing to warn about.
    pub(crate) fn warning(&self) -> Option<String> {
        self.warning_where(&sends_job_notices)
    }

    /// `sends_job_notices`: whether the cluster sends the notices of jobs; called if an option
    /// needs it.
    fn warning_where(&self, sends_job_notices: &dyn Fn() -> bool) -> Option<String> {
        let of_mail = |id: &String| MAIL_OPTIONS.contains(&id.as_str());
        let counts = self.ids.iter().any(of_mail) && sends_job_notices();
        let ids: Vec<&String> = match counts {
            true => self.ids.iter().filter(|id| !of_mail(id)).collect(),
            false => self.ids.iter().collect(),
        };
        let mut reasons: Vec<&str> = Vec::new();
        for id in &ids {
            let why = if of_mail(id) {
                Some(MAIL)
            } else {
                no_effect_reason(id)
            };
            reasons.extend(why.filter(|why| !reasons.contains(why)));
        }
        let names: Vec<String> = ids.iter().map(|id| format!("-{id}")).collect();
        let (last, first) = names.split_last()?;
        let (list, verb) = match first {
            [] => (last.clone(), "has"),
            _ => (format!("{} and {last}", first.join(", ")), "have"),
        };
        let reasons = reasons.join("; ");
        Some(format!("warning: {list} {verb} no effect here: {reasons}"))
    }

    /// Prints the warning to standard error.
    pub(crate) fn warn(&self, command: &str) {
        if let Some(text) = self.warning() {
            tell!("{}: {text}", lsf_name().unwrap_or(command));
        }
    }
}

/// Whether this cluster sends the notices that jobs request, as published by its leader. If nothing
/// is published, the submission fails anyway.
fn sends_job_notices() -> bool {
    let params = Site::find()
        .ok()
        .map(|site| ViewReader::new(&site.layout()).params());
    params.is_some_and(|params| params.is_ok_and(|params| params.tells_jobs))
}

/// Lines of a script with their numbers: the first ones with their text.
fn listed(lines: &[(usize, &str)]) -> String {
    let mut text = String::new();
    for (n, (line, whole)) in lines.iter().take(SHOWN).enumerate() {
        let shown: String = whole.chars().take(SHOWN_LENGTH).collect();
        let more = if shown.len() < whole.len() { "..." } else { "" };
        let comma = if n == 0 { "" } else { ", " };
        let shown = crate::text::width::escape(&shown);
        let _ = write!(text, "{comma}'{shown}{more}' (line {line})");
    }
    let rest = lines.get(SHOWN..).unwrap_or_default();
    if !rest.is_empty() {
        let shown = rest
            .iter()
            .take(NUMBERS_SHOWN)
            .map(|(line, _)| line.to_string());
        let shown: Vec<String> = shown.collect();
        let dots = if rest.len() > NUMBERS_SHOWN {
            ", ..."
        } else {
            ""
        };
        let plural = if rest.len() == 1 { "" } else { "s" };
        let (n, numbers) = (rest.len(), shown.join(", "));
        let _ = write!(text, " and {n} more (line{plural} {numbers}{dots})");
    }
    text
}

/// The warning about lines of a script that only other batch systems read.
pub(super) fn ignored_lines(place: &str, lines: &[ForeignDirective]) -> Option<String> {
    let first = lines.first()?;
    let verb = if lines.len() == 1 { "has" } else { "have" };
    let all: Vec<(usize, &str)> = lines.iter().map(|l| (l.line, l.text.as_str())).collect();
    let text = listed(&all);
    let hint = match first.prefix {
        prefix @ (SBATCH | PBS) => format!(
            "{prefix} lines count before the first command, where the script has no other options"
        ),
        prefix => format!("write the options as #BSUB or #CSUB lines instead of {prefix}"),
    };
    Some(format!(
        "warning: {place}: {text} {verb} no effect here\nhint: {hint}"
    ))
}

/// The warning about lines for `csub` in a script of `sbatch`.
pub(super) fn lines_of_csub(place: &str, lines: &[Directive]) -> Option<String> {
    let lines: Vec<(usize, &str)> = lines.iter().map(|l| (l.line, l.text.as_str())).collect();
    lines.first()?;
    let verb = if lines.len() == 1 { "has" } else { "have" };
    let text = listed(&lines);
    Some(format!(
        "warning: {place}: {text} {verb} no effect here\nhint: sbatch reads #SBATCH lines; csub \
         reads the others"
    ))
}

/// The warning about lines that only look like lines with options.
pub(super) fn unread_lines(place: &str, lines: &[UnreadLine]) -> Option<String> {
    let all: Vec<(usize, &str)> = lines.iter().map(|l| (l.line, l.text.as_str())).collect();
    let what = match all.len() {
        0 => return None,
        1 => "is a comment: its options are not read",
        _ => "are comments: their options are not read",
    };
    let text = listed(&all);
    Some(format!(
        "warning: {place}: {text} {what}\nhint: a line with options begins with #BSUB, #CSUB, \
         #SBATCH or #PBS in the first column, then a blank; ## begins a comment without this \
         warning"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::options;
    use super::*;
    use crate::client::cli::Table;
    use crate::text::command::Script;

    fn warning(words: &[&str]) -> Option<String> {
        let table = Table::new(options::csub());
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        let options = JobOptions::from_split(&table, &table.split(&words).unwrap());
        options.check_implemented().unwrap();
        NoEffect::of(&options).warning_where(&|| false)
    }

    #[test]
    fn harmless_options_get_one_warning_that_names_them() {
        assert_eq!(warning(&["-n", "2", "-L", "/bin/sh", "x"]), None);
        assert_eq!(
            warning(&["-B", "-N", "-u", "me@x", "-alloc_flags", "smt4", "-B", "x"]).unwrap(),
            "warning: -N, -u, -alloc_flags and -B have no effect here: no mail is sent, this \
             cluster has no mail server in cb.yaml; \
             there is no Cluster System Manager"
        );
        let table = Table::new(options::csub());
        let words = ["-B", "-N", "x"].map(str::to_owned);
        let options = JobOptions::from_split(&table, &table.split(&words).unwrap());
        assert_eq!(NoEffect::of(&options).warning_where(&|| true), None);
        assert_eq!(
            warning(&["-a", "poe", "x"]).unwrap(),
            "warning: -a has no effect here: no esub programs are run"
        );
        assert_eq!(
            warning(&["-U", "r1", "x"]).unwrap(),
            "warning: -U has no effect here: there are no advance reservations"
        );
    }

    #[test]
    fn directives_of_other_systems_are_named() {
        let text = "#!/bin/sh\n#SBATCH -n 4\n#PBS -l nodes=1\n#SBATCH -t 5\n#SBATCH -p q\nrun\n";
        let script = Script::parse(text).unwrap();
        assert_eq!(
            ignored_lines("s.sh", &script.foreign_directives).unwrap(),
            "warning: s.sh: '#SBATCH -n 4' (line 2), '#PBS -l nodes=1' (line 3), \
             '#SBATCH -t 5' (line 4) and 1 more (line 5) have no effect here\n\
             hint: #SBATCH lines count before the first command, where the script has no other options"
        );
        let none = Script::parse("run").unwrap();
        assert_eq!(ignored_lines("s.sh", &none.foreign_directives), None);
        assert_eq!(unread_lines("s.sh", &none.unread), None);
        assert_eq!(lines_of_csub("s.sh", &none.directives), None);
        let text = "# BSUB -n 4\n#bsub -q q\n #CSUB -M 1\n# PBS -l x\n#SBATCHx\n#BSUB -n 2\n";
        let script = Script::parse(text).unwrap();
        let warning = unread_lines("s.sh", &script.unread).unwrap();
        assert!(
            warning.starts_with(
                "warning: s.sh: '# BSUB -n 4' (line 1), '#bsub -q q' (line 2), '#CSUB -M 1' \
                 (line 3) and 2 more (lines 4, 5) are comments: their options are not read\n"
            ),
            "{warning}"
        );
        let warning = unread_lines("s.sh", &script.unread[..1]).unwrap();
        assert!(warning.contains("(line 1) is a comment"), "{warning}");
        let warning = lines_of_csub("s.sh", &script.directives).unwrap();
        assert!(
            warning.contains("'#BSUB -n 2' (line 6) has no effect"),
            "{warning}"
        );
    }
}
