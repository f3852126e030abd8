//! Measures cases in rounds.
//!
//! First the number of operations that fill a batch is determined for each case. Then each case
//! runs once per round, in random order, with a timestamp after each batch.

use crate::interrupt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use benchloops::batches::{BatchPlan, duration_to_counts};
use cli::exit::{self, Error, usage};
use cli::terminal;
use cli::terminal::progress::Progress;
use cli::units::to_ns;
use cli::words::pluralize;
use engine::scenario;
use files::cost::{self, Costs, Overhead};
use jitterstat::stats::random::SplitMix64;
use tach::{Anchor, Conversion};

files::model! {
    /// Settings of the measurement.
    pub struct Settings {
        /// Seed of the order within each round.
        pub seed: u64,
        /// Number of rounds; in each, every case runs once.
        pub rounds: u64,
        /// Target of the measured time of one case in one round.
        pub round_time_ns: u64,
        /// Batches of operations in a round.
        pub batches: u64,
    }
}

impl Settings {
    pub fn new(seed: Option<u64>, rounds: u64, round_time: Duration, batches: u64) -> Self {
        let seed = seed.unwrap_or_else(scenario::draw_seed);
        Self { seed, rounds, round_time_ns: to_ns(round_time), batches }
    }

    pub fn round_time(&self) -> Duration {
        Duration::from_nanos(self.round_time_ns)
    }

    /// Returns the time that one case needs in one round: the warm-up is one more batch.
    pub fn case_duration(&self) -> Duration {
        self.round_time().mul_f64(1.0 + 1.0 / self.batches as f64)
    }
}

/// Something that is measured in every round.
pub trait Case {
    /// Data that a run returns in addition to its costs.
    type Extra;

    /// Returns the name shown in the progress.
    fn label(&self) -> String;
    /// Returns the expected duration of a run.
    fn expected(&self, settings: &Settings) -> Duration;
    /// Returns the batches of a round, if they need not be determined by trying.
    fn fixed_batch_plan(&self, _: &Settings) -> Option<BatchPlan> {
        None
    }
    /// Runs the batches, and returns the cost of an operation in counts for each batch. If `stop`
    /// is set, the run may end early; its result is dropped.
    fn run(&self, plan: BatchPlan, stop: &Arc<AtomicBool>) -> io::Result<(Vec<f64>, Self::Extra)>;
}

/// Cases in groups; the cases of a group are compared within each round.
pub struct BenchSchedule<C> {
    pub settings: Settings,
    pub groups: Vec<Vec<C>>,
    pub expected: Duration,
}

impl<C: Case> BenchSchedule<C> {
    /// Returns an error if the bench would need more than a day.
    pub fn new(settings: Settings, groups: Vec<Vec<C>>) -> exit::Result<Self> {
        const MAX_TIME: Duration = Duration::from_secs(86_400);
        let round: Duration = groups.iter().flatten().map(|case| case.expected(&settings)).sum();
        // Determining the length of a batch and the other preparations need about a round each.
        let expected = round.saturating_mul(u32::try_from(settings.rounds + 2).unwrap_or(u32::MAX));
        if expected > MAX_TIME {
            return Err(usage!(
                "this would take {:.0} hours; reduce --rounds or --round-time",
                expected.as_secs_f64() / 3600.0
            ));
        }
        Ok(Self { settings, groups, expected })
    }

    /// Prints the expected duration, calls `prepare` for each case, and measures until the end or
    /// an interrupt. `summary` describes the cases in the printed line.
    pub fn run(
        self,
        summary: &str,
        quiet: bool,
        prepare: impl FnMut(&mut C),
    ) -> exit::Result<BenchOutcome<C>> {
        let stop = Arc::new(AtomicBool::new(false));
        interrupt::stop_on_interrupt(&stop)?;
        let (rounds, seconds) = (self.settings.rounds, self.expected.as_secs_f64().ceil());
        let shown_rounds = pluralize(rounds, "round");
        terminal::note(quiet, &format!("{summary} × {shown_rounds}: about {seconds}s"));
        let progress =
            Progress::new(self.groups.iter().flatten().count() as u64 * (rounds + 1), quiet);
        let mut groups: Vec<Vec<Series<C>>> = Vec::with_capacity(self.groups.len());
        for group in self.groups {
            groups.push(group.into_iter().map(Series::new).collect());
        }
        let start = Anchor::take();
        let measured = measure(&self.settings, &mut groups, prepare, &stop, &progress);
        progress.finish();
        let rate_hz = measured.and_then(|()| rate_since(&start));
        let rate_hz = rate_hz.map_err(|e| Error::measure(format!("cannot measure: {e}")))?;
        for series in groups.iter_mut().flatten() {
            series.ns_per_count = 1e9 / rate_hz;
        }
        Ok(BenchOutcome {
            settings: self.settings,
            groups,
            rate_hz,
            partial: stop.load(Ordering::Relaxed),
        })
    }
}

