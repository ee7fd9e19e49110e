//! A class's request against one configuration: what a pass needs of it, worked out once.

use crate::config::require::{Request, asked_hosts};
use crate::config::{Config, HostPrefs, Queue};
use crate::model::{PendReason, Spec, Stamp};
use crate::state::State;

/// A class made ready for placing.
pub struct Compiled {
    pub queue: Option<Queue>,
    pub uid: u32,
    pub user: String,
    pub sub_host: String,
    pub request: Request,
    /// `-m` of the job.
    pub asked: Option<HostPrefs>,
    /// Limit of the user over all queues.
    pub user_max: Option<u32>,
    begin: Option<Stamp>,
    queue_name: String,
    bad: Option<String>,
}

/// Whether a class may be tried now.
pub enum Gate {
    Open { queue_priority: u32 },
    Later(PendReason, Stamp),
    Shut(PendReason),
}

impl Compiled {
    pub fn new(spec: &Spec, config: &Config, groups: &[String]) -> Compiled {
        let queue = config.queue(&spec.queue).cloned();
        let queue_req = queue.as_ref().and_then(|q| q.res_req.clone());
        let request = Request::new(spec, queue_req.as_deref(), config);
        let asked = asked_hosts(&spec.hosts, config);
        let bad = match (&request, &asked) {
            (Err(e), _) | (_, Err(e)) => Some(e.clone()),
            _ => None,
        };
        Compiled {
            queue,
            uid: spec.uid,
            user: spec.user.clone(),
            sub_host: spec.sub_host.clone(),
            request: request.unwrap_or_default(),
            asked: asked.unwrap_or(None),
            user_max: config.user_limits(&spec.user, groups).max_slots,
            begin: spec.begin,
            queue_name: spec.queue.clone(),
            bad,
        }
    }

    pub fn gate(&self, state: &State, now: Stamp) -> Gate {
        let queue = || self.queue_name.clone();
        let Some(entry) = &self.queue else {
            return Gate::Shut(PendReason::QueueGone { queue: queue() });
        };
        if let Some(why) = &self.bad {
            return Gate::Shut(PendReason::NeverFits { why: why.clone() });
        }
        if !state.queue_ctl(&self.queue_name).active {
            return Gate::Shut(PendReason::QueueInactive { queue: queue() });
        }
        match self.begin {
            Some(at) if at > now => Gate::Later(PendReason::BeginTime { at: at.0 }, at),
            _ => Gate::Open {
                queue_priority: entry.priority,
            },
        }
    }
}
