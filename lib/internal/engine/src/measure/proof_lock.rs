//! The lock of a proof with commands, of which there is one at a time on a machine. It ends with the
//! process that holds it, even if that is killed.

use std::io;

/// Variable whose value is part of the name of the lock, so that tests exclude no others.
#[cfg(target_os = "linux")]
const NAME_VARIABLE: &str = "OSJITTER_PROOF_LOCK";

/// A lock that is released when it is dropped. It holds nothing on a system without such locks.
#[derive(Debug)]
pub struct ProofLock {
    #[cfg(target_os = "linux")]
    _held: Option<std::os::unix::net::UnixDatagram>,
    #[cfg(not(target_os = "linux"))]
    _held: Option<std::fs::File>,
}

#[cfg(target_os = "linux")]
impl ProofLock {
    /// Acquires the lock of a part of a proof: a socket with an abstract name.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::AddrInUse`] if another process holds it.
    pub fn acquire(part: &str) -> io::Result<Self> {
        use std::os::linux::net::SocketAddrExt as _;
        use std::os::unix::net::{SocketAddr, UnixDatagram};
        let own = std::env::var(NAME_VARIABLE).unwrap_or_default();
        let name = SocketAddr::from_abstract_name(format!("osjitter-proof-{part}{own}"))?;
        match UnixDatagram::bind_addr(&name) {
            Ok(socket) => Ok(Self { _held: Some(socket) }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
            // Such as a filter that refuses sockets.
            Err(_) => Ok(Self { _held: None }),
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl ProofLock {
    /// Acquires the lock of a part of a proof: that of a directory which every user can open.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::AddrInUse`] if another process holds it.
    pub fn acquire(part: &str) -> io::Result<Self> {
        use rustix::fs::FlockOperation::NonBlockingLockExclusive;
        let directory = if part == "helper" { "/tmp" } else { "/" };
        let Ok(file) = std::fs::File::open(directory) else { return Ok(Self { _held: None }) };
        match rustix::fs::flock(&file, NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => Err(io::ErrorKind::AddrInUse.into()),
            Ok(()) => Ok(Self { _held: Some(file) }),
            Err(_) => Ok(Self { _held: None }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn lock_excludes_others_until_dropped() {
        let part = format!("test-{}", std::process::id());
        let held = ProofLock::acquire(&part).unwrap();
        let refused = ProofLock::acquire(&part).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        drop(held);
        ProofLock::acquire(&part).unwrap();
    }
}
