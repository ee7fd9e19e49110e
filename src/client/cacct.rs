//! `cacct` (`bacct`): totals and records of ended attempts, from the accounting files.
//!
//! Owns the options and the selection. Reads `acct/` and no journal, one record at a time; the view
//! is only used to decide who may see what. Never writes.

mod advice;
mod cost;
mod page;
pub(crate) mod print;
pub(crate) mod records;
mod totals;

use super::cli::{self, Values, command, flag, operands, opt};
use super::exit::{Exit, Fail};
use super::read::{self, Source};
use crate::language::tell;
use crate::record::acct::{AttemptRecord, month_of};
use crate::record::view::Params;
use crate::show::Table;
use crate::show::acct::{self, AcctGet, AcctRow};
use crate::show::history::range::{self, Range};
use crate::show::job::Ctx;
use crate::show::job_select::Users;
use crate::sys;
use crate::text::jobids::JobSel;
use advice::Advice;
use clap::{ArgMatches, Command};
use cost::{DiscountMemo, Rates};
use records::Records;
use std::collections::HashSet;
use std::ffi::OsString;
use totals::{ByName, Grouping, Totals};

const NOT_BUILT: &[&str] = &["N", "cname", "sla", "x", "f"];
/// Maximum number of damaged places that are listed.
const WARNINGS_MAX: usize = 5;
/// Size of the text that is collected before it is written.
const OUT_BYTES: usize = 64 << 10;
/// How much earlier than the submission an end may be, due to the clocks of two hosts (ms).
const CLOCKS_MS: i64 = 86_400_000;

/// The options of `cacct`.
pub(super) fn options() -> Command {
    let about = "Show the resource usage of ended jobs: totals, or one record for each attempt";
    let cmd = command("cacct", about)
        .arg(flag("d", "Jobs that ended with DONE"))
        .arg(flag("e", "Jobs that ended with EXIT"))
        .arg(flag("b", "Brief: one line for each attempt"))
        .arg(flag("w", "Wide: one line for each attempt, nothing cut"))
        .arg(flag("l", "Long: a page for each attempt"))
        .arg(flag("csv", "Each attempt as a line of CSV, with a header"))
        .arg(opt(
            "o",
            "FORMAT",
            "Each attempt: \"field[:[-]width] ... [delimiter='c']\", fields as of cjobs",
        ))
        .arg(flag("noheader", "No header line"))
        .arg(opt(
            "by",
            "WHAT",
            "Totals by user, group, project, app, queue or host",
        ))
        .arg(flag(
            "advice",
            "Requests and usage of similar jobs, and recommended requests",
        ))
        .arg(opt(
            "C",
            "RANGE",
            "Attempts that ended in this range of time",
        ))
        .arg(opt("D", "RANGE", "Attempts dispatched in this range"))
        .arg(opt("S", "RANGE", "Jobs submitted in this range"))
        .arg(opt("G", "GROUP", "Jobs submitted with this user group"))
        .arg(opt("m", "HOST", "Attempts on these hosts or host groups"))
        .arg(opt("q", "QUEUE", "Jobs in these queues"))
        .arg(opt("P", "PROJECT", "Jobs of these projects"))
        .arg(opt("app", "APPLICATIONS", "Jobs of these applications"))
        .arg(opt(
            "u",
            "USER",
            "Jobs of this user or user group; all = every user",
        ))
        .arg(operands(
            "ids",
            "JOBID",
            "Jobs (123), array elements (123[4], \"123[1-5,8]\")",
        ));
    let cmd = NOT_BUILT.iter().fold(cmd, |cmd, id| match *id {
        id @ ("N" | "cname" | "sla" | "x") => cmd.arg(flag(id, "not implemented").hide(true)),
        id => cmd.arg(opt(id, "VALUE", "not implemented").hide(true)),
    });
    read::json_options(cmd)
}

