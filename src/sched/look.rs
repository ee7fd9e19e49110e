//! A view into the engine's books for those who measure: what is left on hosts, what work holds.
//! Reads only.

use super::Engine;
use super::amount::Bundle;
use crate::model::JobKey;

impl Engine {
    /// Resources that some request has reserved so far, by number.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        self.names.iter()
    }

    /// The number of a resource, if some request has reserved it.
    pub fn resource(&self, name: &str) -> Option<u16> {
        self.names.find(name)
    }

    /// Free slots of the host at this position of the host table.
    pub fn free_slots(&self, at: usize) -> i64 {
        self.books.get(at).free()
    }

    /// What is left of a resource on a host, in thousandths.
    pub fn left(&self, at: usize, resource: u16) -> i64 {
        self.books.get(at).left(resource)
    }

    /// What a host has of a resource, in thousandths.
    pub fn have(&self, at: usize, resource: u16) -> i64 {
        let have = &self.books.get(at).have;
        have.get(usize::from(resource)).copied().unwrap_or(0)
    }

    /// What started work holds, by host position.
    pub fn held_by(&self, j: JobKey) -> &[(u32, Bundle)] {
        self.held.get(&j).map_or(&[], |held| &held.parts)
    }
}
