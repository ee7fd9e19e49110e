//! Jobs that their queue binds to cores, with real processes: what the kernel says that they may
//! use, before and after `cbexe` is killed. The leader is played by the test.

use crate::executor_bed::{Cluster, attempt};
use crate::patience::until;
use corral::model::{Binding, CpuBind, CpuSet, Share};
use corral::record::report::Report;
use corral::sys::cpus;

/// The cores that this process may use.
fn cores() -> u32 {
    let all = cpus::read(cpus::SYSTEM.as_ref(), &cpus::allowed().unwrap()).unwrap();
    all.iter().map(|c| c.core).collect::<CpuSet>().len() as u32
}

impl Cluster {
    /// The lines of a job's LSB_AFFINITY_HOSTFILE, each as host, processors and the rest.
    fn slots(&self, id: u32) -> Vec<(String, CpuSet, String)> {
        let text = std::fs::read_to_string(self.path(&format!("cpus.{id}.slots"))).unwrap();
        let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        let all = text.lines().map(words);
        all.map(|w| (w[0].clone(), CpuSet::parse(&w[1]).unwrap(), w[3].clone()))
            .collect()
    }

    /// Orders a bound job; gives what it was told and what the kernel lets its children use.
    fn bound(&mut self, id: u32, slots: u32) -> (CpuSet, String) {
        let out = format!("cpus.{id}");
        let command = format!(
            "(echo \"$CB_BIND_CPUS\" \"$LSB_BIND_CPU_LIST\"; \
             cat \"${{LSB_AFFINITY_HOSTFILE-/dev/null}}\" >{out}.slots; \
             sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status; echo) >{out}.tmp; \
             mv {out}.tmp {out}; sleep 600"
        );
        self.start_with(id, &command, |o| {
            o.hosts = vec![Share("h1".into(), slots)];
            o.bind = CpuBind::Core;
        });
        let text = self.wait_file(&out);
        let mut lines = text.lines();
        let environment = lines.next().unwrap().to_owned();
        (CpuSet::parse(lines.next().unwrap()).unwrap(), environment)
    }

    fn binding(&self, id: u32) -> Binding {
        self.wait_for("the start", |r| match r {
            Report::Started { a, bind, .. } if *a == attempt(id) => bind.as_deref().cloned(),
            _ => None,
        })
    }
}

#[test]
fn bound_jobs_have_no_core_in_common_and_a_restarted_cbexe_keeps_it_so() {
    let mut c = Cluster::new();
    c.start_exe();
    let (one, environment) = c.bound(1, 1);
    assert_eq!(c.binding(1).cpus, one);
    let each: Vec<String> = one.iter().map(|cpu| cpu.to_string()).collect();
    assert_eq!(environment, format!("{one} {}", each.join(",")));
    assert_eq!(c.slots(1), [("h1".into(), one.clone(), "2".into())]);

    c.restart_exe();
    assert_eq!(c.binding(1).cpus, one, "reported again by the next cbexe");
    // All that is left, or nothing on a machine with one core.
    let left = cores() - 1;
    if left > 0 {
        let (two, _) = c.bound(2, left);
        assert!(!two.meets(&one) && !two.is_empty(), "{two} and {one}");
        let slots = c.slots(2);
        assert_eq!(slots.len(), left as usize);
        let mut all = CpuSet::default();
        for (_, cpus, _) in &slots {
            assert!(!cpus.is_empty() && !all.meets(cpus), "{slots:?}");
            all.extend(cpus);
        }
        assert_eq!(all, two);
    } else {
        println!("skipped in part: one core");
    }
    let (none, environment) = c.bound(3, 1);
    assert_eq!(none, cpus::allowed().unwrap(), "runs unbound");
    assert_eq!(environment, " ");
    assert_eq!(
        c.slots(3),
        [],
        "the slots of an unbound job have no processors"
    );
    let why = format!("it has 1 slot, and 0 of {} cores are free", cores());
    assert_eq!(
        c.binding(3),
        Binding {
            why,
            ..Binding::default()
        }
    );

    c.kill(1);
    let file = c.path("local/scratch/1.0.1.cpus");
    until("the list of CPUs is removed", || !file.exists());
    let (again, _) = c.bound(4, 1);
    assert_eq!(again, one, "what was freed is given again");
    for id in 2..=4 {
        if id > 2 || left > 0 {
            c.kill(id);
        }
    }
}