/// Runs `cacct`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let m = match cli::parse(options(), &read::split_json(args)) {
        Ok(m) => m,
        Err(code) => return code,
    };
    let answer = Source::open("cacct").and_then(|source| {
        let notices = show(&m, &source, &source.ctx(), &mut |text| read::put(text))?;
        for text in notices.warnings {
            tell!("cacct: warning: {text}");
        }
        for sel in &notices.missing {
            tell!("Job <{sel}> is not found");
        }
        Ok(match notices.missing.is_empty() {
            true => Exit::Ok,
            false => Exit::NotFound,
        })
    });
    read::end("cacct", answer)
}

/// Which attempts are selected.
struct AttemptFilter {
    ids: Vec<JobSel>,
    users: Users,
    /// DONE and EXIT, if one of them was requested.
    stats: Option<(bool, bool)>,
    queues: Vec<String>,
    projects: Vec<String>,
    apps: Vec<String>,
    groups: Vec<String>,
    hosts: Option<HashSet<String>>,
    ended: Option<Range>,
    dispatched: Option<Range>,
    submitted: Option<Range>,
}

fn attempt_filter(
    m: &ArgMatches,
    source: &Source,
    ctx: &Ctx,
    params: &Params,
) -> Result<AttemptFilter, Fail> {
    let ids = read::job_ids(m)?;
    let users = read::selected_users(m, source, params, &ids)?;
    let range = |id: &str| match m.last(id) {
        None => Ok(None),
        Some(text) => Range::parse(text, ctx.now.0, ctx.dates.zone())
            .map(Some)
            .map_err(|e| Fail::usage(format!("-{id}: {e}\nhint: {}", range::HINT))),
    };
    let stats = (m.has("d"), m.has("e"));
    Ok(AttemptFilter {
        ids,
        users,
        stats: (stats != (false, false)).then_some(stats),
        queues: read::value_words(m, "q"),
        projects: read::value_words(m, "P"),
        apps: read::value_words(m, "app"),
        groups: read::value_words(m, "G"),
        hosts: hosts(m, params),
        ended: range("C")?,
        dispatched: range("D")?,
        submitted: range("S")?,
    })
}

/// The hosts of `-m`. A name that is not a host group is taken for a host, which may no longer
/// exist.
fn hosts(m: &ArgMatches, params: &Params) -> Option<HashSet<String>> {
    let words = read::value_words(m, "m");
    if words.is_empty() {
        return None;
    }
    let mut names = HashSet::new();
    for word in words {
        let word = word.trim_end_matches('/').to_owned();
        match params.host_groups.iter().find(|(name, _)| *name == word) {
            Some((_, list)) => names.extend(list.iter().cloned()),
            None => drop(names.insert(word)),
        }
    }
    Some(names)
}

impl AttemptFilter {
    /// Whether the file of a month can contain selected records.
    fn in_month(&self, month: &str) -> bool {
        let after = |t: i64| t == i64::MIN || month >= month_of(t).as_str();
        let before = |t: i64| month <= month_of(t.saturating_sub(1)).as_str();
        let begun = [self.submitted, self.dispatched];
        let mut begun = begun.iter().flatten();
        self.ended.is_none_or(|r| after(r.from) && before(r.to))
            && begun.all(|r| after(r.from.saturating_sub(CLOCKS_MS).max(i64::MIN + 1)))
    }

