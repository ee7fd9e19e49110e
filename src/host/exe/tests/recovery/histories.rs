//! Random orders and records of shepherds, with a crash at any record of the ledger: the executor
//! that follows knows each attempt as the one before it did, and starts none again.

use super::*;
use crate::model::{CpuSet, Limits, Units};
use crate::record::frame::Reader;
use crate::record::header::{FileKind, Header};
use crate::record::order::{Act, StartOrder, TaskUnits};
use crate::record::point::Point;
use crate::record::report::Report;
use crate::state::any_events::Dice;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const JOBS: u32 = 5;

/// What an executor knows of an attempt and must not forget. The struct is taken apart completely,
/// so that a field that is added must be named here.
pub(super) fn known(entry: &table::Entry) -> String {
    let table::Entry {
        status,
        // Read again with the orders that name it.
        named_by: _,
        rerunnable,
        mark,
        ordered,
        // Repeated by the start order.
        limits:
            table::HeldLimits {
                limits: _,
                last_change: _,
                last_sent,
            },
        grace_ms: _,
        signals,
        waiting,
        resizes:
            table::Resizes {
                done,
                next: _,
                notify: _,
            },
        // The file with the warning is removed at the end.
        warned: _,
        suspended,
        // Sampled again.
        usage: _,
        acked,
        given,
    } = entry;
    let table::SpawnRecord {
        boot,
        binding,
        // Those of resizes are read again with the orders.
        units: _,
        launched: _,
        gang: _,
        check: _,
    } = given;
    // Acts that wait for the start are read again from the orders.
    let carried_out = waiting.first().map_or(*signals, |first| first.number - 1);
    match status {
        table::Status::Ended(end) => {
            // Samples count as long as the executor lives.
            let u = Default::default();
            let end = Ended { u, ..*end.clone() };
            format!("ended {end:?} {acked} {mark} {ordered}")
        }
        // A leader takes it for any run with this id.
        table::Status::NeverStarts(why) => format!("never {why} {acked}"),
        table::Status::Running(_) | table::Status::Sent(_) => {
            let of_orders = (rerunnable, mark, ordered);
            let numbers = (carried_out, done, last_sent);
            let of_start = (boot, binding);
            format!("{status:?} {suspended:?} {of_orders:?} {numbers:?} {of_start:?}")
        }
    }
}

/// A host with its orders and the processes that its shepherds would be.
struct Host {
    dir: tempfile::TempDir,
    exec: Option<Exec>,
    sent: Sent,
    /// The place of the orders, and the orders in the current part.
    at: (u64, u64),
    orders: Vec<Order>,
    /// Numbers of signals and changes, growing.
    n: u32,
    /// Attempts whose end the leader knows: it orders them no more.
    over: BTreeSet<AttemptId>,
    /// The last resize of each attempt, and its units since then.
    resized: BTreeMap<AttemptId, (u32, TaskUnits)>,
    shepherd: std::process::Child,
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.shepherd.kill();
        let _ = self.shepherd.wait();
    }
}

/// A process that ignores the signal of orders.
fn deaf_process() -> std::process::Child {
    use std::io::Read as _;
    let ignore = "trap '' 34 35 36 37 38 39 40 41 42; echo x; exec sleep 600";
    let mut child = std::process::Command::new("sh")
        .args(["-c", ignore])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut ready)
        .unwrap();
    child
}

/// Units with these names.
fn units_of(names: &[&str]) -> TaskUnits {
    let list = vec![Units {
        host: "h1".into(),
        res: "gpu".into(),
        names: names.iter().map(|name| (*name).into()).collect(),
        ..Units::default()
    }];
    TaskUnits {
        list,
        ..TaskUnits::default()
    }
}

impl Host {
    fn new() -> Host {
        let dir = tempfile::tempdir().unwrap();
        let sent = Sent::default();
        let exec = executor(dir.path(), &sent);
        let mut host = Host {
            dir,
            exec: Some(exec),
            sent,
            at: (1, 1),
            orders: Vec::new(),
            n: 0,
            over: BTreeSet::new(),
            resized: BTreeMap::new(),
            shepherd: deaf_process(),
        };
        host.publish();
        host.exec().turn(true);
        host
    }

