//! The cost of the observer: the price of one recorded tick, compared with that of the timestamp
//! alone.
//!
//! Run with `cargo bench --bench observer`; divide by [`TICKS`] for one tick.

use divan::{Bencher, black_box};
use jitterstat::recorder::{RawSample, Recorder};

/// Ticks recorded per sample of the benchmark, as many as in a round.
const TICKS: u64 = 1_000;

fn main() {
    divan::main();
}

/// Takes a timestamp and records it, like the measuring loop after each wake-up.
#[divan::bench(counters = [divan::counter::ItemsCount::new(TICKS)])]
fn stamp_and_push(bencher: Bencher<'_, '_>) {
    let fresh = || Recorder::with_capacity(usize::try_from(TICKS).expect("a round fits memory"));
    bencher.with_inputs(fresh).bench_local_values(|mut recorder| {
        for tick in 0..TICKS {
            let wake_count = tach::ordered_count();
            recorder.push(RawSample {
                tick: black_box(tick),
                expirations: 1,
                wake_count,
                unpark_count: black_box(None),
            });
        }
        recorder
    });
}

/// Takes the timestamp only.
#[divan::bench(counters = [divan::counter::ItemsCount::new(TICKS)])]
fn stamp() -> u64 {
    (0..TICKS).fold(0, |sum, _| sum ^ tach::ordered_count())
}

/// Takes the timestamp from the kernel clock, as a caller without a counter would.
#[divan::bench(counters = [divan::counter::ItemsCount::new(TICKS)])]
#[allow(clippy::disallowed_methods, reason = "the clock that is compared with")]
fn kernel_clock() {
    (0..TICKS).for_each(|_| {
        black_box(std::time::Instant::now());
    })
}
