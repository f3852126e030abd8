//! Plans and runs a search: measures all tickers in the same rounds, one period each at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cli::exit::{self, usage};
use cli::terminal::progress::Progress;
use cli::units::{self, to_ns};
use cli::words::pluralize;
use engine::load::Load;
use engine::machine::{host, tuning};
use engine::measure::excluded_rounds::{SETTINGS_CHANGED, exclusion_warning};
use engine::measure::load::Loads;
use engine::measure::order::Observer;
use engine::measure::program::StartupCosts;
use engine::measure::record::{self, Conditions};
use engine::measure::round::RoundResult;
use engine::measure::round_settings::RoundSettings;
use engine::scenario::{
    Length, Plan, Runtime, Scenario, ScenarioArgs, Subjects, check_scenario_count, draw_seed,
};
use engine::subject::{RuntimeKind, SubjectInfo, WaitKind};
use files::find::{
    self, CONFIDENCE, Find, Goal, Look, LookRules, MAX_LOOKS, PeriodRange, SCHEMA, Step,
    StopReason, Ticker,
};
use files::fitness::{Fitness, Tally};
use files::gate::limit::RoundTicks;
use files::gate::limit::rate::burst_ticks;
use files::report::{self, ExcludedRound, Host, Report, Status};
use files::subjects::{DefaultSelection, SPINNING_CONTROL, defaults_of};

use crate::find::args::FindArgs;
use crate::find::goals::{promised_goals, validate_goals};
use crate::find::text;
use crate::needless_runtime;

/// The rounds of a measurement, twice as many as a confidence interval needs.
const ROUNDS: u64 = 20;
/// The maximum number of recorded ticks of a round.
const MAX_ROUND_TICKS: u64 = 250;
/// The minimum number of recorded ticks of the rounds that a rate of misses needs.
const MIN_RATE_ROUND_TICKS: u64 = 25;
/// The share of the time that is planned. The rest is for set-up, and for delays on a busy machine.
const PLANNED_SHARE: f64 = 0.8;
/// The slowest a machine is assumed to be, relative to the plan.
const MAX_SLOWNESS: f64 = 4.0;
/// The ticks of a measurement at one period, if the time suffices.
const PROMISE_TICKS: u64 = 20_000;

