//! Tests of the attribution with rounds of known causes, and with arbitrary input.

use proptest::prelude::*;

use super::pool::{MIN_EPISODES, MIN_TICKS, Pool, ProfiledRound, ProfiledTick, ReferenceRound};
use super::*;
use crate::report::why::{Class, Tier};

const US: i64 = 1_000;
const PERIOD: i64 = 500 * US;

fn reading(delay_us: u64, cpu_us: u64) -> Reading {
    let us = |us: u64| Some(us * 1_000);
    Reading {
        delay_ns: us(delay_us),
        cpu_ns: us(cpu_us),
        minor_faults: Some(0),
        throttled: Some(0),
    }
}

fn cycle(park_us: i64, unpark_us: i64, reading: Reading) -> Cycle {
    Cycle { park_ns: park_us * US, reading, torn: false, unpark_ns: Some(unpark_us * US) }
}

fn on(at_us: i64) -> Switch {
    Switch { at_ns: at_us * US, kind: SwitchKind::On, cpu: 1 }
}

fn off(at_us: i64, kind: SwitchKind) -> Switch {
    Switch { kind, ..on(at_us) }
}

/// The parts of one tick that are not zero, in microseconds.
fn parts(explained: &Breakdown) -> Vec<(Class, u64)> {
    Class::ALL
        .into_iter()
        .map(|c| (c, explained.parts.ns(c) / 1_000))
        .filter(|(_, us)| *us > 0)
        .collect()
}

/// Explains a tick that was due at 1,000 us and delivered at 1,400 us. Its thread parked at 600 us,
/// was awake at 1,390 us, and parked again at 1,420 us.
fn explain_one(
    switches: Option<Vec<Switch>>,
    waited_us: u64,
    ran_us: u64,
    facts: &RoundConditions,
) -> Breakdown {
    let cycles =
        vec![cycle(600, 1_390, reading(0, 0)), cycle(1_420, 1_900, reading(waited_us, ran_us))];
    let tick = Tick { deadline_ns: 1_000 * US, wake_ns: 1_400 * US, thread: 0 };
    explain(&[tick], &[Thread { cycles, switches }], facts, None).remove(0)
}

#[test]
fn queue_wait_differs_from_late_wakeup() {
    let switches =
        || Some(vec![on(0), off(605, SwitchKind::Waits), on(1_380), off(1_421, SwitchKind::Waits)]);
    let facts = RoundConditions { path_ns: 20_000, ..RoundConditions::default() };
    let path_and_own = [(Class::OwnCpu, 10), (Class::Path, 20)];
    let queued = explain_one(switches(), 370, 35, &facts);
    assert_eq!(parts(&queued), [&[(Class::Queue, 370)], &path_and_own[..]].concat());
    assert_eq!(queued.queued, [QueueWait { from_ns: 1_010 * US, to_ns: 1_380 * US, cpu: 1 }]);
    let late = explain_one(switches(), 0, 35, &facts);
    assert_eq!(parts(&late), [(Class::OwnCpu, 10), (Class::Below, 370), (Class::Path, 20)]);
    // The accounts give the same result, except that the position of the CPU time is unknown.
    assert_eq!(
        parts(&explain_one(None, 380, 35, &facts)),
        [(Class::Queue, 380), (Class::Path, 20)]
    );
    assert_eq!(parts(&explain_one(None, 0, 35, &facts))[0], (Class::Below, 380));
}

/// The occupants of CPU 1: another thread until `idle_us`, then none until the thread runs.
fn occupied_until(idle_us: i64) -> CpuIntervals {
    let turn = |at_us: i64, thread| CpuInterval { at_ns: at_us * US, thread };
    CpuIntervals::from([(1, vec![turn(0, 9), turn(idle_us, IDLE_THREAD), turn(1_380, 7)])])
}

#[test]
fn idle_cpu_is_no_queue() {
    let switches =
        vec![on(0), off(605, SwitchKind::Waits), on(1_380), off(1_421, SwitchKind::Waits)];
    let cycles = vec![cycle(600, 1_390, reading(0, 0)), cycle(1_420, 1_900, reading(370, 35))];
    let tick = Tick { deadline_ns: 1_000 * US, wake_ns: 1_400 * US, thread: 0 };
    let thread = Thread { cycles, switches: Some(switches) };
    let conditions = RoundConditions { path_ns: 20_000, ..RoundConditions::default() };
    let found = |occupants: Option<&CpuIntervals>, conditions: &RoundConditions| {
        explain(&[tick], std::slice::from_ref(&thread), conditions, occupants).remove(0)
    };
    let path_and_own = [(Class::OwnCpu, 10), (Class::Path, 20)];
    let only_queue = [&[(Class::Queue, 370)], &path_and_own[..]].concat();
    assert_eq!(parts(&found(None, &conditions)), only_queue);
    assert_eq!(parts(&found(Some(&CpuIntervals::new()), &conditions)), only_queue);
    assert_eq!(parts(&found(Some(&occupied_until(1_380)), &conditions)), only_queue);
    let half = found(Some(&occupied_until(1_100)), &conditions);
    assert_eq!(
        parts(&half),
        [(Class::Queue, 90), (Class::OwnCpu, 10), (Class::Below, 280), (Class::Path, 20)]
    );
    assert_eq!(half.parts.total_ns(), 400_000);
    let idle = found(Some(&occupied_until(900)), &conditions);
    assert_eq!(parts(&idle), [(Class::OwnCpu, 10), (Class::Below, 370), (Class::Path, 20)]);
    // The wait itself is still listed, so that it can be compared with the kernel's records.
    assert_eq!(idle.queued, [QueueWait { from_ns: 1_010 * US, to_ns: 1_380 * US, cpu: 1 }]);
    // Like any other time below the thread, it can belong to the hypervisor.
    let stolen = RoundConditions { steal_ns: 10_000_000, ..conditions };
    assert_eq!(found(Some(&occupied_until(900)), &stolen).parts.ns(Class::Host), 370_000);
}

