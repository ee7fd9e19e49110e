//! lease: see docs/architecture.md.
