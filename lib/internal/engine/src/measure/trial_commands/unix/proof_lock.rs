//! The lock of a proof with commands, of which there is one at a time on a machine. It ends with
//! the process that holds it, even if that is killed.

use std::io;

/// Variable whose value is part of the name of the lock, so that tests exclude no others.
#[cfg(target_os = "linux")]
const NAME_VARIABLE: &str = "OSJITTER_PROOF_LOCK";

/// A lock that is released when it is dropped.
#[derive(Debug)]
pub struct ProofLock {
    #[cfg(target_os = "linux")]
    _held: std::os::unix::net::UnixDatagram,
    #[cfg(not(target_os = "linux"))]
    _held: std::fs::File,
}

#[cfg(target_os = "linux")]
impl ProofLock {
    /// Acquires the lock of a part of a proof: a socket with an abstract name, of which there is
    /// one in each network namespace.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::AddrInUse`] if another process holds it, and another error if the
    /// system refuses it: a proof without a lock could undo the settings of another one.
    pub fn acquire(part: &str) -> io::Result<Self> {
        use std::os::linux::net::SocketAddrExt as _;
        use std::os::unix::net::{SocketAddr, UnixDatagram};
        let own = std::env::var(NAME_VARIABLE).unwrap_or_default();
        let name = SocketAddr::from_abstract_name(format!("osjitter-proof-{part}{own}"))?;
        match UnixDatagram::bind_addr(&name) {
            Ok(socket) => Ok(Self { _held: socket }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
            // Such as a filter that refuses sockets.
            Err(error) => Err(refusal(&error)),
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl ProofLock {
    /// Acquires the lock of a part of a proof: that of a directory which every user can open.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::AddrInUse`] if another process holds it, and another error if the
    /// system refuses it: a proof without a lock could undo the settings of another one.
    pub fn acquire(part: &str) -> io::Result<Self> {
        use rustix::fs::FlockOperation::NonBlockingLockExclusive;
        let directory = if part == "helper" { "/tmp" } else { "/" };
        let file = std::fs::File::open(directory).map_err(|error| refusal(&error))?;
        match rustix::fs::flock(&file, NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => Err(io::ErrorKind::AddrInUse.into()),
            Ok(()) => Ok(Self { _held: file }),
            Err(error) => Err(refusal(&error.into())),
        }
    }
}

/// Names the lock in an error of the system. The kind of that error has another meaning to callers.
fn refusal(error: &io::Error) -> io::Error {
    io::Error::other(format!("cannot acquire the lock of proofs: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_lock_is_an_error() {
        let error = refusal(&io::ErrorKind::NotFound.into());
        assert_eq!(error.kind(), io::ErrorKind::Other, "/proc is not what is missing");
        assert!(error.to_string().starts_with("cannot acquire the lock of proofs: "), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn lock_excludes_others_until_dropped() {
        let part = format!("test-{}", std::process::id());
        let held = ProofLock::acquire(&part).unwrap();
        let refused = ProofLock::acquire(&part).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        drop(held);
        // A process that another test has just started holds a copy of the socket until it executes
        // its program.
        let acquired = (0..1_000_000).any(|_| match ProofLock::acquire(&part) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                std::thread::yield_now();
                false
            }
            result => result.is_ok(),
        });
        assert!(acquired, "the lock is still held");
    }
}
