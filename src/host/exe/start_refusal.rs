//! Why a task cannot be started on this host, and the accounts of jobs and hooks here.

use super::starts::path_text;
use crate::model::{Spec, StartFault};
use crate::sys::{self, users};
use crate::task::build::{Account, HostProperties};
use crate::task::spec::TaskIdentity;

/// Why a task cannot be started.
#[derive(Debug, PartialEq)]
pub(super) struct StartRefusal {
    /// The text for the job's owner.
    pub text: String,
    pub fault: StartFault,
}

impl StartRefusal {
    /// The job is at fault, or this host: another host shows which.
    pub(super) fn unclear(text: String) -> StartRefusal {
        let fault = StartFault::Unclear;
        StartRefusal { text, fault }
    }
}

impl From<String> for StartRefusal {
    fn from(text: String) -> StartRefusal {
        let fault = StartFault::Job;
        StartRefusal { text, fault }
    }
}

/// An error of the share, the local directory or the user database. A file that is missing on the
/// share may be missing for all hosts.
impl From<sys::Error> for StartRefusal {
    fn from(e: sys::Error) -> StartRefusal {
        let fault = match e.is_not_found() {
            true => StartFault::Unclear,
            false => StartFault::Host,
        };
        let text = e.to_string();
        StartRefusal { text, fault }
    }
}

/// The account of a job on this host.
pub(super) fn account(spec: &Spec, properties: &HostProperties) -> Result<Account, StartRefusal> {
    Ok(account_of(user_of(spec, properties)?, properties))
}

/// The entry of a job's user in the user database of this host.
pub(super) fn user_of(
    spec: &Spec,
    properties: &HostProperties,
) -> Result<users::UserFacts, StartRefusal> {
    let own = !properties.may_switch && spec.uid == properties.uid;
    let known = match users::look_up(spec.uid) {
        Err(_) if own => None,
        known => known?,
    };
    // Without privilege the job runs as this process, even if its user has no name here.
    match known {
        Some(facts) => Ok(facts),
        None if own => Ok(users::current_user()),
        None => {
            let (host, user, uid) = (&properties.host, &spec.user, spec.uid);
            let text = format!("host {host} has no account for user {user} (uid {uid})");
            Err(StartRefusal::unclear(text))
        }
    }
}

pub(super) fn account_of(facts: users::UserFacts, properties: &HostProperties) -> Account {
    let groups = match properties.may_switch {
        true => users::groups_of(&facts),
        false => Vec::new(),
    };
    Account {
        identity: TaskIdentity {
            uid: facts.uid,
            gid: facts.gid,
            groups,
        },
        home: path_text(facts.home),
        shell: path_text(facts.shell),
        name: facts.name,
    }
}

/// The account `pre_post_exec_user` on this host. If it is missing, the host is at fault.
pub(super) fn hook_account(
    name: &str,
    properties: &HostProperties,
) -> Result<Account, StartRefusal> {
    let refused = |why: &str| {
        let host = &properties.host;
        StartRefusal {
            text: format!("pre_post_exec_user {name}: host {host} {why}"),
            fault: StartFault::Host,
        }
    };
    let facts = users::by_name(name).ok_or_else(|| refused("has no such account"))?;
    if !properties.may_switch && facts.uid != properties.uid {
        return Err(refused("runs without privilege and cannot become it"));
    }
    Ok(account_of(facts, properties))
}
