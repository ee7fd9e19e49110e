//! The results of valid scheduling settings, and their answers about users, jobs and times.

use super::super::*;
use super::{good, os, read, warnings, with};
use crate::model::{CpuBind, Stamp};
use jiff::tz::TimeZone;

fn queue(extra: &str) -> Queue {
    let c = good(&format!("queues: [{{name: q, {extra}}}]"));
    c.queues.into_iter().next().unwrap()
}

/// The path in the first queue's tree as `node:shares` steps, or `-` if the user has no share.
fn way(c: &Config, user: &str, os_groups: &[&str]) -> String {
    let groups: Vec<String> = os_groups.iter().map(|g| g.to_string()).collect();
    let shares = c.queues[0].policy.shares().expect("a queue with shares");
    let Some(path) = c.share_path(shares, user, &groups) else {
        return "-".into();
    };
    let name = |s: &ShareStep<'_>| match s.node {
        ShareNode::Group(n) => format!("{n}/:{}", s.shares),
        ShareNode::Others => format!("others/:{}", s.shares),
        ShareNode::User(n) => format!("{n}:{}", s.shares),
    };
    path.iter().map(name).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_queue_of_which_nothing_is_said() {
    let c = good("");
    assert_eq!(c.queues[0], Queue::named("q"));
    assert_eq!(c.limits, []);
    assert_eq!(c.general.job_check_interval_ms, 2000);
    assert_eq!(c.general.pg_susp_it_ms, 180_000);
    assert_eq!(c.hosts.entries[0].unit, None);
}

#[test]
fn the_order_of_a_queue() {
    let equal = |p: &Policy| match p.shares() {
        Some(s) => s.entries.len() == 1 && s.entries[0].subject == ShareSubject::Default,
        None => false,
    };
    assert_eq!(queue("policy: fifo").policy, Policy::Fifo);
    assert_eq!(queue("policy: rr").policy, Policy::RoundRobin);
    assert_eq!(queue("round_robin: yes").policy, Policy::RoundRobin);
    assert_eq!(queue("round_robin: no").policy, Policy::Fifo);
    assert_eq!(
        queue("policy: rr, round_robin: yes").policy,
        Policy::RoundRobin
    );
    let drf = queue("policy: drf").policy;
    assert!(matches!(drf, Policy::Drf(_)) && equal(&drf));
    let fair = queue("policy: fairshare").policy;
    assert!(matches!(fair, Policy::Fairshare(_)) && equal(&fair));
    let shares = queue("fairshare: '[u1,2] [default,1]'").policy;
    assert!(matches!(&shares, Policy::Fairshare(s) if s.entries.len() == 2));
    let weights = queue("policy: drf, fairshare: '[u1,2] [default,1]'").policy;
    assert!(matches!(&weights, Policy::Drf(s) if s.entries[0].shares == 2));
}

#[test]
fn shares_are_read_quoted_and_unquoted() {
    let groups = "usergroups: [{name: g1, members: u1 u2}, {name: g3, members: u3}]\n";
    let of = |value: &str| {
        let c = good(&format!(
            "{groups}queues:\n- name: q\n  fairshare: {value}\n"
        ));
        c.queues[0].policy.shares().unwrap().entries.clone()
    };
    let group = |name: &str, shares| ShareEntry {
        subject: ShareSubject::Group(name.into()),
        shares,
    };
    let want = [group("g1", 2), group("g3", 1)];
    assert_eq!(of("'[g1,2] [g3,1]'"), want);
    assert_eq!(of("[g1,2] [g3,1]"), want);
    assert_eq!(of("\"[ g1 , 2 ][g3,1]\""), want);
    let all = of("'[u7,3] [g1@,1] [staff,5] [default,1] [others,4]'");
    assert_eq!(
        all.into_iter().map(|e| e.subject).collect::<Vec<_>>(),
        [
            ShareSubject::User("u7".into()),
            ShareSubject::GroupEach("g1".into()),
            ShareSubject::Group("staff".into()),
            ShareSubject::Default,
            ShareSubject::Others,
        ]
    );
}

