//! `ccron`: cron jobs: defines them, lists them, starts and ends their runs.
//!
//! Definitions are checked here and again by the leader. A script is read when its cron job is
//! defined, so that exactly the defined script runs later.

mod crontab;
mod definition;

use super::cli::{self, Values, command, flag, operands, opt};
use super::csub;
use super::definition_file::FILE_MAX;
use super::env::Site;
use super::exit::{Exit, Fail, Result};
use super::job_requests::{finish, show, with_wait};
use super::read::table::{self, Listing};
use super::read::{self, Source};
use super::requests;
use crate::language::{tell, translated};
use crate::model::Submission;
use crate::record::ack::{Ack, Outcome};
use crate::record::cron::CronJob;
use crate::record::request::{CronAct, CronPut, RequestHead, Verb};
use crate::show::cron;
use crate::sys;
use crate::text::cron::{Schedule, Zone};
use crate::text::error::did_you_mean;
use clap::{ArgMatches, Command};
use definition::RawDefinition;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

/// Maximum number of times that `ccron next` prints.
const NEXT_MAX: u32 = 1000;
const NEXT_DEFAULT: u32 = 5;

const LIST: Listing<CronJob> = Listing {
    command: "ccron",
    records_key: "CRONJOBS",
    fields: cron::FIELDS,
    json_default: cron::JSON_DEFAULT,
    put_json: cron::put_json,
};

/// A subcommand: its name, its options, and the function that runs it.
struct Subcommand {
    name: &'static str,
    options: fn() -> Command,
    run: fn(&ArgMatches) -> Result<i32>,
}

const SUBCOMMANDS: [Subcommand; 11] = [
    Subcommand {
        name: "create",
        options: create_options,
        run: |m| put(m, true),
    },
    Subcommand {
        name: "edit",
        options: edit_options,
        run: |m| put(m, false),
    },
    Subcommand {
        name: "list",
        options: list_options,
        run: list,
    },
    Subcommand {
        name: "show",
        options: show_options,
        run: show_pages,
    },
    Subcommand {
        name: "enable",
        options: || {
            act_options(
                "ccron enable",
                "Enable cron jobs: they fall due again, from now on",
            )
        },
        run: |m| change_cron(m, CronAct::Enable),
    },
    Subcommand {
        name: "disable",
        options: || {
            act_options(
                "ccron disable",
                "Disable cron jobs: they no longer fall due",
            )
        },
        run: |m| change_cron(m, CronAct::Disable),
    },
    Subcommand {
        name: "start",
        options: || {
            act_options(
                "ccron start",
                "Start a run now; the schedule does not change",
            )
        },
        run: |m| change_cron(m, CronAct::Start),
    },
    Subcommand {
        name: "kill",
        options: || act_options("ccron kill", "End the runs of cron jobs"),
        run: |m| change_cron(m, CronAct::Kill),
    },
    Subcommand {
        name: "remove",
        options: || act_options("ccron remove", "Remove cron jobs; their runs continue"),
        run: |m| change_cron(m, CronAct::Remove),
    },
    Subcommand {
        name: "next",
        options: next_options,
        run: next,
    },
    Subcommand {
        name: "import",
        options: import_options,
        run: import,
    },
];

fn create_options() -> Command {
    with_wait(command(
        "ccron create",
        "Create the cron jobs that are defined in files",
    ))
    .arg(flag("overwrite", "Replace cron jobs of the same names"))
    .arg(operands(
        "files",
        "FILE",
        "YAML or JSON, one or several cron jobs",
    ))
}

fn edit_options() -> Command {
    with_wait(command(
        "ccron edit",
        "Change cron jobs to the definitions in files",
    ))
    .arg(operands(
        "files",
        "FILE",
        "YAML or JSON, one or several cron jobs",
    ))
}

fn list_options() -> Command {
    let cmd = command("ccron list", "List cron jobs: yours, or those of users").arg(opt(
        "u",
        "USER",
        "Cron jobs of this user, or all",
    ));
    table::options(cmd)
}

pub(super) fn show_options() -> Command {
    let cmd = command("ccron show", "Show cron jobs with their runs and history")
        .arg(opt("u", "USER", "Owner of the cron jobs [you]"))
        .arg(operands("names", "NAME", "Names; none: all"));
    read::json_options(cmd)
}

fn act_options(name: &'static str, about: &'static str) -> Command {
    with_wait(command(name, about))
        .arg(opt("u", "USER", "Owner of the cron jobs [you]"))
        .arg(operands("names", "NAME", "Names; all for all of them"))
}

