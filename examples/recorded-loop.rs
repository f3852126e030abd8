//! The loop on the page "Measuring" of the book: it records its ticks without a meter.
//!
//! ```text
//! osjitter run --period 5ms -- ./recorded-loop
//! ```
#![allow(clippy::disallowed_methods, reason = "users write such a loop with the standard clock")]

use std::error::Error;
use std::fs::File;
use std::time::Duration;

use jitterstat::series::{ENV_OUT, ENV_PERIOD, ENV_TICKS, ENV_WARMUP, Writer};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let var = |name| std::env::var(name);
    let (ticks, warmup): (usize, usize) = (var(ENV_TICKS)?.parse()?, var(ENV_WARMUP)?.parse()?);
    let period = Duration::from_nanos(var(ENV_PERIOD)?.parse()?);
    let mut interval = tokio::time::interval(period);
    let mut late_ns = Vec::with_capacity(warmup + ticks);
    for _ in 0..warmup + ticks {
        late_ns.push(interval.tick().await.elapsed().as_nanos() as i64);
    }
    let mut out = Writer::new(File::create(var(ENV_OUT)?)?, period.as_nanos() as u64)?;
    late_ns[warmup..].iter().try_for_each(|&ns| out.push(ns))?;
    out.finish()?;
    Ok(())
}
