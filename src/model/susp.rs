//! Why the system suspended started jobs: a closed set, each with numbers and a sentence.
//!
//! Owns the words and their stable codes; never decides that a job is suspended.

use super::{JobKey, TermReason};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why the system suspended a started job (SSUSP). `code` is stable for scripts; Display gives the
/// sentence. Amounts are thousandths.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(tag = "r", rename_all = "snake_case")]
pub enum SuspReason {
    /// Its slots are lent to a job of a queue that may preempt.
    Preempted { by: JobKey },
    /// The run window of its queue is closed.
    RunWindow { queue: String },
    /// A load index on one of its hosts exceeded the stop threshold.
    Threshold {
        index: String,
        value: i64,
        mark: i64,
        host: String,
    },
    /// The stop condition of its queue is true on one of its hosts.
    StopCond { queue: String },
    /// A user resumed it, but it does not have yet what it released when it was stopped. `res` is
    /// empty if that was not computed yet; `amount` is that on all its hosts.
    Released {
        #[serde(default)]
        res: String,
        #[serde(default)]
        amount: i64,
    },
}

impl SuspReason {
    /// The reason in the order to the host, with which it warns the job. A preempted job is warned
    /// in another way.
    pub fn of_order(&self) -> TermReason {
        match self {
            SuspReason::Preempted { .. } | SuspReason::Released { .. } => TermReason::None,
            SuspReason::RunWindow { .. } => TermReason::Window,
            SuspReason::Threshold { .. } | SuspReason::StopCond { .. } => TermReason::Load,
        }
    }

    /// A stable number for scripts; never reused.
    pub fn code(&self) -> u32 {
        match self {
            SuspReason::Preempted { .. } => 70,
            SuspReason::RunWindow { .. } => 71,
            SuspReason::Threshold { .. } => 72,
            SuspReason::StopCond { .. } => 73,
            SuspReason::Released { .. } => 74,
        }
    }
}

impl fmt::Display for SuspReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SuspReason::Preempted { by } => write!(f, "preempted by job {by}"),
            SuspReason::RunWindow { queue } => {
                write!(f, "the run window of queue {queue} is closed")
            }
            SuspReason::Threshold {
                index,
                value,
                mark,
                host,
            } => {
                let (value, mark) = (Milli(*value), Milli(*mark));
                write!(
                    f,
                    "{index} is {value} on host {host}, past the stop threshold {mark}"
                )
            }
            SuspReason::StopCond { queue } => {
                write!(f, "the stop condition of queue {queue} holds")
            }
            SuspReason::Released { res, .. } if res.is_empty() => {
                write!(f, "waits for what it released when it was stopped")
            }
            SuspReason::Released { res, amount } => {
                let amount = Milli(*amount);
                write!(
                    f,
                    "waits for {amount} of {res}, which it released when it was stopped"
                )
            }
        }
    }
}

/// Thousandths as a decimal number without trailing zeros.
struct Milli(i64);

impl fmt::Display for Milli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, n) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        let frac = format!("{:03}", n % 1000);
        match frac.trim_end_matches('0') {
            "" => write!(f, "{sign}{}", n / 1000),
            frac => write!(f, "{sign}{}.{frac}", n / 1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_hold_the_numbers() {
        let why = SuspReason::Threshold {
            index: "r1m".into(),
            value: 2_350,
            mark: 2_000,
            host: "h1".into(),
        };
        assert_eq!(
            why.to_string(),
            "r1m is 2.35 on host h1, past the stop threshold 2"
        );
        assert_eq!(Milli(-50).to_string(), "-0.05");
        let json = serde_json::to_string(&why).unwrap();
        assert_eq!(serde_json::from_str::<SuspReason>(&json).unwrap(), why);
    }
}
