//! The variables with the units that a task has on its host. Owns the names of these variables; the
//! scheduler chooses the units.

use crate::model::{HeldUnit, Units, WHOLE_UNIT};
use crate::record::order::TaskUnits;
use std::collections::{BTreeMap, BTreeSet};

/// Prefix of the variables with a task's units.
pub(super) const PREFIX: &str = "CB_ASSIGN_";

/// Prefix of the variables with the amounts that a task has of each of its units.
pub(super) const PART_PREFIX: &str = "CB_PART_";

/// Variables that the libraries of GPU vendors read.
pub(super) const DEVICES: [&str; 3] = [
    "CUDA_DEVICE_ORDER",
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
];

/// A unit with everything that the task has of it.
struct TaskUnit<'a> {
    name: &'a str,
    position: Option<u32>,
    /// Thousandths of the unit.
    part: u32,
    /// Amounts in thousandths, by resource.
    amounts: BTreeMap<&'a str, i64>,
}

/// Adds the units that a task has on its host, by resource, and the variables for the libraries of
/// GPU vendors.
pub(super) fn put(out: &mut Vec<String>, units: &TaskUnits) {
    let mut done: Vec<&str> = Vec::new();
    for Units { res, .. } in &units.list {
        if done.contains(&res.as_str()) {
            continue;
        }
        done.push(res);
        let mine = mine(units, res);
        let names: Vec<&str> = mine.iter().map(|unit| unit.name).collect();
        out.push(format!("{PREFIX}{}={}", variable(res), names.join(",")));
        parts(out, res, &mine);
    }
    let gpus = mine(units, "gpu");
    if !gpus.is_empty() {
        devices(out, &gpus, units.by_place);
    }
}

/// A resource in the form of a variable's name, which contains no dot.
fn variable(res: &str) -> String {
    res.to_ascii_uppercase().replace('.', "_")
}

/// The units of a resource, each listed once.
fn mine<'a>(units: &'a TaskUnits, res: &str) -> Vec<TaskUnit<'a>> {
    let mut all: Vec<TaskUnit<'a>> = Vec::new();
    for of in units.list.iter().filter(|of| of.res == res) {
        for HeldUnit {
            name,
            position,
            part,
            times,
        } in of.held()
        {
            let at = all.iter().position(|unit| unit.name == name);
            let at = at.unwrap_or_else(|| {
                all.push(TaskUnit {
                    name,
                    position,
                    part: 0,
                    amounts: BTreeMap::new(),
                });
                all.len() - 1
            });
            all[at].part = all[at].part.saturating_add(part);
            for (own, amount) in &of.amounts {
                let sum = all[at].amounts.entry(own).or_default();
                *sum = sum.saturating_add(amount.saturating_mul(i64::from(times)));
            }
        }
    }
    all
}

