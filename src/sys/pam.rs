//! Checks a user's password and whether the account may be used now, by the system's PAM.
//!
//! Owns the calls of libpam, which is loaded when it is needed: programs neither link nor need it
//! otherwise. A module may block, load libraries and start threads, so the caller is a process that
//! does nothing else and ends afterwards. Opens no session and changes no password.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

/// The result of PAM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The password is correct and the account may be used; with the user's name as PAM returns it.
    Accepted(String),
    /// The user or password is wrong, or this cannot be determined. The reason is for the
    /// administrator's log.
    WrongPassword(String),
    /// The password is correct but has expired.
    PasswordExpired,
    /// The password is correct, but the account has expired or is locked.
    AccountExpired,
    /// The password is correct, but the account may not be used here and now. The reason is for the
    /// log.
    Denied(String),
    /// No check was made: PAM or the service does not exist.
    Unavailable(String),
}

/// The library's file; the number is the version of its interface, which has not changed since
/// 1999.
const LIBRARY: &CStr = c"libpam.so.0";

// Numbers of Linux-PAM's interface.
const SUCCESS: c_int = 0;
const BUF_ERR: c_int = 5;
const CONV_ERR: c_int = 19;
const NEW_PASSWORD_REQUIRED: c_int = 12;
const ACCOUNT_EXPIRED: c_int = 13;
const PASSWORD_EXPIRED: c_int = 27;
const PROMPT_ECHO_OFF: c_int = 1;
const ERROR_MSG: c_int = 3;
const TEXT_INFO: c_int = 4;
const ITEM_USER: c_int = 2;
const ITEM_REMOTE_HOST: c_int = 4;
const ITEM_FAIL_DELAY: c_int = 10;
/// Messages of modules are not shown, and accounts without a password are not admitted.
const FLAGS: c_int = 0x8000 | 0x0001;
/// Maximum number of messages that a module sends at once.
const MESSAGES_MAX: c_int = 32;

#[repr(C)]
struct Message {
    style: c_int,
    text: *const c_char,
}

#[repr(C)]
struct Response {
    text: *mut c_char,
    code: c_int,
}

type Converse =
    unsafe extern "C" fn(c_int, *const *const Message, *mut *mut Response, *mut c_void) -> c_int;

#[repr(C)]
struct Conversation {
    converse: Converse,
    data: *mut c_void,
}

type Handle = *mut c_void;
type Start =
    unsafe extern "C" fn(*const c_char, *const c_char, *const Conversation, *mut Handle) -> c_int;
type Step = unsafe extern "C" fn(Handle, c_int) -> c_int;
type SetItem = unsafe extern "C" fn(Handle, c_int, *const c_void) -> c_int;
type GetItem = unsafe extern "C" fn(Handle, c_int, *mut *const c_void) -> c_int;
type Text = unsafe extern "C" fn(Handle, c_int) -> *const c_char;

/// The functions of libpam that are used.
struct Library {
    start: Start,
    authenticate: Step,
    account: Step,
    end: Step,
    set_item: SetItem,
    get_item: GetItem,
    text: Text,
}

/// The data of the conversation.
struct Answers {
    password: CString,
    /// A module has asked for the password.
    was_asked: bool,
}

/// Loads libpam into this process.
fn load() -> Result<Library, String> {
    // SAFETY: a constant name; the library's initialisers may run.
    let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if library.is_null() {
        return Err(format!("{} cannot be loaded", LIBRARY.to_string_lossy()));
    }
    let find = |name: &CStr| {
        // SAFETY: a library that is open and stays open, and a constant name.
        let found = unsafe { libc::dlsym(library, name.as_ptr()) };
        match found.is_null() {
            true => Err(format!("libpam has no {}", name.to_string_lossy())),
            false => Ok(found),
        }
    };
    // SAFETY: these are functions of Linux-PAM's interface with these arguments.
    unsafe {
        Ok(Library {
            start: std::mem::transmute::<*mut c_void, Start>(find(c"pam_start")?),
            authenticate: std::mem::transmute::<*mut c_void, Step>(find(c"pam_authenticate")?),
            account: std::mem::transmute::<*mut c_void, Step>(find(c"pam_acct_mgmt")?),
            end: std::mem::transmute::<*mut c_void, Step>(find(c"pam_end")?),
            set_item: std::mem::transmute::<*mut c_void, SetItem>(find(c"pam_set_item")?),
            get_item: std::mem::transmute::<*mut c_void, GetItem>(find(c"pam_get_item")?),
            text: std::mem::transmute::<*mut c_void, Text>(find(c"pam_strerror")?),
        })
    }
}

