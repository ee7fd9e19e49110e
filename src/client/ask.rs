//! Asking the leader: one request file in the drop box, one answer in the acks.
//!
//! Writes only below `inbox/<uid>/`, never waits for anything but time, and never takes silence for
//! an answer: a request that was published stays and will be carried out when a leader comes. The
//! same token may be published any number of times.

use super::env::Site;
use super::exit::{Exit, Fail};
use crate::model::Token;
use crate::record::ack::Ack;
use crate::record::frame;
use crate::record::header;
use crate::record::header::Header;
use crate::record::hint::{self, Endpoint, What};
use crate::record::leader::{BeatDoc, EpochDoc, FIXED_LEN, decode_fixed};
use crate::record::request::{REQUEST_MAX, RequestHead, VERBS_MAX, Verb};
use crate::spool::Layout;
use crate::sys;
use crate::sys::datagram::Socket;
use crate::sys::fs::Kind;
use crate::sys::statfs::{FsKind, fs_kind};
use crate::sys::tail::Tail;
use std::path::{Path, PathBuf};

/// How long an answer is awaited when nothing else is asked for, seconds.
pub(crate) const WAIT_S: u64 = 60;
/// Longest wait that may be asked for, seconds (a year).
const WAIT_MAX_S: u64 = 366 * 86_400;
/// Pauses between two looks at the acks: the first, in microseconds, and what part of the time
/// waited so far the later ones are, so that the wait is longer than needed by no more. On this
/// machine's own disk; where a look is a round trip to a file server; and there with a leader that
/// tells of its answer. No watch is used: giving an inotify instance back took 11 to 15 ms of
/// waiting for the kernel (6.18), three times what a whole csub takes.
const LOCAL: (u64, u64) = (250, 8);
const REMOTE: (u64, u64) = (4_000, 4);
const HINTED: (u64, u64) = (40_000, 2);
/// Longest pause, microseconds.
const PAUSE_MAX_US: u64 = 200_000;
/// After this time the user is told that nobody answers yet, ms.
const NOTE_MS: u64 = 5000;
/// A request that vanished without an answer is published again after this time, ms.
const VANISHED_MS: u64 = 5000;
/// Epoch, beat and the request itself are looked at first after this time, and then so often, ms:
/// an answer usually comes before.
const FULL_MS: (u64, u64) = (300, 500);
/// Hints are repeated for this time, ms.
const HINT_FOR_MS: u64 = 2000;
/// From this time on an interruption is caught, ms.
const QUIET_MS: u64 = 20;
/// Most bytes of acks read at once.
const CHUNK: usize = frame::LINE_MAX + (1 << 20);

/// Why no answer came.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The request could not be made or published: nothing was asked.
    NotSent(Fail),
    /// Published, and no answer within the time. The text says who was waited for and how long.
    Silence(String),
    /// The user interrupted the wait. The request stays.
    Interrupted(String),
}

impl NoAnswer {
    /// Prints it in the name of `command` and gives the exit code.
    pub(crate) fn report(&self, command: &str) -> i32 {
        match self {
            NoAnswer::NotSent(failure) => failure.report(command),
            NoAnswer::Silence(text) => Fail::new(Exit::System, text.clone()).report(command),
            NoAnswer::Interrupted(text) => {
                eprintln!("{command}: {text}");
                128 + 2
            }
        }
    }
}

/// The time to wait for an answer: `--wait SECONDS`, else CB_ASK_TIMEOUT, else [`WAIT_S`].
///
/// # Errors
/// When the text is not a number of seconds.
pub(crate) fn wait_s(option: Option<&str>) -> Result<u64, Fail> {
    let (text, from) = match (option, std::env::var("CB_ASK_TIMEOUT")) {
        (Some(text), _) => (text.to_owned(), "--wait"),
        (None, Ok(text)) if !text.is_empty() => (text, "CB_ASK_TIMEOUT"),
        _ => return Ok(WAIT_S),
    };
    match text.parse::<u64>() {
        Ok(n) if n <= WAIT_MAX_S => {
            // Also before the request is sent the share may hang.
            super::hang_notice::wait_at_most(n);
            Ok(n)
        }
        _ => Err(Fail::usage(format!(
            "{from}: '{text}' is not a number of seconds from 0 to {WAIT_MAX_S}"
        ))),
    }
}

/// A request being written: the file's bytes grow as verbs are added, so that a pack of many jobs
/// never lies in memory twice.
pub(crate) struct Outgoing {
    token: Token,
    bytes: Vec<u8>,
    /// Number of the next record.
    seq: u64,
}

