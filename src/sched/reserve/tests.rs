//! Tests of the book: hand-checkable cases, host sets, properties, replays of logs.

mod cases;
mod property;
mod replay;
mod sets;
