//! libdrmaa: the C binding of DRMAA 1.0 (GFD.133) on top of Corral's own client code.
//!
//! Owns what the standard adds to the commands: sessions, job templates, waiting, error codes. Jobs
//! and requests are handled by `corral::api`. Never lets a panic reach the caller, never writes
//! beyond a buffer, prints nothing, catches no signal.
//!
//! The exported functions are in the modules `calls_*`; the others use no C types.

mod calls_jobs;
mod calls_lists;
mod calls_session;
mod calls_status;
mod calls_templates;
mod categories;
mod codes;
mod control;
mod dates;
mod ends;
mod ffi;
mod own_jobs;
mod paths;
mod request;
mod session;
mod template;
mod waiting;
