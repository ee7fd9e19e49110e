//! Sends a request to the leader: one request file in the drop box, one answer in the acks.
//!
//! Writes only below `inbox/<uid>/`, waits only for time to pass, and never treats silence as an
//! answer: a published request stays and is carried out when there is a leader. The same token may
//! be published any number of times.

mod answers;
mod leader_hints;
mod outgoing;

use super::env::Site;
use super::exit::{Exit, Fail};
use crate::language::{tell, translated};
use crate::model::Token;
use crate::record::ack::Ack;
use crate::record::leader::{BeatDoc, EpochDoc, FIXED_LEN, decode_fixed};
use crate::record::request::{RequestHead, SHORT_MAX, Verb};
use crate::spool::{Layout, leader_copy};
use crate::sys;
use crate::sys::fs::Kind;
use crate::sys::statfs::{FsKind, fs_kind};
use answers::Answers;
use leader_hints::LeaderHints;
pub(crate) use outgoing::Outgoing;
use std::path::{Path, PathBuf};

/// How long to wait for an answer by default, in seconds.
pub(crate) const WAIT_S: u64 = 60;
/// Longest wait that can be requested, in seconds (a year).
const WAIT_MAX_S: u64 = 366 * 86_400;
/// Pauses between two looks at the acks: the first in microseconds, and the divisor of the time
/// waited so far that gives the later ones, which bounds the excess of the wait. LOCAL: a share on
/// a local disk. REMOTE: a look is a round trip to a file server. HINTED: the leader sends a hint
/// with its answer. No watch is used: releasing an inotify instance took 11 to 15 ms in the kernel
/// (6.18), three times as long as a whole csub.
const LOCAL: (u64, u64) = (250, 8);
const REMOTE: (u64, u64) = (4_000, 4);
const HINTED: (u64, u64) = (40_000, 2);
/// Longest pause, in microseconds.
const PAUSE_MAX_US: u64 = 200_000;
/// After this time (ms) the user gets a notice that there is no answer yet.
const NOTE_MS: u64 = 5000;
/// A request that vanished without an answer is published again after this time, ms.
const VANISHED_MS: u64 = 5000;
/// Epoch, beat and the request itself are first looked at after this time, then at this interval,
/// ms: an answer usually comes earlier.
const FULL_MS: (u64, u64) = (300, 500);
/// The same on a local disk, where a look costs no round trip: the answer of a leader that has just
/// taken over is found soon. A pause of HINTED can be longer.
const FULL_LOCAL_MS: (u64, u64) = (20, 40);
/// Hints are repeated for this time, ms.
const HINT_FOR_MS: u64 = 2000;
/// How long a withdrawn request may still be answered, ms: a leader may have begun with it.
const WITHDRAWN_MS: u64 = 2_000;
/// Interruptions are caught from this time on, ms.
const QUIET_MS: u64 = 20;

/// Why no answer came.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The request could not be created or published: nothing was sent.
    NotSent(Fail),
    /// Published, but no answer within the time. The text names the leader and the time waited.
    Silence(String),
    /// The user interrupted the wait. The request stays.
    Interrupted(String),
}

impl NoAnswer {
    /// Prints the failure in the name of `command` and returns the exit code.
    pub(crate) fn report(&self, command: &str) -> i32 {
        match self {
            NoAnswer::NotSent(failure) => failure.report(command),
            NoAnswer::Silence(text) => Fail::new(Exit::System, text.clone()).report(command),
            NoAnswer::Interrupted(text) => {
                tell!("{command}: {text}");
                128 + 2
            }
        }
    }
}

/// The time to wait for an answer: `--wait SECONDS`, else CB_ASK_TIMEOUT, else [`WAIT_S`].
///
/// # Errors
/// The text is not a number of seconds.
pub(crate) fn wait_s(option: Option<&str>) -> Result<u64, Fail> {
    let (text, from) = match (option, std::env::var("CB_ASK_TIMEOUT")) {
        (Some(text), _) => (text.to_owned(), "--wait"),
        (None, Ok(text)) if !text.is_empty() => (text, "CB_ASK_TIMEOUT"),
        _ => return Ok(WAIT_S),
    };
    match text.parse::<u64>() {
        Ok(n) if n <= WAIT_MAX_S => {
            // The share may hang even before the request is sent.
            super::hang_notice::wait_at_most(n);
            Ok(n)
        }
        _ => Err(Fail::usage(format!(
            "{from}: '{text}' is not a number of seconds from 0 to {WAIT_MAX_S}"
        ))),
    }
}

