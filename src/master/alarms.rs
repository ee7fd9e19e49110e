//! Alarms of the leader by their subject: each has one text, and disappears when its cause has not
//! been seen for a while. Owns no file and no clock.

use std::collections::BTreeMap;

/// An alarm is over if its cause was not seen for this time (ms). Failed actions are repeated more
/// often.
const OVER_MS: u64 = 90_000;

/// The alarms of this leader.
#[derive(Debug)]
pub(super) struct Alarms {
    /// Alarms found at takeover; they last as long as it leads.
    from_takeover: Vec<String>,
    /// Something of the journal was lost at takeover: these alarms are grave.
    loss: bool,
    now: BTreeMap<&'static str, (u64, String)>,
}

impl Alarms {
    pub(super) fn new(from_takeover: Vec<String>, loss: bool) -> Alarms {
        let now = BTreeMap::new();
        Alarms {
            from_takeover,
            loss,
            now,
        }
    }

    /// Raises an alarm about `what`; it replaces the previous one about the same thing.
    pub(super) fn raise(&mut self, what: &'static str, text: String, now_ms: u64) {
        let previous = self.now.insert(what, (now_ms, text));
        let (_, text) = &self.now[what];
        if previous.is_none_or(|(at, old)| old != *text || now_ms.saturating_sub(at) > OVER_MS) {
            tracing::error!("{text}");
        }
    }

    /// The grave alarms: a promise does not hold.
    pub(super) fn grave(&self) -> impl Iterator<Item = &String> {
        self.from_takeover.iter().filter(|_| self.loss)
    }

    /// The other alarms in effect at `now_ms`.
    pub(super) fn others(&self, now_ms: u64) -> impl Iterator<Item = &String> {
        let recent = move |(at, _): &&(u64, String)| now_ms.saturating_sub(*at) <= OVER_MS;
        let now = self.now.values().filter(recent).map(|(_, text)| text);
        self.from_takeover.iter().filter(|_| !self.loss).chain(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_has_one_text_and_goes_with_its_cause() {
        let mut alarms = Alarms::new(vec!["always".into()], false);
        alarms.raise("view", "one".into(), 1_000);
        alarms.raise("view", "two".into(), 2_000);
        let texts = |now| alarms.others(now).cloned().collect::<Vec<_>>();
        assert_eq!(texts(2_000 + OVER_MS), ["always", "two"]);
        assert_eq!(texts(2_001 + OVER_MS), ["always"]);
        assert_eq!(alarms.grave().next(), None);
    }

    #[test]
    fn what_was_lost_at_takeover_is_grave() {
        let mut alarms = Alarms::new(vec!["damaged".into()], true);
        alarms.raise("view", "one".into(), 1_000);
        assert_eq!(alarms.grave().collect::<Vec<_>>(), ["damaged"]);
        assert_eq!(alarms.others(1_000).collect::<Vec<_>>(), ["one"]);
    }
}
