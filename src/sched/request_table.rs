//! What follows from specifications, computed once: shapes of requests, counters of limits, places
//! in share trees. Owns the tables of these; knows no usage.

use super::quota::Ident;
use super::resource_names::ResourceNames;
use super::shape::{Shape, ShapeKey};
use super::share::Leaf;
use crate::config::Config;
use crate::model::{PendReason, Spec, Stamp};
use crate::state::State;
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use std::sync::Arc;

/// A shape and who refers to it.
#[derive(Debug)]
pub(super) struct ShapeEntry {
    pub key: ShapeKey,
    pub shape: Shape,
    pub refs: u32,
    /// Hosts that could ever serve it, by alternative, as of a host epoch.
    pub eligible: Vec<Option<(u64, Arc<[u32]>)>>,
    /// Requests that differ from it in slots only have the same number.
    pub family: u32,
    /// Why its jobs wait, as last computed, and when.
    pub why: Option<(PendReason, Stamp)>,
}

/// What follows from a specification. Holds a reference to the shape.
#[derive(Clone, Debug)]
pub(super) struct SpecInfo {
    pub shape: u32,
    pub ident: Arc<Ident>,
    pub leaf: Option<Leaf>,
}

/// From this number of remembered specifications on, those no longer in use are removed.
const MANY_SPECS: usize = 4096;

/// All shapes, and what follows from each specification.
#[derive(Debug, Default)]
pub(super) struct RequestTable {
    shapes: Vec<Option<ShapeEntry>>,
    ids: HashMap<ShapeKey, u32>,
    free: Vec<u32>,
    families: HashMap<ShapeKey, u32>,
    /// What follows from a specification, by its number.
    specs: FxHashMap<u32, SpecInfo>,
}

impl RequestTable {
    pub(super) fn entry(&self, id: u32) -> &ShapeEntry {
        self.shapes[id as usize]
            .as_ref()
            .expect("a reference is held")
    }

    pub(super) fn entry_mut(&mut self, id: u32) -> &mut ShapeEntry {
        self.shapes[id as usize]
            .as_mut()
            .expect("a reference is held")
    }

    pub(super) fn shape(&self, id: u32) -> &Shape {
        &self.entry(id).shape
    }

    /// What is known of a specification.
    pub(super) fn spec_info(&self, spec: u32) -> Option<&SpecInfo> {
        self.specs.get(&spec)
    }

    pub(super) fn set_spec_info(&mut self, spec: u32, info: SpecInfo) {
        self.specs.insert(spec, info);
    }

    /// The shape of a specification, with a reference taken to it.
    pub(super) fn take_shape(
        &mut self,
        spec: &Spec,
        config: &Config,
        names: &mut ResourceNames,
    ) -> u32 {
        let key = ShapeKey::of(spec);
        if let Some(id) = self.ids.get(&key).copied() {
            self.add_ref(id);
            return id;
        }
        let next = u32::try_from(self.families.len()).expect("fewer than 2^32 families");
        let family = *self.families.entry(key.family()).or_insert(next);
        let shape = Shape::new(spec, config, names);
        let entry = ShapeEntry {
            key: key.clone(),
            refs: 1,
            eligible: vec![None; shape.alternatives.len()],
            shape,
            family,
            why: None,
        };
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                self.shapes.push(None);
                u32::try_from(self.shapes.len() - 1).expect("fewer than 2^32 shapes")
            }
        };
        self.shapes[id as usize] = Some(entry);
        self.ids.insert(key, id);
        id
    }

    /// Takes one more reference to a shape.
    pub(super) fn add_ref(&mut self, id: u32) {
        self.entry_mut(id).refs += 1;
    }

    /// Drops a reference to a shape.
    pub(super) fn drop_ref(&mut self, id: u32) {
        self.entry_mut(id).refs -= 1;
    }

    /// Forgets specifications that are gone and shapes without references, once there are many.
    pub(super) fn sweep(&mut self, state: &State) {
        self.sweep_specs(state);
        self.sweep_shapes();
    }

    fn sweep_specs(&mut self, state: &State) {
        if self.specs.len() < MANY_SPECS || self.specs.len() < 2 * state.spec_count() {
            return;
        }
        let forgotten = self.specs.keys().filter(|s| !state.knows_spec(**s));
        for s in forgotten.copied().collect::<Vec<_>>() {
            let info = self.specs.remove(&s).expect("just listed");
            self.drop_ref(info.shape);
        }
    }

    fn sweep_shapes(&mut self) {
        if self.ids.len() < 64 {
            return;
        }
        let unused = |entry: &Option<ShapeEntry>| entry.as_ref().is_some_and(|s| s.refs == 0);
        if self.shapes.iter().filter(|s| unused(s)).count() * 2 < self.ids.len() {
            return;
        }
        for (id, entry) in (0u32..).zip(&mut self.shapes) {
            if unused(entry) {
                let entry = entry.take().expect("just looked at");
                self.ids.remove(&entry.key);
                self.free.push(id);
            }
        }
    }
}
