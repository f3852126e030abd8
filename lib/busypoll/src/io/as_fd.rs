//! Access to the descriptors of sockets, for options without a method in this crate.

use super::tcp::{TcpListener, TcpStream};
use super::udp::UdpSocket;

macro_rules! descriptors {
    ($($socket:ty)*) => { $(
        #[cfg(unix)]
        impl std::os::fd::AsFd for $socket {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.0.get_ref().as_fd()
            }
        }

        #[cfg(unix)]
        impl std::os::fd::AsRawFd for $socket {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                self.0.get_ref().as_raw_fd()
            }
        }

        #[cfg(windows)]
        impl std::os::windows::io::AsRawSocket for $socket {
            fn as_raw_socket(&self) -> std::os::windows::io::RawSocket {
                self.0.get_ref().as_raw_socket()
            }
        }
    )* };
}

descriptors!(TcpListener TcpStream UdpSocket);
