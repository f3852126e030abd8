use std::collections::HashMap;

use engine::machine::os::{ThreadName, TraceEvent, TraceEventKind, WAITS};
use files::report::why::Class;
use jitterstat::stats::random::SplitMix64;
use proptest::prelude::*;

use super::{TIMERFD, Wait, WaitTracker};

const PROCESS: u32 = 10;
const LOOP: u32 = 11;
const HOG: u32 = 99;
const TIMERFD_FUNCTION: u64 = 0xffff_0001;
const WAKEUP_FUNCTION: u64 = 0xffff_0002;

fn tracker() -> WaitTracker {
    let functions = HashMap::from([(TIMERFD_FUNCTION, "timerfd_tmrproc".to_owned())]);
    let mut tracker = WaitTracker::new(PROCESS, true, &functions, vec![1_700_000_000_000_000_000]);
    tracker.track_thread(LOOP, ThreadName::from_bytes(b"loop"));
    tracker
}

fn call(name: &str) -> i64 {
    WAITS.iter().find(|(_, known)| *known == name).map_or(-1, |(call, _)| *call)
}

fn event(cpu: u32, at_ns: i64, thread: u32, kind: TraceEventKind) -> TraceEvent {
    TraceEvent { at_ns, cpu, thread, kind }
}

fn switch(at_ns: i64, from: u32, state: i64, next: u32) -> TraceEvent {
    let next_name = match next {
        0 => ThreadName::from_bytes(b"swapper/0"),
        LOOP => ThreadName::from_bytes(b"loop"),
        _ => ThreadName::from_bytes(b"hog"),
    };
    event(0, at_ns, from, TraceEventKind::Switch { state, next, next_name })
}

fn start(at_ns: i64, timer: u64, function: u64, soft_ns: i64) -> TraceEvent {
    event(0, at_ns, LOOP, TraceEventKind::Start { timer, function, soft_ns, hard_ns: soft_ns + 50 })
}

fn expiry(at_ns: i64, timer: u64, function: u64, wakes: Option<u32>) -> Vec<TraceEvent> {
    let mut events =
        vec![event(0, at_ns, 0, TraceEventKind::Expire { timer, function, now_ns: at_ns - 1 })];
    events.extend(wakes.map(|thread| event(0, at_ns + 2, 0, TraceEventKind::Waking { thread })));
    events.push(event(0, at_ns + 3, 0, TraceEventKind::Expired { timer }));
    events
}

fn track(events: impl IntoIterator<Item = TraceEvent>) -> WaitTracker {
    let mut tracker = tracker();
    for event in events {
        tracker.handle_event(&event);
    }
    tracker.finish();
    tracker
}

fn only_wait(tracker: &WaitTracker) -> &Wait {
    let [wait] = tracker.waits.as_slice() else { panic!("{:?}", tracker.waits) };
    assert_eq!(wait.parts.total_ns(), u64::try_from(wait.lateness_ns()).unwrap());
    wait
}

/// Returns the events of a sleep until 1,000 that expires at 1,030. Then another thread has the CPU
/// for `hog_ns`.
fn sleep_events(hog_ns: i64) -> Vec<TraceEvent> {
    let mut events = vec![
        event(0, 100, LOOP, TraceEventKind::Enter { call: call("nanosleep") }),
        start(110, 7, WAKEUP_FUNCTION, 1_000),
        switch(120, LOOP, 1, HOG),
    ];
    events.extend(expiry(1_030, 7, WAKEUP_FUNCTION, Some(LOOP)));
    events.push(switch(1_040 + hog_ns, HOG, 0, LOOP));
    events.push(event(0, 1_045 + hog_ns, LOOP, TraceEventKind::Return { call: call("nanosleep") }));
    events
}

#[test]
fn delayed_sleep_names_the_other_thread() {
    let tracker = track(sleep_events(500));
    let wait = only_wait(&tracker);
    assert_eq!(
        (wait.kind, wait.deadline_ns, wait.expired_ns, wait.woken_ns),
        ("nanosleep", 1_000, Some(1_030), Some(1_032))
    );
    assert_eq!(
        (wait.ran_ns, wait.end_ns, wait.name),
        (Some(1_540), 1_545, ThreadName::from_bytes(b"loop"))
    );
    let ns = |class| wait.parts.ns(class);
    // The first 50 ns are the timer's slack.
    assert_eq!(
        (ns(Class::Slack), ns(Class::Below), ns(Class::Queue), ns(Class::Path)),
        (30, 2, 508, 5)
    );
    assert_eq!(wait.behind, [(ThreadName::from_bytes(b"hog"), 508)]);
}

