//! Tests of limits: the examples of the product's own documentation, windows, hosts, and a
//! property against counting from scratch. Never used by the program.

mod job_groups;
mod shown_limits;

use super::*;
use crate::config::{HostSet, UserTerm};
use crate::text::window::Windows;
use proptest::prelude::*;
use std::collections::BTreeSet;

const MEM: ResourceId = 0;
const GPU: ResourceId = 1;

fn set(words: &str) -> (bool, BTreeSet<String>) {
    let all = words.split(' ').any(|word| word == "all");
    let names = words.split(' ').filter(|word| *word != "all");
    let names = names.map(|word| word.trim_start_matches('~').to_owned());
    (all, names.collect())
}

fn names(words: &str) -> Names {
    let (all_but, names) = set(words);
    Names { all_but, names }
}

fn hosts(words: &str) -> HostSet {
    let (all_but, names) = set(words);
    HostSet { all_but, names }
}

fn users(words: &str) -> UserSet {
    let term = |word: &str| match word.trim_start_matches('~') {
        "all" => UserTerm::All,
        group if group.starts_with('g') => UserTerm::Group(group.to_owned()),
        user => UserTerm::Name(user.to_owned()),
    };
    let part = |out: bool| {
        let words = words
            .split(' ')
            .filter(move |word| word.starts_with('~') == out);
        words.map(term).collect()
    };
    UserSet {
        include: part(false),
        exclude: part(true),
    }
}

fn always<T>(limit: T) -> Vec<WindowedLimit<T>> {
    vec![WindowedLimit {
        limit,
        window: None,
    }]
}

fn at<T>(limit: T, window: &str) -> WindowedLimit<T> {
    WindowedLimit {
        limit,
        window: Some(Windows::parse(window).expect(window)),
    }
}

fn limit1() -> Quota {
    Quota {
        name: "limit1".into(),
        queues: Dimension::Shared(names("medium low")),
        users: Dimension::Shared(users("all ~u001")),
        slots: always(130),
        ..Quota::default()
    }
}

fn limit2() -> Quota {
    Quota {
        name: "limit2".into(),
        queues: Dimension::Per(names("medium low")),
        hosts: Dimension::Per(hosts("all")),
        jobs: always(2),
        ..Quota::default()
    }
}

fn limit3() -> Quota {
    Quota {
        name: "limit3".into(),
        users: Dimension::Per(users("all")),
        resources: vec![
            ("mem".into(), always(5_000_000)),
            ("gpu".into(), always(2000)),
        ],
        ..Quota::default()
    }
}

fn limit4() -> Quota {
    Quota {
        name: "limit4".into(),
        queues: Dimension::Shared(names("low")),
        slots: vec![at(2, "1:8:0-5:18:0"), at(5, "5:18:01-1:7:59")],
        ..Quota::default()
    }
}

fn number(name: &str) -> ResourceId {
    match name {
        "mem" => MEM,
        _ => GPU,
    }
}

/// With hosts h0 to h9, ticked at the beginning of time.
fn quotas(limits: &[Quota]) -> Quotas {
    let mut quotas = Quotas::new(limits, &BTreeMap::new(), &mut number);
    for n in 0..10 {
        quotas.host(n, &format!("h{n}"));
    }
    quotas.tick(Stamp(0), &TimeZone::UTC, 0);
    quotas
}

/// The rows at the beginning of time.
fn rows(quotas: &Quotas) -> Vec<QuotaRow> {
    quotas.rows(Stamp(0), &TimeZone::UTC)
}

fn who<'a>(queue: &'a str, user: &'a str) -> Consumers<'a> {
    Consumers {
        queue,
        user,
        groups: &[],
        project: "default",
        app: "",
        job_group: "",
    }
}

/// `slots` slots with this much memory and this many GPUs each, thousandths.
fn per_slot(mem: i64, gpu: i64) -> Bundle {
    Bundle::new(0, &[mem, gpu])
}

fn need<'a>(slots: u32, per_slot: &'a Bundle, fixed: &'a Bundle) -> Need<'a> {
    Need {
        slots,
        per_slot,
        fixed,
    }
}

fn room(quotas: &Quotas, ident: &Ident, slots: u32) -> Result<u32, Blocked> {
    let none = Bundle::default();
    quotas.max_slots(ident, &need(slots, &none, &none))
}

