//! Drop boxes as users may fill them: links, foreign files, garbage, floods.

use super::partial::GROW_MS;
use super::*;
use crate::record::frame;
use crate::record::header::{FileKind, Header};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

struct TestInbox {
    _dir: tempfile::TempDir,
    layout: Layout,
    inbox: Inbox,
    uid: u32,
}

/// Another account, for tests that run as root.
const OTHER: u32 = 65_534;

impl TestInbox {
    fn new() -> TestInbox {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        for (d, mode) in layout.directories() {
            fs::mkdir_p(&d, 0o755).unwrap();
            fs::chmod(&d, mode).unwrap();
        }
        fs::mkdir_p(&layout.epoch_dir(1), 0o755).unwrap();
        TestInbox {
            inbox: Inbox::new(&layout),
            layout,
            _dir: dir,
            uid: users::effective_uid(),
        }
    }

    fn own(&self) -> PathBuf {
        let own = self.layout.inbox_of(self.uid);
        fs::mkdir_p(&own, 0o770).unwrap();
        own
    }

    fn request(&self, dir: &Path, n: u32) -> PathBuf {
        let token = Token(u128::from(n));
        let head = RequestHead {
            token,
            ..RequestHead::default()
        };
        let mut bytes = Vec::new();
        frame::write(&mut bytes, 0, &Header::new(FileKind::Request, "", 0, 0)).unwrap();
        frame::write(&mut bytes, 1, &head).unwrap();
        frame::write(&mut bytes, 2, &Verb::Reconfig).unwrap();
        let path = dir.join(Layout::request_name(token));
        fs::publish(&path, &bytes).unwrap();
        path
    }

    /// Takes one turn. Returns how many requests were taken and rejected; the rejected ones are set
    /// aside.
    fn turn(&mut self) -> (usize, usize) {
        self.inbox.find_users(clock::boot_ms()).unwrap();
        let (taken, rejected) = self.inbox.take(1, BoxSelection::All);
        for bad in &rejected {
            self.inbox.set_aside(bad, 1);
        }
        let locations: Vec<&RequestLocation> = taken.iter().map(|t| &t.location).collect();
        self.inbox.remove_done(&locations);
        (taken.len(), rejected.len())
    }

    fn lost(&self) -> usize {
        fs::names(&self.layout.lost_found(), 10_000).unwrap().len()
    }
}

#[test]
fn a_box_replaced_by_a_link_leads_nowhere() {
    let mut s = TestInbox::new();
    let own = s.own();
    s.request(&own, 1);
    assert_eq!(s.turn(), (1, 0));
    // Known from now on. The target of the link would be considered rubbish and moved away.
    let journal = s.layout.epoch_dir(1).join("journal.0001.yaml");
    fs::publish(&journal, b"precious").unwrap();
    fs::remove_dir(&own).unwrap();
    symlink(s.layout.epoch_dir(1), &own).unwrap();
    assert_eq!(s.turn(), (0, 0));
    assert_eq!(fs::read_small(&journal, 99).unwrap(), b"precious");
    assert_eq!(s.lost(), 0);
    // The name is free again, and a directory created there is used.
    assert!(!fs::exists(&own));
    s.request(&s.own(), 2);
    assert_eq!(s.turn(), (1, 0));
}

#[test]
fn a_user_database_that_does_not_answer_makes_requests_wait() {
    use users::tests::AWAY;
    let mut s = TestInbox::new();
    if !users::may_switch() {
        println!("skipped: only root can make a box of somebody else");
        return;
    }
    let stranger = 4_000_000_005;
    let own = s.layout.inbox_of(stranger);
    fs::mkdir(&own, 0o770).unwrap();
    let request = s.request(&own, 7);
    fs::chown(&request, stranger, stranger).unwrap();
    fs::chown(&own, stranger, stranger).unwrap();
    AWAY.set(true);
    assert_eq!(s.turn(), (0, 0));
    AWAY.set(false);
    s.inbox.account_pace.end_pause();
    assert_eq!(s.turn(), (0, 1), "nobody has that id");
}

