//! The values of a plan that `osjitter run` uses unless others are given.

/// Period of a scenario.
pub const PERIOD_NS: u64 = 500_000;
/// Number of ticks to record of a scenario.
pub const TICKS: u64 = 10_000;

/// Minimum number of rounds of a plan that has enough ticks.
const MIN_ROUNDS: u64 = 10;
/// Recorded ticks of a long round. Rounds are short because intervals are computed from rounds.
const ROUND_TICKS: u64 = 250;
/// Maximum duration of a round, if the period allows it.
const MAX_ROUND_NS: u64 = 1_000_000_000;
/// Time of the warm-up, from which its number of ticks is computed.
const WARMUP_NS: u64 = 10_000_000;
/// Bounds of the ticks of a warm-up.
const MIN_WARMUP_TICKS: u64 = 3;
const MAX_WARMUP_TICKS: u64 = 20;

/// Returns the recorded ticks of a full round of a long plan.
pub fn long_round_ticks(period_ns: u64) -> u64 {
    ROUND_TICKS.min((MAX_ROUND_NS / period_ns.max(1)).max(1))
}

/// Returns the recorded ticks of a full round of a plan with this number of ticks.
pub fn round_ticks(period_ns: u64, ticks: u64) -> u64 {
    (ticks / MIN_ROUNDS).clamp(1, long_round_ticks(period_ns))
}

/// Returns the leading ticks of a round that are not recorded.
pub fn warmup_ticks(period_ns: u64) -> u64 {
    (WARMUP_NS / period_ns.max(1)).clamp(MIN_WARMUP_TICKS, MAX_WARMUP_TICKS)
}
