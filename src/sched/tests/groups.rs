//! What the engine charges to whom in a share tree: the group that a job was submitted for
//! (`csub -G`), GPU time. The rules of sharing are tested beside the tree itself.

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

/// GPU time counts as run time does: while the job runs, behind its end, with the next leader.
#[test]
fn gpu_time_counts_for_shares() {
    let text = "general: {cpu_time_factor: 0, run_time_factor: 0, run_job_factor: 0, \
                gpu_time_factor: 1}\nhosts:\n- {name: h1, slots: 2, resources: {gpu: 4}}\n\
                queues:\n- {name: normal, fairshare: '[default,1]'}\n";
    for (ended, anew) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut c = Cluster::new(text);
        let by = |user: &str, uid: u32, gpus: &str| Spec {
            user: user.into(),
            uid,
            res_req: format!("rusage[gpu={gpus}:duration=60s]"),
            ..job(1)
        };
        let (a, b) = (c.submit(by("a", 1, "2")), c.submit(by("b", 2, "1")));
        assert_eq!(c.pass(), [a, b]);
        c.after(100);
        c.pass();
        if ended {
            c.end_after(a, 100);
            c.end_after(b, 100);
        }
        if anew {
            c.engine = super::Engine::new(c.config.clone());
        }
        c.after(1);
        let next = [c.submit(by("a", 1, "1")), c.submit(by("b", 2, "1"))];
        if !ended {
            c.end_after(b, 101);
        }
        let started = c.pass();
        assert_eq!(started[0], next[1], "{ended} {anew}: b used less");
    }
}
