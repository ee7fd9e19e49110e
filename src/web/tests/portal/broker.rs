//! The broker fed with what a broken HTTP process may send: it answers each question as before and
//! begins nothing for who has no session.

use corral::api::attend::AttendAsk;
use corral::api::{Failure, FailureKind};
use corral::spool::Site;
use corral::sys::fork::{fork_snapshot, stand_alone};
use corral::sys::{clock, descriptors, ipc};
use corral_web::broker::wire::{self, ASK_MAX, Ask};
use corral_web::broker::{Broker, Call, Ended, client};
use corral_web::identity::{AsUser as _, Identity, Proof};
use proptest::prelude::*;
use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One at a time: its signal handlers are the process's.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a broker while `with` has the socket to it; it must go on until that is closed.
fn served(with: impl FnOnce(&File, &client::BrokerClient)) {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("inbox")).unwrap();
    let site = Site {
        conf: "/etc/cb.conf".into(),
        share: dir.path().to_path_buf(),
        host: "h1".into(),
        local: None,
        unsafe_mount: false,
        servers: None,
        esubs: None,
    };
    let (mine, theirs) = descriptors::message_pair().unwrap();
    let mut http = fork_snapshot(|| {
        // It must not keep the socket open that the test closes.
        stand_alone(c"cbweb-http", &[]);
        clock::sleep_ms(60_000);
        0
    })
    .unwrap();
    let other = site.clone();
    let running = std::thread::spawn(move || {
        let mut ready = || Ok(());
        Broker::new(mine, other).run(&mut http, &mut ready)
    });
    let asker = client::BrokerClient::new(theirs.try_clone().unwrap(), site);
    with(&theirs, &asker);
    assert!(!asker.may_go_on("nothing"), "it still answers");
    drop((theirs, asker));
    assert_eq!(running.join().unwrap(), Ok(Ended::Alone));
}

/// Asks it something; what it answers, if anything, before it closes the socket.
fn asked(control: &File, bytes: &[u8]) -> Option<Result<serde_json::Value, Failure>> {
    let (mine, other) = ipc::pair().unwrap();
    descriptors::limit_time(&mine, 30_000).unwrap();
    descriptors::send(control, bytes, Some(&other), true).unwrap();
    drop(other);
    wire::receive(&mine).ok().map(|(answer, _)| answer)
}

#[test]
fn garbage_ends_the_call_and_not_the_broker() {
    served(|control, asker| {
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(200));
        let bytes = proptest::collection::vec(any::<u8>(), 1..ASK_MAX * 2);
        let done = runner.run(&bytes, |bytes| {
            prop_assert!(asked(control, &bytes).is_none());
            Ok(())
        });
        done.unwrap();
        // Messages of the right form with wrong content, and one without a socket.
        let words = "[a-z0-9{}\":,\\[\\] -]{0,200}";
        let done = runner.run(&words, |text| {
            let bytes = format!("{{\"ask\":\"act\",\"uid\":0,\"proof\":{text}}}");
            prop_assert!(!matches!(asked(control, bytes.as_bytes()), Some(Ok(_))));
            Ok(())
        });
        done.unwrap();
        let ready = serde_json::to_vec(&Ask::Ready {}).unwrap();
        descriptors::send(control, &ready, None, true).unwrap();
        assert!(!asker.may_go_on("ab"));
    });
}

#[test]
fn nobody_acts_without_a_session_or_token_of_theirs() {
    served(|control, asker| {
        for uid in [0, 1, 1000, u32::MAX] {
            for proof in ["a", "0-0", "planted"] {
                let proof = || proof.to_owned();
                let asks = [
                    Ask::Act {
                        uid,
                        proof: proof(),
                    },
                    Ask::Attend {
                        uid,
                        proof: proof(),
                    },
                ];
                for ask in asks {
                    let ask = serde_json::to_vec(&ask).unwrap();
                    let answer = asked(control, &ask).expect("an answer");
                    assert_eq!(answer.unwrap_err().kind, FailureKind::Permission);
                }
            }
        }
        // A token of a form that is right, of root and of a user whom nobody knows.
        for uid in [0, 4_000_000_000] {
            let secret = corral::record::portal::secret_of(uid, &[3; 32]);
            assert!(asker.token(&secret, 0).is_none());
            assert_eq!(asker.log_in(&secret, 0).unwrap(), None);
            let who = Identity {
                proof: Proof(secret),
                ..Identity::new(uid, "x")
            };
            let call = Call::Token {};
            let failure = asker.call_with::<String>(&who, &call).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Permission, "{failure}");
            // A token, whosever it is, begins nothing that stays.
            let ask = AttendAsk::Tunnel { id: 1, idx: 0 };
            let failure = asker.attend(&who, &ask).err().unwrap();
            assert_eq!(failure.kind, FailureKind::Permission, "{failure}");
        }
        assert_eq!(asker.log_in("x", 0).unwrap(), None);
    });
}
