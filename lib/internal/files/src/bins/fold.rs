//! Two files as one set of intervals, and many intervals as few.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::error::{BinsError, BinsFlaw};
use super::key::Key;
use super::model::Interval;

/// The intervals of both files of a pair. Those of which only a row in the second is there have no
/// bins; those of which only bins are there have no facts.
///
/// # Errors
/// An interval whose bins hold another number of values than its row states.
pub fn join(bins: Vec<Interval>, intervals: Vec<Interval>) -> Result<Vec<Interval>, BinsError> {
    let mut all: BTreeMap<Key, Interval> =
        bins.into_iter().map(|interval| (interval.key.clone(), interval)).collect();
    for Interval { key, facts, .. } in intervals {
        let Some(there) = all.get_mut(&key) else {
            all.insert(key.clone(), Interval::empty(key, facts));
            continue;
        };
        let (holds, states) =
            (there.count(), facts.as_ref().map_or(0, super::model::IntervalCounts::came));
        if holds != states {
            let flaw = BinsFlaw::Counts { key: key.to_string(), holds, states };
            return Err(BinsError { line: None, flaw });
        }
        there.facts = facts;
    }
    Ok(all.into_values().collect())
}

/// Many intervals as few: those that are alike but for their time and run are added up. In any
/// order of theirs, the sum is the same.
#[derive(Clone, Debug, Default)]
pub struct Fold(BTreeMap<Key, Interval>);

impl Fold {
    /// Adds an interval; `group` empties what is not to set it apart.
    pub fn add(&mut self, interval: &Interval, group: impl FnOnce(&mut Key)) {
        let mut key = interval.key.clone();
        group(&mut key);
        let alike = Key { start_us: None, duration_ns: 0, run_id: String::new(), ..key.clone() };
        match self.0.entry(alike) {
            Entry::Occupied(mut there) => there.get_mut().add(interval, &key),
            Entry::Vacant(free) => drop(free.insert(Interval { key, ..interval.clone() })),
        }
    }

    /// The sums, in order of what they are of.
    #[must_use]
    pub fn finish(self) -> Vec<Interval> {
        self.0.into_values().collect()
    }
}