fn next_options() -> Command {
    command(
        "ccron next",
        "Print the next due times of a schedule or cron job",
    )
    .arg(opt("n", "N", "Number of due times [5]"))
    .arg(opt("z", "ZONE", "Time zone of the schedule [this host's]"))
    .arg(opt("u", "USER", "Owner of the cron job [you]"))
    .arg(operands(
        "what",
        "SCHEDULE|NAME",
        "A schedule in quotes, or the name of a cron job",
    ))
}

fn import_options() -> Command {
    with_wait(command(
        "ccron import",
        "Print or create the cron jobs of a crontab",
    ))
    .arg(flag("create", "Create them"))
    .arg(opt("z", "ZONE", "Time zone of the crontab [this host's]"))
    .arg(operands("files", "FILE", "A crontab of one user"))
}

/// The subcommands with their options.
pub(super) fn subcommands() -> impl Iterator<Item = (&'static str, Command)> {
    SUBCOMMANDS.iter().map(|sub| (sub.name, (sub.options)()))
}

/// Runs `ccron`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let word = args.first().and_then(|word| word.to_str());
    match word {
        Some("-h" | "--help" | "help") => {
            print!("{}", translated(&overview()));
            return Exit::Ok.code();
        }
        Some("-V" | "--version") => {
            println!("ccron {}", env!("CARGO_PKG_VERSION"));
            return Exit::Ok.code();
        }
        _ => {}
    }
    let Some(sub) = SUBCOMMANDS.iter().find(|sub| Some(sub.name) == word) else {
        let fail = match word {
            None => "a subcommand is missing".to_owned(),
            Some(word) if word.starts_with('-') => {
                format!("unknown option '{}'", crate::text::width::escape(word))
            }
            Some(word) => {
                let near = did_you_mean(word, SUBCOMMANDS.iter().map(|sub| sub.name));
                format!(
                    "unknown subcommand '{}'{near}",
                    crate::text::width::escape(word)
                )
            }
        };
        return Fail::usage(format!("{fail}\nhint: ccron -h")).report("ccron");
    };
    match cli::parse((sub.options)(), &read::split_json(&args[1..])) {
        Ok(m) => finish("ccron", (sub.run)(&m)),
        Err(code) => code,
    }
}

fn overview() -> String {
    let mut out = String::from(
        "Usage: ccron SUBCOMMAND [OPTIONS] [ARGUMENTS]: jobs that the calendar submits\n\n",
    );
    for sub in &SUBCOMMANDS {
        let about = (sub.options)().get_about().map(ToString::to_string);
        // Writing to a string cannot fail.
        let about = about.unwrap_or_default();
        let _ = writeln!(out, "  {:<8} {}", sub.name, translated(&about));
    }
    out.push_str(
        "\n'ccron SUBCOMMAND -h' lists the options of a subcommand.\n\nExamples:\n  \
         ccron create nightly.yaml  # define what the file says\n  \
         ccron show nightly         # its runs and history\n",
    );
    out
}

/// The time zone of definitions that name none: that of this host, if its name is known.
fn zone_of(m: &ArgMatches) -> Result<String> {
    match m.last("z") {
        Some(name) => match Zone::named(name) {
            Ok(_) => Ok(name.to_owned()),
            Err(e) => Err(Fail::usage(format!("-z: {e}"))),
        },
        None => Ok(own_zone()),
    }
}

fn own_zone() -> String {
    Zone::of_system().unwrap_or_else(|| "UTC".to_owned())
}

fn read_file(name: &str) -> Result<Vec<u8>> {
    sys::fs::read_small(Path::new(name), FILE_MAX as u64).map_err(|e| Fail::usage(e.to_string()))
}

/// `ccron create` and `ccron edit`: reads all files completely before anything is sent.
fn put(m: &ArgMatches, create: bool) -> Result<i32> {
    let wait_s = requests::wait_s(m.last("wait"))?;
    let files = m.all("files");
    if files.is_empty() {
        return Err(Fail::usage("a file is missing"));
    }
    let mut all = Vec::new();
    for file in &files {
        all.extend(definition::read(
            &read_file(file)?,
            file,
            &own_zone(),
            &read_file,
        )?);
    }
    let replace = !create || m.has("overwrite");
    send_all(all, (create, replace), wait_s)
}