#[test]
fn a_users_way_down_the_tree() {
    let c = good(
        "usergroups:\n- {name: dep, members: proj u4, fairshare: '[proj,3] [default,1]'}\n\
         - {name: proj, members: u1 u2, fairshare: '[u1,2] [default,1]'}\n\
         - {name: flat, members: u5 u6}\n- {name: each, members: u7 u8}\n\
         queues: [{name: q, fairshare: '[dep,20] [flat,10] [each@,4] [staff,2] [u9,1]'}]\n",
    );
    assert_eq!(way(&c, "u1", &[]), "dep/:20 proj/:3 u1:2");
    assert_eq!(way(&c, "u2", &[]), "dep/:20 proj/:3 u2:1");
    assert_eq!(way(&c, "u4", &[]), "dep/:20 u4:1");
    assert_eq!(way(&c, "u5", &[]), "flat/:10 u5:1");
    assert_eq!(way(&c, "u8", &[]), "u8:4");
    assert_eq!(way(&c, "u9", &[]), "u9:1");
    assert_eq!(way(&c, "zoe", &["staff"]), "staff/:2 zoe:1");
    assert_eq!(way(&c, "zoe", &["wheel"]), "-");
}

#[test]
fn named_beats_group_beats_default_beats_others() {
    let c = good(
        "usergroups: [{name: g, members: u1 u2}, {name: h, members: u1 u2 u3}]\n\
         queues: [{name: q, fairshare: '[others,9] [default,1] [h,3] [g,2] [u1,5]'}]",
    );
    assert_eq!(way(&c, "u1", &[]), "u1:5");
    assert_eq!(way(&c, "u2", &[]), "h/:3 u2:1");
    assert_eq!(way(&c, "u8", &[]), "u8:1");
    let c = good("queues: [{name: q, fairshare: '[others,9] [u1,5]'}]");
    assert_eq!(way(&c, "u8", &[]), "others/:9 u8:1");
}

#[test]
fn a_maze_of_groups_costs_no_more_than_its_groups() {
    // Two groups on each of 30 levels, each with both of the next; the last level has no users.
    let mut groups =
        String::from("usergroups:\n- {name: end, members: all, fairshare: '[u1,1]'}\n");
    for i in 0..30 {
        let next = match i {
            29 => "[end,1]".to_string(),
            _ => format!("[a{0},1] [b{0},1]", i + 1),
        };
        for name in ["a", "b"] {
            groups += &format!("- {{name: {name}{i}, members: all, fairshare: '{next}'}}\n");
        }
    }
    let c = good(&format!(
        "{groups}queues: [{{name: q, fairshare: '[a0,1] [b0,1]'}}]\n"
    ));
    let begin = crate::text::cpu_time();
    assert_eq!(way(&c, "u2", &[]), "-");
    assert_eq!(way(&c, "u1", &[]).split(' ').count(), 32);
    let took = crate::text::cpu_time() - begin;
    assert!(took < std::time::Duration::from_secs(5));
}

#[test]
fn a_queue_with_shares_takes_only_who_has_some() {
    let c = good("queues: [{name: q, fairshare: '[u1,2] [u2,1]'}, {name: r, policy: drf}]");
    let takes = |q: usize, user| c.queue_accepts(&c.queues[q], user, &[]);
    assert!(takes(0, "u2") && !takes(0, "u3") && takes(1, "u3"));
    // A group whose own tree omits a member: the next entry that contains the user applies.
    let c = good(
        "usergroups: [{name: g, members: u1 u2, fairshare: '[u1,1]'}]\n\
         queues: [{name: q, fairshare: '[g,5] [default,1]'}]",
    );
    assert_eq!(
        (way(&c, "u1", &[]), way(&c, "u2", &[])),
        ("g/:5 u1:1".into(), "u2:1".into())
    );
    let c = good(
        "usergroups: [{name: g, members: u1 u2, fairshare: '[u1,1]'}]\n\
         queues: [{name: q, fairshare: '[g,1]'}]",
    );
    assert!(c.queue_accepts(&c.queues[0], "u1", &[]));
    assert!(!c.queue_accepts(&c.queues[0], "u2", &[]));
}

#[test]
fn factors_come_from_the_queue_or_general_or_are_built_in() {
    let c = good(
        "general: {cpu_time_factor: 0.5, hist_hours: 2.5, gpu_time_factor: 10}\n\
         queues: [{name: q}, {name: r, run_job_factor: 0, hist_hours: 0, run_time_factor: 1.125}]",
    );
    let base = FairFactors {
        cpu_time: 500,
        run_time: 700,
        run_job: None,
        gpu_time: 10_000,
        hist_ms: 9_000_000,
    };
    assert_eq!(c.queues[0].fair, base);
    let own = FairFactors {
        run_time: 1125,
        run_job: Some(0),
        hist_ms: 0,
        ..base
    };
    assert_eq!(c.queues[1].fair, own);
    assert_eq!(FairFactors::default().hist_ms, 86_400_000);
}

