//! What a running job has on its other hosts by `claunch` is the job's there, too: it stops, goes on,
//! counts and is limited with it, has the units and cores of that host, and outlives that host's
//! executor.

use crate::cluster::{Cluster, exists, kill_9, signal, text};
use crate::patience::until_or;
use crate::policies::{self, is, until};
use std::time::{Duration, Instant};

/// Two hosts with a GPU each, which no job can do without the other; a queue that binds.
const HOSTS: &str = "hosts:
- {name: h1, slots: 1, resources: {gpu: [GPU-one]}}
- {name: h2, slots: 1, resources: {gpu: [GPU-two]}}
queues:
- {name: q}
- {name: bound, cpu_bind: core}
";
/// `$A` and `$B`: the hosts of the job.
const HEAD: &str = "PATH=$LSF_BINDIR:$PATH; set -- $LSB_HOSTS; A=$1 B=$2; ";

fn site(cgroup: &str) -> Cluster {
    let options = format!("--hosts 2 --slots 1 --masters 1 --cgroup {cgroup}");
    let site = Cluster::up(&options);
    policies::configure(&site, HOSTS);
    site
}

fn read(site: &Cluster, name: &str) -> String {
    std::fs::read_to_string(site.work().join(name)).unwrap_or_default()
}

/// The file grows; or it does not within a second.
fn grows(site: &Cluster, name: &str) -> bool {
    let before = read(site, name).len();
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        if read(site, name).len() > before {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

fn soon(what: &str, site: &Cluster, holds: impl FnMut() -> bool) {
    until_or(holds, || format!("{what}\n{}", site.logs()));
}

#[test]
fn it_stops_goes_on_and_counts_with_its_job_whatever_becomes_of_the_executor() {
    for cgroup in ["auto", "off"] {
        let site = site(cgroup);
        let busy = "echo $CB_EXEC_HOST >where; echo $$ >pid; n=0; \
                    while :; do n=$((n + 1)); [ $((n % 20000)) = 0 ] && echo x >>ticks; done";
        let script = format!("{HEAD} exec claunch -n $B '{busy}'");
        let id = site.csub(&["-n", "2", "-o", "o", &script]);
        soon("it works", &site, || !read(&site, "ticks").is_empty());
        let pid: i32 = read(&site, "pid").trim().parse().unwrap();
        let host = read(&site, "where").trim().to_owned();
        let name = id.to_string();
        let stop = |site: &Cluster| {
            site.ok("cstop", &[&name]);
            until(site, id, "stopped", is("USUSP"));
            soon("it is stopped", site, || !grows(site, "ticks"));
            site.ok("cresume", &[&name]);
            soon("it goes on", site, || grows(site, "ticks"));
        };
        stop(&site);
        // All that computes is on the other host.
        let job = until(&site, id, "counted", |job| {
            job["usage"]["cpu_ms"].as_u64().is_some_and(|ms| ms > 500)
        });
        assert_eq!(job["stat"], "RUN", "{job}");
        let executor = site
            .ps()
            .into_iter()
            .find(|p| p.role == "cbexe" && p.host == host);
        kill_9(executor.unwrap().pid);
        site.dev_up("");
        soon("it outlives the executor", &site, || grows(&site, "ticks"));
        assert!(exists(pid));
        stop(&site);
        site.ok("ckill", &[&name]);
        let job = until(&site, id, "ended", is("EXIT"));
        assert!(job["usage"]["cpu_ms"].as_u64().unwrap() > 500, "{job}");
        soon("it ends with its job", &site, || !exists(pid));
    }
}

#[test]
fn it_has_the_units_the_cores_and_the_list_of_hosts_of_where_it_is() {
    let site = site("auto");
    let show = "echo $CB_EXEC_HOST $CB_ASSIGN_GPU $CUDA_VISIBLE_DEVICES $ROCR_VISIBLE_DEVICES \
                $(wc -l <$LSB_DJOB_HOSTFILE) $([ -d $TMPDIR ] && echo own)";
    let script = format!("{HEAD} claunch -z \"$A $B\" '{show}' | sort >units");
    let id = site.csub(&["-n", "2", "-R", "rusage[gpu=1]", &script]);
    until(&site, id, "DONE", is("DONE"));
    let wanted = "h1 GPU-one GPU-one GPU-one 2 own\nh2 GPU-two GPU-two GPU-two 2 own\n";
    assert_eq!(read(&site, "units"), wanted);
    let show = "echo $CB_EXEC_HOST \"[$CB_BIND_CPUS]\" \
                $(sed -n \"s/^Cpus_allowed_list:[[:space:]]*//p\" /proc/self/status)";
    let script = format!("{HEAD} claunch -z \"$A $B\" {} >bound", quoted(show));
    let id = site.csub(&["-n", "2", "-q", "bound", &script]);
    let job = until(&site, id, "DONE", is("DONE"));
    let shown = |host: &str| {
        let all = job["exec_hosts"].as_array().unwrap();
        let of = all.iter().find(|one| one["host"] == host).unwrap();
        of["bound_cpus"].as_str().unwrap_or("nowhere").to_owned()
    };
    let long = text(&site.run("cjobs", &["-a", "-l", &id.to_string()]));
    let lines = read(&site, "bound");
    assert_eq!(lines.lines().count(), 2, "{lines}");
    for line in lines.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[1], format!("[{}]", words[2]), "{lines}");
        assert!(!words[2].is_empty(), "{lines}");
        assert_eq!(shown(words[0]), words[2], "{job}");
        let first = job["exec_hosts"][0]["host"] == words[0];
        let wanted = match first {
            true => format!("bound to CPUs {}", words[2]),
            false => format!("bound to CPUs {} on <{}>", words[2], words[0]),
        };
        let long: String = long.split_whitespace().collect();
        let wanted: String = wanted.split_whitespace().collect();
        assert!(long.contains(&wanted), "{long}");
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// One command has a group with the job's limit; two of them must not have twice as much.
#[test]
fn what_a_job_has_on_a_host_is_limited_together() {
    let site = site("auto");
    // 60 MB each, and 100 MB for the job.
    let eat = "head -c 60000000 /dev/zero | tail -c 60000000 | (sleep 1000; cat) >/dev/null";
    let script = format!("{HEAD} claunch -n $B '{eat}' & claunch -n $B '{eat}'; echo rc $?; wait");
    let id = site.csub(&["-n", "2", "-M", "100M", "-o", "o", &script]);
    let job = until(&site, id, "over its limit", |job| {
        job["stat"] != "RUN" && job["stat"] != "PEND"
    });
    assert!(
        read(&site, "o").contains("TERM_MEMLIMIT"),
        "{job}\n{}",
        read(&site, "o")
    );
}

#[test]
fn a_limit_that_is_changed_holds_on_the_jobs_other_hosts() {
    let site = site("auto");
    let eat = "head -c 60000000 /dev/zero | tail -c 60000000 | (sleep 1000; cat) >/dev/null";
    let script = format!("{HEAD} claunch -n $B '{eat}'; echo rc $?");
    let id = site.csub(&["-n", "2", "-M", "500M", "-o", "o", &script]);
    until(&site, id, "it has much memory", |job| {
        job["usage"]["mem_kb"]
            .as_u64()
            .is_some_and(|kb| kb > 50_000)
    });
    site.ok("cmod", &["-M", "30M", &id.to_string()]);
    let job = until(&site, id, "over its limit", |job| job["stat"] != "RUN");
    assert!(
        read(&site, "o").contains("TERM_MEMLIMIT"),
        "{job}\n{}",
        read(&site, "o")
    );
}

/// The executor of the other host sleeps from the start of the command until the job is over: it
/// says all that was used when the end is long on record. CPU time, not the clock, ends the command.
#[test]
fn what_a_job_used_on_another_host_counts_when_it_is_said_after_the_end() {
    let site = site("auto");
    let busy = "echo $CB_EXEC_HOST >where; until [ -e go ]; do sleep 0.05; done; \
                sh -c 'ulimit -t 3; while :; do :; done'; echo x >ran";
    let script = format!(
        "{HEAD} claunch -n $B {} & until [ -e ran ]; do sleep 0.1; done; kill $!",
        quoted(busy)
    );
    let id = site.csub(&["-n", "2", "-o", "o", &script]);
    soon("it runs there", &site, || !read(&site, "where").is_empty());
    let host = read(&site, "where").trim().to_owned();
    let all = site.ps().into_iter();
    let executor = all.filter(|p| p.role == "cbexe").find(|p| p.host == host);
    let executor = executor.unwrap().pid;
    // Until it has noted the start of the command.
    std::thread::sleep(Duration::from_secs(3));
    signal(executor, "-STOP");
    std::fs::write(site.work().join("go"), "").unwrap();
    let job = until(&site, id, "over", |job| {
        job["stat"] == "DONE" || job["stat"] == "EXIT"
    });
    let cpu = |job: &serde_json::Value| job["usage"]["cpu_ms"].as_u64().unwrap_or(0);
    assert!(cpu(&job) < 2_000, "{job}");
    signal(executor, "-CONT");
    until(&site, id, "counted", |job| cpu(job) > 2_000);
}

/// Whatever the command and the script make of it; the reason names the host.
#[test]
fn a_job_fails_whose_command_on_another_host_ran_out_of_memory() {
    let site = site("auto");
    let eat = "dd if=/dev/zero of=/dev/null bs=200M count=1 2>/dev/null; exit 0";
    let script = format!("{HEAD} claunch -n $B '{eat}'; echo rc $?; exit 0");
    let id = site.csub(&["-n", "2", "-M", "30M", "-o", "o", &script]);
    let dependent = site.csub(&["-w", &format!("done({id})"), "true"]);
    let job = until(&site, id, "EXIT", is("EXIT"));
    assert_eq!(job["term_reason"], "TERM_MEMLIMIT", "{job}");
    assert_eq!((&job["exit_code"], &job["oom"]), (&0.into(), &true.into()));
    let text = job["text"].as_str().unwrap();
    let hosts = job["exec_hosts"].as_array().unwrap();
    let other = hosts[1]["host"].as_str().unwrap();
    assert!(text.contains(&format!("on host {other}")), "{text}");
    let output = read(&site, "o");
    let told = output.contains("TERM_MEMLIMIT") && output.contains("rc 1\n");
    assert!(told, "claunch says it, too: {output}");
    until(&site, dependent, "it waits", is("PEND"));
    // A job that says so goes by its exit code.
    let with = ["--oom-kill", "ignore", "-n", "2", "-M", "30M", &script];
    let id = site.csub(&with);
    until(&site, id, "DONE", is("DONE"));
}
