//! The cluster's metrics in the text format of Prometheus, which its node exporter also reads.
//!
//! Owns names, help and labels of all metrics. Pure: data published by the leader comes in, text
//! goes out. Most metrics are gauges: each describes the state when the view was published, so that
//! a reader that misses some scrapes loses nothing, and a new leader resets nothing. Values counted
//! over time are in [`activity`].
//!
//! Names follow <https://prometheus.io/docs/practices/naming/>: base units, no ratios in per cent.

mod activity;
mod page;

pub(crate) use page::MetricPoint;

use super::balance;
use super::job_table::waiting_elements;
use super::params::Leader;
use crate::model::{JobStat, Spec, WHOLE_UNIT};
use crate::record::figures::Figures;
use crate::record::host_status::HostStatus;
use crate::record::view::{HostRow, JobRow, Params, QueueRow};
use page::{Label, MetricsPage, label};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of users, groups and projects with their own points: those with the most slots,
/// then jobs. The others are combined in one point, [`OTHERS`].
pub(crate) const NAMED_MAX: usize = 200;
/// The label of the combined point.
pub(crate) const OTHERS: &str = "_others";

const MIB: f64 = 1024.0 * 1024.0;

/// Number of unfinished jobs of a user, group or project, and what they hold.
#[derive(Clone, Default, PartialEq, Debug)]
struct OwnerUsage {
    pending: u64,
    started: u64,
    slots: u64,
    memory_b: f64,
    /// Units of resources with `assign`, in thousandths, by resource.
    units: BTreeMap<String, u64>,
}

impl OwnerUsage {
    fn add(&mut self, other: &OwnerUsage) {
        self.pending += other.pending;
        self.started += other.started;
        self.slots += other.slots;
        self.memory_b += other.memory_b;
        for (res, n) in &other.units {
            *self.units.entry(res.clone()).or_default() += n;
        }
    }
}

/// The waiting times of the jobs of a queue.
#[derive(Clone, Copy, Default, Debug)]
struct WaitingTimes {
    jobs: u64,
    sum_s: f64,
    most_s: f64,
}

/// Sums over all unfinished jobs.
#[derive(Debug, Default)]
pub(crate) struct JobSums {
    now_ms: i64,
    jobs: BTreeMap<(String, JobStat), u64>,
    waiting: BTreeMap<String, WaitingTimes>,
    users: BTreeMap<String, OwnerUsage>,
    projects: BTreeMap<String, OwnerUsage>,
    groups: BTreeMap<String, OwnerUsage>,
}

impl JobSums {
    /// `now_ms`: the time until which waiting times are computed, ms since the epoch.
    pub(crate) fn new(now_ms: i64) -> JobSums {
        JobSums {
            now_ms,
            ..JobSums::default()
        }
    }

    /// Adds a job or element; for an array, its elements without a row.
    pub(crate) fn add(&mut self, row: &JobRow<'_>, spec: &Spec) {
        let n = match &row.arr {
            Some(arr) => waiting_elements(arr),
            None => 1,
        };
        if n == 0 || row.stat.is_finished() {
            return;
        }
        let key = (spec.queue.clone(), row.stat);
        *self.jobs.entry(key).or_default() += n;
        let slots = row.hosts.iter().map(|host| u64::from(host.1));
        let mut usage = OwnerUsage {
            slots: slots.sum(),
            memory_b: row.usage.mem_kb as f64 * 1024.0,
            ..OwnerUsage::default()
        };
        for units in &row.units {
            let one = if units.part == 0 {
                WHOLE_UNIT
            } else {
                units.part
            };
            let all = usage.units.entry(units.res.to_string()).or_default();
            *all += u64::from(one) * units.names.len() as u64;
        }
        match row.stat.is_waiting() {
            true => usage.pending = n,
            false => usage.started = n,
        }
        if row.stat == JobStat::Pend {
            let age_s = ((self.now_ms - row.submit).max(0)) as f64 / 1000.0;
            let waiting = self.waiting.entry(spec.queue.clone()).or_default();
            waiting.jobs += n;
            waiting.sum_s += age_s * n as f64;
            waiting.most_s = waiting.most_s.max(age_s);
        }
        self.users.entry(spec.user.clone()).or_default().add(&usage);
        let project = self.projects.entry(spec.project.clone()).or_default();
        project.add(&usage);
    }

