//! The memory of an executor does not grow with the jobs that it has run.

use super::*;

/// The leader's parts have a maximum size: each defines the specifications that it names.
#[test]
fn specifications_go_with_the_part_of_the_orders_that_defined_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    let mut most = 0;
    for part in 1..=12_u32 {
        let ids = (part - 1) * 100 + 1..=part * 100;
        let mut orders: Vec<Order> = ids.map(spec).collect();
        // Each part also has a specification that was used before.
        orders.push(spec(1));
        if part < 12 {
            let part = u64::from(part) + 1;
            orders.push(Order::Next { part });
        }
        publish(&exec, part.into(), &orders);
        exec.turn(true);
        most = most.max(exec.starter.spec_count());
        assert!(exec.starter.spec(1).is_some() && exec.starter.spec(part * 100).is_some());
    }
    assert_eq!(most, 101, "of 12 parts with 100 specifications each");
}

/// A part is read again from its first byte after the local directory could not be written.
#[test]
fn specifications_are_there_when_a_part_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    publish(&exec, 1, &[spec(1), spec(2), Order::Next { part: 2 }]);
    publish(&exec, 2, &[spec(2)]);
    exec.turn(true);
    exec.turn(true);
    assert!(exec.starter.spec(1).is_none() && exec.starter.spec(2).is_some());
    exec.orders.go_to_part(1);
    exec.turn(true);
    assert!(exec.starter.spec(2).is_some());
}
