//! The host's local logs: which attempts were given to spawners, which started, which ended.
//!
//! `attempts.log` has one writer (`cbexe`), framed with a gapless sequence. `tasks.<n>.log` is
//! appended to by many shepherds, each record in one write; its lines carry sequence number 0.
//! Owns the records and their reading; never touches a file.

use crate::model::{AttemptId, Binding, CpuSet};
use crate::record::frame;
use crate::record::point::Point;
use crate::record::report::Ended;
use crate::record::running_hook::RunningHook;
use serde::{Deserialize, Serialize};

/// A record of `attempts.log`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "snake_case")]
pub enum AttemptRec {
    /// Given to the spawner after this record was durable, and never again.
    Given {
        #[serde(flatten)]
        a: AttemptId,
        /// Epoch and part of the order.
        e: u64,
        p: u64,
        /// Number of the tasks log that will contain its start; 0 = not recorded.
        #[serde(default, skip_serializing_if = "is_zero")]
        l: u64,
        /// It may be killed if the host is cut off.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        r: bool,
        /// Boot of the host at that time: after another boot it is unknown whether it was started.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        b: String,
        /// Mark of the start order.
        #[serde(default, skip_serializing_if = "is_zero_u32")]
        m: u32,
        /// Epoch of the first order for it, if a later one names it; 0 = `e`.
        #[serde(default, skip_serializing_if = "is_zero")]
        f: u64,
        /// Its binding: held from here until its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        c: Option<Box<Binding>>,
        /// Units that it has on this host (`gpu 0`).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        u: Vec<String>,
    },
    /// An order to start another run with the id of a known one was refused: the known one is kept
    /// as long as those orders are read.
    Refused {
        #[serde(flatten)]
        a: AttemptId,
        e: u64,
        p: u64,
    },
    /// The name of this ledger; `kept`: it is older than its name.
    Ledger {
        id: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        kept: bool,
    },
    /// Will never be started (cancelled, or refused for the reason in `why`).
    Never {
        #[serde(flatten)]
        a: AttemptId,
        e: u64,
        p: u64,
        why: String,
    },
    /// Signal number `n` of this attempt was carried out.
    Signalled {
        #[serde(flatten)]
        a: AttemptId,
        n: u32,
    },
    /// The job was notified of resize number `n`.
    Resized {
        #[serde(flatten)]
        a: AttemptId,
        n: u32,
    },
    /// The attempt was sent its changed limits, change number `n`.
    Limited {
        #[serde(flatten)]
        a: AttemptId,
        n: u32,
    },
    /// The leader has journalled the attempt's last report.
    Acked {
        #[serde(flatten)]
        a: AttemptId,
    },
    /// An end that `cbexe` itself concluded, because no shepherd was left to record one.
    Concluded(Box<Ended>),
    /// Orders below this epoch are refused; the highest job id so far; the last restored share
    /// (`Order::Restored`) after which everything was reported again.
    Epoch {
        e: u64,
        #[serde(default, skip_serializing_if = "is_zero_u32")]
        top: u32,
        #[serde(default, skip_serializing_if = "is_zero")]
        r: u64,
    },
    /// The position of the journal in the last orders.
    Journal(Point),
}

fn is_zero_u32(n: &u32) -> bool {
    *n == 0
}

/// A record of `tasks.<n>.log`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "snake_case")]
pub enum TaskRec {
    /// The job is about to be started: written before that.
    Start {
        #[serde(flatten)]
        a: AttemptId,
        /// The shepherd's process id, and its start time (ms of the boot-time clock).
        pid: i32,
        born: u64,
        boot: String,
        /// Its control group, empty = none.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        group: String,
        /// Wall clock, ms.
        t: i64,
        /// The processors that it is bound to.
        #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
        cpus: CpuSet,
    },
    /// The job is over and none of its processes is left.
    End(Box<Ended>),
    /// The job was suspended or resumed.
    Susp {
        #[serde(flatten)]
        a: AttemptId,
        on: bool,
        t: i64,
    },
    /// Its state was saved, or could not be saved. `why`: empty = it was saved.
    Saved {
        #[serde(flatten)]
        a: AttemptId,
        t: i64,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
    },
    /// A command around the job's own has run for long, or is over.
    Hook {
        #[serde(flatten)]
        a: AttemptId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hook: Option<Box<RunningHook>>,
    },
}