#[test]
fn preempted_thread_waits_for_its_cpu() {
    // Preempted on CPU 1, which stays occupied, and moved to CPU 0, which was idle all the time.
    let switches = vec![
        on(0),
        off(605, SwitchKind::Waits),
        on(990),
        off(1_000, SwitchKind::Preempted),
        Switch { cpu: 0, ..on(1_300) },
    ];
    let cycles = vec![cycle(600, 995, reading(0, 0)), cycle(1_420, 1_900, reading(300, 35))];
    let tick = Tick { deadline_ns: 1_000 * US, wake_ns: 1_400 * US, thread: 0 };
    let turn = |at_us: i64, thread| CpuInterval { at_ns: at_us * US, thread };
    let occupants = CpuIntervals::from([
        (0, vec![turn(0, IDLE_THREAD), turn(1_300, 7)]),
        (1, vec![turn(990, 7), turn(1_000, 9)]),
    ]);
    let thread = Thread { cycles, switches: Some(switches) };
    let found =
        explain(&[tick], &[thread], &RoundConditions::default(), Some(&occupants)).remove(0);
    assert_eq!(parts(&found), [(Class::Queue, 300), (Class::OwnCpu, 100)]);
    assert_eq!(found.queued[0].cpu, 1);
}

#[test]
fn preempted_and_blocked_time_differ() {
    // Woken at 650 for another task; preempted from 1,000 to 1,100; blocked from 1,200 to 1,380.
    let switches = vec![
        on(0),
        off(605, SwitchKind::Waits),
        on(645),
        off(1_000, SwitchKind::Preempted),
        on(1_100),
        off(1_200, SwitchKind::Waits),
        on(1_380),
        off(1_421, SwitchKind::Waits),
    ];
    let cycles = vec![cycle(600, 650, reading(0, 0)), cycle(1_420, 1_900, reading(130, 500))];
    let tick = Tick { deadline_ns: 1_000 * US, wake_ns: 1_400 * US, thread: 0 };
    let thread = |switches| Thread { cycles: cycles.clone(), switches };
    let found =
        explain(&[tick], &[thread(Some(switches))], &RoundConditions::default(), None).remove(0);
    // 30 of the 130 us of waiting were before the first switch, at the end of the first sleep.
    assert_eq!(parts(&found), [(Class::Queue, 100), (Class::OwnCpu, 120), (Class::Blocked, 180)]);
    let found = explain(&[tick], &[thread(None)], &RoundConditions::default(), None).remove(0);
    // Of 770 us awake, the thread ran for 500, waited for 130 and was blocked for 140; 400 us are
    // in the window.
    assert_eq!(parts(&found), [(Class::Queue, 67), (Class::OwnCpu, 259), (Class::Blocked, 72)]);
}

