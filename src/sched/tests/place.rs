//! Where jobs are placed: packing, spreading, order, spans, exclusive use, host types.

use super::{Cluster, job};
use crate::model::{JobStat, Spec};

fn cluster(hosts: &str, queue: &str) -> Cluster {
    Cluster::new(&format!(
        "hosts:\n{hosts}queues:\n- {{name: normal{queue}}}\n"
    ))
}

/// Three hosts with 8, 4 and 6 slots.
fn three(queue: &str) -> Cluster {
    let hosts = "- {name: h1, slots: 8}\n- {name: h2, slots: 4}\n- {name: h3, slots: 6}\n";
    cluster(hosts, queue)
}

/// Submits a job, runs a pass, and returns where it runs.
fn run(c: &mut Cluster, slots: u32, res_req: &str) -> String {
    let id = c.ask(slots, res_req);
    c.pass();
    c.on(id)
}

#[test]
fn jobs_start_in_order_where_slots_are_free() {
    let mut c = Cluster::equal(2, 2);
    let ids: Vec<u32> = (0..5).map(|_| c.submit(job(1))).collect();
    assert_eq!(c.pass(), ids[..4]);
    assert_eq!(c.why(ids[4]), "no free job slots: 2 hosts");
    c.end(ids[0]);
    assert_eq!(c.pass(), ids[4..]);
}

#[test]
fn case_12_exclusive_jobs_want_whole_hosts_and_keep_others_off() {
    let hosts = "- {name: h1, slots: 4}\n- {name: h2, slots: 4}\n";
    let mut c = cluster(hosts, ", exclusive: yes, packing: pack");
    let exclusive = || Spec {
        exclusive: true,
        ..job(1)
    };
    assert_eq!(run(&mut c, 1, ""), "h1:1");
    let x = c.submit(exclusive());
    c.pass();
    assert_eq!(c.on(x), "h2:1");
    assert_eq!(run(&mut c, 1, ""), "h1:1");
    let y = c.submit(exclusive());
    c.pass();
    assert_eq!(c.why(y), "exclusive use conflicts: 2 hosts");
    c.end(x);
    assert_eq!(c.pass(), [y]);
    assert_eq!(c.on(y), "h2:1");
}

#[test]
fn case_27_packing_takes_the_fullest_host_that_fits() {
    for mut c in [three(", packing: pack"), three("")] {
        let order = match c.config.queues[0].packing {
            crate::config::Packing::Pack => "span[hosts=1]",
            _ => "order[-slots] span[hosts=1]",
        };
        let mut on = |slots| run(&mut c, slots, order);
        assert_eq!(
            [on(2), on(2), on(4), on(8)],
            ["h2:2", "h2:2", "h3:4", "h1:8"]
        );
    }
}

#[test]
fn case_28_spreading_takes_the_emptiest_host_and_ties_go_by_the_file() {
    for (queue, req) in [
        (", packing: spread", "span[hosts=1]"),
        (", packing: pack", "order[slots] span[hosts=1]"),
    ] {
        let mut c = three(queue);
        let mut on = |slots| run(&mut c, slots, req);
        assert_eq!([on(2), on(2), on(4)], ["h1:2", "h1:2", "h3:4"]);
        let id = c.ask(8, req);
        c.pass();
        assert_eq!(c.on(id), "");
    }
}

#[test]
fn order_keys_go_one_after_the_other_in_the_better_direction() {
    let mut c = Cluster::equal(3, 4);
    for (host, ut, mem) in [
        ("h1", 0.5, 4000.0),
        ("h2", 0.1, 1000.0),
        ("h3", 0.1, 2000.0),
    ] {
        c.sample(host, |doc| (doc.ut, doc.mem) = (ut, mem));
    }
    assert_eq!(run(&mut c, 1, "order[ut:mem]"), "h3:1");
    assert_eq!(run(&mut c, 1, "order[ut:-mem]"), "h2:1");
    assert_eq!(run(&mut c, 1, "order[-ut]"), "h1:1");
    assert_eq!(run(&mut c, 1, "order[mem]"), "h1:1");
    // Without anything else the reserved amount counts.
    assert_eq!(run(&mut c, 1, "order[mem] rusage[mem=3500]"), "h1:1");
    assert_eq!(run(&mut c, 1, "order[mem]"), "h3:1");
}

