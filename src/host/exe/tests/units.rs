//! A start waits as long as another attempt on this host has one of its units.

use super::*;
use crate::task::spec::TaskSpec;

/// Adds an attempt of job `id` that was given to the spawner or, if `deferred`, waits to be.
pub(super) fn add(exec: &mut Exec, id: u32, units: &[&str], deferred: bool) {
    let a = first(id);
    let mut entry = table::Entry::new(table::Status::Sent(1), (1, 1), false);
    entry.given.units = units.iter().map(|unit| (*unit).to_owned()).collect();
    exec.table.insert(a, entry);
    if deferred {
        exec.spawners.deferred.push(TaskSpec {
            a,
            ..TaskSpec::default()
        });
    }
}

fn ready(exec: &mut Exec) -> Vec<u32> {
    exec.take_ready().iter().map(|task| task.a.j.id).collect()
}

#[test]
fn a_start_waits_for_the_end_of_the_attempt_that_has_its_unit() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    add(&mut exec, 1, &["gpu 0"], false);
    add(&mut exec, 2, &["gpu 0", "gpu 1"], true);
    add(&mut exec, 3, &["port 0"], true);
    add(&mut exec, 4, &[], true);
    // A later start may use a unit of an earlier one that has to wait for another unit anyway.
    add(&mut exec, 5, &["gpu 1"], true);
    assert_eq!(ready(&mut exec), [3, 4, 5]);
    assert_eq!(ready(&mut exec), [0; 0]);
    let end = |exec: &mut Exec, id: u32| {
        let end = crate::task::ending::unknown(first(id), Default::default(), "");
        exec.table
            .set(first(id), table::Status::Ended(Box::new(end)));
    };
    end(&mut exec, 1);
    assert_eq!(ready(&mut exec), [0; 0]);
    end(&mut exec, 5);
    assert_eq!(ready(&mut exec), [2]);
    assert!(exec.spawners.deferred.is_empty());
}

#[test]
fn parts_of_a_unit_are_used_together_up_to_the_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    add(&mut exec, 1, &["gpu 0 500"], false);
    add(&mut exec, 2, &["gpu 0"], true);
    add(&mut exec, 3, &["gpu 0 501"], true);
    add(&mut exec, 4, &["gpu 0 300", "gpu 0 200", "gpu 1 999"], true);
    add(&mut exec, 5, &["gpu 0 1"], true);
    assert_eq!(ready(&mut exec), [4]);
    let end = crate::task::ending::unknown(first(1), Default::default(), "");
    exec.table
        .set(first(1), table::Status::Ended(Box::new(end)));
    assert_eq!(ready(&mut exec), [5]);
}

#[test]
fn memory_of_a_unit_is_used_together_up_to_what_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    let unit = crate::record::host_units::UnitDoc {
        sizes: [("gpu_mem".to_owned(), 40)].into(),
        ..crate::record::host_units::UnitDoc::named("0")
    };
    exec.starter.units.units.insert("gpu".into(), vec![unit]);
    add(&mut exec, 1, &["gpu 0 250 gpu_mem=30"], false);
    add(&mut exec, 2, &["gpu 0 250 gpu_mem=11"], true);
    add(&mut exec, 3, &["gpu 0 250 gpu_mem=10"], true);
    add(&mut exec, 4, &["gpu 0 250"], true);
    // The size of the unit is not known: only the thousandths count.
    add(&mut exec, 5, &["gpu 1 500 gpu_mem=90"], true);
    add(&mut exec, 6, &["gpu 1 500 gpu_mem=90"], true);
    assert_eq!(ready(&mut exec), [3, 4, 5, 6]);
}

#[test]
fn units_are_named_with_the_part_that_an_attempt_has() {
    let units = |names: &[&str], part: u32| crate::model::Units {
        res: "gpu".into(),
        names: names.iter().map(|name| (*name).into()).collect(),
        part,
        ..Default::default()
    };
    let with_memory = crate::model::Units {
        amounts: vec![("gpu_mem".into(), 7)],
        ..units(&["4", "4"], 100)
    };
    let list = vec![
        units(&["0", "3"], 0),
        units(&["1", "1", "2"], 250),
        with_memory,
    ];
    let units = crate::record::order::TaskUnits {
        list,
        ..Default::default()
    };
    let named = [
        "gpu 0",
        "gpu 3",
        "gpu 1 500",
        "gpu 2 250",
        "gpu 4 200 gpu_mem=14",
    ];
    assert_eq!(super::super::unit_names::names_of(&units), named);
}

#[test]
fn the_ledger_remembers_units() {
    let dir = tempfile::tempdir().unwrap();
    let mut exec = deaf_executor(dir.path());
    add(&mut exec, 1, &["gpu GPU-a"], false);
    exec.rewrite();
    drop(exec);
    let exec = deaf_executor(dir.path());
    assert_eq!(exec.table.get(first(1)).unwrap().given.units, ["gpu GPU-a"]);
}
