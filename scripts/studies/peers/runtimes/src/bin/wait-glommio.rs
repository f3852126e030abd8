//! Waits in glommio's timer, which has no absolute deadlines, for one deadline after the other.

use std::process::ExitCode;

use glommio::LocalExecutorBuilder;
use glommio::timer::Timer;
use peers_runtimes::{BoxError, Request, Round, ring_error};

fn main() -> ExitCode {
    peers_runtimes::measure("glommio", measure_round)
}

fn measure_round(request: Request) -> Result<Round, BoxError> {
    let executor = LocalExecutorBuilder::default().make().map_err(ring_error)?;
    Ok(executor.run(run_ticks(request)))
}

async fn run_ticks(request: Request) -> Round {
    let mut round = request.start();
    while round.next_deadline().is_some() {
        Timer::new(round.remaining_time()).await;
        round.record_wakeup();
    }
    round
}