/// Sends a request and waits for its answer, at most `wait_s` seconds.
///
/// # Errors
/// [`NoAnswer`]: nothing was sent, or no answer came in time.
pub(crate) fn send(
    site: &Site,
    command: &str,
    request: Outgoing,
    wait_s: u64,
) -> Result<Ack, NoAnswer> {
    let token = request.token;
    let bytes = request.into_bytes().map_err(NoAnswer::NotSent)?;
    let mut wait = PendingRequest::new(site, token, bytes).map_err(NoAnswer::NotSent)?;
    wait.publish().map_err(NoAnswer::NotSent)?;
    sys::failpoint::hit("ask.after_publish");
    let answer = wait.until_answered(Some(command), wait_s.saturating_mul(1000));
    super::hang_notice::answered();
    answer
}

/// Like [`send`], within a program that is not ours: prints nothing, catches no signal, does not
/// change the umask, and withdraws a request that is not answered in time, since the program may
/// try again.
///
/// # Errors
/// Nothing was sent, or no answer came. The text says whether the request may still be carried out.
pub(crate) fn send_silently(site: &Site, request: Outgoing, wait_s: u64) -> Result<Ack, Fail> {
    let token = request.token;
    let mut wait = PendingRequest::new(site, token, request.into_bytes()?)?;
    wait.in_library = true;
    wait.publish()?;
    match wait.until_answered(None, wait_s.saturating_mul(1000)) {
        Ok(ack) => Ok(ack),
        Err(NoAnswer::NotSent(fail)) => Err(fail),
        Err(NoAnswer::Silence(_) | NoAnswer::Interrupted(_)) => wait.withdraw(wait_s),
    }
}

/// Sends a few verbs and waits for the answer, in a thread of a program that owns the screen and
/// the signals: prints nothing, and does not notice an interruption.
///
/// # Errors
/// As [`send`].
pub(crate) fn send_and_wait_silently(
    site: &Site,
    verbs: &[Verb],
    wait_s: u64,
) -> Result<Ack, NoAnswer> {
    let request = request_of(site, verbs).map_err(NoAnswer::NotSent)?;
    let token = request.token;
    let bytes = request.into_bytes().map_err(NoAnswer::NotSent)?;
    let mut wait = PendingRequest::new(site, token, bytes).map_err(NoAnswer::NotSent)?;
    wait.publish().map_err(NoAnswer::NotSent)?;
    wait.until_answered(None, wait_s.saturating_mul(1000))
}

/// Sends a few verbs and waits for the answer.
///
/// # Errors
/// As [`send`].
pub(crate) fn send_and_wait(
    site: &Site,
    command: &str,
    verbs: &[Verb],
    wait_s: u64,
) -> Result<Ack, NoAnswer> {
    let request = request_of(site, verbs).map_err(NoAnswer::NotSent)?;
    send(site, command, request, wait_s)
}

fn request_of(site: &Site, verbs: &[Verb]) -> Result<Outgoing, Fail> {
    let mut request = Outgoing::new(site, RequestHead::default())?;
    for verb in verbs {
        request.push(verb)?;
    }
    Ok(request)
}

/// A request that waits for its answer.
struct PendingRequest<'a> {
    site: &'a Site,
    layout: Layout,
    token: Token,
    bytes: Vec<u8>,
    file: PathBuf,
    epoch: EpochDoc,
    answers: Answers,
    hints: LeaderHints,
    published: u32,
    polls: u64,
    vanished_at: Option<u64>,
    /// The process belongs to another program: see [`send_silently`].
    in_library: bool,
    beat: ObservedBeat,
    /// When to look at epoch, beat and request next, ms since the wait began.
    full_at: u64,
    /// [`FULL_MS`] or [`FULL_LOCAL_MS`].
    full_ms: (u64, u64),
}

/// The last beat of the leader, and since when it has not changed.
#[derive(Default)]
struct ObservedBeat {
    doc: Option<BeatDoc>,
    since_ms: u64,
    has_changed: bool,
}

impl<'a> PendingRequest<'a> {
    fn new(site: &'a Site, token: Token, bytes: Vec<u8>) -> Result<PendingRequest<'a>, Fail> {
        let copy = || leader_copy::read(&site.leader_copy());
        let known = (!is_local(&site.layout())).then(copy).flatten();
        PendingRequest::of(site, token, bytes, known)
    }

    /// `known`: the leader as last noted on this host. It may be out of date: the epoch itself is
    /// read if no answer comes.
    fn of(
        site: &'a Site,
        token: Token,
        bytes: Vec<u8>,
        known: Option<EpochDoc>,
    ) -> Result<PendingRequest<'a>, Fail> {
        let layout = site.layout();
        let epoch = match known {
            Some(known) => known,
            None => read_epoch(&layout)
                .map_err(|e| unreadable(site, &e))?
                .unwrap_or_default(),
        };
        let inbox = layout.inbox_of(sys::users::effective_uid());
        let mut hints = LeaderHints::default();
        hints.follow(&epoch);
        let full_ms = match is_local(&layout) {
            true => FULL_LOCAL_MS,
            false => FULL_MS,
        };
        Ok(PendingRequest {
            site,
            token,
            bytes,
            file: inbox.join(Layout::request_name(token)),
            // Opened before the request is published, so the answer can only follow after this
            // position.
            answers: Answers::from_now_on(&layout, epoch.epoch),
            hints,
            published: 0,
            polls: 0,
            vanished_at: None,
            in_library: false,
            beat: ObservedBeat::default(),
            full_at: full_ms.0,
            full_ms,
            epoch,
            layout,
        })
    }

