//! Checks the order of `MonotonicInstant`s across threads by the counter of this machine.
//!
//! A *pair* is a reading that a thread has loaded, and a reading that the thread makes afterwards.
//! The second must not be less. A billion pairs, with recalibrations in between, take a minute or
//! two:
//!
//! ```sh
//! cargo test --release --package osjitter-tach --test order -- --ignored
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tach::MonotonicInstant;

/// The pairs of each test in an ordinary run.
const PAIRS: u64 = if cfg!(miri) { 1_000 } else { 4_000_000 };

/// A reading in a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Published(AtomicU64);

impl Published {
    /// Checks one pair, and publishes its second reading to another thread.
    fn is_pair_ordered(&self, to: &Self, read: impl Fn() -> u64) -> bool {
        let before = self.0.load(Ordering::Acquire);
        let now = read();
        to.0.store(now, Ordering::Release);
        now >= before
    }
}

fn read_count() -> u64 {
    MonotonicInstant::now().count()
}

/// Returns how many pairs are out of order if several threads read all the time.
fn count_disorder(threads: u64, pairs: u64, read: impl Fn() -> u64 + Sync) -> u64 {
    let (published, read) = (&Published::default(), &read);
    let check = move || {
        let is_violated = |_: &u64| !published.is_pair_ordered(published, read);
        (0..pairs / threads).filter(is_violated).count() as u64
    };
    std::thread::scope(|scope| {
        let checks: Vec<_> = (0..threads).map(|_| scope.spawn(check)).collect();
        checks.into_iter().map(|check| check.join().unwrap()).sum()
    })
}

/// Returns how many pairs are out of order if one thread reads all the time and another one reads
/// now and then, so that the first takes the bias and loses it again and again.
fn count_disorder_at_handover(pairs: u64) -> u64 {
    let (steady, rare, stop) = (Published::default(), Published::default(), AtomicBool::new(false));
    let check_now_and_then = || {
        let (mut violations, mut pause) = (0, 1_u32);
        while !stop.load(Ordering::Relaxed) {
            violations += u64::from(!steady.is_pair_ordered(&rare, read_count));
            pause = pause * 75 % 1_021;
            (0..pause).for_each(|_| std::hint::spin_loop());
        }
        violations
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(check_now_and_then);
        let is_violated = |_: &u64| !rare.is_pair_ordered(&steady, read_count);
        let violations = (0..pairs).filter(is_violated).count() as u64;
        stop.store(true, Ordering::Relaxed);
        violations + other.join().unwrap()
    })
}

#[test]
fn readings_are_ordered_across_threads() {
    assert_eq!(count_disorder(2, PAIRS / 2, read_count), 0);
    assert_eq!(count_disorder(4, PAIRS / 2, read_count), 0);
}

#[test]
fn readings_are_ordered_when_bias_moves() {
    assert_eq!(count_disorder_at_handover(PAIRS), 0);
}

/// Calls a function while another thread recalibrates the clock every millisecond.
fn recalibrate_during<T>(check: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                tach::recalibrate();
                pause(Duration::from_millis(1));
            }
        });
        let result = check();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// Returns how many pairs of elapsed times are out of order.
fn count_disorder_of_elapsed(pairs: u64) -> u64 {
    let first = MonotonicInstant::now();
    count_disorder(3, pairs, || first.elapsed().as_nanos() as u64)
}

#[test]
fn elapsed_is_ordered_despite_recalibration() {
    assert_eq!(recalibrate_during(|| count_disorder_of_elapsed(PAIRS / 2)), 0);
}

#[allow(clippy::disallowed_methods, reason = "the recalibrations need some time between them")]
fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Reads until this thread has had the bias for a while, if no other thread reads.
fn read_often() -> MonotonicInstant {
    (0..100).for_each(|_| _ = MonotonicInstant::now());
    MonotonicInstant::now()
}

#[test]
fn threads_continue_where_others_ended() {
    let mut last = read_often();
    for _ in 0..if cfg!(miri) { 4 } else { 400 } {
        let now = std::thread::spawn(read_often).join().unwrap();
        assert!(now >= last);
        last = read_often();
        assert!(last >= now);
    }
}

#[test]
fn any_synchronization_orders_readings() {
    let (requests, incoming) = std::sync::mpsc::channel();
    let (answers, outgoing) = std::sync::mpsc::channel();
    let flag = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for earlier in incoming {
                let now = MonotonicInstant::now();
                assert!(now >= earlier);
                answers.send(now).unwrap();
                while flag.load(Ordering::Relaxed) == 0 {
                    std::thread::yield_now();
                }
                // The count itself is the message, without any other synchronisation.
                assert!(read_count() >= flag.swap(0, Ordering::Relaxed));
            }
        });
        for _ in 0..if cfg!(miri) { 4 } else { 2_000 } {
            requests.send(read_often()).unwrap();
            let earlier = outgoing.recv().unwrap();
            assert!(MonotonicInstant::now() >= earlier);
            flag.store(read_often().count(), Ordering::Relaxed);
            while flag.load(Ordering::Relaxed) != 0 {
                std::thread::yield_now();
            }
        }
        drop(requests);
    });
}

#[test]
#[ignore = "takes a minute or two in a release build"]
fn billion_pairs_are_ordered() {
    let violations = recalibrate_during(|| {
        [
            count_disorder_at_handover(400_000_000),
            count_disorder(2, 200_000_000, read_count),
            count_disorder(4, 200_000_000, read_count),
            count_disorder_of_elapsed(200_000_000),
        ]
    });
    assert_eq!(violations, [0; 4]);
}
