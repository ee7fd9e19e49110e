//! Tests the channel without a socket: the output of one end is the input of the other, split as
//! the test requires.

use super::*;
use crate::model::{AttemptId, JobKey};
use proptest::prelude::*;

const ABOUT: &str = "corral channel 1 of a test";

fn key(n: u8) -> Key {
    Key::new([n; 32])
}

fn hello() -> Hello {
    Hello {
        a: AttemptId {
            j: JobKey::job(7),
            at: 2,
        },
        host: "h1".into(),
        task: 0,
    }
}

fn welcome() -> Welcome {
    Welcome {
        screen: Screen { rows: 31, cols: 97 },
        x11: Some(Cookie::new([5; 16])),
    }
}

/// Passes everything from one end to the other and returns a copy of it.
fn carry(from: &mut Link, to: &mut Link) -> Vec<u8> {
    let bytes = from.outgoing().to_vec();
    from.sent(bytes.len());
    to.receive(&bytes).unwrap();
    bytes
}

/// Both ends after the handshake, and what the caller sent.
fn pair() -> (Link, Link, Vec<Vec<u8>>) {
    let (mut a, mut b) = (
        Link::caller(&key(1), ABOUT, &hello()),
        Link::accepting_end(&key(1), ABOUT),
    );
    let first = carry(&mut a, &mut b);
    assert_eq!(b.hello().unwrap(), Some(&hello()));
    b.welcome(&welcome()).unwrap();
    carry(&mut b, &mut a);
    assert_eq!(a.welcomed().unwrap(), Some(welcome()));
    let second = carry(&mut a, &mut b);
    (a, b, vec![first, second])
}

fn all_messages() -> Vec<Message> {
    vec![
        Message::Data(Stream::In, b"abc".to_vec()),
        Message::Data(Stream::Out, vec![0; DATA_MAX]),
        Message::Data(Stream::Err, Vec::new()),
        Message::Size(Screen {
            rows: 50,
            cols: 132,
        }),
        Message::Signal(2),
        Message::Took(7),
        Message::End(Finish {
            code: Some(7),
            sig: 0,
            text: "x".into(),
        }),
        Message::Warn("no port".into()),
        Message::X(X11Message::Open(1)),
        Message::X(X11Message::Data(u32::MAX, vec![7; DATA_MAX])),
        Message::X(X11Message::Data(1, Vec::new())),
        Message::X(X11Message::Took(1, 1 << 18)),
    ]
}

#[test]
fn messages_arrive_in_both_directions_and_in_their_order() {
    let (mut a, mut b, _) = pair();
    assert!(!b.peer_has_key());
    assert_eq!(b.next_message(), Ok(Some(Message::Begin)));
    assert!(b.peer_has_key());
    for message in all_messages() {
        a.send(&message);
        b.send(&message);
    }
    carry(&mut a, &mut b);
    carry(&mut b, &mut a);
    for message in all_messages() {
        assert_eq!(a.next_message(), Ok(Some(message.clone())));
        assert_eq!(b.next_message(), Ok(Some(message)));
    }
    assert_eq!((a.next_message(), b.next_message()), (Ok(None), Ok(None)));
    assert_eq!((a.closed(), b.closed()), (Ok(()), Ok(())));
}

#[test]
fn an_end_without_the_key_or_for_another_channel_is_refused() {
    for (k, about) in [(2, ABOUT), (1, "corral channel 1 of another")] {
        let mut caller = Link::caller(&key(k), about, &hello());
        let mut called = Link::accepting_end(&key(1), ABOUT);
        carry(&mut caller, &mut called);
        assert_eq!(called.hello(), Err(ChannelError::Refused));
        assert!(called.outgoing().is_empty() && !called.peer_has_key());
        assert_eq!(called.next_message(), Err(ChannelError::Refused));
        // A caller is not welcomed by an end without the key either.
        let mut caller = Link::caller(&key(1), ABOUT, &hello());
        let mut other = Link::accepting_end(&key(k), about);
        let mut impostor = Link::caller(&key(k), about, &hello());
        carry(&mut impostor, &mut other);
        assert!(other.hello().unwrap().is_some());
        other.welcome(&welcome()).unwrap();
        carry(&mut other, &mut caller);
        assert_eq!(caller.welcomed(), Err(ChannelError::Refused));
    }
}

#[test]
fn what_was_recorded_of_a_channel_opens_no_second_one() {
    let (mut a, _, recorded) = pair();
    a.send(&Message::Data(Stream::Out, b"again".to_vec()));
    let mut called = Link::accepting_end(&key(1), ABOUT);
    called.receive(&recorded[0]).unwrap();
    // The first message comes from a caller with the key; nothing beyond it is trusted.
    assert!(called.hello().unwrap().is_some() && !called.peer_has_key());
    called.welcome(&welcome()).unwrap();
    called.receive(&recorded[1]).unwrap();
    assert_eq!(called.next_message(), Err(ChannelError::Refused));
    assert!(!called.peer_has_key());
}

#[test]
fn a_frame_that_comes_twice_or_is_changed_ends_the_channel() {
    for change in [false, true] {
        let (mut a, mut b, _) = pair();
        assert_eq!(b.next_message(), Ok(Some(Message::Begin)));
        a.send(&Message::Signal(9));
        let mut bytes = a.outgoing().to_vec();
        if change {
            *bytes.last_mut().unwrap() ^= 1;
        } else {
            b.receive(&bytes).unwrap();
            assert_eq!(b.next_message(), Ok(Some(Message::Signal(9))));
        }
        b.receive(&bytes).unwrap();
        assert_eq!(b.next_message(), Err(ChannelError::Refused));
        assert_eq!(b.closed(), Err(ChannelError::Refused));
    }
}