#[test]
fn a_request_that_another_user_owns_is_refused() {
    let mut s = TestInbox::new();
    if !users::may_switch() {
        println!("skipped: only root can make a file of somebody else");
        return;
    }
    let own = s.own();
    let request = s.request(&own, 7);
    fs::chown(&request, OTHER, OTHER).unwrap();
    s.inbox.find_users(clock::boot_ms()).unwrap();
    let (taken, rejected) = s.inbox.take(1, BoxSelection::All);
    assert_eq!((taken.len(), rejected.len()), (0, 1));
    let why = &rejected[0].reason;
    assert!(why.contains(&format!("owned by uid {OTHER}")), "{why}");
}

#[test]
fn a_link_to_another_users_box_takes_nothing_from_it() {
    let mut s = TestInbox::new();
    if !users::may_switch() {
        println!("skipped: only root can make a box of somebody else");
        return;
    }
    let own = s.own();
    let theirs = s.layout.inbox_of(OTHER);
    fs::mkdir(&theirs, 0o770).unwrap();
    fs::chown(&theirs, OTHER, OTHER).unwrap();
    assert_eq!(s.turn(), (0, 0));
    let request = s.request(&theirs, 7);
    fs::chown(&request, OTHER, OTHER).unwrap();
    fs::remove_dir(&own).unwrap();
    symlink(&theirs, &own).unwrap();
    s.inbox.last_served = s.uid.wrapping_sub(1);
    assert_eq!(s.turn(), (1, 0), "the request was taken as its owner's");
    assert_eq!(s.lost(), 0);
}

#[test]
fn a_box_made_by_somebody_else_is_cleared_for_its_user() {
    let mut s = TestInbox::new();
    if !users::may_switch() {
        println!("skipped: only root can make a box of somebody else");
        return;
    }
    let theirs = s.layout.inbox_of(OTHER);
    fs::mkdir(&theirs, 0o777).unwrap();
    let request = s.request(&theirs, 1);
    fs::chown(&request, OTHER, OTHER).unwrap();
    assert_eq!(s.turn(), (0, 0), "a request out of a foreign hand");
    assert!(!fs::exists(&theirs), "the name is free again");
    // A box known to belong to its user, whose owner is changed afterwards.
    fs::mkdir(&theirs, 0o770).unwrap();
    fs::chown(&theirs, OTHER, OTHER).unwrap();
    assert_eq!(s.turn(), (0, 0));
    fs::chown(&theirs, 1, 1).unwrap();
    let request = s.request(&theirs, 2);
    fs::chown(&request, OTHER, OTHER).unwrap();
    assert_eq!(s.turn(), (0, 0));
    assert!(!fs::exists(&theirs));
}

#[test]
fn a_box_that_everyone_can_write_is_not_served() {
    let mut s = TestInbox::new();
    let own = s.own();
    s.request(&own, 1);
    fs::chmod(&own, 0o777).unwrap();
    assert_eq!(s.turn(), (0, 0));
    fs::chmod(&own, 0o770).unwrap();
    assert_eq!(s.turn(), (1, 0));
}

#[test]
fn names_beside_the_boxes_are_cleared() {
    let mut s = TestInbox::new();
    let dir = s.layout.inbox();
    for junk in ["file", "007", "4294967296", "-1"] {
        fs::publish(&dir.join(junk), b"").unwrap();
    }
    fs::mkdir(&dir.join("full"), 0o755).unwrap();
    fs::publish(&dir.join("full/x"), b"").unwrap();
    fs::publish(&dir.join("4711"), b"a file under the name of a box").unwrap();
    s.turn();
    assert!(fs::list_dir(&dir, 99).unwrap().is_empty());
    let hidden = fs::names(&dir, 99).unwrap();
    assert!(hidden.len() == 1 && hidden[0].to_string_lossy().starts_with(".foreign."));
}

