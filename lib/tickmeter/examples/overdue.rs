//! A service that finds out by itself which function makes its ticks late: it parses a large message
//! between two ticks, as in the example `orders`.
#![allow(clippy::print_stderr, reason = "an example")]
use std::time::Duration;

use tickmeter::Meter;
use tickmeter::stacks::OverdueWatch;

/// Number of ticks from one large message to the next.
const TICKS_PER_MESSAGE: u64 = 50;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let period = Duration::from_millis(10);
    let _watch = OverdueWatch::start(period / 2, |tick| eprintln!("{tick}\n"))?;
    let meter = Meter::register("control-loop", period)?;
    let mut interval = meter.wrap(tokio::time::interval(period));
    let message = "order 4711 of 3 items;".repeat(1_000_000);
    for tick in 1_u64.. {
        interval.tick().await;
        if tick % TICKS_PER_MESSAGE == 0 {
            handle_message(&message).await;
        }
    }
    Ok(())
}

async fn handle_message(message: &str) {
    std::hint::black_box(parse_orders(message));
}

/// Returns the sum of all numbers in a message.
#[inline(never)]
fn parse_orders(message: &str) -> u64 {
    let words = message.split([' ', ';']);
    words.filter_map(|word| word.parse::<u64>().ok()).fold(0, u64::wrapping_add)
}
