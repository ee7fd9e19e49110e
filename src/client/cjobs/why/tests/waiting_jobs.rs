//! Scenarios of waiting jobs. Each [`TestCluster::check`] asserts that the offered change starts the job.

use super::{NOW, TestCluster, job, limited};
use crate::client::cjobs::why::pending::JobsAhead;
use crate::client::cjobs::why::text;
use crate::model::{JobKey, Share, Spec, Stamp};
use crate::record::event::Event;
use crate::record::request::{HostAct, QueueAct};
use crate::sched::{Opening, Stage};

const TWO: &str = "hosts:\n- {names: 'h[1-2]', slots: 4}\nqueues:\n- {name: normal}\n";

fn two() -> TestCluster {
    TestCluster::new(TWO)
}

#[test]
fn memory_that_others_have() {
    let mut site = two();
    site.ask(1, "select[hname==h1] rusage[mem=40G]");
    site.ask(1, "select[hname==h2] rusage[mem=50G]");
    let id = site.ask(1, "rusage[mem=40G]");
    let expected = "nearest is h1: needs 40G mem, 24G left";
    let waiting = site.check(id, expected, &format!("cmod -R 'rusage[mem=24G]' {id}"));
    let hosts = waiting.hosts.unwrap();
    assert_eq!((hosts.hosts, hosts.excluded_at(Stage::Amount)), (2, 2));
    assert!(!waiting.can_never_run);
}

#[test]
fn memory_that_no_host_has() {
    let mut site = two();
    let id = site.ask(1, "rusage[mem=97.7T]");
    let expected = "rusage[mem=97.7T]: no host has that much (largest h1: 64G); can never run here";
    let waiting = site.check(id, expected, &format!("cmod -R 'rusage[mem=64G]' {id}"));
    assert!(waiting.can_never_run);
    let miss = waiting.hosts.unwrap().nearest.unwrap();
    let nearest = text::nearest_miss_text(&miss);
    assert_eq!(nearest, "host h1: needs 97.7T mem, it has 64G in all");
}

#[test]
fn slots_that_others_have_on_each_host() {
    let mut site = two();
    site.ask(2, "select[hname==h1]");
    site.ask(3, "select[hname==h2]");
    let id = site.ask(4, "span[hosts=1]");
    let expected = "nearest is h1: needs 4 slots, 2 free";
    site.check(id, expected, &format!("cmod -n 2 {id}"));
}

#[test]
fn the_span_that_keeps_it_from_free_slots() {
    let mut site = two();
    site.ask(2, "select[hname==h1]");
    site.ask(2, "select[hname==h2]");
    let id = site.ask(4, "span[hosts=1]");
    site.check(id, "2 free", &format!("cmod -Rn {id}"));
}

#[test]
fn more_slots_than_there_are() {
    let mut site = two();
    let id = site.ask(100, "");
    let waiting = site.check(id, "it needs 100 slots in all", &format!("cmod -n 8 {id}"));
    assert!(waiting.can_never_run);
}

#[test]
fn a_condition_that_no_host_meets() {
    let mut site = TestCluster::new(
        "hosts:\n- {names: 'h[1-2]', slots: 4, tags: [fast]}\nqueues:\n- {name: normal}\n",
    );
    let id = site.ask(1, "select[fast && maxmem>97.7T]");
    let expected = "select[maxmem > 97.7T] does not hold: it has maxmem 64G";
    site.check(id, expected, &format!("cmod -R 'select[fast]' {id}"));
}

#[test]
fn the_host_that_was_asked_for_is_full() {
    let mut site = two();
    site.ask(4, "select[hname==h1]");
    let id = site.submit(Spec {
        hosts: "h1".into(),
        ..job()
    });
    let waiting = site.check(id, "h1: needs 1 slot, 0 free", &format!("cmod -mn {id}"));
    assert_eq!(waiting.hosts.unwrap().excluded_at(Stage::NotAsked), 1);
}

#[test]
fn an_inactive_queue() {
    let mut site = TestCluster::new(&format!("{TWO}- {{name: other}}\n"));
    let (name, by, comment, t) = ("normal".into(), "root".into(), String::new(), NOW);
    let act = QueueAct::Inactivate;
    site.state.apply(&Event::Queue {
        name,
        act,
        by,
        comment,
        t,
    });
    let id = site.ask(1, "");
    let waiting = site.explain(id);
    assert_eq!(text::verdict(&waiting), "queue normal is inactive");
    let offered: Vec<String> = (waiting.helpful_changes.iter())
        .map(|help| help.candidate.command(id))
        .collect();
    let want = [
        "cadmin qact normal".to_owned(),
        format!("cmod -q other {id}"),
    ];
    assert_eq!(offered, want);
    site.check(id, "inactive", "cadmin qact normal");
}

