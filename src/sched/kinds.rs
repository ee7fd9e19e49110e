//! What follows from specifications, worked out once: shapes of requests, counters of limits,
//! places in share trees. Owns the tables of these; never books anything.

use super::engine::Engine;
use super::hosts::HostTable;
use super::quota::{Ident, Who};
use super::shape::{Shape, ShapeKey};
use super::share::Leaf;
use crate::model::{PendReason, Spec, Stamp};
use crate::state::State;
use std::sync::Arc;

/// A shape and who refers to it.
#[derive(Debug)]
pub(super) struct ShapeSlot {
    pub key: ShapeKey,
    pub shape: Shape,
    pub refs: u32,
    /// Hosts that could ever serve it, by way, as of a host epoch.
    pub eligible: Vec<Option<(u64, Arc<[u32]>)>>,
    /// Requests that differ from it in slots only have the same number.
    pub family: u32,
    /// Why its jobs wait, as last worked out, and when.
    pub why: Option<(PendReason, Stamp)>,
}

/// What follows from a specification. Holds a reference to the shape.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub shape: u32,
    pub ident: Arc<Ident>,
    pub leaf: Option<Leaf>,
}

/// Specifications remembered before those that are gone are looked for.
const MANY_KINDS: usize = 4096;

impl Engine {
    /// The place of a user in the share tree of a queue.
    /// `asked`: the group of `-G`, or nothing.
    pub(super) fn leaf_of(&mut self, queue: Option<u16>, user: &str, asked: &str) -> Option<Leaf> {
        let at = usize::from(queue?);
        self.lines[at].tree()?;
        let groups = self.member_of(user);
        let tree = self.lines[at].tree_mut()?;
        let asked = Some(asked).filter(|group| !group.is_empty());
        let leaf = tree.leaf(user, &groups, asked);
        Some(leaf.unwrap_or_else(|| tree.leaf_behind(user)))
    }

    /// The counters that jobs of a specification count in.
    pub(super) fn ident_of(&mut self, spec: &Spec) -> Arc<Ident> {
        let groups = self.member_of(&spec.user);
        self.quotas.identity(&Who {
            queue: &spec.queue,
            user: &spec.user,
            groups: &groups,
            project: &spec.project,
            app: "",
        })
    }

    pub(super) fn member_of(&mut self, user: &str) -> Arc<[String]> {
        if let Some(known) = self.memberships.get(user) {
            return known.clone();
        }
        let of_system = self.groups.get(user).map_or(&[][..], Vec::as_slice);
        let config = self.config();
        let own = config.user_groups.keys();
        let own = own.filter(|group| config.in_user_group(user, of_system, group));
        let all: Arc<[String]> = own.chain(of_system).cloned().collect();
        self.memberships.insert(user.to_owned(), all.clone());
        all
    }

    pub(super) fn kind_of(&mut self, state: &State, table: &HostTable, s: u32) -> Kind {
        if let Some(kind) = self.kinds.get(&s) {
            return kind.clone();
        }
        let spec = state.spec(s);
        let shape = self.shape_of(spec, table);
        let queue = self.shape(shape).shape.queue;
        let kind = Kind {
            shape,
            ident: self.ident_of(spec),
            leaf: self.leaf_of(queue, &spec.user, &spec.user_group),
        };
        self.kinds.insert(s, kind.clone());
        kind
    }

    /// Forgets what followed from specifications that are gone, once there are many.
    pub(super) fn sweep_kinds(&mut self, state: &State) {
        if self.kinds.len() < MANY_KINDS || self.kinds.len() < 2 * state.spec_count() {
            return;
        }
        let gone = self.kinds.keys().filter(|s| !state.knows_spec(**s));
        for s in gone.copied().collect::<Vec<_>>() {
            let kind = self.kinds.remove(&s).expect("just listed");
            self.drop_shape(kind.shape);
        }
    }

    /// The shape of a specification, with a reference taken to it.
    pub(super) fn shape_of(&mut self, spec: &Spec, table: &HostTable) -> u32 {
        let key = ShapeKey::of(spec);
        if let Some(id) = self.shape_ids.get(&key) {
            let slot = self.shapes[*id as usize]
                .as_mut()
                .expect("listed shapes are there");
            slot.refs += 1;
            return *id;
        }
        let config = self.config.clone().expect("an engine has a configuration");
        let known = self.names.len();
        let next = u32::try_from(self.families.len()).expect("fewer than 2^32 families");
        let family = *self.families.entry(key.family()).or_insert(next);
        let shape = Shape::new(spec, &config, &mut self.names);
        let slot = ShapeSlot {
            key: key.clone(),
            refs: 1,
            eligible: vec![None; shape.ways.len()],
            shape,
            family,
            why: None,
        };
        let id = match self.free_shapes.pop() {
            Some(id) => id,
            None => {
                self.shapes.push(None);
                u32::try_from(self.shapes.len() - 1).expect("fewer than 2^32 shapes")
            }
        };
        self.shapes[id as usize] = Some(slot);
        self.shape_ids.insert(key, id);
        if self.names.len() > known {
            // A resource is reserved for the first time: the books learn what hosts have of it.
            for at in 0..self.books.len() {
                self.set_host(table, at);
            }
        }
        id
    }

    pub(super) fn drop_shape(&mut self, id: u32) {
        let slot = self.shapes[id as usize]
            .as_mut()
            .expect("a reference is held");
        slot.refs -= 1;
    }

    /// Forgets shapes nobody refers to, once there are many of them.
    pub(super) fn sweep_shapes(&mut self) {
        if self.shape_ids.len() < 64 {
            return;
        }
        let unused = |slot: &Option<ShapeSlot>| slot.as_ref().is_some_and(|s| s.refs == 0);
        if self.shapes.iter().filter(|s| unused(s)).count() * 2 < self.shape_ids.len() {
            return;
        }
        for (id, slot) in (0u32..).zip(&mut self.shapes) {
            if unused(slot) {
                let slot = slot.take().expect("just looked at");
                self.shape_ids.remove(&slot.key);
                self.free_shapes.push(id);
            }
        }
    }
}
