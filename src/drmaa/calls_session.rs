//! Exported: sessions, and information about the library.

use super::ffi::{self, Buffer, answer, store};
use super::{codes, session};
use std::ffi::{c_char, c_int, c_uint};

/// Version of the standard.
const MAJOR: c_uint = 1;
const MINOR: c_uint = 0;
const SYSTEM: &str = concat!("Corral ", env!("CARGO_PKG_VERSION"));
const IMPLEMENTATION: &str = concat!("libdrmaa of Corral ", env!("CARGO_PKG_VERSION"));

/// # Safety
/// As drmaa.h says: texts end with zeros, buffers have their lengths.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_init(
    contact: *const c_char,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    let diagnosis = unsafe { Buffer::new(error_diagnosis, error_diag_len) };
    answer(diagnosis, || {
        let contact = match contact.is_null() {
            true => String::new(),
            // SAFETY: the caller keeps to drmaa.h.
            false => unsafe { ffi::text("the contact", contact) }?,
        };
        session::begin(&contact)
    })
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_exit(error_diagnosis: *mut c_char, error_diag_len: usize) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    let diagnosis = unsafe { Buffer::new(error_diagnosis, error_diag_len) };
    answer(diagnosis, session::end)
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_get_contact(
    contact: *mut c_char,
    contact_len: usize,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    let [contact, diagnosis] = unsafe {
        let out = Buffer::new(contact, contact_len);
        [out, Buffer::new(error_diagnosis, error_diag_len)]
    };
    answer(diagnosis, || {
        contact.put_whole("the contact", &session::contact())
    })
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_version(
    major: *mut c_uint,
    minor: *mut c_uint,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    let diagnosis = unsafe { Buffer::new(error_diagnosis, error_diag_len) };
    answer(diagnosis, || {
        // SAFETY: the caller keeps to drmaa.h.
        unsafe {
            store("major", major, MAJOR)?;
            store("minor", minor, MINOR)
        }
    })
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)] // the standard's name
unsafe extern "C" fn drmaa_get_DRM_system(
    drm_system: *mut c_char,
    drm_system_len: usize,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    let [out, diagnosis] = unsafe {
        let out = Buffer::new(drm_system, drm_system_len);
        [out, Buffer::new(error_diagnosis, error_diag_len)]
    };
    answer(diagnosis, || out.put_whole("the system", SYSTEM))
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)] // the standard's name
unsafe extern "C" fn drmaa_get_DRMAA_implementation(
    drmaa_impl: *mut c_char,
    drmaa_impl_len: usize,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    let [out, diagnosis] = unsafe {
        let out = Buffer::new(drmaa_impl, drmaa_impl_len);
        [out, Buffer::new(error_diagnosis, error_diag_len)]
    };
    answer(diagnosis, || {
        out.put_whole("the implementation", IMPLEMENTATION)
    })
}

/// The sentence of an error code; it lasts as long as the process.
#[unsafe(no_mangle)]
extern "C" fn drmaa_strerror(drmaa_errno: c_int) -> *const c_char {
    codes::translated(drmaa_errno, codes::language()).as_ptr()
}
