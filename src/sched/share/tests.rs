//! Tests of the share tree: the hand-checkable cases of the scheduling reference, the rules of
//! finding a place, and properties on random runs. Never used by the program.

use super::*;
use crate::model::SplitMix64;
use proptest::prelude::*;
use std::cmp::Ordering;

const HOUR: i64 = 3_600_000;

fn shares(list: &[(&str, u32)]) -> Shares {
    let entry = |(name, shares): &(&str, u32)| ShareEntry {
        subject: match *name {
            "default" => ShareSubject::Default,
            "others" => ShareSubject::Others,
            name if name.ends_with('@') => ShareSubject::GroupEach(name.replace('@', "")),
            name if name.starts_with('g') || name.starts_with('d') => {
                ShareSubject::Group(name.to_owned())
            }
            name => ShareSubject::User(name.to_owned()),
        },
        shares: *shares,
    };
    Shares {
        entries: list.iter().map(entry).collect(),
    }
}

fn groups(lists: &[(&str, &[(&str, u32)])]) -> BTreeMap<String, UserGroup> {
    let group = |(name, list): &(&str, &[(&str, u32)])| {
        let group = UserGroup {
            name: (*name).to_owned(),
            members: String::new(),
            set: Default::default(),
            administrators: Default::default(),
            fairshare: Some(shares(list)),
        };
        ((*name).to_owned(), group)
    };
    lists.iter().map(group).collect()
}

fn slots_only() -> FairFactors {
    FairFactors {
        cpu_time: 0,
        run_time: 0,
        run_job: Some(3000),
        ..FairFactors::default()
    }
}

/// The factors of LSF.
fn of_lsf() -> FairFactors {
    FairFactors {
        cpu_time: 700,
        run_job: Some(3000),
        hist_ms: 5 * HOUR as u64,
        ..FairFactors::default()
    }
}

fn fair(list: &[(&str, u32)], below: &[(&str, &[(&str, u32)])], factors: FairFactors) -> ShareTree {
    let policy = Policy::Fairshare(shares(list));
    ShareTree::of_queue(&policy, &factors, &groups(below), Stamp(0)).expect("it has shares")
}

fn drf(list: &[(&str, u32)], totals: &[i64]) -> ShareTree {
    let policy = Policy::Drf(shares(list));
    let none = BTreeMap::new();
    let mut tree = ShareTree::of_queue(&policy, &slots_only(), &none, Stamp(0)).expect("shares");
    for (at, total) in totals.iter().enumerate() {
        tree.set_total(at, *total);
    }
    tree.update_costs(Stamp(0));
    tree
}

/// A leaf for each user, created in that order and active.
fn active(tree: &mut ShareTree, users: &[(&str, &[&str])]) -> Vec<Leaf> {
    let mut leaf = |(user, groups): &(&str, &[&str])| {
        let groups: Vec<String> = groups.iter().map(|g| (*g).to_owned()).collect();
        let leaf = tree.leaf(user, &groups, None).expect("he has a share");
        tree.set_active(leaf, true);
        leaf
    };
    users.iter().map(&mut leaf).collect()
}

/// Starts `n` jobs of one slot, and returns their users.
fn run(tree: &mut ShareTree, n: usize) -> String {
    (0..n).map(|_| start_one(tree).0).collect()
}

fn start_one(tree: &mut ShareTree) -> (String, Leaf) {
    let leaf = tree.best().expect("an active leaf");
    tree.charge(leaf, &Delta::start(1, Stamp(0)));
    (tree.nodes[leaf.0 as usize].name.to_string(), leaf)
}

#[test]
fn case_13_two_to_one() {
    let mut tree = fair(&[("A", 2), ("B", 1)], &[], slots_only());
    active(&mut tree, &[("A", &[]), ("B", &[])]);
    assert_eq!(run(&mut tree, 9), "AABAABAAB");
}

