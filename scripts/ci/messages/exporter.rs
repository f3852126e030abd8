//! expected: gated behind the `metrics` feature
use tickmeter::{Exporter, Meter};

fn main() {
    let meter = Meter::register("loop", std::time::Duration::from_millis(1)).unwrap();
    let _ = Exporter::new(&meter);
}
