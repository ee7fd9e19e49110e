//! The group that a job was submitted for (`csub -G`) decides its place in the share tree. Owns no
//! other rule of sharing; those are tested beside the tree itself.

use super::{Cluster, job};
use crate::model::Spec;

#[test]
fn the_group_that_was_asked_for_is_charged() {
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 6}\n\
         usergroups:\n- {name: g1, members: u1000}\n- {name: g2, members: u1000}\n\
         queues:\n- {name: normal, fairshare: '[g1,2] [g2,1]'}\n",
    );
    let mut of = |group: &str| -> Vec<u32> {
        let user_group = group.to_owned();
        let spec = Spec {
            user_group,
            ..job(1)
        };
        (0..6).map(|_| c.submit(spec.clone())).collect()
    };
    let (g1, _) = (of("g1"), of("g2"));
    let started = c.pass();
    let first = started.iter().filter(|id| g1.contains(id)).count();
    assert_eq!((started.len(), first), (6, 4));
}
