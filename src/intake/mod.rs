//! Floor 3: converts a request to a checked job or a refusal with a reason. Pure: data about the
//! cluster comes as arguments; it decides and changes nothing.

mod apps;
mod bounds;
mod execution_options;
mod modify;
mod pending_limit;
pub mod roles;
mod select;
mod started;
mod submit;

pub use modify::{changed, modify};
pub use roles::{Action, ActionObject, Owner, Role};
pub use select::{Selection, SelectionItem, check_bounds};
pub use started::{check_started, note_started, note_switched, replace_rusage};
pub use submit::{Admitted, NameBudget, admit, check_rename, runs_as_owner, with_pack_ids};

use crate::record::ack::Code;

/// The requester: the owner of the request file, with the facts of the account.
#[derive(Clone, Debug, Default)]
pub struct Requester {
    pub uid: u32,
    pub user: String,
    pub groups: Vec<String>,
}

/// Why an action was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: Code,
    /// A message: lower-case, without a full stop.
    pub text: String,
    /// See `Ack::retry_s`.
    pub retry_s: u32,
}

impl Refusal {
    pub fn new(code: Code, text: impl Into<String>) -> Refusal {
        Refusal {
            code,
            text: text.into(),
            retry_s: 0,
        }
    }

    pub fn usage(text: impl Into<String>) -> Refusal {
        Refusal::new(Code::Usage, text)
    }

    /// The refusal for a name that does not exist in the cluster.
    pub fn not_found(text: impl Into<String>) -> Refusal {
        Refusal::new(Code::NotFound, text)
    }

    pub fn refused(text: impl Into<String>) -> Refusal {
        Refusal::new(Code::Refused, text)
    }

    pub fn permission(text: impl Into<String>) -> Refusal {
        Refusal::new(Code::Permission, text)
    }
}
