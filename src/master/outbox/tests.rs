//! Orders of hosts whose files cannot be written, beside hosts whose files can.

use super::*;
use crate::model::first_attempt as attempt;
use crate::model::{Limits, Share, Spec};
use crate::record::event::Event;
use crate::record::frame::Reader;
use crate::record::order::{StartOrder, TaskUnits};

struct TestOutbox {
    _dir: tempfile::TempDir,
    layout: Layout,
    state: State,
    orders: Orders,
}

fn cancel(id: u32) -> Order {
    Order::Cancel { a: attempt(id) }
}

fn start(id: u32, host: &str) -> Order {
    Order::Start(Box::new(StartOrder {
        a: attempt(id),
        s: 1,
        command: "true".into(),
        name: String::new(),
        hosts: vec![Share(host.into(), 1)],
        limits: Limits::default(),
        resizes: 0,
        limit_changes: 0,
        index_end: 0,
        index_step: 0,
        t: 0,
        nice: 0,
        grace_ms: 0,
        rerunnable: None,
        mark: 0,
        ran: false,
        success: String::new(),
        requeue: String::new(),
        hooks: None,
        warn: None,
        private: false,
        bind: Default::default(),
        part_binds: Vec::new(),
        units: TaskUnits::default(),
    }))
}

fn none(_: &str) -> Vec<Order> {
    Vec::new()
}

fn to(host: &str, order: Order) -> Vec<(String, Order)> {
    vec![(host.to_owned(), order)]
}

impl TestOutbox {
    fn new() -> TestOutbox {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        let mut state = State::default();
        let spec = Box::new(Spec::default());
        state.apply(&Event::Spec { id: 1, spec });
        let orders = Orders::new(&layout, "c", 3).unwrap();
        TestOutbox {
            _dir: dir,
            layout,
            state,
            orders,
        }
    }

    /// Creates a file in place of the directory of `host`.
    fn obstruct(&self, host: &str) {
        fs::mkdir_p(&self.layout.hosts(), 0o755).unwrap();
        fs::publish(&self.layout.host(host), b"in the way").unwrap();
    }

    fn clear(&self, host: &str) {
        fs::remove(&self.layout.host(host)).unwrap();
    }

    fn write(&mut self, orders: Vec<(String, Order)>, now: u64) -> Vec<(String, AttemptId)> {
        self.orders.write(orders, now, &self.state, &none).blocked
    }

    /// The orders in a part, without the records before them.
    fn read(&self, host: &str, part: u64) -> Vec<Order> {
        let path = self.layout.orders(host, 3, part);
        let bytes = fs::read_small(&path, 1 << 20).unwrap();
        let mut reader = Reader::new(&bytes);
        Header::read(&mut reader, FileKind::Orders, Some("c")).unwrap();
        let mut orders = Vec::new();
        while let Some(line) = reader.next_line().unwrap() {
            orders.push(line.decode().unwrap());
        }
        orders.retain(|order| !matches!(order, Order::Spec { .. }));
        orders
    }
}

/// On a share that hosts reach through a server, unsynced data are read half a minute later.
#[test]
fn orders_are_synced_where_hosts_would_not_see_them_else() {
    let mut fixture = TestOutbox::new();
    for sync in [true, false] {
        fixture.orders.sync = sync;
        let host = format!("h-{sync}");
        fixture.write(to(&host, cancel(1)), 1_000);
        fixture.write(to(&host, cancel(2)), 1_000);
        let file = &fixture.orders.hosts[&host].framed.as_ref().unwrap().file;
        assert_eq!(file.synced_len() == file.valid_len(), sync);
    }
}

