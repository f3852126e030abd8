//! Tests on tokio's paused clock. Each compares with tokio's own types, or asserts virtual times.
#![cfg(feature = "interval")]

#[path = "../src/test_waker.rs"]
mod test_waker;

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use osinterval::{
    Backend, IntervalGroup, IntervalTimer, MissedTickBehavior, OsInterval, Precision, Spin,
};
use proptest::prelude::*;
use test_waker::CountingWaker;
use tokio::time::{Instant, MissedTickBehavior as TokioBehavior};

const HOUR: Duration = Duration::from_secs(3_600);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Blocks the thread, while a paused clock does not move.
#[allow(clippy::disallowed_methods, reason = "the real clock has to go on")]
fn stall(length: Duration) {
    std::thread::sleep(length);
}

/// An event of the service, and when it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Minute { due: Duration },
    Poll { due: Duration },
    Retry,
    Refused,
    Answered,
}

type Log = Vec<(Duration, Event)>;

/// A service that reports its events for 24 hours: ticks of two periods, sleeps with a growing
/// pause, and timeouts that end and that do not.
macro_rules! run_service {
    ($time:path, $poll_ticks:expr) => {{
        use $time as time;
        let start = Instant::now();
        let mut minutes = time::interval(Duration::from_secs(60));
        let mut polls = $poll_ticks;
        let mut log = Log::new();
        let mut retry = Box::pin(time::sleep(ms(1_500)));
        let mut retries = 0;
        // Not at the time of a tick: tokio does not define the order of timers that coincide.
        let end = time::sleep(24 * HOUR + ms(1));
        tokio::pin!(end);
        loop {
            let event = tokio::select! {
                biased;
                () = &mut end => break,
                due = minutes.tick() => Event::Minute { due: due - start },
                due = polls.tick() => Event::Poll { due: due - start },
                () = &mut retry => Event::Retry,
            };
            log.push((start.elapsed(), event));
            if event == Event::Retry {
                retries += 1;
                retry.as_mut().reset(Instant::now() + Duration::from_secs(90) * retries);
                let refused = time::timeout(Duration::from_secs(7), pending::<()>()).await.is_err();
                assert!(refused);
                log.push((start.elapsed(), Event::Refused));
                let answer = async { time::sleep(ms(20)).await };
                time::timeout(ms(25), answer).await.expect("in time");
                log.push((start.elapsed(), Event::Answered));
            }
        }
        log
    }};
}

#[tokio::test(start_paused = true)]
async fn service_day_matches_tokio() {
    let start = Instant::now();
    let expected = run_service!(tokio::time, tokio::time::interval_at(start + ms(333), ms(10_007)));
    let start = Instant::now();
    let actual = run_service!(osinterval, osinterval::interval_at(start + ms(333), ms(10_007)));
    assert!(expected.len() > 10_000, "{} events", expected.len());
    assert_same_log(&actual, &expected);
}

#[tokio::test(start_paused = true)]
async fn group_day_matches_tokio() {
    let start = Instant::now();
    let expected = run_service!(tokio::time, tokio::time::interval_at(start + ms(5), ms(10_000)));
    let start = Instant::now();
    let group = IntervalGroup::builder().resolution(Duration::from_nanos(1)).build().unwrap();
    let actual = run_service!(osinterval, group.interval_at(start + ms(5), ms(10_000)));
    assert_same_log(&actual, &expected);
}

#[tokio::test(start_paused = true)]
async fn precise_day_matches_tokio() {
    let start = Instant::now();
    let expected = run_service!(tokio::time, tokio::time::interval_at(start + ms(333), ms(10_007)));
    let start = Instant::now();
    let precise = OsInterval::builder(ms(10_007)).start_at(start + ms(333));
    let precise = precise.precision(Precision::spin()).build().unwrap();
    let actual = run_service!(osinterval, precise);
    assert_same_log(&actual, &expected);
}

/// Asserts that two logs are equal, and names only their first difference.
fn assert_same_log(actual: &Log, expected: &Log) {
    let differs = |index: &usize| actual.get(*index) != expected.get(*index);
    let first = (0..actual.len().max(expected.len())).find(differs);
    if let Some(index) = first {
        panic!("event {index}: {:?} instead of {:?}", actual.get(index), expected.get(index));
    }
}

