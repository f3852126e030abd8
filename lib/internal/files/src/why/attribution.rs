//! The rules: what each nanosecond between a deadline and its wake-up was spent on.

use crate::report::why::Class;

use super::input::{Breakdown, Cycle, QueueWait, Reading, RoundConditions, Thread, Tick, span};
use super::parts::Parts;
use super::stretches::{State, Stretch, stretches};

/// Less steal than this is less than a step of the kernel's account.
const MIN_STEAL_NS: u64 = 10_000_000;
/// A tick that takes more than so many times the usual CPU time, on a thread with nothing else to
/// run, was interrupted.
const UNUSUAL: u64 = 5;

/// Takes the lateness of each tick apart. The ticks must be those of one instance in one round, in
/// order.
#[must_use]
pub fn explain(ticks: &[Tick], threads: &[Thread], facts: &RoundConditions) -> Vec<Breakdown> {
    let walked: Vec<Option<Vec<Stretch>>> =
        threads.iter().map(|t| t.switches.as_ref().map(|s| stretches(s, &t.cycles))).collect();
    let mut all: Vec<Breakdown> = Vec::with_capacity(ticks.len());
    for (n, tick) in ticks.iter().enumerate() {
        let nothing = Thread::default();
        let thread = threads.get(tick.thread).unwrap_or(&nothing);
        let stretches = walked.get(tick.thread).and_then(Option::as_deref);
        let mut explained = LatenessWindow::new(tick, &thread.cycles).walk(stretches, facts);
        let caught_up = (n - ticks[..n].partition_point(|t| t.wake_ns <= tick.deadline_ns)) as u64;
        let parts = &mut explained.parts;
        if let Some(usual) = facts.usual_cpu_ns {
            let most = usual.saturating_mul(UNUSUAL).saturating_mul(1 + caught_up);
            parts.move_up_to(
                parts.ns(Class::OwnCpu).saturating_sub(most),
                Class::OwnCpu,
                Class::Below,
            );
        }
        parts.add(
            Class::Unexplained,
            span(tick.deadline_ns, tick.wake_ns).saturating_sub(parts.total_ns()),
        );
        all.push(explained);
    }
    // What the host's standstills are booked for already is in its own account, too.
    let by_host = facts.standstills.iter().filter(|s| !s.is_stop(&facts.continued_ns));
    let booked_ns = by_host.map(|s| span(s.from_ns, s.to_ns)).sum();
    steal(ticks, &mut all, facts.steal_ns.saturating_sub(booked_ns));
    all
}

/// Gives the hypervisor what it says it took: to the longest stretches below the thread, each once,
/// however many ticks it made late.
fn steal(ticks: &[Tick], all: &mut [Breakdown], mut left_ns: u64) {
    if left_ns < MIN_STEAL_NS {
        return;
    }
    let below = |e: &Breakdown| e.parts.ns(Class::Below);
    let mut runs: Vec<(u64, std::ops::Range<usize>)> = Vec::new();
    for i in 0..ticks.len() {
        match runs.last_mut() {
            Some((longest, run)) if ticks[i].deadline_ns <= ticks[i - 1].wake_ns => {
                *longest = below(&all[i]).max(*longest);
                run.end = i + 1;
            }
            _ => runs.push((below(&all[i]), i..i + 1)),
        }
    }
    runs.sort_by_key(|(longest, _)| std::cmp::Reverse(*longest));
    for (longest, run) in runs {
        let most = longest.min(left_ns);
        left_ns -= most;
        for explained in &mut all[run] {
            explained.parts.move_up_to(most, Class::Below, Class::Host);
        }
    }
}

/// The time between a deadline and its wake-up, and the cycles that it meets.
struct LatenessWindow<'a> {
    from_ns: i64,
    to_ns: i64,
    cycles: &'a [Cycle],
    /// Those that meet it.
    met: std::ops::Range<usize>,
}

