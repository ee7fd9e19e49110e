//! The broker with the input of a faulty HTTP process: it answers each request as before and starts
//! nothing without a session.

use corral::api::attach::AttachRequest;
use corral::api::files::{FileAnswer, FileLocation, FileRequest};
use corral::api::portal::{Portal, PortalToken, Scope};
use corral::api::{Failure, FailureKind};
use corral::record::portal::{digest, login_name, secret_of, token_name};
use corral::spool::Site;
use corral::sys::fork::fork_snapshot;
use corral::sys::{clock, descriptors, ipc};
use corral_web::broker::throttle::FREE_OF_USER;
use corral_web::broker::wire::{self, ASK_MAX, BrokerRequest, PasswordResult};
use corral_web::broker::{Broker, BrokerEnd, Call, client};
use corral_web::identity::{Identity, Proof, UserAccess as _};
use corral_web::secret::Secret;
use proptest::prelude::*;
use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Tells the process of a broker its settings: see [`the_process_of_a_broker`].
const SETTINGS: &str = "CORRAL_TEST_BROKER";

fn site(share: &Path) -> Site {
    Site {
        conf: "/etc/cb.conf".into(),
        share: share.to_path_buf(),
        host: "h1".into(),
        local: None,
        unsafe_mount: false,
        servers: None,
        esubs: None,
    }
}

/// Runs a broker while `with` has its socket; the broker must run until the socket is closed.
fn served(with: impl FnOnce(&File, &client::BrokerClient)) {
    served_over(&Portal::default(), |_| (), with);
}

/// The same with settings, over a share that `prepare` has filled.
fn served_over(
    portal: &Portal,
    prepare: impl FnOnce(&Path),
    with: impl FnOnce(&File, &client::BrokerClient),
) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("inbox")).unwrap();
    prepare(dir.path());
    let (mine, theirs) = descriptors::message_pair().unwrap();
    let settings = serde_json::to_string(&(dir.path(), portal)).unwrap();
    let mut running = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "broker::the_process_of_a_broker"])
        .args(["--test-threads=1", "--nocapture"])
        .env(SETTINGS, settings)
        .stdin(OwnedFd::from(mine))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let asker = client::BrokerClient::new(theirs.try_clone().unwrap(), site(dir.path()));
    with(&theirs, &asker);
    assert!(!asker.may_go_on("nothing"), "it still answers");
    drop((theirs, asker));
    assert!(running.wait().unwrap().success());
}

/// A broker forks and goes on in the new process, so it must not share its process with threads that
/// may hold a lock at that moment: [`served_over`] runs this test alone in a process, on its main
/// thread. In a run of all tests it does nothing.
#[test]
fn the_process_of_a_broker() {
    let Ok(settings) = std::env::var(SETTINGS) else {
        return;
    };
    let (share, portal): (PathBuf, Portal) = serde_json::from_str(&settings).unwrap();
    let mut http = fork_snapshot(|| {
        clock::sleep_ms(600_000);
        0
    })
    .unwrap();
    let control = File::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let mut broker = Broker::new(control, site(&share)).following(&portal);
    let ended = broker.run(&mut http, &mut || Ok(()));
    assert_eq!(ended, Ok(BrokerEnd::Alone));
}

/// Sends a request; returns the answer, if any, before the socket is closed.
fn asked(control: &File, bytes: &[u8]) -> Option<Result<serde_json::Value, Failure>> {
    let (mine, other) = ipc::pair().unwrap();
    descriptors::limit_time(&mine, 180_000).unwrap();
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
        let ready = serde_json::to_vec(&BrokerRequest::Ready {}).unwrap();
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
                    BrokerRequest::Act {
                        uid,
                        proof: proof(),
                    },
                    BrokerRequest::Attend {
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
        // A valid token of root and of an unknown user.
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
            // A token, of any user, starts nothing that lasts.
            let ask = AttachRequest::Tunnel { id: 1, idx: 0 };
            let failure = asker.attend(&who, &ask).err().unwrap();
            assert_eq!(failure.kind, FailureKind::Permission, "{failure}");
        }
        assert_eq!(asker.log_in("x", 0).unwrap(), None);
    });
}

/// Attempts of one test.
const TRIES: usize = 12;

