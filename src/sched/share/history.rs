//! What is shown of a share tree, and what is kept of it: the history of its leaves.
//!
//! Owns the two lists and their order. Writes nothing itself: the caller puts history into a
//! record, and restores it into a tree that may have other shares by then.

use super::usage::Meter;
use super::{Node, ROOT, ShareTree, WITHOUT_SHARE};
use crate::config::ShareSubject;
use crate::model::Stamp;
pub use crate::record::event::UserShareHistory;

/// One node as displayed by `cqueues -r`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareRow {
    /// Names from the top, separated by `/`: `g1/u007`.
    pub path: String,
    /// 0 = directly under the queue.
    pub depth: u32,
    /// It is a group, not a user.
    pub group: bool,
    pub shares: u32,
    /// In millionths. Fairshare: shares over usage, larger first. DRF: dominant share over shares,
    /// smaller first.
    pub priority: u64,
    /// Slots of started jobs.
    pub started: i64,
    pub jobs: i64,
    /// CPU time of running jobs, in milliseconds.
    pub cpu_ms: u64,
    /// Run time of the slots of started and ended jobs, decayed to now, in milliseconds.
    pub run_ms: u64,
    /// CPU time of ended jobs, decayed to now, in milliseconds.
    pub hist_ms: u64,
}

impl ShareTree {
    /// All nodes, parents before their children, siblings in the order of the list.
    pub fn rows(&self, now: Stamp) -> Vec<ShareRow> {
        let mut out = Vec::with_capacity(self.nodes.len());
        // There may have been no pass for a long time: history has decayed meanwhile.
        let steps = self.step.map_or(0, |step| self.decay.step(now) - step);
        let none = [0; 3];
        self.walk(&mut |node, path, depth| {
            let mut usage = node.usage.clone();
            if steps > 0 {
                usage.decay(&self.decay, steps, &none, now);
            }
            out.push(ShareRow {
                path: path.to_owned(),
                depth,
                group: node.inner.is_some(),
                shares: node.shares,
                priority: usage.displayed_value(&self.rule, node.shares, now),
                started: usage.slots,
                jobs: usage.jobs,
                cpu_ms: usage.cpu_ms(),
                run_ms: usage.used_us(Meter::Run, now) / 1000,
                hist_ms: usage.hist_us[Meter::Cpu as usize] / 1000,
            });
        });
        out
    }

    /// The usage of every leaf until `now`, and the moment to which it refers: later if the tree
    /// was last swept later. CPU time is only that of ended jobs.
    pub fn history_until(&mut self, now: Stamp) -> (Stamp, Vec<UserShareHistory>) {
        if now > self.now {
            self.update_costs(now);
        }
        let at = self.now;
        let mut out = Vec::new();
        self.walk(&mut |node, path, _| {
            let usage = &node.usage;
            let cpu = usage.hist_us[Meter::Cpu as usize];
            let [run, gpu] = [Meter::Run, Meter::Gpu].map(|meter| usage.used_us(meter, at));
            if node.inner.is_none() && [cpu, run, gpu] != [0; 3] {
                out.push(UserShareHistory {
                    path: path.to_owned(),
                    by: self.entry_text(node),
                    us: [cpu, run, gpu],
                    ended: usage.ended,
                    at,
                });
            }
        });
        (at, out)
    }

    /// Adds settled history. A place that the tree no longer has is ignored: its group or entry was
    /// removed. Costs are correct after the next sweep.
    pub fn restore(&mut self, past: &[UserShareHistory]) {
        let latest = past.iter().map(|old| self.decay.step(old.at)).max();
        let Some(step) = self.step.or(latest) else {
            return;
        };
        self.step = Some(step);
        let latest = past.iter().map(|old| old.at).max();
        (self.now, self.stale) = (self.now.max(latest.unwrap_or(self.now)), true);
        for old in past {
            let Some(leaf) = self.place_of(old) else {
                continue;
            };
            let steps = step - self.decay.step(old.at);
            let us = old.us.map(|us| self.decay.after(us, steps));
            let ended = old.ended.map(|n| self.decay.after(n, steps));
            let mut at = leaf;
            loop {
                let node = &mut self.nodes[at as usize];
                node.usage.add_history(&us);
                node.usage.add_ended(&ended);
                if at == ROOT {
                    break;
                }
                at = node.parent;
            }
        }
    }

    fn place_of(&mut self, past: &UserShareHistory) -> Option<u32> {
        let mut at = ROOT;
        let mut names: Vec<&str> = past.path.split('/').collect();
        let user = names.pop()?;
        for name in names {
            if name == WITHOUT_SHARE {
                return Some(self.leaf_without_share(user).0);
            }
            let inner = self.nodes[at as usize].inner.as_deref()?;
            at = *inner.children.iter().find(|kid| {
                let kid = &self.nodes[**kid as usize];
                kid.inner.is_some() && *kid.name == *name
            })?;
        }
        let entries = &self.nodes[at as usize].inner.as_deref()?.entries;
        let same = |subject: &ShareSubject| subject_text(subject) == past.by;
        let entry = entries.iter().position(|entry| same(&entry.subject))?;
        let entry = u32::try_from(entry).ok()?;
        let own = !matches!(entries[entry as usize].subject, ShareSubject::User(_));
        let leaf = own || past.by == user;
        let below = matches!(
            entries[entry as usize].subject,
            ShareSubject::Group(_) | ShareSubject::Others
        );
        (leaf && !below).then(|| self.leaf_at(at, entry, user))
    }

    fn entry_text(&self, node: &Node) -> String {
        let above = self.nodes[node.parent as usize].inner.as_ref();
        let entries = &above.expect("a leaf has a parent").entries;
        subject_text(&entries[(node.order >> 32) as usize].subject)
    }

    fn walk(&self, see: &mut dyn FnMut(&Node, &str, u32)) {
        // A stack of (node, length of its parent's path, depth).
        let mut stack = Vec::new();
        let mut path = String::new();
        self.stack_kids(ROOT, 0, 0, &mut stack);
        while let Some((at, length, depth)) = stack.pop() {
            let node = &self.nodes[at as usize];
            path.truncate(length);
            if length > 0 {
                path.push('/');
            }
            path.push_str(&node.name);
            see(node, &path, depth);
            self.stack_kids(at, path.len(), depth + 1, &mut stack);
        }
    }

    fn stack_kids(&self, at: u32, length: usize, depth: u32, stack: &mut Vec<(u32, usize, u32)>) {
        let Some(inner) = &self.nodes[at as usize].inner else {
            return;
        };
        let mut kids = inner.children.clone();
        kids.sort_by_key(|kid| std::cmp::Reverse(self.nodes[*kid as usize].order));
        stack.extend(kids.into_iter().map(|kid| (kid, length, depth)));
    }
}

fn subject_text(subject: &ShareSubject) -> String {
    match subject {
        ShareSubject::User(name) | ShareSubject::Group(name) => name.clone(),
        ShareSubject::GroupEach(group) => format!("{group}@"),
        ShareSubject::Default => "default".to_owned(),
        ShareSubject::Others => "others".to_owned(),
    }
}
