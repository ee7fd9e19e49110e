//! Tests `send_and_wait` with a leader simulated by a thread.

use super::answers::find_ack;
use super::*;
use crate::record::frame;
use crate::record::header::{self, Header};
use crate::record::hint::{self, Endpoint, Hint};
use crate::record::leader::encode_fixed;
use crate::record::request::{SignalAction, VERBS_MAX};
use crate::sys::datagram::Socket;
use std::path::Path;

fn share() -> (tempfile::TempDir, Site) {
    let d = tempfile::tempdir().unwrap();
    let layout = Layout::new(d.path());
    for (dir, _) in layout.directories() {
        std::fs::create_dir_all(dir).unwrap();
    }
    std::fs::write(layout.cluster(), "{}").unwrap();
    set_epoch(&layout, 0);
    let site = Site {
        conf: "/c".into(),
        share: d.path().to_path_buf(),
        host: "h1".into(),
        local: None,
        unsafe_mount: false,
        servers: None,
        esubs: None,
    };
    (d, site)
}

fn set_epoch(layout: &Layout, epoch: u64) {
    let doc = EpochDoc {
        epoch,
        host: "h9".into(),
        pid: 7,
        ..EpochDoc::default()
    };
    std::fs::write(layout.epoch(), encode_fixed(&doc).unwrap()).unwrap();
    std::fs::create_dir_all(layout.epoch_dir(epoch)).unwrap();
}

fn append(path: &Path, tok: Token, seq: u64) {
    // Replaced as a leader does it: a concurrent reader never finds the file shorter than before.
    let mut bytes = Vec::new();
    frame::write(&mut bytes, seq, &Ack::empty(tok)).unwrap();
    let mut how = std::fs::OpenOptions::new();
    let mut file = how.create(true).append(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, &bytes).unwrap();
}

