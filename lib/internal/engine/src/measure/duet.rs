//! Duets: two subjects that run concurrently on one CPU, half a period apart, so that disturbances
//! of the machine affect both.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jitterstat::stats::random::SplitMix64;

use crate::measure::order::{self, Observer};
use crate::measure::round::{RoundRequest, RoundResult};
use crate::measure::round_error::{RoundError, RoundThread};
use crate::measure::round_settings::RoundSettings;
use crate::measure::stop_delay::StopDelay;
use crate::scenario::Scenario;

/// Time to the first deadline, before the random phase. It is sufficient for two threads to create
/// their runtimes on one CPU.
const LEAD_TIME: Duration = Duration::from_millis(10);
/// Number of ticks for which the subject that finishes first continues, so that its tear-down does
/// not disturb the last ticks of the other.
const RUN_ON_TICKS: u64 = 4;
/// Number of rounds in which a subject runs alone to measure its use of the CPU. The minimum
/// counts, since disturbances only increase the use.
const SOLO_ROUNDS: u64 = 2;
/// Duration for which rounds are repeated if the machine was busy during all of them.
const MAX_SOLO_TIME: Duration = Duration::from_secs(5);
/// Maximum share of the time of a round that is too little to tell a subject that never waits from
/// one whose ticks were all late.
const MAX_STARVED_SHARE: f64 = 0.25;

/// Runs `rounds` rounds of both scenarios, or fewer if the observer stops.
///
/// The threads inherit the CPU to which the caller is bound. `settings` are those with which all
/// rounds have to run.
pub fn run(
    first: &Scenario,
    second: &Scenario,
    rounds: u64,
    seed: u64,
    settings: &RoundSettings,
    stop: &Arc<AtomicBool>,
    observer: &mut impl Observer,
) {
    let scenarios = [first, second];
    let mut random = SplitMix64::new(seed);
    let stop_delay = StopDelay::begin();
    for index in 0..rounds {
        stop_delay.stop_if_requested();
        if stop.load(Ordering::Relaxed) || observer.should_stop() {
            return;
        }
        let first_leads = !random.coin();
        let phase = order::phase_from_draw(first.period, random.next_u64());
        for scenario in &scenarios {
            observer.before_round(scenario, index);
        }
        #[allow(clippy::disallowed_methods, reason = "both scenarios start relative to this time")]
        let start = Instant::now() + LEAD_TIME + phase;
        let round =
            DuetRound { index, start, half_period: first.period / 2, phase, stop, settings };
        let results = measure_both(
            || round.measure(first, first_leads),
            || round.measure(second, !first_leads),
        );
        for (scenario, result) in scenarios.iter().zip(&results) {
            observer.after_round(scenario, result);
        }
    }
}

/// A round of a duet.
struct DuetRound<'a> {
    index: u64,
    /// Deadline of tick 0 of the subject that leads.
    start: Instant,
    half_period: Duration,
    phase: Duration,
    stop: &'a Arc<AtomicBool>,
    settings: &'a RoundSettings,
}

impl DuetRound<'_> {
    /// Measures one of the subjects. The one that does not lead starts half a period later.
    fn measure(&self, scenario: &Scenario, leads: bool) -> RoundResult {
        let offset = if leads { Duration::ZERO } else { self.half_period };
        let request = RoundRequest {
            scenario,
            index: self.index,
            slot: u64::from(!leads),
            ticks: scenario.round_ticks,
            phase: self.phase + offset,
            start: Some(self.start + offset),
            run_on: RUN_ON_TICKS,
            stop: self.stop,
            profiler: None,
            late_watch: None,
            settings: Some(self.settings),
        };
        request.measure()
    }
}

/// Runs two measurements concurrently: the first on this thread, the second on a new one.
fn measure_both(
    first: impl FnOnce() -> RoundResult,
    second: impl FnOnce() -> RoundResult + Send,
) -> Vec<RoundResult> {
    std::thread::scope(|scope| {
        let thread = match std::thread::Builder::new().spawn_scoped(scope, second) {
            Ok(thread) => thread,
            Err(error) => {
                let (thread, error) = (RoundThread::Second, Arc::new(error));
                let error = RoundError::NoThread { thread, error };
                return vec![Err(error.clone()), Err(error)];
            }
        };
        let result = first();
        vec![result, thread.join().unwrap_or(Err(RoundError::ThreadPanicked))]
    })
}

/// Measures the share of the period for which a subject that runs alone keeps a CPU busy.
///
/// Returns `None` if the platform does not report CPU time. A subject that almost never waits uses
/// the whole CPU, even if a busy machine gives it less.
pub fn busy_share(scenario: &Scenario, stop: &Arc<AtomicBool>) -> Result<Option<f64>, RoundError> {
    #[allow(clippy::disallowed_methods, reason = "rounds are repeated for a limited time")]
    let begin = Instant::now();
    let may_repeat = || !stop.load(Ordering::Relaxed) && begin.elapsed() < MAX_SOLO_TIME;
    min_busy_share(|index| SoloRound::measure(scenario, index, stop), may_repeat)
}

/// Returns the minimum of the rounds. They are repeated if the machine was busy during all of them.
fn min_busy_share(
    mut measure: impl FnMut(u64) -> Result<Option<SoloRound>, RoundError>,
    may_repeat: impl Fn() -> bool,
) -> Result<Option<f64>, RoundError> {
    let (mut min_share, mut are_starved) = (f64::INFINITY, true);
    let mut index = 0;
    while index < SOLO_ROUNDS || are_starved && may_repeat() {
        let Some(round) = measure(index)? else { return Ok(None) };
        min_share = min_share.min(round.busy_share());
        are_starved &= round.is_starved();
        index += 1;
    }
    Ok(Some(min_share))
}

