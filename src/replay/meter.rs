//! Integrals over the time of a replay: usage of each resource, waiting, fragmentation, service of
//! users and groups compared with their shares, and the samples for a plot. Owns the current
//! amounts; the driver passes in every change. Never judges (`metrics` does) and never reads a
//! clock.

use super::metrics::ResourceUse;

/// One step of the drawing: from `t_ms` on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    pub t_ms: i64,
    pub slots: u64,
    pub waiting_jobs: u64,
    /// Minimum number of slots that the waiting jobs request together.
    pub waiting_slots: u64,
}

/// Service of users or groups.
#[derive(Clone, Debug, Default)]
pub struct ShareMeter {
    shares: Vec<f64>,
    /// Slots in use.
    slots_in_use: Vec<u64>,
    /// Number of waiting jobs.
    waiting: Vec<u32>,
    /// Slot milliseconds above (below, if negative) what the share entitles to.
    excess: Vec<f64>,
    /// Slot milliseconds used while at least two users or groups waited.
    contended: f64,
    /// Number of users or groups with waiting jobs.
    backlog: Vec<u32>,
}

impl ShareMeter {
    pub fn new(shares: Vec<f64>) -> ShareMeter {
        let n = shares.len();
        ShareMeter {
            shares,
            slots_in_use: vec![0; n],
            waiting: vec![0; n],
            excess: vec![0.0; n],
            contended: 0.0,
            backlog: Vec::new(),
        }
    }

    pub fn shares(&self) -> &[f64] {
        &self.shares
    }

    fn wait(&mut self, party: u32, plus: bool) {
        let n = &mut self.waiting[party as usize];
        if plus {
            *n += 1;
            if *n == 1 {
                self.backlog.push(party);
            }
        } else {
            *n -= 1;
            if *n == 0
                && let Some(at) = self.backlog.iter().position(|p| *p == party)
            {
                self.backlog.swap_remove(at);
            }
        }
    }

    /// A share is only an entitlement for those that want more: the ones that wait.
    fn advance(&mut self, dt: f64) {
        if self.backlog.len() < 2 {
            return;
        }
        let (mut used, mut shares) = (0.0, 0.0);
        for at in self.backlog.iter().map(|at| *at as usize) {
            used += self.slots_in_use[at] as f64;
            shares += self.shares[at];
        }
        if shares <= 0.0 {
            return;
        }
        for at in self.backlog.iter().map(|at| *at as usize) {
            let entitled = used * self.shares[at] / shares;
            self.excess[at] += (self.slots_in_use[at] as f64 - entitled) * dt;
        }
        self.contended += used * dt;
    }

    /// See `metrics::Fairness::share_error`.
    pub fn share_error(&self) -> f64 {
        if self.contended <= 0.0 {
            return 0.0;
        }
        let worst = self.excess.iter().map(|b| b.abs()).fold(0.0, f64::max);
        worst / self.contended
    }
}

/// The integrals of one replay.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    now_ms: i64,
    /// Current use in thousandths, and use times milliseconds so far; number 0 is slots.
    resources: Vec<(i64, i128)>,
    pub users: ShareMeter,
    pub groups: ShareMeter,
    slots: u64,
    waiting_jobs: u64,
    waiting_slots: u64,
    /// Current fragments, and fragments times milliseconds; capacity of that resource.
    fragments: f64,
    fragment_area: f64,
    fragment_capacity: f64,
    samples: Vec<Sample>,
}

/// Number of samples kept for the drawing; when they are full, every second one is dropped.
const SAMPLES_MAX: usize = 1 << 16;

impl Meter {
    /// Shares of users and groups by number; the capacity to which fragments are related, in
    /// thousandths.
    pub fn new(start_ms: i64, users: Vec<f64>, groups: Vec<f64>, fragment_capacity: f64) -> Meter {
        Meter {
            now_ms: start_ms,
            users: ShareMeter::new(users),
            groups: ShareMeter::new(groups),
            fragment_capacity,
            ..Meter::default()
        }
    }

    /// Advances the time with everything unchanged.
    pub fn advance(&mut self, now_ms: i64) {
        let dt = now_ms - self.now_ms;
        if dt <= 0 {
            return;
        }
        self.sample();
        for (used, area) in &mut self.resources {
            *area += i128::from(*used) * i128::from(dt);
        }
        self.fragment_area += self.fragments * dt as f64;
        self.users.advance(dt as f64);
        self.groups.advance(dt as f64);
        self.now_ms = now_ms;
    }

    fn sample(&mut self) {
        let sample = Sample {
            t_ms: self.now_ms,
            slots: self.slots,
            waiting_jobs: self.waiting_jobs,
            waiting_slots: self.waiting_slots,
        };
        if self.samples.len() >= SAMPLES_MAX {
            let mut n = 0;
            self.samples.retain(|_| {
                n += 1;
                n % 2 == 1
            });
        }
        self.samples.push(sample);
    }