#[test]
fn conditions_change_the_cause() {
    let switches =
        || Some(vec![on(0), off(605, SwitchKind::Waits), on(1_380), off(1_421, SwitchKind::Waits)]);
    let explain_with =
        |facts: RoundConditions, waited| parts(&explain_one(switches(), waited, 35, &facts));
    let stopped = RoundConditions { continued_ns: vec![1_379 * US], ..RoundConditions::default() };
    assert_eq!(
        explain_with(stopped.clone(), 0),
        [(Class::OwnCpu, 10), (Class::Stopped, 380), (Class::Path, 10)]
    );
    assert_eq!(
        explain_with(stopped, 370)[0],
        (Class::Queue, 370),
        "waiting for a CPU is never a stop"
    );
    let elsewhere = RoundConditions {
        continued_ns: vec![1_000 * US, 1_401 * US],
        ..RoundConditions::default()
    };
    assert_eq!(explain_with(elsewhere, 0)[1], (Class::Below, 380));
    let slack =
        RoundConditions { slack_ns: Some(50_000), path_ns: 20_000, ..RoundConditions::default() };
    assert_eq!(
        explain_with(slack, 0),
        [(Class::OwnCpu, 10), (Class::Slack, 50), (Class::Below, 320), (Class::Path, 20)]
    );
    let steal =
        |steal_ns| explain_with(RoundConditions { steal_ns, ..RoundConditions::default() }, 0)[1];
    assert_eq!(steal(9_999_999), (Class::Below, 380), "less than a step of the account");
    assert_eq!(steal(10_000_000), (Class::Host, 380));

    let quota = RoundConditions {
        quota_period_ns: Some(100_000_000),
        fault_ns: Some(1_000),
        ..RoundConditions::default()
    };
    let cycles = |throttled, minor_faults| {
        let end = Reading {
            throttled: Some(throttled),
            minor_faults: Some(minor_faults),
            ..reading(200, 35)
        };
        vec![cycle(600, 1_390, reading(0, 0)), cycle(1_420, 1_900, end)]
    };
    let tick = Tick { deadline_ns: 1_000 * US, wake_ns: 1_400 * US, thread: 0 };
    let with = |throttled, faults| {
        let thread = Thread { cycles: cycles(throttled, faults), switches: switches() };
        explain(&[tick], &[thread], &quota, None).remove(0)
    };
    assert_eq!(parts(&with(1, 0)), [(Class::Quota, 380), (Class::OwnCpu, 10), (Class::Path, 10)]);
    // 30 faults from 1,390 to 1,420 us, 10 of which are before the tick.
    assert_eq!(parts(&with(0, 30))[1..3], [(Class::Faults, 10), (Class::Below, 180)]);
    assert_eq!(with(0, 0).parts.shares(quota.known()).slack, None);
    assert_eq!(with(0, 0).parts.shares(RoundConditions::default().known()).quota, None);
}

#[test]
fn torn_readings_are_skipped() {
    let facts =
        RoundConditions { quota_period_ns: Some(100_000_000), ..RoundConditions::default() };
    let at = |throttled| Reading { throttled: Some(throttled), ..reading(0, 0) };
    // The throttling occurred during the second reading.
    let cycles = |torn| {
        vec![
            cycle(100, 500, at(0)),
            Cycle { torn, ..cycle(600, 1_390, at(1)) },
            cycle(1_420, 1_900, at(1)),
        ]
    };
    let tick = Tick { deadline_ns: 1_000 * US, wake_ns: 1_400 * US, thread: 0 };
    let found = |torn| {
        explain(&[tick], &[Thread { cycles: cycles(torn), switches: None }], &facts, None).remove(0)
    };
    assert_eq!(found(false).parts.ns(Class::Quota), 0);
    assert_eq!(found(true).parts.ns(Class::Quota), 400_000);
}

#[test]
fn missing_data_is_unexplained() {
    let tick = Tick { deadline_ns: 1_000 * US, wake_ns: 1_400 * US, thread: 0 };
    let unexplained = |threads: &[Thread], facts: &RoundConditions| {
        parts(&explain(&[tick], threads, facts, None).remove(0))
    };
    assert_eq!(unexplained(&[], &RoundConditions::default()), [(Class::Unexplained, 400)]);
    assert_eq!(
        unexplained(&[Thread::default()], &RoundConditions::default()),
        [(Class::Unexplained, 400)]
    );
    // The deadline is before the first cycle.
    let cycles = vec![cycle(1_100, 1_390, reading(0, 0)), cycle(1_420, 1_900, reading(0, 35))];
    let found = unexplained(&[Thread { cycles, switches: None }], &RoundConditions::default());
    assert_eq!(found, [(Class::OwnCpu, 10), (Class::Below, 290), (Class::Unexplained, 100)]);
    // The end of the park is unknown.
    let mut cycles = vec![cycle(600, 0, reading(0, 0)), cycle(1_420, 1_900, reading(0, 35))];
    cycles[0].unpark_ns = None;
    assert_eq!(
        unexplained(&[Thread { cycles, switches: None }], &RoundConditions::default()),
        [(Class::Unexplained, 400)]
    );
    // Without an account of waiting, sleep and waiting for a CPU cannot be distinguished.
    let unknown = Reading { delay_ns: None, ..reading(0, 0) };
    let cycles = vec![cycle(600, 1_390, unknown), cycle(1_420, 1_900, unknown)];
    let switches = Some(vec![on(0), off(605, SwitchKind::Waits), on(1_390)]);
    let found = unexplained(&[Thread { cycles, switches }], &RoundConditions::default());
    assert_eq!(found, [(Class::OwnCpu, 10), (Class::Unexplained, 390)]);
    // An early tick has no lateness.
    let early = Tick { deadline_ns: 7, wake_ns: 5, thread: 0 };
    assert_eq!(explain(&[early], &[], &RoundConditions::default(), None)[0].parts.total_ns(), 0);
}

