//! The units that a task has on its host, as it finds them in its environment. Owns the names of
//! these variables; which units a task has is the scheduler's choice.

use crate::model::Units;
use crate::record::order::TaskUnits;

/// Begins the names of variables with a task's units.
pub(super) const PREFIX: &str = "CB_ASSIGN_";

/// The units that a task has on its host, by resource; GPUs as the libraries of their makers want
/// them.
pub(super) fn put(out: &mut Vec<String>, units: &TaskUnits) {
    for Units { res, names, .. } in &units.list {
        // A name of a variable has no point.
        let res = res.to_ascii_uppercase().replace('.', "_");
        out.push(format!("{PREFIX}{res}={}", names.join(",")));
    }
    let Some(gpus) = units.list.iter().find(|units| units.res == "gpu") else {
        return;
    };
    let number = |name: &String| name.bytes().all(|b| b.is_ascii_digit());
    let uuid = |name: &String| name.starts_with("GPU-") || name.starts_with("MIG-");
    let by_name = match units.by_place {
        true => gpus.names.iter().all(number),
        false => gpus.names.iter().all(|name| number(name) || uuid(name)),
    };
    let devices = match by_name {
        true => gpus.names.clone(),
        false => gpus.all_places().iter().map(u32::to_string).collect(),
    };
    let devices = devices.join(",");
    out.push("CUDA_DEVICE_ORDER=PCI_BUS_ID".to_owned());
    for name in ["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"] {
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
            names: names.iter().map(|n| (*n).to_owned()).collect(),
            places: places.to_vec(),
        }
    }

    #[test]
    fn a_task_finds_its_units_and_its_gpus_as_their_libraries_want_them() {
        let devices = |gpus: Units, by_place: bool| {
            let list = vec![gpus];
            let env = env_of(TaskUnits { list, by_place });
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
        // Numbers are the host's numbers, wherever they stand in its list.
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
            env_of(TaskUnits { list, by_place }),
            ["CB_ASSIGN_MY_PORT=9000"]
        );
        assert_eq!(env_of(TaskUnits::default()), [""; 0]);
    }
}
