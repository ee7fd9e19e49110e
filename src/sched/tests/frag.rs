//! Orders that look at what is left on the units of a host.

use super::{Cluster, job};
use crate::model::{Spec, Stamp};

/// A host with two units of which 300 and 700 thousandths are left, and jobs that wait for half a
/// unit and for a whole one.
fn two_units(packing: &str) -> Cluster {
    let mut c = Cluster::new(&format!(
        "hosts:\n- {{name: h1, slots: 9, resources: {{gpu0: 1, gpu1: 1}}}}\n\
         queues:\n- {{name: normal, packing: {packing}}}\n"
    ));
    c.ask(1, "rusage[gpu0=0.7]");
    c.ask(1, "rusage[gpu1=0.3]");
    for need in ["0.5", "1"] {
        c.submit(Spec {
            res_req: format!("rusage[gpu0={need} || gpu1={need}]"),
            begin: Some(Stamp(c.now.0 + 1_000_000)),
            ..job(1)
        });
    }
    assert_eq!(c.pass().len(), 2);
    c
}

/// What is taken of each unit, in thousandths.
fn taken(c: &Cluster) -> [i64; 2] {
    let list = c.engine.reserved(&c.table, "h1");
    ["gpu0", "gpu1"].map(|unit| {
        let found = list.iter().find(|(name, _)| name == unit);
        found.map_or(0, |(_, n)| (n * 1000.0).round() as i64)
    })
}

#[test]
fn case_42_a_job_goes_where_least_becomes_useless() {
    let mut c = two_units("frag");
    // Written so that the order of the alternatives would choose the other one.
    let id = c.ask(1, "rusage[gpu1=0.3 || gpu0=0.3]");
    assert_eq!(c.pass(), [id]);
    assert_eq!(taken(&c), [1000, 300]);
}

#[test]
fn the_best_fit_is_the_unit_that_keeps_least() {
    let mut c = two_units("fit");
    let id = c.ask(1, "rusage[gpu1=0.3 || gpu0=0.3]");
    assert_eq!(c.pass(), [id]);
    assert_eq!(taken(&c), [1000, 300]);
    let next = c.ask(1, "rusage[gpu0=0.3 || gpu1=0.3]");
    assert_eq!(c.pass(), [next]);
    assert_eq!(taken(&c), [1000, 600]);
}

#[test]
fn elsewhere_alternatives_are_tried_in_their_order() {
    let mut c = two_units("pack");
    let id = c.ask(1, "rusage[gpu1=0.3 || gpu0=0.3]");
    assert_eq!(c.pass(), [id]);
    assert_eq!(taken(&c), [700, 600]);
}

#[test]
fn the_best_host_of_all_alternatives_is_taken() {
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 9, resources: {gpu0: 1, gpu1: 1}}\n\
         - {name: h2, slots: 9, resources: {gpu0: 1, gpu1: 1}}\n\
         queues:\n- {name: normal, packing: fit}\n",
    );
    let full = c.ask(1, "hname==h2 rusage[gpu1=0.6]");
    assert_eq!(c.pass(), [full]);
    let id = c.ask(1, "type==any rusage[gpu0=0.4 || gpu1=0.4]");
    assert_eq!(c.pass(), [id]);
    assert_eq!(c.on(id), "h2:1");
    let list = c.engine.reserved(&c.table, "h2");
    assert_eq!(list, [("gpu1".to_owned(), 1.0)]);
}
