//! Conversion at the border to C: strings in, strings and numbers out, and panics, which stay
//! inside.
//!
//! Owns every limit: no incoming string is longer than [`TEXT_MAX`], nothing is written beyond the
//! length that the caller gives, and a truncated string ends at a character boundary, with a zero.

use super::codes::{Code, Problem, Result, language};
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Maximum length of a text that is accepted, and maximum number of texts in a list.
const TEXT_MAX: usize = 256 << 10;
const LIST_MAX: usize = 100_000;

/// A buffer of the caller for a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    start: *mut c_char,
    len: usize,
}

impl Buffer {
    /// # Safety
    /// `start` is null, or `len` bytes may be written there during the call.
    pub(crate) unsafe fn new(start: *mut c_char, len: usize) -> Buffer {
        let len = if start.is_null() { 0 } else { len };
        Buffer { start, len }
    }

    /// Maximum number of bytes of a text that fit.
    pub(crate) fn capacity(self) -> usize {
        self.len.saturating_sub(1)
    }

    /// Writes a text, cut to the size of the buffer.
    pub(crate) fn put(self, text: &str) {
        if self.len == 0 {
            return;
        }
        // For C, the text ends at the first zero.
        let text = text.split('\0').next().unwrap_or_default();
        let mut end = text.len().min(self.capacity());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        // SAFETY: `new` was promised `len` writable bytes; `end` is less, and the two memories do
        // not overlap, since one of them is Rust's.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), self.start, end);
            *self.start.add(end) = 0;
        }
    }

    /// Writes a message for a person, in the language of the locale.
    pub(crate) fn write_message(self, text: &str) {
        self.put(&language().translate(text));
    }

    /// Writes a text that must fit completely.
    pub(crate) fn put_whole(self, what: &str, text: &str) -> Result<()> {
        if self.len == 0 {
            return Err(Problem::argument(format!("no buffer for {what}")));
        }
        if text.len() > self.capacity() {
            return Err(Problem::argument(format!(
                "the buffer for {what} has {} bytes, {} are needed",
                self.len,
                text.len() + 1
            )));
        }
        self.put(text);
        Ok(())
    }
}

/// Runs the body of an exported function: a failure becomes its code and a text in `diagnosis`, a
/// panic an internal error.
pub(crate) fn answer(diagnosis: Buffer, body: impl FnOnce() -> Result<()>) -> c_int {
    let done = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let panic_text = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned());
        let panic_text = panic_text.or_else(|| payload.downcast_ref::<String>().cloned());
        let panic_text = panic_text.unwrap_or_default();
        // The payload of a panic may itself panic when it is dropped.
        std::mem::forget(payload);
        Err(Problem::new(
            Code::InternalError,
            format!("internal error of libdrmaa: {panic_text}"),
        ))
    });
    match done {
        Ok(()) => Code::Success.number(),
        Err(problem) => {
            diagnosis.write_message(&problem.text);
            problem.code.number()
        }
    }
}

/// The same for functions that return nothing.
pub(crate) fn without_result(body: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
        std::mem::forget(payload);
    }
}

/// A text of the caller.
///
/// # Errors
/// It is missing, not UTF-8, or too long.
///
/// # Safety
/// `text` is null or ends with a zero, and does not change during the call.
pub(crate) unsafe fn text(what: &str, text: *const c_char) -> Result<String> {
    if text.is_null() {
        return Err(Problem::argument(format!("{what} is NULL")));
    }
    // SAFETY: as promised by the caller.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    if bytes.len() > TEXT_MAX {
        return Err(Problem::argument(format!(
            "{what} has {} bytes, at most {TEXT_MAX} are allowed",
            bytes.len()
        )));
    }
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| Problem::argument(format!("{what} is not UTF-8 text")))?;
    Ok(text.to_owned())
}

/// A list of texts that ends with a null pointer.
///
/// # Errors
/// As [`text`]; or the list is too long.
///
/// # Safety
/// `list` is null or ends with a null pointer; each text before is as for [`text`].
pub(crate) unsafe fn texts(what: &str, list: *const *const c_char) -> Result<Vec<String>> {
    if list.is_null() {
        return Err(Problem::argument(format!("{what} is NULL")));
    }
    let mut all = Vec::new();
    loop {
        // SAFETY: the list has not ended before this index.
        let one = unsafe { *list.add(all.len()) };
        if one.is_null() {
            return Ok(all);
        }
        if all.len() == LIST_MAX {
            return Err(Problem::argument(format!(
                "{what} has more than {LIST_MAX} elements"
            )));
        }
        // SAFETY: as promised by the caller.
        all.push(unsafe { text(what, one) }?);
    }
}

