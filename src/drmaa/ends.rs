//! How a job ended, in the form of the standard: a number that the `drmaa_wif...` calls decode, and
//! the resource usage of the job. Pure.
//!
//! The number is a wait status of the system (low 7 bits the signal, bit 7 a core dump, bits 8 to
//! 15 the exit code) with two additional bits above it, so that programs that read it by
//! `WEXITSTATUS` get the correct result.

use corral::model::{JobStat, Share, TermReason};
use corral::record::view::JobRow;
use corral::spool::view::ViewJob;

/// The job never ran.
const ABORTED: i32 = 1 << 16;
/// Its end is not known: its host was lost.
const UNKNOWN: i32 = 1 << 17;
const CORE: i32 = 1 << 7;
/// SIGTERM.
const TERM: i32 = 15;

/// The end of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Known {
        stat: JobStat,
        number: i32,
        /// `NAME=VALUE` each.
        usage: Vec<String>,
    },
    /// The job is no longer known; with the reason.
    Lost(String),
}

impl End {
    /// The end of a finished job. `job`: the row that contains its submission time and its request.
    pub(crate) fn of(row: &JobRow<'_>, job: &ViewJob) -> End {
        End::Known {
            stat: row.stat,
            number: number(row),
            usage: usage(row, job),
        }
    }

    /// Whether it ended with exit code 0.
    pub(crate) fn is_success(&self) -> bool {
        matches!(self, End::Known { stat, .. } if *stat == JobStat::Done)
    }
}

fn number(row: &JobRow<'_>) -> i32 {
    let never = row.attempt == 0 || row.reason == TermReason::StartFailed;
    if row.stat == JobStat::Done {
        return 0;
    }
    match (row.sig, row.code) {
        _ if never => ABORTED,
        (sig, _) if (1..=0x7e).contains(&sig) => sig | if row.core { CORE } else { 0 },
        // It was ended, and its handler exited with 0: never a success.
        (_, Some(0)) => TERM,
        (_, Some(code)) => (code & 0xff) << 8,
        _ => UNKNOWN,
    }
}

/// Converts a moment in ms to seconds since 1970.
fn seconds(ms: i64) -> i64 {
    ms.div_euclid(1000)
}

/// Names as in Grid Engine's library, and Corral's own.
fn usage(row: &JobRow<'_>, job: &ViewJob) -> Vec<String> {
    let used = &row.usage;
    let cpu = format!("{}.{:03}", used.cpu_ms / 1000, used.cpu_ms % 1000);
    let wall_ms = if row.start > 0 {
        (row.end - row.start).max(0)
    } else {
        0
    };
    let wall = format!("{}.{:03}", wall_ms / 1000, wall_ms % 1000);
    let hosts: Vec<String> = row
        .hosts
        .iter()
        .map(|Share(host, _)| host.clone())
        .collect();
    let slots: u32 = row.hosts.iter().map(|Share(_, n)| n).sum();
    let mut all: Vec<(&str, String)> = vec![
        ("submission_time", seconds(job.row.submit).to_string()),
        ("start_time", seconds(row.start).to_string()),
        ("end_time", seconds(row.end).to_string()),
        ("ru_wallclock", wall),
        ("cpu", cpu),
        ("maxrss", used.maxmem_kb.to_string()),
        ("ru_maxrss", used.maxmem_kb.to_string()),
        ("maxswap", used.maxswap_kb.to_string()),
        ("read_kb", used.read_kb.to_string()),
        ("write_kb", used.write_kb.to_string()),
        ("suspended", (row.suspended_ms / 1000).to_string()),
        (
            "exit_status",
            row.code.map_or(String::new(), |c| c.to_string()),
        ),
        ("signal", row.sig.to_string()),
        ("hosts", hosts.join(" ")),
        ("slots", slots.to_string()),
        ("queue", job.spec.queue.clone()),
        ("attempts", row.attempt.to_string()),
    ];
    if row.reason != TermReason::None {
        all.push(("term_reason", row.reason.word().to_owned()));
    }
    // Unknown values are left out.
    all.retain(|(_, value)| !value.is_empty());
    all.iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}

/// The results of `drmaa_wif...` for a number.
pub(crate) fn has_exited(number: i32) -> bool {
    number & (ABORTED | UNKNOWN) == 0 && number & 0x7f == 0
}

pub(crate) fn exit_code(number: i32) -> i32 {
    number >> 8 & 0xff
}

pub(crate) fn is_aborted(number: i32) -> bool {
    number & ABORTED != 0
}

/// The signal that ended the job.
pub(crate) fn signal(number: i32) -> Option<i32> {
    let signal = number & 0x7f;
    (number & (ABORTED | UNKNOWN) == 0 && signal != 0).then_some(signal)
}

pub(crate) fn has_core(number: i32) -> bool {
    signal(number).is_some() && number & CORE != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use corral::record::report::Usage;

    fn row(stat: JobStat, code: Option<i32>, sig: i32, attempt: u32) -> JobRow<'static> {
        JobRow {
            stat,
            code,
            sig,
            attempt,
            ..JobRow::default()
        }
    }

    fn facts(row: &JobRow<'_>) -> (bool, i32, Option<i32>, bool) {
        let n = number(row);
        (has_exited(n), exit_code(n), signal(n), is_aborted(n))
    }

    #[test]
    fn every_kind_of_end_is_told_from_the_others() {
        use JobStat::{Done, Exit};
        assert_eq!(facts(&row(Done, Some(0), 0, 1)), (true, 0, None, false));
        assert_eq!(facts(&row(Exit, Some(255), 0, 1)), (true, 255, None, false));
        assert_eq!(facts(&row(Exit, None, 9, 1)), (false, 0, Some(9), false));
        assert_eq!(facts(&row(Exit, None, 0, 0)), (false, 0, None, true));
        let mut failed = row(Exit, None, 0, 1);
        failed.reason = TermReason::StartFailed;
        assert_eq!(facts(&failed), (false, 0, None, true));
        failed.reason = TermReason::HostLost;
        assert_eq!(facts(&failed), (false, 0, None, false));
        let mut dumped = row(Exit, None, 11, 1);
        dumped.core = true;
        assert!(has_core(number(&dumped)) && !has_core(number(&row(Exit, None, 11, 1))));
        // As the system's own macros interpret it.
        let n = number(&row(Exit, Some(7), 0, 1));
        assert!(libc::WIFEXITED(n) && libc::WEXITSTATUS(n) == 7);
    }

    #[test]
    fn usage_names_what_is_known() {
        let mut r = row(JobStat::Exit, Some(7), 0, 1);
        (r.submit, r.start, r.end) = (1_000, 2_500, 4_000);
        r.hosts = vec![Share("h1".into(), 2), Share("h2".into(), 1)];
        r.usage = Usage {
            cpu_ms: 1_234,
            maxmem_kb: 5_000,
            ..Usage::default()
        };
        let job = ViewJob {
            row: r.clone(),
            spec: Default::default(),
            why: None,
        };
        let all = usage(&r, &job);
        for want in [
            "submission_time=1",
            "start_time=2",
            "end_time=4",
            "ru_wallclock=1.500",
            "cpu=1.234",
            "maxrss=5000",
            "hosts=h1 h2",
            "slots=3",
            "exit_status=7",
        ] {
            assert!(all.iter().any(|line| line == want), "{want}: {all:?}");
        }
        assert!(!all.iter().any(|line| line.starts_with("queue=")));
    }
}
