//! Tests of streams, documents, restarts, boards and the combination of a cluster's sensors.

mod boards;
mod clusters;
mod documents;
mod lives;
