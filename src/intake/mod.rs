//! intake: see docs/architecture.md.
