//! Accounting records: one for each ended attempt of a job, and the position up to which they are
//! written.
//!
//! Owns their form and the key that identifies copies of one record. Never decides which process
//! writes them or where; fields of later versions are ignored.

use super::report::Usage;
use crate::model::{JobKey, TermReason, Units};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Maximum number of bytes of a job's command that a record keeps.
pub const COMMAND_MAX: usize = 512;

/// Slots on one host.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostSlots<'a>(#[serde(borrow)] pub Cow<'a, str>, pub u32);

/// An attempt that ended. Times in ms since 1970, 0 = never; empty fields are left out.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, tag = "k", rename = "ended")]
pub struct AttemptRecord<'a> {
    pub j: JobKey,
    pub at: u32,
    /// Derived from the times of submission and dispatch: with job and attempt, it identifies the
    /// record even if the job id was assigned again.
    pub mark: u32,
    /// An earlier file may contain it too.
    #[serde(skip_serializing_if = "is_false")]
    pub again: bool,
    /// The attempt was recorded as lost before, and its host reported a success later: without run
    /// time, with the usage that the earlier record does not contain.
    #[serde(skip_serializing_if = "is_false")]
    pub late: bool,
    pub uid: u32,
    #[serde(rename = "u", borrow)]
    pub user: Cow<'a, str>,
    /// The user group that was specified at submission.
    #[serde(rename = "g", borrow, skip_serializing_if = "is_empty")]
    pub group: Cow<'a, str>,
    #[serde(rename = "p", borrow, skip_serializing_if = "is_empty")]
    pub project: Cow<'a, str>,
    /// The application, or empty.
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub app: Cow<'a, str>,
    #[serde(rename = "q", borrow)]
    pub queue: Cow<'a, str>,
    /// Empty: the job is named after its command.
    #[serde(rename = "n", borrow, skip_serializing_if = "is_empty")]
    pub name: Cow<'a, str>,
    #[serde(rename = "c", borrow)]
    pub command: Cow<'a, str>,
    pub submit: i64,
    pub dispatch: i64,
    pub start: i64,
    pub end: i64,
    #[serde(rename = "h", borrow)]
    pub hosts: Vec<HostSlots<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    #[serde(skip_serializing_if = "is_zero")]
    pub sig: i32,
    /// Its exit code is not 0 but counts as success.
    #[serde(rename = "ok", skip_serializing_if = "is_false")]
    pub success: bool,
    #[serde(skip_serializing_if = "is_none")]
    pub reason: TermReason,
    /// The job was pending again afterwards.
    #[serde(rename = "rq", skip_serializing_if = "is_false")]
    pub requeued: bool,
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub cpu_ms: u64,
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub maxmem_kb: u64,
    /// Of a job on several hosts: the largest maximum of one of them; 0: it is not known.
    #[serde(rename = "hm", skip_serializing_if = "is_zero_u64")]
    pub host_maxmem_kb: u64,
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub maxswap_kb: u64,
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub susp_ms: u64,
    /// Memory of GPUs, and their utilization integrated over time.
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub max_gpu_mem_mb: u64,
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub gpu_ms: u64,
    /// Units of resources with `assign` that it had.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<Units>,
    /// What was requested: the requirement, the memory limit in bytes and the run limit in seconds.
    #[serde(rename = "req", borrow, skip_serializing_if = "is_empty")]
    pub res_req: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_b: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_s: Option<u64>,
    /// By how much the indices of an array of `sbatch` were raised.
    #[serde(skip_serializing_if = "is_zero_u32")]
    pub shift: u32,
}

fn is_false(b: &bool) -> bool {
    !*b
}

fn is_empty(text: &str) -> bool {
    text.is_empty()
}

fn is_zero(n: &i32) -> bool {
    *n == 0
}

fn is_zero_u32(n: &u32) -> bool {
    *n == 0
}

fn is_zero_u64(n: &u64) -> bool {
    *n == 0
}

fn is_none(why: &TermReason) -> bool {
    *why == TermReason::None
}

/// Identifies a record: job, attempt, mark, and whether it adds to an earlier record.
pub type Key = (JobKey, u32, u32, bool);

