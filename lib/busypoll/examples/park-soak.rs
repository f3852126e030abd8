//! Parks so many times until a deadline, on an `io_uring` where there is one, and counts the waits
//! that took far too long: `cargo run --release -p busypoll --example park-soak -- 10000000`.
//! Writes one line of JSON.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it says what it found")]
#![allow(clippy::disallowed_methods, reason = "it compares with the clock")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use busypoll::{ParkBackend, Parking, Runtime, time};

const PERIOD: Duration = Duration::from_micros(100);
/// A wait that ends later than this has missed its deadline altogether.
const LONG: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "100000".to_owned());
    let Some(waits) = argument.parse::<u64>().ok().filter(|n| *n > 0) else {
        eprintln!("park-soak: {argument:?} is no number of waits; give one from 1 on");
        return ExitCode::from(2);
    };
    let built = Runtime::builder().parking(Parking::Park).park_on_io_uring(true).build();
    let mut runtime = match built {
        Ok(runtime) if runtime.park_backend() == ParkBackend::IoUring => runtime,
        Ok(_) => {
            eprintln!(
                "park-soak: no io_uring with absolute deadlines here: it takes Linux 6.12 and the right to make one"
            );
            return ExitCode::from(4);
        }
        Err(error) => {
            eprintln!("park-soak: {error}");
            return ExitCode::from(4);
        }
    };
    let (long, early, latest) = runtime.block_on(async {
        let (mut long, mut early, mut latest) = (0_u64, 0_u64, Duration::ZERO);
        for _ in 0..waits {
            let until = Instant::now() + PERIOD;
            time::sleep_until(until).await;
            let late = Instant::now().checked_duration_since(until);
            early += u64::from(late.is_none());
            let late = late.unwrap_or_default();
            long += u64::from(late > LONG);
            latest = latest.max(late);
        }
        (long, early, latest)
    });
    println!(
        r#"{{"waits": {waits}, "period_ns": {}, "longer_than_100ms": {long}, "early": {early}, "latest_ns": {}}}"#,
        PERIOD.as_nanos(),
        latest.as_nanos()
    );
    if long + early == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
