//! The load of this machine: the built-in load indices and the static facts of a host.
//!
//! Owns reading of the kernel's tables and the differences between two samples. Never publishes
//! anything: `host` does.

use super::fs::read_small;
use std::path::Path;

/// One reading of the built-in load indices.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Load {
    /// Run queue length, average over 15 seconds.
    pub r15s: f64,
    /// Run queue length, average over 1 minute.
    pub r1m: f64,
    /// Run queue length, average over 15 minutes.
    pub r15m: f64,
    /// CPU use since the last reading, 0..1.
    pub ut: f64,
    /// Pages moved to and from swap per second.
    pub pg: f64,
    /// Disk traffic, kilobytes per second.
    pub io: f64,
    /// Users logged in.
    pub ls: u32,
    /// Minutes since the last key stroke on any terminal.
    pub it: f64,
    /// Free space of the temporary directory, MB.
    pub tmp: u64,
    /// Free swap, MB.
    pub swp: u64,
    /// Memory that is available without swapping, MB.
    pub mem: u64,
}

/// Facts that do not change while the machine is up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineFacts {
    /// Logical CPUs this process may use.
    pub ncpus: u32,
    /// Physical memory, MB.
    pub maxmem: u64,
    /// Swap, MB.
    pub maxswp: u64,
    /// Size of the temporary directory's file system, MB.
    pub maxtmp: u64,
    /// Disks, without memory and loop devices.
    pub ndisks: u32,
    /// Name of the CPU model.
    pub cpu_model: String,
    /// Machine type and system: `x86_64-linux`.
    pub arch: String,
    /// Kernel release.
    pub kernel: String,
}

const TMP: &str = "/tmp";

