//! Gives up rights permanently, for a process that handles untrusted connections.
//!
//! Owns the rights that such a process must not have, and the check that it does not have them.
//! `launch` changes to the user of a job.

use super::launch::{ProcessIdentity, become_user};
use super::{Error, ErrorContext, Result};
use std::path::Path;

/// Number of capabilities that the kernel may know: it rejects numbers beyond its last.
const CAPABILITIES: u32 = 64;

/// Version 3 of the arguments of capset(2): two words of 32 bits each.
#[repr(C)]
struct CapHeader {
    version: u32,
    pid: i32,
}
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct CapSets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}
const VERSION_3: u32 = 0x2008_0522;

/// Switches to this account without other groups, without capabilities, without a way to gain some
/// by executing a program, and protected from tracing by other processes of the account. Only for
/// root, in a process with one thread.
///
/// # Errors
/// One of these did not take effect; the process must then end.
pub fn confine(uid: u32, gid: u32) -> Result<()> {
    let what = Path::new("the rights of root");
    if uid == 0 {
        return Err(Error::invalid("give up", what, "the account is root's"));
    }
    for capability in 0..CAPABILITIES {
        // SAFETY: integers. The call fails if this process lacks the right: the last check detects
        // that.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
    let groups = Vec::new();
    become_user(&ProcessIdentity { uid, gid, groups })?;
    nix::sys::prctl::set_no_new_privs().at("give up", what)?;
    let mut head = CapHeader {
        version: VERSION_3,
        pid: 0,
    };
    let mut sets = [CapSets::default(); 2];
    // SAFETY: head and two sets, as version 3 requires; the second call fills in the sets.
    let done = unsafe {
        libc::syscall(libc::SYS_capset, &raw mut head, sets.as_ptr()) == 0
            && libc::syscall(libc::SYS_capget, &raw mut head, sets.as_mut_ptr()) == 0
    };
    let left = nix::unistd::getgroups().at("look at", what)?;
    let is_closed = nix::sys::prctl::get_dumpable().is_ok_and(|open| !open);
    match done && sets == [CapSets::default(); 2] && left.is_empty() && is_closed {
        true => Ok(()),
        false => Err(Error::invalid("give up", what, "some are left")),
    }
}

/// From now on this process writes no core, and no other process of its user can read its memory:
/// for a process that will hold a secret.
///
/// # Errors
/// The system refuses it.
pub fn close_memory() -> Result<()> {
    use nix::sys::resource::{Resource, setrlimit};
    let what = Path::new("the memory of this process");
    nix::sys::prctl::set_dumpable(false).at("close", what)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0).at("close", what)
}

/// Replaces the environment of this process by that of a login of the user; the working directory
/// becomes the root.
pub fn login_environment(user: &super::users::UserFacts) {
    let names: Vec<std::ffi::OsString> = std::env::vars_os().map(|(name, _)| name).collect();
    let text = |path: &Path| path.as_os_str().to_owned();
    let own = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin".into()),
        ("HOME", text(&user.home)),
        ("SHELL", text(&user.shell)),
        ("USER", user.name.clone().into()),
        ("LOGNAME", user.name.clone().into()),
        ("PWD", "/".into()),
    ];
    // SAFETY: the caller has one thread, so no other thread reads the environment.
    unsafe {
        names.iter().for_each(|name| std::env::remove_var(name));
        own.iter()
            .for_each(|(name, value)| std::env::set_var(name, value));
    }
    let _ = std::env::set_current_dir("/");
}
