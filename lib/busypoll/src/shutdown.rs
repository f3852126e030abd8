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

    /// The flag of [`SignalState`], as it was when an instance was added.
    struct SignalFlag {
        fatal: Arc<AtomicBool>,
        was_set: bool,
    }

    impl SignalFlag {
        /// Returns whether a signal has come since the instance was added.
        fn has_changed(&self) -> bool {
            !self.was_set && self.fatal.load(Ordering::SeqCst)
        }
    }

    /// Adds an instance, and installs the handlers for the first one. Handlers run in the order of
    /// their registration, so the conditional default reads the flag before the signal sets it.
    fn add_instance() -> io::Result<SignalFlag> {
        let mut state = SIGNAL_STATE.lock().unwrap_or_else(PoisonError::into_inner);
        let fatal = match &state.fatal {
            Some(fatal) => Arc::clone(fatal),
            None => {
                // Set until all handlers are installed: the first of them suppresses the default.
                let fatal = Arc::new(AtomicBool::new(true));
                for signal in SIGNALS {
                    flag::register_conditional_default(signal, Arc::clone(&fatal))?;
                    flag::register(signal, Arc::clone(&fatal))?;
                }
                state.fatal = Some(Arc::clone(&fatal));
                fatal
            }
        };
        let was_set = if state.instances == 0 {
            fatal.store(false, Ordering::SeqCst);
            false
        } else {
            fatal.load(Ordering::SeqCst)
        };
        state.instances += 1;
        Ok(SignalFlag { fatal, was_set })
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
            let flag = add_instance()?;
            // From here on, the destructor removes the instance.
            let mut this = Self { pipe, handlers: Vec::new(), received: false };
            this.install_handlers(&write, &flag)?;
            Ok(this)
        }

        /// Installs the handlers that write to the pipe of this instance.
        fn install_handlers(&mut self, write: &StdStream, flag: &SignalFlag) -> io::Result<()> {
            for signal in SIGNALS {
                self.handlers.push(low_level::pipe::register(signal, write.try_clone()?)?);
            }
            // A signal that came before its handler has only set the flag.
            self.received = flag.has_changed();
            Ok(())
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

    #[cfg(all(test, not(loom)))]
    mod tests {
        use std::pin::pin;
        use std::task::Waker;

        use super::*;
        use crate::Runtime;

        #[test]
        #[cfg_attr(miri, ignore = "Miri has no signals")]
        fn signal_during_creation_is_received() {
            Runtime::new().unwrap().block_on(async {
                let (read, write) = StdStream::pair().unwrap();
                read.set_nonblocking(true).unwrap();
                let read = UnixStream::from_std(read);
                let pipe = IoHandle::current().register(read, Interest::READABLE).unwrap();
                let flag = add_instance().unwrap();
                let mut signal = ShutdownSignal { pipe, handlers: Vec::new(), received: false };
                low_level::raise(SIGTERM).unwrap();
                signal.install_handlers(&write, &flag).unwrap();
                let mut cx = Context::from_waker(Waker::noop());
                assert!(pin!(&mut signal).poll(&mut cx).is_ready());
                // A later instance waits for a signal of its own.
                let later = ShutdownSignal::current().unwrap();
                assert!(pin!(later).poll(&mut cx).is_pending());
            });
        }
    }
}
