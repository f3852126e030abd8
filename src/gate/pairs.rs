//! Rounds of two sides, collected into pairs until these suffice.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use engine::machine::{host, os, tuning};
use engine::measure::child::{RunFailure, RunRequest, Series};
use engine::measure::cost::Cost;
use engine::measure::duet;
use engine::measure::load::Loads;
use engine::measure::order::{self, Observer};
use engine::measure::program_output::{self, ProgramRound};
use engine::measure::round::MeasuredRound;
use engine::program::Program;
use engine::scenario::{Plan, Scenario};
use engine::subject::RuntimeKind;
use files::fitness::Tally;
use files::gate::round_record::RoundRecord;
use files::gate::verdict::{Mode, Side};
use files::report::Round;
use files::summary;
use jitterstat::gate::round::Pair;
use jitterstat::series::Reader;
use jitterstat::stats::random::SplitMix64;

use crate::gate::design::{PairTest, Sides};
use crate::terminal::Progress;

/// So many pairs may be without a tick on a side, and a tenth of the others, before it is not the
/// machine's doing.
const MAX_EMPTY_PAIRS: u64 = 5;

#[derive(Default)]
pub struct Pairs {
    /// What is judged of them.
    pub values: Vec<Pair>,
    /// Both rounds of each, and whether that of B ran first.
    pub records: Vec<([RoundRecord; 2], bool)>,
    /// Lateness of every tick of each side, where it was to be kept.
    pub lateness_ns: [Vec<i64>; 2],
    pub elapsed: Duration,
    /// Pairs left out because a machine stalled for a whole round, so that a side that skips
    /// delivered no tick.
    pub without_tick: u64,
    /// What the machine did meanwhile.
    pub tally: Tally,
    /// Why it could not go on, if it could not.
    pub failure: Option<String>,
    /// That is because a program cannot be started.
    pub not_started: bool,
}

impl Pairs {
    /// What the hypervisor took during the rounds of a side, where the platform tells.
    pub fn steal_ns(&self, side: usize) -> Option<u64> {
        self.records.iter().map(|(rounds, _)| rounds[side].steal_ns).sum()
    }

    /// What each side met, on a machine of so many CPUs.
    pub fn sides(&self, test: &PairTest, cpus: f64) -> Vec<Side> {
        let ticks = test.design.round_ticks + test.design.warmup_ticks;
        let round_ns = test.design.period_ns as f64 * ticks as f64;
        let side = |(side, name): (usize, &str)| {
            let stolen = self.steal_ns(side).filter(|_| !self.records.is_empty());
            Side {
                side: name.to_owned(),
                same_stall_share: same_stall_share(
                    self.records.iter().map(|(rounds, _)| &rounds[side]),
                ),
                lateness_ns: summary::distribution(&[self.lateness_ns[side].as_slice()]),
                steal_share: stolen
                    .map(|ns| ns as f64 / (round_ns * self.records.len() as f64 * cpus)),
            }
        };
        ["a", "b"].into_iter().enumerate().map(side).collect()
    }

    pub fn duration_ns(&self) -> u64 {
        u64::try_from(self.elapsed.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Share of the ticks of the rounds that belonged to a stall already counted.
pub fn same_stall_share<'a>(rounds: impl Iterator<Item = &'a RoundRecord>) -> f64 {
    let (same, all) =
        rounds.fold((0, 0), |(same, all), r| (same + r.same_stall, all + r.same_stall + r.kept));
    same as f64 / all.max(1) as f64
}

/// How a test is run: until `enough` is true of the pairs so far, or it is interrupted or fails.
pub struct Collecting<'a, F> {
    pub stop: &'a Arc<AtomicBool>,
    pub quiet: bool,
    /// Whether every lateness is kept.
    pub keep_ticks: bool,
    /// Asked after each pair.
    pub enough: F,
}

impl<F: FnMut(&[Pair]) -> bool> Collecting<'_, F> {
    pub fn run(self, test: &PairTest) -> Pairs {
        let stop = self.stop;
        let started = now();
        let mut collector = PairCollector {
            test,
            progress: Progress::new(test.pairs, self.quiet),
            resolution_ns: host::clock_resolution_ns(),
            keep_ticks: self.keep_ticks,
            enough: self.enough,
            open: [None, None],
            over: false,
            pairs: Pairs::default(),
        };
        match (&test.sides, test.mode) {
            (Sides::Programs(programs), _) => collector.run_programs(programs, stop),
            (Sides::Subjects(both), Mode::Duet) => {
                duet::run(&both[0], &both[1], u64::MAX, test.design.seed, stop, &mut collector)
            }
            (Sides::Subjects(both), Mode::Interleaved) => {
                let tuning =
                    tuning::Settings { cpu: test.design.cpu, ..tuning::Settings::default() };
                let plan = Plan {
                    seed: test.design.seed,
                    samples: false,
                    tuning,
                    scenarios: both.to_vec(),
                    why: None,
                };
                order::run(&plan, &mut Loads::default(), stop, &mut collector, |_, _| ());
            }
        }
        collector.progress.finish();
        Pairs { elapsed: started.elapsed(), ..collector.pairs }
    }
}

