//! What a user sees of the cluster, for programs that are not commands: rows as values, and the
//! text output of the commands.
//!
//! Owns no data: rows come from the published view, visibility rules and texts come from the
//! commands. Takes no lock, sends no request to the leader, prints nothing.

pub use crate::client::answers::ReadCommand;

use super::Failure;
use crate::client::answers;
use crate::client::cevents::EventPoller;
use crate::client::cpeek;
use crate::client::exit::Fail;
use crate::client::metrics;
use crate::client::read::{OWN_ONLY, Source, quiet_limit_ms};
use crate::config::template::Template;
use crate::model::JobKey;
use crate::record::figures::{Histogram, JOB_BOUNDS_S};
pub use crate::record::host_status::HostKind;
use crate::record::request::{ENV_MAX, SCRIPT_MAX};
use crate::record::view::{HostRow, LimitRow, Params, QueueRow, ShareRow, UserRow};
use crate::spool::Site;
use crate::spool::view::{JobSet, ViewJob};
use crate::sys;
use crate::sys::users::UserFacts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Maximum number of bytes from the end of each file of a job that are returned at once.
pub const OUTPUT_MAX: usize = 256 << 10;

/// Summary of the cluster.
#[derive(Clone, Default, Debug)]
pub struct ClusterHead {
    pub cluster: String,
    pub master: String,
    pub epoch: u64,
    pub version: String,
    /// How long the leader has been silent, if that is too long, ms.
    pub silent_ms: Option<u64>,
    pub alarms: Vec<String>,
    pub config_problems: Vec<String>,
    pub default_queues: Vec<String>,
}

/// How long jobs waited for their first start, by queue: the histogram `corral_job_wait_seconds`.
#[derive(Clone, Default, Debug)]
pub struct Waits {
    /// When counting began, ms since 1970; 0: there are no counts.
    pub since: i64,
    /// Upper bounds of the counts except the last, in seconds.
    pub bounds_s: &'static [f64],
    pub by_queue: BTreeMap<String, Histogram>,
}

/// The end of a file of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobOutput {
    pub path: PathBuf,
    /// The last bytes, or the reason why they cannot be shown.
    pub bytes: Result<Vec<u8>, String>,
}

/// Script and environment of a job as submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobTexts {
    /// Text of the script, or the reason why it cannot be shown; `None`: the job is a command line.
    pub script: Option<Result<String, String>>,
    /// Variables by name, or the reason why they cannot be shown.
    pub env: Result<Vec<(String, String)>, String>,
}

impl JobTexts {
    fn unavailable(why: &str) -> JobTexts {
        JobTexts {
            script: Some(Err(why.to_owned())),
            env: Err(why.to_owned()),
        }
    }
}

/// The published view as one user sees it.
pub struct Reader {
    pub(super) source: Source,
}

impl Reader {
    /// The view of a cluster for this user.
    pub fn new(site: &Site, me: UserFacts) -> Reader {
        let mut source = Source::of("portal", site.clone());
        (source.me, source.silent) = (me, true);
        Reader { source }
    }

    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    pub fn user(&self) -> &UserFacts {
        &self.source.me
    }

    fn params(&self) -> Result<Params, Failure> {
        Ok(self.source.params()?)
    }

    /// The leader, alarms, and whether the leader is silent.
    ///
    /// # Errors
    /// There is no view, or it cannot be read.
    pub fn head(&self) -> Result<ClusterHead, Failure> {
        let params = self.params()?;
        let quiet = self.source.quiet_ms();
        Ok(ClusterHead {
            silent_ms: quiet.filter(|ms| *ms > quiet_limit_ms(&params)),
            cluster: params.cluster,
            master: params.master,
            epoch: params.epoch,
            version: params.version,
            alarms: params.alarms,
            config_problems: params.config_problems,
            default_queues: params.default_queues,
        })
    }

    /// Whether the user may see the jobs of all others.
    ///
    /// # Errors
    /// As [`Reader::head`].
    pub fn may_see_all(&self) -> Result<bool, Failure> {
        Ok(self.source.may_see_all(&self.params()?))
    }

