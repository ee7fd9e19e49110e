//! spool: see docs/architecture.md.
