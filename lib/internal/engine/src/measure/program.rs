//! Rounds of a user's program.
//!
//! Each round is a process, which measures its ticks and writes their lateness.
//!
//! A program should also write the usage of its process between the first and the last recorded
//! tick, which is then the cost of the ticks between them. Otherwise the cost is measured from
//! outside, in a window that is longer than its ticks: see `CostWindow`.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use files::report::SubjectSettings;
use jitterstat::sample::{Grid, RoundSamples};
use jitterstat::series;
use tach::Anchor;

use crate::machine::os::TreeUsage;
use crate::machine::tuning;
use crate::measure::child::{self, ProgramFault, ProgramSession, RunFailure, RunRequest, Series};
use crate::measure::cost::{Cost, CostMeter, TickUsage};
use crate::measure::program_output::{self, ProgramRound};
use crate::measure::supervisor;
use crate::measure::why::external_program::{FinishedProgram, ProgramProfiler};
use crate::measure::why::{Profiler, RoundDiagnosis};
use crate::program::Program;
use crate::scenario::Plan;
use cli::exit::{self, Error};
use cli::time::format_unsigned_time;
use cli::units::to_ns;

/// Result of a round of a program.
pub struct MeasuredProgram {
    /// Time of the start.
    pub start: Instant,
    pub samples: RoundSamples,
    /// Costs of the program during this round.
    pub cost: Cost,
    /// Ticks in the window of the usage, over which it is distributed.
    pub cost_ticks: u64,
    /// Diagnosis of late ticks, if the round was profiled.
    pub diagnosis: Option<RoundDiagnosis>,
}

/// Measures a round of a program, which is a process of its own.
///
/// `profiled` contains the profiler and the index of the round, if it is profiled.
///
/// # Errors
///
/// Returns an error if the program fails or its output is invalid.
pub fn measure_round(
    program: &Program,
    grid: Grid,
    stop: &AtomicBool,
    profiled: Option<(&Profiler, u64)>,
) -> Result<MeasuredProgram, RunFailure> {
    let period = Duration::from_nanos(grid.period_ns);
    // A profiler would record it as a part of the program. An error is returned by the run.
    let _ = supervisor::start();
    let recorder =
        profiled.map(|(profiler, index)| (ProgramProfiler::begin(profiler, period), index));
    let series = if recorder.is_some() { Series::TicksWithTimes } else { Series::Ticks };
    let (first, meter) = (Anchor::take(), CostMeter::start());
    let output = program_output::measure_round(program, run_request(grid, series), stop)?;
    let machine = meter.cost(&first, &Anchor::take());
    let samples = round_samples(grid, &output);
    let diagnosis = recorder.map(|(recorder, index)| {
        recorder.diagnose(&FinishedProgram {
            index,
            grid,
            name: &program.name(),
            output: &output,
            steal_ns: machine.steal_ns,
        })
    });
    let priced = PricedUsage::new(program, grid, &output, CostWindow::Process)?;
    let (cost, cost_ticks) = (round_cost(&output, &machine, &priced), priced.ticks);
    Ok(MeasuredProgram { start: output.started, samples, cost, cost_ticks, diagnosis })
}

/// Starts a program that gets its rounds over standard input. `timeout` is the time limit of the
/// start.
///
/// # Errors
///
/// Returns an error if the program is not ready in time.
pub fn start_session(
    program: &Program,
    period_ns: u64,
    timeout: Duration,
    stop: &AtomicBool,
) -> Result<ProgramSession, RunFailure> {
    let _ = supervisor::start();
    ProgramSession::start(program, rehearsal_request(period_ns, timeout), stop)
}

/// Measures a round of a program that gets its rounds over standard input.
///
/// # Errors
///
/// Returns an error if the program fails or its output is invalid.
pub fn measure_session_round(
    program: &Program,
    session: &mut ProgramSession,
    grid: Grid,
    stop: &AtomicBool,
) -> Result<MeasuredProgram, RunFailure> {
    let (first, meter) = (Anchor::take(), CostMeter::start());
    let request = run_request(grid, Series::Ticks);
    let output = program_output::measure_session_round(program, session, request, stop)?;
    let machine = meter.cost(&first, &Anchor::take());
    let samples = round_samples(grid, &output);
    let priced = PricedUsage::new(program, grid, &output, CostWindow::Session)?;
    let (cost, cost_ticks) = (round_cost(&output, &machine, &priced), priced.ticks);
    Ok(MeasuredProgram { start: output.started, samples, cost, cost_ticks, diagnosis: None })
}