    fn has(&self, r: &AttemptRecord<'_>) -> bool {
        let one_of = |names: &[String], name: &str| {
            names.is_empty() || names.iter().any(|wanted| wanted == name)
        };
        let within = |range: Option<Range>, t: i64| range.is_none_or(|range| range.has(t));
        let id = self.ids.is_empty() || self.ids.iter().any(|s| s.matches(r.j.id, r.j.idx));
        let stat = self
            .stats
            .is_none_or(|(done, exited)| !r.requeued && if r.is_done() { done } else { exited });
        let on = |set: &HashSet<String>| r.hosts.iter().any(|host| set.contains(&*host.0));
        id && stat
            && self.users.has(r.uid, &r.user, &r.queue)
            && one_of(&self.queues, &r.queue)
            && one_of(&self.projects, &r.project)
            && one_of(&self.apps, &r.app)
            && one_of(&self.groups, &r.group)
            && self.hosts.as_ref().is_none_or(on)
            && within(self.ended, r.end)
            && within(self.submitted, r.submit)
            && self
                .dispatched
                .is_none_or(|range| r.dispatch > 0 && range.has(r.dispatch))
    }
}

/// The form of the output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Summary,
    By(Grouping),
    Brief,
    Wide,
    Long,
    Csv,
    Lines,
    Json,
    /// The columns of `-o`; `json`: in the form of LSF's JSON.
    Columns {
        json: bool,
    },
    /// `lines`: in the form of JSON Lines.
    Advice {
        lines: bool,
    },
}

fn form(m: &ArgMatches) -> Result<Form, Fail> {
    let by = m.last("by").map(|word| {
        Grouping::parse(word).ok_or_else(|| {
            let known: Vec<&str> = Grouping::ALL.iter().map(|(name, _)| *name).collect();
            Fail::usage(format!("--by: '{word}' is not one of {}", known.join(", ")))
        })
    });
    let mut forms: Vec<Form> = by.transpose()?.map(Form::By).into_iter().collect();
    let lines = m.has("jsonl");
    if m.has("advice") {
        let others = ["b", "w", "l", "csv", "json"];
        if !forms.is_empty() || others.iter().any(|id| m.has(id)) {
            return Err(Fail::usage("beside --advice only --json can be given"));
        }
        return Ok(Form::Advice { lines });
    }
    if m.last("o").is_some() {
        let others = ["b", "w", "l", "csv", "jsonl"];
        if !forms.is_empty() || others.iter().any(|id| m.has(id)) {
            return Err(Fail::usage(
                "beside -o only -json and -noheader can be given",
            ));
        }
        return Ok(Form::Columns {
            json: m.has("json"),
        });
    }
    for (id, form) in [
        ("b", Form::Brief),
        ("w", Form::Wide),
        ("l", Form::Long),
        ("csv", Form::Csv),
        ("jsonl", Form::Lines),
        ("json", Form::Json),
    ] {
        if m.has(id) {
            forms.push(form);
        }
    }
    match forms.as_slice() {
        [] => Ok(Form::Summary),
        [one] => Ok(*one),
        // As in LSF, -l takes precedence over the other two.
        several
            if several
                .iter()
                .all(|f| matches!(f, Form::Brief | Form::Wide | Form::Long)) =>
        {
            Ok(several[several.len() - 1])
        }
        _ => Err(Fail::usage(
            "give one of --by, -b, -l, -w, --csv, --json, -json",
        )),
    }
}

/// Collects text and writes it in pieces.
struct OutputBuffer<'o> {
    text: String,
    sink: &'o mut dyn FnMut(&str) -> Result<(), Fail>,
    /// Why a piece could not be written.
    failed: Option<Fail>,
}

impl OutputBuffer<'_> {
    fn flush(&mut self, least: usize) {
        if self.text.len() >= least && !self.text.is_empty() && self.failed.is_none() {
            self.failed = (self.sink)(&self.text).err();
            self.text.clear();
        }
    }
}

/// Warnings and notices beside the records.
#[derive(Default)]
pub(super) struct Notices {
    warnings: Vec<String>,
    /// Requested jobs that have no record.
    missing: Vec<JobSel>,
}

/// Descriptions of damage; only the first few are listed.
#[derive(Default)]
struct Warnings {
    named: Vec<String>,
    more: u64,
}

impl Warnings {
    fn add_warning(&mut self, text: String) {
        match self.named.len() < WARNINGS_MAX {
            true => self.named.push(text),
            false => self.more += 1,
        }
    }

