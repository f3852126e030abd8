//! A program that osjitter measures in several rounds without starting it again. Measure it with
//! `osjitter run --period 10ms -- ./rounds`.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), tickmeter::RegisterError> {
    let period = std::time::Duration::from_millis(10);
    for round in tickmeter::rounds() {
        let meter = tickmeter::Meter::register("control-loop", period)?;
        let mut interval = meter.wrap(tokio::time::interval(period));
        for _ in 0..round.ticks() {
            interval.tick().await;
        }
    }
    Ok(())
}
