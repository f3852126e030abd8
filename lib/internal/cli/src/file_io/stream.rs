//! Writing to pipes, terminals and devices, whose readers may be slow or stop reading.

use std::io;
use std::path::Path;

/// Writes to standard output and waits while it is full, also if it does not block.
///
/// # Errors
/// Returns an error if it cannot be written, or if an interrupt has come and its reader does not
/// read.
pub fn write_stdout(bytes: &[u8]) -> io::Result<()> {
    imp::write_stdout(bytes)
}

/// Writes to a pipe or a device. Waits until a pipe has a reader.
///
/// # Errors
/// Returns an error if it cannot be written, or if an interrupt has come and its reader does not
/// read.
pub fn write_device(path: &Path, bytes: &[u8]) -> io::Result<()> {
    imp::write_device(path, bytes)
}

#[cfg(unix)]
mod imp {
    use std::fs::OpenOptions;
    use std::io;
    use std::os::fd::{AsFd as _, BorrowedFd};
    use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
    use std::path::Path;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::OFlags;
    use rustix::io::{Errno, write};
    use rustix::pipe::PIPE_BUF;

    use crate::interrupt;

    /// Interval at which interrupts are polled.
    const POLL_INTERVAL: Duration = Duration::from_millis(50);
    /// Time after which a reader that has read nothing is given up, once an interrupt has come.
    const STALL_TIMEOUT: Duration = Duration::from_secs(1);

    pub fn write_stdout(bytes: &[u8]) -> io::Result<()> {
        let stdout = io::stdout().lock();
        write_all(stdout.as_fd(), bytes)
    }

    pub fn write_device(path: &Path, bytes: &[u8]) -> io::Result<()> {
        let is_pipe = std::fs::metadata(path)?.file_type().is_fifo();
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
        loop {
            let opened = OpenOptions::new().write(true).custom_flags(flags).open(path);
            match opened {
                Err(e) if is_pipe && Errno::from_io_error(&e) == Some(Errno::NXIO) => {
                    if interrupt::has_come() {
                        return Err(stalled());
                    }
                    std::thread::park_timeout(POLL_INTERVAL);
                }
                opened => return write_all(opened?.as_fd(), bytes),
            }
        }
    }

    /// Writes in parts that a pipe accepts without blocking, if it accepts any.
    fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
        let timeout = Timespec::try_from(POLL_INTERVAL).map_err(io::Error::other)?;
        let mut last_progress = tach::Instant::now();
        while !bytes.is_empty() {
            let mut polled = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
            let written = match poll(&mut polled, Some(&timeout)) {
                Ok(0) => Err(Errno::AGAIN),
                Ok(_) => write(to, &bytes[..bytes.len().min(PIPE_BUF)]).inspect_err(|error| {
                    // Some devices seem writable although they are full.
                    if *error == Errno::AGAIN {
                        std::thread::park_timeout(POLL_INTERVAL);
                    }
                }),
                Err(error) => Err(error),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    last_progress = tach::Instant::now();
                }
                Err(Errno::INTR | Errno::AGAIN) => {
                    if last_progress.elapsed() >= STALL_TIMEOUT && interrupt::has_come() {
                        return Err(stalled());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn stalled() -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, "interrupted, and its reader does not read")
    }

    #[cfg(test)]
    mod tests {
        use std::io::Read as _;

        use rustix::io::ioctl_fionbio;

        use super::*;

        #[test]
        fn full_nonblocking_pipe_is_waited_for() {
            let (mut reader, writer) = io::pipe().unwrap();
            ioctl_fionbio(&writer, true).unwrap();
            let sent: Vec<u8> = (0..1_000_000_u32).map(|n| n as u8).collect();
            let expected = sent.clone();
            let thread = std::thread::spawn(move || write_all(writer.as_fd(), &sent));
            let mut received = Vec::new();
            reader.read_to_end(&mut received).unwrap();
            thread.join().unwrap().unwrap();
            assert!(received == expected);
        }
    }
}

#[cfg(not(unix))]
mod imp {
    use std::fs::OpenOptions;
    use std::io::{self, Write as _};
    use std::path::Path;

    pub fn write_stdout(bytes: &[u8]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }

    pub fn write_device(path: &Path, bytes: &[u8]) -> io::Result<()> {
        OpenOptions::new().write(true).open(path)?.write_all(bytes)
    }
}
