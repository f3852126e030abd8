//! Stores [`Expirations`] with deadlines as system time, since an instant has no meaning outside of
//! its process.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::expirations::Expirations;
use crate::timer::real_now;

/// The stored form.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Expirations")]
struct StoredExpirations {
    count: u64,
    first: SystemTime,
    last: SystemTime,
}

/// The same moment on both clocks.
struct ClockPair {
    instant: Instant,
    system: SystemTime,
}

impl ClockPair {
    /// Returns the pair of this process, which is read once.
    fn get() -> &'static Self {
        static PAIR: OnceLock<ClockPair> = OnceLock::new();
        PAIR.get_or_init(|| Self { instant: real_now(), system: SystemTime::now() })
    }

    fn to_system(&self, instant: Instant) -> Option<SystemTime> {
        match instant.checked_duration_since(self.instant) {
            Some(after) => self.system.checked_add(after),
            None => self.system.checked_sub(self.instant - instant),
        }
    }

    fn to_instant(&self, system: SystemTime) -> Option<Instant> {
        match system.duration_since(self.system) {
            Ok(after) => self.instant.checked_add(after),
            Err(error) => self.instant.checked_sub(error.duration()),
        }
    }
}

impl Serialize for Expirations {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let store = |deadline: tokio::time::Instant| {
            let system = ClockPair::get().to_system(deadline.into_std());
            system.ok_or_else(|| S::Error::custom("cannot store a deadline: it is too far away"))
        };
        let (first, last) = (store(self.first)?, store(self.last)?);
        StoredExpirations { count: self.count, first, last }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Expirations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let StoredExpirations { count, first, last } = Deserialize::deserialize(deserializer)?;
        if count == 0 {
            return Err(D::Error::custom("invalid count 0: expected at least 1"));
        }
        if last < first {
            return Err(D::Error::custom("invalid deadlines: expected the first before the last"));
        }
        let load = |system| {
            let instant = ClockPair::get().to_instant(system).map(Into::into);
            instant.ok_or_else(|| D::Error::custom("cannot load a deadline: it is too far away"))
        };
        Ok(Self { count, first: load(first)?, last: load(last)? })
    }
}
