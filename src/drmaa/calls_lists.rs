//! Exported: the lists that other calls return: names of attributes, values, ids of jobs.

use super::codes::{Code, Problem, Result};
use super::ffi::{self, Buffer, answer, without_result};
use std::ffi::{c_char, c_int};
use std::sync::{Mutex, PoisonError};

/// A list and how far it was read; all three opaque types of the standard are this one.
#[derive(Debug)]
pub(crate) struct List {
    texts: Vec<String>,
    next: Mutex<usize>,
}

impl List {
    /// Passes a list to C, which releases it.
    ///
    /// # Errors
    /// The address is null.
    ///
    /// # Safety
    /// `address` is null or an address for a pointer.
    pub(crate) unsafe fn return_list(texts: Vec<String>, address: *mut *mut List) -> Result<()> {
        if address.is_null() {
            return Err(Problem::argument("no place for the list"));
        }
        let next = Mutex::new(0);
        // SAFETY: as promised; the pointer is returned to `release`.
        unsafe {
            ffi::store(
                "the list",
                address,
                Box::into_raw(Box::new(List { texts, next })),
            )
        }
    }

    /// The next text; one that must be complete and does not fit remains the next one.
    fn next(&self, out: Buffer, whole: bool) -> Result<()> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(text) = self.texts.get(*next) else {
            return Err(Problem::plain(Code::NoMoreElements));
        };
        match whole {
            true => out.put_whole("a job ID", text)?,
            false => out.put(text),
        }
        *next += 1;
        Ok(())
    }
}

/// # Safety
/// `list` is null or a list; `value` has its length.
unsafe fn next(list: *const List, value: *mut c_char, value_len: usize, whole: bool) -> c_int {
    // SAFETY: there is no buffer for a diagnosis.
    let none = unsafe { Buffer::new(std::ptr::null_mut(), 0) };
    answer(none, || {
        // SAFETY: as promised.
        let (list, out) = unsafe {
            (
                ffi::object("the list", list)?,
                Buffer::new(value, value_len),
            )
        };
        if value.is_null() {
            return Err(Problem::argument("no buffer"));
        }
        list.next(out, whole)
    })
}

/// # Safety
/// `list` is null or a list; `size` is null or an address.
unsafe fn count(list: *const List, size: *mut usize) -> c_int {
    // SAFETY: there is no buffer for a diagnosis.
    let none = unsafe { Buffer::new(std::ptr::null_mut(), 0) };
    answer(none, || {
        // SAFETY: as promised.
        unsafe {
            let list = ffi::object("the list", list)?;
            ffi::store("size", size, list.texts.len())
        }
    })
}

/// # Safety
/// `list` is null, or a list that was not released.
unsafe fn release(list: *mut List) {
    if !list.is_null() {
        // SAFETY: it came from `return_list`, and C no longer uses it.
        without_result(|| drop(unsafe { Box::from_raw(list) }));
    }
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_get_next_attr_name(
    values: *const List,
    value: *mut c_char,
    value_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    unsafe { next(values, value, value_len, false) }
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_get_next_attr_value(
    values: *const List,
    value: *mut c_char,
    value_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    unsafe { next(values, value, value_len, false) }
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_get_next_job_id(
    values: *const List,
    value: *mut c_char,
    value_len: usize,
) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    unsafe { next(values, value, value_len, true) }
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_get_num_attr_names(values: *const List, size: *mut usize) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    unsafe { count(values, size) }
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_get_num_attr_values(values: *const List, size: *mut usize) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    unsafe { count(values, size) }
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_get_num_job_ids(values: *const List, size: *mut usize) -> c_int {
    // SAFETY: the caller keeps to drmaa.h.
    unsafe { count(values, size) }
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_release_attr_names(values: *mut List) {
    // SAFETY: the caller keeps to drmaa.h.
    unsafe { release(values) }
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_release_attr_values(values: *mut List) {
    // SAFETY: the caller keeps to drmaa.h.
    unsafe { release(values) }
}

/// # Safety
/// As drmaa.h says.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmaa_release_job_ids(values: *mut List) {
    // SAFETY: the caller keeps to drmaa.h.
    unsafe { release(values) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_to_its_end() {
        let mut list = std::ptr::null_mut();
        let mut memory = [0u8; 6];
        let (out, mut size) = (memory.as_mut_ptr().cast(), 9usize);
        // SAFETY: lists come from here, the buffer has that length.
        unsafe {
            List::return_list(vec!["12[3]".into(), "1234567".into()], &raw mut list).unwrap();
            assert_eq!(drmaa_get_num_job_ids(list, &raw mut size), 0);
            assert_eq!(drmaa_get_next_job_id(list, out, 6), 0);
            // Half an id would be another id; half a value is better than an endless loop.
            assert_eq!(
                drmaa_get_next_job_id(list, out, 6),
                Code::InvalidArgument.number()
            );
            assert_eq!(drmaa_get_next_attr_value(list, out, 6), 0);
            let over = drmaa_get_next_attr_value(list, out, 6);
            assert_eq!(over, Code::NoMoreElements.number());
            drmaa_release_job_ids(list);
            drmaa_release_job_ids(std::ptr::null_mut());
            let null = drmaa_get_next_attr_name(std::ptr::null(), out, 6);
            assert_eq!(null, Code::InvalidArgument.number());
        }
        assert_eq!((size, &memory), (2, b"12345\0"));
    }
}