struct PairCollector<'a, F> {
    test: &'a PairTest,
    progress: Progress,
    resolution_ns: i64,
    keep_ticks: bool,
    enough: F,
    /// The round of a side whose partner is still to come, with its place in the order; without a
    /// record if no tick came.
    open: [Option<(u64, Option<RoundRecord>)>; 2],
    over: bool,
    pairs: Pairs,
}

impl<F: FnMut(&[Pair]) -> bool> PairCollector<'_, F> {
    /// Takes the round of a side (0 is A) as pairs of tick and lateness.
    fn add(
        &mut self,
        side: usize,
        slot: u64,
        ticks: impl IntoIterator<Item = (u64, i64)>,
        cost: &Cost,
    ) {
        let all = &mut self.pairs.lateness_ns[side];
        let ticks = ticks.into_iter().inspect(|(_, lateness)| {
            if self.keep_ticks {
                all.push(*lateness);
            }
        });
        let record = RoundRecord::from_ticks(ticks, self.test.design.period_ns);
        let used = record.map(|record| RoundRecord {
            steal_ns: cost.steal_ns,
            run_queue_ns: cost.run_queue_ns,
            switches_voluntary: cost.switches_voluntary,
            switches_involuntary: cost.switches_involuntary,
            ..record
        });
        self.open[side] = Some((slot, used));
        if let [Some(_), Some(_)] = self.open {
            let [Some((slot_a, a)), Some((slot_b, b))] = std::mem::take(&mut self.open) else {
                return;
            };
            let empty = usize::from(a.is_some());
            let (Some(a), Some(b)) = (a, b) else {
                // Whichever side it was: leaving the pair out favours neither.
                self.pairs.without_tick += 1;
                if self.pairs.without_tick > MAX_EMPTY_PAIRS + self.pairs.values.len() as u64 / 10 {
                    self.fail(empty, "round after round delivered no tick");
                }
                return;
            };
            let value = |record: &RoundRecord| record.value(self.test.tail(), self.resolution_ns);
            self.pairs.values.push(Pair { a: value(&a), b: value(&b) });
            self.pairs.records.push(([a, b], slot_b < slot_a));
            self.progress.step();
            self.over |= (self.enough)(&self.pairs.values);
        }
    }

    fn fail(&mut self, side: usize, why: impl std::fmt::Display) {
        self.pairs.failure = Some(format!("{}: {why}", self.test.names[side]));
        self.over = true;
    }

    /// Starts each program anew for each of its rounds.
    fn run_programs(&mut self, programs: &[Program; 2], stop: &AtomicBool) {
        let test = self.test;
        let mut random = SplitMix64::new(test.design.seed);
        let period = Duration::from_nanos(test.design.period_ns);
        let (ticks, warmup) = (test.design.round_ticks, test.design.warmup_ticks);
        let asked =
            RunRequest { period, ticks, warmup, series: Series::Ticks, limit: test.max_round_time };
        for index in 0.. {
            let order = if random.coin() { [0, 1] } else { [1, 0] };
            for (slot, side) in (0..).zip(order) {
                self.progress.show(programs[side].text(), index);
                let before = os::steal_ns();
                match program_output::measure_round(&programs[side], asked, stop) {
                    Ok(ProgramRound { series: Reader { lateness_ns, .. }, .. }) => {
                        let steal_ns =
                            os::steal_ns().zip(before).map(|(now, then)| now.saturating_sub(then));
                        self.add(
                            side,
                            slot,
                            (0..).zip(lateness_ns),
                            &Cost { steal_ns, ..Cost::default() },
                        );
                    }
                    Err(RunFailure::Interrupted) => return,
                    // It names the program itself.
                    Err(why) => {
                        self.pairs.not_started = matches!(why, RunFailure::NotStarted(_));
                        (self.pairs.failure, self.over) = (why.message(), true);
                    }
                }
                if self.over {
                    return;
                }
            }
        }
    }
}

impl<F: FnMut(&[Pair]) -> bool> Observer for PairCollector<'_, F> {
    fn before_round(&mut self, scenario: &Scenario, index: u64) {
        self.progress.show(&scenario.id, index);
    }

    fn after_round(&mut self, scenario: &Scenario, result: &Result<MeasuredRound, String>) {
        let side = usize::from(scenario.id != self.test.names[0]);
        match result {
            Err(reason) => self.fail(side, reason),
            // An interrupted round is no round.
            Ok(round) if round.stopped => {}
            Ok(round) => {
                let samples = &round.instances[0].samples;
                if scenario
                    .subject
                    .as_builtin()
                    .is_none_or(|entry| entry.runtime_kind != RuntimeKind::Script)
                {
                    let costs = Round { first_tick: samples.grid.first_tick, ..round.cost.round() };
                    self.pairs.tally.add(
                        &scenario.subject.name(),
                        scenario.period_ns(),
                        &costs,
                        &samples.lateness_ns,
                    );
                }
                self.add(side, round.slot, samples.pairs(), &round.cost);
            }
        }
    }

    fn should_stop(&self) -> bool {
        self.over
    }
}

#[allow(clippy::disallowed_methods, reason = "wall time of what is measured")]
pub fn now() -> Instant {
    Instant::now()
}
