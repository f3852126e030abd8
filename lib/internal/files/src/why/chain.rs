//! The path of a tick through the kernel: from its timer to the wake-up of its thread and on to the
//! task.

use std::collections::BTreeMap;

use super::input::{Breakdown, Cycle, Switch, SwitchKind, Thread, Tick, span};
use crate::bins::Binning;
use crate::report::why::{Chain, KernelChain, Link};
use jitterstat::stats::quantile;

/// Maximum difference between the thread's account of its wait for a CPU and the kernel's records.
const MAX_DIFFERENCE_NS: u64 = 30_000;
/// Fraction of the lateness that such a difference may also reach.
const MAX_DIFFERENCE_FRACTION: u64 = 50;
/// Distance from the median within which the duration of a link counts as constant.
const NEAR_NS: i64 = 1_000;

/// A wake-up of a thread in the kernel's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakeup {
    /// Start of the timer's function; `None` if another event woke the thread, or the start was not
    /// recorded.
    pub expired_ns: Option<i64>,
    /// Time at which the thread became ready.
    pub woken_ns: i64,
}

/// The path of a tick in the kernel's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeupPath {
    /// The thread was awake when the tick was due, so no timer woke it.
    Awake,
    /// A record is missing, or contradicts the thread's account.
    Broken,
    /// The path was recorded completely.
    Whole {
        /// The links of the path.
        chain: Chain,
        /// Difference between the thread's account of its wait for a CPU and the records; `None`
        /// without an account.
        apart_ns: Option<u64>,
    },
}

impl WakeupPath {
    /// Returns the links if the path was recorded completely.
    #[must_use]
    pub fn whole(self) -> Option<Chain> {
        match self {
            Self::Whole { chain, .. } => Some(chain),
            Self::Awake | Self::Broken => None,
        }
    }
}

/// Finds the path of a tick in the recorded wake-ups of its thread, which are in order of time.
/// `breakdown` is the explanation from the thread's account.
#[must_use]
pub fn trace_wakeup(
    tick: &Tick,
    thread: &Thread,
    wakeups: &[Wakeup],
    breakdown: &Breakdown,
) -> WakeupPath {
    let started = thread.cycles.partition_point(|c| c.park_ns < tick.wake_ns);
    let last_cycle = thread.cycles[..started].last();
    let (Some(cycle), Some(switches)) = (last_cycle, &thread.switches) else {
        return WakeupPath::Broken;
    };
    let back_ns = cycle.unpark_ns.filter(|&ns| ns <= tick.wake_ns);
    let end_ns = back_ns.unwrap_or(tick.wake_ns);
    let before = &switches[..switches.partition_point(|s| s.at_ns <= end_ns)];
    let Some(since_sleep) = switches_since_sleep(before, cycle, tick) else {
        return WakeupPath::Awake;
    };
    let Some(wakeup) = RecordedWakeup::find(wakeups, since_sleep) else {
        return WakeupPath::Broken;
    };
    let apart_ns = wakeup.difference_ns(tick.deadline_ns, end_ns, breakdown);
    let lateness_ns = span(tick.deadline_ns, tick.wake_ns);
    if apart_ns > MAX_DIFFERENCE_NS.max(lateness_ns / MAX_DIFFERENCE_FRACTION) {
        return WakeupPath::Broken;
    }
    // A bare thread has no runtime, and returns directly in its task.
    let runtime_ns = back_ns.filter(|&ns| ns < tick.wake_ns);
    WakeupPath::Whole { chain: wakeup.chain(tick, runtime_ns), apart_ns: Some(apart_ns) }
}

/// The switches from the last sleep of a cycle on; `None` if the thread did not sleep, or parked
/// only after the deadline.
fn switches_since_sleep<'a>(
    switches: &'a [Switch],
    cycle: &Cycle,
    tick: &Tick,
) -> Option<&'a [Switch]> {
    let slept = switches.iter().rposition(|s| s.kind == SwitchKind::Waits)?;
    let is_of_cycle = switches[slept].at_ns >= cycle.park_ns;
    if is_of_cycle && cycle.park_ns <= tick.deadline_ns { Some(&switches[slept..]) } else { None }
}

/// The recorded times of a wake-up by a timer.
struct RecordedWakeup {
    expired_ns: i64,
    woken_ns: i64,
    on_cpu_ns: i64,
}

impl RecordedWakeup {
    /// Finds the wake-up that ended a sleep. `switches` starts with the switch to that sleep.
    /// `None` if a record is missing or out of order.
    fn find(wakeups: &[Wakeup], switches: &[Switch]) -> Option<Self> {
        let slept_ns = switches.first()?.at_ns;
        // The first of several wake-ups made the thread ready.
        let wakeup = wakeups.get(wakeups.partition_point(|w| w.woken_ns < slept_ns))?;
        let on = switches.iter().find(|s| s.kind == SwitchKind::On)?;
        let (expired_ns, woken_ns, on_cpu_ns) = (wakeup.expired_ns?, wakeup.woken_ns, on.at_ns);
        (woken_ns <= on_cpu_ns).then_some(Self { expired_ns, woken_ns, on_cpu_ns })
    }

