//! The file that a task finds if it will be preempted.

use super::*;

fn warn(a: AttemptId, at: i64, n: u32) -> Order {
    Order::Warn {
        a,
        due: at,
        signal: 10,
        n,
        mark: 0,
    }
}

#[test]
fn a_warning_is_on_file_until_it_is_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    given(dir.path(), 7);
    let mut exec = deaf_executor(dir.path());
    let a = first(2);
    let status = table::Status::Sent(exec.spawners.log().unwrap());
    let mut entry = table::Entry::new(status, (1, 1), false);
    entry.given.boot = crate::sys::proc::boot_id().to_owned();
    exec.table.insert(a, entry);
    let path = exec.setup.local.warning_file(a);
    let at = crate::sys::clock::wall_ms() + 30_500;
    publish(&exec, 1, &[warn(a, at, 1)]);
    exec.turn(true);
    let text = String::from_utf8(fs::read_small(&path, 4096).unwrap()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["reason=preempt", &format!("at={}", at / 1000)]);
    let left: i64 = lines[2].strip_prefix("seconds=").unwrap().parse().unwrap();
    assert!((1..=30).contains(&left), "{text}");
    exec.take_warning((a, 0), 0, 2);
    assert!(!fs::exists(&path));
    exec.take_warning((a, 0), at, 1);
    assert!(!fs::exists(&path), "an order that is read again");
    exec.take_warning((a, 0), at, 3);
    assert!(fs::exists(&path));
    // What continues after a suspension is not about to be preempted.
    let resume = Order::Signal {
        a,
        act: crate::record::order::Act::Resume,
        reason: crate::model::TermReason::None,
        grace_ms: 0,
        n: 4,
        mark: 0,
    };
    publish(&exec, 1, &[warn(a, at, 1), resume]);
    exec.turn(true);
    assert!(!fs::exists(&path));
    exec.take_warning((a, 0), at, 5);
    assert!(fs::exists(&path));
    let end = crate::record::report::Ended {
        a,
        ..Default::default()
    };
    exec.ended(end);
    assert!(!fs::exists(&path), "it goes with the task");
}
