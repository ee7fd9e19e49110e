//! Cycles in group membership. Pure graph code on names.

use std::collections::BTreeMap;

/// All cycles that a walk from each name meets, each once, starting with its first name in the
/// order of the walk. Linear in names and edges; without recursion, since a chain may be as long as
/// the file.
pub(super) fn cycles<'a>(edges: &BTreeMap<&'a str, Vec<&'a str>>) -> Vec<Vec<&'a str>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        Open,
        Done,
    }
    let mut marks: BTreeMap<&str, Mark> = BTreeMap::new();
    let mut found = Vec::new();
    for &start in edges.keys() {
        if marks.contains_key(start) {
            continue;
        }
        marks.insert(start, Mark::Open);
        let mut path: Vec<(&'a str, usize)> = vec![(start, 0)];
        while let Some((name, next)) = path.last_mut() {
            let Some(&to) = edges.get(name).and_then(|e| e.get(*next)) else {
                marks.insert(name, Mark::Done);
                path.pop();
                continue;
            };
            *next += 1;
            match marks.get(to) {
                Some(Mark::Done) => {}
                Some(Mark::Open) => {
                    let from = path.iter().position(|(n, _)| *n == to).unwrap_or(0);
                    found.push(path[from..].iter().map(|(n, _)| *n).collect());
                }
                None => {
                    marks.insert(to, Mark::Open);
                    path.push((to, 0));
                }
            }
        }
    }
    found
}

/// Names in an order in which every name comes after the names that it refers to. The order of
/// names on a cycle is arbitrary.
pub(super) fn inner_first<'a>(edges: &BTreeMap<&'a str, Vec<&'a str>>) -> Vec<&'a str> {
    let mut visited: BTreeMap<&str, ()> = BTreeMap::new();
    let mut out = Vec::with_capacity(edges.len());
    for &start in edges.keys() {
        if visited.insert(start, ()).is_some() {
            continue;
        }
        let mut path: Vec<(&'a str, usize)> = vec![(start, 0)];
        while let Some((name, next)) = path.last_mut() {
            let Some(&to) = edges.get(name).and_then(|e| e.get(*next)) else {
                out.push(*name);
                path.pop();
                continue;
            };
            *next += 1;
            if edges.contains_key(to) && visited.insert(to, ()).is_none() {
                path.push((to, 0));
            }
        }
    }
    out
}

/// The number of levels below each name (0 = refers to no name), for a graph without cycles.
pub(super) fn depths<'a>(edges: &BTreeMap<&'a str, Vec<&'a str>>) -> BTreeMap<&'a str, usize> {
    let mut out: BTreeMap<&str, usize> = BTreeMap::new();
    for name in inner_first(edges) {
        let below = edges[name].iter().filter_map(|to| out.get(to)).max();
        let depth = below.map_or(0, |d| d + 1);
        out.insert(name, depth);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(text: &'static str) -> BTreeMap<&'static str, Vec<&'static str>> {
        text.split(';')
            .map(|part| {
                let mut words = part.split_whitespace();
                (words.next().unwrap(), words.collect())
            })
            .collect()
    }

    #[test]
    fn a_diamond_is_no_cycle() {
        assert!(cycles(&edges("a b c;b d;c d;d")).is_empty());
    }

    #[test]
    fn each_cycle_is_told_once() {
        assert_eq!(
            cycles(&edges("a b;b a;c c;d a")),
            [vec!["a", "b"], vec!["c"]]
        );
    }

    #[test]
    fn inner_names_come_first() {
        assert_eq!(inner_first(&edges("a b c;b d;c d;d")), ["d", "b", "c", "a"]);
    }

    #[test]
    fn depth_counts_levels_below() {
        let edges = edges("a b c;b d;c d;d");
        assert_eq!(
            depths(&edges).into_values().collect::<Vec<_>>(),
            [2, 1, 1, 0]
        );
    }

    #[test]
    fn a_long_chain_is_no_burden() {
        let names: Vec<String> = (0..50_000).map(|i| format!("g{i}")).collect();
        let edges: BTreeMap<&str, Vec<&str>> = names
            .windows(2)
            .map(|w| (w[0].as_str(), vec![w[1].as_str()]))
            .collect();
        assert!(cycles(&edges).is_empty());
        assert_eq!(inner_first(&edges).len(), 49_999);
    }
}
