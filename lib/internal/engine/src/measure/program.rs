//! Rounds of a user's program.
//!
//! Each round is a process, which measures its ticks and writes their lateness.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use jitterstat::sample::{Grid, RoundSamples};
use tach::Anchor;

use crate::machine::os::TreeUsage;
use crate::measure::child::{self, RunFailure, RunRequest, Series};
use crate::measure::cost::{Cost, CostMeter};
use crate::measure::program_output::{self, ProgramRound};
use crate::measure::supervisor;
use crate::measure::why::external_program::{FinishedProgram, ProgramProfiler};
use crate::measure::why::{Profiler, RoundDiagnosis};
use crate::program::Program;
use crate::scenario::Plan;
use cli::exit::{self, Error};
use cli::time::format_time;
use cli::units::to_ns;

/// Result of a round of a program.
pub struct MeasuredProgram {
    /// Time of the start.
    pub start: Instant,
    pub samples: RoundSamples,
    /// Costs of the whole process, which ran for this round alone.
    pub cost: Cost,
    /// Diagnosis of late ticks, if the round was profiled.
    pub diagnosis: Option<RoundDiagnosis>,
}

/// Measures a round of a program. `profiled` contains the profiler and the index of the round, if
/// it is profiled.
///
/// # Errors
///
/// Returns an error if the program fails or its output is invalid.
pub fn measure_round(
    program: &Program,
    grid: Grid,
    stop: &AtomicBool,
    profiled: Option<(&Profiler, u64)>,
) -> Result<MeasuredProgram, String> {
    let period = Duration::from_nanos(grid.period_ns);
    // A profiler would record it as a part of the program. An error is returned by the run.
    let _ = supervisor::start();
    let recorder =
        profiled.map(|(profiler, index)| (ProgramProfiler::begin(profiler, period), index));
    let series = if recorder.is_some() { Series::TicksWithTimes } else { Series::Ticks };
    let (first, meter) = (Anchor::take(), CostMeter::start());
    let output = program_output::measure_round(program, run_request(grid, series), stop)
        .map_err(|why| why.message().unwrap_or_default())?;
    let machine = meter.cost(&first, &Anchor::take());
    let samples = round_samples(program, grid, &output)?;
    let diagnosis = match recorder {
        None => None,
        Some((recorder, index)) => Some(recorder.diagnose(&FinishedProgram {
            index,
            grid,
            name: &program.name(),
            output: &output,
            steal_ns: machine.steal_ns,
        })),
    };
    let cost = round_cost(&output, &machine);
    Ok(MeasuredProgram { start: output.started, samples, cost, diagnosis })
}

/// Combines the costs of the program with those of the machine. The other costs that were measured
/// are those of this process.
fn round_cost(output: &ProgramRound, machine: &Cost) -> Cost {
    Cost {
        window_ns: to_ns(output.wall),
        cpu_ns: Some(output.usage.cpu_ns),
        switches_voluntary: output.usage.switches_voluntary,
        switches_involuntary: output.usage.switches_involuntary,
        steal_ns: machine.steal_ns,
        throttled_ns: machine.throttled_ns,
        suspended_ns: machine.suspended_ns,
        killed_processes: output.usage.killed_processes,
        ..Cost::default()
    }
}

/// Returns the request for a round.
fn run_request(grid: Grid, series: Series) -> RunRequest {
    let period = Duration::from_nanos(grid.period_ns);
    let ticks = u32::try_from(grid.first_tick + grid.ticks).unwrap_or(u32::MAX);
    let limit = child::hang_timeout(period.saturating_mul(ticks));
    RunRequest { period, ticks: grid.ticks, warmup: grid.first_tick, series, limit }
}

/// Converts the series of a program to samples. Every tick counts as delivered.
fn round_samples(
    program: &Program,
    grid: Grid,
    output: &ProgramRound,
) -> Result<RoundSamples, String> {
    let max_lateness = to_ns(output.wall);
    let lateness_ns = &output.series.lateness_ns;
    if let Some(lateness) = lateness_ns.iter().find(|late| late.unsigned_abs() > max_lateness) {
        let max_lateness = i64::try_from(max_lateness).unwrap_or(i64::MAX);
        return Err(format!(
            "{}: wrote a lateness of {}, and ran for {} itself",
            program.text(),
            format_time(*lateness),
            format_time(max_lateness)
        ));
    }
    Ok(RoundSamples {
        grid,
        ticks: (grid.first_tick..grid.first_tick + grid.ticks).collect(),
        lateness_ns: lateness_ns.clone(),
        until_unpark_ns: vec![None; lateness_ns.len()],
        coalesced: 0,
    })
}