#[test]
fn a_dependency_that_is_not_met_yet() {
    let mut site = two();
    let first = site.ask(1, "");
    let id = site.submit(Spec {
        depend: format!("done({first})"),
        ..job()
    });
    site.check(id, "waits for its dependency", &format!("cmod -wn {id}"));
}

#[test]
fn a_dependency_that_can_never_be_met() {
    let mut site = two();
    let first = site.ask(1, "");
    let id = site.submit(Spec {
        depend: format!("done({first})"),
        ..job()
    });
    let (j, by, t) = (JobKey::job(first), "u1000".into(), NOW);
    let reason = crate::model::TermReason::Owner;
    site.state.apply(&Event::Cancelled { j, by, reason, t });
    let orphans = site.explain(id).orphans;
    assert_eq!(orphans, Some(crate::model::Orphans::Hold));
    let run = format!("cmod -orphan run {id}");
    let waiting = site.check(id, "can never be satisfied", &run);
    assert!(waiting.can_never_run);
}

#[test]
fn a_begin_time() {
    let mut site = two();
    let id = site.submit(Spec {
        begin: Some(Stamp(NOW.0 + 3_600_000)),
        ..job()
    });
    site.check(id, "begin time (-b)", &format!("cmod -bn {id}"));
}

#[test]
fn a_held_job() {
    let mut site = two();
    let id = site.ask(1, "");
    site.state.apply(&Event::Held {
        j: JobKey::job(id),
        held: true,
        admin: false,
        by: "u1000".into(),
        t: NOW,
    });
    site.check(id, "held by its owner", &format!("cresume {id}"));
}

#[test]
fn an_array_at_its_own_limit() {
    let mut site = two();
    let id = site.submit_array(job(), "1-5", 2);
    let waiting = site.explain(id);
    assert_eq!(
        text::verdict(&waiting),
        "the array's limit of 2 started elements is reached"
    );
    site.check(id, "limit of 2", &format!("cmod -J %3 {id}"));
}

#[test]
fn a_queue_at_its_limit_of_slots() {
    let mut site = TestCluster::new(
        "hosts:\n- {names: 'h[1-2]', slots: 4}\n\
         queues:\n- {name: normal, slots: 2}\n- {name: other}\n",
    );
    site.ask(2, "");
    let id = site.ask(1, "");
    let expected = "queue normal has reached its limit of 2 slots";
    site.check(id, expected, &format!("cmod -q other {id}"));
}

#[test]
fn a_limit_of_section_limits() {
    let mut site = TestCluster::new(&format!(
        "{TWO}limits:\n- {{name: few, users: u1000, slots: 5}}\n"
    ));
    site.ask(3, "");
    let id = site.ask(3, "");
    let expected = "limit few (users u1000): 3 of 5 slots in use, needs 3";
    site.check(id, expected, &format!("cmod -n 2 {id}"));
}

#[test]
fn an_exclusive_job_among_others() {
    let mut site = TestCluster::new(
        "hosts:\n- {names: 'h[1-2]', slots: 4}\nqueues:\n- {name: normal, exclusive: yes}\n",
    );
    site.ask(1, "select[hname==h1]");
    site.ask(1, "select[hname==h2]");
    let id = site.submit(Spec {
        exclusive: true,
        ..job()
    });
    site.check(id, "exclusive use conflicts", &format!("cmod -xn {id}"));
}

#[test]
fn a_run_limit_longer_than_the_window() {
    let mut site = TestCluster::new(
        "hosts:\n- {names: 'h[1-2]', slots: 4}\n\
         queues:\n- {name: normal, run_window: '20:00-4:07'}\n",
    );
    // The window closes in 60 min 51 s: the last minute is inside it.
    let id = site.submit(limited(7200, job()));
    site.check(id, "closes in", &format!("cmod -W 1:00 {id}"));
}

#[test]
fn a_termination_time_before_the_run_limit() {
    let mut site = two();
    let deadline = Some(Stamp(NOW.0 + 1_800_000));
    let id = site.submit(limited(7200, Spec { deadline, ..job() }));
    site.check(id, "termination time", &format!("cmod -tn {id}"));
}

#[test]
fn a_licence_that_others_have() {
    let mut site = TestCluster::new(&format!(
        "resources:\n- {{name: lic, locale: all, value: 4}}\n{TWO}"
    ));
    site.ask(1, "rusage[lic=3]");
    let id = site.ask(1, "rusage[lic=2]");
    let expected = "shared resource lic: 3 of 4 reserved, needs 2";
    site.check(id, expected, &format!("cmod -R 'rusage[lic=1]' {id}"));
}