    /// Computes the sums by group; `groups_of` returns the groups of a user.
    pub(crate) fn sum_groups(&mut self, groups_of: &dyn Fn(&str) -> Vec<String>) {
        for (user, usage) in &self.users {
            for group in groups_of(user) {
                self.groups.entry(group).or_default().add(usage);
            }
        }
    }
}

/// The data from which the text is made.
pub(crate) struct MetricsInput<'a> {
    pub params: &'a Params,
    pub leader: &'a Leader,
    /// How long the leader has been silent, if longer than permitted, ms.
    pub silent_ms: Option<u64>,
    /// Hosts with standby candidates.
    pub standby: &'a [String],
    pub hosts: &'a [HostRow],
    pub queues: &'a [QueueRow],
    pub jobs: &'a JobSums,
    /// Values that leaders have counted over time.
    pub figures: Option<&'a Figures>,
    /// Size and free space of the share's file system, in bytes.
    pub share: Option<(u64, u64)>,
    /// Whether the caller may see whose jobs these are.
    pub users: bool,
}

/// The whole text.
///
/// # Errors
/// The encoder refuses a name or value.
pub(crate) fn text(input: &MetricsInput<'_>) -> Result<String, std::fmt::Error> {
    page(input).text()
}

/// Every figure that is a single number, for alert rules; histograms are left out.
pub(crate) fn points(input: &MetricsInput<'_>) -> Vec<MetricPoint> {
    page(input).points()
}

fn page(input: &MetricsInput<'_>) -> MetricsPage {
    let mut page = MetricsPage::default();
    put_cluster(&mut page, input);
    put_share(&mut page, input.share);
    put_jobs(&mut page, input.jobs);
    put_queues(&mut page, input.queues, input.hosts);
    if input.users {
        put_owner_usage(&mut page, input.jobs);
    }
    put_hosts(&mut page, input.hosts, input.jobs.now_ms);
    put_spread(&mut page, input.hosts);
    if let Some(figures) = input.figures {
        activity::put(&mut page, figures);
    }
    page
}

/// Size of the shared directory and its space available to the service account, in bytes.
fn put_share(page: &mut MetricsPage, share: Option<(u64, u64)>) {
    if let Some((size, free)) = share {
        page.one(
            "corral_share_size_bytes",
            "Size of the file system of the shared directory",
            size as f64,
        );
        page.one("corral_share_free_bytes", "Free space on it", free as f64);
        if size > 0 {
            page.one(
                "corral_share_free_ratio",
                "Part of it that is free, from 0 to 1",
                free as f64 / size as f64,
            );
        }
    }
}

fn count(n: usize) -> f64 {
    n as f64
}

/// How evenly the hosts are used.
fn put_spread(page: &mut MetricsPage, hosts: &[HostRow]) {
    let hosts: Vec<&HostRow> = hosts.iter().collect();
    for row in balance::of(&hosts) {
        let (name, help) = match row.index {
            "ut" => (
                "corral_hosts_cpu_utilization_spread",
                "Largest minus smallest ut of the hosts that report, from 0 to 1",
            ),
            _ => (
                "corral_hosts_gpu_utilization_spread",
                "The same of gpu_util",
            ),
        };
        page.one(name, help, row.spread());
    }
}

fn put_cluster(page: &mut MetricsPage, input: &MetricsInput<'_>) {
    let MetricsInput { params, leader, .. } = input;
    let mut about = label("cluster", &params.cluster);
    about.push(("version", params.version.clone()));
    page.put(
        "corral_info",
        "Cluster and version; always 1",
        [(about, 1.0)],
    );
    page.put(
        "corral_leader",
        "The host that leads; 1 while it gives signs of life in time, else 0",
        [(
            label("host", &leader.host),
            f64::from(u8::from(leader.epoch > 0 && input.silent_ms.is_none())),
        )],
    );
    page.one(
        "corral_leader_epoch",
        "Grows by one with every new leader",
        leader.epoch as f64,
    );
    page.one(
        "corral_leader_start_timestamp_seconds",
        "When it began to lead",
        params.since as f64 / 1000.0,
    );
    if let Some(ms) = leader.quiet_ms {
        page.one(
            "corral_leader_beat_age_seconds",
            "Time since its last sign of life",
            ms as f64 / 1000.0,
        );
    }
    let missing = super::health::missing(params, &leader.host, input.standby);
    page.one(
        "corral_masters_standing_by",
        "Hosts that would take over",
        count(input.standby.len()),
    );
    page.one(
        "corral_masters_missing",
        "Hosts of cluster.masters that neither lead nor stand by",
        count(missing.len()),
    );
    page.one(
        "corral_alarms",
        "Alarms of cinfo -health",
        count(params.alarms.len()),
    );
    page.one(
        "corral_config_problems",
        "Problems of a cb.yaml that was refused",
        count(params.config_problems.len()),
    );
    page.one(
        "corral_hosts_unlisted",
        "Hosts that report and are not in cb.yaml",
        count(params.unconfigured_hosts.len()),
    );
}

