//! The runtimes and channels that are compared: the only place that knows them.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::task::Poll;

use busypoll::channel::{local, mpsc, spsc};
use tokio::sync::mpsc as tokio_mpsc;

/// What a runtime is to do while nothing is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// As it always does; there is no such moment.
    Never,
    /// Stay awake.
    Busy,
    /// Sleep.
    Parked,
}

/// What can be a task.
pub trait Work: Future<Output: Send> + Send + 'static {}

impl<F: Future<Output: Send> + Send + 'static> Work for F {}

/// A way to run tasks, on a thread of its own.
pub trait Executor {
    /// Runs a future to its end on a fresh runtime.
    fn run<F: Future>(idle: Idle, future: F) -> io::Result<F::Output>;

    /// Spawns a task inside of it. The future gives its output.
    fn spawn<W: Work>(work: W) -> impl Future<Output = W::Output>;
}

/// busypoll, tasks on the heap.
pub struct Busypoll;

/// busypoll, tasks in its slab.
pub struct BusypollSlab;

/// tokio's current-thread runtime.
pub struct Tokio;

/// Size of a slot, in bytes, and number of slots.
const SLAB: (usize, usize) = (256, 512);

fn busypoll(idle: Idle) -> io::Result<busypoll::Runtime> {
    let parking =
        if idle == Idle::Parked { busypoll::Parking::Park } else { busypoll::Parking::Spin };
    busypoll::Runtime::builder().parking(parking).slab(SLAB.0, SLAB.1).build()
}

impl Executor for Busypoll {
    fn run<F: Future>(idle: Idle, future: F) -> io::Result<F::Output> {
        Ok(busypoll(idle)?.block_on(future))
    }

    fn spawn<W: Work>(work: W) -> impl Future<Output = W::Output> {
        let handle = busypoll::spawn_boxed(work);
        async { handle.await.expect("the task does not panic") }
    }
}

impl Executor for BusypollSlab {
    fn run<F: Future>(idle: Idle, future: F) -> io::Result<F::Output> {
        Busypoll::run(idle, future)
    }

    fn spawn<W: Work>(work: W) -> impl Future<Output = W::Output> {
        let handle = busypoll::spawn_slab(work);
        async { handle.await.expect("the task does not panic") }
    }
}

impl Executor for Tokio {
    /// Kept awake by a task that does nothing but yield: tokio has no setting for it.
    fn run<F: Future>(idle: Idle, future: F) -> io::Result<F::Output> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(runtime.block_on(async {
            if idle == Idle::Busy {
                tokio::spawn(async {
                    loop {
                        tokio::task::yield_now().await;
                    }
                });
            }
            future.await
        }))
    }

    fn spawn<W: Work>(work: W) -> impl Future<Output = W::Output> {
        let handle = tokio::spawn(work);
        async { handle.await.expect("the task does not panic") }
    }
}

/// Runs a task of busypoll's inside a tokio runtime: polled by the one, with the other around it.
pub fn bridged<F: Future + 'static>(future: F) -> io::Result<F::Output> {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?;
    busypoll(Idle::Never)?.block_on(async {
        let task = busypoll::spawn_boxed(busypoll::compat::with_tokio(tokio.handle(), future));
        task.await.map_err(|error| io::Error::other(error.to_string()))
    })
}

/// A bounded channel of numbers.
pub trait Pipe: 'static {
    type Sender;
    type Receiver;

    fn new(capacity: usize) -> (Self::Sender, Self::Receiver);
    /// Sends if there is room; whether there was.
    fn try_send(sender: &mut Self::Sender, value: u64) -> bool;
    /// Receives what is there.
    fn try_recv(receiver: &mut Self::Receiver) -> Option<u64>;
    /// Waits for the next.
    fn recv(receiver: &mut Self::Receiver) -> impl Future<Output = Option<u64>>;
}

macro_rules! pipes {
    ($($name:ident $module:ident;)*) => {$(
        pub struct $name;

        impl Pipe for $name {
            type Sender = $module::Sender<u64>;
            type Receiver = $module::Receiver<u64>;

            fn new(capacity: usize) -> (Self::Sender, Self::Receiver) {
                $module::channel(capacity)
            }

            #[inline]
            fn try_send(sender: &mut Self::Sender, value: u64) -> bool {
                sender.try_send(value).is_ok()
            }

            #[inline]
            fn try_recv(receiver: &mut Self::Receiver) -> Option<u64> {
                receiver.try_recv().ok()
            }

            fn recv(receiver: &mut Self::Receiver) -> impl Future<Output = Option<u64>> {
                receiver.recv()
            }
        }
    )*};
}

pipes! {
    Local local;
    Mpsc mpsc;
    Spsc spsc;
    TokioMpsc tokio_mpsc;
}

/// A runtime that goes round with nothing to do, while another thread waits for the end of it.
pub trait Idler {
    fn new(timer: bool) -> io::Result<Self>
    where
        Self: Sized;
    /// Runs until `end` wakes it, with a socket watched; how many turns that were.
    fn turns<F: Future>(&mut self, end: F) -> io::Result<u64>;
}

/// busypoll, counted by itself.
pub struct BusypollIdler {
    runtime: busypoll::Runtime,
    timer: bool,
}

impl Idler for BusypollIdler {
    fn new(timer: bool) -> io::Result<Self> {
        Ok(Self { runtime: busypoll(Idle::Busy)?, timer })
    }

    fn turns<F: Future>(&mut self, end: F) -> io::Result<u64> {
        /// No measurement takes as long.
        const FAR: std::time::Duration = std::time::Duration::from_secs(86_400);
        let before = self.runtime.turns();
        let timer = self.timer;
        self.runtime.block_on(async move {
            let _watched = busypoll::io::UdpSocket::bind(ANY)?;
            if timer {
                let _ = busypoll::time::timeout(FAR, end).await;
            } else {
                end.await;
            }
            Ok::<_, io::Error>(())
        })?;
        Ok(self.runtime.turns() - before)
    }
}

/// A port of this machine that nobody else has.
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// tokio, kept awake by a root that yields: each yield is a turn with a look at I/O and timers.
pub struct TokioIdler(tokio::runtime::Runtime);

impl Idler for TokioIdler {
    fn new(_: bool) -> io::Result<Self> {
        Ok(Self(tokio::runtime::Builder::new_current_thread().enable_all().build()?))
    }

    fn turns<F: Future>(&mut self, end: F) -> io::Result<u64> {
        self.0.block_on(async {
            let _watched = tokio::net::UdpSocket::bind(ANY).await?;
            let mut end = std::pin::pin!(end);
            let mut turns = 0;
            loop {
                turns += 1;
                if poll_fn(|cx| Poll::Ready(end.as_mut().poll(cx).is_ready())).await {
                    return Ok(turns);
                }
                tokio::task::yield_now().await;
            }
        })
    }
}