#[test]
fn asked_hosts_with_a_preference_come_before_the_order() {
    let mut c = three("");
    let id = c.submit(Spec {
        hosts: "h2+1 h1 h3".into(),
        res_req: "order[slots]".into(),
        ..job(5)
    });
    c.pass();
    assert_eq!(c.on(id), "h2:4 h1:1");
}

#[test]
fn spans_say_how_slots_lie_on_hosts() {
    for (slots, req, on) in [
        (6, "span[ptile=2]", "h1:2 h3:2 h2:2"),
        (5, "span[ptile=2]", "h1:2 h3:2 h2:1"),
        (12, "span[ptile='!']", "h1:8 h3:4"),
        (14, "span[ptile='!']", "h1:8 h3:6"),
        (5, "span[hosts=2,2]", "h1:4 h3:1"),
        (5, "span[hosts=3,3]", "h1:3 h3:1 h2:1"),
        (18, "span[hosts=1,3]", "h1:8 h3:6 h2:4"),
        (7, "span[block=3]", "h1:7"),
        (11, "span[block=3]", "h1:6 h3:5"),
        (5, "span[stride=1]", "h1:1 h3:1 h2:1 h1:1 h3:1"),
        (7, "span[stride=2]", "h1:2 h3:2 h2:2 h1:1"),
        (18, "span[stride=4]", "h1:4 h3:4 h2:4 h1:4 h3:2"),
        (18, "", "h1:8 h3:6 h2:4"),
    ] {
        let mut c = three("");
        assert_eq!(run(&mut c, slots, req), on, "{slots} {req}");
    }
}

#[test]
fn a_range_of_hosts_skips_better_hosts_that_would_not_leave_enough() {
    let mut c = three(", packing: pack");
    // Fullest first: h2 (4), h3 (6), h1 (8); two hosts with 13 slots must be h3 and h1.
    assert_eq!(run(&mut c, 13, "span[hosts=1,2]"), "h3:6 h1:7");
    let mut c = three("");
    let id = c.ask(15, "span[hosts=2,2]");
    c.pass();
    assert_eq!(
        c.why(id),
        "it needs 15 slots on 2 hosts, hosts it may use have 14; can never run here"
    );
}

#[test]
fn a_job_without_word_of_types_stays_on_its_own_kind() {
    let mut c = Cluster::equal(2, 1);
    c.sample("h2", |doc| doc.host_type = "Y".into());
    let ids = [c.submit(job(1)), c.submit(job(1))];
    assert_eq!(c.pass(), ids[..1]);
    assert_eq!(
        c.why(ids[1]),
        "no free job slots: 1 host; not of the submission host's type: 1 host"
    );
    assert_eq!(run(&mut c, 1, "type==any"), "h2:1");
}

#[test]
fn what_a_host_lacks_makes_a_condition_neither_true_nor_false() {
    let hosts = "- {name: h1, slots: 4, resources: {lic: 2}, tags: fs}\n- {name: h2, slots: 4}\n";
    for (req, on) in [
        ("select[lic>1]", "h1:1"),
        ("select[!(lic>1)]", ""),
        ("select[!defined(lic)]", "h2:1"),
        ("select[lic<1 || mem>1] order[-slots]", "h1:1"),
        ("select[!fs]", "h2:1"),
        ("select[lic>5, !fs]", "h2:1"),
        ("select[hname==h2]", "h2:1"),
        ("select[type==local && fs]", "h1:1"),
        ("rusage[lic=1]", "h1:1"),
    ] {
        let mut c = cluster(hosts, "");
        assert_eq!(run(&mut c, 1, req), on, "{req}");
    }
}

#[test]
fn alternatives_of_select_and_rusage_are_tried_in_their_order() {
    let hosts = "- {name: h1, slots: 1, resources: {a: 1}}\n\
                 - {name: h2, slots: 1, resources: {b: 1}}\n\
                 - {name: h3, slots: 1}\n";
    let mut c = cluster(hosts, "");
    let req = "select[hname==h3, hname==h1]";
    assert_eq!(run(&mut c, 1, req), "h3:1");
    assert_eq!(run(&mut c, 1, req), "h1:1");
    let mut c = cluster(hosts, "");
    let req = "rusage[b=1 || a=1]";
    assert_eq!(run(&mut c, 1, req), "h2:1");
    assert_eq!(run(&mut c, 1, req), "h1:1");
    let id = c.ask(1, req);
    c.pass();
    assert_eq!(c.on(id), "");
}