impl<'a> LatenessWindow<'a> {
    fn new(tick: &Tick, cycles: &'a [Cycle]) -> Self {
        let (from_ns, to_ns) = (tick.deadline_ns, tick.wake_ns.max(tick.deadline_ns));
        let first = cycles.partition_point(|c| c.park_ns <= from_ns).saturating_sub(1);
        let end = cycles.partition_point(|c| c.park_ns < to_ns).min(cycles.len().saturating_sub(1));
        Self { from_ns, to_ns, cycles, met: first.min(end)..end }
    }

    fn clip(&self, from_ns: i64, to_ns: i64) -> u64 {
        span(from_ns.max(self.from_ns), to_ns.min(self.to_ns))
    }

    /// When the thread came back from the park that the tick ended.
    fn unparked_ns(&self) -> Option<i64> {
        self.cycles[self.met.clone()].last()?.unpark_ns
    }

    fn walk(&self, stretches: Option<&[Stretch]>, facts: &RoundConditions) -> Breakdown {
        let mut explained = match stretches {
            Some(stretches) => self.by_switches(stretches, facts),
            None => self.by_accounts(facts),
        };
        let parts = &mut explained.parts;
        if facts.continued_ns.iter().any(|&at| self.from_ns < at && at <= self.to_ns) {
            parts.move_up_to(u64::MAX, Class::Below, Class::Stopped);
            parts.move_up_to(u64::MAX, Class::Blocked, Class::Stopped);
        }
        let mut quota_ns = self.throttled_ns(facts);
        if quota_ns == 0 {
            self.stood_still(parts, facts);
        }
        for class in [Class::Queue, Class::Below, Class::Blocked] {
            quota_ns -= parts.move_up_to(quota_ns, class, Class::Quota);
        }
        parts.move_up_to(facts.slack_ns.unwrap_or(0), Class::Below, Class::Slack);
        let path_ns = facts.path_ns.saturating_sub(parts.ns(Class::Path));
        parts.move_up_to(path_ns, Class::Below, Class::Path);
        explained
    }

    /// What was slept while everything stood still: by the host, or where this is known, by a stop
    /// of these threads alone. The witnesses are throttled as the thread is, and say nothing then.
    fn stood_still(&self, parts: &mut Parts, facts: &RoundConditions) {
        let first = facts.standstills.partition_point(|s| s.to_ns <= self.from_ns);
        for stood in facts.standstills[first..].iter().take_while(|s| s.from_ns < self.to_ns) {
            let class =
                if stood.is_stop(&facts.continued_ns) { Class::Stopped } else { Class::Host };
            let asleep_ns = parts.ns(Class::Below) + parts.ns(Class::Blocked);
            let most = stood.explains_ns(self.from_ns, self.to_ns, asleep_ns);
            let moved = parts.move_up_to(most, Class::Below, class);
            parts.move_up_to(most - moved, Class::Blocked, class);
        }
    }

    fn by_switches(&self, stretches: &[Stretch], facts: &RoundConditions) -> Breakdown {
        let mut explained = Breakdown::default();
        let unparked_ns = self.unparked_ns().unwrap_or(i64::MIN);
        let parked_ns = self.cycles[self.met.clone()].last().map_or(i64::MIN, |c| c.park_ns);
        let first = stretches.partition_point(|s| s.to_ns <= self.from_ns);
        for s in stretches[first..].iter().take_while(|s| s.from_ns < self.to_ns) {
            let clipped = self.clip(s.from_ns, s.to_ns);
            let class = match s.state {
                State::Ran => {
                    // On its way out of the park that the tick ended.
                    let path = self.clip(s.from_ns.max(parked_ns), s.to_ns.min(unparked_ns));
                    explained.parts.add(Class::Path, path);
                    explained.parts.add(Class::OwnCpu, clipped - path);
                    continue;
                }
                State::Queued => Class::Queue,
                State::Blocked => Class::Blocked,
                State::Asleep => Class::Below,
                State::Unknown => Class::Unexplained,
            };
            explained.parts.add(class, clipped);
            if class == Class::Queue && clipped > 0 {
                let (from_ns, to_ns) = (s.from_ns.max(self.from_ns), s.to_ns.min(self.to_ns));
                explained.queued.push(QueueWait { from_ns, to_ns, cpu: s.cpu });
            }
        }
        let faults: u64 = self.met.clone().map(|i| self.faults_ns(i, facts)).sum();
        explained.parts.move_up_to(faults, Class::OwnCpu, Class::Faults);
        explained
    }

