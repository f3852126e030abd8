//! The end of the standard error of a program, for messages.

use std::fmt;
use std::io::{self, Read};
use std::process::ChildStderr;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use super::{KILL_TIMEOUT, spawn_watcher};
use cli::printable::to_printable;

/// Size of the end of standard error that is kept.
const STDERR_TAIL_BYTES: usize = 64 << 10;
/// Size of the end of standard error that a message quotes.
const STDERR_QUOTE_BYTES: usize = 400;

/// Reads the standard error of a program until it is closed, then drops the sender.
fn read_tail(mut stderr: ChildStderr, tail: &Mutex<Vec<u8>>, closed: mpsc::Sender<()>) {
    let mut chunk = vec![0; STDERR_TAIL_BYTES];
    while let Ok(n @ 1..) = stderr.read(&mut chunk) {
        keep_last(&mut tail.lock().unwrap_or_else(PoisonError::into_inner), &chunk[..n]);
    }
    drop(closed);
}

/// The end of the standard error of a program.
///
/// It is read while the program runs, so that the program never blocks on a full pipe.
pub(super) struct StderrTail {
    tail: Arc<Mutex<Vec<u8>>>,
    closed: mpsc::Receiver<()>,
}

impl StderrTail {
    pub(super) fn listen(stderr: ChildStderr) -> io::Result<Self> {
        let tail = Arc::new(Mutex::new(Vec::new()));
        let (sender, closed) = mpsc::channel();
        let kept = Arc::clone(&tail);
        spawn_watcher(move || read_tail(stderr, &kept, sender))?;
        Ok(Self { tail, closed })
    }

    /// Quotes the end of standard error.
    ///
    /// Processes that have escaped may keep the pipe open, so the wait has a timeout.
    pub(super) fn quote(self) -> StderrQuote {
        let _ = self.closed.recv_timeout(KILL_TIMEOUT);
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&tail[tail.len().saturating_sub(STDERR_QUOTE_BYTES)..]);
        StderrQuote(to_printable(&text.trim().replace('\t', " ")))
    }
}

/// The end of the standard error of a program, as a part of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StderrQuote(String);

impl fmt::Display for StderrQuote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "; stderr: {}", self.0) }
    }
}

/// Appends bytes and keeps only the last [`STDERR_TAIL_BYTES`].
fn keep_last(tail: &mut Vec<u8>, more: &[u8]) {
    let excess = (tail.len() + more.len()).saturating_sub(STDERR_TAIL_BYTES);
    tail.drain(..excess.min(tail.len()));
    tail.extend_from_slice(&more[more.len().saturating_sub(STDERR_TAIL_BYTES)..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stderr_tail_is_bounded() {
        let mut tail = Vec::new();
        for (length, byte) in [
            (10, 0),
            (STDERR_TAIL_BYTES, 1),
            (3, 2),
            (3 * STDERR_TAIL_BYTES, 3),
            (STDERR_TAIL_BYTES - 1, 4),
        ] {
            keep_last(&mut tail, &vec![byte; length]);
            assert!(
                tail.len() <= STDERR_TAIL_BYTES
                    && tail.ends_with(&vec![byte; length.min(STDERR_TAIL_BYTES)])
            );
        }
        assert_eq!((tail.len(), tail[0]), (STDERR_TAIL_BYTES, 3));
    }
}
