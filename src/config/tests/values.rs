//! The results of valid values, and the questions that a configuration answers.

use super::super::*;
use super::{good, read};

#[test]
fn defaults_fill_what_is_not_said() {
    let c = good("");
    assert_eq!(c.cluster.lease_timeout_ms, 15_000);
    assert_eq!(c.general.default_queue, ["q"]);
    assert_eq!(c.general.max_jobid, 2_147_483_647);
    let q = c.queue("q").unwrap();
    assert_eq!((q.priority, q.slots, q.job_slots), (1, None, JobSlots::ANY));
    assert!(q.users.is_all() && q.hosts.contains("any"));
    let h = c.host("h3").unwrap();
    assert_eq!((h.slots, h.cpuf, h.server), (SlotSpec::Cores, 1.0, true));
    assert!(c.host("h5").is_none());
}

#[test]
fn words_keep_their_kind() {
    let c = good(
        "queues: [{name: no}, {name: 007}, {name: 'y'}]\nusers: [{name: default, max_slots: 9}]",
    );
    let names: Vec<&str> = c.queues.iter().map(|q| q.name.as_str()).collect();
    assert_eq!(names, ["no", "007", "y"]);
    let flags = [
        ("yes", true),
        ("Y", true),
        ("on", true),
        ("true", true),
        ("'yes'", true),
        ("no", false),
        ("N", false),
        ("off", false),
        ("false", false),
    ];
    for (word, want) in flags {
        let c = good(&format!("general: {{user_view_alljobs: {word}}}"));
        assert_eq!(c.general.user_view_alljobs, want, "{word}");
    }
}

#[test]
fn rerunnable_jobs_of_a_dead_host_are_rerun_unless_a_site_says_no() {
    let of = |text: &str| good(text).general.iso_timeout_ms;
    assert_eq!(of("queues: [{name: q}]\n"), 600_000);
    assert_eq!(
        of("cluster: {lease_timeout: 6m}\nqueues: [{name: q}]\n"),
        720_000
    );
    assert_eq!(of("general: {iso_timeout: 0}\n"), 0);
    assert_eq!(of("general: {iso_timeout: 1m}\n"), 60_000);
}

#[test]
fn values_are_read_as_documented() {
    let c = good(
        "cluster:\n  administrators: u1 staff\n  lease_timeout: 3\n  poll_interval: 250ms\n\
         \x20 unit_for_limits: KB\n\
         general: {clean_period: 1h30m, default_queue: low high, max_pend_jobs: unlimited,\n\
         \x20 iso_timeout: 60}\n\
         queues:\n\
         - {name: high, job_slots: 2 4 8, run_limit: '30 1:30', mem_limit: '512 2G',\n\
         \x20  requeue_exit_values: '30 40-42'}\n\
         - {name: low, job_slots: 8, run_limit: 90s, requeue_exit_values: all ~9,\n\
         \x20  proc_slots: 0.5, interactive: only, nice: 19}\n",
    );
    assert_eq!(
        (c.cluster.lease_timeout_ms, c.cluster.poll_interval_ms),
        (3000, 250)
    );
    assert_eq!(c.general.clean_period_ms, 5_400_000);
    assert_eq!(c.general.default_queue, ["low", "high"]);
    let (high, low) = (&c.queues[0], &c.queues[1]);
    assert_eq!(
        high.job_slots,
        JobSlots {
            min: 2,
            default: 4,
            max: Some(8)
        }
    );
    assert_eq!(
        low.job_slots,
        JobSlots {
            min: 1,
            default: 1,
            max: Some(8)
        }
    );
    assert_eq!(
        high.run_limit_ms,
        LimitPair {
            default: Some(1_800_000),
            max: Some(5_400_000)
        }
    );
    assert_eq!(
        low.run_limit_ms,
        LimitPair {
            default: None,
            max: Some(90_000)
        }
    );
    assert_eq!(
        high.mem_limit,
        LimitPair {
            default: Some(512 << 10),
            max: Some(2 << 30)
        }
    );
    assert!(high.requeue.requeues(41) && !high.requeue.requeues(43));
    assert!(low.requeue.requeues(255) && !low.requeue.requeues(9));
    assert_eq!(
        (low.proc_slots_milli, low.interactive, low.nice),
        (Some(500), Interactive::Only, 19)
    );
}