fn text(path: &str, limit: u64) -> String {
    let bytes = read_small(Path::new(path), limit).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The value in kB of a line `Key:  123 kB`.
fn meminfo(table: &str, key: &str) -> u64 {
    let line = table
        .lines()
        .find_map(|l| l.strip_prefix(key)?.strip_prefix(':'));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// Reads the static facts.
pub fn facts() -> MachineFacts {
    if super::platform::simulated() {
        return MachineFacts {
            ncpus: 4,
            maxmem: 16 << 10,
            arch: "x86_64-linux".to_owned(),
            ..MachineFacts::default()
        };
    }
    let mem = text("/proc/meminfo", 1 << 20);
    let cpu = text("/proc/cpuinfo", 16 << 20);
    let model = cpu.lines().find(|l| l.starts_with("model name"));
    let model = model.and_then(|l| Some(l.split_once(':')?.1.trim().to_string()));
    let tmp = super::statfs::disk_free(Path::new(TMP)).map_or(0, |d| d.total >> 20);
    MachineFacts {
        ncpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        maxmem: meminfo(&mem, "MemTotal") >> 10,
        maxswp: meminfo(&mem, "SwapTotal") >> 10,
        maxtmp: tmp,
        ndisks: disks(),
        cpu_model: model.unwrap_or_default(),
        arch: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        kernel: text("/proc/sys/kernel/osrelease", 256).trim().to_string(),
    }
}

fn disks() -> u32 {
    let names = super::fs::list_dir(Path::new("/sys/block"), 10_000).unwrap_or_default();
    let real = |n: &str| {
        !["loop", "ram", "zram", "sr", "fd"]
            .iter()
            .any(|p| n.starts_with(p))
    };
    names.iter().filter(|e| e.text().is_some_and(real)).count() as u32
}

/// Counters whose differences yield rates.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counters {
    at_ms: u64,
    busy: u64,
    total: u64,
    swapped_pages: u64,
    disk_kb: u64,
}

/// Takes readings; keeps the values with which the next one is compared.
#[derive(Debug, Default)]
pub struct Sampler {
    last: Option<Counters>,
    r15s: Option<f64>,
}

impl Sampler {
    /// Makes a sampler without history.
    pub fn new() -> Sampler {
        Sampler::default()
    }

    /// Takes a reading. Rates and `ut` are 0 in the first one.
    pub fn sample(&mut self) -> Load {
        if super::platform::simulated() {
            return Load {
                mem: 8 << 10,
                ..Load::default()
            };
        }
        let now = counters();
        let loadavg = text("/proc/loadavg", 256);
        let mem = text("/proc/meminfo", 1 << 20);
        let mut load = Load {
            ls: logged_in(),
            it: idle_minutes(),
            tmp: super::statfs::disk_free(Path::new(TMP)).map_or(0, |d| d.available >> 20),
            swp: meminfo(&mem, "SwapFree") >> 10,
            mem: meminfo(&mem, "MemAvailable") >> 10,
            ..Load::default()
        };
        let (r1m, r15m, running) = parse_loadavg(&loadavg);
        (load.r1m, load.r15m) = (r1m, r15m);
        let elapsed = self.last.map_or(0, |l| now.at_ms.saturating_sub(l.at_ms));
        load.r15s = decay(self.r15s, running, elapsed);
        self.r15s = Some(load.r15s);
        if let Some(last) = self.last {
            rates(&mut load, &last, &now);
        }
        self.last = Some(now);
        load
    }
}

/// Moves the 15 second average towards the current run queue length.
fn decay(old: Option<f64>, running: f64, elapsed_ms: u64) -> f64 {
    let Some(old) = old else { return running };
    let keep = (-(elapsed_ms as f64) / 15_000.0).exp();
    old * keep + running * (1.0 - keep)
}

fn rates(load: &mut Load, last: &Counters, now: &Counters) {
    let total = now.total.saturating_sub(last.total);
    if total > 0 {
        load.ut = now.busy.saturating_sub(last.busy) as f64 / total as f64;
    }
    let seconds = now.at_ms.saturating_sub(last.at_ms) as f64 / 1000.0;
    if seconds > 0.0 {
        load.pg = now.swapped_pages.saturating_sub(last.swapped_pages) as f64 / seconds;
        load.io = now.disk_kb.saturating_sub(last.disk_kb) as f64 / seconds;
    }
}

/// The 1 minute and 15 minute averages, and the number of runnable threads without this one.
fn parse_loadavg(text: &str) -> (f64, f64, f64) {
    let f: Vec<&str> = text.split_whitespace().collect();
    let num = |i: usize| f.get(i).and_then(|s| s.parse().ok()).unwrap_or(0.0);
    let running = f
        .get(3)
        .and_then(|s| s.split('/').next()?.parse::<f64>().ok())
        .unwrap_or(1.0);
    (num(0), num(2), (running - 1.0).max(0.0))
}

fn counters() -> Counters {
    let stat = text("/proc/stat", 16 << 20);
    let (busy, total) = parse_cpu_line(stat.lines().next().unwrap_or(""));
    let vm = text("/proc/vmstat", 1 << 20);
    let get = |key: &str| {
        let line = vm
            .lines()
            .find_map(|l| l.strip_prefix(key)?.strip_prefix(' '));
        line.and_then(|v| v.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    Counters {
        at_ms: super::clock::boot_ms(),
        busy,
        total,
        swapped_pages: get("pswpin") + get("pswpout"),
        disk_kb: get("pgpgin") + get("pgpgout"),
    }
}

/// Busy and total ticks of the line `cpu user nice system idle iowait ...`.
fn parse_cpu_line(line: &str) -> (u64, u64) {
    let v: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .filter_map(|s| s.parse().ok())
        .collect();
    // Guest time (fields 9 and 10) is already part of user time.
    let total: u64 = v.iter().take(8).sum();
    let idle: u64 = v.iter().skip(3).take(2).sum();
    (total - idle, total)
}

/// Number of users with an open login session (`utmp`), each counted once.
fn logged_in() -> u32 {
    const RECORD: usize = 384;
    const USER_PROCESS: i16 = 7;
    let bytes = read_small(Path::new("/var/run/utmp"), 8 << 20).unwrap_or_default();
    let mut names: Vec<&[u8]> = bytes
        .chunks_exact(RECORD)
        .filter(|r| i16::from_ne_bytes([r[0], r[1]]) == USER_PROCESS)
        .map(|r| &r[44..76])
        .collect();
    names.sort_unstable();
    names.dedup();
    names.len() as u32
}

/// Minutes since a terminal was last used; the time since boot if there is no terminal.
fn idle_minutes() -> f64 {
    use std::os::unix::fs::MetadataExt;
    let now = super::clock::wall_ms() / 1000;
    let uptime = (super::clock::boot_ms() / 1000) as i64;
    let dirs = [std::fs::read_dir("/dev/pts")];
    let idle = dirs
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| e.ok())
        .filter(|e| {
            e.file_name()
                .to_str()
                .is_some_and(|n| n.parse::<u32>().is_ok())
        })
        .filter_map(|e| e.metadata().ok())
        .map(|m| (now - m.atime()).max(0))
        .fold(uptime, i64::min);
    idle as f64 / 60.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_of_this_machine_is_plausible() {
        let mut s = Sampler::new();
        s.sample();
        super::super::clock::sleep_ms(30);
        let l = s.sample();
        assert!((0.0..=1.0).contains(&l.ut), "{l:?}");
        assert!(l.mem > 0 && l.r15s >= 0.0 && l.it >= 0.0, "{l:?}");
        let f = facts();
        assert!(
            f.ncpus >= 1 && f.maxmem >= l.mem && f.maxtmp >= l.tmp,
            "{f:?}"
        );
    }

    #[test]
    fn the_short_average_moves_towards_the_present() {
        assert_eq!(decay(None, 4.0, 0), 4.0);
        let half = decay(Some(0.0), 4.0, 10_397);
        assert!((half - 2.0).abs() < 0.01, "{half}");
    }

    #[test]
    fn cpu_line_counts_iowait_as_idle_and_guest_once() {
        assert_eq!(parse_cpu_line("cpu 10 0 5 80 5 0 0 0 10 0"), (15, 100));
    }

    #[test]
    fn loadavg_leaves_the_reader_out() {
        assert_eq!(parse_loadavg("0.50 0.40 0.30 3/100 999"), (0.5, 0.3, 2.0));
    }
}