fn send_all(all: Vec<RawDefinition>, (create, replace): (bool, bool), wait_s: u64) -> Result<i32> {
    let site = Site::find()?;
    let mut ready = Vec::new();
    for raw in all {
        let (jobs, head) = submissions(&site, &raw)?;
        let RawDefinition { mut def, user, .. } = raw;
        let mut jobs = jobs.into_iter();
        def.job = jobs.next().unwrap_or_default();
        def.more = jobs.collect();
        let put = CronPut {
            def,
            user,
            create,
            replace,
        };
        ready.push((put, head));
    }
    let mut code = Exit::Ok.code();
    for (put, head) in ready {
        let mut request = requests::Outgoing::new(&site, head)?;
        request.push(&Verb::CronPut(Box::new(put)))?;
        let end = match requests::send(&site, "ccron", request, wait_s) {
            Ok(ack) => show("ccron", &ack, phrase),
            // The other requests would wait as long.
            Err(e) => return Ok(e.report("ccron")),
        };
        code = if code == 0 { end } else { code };
    }
    Ok(code)
}

/// The jobs of a definition, and what they have in common: their environment, and for a single job
/// also its script and input.
fn submissions(site: &Site, raw: &RawDefinition) -> Result<(Vec<Submission>, RequestHead)> {
    let (mut jobs, mut common) = (Vec::new(), None::<RequestHead>);
    for what in raw.jobs() {
        let at = |text: &str| format!("{}: {text}", what.location);
        let (job, head) = csub::from_definition(site, what, &raw.user)
            .map_err(|fail| Fail::new(fail.exit, at(&fail.text)))?;
        let own = !(head.script.is_empty() && head.stdin.is_empty() && head.params.is_empty());
        if own && !raw.more.is_empty() {
            let text = "script, input and --params are for cron jobs with one job: give a command";
            return Err(Fail::usage(at(text)));
        }
        if common.as_ref().is_some_and(|common| common.env != head.env) {
            let text = "all jobs of a pack have the same environment: give each job the same -env";
            return Err(Fail::usage(at(text)));
        }
        common.get_or_insert(head);
        jobs.push(job);
    }
    Ok((jobs, common.unwrap_or_default()))
}

/// Returns e.g. `Cron job <nightly> is created`.
fn phrase(outcome: &Outcome) -> String {
    format!("Cron job <{}> {}", outcome.what, outcome.text)
}

/// Returns e.g. `Cron job <nightly>: job <12> is submitted to queue <normal>`.
fn phrase_of_runs(outcome: &Outcome) -> String {
    format!("Cron job <{}>: {}", outcome.what, outcome.text)
}

fn change_cron(m: &ArgMatches, act: CronAct) -> Result<i32> {
    let wait_s = requests::wait_s(m.last("wait"))?;
    let names = m.all("names");
    if names.is_empty() {
        return Err(Fail::usage("a name is missing"));
    }
    let user = m.last("u").unwrap_or_default().to_owned();
    let verb = |name: &String| Verb::Cron {
        name: name.clone(),
        user: user.clone(),
        act,
    };
    let verbs: Vec<Verb> = names.iter().map(verb).collect();
    let site = Site::find()?;
    let ack: Ack = match requests::send_and_wait(&site, "ccron", &verbs, wait_s) {
        Ok(ack) => ack,
        Err(e) => return Ok(e.report("ccron")),
    };
    let phrase = match act {
        CronAct::Start | CronAct::Kill => phrase_of_runs,
        CronAct::Enable | CronAct::Disable | CronAct::Remove => phrase,
    };
    Ok(show("ccron", &ack, phrase))
}

/// The cron jobs of a user that the caller may see.
fn rows(source: &Source, user: Option<&str>) -> Result<Vec<CronJob>> {
    let params = source.params()?;
    source.banner(&params);
    let mut all = source.view.crons().map_err(|e| source.failed(e))?;
    let me = source.me.uid;
    match user {
        None => all.retain(|cron| cron.uid == me),
        Some("all") => {}
        Some(user) => all.retain(|cron| cron.user == user),
    }
    if all.iter().any(|cron| cron.uid != me) && !source.may_see_all(&params) {
        all.retain(|cron| cron.uid == me);
        if all.is_empty() {
            return Err(Fail::permission(read::OWN_ONLY));
        }
    }
    Ok(all)
}

fn list(m: &ArgMatches) -> Result<i32> {
    let source = Source::open("ccron")?;
    read::put(&cron_table(m, &source)?)?;
    Ok(Exit::Ok.code())
}

fn cron_table(m: &ArgMatches, source: &Source) -> Result<String> {
    let all = rows(source, m.last("u"))?;
    if all.is_empty() && !Listing::<CronJob>::wants_table(m) {
        tell!("No cron job is found");
    }
    let rows: Vec<&CronJob> = all.iter().collect();
    LIST.render(m, &rows, cron::table)
}

