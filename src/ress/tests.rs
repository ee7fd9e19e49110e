//! Streams, documents, lives, boards and what a cluster makes of them.

mod boards;
mod clusters;
mod documents;
mod lives;
