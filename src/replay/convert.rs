//! Workloads of other simulators as CSV and cb.yaml. Owns what their columns mean here; the results
//! go through the same readers as everything else.
//!
//! `aleang`: a log of 21 columns with `.users`, `.groups`, `.queues`, `.machines` beside it; jobs
//! take whole nodes. `openb`: lists of nodes and pods of a GPU cluster; pods share GPUs.

use super::rng::Rng;
use super::workload::{Ask, Builder, Job, Workload, print_seconds, seconds};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A workload and the cluster it is for.
pub struct Converted {
    pub workload: Workload,
    pub config: String,
}

/// Shares decay to .75 in 48 hours: to a tenth in this many.
const ALEANG_HIST_HOURS: u32 = 384;

/// One of the tables beside an aleang log: rows of a name and numbers, by number of the row.
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

/// Reads an aleang log. `backfill`: the setting of that name in the queues.
///
/// # Errors
/// A table or line cannot be read; names it.
pub fn aleang(from: &Aleang<'_>, backfill: &str) -> Result<Converted, String> {
    let users = rows(from.users, "users", 3)?;
    let groups = rows(from.groups, "groups", 3)?;
    let queues = rows(from.queues, "queues", 4)?;
    let machines = rows(from.machines, "machines", 7)?;
    let tables = [&users[..], &groups[..], &queues[..]];
    let (workload, members) = aleang_jobs(from.jobs, tables)?;
    let mut out = "cluster: {name: aleang, administrators: [root]}\n".to_owned();
    aleang_hosts(&mut out, &machines)?;
    aleang_shares(&mut out, &users, &groups, &members);
    let tree: Vec<String> = groups
        .iter()
        .map(|g| format!("[{},{}]", g[1], g[2]))
        .collect();
    out.push_str("queues:\n");
    for queue in &queues {
        let (name, priority) = (&queue[1], &queue[3]);
        let tree = tree.join(" ");
        line(
            &mut out,
            format_args!("- name: {name}\n  priority: {priority}"),
        );
        line(
            &mut out,
            format_args!("  policy: fairshare\n  fairshare: '{tree}'"),
        );
        if !backfill.is_empty() {
            line(&mut out, format_args!("  backfill: {backfill}"));
        }
    }
    Ok(Converted {
        workload,
        config: out,
    })
}

/// Jobs, and the users seen of each group. The tables are those of users, groups and queues.
fn aleang_jobs(
    text: &str,
    [users, groups, queues]: [&[Vec<String>]; 3],
) -> Result<(Workload, BTreeMap<String, Vec<String>>), String> {
    let name = |table: &[Vec<String>], id: &str| {
        let row = table.iter().find(|row| row[0] == id);
        row.map(|row| row[1].clone())
    };
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
        let user = name(users, f[11]).ok_or_else(|| bad("its user is not listed"))?;
        let group = name(groups, f[12]).ok_or_else(|| bad("its group is not listed"))?;
        let queue = name(queues, f[14]).ok_or_else(|| bad("its queue is not listed"))?;
        let slots = f[4]
            .parse()
            .map_err(|_| bad("its nodes are not a number"))?;
        let listed = members.entry(group.clone()).or_default();
        if !listed.contains(&user) {
            listed.push(user.clone());
        }
        let ask = Ask {
            user,
            group,
            queue,
            min: slots,
            max: slots,
            hosts: if f[20] == "all" {
                String::new()
            } else {
                f[20].to_owned()
            },
            ..Ask::default()
        };
        let job = Job {
            id: f[0]
                .parse()
                .map_err(|_| bad("its number is not a number"))?,
            submit_ms: time(1)?,
            run_ms: time(3)?.unsigned_abs(),
            est_ms: Some(time(8)?.unsigned_abs()),
            ..Job::default()
        };
        builder.push(job, ask)?;
    }
    Ok((builder.finish(), members))
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing to a String cannot fail");
}

/// Whole nodes: each is a host of one slot. A property is a group of hosts.
fn aleang_hosts(out: &mut String, machines: &[Vec<String>]) -> Result<(), String> {
    let mut properties: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    out.push_str("hosts:\n- {name: default, slots: 1}\n");
    for m in machines {
        let n: u32 = m[2]
            .parse()
            .map_err(|_| format!("machines: {} is not a number", m[2]))?;
        let names = format!("{}-[1-{n}]", m[1]);
        line(out, format_args!("- names: '{names}'"));
        properties.entry(&m[6]).or_default().push(names);
    }
    out.push_str("hostgroups:\n");
    for (name, hosts) in properties {
        line(
            out,
            format_args!("- {{name: {name}, members: '{}'}}", hosts.join(" ")),
        );
    }
    Ok(())
}