#[test]
fn rubbish_is_kept_within_bounds_and_named_plainly() {
    let mut s = TestInbox::new();
    let own = s.own();
    for n in 0..300 {
        fs::publish(&own.join(format!("junk{n}")), b"x").unwrap();
    }
    let long = "x".repeat(250);
    let long = long.as_str();
    for bad in ["new\nline", "esc\u{1b}[31m", long] {
        // Not written through our own writer: its names would be too long.
        std::fs::write(own.join(bad), "x").unwrap();
    }
    fs::mkdir(&own.join("dir"), 0o755).unwrap();
    fs::publish(&own.join("dir/file"), b"x").unwrap();
    let (mut all, mut turns) = (0, 0);
    while turns < 20 {
        let (_, rejected) = s.turn();
        all += rejected;
        turns += 1;
    }
    assert_eq!(
        all, 304,
        "each is refused once, also what cannot be removed"
    );
    let left = fs::list_dir(&own, 999).unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
    let names = fs::names(&s.layout.lost_found(), 999).unwrap();
    assert_eq!(names.len(), 2 * KEPT_MAX as usize);
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"._-".contains(b);
    use std::os::unix::ffi::OsStrExt;
    assert!(names.iter().all(|n| n.as_bytes().iter().all(plain)));
}

#[test]
fn a_file_that_may_not_be_read_is_refused_once() {
    let mut s = TestInbox::new();
    let own = s.own();
    let path = s.request(&own, 1);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o0)).unwrap();
    let rejected = match users::may_switch() {
        // Root can read it nevertheless.
        true => (1, 0),
        false => (0, 1),
    };
    assert_eq!(s.turn(), rejected);
    assert_eq!(s.turn(), (0, 0));
}

/// On a network file system a command writes a short request where it is read.
#[test]
fn a_request_that_is_being_written_is_taken_when_it_is_whole() {
    let mut s = TestInbox::new();
    let (own, uid) = (s.own(), s.uid);
    let mut head = RequestHead {
        token: Token(1),
        verbs: 1,
        ..RequestHead::default()
    };
    let write = |head: &RequestHead| {
        let mut bytes = Vec::new();
        frame::write(&mut bytes, 0, &Header::new(FileKind::Request, "", 0, 0)).unwrap();
        frame::write(&mut bytes, 1, head).unwrap();
        frame::write(&mut bytes, 2, &Verb::Reconfig).unwrap();
        bytes
    };
    let whole = write(&head);
    let path = own.join(Layout::request_name(Token(1)));
    s.inbox.find_users(clock::boot_ms()).unwrap();
    let mut look = |at: u64, hinted: bool| {
        let named = NamedBoxes::from([(uid, BTreeSet::from([Token(1)]))]);
        let boxes = if hinted {
            BoxSelection::Named(&named)
        } else {
            BoxSelection::All
        };
        let (taken, rejected) = s.inbox.take(at, boxes);
        (taken.len(), rejected.len(), s.inbox.due_ms().unwrap())
    };
    for (n, len) in [0, 10, whole.len() / 2, whole.len() - 1]
        .into_iter()
        .enumerate()
    {
        std::fs::write(&path, &whole[..len]).unwrap();
        let (taken, rejected, due) = look(100 + n as u64, n % 2 == 0);
        assert_eq!((taken, rejected), (0, 0), "{len} bytes");
        assert!(due < 200, "the next look is soon: {due}");
    }
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(look(200, true).0, 1);
    // If its command died, it stays incomplete and is rejected in the end.
    head.token = Token(2);
    let path = own.join(Layout::request_name(Token(2)));
    std::fs::write(path, &write(&head)[..50]).unwrap();
    std::fs::remove_file(own.join(Layout::request_name(Token(1)))).unwrap();
    assert_eq!(look(300, false).1, 0);
    assert_eq!(look(299 + GROW_MS, false).1, 0);
    assert_eq!(look(300 + GROW_MS, false).1, 1);
}

/// A directory that its owner closed to the leader: the request in it is carried out once.
#[test]
fn a_request_that_cannot_be_removed_is_answered_once() {
    let mut s = TestInbox::new();
    let own = s.own();
    s.request(&own, 1);
    s.inbox.find_users(clock::boot_ms()).unwrap();
    let (taken, _) = s.inbox.take(1, BoxSelection::All);
    let locations: Vec<&RequestLocation> = taken.iter().map(|t| &t.location).collect();
    // Root can remove the contents of a directory with any mode, but not a directory that is not
    // empty.
    let path = own.join(&locations[0].name);
    fs::remove(&path).unwrap();
    fs::mkdir_p(&path.join("x"), 0o755).unwrap();
    s.inbox.remove_done(&locations);
    fs::remove_tree(&path).unwrap();
    s.request(&own, 1);
    assert_eq!(
        s.inbox.take(1, BoxSelection::All).0.len(),
        0,
        "it is passed over"
    );
    assert!(fs::exists(&path));
    // Once it can be removed, it is removed, and a later entry with its name is accepted.
    s.inbox.find_users(clock::boot_ms()).unwrap();
    assert!(!fs::exists(&path));
    s.request(&own, 1);
    assert_eq!(s.turn(), (1, 0));
    assert!(!fs::exists(&path));
}