#[test]
fn a_host_whose_orders_cannot_be_made_waits_alone_and_is_tried_ever_more_rarely() {
    let mut fixture = TestOutbox::new();
    fixture.obstruct("h1");
    fixture.orders.prepare("h1", 1_000, &fixture.state, &none);
    fixture.orders.prepare("h2", 1_000, &fixture.state, &none);
    let both = [to("h1", cancel(1)), to("h2", cancel(2))].concat();
    assert_eq!(fixture.write(both, 1_000), []);
    assert_eq!(fixture.read("h2", 1), [cancel(2)]);
    assert!(fixture.orders.take_failed() && !fixture.orders.take_failed());
    let changes = fixture.orders.take_changes();
    assert!(
        matches!(&changes[..], [(host, Some(why))] if host == "h1" && why.contains("hosts/h1"))
    );
    let alarm = fixture.orders.alarm().unwrap();
    assert!(
        alarm.contains("1 host,") && alarm.contains("h1: "),
        "{alarm}"
    );
    // Tried after 1 s, then 2 s later, then 4 s.
    let mut tried = Vec::new();
    for now in 1_000..9_000 {
        if !fixture
            .orders
            .retry_writes(now, &fixture.state, &none)
            .is_empty()
        {
            tried.push(now);
        }
    }
    assert_eq!(tried, [2_000, 4_000, 8_000]);
    assert!(fixture.orders.take_changes().is_empty(), "nothing new");
    fixture.clear("h1");
    let again = |host: &str| match host {
        "h1" => vec![cancel(1), start(3, "h1")],
        _ => Vec::new(),
    };
    assert_eq!(
        fixture.orders.retry_writes(15_999, &fixture.state, &again),
        [] as [&str; 0]
    );
    assert_eq!(
        fixture.orders.retry_writes(16_000, &fixture.state, &again),
        ["h1"]
    );
    assert_eq!(fixture.read("h1", 1), [cancel(1), start(3, "h1")]);
    assert_eq!(fixture.orders.take_changes(), [("h1".to_owned(), None)]);
    assert_eq!(
        (fixture.orders.alarm(), fixture.orders.retry_at()),
        (None, None)
    );
}

#[test]
fn a_start_that_was_not_written_is_told_of_and_one_that_may_have_been_is_not() {
    let mut fixture = TestOutbox::new();
    fixture.obstruct("h1");
    let starts = [to("h1", start(1, "h1")), to("h2", start(2, "h2"))].concat();
    assert_eq!(fixture.write(starts, 1), [("h1".to_owned(), attempt(1))]);
    // The open file fails: it is not known how much of it was written.
    let broken = fixture.orders.hosts.get_mut("h2").unwrap();
    broken.framed.as_mut().unwrap().file =
        Appender::open(std::path::Path::new("/dev/full")).unwrap();
    assert_eq!(fixture.write(to("h2", start(3, "h2")), 2), []);
    assert!(fixture.orders.lacks_room().is_some());
    assert!(!fixture.orders.alarm().unwrap().contains("h2"));
}

#[test]
fn part_files_that_somebody_else_made_are_passed_over() {
    let mut fixture = TestOutbox::new();
    for part in 1..=3 {
        fs::mkdir_p(&fixture.layout.orders("h1", 3, part), 0o755).unwrap();
    }
    fixture.orders.prepare("h1", 1, &fixture.state, &none);
    assert_eq!(fixture.write(to("h1", cancel(1)), 1), []);
    assert_eq!(fixture.read("h1", 4), [cancel(1)]);
    assert_eq!(fixture.orders.alarm(), None);
}

#[test]
fn with_thousands_of_hosts_that_cannot_be_written_work_and_alarm_stay_small() {
    let mut fixture = TestOutbox::new();
    fs::mkdir_p(fixture.layout.root(), 0o755).unwrap();
    fs::publish(&fixture.layout.hosts(), b"in the way").unwrap();
    for n in 0..3_000 {
        fixture
            .orders
            .prepare(&format!("h{n}"), 1, &fixture.state, &none);
    }
    let alarm = fixture.orders.alarm().unwrap();
    assert!(
        alarm.contains("3000 hosts") && alarm.len() < 2_000,
        "{alarm}"
    );
    assert_eq!(
        fixture
            .orders
            .retry_writes(5_000, &fixture.state, &none)
            .len(),
        RETRIES_MAX
    );
}

