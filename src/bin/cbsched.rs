//! cbsched: see docs/architecture.md.

fn main() {}
