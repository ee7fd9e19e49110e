//! The cb.yaml of a simulated cluster, and the accounts of its daemons and clients.

use super::licence_checks::{LICENCE, LICENCES};
use super::plan::Plan;
use super::unit_checks::{UNIT_MB, units_of_host};

/// The account of the daemons and of the administrator.
pub(super) const SERVICE: u32 = 900;
/// The first of the users' accounts, and how many there are.
const USERS: (u32, u32) = (1001, 3);

/// The alert that the administrator silences.
pub(super) const ALERT: &str = "silent";

/// The settings that an administrator changes in cb.yaml.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    pub iso_ms: u64,
    /// Number of hosts that are listed, the first ones.
    pub hosts: usize,
    /// Maximum number of slots of all jobs of the second queue.
    pub limit: Option<u32>,
}

impl Settings {
    /// The settings with which a run begins.
    pub(super) fn first(plan: &Plan) -> Settings {
        Settings {
            iso_ms: plan.iso_ms,
            hosts: plan.sizes.hosts,
            limit: None,
        }
    }
}

/// The text of cb.yaml.
pub(super) fn text(plan: &Plan, settings: Settings) -> String {
    let masters: Vec<String> = (1..=plan.sizes.leaders).map(|n| format!("m{n}")).collect();
    let hosts = (1..=settings.hosts).map(|n| format!("- name: 'h{n}'\n"));
    let iso = match settings.iso_ms {
        0 => "0".to_owned(),
        ms => format!("{}s", ms / 1000),
    };
    let limit = settings.limit.map(|n| format!("\n  slots: {n}"));
    let (declared, licences) = match plan.workload.licences {
        true => (
            format!("resources: [{{name: {LICENCE}, release: yes}}]\n"),
            format!(", {LICENCE}: {LICENCES}"),
        ),
        false => Default::default(),
    };
    format!(
        "cluster:\n  name: sim\n  administrators: [u{SERVICE}]\n  masters: '{}'\n  \
         lease_timeout: 3s\n  poll_interval: 500ms\ngeneral:\n  iso_timeout: {iso}\n\
         {declared}hosts:\n\
         - {{name: default, slots: {}, resources: {{gpu: {}, \
         gpu_mem: {UNIT_MB}{licences}}}}}\n{}\
         queues:\n- name: normal\n\
         - name: other{}\nalerts:\n- {{name: {ALERT}, watch: host_silent, for: 5m}}\n",
        masters.join(" "),
        plan.sizes.slots,
        units_of_host(plan.sizes.slots),
        hosts.collect::<String>(),
        limit.unwrap_or_default(),
    )
}

/// The account of the client on a machine.
pub(super) fn uid_of_client(plan: &Plan, machine: usize) -> u32 {
    match plan.administers(machine) {
        true => SERVICE,
        false => USERS.0 + machine as u32 % USERS.1,
    }
}
