//! Launching the programs of a task: the command, its hooks and the command of `-rnc`.
//!
//! Owns the environment that an attempt adds, where programs are looked up, and which limits the
//! kernel holds for a process. When a program is launched is decided elsewhere.

use super::{Shepherd, Stdio};
use crate::host::outputs::Files;
use crate::host::tmp_dirs;
use crate::sys::cgroup::Group;
use crate::sys::launch::{self, Launch, Limit, c_strings};
use crate::sys::locked_dir::LockedDir;
use crate::task::spec::TaskLimits;
use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;
use std::path::Path;

/// The working directory of hooks.
const HOOK_DIR: &CStr = c"/tmp";

impl Shepherd<'_> {
    pub(super) fn start(
        &mut self,
        files: &Files,
        more: &[String],
    ) -> Result<i32, launch::LaunchError> {
        let own = c_strings(&[&self.own_env(), more].concat());
        let env = self.prepared.env.iter().chain(&own);
        let env: Vec<&CStr> = env.map(CString::as_c_str).collect();
        let stdio = Stdio::Job(files);
        self.launch(&self.task.argv, &env, Some(c"LS_JOBPID="), stdio)
    }

    /// The variables that this attempt has in its environment in addition to its specification.
    pub(super) fn own_env(&self) -> Vec<String> {
        let mut own = self.task.env.clone();
        own.extend(self.task.deadline_env(self.times.command_start));
        if !self.prepared.names_tmp {
            let tmp = self
                .tmp
                .as_ref()
                .map_or(Path::new(tmp_dirs::TMP), LockedDir::path);
            own.push(format!("TMPDIR={}", tmp.display()));
            if self.prepared.base.sbatch {
                own.push(format!("SLURM_TMPDIR={}", tmp.display()));
            }
        }
        own
    }

    pub(super) fn launch(
        &self,
        argv: &[String],
        env: &[&CStr],
        pid_name: Option<&CStr>,
        stdio: Stdio<'_>,
    ) -> Result<i32, launch::LaunchError> {
        let name = argv.first().map_or("", String::as_str);
        let argv = c_strings(argv);
        let programs = candidates(name, &self.prepared.path);
        let joins = self.group.as_ref().filter(|_| !self.inside);
        let join = joins.map_or(Vec::new(), Group::join_fds);
        let null = self.inherited.null.as_raw_fd();
        let terminal = matches!(&stdio, Stdio::Job(files) if files.is_terminal());
        let (stdio, dir, user) = match stdio {
            Stdio::Job(files) => (files.stdio(null), None, self.prepared.user.as_ref()),
            Stdio::Hook(user, input) => {
                let input = input.map_or(null, |input| input.as_raw_fd());
                ([input, null, null], Some(HOOK_DIR), user)
            }
        };
        launch::launch(&Launch {
            programs: &programs,
            argv: &argv,
            env,
            pid_name,
            stdio,
            dir,
            user,
            rlimits: &rlimits(&self.task.limits),
            nice: self.prepared.base.nice,
            join: &join,
            cpus: self.task.limits.cpus.as_ref(),
            terminal,
        })
    }
}

/// Paths to try for the name of a program.
fn candidates(name: &str, path: &str) -> Vec<CString> {
    if name.contains('/') {
        return c_strings(&[name.to_owned()]);
    }
    let dirs = path.split(':').map(|d| if d.is_empty() { "." } else { d });
    c_strings(&dirs.map(|d| format!("{d}/{name}")).collect::<Vec<_>>())
}

fn rlimits(l: &TaskLimits) -> Vec<(Limit, u64)> {
    let all = [
        (Limit::CpuSeconds, l.cpu_s),
        (Limit::FileBytes, l.file_b),
        (Limit::DataBytes, l.data_b),
        (Limit::StackBytes, l.stack_b),
        (Limit::CoreBytes, l.core_b),
    ];
    all.into_iter()
        .filter_map(|(limit, value)| Some((limit, value?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_up_in_the_jobs_path() {
        let texts = |v: Vec<CString>| -> Vec<String> {
            v.into_iter().map(|c| c.into_string().unwrap()).collect()
        };
        assert_eq!(texts(candidates("a", "/x::/y")), ["/x/a", "./a", "/y/a"]);
        assert_eq!(texts(candidates("./a", "/x")), ["./a"]);
    }
}
