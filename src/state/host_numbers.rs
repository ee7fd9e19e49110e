//! Numbers of the hosts that the state has ever met, in the order in which they appeared. A host
//! keeps its number; other leaders may number hosts differently.

use super::job::HostId;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// See the top of this file.
#[derive(Clone, Debug, Default)]
pub(super) struct HostNumbers {
    ids: FxHashMap<Arc<str>, HostId>,
    names: Vec<Arc<str>>,
}

impl HostNumbers {
    pub(super) fn id(&self, name: &str) -> Option<HostId> {
        self.ids.get(name).copied()
    }

    pub(super) fn name(&self, id: HostId) -> &Arc<str> {
        &self.names[id.0 as usize]
    }

    /// Names in the order of the numbers.
    pub(super) fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// Gives the next number to a host that has none.
    pub(super) fn add(&mut self, name: &str) -> HostId {
        let id = HostId(u32::try_from(self.names.len()).expect("fewer than 2^32 hosts"));
        let name: Arc<str> = Arc::from(name);
        self.names.push(name.clone());
        self.ids.insert(name, id);
        id
    }
}