    fn by_accounts(&self, facts: &RoundConditions) -> Breakdown {
        let mut explained = Breakdown::default();
        let parts = &mut explained.parts;
        for i in self.met.clone() {
            let (cycle, end) = (&self.cycles[i], &self.cycles[i + 1]);
            let delta = |of: fn(&Reading) -> Option<u64>| {
                of(&end.reading).zip(of(&cycle.reading)).map(|(now, then)| now.saturating_sub(then))
            };
            let (Some(unpark_ns), Some(cpu_ns)) = (cycle.unpark_ns, delta(|r| r.cpu_ns)) else {
                continue;
            };
            let unpark_ns = unpark_ns.clamp(cycle.park_ns, end.park_ns.max(cycle.park_ns));
            let waited_ns = delta(|r| r.delay_ns).unwrap_or(0);
            // Awake: it ran, it waited for a CPU, and something blocked it, in amounts known only
            // for all of it.
            let awake = span(unpark_ns, end.park_ns);
            let own = cpu_ns.min(awake);
            let queued = waited_ns.min(awake - own);
            let clipped = self.clip(unpark_ns, end.park_ns);
            let scaled =
                |ns: u64| (u128::from(ns) * u128::from(clipped) / u128::from(awake.max(1))) as u64;
            let [to_own, to_queued] = [scaled(own), scaled(own + queued)];
            // The tick ran in its last cycle: what is usual there is its way.
            let way = if i + 1 == self.met.end { to_own.min(facts.path_ns) } else { 0 };
            let faults = self.faults_ns(i, facts).min(to_own - way);
            parts.add(Class::Path, way);
            parts.add(Class::Faults, faults);
            parts.add(Class::OwnCpu, to_own - way - faults);
            parts.add(Class::Queue, to_queued - to_own);
            parts.add(Class::Blocked, clipped - to_queued);
            // Asleep: it waited for a CPU at the end.
            let asleep = (waited_ns - queued).min(span(cycle.park_ns, unpark_ns));
            let ready_ns = unpark_ns.saturating_sub_unsigned(asleep);
            parts.add(Class::Queue, self.clip(ready_ns, unpark_ns));
            parts.add(Class::Below, self.clip(cycle.park_ns, ready_ns));
        }
        explained
    }

    /// What the page faults of a cycle cost, in the part of its waking time that lies in the
    /// window.
    fn faults_ns(&self, i: usize, facts: &RoundConditions) -> u64 {
        let (cycle, end) = (&self.cycles[i], &self.cycles[i + 1]);
        let faults = end.reading.minor_faults.zip(cycle.reading.minor_faults);
        let (Some(each_ns), Some((now, then))) = (facts.fault_ns, faults) else { return 0 };
        let unpark_ns = cycle.unpark_ns.unwrap_or(cycle.park_ns).max(cycle.park_ns);
        let awake = span(unpark_ns, end.park_ns);
        let all = u128::from(now.saturating_sub(then)) * u128::from(each_ns);
        (all * u128::from(self.clip(unpark_ns, end.park_ns)) / u128::from(awake.max(1))) as u64
    }

    /// How long the control group can have stood still, by the number of periods in which it did.
    fn throttled_ns(&self, facts: &RoundConditions) -> u64 {
        let Some(period_ns) = facts.quota_period_ns.filter(|_| !self.met.is_empty()) else {
            return 0;
        };
        // The reading itself is what gets throttled most often, on its way out of the kernel.
        let torn = self.cycles[..=self.met.start].iter().rev().take_while(|c| c.torn).count();
        let base = &self.cycles[self.met.start.saturating_sub(torn)].reading;
        let end = &self.cycles[self.met.end].reading;
        let periods =
            end.throttled.zip(base.throttled).map_or(0, |(now, then)| now.saturating_sub(then));
        periods.saturating_mul(period_ns)
    }
}