    /// A job of `slots` starts to wait, or no longer waits.
    pub fn wait(&mut self, user: u32, group: u32, slots: u32, plus: bool) {
        self.users.wait(user, plus);
        self.groups.wait(group, plus);
        let slots = u64::from(slots);
        if plus {
            self.waiting_jobs += 1;
            self.waiting_slots += slots;
        } else {
            self.waiting_jobs -= 1;
            self.waiting_slots -= slots;
        }
    }

    /// A job takes slots or returns them.
    pub fn change_slots(&mut self, user: u32, group: u32, slots: u32, plus: bool) {
        let n = u64::from(slots);
        let of = |used: &mut u64| *used = if plus { *used + n } else { *used - n };
        of(&mut self.users.slots_in_use[user as usize]);
        of(&mut self.groups.slots_in_use[group as usize]);
        of(&mut self.slots);
        self.change_amount(0, i64::from(slots) * 1000, plus);
    }

    /// Thousandths of resource number `at` are taken or returned.
    pub fn change_amount(&mut self, at: usize, amount: i64, plus: bool) {
        if self.resources.len() <= at {
            self.resources.resize(at + 1, (0, 0));
        }
        self.resources[at].0 += if plus { amount } else { -amount };
    }

    /// Sets the fragments of all hosts from now on, in thousandths.
    pub fn fragments(&mut self, now: f64) {
        self.fragments = now;
    }

    /// Mean use over `span_ms` of each resource by number, given its name and capacity.
    pub fn resources(&self, span_ms: i64, named: &[(String, i64)]) -> Vec<ResourceUse> {
        let each = named.iter().enumerate().map(|(at, (name, capacity))| {
            let (_, area) = self.resources.get(at).copied().unwrap_or_default();
            let whole = i128::from(*capacity) * i128::from(span_ms);
            ResourceUse {
                name: name.clone(),
                capacity: *capacity as f64 / 1000.0,
                utilization: if whole > 0 {
                    area as f64 / whole as f64
                } else {
                    0.0
                },
            }
        });
        each.collect()
    }

    /// Mean fraction of the fragmenting resource that was in fragments over `span_ms`.
    pub fn fragmentation(&self, span_ms: i64) -> f64 {
        let whole = self.fragment_capacity * span_ms as f64;
        if whole > 0.0 {
            self.fragment_area / whole
        } else {
            0.0
        }
    }

    /// The steps so far, and the current moment.
    pub fn into_samples(mut self) -> Vec<Sample> {
        self.sample();
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    fn meter(shares: &[f64]) -> Meter {
        Meter::new(0, shares.to_vec(), vec![1.0], 10.0)
    }

    #[test]
    fn resources_are_used_over_time() {
        let mut m = meter(&[1.0]);
        m.change_slots(0, 0, 4, true);
        m.change_amount(1, 2000, true);
        m.advance(50_000);
        m.change_slots(0, 0, 4, false);
        m.change_amount(1, 2000, false);
        m.advance(100_000);
        let named = [("slots".to_owned(), 10_000), ("mem".to_owned(), 8000)];
        let uses = m.resources(100_000, &named);
        close(uses[0].utilization, 0.2);
        close(uses[1].utilization, 0.125);
        assert_eq!((uses[1].name.as_str(), uses[1].capacity), ("mem", 8.0));
    }

    #[test]
    fn shares_count_only_while_several_wait() {
        // Shares 2:1. While it waits alone, user 0 may use everything.
        let mut m = meter(&[2.0, 1.0]);
        m.wait(0, 0, 1, true);
        m.change_slots(0, 0, 9, true);
        m.advance(1000);
        close(m.users.share_error(), 0.0);
        // Both wait, 9:0 instead of 6:3 for a second, then 6:3 for two seconds.
        m.wait(1, 0, 1, true);
        m.advance(2000);
        close(m.users.share_error(), 3.0 / 9.0);
        m.change_slots(0, 0, 3, false);
        m.change_slots(1, 0, 3, true);
        m.advance(4000);
        close(m.users.share_error(), 3.0 / 27.0);
    }

    #[test]
    fn samples_are_steps_and_stay_bounded() {
        let mut m = meter(&[1.0]);
        m.wait(0, 0, 3, true);
        m.advance(10);
        m.advance(10);
        m.wait(0, 0, 3, false);
        for t in 11..200_000 {
            m.advance(t);
        }
        let samples = m.into_samples();
        assert_eq!((samples[0].t_ms, samples[0].waiting_slots), (0, 3));
        assert!(samples.len() <= SAMPLES_MAX + 1, "{}", samples.len());
        assert_eq!(samples.last().unwrap().t_ms, 199_999);
    }

    #[test]
    fn fragments_are_a_mean_part_of_the_capacity() {
        let mut m = meter(&[1.0]);
        m.fragments(5.0);
        m.advance(1000);
        m.fragments(0.0);
        m.advance(2000);
        close(m.fragmentation(2000), 0.25);
    }
}
