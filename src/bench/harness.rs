//! Rounds of operations: how many fill a batch is found out first, then each case runs once a
//! round, in random order, with a stamp after each batch.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use benchloops::batches::{BatchPlan, duration_to_counts};
use cli::exit::{self, Error, usage};
use engine::scenario;
use files::cost::{self, Costs, Overhead};
use jitterstat::stats::random::SplitMix64;
use tach::{Anchor, Conversion};

use crate::file_io::model;
use crate::{interrupt, terminal};

model! {
    /// How much was measured.
    pub struct Settings {
        /// Seed of the order within each round.
        pub seed: u64,
        /// Rounds; in each, every case runs once.
        pub rounds: u64,
        /// Measured time aimed at, for one case in one round.
        pub round_time_ns: u64,
        /// Batches of operations in a round.
        pub batches: u64,
    }
}

impl Settings {
    pub fn new(seed: Option<u64>, rounds: u64, round_time: Duration, batches: u64) -> Self {
        let seed = seed.unwrap_or_else(scenario::draw_seed);
        Self { seed, rounds, round_time_ns: round_time.as_nanos() as u64, batches }
    }

    pub fn round_time(&self) -> Duration {
        Duration::from_nanos(self.round_time_ns)
    }

    /// How long one case takes in one round: its warm-up is one more batch.
    pub fn with_warm_up(&self) -> Duration {
        self.round_time().mul_f64(1.0 + 1.0 / self.batches as f64)
    }
}

/// Something that is measured in every round.
pub trait Case {
    /// What a run yields beside its costs.
    type Extra;

    /// Names it in the progress.
    fn label(&self) -> String;
    /// How long one run takes, about.
    fn expected(&self, settings: &Settings) -> Duration;
    /// How much fills a round, where that need not be tried.
    fn load(&self, _: &Settings) -> Option<BatchPlan> {
        None
    }
    /// Counts that an operation took, a value for each batch.
    fn run(&self, load: BatchPlan) -> io::Result<(Vec<f64>, Self::Extra)>;
}

/// Cases in groups: those of a group are compared within each round.
pub struct Schedule<C> {
    pub settings: Settings,
    pub groups: Vec<Vec<C>>,
    pub expected: Duration,
}

impl<C: Case> Schedule<C> {
    /// Refuses what is a slip of the keyboard.
    pub fn new(settings: Settings, groups: Vec<Vec<C>>) -> exit::Result<Self> {
        const MAX_TIME: Duration = Duration::from_secs(86_400);
        let round: Duration = groups.iter().flatten().map(|case| case.expected(&settings)).sum();
        // Finding the length of a batch and what else is done before are as long as a round each,
        // about.
        let expected = round.saturating_mul(u32::try_from(settings.rounds + 2).unwrap_or(u32::MAX));
        if expected > MAX_TIME {
            return Err(usage!(
                "this would take {:.0} hours; ask for less",
                expected.as_secs_f64() / 3600.0
            ));
        }
        Ok(Self { settings, groups, expected })
    }

    /// Says how long it will take, and measures until the end or an interrupt; each case is
    /// prepared before the first round.
    pub fn run(
        self,
        what: &str,
        quiet: bool,
        prepare: impl FnMut(&mut C),
    ) -> exit::Result<Measured<C>> {
        let stop = Arc::new(AtomicBool::new(false));
        interrupt::stop_on_interrupt(&stop)?;
        let (rounds, seconds) = (self.settings.rounds, self.expected.as_secs_f64().ceil());
        terminal::note(quiet, &format!("{what} × {rounds} rounds: about {seconds}s"));
        let progress = terminal::Progress::new(
            self.groups.iter().flatten().count() as u64 * (rounds + 1),
            quiet,
        );
        let mut groups: Vec<Vec<Series<C>>> = self
            .groups
            .into_iter()
            .map(|group| group.into_iter().map(Series::new).collect())
            .collect();
        let started = Anchor::take();
        let measured = measure(&self.settings, &mut groups, prepare, &stop, &progress);
        progress.finish();
        let rate_hz = measured.and_then(|()| {
            let conversion = Conversion::between(&started, &Anchor::take());
            conversion
                .map(|c| c.rate_hz())
                .ok_or_else(|| io::Error::other("the clock did not advance"))
        });
        let rate_hz = rate_hz.map_err(|e| Error::measure(format!("cannot measure: {e}")))?;
        groups.iter_mut().flatten().for_each(|series| series.ns_per_count = 1e9 / rate_hz);
        Ok(Measured {
            settings: self.settings,
            groups,
            rate_hz,
            partial: stop.load(Ordering::Relaxed),
        })
    }
}

/// What came of it.
pub struct Measured<C: Case> {
    pub settings: Settings,
    pub groups: Vec<Vec<Series<C>>>,
    /// Of the counter, over the whole time.
    pub rate_hz: f64,
    /// It was interrupted.
    pub partial: bool,
}

/// A case and its rounds.
pub struct Series<C: Case> {
    pub case: C,
    pub extras: Vec<C::Extra>,
    load: BatchPlan,
    rounds: Vec<Vec<f64>>,
    ns_per_count: f64,
}

