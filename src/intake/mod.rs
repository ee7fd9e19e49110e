//! Floor 3: request -> checked job or refusal with a reason. Pure: what it must know of the cluster
//! comes as arguments; it decides, it changes nothing.

mod select;
mod submit;

pub use select::{Pick, pick};
pub use submit::{Admitted, admit, modify};

use crate::config::Config;
use crate::record::ack::Code;

/// Who asks: the owner of the request file, with what the accounts of the system say.
#[derive(Clone, Debug, Default)]
pub struct Requester {
    pub uid: u32,
    pub user: String,
    pub groups: Vec<String>,
}

impl Requester {
    /// May act for everyone: root, the account that runs the daemons, cluster administrators.
    pub fn is_admin(&self, config: &Config, service_uid: u32) -> bool {
        self.uid == 0
            || self.uid == service_uid
            || config.is_cluster_admin(&self.user, &self.groups)
    }

    /// May act on a job of `owner` in `queue`.
    pub fn may_act(&self, config: &Config, service_uid: u32, owner: Owner<'_>) -> bool {
        self.uid == owner.uid
            || self.is_admin(config, service_uid)
            || config.is_queue_admin(&self.user, &self.groups, owner.queue)
            || config.is_group_admin_of((&self.user, &self.groups), (owner.user, owner.groups))
    }
}

/// Whose job it is and where.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    pub uid: u32,
    pub user: &'a str,
    pub groups: &'a [String],
    pub queue: &'a str,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: Code,
    /// For people: lower-case, without a full stop.
    pub text: String,
}

impl Refusal {
    pub fn new(code: Code, text: impl Into<String>) -> Refusal {
        Refusal {
            code,
            text: text.into(),
        }
    }

    pub fn usage(text: impl Into<String>) -> Refusal {
        Refusal::new(Code::Usage, text)
    }

    pub fn refused(text: impl Into<String>) -> Refusal {
        Refusal::new(Code::Refused, text)
    }

    pub fn permission(text: impl Into<String>) -> Refusal {
        Refusal::new(Code::Permission, text)
    }
}
