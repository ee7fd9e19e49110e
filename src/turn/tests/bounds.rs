//! What a request may cost, and that nothing is kept of jobs that are forgotten.

use super::*;

#[test]
fn deadlines_of_forgotten_jobs_are_forgotten() {
    let mut b = Bench::new();
    let far = Stamp(b.now + 365 * 86_400_000);
    b.submit(5, |j| j.spec.deadline = Some(far));
    b.submit(5, |j| (j.spec.deadline, j.hold) = (Some(far), true));
    let changes = crate::record::request::Changes {
        reset: vec!["t".into()],
        ..Default::default()
    };
    let sel = Selector {
        ids: vec!["2".into()],
        ..Selector::default()
    };
    let changes = Box::new(changes);
    b.ask(5, vec![Verb::Modify { sel, changes }]);
    assert_eq!(b.core.state.next_deadline(), Some(far));
    b.end("h1", 1, 1, 0);
    b.now += 101_000;
    b.turn(Vec::new());
    assert!(b.core.state.job(1).is_none());
    assert_eq!(b.core.state.next_deadline(), None);
}
