//! A loop that can be made slower in a known way: what `scripts/gate-campaign.py` tries the gate on.
//!
//! ```text
//! osjitter gate --baseline-cmd 'slowed-loop none' --candidate-cmd 'slowed-loop tail'
//! ```
//!
//! The change happens: the loop is busy between the wake-up and the stamp, for as long as the named change asks, but
//! no longer than a fifth of the period: a loop that answered a stall with a share of it would never catch up.
#![allow(clippy::disallowed_methods, reason = "a program of its own, with the clock everyone has")]

use std::error::Error;
use std::time::{Duration, Instant};

use jitterstat::series::{self, Writer};
use osinterval::OsInterval;

const PERIOD: Duration = Duration::from_micros(500);

/// What is added to a tick's lateness.
enum Change {
    None,
    /// The same to every tick.
    Constant(Duration),
    /// A share of its own lateness, to every tick.
    Share(f64),
    /// A share of its own lateness, to the ticks above the 95th percentile of those before it.
    Tail(f64, Seen),
}

/// The latenesses so far, in order of size.
#[derive(Default)]
struct Seen(Vec<Duration>);

impl Seen {
    /// Whether `lateness` is above the 95th percentile of what came before, which it then joins.
    fn is_tail(&mut self, lateness: Duration) -> bool {
        let place = self.0.partition_point(|&seen| seen < lateness);
        let tail = self.0.len() >= 20 && place * 100 >= self.0.len() * 95;
        self.0.insert(place, lateness);
        tail
    }
}

impl Change {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "none" => Self::None,
            "plus-5us" => Self::Constant(Duration::from_micros(5)),
            "all-20-percent" => Self::Share(0.2),
            "tail-50-percent" => Self::Tail(0.5, Seen(Vec::with_capacity(4096))),
            _ => return None,
        })
    }

    fn extra(&mut self, lateness: Duration) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Constant(extra) => *extra,
            Self::Share(share) => lateness.mul_f64(*share),
            Self::Tail(share, seen) => {
                let share = if seen.is_tail(lateness) { *share } else { 0.0 };
                lateness.mul_f64(share)
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).unwrap_or_default();
    let change = Change::parse(&name).ok_or("which change? none, plus-5us, all-20-percent or tail-50-percent")?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(change))
}

async fn run(mut change: Change) -> Result<(), Box<dyn Error>> {
    let number = |name: &str| -> Result<usize, Box<dyn Error>> { Ok(std::env::var(name)?.parse()?) };
    let (ticks, warmup) = (number(series::ENV_TICKS)?, number(series::ENV_WARMUP)?);
    let mut lateness_ns = Vec::with_capacity(ticks + warmup);
    let mut interval = OsInterval::builder(PERIOD).build()?;
    while lateness_ns.len() < ticks + warmup {
        let deadline = interval.tick().await.into_std();
        let until = deadline + {
            let lateness = deadline.elapsed();
            lateness + change.extra(lateness).min(PERIOD / 5)
        };
        let mut now = Instant::now();
        while now < until {
            now = Instant::now();
        }
        lateness_ns.push(i64::try_from(now.saturating_duration_since(deadline).as_nanos())?);
    }
    let mut out =
        Writer::new(std::fs::File::create(std::env::var(series::ENV_OUT)?)?, u64::try_from(PERIOD.as_nanos())?)?;
    lateness_ns[warmup..].iter().try_for_each(|&ns| out.push(ns))?;
    Ok(out.finish()?)
}
