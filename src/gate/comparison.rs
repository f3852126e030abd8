//! The comparison of two sides: is the candidate later than the base?

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cli::exit::{self, Error, usage};
use cli::time::{format_duration, format_time};
use cli::words::pluralize;
use engine::machine::{host, tuning};
use engine::measure::child::RunFailure;
use engine::measure::duet;
use engine::program::Program;
use engine::scenario::{RoundLength, Scenario, draw_seed};
use files::fitness::Fitness;
use files::gate::calibration::Calibration;
use files::gate::verdict::{self, Metric, Mode, PairVerdict, Verdict};
use jitterstat::gate::Sides;
use jitterstat::gate::decision::{self, Look, Outcome, Reason, Rules};
use jitterstat::gate::round::Pair;

use crate::gate::args::{GateArgs, JudgedArgs, RoundArgs, Tolerance};
use crate::gate::calibration::{self, GateCalibration};
use crate::gate::design::{
    DEFAULT_MAX_PAIRS, ENDLESS, PairSource, PairTest, SHORTER_ROUNDS_ADVICE, build_rules,
    build_scenario, periods_or_default, plan_looks,
};
use crate::gate::explain::{self, MetricView, percentile_lift};
use crate::gate::pair_failure::PairFailure;
use crate::gate::pairs::{CollectedPairs, PairCollection};
use crate::gate::question::{Gate, PlannedQuestion, Question};
use crate::gate::screen::{self, MAX_SCREEN_TIME, Screen, ScreenDeadline, warn_of_few_pairs};
use crate::gate::text::{Section, Title};

/// Default maximum number of pairs in a duet.
const DEFAULT_MAX_DUET_PAIRS: u64 = 200;
/// Maximum share of the period for which a side of a duet may keep the CPU busy. A busier side
/// would delay the other one.
const MAX_BUSY: f64 = 0.2;
/// Maximum steal as a share of all CPUs up to which a duet is recommended. Above it, both sides
/// share so many stalls that their difference is hard to see.
const MAX_DUET_STEAL: f64 = 0.1;

/// All tests that the arguments request. They share alpha and the time limit.
struct PairTests {
    tests: Vec<PairTest>,
    calibration: Option<Calibration>,
    /// Time limit of each test.
    max_test_time: Option<Duration>,
    /// Whether all looks are needed to detect a change.
    has_changes: bool,
    screen: Option<Screen>,
}

pub fn plan(args: &GateArgs) -> PlannedQuestion {
    let changes = changes_to_detect(args);
    let mut judged = args.judged.clone();
    judged.tolerance.extend(changes.iter().cloned());
    judged.rounds.seed.get_or_insert_with(draw_seed);
    let screen = Screen::start(args);
    let mut tests = subject_tests(args, &judged, screen)?;
    tests.extend(program_test(args, &judged, screen)?);
    check_conflicts(args, &tests)?;
    let calibration_file = args.calibration.as_deref().filter(|_| !args.has_whole_runs());
    let calibration = calibration_file.map(calibration::read).transpose()?;
    if tests.is_empty() {
        return Ok(None);
    }
    let budget = Budget::new(args, tests.len(), calibration.as_ref(), &changes, screen);
    let tests: exit::Result<Vec<PairTest>> =
        tests.into_iter().map(|test| budget.apply(test)).collect();
    let (tests, max_test_time) = (tests?, budget.max_test_time);
    let has_changes = !changes.is_empty();
    Ok(Some(Box::new(PairTests { tests, calibration, max_test_time, has_changes, screen })))
}

/// Returns the changes that the gate must detect. A change without a name is one of the median.
fn changes_to_detect(args: &GateArgs) -> Vec<Tolerance> {
    let mut changes = args.detect.clone();
    for change in changes.iter_mut().filter(|change| change.name.is_empty()) {
        change.name = "p50".to_owned();
    }
    changes
}

/// Plans a test of each --a against its --b, at each period.
fn subject_tests(
    args: &GateArgs,
    judged: &JudgedArgs,
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
    for period in periods_or_default(judged) {
        let rounds = test_rounds(args, judged, period, screen)?;
        for (a, b) in args.a.iter().zip(&args.b) {
            let base = build_scenario(&rounds, a, period, ENDLESS)?;
            let candidate = build_scenario(&rounds, b, period, ENDLESS)?;
            let rules = build_rules(judged, candidate.round_length())?;
            let scenarios = Sides { base, candidate };
            tests.push(PairTest::from_subjects(scenarios, &rounds, rules));
        }
    }
    Ok(tests)
}

