//! How long tests wait for what must happen: in one place, and far longer than it takes. On a machine
//! that is busy with other work everything takes ten times as long; a test that gives up by then says
//! nothing about Corral. What is a promise in time is measured by its test, with this patience
//! around it.

use std::time::{Duration, Instant};

/// What must happen is not given up on before this time has passed.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// Pauses between two looks: the first ones are short, later ones a part of the time that has passed.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));

/// When patience ends that begins now: for loops that do not fit below.
pub fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

/// Looks until this is so.
pub fn until(what: &str, so: impl FnMut() -> bool) {
    until_or(so, || what.to_owned());
}

/// The same, and tells what is known when it does not become so.
pub fn until_or(mut so: impl FnMut() -> bool, why: impl FnOnce() -> String) {
    find_or(|| so().then_some(()), why);
}

/// Looks until there is something; gives it.
pub fn find<T>(what: &str, get: impl FnMut() -> Option<T>) -> T {
    find_or(get, || what.to_owned())
}

/// The same, and tells what is known when there is nothing.
pub fn find_or<T>(mut get: impl FnMut() -> Option<T>, why: impl FnOnce() -> String) -> T {
    let begin = Instant::now();
    loop {
        let look = Instant::now();
        if let Some(found) = get() {
            return found;
        }
        let passed = begin.elapsed();
        assert!(passed < PATIENCE, "not after {passed:?}: {}", why());
        std::thread::sleep(pause(passed, look.elapsed()));
    }
}

/// How long to wait before the next look: a look that costs much is not repeated at once.
fn pause(passed: Duration, look: Duration) -> Duration {
    (passed / 10).max(look * 2).clamp(PAUSES.0, PAUSES.1)
}
