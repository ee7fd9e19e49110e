//! Exported: job templates.

use super::calls_lists::List;
use super::ffi::{self, Buffer, answer, object};
use super::session;
use super::template::{SCALARS, Template, VECTORS};
use std::ffi::{c_char, c_int};

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_allocate_job_template(
    jt: *mut *mut Template,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    let diagnosis = unsafe { Buffer::new(error_diagnosis, error_diag_len) };
    answer(diagnosis, || {
        let context = session::current()?.host_context.clone();
        let made = Box::into_raw(Box::new(Template::new(context)));
        // SAFETY: the caller keeps to drmaa.h.
        let stored = unsafe { ffi::store("the place of the job template", jt, made) };
        if stored.is_err() {
            // SAFETY: it was created above, and the caller did not receive it.
            drop(unsafe { Box::from_raw(made) });
        }
        stored
    })
}

/// # Safety
/// As drmaa.h says: the template is not used afterwards.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_delete_job_template(
    jt: *mut Template,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    let diagnosis = unsafe { Buffer::new(error_diagnosis, error_diag_len) };
    answer(diagnosis, || {
        // SAFETY: the caller keeps to drmaa.h: it came from `drmaa_allocate_job_template`.
        unsafe {
            object("the job template", jt)?;
            drop(Box::from_raw(jt));
        }
        Ok(())
    })
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_set_attribute(
    jt: *const Template,
    name: *const c_char,
    value: *const c_char,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    let diagnosis = unsafe { Buffer::new(error_diagnosis, error_diag_len) };
    answer(diagnosis, || {
        // SAFETY: the caller keeps to drmaa.h.
        let (jt, name, value) = unsafe {
            let jt = object("the job template", jt)?;
            (
                jt,
                ffi::text("the name", name)?,
                ffi::text("the value", value)?,
            )
        };
        jt.set(&name, value)
    })
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_get_attribute(
    jt: *const Template,
    name: *const c_char,
    value: *mut c_char,
    value_len: usize,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    let diagnosis = unsafe { Buffer::new(error_diagnosis, error_diag_len) };
    answer(diagnosis, || {
        // SAFETY: the caller keeps to drmaa.h.
        let (jt, name, out) = unsafe {
            let jt = object("the job template", jt)?;
            (
                jt,
                ffi::text("the name", name)?,
                Buffer::new(value, value_len),
            )
        };
        out.put_whole("the value", &jt.get(&name)?)
    })
}

/// # Safety
/// As drmaa.h says: the list ends with a null pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_set_vector_attribute(
    jt: *const Template,
    name: *const c_char,
    value: *const *const c_char,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    let diagnosis = unsafe { Buffer::new(error_diagnosis, error_diag_len) };
    answer(diagnosis, || {
        // SAFETY: the caller keeps to drmaa.h.
        let (jt, name, values) = unsafe {
            let jt = object("the job template", jt)?;
            (
                jt,
                ffi::text("the name", name)?,
                ffi::texts("the value", value)?,
            )
        };
        jt.set_all(&name, values)
    })
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_get_vector_attribute(
    jt: *const Template,
    name: *const c_char,
    values: *mut *mut List,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    let diagnosis = unsafe { Buffer::new(error_diagnosis, error_diag_len) };
    answer(diagnosis, || {
        // SAFETY: the caller keeps to drmaa.h.
        unsafe {
            let jt = object("the job template", jt)?;
            List::return_list(jt.get_all(&ffi::text("the name", name)?)?, values)
        }
    })
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_get_attribute_names(
    values: *mut *mut List,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    unsafe {
        names(
            &SCALARS,
            values,
            Buffer::new(error_diagnosis, error_diag_len),
        )
    }
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_get_vector_attribute_names(
    values: *mut *mut List,
    error_diagnosis: *mut c_char,
    error_diag_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    unsafe {
        names(
            &VECTORS,
            values,
            Buffer::new(error_diagnosis, error_diag_len),
        )
    }
}

/// # Safety
/// `values` is null or an address for a pointer.
unsafe fn names(all: &[&str], values: *mut *mut List, diagnosis: Buffer) -> c_int {
    answer(diagnosis, || {
        session::current()?;
        let texts = all.iter().map(|name| (*name).to_owned()).collect();
        // SAFETY: as promised.
        unsafe { List::return_list(texts, values) }
    })
}
