//! expected: enable tickmeter's feature `busypoll`
use std::time::Duration;

fn metered(interval: busypoll::time::Interval) -> tickmeter::Metered<busypoll::time::Interval> {
    tickmeter::Meter::register("poller", Duration::from_millis(1)).unwrap().wrap(interval)
}

fn main() {
    busypoll::Runtime::new().unwrap().block_on(async {
        metered(busypoll::time::interval(Duration::from_millis(1))).tick().await;
    });
}
