//! Floor 5: the drivers of a host: `cbls` (load, heartbeat), `cbexe` (executor), `cbtask` (the
//! spawner and its shepherds), `cbgpu` (a sensor). They communicate with the leader only through
//! files of the share, and with each other only through the host's local directory.

mod beats;
mod command_records;
pub mod exe;
pub mod gpu_sensor;
mod iso_limit;
pub mod local;
pub mod ls;
mod outputs;
mod relay;
mod sensors;
pub mod setup;
mod shepherd;
pub mod silence;
pub mod spawner;
mod tmp_dirs;
mod units_file;
