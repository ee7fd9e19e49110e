//! Fixed jobs for the golden tests of all job outputs.

use super::{Ctx, JobView};
use crate::model::{JobKey, JobStat, Limits, PendReason, Share, Spec, Stamp, TermReason};
use crate::record::report::Usage;
use crate::record::view::{ArrayRow, JobRow};
use crate::show::Dates;
use jiff::tz::TimeZone;

/// Sat Nov 21 03:07:09 2026 UTC.
pub(crate) const NOW: i64 = 1_795_230_429_000;

pub(crate) fn ctx() -> Ctx {
    Ctx {
        estimates: Default::default(),
        queue_requests: Default::default(),
        app_requests: Default::default(),
        now: Stamp(NOW),
        dates: Dates::new(TimeZone::UTC),
    }
}

pub(crate) fn spec() -> Spec {
    Spec {
        uid: 1000,
        user: "user0001".into(),
        queue: "normal".into(),
        project: "default".into(),
        min: 1,
        max: 1,
        cwd: "/data/run".into(),
        umask: 0o022,
        sub_host: "login-host-long".into(),
        ..Spec::default()
    }
}

pub(crate) fn pending() -> JobRow<'static> {
    JobRow {
        j: JobKey::job(101),
        submit: NOW - 3_600_000,
        name: "a_rather_long_name".into(),
        command: "sleep 100".into(),
        ..JobRow::default()
    }
}

pub(crate) fn running() -> JobRow<'static> {
    JobRow {
        j: JobKey::element(102, 7),
        stat: JobStat::Run,
        submit: NOW - 7_200_000,
        attempt: 1,
        hosts: vec![Share("h1".into(), 4), Share("h2".into(), 1)],
        dispatch: NOW - 600_000,
        start: NOW - 599_000,
        usage: Usage {
            cpu_ms: 61_055,
            mem_kb: 2_100,
            maxmem_kb: 3 << 20,
            procs: 2,
            threads: 3,
            pids: vec![4711, 4712],
            ..Usage::default()
        },
        ..JobRow::default()
    }
}

pub(crate) fn killed() -> JobRow<'static> {
    JobRow {
        j: JobKey::job(103),
        stat: JobStat::Exit,
        submit: NOW - 7_200_000,
        name: "模拟\u{1b}[31m".into(),
        command: "./模拟 \"x\"".into(),
        attempt: 2,
        hosts: vec![Share("h1".into(), 1)],
        dispatch: NOW - 601_000,
        start: NOW - 600_000,
        end: NOW - 300_000,
        sig: 9,
        reason: TermReason::RunLimit,
        ..JobRow::default()
    }
}

pub(crate) fn array() -> JobRow<'static> {
    JobRow {
        j: JobKey::job(102),
        submit: NOW - 7_200_000,
        name: "sweep".into(),
        command: "./sweep".into(),
        arr: Some(Box::new(ArrayRow {
            all: "1-10".into(),
            waiting: "8-10".into(),
            limit: 0,
            counts: [("RUN", 1), ("DONE", 6)]
                .map(|(w, n)| (w.to_owned(), n))
                .into(),
        })),
        ..JobRow::default()
    }
}

pub(crate) fn limits() -> Limits {
    Limits {
        run_s: Some(1200),
        mem_b: Some(1 << 30),
        ..Limits::default()
    }
}

pub(crate) fn why() -> PendReason {
    PendReason::UserSlots {
        user: "user0001".into(),
        limit: 4,
    }
}

pub(crate) fn view<'a>(
    ctx: &'a Ctx,
    spec: &'a Spec,
    row: &'a JobRow<'a>,
    why: Option<&'a PendReason>,
) -> JobView<'a> {
    JobView {
        key: row.j,
        row,
        spec,
        name: if row.name.is_empty() {
            "sweep"
        } else {
            &row.name
        },
        command: if row.command.is_empty() {
            "./sweep"
        } else {
            &row.command
        },
        why,
        ctx,
    }
}
