//! turn: see docs/architecture.md.