fn room_at(quotas: &Quotas, ident: &Ident, host: u32) -> Result<u32, Blocked> {
    let none = Bundle::default();
    quotas.room_on_host(ident, host, &need(1, &none, &none), &[])
}

fn on(host: u32, slots: i64) -> Vec<(u32, Bundle)> {
    vec![(host, Bundle::of_slots(slots))]
}

fn sentence(quotas: &Quotas, blocked: Blocked) -> (u32, String) {
    let reason = quotas.reason(&blocked);
    (reason.code(), reason.to_string())
}

/// Case 41 (ii): 128 of 130 slots used.
#[test]
fn case_41_ii_a_shared_limit_with_an_exception() {
    let mut quotas = quotas(&[limit1()]);
    let many = quotas.identity(&who("medium", "u003"));
    quotas.count_start(&many, &on(0, 100), true);
    let more = quotas.identity(&who("low", "u004"));
    quotas.count_start(&more, &on(1, 28), true);
    let second = quotas.identity(&who("low", "u002"));
    let blocked = room(&quotas, &second, 4).expect_err("2 are left");
    assert_eq!(
        sentence(&quotas, blocked),
        (
            60,
            "limit limit1 (queues low medium, users all ~u001): 128 of 130 slots in use, needs 4"
                .to_owned()
        )
    );
    assert_eq!(
        room(&quotas, &second, 1),
        Ok(2),
        "an elastic job may have two"
    );
    assert!(quotas.identity(&who("low", "u001")).is_free());
    assert!(quotas.identity(&who("high", "u002")).is_free());
}

/// Case 41 (iii): two jobs of each of the queues on each host.
#[test]
fn case_41_iii_each_queue_on_each_host() {
    let mut quotas = quotas(&[limit2()]);
    let medium = quotas.identity(&who("medium", "u"));
    let low = quotas.identity(&who("low", "u"));
    assert_eq!(room(&quotas, &medium, 50), Ok(u32::MAX), "depends on hosts");
    assert!(medium.by_host() && !medium.is_free());
    for _ in 0..2 {
        assert!(room_at(&quotas, &medium, 1).is_ok());
        quotas.count_start(&medium, &on(1, 3), true);
    }
    let blocked = room_at(&quotas, &medium, 1).expect_err("two are there");
    assert_eq!(
        sentence(&quotas, blocked),
        (
            61,
            "limit limit2 (queue medium, host h1): 2 of 2 jobs started".to_owned()
        )
    );
    assert!(quotas.check(&medium, &on(1, 1)).is_err());
    assert!(quotas.check(&medium, &on(2, 1)).is_ok());
    assert!(room_at(&quotas, &medium, 2).is_ok() && room_at(&quotas, &low, 1).is_ok());
    quotas.count_end(&medium, &on(1, 3), true, 9);
    assert_eq!(quotas.freed_at(&blocked), 9);
    assert!(room_at(&quotas, &medium, 1).is_ok());
}

#[test]
fn each_user_has_resources_of_his_own() {
    let mut quotas = quotas(&[limit3()]);
    let first = quotas.identity(&who("q", "u1"));
    let second = quotas.identity(&who("other", "u2"));
    let (slot, none) = (per_slot(1_000_000, 500), Bundle::default());
    assert_eq!(
        quotas.max_slots(&first, &need(1, &slot, &none)),
        Ok(4),
        "the GPUs bind"
    );
    let fixed = per_slot(1_500_000, 0);
    assert_eq!(
        quotas.max_slots(&first, &need(1, &slot, &fixed)),
        Ok(3),
        "the memory binds"
    );
    quotas.count_start(&first, &[(0, Bundle::new(3, &[3_000_000, 1500]))], true);
    let blocked = quotas
        .max_slots(&first, &need(2, &slot, &none))
        .expect_err("half a GPU is left");
    assert_eq!(
        sentence(&quotas, blocked),
        (
            62,
            "limit limit3 (user u1): 1.5 of 2 gpu in use, needs 1".to_owned()
        )
    );
    assert_eq!(quotas.max_slots(&first, &need(1, &slot, &none)), Ok(1));
    assert_eq!(
        room(&quotas, &first, 9),
        Ok(u32::MAX),
        "it needs none of that"
    );
    assert_eq!(quotas.max_slots(&second, &need(1, &slot, &none)), Ok(4));
    let huge = per_slot(0, 2500);
    let never = quotas
        .max_slots(&second, &need(1, &none, &huge))
        .expect_err("2 at most");
    assert_eq!(
        sentence(&quotas, never),
        (
            63,
            "needs 2.5 gpu, limit limit3 (user u2) allows 2".to_owned()
        )
    );
}