impl Outgoing {
    /// A request without verbs. `head` needs only what the caller knows: environment, script and
    /// input; token, host, pid and time are filled in here.
    ///
    /// # Errors
    /// When the head cannot be written as JSON.
    pub(crate) fn new(site: &Site, head: RequestHead) -> Result<Outgoing, Fail> {
        let head = RequestHead {
            token: new_token(),
            host: site.host.clone(),
            pid: sys::proc::own_pid(),
            t: sys::clock::wall_ms(),
            ..head
        };
        let mut bytes = Vec::with_capacity(16 << 10);
        frame::write(&mut bytes, 0, &Header::new(header::What::Request, "", 0, 0))
            .map_err(failed)?;
        frame::write(&mut bytes, 1, &head).map_err(failed)?;
        Ok(Outgoing {
            token: head.token,
            bytes,
            seq: 2,
        })
    }

    /// Adds a verb.
    ///
    /// # Errors
    /// When the request would become larger than a leader accepts.
    pub(crate) fn push(&mut self, verb: &Verb) -> Result<(), Fail> {
        if self.seq - 2 >= VERBS_MAX as u64 {
            return Err(Fail::usage(format!(
                "more than {VERBS_MAX} parts in one request: send it in several"
            )));
        }
        frame::write(&mut self.bytes, self.seq, verb).map_err(failed)?;
        self.seq += 1;
        if self.bytes.len() > REQUEST_MAX {
            return Err(Fail::usage(format!(
                "the request is larger than {REQUEST_MAX} bytes: send it in several"
            )));
        }
        Ok(())
    }

