//! The length of one round.

use std::time::Duration;

use cli::exit::{self, usage};
use cli::units;
use cli::words::pluralize;
use files::report::defaults;

/// Maximum duration of a round: a year.
const MAX_DURATION: Duration = Duration::from_secs(365 * 24 * 3600);

/// The length of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundLength {
    pub period: Duration,
    /// Recorded ticks.
    pub ticks: u64,
    /// Leading ticks that are not recorded.
    pub warmup_ticks: u64,
}

impl RoundLength {
    /// Creates a length. Missing numbers of ticks get the defaults of a long run.
    ///
    /// # Errors
    ///
    /// Returns an error if the period is out of range, there is no tick to record, or the round is
    /// longer than a year.
    pub fn new(
        period: Duration,
        ticks: Option<u64>,
        warmup_ticks: Option<u64>,
    ) -> exit::Result<Self> {
        check_period(period)?;
        let ticks = ticks.unwrap_or_else(|| default_ticks(period));
        let warmup_ticks =
            warmup_ticks.unwrap_or_else(|| defaults::warmup_ticks(units::to_ns(period)));
        let duration_ns =
            ticks.checked_add(warmup_ticks).map(|n| u128::from(n) * period.as_nanos());
        match duration_ns {
            _ if ticks == 0 => Err(usage!("invalid --round-ticks 0: expected at least 1")),
            Some(ns) if ns <= MAX_DURATION.as_nanos() => Ok(Self { period, ticks, warmup_ticks }),
            _ => Err(usage!(
                "a round of {} of {} is longer than a year; give fewer --round-ticks or --warmup",
                pluralize(ticks, "tick"),
                units::format_exact_duration(period)
            )),
        }
    }

    pub fn period_ns(self) -> u64 {
        u64::try_from(self.period.as_nanos()).expect("a period is at most an hour")
    }
}

/// Checks that a period is neither zero nor implausibly long.
pub(super) fn check_period(period: Duration) -> exit::Result<()> {
    if (units::MIN_PERIOD..=units::MAX_PERIOD).contains(&period) {
        return Ok(());
    }
    let period = units::format_exact_duration(period);
    Err(usage!("invalid --period {period}: expected 1us to 1h"))
}

/// Returns the default of the recorded ticks.
pub(super) fn default_ticks(period: Duration) -> u64 {
    defaults::long_round_ticks(units::to_ns(period))
}

/// Returns the number of ticks in a time.
pub(super) fn ticks_in(time: Duration, period: Duration) -> u64 {
    u64::try_from(time.as_nanos() / period.as_nanos()).unwrap_or(u64::MAX)
}
