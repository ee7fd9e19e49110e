//! Sends one submission of csub or sbatch; again after a pause if too many jobs are pending.
//!
//! Owns the number of tries. Never repeats a request that was accepted, or refused for another
//! reason.

use super::exit::{Fail, Result, message_start};
use super::no_answer;
use crate::client::env::Site;
use crate::client::requests::{self, NoAnswer, Outgoing};
use crate::language::translated;
use crate::model::Submission;
use crate::record::ack::Ack;
use crate::record::request::{RequestHead, Verb};
use crate::sys;

/// The variable with the number of tries, and the number if it is not set.
const NAME: &str = "LSB_NTRIES";
const DEFAULT: u32 = 6;

/// Sends one submission of csub; returns the exit code if no answer came.
pub(super) fn send_job(
    site: &Site,
    command: &str,
    head: RequestHead,
    job: Submission,
    wait_s: u64,
) -> Result<std::result::Result<Ack, i32>> {
    let last = send(site, command, head, job, wait_s)?;
    Ok(last.map_err(|e| no_answer(command, &e)))
}

/// Sends one submission. Returns the last answer, or why none came.
pub(super) fn send(
    site: &Site,
    command: &str,
    head: RequestHead,
    job: Submission,
    wait_s: u64,
) -> Result<std::result::Result<Ack, NoAnswer>> {
    let tries = number(std::env::var(NAME).ok().as_deref())?;
    let mut tried = 0;
    loop {
        let mut request = Outgoing::new(site, head.clone())?;
        request.push(&Verb::Submit {
            line: 0,
            same: false,
            job: Box::new(job.clone()),
        })?;
        let ack = match requests::send(site, command, request, wait_s) {
            Ok(ack) => ack,
            Err(e) => return Ok(Err(e)),
        };
        tried += 1;
        let Some((why, pause_s)) = refused_for_now(&ack).filter(|_| tried < tries) else {
            return Ok(Ok(ack));
        };
        let (why, next) = (format!("{why}."), format!("Retrying in {pause_s} seconds"));
        let start = message_start(command);
        eprintln!("{start}{} {}", translated(&why), translated(&next));
        sys::clock::sleep_ms(u64::from(pause_s) * 1000);
    }
}

/// Why a submission was refused that may succeed later, and after how many seconds.
fn refused_for_now(ack: &Ack) -> Option<(&str, u32)> {
    let why = &ack.results.first()?.text;
    (ack.retry_s > 0 && ack.ids.is_empty()).then_some((why, ack.retry_s))
}

/// The number of tries according to the variable.
fn number(value: Option<&str>) -> Result<u32> {
    let Some(text) = value.map(str::trim).filter(|text| !text.is_empty()) else {
        return Ok(DEFAULT);
    };
    let wrong = || {
        Fail::usage(format!(
            "{NAME}: '{text}' is not a number of tries, 1 or more"
        ))
    };
    let number = text.parse().map_err(|_| wrong())?;
    (number > 0).then_some(number).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Token;
    use crate::record::ack::{Code, IdRun, Outcome};

    #[test]
    fn only_what_a_limit_of_pending_jobs_refused_is_sent_again() {
        let mut ack = Ack::empty(Token(1));
        ack.results.push(Outcome {
            what: String::new(),
            code: Code::Refused,
            text: "full".into(),
        });
        assert_eq!(refused_for_now(&ack), None);
        ack.retry_s = 60;
        assert_eq!(refused_for_now(&ack), Some(("full", 60)));
        ack.ids.push(IdRun {
            line: 0,
            id: 1,
            n: 1,
            queue: String::new(),
            default: false,
            known: false,
            t: 0,
        });
        assert_eq!(refused_for_now(&ack), None, "part of it was accepted");
    }

    #[test]
    fn the_number_of_tries_is_checked() {
        let of = |text| number(text).ok();
        assert_eq!((of(None), of(Some(" "))), (Some(6), Some(6)));
        assert_eq!((of(Some("1")), of(Some("20"))), (Some(1), Some(20)));
        assert_eq!(
            (of(Some("0")), of(Some("-1")), of(Some("x"))),
            (None, None, None)
        );
    }
}
