//! Runs the rounds of a plan in random order and notifies an observer.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jitterstat::stats::random::SplitMix64;

use crate::measure::child::{ProgramSession, RunFailure};
use crate::measure::concurrent_rounds;
use crate::measure::late_watch::LateWatch;
use crate::measure::load::Loads;
use crate::measure::program::{self, StartupCosts};
use crate::measure::round::{RoundRequest, RoundResult};
use crate::measure::round_error::RoundError;
use crate::measure::round_settings::RoundSettings;
use crate::measure::stop_delay::StopDelay;
use crate::measure::why::Profiler;
use crate::scenario::{self, Plan, Scenario};

/// Minimum range of the random phase, which is otherwise a period. tokio's wheel turns once per
/// millisecond.
const MIN_PHASE_SPAN: Duration = Duration::from_millis(1);

/// Observer of the rounds of a plan. Its methods are called between rounds.
pub trait Observer {
    /// Called before a round.
    fn before_round(&mut self, scenario: &Scenario, index: u64);
    /// Called after a round, even if it could not be measured.
    fn after_round(&mut self, scenario: &Scenario, result: &RoundResult);
    /// Returns whether to stop. Called before each round.
    fn should_stop(&self) -> bool {
        false
    }
    /// Returns whether [`Self::before_round`] changes settings, so that each scenario has its own.
    fn changes_settings(&self) -> bool {
        false
    }
    /// Returns the settings with which the rounds have to run, if they were read already. Called once.
    fn settings(&self) -> Option<&RoundSettings> {
        None
    }
    /// Returns the detection of late ticks for all rounds. Called once.
    fn late_watch(&self) -> Option<Arc<LateWatch>> {
        None
    }
}

/// A round of a scenario, or of several that run at once, within the order of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub index: u64,
    /// Position of the scenario within the round.
    pub slot: u64,
    /// Index of the scenario in the plan: the first of those that run at once.
    pub scenario: usize,
    pub phase: Duration,
    /// Whether the round is profiled.
    pub profiled: bool,
}

/// Returns all turns of a plan, in order. They depend on the seed only, not on the machine.
pub fn turns(seed: u64, scenarios: &[Scenario]) -> impl Iterator<Item = Turn> {
    let rounds = scenarios.iter().map(Scenario::rounds).max().unwrap_or(0);
    let random = SplitMix64::new(seed);
    let groups = scenario::concurrent_groups(scenarios);
    let leaders = groups.iter().map(|group| group[0]).collect();
    Turns { random, scenarios, leaders, rounds: 0..rounds, drawn: Vec::new().into_iter() }
}

/// Iterator over the turns of a plan, which are drawn one round at a time.
struct Turns<'a> {
    random: SplitMix64,
    scenarios: &'a [Scenario],
    /// Indices of the scenarios that have turns.
    leaders: Vec<usize>,
    /// Rounds that are not yet drawn.
    rounds: Range<u64>,
    /// Remaining turns of the latest round.
    drawn: std::vec::IntoIter<Turn>,
}

impl Iterator for Turns<'_> {
    type Item = Turn;

    fn next(&mut self) -> Option<Turn> {
        loop {
            if let Some(turn) = self.drawn.next() {
                return Some(turn);
            }
            let index = self.rounds.next()?;
            let mut order = self.leaders.clone();
            order.retain(|&scenario| index < self.scenarios[scenario].rounds());
            self.random.shuffle(&mut order);
            // All subjects of a round share one draw, so that they start in the same phase of
            // tokio's wheel.
            let draw = self.random.next_u64();
            let mut turns = Vec::with_capacity(order.len());
            for (slot, scenario) in (0..).zip(order) {
                let phase = phase_from_draw(self.scenarios[scenario].period, draw);
                turns.push(Turn { index, slot, scenario, phase, profiled: false });
            }
            self.drawn = turns.into_iter();
        }
    }
}

/// Salt of the seed for the order of profiled rounds, which does not change the other draws.
const PROFILE_SEED_SALT: u64 = 0x7768_793f;

/// Adds a profiled turn to every turn, before or after it at random.
fn interleave_profiled_turns(
    seed: u64,
    turns: impl Iterator<Item = Turn>,
) -> impl Iterator<Item = Turn> {
    let mut random = SplitMix64::new(seed ^ PROFILE_SEED_SALT);
    turns.flat_map(move |turn| {
        let profiled_first = random.coin();
        [profiled_first, !profiled_first].map(|profiled| Turn { profiled, ..turn })
    })
}

