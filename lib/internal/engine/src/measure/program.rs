//! Rounds of a program of the user's: a process each, which measures itself and writes what it saw.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use jitterstat::sample::{Grid, RoundSamples};
use tach::Anchor;

use crate::machine::os::TreeUsage;
use crate::measure::child::{self, RunFailure, RunRequest, Series};
use crate::measure::cost::{Cost, CostMeter};
use crate::measure::program_output::{self, ProgramRound};
use crate::measure::why::external_program::{FinishedProgram, ProgramProfiler};
use crate::measure::why::{Profiler, RoundDiagnosis};
use crate::program::Program;
use crate::scenario::Plan;
use cli::exit::{self, Error};
use cli::time::format_time;

/// What one round of a program came to.
pub struct Round {
    /// When it was started.
    pub start: Instant,
    pub samples: RoundSamples,
    /// Of the whole process, which ran for this round alone.
    pub cost: Cost,
    /// Why its ticks were late, where it was asked.
    pub why: Option<RoundDiagnosis>,
}

/// Runs one round; `why` has its index where it is asked why its ticks are late.
pub fn round(
    program: &Program,
    grid: Grid,
    stop: &AtomicBool,
    why: Option<(&Profiler, u64)>,
) -> Result<Round, String> {
    let outside = why.map(|(session, index)| {
        (ProgramProfiler::begin(session, Duration::from_nanos(grid.period_ns)), index)
    });
    let (first, before) = (Anchor::take(), CostMeter::start());
    let asked = asked(grid, if outside.is_some() { Series::TicksWithTimes } else { Series::Ticks });
    let written = program_output::measure_round(program, asked, stop)
        .map_err(|why| why.message().unwrap_or_default())?;
    let machine = before.cost(&first, &Anchor::take());
    let samples = samples(program, grid, &written)?;
    let why = outside.map(|(outside, index)| {
        let round = FinishedProgram {
            index,
            grid,
            name: &program.name(),
            written: &written,
            steal_ns: machine.steal_ns,
        };
        outside.answer(&round)
    });
    let why = why.transpose()?;
    let ProgramRound { started, wall, usage, .. } = written;
    let cost = Cost {
        window_ns: ns(wall),
        cpu_ns: Some(usage.cpu_ns),
        switches_voluntary: usage.switches_voluntary,
        switches_involuntary: usage.switches_involuntary,
        // What is known of the machine; the rest would be of this process.
        steal_ns: machine.steal_ns,
        throttled_ns: machine.throttled_ns,
        suspended_ns: machine.suspended_ns,
        ..Cost::default()
    };
    Ok(Round { start: started, samples, cost, why })
}

fn asked(grid: Grid, series: Series) -> RunRequest {
    let period = Duration::from_nanos(grid.period_ns);
    let ticks = u32::try_from(grid.first_tick + grid.ticks).unwrap_or(u32::MAX);
    let limit = child::hang_timeout(period.saturating_mul(ticks));
    RunRequest { period, ticks: grid.ticks, warmup: grid.first_tick, series, limit }
}

/// Every tick of a series was delivered.
fn samples(program: &Program, grid: Grid, written: &ProgramRound) -> Result<RoundSamples, String> {
    let longest = ns(written.wall);
    if let Some(far) = written.series.lateness_ns.iter().find(|late| late.unsigned_abs() > longest)
    {
        let [far, ran] = [*far, i64::try_from(longest).unwrap_or(i64::MAX)].map(format_time);
        return Err(format!(
            "{}: wrote a lateness of {far}, and ran for {ran} itself",
            program.text()
        ));
    }
    Ok(RoundSamples {
        grid,
        ticks: (grid.first_tick..grid.first_tick + grid.ticks).collect(),
        lateness_ns: written.series.lateness_ns.clone(),
        until_unpark_ns: vec![None; written.series.lateness_ns.len()],
        coalesced: 0,
    })
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Runs of a single tick before the first round; the first of them fills the caches.
const REHEARSALS: usize = 3;
/// A program that takes longer to start is not started again for that.
const SLOW_START: Duration = Duration::from_secs(1);

/// What starting a program costs, by the place of its scenario in the plan; `None` where it is not
/// known.
#[derive(Clone, Debug, Default)]
pub struct StartupCosts(BTreeMap<usize, Option<TreeUsage>>);

impl StartupCosts {
    /// Runs each program of a plan for a single tick, before anything is measured: one that cannot
    /// be started, or ticks at another period, is refused while nothing is lost. Whatever else goes
    /// wrong is said of the round in which it does.
    ///
    /// # Errors
    /// A program is not there, or ticks at another period than it is asked to.
    pub fn measure(plan: &Plan, stop: &AtomicBool) -> exit::Result<Self> {
        let all = || {
            let programs = plan.scenarios.iter().enumerate();
            programs.filter_map(|(place, s)| Some((place, (s.subject.program()?, s.period_ns()))))
        };
        all().try_for_each(|(_, (program, _))| program.check_exists()).map_err(Error::usage)?;
        let mut starts = BTreeMap::new();
        for (place, asked) in all() {
            // BackgroundProcess another load it is the same program.
            let twin =
                all().take_while(|(other, _)| *other < place).find(|(_, other)| *other == asked);
            let known = twin.and_then(|(other, _)| starts.get(&other).copied());
            let start =
                known.map_or_else(|| start(asked.0, asked.1, stop), Ok).map_err(Error::usage)?;
            starts.insert(place, start);
        }
        Ok(Self(starts))
    }

    /// What starting the program of a scenario took.
    pub fn get(&self, scenario: usize) -> Option<TreeUsage> {
        *self.0.get(&scenario)?
    }

    /// The cost of a round without the CPU time of the start; where that is most of it, the rest is
    /// not known. Switches are too few to tell a start's from those of a busy machine: they stay.
    pub fn subtract_startup(&self, scenario: usize, cost: Cost) -> Cost {
        let Some(start) = self.0.get(&scenario) else { return cost };
        let rest = |start: TreeUsage| {
            cost.cpu_ns?.checked_sub(start.cpu_ns).filter(|rest| *rest >= start.cpu_ns)
        };
        Cost { cpu_ns: start.and_then(rest), ..cost }
    }
}

/// The median run of a single tick, by its CPU time; `Err` where the plan is refused.
fn start(
    program: &Program,
    period_ns: u64,
    stop: &AtomicBool,
) -> Result<Option<TreeUsage>, String> {
    let grid = Grid { period_ns, first_tick: 0, ticks: 1 };
    let mut runs = Vec::new();
    while runs.len() < REHEARSALS {
        match program_output::measure_round(program, asked(grid, Series::Ticks), stop) {
            Ok(ProgramRound { usage, wall, .. }) => {
                runs.push(usage);
                if wall > SLOW_START.saturating_add(Duration::from_nanos(period_ns)) {
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
    fn a_start_is_taken_off_and_where_it_is_most_of_a_round_the_rest_is_unknown() {
        let start = TreeUsage { cpu_ns: 40, ..TreeUsage::default() };
        let starts = StartupCosts(BTreeMap::from([(1, Some(start)), (2, None)]));
        let off = |scenario, cpu_ns| {
            starts
                .subtract_startup(scenario, Cost { cpu_ns: Some(cpu_ns), ..Cost::default() })
                .cpu_ns
        };
        assert_eq!(
            [off(1, 100), off(1, 80), off(1, 79), off(1, 39)],
            [Some(60), Some(40), None, None]
        );
        assert_eq!(
            [off(0, 39), off(2, 100)],
            [Some(39), None],
            "not a program, and a start that is not known"
        );
    }
}