#[test]
fn excessive_cpu_time_is_moved_below() {
    // The thread runs from before the deadline to the wake-up. If it has no other tasks, the
    // machine is slow.
    let cycles = || vec![cycle(600, 950, reading(0, 0)), cycle(1_420, 1_900, reading(0, 470))];
    let tick = Tick { deadline_ns: 1_000 * US, wake_ns: 1_400 * US, thread: 0 };
    let found = |usual_cpu_ns| {
        let facts = RoundConditions { usual_cpu_ns, ..RoundConditions::default() };
        parts(
            &explain(&[tick], &[Thread { cycles: cycles(), switches: None }], &facts, None)
                .remove(0),
        )
    };
    assert_eq!(found(None), [(Class::OwnCpu, 400)]);
    assert_eq!(found(Some(10_000)), [(Class::OwnCpu, 50), (Class::Below, 350)]);
}

/// A stall of `stall` us that starts at the first deadline. Its ticks are delivered when it ends.
fn backlog(stall: i64, kind: SwitchKind) -> (Vec<Tick>, Thread) {
    let n = stall / (PERIOD / US) + 1;
    let start = 1_000;
    let tick =
        |k| Tick { deadline_ns: start * US + k * PERIOD, wake_ns: (start + stall) * US, thread: 0 };
    let waited = if kind == SwitchKind::Preempted { stall as u64 } else { 0 };
    let switches = vec![
        on(0),
        off(start, kind),
        on(start + stall),
        off(start + stall + 60, SwitchKind::Waits),
    ];
    let cycles = vec![
        cycle(500, 600, reading(0, 0)),
        cycle(start + stall + 50, start + stall + 90, reading(waited, 500)),
    ];
    ((0..n).map(tick).collect(), Thread { cycles, switches: Some(switches) })
}

#[test]
fn backlog_has_cause_of_stall() {
    for (kind, class) in
        [(SwitchKind::Preempted, Class::Queue), (SwitchKind::Waits, Class::Blocked)]
    {
        let stall = 12_700;
        let (ticks, thread) = backlog(stall, kind);
        let explained = explain(&ticks, &[thread], &RoundConditions::default(), None);
        let sum: u64 = explained.iter().map(|e| e.parts.ns(class)).sum();
        let expected: i64 = (0..ticks.len() as i64).map(|k| stall * US - k * PERIOD).sum();
        assert_eq!(sum, expected as u64, "{class:?}");
    }
}

#[test]
fn steal_counts_once_per_stall() {
    // Two stalls below the thread, of 9 and 4 ms, and a counter that moved by 10 ms.
    let mut ticks = Vec::new();
    let mut cycles = Vec::new();
    let mut at = 1_000;
    for stall in [4_000, 9_000] {
        let (backlog, _) = backlog(stall, SwitchKind::Waits);
        let shift = (at - 1_000) * US;
        ticks.extend(backlog.iter().map(|t| Tick {
            deadline_ns: t.deadline_ns + shift,
            wake_ns: t.wake_ns + shift,
            ..*t
        }));
        cycles.push(cycle(at - 400, at + stall, reading(0, 0)));
        at += stall + 10_000;
    }
    cycles.push(cycle(at, at + 100, reading(0, 0)));
    let thread = Thread { cycles, switches: None };
    let facts = RoundConditions { steal_ns: 10_000_000, ..RoundConditions::default() };
    let explained = explain(&ticks, &[thread], &facts, None);
    let first = |stall: usize| explained[if stall == 0 { 0 } else { 9 }].parts;
    assert_eq!(first(1).ns(Class::Host), 9_000_000);
    assert_eq!((first(0).ns(Class::Host), first(0).ns(Class::Below)), (1_000_000, 3_000_000));
}

#[test]
fn standstills_explain_sleep() {
    let switches =
        || Some(vec![on(0), off(605, SwitchKind::Waits), on(1_380), off(1_421, SwitchKind::Waits)]);
    let stood = |from_us: i64, to_us: i64, others_ran| RoundConditions {
        standstills: vec![Standstill { from_ns: from_us * US, to_ns: to_us * US, others_ran }],
        ..RoundConditions::default()
    };
    let class = |facts: &RoundConditions, waited, class| {
        explain_one(switches(), waited, 35, facts).parts.ns(class) / 1_000
    };
    let host = stood(900, 1_375, false);
    assert_eq!(
        class(&host, 0, Class::Host),
        380,
        "a standstill of most of the sleep explains all of it"
    );
    assert_eq!(class(&stood(1_200, 1_375, false), 0, Class::Host), 175);
    assert_eq!(
        class(&stood(1_400, 1_900, false), 0, Class::Host),
        0,
        "the standstill starts when the task runs"
    );
    assert_eq!(class(&host, 370, Class::Queue), 370, "waiting for a CPU is never a standstill");
    assert_eq!(class(&stood(900, 1_375, true), 0, Class::Stopped), 380);
    // The signal's handler ran after the tick.
    let continued = RoundConditions { continued_ns: vec![1_500 * US], ..stood(900, 1_375, false) };
    assert_eq!((class(&continued, 0, Class::Stopped), class(&continued, 0, Class::Host)), (380, 0));
    // Throttling, of up to 100 ms, also delays the witnesses and explains all of the sleep.
    let quota = RoundConditions { quota_period_ns: Some(100_000_000), ..stood(900, 1_375, false) };
    let reading = |throttled| Reading { throttled: Some(throttled), ..reading(0, 35) };
    let cycles = vec![cycle(600, 1_390, reading(0)), cycle(1_420, 1_900, reading(1))];
    let tick = Tick { deadline_ns: 1_000 * US, wake_ns: 1_400 * US, thread: 0 };
    let throttled =
        explain(&[tick], &[Thread { cycles, switches: switches() }], &quota, None).remove(0).parts;
    assert_eq!((throttled.ns(Class::Quota) / 1_000, throttled.ns(Class::Host)), (380, 0));
}

