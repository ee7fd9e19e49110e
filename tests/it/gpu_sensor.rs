//! `cbgpu` with a library that takes the place of the driver of NVIDIA, and a tree in that of sysfs.

use crate::cluster::text;
use std::path::Path;
use std::process::{Command, Output};

/// A driver with four GPUs: an H200 that works, one that is divided into two parts, one that fell
/// off the bus, and an old one that tells little.
const DRIVER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
typedef long dev;
struct memory { unsigned version; unsigned long long total, reserved, free, used; };
int nvmlInit_v2(void) { return getenv("FAKE_ABSENT") ? 9 : 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 4; return getenv("FAKE_LOST") ? 15 : 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, dev *d) { *d = i + 1; return i == 2 ? 15 : 0; }
int nvmlDeviceGetUUID(dev d, char *s, unsigned n) {
    snprintf(s, n, "%s-%ld", d > 10 ? "MIG" : "GPU", d);
    return 0;
}
int nvmlDeviceGetName(dev d, char *s, unsigned n) {
    snprintf(s, n, "%s", d > 10 ? "" : d == 4 ? "NVIDIA K80" : "NVIDIA H200");
    return 0;
}
int nvmlDeviceGetMemoryInfo_v2(dev d, struct memory *m) {
    m->total = (d > 10 ? 1000ULL * d : 140000ULL) << 20;
    m->free = 1;
    return d == 4 ? 3 : 0;
}
int nvmlDeviceGetUtilizationRates(dev d, unsigned *rates) { *rates = 37; return d == 1 ? 0 : 3; }
int nvmlDeviceGetTemperature(dev d, int sensor, unsigned *t) { *t = 50 + d; return d > 10 ? 3 : 0; }
struct process { unsigned pid; unsigned long long memory; unsigned gpu, compute; };
int nvmlDeviceGetComputeRunningProcesses_v3(dev d, unsigned *n, struct process *list) {
    if (d != 1 || *n < 3 || !list) { *n = d == 1 ? 3 : 0; return d == 1 ? 7 : 0; }
    for (*n = 0; *n < 3; ++*n) {
        list[*n].pid = 100 + *n;
        list[*n].memory = *n == 2 ? ~0ULL : (700ULL + *n) << 20;
    }
    return 0;
}
struct sample { unsigned pid; unsigned long long time; unsigned sm, memory, encoder, decoder; };
int nvmlDeviceGetProcessUtilization(dev d, struct sample *list, unsigned *n, unsigned long long since) {
    if (getenv("FAKE_IDLE")) return 6;
    /* Microseconds since 1970, of the last minute. */
    if (since / 1000000 + 60 < (unsigned long long)time(NULL)) return 2;
    if (*n < 2 || !list) { *n = 2; return 7; }
    *n = 2;
    list[0] = (struct sample){100, 9, 97};
    list[1] = (struct sample){100, 8, 5};
    return 0;
}
int nvmlDeviceGetMinorNumber(dev d, unsigned *n) { *n = 7 - d; return d == 4 ? 3 : 0; }
int nvmlDeviceGetMigMode(dev d, unsigned *now, unsigned *later) {
    *now = *later = d == 2;
    return d == 4 ? 3 : 0;
}
int nvmlDeviceGetMaxMigDeviceCount(dev d, unsigned *n) { *n = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(dev d, unsigned i, dev *part) {
    *part = 20 + i;
    return i == 0 || i == 5 ? 0 : 6;
}
"#;

/// Builds the library below `dir`.
fn driver(dir: &Path) {
    let source = dir.join("driver.c");
    std::fs::write(&source, DRIVER).unwrap();
    let library = dir.join("libnvidia-ml.so.1");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source);
    assert!(cc.status().unwrap().success());
}

fn cbgpu(dir: &Path, env: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cbgpu"))
        .arg("--once")
        .env("LD_LIBRARY_PATH", dir)
        .env("SYS", dir.join("sys"))
        .envs(env.iter().copied())
        .output()
        .unwrap()
}