impl AttemptRecord<'_> {
    pub fn key(&self) -> Key {
        (self.j, self.at, self.mark, self.late)
    }

    /// Whether it ended by itself with exit code 0 or another code that counts as success.
    pub fn is_done(&self) -> bool {
        (self.code == Some(0) || self.success) && self.sig == 0 && self.reason.allows_success()
    }

    pub fn slots(&self) -> u64 {
        self.hosts.iter().map(|h| u64::from(h.1)).sum()
    }

    /// The run time without suspended time, in ms.
    pub fn run_ms(&self) -> u64 {
        if self.start <= 0 {
            return 0;
        }
        let ms = u64::try_from(self.end.saturating_sub(self.start)).unwrap_or(0);
        ms.saturating_sub(self.susp_ms)
    }

    /// From its submission to its start, in ms; `None`: it never started.
    pub fn wait_ms(&self) -> Option<u64> {
        let from = (self.start > 0).then_some(self.start)?;
        Some(u64::try_from(from.saturating_sub(self.submit)).unwrap_or(0))
    }

    /// From its submission to its end, in ms.
    pub fn turnaround_ms(&self) -> u64 {
        u64::try_from(self.end.saturating_sub(self.submit)).unwrap_or(0)
    }

    /// Thousandths of units of a resource that it had.
    pub fn unit_parts(&self, res: &str) -> u64 {
        let of = self.units.iter().filter(|u| u.res == res);
        let parts = of.map(|u| match u.part {
            0 => u.names.len() as u64 * u64::from(crate::model::WHOLE_UNIT),
            part => u.names.len() as u64 * u64::from(part),
        });
        parts.sum()
    }

    /// The average utilization of GPUs during the run time, in percent of one; `None`: it used
    /// none.
    pub fn gpu_util(&self) -> Option<u64> {
        let ms = (self.gpu_ms > 0).then(|| self.run_ms())?;
        Some(self.gpu_ms.saturating_mul(100) / ms.max(1))
    }

    /// The largest memory on one host, to which the memory limit applies. Older records of jobs on
    /// several hosts have the sum only.
    pub fn host_mem_kb(&self) -> u64 {
        match self.host_maxmem_kb {
            0 => self.maxmem_kb,
            of_host => of_host,
        }
    }

    /// Sets the usage.
    pub fn set_usage(&mut self, u: &Usage) {
        self.cpu_ms = u.cpu_ms;
        self.maxmem_kb = u.maxmem_kb;
        self.host_maxmem_kb = u.host_maxmem_kb;
        self.maxswap_kb = u.maxswap_kb;
        let devices = u.devices();
        (self.max_gpu_mem_mb, self.gpu_ms) = (devices.max_gpu_mem_mb, devices.gpu_ms);
    }

    /// Removes the times that another record of the attempt contains. Maxima stay.
    pub fn subtract_usage(&mut self, counted: &Usage) {
        self.cpu_ms = self.cpu_ms.saturating_sub(counted.cpu_ms);
        self.gpu_ms = self.gpu_ms.saturating_sub(counted.devices().gpu_ms);
    }
}

/// A command shortened to the length that a record keeps.
pub fn short_command(command: &str) -> &str {
    let mut end = command.len().min(COMMAND_MAX);
    while !command.is_char_boundary(end) {
        end -= 1;
    }
    &command[..end]
}

/// The month, in UTC, of a time in ms: `2026-11`. Times outside the calendar count as 1970.
pub fn month_of(ms: i64) -> String {
    let t = Timestamp::from_millisecond(ms.max(0)).unwrap_or_default();
    let t = t.to_zoned(TimeZone::UTC);
    format!("{:04}-{:02}", t.year(), t.month())
}

/// The position in the journal up to which ends are durably in accounting files.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "k", rename = "written")]
pub struct AccountingPosition {
    pub epoch: u64,
    pub segment: u64,
    pub bytes: u64,
    pub seq: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::frame;

    fn record() -> AttemptRecord<'static> {
        AttemptRecord {
            j: JobKey::element(7, 3),
            at: 2,
            mark: 9,
            user: "u1".into(),
            queue: "short".into(),
            command: "echo \"a\nb\"".into(),
            submit: 1000,
            dispatch: 1500,
            start: 2000,
            end: 10_000,
            susp_ms: 1000,
            hosts: vec![HostSlots("h1".into(), 2), HostSlots("h2".into(), 1)],
            code: Some(0),
            ..AttemptRecord::default()
        }
    }

    #[test]
    fn a_record_comes_back_and_says_what_it_means() {
        let mut line = Vec::new();
        frame::write(&mut line, 1, &record()).unwrap();
        let read = frame::parse_line(&line[..line.len() - 1]).unwrap();
        let read: AttemptRecord<'_> = read.decode().unwrap();
        assert_eq!(read, record());
        assert!(matches!(read.user, Cow::Borrowed("u1")));
        assert_eq!((read.slots(), read.run_ms()), (3, 7000));
        assert_eq!((read.wait_ms(), read.turnaround_ms()), (Some(1000), 9000));
        assert!(read.is_done());
        assert_eq!(read.gpu_util(), None);
        let busy = AttemptRecord {
            gpu_ms: 10_500,
            ..record()
        };
        assert_eq!(busy.gpu_util(), Some(150));
        let killed = AttemptRecord {
            reason: TermReason::Owner,
            ..record()
        };
        assert!(!killed.is_done(), "its handler exited with 0");
        let unknown = AttemptRecord { code: None, ..read };
        assert!(!unknown.is_done(), "an unknown end does not count as one");
    }

    #[test]
    fn months_are_those_of_utc() {
        assert_eq!(month_of(1_764_547_199_999), "2025-11");
        assert_eq!(month_of(1_764_547_200_000), "2025-12");
        assert_eq!(month_of(-5), "1970-01");
        assert_eq!(month_of(i64::MAX), "1970-01");
    }

    #[test]
    fn half_units_count_half_and_commands_are_cut_between_letters() {
        let units = |part| Units {
            host: "h".into(),
            res: "gpu".into(),
            names: vec!["0".into(), "1".into()].into(),
            part,
            ..Units::default()
        };
        let mut record = record();
        record.units = vec![units(0), units(500)];
        assert_eq!(record.unit_parts("gpu"), 3000);
        assert_eq!(record.unit_parts("port"), 0);
        let long = "ä".repeat(COMMAND_MAX);
        assert_eq!(short_command(&long).len(), COMMAND_MAX);
        assert_eq!(short_command("true"), "true");
    }
}