    fn exec(&mut self) -> &mut Exec {
        self.exec.as_mut().unwrap()
    }

    fn publish(&mut self) {
        let (epoch, part) = self.at;
        publish_in(epoch, self.exec.as_ref().unwrap(), part, &self.orders);
    }

    /// One more order, a record of a shepherd, or a turn.
    fn step(&mut self, seed: u64) {
        let mut dice = Dice::new(seed);
        let (a, mark) = self.choose(&mut dice);
        let id = a.j.id;
        self.n += 1;
        let n = self.n;
        let order = match dice.roll(14) {
            0..=3 => return self.shepherd_writes(a, dice.roll(4)),
            4..=6 if self.over.contains(&a) => return,
            4..=6 => {
                self.orders.push(spec(id));
                self.start(a, mark, &mut dice)
            }
            7 => Order::Cancel { a },
            8 => Order::Signal {
                a,
                act: [Act::Stop, Act::Resume, Act::Kill][dice.roll(3) as usize],
                reason: TermReason::Owner,
                grace_ms: 0,
                n,
                mark,
            },
            9 => self.resize(a),
            10 => Order::Limits {
                a,
                limits: Limits {
                    mem_b: Some(u64::from(n) << 20),
                    ..Limits::default()
                },
                n,
                mark,
            },
            11 => self.acknowledge(&mut dice),
            12 => Order::Journal(Point {
                epoch: self.at.0,
                segment: 1,
                seq: u64::from(n),
                id: 3,
            }),
            _ => return self.new_part(&mut dice),
        };
        self.orders.push(order);
        self.publish();
    }

    fn resize(&mut self, a: AttemptId) -> Order {
        let n = self.n;
        let units = units_of(&[&format!("{}", a.j.id), &format!("more{n}")]);
        self.resized.insert(a, (n, units.clone()));
        Order::Resize {
            a,
            hosts: vec![Share("h1".into(), 2)],
            n,
            units,
        }
    }

    /// Usually an attempt that is known here, with its mark.
    fn choose(&self, dice: &mut Dice) -> (AttemptId, u32) {
        let table = &self.exec.as_ref().unwrap().table;
        let live: Vec<_> = table.live_attempts().map(|(a, e)| (a, e.mark)).collect();
        match dice.roll(3) {
            0 | 1 if !live.is_empty() => live[dice.roll(live.len() as u32) as usize],
            _ => {
                let (id, at) = (1 + dice.roll(JOBS), 1 + dice.roll(2));
                (AttemptId { at, ..first(id) }, 1 + dice.roll(2))
            }
        }
    }

    fn start(&self, a: AttemptId, mark: u32, dice: &mut Dice) -> Order {
        let Order::Start(order) = start(a.j.id) else {
            panic!("it is a start");
        };
        let units = match dice.roll(2) {
            0 => TaskUnits::default(),
            _ => units_of(&[&format!("{}", a.j.id)]),
        };
        Order::Start(Box::new(StartOrder {
            a,
            mark,
            rerunnable: Some(dice.roll(2) == 0),
            ran: dice.roll(12) == 0,
            units,
            ..*order
        }))
    }

    /// The current file of reports: sequence numbers and reports.
    fn reports(&mut self) -> (u64, Vec<(u64, Report)>) {
        let part = self.exec().reports.number().unwrap();
        let path = self.exec().setup.layout.reports("h1", part);
        let bytes = std::fs::read(path).unwrap();
        let mut reader = Reader::new(&bytes);
        Header::read(&mut reader, FileKind::Reports, Some("c")).unwrap();
        let mut all = Vec::new();
        let mut seq = 0;
        while let Some(line) = reader.next_line().unwrap() {
            seq += 1;
            all.push((seq, line.decode().unwrap()));
        }
        (part, all)
    }

    fn acknowledge(&mut self, dice: &mut Dice) -> Order {
        let (part, all) = self.reports();
        let seq = u64::from(dice.roll(all.len() as u32 + 2));
        let final_of = |report: &Report| match report {
            Report::Ended(end) => Some(end.a),
            Report::Never { a, .. } => Some(*a),
            _ => None,
        };
        let known = all.iter().filter(|(n, _)| *n <= seq);
        self.over
            .extend(known.filter_map(|(_, report)| final_of(report)));
        Order::Ack { part, seq }
    }