/// Returns the tracker of threads with a name after some events.
fn track_chosen(name: &str, events: impl IntoIterator<Item = TraceEvent>) -> WaitTracker {
    let mut tracker = tracker().with_chosen_name(Some(name.to_owned()));
    for event in events {
        tracker.handle_event(&event);
    }
    tracker.finish();
    tracker
}

#[test]
fn only_chosen_threads_are_recorded() {
    let chosen = track_chosen("loop", sleep_events(500));
    assert_eq!(only_wait(&chosen), only_wait(&track(sleep_events(500))));
    assert_eq!(track_chosen("hog", sleep_events(500)).waits, []);
    // The timer of the first wake-up was set before the trace. The second wait has no end.
    let mut events = expiry(50, 8, WAKEUP_FUNCTION, Some(LOOP));
    events.extend(sleep_events(500));
    events.pop();
    let counts = |name| {
        let counts = track_chosen(name, events.clone()).counts;
        (counts.without_start, counts.incomplete)
    };
    assert_eq!([counts("loop"), counts("hog")], [(1, 1), (0, 0)]);
}

#[test]
fn threads_are_chosen_by_current_name() {
    let name = ThreadName::from_bytes(b"late");
    let mut events = sleep_events(500);
    events.push(event(0, 2_000, LOOP, TraceEventKind::Named { thread: LOOP, name }));
    for mut event in sleep_events(500) {
        event.at_ns += 10_000;
        match &mut event.kind {
            TraceEventKind::Start { soft_ns, hard_ns, .. } => {
                (*soft_ns, *hard_ns) = (*soft_ns + 10_000, *hard_ns + 10_000);
            }
            TraceEventKind::Expire { now_ns, .. } => *now_ns += 10_000,
            TraceEventKind::Switch { next: LOOP, next_name, .. } => *next_name = name,
            _ => {}
        }
        events.push(event);
    }
    assert_eq!(only_wait(&track_chosen("loop", events.clone())).deadline_ns, 1_000);
    assert_eq!(only_wait(&track_chosen("late", events)).deadline_ns, 11_000);
}

#[test]
fn idle_cpu_delays_no_thread() {
    let mut events = sleep_events(20);
    events[2] = switch(120, LOOP, 1, 0);
    let tracker = track(events);
    let wait = only_wait(&tracker);
    assert_eq!(
        (wait.parts.ns(Class::Queue), wait.parts.ns(Class::Below), wait.behind.len()),
        (0, 30, 0)
    );
}

#[test]
fn clocks_are_recognized_by_their_offset() {
    let ahead = 1_700_000_000_000_000_000;
    let moved = sleep_events(0).into_iter().map(|mut event| {
        match &mut event.kind {
            TraceEventKind::Start { soft_ns, hard_ns, .. } => {
                (*soft_ns, *hard_ns) = (*soft_ns + ahead, *hard_ns + ahead)
            }
            TraceEventKind::Expire { now_ns, .. } => *now_ns += ahead + 90,
            _ => {}
        }
        event
    });
    assert_eq!(only_wait(&track(moved)).deadline_ns, 1_000);
}

#[test]
fn timer_of_busy_thread_is_late() {
    let mut events = vec![switch(50, HOG, 1, LOOP), start(110, 7, TIMERFD_FUNCTION, 1_000)];
    events.extend(expiry(1_010, 7, TIMERFD_FUNCTION, None));
    events.push(event(0, 3_000, LOOP, TraceEventKind::Enter { call: call("nanosleep") }));
    events.push(switch(3_010, LOOP, 1, 0));
    events.push(switch(4_000, 0, 0, LOOP));
    events.push(event(0, 4_010, LOOP, TraceEventKind::Return { call: call("nanosleep") }));
    events.push(event(0, 4_020, LOOP, TraceEventKind::Enter { call: call("epoll") }));
    events.push(event(0, 4_030, LOOP, TraceEventKind::Return { call: call("epoll") }));
    let tracker = track(events.clone());
    let wait = only_wait(&tracker);
    assert_eq!((wait.kind, wait.woken_ns, wait.end_ns), (TIMERFD, None, 4_030));
    assert_eq!((wait.parts.ns(Class::OwnCpu), wait.parts.ns(Class::Blocked)), (2_030, 990));
    // Setting the timer again ends the wait as well.
    events.truncate(events.len() - 2);
    events.push(start(4_015, 7, TIMERFD_FUNCTION, 5_000));
    assert_eq!(only_wait(&track(events)).end_ns, 4_015);
}

