//! Waits in embassy's timer with its driver for the standard library, whose thread sleeps, for one
//! deadline after the other. The executor parks its thread.
//!
//! The clock of the driver counts microseconds. A deadline is rounded up to the next one.

use std::process::ExitCode;
use std::time::Instant;

use embassy_time::{Duration, Timer};
use futures_lite::future;
use peers_runtimes::{BoxError, Request, Round};

fn main() -> ExitCode {
    peers_runtimes::measure("embassy-time", measure_round)
}

fn measure_round(request: Request) -> Result<Round, BoxError> {
    Ok(future::block_on(run_ticks(request)))
}

async fn run_ticks(request: Request) -> Round {
    let clock = Clock::read();
    let mut round = request.start();
    while let Some(deadline) = round.next_deadline() {
        Timer::at(clock.convert(deadline)).await;
        round.record_wakeup();
    }
    round
}

/// A moment at which embassy's clock advanced, and a reading of the clock of the standard library
/// shortly before.
struct Clock {
    embassy: embassy_time::Instant,
    std: Instant,
}

impl Clock {
    /// Reads both clocks until embassy's advances by one between two readings. The reading of the
    /// other clock is from before the advance, so that no deadline is converted to an earlier one.
    fn read() -> Self {
        let mut earlier = Self::read_both();
        loop {
            let clock = Self::read_both();
            if clock.embassy.as_ticks() == earlier.embassy.as_ticks() + 1 {
                return Self { std: earlier.std, ..clock };
            }
            earlier = clock;
        }
    }

    fn read_both() -> Self {
        let std = Instant::now();
        Self { std, embassy: embassy_time::Instant::now() }
    }

    /// Converts a deadline to embassy's clock.
    fn convert(&self, deadline: Instant) -> embassy_time::Instant {
        let nanos = deadline.saturating_duration_since(self.std).as_nanos();
        let micros = u64::try_from(nanos.div_ceil(1000)).unwrap_or(u64::MAX);
        self.embassy + Duration::from_micros(micros)
    }
}
