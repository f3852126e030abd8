//! The reconstruction of the data of an external program, of which only the switches of its threads
//! and its ticks are known. Cycles and accounts are reconstructed from these for
//! [`explain`](super::explain).

use std::collections::BTreeSet;

use jitterstat::stats::quantile::nearest_rank;

use super::input::{
    CpuInterval, CpuIntervals, Cycle, IDLE_THREAD, Reading, Switch, SwitchKind, Thread, Tick, span,
};

/// A thread of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedThread {
    /// ID of the thread.
    pub id: u32,
    /// Its switches in order of time.
    pub switches: Vec<Switch>,
}

/// A round of the program with its reconstructed data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReconstructedRound {
    /// The ticks, each with the index of its thread; `usize::MAX` if no thread was running.
    pub ticks: Vec<Tick>,
    /// The threads, in the given order.
    pub threads: Vec<Thread>,
    /// Maximum time of the usual path from the kernel to the tick.
    pub way_ns: u64,
    /// Number of ticks with a thread.
    pub placed: usize,
}

impl ReconstructedRound {
    /// Returns the threads that ran ticks, in the given order.
    #[must_use]
    pub fn running_threads(&self) -> Vec<Thread> {
        let indices: BTreeSet<usize> = self.ticks.iter().map(|tick| tick.thread).collect();
        indices.into_iter().filter_map(|index| self.threads.get(index).cloned()).collect()
    }
}

/// A tick of the program.
#[derive(Clone, Copy)]
struct ObservedTick {
    deadline_ns: i64,
    wake_ns: i64,
    /// The thread that ran the tick, if one was running.
    runner: Option<Runner>,
}

/// The thread that ran at some time.
#[derive(Clone, Copy)]
struct Runner {
    /// Index of the thread.
    thread: usize,
    /// Start of its turn.
    since_ns: i64,
}

/// Reconstructs which thread ran each tick, when it went to sleep before the tick, and for how long
/// other threads kept it from its CPU.
///
/// The ticks are those of one loop, as deadline and wake time, in order. A tick belongs to the
/// thread that ran at its wake time; if several did, to the one whose turn started last. If a
/// thread starts to wait before a deadline, it waits for that deadline; if it starts after the
/// deadline, it is blocked by another event. From the deadline on, the thread counts as waiting for
/// the CPU on which it ran next, as long as other threads occupied that CPU without a break until
/// it ran.
///
/// `waited_ns` is written by the program: the total time for which the thread of each tick had
/// waited for a CPU. It is preferred if the previous tick was of the same thread. Without it and
/// without `occupants`, waits for a CPU cannot be distinguished from delays below the thread.
#[must_use]
pub fn reconstruct(
    ticks: &[(i64, i64)],
    waited_ns: Option<&[u64]>,
    threads: &[WatchedThread],
    occupants: Option<&CpuIntervals>,
    max_way_ns: u64,
) -> ReconstructedRound {
    let observed: Vec<ObservedTick> =
        ticks.iter().map(|tick| ObservedTick::new(*tick, threads)).collect();
    let way_ns = usual_way_ns(&observed).min(max_way_ns);
    let mut reconstructed = Vec::with_capacity(threads.len());
    for (index, thread) in threads.iter().enumerate() {
        let ticks = thread_ticks(&observed, waited_ns, index);
        let cycles = reconstruct_cycles(&ticks, thread, occupants, way_ns);
        reconstructed.push(Thread { cycles, switches: Some(thread.switches.clone()) });
    }
    ReconstructedRound {
        ticks: observed.iter().map(Tick::from).collect(),
        threads: reconstructed,
        way_ns,
        placed: observed.iter().filter(|tick| tick.runner.is_some()).count(),
    }
}

impl ObservedTick {
    /// Creates a tick with its deadline and wake time.
    fn new((deadline_ns, wake_ns): (i64, i64), threads: &[WatchedThread]) -> Self {
        Self { deadline_ns, wake_ns, runner: find_runner(threads, wake_ns) }
    }

    /// Whether a thread ran the tick.
    fn ran_on(&self, thread: usize) -> bool {
        self.runner.is_some_and(|runner| runner.thread == thread)
    }
}