/// Returns the rounds of a test, which are shorter in a screen.
fn test_rounds(
    args: &GateArgs,
    judged: &JudgedArgs,
    period: Duration,
    screen: Option<Screen>,
) -> exit::Result<RoundArgs> {
    let mode = if args.duet { Mode::Duet } else { Mode::Interleaved };
    match screen {
        Some(screen) => screen.shorten_rounds(&judged.rounds, period, mode),
        None => Ok(judged.rounds.clone()),
    }
}

/// Plans the test of two programs by their lateness. With --metric, whole runs are judged instead.
fn program_test(
    args: &GateArgs,
    judged: &JudgedArgs,
    screen: Option<Screen>,
) -> exit::Result<Option<PairTest>> {
    let Some(programs) = gated_programs(args).filter(|_| !args.has_whole_runs()) else {
        return Ok(None);
    };
    let period = single_period(judged)?;
    let rounds = test_rounds(args, judged, period, screen)?;
    let length = program_round_length(&rounds, period)?;
    let rules = build_rules(judged, length)?;
    let names = program_names(args, &programs);
    let mut test = PairTest::from_programs(programs, length, &rounds, rules);
    test.names = names;
    test.max_round_time = args.max_round_time.unwrap_or(test.max_round_time);
    test.start_timeout = args.max_round_time.unwrap_or(test.start_timeout);
    Ok(Some(test))
}

fn check_conflicts(args: &GateArgs, tests: &[PairTest]) -> exit::Result<()> {
    let has_whole_runs = args.has_whole_runs();
    if tests.is_empty() && !args.detect.is_empty() && !has_whole_runs {
        return Err(Error::usage(
            "--detect plans the pairs of two sides; give --a and --b, or two commands",
        ));
    }
    if !tests.is_empty() && has_whole_runs && args.calibration.is_some() {
        return Err(Error::usage(
            "--calibration covers lateness or whole runs, not both; use --metric in a separate gate",
        ));
    }
    Ok(())
}

/// The alpha, time and pairs that the tests of a gate share.
struct Budget<'a> {
    mode: Mode,
    test_count: usize,
    max_pairs: u64,
    /// Time limit of each test.
    max_test_time: Option<Duration>,
    calibration: Option<&'a Calibration>,
    changes: &'a [Tolerance],
    screen: Option<Screen>,
}

impl<'a> Budget<'a> {
    fn new(
        args: &GateArgs,
        test_count: usize,
        calibration: Option<&'a Calibration>,
        changes: &'a [Tolerance],
        screen: Option<Screen>,
    ) -> Self {
        let divisor = u32::try_from(test_count.max(1)).unwrap_or(u32::MAX);
        let (mode, default_max_pairs) = match args.duet {
            false => (Mode::Interleaved, DEFAULT_MAX_PAIRS),
            true => (Mode::Duet, DEFAULT_MAX_DUET_PAIRS),
        };
        Self {
            mode,
            test_count,
            max_pairs: args.max_pairs.unwrap_or(default_max_pairs),
            max_test_time: args.max_time.map(|time| time / divisor),
            calibration,
            changes,
            screen,
        }
    }

    /// Gives a test its share of alpha and its looks.
    fn apply(&self, mut test: PairTest) -> exit::Result<PairTest> {
        test.mode = self.mode;
        test.rules = test.rules.shared_by(self.test_count);
        if let Some(screen) = &self.screen {
            screen.check_pair_time(test.pair_time())?;
            test.max_round_time = test.max_round_time.min(MAX_SCREEN_TIME);
            test.start_timeout = test.start_timeout.min(MAX_SCREEN_TIME);
            let looks = screen.looks(test.pair_time());
            return Ok(test.with_looks(looks));
        }
        let max_pairs = match self.calibration {
            Some(calibration) if !self.changes.is_empty() => {
                GateCalibration::from_rounds(calibration, &test, &host::capture())
                    .pairs_to_detect(self.changes, self.max_test_time)?
            }
            _ => self.max_pairs,
        };
        let (pair_time, max_time) = (test.pair_time(), self.max_test_time);
        let looks = plan_looks(self.mode, max_pairs, pair_time, max_time, SHORTER_ROUNDS_ADVICE)?;
        Ok(test.with_looks(looks))
    }
}

/// Returns the programs of both sides, if the arguments have them.
pub fn gated_programs(args: &GateArgs) -> Option<Sides<Program>> {
    let base = args.base_cmd.clone()?.with_meter(args.meter.clone());
    let candidate = args.candidate_cmd.clone()?.with_meter(args.meter.clone());
    Some(Sides { base, candidate })
}

/// Returns the names of two programs: those of the arguments, or the commands.
pub fn program_names(args: &GateArgs, programs: &Sides<Program>) -> Sides<String> {
    given_names(args, programs.as_ref().map(|program| program.text().to_owned()))
}

