//! A run of a program that is not measured, in which the settings of its threads are read.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use files::report::{SubjectSettings, ThreadSettings};

use super::{
    KILL_TIMEOUT, RunRequest, StartedRun, StderrTail, measuring_command, start_run, watch_exit,
};
use crate::machine::os::{self, ThreadReading};
use crate::program::Program;

/// Interval at which the threads are read.
const READING_INTERVAL: Duration = Duration::from_millis(5);
/// Time during which a thread has to run so that it counts as one of the loop. On a busy machine it
/// is longer.
const WINDOW: Duration = Duration::from_millis(25);
/// Minimum length of a run in which the loop is read after its start.
pub const MIN_READ_LENGTH: Duration = Duration::from_millis(60);

/// Runs a program to read the settings of the threads that run its loop. Returns `None` if they
/// cannot be read, or the program fails.
///
/// The threads of the loop are those that ran during the last readings in which one ran as often as a
/// loop does: it can end before the program, whose other threads then write the result. If none did,
/// they are those that ran during the last readings before the exit, when the program has long been
/// started, or else, because the loop was in a single wait, all threads of processes without
/// children.
pub fn read_settings(
    program: &Program,
    request: RunRequest,
    stop: &AtomicBool,
) -> Option<SubjectSettings> {
    let initial_timer_slack_ns = os::own_settings().timer_slack_ns?;
    let prepare = |scratch: &Path| measuring_command(program, request, scratch);
    let StartedRun { aside: _aside, run, stderr, started } = start_run(prepare).ok()?;
    let _tail = stderr.map(StderrTail::listen);
    let watch = watch_exit(&run.tree).ok()?;
    let mut readings = Readings::new(request.period);
    while watch.exited.recv_timeout(READING_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let now = started.elapsed();
        if stop.load(Ordering::Relaxed) || now >= request.limit {
            return None;
        }
        let threads = os::read_threads(run.tree.id());
        // The processes of the program may have just exited.
        if !threads.is_empty() {
            readings.add(now, threads);
        }
    }
    if !run.end(KILL_TIMEOUT).ok()?.status.success() {
        return None;
    }
    Some(SubjectSettings {
        threads: group(&readings.loop_threads()?),
        initial_timer_slack_ns: Some(initial_timer_slack_ns),
        differences: Vec::new(),
    })
}

/// Readings of the threads of a program in the order of their times.
struct Readings {
    /// How often a thread of the loop runs at least in a window.
    min_runs: Option<u64>,
    /// The readings of the last window.
    window: VecDeque<(Duration, Vec<ThreadReading>)>,
    /// The threads of the last window in which one ran so often.
    ticking_threads: Option<Vec<ThreadSettings>>,
}

impl Readings {
    fn new(period: Duration) -> Self {
        let min_runs = min_loop_runs(period);
        Self { min_runs, window: VecDeque::new(), ticking_threads: None }
    }

    fn add(&mut self, now: Duration, threads: Vec<ThreadReading>) {
        self.window.push_back((now, threads));
        while self.window.get(1).is_some_and(|(time, _)| *time + WINDOW <= now) {
            self.window.pop_front();
        }
        if let (Some((_, before)), Some((_, after))) = (self.window.front(), self.window.back())
            && self.min_runs.is_some_and(|min_runs| max_runs(before, after) >= min_runs)
        {
            self.ticking_threads = Some(loop_threads(before, after, self.min_runs));
        }
    }

    /// Returns the settings of the threads of the loop; `None` if the readings are too short.
    fn loop_threads(self) -> Option<Vec<ThreadSettings>> {
        let ((first, before), (last, after)) = (self.window.front()?, self.window.back()?);
        if *first + WINDOW > *last {
            return None;
        }
        let last_threads = || loop_threads(before, after, self.min_runs);
        Some(self.ticking_threads.unwrap_or_else(last_threads))
    }
}

/// Returns how often a thread that ticks runs at least between the readings of a window. It can be in
/// the loop for half of that time. `None` for a period at which any other thread runs as often.
fn min_loop_runs(period: Duration) -> Option<u64> {
    let ticks = WINDOW.as_nanos() / period.as_nanos().max(1);
    u64::try_from(ticks / 2).ok().filter(|runs| *runs >= 2)
}

/// Returns how often a thread ran since an earlier reading; `None` if it has started since then.
fn runs_since(before: &[ThreadReading], reading: &ThreadReading) -> Option<u64> {
    let earlier = before.iter().find(|earlier| earlier.thread == reading.thread)?;
    Some(reading.switches.saturating_sub(earlier.switches))
}

/// Returns how often the thread that ran most ran between two readings.
fn max_runs(before: &[ThreadReading], after: &[ThreadReading]) -> u64 {
    after.iter().filter_map(|reading| runs_since(before, reading)).max().unwrap_or(0)
}