fn show_pages(m: &ArgMatches) -> Result<i32> {
    let source = Source::open("ccron")?;
    let (out, exit) = pages(m, &source)?;
    read::put(&out)?;
    Ok(exit.code())
}

pub(super) fn pages(m: &ArgMatches, source: &Source) -> Result<(String, Exit)> {
    let all = rows(source, m.last("u"))?;
    let (found, exit) =
        read::rows_by_name("cron job", &all, |cron| &cron.def.name, &m.all("names"));
    if m.has("json") {
        return Err(Fail::usage(
            "-json: ccron list has it; ccron show has --json",
        ));
    }
    let mut out = String::new();
    for (n, row) in found.iter().enumerate() {
        match m.has("jsonl") {
            true => cron::put_json(&mut out, row),
            false => {
                let gap = if n > 0 { "\n" } else { "" };
                out.push_str(&format!("{gap}{}", cron::page(row)));
            }
        }
    }
    if all.is_empty() {
        tell!("No cron job is found");
    }
    Ok((out, exit))
}

fn next(m: &ArgMatches) -> Result<i32> {
    let n = match m.last("n") {
        None => NEXT_DEFAULT,
        Some(text) => text
            .parse()
            .ok()
            .filter(|n| (1..=NEXT_MAX).contains(n))
            .ok_or_else(|| Fail::usage(format!("-n: '{text}' is not 1 to {NEXT_MAX}")))?,
    };
    let what = match m.all("what").as_slice() {
        [one] => one.clone(),
        [] => return Err(Fail::usage("a schedule in quotes or a name is missing")),
        _ => return Err(Fail::usage("give one schedule, in quotes, or one name")),
    };
    let now = crate::model::Stamp(sys::clock::wall_ms());
    let is_schedule = what.starts_with('@') || what.trim().contains(char::is_whitespace);
    let (schedule, zone) = match is_schedule {
        true => (schedule(&what)?, zone(&zone_of(m)?)?),
        false => {
            let source = Source::open("ccron")?;
            let all = rows(&source, m.last("u"))?;
            let Some(cron) = all.iter().find(|cron| cron.def.name == what) else {
                let known = all.iter().map(|cron| cron.def.name.as_str());
                return Err(read::unknown("cron job", &what, known));
            };
            (schedule(&cron.def.schedule)?, zone(&cron.def.zone)?)
        }
    };
    read::put(&times(&schedule, &zone, now, n))?;
    Ok(Exit::Ok.code())
}

fn schedule(text: &str) -> Result<Schedule> {
    Schedule::parse(text).map_err(|e| {
        let caret = e.caret(text);
        Fail::usage(format!("{}\n{}", e.message, caret.trim_end_matches('\n')))
    })
}

fn zone(name: &str) -> Result<Zone> {
    Zone::named(name).map_err(Fail::usage)
}

/// The next times, one per line.
fn times(schedule: &Schedule, zone: &Zone, now: crate::model::Stamp, n: u32) -> String {
    let (mut out, mut last) = (String::new(), now);
    for _ in 0..n {
        let Some(at) = schedule.next_after(last, zone) else {
            break;
        };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{}", zone.show(at));
        last = at;
    }
    if out.is_empty() {
        out.push_str("never\n");
    }
    out
}

