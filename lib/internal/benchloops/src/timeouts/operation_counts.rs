//! Output of the counting program.

use serde::{Deserialize, Serialize};

/// Operations during a number of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationCounts {
    pub messages: u64,
    /// Readings of the CPU counter; `None` if it cannot be made to trap.
    pub counter_reads: Option<u64>,
    pub timers_made: u64,
    pub timer_registrations: u64,
    pub allocations: u64,
    pub bytes_kept: i64,
}