/// The measured rounds of a schedule.
pub struct BenchOutcome<C: Case> {
    pub settings: Settings,
    pub groups: Vec<Vec<Series<C>>>,
    /// Rate of the counter over the whole bench.
    pub rate_hz: f64,
    /// Whether the bench was interrupted.
    pub partial: bool,
}

/// A case and its rounds.
pub struct Series<C: Case> {
    pub case: C,
    pub extras: Vec<C::Extra>,
    plan: BatchPlan,
    rounds: Vec<Vec<f64>>,
    ns_per_count: f64,
}

impl<C: Case> Series<C> {
    fn new(case: C) -> Self {
        let plan = BatchPlan { batches: 0, operations: 0, counts: 0 };
        Self { case, extras: Vec::new(), plan, rounds: Vec::new(), ns_per_count: 0.0 }
    }

    /// Returns the cost of an operation in counts, over the batches of all rounds.
    pub fn counts(&self) -> Option<Costs> {
        Costs::from_batches(&self.rounds.concat())
    }

    /// Returns the cost of an operation in nanoseconds, over the batches of all rounds.
    pub fn ns(&self) -> Option<Costs> {
        let ns: Vec<f64> =
            self.rounds.iter().flatten().map(|counts| counts * self.ns_per_count).collect();
        Costs::from_batches(&ns)
    }

    /// Returns the median cost of each round in nanoseconds.
    pub fn medians(&self) -> Vec<f64> {
        let counts = self.rounds.iter().filter_map(|round| cost::median(round));
        counts.map(|counts| counts * self.ns_per_count).collect()
    }

    /// Returns the difference to another case in the same rounds.
    pub fn overhead(&self, control: &Self) -> Option<Overhead> {
        Overhead::from_rounds(&control.medians(), &self.medians())
    }
}

/// Measures all groups in random order, until the end or an interrupt.
fn measure<C: Case>(
    settings: &Settings,
    groups: &mut [Vec<Series<C>>],
    prepare: impl FnMut(&mut C),
    stop: &Arc<AtomicBool>,
    progress: &Progress,
) -> io::Result<()> {
    plan_cases(settings, groups, prepare, stop, progress)?;
    let mut random = SplitMix64::new(settings.seed);
    let mut order: Vec<usize> = (0..groups.len()).collect();
    for round in 0..settings.rounds {
        random.shuffle(&mut order);
        for &group in &order {
            let group = &mut groups[group];
            let mut cases: Vec<usize> = (0..group.len()).collect();
            random.shuffle(&mut cases);
            let Some(results) = run_cases(group, &cases, round, stop, progress)? else {
                return Ok(());
            };
            for (case, (costs, extra)) in cases.into_iter().zip(results) {
                group[case].rounds.push(costs);
                group[case].extras.push(extra);
            }
        }
    }
    Ok(())
}

/// Prepares each case and plans its batches. `prepare` is dropped before the first round.
fn plan_cases<C: Case>(
    settings: &Settings,
    groups: &mut [Vec<Series<C>>],
    mut prepare: impl FnMut(&mut C),
    stop: &Arc<AtomicBool>,
    progress: &Progress,
) -> io::Result<()> {
    for series in groups.iter_mut().flatten() {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        progress.show(&series.case.label(), 0);
        prepare(&mut series.case);
        series.plan = plan_batches(settings, &series.case, stop)?;
        progress.step();
    }
    Ok(())
}

/// Costs of the batches of a round, with the other data of the case.
type RoundResult<C> = (Vec<f64>, <C as Case>::Extra);