#[test]
fn steal_excludes_standstills() {
    let host_ns = |steal_ns, stood_ns| {
        let tick = |at: i64| Tick { deadline_ns: at, wake_ns: at + 8_000_000, thread: 0 };
        let sleep = |at: i64| Cycle {
            park_ns: at - 1,
            reading: reading(0, 0),
            torn: false,
            unpark_ns: Some(at + 8_000_000),
        };
        let ticks = [tick(0), tick(50_000_000)];
        let cycles = vec![sleep(0), sleep(50_000_000), sleep(90_000_000)];
        let standstills = vec![Standstill { from_ns: 0, to_ns: stood_ns, others_ran: false }];
        let facts = RoundConditions { steal_ns, standstills, ..RoundConditions::default() };
        explain(&ticks, &[Thread { cycles, switches: None }], &facts, None)
            .iter()
            .map(|e| e.parts.ns(Class::Host))
            .sum::<u64>()
    };
    assert_eq!(host_ns(0, 8_000_000), 8_000_000);
    assert_eq!(
        host_ns(10_000_000, 8_000_000),
        8_000_000,
        "the remaining 2 ms are less than a step of the account"
    );
    assert_eq!(host_ns(20_000_000, 8_000_000), 16_000_000);
}

#[test]
fn occupants_during_a_wait_are_found() {
    let switches: Vec<CpuInterval> = [(0, 7), (100, 8), (250, 0), (300, 9)]
        .map(|(at_ns, thread)| CpuInterval { at_ns, thread })
        .into();
    let found = |from_ns, to_ns| {
        occupants_during(&QueueWait { from_ns, to_ns, cpu: 0 }, &switches).collect::<Vec<_>>()
    };
    assert_eq!(found(50, 310), [(7, 50), (8, 150), (9, 10)], "the idle thread is not listed");
    assert_eq!(found(400, 500), [(9, 100)]);
    assert_eq!(found(-50, 10), [(7, 10)], "occupants before the first switch are unknown");
    assert_eq!(occupants_during(&QueueWait { from_ns: 0, to_ns: 9, cpu: 0 }, &[]).count(), 0);
}

fn profiled_round(index: u64, ticks: &[(i64, i64)]) -> ProfiledRound {
    let tick = |(k, &(late_us, queue_us)): (i64, &(i64, i64))| {
        let mut parts = Parts::default();
        parts.add(Class::Queue, (queue_us * US) as u64);
        parts.add(Class::Below, ((late_us - queue_us) * US) as u64);
        let deadline_ns = k * PERIOD;
        let behind = vec![("cc1".to_owned(), (queue_us * US) as u64)];
        ProfiledTick {
            instance: 0,
            tick: k as u64,
            deadline_ns,
            wake_ns: deadline_ns + late_us * US,
            parts,
            behind,
            way: None,
            stacks: Vec::new(),
        }
    };
    ProfiledRound {
        index,
        ticks: (0..).zip(ticks).map(tick).collect(),
        cpu_ns_per_tick: Some(10_000.0),
        tier: Some(Tier::B1),
        ..ProfiledRound::default()
    }
}

