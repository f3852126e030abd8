//! [`Expirations`]: the result of a tick of `PeriodicInterval`.

use std::fmt;

use tokio::time::Instant;

/// The periods that ended since the last tick: one, or several if the reader was late.
///
/// It is compared with a `u64` and printed as the number of periods, [`count`](Self::count).
///
/// With the feature `serde`, the deadlines are stored as `first_since_epoch` and
/// `last_since_epoch`, durations since the Unix epoch. A process converts them by a single pair of
/// readings of both clocks, so they keep their distances, and do not follow later changes of the
/// system's time:
///
/// ```
/// # #[cfg(feature = "serde")] {
/// # let now = tokio::time::Instant::now();
/// # let expirations = osinterval::Expirations { count: 1, first: now, last: now };
/// let text = serde_json::to_string(&expirations)?;
/// assert_eq!(serde_json::from_str::<osinterval::Expirations>(&text)?, expirations);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// let mut interval = osinterval::PeriodicInterval::new(Duration::from_millis(1))?;
/// let mut total = 0;
/// let expirations = interval.tick().await?;
/// total += expirations.count;
/// if expirations != 1 {
///     println!("{expirations} periods at once, {} missed", expirations.count - 1);
/// }
/// assert_eq!(expirations, total);
/// let later_periods = expirations.count as u32 - 1;
/// assert_eq!(expirations.last, expirations.first + interval.period() * later_periods);
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Expirations {
    /// Number of periods; at least one.
    pub count: u64,
    /// Deadline of the first period.
    pub first: Instant,
    /// Deadline of the last period: `first` + (`count` − 1) × period.
    pub last: Instant,
}

impl fmt::Display for Expirations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.count.fmt(f)
    }
}

impl From<Expirations> for u64 {
    fn from(expirations: Expirations) -> Self {
        expirations.count
    }
}

// There is no comparison with `u64` on the left: it would make the type of `n == text.parse()?`
// ambiguous in every program that contains this crate.
impl PartialEq<u64> for Expirations {
    fn eq(&self, number: &u64) -> bool {
        self.count == *number
    }
}
