//! The program in the README: an idle timeout around a channel.
#![allow(clippy::print_stdout, missing_docs)]

use std::{pin::pin, time::Duration};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (_sender, mut receiver) = tokio::sync::mpsc::channel::<String>(16);
    let mut idle = pin!(idletimeout::IdleTimeout::new(Duration::from_secs(10)));
    loop {
        match idle.as_mut().guard(receiver.recv()).await {
            Ok(Some(message)) => println!("{message}"),
            Ok(None) => break,
            Err(_) => println!("nothing for 10 s: time for a heartbeat"),
        }
    }
}
