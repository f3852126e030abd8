//! The runtimes and channels that are compared.
//!
//! Only this file depends on their types.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::task::Poll;

use busypoll::channel::{local, mpsc, spsc};
use tokio::sync::mpsc as tokio_mpsc;

/// Behaviour of a runtime while no task is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleMode {
    /// Default behaviour, for loops in which a task is always ready.
    Never,
    /// The runtime stays awake.
    Busy,
    /// The runtime sleeps.
    Parked,
}

/// A future that every compared runtime can spawn.
pub trait Work: Future<Output: Send> + Send + 'static {}

impl<F: Future<Output: Send> + Send + 'static> Work for F {}

/// A runtime that executes tasks on the calling thread.
pub trait Executor {
    /// Runs a future to completion on a new runtime.
    fn run<F: Future>(idle: IdleMode, future: F) -> io::Result<F::Output>;

    /// Spawns a task from within the runtime. The returned future resolves to its output.
    fn spawn<W: Work>(work: W) -> impl Future<Output = W::Output>;
}

/// busypoll with tasks on the heap.
pub struct Busypoll;

/// busypoll with tasks in its slab.
pub struct BusypollSlab;

/// tokio's current-thread runtime.
pub struct Tokio;

/// Size of a slot of the slab, in bytes.
const SLAB_SLOT_BYTES: usize = 256;
/// Number of slots of the slab.
const SLAB_SLOTS: usize = 512;

fn busypoll(idle: IdleMode) -> io::Result<busypoll::Runtime> {
    let parking =
        if idle == IdleMode::Parked { busypoll::Parking::Park } else { busypoll::Parking::Spin };
    busypoll::Runtime::builder().parking(parking).slab(SLAB_SLOT_BYTES, SLAB_SLOTS).build()
}

impl Executor for Busypoll {
    fn run<F: Future>(idle: IdleMode, future: F) -> io::Result<F::Output> {
        Ok(busypoll(idle)?.block_on(future))
    }

    fn spawn<W: Work>(work: W) -> impl Future<Output = W::Output> {
        let handle = busypoll::spawn_boxed(work);
        async { handle.await.expect("the task does not panic") }
    }
}

impl Executor for BusypollSlab {
    fn run<F: Future>(idle: IdleMode, future: F) -> io::Result<F::Output> {
        Busypoll::run(idle, future)
    }

    fn spawn<W: Work>(work: W) -> impl Future<Output = W::Output> {
        let handle = busypoll::spawn_slab(work);
        async { handle.await.expect("the task does not panic") }
    }
}

impl Executor for Tokio {
    /// Runs on a new runtime. A task that only yields keeps it awake, since tokio has no such
    /// setting.
    fn run<F: Future>(idle: IdleMode, future: F) -> io::Result<F::Output> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(runtime.block_on(async {
            if idle == IdleMode::Busy {
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

/// Runs a task of busypoll with the context of a tokio runtime, which needs no thread for this.
pub fn run_bridged<F: Future + 'static>(future: F) -> io::Result<F::Output> {
    let tokio = tokio::runtime::Builder::new_current_thread().build()?;
    busypoll(IdleMode::Never)?.block_on(async {
        let task = busypoll::spawn_boxed(busypoll::compat::with_tokio(tokio.handle(), future));
        task.await.map_err(|error| io::Error::other(error.to_string()))
    })
}

/// A bounded channel of numbers.
pub trait Channel: 'static {
    type Sender;
    type Receiver;

    fn new(capacity: usize) -> (Self::Sender, Self::Receiver);
    /// Sends a value if the channel has a free slot. Returns whether it was sent.
    fn try_send(sender: &mut Self::Sender, value: u64) -> bool;
    /// Receives a value if there is one.
    fn try_recv(receiver: &mut Self::Receiver) -> Option<u64>;
    /// Waits for the next value.
    fn recv(receiver: &mut Self::Receiver) -> impl Future<Output = Option<u64>>;
}

macro_rules! channels {
    ($($name:ident $module:ident;)*) => {$(
        pub struct $name;

        impl Channel for $name {
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

channels! {
    Local local;
    Mpsc mpsc;
    Spsc spsc;
    TokioMpsc tokio_mpsc;
}

/// A runtime that is idle but stays awake until another thread wakes it.
pub trait Idler {
    fn new(timer: bool) -> io::Result<Self>
    where
        Self: Sized;
    /// Runs until `end` is ready, with a registered socket. Returns the number of turns.
    fn run_until<F: Future>(&mut self, end: F) -> io::Result<u64>;
}

/// busypoll, which counts its turns.
pub struct BusypollIdler {
    runtime: busypoll::Runtime,
    timer: bool,
}

impl Idler for BusypollIdler {
    fn new(timer: bool) -> io::Result<Self> {
        Ok(Self { runtime: busypoll(IdleMode::Busy)?, timer })
    }

    fn run_until<F: Future>(&mut self, end: F) -> io::Result<u64> {
        /// Timeout that no measurement reaches.
        const FAR_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(86_400);
        let before = self.runtime.turns();
        let timer = self.timer;
        self.runtime.block_on(async move {
            let _watched = busypoll::io::UdpSocket::bind(ANY_LOCAL_PORT)?;
            if timer {
                let _ = busypoll::time::timeout(FAR_TIMEOUT, end).await;
            } else {
                end.await;
            }
            Ok::<_, io::Error>(())
        })?;
        Ok(self.runtime.turns() - before)
    }
}

/// A free local port.
const ANY_LOCAL_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// tokio, kept awake by a root future that yields. Each yield is a turn that checks I/O and timers.
pub struct TokioIdler(tokio::runtime::Runtime);

impl Idler for TokioIdler {
    fn new(_: bool) -> io::Result<Self> {
        Ok(Self(tokio::runtime::Builder::new_current_thread().enable_all().build()?))
    }

    fn run_until<F: Future>(&mut self, end: F) -> io::Result<u64> {
        self.0.block_on(async {
            let _watched = tokio::net::UdpSocket::bind(ANY_LOCAL_PORT).await?;
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