/// Regardless of `touch -d`, requests are taken when the leader sees them.
#[test]
fn the_time_of_a_file_means_nothing() {
    let mut s = TestInbox::new();
    let own = s.own();
    for (n, year) in [(1, "2037"), (2, "1970"), (3, "2020")] {
        let path = s.request(&own, n);
        let date = format!("{year}-02-03");
        let touch = std::process::Command::new("touch")
            .args(["-d", &date])
            .arg(path)
            .status();
        assert!(touch.unwrap().success());
    }
    s.inbox.find_users(clock::boot_ms()).unwrap();
    let (taken, _) = s.inbox.take(1, BoxSelection::All);
    let order: Vec<u128> = taken.iter().map(|t| t.head.token.0).collect();
    assert_eq!(order, [1, 2, 3]);
}

#[test]
fn one_users_flood_leaves_room_for_the_others() {
    let mut s = TestInbox::new();
    if !users::may_switch() {
        println!("skipped: only root can make a box of somebody else");
        return;
    }
    let own = s.own();
    (0..1500).for_each(|n| drop(s.request(&own, n)));
    let theirs = s.layout.inbox_of(OTHER);
    fs::mkdir(&theirs, 0o770).unwrap();
    fs::chown(&theirs, OTHER, OTHER).unwrap();
    for n in 9000..9003 {
        let request = s.request(&theirs, n);
        fs::chown(&request, OTHER, OTHER).unwrap();
    }
    s.inbox.find_users(clock::boot_ms()).unwrap();
    let (taken, _) = s.inbox.take(1, BoxSelection::All);
    let of = |uid: u32| taken.iter().filter(|t| t.location.uid == uid).count();
    assert_eq!((of(s.uid), of(OTHER)), (TAKE_MAX - 3, 3));
}

#[test]
fn a_box_is_polled_quickly_after_a_request_and_rarely_when_nothing_comes() {
    let mut s = TestInbox::new();
    let own = s.own();
    s.inbox.find_users(clock::boot_ms()).unwrap();
    s.inbox.set_poll(1000);
    let none = NamedBoxes::new();
    let take = |inbox: &mut Inbox, now: u64| inbox.take(now, BoxSelection::Named(&none)).0.len();
    assert_eq!(take(&mut s.inbox, 1), 0);
    s.request(&own, 1);
    assert_eq!(take(&mut s.inbox, 2), 0, "not due");
    let due = s.inbox.due_ms().unwrap();
    assert_eq!(take(&mut s.inbox, due), 1);
    let quick = s.inbox.due_ms().unwrap() - due;
    assert!(quick <= 10, "{quick} ms");
    // Nothing was removed: the same request is still there.
    assert_eq!(take(&mut s.inbox, due + quick), 1);
    fs::remove(&own.join(Layout::request_name(Token(1)))).unwrap();
    let mut now = due + quick;
    let mut looks = 0;
    while now < due + 60_000 {
        now = s.inbox.due_ms().unwrap();
        assert_eq!(take(&mut s.inbox, now), 0);
        looks += 1;
    }
    assert!((60..80).contains(&looks), "{looks} looks in a minute");
    // A hint needs no poll.
    s.request(&own, 2);
    let named = NamedBoxes::from([(s.uid, BTreeSet::new())]);
    assert_eq!(
        s.inbox.take(now + 1, BoxSelection::Named(&named)).0.len(),
        1
    );
}