#[tokio::test(start_paused = true)]
async fn missed_ticks_match_tokio() {
    for behavior in [TokioBehavior::Burst, TokioBehavior::Delay, TokioBehavior::Skip] {
        let start = Instant::now() + ms(3);
        let mut reference = tokio::time::interval_at(start, ms(50));
        reference.set_missed_tick_behavior(behavior);
        let mut interval = osinterval::interval_at(start, ms(50));
        interval.set_missed_tick_behavior(behavior);
        let group = IntervalGroup::builder().resolution(Duration::from_nanos(1)).build().unwrap();
        let mut member = group.interval_at(start, ms(50));
        member.set_missed_tick_behavior(behavior);
        for k in 0..20 {
            tokio::time::advance(ms(k * 37 % 170)).await;
            let expected = reference.tick().await;
            assert_eq!(interval.tick().await, expected, "{behavior:?}");
            assert_eq!(member.tick().await, expected, "{behavior:?}");
        }
    }
}

/// Defines the first program of the README, and its text.
macro_rules! readme_program {
    (
        use std::time::Duration;
        #[tokio::main(flavor = "current_thread")]
        async fn main() $body:block
    ) => {
        const README_BODY: &str = stringify!($body);
        #[allow(clippy::print_stdout, reason = "the program of the README prints")]
        async fn run_readme_program() $body
    };
}