#[test]
fn a_part_that_its_host_cannot_read_is_renewed_and_ever_more_slowly() {
    let mut fixture = TestOutbox::new();
    fixture.write(to("h1", cancel(1)), 1_000);
    let damaged = |part| {
        vec![DamagedOrders {
            host: "h1".into(),
            part,
            at: 77,
            why: "the checksum does not match".into(),
        }]
    };
    fixture.orders.renew(damaged(9), 1_000);
    assert_eq!(fixture.orders.damages(1_000).count(), 0, "no such part");
    let again = |_: &str| vec![cancel(1), cancel(2)];
    let mut times = Vec::new();
    let mut now = 1_000;
    for part in 1..=4 {
        fixture.orders.renew(damaged(part), now);
        fixture.orders.renew(damaged(part), now);
        assert_eq!(
            fixture.orders.damages(now).count() as u64,
            part,
            "said once"
        );
        let at = fixture.orders.retry_at().unwrap();
        times.push(at - now);
        now = at;
        assert_eq!(
            fixture.orders.retry_writes(now, &fixture.state, &again),
            ["h1"]
        );
        assert_eq!(fixture.read("h1", part + 1), [cancel(1), cancel(2)]);
    }
    assert_eq!(times, [1_000, 2_000, 4_000, 8_000]);
    let files = fs::list_dir(&fixture.layout.host("h1"), 100).unwrap();
    assert_eq!(files.len(), 2, "{files:?}");
    let text = fixture.orders.damages(now).next().unwrap();
    assert!(
        text.contains("orders.000003.0001.yaml:77: damaged"),
        "{text}"
    );
}

/// A quota on one host's directory, or a read-only mount of it: the others have room.
#[test]
fn room_that_one_host_lacks_is_its_own_trouble_where_the_share_has_some() {
    let mut fixture = TestOutbox::new();
    fixture.write([to("h1", cancel(1)), to("h2", cancel(2))].concat(), 1_000);
    let fail = |fixture: &mut TestOutbox, code: i32, now: u64| {
        let e = std::io::Error::from_raw_os_error(code);
        let e = sys::Error::new("append to", &fixture.layout.orders("h1", 3, 1), e);
        fixture.orders.note::<()>("h1", Err(e), now);
    };
    fail(&mut fixture, libc::EDQUOT, 2_000);
    assert!(fixture.orders.lacks_room().is_some() && fixture.orders.alarm().is_none());
    // Nothing of it is written: it is withdrawn if the share has room.
    let unsent = fixture
        .orders
        .write(to("h1", start(7, "h1")), 2_000, &fixture.state, &none);
    assert_eq!((unsent.blocked.len(), unsent.without_space.len()), (0, 1));
    fixture.orders.have_room(2_000);
    assert_eq!(fixture.orders.lacks_room(), None);
    let changes = fixture.orders.take_changes();
    assert!(
        matches!(&changes[..], [(host, Some(_))] if host == "h1"),
        "{changes:?}"
    );
    assert!(
        fixture
            .orders
            .alarm()
            .is_some_and(|text| text.contains("1 host"))
    );
    assert!(fixture.orders.retry_at().is_some_and(|at| at > 2_000));
    // The next failure is of the same kind: the cause need not be checked again.
    fail(&mut fixture, libc::EROFS, 5_000);
    assert!(fixture.orders.lacks_room().is_none() && fixture.orders.take_changes().is_empty());
    let tried = fixture.orders.retry_writes(600_000, &fixture.state, &none);
    assert_eq!(tried, ["h1"]);
    let changes = fixture.orders.take_changes();
    assert!(
        matches!(&changes[..], [(host, None)] if host == "h1"),
        "{changes:?}"
    );
}

#[test]
fn a_file_is_made_with_the_first_order_and_says_first_for_whom_it_is() {
    let mut fixture = TestOutbox::new();
    let ledger = Order::Ledger { id: "l".into() };
    let in_force = |_: &str| vec![Order::Ledger { id: "l".into() }, start(7, "h1")];
    for epoch in [1, 2] {
        fs::mkdir_p(&fixture.layout.host("h1"), 0o755).unwrap();
        fs::publish(&fixture.layout.orders("h1", epoch, 1), b"of before").unwrap();
    }
    let there = |fixture: &TestOutbox| fs::list_dir(&fixture.layout.host("h1"), 9).unwrap().len();
    fixture.orders.remove_older_epochs();
    assert_eq!(there(&fixture), 2, "nothing to say, nothing to do");
    for id in [1, 2] {
        let orders = to("h1", cancel(id));
        fixture.orders.write(orders, 1, &fixture.state, &in_force);
    }
    assert_eq!(fixture.read("h1", 1), [ledger, cancel(1), cancel(2)]);
    fixture.orders.remove_older_epochs();
    assert_eq!(there(&fixture), 1);
}