#[test]
fn case_14_unused_share_comes_back() {
    let mut tree = fair(&[("A", 1), ("B", 1), ("C", 1)], &[], slots_only());
    let [a, b, c] = active(&mut tree, &[("A", &[]), ("B", &[]), ("C", &[])])[..] else {
        panic!("three leaves");
    };
    tree.set_active(a, false);
    run(&mut tree, 18);
    assert_eq!((tree.slots(b), tree.slots(c)), (9, 9));
    for leaf in [b, c] {
        tree.charge(leaf, &Delta::start(3, Stamp(0)).inverse());
    }
    tree.set_active(a, true);
    assert_eq!(run(&mut tree, 6), "AAAAAA");
    assert_eq!([a, b, c].map(|leaf| tree.slots(leaf)), [6, 6, 6]);
}

#[test]
fn case_15_the_number_of_lsf() {
    let mut tree = fair(&[("A", 10)], &[], of_lsf());
    let [a] = active(&mut tree, &[("A", &[])])[..] else {
        panic!("one leaf");
    };
    assert_eq!(tree.rows(Stamp(0))[0].priority, 3_333_333);
    // Half an hour of four slots is two hours of run time.
    tree.charge(a, &Delta::start(4, Stamp(0)));
    tree.charge(a, &Delta::cpu(5 * HOUR));
    let now = Stamp(HOUR / 2);
    let row = &tree.rows(now)[0];
    assert_eq!(row.priority, 502_512);
    assert_eq!(
        (row.started, row.jobs, row.cpu_ms, row.run_ms),
        (4, 1, 5 * HOUR as u64, 2 * HOUR as u64)
    );
}

#[test]
fn case_16_history_fades_to_a_tenth() {
    let mut tree = fair(&[("A", 1)], &[], of_lsf());
    let leaf = active(&mut tree, &[("A", &[])])[0];
    tree.charge(leaf, &Delta::start(1, Stamp(0)));
    tree.charge(leaf, &Delta::cpu(100 * HOUR));
    let cpu_ms = 100 * HOUR as u64;
    tree.charge(leaf, &Delta::end(1, Stamp(0), Stamp(1), cpu_ms));
    assert_eq!(tree.rows(Stamp(0))[0].cpu_ms, 0);
    for (hours, left) in [(0, 100.0), (1, 63.0957), (5, 10.0), (10, 1.0)] {
        tree.update_costs(Stamp(hours * HOUR));
        let have = tree.rows(tree.updated_at())[0].hist_ms as f64 / HOUR as f64;
        assert!((have - left).abs() < 1e-4, "after {hours} hours: {have}");
    }
    // 1 / (0.7 + 3)
    assert_eq!(tree.rows(tree.updated_at())[0].priority, 270_270);
}

/// Usage that ends long after the last sweep has not decayed since then.
#[test]
fn only_time_after_the_end_fades_history() {
    let mut tree = fair(&[("A", 1)], &[], of_lsf());
    let leaf = active(&mut tree, &[("A", &[])])[0];
    tree.charge(leaf, &Delta::start(1, Stamp(0)));
    tree.charge(leaf, &Delta::cpu(100 * HOUR));
    tree.update_costs(Stamp(0));
    let end = Stamp(10 * HOUR);
    tree.charge(leaf, &Delta::end(1, Stamp(0), end, 100 * HOUR as u64));
    for (hours, left) in [(10, 100.0), (15, 10.0)] {
        tree.update_costs(Stamp(hours * HOUR));
        let have = tree.rows(tree.updated_at())[0].hist_ms as f64 / HOUR as f64;
        assert!((have - left).abs() < 1e-4, "after {hours} hours: {have}");
    }
}

#[test]
fn case_18_level_by_level() {
    let below: &[(&str, &[(&str, u32)])] = &[("d1", &[("g1", 1), ("g2", 1)])];
    let mut tree = fair(&[("d1", 2), ("d2", 1)], below, slots_only());
    let users: &[(&str, &[&str])] = &[("u", &["d1", "g1"]), ("v", &["g2", "d1"]), ("h", &["d2"])];
    let leaves = active(&mut tree, users);
    run(&mut tree, 12);
    let slots = |tree: &ShareTree| leaves.iter().map(|l| tree.slots(*l)).collect::<Vec<_>>();
    assert_eq!(slots(&tree), [4, 4, 4]);

    let mut tree = fair(&[("d1", 2), ("d2", 1)], below, slots_only());
    assert_eq!(active(&mut tree, users), leaves);
    tree.set_active(leaves[2], false);
    run(&mut tree, 12);
    assert_eq!(slots(&tree), [6, 6, 0]);
}