/// Returns the names of the arguments, or else the default ones.
pub fn given_names(args: &GateArgs, default_names: Sides<String>) -> Sides<String> {
    Sides {
        base: args.base_name.clone().unwrap_or(default_names.base),
        candidate: args.candidate_name.clone().unwrap_or(default_names.candidate),
    }
}

/// Returns the period of two programs.
///
/// # Errors
/// Returns an error if the arguments have several periods.
pub fn single_period(judged: &JudgedArgs) -> exit::Result<Duration> {
    match periods_or_default(judged)[..] {
        [period] => Ok(period),
        _ => Err(Error::usage("commands run at a single period; give --period once")),
    }
}

/// Returns the length of a program's rounds, by the same rule as for subjects.
pub fn program_round_length(rounds: &RoundArgs, period: Duration) -> exit::Result<RoundLength> {
    if rounds.runtime.is_some() {
        return Err(Error::usage("--runtime is for tokio subjects; a command chooses its runtime"));
    }
    RoundLength::new(period, rounds.round_ticks, rounds.warmup)
}

impl Question for PairTests {
    fn announce(&self) -> Vec<String> {
        let first: f64 = self.tests.iter().map(|test| test.seconds(test.design.looks[0])).sum();
        let last: f64 = self.tests.iter().map(|test| test.seconds(test.pairs)).sum();
        let looks = match self.screen {
            Some(_) => screen::announcement(),
            None => format!(
                "{} to the first look, at most {} to the last",
                format_duration(first),
                format_duration(last)
            ),
        };
        let mut notes = vec![looks];
        notes.extend(self.tests.iter().filter_map(PairTest::short_round_note));
        notes
    }

    fn prepare(&mut self, stop: &Arc<AtomicBool>) -> exit::Result<()> {
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
        let mut duets = self.tests.iter().filter(|test| test.mode == Mode::Duet);
        duets.try_for_each(|test| check_duet(test, stop))?;
        // The preparation has used a part of the time.
        if let Some(screen) = &self.screen {
            for test in &mut self.tests {
                test.set_looks(screen.looks(test.pair_time()));
            }
        }
        Ok(())
    }