/// Window in which the usage of a program was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CostWindow {
    /// From the first recorded tick to the last one, as the program reports it. All of the usage
    /// belongs to the ticks after the first.
    Ticks,
    /// From the start of a process to its exit. The usage of a run of a single tick is subtracted
    /// later. The rest belongs to the other ticks, including those of the warm-up, and to the
    /// writing of their lines; it is as uncertain as the usage of the start.
    Process,
    /// From the request for a round to the reply. The usage belongs to all ticks, including those
    /// of the warm-up, to the start of the round and to the writing of the series.
    Session,
}

/// The usage of a program in a round, and the ticks over which it is distributed.
struct PricedUsage {
    usage: TickUsage,
    window: CostWindow,
    ticks: u64,
}

impl PricedUsage {
    /// Returns the usage that the program reports, or else the usage in the window in which it was
    /// measured from outside.
    fn new(
        program: &Program,
        grid: Grid,
        output: &ProgramRound,
        outside: CostWindow,
    ) -> Result<Self, RunFailure> {
        if let Some(usage) = reported_usage(program, grid, output)? {
            return Ok(Self { usage, window: CostWindow::Ticks, ticks: grid.ticks - 1 });
        }
        let all_ticks = grid.first_tick + grid.ticks;
        let usage = TickUsage {
            window_ns: None,
            cpu_ns: output.usage.map(|usage| usage.cpu_ns),
            switches_voluntary: output.usage.and_then(|usage| usage.switches_voluntary),
            switches_involuntary: output.usage.and_then(|usage| usage.switches_involuntary),
        };
        let ticks = match outside {
            CostWindow::Process => (all_ticks - 1).max(1),
            _ => all_ticks,
        };
        Ok(Self { usage, window: outside, ticks })
    }
}

/// Maximum difference between the CPU time that a program counts and the one that the kernel reports
/// at its exit. Some kernels count whole ticks of their timer there.
const MAX_CPU_TIME_ERROR: Duration = Duration::from_millis(20);
/// The reciprocal of the maximum difference relative to the CPU time at the exit, which is 2 %. The
/// error of counting in whole ticks grows with their number.
const MAX_CPU_TIME_PARTS: u64 = 50;

/// Returns the usage between the first and the last recorded tick, if the program reports it for
/// its only process.
fn reported_usage(
    program: &Program,
    grid: Grid,
    output: &ProgramRound,
) -> Result<Option<TickUsage>, RunFailure> {
    let reported = output.series.usage.filter(|usage| usage.process == output.process);
    let window_ns = between_first_and_last_ns(grid.period_ns, &output.series.lateness_ns);
    let Some((reported, window_ns)) = reported.zip(window_ns) else { return Ok(None) };
    let used_ns = output.usage.map_or(u64::MAX, |usage| usage.cpu_ns);
    let reported_ns = reported.cpu_ns;
    if reported_ns > max_reported_ns(used_ns) {
        let fault = ProgramFault::ImpossibleCpuTime { reported_ns, used_ns };
        return Err(RunFailure::new(program, fault));
    }
    Ok(Some(TickUsage {
        window_ns: Some(window_ns),
        cpu_ns: Some(reported_ns),
        switches_voluntary: reported.switches_voluntary,
        switches_involuntary: reported.switches_involuntary,
    }))
}

/// Returns the maximum CPU time that a program can have counted, given that at its exit.
fn max_reported_ns(total_ns: u64) -> u64 {
    let error_ns = to_ns(MAX_CPU_TIME_ERROR).max(total_ns / MAX_CPU_TIME_PARTS);
    total_ns.saturating_add(error_ns)
}

/// Returns the time between the wake-ups of the first and the last tick; `None` if these are one.
fn between_first_and_last_ns(period_ns: u64, lateness_ns: &[i64]) -> Option<u64> {
    let (first, last) = (i128::from(*lateness_ns.first()?), i128::from(*lateness_ns.last()?));
    let planned_ns = i128::from(period_ns) * (lateness_ns.len() as i128 - 1);
    u64::try_from(planned_ns + last - first).ok().filter(|&ns| ns > 0)
}

