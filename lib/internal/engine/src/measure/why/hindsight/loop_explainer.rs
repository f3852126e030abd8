//! Explanation of the late ticks of one loop by recorded switches.

use std::collections::BTreeMap;
use std::time::Instant;

use files::why::external_process::{self, ReconstructedRound, WatchedThread};
use files::why::pool::ProfiledTick;
use files::why::{CpuIntervals, MeasurableParts, RoundConditions, Switch, SwitchKind, Thread};

use crate::machine::os::{self, PastSwitches};
use crate::measure::late_tick_log::AccountedTick;
use crate::measure::why::hindsight::stack_watch::PastStacks;
use crate::measure::why::kernel_clock::KernelClock;
use crate::measure::why::occupants::{ThreadNames, ThreadSwitches, add_occupants, group_by_thread};
use crate::measure::why::round_diagnosis::MAX_PATH_NS;
use crate::measure::why::thread_samples::{self, ThreadSamples};
use crate::measure::why::tick_attribution::{IndexedTick, RoundEvidence};
use cli::units::ns_after;

/// Error of the calendar time at which a tick of another process came.
const MAX_TIME_ERROR_NS: i64 = 2_000_000;
/// Maximum delay of the handler of the signal that continues the process.
const MAX_HANDLER_DELAY_NS: i64 = 10_000_000;
/// Index of a tick that was not late, and only marks the start of a late one's accounts.
const PREVIOUS_TICK: u64 = u64::MAX;

/// A loop with late ticks.
#[derive(Clone, Debug)]
pub struct LateLoop {
    /// Numbers of the threads that may have run the ticks.
    pub threads: Vec<u32>,
    /// Whether the loop runs in this process, so that its times and accounts are exact.
    pub is_own: bool,
    /// Late ticks in order of time.
    pub ticks: Vec<AccountedTick>,
}

/// Conditions during the recorded time that the kernel only counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct PastConditions {
    pub steal_ns: u64,
    /// Period of the CPU quota of this process, if it has one.
    pub quota_period_ns: Option<u64>,
}

/// The late ticks of a loop with their causes.
#[derive(Clone, Debug, Default)]
pub struct ExplainedLoop {
    pub known: MeasurableParts,
    /// The late ticks whose thread was recorded, in order of time.
    pub ticks: Vec<ProfiledTick>,
    /// The threads that ran ticks.
    pub threads: Vec<Thread>,
}

/// The contents of all rings, on the time line of a record.
pub struct RecordedSwitches {
    by_thread: ThreadSwitches,
    pub occupants: Option<CpuIntervals>,
    /// The last names of threads, of which each may have started several programs.
    pub names: ThreadNames,
    /// Time from which on no record is missing in any ring.
    pub complete_from_ns: i64,
    /// As before, for the threads of programs that are not recorded by CPU.
    programs_complete_from_ns: BTreeMap<u32, i64>,
}

impl RecordedSwitches {
    pub fn new(past: Vec<PastSwitches>, has_all_cpus: bool, clock: &KernelClock) -> Self {
        let by_thread = group_by_thread(past.iter().map(|past| &past.records), clock);
        let mut occupants = CpuIntervals::new();
        let mut names = Vec::new();
        let mut complete_from_ns = i64::MIN;
        for PastSwitches { records, complete_from_ns: from_ns } in past {
            complete_from_ns = complete_from_ns.max(clock.ns(from_ns));
            add_occupants(&mut occupants, &records.switches, clock);
            names.extend(records.names);
        }
        names.sort_by_key(|named| named.at_ns);
        let names = ThreadNames::new(names.into_iter().map(|named| (named.thread, named.name)));
        let occupants = has_all_cpus.then_some(occupants);
        let programs_complete_from_ns = BTreeMap::new();
        Self { by_thread, occupants, names, complete_from_ns, programs_complete_from_ns }
    }

    /// Adds the switches of threads of programs, which were recorded with their stacks.
    pub fn add_program_threads(&mut self, past: &[PastStacks], clock: &KernelClock) {
        for PastStacks { thread, records, is_cut } in past {
            let switches: Vec<Switch> = records.switches.iter().map(|s| clock.switch(s)).collect();
            let oldest_sample = records.samples.first().map(|sample| clock.ns(sample.at_ns));
            let oldest = switches.first().map(|switch| switch.at_ns).min(oldest_sample);
            let from_ns = if *is_cut { oldest.unwrap_or(i64::MAX) } else { i64::MIN };
            self.programs_complete_from_ns.insert(*thread, from_ns);
            self.by_thread.insert(*thread, switches);
        }
    }
}

