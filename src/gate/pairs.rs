//! Collects rounds of the two sides of a gate into pairs until the gate can decide.
//!
//! Rounds arrive one side at a time, in random order. A round waits as a [`HalfPair`] until its
//! partner arrives; then both are reduced to the values that the gate compares. Collection ends
//! when the decision function is satisfied, when the user interrupts, or when a side fails.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use cli::terminal::progress::Progress;
use cli::units::to_ns;
use engine::machine::{host, os, tuning};
use engine::measure::child::{RunFailure, RunRequest, Series};
use engine::measure::cost::Cost;
use engine::measure::duet;
use engine::measure::load::Loads;
use engine::measure::order::{self, Observer};
use engine::measure::pair_turns::{PairTurn, pair_turns};
use engine::measure::program::StartupCosts;
use engine::measure::program_output;
use engine::measure::round::{MeasuredRound, RoundResult};
use engine::measure::round_settings::RoundSettings;
use engine::measure::stop_delay::StopDelay;
use engine::program::Program;
use engine::scenario::{Plan, Scenario};
use engine::subject::RuntimeKind;
use files::fitness::Tally;
use files::gate::round_record::RoundRecord;
use files::gate::verdict::{self, LeftOverProcesses, Mode};
use files::report::{Change, Round};
use files::summary;
use files::window::TimeInWindow;
use jitterstat::gate::arrivals::{Arrivals, RoundArrivals};
use jitterstat::gate::round::Pair;
use jitterstat::gate::{Side, Sides};

use crate::gate::left_out_pairs::LeftOutPairs;
use crate::gate::live_estimate::show_estimate;
use crate::gate::pair_failure::PairFailure;
use crate::gate::pair_test::{PairSource, PairTest};

/// The pairs collected so far.
#[derive(Default)]
pub struct CollectedPairs {
    /// The compared values of each pair.
    pub values: Vec<Pair>,
    /// The rounds behind each pair.
    pub records: Vec<PairRecord>,
    /// Early, lost and stalled ticks of the pairs, and the rounds that only one side lost.
    pub arrivals: Arrivals,
    /// Lateness of every tick of each side in these pairs, if the collection keeps ticks.
    pub lateness_ns: Sides<Vec<i64>>,
    pub elapsed: Duration,
    pub left_out: LeftOutPairs,
    /// Stalls and machine conditions during the rounds.
    pub tally: Tally,
    /// Number of processes that the program of each side left running, and that were killed.
    pub killed_processes: Sides<u64>,
    /// Why collection ended early, if a side failed.
    pub failure: Option<PairFailure>,
}

/// The two rounds of a pair.
pub struct PairRecord {
    pub rounds: Sides<RoundRecord>,
    /// Whether the candidate ran first.
    pub candidate_first: bool,
}

impl CollectedPairs {
    /// Returns the time that the hypervisor took from all CPUs while the rounds of a side were
    /// measured, if the platform reports it.
    pub fn stolen(&self, side: Side) -> Option<TimeInWindow> {
        let stolen =
            |round: &RoundRecord| Some(TimeInWindow::new(round.steal_ns?, round.window_ns?));
        self.records.iter().map(|record| stolen(&record.rounds[side])).sum()
    }

    /// Summarizes the conditions of each side, on a machine with `cpus` CPUs.
    pub fn side_conditions(&self, cpus: u64) -> Vec<verdict::Side> {
        let conditions = |name: &str, side: Side| {
            let rounds = self.records.iter().map(|record| &record.rounds[side]);
            verdict::Side {
                side: name.to_owned(),
                same_stall_share: same_stall_share(rounds),
                lateness_ns: summary::distribution(&[self.lateness_ns[side].as_slice()]),
                steal_share: self.stolen(side).and_then(|stolen| stolen.share_of_cpus(cpus)),
            }
        };
        vec![conditions("a", Side::Base), conditions("b", Side::Candidate)]
    }

    /// Returns the processes that the programs left running.
    pub fn left_over(&self) -> LeftOverProcesses {
        let Sides { base, candidate } = self.killed_processes;
        LeftOverProcesses { a: base, b: candidate, prepare: 0 }
    }