    /// Whether the user administers the whole cluster.
    ///
    /// # Errors
    /// As [`Reader::head`].
    pub fn is_administrator(&self) -> Result<bool, Failure> {
        Ok(self.source.is_administrator(&self.params()?))
    }

    /// Waiting times of jobs until their first start, by queue, since counting began.
    ///
    /// # Errors
    /// The document cannot be read.
    pub fn waiting_times(&self) -> Result<Waits, Failure> {
        let figures = self.source.view.figures();
        let figures = figures.map_err(|e| self.source.failed(e))?;
        let figures = figures.unwrap_or_default();
        let all = figures.queues.into_iter();
        Ok(Waits {
            since: figures.since,
            bounds_s: JOB_BOUNDS_S,
            by_queue: all.map(|(name, queue)| (name, queue.waits)).collect(),
        })
    }

    /// Queues by priority, with their current counts.
    ///
    /// # Errors
    /// As [`Reader::head`].
    pub fn queues(&self) -> Result<Vec<QueueRow>, Failure> {
        let mut queues = self.source.counted_queues()?;
        let ctx = self.source.ctx();
        for queue in &mut queues {
            let zone = ctx.dates.zone();
            queue.window_closed = crate::show::queue::window_closed(queue, ctx.now.0, zone);
        }
        Ok(queues)
    }

    /// The status of a queue as `cqueues` prints it: `Open:Active`.
    pub fn queue_status(queue: &QueueRow) -> &'static str {
        crate::show::queue::status(queue)
    }

    /// Whether a host accepts jobs.
    pub fn host_kind(host: &HostRow) -> HostKind {
        host.status.kind()
    }

    /// Hosts by name, with their current counts.
    ///
    /// # Errors
    /// As [`Reader::head`].
    pub fn hosts(&self) -> Result<Vec<HostRow>, Failure> {
        Ok(self.source.counted_hosts()?)
    }

    /// The share trees of all queues that have one.
    ///
    /// # Errors
    /// As [`Reader::head`].
    pub fn shares(&self) -> Result<Vec<ShareRow>, Failure> {
        let shares = self.source.view.shares();
        Ok(shares.map_err(|e| self.source.failed(e))?)
    }

    /// The limits of cb.yaml and their use.
    ///
    /// # Errors
    /// As [`Reader::head`].
    pub fn limits(&self) -> Result<Vec<LimitRow>, Failure> {
        let limits = self.source.view.counted_limits();
        Ok(limits.map_err(|e| self.source.failed(e))?.rows)
    }

    /// Users and groups if the user sees all jobs; otherwise only the user.
    ///
    /// # Errors
    /// As [`Reader::head`].
    pub fn users(&self) -> Result<Vec<UserRow>, Failure> {
        let mut users = self
            .source
            .with_current_counts(crate::spool::view::ViewReader::counted_users)?;
        if !self.may_see_all()? {
            users.retain(|user| user.name == self.source.me.name);
        }
        Ok(users)
    }

    /// The output of a reading command with these arguments.
    ///
    /// # Errors
    /// The command would refuse.
    pub fn answer(&self, what: ReadCommand, words: &[&str]) -> Result<String, Failure> {
        Ok(answers::answer(&self.source, what, words)?)
    }

    /// The row of a job or element; an element that has not started is in its array's row.
    ///
    /// # Errors
    /// It does not exist, or the user may not see it.
    pub fn job(&self, key: JobKey) -> Result<ViewJob, Failure> {
        let want = JobSet {
            ids: vec![(key.id, key.id)],
            finished: true,
            ..JobSet::default()
        };
        let found = self.source.view.collect(&want);
        let (jobs, _) = found.map_err(|e| self.source.failed(e))?;
        let array = jobs.iter().find(|job| job.row.arr.is_some());
        let own = jobs.iter().find(|job| job.row.j == key);
        let Some(job) = own.or(array) else {
            return Err(Fail::not_found(format!("Job <{key}> is not found")).into());
        };
        match self.source.may_see(&self.params()?, &job.spec) {
            true => Ok(job.clone()),
            false => Err(Fail::permission(OWN_ONLY).into()),
        }
    }

    /// The ends of the files that a job has written, read as this process: only for the job's user.
    pub fn output(&self, job: &ViewJob, most: usize) -> Vec<JobOutput> {
        let row = &job.row;
        let not_begun = row.stat.is_waiting() || (row.attempt == 0 && row.start == 0);
        if row.arr.is_some() || not_begun {
            return Vec::new();
        }
        let ends = cpeek::ends(job, &self.source.layout, most.min(OUTPUT_MAX));
        let end = |end: cpeek::OutputEnd| JobOutput {
            path: end.path,
            bytes: end.bytes.map_err(|fail| fail.text),
        };
        ends.into_iter().map(end).collect()
    }

    /// Script and environment of a job. They may contain secrets: only the job's user gets them, if
    /// the system lets this process read the cluster's copies.
    pub fn texts(&self, job: &ViewJob) -> JobTexts {
        if job.spec.uid != self.source.me.uid {
            return JobTexts::unavailable("only its user sees them");
        }
        let read = |sha: &str, limit: usize| {
            let path = self.source.layout.blob(sha);
            sys::fs::read_small(&path, limit as u64).map_err(|e| e.to_string())
        };
        let spec = &job.spec;
        let script = (!spec.script.is_empty()).then(|| {
            let bytes = read(&spec.script, SCRIPT_MAX)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        });
        let env = match spec.env.as_str() {
            "" => Ok(Vec::new()),
            sha => read(sha, 2 * ENV_MAX).and_then(|bytes| {
                let vars: BTreeMap<String, String> =
                    serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
                Ok(vars.into_iter().collect())
            }),
        };
        JobTexts { script, env }
    }

    /// As [`super::templates`].
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn templates(&self) -> Result<Vec<Template>, Failure> {
        super::templates(&self.source.site)
    }

    /// The figures of `cadmin metrics`.
    ///
    /// # Errors
    /// As [`Reader::head`].
    pub fn metrics(&self) -> Result<String, Failure> {
        Ok(metrics::text(&self.source)?)
    }

    /// Events from a position on, of some jobs or of all that the user sees.
    ///
    /// # Errors
    /// The position is invalid or too old, or the journal cannot be read.
    pub fn events(&self, after: Option<&str>, jobs: &[String]) -> Result<Events, Failure> {
        let reader = Reader::new(&self.source.site, self.source.me.clone());
        let poller = EventPoller::new(reader.source, after, jobs)?;
        Ok(Events { poller })
    }
}

