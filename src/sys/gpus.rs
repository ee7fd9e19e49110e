//! The GPUs of this machine: NVIDIA's through its driver's library, AMD's through sysfs.
//!
//! The library is opened at run time, and nothing is linked to it: a host without it has no NVIDIA
//! GPUs. A value that a driver does not provide stays empty.

mod amd;
mod nvidia;

use crate::model::Gpu;
use std::path::Path;

/// The driver's library, kept open.
pub struct Gpus(Option<nvml_wrapper::Nvml>);

impl Gpus {
    /// Opens the available drivers.
    ///
    /// # Errors
    /// A driver is installed but does not answer.
    pub fn open() -> Result<Gpus, String> {
        nvidia::open().map(Gpus)
    }

    /// The current GPUs. `sys`: the root of sysfs.
    ///
    /// # Errors
    /// NVIDIA's driver does not return their number.
    pub fn list(&self, sys: &Path) -> Result<Vec<Gpu>, String> {
        let mut all = match &self.0 {
            Some(driver) => nvidia::list(driver)?,
            None => Vec::new(),
        };
        all.extend(amd::list(sys));
        Ok(all)
    }
}