#[test]
fn late_ticks_are_summarised() {
    let mut pool = Pool::new(None, 3_000);
    // Each round has one stall of two ticks; the tick after it is punctual.
    for round in 0..30 {
        let mut ticks = [(14, 0); 100];
        ticks[10..12].clone_from_slice(&[(900, 600), (400, 300)]);
        ticks[40] = (100 + i64::from(round % 2), 50);
        pool.add(profiled_round(round as u64, &ticks));
    }
    let references: Vec<ReferenceRound> = (0..30)
        .map(|index| ReferenceRound { index, p50: 13_500, cpu_ns_per_tick: Some(9_000.0) })
        .collect();
    let why = pool.clone().finish(&references, None);
    assert_eq!(
        (why.ticks, why.late_ticks, why.episodes, why.quantile),
        (3_000, 30, 30, Some(0.99))
    );
    assert_eq!(why.lateness_ns, 30 * 900_000);
    let shares = why.shares_ns.unwrap();
    assert_eq!(
        (shares.queue, shares.below, shares.total_ns()),
        (30 * 600_000, 30 * 300_000, why.lateness_ns)
    );
    assert_eq!(why.behind.unwrap()[0].ns, 30 * 600_000);
    let [low, high] = why.ci95["queue"];
    assert!(
        (low - 2.0 / 3.0).abs() < 1e-9 && (high - 2.0 / 3.0).abs() < 1e-9,
        "all rounds are equal"
    );
    let overhead = why.overhead_ns.unwrap();
    assert_eq!((overhead.p50, overhead.ci95), (500, Some([500, 500])));
    assert_eq!(why.overhead_cpu_ns.unwrap().p50, 1_000);
    assert_eq!(
        (why.longest.len(), why.longest[0].lateness_ns, why.longest[0].tick),
        (5, 900_000, 10)
    );
    assert_eq!(why.rounds.iter().map(|r| r.lateness_ns).sum::<u64>(), why.lateness_ns);
    // With a threshold, the second tick of the stall also counts, and belongs to its episode.
    let mut pool = Pool::new(Some(300_000), 3_000);
    pool.add(profiled_round(0, &[(14, 0), (900, 600), (400, 300), (14, 0), (300, 0), (299, 0)]));
    let why = pool.finish(&[], None);
    assert_eq!(
        (why.late_ticks, why.episodes, why.threshold_ns, why.quantile),
        (3, 2, 300_000, None)
    );
    assert_eq!((why.shares_ns, why.overhead_ns, why.longest.len()), (None, None, 2));
}

#[test]
fn lossy_rounds_keep_the_others() {
    let lossy = |index, tier| {
        let mut round = ProfiledRound { tier, ..profiled_round(index, &[(900, 600); 4]) };
        round.evidence.switches_lost = 7;
        round.ticks.iter_mut().for_each(|tick| tick.behind.clear());
        round
    };
    let mut pool = Pool::new(Some(100_000), 10_000);
    pool.add(lossy(0, Some(Tier::A2)));
    assert!(!pool.has_complete_round());
    (1..7).for_each(|index| pool.add(profiled_round(index, &[(800, 500); 4])));
    pool.add(lossy(7, None));
    assert!(pool.has_complete_round());
    let why = pool.finish(&[], None);
    assert_eq!((why.tier, why.evidence.switches_lost, why.late_ticks), (Some(Tier::B1), 14, 32));
    assert_eq!(why.behind.unwrap()[0].ns, 6 * 4 * 500_000, "the complete rounds");
    assert_eq!(why.shares_ns.unwrap().total_ns(), why.lateness_ns);
    let behind = |round: u64| why.longest.iter().find(|tick| tick.round == round);
    assert!(behind(0).unwrap().behind.is_none(), "not recorded in this round");
    assert!(behind(1).unwrap().behind.is_some());
    let mut pool = Pool::new(Some(100_000), 10_000);
    [Some(Tier::A2), Some(Tier::A1)].into_iter().for_each(|tier| pool.add(lossy(0, tier)));
    assert_eq!(pool.finish(&[], None).tier, Some(Tier::A1), "no round is complete");
}

#[test]
fn few_episodes_are_not_explained() {
    let is_explained = |episodes: u64, ticks_each: usize| {
        let mut pool = Pool::new(Some(100_000), 10_000);
        for round in 0..episodes {
            let lateness: Vec<(i64, i64)> =
                (0..ticks_each).map(|k| (9_000 - k as i64 * 500, 100)).collect();
            pool.add(profiled_round(round, &lateness));
        }
        pool.finish(&[], None).shares_ns.is_some()
    };
    assert_eq!((MIN_TICKS, MIN_EPISODES), (20, 5));
    assert!(is_explained(5, 4) && !is_explained(4, 5) && !is_explained(4, 10));
    let mut pool = Pool::new(Some(100_000), 10_000);
    pool.add(profiled_round(0, &[(200, 0); 19]));
    assert_eq!(pool.finish(&[], None).shares_ns, None, "19 episodes of one tick each");
}

prop_compose! {
    fn any_thread()(
        gaps in prop::collection::vec((0_i64..900, 0_i64..900, 0_u64..900, 0_u64..900, any::<bool>(), 0_u64..9), 0..12),
        moves in prop::option::of(prop::collection::vec((0_i64..400, 0_u8..3), 0..40)),
    ) -> Thread {
        let (mut at, mut delay, mut cpu, mut faults) = (-900, 0, 0, 0);
        let cycles = gaps.iter().map(|&(sleep, awake, waited, ran, seen, fault)| {
            let (park_ns, unpark_ns) = (at, seen.then_some(at + sleep));
            at += sleep + awake;
            let reading = Reading { delay_ns: Some(delay), cpu_ns: Some(cpu), minor_faults: Some(faults), throttled: Some(faults / 4) };
            (delay, cpu, faults) = (delay + waited, cpu + ran, faults + fault);
            Cycle { park_ns, reading, torn: fault == 1, unpark_ns }
        }).collect();
        let mut at = -900;
        let switches = moves.map(|moves| moves.into_iter().map(|(gap, kind)| {
            at += gap;
            let kind = [SwitchKind::On, SwitchKind::Preempted, SwitchKind::Waits][usize::from(kind)];
            Switch { at_ns: at, kind, cpu: 0 }
        }).collect());
        Thread { cycles, switches }
    }
}