/// Parallel attempts are counted together: a few are checked, the others must wait.
#[test]
fn wrong_passwords_are_counted_by_the_broker() {
    let portal = Portal {
        pam: true,
        pam_service: "corral-of-a-test".into(),
        ..Portal::default()
    };
    served_over(
        &portal,
        |_| (),
        |_, asker| {
            let tried = |user: &str| {
                let password = Secret::new("wrong".to_owned());
                asker.log_in_by_password(user, &password, None).unwrap()
            };
            let all: Vec<PasswordResult> = std::thread::scope(|scope| {
                let one = |_| scope.spawn(|| tried("nobody-of-that-name"));
                let all: Vec<_> = (0..TRIES).map(one).collect();
                all.into_iter().map(|one| one.join().unwrap()).collect()
            });
            if all.contains(&PasswordResult::Unchecked) {
                println!("skipped: there is no PAM here");
                return;
            }
            // On a slow machine, one or two waits are over before the last attempt begins.
            let wrong = all
                .iter()
                .filter(|output| **output == PasswordResult::Wrong);
            let (wrong, free) = (wrong.count(), FREE_OF_USER as usize + 1);
            assert!((free..free + 3).contains(&wrong), "{all:?}");
            let wait = all
                .iter()
                .filter(|output| matches!(output, PasswordResult::Wait(1..)));
            assert_eq!(wait.count(), TRIES - wrong, "{all:?}");
            // An invalid user name is not passed to PAM, but gets the same answer.
            assert_eq!(tried("a b"), PasswordResult::Wrong);
        },
    );
}

#[test]
fn no_password_is_looked_at_where_none_is_wanted() {
    served(|_, asker| {
        let output = asker.log_in_by_password("root", &Secret::default(), None);
        assert_eq!(output.unwrap(), PasswordResult::Unchecked);
    });
}

/// An account that exists on every system, and another one.
const ONE: u32 = 1;
const TWO: u32 = 2;

/// A token of root with all scopes.
fn token_of_root() -> String {
    secret_of(0, &[7; 32])
}

/// A login link and a token that only reads, of the first account; returns their secrets.
fn proofs(share: &Path) -> (String, String) {
    std::fs::set_permissions(share, std::fs::Permissions::from_mode(0o755)).unwrap();
    let own = share.join("inbox").join(ONE.to_string());
    let dir = own.join(".portal");
    std::fs::create_dir_all(&dir).unwrap();
    let (link, token) = (secret_of(ONE, &[5; 32]), secret_of(ONE, &[6; 32]));
    let file = dir.join(login_name(&digest(&link), clock::wall_ms() + 50_000));
    std::fs::write(&file, "").unwrap();
    let known = PortalToken {
        id: "0".into(),
        scope: Scope::Read,
        created: 0,
        ends: i64::MAX,
        note: String::new(),
    };
    let kept = dir.join(token_name(&digest(&token)));
    std::fs::write(&kept, serde_json::to_vec(&known).unwrap()).unwrap();
    for path in [&own, &dir, &file, &kept] {
        chown(path, Some(ONE), Some(ONE)).unwrap();
    }
    let of_root = share.join("inbox/0/.portal");
    std::fs::create_dir_all(&of_root).unwrap();
    let kept = of_root.join(token_name(&digest(&token_of_root())));
    let known = PortalToken {
        scope: Scope::Admin,
        ..known
    };
    std::fs::write(&kept, serde_json::to_vec(&known).unwrap()).unwrap();
    (link, token)
}

/// A session or token of one user does not give the rights of another, and a token gives only those
/// of its scope.
#[test]
fn a_session_and_a_token_are_their_users_alone() {
    if !corral::sys::users::may_switch() {
        println!("skipped: only root can play two users");
        return;
    }
    let secrets = std::cell::OnceCell::new();
    let prepare = |share: &Path| secrets.set(proofs(share)).unwrap();
    served_over(&Portal::default(), prepare, |_, asker| {
        let (link, token) = secrets.get().unwrap();
        let who = asker.log_in(link, 0).unwrap().expect("the link is good");
        assert_eq!(who.uid, ONE);
        assert!(asker.may_go_on(&who.proof.0));
        let list = || FileRequest::List {
            at: FileLocation {
                root: b"/".to_vec(),
                path: Vec::new(),
            },
            from: 0,
            count: 1,
        };
        let files = |uid, proof: &str| {
            let who = Identity {
                proof: Proof(proof.to_owned()),
                ..Identity::new(uid, "x")
            };
            let ask = Box::new(list());
            asker
                .call_with::<FileAnswer>(&who, &Call::Files { ask })
                .map(drop)
        };
        files(ONE, &who.proof.0).unwrap();
        for uid in [0, TWO, u32::MAX] {
            let refused = files(uid, &who.proof.0).unwrap_err();
            assert_eq!(refused.kind, FailureKind::Permission, "{uid}: {refused}");
            let refused = files(uid, token).unwrap_err();
            assert_eq!(refused.kind, FailureKind::Permission, "{uid}: {refused}");
        }
        // The token is valid, but only for reading the cluster.
        assert_eq!(asker.token(token, 0).unwrap().1.scope, Scope::Read);
        let refused = files(ONE, token).unwrap_err();
        assert!(refused.text.contains("reading only"), "{refused}");
        // The portal does not act for root, whatever files root has left.
        assert!(asker.token(&token_of_root(), 0).is_none());
        assert_eq!(
            files(0, &token_of_root()).unwrap_err().kind,
            FailureKind::Permission
        );
        asker.end_session(&who.proof.0);
        assert!(!asker.may_go_on(&who.proof.0));
        assert_eq!(
            files(ONE, &who.proof.0).unwrap_err().kind,
            FailureKind::Permission
        );
    });
}