#[test]
fn a_named_request_is_read_without_a_listing_and_the_others_wait_for_the_poll() {
    let mut s = TestInbox::new();
    let own = s.own();
    s.inbox.find_users(1).unwrap();
    s.inbox.set_poll(1000);
    assert!(
        s.inbox
            .take(1, BoxSelection::Named(&NamedBoxes::new()))
            .0
            .is_empty()
    );
    (1..=3).for_each(|n| drop(s.request(&own, n)));
    let tokens = BTreeSet::from([Token(2), Token(99)]);
    let named = NamedBoxes::from([(s.uid, tokens)]);
    let (taken, rejected) = s.inbox.take(2, BoxSelection::Named(&named));
    assert_eq!(
        (taken.len(), rejected.len()),
        (1, 0),
        "nobody made request 99"
    );
    assert_eq!(taken[0].head.token, Token(2));
    s.inbox.remove_done(&[&taken[0].location]);
    let due = s.inbox.due_ms().unwrap();
    assert_eq!(
        s.inbox
            .take(due, BoxSelection::Named(&NamedBoxes::new()))
            .0
            .len(),
        2
    );
}

#[test]
fn many_boxes_are_polled_less_often_each() {
    let mut s = TestInbox::new();
    (1..=100).for_each(|uid| s.inbox.add(uid));
    s.inbox.set_poll(1000);
    assert_eq!(s.inbox.poll_ms, BOX_POLL_MAX_MS);
    s.inbox.set_poll(10);
    assert_eq!(s.inbox.poll_ms, 62);
    s.inbox.set_poll(60_000);
    assert_eq!(s.inbox.poll_ms, 60_000);
}

/// A long request takes several turns: its user's next one waits, and is not taken twice either.
#[test]
fn while_a_request_is_on_its_way_nothing_more_of_its_user_is_taken() {
    let mut s = TestInbox::new();
    let own = s.own();
    s.request(&own, 1);
    s.inbox.find_users(clock::boot_ms()).unwrap();
    let (mut taken, _) = s.inbox.take(1, BoxSelection::All);
    let number = s.inbox.record_held(taken.remove(0).location);
    s.request(&own, 2);
    assert!(s.inbox.take(2, BoxSelection::All).0.is_empty());
    assert_eq!(s.inbox.due_ms(), None, "no look is due meanwhile");
    let locations = s.inbox.release(&[number], 3);
    s.inbox.remove_done(&locations.iter().collect::<Vec<_>>());
    assert_eq!(s.inbox.due_ms(), Some(3));
    let (taken, _) = s.inbox.take(3, BoxSelection::Named(&NamedBoxes::new()));
    assert_eq!(taken[0].head.token, Token(2));
}

#[test]
fn a_user_database_that_does_not_answer_is_not_asked_in_each_turn() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let mut s = TestInbox::new();
    let own = s.own();
    s.request(&own, 1);
    s.inbox.look_up_account = |_| {
        ASKED.fetch_add(1, Ordering::Relaxed);
        let e = std::io::Error::from_raw_os_error(5);
        Err(sys::Error::new("look up", "a user".as_ref(), e))
    };
    s.inbox.find_users(clock::boot_ms()).unwrap();
    for now in [10, 11, 12, 1_000] {
        let (taken, rejected) = s.inbox.take(now, BoxSelection::All);
        assert!(taken.is_empty() && rejected.is_empty(), "it waits");
    }
    assert_eq!(ASKED.load(Ordering::Relaxed), 1);
    assert!(s.inbox.is_waiting(1_000));
    s.inbox.look_up_account = account;
    let (taken, _) = s.inbox.take(100_000, BoxSelection::All);
    assert_eq!(taken.len(), 1);
    // Known users are still served while it is unavailable again, and for longer than an account is
    // considered valid.
    s.inbox.look_up_account = |_| Err(sys::Error::invalid("look up", "a user".as_ref(), "away"));
    s.request(&own, 2);
    let (taken, _) = s.inbox.take(100_000 + 2 * ACCOUNT_MS, BoxSelection::All);
    assert_eq!(taken.len(), 2);
}

