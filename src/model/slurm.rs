//! Additional data of a job that was submitted by `sbatch`, or whose script has lines for Slurm.

use serde::{Deserialize, Serialize};

/// Maximum length of the arguments of a script together, and of a directory, in bytes.
const ARGS_MAX: usize = 64 << 10;
const DIR_MAX: usize = 4095;

/// The part of a specification that is set for such jobs: they get Slurm's variables.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SlurmJob {
    /// Number of requested tasks; 0: number of slots divided by `cpus`.
    #[serde(skip_serializing_if = "is_zero")]
    pub tasks: u32,
    /// Processors per task; 0: not specified, one.
    #[serde(skip_serializing_if = "is_zero")]
    pub cpus: u32,
    /// Submitted by `csub`, which has read the lines: except for the variables it is a job like any
    /// other.
    #[serde(skip_serializing_if = "is_false")]
    pub of_csub: bool,
    /// Arguments of the script.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The directory in which the command was called.
    pub submit_dir: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<SlurmArray>,
}

/// The indices of an array as counted by its submitter.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SlurmArray {
    pub min: u32,
    pub max: u32,
    pub step: u32,
    pub count: u32,
    /// By how much the indices are raised here: 1 if the smallest is 0, otherwise 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub shift: u32,
}

fn is_false(b: &bool) -> bool {
    !*b
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl SlurmJob {
    /// Checks values that our clients never send.
    ///
    /// # Errors
    /// The problem.
    pub fn check(&self) -> Result<(), String> {
        let args: usize = self.args.iter().map(|word| word.len() + 1).sum();
        if args > ARGS_MAX || self.args.iter().any(|word| word.contains('\0')) {
            return Err(format!(
                "arguments of a script have at most {ARGS_MAX} bytes and no NUL"
            ));
        }
        if self.submit_dir.len() > DIR_MAX || self.submit_dir.contains('\0') {
            return Err(format!("a directory has at most {DIR_MAX} bytes"));
        }
        match self.array {
            Some(array) if array.shift > 1 => Err("indices are raised by 1 at most".to_owned()),
            _ => Ok(()),
        }
    }

    /// By how much indices were raised.
    pub fn shift(&self) -> u32 {
        self.array.map_or(0, |array| array.shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_of_other_jobs_are_as_before() {
        let plain = crate::model::Spec::default();
        let json = serde_json::to_string(&plain).unwrap();
        assert!(!json.contains("slurm"), "{json}");
        assert_eq!(
            serde_json::from_str::<crate::model::Spec>(&json).unwrap(),
            plain
        );
        let mut own = plain.clone();
        own.slurm = Some(Box::new(job("a", 1)));
        assert!(own != plain && own.submitters_index(3) == 2);
        own.stdout = "o".into();
        assert!(!own.wants_report());
        if let Some(slurm) = own.slurm.as_deref_mut() {
            slurm.of_csub = true;
        }
        assert!(own.wants_report());
        assert_eq!(plain.submitters_index(3), 3);
        let json = serde_json::to_string(&own).unwrap();
        assert_eq!(
            serde_json::from_str::<crate::model::Spec>(&json).unwrap(),
            own
        );
    }

    fn job(args: &str, shift: u32) -> SlurmJob {
        SlurmJob {
            args: vec![args.to_owned()],
            array: Some(SlurmArray {
                shift,
                ..SlurmArray::default()
            }),
            ..SlurmJob::default()
        }
    }

    #[test]
    fn what_a_forged_request_may_say_is_bounded() {
        assert_eq!(job("a", 1).check(), Ok(()));
        assert_eq!(job("a", 1).shift(), 1);
        assert!(job("a\0", 0).check().is_err());
        assert!(job(&"a".repeat(ARGS_MAX), 0).check().is_err());
        assert!(job("a", 2).check().is_err());
    }
}
