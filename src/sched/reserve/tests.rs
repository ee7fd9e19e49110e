//! Tests of the book: the hand-checkable cases, replays of logs, properties.

use super::*;

mod replay;
