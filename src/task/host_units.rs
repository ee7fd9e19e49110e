//! The information about each unit of a host besides its name: the device nodes that belong to it,
//! the processes that use it, its own resources. From cb.yaml and from the host's sensors. Owns
//! which of the two takes precedence.

use crate::config::{Config, ResourceValue};
use crate::record::host_units::{HostUnitsDoc, UnitDoc};
use crate::text::units;
use std::collections::BTreeMap;

/// Units of a host by resource, in their order.
pub type HostUnits = BTreeMap<String, Vec<UnitDoc>>;

/// The units of `host`. Their names are from cb.yaml if it lists units of the host; a sensor's
/// information is then assigned by position if the numbers of units are equal. Devices are from
/// cb.yaml if it defines them.
pub fn units_here(config: Option<&Config>, host: &str, doc: &HostUnitsDoc) -> HostUnits {
    let mut out = doc.kinds.clone();
    let Some(config) = config else {
        return out;
    };
    let entry = config.host(host);
    let stated = entry.into_iter().flat_map(|entry| &entry.resources);
    for (res, value) in stated.filter(|(res, _)| config.hosts.has_units(res)) {
        let names: Vec<String> = match value {
            ResourceValue::Units(names) => names.clone(),
            ResourceValue::Number(n) => (0..units::count(*n)).map(|n| n.to_string()).collect(),
            ResourceValue::Text(_) | ResourceValue::Sizes(_) => continue,
        };
        let sensed = out.remove(res).filter(|of| of.len() == names.len());
        let mut sensed = sensed.unwrap_or_default().into_iter();
        let units = names.into_iter().map(|name| UnitDoc {
            name,
            ..sensed.next().unwrap_or_default()
        });
        out.insert(res.clone(), units.collect());
    }
    for (res, decl) in &config.hosts.resources {
        if let Some(all) = out.get_mut(res).filter(|_| !decl.devices.is_empty()) {
            for (index, unit) in all.iter_mut().enumerate() {
                let of = |device: &String| {
                    let device = device.replace("%u", &unit.name);
                    device.replace("%n", &index.to_string())
                };
                unit.devices = decl.devices.iter().map(of).collect();
            }
        }
    }
    let stated = entry.into_iter().flat_map(|entry| &entry.resources);
    for (own, value) in stated {
        if let Some(all) = config.hosts.per_unit(own).and_then(|res| out.get_mut(res)) {
            put_sizes(all, own, value);
        }
    }
    out
}

fn put_sizes(all: &mut [UnitDoc], own: &str, value: &ResourceValue) {
    for (index, unit) in all.iter_mut().enumerate() {
        let size = match value {
            ResourceValue::Number(n) => Some(*n),
            ResourceValue::Sizes(sizes) => sizes.get(index).copied(),
            ResourceValue::Text(_) | ResourceValue::Units(_) => None,
        };
        if let Some(size) = size {
            let milli = (size * 1000.0).round() as i64;
            unit.sizes.insert(own.to_owned(), milli);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{OsNames, load};

    fn unit(name: &str, device: &str, mb: i64) -> UnitDoc {
        UnitDoc {
            devices: vec![device.to_owned()],
            sizes: BTreeMap::from([("gpu_mem".to_owned(), mb * 1000)]),
            ..UnitDoc::named(name)
        }
    }

    fn here(config: &str) -> HostUnits {
        let text = format!(
            "cluster: {{name: c, administrators: [root]}}\nqueues: [{{name: q}}]\n{config}"
        );
        let config = load(text.as_bytes(), "cb.yaml", &OsNames::ANY).unwrap();
        let gpus = vec![unit("GPU-a", "195:1", 10), unit("GPU-b", "195:0", 20)];
        let doc = HostUnitsDoc {
            boot: String::new(),
            kinds: BTreeMap::from([("gpu".to_owned(), gpus)]),
        };
        units_here(Some(&config.config), "h1", &doc)
    }

    fn gpus(config: &str) -> Vec<UnitDoc> {
        here(config).remove("gpu").unwrap()
    }

    #[test]
    fn a_sensor_says_which_devices_its_units_have() {
        let sensed = [unit("GPU-a", "195:1", 10), unit("GPU-b", "195:0", 20)];
        assert_eq!(gpus("hosts: [{names: h1}]\n"), sensed);
        assert_eq!(gpus("hosts: [{names: h2}]\n"), sensed);
    }

    #[test]
    fn units_of_cb_yaml_have_what_the_sensor_says_of_as_many() {
        let two = gpus("hosts: [{names: h1, resources: {gpu: 2}}]\n");
        assert_eq!(two, [unit("0", "195:1", 10), unit("1", "195:0", 20)]);
        // It is not known which of them the sensor means, so its information is not used.
        let three = gpus("hosts: [{names: h1, resources: {gpu: [x, y, z], gpu_mem: 5}}]\n");
        assert!(three.iter().all(|unit| unit.devices.is_empty()));
        assert_eq!(
            (&three[2].name[..], three[2].sizes["gpu_mem"]),
            ("z", 5_000)
        );
    }

    #[test]
    fn devices_of_cb_yaml_count_before_those_of_a_sensor() {
        let all = here(
            "resources:\n- {name: gpu, devices: '/dev/nvidia%n 195:%n'}\n\
             - {name: disk, assign: yes, devices: /dev/%u}\n\
             hosts: [{names: h1, resources: {disk: [sdb, sdc]}}]\n",
        );
        assert_eq!(all["gpu"][1].devices, ["/dev/nvidia1", "195:1"]);
        assert_eq!(all["disk"][1].devices, ["/dev/sdc"]);
        assert_eq!(all["gpu"][1].name, "GPU-b");
    }
}
