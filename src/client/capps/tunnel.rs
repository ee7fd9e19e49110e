//! `capps tunnel JOB`: the near end of the connection to a program of a running job of the user,
//! for the portal. Standard input and output carry the frames of `channel::Frame`.
//!
//! Starts `capps far-end` beside the job, on its first host, in the same way as `claunch`: that
//! host checks whose job it is. The started process has the user's rights and the job's limits, and
//! ends with the job or with this process. Never interprets the transferred data.

use crate::channel::Frame;
use crate::client::claunch::{LaunchedCommand, catch_signals};
use crate::client::cpeek;
use crate::client::env::Site;
use crate::client::exit::{Fail, Result};
use crate::client::interactive::host_commands::RunResult;
use crate::client::job_requests::finish;
use crate::model::{AttemptId, JobStat};
use crate::spool::view::{ViewJob, ViewReader};
use crate::sys;
use std::io::Write as _;

/// What runs beside the job. The programs of the host are used: those of another version may use
/// another form.
const FAR_END: &str = "exec \"$CB_BINDIR/cb\" capps far-end";

/// Runs it; returns the exit code. The reader of the frames gets the reason if there are none.
pub(super) fn run(operands: &[String]) -> i32 {
    let done = tunnel(operands);
    if let Err(fail) = &done {
        let mut out = Vec::new();
        Frame::About(Err(fail.text.clone())).put(&mut out);
        let _ = std::io::stdout().write_all(&out);
    }
    finish("capps", done)
}

fn tunnel(operands: &[String]) -> Result<i32> {
    let [job] = operands else {
        return Err(Fail::usage("tunnel: name one job or element"));
    };
    let site = Site::find()?;
    let job = cpeek::by_key(&ViewReader::new(&site.layout()), cpeek::one_job(job)?)?;
    let host = host_of(&job, sys::users::effective_uid())?;
    let queue = catch_signals()?;
    let env = ["HOME", "USER", "LOGNAME", "PATH"];
    let env = env.iter().filter_map(|name| {
        let value = std::env::var(name).ok()?;
        Some(((*name).to_owned(), value))
    });
    let counted = job.row.hosts.iter();
    let counted = counted.map(|share| format!("{} {}", share.0, share.1));
    let counted = counted.collect::<Vec<_>>().join(" ");
    let started = LaunchedCommand {
        a: AttemptId {
            j: job.row.j,
            at: job.row.attempt,
        },
        line: FAR_END.to_owned(),
        cwd: "/".to_owned(),
        umask: 0o077,
        env: env
            .chain([("LSB_MCPU_HOSTS".to_owned(), counted)])
            .collect(),
    };
    Ok(match started.run(&site, &[host], true, &queue)? {
        RunResult::Codes(codes) => codes.into_iter().flatten().max().unwrap_or(5),
        RunResult::Signal(signal) => 128 + signal,
    })
}

/// The first host of a running job of this user.
fn host_of(job: &ViewJob, me: u32) -> Result<String> {
    let (row, j) = (&job.row, job.row.j);
    if job.spec.uid != me {
        return Err(Fail::permission(format!("Job <{j}> is another user's")));
    }
    let first = row.hosts.first().filter(|_| row.stat == JobStat::Run);
    match first {
        Some(first) => Ok(first.0.clone()),
        None => Err(Fail::refused(format!("Job <{j}> does not run"))),
    }
}