#[test]
fn case_19_children_of_the_better_come_first() {
    let cpu_only = FairFactors {
        cpu_time: 1000,
        run_time: 0,
        run_job: Some(0),
        ..FairFactors::default()
    };
    let below: &[(&str, &[(&str, u32)])] = &[("gA", &[("a1", 5), ("a2", 5)]), ("gB", &[("b1", 1)])];
    let mut tree = fair(&[("gA", 60), ("gB", 40)], below, cpu_only);
    let users: &[(&str, &[&str])] = &[("a1", &["gA"]), ("a2", &["gA"]), ("b1", &["gB"])];
    let leaves = active(&mut tree, users);
    for (leaf, hours) in leaves.iter().zip([24, 6, 70]) {
        tree.charge(*leaf, &Delta::cpu(hours * HOUR));
    }
    let rows = tree.rows(Stamp(0));
    let level = |path: &str| rows.iter().find(|r| r.path == path).map(|r| r.priority);
    assert_eq!(level("gA"), Some(2_000_000));
    assert_eq!(level("gB"), Some(571_428));
    let mut rank = Vec::new();
    while let Some(leaf) = tree.best() {
        rank.push(leaf);
        tree.set_active(leaf, false);
    }
    assert_eq!(rank, [leaves[1], leaves[0], leaves[2]]);
}

/// Starts jobs of each user's demand, in the order of the tree, until none fits.
fn fill(tree: &mut ShareTree, leaves: &[Leaf], demands: &[Vec<i64>], totals: &[i64]) -> String {
    let mut free = totals.to_vec();
    let mut order = String::new();
    while let Some(leaf) = tree.best() {
        let who = leaves.iter().position(|l| *l == leaf).expect("one of them");
        if demands[who]
            .iter()
            .zip(&free)
            .any(|(need, have)| need > have)
        {
            tree.set_active(leaf, false);
            continue;
        }
        for (have, need) in free.iter_mut().zip(&demands[who]) {
            *have -= need;
        }
        let slots = u32::try_from(demands[who][0]).expect("small");
        tree.charge(
            leaf,
            &Delta::start(slots, Stamp(0)).with_held(&demands[who]),
        );
        order.push_str(&tree.nodes[leaf.0 as usize].name);
    }
    order
}

#[test]
fn cases_33_and_34_dominant_shares() {
    for (weight, order, shown) in [
        (1, "ABABA", [666_666, 666_666]),
        (2, "ABAAA", [444_444, 333_333]),
    ] {
        let totals = [9, 18];
        let mut tree = drf(&[("A", weight), ("B", 1)], &totals);
        let leaves = active(&mut tree, &[("A", &[]), ("B", &[])]);
        let demands = [vec![1, 4], vec![3, 1]];
        assert_eq!(fill(&mut tree, &leaves, &demands, &totals), order);
        assert_eq!([0, 1].map(|n| tree.rows(Stamp(0))[n].priority), shown);
    }
}

#[test]
fn case_35_lower_dominant_share_first() {
    let mut tree = drf(&[("J2", 1), ("J1", 1)], &[100, 1000, 8]);
    let leaves = active(&mut tree, &[("J2", &[]), ("J1", &[])]);
    tree.charge(leaves[0], &Delta::start(1, Stamp(0)).with_held(&[1, 0, 4]));
    tree.charge(
        leaves[1],
        &Delta::start(1, Stamp(0)).with_held(&[1, 400, 0]),
    );
    assert_eq!(tree.best(), Some(leaves[1]));
}