/// New events as they happen, as the documents of `cevents`.
pub struct Events {
    poller: EventPoller,
}

impl Events {
    /// The events since the last look, each a JSON object.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn next_events(&mut self) -> Result<Vec<String>, Failure> {
        let mut lines = Vec::new();
        self.poller.read_new(&mut |line| lines.push(line))?;
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_view::{TestView, job, spec};
    use crate::model::JobStat;
    use crate::record::view::Row;

    #[test]
    fn script_and_environment_are_for_the_jobs_user() {
        let bed = TestView::new();
        let mut of = spec(1, 7);
        if let Row::Spec { spec, .. } = &mut of {
            (spec.script, spec.env) = ("ab1".into(), "cd2".into());
        }
        let key = JobKey::job(1);
        bed.publish(&[("s1", vec![of, job(key, 1, JobStat::Run)])]);
        let texts = |uid| {
            let reader = Reader {
                source: bed.source("portal", uid),
            };
            let job = reader.job(key).unwrap();
            (reader.texts(&job), reader.source.layout.clone())
        };
        let (missing_texts, layout) = texts(7);
        assert!(missing_texts.script.unwrap().unwrap_err().contains("ab1"));
        for (sha, text) in [("ab1", "#!/bin/sh\n"), ("cd2", "{\"B\":\"2\",\"A\":\"1\"}")] {
            let path = layout.blob(sha);
            sys::fs::mkdir_p(sys::fs::parent(&path), 0o700).unwrap();
            sys::fs::publish(&path, text.as_bytes()).unwrap();
        }
        let (own, _) = texts(7);
        assert_eq!(own.script, Some(Ok("#!/bin/sh\n".to_owned())));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(own.env, Ok(vec![pair("A", "1"), pair("B", "2")]));
        let (other, _) = texts(8);
        assert!(other.script.unwrap().is_err() && other.env.is_err());
    }
}