impl TaskRec {
    pub fn attempt(&self) -> AttemptId {
        match self {
            TaskRec::Start { a, .. }
            | TaskRec::Susp { a, .. }
            | TaskRec::Saved { a, .. }
            | TaskRec::Hook { a, .. } => *a,
            TaskRec::End(end) => end.a,
        }
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A record of `tasks.<n>.log` with its run: the log may be kept longer than the entries in
/// `attempts.log`, and the share may be restored meanwhile.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct MarkedTask {
    #[serde(flatten)]
    pub rec: TaskRec,
    /// `StartOrder::mark`; 0 = not known.
    #[serde(rename = "m", default)]
    pub mark: u32,
}

/// Encodes a `TaskRec` as a line; `mark`: of its start order, 0 = not known.
///
/// # Errors
/// The record cannot be written as JSON.
pub fn encode_task(rec: &TaskRec, mark: u32) -> Result<Vec<u8>, String> {
    #[derive(Serialize)]
    struct Line<'a> {
        #[serde(flatten)]
        rec: &'a TaskRec,
        #[serde(rename = "m", skip_serializing_if = "is_zero_u32")]
        mark: u32,
    }
    let mut out = Vec::with_capacity(256);
    frame::write(&mut out, 0, &Line { rec, mark }).map_err(|e| e.to_string())?;
    Ok(out)
}

/// The whole lines of part of a tasks log.
#[derive(Debug, Default, PartialEq)]
pub struct TaskLines {
    pub recs: Vec<MarkedTask>,
    /// Number of bytes up to the end of the last whole line: the next reading starts here.
    pub end: usize,
    /// Lines that were not understood, with their offset in these bytes.
    pub bad: Vec<(usize, String)>,
}

/// Reads whole lines. The next record may directly follow a line that a short write left
/// incomplete: it is still found, because it begins with the frame's mark.
pub fn decode_tasks(bytes: &[u8]) -> TaskLines {
    let mut out = TaskLines::default();
    while let Some(end) = bytes[out.end..].iter().position(|b| *b == b'\n') {
        let at = out.end;
        let line = &bytes[at..at + end];
        out.end += end + 1;
        // A writer that retries after an incomplete write begins with a newline.
        if line.is_empty() {
            continue;
        }
        match decode_line(line).or_else(|e| decode_glued(line).ok_or(e)) {
            Ok(rec) => out.recs.push(rec),
            Err(e) => out.bad.push((at, e)),
        }
    }
    out
}

fn decode_line(line: &[u8]) -> Result<MarkedTask, String> {
    let refuse = |damage| frame::Damaged { offset: 0, damage }.to_string();
    frame::parse_line(line)
        .and_then(|l| l.decode())
        .map_err(refuse)
}

fn decode_glued(line: &[u8]) -> Option<MarkedTask> {
    let marks = line.windows(4).enumerate().skip(1);
    let starts = marks.filter(|(_, w)| *w == b"- {\"").map(|(i, _)| i);
    starts
        .into_iter()
        .find_map(|i| decode_line(&line[i..]).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobKey;

    fn start(id: u32) -> MarkedTask {
        let a = AttemptId {
            j: JobKey::job(id),
            at: 1,
        };
        let (boot, group) = ("b".to_string(), String::new());
        let rec = TaskRec::Start {
            a,
            pid: 9,
            born: 5,
            boot,
            group,
            t: 1,
            cpus: CpuSet::default(),
        };
        MarkedTask { rec, mark: 7 }
    }

    #[test]
    fn whole_lines_are_read_and_a_torn_tail_waits() {
        let mut bytes = encode_task(&start(1).rec, 7).unwrap();
        let one = bytes.len();
        bytes.extend(encode_task(&start(2).rec, 7).unwrap());
        let decoded = decode_tasks(&bytes[..bytes.len() - 1]);
        assert_eq!(
            (decoded.recs.as_slice(), decoded.end),
            ([start(1)].as_slice(), one)
        );
        assert_eq!(decode_tasks(&bytes).recs.len(), 2);
    }

    #[test]
    fn a_record_glued_to_a_torn_one_is_not_lost() {
        let good = encode_task(&start(2).rec, 7).unwrap();
        let torn = encode_task(&start(1).rec, 7).unwrap();
        for cut in 1..torn.len() - 1 {
            let bytes = [&torn[..cut], &good[..]].concat();
            let decoded = decode_tasks(&bytes);
            assert_eq!(decoded.recs, [start(2)], "cut at {cut}");
            assert_eq!(decoded.end, bytes.len());
        }
    }

    #[test]
    fn a_flipped_byte_is_named_and_skipped() {
        let mut bytes = encode_task(&start(1).rec, 7).unwrap();
        bytes[12] ^= 1;
        bytes.extend(encode_task(&start(2).rec, 7).unwrap());
        let decoded = decode_tasks(&bytes);
        assert_eq!(
            (decoded.recs.len(), decoded.bad.len(), decoded.bad[0].0),
            (1, 1, 0)
        );
    }

    #[test]
    fn attempt_records_survive_a_round_trip() {
        let a = AttemptId {
            j: JobKey::element(3, 4),
            at: 2,
        };
        let rec = AttemptRec::Given {
            a,
            e: 7,
            p: 1,
            l: 2,
            r: true,
            b: "boot".into(),
            m: 5,
            f: 3,
            c: Some(Box::default()),
            u: Vec::new(),
        };
        let text = serde_json::to_string(&rec).unwrap();
        assert_eq!(serde_json::from_str::<AttemptRec>(&text).unwrap(), rec);
    }
}
