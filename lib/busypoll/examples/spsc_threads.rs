//! Two threads, each with its own runtime, connected by two single-producer single-consumer
//! channels: one for requests and one for responses.
//!
//! The client spins. The server spins for a while and then parks. The client checks every response
//! and the order of the responses.
#![allow(clippy::print_stdout, reason = "an example prints its results")]
#![allow(clippy::disallowed_methods, reason = "it measures how long it takes")]

use std::time::{Duration, Instant};

use busypoll::channel::spsc;
use busypoll::{Parking, Runtime};

const REQUESTS: u64 = 50_000;
/// Maximum number of outstanding requests.
const MAX_OUTSTANDING: u64 = 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut request_sender, mut request_receiver) = spsc::channel::<u64>(64);
    let (mut response_sender, mut response_receiver) = spsc::channel::<(u64, u64)>(64);

    let server = std::thread::spawn(move || {
        let parking = Parking::SpinThenPark(Duration::from_micros(50));
        let mut runtime = Runtime::builder().parking(parking).build()?;
        Ok::<u64, std::io::Error>(runtime.block_on(async move {
            let mut served = 0;
            while let Some(number) = request_receiver.recv().await {
                if response_sender.send((number, number * number)).await.is_err() {
                    break;
                }
                served += 1;
            }
            served
        }))
    });

    let started = Instant::now();
    Runtime::new()?.block_on(async {
        let mut sent = 0;
        for expected in 0..REQUESTS {
            while sent < REQUESTS && sent < expected + MAX_OUTSTANDING {
                request_sender.send(sent).await?;
                sent += 1;
            }
            let (number, square) =
                response_receiver.recv().await.ok_or("the server ended early")?;
            assert_eq!(
                (number, square),
                (expected, expected * expected),
                "a response is wrong or out of order"
            );
        }
        // The server's loop ends once the sender has been dropped.
        drop(request_sender);
        assert_eq!(response_receiver.recv().await, None);
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    let served = server.join().map_err(|_| "the server panicked")??;
    assert_eq!(served, REQUESTS);
    println!("{REQUESTS} responses in order, {:?} each", started.elapsed() / REQUESTS as u32);
    Ok(())
}
