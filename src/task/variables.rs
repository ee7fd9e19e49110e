//! Names of the variables that Corral sets for tasks. Owns the lists; the values come from `build`.

/// What esub programs left for the host's eexec: in the submitted environment, not in the job's.
pub const EEXEC_DATA: &str = "CB_EEXEC_DATA";

use super::cpu_binding::SLOTS_FILE;

/// Names set per task: taken out of the submitter's environment. `CB_` names of the same meaning
/// stand beside the LSF ones.
pub(super) const TASK_NAMES: &[&str] = &[
    "LSB_JOBID",
    "LSB_JOBINDEX",
    "LSB_JOBINDEX_END",
    "LSB_JOBINDEX_STEP",
    "LSB_JOBNAME",
    "LSB_HOSTS",
    "LSB_MCPU_HOSTS",
    "LSB_DJOB_NUMPROC",
    "LSB_MAX_NUM_PROCESSORS",
    "LSB_OUTPUTFILE",
    "LSB_ERRORFILE",
    "LSB_JOBFILENAME",
    "LSB_DJOB_HOSTFILE",
    "LSB_DJOB_RANKFILE",
    "CB_HOSTFILE",
    "LSB_RESTART",
    "LSB_CHKPNT_DIR",
    "CB_CHKPNT_DIR",
    "LSB_CHKPNT_PERIOD",
    "LS_JOBPID",
    "CB_DEADLINE",
    "CB_WARNING_FILE",
    "CB_BIND_CPUS",
    "LSF_PM_TASKID",
    "LSB_BIND_CPU_LIST",
    SLOTS_FILE,
    "LSB_JOBEXIT_STAT",
    "LSB_JOBPEND",
    "LSB_EXIT_PRE_ABORT",
    "LSB_EXIT_REQUEUE",
    "CB_JOBEXIT_STAT",
    "CB_JOBPEND",
    "CB_JOBID",
    "CB_JOBINDEX",
    "CB_JOBNAME",
    "CB_HOSTS",
    "CB_MCPU_HOSTS",
    "CB_SLOTS",
    "CB_ATTEMPT",
    "CB_OUTPUTFILE",
    "CB_ERRORFILE",
    "CB_SECTIONS",
];

/// The list of the hosts of a job of several slots: one line for each slot, hence for each rank.
pub(super) const HOST_FILES: [&str; 3] = ["LSB_DJOB_HOSTFILE", "LSB_DJOB_RANKFILE", "CB_HOSTFILE"];

/// Names set for all tasks of a specification.
pub(super) const BASE_NAMES: &[&str] = &[
    "LSB_QUEUE",
    "LSB_SUB_HOST",
    "LS_SUBCWD",
    "LSFUSER",
    "USER",
    "LOGNAME",
    "HOME",
    "PWD",
    "CB_QUEUE",
    "CB_SUB_HOST",
    "CB_EXEC_HOST",
    "CB_ENVDIR",
    "CB_BINDIR",
    "LSF_ENVDIR",
    "LSF_BINDIR",
    "CB_SERVERDIR",
    "LSF_SERVERDIR",
    "LSF_LIBDIR",
    "LSB_INTERACTIVE",
    "CB_INTERACTIVE",
    EEXEC_DATA,
];
