//! show: see docs/architecture.md.
