//! Parks repeatedly until a deadline, on an `io_uring`, and counts the waits that took far too
//! long: `cargo run --release -p busypoll --example park-soak -- 10000000`. Prints one line of
//! JSON.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints its results")]
#![allow(clippy::disallowed_methods, reason = "it compares waits with the clock")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use busypoll::{ParkBackend, Parking, Runtime, time};

const PERIOD: Duration = Duration::from_micros(100);
/// A wait that exceeds its deadline by more than this counts as long.
const LONG_WAIT: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "100000".to_owned());
    let Some(waits) = argument.parse::<u64>().ok().filter(|n| *n > 0) else {
        eprintln!("park-soak: invalid number of waits {argument:?}: expected at least 1");
        return ExitCode::from(2);
    };
    let built = Runtime::builder().parking(Parking::Park).park_on_io_uring(true).build();
    let mut runtime = match built {
        Ok(runtime) if runtime.park_backend() == ParkBackend::IoUring => runtime,
        Ok(_) => {
            eprintln!(
                "park-soak: io_uring with absolute deadlines is not available: it requires Linux 6.12 and the permission to create a ring"
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
            long += u64::from(late > LONG_WAIT);
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
