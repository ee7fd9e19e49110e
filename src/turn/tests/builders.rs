//! Values that tests need often: attempts, reports, selectors.

use super::*;

pub(super) fn attempt(id: u32, at: u32) -> AttemptId {
    let j = JobKey::job(id);
    AttemptId { j, at }
}

pub(super) fn exited(a: AttemptId, code: i32) -> Report {
    let code = Some(code);
    Report::Ended(Box::new(Ended {
        a,
        code,
        ..Ended::default()
    }))
}

pub(super) fn signalled(a: AttemptId) -> Report {
    Report::Ended(Box::new(Ended {
        a,
        sig: 9,
        ..Ended::default()
    }))
}

pub(super) fn hello(boot: &str) -> Report {
    Report::Hello {
        boot: boot.into(),
        version: "1".into(),
        t: 0,
        parts: false,
    }
}

pub(super) fn complete(boot: &str) -> Report {
    Report::Complete { boot: boot.into() }
}

pub(super) fn selector(ids: &[&str]) -> Selector {
    Selector {
        ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        ..Selector::default()
    }
}