#[test]
fn totals_count_from_the_next_sweep_and_none_is_a_full_share() {
    let mut tree = drf(&[("A", 1), ("B", 1)], &[10, 10]);
    let leaves = active(&mut tree, &[("A", &[]), ("B", &[])]);
    tree.charge(leaves[0], &Delta::start(1, Stamp(0)).with_held(&[1, 5]));
    tree.charge(leaves[1], &Delta::start(2, Stamp(0)));
    assert_eq!(tree.best(), Some(leaves[1]));
    tree.set_total(1, 100);
    tree.update_costs(Stamp(1));
    assert_eq!(tree.best(), Some(leaves[0]));
    tree.set_total(1, 0);
    tree.update_costs(Stamp(2));
    assert_eq!(tree.best(), Some(leaves[1]));
}

fn path(
    tree: &mut ShareTree,
    user: &str,
    groups: &[&str],
    requested: Option<&str>,
) -> Option<String> {
    let groups: Vec<String> = groups.iter().map(|g| (*g).to_owned()).collect();
    let mut at = tree.leaf(user, &groups, requested)?.0;
    let mut names = Vec::new();
    while at != ROOT {
        names.push(tree.nodes[at as usize].name.to_string());
        at = tree.nodes[at as usize].parent;
    }
    names.reverse();
    Some(names.join("/"))
}

#[test]
fn a_place_is_found_by_the_lists() {
    let below: &[(&str, &[(&str, u32)])] = &[
        ("g1", &[("g3", 1), ("u1", 5)]),
        ("g2", &[("default", 2), ("u3", 1)]),
    ];
    let list = &[
        ("default", 1),
        ("g1", 1),
        ("g2", 1),
        ("g4@", 3),
        ("u9", 1),
        ("others", 1),
    ];
    let mut tree = fair(list, below, slots_only());
    let mut at = |user, groups: &[&str], requested| {
        path(&mut tree, user, groups, requested).expect("everybody has a share here")
    };
    assert_eq!(
        at("u1", &["g2", "g1"], None),
        "g1/u1",
        "the order of the list decides"
    );
    assert_eq!(
        at("u1", &["g2", "g1"], Some("g2")),
        "g2/u1",
        "unless a group is asked for"
    );
    assert_eq!(
        at("u1", &["g2", "g1"], Some("g7")),
        "g1/u1",
        "that the tree knows"
    );
    assert_eq!(
        at("u2", &["g1", "g2"], None),
        "g2/u2",
        "g1 has no share for u2"
    );
    assert_eq!(
        at("u2", &["g1", "g3"], Some("g3")),
        "g1/g3/u2",
        "a group deeper down"
    );
    assert_eq!(at("u4", &["g4"], None), "u4", "each member by himself");
    assert_eq!(at("u9", &[], None), "u9", "named behind default, but named");
    assert_eq!(
        at("u5", &["g9"], None),
        "u5",
        "default stands before others"
    );
    let made = tree.nodes.len();
    assert_eq!(path(&mut tree, "u5", &[], None).as_deref(), Some("u5"));
    assert_eq!(tree.nodes.len(), made, "a place is made once");
    let shares = |tree: &ShareTree, path: &str| {
        let rows = tree.rows(Stamp(0));
        rows.iter()
            .find(|row| row.path == path)
            .map(|row| row.shares)
    };
    assert_eq!(shares(&tree, "u4"), Some(3));
    assert_eq!(shares(&tree, "g2/u2"), Some(2));
}

#[test]
fn others_share_one_node_and_strangers_come_last() {
    let mut tree = fair(&[("A", 2), ("others", 2)], &[], slots_only());
    let leaves = active(&mut tree, &[("A", &[]), ("B", &[]), ("C", &[])]);
    assert_eq!(run(&mut tree, 8), "ABACABAC");
    assert_eq!(
        leaves.iter().map(|l| tree.slots(*l)).collect::<Vec<_>>(),
        [4, 2, 2]
    );

    let mut tree = fair(&[("A", 1)], &[], slots_only());
    assert_eq!(tree.leaf("Z", &[], None), None);
    let (z, y) = (tree.leaf_without_share("Z"), tree.leaf_without_share("Y"));
    assert_eq!(tree.leaf_without_share("Z"), z);
    tree.set_active(z, true);
    tree.set_active(y, true);
    assert_eq!(run(&mut tree, 3), "ZYZ", "equals among themselves");
    let a = active(&mut tree, &[("A", &[])])[0];
    assert_eq!(run(&mut tree, 50), "A".repeat(50));
    tree.set_active(a, false);
    assert_eq!(run(&mut tree, 1), "Y");
}

