//! Reads the drop boxes: requests come in, each from one descriptor, and its owner is the
//! requester.
//!
//! Owns the names it has seen; never writes into a drop box except to move a request away after it
//! was carried out, and never goes through a user's directory by its path, because a user may
//! replace it by a link at any moment. What cannot be read goes to lost+found with a line that says
//! why. No user gets more than a fair share of a turn while others wait.

mod account_pace;
mod directory;
mod large;
mod partial;
mod request_file;

use self::account_pace::AccountPace;
use super::hints::NamedBoxes;
use crate::intake::Requester;
use crate::model::Token;
use crate::record::request::{REQUEST_MAX, RequestHead, Verb};
use crate::spool::Layout;
use crate::spool::polling::{ChangeGate, Polling};
use crate::sys::dropbox::{DropError, UserBox};
use crate::sys::fs::Kind;
use crate::sys::{self, clock, fs, users};
use crate::text::width;
use directory::Directory;
pub use directory::is_missing;
use large::{DecodedRequest, LARGE, LargeRead, Progress};
use partial::PartialRequests;
pub use request_file::parse;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Maximum number of requests taken in one turn.
const TAKE_MAX: usize = 512;
/// Maximum number of names of one user that are checked before all other users had their turn.
const SHARE: usize = 64;
/// Maximum number of bytes of one user's requests that are read before all other users had their
/// turn.
const SHARE_BYTES: usize = 1 << 20;
/// Maximum number of names that are checked in one user's drop box at a time.
const NAMES_MAX: usize = 4096;
/// Maximum number of bytes of requests taken in one turn.
const BYTES_MAX: usize = 96 << 20;
/// How long a looked-up account is considered valid, in milliseconds.
const ACCOUNT_MS: u64 = 25_000;
/// Number of one user's unreadable files that are kept in lost+found; later ones are removed.
const KEPT_MAX: u32 = 100;
/// Maximum number of names of one user that could neither be moved nor removed and are remembered
/// so that they are ignored.
const STUCK_MAX: usize = NAMES_MAX;
/// Maximum number of log lines about one user's unreadable files per [`LINES_MS`].
const LINES_MAX: u32 = 10;
const LINES_MS: u64 = 60_000;
/// Maximum number of users that one request may name.
const NAMED_MAX: usize = 16;
/// Maximum length of the part of a file's name that is kept in lost+found.
const NAME_MAX: usize = 80;

/// Number of boxes that are checked within one `poll_interval`; if there are more, each is checked
/// less often...
const BOXES_A_POLL: u64 = 16;
/// ...but at least this often, in milliseconds.
const BOX_POLL_MAX_MS: u64 = 5_000;
/// Maximum number of boxes of a turn that are held open until its requests are removed.
const OPEN_MAX: usize = 64;

/// The location of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestLocation {
    /// The owner of the drop box.
    pub uid: u32,
    pub name: OsString,
}

impl std::fmt::Display for RequestLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.name.to_string_lossy();
        write!(f, "inbox/{}/{}", self.uid, width::escape(&name))
    }
}

/// One request as it was read.
pub struct ReadRequest {
    pub requester: Requester,
    pub head: RequestHead,
    pub verbs: Vec<Verb>,
    pub location: RequestLocation,
}

/// A request that will never be carried out.
pub struct RejectedRequest {
    pub token: Option<Token>,
    pub location: RequestLocation,
    pub reason: String,
}

/// What the leader remembers about one user's unreadable files.
#[derive(Default)]
struct UnreadableFiles {
    unremovable: BTreeSet<OsString>,
    set_aside: u32,
    lines: u32,
    lines_since: u64,
    /// The user's box was rejected, and this was logged.
    refused: bool,
}

/// Which drop boxes are checked in a turn.
#[derive(Clone, Copy)]
pub enum BoxSelection<'a> {
    /// All: something changed, and it is not known where.
    All,
    /// Those of the named users (if requests are named, only these), and those whose poll is due.
    Named(&'a NamedBoxes),
}

