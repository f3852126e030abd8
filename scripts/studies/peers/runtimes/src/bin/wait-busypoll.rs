//! Waits in busypoll's interval, on a runtime that does not park.

use std::process::ExitCode;

use busypoll::{Runtime, time};
use peers_runtimes::{BoxError, Request, Round};

fn main() -> ExitCode {
    peers_runtimes::measure("busypoll", measure_round)
}

fn measure_round(request: Request) -> Result<Round, BoxError> {
    Ok(Runtime::new()?.block_on(run_ticks(request)))
}

async fn run_ticks(request: Request) -> Round {
    let mut round = request.start();
    let mut interval = time::interval_at(round.first_deadline(), round.period());
    while round.next_deadline().is_some() {
        interval.tick().await;
        round.record_wakeup();
    }
    round
}
