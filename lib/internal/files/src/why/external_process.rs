//! A program that is watched from outside: switches say when its threads ran, and nobody when one
//! parked or what its accounts said. Both are made up here from the switches and the ticks, for
//! [`explain`](super::explain).

use std::collections::HashMap;

use jitterstat::stats::quantile::nearest_rank;

use super::input::{Cycle, Occupant, Reading, Switch, SwitchKind, Thread, Tick, span};

/// Who was given each CPU, in order of time.
pub type CpuOccupants = HashMap<u32, Vec<Occupant>>;

/// A thread of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedThread {
    /// Its number in the system.
    pub id: u32,
    /// In order of time.
    pub switches: Vec<Switch>,
}

/// A round of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReconstructedRound {
    /// Its ticks, each with its thread; one that no thread was seen to run has none of the threads.
    pub ticks: Vec<Tick>,
    /// The threads, in the order in which they were given.
    pub threads: Vec<Thread>,
    /// The most that the usual way from the kernel to the stamp is taken to be.
    pub way_ns: u64,
    /// Ticks that some thread was seen to run.
    pub placed: usize,
}

/// Finds out which thread ran each tick, when it went to sleep for it, and how long others kept it
/// from its CPU.
///
/// The ticks are those of one loop, as deadline and wake time, in order. A tick is of the thread
/// that ran at its wake time, of several the one that was given its CPU last. A thread that waits
/// before a deadline waits for it; one that waits after it is blocked by something else. From the
/// deadline on the thread wants to run: so long as other threads then had the CPU on which it came
/// to run, without a break until it did, it waited for them.
///
/// `waited_ns` is what the program itself says: how long the thread of each tick had waited for a
/// CPU until then. Where the tick before was of the same thread, that is used instead. Without it
/// and without `given`, waiting for a CPU cannot be told from what is below the thread.
#[must_use]
pub fn reconstruct(
    ticks: &[(i64, i64)],
    waited_ns: Option<&[u64]>,
    threads: &[WatchedThread],
    given: Option<&CpuOccupants>,
    longest_way_ns: u64,
) -> ReconstructedRound {
    let on: Vec<Option<(usize, i64)>> =
        ticks.iter().map(|(_, wake_ns)| runner(threads, *wake_ns)).collect();
    let mut ways: Vec<i64> = ticks
        .iter()
        .zip(&on)
        .filter_map(|((_, wake_ns), on)| Some(wake_ns.saturating_sub((*on)?.1)))
        .collect();
    ways.sort_unstable();
    let usual = nearest_rank(&ways, 0.5).and_then(|ns| u64::try_from(ns).ok());
    let way_ns = usual.unwrap_or(0).min(longest_way_ns);
    let is_of = |n: usize, place: usize| on[n].is_some_and(|(thread, _)| thread == place);
    let waited = |n: usize, place: usize| {
        let before = n.checked_sub(1).filter(|&before| is_of(before, place))?;
        let all = waited_ns?;
        Some((ticks[before].1, all.get(n)?.saturating_sub(*all.get(before)?)))
    };
    let thread = |(place, thread): (usize, &WatchedThread)| {
        let own = (0..ticks.len()).filter(|&n| is_of(n, place));
        let own = own.map(|n| OwnTick {
            deadline_ns: ticks[n].0,
            wake_ns: ticks[n].1,
            waited: waited(n, place),
        });
        Thread {
            cycles: cycles(own, thread, given, way_ns),
            switches: Some(thread.switches.clone()),
        }
    };
    let threads = threads.iter().enumerate().map(thread).collect();
    let placed = on.iter().flatten().count();
    let tick = |(&(deadline_ns, wake_ns), on): (&(i64, i64), &Option<(usize, i64)>)| Tick {
        deadline_ns,
        wake_ns,
        thread: on.map_or(usize::MAX, |(thread, _)| thread),
    };
    ReconstructedRound { ticks: ticks.iter().zip(&on).map(tick).collect(), threads, way_ns, placed }
}

/// The thread that ran at a time, and since when.
fn runner(threads: &[WatchedThread], at_ns: i64) -> Option<(usize, i64)> {
    let since =
        |switches: &[Switch]| match switches.partition_point(|s| s.at_ns <= at_ns).checked_sub(1) {
            Some(last) => (switches[last].kind == SwitchKind::On).then_some(switches[last].at_ns),
            // It ran before the first that was recorded.
            None => switches.first().filter(|s| s.kind != SwitchKind::On).map(|_| i64::MIN),
        };
    let running = threads
        .iter()
        .enumerate()
        .filter_map(|(place, thread)| Some((place, since(&thread.switches)?)));
    running.max_by_key(|(_, since)| *since)
}

