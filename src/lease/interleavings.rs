//! All interleavings of three claimants, one after the other, each of which may stop anywhere: does
//! a later leader know what an earlier one has acknowledged, although no claimant waits for caches?
//!
//! Each claims, writes its number, perhaps waits, confirms, reads what was journalled before it and
//! states where that ends, then appends one record, looks at the number and acknowledges. A
//! claimant whose opens are not answered by the server may read any number that was overwritten
//! since the last wait began.

use std::collections::{BTreeSet, HashSet};

const LEADERS: usize = 3;

/// Which leaders skip the wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WaitRule {
    None,
    /// Those whose own opens are fresh, if those of the leader that beat last and of all claimants
    /// after it are fresh too: `Lease` as it is.
    Known,
    /// Those whose own opens are fresh.
    Own,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
enum ClaimantPhase {
    Idle,
    Claimed,
    MayWrite,
    Waiting(u8),
    Confirming,
    Reading,
    Sealing,
    First,
    Leading,
    Appended,
    Looked,
    Over,
}

/// The state of one claimant. Lengths are of journals of one record, by leader.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Claimant {
    phase: ClaimantPhase,
    skips: bool,
    /// Where it found, or learned, that each earlier journal ends.
    ends: [u8; LEADERS],
    sealed: bool,
    len: u8,
    acked: bool,
    beats: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ModelState {
    claimants: [Claimant; LEADERS],
    /// Every number that was written, and the first of them that a stale reader may read.
    written: Vec<u8>,
    horizon: u8,
    claims: u8,
}

struct Rules {
    skip: WaitRule,
    opens_are_fresh: [bool; LEADERS],
}

impl ModelState {
    fn new() -> ModelState {
        let one = Claimant {
            phase: ClaimantPhase::Idle,
            skips: false,
            ends: [0; LEADERS],
            sealed: false,
            len: 0,
            acked: false,
            beats: false,
        };
        ModelState {
            claimants: [one; LEADERS],
            written: vec![0],
            horizon: 0,
            claims: 0,
        }
    }

    /// The numbers that leader `n` may read in the epoch file.
    fn epochs(&self, n: usize, rules: &Rules) -> BTreeSet<u8> {
        let from = match rules.opens_are_fresh[n] {
            true => self.written.len() - 1,
            false => usize::from(self.horizon),
        };
        self.written[from..].iter().copied().collect()
    }

    fn may_skip(&self, n: usize, rules: &Rules) -> bool {
        let beat = (0..n).rev().find(|m| self.claimants[*m].beats).unwrap_or(0);
        match rules.skip {
            WaitRule::None => false,
            WaitRule::Own => rules.opens_are_fresh[n],
            WaitRule::Known => rules.opens_are_fresh[beat..=n].iter().all(|fresh| *fresh),
        }
    }

