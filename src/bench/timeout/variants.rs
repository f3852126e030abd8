//! The variants. Where a message and a timer are both waited for, the message is polled first, always.

use std::future::{Future, Pending, pending};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Instant, sleep_until, timeout};

use crate::bench::timeout::deadline::Deadlines;
use crate::bench::timeout::subject::{Tally, Variant};

pin_project! {
    /// Waits for the message, or for the timer. Structures and not `async` blocks here and below: a block would move a
    /// message that it captures once more, and what is compared is what the ways of waiting cost.
    struct Race<F, S, T> {
        #[pin]
        message: F,
        #[pin]
        timer: S,
        // The first poll of the timer registers it.
        registers: bool,
        tally: PhantomData<fn() -> T>,
    }
}

impl<F: Future, S: Future, T: Tally> Future for Race<F, S, T> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(value) = this.message.poll(cx) {
            return Poll::Ready(Some(value));
        }
        if std::mem::take(this.registers) {
            T::registered();
        }
        this.timer.poll(cx).map(|_| None)
    }
}

pin_project! {
    /// Waits for a message that is one already.
    struct Plain<F> {
        #[pin]
        message: F,
    }
}

impl<F: Future> Future for Plain<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().message.poll(cx).map(Some)
    }
}

pin_project! {
    /// Waits for a message that may turn out to be an error: a timeout.
    struct Fallible<F> {
        #[pin]
        message: F,
    }
}

impl<V, E, F: Future<Output = Result<V, E>>> Future for Fallible<F> {
    type Output = Option<V>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().message.poll(cx).map(Result::ok)
    }
}

/// No timeout.
pub struct Baseline;

impl Variant for Baseline {
    const FIRES: bool = false;

    fn new(_: Duration) -> Self {
        Self
    }

    fn wait<F: Future<Output: Send> + Send>(
        self: Pin<&mut Self>,
        message: F,
    ) -> impl Future<Output = Option<F::Output>> + Send {
        Plain { message }
    }

    fn arm(self: Pin<&mut Self>) {}

    fn poll_armed(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

pin_project! {
    /// `tokio::time::timeout`, made for each wait.
    pub struct Timeout<T> {
        length: Duration,
        #[pin]
        armed: Option<tokio::time::Timeout<Pending<()>>>,
        fresh: bool,
        tally: PhantomData<fn() -> T>,
    }
}

impl<T: Tally> Variant for Timeout<T> {
    fn new(length: Duration) -> Self {
        Self { length, armed: None, fresh: false, tally: PhantomData }
    }

    fn wait<F: Future<Output: Send> + Send>(
        self: Pin<&mut Self>,
        message: F,
    ) -> impl Future<Output = Option<F::Output>> + Send {
        T::made();
        Fallible { message: timeout(self.length, tell_pending::<F, T>(message)) }
    }

    fn arm(self: Pin<&mut Self>) {
        T::made();
        let mut this = self.project();
        this.armed.set(Some(timeout(*this.length, pending())));
        *this.fresh = true;
    }

    fn poll_armed(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if std::mem::take(this.fresh) {
            T::registered();
        }
        this.armed.as_pin_mut().map_or(Poll::Pending, |armed| armed.poll(cx).map(|_| ()))
    }
}

pin_project! {
    /// Counts the first poll that finds nothing there: it is what makes tokio's `Timeout` register its timer.
    struct TellPending<F, T> {
        #[pin]
        message: F,
        told: bool,
        tally: PhantomData<fn() -> T>,
    }
}

fn tell_pending<F, T>(message: F) -> TellPending<F, T> {
    TellPending { message, told: false, tally: PhantomData }
}

impl<F: Future, T: Tally> Future for TellPending<F, T> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let result = this.message.poll(cx);
        if result.is_pending() && !std::mem::replace(this.told, true) {
            T::registered();
        }
        result
    }
}

pin_project! {
    /// A `Sleep` made for each wait.
    pub struct Sleep<D, T> {
        length: Duration,
        deadlines: D,
        #[pin]
        armed: Option<tokio::time::Sleep>,
        fresh: bool,
        tally: PhantomData<fn() -> T>,
    }
}

impl<D: Deadlines, T: Tally> Variant for Sleep<D, T> {
    fn new(length: Duration) -> Self {
        Self { length, deadlines: D::new(), armed: None, fresh: false, tally: PhantomData }
    }

    fn wait<F: Future<Output: Send> + Send>(
        self: Pin<&mut Self>,
        message: F,
    ) -> impl Future<Output = Option<F::Output>> + Send {
        let this = self.project();
        T::made();
        let timer = sleep_until(this.deadlines.after(*this.length));
        Race { message, timer, registers: true, tally: PhantomData::<fn() -> T> }
    }

