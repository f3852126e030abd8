//! expected: enable tickmeter's feature `osinterval`
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let period = Duration::from_millis(10);
    let meter = tickmeter::Meter::register("control-loop", period).unwrap();
    let mut interval = meter.wrap(osinterval::interval(period));
    interval.tick().await;
}