#[test]
fn groups_that_hold_each_other_end() {
    let below: &[(&str, &[(&str, u32)])] = &[("g1", &[("g2", 1)]), ("g2", &[("g1", 1)])];
    let mut tree = fair(&[("g1", 1)], below, slots_only());
    let groups = ["g1", "g2"];
    assert_eq!(
        path(&mut tree, "u", &groups, None).as_deref(),
        Some("g1/g2/g1/u")
    );
}

#[test]
fn suspended_time_does_not_count() {
    let mut tree = fair(&[("A", 1)], &[], FairFactors::default());
    let leaf = active(&mut tree, &[("A", &[])])[0];
    tree.charge(leaf, &Delta::start(2, Stamp(1000)));
    let mut stop = Delta::default();
    stop.run(Meter::Run, -2, Stamp(4000));
    tree.charge(leaf, &stop);
    assert_eq!(tree.rows(Stamp(9000))[0].run_ms, 6000);
    let mut resume = Delta::default();
    resume.run(Meter::Run, 2, Stamp(9000));
    tree.charge(leaf, &resume);
    assert_eq!(tree.rows(Stamp(10_000))[0].run_ms, 8000);
    // Five seconds suspended: as if it had begun at 6000.
    tree.charge(leaf, &Delta::end(2, Stamp(6000), Stamp(10_000), 0));
    let row = &tree.rows(Stamp(20_000))[0];
    assert_eq!((row.run_ms, row.started, row.jobs), (8000, 0, 0));
}

#[test]
fn history_outlives_the_tree() {
    let below: &[(&str, &[(&str, u32)])] = &[("g1", &[("u1", 1), ("g3@", 2)])];
    let list = &[("g1", 1), ("default", 1), ("others", 1)];
    let mut old = fair(list, below, FairFactors::default());
    let users: &[(&str, &[&str])] = &[("u1", &["g1"]), ("u2", &["g1", "g3"]), ("u3", &[])];
    for (n, leaf) in active(&mut old, users).into_iter().enumerate() {
        let ms = 1_000_003 * (n as u64 + 1);
        old.charge(leaf, &Delta::cpu(ms as i64));
        old.charge(leaf, &Delta::start(1, Stamp(5)));
        old.charge(leaf, &Delta::end(1, Stamp(5), Stamp(5 + HOUR), ms));
    }
    let stranger = old.leaf_without_share("z");
    let delta = Delta {
        hist_ms: [7000, 8000, 9000],
        ..Delta::default()
    };
    old.charge(stranger, &delta);
    old.update_costs(Stamp(HOUR));
    let (at, past) = old.history_until(Stamp(HOUR));
    assert_eq!(at, Stamp(HOUR));
    assert_eq!(
        past.iter().map(|p| (&*p.path, &*p.by)).collect::<Vec<_>>(),
        [
            ("g1/u1", "u1"),
            ("g1/u2", "g3@"),
            ("u3", "default"),
            ("(none)/z", "default")
        ]
    );
    let json = serde_json::to_string(&past).expect("plain values");
    let past: Vec<UserShareHistory> = serde_json::from_str(&json).expect("as written");

    let later = Stamp(9 * HOUR);
    let mut new = fair(list, below, FairFactors::default());
    new.restore(&past);
    new.update_costs(later);
    let mut late = fair(list, below, FairFactors::default());
    late.update_costs(later);
    late.restore(&past);
    late.update_costs(later);
    old.update_costs(later);
    let hist = |tree: &ShareTree| {
        let rows = tree.rows(later);
        rows.into_iter()
            .map(|r| (r.path, r.hist_ms))
            .collect::<Vec<_>>()
    };
    assert_eq!(hist(&new), hist(&old));
    assert_eq!(hist(&late), hist(&old));
    assert!(
        new.costs()
            .iter()
            .all(|(known, now)| known.cmp(now) == Ordering::Equal)
    );

    let mut other = fair(&[("g1", 1), ("u3", 1)], &[], FairFactors::default());
    other.restore(&past);
    let rows = other.rows(later);
    let kept = rows.iter().filter(|r| r.hist_ms > 0).map(|r| &*r.path);
    assert_eq!(
        kept.collect::<Vec<_>>(),
        ["(none)", "(none)/z"],
        "no such places"
    );
}