/// A round of a subject that runs alone.
#[derive(Clone, Copy)]
struct SoloRound {
    /// The share of the periods of its ticks, or of a longer round, for which it had a CPU.
    cpu_share: f64,
    /// Whether it waited for its ticks.
    waits: bool,
}

impl SoloRound {
    /// Measures a round; `None` if the platform does not report CPU time.
    fn measure(
        scenario: &Scenario,
        index: u64,
        stop: &Arc<AtomicBool>,
    ) -> Result<Option<Self>, RoundError> {
        let (ticks, phase) = (scenario.round_ticks, Duration::ZERO);
        let round = RoundRequest {
            scenario,
            index,
            slot: 0,
            ticks,
            phase,
            start: None,
            run_on: 0,
            stop,
            profiler: None,
            late_watch: None,
            settings: None,
        }
        .measure()?;
        let ticks: u64 = round.instances.iter().map(|i| i.cost_ticks).sum();
        let usage = round.cost.usage;
        let waits = usage.switches_voluntary.is_none_or(|switches| switches >= ticks / 10);
        // Ticks that are all late come one right after the other.
        let due_ns = scenario.period_ns().saturating_mul(ticks) / scenario.instances.max(1);
        let share =
            |(cpu_ns, window_ns): (u64, u64)| cpu_ns as f64 / window_ns.max(due_ns).max(1) as f64;
        let cpu_share = usage.cpu_ns.zip(usage.window_ns).map(share);
        Ok(cpu_share.map(|cpu_share| Self { cpu_share, waits }))
    }

    fn busy_share(&self) -> f64 {
        if self.waits { self.cpu_share } else { 1.0 }
    }

    /// Returns whether the round does not show if the subject ever waits: it had the CPU so rarely
    /// that all ticks were due whenever it had.
    fn is_starved(&self) -> bool {
        !self.waits && self.cpu_share < MAX_STARVED_SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::round::Instance;
    use crate::scenario::{Length, ScenarioArgs, parse_subject};

    struct SeenRound {
        slot: u64,
        start: Instant,
        recorded: u64,
        early: u64,
    }

    #[derive(Default)]
    struct RoundLog(Vec<SeenRound>);

    impl Observer for RoundLog {
        fn before_round(&mut self, _: &Scenario, _: u64) {}

        fn after_round(&mut self, _: &Scenario, result: &RoundResult) {
            let round = result.as_ref().unwrap();
            let Instance { start, samples, .. } = &round.instances[0];
            self.0.push(SeenRound {
                slot: round.slot,
                start: *start,
                recorded: samples.recorded(),
                early: samples.early(),
            });
        }

        fn should_stop(&self) -> bool {
            self.0.len() >= 20
        }
    }

    /// On a busy machine, the ticks of a round can all be late, so that no subject waits.
    #[test]
    fn starved_rounds_are_repeated() {
        const STARVED: SoloRound = SoloRound { cpu_share: 0.01, waits: false };
        const WAITING: SoloRound = SoloRound { cpu_share: 0.02, waits: true };
        const SPINNING: SoloRound = SoloRound { cpu_share: 0.97, waits: false };
        let share = |rounds: &[SoloRound]| {
            let left = std::cell::Cell::new(rounds.len());
            let measure = |index: u64| {
                left.set(left.get() - 1);
                Ok(Some(rounds[index as usize]))
            };
            let share = min_busy_share(measure, || left.get() > 0).unwrap();
            (share.unwrap(), left.get())
        };
        assert_eq!(share(&[WAITING, STARVED, WAITING]), (0.02, 1));
        assert_eq!(share(&[STARVED, STARVED, STARVED, WAITING, WAITING]), (0.02, 1));
        assert_eq!(share(&[STARVED, STARVED, SPINNING, WAITING]), (1.0, 1));
        assert_eq!(share(&[STARVED, STARVED, STARVED]), (1.0, 0));
    }

    #[test]
    fn duets_tick_half_a_period_apart() {
        let args = ScenarioArgs {
            subjects: ["os-interval", "nanosleep"]
                .map(|name| parse_subject(name).unwrap())
                .to_vec(),
            periods: vec![Duration::from_millis(1)],
            length: Some(Length::Ticks(1_000)),
            round_ticks: Some(20),
            warmup: Some(3),
            ..ScenarioArgs::default()
        };
        let scenarios = args.scenarios().unwrap();
        let [first, second] = &scenarios[..] else { panic!("two scenarios") };
        let mut seen = RoundLog::default();
        run(first, second, 50, 7, &RoundSettings::read(), &Arc::default(), &mut seen);
        assert_eq!(seen.0.len(), 20, "it stops when the observer says so");
        let mut first_slots = Vec::new();
        for pair in seen.0.chunks(2) {
            let [a, b] = pair else { panic!("a pair") };
            let (first, second) = if a.slot == 0 { (a, b) } else { (b, a) };
            assert_eq!(second.start - first.start, Duration::from_micros(500));
            assert_eq!([a.recorded, b.recorded], [20, 20], "extra ticks are not recorded");
            assert_eq!([a.early, b.early], [0, 0], "never early");
            first_slots.push(a.slot);
        }
        assert!(first_slots.contains(&0) && first_slots.contains(&1), "{first_slots:?}");
    }
}
