//! The comparison of two sides: is the candidate later than the base?

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cli::exit::{self, Error, usage};
use cli::time::format_duration;
use engine::machine::{host, tuning};
use engine::measure::child::RunFailure;
use engine::measure::duet;
use engine::measure::round_settings::RoundSettings;
use engine::program::Program;
use engine::scenario::draw_seed;
use files::fitness::Fitness;
use files::gate::calibration::Calibration;
use files::gate::verdict::{self, Mode, PairVerdict};
use jitterstat::gate::Sides;
use jitterstat::gate::decision::{self, Look, Outcome, Reason, Rules};
use jitterstat::gate::round::Pair;

use crate::gate::args::{GateArgs, JudgedArgs, RoundArgs, Tolerance};
use crate::gate::calibration::{self, GateCalibration};
use crate::gate::pair_failure::PairFailure;
use crate::gate::pair_test::{
    DEFAULT_MAX_PAIRS, ENDLESS, PairSource, PairTest, SHORTER_ROUNDS_ADVICE, build_rules,
    build_scenario, looks_up_to, looks_within,
};
use crate::gate::pairs::PairCollection;
use crate::gate::running_gate::RunningGate;
use crate::gate::screen::{self, MAX_SCREEN_TIME, Screen, ScreenDeadline, warn_of_few_pairs};

/// Default maximum number of pairs in a duet.
const DEFAULT_MAX_DUET_PAIRS: u64 = 200;
/// Maximum share of the period for which a side of a duet may keep the CPU busy. A busier side
/// would delay the other one.
const MAX_BUSY: f64 = 0.2;
/// Maximum steal as a share of all CPUs up to which a duet is recommended. Above it, both sides
/// share so many stalls that their difference is hard to see.
const MAX_DUET_STEAL: f64 = 0.1;

/// The tests of all sides at all periods. They share alpha and the time limit.
pub struct PairTests {
    tests: Vec<PairTest>,
    calibration: Option<Calibration>,
    /// Time limit of each test.
    max_test_time: Option<Duration>,
    /// Whether all looks are needed to detect a change.
    has_changes: bool,
    screen: Option<Screen>,
}

/// Plans the tests of two sides, if the arguments have any.
pub fn plan(args: &GateArgs) -> exit::Result<Option<PairTests>> {
    let mut changes = args.detect.clone();
    for change in changes.iter_mut().filter(|change| change.name.is_empty()) {
        change.name = "p50".to_owned();
    }
    // All tests have the same seed.
    let mut judged = args.judged.clone();
    judged.rounds.seed.get_or_insert_with(draw_seed);

    let screen = Screen::start(args);
    let mut tests = plan_subjects(args, &judged, &changes, screen)?;
    tests.extend(plan_programs(args, &judged, &changes, screen)?);
    let has_whole_runs = args.has_whole_runs();
    if !tests.is_empty() && has_whole_runs && args.calibration.is_some() {
        return Err(Error::usage(
            "--calibration covers lateness or whole runs, not both; use --metric in a separate gate",
        ));
    }
    let calibration_file = args.calibration.as_deref().filter(|_| !has_whole_runs);
    let calibration: Option<Calibration> = calibration_file.map(calibration::read).transpose()?;
    if tests.is_empty() {
        return Ok(None);
    }

    // Give each test its share of alpha and of the time, and its looks.
    let test_count = tests.len();
    let divisor = u32::try_from(test_count).unwrap_or(u32::MAX);
    let max_test_time = args.max_time.map(|time| time / divisor);
    for test in &mut tests {
        test.mode = mode(args);
        test.rules = test.rules.clone().shared_by(test_count);
        if let Some(screen) = &screen {
            screen.check_pair_time(test.pair_time())?;
            test.max_round_time = test.max_round_time.min(MAX_SCREEN_TIME);
            test.start_timeout = test.start_timeout.min(MAX_SCREEN_TIME);
            test.set_looks(screen.looks(test.pair_time()));
            continue;
        }
        let max_pairs = match (&calibration, test.mode) {
            (Some(calibration), _) if !changes.is_empty() => {
                GateCalibration::from_rounds(calibration, test, &host::capture())
                    .pairs_to_detect(&changes, max_test_time)?
            }
            (_, Mode::Interleaved) => args.max_pairs.unwrap_or(DEFAULT_MAX_PAIRS),
            (_, Mode::Duet) => args.max_pairs.unwrap_or(DEFAULT_MAX_DUET_PAIRS),
        };
        let looks = looks_up_to(test.mode, max_pairs);
        let (pair_time, advice) = (test.pair_time(), SHORTER_ROUNDS_ADVICE);
        test.set_looks(looks_within(looks, pair_time, max_test_time, advice)?);
    }
    let has_changes = !changes.is_empty();
    Ok(Some(PairTests { tests, calibration, max_test_time, has_changes, screen }))
}