#[test]
fn rows_are_in_the_order_of_the_lists() {
    let below: &[(&str, &[(&str, u32)])] = &[("g1", &[("default", 1), ("u1", 5)])];
    let mut tree = fair(&[("default", 1), ("g1", 7)], below, slots_only());
    for (user, groups) in [("x", &["g1"][..]), ("b", &[]), ("a", &[])] {
        path(&mut tree, user, groups, None);
    }
    let rows = tree.rows(Stamp(0));
    let seen: Vec<_> = rows
        .iter()
        .map(|r| (&*r.path, r.depth, r.group, r.shares))
        .collect();
    assert_eq!(
        seen,
        [
            ("b", 0, false, 1),
            ("a", 0, false, 1),
            ("g1", 0, true, 7),
            ("g1/x", 1, false, 1),
            ("g1/u1", 1, false, 5)
        ]
    );
}

/// 300 slots always full, jobs of random lengths; the usage after 1,000 jobs is 2:1 within 1 %.
#[test]
fn a_full_cluster_is_shared_as_told() {
    for factors in [slots_only(), FairFactors::default()] {
        let mut tree = fair(&[("A", 2), ("B", 1)], &[], factors);
        let leaves = active(&mut tree, &[("A", &[]), ("B", &[])]);
        let mut running = std::collections::BinaryHeap::new();
        let (mut now, mut rng, mut used) = (0i64, SplitMix64::new(7), [0i64; 2]);
        for n in 0..4000 {
            if running.len() == 300 {
                let std::cmp::Reverse((end, _, who, begun)) = running.pop().expect("full");
                now = end;
                let leaf: Leaf = leaves[who];
                tree.charge(leaf, &Delta::end(1, Stamp(begun), Stamp(end), 0));
                if n > 1000 {
                    used[who] += end - begun;
                }
            }
            tree.update_costs(Stamp(now));
            let leaf = tree.best().expect("both have work");
            tree.charge(leaf, &Delta::start(1, Stamp(now)));
            let who = usize::from(leaf == leaves[1]);
            let end = now + 1000 + (rng.draw() % 600_000) as i64;
            running.push(std::cmp::Reverse((end, n, who, now)));
        }
        let part = used[0] as f64 / (used[0] + used[1]) as f64;
        assert!((part - 2.0 / 3.0).abs() < 0.01 * 2.0 / 3.0, "{part}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn only_ratios_matter(
        weights in proptest::collection::vec(1..30u32, 2..8), times in 2..1000u32,
        jobs in proptest::collection::vec((1..5u32, any::<bool>()), 1..100)
    ) {
        let names: Vec<String> = (0..weights.len()).map(|n| format!("u{n}")).collect();
        let build = |times: u32| {
            let list: Vec<(&str, u32)> =
                names.iter().zip(&weights).map(|(n, w)| (n.as_str(), w * times)).collect();
            let users: Vec<(&str, &[&str])> = names.iter().map(|n| (n.as_str(), &[][..])).collect();
            let mut tree = fair(&list, &[], FairFactors::default());
            active(&mut tree, &users);
            tree
        };
        let (mut one, mut many) = (build(1), build(times));
        for (n, (slots, sweep)) in (0i64..).zip(jobs) {
            let (a, b) = (one.best(), many.best());
            prop_assert_eq!(a, b);
            for (tree, leaf) in [(&mut one, a), (&mut many, b)] {
                tree.charge(leaf.expect("active"), &Delta::start(slots, Stamp(n * 77_777)));
                if sweep {
                    tree.update_costs(Stamp(n * 77_777));
                }
            }
        }
    }

    /// The sums maintained by charges match recomputed sums, and the best leaf is found by
    /// comparing all.
    #[test]
    fn increments_equal_a_look_at_everything(
        by_drf in any::<bool>(),
        steps in proptest::collection::vec((0..12usize, 0..6u8, 1..9u32, 0..3_000_000i64), 1..120)
    ) {
        let list = shares(&[("g1", 3), ("u1", 2), ("g2", 1), ("default", 1)]);
        let policy = if by_drf { Policy::Drf(list) } else { Policy::Fairshare(list) };
        let below = groups(&[("g1", &[("g2", 2), ("default", 3)])]);
        let factors = FairFactors::default();
        let mut tree = ShareTree::of_queue(&policy, &factors, &below, Stamp(0)).expect("shares");
        tree.set_total(0, 50);
        tree.set_total(1, 70_000);
        tree.update_costs(Stamp(0));
        let mut now = 0;
        for (user, act, n, ms) in steps {
            let groups: &[&str] = [&["g1"][..], &["g1", "g2"], &["g2"], &[]][user % 4];
            let groups: Vec<String> = groups.iter().map(|g| (*g).to_owned()).collect();
            let leaf = tree.leaf(&format!("u{user}"), &groups, None).expect("default");
            match act {
                0 => tree.set_active(leaf, n % 2 == 0),
                1 => tree.charge(leaf, &Delta::start(n, Stamp(now)).with_held(&[0, ms])),
                2 => tree.charge(leaf, &Delta::cpu(ms)),
                3 => {
                    tree.charge(leaf, &Delta::start(n, Stamp(now)));
                    tree.charge(leaf, &Delta::end(n, Stamp(now), Stamp(now + ms), ms as u64));
                }
                4 => { now += ms; tree.update_costs(Stamp(now)); }
                _ => tree.set_active(leaf, true),
            }
            for (known, scratch) in tree.costs() {
                prop_assert_eq!(known.cmp(&scratch), Ordering::Equal);
            }
            prop_assert_eq!(tree.best(), scan(&tree));
            sums(&tree)?;
        }
    }

    /// Dominant shares compared with the level that a continuous filling reaches: when the first
    /// user is blocked, no user with jobs left is a task below it, or two above.
    #[test]
    fn dominant_shares_are_max_min(
        users in proptest::collection::vec(
            (proptest::collection::vec(1..40i64, 3), 1..400u32), 2..7)
    ) {
        let totals = [2000, 3000, 2500];
        let part = |demand: &[i64]| {
            demand.iter().zip(totals).map(|(d, t)| *d as f64 / t as f64).fold(0.0, f64::max)
        };
        let list: Vec<(String, u32)> = (0..users.len()).map(|n| (format!("u{n}"), 1)).collect();
        let list: Vec<(&str, u32)> = list.iter().map(|(n, w)| (n.as_str(), *w)).collect();
        let mut tree = drf(&list, &totals);
        let named: Vec<(&str, &[&str])> = list.iter().map(|(n, _)| (*n, &[][..])).collect();
        let leaves = active(&mut tree, &named);
        let (mut free, mut started) = (totals, vec![0u32; users.len()]);
        let blocked = loop {
            let Some(leaf) = tree.best() else { break None };
            let who = leaves.iter().position(|l| *l == leaf).expect("one of them");
            let (demand, most) = &users[who];
            if started[who] == *most {
                tree.set_active(leaf, false);
                continue;
            }
            if demand.iter().zip(free).any(|(need, have)| *need > have) {
                break Some(who);
            }
            for (have, need) in free.iter_mut().zip(demand) {
                *have -= need;
            }
            let slots = demand[0] as u32;
            tree.charge(leaf, &Delta::start(slots, Stamp(0)).with_held(demand));
            started[who] += 1;
        };
        let Some(blocked) = blocked else {
            prop_assert!(started.iter().zip(&users).all(|(n, (_, most))| n == most));
            return Ok(());
        };
        // The level, found by bisection.
        let fits = |level: f64| (0..3).all(|r| {
            let used = |(demand, most): &(Vec<i64>, u32)| {
                (level / part(demand)).min(f64::from(*most)) * demand[r] as f64
            };
            users.iter().map(used).sum::<f64>() <= totals[r] as f64
        });
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let mid = (low + high) / 2.0;
            if fits(mid) { low = mid } else { high = mid }
        }
        let task = users.iter().map(|(demand, _)| part(demand)).fold(0.0, f64::max);
        let share = |who: usize| f64::from(started[who]) * part(&users[who].0);
        let least = share(blocked);
        prop_assert!(least <= low + 1e-9 && low < least + 2.0 * task + 1e-9, "{} {}", least, low);
        for (who, (demand, most)) in users.iter().enumerate() {
            prop_assert!(share(who) <= least + part(demand) + 1e-9);
            prop_assert!(share(who) + 1e-9 >= least || started[who] == *most);
        }
    }
}