    pub fn duration_ns(&self) -> u64 {
        to_ns(self.elapsed)
    }
}

/// Returns the share of ticks that belong to a stall already counted.
pub fn same_stall_share<'a>(rounds: impl Iterator<Item = &'a RoundRecord>) -> f64 {
    let (same, total) = rounds.fold((0, 0), |(same, total), round| {
        (same + round.same_stall, total + round.same_stall + round.kept)
    });
    same as f64 / total.max(1) as f64
}

/// Settings of a collection, with the function that ends it.
pub struct PairCollection<'a, F> {
    pub stop: &'a Arc<AtomicBool>,
    pub quiet: bool,
    /// Settings with which all rounds have to run.
    pub settings: &'a RoundSettings,
    /// Whether the lateness of every tick is kept.
    pub keep_ticks: bool,
    /// Returns whether the pairs so far suffice. Called after each pair.
    pub is_enough: F,
}

impl<F: FnMut(&[Pair]) -> bool> PairCollection<'_, F> {
    /// Measures pairs until they suffice, the user interrupts, or a side fails.
    pub fn run(self, test: &PairTest) -> CollectedPairs {
        let stop = self.stop;
        let started = now();
        let mut collector = PairCollector {
            test,
            progress: Progress::new(test.pairs, self.quiet),
            resolution_ns: host::clock_resolution_ns(),
            settings: self.settings,
            keep_ticks: self.keep_ticks,
            is_enough: self.is_enough,
            half_pairs: Sides::default(),
            is_done: false,
            pairs: CollectedPairs::default(),
        };
        match (&test.source, test.mode) {
            (PairSource::Programs(programs), _) => collector.run_programs(programs, stop),
            (PairSource::Subjects(scenarios), Mode::Duet) => {
                let Sides { base, candidate } = &**scenarios;
                let (seed, settings) = (test.design.seed, self.settings);
                duet::run(base, candidate, u64::MAX, seed, settings, stop, &mut collector);
            }
            (PairSource::Subjects(scenarios), Mode::Interleaved) => {
                let plan = interleaved_plan(test, scenarios);
                order::run(
                    &plan,
                    &StartupCosts::default(),
                    &mut Loads::default(),
                    stop,
                    &mut collector,
                    |_, _| (),
                );
            }
        }
        collector.progress.finish();
        CollectedPairs { elapsed: started.elapsed(), ..collector.pairs }
    }
}

fn interleaved_plan(test: &PairTest, scenarios: &Sides<Scenario>) -> Plan {
    Plan {
        seed: test.design.seed,
        samples: false,
        tuning: tuning::Settings { cpu: test.design.cpu, ..tuning::Settings::default() },
        scenarios: scenarios.iter().cloned().collect(),
        why: None,
    }
}

struct PairCollector<'a, F> {
    test: &'a PairTest,
    progress: Progress,
    resolution_ns: i64,
    settings: &'a RoundSettings,
    keep_ticks: bool,
    is_enough: F,
    /// Rounds whose partners have not run yet.
    half_pairs: Sides<Option<HalfPair>>,
    is_done: bool,
    pairs: CollectedPairs,
}

/// A round whose partner has not run yet.
struct HalfPair {
    /// Position of the round in the random order.
    slot: u64,
    /// `None` if no tick was delivered.
    judged: Option<JudgedRound>,
    /// Lateness of each tick, if the collection keeps ticks.
    lateness_ns: Vec<i64>,
    /// Setting that was changed from outside during the round.
    change: Option<Change>,
}

/// A round as it is judged.
struct JudgedRound {
    record: RoundRecord,
    arrivals: RoundArrivals,
}