/// Explains the late ticks of one loop.
pub struct LoopExplainer<'a> {
    pub late_loop: &'a LateLoop,
    pub recorded: &'a RecordedSwitches,
    pub origin: Instant,
    pub conditions: PastConditions,
}

/// Ticks in the form in which [`external_process`] reconstructs them.
#[derive(Default)]
struct TickSequence {
    /// Numbers of the late ticks; [`PREVIOUS_TICK`] for those before them.
    numbers: Vec<u64>,
    /// Deadlines and wake-ups.
    times: Vec<(i64, i64)>,
    /// Total time for which the thread had waited for a CPU.
    waited_ns: Vec<u64>,
    /// Number of throttled periods before each tick.
    throttled: Vec<u64>,
}

impl TickSequence {
    fn push(&mut self, number: u64, deadline_ns: i64, wake_ns: i64, accounts: (u64, u64)) {
        let (waited_ns, throttled) = accounts;
        let total_ns = self.waited_ns.last().copied().unwrap_or(0);
        self.numbers.push(number);
        self.times.push((deadline_ns, wake_ns));
        self.waited_ns.push(total_ns.saturating_add(waited_ns));
        self.throttled.push(throttled);
    }
}

impl LoopExplainer<'_> {
    pub fn explain(
        &self,
        clock: &KernelClock,
        names: &mut ThreadNames,
        samples: Option<&mut ThreadSamples<'_>>,
    ) -> ExplainedLoop {
        let watched = self.watched_threads();
        let has_accounts = self.late_loop.ticks.iter().any(|tick| tick.accounts.is_some());
        let sequence = self.tick_sequence(&watched, has_accounts);
        let waited_ns = has_accounts.then_some(sequence.waited_ns.as_slice());
        let occupants = self.recorded.occupants.as_ref();
        let mut seen = external_process::reconstruct(
            &sequence.times, waited_ns, &watched, occupants, MAX_PATH_NS,
        );
        let conditions = self.round_conditions(&seen, &sequence, clock);
        if conditions.quota_period_ns.is_some() {
            add_throttled(&mut seen.threads, &sequence);
        }
        let evidence = RoundEvidence {
            threads: &seen.threads,
            conditions: &conditions,
            occupants,
            chains: None,
        };
        let indexed = sequence.numbers.iter().zip(&seen.ticks);
        let ticks: Vec<IndexedTick> =
            indexed.map(|(&index, &tick)| IndexedTick { index, tick }).collect();
        let mut attributed = evidence.attribute(0, &ticks, names);
        if let Some(samples) = samples {
            thread_samples::add_stacks(&mut attributed, &seen.ticks, &watched, samples);
        }
        let mut explained = Vec::new();
        for (tick, seen_tick) in attributed.into_iter().zip(&seen.ticks) {
            let is_recorded = seen_tick.thread < seen.threads.len() && self.is_complete(&tick);
            if is_recorded && tick.tick != PREVIOUS_TICK {
                explained.push(tick);
            }
        }
        ExplainedLoop {
            known: conditions.known(),
            ticks: explained,
            threads: seen.running_threads(),
        }
    }

    /// Returns whether no record of the time of a tick is missing. Of a program that is not recorded
    /// by CPU, only the wake-up is required: its threads are recorded for as long as they were idle,
    /// and the last samples of a busy one suffice.
    fn is_complete(&self, tick: &ProfiledTick) -> bool {
        if self.late_loop.is_own || self.recorded.occupants.is_some() {
            return tick.deadline_ns >= self.recorded.complete_from_ns;
        }
        let programs = &self.recorded.programs_complete_from_ns;
        let threads = self.late_loop.threads.iter().filter_map(|thread| programs.get(thread));
        threads.max().is_some_and(|from_ns| tick.wake_ns >= *from_ns)
    }

    fn watched_threads(&self) -> Vec<WatchedThread> {
        let mut watched = Vec::new();
        for &id in &self.late_loop.threads {
            if let Some(switches) = self.recorded.by_thread.get(&id) {
                watched.push(WatchedThread { id, switches: switches.clone() });
            }
        }
        watched
    }

    /// Returns the late ticks, each after the tick from which on its thread's accounts count. If
    /// some have accounts, those without are left out.
    fn tick_sequence(&self, watched: &[WatchedThread], has_accounts: bool) -> TickSequence {
        let mut sequence = TickSequence::default();
        let ticks = self.late_loop.ticks.iter();
        for tick in ticks.filter(|tick| !has_accounts || tick.accounts.is_some()) {
            let ns = |at| ns_after(at, self.origin);
            let (mut deadline_ns, mut wake_ns) = (ns(tick.due), ns(tick.wake));
            if let Some(accounts) = &tick.accounts {
                let previous_ns = ns(accounts.previous_wake);
                if sequence.times.last().is_none_or(|(_, last_ns)| *last_ns < previous_ns) {
                    sequence.push(PREVIOUS_TICK, previous_ns, previous_ns, (0, 0));
                }
            }
            if !self.late_loop.is_own {
                let shift_ns = distance_to_turn(watched, wake_ns);
                (deadline_ns, wake_ns) = (deadline_ns - shift_ns, wake_ns - shift_ns);
            }
            let accounts = tick.accounts.map_or((0, 0), |a| (a.waited_ns, a.throttled));
            sequence.push(tick.number, deadline_ns, wake_ns, accounts);
        }
        sequence
    }

    fn round_conditions(
        &self,
        seen: &ReconstructedRound,
        sequence: &TickSequence,
        clock: &KernelClock,
    ) -> RoundConditions {
        // The signals and the quota of other processes are not known.
        let is_own = self.late_loop.is_own;
        let continued_ns = match is_own {
            true => os::continued_ns().into_iter().map(|ns| clock.process_ns(ns)).collect(),
            false => Vec::new(),
        };
        RoundConditions {
            path_ns: seen.way_ns,
            quota_period_ns: self.conditions.quota_period_ns.filter(|_| is_own),
            continued_ns: with_delayed_handlers(continued_ns, &sequence.times),
            steal_ns: self.conditions.steal_ns,
            ..RoundConditions::default()
        }
    }
}