/// A subject, with the runtime that it runs on.
pub type SearchedTicker = (&'static SubjectInfo, Option<Runtime>);

/// A planned search.
pub struct Search {
    goals: Vec<Goal>,
    range: PeriodRange,
    pub tickers: Vec<SearchedTicker>,
    /// A ticker in the same rounds, without a load, by which the machine is judged.
    control: Option<SearchedTicker>,
    load: Load,
    /// The maximum number of measurements of a ticker.
    max_looks: usize,
    rules: LookRules,
    /// The number of ticks that the goals need.
    min_ticks: u64,
    max_time: Duration,
    seed: u64,
}

/// The next measurement of a ticker.
#[derive(Clone, Copy)]
struct Probe {
    /// Index of the ticker.
    ticker: usize,
    step: Step,
}

/// The first measurement of a period.
fn first_step(period_ns: u64) -> Step {
    Step { period_ns, times: 1 }
}

impl Search {
    pub fn plan(args: &FindArgs) -> exit::Result<Self> {
        let goals = match args.period {
            Some(_) => promised_goals(args.max_stall.is_some()),
            None => validate_goals(&args.goal)?,
        };
        if args.max_stall.is_some() && goals.iter().all(|goal| !goal.rate) {
            return Err(usage!(
                "--max-stall is for a goal for the rate of misses, such as missed<1e-3"
            ));
        }
        let (from, to) = match args.period {
            Some(period) => (period, period),
            None => (args.from, args.to),
        };
        if from >= to && args.period.is_none() {
            return Err(usage!(
                "--from {} must be shorter than --to {}; use --period for a single period",
                units::format_exact_duration(from),
                units::format_exact_duration(to)
            ));
        }
        let tickers = select_tickers(args)?;
        let max_looks = if args.period.is_some() { 1 } else { MAX_LOOKS };
        let confidence = find::look_confidence(max_looks, goals.len());
        let search = Self {
            min_ticks: find::least_ticks(&goals, confidence),
            goals,
            range: PeriodRange { shortest_ns: to_ns(from), longest_ns: to_ns(to) },
            control: select_control(&tickers),
            tickers,
            load: args.load.clone(),
            max_looks,
            rules: LookRules { confidence, max_stall_ns: args.max_stall.map(to_ns) },
            max_time: args.max_time,
            seed: args.seed.unwrap_or_else(draw_seed),
        };
        search.check_time_budget()?;
        Ok(search)
    }

    /// Checks that the first measurements fit into the time.
    fn check_time_budget(&self) -> exit::Result<()> {
        check_scenario_count(self.tickers.len())?;
        let is_range = self.max_looks > 1;
        let periods =
            if is_range { find::coarse_periods(self.range) } else { vec![self.range.shortest_ns] };
        let mut time = Duration::ZERO;
        for period in &periods {
            for ticker in self.tickers.iter().chain(&self.control) {
                let scenario = self.scenario(*ticker, first_step(*period))?;
                time = time.saturating_add(scenario.expected_duration());
            }
        }
        if time <= self.max_time.mul_f64(PLANNED_SHARE) {
            return Ok(());
        }
        let tickers = pluralize(self.tickers.len(), "ticker");
        let measurements = if is_range {
            format!("the first {} of {tickers}", pluralize(periods.len(), "period"))
        } else {
            tickers
        };
        let seconds = time.as_secs_f64();
        Err(usage!(
            "measuring {measurements} takes {seconds:.0}s {}; use --max-time {:.0}s or more, fewer \
             --subject, or a shorter {}",
            self.requirement(),
            (seconds * 2.0).ceil(),
            if is_range { "--to" } else { "--period" },
            seconds = seconds.ceil(),
        ))
    }

    /// Describes the length that the most demanding goal requires.
    fn requirement(&self) -> String {
        let rounds = self.rate_rounds(self.range.longest_ns, MAX_ROUND_TICKS);
        if rounds > ROUNDS {
            let any = if self.rules.max_stall_ns.is_none() { " without --max-stall" } else { "" };
            return format!("in {rounds} rounds each, as the rate of misses requires{any}");
        }
        let ticks = |goal: &&Goal| goal.least_ticks(self.rules.confidence);
        let name = self.goals.iter().max_by_key(ticks).map_or("", |goal| &goal.name);
        format!("at {} ticks each, as {name} requires", self.min_ticks)
    }

    /// Returns the number of rounds that the rates of the goals need; 0 without one.
    fn rate_rounds(&self, period_ns: u64, round_ticks: u64) -> u64 {
        let LookRules { confidence, max_stall_ns } = self.rules;
        let max_burst = max_stall_ns.map(|stall_ns| burst_ticks(stall_ns, period_ns, 1));
        let rounds = |goal: &Goal| goal.least_rounds(round_ticks, max_burst, confidence);
        self.goals.iter().map(rounds).max().unwrap_or(0)
    }

    pub fn announcement(&self) -> String {
        let from = units::format_exact_ns(self.range.shortest_ns);
        let to = units::format_exact_ns(self.range.longest_ns);
        let tickers = pluralize(self.tickers.len(), "ticker");
        let looks = if from == to {
            format!("at {to}")
        } else {
            format!("up to {} each, {from} to {to}", pluralize(self.max_looks, "look"))
        };
        format!("{tickers}, {looks}: at most {}", units::format_exact_duration(self.max_time))
    }

    pub fn empty_result(&self, args: &FindArgs, host: Host, started_utc: String) -> Find {
        Find {
            schema: SCHEMA.to_owned(),
            tool: host::tool(),
            started_utc,
            duration_ns: 0,
            partial: false,
            host,
            goals: self.goals.clone(),
            range_ns: [self.range.shortest_ns, self.range.longest_ns],
            confidence: CONFIDENCE,
            look_confidence: self.rules.confidence,
            max_time_ns: to_ns(self.max_time),
            max_stall_ns: self.rules.max_stall_ns,
            seed: self.seed,
            cpu: args.cpu,
            sched: args.sched.map(|class| class.to_string()),
            fitness: None,
            control: self.control.map(new_ticker),
            load: None,
            warnings: Vec::new(),
            tickers: self.tickers.iter().map(|ticker| new_ticker(*ticker)).collect(),
        }
    }

    pub fn first_scenario(&self, ticker: SearchedTicker) -> exit::Result<Scenario> {
        self.scenario(ticker, first_step(self.range.shortest_ns))
    }

    /// Plans a measurement of a ticker.
    ///
    /// The measurement has as many ticks as fit into the ticker's share of the time, and at least
    /// as many as the goals need. A repeated period has more rounds of them.
    fn scenario(
        &self,
        ticker: SearchedTicker,
        Step { period_ns, times }: Step,
    ) -> exit::Result<Scenario> {
        let period = Duration::from_nanos(period_ns);
        let tickers = self.tickers.len() + self.control.iter().len();
        let share = PLANNED_SHARE / (self.max_looks * tickers) as f64;
        let time = self.max_time.mul_f64(share);
        let single_tick = self.scenario_with(ticker, period, 1, 1)?;
        let round_overhead = single_tick.expected_duration().saturating_sub(period);
        if self.max_looks == 1 {
            let full_round = round_overhead + period * MAX_ROUND_TICKS as u32;
            let fitting = (time.as_nanos() / full_round.as_nanos().max(1)) as u64;
            let rounds = fitting.min(PROMISE_TICKS / MAX_ROUND_TICKS);
            if rounds >= ROUNDS {
                return self.scenario_with(ticker, period, rounds, MAX_ROUND_TICKS);
            }
        }
        let fitting_ticks = |rounds: u64| {
            let round_time = time.div_f64(rounds as f64).saturating_sub(round_overhead);
            let fitting = to_ns(round_time) / period_ns.max(1);
            fitting.min(MAX_ROUND_TICKS).max(self.min_ticks.div_ceil(rounds)).max(1)
        };
        let (mut rounds, mut round_ticks) = (ROUNDS, fitting_ticks(ROUNDS));
        let needed_rounds = self.rate_rounds(period_ns, round_ticks);
        if needed_rounds > ROUNDS {
            let min_ticks = MIN_RATE_ROUND_TICKS.min(round_ticks);
            round_ticks = fitting_ticks(needed_rounds).clamp(min_ticks, round_ticks);
            // Shorter rounds with short bursts must be more.
            rounds = self.rate_rounds(period_ns, round_ticks).max(needed_rounds);
        }
        self.scenario_with(ticker, period, rounds * times, round_ticks)
    }

    fn scenario_with(
        &self,
        ticker: SearchedTicker,
        period: Duration,
        rounds: u64,
        round_ticks: u64,
    ) -> exit::Result<Scenario> {
        let load = if self.control == Some(ticker) { &Load::None } else { &self.load };
        let (subject, runtime) = ticker;
        let args = ScenarioArgs {
            subjects: vec![subject],
            periods: vec![period],
            runtimes: runtime.into_iter().collect(),
            loads: vec![load.clone()],
            length: Some(Length::Ticks(rounds * round_ticks)),
            round_ticks: Some(round_ticks),
            ..ScenarioArgs::default()
        };
        args.single_scenario()
    }

    /// Plans the measurements of several tickers in the same rounds, together with the control.
    fn plan_probes(&self, probes: &[Probe], seed: u64) -> exit::Result<Plan> {
        let mut scenarios = Vec::new();
        for probe in probes {
            scenarios.push(self.scenario(self.tickers[probe.ticker], probe.step)?);
        }
        let max_period_ns = probes.iter().map(|p| p.step.period_ns).max();
        let max_times = probes.iter().map(|p| p.step.times).max();
        if let (Some(control), Some(period_ns), Some(times)) =
            (self.control, max_period_ns, max_times)
        {
            scenarios.push(self.scenario(control, Step { period_ns, times })?);
        }
        Ok(Plan { seed, scenarios, tuning: tuning::Settings::default(), samples: true, why: None })
    }

    /// Plans the measurements within a time, if that is possible.
    ///
    /// If it is too short, a repeated period has fewer ticks than requested, but at least twice as
    /// many as before.
    fn plan_within(
        &self,
        time: Duration,
        probes: &[Probe],
        seed: u64,
    ) -> exit::Result<Option<Plan>> {
        for quarters in [4, 3, 2] {
            let mut scaled = probes.to_vec();
            for probe in &mut scaled {
                probe.step.times = (probe.step.times * quarters / 4).max(1);
            }
            let plan = self.plan_probes(&scaled, seed)?;
            if plan.expected_duration() <= time {
                return Ok(Some(plan));
            }
        }
        Ok(None)
    }

    /// Measures until the search of each ticker ends, or the time is up. `settings` are those with
    /// which all rounds have to run.
    pub fn measure(
        &self,
        found: &mut Find,
        loads: &mut Loads,
        settings: &RoundSettings,
        stop: &Arc<AtomicBool>,
        quiet: bool,
    ) -> exit::Result<()> {
        let start = now();
        let mut progress = SearchProgress::new(self.tickers.len());
        for number in 0.. {
            let probes = self.next_probes(found, &mut progress);
            if probes.is_empty() {
                break;
            }
            let (remaining, step_start) = (self.max_time.saturating_sub(start.elapsed()), now());
            let planned_time = remaining.div_f64(progress.slowness);
            let seed = self.seed.wrapping_add(number);
            let Some(plan) = self.plan_within(planned_time, &probes, seed)? else {
                progress.stop_for_time(&probes);
                continue;
            };
            plan.check_memory("a shorter --max-time or fewer subjects")?;
            let mut observer = SearchObserver {
                progress: Progress::new(plan.rounds(), quiet),
                deadline: step_start + remaining,
                settings,
            };
            let conditions = step_conditions(found);
            let report = record::measure(&plan, conditions, loads, stop, &mut observer, None);
            observer.progress.finish();
            progress.add_duration(step_start.elapsed(), plan.expected_duration());
            let was_interrupted = stop.load(Ordering::Relaxed);
            self.record_results(found, &mut progress, &probes, report, was_interrupted);
        }
        progress.conclude(found);
        found.partial = stop.load(Ordering::Relaxed);
        found.duration_ns = to_ns(start.elapsed());
        Ok(())
    }

    /// Chooses the next measurement of each ticker. Stops those whose search has ended.
    fn next_probes(&self, found: &Find, progress: &mut SearchProgress) -> Vec<Probe> {
        let mut probes = Vec::new();
        for (ticker, stopped) in progress.stopped.iter_mut().enumerate() {
            if stopped.is_some() {
                continue;
            }
            let looks = &found.tickers[ticker].looks;
            let next = if self.max_looks == 1 {
                Some(first_step(self.range.shortest_ns)).filter(|_| looks.is_empty())
            } else {
                find::next_step(self.range, looks)
            };
            match next {
                Some(step) => probes.push(Probe { ticker, step }),
                None if looks.len() == MAX_LOOKS => *stopped = Some(StopReason::Looks),
                None => *stopped = Some(StopReason::Found),
            }
        }
        probes
    }

    /// Records the results of a plan, and the warnings that are not recorded yet.
    fn record_results(
        &self,
        found: &mut Find,
        progress: &mut SearchProgress,
        probes: &[Probe],
        report: Report,
        was_interrupted: bool,
    ) {
        progress.tally.add_report(&report);
        for (probe, subject) in probes.iter().zip(&report.subjects) {
            let ticker = &mut found.tickers[probe.ticker];
            progress.stopped[probe.ticker] = self.record_result(ticker, subject, was_interrupted);
        }
        // The control is the last one.
        if let (Some(control), Some(subject)) =
            (&mut found.control, report.subjects.get(probes.len()))
        {
            self.record_result(control, subject, was_interrupted);
            // One look shows how late the machine was.
            control.failure.take_if(|_| !control.looks.is_empty());
        }
        for (probe, subject) in probes.iter().zip(&report.subjects) {
            progress.excluded[probe.ticker].extend_from_slice(&subject.excluded);
        }
        if let Some(subject) = report.subjects.get(probes.len()) {
            progress.excluded_of_control.extend_from_slice(&subject.excluded);
        }
        for warning in report.warnings {
            // The warning about excluded rounds is one for all looks of a ticker.
            if warning.code != SETTINGS_CHANGED && !found.warnings.contains(&warning) {
                found.warnings.push(warning);
            }
        }
    }

    /// Records the result of a measurement. Returns the reason if the ticker's search ends with it.
    fn record_result(
        &self,
        ticker: &mut Ticker,
        subject: &report::Subject,
        was_interrupted: bool,
    ) -> Option<StopReason> {
        let failure = match &subject.status {
            Status::Failed { reason } => reason.clone(),
            // An incomplete measurement is not judged: its length was not chosen in advance.
            Status::Partial if was_interrupted => return Some(StopReason::Interrupted),
            Status::Partial => return Some(StopReason::Time),
            Status::Measured => match RoundTicks::from_subject(subject) {
                Ok(rounds) => {
                    let look = Look::new(subject.period_ns, &rounds, &self.goals, self.rules);
                    ticker.looks.push(look);
                    return None;
                }
                Err(why) => why.to_string(),
            },
        };
        ticker.failure = Some(failure);
        Some(StopReason::Failed)
    }
}

/// The state of a running search.
struct SearchProgress {
    /// Why each ticker's search has ended, if it has.
    stopped: Vec<Option<StopReason>>,
    /// The duration of measurements relative to the plan, at least 1.
    slowness: f64,
    tally: Tally,
    /// Rounds of each ticker during which a setting changed.
    excluded: Vec<Vec<ExcludedRound>>,
    excluded_of_control: Vec<ExcludedRound>,
}

impl SearchProgress {
    fn new(tickers: usize) -> Self {
        Self {
            stopped: vec![None; tickers],
            slowness: 1.0,
            tally: Tally::default(),
            excluded: vec![Vec::new(); tickers],
            excluded_of_control: Vec::new(),
        }
    }

    /// Ends the search of tickers for which there is not enough time.
    ///
    /// If there are repeated periods, only those are dropped: they need the most time and show the
    /// least.
    fn stop_for_time(&mut self, probes: &[Probe]) {
        let has_repeated = probes.iter().any(|probe| probe.step.times > 1);
        for probe in probes.iter().filter(|probe| !has_repeated || probe.step.times > 1) {
            self.stopped[probe.ticker] = Some(StopReason::Time);
        }
    }

    fn add_duration(&mut self, actual: Duration, planned: Duration) {
        let slowness = actual.as_secs_f64() / planned.as_secs_f64().max(1e-3);
        self.slowness = self.slowness.max(slowness).min(MAX_SLOWNESS);
    }

    /// Writes the brackets of all tickers, the fitness of the machine and the warnings about
    /// excluded rounds into the result.
    fn conclude(self, found: &mut Find) {
        for (name, excluded) in text::names(found).iter().zip(&self.excluded) {
            found.warnings.extend(exclusion_warning(name, excluded));
        }
        if let Some(control) = &found.control {
            let warning = exclusion_warning(&control.subject, &self.excluded_of_control);
            found.warnings.extend(warning);
        }
        for (ticker, stopped) in found.tickers.iter_mut().zip(self.stopped) {
            let bracket = find::bracket(&ticker.looks);
            ticker.broken_ns = bracket.broken_ns;
            ticker.kept_ns = bracket.kept_ns;
            ticker.broken_above_ns = bracket.broken_above_ns;
            ticker.stopped = stopped.unwrap_or(StopReason::Found);
        }
        found.fitness = Fitness::from_tally(&self.tally, found.host.cpus_online);
    }
}

fn step_conditions(found: &Find) -> Conditions {
    Conditions {
        host: found.host.clone(),
        changes: Vec::new(),
        started_utc: found.started_utc.clone(),
        starts: StartupCosts::default(),
    }
}

fn select_tickers(args: &FindArgs) -> exit::Result<Vec<SearchedTicker>> {
    let mut subjects = Subjects::union(args.subject.iter().cloned());
    if subjects.is_empty() {
        subjects = defaults_of(DefaultSelection::Run).collect();
        // A subject that spins uses a whole core at any period.
        subjects.retain(|subject| subject.wait_kind != WaitKind::Spin);
    }
    let (runtimes, loads) = (args.runtime.clone(), vec![args.load.clone()]);
    let scenario_args = ScenarioArgs { subjects, runtimes, loads, ..ScenarioArgs::default() };
    let mut scenarios = scenario_args.scenarios()?;
    // Tasks can only run alongside tickers that have a runtime.
    scenarios.retain(|scenario| scenario.load == args.load);
    let has_runtime = scenarios.iter().any(|scenario| scenario.runtime.is_some());
    needless_runtime::check(&args.runtime, has_runtime)?;
    Ok(scenarios.iter().filter_map(|s| Some((s.subject.as_builtin()?, s.runtime))).collect())
}

/// Selects the spinning control, unless it is searched itself or no ticker is real.
fn select_control(tickers: &[SearchedTicker]) -> Option<SearchedTicker> {
    let spin = (SPINNING_CONTROL, None);
    let is_real = |ticker: &SearchedTicker| ticker.0.runtime_kind != RuntimeKind::Script;
    (!tickers.contains(&spin) && tickers.iter().any(is_real)).then_some(spin)
}

fn new_ticker((subject, runtime): SearchedTicker) -> Ticker {
    Ticker {
        subject: subject.name.to_owned(),
        runtime: runtime.map(|runtime| runtime.to_string()),
        broken_ns: None,
        kept_ns: None,
        broken_above_ns: Vec::new(),
        stopped: StopReason::Found,
        failure: None,
        looks: Vec::new(),
    }
}

/// Shows the progress, and ends a measurement at the deadline.
struct SearchObserver<'a> {
    progress: Progress,
    deadline: Instant,
    settings: &'a RoundSettings,
}

impl Observer for SearchObserver<'_> {
    fn settings(&self) -> Option<&RoundSettings> {
        Some(self.settings)
    }

    fn before_round(&mut self, scenario: &Scenario, index: u64) {
        self.progress.show(&scenario.id, index);
    }

    fn after_round(&mut self, _: &Scenario, _: &RoundResult) {
        self.progress.step();
    }

    fn should_stop(&self) -> bool {
        now() >= self.deadline
    }
}

#[allow(clippy::disallowed_methods, reason = "the time limit of a search")]
fn now() -> Instant {
    Instant::now()
}
