//! The samples of a round, from the counts of its wake-ups.

use jitterstat::recorder::RawSample;
use jitterstat::sample::{Grid, RoundSamples, Wakeup};
use tach::Conversion;

use crate::measure::round_error::RoundError;
use crate::measure::tick_loop::Recording;

/// Converts the counts of a recording to nanoseconds on the grid.
pub(super) fn convert_wakeups(recording: &Recording, conversion: &Conversion) -> Vec<Wakeup> {
    let ns = |count: u64| conversion.ns_since(count, recording.start);
    let samples = recording.recorder.samples();
    let mut wakeups = Vec::with_capacity(samples.len());
    for &RawSample { tick, expirations, wake_count, unpark_count } in samples {
        let unpark_ns = unpark_count.map(|count| ns(count.get()));
        wakeups.push(Wakeup { tick, expirations, wake_ns: ns(wake_count), unpark_ns });
    }
    wakeups
}

/// Returns the samples of an instance from its wake-ups.
pub(super) fn samples_on_grid(
    wakeups: &[Wakeup],
    grid: Grid,
    stopped: bool,
) -> Result<RoundSamples, RoundError> {
    let ticks_run = wakeups.last().map_or(0, |w| w.tick + 1).min(grid.first_tick + grid.ticks);
    // A stopped round contains only the ticks that ran.
    let ticks = if stopped { ticks_run.saturating_sub(grid.first_tick) } else { grid.ticks };
    RoundSamples::from_wakeups(Grid { ticks, ..grid }, wakeups).map_err(RoundError::InvalidWakeups)
}

/// Counts ticks as on time that seem early by at most the error bound of the conversion.
pub(super) fn drop_apparent_earliness(lateness_ns: &mut [i64], error_bound_ns: u64) {
    for lateness_ns in lateness_ns {
        if *lateness_ns < 0 && lateness_ns.unsigned_abs() <= error_bound_ns {
            *lateness_ns = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliness_within_clock_error_is_none() {
        let mut lateness_ns = [-201, -200, -1, 0, 150];
        drop_apparent_earliness(&mut lateness_ns, 200);
        assert_eq!(lateness_ns, [-201, 0, 0, 0, 150]);
    }
}