/// Any user may create names in `inbox/`: many of them cost a turn no more than a few, and a new
/// user is still found.
#[test]
fn many_names_among_the_boxes_are_looked_through_in_parts() {
    let mut s = TestInbox::new();
    let dir = s.layout.inbox();
    (0..12_000).for_each(|n| drop(std::fs::File::create(dir.join(format!(".x{n}"))).unwrap()));
    s.request(&s.own(), 1);
    let now = clock::boot_ms();
    s.inbox.find_users(now).unwrap();
    assert!(s.inbox.is_listing(), "12,000 names in one look");
    let mut looks = 1;
    while s.inbox.is_listing() && looks < 9 {
        s.inbox.find_users(now).unwrap();
        looks += 1;
    }
    assert_eq!((looks, s.inbox.has_box(s.uid)), (3, true));
    let alarm = s.inbox.take_alarm().unwrap();
    let owner = format!("of uid {}", s.uid);
    let due = ["/inbox holds at least 1000 hidden names", &owner];
    assert!(due.iter().all(|due| alarm.contains(due)), "{alarm}");
    assert_eq!(s.inbox.take_alarm(), None, "once for each listing");
    // As long as nothing changes they are not read again.
    (0..3).for_each(|_| {
        s.inbox.find_users(now + 1_000).unwrap();
    });
    s.inbox.find_users(now + 2_000).unwrap();
    assert!(!s.inbox.is_listing());
}

#[test]
fn of_many_foreign_names_a_part_is_cleared_in_each_look() {
    let mut s = TestInbox::new();
    let dir = s.layout.inbox();
    for n in 0..directory::ASKED_MAX + 10 {
        fs::publish(&dir.join(format!("junk{n}")), b"").unwrap();
    }
    s.turn();
    assert_eq!(fs::list_dir(&dir, 999).unwrap().len(), 10);
    s.turn();
    assert!(fs::list_dir(&dir, 999).unwrap().is_empty());
}

#[test]
fn a_box_that_a_hint_named_is_found_without_a_listing() {
    let mut s = TestInbox::new();
    s.inbox.find_users(clock::boot_ms()).unwrap();
    assert!(!s.inbox.find(s.uid));
    s.own();
    assert!(s.inbox.find(s.uid));
}

/// A mistake of an administrator, or another account with write permission there.
#[test]
fn a_directory_of_boxes_that_is_gone_is_made_again() {
    let mut s = TestInbox::new();
    let dir = s.layout.inbox();
    let before = std::fs::metadata(&dir).unwrap().permissions();
    for file in [false, true] {
        fs::remove_tree(&dir).unwrap();
        if file {
            fs::publish(&dir, b"").unwrap();
        }
        let e = s.inbox.find_users(clock::boot_ms()).unwrap_err();
        assert!(is_missing(&e), "{e}");
        s.inbox.recreate().unwrap();
        assert_eq!(std::fs::metadata(&dir).unwrap().permissions(), before);
        s.request(&s.own(), 1);
        assert_eq!(s.turn(), (1, 0));
    }
    fs::remove_tree(&dir).unwrap();
    symlink("nowhere", &dir).unwrap();
    assert!(s.inbox.find_users(clock::boot_ms()).is_err());
    assert!(
        s.inbox.recreate().is_err(),
        "what a link means is not for the leader to say"
    );
}

/// 64 MB are read and decoded outside the turns, one request at a time.
#[test]
fn a_large_request_is_read_beside_the_turns() {
    let mut s = TestInbox::new();
    let own = s.own();
    for n in [1, 2] {
        let path = s.request(&own, n);
        let bytes = std::fs::read(&path).unwrap();
        let mut reader = frame::Reader::new(&bytes);
        let lines = std::iter::from_fn(|| reader.next_line().unwrap()).count() as u64;
        let mut bytes = bytes.clone();
        for seq in lines.. {
            frame::write(&mut bytes, seq, &Verb::Reconfig).unwrap();
            if bytes.len() as u64 > LARGE {
                break;
            }
        }
        fs::publish(&path, &bytes).unwrap();
    }
    s.inbox.find_users(clock::boot_ms()).unwrap();
    let none = NamedBoxes::new();
    let (mut now, mut tokens) = (1, Vec::new());
    assert!(
        s.inbox.take(now, BoxSelection::All).0.is_empty(),
        "read in a turn"
    );
    while tokens.len() < 2 && now < 20_000 {
        clock::sleep_ms(1);
        now = s.inbox.due_ms().unwrap().max(now + 1);
        let (taken, rejected) = s.inbox.take(now, BoxSelection::Named(&none));
        assert!(rejected.is_empty() && taken.len() <= 1);
        for request in taken {
            assert!(request.verbs.len() > 1000);
            tokens.push(request.head.token.0);
            s.inbox.remove_done(&[&request.location]);
        }
    }
    assert_eq!(tokens, [1, 2]);
    assert_eq!(s.inbox.reading.due_ms(), None);
}
