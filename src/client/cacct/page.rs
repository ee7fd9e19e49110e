//! The page of one attempt (`cacct -l`), and the remark on the hosts of a table.
//!
//! Owns the sentences of accounting, in the language of the process; tables and the summary are in
//! `print`. Never reads a file.

use super::print::{Cost, exit, hosts, hours};
use super::totals::{ByName, Totals};
use crate::language::translated;
use crate::model::Money;
use crate::record::acct::AttemptRecord;
use crate::show::Dates;
use crate::show::cell;
use crate::show::job_long::RULE;
use crate::text::width::{escape, pad_left};
use crate::text::{duration, size};
use std::fmt::Write as _;

/// The page of `-l`.
pub(super) fn long_page(
    out: &mut String,
    record: &AttemptRecord<'_>,
    cost: Cost<'_>,
    dates: &Dates,
) {
    let mut text = format!("Job <{}>", record.j);
    let named: [(&str, &str); 7] = [
        ("Job Name", &record.name),
        ("User", &record.user),
        ("User Group", &record.group),
        ("Project", &record.project),
        ("Application", &record.app),
        ("Queue", &record.queue),
        ("Command", &record.command),
    ];
    for (title, value) in named.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = write!(text, ", {title} <{}>", escape(value));
    }
    crate::show::wrap::item(out, &text, false);
    let mut event = |t: i64, what: String| {
        if t > 0 {
            let mut line = String::new();
            dates.long(&mut line, t);
            let _ = write!(line, ": {what}");
            crate::show::wrap::item(out, &line, false);
        }
    };
    let said_of = |text: &str| format!("{};", translated(text));
    event(record.submit, said_of("Submitted"));
    let on = said_of(&format!("Dispatched to <{}>", escape(&hosts(record))));
    event(record.dispatch, format!("[{}] {on}", record.at));
    event(record.start, said_of("Started"));
    let why = record.reason.word();
    let mut end = match (record.is_done(), record.sig) {
        // Programs look for these two words of LSF.
        (true, _) => "Completed <done>".to_owned(),
        (false, 0) => {
            let code = format!("exit code {}", exit(record));
            format!("Completed <exit>; {}", translated(&code))
        }
        (false, sig) => format!("Completed <exit>; {}", translated(&format!("signal {sig}"))),
    };
    if !why.is_empty() {
        let _ = write!(end, "; {why}");
    }
    if record.requeued {
        end.push_str("; ");
        end.push_str(&translated("requeued"));
    }
    event(record.end, format!("{end}."));
    let _ = writeln!(
        out,
        "\n{}",
        translated("Accounting information about this attempt:")
    );
    usage(out, record);
    if let Some((cost, currency)) = cost {
        let cost = format!("{} {} {currency}", translated("cost:"), Money(cost));
        let _ = writeln!(out, " {}", cost.trim_end());
    }
    out.push_str(RULE);
}

fn usage(out: &mut String, record: &AttemptRecord<'_>) {
    let titles = [
        "CPU_S", "WAIT_S", "TURN_S", "RUN_S", "SUSP_S", "SLOTS", "GPUS", "MEM_MB", "SWAP_MB",
    ];
    let seconds = |ms: u64| (ms / 1000).to_string();
    let mut cpu = String::new();
    cell::fraction(&mut cpu, record.cpu_ms, 1);
    let mut gpus = String::new();
    cell::fraction(&mut gpus, record.unit_parts("gpu"), 1);
    let values = [
        cpu,
        record.wait_ms().map_or("-".to_owned(), seconds),
        seconds(record.turnaround_ms()),
        seconds(record.run_ms()),
        seconds(record.susp_ms),
        record.slots().to_string(),
        gpus,
        (record.maxmem_kb / 1024).to_string(),
        (record.maxswap_kb / 1024).to_string(),
    ];
    for title in titles {
        out.push_str(&pad_left(title, 10));
    }
    out.push('\n');
    for value in &values {
        out.push_str(&pad_left(value, 10));
    }
    out.push('\n');
    if record.max_gpu_mem_mb + record.gpu_ms > 0 {
        let mut busy = String::new();
        cell::fraction(&mut busy, record.gpu_ms, 1);
        let text = format!(
            "GPU time: {busy} s ({}% of one GPU), at most {} MB of GPU memory",
            record.gpu_util().unwrap_or(0),
            record.max_gpu_mem_mb
        );
        let _ = writeln!(out, " {}", translated(&text));
    }
    let memory = record.mem_b.map(|b| format!("-M {}", size::exact(b)));
    let time = record.run_s.map(|s| format!("-W {}", duration::exact(s)));
    let request = match &*record.res_req {
        "" => None,
        text => Some(format!("-R {}", escape(text))),
    };
    for option in [memory, time, request].into_iter().flatten() {
        let _ = writeln!(out, " {} {option}", translated("requested:"));
    }
}

/// How unevenly the slot-hours are distributed among the hosts of a table, if there are several.
pub(super) fn spread(out: &mut String, hosts: &ByName) {
    let by_use = |pair: &(&String, &Totals)| pair.1.slot_ms;
    // Among equals, the first by name.
    let least = hosts.iter().min_by_key(by_use);
    let most = hosts.iter().rev().max_by_key(by_use);
    let (Some(least), Some(most)) = (least, most) else {
        return;
    };
    if hosts.len() < 2 {
        return;
    }
    let all: Vec<u128> = hosts.values().map(|totals| totals.slot_ms).collect();
    let mean = all.iter().sum::<u128>() / all.len() as u128;
    let text = format!(
        "Slot-hours of {} hosts: least {} ({}), most {} ({}), mean {}, \
         coefficient of variation {} %",
        all.len(),
        hours(least.1.slot_ms),
        escape(least.0),
        hours(most.1.slot_ms),
        escape(most.0),
        hours(mean),
        variation(&all),
    );
    let _ = writeln!(out, "\n{}", translated(&text));
}

/// Standard deviation in percent of the mean, with one digit.
#[allow(clippy::cast_precision_loss)] // for people
fn variation(values: &[u128]) -> String {
    let n = values.len() as f64;
    let mean = values.iter().map(|v| *v as f64).sum::<f64>() / n;
    if mean <= 0.0 {
        return "0.0".to_owned();
    }
    let squares = values.iter().map(|v| (*v as f64 - mean).powi(2));
    let deviation = (squares.sum::<f64>() / n).sqrt();
    format!("{:.1}", deviation / mean * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(hours: &[u128]) -> ByName {
        let totals = |h: u128| Totals {
            slot_ms: h * 3_600_000,
            ..Totals::default()
        };
        let named = (1..).zip(hours).map(|(n, h)| (format!("h{n}"), totals(*h)));
        named.collect()
    }

    #[test]
    fn the_spread_of_hosts_is_their_extremes_and_relative_deviation() {
        let line = |hours: &[u128]| {
            let mut out = String::new();
            spread(&mut out, &hosts(hours));
            out
        };
        assert_eq!((line(&[]), line(&[3])), (String::new(), String::new()));
        assert_eq!(
            line(&[2, 4, 4, 4, 5, 5, 7, 9]),
            "\nSlot-hours of 8 hosts: least 2.00 (h1), most 9.00 (h8), mean 5.00, \
             coefficient of variation 40.0 %\n"
        );
        assert!(line(&[1, 1, 1]).contains("least 1.00 (h1), most 1.00 (h1)"));
        assert!(line(&[1, 1]).contains("variation 0.0 %"));
        assert!(line(&[0, 0]).contains("variation 0.0 %"));
    }
}
