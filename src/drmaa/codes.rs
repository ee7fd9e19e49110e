//! The error codes of the standard, with their numbers and sentences, the error type, and the
//! language in which a person reads them.

use corral::api::{Failure, FailureKind, Language};
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

/// The codes with the numbers of the standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    Success = 0,
    InternalError = 1,
    DrmCommunicationFailure = 2,
    AuthFailure = 3,
    InvalidArgument = 4,
    NoActiveSession = 5,
    NoMemory = 6,
    InvalidContactString = 7,
    DefaultContactStringError = 8,
    NoDefaultContactStringSelected = 9,
    DrmsInitFailed = 10,
    AlreadyActiveSession = 11,
    DrmsExitError = 12,
    InvalidAttributeFormat = 13,
    InvalidAttributeValue = 14,
    ConflictingAttributeValues = 15,
    TryLater = 16,
    DeniedByDrm = 17,
    InvalidJob = 18,
    ResumeInconsistentState = 19,
    SuspendInconsistentState = 20,
    HoldInconsistentState = 21,
    ReleaseInconsistentState = 22,
    ExitTimeout = 23,
    NoRusage = 24,
    NoMoreElements = 25,
}

/// The sentence of a number that is not a code.
const UNKNOWN: &CStr = c"unknown error code";

/// Every code with its sentence, at the index of its number.
const ALL: [(Code, &CStr); 26] = [
    (Code::Success, c"success"),
    (Code::InternalError, c"unexpected or internal error"),
    (
        Code::DrmCommunicationFailure,
        c"the batch system cannot be reached or does not answer",
    ),
    (Code::AuthFailure, c"permission denied"),
    (Code::InvalidArgument, c"invalid argument"),
    (
        Code::NoActiveSession,
        c"no active session: drmaa_init comes first",
    ),
    (Code::NoMemory, c"not enough memory"),
    (Code::InvalidContactString, c"invalid contact string"),
    (
        Code::DefaultContactStringError,
        c"the default contact string cannot be used",
    ),
    (
        Code::NoDefaultContactStringSelected,
        c"no default contact string is selected",
    ),
    (Code::DrmsInitFailed, c"the batch system could not be found"),
    (Code::AlreadyActiveSession, c"a session is active already"),
    (Code::DrmsExitError, c"the session could not be ended"),
    (
        Code::InvalidAttributeFormat,
        c"invalid format of an attribute",
    ),
    (
        Code::InvalidAttributeValue,
        c"invalid value of an attribute",
    ),
    (
        Code::ConflictingAttributeValues,
        c"values of attributes contradict each other",
    ),
    (Code::TryLater, c"not now: try again later"),
    (Code::DeniedByDrm, c"refused by the batch system"),
    (Code::InvalidJob, c"no such job"),
    (
        Code::ResumeInconsistentState,
        c"the job cannot be resumed: it is not suspended",
    ),
    (
        Code::SuspendInconsistentState,
        c"the job cannot be suspended: it does not run",
    ),
    (
        Code::HoldInconsistentState,
        c"the job cannot be held: it does not wait",
    ),
    (
        Code::ReleaseInconsistentState,
        c"the job cannot be released: it is not held",
    ),
    (Code::ExitTimeout, c"the time is over"),
    (
        Code::NoRusage,
        c"the job has ended; its exit status and usage are no longer known",
    ),
    (Code::NoMoreElements, c"no more elements"),
];

impl Code {
    pub(crate) fn number(self) -> i32 {
        self as i32
    }
}

/// The sentence of a code; an unknown code has one, too.
pub(crate) fn sentence(number: i32) -> &'static CStr {
    let known = usize::try_from(number).ok().and_then(|n| ALL.get(n));
    known.map_or(UNKNOWN, |(_, text)| text)
}

/// The language of messages: that of the locale, read once, at the first message.
pub(crate) fn language() -> Language {
    static LANGUAGE: OnceLock<Language> = OnceLock::new();
    *LANGUAGE.get_or_init(corral::program::language)
}

/// The sentence of a code in this language; it lasts as long as the process.
pub(crate) fn translated(number: i32, language: Language) -> &'static CStr {
    static CHINESE: OnceLock<Vec<CString>> = OnceLock::new();
    if language == Language::English {
        return sentence(number);
    }
    let translated = |text: &CStr| {
        let text = text.to_string_lossy();
        CString::new(language.translate(&text).as_ref()).unwrap_or_default()
    };
    let all = CHINESE.get_or_init(|| {
        let texts = ALL.iter().map(|(_, text)| *text);
        texts.chain([UNKNOWN]).map(translated).collect()
    });
    let known = usize::try_from(number)
        .ok()
        .and_then(|n| all[..ALL.len()].get(n));
    known.unwrap_or(&all[ALL.len()])
}

/// Why a call failed: the code, and the message for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    pub(crate) text: String,
}

impl Problem {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Problem {
        Problem {
            code,
            text: text.into(),
        }
    }

    /// A problem with the sentence of the code.
    pub(crate) fn plain(code: Code) -> Problem {
        Problem::new(code, sentence(code.number()).to_string_lossy())
    }

    pub(crate) fn argument(text: impl Into<String>) -> Problem {
        Problem::new(Code::InvalidArgument, text)
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Problem {
        let code = match failure.kind {
            FailureKind::Wrong => Code::InvalidAttributeValue,
            FailureKind::Twice => Code::ConflictingAttributeValues,
            FailureKind::NotFound => Code::InvalidJob,
            FailureKind::Permission => Code::AuthFailure,
            FailureKind::Refused => Code::DeniedByDrm,
            FailureKind::TryLater { .. } => Code::TryLater,
            FailureKind::System => Code::DrmCommunicationFailure,
        };
        Problem::new(code, failure.text)
    }
}

/// The result of a call of this library.
pub(crate) type Result<T> = std::result::Result<T, Problem>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_stands_at_its_number() {
        for (n, (code, text)) in ALL.iter().enumerate() {
            assert_eq!(usize::try_from(code.number()), Ok(n));
            assert!(!text.is_empty());
            assert_eq!(sentence(code.number()), *text);
        }
        assert_eq!(sentence(-1), sentence(26));
    }

    #[test]
    fn a_refusal_that_may_pass_is_not_a_denial() {
        let code = |kind| {
            let text = "too many pending jobs".to_owned();
            Problem::from(Failure { kind, text }).code
        };
        assert_eq!(code(FailureKind::TryLater { after_s: 60 }), Code::TryLater);
        assert_eq!(code(FailureKind::Refused), Code::DeniedByDrm);
    }

    #[test]
    fn every_sentence_is_there_in_chinese() {
        for number in -1..=26 {
            let (english, chinese) = (
                translated(number, Language::English),
                translated(number, Language::Chinese),
            );
            assert_eq!(english, sentence(number));
            let text = chinese.to_str().unwrap();
            let is_chinese = |c: char| ('\u{4e00}'..='\u{9fff}').contains(&c);
            assert!(text.contains(is_chinese), "{number}: {text}");
        }
        assert_eq!(
            translated(18, Language::Chinese).to_str(),
            Ok("没有这个作业")
        );
        assert_eq!(
            translated(-1, Language::Chinese),
            translated(99, Language::Chinese)
        );
    }
}