/// Checks whether libpam can be loaded here. This loads it: call it in a separate process.
///
/// # Errors
/// The reason why it cannot.
pub fn can_be_asked() -> Result<(), String> {
    load().map(drop)
}

/// Checks a user with PAM: first whether the password is correct, then, only if it is, whether the
/// account may be used. `from` is the caller's address, for modules and their logs. It may block as
/// long as modules do; call it only in a process that ends afterwards.
pub fn check(service: &str, user: &str, password: &[u8], from: &str) -> Verdict {
    let wrong = || Verdict::WrongPassword("it cannot be a user or a password".to_owned());
    let (Ok(service), Ok(user)) = (CString::new(service), CString::new(user)) else {
        return wrong();
    };
    let (Ok(password), Ok(from)) = (CString::new(password), CString::new(from)) else {
        return wrong();
    };
    let library = match load() {
        Ok(library) => library,
        Err(why) => return Verdict::Unavailable(why),
    };
    let mut answers = Answers {
        password,
        was_asked: false,
    };
    let verdict = authenticate_with(&library, &service, &user, &from, &mut answers);
    forget(&mut answers.password);
    verdict
}

/// Overwrites the password.
fn forget(password: &mut CString) {
    let mut bytes = std::mem::take(password).into_bytes();
    for byte in &mut bytes {
        // SAFETY: a byte of this vector; a volatile write is not optimised away.
        unsafe { ptr::write_volatile(byte, 0) };
    }
}

fn authenticate_with(
    library: &Library,
    service: &CStr,
    user: &CStr,
    from: &CStr,
    answers: &mut Answers,
) -> Verdict {
    let conversation = Conversation {
        converse,
        data: ptr::from_mut(answers).cast(),
    };
    let mut handle: Handle = ptr::null_mut();
    // SAFETY: texts that end with NUL and a conversation, all of which outlive the handle.
    let begun = unsafe {
        (library.start)(
            service.as_ptr(),
            user.as_ptr(),
            &raw const conversation,
            &raw mut handle,
        )
    };
    if begun != SUCCESS || handle.is_null() {
        return Verdict::Unavailable(format!("PAM cannot be started ({begun})"));
    }
    // SAFETY: the handle is open until the end below; items are copied, except the function.
    let verdict = unsafe {
        if !from.is_empty() {
            (library.set_item)(handle, ITEM_REMOTE_HOST, from.as_ptr().cast());
        }
        // The delay after a wrong password is the caller's task, not this process's.
        let delay: unsafe extern "C" fn(c_int, libc::c_uint, *mut c_void) = no_delay;
        (library.set_item)(handle, ITEM_FAIL_DELAY, delay as *const c_void);
        check_account(library, handle, conversation.data.cast())
    };
    // SAFETY: the handle is not used afterwards.
    unsafe { (library.end)(handle, SUCCESS) };
    verdict
}

/// # Safety
/// `handle` is open, `answers` are those of its conversation.
unsafe fn check_account(library: &Library, handle: Handle, answers: *const Answers) -> Verdict {
    // SAFETY: as promised to this function; texts of libpam are its own constants.
    unsafe {
        let text = |code| match (library.text)(handle, code) {
            text if text.is_null() => format!("PAM returned {code}"),
            text => CStr::from_ptr(text).to_string_lossy().into_owned(),
        };
        // One check does not replace the other: after a failure here the account may still be
        // valid.
        let code = (library.authenticate)(handle, FLAGS);
        if code == NEW_PASSWORD_REQUIRED && (*answers).was_asked {
            return Verdict::PasswordExpired;
        }
        if code != SUCCESS {
            return Verdict::WrongPassword(text(code));
        }
        // A service for programs of root, such as that of su, asks root for no password.
        if !(*answers).was_asked {
            return Verdict::Unavailable(
                "the PAM service accepts users without a password".to_owned(),
            );
        }
        match (library.account)(handle, FLAGS) {
            SUCCESS => {}
            NEW_PASSWORD_REQUIRED | PASSWORD_EXPIRED => return Verdict::PasswordExpired,
            ACCOUNT_EXPIRED => return Verdict::AccountExpired,
            code => return Verdict::Denied(text(code)),
        }
        let mut user: *const c_void = ptr::null();
        if (library.get_item)(handle, ITEM_USER, &raw mut user) != SUCCESS || user.is_null() {
            return Verdict::Unavailable("PAM returned no user".to_owned());
        }
        match CStr::from_ptr(user.cast()).to_str() {
            Ok(name) => Verdict::Accepted(name.to_owned()),
            Err(_) => Verdict::Unavailable("PAM returned a user name that is not text".to_owned()),
        }
    }
}

