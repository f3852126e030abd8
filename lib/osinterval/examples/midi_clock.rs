//! A clock like that of MIDI: a pulse every 500 us for two seconds, first without and then with the
//! precise mode. Prints how late the pulses were.
//!
//! Run it with `cargo run --release --example midi_clock`.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use osinterval::{OsInterval, Precision};

const PULSE: Duration = Duration::from_micros(500);
const PULSES: usize = 4_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    for precision in [Precision::Os, Precision::spin()] {
        let mut clock = OsInterval::builder(PULSE).precision(precision).build()?;
        let mut late: Vec<Duration> = Vec::with_capacity(PULSES);
        while late.len() < PULSES {
            let deadline = clock.tick().await;
            late.push(deadline.elapsed());
            // A real clock would send the pulse now.
        }
        late.sort_unstable();
        let quantile = |share: f64| late[((PULSES - 1) as f64 * share) as usize];
        println!(
            "{precision:?}: half of the pulses within {:?}, nine in ten within {:?}",
            quantile(0.5),
            quantile(0.9)
        );
    }
    Ok(())
}
