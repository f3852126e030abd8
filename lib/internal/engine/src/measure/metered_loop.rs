//! A loop that records its ticks in a meter until it is stopped.
//!
//! `monitor` uses it for runs of days. Rounds would keep a sample per tick and miss the ticks
//! between them. A meter records every tick of an endless grid in memory of fixed size. Another
//! thread reads it like the meters of other programs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tickmeter::{Meter, Place, Reader};

use crate::machine::os::ThreadTimes;
use crate::measure::endless_loop::{EndlessLoop, LoopThreads};
use crate::measure::late_tick_log::{LateTickLog, LateTickRecorder};
use crate::measure::metered_loop_error::MeteredLoopError;
use crate::measure::subject_loops::SubjectLoops;
use crate::panics;
use crate::scenario::Scenario;

/// A metered loop on its own thread.
#[derive(Debug)]
pub struct MeteredLoop {
    reader: Reader,
    /// File in which other processes can read the meter.
    file: Option<PathBuf>,
    stop: Arc<AtomicBool>,
    threads: LoopThreads,
    thread: Option<JoinHandle<Result<(), MeteredLoopError>>>,
}

impl MeteredLoop {
    /// Starts a loop, and returns when its ticker exists. Ticks with a lateness of at least
    /// `late_from` are recorded individually, and also in the log if there is one.
    pub fn start(
        scenario: &Scenario,
        phase: Duration,
        late_from: Duration,
        late_ticks: Option<LateTickLog>,
    ) -> Result<Self, MeteredLoopError> {
        let subject = &scenario.subject;
        let loops = subject.as_builtin().and_then(SubjectLoops::find);
        let run = loops.ok_or_else(|| MeteredLoopError::NoLoop(subject.name()))?.run_endlessly;
        let meter = Meter::register_with(&scenario.id, scenario.period, late_from)
            .map_err(MeteredLoopError::Meter)?;
        let reader = meter.reader();
        let file = match meter.place() {
            Place::Mapped(path) => Some(path.clone()),
            _ => None,
        };
        let (stop, threads) = (Arc::new(AtomicBool::new(false)), LoopThreads::default());
        let (ready, ticker_created) = mpsc::channel();
        let endless = EndlessLoop {
            period: scenario.period,
            phase,
            runtime: scenario.runtime,
            meter,
            stop: Arc::clone(&stop),
            threads: threads.clone(),
            ready,
            late_ticks: late_ticks.map(LateTickRecorder::new),
        };
        let builder = std::thread::Builder::new().name("probe".to_owned());
        let run = move || {
            let ended = panics::catch_panic(|| run(endless)).map_err(MeteredLoopError::Runtime)?;
            ended.map_err(MeteredLoopError::Subject)
        };
        let thread = builder.spawn(run).map_err(MeteredLoopError::NoThread)?;
        let mut started = Self { reader, file, stop, threads, thread: Some(thread) };
        // The sender is dropped if there was an error, which the thread returns.
        match ticker_created.recv() {
            Ok(()) => Ok(started),
            Err(_) => Err(started.stop().unwrap_or(MeteredLoopError::EndedAtOnce)),
        }
    }

    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    pub fn file(&self) -> Option<&PathBuf> {
        self.file.as_ref()
    }

    /// Returns the times of all threads of the loop.
    pub fn thread_times(&self) -> Option<ThreadTimes> {
        self.threads.times()
    }

    /// Returns the numbers of the loop's threads in the system.
    pub fn thread_ids(&self) -> Vec<u32> {
        self.threads.ids()
    }

    /// Returns whether the loop has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Requests that the loop ends at its next tick.
    pub fn request_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Stops the loop at its next tick and waits for that. Returns the reason if it has failed.
    pub fn stop(&mut self) -> Option<MeteredLoopError> {
        self.request_stop();
        self.thread.take()?.join().unwrap_or(Err(MeteredLoopError::ThreadPanicked)).err()
    }
}

impl Drop for MeteredLoop {
    fn drop(&mut self) {
        self.request_stop();
        // The thread ends at its next tick. Do not wait for it, since the process may exit earlier.
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{ScenarioArgs, parse_subject};
    use crate::subject;

    /// Runs the loop of a subject for at least `ticks` ticks.
    fn run_metered(name: &str, ticks: u64) -> tickmeter::Snapshot {
        let args = ScenarioArgs {
            subjects: vec![parse_subject(name).unwrap()],
            periods: vec![Duration::from_millis(1)],
            ..ScenarioArgs::default()
        };
        let late_from = Duration::from_secs(1);
        let mut metered =
            MeteredLoop::start(&args.single_scenario().unwrap(), Duration::ZERO, late_from, None)
                .unwrap();
        while metered.reader().snapshot().ticks < ticks && !metered.is_finished() {
            std::thread::yield_now();
        }
        assert!(
            !cfg!(target_os = "linux")
                || metered.thread_times().is_some_and(|times| times.cpu_ns > 0),
            "{name}"
        );
        let failure = metered.stop();
        assert!(failure.is_none(), "{name}: {failure:?}");
        metered.reader().snapshot()
    }

    #[test]
    fn every_subject_can_be_metered() {
        for entry in subject::ALL.iter().filter(|e| subject::check_available(e).is_ok()) {
            let snapshot = run_metered(entry.name, 5);
            assert!(snapshot.ticks >= 5 && snapshot.early == 0, "{}: {snapshot:?}", entry.name);
            // Only subjects that skip ticks have gaps in the grid.
            assert!(
                entry.name.ends_with("-skip") || snapshot.skipped == 0,
                "{}: {snapshot:?}",
                entry.name
            );
        }
    }
}
