//! Multi-thread runtimes that have all of their worker threads.
//!
//! If tokio cannot start a worker thread, it panics. Before that, it waits until the other ones have
//! ended, which they never do: each one waits here until all have started, and ends if they have not.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use cli::words::pluralize;
use tokio::runtime::{Builder, Runtime};

use crate::panics;

/// Time until a started thread runs, even on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Time until the kernel no longer counts a thread that was joined.
const EXIT_TIME: Duration = Duration::from_millis(1);

/// Builds a runtime with `count` worker threads, each of which calls `on_start` first.
///
/// # Errors
///
/// Returns an error if not all of the threads can be started.
pub fn build_multi_thread(
    count: usize,
    configure: impl FnOnce(&mut Builder),
    on_start: impl Fn() + Send + Sync + 'static,
) -> io::Result<Runtime> {
    let failed = |error| io::Error::other(NoThreads { count, error });
    check_threads_available(count).map_err(failed)?;
    let started = Arc::new(StartedThreads { count, ..StartedThreads::default() });
    let worker = Arc::clone(&started);
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(count).thread_name(panics::WORKER_NAME);
    configure(&mut builder);
    builder.on_thread_start(move || {
        on_start();
        worker.add();
        // Otherwise the thread would run, and tokio would wait for its end when it reports the error.
        assert!(worker.wait(), "not all worker threads have started");
    });
    // Another process may have used up the limit since the check.
    let runtime = panics::catch_panic(|| builder.build())
        .map_err(|panic| failed(io::Error::other(panic)))??;
    if started.wait() {
        return Ok(runtime);
    }
    runtime.shutdown_background();
    Err(failed(io::Error::new(io::ErrorKind::WouldBlock, "not all of them have started")))
}

/// The worker threads of a runtime that have started.
#[derive(Default)]
struct StartedThreads {
    /// Number of threads of the runtime.
    count: usize,
    progress: Mutex<StartProgress>,
    changed: Condvar,
}

#[derive(Default)]
struct StartProgress {
    started: usize,
    /// Set by the first thread that waited in vain. The others fail as well.
    has_failed: bool,
}

impl StartedThreads {
    fn add(&self) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).started += 1;
        self.changed.notify_all();
    }

    /// Waits until all threads have started. Returns false if they have not in time.
    fn wait(&self) -> bool {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open =
            |progress: &mut StartProgress| progress.started < self.count && !progress.has_failed;
        let waited = self.changed.wait_timeout_while(progress, START_TIMEOUT, is_open);
        let mut progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        progress.has_failed |= progress.started < self.count;
        !progress.has_failed
    }
}

/// The worker threads of a runtime cannot be started.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot start {}: {error}; raise the limit, for example with ulimit -u, or use fewer threads",
    pluralize(*.count as u64, "thread")
)]
struct NoThreads {
    count: usize,
    #[source]
    error: io::Error,
}

/// Starts and ends `count` concurrent threads to check that tokio can do so.
///
/// This runs before each round, since other processes may have used up a limit in the meantime.
fn check_threads_available(count: usize) -> io::Result<()> {
    let threads = WaitingThreads::default();
    std::thread::scope(|scope| {
        // A scope ends when the functions of its threads return, but the threads still exist.
        for thread in threads.start(scope, count)? {
            let _ = thread.join();
        }
        Ok::<_, io::Error>(())
    })?;
    #[allow(clippy::disallowed_methods, reason = "the threads leave the limit after the join")]
    std::thread::sleep(EXIT_TIME);
    Ok(())
}

/// Checks that there is enough memory to start a thread.
///
/// If the stack of a thread can be allocated but other data of the standard library cannot, the
/// whole process is aborted.
fn check_thread_memory() -> io::Result<()> {
    // Some allocators keep smaller blocks for the thread that has freed them.
    const STACK_AND_DATA_BYTES: usize = 40 << 20;
    let mut memory = Vec::<u8>::new();
    memory.try_reserve_exact(STACK_AND_DATA_BYTES).map_err(|_| io::ErrorKind::OutOfMemory)?;
    std::hint::black_box(&mut memory);
    Ok(())
}

/// Threads that wait at a gate.
#[derive(Default)]
struct WaitingThreads {
    gate: RwLock<()>,
    running: AtomicUsize,
}

impl WaitingThreads {
    /// Starts threads behind the closed gate, one after the other, then opens it.
    fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        count: usize,
    ) -> io::Result<Vec<ScopedJoinHandle<'scope, ()>>> {
        let _closed = self.gate.write();
        let mut threads = Vec::with_capacity(count);
        for running_before in 0..count {
            check_thread_memory()?;
            threads.push(std::thread::Builder::new().spawn_scoped(scope, || self.wait())?);
            // Check the memory for the next thread after this one has allocated its own.
            while self.running.load(Ordering::Acquire) == running_before {
                std::thread::yield_now();
            }
        }
        Ok(threads)
    }

    fn wait(&self) {
        self.running.fetch_add(1, Ordering::Release);
        drop(self.gate.read());
    }
}