impl From<&ObservedTick> for Tick {
    fn from(tick: &ObservedTick) -> Self {
        let thread = tick.runner.map_or(usize::MAX, |runner| runner.thread);
        Self { deadline_ns: tick.deadline_ns, wake_ns: tick.wake_ns, thread }
    }
}

/// Finds the thread that ran at a time.
fn find_runner(threads: &[WatchedThread], at_ns: i64) -> Option<Runner> {
    let mut latest: Option<Runner> = None;
    for (thread, watched) in threads.iter().enumerate() {
        let Some(since_ns) = running_since(&watched.switches, at_ns) else { continue };
        if latest.is_none_or(|latest| since_ns >= latest.since_ns) {
            latest = Some(Runner { thread, since_ns });
        }
    }
    latest
}

/// Returns the start of a thread's turn at a time; `None` if it was not running.
fn running_since(switches: &[Switch], at_ns: i64) -> Option<i64> {
    match switches.partition_point(|s| s.at_ns <= at_ns).checked_sub(1) {
        Some(last) if switches[last].kind == SwitchKind::On => Some(switches[last].at_ns),
        Some(_) => None,
        // The turn started before the first recorded switch.
        None if switches.first()?.kind != SwitchKind::On => Some(i64::MIN),
        None => None,
    }
}

/// The median time from the start of a thread's turn to its tick; 0 if unknown.
fn usual_way_ns(ticks: &[ObservedTick]) -> u64 {
    let way = |tick: &ObservedTick| Some(tick.wake_ns.saturating_sub(tick.runner?.since_ns));
    let mut ways: Vec<i64> = ticks.iter().filter_map(way).collect();
    ways.sort_unstable();
    nearest_rank(&ways, 0.5).and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0)
}

/// A tick of one thread.
struct ThreadTick {
    deadline_ns: i64,
    wake_ns: i64,
    /// The wait since the previous tick, as written by the program.
    stated_wait: Option<StatedWait>,
}

struct StatedWait {
    since_ns: i64,
    waited_ns: u64,
}

/// The ticks of one thread. `waited_ns` are the numbers that the program wrote with all ticks.
fn thread_ticks(
    ticks: &[ObservedTick],
    waited_ns: Option<&[u64]>,
    thread: usize,
) -> Vec<ThreadTick> {
    let mut found = Vec::new();
    for (n, tick) in ticks.iter().enumerate().filter(|(_, tick)| tick.ran_on(thread)) {
        let previous = n.checked_sub(1).filter(|&previous| ticks[previous].ran_on(thread));
        found.push(ThreadTick {
            deadline_ns: tick.deadline_ns,
            wake_ns: tick.wake_ns,
            stated_wait: previous.and_then(|previous| stated_wait(ticks, waited_ns?, previous)),
        });
    }
    found
}

/// The wait between a tick and the next one, as written by the program.
fn stated_wait(ticks: &[ObservedTick], waited_ns: &[u64], previous: usize) -> Option<StatedWait> {
    let waited_ns = waited_ns.get(previous + 1)?.saturating_sub(*waited_ns.get(previous)?);
    Some(StatedWait { since_ns: ticks[previous].wake_ns, waited_ns })
}

/// The sleep of a thread before a tick.
struct Sleep {
    park_ns: i64,
    unpark_ns: Option<i64>,
    /// Time at the end of the sleep for which the thread waited for a CPU; `None` if unknown.
    queued_ns: Option<u64>,
}

/// Reconstructs the cycles of a thread with their accounts.
fn reconstruct_cycles(
    ticks: &[ThreadTick],
    thread: &WatchedThread,
    occupants: Option<&CpuIntervals>,
    way_ns: u64,
) -> Vec<Cycle> {
    let switches = &thread.switches;
    let sleeps = find_sleeps(ticks, thread, occupants, way_ns);
    let mut delay_ns = 0_u64;
    let mut cycles: Vec<Cycle> = Vec::with_capacity(sleeps.len() + 1);
    for (i, sleep) in sleeps.iter().enumerate() {
        let reading = Reading { delay_ns: sleep.queued_ns.map(|_| delay_ns), ..Reading::default() };
        let (park_ns, unpark_ns) = (sleep.park_ns, sleep.unpark_ns);
        cycles.push(Cycle { park_ns, reading, torn: false, unpark_ns });
        let next_park_ns = sleeps.get(i + 1).map_or(i64::MAX, |next| next.park_ns);
        delay_ns = delay_ns
            .saturating_add(sleep.queued_ns.unwrap_or(0))
            .saturating_add(preempted_ns(switches, park_ns, next_park_ns));
    }
    if !cycles.is_empty() {
        let last_switch_ns = switches.last().map_or(0, |s| s.at_ns);
        let end_ns = ticks.iter().fold(last_switch_ns, |end, tick| end.max(tick.wake_ns));
        let reading = Reading { delay_ns: Some(delay_ns), ..Reading::default() };
        let park_ns = end_ns.saturating_add(1);
        cycles.push(Cycle { park_ns, reading, torn: false, unpark_ns: None });
    }
    cycles
}

