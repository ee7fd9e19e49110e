//! sys: see docs/architecture.md.