fn import(m: &ArgMatches) -> Result<i32> {
    let wait_s = requests::wait_s(m.last("wait"))?;
    let files = m.all("files");
    let [file] = files.as_slice() else {
        return Err(Fail::usage("give one crontab"));
    };
    let text = String::from_utf8(read_file(file)?);
    let text = text.map_err(|_| Fail::usage(format!("{file}: is not UTF-8 text")))?;
    let stem = Path::new(file).file_stem().and_then(|stem| stem.to_str());
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let stem: String = stem
        .unwrap_or("crontab")
        .chars()
        .take(32)
        .map(plain)
        .collect();
    let all = crontab::read(&text, file, &stem, &zone_of(m)?)?;
    if !m.has("create") {
        read::put(&crontab::printed(&all))?;
        return Ok(Exit::Ok.code());
    }
    send_all(all, (true, false), wait_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_view::TestView;
    use crate::model::Stamp;
    use crate::record::cron::{CronDef, CronRecord, CronResult};
    use crate::record::view::{self, Params};

    fn row(name: &str, user: u32) -> CronJob {
        let mut def = CronDef {
            name: name.into(),
            schedule: "30 2 * * mon-fri".into(),
            zone: "Europe/Berlin".into(),
            history: 10,
            ..CronDef::default()
        };
        def.job.command = "./report".into();
        def.job.spec.limits.run_s = Some(3600);
        CronJob {
            uid: user,
            user: format!("u{user}"),
            def,
            handled: Stamp(1_790_000_000_000),
            by: format!("u{user}"),
            t: Stamp(1_780_000_000_000),
            running: [(12, Stamp(1_790_000_000_000))].into(),
            history: vec![CronRecord {
                what: CronResult::Failed,
                due: Stamp(1_789_900_000_000),
                t: Stamp(1_789_900_100_000),
                id: 11,
                n: 1,
                text: "exit code 3".into(),
            }],
            ..CronJob::default()
        }
    }

    fn bed(all: bool) -> TestView {
        let bed = TestView::new();
        bed.put(view::CRONS, &[row("nightly", 10), row("other", 11)]);
        let params = Params {
            view_all_jobs: all,
            ..Params::default()
        };
        bed.put(view::PARAMS, &[params]);
        bed
    }

    fn run_line(all: bool, line: &[&str]) -> Result<String> {
        let words: Vec<OsString> = line.iter().map(OsString::from).collect();
        let m = cli::parse(list_options(), &read::split_json(&words)).unwrap();
        cron_table(&m, &bed(all).source("ccron", 10))
    }

    #[test]
    fn own_ones_are_listed_and_others_when_one_may_see_them() {
        let format = ["-noheader", "-o", "name: user: next: last:"];
        let with = |more: &[&'static str]| [&format[..], more].concat();
        let own = run_line(true, &format).unwrap();
        assert_eq!(own, "nightly u10 Tue 2026-09-22 02:30 CEST failed\n");
        assert_eq!(
            run_line(true, &with(&["-u", "all"]))
                .unwrap()
                .lines()
                .count(),
            2
        );
        assert_eq!(run_line(false, &with(&["-u", "all"])).unwrap(), own);
        assert!(run_line(false, &with(&["-u", "u11"])).is_err());
    }

    #[test]
    fn json_has_runs_and_history() {
        let line = run_line(true, &["--json"]).unwrap();
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["run"][0]["id"], 12);
        assert_eq!(value["finished"][0]["text"], "exit code 3");
        assert_eq!(value["run_limit_s"], 3600);
    }

    #[test]
    fn a_page_shows_definition_runs_and_history() {
        let words: Vec<OsString> = vec!["nightly".into()];
        let m = cli::parse(show_options(), &words).unwrap();
        let (page, exit) = pages(&m, &bed(true).source("ccron", 10)).unwrap();
        assert_eq!(exit, Exit::Ok);
        let want = "\
Cron job <nightly> of u10
  Status               enabled
  Schedule             30 2 * * mon-fri Europe/Berlin
  Next                 Tue 2026-09-22 02:30 CEST
  Command              ./report
  Overlap              skip
  Run limit            1h
  Defined              by u10, Thu 2026-05-28 22:26 CEST
  running      job <12>, due Mon 2026-09-21 16:13 CEST
  failed       job <11>, due Sun 2026-09-20 12:26 CEST: exit code 3
";
        assert_eq!(page, want);
    }

    #[test]
    fn golden_output() {
        use crate::client::read::test_cluster;
        let bed = bed(true);
        let lines = [
            "list",
            "list -u all",
            "list -json",
            "list --json",
            "show nightly",
        ];
        test_cluster::compare("ccron", &lines, |words| {
            let source = bed.source("ccron", 10);
            let options = |sub: &str| match sub {
                "list" => list_options(),
                _ => show_options(),
            };
            let m = test_cluster::parse(options(words[0]), &words[1..]);
            match words[0] {
                "list" => cron_table(&m, &source).expect("it answers"),
                _ => pages(&m, &source).expect("it answers").0,
            }
        });
    }

    #[test]
    fn next_times_are_printed_in_their_zone() {
        let (s, z) = (schedule("0 12 29 2 *").unwrap(), zone("UTC").unwrap());
        let due_times = times(&s, &z, Stamp(1_790_000_000_000), 2);
        assert_eq!(
            due_times,
            "Tue 2028-02-29 12:00 UTC\nSun 2032-02-29 12:00 UTC\n"
        );
        assert!(schedule("60 * * * *").unwrap_err().text.contains("minute"));
    }

    #[test]
    fn words_that_are_not_known_are_usage_errors() {
        let code = |words: &[&str]| run(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(code(&[]), 2);
        assert_eq!(code(&["creat"]), 2);
        assert_eq!(code(&["next", "-n", "0", "@daily"]), 2);
        assert!(overview().contains("import"));
    }
}
