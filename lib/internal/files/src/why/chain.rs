//! The way of a tick through the kernel: from its timer to the thread that this wakes, and on to
//! the task.

use std::collections::BTreeMap;

use super::input::{Breakdown, SwitchKind, Thread, Tick, span};
use crate::bins::Binning;
use crate::report::why::{Chain, KernelChain, Link};
use jitterstat::stats::quantile;

/// The thread's own account of its wait for a CPU agrees with the kernel's records within this ...
const AGREES_NS: u64 = 30_000;
/// ... or this part of the lateness.
const AGREES_SHARE: u64 = 50;
/// Of the median, to say how constant a link is.
const NEAR_NS: i64 = 1_000;

/// A thread was woken, by the kernel's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakeup {
    /// When the function of the timer that woke it began; `None` where something else did, or that
    /// was not recorded.
    pub expired_ns: Option<i64>,
    /// When it was made ready.
    pub woken_ns: i64,
}

/// What the kernel's records say of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeupPath {
    /// Its thread was awake when it was due: no timer brought it.
    Awake,
    /// A record is missing, or says something else than the thread's own account.
    Broken,
    /// Every station was recorded.
    Whole {
        /// Its stations.
        chain: Chain,
        /// By how much the thread's own account of its wait for a CPU differs, where there is one.
        apart_ns: Option<u64>,
    },
}

impl WakeupPath {
    /// Its stations, where all of them were recorded.
    #[must_use]
    pub fn whole(self) -> Option<Chain> {
        match self {
            Self::Whole { chain, .. } => Some(chain),
            Self::Awake | Self::Broken => None,
        }
    }
}

/// The way of a tick, as far as its thread's wake-ups were recorded, in order of time; `explained`
/// is what its own account says.
#[must_use]
pub fn trace_wakeup(
    tick: &Tick,
    thread: &Thread,
    wakeups: &[Wakeup],
    explained: &Breakdown,
) -> WakeupPath {
    let until = thread.cycles.partition_point(|c| c.park_ns < tick.wake_ns);
    let Some(cycle) = until.checked_sub(1).map(|i| &thread.cycles[i]) else {
        return WakeupPath::Broken;
    };
    let back_ns = cycle.unpark_ns.filter(|&ns| ns <= tick.wake_ns);
    let end_ns = back_ns.unwrap_or(tick.wake_ns);
    let Some(switches) = &thread.switches else { return WakeupPath::Broken };
    let before = &switches[..switches.partition_point(|s| s.at_ns <= end_ns)];
    let slept = before
        .iter()
        .rposition(|s| s.kind == SwitchKind::Waits)
        .filter(|&i| before[i].at_ns >= cycle.park_ns);
    let Some(slept) = slept.filter(|_| cycle.park_ns <= tick.deadline_ns) else {
        return WakeupPath::Awake;
    };
    // Of several, the first made it ready.
    let found = wakeups.get(wakeups.partition_point(|w| w.woken_ns < before[slept].at_ns));
    let on = before[slept..].iter().find(|s| s.kind == SwitchKind::On);
    let known =
        found.zip(on).and_then(|(found, on)| Some((found.expired_ns?, found.woken_ns, on.at_ns)));
    let Some((expired_ns, woken_ns, on_cpu_ns)) =
        known.filter(|(_, woken_ns, on_cpu_ns)| woken_ns <= on_cpu_ns)
    else {
        return WakeupPath::Broken;
    };
    let clipped = |from: i64, to: i64| span(from.max(tick.deadline_ns), to.min(end_ns));
    let recorded_ns = clipped(woken_ns, on_cpu_ns);
    let own_ns: u64 = explained.queued.iter().map(|q| clipped(q.from_ns, q.to_ns)).sum();
    let apart_ns = recorded_ns.abs_diff(own_ns);
    if apart_ns > AGREES_NS.max(span(tick.deadline_ns, tick.wake_ns) / AGREES_SHARE) {
        return WakeupPath::Broken;
    }
    // A bare thread comes back in its task, and a reading of its own.
    let runtime_ns = back_ns.filter(|&ns| ns < tick.wake_ns);
    let chain = Chain {
        timer_ns: expired_ns.saturating_sub(tick.deadline_ns),
        woken_ns: woken_ns.saturating_sub(expired_ns),
        on_cpu_ns: on_cpu_ns.saturating_sub(woken_ns),
        runtime_ns: runtime_ns.map(|ns| ns.saturating_sub(on_cpu_ns)),
        task_ns: tick.wake_ns.saturating_sub(runtime_ns.unwrap_or(on_cpu_ns)),
    };
    WakeupPath::Whole { chain, apart_ns: Some(apart_ns) }
}

/// The ways of a run's ticks. Memory does not grow with their number.
#[derive(Clone, Debug, Default)]
pub(super) struct WakeupPaths {
    whole: u64,
    broken: u64,
    /// By link, in the order of [`Chain`]: counts by the least value of a bin, that of a negative
    /// one with its sign.
    links: [BTreeMap<i64, u64>; LINKS.len()],
}

type Length = fn(&Chain) -> Option<i64>;

const LINKS: [(&str, Length); 5] = [
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
                for (counts, (_, of)) in self.links.iter_mut().zip(LINKS) {
                    if let Some(ns) = of(chain) {
                        let least = Binning::Hdr3.bin(ns.saturating_abs()).lower;
                        *counts.entry(least * ns.signum()).or_default() += 1;
                    }
                }
            }
        }
    }

    /// With the late ones, each with its lateness.
    pub(super) fn finish(&self, late: impl Iterator<Item = (WakeupPath, u64)>) -> KernelChain {
        let links =
            LINKS.iter().zip(&self.links).filter_map(|((name, _), counts)| link(name, counts));
        let sum = |(all, apart): (u64, u64), (way, lateness_ns): (WakeupPath, u64)| match way {
            WakeupPath::Whole { apart_ns: Some(ns), .. } => {
                (all.saturating_add(lateness_ns), apart + ns.min(lateness_ns))
            }
            _ => (all, apart),
        };
        let (all, apart) = late.fold((0, 0), sum);
        KernelChain {
            whole: self.whole,
            broken: self.broken,
            agreement: (all > 0).then(|| 1.0 - apart as f64 / all as f64),
            links: links.collect(),
        }
    }
}

fn link(name: &str, counts: &BTreeMap<i64, u64>) -> Option<Link> {
    let total: u64 = counts.values().sum();
    let percentile = |q: f64| {
        let rank = ((q * total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        counts.iter().find(|(_, n)| {
            seen += **n;
            seen >= rank
        })
    };
    let p50 = *percentile(0.5)?.0;
    let near: u64 = counts.range(p50 - NEAR_NS..=p50 + NEAR_NS).map(|(_, n)| n).sum();
    let came = usize::try_from(total).unwrap_or(usize::MAX);
    let p99 = percentile(0.99).filter(|_| quantile::is_supported(came, 0.99)).map(|(ns, _)| *ns);
    Some(Link { name: name.to_owned(), p50, p99, within_1us: near as f64 / total as f64 })
}