    fn judge(self: Box<Self>, gate: &mut Gate) -> exit::Result<()> {
        if let Some(calibration) = &self.calibration {
            for test in &self.tests {
                let found = GateCalibration::from_rounds(calibration, test, &gate.verdict.host);
                gate.warn_early(found.warnings(&test.rules.looks));
            }
        }
        // A screen has no time to start the programs once more.
        for test in self.tests.iter().filter(|_| self.screen.is_none()) {
            gate.warn_early(test.settings_warnings(&gate.stop));
        }
        let mut screen = self.screen;
        for test in &self.tests {
            if gate.stop_reason().is_some() {
                gate.mark_partial(None);
                return Ok(());
            }
            let deadline = screen.as_mut().map(Screen::start_test);
            judge_test(test, deadline, gate)?;
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
    scenarios.iter().try_for_each(|scenario| check_busy_share(scenario, stop))
}

fn check_busy_share(scenario: &Scenario, stop: &Arc<AtomicBool>) -> exit::Result<()> {
    let id = &scenario.id;
    match duet::busy_share(scenario, stop).map_err(|e| usage!("{id}: {e}"))? {
        Some(busy) if busy <= MAX_BUSY => Ok(()),
        Some(busy) => Err(usage!(
            "{id}: it keeps the CPU busy for {:.0} % of the period, and --duet allows {:.0} %; compare them in \
             turn, without --duet",
            busy * 100.0,
            MAX_BUSY * 100.0
        )),
        None => Err(usage!(
            "{id}: the platform does not report how busy it keeps the CPU; compare them in turn, without --duet"
        )),
    }
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

/// Measures a test, look by look, until one decides.
fn judge_test(
    test: &PairTest,
    deadline: Option<ScreenDeadline>,
    gate: &mut Gate,
) -> exit::Result<()> {
    let mut looks = Looks { rules: &test.rules, deadline, looks_taken: 0, decisive: None };
    let is_enough = |pairs: &[Pair]| looks.is_decided_by(pairs);
    let collection =
        PairCollection { stop: &gate.stop, quiet: gate.quiet, keep_ticks: true, is_enough };
    let pairs = collection.run(test);
    let failure = pairs.failure.as_ref();
    if let Some(PairFailure::Program(not_started @ RunFailure::NotStarted { .. })) = failure
        && pairs.values.is_empty()
    {
        return Err(not_started.clone().into());
    }
    let verdict = pair_verdict(test, &pairs, &looks, gate.cpus());
    if matches!(verdict.reason, Some(Reason::Interrupted | Reason::NotMeasured)) {
        gate.mark_partial(failure.map(|failure| failure.to_string()));
    }
    gate.record_fitness(Fitness::from_tally(&pairs.tally, gate.verdict.host.cpus_online));
    warn_of_duet_steal(&verdict, gate);
    warn_of_empty_pairs(&pairs, gate);
    warn_of_few_pairs(verdict.pairs, "rounds", gate);
    gate.report_left_over(pairs.left_over());
    gate.verdict.comparisons.push(verdict);
    Ok(())
}

fn warn_of_duet_steal(verdict: &PairVerdict, gate: &mut Gate) {
    let steal = verdict.sides.iter().filter_map(|side| side.steal_share).fold(0.0, f64::max);
    if verdict.mode == Mode::Duet && steal > MAX_DUET_STEAL {
        let message = format!(
            "The hypervisor took {:.0} % of the CPUs while both sides ran at once.",
            steal * 100.0
        );
        let hint = "Run them in turn, without --duet: that decides more reliably here.";
        gate.warn("duet-under-steal", &message, hint);
    }
}

fn warn_of_empty_pairs(pairs: &CollectedPairs, gate: &mut Gate) {
    if pairs.empty_pairs > 0 {
        let count = pluralize(pairs.empty_pairs, "pair");
        let message = format!("{count} of rounds left out: a side delivered no tick.");
        let hint = "The machine stalled for a whole round: use a quieter one, or longer rounds.";
        gate.warn("no-tick", &message, hint);
    }
}

/// Builds the verdict of a test.
fn pair_verdict(
    test: &PairTest,
    pairs: &CollectedPairs,
    looks: &Looks<'_>,
    cpus: u64,
) -> PairVerdict {
    let decisive = looks.decisive;
    let reason = match decisive {
        Some(look) if look.outcome == Outcome::Inconclusive => {
            look.median.reason.or(look.tail.reason)
        }
        Some(_) => None,
        None if pairs.failure.is_some() => Some(Reason::NotMeasured),
        None => Some(Reason::Interrupted),
    };
    let names = test.names.clone();
    PairVerdict {
        a: names.base,
        b: names.candidate,
        mode: test.mode,
        duration_ns: pairs.duration_ns(),
        verdict: decisive.map_or(Outcome::Inconclusive, |look| look.outcome),
        reason,
        plan: test.design.clone(),
        pairs: pairs.values.len() as u64,
        looks_taken: looks.looks_taken,
        metrics: match decisive {
            Some(look) => verdict::metrics(&look, test.tail()),
            None => undecided_metrics(test, &pairs.values, reason),
        },
        sides: pairs.side_conditions(cpus),
        rounds: verdict::records(&pairs.values),
    }
}

/// Returns the metrics of the pairs so far, all inconclusive, for a test that was interrupted or
/// failed before a look decided.
fn undecided_metrics(test: &PairTest, pairs: &[Pair], reason: Option<Reason>) -> Vec<Metric> {
    if pairs.is_empty() {
        return Vec::new();
    }
    let look = decision::look(pairs, &test.rules, false);
    let mut metrics = verdict::metrics(&look, test.tail());
    for metric in &mut metrics {
        metric.judged.mark_inconclusive(reason);
    }
    metrics
}

pub fn sections(verdict: &Verdict) -> Vec<Section> {
    verdict.comparisons.iter().map(section).collect()
}

fn section(verdict: &PairVerdict) -> Section {
    let PairVerdict { a, b, pairs, mode, .. } = verdict;
    let seconds = verdict.duration_ns as f64 / 1e9;
    let looks = pluralize(verdict.looks_taken, "look");
    let row = |metric: &Metric| {
        let medians = vec![format_time(metric.a_ns), format_time(metric.b_ns)];
        let view =
            MetricView { name: &metric.name, judged: &metric.judged, lift: metric.lift.as_ref() };
        view.row(b, &metric.name, medians)
    };
    let lift = |metric: &Metric| percentile_lift(&metric.name, metric.lift.as_ref());
    Section {
        title: Title::from_sides(a, b),
        key_heading: "percentile",
        headings: vec!["median A", "median B", "change", "interval", "tolerated"],
        rows: verdict.metrics.iter().map(row).collect(),
        measured: format!("{pairs} pairs of rounds {mode}, {looks}, {seconds:.1}s"),
        notes: explain::notes(verdict),
        sides: verdict.sides.clone(),
        lifts: verdict.metrics.iter().filter_map(lift).collect(),
        advice: explain::advice(verdict),
    }
}