#[test]
fn an_alternative_with_a_delay_opens_when_the_job_has_waited_so_long() {
    let hosts = "- {name: h1, slots: 1}\n- {name: h2, slots: 1}\n";
    let mut c = cluster(hosts, "");
    let id = c.ask(1, "{hname==h9} || {hname==h2}@120");
    assert!(c.pass().is_empty());
    assert_eq!(c.last.wake.map(|t| t.0 - c.now.0), Some(120_000));
    c.after(119);
    assert!(c.pass().is_empty());
    c.after(1);
    assert_eq!(c.pass(), [id]);
    assert_eq!(c.on(id), "h2:1");
}

#[test]
fn values_that_must_be_equal_choose_the_class_that_holds_the_job() {
    let hosts = "- {name: h1, slots: 3, model: A}\n- {name: h2, slots: 2, model: B}\n\
                 - {name: h3, slots: 2, model: B}\n- {name: h4, slots: 2, model: A}\n";
    let text = "hostmodels: [{name: A, cpuf: 1}, {name: B, cpuf: 2}]\n";
    for (slots, on) in [(4, "h1:3 h4:1"), (5, "h1:3 h4:2"), (6, "")] {
        let mut c = Cluster::new(&format!(
            "{text}hosts:\n{hosts}queues:\n- {{name: normal}}\n"
        ));
        assert_eq!(run(&mut c, slots, "same[model]"), on);
    }
    let mut c = Cluster::new(&format!(
        "{text}hosts:\n{hosts}queues:\n- {{name: normal}}\n"
    ));
    assert_eq!(run(&mut c, 2, "select[hname==h1]"), "h1:2");
    assert_eq!(run(&mut c, 4, "same[model]"), "h2:2 h3:2");
}

#[test]
fn compute_units_hold_the_job_together() {
    let hosts = "- {name: h1, slots: 2, unit: r1}\n- {name: h2, slots: 2, unit: r2}\n\
                 - {name: h3, slots: 3, unit: r2}\n- {name: h4, slots: 1, unit: r1}\n\
                 - {name: h5, slots: 4}\n";
    for (slots, req, on) in [
        (3, "cu[maxcus=1]", "h3:3"),
        (5, "cu[type=rack:maxcus=1]", "h3:3 h2:2"),
        (2, "cu[pref=config]", "h1:2"),
        (3, "cu[maxcus=1:pref=minavail]", "h1:2 h4:1"),
        (3, "cu[maxcus=1:pref=maxavail]", "h3:3"),
        (8, "cu[maxcus=2]", "h3:3 h2:2 h1:2 h4:1"),
        (6, "cu[balance:pref=config]", "h1:2 h4:1 h3:3"),
        (5, "cu[balance:pref=maxavail]", "h3:3 h2:2"),
        (7, "cu[balance]", "h3:3 h2:1 h1:2 h4:1"),
        (8, "cu[balance]", ""),
        (9, "cu[maxcus=2]", ""),
        (6, "cu[usablecuslots=4]", ""),
        (5, "cu[usablecuslots=4]", "h3:3 h2:2"),
    ] {
        let mut c = cluster(hosts, "");
        assert_eq!(run(&mut c, slots, req), on, "{slots} {req}");
    }
}

/// Shares differ by at most one slot: 3 and 2 are as even as 5 gets.
#[test]
fn units_share_a_job_as_evenly_as_can_be() {
    let hosts = "- {name: h1, slots: 2, unit: r1}\n- {name: h2, slots: 3, unit: r2}\n\
                 - {name: h3, slots: 3, unit: r3}\n";
    for (slots, req, on) in [
        (5, "cu[balance]", "h2:3 h3:2"),
        (6, "cu[balance]", "h2:3 h3:3"),
        (7, "cu[balance]", "h2:3 h3:2 h1:2"),
        (8, "cu[balance]", "h2:3 h3:3 h1:2"),
        (6, "4{} 2{} cu[balance]", "h2:3 h3:1 h3:2"),
        (6, "2{hname==h3} 4{} cu[balance]", "h3:2 h3:1 h2:3"),
        (
            6,
            "3{span[hosts=1]} 3{span[hosts=1]} cu[balance]",
            "h2:3 h3:3",
        ),
        (5, "3{hname==h1} 2{} cu[balance]", ""),
        (8, "4{span[hosts=1]} 4{} cu[balance]", ""),
    ] {
        let mut c = cluster(hosts, "");
        assert_eq!(run(&mut c, slots, req), on, "{slots} {req}");
    }
}