fn put_jobs(page: &mut MetricsPage, sums: &JobSums) {
    let jobs = sums.jobs.iter().map(|((queue, stat), n)| {
        let mut labels = label("queue", queue);
        labels.push(("state", stat.word().to_lowercase()));
        (labels, *n as f64)
    });
    page.put(
        "corral_jobs",
        "Unfinished jobs and elements of arrays",
        jobs,
    );
    let waiting = |of: fn(&WaitingTimes) -> f64| {
        let one =
            move |(queue, waiting): (&String, &WaitingTimes)| (label("queue", queue), of(waiting));
        sums.waiting.iter().map(one)
    };
    page.put(
        "corral_pending_oldest_seconds",
        "Longest time since the submission of a pending job",
        waiting(|w| w.most_s),
    );
    page.put(
        "corral_pending_mean_seconds",
        "Mean time since the submission of pending jobs",
        waiting(|w| w.sum_s / w.jobs as f64),
    );
}

fn put_queues(page: &mut MetricsPage, queues: &[QueueRow], hosts: &[HostRow]) {
    let open: BTreeSet<&str> = hosts
        .iter()
        .filter(|h| takes_jobs(h))
        .map(|h| h.name.as_str())
        .collect();
    let open_of = |q: &QueueRow| q.hosts.iter().filter(|h| open.contains(h.as_str())).count();
    let counted = queues.iter();
    let counted = counted.map(|q| (label("queue", &q.name), count(open_of(q))));
    page.put(
        "corral_queue_hosts_open",
        "Hosts of the queue that are up and open, full ones included",
        counted,
    );
    let slots = queues.iter().flat_map(|q| {
        let c = &q.counts;
        let states = [
            ("pend", c.pend),
            ("run", c.run),
            ("ssusp", c.ssusp),
            ("ususp", c.ususp),
            ("rsv", c.rsv),
        ];
        states.map(|(state, n)| {
            let mut labels = label("queue", &q.name);
            labels.push(("state", state.to_owned()));
            (labels, n as f64)
        })
    });
    page.put(
        "corral_queue_slots",
        "Slots that jobs of a queue have, or wait for",
        slots,
    );
    let flag = |of: fn(&QueueRow) -> bool| {
        let one = move |q: &QueueRow| (label("queue", &q.name), f64::from(u8::from(of(q))));
        queues.iter().map(one)
    };
    page.put(
        "corral_queue_open",
        "1: the queue takes jobs",
        flag(|q| q.open),
    );
    page.put(
        "corral_queue_active",
        "1: the queue starts jobs",
        flag(|q| q.active),
    );
}

/// A kind of owner of jobs, and the names of its metrics: jobs, slots, memory, units.
type OwnerNames = (&'static str, [&'static str; 4]);

const OWNERS: [OwnerNames; 3] = [
    (
        "user",
        [
            "corral_user_jobs",
            "corral_user_slots",
            "corral_user_memory_bytes",
            "corral_user_units",
        ],
    ),
    (
        "project",
        [
            "corral_project_jobs",
            "corral_project_slots",
            "corral_project_memory_bytes",
            "corral_project_units",
        ],
    ),
    (
        "group",
        [
            "corral_group_jobs",
            "corral_group_slots",
            "corral_group_memory_bytes",
            "corral_group_units",
        ],
    ),
];