#[test]
fn a_limit_is_resolved_against_its_maximum() {
    let pair = LimitPair {
        default: Some(5),
        max: Some(9),
    };
    assert_eq!(pair.resolve(None), Ok(Some(5)));
    assert_eq!(pair.resolve(Some(9)), Ok(Some(9)));
    assert_eq!(pair.resolve(Some(10)), Err(9));
    assert_eq!(
        LimitPair {
            default: None,
            max: Some(9)
        }
        .resolve(None),
        Ok(Some(9))
    );
}

#[test]
fn host_beats_model_beats_default() {
    let c = good(
        "hostmodels: [{name: epyc, cpuf: 2.5}, {name: old}]\n\
         hosts:\n- {name: h2, model: epyc}\n\
         - {name: h3, model: epyc, cpuf: 3, slots: '!', tags: []}\n\
         - {name: h4, resources: {lic: 7, site: 'b'}}\n\
         - {name: default, slots: 4, tags: fs, cpuf: 1.5, resources: {lic: 2, rack: r1}}\n",
    );
    let [h2, h3, h4] = ["h2", "h3", "h4"].map(|n| c.host(n).unwrap());
    assert_eq!((h2.cpuf, h3.cpuf, h4.cpuf), (2.5, 3.0, 1.5));
    assert_eq!((h2.slots, h3.slots), (SlotSpec::Count(4), SlotSpec::Cores));
    assert_eq!((h2.tags.len(), h3.tags.len()), (1, 0));
    assert_eq!(h4.resources["lic"], ResourceValue::Number(7.0));
    assert_eq!(h4.resources["rack"], ResourceValue::Text("r1".into()));
    assert_eq!(h2.resources["lic"], ResourceValue::Number(2.0));
    assert_eq!(c.hosts.resources["fs"].kind, ResourceKind::Tag);
    assert_eq!(c.hosts.resources["lic"].kind, ResourceKind::Number);
}

#[test]
fn requirements_may_name_what_hosts_declare() {
    let c = good(
        "hosts: [{name: h1, tags: fs, resources: {lic: 2, site: east}}]\n\
         queues: [{name: q, res_req: 'select[fs && lic>1 && site==east] rusage[lic=1]'}]",
    );
    let text = c.queue("q").unwrap().res_req.as_deref().unwrap();
    assert_eq!(text, "select[fs && lic > 1 && site==east] rusage[lic=1]");
    let refused = require::check_request("select[lik>1]", &c).unwrap_err();
    assert!(refused.contains("did you mean lic?"), "{refused}");
    assert_eq!(require::check_request("", &c).as_deref(), Ok(""));
}

#[test]
fn an_open_cluster_takes_any_host() {
    let c = good(
        "hosts: [{name: default, open: yes, slots: 2}]\nqueues: [{name: q, hosts: x1 others}]",
    );
    assert_eq!(c.host("anything").unwrap().slots, SlotSpec::Count(2));
    assert!(c.may_lead("anything"));
}

#[test]
fn masters_or_the_first_two_hosts_may_lead() {
    let c = good("");
    assert_eq!(
        ["h1", "h2", "h3"].map(|h| c.may_lead(h)),
        [true, true, false]
    );
    let c = good("cluster: {administrators: u1, masters: 'h[3-4]'}");
    assert_eq!(
        ["h1", "h3", "h4"].map(|h| c.may_lead(h)),
        [false, true, true]
    );
}

