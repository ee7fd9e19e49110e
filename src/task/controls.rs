//! The environment of a program of the queue that suspends, resumes or terminates a job. Runs
//! nothing.

use crate::model::{ControlOf, TermReason};

/// Maximum number of listed processes: a variable is limited to 128 KB.
const PIDS_MAX: usize = 8_000;

/// `pids`: the processes of the job; `groups`: their process groups.
pub fn env(of: ControlOf, reason: TermReason, pids: &[i32], groups: &[i32]) -> Vec<String> {
    let mut out = vec![format!("CB_JOB_CONTROL={}", of.word())];
    out.extend(processes(pids, groups));
    if reason != TermReason::None {
        out.push(format!("CB_TERM_REASON={}", reason.word()));
    }
    out
}

/// The processes of the job and their groups, each listed once.
pub fn processes(pids: &[i32], groups: &[i32]) -> [String; 2] {
    let list = |numbers: &[i32]| {
        let all = numbers.iter().take(PIDS_MAX).map(i32::to_string);
        all.collect::<Vec<_>>().join(" ")
    };
    let mut groups = groups.to_vec();
    groups.sort_unstable();
    groups.dedup();
    [
        format!("LSB_JOBPIDS={}", list(pids)),
        format!("LSB_JOBPGIDS={}", list(&groups)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_and_groups_are_listed_once() {
        let out = env(ControlOf::Suspend, TermReason::None, &[5, 6, 7], &[6, 5, 6]);
        let wanted = [
            "CB_JOB_CONTROL=suspend",
            "LSB_JOBPIDS=5 6 7",
            "LSB_JOBPGIDS=5 6",
        ];
        assert_eq!(out, wanted);
        let out = env(ControlOf::Terminate, TermReason::RunLimit, &[], &[]);
        assert_eq!(out[3], "CB_TERM_REASON=TERM_RUNLIMIT");
        let many: Vec<i32> = (1..20_000).collect();
        assert!(env(ControlOf::Resume, TermReason::None, &many, &[])[1].len() < 128 << 10);
    }
}
