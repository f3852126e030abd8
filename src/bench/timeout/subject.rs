//! The ways to put a timeout around a wait: the only place that knows them.
//!
//! The choice of way and clock is made once, by [`with`]; the loops of `measure::timeout` are generic over it.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

/// A way to put a timeout around a wait.
pub trait Variant: Send + 'static {
    /// Makes one, inside the runtime it will run on.
    fn new(length: Duration) -> Self;

    /// Waits for `message` with the timeout around it; `None` if that fired. The message is polled first.
    fn wait<F: Future<Output: Send> + Send>(
        self: Pin<&mut Self>,
        message: F,
    ) -> impl Future<Output = Option<F::Output>> + Send;

    /// Begins a wait anew, for those ways whose wait goes on from the last message.
    fn begin(self: Pin<&mut Self>) {}

    /// A message came: what this way does for the next one, short of polling.
    fn arm(self: Pin<&mut Self>);

    /// The wait for the next one begins: what this way does when that is not there yet.
    fn poll_armed(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;

    /// Whether it ever fires.
    const FIRES: bool = true;
}

/// What a variant asks of the runtime's timers, counted only where somebody looks.
pub trait Tally: Send + 'static {
    /// Whether anybody counts.
    const ON: bool = false;

    /// A timer was made.
    fn made() {}
    /// A timer was registered with the wheel: polled for the first time before it was due, or set to another time.
    fn registered() {}
}

/// Costs nothing.
#[derive(Debug)]
pub struct NoTally;

impl Tally for NoTally {}

/// Counts in two words of the process.
#[derive(Debug)]
pub struct Counting;

static MADE: AtomicU64 = AtomicU64::new(0);
static REGISTERED: AtomicU64 = AtomicU64::new(0);

impl Tally for Counting {
    const ON: bool = true;

    fn made() {
        MADE.fetch_add(1, Ordering::Relaxed);
    }

    fn registered() {
        REGISTERED.fetch_add(1, Ordering::Relaxed);
    }
}

impl Counting {
    /// Timers made and registered so far in this process.
    pub fn so_far() -> (u64, u64) {
        (MADE.load(Ordering::Relaxed), REGISTERED.load(Ordering::Relaxed))
    }
}

/// Where a deadline or a stamp is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Tokio's own.
    Tokio,
    /// The CPU counter through `tach`.
    Tach,
    /// The CPU counter through `quanta`.
    Quanta,
}

impl Clock {
    /// All, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Tokio, Self::Tach, Self::Quanta];

    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tokio => "tokio",
            Self::Tach => "tach",
            Self::Quanta => "quanta",
        }
    }
}

/// The variant that everything is compared with.
pub const BASELINE: &str = "baseline";

/// A line of the list of variants.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name on the command line and in reports.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
}

/// Every variant, in the order of tables.
pub const ALL: &[Entry] = &[
    Entry { name: BASELINE, about: "no timeout" },
    Entry { name: "timeout", about: "tokio::time::timeout around each wait" },
    Entry { name: "sleep", about: "a Sleep made for each wait, polled after the message" },
    Entry { name: "reused-sleep", about: "one pinned Sleep, reset for each wait" },
    Entry { name: "reused-boxed-sleep", about: "the same in a Pin<Box<Sleep>>" },
    Entry { name: "idle-timeout", about: "idletimeout::IdleTimeout, touched at each message" },
];

/// Why a variant cannot have a clock, if it cannot.
pub fn refusal(variant: &str, clock: Clock) -> Option<&'static str> {
    match (variant, clock) {
        (BASELINE, Clock::Tach | Clock::Quanta) => Some("it reads no clock"),
        ("timeout", Clock::Tach | Clock::Quanta) => Some("tokio::time::timeout reads tokio's clock itself"),
        ("idle-timeout", Clock::Quanta) => Some("quanta states no error bound, without which it might fire early"),
        (_, Clock::Quanta) if cfg!(not(feature = "quanta")) => {
            Some("this binary was built without the feature quanta (cargo build --release --features quanta)")
        }
        _ => None,
    }
}