#[test]
fn overdue_timer_inherits_earlier_delays() {
    // The first sleep ends 500 ns late behind the hog; the next one was due in the meantime.
    let mut events = sleep_events(500);
    events.push(event(0, 1_600, LOOP, TraceEventKind::Enter { call: call("nanosleep") }));
    events.push(start(1_610, 7, WAKEUP_FUNCTION, 1_200));
    events.extend(expiry(1_615, 7, WAKEUP_FUNCTION, Some(LOOP)));
    events.push(event(0, 1_620, LOOP, TraceEventKind::Return { call: call("nanosleep") }));
    let tracker = track(events);
    let [first, second] = tracker.waits.as_slice() else { panic!("{:?}", tracker.waits) };
    assert_eq!((first.lateness_ns(), second.lateness_ns()), (545, 420));
    let ns = |class| second.parts.ns(class);
    assert_eq!(
        (ns(Class::Queue), ns(Class::OwnCpu), ns(Class::Slack), ns(Class::Below), ns(Class::Path)),
        (340, 70, 5, 2, 3)
    );
    assert_eq!(
        (&second.behind[..], second.parts.total_ns()),
        (&[(ThreadName::from_bytes(b"hog"), 340)][..], 420)
    );
}

#[test]
fn cancelled_timer_is_not_a_wait() {
    let mut events = sleep_events(0);
    events.insert(2, event(0, 115, LOOP, TraceEventKind::Cancel { timer: 7 }));
    events.retain(|e| {
        !matches!(e.kind, TraceEventKind::Expire { .. } | TraceEventKind::Expired { .. })
    });
    assert!(track(events).waits.is_empty(), "something else woke it");
}

/// Kernels before 6.18 cancel a timer just before its function runs.
#[test]
fn cancellation_before_expiry_is_ignored() {
    let mut events = sleep_events(0);
    events.insert(3, event(0, 1_029, 0, TraceEventKind::Cancel { timer: 7 }));
    assert_eq!(only_wait(&track(events)).expired_ns, Some(1_030));
}

#[test]
fn missing_records_leave_a_wait_unexplained() {
    let events = sleep_events(500).into_iter().filter(|e| {
        !matches!(
            e.kind,
            TraceEventKind::Expire { .. }
                | TraceEventKind::Expired { .. }
                | TraceEventKind::Waking { .. }
        )
    });
    let tracker = track(events);
    let wait = only_wait(&tracker);
    assert_eq!(
        (wait.expired_ns, wait.ran_ns, wait.end_ns, tracker.counts.without_expiry),
        (None, Some(1_540), 1_545, 1)
    );
    assert_eq!((wait.parts.ns(Class::Unexplained), wait.parts.ns(Class::Path)), (540, 5));
}

#[test]
fn lost_records_drop_only_pending_waits() {
    let mut events = sleep_events(500);
    events.insert(6, event(0, 1_033, 0, TraceEventKind::Lost { records: 9, until_ns: 1_050 }));
    let later = sleep_events(0).into_iter().map(|event| {
        let mut event = TraceEvent { at_ns: event.at_ns + 10_000, ..event };
        match &mut event.kind {
            TraceEventKind::Start { soft_ns, .. } => *soft_ns += 10_000,
            TraceEventKind::Expire { now_ns, .. } => *now_ns += 10_000,
            _ => {}
        }
        event
    });
    let tracker = track(events.into_iter().chain(later));
    assert_eq!((tracker.counts.lost, tracker.counts.incomplete), (9, 1));
    assert_eq!(only_wait(&tracker).deadline_ns, 11_000);
}

