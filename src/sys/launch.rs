//! Launching a job's command: a child with the user's identity, limits, session and cgroup.
//!
//! Owns the dangerous part: a child made with `CLONE_VM | CLONE_VFORK` (no copy of page tables)
//! that shares this memory until it executes the program. Everything it needs is prepared before;
//! it only makes system calls. The caller must be a process with one thread.

use super::{Error, Result, cpus};
use crate::model::{CpuSet, StartFault};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::RawFd;
use std::path::Path;

/// An identity to use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessIdentity {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

/// Everything about the new process.
#[derive(Debug)]
pub struct Launch<'a> {
    /// Paths of the program; the first that exists is used.
    pub programs: &'a [CString],
    pub argv: &'a [CString],
    pub env: &'a [&'a CStr],
    /// Name of a variable, `LS_JOBPID=`, to which the new process adds its own id.
    pub pid_name: Option<&'a CStr>,
    /// Descriptors that become 0, 1 and 2.
    pub stdio: [RawFd; 3],
    /// Working directory, entered as that user; `None` keeps the current one.
    pub dir: Option<&'a CStr>,
    /// The user to become; `None` keeps the identity.
    pub user: Option<&'a ProcessIdentity>,
    /// Resource limits: soft and hard value.
    pub rlimits: &'a [(Limit, u64)],
    /// Added to the nice value.
    pub nice: i32,
    /// Descriptors of `cgroup.procs` files to join.
    pub join: &'a [RawFd],
    /// The processors that it and its children may use; `None` = as this process.
    pub cpus: Option<&'a CpuSet>,
    /// Descriptor 0 is a terminal, which becomes the controlling terminal.
    pub terminal: bool,
}

/// A per-process limit of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    CpuSeconds,
    FileBytes,
    DataBytes,
    StackBytes,
    CoreBytes,
}

/// What failed between the fork and the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Fork,
    Session,
    Join,
    Cpus,
    Limits,
    Identity,
    Files,
    Exec,
}

/// Why the program does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchError {
    pub stage: Stage,
    pub errno: i32,
}

impl LaunchError {
    /// The exit code that a shell would return: 127 for a program that does not exist, 126 for one
    /// that cannot be run; `None` if the program is not the cause.
    pub fn shell_code(&self) -> Option<i32> {
        match (self.stage, self.errno) {
            (Stage::Exec, libc::ENOENT | libc::ENOTDIR) => Some(127),
            (Stage::Exec, libc::EAGAIN | libc::ENOMEM) => None,
            (Stage::Exec, _) => Some(126),
            _ => None,
        }
    }
}

impl LaunchError {
    /// Who is at fault. A user's own limit of processes shows at the exec, and is the user's, like
    /// a program that does not exist: a shell would return an exit code.
    pub fn fault(&self) -> StartFault {
        match (self.stage, self.errno) {
            (Stage::Fork | Stage::Session | Stage::Join | Stage::Cpus, _) => StartFault::Host,
            (Stage::Exec, errno) if is_broken_mount(errno) => StartFault::Unclear,
            (Stage::Exec, errno) => match super::start_fault(errno) {
                StartFault::Host => StartFault::Host,
                StartFault::Job | StartFault::Unclear => StartFault::Job,
            },
            (Stage::Limits | Stage::Identity | Stage::Files, libc::ENOMEM) => StartFault::Host,
            (Stage::Limits | Stage::Identity | Stage::Files, _) => StartFault::Unclear,
        }
    }
}

/// Whether a file system answers this when it is there and does not work.
fn is_broken_mount(errno: i32) -> bool {
    matches!(
        errno,
        libc::EIO
            | libc::ESTALE
            | libc::ENOTCONN
            | libc::ETIMEDOUT
            | libc::EHOSTDOWN
            | libc::EREMOTEIO
            | libc::ENODEV
    )
}

