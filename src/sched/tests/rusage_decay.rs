//! Reservations that end or shrink while the job runs.

use super::{Cluster, Engine};

fn one_host() -> Cluster {
    Cluster::new(
        "hosts:\n- {name: h1, slots: 9, resources: {lic: 50}}\nqueues:\n- {name: normal}\n",
    )
}

fn taken(c: &Cluster) -> f64 {
    let list = c.engine.reserved(&c.table, "h1");
    list.iter().map(|(_, n)| n).sum()
}

#[test]
fn a_falling_reservation_gives_back_step_by_step() {
    let mut c = one_host();
    let id = c.ask(1, "rusage[lic=50:duration=100:decay=1]");
    assert_eq!(c.pass(), [id]);
    assert_eq!(taken(&c), 50.0);
    let next = c.ask(1, "rusage[lic=10]");
    assert!(c.pass().is_empty());
    assert_eq!(c.last.wake.map(|t| t.0 - c.now.0), Some(60_000));
    // Half a licence each minute.
    c.after(60);
    assert!(c.pass().is_empty());
    assert_eq!(taken(&c), 49.5);
    c.after(19 * 60 - 1);
    assert!(c.pass().is_empty());
    assert_eq!(taken(&c), 40.5);
    c.after(1);
    assert_eq!(c.pass(), [next]);
    assert_eq!(taken(&c), 50.0);
    // The engine of another leader returns the same.
    c.engine = Engine::new(c.config.clone());
    c.pass();
    assert_eq!(taken(&c), 50.0);
    c.after(80 * 60);
    c.pass();
    assert_eq!(taken(&c), 10.0);
    assert_eq!(c.last.wake, None);
}

#[test]
fn a_reservation_with_an_end_frees_all_at_once() {
    let mut c = one_host();
    let id = c.ask(2, "rusage[lic=25/task:duration=90s]");
    assert_eq!(c.pass(), [id]);
    let next = c.ask(1, "rusage[lic=1]");
    c.after(89);
    assert!(c.pass().is_empty());
    c.after(1);
    assert_eq!(c.pass(), [next]);
    assert_eq!(taken(&c), 1.0);
    c.end(id);
    c.end(next);
    c.pass();
    assert_eq!(taken(&c), 0.0);
}