/// A tick of one thread.
struct OwnTick {
    deadline_ns: i64,
    wake_ns: i64,
    /// Since when, and how long since then, the thread itself says that it waited for a CPU.
    waited: Option<(i64, u64)>,
}

/// The waits for these ticks of the thread, as cycles.
fn cycles(
    ticks: impl Iterator<Item = OwnTick>,
    thread: &WatchedThread,
    given: Option<&CpuOccupants>,
    way_ns: u64,
) -> Vec<Cycle> {
    let switches = &thread.switches;
    let way = i64::try_from(way_ns).unwrap_or(i64::MAX);
    let mut end_ns = switches.last().map_or(0, |s| s.at_ns);
    // Each with how long the thread waited for a CPU at the end of its sleep.
    let mut waits: Vec<(Cycle, Option<u64>)> = Vec::new();
    for tick in ticks {
        end_ns = end_ns.max(tick.wake_ns);
        let before = switches.partition_point(|s| s.at_ns <= tick.deadline_ns);
        let Some(off) = switches[..before].iter().rposition(|s| s.kind == SwitchKind::Waits) else {
            continue;
        };
        let park_ns = switches[off].at_ns;
        if waits.last().is_some_and(|(last, _)| last.park_ns >= park_ns) {
            continue;
        }
        let on = switches[off..].iter().find(|s| s.kind == SwitchKind::On);
        let says = tick.waited.map(|(since_ns, waited)| {
            waited.saturating_sub(preempted(switches, since_ns, tick.wake_ns))
        });
        let seen = given.zip(on).map(|(given, on)| {
            let turns = given.get(&on.cpu).map_or(&[][..], Vec::as_slice);
            behind_others(turns, thread.id, tick.deadline_ns.max(park_ns), on.at_ns)
        });
        let unpark_ns = on.map(|on| on.at_ns.saturating_add(way));
        waits.push((
            Cycle { park_ns, reading: Reading::default(), torn: false, unpark_ns },
            says.or(seen),
        ));
    }
    // As the thread's account would have it, which only ever rises.
    let mut delay_ns = 0_u64;
    let ends: Vec<i64> =
        waits.iter().skip(1).map(|(next, _)| next.park_ns).chain([i64::MAX]).collect();
    let mut cycles: Vec<Cycle> = Vec::with_capacity(waits.len() + 1);
    for ((mut cycle, queued), until_ns) in waits.into_iter().zip(ends) {
        cycle.reading.delay_ns = queued.map(|_| delay_ns);
        delay_ns = delay_ns.saturating_add(queued.unwrap_or(0)).saturating_add(preempted(
            switches,
            cycle.park_ns,
            until_ns,
        ));
        cycles.push(cycle);
    }
    if !cycles.is_empty() {
        let reading = Reading { delay_ns: Some(delay_ns), ..Reading::default() };
        cycles.push(Cycle {
            park_ns: end_ns.saturating_add(1),
            reading,
            torn: false,
            unpark_ns: None,
        });
    }
    cycles
}

/// How long a thread was off its CPU although it could have gone on, in stretches that begin
/// between the two times.
fn preempted(switches: &[Switch], from_ns: i64, until_ns: i64) -> u64 {
    let first = switches.partition_point(|s| s.at_ns < from_ns);
    let pairs = switches[first..].windows(2).take_while(|pair| pair[0].at_ns < until_ns);
    let off = pairs.filter(|pair| pair[0].kind == SwitchKind::Preempted);
    off.map(|pair| span(pair[0].at_ns, pair[1].at_ns)).fold(0, u64::saturating_add)
}