/// The best leaf, by comparing all active siblings at each level.
fn scan(tree: &ShareTree) -> Option<Leaf> {
    let mut at = ROOT;
    while let Some(inner) = &tree.nodes[at as usize].inner {
        let kids = inner
            .children
            .iter()
            .map(|kid| (*kid, &tree.nodes[*kid as usize]));
        let cost = |node: &Node| node.usage.cost(&tree.rule, node.shares, tree.now);
        at = kids
            .filter(|(_, node)| node.active > 0)
            .min_by(|(_, a), (_, b)| cost(a).cmp(&cost(b)).then(a.order.cmp(&b.order)))?
            .0;
    }
    Some(Leaf(at))
}

/// The usage of inner nodes is that of the nodes below them.
fn sums(tree: &ShareTree) -> Result<(), TestCaseError> {
    for (at, node) in (0u32..).zip(&tree.nodes) {
        if node.inner.is_none() {
            continue;
        }
        let below = || {
            tree.nodes
                .iter()
                .skip(1)
                .filter(move |kid| kid.parent == at)
        };
        prop_assert_eq!(
            node.usage.slots,
            below().map(|kid| kid.usage.slots).sum::<i64>()
        );
        prop_assert_eq!(node.active, below().map(|kid| kid.active).sum::<u32>());
        for meter in 0..3 {
            let sum: u64 = below().map(|kid| kid.usage.hist_us[meter]).sum();
            prop_assert_eq!(node.usage.hist_us[meter], sum);
        }
    }
    Ok(())
}