/// Adds the wake-ups after which a process was reported to be continued. The signal handler may run
/// after the threads that the stop delayed.
pub fn with_delayed_handlers(mut continued_ns: Vec<i64>, ticks: &[(i64, i64)]) -> Vec<i64> {
    let mut wake_ups = Vec::new();
    for &at_ns in &continued_ns {
        for &(_, wake_ns) in ticks {
            let is_before = wake_ns < at_ns && at_ns - wake_ns <= MAX_HANDLER_DELAY_NS;
            wake_ups.extend(is_before.then_some(wake_ns));
        }
    }
    continued_ns.append(&mut wake_ups);
    continued_ns
}

/// Adds the numbers of throttled periods to the accounts of the threads' cycles.
fn add_throttled(threads: &mut [Thread], sequence: &TickSequence) {
    for cycle in threads.iter_mut().flat_map(|thread| &mut thread.cycles) {
        let ticks_before = sequence.times.partition_point(|(_, wake_ns)| *wake_ns <= cycle.park_ns);
        let throttled = sequence.throttled[..ticks_before].iter().sum();
        cycle.reading.throttled = Some(throttled);
    }
}

/// Returns the time since the last moment at which one of the threads ran, if that is within the
/// error of the calendar time.
///
/// The time of registration, from which the meter of another process counts, is read shortly after
/// its clock, so the times of its ticks are slightly late.
fn distance_to_turn(watched: &[WatchedThread], at_ns: i64) -> i64 {
    let mut shortest_ns: Option<i64> = None;
    for thread in watched {
        let before = thread.switches.partition_point(|switch| switch.at_ns <= at_ns);
        let Some(last) = before.checked_sub(1).map(|last| thread.switches[last]) else { continue };
        let distance_ns = match last.kind {
            SwitchKind::On => 0,
            // The thread still ran just before this switch.
            _ => at_ns - last.at_ns + 1,
        };
        shortest_ns = Some(shortest_ns.map_or(distance_ns, |shortest| shortest.min(distance_ns)));
    }
    shortest_ns.filter(|distance| *distance <= MAX_TIME_ERROR_NS).unwrap_or(0)
}
