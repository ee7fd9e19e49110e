//! task: see docs/architecture.md.
