//! `cwait`: waits until a condition on jobs holds; and the waiting of `csub -K`.
//!
//! Reads the published view again and again; never asks the leader anything.

use super::env::Site;
use super::exit::Exit;
use crate::model::{JobKey, JobStat};
use crate::record::view::JobRow;
use crate::spool::view::{Job, ViewReader, Want};
use crate::sys;

/// First and longest pause between two looks at the view, ms.
const PAUSE_MS: (u64, u64) = (5, 1000);
/// A job that the view does not show for so long is taken for forgotten, ms.
const MISSING_MS: u64 = 120_000;
/// Exit code of `csub -K` when the job was terminated while pending.
const KILLED_PENDING: i32 = 126;

/// Waits for the end of a job or array and gives its exit code: of an array 0 when every element is
/// DONE, else the highest code of an element.
pub fn until_end(site: &Site, id: u32) -> i32 {
    eprintln!("<<Waiting for dispatch ...>>");
    let reader = ViewReader::new(&site.layout());
    let from = sys::clock::boot_ms();
    let mut seen = from;
    let mut started = false;
    let mut pause = PAUSE_MS.0;
    loop {
        let now = sys::clock::boot_ms();
        match look(&reader, id) {
            Ok(jobs) if !jobs.is_empty() => {
                seen = now;
                let host = jobs.iter().find_map(|j| j.row.hosts.first());
                if let (false, Some(host)) = (started, host) {
                    started = true;
                    eprintln!("<<Starting on {}>>", host.0);
                }
                if let Some(code) = end_of(id, &jobs) {
                    return code;
                }
            }
            Ok(_) => {}
            Err(text) if now - seen >= MISSING_MS => {
                eprintln!("csub: {text}; the job goes on, its end is not known here");
                return Exit::System.code();
            }
            Err(_) => {}
        }
        if now - seen >= MISSING_MS {
            eprintln!("csub: job <{id}> is no longer known; its end is not known here");
            return Exit::System.code();
        }
        sys::clock::sleep_ms(pause);
        pause = (pause + pause / 4 + 1).min(PAUSE_MS.1);
    }
}

fn look(reader: &ViewReader, id: u32) -> Result<Vec<Job>, String> {
    let want = Want {
        ids: vec![(id, id)],
        finished: true,
        ..Want::default()
    };
    match reader.collect(&want) {
        Ok((jobs, _)) => Ok(jobs),
        Err(e) => Err(e.to_string()),
    }
}

/// The exit code when all is over, and the closing line on standard error.
fn end_of(id: u32, jobs: &[Job]) -> Option<i32> {
    let whole = jobs.iter().find(|j| j.row.j == JobKey::job(id))?;
    let waiting = whole
        .row
        .arr
        .as_ref()
        .is_some_and(|a| !a.waiting.is_empty() && !whole.row.stat.is_finished());
    if waiting {
        return None;
    }
    let elements: Vec<&JobRow<'_>> = jobs
        .iter()
        .map(|j| &j.row)
        .filter(|r| r.j.idx > 0)
        .collect();
    let rows = if whole.row.arr.is_some() {
        elements
    } else {
        vec![&whole.row]
    };
    if rows.iter().any(|r| !r.stat.is_finished()) {
        return None;
    }
    let never = |r: &&JobRow<'_>| r.attempt == 0 && r.stat == JobStat::Exit;
    if rows.iter().all(never) {
        eprintln!("<<Terminated while pending>>");
        return Some(KILLED_PENDING);
    }
    eprintln!("<<Job is finished>>");
    rows.iter().map(|r| code_of(r)).max()
}

/// The code a shell would show. An end that nobody knows is never a success.
fn code_of(row: &JobRow<'_>) -> i32 {
    match (row.stat, row.code, row.sig) {
        (JobStat::Done, _, _) => 0,
        (_, _, sig) if sig > 0 => 128 + sig,
        (_, Some(code), _) if code != 0 => code,
        _ if row.attempt == 0 => KILLED_PENDING,
        _ => Exit::System.code(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::view::ArrayRow;

    fn job(idx: u32, stat: JobStat, code: Option<i32>, sig: i32, attempt: u32) -> Job {
        Job {
            row: JobRow {
                j: JobKey { id: 7, idx },
                stat,
                code,
                sig,
                attempt,
                ..JobRow::default()
            },
            spec: Default::default(),
            why: None,
        }
    }

    #[test]
    fn a_single_job_ends_with_its_code() {
        use JobStat::*;
        for (j, want) in [
            (job(0, Run, None, 0, 1), None),
            (job(0, Done, Some(0), 0, 1), Some(0)),
            (job(0, Exit, Some(3), 0, 1), Some(3)),
            (job(0, Exit, None, 9, 1), Some(137)),
            (job(0, Exit, None, 0, 1), Some(5)),
            (job(0, Exit, None, 0, 0), Some(126)),
        ] {
            assert_eq!(end_of(7, &[j]), want);
        }
        assert_eq!(end_of(7, &[]), None);
    }

    #[test]
    fn an_array_ends_with_its_last_element() {
        let mut whole = job(0, JobStat::Pend, None, 0, 0);
        let arr = ArrayRow {
            all: "1-2".into(),
            waiting: "2".into(),
            ..ArrayRow::default()
        };
        whole.row.arr = Some(Box::new(arr));
        let one = job(1, JobStat::Exit, Some(2), 0, 1);
        assert_eq!(end_of(7, &[whole.clone(), one.clone()]), None);
        whole.row.arr.as_mut().unwrap().waiting.clear();
        let two = job(2, JobStat::Done, Some(0), 0, 1);
        assert_eq!(end_of(7, &[whole, one, two]), Some(2));
    }
}