readme_program! {
    use std::time::Duration;

    #[tokio::main(flavor = "current_thread")]
    async fn main() {
        let mut interval = osinterval::interval(Duration::from_micros(500));
        loop {
            let deadline = interval.tick().await;
            println!("{:?} late", deadline.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn readme_program_follows_paused_clock() {
    let readme = include_str!("../README.md").replace(char::is_whitespace, "");
    let body = README_BODY.replace(char::is_whitespace, "");
    assert!(readme.contains(&format!("asyncfnmain(){body}```")), "the README has another program");
    // Its clock advances by whole milliseconds.
    let start = Instant::now();
    let ended = tokio::time::timeout(Duration::from_secs(2), run_readme_program()).await;
    assert!(ended.is_err());
    assert_eq!(start.elapsed(), Duration::from_secs(2));
}

/// Checks the ticks of the same loop.
#[tokio::test(start_paused = true)]
async fn readme_ticks_follow_paused_clock() {
    let start = Instant::now();
    let mut interval = osinterval::interval(Duration::from_micros(500));
    for k in 0..10_000 {
        assert_eq!(interval.tick().await, start + Duration::from_micros(500) * k);
    }
    // tokio's timers advance the clock by whole milliseconds.
    let elapsed = start.elapsed();
    assert!(elapsed >= Duration::from_micros(4_999_500) && elapsed <= ms(5_001), "{elapsed:?}");
}

#[tokio::test]
async fn timers_made_before_pause_follow() {
    let mut interval = osinterval::interval(HOUR);
    let mut precise = OsInterval::builder(HOUR).precision(Precision::spin()).build().unwrap();
    let group = IntervalGroup::builder().precision(Precision::spin()).build().unwrap();
    let mut member = group.interval(HOUR);
    // The queue of the runtime has waited for the kernel.
    osinterval::sleep(ms(1)).await;
    let (first, first_precise) = (interval.tick().await, precise.tick().await);
    let first_member = member.tick().await;
    tokio::time::pause();
    let start = Instant::now();
    osinterval::sleep(24 * HOUR).await;
    // tokio's timers advance the clock by whole milliseconds.
    assert!(start.elapsed() >= 24 * HOUR && start.elapsed() < 24 * HOUR + ms(2));
    for k in 1..=48 {
        assert_eq!(interval.tick().await, first + HOUR * k);
        assert_eq!(precise.tick().await, first_precise + HOUR * k);
        assert_eq!(member.tick().await, first_member + HOUR * k);
        assert!(Instant::now() >= first_member + HOUR * k);
    }
    assert!(start.elapsed() >= 47 * HOUR);
}

#[tokio::test]
async fn polled_interval_follows_later_pause() {
    let start = Instant::now() + HOUR;
    let mut interval = osinterval::interval_at(start, HOUR);
    let mut sleep = osinterval::sleep_until(start);
    assert!(is_pending(async { _ = interval.tick().await }) && is_pending(&mut sleep));
    tokio::time::pause();
    tokio::time::advance(HOUR / 2).await;
    assert!(is_pending(async { _ = interval.tick().await }) && is_pending(&mut sleep));
    tokio::time::advance(HOUR / 2).await;
    sleep.await;
    for k in 0..24 {
        assert_eq!(interval.tick().await, start + HOUR * k);
    }
    assert!(Instant::now() < start + HOUR * 23 + ms(2));
}

/// Spawns a task for each kind of timer, each of which waits until the deadline that the function
/// `deadline` returns for the ordinal of the task. The tasks return the time at which they end.
fn spawn_waits(deadline: impl Fn(u32) -> Instant) -> Vec<tokio::task::JoinHandle<Instant>> {
    let mut interval = osinterval::interval_at(deadline(0), HOUR);
    let precise = OsInterval::builder(HOUR).start_at(deadline(1)).precision(Precision::spin());
    let mut precise = precise.build().unwrap();
    let group = IntervalGroup::builder().resolution(Duration::from_nanos(1)).build().unwrap();
    let mut member = group.interval_at(deadline(2), HOUR);
    let precise_group = IntervalGroup::builder().resolution(Duration::from_nanos(1));
    let precise_group = precise_group.precision(Precision::spin()).build().unwrap();
    let precise_sleep = precise_group.sleep_until(deadline(3));
    let sleep = osinterval::sleep_until(deadline(4));
    let timeout = osinterval::timeout_at(deadline(5), pending::<()>());
    #[cfg_attr(not(feature = "periodic"), expect(unused_mut, reason = "the feature adds a task"))]
    let mut tasks = vec![
        tokio::spawn(async move { _ = interval.tick().await }),
        tokio::spawn(async move { _ = precise.tick().await }),
        tokio::spawn(async move { _ = member.tick().await }),
        tokio::spawn(precise_sleep),
        tokio::spawn(sleep),
        tokio::spawn(async move { assert!(timeout.await.is_err()) }),
    ];
    #[cfg(feature = "periodic")]
    {
        let mut periodic = osinterval::PeriodicInterval::new_at(deadline(6), HOUR).unwrap();
        tasks.push(tokio::spawn(async move { _ = periodic.tick().await.unwrap() }));
    }
    tasks.into_iter().map(|task| tokio::spawn(wait_for_end(task))).collect()
}

/// Returns the time at which a task has ended.
async fn wait_for_end(task: tokio::task::JoinHandle<()>) -> Instant {
    task.await.unwrap();
    Instant::now()
}

/// Lets other tasks run. A paused clock does not advance.
async fn yield_often() {
    for _ in 0..32 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn waiting_tasks_follow_later_pause() {
    let start = Instant::now();
    let deadline = |ordinal| start + HOUR * (ordinal + 1);
    let tasks = spawn_waits(deadline);
    yield_often().await;
    tokio::time::pause();
    for (ordinal, task) in (0..).zip(tasks) {
        let end = task.await.unwrap();
        // tokio's timers advance the clock by whole milliseconds.
        assert!(end >= deadline(ordinal) && end < deadline(ordinal) + ms(2), "task {ordinal}");
    }
}

#[tokio::test]
async fn waiting_tasks_follow_advanced_clock() {
    let start = Instant::now();
    let tasks = spawn_waits(|ordinal| start + HOUR * (ordinal + 1));
    yield_often().await;
    tokio::time::pause();
    tokio::time::advance(HOUR * 24).await;
    yield_often().await;
    assert!(tasks.iter().all(tokio::task::JoinHandle::is_finished));
}

/// The kernel's timers fire while the clock is frozen.
#[test]
fn frozen_clock_holds_waiting_tasks() {
    let mut has_held = false;
    while !has_held {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        has_held = builder.enable_all().build().unwrap().block_on(hold_by_frozen_clock());
    }
}

/// Freezes the clock while tasks wait. Returns `false` if the machine has stalled for so long that
/// tasks may have ended before.
async fn hold_by_frozen_clock() -> bool {
    let start = Instant::now();
    let deadline = |ordinal| start + ms(100) + ms(1) * ordinal;
    let tasks = spawn_waits(deadline);
    yield_often().await;
    tokio::time::pause();
    if Instant::now() >= deadline(0) {
        return false;
    }
    stall(ms(150));
    yield_often().await;
    assert!(!tasks.iter().any(tokio::task::JoinHandle::is_finished));
    tokio::time::advance(ms(150)).await;
    yield_often().await;
    assert!(tasks.iter().all(tokio::task::JoinHandle::is_finished));
    true
}

/// As with tokio's, a wait that was given up keeps no timer to which a paused clock advances. Without
/// a timer of the kernel, the queue's own timer stays until it has fired once.
#[cfg(not(osinterval_force_fallback))]
#[tokio::test]
async fn cancelled_waits_leave_no_timer() {
    let mut interval = osinterval::interval_at(Instant::now() + HOUR, HOUR);
    assert!(is_pending(async { _ = interval.tick().await }));
    drop(interval);
    let answer = osinterval::timeout(HOUR, osinterval::sleep(ms(3))).await;
    assert!(answer.is_ok());
    tokio::time::pause();
    let start = Instant::now();
    wait_for_thread().await;
    assert!(start.elapsed() < ms(5), "{:?}", start.elapsed());
}

/// Waits for 20 ms of real time, with no timer.
async fn wait_for_thread() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        stall(ms(20));
        sender.send(()).expect("the receiver waits");
    });
    receiver.await.unwrap();
}

/// Simulators such as turmoil build runtimes without an I/O driver.
#[test]
fn paused_timers_need_no_io_driver() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let start = Instant::now();
        let deadline = |ordinal| start + HOUR * (ordinal + 1);
        for (ordinal, task) in (0..).zip(spawn_waits(deadline)) {
            assert_eq!(task.await.unwrap(), deadline(ordinal));
        }
        let interval = OsInterval::builder(HOUR).precision(Precision::spin()).build().unwrap();
        assert_eq!(interval.backend(), IntervalGroup::new().unwrap().backend());
    });
}

