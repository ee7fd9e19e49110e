//! Golden scripts of the election: observations and the resulting actions.
//!
//! A script is a list of steps `NOW SEEN => INTENT`. In documents `7` is epoch 7 and `7+` one whose
//! writer held the lock; a beat is `EPOCH:COUNT`. A `settings` line starts a new candidate.

use super::*;

fn epoch(text: &str) -> Option<EpochDoc> {
    if text == "damaged" {
        return None;
    }
    let (text, nonce) = text.split_once('/').unwrap_or((text, "other"));
    Some(EpochDoc {
        epoch: text.trim_end_matches('+').parse().unwrap(),
        locked: text.ends_with('+'),
        nonce: nonce.into(),
        ..EpochDoc::default()
    })
}

fn beat(text: &str) -> Option<BeatDoc> {
    if text == "damaged" {
        return None;
    }
    let (epoch, count) = text.split_once(':').unwrap();
    Some(BeatDoc {
        epoch: epoch.parse().unwrap(),
        beat: count.trim_end_matches('+').parse().unwrap(),
        locked: text.ends_with('+'),
        ..BeatDoc::default()
    })
}

fn observation(words: &[&str]) -> Observation {
    match words {
        ["look", rest @ ..] => {
            let value = |key: &str| rest.iter().find_map(|w| w.strip_prefix(key));
            Observation::Polled(PollResult {
                locked: rest.contains(&"locked"),
                epoch: epoch(value("epoch=").unwrap()),
                beat: beat(value("beat=").unwrap()),
                read_ms: value("read=").map_or(0, |ms| ms.parse().unwrap()),
            })
        }
        ["highest", n, rest @ ..] => Observation::Highest {
            highest: n.parse().unwrap(),
            claims_are_fresh: rest == ["fresh"],
        },
        ["won"] => Observation::Claimed(true),
        ["lost"] => Observation::Claimed(false),
        ["wrote"] => Observation::Wrote,
        ["waited"] => Observation::Waited,
        ["confirmed", e, n] => Observation::Confirmed {
            epoch: epoch(e),
            highest: n.parse().unwrap(),
        },
        ["failed"] => Observation::Failed("x".into()),
        other => panic!("{other:?}"),
    }
}

fn candidate(words: &[&str]) -> Lease {
    let number = |key: &str| {
        let text = words.iter().find_map(|w| w.strip_prefix(key)).unwrap();
        text.parse().unwrap()
    };
    let settings = Settings {
        takeover_ms: number("t="),
        cache_ms: number("cache="),
        poll_ms: number("poll="),
        me: EpochDoc {
            nonce: "me".into(),
            fresh: words.contains(&"fresh"),
            ..EpochDoc::default()
        },
    };
    Lease::new(settings).0
}

fn play(script: &str) -> String {
    let mut lease = None;
    let mut out = String::new();
    for line in script.lines() {
        let step = line.split("=>").next().unwrap().trim_end();
        let words: Vec<&str> = step.split_whitespace().collect();
        match words.as_slice() {
            [] | ["#", ..] => out.push_str(line),
            ["settings", rest @ ..] => {
                lease = Some(candidate(rest));
                out.push_str(line);
            }
            [now, rest @ ..] => {
                let lease = lease.as_mut().unwrap();
                let intent = lease.step(now.parse().unwrap(), observation(rest));
                out.push_str(&format!("{step} => {intent}"));
            }
        }
        out.push('\n');
    }
    out
}

/// Compares a script with its result; with BLESS in the environment the file is written again.
fn golden(name: &str, script: &str) {
    let played = play(script);
    if std::env::var_os("BLESS").is_some() {
        let path = format!("{}/tests/golden/lease/{name}", env!("CARGO_MANIFEST_DIR"));
        #[allow(clippy::disallowed_methods)] // a test writes its scripts
        std::fs::write(path, played).expect("the script is written");
        return;
    }
    for (n, (due, got)) in script.lines().zip(played.lines()).enumerate() {
        assert_eq!(due, got, "golden/{name}:{}", n + 1);
    }
}

