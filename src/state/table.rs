//! A map from numbers to values in pages: what the jobs and their classes live in. Numbers are
//! given one after the other, so neighbours share a page and a look-up is four loads without a
//! comparison. Never knows what it holds.

use std::ops::Range;

/// Number of bits for a page; the values of a page are packed, so a page with few of them is small.
const PAGE_BITS: u32 = 7;
const PAGE: usize = 1 << PAGE_BITS;
/// Number of bits for the pages of a leaf of the directory.
const LEAF_BITS: u32 = 12;
const LEAF: usize = 1 << LEAF_BITS;
/// Marks a number without a value in a page.
const NONE: u8 = u8::MAX;
/// A page frees memory when it holds less than one in this many of the values for which it has
/// room.
const SPARSE: usize = 4;

/// A map ordered by number.
#[derive(Clone, Debug)]
pub(crate) struct Table<T> {
    /// As long as the highest number that was stored requires.
    leaves: Vec<Option<Box<Leaf<T>>>>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Leaf<T> {
    pages: Box<[Option<Box<Page<T>>>]>,
    /// Pages present.
    pages_used: u32,
}

#[derive(Clone, Debug)]
struct Page<T> {
    /// Position of each number's value in `values`.
    positions: [u8; PAGE],
    /// Not in order.
    values: Vec<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        let (leaves, len) = (Vec::new(), 0);
        Table { leaves, len }
    }
}

/// Where the value of a number is stored: leaf, page in it, position in that.
fn split(id: u32) -> (usize, usize, usize) {
    let page = (id >> PAGE_BITS) as usize;
    (page >> LEAF_BITS, page % LEAF, id as usize % PAGE)
}

impl<T> Table<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        let (leaf, page, at) = split(id);
        let page = self.leaves.get(leaf)?.as_ref()?.pages[page].as_ref()?;
        page.values.get(usize::from(page.positions[at]))
    }

    /// Reads the path to the value of a number, but not the value.
    pub(crate) fn locate(&self, id: u32) -> usize {
        let (leaf, page, at) = split(id);
        let leaf = self.leaves.get(leaf).and_then(Option::as_deref);
        let page = leaf.and_then(|leaf| leaf.pages[page].as_deref());
        page.map_or(0, |page| {
            usize::from(page.positions[at]) ^ page.values.len()
        })
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        let (leaf, page, at) = split(id);
        let page = self.leaves.get_mut(leaf)?.as_mut()?.pages[page].as_mut()?;
        page.values.get_mut(usize::from(page.positions[at]))
    }

    pub(crate) fn contains_key(&self, id: u32) -> bool {
        self.get(id).is_some()
    }

    /// Stores a value. Returns the value that it replaces.
    pub(crate) fn insert(&mut self, id: u32, value: T) -> Option<T> {
        if let Some(old) = self.get_mut(id) {
            return Some(std::mem::replace(old, value));
        }
        let (leaf, page, at) = split(id);
        if leaf >= self.leaves.len() {
            self.leaves.resize_with(leaf + 1, || None);
        }
        let leaf = self.leaves[leaf].get_or_insert_with(Leaf::new);
        let slot = &mut leaf.pages[page];
        leaf.pages_used += u32::from(slot.is_none());
        let page = slot.get_or_insert_with(Page::new);
        page.positions[at] =
            u8::try_from(page.values.len()).expect("a page has fewer than 255 numbers");
        page.values.push(value);
        self.len += 1;
        None
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<T> {
        let (leaf_at, page_at, at) = split(id);
        let leaf = self.leaves.get_mut(leaf_at)?.as_mut()?;
        let page = leaf.pages[page_at].as_mut()?;
        let value = page.remove(at)?;
        self.len -= 1;
        if page.values.is_empty() {
            leaf.pages[page_at] = None;
            leaf.pages_used -= 1;
            if leaf.pages_used == 0 {
                self.leaves[leaf_at] = None;
            }
        }
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, &T)> {
        let leaves = self.leaves.iter().enumerate();
        let pages = leaves.flat_map(|(n, leaf)| leaf.iter().flat_map(move |leaf| leaf.iter(n)));
        pages.flat_map(|(base, page)| page.iter(base))
    }

    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.iter().map(|(_, value)| value)
    }

    #[cfg(test)]
    pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.iter().map(|(id, _)| id)
    }

    /// Values of the numbers in a range, in order.
    pub(crate) fn range(&self, ids: Range<u32>) -> impl Iterator<Item = (u32, &T)> {
        let (from, to) = (split(ids.start).0, split(ids.end).0 + 1);
        let to = to.min(self.leaves.len());
        let leaves = self.leaves[from.min(to)..to].iter().enumerate();
        let pages =
            leaves.flat_map(move |(n, leaf)| leaf.iter().flat_map(move |leaf| leaf.iter(from + n)));
        let (first, end) = (ids.start >> PAGE_BITS << PAGE_BITS, ids.end);
        pages
            .filter(move |(base, _)| (first..end).contains(base))
            .flat_map(|(base, page)| page.iter(base))
            .filter(move |(id, _)| ids.contains(id))
    }
}