impl std::fmt::Display for LaunchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let act = match self.stage {
            Stage::Fork => "fork",
            Stage::Session => "make a session",
            Stage::Join => "join the control group",
            Stage::Cpus => "bind it to its processors",
            Stage::Limits => "set the limits",
            Stage::Identity => "become the user",
            Stage::Files => "put the files in place",
            Stage::Exec => "run the program",
        };
        write!(
            f,
            "cannot {act}: {}",
            super::reason(&io::Error::from_raw_os_error(self.errno))
        )
    }
}

const STACK: usize = 64 << 10;
/// Room for a process id and the following NUL.
const PID_DIGITS: usize = 12;
const SHELL: &CStr = c"/bin/sh";

/// What the child reads, and where it reports why it failed.
struct ChildData<'a> {
    launch: &'a Launch<'a>,
    /// `Launch::cpus` in the kernel's form; empty = none.
    cpus: Vec<u64>,
    argv: Vec<*const c_char>,
    /// `/bin/sh`, the program, the arguments: for a script without an interpreter line.
    sh_argv: Vec<*const c_char>,
    env: Vec<*const c_char>,
    /// The text of `Launch::pid_name` and its value, at the end of `env`; empty = none.
    pid_text: Vec<u8>,
    failed: Option<LaunchError>,
}

/// Texts for a [`Launch`]. A text with a zero byte is left out.
pub fn c_strings(list: &[String]) -> Vec<CString> {
    list.iter()
        .filter_map(|s| CString::new(s.as_str()).ok())
        .collect()
}

/// Starts the program in its own session and returns its process id. All its signals have their
/// defaults and none is blocked; it has only the three descriptors.
pub fn launch(l: &Launch<'_>) -> std::result::Result<i32, LaunchError> {
    let ptrs = |list: &[CString]| -> Vec<*const c_char> {
        list.iter()
            .map(|s| s.as_ptr())
            .chain([std::ptr::null()])
            .collect()
    };
    let argv = ptrs(l.argv);
    let mut sh_argv = vec![SHELL.as_ptr(), std::ptr::null()];
    sh_argv.extend(argv.iter().skip(1));
    let mut pid_text = l
        .pid_name
        .map_or(Vec::new(), |name| name.to_bytes().to_vec());
    if !pid_text.is_empty() {
        pid_text.resize(pid_text.len() + PID_DIGITS, 0);
    }
    let pid_entry = (!pid_text.is_empty()).then(|| pid_text.as_ptr().cast());
    let own = l.env.iter().map(|s| s.as_ptr());
    let env = own.chain(pid_entry).chain([std::ptr::null()]).collect();
    let mut shared = ChildData {
        launch: l,
        cpus: l.cpus.map_or(Vec::new(), cpus::words),
        argv,
        sh_argv,
        env,
        pid_text,
        failed: None,
    };
    // Not initialised: only the pages that the child touches cost anything.
    let mut stack: Vec<u8> = Vec::with_capacity(STACK);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack is STACK bytes long and grows down from its aligned end; with CLONE_VFORK
    // this thread, the only one, is suspended until the child has executed or ended, so `shared`
    // and the stack outlive the child's use of them.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(STACK);
        let top = top.sub(top as usize % 64);
        libc::clone(child, top.cast(), flags, (&raw mut shared).cast())
    };
    if pid < 0 {
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
        return Err(LaunchError {
            stage: Stage::Fork,
            errno,
        });
    }
    // SAFETY: the child wrote the field, unseen by the compiler, before this thread continued.
    match unsafe { std::ptr::read_volatile(&raw const shared.failed) } {
        None => Ok(pid),
        Some(e) => {
            let mut status = 0;
            // SAFETY: a plain wait for the child that was just created and has ended.
            unsafe { libc::waitpid(pid, &mut status, 0) };
            Err(e)
        }
    }
}

