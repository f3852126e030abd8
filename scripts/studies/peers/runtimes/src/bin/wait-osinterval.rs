//! Waits in osinterval's `OsInterval`, in a task on tokio's current-thread runtime. With the
//! argument `precise`, the interval is in its precise mode.

use std::process::ExitCode;

use osinterval::{OsInterval, Precision};
use peers_runtimes::{BoxError, Request, Round};
use tokio::runtime::Builder;

fn main() -> ExitCode {
    peers_runtimes::measure("osinterval", measure_round)
}

fn measure_round(request: Request) -> Result<Round, BoxError> {
    let precision = match std::env::args().nth(1).as_deref() {
        None => Precision::Os,
        Some("precise") => Precision::spin(),
        Some(mode) => return Err(format!("invalid mode {mode:?}: expected precise").into()),
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let ticks = run_ticks(request, precision);
    Ok(runtime.block_on(async move { tokio::spawn(ticks).await })??)
}

async fn run_ticks(request: Request, precision: Precision) -> std::io::Result<Round> {
    let mut round = request.start();
    let builder = OsInterval::builder(round.period()).start_at(round.first_deadline().into());
    let mut interval = builder.precision(precision).build()?;
    while round.next_deadline().is_some() {
        interval.tick().await;
        round.record_wakeup();
    }
    Ok(round)
}