prop_compose! {
    fn any_facts()(
        fault_ns in prop::option::of(0_u64..50), quota_period_ns in prop::option::of(0_u64..500),
        slack_ns in prop::option::of(0_u64..300), path_ns in 0_u64..200, usual_cpu_ns in prop::option::of(0_u64..30),
        continued_ns in prop::collection::vec(-900_i64..6_000, 0..2), steal in any::<bool>(),
        stood in prop::collection::vec((0_i64..900, 1_i64..900, any::<bool>()), 0..6),
    ) -> RoundConditions {
        let mut at = -900;
        let standstills = stood.into_iter().map(|(gap, length, others_ran)| {
            let from_ns = at + gap;
            at = from_ns + length;
            Standstill { from_ns, to_ns: at, others_ran }
        }).collect();
        let steal_ns = if steal { 10_000_000 } else { 0 };
        RoundConditions { fault_ns, quota_period_ns, slack_ns, path_ns, usual_cpu_ns, continued_ns, steal_ns, standstills }
    }
}

/// Occupants of CPU 0, each after a gap since the previous one.
fn any_occupants(turns: &[(i64, u32)]) -> CpuIntervals {
    let mut at_ns = -900;
    let mut occupants = Vec::with_capacity(turns.len());
    for &(gap, thread) in turns {
        at_ns += gap;
        occupants.push(CpuInterval { at_ns, thread });
    }
    CpuIntervals::from([(0, occupants)])
}

fn shift_occupants(occupants: &CpuIntervals, by: i64) -> CpuIntervals {
    let mut occupants = occupants.clone();
    occupants.values_mut().flatten().for_each(|occupant| occupant.at_ns += by);
    occupants
}

fn shift_thread(thread: &Thread, by: i64) -> Thread {
    let cycle =
        |c: &Cycle| Cycle { park_ns: c.park_ns + by, unpark_ns: c.unpark_ns.map(|u| u + by), ..*c };
    Thread {
        cycles: thread.cycles.iter().map(cycle).collect(),
        switches: thread.switches.as_ref().map(|switches| {
            switches.iter().map(|s| Switch { at_ns: s.at_ns + by, ..*s }).collect()
        }),
    }
}

proptest! {
    #[test]
    fn parts_add_up_despite_clock_offset(
        thread in any_thread(), facts in any_facts(), by in -1_000_000_000_i64..1_000_000_000,
        turns in prop::option::of(prop::collection::vec((0_i64..900, 0_u32..3), 0..20)),
        windows in prop::collection::vec((-200_i64..900, -50_i64..4_000), 1..12),
    ) {
        let mut at = -1_000;
        let mut wake = i64::MIN;
        let ticks: Vec<Tick> = windows.iter().map(|&(gap, late)| {
            at += gap.max(0);
            wake = wake.max(at + late);
            Tick { deadline_ns: at, wake_ns: wake, thread: 0 }
        }).collect();
        let occupants = turns.map(|turns| any_occupants(&turns));
        let found = explain(&ticks, std::slice::from_ref(&thread), &facts, occupants.as_ref());
        for (tick, explained) in ticks.iter().zip(&found) {
            let lateness = u64::try_from(tick.wake_ns - tick.deadline_ns).unwrap_or(0);
            prop_assert_eq!(explained.parts.total_ns(), lateness, "{:?}", explained);
            let queued: u64 = explained.queued.iter().map(|q| (q.to_ns - q.from_ns) as u64).sum();
            prop_assert!(queued <= lateness);
            prop_assert!(explained.queued.iter().all(|q| tick.deadline_ns <= q.from_ns && q.to_ns <= tick.wake_ns));
        }
        let ticks: Vec<Tick> =
            ticks.iter().map(|t| Tick { deadline_ns: t.deadline_ns + by, wake_ns: t.wake_ns + by, ..*t }).collect();
        let stood = |s: &Standstill| Standstill { from_ns: s.from_ns + by, to_ns: s.to_ns + by, ..*s };
        let facts = RoundConditions {
            continued_ns: facts.continued_ns.iter().map(|at| at + by).collect(),
            standstills: facts.standstills.iter().map(stood).collect(),
            ..facts
        };
        let occupants = occupants.map(|occupants| shift_occupants(&occupants, by));
        let again = explain(&ticks, &[shift_thread(&thread, by)], &facts, occupants.as_ref());
        for (original, shifted) in found.iter().zip(&again) {
            prop_assert_eq!(original.parts, shifted.parts);
        }
    }
}

