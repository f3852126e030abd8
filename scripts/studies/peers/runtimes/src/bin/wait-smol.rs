//! Waits in smol's timer for one deadline after the other, in a task on a local executor.

use std::process::ExitCode;

use peers_runtimes::{BoxError, Request, Round};
use smol::{LocalExecutor, Timer};

fn main() -> ExitCode {
    peers_runtimes::measure("smol", measure_round)
}

fn measure_round(request: Request) -> Result<Round, BoxError> {
    let executor = LocalExecutor::new();
    let task = executor.spawn(run_ticks(request));
    Ok(smol::block_on(executor.run(task)))
}

async fn run_ticks(request: Request) -> Round {
    let mut round = request.start();
    while let Some(deadline) = round.next_deadline() {
        Timer::at(deadline).await;
        round.record_wakeup();
    }
    round
}
