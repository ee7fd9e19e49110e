//! `cadmin perfmon`: how many requests the leader answers, and how many jobs are submitted,
//! dispatched and completed, in each minute.
//!
//! Leaders always sample, so nothing is started or stopped: LSF's words for that are answered with
//! the current state, and succeed only if it is what they request.

use super::subcommand::{Subcommand, cmd, matches};
use crate::client::cli::{Values, flag, operands};
use crate::client::exit::{Exit, Fail, Result};
use crate::client::job_requests::finish;
use crate::client::read::{self, Source};
use crate::language::answer;
use crate::record::samples::PERIOD_S;
use crate::show::perfmon;
use crate::text::width::escape;
use clap::{ArgMatches, Command};

/// The options of `cadmin perfmon`.
pub(super) fn options(s: &Subcommand) -> Command {
    cmd(s)
        .arg(flag("json", "view: print a JSON object"))
        .arg(operands(
            "words",
            "view|start|stop|setperiod",
            "What to do; SECONDS follow start and setperiod",
        ))
}

/// Runs `cadmin perfmon`; returns the exit code.
pub(super) fn run(s: &'static Subcommand, words: &[String]) -> i32 {
    match matches(options(s), words) {
        Ok(m) => finish("cadmin perfmon", carry_out(&m)),
        Err(code) => code,
    }
}

fn carry_out(m: &ArgMatches) -> Result<i32> {
    let words = m.all("words");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["view"] => {
            let source = Source::open("cadmin perfmon")?;
            read::put(&page(&source, m.has("json"))?)?;
        }
        _ if m.has("json") => return Err(Fail::usage("-json is for view")),
        ["start"] => always(),
        ["start" | "setperiod", period] => {
            check_period(period)?;
            always();
        }
        ["stop"] => {
            return Err(Fail::refused(
                "leaders always sample: there is nothing to stop",
            ));
        }
        _ => {
            return Err(Fail::usage(
                "write perfmon view, perfmon start, perfmon stop or perfmon setperiod SECONDS",
            ));
        }
    }
    Ok(Exit::Ok.code())
}

fn always() {
    answer!("Leaders always sample, every {PERIOD_S} seconds.");
}

/// Accepts the period that is in force.
fn check_period(text: &str) -> Result<()> {
    let seconds: Option<f64> = text.parse().ok().filter(|s| *s > 0.0);
    match seconds {
        Some(s) if s == f64::from(PERIOD_S) => Ok(()),
        Some(_) => Err(Fail::refused(format!(
            "the sample period is {PERIOD_S} seconds and cannot be changed"
        ))),
        None => {
            let shown = escape(text);
            Err(Fail::usage(format!("'{shown}' is not a number of seconds")))
        }
    }
}

/// The output of `view`.
fn page(source: &Source, json: bool) -> Result<String> {
    let figures = source.view.figures();
    let figures = figures.map_err(|e| Fail::system(e.to_string()))?;
    let mut samples = figures.unwrap_or_default().samples;
    if samples.since == 0 {
        return Err(Fail::refused(
            "no leader of this version has published its samples yet",
        ));
    }
    let ctx = source.ctx();
    // A leader that has nothing to do publishes later.
    samples.advance(ctx.now.0);
    Ok(match json {
        true => perfmon::json(&samples),
        false => perfmon::text(&samples, &ctx.dates),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_cluster;
    use crate::client::read::test_view::TestView;
    use crate::record::figures::Figures;
    use crate::record::samples::{SampleCounter, Samples};
    use crate::record::view;
    use crate::sys::clock;

    /// What a leader has published that has sampled for some periods, relative to the clock.
    fn published(numbers: &[[u64; 5]]) -> TestView {
        let bed = test_cluster::cluster();
        let mut samples = Samples::default();
        let begin = clock::wall_ms() - numbers.len() as i64 * 60_000 - 1_000;
        samples.advance(begin);
        for (n, period) in numbers.iter().enumerate() {
            for (what, count) in SampleCounter::ALL.into_iter().zip(period) {
                samples.add(what, *count);
            }
            samples.advance(begin + (n as i64 + 1) * 60_000);
        }
        let figures = Figures {
            samples,
            ..Figures::default()
        };
        bed.put(view::FIGURES, &[figures]);
        bed
    }

    /// With times as if the first period had begun in 1970.
    fn without_times(text: &str) -> String {
        let time = |line: &str| line.contains(" time");
        let lines = text.lines().map(|line| match line.split_once(":  ") {
            Some((title, _)) if time(line) => format!("{title}:  TIME\n"),
            _ => format!("{line}\n"),
        });
        let all: String = lines.collect();
        match all.split_once("\"start\":") {
            Some((numbers, _)) => format!("{numbers}\"start\":S,\"end\":E}}\n"),
            None => all,
        }
    }

    #[test]
    fn golden_output() {
        let bed = published(&[[9, 2, 101, 0, 0], [4, 0, 0, 90, 13], [6, 1, 1, 11, 88]]);
        let lines = ["perfmon view", "perfmon view -json"];
        test_cluster::compare("cadmin-perfmon", &lines, |words| {
            let json = words.contains(&"-json");
            without_times(&page(&bed.source("cadmin perfmon", 0), json).expect("it answers"))
        });
    }

    /// As DataDog's check does: each record by its name, each of five members as a number.
    #[test]
    fn monitors_find_numbers_under_known_names() {
        let bed = published(&[[9, 2, 101, 0, 0], [4, 0, 0, 90, 13]]);
        let text = page(&bed.source("cadmin perfmon", 0), true).unwrap();
        let page: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
        let mut found = Vec::new();
        for record in page["record"].as_array().unwrap() {
            let member = |of: &str| record[of].to_string().parse::<f64>().unwrap();
            let all = ["current", "max", "min", "avg", "total"].map(member);
            found.push((record["name"].as_str().unwrap().to_owned(), all));
        }
        assert_eq!(page["num"], found.len());
        let want = ("Jobs submitted".to_owned(), [0.0, 101.0, 0.0, 51.0, 101.0]);
        assert!(found.contains(&want), "{found:?}");
        let seconds = |of: &str| page[of].as_i64().unwrap();
        assert_eq!(seconds("end") - seconds("start"), 2 * seconds("period"));
    }

    #[test]
    fn without_an_ended_period_there_are_no_numbers() {
        let bed = published(&[]);
        let text = page(&bed.source("cadmin perfmon", 0), true).unwrap();
        assert!(text.starts_with("{\"num\":0,\"record\":[],"), "{text}");
        let bare = test_cluster::cluster();
        let fail = page(&bare.source("cadmin perfmon", 0), true).unwrap_err();
        assert_eq!(fail.exit, Exit::Refused);
    }

    #[test]
    fn only_the_period_that_is_in_force_is_accepted() {
        assert!(check_period("60").is_ok() && check_period("60.0").is_ok());
        assert_eq!(check_period("15").unwrap_err().exit, Exit::Refused);
        for bad in ["", "x", "-1", "0", "nan"] {
            assert_eq!(check_period(bad).unwrap_err().exit, Exit::Usage, "{bad}");
        }
    }
}
