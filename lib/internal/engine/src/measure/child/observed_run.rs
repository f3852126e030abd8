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
/// The threads of the loop are those that ran during the last readings before the exit, when the
/// program has long been started. If none did, because the loop was in a single wait, they are all
/// threads of processes without children.
pub fn read_settings(
    program: &Program,
    request: RunRequest,
    stop: &AtomicBool,
) -> Option<SubjectSettings> {
    let initial_timer_slack_ns = os::own_settings().timer_slack_ns?;
    let prepare = |scratch: &Path| measuring_command(program, request, scratch);
    let StartedRun { run, stderr, started } = start_run(prepare).ok()?;
    let _tail = stderr.map(StderrTail::listen);
    let watch = watch_exit(&run.tree).ok()?;
    let mut readings: VecDeque<(Duration, Vec<ThreadReading>)> = VecDeque::new();
    while watch.exited.recv_timeout(READING_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let now = started.elapsed();
        if stop.load(Ordering::Relaxed) || now >= request.limit {
            return None;
        }
        let threads = os::read_threads(run.tree.id());
        // The processes of the program may have just exited.
        if !threads.is_empty() {
            readings.push_back((now, threads));
        }
        while readings.get(1).is_some_and(|(time, _)| *time + WINDOW <= now) {
            readings.pop_front();
        }
    }
    if !run.end(KILL_TIMEOUT).ok()?.status.success() {
        return None;
    }
    let ((first, before), (last, after)) = (readings.front()?, readings.back()?);
    if *first + WINDOW > *last {
        return None;
    }
    let threads = group(&loop_threads(before, after));
    Some(SubjectSettings {
        threads,
        initial_timer_slack_ns: Some(initial_timer_slack_ns),
        differences: Vec::new(),
    })
}

/// Returns the settings of the threads that ran between two readings or, if there are none, of all
/// threads of processes without children.
fn loop_threads(before: &[ThreadReading], after: &[ThreadReading]) -> Vec<ThreadSettings> {
    let has_run = |reading: &&ThreadReading| {
        let earlier = before.iter().find(|earlier| earlier.thread == reading.thread);
        earlier.is_some_and(|earlier| reading.switches > earlier.switches)
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
        group(&loop_threads(before, after)).into_iter().map(|g| (g.threads, g.nice)).collect()
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
    }

    #[test]
    fn waiting_loops_are_leaves() {
        let threads = [reading(1, 3, false, 0), reading(2, 9, true, 1)];
        assert_eq!(nice_values(&threads, &threads), [(1, Some(1))]);
    }
}
