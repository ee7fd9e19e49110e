//! Which node of a share tree the engine charges: the group for which a job was submitted (`csub
//! -G`), GPU time. The rules of sharing are tested beside the tree itself.

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

/// GPU time is counted like run time: while the job runs, after its end, and by the next leader.
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

/// Dominant shares refer to what the cluster has now, not to what it had at the last sweep.
#[test]
fn a_total_changes_with_the_hosts_at_once() {
    let mut c = Cluster::new(
        "hosts:\n- {name: h1, slots: 20, resources: {gb: 10}}\n\
         queues:\n- {name: normal, policy: drf, fairshare: '[a,1] [b,1]'}\n",
    );
    let put = |c: &mut Cluster, user: &str, uid: u32, req: &str| {
        let (user, res_req) = (user.into(), req.into());
        c.submit(Spec {
            user,
            uid,
            res_req,
            ..job(1)
        })
    };
    c.pass();
    // The resource is named for the first time, within the same second.
    let first = put(&mut c, "a", 1, "rusage[gb=5]");
    assert_eq!(c.pass(), [first]);
    let shown = |c: &Cluster| c.engine.shares(c.now)[0].1[0].priority;
    assert_eq!(shown(&c), 500_000, "half of the only host's");
    c.reconfigure(
        "hosts:\n- {name: h1, slots: 20, resources: {gb: 20}}\n\
         queues:\n- {name: normal, policy: drf, fairshare: '[a,1] [b,1]'}\n",
    );
    c.pass();
    assert_eq!(shown(&c), 250_000);
    // Six slots of twenty are more than a quarter of the resource.
    let order: Vec<u32> = (0..6).map(|_| put(&mut c, "b", 2, "")).collect();
    assert_eq!(c.pass(), order);
    let last = [put(&mut c, "b", 2, ""), put(&mut c, "a", 1, "rusage[gb=1]")];
    assert_eq!(c.pass(), [last[1], last[0]]);
}
