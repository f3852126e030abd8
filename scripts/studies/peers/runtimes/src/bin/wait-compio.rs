//! Waits in compio's `sleep_until` for one deadline after the other. The interval of compio leaves
//! out the deadlines that it missed, so it cannot follow the grid.

use std::process::ExitCode;

use compio::runtime::Runtime;
use compio::time::sleep_until;
use peers_runtimes::{BoxError, Request, Round, ring_error};

fn main() -> ExitCode {
    peers_runtimes::measure("compio", measure_round)
}

fn measure_round(request: Request) -> Result<Round, BoxError> {
    let runtime = Runtime::new().map_err(ring_error)?;
    Ok(runtime.block_on(run_ticks(request)))
}

async fn run_ticks(request: Request) -> Round {
    let mut round = request.start();
    while let Some(deadline) = round.next_deadline() {
        sleep_until(deadline).await;
        round.record_wakeup();
    }
    round
}
