//! Floor 5: the leader as a process: election, inputs, the order of effects, the published view.

pub mod election;
pub mod publish;