#[test]
fn scripts_of_the_lock() {
    golden(
        "lock.txt",
        include_str!("../../tests/golden/lease/lock.txt"),
    );
}

#[test]
fn scripts_of_the_beat() {
    golden(
        "beat.txt",
        include_str!("../../tests/golden/lease/beat.txt"),
    );
}

#[test]
fn scripts_of_the_claim() {
    golden(
        "claim.txt",
        include_str!("../../tests/golden/lease/claim.txt"),
    );
}

#[test]
fn a_leader_judges_the_epoch_file() {
    let own = epoch("7/me").unwrap();
    let of = |text| judge(&own, epoch(text).as_ref());
    assert_eq!(of("7/me"), Verdict::Mine);
    assert_eq!(of("6/other"), Verdict::Lower);
    assert_eq!(of("damaged"), Verdict::Lower);
    assert_eq!(of("8/other"), Verdict::Higher);
    assert_eq!(of("7/other"), Verdict::Higher);
}

#[test]
fn a_leader_falls_silent_before_others_may_take_over() {
    let lease = candidate(&["t=3000", "cache=0", "poll=100"]);
    let s = &lease.settings;
    assert_eq!((s.renew_ms(), s.silent_ms()), (500, 2000));
    assert!(!lease_over(s, 1000, 2999));
    assert!(lease_over(s, 1000, 3000));
    assert!(s.silent_ms() + s.renew_ms() < s.takeover_ms);
    assert!(!check_overdue(s, 1000, 3999));
    assert!(check_overdue(s, 1000, 4000));
}

#[test]
fn a_slow_share_is_told_of_with_the_t_that_it_needs() {
    let mut lease = candidate(&["t=3000", "cache=0", "poll=500"]);
    let mut look = |read, now| {
        let due = ["look", "epoch=3", "beat=3:1", read];
        lease.step(now, observation(&due));
        lease.too_slow()
    };
    for n in 0..6 {
        assert_eq!(look("read=1500", n * 500), None, "nothing is due yet");
    }
    assert_eq!(look("read=1200", 3000), Some(1200));
    assert_eq!(look("read=999", 3500), None);
    let advice = lease.settings.advice(1200);
    assert!(advice.contains("3000 ms; use at least 8 s"), "{advice}");
}

#[test]
fn nobody_waits_for_caches_that_nobody_has() {
    // Its own opens, those of the last claimant and the last leader, and of claimants between them.
    let waits = |own: bool, claimed: bool, led: bool, between: bool| {
        let mut lease = candidate(&["t=3000", "cache=3000", "poll=500"]);
        lease.settings.me.fresh = own;
        let look = |locked| {
            let (mut epoch, mut beat) = (epoch("7+").unwrap(), beat("6:1+").unwrap());
            (epoch.fresh, beat.fresh) = (claimed, led);
            Observation::Polled(PollResult {
                locked,
                epoch: Some(epoch),
                beat: Some(beat),
                read_ms: 1,
            })
        };
        assert_eq!(lease.step(0, look(true)), Intent::ListClaims);
        let (highest, claims_are_fresh) = (7, between);
        let claim = lease.step(
            0,
            Observation::Highest {
                highest,
                claims_are_fresh,
            },
        );
        assert!(matches!(claim, Intent::Claim(doc) if doc.epoch == 8 && doc.fresh == own));
        lease.step(0, Observation::Claimed(true));
        match lease.step(0, Observation::Wrote) {
            Intent::WaitCache(ms) => ms == 3000,
            Intent::Confirm => false,
            other => panic!("{other}"),
        }
    };
    for bits in 0..16 {
        let [own, claimed, led, between] = std::array::from_fn(|n| bits >> n & 1 == 1);
        let due = bits != 15;
        assert_eq!(waits(own, claimed, led, between), due, "{bits:04b}");
    }
}
