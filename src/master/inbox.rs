//! Reading the drop boxes: requests in, each from one descriptor, its owner the requester.
//!
//! Owns nothing but the names it has seen; never writes into a drop box except to move a request
//! away once it is carried out. What cannot be read goes to lost+found with a line saying why.

use crate::intake::Requester;
use crate::model::Token;
use crate::record::frame::Reader;
use crate::record::header::{Header, What};
use crate::record::request::{REQUEST_MAX, RequestHead, VERBS_MAX, Verb};
use crate::spool::Layout;
use crate::sys::dropbox::{DropBox, DropError};
use crate::sys::{self, fs, users};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Most requests taken in one turn.
const TAKE_MAX: usize = 512;
/// Most names looked at in one user's drop box at a time.
const NAMES_MAX: usize = 4096;
/// Most bytes of requests taken in one turn.
const BYTES_MAX: usize = 96 << 20;
/// How long looked-up accounts are believed, in milliseconds.
const ACCOUNT_MS: u64 = 60_000;

/// One request as it was read.
pub struct Taken {
    pub who: Requester,
    pub head: RequestHead,
    pub verbs: Vec<Verb>,
    /// The request file below the share.
    pub path: PathBuf,
}

/// A request that will never be carried out.
pub struct Rejected {
    pub token: Option<Token>,
    pub path: PathBuf,
    pub why: String,
}

/// The drop boxes of all users.
pub struct Inbox {
    layout: Layout,
    drop: DropBox,
    uids: BTreeSet<u32>,
    accounts: BTreeMap<u32, (Requester, u64)>,
    /// Owner of the drop box at which the last full turn stopped.
    served: u32,
}

impl Inbox {
    /// # Errors
    /// When the inbox directory cannot be opened.
    pub fn open(layout: &Layout) -> sys::Result<Inbox> {
        Ok(Inbox {
            drop: DropBox::open(&layout.inbox())?,
            layout: layout.clone(),
            uids: BTreeSet::new(),
            accounts: BTreeMap::new(),
            served: 0,
        })
    }

    /// Directories to watch for new requests.
    pub fn directories(&self) -> Vec<PathBuf> {
        let own = self.uids.iter().map(|uid| self.layout.inbox_of(*uid));
        std::iter::once(self.layout.inbox()).chain(own).collect()
    }

    /// Looks for users' directories; true when a new one appeared.
    ///
    /// # Errors
    /// When the inbox cannot be listed.
    pub fn find_users(&mut self) -> sys::Result<bool> {
        let before = self.uids.len();
        for entry in fs::list_dir(&self.layout.inbox(), 100_000)? {
            let uid = entry.text().and_then(|name| name.parse::<u32>().ok());
            if let (true, Some(uid)) = (entry.is_dir, uid) {
                self.uids.insert(uid);
            }
        }
        Ok(self.uids.len() != before)
    }

    /// Takes up to a turn's worth of requests.
    pub fn take(&mut self, now_ms: u64) -> (Vec<Taken>, Vec<Rejected>) {
        let (mut taken, mut rejected) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        // Whoever filled the last turn's share goes last now.
        let (first, rest): (Vec<u32>, Vec<u32>) =
            self.uids.iter().partition(|uid| **uid > self.served);
        for uid in first.into_iter().chain(rest) {
            let dir = self.layout.inbox_of(uid);
            let Ok(entries) = fs::list_dir(&dir, NAMES_MAX) else {
                continue;
            };
            for entry in entries {
                if taken.len() >= TAKE_MAX || bytes >= BYTES_MAX {
                    self.served = uid;
                    return (taken, rejected);
                }
                let path = dir.join(&entry.name);
                let token = entry.text().and_then(Layout::parse_request_name);
                let Some(token) = token else {
                    let why = "not the name of a request".to_owned();
                    rejected.push(Rejected {
                        token: None,
                        path,
                        why,
                    });
                    continue;
                };
                match self.read(uid, token, &path, now_ms, &mut bytes) {
                    Ok(Some(request)) => taken.push(request),
                    Ok(None) => {}
                    Err(why) => rejected.push(Rejected {
                        token: Some(token),
                        path,
                        why,
                    }),
                }
            }
        }
        (taken, rejected)
    }

    /// Reads one request. `Ok(None)`: try again later.
    fn read(
        &mut self,
        uid: u32,
        token: Token,
        path: &Path,
        now_ms: u64,
        total: &mut usize,
    ) -> Result<Option<Taken>, String> {
        let below = path.strip_prefix(self.layout.inbox()).unwrap_or(path);
        let dropped = match self.drop.read(below, REQUEST_MAX as u64) {
            Ok(dropped) => dropped,
            Err(DropError::Refused(_, why)) => return Err(why),
            Err(DropError::System(e)) => {
                tracing::warn!("{e}");
                return Ok(None);
            }
        };
        *total += dropped.bytes.len();
        if dropped.uid != uid {
            return Err(format!(
                "owned by uid {} in the drop box of uid {uid}",
                dropped.uid
            ));
        }
        let (head, verbs) = parse(&dropped.bytes)?;
        if head.token != token {
            return Err("its token is not the one in its name".to_owned());
        }
        let who = self.requester(uid, now_ms)?;
        Ok(Some(Taken {
            who,
            head,
            verbs,
            path: path.to_path_buf(),
        }))
    }

    fn requester(&mut self, uid: u32, now_ms: u64) -> Result<Requester, String> {
        if let Some((who, at)) = self.accounts.get(&uid)
            && now_ms.saturating_sub(*at) < ACCOUNT_MS
        {
            return Ok(who.clone());
        }
        let who = account(uid).ok_or_else(|| format!("uid {uid} has no account here"))?;
        self.accounts.insert(uid, (who.clone(), now_ms));
        Ok(who)
    }
}

/// The account of a uid with its groups, as this host knows it.
pub fn account(uid: u32) -> Option<Requester> {
    let facts = users::by_uid(uid)?;
    let gids = users::groups_of(&facts);
    let groups = gids.into_iter().filter_map(users::group_by_gid).collect();
    let user = facts.name;
    Some(Requester { uid, user, groups })
}

/// Decodes a request file.
///
/// # Errors
/// Names the damage and its offset.
pub fn parse(bytes: &[u8]) -> Result<(RequestHead, Vec<Verb>), String> {
    let mut reader = Reader::new(bytes);
    let header = Header::read(&mut reader, What::Request, None).map_err(|e| e.to_string())?;
    header.ok_or("the request is empty")?;
    let at = reader.offset();
    let line = reader
        .next_line()
        .map_err(|e| e.to_string())?
        .ok_or("the request has no head")?;
    let head: RequestHead = line.decode().map_err(|d| format!("at byte {at}: {d:?}"))?;
    let mut verbs = Vec::new();
    loop {
        let at = reader.offset();
        let Some(line) = reader.next_line().map_err(|e| e.to_string())? else {
            break;
        };
        if verbs.len() >= VERBS_MAX {
            return Err(format!("more than {VERBS_MAX} verbs"));
        }
        verbs.push(line.decode().map_err(|d| format!("at byte {at}: {d:?}"))?);
    }
    if verbs.is_empty() {
        return Err("the request asks for nothing".to_owned());
    }
    Ok((head, verbs))
}