fn moment(text: &str) -> Stamp {
    let at: jiff::Timestamp = text.parse().expect(text);
    Stamp(at.as_millisecond())
}

/// Case 41 (iv); the 18th of November 2026 is a Wednesday.
#[test]
fn case_41_iv_windows() {
    let mut quotas = quotas(&[limit4()]);
    let ident = quotas.identity(&who("low", "u"));
    let utc = TimeZone::UTC;
    let tick = |quotas: &mut Quotas, text, event| quotas.tick(moment(text), &utc, event);
    let closes = Some(moment("2026-11-20T18:01:00Z"));
    assert_eq!(tick(&mut quotas, "2026-11-18T10:00:00Z", 1), closes);
    assert_eq!(room(&quotas, &ident, 1), Ok(2));
    quotas.count_start(&ident, &on(0, 2), true);
    let blocked = room(&quotas, &ident, 1).expect_err("two run");
    assert_eq!(
        (quotas.next_change(&blocked), quotas.freed_at(&blocked)),
        (closes, 0)
    );
    tick(&mut quotas, "2026-11-20T18:00:59Z", 2);
    assert!(room(&quotas, &ident, 1).is_err());
    let opens = tick(&mut quotas, "2026-11-20T18:01:00Z", 3);
    assert_eq!(opens, Some(moment("2026-11-23T08:00:00Z")));
    assert_eq!(quotas.freed_at(&blocked), 3);
    assert_eq!(room(&quotas, &ident, 3), Ok(3));
    quotas.count_start(&ident, &on(0, 3), true);

    // Monday: five run, and none of them is stopped; none starts before fewer than two run.
    tick(&mut quotas, "2026-11-23T08:00:00Z", 4);
    assert_eq!(rows(&quotas)[0].used, 5);
    for (event, used) in (5..).zip([5, 4, 3, 2]) {
        let blocked = room(&quotas, &ident, 1).expect_err("still too many");
        let (_, text) = sentence(&quotas, blocked);
        let limit = "limit limit4 (queues low)";
        assert_eq!(text, format!("{limit}: {used} of 2 slots in use, needs 1"));
        quotas.count_end(&ident, &on(0, 1), true, event);
        assert_eq!(quotas.freed_at(&blocked), event);
    }
    assert_eq!(room(&quotas, &ident, 1), Ok(1));
    let blocked = room(&quotas, &ident, 3).expect_err("one is left");
    assert_eq!(
        sentence(&quotas, blocked).0,
        60,
        "more is allowed at other times"
    );
}

#[test]
fn each_resource_has_its_own_windows() {
    let mut quotas = quotas(&[Quota {
        name: "w".into(),
        resources: vec![
            ("mem".into(), vec![at(500_000_000, "1:8:0-5:18:0")]),
            ("gpu".into(), vec![at(5000, "9:00-18:00")]),
        ],
        ..Quota::default()
    }]);
    let ident = quotas.identity(&who("q", "u"));
    let (mem, gpu, none) = (per_slot(1_000_000, 0), per_slot(0, 1000), Bundle::default());
    let mut rooms = |text: &str| {
        let next = quotas.tick(moment(text), &TimeZone::UTC, 1);
        let room = |each| {
            quotas
                .max_slots(&ident, &need(1, each, &none))
                .expect("nothing is used")
        };
        (room(&mem), room(&gpu), next)
    };
    let at = |text| Some(moment(text));
    let free = u32::MAX;
    assert_eq!(
        rooms("2026-11-18T08:30:00Z"),
        (500, free, at("2026-11-18T09:00:00Z"))
    );
    assert_eq!(
        rooms("2026-11-18T09:00:00Z"),
        (500, 5, at("2026-11-18T18:01:00Z"))
    );
    assert_eq!(
        rooms("2026-11-21T12:00:00Z"),
        (free, 5, at("2026-11-21T18:01:00Z"))
    );
    assert_eq!(
        rooms("2026-11-22T20:00:00Z"),
        (free, free, at("2026-11-23T08:00:00Z"))
    );
}