unsafe extern "C" fn no_delay(_code: c_int, _microseconds: libc::c_uint, _data: *mut c_void) {}

/// Answers modules: the password to each question whose answer is not shown, nothing to messages;
/// any other question ends the conversation.
unsafe extern "C" fn converse(
    n: c_int,
    messages: *const *const Message,
    out: *mut *mut Response,
    data: *mut c_void,
) -> c_int {
    if !(1..=MESSAGES_MAX).contains(&n) || messages.is_null() || out.is_null() || data.is_null() {
        return CONV_ERR;
    }
    let n = n as usize;
    // SAFETY: libpam passes n messages and the answers of this conversation, and takes over n
    // responses allocated by malloc; after a failure they are freed here.
    unsafe {
        let answers = &mut *data.cast::<Answers>();
        let all: *mut Response = libc::calloc(n, size_of::<Response>()).cast();
        if all.is_null() {
            return BUF_ERR;
        }
        for at in 0..n {
            let style = (**messages.add(at)).style;
            let text = match style {
                PROMPT_ECHO_OFF => {
                    answers.was_asked = true;
                    libc::strdup(answers.password.as_ptr())
                }
                ERROR_MSG | TEXT_INFO => continue,
                _ => ptr::null_mut(),
            };
            if text.is_null() {
                drop_responses(all, n);
                return CONV_ERR;
            }
            (*all.add(at)).text = text;
        }
        *out = all;
    }
    SUCCESS
}