/// Plans a test of each --a against its --b, at each period.
fn plan_subjects(
    args: &GateArgs,
    judged: &JudgedArgs,
    changes: &[Tolerance],
    screen: Option<Screen>,
) -> exit::Result<Vec<PairTest>> {
    if args.a.len() != args.b.len() {
        return Err(usage!(
            "{} values of --a but {} of --b: give as many of each",
            args.a.len(),
            args.b.len()
        ));
    }
    let mut tests = Vec::new();
    for period in judged.periods() {
        let rounds = test_rounds(args, judged, period, screen)?;
        for (a, b) in args.a.iter().zip(&args.b) {
            let base = build_scenario(&rounds, a, period, ENDLESS)?;
            let candidate = build_scenario(&rounds, b, period, ENDLESS)?;
            let rules = build_rules(judged, changes, candidate.round_length())?;
            let scenarios = Sides { base, candidate };
            tests.push(PairTest::from_subjects(scenarios, &rounds, rules));
        }
    }
    Ok(tests)
}

/// Plans the test of two programs by their lateness. With --metric, whole runs are judged instead.
fn plan_programs(
    args: &GateArgs,
    judged: &JudgedArgs,
    changes: &[Tolerance],
    screen: Option<Screen>,
) -> exit::Result<Option<PairTest>> {
    let Some(programs) = args.programs().filter(|_| !args.has_whole_runs()) else {
        return Ok(None);
    };
    let period = args.program_period()?;
    let rounds = test_rounds(args, judged, period, screen)?;
    let length = rounds.program_round_length(period)?;
    let rules = build_rules(judged, changes, length)?;
    let mut test = PairTest::from_programs(programs, length, &rounds, rules);
    test.names = args.program_names(test.names);
    test.max_round_time = args.max_round_time.unwrap_or(test.max_round_time);
    test.start_timeout = args.max_round_time.unwrap_or(test.start_timeout);
    Ok(Some(test))
}

/// Returns the rounds of a test, which are shorter in a screen.
fn test_rounds(
    args: &GateArgs,
    judged: &JudgedArgs,
    period: Duration,
    screen: Option<Screen>,
) -> exit::Result<RoundArgs> {
    match screen {
        Some(screen) => screen.shorten_rounds(&judged.rounds, period, mode(args)),
        None => Ok(judged.rounds.clone()),
    }
}

fn mode(args: &GateArgs) -> Mode {
    if args.duet { Mode::Duet } else { Mode::Interleaved }
}

impl PairTests {
    /// Checks that all sides can be measured, and adapts the looks to the time of a pair.
    pub fn prepare(&mut self, stop: &Arc<AtomicBool>) -> exit::Result<()> {
        for test in &self.tests {
            if let PairSource::Programs(programs) = &test.source {
                programs.iter().try_for_each(Program::check_exists)?;
            }
        }
        self.tests[0].design.cpu.map_or(Ok(()), tuning::bind)?;
        for test in &mut self.tests {
            test.rehearse(stop)?;
            if self.screen.is_none() {
                test.limit_looks(self.max_test_time, self.has_changes)?;
            }
        }
        for test in self.tests.iter().filter(|test| test.mode == Mode::Duet) {
            check_duet(test, stop)?;
        }
        // The preparation has used a part of the time.
        if let Some(screen) = &self.screen {
            for test in &mut self.tests {
                test.set_looks(screen.looks(test.pair_time()));
            }
        }
        Ok(())
    }

