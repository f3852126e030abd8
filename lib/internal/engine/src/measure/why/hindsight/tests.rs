use super::*;
use crate::machine::os::{DrainedSwitches, NamedThread, PastSwitches, SwitchRecord};
use crate::measure::late_tick_log::{AccountedTick, TickAccounts};
use crate::measure::why::hindsight::loop_explainer::with_delayed_handlers;
use files::report::why::Class;
use files::why::SwitchKind;

const MS: i64 = 1_000_000;

#[test]
fn rings_have_room_within_bounds() {
    let seconds = Duration::from_secs;
    assert_eq!(cpu_ring_bytes(seconds(2), 2), 2_000_000);
    assert_eq!(cpu_ring_bytes(seconds(2), 1_000), MAX_TOTAL_BYTES / 1_000);
    assert_eq!(cpu_ring_bytes(seconds(100), 1), MAX_RING_BYTES);
    assert_eq!(cpu_ring_bytes(seconds(2), 1 << 20), MIN_RING_BYTES);
    assert_eq!(thread_ring_bytes(Duration::from_millis(1)), MIN_RING_BYTES);
}

/// Explains one tick of thread 7, which is due at 2 ms and runs at 5.01 ms, in a process that other
/// threads keep from its CPU.
#[allow(clippy::disallowed_methods, reason = "any instant will do")]
fn explain(late_loop: impl FnOnce(Instant) -> LateLoop, has_all_cpus: bool) -> ExplainedLoop {
    let origin = Instant::now() + Duration::from_secs(1);
    let clock = KernelClock::new(origin).expect("Linux has this clock");
    let kernel_ns = |ns: i64| u64::try_from(ns - clock.ns(0)).unwrap();
    let switch = |at_ns, thread, kind, next| SwitchRecord {
        at_ns: kernel_ns(at_ns),
        cpu: 1,
        thread,
        kind,
        next,
    };
    let switches = vec![
        switch(0, 7, SwitchKind::On, None),
        switch(MS, 7, SwitchKind::Waits, Some(42)),
        switch(5 * MS, 42, SwitchKind::Preempted, Some(7)),
        switch(5 * MS, 7, SwitchKind::On, None),
        switch(6 * MS, 7, SwitchKind::Waits, Some(0)),
    ];
    let named = |at_ns, name: &str| NamedThread { at_ns, thread: 42, name: name.to_owned() };
    let names = vec![named(2, "hog"), named(1, "sh")];
    let records = DrainedSwitches { switches, names, ..DrainedSwitches::default() };
    let past = PastSwitches { records, complete_from_ns: kernel_ns(0) };
    let mut recorded = RecordedSwitches::new(vec![past], has_all_cpus, &clock);
    let mut names = std::mem::take(&mut recorded.names);
    let late_loop = late_loop(origin);
    let conditions = PastConditions::default();
    let explainer =
        LoopExplainer { late_loop: &late_loop, recorded: &recorded, origin, conditions };
    explainer.explain(&clock, &mut names, None)
}

/// Returns the loop, whose tick was recorded `error` too late.
fn late_loop(origin: Instant, error: Duration, waited_ns: Option<u64>) -> LateLoop {
    let accounts = waited_ns.map(|waited_ns| TickAccounts {
        previous_wake: origin + Duration::from_micros(500),
        waited_ns,
        throttled: 0,
    });
    let (due, wake) = (Duration::from_millis(2) + error, Duration::from_micros(5_010) + error);
    let tick = AccountedTick { number: 3, due: origin + due, wake: origin + wake, accounts };
    LateLoop { threads: vec![7, 8], is_own: accounts.is_some(), ticks: vec![tick] }
}

#[test]
fn occupied_cpu_names_the_thread() {
    for error_us in [0, 900, 1_500] {
        let error = Duration::from_micros(error_us);
        let explained = explain(|origin| late_loop(origin, error, None), true);
        let [tick] = &explained.ticks[..] else { panic!("{explained:?}") };
        assert_eq!(tick.tick, 3);
        assert!(tick.parts.ns(Class::Queue) >= 2 * MS.unsigned_abs(), "{error_us}: {tick:?}");
        assert_eq!(tick.behind.len(), 1, "{tick:?}");
        assert_eq!(tick.behind[0].0, "hog");
        assert_eq!(explained.threads.len(), 1);
    }
    let too_late = explain(|origin| late_loop(origin, Duration::from_millis(9), None), true);
    assert_eq!(too_late.ticks, [], "no thread ran at that time");
}

#[test]
fn delayed_handlers_explain_stops() {
    let ticks = [(0, 80 * MS), (10 * MS, 81 * MS), (200 * MS, 201 * MS)];
    let continued = with_delayed_handlers(vec![83 * MS, 500 * MS], &ticks);
    assert_eq!(continued, [83 * MS, 500 * MS, 80 * MS, 81 * MS]);
}

#[test]
fn accounts_explain_own_threads() {
    let waited = 2_900_000;
    let explained = explain(|origin| late_loop(origin, Duration::ZERO, Some(waited)), false);
    let [tick] = &explained.ticks[..] else { panic!("{explained:?}") };
    assert_eq!(tick.parts.ns(Class::Queue), waited);
    assert_eq!(tick.parts.total_ns(), 3_010_000);
    assert!(tick.behind.is_empty(), "the other threads are not recorded");
    let without = |origin| LateLoop { is_own: true, ..late_loop(origin, Duration::ZERO, None) };
    let unexplained = explain(without, false);
    assert_eq!(unexplained.ticks[0].parts.ns(Class::Queue), 0);
}
