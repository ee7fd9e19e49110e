//! `cbexe`, the executor of a host: reads orders, has tasks started, reports what became of them.

pub mod spawn;