/// Maps a draw of 64 bits to a phase between zero and the period, or `MIN_PHASE_SPAN` if that is
/// longer.
pub fn phase_from_draw(period: Duration, draw: u64) -> Duration {
    let span_ns = period.max(MIN_PHASE_SPAN).as_nanos() as u64;
    Duration::from_nanos(((u128::from(draw) * u128::from(span_ns)) >> 64) as u64)
}

/// Runs a plan: in every round, each scenario once, one after the other.
///
/// Scenarios that differ only in their CPU run at once. The observer is notified of each round.
/// Then `keep` receives the result and the index of its scenario in the plan.
///
/// `starts` contains the programs that get their rounds over standard input. If such a program fails
/// after its last round, this counts as another round of it.
pub fn run(
    plan: &Plan,
    starts: &StartupCosts,
    loads: &mut Loads,
    stop: &Arc<AtomicBool>,
    observer: &mut impl Observer,
    mut keep: impl FnMut(usize, RoundResult),
) -> FinishedPlan {
    let context = RoundContext {
        plan,
        stop,
        profiler: plan.why.is_some().then(Profiler::open),
        late_watch: observer.late_watch(),
    };
    let sessions = BTreeMap::new();
    let states = vec![ScenarioState::default(); plan.scenarios.len()];
    let groups = scenario::concurrent_groups(&plan.scenarios);
    let has_own_settings = observer.changes_settings();
    let mut settings = vec![None; plan.scenarios.len()];
    if !has_own_settings {
        let read = || RoundSettings::read_with(&plan.tuning);
        let common = observer.settings().cloned().unwrap_or_else(read);
        for (scenario, settings) in plan.scenarios.iter().zip(&mut settings) {
            let bound = scenario.cpu.map(|cpu| common.bound_to(cpu));
            *settings = Some(bound.unwrap_or_else(|| common.clone()));
        }
    }
    let left_over = BTreeMap::new();
    let mut runner =
        PlanRunner { context, groups, starts, sessions, left_over, loads, states, settings };
    let plain_turns = turns(plan.seed, &plan.scenarios);
    let plan_turns: Box<dyn Iterator<Item = Turn>> = match plan.why {
        Some(_) => Box::new(interleave_profiled_turns(plan.seed, plain_turns)),
        None => Box::new(plain_turns),
    };
    let stop_delay = StopDelay::begin();
    for turn in plan_turns {
        stop_delay.stop_if_requested();
        if stop.load(Ordering::Relaxed) || observer.should_stop() {
            break;
        }
        let members = runner.members(&turn);
        for &member in &members {
            observer.before_round(&plan.scenarios[member], turn.index);
        }
        for (&member, outcome) in members.iter().zip(runner.run_turn(&turn, &members)) {
            match outcome {
                RoundOutcome::Stop => {
                    let PlanRunner { settings, .. } = runner;
                    return FinishedPlan { left_over: BTreeMap::new(), settings };
                }
                RoundOutcome::Keep(result) => {
                    observer.after_round(&plan.scenarios[member], &result);
                    keep(member, result);
                }
            }
        }
    }
    let scenarios: Vec<usize> = runner.sessions.keys().copied().collect();
    for scenario in scenarios {
        // An interrupted program is not expected to exit with 0.
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match runner.finish_session(scenario) {
            Ok(()) | Err(RunFailure::Interrupted) => {}
            Err(failure) => {
                let result = Err(RoundError::from(failure));
                observer.after_round(&plan.scenarios[scenario], &result);
                keep(scenario, result);
            }
        }
    }
    FinishedPlan { left_over: runner.left_over, settings: runner.settings }
}

/// Facts about the rounds of a plan, by index of the scenario.
pub struct FinishedPlan {
    /// Numbers of processes that programs with rounds over standard input left running.
    pub left_over: BTreeMap<usize, u64>,
    /// Settings with which the rounds were verified; `None` without a round.
    pub settings: Vec<Option<RoundSettings>>,
}

/// State that all rounds of a plan share.
struct RoundContext<'a> {
    plan: &'a Plan,
    stop: &'a Arc<AtomicBool>,
    profiler: Option<Profiler>,
    late_watch: Option<Arc<LateWatch>>,
}

