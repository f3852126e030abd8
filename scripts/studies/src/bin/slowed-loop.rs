//! A loop that can be made slower in a known way, for `scripts/studies/gate-campaign.py`.
//!
//! ```text
//! osjitter gate --base-cmd 'slowed-loop none' --candidate-cmd 'slowed-loop tail-50-percent'
//! osjitter gate --period 2ms --base-cmd 'slowed-loop none wheel 2ms' --candidate-cmd 'slowed-loop plus-500us wheel 2ms'
//! ```
//!
//! `slowed-loop work-110` does not tick: it computes 110 hundredths of about 50 ms.
//!
//! The loop uses `OsInterval`, or tokio's interval on its wheel of milliseconds. The delay is real:
//! the loop is busy between the wake-up and the time stamp. The delay is at most a fifth of the
//! period, on the wheel three fifths, because otherwise a loop that is delayed in proportion to a
//! stall would never catch up.

use std::error::Error;
use std::time::{Duration, Instant};

use jitterstat::series::{self, Writer};
use osinterval::OsInterval;

const PERIOD: Duration = Duration::from_micros(500);

/// A delay that is added to the lateness of a tick.
enum Change {
    None,
    /// A constant delay, for every tick.
    Constant(Duration),
    /// A share of the lateness of the tick, for every tick.
    Share(f64),
    /// A share of the lateness of the tick, for ticks above the 95th percentile of the previous
    /// ones.
    Tail(f64, SortedLateness),
    /// Work after each tick.
    Handler(Duration),
}

enum Ticking {
    Os(OsInterval),
    Wheel(tokio::time::Interval),
}

impl Ticking {
    async fn tick(&mut self) -> tokio::time::Instant {
        match self {
            Self::Os(interval) => interval.tick().await,
            Self::Wheel(interval) => interval.tick().await,
        }
    }
}

/// The lateness of the previous ticks, in ascending order.
#[derive(Default)]
struct SortedLateness(Vec<Duration>);

impl SortedLateness {
    /// Returns whether a lateness is above the 95th percentile of the previous ones, and adds it.
    fn insert(&mut self, lateness: Duration) -> bool {
        let index = self.0.partition_point(|&previous| previous < lateness);
        let is_tail = self.0.len() >= 20 && index * 100 >= self.0.len() * 95;
        self.0.insert(index, lateness);
        is_tail
    }
}

impl Change {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "none" => Self::None,
            "plus-5us" => Self::Constant(Duration::from_micros(5)),
            "plus-500us" => Self::Constant(Duration::from_micros(500)),
            "handler-1ms" => Self::Handler(Duration::from_millis(1)),
            "tail-100-percent" => Self::Tail(1.0, SortedLateness(Vec::with_capacity(4096))),
            "all-20-percent" => Self::Share(0.2),
            "tail-50-percent" => Self::Tail(0.5, SortedLateness(Vec::with_capacity(4096))),
            _ => return None,
        })
    }

    fn extra(&mut self, lateness: Duration) -> Duration {
        match self {
            Self::None | Self::Handler(_) => Duration::ZERO,
            Self::Constant(extra) => *extra,
            Self::Share(share) => lateness.mul_f64(*share),
            Self::Tail(share, previous) => {
                let share = if previous.insert(lateness) { *share } else { 0.0 };
                lateness.mul_f64(share)
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1).peekable();
    if let Some(percent) = args.peek().and_then(|name| name.strip_prefix("work-")) {
        std::hint::black_box(work(percent.parse()?));
        return Ok(());
    }
    let change = args.next().and_then(|name| Change::parse(&name));
    let change = change.ok_or(
        "invalid change: expected none, plus-5us, plus-500us, all-20-percent, tail-50-percent, tail-100-percent, \
         handler-1ms or work-100",
    )?;
    let wheel = match args.next().as_deref() {
        None | Some("os") => false,
        Some("wheel") => true,
        Some(other) => return Err(format!("invalid loop {other:?}: expected os or wheel").into()),
    };
    let period =
        args.next().map(|text| humantime::parse_duration(&text)).transpose()?.unwrap_or(PERIOD);
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(run(change, wheel, period))
}

async fn run(mut change: Change, wheel: bool, period: Duration) -> Result<(), Box<dyn Error>> {
    let number =
        |name: &str| -> Result<usize, Box<dyn Error>> { Ok(std::env::var(name)?.parse()?) };
    let (ticks, warmup) = (number(series::ENV_TICKS)?, number(series::ENV_WARMUP)?);
    let mut lateness_ns = Vec::with_capacity(ticks + warmup);
    let max_delay = if wheel { 3 * period / 5 } else { period / 5 };
    let mut interval = match wheel {
        true => Ticking::Wheel(tokio::time::interval(period)),
        false => Ticking::Os(OsInterval::builder(period).build()?),
    };
    while lateness_ns.len() < ticks + warmup {
        let deadline = interval.tick().await.into_std();
        let until = deadline + {
            let lateness = deadline.elapsed();
            lateness + change.extra(lateness).min(max_delay)
        };
        let now = busy_until(until);
        lateness_ns.push(i64::try_from(now.saturating_duration_since(deadline).as_nanos())?);
        if let Change::Handler(work) = change {
            busy_until(now + work);
        }
    }
    let mut out = Writer::new(
        std::fs::File::create(std::env::var(series::ENV_OUT)?)?,
        u64::try_from(period.as_nanos())?,
    )?;
    lateness_ns[warmup..].iter().try_for_each(|&ns| out.push(ns))?;
    Ok(out.finish()?)
}

/// Computes a percentage of a fixed amount of work, which takes about 50 ms.
fn work(percent: u64) -> u64 {
    (0..percent * 250_000)
        .fold(0, |x: u64, i| (x ^ i).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7))
}

/// Spins until a time, and returns the time at its end.
fn busy_until(until: Instant) -> Instant {
    let mut now = Instant::now();
    while now < until {
        now = Instant::now();
    }
    now
}