#[test]
fn units_wanted_alone_are_empty_and_stay_so() {
    let hosts = "- {name: h1, slots: 2, unit: r1}\n- {name: h2, slots: 2, unit: r1}\n\
                 - {name: h3, slots: 2, unit: r2}\n- {name: h4, slots: 2, unit: r2, user_slots: 2}\n\
                 - {name: h5, slots: 1}\n";
    let mut c = cluster(hosts, "");
    let small = c.ask(1, "hname==h1");
    assert_eq!(c.pass(), [small]);
    let alone = c.ask(1, "cu[excl]");
    let next = c.ask(1, "cu[excl:maxcus=1]");
    assert_eq!(c.pass(), [alone]);
    assert_eq!(c.on(alone), "h3:1", "somebody is in r1");
    assert_eq!(
        c.why(next),
        "exclusive use conflicts: 3 hosts; span[], same[] or cu[] not satisfied: 2 hosts"
    );
    let others: Vec<u32> = (0..5).map(|_| c.ask(1, "")).collect();
    assert_eq!(
        c.pass(),
        others[..4],
        "r1 and h5 have four slots left, r2 none"
    );
    c.end(alone);
    assert_eq!(
        c.pass(),
        [next],
        "r2 is empty again, and this one came first"
    );
    assert_eq!(c.stat(others[4]), JobStat::Pend);
    let state = c.state.clone();
    let (mut state, mut fresh) = (state, crate::sched::Engine::new(c.config.clone()));
    fresh.sync(&mut state, &mut c.table);
    let alone: Vec<u32> = fresh
        .picture
        .usage
        .iter()
        .map(|host| host.exclusive)
        .collect();
    assert_eq!(alone, [0, 0, 1, 1, 0], "as a new leader sees it");
    c.end(next);
    assert_eq!(c.pass(), [others[4]]);
}

#[test]
fn whole_units_and_even_shares_are_for_the_whole_job() {
    let c = cluster("- {name: h1, slots: 2, unit: r1}\n", "");
    for (req, part) in [
        ("1{cu[excl]} 1{}", "write it after the sections"),
        ("1{same[model]} 1{} cu[balance]", "may not have same[]"),
        ("1{} 1{} span[stride=1] cu[balance]", "span[stride=N]"),
    ] {
        let refused = crate::config::require::check_request(req, &c.config).unwrap_err();
        assert!(refused.to_string().contains(part), "{refused}");
    }
}

#[test]
fn units_alone_count_where_the_job_has_slots_only() {
    let mut c = Cluster::new(
        "hosts:\n- {names: 'h[1-4]', slots: 2, unit: r1}\nqueues:\n- {name: normal}\n\
         limits:\n- {name: one, per_host: all, jobs: 1}\n",
    );
    let id = c.ask(3, "2{} 1{} cu[excl]");
    assert_eq!(c.pass(), [id]);
    assert_eq!(c.on(id), "h1:2 h2:1");
    let bars: Vec<u32> = c
        .engine
        .picture
        .usage
        .iter()
        .map(|host| host.jobs)
        .collect();
    assert_eq!(bars, [1; 4]);
    c.end(id);
    let ids: Vec<u32> = (0..5).map(|_| c.ask(1, "")).collect();
    assert_eq!(c.pass(), ids[..4]);
}

#[test]
fn amounts_count_for_each_slot_host_or_job() {
    let hosts = "- {name: h1, slots: 4, resources: {lic: 4}}\n\
                 - {name: h2, slots: 4, resources: {lic: 4}}\n";
    for (slots, req, left) in [
        (6, "rusage[lic=1]", [3.0, 3.0]),
        (6, "rusage[lic=1/task]", [0.0, 2.0]),
        (6, "rusage[lic=2/job]", [2.0, 4.0]),
        (6, "rusage[lic=2/host]", [2.0, 2.0]),
    ] {
        let mut c = cluster(hosts, "");
        let id = c.ask(slots, req);
        assert_eq!(c.pass(), [id], "{req}");
        let taken = |c: &Cluster, host| -> f64 {
            let list = c.engine.reserved(&c.table, host);
            list.iter().map(|(_, n)| n).sum()
        };
        assert_eq!(
            [4.0 - taken(&c, "h1"), 4.0 - taken(&c, "h2")],
            left,
            "{req}"
        );
        c.end(id);
        c.pass();
        assert_eq!([taken(&c, "h1"), taken(&c, "h2")], [0.0, 0.0], "{req}");
    }
    // Only h2 has what the job takes once, so it comes first.
    let hosts = "- {name: h1, slots: 4}\n- {name: h2, slots: 2, resources: {lic: 1}}\n";
    let mut c = cluster(hosts, "");
    assert_eq!(run(&mut c, 6, "rusage[lic=1/job]"), "h2:2 h1:4");
}

