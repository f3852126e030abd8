//! Availability of the evidence for a diagnosis.

use files::report::why::{Missing, Tier};

use crate::measure::why::unavailable::Unavailable;

/// For each kind of evidence, the reason if it is not available.
#[derive(Debug)]
pub struct Availability {
    /// Statistics of the threads at each park.
    pub stats: Result<(), Unavailable>,
    /// Context switches of the threads.
    pub switches: Result<(), Unavailable>,
    /// Threads that ran on each CPU.
    pub occupants: Result<(), Unavailable>,
    /// Timers, and the threads that they woke.
    pub wakeups: Result<(), Unavailable>,
}

impl Availability {
    /// Returns the highest tier whose evidence is available.
    pub fn tier(&self) -> Option<Tier> {
        match (&self.switches, &self.occupants, &self.wakeups) {
            (Err(_), ..) => self.stats.is_ok().then_some(Tier::A1),
            (Ok(()), Ok(()), Ok(())) => Some(Tier::B2),
            (Ok(()), Ok(()), Err(_)) => Some(Tier::B1),
            (Ok(()), Err(_), _) => Some(Tier::A2),
        }
    }

    /// Returns the lowest tier whose evidence is not available.
    pub fn missing(&self) -> Option<Missing> {
        let tiers = [
            (Tier::A1, &self.stats),
            (Tier::A2, &self.switches),
            (Tier::B1, &self.occupants),
            (Tier::B2, &self.wakeups),
        ];
        for (tier, available) in tiers {
            if let Err(reason) = available {
                return Some(Missing { tier, reason: reason.to_string() });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tier_follows_the_evidence() {
        let tier = |stats: bool, switches: bool, occupants: bool, wakeups: bool| {
            let available = |is_available: bool, kind: &'static str| match is_available {
                true => Ok(()),
                false => Err(Unavailable::LostRecords { count: 3, kind }),
            };
            let availability = Availability {
                stats: available(stats, "stats"),
                switches: available(switches, "switches"),
                occupants: available(occupants, "occupants"),
                wakeups: available(wakeups, "wakeups"),
            };
            (availability.tier(), availability.missing().map(|missing| missing.reason))
        };
        let reason =
            |kind: &str| Some(format!("the kernel's buffer was too small: 3 {kind} were lost"));
        assert_eq!(tier(true, true, true, true), (Some(Tier::B2), None));
        assert_eq!(tier(true, true, true, false), (Some(Tier::B1), reason("wakeups")));
        assert_eq!(tier(true, true, false, true), (Some(Tier::A2), reason("occupants")));
        assert_eq!(tier(false, true, true, true), (Some(Tier::B2), reason("stats")));
        assert_eq!(tier(true, false, true, true), (Some(Tier::A1), reason("switches")));
        assert_eq!(tier(false, false, false, false), (None, reason("stats")));
    }
}
