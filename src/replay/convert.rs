//! Workloads of other simulators as CSV and cb.yaml. Owns what their columns mean here; the results
//! go through the same readers as everything else.
//!
//! `aleang`: a log of 21 columns with `.users`, `.groups`, `.queues`, `.machines` beside it; jobs
//! take whole nodes of one cluster. `openb`: lists of nodes and pods of a GPU cluster; pods share
//! GPUs.

use super::rng::Rng;
use super::workload::{Builder, Job, JobRequest, Workload, print_seconds, seconds};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A workload, and the configuration of its cluster.
pub struct Converted {
    pub workload: Workload,
    pub config: String,
}

/// Shares decay to .75 in 48 hours: to a tenth in this many.
const ALEANG_HIST_HOURS: u32 = 384;

/// Reads a table that comes with an aleang log: rows of a name and numbers, by row number.
fn rows(text: &str, file: &str, least: usize) -> Result<Vec<Vec<String>>, String> {
    let mut out = Vec::new();
    for (n, line) in text.lines().enumerate() {
        if line.starts_with(';') || line.trim().is_empty() {
            continue;
        }
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if words.len() < least {
            return Err(format!(
                "{file}:{}: {} columns, at least {least} are needed",
                n + 1,
                words.len()
            ));
        }
        out.push(words);
    }
    Ok(out)
}

/// The files of an aleang log.
pub struct Aleang<'a> {
    pub jobs: &'a str,
    pub users: &'a str,
    pub groups: &'a str,
    pub queues: &'a str,
    pub machines: &'a str,
}

/// What the scheduler assumes as the length of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Estimates {
    /// The expected run time, column 19, as in AleaNG; the run limit if that is too short.
    #[default]
    Expected,
    /// The run limit that the user requested, column 8.
    Limit,
}

/// How to convert an aleang log.
#[derive(Clone, Copy, Debug, Default)]
pub struct AleangOptions<'a> {
    /// The backfill setting of the queues; empty: none.
    pub backfill: &'a str,
    pub estimates: Estimates,
}

/// The tables that come with the jobs. A quota is the maximum number of nodes in use by a user,
/// group or queue.
struct Tables {
    users: Vec<Vec<String>>,
    groups: Vec<Vec<String>>,
    queues: Vec<Vec<String>>,
    clusters: Vec<Cluster>,
}

/// Nodes that one job may use together.
struct Cluster {
    name: String,
    nodes: u32,
    property: String,
}

impl Cluster {
    /// Whether jobs that request these hosts may use it.
    fn is_of(&self, hosts: &str) -> bool {
        hosts.is_empty() || hosts == self.property
    }
}

/// Reads an aleang log.
///
/// # Errors
/// A table or line cannot be read; the message names it.
pub fn aleang(from: &Aleang<'_>, options: AleangOptions<'_>) -> Result<Converted, String> {
    let tables = Tables {
        users: rows(from.users, "users", 4)?,
        groups: rows(from.groups, "groups", 4)?,
        queues: rows(from.queues, "queues", 4)?,
        clusters: clusters(from.machines)?,
    };
    let (workload, members) = aleang_jobs(from.jobs, &tables, options.estimates)?;
    let mut out = "cluster: {name: aleang, administrators: [root]}\n".to_owned();
    aleang_hosts(&mut out, &tables.clusters);
    aleang_shares(&mut out, &tables, &members);
    aleang_queues(&mut out, &tables, options.backfill);
    aleang_limits(&mut out, &tables, &workload.requests)?;
    Ok(Converted {
        workload,
        config: out,
    })
}

/// Clusters in the order in which AleaNG tries them: the largest first.
fn clusters(machines: &str) -> Result<Vec<Cluster>, String> {
    let cluster = |m: &Vec<String>| {
        Ok(Cluster {
            name: m[1].clone(),
            nodes: number(m, 2, "machines")?,
            property: m[6].clone(),
        })
    };
    let all = rows(machines, "machines", 7)?;
    let mut all = all
        .iter()
        .map(cluster)
        .collect::<Result<Vec<_>, String>>()?;
    all.sort_by_key(|c| std::cmp::Reverse(c.nodes));
    Ok(all)
}

fn number(row: &[String], column: usize, file: &str) -> Result<u32, String> {
    let text = &row[column];
    text.parse()
        .map_err(|_| format!("{file}: {text} is not a number"))
}

