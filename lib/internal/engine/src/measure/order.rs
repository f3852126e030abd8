//! Rounds in random order, and who learns of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jitterstat::stats::random::SplitMix64;

use crate::measure::late_watch::LateWatch;
use crate::measure::load::Loads;
use crate::measure::round::{MeasuredRound, RoundRequest};
use crate::measure::why::Profiler;
use crate::scenario::{Plan, Scenario};

/// The random phase spans a period, but at least this: tokio's wheel turns once a millisecond.
const MIN_PHASE_SPAN: Duration = Duration::from_millis(1);

/// What happens between rounds.
pub trait Observer {
    /// A round is about to run.
    fn before_round(&mut self, scenario: &Scenario, index: u64);
    /// A round is over, measured or not.
    fn after_round(&mut self, scenario: &Scenario, result: &Result<MeasuredRound, String>);
    /// Whether the observer knows enough: asked before each round.
    fn should_stop(&self) -> bool {
        false
    }
    /// What notices late ticks while they come, in every round: asked once.
    fn late_watch(&self) -> Option<Arc<LateWatch>> {
        None
    }
}

/// When one scenario runs one of its rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub index: u64,
    /// Place within the round.
    pub slot: u64,
    /// Which of the plan.
    pub scenario: usize,
    pub phase: Duration,
    /// Whether it is asked why its ticks are late.
    pub asked: bool,
}

/// All turns of a plan, in order: a function of its seed, the same on every machine.
pub fn turns(seed: u64, scenarios: &[Scenario]) -> impl Iterator<Item = Turn> {
    let mut random = SplitMix64::new(seed);
    let rounds = scenarios.iter().map(Scenario::rounds).max().unwrap_or(0);
    (0..rounds).flat_map(move |index| {
        let mut order: Vec<usize> =
            (0..scenarios.len()).filter(|&i| index < scenarios[i].rounds()).collect();
        random.shuffle(&mut order);
        // One draw for all subjects of a round, so that they meet the same phase of tokio's wheel.
        let draw = random.next_u64();
        (0..).zip(order).map(move |(slot, scenario)| Turn {
            index,
            slot,
            scenario,
            phase: phase_from_draw(scenarios[scenario].period, draw),
            asked: false,
        })
    })
}

/// Mixed into the seed, for draws beside those that a run without questions makes.
const ASKING: u64 = 0x7768_793f;

/// The same with another turn beside each, which is asked: before it or after it, as the seed
/// draws.
fn asked_too(seed: u64, turns: impl Iterator<Item = Turn>) -> impl Iterator<Item = Turn> {
    let mut random = SplitMix64::new(seed ^ ASKING);
    turns.flat_map(move |turn| {
        let first = random.coin();
        [Turn { asked: first, ..turn }, Turn { asked: !first, ..turn }]
    })
}

/// The part of the period, or of `MIN_PHASE_SPAN`, that a draw of 64 bits stands for.
pub fn phase_from_draw(period: Duration, draw: u64) -> Duration {
    let span_ns = period.max(MIN_PHASE_SPAN).as_nanos() as u64;
    Duration::from_nanos(((u128::from(draw) * u128::from(span_ns)) >> 64) as u64)
}

/// Runs the plan: in every round each scenario once, back to back. The observer sees each round,
/// then `keep` takes it, with the place of its scenario in the plan.
pub fn run(
    plan: &Plan,
    loads: &mut Loads,
    stop: &Arc<AtomicBool>,
    observer: &mut impl Observer,
    mut keep: impl FnMut(usize, Result<MeasuredRound, String>),
) {
    let mut failed = vec![false; plan.scenarios.len()];
    // Programs that do not say what it takes to find out why.
    let mut mute = vec![false; plan.scenarios.len()];
    let session = plan.why.is_some().then(Profiler::open);
    let late = observer.late_watch();
    let late = late.as_ref();
    let all = turns(plan.seed, &plan.scenarios);
    let all: &mut dyn Iterator<Item = Turn> =
        if plan.why.is_some() { &mut asked_too(plan.seed, all) } else { &mut { all } };
    for Turn { index, slot, scenario: place, phase, asked } in all {
        if stop.load(Ordering::Relaxed) || observer.should_stop() {
            return;
        }
        let scenario = &plan.scenarios[place];
        if failed[place] || (asked && mute[place]) {
            continue;
        }
        observer.before_round(scenario, index);
        let ticks = scenario.ticks_of_round(index);
        let why = session.as_ref().filter(|_| asked);
        let round = RoundRequest {
            scenario,
            index,
            slot,
            ticks,
            phase,
            start: None,
            run_on: 0,
            stop,
            why,
            late,
        };
        let result = loads.during(&scenario.load, || round.measure());
        if result.is_err() && scenario.subject.program().is_some() && stop.load(Ordering::Relaxed) {
            // A program that is interrupted has written nothing.
            return;
        }
        if asked && result.is_err() {
            // What was measured without questions stands.
            continue;
        }
        let unanswered = |round: &MeasuredRound| {
            round.diagnosis.as_ref().is_some_and(|answer| answer.round.tier.is_none())
        };
        mute[place] |=
            scenario.subject.program().is_some() && result.as_ref().is_ok_and(unanswered);
        failed[place] = result.is_err();
        observer.after_round(scenario, &result);
        keep(place, result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Length, ScenarioArgs, parse_subject};

    fn scenarios() -> Vec<Scenario> {
        let of = |names: &[&str], period, ticks| {
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
            of(&["nanosleep", "spin", "os-interval"], short, 20),
            of(&["spin"], Duration::from_millis(7), 30),
        ]
        .concat()
    }

    #[test]
    fn a_seed_draws_the_same_order_and_phases_everywhere() {
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
    fn each_turn_has_one_beside_it_that_is_asked_and_the_others_stay_as_they_are() {
        let plain: Vec<Turn> = turns(7, &scenarios()).collect();
        let both: Vec<Turn> = asked_too(7, turns(7, &scenarios())).collect();
        assert!(both.iter().filter(|t| !t.asked).eq(&plain));
        for pair in both.chunks(2) {
            assert_eq!(Turn { asked: pair[1].asked, ..pair[0] }, pair[1]);
            assert_ne!(pair[0].asked, pair[1].asked);
        }
        let first = both.iter().step_by(2).filter(|t| t.asked).count();
        assert!(
            (1..plain.len()).contains(&first),
            "both orders are drawn: {first} of {}",
            plain.len()
        );
    }

    #[test]
    fn a_phase_spans_the_period_or_a_millisecond() {
        let [short, long] = [Duration::from_micros(100), Duration::from_secs(3600)];
        assert_eq!(
            [phase_from_draw(short, 0), phase_from_draw(short, u64::MAX)],
            [Duration::ZERO, Duration::from_nanos(999_999)]
        );
        assert_eq!(phase_from_draw(long, 1 << 63), long / 2);
    }
}
