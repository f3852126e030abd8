//! Missed-tick behaviours as types: what a subject does is known when its loop is compiled.

use std::time::Instant;

use crate::subject::ticker::{Delivered, Schedule};

pub trait Behaviour: Send + Sync + Unpin + 'static {
    const OURS: osinterval::MissedTickBehavior;
    const TOKIOS: tokio::time::MissedTickBehavior;

    /// Which tick a delivery was: the next one, or, where ticks may be left out, the one whose
    /// deadline it claims.
    #[inline]
    fn delivered(schedule: &Schedule, next: u64, claimed: Instant) -> Delivered {
        match Self::OURS {
            osinterval::MissedTickBehavior::Skip => {
                Delivered { tick: schedule.index(claimed), expirations: 1 }
            }
            _ => Delivered { tick: next, expirations: 1 },
        }
    }
}

/// Catch up at once.
pub struct Burst;
/// Restart from now.
pub struct Delay;
/// On to the next multiple of the period.
pub struct Skip;

macro_rules! same_name {
    ($($name:ident)*) => {$(
        impl Behaviour for $name {
            const OURS: osinterval::MissedTickBehavior = osinterval::MissedTickBehavior::$name;
            const TOKIOS: tokio::time::MissedTickBehavior = tokio::time::MissedTickBehavior::$name;
        }
    )*};
}

same_name! { Burst Delay Skip }