    fn all(mut self) -> Vec<String> {
        if self.more > 0 {
            self.named.push(format!("and {} more", self.more));
        }
        self.named
    }
}

/// Totals of the selected records.
struct RecordTotals {
    records: u64,
    /// Requested jobs of which no record has been seen.
    missing: Vec<JobSel>,
    total: Totals,
    groups: ByName,
    advice: Advice,
    discount_memo: DiscountMemo,
}

impl RecordTotals {
    fn new(wanted: &AttemptFilter) -> RecordTotals {
        RecordTotals {
            records: 0,
            missing: wanted.ids.clone(),
            total: Totals::default(),
            groups: ByName::new(),
            advice: Advice::default(),
            discount_memo: DiscountMemo::default(),
        }
    }

    fn note(&mut self, record: &AttemptRecord<'_>) {
        self.records += 1;
        self.missing
            .retain(|s| !s.matches(record.j.id, record.j.idx));
    }

    fn add(&mut self, form: Form, record: &AttemptRecord<'_>, rates: Option<&Rates<'_>>) {
        self.note(record);
        if matches!(form, Form::Advice { .. }) {
            self.advice.add(record);
            return;
        }
        let bill = rates.map(|rates| rates.bill(&mut self.discount_memo, record));
        let bill = bill.unwrap_or_default();
        match form {
            Form::By(by) => totals::count_by(&mut self.groups, by, record, &bill),
            _ => {
                self.total.add(record, &bill);
                totals::count_by(&mut self.groups, Grouping::Queue, record, &bill);
            }
        }
    }

    fn merge(&mut self, part: &RecordTotals) {
        self.records += part.records;
        self.missing.retain(|s| part.missing.contains(s));
        self.total.merge(&part.total);
        totals::merge(&mut self.groups, &part.groups);
        self.advice.merge(&part.advice);
    }
}

/// Prints the requested output through `sink`. Names that select nothing must exist.
pub(super) fn show(
    m: &ArgMatches,
    source: &Source,
    ctx: &Ctx,
    sink: &mut dyn FnMut(&str) -> Result<(), Fail>,
) -> Result<Notices, Fail> {
    read::refuse_unbuilt(m, NOT_BUILT, "cacct")?;
    // The files can be read without a view; then every user sees only their own jobs.
    let params = source.view.params().unwrap_or_default();
    let rates = Rates::of(&params, &read::os_groups);
    let rates = rates.map_err(|e| Fail::system(format!("section charge of cb.yaml: {e}")))?;
    let (form, wanted) = (form(m)?, attempt_filter(m, source, ctx, &params)?);
    let format = |text: &str| Table::from_format(acct::FIELDS, text);
    let table = m.last("o").map(format).transpose();
    let table = table.map_err(|e| Fail::usage(e.to_string()))?;
    let cluster = source.cluster()?.cluster;
    let records = Records::open(&source.layout, &cluster, |month| wanted.in_month(month))?;
    let (text, failed) = (String::new(), None);
    let mut out = OutputBuffer { text, sink, failed };
    begin(form, &mut out.text);
    if let (Form::Columns { json: false }, Some(table), false) = (form, &table, m.has("noheader")) {
        table.header(&mut out.text);
    }
    let mut warnings = Warnings::default();
    let mut sums = RecordTotals::new(&wanted);
    match form {
        Form::Summary | Form::By(_) | Form::Advice { .. } => records.sum(
            &|| RecordTotals::new(&wanted),
            &|sums, record| {
                if wanted.has(record) {
                    sums.add(form, record, rates.as_ref());
                }
            },
            &mut |part| sums.merge(&part),
            &mut |text| warnings.add_warning(text),
        )?,
        _ => {
            let printer = Printer {
                form,
                ctx,
                rates: rates.as_ref(),
                table: table.as_ref(),
            };
            printer.each(&records, &wanted, &mut out, &mut sums, &mut warnings)?;
        }
    }
    if sums.records == 0 {
        super::known_names::check(m, source)?;
    }
    match form {
        Form::Summary => {
            let (all, queues) = (&sums.total, &sums.groups);
            print::summary(&mut out.text, all, queues, rates.as_ref());
        }
        Form::By(by) => {
            let priced = rates.is_some();
            print::table(&mut out.text, by.word(), &sums.groups, priced);
            if by == Grouping::Host {
                page::spread(&mut out.text, &sums.groups);
            }
        }
        Form::Advice { lines: true } => sums.advice.json(&mut out.text),
        Form::Advice { lines: false } => sums.advice.print(&mut out.text),
        Form::Json | Form::Columns { json: true } => {
            let n = sums.records;
            out.text.push_str(&format!("\n  ],\n  \"JOBS\":{n}\n}}\n"));
        }
        _ => {}
    }
    out.flush(0);
    let notices = Notices {
        warnings: warnings.all(),
        missing: sums.missing,
    };
    out.failed.map_or(Ok(notices), Err)
}

