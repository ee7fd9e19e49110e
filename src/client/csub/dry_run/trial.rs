//! A submission to a copy of the cluster, and what is said of it. Pure.

use super::Verdict;
use crate::client::cluster_copy::{ClusterCopy, TrialResult};
use crate::model::{Spec, Submission};

impl Verdict {
    /// Submits the job to a copy of the cluster; what is said of hosts and of the start is what the
    /// scheduler did there. Whether the jobs of `-w` have ended is not considered, nor a hold.
    pub(super) fn try_on(&mut self, copy: &mut ClusterCopy, job: &Submission) {
        let spec = Spec {
            depend: String::new(),
            ..self.spec.clone()
        };
        let array = (job.array.clone(), job.array_limit);
        let Some((tried, fitting)) = copy.try_submission(&spec, array) else {
            return;
        };
        if let Some(matched) = &mut self.hosts {
            let starts = match &tried {
                TrialResult::Starts(hosts) => &hosts[..],
                TrialResult::StillWaiting(_) => &[],
            };
            matched.enough = !starts.is_empty();
            // A host that has no room for the whole job alone may have a part of it.
            let fits = |host: &String| fitting.contains(host) || starts.contains(host);
            matched.ready.retain(|host| fits(&host.host));
        }
        self.tried = Some(tried);
    }

    /// What happened on the copy, in words.
    pub(super) fn start(&self) -> Option<String> {
        Some(match self.tried.as_ref()? {
            TrialResult::Starts(hosts) => {
                format!("it would start at once on {}", hosts.join(" "))
            }
            TrialResult::StillWaiting(Some(why)) => format!("it would wait: {why}"),
            TrialResult::StillWaiting(None) => "it would wait".to_owned(),
        })
    }
}
