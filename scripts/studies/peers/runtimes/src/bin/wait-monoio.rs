//! Waits in monoio's interval, on a runtime that waits in io_uring.

use std::process::ExitCode;

use monoio::time::{self, Instant};
use monoio::{IoUringDriver, RuntimeBuilder};
use peers_runtimes::{BoxError, Request, Round, ring_error};

fn main() -> ExitCode {
    peers_runtimes::measure("monoio", measure_round)
}

fn measure_round(request: Request) -> Result<Round, BoxError> {
    let builder = RuntimeBuilder::<IoUringDriver>::new().enable_timer();
    let mut runtime = builder.build().map_err(ring_error)?;
    Ok(runtime.block_on(run_ticks(request)))
}

async fn run_ticks(request: Request) -> Round {
    let mut round = request.start();
    let start = Instant::from_std(round.first_deadline());
    let mut interval = time::interval_at(start, round.period());
    while round.next_deadline().is_some() {
        interval.tick().await;
        round.record_wakeup();
    }
    round
}
