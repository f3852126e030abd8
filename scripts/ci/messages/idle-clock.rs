//! expected: `std::time::Instant` is not a clock for an idle timeout
use std::time::{Duration, Instant};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    std::pin::pin!(idletimeout::IdleTimeout::with_clock(Duration::from_secs(1), Instant::now())).await;
}
