//! Limits on amounts, and requests that take them on several hosts or by several alternatives.

use super::{Cluster, NOBODY};

fn limited(limits: &str) -> Cluster {
    Cluster::new(&format!(
        "hosts:\n- {{names: 'h[1-4]', slots: 4, resources: {{gpu: 4, lic_a: 9, lic_b: 9}}}}\n\
         queues:\n- {{name: normal}}\n\
         limits:\n{limits}"
    ))
}

/// Amounts that count once for each host are added up over the hosts.
#[test]
fn amounts_of_all_hosts_count_for_a_limit() {
    let mut c = limited("- {name: few, per_user: all, resources: '[gpu,2]'}\n");
    let wide = c.ask(4, "span[ptile=1] rusage[gpu=1/host]");
    assert_eq!(c.pass(), NOBODY);
    let why = c.why(wide);
    assert!(why.contains("few") && why.contains("2 of 2"), "{why}");
    // It is not mistaken for a lack of hosts: a job that fits starts, also one of the same kind.
    let two = c.ask(2, "span[ptile=1] rusage[gpu=1/host]");
    assert_eq!(c.pass(), [two]);
    let mut other = super::job(4);
    (other.uid, other.user) = (7, "u7".into());
    other.res_req = "1{rusage[gpu=1/host]} 2{span[ptile=1] rusage[gpu=1/host]}".into();
    let other = c.submit(other);
    assert_eq!(c.pass(), NOBODY);
    assert!(c.why(other).contains("few"), "{}", c.why(other));
}

/// As many hosts as the limit allows, if that is enough.
#[test]
fn a_job_gets_as_many_hosts_as_a_limit_allows() {
    let mut c = limited("- {name: few, per_user: all, resources: '[gpu,2]'}\n");
    let mut some = super::job(1);
    some.max = 4;
    some.res_req = "span[ptile=1] rusage[gpu=1/host]".into();
    let some = c.submit(some);
    assert_eq!(c.pass(), [some]);
    assert_eq!(c.on(some), "h1:1 h2:1");
}

/// A limit that leaves enough does not keep a job from reserving.
#[test]
fn a_limit_with_room_is_no_reason_against_a_reservation() {
    let mut c = Cluster::new(
        "hosts:\n- {names: 'h[1-2]', slots: 4, resources: {gpu: 4}}\n\
         queues:\n- {name: normal, backfill: yes}\n\
         limits:\n- {name: many, per_user: all, slots: 9}\n\
         - {name: few, per_user: all, resources: '[gpu,8]'}\n",
    );
    let limited = |slots: u32, run_s| {
        let mut spec = super::job(slots);
        spec.limits.run_s = Some(run_s);
        spec
    };
    let mut first = limited(3, 100);
    (first.uid, first.user) = (7, "u7".into());
    c.submit(first);
    c.pass();
    let mut wide = limited(8, 100);
    wide.res_req = "rusage[gpu=1/host]".into();
    let wide = c.submit(wide);
    let small = c.submit(limited(1, 1000));
    assert_eq!(c.pass(), NOBODY, "{} {}", c.why(wide), c.why(small));
}

/// A limit blocks only those alternatives that it concerns.
#[test]
fn a_limit_on_one_alternative_leaves_the_others() {
    let mut c = limited("- {name: one, resources: '[lic_a,1]'}\n");
    let either = "rusage[lic_a=1 || lic_b=1]";
    let ids = [c.ask(1, either), c.ask(1, either)];
    assert_eq!(c.pass(), ids);
    let alt = |id| {
        c.state
            .work(crate::model::JobKey::job(id))
            .unwrap()
            .run
            .as_ref()
            .unwrap()
            .alt
    };
    assert_eq!(ids.map(alt), [0, 1]);
    let only = c.ask(1, "rusage[lic_a=1]");
    assert_eq!(c.pass(), NOBODY);
    assert!(c.why(only).contains("one"), "{}", c.why(only));
    c.end(ids[0]);
    assert_eq!(c.pass(), [only]);
}

/// A limit on all alternatives is reported as the reason.
#[test]
fn a_limit_on_all_alternatives_blocks() {
    let mut c = limited("- {name: one, resources: '[lic_a,1] [lic_b,1]'}\n");
    let either = "rusage[lic_a=1 || lic_b=1]";
    let ids = [c.ask(1, either), c.ask(1, either), c.ask(1, either)];
    assert_eq!(c.pass(), ids[..2]);
    assert!(c.why(ids[2]).contains("one"), "{}", c.why(ids[2]));
}

/// A resource that rises with the load is not a stock: a reservation only makes a host look busier.
#[test]
fn load_that_is_reserved_is_no_stock() {
    let mut c = Cluster::equal(1, 8);
    let idle = c.ask(1, "rusage[r1m=1]");
    assert_eq!(c.pass(), [idle]);
    let calm = |c: &mut Cluster| {
        c.after(120);
        c.sample("h1", |_| {});
    };
    let picky = c.ask(1, "select[r1m<1.5] rusage[r1m=1]");
    calm(&mut c);
    assert_eq!(c.pass(), [picky]);
    let third = c.ask(1, "select[r1m<1.5] rusage[r1m=1]");
    calm(&mut c);
    assert_eq!(c.pass(), NOBODY);
    c.end(idle);
    assert_eq!(c.pass(), [third]);
}