/// The row of a table with this number.
fn row_of<'a>(table: &'a [Vec<String>], id: &str) -> Option<&'a [String]> {
    table.iter().find(|row| row[0] == id).map(Vec::as_slice)
}

/// The jobs, and the users found in each group.
fn aleang_jobs(
    text: &str,
    tables: &Tables,
    estimates: Estimates,
) -> Result<(Workload, BTreeMap<String, Vec<String>>), String> {
    let mut builder = Builder::default();
    let mut members: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (n, line) in text.lines().enumerate() {
        if line.starts_with(';') || line.trim().is_empty() {
            continue;
        }
        let f: Vec<&str> = line.split_whitespace().collect();
        let bad = |what: &str| format!("jobs:{}: {what}", n + 1);
        if f.len() < 21 {
            return Err(bad("a job has 21 fields"));
        }
        let time = |at: usize| seconds(f[at]).ok_or_else(|| bad("a time is not a number"));
        let user = row_of(&tables.users, f[11]).ok_or_else(|| bad("its user is not listed"))?;
        let group = row_of(&tables.groups, f[12]).ok_or_else(|| bad("its group is not listed"))?;
        let queue = row_of(&tables.queues, f[14]).ok_or_else(|| bad("its queue is not listed"))?;
        let slots: u32 = f[4]
            .parse()
            .map_err(|_| bad("its nodes are not a number"))?;
        let listed = members.entry(group[1].clone()).or_default();
        if !listed.contains(&user[1]) {
            listed.push(user[1].clone());
        }
        if slots > quota(user, group, queue)? {
            let left_out = &mut builder.workload.left_out;
            left_out.rule("wider than the quota of its user, group or queue");
            continue;
        }
        let (run_ms, limit_ms) = (time(3)?.unsigned_abs(), time(8)?.unsigned_abs());
        let expected = match estimates {
            Estimates::Expected => time(19).ok().map(i64::unsigned_abs),
            Estimates::Limit => None,
        };
        let (hosts, res_req) = place(f[20], &tables.clusters);
        let ask = JobRequest {
            user: user[1].clone(),
            group: group[1].clone(),
            queue: queue[1].clone(),
            min: slots,
            max: slots,
            hosts,
            res_req,
            ..JobRequest::default()
        };
        let job = Job {
            id: f[0]
                .parse()
                .map_err(|_| bad("its number is not a number"))?,
            submit_ms: time(1)?,
            run_ms,
            est_ms: expected.filter(|ms| *ms >= run_ms).or(Some(limit_ms)),
            ..Job::default()
        };
        builder.push(job, ask)?;
    }
    Ok((builder.finish(), members))
}

/// The smallest of three quotas.
fn quota(user: &[String], group: &[String], queue: &[String]) -> Result<u32, String> {
    let of_user = number(user, 3, "users")?.min(number(group, 3, "groups")?);
    Ok(of_user.min(number(queue, 2, "queues")?))
}

/// Hosts and requirement of a job: the nodes of any one of the clusters that have its property.
fn place(property: &str, clusters: &[Cluster]) -> (String, String) {
    let hosts = if property == "all" { "" } else { property };
    let fit = clusters.iter().filter(|c| c.is_of(hosts)).count();
    let one = if fit > 1 { "same[cluster]" } else { "" };
    (hosts.to_owned(), one.to_owned())
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing to a String cannot fail");
}

/// Jobs get whole nodes: each is a host with one slot. A property is a group of hosts.
fn aleang_hosts(out: &mut String, clusters: &[Cluster]) {
    let mut properties: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    out.push_str(
        "resources:\n- {name: cluster, type: text}\nhosts:\n- {name: default, slots: 1}\n",
    );
    for Cluster {
        name,
        nodes,
        property,
    } in clusters
    {
        let names = format!("{name}-[1-{nodes}]");
        line(
            out,
            format_args!("- {{names: '{names}', resources: {{cluster: {name}}}}}"),
        );
        properties.entry(property).or_default().push(names);
    }
    out.push_str("hostgroups:\n");
    for (name, hosts) in properties {
        line(
            out,
            format_args!("- {{name: {name}, members: '{}'}}", hosts.join(" ")),
        );
    }
}