impl<F: FnMut(&[Pair]) -> bool> PairCollector<'_, F> {
    /// Adds a round of a side. Each tick is given with its lateness in nanoseconds.
    fn add_round(
        &mut self,
        side: Side,
        slot: u64,
        ticks: impl IntoIterator<Item = (u64, i64)>,
        cost: &Cost,
    ) {
        let ticks: Vec<(u64, i64)> = ticks.into_iter().collect();
        let judged = self.judged_round(&ticks, cost);
        let kept_ticks = if self.keep_ticks { ticks.as_slice() } else { &[] };
        let lateness_ns = kept_ticks.iter().map(|&(_, lateness_ns)| lateness_ns).collect();
        self.add_half_pair(side, HalfPair { slot, judged, lateness_ns, change: None });
    }

    /// Adds a round of a side during which settings were changed.
    fn exclude_round(&mut self, side: Side, slot: u64, changes: &[Change]) {
        let change = changes.first().cloned();
        self.add_half_pair(side, HalfPair { slot, judged: None, lateness_ns: Vec::new(), change });
    }

    fn add_half_pair(&mut self, side: Side, half: HalfPair) {
        self.half_pairs[side] = Some(half);
        if let Some(pair) = self.half_pairs.take_both() {
            self.complete_pair(pair);
        }
    }

    fn judged_round(&self, ticks: &[(u64, i64)], cost: &Cost) -> Option<JudgedRound> {
        let period_ns = self.test.design.period_ns;
        let record = RoundRecord {
            window_ns: Some(cost.window_ns),
            steal_ns: cost.steal_ns,
            run_queue_ns: cost.run_queue_ns,
            switches_voluntary: cost.usage.switches_voluntary,
            switches_involuntary: cost.usage.switches_involuntary,
            ..RoundRecord::from_ticks(ticks.iter().copied(), period_ns)?
        };
        let arrivals = RoundArrivals::new(ticks, record.kept, period_ns)?;
        Some(JudgedRound { record, arrivals })
    }

    fn complete_pair(&mut self, Sides { base, candidate }: Sides<HalfPair>) {
        let candidate_first = candidate.slot < base.slot;
        if let Some(change) = base.change {
            return self.record_changed_pair(Side::Base, change);
        }
        if let Some(change) = candidate.change {
            return self.record_changed_pair(Side::Candidate, change);
        }
        let lateness_ns = Sides { base: base.lateness_ns, candidate: candidate.lateness_ns };
        match (base.judged, candidate.judged) {
            (Some(base), Some(candidate)) => {
                self.pairs
                    .arrivals
                    .add(Sides { base: base.arrivals, candidate: candidate.arrivals });
                self.pairs.lateness_ns.base.extend(lateness_ns.base);
                self.pairs.lateness_ns.candidate.extend(lateness_ns.candidate);
                let rounds = Sides { base: base.record, candidate: candidate.record };
                self.record_pair(PairRecord { rounds, candidate_first });
            }
            (None, None) => self.record_empty_pair(Side::Base),
            // Both values of the pair are left out, and yet a side has lost its ticks.
            (None, Some(candidate)) => {
                self.pairs.arrivals.add_lost_round(Side::Base, candidate.arrivals);
                self.record_empty_pair(Side::Base);
            }
            (Some(base), None) => {
                self.pairs.arrivals.add_lost_round(Side::Candidate, base.arrivals);
                self.record_empty_pair(Side::Candidate);
            }
        }
    }

    fn record_pair(&mut self, record: PairRecord) {
        let tail = self.test.tail();
        let values = record.rounds.as_ref().map(|round| round.value(tail, self.resolution_ns));
        self.pairs.values.push(values);
        self.pairs.records.push(record);
        let medians = self.pairs.values.iter().map(|pair| pair.as_ref().map(|side| side.median.ln));
        show_estimate(&self.progress, "p50", medians);
        self.progress.step();
        self.is_done |= (self.is_enough)(&self.pairs.values);
    }

    fn record_empty_pair(&mut self, side: Side) {
        if self.pairs.left_out.add_empty(self.pairs.values.len()) {
            self.fail(PairFailure::NoTicks { side: self.test.names[side].clone() });
        }
    }

    fn record_changed_pair(&mut self, side: Side, change: Change) {
        if self.pairs.left_out.add_changed(change.clone(), self.pairs.values.len()) {
            self.fail(PairFailure::SettingsChanged { side: self.test.names[side].clone(), change });
        }
    }

    fn fail(&mut self, failure: PairFailure) {
        self.pairs.failure = Some(failure);
        self.is_done = true;
    }

    /// Runs the programs of both sides in pairs, each pair in random order.
    fn run_programs(&mut self, programs: &Sides<Program>, stop: &AtomicBool) {
        let stop_delay = StopDelay::begin();
        for PairTurn { pair, slot, side } in pair_turns(self.test.design.seed) {
            stop_delay.stop_if_requested();
            self.progress.show(programs[side].text(), pair);
            let measured = self.run_program_round(side, slot, &programs[side], stop);
            if let Err(failure) = measured {
                // An interrupted program has not failed.
                if !matches!(failure, RunFailure::Interrupted) {
                    self.pairs.failure = Some(PairFailure::Program(failure));
                }
                return;
            }
            if self.is_done {
                return;
            }
        }
    }

    /// Starts a program for one round.
    fn run_program_round(
        &mut self,
        side: Side,
        slot: u64,
        program: &Program,
        stop: &AtomicBool,
    ) -> Result<(), RunFailure> {
        let request = RunRequest {
            period: Duration::from_nanos(self.test.design.period_ns),
            ticks: self.test.design.round_ticks,
            warmup: self.test.design.warmup_ticks,
            series: Series::Ticks,
            limit: self.test.max_round_time,
        };
        let (began, steal_before) = (tach::Instant::now(), os::steal_ns());
        let round = program_output::measure_round(program, request, stop)?;
        let (window_ns, steal_after) = (to_ns(began.elapsed()), os::steal_ns());
        let steal_ns =
            steal_after.zip(steal_before).map(|(after, before)| after.saturating_sub(before));
        self.pairs.killed_processes[side] += round.usage.map_or(0, |usage| usage.killed_processes);
        let cost = Cost { window_ns, steal_ns, ..Cost::default() };
        // Programs inherit the settings of this thread.
        let changes = self.settings.changes();
        if changes.is_empty() {
            self.add_round(side, slot, (0..).zip(round.series.lateness_ns), &cost);
        } else {
            self.exclude_round(side, slot, &changes);
        }
        Ok(())
    }

    /// Adds a round of a subject to the statistics about the machine. Scripted subjects play
    /// without the machine's timers, so they are left out.
    fn tally_round(&mut self, scenario: &Scenario, round: &MeasuredRound) {
        let builtin = scenario.subject.as_builtin();
        if builtin.is_some_and(|entry| entry.runtime_kind == RuntimeKind::Script) {
            return;
        }
        let samples = &round.instances[0].samples;
        let costs = round.cost.to_round(round.instances[0].cost_ticks);
        let costs = Round { first_tick: samples.grid.first_tick, ..costs };
        let (name, period_ns) = (scenario.subject.name(), scenario.period_ns());
        self.pairs.tally.add(&name, period_ns, &costs, &samples.lateness_ns);
    }
}