/// How records are printed one by one.
struct Printer<'p> {
    form: Form,
    ctx: &'p Ctx,
    rates: Option<&'p Rates<'p>>,
    /// The table for the columns of `-o`.
    table: Option<&'p Table<AcctGet>>,
}

impl Printer<'_> {
    fn each(
        &self,
        records: &Records,
        wanted: &AttemptFilter,
        out: &mut OutputBuffer<'_>,
        sums: &mut RecordTotals,
        warnings: &mut Warnings,
    ) -> Result<(), sys::Error> {
        records.for_each(
            &mut |record| {
                if wanted.has(record) && out.failed.is_none() {
                    sums.note(record);
                    let known = &mut sums.discount_memo;
                    let bill = self.rates.map(|rates| rates.bill(known, record).total());
                    self.put(&mut out.text, record, bill, sums.records > 1);
                    out.flush(OUT_BYTES);
                }
                Ok(())
            },
            &mut |text| warnings.add_warning(text),
        )
    }

    /// `more`: this is not the first record.
    fn put(&self, out: &mut String, record: &AttemptRecord<'_>, cost: Option<u128>, more: bool) {
        if let (Form::Columns { json }, Some(table)) = (self.form, self.table) {
            let dates = &self.ctx.dates;
            let row = AcctRow {
                record,
                dates,
                cost,
            };
            return match json {
                true => {
                    out.push_str(if more { ",\n    " } else { "\n    " });
                    table.record(out, |get, out| get(&row, out));
                }
                false => table.row(out, |get, out| get(&row, out)),
            };
        }
        let currency = self.rates.map_or("", Rates::currency);
        let cost = cost.map(|cost| (cost, currency));
        let dates = &self.ctx.dates;
        match self.form {
            Form::Summary | Form::By(_) | Form::Advice { .. } | Form::Columns { .. } => {}
            Form::Brief => print::row(out, record, false, dates),
            Form::Wide => print::row(out, record, true, dates),
            Form::Long => page::long_page(out, record, cost, dates),
            Form::Csv => print::csv(out, record, cost),
            Form::Lines => {
                print::json(out, record, cost);
                if !out.ends_with('\n') {
                    out.push('\n');
                }
            }
            Form::Json => {
                out.push_str(if more { ",\n    " } else { "\n    " });
                print::json(out, record, cost);
                out.truncate(out.trim_end().len());
            }
        }
    }
}

fn begin(form: Form, out: &mut String) {
    match form {
        Form::Brief | Form::Wide => print::head(out),
        Form::Csv => print::csv_head(out),
        Form::Json | Form::Columns { json: true } => {
            out.push_str("{\n  \"COMMAND\":\"cacct\",\n  \"RECORDS\":[")
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
