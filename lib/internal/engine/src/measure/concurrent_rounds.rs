//! Rounds of a subject on several CPUs at once, with a thread on each.
//!
//! All threads have the same deadlines, so that a disturbance of the whole machine affects the same
//! ticks on all CPUs.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::machine::os;
use crate::measure::late_watch::LateWatch;
use crate::measure::round::{MeasuredRound, RoundRequest};
use crate::scenario::Scenario;

/// Time from the moment at which all threads run on their CPUs to the first deadline, before the
/// random phase. It is sufficient to create a runtime on each.
const LEAD_TIME: Duration = Duration::from_millis(10);

type RoundResult = Result<MeasuredRound, String>;

/// The rounds of scenarios that differ only in their CPU.
pub struct ConcurrentRounds<'a> {
    pub scenarios: Vec<&'a Scenario>,
    /// Index of the round within the scenarios.
    pub index: u64,
    /// Position of the scenarios within the round.
    pub slot: u64,
    /// Random part of the start.
    pub phase: Duration,
    pub stop: &'a Arc<AtomicBool>,
    pub late_watch: Option<&'a Arc<LateWatch>>,
}

impl ConcurrentRounds<'_> {
    /// Measures the rounds at once and returns their results in the order of the scenarios.
    pub fn measure(&self) -> Vec<RoundResult> {
        std::thread::scope(|scope| {
            let (bound, all_bound) = mpsc::channel();
            let mut threads = Vec::with_capacity(self.scenarios.len());
            for &scenario in &self.scenarios {
                match self.spawn(scope, scenario, bound.clone()) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        let why = format!("cannot start a thread for each CPU: {error}");
                        return self.scenarios.iter().map(|_| Err(why.clone())).collect();
                    }
                }
            }
            drop(bound);
            self.release(threads, &all_bound)
        })
    }

    /// Starts the thread of a scenario. It drops `bound` when it runs on its CPU, and then waits
    /// for the common start.
    fn spawn<'scope, 'env>(
        &'scope self,
        scope: &'scope Scope<'scope, 'env>,
        scenario: &'scope Scenario,
        bound: Sender<Infallible>,
    ) -> std::io::Result<WaitingThread<'scope>> {
        let (start, common_start) = mpsc::channel();
        let handle = std::thread::Builder::new().spawn_scoped(scope, move || {
            let cpu = scenario.cpu.into_iter().collect::<Vec<_>>();
            let binding = os::bind(&cpu);
            drop(bound);
            binding.map_err(|error| format!("cannot bind to CPU {}: {error}", cpu[0]))?;
            let start = common_start.recv();
            self.measure_on_cpu(scenario, start.map_err(|_| "the round was not started")?)
        })?;
        Ok(WaitingThread { handle, start })
    }

    /// Lets all threads start at one time as soon as they run on their CPUs, and waits for their
    /// results.
    #[allow(clippy::disallowed_methods, reason = "all CPUs start relative to this time")]
    fn release(
        &self,
        threads: Vec<WaitingThread<'_>>,
        all_bound: &Receiver<Infallible>,
    ) -> Vec<RoundResult> {
        // This returns when the last thread has dropped its sender.
        let _ = all_bound.recv();
        let start = Instant::now() + LEAD_TIME + self.phase;
        for thread in &threads {
            // A thread that could not be bound has ended.
            let _ = thread.start.send(start);
        }
        let join = |thread: WaitingThread<'_>| thread.handle.join();
        let panicked = |_| Err("its thread panicked".to_owned());
        threads.into_iter().map(|thread| join(thread).unwrap_or_else(panicked)).collect()
    }

    fn measure_on_cpu(&self, scenario: &Scenario, start: Instant) -> RoundResult {
        let request = RoundRequest {
            scenario,
            index: self.index,
            slot: self.slot,
            ticks: scenario.ticks_of_round(self.index),
            phase: self.phase,
            start: Some(start),
            run_on: 0,
            stop: self.stop,
            profiler: None,
            late_watch: self.late_watch,
        };
        request.measure()
    }
}

/// A thread that waits for the common start.
struct WaitingThread<'scope> {
    handle: ScopedJoinHandle<'scope, RoundResult>,
    start: Sender<Instant>,
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::scenario::{CpuSelection, Length, ScenarioArgs, parse_subject};

    fn scenarios(subject: &str, cpus: &[usize]) -> Vec<Scenario> {
        let args = ScenarioArgs {
            subjects: vec![parse_subject(subject).unwrap()],
            periods: vec![Duration::from_millis(1)],
            length: Some(Length::Ticks(20)),
            round_ticks: Some(10),
            cpus: Some(CpuSelection::List(cpus.to_vec())),
            ..ScenarioArgs::default()
        };
        args.scenarios().unwrap()
    }

    fn measure(scenarios: &[Scenario]) -> Vec<RoundResult> {
        let (stop, scenarios) = (Arc::default(), scenarios.iter().collect());
        let (index, slot, phase) = (0, 0, Duration::from_micros(300));
        let rounds =
            ConcurrentRounds { scenarios, index, slot, phase, stop: &stop, late_watch: None };
        rounds.measure()
    }

    #[test]
    fn cpus_share_their_deadlines() {
        let allowed = os::affinity().unwrap();
        for subject in ["nanosleep", "os-interval"] {
            let results = measure(&scenarios(subject, &allowed));
            assert_eq!(results.len(), allowed.len());
            let mut starts = Vec::new();
            for result in results {
                let round = result.unwrap();
                starts.push(round.instances[0].start);
                let samples = &round.instances[0].samples;
                assert_eq!((samples.recorded(), samples.early()), (10, 0), "{subject}");
                // The time of other threads is not included.
                assert!(round.cost.cpu_ns.unwrap() <= round.cost.window_ns, "{:?}", round.cost);
            }
            starts.dedup();
            assert_eq!(starts.len(), 1, "{subject}");
        }
    }

    #[test]
    fn missing_cpus_fail_alone() {
        let allowed = os::affinity().unwrap();
        let missing = 1_000;
        let results = measure(&scenarios("nanosleep", &[allowed[0], missing]));
        assert!(results[0].is_ok());
        let reason = results[1].as_ref().unwrap_err();
        assert!(reason.starts_with("cannot bind to CPU 1000: "), "{reason}");
    }
}
