//! Two files as one set of intervals, and many intervals as few.

use std::collections::BTreeMap;

use super::error::{BinsError, BinsFlaw};
use super::key::Key;
use super::model::Interval;

/// The intervals of both files of a pair. Those of which only a row in the second is there have no bins; those of which
/// only bins are there have no facts.
///
/// # Errors
/// An interval whose bins hold another number of values than its row states.
pub fn join(bins: Vec<Interval>, intervals: Vec<Interval>) -> Result<Vec<Interval>, BinsError> {
    let mut all: BTreeMap<Key, Interval> = bins.into_iter().map(|interval| (interval.key.clone(), interval)).collect();
    for Interval { key, facts, .. } in intervals {
        let Some(there) = all.get_mut(&key) else {
            all.insert(key.clone(), Interval::empty(key, facts));
            continue;
        };
        let (holds, states) = (there.count(), facts.as_ref().map_or(0, super::model::Facts::came));
        if holds != states {
            let flaw = BinsFlaw::Counts { key: key.to_string(), holds, states };
            return Err(BinsError { line: None, flaw });
        }
        there.facts = facts;
    }
    Ok(all.into_values().collect())
}

/// Adds up the intervals that `group` makes alike, whatever their time and run; in order of what they are of.
pub fn folded<'a>(intervals: impl IntoIterator<Item = &'a Interval>, group: impl Fn(&mut Key)) -> Vec<Interval> {
    let mut groups: BTreeMap<Key, Interval> = BTreeMap::new();
    for interval in intervals {
        let mut key = interval.key.clone();
        group(&mut key);
        let alike = Key { start_us: None, duration_ns: 0, run_id: String::new(), ..key.clone() };
        match groups.get_mut(&alike) {
            Some(there) => there.add(&Interval { key, ..interval.clone() }),
            None => drop(groups.insert(alike, Interval { key, ..interval.clone() })),
        }
    }
    groups.into_values().collect()
}
