//! A host without its share, and two machines under one name.

use super::*;
use corral::record::load::{LoadDoc, encode};
use std::process::Output;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PROGRAMS: [&str; 2] = [env!("CARGO_BIN_EXE_cbexe"), env!("CARGO_BIN_EXE_cbls")];

fn start(c: &Cluster, program: &str) -> Child {
    Command::new(program)
        .env("CB_ENVDIR", c.path("etc"))
        .env_remove("CB_HOST")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

fn beat(c: &Cluster, beat: u64) {
    let doc = LoadDoc {
        host: "h1".into(),
        boot: "another machine's".into(),
        beat,
        every_ms: 1000,
        // Its clock is hours off: only the beat counts.
        t: 1,
        ..LoadDoc::default()
    };
    fs::publish(&c.layout.load("h1"), &encode(&doc).unwrap()).unwrap();
}

#[test]
fn of_two_machines_under_one_name_the_second_starts_nothing() {
    let mut c = Cluster::new();
    c.order(&[Cluster::start(1, &c.mark(1))]);
    beat(&c, 1);
    let lives = Arc::new(AtomicBool::new(true));
    let daemons: Vec<Child> = PROGRAMS.iter().map(|p| start(&c, p)).collect();
    std::thread::scope(|s| {
        s.spawn(|| {
            for n in 2.. {
                if !lives.load(Ordering::Relaxed) {
                    return;
                }
                beat(&c, n);
                clock::sleep_ms(1000);
            }
        });
        for d in daemons {
            let out = d.wait_with_output().unwrap();
            assert_eq!(out.status.code(), Some(5), "{}", said(&out));
            assert!(said(&out).contains("another machine"), "{}", said(&out));
        }
        lives.store(false, Ordering::Relaxed);
    });
    assert_eq!(c.marks(), "");
    // The other one is gone, or was this machine before it was restarted.
    c.start_exe();
    assert_eq!(c.end(1).code, Some(0));
}

#[test]
fn a_rerunnable_task_fences_itself_while_its_executor_is_dead() {
    let mut c = Cluster::new();
    c.limit_of_6s();
    c.order(&rerunnable_and_not());
    c.beat();
    c.start_exe();
    let (again, once) = (c.started(1), c.started(2));
    c.kill_exe();
    let began = clock::boot_ms();
    // As long as the share is written, nothing happens, for longer than the limit.
    while clock::boot_ms() - began < 7_000 {
        c.beat();
        clock::sleep_ms(100);
    }
    assert!(exists(again));
    let last = clock::boot_ms();
    c.beat();
    wait_gone(again);
    assert!(exists(once));
    assert!(clock::boot_ms() - last > 6_000, "too early");
    c.start_exe();
    assert_eq!(c.end(1).reason, TermReason::Fenced);
    assert_eq!(c.kill(2).reason, TermReason::Owner);
}
