//! GPUs of NVIDIA, as the driver's library `libnvidia-ml.so.1` reports them.

use crate::model::{DeviceNode, Gpu, ProcessUse};
use crate::sys::clock;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

/// Major number of the nodes `/dev/nvidia0`, `/dev/nvidia1` ...; the minor number of each is the
/// driver's number of the GPU.
const MAJOR: u32 = 195;

/// Age up to which samples of the utilization by process are requested, us: a period of the sensor.
const SAMPLES_US: u64 = 15_000_000;

/// Opens the library; `None`: there is no driver.
pub(super) fn open() -> Result<Option<Nvml>, String> {
    match Nvml::init() {
        Ok(driver) => Ok(Some(driver)),
        Err(NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound) => Ok(None),
        Err(NvmlError::DriverNotLoaded) => Ok(None),
        Err(e) => Err(format!("NVIDIA's driver: {e}")),
    }
}

/// All GPUs; a divided GPU is replaced by its parts. A GPU that cannot be queried is left out.
pub(super) fn list(driver: &Nvml) -> Result<Vec<Gpu>, String> {
    let count = driver.device_count();
    let count = count.map_err(|e| {
        format!(
            "the NVIDIA driver does not return the number of GPUs: \
        {e}"
        )
    })?;
    let devices = (0..count).filter_map(|n| driver.device_by_index(n).ok());
    Ok(devices.flat_map(|device| units(&device)).collect())
}

fn units(device: &Device<'_>) -> Vec<Gpu> {
    // Without a name no program can select it.
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
        // All parts are used through the device node of the whole GPU.
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
        processes: processes(device),
    })
}

/// The processes that compute on it, with the usage of each. For parts of a GPU the driver does not
/// report utilization by process.
fn processes(device: &Device<'_>) -> Option<Vec<ProcessUse>> {
    let running = device.running_compute_processes().ok()?;
    if running.is_empty() {
        return Some(Vec::new());
    }
    let now = u64::try_from(clock::wall_ms()).unwrap_or(0);
    let since = (now * 1000).saturating_sub(SAMPLES_US);
    let samples = match device.process_utilization_stats(since) {
        Ok(samples) => Some(samples),
        // None of them was busy.
        Err(NvmlError::NotFound) => Some(Vec::new()),
        Err(_) => None,
    };
    let util = |pid: u32| {
        let of = samples.as_ref()?.iter().filter(|sample| sample.pid == pid);
        let newest = of.max_by_key(|sample| sample.timestamp);
        Some(newest.map_or(0, |sample| sample.sm_util.min(100)))
    };
    let each = running.iter().map(|process| ProcessUse {
        pid: process.pid,
        util: util(process.pid),
        mem_mb: match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes >> 20),
            UsedGpuMemory::Unavailable => None,
        },
    });
    Some(each.collect())
}

fn node(minor: u32) -> DeviceNode {
    DeviceNode {
        block: false,
        major: MAJOR,
        minor,
    }
}
