//! `elapsed` is no dearer than std's, however old the instant: a ratio of medians, taken in turn.
//! The only test of its program, so that it has the process's first instant and nobody beside it;
//! where the code is optimised and the counter is read, since else there is nothing to promise
//! (`cargo test --release`).
#![cfg(not(any(debug_assertions, miri)))]
#![allow(clippy::disallowed_methods, reason = "std's clock is what ours is compared with")]

use std::hint::black_box;
use std::time::Duration;

use tach::Instant;

/// One moment by both clocks.
#[derive(Clone, Copy)]
struct Pair {
    ours: Instant,
    std: std::time::Instant,
}

impl Pair {
    fn now() -> Self {
        Self { ours: Instant::now(), std: std::time::Instant::now() }
    }
}

const ROUNDS: usize = 201;
const CALLS: u32 = 200;
/// Ours takes two fifths of std's time on x86_64.
const MOST_OF_STD: f64 = 1.25;

fn cost(mut call: impl FnMut() -> Duration) -> Duration {
    let start = std::time::Instant::now();
    (0..CALLS).for_each(|_| _ = black_box(call()));
    start.elapsed()
}

/// Our time over std's.
fn ratio(mut ours: impl FnMut() -> Duration, mut std: impl FnMut() -> Duration) -> f64 {
    let costs: (Vec<_>, Vec<_>) = (0..ROUNDS).map(|_| (cost(&mut ours), cost(&mut std))).unzip();
    let [ours, std] = [costs.0, costs.1].map(|mut costs| {
        costs.sort_unstable();
        costs[ROUNDS / 2].as_secs_f64()
    });
    ours / std
}

#[test]
fn elapsed_is_no_dearer_than_std_s_at_any_age() {
    let born = Pair::now();
    if tach::info().source == tach::Source::OsClock {
        return;
    }
    let fresh = ratio(|| Instant::now().elapsed(), || std::time::Instant::now().elapsed());
    let second = Pair::now();
    std::thread::sleep(Duration::from_secs(1));
    let of =
        |pair: &Pair| ratio(|| black_box(pair).ours.elapsed(), || black_box(pair).std.elapsed());
    let ratios =
        [("fresh", fresh), ("a second old", of(&second)), ("the process's first", of(&born))];
    for (age, ratio) in ratios {
        assert!(
            ratio <= MOST_OF_STD,
            "{age}: {ratio:.2} times what std's takes; of all {ratios:.2?}"
        );
    }
}