/// A recorded wake-up.
fn wakeup(expired_us: Option<i64>, woken_us: i64) -> Wakeup {
    Wakeup { expired_ns: expired_us.map(|us| us * US), woken_ns: woken_us * US }
}

fn trace(wakeups: &[Wakeup], waited_us: u64, park_us: i64) -> WakeupPath {
    let switches =
        vec![on(0), off(park_us + 5, SwitchKind::Waits), on(1_380), off(1_421, SwitchKind::Waits)];
    let cycles =
        vec![cycle(park_us, 1_390, reading(0, 0)), cycle(1_420, 1_900, reading(waited_us, 35))];
    let tick = Tick { deadline_ns: 1_000 * US, wake_ns: 1_400 * US, thread: 0 };
    let thread = Thread { cycles, switches: Some(switches) };
    let explained =
        explain(&[tick], std::slice::from_ref(&thread), &RoundConditions::default(), None)
            .remove(0);
    trace_wakeup(&tick, &thread, wakeups, &explained)
}

#[test]
fn links_add_up_to_the_lateness() {
    let [before, again, after] =
        [wakeup(Some(100), 101), wakeup(None, 1_200), wakeup(Some(1_450), 1_451)];
    let timer = wakeup(Some(1_030), 1_031);
    let WakeupPath::Whole { chain, apart_ns } = trace(&[before, timer, again, after], 349, 600)
    else {
        panic!("the path is complete")
    };
    let links =
        [chain.timer_ns, chain.woken_ns, chain.on_cpu_ns, chain.runtime_ns.unwrap(), chain.task_ns];
    assert_eq!(links.map(|ns| ns / US), [30, 1, 349, 10, 10]);
    assert_eq!((links.iter().sum::<i64>(), apart_ns), (400 * US, Some(0)));
    // According to the kernel the thread waited for 349 us, according to its account for 20 us.
    assert_eq!(trace(&[timer], 20, 600), WakeupPath::Broken);
    assert_eq!(trace(&[wakeup(None, 1_031)], 349, 600), WakeupPath::Broken, "the timer is unknown");
    assert_eq!(trace(&[before, after], 349, 600), WakeupPath::Broken, "no wake-up is of this park");
    assert_eq!(
        trace(&[timer], 349, 1_010),
        WakeupPath::Awake,
        "the thread parked after the deadline"
    );
}

#[test]
fn paths_are_summarised() {
    let chain = |timer_ns| crate::report::why::Chain {
        timer_ns,
        woken_ns: 400,
        on_cpu_ns: 3_000,
        runtime_ns: None,
        task_ns: 6_000,
    };
    let whole = |timer_ns, apart_ns| {
        Some(WakeupPath::Whole { chain: chain(timer_ns), apart_ns: Some(apart_ns) })
    };
    let tick = |(n, way): (u64, Option<WakeupPath>)| ProfiledTick {
        tick: n,
        deadline_ns: 0,
        wake_ns: 20_000,
        way,
        ..ProfiledTick::default()
    };
    let mut pool = Pool::new(Some(1), 1_000);
    for index in 0..10 {
        let ways = (0..98)
            .map(|n| whole(17_000 + n % 2, 0))
            .chain([whole(-500, 10_000), Some(WakeupPath::Broken)]);
        let ticks = (0..).zip(ways.chain([Some(WakeupPath::Awake)])).map(tick).collect();
        pool.add(ProfiledRound { index, ticks, tier: Some(Tier::B2), ..ProfiledRound::default() });
    }
    let found = pool.finish(&[], None).kernel_chain.expect("ways were recorded");
    assert_eq!((found.whole, found.broken), (990, 10));
    assert!(
        (found.agreement.unwrap() - (1.0 - 10_000.0 / (99.0 * 20_000.0))).abs() < 1e-9,
        "{found:?}"
    );
    let names: Vec<&str> = found.links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(
        names,
        ["timer", "woken", "on_cpu", "task"],
        "a thread without a runtime has no such link"
    );
    // Exact to a thousandth; early timers are negative.
    assert!(
        (16_980..=17_001).contains(&found.links[0].p50) && found.links[0].within_1us > 0.98,
        "{:?}",
        found.links
    );
    assert_eq!(
        (found.links[1].p50, found.links[1].p99, found.links[1].within_1us),
        (400, Some(400), 1.0)
    );
    // Data that one round lacks is not used.
    let mut less = Pool::new(Some(1), 10);
    for (index, tier) in [(0, Tier::B2), (1, Tier::B1)] {
        let ticks = vec![tick((0, whole(17_000, 0)))];
        less.add(ProfiledRound { index, ticks, tier: Some(tier), ..ProfiledRound::default() });
    }
    let less = less.finish(&[], None);
    assert_eq!((less.kernel_chain, less.longest[0].chain), (None, None));
}