/// Groups of users and their shares. Usage decays as in AleaNG.
fn aleang_shares(out: &mut String, tables: &Tables, members: &BTreeMap<String, Vec<String>>) {
    line(
        out,
        format_args!("general: {{hist_hours: {ALEANG_HIST_HOURS}}}"),
    );
    out.push_str("usergroups:\n");
    let none = Vec::new();
    for group in &tables.groups {
        let names = members.get(&group[1]).unwrap_or(&none);
        let shares = tables.users.iter().filter(|u| names.contains(&u[1]));
        let shares: Vec<String> = shares.map(|u| format!("[{},{}]", u[1], u[2])).collect();
        line(
            out,
            format_args!(
                "- {{name: {}, members: '{}', fairshare: '{}'}}",
                group[1],
                names.join(" "),
                shares.join(" ")
            ),
        );
    }
}

/// In AleaNG the first waiting job reserves what is free first, and others may only use it if they
/// end before its start.
fn aleang_queues(out: &mut String, tables: &Tables, backfill: &str) {
    let groups = tables.groups.iter();
    let tree: Vec<String> = groups.map(|g| format!("[{},{}]", g[1], g[2])).collect();
    let tree = tree.join(" ");
    out.push_str("queues:\n");
    for queue in &tables.queues {
        let (name, priority) = (&queue[1], &queue[3]);
        line(out, format_args!("- name: {name}\n  priority: {priority}"));
        line(
            out,
            format_args!("  policy: fairshare\n  fairshare: '{tree}'"),
        );
        if !backfill.is_empty() {
            line(
                out,
                format_args!("  backfill: {backfill}\n  backfill_hosts: free"),
            );
        }
    }
}

/// Quotas as limits, if they are below the number of nodes that the jobs may use: a job that a
/// limit holds back reserves nothing; one that lacks nodes does.
fn aleang_limits(out: &mut String, tables: &Tables, asks: &[JobRequest]) -> Result<(), String> {
    let mut limits = String::new();
    type NameOf = fn(&JobRequest) -> &String;
    let consumers: [(_, _, _, _, NameOf); 3] = [
        (&tables.users, 3, "user", "users", |ask| &ask.user),
        (&tables.groups, 3, "group", "users", |ask| &ask.group),
        (&tables.queues, 2, "queue", "queues", |ask| &ask.queue),
    ];
    for (table, column, kind, key, of) in consumers {
        for row in table {
            let (name, most) = (&row[1], number(row, column, key)?);
            let may_use = |c: &&Cluster| asks.iter().any(|a| of(a) == name && c.is_of(&a.hosts));
            let nodes = tables.clusters.iter().filter(may_use).map(|c| c.nodes);
            if nodes.map(u64::from).sum::<u64>() > u64::from(most) {
                line(
                    &mut limits,
                    format_args!("- {{name: {kind}_{name}, {key}: {name}, slots: {most}}}"),
                );
            }
        }
    }
    if !limits.is_empty() {
        line(out, format_args!("limits:\n{limits}"));
    }
    Ok(())
}

/// How to convert lists of nodes and pods.
#[derive(Clone, Debug)]
pub struct Openb<'a> {
    pub nodes: &'a [u8],
    pub pods: &'a [u8],
    /// `pack`, `spread` or another value of `packing`.
    pub packing: &'a str,
    /// Requested GPUs over existing GPUs, in thousandths: pods are drawn until this load is
    /// reached.
    pub load_milli: u64,
    pub seed: u64,
}

/// One pod or node; missing fields are empty.
type Row = BTreeMap<String, String>;

fn table(bytes: &[u8], file: &str) -> Result<Vec<Row>, String> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(bytes);
    let rows = reader.deserialize::<Row>();
    let rows: Result<Vec<Row>, csv::Error> = rows.collect();
    rows.map_err(|e| format!("{file}: {e}"))
}

fn whole(row: &Row, column: &str, file: &str) -> Result<u64, String> {
    let text = row.get(column).map_or("", String::as_str);
    let n = text
        .parse()
        .map_err(|_| format!("{file}: {column}: {text:?} is not a number"));
    if text.is_empty() { Ok(0) } else { n }
}