#[test]
fn a_set_of_hosts_shares_one_counter() {
    let limit = Quota {
        name: "rack".into(),
        hosts: Dimension::Shared(hosts("h0 h1")),
        slots: always(10),
        jobs: always(2),
        ..Quota::default()
    };
    let mut quotas = quotas(&[limit]);
    let ident = quotas.identity(&who("q", "u"));
    let none = Bundle::default();
    let trial = |quotas: &Quotas, host, so_far: &[(u32, Bundle)]| {
        quotas.room_on_host(&ident, host, &need(1, &none, &none), so_far)
    };
    assert_eq!(trial(&quotas, 5, &[]), Ok(u32::MAX), "not of the set");
    assert_eq!(trial(&quotas, 0, &[]), Ok(10));
    assert_eq!(
        trial(&quotas, 1, &on(0, 7)),
        Ok(3),
        "what the trial took on h0 counts"
    );
    assert_eq!(trial(&quotas, 1, &on(5, 7)), Ok(10));
    assert!(trial(&quotas, 1, &on(0, 10)).is_err());

    let parts = [on(0, 4), on(1, 4), on(5, 9)].concat();
    assert_eq!(quotas.check(&ident, &parts), Ok(()));
    assert!(
        quotas
            .check(&ident, &[on(0, 4), on(1, 7)].concat())
            .is_err()
    );
    quotas.count_start(&ident, &parts, true);
    assert_eq!(trial(&quotas, 0, &[]), Ok(2));
    quotas.count_start(&ident, &on(1, 1), true);
    let blocked = trial(&quotas, 0, &[]).expect_err("two jobs");
    assert_eq!(blocked.quantity, Quantity::Jobs);
    quotas.count_end(&ident, &parts, true, 4);
    assert_eq!(quotas.freed_at(&blocked), 4);
    assert_eq!(trial(&quotas, 0, &[]), Ok(9));
}

#[test]
fn a_part_of_a_trial_on_the_same_host_counts() {
    let limit = Quota {
        name: "l".into(),
        hosts: Dimension::Per(hosts("all ~h3")),
        slots: always(4),
        jobs: always(1),
        ..Quota::default()
    };
    let mut quotas = quotas(&[limit]);
    let ident = quotas.identity(&who("q", "u"));
    let none = Bundle::default();
    let trial = |quotas: &Quotas, host, so_far: &[(u32, Bundle)]| {
        quotas.room_on_host(&ident, host, &need(1, &none, &none), so_far)
    };
    assert_eq!(
        trial(&quotas, 0, &on(0, 3)),
        Ok(1),
        "the same job, so one job"
    );
    assert_eq!(trial(&quotas, 0, &on(1, 3)), Ok(4));
    assert_eq!(trial(&quotas, 3, &on(3, 9)), Ok(u32::MAX));
    let blocked = trial(&quotas, 2, &on(2, 4)).expect_err("the trial took all");
    let text = sentence(&quotas, blocked).1;
    assert_eq!(text, "limit l (host h2): 4 of 4 slots in use, needs 1");
    quotas.host(3, "h33");
    assert_eq!(trial(&quotas, 3, &[]), Ok(4), "another host took its place");
}

#[test]
fn suspended_work_gives_back_what_it_does_not_keep() {
    let mut limit = limit3();
    limit.slots = always(4);
    limit.jobs = always(3);
    let mut quotas = quotas(&[limit]);
    let ident = quotas.identity(&who("q", "u"));
    let all = [(0, Bundle::new(4, &[1_000_000, 2000]))];
    quotas.count_start(&ident, &all, true);
    // Preempted: slots and GPUs are free again, memory and the job itself are not.
    let lent = [(0, Bundle::new(4, &[0, 2000]))];
    quotas.count_end(&ident, &lent, false, 1);
    let used = |quotas: &Quotas| {
        let rows = rows(quotas);
        rows.iter()
            .filter(|row| !row.each)
            .map(|row| (row.resource.clone(), row.used))
            .collect::<Vec<_>>()
    };
    let row = |name: &str, used: i64| (name.to_owned(), used);
    let kept = [
        row("gpu", 0),
        row("jobs", 1),
        row("mem", 1_000_000),
        row("slots", 0),
    ];
    assert_eq!(used(&quotas), kept);
    quotas.count_start(&ident, &lent, false);
    quotas.count_end(&ident, &all, true, 2);
    assert!(
        used(&quotas).is_empty(),
        "members that use nothing are not listed"
    );
}

