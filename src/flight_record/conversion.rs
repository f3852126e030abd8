//! Conversion of diagnosed ticks, switches and CPUs to the parts of a flight record.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

use engine::machine::os;
use files::report::why::Behind;
use files::why::pool::ProfiledTick;
use files::why::stacks::{StackSample, find_late_code};
use files::why::{
    CpuInterval, CpuIntervals, IDLE_THREAD, MeasurableParts, Switch, SwitchKind, Thread,
};

use crate::flight_record::{CpuAssignment, FlightRound, FlightSample, FlightSwitch, FlightTick};

/// Maximum number of samples of a round.
const MAX_SAMPLES: usize = 5_000;

/// Returns the calendar time of a past moment.
#[allow(clippy::disallowed_methods, reason = "a record contains calendar times")]
pub fn calendar_time(at: Instant) -> String {
    let at = SystemTime::now() - Instant::now().saturating_duration_since(at);
    humantime::format_rfc3339_micros(at).to_string()
}

impl FlightTick {
    /// Creates a tick with the cause of its lateness, if it is known.
    pub fn new(
        tick: u64,
        deadline_ns: i64,
        lateness_ns: i64,
        cause: Option<&ProfiledTick>,
        known: MeasurableParts,
    ) -> Self {
        let causes_ns = cause.map(|cause| cause.parts.shares(known));
        let behind = cause.and_then(threads_behind);
        let overdue_ns = u64::try_from(lateness_ns).unwrap_or(0);
        let code = cause
            .and_then(|cause| find_late_code(&cause.stacks, overdue_ns, os::SAMPLE_INTERVAL_NS));
        Self { tick, deadline_ns, lateness_ns, causes_ns, behind, code }
    }
}

impl FlightRound {
    /// Adds the names of the threads that were given a CPU, as far as `find` returns them.
    pub fn name_threads(&mut self, mut find: impl FnMut(u32) -> Option<String>) {
        let assignments = self.assignments.iter_mut().flatten();
        for assignment in assignments.filter(|assignment| assignment.thread != IDLE_THREAD) {
            assignment.comm = find(assignment.thread);
        }
    }
}

/// Converts the samples of late ticks, of which several may have the same; `None` if there are
/// none.
pub fn flight_samples<'a>(
    ticks: impl Iterator<Item = &'a ProfiledTick>,
) -> Option<Vec<FlightSample>> {
    let mut unique: BTreeMap<(i64, u32), FlightSample> = BTreeMap::new();
    for sample in ticks.flat_map(|tick| &tick.stacks) {
        let StackSample { at_ns, thread, .. } = *sample;
        let convert = || {
            let outermost_first = sample.names().into_iter().rev().map(str::to_owned);
            FlightSample { at_ns, thread, frames: outermost_first.collect() }
        };
        unique.entry((at_ns, thread)).or_insert_with(convert);
    }
    let samples: Vec<FlightSample> = unique.into_values().take(MAX_SAMPLES).collect();
    (!samples.is_empty()).then_some(samples)
}

/// Returns the threads that ran while a tick waited, if they are known.
fn threads_behind(tick: &ProfiledTick) -> Option<Vec<Behind>> {
    let behind = tick.behind.iter().map(|(comm, ns)| Behind { comm: comm.clone(), ns: *ns });
    let behind: Vec<Behind> = behind.collect();
    (!behind.is_empty()).then_some(behind)
}

/// Converts the switches of threads, of which each has its index; `None` if there are none.
pub fn flight_switches(threads: &[Thread]) -> Option<Vec<FlightSwitch>> {
    let mut switches = Vec::new();
    for (thread, recorded) in (0..).zip(threads) {
        for &Switch { at_ns, cpu, kind } in recorded.switches.iter().flatten() {
            let kind = switch_kind_name(kind).to_owned();
            switches.push(FlightSwitch { at_ns, thread, cpu, kind });
        }
    }
    switches.sort_by_key(|switch| switch.at_ns);
    (!switches.is_empty()).then_some(switches)
}

/// Converts the occupants of the CPUs, without names; `None` if they were not recorded.
pub fn cpu_assignments(occupants: &CpuIntervals) -> Option<Vec<CpuAssignment>> {
    let mut assignments = Vec::new();
    for (&cpu, turns) in occupants {
        let convert =
            |o: &CpuInterval| CpuAssignment { at_ns: o.at_ns, cpu, thread: o.thread, comm: None };
        assignments.extend(turns.iter().map(convert));
    }
    assignments.sort_by_key(|assignment| (assignment.at_ns, assignment.cpu));
    (!occupants.is_empty()).then_some(assignments)
}

fn switch_kind_name(kind: SwitchKind) -> &'static str {
    match kind {
        SwitchKind::On => "on",
        SwitchKind::Preempted => "preempted",
        SwitchKind::Waits => "waits",
    }
}
