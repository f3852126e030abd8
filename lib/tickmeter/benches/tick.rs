//! What a metered tick costs beside one that is not: the same paced loop with and without, in turn,
//! in one process.
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
    let mut cost: [Vec<f64>; 5] = Default::default();
    for _ in 0..ROUNDS {
        cost[0].push(round(|| {}, |_| {}));
        cost[1].push(round(
            || {},
            |_| {
                black_box(tach::count());
            },
        ));
        cost[2].push(round(|| {}, |deadline| meter.tick(deadline)));
        cost[3].push(round(|| meter.work_done(), |_| {}));
        let meter = std::cell::RefCell::new(&mut meter);
        cost[4].push(round(|| meter.borrow_mut().work_done(), |d| meter.borrow_mut().tick(d)));
    }
    for (name, of) in names.into_iter().zip(&cost) {
        let mut more: Vec<f64> = of.iter().zip(&cost[0]).map(|(a, b)| a - b).collect();
        more.sort_by(f64::total_cmp);
        let at = |q: f64| more[((more.len() - 1) as f64 * q) as usize];
        println!(
            "{name:20} {:6.1} ns a tick more (middle half {:.1} to {:.1})",
            at(0.5),
            at(0.25),
            at(0.75)
        );
    }
}

/// Spins from deadline to deadline; the median nanoseconds a tick between the wake-up and what
/// follows it, and likewise around the end of the work: two readings stand around each, with
/// nothing between them in the control.
fn round(mut work_done: impl FnMut(), mut tick: impl FnMut(Instant)) -> f64 {
    let rate = tach::info().rate_hz / 1e9;
    let anchor = tach::Anchor::take();
    let period = PERIOD.as_nanos() as f64 * rate;
    let mut spent = Vec::with_capacity(TICKS as usize);
    for k in 1..=TICKS {
        // A tenth of a period late, as the meter sees it.
        let due = anchor.count() + (period * (f64::from(k) + 0.1)) as u64;
        let deadline = anchor.std() + PERIOD * k;
        let before = tach::ordered_count();
        work_done();
        let idle = tach::ordered_count();
        while tach::count() < due {}
        let woke = tach::ordered_count();
        tick(black_box(deadline));
        let working = tach::ordered_count();
        spent.push(working.saturating_sub(woke) + idle.saturating_sub(before));
    }
    spent.sort_unstable();
    spent[spent.len() / 2] as f64 / rate
}
