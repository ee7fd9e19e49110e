//! The units of its host that a simulated task has, as found in its environment. Judges nothing.

use crate::model::WHOLE_UNIT;

/// The variables in which a task finds its units, its part of each, and their memory.
const NAMES: &str = "CB_ASSIGN_GPU=";
const PARTS: &str = "CB_PART_GPU=";
const MEMORY: &str = "CB_PART_GPU_MEM=";

/// A task's share of one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnUnit {
    pub name: String,
    /// Thousandths.
    pub part: u32,
    pub mb: u64,
}

/// The units in the environment of a task.
pub(super) fn in_env(env: &[String]) -> Vec<OwnUnit> {
    let words = |variable: &str| -> Vec<&str> {
        let set = env.iter().find_map(|line| line.strip_prefix(variable));
        set.into_iter().flat_map(|all| all.split(',')).collect()
    };
    let (parts, memory) = (words(PARTS), words(MEMORY));
    let number = |text: Option<&&str>, none: f64| text.map_or(none, |n| n.parse().unwrap_or(1e6));
    let unit = |(at, name): (usize, &str)| OwnUnit {
        name: name.to_owned(),
        part: (number(parts.get(at), 1.0) * f64::from(WHOLE_UNIT)).round() as u32,
        mb: number(memory.get(at), 0.0) as u64,
    };
    words(NAMES).into_iter().enumerate().map(unit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_memory_are_read_from_the_environment() {
        let env = |lines: &[&str]| lines.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
        let own = |name: &str, part, mb| OwnUnit {
            name: name.into(),
            part,
            mb,
        };
        assert_eq!(
            in_env(&env(&["A=b", "CB_ASSIGN_GPU=0,2"])),
            [own("0", 1000, 0), own("2", 1000, 0)]
        );
        let parts = env(&[
            "CB_ASSIGN_GPU=1",
            "CB_PART_GPU=0.25",
            "CB_PART_GPU_MEM=10240",
        ]);
        assert_eq!(in_env(&parts), [own("1", 250, 10240)]);
        assert_eq!(in_env(&[]), []);
    }
}