#[test]
fn host_groups_nest_and_exclude() {
    let c = good(
        "hostgroups:\n- {name: front, members: 'all ~back'}\n- {name: back, members: 'h[3-4]'}\n\
         - {name: both, members: front h3}\n- {name: nobody, members: none}\n",
    );
    let of = |g: &str| {
        c.expand(&c.hosts_named(g).unwrap())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(of("front"), "h1 h2");
    assert_eq!(of("both"), "h1 h2 h3");
    assert_eq!(of("nobody"), "");
    assert_eq!(of("all"), "h1 h2 h3 h4");
    assert_eq!(of("h2"), "h2");
    assert!(c.hosts_named("h9").is_none());
}

#[test]
fn queue_hosts_have_preferences() {
    let c = good(
        "hostgroups: [{name: g, members: h2 h3}]\n\
         queues: [{name: q, hosts: h1+2 g others+1 ~h3}, {name: r, hosts: g}]",
    );
    let q = &c.queue("q").unwrap().hosts;
    assert_eq!(
        ["h1", "h2", "h3", "h4"].map(|h| q.preference(h)),
        [Some(2), Some(0), None, Some(1)]
    );
    let r = &c.queue("r").unwrap().hosts;
    assert_eq!(["h1", "h2"].map(|h| r.contains(h)), [false, true]);
}

#[test]
fn user_groups_nest_and_exclude_and_know_the_system() {
    let c = good(
        "usergroups:\n- {name: g1, members: u1 g2 staff, administrator: u3}\n\
         - {name: g2, members: u4}\n\
         - {name: g3, members: '@system', administrator: [u5, g2]}\n\
         queues: [{name: q, users: g1 ~u4}, {name: r, users: all ~g1, administrators: u7}]\n",
    );
    let q = c.queue("q").unwrap();
    let staff = ["staff".to_string()];
    assert!(c.queue_accepts(q, "u1", &[]) && c.queue_accepts(q, "u9", &staff));
    assert!(!c.queue_accepts(q, "u4", &[]) && !c.queue_accepts(q, "u9", &[]));
    let r = c.queue("r").unwrap();
    assert!(c.queue_accepts(r, "u9", &[]) && !c.queue_accepts(r, "u4", &[]));
    assert!(c.is_queue_admin("u7", &[], "r") && !c.is_queue_admin("u7", &[], "q"));
    assert!(c.is_queue_admin("u1", &[], "q") && c.is_cluster_admin("root", &[]));
    assert!(c.is_group_admin_of(("u3", &[]), ("u4", &[])));
    assert!(!c.is_group_admin_of(("u3", &[]), ("u8", &[])));
    assert!(c.is_group_admin_of(("u4", &[]), ("u8", &[])));
}

#[test]
fn user_limits_are_own_or_default() {
    let c = good(
        "usergroups: [{name: g, members: u1 u2}]\n\
         users:\n- {name: default, max_slots: 5}\n- {name: u1, max_slots: 8, max_pend_jobs: 100}\n\
         - {name: g@, max_slots: 6}\n- {name: staff@, max_slots: 30}\n",
    );
    let u1 = c.user_limits("u1", &[]);
    assert_eq!((u1.max_slots, u1.max_pend_jobs), (Some(6), Some(100)));
    let u8 = c.user_limits("u8", &[]);
    assert_eq!((u8.max_slots, u8.max_pend_jobs), (Some(5), None));
    let u9 = c.user_limits("u9", &["staff".into()]);
    assert_eq!((u9.max_slots, u9.max_pend_jobs), (Some(30), None));
}

#[test]
fn the_digest_follows_the_meaning_only() {
    let one = good("queues: [{name: q, slots: 4}]").digest();
    let same = good("# note\nqueues:\n- name: q\n  slots: '4'\n").digest();
    let other = good("queues: [{name: q, slots: 5}]").digest();
    assert_eq!(one, same);
    assert_ne!(one, other);
    assert_eq!(one.len(), 64);
}

#[test]
fn the_starter_loads_without_a_word() {
    let loaded = read(&minimal("dev", "u1")).unwrap();
    assert_eq!(loaded.warnings, []);
    assert!(loaded.config.hosts.open);
    let hosts = ["h1".to_string(), "h2".to_string(), "gw".to_string()];
    let settings = ["lease_timeout: 3".to_string()];
    let text = starter(&Starter {
        cluster: "dev",
        administrator: "u1",
        hosts: &hosts,
        slots: Some(64),
        masters: &hosts[..2],
        settings: &settings,
    });
    let loaded = read(&text).unwrap();
    assert_eq!(loaded.warnings, []);
    assert_eq!(
        loaded.config.host_names().collect::<Vec<_>>(),
        ["h1", "h2", "gw"]
    );
    assert_eq!(loaded.config.host("gw").unwrap().slots, SlotSpec::Count(64));
    assert_eq!(loaded.config.cluster.masters, ["h1", "h2"]);
}

#[test]
fn hints_are_taken_where_no_events_come_unless_cb_yaml_says_otherwise() {
    let ports = |text: &str, local: bool| {
        let c = good(&format!("cluster: {{administrators: u1{text}}}\n"));
        c.cluster.hint_ports(local)
    };
    assert_eq!((ports("", true), ports("", false)), (None, Some(0..=0)));
    assert_eq!(ports(", hints: no", false), None);
    let range = ", hints: yes, hint_port: 47100-47199";
    assert_eq!(ports(range, true), Some(47100..=47199));
    assert_eq!(ports(", hint_port: any", false), Some(0..=0));
    assert_eq!(ports(", hint_port: 47100", false), Some(47100..=47100));
}
