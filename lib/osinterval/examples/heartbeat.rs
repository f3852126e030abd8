//! Prints a heartbeat every 250 ms and how late each beat was.
//!
//! Run it with `cargo run --release --example heartbeat -- 8` for eight beats.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use osinterval::OsInterval;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let beats: u32 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(8);
    let mut interval = OsInterval::builder(Duration::from_millis(250)).build()?;
    println!("ticking from {}", interval.backend());
    for beat in 0..beats {
        let deadline = interval.tick().await;
        println!("beat {beat}: {:?} late", deadline.elapsed());
    }
    Ok(())
}