#[test]
fn groups_projects_and_applications_select() {
    let group = UserGroup {
        name: "g1".into(),
        members: "a b".into(),
        set: users("a b"),
        administrators: UserSet::default(),
        fairshare: None,
    };
    let groups = BTreeMap::from([("g1".to_owned(), group)]);
    let each = Quota {
        name: "each".into(),
        users: Dimension::Per(users("g1")),
        projects: Dimension::Shared(names("p1 p2")),
        apps: Dimension::Per(names("all")),
        slots: always(1),
        ..Quota::default()
    };
    let mut quotas = Quotas::new(&[each], &groups, &mut number);
    quotas.tick(Stamp(0), &TimeZone::UTC, 0);
    let of = |user, project, app| Consumers {
        user,
        project,
        app,
        ..who("q", "")
    };
    let a = quotas.identity(&of("a", "p1", "x"));
    quotas.count_start(&a, &on(0, 1), true);
    let mut blocked = |who: Consumers| {
        let ident = quotas.identity(&who);
        room(&quotas, &ident, 1).is_err()
    };
    assert!(blocked(of("a", "p2", "x")), "projects share");
    assert!(!blocked(of("b", "p1", "x")), "members of a group do not");
    assert!(!blocked(of("a", "p1", "y")), "nor do applications");
    assert!(!blocked(of("c", "p1", "x")) && !blocked(of("a", "p3", "x")));
    assert!(!blocked(of("a", "p1", "")), "no application is none");
    let rows: Vec<_> = rows(&quotas).into_iter().filter(|r| !r.each).collect();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].consumer, "user a, projects p1 p2, app x");
}

#[test]
fn the_lowest_of_several_limits_wins() {
    let most = |name: &str, slots| Quota {
        name: name.into(),
        slots: always(slots),
        ..Quota::default()
    };
    let mut quotas = quotas(&[most("a", 7), most("b", 3), limit1()]);
    let ident = quotas.identity(&who("low", "u"));
    assert_eq!(room(&quotas, &ident, 1), Ok(3));
    let blocked = room(&quotas, &ident, 5).expect_err("b allows 3");
    assert_eq!(quotas.reason(&blocked).code(), 63);
    quotas.count_start(&ident, &on(0, 2), true);
    let rows = rows(&quotas);
    let rows: Vec<_> = rows
        .iter()
        .map(|r| (&*r.limit, &*r.consumer, r.used, r.max))
        .collect();
    assert_eq!(
        rows,
        [
            ("a", "", 2, Some(7)),
            ("b", "", 2, Some(3)),
            ("limit1", "queues low medium, users all ~u001", 2, Some(130)),
        ]
    );
}

/// Names chosen by users do not accumulate.
#[test]
fn what_nobody_holds_is_dropped() {
    let each = Quota {
        name: "p".into(),
        projects: Dimension::Per(names("all")),
        hosts: Dimension::Any,
        slots: always(1),
        ..Quota::default()
    };
    let by_host = Quota {
        hosts: Dimension::Per(hosts("all")),
        ..each.clone()
    };
    let mut quotas = quotas(&[each, by_host]);
    let project = |n: usize| format!("p{n}");
    let mut started = Vec::new();
    for n in 0..20 * KEEP {
        let name = project(n);
        let ident = quotas.identity(&Consumers {
            project: &name,
            ..who("q", "u")
        });
        quotas.count_start(&ident, &on(0, 1), true);
        if n % 1000 == 7 {
            started.push((n, ident));
        } else if n % 1000 != 8 {
            quotas.count_end(&ident, &on(0, 1), true, 1);
        }
    }
    assert!(quotas.idents.len() <= 2 * KEEP && quotas.counters.len() <= 8 * KEEP);
    for (n, ident) in started {
        let name = project(n);
        let again = quotas.identity(&Consumers {
            project: &name,
            ..who("q", "u")
        });
        assert_eq!(again, ident);
        assert!(room(&quotas, &ident, 1).is_err() && room_at(&quotas, &ident, 0).is_err());
    }
    let still = quotas.identity(&Consumers {
        project: "p8",
        ..who("q", "u")
    });
    assert!(
        room(&quotas, &still, 1).is_err(),
        "it runs, though nobody held its identity"
    );
}