#[test]
fn units_that_others_have() {
    let mut site = TestCluster::new(
        "hosts:\n- {names: 'h[1-2]', slots: 4, resources: {gpu: 4}}\nqueues:\n- {name: normal}\n",
    );
    site.ask(1, "select[hname==h1] rusage[gpu=2]");
    site.ask(1, "select[hname==h2] rusage[gpu=3]");
    let id = site.ask(1, "rusage[gpu=4]");
    let expected = "nearest is h1: needs 4 gpu, 2 left";
    site.check(id, expected, &format!("cmod -R 'rusage[gpu=2]' {id}"));
}

#[test]
fn a_closed_host() {
    let mut site = two();
    for name in ["h1", "h2"] {
        site.state.apply(&Event::Host {
            name: name.into(),
            act: HostAct::Close,
            by: "root".into(),
            comment: String::new(),
            t: NOW,
        });
    }
    let id = site.ask(1, "");
    site.check(id, "it is closed by an administrator", "cadmin hopen h1");
}

#[test]
fn a_locked_host() {
    let mut site = two();
    for name in ["h1", "h2"] {
        site.state.apply(&Event::Host {
            name: name.into(),
            act: HostAct::Lock { for_s: 0 },
            by: "root".into(),
            comment: String::new(),
            t: NOW,
        });
    }
    let id = site.ask(1, "");
    site.check(id, "it is locked by an administrator", "cadmin lsunlock h1");
}

#[test]
fn a_reservation_that_a_short_job_may_use() {
    let mut site = TestCluster::new(
        "hosts:\n- {name: h1, slots: 4}\n\
         queues:\n- {name: top, priority: 90}\n\
         - {name: wide, priority: 50, slot_reserve: 24h, backfill: yes}\n\
         - {name: normal, priority: 10, backfill: yes}\n",
    );
    // Three slots run for two hours; then the wide job gets the host.
    site.submit(limited(
        7200,
        Spec {
            queue: "top".into(),
            min: 3,
            max: 3,
            ..job()
        },
    ));
    site.submit(limited(
        3600,
        Spec {
            queue: "wide".into(),
            min: 4,
            max: 4,
            ..job()
        },
    ));
    let id = site.submit(limited(4 * 3600, job()));
    let waiting = site.explain(id);
    let offered: Vec<String> = (waiting.helpful_changes.iter())
        .map(|help| help.candidate.command(id))
        .collect();
    assert!(
        offered.contains(&format!("cmod -W 1:00 {id}")),
        "{offered:?}"
    );
    site.check(
        id,
        "kept for a job with a reservation",
        &format!("cmod -W 1:00 {id}"),
    );
}

/// The same question asked by `cslots`.
#[test]
fn slots_beside_a_reservation_last_until_it_begins() {
    let site = |normal: &str| {
        let mut site = TestCluster::new(&format!(
            "hosts:\n- {{name: h1, slots: 4}}\n- {{name: h2, slots: 2}}\n\
             queues:\n- {{name: top, priority: 90}}\n\
             - {{name: wide, priority: 50, hosts: h1, slot_reserve: 24h, backfill: yes}}\n\
             - {{name: normal, priority: 10{normal}}}\n"
        ));
        for (run_s, queue, slots) in [(7200, "top", 3), (3600, "wide", 4)] {
            let spec = Spec {
                queue: queue.into(),
                hosts: "h1".into(),
                min: slots,
                max: slots,
                ..job()
            };
            site.submit(limited(run_s, spec));
        }
        site
    };
    let free = (None, vec![Share("h2".to_owned(), 2)]);
    let backfills = site(", backfill: yes");
    let beside = [Share("h1".to_owned(), 1), Share("h2".to_owned(), 2)];
    let until = Some(7200);
    assert_eq!(
        slots(&backfills, &job()),
        [(until, beside.to_vec()), free.clone()]
    );
    // A queue without backfill gets what no reservation ever needs.
    assert_eq!(slots(&site(""), &job()), std::slice::from_ref(&free));
    let never = Spec {
        res_req: "select[mem>999999]".into(),
        ..job()
    };
    assert_eq!(slots(&backfills, &never), []);
    let inactive = Spec {
        queue: "top".into(),
        hosts: "h2".into(),
        ..job()
    };
    assert_eq!(slots(&backfills, &inactive), [free]);
}

/// What a copy of the site offers to one more job, by the seconds that it may last.
fn slots(site: &TestCluster, spec: &Spec) -> Vec<(Option<i64>, Vec<Share>)> {
    let of = |opening: Opening| {
        let seconds = opening.until.map(|at| (at - NOW.0) / 1000);
        (seconds, opening.hosts)
    };
    let found = site.copy().openings(spec);
    found.into_iter().map(of).collect()
}

