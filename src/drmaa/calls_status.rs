//! Exported: decoding the status number that `drmaa_wait` returns.

use super::codes::Problem;
use super::ends;
use super::ffi::{Buffer, answer, store};
use std::ffi::{c_char, c_int};

/// # Safety
/// `address` is null or a address; the buffer has its length.
unsafe fn write_text(
    address: *mut c_int,
    value: impl FnOnce() -> c_int,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: as promised.
    let diagnosis = unsafe { Buffer::new(error_diagnosis, error_diag_len) };
    // SAFETY: as promised.
    answer(diagnosis, || unsafe {
        store("the place of the answer", address, value())
    })
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_wifexited(
    exited: *mut c_int,
    stat: c_int,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    let value = || c_int::from(ends::has_exited(stat));
    // SAFETY: the caller keeps to drmaa.h.
    unsafe { write_text(exited, value, error_diagnosis, error_diag_len) }
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_wexitstatus(
    exit_status: *mut c_int,
    stat: c_int,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    unsafe {
        write_text(
            exit_status,
            || ends::exit_code(stat),
            error_diagnosis,
            error_diag_len,
        )
    }
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_wifsignaled(
    signaled: *mut c_int,
    stat: c_int,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    let value = || c_int::from(ends::signal(stat).is_some());
    // SAFETY: the caller keeps to drmaa.h.
    unsafe { write_text(signaled, value, error_diagnosis, error_diag_len) }
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_wtermsig(
    signal: *mut c_char,
    signal_len: usize,
    stat: c_int,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    let [out, diagnosis] = unsafe {
        let out = Buffer::new(signal, signal_len);
        [out, Buffer::new(error_diagnosis, error_diag_len)]
    };
    answer(diagnosis, || {
        let Some(number) = ends::signal(stat) else {
            return Err(Problem::argument("no signal ended the job"));
        };
        out.put_whole(
            "the signal",
            &format!("SIG{}", corral::sys::signals::name(number)),
        )
    })
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_wcoredump(
    core_dumped: *mut c_int,
    stat: c_int,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    let value = || c_int::from(ends::has_core(stat));
    // SAFETY: the caller keeps to drmaa.h.
    unsafe { write_text(core_dumped, value, error_diagnosis, error_diag_len) }
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_wifaborted(
    aborted: *mut c_int,
    stat: c_int,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    let value = || c_int::from(ends::is_aborted(stat));
    // SAFETY: the caller keeps to drmaa.h.
    unsafe { write_text(aborted, value, error_diagnosis, error_diag_len) }
}
