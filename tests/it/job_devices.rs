//! What jobs use of GPUs and of the network: measured on their host, shown by commands, kept in
//! accounting. GPUs are those of a made-up sensor, the network is the loopback interface.

use crate::cluster::{Cluster, kill_9};
use crate::patience::until;
use crate::policies::{configure, until_said};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;

const OUT: usize = 10 << 20;
const IN: usize = 3 << 20;

fn cluster() -> Cluster {
    let c = Cluster::up("--hosts 1 --slots 4 --masters 1 --cgroup off");
    let sections = "hosts:\n  - {names: h1, slots: 4}\nqueues:\n  - {name: normal, priority: 30}\n";
    configure(&c, sections);
    c
}

/// The member `usage` of a job's JSON.
fn usage(c: &Cluster, id: u32) -> Value {
    let output = c.ok("cjobs", &["-a", "--json", &id.to_string()]);
    let job: Value = serde_json::from_str(&output).unwrap();
    job["usage"].clone()
}

/// Takes what a job sends and answers.
fn answer(mut job: TcpStream) -> TcpStream {
    job.read_exact(&mut vec![0; OUT]).unwrap();
    job.write_all(&vec![0; IN]).unwrap();
    job
}

#[test]
fn network_traffic_of_a_job_is_counted_and_survives_its_connection_and_a_restart() {
    if let Err(e) = corral::sys::sockets::connections() {
        return println!("skipped: {e}");
    }
    let c = cluster();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (close, go) = (c.work().join("close"), c.work().join("go"));
    let wait =
        |file: &std::path::Path| format!("until [ -e {} ]; do sleep 0.1; done", file.display());
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}; head -c {OUT} /dev/zero >&3; head -c {IN} <&3 \
         >/dev/null; {}; exec 3>&-; {}",
        wait(&close),
        wait(&go)
    );
    let id = c.csub(&[&format!("bash -c '{script}'")]);
    let (job, _) = listener.accept().unwrap();
    let job = answer(job);
    let (sent, received) = ((OUT >> 10) as u64, (IN >> 10) as u64);
    let counted = |u: &Value| {
        let n = |name: &str| u[name].as_u64().unwrap_or(0);
        (sent..sent + 64).contains(&n("net_out_kb"))
            && (received..received + 64).contains(&n("net_in_kb"))
    };
    until("the traffic is shown", || counted(&usage(&c, id)));
    let name = id.to_string();
    let long = c.ok("cjobs", &["-l", &name]).replace(['\n', ' '], "");
    assert!(
        long.contains(&format!("NETIN:{received}Kbytes;OUT:{sent}Kbytes")),
        "{long}"
    );
    let columns = ["-noheader", "-o", "net_in net_out gpu_util", &name];
    let columns = c.ok("cjobs", &columns);
    let columns: Vec<&str> = columns.split_whitespace().collect();
    assert_eq!(columns, ["3", "Mbytes", "10", "Mbytes", "-"]);
    let kept = c.local("h1").join("use.json");
    let text = || std::fs::read_to_string(&kept).unwrap_or_default();
    std::fs::write(&close, "").unwrap();
    drop(job);
    until("a closed connection stays counted", || {
        let doc: Value = serde_json::from_str(&text()).unwrap_or_default();
        doc["attempts"][0]["closed"][1].as_u64() >= Some(OUT as u64)
    });
    let exe = c.ps().into_iter().find(|p| p.role == "cbexe").unwrap();
    kill_9(exe.pid);
    c.dev_up("");
    std::fs::write(&go, "").unwrap();
    c.ok("cwait", &["-w", &format!("done({id})")]);
    assert!(counted(&usage(&c, id)), "{}\n{}", usage(&c, id), c.logs());
    until("nothing is kept of a job that is over", || {
        text().is_empty()
    });
}

/// A sensor of two GPUs on which the process in `pid` computes.
fn sensor(c: &Cluster, pid: &std::path::Path) {
    let script = format!(
        "#!/bin/sh\nwhile :; do\np=$(cat {0} 2>/dev/null)\na=${{p:+$p:97:714}}\nb=${{p:+$p:83:300}}\n\
         cat <<E\n- resource: gpu\n  value: [GPU-a, GPU-b]\n  processes: [\"$p\", \"$p\"]\n  \
         use: [\"$a\", \"$b\"]\n---\nE\nsleep 1; done\n",
        pid.display()
    );
    let path = c.dir().join("sbin/ress.host");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let aside = path.with_extension("new");
    std::fs::write(&aside, script).unwrap();
    std::fs::set_permissions(&aside, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(&aside, &path).unwrap();
}

#[test]
fn what_a_sensor_says_of_a_process_is_shown_with_its_job() {
    let c = cluster();
    let (pid, go) = (c.work().join("pid"), c.work().join("go"));
    sensor(&c, &pid);
    until_said(&c, &["cload", "-s", "gpu"], |output| {
        output.contains("[GPU-a,GPU-b]")
    });
    let script = format!(
        "echo $$ > {}; until [ -e {} ]; do sleep 0.2; done",
        pid.display(),
        go.display()
    );
    let id = c.csub(&["-R", "rusage[gpu=2]", &script]);
    let name = id.to_string();
    let is = |u: &Value, name: &str, due: u64| u[name].as_u64() == Some(due);
    until("both GPUs are shown", || {
        let u = usage(&c, id);
        is(&u, "gpu_util", 180) && is(&u, "gpu_mem_mb", 1014) && u["gpu_ms"].as_u64() > Some(0)
    });
    let long = c.ok("cjobs", &["-l", &name]).replace(['\n', ' '], "");
    assert!(long.contains("GPU:180%,1014Mbytes"), "{long}");
    assert!(long.contains("MAXGPUMEM:1014Mbytes"), "{long}");
    let columns = ["-noheader", "-o", "gpu_util gpu_mem max_gpu_mem", &name];
    let columns = c.ok("cjobs", &columns);
    let columns: Vec<&str> = columns.split_whitespace().collect();
    assert_eq!(columns, ["180", "1014", "Mbytes", "1014", "Mbytes"]);
    std::fs::remove_file(&pid).unwrap();
    until("it computes no more", || {
        let u = usage(&c, id);
        is(&u, "gpu_util", 0) && is(&u, "gpu_mem_mb", 0) && is(&u, "max_gpu_mem_mb", 1014)
    });
    std::fs::write(&go, "").unwrap();
    c.ok("cwait", &["-w", &format!("done({id})")]);
    until("it is in the accounting", || {
        let output = c.ok("cacct", &["--json", &name]);
        let record: Value =
            serde_json::from_str(output.lines().next().unwrap_or("")).unwrap_or_default();
        is(&record, "max_gpu_mem_mb", 1014) && record["gpu_ms"].as_u64() > Some(0)
    });
    let long = c.ok("cacct", &["-l", &name]);
    assert!(
        long.contains("GPU time: ") && long.contains("at most 1014 MB"),
        "{long}"
    );
}