#[test]
fn reservation_and_backfill() {
    for (text, depth) in [
        ("no", 0),
        ("yes", 1),
        ("0", 0),
        ("1", 1),
        ("20", 20),
        ("all", u32::MAX),
    ] {
        let q = queue(&format!("backfill: {text}"));
        assert_eq!(
            (q.backfill.depth, q.backfill.shortest_first),
            (depth, false)
        );
    }
    assert!(
        queue("backfill: yes, backfill_order: shortest")
            .backfill
            .shortest_first
    );
    assert!(!queue("backfill: yes").backfill.free_first);
    let q = queue("backfill: yes, backfill_hosts: free");
    assert!(q.backfill.free_first && !q.backfill.shortest_first);
    assert_eq!(queue("slot_reserve: 30m").slot_reserve_ms, Some(1_800_000));
    assert_eq!(queue("slot_reserve: no").slot_reserve_ms, None);
    let q = queue("strict: yes, elastic: yes, ignore_deadline: yes");
    assert!(q.strict && q.elastic && q.ignore_deadline);
}

#[test]
fn preemption_names_queues_that_may_come_later() {
    let c = good(
        "queues:\n- name: high\n  priority: 40\n  preemption: {preempt: low med+1, method: requeue,\
         \n    grace: 30s, warn_signal: USR2, order: youngest, max_victims: 5}\n\
         - {name: med, priority: 30, preemption: {preempt: [low]}}\n- {name: low, priority: 10}\n",
    );
    let victim = |queue: &str, preference| Victims {
        queue: queue.into(),
        preference,
    };
    assert_eq!(
        c.queues[0].preemption,
        Some(Preemption {
            victims: vec![victim("low", 0), victim("med", 1)],
            method: PreemptMethod::Requeue,
            order: PreemptOrder::Youngest,
            grace_ms: 30_000,
            warn_signal: 12,
            max_victims: Some(5),
        })
    );
    let plain = c.queues[1].preemption.as_ref().unwrap();
    assert_eq!(plain.method, PreemptMethod::Suspend);
    assert_eq!((plain.grace_ms, plain.max_victims), (0, None));
    assert_eq!(plain.warn_signal, 23);
    assert_eq!(plain.order, PreemptOrder::LeastPriority);
}

#[test]
fn thresholds_of_hosts_and_queues() {
    let c = good(
        "hosts:\n- {name: default, thresholds: {r1m: '0.7/2.0', ut: 0.9}}\n\
         - {name: h1, thresholds: {r1m: 3.5, mem: '1G/512', temp: '-/80'}, resources: {x: 1}}\n\
         - {name: h2, resources: {temp: 20}}\n\
         resources: [{name: temp, direction: increase}]\n\
         queues: [{name: q, thresholds: {swap: '100/10'}, threshold_action: kill}]\n",
    );
    let t = |index: &str, increase, sched, stop| Threshold {
        index: index.into(),
        increase,
        sched,
        stop,
    };
    let default = [
        t("r1m", true, Some(700), Some(2000)),
        t("ut", true, Some(900), None),
    ];
    assert_eq!(c.hosts.default.thresholds, default);
    assert_eq!(c.host("h2").unwrap().thresholds, default);
    assert_eq!(
        c.host("h1").unwrap().thresholds,
        [
            t("r1m", true, Some(3500), None),
            t("mem", false, Some(1_024_000), Some(512_000)),
            t("temp", true, None, Some(80_000)),
            t("ut", true, Some(900), None),
        ]
    );
    let q = &c.queues[0];
    assert_eq!(q.thresholds, [t("swp", false, Some(100_000), Some(10_000))]);
    assert_eq!(q.threshold_action, ThresholdAction::Kill);
}

#[test]
fn conditions_are_kept_in_canonical_form() {
    let q = queue("stop_cond: 'select[mem<100&&ut>0.9]', resume_cond: 'mem>500'");
    assert_eq!(
        q.stop_cond.as_deref(),
        Some("select[mem < 100 && ut > 0.9]")
    );
    assert_eq!(q.resume_cond.as_deref(), Some("select[mem > 500]"));
}