#[derive(Clone, Debug)]
struct Job {
    queue: usize,
    user: usize,
    parts: Vec<(u32, Bundle)>,
}

fn any_job() -> impl Strategy<Value = Job> {
    let part = (0..4u32, 1..5i64, 0..3i64, 0..2i64);
    let parts = proptest::collection::vec(part, 1..4).prop_map(|parts| {
        let mut hosts: BTreeMap<u32, Bundle> = BTreeMap::new();
        for (host, slots, mem, gpu) in parts {
            hosts
                .entry(host)
                .or_default()
                .add(&Bundle::new(slots, &[mem, gpu]));
        }
        hosts.into_iter().collect()
    });
    (0..3usize, 0..3usize, parts).prop_map(|(queue, user, parts)| Job { queue, user, parts })
}

fn any_limit() -> impl Strategy<Value = Quota> {
    let kind = 0..3u8;
    let queues = kind.clone().prop_map(|n| match n {
        0 => Dimension::Any,
        1 => Dimension::Shared(names("q0 q1")),
        _ => Dimension::Per(names("q1 q2")),
    });
    let users = kind.clone().prop_map(|n| match n {
        0 => Dimension::Any,
        1 => Dimension::Shared(users("all ~u0")),
        _ => Dimension::Per(users("all ~u1")),
    });
    let hosts = kind.prop_map(|n| match n {
        0 => Dimension::Any,
        1 => Dimension::Shared(hosts("h1 h2")),
        _ => Dimension::Per(hosts("all ~h3")),
    });
    let most = |n: i64| proptest::option::of(1..n);
    (queues, users, hosts, most(12), most(4), most(6), most(3)).prop_map(
        |(queues, users, hosts, slots, jobs, mem, gpu)| {
            let whole = |n: Option<i64>| n.into_iter().flat_map(|n| always(n as u64)).collect();
            let amounts = [("mem", mem), ("gpu", gpu)];
            let amounts = amounts.into_iter().filter_map(|(name, n)| Some((name, n?)));
            Quota {
                queues,
                users,
                hosts,
                slots: whole(slots),
                jobs: whole(jobs),
                resources: amounts
                    .map(|(name, n)| (name.to_owned(), always(n)))
                    .collect(),
                ..Quota::default()
            }
        },
    )
}

