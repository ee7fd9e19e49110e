//! Orders of hosts that depend on what is left on the units of a host.

use super::units::units;
use super::{Cluster, job};
use crate::model::{Spec, Stamp};

/// A host with two units of which 300 and 700 thousandths are left, and jobs that wait for half a
/// unit and for a whole one.
fn two_units(packing: &str) -> Cluster {
    let mut c = Cluster::new(&format!(
        "hosts:\n- {{name: h1, slots: 9, resources: {{gpu: 2}}}}\n\
         queues:\n- {{name: normal, packing: {packing}}}\n"
    ));
    for need in ["0.5", "1"] {
        c.submit(Spec {
            res_req: format!("rusage[gpu={need}]"),
            begin: Some(Stamp(c.now.0 + 1_000_000)),
            ..job(1)
        });
    }
    for need in ["0.7", "0.31"] {
        c.ask(1, &format!("rusage[gpu={need}]"));
        assert_eq!(c.pass().len(), 1);
    }
    c
}

#[test]
fn case_42_a_job_goes_where_least_becomes_useless() {
    for packing in ["frag", "fit", "pack", "spread"] {
        let mut c = two_units(packing);
        let id = c.ask(1, "rusage[gpu=0.3]");
        assert_eq!(c.pass(), [id]);
        assert_eq!(units(&c, id), "h1 gpu 0(0.3)", "{packing}");
        let next = c.ask(1, "rusage[gpu=0.3]");
        assert_eq!(c.pass(), [next]);
        assert_eq!(units(&c, next), "h1 gpu 1(0.3)", "{packing}");
    }
}

/// The fullest unit and the one with the smallest loss are different.
#[test]
fn frag_keeps_what_others_can_use() {
    let on = |packing: &str| {
        let mut c = Cluster::new(&format!(
            "hosts:\n- {{name: h1, slots: 40, resources: {{gpu: 2}}}}\n\
             queues:\n- {{name: normal, packing: {packing}}}\n"
        ));
        // Most jobs request 0.4: the remainder of the second unit is of use to them, while 0.1 of
        // the first would not be missed.
        for n in 0..70 {
            c.submit(Spec {
                res_req: "rusage[gpu=0.4]".into(),
                begin: Some(Stamp(c.now.0 + 1_000_000 + n)),
                ..job(1)
            });
        }
        for need in ["0.5", "0.6"] {
            c.ask(1, &format!("rusage[gpu={need}]"));
            c.pass();
        }
        let id = c.ask(1, "rusage[gpu=0.1]");
        c.pass();
        units(&c, id)
    };
    assert_eq!(on("fit"), "h1 gpu 1(0.1)");
    assert_eq!(on("frag"), "h1 gpu 0(0.1)");
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
}
