//! Converts tasks, processors and hosts of a Slurm or PBS job to slots and `span[]`.

use super::conversion::number;

/// The requested numbers; `None`: not specified.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct TaskLayout {
    pub tasks: Option<u32>,
    pub cpus: Option<u32>,
    pub nodes: Option<u32>,
    pub per_node: Option<u32>,
}

/// The request in slots.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct SlotRequest {
    pub slots: u32,
    pub tasks: u32,
    pub span: Option<Span>,
    /// Number of hosts, if known.
    pub hosts: Option<u32>,
    /// Maximum number of slots on one host, if known.
    pub on_host: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Span {
    OneHost,
    OnEach(u32),
    /// The slots of a task stay together.
    Blocks(u32),
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Span::OneHost => f.write_str("span[hosts=1]"),
            Span::OnEach(n) => write!(f, "span[ptile={n}]"),
            Span::Blocks(n) => write!(f, "span[block={n}]"),
        }
    }
}

/// A number of hosts, `2` or `2-2`.
pub(crate) fn hosts(text: &str) -> Result<u32, String> {
    match text.split_once('-') {
        None => number(text),
        Some((least, most)) if number(least)? == number(most)? => number(least),
        Some(_) => Err("a range of hosts is not available: give one number".to_owned()),
    }
}

impl TaskLayout {
    /// Whether nothing was requested.
    pub(crate) fn is_empty(self) -> bool {
        self == TaskLayout::default()
    }

    /// # Errors
    /// The numbers contradict each other.
    pub(crate) fn slots(self) -> Result<SlotRequest, String> {
        let cpus = self.cpus.unwrap_or(1);
        let (hosts, per_node) = match (self.nodes, self.per_node, self.tasks) {
            (None, None, _) => return self.on_any_hosts(cpus),
            (Some(hosts), Some(per_node), None) => (hosts, per_node),
            (Some(hosts), None, None) => (hosts, 1),
            (None, Some(per_node), None) => (1, per_node),
            (None, Some(per_node), Some(tasks)) => (tasks.div_ceil(per_node), per_node),
            (Some(hosts), given, Some(tasks)) => {
                let each = tasks.div_ceil(hosts);
                let per_node = given.unwrap_or(each);
                if per_node < each || tasks.div_ceil(each) != hosts {
                    return Err(format!(
                        "{tasks} tasks cannot be divided among {hosts} hosts with at most \
                         {per_node} on each"
                    ));
                }
                (hosts, each)
            }
        };
        let tasks = self.tasks.map_or_else(|| times(hosts, per_node), Ok)?;
        let on_host = times(per_node.min(tasks), cpus)?;
        Ok(SlotRequest {
            slots: times(tasks, cpus)?,
            tasks,
            span: Some(match hosts {
                1 => Span::OneHost,
                _ => Span::OnEach(on_host),
            }),
            hosts: Some(hosts),
            on_host: Some(on_host),
        })
    }

    /// The slots of a request without a number of hosts.
    fn on_any_hosts(self, cpus: u32) -> Result<SlotRequest, String> {
        let tasks = self.tasks.unwrap_or(1);
        let one = tasks == 1;
        Ok(SlotRequest {
            slots: times(tasks, cpus)?,
            tasks,
            span: match (tasks, cpus) {
                (_, 1) => None,
                (1, _) => Some(Span::OneHost),
                _ => Some(Span::Blocks(cpus)),
            },
            hosts: one.then_some(1),
            on_host: one.then_some(cpus),
        })
    }
}

fn times(a: u32, b: u32) -> Result<u32, String> {
    a.checked_mul(b)
        .ok_or_else(|| format!("{a} times {b} slots are too many"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(tasks: u32, cpus: u32, nodes: u32, per_node: u32) -> String {
        let some = |n: u32| (n > 0).then_some(n);
        let shape = TaskLayout {
            tasks: some(tasks),
            cpus: some(cpus),
            nodes: some(nodes),
            per_node: some(per_node),
        };
        match shape.slots() {
            Err(e) => e,
            Ok(s) => {
                let span = s.span.map_or(String::new(), |span| format!(" {span}"));
                format!("{} of {}{span}", s.slots, s.tasks)
            }
        }
    }

    #[test]
    fn tasks_and_hosts_become_slots_and_spans() {
        for (requested, want) in [
            ((0, 0, 0, 0), "1 of 1"),
            ((4, 0, 0, 0), "4 of 4"),
            ((0, 8, 0, 0), "8 of 1 span[hosts=1]"),
            ((4, 2, 0, 0), "8 of 4 span[block=2]"),
            ((0, 0, 2, 0), "2 of 2 span[ptile=1]"),
            ((0, 4, 2, 3), "24 of 6 span[ptile=12]"),
            ((5, 0, 2, 0), "5 of 5 span[ptile=3]"),
            ((4, 2, 1, 0), "8 of 4 span[hosts=1]"),
            ((8, 0, 0, 4), "8 of 8 span[ptile=4]"),
            ((3, 0, 0, 4), "3 of 3 span[hosts=1]"),
            ((0, 0, 0, 4), "4 of 4 span[hosts=1]"),
        ] {
            let (tasks, cpus, nodes, per_node) = requested;
            assert_eq!(slots(tasks, cpus, nodes, per_node), want, "{requested:?}");
        }
        assert!(slots(4, 0, 3, 0).contains("cannot be divided"));
        assert!(slots(1, 0, 2, 0).contains("cannot be divided"));
        assert!(slots(9, 0, 2, 4).contains("at most 4"));
        assert!(slots(u32::MAX, 2, 0, 0).contains("too many"));
        assert_eq!(hosts("2-2"), Ok(2));
        assert!(hosts("1-2").is_err());
    }
}