#[test]
fn windows_of_queues_and_hosts() {
    let c = good(
        "hosts:\n- {name: default, dispatch_window: 8-18}\n- {name: h1}\n\
         - {name: h2, dispatch_window: '20:00-8:30'}\n\
         queues:\n- name: q\n  run_window: 18:00-8:00\n  window_action: requeue\n\
         \x20 dispatch_window: ['1:8:0-5:18:0', '6:9:0-6:12:0']\n",
    );
    let text = |w: &Option<crate::text::window::Windows>| w.as_ref().unwrap().to_string();
    let q = &c.queues[0];
    assert_eq!(text(&q.run_window), "18:00-08:00");
    assert_eq!(text(&q.dispatch_window), "1:08:00-5:18:00 6:09:00-6:12:00");
    assert_eq!(q.window_action, ThresholdAction::Requeue);
    assert_eq!(text(&c.host("h1").unwrap().dispatch_window), "08:00-18:00");
    assert_eq!(text(&c.host("h2").unwrap().dispatch_window), "20:00-08:30");
}

#[test]
fn general_settings_reach_the_queues() {
    let c = good(
        "hostmodels: [{name: epyc, cpuf: 2.5}]\nhosts: [{name: h1, cpuf: 3}]\n\
         general: {packing: pack, job_accept_interval: 5, new_job_sched_delay: 250ms,\n\
         \x20 job_check_interval: 10, pg_susp_it: 1m, job_priority_over_time: 3/20,\n\
         \x20 resource_reserve_per_task: yes, default_host_spec: epyc}\n\
         queues: [{name: q}, {name: r, packing: spread, cpu_bind: socket, job_accept_interval: 0,\n\
         \x20 new_job_sched_delay: 1}]\n",
    );
    let [q, r] = [&c.queues[0], &c.queues[1]];
    assert_eq!((q.packing, r.packing), (Packing::Pack, Packing::Spread));
    assert_eq!(
        (q.cpu_bind, r.cpu_bind),
        (CpuBind::None, CpuBind::Socket),
        "only what a queue says"
    );
    assert_eq!(
        (q.job_accept_interval_ms, q.new_job_sched_delay_ms),
        (5000, 250)
    );
    assert_eq!(
        (r.job_accept_interval_ms, r.new_job_sched_delay_ms),
        (0, 1000)
    );
    let g = &c.general;
    assert_eq!((g.job_check_interval_ms, g.pg_susp_it_ms), (10_000, 60_000));
    let ageing = Ageing {
        points: 3,
        every_ms: 1_200_000,
    };
    assert_eq!(g.job_priority_over_time, Some(ageing));
    assert!(g.resource_reserve_per_task);
    let spec = g.default_host_spec.as_ref().unwrap();
    assert_eq!((spec.name.as_str(), spec.cpuf), ("epyc", 2.5));
    assert_eq!(c.cpu_factor("h1"), Some(3.0));
    assert_eq!(c.cpu_factor("epic"), None);
    let c = good("hosts: [{name: h1, cpuf: 3}]\ngeneral: {default_host_spec: h1}");
    assert_eq!(c.general.default_host_spec.unwrap().cpuf, 3.0);
}

#[test]
fn hosts_have_units_under_either_key() {
    let c = good("hosts: [{name: default, rack: r0}, {name: h1, unit: r7}, {name: h2}]");
    let unit = |h: &str| c.host(h).unwrap().unit.clone().unwrap();
    assert_eq!((unit("h1"), unit("h2")), ("r7".into(), "r0".into()));
}