/// Waits until there is a request in the drop box and returns its token.
fn request(layout: &Layout) -> Token {
    let inbox = layout.inbox_of(sys::users::effective_uid());
    loop {
        let found = sys::fs::list_dir(&inbox, 10).unwrap_or_default();
        if let Some(token) = found
            .iter()
            .find_map(|e| Layout::parse_request_name(e.text()?))
        {
            return token;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn verbs() -> Vec<Verb> {
    vec![Verb::Signal {
        sel: Default::default(),
        how: SignalAction::Kill,
    }]
}

#[test]
fn an_answer_behind_others_is_found_and_the_request_is_readable() {
    let (_d, site) = share();
    let layout = site.layout();
    set_epoch(&layout, 3);
    append(&layout.acks(3), Token(1), 0);
    let published = std::thread::scope(|s| {
        let leader = s.spawn(|| {
            let token = request(&layout);
            append(&layout.acks(3), Token(2), 1);
            append(&layout.acks(3), token, 2);
            let file = layout
                .inbox_of(sys::users::effective_uid())
                .join(Layout::request_name(token));
            (token, std::fs::read(file).unwrap())
        });
        let got = send_and_wait(&site, "t", &verbs(), 20).unwrap();
        let (token, bytes) = leader.join().unwrap();
        assert_eq!(got.tok, token);
        bytes
    });
    let mut reader = frame::Reader::new(&published);
    Header::read(&mut reader, header::FileKind::Request, None)
        .unwrap()
        .unwrap();
    let head: RequestHead = reader.next_line().unwrap().unwrap().decode().unwrap();
    assert_eq!(head.host, "h1");
    let verb: Verb = reader.next_line().unwrap().unwrap().decode().unwrap();
    assert_eq!(verb, verbs()[0]);
}

/// The leader starts a new file before this command looks: the answer is in the file that the
/// command has begun to read, which has another name now.
#[test]
fn an_answer_is_found_though_the_leader_went_on_in_another_file() {
    for behind in [false, true] {
        let (_d, site) = share();
        let layout = site.layout();
        set_epoch(&layout, 3);
        let acks = layout.acks(3);
        (0..20).for_each(|n| append(&acks, Token(1), n));
        std::thread::scope(|s| {
            s.spawn(|| {
                let token = request(&layout);
                let next = layout.epoch_dir(3).join("next");
                append(if behind { &next } else { &acks }, token, 20);
                append(&next, Token(2), 21);
                std::fs::rename(&acks, layout.acks_before(3)).unwrap();
                std::fs::rename(&next, &acks).unwrap();
            });
            let limit = 4;
            assert!(
                send_and_wait(&site, "t", &verbs(), limit).is_ok(),
                "{behind}"
            );
        });
    }
}

#[test]
fn a_new_leader_may_answer() {
    let (_d, site) = share();
    let layout = site.layout();
    set_epoch(&layout, 3);
    std::thread::scope(|s| {
        s.spawn(|| {
            let token = request(&layout);
            std::fs::create_dir_all(layout.epoch_dir(4)).unwrap();
            append(&layout.acks(4), token, 0);
            set_epoch(&layout, 4);
        });
        assert!(send_and_wait(&site, "t", &verbs(), 20).is_ok());
    });
}

/// On a local disk, the answer of a leader that takes over is found in the look after 20 ms, on a
/// file server after 300 ms.
#[test]
fn the_answer_of_a_new_leader_is_found_sooner_on_a_local_disk() {
    for (full_ms, found_at) in [(FULL_LOCAL_MS, 20), (FULL_MS, 300)] {
        let (_d, site) = share();
        let layout = site.layout();
        set_epoch(&layout, 3);
        let mut request = Outgoing::new(&site, RequestHead::default()).unwrap();
        request.push(&verbs()[0]).unwrap();
        let (token, bytes) = (request.token, request.into_bytes().unwrap());
        let mut wait = PendingRequest::new(&site, token, bytes).unwrap();
        assert_eq!(
            wait.full_ms, FULL_LOCAL_MS,
            "the share of this test is local"
        );
        (wait.full_ms, wait.full_at) = (full_ms, full_ms.0);
        wait.publish().unwrap();
        set_epoch(&layout, 4);
        append(&layout.acks(4), token, 0);
        assert_eq!(wait.poll_answer(found_at - 1).unwrap(), None);
        assert_eq!(wait.poll_answer(found_at).unwrap().unwrap().tok, token);
    }
}

/// The local copy of the current leader is as old as the last look of the host's executor.
#[test]
fn an_old_copy_of_who_leads_costs_time_and_no_answer() {
    let (_d, site) = share();
    let layout = site.layout();
    set_epoch(&layout, 3);
    append(&layout.acks(3), Token(1), 0);
    for (known, token) in [(2, Token(5)), (9, Token(6))] {
        let known = EpochDoc {
            epoch: known,
            ..EpochDoc::default()
        };
        let mut wait = PendingRequest::of(&site, token, b"x".to_vec(), Some(known)).unwrap();
        wait.publish().unwrap();
        append(&layout.acks(3), token, 1);
        let ack = wait.until_answered(Some("t"), 20_000).unwrap();
        assert_eq!((ack.tok, wait.epoch.epoch), (token, 3));
    }
}

#[test]
fn silence_says_who_how_long_and_that_the_request_stays() {
    let (_d, site) = share();
    let Err(NoAnswer::Silence(text)) = send_and_wait(&site, "t", &verbs(), 0) else {
        panic!("nobody could answer");
    };
    assert!(text.contains("no leader has ever run"), "{text}");
    assert!(text.contains("stays"), "{text}");
    set_epoch(&site.layout(), 5);
    let Err(NoAnswer::Silence(text)) = send_and_wait(&site, "t", &verbs(), 1) else {
        panic!("nobody could answer");
    };
    assert!(text.contains("epoch 5, host h9, pid 7"), "{text}");
    assert!(text.contains("within 1 s"), "{text}");
    assert_eq!(
        sys::fs::list_dir(&site.layout().inbox_of(sys::users::effective_uid()), 10)
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_vanished_request_is_published_again_with_the_same_token() {
    let (_d, site) = share();
    let token = Token(77);
    let mut wait = PendingRequest::new(&site, token, b"x".to_vec()).unwrap();
    wait.publish().unwrap();
    std::fs::remove_file(&wait.file).unwrap();
    wait.publish_again_if_vanished(100).unwrap();
    wait.publish_again_if_vanished(100 + VANISHED_MS - 1)
        .unwrap();
    assert!(!wait.file.exists());
    wait.publish_again_if_vanished(100 + VANISHED_MS).unwrap();
    assert!(wait.file.exists());
    assert_eq!((wait.published, wait.vanished_at), (2, None));
}

#[test]
fn a_share_that_is_no_cluster_is_named() {
    let d = tempfile::tempdir().unwrap();
    let site = Site {
        conf: "/c".into(),
        share: d.path().to_path_buf(),
        host: "h".into(),
        local: None,
        unsafe_mount: false,
        servers: None,
        esubs: None,
    };
    let Err(NoAnswer::NotSent(failure)) = send_and_wait(&site, "t", &verbs(), 0) else {
        panic!("there is no cluster");
    };
    assert!(failure.text.contains("no cluster in "), "{failure:?}");
    assert_eq!(failure.exit, Exit::System);
    assert_eq!(
        std::fs::read_dir(d.path()).unwrap().count(),
        0,
        "nothing is made"
    );
}

#[test]
fn damaged_and_foreign_lines_are_passed_over() {
    let mut bytes = b"rest of a record\n".to_vec();
    let mut line = Vec::new();
    frame::write(&mut line, 4, &Ack::empty(Token(9))).unwrap();
    line[20] ^= 1;
    bytes.extend(&line);
    assert!(find_ack(&bytes, Token(9)).is_none());
    frame::write(&mut bytes, 5, &Ack::empty(Token(9))).unwrap();
    assert!(find_ack(&bytes, Token(9)).is_some());
}

#[test]
fn too_much_is_refused_before_anything_is_sent() {
    let (_d, site) = share();
    let mut request = Outgoing::new(&site, RequestHead::default()).unwrap();
    for _ in 0..VERBS_MAX {
        request.push(&verbs()[0]).unwrap();
    }
    let failure = request.push(&verbs()[0]).unwrap_err();
    assert_eq!(failure.exit, Exit::Usage);
}

#[test]
fn the_wait_is_a_number_of_seconds() {
    assert_eq!(wait_s(Some("3")).unwrap(), 3);
    for bad in ["", "-1", "1.5", "99999999999999999999"] {
        assert!(wait_s(Some(bad)).is_err(), "{bad}");
    }
}

#[test]
fn a_leader_that_hints_is_told_of_the_request_and_found_with_few_looks() {
    let Some(ear) = Socket::open(0..=0) else {
        println!("skipped: no network here");
        return;
    };
    let (_d, site) = share();
    let layout = site.layout();
    let tag = 77;
    let addresses = vec![std::net::SocketAddr::from(([127, 0, 0, 1], ear.port()))];
    let doc = EpochDoc {
        epoch: 3,
        hints: Endpoint { tag, addresses }.to_string(),
        ..EpochDoc::default()
    };
    std::fs::write(layout.epoch(), encode_fixed(&doc).unwrap()).unwrap();
    std::fs::create_dir_all(layout.epoch_dir(3)).unwrap();
    let heard = ear
        .listen("leader", move |bytes, from| {
            Some((hint::decode(bytes, tag)?, from))
        })
        .unwrap();
    let mut request = Outgoing::new(&site, RequestHead::default()).unwrap();
    request.push(&verbs()[0]).unwrap();
    let (token, bytes) = (request.token, request.into_bytes().unwrap());
    let mut wait = PendingRequest::new(&site, token, bytes).unwrap();
    wait.publish().unwrap();
    std::thread::scope(|s| {
        s.spawn(|| {
            let (what, from) = heard.recv().unwrap();
            let uid = sys::users::effective_uid();
            assert_eq!(what, Hint::DropBox { uid, token });
            append(&layout.acks(3), token, 0);
            let bytes = hint::encode(hint::tag_of_token(token), Hint::Acks { token });
            ear.send(&bytes, &[from]);
        });
        assert_eq!(wait.until_answered(Some("t"), 20_000).unwrap().tok, token);
    });
    assert!(wait.polls <= 3, "{} looks", wait.polls);
}

/// A request from within another program gives the leader's group access whatever the umask of the
/// program, and is withdrawn if no answer comes; a late answer is accepted.
#[test]
fn a_silent_request_is_withdrawn_and_leaves_the_process_as_it_is() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_d, site) = share();
    let layout = site.layout();
    set_epoch(&layout, 3);
    append(&layout.acks(3), Token(1), 0);
    let outgoing = || {
        let mut request = Outgoing::new(&site, RequestHead::default()).unwrap();
        request.push(&verbs()[0]).unwrap();
        request
    };
    let fail = send_silently(&site, outgoing(), 0).unwrap_err();
    assert!(fail.text.contains("withdrawn"), "{}", fail.text);
    let inbox = layout.inbox_of(sys::users::effective_uid());
    assert_eq!(std::fs::read_dir(&inbox).unwrap().count(), 0);
    assert!(!sys::signals::caught());
    std::thread::scope(|s| {
        s.spawn(|| {
            let token = request(&layout);
            let file = inbox.join(Layout::request_name(token));
            let mode = std::fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o660);
            while file.exists() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            append(&layout.acks(3), token, 1);
        });
        assert!(send_silently(&site, outgoing(), 1).is_ok());
    });
}
