//! The attribution of each nanosecond between a deadline and its wake-up to a cause.

use std::ops::Range;

use crate::report::why::Class;

use super::input::{
    Breakdown, CpuIntervals, Cycle, QueueWait, RoundConditions, Thread, Tick, span,
};
use super::parts::Parts;
use super::stretches::{State, Stretch, idle_ns, stretches};

/// Minimum steal time: less is below the step of the kernel's account.
const MIN_STEAL_NS: u64 = 10_000_000;
/// Factor of the usual CPU time above which a tick was interrupted, on a thread without other
/// tasks.
const MAX_CPU_FACTOR: u64 = 5;

/// Attributes the lateness of each tick to its causes. The ticks must be those of one instance in
/// one round, in order.
///
/// A thread that is ready while its CPU is idle does not wait for another thread: that time belongs
/// to the layers below it. This is visible only if the occupants of the CPU are known.
#[must_use]
pub fn explain(
    ticks: &[Tick],
    threads: &[Thread],
    conditions: &RoundConditions,
    occupants: Option<&CpuIntervals>,
) -> Vec<Breakdown> {
    let by_thread: Vec<Option<Vec<Stretch>>> = threads.iter().map(thread_stretches).collect();
    let no_thread = Thread::default();
    let mut breakdowns: Vec<Breakdown> = Vec::with_capacity(ticks.len());
    for (n, tick) in ticks.iter().enumerate() {
        let thread = threads.get(tick.thread).unwrap_or(&no_thread);
        let stretches = by_thread.get(tick.thread).and_then(Option::as_deref);
        let mut breakdown =
            LatenessWindow::new(tick, &thread.cycles).explain(stretches, conditions, occupants);
        let parts = &mut breakdown.parts;
        // The number of previous ticks that the thread had to catch up with.
        let overdue = (n - ticks[..n].partition_point(|t| t.wake_ns <= tick.deadline_ns)) as u64;
        if let Some(usual_ns) = conditions.usual_cpu_ns {
            // CPU time beyond the usual time is attributed to the layers below the thread.
            let max_ns = usual_ns.saturating_mul(MAX_CPU_FACTOR).saturating_mul(1 + overdue);
            let excess_ns = parts.ns(Class::OwnCpu).saturating_sub(max_ns);
            parts.move_up_to(excess_ns, Class::OwnCpu, Class::Below);
        }
        let lateness_ns = span(tick.deadline_ns, tick.wake_ns);
        let unexplained_ns = lateness_ns.saturating_sub(parts.total_ns());
        parts.add(Class::Unexplained, unexplained_ns);
        breakdowns.push(breakdown);
    }
    attribute_steal(ticks, &mut breakdowns, unattributed_steal_ns(conditions));
    breakdowns
}

/// The stretches of a thread; `None` if its switches were not recorded.
fn thread_stretches(thread: &Thread) -> Option<Vec<Stretch>> {
    Some(stretches(thread.switches.as_ref()?, &thread.cycles))
}

/// The steal time without the standstills caused by the host, which it includes and which are
/// already attributed.
fn unattributed_steal_ns(conditions: &RoundConditions) -> u64 {
    let mut steal_ns = conditions.steal_ns;
    for standstill in &conditions.standstills {
        if !standstill.is_stop(&conditions.continued_ns) {
            steal_ns = steal_ns.saturating_sub(span(standstill.from_ns, standstill.to_ns));
        }
    }
    steal_ns
}

/// Attributes steal time to the hypervisor: to the longest times below the thread, each only once,
/// even if it made several ticks late.
fn attribute_steal(ticks: &[Tick], breakdowns: &mut [Breakdown], mut steal_ns: u64) {
    if steal_ns < MIN_STEAL_NS {
        return;
    }
    let below_ns = |breakdown: &Breakdown| breakdown.parts.ns(Class::Below);
    // Runs of ticks that were due before the previous one had been delivered, with the longest
    // time.
    let mut runs: Vec<(u64, Range<usize>)> = Vec::new();
    for i in 0..ticks.len() {
        match runs.last_mut() {
            Some((longest, run)) if ticks[i].deadline_ns <= ticks[i - 1].wake_ns => {
                *longest = below_ns(&breakdowns[i]).max(*longest);
                run.end = i + 1;
            }
            _ => runs.push((below_ns(&breakdowns[i]), i..i + 1)),
        }
    }
    runs.sort_by_key(|(longest, _)| std::cmp::Reverse(*longest));
    for (longest, run) in runs {
        let max_ns = longest.min(steal_ns);
        steal_ns -= max_ns;
        for breakdown in &mut breakdowns[run] {
            breakdown.parts.move_up_to(max_ns, Class::Below, Class::Host);
        }
    }
}

/// The time between a deadline and its wake-up, with the cycles that overlap it.
struct LatenessWindow<'a> {
    from_ns: i64,
    to_ns: i64,
    cycles: &'a [Cycle],
    /// Indices of the overlapping cycles.
    overlapping: Range<usize>,
}