/// Combines the usage of the program with the costs of the machine. The other costs that were
/// measured are those of this process.
fn round_cost(output: &ProgramRound, machine: &Cost, priced: &PricedUsage) -> Cost {
    Cost {
        window_ns: to_ns(output.wall),
        usage: priced.usage,
        includes_start: priced.window == CostWindow::Process,
        steal_ns: machine.steal_ns,
        throttled_ns: machine.throttled_ns,
        suspended_ns: machine.suspended_ns,
        killed_processes: output.usage.map_or(0, |usage| usage.killed_processes),
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
fn round_samples(grid: Grid, output: &ProgramRound) -> RoundSamples {
    let lateness_ns = &output.series.lateness_ns;
    RoundSamples {
        grid,
        ticks: (grid.first_tick..grid.first_tick + grid.ticks).collect(),
        lateness_ns: lateness_ns.clone(),
        until_unpark_ns: vec![None; lateness_ns.len()],
        coalesced: 0,
    }
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
    /// Difference from the run with the least CPU time.
    pub cpu_spread_ns: u64,
}

/// Maximum period at which the settings of a program are read, since that takes one period.
const MAX_READ_PERIOD: Duration = Duration::from_secs(1);

/// Reads the settings of the threads of a program in a run that is not measured; `None` if they are
/// not known. `start` is an earlier run of a single tick.
pub fn read_settings(
    program: &Program,
    period_ns: u64,
    start: ProgramStart,
    stop: &AtomicBool,
) -> Option<SubjectSettings> {
    let period = Duration::from_nanos(period_ns);
    if period > MAX_READ_PERIOD {
        return None;
    }
    let ticks = child::MIN_READ_LENGTH.as_nanos().div_ceil(period.as_nanos().max(1));
    let grid = Grid { period_ns, first_tick: 0, ticks: u64::try_from(ticks).ok()? };
    let request = run_request(grid, Series::Ticks);
    let limit = request.limit.saturating_add(start.duration);
    child::read_settings(program, RunRequest { limit, ..request }, stop)
}

/// Starts of the programs of a plan, by index of the scenario.
#[derive(Clone, Debug, Default)]
pub struct StartupCosts {
    /// Settings of the threads of the programs.
    settings: BTreeMap<usize, Option<SubjectSettings>>,
    /// The starts; `None` if they are unknown.
    starts: BTreeMap<usize, Option<ProgramStart>>,
    /// Scenarios whose programs get their rounds over standard input.
    sessions: Vec<usize>,
    /// Time limit of a start.
    timeout: Duration,
}

/// The programs of a plan that follow the contract, as a run of each for a single tick has shown.
pub struct CheckedPrograms<'a> {
    plan: &'a Plan,
    programs: Vec<CheckedProgram<'a>>,
    /// Time limit of a start.
    timeout: Duration,
}

struct CheckedProgram<'a> {
    program: &'a Program,
    period_ns: u64,
    /// Indices of the scenarios with this program and period, which differ only in their load.
    scenarios: Vec<usize>,
    first_run: Rehearsal,
}

impl<'a> CheckedPrograms<'a> {
    /// Runs each program of a plan for a single tick.
    ///
    /// This runs before anything is set up or measured: a program that does not follow the contract
    /// could block a CPU if it ran with a real-time class. `timeout` is the time limit of a start.
    ///
    /// # Errors
    ///
    /// Returns an error if a program does not exist or does not follow the contract.
    pub fn check(plan: &'a Plan, timeout: Duration, stop: &AtomicBool) -> exit::Result<Self> {
        let mut scenarios = Vec::new();
        for (index, scenario) in plan.scenarios.iter().enumerate() {
            if let Some(program) = scenario.subject.program() {
                program.check_exists()?;
                scenarios.push((index, program));
            }
        }
        let mut programs: Vec<CheckedProgram<'_>> = Vec::new();
        for (index, program) in scenarios {
            let period_ns = plan.scenarios[index].period_ns();
            let is_same =
                |p: &&mut CheckedProgram<'_>| (p.program, p.period_ns) == (program, period_ns);
            if let Some(checked) = programs.iter_mut().find(is_same) {
                checked.scenarios.push(index);
                continue;
            }
            let request = rehearsal_request(period_ns, timeout);
            let round = program_output::probe_round(program, request, stop);
            let first_run = judge_rehearsal(program, period_ns, round)?;
            programs.push(CheckedProgram { program, period_ns, scenarios: vec![index], first_run });
        }
        Ok(Self { plan, programs, timeout })
    }

