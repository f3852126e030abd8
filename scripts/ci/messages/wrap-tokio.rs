//! expected: enable tickmeter's feature `tokio`
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let period = Duration::from_millis(10);
    let meter = tickmeter::Meter::register("control-loop", period).unwrap();
    meter.wrap(tokio::time::interval(period)).tick().await;
}
