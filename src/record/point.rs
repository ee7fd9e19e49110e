//! The position of the journal when a host last got orders. Hosts remember it: a share that lacks
//! records before such a point was restored from an older copy.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A point of the journal, after records that are durable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Point {
    #[serde(rename = "e")]
    pub epoch: u64,
    #[serde(rename = "s")]
    pub segment: u64,
    /// Sequence number of the next record.
    #[serde(rename = "n")]
    pub seq: u64,
    /// Distinguishes epochs of the same number: two leaders may claim the same one if a share was
    /// restored in between. See [`epoch_id`].
    #[serde(rename = "i")]
    pub id: u32,
}

/// Distinguishes epochs of the same number by the content of their first event; never 0.
pub fn epoch_id(host: &str, pid: u32, t: i64) -> u32 {
    crc32c::crc32c(format!("{host} {pid} {t}").as_bytes()).max(1)
}

/// Maximum number of epochs of which a host remembers the position.
const KEPT: usize = 8;

/// The positions of the journal in the last epochs that a host has followed, oldest first. One
/// point is not enough: the first orders of a new epoch would replace what the host knows of the
/// previous one.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Points(Vec<Point>);

impl Points {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Point> {
        self.0.iter()
    }

    /// Notes a point. Orders that are read again change nothing.
    pub fn reach(&mut self, point: Point) {
        let same = |p: &&mut Point| (p.epoch, p.id) == (point.epoch, point.id);
        match self.0.iter_mut().find(same) {
            Some(known) => *known = point.max(*known),
            None => self.0.push(point),
        }
        let more = self.0.len().saturating_sub(KEPT);
        self.0.drain(..more);
    }

    /// Forgets epochs up to `above`.
    pub fn forget(&mut self, above: u64) {
        self.0.retain(|p| p.epoch > above);
    }
}

impl fmt::Display for Points {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, point) in self.0.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            write!(f, "{comma}{point}")?;
        }
        Ok(())
    }
}

impl FromStr for Points {
    type Err = ();

    fn from_str(text: &str) -> Result<Points, ()> {
        let points: Result<Vec<Point>, ()> = text.split(',').map(str::parse).collect();
        points.map(Points)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Point {
            epoch,
            segment,
            seq,
            id,
        } = self;
        write!(f, "{epoch}.{segment}.{seq}.{id:08x}")
    }
}

impl FromStr for Point {
    type Err = ();

    fn from_str(text: &str) -> Result<Point, ()> {
        let mut words = text.split('.');
        let mut number = || words.next()?.parse().ok();
        let (epoch, segment, seq) = (number(), number(), number());
        let id = words.next().and_then(|w| u32::from_str_radix(w, 16).ok());
        match (epoch, segment, seq, id, words.next()) {
            (Some(epoch), Some(segment), Some(seq), Some(id), None) => Ok(Point {
                epoch,
                segment,
                seq,
                id,
            }),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_read_back_from_its_text() {
        let point = Point {
            epoch: 7,
            segment: 2,
            seq: 51_000,
            id: epoch_id("h1", 9, 1),
        };
        assert_eq!(point.to_string().parse(), Ok(point));
        for bad in ["", "7", "7.2.1", "7.2.1.x", "7.2.1.0.0", "7.2.-1.0"] {
            assert_eq!(bad.parse::<Point>(), Err(()), "{bad:?}");
        }
        let points = Points(vec![point, Point { epoch: 8, ..point }]);
        assert_eq!(points.to_string().parse(), Ok(points));
        assert_ne!(epoch_id("h1", 9, 1), epoch_id("h1", 9, 2));
    }

    #[test]
    fn the_last_epochs_are_remembered_each_by_its_farthest_point() {
        let point = |epoch, seq, id| Point {
            epoch,
            segment: 1,
            seq,
            id,
        };
        let mut points = Points::default();
        for p in [
            point(1, 9, 1),
            point(1, 4, 1),
            point(2, 1, 5),
            point(2, 3, 6),
        ] {
            points.reach(p);
        }
        let known = [point(1, 9, 1), point(2, 1, 5), point(2, 3, 6)];
        assert!(points.iter().eq(&known));
        for epoch in 3..20 {
            points.reach(point(epoch, 1, 1));
        }
        assert_eq!((points.0.len(), points.0[0].epoch), (KEPT, 12));
        points.forget(18);
        assert!(points.iter().eq(&[point(19, 1, 1)]));
    }
}
