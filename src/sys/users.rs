//! Users and groups of this machine, and the identity of this process.
//!
//! Owns lookups in the user database, cached for a limited time because a directory service may be
//! slow. The shepherd changes its identity; that is not done here.

use super::platform;
use nix::unistd::{Gid, Uid, User, getegid, geteuid, getgrouplist};
use std::collections::HashMap;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex};

/// How long a looked-up answer is considered valid, milliseconds: so long a removed user may still
/// start something.
const CACHE_MS: u64 = 30_000;
/// The same for "no such user": a directory service that was unavailable must not exclude a user
/// for long.
const CACHE_ABSENT_MS: u64 = 5_000;
/// Number of answers that are kept before the cache is emptied.
const CACHE_MAX: usize = 10_000;

/// The user database's entry for one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserFacts {
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Login name.
    pub name: String,
    /// Home directory.
    pub home: PathBuf,
    /// Login shell.
    pub shell: PathBuf,
}

/// The accounts of a simulated machine: `u1001` has uid 1001.
fn simulated(uid: u32) -> UserFacts {
    UserFacts {
        uid,
        gid: 1000,
        name: format!("u{uid}"),
        home: PathBuf::from("/"),
        shell: PathBuf::from("/bin/sh"),
    }
}

type Cache = HashMap<u32, (u64, Option<UserFacts>)>;
static BY_UID: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

/// The user with an id; `None` if the database has none, or does not answer.
pub fn by_uid(uid: u32) -> Option<UserFacts> {
    look_up(uid).ok().flatten()
}

/// The user with an id; `None` if the database has none.
///
/// # Errors
/// The database does not answer (a directory service that is down), and no earlier answer is known.
pub fn look_up(uid: u32) -> super::Result<Option<UserFacts>> {
    if platform::simulated() {
        return Ok(Some(simulated(uid)));
    }
    let now = super::clock::boot_ms();
    let mut cache = BY_UID
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some((at, facts)) = cache.get(&uid)
        && now.saturating_sub(*at) < facts.as_ref().map_or(CACHE_ABSENT_MS, |_| CACHE_MS)
    {
        return Ok(facts.clone());
    }
    let facts = match query(uid) {
        Ok(found) => found.map(facts_of),
        // An earlier answer is better than none.
        Err(e) => {
            let known = cache.get(&uid).and_then(|(_, facts)| facts.clone());
            if let Some(facts) = &known {
                // It may take long to fail: not every job waits for it.
                let asked = now.saturating_sub(CACHE_MS - CACHE_ABSENT_MS);
                cache.insert(uid, (asked, Some(facts.clone())));
            }
            let what = format!("uid {uid} in the user database");
            let error = super::Error::new("look up", what.as_ref(), e.into());
            return known.map(Some).ok_or(error);
        }
    };
    if cache.len() >= CACHE_MAX {
        cache.clear();
    }
    cache.insert(uid, (now, facts.clone()));
    Ok(facts)
}

fn query(uid: u32) -> nix::Result<Option<User>> {
    #[cfg(test)]
    if tests::AWAY.get() {
        return Err(nix::errno::Errno::EIO);
    }
    User::from_uid(Uid::from_raw(uid))
}

/// The user with a login name; `None` if the database has none. Not cached.
pub fn by_name(name: &str) -> Option<UserFacts> {
    if platform::simulated() {
        return Some(simulated(name.strip_prefix('u')?.parse().ok()?));
    }
    User::from_name(name).ok().flatten().map(facts_of)
}

fn facts_of(u: User) -> UserFacts {
    UserFacts {
        uid: u.uid.as_raw(),
        gid: u.gid.as_raw(),
        name: u.name,
        home: u.dir,
        shell: u.shell,
    }
}

/// All groups of a user, including the primary one.
pub fn groups_of(user: &UserFacts) -> Vec<u32> {
    if platform::simulated() {
        return vec![user.gid];
    }
    let Ok(name) = CString::new(user.name.as_str()) else {
        return vec![user.gid];
    };
    match getgrouplist(&name, Gid::from_raw(user.gid)) {
        Ok(list) => list.into_iter().map(Gid::as_raw).collect(),
        Err(_) => vec![user.gid],
    }
}

/// Names of all groups of a user; a group without a name is left out.
///
/// # Errors
/// The database does not answer: no user may be refused because of groups that are missing.
pub fn group_names(user: &UserFacts) -> super::Result<Vec<String>> {
    if platform::simulated() {
        return Ok(vec![format!("g{}", user.gid)]);
    }
    let what = format!("the groups of {}", user.name);
    let failed = |e: nix::Error| super::Error::new("look up", what.as_ref(), e.into());
    let name = CString::new(user.name.as_str()).map_err(|_| failed(nix::Error::EINVAL))?;
    let gids = getgrouplist(&name, Gid::from_raw(user.gid)).map_err(failed)?;
    let mut names = Vec::new();
    for gid in gids {
        let group = nix::unistd::Group::from_gid(gid).map_err(failed)?;
        names.extend(group.map(|group| group.name));
    }
    Ok(names)
}

/// The group id of a group name.
pub fn group_by_name(name: &str) -> Option<u32> {
    nix::unistd::Group::from_name(name)
        .ok()
        .flatten()
        .map(|g| g.gid.as_raw())
}

/// The group name of a group id.
pub fn group_by_gid(gid: u32) -> Option<String> {
    if platform::simulated() {
        return Some(format!("g{gid}"));
    }
    nix::unistd::Group::from_gid(Gid::from_raw(gid))
        .ok()
        .flatten()
        .map(|g| g.name)
}