    /// Number of verbs.
    pub(crate) fn len(&self) -> u64 {
        self.seq - 2
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn failed(e: serde_json::Error) -> Fail {
    Fail::usage(format!("cannot encode the request: {e}"))
}

/// Sends a request and waits for its answer, at most `wait_s` seconds.
///
/// # Errors
/// [`NoAnswer`]: nothing was sent, or nobody answered in time.
pub(crate) fn send(
    site: &Site,
    command: &str,
    request: Outgoing,
    wait_s: u64,
) -> Result<Ack, NoAnswer> {
    let Outgoing { token, bytes, .. } = request;
    let mut wait = Wait::new(site, token, bytes).map_err(NoAnswer::NotSent)?;
    wait.publish().map_err(NoAnswer::NotSent)?;
    sys::failpoint::hit("ask.after_publish");
    let answer = wait.until_answered(command, wait_s.saturating_mul(1000));
    super::hang_notice::answered();
    answer
}

/// Sends a few verbs and waits for the answer.
///
/// # Errors
/// As [`send`].
pub(crate) fn ask(
    site: &Site,
    command: &str,
    verbs: &[Verb],
    wait_s: u64,
) -> Result<Ack, NoAnswer> {
    let mut request = Outgoing::new(site, RequestHead::default()).map_err(NoAnswer::NotSent)?;
    for verb in verbs {
        request.push(verb).map_err(NoAnswer::NotSent)?;
    }
    send(site, command, request, wait_s)
}

fn new_token() -> Token {
    let mut bytes = [0u8; 16];
    sys::clock::random(&mut bytes);
    Token(u128::from_le_bytes(bytes))
}

/// One request on its way.
struct Wait<'a> {
    site: &'a Site,
    layout: Layout,
    token: Token,
    token_text: String,
    bytes: Vec<u8>,
    file: PathBuf,
    epoch: EpochDoc,
    /// Everything in the current epoch's acks before this offset was looked at.
    offset: u64,
    /// The file that was read, by its inode; 0: none yet.
    acks_ino: u64,
    tail: Tail,
    published: u32,
    looks: u64,
    vanished_at: Option<u64>,
    beat: Beat,
    /// When epoch, beat and request are looked at next, ms since the wait began.
    full_at: u64,
    /// For hints: the answer's, once there is a leader that sends them.
    socket: Option<Socket>,
    leader: Option<Endpoint>,
    /// The leader has said that the answer is there.
    told: bool,
}

/// The present file of the acks is not the one that was read so far.
struct Replaced;

/// What the leader's beat looked like, and since when it has not moved.
#[derive(Default)]
struct Beat {
    doc: Option<BeatDoc>,
    since_ms: u64,
    moved: bool,
}

impl<'a> Wait<'a> {
    fn new(site: &'a Site, token: Token, bytes: Vec<u8>) -> Result<Wait<'a>, Fail> {
        let layout = site.layout();
        let epoch = read_epoch(&layout)
            .map_err(|e| unreadable(site, &e))?
            .unwrap_or_default();
        let inbox = layout.inbox_of(sys::users::effective_uid());
        let mut wait = Wait {
            site,
            token,
            token_text: token.to_string(),
            bytes,
            file: inbox.join(Layout::request_name(token)),
            offset: 0,
            acks_ino: 0,
            tail: Tail::of(site.layout().root()),
            published: 0,
            looks: 0,
            vanished_at: None,
            beat: Beat::default(),
            full_at: FULL_MS.0,
            socket: None,
            leader: None,
            told: false,
            epoch,
            layout,
        };
        wait.find_leader();
        // Taken before the request is published: an answer can only stand behind it.
        let acks = wait.layout.acks(wait.epoch.epoch);
        if let Ok(chunk) = wait.tail.read_from(&acks, 0, 0) {
            (wait.offset, wait.acks_ino) = (chunk.file_len, chunk.ino);
        }
        Ok(wait)
    }

    /// Puts the request into the drop box, making the user's own box on first use.
    fn publish(&mut self) -> Result<(), Fail> {
        // The service account reads through the group; nobody else may.
        let umask = sys::caller::umask(0o007);
        let sent = self.publish_into_box();
        sys::caller::umask(umask);
        self.published += 1;
        self.vanished_at = None;
        self.hint();
        sent
    }

    /// Where the leader of the present epoch takes hints.
    fn find_leader(&mut self) {
        self.leader = Endpoint::parse(&self.epoch.hints);
        if self.leader.is_some() && self.socket.is_none() {
            self.socket = Socket::open(0..=0);
        }
    }

    /// Tells the leader to look. That it arrives is not known, and not needed.
    fn hint(&self) {
        if let (Some(socket), Some(leader)) = (&self.socket, &self.leader) {
            let (uid, token) = (sys::users::effective_uid(), self.token);
            let bytes = hint::encode(leader.tag, What::DropBox { uid, token });
            socket.send(&bytes, &leader.addresses);
        }
    }

    /// Sleeps until the next look, or until the leader says that it has answered.
    fn pause(&mut self, us: u64) {
        let (Some(socket), Some(_)) = (&self.socket, &self.leader) else {
            return sys::clock::sleep_us(us);
        };
        let token = self.token;
        let tag = hint::tag_of_token(token);
        self.told = socket.wait(us, |bytes| {
            hint::decode(bytes, tag) == Some(What::Acks { token })
        });
    }

    fn publish_into_box(&self) -> Result<(), Fail> {
        let write = || sys::fs::publish_mode(&self.file, &self.bytes, 0o660);
        let inbox = sys::fs::parent(&self.file);
        self.refuse_foreign(inbox)?;
        let first = match write() {
            Err(e) if e.is_not_found() => e,
            other => return other.map_err(|e| self.not_sent(&e)),
        };
        match sys::fs::mkdir(inbox, 0o770) {
            Ok(_) => {
                self.refuse_foreign(inbox)?;
                write().map_err(|e| self.not_sent(&e))
            }
            Err(_) => Err(self.not_sent(&first)),
        }
    }

    /// Anybody may make names among the drop boxes: a request is put only into a box that is the
    /// caller's own and that nobody else can read or empty.
    fn refuse_foreign(&self, inbox: &Path) -> Result<(), Fail> {
        let Ok(Some(found)) = sys::fs::stat(inbox) else {
            return Ok(());
        };
        let me = sys::users::effective_uid();
        let what = match found {
            f if f.kind != Kind::Dir => "is no directory".to_owned(),
            f if f.uid != me => format!("belongs to uid {} and not to you (uid {me})", f.uid),
            f if f.mode & 0o007 != 0 => {
                format!("is open to everyone (mode {:o}): chmod o= it", f.mode)
            }
            _ => return Ok(()),
        };
        Err(Fail::system(format!(
            "{} {what}: the request was not sent\nhint: the leader clears a foreign name within \
             seconds; if this stays, tell the cluster's administrator",
            inbox.display()
        )))
    }

    fn not_sent(&self, e: &sys::Error) -> Fail {
        if e.is_not_found() {
            return Fail::system(self.site.diagnose());
        }
        let full = if e.is_no_space() { " (DISK FULL)" } else { "" };
        Fail::system(format!("{e}{full}: the request was not sent"))
    }

    fn until_answered(&mut self, command: &str, limit_ms: u64) -> Result<Ack, NoAnswer> {
        let start = sys::clock::boot_ms();
        let local = matches!(fs_kind(self.layout.root()), Ok(FsKind::Local));
        let mut signals = None;
        let mut noted = false;
        // No answer comes as fast as a file server would be asked for it.
        let mut soon = !local && limit_ms > 0;
        loop {
            let now = sys::clock::boot_ms() - start;
            if !std::mem::take(&mut soon)
                && let Some(ack) = self.look(now).map_err(NoAnswer::Silence)?
            {
                return Ok(ack);
            }
            if now >= QUIET_MS && signals.is_none() {
                signals = sys::signals::catch_term().ok();
            }
            if signals.as_ref().is_some_and(|s| s.try_recv().is_ok()) {
                return Err(NoAnswer::Interrupted(self.stays("interrupted")));
            }
            if now >= limit_ms {
                return Err(NoAnswer::Silence(self.silence(now)));
            }
            if now >= NOTE_MS && !noted {
                noted = true;
                sys::caller::say(&format!(
                    "{command}: no answer for {} s: {}; waiting up to {} s",
                    now / 1000,
                    self.who(now),
                    limit_ms / 1000
                ));
            }
            let left_us = (limit_ms - now).saturating_mul(1000);
            let (first_us, part) = match (local, &self.leader) {
                (true, None) => LOCAL,
                (false, None) => REMOTE,
                (_, Some(_)) => HINTED,
            };
            let pause_us = (now * 1000 / part).clamp(first_us, PAUSE_MAX_US);
            self.pause(pause_us.min(left_us));
            if now < HINT_FOR_MS && !self.told {
                // The first one may have been lost.
                self.hint();
            }
        }
    }

    /// One look at everything that can hold an answer. `now` is in ms since the wait began. `Err`
    /// when the request had to be published again and could not.
    fn look(&mut self, now: u64) -> Result<Option<Ack>, String> {
        self.looks += 1;
        if let Some(ack) = self.scan() {
            return Ok(Some(ack));
        }
        if now < self.full_at {
            return Ok(None);
        }
        self.full_at = now + FULL_MS.1;
        self.look_at_beat(now);
        if let Ok(Some(epoch)) = read_epoch(&self.layout)
            && epoch.epoch != self.epoch.epoch
        {
            // The old leader's last words count as well: it answers only what it committed.
            if let Some(ack) = self.scan() {
                return Ok(Some(ack));
            }
            self.epoch = epoch;
            self.offset = 0;
            self.find_leader();
            self.hint();
            return Ok(self.scan());
        }
        self.publish_again_if_vanished(now)?;
        Ok(None)
    }

    fn publish_again_if_vanished(&mut self, now: u64) -> Result<(), String> {
        match sys::fs::stat(&self.file) {
            Ok(None) => {}
            _ => {
                self.vanished_at = None;
                return Ok(());
            }
        }
        let since = *self.vanished_at.get_or_insert(now);
        if now - since < VANISHED_MS {
            return Ok(());
        }
        self.publish().map_err(|failure| {
            format!(
                "the request was taken in but no answer came, and it could not be sent again: {}",
                failure.text
            )
        })
    }

    /// Reads what was added to the acks since the last look.
    fn scan(&mut self) -> Option<Ack> {
        let acks = self.layout.acks(self.epoch.epoch);
        // Most looks find nothing: then one question is all that they cost.
        let read = (self.acks_ino, self.offset);
        let same = || sys::fs::mark(&acks).is_ok_and(|mark| (mark.ino, mark.len) == read);
        if !std::mem::take(&mut self.told) && same() {
            return None;
        }
        let found = self.scan_file(&acks);
        // Shorter than what was read of it: the leader went on in another file. One that was passed
        // over for as long as another took to fill is not waited for: the request is repeated.
        match found {
            Err(Replaced) => {
                let before = self.layout.acks_before(self.epoch.epoch);
                if let Ok(Some(ack)) = self.scan_file(&before) {
                    return Some(ack);
                }
                self.offset = 0;
                self.scan_file(&acks).ok().flatten()
            }
            Ok(found) => found,
        }
    }

    fn scan_file(&mut self, acks: &Path) -> Result<Option<Ack>, Replaced> {
        loop {
            let chunk = match self.tail.read_from(acks, self.offset, CHUNK) {
                Ok(chunk) if chunk.file_len < self.offset => return Err(Replaced),
                Ok(chunk) => {
                    self.acks_ino = chunk.ino;
                    chunk
                }
                Err(e) => {
                    if e.is_not_found() {
                        // Looked for before its leader made it: this host would believe it missing
                        // for up to a minute.
                        sys::fs::ask_again(&self.layout.epochs());
                        sys::fs::ask_again(&self.layout.epoch_dir(self.epoch.epoch));
                    }
                    return Ok(None);
                }
            };
            let whole = match chunk.bytes.iter().rposition(|b| *b == b'\n') {
                Some(end) => end + 1,
                None if chunk.bytes.len() < CHUNK => return Ok(None),
                // A line longer than any answer: not ours.
                None => chunk.bytes.len(),
            };
            if let Some(ack) = find_ack(&chunk.bytes[..whole], self.token, &self.token_text) {
                return Ok(Some(ack));
            }
            self.offset += whole as u64;
            if chunk.bytes.len() < CHUNK {
                return Ok(None);
            }
        }
    }

    fn look_at_beat(&mut self, now: u64) {
        let doc = sys::fs::read_small(&self.layout.beat(), FIXED_LEN as u64)
            .ok()
            .and_then(|bytes| decode_fixed::<BeatDoc>(&bytes).ok());
        if doc != self.beat.doc {
            self.beat.moved = self.beat.doc.is_some();
            self.beat.doc = doc;
            self.beat.since_ms = now;
        }
    }

    /// What is known of whoever should answer. `now` in ms since the wait began.
    fn who(&self, now: u64) -> String {
        let EpochDoc {
            epoch, host, pid, ..
        } = &self.epoch;
        if *epoch == 0 {
            return "no leader has ever run on this cluster (start cbsched on a master host)"
                .to_owned();
        }
        let leader = format!("the leader (epoch {epoch}, host {host}, pid {pid})");
        let still_s = (now - self.beat.since_ms) / 1000;
        match &self.beat.doc {
            None => format!("{leader} has no readable beat"),
            Some(_) if !self.beat.moved => {
                format!("the beat of {leader} has not moved for {still_s} s")
            }
            Some(_) if still_s >= 5 => {
                format!("the beat of {leader} stopped {still_s} s ago")
            }
            Some(beat) if !beat.leading => format!("{leader} is still taking over"),
            Some(beat) if beat.full => format!(
                "DISK FULL: {leader} has no room on the share and takes no submissions until \
                 there is some"
            ),
            Some(_) => format!("{leader} is alive but has not answered yet"),
        }
    }

    fn silence(&self, now: u64) -> String {
        let what = format!(
            "no answer within {} s: {}; published {} time{}, looked {} times",
            now / 1000,
            self.who(now),
            self.published,
            if self.published == 1 { "" } else { "s" },
            self.looks
        );
        self.stays(&what)
    }

    fn stays(&self, what: &str) -> String {
        format!(
            "{what}\nthe request stays and will be carried out when a leader comes: {}\n\
             hint: remove that file to withdraw it",
            self.file.display()
        )
    }
}

/// The answer to `token` among whole lines. A line that is not intact is passed over: the first one
/// may be the rest of a record, and damage elsewhere is not this command's business.
fn find_ack(bytes: &[u8], token: Token, text: &str) -> Option<Ack> {
    let text = text.as_bytes();
    for line in bytes.split(|b| *b == b'\n') {
        // The token stands in the first bytes of its record: most lines are passed over cheaply.
        let front = &line[..line.len().min(80)];
        if !front.windows(text.len()).any(|w| w == text) {
            continue;
        }
        if let Ok(ack) = frame::parse_line(line).and_then(|l| l.decode::<Ack>())
            && ack.tok == token
        {
            return Some(ack);
        }
    }
    None
}

/// Why the share does not serve: what is wrong with it as a whole, else the call that failed.
fn unreadable(site: &Site, e: &sys::Error) -> Fail {
    if e.is_not_found() && !sys::fs::exists(&site.layout().cluster()) {
        return Fail::system(site.diagnose());
    }
    Fail::system(e.to_string())
}

/// The epoch document; `None` while it is being overwritten.
fn read_epoch(layout: &Layout) -> sys::Result<Option<EpochDoc>> {
    let bytes = sys::fs::read_small(&layout.epoch(), FIXED_LEN as u64)?;
    Ok(decode_fixed(&bytes).ok())
}

#[cfg(test)]
mod tests;