/// Finds the sleep of a thread before each of its ticks. Several ticks may share a sleep.
fn find_sleeps(
    ticks: &[ThreadTick],
    thread: &WatchedThread,
    occupants: Option<&CpuIntervals>,
    way_ns: u64,
) -> Vec<Sleep> {
    let switches = &thread.switches;
    let way_ns = i64::try_from(way_ns).unwrap_or(i64::MAX);
    let mut sleeps: Vec<Sleep> = Vec::new();
    for tick in ticks {
        let before = &switches[..switches.partition_point(|s| s.at_ns <= tick.deadline_ns)];
        let Some(off) = before.iter().rposition(|s| s.kind == SwitchKind::Waits) else { continue };
        let park_ns = switches[off].at_ns;
        if sleeps.last().is_some_and(|last| last.park_ns >= park_ns) {
            continue;
        }
        let on = switches[off..].iter().find(|s| s.kind == SwitchKind::On);
        let queued_ns = match (&tick.stated_wait, occupants, on) {
            (Some(stated), ..) => {
                let preempted_ns = preempted_ns(switches, stated.since_ns, tick.wake_ns);
                Some(stated.waited_ns.saturating_sub(preempted_ns))
            }
            (None, Some(occupants), Some(on)) => {
                let turns = occupants.get(&on.cpu).map_or(&[][..], Vec::as_slice);
                Some(occupied_ns(turns, thread.id, tick.deadline_ns.max(park_ns), on.at_ns))
            }
            _ => None,
        };
        let unpark_ns = on.map(|on| on.at_ns.saturating_add(way_ns));
        sleeps.push(Sleep { park_ns, unpark_ns, queued_ns });
    }
    sleeps
}

/// Returns the time for which a thread was preempted, counting preemptions that start between the
/// two times.
fn preempted_ns(switches: &[Switch], from_ns: i64, until_ns: i64) -> u64 {
    let first = switches.partition_point(|s| s.at_ns < from_ns);
    let mut total_ns = 0_u64;
    for pair in switches[first..].windows(2).take_while(|pair| pair[0].at_ns < until_ns) {
        if pair[0].kind == SwitchKind::Preempted {
            total_ns = total_ns.saturating_add(span(pair[0].at_ns, pair[1].at_ns));
        }
    }
    total_ns
}

/// Returns the time after `from_ns` for which other threads occupied a CPU without a break until a
/// thread ran on it at `until_ns`. `turns` are the occupants of that CPU.
fn occupied_ns(turns: &[CpuInterval], thread: u32, from_ns: i64, until_ns: i64) -> u64 {
    let mut start_ns = until_ns;
    for turn in turns[..turns.partition_point(|o| o.at_ns <= until_ns)].iter().rev() {
        let is_idle = turn.thread == IDLE_THREAD;
        // The thread's turn starts shortly before the thread runs.
        let is_previous_turn = turn.thread == thread && start_ns < until_ns;
        if is_idle || is_previous_turn || start_ns <= from_ns {
            break;
        }
        start_ns = turn.at_ns;
    }
    span(start_ns.max(from_ns), until_ns)
}

#[cfg(test)]
mod tests {
    use super::super::{MeasurableParts, RoundConditions, explain};
    use super::*;
    use crate::report::why::Class;

    const MS: i64 = 1_000_000;

    fn switch(at_ns: i64, kind: SwitchKind) -> Switch {
        Switch { at_ns, kind, cpu: 1 }
    }

    fn turn(at_ns: i64, thread: u32) -> CpuInterval {
        CpuInterval { at_ns, thread }
    }