    /// The leader continues in another part, or another leader leads: either repeats what is in
    /// force.
    fn new_part(&mut self, dice: &mut Dice) {
        let (epoch, part) = self.at;
        let over = &self.over;
        self.orders.retain(|order| match order {
            Order::Spec { .. } => true,
            Order::Start(order) => !over.contains(&order.a),
            _ => false,
        });
        for order in &mut self.orders {
            if let Order::Start(order) = order
                && let Some((n, units)) = self.resized.get(&order.a)
            {
                (order.resizes, order.units) = (*n, units.clone());
            }
        }
        match dice.roll(2) {
            0 => self.at = (epoch + 1, 1),
            _ => {
                let next = Order::Next { part: part + 1 };
                let kept = self.orders.clone();
                self.orders.push(next);
                self.publish();
                self.orders = kept;
                self.at = (epoch, part + 1);
            }
        }
        self.publish();
    }

    /// Its shepherd starts it, is stopped, goes on or ends: only what was sent to the spawner.
    fn shepherd_writes(&mut self, a: AttemptId, what: u32) {
        let pid = i32::try_from(self.shepherd.id()).unwrap();
        let began = crate::sys::proc::info(pid).unwrap().start;
        let exec = self.exec.as_ref().unwrap();
        let Some(entry) = exec.table.get(a) else {
            return;
        };
        let record = match (&entry.status, what) {
            (table::Status::Sent(log), _) if Some(*log) == exec.spawners.log() => TaskRec::Start {
                a,
                pid,
                born: began * 1000 / crate::sys::proc::ticks_per_second(),
                boot: crate::sys::proc::boot_id().to_owned(),
                group: format!("g{}", a.j.id),
                t: i64::from(self.n),
                cpus: CpuSet::default(),
            },
            (table::Status::Running(_), 0 | 1) => {
                let (on, t) = (what == 0, i64::from(self.n));
                TaskRec::Susp { a, on, t }
            }
            (table::Status::Running(_), _) => TaskRec::End(Box::new(Ended {
                a,
                start: 1,
                t: i64::from(self.n),
                code: Some(0),
                ..Ended::default()
            })),
            _ => return,
        };
        let deferred = exec.spawners.deferred.iter().any(|task| task.a == a);
        if !deferred {
            let log = exec.spawners.log().unwrap();
            shepherds_write(exec, (log, entry.mark), &[record]);
        }
    }

    fn known(&self) -> BTreeMap<AttemptId, String> {
        let table = &self.exec.as_ref().unwrap().table;
        table.iter().map(|(a, e)| (a, known(e))).collect()
    }

    /// Units of attempts that are not over.
    fn units(&self) -> BTreeMap<AttemptId, Vec<String>> {
        let table = &self.exec.as_ref().unwrap().table;
        let live = table.live_attempts();
        live.map(|(a, e)| (a, e.given.units.clone())).collect()
    }

    /// Attempts that were sent to spawners, with the runs that were meant.
    fn started(&self) -> Vec<AttemptId> {
        let sent = self.sent.lock().unwrap();
        let starts = sent.iter().filter_map(|message| match message {
            ToSpawner::Start(task) => Some(task.a),
            _ => None,
        });
        starts.collect()
    }

    /// Attempts of which the leader has not acknowledged the end.
    fn unacknowledged(&self) -> BTreeSet<AttemptId> {
        let table = &self.exec.as_ref().unwrap().table;
        table
            .iter()
            .filter(|(_, e)| !(e.acked && e.is_final()))
            .map(|(a, _)| a)
            .collect()
    }

    /// The process dies; `cut`: the ledger has lost its last records, which were never synced.
    fn crash(&mut self, cut: Option<u32>) {
        let exec = self.exec.take().unwrap();
        let path = exec.setup.local.attempts();
        drop(exec);
        if let Some(cut) = cut {
            let bytes = std::fs::read(&path).unwrap();
            let ends = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n');
            let ends: Vec<usize> = ends.map(|(at, _)| at + 1).collect();
            let keep = ends.len().saturating_sub(cut as usize).max(2);
            std::fs::write(&path, &bytes[..ends[keep - 1]]).unwrap();
        }
        self.exec = Some(executor(self.dir.path(), &self.sent));
    }
}