/// Runs a round of the cases of a group; `None` if it was interrupted. An overhead is a difference
/// within a round, so incomplete rounds are dropped.
fn run_cases<C: Case>(
    group: &[Series<C>],
    cases: &[usize],
    round: u64,
    stop: &Arc<AtomicBool>,
    progress: &Progress,
) -> io::Result<Option<Vec<RoundResult<C>>>> {
    let mut results = Vec::with_capacity(cases.len());
    for &case in cases {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let series = &group[case];
        progress.show(&series.case.label(), round);
        results.push(series.case.run(series.plan, stop)?);
        progress.step();
    }
    // The last case may have ended early.
    Ok((!stop.load(Ordering::Relaxed)).then_some(results))
}

/// Returns the rate of the clock since an anchor.
fn rate_since(start: &Anchor) -> io::Result<f64> {
    let conversion = Conversion::between(start, &Anchor::take());
    let conversion = conversion.ok_or_else(|| io::Error::other("the clock did not advance"))?;
    Ok(conversion.rate_hz())
}

/// Determines the number of operations that fill a batch's share of the round.
fn plan_batches<C: Case>(
    settings: &Settings,
    case: &C,
    stop: &Arc<AtomicBool>,
) -> io::Result<BatchPlan> {
    const INITIAL_OPERATIONS: u64 = 64;
    // Batches of operations that are even cheaper are shorter, but still long enough.
    const MAX_OPERATIONS: u64 = 10_000_000;
    if let Some(plan) = case.fixed_batch_plan(settings) {
        return Ok(plan);
    }
    let share = duration_to_counts(settings.round_time() / settings.batches as u32);
    let mut operations = INITIAL_OPERATIONS;
    loop {
        let trial = BatchPlan { batches: 1, operations, counts: share };
        let (costs, _) = case.run(trial, stop)?;
        // A trial that was stopped may have no cost. No round follows.
        let Some(cost) = costs.first() else { return Ok(trial) };
        let elapsed = cost * operations as f64;
        let wanted = (share as f64 / elapsed.max(1.0) * operations as f64) as u64;
        if elapsed >= share as f64 / 8.0 || operations >= MAX_OPERATIONS {
            return Ok(BatchPlan {
                batches: settings.batches,
                operations: wanted.clamp(1, MAX_OPERATIONS),
                counts: share,
            });
        }
        operations = (wanted / 4).clamp(operations * 2, operations * 16).min(MAX_OPERATIONS);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Counts its runs, and sets `stop` in run [`STOP_AT`].
    struct CountedCase<'a> {
        runs: &'a Cell<u32>,
        stop: &'a AtomicBool,
    }

    const STOP_AT: u32 = 11;

    impl Case for CountedCase<'_> {
        type Extra = ();

        fn label(&self) -> String {
            String::new()
        }

        fn expected(&self, settings: &Settings) -> Duration {
            settings.case_duration()
        }

        fn run(&self, plan: BatchPlan, _: &Arc<AtomicBool>) -> io::Result<(Vec<f64>, ())> {
            self.runs.set(self.runs.get() + 1);
            if self.runs.get() == STOP_AT {
                self.stop.store(true, Ordering::Relaxed);
            }
            // Costs so high that the first batch is long enough.
            Ok((vec![1e12 / plan.operations as f64; plan.batches as usize], ()))
        }
    }

    /// Returns the number of measured rounds of each case of each group.
    fn count_rounds(stop: &Arc<AtomicBool>) -> Vec<Vec<usize>> {
        let runs = Cell::new(0);
        let settings = Settings::new(Some(1), 3, Duration::from_millis(1), 2);
        let case = || Series::new(CountedCase { runs: &runs, stop });
        let mut groups = [vec![case(), case()], vec![case(), case()]];
        let mut prepared = 0;
        measure(&settings, &mut groups, |_| prepared += 1, stop, &Progress::new(1, true)).unwrap();
        assert!(prepared == 4 || stop.load(Ordering::Relaxed));
        groups
            .iter()
            .map(|group| group.iter().map(|series| series.rounds.len()).collect())
            .collect()
    }

    #[test]
    fn interrupted_round_of_group_is_dropped() {
        // Four runs determine the length of a batch; the eleventh is the first in the second round
        // of a group.
        let rounds = count_rounds(&Arc::default());
        assert!(
            rounds.iter().all(|group| group[0] == group[1] && (1..=2).contains(&group[0])),
            "{rounds:?}"
        );
        assert_eq!(rounds.iter().map(|group| group[0]).sum::<usize>(), 3, "{rounds:?}");
    }

    #[test]
    fn interrupt_prevents_measurement() {
        assert_eq!(count_rounds(&Arc::new(AtomicBool::new(true))), [[0, 0], [0, 0]]);
    }
}