impl<'a> LatenessWindow<'a> {
    fn new(tick: &Tick, cycles: &'a [Cycle]) -> Self {
        let (from_ns, to_ns) = (tick.deadline_ns, tick.wake_ns.max(tick.deadline_ns));
        let first = cycles.partition_point(|c| c.park_ns <= from_ns).saturating_sub(1);
        let end = cycles.partition_point(|c| c.park_ns < to_ns).min(cycles.len().saturating_sub(1));
        Self { from_ns, to_ns, cycles, overlapping: first.min(end)..end }
    }

    /// The part of a time within the window.
    fn clip(&self, from_ns: i64, to_ns: i64) -> u64 {
        span(from_ns.max(self.from_ns), to_ns.min(self.to_ns))
    }

    /// The last cycle of the window, in which the tick ran.
    fn last_cycle(&self) -> Option<&Cycle> {
        self.cycles[self.overlapping.clone()].last()
    }

    fn explain(
        &self,
        stretches: Option<&[Stretch]>,
        conditions: &RoundConditions,
        occupants: Option<&CpuIntervals>,
    ) -> Breakdown {
        let mut breakdown = match stretches {
            Some(stretches) => self.explain_by_switches(stretches, conditions),
            None => self.explain_by_accounts(conditions),
        };
        if let Some(occupants) = occupants {
            // The wait for an idle CPU is lost in the layers below the thread, not in a queue.
            for wait in &breakdown.queued {
                let turns = occupants.get(&wait.cpu).map_or(&[][..], Vec::as_slice);
                breakdown.parts.move_up_to(idle_ns(wait, turns), Class::Queue, Class::Below);
            }
        }
        let parts = &mut breakdown.parts;
        if conditions.continued_ns.iter().any(|&at| self.from_ns < at && at <= self.to_ns) {
            parts.move_up_to(u64::MAX, Class::Below, Class::Stopped);
            parts.move_up_to(u64::MAX, Class::Blocked, Class::Stopped);
        }
        let mut quota_ns = self.throttled_ns(conditions);
        if quota_ns == 0 {
            self.attribute_standstills(parts, conditions);
        }
        for class in [Class::Queue, Class::Below, Class::Blocked] {
            quota_ns -= parts.move_up_to(quota_ns, class, Class::Quota);
        }
        parts.move_up_to(conditions.slack_ns.unwrap_or(0), Class::Below, Class::Slack);
        let path_ns = conditions.path_ns.saturating_sub(parts.ns(Class::Path));
        parts.move_up_to(path_ns, Class::Below, Class::Path);
        breakdown
    }

    /// Attributes sleep during standstills to the host, or to a stop if only this process was
    /// stopped. Not used while the control group is throttled, because that also delays the
    /// witnesses.
    fn attribute_standstills(&self, parts: &mut Parts, conditions: &RoundConditions) {
        let standstills = &conditions.standstills;
        let first = standstills.partition_point(|s| s.to_ns <= self.from_ns);
        for standstill in standstills[first..].iter().take_while(|s| s.from_ns < self.to_ns) {
            let is_stop = standstill.is_stop(&conditions.continued_ns);
            let class = if is_stop { Class::Stopped } else { Class::Host };
            let asleep_ns = parts.ns(Class::Below) + parts.ns(Class::Blocked);
            let max_ns = standstill.explains_ns(self.from_ns, self.to_ns, asleep_ns);
            let moved_ns = parts.move_up_to(max_ns, Class::Below, class);
            parts.move_up_to(max_ns - moved_ns, Class::Blocked, class);
        }
    }

    /// Attributes the window by the recorded switches of the thread.
    fn explain_by_switches(
        &self,
        stretches: &[Stretch],
        conditions: &RoundConditions,
    ) -> Breakdown {
        let mut breakdown = Breakdown::default();
        let parked_ns = self.last_cycle().map_or(i64::MIN, |c| c.park_ns);
        let unparked_ns = self.last_cycle().and_then(|c| c.unpark_ns).unwrap_or(i64::MIN);
        let first = stretches.partition_point(|s| s.to_ns <= self.from_ns);
        for s in stretches[first..].iter().take_while(|s| s.from_ns < self.to_ns) {
            let ns = self.clip(s.from_ns, s.to_ns);
            let class = match s.state {
                State::Ran => {
                    // The return from the park that the tick ended is part of the usual path.
                    let path_ns = self.clip(s.from_ns.max(parked_ns), s.to_ns.min(unparked_ns));
                    breakdown.parts.add(Class::Path, path_ns);
                    breakdown.parts.add(Class::OwnCpu, ns - path_ns);
                    continue;
                }
                State::Queued => Class::Queue,
                State::Blocked => Class::Blocked,
                State::Asleep => Class::Below,
                State::Unknown => Class::Unexplained,
            };
            breakdown.parts.add(class, ns);
            if class == Class::Queue && ns > 0 {
                let (from_ns, to_ns) = (s.from_ns.max(self.from_ns), s.to_ns.min(self.to_ns));
                breakdown.queued.push(QueueWait { from_ns, to_ns, cpu: s.cpu });
            }
        }
        let faults_ns = self.overlapping.clone().map(|i| self.faults_ns(i, conditions)).sum();
        breakdown.parts.move_up_to(faults_ns, Class::OwnCpu, Class::Faults);
        breakdown
    }

