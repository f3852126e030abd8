//! Rounds of scenarios that differ only in their CPU: they run at once, with a thread on each CPU.
//!
//! All threads have the same deadlines, so that a disturbance of the whole machine affects the same
//! ticks on all CPUs.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::machine::os;
use crate::measure::round::{RoundRequest, RoundResult};
use crate::measure::round_error::{RoundError, RoundThread};

/// Time from the moment at which all threads run on their CPUs to the first deadline, before the
/// random phase. It is sufficient to create a runtime on each.
const LEAD_TIME: Duration = Duration::from_millis(10);

/// The common start, for which all threads wait; `None` if the round is cancelled.
type CommonStart = OnceLock<Option<Instant>>;

/// Measures rounds at once, each on the CPU of its scenario. Returns their results in order.
pub fn measure(requests: Vec<RoundRequest<'_>>) -> Vec<RoundResult> {
    let count = requests.len();
    let common_start = CommonStart::new();
    std::thread::scope(|scope| {
        let (bound, all_bound) = mpsc::channel();
        let mut threads = Vec::with_capacity(count);
        for request in requests {
            match start_thread(scope, request, bound.clone(), &common_start) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    let _ = common_start.set(None);
                    let (thread, error) = (RoundThread::EachCpu, Arc::new(error));
                    let error = RoundError::NoThread { thread, error };
                    return (0..count).map(|_| Err(error.clone())).collect();
                }
            }
        }
        drop(bound);
        // All threads start at one time as soon as they run on their CPUs. `recv` returns when the
        // last thread has dropped its sender, which sends nothing.
        let _ = all_bound.recv();
        #[allow(clippy::disallowed_methods, reason = "all CPUs start relative to this time")]
        let start = Instant::now() + LEAD_TIME;
        let _ = common_start.set(Some(start));
        let join = |thread: ScopedJoinHandle<'_, RoundResult>| {
            thread.join().unwrap_or(Err(RoundError::ThreadPanicked))
        };
        threads.into_iter().map(join).collect()
    })
}

/// Starts a thread, which drops `bound` when it runs on its CPU, and then waits for the common
/// start.
fn start_thread<'scope>(
    scope: &'scope Scope<'scope, '_>,
    request: RoundRequest<'scope>,
    bound: Sender<()>,
    common_start: &'scope CommonStart,
) -> std::io::Result<ScopedJoinHandle<'scope, RoundResult>> {
    std::thread::Builder::new().spawn_scoped(scope, move || {
        let cpu = request.scenario.cpu.unwrap_or(0);
        let binding = os::bind(&[cpu]);
        drop(bound);
        binding.map_err(|error| RoundError::Unbound { cpu, error: Arc::new(error) })?;
        let start = common_start.wait().ok_or(RoundError::Cancelled)?;
        RoundRequest { start: Some(start + request.phase), ..request }.measure()
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::scenario::{CpuSelection, Length, Scenario, ScenarioArgs, parse_subject};

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

    fn measure_all(scenarios: &[Scenario]) -> Vec<RoundResult> {
        let stop = Arc::default();
        let request = |scenario| RoundRequest {
            scenario,
            index: 0,
            slot: 0,
            ticks: 10,
            phase: Duration::from_micros(300),
            start: None,
            run_on: 0,
            stop: &stop,
            profiler: None,
            late_watch: None,
            settings: None,
        };
        measure(scenarios.iter().map(request).collect())
    }

    #[test]
    fn cpus_share_their_deadlines() {
        let allowed = os::affinity().unwrap();
        for subject in ["nanosleep", "os-interval", "spin", "busypoll-interval"] {
            let results = measure_all(&scenarios(subject, &allowed));
            assert_eq!(results.len(), allowed.len());
            let mut starts = Vec::new();
            for result in results {
                let round = result.unwrap();
                starts.push(round.instances[0].start);
                let samples = &round.instances[0].samples;
                assert_eq!((samples.recorded(), samples.early()), (10, 0), "{subject}");
                // The time of other threads is not included.
                let usage = round.cost.usage;
                assert!(usage.cpu_ns.unwrap() <= usage.window_ns.unwrap(), "{usage:?}");
            }
            starts.dedup();
            assert_eq!(starts.len(), 1, "{subject}");
        }
    }

    #[test]
    fn missing_cpus_fail_alone() {
        let allowed = os::affinity().unwrap();
        let missing = 1_000;
        let results = measure_all(&scenarios("nanosleep", &[allowed[0], missing]));
        assert!(results[0].is_ok());
        let reason = results[1].as_ref().unwrap_err().to_string();
        assert!(reason.starts_with("cannot bind to CPU 1000: "), "{reason}");
    }
}