#[test]
fn slots_are_those_that_every_limit_leaves() {
    // u1000 runs two jobs of one slot on h1, u2000 one; three hosts of four slots.
    let offered = |limits: &str, spec: &Spec| {
        let mut site = TestCluster::new(&format!(
            "hosts:\n- {{names: 'h[1-3]', slots: 4}}\n{limits}"
        ));
        for uid in [1000, 1000, 2000] {
            site.submit(Spec {
                uid,
                user: format!("u{uid}"),
                hosts: "h1".into(),
                ..job()
            });
        }
        let found = slots(&site, spec);
        assert!(found.len() <= 1, "{limits}: nothing is reserved: {found:?}");
        let hosts = found.into_iter().flat_map(|(_, hosts)| hosts);
        hosts.map(|share| share.1).collect::<Vec<_>>()
    };
    let none: [u32; 0] = [];
    let queue = |keys: &str| format!("queues: [{{name: normal{keys}}}]\n");
    let with = |limit: &str| format!("{}limits: [{{name: l, {limit}}}]\n", queue(""));
    let of = |text: &str| offered(text, &job());
    assert_eq!(of(&queue("")), [1, 4, 4]);
    assert_eq!(of(&queue(", slots: 9")), [1, 4, 1]);
    assert_eq!(of(&queue(", user_slots: 5")), [1, 2]);
    assert_eq!(of(&queue(", host_slots: 2")), [2, 2]);
    assert_eq!(
        of("queues: [{name: normal}]\nusers: [{name: u1000, max_slots: 2}]\n"),
        none
    );
    assert_eq!(
        of("queues: [{name: normal}]\nusers: [{name: u1000, slots_per_cpu: 0.75}]\n"),
        [1, 3, 3]
    );
    assert_eq!(of(&with("slots: 10")), [1, 4, 2]);
    assert_eq!(of(&with("users: u2000, slots: 1")), [1, 4, 4]);
    assert_eq!(of(&with("per_user: all, slots: 4")), [1, 1]);
    assert_eq!(of(&with("jobs: 3")), none);
    assert_eq!(of(&with("per_host: all, slots: 3")), [3, 3]);
    assert_eq!(of(&with("hosts: h2 h3, slots: 5")), [1, 4, 1]);
    let reserves = Spec {
        res_req: "rusage[mem=10G]".into(),
        ..job()
    };
    // 10 GB for the job on each of its hosts.
    let memory = with("resources: '[mem,20G]'");
    assert_eq!(offered(&memory, &reserves), [1, 4]);
}

#[test]
fn jobs_that_come_first_are_counted() {
    let mut site = TestCluster::new(
        "hosts:\n- {name: h1, slots: 1}\n\
         queues:\n- {name: normal, priority: 10}\n- {name: high, priority: 20}\n",
    );
    site.ask(1, "");
    site.ask(1, "");
    site.submit(Spec {
        queue: "high".into(),
        ..job()
    });
    site.submit_array(
        Spec {
            queue: "high".into(),
            ..job()
        },
        "1-3",
        0,
    );
    let id = site.ask(1, "");
    let waiting = site.explain(id);
    // One of the four jobs of the queue high runs.
    let want = JobsAhead {
        higher: 3,
        same: 2,
        by_order: true,
    };
    assert_eq!(waiting.ahead, want);
    assert!(
        waiting.helpful_changes.is_empty(),
        "nothing starts on a full host"
    );
    assert_eq!(
        text::jobs_ahead_text(&waiting.ahead),
        "2 jobs before it in its queue, 3 jobs in queues of higher priority"
    );
}

#[test]
fn trials_leave_no_trace() {
    let mut site = two();
    site.ask(1, "select[hname==h1] rusage[mem=40G]");
    site.ask(1, "select[hname==h2] rusage[mem=50G]");
    let id = site.ask(1, "rusage[mem=40G]");
    let mut copy = site.copy();
    let rows = |copy: &super::ClusterCopy| -> Vec<String> {
        let keys = (1..=id).map(JobKey::job);
        keys.map(|j| format!("{:?}", copy.state.row(j).map(|row| (row.stat, row.hosts))))
            .collect()
    };
    let before = rows(&copy);
    let j = JobKey::job(id);
    let first = super::pending::explain(&mut copy, j, &mut || true);
    let again = super::pending::explain(&mut copy, j, &mut || true);
    assert_eq!(rows(&copy), before);
    assert_eq!((first.reason, first.hosts), (again.reason, again.hosts));
    assert_eq!(first.helpful_changes, again.helpful_changes);
}

#[test]
fn trials_end_when_time_is_over() {
    let mut site = two();
    site.ask(8, "");
    let id = site.ask(1, "select[hname==h1] rusage[mem=1G]");
    let mut none = || false;
    let waiting = super::pending::explain(&mut site.copy(), JobKey::job(id), &mut none);
    assert_eq!((waiting.out_of_time, waiting.tried), (true, 0));
}
