//! The inputs of a turn: one value for each event from outside.

use crate::config::Config;
use crate::intake::Requester;
use crate::model::{AttemptId, JobKey};
use crate::record::load::LoadDoc;
use crate::record::report::{Report, ReportRecord, RunId};
use crate::record::request::{RequestHead, Verb};
use crate::state::HostId;
use std::sync::Arc;

/// Number of reports of a host that are prefetched together with those of other hosts.
pub(super) const REPORTS_AHEAD: usize = 4;

/// One thing that happened.
pub enum Input {
    Request(Box<RequestIn>),
    /// Reports of one host in order, from file `part`.
    Reports {
        host: String,
        part: u64,
        reports: Vec<ReportRecord>,
        /// The file has more after these.
        more: bool,
    },
    /// A host's load sample; `silent_ms` since its beat last changed.
    Load {
        host: String,
        doc: Box<LoadDoc>,
        silent_ms: u64,
    },
    /// A host remembers something that the journal lacks: it has followed `epoch`, which was never
    /// claimed here, or it was sent orders in it that do not follow from this journal. Hosts were
    /// given jobs up to `id`. Comes before the other inputs that were read at the same time.
    RestoredShare {
        host: String,
        epoch: u64,
        id: u32,
    },
    /// Orders to this host cannot be written, and why; `None`: they can be again.
    OrdersBlocked {
        host: String,
        why: Option<String>,
    },
    /// Report file `part` of a host is damaged from record `seq` (byte `at`) on.
    ReportsDamaged {
        host: String,
        part: u64,
        seq: u64,
        at: u64,
    },
    /// cb.yaml was read (at the start of the epoch, or for a request that is in the same turn).
    Config(Arc<Config>),
}

impl Input {
    /// A statement of the leader itself, from no file, that an attempt never starts on a host.
    pub fn never(host: String, a: AttemptId, why: String) -> Input {
        Input::Reports {
            host,
            part: 0,
            reports: vec![ReportRecord {
                seq: 0,
                run: RunId::default(),
                report: Report::Never { a, why },
            }],
            more: true,
        }
    }

    /// The jobs and elements in the first reports, for prefetching.
    pub(super) fn first_works(&self) -> impl Iterator<Item = (JobKey, Option<HostId>)> {
        let reports = match self {
            Input::Reports { reports, .. } => &reports[..],
            _ => &[],
        };
        let attempts = reports.iter().filter_map(|record| record.report.attempt());
        attempts.map(|a| (a.j, None)).take(REPORTS_AHEAD)
    }
}

/// A request as the driver read it.
pub struct RequestIn {
    pub requester: Requester,
    pub head: RequestHead,
    pub verbs: Vec<Verb>,
    /// For `Reconfig`: the new configuration or its problems.
    pub config: Option<Result<Arc<Config>, Vec<String>>>,
    /// For `CronPut`: the accounts of the named users, as far as they exist.
    pub others: Vec<Requester>,
    /// Location of the request; returned in [`super::Ready::finished_requests`] by this turn or a
    /// later one.
    pub location: usize,
}
