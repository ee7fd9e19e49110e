//! sched: see docs/architecture.md.