impl RoundContext<'_> {
    /// Returns the round of a scenario in a turn.
    fn request<'b>(
        &'b self,
        turn: &Turn,
        scenario: usize,
        settings: Option<&'b RoundSettings>,
    ) -> RoundRequest<'b> {
        let scenario = &self.plan.scenarios[scenario];
        RoundRequest {
            scenario,
            index: turn.index,
            slot: turn.slot,
            ticks: scenario.ticks_of_round(turn.index),
            phase: turn.phase,
            start: None,
            run_on: 0,
            stop: self.stop,
            profiler: self.profiler.as_ref().filter(|_| turn.profiled),
            late_watch: self.late_watch.as_ref(),
            settings,
        }
    }
}

/// State of a run.
struct PlanRunner<'a> {
    context: RoundContext<'a>,
    /// Indices of the scenarios that run at once.
    groups: Vec<Vec<usize>>,
    starts: &'a StartupCosts,
    /// Running programs that get their rounds over standard input, by index of the scenario.
    sessions: BTreeMap<usize, ProgramSession>,
    /// Numbers of the processes that programs of `sessions` left running when they ended.
    left_over: BTreeMap<usize, u64>,
    loads: &'a mut Loads,
    /// States by index of the scenario.
    states: Vec<ScenarioState>,
    /// Settings of the measuring thread by index of the scenario; `None` before the first round of a
    /// scenario with its own.
    settings: Vec<Option<RoundSettings>>,
}

/// Facts about a scenario that exclude its later rounds.
#[derive(Clone, Copy, Debug, Default)]
struct ScenarioState {
    /// A round failed.
    failed: bool,
    /// The program does not write the times that a diagnosis needs.
    cannot_profile: bool,
}

/// Consequence of a round.
#[allow(clippy::large_enum_variant, reason = "there is one value at a time")]
enum RoundOutcome {
    /// The run ends.
    Stop,
    Keep(RoundResult),
}

