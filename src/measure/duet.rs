//! Two subjects at once on one CPU, half a period apart: what the machine does, it does to both.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::measure::round::{LEAST_PHASE, MeasuredRound, Observer, OneRound, Shared};
use crate::scenario::Scenario;

/// From now to the first deadline, before the random phase: room for two threads to make their runtimes on one CPU.
const LEAD: Duration = Duration::from_millis(10);
/// The one that is through first keeps ticking, so that its tear-down does not fall on the other's last ticks.
const RUN_ON_TICKS: u64 = 4;
/// Rounds alone in which a subject's use of the CPU is looked at; the least counts, as nothing makes it look smaller.
const ROUNDS_ALONE: u64 = 2;

/// Runs so many rounds of both, until the observer knows enough. Threads inherit the CPU that the caller is bound to.
pub fn run(scenarios: &[Scenario; 2], rounds: u64, seed: u64, shared: &Arc<Shared>, observer: &mut impl Observer) {
    let mut random = SmallRng::seed_from_u64(seed);
    for index in 0..rounds {
        if shared.stop.load(Ordering::Relaxed) || observer.knows_enough() {
            return;
        }
        let first = usize::from(random.random::<bool>());
        let period = scenarios[0].period;
        let phase = period.max(LEAST_PHASE).mul_f64(random.random());
        scenarios.iter().for_each(|scenario| observer.before(scenario, index));
        #[allow(clippy::disallowed_methods, reason = "the start that both are given")]
        let start = Instant::now() + LEAD + phase;
        let slot = |side: usize| usize::from(side != first);
        let offset = |side: usize| if side == first { Duration::ZERO } else { period / 2 };
        let one = |side: usize| {
            let (scenario, phase) = (&scenarios[side], phase + offset(side));
            let start = Some(start + offset(side));
            let round = OneRound { scenario, ticks: scenario.round_ticks, phase, start, run_on: RUN_ON_TICKS, shared };
            round.measure().map(|round| MeasuredRound { index, slot: slot(side) as u64, ..round })
        };
        let results = std::thread::scope(|scope| {
            let other = scope.spawn(|| one(1));
            let here = one(0);
            [here, other.join().unwrap_or_else(|_| Err("its thread panicked".to_owned()))]
        });
        for (scenario, result) in scenarios.iter().zip(results) {
            observer.after(scenario, result);
        }
    }
}

/// Share of the period that a subject keeps a CPU busy when it runs alone; `None` where the platform does not tell.
pub fn busy_share(scenario: &Scenario, shared: &Arc<Shared>) -> Result<Option<f64>, String> {
    let mut least: Option<f64> = None;
    for _ in 0..ROUNDS_ALONE {
        let ticks = scenario.round_ticks;
        let round = OneRound { scenario, ticks, phase: Duration::ZERO, start: None, run_on: 0, shared }.measure()?;
        let ran: u64 = round.instances.iter().map(|i| i.ticks_run).sum();
        let Some(cpu_ns) = round.cost.cpu_ns else { return Ok(None) };
        let share = cpu_ns as f64 / (ran.max(1) as f64 * scenario.period.as_nanos() as f64);
        least = Some(least.map_or(share, |l| l.min(share)));
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Length, ScenarioArgs, one_subject};

    #[derive(Default)]
    struct Kept(Vec<MeasuredRound>);

    impl Observer for Kept {
        fn before(&mut self, _: &Scenario, _: u64) {}

        fn after(&mut self, _: &Scenario, result: Result<MeasuredRound, String>) {
            self.0.push(result.unwrap());
        }

        fn knows_enough(&self) -> bool {
            self.0.len() >= 20
        }
    }

    #[test]
    fn both_tick_on_grids_that_are_half_a_period_apart_in_an_order_that_is_drawn() {
        let args = ScenarioArgs {
            subjects: ["os-interval", "nanosleep"].map(|name| one_subject(name).unwrap()).to_vec(),
            periods: vec![Duration::from_millis(1)],
            length: Some(Length::Ticks(1_000)),
            round_ticks: Some(20),
            warmup: Some(3),
            ..ScenarioArgs::default()
        };
        let scenarios: [Scenario; 2] = args.scenarios().unwrap().try_into().unwrap();
        let mut kept = Kept::default();
        run(&scenarios, 50, 7, &Arc::new(Shared::default()), &mut kept);
        assert_eq!(kept.0.len(), 20, "it stops when the observer knows enough");
        let mut first_slots = Vec::new();
        for pair in kept.0.chunks(2) {
            let [a, b] = pair else { panic!("a pair") };
            let (x, y) = (&a.instances[0], &b.instances[0]);
            let (first, second) = if a.slot == 0 { (x, y) } else { (y, x) };
            assert_eq!(second.start - first.start, Duration::from_micros(500));
            assert_eq!([x.samples.booked(), y.samples.booked()], [20, 20], "what runs on is not recorded");
            assert_eq!([x.samples.early(), y.samples.early()], [0, 0]);
            first_slots.push(a.slot);
        }
        assert!(first_slots.contains(&0) && first_slots.contains(&1), "{first_slots:?}");
    }
}