/// Reads lists of nodes and pods. Pods arrive at one per second in an order drawn from the seed;
/// the list is repeated in a new order until the load is reached, and none ends before all have
/// arrived.
///
/// # Errors
/// A list cannot be read.
pub fn openb(from: &Openb<'_>) -> Result<Converted, String> {
    let nodes = table(from.nodes, "nodes")?;
    let pods = table(from.pods, "pods")?;
    let mut config = "cluster: {name: openb, administrators: [root]}\nresources:\n\
                      - {name: vcpu, type: number, direction: decrease}\n\
                      - {name: ram, type: number, direction: decrease}\nhosts:\n"
        .to_owned();
    let mut gpus = 0;
    for node in &nodes {
        let gpu = whole(node, "gpu", "nodes")?;
        gpus += gpu;
        let (cpu, ram) = (
            whole(node, "cpu_milli", "nodes")?,
            whole(node, "memory_mib", "nodes")?,
        );
        let name = node.get("sn").map_or("", String::as_str);
        let model = node.get("model").filter(|m| !m.is_empty());
        let model = model.map_or(String::new(), |m| format!(", tags: [{m}]"));
        let units = match gpu {
            0 => String::new(),
            n => format!(", gpu: {n}"),
        };
        line(
            &mut config,
            format_args!(
                "- {{name: {name}, slots: 1000, \
                 resources: {{vcpu: {}, ram: {ram}{units}}}{model}}}",
                print_seconds(cpu as i64)
            ),
        );
    }
    let packing = from.packing;
    line(
        &mut config,
        format_args!("queues:\n- {{name: normal, packing: {packing}}}"),
    );
    let asks: Result<Vec<(JobRequest, u64)>, String> = pods.iter().map(pod).collect();
    let asks = asks?;
    if asks.iter().all(|(_, milli)| *milli == 0) {
        return Err("pods: no pod requests a GPU".to_owned());
    }
    let workload = arrivals(&asks, gpus * from.load_milli, from.seed)?;
    Ok(Converted { workload, config })
}

/// The request of a pod, and the thousandths of GPUs in it.
fn pod(row: &Row) -> Result<(JobRequest, u64), String> {
    let of = |column| whole(row, column, "pods");
    let (n, milli) = (of("num_gpu")?, of("gpu_milli")?);
    let (cpu, ram) = (of("cpu_milli")?, of("memory_mib")?);
    let gpu = n * milli;
    if n > 1 && milli != 1000 {
        return Err(format!(
            "pods: {n} GPUs of {milli}/1000 each: parts are of one GPU"
        ));
    }
    let amount = |milli: u64| print_seconds(milli as i64);
    let units = match gpu {
        0 => String::new(),
        gpu => format!(":gpu={}", amount(gpu)),
    };
    let mut res_req = format!("rusage[vcpu={}:ram={ram}{units}]", amount(cpu));
    if let Some(models) = row.get("gpu_spec").filter(|s| !s.is_empty()) {
        let any: Vec<&str> = models.split('|').collect();
        res_req = format!("select[{}] {res_req}", any.join(" || "));
    }
    let ask = JobRequest {
        user: row.get("qos").cloned().unwrap_or_default(),
        min: 1,
        max: 1,
        res_req,
        ..JobRequest::default()
    };
    Ok((ask, gpu))
}