/// How long other threads had a CPU without a break before this one was given it, from some time
/// on.
fn behind_others(given: &[Occupant], thread: u32, from_ns: i64, until_ns: i64) -> u64 {
    let mut start_ns = until_ns;
    for turn in given[..given.partition_point(|o| o.at_ns <= until_ns)].iter().rev() {
        let is_idle = turn.thread == 0;
        // Its own turn begins a moment before it runs.
        let is_over = turn.thread == thread && start_ns < until_ns;
        if is_idle || is_over || start_ns <= from_ns {
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

    fn turn(at_ns: i64, thread: u32) -> Occupant {
        Occupant { at_ns, thread }
    }

    /// One tick of a thread with these switches on a CPU that was given so.
    fn parts(
        deadline: i64,
        wake: i64,
        switches: Vec<Switch>,
        given: Option<&[Occupant]>,
    ) -> Vec<(Class, u64)> {
        let given = given.map(|given| CpuOccupants::from([(1, given.to_vec())]));
        let threads = [WatchedThread { id: 7, switches }];
        let seen = reconstruct(&[(deadline, wake)], None, &threads, given.as_ref(), 20_000);
        let facts = RoundConditions { path_ns: seen.way_ns, ..RoundConditions::default() };
        assert_eq!(facts.known(), MeasurableParts::default());
        let [explained] = &explain(&seen.ticks, &seen.threads, &facts)[..] else {
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
    fn a_thread_that_wakes_behind_another_waited_for_it_and_on_an_idle_cpu_was_woken_late() {
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
            "its own turn begins before it runs"
        );
        // Others had the CPU long before it was due: that counts from then on.
        let always = [turn(-9 * MS, 42), turn(5 * MS - 300, 7)];
        assert_eq!(parts(due, came, woken.clone(), Some(&always))[0], (Class::Queue, 3_000_000));
        // Who does not know who ran does not know which of the two it was.
        assert_eq!(
            parts(due, came, woken, None),
            [(Class::Path, 10_000), (Class::Unexplained, 3_000_000)]
        );
    }

    #[test]
    fn what_comes_between_is_told_apart() {
        use SwitchKind::{On, Preempted, Waits};
        // Woken in time; it ran, was preempted, ran, waited for something else, and ran again until
        // its tick.
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
        let own = 1_000_000 + 1_000_000 + 1_000_000 - 20_000;
        let expected =
            [(Class::Queue, 2 * MS as u64), (Class::OwnCpu, own), (Class::Blocked, 3 * MS as u64)];
        assert_eq!(found, [&expected[..], &[(Class::Path, 20_000)]].concat());
    }

    #[test]
    fn what_a_thread_says_itself_beats_what_is_seen_from_outside() {
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
        // Of what it waited since the tick before, a millisecond was when it was preempted.
        let says = [5 * MS as u64, 8 * MS as u64];
        let always = CpuOccupants::from([(1, vec![turn(-MS, 42)])]);
        for given in [None, Some(&always)] {
            let seen = reconstruct(&ticks, Some(&says), &threads, given, 20_000);
            let explained = explain(
                &seen.ticks,
                &seen.threads,
                &RoundConditions { path_ns: seen.way_ns, ..RoundConditions::default() },
            );
            let parts = explained[1].parts;
            assert_eq!(
                [parts.ns(Class::Queue), parts.ns(Class::Below)],
                [2 * MS as u64, MS as u64],
                "{given:?}"
            );
            // Nothing says how long it had waited before the first.
            assert_eq!(explained[0].parts.ns(Class::Unexplained), 0);
        }
    }

    #[test]
    fn a_tick_is_of_the_thread_that_was_given_its_cpu_last() {
        use SwitchKind::{On, Waits};
        let busy = WatchedThread { id: 1, switches: vec![switch(-5 * MS, On)] };
        let from_the_start = WatchedThread { id: 2, switches: vec![switch(3 * MS, Waits)] };
        let ticks = WatchedThread {
            id: 3,
            switches: vec![switch(0, Waits), switch(2 * MS, On), switch(4 * MS, Waits)],
        };
        let threads = [busy, from_the_start, ticks];
        let of = |wake_ns| reconstruct(&[(MS, wake_ns)], None, &threads, None, 0).ticks[0].thread;
        assert_eq!([of(2 * MS + 5), of(5 * MS)], [2, 0]);
        let late = [WatchedThread { id: 9, switches: vec![switch(9 * MS, On)] }];
        let nobody = reconstruct(&[(MS, 2 * MS)], None, &late, None, 0);
        assert_eq!((nobody.ticks[0].thread, nobody.placed), (usize::MAX, 0));
        assert_eq!(reconstruct(&[], None, &[], None, 5), ReconstructedRound::default());
    }

    proptest::proptest! {
        #[test]
        fn whatever_was_seen_every_nanosecond_is_booked_once(
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
            let mut given: Vec<Occupant> = turns.into_iter().map(|(at_ns, thread)| Occupant { at_ns, thread }).collect();
            given.sort_unstable_by_key(|o| o.at_ns);
            let mut ticks: Vec<(i64, i64)> = ticks.into_iter().map(|(due, late)| (due, due + late)).collect();
            ticks.sort_unstable();
            let given = CpuOccupants::from([(0, given.clone()), (1, given)]);
            let says: Vec<u64> = (0..ticks.len() as u64).map(|n| n * 37 % 100).collect();
            let seen = reconstruct(&ticks, waited.then_some(&says[..]), &threads, known.then_some(&given), 30);
            let facts = RoundConditions { path_ns: seen.way_ns, ..RoundConditions::default() };
            for (tick, explained) in seen.ticks.iter().zip(explain(&seen.ticks, &seen.threads, &facts)) {
                proptest::prop_assert_eq!(explained.parts.total_ns(), span(tick.deadline_ns, tick.wake_ns));
            }
        }
    }
}
