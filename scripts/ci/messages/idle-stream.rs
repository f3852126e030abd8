//! expected: gated behind the `stream` feature
use idletimeout::{IdleStream, IdleTimeout};

fn main() {
    let (_sender, receiver) = tokio::sync::mpsc::channel::<u8>(1);
    let _ = IdleStream::new(receiver, IdleTimeout::new(std::time::Duration::from_secs(1)));
}