extern "C" fn child(arg: *mut c_void) -> c_int {
    // SAFETY: `launch` passes a `ChildData` that outlives this function.
    let shared = unsafe { &mut *arg.cast::<ChildData<'_>>() };
    write_pid(&mut shared.pid_text);
    let e = match prepare(shared.launch, &shared.cpus) {
        Ok(()) => LaunchError {
            stage: Stage::Exec,
            errno: exec(shared),
        },
        Err(stage) => LaunchError {
            stage,
            errno: errno(),
        },
    };
    // SAFETY: a plain store into the shared memory, then the end of only this process.
    unsafe {
        std::ptr::write_volatile(&raw mut shared.failed, Some(e));
        libc::_exit(127)
    }
}

/// Writes this process's id after the name in `text`. Runs in the child: allocates nothing.
fn write_pid(text: &mut [u8]) {
    // SAFETY: a plain call; raw, since the C library may remember the parent's id.
    let mut rest = unsafe { libc::syscall(libc::SYS_getpid) }.unsigned_abs();
    let mut digits = [0u8; PID_DIGITS];
    let mut first = PID_DIGITS - 1;
    while rest > 0 && first > 0 {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    if let Some(name) = text.len().checked_sub(PID_DIGITS) {
        let end = text.len() - first;
        text[name..end].copy_from_slice(&digits[first..]);
    }
}

fn errno() -> i32 {
    // SAFETY: the location is this thread's.
    unsafe { *libc::__errno_location() }
}

fn ok(rc: c_int, stage: Stage) -> std::result::Result<(), Stage> {
    if rc < 0 { Err(stage) } else { Ok(()) }
}

/// Runs in the child: makes only system calls.
fn prepare(l: &Launch<'_>, cpus: &[u64]) -> std::result::Result<(), Stage> {
    // SAFETY: each call gets integers or pointers to memory of the caller that outlives it. Raw
    // calls are used for identities because the C library's would involve other threads.
    unsafe {
        ok(libc::setsid(), Stage::Session)?;
        for fd in l.join {
            // A version 1 group takes "0" as the writer.
            ok(
                libc::write(*fd, c"0".as_ptr().cast(), 1) as c_int,
                Stage::Join,
            )?;
        }
        // After the groups: joining one with a set of processors replaces the set made before.
        if !cpus.is_empty() {
            let (len, words) = (size_of_val(cpus), cpus.as_ptr());
            let set = libc::syscall(libc::SYS_sched_setaffinity, 0, len, words);
            ok(set as c_int, Stage::Cpus)?;
        }
        for (limit, value) in l.rlimits {
            set_limit(*limit, *value)?;
        }
        if l.nice != 0 {
            let now = libc::getpriority(libc::PRIO_PROCESS, 0);
            libc::setpriority(libc::PRIO_PROCESS, 0, now + l.nice);
        }
        for (target, fd) in l.stdio.iter().enumerate() {
            ok(libc::dup2(*fd, target as c_int), Stage::Files)?;
        }
        libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32);
        if l.terminal {
            // Without it no key sends a signal and no change of the terminal's size is noticed.
            ok(libc::ioctl(0, libc::TIOCSCTTY, 0), Stage::Session)?;
        }
        if let Some(who) = l.user {
            switch_identity_permanently(who)?;
        }
        if let Some(dir) = l.dir {
            ok(libc::chdir(dir.as_ptr()), Stage::Files)?;
        }
        // Handlers disappear with the exec; only ignored signals stay ignored, and this runtime
        // ignores one.
        super::signals::default_sigpipe();
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
    Ok(())
}

/// Sets the soft and hard limit; a lower hard limit stays unchanged.
unsafe fn set_limit(limit: Limit, value: u64) -> std::result::Result<(), Stage> {
    let resource = match limit {
        Limit::CpuSeconds => libc::RLIMIT_CPU,
        Limit::FileBytes => libc::RLIMIT_FSIZE,
        Limit::DataBytes => libc::RLIMIT_DATA,
        Limit::StackBytes => libc::RLIMIT_STACK,
        Limit::CoreBytes => libc::RLIMIT_CORE,
    };
    // SAFETY: `r` is valid for both calls.
    unsafe {
        let mut r = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        ok(libc::getrlimit(resource, &mut r), Stage::Limits)?;
        // The hard limit is one second higher: first the warning signal, then the kill.
        let slack = u64::from(limit == Limit::CpuSeconds);
        r.rlim_max = r.rlim_max.min(value.saturating_add(slack));
        r.rlim_cur = r.rlim_max.min(value);
        ok(libc::setrlimit(resource, &r), Stage::Limits)
    }
}

/// Sets groups, then group, then user; checked and read back, since an incomplete change is worse
/// than none.
unsafe fn switch_identity_permanently(
    identity: &ProcessIdentity,
) -> std::result::Result<(), Stage> {
    const ID: Stage = Stage::Identity;
    // SAFETY: pointers are to valid memory of the given lengths.
    unsafe {
        let (n, list) = (identity.groups.len(), identity.groups.as_ptr());
        ok(libc::syscall(libc::SYS_setgroups, n, list) as c_int, ID)?;
        ok(
            libc::syscall(
                libc::SYS_setresgid,
                identity.gid,
                identity.gid,
                identity.gid,
            ) as c_int,
            ID,
        )?;
        ok(
            libc::syscall(
                libc::SYS_setresuid,
                identity.uid,
                identity.uid,
                identity.uid,
            ) as c_int,
            ID,
        )?;
        let (mut r, mut e, mut s) = (0, 0, 0);
        ok(libc::getresuid(&mut r, &mut e, &mut s), ID)?;
        let (mut rg, mut eg, mut sg) = (0, 0, 0);
        ok(libc::getresgid(&mut rg, &mut eg, &mut sg), ID)?;
        let same =
            [r, e, s].iter().all(|u| *u == identity.uid) && [rg, eg, sg] == [identity.gid; 3];
        if !same || (identity.uid != 0 && libc::setuid(0) == 0) {
            *libc::__errno_location() = libc::EPERM;
            return Err(ID);
        }
    }
    Ok(())
}

/// Tries the candidates in order; returns the errno to report. Never returns on success.
fn exec(shared: &mut ChildData<'_>) -> i32 {
    let mut report = libc::ENOENT;
    for program in shared.launch.programs {
        // SAFETY: null-terminated arrays of null-terminated strings, prepared by `launch`.
        unsafe { libc::execve(program.as_ptr(), shared.argv.as_ptr(), shared.env.as_ptr()) };
        match errno() {
            libc::ENOENT | libc::ENOTDIR => {}
            libc::ENOEXEC => {
                shared.sh_argv[1] = program.as_ptr();
                let argv = shared.sh_argv.as_ptr();
                // SAFETY: as above.
                unsafe { libc::execve(SHELL.as_ptr(), argv, shared.env.as_ptr()) };
                return errno();
            }
            // As in the shell: a candidate that may not be run does not hide a later one that may.
            libc::EACCES => report = libc::EACCES,
            other => return other,
        }
    }
    report
}

/// Switches to this user permanently, in a process that runs no program of the user: no other
/// process of the user can read its memory. Only for root, in a process with one thread.
pub fn become_user(identity: &ProcessIdentity) -> Result<()> {
    // SAFETY: the list outlives the calls; prctl gets integers.
    let became = unsafe {
        let became = switch_identity_permanently(identity);
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        became
    };
    became.map_err(|_| Error::last("become", Path::new("the user")))
}

/// Takes another effective identity for opening files, until `resume_root`. Only for root, in a
/// process with one thread. The groups of `identity` are kept afterwards.
pub fn switch_identity(identity: &ProcessIdentity) -> Result<()> {
    let what = Path::new("identity");
    // SAFETY: integers and a valid list.
    unsafe {
        let n = identity.groups.len();
        let groups = libc::syscall(libc::SYS_setgroups, n, identity.groups.as_ptr());
        if groups < 0
            || libc::syscall(libc::SYS_setresgid, -1, identity.gid, -1) < 0
            || libc::syscall(libc::SYS_setresuid, -1, identity.uid, -1) < 0
        {
            return Err(Error::last("take the user's", what));
        }
    }
    Ok(())
}

/// Restores the effective identity of root.
pub fn resume_root() {
    // SAFETY: integers. A process that cannot switch back must not continue with a mixed identity.
    let back = unsafe {
        libc::syscall(libc::SYS_setresuid, -1, 0, -1) == 0
            && libc::syscall(libc::SYS_setresgid, -1, 0, -1) == 0
    };
    assert!(
        back,
        "the real user id is root's, so going back cannot fail"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    fn c(s: &str) -> CString {
        CString::new(s).unwrap()
    }

    fn null() -> std::fs::File {
        let mut how = std::fs::File::options();
        how.read(true).write(true).open("/dev/null").unwrap()
    }

    /// A launch without limits and change of user, whose input and output is `fd`.
    fn plain<'a>(programs: &'a [CString], argv: &'a [CString], fd: RawFd) -> Launch<'a> {
        Launch {
            programs,
            argv,
            env: &[],
            pid_name: None,
            stdio: [fd; 3],
            dir: None,
            user: None,
            rlimits: &[],
            nice: 0,
            join: &[],
            cpus: None,
            terminal: false,
        }
    }

    fn run(program: &str, args: &[&str]) -> std::result::Result<i32, LaunchError> {
        let argv: Vec<CString> = [program].iter().chain(args).map(|s| c(s)).collect();
        let (programs, null) = ([c(program)], null());
        launch(&Launch {
            env: &[c"A=b"],
            pid_name: Some(c"LS_JOBPID="),
            rlimits: &[(Limit::CoreBytes, 0)],
            ..plain(&programs, &argv, null.as_raw_fd())
        })
    }

    fn code(pid: i32) -> i32 {
        let mut status = 0;
        // SAFETY: waits for the child that was just created.
        unsafe { libc::waitpid(pid, &mut status, 0) };
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn a_program_runs_with_its_environment_only() {
        let pid = run("/bin/sh", &["-c", "test \"$A\" = b && exit 7"]).unwrap();
        assert_eq!(code(pid), 7);
    }

    #[test]
    fn a_program_finds_its_own_process_id() {
        let script = "test \"$LS_JOBPID\" = $$ && test \"$A\" = b";
        assert_eq!(code(run("/bin/sh", &["-c", script]).unwrap()), 0);
    }

    #[test]
    fn it_is_its_own_session_without_stray_descriptors() {
        // A descriptor that would be inherited: duplicated without close-on-exec.
        // SAFETY: plain call with integers.
        let stray = unsafe { libc::fcntl(2, libc::F_DUPFD, 60) };
        let script = "set -- $(cat /proc/self/stat); test $6 = $$ || exit 2; \
            test ! -e /proc/$$/fd/$STRAY";
        let script = script.replace("$STRAY", &stray.to_string());
        assert_eq!(code(run("/bin/sh", &["-c", &script]).unwrap()), 0);
        // SAFETY: closes what was created above.
        unsafe { libc::close(stray) };
    }

    /// An identity that did not change is an error, regardless of what the calls returned: they
    /// accept -1 and leave everything unchanged.
    #[test]
    fn an_identity_that_was_not_taken_is_seen() {
        for (uid, gid) in [(u32::MAX, 65_534), (65_534, u32::MAX)] {
            let null = std::fs::File::open("/dev/null").unwrap();
            let fd = std::os::fd::AsRawFd::as_raw_fd(&null);
            let who = ProcessIdentity {
                uid,
                gid,
                groups: vec![],
            };
            let argv = [CString::new("/bin/true").unwrap()];
            let l = Launch {
                programs: &argv,
                argv: &argv,
                env: &[],
                pid_name: None,
                stdio: [fd; 3],
                dir: None,
                user: Some(&who),
                rlimits: &[],
                nice: 0,
                join: &[],
                cpus: None,
                terminal: false,
            };
            let e = launch(&l).unwrap_err();
            assert_eq!((e.stage, e.shell_code()), (Stage::Identity, None));
        }
    }

    #[test]
    fn a_missing_program_is_127_and_a_directory_is_126() {
        let e = run("/no/such/program", &[]).unwrap_err();
        assert_eq!((e.stage, e.shell_code()), (Stage::Exec, Some(127)));
        assert_eq!(run("/tmp", &[]).unwrap_err().shell_code(), Some(126));
    }

    #[test]
    fn only_a_program_that_is_missing_or_not_allowed_is_the_jobs_fault() {
        let fault = |stage, errno| LaunchError { stage, errno }.fault();
        for errno in [libc::ENOENT, libc::EACCES, libc::EAGAIN, libc::E2BIG] {
            assert_eq!(fault(Stage::Exec, errno), StartFault::Job, "{errno}");
        }
        for errno in [libc::ESTALE, libc::EIO, libc::ENOTCONN] {
            assert_eq!(fault(Stage::Exec, errno), StartFault::Unclear, "{errno}");
        }
        assert_eq!(fault(Stage::Exec, libc::ENFILE), StartFault::Host);
        assert_eq!(fault(Stage::Fork, libc::EAGAIN), StartFault::Host);
        assert_eq!(fault(Stage::Join, libc::ENOENT), StartFault::Host);
        assert_eq!(fault(Stage::Identity, libc::EAGAIN), StartFault::Unclear);
        assert_eq!(fault(Stage::Files, libc::ENOENT), StartFault::Unclear);
        assert_eq!(fault(Stage::Files, libc::ENOMEM), StartFault::Host);
    }

    #[test]
    fn a_script_without_interpreter_line_is_run_by_the_shell() {
        let d = tempfile::tempdir().unwrap();
        let p = d.path().join("s");
        std::fs::write(&p, "exit $1").unwrap();
        super::super::fs::chmod(&p, 0o755).unwrap();
        assert_eq!(code(run(p.to_str().unwrap(), &["9"]).unwrap()), 9);
    }

    /// From now on this process and its children get EAGAIN when they change their user.
    fn forbid_setresuid() -> bool {
        let stmt = |code: u32, jt, jf, k| libc::sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        };
        let mut program = [
            stmt(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            stmt(
                libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
                0,
                1,
                libc::SYS_setresuid as u32,
            ),
            stmt(
                libc::BPF_RET | libc::BPF_K,
                0,
                0,
                libc::SECCOMP_RET_ERRNO | libc::EAGAIN as u32,
            ),
            stmt(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let filter = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        // SAFETY: integers, and a filter that lives until the calls have returned.
        unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) == 0
        }
    }

    /// CVE-2012-3490: a change of user fails, and the job runs as root nevertheless.
    #[test]
    fn a_job_whose_user_cannot_be_taken_on_never_runs() {
        if !crate::sys::users::may_switch() {
            eprintln!("skipped: only root can become another user");
            return;
        }
        let d = tempfile::tempdir().unwrap();
        let mark = d.path().join("ran");
        let argv = [c("touch"), c(mark.to_str().unwrap())];
        let programs = [c("/usr/bin/touch"), c("/bin/touch")];
        let null = null();
        let who = ProcessIdentity {
            uid: 65534,
            gid: 65534,
            groups: vec![65534],
        };
        let l = Launch {
            user: Some(&who),
            ..plain(&programs, &argv, null.as_raw_fd())
        };
        let mut child = crate::sys::fork::fork_snapshot(|| {
            if !forbid_setresuid() {
                return 2;
            }
            match launch(&l) {
                Err(e) if (e.stage, e.errno) == (Stage::Identity, libc::EAGAIN) => 0,
                Err(_) => 3,
                Ok(_) => 1,
            }
        });
        match child.as_mut().unwrap().wait().unwrap() {
            2 => eprintln!("skipped: this kernel filters no system calls"),
            code => assert_eq!(code, 0, "1: it was started, 3: it failed of something else"),
        }
        assert!(!mark.exists());
    }
}
