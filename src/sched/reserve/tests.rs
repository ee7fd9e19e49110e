//! Tests of the book: hand-checkable cases, host sets, properties, replays of logs.

use super::*;

mod cases;
mod property;
mod replay;
mod sets;