/// # Safety
/// `all` are n responses allocated by malloc.
unsafe fn drop_responses(all: *mut Response, n: usize) {
    // SAFETY: as promised; texts end with NUL.
    unsafe {
        for at in 0..n {
            let text = (*all.add(at)).text;
            if !text.is_null() {
                ptr::write_bytes(text, 0, libc::strlen(text));
                libc::free(text.cast());
            }
        }
        libc::free(all.cast());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn answered(styles: &[c_int], password: &str) -> Option<(Vec<Option<String>>, bool)> {
        let messages: Vec<Message> = styles
            .iter()
            .map(|style| Message {
                style: *style,
                text: c"?".as_ptr(),
            })
            .collect();
        let list: Vec<*const Message> = messages.iter().map(ptr::from_ref).collect();
        let mut answers = Answers {
            password: CString::new(password).unwrap(),
            was_asked: false,
        };
        let mut out: *mut Response = ptr::null_mut();
        let data: *mut c_void = ptr::from_mut(&mut answers).cast();
        // SAFETY: as libpam calls it.
        unsafe {
            let n = c_int::try_from(list.len()).unwrap();
            if converse(n, list.as_ptr(), &raw mut out, data) != SUCCESS {
                return None;
            }
            let text = |at: usize| {
                let text = (*out.add(at)).text;
                (!text.is_null()).then(|| CStr::from_ptr(text).to_str().unwrap().to_owned())
            };
            let all = (0..list.len()).map(text).collect();
            drop_responses(out, list.len());
            Some((all, answers.was_asked))
        }
    }

    #[test]
    fn only_questions_for_a_secret_get_the_password() {
        let some = |text: &str| Some(text.to_owned());
        let got = answered(&[TEXT_INFO, PROMPT_ECHO_OFF, ERROR_MSG], "pw").unwrap();
        assert_eq!(got, (vec![None, some("pw"), None], true));
        assert_eq!(answered(&[TEXT_INFO], "pw").unwrap(), (vec![None], false));
        // The name of a user, a question with a visible answer, and something newer.
        assert_eq!(answered(&[2], "pw"), None);
        assert_eq!(answered(&[PROMPT_ECHO_OFF, 7], "pw"), None);
        assert_eq!(answered(&[], "pw"), None);
        assert_eq!(answered(&[PROMPT_ECHO_OFF; 33], "pw"), None);
    }

    /// A fake libpam: its answers, and the calls that were made.
    #[derive(Clone, Copy, Default)]
    struct FakeLibrary {
        authenticate: c_int,
        account: c_int,
        asks_password: bool,
        conversation: usize,
        accounts_asked: u32,
    }

    thread_local! {
        static MADE_UP: Cell<FakeLibrary> = Cell::default();
    }

    fn change(f: impl FnOnce(&mut FakeLibrary)) -> FakeLibrary {
        let mut all = MADE_UP.get();
        f(&mut all);
        MADE_UP.set(all);
        all
    }

    unsafe extern "C" fn start(
        _: *const c_char,
        _: *const c_char,
        conversation: *const Conversation,
        handle: *mut Handle,
    ) -> c_int {
        change(|all| all.conversation = conversation as usize);
        // SAFETY: as libpam is called; any address but null is a handle.
        unsafe { *handle = ptr::dangling_mut::<c_void>() };
        SUCCESS
    }

    unsafe extern "C" fn authenticate(_: Handle, flags: c_int) -> c_int {
        assert_eq!(flags & 1, 1, "accounts without a password are not let in");
        let all = MADE_UP.get();
        if all.asks_password {
            let conversation = all.conversation as *const Conversation;
            let message = Message {
                style: PROMPT_ECHO_OFF,
                text: c"?".as_ptr(),
            };
            let (list, mut out) = ([ptr::from_ref(&message)], ptr::null_mut());
            // SAFETY: the conversation outlives the handle.
            unsafe {
                let data = (*conversation).data;
                assert_eq!(
                    ((*conversation).converse)(1, list.as_ptr(), &raw mut out, data),
                    0
                );
                drop_responses(out, 1);
            }
        }
        all.authenticate
    }

    unsafe extern "C" fn account(_: Handle, _: c_int) -> c_int {
        change(|all| all.accounts_asked += 1).account
    }

    unsafe extern "C" fn end(_: Handle, _: c_int) -> c_int {
        SUCCESS
    }

    unsafe extern "C" fn set_item(_: Handle, _: c_int, _: *const c_void) -> c_int {
        SUCCESS
    }

    unsafe extern "C" fn get_item(_: Handle, _: c_int, out: *mut *const c_void) -> c_int {
        // SAFETY: as libpam is called.
        unsafe { *out = c"alice".as_ptr().cast() };
        SUCCESS
    }

    unsafe extern "C" fn strerror(_: Handle, _: c_int) -> *const c_char {
        c"why".as_ptr()
    }

    /// The verdict for answers of authentication and account, and how often the account was
    /// checked.
    fn judged(codes: (c_int, c_int), asks_password: bool) -> (Verdict, u32) {
        MADE_UP.set(FakeLibrary {
            authenticate: codes.0,
            account: codes.1,
            asks_password,
            ..FakeLibrary::default()
        });
        let library = Library {
            start,
            authenticate,
            account,
            end,
            set_item,
            get_item,
            text: strerror,
        };
        let mut answers = Answers {
            password: c"pw".to_owned(),
            was_asked: false,
        };
        let verdict = authenticate_with(&library, c"corral", c"alice", c"", &mut answers);
        (verdict, MADE_UP.get().accounts_asked)
    }

    #[test]
    fn the_account_is_asked_after_a_right_password_alone() {
        let why = || "why".to_owned();
        assert_eq!(judged((0, 0), true), (Verdict::Accepted("alice".into()), 1));
        // It would approve: that means nothing.
        for code in [7, 10, 9, 6, 11, 13, 27, -1] {
            assert_eq!(
                judged((code, 0), true),
                (Verdict::WrongPassword(why()), 0),
                "{code}"
            );
        }
        assert_eq!(judged((12, 0), true), (Verdict::PasswordExpired, 0));
        assert_eq!(judged((0, 12), true), (Verdict::PasswordExpired, 1));
        assert_eq!(judged((0, 27), true), (Verdict::PasswordExpired, 1));
        assert_eq!(judged((0, 13), true), (Verdict::AccountExpired, 1));
        for code in [6, 7, 9, 10, 25, -1] {
            assert_eq!(
                judged((0, code), true),
                (Verdict::Denied(why()), 1),
                "{code}"
            );
        }
    }

    #[test]
    fn who_was_asked_for_no_password_has_none() {
        let (verdict, accounts) = judged((0, 0), false);
        assert!(matches!(verdict, Verdict::Unavailable(_)), "{verdict:?}");
        assert_eq!(accounts, 0);
        assert!(matches!(
            judged((12, 0), false).0,
            Verdict::WrongPassword(_)
        ));
    }

    #[test]
    fn a_password_is_overwritten() {
        let mut password = CString::new("secret").unwrap();
        forget(&mut password);
        assert!(password.as_bytes().is_empty());
    }

    #[test]
    fn what_cannot_be_a_user_is_wrong() {
        assert!(matches!(
            check("x", "a\0b", b"p", ""),
            Verdict::WrongPassword(_)
        ));
        assert!(matches!(
            check("x", "a", b"p\0q", ""),
            Verdict::WrongPassword(_)
        ));
    }
}
