//! The jobs that a reading command shows, and their order.
//!
//! Owns the selectors of cjobs and chist (ids, states, name, queue, host, user, project, job group)
//! and the sort key. Names of users and groups have already been resolved.

use super::job::JobView;
use crate::model::{JobKey, JobStat};
use crate::record::view::JobRow;
use crate::text::job_group::is_within;
use crate::text::jobids::JobSel;
use std::collections::{BTreeMap, HashSet};

/// A set of states.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stats(u16);

impl Stats {
    pub(crate) const NONE: Stats = Stats(0);

    pub(crate) fn of(stats: &[JobStat]) -> Stats {
        stats.iter().fold(Stats(0), |set, s| set.with(*s))
    }

    pub(crate) fn all() -> Stats {
        Stats::of(&JobStat::ALL)
    }

    /// All states that are not finished.
    pub(crate) fn live() -> Stats {
        let live = JobStat::ALL.iter().filter(|s| !s.is_finished());
        live.fold(Stats(0), |set, s| set.with(*s))
    }

    pub(crate) fn with(self, stat: JobStat) -> Stats {
        Stats(self.0 | 1 << stat as u16)
    }

    pub(crate) fn union(self, other: Stats) -> Stats {
        Stats(self.0 | other.0)
    }

    pub(crate) fn has(self, stat: JobStat) -> bool {
        self.0 & 1 << stat as u16 != 0
    }
}

/// The users whose jobs are selected.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Users {
    #[default]
    All,
    /// Account ids, and names of accounts that are unknown on this host.
    These(HashSet<u32>, HashSet<String>),
    /// Of the requested jobs, those that the caller may see: their own, those of `names`, and those
    /// in `queues`.
    Within {
        requested: Box<Users>,
        uid: u32,
        names: HashSet<String>,
        queues: HashSet<String>,
    },
}

impl Users {
    pub(crate) fn one(uid: u32) -> Users {
        Users::These([uid].into(), HashSet::new())
    }

    pub(crate) fn has(&self, uid: u32, name: &str, queue: &str) -> bool {
        match self {
            Users::All => true,
            Users::These(uids, names) => uids.contains(&uid) || names.contains(name),
            Users::Within {
                requested,
                uid: own,
                names,
                queues,
            } => {
                let is_visible = uid == *own || names.contains(name) || queues.contains(queue);
                is_visible && requested.has(uid, name, queue)
            }
        }
    }
}

/// The selectors of one command. `None` or empty selects everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub stats: Stats,
    pub ids: Vec<JobSel>,
    /// Job name with `*` and `?`, compared with the name with and without index.
    pub name: Option<String>,
    pub queue: Option<String>,
    pub hosts: Option<HashSet<String>>,
    pub project: Option<String>,
    /// Application with `*` and `?`.
    pub app: Option<String>,
    /// Job group; its subgroups are included.
    pub group: Option<String>,
    pub users: Users,
}

impl Selection {
    /// Whether the job is selected.
    pub(crate) fn accepts(&self, v: &JobView<'_>) -> bool {
        self.stats.has(v.stat())
            && self.wants_key(v.key)
            && self.users.has(v.spec.uid, &v.spec.user, &v.spec.queue)
            && self.accepts_rest(v)
    }

    /// Whether the job is selected apart from its state: arrays have elements in many states.
    pub(crate) fn accepts_in_any_state(&self, v: &JobView<'_>) -> bool {
        let any = |sel: &JobSel| sel.id().is_none_or(|id| id == v.key.id);
        (self.ids.is_empty() || self.ids.iter().any(any))
            && self.users.has(v.spec.uid, &v.spec.user, &v.spec.queue)
            && self.accepts_rest(v)
    }

    /// Whether an id on the command line selects the job, or no id was given.
    pub(crate) fn wants_key(&self, key: JobKey) -> bool {
        self.ids.is_empty() || self.ids.iter().any(|s| s.matches(key.id, key.idx))
    }

    fn accepts_rest(&self, v: &JobView<'_>) -> bool {
        let same = |want: &Option<String>, is: &str| want.as_ref().is_none_or(|w| w == is);
        same(&self.queue, &v.spec.queue)
            && same(&self.project, &v.spec.project)
            && self
                .app
                .as_ref()
                .is_none_or(|glob| matches(glob, &v.spec.app))
            && in_group(self.group.as_deref(), &v.spec.job_group)
            && self.on_host(v.row)
            && self.name.as_ref().is_none_or(|glob| named(glob, v))
    }

    fn on_host(&self, row: &JobRow<'_>) -> bool {
        let on = |set: &HashSet<String>| row.hosts.iter().any(|h| set.contains(&h.0));
        self.hosts.as_ref().is_none_or(on)
    }
}

/// Whether a job of group `of` is selected by `-g`.
pub(crate) fn in_group(wanted: Option<&str>, of: &str) -> bool {
    wanted.is_none_or(|group| is_within(of, group))
}

fn named(glob: &str, v: &JobView<'_>) -> bool {
    if matches(glob, v.name) {
        return true;
    }
    if v.key.idx == 0 {
        return false;
    }
    let mut whole = String::new();
    v.put_name(&mut whole);
    matches(glob, &whole)
}