    /// Puts the request into the drop box; creates the user's box on first use.
    fn publish(&mut self) -> Result<(), Fail> {
        // The service account reads through the group; all others are denied.
        let sent = if self.in_library {
            self.publish_into_box()
        } else {
            let umask = sys::caller::umask(0o007);
            let sent = self.publish_into_box();
            sys::caller::umask(umask);
            sent
        };
        self.published += 1;
        self.vanished_at = None;
        self.hints.send(self.token);
        sent
    }

    fn publish_into_box(&self) -> Result<(), Fail> {
        // A short request states its own length, so it may be read while it is written.
        let in_place = self.bytes.len() <= SHORT_MAX && !is_local(&self.layout);
        let write = || match in_place {
            _ if self.in_library => sys::fs::publish_exact(&self.file, &self.bytes, 0o660),
            true => sys::fs::write_in_place(&self.file, &self.bytes, 0o660),
            false => sys::fs::publish_mode(&self.file, &self.bytes, 0o660),
        };
        let inbox = sys::fs::parent(&self.file);
        self.refuse_foreign(inbox)?;
        let first = match write() {
            Err(e) if e.is_not_found() => e,
            other => return other.map_err(|e| self.not_sent(&e)),
        };
        match self.make_box(inbox) {
            Ok(()) => {
                self.refuse_foreign(inbox)?;
                write().map_err(|e| self.not_sent(&e))
            }
            Err(_) => Err(self.not_sent(&first)),
        }
    }

    /// Creates the user's box. In the process of another program it uses a private umask: if a user
    /// who is not a member of the share's group set the mode afterwards, the bit that passes the
    /// group on to files would be cleared.
    fn make_box(&self, inbox: &Path) -> sys::Result<()> {
        let make = || sys::fs::mkdir(inbox, 0o770).map(drop);
        match self.in_library {
            // Where system calls are filtered, the umask of the process must do.
            true => sys::caller::with_private_umask(0o007, make).unwrap_or_else(|_| make()),
            false => make(),
        }
    }

    /// Withdraws the request, unless a leader has begun with it: then its answer comes soon.
    fn withdraw(&mut self, waited_s: u64) -> Result<Ack, Fail> {
        let why = format!(
            "no answer within {waited_s} s: {}",
            self.leader_name(waited_s * 1000)
        );
        let there = matches!(sys::fs::stat(&self.file), Ok(Some(_)));
        let removed = sys::fs::remove(&self.file);
        // These times are relative to the start of a wait.
        (self.vanished_at, self.beat.since_ms) = (None, 0);
        self.full_at = self.full_ms.0;
        if let Ok(ack) = self.until_answered(None, WITHDRAWN_MS) {
            return Ok(ack);
        }
        Err(Fail::system(match removed {
            Ok(()) if there => format!("{why}; the request was withdrawn"),
            Ok(()) => format!("{why}; a leader has taken the request and may carry it out"),
            Err(e) => format!("{why}; the request stays and will be carried out: {e}"),
        }))
    }