#[test]
fn forked_threads_are_tracked_until_exit() {
    let mut tracker = tracker();
    let fork = |process, thread, parent| {
        event(0, 1, LOOP, TraceEventKind::Forked { process, thread, parent })
    };
    for event in
        [fork(PROCESS, 12, PROCESS), fork(20, 20, PROCESS), fork(21, 21, 20), fork(31, 31, 30)]
    {
        tracker.handle_event(&event);
    }
    tracker.handle_event(&event(
        0,
        2,
        20,
        TraceEventKind::Named { thread: 20, name: ThreadName::from_bytes(b"child") },
    ));
    tracker.handle_event(&event(0, 3, 12, TraceEventKind::Ended { thread: 12 }));
    let mut threads: Vec<(u32, String)> =
        tracker.threads().map(|(id, name)| (id, name.to_string())).collect();
    threads.sort_unstable();
    assert_eq!(
        threads,
        [(LOOP, "loop".to_owned()), (20, "child".to_owned()), (21, "loop".to_owned())]
    );
}

fn arbitrary_event(choice: u8, at_ns: i64, cpu: u32, n: u64) -> TraceEvent {
    let thread = [0, LOOP, HOG, PROCESS][n as usize % 4];
    let timer = n % 3;
    let function = [TIMERFD_FUNCTION, WAKEUP_FUNCTION][n as usize % 2];
    let soft_ns = at_ns + (n % 700) as i64;
    let kind = match choice % 12 {
        0 => TraceEventKind::Enter {
            call: WAITS.get(n as usize % WAITS.len().max(1)).map_or(0, |(call, _)| *call),
        },
        1 => TraceEventKind::Return { call: 0 },
        2 => TraceEventKind::Start { timer, function, soft_ns, hard_ns: soft_ns + (n % 60) as i64 },
        3 => TraceEventKind::Cancel { timer },
        4 => TraceEventKind::Expire { timer, function, now_ns: at_ns },
        5 => TraceEventKind::Expired { timer },
        6 => TraceEventKind::Waking { thread: LOOP },
        7 => TraceEventKind::Switch {
            state: (n % 9) as i64,
            next: thread,
            next_name: ThreadName::from_bytes(b"x"),
        },
        8 => TraceEventKind::Lost { records: n % 5, until_ns: soft_ns },
        9 => TraceEventKind::Forked { process: PROCESS, thread, parent: PROCESS },
        10 => TraceEventKind::Ended { thread: PROCESS },
        _ => TraceEventKind::Waking { thread },
    };
    event(cpu, at_ns, thread, kind)
}

proptest! {
    #[test]
    fn parts_add_up_to_the_lateness(
        steps in proptest::collection::vec((any::<u8>(), -20_i64..200, 0_u32..2, any::<u64>()), 0..300)
    ) {
        let mut at_ns = 1_000;
        let events = steps.into_iter().map(|(choice, step, cpu, n)| {
            at_ns += step;
            arbitrary_event(choice, at_ns, cpu, n)
        });
        let tracker = track(events.collect::<Vec<_>>());
        for wait in &tracker.waits {
            prop_assert_eq!(wait.parts.total_ns(), u64::try_from(wait.lateness_ns()).unwrap_or(0), "{:?}", wait);
            let behind: u64 = wait.behind.iter().map(|(_, ns)| ns).sum();
            prop_assert!(behind <= wait.parts.ns(Class::Queue), "{:?}", wait);
            prop_assert!(wait.woken_ns.is_none_or(|woken| wait.expired_ns.is_some_and(|expired| expired <= woken)));
            prop_assert!(wait.ran_ns.is_none_or(|ran| ran <= wait.end_ns));
        }
    }
}

#[test]
fn extreme_numbers_do_not_panic() {
    let mut random = SplitMix64::new(3);
    for _ in 0..1_000 {
        let mut tracker = tracker();
        for _ in 0..200 {
            let extreme = |n: u64| [n as i64, i64::MAX, i64::MIN, 0][n as usize % 4];
            let (choice, n) = (random.next_u64() as u8, random.next_u64());
            let mut event = arbitrary_event(choice, (n % 1_000_000) as i64, (n % 3) as u32, n);
            let extreme_ns = extreme(random.next_u64());
            match &mut event.kind {
                TraceEventKind::Start { soft_ns, .. } => *soft_ns = extreme_ns,
                TraceEventKind::Expire { now_ns, .. } => *now_ns = extreme_ns,
                TraceEventKind::Lost { records, until_ns } if n % 7 == 0 => {
                    (*records, *until_ns) = (u64::MAX, extreme_ns % 1_000_000)
                }
                _ => {}
            }
            tracker.handle_event(&event);
        }
        tracker.finish();
        assert!(
            tracker.waits.iter().all(|wait| wait.parts.total_ns()
                >= u64::try_from(wait.lateness_ns()).unwrap_or(0).min(1))
        );
    }
}
