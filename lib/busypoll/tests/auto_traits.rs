//! Checks which types stay on their thread, and which can be moved to other threads and shared with
//! them. A wrong statement does not compile.

use std::cell::Cell;
use std::rc::Rc;

use busypoll::channel::{local, mpsc, spsc};
use busypoll::io::{IoHandle, Readiness};
use busypoll::time::{Elapsed, Interval, Sleep, Timeout};
use busypoll::{Builder, CancellationToken, Cancelled, Drained, DropGuard, JoinError, JoinHandle};
use busypoll::{Resources, Runtime, SlabClaim};

/// Checks that a type does not implement a trait. Otherwise two implementations would apply, and the
/// type of the marker could not be inferred.
macro_rules! assert_not {
    ($trait:ident: $($type:ty),+) => {$({
        trait MaybeImplemented<Marker> {
            fn check() {}
        }
        impl<T: ?Sized> MaybeImplemented<()> for T {}
        impl<T: ?Sized + $trait> MaybeImplemented<u8> for T {}
        <$type>::check();
    })+};
}

macro_rules! assert_stays_on_thread {
    ($($type:ty),+) => {
        assert_not!(Send: $($type),+);
        assert_not!(Sync: $($type),+);
    };
}

fn assert_crosses_threads<T: Send + Sync>() {}

#[test]
fn runtime_types_stay_on_thread() {
    assert_stays_on_thread!(Runtime, JoinHandle<()>, SlabClaim, Resources);
    assert_stays_on_thread!(Sleep, Timeout<()>, Interval, IoHandle, Readiness<'_>);
    assert_stays_on_thread!(local::Sender<u8>, local::Receiver<u8>);
}

#[test]
#[cfg(feature = "net")]
fn sockets_stay_on_thread() {
    use busypoll::io::{Registered, TcpListener, TcpStream, UdpSocket};

    assert_stays_on_thread!(TcpListener, TcpStream, UdpSocket, Registered<mio::net::UdpSocket>);
}

#[test]
#[cfg(all(unix, feature = "signal"))]
fn shutdown_signal_stays_on_thread() {
    assert_stays_on_thread!(busypoll::ShutdownSignal);
}

#[test]
fn tokens_and_channels_cross_threads() {
    assert_crosses_threads::<(CancellationToken, Cancelled<'_>, DropGuard)>();
    assert_crosses_threads::<(Builder, Drained, JoinError, Elapsed)>();
    assert_crosses_threads::<(mpsc::Sender<u8>, mpsc::Receiver<u8>, spsc::Sender<u8>)>();
    // A channel moves its values to another thread and never shares them.
    assert_crosses_threads::<(mpsc::Sender<Cell<u8>>, mpsc::Receiver<Cell<u8>>)>();
    assert_not!(Send: mpsc::Sender<Rc<u8>>, mpsc::Receiver<Rc<u8>>, spsc::Sender<Rc<u8>>);
}