/// Number of runs of a single tick before the first round. The first one fills the caches.
const STARTUP_RUNS: usize = 3;
/// Startup time above which a program is not started again for this measurement.
const MAX_STARTUP_TIME: Duration = Duration::from_secs(1);

/// Costs of starting the programs of a plan, by index of the scenario; `None` if they are unknown.
#[derive(Clone, Debug, Default)]
pub struct StartupCosts(BTreeMap<usize, Option<TreeUsage>>);

impl StartupCosts {
    /// Runs each program of a plan for a single tick.
    ///
    /// This runs before the first round, so that programs that cannot be started are rejected
    /// before anything is measured. Other failures are reported by the round in which they occur.
    ///
    /// # Errors
    ///
    /// Returns an error if a program does not exist or does not tick at the requested period.
    pub fn measure(plan: &Plan, stop: &AtomicBool) -> exit::Result<Self> {
        let mut programs = Vec::new();
        for (index, scenario) in plan.scenarios.iter().enumerate() {
            if let Some(program) = scenario.subject.program() {
                program.check_exists().map_err(Error::usage)?;
                programs.push((index, (program, scenario.period_ns())));
            }
        }
        let mut costs: BTreeMap<usize, Option<TreeUsage>> = BTreeMap::new();
        for (index, run) in &programs {
            // Scenarios that differ only in their load run the same program.
            let twin = programs.iter().take_while(|(i, _)| i < index).find(|(_, r)| r == run);
            let cost = match twin {
                Some((twin, _)) => costs[twin],
                None => measure_startup(run.0, run.1, stop).map_err(Error::usage)?,
            };
            costs.insert(*index, cost);
        }
        Ok(Self(costs))
    }

    /// Returns the cost of starting the program of a scenario, if it is known.
    pub fn get(&self, scenario: usize) -> Option<TreeUsage> {
        *self.0.get(&scenario)?
    }

    /// Subtracts the CPU time of the start from the cost of a round.
    ///
    /// If the start is most of the CPU time, the remainder is unknown. Context switches are
    /// unchanged, since those of a start cannot be distinguished from those of a busy machine.
    pub fn subtract_startup(&self, scenario: usize, cost: Cost) -> Cost {
        let Some(startup) = self.0.get(&scenario) else { return cost };
        let cpu_ns = startup.and_then(|startup| remaining_cpu_ns(cost.cpu_ns?, startup.cpu_ns));
        Cost { cpu_ns, ..cost }
    }
}

fn remaining_cpu_ns(total_ns: u64, startup_ns: u64) -> Option<u64> {
    total_ns.checked_sub(startup_ns).filter(|&rest| rest >= startup_ns)
}

/// Runs a program several times for a single tick. Returns the run with the median CPU time.
///
/// # Errors
///
/// Returns an error if the program cannot be started or does not tick at the requested period.
fn measure_startup(
    program: &Program,
    period_ns: u64,
    stop: &AtomicBool,
) -> Result<Option<TreeUsage>, String> {
    let grid = Grid { period_ns, first_tick: 0, ticks: 1 };
    let mut runs = Vec::new();
    while runs.len() < STARTUP_RUNS {
        match program_output::measure_round(program, run_request(grid, Series::Ticks), stop) {
            Ok(ProgramRound { usage, wall, .. }) => {
                runs.push(usage);
                if wall > MAX_STARTUP_TIME.saturating_add(Duration::from_nanos(period_ns)) {
                    break;
                }
            }
            Err(RunFailure::NotStarted(why) | RunFailure::OtherPeriod(why)) => return Err(why),
            Err(RunFailure::Failed(_) | RunFailure::Interrupted) => return Ok(None),
        }
    }
    runs.sort_unstable_by_key(|usage| usage.cpu_ns);
    Ok(runs.get(runs.len() / 2).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn startup_is_subtracted_from_costs() {
        let start = TreeUsage { cpu_ns: 40, ..TreeUsage::default() };
        let starts = StartupCosts(BTreeMap::from([(1, Some(start)), (2, None)]));
        let remainder = |scenario, cpu_ns| {
            starts
                .subtract_startup(scenario, Cost { cpu_ns: Some(cpu_ns), ..Cost::default() })
                .cpu_ns
        };
        assert_eq!(
            [remainder(1, 100), remainder(1, 80), remainder(1, 79), remainder(1, 39)],
            [Some(60), Some(40), None, None]
        );
        assert_eq!(
            [remainder(0, 39), remainder(2, 100)],
            [Some(39), None],
            "a subject, and a program with unknown startup cost"
        );
    }
}
