//! An interval that follows another clock in real time, for `scripts/studies/foreign-clock.py`.
//!
//! ```text
//! foreign-clock 60              a clock that is 50 ppm slow
//! foreign-clock 20 disturbed    the same, with a gap of a tenth of the time and a jump by 0.3 cycles
//! ```
//!
//! The other clock is a thread that waits for each of its cycles, with a scatter of 20 us (standard
//! deviation), and then reads the time. 1 % of its readings are changed by up to 5 ms. Prints how
//! far the ticks are from the cycles, as JSON.

use std::error::Error;
use std::ops::Range;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use osinterval::Steering;
use serde_json::json;

const PERIOD: Duration = Duration::from_millis(1);
const PERIOD_NS: i64 = PERIOD.as_nanos() as i64;
const CYCLE: Duration = Duration::from_nanos(1_000_050);
const SCATTER_NS: f64 = 20_000.0;
const OUTLIER_NS: f64 = 5_000_000.0;
/// The thread wakes up this long before a cycle, and spins for the rest.
const WAKE_UP_MARGIN: Duration = Duration::from_micros(400);
/// After the start and after a jump, this many ticks are not judged.
const LOCK_IN: usize = 500;
/// All ticks before this one are printed, and then one of this many.
const DETAILED: usize = 600;
const PRINTED_SHARE: usize = 100;

/// The true times of the cycles.
#[derive(Clone, Copy)]
struct Clock {
    first: Instant,
    /// The cycle before which the clock jumps, and by how much.
    jump: Option<(u32, Duration)>,
}

impl Clock {
    fn cycle(&self, number: u32) -> Instant {
        let due = self.first + CYCLE * number;
        self.jump.map_or(due, |(at, length)| if number < at { due } else { due + length })
    }
}

/// An observed cycle.
struct Event {
    number: u32,
    time: Instant,
}

/// Returns a number from 0 to 1 with a given index.
fn uniform(index: u64) -> f64 {
    let mut bits = index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (bits ^ (bits >> 31)) as f64 / u64::MAX as f64
}

/// Returns a number with a normal distribution with a given index (Box and Muller, 1958).
fn normal(index: u64) -> f64 {
    let radius = (-2.0 * (1.0 - uniform(index * 2)).max(f64::MIN_POSITIVE).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(index * 2 + 1)).cos()
}

fn shift(time: Instant, after_ns: f64) -> Instant {
    let distance = Duration::from_nanos(after_ns.abs() as u64);
    if after_ns < 0.0 { time - distance } else { time + distance }
}

fn signed_ns(from: Instant, to: Instant) -> i64 {
    let after = to.saturating_duration_since(from).as_nanos() as i64;
    after - from.saturating_duration_since(to).as_nanos() as i64
}

fn start(clock: Clock) -> Receiver<Event> {
    let (sender, events) = channel();
    std::thread::spawn(move || {
        for number in 0.. {
            let index = u64::from(number);
            let due = shift(clock.cycle(number), SCATTER_NS * normal(index));
            let early = due - WAKE_UP_MARGIN;
            std::thread::sleep(early.saturating_duration_since(Instant::now()));
            while Instant::now() < due {
                std::hint::spin_loop();
            }
            let mut time = Instant::now();
            if uniform(!index) < 0.01 {
                time = shift(time, OUTLIER_NS * (2.0 * uniform(index ^ 0xABCD) - 1.0));
            }
            if sender.send(Event { number, time }).is_err() {
                break;
            }
        }
    });
    events
}

fn quantile(sorted: &[i64], q: f64) -> i64 {
    sorted[((sorted.len() as f64 * q).ceil() as usize).clamp(1, sorted.len()) - 1]
}

/// The ticks of an interval that follows the clock.
struct Ticks {
    due: Vec<Instant>,
    late_ns: Vec<i64>,
    /// The errors of the observed cycles, by their number.
    event_error_ns: Vec<Option<i64>>,
    locked_at: Option<usize>,
    steering: Option<Steering>,
}

