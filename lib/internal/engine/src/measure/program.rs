//! Rounds of a user's program.
//!
//! Each round is a process, which measures its ticks and writes their lateness.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use jitterstat::sample::{Grid, RoundSamples};
use jitterstat::series;
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
    let diagnosis = recorder.map(|(recorder, index)| {
        recorder.diagnose(&FinishedProgram {
            index,
            grid,
            name: &program.name(),
            output: &output,
            steal_ns: machine.steal_ns,
        })
    });
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
            "{}: wrote a lateness of {}, but ran for only {}",
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
const LONG_STARTUP_TIME: Duration = Duration::from_secs(1);
/// Default time limit of the start of a program.
pub const DEFAULT_START_TIMEOUT: Duration = Duration::from_secs(5);
/// Periods that a run of a single tick can take: a meter ends its process at the second tick.
const REHEARSAL_PERIODS: u32 = 3;

/// A start of a program, measured in a run of a single tick.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgramStart {
    pub usage: TreeUsage,
    /// Time from the start to the exit, without the period of the tick.
    pub duration: Duration,
}

/// Starts of the programs of a plan, by index of the scenario; `None` if they are unknown.
#[derive(Clone, Debug, Default)]
pub struct StartupCosts(BTreeMap<usize, Option<ProgramStart>>);

impl StartupCosts {
    /// Runs each program of a plan for a single tick.
    ///
    /// This runs before the first round, so that programs that cannot be measured are rejected
    /// before anything is measured. `timeout` is the time limit of a start.
    ///
    /// # Errors
    ///
    /// Returns an error if a program does not exist or does not follow the contract.
    pub fn measure(plan: &Plan, timeout: Duration, stop: &AtomicBool) -> exit::Result<Self> {
        let mut programs = Vec::new();
        for (index, scenario) in plan.scenarios.iter().enumerate() {
            if let Some(program) = scenario.subject.program() {
                program.check_exists().map_err(Error::usage)?;
                programs.push((index, (program, scenario.period_ns())));
            }
        }
        let mut starts: BTreeMap<usize, Option<ProgramStart>> = BTreeMap::new();
        for (index, run) in &programs {
            // Scenarios that differ only in their load run the same program.
            let twin = programs.iter().take_while(|(i, _)| i < index).find(|(_, r)| r == run);
            let start = match twin {
                Some((twin, _)) => starts[twin],
                None => measure_startup(run.0, run.1, timeout, stop)?,
            };
            starts.insert(*index, start);
        }
        Ok(Self(starts))
    }

    /// Returns the start of the program of a scenario, if it is known.
    pub fn get(&self, scenario: usize) -> Option<ProgramStart> {
        *self.0.get(&scenario)?
    }

    /// Returns the time that all starts of a run of the plan take.
    pub fn total_duration(&self, plan: &Plan) -> Duration {
        let mut total = Duration::ZERO;
        for (index, scenario) in plan.scenarios.iter().enumerate() {
            let start = self.get(index).unwrap_or_default();
            let rounds = scenario.rounds().saturating_mul(plan.turns().into());
            let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
            total = total.saturating_add(start.duration.saturating_mul(rounds));
        }
        total
    }

    /// Subtracts the CPU time of the start from the cost of a round.
    ///
    /// If the start is most of the CPU time, the remainder is unknown. Context switches are
    /// unchanged, since those of a start cannot be distinguished from those of a busy machine.
    pub fn subtract_startup(&self, scenario: usize, cost: Cost) -> Cost {
        let Some(start) = self.0.get(&scenario) else { return cost };
        let cpu_ns = start.and_then(|start| remaining_cpu_ns(cost.cpu_ns?, start.usage.cpu_ns));
        Cost { cpu_ns, ..cost }
    }
}

fn remaining_cpu_ns(total_ns: u64, startup_ns: u64) -> Option<u64> {
    total_ns.checked_sub(startup_ns).filter(|&rest| rest >= startup_ns)
}

/// Runs a program several times for a single tick. Returns the run with the median CPU time, or
/// `None` if the start is unknown.
///
/// # Errors
///
/// Returns an error if the program does not follow the contract.
fn measure_startup(
    program: &Program,
    period_ns: u64,
    timeout: Duration,
    stop: &AtomicBool,
) -> exit::Result<Option<ProgramStart>> {
    let mut starts = Vec::new();
    while starts.len() < STARTUP_RUNS {
        let Some(start) = rehearse(program, period_ns, timeout, stop)? else { return Ok(None) };
        starts.push(start);
        if start.duration > LONG_STARTUP_TIME {
            break;
        }
    }
    starts.sort_unstable_by_key(|start| start.usage.cpu_ns);
    Ok(starts.get(starts.len() / 2).copied())
}

/// Runs a program for a single tick, before anything is measured. Returns `None` if it was
/// interrupted, or if it writes a number of ticks of its own.
///
/// # Errors
///
/// Returns an error if the program does not follow the contract. The advice of the error describes
/// the contract and the alternatives.
pub fn rehearse(
    program: &Program,
    period_ns: u64,
    timeout: Duration,
    stop: &AtomicBool,
) -> exit::Result<Option<ProgramStart>> {
    let period = Duration::from_nanos(period_ns);
    let grid = Grid { period_ns, first_tick: 0, ticks: 1 };
    let limit = timeout.saturating_add(period.saturating_mul(REHEARSAL_PERIODS));
    let request = RunRequest { limit, ..run_request(grid, Series::Ticks) };
    match program_output::measure_round(program, request, stop) {
        Ok(ProgramRound { usage, wall, .. }) => {
            Ok(Some(ProgramStart { usage, duration: wall.saturating_sub(period) }))
        }
        Err(RunFailure::NotStarted(why) | RunFailure::OtherPeriod(why)) => Err(Error::usage(why)),
        Err(RunFailure::NoResources(why)) => Err(Error::measure(why)),
        Err(RunFailure::Failed(why) | RunFailure::TimeOver(why)) => {
            Err(Error::usage(why).with_advice(contract_advice(program, period_ns)))
        }
        Err(RunFailure::OtherTicks(_) | RunFailure::Interrupted) => Ok(None),
    }
}

/// Describes the contract between osjitter and a measured program, and what can be done without it.
fn contract_advice(program: &Program, period_ns: u64) -> Vec<String> {
    let text = program.text();
    vec![
        "nothing was measured; a measured program has to".to_owned(),
        format!(
            "  1. tick ${} + ${} times, at a period of ${} nanoseconds",
            series::ENV_WARMUP,
            series::ENV_TICKS,
            series::ENV_PERIOD
        ),
        format!(
            "  2. write the line `{} period_ns={period_ns}`, then the lateness in ns of each tick \
             after the warm-up, to the file ${}",
            series::SCHEMA,
            series::ENV_OUT
        ),
        "  3. exit with 0".to_owned(),
        "a meter of the crate tickmeter in its loop does all of this; without a change:".to_owned(),
        format!("  osjitter trace -- {text}    its timers, from outside (Linux, as root)"),
        format!(
            "  osjitter gate --metric wall --base-cmd OLD --candidate-cmd {}    its whole runs",
            shlex::try_quote(text).unwrap_or_default()
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn startup_is_subtracted_from_costs() {
        let usage = TreeUsage { cpu_ns: 40, ..TreeUsage::default() };
        let start = ProgramStart { usage, ..ProgramStart::default() };
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
