//! Counters of job groups: which limit holds, and what a purge keeps.

use super::*;

#[test]
fn limits_of_job_groups_follow_their_version_and_survive_a_purge() {
    let mut quotas = quotas(&[]);
    let of = |quotas: &mut Quotas, group: &str| {
        quotas.identity(&Consumers {
            job_group: group,
            ..who("q", "u")
        })
    };
    assert!(of(&mut quotas, "").is_free());
    let (deep, other) = (of(&mut quotas, "/a/b"), of(&mut quotas, "/a/c"));
    assert!(!deep.by_host() && !deep.is_free());
    quotas.count_start(&deep, &on(0, 4), true);
    assert!(room(&quotas, &deep, 9).is_ok());
    quotas.limit_groups(1, [("/a", 1)].into_iter(), 7);
    let blocked = room(&quotas, &other, 1).expect_err("the group is full");
    assert_eq!((blocked.used, blocked.limit), (1, 1));
    assert_eq!(quotas.freed_at(&blocked), 7);
    let like = of(&mut quotas, "/ab");
    assert!(room(&quotas, &like, 1).is_ok());
    // The same version: nothing is looked at.
    quotas.limit_groups(1, std::iter::empty(), 8);
    assert!(room(&quotas, &other, 1).is_err());
    drop((deep, other));
    for n in 0..3 * KEEP {
        of(&mut quotas, &format!("/x{n}/y"));
    }
    assert!(quotas.counters.len() <= 8 * KEEP);
    let other = of(&mut quotas, "/a/c");
    assert!(room(&quotas, &other, 1).is_err(), "the started job counts");
    let again = of(&mut quotas, "/a/b");
    quotas.count_end(&again, &on(0, 4), true, 9);
    assert!(room(&quotas, &other, 1).is_ok());
    assert!(rows(&quotas).is_empty(), "climits lists limits of cb.yaml");
}