impl<F: FnMut(&[Pair]) -> bool> Observer for PairCollector<'_, F> {
    fn settings(&self) -> Option<&RoundSettings> {
        Some(self.settings)
    }

    fn before_round(&mut self, scenario: &Scenario, index: u64) {
        self.progress.show(&scenario.id, index);
    }

    fn after_round(&mut self, scenario: &Scenario, result: &RoundResult) {
        let is_base = scenario.id == self.test.names.base;
        let side = if is_base { Side::Base } else { Side::Candidate };
        match result {
            Err(error) => {
                let side = self.test.names[side].clone();
                self.fail(PairFailure::Round { side, source: Box::new(error.clone()) });
            }
            // Discard an interrupted round.
            Ok(round) if round.stopped => {}
            Ok(round) if !round.setting_changes.is_empty() => {
                self.exclude_round(side, round.slot, &round.setting_changes);
            }
            Ok(round) => {
                self.tally_round(scenario, round);
                let samples = &round.instances[0].samples;
                self.add_round(side, round.slot, samples.pairs(), &round.cost);
            }
        }
    }

    fn should_stop(&self) -> bool {
        self.is_done
    }
}

#[allow(clippy::disallowed_methods, reason = "wall time of the measurement")]
pub fn now() -> Instant {
    Instant::now()
}