    /// The lateness by cause of a tick of a thread with the given switches, on a CPU with the given
    /// occupants.
    fn parts(
        deadline: i64,
        wake: i64,
        switches: Vec<Switch>,
        given: Option<&[CpuInterval]>,
    ) -> Vec<(Class, u64)> {
        let given = given.map(|given| CpuIntervals::from([(1, given.to_vec())]));
        let threads = [WatchedThread { id: 7, switches }];
        let seen = reconstruct(&[(deadline, wake)], None, &threads, given.as_ref(), 20_000);
        let facts = RoundConditions { path_ns: seen.way_ns, ..RoundConditions::default() };
        assert_eq!(facts.known(), MeasurableParts::default());
        let [explained] = &explain(&seen.ticks, &seen.threads, &facts, given.as_ref())[..] else {
            panic!("one tick")
        };
        assert_eq!(explained.parts.total_ns(), span(deadline, wake));
        Class::ALL
            .into_iter()
            .map(|c| (c, explained.parts.ns(c)))
            .filter(|(_, ns)| *ns > 0)
            .collect()
    }

    #[test]
    fn occupied_cpu_is_a_queue_wait() {
        use SwitchKind::{On, Waits};
        let woken =
            vec![switch(0, On), switch(MS, Waits), switch(5 * MS, On), switch(6 * MS, Waits)];
        let (due, came) = (2 * MS, 5 * MS + 10_000);
        let behind = [
            turn(MS, 0),
            turn(3 * MS, 42),
            turn(4 * MS, 43),
            turn(5 * MS - 300, 7),
            turn(6 * MS, 0),
        ];
        let expected =
            [(Class::Queue, 2_000_000), (Class::Below, 1_000_000), (Class::Path, 10_000)];
        assert_eq!(parts(due, came, woken.clone(), Some(&behind)), expected);
        let idle = [turn(MS, 0), turn(5 * MS - 300, 7), turn(6 * MS, 0)];
        let expected = [(Class::Queue, 300), (Class::Below, 2_999_700), (Class::Path, 10_000)];
        assert_eq!(
            parts(due, came, woken.clone(), Some(&idle)),
            expected,
            "the thread's turn starts before it runs"
        );
        // If others occupied the CPU before the deadline, the wait starts at the deadline.
        let always = [turn(-9 * MS, 42), turn(5 * MS - 300, 7)];
        assert_eq!(parts(due, came, woken.clone(), Some(&always))[0], (Class::Queue, 3_000_000));
        // Without occupants the two cannot be distinguished.
        assert_eq!(
            parts(due, came, woken, None),
            [(Class::Path, 10_000), (Class::Unexplained, 3_000_000)]
        );
    }

    #[test]
    fn intermediate_states_are_attributed() {
        use SwitchKind::{On, Preempted, Waits};
        // The thread wakes on time, is preempted, runs, waits for another event, and runs until its
        // tick.
        let switches = vec![
            switch(0, On),
            switch(MS, Waits),
            switch(2 * MS, On),
            switch(3 * MS, Preempted),
            switch(5 * MS, On),
            switch(6 * MS, Waits),
            switch(9 * MS, On),
            switch(11 * MS, Waits),
        ];
        let given = [
            turn(MS, 0),
            turn(2 * MS, 7),
            turn(3 * MS, 42),
            turn(5 * MS, 7),
            turn(6 * MS, 0),
            turn(9 * MS, 7),
        ];
        let found = parts(2 * MS, 10 * MS, switches, Some(&given));
        let own_cpu_ns = 3 * MS as u64 - 20_000;
        let expected = [
            (Class::Queue, 2 * MS as u64),
            (Class::OwnCpu, own_cpu_ns),
            (Class::Blocked, 3 * MS as u64),
        ];
        assert_eq!(found, [&expected[..], &[(Class::Path, 20_000)]].concat());
    }

