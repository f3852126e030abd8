//! A loop for `osjitter run` and `osjitter gate`. It ticks, records its own lateness, and writes it
//! to the file named in the environment.
//!
//! ```text
//! osjitter run --period 500us -- ./gated-loop
//! osjitter gate --base-cmd './gated-loop 500us' --candidate-cmd './gated-loop 500us 40us'
//! ```
//!
//! The first argument is the period; the default is the requested one. The second argument is a
//! delay of each tick by a busy loop, which simulates a regression.
#![allow(clippy::disallowed_methods, reason = "users write such a loop with the standard clock")]

use std::error::Error;
use std::time::{Duration, Instant};

use jitterstat::series::{self, Writer};
use osinterval::OsInterval;

fn main() -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let period = match arguments.next() {
        Some(text) => humantime::parse_duration(&text)?,
        None => Duration::from_nanos(std::env::var(series::ENV_PERIOD)?.parse()?),
    };
    let extra =
        arguments.next().map_or(Ok(Duration::ZERO), |text| humantime::parse_duration(&text))?;

    let number =
        |name: &str| -> Result<usize, Box<dyn Error>> { Ok(std::env::var(name)?.parse()?) };
    let (ticks, warmup) = (number(series::ENV_TICKS)?, number(series::ENV_WARMUP)?);
    let mut lateness_ns = Vec::with_capacity(ticks + warmup);
    let mut interval = OsInterval::builder(period).build()?;
    while lateness_ns.len() < ticks + warmup {
        let deadline = interval.tick().await;
        let woken = Instant::now();
        while woken.elapsed() < extra {}
        lateness_ns.push(i64::try_from(
            (woken + extra).saturating_duration_since(deadline.into()).as_nanos(),
        )?);
    }
    let mut out = Writer::new(
        std::fs::File::create(std::env::var(series::ENV_OUT)?)?,
        u64::try_from(period.as_nanos())?,
    )?;
    lateness_ns[warmup..].iter().try_for_each(|&ns| out.push(ns))?;
    Ok(out.finish()?)
}
