//! Who may do what: one table, from which every answer is derived and docs/security.md is printed.
//!
//! Owns the roles, the actions and the rule "a user may do an action if one of the user's roles
//! over its object may". Roles come only from cb.yaml and from the owner of the request's file: no
//! action changes a role, so no user can gain or grant more rights than cb.yaml gives.

use super::Requester;
use crate::config::Config;
use std::fmt::Write;

/// The role of a user towards a job, a queue or the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Owns the job.
    Owner,
    /// Administers a user group to which the job's owner belongs.
    GroupAdmin,
    /// Administers the queue, or the queue of the job.
    QueueAdmin,
    /// Named in `cluster.administrators`.
    ClusterAdmin,
    /// Root, or the account that owns the share: both have the files anyway, regardless of the
    /// table.
    System,
    /// None of these.
    Stranger,
}

impl Role {
    pub const ALL: [Role; 6] = [
        Role::Owner,
        Role::GroupAdmin,
        Role::QueueAdmin,
        Role::ClusterAdmin,
        Role::System,
        Role::Stranger,
    ];

    fn word(self) -> &'static str {
        match self {
            Role::Owner => "owner",
            Role::GroupAdmin => "group admin",
            Role::QueueAdmin => "queue admin",
            Role::ClusterAdmin => "cluster admin",
            Role::System => "root, service account",
            Role::Stranger => "stranger",
        }
    }
}

/// All roles, the ones that are cheapest to check first.
const BY_COST: [Role; 6] = [
    Role::Owner,
    Role::System,
    Role::Stranger,
    Role::ClusterAdmin,
    Role::QueueAdmin,
    Role::GroupAdmin,
];

/// An action that a request can contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    Submit,
    Kill,
    KillForce,
    Stop,
    Resume,
    ResumeAdmins,
    Signal,
    Requeue,
    Migrate,
    Switch,
    Post,
    Modify,
    ModifyProgram,
    Move,
    MoveAmongAll,
    Run,
    Cron,
    CronAs,
    JobGroup,
    Queue,
    Host,
    HostLost,
    Restored,
    Reconfig,
    SilenceAlert,
}

/// The kind of object of an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Anything,
    Job,
    Queue,
    Cluster,
}

/// One line of the table.
pub struct Row {
    pub action: Action,
    pub kind: Kind,
    /// The command that requests it.
    pub command: &'static str,
    pub description: &'static str,
    /// The roles that may do it, beside root and the service account.
    pub roles: &'static [Role],
}

const ANYONE: &[Role] = &Role::ALL;
const OVER_JOB: &[Role] = &[
    Role::Owner,
    Role::GroupAdmin,
    Role::QueueAdmin,
    Role::ClusterAdmin,
];
const OTHERS_OVER_JOB: &[Role] = &[Role::GroupAdmin, Role::QueueAdmin, Role::ClusterAdmin];
const CLUSTER: &[Role] = &[Role::ClusterAdmin];

const fn job_row(
    action: Action,
    command: &'static str,
    description: &'static str,
    roles: &'static [Role],
) -> Row {
    Row {
        action,
        kind: Kind::Job,
        command,
        description,
        roles,
    }
}

const fn other_row(
    action: Action,
    kind: Kind,
    command: &'static str,
    description: &'static str,
    roles: &'static [Role],
) -> Row {
    Row {
        action,
        kind,
        command,
        description,
        roles,
    }
}

/// The table.
pub const TABLE: &[Row] = &[
    other_row(
        Action::Submit,
        Kind::Anything,
        "csub",
        "submit a job (root: only with `allow_root_jobs: yes`)",
        ANYONE,
    ),
    job_row(Action::Kill, "ckill", "end a job", OVER_JOB),
    job_row(
        Action::KillForce,
        "ckill -r",
        "end it without its host",
        OVER_JOB,
    ),
    job_row(Action::Stop, "cstop", "stop or hold it", OVER_JOB),
    job_row(Action::Resume, "cresume", "resume or release it", OVER_JOB),
    job_row(
        Action::ResumeAdmins,
        "cresume",
        "resume a job that an administrator stopped",
        OTHERS_OVER_JOB,
    ),
    job_row(Action::Signal, "ckill -s", "send it a signal", OVER_JOB),
    job_row(Action::Requeue, "crequeue", "run it again", OVER_JOB),
    job_row(
        Action::Migrate,
        "cmig",
        "migrate it to other hosts",
        OVER_JOB,
    ),
    job_row(
        Action::Switch,
        "cswitch",
        "put it into another queue that takes its owner",
        OVER_JOB,
    ),
    job_row(Action::Post, "cpost", "leave a message with it", OVER_JOB),
    job_row(Action::Modify, "cmod", "change its options", OVER_JOB),
    job_row(
        Action::ModifyProgram,
        "cmod -Z -L -rnc -E -Ep -cwd -i -o -e",
        "change what runs, reads and writes as its owner",
        &[Role::Owner],
    ),
    job_row(
        Action::Move,
        "ctop, cbot",
        "move it among its owner's jobs",
        OVER_JOB,
    ),
    job_row(
        Action::MoveAmongAll,
        "ctop, cbot",
        "move it among all users' jobs",
        CLUSTER,
    ),
    job_row(Action::Run, "crun", "start it now", CLUSTER),
    job_row(
        Action::Cron,
        "ccron enable, disable, start, kill, remove",
        "enable, start, end, remove a cron job",
        OVER_JOB,
    ),
    other_row(
        Action::CronAs,
        Kind::Cluster,
        "ccron create, user:",
        "define a cron job that runs as another user",
        &[],
    ),
    job_row(
        Action::JobGroup,
        "cgmod, cgdel",
        "change or delete a job group",
        &[Role::Owner, Role::ClusterAdmin],
    ),
    other_row(
        Action::Queue,
        Kind::Queue,
        "cadmin qopen, qclose, qact, qinact",
        "open, close, activate, inactivate a queue",
        &[Role::QueueAdmin, Role::ClusterAdmin],
    ),
    other_row(
        Action::Host,
        Kind::Cluster,
        "cadmin hopen, hclose, lslock, lsunlock",
        "open, close, lock, unlock hosts",
        CLUSTER,
    ),
    other_row(
        Action::HostLost,
        Kind::Cluster,
        "cadmin hlost",
        "give up the jobs of a lost host",
        CLUSTER,
    ),
    other_row(
        Action::Restored,
        Kind::Cluster,
        "cadmin restored",
        "confirm that the share was restored from a backup",
        CLUSTER,
    ),
    other_row(
        Action::Reconfig,
        Kind::Cluster,
        "cadmin reconfig",
        "put the current cb.yaml in force",
        CLUSTER,
    ),
    other_row(
        Action::SilenceAlert,
        Kind::Cluster,
        "cadmin alert silence, unsilence",
        "silence an alert",
        CLUSTER,
    ),
];