/// What a restart may change: a task that its spawner had not started never starts.
fn may_become(before: &str, after: &str) -> bool {
    before == after || (before.starts_with("Sent(") && after.starts_with("never "))
}

fn follow(steps: &[(u64, bool)]) -> Result<(), TestCaseError> {
    let mut host = Host::new();
    for (seed, crashes) in steps {
        host.step(*seed);
        if seed % 3 > 0 {
            host.exec().turn(true);
        }
        // A host starts each attempt at most once.
        let starts = host.started();
        let once: BTreeSet<_> = starts.iter().collect();
        prop_assert_eq!(once.len(), starts.len(), "{:?}", starts);
        if !crashes {
            continue;
        }
        host.exec().turn(true);
        host.exec().ledger.commit(false).unwrap();
        let (due, units) = (host.unacknowledged(), host.units());
        let (before, top) = (host.known(), host.exec().table.highest_job_id());
        let (share, number) = (host.exec().share.recorded.clone(), host.reports().0);
        let identity = host.exec().ledger.identity.clone();
        host.crash(None);
        let after = host.known();
        for (a, what) in &before {
            let now = after.get(a).map_or("", String::as_str);
            prop_assert!(may_become(what, now), "{}: {} became {}", a, what, now);
        }
        // The logs of shepherds still name attempts that are over and forgotten.
        let known = |a: &&AttemptId| before.contains_key(a) || host.over.contains(a);
        let new: Vec<_> = after.keys().filter(|a| !known(a)).collect();
        prop_assert!(new.is_empty(), "{:?}", new);
        prop_assert_eq!(host.exec().table.highest_job_id(), top);
        prop_assert_eq!(&host.exec().share.recorded, &share);
        prop_assert_eq!(&host.exec().ledger.identity, &identity);
        // Everything that is not acknowledged is reported again, in a file with a higher number.
        host.exec().turn(false);
        let (part, reports) = host.reports();
        prop_assert!(part > number, "{} after {}", part, number);
        let complete = reports
            .iter()
            .any(|(_, r)| matches!(r, Report::Complete { .. }));
        prop_assert!(complete, "the leader waits for the end of the list");
        let told = reports.iter().filter_map(|(_, report)| report.attempt());
        let told: BTreeSet<AttemptId> = told.collect();
        let untold: Vec<_> = due.difference(&told).collect();
        prop_assert!(untold.is_empty(), "{:?} are not reported", untold);
        // With the orders, it knows all units that an attempt has.
        host.exec().turn(true);
        for (a, names) in host.units() {
            prop_assert_eq!(Some(&names), units.get(&a), "{}", a);
        }
    }
    Ok(())
}

#[test]
fn an_executor_knows_what_the_one_before_it_knew() {
    let mut config = crate::text::cases();
    config.cases = 16;
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let steps = proptest::collection::vec((any::<u64>(), proptest::bool::weighted(0.2)), 1..40);
    if let Err(e) = runner.run(&steps, |steps| follow(&steps)) {
        panic!("{e}");
    }
}

/// With any number of its last records lost, those that are left count, and nothing starts twice
/// that a spawner was sent.
#[test]
fn a_ledger_cut_at_any_record_loses_no_more_than_what_follows() {
    let mut host = Host::new();
    for seed in 1..120 {
        host.step(seed * 7919);
        host.exec().turn(true);
    }
    let path = host.exec().setup.local.attempts();
    let whole = std::fs::read(&path).unwrap();
    let lines = whole.iter().filter(|b| **b == b'\n').count() as u32;
    assert!(lines > 10, "{lines}");
    let full = host.known();
    for cut in 0..lines - 2 {
        std::fs::write(&path, &whole).unwrap();
        host.crash(Some(cut));
        let known = host.known();
        let expected = |a: &&AttemptId| full.contains_key(a) || host.over.contains(a);
        let unexpected: Vec<_> = known.keys().filter(|a| !expected(a)).collect();
        assert!(unexpected.is_empty(), "cut {cut}: {unexpected:?}");
        let identity = &host.exec().ledger.identity;
        assert!(!identity.predates_names && !identity.id.is_empty());
    }
}
