//! Tests of wakers whose clone calls the library again, for the same value.
#![allow(unsafe_code, reason = "the clone of a safe waker calls no function")]
mod common;

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::ptr::null;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::time::Duration;

use busypoll::channel::{local, mpsc};
use busypoll::{CancellationToken, time};
use common::run_in_every_mode;

const HOUR: Duration = Duration::from_secs(3_600);

thread_local! {
    /// The function that the next clone calls.
    static ON_CLONE: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone_waker, ignore, ignore, ignore);

fn clone_waker(_data: *const ()) -> RawWaker {
    if let Some(on_clone) = ON_CLONE.take() {
        on_clone();
    }
    RawWaker::new(null(), &VTABLE)
}

fn ignore(_data: *const ()) {}

/// Polls a future that has to wait, with a waker whose clone calls a function.
fn poll_reentrantly<F: Future>(future: F, on_clone: impl FnOnce() + 'static) -> Poll<F::Output> {
    ON_CLONE.set(Some(Box::new(on_clone)));
    // SAFETY: the functions of the table ignore the pointer.
    let waker = unsafe { Waker::from_raw(RawWaker::new(null(), &VTABLE)) };
    let polled = pin!(future).poll(&mut Context::from_waker(&waker));
    assert!(ON_CLONE.take().is_none(), "the waker was not cloned");
    polled
}

/// Polls a future that has to wait.
fn poll_once(future: impl Future) {
    assert!(pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[test]
fn clone_may_use_the_token() {
    run_in_every_mode(|_| {
        let token = CancellationToken::new();
        let other = token.clone();
        let polled = poll_reentrantly(token.cancelled(), move || {
            poll_once(other.child_token().cancelled());
            poll_once(other.cancelled());
        });
        assert!(polled.is_pending());
    });
}

#[test]
fn clone_may_use_the_channel() {
    run_in_every_mode(|_| {
        let (sender, _receiver) = mpsc::channel(1);
        sender.try_send(0).unwrap();
        let other = sender.clone();
        let sent = poll_reentrantly(sender.send(1), move || poll_once(other.send(2)));
        assert!(sent.is_pending());

        let (sender, mut receiver) = local::channel(1);
        let other = sender.clone();
        let received = poll_reentrantly(receiver.recv(), move || {
            other.try_send(0).unwrap();
            poll_once(other.send(1));
        });
        assert_eq!(received, Poll::Ready(Some(0)));
        sender.try_send(0).unwrap();
        let other = sender.clone();
        let sent = poll_reentrantly(sender.send(1), move || poll_once(other.send(2)));
        assert!(sent.is_pending());
    });
}

#[test]
fn clone_may_set_a_timer() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let polled = poll_reentrantly(time::sleep(HOUR), || poll_once(time::sleep(HOUR)));
            assert!(polled.is_pending());
        });
    });
}

#[cfg(feature = "net")]
#[test]
fn clone_may_use_the_socket() {
    use std::future::poll_fn;
    use std::rc::Rc;

    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            let socket = busypoll::io::UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let socket = Rc::new(socket);
            let by_future = Rc::clone(&socket);
            let mut buffer = [0; 1];
            let polled = poll_reentrantly(socket.recv_from(&mut buffer), move || {
                poll_once(by_future.recv_from(&mut [0; 1]));
            });
            assert!(polled.is_pending());
            let by_method = Rc::clone(&socket);
            let polled =
                poll_reentrantly(poll_fn(|cx| socket.poll_recv_from(cx, &mut [0; 1])), move || {
                    poll_once(poll_fn(|cx| by_method.poll_recv_from(cx, &mut [0; 1])))
                });
            assert!(polled.is_pending());
        });
    });
}