#[tokio::test(start_paused = true)]
async fn resumed_clock_ticks_in_real_time() {
    let mut interval = osinterval::interval(ms(2));
    let mut last = interval.tick().await;
    osinterval::sleep(HOUR).await;
    interval.reset_immediately();
    tokio::time::resume();
    last = interval.tick().await.max(last);
    for _ in 0..20 {
        let deadline = interval.tick().await;
        assert_eq!(deadline, last + ms(2));
        assert!(Instant::now() >= deadline, "early by tokio's clock");
        last = deadline;
    }
    let deadline = Instant::now() + ms(3);
    osinterval::sleep_until(deadline).await;
    assert!(Instant::now() >= deadline);
    // Paused again.
    tokio::time::pause();
    let start = Instant::now();
    osinterval::sleep(HOUR).await;
    assert!(start.elapsed() >= HOUR);
}

/// Real time passes, and the paused clock does not.
#[tokio::test(start_paused = true)]
async fn stalled_thread_brings_no_tick() {
    let mut interval = osinterval::interval_at(Instant::now() + ms(5), ms(5));
    let mut sleep = osinterval::sleep(ms(5));
    stall(ms(20));
    let polled = async {
        tokio::select! {
            biased;
            _ = interval.tick() => false,
            () = &mut sleep => false,
            () = tokio::task::yield_now() => true,
        }
    };
    assert!(polled.await);
}

#[tokio::test(start_paused = true)]
async fn precise_ticks_follow_paused_clock() {
    let start = Instant::now();
    let mut interval = OsInterval::builder(ms(10)).precision(Precision::spin()).build().unwrap();
    for k in 0..1_000 {
        assert_eq!(interval.tick().await, start + ms(10) * k);
        assert_eq!(start.elapsed(), ms(10) * k);
    }
    let group = IntervalGroup::builder()
        .resolution(Duration::from_nanos(1))
        .precision(Precision::spin())
        .build()
        .unwrap();
    let start = Instant::now();
    for k in 1..1_000 {
        group.sleep(ms(10)).await;
        assert_eq!(start.elapsed(), ms(10) * k);
    }
}

#[cfg(feature = "periodic")]
#[tokio::test(start_paused = true)]
async fn periodic_ticks_follow_paused_clock() {
    let start = Instant::now();
    let mut interval = osinterval::PeriodicInterval::new(HOUR).unwrap();
    for k in 1..=24 {
        let expirations = interval.tick().await.unwrap();
        assert_eq!((expirations.count, expirations.first), (1, start + HOUR * k));
    }
    tokio::time::advance(3 * HOUR).await;
    assert_eq!(interval.tick().await.unwrap().count, 3);
    assert_eq!(start.elapsed(), 27 * HOUR);
}

