//! Signals that were sent to a task without ending it, and the sentence about one that it did not
//! survive.

use crate::model::TermReason;

/// A signal that was sent to a task without ending it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SentSignal {
    pub signal: i32,
    /// It warned the task: of its end or suspension for `reason`. Otherwise a person sent it.
    pub warning: bool,
    /// Of a person's signal: `Owner` or `Admin`.
    pub reason: TermReason,
}

/// Begins the sentence about a signal that ended a job and that Corral had sent.
pub const SENT_SIGNAL: &str = "Corral sent signal";

/// The sentence about a signal, named `name`, that ended the task without an order to end it.
pub fn sent_text(sent: SentSignal, name: &str) -> String {
    let why = match (sent.warning, sent.reason) {
        (true, TermReason::Deadline) => "to warn it of its termination time",
        (true, TermReason::Preempt) => "to warn it that it would be preempted",
        (true, TermReason::Load) => "to warn it of a stop by a load threshold",
        (true, TermReason::Window) => "to warn it of the end of its run window",
        (true, _) => "to warn it of its run limit",
        (false, TermReason::Admin) => "at the request of an administrator",
        (false, _) => "at the request of its owner",
    };
    format!("{SENT_SIGNAL} {name} {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_corral_sent_says_why() {
        let sent = |warning, reason| SentSignal {
            signal: 10,
            warning,
            reason,
        };
        for (sent, words) in [
            (sent(true, TermReason::RunLimit), "its run limit"),
            (sent(true, TermReason::Deadline), "its termination time"),
            (sent(true, TermReason::Preempt), "would be preempted"),
            (sent(false, TermReason::Owner), "request of its owner"),
            (
                sent(false, TermReason::Admin),
                "request of an administrator",
            ),
        ] {
            let text = sent_text(sent, "USR1");
            assert!(text.starts_with("Corral sent signal USR1 ") && text.ends_with(words));
        }
    }
}
