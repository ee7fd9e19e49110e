//! The processors that a task of a queue with `cpu_bind` gets on this host.
//!
//! Owns when the host's processors are read, and the file with the processors of a job's slots.
//! Assigned cores are in the table of attempts, which is restored from the ledger after a restart:
//! an attempt keeps its cores until its end is recorded.

use super::table::Table;
use crate::host::local::Local;
use crate::model::{AttemptId, Binding, Cpu, CpuBind, CpuSet};
use crate::record::order::StartOrder;
use crate::sys::{clock, cpus, fs};
use crate::task::cpu_binding;
use crate::task::spec::TaskSpec;

/// How long the list of processors is valid after it was read (ms): processors go offline and come
/// back.
const READ_EVERY_MS: u64 = 30_000;

/// The processors of this host as last read, and when (boot clock, ms).
#[derive(Debug, Default)]
pub(super) struct HostCpus(Option<(u64, Vec<Cpu>)>);

impl HostCpus {
    fn read_cpus(&mut self, now: u64) -> Result<&[Cpu], String> {
        let fresh = |(at, _): &(u64, _)| now.saturating_sub(*at) < READ_EVERY_MS;
        let known = match self.0.take().filter(fresh) {
            Some(known) => known,
            None => {
                let read =
                    cpus::allowed().and_then(|mine| cpus::read(cpus::SYSTEM.as_ref(), &mine));
                (now, read.map_err(|e| e.to_string())?)
            }
        };
        Ok(&self.0.insert(known).1)
    }

    /// Binds the attempt to processors that are not in `in_use`; `None` if its queue does not bind.
    pub(super) fn bind(&mut self, order: &StartOrder, in_use: &CpuSet) -> Option<Box<Binding>> {
        let slots = order.hosts.first().map_or(1, |share| share.1);
        self.bind_part((order.a, order.bind, slots), in_use)
    }

    /// As [`HostCpus::bind`], for an attempt with this number of slots here.
    pub(super) fn bind_part(
        &mut self,
        (a, bind, slots): (AttemptId, CpuBind, u32),
        in_use: &CpuSet,
    ) -> Option<Box<Binding>> {
        if bind.is_none() {
            return None;
        }
        let found = self.read_cpus(clock::boot_ms());
        let found = found.and_then(|all| {
            let cpus = cpu_binding::choose(bind, slots, all, in_use)?;
            let slots = cpu_binding::divided(slots, all, &cpus);
            Ok((cpus, slots))
        });
        Some(Box::new(match found {
            Ok((cpus, slots)) => Binding {
                cpus,
                slots,
                ..Binding::default()
            },
            Err(why) => {
                tracing::warn!("attempt {a} runs unbound: {why}");
                Binding {
                    why,
                    ..Binding::default()
                }
            }
        }))
    }
}

/// Puts a binding into a task, and writes the list of the processors of all slots if it is known.
pub(super) fn put(task: &mut TaskSpec, local: &Local, order: &StartOrder, binding: &Binding) {
    cpu_binding::put(task, binding);
    let Some(text) = cpu_binding::slots_text(&order.hosts, binding, &order.part_binds) else {
        return;
    };
    let path = local.cpus_file(order.a);
    let written = fs::mkdir_p(&local.scratch_dir(), 0o711)
        .and_then(|()| fs::publish_mode(&path, text.as_bytes(), 0o644));
    match written {
        Ok(()) => {
            let name = cpu_binding::SLOTS_FILE;
            task.env.push(format!("{name}={}", path.display()));
        }
        Err(e) => tracing::error!("attempt {}: {e}; the job gets no list of its CPUs", order.a),
    }
}

/// All processors that are assigned to attempts of the table.
pub(super) fn cpus_in_use(table: &Table) -> CpuSet {
    let mut in_use = CpuSet::default();
    for (_, entry) in table.live_attempts() {
        if let Some(binding) = entry.given.binding.as_deref() {
            in_use.extend(&binding.cpus);
        }
    }
    in_use
}
