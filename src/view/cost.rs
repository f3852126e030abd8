//! What a subject costs, as people speak of it.

use jitterstat::report::Subject;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Per cent of one core that the process took while the subject ran, all of its instances together.
pub fn core_percent(subject: &Subject) -> Option<f64> {
    let per_tick = subject.summary.as_ref()?.cpu_ns_per_tick?;
    Some(per_tick * subject.instances as f64 / subject.period_ns as f64 * 100.0)
}

/// Rounds below which no interval is given: as for the percentiles.
const LEAST_ROUNDS: usize = 10;
/// Resamples of the rounds.
const RESAMPLES: usize = 1_000;
/// Any number: the same report has the same interval on every machine and day.
const SEED: u64 = 0x0511_77e5;

/// 95 % interval of the CPU time per tick in nanoseconds, from resampling rounds; `None` below ten of them.
///
/// A round's cost stands once, with the first of its instances, and is already of all ticks of all of them: rounds are
/// weighed by their ticks, so that a short last round counts for what it is.
pub fn per_tick_interval(subject: &Subject) -> Option<[f64; 2]> {
    let rounds: Vec<(f64, f64)> = subject
        .rounds
        .iter()
        .filter_map(|r| {
            let summary = r.summary.as_ref()?;
            Some((summary.cpu_ns_per_tick? * summary.ticks as f64, summary.ticks as f64))
        })
        .collect();
    if rounds.len() < LEAST_ROUNDS {
        return None;
    }
    let mut random = SmallRng::seed_from_u64(SEED);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let drawn = (0..rounds.len()).map(|_| rounds[random.random_range(0..rounds.len())]);
            let (cpu, ticks) = drawn.fold((0.0, 0.0), |sum, round| (sum.0 + round.0, sum.1 + round.1));
            cpu / ticks
        })
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    // The 2.5 % that lie outside on each side.
    let outside = RESAMPLES / 40;
    Some([means[outside], means[RESAMPLES - 1 - outside]])
}
