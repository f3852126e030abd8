//! The times of the intervals of a log.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::line::IntervalLine;

/// A timestamp below it is relative: no log is from the year of the epoch.
const MIN_EPOCH_SECONDS: f64 = 1e8;

/// The times that the comments of a log state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeaderTimes {
    pub start: Option<f64>,
    pub base: Option<f64>,
    /// Whether the legend calls the second column an end.
    pub names_end: bool,
    /// Whether the start has a date as HdrHistogram for Go writes it.
    pub has_go_date: bool,
}

/// The begin and the length of an interval in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct IntervalTime {
    pub begin: f64,
    pub length: f64,
}

/// The interpretation of the timestamps of a log.
#[derive(Debug)]
pub(super) struct LogTimes {
    /// Number of timestamp units in a second.
    per_second: f64,
    /// Whether the second column is the end of the interval.
    has_ends: bool,
    /// Begin of the earliest interval.
    earliest: f64,
    /// End of the last interval.
    latest: f64,
    /// Start of the log, if it is known.
    pub started: Option<SystemTime>,
}

impl LogTimes {
    /// Interprets the timestamps of all intervals. `None` without an interval.
    pub fn new(header: HeaderTimes, lines: &[IntervalLine<'_>]) -> Option<Self> {
        let first = lines.first()?;
        let largest = lines.iter().map(|line| line.start).fold(0.0, f64::max);
        let has_ends = has_ends(header.names_end, lines);
        // Go's implementation wrote ends until version 1.1.2, and always in milliseconds.
        let is_go_milliseconds = has_ends && header.has_go_date;
        let mut times = Self {
            per_second: if is_go_milliseconds { 1e3 } else { units_per_second(largest) },
            has_ends,
            earliest: f64::INFINITY,
            latest: 0.0,
            started: None,
        };
        for line in lines {
            let IntervalTime { begin, length } = times.interval(line);
            times.earliest = times.earliest.min(begin);
            times.latest = times.latest.max(begin + length);
        }
        times.started = times.absolute_start(header, first);
        Some(times)
    }

    /// Returns the time of an interval.
    pub fn interval(&self, line: &IntervalLine<'_>) -> IntervalTime {
        let length =
            if self.has_ends { line.length_or_end - line.start } else { line.length_or_end };
        IntervalTime { begin: line.start / self.per_second, length: length / self.per_second }
    }

    /// Returns the time from the earliest interval to another one, in seconds.
    pub fn since_earliest(&self, time: IntervalTime) -> f64 {
        time.begin - self.earliest
    }

    /// Returns the length of the log in seconds.
    pub fn length(&self) -> f64 {
        self.latest - self.earliest
    }

    fn absolute_start(&self, header: HeaderTimes, first: &IntervalLine<'_>) -> Option<SystemTime> {
        let in_seconds = |time: f64| time / units_per_second(time);
        if let Some(start) = header.start.map(in_seconds).filter(|start| is_epoch_time(*start)) {
            return system_time(start);
        }
        let begin = self.interval(first).begin;
        let base = header.base.map(in_seconds).filter(|base| is_epoch_time(*base));
        match base {
            // The sum of two dates is none.
            Some(base) if !is_epoch_time(begin) => system_time(base + begin),
            None if is_epoch_time(begin) => system_time(begin),
            _ => None,
        }
    }
}

/// Whether the second column is the end of an interval, rather than its length. A legend does not
/// tell: that of version 1.01 of the format names an end for lengths, that of Go names a length for
/// ends.
fn has_ends(is_named: bool, lines: &[IntervalLine<'_>]) -> bool {
    let is_date = |line: &IntervalLine<'_>| is_epoch_time(line.length_or_end);
    lines.iter().all(|line| line.length_or_end >= line.start)
        && (is_named || lines.iter().all(is_date) || is_chain(lines))
}

/// Whether the second column is the first one of the next line, which no length is, except that of
/// an interval at zero.
fn is_chain(lines: &[IntervalLine<'_>]) -> bool {
    let is_next = |pair: &[IntervalLine<'_>]| {
        let [line, next] = pair else { return false };
        line.start < line.length_or_end && line.length_or_end == next.start
    };
    lines.len() > 2 && lines.windows(2).all(is_next)
}

/// Returns the number of units in a second of a timestamp: some writers use milliseconds since the
/// epoch, which the readers of the format take as seconds in a distant future.
fn units_per_second(time: f64) -> f64 {
    // In seconds, this is the year 5138.
    const MAX_SECONDS: f64 = 1e11;
    [1.0, 1e3, 1e6].into_iter().find(|units| time < MAX_SECONDS * units).unwrap_or(1e9)
}

fn is_epoch_time(seconds: f64) -> bool {
    seconds >= MIN_EPOCH_SECONDS
}

/// Converts seconds since the epoch. Logs have at most microseconds.
fn system_time(seconds: f64) -> Option<SystemTime> {
    let since_epoch = Duration::try_from_secs_f64((seconds * 1e6).round() / 1e6).ok()?;
    UNIX_EPOCH.checked_add(since_epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(times: &[(f64, f64)]) -> Vec<IntervalLine<'static>> {
        let line = |&(start, length_or_end)| IntervalLine {
            tag: None,
            start,
            length_or_end,
            max: None,
            data: "",
        };
        times.iter().map(line).collect()
    }

    fn times(header: HeaderTimes, intervals: &[(f64, f64)]) -> (Vec<f64>, f64, Option<u64>) {
        let lines = lines(intervals);
        let times = LogTimes::new(header, &lines).unwrap();
        let offset = |line| times.since_earliest(times.interval(line));
        let started = times.started.map(|at| at.duration_since(UNIX_EPOCH).unwrap().as_secs());
        (lines.iter().map(offset).collect(), times.length(), started)
    }

    #[test]
    fn intervals_may_be_out_of_order() {
        let none = HeaderTimes::default();
        assert_eq!(
            times(none, &[(2.0, 1.0), (0.0, 1.0), (1.0, 1.0)]),
            (vec![2.0, 0.0, 1.0], 3.0, None)
        );
        assert!(LogTimes::new(none, &[]).is_none());
    }

    #[test]
    fn legend_may_name_an_end() {
        let header = HeaderTimes { names_end: true, ..HeaderTimes::default() };
        // An end, as the C implementation writes it, here since the start of the machine.
        assert_eq!(times(header, &[(292_663.0, 292_664.0)]).1, 1.0);
        // A length in spite of the legend, as in the version 1.01 of the format.
        assert_eq!(times(header, &[(0.25, 1.0), (1.25, 1.0)]).1, 2.0);
        assert_eq!(times(HeaderTimes::default(), &[(5.0, 6.0)]).1, 6.0);
    }

    #[test]
    fn ends_are_recognized() {
        let none = HeaderTimes::default();
        let chain = [(0.0, 1_000.0), (1_000.0, 2_000.0), (2_000.0, 2_500.0)];
        assert_eq!(times(none, &chain), (vec![0.0, 1_000.0, 2_000.0], 2_500.0, None));
        assert_eq!(times(none, &chain[..2]).1, 3_000.0, "lengths, of which one grew");
        let go = HeaderTimes { start: Some(1.7e9), has_go_date: true, ..none };
        assert_eq!(times(go, &chain), (vec![0.0, 1.0, 2.0], 2.5, Some(1_700_000_000)));
        assert_eq!(times(go, &[(0.0, 1.0), (1.0, 1.0), (2.0, 1.0)]).1, 3.0, "Go since 1.2.0");
        assert_eq!(times(none, &[(1.7e12, 1.7e12 + 500.0)]).1, 0.5);
    }

    #[test]
    fn milliseconds_are_recognized() {
        let header = HeaderTimes { start: Some(1.7e12), ..HeaderTimes::default() };
        assert_eq!(
            times(header, &[(1.7e12, 1_000.0), (1.7e12 + 1_000.0, 500.0)]),
            (vec![0.0, 1.0], 1.5, Some(1_700_000_000))
        );
    }

    #[test]
    fn start_is_stated_or_unknown() {
        let started = |start, base, begin| {
            let header = HeaderTimes { start, base, ..HeaderTimes::default() };
            times(header, &[(begin, 1.0)]).2
        };
        assert_eq!(started(Some(1.6e9), None, 0.127), Some(1_600_000_000));
        assert_eq!(started(None, Some(1.6e9), 7.0), Some(1_600_000_007));
        assert_eq!(started(None, None, 1.6e9), Some(1_600_000_000));
        assert_eq!(started(None, None, 0.127), None);
        assert_eq!(started(Some(5.0), None, 5.0), None, "a clock that was not set");
        assert_eq!(started(None, Some(1.6e9), 1.6e9), None, "two dates");
        assert_eq!(started(None, Some(1.6e9), 1e99), None);
    }
}
