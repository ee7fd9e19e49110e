//! The counts of the summary documents at the same moment as the jobs: documents are written
//! periodically, and later changes by jobs are in the deltas.
//!
//! Deltas are read before the documents, so that a document can only be newer. A change that the
//! document already includes is ignored.

use super::row_head::{JOB_PREFIX, decode_job, peek};
use super::{ATTEMPTS, Moment, ReadFailure, ViewError, ViewReader};
use crate::model::{JobKey, Share};
use crate::record::frame::{Damage, Damaged, Reader};
use crate::record::header::{FileKind, Header};
use crate::record::view::{self, CountChanges, HostRow, LimitRow, QueueRow, Row, UserRow};
use crate::sys;
use std::collections::{HashMap, HashSet};

const PREFIX: &[u8] = b"{\"k\":\"counts\",";

/// Whether the row contains counts.
pub(super) fn is_counts(json: &[u8]) -> bool {
    json.starts_with(PREFIX)
}

/// The changes in the deltas.
#[derive(Debug, Default)]
struct Changes {
    counts: Vec<(Moment, CountChanges)>,
    /// Where jobs run, as far as the deltas show; an empty list: nowhere.
    runs: HashMap<JobKey, Vec<Share>>,
    /// Damage found on the way, one sentence each.
    warnings: Vec<String>,
}

/// A summary document, updated with what jobs have changed since it was written.
#[derive(Clone, Debug, Default)]
pub struct CurrentDocument<T> {
    pub rows: Vec<T>,
    /// Damage found on the way, one sentence each.
    pub warnings: Vec<String>,
}

impl ViewReader {
    /// The published hosts with current counts and jobs.
    ///
    /// # Errors
    /// As [`ViewReader::manifest`].
    pub fn counted_hosts(&self) -> Result<CurrentDocument<HostRow>, ViewError> {
        let changes = self.changes(true)?;
        let (moment, mut rows): (_, Vec<HostRow>) = self.document(view::HOSTS)?;
        let at: HashMap<String, usize> = first_positions(rows.iter().map(|host| host.name.clone()));
        for host in changes.after(moment).flat_map(|change| &change.hosts) {
            if let Some(at) = at.get(&host.name) {
                rows[*at].set_counts(host.clone());
            }
        }
        // A document that is newer than the deltas takes precedence.
        if changes
            .counts
            .last()
            .is_some_and(|(last, _)| *last >= moment)
        {
            changes.move_jobs(&mut rows, &at);
        }
        let warnings = changes.warnings;
        Ok(CurrentDocument { rows, warnings })
    }

    /// The published queues with current counts.
    ///
    /// # Errors
    /// As [`ViewReader::manifest`].
    pub fn counted_queues(&self) -> Result<CurrentDocument<QueueRow>, ViewError> {
        let changes = self.changes(false)?;
        let (moment, mut rows): (_, Vec<QueueRow>) = self.document(view::QUEUES)?;
        let at = first_positions(rows.iter().map(|queue| queue.name.clone()));
        for (queue, counts) in changes.after(moment).flat_map(|change| &change.queues) {
            if let Some(at) = at.get(queue) {
                rows[*at].counts = *counts;
            }
        }
        let warnings = changes.warnings;
        Ok(CurrentDocument { rows, warnings })
    }

    /// The published users and groups with current counts.
    ///
    /// # Errors
    /// As [`ViewReader::manifest`].
    pub fn counted_users(&self) -> Result<CurrentDocument<UserRow>, ViewError> {
        let changes = self.changes(false)?;
        let (moment, mut rows): (_, Vec<UserRow>) = self.document(view::USERS)?;
        let mut at = first_positions(rows.iter().map(|user| user.name.clone()));
        for user in changes.after(moment).flat_map(|change| &change.users) {
            put(&mut rows, &mut at, user.name.clone(), user.clone());
        }
        let warnings = changes.warnings;
        Ok(CurrentDocument { rows, warnings })
    }

    /// The current counters of section `limits`.
    ///
    /// # Errors
    /// As [`ViewReader::manifest`].
    pub fn counted_limits(&self) -> Result<CurrentDocument<LimitRow>, ViewError> {
        let changes = self.changes(false)?;
        let (moment, mut rows): (_, Vec<LimitRow>) = self.document(view::LIMITS)?;
        let order = first_positions(rows.iter().map(|limit| limit.name.clone()));
        let key = |row: &LimitRow| (row.name.clone(), row.consumer.clone(), row.resource.clone());
        let mut at = first_positions(rows.iter().map(key));
        let mut removed = HashMap::new();
        for change in changes.after(moment).flat_map(|change| &change.limits) {
            removed.insert(key(&change.row), change.gone);
            put(&mut rows, &mut at, key(&change.row), change.row.clone());
        }
        rows.retain(|row| !removed.get(&key(row)).is_some_and(|is_gone| *is_gone));
        let of_members = rows.iter().filter(|row| !row.each);
        let of_members: HashSet<_> = of_members.map(limit_and_resource).collect();
        rows.retain(|row| !row.each || !of_members.contains(&limit_and_resource(row)));
        // New counters are placed beside those of their limit.
        rows.sort_by_key(|row| order.get(&row.name).copied().unwrap_or(usize::MAX));
        let warnings = changes.warnings;
        Ok(CurrentDocument { rows, warnings })
    }

