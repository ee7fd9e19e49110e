//! Requests of several sections: whole or not at all, in the order of their sections.

use super::{Cluster, job};

/// The cluster for `4{} 2{rusage[gpu=1]}`: eight processors on one host, two GPUs on another.
fn two_hosts() -> Cluster {
    Cluster::new(
        "hosts:\n- {name: h1, slots: 8}\n- {name: h2, slots: 4, resources: {gpu: 2}}\n\
         queues:\n- {name: normal}\n",
    )
}

#[test]
fn case_30_sections_start_together_or_hold_nothing() {
    let mut c = two_hosts();
    let id = c.ask(6, "4{} 2{rusage[gpu=1]}");
    assert_eq!(c.pass(), [id]);
    assert_eq!(c.on(id), "h1:4 h2:2");

    let mut c = two_hosts();
    let gpu = c.ask(1, "rusage[gpu=1]");
    assert_eq!(c.pass(), [gpu]);
    let gang = c.ask(6, "4{} 2{rusage[gpu=1]}");
    let wide = c.ask(8, "span[hosts=1]");
    assert_eq!(c.pass(), [wide]);
    assert_eq!(c.on(wide), "h1:8");
    assert_eq!(
        c.why(gang),
        "section 2 needs 2 slots with rusage[gpu=1]: hosts that fit have 1"
    );
    c.end(wide);
    c.end(gpu);
    assert_eq!(c.pass(), [gang]);
    assert_eq!(c.on(gang), "h1:4 h2:2");
}

#[test]
fn case_31_two_gangs_never_hold_halves_of_each_other() {
    let mut c = Cluster::new(
        "hosts:\n- {names: 'h[1-3]', slots: 4, resources: {gpu: 2}}\nqueues:\n- {name: normal}\n",
    );
    let (a, b) = (c.ask(4, "4{rusage[gpu=1]}"), c.ask(4, "4{rusage[gpu=1]}"));
    assert_eq!(c.pass(), [a]);
    assert_eq!(c.on(a), "h1:2 h2:2");
    assert_eq!(c.why(b), "needs 4 slots, hosts that fit have 2 free");
    c.end(a);
    assert_eq!(c.pass(), [b]);
}

#[test]
fn hosts_are_listed_in_the_order_of_sections_even_twice() {
    let mut c = two_hosts();
    let id = c.ask(6, "1{hname==h2} 2{hname==h1} 2{hname==h2} 1{hname==h1}");
    assert_eq!(c.pass(), [id]);
    assert_eq!(c.on(id), "h2:1 h1:2 h2:2 h1:1");
    let other = c.ask(1, "hname==h2");
    assert_eq!(c.pass(), [other]);
    c.end(id);
    let all = c.ask(11, "");
    assert_eq!(c.pass(), [all]);
}

#[test]
fn amounts_of_sections_are_exact_on_a_host_that_serves_several() {
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 8, resources: {lic: 10, seats: 3}}\n\
         queues:\n- {name: normal}\n",
    );
    let id = c.ask(5, "2{rusage[lic=2]} 3{rusage[lic=1]} rusage[seats=3]");
    assert_eq!(c.pass(), [id]);
    let taken = |c: &Cluster| {
        let mut list = c.engine.reserved(&c.table, "h1");
        list.sort_by(|a, b| a.0.cmp(&b.0));
        list
    };
    let expected = [("lic".to_owned(), 7.0), ("seats".to_owned(), 3.0)];
    assert_eq!(taken(&c), expected);
    // The same, from the state alone.
    c.engine = super::Engine::new(c.config.clone());
    c.pass();
    assert_eq!(taken(&c), expected);
    c.end(id);
    c.pass();
    assert!(taken(&c).is_empty());
}

#[test]
fn the_scarce_section_comes_first_and_failures_turn_the_order() {
    // Only h1 has the tag; the plain section must not use it up.
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 4, tags: fs}\n- {name: h2, slots: 2}\n\
         queues:\n- {name: normal}\n",
    );
    let id = c.ask(6, "2{} 4{fs}");
    assert_eq!(c.pass(), [id]);
    assert_eq!(c.on(id), "h2:2 h1:4");
}

#[test]
fn all_sections_agree_where_the_words_behind_them_say_so() {
    let text = "hosts:\n- {name: h1, slots: 2, unit: r1}\n- {name: h2, slots: 4, unit: r2}\n\
                - {name: h3, slots: 2, unit: r2, tags: fs}\nqueues:\n- {name: normal}\n";
    let mut c = Cluster::new(text);
    let id = c.ask(3, "2{} 1{fs} cu[maxcus=1]");
    assert_eq!(c.pass(), [id]);
    assert_eq!(c.on(id), "h2:2 h3:1");
    let mut c = Cluster::new(text);
    let id = c.ask(6, "5{} 1{fs} cu[maxcus=1]");
    assert_eq!(c.pass(), [id]);
    assert_eq!(c.on(id), "h2:4 h3:1 h3:1");
    let late = c.ask(2, "1{} 1{fs} same[hname]");
    assert!(c.pass().is_empty());
    c.end(id);
    assert_eq!(c.pass(), [late]);
    assert_eq!(c.on(late), "h3:1 h3:1");
}

#[test]
fn a_users_limit_on_a_host_counts_all_sections() {
    let mut c = Cluster::new(
        "hosts:\n- {names: 'h[1-2]', slots: 8, user_slots: 3}\nqueues:\n- {name: normal}\n",
    );
    let id = c.ask(4, "2{} 2{}");
    assert_eq!(c.pass(), [id]);
    assert_eq!(c.on(id), "h1:2 h1:1 h2:1");
    let next = c.ask(3, "1{} 2{}");
    assert!(c.pass().is_empty());
    assert_eq!(c.stat(next), crate::model::JobStat::Pend);
    let two = c.submit(job(2));
    assert_eq!(c.pass(), [two]);
    assert_eq!(c.on(two), "h2:2");
}

#[test]
fn an_alternative_of_sections_is_kept_with_the_start() {
    let mut c = two_hosts();
    let id = c.ask(
        3,
        "{1{rusage[gpu=1]} 2{rusage[gpu=1]}} || {2{rusage[gpu=1]} 1{}}",
    );
    assert_eq!(c.pass(), [id]);
    assert_eq!(c.on(id), "h2:2 h1:1");
    let taken = |c: &Cluster| c.engine.reserved(&c.table, "h2");
    assert_eq!(taken(&c), [("gpu".to_owned(), 2.0)]);
    c.engine = super::Engine::new(c.config.clone());
    c.pass();
    assert_eq!(taken(&c), [("gpu".to_owned(), 2.0)]);
}
