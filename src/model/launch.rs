//! How the command of a job becomes tasks, as data: `csub --launch` and `--section`. Owns the names
//! of sections and what a kind of launch requires of them. Starts nothing.

use serde::{Deserialize, Serialize};

/// Maximum number of sections of a job, and maximum length of the name of one in bytes.
pub const SECTIONS_MAX: usize = 100;
const NAME_MAX: usize = 40;
/// Maximum length of the command of a section in bytes.
pub const SECTION_COMMAND_MAX: usize = 4095;

/// The variables that tasks get in addition to those that all tasks have.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchKind {
    /// None.
    #[default]
    Tasks,
    /// `MASTER_ADDR` and the like, for PyTorch.
    Torch,
    /// `TF_CONFIG`.
    Tf,
    /// `DMLC_ROLE` and the like.
    Mxnet,
    /// None: the command runs once and starts its ranks itself, by mpiexec.
    Mpi,
}

/// All kinds by the words for users.
pub const LAUNCH_KINDS: &[(&str, LaunchKind)] = &[
    ("tasks", LaunchKind::Tasks),
    ("torch", LaunchKind::Torch),
    ("tf", LaunchKind::Tf),
    ("mxnet", LaunchKind::Mxnet),
    ("mpi", LaunchKind::Mpi),
];

impl LaunchKind {
    /// The kind of a word.
    pub fn parse(word: &str) -> Option<LaunchKind> {
        let row = LAUNCH_KINDS.iter().find(|(name, _)| *name == word);
        row.map(|(_, kind)| *kind)
    }

    pub fn word(self) -> &'static str {
        let row = LAUNCH_KINDS.iter().find(|(_, kind)| *kind == self);
        row.map_or("tasks", |(name, _)| name)
    }
}

/// One section as described by the submitter.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TaskSection {
    pub name: String,
    /// The command of its tasks; empty = the job's command.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub command: String,
}

/// A job that starts a task for each slot.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Launch {
    pub kind: LaunchKind,
    /// In the order of the requirement's sections; empty = the sections are named by their numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<TaskSection>,
}

impl TaskSection {
    /// Parses `NAME` or `NAME=COMMAND`.
    ///
    /// # Errors
    /// The name is invalid.
    pub fn parse(text: &str) -> Result<TaskSection, String> {
        let (name, command) = match text.split_once('=') {
            None => (text, ""),
            Some((_, command)) if command.trim().is_empty() => {
                return Err(format!("'{text}' has no command after ="));
            }
            Some(both) => both,
        };
        let section = TaskSection {
            name: name.to_owned(),
            command: command.to_owned(),
        };
        section.check().map(|()| section)
    }

    fn check(&self) -> Result<(), String> {
        let sound = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if self.name.is_empty() || self.name.len() > NAME_MAX || !self.name.chars().all(sound) {
            return Err(format!(
                "a section's name has 1 to {NAME_MAX} letters, digits and underscores"
            ));
        }
        if self.command.len() > SECTION_COMMAND_MAX || self.command.contains('\0') {
            return Err(format!(
                "a section's command has at most {SECTION_COMMAND_MAX} bytes and no NUL"
            ));
        }
        Ok(())
    }
}

impl Launch {
    /// Checks rules that do not depend on the sizes of sections.
    ///
    /// # Errors
    /// The problem.
    pub fn check(&self) -> Result<(), String> {
        if self.sections.len() > SECTIONS_MAX {
            return Err(format!("a job has at most {SECTIONS_MAX} sections"));
        }
        for (n, section) in self.sections.iter().enumerate() {
            section.check()?;
            if self.sections[..n].iter().any(|s| s.name == section.name) {
                return Err(format!("two sections are named {}", section.name));
            }
        }
        if self.kind == LaunchKind::Mpi && self.sections.iter().any(|s| !s.command.is_empty()) {
            return Err(
                "mpi runs one command that starts the ranks: sections cannot have commands".into(),
            );
        }
        Ok(())
    }

    /// The names of sections of these sizes.
    ///
    /// # Errors
    /// They do not fit this kind, or another number of sections was described.
    pub fn names(&self, slots: &[u32]) -> Result<Vec<String>, String> {
        let given = self.sections.len();
        if given > 0 && given != slots.len() {
            return Err(format!(
                "{given} sections are described, but the requirement has {}",
                slots.len()
            ));
        }
        let own: Vec<String> = self.sections.iter().map(|s| s.name.clone()).collect();
        let usual: &[&str] = match (self.kind, slots.len()) {
            _ if given > 0 => &[],
            (LaunchKind::Tf, 1) => &["worker"],
            (LaunchKind::Tf, 2) => &["ps", "worker"],
            (LaunchKind::Tf, 3) => &["chief", "ps", "worker"],
            (LaunchKind::Mxnet, 3) => &["scheduler", "server", "worker"],
            _ => &[],
        };
        let names = match (own.is_empty(), usual.is_empty()) {
            (false, _) => own,
            (true, false) => usual.iter().map(|&name| name.to_owned()).collect(),
            (true, true) => (1..=slots.len()).map(|n| n.to_string()).collect(),
        };
        self.check_roles(&names, slots).map(|()| names)
    }

