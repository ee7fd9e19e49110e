//! `cjobs` (`bjobs`): lists jobs from the published view.
//!
//! Owns the options and messages of the command. `show` owns the fields and their form; `list`
//! collects and orders the rows.

mod list;
mod why;

use super::cli::{self, Values, command, flag, operands, opt};
use super::exit::{Exit, Fail};
use super::job_requests::job_group;
use super::known_names;
use super::read::{self, Source};
use crate::language::tell;
use crate::model::JobStat;
use crate::record::view::Params;
use crate::show::Table;
use crate::show::job::{FIELDS, JobGet};
use crate::show::job_select::{Selection, Stats};
use crate::show::job_table;
use clap::{ArgMatches, Command};
use std::ffi::OsString;

/// The form of the output.
pub(super) enum Style {
    /// Short table; further hosts on lines of their own.
    Short,
    /// Any other table.
    Table,
    /// Table with reasons below each row.
    Reasons,
    Long {
        unfolded: bool,
        tasks: bool,
    },
    Arrays {
        wide: bool,
    },
    /// LSF's JSON.
    Records,
    /// JSON Lines.
    Lines,
    ArrayLines,
}

/// A parsed command line.
pub(super) struct ListRequest {
    pub style: Style,
    pub table: Table<JobGet>,
    pub header: bool,
    pub selection: Selection,
    /// The message if there is nothing to show.
    pub empty_message: &'static str,
}

/// LSF options that are not implemented yet: refused by name rather than read as letters.
const NOT_BUILT: &[&str] = &[
    "WLC", "sla", "S", "M", "X", "x", "N", "G", "Lp", "fwd", "aps", "ss", "rusage", "cname", "sum",
    "hms", "prio", "plan", "gpu", "aff",
];

/// The options of `cjobs`.
pub(super) fn options() -> Command {
    let cmd = command(
        "cjobs",
        "List jobs: your unfinished ones, or those the options select",
    )
    .arg(flag(
        "a",
        "All states: finished jobs too, as long as they are kept",
    ))
    .arg(flag("d", "Finished jobs (DONE, EXIT)"))
    .arg(flag("p", "Pending jobs, each with its pending reason"))
    .arg(flag("r", "Running jobs"))
    .arg(flag("s", "Suspended jobs, each with its reason"))
    .arg(flag("A", "One line for each job array"))
    .arg(flag("w", "Wide: no value is cut"))
    .arg(flag(
        "W",
        "Wider: project, CPU time, memory, process IDs, start and end as well",
    ))
    .arg(flag("WL", "Also the remaining run time"))
    .arg(flag("WP", "Also the used part of the run limit"))
    .arg(flag("WF", "Also the end, or the end by the run limit"))
    .arg(flag("l", "Long: everything known about each job"))
    .arg(flag("UF", "Long, each item on one line"))
    .arg(flag(
        "t",
        "Long, with each task: host, state, process ID, CPU time, memory",
    ))
    .arg(flag(
        "why",
        "Why each job waits or failed, and a change that helps, tried on a copy",
    ))
    .arg(opt(
        "o",
        "FORMAT",
        "Columns: \"field[:[-]width] ... [delimiter='c']\"",
    ))
    .arg(flag("noheader", "No header line"))
    .arg(opt("J", "NAME", "Jobs of this name; * matches any text"))
    .arg(opt(
        "m",
        "HOST",
        "Jobs that run or ran on these hosts or host groups",
    ))
    .arg(opt("q", "QUEUE", "Jobs in this queue"))
    .arg(opt(
        "u",
        "USER",
        "Jobs of this user or user group; all = every user",
    ))
    .arg(opt("P", "PROJECT", "Jobs of this project"))
    .arg(opt(
        "g",
        "/GROUP",
        "Jobs of this job group and its subgroups",
    ))
    .arg(super::past_view::option())
    .arg(opt(
        "app",
        "APPLICATION",
        "Jobs of this application; * matches any text",
    ))
    .arg(operands(
        "ids",
        "JOBID",
        "Jobs (123), array elements (123[4], \"123[1-5,8]\")",
    ));
    let hidden = |id: &'static str| flag(id, "not implemented").hide(true);
    let cmd = read::json_options(NOT_BUILT.iter().fold(cmd, |cmd, id| cmd.arg(hidden(id))));
    cmd.mut_arg("jsonl", |lines| lines.short('j'))
}

/// Runs `cjobs`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let matches = match cli::parse(options(), &read::split_json(args)) {
        Ok(matches) => matches,
        Err(code) => return code,
    };
    read::end("cjobs", show(&matches))
}

fn show(m: &ArgMatches) -> Result<Exit, Fail> {
    let source = Source::open_at("cjobs", m)?;
    if m.has("why") {
        read::refuse_unbuilt(m, NOT_BUILT, "cjobs")?;
        if source.past_view.is_some() {
            return Err(Fail::usage(
                "--why explains the current state: it cannot be given with --at",
            ));
        }
        return why::run(m, &source);
    }
    let mut request = parse_line(m, &source)?;
    request.table.color = read::colors();
    let whole = m.has("w") || m.has("W") || m.last("o").is_some();
    request.table.most = read::columns().filter(|_| !whole);
    let ctx = match request.style {
        Style::Long { .. } | Style::Lines => source.ctx_with_estimates(),
        _ if m.last("o").is_some_and(wants_estimates) => source.ctx_with_estimates(),
        _ => source.ctx(),
    };
    let outcome = list::run_at(&source, &request, ctx, &read::put)?;
    for line in &outcome.err {
        tell!("{line}");
    }
    Ok(outcome.exit)
}