/// When a user's box is checked.
struct BoxPolling {
    polling: Polling,
    gate: ChangeGate,
}

/// The drop boxes of all users.
pub struct Inbox {
    layout: Layout,
    directory: Directory,
    /// Users with a box.
    uids: BTreeMap<u32, BoxPolling>,
    /// Longest pause between two checks of a box without a hint, in milliseconds.
    poll_ms: u64,
    /// Boxes from which requests were taken in this turn.
    open: BTreeMap<u32, UserBox>,
    accounts: BTreeMap<u32, (Requester, u64)>,
    unreadable: BTreeMap<u32, UnreadableFiles>,
    /// Owner of the drop box at which the last full turn stopped.
    last_served: u32,
    /// Requests that turns are still processing, by number: no more requests of their users are
    /// taken.
    in_turns: BTreeMap<usize, RequestLocation>,
    last_held: usize,
    /// The large request that is read outside the turns.
    reading: LargeRead,
    partial: PartialRequests,
    /// Users whose boxes were not checked because of `in_turns`.
    passed_over: BTreeSet<u32>,
    account_pace: AccountPace,
    look_up_account: fn(u32) -> sys::Result<Option<Requester>>,
}

/// What one turn has taken so far.
#[derive(Default)]
struct TakenRequests {
    requests: Vec<ReadRequest>,
    rejected: Vec<RejectedRequest>,
    bytes: usize,
}

impl TakenRequests {
    fn len(&self) -> usize {
        self.requests.len() + self.rejected.len()
    }

    fn is_full(&self) -> bool {
        self.requests.len() >= TAKE_MAX || self.bytes >= BYTES_MAX
    }
}

impl Inbox {
    pub fn new(layout: &Layout) -> Inbox {
        Inbox {
            directory: Directory::new(layout),
            layout: layout.clone(),
            uids: BTreeMap::new(),
            poll_ms: BOX_POLL_MAX_MS,
            open: BTreeMap::new(),
            accounts: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            last_served: 0,
            in_turns: BTreeMap::new(),
            last_held: 0,
            reading: LargeRead::default(),
            partial: PartialRequests::default(),
            passed_over: BTreeSet::new(),
            account_pace: AccountPace::default(),
            look_up_account: account,
        }
    }

    /// Directories to watch for new requests.
    pub fn directories(&self) -> Vec<PathBuf> {
        let own = self.uids.keys().map(|uid| self.layout.inbox_of(*uid));
        std::iter::once(self.layout.inbox()).chain(own).collect()
    }

    /// Continues the search for users' directories, with a bounded number of names at a time.
    /// Returns true if a new one appeared. Renames entries that are not a user's directory: any
    /// user may create entries here, and one created by another user could lock out the user of
    /// that name.
    ///
    /// # Errors
    /// The inbox cannot be listed.
    pub fn find_users(&mut self, now_ms: u64) -> sys::Result<bool> {
        let before = self.uids.len();
        let uids = &self.uids;
        let known = |name: &OsStr| {
            let uid = name.to_str().and_then(uid_of);
            uid.is_some_and(|uid| uids.contains_key(&uid))
        };
        for name in self.directory.search(now_ms, known)? {
            self.add_entry(&name);
        }
        self.retry_removals();
        Ok(self.uids.len() != before)
    }

    /// Adds an entry as a user's box if it is one; else moves it out of the way.
    fn add_entry(&mut self, name: &OsStr) {
        let Ok(Some(found)) = self.directory.stat(name) else {
            return;
        };
        match name.to_str().and_then(uid_of) {
            Some(uid) if found.kind == Kind::Dir && found.uid == uid => self.add(uid),
            _ => {
                let why = format!("made by uid {}", found.uid);
                self.directory.clear(name, &why);
            }
        }
    }

    /// Looks for the box of a user that a hint has named.
    pub fn find(&mut self, uid: u32) -> bool {
        if !self.has_box(uid) {
            self.add_entry(OsStr::new(&uid.to_string()));
        }
        self.has_box(uid)
    }

