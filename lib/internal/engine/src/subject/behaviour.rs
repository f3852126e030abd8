//! Missed-tick behaviours as types, so that each loop is compiled for one behaviour.

use std::time::Instant;

use crate::subject::ticker::{Delivered, Schedule};

/// Missed-tick behaviour of a subject, in the types of both libraries.
pub trait Behaviour: Send + Sync + Unpin + 'static {
    const OSINTERVAL: osinterval::MissedTickBehavior;
    const TOKIO: tokio::time::MissedTickBehavior;

    /// Returns the tick that was delivered: the next one or, if ticks can be skipped, the one whose
    /// deadline is `claimed`.
    #[inline]
    fn delivered(schedule: &Schedule, next: u64, claimed: Instant) -> Delivered {
        match Self::OSINTERVAL {
            osinterval::MissedTickBehavior::Skip => {
                Delivered { tick: schedule.index(claimed), expirations: 1 }
            }
            _ => Delivered { tick: next, expirations: 1 },
        }
    }
}

/// Delivers missed ticks immediately.
pub struct Burst;
/// Restarts the grid at the late tick.
pub struct Delay;
/// Continues at the next multiple of the period.
pub struct Skip;

macro_rules! impl_behaviour {
    ($($name:ident)*) => {$(
        impl Behaviour for $name {
            const OSINTERVAL: osinterval::MissedTickBehavior = osinterval::MissedTickBehavior::$name;
            const TOKIO: tokio::time::MissedTickBehavior = tokio::time::MissedTickBehavior::$name;
        }
    )*};
}

impl_behaviour! { Burst Delay Skip }