/// Follows the clock, but not with the events that are observed in the gap.
async fn follow(clock: Clock, start_time: Instant, ticks: usize, gap: &Range<usize>) -> Ticks {
    let events = start(clock);
    let mut interval = osinterval::interval_at(start_time.into(), PERIOD);
    let mut followed = Ticks {
        due: Vec::with_capacity(ticks),
        late_ns: Vec::with_capacity(ticks),
        event_error_ns: vec![None; ticks],
        locked_at: None,
        steering: None,
    };
    for tick in 0..ticks {
        let deadline = interval.tick().await.into_std();
        followed.late_ns.push(signed_ns(deadline, Instant::now()));
        followed.due.push(deadline);
        for event in events.try_iter().filter(|_| !gap.contains(&tick)) {
            interval.steer(event.time.into());
            if let Some(error_ns) = followed.event_error_ns.get_mut(event.number as usize) {
                *error_ns = Some(signed_ns(clock.cycle(event.number), event.time));
            }
        }
        followed.steering = interval.steering();
        if followed.locked_at.is_none() && followed.steering.is_some_and(|now| now.is_locked) {
            followed.locked_at = Some(tick);
        }
    }
    followed
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds: usize = arguments.next().ok_or("expected the seconds")?.parse()?;
    let is_disturbed = arguments.next().is_some_and(|word| word == "disturbed");
    let ticks = seconds * 1_000;
    let (gap, jump) = if is_disturbed {
        (ticks * 4 / 10..ticks / 2, Some((ticks as u32 * 7 / 10, PERIOD * 3 / 10)))
    } else {
        (0..0, None)
    };
    let start_time = Instant::now() + PERIOD * 10;
    let clock = Clock { first: start_time + PERIOD * 3 / 10, jump };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut followed = runtime.block_on(follow(clock, start_time, ticks, &gap));

    let jump_tick = jump.map_or(usize::MAX, |(at, _)| at as usize);
    let mut first_slip = None;
    let (mut distances, mut slipped, mut series) = (Vec::new(), 0, Vec::new());
    for (tick, &due) in followed.due.iter().enumerate() {
        // A tick belongs to the closest cycle: that with its number, or one a constant number away.
        let cycle = clock.cycle(tick as u32);
        let difference_ns = signed_ns(cycle, due);
        let slip = (difference_ns as f64 / PERIOD_NS as f64).round() as i64;
        let offset_ns = difference_ns - slip * PERIOD_NS;
        let is_settling = (jump_tick..jump_tick.saturating_add(LOCK_IN)).contains(&tick);
        if tick >= LOCK_IN && !is_settling {
            distances.push(offset_ns.abs());
            slipped += u32::from(slip != *first_slip.get_or_insert(slip));
        }
        if tick < DETAILED || tick % PRINTED_SHARE == 0 {
            let free_ns = signed_ns(cycle, start_time + PERIOD * tick as u32);
            series.push(json!([tick, offset_ns, free_ns, followed.event_error_ns[tick]]));
        }
    }
    distances.sort_unstable();
    followed.late_ns.sort_unstable();
    let steering = followed.steering.ok_or("no event was observed")?;
    println!(
        "{}",
        json!({
            "ticks": ticks,
            "gap": [gap.start, gap.end],
            "jump_at": jump.map(|(at, _)| at),
            "locked_at": followed.locked_at,
            "slipped_ticks": slipped,
            "p50_ns": quantile(&distances, 0.5),
            "p99_ns": quantile(&distances, 0.99),
            "max_ns": quantile(&distances, 1.0),
            "rate_ppb": steering.rate_ppb,
            "deviation_ns": steering.deviation_ns,
            "late_p50_ns": quantile(&followed.late_ns, 0.5),
            "late_p99_ns": quantile(&followed.late_ns, 0.99),
            "columns": ["tick", "offset_ns", "offset_without_steering_ns", "event_error_ns"],
            "series": series,
        })
    );
    Ok(())
}