/// Whether `text` matches the pattern, in which `*` stands for any text and `?` for one character.
/// Linear in both for each `*`; never backtracks before the last one.
pub(crate) fn matches(glob: &str, text: &str) -> bool {
    let (g, t) = (glob.as_bytes(), text.as_bytes());
    // The end of the character that begins at `at`.
    let after = |at: usize| {
        let rest = t[at + 1..].iter();
        at + 1 + rest.take_while(|b| **b & 0xc0 == 0x80).count()
    };
    let (mut gi, mut ti) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while ti < t.len() {
        match g.get(gi) {
            Some(b'*') => {
                star = Some((gi, ti));
                gi += 1;
            }
            Some(b'?') => (gi, ti) = (gi + 1, after(ti)),
            Some(c) if *c == t[ti] => (gi, ti) = (gi + 1, ti + 1),
            _ => {
                let Some((at, from)) = star else {
                    return false;
                };
                let from = after(from);
                star = Some((at, from));
                (gi, ti) = (at + 1, from);
            }
        }
    }
    g[gi..].iter().all(|c| *c == b'*')
}

/// The position of a job in a list: started jobs by their dispatch, then waiting jobs in the order
/// of dispatch, then finished jobs by their end.
pub(crate) type SortKey = (u8, i64, i64, JobKey);

/// The sort key of a job; `priority` maps queues to their priority.
pub(crate) fn sort_key(v: &JobView<'_>, priority: &BTreeMap<String, i64>) -> SortKey {
    let row = v.row;
    if row.stat.is_finished() {
        (2, row.end, 0, v.key)
    } else if row.stat.is_waiting() {
        let queue = priority.get(&v.spec.queue).copied().unwrap_or(0);
        (1, queue.saturating_neg(), row.order, v.key)
    } else {
        (0, row.dispatch, 0, v.key)
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::samples::*;
    use super::*;

    #[test]
    fn globs() {
        for (glob, text) in [
            ("*UUID*", "part:n=1___(UUID)"),
            ("a?c", "a作c"),
            ("*业??", "作业一号"),
            ("*一*", "作业一"),
            ("*", ""),
            ("a*b*c", "aXbYbZc"),
            ("x", "x"),
        ] {
            assert!(matches(glob, text), "{glob} {text}");
        }
        for (glob, text) in [
            ("a*", "ba"),
            ("a", "ab"),
            ("?", ""),
            ("?", "作业"),
            ("*??", "作"),
            ("*a", "ab"),
            ("", "a"),
        ] {
            assert!(!matches(glob, text), "{glob} {text}");
        }
    }

    fn within(requested: Users, name: &str, queue: &str) -> Users {
        Users::Within {
            requested: Box::new(requested),
            uid: 7,
            names: [name.to_owned()].into(),
            queues: [queue.to_owned()].into(),
        }
    }

    #[test]
    fn selectors_are_anded() {
        let (ctx, spec, row) = (ctx(), spec(), running());
        let v = view(&ctx, &spec, &row, None);
        let base = Selection {
            stats: Stats::live(),
            ..Selection::default()
        };
        assert!(base.accepts(&v));
        let with = |f: fn(&mut Selection)| {
            let mut s = base.clone();
            f(&mut s);
            s.accepts(&v)
        };
        assert!(with(|s| s.name = Some("sweep".into())));
        assert!(with(|s| s.name = Some("sw*[7]".into())));
        assert!(!with(|s| s.name = Some("sweep[8]".into())));
        assert!(!with(|s| s.group = Some("/a".into())));
        assert!(in_group(Some("/a"), "/a/b") && !in_group(Some("/a/b"), "/a"));
        assert!(in_group(None, "") && in_group(None, "/a"));
        assert!(with(|s| s.hosts = Some(["h2".to_owned()].into())));
        assert!(!with(|s| s.hosts = Some(["h3".to_owned()].into())));
        assert!(!with(|s| s.queue = Some("night".into())));
        assert!(!with(|s| s.users = Users::one(7)));
        assert!(with(
            |s| s.users = Users::These(HashSet::new(), ["user0001".to_owned()].into())
        ));
        assert!(with(|s| s.users = within(Users::All, "user0001", "none")));
        assert!(with(|s| s.users = within(Users::All, "x", "normal")));
        assert!(!with(|s| s.users = within(Users::All, "x", "none")));
        assert!(!with(
            |s| s.users = within(Users::one(7), "user0001", "none")
        ));
        assert!(!with(|s| s.stats = Stats::of(&[JobStat::Done])));
        assert!(with(|s| s.ids = vec![JobSel::parse("102[1-9]").unwrap()]));
        assert!(with(|s| s.ids = vec![JobSel::parse("102").unwrap()]));
        assert!(!with(|s| s.ids = vec![JobSel::parse("102[8]").unwrap()]));
    }

    #[test]
    fn started_then_waiting_then_finished() {
        let (ctx, spec) = (ctx(), spec());
        let key = |row: &JobRow<'_>| sort_key(&view(&ctx, &spec, row, None), &BTreeMap::new());
        let (a, b, c) = (key(&running()), key(&pending()), key(&killed()));
        assert!(a < b && b < c);
        let mut first = pending();
        first.order = -1;
        assert!(key(&first) < b);
    }
}
