//! Compares the cost of `elapsed` with std's for instants of different ages, as ratios of medians
//! that are measured alternately.
//!
//! This test program contains no other test, so that it has the first instant of the process and no
//! other test runs at the same time. It needs optimised code (`cargo test --release`) and a
//! counter: without them nothing is guaranteed.
#![cfg(not(any(debug_assertions, miri)))]
#![allow(clippy::disallowed_methods, reason = "compares with std's clock")]

use std::hint::black_box;
use std::time::Duration;

use tach::Instant;

/// An instant by both clocks.
#[derive(Clone, Copy)]
struct InstantPair {
    tach: Instant,
    std: std::time::Instant,
}

impl InstantPair {
    fn now() -> Self {
        Self { tach: Instant::now(), std: std::time::Instant::now() }
    }

    fn elapsed_ratio(&self) -> f64 {
        cost_ratio(|| black_box(self).tach.elapsed(), || black_box(self).std.elapsed())
    }
}

const ROUNDS: usize = 201;
const CALLS: u32 = 200;
/// The maximum cost relative to std's. On x86_64 it is about two fifths.
const MAX_RATIO: f64 = 1.25;

fn measure(mut call: impl FnMut() -> Duration) -> Duration {
    let start = std::time::Instant::now();
    for _ in 0..CALLS {
        _ = black_box(call());
    }
    start.elapsed()
}

fn median_secs(mut costs: Vec<Duration>) -> f64 {
    costs.sort_unstable();
    costs[ROUNDS / 2].as_secs_f64()
}

/// Returns the cost of a call of tach over that of a call of std.
fn cost_ratio(mut tach: impl FnMut() -> Duration, mut std: impl FnMut() -> Duration) -> f64 {
    let rounds = (0..ROUNDS).map(|_| (measure(&mut tach), measure(&mut std)));
    let (tach_costs, std_costs): (Vec<_>, Vec<_>) = rounds.unzip();
    median_secs(tach_costs) / median_secs(std_costs)
}

#[test]
fn elapsed_costs_at_most_std() {
    let first = InstantPair::now();
    if tach::info().source == tach::Source::OsClock {
        return;
    }
    let fresh = cost_ratio(|| Instant::now().elapsed(), || std::time::Instant::now().elapsed());
    let second_old = InstantPair::now();
    std::thread::sleep(Duration::from_secs(1));
    let ratios = [
        ("a fresh instant", fresh),
        ("an instant a second old", second_old.elapsed_ratio()),
        ("the first instant of the process", first.elapsed_ratio()),
    ];
    for (age, ratio) in ratios {
        assert!(ratio <= MAX_RATIO, "{age}: {ratio:.2} times the cost of std; {ratios:.2?}");
    }
}