impl<T> Leaf<T> {
    fn new() -> Box<Leaf<T>> {
        let pages = (0..LEAF).map(|_| None).collect();
        Box::new(Leaf {
            pages,
            pages_used: 0,
        })
    }

    /// The pages of the `n`th leaf with their first numbers.
    fn iter(&self, n: usize) -> impl DoubleEndedIterator<Item = (u32, &Page<T>)> {
        let base = (n as u32) << (LEAF_BITS + PAGE_BITS);
        let pages = self.pages.iter().enumerate();
        pages.filter_map(move |(at, page)| {
            Some((base + ((at as u32) << PAGE_BITS), &**page.as_ref()?))
        })
    }
}

impl<T> Page<T> {
    fn new() -> Box<Page<T>> {
        Box::new(Page {
            positions: [NONE; PAGE],
            values: Vec::new(),
        })
    }

    fn iter(&self, base: u32) -> impl DoubleEndedIterator<Item = (u32, &T)> {
        let places = self.positions.iter().enumerate();
        places
            .filter_map(move |(n, at)| Some((base + n as u32, self.values.get(usize::from(*at))?)))
    }

    fn remove(&mut self, at: usize) -> Option<T> {
        let place = usize::from(self.positions[at]);
        if place >= self.values.len() {
            return None;
        }
        let last = (self.values.len() - 1) as u8;
        if let Some(moved) = self.positions.iter_mut().find(|at| **at == last) {
            *moved = place as u8;
        }
        self.positions[at] = NONE;
        let value = self.values.swap_remove(place);
        if self.values.len() * SPARSE < self.values.capacity() {
            self.values.shrink_to(self.values.len() * 2);
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Numbers near each other, near the borders of pages and leaves, and far out.
    fn number(seed: &mut u64) -> u32 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        let n = (*seed >> 20) as u32;
        match *seed % 4 {
            0 => n % 300,
            1 => (1 << 19) - 40 + n % 80,
            2 => u32::MAX - n % 200,
            _ => n % 5_000_000,
        }
    }

    #[test]
    fn it_is_an_ordered_map() {
        let (mut table, mut map, mut seed) = (Table::default(), BTreeMap::new(), 7u64);
        for round in 0..40_000u32 {
            let id = number(&mut seed);
            if round % 5 < 3 {
                assert_eq!(table.insert(id, round), map.insert(id, round), "{id}");
            } else {
                assert_eq!(table.remove(id), map.remove(&id), "{id}");
            }
            let other = number(&mut seed);
            assert_eq!(table.get(other), map.get(&other), "{other}");
            assert_eq!(table.contains_key(other), map.contains_key(&other));
            if let (Some(a), Some(b)) = (table.get_mut(id), map.get_mut(&id)) {
                (*a, *b) = (*a + 1, *b + 1);
            }
        }
        assert_eq!(table.len(), map.len());
        assert!(table.iter().eq(map.iter().map(|(id, v)| (*id, v))));
        assert!(table.values().rev().eq(map.values().rev()));
        assert!(table.keys().eq(map.keys().copied()));
    }

    #[test]
    fn a_range_is_a_part_in_order() {
        let (mut table, mut map, mut seed) = (Table::default(), BTreeMap::new(), 9u64);
        for _ in 0..3000 {
            let id = number(&mut seed);
            table.insert(id, id);
            map.insert(id, id);
        }
        for _ in 0..300 {
            let (a, b) = (number(&mut seed), number(&mut seed));
            let ids = a.min(b)..a.max(b);
            let found: Vec<u32> = table.range(ids.clone()).map(|(id, _)| id).collect();
            let want: Vec<u32> = map.range(ids.clone()).map(|(id, _)| *id).collect();
            assert_eq!(found, want, "{ids:?}");
        }
        assert_eq!(table.range(5..5).count(), 0);
    }

    #[test]
    fn emptied_pages_are_given_back() {
        let mut table = Table::default();
        for id in 1..=1_000_000u32 {
            table.insert(id, id);
        }
        for id in (1..=1_000_000u32).rev() {
            assert_eq!(table.remove(id), Some(id));
        }
        assert_eq!(table.len(), 0);
        assert!(table.leaves.iter().all(Option::is_none));
    }

    #[test]
    fn a_page_with_few_values_left_has_room_for_few() {
        let mut table = Table::default();
        for id in 0..PAGE as u32 {
            table.insert(id, id);
        }
        for id in 1..PAGE as u32 {
            table.remove(id);
        }
        let page = table.leaves[0].as_ref().unwrap().pages[0].as_ref().unwrap();
        assert!(page.values.capacity() <= 8, "{}", page.values.capacity());
        assert_eq!(table.get(0), Some(&0));
    }
}
