//! The rows that the view does not show yet. Adding a row is cheap; rows are sorted when they are
//! taken. Never grows far beyond the number of different rows.

use crate::model::JobKey;

/// Below this number of recorded rows nothing is sorted.
const SMALL: usize = 1 << 16;

#[derive(Clone, Debug, Default)]
pub(super) struct Dirty {
    /// Some of them occur several times.
    noted: Vec<JobKey>,
    /// Number of different ones at the last count.
    different: usize,
}

impl Dirty {
    pub(super) fn note(&mut self, j: JobKey) {
        if self.noted.last() == Some(&j) {
            return;
        }
        if self.noted.len() >= SMALL.max(2 * self.different) {
            self.tidy();
        }
        self.noted.push(j);
    }

    pub(super) fn extend(&mut self, keys: impl Iterator<Item = JobKey>) {
        keys.for_each(|j| self.note(j));
    }

    fn tidy(&mut self) {
        self.noted.sort_unstable_by_key(|j| j.number());
        self.noted.dedup();
        self.different = self.noted.len();
    }

    /// Takes all of them, each once and in order.
    pub(super) fn take(&mut self) -> Vec<JobKey> {
        self.tidy();
        self.different = 0;
        std::mem::take(&mut self.noted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_taken_once_and_in_order() {
        let mut dirty = Dirty::default();
        for id in [3, 1, 3, 3, 2, 1] {
            dirty.note(JobKey::job(id));
        }
        let ids = |keys: Vec<JobKey>| keys.iter().map(|j| j.id).collect::<Vec<_>>();
        assert_eq!(ids(dirty.take()), [1, 2, 3]);
        assert!(dirty.take().is_empty());
    }

    #[test]
    fn rows_noted_over_and_over_take_no_more_room() {
        let mut dirty = Dirty::default();
        for n in 0..10 * SMALL as u32 {
            dirty.note(JobKey::job(n % 1000));
        }
        assert!(dirty.noted.len() <= SMALL);
        assert_eq!(dirty.take().len(), 1000);
    }
}