    fn arm(self: Pin<&mut Self>) {
        T::made();
        let mut this = self.project();
        let deadline = this.deadlines.after(*this.length);
        this.armed.set(Some(sleep_until(deadline)));
        *this.fresh = true;
    }

    fn poll_armed(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if std::mem::take(this.fresh) {
            T::registered();
        }
        this.armed.as_pin_mut().map_or(Poll::Pending, |armed| armed.poll(cx))
    }
}

pin_project! {
    /// One `Sleep`, reset for each wait.
    pub struct ReusedSleep<D, T> {
        length: Duration,
        deadlines: D,
        #[pin]
        timer: tokio::time::Sleep,
        tally: PhantomData<fn() -> T>,
    }
}

impl<D: Deadlines, T: Tally> Variant for ReusedSleep<D, T> {
    fn new(length: Duration) -> Self {
        T::made();
        Self { length, deadlines: D::new(), timer: sleep_until(Instant::now() + length), tally: PhantomData }
    }

    fn wait<F: Future<Output: Send> + Send>(
        mut self: Pin<&mut Self>,
        message: F,
    ) -> impl Future<Output = Option<F::Output>> + Send {
        self.as_mut().arm();
        Race { message, timer: self.project().timer, registers: false, tally: PhantomData::<fn() -> T> }
    }

    fn arm(self: Pin<&mut Self>) {
        T::registered();
        let this = self.project();
        let deadline = this.deadlines.after(*this.length);
        this.timer.reset(deadline);
    }

    fn poll_armed(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().timer.poll(cx)
    }
}

/// The same in a box.
pub struct ReusedBoxedSleep<D, T> {
    length: Duration,
    deadlines: D,
    timer: Pin<Box<tokio::time::Sleep>>,
    tally: PhantomData<fn() -> T>,
}

impl<D: Deadlines + Unpin, T: Tally> Variant for ReusedBoxedSleep<D, T> {
    fn new(length: Duration) -> Self {
        T::made();
        let timer = Box::pin(sleep_until(Instant::now() + length));
        Self { length, deadlines: D::new(), timer, tally: PhantomData }
    }

    fn wait<F: Future<Output: Send> + Send>(
        mut self: Pin<&mut Self>,
        message: F,
    ) -> impl Future<Output = Option<F::Output>> + Send {
        self.as_mut().arm();
        let timer = self.get_mut().timer.as_mut();
        Race { message, timer, registers: false, tally: PhantomData::<fn() -> T> }
    }

    fn arm(mut self: Pin<&mut Self>) {
        T::registered();
        let length = self.length;
        let deadline = self.deadlines.after(length);
        self.timer.as_mut().reset(deadline);
    }

    fn poll_armed(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.timer.as_mut().poll(cx)
    }
}

pin_project! {
    /// Our own: touched, not armed.
    pub struct IdleTimeout<C: idletimeout::Clock, T> {
        #[pin]
        idle: idletimeout::IdleTimeout<C>,
        registrations: u64,
        tally: PhantomData<fn() -> T>,
    }
}

impl<C: idletimeout::Clock, T: Tally> IdleTimeout<C, T> {
    /// Tells what was registered since it was last asked.
    fn tell(self: Pin<&mut Self>) {
        if T::ON {
            let this = self.project();
            let now = this.idle.registrations();
            (*this.registrations..now).for_each(|_| T::registered());
            *this.registrations = now;
        }
    }
}

impl<C, T: Tally> Variant for IdleTimeout<C, T>
where
    C: idletimeout::Clock<Stamp: Send + Sync> + Default + Send + Sync + 'static,
{
    fn new(length: Duration) -> Self {
        T::made();
        let idle = idletimeout::IdleTimeout::with_clock(length, C::default());
        Self { idle, registrations: 0, tally: PhantomData }
    }

    fn wait<F: Future<Output: Send> + Send>(
        mut self: Pin<&mut Self>,
        message: F,
    ) -> impl Future<Output = Option<F::Output>> + Send {
        self.as_mut().tell();
        Fallible { message: self.project().idle.guard(message) }
    }

    fn begin(self: Pin<&mut Self>) {
        self.project().idle.touch();
    }

    fn arm(self: Pin<&mut Self>) {
        self.project().idle.touch();
    }

    fn poll_armed(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let result = self.as_mut().project().idle.poll(cx).map(|_| ());
        self.tell();
        result
    }
}