#[test]
fn declared_resources_may_be_named_in_requirements() {
    let c = good(
        "resources:\n- {name: netmb, direction: increase, release: yes, description: 'MB/s '}\n\
         - {name: fpga, type: number, slotresource: yes}\n- {name: site, type: text}\n\
         - {name: fast, type: tag}\n\
         hosts: [{name: h1, resources: {site: 7, fpga: 2}}, {name: h2, tags: ssd}]\n\
         queues: [{name: q, res_req: 'select[netmb<5 && fast && site==east] rusage[fpga=1]'}]\n",
    );
    let decl = &c.hosts.resources["netmb"];
    assert!(decl.increase && decl.release && !decl.slotresource);
    assert_eq!(decl.description, "MB/s");
    assert!(c.hosts.resources["fpga"].slotresource);
    assert_eq!(
        c.hosts.resources["ssd"],
        ResourceDecl::plain(ResourceKind::Tag)
    );
    let h1 = c.host("h1").unwrap();
    assert_eq!(h1.resources["site"], ResourceValue::Text("7".into()));
    use crate::text::resreq::{Direction, Resources};
    assert_eq!(c.find("netmb").unwrap().direction, Direction::Increase);
    assert!(c.find("netmb").unwrap().reserve && !c.find("site").unwrap().reserve);
    assert_eq!(good("resources: []").hosts.resources.len(), 0);
}

#[test]
fn gpus_of_hosts_can_be_reserved() {
    let refused = require::check_request("rusage[gpu=1]", &good("")).unwrap_err();
    assert!(
        refused.starts_with("-gpu, -R rusage[gpu=...]: no host has resources: {gpu: N}"),
        "{refused}"
    );
    let c = good("hosts: [{name: h1, resources: {gpu: 2}}, {name: h2}]");
    assert_eq!(
        c.host("h1").unwrap().resources["gpu"],
        ResourceValue::Number(2.0)
    );
    let text = require::check_request("rusage[gpu=1]", &c);
    assert_eq!(text.as_deref(), Ok("rusage[gpu=1]"));
    let part = require::check_request("rusage[gpu=0.5]", &c);
    assert_eq!(part.as_deref(), Ok("rusage[gpu=0.5]"));
    assert!(require::check_request("rusage[gpu=1.5]", &c).is_err());
    let refused = require::check_request("rusage[gpu=1:duration=5m]", &c).unwrap_err();
    assert!(refused.contains("until it ends"), "{refused}");
}

/// The examples of the documentation of the product that this one follows, each as printed there
/// (indented as YAML requires) and quoted.
const LIMITS: &str = "\
usergroups: [{name: g1, members: u2 u3}]
queues: [{name: low}, {name: medium}, {name: high}]
limits:
- name: limit1
  queues: medium low
  users: all ~u1
  slots: 130
- name: limit2
  per_queue: medium low
  per_host: all
  jobs: 2
- name: limit3
  per_user: all
  resources: [mem,5000] [gpu, 2]
- name: quoted
  per_user: all
  resources: '[mem,5000] [gpu, 2]'
- name: week
  slots: '[2 1:8:0-5:18:0] [5 5:18:01-1:7:59]'
- name: week2
  slots: [2 1:8:0-5:18:0] [5 5:18:01-1:7:59]
- name: mixed
  resources: '[mem,500000 1:8:0-5:18:0] [gpu,5 9:00-18:00]'
- name: mixed2
  resources: [mem,500000 1:8:0-5:18:0] [gpu,5 9:00-18:00]
- {name: flow, queues: low, slots: [2 1:8:0-5:18:0] [5 5:18:01-1:7:59], jobs: 7}
";

fn set(names: &[&str]) -> Names {
    Names {
        all_but: false,
        names: names.iter().map(|n| n.to_string()).collect(),
    }
}

#[test]
fn the_examples_of_limits_are_read_as_printed() {
    let c = good(LIMITS);
    let always = |limit| WindowedLimit {
        limit,
        window: None,
    };
    let [one, two, three, quoted, ..] = &c.limits[..] else {
        panic!("{:?}", c.limits)
    };
    assert_eq!(one.queues, Dimension::Shared(set(&["low", "medium"])));
    assert_eq!(one.slots, [always(130)]);
    assert_eq!((&one.hosts, one.jobs.len()), (&Dimension::Any, 0));
    assert_eq!(two.queues, Dimension::Per(set(&["low", "medium"])));
    assert_eq!(two.hosts, Dimension::Per(HostSet::all()));
    assert_eq!(two.jobs, [always(2)]);
    assert_eq!(three.users, Dimension::Per(UserSet::all()));
    let mem = (
        "mem".to_string(),
        vec![WindowedLimit {
            limit: 5_000_000,
            window: None,
        }],
    );
    let gpu = (
        "gpu".to_string(),
        vec![WindowedLimit {
            limit: 2000,
            window: None,
        }],
    );
    assert_eq!(three.resources, [mem, gpu]);
    assert_eq!(quoted.resources, three.resources);
    let named = |name: &str| c.limits.iter().find(|q| q.name == name).unwrap();
    assert_eq!(named("week").slots, named("week2").slots);
    assert_eq!(named("week").slots, named("flow").slots);
    assert_eq!(named("flow").jobs, [always(7)]);
    assert_eq!(named("mixed").resources, named("mixed2").resources);
    assert_eq!(named("mixed").resources.len(), 2);
    assert_eq!(warnings(&with(LIMITS)), [""; 0]);
}