#[test]
fn a_declaration_says_what_an_amount_counts_for() {
    let taken = |extra: &str, req: &str| {
        let mut c = Cluster::new(&format!(
            "resources: [{{name: fpga, slotresource: yes}}, {{name: lic}}]\n{extra}\
             hosts: [{{name: h1, slots: 4, resources: {{fpga: 9, lic: 9}}}}]\n\
             queues: [{{name: normal}}]\n"
        ));
        let id = c.ask(3, req);
        assert_eq!(c.pass(), [id]);
        let list = c.engine.reserved(&c.table, "h1");
        list.iter().map(|(_, n)| *n).sum::<f64>()
    };
    assert_eq!(taken("", "rusage[fpga=1]"), 3.0);
    assert_eq!(taken("", "rusage[fpga=1/host]"), 1.0);
    assert_eq!(taken("", "rusage[lic=1]"), 1.0);
    assert_eq!(taken("", "rusage[lic=1/task]"), 3.0);
    let all = "general: {resource_reserve_per_task: yes}\n";
    assert_eq!(taken(all, "rusage[lic=1]"), 3.0);
    assert_eq!(taken(all, "rusage[lic=1/host]"), 1.0);
}

/// Three slots for four cores at 0.75 each, rounded up at 0.6.
#[test]
fn users_have_so_many_slots_for_each_core_of_a_host() {
    for (each, slots) in [("0.75", 3), ("0.6", 3), ("1", 4)] {
        let mut c = Cluster::new(&format!(
            "hosts:\n- {{name: h1, slots: 8}}\n- {{name: h2, slots: 8, user_slots: 1}}\n\
             users:\n- {{name: u1000, slots_per_cpu: {each}}}\n\
             queues:\n- {{name: normal, packing: pack, elastic: yes}}\n"
        ));
        let grows = c.submit(Spec { max: 8, ..job(1) });
        let other = Spec {
            uid: 7,
            user: "u7".into(),
            hosts: "h1".into(),
            ..job(1)
        };
        assert_eq!(c.pass(), [grows]);
        assert_eq!(c.on(grows), format!("h1:{slots} h2:1"));
        let (more, others) = (c.submit(job(1)), c.submit(other));
        assert_eq!(c.pass(), [others]);
        assert_eq!(
            c.why(more),
            "user's slot limit on the host reached: 2 hosts"
        );
        c.end(grows);
        assert_eq!(c.pass(), [more]);
    }
}

/// A reason names the resource, the amount and the host that comes nearest, and what holds a host.
#[test]
fn reasons_name_what_is_missing() {
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 4}\n- {name: h2, slots: 4, resources: {lic: 3}}\n\
         - {name: h3, server: no}\nqueues:\n- {name: normal}\n",
    );
    c.sample("h2", |doc| doc.mem = 2048.0);
    let first = c.ask(1, "rusage[mem=6G]");
    let (mem, lic) = (c.ask(1, "rusage[mem=6G]"), c.ask(1, "rusage[lic=5]"));
    assert_eq!(c.pass(), [first]);
    let why = c.why(mem);
    let nearest = "rusage[mem=6G]: at most 2G is left (host h2)";
    assert!(why.ends_with(nearest), "{why}");
    assert!(why.contains("runs no jobs (server: no): 1 host"), "{why}");
    let why = c.why(lic);
    assert_eq!(
        why,
        "rusage[lic=5]: no host has that much (largest h2: 3); can never run here"
    );
}

