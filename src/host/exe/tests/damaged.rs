//! Damaged orders and reports: waiting orders are not lost, and starts that may be cancelled do not
//! begin.

use super::*;

fn number(exec: &Exec) -> Option<u64> {
    exec.reports.number()
}

fn told(exec: &Exec) -> String {
    let path = exec.setup.layout.reports("h1", number(exec).unwrap());
    std::fs::read_to_string(path).unwrap()
}

/// An unacknowledged end, recorded by `exec`.
fn unacknowledged(exec: &mut Exec, a: AttemptId) {
    let end = crate::record::report::Ended {
        a,
        code: Some(3),
        ..Default::default()
    };
    let over = table::Status::Ended(Box::new(end));
    exec.table.insert(a, table::Entry::new(over, (1, 1), false));
}

#[test]
fn damaged_reports_are_told_again_in_a_new_file_at_once_and_then_after_pauses() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    publish(&exec, 1, &[]);
    unacknowledged(&mut exec, first(3));
    exec.turn(true);
    let first_file = number(&exec).unwrap();
    // For a file that is closed nothing is done.
    exec.reports.renew(&exec.setup, (first_file - 1, 1, 90));
    assert_eq!(number(&exec), Some(first_file));
    exec.reports.renew(&exec.setup, (first_file, 1, 90));
    exec.turn(false);
    assert_eq!(number(&exec), Some(first_file + 1), "the first one at once");
    assert!(told(&exec).contains("\"k\":\"ended\""), "{}", told(&exec));
    // A disk that damages each file: pauses that double.
    let mut pauses = Vec::new();
    for _ in 0..3 {
        let before = number(&exec).unwrap();
        let now = clock::boot_ms();
        exec.reports.renew(&exec.setup, (before, 1, 90));
        exec.turn(false);
        assert_eq!(number(&exec), None, "before the pause is over");
        pauses.push((exec.reports.end_pauses() - now) / 1_000);
        exec.turn(false);
        assert_eq!(number(&exec), Some(before + 1));
    }
    assert_eq!(pauses, [2, 4, 8]);
    assert!(told(&exec).contains("\"k\":\"ended\""));
    // The directory was lost together with the number that the leader expects.
    exec.reports.renew(&exec.setup, (first_file + 70, 1, 0));
    exec.reports.end_pauses();
    exec.turn(false);
    assert_eq!(number(&exec), Some(first_file + 71));
}

#[test]
fn an_acknowledgement_of_the_file_before_says_nothing_of_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    publish(&exec, 1, &[]);
    unacknowledged(&mut exec, first(3));
    exec.turn(true);
    let part = number(&exec).unwrap();
    let damaged = Order::ReportsDamaged {
        part,
        seq: 1,
        at: 90,
    };
    publish(&exec, 2, &[damaged, Order::Ack { part, seq: 9 }]);
    publish(&exec, 1, &[Order::Next { part: 2 }]);
    (0..3).for_each(|_| {
        exec.turn(true);
    });
    assert_eq!(number(&exec), Some(part + 1));
    assert!(!exec.table.get(first(3)).unwrap().acked);
    assert!(told(&exec).contains("\"k\":\"ended\""));
}

/// A leader that orders it again has not read its end, even if the previous leader acknowledged it.
#[test]
fn an_ended_attempt_that_the_next_leader_orders_again_is_reported_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    publish(&exec, 1, &[spec(3), start(3)]);
    let a = first(3);
    unacknowledged(&mut exec, a);
    exec.turn(true);
    exec.table.get_mut(a).unwrap().acked = true;
    let ends = |exec: &Exec| told(exec).matches("\"k\":\"ended\"").count();
    let before = ends(&exec);
    for orders in [vec![spec(3), start(3)], vec![spec(3), start(3), start(3)]] {
        publish_in(2, &exec, 1, &orders);
        exec.turn(true);
        exec.turn(true);
        assert_eq!(ends(&exec), before + 1, "once for each leader");
    }
    assert!(exec.spawners.is_ready(), "it dies of the first task");
}

/// Flips a byte of the order after `orders` in part 1.
fn flip_the_last(exec: &Exec, orders: &[Order]) {
    publish(exec, 1, orders);
    let path = exec.setup.layout.orders("h1", 1, 1);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() - 40;
    bytes[at] ^= 1;
    fs::publish(&path, &bytes).unwrap();
}

/// The leader may have found damage in the current reports file too: then it reads no more of it.
#[test]
fn damaged_orders_are_reported_in_a_new_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    publish(&exec, 1, &[spec(1)]);
    unacknowledged(&mut exec, first(3));
    exec.turn(true);
    let before = number(&exec).unwrap();
    flip_the_last(&exec, &[spec(1), spec(2)]);
    exec.turn(true);
    assert_eq!(number(&exec), Some(before), "it may not be all there yet");
    exec.orders.age_for_tests(60_000);
    exec.turn(true);
    exec.turn(true);
    assert_eq!(number(&exec), Some(before + 1));
    let reports = told(&exec);
    assert!(reports.contains("\"k\":\"orders_damaged\""), "{reports}");
    assert!(
        reports.contains("\"k\":\"ended\""),
        "with all that it said: {reports}"
    );
}

#[test]
fn a_start_in_front_of_damage_waits_and_begins_only_if_it_is_still_in_force() {
    let cancel = |id| Order::Cancel { a: first(id) };
    for in_force in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut exec = deaf_executor(dir.path());
        flip_the_last(&exec, &[spec(1), start(1), cancel(1)]);
        (0..3).for_each(|_| {
            exec.turn(true);
        });
        assert_eq!(
            exec.spawners.deferred.len(),
            1,
            "what is damaged may be its cancellation"
        );
        assert!(exec.spawners.is_ready(), "it dies of the first task");
        let known = match in_force {
            true => vec![spec(1), start(1)],
            false => vec![spec(2)],
        };
        publish(&exec, 2, &known);
        exec.orders.go_to_part(2);
        exec.turn(true);
        assert!(exec.spawners.deferred.is_empty());
        let never = matches!(
            &exec.table.get(first(1)).unwrap().status,
            table::Status::NeverStarts(why) if why.contains("damaged")
        );
        assert_eq!(never, !in_force);
        assert!(in_force || told(&exec).contains("\"k\":\"never\""));
    }
}
