//! master: see docs/architecture.md.
