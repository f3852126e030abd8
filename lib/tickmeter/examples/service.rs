//! A service of ten lines. Start it, then run `osjitter top` in another terminal. To gate it, run
//! `osjitter gate --base-cmd ./service-before --candidate-cmd ./service-after --period 10ms`.
#![allow(clippy::print_stdout, reason = "an example")]
use tickmeter::Meter;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), tickmeter::RegisterError> {
    let period = std::time::Duration::from_millis(10);
    let meter = Meter::register("control-loop", period)?;
    let mut interval = meter.wrap(tokio::time::interval(period));
    println!("metered: {:?}", interval.meter().place());
    loop {
        let tick = interval.tick().await;
        // The work of the loop ends 2 ms after the deadline.
        while tick.elapsed() < period / 5 {}
    }
}