    /// Returns notes for the user before measuring starts: the expected duration, and the tail that
    /// is judged.
    pub fn notes(&self) -> Vec<String> {
        let looks = match self.screen {
            Some(_) => screen::announcement(),
            None => {
                let first = self.tests.iter().map(|test| test.seconds(test.design.looks[0])).sum();
                let last = self.tests.iter().map(|test| test.seconds(test.pairs)).sum();
                let [first, last] = [first, last].map(format_duration);
                format!("{first} to the first look, at most {last} to the last")
            }
        };
        let mut notes = vec![looks];
        notes.extend(self.tests.iter().filter_map(PairTest::short_round_note));
        notes
    }

    /// Measures and judges test by test.
    pub fn judge(mut self, gate: &mut RunningGate) -> exit::Result<()> {
        // All tests run on one CPU.
        let settings = self.tests[0].read_round_settings();
        if let Some(calibration) = &self.calibration {
            for test in &self.tests {
                let found = GateCalibration::from_rounds(calibration, test, &gate.verdict.host);
                gate.warn_early(found.warnings(&test.rules.looks));
            }
        }
        // A screen has no time to start the programs once more.
        if self.screen.is_none() {
            for test in &self.tests {
                gate.warn_early(test.settings_warnings(&gate.stop));
            }
        }
        for test in &self.tests {
            if gate.stop_reason().is_some() {
                gate.mark_partial(None);
                return Ok(());
            }
            let deadline = self.screen.as_mut().map(Screen::start_test);
            judge_test(test, deadline, &settings, gate)?;
        }
        Ok(())
    }
}

/// Checks that two subjects can run at once without delaying each other, by measuring each alone
/// for a moment.
fn check_duet(test: &PairTest, stop: &Arc<AtomicBool>) -> exit::Result<()> {
    let PairSource::Subjects(scenarios) = &test.source else { return Ok(()) };
    if test.design.cpu.is_none() {
        return Err(Error::usage(
            "--duet needs both sides on one CPU, but this platform cannot bind threads to CPUs",
        ));
    }
    for scenario in scenarios.iter() {
        let id = &scenario.id;
        match duet::busy_share(scenario, stop).map_err(|e| usage!("{id}: {e}"))? {
            Some(busy) if busy <= MAX_BUSY => {}
            Some(busy) => {
                return Err(usage!(
                    "{id}: it keeps the CPU busy for {:.0} % of the period, and --duet allows {:.0} %; compare them in \
                     turn, without --duet",
                    busy * 100.0,
                    MAX_BUSY * 100.0
                ));
            }
            None => {
                return Err(usage!(
                    "{id}: the platform does not report how busy it keeps the CPU; compare them in turn, without --duet"
                ));
            }
        }
    }
    Ok(())
}

