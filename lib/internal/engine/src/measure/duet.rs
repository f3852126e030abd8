//! Two subjects at once on one CPU, half a period apart: what the machine does, it does to both.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jitterstat::stats::random::SplitMix64;

use crate::measure::order::{self, Observer};
use crate::measure::round::RoundRequest;
use crate::scenario::Scenario;

/// From now to the first deadline, before the random phase: room for two threads to make their
/// runtimes on one CPU.
const LEAD: Duration = Duration::from_millis(10);
/// The one that is through first keeps ticking, so that its tear-down does not fall on the other's
/// last ticks.
const RUN_ON_TICKS: u64 = 4;
/// Rounds alone in which a subject's use of the CPU is looked at; the least counts, as nothing
/// makes it look smaller.
const ROUNDS_ALONE: u64 = 2;

/// Runs so many rounds of both, until the observer knows enough. Threads inherit the CPU that the
/// caller is bound to.
pub fn run(
    first: &Scenario,
    second: &Scenario,
    rounds: u64,
    seed: u64,
    stop: &Arc<AtomicBool>,
    observer: &mut impl Observer,
) {
    let scenarios = [first, second];
    let mut random = SplitMix64::new(seed);
    for index in 0..rounds {
        if stop.load(Ordering::Relaxed) || observer.should_stop() {
            return;
        }
        let leader = usize::from(random.coin());
        let period = scenarios[0].period;
        let phase = order::phase_from_draw(period, random.next_u64());
        scenarios.iter().for_each(|scenario| observer.before_round(scenario, index));
        #[allow(clippy::disallowed_methods, reason = "the start that both are given")]
        let start = Instant::now() + LEAD + phase;
        let one = |side: usize| {
            let slot = u64::from(side != leader);
            let offset = if side == leader { Duration::ZERO } else { period / 2 };
            let (scenario, start) = (scenarios[side], Some(start + offset));
            let (ticks, phase) = (scenario.round_ticks, phase + offset);
            RoundRequest {
                scenario,
                index,
                slot,
                ticks,
                phase,
                start,
                run_on: RUN_ON_TICKS,
                stop,
                why: None,
                late: None,
            }
            .measure()
        };
        let results = std::thread::scope(|scope| {
            let other = std::thread::Builder::new().spawn_scoped(scope, || one(1));
            match other.map_err(|e| format!("no thread for two at once: {e}")) {
                Err(why) => [Err(why.clone()), Err(why)],
                Ok(other) => {
                    [one(0), other.join().unwrap_or_else(|_| Err("its thread panicked".to_owned()))]
                }
            }
        });
        for (scenario, result) in scenarios.iter().zip(&results) {
            observer.after_round(scenario, result);
        }
    }
}

/// Share of the period that a subject keeps a CPU busy when it runs alone; `None` where the
/// platform does not report it. One that hardly ever waits takes all of it, however little of it a
/// busy machine leaves.
pub fn busy_share(scenario: &Scenario, stop: &Arc<AtomicBool>) -> Result<Option<f64>, String> {
    let mut least: Option<f64> = None;
    for index in 0..ROUNDS_ALONE {
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
            why: None,
            late: None,
        }
        .measure()?;
        let ran: u64 = round.instances.iter().map(|i| i.ticks_run).sum();
        let Some(cpu_ns) = round.cost.cpu_ns else { return Ok(None) };
        let waits = round.cost.switches_voluntary.is_none_or(|switches| switches >= ran / 10);
        let share = if waits {
            cpu_ns as f64 / (ran.max(1) as f64 * scenario.period.as_nanos() as f64)
        } else {
            1.0
        };
        least = Some(least.map_or(share, |l| l.min(share)));
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::round::{Instance, MeasuredRound};
    use crate::scenario::{Length, ScenarioArgs, parse_subject};

    /// Slot, start, booked and early ticks of each round.
    #[derive(Default)]
    struct Seen(Vec<(u64, Instant, u64, u64)>);

    impl Observer for Seen {
        fn before_round(&mut self, _: &Scenario, _: u64) {}

        fn after_round(&mut self, _: &Scenario, result: &Result<MeasuredRound, String>) {
            let round = result.as_ref().unwrap();
            let Instance { start, samples, .. } = &round.instances[0];
            self.0.push((round.slot, *start, samples.recorded(), samples.early()));
        }

        fn should_stop(&self) -> bool {
            self.0.len() >= 20
        }
    }

    #[test]
    fn both_tick_on_grids_that_are_half_a_period_apart_in_an_order_that_is_drawn() {
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
        let mut seen = Seen::default();
        run(first, second, 50, 7, &Arc::default(), &mut seen);
        assert_eq!(seen.0.len(), 20, "it stops when the observer knows enough");
        let mut first_slots = Vec::new();
        for pair in seen.0.chunks(2) {
            let [a, b] = pair else { panic!("a pair") };
            let (first, second) = if a.0 == 0 { (a, b) } else { (b, a) };
            assert_eq!(second.1 - first.1, Duration::from_micros(500));
            assert_eq!([a.2, b.2], [20, 20], "what runs on is not recorded");
            assert_eq!([a.3, b.3], [0, 0], "never early");
            first_slots.push(a.0);
        }
        assert!(first_slots.contains(&0) && first_slots.contains(&1), "{first_slots:?}");
    }
}
