//! A clock like MIDI's, first plain and then in the precise mode: a pulse every 500 us for two
//! seconds, and how late they were.
//!
//! `cargo run --release --example midi_clock`
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
            // Here a pulse would be sent.
        }
        late.sort_unstable();
        let at = |share: f64| late[((PULSES - 1) as f64 * share) as usize];
        println!(
            "{precision:?}: half of the pulses within {:?}, nine in ten within {:?}",
            at(0.5),
            at(0.9)
        );
    }
    Ok(())
}