/// Something to be done with a variant, whose type is known only inside.
pub trait Visitor {
    /// What it results in.
    type Output;
    /// Does it.
    fn visit<V: Variant>(self) -> Self::Output;
}

/// Hands the variant with that clock to the visitor; `None` where there is no such combination.
pub fn with<T: Tally, R: Visitor>(variant: &str, clock: Clock, visitor: R) -> Option<R::Output> {
    use crate::bench::timeout::deadline::{Anchored, Direct};
    use crate::bench::timeout::variants::{Baseline, IdleTimeout, ReusedBoxedSleep, ReusedSleep, Sleep, Timeout};
    use idletimeout::{TachClock, TokioClock};
    Some(match (variant, clock) {
        (BASELINE, Clock::Tokio) => visitor.visit::<Baseline>(),
        ("timeout", Clock::Tokio) => visitor.visit::<Timeout<T>>(),
        ("sleep", Clock::Tokio) => visitor.visit::<Sleep<Direct, T>>(),
        ("sleep", Clock::Tach) => visitor.visit::<Sleep<Anchored<tach::Instant>, T>>(),
        ("reused-sleep", Clock::Tokio) => visitor.visit::<ReusedSleep<Direct, T>>(),
        ("reused-sleep", Clock::Tach) => visitor.visit::<ReusedSleep<Anchored<tach::Instant>, T>>(),
        ("reused-boxed-sleep", Clock::Tokio) => visitor.visit::<ReusedBoxedSleep<Direct, T>>(),
        ("reused-boxed-sleep", Clock::Tach) => visitor.visit::<ReusedBoxedSleep<Anchored<tach::Instant>, T>>(),
        ("idle-timeout", Clock::Tokio) => visitor.visit::<IdleTimeout<TokioClock, T>>(),
        ("idle-timeout", Clock::Tach) => visitor.visit::<IdleTimeout<TachClock, T>>(),
        #[cfg(feature = "quanta")]
        ("sleep", Clock::Quanta) => visitor.visit::<Sleep<Anchored<quanta::Instant>, T>>(),
        #[cfg(feature = "quanta")]
        ("reused-sleep", Clock::Quanta) => visitor.visit::<ReusedSleep<Anchored<quanta::Instant>, T>>(),
        #[cfg(feature = "quanta")]
        ("reused-boxed-sleep", Clock::Quanta) => visitor.visit::<ReusedBoxedSleep<Anchored<quanta::Instant>, T>>(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_combination_is_there_or_refused_with_a_reason() {
        struct Found;
        impl Visitor for Found {
            type Output = ();
            fn visit<V: Variant>(self) {}
        }
        for entry in ALL {
            for clock in Clock::ALL {
                let found = with::<NoTally, _>(entry.name, clock, Found).is_some();
                assert_eq!(found, refusal(entry.name, clock).is_none(), "{} {clock:?}", entry.name);
            }
        }
    }

    #[test]
    fn every_variant_that_fires_does_so_never_early_and_lets_a_message_through() {
        struct Fires;
        impl Visitor for Fires {
            type Output = ();
            #[allow(clippy::disallowed_methods, reason = "the oracle is the OS clock")]
            fn visit<V: Variant>(self) {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                runtime.block_on(async {
                    let length = Duration::from_millis(3);
                    let mut variant = std::pin::pin!(V::new(length));
                    for _ in 0..3 {
                        assert_eq!(variant.as_mut().wait(async { 5 }).await, Some(5));
                        let start = std::time::Instant::now();
                        variant.as_mut().begin();
                        if V::FIRES {
                            assert_eq!(variant.as_mut().wait(std::future::pending::<()>()).await, None);
                            assert!(start.elapsed() >= length);
                        }
                        variant.as_mut().arm();
                        let armed = std::future::poll_fn(|cx| Poll::Ready(variant.as_mut().poll_armed(cx)));
                        let _ = armed.await;
                    }
                });
            }
        }
        for entry in ALL {
            for clock in Clock::ALL {
                with::<Counting, _>(entry.name, clock, Fires);
            }
        }
        let (made, registered) = Counting::so_far();
        assert!(made > 0 && registered > 0);
    }
}