/// Stores a value at the caller's address.
///
/// # Errors
/// The address is null.
///
/// # Safety
/// `address` is null or an address for a `T`.
pub(crate) unsafe fn store<T>(what: &str, address: *mut T, value: T) -> Result<()> {
    if address.is_null() {
        return Err(Problem::argument(format!("{what} is NULL")));
    }
    // SAFETY: as promised; the previous value there is the caller's and is not dropped.
    unsafe { address.write(value) };
    Ok(())
}

/// The object to which an opaque pointer of this library points.
///
/// # Errors
/// The pointer is null.
///
/// # Safety
/// `handle` is null or was returned by this library, is not released, and nothing else changes the
/// object.
pub(crate) unsafe fn object<'a, T>(what: &str, handle: *const T) -> Result<&'a T> {
    // SAFETY: as promised by the caller.
    unsafe { handle.as_ref() }.ok_or_else(|| Problem::argument(format!("{what} is NULL")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(len: usize, text: &str) -> Vec<u8> {
        let mut memory = [0x55u8; 8];
        // SAFETY: the stated length is at most that of the array.
        let buffer = unsafe { Buffer::new(memory.as_mut_ptr().cast(), len) };
        buffer.put(text);
        memory.to_vec()
    }

    #[test]
    fn a_text_is_cut_before_a_character_and_ends_with_a_zero() {
        assert_eq!(put(8, "abc"), b"abc\0UUUU");
        assert_eq!(put(4, "abcdef"), b"abc\0UUUU");
        assert_eq!(put(4, "ab\u{e9}"), b"ab\0UUUUU");
        assert_eq!(put(1, "abc"), b"\0UUUUUUU");
        assert_eq!(put(0, "abc"), b"UUUUUUUU");
        assert_eq!(put(8, "a\0bc"), b"a\0UUUUUU");
    }

    #[test]
    fn what_must_be_whole_is_refused_when_it_does_not_fit() {
        let mut memory = [0u8; 4];
        // SAFETY: the array has that length.
        let buffer = unsafe { Buffer::new(memory.as_mut_ptr().cast(), 4) };
        assert!(buffer.put_whole("an id", "123").is_ok());
        let problem = buffer.put_whole("an id", "1234").unwrap_err();
        assert_eq!(
            problem.text,
            "the buffer for an id has 4 bytes, 5 are needed"
        );
        // SAFETY: a null pointer is allowed.
        let none = unsafe { Buffer::new(std::ptr::null_mut(), 9) };
        assert!(none.put_whole("an id", "1").is_err());
    }

    #[test]
    fn a_panic_becomes_an_internal_error() {
        let mut memory = [0u8; 64];
        // SAFETY: the array has that length.
        let buffer = unsafe { Buffer::new(memory.as_mut_ptr().cast(), memory.len()) };
        assert_eq!(answer(buffer, || panic!("on purpose")), 1);
        assert!(memory.starts_with(b"internal error"), "{memory:?}");
        assert_eq!(answer(buffer, || Ok(())), 0);
    }

    #[test]
    fn messages_are_said_in_chinese_with_their_parts() {
        let translated = |text: &str| corral::api::Language::Chinese.translate(text).into_owned();
        // SAFETY: a null pointer is allowed.
        let problem = unsafe { text("the job template", std::ptr::null()) }.unwrap_err();
        assert_eq!(translated(&problem.text), "作业模板为 NULL");
        // SAFETY: it ends with a zero.
        let problem = unsafe { text("the name", c"\xff".as_ptr()) }.unwrap_err();
        assert_eq!(translated(&problem.text), "名称 不是 UTF-8 文本");
        assert_eq!(
            translated("job 7[2] is PEND: the job cannot be resumed: it is not suspended"),
            "作业 7[2] 的状态是 PEND：作业无法恢复：它没有挂起"
        );
        assert_eq!(
            translated("drmaa_output_path: '/tmp/x' is not of the form [host]:path"),
            "drmaa_output_path: '/tmp/x' 不是 [host]:path 的形式"
        );
    }

    #[test]
    fn lists_end_at_a_null_pointer() {
        let list = [c"a".as_ptr(), c"".as_ptr(), std::ptr::null()];
        // SAFETY: it ends with a null pointer.
        assert_eq!(unsafe { texts("x", list.as_ptr()) }.unwrap(), ["a", ""]);
        let bad = [c"\xff".as_ptr(), std::ptr::null()];
        // SAFETY: it ends with a null pointer.
        let problem = unsafe { texts("x", bad.as_ptr()) }.unwrap_err();
        assert_eq!(problem.code, Code::InvalidArgument);
    }
}
