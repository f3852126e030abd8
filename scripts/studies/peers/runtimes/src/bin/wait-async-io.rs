//! Waits in a periodic timer of async-io, on the thread that polls its reactor.

use std::process::ExitCode;

use async_io::Timer;
use futures_lite::StreamExt;
use peers_runtimes::{BoxError, Request, Round};

fn main() -> ExitCode {
    peers_runtimes::measure("async-io", measure_round)
}

fn measure_round(request: Request) -> Result<Round, BoxError> {
    Ok(async_io::block_on(run_ticks(request)))
}

async fn run_ticks(request: Request) -> Round {
    let mut round = request.start();
    let mut timer = Timer::interval_at(round.first_deadline(), round.period());
    while round.next_deadline().is_some() {
        timer.next().await;
        round.record_wakeup();
    }
    round
}