/// If no host has enough even when idle, the reason states it, once all amounts of all hosts are
/// known.
#[test]
fn what_no_host_will_ever_have_is_named_with_the_largest() {
    let hosts = "hosts:\n- {name: h1, slots: 8}\n- {name: h2, slots: 8}\n\
                 queues:\n- {name: normal}\n";
    let mut c = Cluster::new(hosts);
    let known = |c: &mut Cluster, host: &str, gb: u64| {
        c.sample(host, |doc| {
            (doc.ncpus, doc.maxmem, doc.mem) = (8, gb * 1024, 1024.0);
        });
    };
    let ids = [
        c.ask(1, "rusage[mem=50G]"),
        c.ask(4, "rusage[mem=7G/task] span[hosts=1]"),
        c.ask(1, "{rusage[mem=50G]} || {rusage[mem=4G]}"),
    ];
    known(&mut c, "h1", 24);
    c.sample("h2", |doc| (doc.maxmem, doc.mem) = (0, 1024.0));
    assert_eq!(c.pass(), super::NOBODY);
    let why = c.why(ids[0]);
    assert!(
        why.ends_with("at most 1G is left (host h1)"),
        "h2 is not known: {why}"
    );
    known(&mut c, "h2", 16);
    c.now = c.now.plus_ms(5000);
    assert_eq!(c.pass(), super::NOBODY);
    assert_eq!(
        c.why(ids[0]),
        "rusage[mem=50G]: no host has that much (largest h1: 24G); can never run here"
    );
    assert_eq!(
        c.why(ids[1]),
        "rusage[mem=7G] for 4 slots on one host: no host has that much (largest h1: 24G); can \
         never run here"
    );
    let why = c.why(ids[2]);
    assert!(!why.contains("never"), "one alternative can be met: {why}");
}

#[test]
fn reasons_name_the_part_of_select_that_fails_on_the_nearest_host() {
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 4}\n- {name: h2, slots: 4, tags: big}\n\
         queues:\n- {name: normal}\n",
    );
    c.sample("h1", |doc| doc.mem = 2048.0);
    c.sample("h2", |doc| (doc.mem, doc.r1m) = (23_456.0, 0.5));
    let few = c.ask(1, "select[mem>100G && big]");
    let tag = c.ask(1, "select[mem>1G && big && r1m<0.1 && type==SUN]");
    assert_eq!(c.pass(), super::NOBODY);
    assert_eq!(
        c.why(few),
        "select[] not satisfied: 2 hosts; select[mem > 100G]: host h2 comes nearest, it has mem \
         22.5G"
    );
    let why = c.why(tag);
    let part = "select[r1m < 0.1 && type==SUN]: host h2 comes nearest, it has r1m 0.5, type X";
    assert!(why.ends_with(part), "{why}");
}

#[test]
fn a_job_that_waits_for_its_begin_time_names_it() {
    let mut c = Cluster::equal(1, 1);
    let begin = |c: &Cluster, ms| Spec {
        begin: Some(c.now.plus_ms(ms)),
        ..job(1)
    };
    let soon = c.submit(begin(&c, 3_600_000));
    let later = c.submit(begin(&c, 400 * 86_400_000));
    c.pass();
    let dated = |ms, year: &str| {
        let zone = jiff::tz::TimeZone::UTC;
        let day = crate::text::duration::date(c.now.plus_ms(ms).0, &zone);
        format!("waits for its begin time (-b), {day}{year}")
    };
    assert_eq!(c.why(soon), dated(3_600_000, ""));
    let why = c.why(later);
    let year = &why[why.len() - 5..];
    assert!(year.starts_with(" 20") || year.starts_with(" 19"), "{why}");
}

/// The reason of a class that had no jobs for a while is published again, even if it is the same.
#[test]
fn a_job_like_an_earlier_one_gets_its_reason_at_once() {
    let mut c = Cluster::equal(1, 1);
    let first = c.submit(job(1));
    let spec = c.state.job(first).expect("it is there").spec;
    c.pass();
    let waits = c.submit(job(1));
    c.pass();
    let class = c.state.class_of(spec);
    let _ = c.state.take_delta();
    c.end(first);
    assert_eq!(c.pass(), [waits]);
    let _ = c.state.take_delta();
    c.submit(job(1));
    c.pass();
    let delta = c.state.take_delta();
    let (rows, _) = c.state.delta_rows(delta);
    let hits = |row: &crate::record::view::Row<'_>| matches!(row, crate::record::view::Row::Class { id, .. } if *id == class);
    assert!(rows.iter().any(hits));
}

#[test]
fn a_reason_names_the_reservation_that_keeps_a_host() {
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 2}\n\
         queues:\n- {name: normal, slot_reserve: 1h, backfill: yes}\n",
    );
    let mut short = job(1);
    short.limits.run_s = Some(600);
    let first = c.submit(short);
    let wide = c.submit(job(2));
    let small = c.submit(job(1));
    assert_eq!(c.pass(), [first], "job {wide} has the other slot reserved");
    assert_eq!(c.why(small), "kept for a job with a reservation: 1 host");
}