    /// Whether some names have not been checked yet.
    pub fn is_listing(&self) -> bool {
        self.directory.is_listing()
    }

    /// The alarm for administrators about entries beside the boxes, once for each complete search.
    pub fn take_alarm(&mut self) -> Option<String> {
        self.directory.take_alarm()
    }

    /// Creates the directory of all boxes again.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn recreate(&mut self) -> sys::Result<()> {
        self.directory.recreate()
    }

    /// Whether this user's box was found.
    pub fn has_box(&self, uid: u32) -> bool {
        self.uids.contains_key(&uid)
    }

    fn add(&mut self, uid: u32) {
        let polling = || BoxPolling {
            polling: Polling::new(self.poll_ms),
            gate: ChangeGate::default(),
        };
        self.uids.entry(uid).or_insert_with(polling);
    }

    /// Sets the longest pause between two checks of a box without a hint.
    pub fn set_poll(&mut self, poll_ms: u64) {
        let boxes = self.uids.len() as u64;
        let slow = (poll_ms * boxes / BOXES_A_POLL).clamp(poll_ms, BOX_POLL_MAX_MS.max(poll_ms));
        if slow != self.poll_ms {
            self.poll_ms = slow;
            self.uids
                .values_mut()
                .for_each(|box_polling| box_polling.polling.set_slow(slow));
        }
    }

    /// When any box is due for a check.
    pub fn due_ms(&self) -> Option<u64> {
        let looked_into = |(uid, _): &(&u32, &BoxPolling)| !self.passed_over.contains(*uid);
        let pollings = self.uids.iter().filter(looked_into);
        let dues = pollings.map(|(_, box_polling)| box_polling.polling.due_ms());
        dues.chain(self.reading.due_ms()).min()
    }

    /// Tries again to remove files that could not be removed: the first one of a user, and the
    /// others if that succeeded.
    fn retry_removals(&mut self) {
        let stuck = |(uid, r): (&u32, &mut UnreadableFiles)| {
            let names = std::mem::take(&mut r.unremovable);
            (!names.is_empty()).then_some((*uid, names))
        };
        let all: Vec<_> = self.unreadable.iter_mut().filter_map(stuck).collect();
        for (uid, mut names) in all {
            if let Some(own) = self.open_box(uid) {
                while names.first().is_some_and(|name| own.remove(name).is_ok()) {
                    names.pop_first();
                }
            }
            self.unreadable.entry(uid).or_default().unremovable = names;
        }
    }

    /// Opens a user's box if only that user can write to it.
    fn open_box(&mut self, uid: u32) -> Option<UserBox> {
        let name = OsString::from(uid.to_string());
        let why = match self.directory.enter(&name) {
            Ok(own) if own.uid == uid && !own.open_to_all => {
                self.add(uid);
                return Some(own);
            }
            Ok(own) if own.uid == uid => {
                let unreadable = self.unreadable.entry(uid).or_default();
                if !std::mem::replace(&mut unreadable.refused, true) {
                    tracing::warn!(
                        "inbox/{uid} can be written by all users: no request in it is \
                        accepted"
                    );
                }
                return None;
            }
            Ok(foreign) => format!("owned by uid {}", foreign.uid),
            Err(DropError::System(_)) => return None,
            Err(DropError::Refused(_, why)) => why,
        };
        // Owners may remove their directories; a later search finds their replacement.
        self.uids.remove(&uid);
        if self.directory.stat(&name).is_ok_and(|f| f.is_some()) {
            self.directory.clear(&name, &why);
        }
        None
    }

    /// The names in a user's box that must be read; `None` if there is nothing to look for.
    /// `hinted`: a hint states that something is there, so no request to the server is needed.
    fn unread_names(
        &mut self,
        uid: u32,
        hinted: bool,
        tokens: &BTreeSet<Token>,
        now_ms: u64,
    ) -> Option<(UserBox, Vec<OsString>)> {
        if !tokens.is_empty() {
            // Other entries there change the directory's mark and are found by the next poll.
            let names = tokens.iter().map(|token| Layout::request_name(*token));
            let names = names.map(OsString::from);
            let stuck = self.unreadable.get(&uid).map(|r| r.unremovable.clone());
            let stuck = stuck.unwrap_or_default();
            let names = names.filter(|name| !stuck.contains(name)).collect();
            return Some((self.open_box(uid)?, names));
        }
        let mark = match hinted {
            true => None,
            false => fs::mark(&self.layout.inbox_of(uid)).ok(),
        };
        if let (Some(mark), Some(box_polling)) = (mark, self.uids.get_mut(&uid))
            && !box_polling.gate.must_read(mark, now_ms)
        {
            return None;
        }
        let listed = self.open_box(uid);
        let listed = listed.and_then(|own| own.names(NAMES_MAX).ok().map(|names| (own, names)));
        let Some((own, entries)) = listed else {
            if let Some(box_polling) = self.uids.get_mut(&uid) {
                box_polling.gate.forget();
            }
            return None;
        };
        let stuck = self.unreadable.get(&uid).map(|r| &r.unremovable);
        let names = entries.into_iter().map(|e| e.name);
        let fresh =
            |n: &OsString| stuck.is_none_or(|stuck| stuck.len() < STUCK_MAX && !stuck.contains(n));
        Some((own, names.filter(fresh).collect()))
    }

    /// Checks a user's box if it is due and takes the first requests there; returns the names that
    /// are left.
    fn take_from_box(
        &mut self,
        uid: u32,
        boxes: BoxSelection<'_>,
        now_ms: u64,
        taken: &mut TakenRequests,
    ) -> Option<Vec<OsString>> {
        if self.in_turns.values().any(|location| location.uid == uid) {
            self.passed_over.insert(uid);
            return None;
        }
        let none = BTreeSet::new();
        let (all, named, tokens) = match boxes {
            BoxSelection::All => (true, false, &none),
            BoxSelection::Named(uids) => {
                let ready = self.reading.is_ready(uid);
                let tokens = uids.get(&uid).filter(|_| !ready);
                (false, ready || tokens.is_some(), tokens.unwrap_or(&none))
            }
        };
        let due = |box_polling: &BoxPolling| box_polling.polling.is_due(now_ms);
        if !all && !named && !self.uids.get(&uid).is_some_and(due) {
            return None;
        }
        let before = taken.len();
        let fresh = self.unread_names(uid, all || named, tokens, now_ms);
        let names = fresh.as_ref().is_some_and(|(_, names)| !names.is_empty());
        let left = fresh.filter(|_| names).map(|(own, names)| {
            let left = self.take_from_user(&own, names, SHARE, SHARE_BYTES, now_ms, taken);
            self.keep_open(own);
            left
        });
        if let Some(box_polling) = self.uids.get_mut(&uid) {
            box_polling
                .polling
                .note_poll(now_ms, taken.len() > before, all || named);
            if names && tokens.is_empty() {
                // What is not taken in this turn is found by the next check.
                box_polling.gate.forget();
            }
            if self.partial.are_expected(uid) {
                box_polling.polling.expect(now_ms);
                box_polling.gate.forget();
            }
        }
        left
    }

    fn keep_open(&mut self, own: UserBox) {
        if self.open.len() < OPEN_MAX {
            self.open.insert(own.uid, own);
        }
    }

    /// Takes up to a turn's worth of requests from `boxes`: a fair share of each user's, then more
    /// while there is room.
    pub fn take(
        &mut self,
        now_ms: u64,
        boxes: BoxSelection<'_>,
    ) -> (Vec<ReadRequest>, Vec<RejectedRequest>) {
        let mut taken = TakenRequests::default();
        self.open.clear();
        self.reading.note_search(now_ms);
        // The user who filled the last turn now comes last.
        let (first, rest): (Vec<u32>, Vec<u32>) =
            self.uids.keys().partition(|uid| **uid > self.last_served);
        let mut more: Vec<(u32, Vec<OsString>)> = Vec::new();
        for uid in first.into_iter().chain(rest) {
            if self.must_wait(uid, now_ms) {
                continue;
            }
            let Some(left) = self.take_from_box(uid, boxes, now_ms, &mut taken) else {
                continue;
            };
            if !left.is_empty() {
                more.push((uid, left));
            }
            if taken.is_full() {
                self.last_served = uid;
                return (taken.requests, taken.rejected);
            }
        }
        for (uid, names) in more {
            let Some(own) = self.reopen_box(uid) else {
                continue;
            };
            self.take_from_user(&own, names, TAKE_MAX, BYTES_MAX, now_ms, &mut taken);
            self.keep_open(own);
            if taken.is_full() {
                self.last_served = uid;
                break;
            }
        }
        (taken.requests, taken.rejected)
    }

    /// Returns the box that this turn holds open, or opens it.
    fn reopen_box(&mut self, uid: u32) -> Option<UserBox> {
        match self.open.remove(&uid) {
            Some(own) => Some(own),
            None => self.open_box(uid),
        }
    }

    /// Takes at most `most` of the named files and stops after `bytes`; returns the names that were
    /// not checked.
    fn take_from_user(
        &mut self,
        own: &UserBox,
        names: Vec<OsString>,
        most: usize,
        bytes: usize,
        now_ms: u64,
        taken: &mut TakenRequests,
    ) -> Vec<OsString> {
        let uid = own.uid;
        let begun = taken.bytes;
        let mut names = names.into_iter();
        for _ in 0..most {
            if self.must_wait(uid, now_ms) || taken.is_full() || taken.bytes - begun >= bytes {
                break;
            }
            let Some(name) = names.next() else { break };
            let token = name.to_str().and_then(Layout::parse_request_name);
            let read = match token {
                None => Err("not the name of a request".to_owned()),
                Some(token) => self.read(own, token, &name, now_ms, &mut taken.bytes),
            };
            let location = RequestLocation { uid, name };
            match read {
                Ok(None) => {}
                Ok(Some((requester, head, verbs))) => taken.requests.push(ReadRequest {
                    requester,
                    head,
                    verbs,
                    location,
                }),
                Err(reason) => taken.rejected.push(RejectedRequest {
                    token,
                    location,
                    reason,
                }),
            }
        }
        names.collect()
    }

    /// Reads one request. `Ok(None)`: try again later.
    fn read(
        &mut self,
        own: &UserBox,
        token: Token,
        name: &OsStr,
        now_ms: u64,
        total: &mut usize,
    ) -> Result<Option<(Requester, RequestHead, Vec<Verb>)>, String> {
        let decoded = match self.decode(own, name, now_ms) {
            Ok(Some(decoded)) => decoded,
            // It is large, and not read yet.
            Ok(None) => return Ok(None),
            Err(DropError::Refused(_, why)) => return Err(why),
            // Its user has withdrawn it meanwhile.
            Err(DropError::System(e)) if e.is_not_found() => return Ok(None),
            Err(DropError::System(e)) => {
                tracing::warn!("{e}");
                return Ok(None);
            }
        };
        *total += decoded.bytes;
        if decoded.uid != own.uid {
            return Err(format!(
                "owned by uid {} in the drop box of uid {}",
                decoded.uid, own.uid
            ));
        }
        let (uid, name) = (own.uid, name.to_owned());
        let location = RequestLocation { uid, name };
        let (head, verbs) = match decoded.content {
            Err(failure) if failure.partial && self.partial.may_grow(&location, now_ms) => {
                return Ok(None);
            }
            parsed => {
                self.partial.forget(&location);
                parsed.map_err(|unreadable| unreadable.why)?
            }
        };
        if head.token != token {
            return Err("its token is not the one in its name".to_owned());
        }
        match self.requester(own.uid, now_ms) {
            Ok(Some(who)) => Ok(Some((who, head, verbs))),
            Ok(None) => Err(format!("uid {} has no account here", own.uid)),
            // The user database does not answer: the request is not at fault.
            Err(e) => {
                tracing::warn!("{e}");
                Ok(None)
            }
        }
    }

    /// Decodes a request. A large one would take much of a turn, so another thread decodes it.
    fn decode(
        &mut self,
        own: &UserBox,
        name: &OsStr,
        now_ms: u64,
    ) -> Result<Option<DecodedRequest>, DropError> {
        let (uid, name) = (own.uid, name.to_owned());
        let location = RequestLocation { uid, name };
        match self.reading.take_read(&location) {
            Progress::Read(decoded) => return decoded.map(|decoded| Some(*decoded)),
            Progress::Waits => return Ok(None),
            Progress::Other => {}
        }
        let file = own.open(&location.name, REQUEST_MAX as u64)?;
        if file.len <= LARGE {
            return large::decode(file).map(Some);
        }
        self.reading.begin(&location, file, now_ms);
        Ok(None)
    }

    /// Records a request that is being processed until it is released. Returns its number.
    pub fn record_held(&mut self, location: RequestLocation) -> usize {
        self.last_held += 1;
        self.in_turns.insert(self.last_held, location);
        self.last_held
    }

    /// Releases requests by their numbers. The boxes of their users, which were not checked
    /// meanwhile, are checked at once.
    pub fn release(&mut self, numbers: &[usize], now_ms: u64) -> Vec<RequestLocation> {
        let locations = numbers.iter().filter_map(|n| self.in_turns.remove(n));
        let locations: Vec<RequestLocation> = locations.collect();
        for uid in self.passed_over.split_off(&0) {
            match self.in_turns.values().any(|location| location.uid == uid) {
                true => drop(self.passed_over.insert(uid)),
                false => {
                    if let Some(box_polling) = self.uids.get_mut(&uid) {
                        box_polling.polling.make_due(now_ms);
                        box_polling.gate.forget();
                    }
                }
            }
        }
        locations
    }

    /// Removes requests that were carried out: the journal contains all of them. One that cannot be
    /// removed, because its owner closed the directory to the leader, is ignored from now on.
    pub fn remove_done(&mut self, locations: &[&RequestLocation]) {
        let mut at: Option<(u32, Option<UserBox>)> = None;
        for location in locations {
            let own = match at.take() {
                Some((uid, own)) if uid == location.uid => own,
                _ => self.reopen_box(location.uid),
            };
            if let Some(own) = &own
                && let Err(e) = own.remove(&location.name)
            {
                tracing::warn!("{e}: this request is ignored from now on");
                self.skip_unremovable(location);
            }
            at = Some((location.uid, own));
        }
        self.open.clear();
    }

    /// Sets aside a request that will never be carried out, with a line that states why; a limited
    /// number for each user. A file that can be neither moved nor removed is ignored from now on.
    pub fn set_aside(&mut self, bad: &RejectedRequest, now_ms: u64) {
        let uid = bad.location.uid;
        let why = width::escape(&bad.reason).into_owned();
        let unreadable = self.unreadable.entry(uid).or_default();
        if now_ms.saturating_sub(unreadable.lines_since) > LINES_MS {
            (unreadable.lines, unreadable.lines_since) = (0, now_ms);
        }
        unreadable.lines = unreadable.lines.saturating_add(1);
        match unreadable.lines {
            n if n < LINES_MAX => tracing::warn!("request {}: {why}", bad.location),
            LINES_MAX => tracing::warn!(
                "uid {uid}: further bad requests are not logged one by \
                one"
            ),
            _ => {}
        }
        let set_aside = unreadable.set_aside;
        let Some(own) = self.open_box(uid) else {
            return;
        };
        let name = lost_found_name(&bad.location, set_aside);
        let dir = self.layout.lost_found();
        let moved =
            set_aside < KEPT_MAX && own.move_to(&bad.location.name, &dir.join(&name)).is_ok();
        let unreadable = self.unreadable.entry(uid).or_default();
        if moved {
            unreadable.set_aside += 1;
            let text = format!("{}: {why}\n", bad.location);
            let _ = fs::publish_mode(&dir.join(format!("{name}.why")), text.as_bytes(), 0o600);
        } else if own.remove(&bad.location.name).is_err() {
            self.skip_unremovable(&bad.location);
        }
    }

    fn skip_unremovable(&mut self, location: &RequestLocation) {
        let stuck = &mut self.unreadable.entry(location.uid).or_default().unremovable;
        if stuck.len() < STUCK_MAX {
            stuck.insert(location.name.clone());
        }
    }

    fn requester(&mut self, uid: u32, now_ms: u64) -> sys::Result<Option<Requester>> {
        let known = self.accounts.get(&uid);
        if let Some((who, at)) = known
            && (now_ms.saturating_sub(*at) < ACCOUNT_MS || self.account_pace.is_pause(now_ms))
        {
            return Ok(Some(who.clone()));
        }
        let known = known.map(|(who, _)| who.clone());
        let began = clock::boot_ms();
        let found = (self.look_up_account)(uid);
        let took = clock::boot_ms().saturating_sub(began);
        self.account_pace.note_look_up(took, found.is_err(), now_ms);
        match found {
            // An earlier answer is better than none.
            Err(e) => known.map(Some).ok_or(e),
            Ok(who) => {
                match &who {
                    Some(who) => drop(self.accounts.insert(uid, (who.clone(), now_ms))),
                    // From now on no answer is better than the earlier one.
                    None => drop(self.accounts.remove(&uid)),
                }
                Ok(who)
            }
        }
    }

    /// Whether a user whose account must be looked up has to wait because the user database does
    /// not answer.
    fn must_wait(&self, uid: u32, now_ms: u64) -> bool {
        self.account_pace.is_pause(now_ms) && !self.accounts.contains_key(&uid)
    }

    /// Whether users wait because the user database does not answer or is slow.
    pub fn is_waiting(&self, now_ms: u64) -> bool {
        self.account_pace.is_pause(now_ms)
    }
}

