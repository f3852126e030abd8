//! The kernel's monotonic clock on Linux and Android.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Converts a time on the kernel's clock to its field types; saturates if they are narrow.
pub(super) fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        // Below 10^9, so it fits the field on every target.
        tv_nsec: time.subsec_nanos() as _,
    }
}

/// Returns an upper bound of the kernel's clock at `instant`: a timer armed with it does not fire
/// early.
pub(super) fn kernel_time(instant: Instant) -> Duration {
    static LINE: OnceLock<ClockLine> = OnceLock::new();
    LINE.get_or_init(ClockLine::measure).kernel_time(instant)
}

/// The line that maps `std::time::Instant` to the kernel's clock. Both have the same rate on this
/// platform, so one point is enough, which is measured once per process.
#[derive(Clone, Copy, Debug)]
struct ClockLine {
    origin: Instant,
    /// The kernel's clock at `origin`: an upper bound.
    kernel_at_origin: Duration,
}

impl ClockLine {
    /// Pairs that are read: enough that one of them is not interrupted.
    const PAIRS: usize = 16;

    #[allow(clippy::disallowed_methods, reason = "the clocks have to be read to be paired")]
    fn measure() -> Self {
        let origin = Instant::now();
        let reads = std::array::from_fn::<_, { Self::PAIRS }, _>(|_| {
            (Instant::now().saturating_duration_since(origin), kernel_now())
        });
        Self { origin, kernel_at_origin: kernel_at_origin(&reads) }
    }

    fn kernel_time(&self, instant: Instant) -> Duration {
        match instant.checked_duration_since(self.origin) {
            Some(after) => self.kernel_at_origin.saturating_add(after),
            None => {
                self.kernel_at_origin.saturating_sub(self.origin.saturating_duration_since(instant))
            }
        }
    }
}

/// Returns the least upper bound of the kernel's clock at the origin, from pairs of a time since
/// the origin and the kernel's clock read *after* it. Each pair is an upper bound; a pause between
/// its two reads only makes the bound loose.
fn kernel_at_origin(reads: &[(Duration, Duration)]) -> Duration {
    reads.iter().map(|(since, kernel)| kernel.saturating_sub(*since)).min().unwrap_or(Duration::MAX)
}

fn kernel_now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_pair_does_not_shift_clock() {
        let us = Duration::from_micros;
        // The kernel's clock was 1,000 us at the origin; the first pair was torn apart by 3 ms.
        let reads = [(us(0), us(4_000)), (us(3_010), us(4_011)), (us(3_020), us(4_023))];
        assert_eq!(kernel_at_origin(&reads), us(1_001));
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the test compares the line with the clocks")]
    fn line_is_never_below_clock() {
        let line = ClockLine::measure();
        for _ in 0..1_000 {
            let kernel = kernel_now();
            let later = Instant::now();
            // The kernel's clock at `later` was at least `kernel`.
            assert!(line.kernel_time(later) >= kernel);
        }
        let past = line.origin.checked_sub(Duration::from_millis(1));
        assert!(past.is_none_or(|past| line.kernel_time(past) < line.kernel_time(line.origin)));
    }
}