/// Returns the settings of the threads that ran between two readings or, if there are none, of all
/// threads of processes without children. A shell that has just started the program has run too, so
/// a process with children must have run as often as a loop does.
fn loop_threads(
    before: &[ThreadReading],
    after: &[ThreadReading],
    min_loop_runs: Option<u64>,
) -> Vec<ThreadSettings> {
    let has_run = |reading: &&ThreadReading| {
        let min_runs = if reading.is_leaf { 1 } else { min_loop_runs.unwrap_or(1) };
        runs_since(before, reading).is_some_and(|runs| runs >= min_runs)
    };
    let mut threads: Vec<&ThreadReading> = after.iter().filter(has_run).collect();
    if threads.is_empty() {
        threads = after.iter().filter(|reading| reading.is_leaf).collect();
    }
    threads.into_iter().map(|reading| reading.settings.clone()).collect()
}

/// Joins threads with the same settings.
fn group(threads: &[ThreadSettings]) -> Vec<ThreadSettings> {
    let mut groups: Vec<ThreadSettings> = Vec::new();
    for thread in threads {
        let is_equal = |group: &&mut ThreadSettings| {
            ThreadSettings { threads: thread.threads, ..(*group).clone() } == *thread
        };
        match groups.iter_mut().find(is_equal) {
            Some(group) => group.threads += thread.threads,
            None => groups.push(thread.clone()),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(thread: u32, switches: u64, is_leaf: bool, nice: i64) -> ThreadReading {
        let settings = ThreadSettings { threads: 1, nice: Some(nice), ..ThreadSettings::default() };
        ThreadReading { thread, is_leaf, switches, settings }
    }

    fn nice_values(before: &[ThreadReading], after: &[ThreadReading]) -> Vec<(u64, Option<i64>)> {
        group(&loop_threads(before, after, Some(3)))
            .into_iter()
            .map(|g| (g.threads, g.nice))
            .collect()
    }

    #[test]
    fn only_running_threads_count() {
        // A shell waits for the program, which has an idle thread and two that run.
        let before = [reading(1, 3, false, 0), reading(2, 9, true, 1), reading(3, 1, true, 2)];
        let after = [
            reading(1, 3, false, 0),
            reading(2, 20, true, 1),
            reading(3, 1, true, 2),
            reading(4, 8, true, 3),
        ];
        assert_eq!(nice_values(&before, &after), [(1, Some(1))]);
        let both = [reading(2, 20, true, 1), reading(3, 2, true, 1)];
        assert_eq!(nice_values(&before, &both), [(2, Some(1))]);
        // A shell that has just started the program, and a loop that has started another one.
        let parent = |switches| [reading(1, switches, false, 0), reading(2, 20, true, 1)];
        assert_eq!(nice_values(&before, &parent(5)), [(1, Some(1))]);
        assert_eq!(nice_values(&before, &parent(6)), [(1, Some(0)), (1, Some(1))]);
    }

    #[test]
    fn loops_run_once_per_tick() {
        let ms = |ms: f64| min_loop_runs(Duration::from_secs_f64(ms / 1e3));
        assert_eq!([ms(0.5), ms(2.0), ms(6.0), ms(7.0)], [Some(25), Some(6), Some(2), None]);
        let before = [reading(1, 3, true, 0), reading(2, 9, true, 1)];
        let after = [reading(1, 5, true, 0), reading(2, 20, true, 1), reading(3, 99, true, 1)];
        assert_eq!((max_runs(&before, &after), max_runs(&after, &before)), (11, 0));
    }

    #[test]
    fn loops_may_end_before_programs() {
        let read = |period_ms: u64| {
            let mut readings = Readings::new(Duration::from_millis(period_ms));
            for n in 0..20 {
                // The program starts, its second thread ticks, and then it writes the result.
                let main = reading(1, if n < 4 { n } else { 4 + n / 13 }, true, 0);
                let ticking = reading(2, 3 * n, true, 1);
                let threads = if (4..13).contains(&n) { vec![main, ticking] } else { vec![main] };
                readings.add(READING_INTERVAL * u32::try_from(n).unwrap(), threads);
            }
            group(&readings.loop_threads().unwrap())
        };
        let nice_value = |groups: &[ThreadSettings]| (groups.len(), groups[0].nice);
        assert_eq!(nice_value(&read(2)), (1, Some(1)));
        // A loop that seldom ticks is not distinguished from others.
        assert_eq!(nice_value(&read(20)), (1, Some(0)));
        let short = Readings::new(Duration::from_millis(2));
        assert!(short.loop_threads().is_none());
    }

    #[test]
    fn waiting_loops_are_leaves() {
        let threads = [reading(1, 3, false, 0), reading(2, 9, true, 1)];
        assert_eq!(nice_values(&threads, &threads), [(1, Some(1))]);
    }
}