/// The uid in the name of a directory, if it is written in the canonical form.
fn uid_of(name: &str) -> Option<u32> {
    let uid = name.parse::<u32>().ok()?;
    (uid.to_string() == name).then_some(uid)
}

/// A name for lost+found: regardless of what a user wrote, it is short, plain and unused.
fn lost_found_name(location: &RequestLocation, n: u32) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name = location.name.to_string_lossy();
    let name = name.chars().take(NAME_MAX);
    let name: String = name.map(|c| if plain(c) { c } else { '_' }).collect();
    format!("{}.{name}.{n}.{}", location.uid, clock::nonce(4))
}

/// The account of a uid with its groups, as known on this host.
///
/// # Errors
/// The user database does not answer.
pub fn account(uid: u32) -> sys::Result<Option<Requester>> {
    let Some(facts) = users::look_up(uid)? else {
        return Ok(None);
    };
    let groups = users::group_names(&facts)?;
    let user = facts.name;
    Ok(Some(Requester { uid, user, groups }))
}

/// The accounts that a request names to run something as, if this host knows them; of many names
/// only the first.
pub fn named_accounts(verbs: &[Verb]) -> Vec<Requester> {
    let names = verbs.iter().filter_map(|verb| match verb {
        Verb::CronPut(put) if !put.user.is_empty() => Some(put.user.as_str()),
        _ => None,
    });
    let names: BTreeSet<&str> = names.take(NAMED_MAX).collect();
    let facts = names.into_iter().filter_map(users::by_name);
    let accounts = facts.filter_map(|facts| account(facts.uid).ok().flatten());
    accounts.collect()
}

#[cfg(test)]
mod tests;
