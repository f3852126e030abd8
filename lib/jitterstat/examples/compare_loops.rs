//! Compares two loops of this process by the lateness of their ticks, from the ticks to the verdict.
//!
//!     cargo run --release -p jitterstat --example compare_loops            the same loop on both sides
//!     cargo run --release -p jitterstat --example compare_loops -- 100     B works 100 us before each tick
//!
//! It ends with exit status 1 if B is later than tolerated. A run takes 10 s or more: 50 pairs of
//! rounds at least, of 100 ticks at a period of 1 ms.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]
#![allow(clippy::disallowed_methods, reason = "an example reads the clock and sleeps")]

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use jitterstat::gate::Side;
use jitterstat::gate::decision::{Outcome, Rules};
use jitterstat::gate::ticks::TickGate;

const PERIOD: Duration = Duration::from_millis(1);
const TICKS: u32 = 100;

fn main() -> ExitCode {
    let micros = std::env::args().nth(1).map_or(Ok(0), |text| text.parse());
    let Ok(work) = micros.map(Duration::from_micros) else {
        eprintln!("invalid work: expected microseconds");
        return ExitCode::from(2);
    };
    let gate = TickGate::new(Rules::new(PERIOD.as_nanos() as u64));
    let verdict = gate.run(|side| match side {
        Side::Base => run_loop(Duration::ZERO),
        Side::Candidate => run_loop(work),
    });
    println!("{verdict}");
    if verdict.look.outcome == Outcome::Regressed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs one round, and returns the index and the lateness of each tick in nanoseconds. The deadlines
/// are on a grid, so that a late tick does not move the next one.
fn run_loop(work: Duration) -> Vec<(u64, i64)> {
    let start = Instant::now() + PERIOD;
    (0..TICKS)
        .map(|tick| {
            let deadline = start + PERIOD * tick;
            thread::sleep(deadline.saturating_duration_since(Instant::now()));
            let worked = Instant::now();
            while worked.elapsed() < work {}
            // The sleep of some systems ends early, so that the difference has a sign.
            let now = Instant::now();
            let late = now.saturating_duration_since(deadline).as_nanos() as i64;
            let early = deadline.saturating_duration_since(now).as_nanos() as i64;
            (u64::from(tick), late - early)
        })
        .collect()
}