    /// Any user may create names beside the drop boxes: a request is only put into a box that
    /// belongs to the caller and that no other user can read or empty.
    fn refuse_foreign(&self, inbox: &Path) -> Result<(), Fail> {
        let Ok(Some(found)) = sys::fs::owner(inbox) else {
            return Ok(());
        };
        let me = sys::users::effective_uid();
        let what = match found {
            f if f.kind != Kind::Dir => "is not a directory".to_owned(),
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

    /// `command`: the name under which notices are printed; `None`: signals are not handled either.
    fn until_answered(&mut self, command: Option<&str>, limit_ms: u64) -> Result<Ack, NoAnswer> {
        let start = sys::clock::boot_ms();
        let local = is_local(&self.layout);
        let mut signals = None;
        let mut noted = false;
        // No answer arrives as fast as a query to the file server, so the first look is skipped.
        let mut soon = !local && limit_ms > 0;
        loop {
            let now = sys::clock::boot_ms() - start;
            // Before the share is looked at: a look can hang.
            if now >= QUIET_MS && signals.is_none() && command.is_some() {
                signals = sys::signals::catch_term().ok();
            }
            if !std::mem::take(&mut soon)
                && let Some(ack) = self.poll_answer(now).map_err(NoAnswer::Silence)?
            {
                return Ok(ack);
            }
            if signals.as_ref().is_some_and(|s| s.try_recv().is_ok()) {
                return Err(NoAnswer::Interrupted(self.stays("interrupted")));
            }
            if now >= limit_ms {
                return Err(NoAnswer::Silence(self.silence(now)));
            }
            if let Some(command) = command.filter(|_| now >= NOTE_MS && !noted) {
                noted = true;
                sys::caller::print_error(&translated(&format!(
                    "{command}: no answer for {} s: {}; waiting up to {} s",
                    now / 1000,
                    self.leader_name(now),
                    limit_ms / 1000
                )));
            }
            let left_us = (limit_ms - now).saturating_mul(1000);
            let (first_us, part) = match (local, self.hints.expected()) {
                (true, false) => LOCAL,
                (false, false) => REMOTE,
                (_, true) => HINTED,
            };
            let pause_us = (now * 1000 / part).clamp(first_us, PAUSE_MAX_US);
            self.hints.pause(self.token, pause_us.min(left_us));
            if now < HINT_FOR_MS && !self.hints.is_answered() {
                // The first hint may have been lost.
                self.hints.send(self.token);
            }
        }
    }

    /// Looks once at everything that may hold an answer. `now` is in ms since the wait began.
    /// Returns `Err` if the request had to be published again and this failed.
    fn poll_answer(&mut self, now: u64) -> Result<Option<Ack>, String> {
        self.polls += 1;
        let added = self.hints.take_answered();
        if let Some(ack) = self.answers.find(self.token, added) {
            return Ok(Some(ack));
        }
        if now < self.full_at {
            return Ok(None);
        }
        self.full_at = now + self.full_ms.1;
        self.poll_beat(now);
        if let Ok(Some(epoch)) = read_epoch(&self.layout)
            && epoch.epoch != self.epoch.epoch
        {
            // The last answers of the old leader are valid as well: it answers only what it
            // committed.
            if let Some(ack) = self.answers.find(self.token, false) {
                return Ok(Some(ack));
            }
            self.answers.follow_epoch(epoch.epoch);
            self.hints.follow(&epoch);
            self.epoch = epoch;
            self.hints.send(self.token);
            return Ok(self.answers.find(self.token, false));
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
                "the request was taken from the drop box, but no answer came, and it could not be \
                 sent again: {}",
                failure.text
            )
        })
    }

    fn poll_beat(&mut self, now: u64) {
        let doc = sys::fs::read_small(&self.layout.beat(), FIXED_LEN as u64)
            .ok()
            .and_then(|bytes| decode_fixed::<BeatDoc>(&bytes).ok());
        if doc != self.beat.doc {
            self.beat.has_changed = self.beat.doc.is_some();
            self.beat.doc = doc;
            self.beat.since_ms = now;
        }
    }

    /// What is known of the leader that should answer. `now` is in ms since the wait began.
    fn leader_name(&self, now: u64) -> String {
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
            Some(_) if !self.beat.has_changed => {
                format!("the beat of {leader} has not moved for {still_s} s")
            }
            Some(_) if still_s >= 5 => {
                format!("the beat of {leader} stopped {still_s} s ago")
            }
            Some(beat) if !beat.leading => format!("{leader} is still taking over"),
            Some(beat) if beat.full => format!(
                "DISK FULL: {leader} has no space on the share and accepts no submissions until \
                 there is some"
            ),
            Some(_) => format!("{leader} is alive but has not answered yet"),
        }
    }

    fn silence(&self, now: u64) -> String {
        let what = format!(
            "no answer within {} s: {}; published {} time{}, looked {} times",
            now / 1000,
            self.leader_name(now),
            self.published,
            if self.published == 1 { "" } else { "s" },
            self.polls
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

/// Why the share cannot be used: its diagnosis as a whole, else the failed call.
fn unreadable(site: &Site, e: &sys::Error) -> Fail {
    if e.is_not_found() && !sys::fs::exists(&site.layout().cluster()) {
        return Fail::system(site.diagnose());
    }
    Fail::system(e.to_string())
}

fn is_local(layout: &Layout) -> bool {
    matches!(fs_kind(layout.root()), Ok(FsKind::Local))
}

/// The epoch document; `None` while it is being overwritten.
fn read_epoch(layout: &Layout) -> sys::Result<Option<EpochDoc>> {
    let bytes = sys::fs::read_small(&layout.epoch(), FIXED_LEN as u64)?;
    Ok(decode_fixed(&bytes).ok())
}

#[cfg(test)]
mod tests;