impl<C: Case> Series<C> {
    fn new(case: C) -> Self {
        let load = BatchPlan { batches: 0, operations: 0, counts: 0 };
        Self { case, extras: Vec::new(), load, rounds: Vec::new(), ns_per_count: 0.0 }
    }

    /// Counts of an operation, over the batches of all rounds.
    pub fn counts(&self) -> Option<Costs> {
        Costs::from_batches(&self.rounds.concat())
    }

    /// The same in nanoseconds.
    pub fn ns(&self) -> Option<Costs> {
        let ns: Vec<f64> =
            self.rounds.iter().flatten().map(|counts| counts * self.ns_per_count).collect();
        Costs::from_batches(&ns)
    }

    /// Nanoseconds, median of each round.
    pub fn medians(&self) -> Vec<f64> {
        self.rounds
            .iter()
            .filter_map(|round| cost::median(round))
            .map(|counts| counts * self.ns_per_count)
            .collect()
    }

    /// Difference to another case in the same rounds.
    pub fn overhead(&self, control: &Self) -> Option<Overhead> {
        Overhead::from_rounds(&control.medians(), &self.medians())
    }
}

fn measure<C: Case>(
    settings: &Settings,
    groups: &mut [Vec<Series<C>>],
    mut prepare: impl FnMut(&mut C),
    stop: &AtomicBool,
    progress: &terminal::Progress,
) -> io::Result<()> {
    for series in groups.iter_mut().flatten() {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        progress.show(&series.case.label(), 0);
        prepare(&mut series.case);
        series.load = load(settings, &series.case)?;
        progress.step();
    }
    drop(prepare);
    let mut random = SplitMix64::new(settings.seed);
    let mut order: Vec<usize> = (0..groups.len()).collect();
    for round in 0..settings.rounds {
        random.shuffle(&mut order);
        for &group in &order {
            let group = &mut groups[group];
            let mut cases: Vec<usize> = (0..group.len()).collect();
            random.shuffle(&mut cases);
            // A round is kept whole or not at all: an overhead is the difference within it.
            let mut results = Vec::with_capacity(cases.len());
            for case in cases {
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let series = &group[case];
                progress.show(&series.case.label(), round);
                results.push((case, series.case.run(series.load)?));
                progress.step();
            }
            for (case, (costs, extra)) in results {
                group[case].rounds.push(costs);
                group[case].extras.push(extra);
            }
        }
    }
    Ok(())
}

/// How many operations fill a batch's share of the round.
fn load<C: Case>(settings: &Settings, case: &C) -> io::Result<BatchPlan> {
    const FIRST: u64 = 64;
    // What costs less than this allows is known well enough.
    const MAX_OPERATIONS: u64 = 10_000_000;
    if let Some(load) = case.load(settings) {
        return Ok(load);
    }
    let share = duration_to_counts(settings.round_time() / settings.batches as u32);
    let mut operations = FIRST;
    loop {
        let (costs, _) = case.run(BatchPlan { batches: 1, operations, counts: share })?;
        let took = costs[0] * operations as f64;
        let wanted = (share as f64 / took.max(1.0) * operations as f64) as u64;
        if took >= share as f64 / 8.0 || operations >= MAX_OPERATIONS {
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

    /// Raises `stop` when it has run so often.
    struct Counted<'a>(&'a Cell<u32>, &'a AtomicBool);

    const STOP_AT: u32 = 11;

    impl Case for Counted<'_> {
        type Extra = ();

        fn label(&self) -> String {
            String::new()
        }

        fn expected(&self, settings: &Settings) -> Duration {
            settings.with_warm_up()
        }

        fn run(&self, load: BatchPlan) -> io::Result<(Vec<f64>, ())> {
            self.0.set(self.0.get() + 1);
            if self.0.get() == STOP_AT {
                self.1.store(true, Ordering::Relaxed);
            }
            // As long as it takes.
            Ok((vec![1e12 / load.operations as f64; load.batches as usize], ()))
        }
    }

    fn rounds(stop: &AtomicBool) -> Vec<Vec<usize>> {
        let runs = Cell::new(0);
        let settings = Settings::new(Some(1), 3, Duration::from_millis(1), 2);
        let case = || Series::new(Counted(&runs, stop));
        let mut groups = [vec![case(), case()], vec![case(), case()]];
        let mut prepared = 0;
        measure(&settings, &mut groups, |_| prepared += 1, stop, &terminal::Progress::new(1, true))
            .unwrap();
        assert!(prepared == 4 || stop.load(Ordering::Relaxed));
        groups
            .iter()
            .map(|group| group.iter().map(|series| series.rounds.len()).collect())
            .collect()
    }

    #[test]
    fn a_round_of_a_group_is_kept_whole_or_not_at_all() {
        // Four runs find the length of a batch; the eleventh is the first of a group's second
        // round.
        let rounds = rounds(&AtomicBool::new(false));
        assert!(
            rounds.iter().all(|group| group[0] == group[1] && (1..=2).contains(&group[0])),
            "{rounds:?}"
        );
        assert_eq!(rounds.iter().map(|group| group[0]).sum::<usize>(), 3, "{rounds:?}");
    }

    #[test]
    fn nothing_is_measured_after_an_interrupt() {
        assert_eq!(rounds(&AtomicBool::new(true)), [[0, 0], [0, 0]]);
    }
}