/// 1,000 users in 30 groups: a start, and an end with a start, in less than half a microsecond
/// each in release. `cargo test --release --lib sched::share -- --ignored --nocapture`
#[test]
#[allow(clippy::disallowed_methods)]
#[ignore = "a measurement, for release builds"]
fn speed_of_charges() {
    let names: Vec<String> = (0..30).map(|n| format!("g{n}")).collect();
    let list: Vec<(&str, u32)> = (1u32..).zip(&names).map(|(w, n)| (n.as_str(), w)).collect();
    let mut tree = fair(&list, &[], FairFactors::default());
    for user in 0..1000 {
        let group = names[user % 30].as_str();
        active(&mut tree, &[(format!("u{user}").as_str(), &[group])]);
    }
    let jobs = 2_000_000;
    let mut order = Vec::with_capacity(jobs);
    let clock = std::time::Instant::now();
    for n in 0..jobs {
        let leaf = tree.best().expect("all are active");
        tree.charge(leaf, &Delta::start(1, Stamp(n as i64)));
        order.push((leaf, n));
    }
    println!("start: {} ns", clock.elapsed().as_nanos() / jobs as u128);
    let mut rng = SplitMix64::new(5);
    for n in 0..jobs {
        let other = (rng.draw() as usize) % jobs;
        order.swap(n, other);
    }
    let clock = std::time::Instant::now();
    for (n, (leaf, begun)) in order.iter().enumerate() {
        let now = Stamp((jobs + n) as i64);
        tree.charge(*leaf, &Delta::end(1, Stamp(*begun as i64), now, 3));
        let leaf = tree.best().expect("all are active");
        tree.charge(leaf, &Delta::start(1, now));
    }
    println!(
        "end and start: {} ns",
        clock.elapsed().as_nanos() / jobs as u128
    );
    let clock = std::time::Instant::now();
    for n in 0..1000 {
        tree.update_costs(Stamp((3 * jobs + n) as i64));
    }
    println!("sweep: {} us", clock.elapsed().as_micros() / 1000);
}