    /// Measures the starts of the programs, and reads the settings of their threads.
    ///
    /// The programs inherit the settings of the calling thread, so those of the plan must be applied
    /// already.
    ///
    /// # Errors
    ///
    /// Returns an error if a program does not follow the contract.
    pub fn measure_starts(self, stop: &AtomicBool) -> exit::Result<StartupCosts> {
        // With the settings of the plan, the first run may have had other costs.
        let counts_first_run = self.plan.tuning == tuning::Settings::default();
        let mut costs = StartupCosts { timeout: self.timeout, ..StartupCosts::default() };
        for checked in &self.programs {
            let start = checked.measure_start(counts_first_run, self.timeout, stop)?;
            let settings = start
                .and_then(|start| read_settings(checked.program, checked.period_ns, start, stop));
            for scenario in &checked.scenarios {
                costs.starts.insert(*scenario, start);
                costs.settings.insert(*scenario, settings.clone());
                if matches!(checked.first_run, Rehearsal::TakesRounds) {
                    costs.sessions.push(*scenario);
                }
            }
        }
        Ok(costs)
    }
}

impl CheckedProgram<'_> {
    /// Runs the program several times for a single tick. Returns the run with the median CPU time, or
    /// `None` if the start is unknown.
    ///
    /// # Errors
    ///
    /// Returns an error if the program does not follow the contract.
    fn measure_start(
        &self,
        counts_first_run: bool,
        timeout: Duration,
        stop: &AtomicBool,
    ) -> exit::Result<Option<ProgramStart>> {
        // The start is not part of rounds over standard input, so a single one is enough.
        let (mut starts, runs) = match self.first_run {
            Rehearsal::Unknown => return Ok(None),
            Rehearsal::TakesRounds => (Vec::new(), 1),
            Rehearsal::Start(first) if counts_first_run => (vec![first], STARTUP_RUNS),
            Rehearsal::Start(_) => (Vec::new(), STARTUP_RUNS),
        };
        while starts.len() < runs && starts.iter().all(|start| start.duration <= LONG_STARTUP_TIME)
        {
            let Some(start) = rehearse(self.program, self.period_ns, timeout, stop)? else {
                return Ok(None);
            };
            starts.push(start);
        }
        starts.sort_by_key(|start| start.usage.cpu_ns);
        let min_ns = starts.first().map_or(0, |start| start.usage.cpu_ns);
        let mut median = starts.get(starts.len() / 2).copied();
        if let Some(start) = &mut median {
            start.cpu_spread_ns = start.usage.cpu_ns - min_ns;
        }
        Ok(median)
    }
}

impl StartupCosts {
    /// Returns the time limit of the start of a program that gets its rounds over standard input;
    /// `None` for any other program.
    pub fn session_timeout(&self, scenario: usize) -> Option<Duration> {
        self.sessions.contains(&scenario).then_some(self.timeout)
    }

    /// Returns the start of the program of a scenario, if it is known.
    pub fn get(&self, scenario: usize) -> Option<ProgramStart> {
        *self.starts.get(&scenario)?
    }

    /// Describes the work outside of the ticks that the cost of a program contains if the program
    /// does not report its usage. `ticks` is the number of ticks over which it is distributed.
    pub fn describe_outside(&self, scenario: usize, ticks: u64) -> String {
        let Some(start) = self.get(scenario).filter(|_| !self.sessions.contains(&scenario)) else {
            return "the start of each round, its warm-up and the writing of its ticks".to_owned();
        };
        let error = format_unsigned_time(start.cpu_spread_ns / ticks.max(1));
        format!(
            "its warm-up and the writing of its ticks, and may be wrong by about {error} because the start is subtracted"
        )
    }

    /// Returns the settings of the threads of the program of a scenario, if they are known.
    pub fn settings(&self, scenario: usize) -> Option<SubjectSettings> {
        self.settings.get(&scenario)?.clone()
    }

    /// Returns the time that all starts of a run of the plan take.
    pub fn total_duration(&self, plan: &Plan) -> Duration {
        let mut total = Duration::ZERO;
        for (index, scenario) in plan.scenarios.iter().enumerate() {
            let start = self.get(index).unwrap_or_default();
            let processes = match self.sessions.contains(&index) {
                // Profiled rounds are processes of their own.
                true => 1 + scenario.rounds().saturating_mul(u64::from(plan.turns()) - 1),
                false => scenario.rounds().saturating_mul(plan.turns().into()),
            };
            let rounds = u32::try_from(processes).unwrap_or(u32::MAX);
            total = total.saturating_add(start.duration.saturating_mul(rounds));
        }
        total
    }