#[cfg(feature = "periodic")]
#[tokio::test(start_paused = true)]
async fn periodic_ticks_follow_resumed_clock() {
    let mut interval = osinterval::PeriodicInterval::new(ms(2)).unwrap();
    assert_eq!(interval.backend(), osinterval::interval(ms(1)).backend());
    tokio::time::resume();
    let mut next = interval.deadline();
    for _ in 0..10 {
        let expirations = interval.tick().await.unwrap();
        assert_eq!(expirations.first, next);
        assert!(Instant::now() >= expirations.last, "early by tokio's clock");
        next = expirations.last + ms(2);
    }
    // Paused again.
    tokio::time::pause();
    tokio::time::advance(HOUR).await;
    assert!(interval.tick().await.unwrap().count >= 1_800_000);
}

#[tokio::test(start_paused = true)]
async fn idle_queue_does_not_advance_clock() {
    let start = Instant::now();
    osinterval::sleep(ms(10)).await;
    wait_for_thread().await;
    assert_eq!(start.elapsed(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn sleep_states_match_tokio() {
    let start = Instant::now();
    let mut ours = osinterval::sleep_until(start);
    let mut theirs = Box::pin(tokio::time::sleep_until(start));
    assert_eq!((ours.is_elapsed(), theirs.is_elapsed()), (false, false));
    (&mut ours).await;
    theirs.as_mut().await;
    assert_eq!((ours.is_elapsed(), theirs.is_elapsed()), (true, true));
    for after in [ms(20), ms(100)] {
        Pin::new(&mut ours).reset(start + after);
        theirs.as_mut().reset(start + after);
        assert_eq!((ours.is_elapsed(), theirs.is_elapsed()), (false, false));
        assert!(is_pending(&mut ours) && is_pending(theirs.as_mut()));
    }
    tokio::time::advance(ms(50)).await;
    Pin::new(&mut ours).reset(start + ms(40));
    theirs.as_mut().reset(start + ms(40));
    assert!(!is_pending(&mut ours) && !is_pending(theirs.as_mut()));
}

/// In real time, on whichever timer there is.
#[tokio::test]
async fn past_reset_is_ready_at_once() {
    let group = IntervalGroup::builder().resolution(HOUR).build().unwrap();
    let start = Instant::now();
    let other = group.sleep(HOUR);
    let mut other = Box::pin(other);
    assert!(is_pending(other.as_mut()));
    for mut sleep in [osinterval::sleep(HOUR), group.sleep(HOUR)] {
        assert!(is_pending(&mut sleep) && !sleep.is_elapsed());
        Pin::new(&mut sleep).reset(start);
        assert!(!is_pending(&mut sleep) && sleep.is_elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn advanced_clock_has_woken_sleeps() {
    assert_same_wakes_as_tokio().await;
}

#[tokio::test]
async fn later_paused_clock_has_woken_sleeps() {
    osinterval::sleep(ms(1)).await;
    tokio::time::pause();
    assert_same_wakes_as_tokio().await;
}

/// When `advance` returns, the same tasks are woken as by tokio's sleeps.
async fn assert_same_wakes_as_tokio() {
    let start = Instant::now();
    let wakes = [Arc::new(CountingWaker::default()), Arc::new(CountingWaker::default())];
    let [ours_waker, theirs_waker] = wakes.clone().map(Waker::from);
    let [ours_cx, theirs_cx] = &mut [&ours_waker, &theirs_waker].map(Context::from_waker);
    let mut ours = Box::pin(osinterval::sleep_until(start + ms(1)));
    let mut theirs = Box::pin(tokio::time::sleep_until(start + ms(1)));
    for deadline in [1, 3, 30, 8].map(|after| start + ms(after)) {
        ours.as_mut().reset(deadline);
        theirs.as_mut().reset(deadline);
        let states = [ours.as_mut().poll(ours_cx), theirs.as_mut().poll(theirs_cx)];
        assert_eq!(states, [Poll::Pending; 2]);
        for _ in 0..9 {
            tokio::time::advance(ms(1) / 4).await;
            assert_eq!(wakes[0].wake_count(), wakes[1].wake_count());
            assert_eq!(ours.is_elapsed(), theirs.is_elapsed());
        }
    }
    assert_eq!(wakes[0].wake_count(), 3);
}

/// Polls a future once, with a waker that does nothing.
fn is_pending(future: impl Future<Output = ()>) -> bool {
    let future = std::pin::pin!(future);
    future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_pending()
}

#[tokio::test(start_paused = true)]
async fn paused_clock_keeps_backend_name() {
    let interval = osinterval::interval(ms(1));
    let member = IntervalGroup::new().unwrap().interval(ms(1));
    assert_eq!(interval.backend(), member.backend());
    if cfg!(osinterval_force_fallback) {
        assert_eq!(interval.backend(), Backend::TokioSleep);
    }
    assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Burst);
}

/// A runtime without timers of tokio, and code outside of any runtime.
#[cfg(all(feature = "os-native", unix, not(osinterval_force_fallback)))]
#[test]
fn real_clock_needs_no_time_driver() {
    // From here on tokio looks up the clock of the current runtime for each reading.
    let paused = tokio::runtime::Builder::new_current_thread().start_paused(true).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let mut interval = runtime.block_on(async {
        let mut interval = osinterval::interval(ms(1));
        for _ in 0..3 {
            interval.tick().await;
            osinterval::sleep(ms(1)).await;
        }
        interval
    });
    interval.reset_after(ms(2));
    interval.reset_immediately();
    runtime.block_on(async {
        interval.tick().await;
    });
    // The time driver of this runtime is disabled, which is reported as tokio does.
    let tick = paused.block_on(async {
        interval.reset_after(HOUR);
        tokio::spawn(async move { interval.tick().await }).await
    });
    assert!(tick.unwrap_err().is_panic());
}

/// A step in the life of an interval. Times are in microseconds.
#[derive(Clone, Debug)]
enum Step {
    Poll,
    Reset,
    ResetImmediately,
    ResetTo { from_now_us: i64 },
    Advance { us: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let advance = prop_oneof![(0_u64..9).prop_map(|ms| ms * 1_000), 0_u64..12_000, 0_u64..100_000];
    prop_oneof![
        4 => Just(Step::Poll),
        3 => advance.prop_map(|us| Step::Advance { us }),
        1 => Just(Step::Reset),
        1 => Just(Step::ResetImmediately),
        1 => (-30_000_i64..30_000).prop_map(|from_now_us| Step::ResetTo { from_now_us }),
    ]
}

/// Returns an instant from the microseconds since another.
fn after_us(start: Instant, us: i64) -> Instant {
    let distance = Duration::from_micros(us.unsigned_abs());
    if us < 0 { start - distance } else { start + distance }
}

/// Applies the steps to an interval of tokio and to ours, and compares ticks and wake-ups.
async fn compare_with_tokio(
    steps: &[Step],
    mut reference: tokio::time::Interval,
    mut interval: OsInterval,
) {
    let counts = [Arc::new(CountingWaker::default()), Arc::new(CountingWaker::default())];
    let [reference_waker, waker] = counts.clone().map(Waker::from);
    let [reference_cx, cx] = &mut [&reference_waker, &waker].map(Context::from_waker);
    for step in steps {
        match *step {
            Step::Poll => assert_eq!(interval.poll_tick(cx), reference.poll_tick(reference_cx)),
            Step::Reset => {
                reference.reset();
                interval.reset();
            }
            Step::ResetImmediately => {
                reference.reset_immediately();
                interval.reset_immediately();
            }
            Step::ResetTo { from_now_us } => {
                let deadline = after_us(Instant::now(), from_now_us);
                reference.reset_at(deadline);
                interval.reset_at(deadline);
            }
            Step::Advance { us } => tokio::time::advance(Duration::from_micros(us)).await,
        }
        let [expected, actual] = [&counts[0], &counts[1]].map(|count| count.wake_count());
        assert_eq!(actual, expected, "wake-ups after {step:?}");
    }
}

proptest! {
    #[test]
    fn interval_wakes_match_tokio(
        steps in proptest::collection::vec(step(), 1..80),
        period_us in prop_oneof![Just(500_u64), Just(1_000), 1_u64..20_000],
        first_us in 0_i64..20_000,
        behavior in prop_oneof![
            Just(TokioBehavior::Burst),
            Just(TokioBehavior::Delay),
            Just(TokioBehavior::Skip)
        ],
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            // The real clock never catches up.
            tokio::time::advance(HOUR).await;
            let period = Duration::from_micros(period_us);
            let own = OsInterval::builder(period).timer(IntervalTimer::Own);
            let spin = Spin::default().with_floor(ms(1)).with_cap(ms(1)).with_share(1.0);
            let precise = OsInterval::builder(period).precision(spin);
            for builder in [OsInterval::builder(period), own, precise] {
                let start = after_us(Instant::now(), first_us);
                let builder = builder.start_at(start).missed_tick_behavior(behavior);
                let mut reference = tokio::time::interval_at(start, period);
                reference.set_missed_tick_behavior(behavior);
                compare_with_tokio(&steps, reference, builder.build().unwrap()).await;
            }
        });
    }
}
