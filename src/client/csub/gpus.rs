//! `-gpu` in the words of LSF, as the `rusage[]` that it means. Pure.
//!
//! Owns which words of LSF have a counterpart; the others are refused by name.

use crate::client::exit::{Fail, Result};

/// Maximum number of GPUs of a host or a task.
const GPUS_MAX: u32 = 1000;
/// Words of LSF without a counterpart.
const UNBUILT: &[&str] = &[
    "aff", "block", "gi_slice", "glink", "gmem", "gmodel", "gpack", "gtile", "gvendor", "mig",
];

/// `num=2:mode=exclusive_process:j_exclusive=yes`, or `-` for one GPU: GPUs of each host, or with
/// `num=2/task` of each slot. A GPU always belongs to one job, in whatever mode.
///
/// # Errors
/// Names the word that is wrong or has no counterpart.
pub(super) fn rusage(text: &str) -> Result<String> {
    let mut num = (1, "host");
    for part in text.trim().split(':').filter(|_| text.trim() != "-") {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match (name.trim(), value.trim()) {
            ("num", value) => num = count(value)?,
            ("mode", "shared" | "exclusive_process")
            | ("j_exclusive", "yes" | "y" | "no" | "n")
            | ("mps", "no" | "n") => {}
            ("mps", _) => return Err(Fail::usage("-gpu: only mps=no is implemented")),
            (name @ ("mode" | "j_exclusive"), value) => {
                return Err(Fail::usage(format!(
                    "-gpu: {name}={value} is not a value of LSF"
                )));
            }
            (name, _) if UNBUILT.contains(&name) => {
                return Err(Fail::usage(format!(
                    "-gpu: {name} is not implemented; -R select[...] chooses hosts"
                )));
            }
            _ => {
                return Err(Fail::usage(format!(
                    "-gpu: '{part}' is not one of num=N[/task|/host], mode=, j_exclusive=, mps=no"
                )));
            }
        }
    }
    let (n, per) = num;
    Ok(format!("rusage[gpu={n}/{per}]"))
}

/// `2`, `2/host`, `2/task`.
fn count(text: &str) -> Result<(u32, &'static str)> {
    let (number, per) = text.split_once('/').unwrap_or((text, "host"));
    let per = match per {
        "host" => Some("host"),
        "task" => Some("task"),
        _ => None,
    };
    let number = number.parse::<u32>().ok();
    let number = number.filter(|n| (1..=GPUS_MAX).contains(n));
    number.zip(per).ok_or_else(|| {
        Fail::usage(format!(
            "-gpu: num={text} is not 1 to {GPUS_MAX}, with /task or /host"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_lsf_are_amounts_of_gpus() {
        for (text, want) in [
            ("-", "rusage[gpu=1/host]"),
            ("num=2", "rusage[gpu=2/host]"),
            ("num=4/task:mode=exclusive_process", "rusage[gpu=4/task]"),
            ("num=1:mode=shared:j_exclusive=yes", "rusage[gpu=1/host]"),
            ("mode=shared:mps=no:num=3/host", "rusage[gpu=3/host]"),
        ] {
            assert_eq!(rusage(text).unwrap(), want, "{text}");
        }
    }

    #[test]
    fn words_without_a_counterpart_are_refused_by_name() {
        for (text, want) in [
            ("", "''"),
            ("num=0", "num=0"),
            ("num=2/slot", "num=2/slot"),
            ("num=1:gmodel=TeslaV100", "gmodel is not implemented"),
            ("mps=yes", "mps=no"),
            ("mode=any", "mode=any"),
            ("nmu=1", "'nmu=1'"),
        ] {
            let message = rusage(text).unwrap_err().text;
            assert!(message.contains(want), "{text}: {message}");
        }
    }
}