    /// Returns the difference between the recorded wait for a CPU and the thread's account of it,
    /// within a window.
    fn difference_ns(&self, from_ns: i64, to_ns: i64, breakdown: &Breakdown) -> u64 {
        let clip = |start: i64, end: i64| span(start.max(from_ns), end.min(to_ns));
        let account_ns: u64 = breakdown.queued.iter().map(|q| clip(q.from_ns, q.to_ns)).sum();
        clip(self.woken_ns, self.on_cpu_ns).abs_diff(account_ns)
    }

    /// Returns the links of the path to a tick. `runtime_ns` is the time at which the runtime
    /// returned.
    fn chain(&self, tick: &Tick, runtime_ns: Option<i64>) -> Chain {
        let Self { expired_ns, woken_ns, on_cpu_ns } = *self;
        Chain {
            timer_ns: expired_ns.saturating_sub(tick.deadline_ns),
            woken_ns: woken_ns.saturating_sub(expired_ns),
            on_cpu_ns: on_cpu_ns.saturating_sub(woken_ns),
            runtime_ns: runtime_ns.map(|ns| ns.saturating_sub(on_cpu_ns)),
            task_ns: tick.wake_ns.saturating_sub(runtime_ns.unwrap_or(on_cpu_ns)),
        }
    }
}

/// An accumulator of the paths of ticks in bounded memory.
#[derive(Clone, Debug, Default)]
pub(super) struct WakeupPaths {
    whole: u64,
    broken: u64,
    /// Counts for each link, in the order of [`Chain`], by the lower end of the bin of its
    /// magnitude, with its sign.
    links: [BTreeMap<i64, u64>; LINKS.len()],
}

type LinkDuration = fn(&Chain) -> Option<i64>;

const LINKS: [(&str, LinkDuration); 5] = [
    ("timer", |c| Some(c.timer_ns)),
    ("woken", |c| Some(c.woken_ns)),
    ("on_cpu", |c| Some(c.on_cpu_ns)),
    ("runtime", |c| c.runtime_ns),
    ("task", |c| Some(c.task_ns)),
];

impl WakeupPaths {
    pub(super) fn add(&mut self, way: &WakeupPath) {
        match way {
            WakeupPath::Awake => {}
            WakeupPath::Broken => self.broken += 1,
            WakeupPath::Whole { chain, .. } => {
                self.whole += 1;
                for (counts, (_, duration)) in self.links.iter_mut().zip(LINKS) {
                    if let Some(ns) = duration(chain) {
                        let lower = Binning::Hdr3.bin(ns.saturating_abs()).lower;
                        *counts.entry(lower * ns.signum()).or_default() += 1;
                    }
                }
            }
        }
    }

    /// Returns the summary. `late` are the paths of late ticks with their lateness.
    pub(super) fn finish(&self, late: impl Iterator<Item = (WakeupPath, u64)>) -> KernelChain {
        let mut links = Vec::with_capacity(LINKS.len());
        for ((name, _), counts) in LINKS.iter().zip(&self.links) {
            links.extend(summarise_link(name, counts));
        }
        let (mut total_ns, mut apart_total_ns) = (0_u64, 0_u64);
        for (path, lateness_ns) in late {
            if let WakeupPath::Whole { apart_ns: Some(apart_ns), .. } = path {
                total_ns = total_ns.saturating_add(lateness_ns);
                apart_total_ns += apart_ns.min(lateness_ns);
            }
        }
        KernelChain {
            whole: self.whole,
            broken: self.broken,
            agreement: (total_ns > 0).then(|| 1.0 - apart_total_ns as f64 / total_ns as f64),
            links,
        }
    }
}

/// Summarises the durations of one link; `None` without a tick.
fn summarise_link(name: &str, counts: &BTreeMap<i64, u64>) -> Option<Link> {
    let total: u64 = counts.values().sum();
    let percentile = |q| {
        let counted = counts.iter().map(|(ns, n)| (*ns, *n));
        quantile::nearest_rank_of_counts(counted, total, q)
    };
    let p50 = percentile(0.5)?;
    let near: u64 = counts.range(p50 - NEAR_NS..=p50 + NEAR_NS).map(|(_, n)| n).sum();
    let ticks = usize::try_from(total).unwrap_or(usize::MAX);
    let has_p99 = quantile::is_supported(ticks, 0.99);
    let p99 = if has_p99 { percentile(0.99) } else { None };
    Some(Link { name: name.to_owned(), p50, p99, within_1us: near as f64 / total as f64 })
}