/// Measures a test until a look decides, and adds its verdict to that of the gate.
fn judge_test(
    test: &PairTest,
    deadline: Option<ScreenDeadline>,
    settings: &RoundSettings,
    gate: &mut RunningGate,
) -> exit::Result<()> {
    let mut looks = Looks { rules: &test.rules, deadline, looks_taken: 0, decisive: None };
    let is_enough = |pairs: &[Pair]| looks.is_decided_by(pairs);
    let collection = PairCollection {
        stop: &gate.stop,
        quiet: gate.quiet,
        settings,
        keep_ticks: true,
        is_enough,
    };
    let pairs = collection.run(test);
    let failure = pairs.failure.as_ref();
    if let Some(PairFailure::Program(not_started @ RunFailure::NotStarted { .. })) = failure
        && pairs.values.is_empty()
    {
        return Err(not_started.clone().into());
    }

    // The look that decided gives the verdict, unless early, lost or stalled ticks could have
    // caused it.
    let decisive = looks.decisive.map(|look| pairs.arrivals.check(look));
    let (outcome, reason) = match decisive {
        Some(Look { outcome: Outcome::Inconclusive, median, tail }) => {
            (Outcome::Inconclusive, median.reason.or(tail.reason))
        }
        Some(look) => (look.outcome, None),
        None if failure.is_some() => (Outcome::Inconclusive, Some(Reason::NotMeasured)),
        None => (Outcome::Inconclusive, Some(Reason::Interrupted)),
    };
    let metrics = match decisive {
        Some(look) => verdict::metrics(&look, test.tail()),
        None if pairs.values.is_empty() => Vec::new(),
        // The test was cut short before a look decided, so the pairs so far decide nothing.
        None => {
            let look = decision::look(&pairs.values, &test.rules, false);
            let mut metrics = verdict::metrics(&look, test.tail());
            for metric in &mut metrics {
                metric.judged.mark_inconclusive(reason);
            }
            metrics
        }
    };
    let verdict = PairVerdict {
        a: test.names.base.clone(),
        b: test.names.candidate.clone(),
        mode: test.mode,
        duration_ns: pairs.duration_ns(),
        verdict: outcome,
        reason,
        plan: test.design.clone(),
        pairs: pairs.values.len() as u64,
        looks_taken: looks.looks_taken,
        metrics,
        sides: pairs.side_conditions(gate.cpus()),
        rounds: verdict::records(&pairs.values),
    };
    if decisive.is_none() {
        gate.mark_partial(failure.map(|failure| failure.to_string()));
    }

    // Warn of what makes the verdict less certain.
    gate.record_fitness(Fitness::from_tally(&pairs.tally, gate.verdict.host.cpus_online));

    let steal = verdict.sides.iter().filter_map(|side| side.steal_share).fold(0.0, f64::max);
    if verdict.mode == Mode::Duet && steal > MAX_DUET_STEAL {
        let percent = steal * 100.0;
        let message =
            format!("The hypervisor took {percent:.0} % of the CPUs while both sides ran at once.");
        let hint = "Run them in turn, without --duet: that decides more reliably here.";
        gate.warn("duet-under-steal", &message, hint);
    }
    gate.warn_of_early_sides(&test.names, &pairs.arrivals);
    gate.warn_of_hidden_ticks(&test.names, &pairs.arrivals);
    gate.verdict.warnings.extend(pairs.left_out.warnings("rounds"));
    warn_of_few_pairs(verdict.pairs, "rounds", gate);
    gate.report_left_over(pairs.left_over());
    gate.verdict.comparisons.push(verdict);
    Ok(())
}

/// The looks of a test.
struct Looks<'a> {
    rules: &'a Rules,
    /// Deadline of the only look of a screen.
    deadline: Option<ScreenDeadline>,
    looks_taken: u64,
    /// The look that decided.
    decisive: Option<Look>,
}

impl Looks<'_> {
    /// Looks at the pairs if a look is due, and returns whether it decides.
    fn is_decided_by(&mut self, pairs: &[Pair]) -> bool {
        let looks = &self.rules.looks;
        let is_planned = looks.contains(&pairs.len());
        let is_time_over = self.deadline.is_some_and(|deadline| deadline.is_reached(pairs.len()));
        if !is_planned && !is_time_over {
            return false;
        }
        let is_last = is_time_over || looks.last() == Some(&pairs.len());
        let look = match self.deadline {
            Some(_) => decision::screen(pairs, self.rules),
            None => decision::look(pairs, self.rules, is_last),
        };
        self.looks_taken += 1;
        self.decisive = Some(look).filter(|look| is_last || look.outcome != Outcome::Inconclusive);
        self.decisive.is_some()
    }
}
