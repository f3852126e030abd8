//! Orderly shutdown: the signal that requests it, and the report of the tasks that are still
//! running.

use std::fmt;
use std::panic::Location;

/// The result of [`Runtime::drain`](crate::Runtime::drain): the tasks that ended in time, and the
/// tasks that did not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Number of tasks that ended.
    pub finished: usize,
    /// The places at which the tasks that have not ended were spawned. The next `block_on` or `drain`
    /// continues these tasks; dropping the runtime drops them.
    pub unfinished: Vec<&'static Location<'static>>,
}

impl Drained {
    /// Returns whether every task ended.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unfinished.is_empty()
    }
}

impl fmt::Display for Drained {
    /// Writes one line: how many tasks ended, and where the others were spawned.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tasks ended", self.finished)?;
        for (i, location) in self.unfinished.iter().enumerate() {
            f.write_str(if i == 0 { "; not: " } else { ", " })?;
            write!(f, "{location}")?;
        }
        Ok(())
    }
}

#[cfg(all(unix, feature = "signal"))]
pub use unix::ShutdownSignal;

#[cfg(all(unix, feature = "signal"))]
mod unix {
    use std::future::Future;
    use std::io::{self, Read};
    use std::os::unix::net::UnixStream as StdStream;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex, PoisonError};
    use std::task::{Context, Poll};

    use mio::Interest;
    use mio::net::UnixStream;
    use signal_hook::SigId;
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::{flag, low_level};

    use crate::io::{IoHandle, Registered};

    const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];

    /// The number of instances and, once the handlers are installed, the flag that makes a signal
    /// end the process. The flag is set while no instance exists, and after the first signal.
    #[derive(Debug)]
    struct SignalState {
        instances: usize,
        fatal: Option<Arc<AtomicBool>>,
    }

    static SIGNAL_STATE: Mutex<SignalState> = Mutex::new(SignalState { instances: 0, fatal: None });

    /// Registers an instance, and installs the handlers for the first one. Handlers run in the
    /// order of their registration, so the conditional default reads the flag before the signal
    /// sets it.
    fn add_instance() -> io::Result<()> {
        let mut state = SIGNAL_STATE.lock().unwrap_or_else(PoisonError::into_inner);
        match &state.fatal {
            Some(fatal) => {
                if state.instances == 0 {
                    fatal.store(false, Ordering::SeqCst);
                }
            }
            None => {
                let fatal = Arc::new(AtomicBool::new(false));
                for signal in SIGNALS {
                    flag::register_conditional_default(signal, Arc::clone(&fatal))?;
                    flag::register(signal, Arc::clone(&fatal))?;
                }
                state.fatal = Some(fatal);
            }
        }
        state.instances += 1;
        Ok(())
    }

    fn remove_instance() {
        let mut state = SIGNAL_STATE.lock().unwrap_or_else(PoisonError::into_inner);
        state.instances -= 1;
        if state.instances == 0
            && let Some(fatal) = &state.fatal
        {
            fatal.store(true, Ordering::SeqCst);
        }
    }

    /// Completes when the process receives Ctrl-C (`SIGINT`) or `SIGTERM`, and stays complete from
    /// then on.
    ///
    /// A second signal ends the process at once, as if no handler were installed, so that a hung
    /// shutdown can be interrupted. Any signal also ends the process while no instance exists.
    /// Other handlers installed through the crate `signal-hook` run as well.
    ///
    /// ```no_run
    /// use busypoll::{CancellationToken, Runtime, ShutdownSignal};
    /// use std::time::Duration;
    ///
    /// let mut runtime = Runtime::new()?;
    /// let token = CancellationToken::new();
    /// // … tasks that stop once `token` is cancelled …
    /// runtime.block_on(async { ShutdownSignal::current()?.await })?;
    /// token.cancel();
    /// let drained = runtime.drain(Duration::from_secs(5));
    /// if !drained.is_complete() {
    ///     eprintln!("{drained}");
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// It is neither `Send` nor `Sync`.
    ///
    /// # Cancel safety
    /// Polling it through `&mut` loses nothing. A signal that arrives after the last instance was
    /// dropped ends the process.
    ///
    /// # Platform notes
    /// Unix only, with feature `signal`.
    #[must_use = "futures do nothing unless polled"]
    #[derive(Debug)]
    pub struct ShutdownSignal {
        pipe: Registered<UnixStream>,
        handlers: Vec<SigId>,
        received: bool,
    }

    impl ShutdownSignal {
        /// Handles Ctrl-C and `SIGTERM` in the runtime of this thread.
        ///
        /// # Errors
        /// Returns an error if no descriptor is free, or if the system refuses the handler.
        ///
        /// # Panics
        /// Panics outside [`block_on`](crate::Runtime::block_on).
        pub fn current() -> io::Result<Self> {
            let handle = IoHandle::current();
            let (read, write) = StdStream::pair()?;
            read.set_nonblocking(true)?;
            let pipe = handle.register(UnixStream::from_std(read), Interest::READABLE)?;
            add_instance()?;
            // From here on, the destructor removes the instance.
            let mut this = Self { pipe, handlers: Vec::new(), received: false };
            for signal in SIGNALS {
                this.handlers.push(low_level::pipe::register(signal, write.try_clone()?)?);
            }
            Ok(this)
        }
    }

    impl Future for ShutdownSignal {
        /// An error is returned only if the signal's runtime has been dropped.
        type Output = io::Result<()>;

        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
            if self.received {
                return Poll::Ready(Ok(()));
            }
            let read = self.pipe.poll_read_io(cx, |mut pipe| pipe.read(&mut [0; 1]));
            if matches!(read, Poll::Ready(Ok(_))) {
                self.received = true;
            }
            read.map(|result| result.map(drop))
        }
    }

    impl Drop for ShutdownSignal {
        fn drop(&mut self) {
            for handler in self.handlers.drain(..) {
                low_level::unregister(handler);
            }
            remove_instance();
        }
    }
}
