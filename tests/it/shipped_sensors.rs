//! The sensors of `ress.d/` with set data: what they print, that `cadmin ress-check` takes it, and
//! that those which have nothing to measure say so.

use crate::cluster::text;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Directories that take the place of `/proc` and `/sys`, and programs that come first.
struct Bed(tempfile::TempDir);

impl Bed {
    fn new() -> Bed {
        Bed(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn program(&self, name: &str, script: &str) {
        self.put(&format!("bin/{name}"), &format!("#!/bin/sh\n{script}\n"));
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.0.path().join("bin").join(name), mode).unwrap();
    }

    /// The first pause puts `next` in the place of `now`, the second one ends the sensor.
    fn change_once(&self, next: &str, now: &str) {
        let (next, now, done) = (self.path(next), self.path(now), self.path("done"));
        let script = format!("[ -e {done} ] && exit 1\ntouch {done}\ncp {next} {now}");
        self.program("sleep", &script);
    }

    fn run(&self, sensor: &str, env: &[(&str, &str)]) -> Output {
        Command::new(Path::new("ress.d").join(sensor))
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", self.path("bin")))
            .env("PROC", self.path("proc"))
            .env("SYS", self.path("sys"))
            .envs(env.iter().copied())
            .output()
            .unwrap()
    }

    /// What it prints, once the check has taken it.
    fn printed(&self, sensor: &str, env: &[(&str, &str)]) -> String {
        let out = self.run(sensor, env);
        check(&out.stdout);
        String::from_utf8(out.stdout).unwrap()
    }
}

pub fn check(printed: &[u8]) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_cb"))
        .args(["cadmin", "ress-check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(printed).unwrap();
    let out = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(printed);
    assert!(out.status.success(), "{printed}\n{}", text(&out));
}

#[test]
fn network_traffic_is_that_of_the_lowest_interfaces() {
    let bed = Bed::new();
    let table = |eth0: (u64, u64), eth1: u64| {
        let row = |name: &str, got: u64, sent: u64| {
            format!("  {name}: {got} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0\n")
        };
        let head = "Inter-|   Receive   |  Transmit\n face |bytes packets|bytes packets\n";
        let (lo, bond) = (row("lo", eth0.0, 7), row("bond0", eth0.0 + eth1, eth0.1));
        let both = row("eth0", eth0.0, eth0.1) + &row("eth1", eth1, 0);
        format!("{head}{lo}{both}{bond}")
    };
    bed.put("proc/net/dev", &table((1_000, 5_000_000_000), 70));
    bed.put(
        "next",
        &table((1_000 + 2048, 5_000_000_000 + 1024), 70 + 512),
    );
    bed.put("sys/class/net/bond0/lower_eth0", "");
    bed.put("sys/class/net/eth0/device", "");
    bed.change_once("next", "proc/net/dev");
    let printed = bed.printed("netio.host.example", &[("EVERY", "2")]);
    let wanted = "- resource: netio\n  direction: increase\n  value: 1.8\n---\n";
    assert_eq!(printed, wanted, "3.5 KB in 2 s");
}

#[test]
fn disk_traffic_is_that_of_whole_disks() {
    let bed = Bed::new();
    let table = |sectors: u64| {
        let row = |name: &str, got: u64, put: u64| {
            format!("   8       0 {name} 5 0 {got} 3 9 0 {put} 4 0 1 2 0 0 0 0 0 0\n")
        };
        let disk = row("sda", 100 + sectors, 3 * sectors);
        disk + &row("sda1", 100 + sectors, 3 * sectors) + &row("dm-0", sectors, sectors)
    };
    bed.put("proc/diskstats", &table(0));
    bed.put("next", &table(1000));
    bed.put("sys/block/sda/device", "");
    bed.put("sys/block/dm-0/size", "");
    bed.change_once("next", "proc/diskstats");
    let printed = bed.printed("stio.host.example", &[("EVERY", "4")]);
    let wanted = "- resource: stio\n  direction: increase\n  value: 500.0\n---\n";
    assert_eq!(printed, wanted, "4000 sectors in 4 s");
}

#[test]
fn ports_on_which_something_listens_are_not_free() {
    let bed = Bed::new();
    let row = |address: &str, state: &str| {
        format!("   0: {address} 00000000:0000 {state} 00000000:00000000 00:00000000 0 0 0 1\n")
    };
    let head = "  sl  local_address rem_address   st tx_queue\n".to_owned();
    // 50001 listens, 50002 is one end of a connection, 50003 listens on version 6, 80 elsewhere.
    let four = head.clone() + &row("00000000:C351", "0A") + &row("0100007F:C352", "01");
    bed.put("proc/net/tcp", &(four + &row("00000000:0050", "0A")));
    let six = "00000000000000000000000000000000:C353";
    bed.put("proc/net/tcp6", &(head + &row(six, "0A")));
    bed.program("sleep", "exit 1");
    let range = [("FIRST", "50000"), ("LAST", "50009")];
    let printed = bed.printed("ports.host.example", &range);
    let wanted = "- resource: ports\n  description: free TCP ports 50000 to 50009\n  \
         assign: yes\n  value: [50000, 50002, 50004, 50005, 50006, 50007, 50008, 50009]\n---\n";
    assert_eq!(printed, wanted);
    let none = [("FIRST", "50001"), ("LAST", "50001")];
    let printed = bed.printed("ports.host.example", &none);
    assert!(printed.ends_with("  assign: yes\n  value: 0\n---\n"));
}

const LMSTAT: &str = "\
lmstat - Copyright (c) 1989-2020\n\
Users of ansys:  (Total of 10 licenses issued;  Total of 3 licenses in use)\n\
\n  \"ansys\" v2020.0, vendor: ansyslmd\n\
\x20   u1 h1 /dev/tty (v2020.0) (lic/27000 101), start Mon 11/2 9:00, 3 licenses\n\
Users of hf-solver:  (Total of 1 license issued;  Total of 1 license in use)\n\
Users of hf.solver:  (Total of 5 licenses issued;  Total of 1 license in use)\n\
Users of node:  (Uncounted, node-locked)\n\
Users of broken:  (Error: 2 licenses, unsupported by licensed server)\n\
Users of over:  (Total of 2 licenses issued;  Total of 3 licenses in use)\n";

#[test]
fn licences_are_what_lmstat_says_is_not_in_use() {
    let bed = Bed::new();
    bed.put("lmstat.txt", LMSTAT);
    bed.put("crlf.txt", &LMSTAT.replace('\n', "\r\n"));
    bed.program("sleep", "exit 1");
    bed.program("lmstat", "[ \"$1 $2\" = '-a -c' ] && cat \"$3\"");
    for file in ["lmstat.txt", "crlf.txt"] {
        let command = format!("lmstat -a -c {}", bed.path(file));
        let printed = bed.printed("lmstat.master.example", &[("LMSTAT", &command)]);
        let of = |feature: &str, n: u32| {
            format!(
                "- resource: lic_{feature}\n  description: free licences of {feature}\n  \
                 value: {n}\n  locale: all\n"
            )
        };
        let all = [of("ansys", 7), of("hf_solver", 4), of("over", 0)];
        for one in &all {
            assert!(printed.contains(one), "{printed}");
        }
        assert_eq!(
            printed.matches("- resource").count(),
            all.len(),
            "{printed}"
        );
    }
    // A server that does not answer.
    bed.program(
        "lmstat",
        "echo 'Error getting status: Cannot connect'; exit 1",
    );
    let out = bed.run("lmstat.master.example", &[("LMSTAT", "lmstat -a")]);
    assert!(out.stdout.is_empty(), "{}", text(&out));
    assert!(text(&out).contains("lmstat lists no feature with a count"));
}

#[test]
fn a_sensor_with_nothing_to_measure_says_so_once_and_ends() {
    let bed = Bed::new();
    let all = [
        ("netio.host.example", "proc/net/dev on this host"),
        ("stio.host.example", "proc/diskstats on this host"),
        ("ports.host.example", "proc/net/tcp on this host"),
        (
            "lmstat.master.example",
            "there is no program lmstat on this host",
        ),
    ];
    for (sensor, output) in all {
        let out = bed.run(sensor, &[("LMSTAT", "lmstat -a")]);
        assert_eq!(out.status.code(), Some(69), "{sensor}: {}", text(&out));
        assert!(out.stdout.is_empty(), "{sensor}");
        let complaint = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(complaint.contains(output), "{sensor}: {complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
}