    /// Every state to which one step of leader `n` can lead.
    fn steps(&self, n: usize, rules: &Rules) -> Vec<ModelState> {
        let own = n as u8 + 1;
        let mut out = Vec::new();
        let mut go = |f: &dyn Fn(&mut ModelState)| {
            let mut next = self.clone();
            f(&mut next);
            out.push(next);
        };
        let to = |at: ClaimantPhase| move |w: &mut ModelState| w.claimants[n].phase = at;
        match self.claimants[n].phase {
            ClaimantPhase::Idle if self.claims == own - 1 => {
                let skips = self.may_skip(n, rules);
                go(&|w| {
                    w.claims = own;
                    (w.claimants[n].phase, w.claimants[n].skips) = (ClaimantPhase::Claimed, skips);
                });
            }
            ClaimantPhase::Claimed => {
                for epoch in self.epochs(n, rules) {
                    go(&to(if epoch > own {
                        ClaimantPhase::Over
                    } else {
                        ClaimantPhase::MayWrite
                    }));
                }
            }
            ClaimantPhase::MayWrite if self.written.len() < 7 => go(&|w| {
                w.written.push(own);
                let wrote = w.written.len() as u8 - 1;
                w.claimants[n].phase = match w.claimants[n].skips {
                    true => ClaimantPhase::Confirming,
                    false => ClaimantPhase::Waiting(wrote),
                };
            }),
            ClaimantPhase::Waiting(wrote) => go(&|w| {
                w.horizon = w.horizon.max(wrote);
                w.claimants[n].phase = ClaimantPhase::Confirming;
            }),
            ClaimantPhase::Confirming if self.claims > own => go(&to(ClaimantPhase::Over)),
            ClaimantPhase::Confirming => {
                for epoch in self.epochs(n, rules) {
                    let at = match epoch.cmp(&own) {
                        std::cmp::Ordering::Less => ClaimantPhase::MayWrite,
                        std::cmp::Ordering::Equal => ClaimantPhase::Reading,
                        std::cmp::Ordering::Greater => ClaimantPhase::Over,
                    };
                    // From here on it beats.
                    go(&|w| {
                        (w.claimants[n].phase, w.claimants[n].beats) =
                            (at, at == ClaimantPhase::Reading)
                    });
                }
            }
            ClaimantPhase::Reading => go(&|w| {
                for before in 0..n {
                    let sealed = (before + 1..n).find(|m| w.claimants[*m].sealed);
                    w.claimants[n].ends[before] = match sealed {
                        Some(m) => w.claimants[m].ends[before],
                        None => w.claimants[before].len,
                    };
                }
                w.claimants[n].phase = ClaimantPhase::Sealing;
            }),
            ClaimantPhase::Sealing => go(&|w| {
                (w.claimants[n].sealed, w.claimants[n].phase) = (true, ClaimantPhase::First)
            }),
            at @ (ClaimantPhase::First | ClaimantPhase::Appended) => {
                for epoch in self.epochs(n, rules) {
                    go(&to(match (epoch == own, at) {
                        (false, _) => ClaimantPhase::Over,
                        (true, ClaimantPhase::First) => ClaimantPhase::Leading,
                        (true, _) => ClaimantPhase::Looked,
                    }));
                }
            }
            ClaimantPhase::Leading => {
                go(&|w| (w.claimants[n].len, w.claimants[n].phase) = (1, ClaimantPhase::Appended))
            }
            ClaimantPhase::Looked => {
                go(&|w| (w.claimants[n].acked, w.claimants[n].phase) = (true, ClaimantPhase::Over))
            }
            ClaimantPhase::Idle | ClaimantPhase::MayWrite | ClaimantPhase::Over => {}
        }
        out
    }

    /// Whether a leader that takes requests lacks what an earlier one has acknowledged.
    fn has_lost_answers(&self) -> bool {
        (0..LEADERS).any(|n| {
            let leads = matches!(
                self.claimants[n].phase,
                ClaimantPhase::Leading | ClaimantPhase::Appended | ClaimantPhase::Looked
            );
            let knows = |m: usize| self.claimants[n].ends[m] >= self.claimants[m].len;
            (leads || self.claimants[n].acked)
                && (0..n).any(|m| self.claimants[m].acked && !knows(m))
        })
    }
}

/// Whether anything acknowledged can be lost, and the number of states.
fn explore(rules: &Rules) -> (bool, usize) {
    let mut visited = HashSet::from([ModelState::new()]);
    let mut open = vec![ModelState::new()];
    let mut lost = false;
    while let Some(world) = open.pop() {
        lost |= world.has_lost_answers();
        for n in 0..LEADERS {
            for next in world.steps(n, rules) {
                if visited.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
    }
    (lost, visited.len())
}

fn mixtures() -> impl Iterator<Item = [bool; LEADERS]> {
    (0..1 << LEADERS).map(|bits| std::array::from_fn(|n| bits >> n & 1 == 1))
}

#[test]
fn whoever_waits_needs_no_fresh_opens() {
    for opens_are_fresh in mixtures() {
        let (lost, states) = explore(&Rules {
            skip: WaitRule::None,
            opens_are_fresh,
        });
        assert!(
            !lost && states > 500,
            "{opens_are_fresh:?}: {states} states"
        );
    }
}

#[test]
fn nothing_is_lost_without_the_wait_where_all_that_count_have_fresh_opens() {
    for opens_are_fresh in mixtures() {
        let (lost, _) = explore(&Rules {
            skip: WaitRule::Known,
            opens_are_fresh,
        });
        assert!(!lost, "{opens_are_fresh:?}");
    }
}

#[test]
fn without_the_wait_one_stale_leader_or_claimant_is_enough_to_lose() {
    for opens_are_fresh in mixtures() {
        let (lost, _) = explore(&Rules {
            skip: WaitRule::Own,
            opens_are_fresh,
        });
        // The last one has no successor.
        let stale = opens_are_fresh[..LEADERS - 1]
            .iter()
            .any(|opens_are_fresh| !opens_are_fresh);
        let skipped = opens_are_fresh.windows(2).any(|w| !w[0] && w[1])
            || !opens_are_fresh[0] && opens_are_fresh[2];
        assert_eq!(lost, stale && skipped, "{opens_are_fresh:?}");
    }
}