/// The table's row for an action.
pub fn row(action: Action) -> &'static Row {
    TABLE
        .iter()
        .find(|row| row.action == action)
        .expect("a test ensures that every action has a line")
}

/// The roles that may use a subcommand of cadmin, for a refusal: `cluster admin`, `queue admin or
/// cluster admin`. `None` for one that is not in the table.
pub fn who_may(subcommand: &str) -> Option<String> {
    let names = |row: &&Row| {
        let words = row.command.strip_prefix("cadmin ");
        words.is_some_and(|words| words.split(", ").any(|word| word == subcommand))
    };
    let row = TABLE.iter().find(names)?;
    let roles: Vec<&str> = row.roles.iter().map(|role| role.word()).collect();
    Some(roles.join(" or "))
}

/// Whether a role may do an action.
pub fn allows(row: &Row, role: Role) -> bool {
    role == Role::System || row.roles.contains(&role)
}

/// The table as printed in docs/security.md.
pub fn printed() -> String {
    let mut out = String::from("| action | command |");
    for role in Role::ALL {
        let _ = write!(out, " {} |", role.word());
    }
    out.push('\n');
    out.push_str(&"|---".repeat(2 + Role::ALL.len()));
    out.push_str("|\n");
    for row in TABLE {
        let _ = write!(out, "| {} | `{}` |", row.description, row.command);
        for role in Role::ALL {
            let cell = match (allows(row, role), row.kind, role) {
                (_, Kind::Queue | Kind::Cluster, Role::Owner | Role::GroupAdmin) => "",
                (_, Kind::Cluster, Role::QueueAdmin) => "",
                (true, ..) => "yes",
                (false, ..) => "no",
            };
            let _ = write!(out, " {cell} |");
        }
        out.push('\n');
    }
    out
}

/// The owner of a job, and its queue.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    pub uid: u32,
    pub user: &'a str,
    pub groups: &'a [String],
    pub queue: &'a str,
}

/// The object of an action, as far as roles matter.
#[derive(Clone, Copy, Debug)]
pub enum ActionObject<'a> {
    Job(Owner<'a>),
    Queue(&'a str),
    Cluster,
}

impl Requester {
    /// Whether this requester is `role` to the object.
    pub fn is(
        &self,
        role: Role,
        over: ActionObject<'_>,
        config: &Config,
        service_uid: u32,
    ) -> bool {
        let me = (self.user.as_str(), self.groups.as_slice());
        match (role, over) {
            (Role::System, _) => self.uid == 0 || self.uid == service_uid,
            (Role::ClusterAdmin, _) => config.is_cluster_admin(me.0, me.1),
            (
                Role::QueueAdmin,
                ActionObject::Job(Owner { queue, .. }) | ActionObject::Queue(queue),
            ) => config.is_queue_admin(me.0, me.1, queue),
            (Role::GroupAdmin, ActionObject::Job(owner)) => {
                config.is_group_admin_of(me, (owner.user, owner.groups))
            }
            (Role::Owner, ActionObject::Job(owner)) => self.uid == owner.uid,
            (Role::Stranger, _) => true,
            (Role::QueueAdmin | Role::GroupAdmin | Role::Owner, _) => false,
        }
    }

    /// Whether one of this requester's roles may do `action`.
    pub fn may(
        &self,
        action: Action,
        over: ActionObject<'_>,
        config: &Config,
        service_uid: u32,
    ) -> bool {
        let row = row(action);
        BY_COST
            .into_iter()
            .any(|role| allows(row, role) && self.is(role, over, config, service_uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_has_one_line_and_no_line_lets_strangers_at_others_things() {
        for row in TABLE {
            assert_eq!(TABLE.iter().filter(|r| r.action == row.action).count(), 1);
            assert!(allows(row, Role::System));
            let strangers = allows(row, Role::Stranger);
            assert_eq!(strangers, row.action == Action::Submit, "{:?}", row.action);
        }
    }

    #[test]
    fn a_refusal_names_who_may() {
        assert_eq!(who_may("hclose").as_deref(), Some("cluster admin"));
        let queue = who_may("qact");
        assert_eq!(queue.as_deref(), Some("queue admin or cluster admin"));
        assert_eq!(who_may("close"), None);
    }

    #[test]
    fn only_those_who_administer_the_cluster_do_something_to_it() {
        for row in TABLE.iter().filter(|r| r.kind == Kind::Cluster) {
            for role in [Role::Owner, Role::GroupAdmin, Role::QueueAdmin] {
                assert!(!allows(row, role), "{:?}", row.action);
            }
        }
    }
}