/// Whether the host is up and open, or closed only because of its current jobs.
fn takes_jobs(host: &HostRow) -> bool {
    matches!(
        host.status,
        HostStatus::Ok | HostStatus::Full | HostStatus::Exclusive
    )
}

fn put_owner_usage(page: &mut MetricsPage, sums: &JobSums) {
    let all = [&sums.users, &sums.projects, &sums.groups];
    for ((name, metrics), usages) in OWNERS.into_iter().zip(all) {
        let usages = bounded(usages);
        let jobs = usages.iter().flat_map(|(who, usage)| {
            [("pending", usage.pending), ("started", usage.started)].map(|(state, n)| {
                let mut labels = label(name, who);
                labels.push(("state", state.to_owned()));
                (labels, n as f64)
            })
        });
        page.put(metrics[0], "Unfinished jobs and elements of arrays", jobs);
        let slots = usages.iter();
        let slots = slots.map(|(who, usage)| (label(name, who), usage.slots as f64));
        page.put(metrics[1], "Slots of started jobs", slots);
        let memory = usages.iter();
        let memory = memory.map(|(who, usage)| (label(name, who), usage.memory_b));
        page.put(metrics[2], "Memory that started jobs use", memory);
        let units = usages.iter().flat_map(|(who, usage)| {
            usage.units.iter().map(|(res, n)| {
                let mut labels = label(name, who);
                labels.push(("resource", res.clone()));
                (labels, *n as f64 / f64::from(WHOLE_UNIT))
            })
        });
        page.put(
            metrics[3],
            "Units of assigned resources, GPUs for instance, that started jobs have",
            units,
        );
    }
}

/// The [`NAMED_MAX`] largest entries by name, and the sum of the others.
fn bounded(all: &BTreeMap<String, OwnerUsage>) -> Vec<(&str, OwnerUsage)> {
    let mut ranked: Vec<(&str, &OwnerUsage)> =
        all.iter().map(|(who, s)| (who.as_str(), s)).collect();
    ranked.sort_by_key(|(_, s)| std::cmp::Reverse((s.slots, s.started, s.pending)));
    let rest = ranked.split_off(ranked.len().min(NAMED_MAX));
    ranked.sort_unstable_by_key(|(who, _)| *who);
    let mut named: Vec<(&str, OwnerUsage)> = Vec::with_capacity(ranked.len() + 1);
    named.extend(ranked.into_iter().map(|(who, usage)| (who, usage.clone())));
    if !rest.is_empty() {
        let mut sum = OwnerUsage::default();
        rest.iter().for_each(|(_, usage)| sum.add(usage));
        named.push((OTHERS, sum));
    }
    named
}

fn put_hosts(page: &mut MetricsPage, hosts: &[HostRow], now_ms: i64) {
    let status = hosts.iter().map(|h| {
        let mut labels = label("host", &h.name);
        labels.push(("status", h.status.to_string()));
        (labels, 1.0)
    });
    page.put(
        "corral_host_status",
        "Its status in chosts; always 1",
        status,
    );
    let age = hosts.iter().filter(|h| h.load.t > 0).map(|h| {
        let age_ms = (now_ms - h.load.t).max(0);
        (label("host", &h.name), age_ms as f64 / 1000.0)
    });
    page.put(
        "corral_host_report_age_seconds",
        "Time since the host's last report, by its clock",
        age,
    );
    put_host_slots(page, hosts);
    put_host_load(page, hosts);
    put_host_resources(page, hosts);
}

/// A value for each host.
fn each(hosts: &[HostRow], of: fn(&HostRow) -> f64) -> impl Iterator<Item = (Vec<Label>, f64)> {
    let one = move |h: &HostRow| (label("host", &h.name), of(h));
    hosts.iter().map(one)
}

fn put_host_slots(page: &mut MetricsPage, hosts: &[HostRow]) {
    let each = |of| each(hosts, of);
    page.put("corral_host_slots", "Slots", each(|h| f64::from(h.slots)));
    page.put(
        "corral_host_slots_used",
        "Slots of started jobs",
        each(|h| f64::from(h.njobs)),
    );
    page.put(
        "corral_host_slots_reserved",
        "Slots that are kept for reservations",
        each(|h| f64::from(h.rsv)),
    );
}