/// The amounts that the task has of each unit, in the order of the names: parts, if a unit is not
/// whole, and other amounts.
fn parts(out: &mut Vec<String>, res: &str, mine: &[TaskUnit<'_>]) {
    let mut put = |res: &str, amounts: Vec<i64>| {
        let amounts = amounts.iter().map(|n| (*n as f64 / 1000.0).to_string());
        let amounts = amounts.collect::<Vec<_>>().join(",");
        out.push(format!("{PART_PREFIX}{}={amounts}", variable(res)));
    };
    if mine.iter().any(|unit| unit.part < WHOLE_UNIT) {
        put(res, mine.iter().map(|unit| i64::from(unit.part)).collect());
    }
    let own: BTreeSet<&str> = mine
        .iter()
        .flat_map(|unit| unit.amounts.keys().copied())
        .collect();
    for own in own {
        let amount = |unit: &TaskUnit<'_>| unit.amounts.get(own).copied().unwrap_or(0);
        put(own, mine.iter().map(amount).collect());
    }
}

fn devices(out: &mut Vec<String>, gpus: &[TaskUnit<'_>], by_place: bool) {
    let number = |name: &str| name.bytes().all(|b| b.is_ascii_digit());
    let uuid = |name: &str| name.starts_with("GPU-") || name.starts_with("MIG-");
    let by_name = match by_place {
        true => gpus.iter().all(|gpu| number(gpu.name)),
        false => gpus.iter().all(|gpu| number(gpu.name) || uuid(gpu.name)),
    };
    let devices: Vec<String> = match by_name {
        true => gpus.iter().map(|gpu| gpu.name.to_owned()).collect(),
        false => gpus
            .iter()
            .filter_map(|gpu| gpu.position)
            .map(|at| at.to_string())
            .collect(),
    };
    let devices = devices.join(",");
    out.push(format!("{}=PCI_BUS_ID", DEVICES[0]));
    for name in &DEVICES[1..] {
        out.push(format!("{name}={devices}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env_of(units: TaskUnits) -> Vec<String> {
        let mut env = Vec::new();
        put(&mut env, &units);
        env
    }

    fn units(res: &str, names: &[&str], places: &[u32]) -> Units {
        Units {
            host: "h1".into(),
            res: res.into(),
            names: names.iter().map(|n| (*n).into()).collect(),
            places: places.to_vec(),
            ..Units::default()
        }
    }

    #[test]
    fn a_task_finds_its_units_and_its_gpus_as_their_libraries_want_them() {
        let devices = |gpus: Units, by_place: bool| {
            let list = vec![gpus];
            let env = env_of(TaskUnits {
                list,
                by_place,
                ..TaskUnits::default()
            });
            assert_eq!(env[1], "CUDA_DEVICE_ORDER=PCI_BUS_ID");
            let cuda = env[2].strip_prefix("CUDA_VISIBLE_DEVICES=").unwrap();
            assert_eq!(env[3].strip_prefix("ROCR_VISIBLE_DEVICES="), Some(cuda));
            (env[0].clone(), cuda.to_owned())
        };
        let both = |assign: &str, cuda: &str| (format!("CB_ASSIGN_GPU={assign}"), cuda.to_owned());
        assert_eq!(
            devices(units("gpu", &["0", "3"], &[]), false),
            both("0,3", "0,3")
        );
        // Numbers are the host's numbers, whatever their positions in its list.
        assert_eq!(devices(units("gpu", &["3"], &[1]), true), both("3", "3"));
        let uuids = || units("gpu", &["GPU-a", "MIG-b"], &[2, 5]);
        assert_eq!(devices(uuids(), false), both("GPU-a,MIG-b", "GPU-a,MIG-b"));
        assert_eq!(devices(uuids(), true), both("GPU-a,MIG-b", "2,5"));
        assert_eq!(
            devices(units("gpu", &["left"], &[1]), false),
            both("left", "1")
        );
        let list = vec![units("my.port", &["9000"], &[0])];
        let by_place = false;
        assert_eq!(
            env_of(TaskUnits {
                list,
                by_place,
                ..TaskUnits::default()
            }),
            ["CB_ASSIGN_MY_PORT=9000"]
        );
        assert_eq!(env_of(TaskUnits::default()), [""; 0]);
    }

    #[test]
    fn a_task_finds_the_parts_of_its_units() {
        let part = |names: &[&str], part: u32, mb: i64| Units {
            part,
            amounts: vec![("gpu_mem".into(), mb * 1000)],
            ..units("gpu", names, &[])
        };
        let whole = part(&["3"], 0, 40960);
        // A resize added more of a unit of which it had a part.
        let list = vec![
            whole,
            part(&["0", "1"], 250, 10240),
            part(&["0"], 500, 1024),
        ];
        let by_place = false;
        assert_eq!(
            env_of(TaskUnits {
                list,
                by_place,
                ..TaskUnits::default()
            }),
            [
                "CB_ASSIGN_GPU=3,0,1",
                "CB_PART_GPU=1,0.75,0.25",
                "CB_PART_GPU_MEM=40960,11264,10240",
                "CUDA_DEVICE_ORDER=PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES=3,0,1",
                "ROCR_VISIBLE_DEVICES=3,0,1",
            ]
        );
    }
}
