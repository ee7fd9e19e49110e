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
    /// Opens what there is.
    ///
    /// # Errors
    /// A driver is there and does not answer.
    pub fn open() -> Result<Gpus, String> {
        nvidia::open().map(Gpus)
    }

    /// The GPUs as they are now. `sys`: where sysfs is.
    ///
    /// # Errors
    /// NVIDIA's driver does not say how many there are.
    pub fn list(&self, sys: &Path) -> Result<Vec<Gpu>, String> {
        let mut all = match &self.0 {
            Some(driver) => nvidia::list(driver)?,
            None => Vec::new(),
        };
        all.extend(amd::list(sys));
        Ok(all)
    }
}