    /// Reads the changes in the deltas. `runs`: also where jobs run.
    fn changes(&self, runs: bool) -> Result<Changes, ViewError> {
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                sys::clock::sleep_ms(u64::from(attempt.min(5)) * 5);
            }
            let manifest = match self.manifest() {
                // The documents alone contain everything.
                Err(ViewError::None(_)) => return Ok(Changes::default()),
                other => other?,
            };
            let parts = match self.read_deltas(&manifest) {
                Err(ReadFailure::Stale) => continue,
                Err(ReadFailure::Hard(e)) => return Err(e),
                Ok(parts) => parts,
            };
            let mut changes = Changes::default();
            for (name, bytes) in &parts {
                match changes.add(bytes, runs) {
                    // A torn last line is still being written.
                    Err(d) if d.damage != Damage::Torn => {
                        changes.warnings.push(format!("view/{name} {d}"));
                    }
                    _ => {}
                }
            }
            return Ok(changes);
        }
        Err(ViewError::Moving(self.layout.view_file(view::MANIFEST)))
    }
}

impl Changes {
    fn add(&mut self, bytes: &[u8], runs: bool) -> Result<(), Damaged> {
        let mut reader = Reader::new(bytes);
        let epoch =
            Header::read(&mut reader, FileKind::View, None)?.map_or(0, |header| header.epoch);
        loop {
            let offset = reader.offset();
            let Some(line) = reader.next_line()? else {
                return Ok(());
            };
            let damaged = |damage| Damaged { offset, damage };
            if is_counts(line.json) {
                if let Row::Counts(changes) = line.decode().map_err(damaged)? {
                    self.counts.push(((epoch, changes.moment), *changes));
                }
            } else if runs && line.json.starts_with(JOB_PREFIX) {
                self.add_run(line.json).map_err(damaged)?;
            }
        }
    }

    fn add_run(&mut self, json: &[u8]) -> Result<(), Damage> {
        let quick = peek(json).filter(|row| !row.stat.is_started());
        let (key, hosts) = match quick {
            Some(row) => (row.key, Vec::new()),
            None => {
                let row = decode_job(json)?;
                let started = row.stat.is_started();
                (row.j, if started { row.hosts } else { Vec::new() })
            }
        };
        self.runs.insert(key, hosts);
        Ok(())
    }

    /// The changes that a document of this moment does not include, oldest first.
    fn after(&self, moment: Moment) -> impl Iterator<Item = &CountChanges> {
        let later = self.counts.iter().filter(move |(at, _)| *at > moment);
        later.map(|(_, changes)| changes)
    }

    /// Moves jobs in the deltas to the hosts where they run.
    fn move_jobs(&self, hosts: &mut [HostRow], at: &HashMap<String, usize>) {
        for host in hosts.iter_mut() {
            host.jobs.retain(|(j, _)| !self.runs.contains_key(j));
        }
        for (j, shares) in &self.runs {
            for Share(host, slots) in shares {
                if let Some(at) = at.get(host) {
                    hosts[*at].jobs.push((*j, *slots));
                }
            }
        }
        for host in hosts {
            host.jobs.sort_unstable_by_key(|(j, _)| *j);
        }
    }
}

fn limit_and_resource(row: &LimitRow) -> (String, String) {
    (row.name.clone(), row.resource.clone())
}

/// Replaces the row with this key, or adds it.
fn put<K: Eq + std::hash::Hash, R>(rows: &mut Vec<R>, at: &mut HashMap<K, usize>, key: K, row: R) {
    match at.get(&key) {
        Some(known) => rows[*known] = row,
        None => {
            at.insert(key, rows.len());
            rows.push(row);
        }
    }
}

/// The first position of a row with each key.
fn first_positions<K: Eq + std::hash::Hash>(keys: impl Iterator<Item = K>) -> HashMap<K, usize> {
    let mut at = HashMap::new();
    for (n, key) in keys.enumerate() {
        at.entry(key).or_insert(n);
    }
    at
}
