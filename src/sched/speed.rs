//! When jobs would end, by their run limits and the speeds of hosts. Owns no times of its own.

use super::engine::{Bucket, Engine};
use super::hosts::HostTable;
use super::run_length::{Ends, end_at};

impl Engine {
    /// When jobs of a class would end.
    pub(super) fn ends<'a>(&self, table: &'a HostTable, bucket: &Bucket) -> Ends<'a> {
        let length = bucket.length;
        Ends {
            table,
            length,
            now: self.now,
            everywhere: end_at(self.now, bucket.estimate),
            last: end_at(self.now, length.on(self.speeds.0)),
            latest: match length.varies() {
                true => self.latest_end(bucket).map_or(i64::MAX, |at| at.0),
                false => i64::MAX,
            },
        }
    }

    /// The length of a class's jobs on the fastest host, in milliseconds.
    pub(super) fn shortest(&self, bucket: &Bucket) -> i64 {
        bucket.length.on(self.speeds.1)
    }

    /// Notes the speeds of the slowest and of the fastest host.
    pub(super) fn note_speeds(&mut self, table: &HostTable) {
        let all = || table.iter().map(|host| host.entry.cpuf);
        let least = all().fold(f64::INFINITY, f64::min);
        let most = all().fold(0.0, f64::max);
        self.speeds = if most > 0.0 {
            (least, most)
        } else {
            (1.0, 1.0)
        };
    }

    /// The end of such a job on a host of the table would be too late.
    pub(super) fn is_too_slow(&self, table: &HostTable, bucket: &Bucket, at: usize) -> bool {
        let ends = self.ends(table, bucket);
        let end = end_at(self.now, bucket.length.at(table, Some(at as u32)));
        ends.length.varies() && end > ends.latest
    }
}
