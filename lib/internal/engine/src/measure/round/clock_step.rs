//! The check that the clock of the kernel did not jump during a round.

use std::sync::OnceLock;
use std::time::Duration;

use tach::Anchor;

use crate::measure::round_error::RoundError;

/// Maximum difference between the counter and the kernel's clock over a round, in addition to
/// [`MAX_CLOCK_DRIFT`]. Delayed readings cause smaller differences.
const MAX_CLOCK_STEP: Duration = Duration::from_millis(20);
/// Maximum difference as a share of the length of a round, which is more than the error of any
/// rate.
const MAX_CLOCK_DRIFT: f64 = 0.02;

/// Checks that the kernel's clock did not jump during a round, since its lateness would include the
/// jump.
pub(super) fn check_clock_step(start: &Anchor, end: &Anchor) -> Result<(), RoundError> {
    static RATE_HZ: OnceLock<f64> = OnceLock::new();
    let rate_hz = *RATE_HZ.get_or_init(|| tach::info().rate_hz);
    let counter_s = end.count().saturating_sub(start.count()) as f64 / rate_hz;
    let forward =
        end.os_instant().checked_duration_since(start.os_instant()).map(|time| time.as_secs_f64());
    let kernel_s = forward.unwrap_or_else(|| {
        -start.os_instant().saturating_duration_since(end.os_instant()).as_secs_f64()
    });
    compare_clocks(counter_s, kernel_s)
}

/// Compares the lengths of a round by the CPU counter and by the kernel's clock, in seconds.
fn compare_clocks(counter_s: f64, kernel_s: f64) -> Result<(), RoundError> {
    let jump = kernel_s - counter_s;
    if jump.abs() <= MAX_CLOCK_STEP.as_secs_f64() + counter_s.abs() * MAX_CLOCK_DRIFT {
        return Ok(());
    }
    Err(RoundError::ClockJumped { counter_s, kernel_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_jumps_are_detected() {
        for (counter_s, kernel_s) in [(0.130, 0.130), (0.130, 0.149), (60.0, 60.9), (1e-6, 0.0)] {
            assert!(compare_clocks(counter_s, kernel_s).is_ok(), "{counter_s} {kernel_s}");
        }
        for (counter_s, kernel_s, expected) in
            [(0.13, 3600.13, "+3600.000 s"), (0.13, -3599.87, "-3600.000 s"), (0.13, 0.0, "-0.130")]
        {
            let error = compare_clocks(counter_s, kernel_s).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
