//! Measures the cost of a metered tick, compared with a tick without a meter: the same paced loop
//! runs with and without one, alternately, in one process.
//!
//! ```sh
//! cargo bench --package tickmeter --bench tick
//! ```
#![allow(clippy::print_stdout, reason = "a measuring program prints")]
#![allow(clippy::disallowed_methods, reason = "a measuring program reads the clock")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use tickmeter::Meter;

const ROUNDS: usize = 101;
const TICKS: u32 = 5_000;
const PERIOD: Duration = Duration::from_micros(2);

fn main() {
    let mut meter = Meter::register("bench", PERIOD).expect("a name");
    println!("{:?}", meter.place());
    let names = ["nothing", "one reading of tach", "Meter::tick", "Meter::work_done", "both"];
    let mut costs: [Vec<f64>; 5] = Default::default();
    for _ in 0..ROUNDS {
        costs[0].push(run_round(|| {}, |_| {}));
        costs[1].push(run_round(|| {}, read_counter));
        costs[2].push(run_round(|| {}, |deadline| meter.tick(deadline)));
        costs[3].push(run_round(|| meter.work_done(), |_| {}));
        let meter = std::cell::RefCell::new(&mut meter);
        costs[4].push(run_round(|| meter.borrow_mut().work_done(), |d| meter.borrow_mut().tick(d)));
    }
    for (name, cost) in names.into_iter().zip(&costs) {
        print_additional_cost(name, cost, &costs[0]);
    }
}

fn read_counter(_deadline: Instant) {
    black_box(tach::count());
}

fn print_additional_cost(name: &str, cost: &[f64], control: &[f64]) {
    let mut additional: Vec<f64> = cost.iter().zip(control).map(|(a, b)| a - b).collect();
    additional.sort_by(f64::total_cmp);
    let quantile = |q: f64| additional[((additional.len() - 1) as f64 * q) as usize];
    println!(
        "{name:20} {:6.1} ns a tick more (middle half of the rounds {:.1} to {:.1})",
        quantile(0.5),
        quantile(0.25),
        quantile(0.75)
    );
}

/// Spans longer than this contain an interruption, and are left out.
const MAX_SPAN: Duration = Duration::from_micros(1);

/// Spins from deadline to deadline. Returns the mean cost of `work_done` and `tick` in nanoseconds
/// per tick. Each call is between two readings of the counter, which have nothing between them in
/// the control. A single span is a multiple of the counter's step, which may be 10 ns; the mean of
/// all of them resolves less than that.
fn run_round(mut work_done: impl FnMut(), mut tick: impl FnMut(Instant)) -> f64 {
    let rate = tach::info().rate_hz / 1e9;
    let anchor = tach::Anchor::take();
    let period = PERIOD.as_nanos() as f64 * rate;
    let max_span = (MAX_SPAN.as_nanos() as f64 * rate) as u64;
    let (mut sum, mut spans) = (0, 0_u32);
    for k in 1..=TICKS {
        // The tick is late by a tenth of a period.
        let due = anchor.count() + (period * (f64::from(k) + 0.1)) as u64;
        let deadline = anchor.os_instant() + PERIOD * k;
        let before = tach::ordered_count();
        work_done();
        let idle = tach::ordered_count();
        while tach::count() < due {}
        let woke = tach::ordered_count();
        tick(black_box(deadline));
        let working = tach::ordered_count();
        let span = working.saturating_sub(woke) + idle.saturating_sub(before);
        if span <= max_span {
            sum += span;
            spans += 1;
        }
    }
    sum as f64 / rate / f64::from(spans.max(1))
}
