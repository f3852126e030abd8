//! Warnings about the numbers of a run.

use std::time::Duration;

use cli::time::format_time;
use cli::words::pluralize;
use files::report::{Host, Warning};
use files::summary::Pool;

use crate::measure::excluded_rounds::{change_warning, exclusion_warning};
use crate::measure::program::StartupCosts;
use crate::program::Program;
use crate::scenario::{Plan, Scenario};
use crate::subject::RuntimeKind;

use super::scenario_rounds::{MAX_KEPT_ROUNDS, ScenarioRounds};

/// Returns the warnings of a run: those about all of it, then those about its scenarios.
pub(super) fn run_warnings(
    host: &Host,
    plan: &Plan,
    starts: &StartupCosts,
    suspended: Option<Duration>,
    rounds: &[ScenarioRounds],
) -> Vec<Warning> {
    let pools = rounds.iter().filter_map(|r| r.pool.as_ref());
    let builtin = plan.scenarios.iter().filter_map(|s| s.subject.as_builtin());
    let is_scripted = { builtin }.any(|subject| subject.runtime_kind == RuntimeKind::Script);
    let program = plan.scenarios.iter().find_map(|s| s.subject.program());
    let warnings = [
        suspended.filter(|length| !length.is_zero()).map(suspended_warning),
        pools.map(Pool::rounds).max().map(dropped_rounds_warning),
        is_scripted.then(scripted_warning),
        program.filter(|_| plan.tuning.mlock).map(unlocked_program_warning),
        tach::why_not_counter().map(|why| os_clock_warning(&why.to_string())),
        host.quota_cpus.map(quota_warning),
    ];
    let mut warnings: Vec<Warning> = warnings.into_iter().flatten().collect();
    warnings.extend(startup_warnings(plan, starts, rounds));
    warnings.extend(window_warnings(plan, starts, rounds));
    warnings.extend(single_tick_warnings(plan, rounds));
    warnings.extend(left_over_warnings(plan, rounds));
    warnings.extend(exclusion_warnings(plan, rounds));
    warnings
}

/// Returns warnings for programs whose cost per tick is unknown.
fn startup_warnings(plan: &Plan, starts: &StartupCosts, rounds: &[ScenarioRounds]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (index, (scenario, rounds)) in plan.scenarios.iter().zip(rounds).enumerate() {
        let is_unknown = rounds.kept.iter().any(|round| round.cost.usage.cpu_ns.is_none());
        let Some(startup) = starts.get(index).filter(|_| is_unknown) else { continue };
        let cost = format_time(i64::try_from(startup.usage.cpu_ns).unwrap_or(i64::MAX));
        warnings.push(Warning::new("command-start", format!(
                "starting {} takes {cost} of CPU time, in some rounds more than all its ticks, so the CPU time per tick is unknown",
                scenario.id
            ), "use longer rounds: --round-ticks"));
    }
    warnings
}

/// Returns warnings for programs whose cost was counted in a longer window than that of their
/// ticks.
fn window_warnings(plan: &Plan, starts: &StartupCosts, rounds: &[ScenarioRounds]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (index, (scenario, rounds)) in plan.scenarios.iter().zip(rounds).enumerate() {
        let costs = rounds.kept.iter().map(|round| &round.cost.usage);
        let is_counted_outside =
            { costs }.any(|usage| usage.cpu_ns.is_some() && usage.window_ns.is_none());
        if scenario.subject.program().is_none() || !is_counted_outside {
            continue;
        }
        let ticks = rounds.kept.iter().flat_map(|round| &round.instances).map(|i| i.cost_ticks);
        let outside = starts.describe_outside(index, ticks.min().unwrap_or(1));
        warnings.push(Warning::new(
            "command-window",
            format!("the CPU time per tick of {} includes {outside}", scenario.id),
            "let the program write its usage between ticks, as a meter of tickmeter does",
        ));
    }
    warnings
}

/// Returns warnings for subjects whose rounds have a single tick and no tick before it, so that
/// their CPU time has no window.
fn single_tick_warnings(plan: &Plan, rounds: &[ScenarioRounds]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (scenario, rounds) in plan.scenarios.iter().zip(rounds) {
        let is_single = scenario.round_ticks.min(scenario.ticks) == 1 && scenario.warmup_ticks == 0;
        let is_unknown = rounds.kept.iter().any(|round| round.cost.usage.cpu_ns.is_none());
        if !is_single || !is_unknown || scenario.subject.program().is_some() {
            continue;
        }
        warnings.push(Warning::new(
            "single-tick",
            format!(
                "the rounds of {} are a single tick, so the CPU time per tick is unknown",
                scenario.id
            ),
            "use --warmup 1",
        ));
    }
    warnings
}

/// Returns warnings for programs that leave processes running.
fn left_over_warnings(plan: &Plan, rounds: &[ScenarioRounds]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (scenario, rounds) in plan.scenarios.iter().zip(rounds) {
        if rounds.killed_processes > 0 {
            warnings.push(Warning::new("left-over-processes", format!(
                    "processes of {} still ran when it had exited, and were killed ({} in all rounds): their work is missing from its costs",
                    scenario.id, rounds.killed_processes
                ), "let the program wait for its processes"));
        }
    }
    warnings
}

/// Returns warnings for subjects with rounds during which a setting changed.
fn exclusion_warnings(plan: &Plan, rounds: &[ScenarioRounds]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (Scenario { id, .. }, rounds) in plan.scenarios.iter().zip(rounds) {
        warnings.extend(exclusion_warning(id, &rounds.excluded));
        let profiled = &rounds.changes_while_profiled;
        let count = pluralize(profiled.len() as u64, "profiled round");
        warnings.extend(change_warning(id, &count, profiled.iter().flatten()));
    }
    warnings
}

/// Returns the warning about the one setting of a plan that programs do not inherit.
fn unlocked_program_warning(program: &Program) -> Warning {
    Warning::new(
        "mlock-program",
        format!(
            "--mlock locks the memory of osjitter, but not that of programs such as {}",
            program.name()
        ),
        "let the program call mlockall itself",
    )
}

fn suspended_warning(length: Duration) -> Warning {
    Warning::new(
        "suspended",
        format!("the machine was suspended for {:.1} s during the run", length.as_secs_f64()),
        "the round in which it happened is invalid; measure again on a machine that stays awake",
    )
}

fn dropped_rounds_warning(rounds: u64) -> Warning {
    Warning::new(
        "rounds-drawn",
        format!(
            "the report keeps {MAX_KEPT_ROUNDS} random rounds of up to {rounds} of each subject; percentiles cover all ticks, \
             with three digits"
        ),
        "confidence intervals use only these rounds and are wider; run without --no-samples to keep all",
    )
}

fn scripted_warning() -> Warning {
    Warning::new(
        "scripted",
        "scripted subjects replay a file: their numbers were not measured",
        "use them only to test osjitter",
    )
}

fn os_clock_warning(why_not_counter: &str) -> Warning {
    Warning::new(
        "os-clock",
        format!("timestamps come from the OS clock: {why_not_counter}"),
        "each timestamp costs tens of nanoseconds more; on Linux, the clock source tsc avoids that",
    )
}

fn quota_warning(cpus: f64) -> Warning {
    Warning::new(
        "cpu-quota",
        format!("the control group allows {cpus:.2} CPUs, and throttling looks like lateness"),
        "measure without a CPU limit",
    )
}
