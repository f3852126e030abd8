//! Two threads, each with its own runtime, over two single-producer single-consumer channels:
//! requests there, answers back.
//!
//! The client spins, the server spins for a while and then parks. Every answer is checked, and so
//! is the order.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]
#![allow(clippy::disallowed_methods, reason = "it measures how long it takes")]

use std::time::{Duration, Instant};

use busypoll::channel::spsc;
use busypoll::{Parking, Runtime};

const REQUESTS: u64 = 50_000;
/// Requests under way at once.
const WINDOW: u64 = 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut ask, mut asked) = spsc::channel::<u64>(64);
    let (mut answer, mut answers) = spsc::channel::<(u64, u64)>(64);

    let server = std::thread::spawn(move || {
        let parking = Parking::SpinThenPark(Duration::from_micros(50));
        let mut runtime = Runtime::builder().parking(parking).build()?;
        Ok::<u64, std::io::Error>(runtime.block_on(async move {
            let mut served = 0;
            while let Some(number) = asked.recv().await {
                if answer.send((number, number * number)).await.is_err() {
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
            while sent < REQUESTS && sent < expected + WINDOW {
                ask.send(sent).await?;
                sent += 1;
            }
            let (number, square) = answers.recv().await.ok_or("the server went")?;
            assert_eq!(
                (number, square),
                (expected, expected * expected),
                "a wrong answer, or out of order"
            );
        }
        // The server's loop ends once nobody can ask any more.
        drop(ask);
        assert_eq!(answers.recv().await, None);
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    let served = server.join().map_err(|_| "the server panicked")??;
    assert_eq!(served, REQUESTS);
    println!("{REQUESTS} answers in order, {:?} each", started.elapsed() / REQUESTS as u32);
    Ok(())
}
