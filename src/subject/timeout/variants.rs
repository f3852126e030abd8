//! The variants. Where a message and a timer are both waited for, the message is polled first, always.

use std::future::{Future, Pending, pending, poll_fn};
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Instant, sleep_until, timeout};

use super::deadline::Deadlines;
use super::{Tally, Variant};

/// Waits for the message, or for the timer; `registers` says that its first poll registers it.
async fn race<F: Future, T: Tally>(
    message: F,
    mut timer: Pin<&mut tokio::time::Sleep>,
    mut registers: bool,
) -> Option<F::Output> {
    let mut message = pin!(message);
    poll_fn(|cx| {
        if let Poll::Ready(value) = message.as_mut().poll(cx) {
            return Poll::Ready(Some(value));
        }
        if std::mem::take(&mut registers) {
            T::registered();
        }
        timer.as_mut().poll(cx).map(|()| None)
    })
    .await
}

/// No timeout.
pub struct Baseline;

impl Variant for Baseline {
    const FIRES: bool = false;

    fn new(_: Duration) -> Self {
        Self
    }

    async fn wait<F: Future<Output: Send> + Send>(self: Pin<&mut Self>, message: F) -> Option<F::Output> {
        Some(message.await)
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

    async fn wait<F: Future<Output: Send> + Send>(self: Pin<&mut Self>, message: F) -> Option<F::Output> {
        T::made();
        timeout(self.length, tell_pending::<F, T>(message)).await.ok()
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

    async fn wait<F: Future<Output: Send> + Send>(self: Pin<&mut Self>, message: F) -> Option<F::Output> {
        let this = self.project();
        T::made();
        let timer = pin!(sleep_until(this.deadlines.after(*this.length)));
        race::<F, T>(message, timer, true).await
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

    async fn wait<F: Future<Output: Send> + Send>(mut self: Pin<&mut Self>, message: F) -> Option<F::Output> {
        self.as_mut().arm();
        race::<F, T>(message, self.project().timer, false).await
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

    async fn wait<F: Future<Output: Send> + Send>(mut self: Pin<&mut Self>, message: F) -> Option<F::Output> {
        self.as_mut().arm();
        race::<F, T>(message, self.timer.as_mut(), false).await
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

    async fn wait<F: Future<Output: Send> + Send>(mut self: Pin<&mut Self>, message: F) -> Option<F::Output> {
        let result = self.as_mut().project().idle.guard(message).await.ok();
        self.tell();
        result
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
