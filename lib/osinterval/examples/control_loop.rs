//! A control loop in a thread of its own, at 1 kHz, until the main thread stops it.
//!
//! Run it with `cargo run --release --example control_loop -- 100` for 100 ms. It needs no tokio:
//! add `--no-default-features --features blocking`.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use osinterval::Precision;
use osinterval::blocking::{Interval, MissedTickBehavior};

/// Drives a motor to a position: a controller with a proportional and a derivative part, and the
/// motor that it controls.
struct Axis {
    position: f64,
    speed: f64,
    target: f64,
}

impl Axis {
    fn step(&mut self, seconds: f64) {
        let force = 400.0 * (self.target - self.position) - 40.0 * self.speed;
        self.speed += force * seconds;
        self.position += self.speed * seconds;
    }
}

#[allow(clippy::disallowed_methods, reason = "an example prints its lateness and waits")]
fn main() -> std::io::Result<()> {
    let run_ms = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(500);
    let period = Duration::from_millis(1);
    let mut interval = Interval::builder(period)
        .missed_tick_behavior(MissedTickBehavior::Skip)
        .tolerance(period / 2)
        .precision(Precision::spin())
        .build()?;
    println!("ticking from {}", interval.backend());
    let stop = interval.handle();

    let control = std::thread::spawn(move || {
        let mut axis = Axis { position: 0.0, speed: 0.0, target: 1.0 };
        let mut worst = Duration::ZERO;
        let mut ticks = 0;
        // The first interrupt ends the loop, even if the loop is behind.
        while let Ok(deadline) = interval.tick() {
            worst = worst.max(deadline.elapsed());
            axis.step(period.as_secs_f64());
            ticks += 1;
        }
        println!("{ticks} ticks, {} missed, at most {worst:?} late", interval.missed());
        axis.position
    });

    std::thread::sleep(Duration::from_millis(run_ms));
    stop.interrupt();
    println!("position {:.3}", control.join().expect("the loop does not panic"));
    Ok(())
}