    /// Attributes the window by the accounts of the thread, if its switches were not recorded.
    fn explain_by_accounts(&self, conditions: &RoundConditions) -> Breakdown {
        let mut breakdown = Breakdown::default();
        for i in self.overlapping.clone() {
            self.explain_cycle(i, &mut breakdown.parts, conditions);
        }
        breakdown
    }

    fn explain_cycle(&self, i: usize, parts: &mut Parts, conditions: &RoundConditions) {
        let (cycle, next) = (&self.cycles[i], &self.cycles[i + 1]);
        let cpu_ns = difference(next.reading.cpu_ns, cycle.reading.cpu_ns);
        let (Some(unpark_ns), Some(cpu_ns)) = (cycle.unpark_ns, cpu_ns) else { return };
        let unpark_ns = unpark_ns.clamp(cycle.park_ns, next.park_ns.max(cycle.park_ns));
        let waited_ns = difference(next.reading.delay_ns, cycle.reading.delay_ns).unwrap_or(0);
        // While it was awake, the thread ran, waited for a CPU, or was blocked. The accounts
        // contain only the totals of that time, of which the window has a proportional part.
        let awake_ns = span(unpark_ns, next.park_ns);
        let ran_ns = cpu_ns.min(awake_ns);
        let queued_ns = waited_ns.min(awake_ns - ran_ns);
        let clipped_ns = self.clip(unpark_ns, next.park_ns);
        let ran_end_ns = scale(ran_ns, clipped_ns, awake_ns);
        let queued_end_ns = scale(ran_ns + queued_ns, clipped_ns, awake_ns);
        // The tick ran in the last cycle, in which the usual CPU time is part of the usual path.
        let is_last = i + 1 == self.overlapping.end;
        let path_ns = if is_last { ran_end_ns.min(conditions.path_ns) } else { 0 };
        let faults_ns = self.faults_ns(i, conditions).min(ran_end_ns - path_ns);
        parts.add(Class::Path, path_ns);
        parts.add(Class::Faults, faults_ns);
        parts.add(Class::OwnCpu, ran_end_ns - path_ns - faults_ns);
        parts.add(Class::Queue, queued_end_ns - ran_end_ns);
        parts.add(Class::Blocked, clipped_ns - queued_end_ns);
        // The remaining wait for a CPU was at the end of the sleep.
        let wait_ns = (waited_ns - queued_ns).min(span(cycle.park_ns, unpark_ns));
        let ready_ns = unpark_ns.saturating_sub_unsigned(wait_ns);
        parts.add(Class::Queue, self.clip(ready_ns, unpark_ns));
        parts.add(Class::Below, self.clip(cycle.park_ns, ready_ns));
    }

    /// The cost of a cycle's page faults in the part of its waking time within the window.
    fn faults_ns(&self, i: usize, conditions: &RoundConditions) -> u64 {
        let (cycle, next) = (&self.cycles[i], &self.cycles[i + 1]);
        let faults = difference(next.reading.minor_faults, cycle.reading.minor_faults);
        let (Some(fault_ns), Some(faults)) = (conditions.fault_ns, faults) else { return 0 };
        let unpark_ns = cycle.unpark_ns.unwrap_or(cycle.park_ns).max(cycle.park_ns);
        let awake_ns = span(unpark_ns, next.park_ns);
        let total_ns = u128::from(faults) * u128::from(fault_ns);
        let clipped_ns = u128::from(self.clip(unpark_ns, next.park_ns));
        (total_ns * clipped_ns / u128::from(awake_ns.max(1))) as u64
    }

    /// The maximum time for which the control group was throttled, from the number of throttled
    /// periods.
    fn throttled_ns(&self, conditions: &RoundConditions) -> u64 {
        let quota_period_ns = conditions.quota_period_ns;
        let Some(period_ns) = quota_period_ns.filter(|_| !self.overlapping.is_empty()) else {
            return 0;
        };
        // Throttling often occurs while the accounts are read, on the return from the kernel. Use
        // the last reading that was not interrupted.
        let start = self.overlapping.start;
        let torn = self.cycles[..=start].iter().rev().take_while(|c| c.torn).count();
        let before = &self.cycles[start.saturating_sub(torn)].reading;
        let after = &self.cycles[self.overlapping.end].reading;
        let periods = difference(after.throttled, before.throttled).unwrap_or(0);
        periods.saturating_mul(period_ns)
    }
}

/// Returns the increase of an account between two readings; `None` if one of them lacks it.
fn difference(after: Option<u64>, before: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before?))
}

/// Returns `ns * part / whole`.
fn scale(ns: u64, part: u64, whole: u64) -> u64 {
    (u128::from(ns) * u128::from(part) / u128::from(whole.max(1))) as u64
}