    fn check_roles(&self, names: &[String], slots: &[u32]) -> Result<(), String> {
        let at = |name: &str| names.iter().position(|n| n == name);
        match self.kind {
            LaunchKind::Tf => {
                let known = ["chief", "master", "ps", "worker", "evaluator"];
                match names.iter().find(|n| !known.contains(&n.as_str())) {
                    Some(name) => Err(format!(
                        "TensorFlow has no task of the type {name}: {}",
                        known.join(" ")
                    )),
                    None => Ok(()),
                }
            }
            LaunchKind::Mxnet => {
                let all = [at("scheduler"), at("server"), at("worker")];
                if names.len() != 3 || all.contains(&None) {
                    return Err("mxnet needs the sections scheduler, server and worker".into());
                }
                match at("scheduler").and_then(|at| slots.get(at)) {
                    Some(1) => Ok(()),
                    _ => Err("mxnet has one scheduler: its section has one slot".into()),
                }
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(kind: LaunchKind, sections: &[&str]) -> Launch {
        let sections = sections.iter().map(|s| TaskSection::parse(s).unwrap());
        Launch {
            kind,
            sections: sections.collect(),
        }
    }

    #[test]
    fn a_section_has_a_name_and_perhaps_a_command() {
        let section = TaskSection::parse("ps=python ps.py --a=b").unwrap();
        assert_eq!(
            (&*section.name, &*section.command),
            ("ps", "python ps.py --a=b")
        );
        assert_eq!(TaskSection::parse("worker").unwrap().command, "");
        for wrong in ["", "a b", "=x", "a=", "a-b=c", &"x".repeat(41)] {
            assert!(TaskSection::parse(wrong).is_err(), "{wrong}");
        }
        let long = format!("a={}", "x".repeat(SECTION_COMMAND_MAX + 1));
        assert!(TaskSection::parse(&long).is_err());
    }

    #[test]
    fn a_kind_says_which_sections_it_needs() {
        let names = |l: &Launch, slots: &[u32]| l.names(slots).map(|n| n.join(" "));
        let plain = launch(LaunchKind::Tasks, &[]);
        assert_eq!(names(&plain, &[1, 3]).unwrap(), "1 2");
        let tf = launch(LaunchKind::Tf, &[]);
        assert_eq!(names(&tf, &[4]).unwrap(), "worker");
        assert_eq!(names(&tf, &[1, 3]).unwrap(), "ps worker");
        assert_eq!(names(&tf, &[1, 1, 3]).unwrap(), "chief ps worker");
        assert!(
            names(&tf, &[1, 1, 1, 1])
                .unwrap_err()
                .contains("TensorFlow")
        );
        let mx = launch(LaunchKind::Mxnet, &[]);
        assert_eq!(names(&mx, &[1, 2, 3]).unwrap(), "scheduler server worker");
        assert!(names(&mx, &[2, 2, 3]).unwrap_err().contains("one slot"));
        assert!(names(&mx, &[4]).is_err());
        let named = launch(LaunchKind::Torch, &["head", "rest=./rest"]);
        assert_eq!(names(&named, &[1, 3]).unwrap(), "head rest");
        assert!(
            names(&named, &[4])
                .unwrap_err()
                .contains("2 sections are described")
        );
    }

    #[test]
    fn what_no_client_of_ours_sends_is_refused() {
        assert!(launch(LaunchKind::Tasks, &["a", "a"]).check().is_err());
        assert!(launch(LaunchKind::Mpi, &["a=x"]).check().is_err());
        assert!(launch(LaunchKind::Mpi, &["a"]).check().is_ok());
        let many: Vec<String> = (0..=SECTIONS_MAX).map(|n| format!("s{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(launch(LaunchKind::Tasks, &many).check().is_err());
        let mut bad = launch(LaunchKind::Tasks, &["a"]);
        bad.sections[0].name = "a b".into();
        assert!(bad.check().is_err());
        for (word, kind) in LAUNCH_KINDS {
            assert_eq!((LaunchKind::parse(word), kind.word()), (Some(*kind), *word));
        }
    }
}
