//! Each core belongs to one task at a time, whatever part of this host's local state is lost.

use super::fencing::{shepherds_write, start_record};
use super::*;
use crate::host::exe::{cpus, ledger};
use crate::model::{Binding, Cpu, CpuBind, CpuSet};
use crate::record::order::StartOrder;
use crate::sys::cpus as machine;
use crate::task::log::{AttemptRec, TaskRec};

/// The processors of the machine that this process may use, without their topology.
fn processors() -> Vec<Cpu> {
    machine::read(machine::SYSTEM.as_ref(), &machine::allowed().unwrap()).unwrap()
}

/// The threads of the first core.
fn first_core() -> CpuSet {
    let all = processors();
    let core = all[0].core;
    all.iter()
        .filter(|c| c.core == core)
        .map(|c| c.id)
        .collect()
}

fn cores() -> u32 {
    let cores: CpuSet = processors().iter().map(|c| c.core).collect();
    cores.len() as u32
}

/// An order for a job that binds this number of slots to cores.
fn order(id: u32, slots: u32) -> StartOrder {
    let Order::Start(order) = start(id) else {
        panic!("no start");
    };
    StartOrder {
        hosts: vec![Share("h1".into(), slots)],
        bind: CpuBind::Core,
        ..*order
    }
}

fn bind(exec: &mut Exec, order: &StartOrder) -> Option<Box<Binding>> {
    let in_use = exec.cpus_in_use();
    exec.starter.cpus.bind(order, &in_use)
}

/// A host whose ledger has attempt 1, given to the spawner of log 1 with this binding.
fn with_given(dir: &std::path::Path, binding: Option<Binding>) {
    let local = Local::at(&dir.join("local"));
    fs::mkdir_p(local.dir(), 0o755).unwrap();
    let empty = ledger::read(&local).unwrap();
    let (identity, share) = (ledger::LedgerIdentity::default(), Default::default());
    let l = ledger::Ledger::create(&local, "c", identity, &empty.table, &share);
    let mut l = l.unwrap();
    l.push(&AttemptRec::Given {
        a: first(1),
        e: 1,
        p: 1,
        l: 1,
        r: false,
        b: crate::sys::proc::boot_id().to_owned(),
        m: 0,
        f: 0,
        c: binding.map(Box::new),
        u: Vec::new(),
    });
    l.commit(true).unwrap();
}

fn on(cpus: CpuSet) -> Binding {
    Binding {
        cpus,
        ..Binding::default()
    }
}

fn write_start(dir: &std::path::Path, cpus: CpuSet) {
    let mut start = start_record(first(1));
    if let TaskRec::Start { cpus: told, .. } = &mut start {
        *told = cpus;
    }
    let local = Local::at(&dir.join("local"));
    let mut log = crate::sys::append::SharedAppender::open(&local.tasks(1)).unwrap();
    let line = crate::task::log::encode_task(&start, 0).unwrap();
    log.append(&line).unwrap();
}

/// Attempt 1 runs on the first core: no other job gets it until the end is recorded.
fn holds_its_core(exec: &mut Exec) {
    let all = bind(exec, &order(2, cores())).unwrap();
    assert!(all.cpus.is_empty(), "{all}");
    let why = format!("{} of {} cores are free", cores() - 1, cores());
    assert!(all.why.ends_with(&why), "{all}");
    if cores() > 1 {
        let one = bind(exec, &order(2, 1)).unwrap();
        assert!(
            !one.cpus.is_empty() && !one.cpus.meets(&first_core()),
            "{one}"
        );
    }
    let end = crate::task::ending::unknown(first(1), crate::model::TermReason::None, "");
    shepherds_write(exec, (1, 0), &[TaskRec::End(Box::new(end))]);
    exec.follow_tasks();
    let all = bind(exec, &order(2, cores())).unwrap();
    assert_eq!(all.cpus.len(), processors().len(), "{all}");
}

#[test]
fn cores_of_an_adopted_task_are_not_given_again() {
    let dir = tempfile::tempdir().unwrap();
    with_given(dir.path(), Some(on(first_core())));
    write_start(dir.path(), CpuSet::default());
    let mut exec = deaf_executor(dir.path());
    // Every executor rewrites the ledger.
    drop(exec);
    exec = deaf_executor(dir.path());
    holds_its_core(&mut exec);
}

#[test]
fn cores_are_known_by_the_start_of_their_task_when_the_ledger_lost_them() {
    let dir = tempfile::tempdir().unwrap();
    with_given(dir.path(), None);
    write_start(dir.path(), first_core());
    let mut exec = deaf_executor(dir.path());
    let report = exec.table.get(first(1)).unwrap().reports(first(1));
    let bound = |r: &crate::record::report::Report| match r {
        crate::record::report::Report::Started { bind, .. } => bind.as_deref().cloned(),
        _ => None,
    };
    assert_eq!(report.iter().find_map(bound), Some(on(first_core())));
    holds_its_core(&mut exec);
}

#[test]
fn cores_are_on_record_with_the_task_that_gets_them() {
    let dir = tempfile::tempdir().unwrap();
    let exec = deaf_executor(dir.path());
    publish(&exec, 1, &[spec(1), Order::Start(Box::new(order(1, 1)))]);
    let mut exec = exec;
    exec.turn(true);
    let given = |exec: &Exec| exec.table.get(first(1)).unwrap().given.clone();
    let binding = given(&exec).binding.unwrap();
    assert_eq!(binding.cpus, first_core());
    let local = Local::at(&dir.path().join("local"));
    let known = ledger::read(&local).unwrap();
    assert_eq!(known.table.get(first(1)).unwrap().given, given(&exec));
    // Its spawner died when it got the task: it never starts and holds nothing.
    exec.turn(true);
    assert!(cpus::cpus_in_use(&exec.table).is_empty());
    assert_eq!(bind(&mut exec, &order(2, 1)).unwrap().cpus, first_core());
    let unbound = StartOrder {
        bind: CpuBind::None,
        ..order(3, 1)
    };
    assert_eq!(bind(&mut exec, &unbound), None);
}