/// Returns what the command prints, and its exit code. Ids that are not found only show in the exit
/// code.
///
/// # Errors
/// The errors of the command.
pub(super) fn text(m: &ArgMatches, source: &Source) -> Result<(String, Exit), Fail> {
    let request = parse_line(m, source)?;
    let text = std::sync::Mutex::new(String::new());
    let put = |part: &str| {
        let mut text = text
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        text.push_str(part);
        Ok(())
    };
    let outcome = list::run_at(source, &request, source.ctx_with_estimates(), &put)?;
    let text = text.into_inner();
    Ok((
        text.unwrap_or_else(std::sync::PoisonError::into_inner),
        outcome.exit,
    ))
}

/// Whether a format of `-o` may name the estimated start, which needs another file.
fn wants_estimates(format: &str) -> bool {
    let format = format.to_ascii_lowercase();
    ["estimated_start", "estart"]
        .iter()
        .any(|name| format.contains(name))
}

fn parse_line(m: &ArgMatches, source: &Source) -> Result<ListRequest, Fail> {
    read::refuse_unbuilt(m, NOT_BUILT, "cjobs")?;
    let style = style(m)?;
    let table = table(m, &style)?;
    let params = source.params()?;
    let selection = selection(m, source, &params)?;
    source.banner(&params);
    Ok(ListRequest {
        style,
        table,
        header: !m.has("noheader"),
        selection,
        empty_message: no_jobs_text(m),
    })
}

fn style(m: &ArgMatches) -> Result<Style, Fail> {
    let both = |a: &str, b: &str| m.has(a) && m.has(b);
    if both("json", "jsonl") {
        return Err(Fail::usage("-json and --json exclude each other"));
    }
    if m.has("jsonl") && m.last("o").is_some() {
        return Err(Fail::usage(
            "--json gives every field; use -json together with -o",
        ));
    }
    Ok(match () {
        () if both("jsonl", "A") => Style::ArrayLines,
        () if m.has("jsonl") => Style::Lines,
        () if m.has("json") => Style::Records,
        () if m.has("A") => Style::Arrays { wide: m.has("w") },
        () if m.has("UF") || m.has("l") || m.has("t") => Style::Long {
            unfolded: m.has("UF"),
            tasks: m.has("t"),
        },
        () if m.last("o").is_some() || m.has("W") => Style::Table,
        () if m.has("p") || m.has("s") => Style::Reasons,
        () if m.has("w") => Style::Table,
        () => Style::Short,
    })
}

fn table(m: &ArgMatches, style: &Style) -> Result<Table<JobGet>, Fail> {
    let custom = |text: &str| {
        let table = Table::from_format(FIELDS, text).map_err(|e| Fail::usage(e.to_string()))?;
        Ok(table.painted("stat", job_table::stat_color))
    };
    let progress = job_table::PROGRESS.iter().filter(|option| m.has(option));
    let is_plain = m.last("o").is_none() && matches!(style, Style::Table | Style::Short);
    if let (false, Some(option)) = (is_plain, progress.clone().next()) {
        return Err(Fail::usage(format!(
            "-{option} adds a column to the table of jobs: without -o, -l, -p, -s, -A and JSON"
        )));
    }
    if let Some(text) = m.last("o") {
        return custom(text);
    }
    let mut table = match style {
        Style::Records => custom(job_table::JSON_DEFAULT)?,
        Style::Reasons => job_table::reasons(m.has("w")),
        Style::Table if m.has("W") => job_table::extra(),
        Style::Table => job_table::wide(),
        _ => job_table::short(),
    };
    progress.for_each(|option| job_table::add_progress(&mut table, option));
    Ok(table)
}

fn selection(m: &ArgMatches, source: &Source, params: &Params) -> Result<Selection, Fail> {
    let ids = read::job_ids(m)?;
    let users = read::selected_users(m, source, params, &ids)?;
    if let Some(word) = m.last("u") {
        known_names::check_user(word, source, params)?;
    }
    let words = read::value_words(m, "m");
    let hosts = if words.is_empty() {
        None
    } else {
        Some(source.host_names(&words, params)?)
    };
    Ok(Selection {
        stats: stats(m, !ids.is_empty()),
        ids,
        name: m.last("J").map(str::to_owned),
        queue: m.last("q").map(str::to_owned),
        hosts,
        project: m.last("P").map(str::to_owned),
        group: job_group(m)?,
        app: m.last("app").map(str::to_owned),
        users,
    })
}

fn stats(m: &ArgMatches, by_id: bool) -> Stats {
    use JobStat::{Done, Exit as Ended, Pend, Psusp, Run, Ssusp, Ususp};
    let mut stats = Stats::NONE;
    for (id, part) in [
        ("a", Stats::all()),
        ("d", Stats::of(&[Done, Ended])),
        ("p", Stats::of(&[Pend])),
        ("r", Stats::of(&[Run])),
        ("s", Stats::of(&[Psusp, Ususp, Ssusp])),
    ] {
        if m.has(id) {
            stats = stats.union(part);
        }
    }
    match (stats == Stats::NONE, by_id) {
        (false, _) => stats,
        (true, true) => Stats::all(),
        (true, false) => Stats::live(),
    }
}

fn no_jobs_text(m: &ArgMatches) -> &'static str {
    let given: Vec<&str> = ["a", "d", "p", "r", "s"]
        .into_iter()
        .filter(|id| m.has(id))
        .collect();
    match given[..] {
        ["p"] => "No pending job found",
        ["r"] => "No running job found",
        ["s"] => "No suspended job found",
        ["d"] => "No finished job found",
        [] => "No unfinished job found",
        _ => "No job found",
    }
}

#[cfg(test)]
mod tests;
