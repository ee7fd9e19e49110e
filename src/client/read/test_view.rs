//! A published view in a temporary directory, for the tests of the reading commands.

use super::Source;
use crate::client::env::Site;
use crate::model::{JobKey, JobStat, Share, Spec};
use crate::record::frame;
use crate::record::header::{FileKind, Header};
use crate::record::view::{self, JobRow, Manifest, Params, Row, ShardInfo};
use crate::spool::view::ViewReader;
use crate::sys::users::UserFacts;
use serde::Serialize;

/// Sat Nov 21 03:07:09 2026 UTC.
pub(crate) const NOW: i64 = 1_795_230_429_000;

pub(crate) struct TestView {
    pub dir: tempfile::TempDir,
}

impl Default for TestView {
    fn default() -> Self {
        Self::new()
    }
}

impl TestView {
    pub(crate) fn new() -> TestView {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("view")).unwrap();
        let bed = TestView { dir };
        bed.put(
            view::PARAMS,
            &[Params {
                cluster: "c1".into(),
                view_all_jobs: true,
                ..Params::default()
            }],
        );
        bed
    }

    /// Writes a framed file of the view.
    pub(crate) fn put<T: Serialize>(&self, name: &str, rows: &[T]) {
        let mut out = Vec::new();
        frame::write(&mut out, 0, &Header::new(FileKind::View, "c", 1, 0)).unwrap();
        for (n, row) in rows.iter().enumerate() {
            frame::write(&mut out, n as u64 + 1, row).unwrap();
        }
        std::fs::write(self.dir.path().join("view").join(name), out).unwrap();
    }

    /// Publishes shards of job rows.
    pub(crate) fn publish(&self, shards: &[(&str, Vec<Row<'_>>)]) {
        let mut infos = Vec::new();
        for (file, rows) in shards {
            self.put(file, rows);
            let keys = || rows.iter().filter_map(job_of);
            infos.push(ShardInfo {
                file: (*file).to_owned(),
                min: keys().map(|j| j.j.id).min().unwrap_or(0),
                max: keys().map(|j| j.j.id).max().unwrap_or(0),
                live: keys().filter(|j| !j.stat.is_finished()).count() as u32,
                finished: keys().filter(|j| j.stat.is_finished()).count() as u32,
                uids: vec![],
            });
        }
        let manifest = Manifest {
            epoch: 1,
            shards: infos,
            ..Manifest::default()
        };
        self.put(view::MANIFEST, &[manifest]);
    }

    /// The view as the user `uid` sees it.
    pub(crate) fn source(&self, name: &'static str, uid: u32) -> Source {
        let site = Site {
            conf: "/etc/cb.conf".into(),
            share: self.dir.path().to_path_buf(),
            host: "h1".into(),
            local: None,
            unsafe_mount: false,
            servers: None,
            esubs: None,
        };
        let layout = site.layout();
        Source {
            name,
            view: ViewReader::new(&layout),
            layout,
            site,
            past_view: None,
            silent: false,
            me: UserFacts {
                uid,
                gid: uid,
                name: format!("u{uid}"),
                home: "/".into(),
                shell: "/bin/sh".into(),
            },
        }
    }
}

fn job_of<'r>(row: &'r Row<'_>) -> Option<&'r JobRow<'r>> {
    match row {
        Row::Job(job) => Some(job),
        _ => None,
    }
}

pub(crate) fn spec(id: u32, uid: u32) -> Row<'static> {
    let spec = Spec {
        uid,
        user: format!("u{uid}"),
        queue: "normal".into(),
        sub_host: "h1".into(),
        min: 1,
        max: 1,
        ..Spec::default()
    };
    Row::Spec {
        id,
        spec: Box::new(spec),
    }
}

/// A row with the times that its state needs; submissions are one second apart by id.
pub(crate) fn row(key: JobKey, s: u32, stat: JobStat) -> JobRow<'static> {
    let submit = NOW - 10_000_000 + i64::from(key.id) * 1000;
    let started = !stat.is_waiting();
    JobRow {
        j: key,
        s,
        stat,
        submit,
        name: if key.idx == 0 {
            format!("job{}", key.id).into()
        } else {
            "".into()
        },
        command: if key.idx == 0 {
            "true".into()
        } else {
            "".into()
        },
        hosts: if started {
            vec![Share("h1".into(), 1)]
        } else {
            vec![]
        },
        dispatch: if started { submit + 60_000 } else { 0 },
        start: if started { submit + 60_500 } else { 0 },
        end: if stat.is_finished() {
            submit + 120_000
        } else {
            0
        },
        code: stat
            .is_finished()
            .then_some(i32::from(stat == JobStat::Exit)),
        ..JobRow::default()
    }
}

pub(crate) fn job(key: JobKey, s: u32, stat: JobStat) -> Row<'static> {
    Row::Job(Box::new(row(key, s, stat)))
}
