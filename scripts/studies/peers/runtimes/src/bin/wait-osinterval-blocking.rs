//! Waits in osinterval's `blocking::Interval`, on a thread without a runtime. With the argument
//! `precise`, the interval is in its precise mode; with a number, at that quantile.

use std::process::ExitCode;

use osinterval::blocking::Interval;
use osinterval::{Precision, Spin};
use peers_runtimes::{BoxError, Request, Round};

fn main() -> ExitCode {
    peers_runtimes::measure("osinterval-blocking", measure_round)
}

fn measure_round(request: Request) -> Result<Round, BoxError> {
    let precision = match std::env::args().nth(1).as_deref() {
        None => Precision::Os,
        Some("precise") => Precision::spin(),
        Some(quantile) => match quantile.parse() {
            Ok(quantile) => Spin::default().with_quantile(quantile).into(),
            Err(_) => {
                return Err(
                    format!("invalid mode {quantile:?}: expected precise or a quantile").into()
                );
            }
        },
    };
    let mut round = request.start();
    let builder = Interval::builder(round.period()).start_at(round.first_deadline());
    let mut interval = builder.precision(precision).build()?;
    while round.next_deadline().is_some() {
        interval.tick()?;
        round.record_wakeup();
    }
    Ok(round)
}
