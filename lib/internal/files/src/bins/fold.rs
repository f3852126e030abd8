//! Joining the two files of a set of intervals, and adding up intervals.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::error::{BinsError, BinsFlaw};
use super::key::Key;
use super::model::Interval;

/// Joins the intervals of both files of a set. Intervals that are only in the second file have no
/// bins; those that are only in the first one have no facts.
///
/// # Errors
/// Returns an error if the bins of an interval contain another number of values than its row
/// states.
pub fn join(bins: Vec<Interval>, intervals: Vec<Interval>) -> Result<Vec<Interval>, BinsError> {
    let mut joined: BTreeMap<Key, Interval> =
        bins.into_iter().map(|interval| (interval.key.clone(), interval)).collect();
    for Interval { key, facts, .. } in intervals {
        let Some(interval) = joined.get_mut(&key) else {
            joined.insert(key.clone(), Interval::empty(key, facts));
            continue;
        };
        let (holds, states) =
            (interval.count(), facts.as_ref().map_or(0, |facts| facts.ticks.came()));
        if holds != states {
            let flaw = BinsFlaw::Counts { key: key.to_string(), holds, states };
            return Err(BinsError { line: None, flaw });
        }
        interval.facts = facts;
    }
    Ok(joined.into_values().collect())
}

/// An accumulator that adds up intervals which differ only in time and run. The result does not
/// depend on their order.
#[derive(Clone, Debug, Default)]
pub struct Fold(BTreeMap<Key, Interval>);

impl Fold {
    /// Adds an interval. `group` clears the parts of the key that should not separate intervals.
    pub fn add(&mut self, interval: &Interval, group: impl FnOnce(&mut Key)) {
        let mut key = interval.key.clone();
        group(&mut key);
        let group_key =
            Key { start_us: None, duration_ns: 0, run_id: String::new(), ..key.clone() };
        match self.0.entry(group_key) {
            Entry::Occupied(mut entry) => entry.get_mut().add(interval, &key),
            Entry::Vacant(entry) => drop(entry.insert(Interval { key, ..interval.clone() })),
        }
    }

    /// Returns the sums in the order of their keys.
    #[must_use]
    pub fn finish(self) -> Vec<Interval> {
        self.0.into_values().collect()
    }
}