/// Whether the running jobs are within the limit, counted one by one.
fn kept(limit: &Quota, jobs: &[&Job]) -> bool {
    let per = |queue: usize, user: usize, host: u32| {
        let (queue, user, host) = (format!("q{queue}"), format!("u{user}"), format!("h{host}"));
        let groups = BTreeMap::new();
        let inside = limit.queues.set().is_none_or(|s| s.contains(&queue))
            && limit
                .users
                .set()
                .is_none_or(|s| s.contains(&user, &[], &groups))
            && limit.hosts.set().is_none_or(|s| s.contains(&host));
        let key = |per: bool, name: String| if per { name } else { String::new() };
        inside.then(|| {
            (
                key(limit.queues.is_per(), queue),
                key(limit.users.is_per(), user),
                key(limit.hosts.is_per(), host),
            )
        })
    };
    let mut sums: BTreeMap<_, (Bundle, BTreeSet<usize>)> = BTreeMap::new();
    for (n, job) in jobs.iter().enumerate() {
        for (host, bundle) in &job.parts {
            if let Some(key) = per(job.queue, job.user, *host) {
                let sum = sums.entry(key).or_default();
                sum.0.add(bundle);
                sum.1.insert(n);
            }
        }
    }
    let under = |limit: &[WindowedLimit<u64>], n: i64| limit.iter().all(|c| n <= c.limit as i64);
    sums.values().all(|(sum, jobs)| {
        under(&limit.slots, sum.slots)
            && under(&limit.jobs, jobs.len() as i64)
            && limit.resources.iter().all(|(name, most)| {
                most.iter()
                    .all(|c| sum.get(usize::from(number(name))) <= c.limit)
            })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn starts_that_pass_keep_every_limit_and_others_would_not(
        limits in proptest::collection::vec(any_limit(), 1..5),
        steps in proptest::collection::vec((any_job(), any::<prop::sample::Index>(), 0..3u8), 1..40)
    ) {
        let mut quotas = quotas(&limits);
        let mut running: Vec<Job> = Vec::new();
        for (job, index, act) in steps {
            let ident = |quotas: &mut Quotas, job: &Job| {
                let (queue, user) = (format!("q{}", job.queue), format!("u{}", job.user));
                quotas.identity(&who(&queue, &user))
            };
            if act == 0 && !running.is_empty() {
                let ended = running.swap_remove(index.index(running.len()));
                let who = ident(&mut quotas, &ended);
                quotas.count_end(&who, &ended.parts, true, 1);
                continue;
            }
            let who = ident(&mut quotas, &job);
            let with: Vec<&Job> = running.iter().chain([&job]).collect();
            let fits = limits.iter().all(|limit| kept(limit, &with));
            let blocked = quotas.check(&who, &job.parts).err();
            prop_assert_eq!(blocked.is_none(), fits, "{:?}", blocked);
            if let Some(blocked) = blocked {
                let (_, text) = sentence(&quotas, blocked);
                prop_assert!(text.contains("limit"));
                prop_assert!(blocked.used + blocked.need > blocked.limit, "{}", text);
            }
            // Slot by slot on its first host: the rooms are exactly what the limits allow.
            let slot = Bundle::new(0, &[1, 0]);
            let none = Bundle::default();
            let need = need(1, &slot, &none);
            let (host, _) = job.parts[0];
            let room = quotas.max_slots(&who, &need).and_then(|room| {
                Ok(room.min(quotas.room_on_host(&who, host, &need, &[])?))
            });
            let one = |slots: i64| {
                let parts = [(host, Bundle::new(slots, &[slots, 0]))];
                quotas.check(&who, &parts).is_ok()
            };
            let room = room.unwrap_or(0);
            prop_assert!(room == 0 || room > 1000 || one(i64::from(room)));
            prop_assert!(room > 1000 || !one(i64::from(room) + 1));
            if fits {
                quotas.count_start(&who, &job.parts, true);
                running.push(job);
            }
        }
        for job in running.drain(..) {
            let (queue, user) = (format!("q{}", job.queue), format!("u{}", job.user));
            let who = quotas.identity(&who(&queue, &user));
            quotas.count_end(&who, &job.parts, true, 2);
        }
        prop_assert!(rows(&quotas).iter().all(|row| row.used == 0));
    }
}

/// 20 limits: a check, a take and a give take less than half a microsecond each in release. `cargo
/// test --release --lib sched::quota -- --ignored --nocapture`
#[test]
#[allow(clippy::disallowed_methods)]
#[ignore = "a measurement, for release builds"]
fn speed_of_counting() {
    let limits: Vec<Quota> = (0..20)
        .map(|n| match n % 4 {
            0 => limit1(),
            1 => limit2(),
            2 => limit3(),
            _ => limit4(),
        })
        .collect();
    let mut quotas = quotas(&limits);
    let jobs = 1_000_000u32;
    let users: Vec<String> = (0..1000).map(|n| format!("u{n}")).collect();
    let idents: Vec<_> = users
        .iter()
        .map(|user| quotas.identity(&who("low", user)))
        .collect();
    let (slot, none) = (per_slot(0, 0), Bundle::default());
    let need = need(1, &slot, &none);
    let part = [(3, Bundle::new(1, &[0, 0]))];
    let measure = |name: &str, quotas: &mut Quotas, f: &mut dyn FnMut(&mut Quotas, &Ident, u32)| {
        let clock = std::time::Instant::now();
        for n in 0..jobs {
            f(quotas, &idents[n as usize % 1000], n % 10);
        }
        println!(
            "{name}: {} ns",
            clock.elapsed().as_nanos() / u128::from(jobs)
        );
    };
    measure("look", &mut quotas, &mut |quotas, ident, host| {
        std::hint::black_box(quotas.max_slots(ident, &need).is_ok());
        std::hint::black_box(quotas.room_on_host(ident, host, &need, &[]).is_ok());
    });
    measure("take", &mut quotas, &mut |quotas, ident, _| {
        quotas.count_start(ident, &part, true)
    });
    measure("give", &mut quotas, &mut |quotas, ident, _| {
        quotas.count_end(ident, &part, true, 1)
    });
    assert!(rows(&quotas).iter().all(|row| row.used == 0));
}
