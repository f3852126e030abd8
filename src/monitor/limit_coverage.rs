//! The loops on which limits were not checked: meters that were left out, and loops with too few
//! ticks. Also the limits that apply to no loop, such as one with a misspelled name. Does no I/O.

use std::collections::{BTreeMap, BTreeSet};

use cli::words::pluralize;

use crate::monitor::limits::Limit;
use crate::monitor::loop_id::LoopId;

/// Coverage of the loops by the limits of a monitor.
#[derive(Debug, Default)]
pub struct LimitCoverage {
    /// Largest number of meters that a poll of the open interval left out.
    left_out: usize,
    /// Number of loops with too few ticks in the open interval, by limit.
    few_ticks: BTreeMap<String, usize>,
    /// Number of loops on which the limits were checked in the open interval, by limit.
    checked: BTreeMap<String, usize>,
    closed: ClosedCoverage,
    /// Limits for which a loop with too few ticks was reported.
    reported_limits: BTreeSet<String>,
    /// Limits that applied to no loop in the last closed interval.
    without_loop: BTreeSet<String>,
    /// Limits that were checked on a loop in a closed interval.
    ever_checked: BTreeSet<String>,
}

/// Coverage of the intervals that have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClosedCoverage {
    /// Meters left out of the last closed interval.
    pub left_out: usize,
    /// Number of loops with too few ticks in the last closed interval, by limit.
    pub few_ticks: BTreeMap<String, usize>,
    /// Number of loops on which the limits were checked in the last closed interval, by limit.
    pub checked: BTreeMap<String, usize>,
    /// Number of closed intervals that left out a meter.
    pub incomplete_intervals: u64,
}

impl LimitCoverage {
    /// Records the number of meters that a poll left out.
    pub fn record_left_out(&mut self, meters: usize) {
        self.left_out = self.left_out.max(meters);
    }

    /// Records a loop whose ticks in the interval are too few for a limit. Returns a message for
    /// the first loop of each limit.
    pub fn record_few_ticks(
        &mut self,
        limit: &Limit,
        loop_id: &LoopId,
        ticks: u64,
    ) -> Option<String> {
        *self.few_ticks.entry(limit.text.clone()).or_default() += 1;
        self.reported_limits.insert(limit.text.clone()).then(|| {
            format!(
                "limit not checked: {}: {} needs {} per interval, and there were {ticks}; osjitter_limit_unchecked_loops counts such loops",
                loop_id.name(),
                limit.text,
                pluralize(limit.min_ticks(), "tick"),
            )
        })
    }

    /// Records a loop on which a limit was checked.
    pub fn record_checked(&mut self, limit: &Limit) {
        *self.checked.entry(limit.text.clone()).or_default() += 1;
    }

    /// Ends the interval. Returns messages about meters that were left out and limits that apply to
    /// no loop, unless they hold for the last interval as well.
    pub fn close_interval(&mut self, limits: &[Limit]) -> Vec<String> {
        let before = self.closed.left_out;
        self.closed.left_out = std::mem::take(&mut self.left_out);
        self.closed.few_ticks = std::mem::take(&mut self.few_ticks);
        self.closed.checked = std::mem::take(&mut self.checked);
        let left_out = self.closed.left_out;
        self.closed.incomplete_intervals += u64::from(left_out > 0);
        let mut messages = Vec::new();
        if left_out > 0 && left_out != before {
            let meters = pluralize(left_out as u64, "meter");
            messages.push(format!("limits not checked on {meters}, which the monitor left out"));
        }
        for Limit { text, .. } in limits {
            let is_checked = self.closed.checked.contains_key(text);
            if is_checked {
                self.ever_checked.insert(text.clone());
            }
            if is_checked || self.closed.few_ticks.contains_key(text) {
                self.without_loop.remove(text);
            } else if self.without_loop.insert(text.clone()) {
                messages.push(format!(
                    "limit not checked: {text} applies to no loop that is running; osjitter_limit_checked_loops counts those to which it does"
                ));
            }
        }
        messages
    }

    /// Returns the limits that were checked on no loop in any closed interval.
    pub fn never_checked<'l>(&self, limits: &'l [Limit]) -> Vec<&'l str> {
        let texts = limits.iter().map(|limit| limit.text.as_str());
        texts.filter(|text| !self.ever_checked.contains(*text)).collect()
    }

    pub fn closed(&self) -> &ClosedCoverage {
        &self.closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn left_out_meters_are_reported_once() {
        let mut coverage = LimitCoverage::default();
        let mut close = |polls: &[usize]| {
            for left_out in polls {
                coverage.record_left_out(*left_out);
            }
            (!coverage.close_interval(&[]).is_empty(), coverage.closed().incomplete_intervals)
        };
        assert_eq!(close(&[0, 0]), (false, 0));
        // A single poll suffices.
        assert_eq!(close(&[0, 3, 0]), (true, 1));
        assert_eq!(close(&[3]), (false, 2));
        assert_eq!(close(&[4]), (true, 3));
        assert_eq!(close(&[0]), (false, 3));
        assert_eq!(close(&[4]), (true, 4));
    }

    #[test]
    fn few_ticks_are_counted_per_interval() {
        let mut coverage = LimitCoverage::default();
        let limit: Limit = "p99.9=2ms".parse().unwrap();
        let loops = ["a", "b"].map(|meter| LoopId::Meter {
            meter: meter.to_owned(),
            period_ns: 1_000_000_000,
            program: "p".to_owned(),
        });
        let messages = loops.each_ref().map(|id| coverage.record_few_ticks(&limit, id, 300));
        let first = messages[0].as_ref().expect("a message for the first loop");
        assert!(first.contains("a@1s of p: p99.9=2ms needs 5000 ticks"), "{first}");
        assert_eq!(messages[1], None);
        let limits = [limit];
        assert_eq!(coverage.close_interval(&limits), [""; 0]);
        assert_eq!(coverage.never_checked(&limits), ["p99.9=2ms"]);
        assert_eq!(coverage.closed().few_ticks, [("p99.9=2ms".to_owned(), 2)].into());
        coverage.close_interval(&[]);
        assert_eq!(coverage.closed(), &ClosedCoverage::default());
    }

    #[test]
    fn limits_without_loop_are_reported() {
        let mut coverage = LimitCoverage::default();
        let limits: [Limit; 2] = ["max=1ms", "mispelt:max=2ms"].map(|text| text.parse().unwrap());
        let mut close = |checked: &[usize]| {
            checked.iter().for_each(|n| coverage.record_checked(&limits[*n]));
            let messages = coverage.close_interval(&limits);
            (messages.len(), coverage.never_checked(&limits).len())
        };
        assert_eq!(close(&[]), (2, 2));
        assert_eq!(close(&[0, 0]), (0, 1), "the other one was reported");
        assert_eq!(close(&[]), (1, 1), "its loop has ended");
        assert_eq!(close(&[0, 1]), (0, 0));
        assert_eq!(coverage.closed().checked.values().sum::<usize>(), 2);
    }
}