/// Use is counted in node hours alone, as there: the CPU time of whole nodes that were busy.
fn aleang_shares(
    out: &mut String,
    users: &[Vec<String>],
    groups: &[Vec<String>],
    members: &BTreeMap<String, Vec<String>>,
) {
    line(
        out,
        format_args!(
            "general: {{cpu_time_factor: 1, run_time_factor: 0, run_job_factor: 0, \
             hist_hours: {ALEANG_HIST_HOURS}}}"
        ),
    );
    out.push_str("usergroups:\n");
    let none = Vec::new();
    for group in groups {
        let names = members.get(&group[1]).unwrap_or(&none);
        let shares = users.iter().filter(|u| names.contains(&u[1]));
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

/// What to make of lists of nodes and pods.
#[derive(Clone, Debug)]
pub struct Openb<'a> {
    pub nodes: &'a [u8],
    pub pods: &'a [u8],
    /// `pack`, `spread` or whatever else `packing` takes.
    pub packing: &'a str,
    /// GPUs asked for over GPUs there are, in thousandths: pods are drawn until that many came.
    pub load_milli: u64,
    pub seed: u64,
}

/// One pod or node; fields that are not there are empty.
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

/// Reads lists of nodes and pods. Pods come one a second in an order drawn from the seed, each
/// again and again in a new order until the load is reached, and none ends before all have come.
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
    let most = nodes.iter().map(|node| whole(node, "gpu", "nodes"));
    let most = most.collect::<Result<Vec<u64>, String>>()?;
    let most = most.into_iter().max().unwrap_or(0).min(16);
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
        let units: String = (0..gpu.min(most)).map(|n| format!(", gpu{n}: 1")).collect();
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
    let asks: Result<Vec<(Ask, u64)>, String> = pods.iter().map(|row| pod(row, most)).collect();
    let asks = asks?;
    if asks.iter().all(|(_, milli)| *milli == 0) {
        return Err("pods: none of them asks for a GPU".to_owned());
    }
    let workload = arrivals(&asks, gpus * from.load_milli, from.seed)?;
    Ok(Converted { workload, config })
}

/// Sets of `n` of the GPUs of a host that a pod may have: neighbours first, at most 16.
fn sets(n: u64, most: u64) -> Vec<Vec<u64>> {
    let starts = 0..=most.saturating_sub(n);
    let aligned = starts.clone().filter(|at| at % n == 0);
    let others = starts.filter(|at| at % n != 0);
    let mut sets: Vec<Vec<u64>> = aligned
        .chain(others)
        .map(|at| (at..at + n).collect())
        .collect();
    if n == 2 {
        let apart = (0..most).flat_map(|a| (a + 2..most).map(move |b| vec![a, b]));
        sets.extend(apart);
    }
    sets.truncate(16);
    sets
}

/// What a pod asks for, and thousandths of GPUs of it. Each GPU of a host is a resource of its own
/// (`gpu0`, `gpu1`), and which ones the pod gets are alternatives.
fn pod(row: &Row, most: u64) -> Result<(Ask, u64), String> {
    let of = |column| whole(row, column, "pods");
    let (n, milli) = (of("num_gpu")?, of("gpu_milli")?);
    let (cpu, ram) = (of("cpu_milli")?, of("memory_mib")?);
    let gpu = n * milli;
    let amount = |milli: u64| print_seconds(milli as i64);
    let host = format!("vcpu={}:ram={ram}", amount(cpu));
    let ways = match gpu {
        0 => vec![host.clone()],
        _ => sets(n, most)
            .iter()
            .map(|set| {
                let units = set.iter().map(|at| format!(":gpu{at}={}", amount(milli)));
                format!("{host}{}", units.collect::<String>())
            })
            .collect(),
    };
    let mut res_req = format!("rusage[{}]", ways.join(" || "));
    if let Some(models) = row.get("gpu_spec").filter(|s| !s.is_empty()) {
        let any: Vec<&str> = models.split('|').collect();
        res_req = format!("select[{}] {res_req}", any.join(" || "));
    }
    let ask = Ask {
        user: row.get("qos").cloned().unwrap_or_default(),
        min: 1,
        max: 1,
        res_req,
        ..Ask::default()
    };
    Ok((ask, gpu))
}

fn arrivals(asks: &[(Ask, u64)], wanted: u64, seed: u64) -> Result<Workload, String> {
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

    #[test]
    fn an_aleang_log_becomes_queues_shares_and_whole_nodes() {
        let c = aleang(
            &Aleang {
                jobs: "; x\n1 5 0 3609 40 3609 1 40 7200 1 1 0 0 -1 1 -1 -1 -1 40 3609 all\n\
                       2 6 0 60 2 60 1 2 1200 1 1 1 1 -1 0 -1 -1 -1 0 60 normal\n",
                users: "; h\n0\tbig \t 2 \t 96\n1\tsmall \t 1 \t 64\n",
                groups: "0\tprio \t 2 \t 100\n1\tnorm \t 1 \t 96\n",
                queues: "0\tpq \t 100 \t 50\n1\tdq \t 96 \t 20\n",
                machines: "0\tded \t 4 \t 1 \t 1 \t 256 \t dedicated \t 4\n\
                           1\tnrm \t 64 \t 1 \t 1 \t 256 \t normal \t 4\n",
            },
            "1",
        )
        .unwrap();
        loads(&c.config);
        let w = &c.workload;
        let row = |i: usize| {
            let (job, ask) = (&w.jobs[i], w.ask(&w.jobs[i]));
            (
                job.submit_ms,
                job.run_ms,
                job.est_ms,
                ask.min,
                ask.queue.as_str(),
                ask.hosts.as_str(),
            )
        };
        assert_eq!(row(0), (5000, 3_609_000, Some(7_200_000), 40, "dq", ""));
        assert_eq!(row(1), (6000, 60_000, Some(1_200_000), 2, "pq", "normal"));
        assert_eq!(w.ask(&w.jobs[1]).group, "norm");
        assert!(
            c.config.contains("fairshare: '[prio,2] [norm,1]'"),
            "{}",
            c.config
        );
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
        let texts: Vec<&str> = w.asks.iter().map(|a| a.res_req.as_str()).collect();
        let either = "rusage[vcpu=12:ram=16384:gpu0=0.46 || vcpu=12:ram=16384:gpu1=0.46]";
        assert!(texts.contains(&either), "{texts:?}");
        let both = "select[T4 || P100] rusage[vcpu=1:ram=1:gpu0=1:gpu1=1]";
        assert!(texts.contains(&both), "{texts:?}");
        let again = openb(&from).unwrap().workload;
        assert_eq!(again.jobs, w.jobs);
        assert!(w.jobs.len() >= 3);
    }
}