fn at(text: &str) -> Stamp {
    let t: jiff::Timestamp = text.parse().expect(text);
    Stamp(t.as_millisecond())
}

#[test]
fn the_first_open_window_gives_the_limit() {
    let c = good(LIMITS);
    let named = |name: &str| c.limits.iter().find(|q| q.name == name).unwrap();
    let slots =
        |text: &str| WindowedLimit::limit_at(&named("week").slots, at(text), &TimeZone::UTC);
    // 2026-11-23 is a Monday; the end minute belongs to the window.
    for (text, want) in [
        ("2026-11-23T07:59:59Z", 5),
        ("2026-11-23T08:00:00Z", 2),
        ("2026-11-27T18:00:59Z", 2),
        ("2026-11-27T18:01:00Z", 5),
        ("2026-11-29T12:00:00Z", 5),
    ] {
        assert_eq!(slots(text), Some(want), "{text}");
    }
    let (_, gpus) = &named("mixed").resources[1];
    let gpu = |text: &str| WindowedLimit::limit_at(gpus, at(text), &TimeZone::UTC);
    assert_eq!(gpu("2026-11-23T09:00:00Z"), Some(5000));
    assert_eq!(gpu("2026-11-23T20:00:00Z"), None);
    let next = WindowedLimit::next_change(gpus, at("2026-11-23T20:00:00Z"), &TimeZone::UTC);
    assert_eq!(next, Some(at("2026-11-24T09:00:00Z")));
    let never = WindowedLimit::next_change(
        &named("limit1").slots,
        at("2026-11-23T20:00:00Z"),
        &TimeZone::UTC,
    );
    assert_eq!(never, None);
    let both = good("limits: [{name: l, slots: '[2 9-17] [7]', jobs: '[3 9-12] [1 10-14]'}]");
    let l = &both.limits[0];
    let noon = at("2026-11-23T11:00:00Z");
    assert_eq!(
        WindowedLimit::limit_at(&l.slots, noon, &TimeZone::UTC),
        Some(2)
    );
    assert_eq!(
        WindowedLimit::limit_at(&l.jobs, noon, &TimeZone::UTC),
        Some(3)
    );
    let night = at("2026-11-23T23:00:00Z");
    assert_eq!(
        WindowedLimit::limit_at(&l.slots, night, &TimeZone::UTC),
        Some(7)
    );
    assert_eq!(
        WindowedLimit::limit_at(&l.jobs, night, &TimeZone::UTC),
        None
    );
}

#[test]
fn a_limit_of_all_hosts_needs_no_host() {
    let c = good(
        "hostgroups: [{name: back, members: h3 h4}]\nlimits:\n\
         - {name: a, slots: 130}\n\
         - {name: b, per_user: all, hosts: back ~h4, jobs: 1}\n\
         - {name: c, per_host: all ~h1, jobs: 1}\n",
    );
    assert!(c.limits[0].on_any_host() && !c.limits[1].on_any_host());
    assert!(!c.limits[2].on_any_host());
}

/// Every dimension, as one counter and as one per member, with each quantity.
#[test]
fn every_dimension_can_be_limited_both_ways() {
    for (name, value) in [
        ("queue", "q"),
        ("user", "all ~u1"),
        ("host", "h1 h2"),
        ("project", "p1"),
        ("app", "a1"),
    ] {
        for quantity in ["slots: 3", "jobs: 0", "resources: '[mem,1G]'"] {
            let shared = good(&format!(
                "limits: [{{name: l, {name}s: {value}, {quantity}}}]"
            ));
            let per = good(&format!(
                "limits: [{{name: l, per_{name}: {value}, {quantity}}}]"
            ));
            let kinds = |q: &Quota| {
                let of = [
                    q.queues.is_per(),
                    q.users.is_per(),
                    q.hosts.is_per(),
                    q.projects.is_per(),
                    q.apps.is_per(),
                ];
                of.iter().filter(|per| **per).count()
            };
            assert_eq!(kinds(&shared.limits[0]), 0, "{name} {quantity}");
            assert_eq!(kinds(&per.limits[0]), 1, "{name} {quantity}");
        }
    }
}