fn amd(dir: &Path) {
    let card = dir.join("sys/class/drm/card0/device");
    std::fs::create_dir_all(&card).unwrap();
    for (name, value) in [
        ("vendor", "0x1002"),
        ("mem_info_vram_total", "17163091968"),
        ("mem_info_vram_used", "0"),
        ("gpu_busy_percent", "90"),
        ("unique_id", "7d8f6b1c2a3e4f50"),
        ("product_name", "AMD Instinct MI50"),
    ] {
        std::fs::write(card.join(name), format!("{value}\n")).unwrap();
    }
}

/// Lines `resource value` of what it prints, once `ress-check` has taken it.
fn values(out: &Output) -> Vec<String> {
    assert!(out.status.success(), "{}", text(out));
    let printed = String::from_utf8(out.stdout.clone()).unwrap();
    crate::shipped_sensors::check(&out.stdout);
    let items = printed.split("- resource: ").skip(1);
    let value = |item: &str| {
        let value = item.lines().find_map(|l| l.strip_prefix("  value: "));
        format!("{} {}", item.lines().next().unwrap(), value.unwrap())
    };
    items.map(value).collect()
}

#[test]
fn gpus_of_both_makers_are_counted_with_what_their_drivers_say() {
    let dir = tempfile::tempdir().unwrap();
    driver(dir.path());
    let out = cbgpu(dir.path(), &[]);
    let nvidia = [
        "gpu [\"GPU-1\", \"MIG-20\", \"MIG-25\", \"GPU-4\"]",
        "gpu_mem [140000, 20000, 25000, 0]",
        "gpu_util 0.37",
        "gpu_temp 54",
        "gpu_procs 3",
        "gpu_mig 2",
        "gpu_model \"NVIDIA H200, NVIDIA K80\"",
    ];
    assert_eq!(values(&out), nvidia, "two parts stand for the divided one");
    let stdout = String::from_utf8_lossy(&out.stdout).into_owned();
    for of_units in [
        "  devices: [\"195:6\", \"195:5\", \"195:5\", \"\"]\n",
        "  processes: [\"100 101 102\", \"\", \"\", \"\"]\n",
        "  use: [\"100:97:700 101:0:701 102:0:-\", \"\", \"\", \"\"]\n",
    ] {
        assert!(stdout.contains(of_units), "{stdout}");
    }
    let idle = cbgpu(dir.path(), &[("FAKE_IDLE", "1")]);
    let stdout = String::from_utf8_lossy(&idle.stdout).into_owned();
    assert!(
        stdout.contains("  use: [\"100:0:700 101:0:701 102:0:-\""),
        "{stdout}"
    );
    amd(dir.path());
    let both = values(&cbgpu(dir.path(), &[]));
    let units = "gpu [\"GPU-1\", \"MIG-20\", \"MIG-25\", \"GPU-4\", \"GPU-7d8f6b1c2a3e4f50\"]";
    assert_eq!((&both[0][..], &both[2][..]), (units, "gpu_util 0.90"));
    // The library is there, the kernel's module is not.
    let alone = cbgpu(dir.path(), &[("FAKE_ABSENT", "1")]);
    assert_eq!(values(&alone)[0], "gpu [\"GPU-7d8f6b1c2a3e4f50\"]");
    assert!(values(&alone).contains(&"gpu_model \"AMD Instinct MI50\"".to_owned()));
}

#[test]
fn without_a_gpu_it_says_so_and_with_a_broken_driver_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let out = cbgpu(dir.path(), &[]);
    assert_eq!(out.status.code(), Some(69), "{}", text(&out));
    let complaint = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.stdout.is_empty() && complaint.starts_with("cbgpu: no GPU found"));
    assert_eq!(complaint.lines().count(), 1);
    driver(dir.path());
    let out = cbgpu(dir.path(), &[("FAKE_LOST", "1")]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out));
    assert!(text(&out).contains("the NVIDIA driver does not return the number of GPUs"));
}
