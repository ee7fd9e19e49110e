//! Fragmentation: how much of what is free on a host cannot be used by the typical jobs of the
//! cluster.
//!
//! The measure of FGD (ATC'23) over GPUs that can be shared in thousandths: for every typical class
//! of task, weighted by its frequency, everything that is free if the host cannot run it (or if it
//! needs no GPU), otherwise what is on devices with too little free. If hosts have no GPUs, the
//! same is measured over slots. Pure arithmetic; owns no host.

/// A common kind of task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskNeed {
    /// Its frequency, 0 to 1; all kinds together 1.
    pub part: f64,
    /// Amounts in thousandths, slots first, in the order of [`FreeAmounts::amounts`].
    pub amounts: Vec<i64>,
    /// Thousandths of a device: up to 1000 on one device, above that whole devices; 0 = none.
    pub unit: i64,
}

/// What is free on a host.
#[derive(Clone, Copy, Debug)]
pub struct FreeAmounts<'a> {
    pub amounts: &'a [i64],
    /// Free thousandths of each device; empty = the host has none.
    pub units: &'a [i64],
}

impl TaskNeed {
    fn fits(&self, free: FreeAmounts<'_>) -> bool {
        let enough = self
            .amounts
            .iter()
            .zip(free.amounts)
            .all(|(need, have)| need <= have);
        enough && self.unit_fits(free.units)
    }

    fn unit_fits(&self, units: &[i64]) -> bool {
        match self.unit {
            0 => true,
            n if n <= 1000 => units.iter().any(|free| *free >= n),
            n => units.iter().filter(|free| **free >= 1000).count() as i64 >= (n + 999) / 1000,
        }
    }
}

/// Fragments on a host: thousandths of devices, or (with `by_slots`) thousandths of slots.
pub fn fragments(free: FreeAmounts<'_>, needs: &[TaskNeed], by_slots: bool) -> f64 {
    if by_slots {
        let slots = free.amounts.first().copied().unwrap_or(0);
        let useless = needs.iter().filter(|n| !n.fits(free)).map(|n| n.part);
        return useless.sum::<f64>() * slots as f64;
    }
    let all: i64 = free.units.iter().sum();
    let each = needs.iter().map(|need| {
        if need.unit == 0 || !need.fits(free) {
            return need.part * all as f64;
        }
        let least = need.unit.min(1000);
        let small = free.units.iter().filter(|free| **free < least);
        need.part * small.sum::<i64>() as f64
    });
    each.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task_needs(units: &[i64]) -> Vec<TaskNeed> {
        let part = 1.0 / units.len() as f64;
        let each = units.iter().map(|unit| TaskNeed {
            part,
            amounts: vec![1000],
            unit: *unit,
        });
        each.collect()
    }

    fn on(units: &[i64], wants: &[i64]) -> f64 {
        let free = FreeAmounts {
            amounts: &[4000],
            units,
        };
        fragments(free, &task_needs(wants), false)
    }

    #[test]
    fn the_hand_computed_case_holds() {
        let wants = [500, 1000];
        assert!((on(&[300, 700], &wants) - 650.0).abs() < 1e-9);
        assert!((on(&[0, 700], &wants) - 350.0).abs() < 1e-9);
        assert!((on(&[300, 400], &wants) - 700.0).abs() < 1e-9);
    }

    #[test]
    fn tasks_without_gpu_count_all_of_it_as_fragments() {
        assert!((on(&[1000, 1000], &[0, 1000]) - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn whole_devices_are_counted() {
        // Two whole devices are requested: if one is free, all is useless; if two are free, only
        // the rest is.
        assert!((on(&[1000, 500], &[2000]) - 1500.0).abs() < 1e-9);
        assert!((on(&[1000, 1000, 500], &[2000]) - 500.0).abs() < 1e-9);
    }

    #[test]
    fn without_devices_slots_are_measured() {
        let free = FreeAmounts {
            amounts: &[3000, 0],
            units: &[],
        };
        let mem = TaskNeed {
            part: 0.25,
            amounts: vec![1000, 500],
            unit: 0,
        };
        let plain = TaskNeed {
            part: 0.75,
            amounts: vec![1000, 0],
            unit: 0,
        };
        assert!((fragments(free, &[mem, plain], true) - 750.0).abs() < 1e-9);
    }
}
