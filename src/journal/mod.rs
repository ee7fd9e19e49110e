//! journal: see docs/architecture.md.
