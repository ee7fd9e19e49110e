//! GPUs of NVIDIA, as the driver's library `libnvidia-ml.so.1` says.

use crate::model::{DeviceNode, Gpu};
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

/// Major number of the nodes `/dev/nvidia0`, `/dev/nvidia1` ...; the minor number of each is the
/// driver's number of the GPU.
const MAJOR: u32 = 195;

/// Opens the library; `None`: there is no driver.
pub(super) fn open() -> Result<Option<Nvml>, String> {
    match Nvml::init() {
        Ok(driver) => Ok(Some(driver)),
        Err(NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound) => Ok(None),
        Err(NvmlError::DriverNotLoaded) => Ok(None),
        Err(e) => Err(format!("NVIDIA's driver: {e}")),
    }
}

/// All of them, parts in the place of a GPU that is divided. One that fails is left out.
pub(super) fn look(driver: &Nvml) -> Result<Vec<Gpu>, String> {
    let count = driver.device_count();
    let count = count.map_err(|e| format!("NVIDIA's driver does not count its GPUs: {e}"))?;
    let devices = (0..count).filter_map(|n| driver.device_by_index(n).ok());
    Ok(devices.flat_map(|device| units(&device)).collect())
}

fn units(device: &Device<'_>) -> Vec<Gpu> {
    // Without a name no program can choose it.
    let Some(whole) = unit(device) else {
        return Vec::new();
    };
    let divided = device.mig_mode().is_ok_and(|mode| mode.current == 1);
    if !divided {
        return vec![whole];
    }
    let most = device.mig_device_count().unwrap_or(0);
    let parts = (0..most).filter_map(|n| device.mig_device_by_index(n).ok());
    let parts = parts.filter_map(|part| unit(&part));
    let of = |part: Gpu| Gpu {
        part: true,
        celsius: whole.celsius,
        // All parts are reached through the node of the whole.
        devices: whole.devices.clone(),
        model: match part.model.is_empty() {
            true => whole.model.clone(),
            false => part.model.clone(),
        },
        ..part
    };
    parts.map(of).collect()
}

fn unit(device: &Device<'_>) -> Option<Gpu> {
    let busy = device.utilization_rates();
    Some(Gpu {
        unit: device.uuid().ok()?,
        model: device.name().unwrap_or_default(),
        part: false,
        memory_mb: device.memory_info().ok().map(|memory| memory.total >> 20),
        devices: device.minor_number().into_iter().map(node).collect(),
        busy: busy.ok().map(|rates| rates.gpu),
        celsius: device.temperature(TemperatureSensor::Gpu).ok(),
        processes: device
            .running_compute_processes()
            .ok()
            .map(|all| all.iter().map(|process| process.pid).collect()),
    })
}

fn node(minor: u32) -> DeviceNode {
    DeviceNode {
        block: false,
        major: MAJOR,
        minor,
    }
}