    /// Subtracts the CPU time of the start from the cost of a round.
    ///
    /// If the start is most of the CPU time, the remainder is unknown. Context switches are
    /// unchanged, since those of a start cannot be distinguished from those of a busy machine.
    pub fn subtract_startup(&self, scenario: usize, cost: Cost) -> Cost {
        let Some(start) = self.starts.get(&scenario).filter(|_| cost.includes_start) else {
            return cost;
        };
        let usage = cost.usage;
        let cpu_ns = start.and_then(|start| {
            let startup_ns = start.usage.cpu_ns;
            usage.cpu_ns?.checked_sub(startup_ns).filter(|&rest_ns| rest_ns >= startup_ns)
        });
        Cost { usage: TickUsage { cpu_ns, ..usage }, ..cost }
    }
}

/// Result of a run of a program for a single tick.
enum Rehearsal {
    Start(ProgramStart),
    /// The program gets its rounds over standard input, which was empty.
    TakesRounds,
    /// The run was interrupted, or the program writes a number of ticks of its own.
    Unknown,
}

/// Returns the request for a run of a single tick.
fn rehearsal_request(period_ns: u64, timeout: Duration) -> RunRequest {
    let period = Duration::from_nanos(period_ns);
    let grid = Grid { period_ns, first_tick: 0, ticks: 1 };
    let limit = timeout.saturating_add(period.saturating_mul(REHEARSAL_PERIODS));
    RunRequest { limit, ..run_request(grid, Series::Ticks) }
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
    let request = rehearsal_request(period_ns, timeout);
    let round = program_output::measure_round(program, request, stop);
    match judge_rehearsal(program, period_ns, round.map(Some))? {
        Rehearsal::Start(start) => Ok(Some(start)),
        Rehearsal::TakesRounds | Rehearsal::Unknown => Ok(None),
    }
}

fn judge_rehearsal(
    program: &Program,
    period_ns: u64,
    round: Result<Option<ProgramRound>, RunFailure>,
) -> exit::Result<Rehearsal> {
    let period = Duration::from_nanos(period_ns);
    match round {
        Ok(None) => Ok(Rehearsal::TakesRounds),
        Ok(Some(ProgramRound { usage, wall, .. })) => {
            let usage = usage.unwrap_or_default();
            let duration = wall.saturating_sub(period);
            Ok(Rehearsal::Start(ProgramStart { usage, duration, cpu_spread_ns: 0 }))
        }
        Err(RunFailure::WrongTickCount { .. } | RunFailure::Interrupted) => Ok(Rehearsal::Unknown),
        Err(failure @ (RunFailure::Failed { .. } | RunFailure::TimedOut { .. })) => {
            Err(Error::from(failure).with_advice(contract_advice(program, period_ns)))
        }
        Err(failure) => Err(Error::from(failure)),
    }
}

/// Describes meters, and the two lines that add one to a loop.
const METER_PAGE: &str = "https://github.com/osjitter/osjitter/blob/main/docs/src/watching.md";

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
        format!("a meter in its loop does all of this: {METER_PAGE}"),
        "without a change of the program:".to_owned(),
        format!("  osjitter trace -- {text}    its timers, from outside (Linux, as root)"),
        format!(
            "  osjitter gate --metric wall --base-cmd OLD --candidate-cmd {}    its whole runs, if \
             it ends by itself",
            shlex::try_quote(text).unwrap_or_default()
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_cpu_time_has_tolerance() {
        assert_eq!(max_reported_ns(0), 20_000_000);
        assert_eq!(max_reported_ns(1_000_000_000), 1_020_000_000);
        assert_eq!(max_reported_ns(10_000_000_000), 10_200_000_000);
        assert_eq!(max_reported_ns(u64::MAX), u64::MAX);
    }

    #[test]
    fn startup_is_subtracted_from_costs() {
        let usage = TreeUsage { cpu_ns: 40, ..TreeUsage::default() };
        let start = ProgramStart { usage, ..ProgramStart::default() };
        let starts = BTreeMap::from_iter([(1, Some(start)), (2, None)]);
        let starts = StartupCosts { starts, ..StartupCosts::default() };
        let includes_start = true;
        let remainder = |scenario, cpu_ns| {
            starts
                .subtract_startup(
                    scenario,
                    Cost {
                        usage: TickUsage { cpu_ns: Some(cpu_ns), ..TickUsage::default() },
                        includes_start,
                        ..Cost::default()
                    },
                )
                .usage
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