#[test]
fn what_is_probably_not_meant_is_told() {
    let groups = "usergroups: [{name: g, members: u1 u2, fairshare: ";
    for (extra, want) in [
        (
            "limits: [{name: l, slots: '[2 8-12] [5 12-18]'}]".to_string(),
            "overlap",
        ),
        (
            "limits: [{name: l, slots: '[2] [5 12-18]'}]".into(),
            "overlap",
        ),
        ("limits: [{name: l, slots: '[2 8-12] [5]'}]".into(), ""),
        (
            "limits: [{name: l, resources: '[mem,1 8-12] [swp,2 8-12] [mem,3 9-10]'}]".into(),
            "overlap",
        ),
        (
            "limits: [{name: l, users: none, slots: 1}]".into(),
            "no-effect",
        ),
        (
            "limits: [{name: l, per_queue: none, slots: 1}]".into(),
            "no-effect",
        ),
        (
            "limits: [{name: l, users: zoe, slots: 1}]".into(),
            "unknown-user",
        ),
        ("limits: [{name: l, slots: unlimited}]".into(), ""),
        (
            "limits: [{name: l, resources: '[mem,5] [lic,3]'}]".into(),
            "not-yet-known",
        ),
        (
            "hosts: [{name: h9, thresholds: {lic: 1}}]".into(),
            "not-yet-known",
        ),
        (
            "queues: [{name: q, res_req: 'select[lic>1 && fpga] rusage[lic=1]'}]".into(),
            "not-yet-known not-yet-known",
        ),
        (
            "queues: [{name: q, stop_cond: 'hot>1'}]".into(),
            "not-yet-known",
        ),
        (
            "queues: [{name: q, window_action: kill}]".into(),
            "no-effect",
        ),
        (
            "queues: [{name: q, backfill_order: time}]".into(),
            "no-effect",
        ),
        (
            "queues: [{name: q, backfill_hosts: free}]".into(),
            "no-effect",
        ),
        (
            "queues: [{name: q, run_window: 8-12, dispatch_window: 13-14}]".into(),
            "no-start",
        ),
        (
            "queues: [{name: q, fairshare: '[zoe,1]'}]".into(),
            "unknown-user",
        ),
        (
            "queues: [{name: q, fairshare: '[default,1] [others,2]'}]".into(),
            "no-effect",
        ),
        (format!("{groups}'[u1,1] [default,2]'}}]"), ""),
        (format!("{groups}'[u3,1] [default,2]'}}]"), "no-effect"),
        (format!("{groups}'[staff,1] [default,2]'}}]"), "no-effect"),
    ] {
        assert_eq!(warnings(&with(&extra)).join(" "), want, "{extra}");
    }
}

#[test]
fn ten_thousand_limits_are_fine_and_more_are_refused() {
    let text = |n: usize| {
        let all: String = (0..n)
            .map(|i| format!("- {{name: l{i}, per_user: all, slots: '[2 8-12] [5 13-18]'}}\n"))
            .collect();
        with(&format!("limits:\n{all}"))
    };
    assert_eq!(read(&text(10_000)).unwrap().config.limits.len(), 10_000);
    let problems = read(&text(10_001)).unwrap_err();
    assert_eq!((problems.len(), problems[0].code), (1, "range"));
}

#[test]
fn names_of_groups_follow_the_system() {
    // A directory service that knows no names: the name is still taken as a user.
    let none = OsNames {
        user: &|_| false,
        group: &|_| false,
    };
    let text = with("queues: [{name: q, fairshare: '[staff,1]'}]");
    let subject = |os: &OsNames<'_>| {
        let c = load(text.as_bytes(), "cb.yaml", os).unwrap().config;
        c.queues[0].policy.shares().unwrap().entries[0]
            .subject
            .clone()
    };
    assert_eq!(subject(&os()), ShareSubject::Group("staff".into()));
    assert_eq!(subject(&none), ShareSubject::User("staff".into()));
}
