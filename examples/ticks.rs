//! An interval on the OS timer.
#![allow(clippy::print_stdout, clippy::disallowed_methods, missing_docs)]

use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut interval = osinterval::interval(Duration::from_micros(500));
    loop {
        let deadline = interval.tick().await;
        println!("{:?} late", deadline.elapsed());
    }
}
