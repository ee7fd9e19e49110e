//! GPUs of AMD, as the kernel's driver shows them below `/sys/class/drm`.

use crate::model::{DeviceNode, Gpu};
use crate::sys::fs;
use std::path::Path;

/// Maximum size of a file that is read, in bytes, and maximum number of names in a directory.
const FILE_MAX: u64 = 4096;
const NAMES_MAX: usize = 10_000;
/// The PCI vendor id of AMD.
const VENDOR: &str = "0x1002";

/// All cards with memory of their own or of the host, in the order of their numbers.
pub(super) fn list(sys: &Path) -> Vec<Gpu> {
    let dir = sys.join("class/drm");
    let names = fs::list_dir(&dir, NAMES_MAX).unwrap_or_default();
    // Connectors are named card0-DP-1.
    let number = |name: &str| name.strip_prefix("card")?.parse::<u32>().ok();
    let mut cards: Vec<u32> = names.iter().filter_map(|e| number(e.text()?)).collect();
    cards.sort_unstable();
    let device = |n: u32| dir.join(format!("card{n}/device"));
    cards.into_iter().filter_map(|n| card(&device(n))).collect()
}

fn card(device: &Path) -> Option<Gpu> {
    if text(device, "vendor")? != VENDOR {
        return None;
    }
    let total = number(device, "mem_info_vram_total")?;
    let unit = match text(device, "unique_id") {
        Some(id) => format!("GPU-{id}"),
        // Cards without one are selected by their bus address.
        None => fs::canonical(device)
            .ok()?
            .file_name()?
            .to_string_lossy()
            .into_owned(),
    };
    let name = text(device, "product_name").filter(|name| !name.is_empty());
    let code = || text(device, "device").map(|code| format!("AMD {code}"));
    let hot = celsius(&device.join("hwmon"));
    Some(Gpu {
        unit,
        model: name.or_else(code).unwrap_or_default(),
        part: false,
        memory_mb: Some(total >> 20),
        devices: nodes(&device.join("drm")),
        busy: number(device, "gpu_busy_percent").and_then(|n| u32::try_from(n).ok()),
        celsius: hot,
        processes: None,
    })
}

/// Its nodes `/dev/dri/renderD128` and `card0`.
fn nodes(dir: &Path) -> Vec<DeviceNode> {
    let names = fs::list_dir(dir, NAMES_MAX).unwrap_or_default();
    let ours = |name: &&str| name.starts_with("renderD") || name.starts_with("card");
    let names = names.iter().filter_map(|e| e.text()).filter(ours);
    let nodes = names.filter_map(|name| text(&dir.join(name), "dev")?.parse().ok());
    let mut nodes: Vec<DeviceNode> = nodes.collect();
    nodes.sort_unstable();
    nodes
}

/// The files contain thousandths of a degree.
fn celsius(dir: &Path) -> Option<u32> {
    let names = fs::list_dir(dir, NAMES_MAX).ok()?;
    let values = names
        .iter()
        .filter_map(|e| number(&dir.join(e.text()?), "temp1_input"));
    values.filter_map(|n| u32::try_from(n / 1000).ok()).max()
}

fn text(dir: &Path, name: &str) -> Option<String> {
    let bytes = fs::read_small(&dir.join(name), FILE_MAX).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

fn number(dir: &Path, name: &str) -> Option<u64> {
    text(dir, name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_of_amd_are_read_and_those_of_others_are_not() {
        let d = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = d.path().join("class/drm").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        };
        for (n, vendor) in [(0, "0x8086"), (1, VENDOR), (10, VENDOR), (2, VENDOR)] {
            put(&format!("card{n}/device/vendor"), vendor);
        }
        put("card1-DP-1/device/vendor", VENDOR);
        for (name, text) in [
            ("mem_info_vram_total", "68702699520"),
            ("drm/renderD129/dev", "226:129"),
            ("drm/card1/dev", "226:1"),
            ("drm/card1-DP-1/status", "connected"),
            ("drm/controlD65/dev", "226:65"),
            ("gpu_busy_percent", "37"),
            ("unique_id", "7d8f6b1c2a3e4f50"),
            ("product_name", "AMD Instinct MI210"),
            ("hwmon/hwmon3/temp1_input", "41500"),
            ("hwmon/hwmon3/name", "amdgpu"),
        ] {
            put(&format!("card1/device/{name}"), text);
        }
        // Card 2 has no memory that the driver tells of; card 10 says little.
        put("card10/device/mem_info_vram_total", "2097152");
        put("card10/device/device", "0x73bf");
        let all = list(d.path());
        let first = Gpu {
            unit: "GPU-7d8f6b1c2a3e4f50".into(),
            model: "AMD Instinct MI210".into(),
            memory_mb: Some(65_520),
            devices: ["226:1", "226:129"].map(|n| n.parse().unwrap()).into(),
            busy: Some(37),
            celsius: Some(41),
            ..Gpu::default()
        };
        let second = Gpu {
            unit: "device".into(),
            model: "AMD 0x73bf".into(),
            memory_mb: Some(2),
            ..Gpu::default()
        };
        assert_eq!(all, [first, second]);
        assert_eq!(list(&d.path().join("none")), []);
    }
}
