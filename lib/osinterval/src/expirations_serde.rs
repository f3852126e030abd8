//! Stores [`Expirations`]. Deadlines are stored as time since the Unix epoch, because an instant
//! has no meaning outside of its process.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::expirations::Expirations;
use crate::real_clock::real_now;

/// The stored form. The deadlines are durations since the Unix epoch, because `SystemTime` would
/// round them on Windows.
#[derive(Serialize, Deserialize)]
struct StoredExpirations {
    count: u64,
    first_since_epoch: Duration,
    last_since_epoch: Duration,
}

/// A moment, read on both clocks.
struct ClockPair {
    instant: Instant,
    since_epoch: Duration,
}

impl ClockPair {
    /// Returns the pair of this process, which is read once.
    fn get() -> &'static Self {
        static PAIR: OnceLock<ClockPair> = OnceLock::new();
        let since_epoch = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        PAIR.get_or_init(|| Self { instant: real_now(), since_epoch: since_epoch() })
    }

    fn to_since_epoch(&self, instant: Instant) -> Option<Duration> {
        match instant.checked_duration_since(self.instant) {
            Some(after) => self.since_epoch.checked_add(after),
            None => self.since_epoch.checked_sub(self.instant - instant),
        }
    }

    fn to_instant(&self, since_epoch: Duration) -> Option<Instant> {
        match since_epoch.checked_sub(self.since_epoch) {
            Some(after) => self.instant.checked_add(after),
            None => self.instant.checked_sub(self.since_epoch - since_epoch),
        }
    }
}

impl Serialize for Expirations {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let store = |deadline: tokio::time::Instant| {
            let since_epoch = ClockPair::get().to_since_epoch(deadline.into_std());
            since_epoch.ok_or_else(|| S::Error::custom("cannot store a deadline: out of range"))
        };
        let (first_since_epoch, last_since_epoch) = (store(self.first)?, store(self.last)?);
        StoredExpirations { count: self.count, first_since_epoch, last_since_epoch }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Expirations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = StoredExpirations::deserialize(deserializer)?;
        if stored.count == 0 {
            return Err(D::Error::custom("invalid count 0: expected at least 1"));
        }
        if stored.last_since_epoch < stored.first_since_epoch {
            return Err(D::Error::custom("invalid deadlines: expected the first before the last"));
        }
        let load = |since_epoch| {
            let instant = ClockPair::get().to_instant(since_epoch).map(Into::into);
            instant.ok_or_else(|| D::Error::custom("cannot load a deadline: out of range"))
        };
        let (first, last) = (load(stored.first_since_epoch)?, load(stored.last_since_epoch)?);
        Ok(Self { count: stored.count, first, last })
    }
}