fn arrivals(asks: &[(JobRequest, u64)], wanted: u64, seed: u64) -> Result<Workload, String> {
    let mut rng = Rng::new(seed);
    let mut builder = Builder::default();
    let (mut came, mut id) = (0, 0u64);
    while came < wanted {
        let mut order: Vec<usize> = (0..asks.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, rng.below(at as u64 + 1) as usize);
        }
        for at in order {
            if came >= wanted {
                break;
            }
            let (ask, milli) = &asks[at];
            came += milli;
            id += 1;
            let job = Job {
                id,
                submit_ms: id as i64 * 1000,
                run_ms: 365 * 86_400_000,
                ..Job::default()
            };
            builder.push(job, ask.clone())?;
        }
    }
    Ok(builder.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{OsNames, load};

    fn loads(config: &str) {
        let loaded = load(config.as_bytes(), "cb.yaml", &OsNames::ANY);
        let loaded = loaded.unwrap_or_else(|e| panic!("{config}\n{e:?}"));
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    }

    const LOG: Aleang<'_> = Aleang {
        jobs: "; x\n1 5 0 3609 40 3609 1 40 7200 1 1 0 0 -1 1 -1 -1 -1 40 3609 all\n\
               2 6 0 60 2 60 1 2 1200 1 1 1 1 -1 0 -1 -1 -1 0 90 normal\n\
               3 7 0 60 2 60 1 2 1200 1 1 1 1 -1 0 -1 -1 -1 0 50 normal\n\
               4 8 0 60 65 60 1 2 1200 1 1 1 1 -1 0 -1 -1 -1 0 60 normal\n",
        users: "; h\n0\tbig \t 2 \t 48\n1\tsmall \t 1 \t 64\n",
        groups: "0\tprio \t 2 \t 100\n1\tnorm \t 1 \t 96\n",
        queues: "0\tpq \t 100 \t 50\n1\tdq \t 96 \t 20\n",
        machines: "0\tded \t 4 \t 1 \t 1 \t 256 \t dedicated \t 4\n\
                   1\tnrm \t 64 \t 1 \t 1 \t 256 \t normal \t 4\n",
    };

    #[test]
    fn an_aleang_log_becomes_queues_shares_quotas_and_whole_nodes() {
        let options = AleangOptions {
            backfill: "1",
            ..AleangOptions::default()
        };
        let c = aleang(&LOG, options).unwrap();
        loads(&c.config);
        let w = &c.workload;
        let row = |i: usize| {
            let (job, ask) = (&w.jobs[i], w.request(&w.jobs[i]));
            (
                (job.submit_ms, job.run_ms, job.est_ms),
                (ask.min, ask.queue.as_str()),
                (ask.hosts.as_str(), ask.res_req.as_str()),
            )
        };
        let one = ("", "same[cluster]");
        assert_eq!(
            row(0),
            ((5000, 3_609_000, Some(3_609_000)), (40, "dq"), one)
        );
        let normal = ("normal", "");
        assert_eq!(row(1), ((6000, 60_000, Some(90_000)), (2, "pq"), normal));
        assert_eq!(
            w.jobs[2].est_ms,
            Some(1_200_000),
            "ran longer than expected"
        );
        assert_eq!(w.request(&w.jobs[1]).group, "norm");
        assert_eq!(w.jobs.len(), 3);
        let wide = "1 job left out: wider than the quota of its user, group or queue";
        assert_eq!(w.left_out.sentences(), [wide]);
        for part in [
            "- {names: 'nrm-[1-64]', resources: {cluster: nrm}}\n- {names: 'ded-[1-4]'",
            "fairshare: '[prio,2] [norm,1]'",
            "backfill: 1\n  backfill_hosts: free",
            "limits:\n- {name: user_big, users: big, slots: 48}\n",
        ] {
            assert!(c.config.contains(part), "no {part} in\n{}", c.config);
        }
        // No more nodes than that are available to the jobs of the others.
        assert_eq!(c.config.matches("slots: ").count(), 2, "{}", c.config);
    }

    #[test]
    fn an_aleang_log_with_run_limits_as_estimates() {
        let options = AleangOptions {
            estimates: Estimates::Limit,
            ..AleangOptions::default()
        };
        let c = aleang(&LOG, options).unwrap();
        loads(&c.config);
        let limits: Vec<_> = c.workload.jobs.iter().map(|j| j.est_ms).collect();
        assert_eq!(limits, [Some(7_200_000), Some(1_200_000), Some(1_200_000)]);
        assert!(!c.config.contains("backfill"), "{}", c.config);
    }

    #[test]
    fn openb_lists_become_hosts_with_gpus_and_pods_in_a_drawn_order() {
        let nodes = b"sn,cpu_milli,memory_mib,gpu,model\nn1,32000,1024,2,T4\nn2,1500,64,0,\n";
        let pods = b"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n\
                     a,12000,16384,1,460,,LS\nb,500,1,0,0,,BE\nc,1000,1,2,1000,T4|P100,LS\n";
        let from = Openb {
            nodes,
            pods,
            packing: "pack",
            load_milli: 1300,
            seed: 1,
        };
        let c = openb(&from).unwrap();
        loads(&c.config);
        let w = &c.workload;
        let texts: Vec<&str> = w.requests.iter().map(|a| a.res_req.as_str()).collect();
        let part = "rusage[vcpu=12:ram=16384:gpu=0.46]";
        assert!(texts.contains(&part), "{texts:?}");
        let both = "select[T4 || P100] rusage[vcpu=1:ram=1:gpu=2]";
        assert!(texts.contains(&both), "{texts:?}");
        let again = openb(&from).unwrap().workload;
        assert_eq!(again.jobs, w.jobs);
        assert!(w.jobs.len() >= 3);
    }
}