    #[test]
    fn stated_wait_is_preferred() {
        use SwitchKind::{On, Preempted, Waits};
        let woken = [
            (0, On),
            (MS, Waits),
            (2 * MS, On),
            (3 * MS, Preempted),
            (4 * MS, On),
            (5 * MS, Waits),
            (9 * MS, On),
        ];
        let switches: Vec<Switch> = woken.into_iter().map(|(at, kind)| switch(at, kind)).collect();
        let threads = [WatchedThread { id: 7, switches }];
        let ticks = [(2 * MS, 2 * MS + 10_000), (6 * MS, 9 * MS + 10_000)];
        // One millisecond of the wait since the previous tick was a preemption.
        let stated = [5 * MS as u64, 8 * MS as u64];
        let always = CpuIntervals::from([(1, vec![turn(-MS, 42)])]);
        for given in [None, Some(&always)] {
            let seen = reconstruct(&ticks, Some(&stated), &threads, given, 20_000);
            let explained = explain(
                &seen.ticks,
                &seen.threads,
                &RoundConditions { path_ns: seen.way_ns, ..RoundConditions::default() },
                given,
            );
            let parts = explained[1].parts;
            assert_eq!(
                [parts.ns(Class::Queue), parts.ns(Class::Below)],
                [2 * MS as u64, MS as u64],
                "{given:?}"
            );
            // The wait before the first tick is unknown.
            assert_eq!(explained[0].parts.ns(Class::Unexplained), 0);
        }
    }

    #[test]
    fn latest_turn_owns_the_tick() {
        use SwitchKind::{On, Waits};
        let busy = WatchedThread { id: 1, switches: vec![switch(-5 * MS, On)] };
        let running_at_start = WatchedThread { id: 2, switches: vec![switch(3 * MS, Waits)] };
        let ticks = WatchedThread {
            id: 3,
            switches: vec![switch(0, Waits), switch(2 * MS, On), switch(4 * MS, Waits)],
        };
        let threads = [busy, running_at_start, ticks];
        let runner =
            |wake_ns| reconstruct(&[(MS, wake_ns)], None, &threads, None, 0).ticks[0].thread;
        assert_eq!([runner(2 * MS + 5), runner(5 * MS)], [2, 0]);
        let late = [WatchedThread { id: 9, switches: vec![switch(9 * MS, On)] }];
        let unplaced = reconstruct(&[(MS, 2 * MS)], None, &late, None, 0);
        assert_eq!((unplaced.ticks[0].thread, unplaced.placed), (usize::MAX, 0));
        assert!(unplaced.running_threads().is_empty());
        assert_eq!(reconstruct(&[], None, &[], None, 5), ReconstructedRound::default());
    }

    proptest::proptest! {
        #[test]
        fn lateness_is_fully_attributed(
            times in proptest::collection::vec((0_i64..1_000, 0_u8..3, 0_u32..2), 0..40),
            turns in proptest::collection::vec((0_i64..1_000, 0_u32..4), 0..40),
            ticks in proptest::collection::vec((0_i64..1_000, -50_i64..400), 1..12),
            known: bool,
            waited: bool,
        ) {
            let kinds = [SwitchKind::On, SwitchKind::Preempted, SwitchKind::Waits];
            let mut threads = [1, 2].map(|id| WatchedThread { id, switches: Vec::new() });
            let mut times = times;
            times.sort_unstable();
            for (at_ns, kind, thread) in times {
                let switches = &mut threads[thread as usize].switches;
                switches.push(Switch { at_ns, kind: kinds[usize::from(kind)], cpu: thread });
            }
            let mut given: Vec<CpuInterval> = turns.into_iter().map(|(at_ns, thread)| CpuInterval { at_ns, thread }).collect();
            given.sort_unstable_by_key(|o| o.at_ns);
            let mut ticks: Vec<(i64, i64)> = ticks.into_iter().map(|(due, late)| (due, due + late)).collect();
            ticks.sort_unstable();
            let given = CpuIntervals::from([(0, given.clone()), (1, given)]);
            let stated: Vec<u64> = (0..ticks.len() as u64).map(|n| n * 37 % 100).collect();
            let seen = reconstruct(&ticks, waited.then_some(&stated[..]), &threads, known.then_some(&given), 30);
            let facts = RoundConditions { path_ns: seen.way_ns, ..RoundConditions::default() };
            for (tick, explained) in seen.ticks.iter().zip(explain(&seen.ticks, &seen.threads, &facts, known.then_some(&given))) {
                proptest::prop_assert_eq!(explained.parts.total_ns(), span(tick.deadline_ns, tick.wake_ns));
            }
        }
    }
}