impl PlanRunner<'_> {
    /// Returns the indices of the scenarios that run in a turn, without those that are excluded.
    fn members(&self, turn: &Turn) -> Vec<usize> {
        let group = self.groups.iter().find(|group| group[0] == turn.scenario);
        let mut members = group.cloned().unwrap_or_default();
        members.retain(|&member| {
            let state = self.states[member];
            let is_excluded = state.failed || (turn.profiled && state.cannot_profile);
            !is_excluded
        });
        members
    }

    /// Runs the scenarios of a turn and returns their outcomes.
    fn run_turn(&mut self, turn: &Turn, members: &[usize]) -> Vec<RoundOutcome> {
        let leader = &self.context.plan.scenarios[turn.scenario];
        if leader.cpu.is_none() {
            return members.iter().map(|_| self.run_round(turn)).collect();
        }
        let request = |&i: &usize| self.context.request(turn, i, self.settings[i].as_ref());
        let requests = members.iter().map(request).collect();
        let measure = || concurrent_rounds::measure(requests);
        let results = self.loads.during(&leader.load, members.len(), measure);
        let mut outcomes = Vec::with_capacity(results.len());
        for (&member, result) in members.iter().zip(results) {
            self.states[member].failed = result.is_err();
            outcomes.push(RoundOutcome::Keep(result));
        }
        outcomes
    }

    /// Runs the scenario of a turn that runs alone.
    fn run_round(&mut self, turn: &Turn) -> RoundOutcome {
        let result = self.measure_round(turn);
        let is_program = self.context.plan.scenarios[turn.scenario].subject.program().is_some();
        if result.is_err() && is_program && self.context.stop.load(Ordering::Relaxed) {
            // An interrupted program has written nothing.
            return RoundOutcome::Stop;
        }
        let diagnosis = result.as_ref().ok().and_then(|round| round.diagnosis.as_ref());
        let is_empty = diagnosis.is_some_and(|diagnosis| diagnosis.round.tier.is_none());
        let state = &mut self.states[turn.scenario];
        state.cannot_profile |= is_program && is_empty;
        state.failed = result.is_err();
        RoundOutcome::Keep(result)
    }

    /// Measures a round under the load of its scenario.
    ///
    /// A program that gets its rounds over standard input is started for the first one, and kept
    /// for the next one unless it failed. Its profiled rounds are processes of their own, before which
    /// this one ends: two could not use one port or file.
    fn measure_round(&mut self, turn: &Turn) -> RoundResult {
        if turn.profiled {
            self.finish_session(turn.scenario)?;
        }
        let settings = self.settings[turn.scenario].get_or_insert_with(RoundSettings::read);
        let round = self.context.request(turn, turn.scenario, Some(settings));
        let scenario = round.scenario;
        let program = scenario.subject.program();
        let start_timeout = self.starts.session_timeout(turn.scenario).filter(|_| !turn.profiled);
        let mut session = None;
        if let (Some(program), Some(timeout)) = (program, start_timeout) {
            let (period_ns, stop) = (scenario.period_ns(), self.context.stop);
            session = Some(match self.sessions.remove(&turn.scenario) {
                Some(running) => running,
                None => program::start_session(program, period_ns, timeout, stop)?,
            });
        }
        let measure = || match (program, &mut session) {
            (Some(program), Some(session)) => round.measure_in_session(program, session),
            _ => round.measure(),
        };
        let measured = self.loads.during(&scenario.load, 1, || vec![measure()]).remove(0)?;
        if let Some(session) = session {
            self.sessions.insert(turn.scenario, session);
        }
        Ok(measured)
    }

    /// Ends the program that gets the rounds of a scenario, if it runs.
    fn finish_session(&mut self, scenario: usize) -> Result<(), RunFailure> {
        if let Some(session) = self.sessions.remove(&scenario) {
            let processes = session.finish(self.context.stop)?;
            *self.left_over.entry(scenario).or_default() += processes;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Length, ScenarioArgs, parse_subject};

    fn scenarios() -> Vec<Scenario> {
        let expand = |names: &[&str], period, ticks| {
            let args = ScenarioArgs {
                subjects: names.iter().map(|name| parse_subject(name).unwrap()).collect(),
                periods: vec![period],
                length: Some(Length::Ticks(ticks)),
                round_ticks: Some(10),
                ..ScenarioArgs::default()
            };
            args.scenarios().unwrap()
        };
        let short = Duration::from_nanos(333_333);
        [
            expand(&["nanosleep", "spin", "os-interval"], short, 20),
            expand(&["spin"], Duration::from_millis(7), 30),
        ]
        .concat()
    }

    #[test]
    fn seeds_determine_order_and_phases() {
        let found: Vec<_> = turns(7, &scenarios())
            .map(|t| (t.index, t.slot, t.scenario, t.phase.as_nanos()))
            .collect();
        let expected = [
            (0, 0, 2, 582_930),
            (0, 1, 3, 4_080_512),
            (0, 2, 0, 582_930),
            (0, 3, 1, 582_930),
            (1, 0, 3, 2_296_537),
            (1, 1, 2, 328_076),
            (1, 2, 0, 328_076),
            (1, 3, 1, 328_076),
            (2, 0, 3, 939_808),
        ];
        assert_eq!(found, expected);
        let phases: Vec<u128> =
            turns(u64::MAX, &scenarios()[3..]).map(|t| t.phase.as_nanos()).collect();
        assert_eq!(phases, [6_257_600, 6_388_180, 1_536_373]);
    }

    #[test]
    fn every_turn_gets_a_profiled_turn() {
        let plain: Vec<Turn> = turns(7, &scenarios()).collect();
        let both: Vec<Turn> = interleave_profiled_turns(7, turns(7, &scenarios())).collect();
        assert!(both.iter().filter(|t| !t.profiled).eq(&plain));
        for pair in both.chunks(2) {
            assert_eq!(Turn { profiled: pair[1].profiled, ..pair[0] }, pair[1]);
            assert_ne!(pair[0].profiled, pair[1].profiled);
        }
        let first = both.iter().step_by(2).filter(|t| t.profiled).count();
        assert!((1..plain.len()).contains(&first), "both orders occur: {first} of {}", plain.len());
    }

    #[test]
    fn phases_span_a_period_or_millisecond() {
        let [short, long] = [Duration::from_micros(100), Duration::from_secs(3600)];
        assert_eq!(
            [phase_from_draw(short, 0), phase_from_draw(short, u64::MAX)],
            [Duration::ZERO, Duration::from_nanos(999_999)]
        );
        assert_eq!(phase_from_draw(long, 1 << 63), long / 2);
    }
}
