//! What the counting program prints.

use serde::{Deserialize, Serialize};

/// What was asked for while some messages went by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationCounts {
    pub messages: u64,
    /// `None` where the counter cannot be made to trap.
    pub counter_reads: Option<u64>,
    pub timers_made: u64,
    pub timer_registrations: u64,
    pub allocations: u64,
    pub bytes_kept: i64,
}
