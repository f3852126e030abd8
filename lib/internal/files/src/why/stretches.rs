//! Where a thread was, from its switches.

use super::input::{Cycle, Occupant, QueueWait, Switch, SwitchKind, span};

/// What a thread did in one stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It had the CPU.
    Ran,
    /// It was ready, and had none.
    Queued,
    /// It waited while it was to run tasks.
    Blocked,
    /// It slept in its park.
    Asleep,
    /// It was off its CPU, and nothing says whether it waited for one.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub from_ns: i64,
    pub to_ns: i64,
    pub state: State,
    pub cpu: u32,
}

/// All stretches of a thread, in order and without a gap. What its accounts say it waited for a
/// CPU, beyond the time it was preempted, lies at the end of the stretches in which it waited for
/// something else.
pub(super) fn stretches(switches: &[Switch], cycles: &[Cycle]) -> Vec<Stretch> {
    let mut found = raw(switches);
    // The wait that is left for the stretches of a cycle, in order.
    let mut left: Vec<Option<u64>> =
        cycles.windows(2).map(|pair| waited(&pair[0], &pair[1])).collect();
    let cycle_of = |at_ns: i64| cycles.partition_point(|c| c.park_ns <= at_ns).checked_sub(1);
    for stretch in found.iter().filter(|s| s.state == State::Queued) {
        for i in cycle_of(stretch.from_ns).unwrap_or(0)..left.len() {
            let [from, to] =
                [cycles[i].park_ns.max(stretch.from_ns), cycles[i + 1].park_ns.min(stretch.to_ns)];
            if cycles[i].park_ns >= stretch.to_ns {
                break;
            }
            left[i] = left[i].map(|left| left.saturating_sub(span(from, to)));
        }
    }
    let mut all = Vec::with_capacity(found.len());
    for mut stretch in found.drain(..) {
        if stretch.state == State::Asleep {
            let cycle = cycle_of(stretch.from_ns);
            let awake = cycle
                .and_then(|i| cycles[i].unpark_ns)
                .is_some_and(|unpark| stretch.from_ns >= unpark);
            if awake {
                stretch.state = State::Blocked;
            }
            let Some(left) = cycle.and_then(|i| left.get_mut(i)?.as_mut()) else {
                all.push(Stretch { state: State::Unknown, ..stretch });
                continue;
            };
            let queued = span(stretch.from_ns, stretch.to_ns).min(*left);
            if let Ok(length @ 1..) = i64::try_from(queued) {
                *left -= queued;
                let ready_ns = stretch.to_ns - length;
                all.push(Stretch { to_ns: ready_ns, ..stretch });
                stretch = Stretch { from_ns: ready_ns, state: State::Queued, ..stretch };
            }
        }
        all.push(stretch);
    }
    all
}

/// Time that a thread waited for a CPU in a cycle.
fn waited(cycle: &Cycle, next: &Cycle) -> Option<u64> {
    Some(next.reading.delay_ns?.saturating_sub(cycle.reading.delay_ns?))
}

/// On and off, as recorded. Of two records of the same kind in a row the first holds.
fn raw(switches: &[Switch]) -> Vec<Stretch> {
    let Some(first) = switches.first() else { return Vec::new() };
    let after = |kind| match kind {
        SwitchKind::On => State::Ran,
        SwitchKind::Preempted => State::Queued,
        SwitchKind::Waits => State::Asleep,
    };
    let before = if first.kind == SwitchKind::On { State::Asleep } else { State::Ran };
    let mut open = Stretch { from_ns: i64::MIN, to_ns: i64::MAX, state: before, cpu: first.cpu };
    let mut all = Vec::with_capacity(switches.len() + 1);
    for switch in switches {
        let is_on = open.state == State::Ran;
        if is_on == (switch.kind == SwitchKind::On) || switch.at_ns < open.from_ns {
            continue;
        }
        all.push(Stretch { to_ns: switch.at_ns, cpu: switch.cpu, ..open });
        open = Stretch {
            from_ns: switch.at_ns,
            to_ns: i64::MAX,
            state: after(switch.kind),
            cpu: switch.cpu,
        };
    }
    all.push(open);
    all
}

/// Who ran in a stretch of time on a CPU whose switches these are, in order: each with how long.
pub fn occupants_during(
    queued: &QueueWait,
    switches: &[Occupant],
) -> impl Iterator<Item = (u32, u64)> {
    let first = switches.partition_point(|s| s.at_ns <= queued.from_ns).saturating_sub(1);
    let until =
        switches[first.min(switches.len())..].iter().skip(1).map(|s| s.at_ns).chain([i64::MAX]);
    let (from_ns, to_ns) = (queued.from_ns, queued.to_ns);
    switches[first.min(switches.len())..]
        .iter()
        .zip(until)
        .take_while(move |(s, _)| s.at_ns < to_ns)
        .map(move |(s, until)| (s.thread, span(s.at_ns.max(from_ns), until.min(to_ns))))
        .filter(|(_, ns)| *ns > 0)
}