/// The effective user id of this process.
pub fn effective_uid() -> u32 {
    platform::here().map_or_else(|| geteuid().as_raw(), |machine| machine.uid())
}

/// The effective group id of this process.
pub fn effective_gid() -> u32 {
    getegid().as_raw()
}

/// The user as whom this process runs; for an id without a name in the database the facts are made
/// up.
pub fn current_user() -> UserFacts {
    let uid = effective_uid();
    by_uid(uid).unwrap_or_else(|| UserFacts {
        uid,
        gid: effective_gid(),
        name: uid.to_string(),
        home: PathBuf::from("/"),
        shell: PathBuf::from("/bin/sh"),
    })
}

/// Whether this process may become another user: its real id is root's, regardless of the account
/// as which it acts.
pub fn may_switch() -> bool {
    !platform::simulated() && nix::unistd::getuid().is_root()
}

/// Makes this root process, with all its threads, act as another account from now on; the real id
/// stays that of root.
pub fn act_as(uid: u32, gid: u32) -> super::Result<()> {
    use super::ErrorContext;
    let what = std::path::Path::new("service account");
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
    nix::unistd::setgroups(&[group]).at("take the groups of the", what)?;
    nix::unistd::setegid(group).at("act under the group of the", what)?;
    nix::unistd::seteuid(user).at("act as the", what)
}

/// If this process is root and the share belongs to another account, it acts as that account from
/// now on: on an export that squashes root, root cannot write.
///
/// # Errors
/// The process cannot act as the account.
pub fn act_for(uid: u32, gid: u32) -> super::Result<()> {
    match may_switch() && uid != 0 {
        true => act_as(uid, gid),
        false => Ok(()),
    }
}

static GAVE_UP: AtomicBool = AtomicBool::new(false);

/// Whether this process was started by root and serves other users.
pub fn serves_others() -> bool {
    may_switch() || GAVE_UP.load(Ordering::Relaxed)
}

/// Makes this root process, with all its threads, switch permanently to another account: it cannot
/// become root again.
pub fn become_for_good(uid: u32, gid: u32) -> super::Result<()> {
    use super::ErrorContext;
    let what = std::path::Path::new("service account");
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
    nix::unistd::setgroups(&[group]).at("take the groups of the", what)?;
    nix::unistd::setresgid(group, group, group).at("take the group of the", what)?;
    nix::unistd::setresuid(user, user, user).at("become the", what)?;
    let now = nix::unistd::getresuid().at("look who is the", what)?;
    let back = uid != 0 && nix::unistd::setuid(Uid::from_raw(0)).is_ok();
    GAVE_UP.store(true, Ordering::Relaxed);
    match now.real == user && now.effective == user && now.saved == user && !back {
        true => Ok(()),
        false => Err(super::Error::invalid(
            "become the",
            what,
            "the ids did not change",
        )),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    thread_local! {
        /// The user database returns errors to this thread.
        pub(crate) static AWAY: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    /// The answer of the database for this user, as if it had just been looked up; `None`: it must
    /// be looked up again.
    pub(crate) fn set_answer(uid: u32, facts: Option<UserFacts>) {
        let mut cache = BY_UID.lock().unwrap();
        match facts {
            Some(facts) => drop(cache.insert(uid, (crate::sys::clock::boot_ms(), Some(facts)))),
            None => drop(cache.remove(&uid)),
        }
    }

    /// Together with what the leader remembers, a removed user is refused after a minute.
    #[test]
    fn an_answer_is_believed_for_half_a_minute() {
        let uid = 4_000_000_006;
        let old = crate::sys::clock::boot_ms().saturating_sub(30_001);
        let facts = Some(simulated(uid));
        BY_UID.lock().unwrap().insert(uid, (old, facts.clone()));
        assert_eq!(look_up(uid).unwrap(), None);
        set_answer(uid, facts.clone());
        assert_eq!(look_up(uid).unwrap(), facts);
        set_answer(uid, None);
    }

    /// Each attempt to reach a directory service that is down may take seconds.
    #[test]
    fn a_database_that_is_down_is_not_asked_for_every_job() {
        let uid = 4_000_000_008;
        let old = crate::sys::clock::boot_ms().saturating_sub(30_001);
        let facts = Some(simulated(uid));
        BY_UID.lock().unwrap().insert(uid, (old, facts.clone()));
        AWAY.set(true);
        assert_eq!(look_up(uid).unwrap(), facts);
        AWAY.set(false);
        assert_eq!(look_up(uid).unwrap(), facts, "not asked again at once");
        set_answer(uid, None);
    }

    #[test]
    fn a_database_that_does_not_answer_is_not_one_without_the_user() {
        let (absent, root) = (4_000_000_003, by_uid(0));
        AWAY.set(true);
        let text = look_up(absent).unwrap_err().to_string();
        assert!(text.contains("uid 4000000003"), "{text}");
        assert_eq!((by_uid(absent), by_uid(0)), (None, root));
        AWAY.set(false);
        assert_eq!(look_up(absent).unwrap(), None);
    }

    #[test]
    fn root_is_found_both_ways() {
        let r = by_uid(0).unwrap();
        assert_eq!(r.name, "root");
        assert_eq!(by_name("root").unwrap(), r);
        assert!(groups_of(&r).contains(&r.gid));
    }
}
