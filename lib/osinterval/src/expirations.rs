//! [`Expirations`]: the result of a tick of `PeriodicInterval`, which is also a number.

use std::fmt;
use std::iter::Sum;
use std::num::TryFromIntError;
use std::ops::{Add, AddAssign, Deref, Div, Mul, Rem, Sub, SubAssign};

use tokio::time::Instant;

/// The periods that ended since the last tick: one, or several if the reader was late.
///
/// It can be used as the number of periods, which is the result of a tick in tokio-osinterval: it
/// is compared, printed and calculated with like a `u64`, and has the methods of `u64`. If the type
/// must be `u64`, for example of an argument, a range or a cast, use [`count`](Self::count).
///
/// With the feature `serde`, the deadlines are stored as `first_since_epoch` and `last_since_epoch`,
/// durations since the Unix epoch. A process converts them by a single pair of readings of both
/// clocks, so they keep their distances, and do not follow later changes of the system's time:
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
/// let n = interval.tick().await?;
/// total += n;
/// if n > 1 {
///     println!("{n} periods at once, {} missed", n - 1);
/// }
/// assert_eq!(n, total);
/// assert_eq!(n.last, n.first + interval.period() * (n.count as u32 - 1));
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

impl Deref for Expirations {
    type Target = u64;

    fn deref(&self) -> &u64 {
        &self.count
    }
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

impl From<Expirations> for u128 {
    fn from(expirations: Expirations) -> Self {
        expirations.count.into()
    }
}

// There is no comparison with `u64` on the left: it would make the type of `n == text.parse()?`
// ambiguous in every program that contains this crate.
impl PartialEq<u64> for Expirations {
    fn eq(&self, number: &u64) -> bool {
        self.count == *number
    }
}

impl PartialOrd<u64> for Expirations {
    fn partial_cmp(&self, number: &u64) -> Option<std::cmp::Ordering> {
        self.count.partial_cmp(number)
    }
}

impl AddAssign<Expirations> for u64 {
    fn add_assign(&mut self, expirations: Expirations) {
        *self += expirations.count;
    }
}

impl SubAssign<Expirations> for u64 {
    fn sub_assign(&mut self, expirations: Expirations) {
        *self -= expirations.count;
    }
}

impl Sum<Expirations> for u64 {
    fn sum<I: Iterator<Item = Expirations>>(ticks: I) -> Self {
        ticks.map(|expirations| expirations.count).sum()
    }
}

/// Implements an operator for the number of periods and a `u64`, in both orders.
macro_rules! impl_operators {
    ($($operator:ident $method:ident;)*) => {$(
        impl $operator<u64> for Expirations {
            type Output = u64;

            fn $method(self, number: u64) -> u64 {
                $operator::$method(self.count, number)
            }
        }

        impl $operator<Expirations> for u64 {
            type Output = u64;

            fn $method(self, expirations: Expirations) -> u64 {
                $operator::$method(self, expirations.count)
            }
        }
    )*};
}

impl_operators! { Add add; Sub sub; Mul mul; Div div; Rem rem; }

/// Implements the conversion to integers that may be too small.
macro_rules! impl_try_from {
    ($($integer:ty)*) => {$(
        impl TryFrom<Expirations> for $integer {
            type Error = TryFromIntError;

            fn try_from(expirations: Expirations) -> Result<Self, TryFromIntError> {
                expirations.count.try_into()
            }
        }
    )*};
}

impl_try_from! { i32 i64 u32 usize }