#[test]
fn a_frame_that_is_too_long_is_refused_before_it_came() {
    let mut called = Link::accepting_end(&key(1), ABOUT);
    called.receive(&[0x20, 0]).unwrap();
    assert_eq!(called.hello(), Err(ChannelError::TooLong));
    let (_, mut b, _) = pair();
    b.next_message().unwrap();
    b.receive(&[0xff, 0xff, 0]).unwrap();
    assert_eq!(b.next_message(), Err(ChannelError::TooLong));
    let mut called = Link::accepting_end(&key(1), ABOUT);
    assert_eq!(
        called.receive(&vec![0; 1 << 20]),
        Err(ChannelError::TooLong)
    );
}

#[test]
fn a_channel_cut_anywhere_gives_what_came_whole_and_says_that_it_was_cut() {
    let (mut a, mut b, _) = pair();
    assert_eq!(b.next_message(), Ok(Some(Message::Begin)));
    a.send(&Message::Signal(2));
    let first = a.outgoing().len();
    a.send(&Message::Took(3));
    let bytes = a.outgoing().to_vec();
    for (n, byte) in bytes.iter().enumerate() {
        assert_eq!(b.next_message(), Ok(None), "at byte {n}");
        let between = n == 0 || n == first;
        assert_eq!(b.closed().is_ok(), between, "at byte {n}");
        b.receive(&[*byte]).unwrap();
        if n + 1 == first {
            assert_eq!(b.next_message(), Ok(Some(Message::Signal(2))));
        }
    }
    assert_eq!(b.next_message(), Ok(Some(Message::Took(3))));
    assert_eq!(b.closed(), Ok(()));
    // The handshake as well.
    let whole = Link::caller(&key(1), ABOUT, &hello()).outgoing().to_vec();
    for n in 1..whole.len() {
        let mut called = Link::accepting_end(&key(1), ABOUT);
        called.receive(&whole[..n]).unwrap();
        assert_eq!(called.hello(), Ok(None), "at byte {n}");
        assert_eq!(called.closed(), Err(ChannelError::Truncated));
    }
}

#[test]
fn a_key_has_one_form_and_is_not_shown() {
    let key = Key::new(std::array::from_fn(|n| n as u8 * 7));
    assert_eq!(Key::from_hex(&key.to_hex()), Some(key.clone()));
    assert_eq!(format!("{key:?}"), "Key(..)");
    for bad in ["", "0", &"g".repeat(64), &"A".repeat(64), &"0".repeat(66)] {
        assert_eq!(Key::from_hex(bad), None);
    }
}

#[test]
fn a_cookie_is_itself_only_and_is_not_shown() {
    let cookie = Cookie::new(std::array::from_fn(|n| n as u8));
    assert!(cookie.is(cookie.bytes()) && cookie == Cookie::new(*cookie.bytes()));
    for n in 0..16 {
        let mut other = *cookie.bytes();
        other[n] ^= 0x80;
        assert!(!cookie.is(&other) && !cookie.is(&cookie.bytes()[..n]));
    }
    assert!(!cookie.is(&[&cookie.bytes()[..], &[0]].concat()));
    assert_eq!(format!("{cookie:?}"), "Cookie(..)");
    // A host of another version neither sends nor receives anything about windows.
    let old: Welcome = serde_json::from_str("{}").unwrap();
    assert_eq!(old.x11, None);
    assert!(!serde_json::to_string(&old).unwrap().contains("x11"));
}

#[test]
fn an_end_that_is_not_known_is_never_a_success() {
    let end = |code, sig| Finish {
        code,
        sig,
        text: String::new(),
    };
    assert_eq!(end(Some(7), 0).shell_code(), Some(7));
    assert_eq!(end(None, 9).shell_code(), Some(137));
    assert_eq!(end(None, 0).shell_code(), None);
}

proptest! {
    #[test]
    fn bytes_that_no_end_sent_do_no_harm(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        at in 0usize..600,
    ) {
        let mut called = Link::accepting_end(&key(1), ABOUT);
        let cut = at.min(bytes.len());
        for part in [&bytes[..cut], &bytes[cut..]] {
            let _ = called.receive(part);
            prop_assert!(!matches!(called.hello(), Ok(Some(_))));
            prop_assert!(!matches!(called.next_message(), Ok(Some(_))));
        }
        prop_assert!(!called.peer_has_key());
        let _ = message::Message::decode(&bytes);
    }

    #[test]
    fn messages_arrive_however_the_wire_cuts_them(
        data in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 1..12),
        cuts in prop::collection::vec(1usize..5000, 1..8),
    ) {
        let (mut a, mut b, _) = pair();
        b.next_message().unwrap();
        for bytes in &data {
            a.send(&Message::Data(Stream::Out, bytes.clone()));
        }
        let wire = a.outgoing().to_vec();
        let (mut rest, mut got, mut cuts) = (&wire[..], Vec::new(), cuts.iter().cycle());
        while !rest.is_empty() {
            let n = (*cuts.next().unwrap()).min(rest.len());
            b.receive(&rest[..n]).unwrap();
            rest = &rest[n..];
            while let Some(Message::Data(_, bytes)) = b.next_message().unwrap() {
                got.push(bytes);
            }
        }
        prop_assert_eq!(got, data);
    }
}
