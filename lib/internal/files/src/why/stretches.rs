//! The states of a thread over time, reconstructed from its switches.

use super::input::{CpuInterval, Cycle, IDLE_THREAD, QueueWait, Switch, SwitchKind, span};

/// The state of a thread in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The thread had a CPU.
    Ran,
    /// The thread was ready and waited for a CPU.
    Queued,
    /// The thread waited although it had tasks to run.
    Blocked,
    /// The thread slept in its park.
    Asleep,
    /// The thread was off its CPU, for an unknown reason.
    Unknown,
}

impl State {
    /// Returns the state after a switch.
    fn after(kind: SwitchKind) -> Self {
        match kind {
            SwitchKind::On => Self::Ran,
            SwitchKind::Preempted => Self::Queued,
            SwitchKind::Waits => Self::Asleep,
        }
    }
}

/// A stretch of time in which a thread has one state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub from_ns: i64,
    pub to_ns: i64,
    pub state: State,
    pub cpu: u32,
}

/// Returns the stretches of a thread, in order and without gaps.
///
/// The accounts may show a longer wait for a CPU than the recorded preemptions. The difference is
/// assigned to the ends of the stretches in which the thread waited for an event.
pub(super) fn stretches(switches: &[Switch], cycles: &[Cycle]) -> Vec<Stretch> {
    let recorded = switch_stretches(switches);
    let mut unassigned_ns = unassigned_waits(&recorded, cycles);
    let mut found = Vec::with_capacity(recorded.len());
    for mut stretch in recorded {
        if stretch.state != State::Asleep {
            found.push(stretch);
            continue;
        }
        let cycle = cycle_at(cycles, stretch.from_ns);
        let unpark_ns = cycle.and_then(|i| cycles[i].unpark_ns);
        if unpark_ns.is_some_and(|unpark_ns| stretch.from_ns >= unpark_ns) {
            stretch.state = State::Blocked;
        }
        let Some(unassigned_ns) = cycle.and_then(|i| unassigned_ns.get_mut(i)?.as_mut()) else {
            found.push(Stretch { state: State::Unknown, ..stretch });
            continue;
        };
        let queued = span(stretch.from_ns, stretch.to_ns).min(*unassigned_ns);
        if let Ok(length @ 1..) = i64::try_from(queued) {
            *unassigned_ns -= queued;
            let ready_ns = stretch.to_ns - length;
            found.push(Stretch { to_ns: ready_ns, ..stretch });
            stretch = Stretch { from_ns: ready_ns, state: State::Queued, ..stretch };
        }
        found.push(stretch);
    }
    found
}

/// Returns the index of the cycle at a time; `None` before the first one.
fn cycle_at(cycles: &[Cycle], at_ns: i64) -> Option<usize> {
    cycles.partition_point(|c| c.park_ns <= at_ns).checked_sub(1)
}

/// Returns the wait for a CPU of each cycle that the recorded preemptions do not explain; `None`
/// without an account.
fn unassigned_waits(recorded: &[Stretch], cycles: &[Cycle]) -> Vec<Option<u64>> {
    let cycle_waits = cycles.windows(2).map(|pair| waited_ns(&pair[0], &pair[1]));
    let mut unassigned: Vec<Option<u64>> = cycle_waits.collect();
    for stretch in recorded.iter().filter(|s| s.state == State::Queued) {
        for i in cycle_at(cycles, stretch.from_ns).unwrap_or(0)..unassigned.len() {
            if cycles[i].park_ns >= stretch.to_ns {
                break;
            }
            let from_ns = cycles[i].park_ns.max(stretch.from_ns);
            let to_ns = cycles[i + 1].park_ns.min(stretch.to_ns);
            unassigned[i] = unassigned[i].map(|ns| ns.saturating_sub(span(from_ns, to_ns)));
        }
    }
    unassigned
}

/// Returns the time for which a thread waited for a CPU in a cycle.
fn waited_ns(cycle: &Cycle, next: &Cycle) -> Option<u64> {
    Some(next.reading.delay_ns?.saturating_sub(cycle.reading.delay_ns?))
}

/// The stretches between recorded switches, without the waits for a CPU that only accounts show. Of
/// two consecutive records of the same kind, the first is valid.
fn switch_stretches(switches: &[Switch]) -> Vec<Stretch> {
    let Some(first) = switches.first() else { return Vec::new() };
    let before = if first.kind == SwitchKind::On { State::Asleep } else { State::Ran };
    let mut open = Stretch { from_ns: i64::MIN, to_ns: i64::MAX, state: before, cpu: first.cpu };
    let mut stretches = Vec::with_capacity(switches.len() + 1);
    for switch in switches {
        let is_on = open.state == State::Ran;
        if is_on == (switch.kind == SwitchKind::On) || switch.at_ns < open.from_ns {
            continue;
        }
        // A preempted thread waits for the CPU that it had, even if another one takes it over.
        let cpu = if open.state == State::Queued { open.cpu } else { switch.cpu };
        stretches.push(Stretch { to_ns: switch.at_ns, cpu, ..open });
        open = Stretch {
            from_ns: switch.at_ns,
            to_ns: i64::MAX,
            state: State::after(switch.kind),
            cpu: switch.cpu,
        };
    }
    stretches.push(open);
    stretches
}

/// Returns the threads that ran on a CPU during a wait, in order, each with the time for which it
/// ran. The idle thread is not one of them. `switches` are the switches of that CPU.
pub fn occupants_during(
    queued: &QueueWait,
    switches: &[CpuInterval],
) -> impl Iterator<Item = (u32, u64)> {
    turns_during(queued, switches).filter(|(thread, _)| *thread != IDLE_THREAD)
}

/// Returns the time for which a CPU was idle during a wait. `switches` are the switches of that
/// CPU.
pub(super) fn idle_ns(queued: &QueueWait, switches: &[CpuInterval]) -> u64 {
    let turns = turns_during(queued, switches);
    turns.filter(|(thread, _)| *thread == IDLE_THREAD).map(|(_, ns)| ns).sum()
}

/// Returns the turns of all threads on a CPU during a wait, including the idle thread.
fn turns_during(queued: &QueueWait, switches: &[CpuInterval]) -> impl Iterator<Item = (u32, u64)> {
    let (from_ns, to_ns) = (queued.from_ns, queued.to_ns);
    let first = switches.partition_point(|s| s.at_ns <= from_ns).saturating_sub(1);
    let switches = &switches[first.min(switches.len())..];
    let starts = switches.iter().map(|s| s.at_ns);
    let ends = starts.skip(1).chain([i64::MAX]);
    let turns = switches.iter().zip(ends).take_while(move |(s, _)| s.at_ns < to_ns);
    turns
        .map(move |(s, end_ns)| (s.thread, span(s.at_ns.max(from_ns), end_ns.min(to_ns))))
        .filter(|(_, ns)| *ns > 0)
}