fn put_host_load(page: &mut MetricsPage, hosts: &[HostRow]) {
    let each = |of| each(hosts, of);
    page.put(
        "corral_host_memory_bytes",
        "Memory of the host",
        each(|h| h.load.maxmem as f64 * MIB),
    );
    page.put(
        "corral_host_memory_free_bytes",
        "Memory that is free, as measured",
        each(|h| h.load.mem * MIB),
    );
    page.put(
        "corral_host_tmp_free_bytes",
        "Free space in /tmp",
        each(|h| h.load.tmp * MIB),
    );
    page.put(
        "corral_host_cpu_utilization",
        "Part of the processors that is in use, from 0 to 1",
        each(|h| h.load.ut),
    );
    page.put(
        "corral_host_run_queue_length",
        "Mean length of the run queue over a minute",
        each(|h| h.load.r1m),
    );
}

fn put_host_resources(page: &mut MetricsPage, hosts: &[HostRow]) {
    let resource = |h: &HostRow, name: &str, value: f64| {
        let mut labels = label("host", &h.name);
        labels.push(("resource", name.to_owned()));
        (labels, value)
    };
    let totals = hosts.iter().flat_map(|h| {
        let all = h.load.values.iter().chain(&h.resources);
        let numbers = all.filter_map(|(name, value)| Some((name, value.parse::<f64>().ok()?)));
        let numbers: BTreeMap<_, _> = numbers.filter(|(_, n)| n.is_finite()).collect();
        let points = numbers.into_iter().map(|(name, n)| resource(h, name, n));
        points.collect::<Vec<_>>()
    });
    page.put(
        "corral_host_resource",
        "Amounts of numeric resources in cb.yaml, and values of sensors",
        totals,
    );
    let reserved = hosts.iter().flat_map(|h| {
        let all = h.reserved.iter();
        all.map(|(name, n)| resource(h, name, *n))
            .collect::<Vec<_>>()
    });
    page.put(
        "corral_host_resource_reserved",
        "Amount of a resource that started jobs hold, however it was requested",
        reserved,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobKey;
    use crate::record::view::ArrayRow;

    #[test]
    fn of_many_users_the_largest_have_a_figure_of_their_own_and_none_is_lost() {
        let usage = |slots| OwnerUsage {
            slots,
            started: 1,
            ..OwnerUsage::default()
        };
        let all: BTreeMap<String, OwnerUsage> = (0..NAMED_MAX as u64 + 50)
            .map(|n| (format!("u{n:03}"), usage(n)))
            .collect();
        let bounded = bounded(&all);
        assert_eq!(bounded.len(), NAMED_MAX + 1);
        assert_eq!(bounded[0].0, "u050");
        let (name, rest) = &bounded[NAMED_MAX];
        assert_eq!((*name, rest.started, rest.slots), (OTHERS, 50, 49 * 25));
        let sum: u64 = bounded.iter().map(|(_, s)| s.slots).sum();
        assert_eq!(sum, all.values().map(|s| s.slots).sum::<u64>());
    }

    #[test]
    fn elements_without_a_row_count_and_what_ended_does_not() {
        let mut sums = JobSums::new(10_000);
        let spec = Spec {
            queue: "q".into(),
            user: "ann".into(),
            ..Spec::default()
        };
        let mut array = JobRow {
            j: JobKey::job(1),
            submit: 4_000,
            arr: Some(Box::new(ArrayRow {
                all: "1-9".into(),
                waiting: "3-9".into(),
                ..ArrayRow::default()
            })),
            ..JobRow::default()
        };
        sums.add(&array, &spec);
        for (idx, stat) in [(1, JobStat::Run), (2, JobStat::Done)] {
            let (j, arr) = (JobKey::element(1, idx), None);
            let row = JobRow {
                j,
                stat,
                arr,
                ..array.clone()
            };
            sums.add(&row, &spec);
        }
        array.arr = Some(Box::default());
        sums.add(&array, &spec);
        let jobs: Vec<_> = sums.jobs.iter().map(|((_, s), n)| (*s, *n)).collect();
        assert_eq!(jobs, [(JobStat::Pend, 7), (JobStat::Run, 1)]);
        let user = &sums.users["ann"];
        assert_eq!((user.pending, user.started), (7, 1));
        let waiting = sums.waiting["q"];
        assert_eq!((waiting.jobs, waiting.most_s), (7, 6.0));
    }
}
